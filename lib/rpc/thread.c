/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/thread.h"

#include <signal.h>

int thread_start(size_t stack, void *(*run)(void *userdata), void *userdata, pthread_t *ret)
{
	pthread_attr_t attr;
	sigset_t all, before;
	int r = pthread_attr_init(&attr);

	if (r != 0)
		return -r;
	(void)sigfillset(&all);
	if (stack > 0)
		r = pthread_attr_setstacksize(&attr, stack);
	if (r == 0)
		r = pthread_sigmask(SIG_SETMASK, &all, &before);
	if (r == 0) {
		r = pthread_create(ret, &attr, run, userdata);
		(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	}
	(void)pthread_attr_destroy(&attr);
	return -r;
}
