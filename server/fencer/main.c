/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast-fencer: argv, then the event loop. */

#include "base/arguments.h"
#include "base/cleanup.h"
#include "base/exit_code.h"
#include "base/path.h"
#include "base/str.h"
#include "fencer/fencer.h"
#include "log/log.h"
#include "log/service.h"

#include <signal.h>
#include <stdio.h>
#include <syslog.h>
#include <unistd.h>

enum { EXIT_OK = 0, EXIT_FAILED = 1 };

static const char usage_text[] =
	"usage: holdfast-fencer [--config FILE] [--check-config]\n"
	"\n"
	"Switches failed nodes of Holdfast off by fence agents, by signed orders of the "
	"claim server.\n"
	"\n"
	"  -c, --config FILE   root's file (default " HOLDFAST_FENCER_SETTINGS ")\n"
	"      --agents DIR    folder of the fence agents (default /usr/sbin)\n"
	"      --check-config  read the file, print its mistakes, and end\n"
	"  -V, --version       print the version\n"
	"  -h, --help          print this text\n";

static enum status add_signals(sd_event *event, struct error *err)
{
	sigset_t set;
	int r;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGCHLD);
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return error_set(err, STATUS_INTERNAL, errno, "block signals");
	r = sd_event_add_signal(event, NULL, SIGTERM, NULL, NULL);
	if (r >= 0)
		r = sd_event_add_signal(event, NULL, SIGINT, NULL, NULL);
	return r < 0 ? error_set(err, STATUS_INTERNAL, r, "set up the event loop") : STATUS_OK;
}

static enum status run(const struct fencer_settings *settings, struct error *err)
{
	struct service_watchdog *watchdog = NULL;
	struct fencer *fencer = NULL;
	sd_event *event = NULL;
	enum status status;
	int r = sd_event_new(&event);

	if (r < 0)
		return error_set(err, STATUS_INTERNAL, r, "make an event loop");
	status = add_signals(event, err);
	if (status == STATUS_OK)
		status = service_watchdog_new(event, &watchdog, err);
	if (status == STATUS_OK)
		status = fencer_new(event, settings, &fencer, err);
	if (status == STATUS_OK) {
		(void)service_send("READY=1\n");
		r = sd_event_loop(event);
		if (r != 0)
			status = error_set(err, STATUS_INTERNAL, r, "the event loop ended");
	}
	fencer_free(fencer);
	service_watchdog_free(watchdog);
	(void)sd_event_unref(event);
	return status;
}

static int fail(const struct error *err)
{
	service_failed(err);
	log_last("holdfast-fencer", err);
	return exit_code_of_start(err);
}

int main(int argc, char **argv)
{
	const char *path = HOLDFAST_FENCER_SETTINGS, *agent_dir = NULL;
	bool is_check = false;
	const struct argument options[] = {{"config", 'c', &path, NULL},
					   {"agents", '\0', &agent_dir, NULL},
					   {"check-config", '\0', NULL, &is_check}};
	const struct arguments args = {"holdfast-fencer", HOLDFAST_VERSION, usage_text, options,
				       ARRAY_SIZE(options)};
	struct fencer_settings settings = {.n_nodes = 0};
	enum status status;
	struct error err;
	int exit_code;

	exit_code = arguments_parse(&args, argc, argv);
	if (exit_code >= 0)
		return exit_code;
	service_hide_memory();
	status = fencer_settings_load(path, &settings, &err);
	if (status == STATUS_OK && agent_dir &&
	    (!path_is_normal(agent_dir) ||
	     str_copy(settings.agent_dir, sizeof(settings.agent_dir), agent_dir) < 0))
		status = error_set(&err, STATUS_INVALID_ARGUMENT, 0, "--agents: %s is no absolute path",
				   agent_dir);
	if (status != STATUS_OK)
		return fail(&err);
	if (!is_check) {
		log_init("holdfast-fencer", LOG_INFO);
		status = run(&settings, &err);
	}
	fencer_settings_release(&settings);
	return status == STATUS_OK ? EXIT_OK : fail(&err);
}
