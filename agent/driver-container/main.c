/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast-driver-container: argv, then driver_run(). */

#include "driver.h"

#include "base/exit_code.h"
#include "log/log.h"
#include "log/service.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <syslog.h>
#include <unistd.h>

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };
enum long_option { OPTION_CHECK = 256 };

static const char usage_text[] = "usage: holdfast-driver-container [--config FILE] [--check-config]\n"
				 "\n"
				 "The driver of containers of Holdfast: runs what the claim server ordered "
				 "and root's file allows, with\n"
				 "podman or Docker.\n"
				 "\n"
				 "  -c, --config FILE   root's file (default " SETTINGS_PATH_DEFAULT ")\n"
				 "      --check-config  read it, say what is wrong, and end\n"
				 "  -V, --version       print the version\n"
				 "  -h, --help          print this text\n";

static const struct option options[] = {
	{"config", required_argument, NULL, 'c'},
	{"check-config", no_argument, NULL, OPTION_CHECK},
	{"version", no_argument, NULL, 'V'},
	{"help", no_argument, NULL, 'h'},
	{0},
};

struct arguments {
	const char *config_path;
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
		case OPTION_CHECK:
			args->is_check = true;
			break;
		case 'V':
			(void)puts("holdfast-driver-container " HOLDFAST_VERSION);
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
		(void)fprintf(stderr, "holdfast-driver-container: unexpected argument '%s'\n", argv[optind]);
		args->exit_code = EXIT_USAGE;
	}
}

static int fail(const struct error *err, int exit_code)
{
	(void)fprintf(stderr, "holdfast-driver-container: %s\n", err->msg);
	return exit_code;
}

static enum status check_self(struct error *err)
{
	if (geteuid() != 0)
		return STATUS_OK;
	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"this runs as an account of its own that is in the group of the engine's socket, not as "
		"root: systemctl start holdfast-driver-container");
}

int main(int argc, char **argv)
{
	struct arguments args = {.config_path = SETTINGS_PATH_DEFAULT, .exit_code = -1};
	static struct settings settings;
	bool has_started = false;
	enum status status;
	struct error err;

	parse_arguments(argc, argv, &args);
	if (args.exit_code == EXIT_USAGE)
		(void)fputs("Try: holdfast-driver-container --help\n", stderr);
	if (args.exit_code >= 0)
		return args.exit_code;
	status = settings_load(args.config_path, &settings, &err);
	if (args.is_check)
		return status == STATUS_OK ? EXIT_OK : fail(&err, EXIT_FAILED);
	if (status == STATUS_OK)
		status = check_self(&err);
	if (status == STATUS_OK) {
		log_init("holdfast-driver-container", LOG_INFO);
		log_set_node(settings.node_id);
		status = driver_run(&settings, &has_started, &err);
	}
	if (status == STATUS_OK)
		return EXIT_OK;
	service_failed(&err);
	return fail(&err, has_started ? EXIT_FAILED : exit_code_of_start(&err));
}
