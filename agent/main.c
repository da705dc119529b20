/* holdfast-agent: argv, then agent_run(). */

#include "agent.h"
#include "config.h"
#include "privileges.h"

#include "log/log.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <syslog.h>

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };
enum long_option { OPTION_CHECK = 256 };

static const char usage_text[] =
	"usage: holdfast-agent [--config FILE] [--check-config] [--log-level LEVEL]\n"
	"\n"
	"The node agent of Holdfast: gives allocations their volumes. Runs without privileges.\n"
	"\n"
	"  -c, --config FILE      settings (default " CONFIG_PATH_DEFAULT ")\n"
	"      --check-config     read the settings, say what is wrong, and end\n"
	"  -l, --log-level LEVEL  error, warning, notice, info or debug\n"
	"  -V, --version          print the version\n"
	"  -h, --help             print this text\n";

static const struct option options[] = {
	{"config", required_argument, NULL, 'c'},
	{"check-config", no_argument, NULL, OPTION_CHECK},
	{"log-level", required_argument, NULL, 'l'},
	{"version", no_argument, NULL, 'V'},
	{"help", no_argument, NULL, 'h'},
	{0},
};

struct arguments {
	const char *config_path;
	bool is_check;
	int log_level; /* negative: as configured */
	int exit_code; /* negative: go on */
};

static void parse_arguments(int argc, char **argv, struct arguments *args)
{
	int c;

	while ((c = getopt_long(argc, argv, "c:l:Vh", options, NULL)) >= 0) {
		switch (c) {
		case 'c':
			args->config_path = optarg;
			break;
		case OPTION_CHECK:
			args->is_check = true;
			break;
		case 'l':
			args->log_level = config_log_level(optarg);
			if (args->log_level < 0) {
				(void)fprintf(stderr, "holdfast-agent: '%s' is no log level\n", optarg);
				args->exit_code = EXIT_USAGE;
			}
			break;
		case 'V':
			(void)puts("holdfast-agent " HOLDFAST_VERSION);
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
		(void)fprintf(stderr, "holdfast-agent: unexpected argument '%s'\n", argv[optind]);
		args->exit_code = EXIT_USAGE;
	}
}

int main(int argc, char **argv)
{
	struct arguments args = {.config_path = CONFIG_PATH_DEFAULT, .log_level = -1, .exit_code = -1};
	struct config config;
	struct error err;
	enum status status;

	parse_arguments(argc, argv, &args);
	if (args.exit_code == EXIT_USAGE)
		(void)fputs("Try: holdfast-agent --help\n", stderr);
	if (args.exit_code >= 0)
		return args.exit_code;
	status = config_load(args.config_path, &config, &err);
	if (status == STATUS_OK && args.is_check)
		return EXIT_OK;
	if (status == STATUS_OK)
		status = privileges_check_self(&err);
	if (status == STATUS_OK) {
		log_init("holdfast-agent", args.log_level >= 0 ? args.log_level : config.log_level);
		status = agent_run(&config, &err);
	}
	if (status == STATUS_OK)
		return EXIT_OK;
	(void)fprintf(stderr, "holdfast-agent: %s\n", err.msg);
	return EXIT_FAILED;
}
