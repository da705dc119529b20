/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/unfinished.h"

#include "base/cleanup.h"

#include <signal.h>
#include <unistd.h>

static const char *unfinished;

static void on_signal(int signal)
{
	(void)unlink(unfinished);
	(void)raise(signal);
}

void unfinished_remove_at_signal(const char *path)
{
	static const int signals[] = {SIGHUP, SIGINT, SIGTERM};
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND}, before;

	unfinished = path;
	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		if (sigaction(signals[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
			(void)sigaction(signals[i], &action, NULL);
}
