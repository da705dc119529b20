/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast-fencer: argv, then the event loop. */

#include "base/cleanup.h"
#include "base/exit_code.h"
#include "base/path.h"
#include "base/str.h"
#include "fencer/fencer.h"
#include "log/log.h"
#include "log/service.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <syslog.h>
#include <unistd.h>

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };
enum long_option { OPTION_CHECK = 256, OPTION_AGENTS };

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

static const struct option options[] = {
	{"config", required_argument, NULL, 'c'},
	{"agents", required_argument, NULL, OPTION_AGENTS},
	{"check-config", no_argument, NULL, OPTION_CHECK},
	{"version", no_argument, NULL, 'V'},
	{"help", no_argument, NULL, 'h'},
	{0},
};

struct arguments {
	const char *config_path, *agent_dir;
	bool is_check;
	int exit_code; /* negative: continue */
};

static void parse_arguments(int argc, char **argv, struct arguments *args)
{
	int c;

	while ((c = getopt_long(argc, argv, "c:Vh", options, NULL)) >= 0) {
		switch (c) {
		case 'c':
			args->config_path = optarg;
			break;
		case OPTION_AGENTS:
			args->agent_dir = optarg;
			break;
		case OPTION_CHECK:
			args->is_check = true;
			break;
		case 'V':
			(void)puts("holdfast-fencer " HOLDFAST_VERSION);
			args->exit_code = EXIT_OK;
			return;
		case 'h':
			(void)fputs(usage_text, stdout);
			args->exit_code = EXIT_OK;
			return;
		default:
			args->exit_code = EXIT_USAGE;
			break;
		}
	}
	if (optind < argc) {
		(void)fprintf(stderr, "holdfast-fencer: unexpected argument '%s'\n", argv[optind]);
		args->exit_code = EXIT_USAGE;
	}
}

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
	(void)fprintf(stderr, "holdfast-fencer: %s\n", err->msg);
	return exit_code_of_start(err);
}

int main(int argc, char **argv)
{
	struct arguments args = {.config_path = HOLDFAST_FENCER_SETTINGS, .exit_code = -1};
	struct fencer_settings settings = {.n_nodes = 0};
	enum status status;
	struct error err;

	parse_arguments(argc, argv, &args);
	if (args.exit_code == EXIT_USAGE)
		(void)fputs("Try: holdfast-fencer --help\n", stderr);
	if (args.exit_code >= 0)
		return args.exit_code;
	status = fencer_settings_load(args.config_path, &settings, &err);
	if (status == STATUS_OK && args.agent_dir &&
	    (!path_is_normal(args.agent_dir) ||
	     str_copy(settings.agent_dir, sizeof(settings.agent_dir), args.agent_dir) < 0))
		status = error_set(&err, STATUS_INVALID_ARGUMENT, 0, "--agents: %s is no absolute path",
				   args.agent_dir);
	if (status != STATUS_OK)
		return fail(&err);
	if (!args.is_check) {
		log_init("holdfast-fencer", LOG_INFO);
		status = run(&settings, &err);
	}
	fencer_settings_release(&settings);
	return status == STATUS_OK ? EXIT_OK : fail(&err);
}
