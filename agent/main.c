/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast-agent: argv, then agent_run(). */

#include "agent.h"
#include "config.h"
#include "privileges.h"

#include "base/exit_code.h"
#include "base/selinux_label.h"
#include "base/str.h"
#include "identity/enroll.h"
#include "log/log.h"
#include "log/service.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };
enum long_option { OPTION_CHECK = 256, OPTION_ENROLL, OPTION_INTO };

#define INTO_DEFAULT "/etc/holdfast"

static const char usage_text[] =
	"usage: holdfast-agent [--config FILE] [--check-config] [--log-level LEVEL]\n"
	"       holdfast-agent --enroll -|LINE [--into FOLDER]\n"
	"\n"
	"The node agent of Holdfast: gives allocations their volumes. Runs without privileges.\n"
	"\n"
	"  -c, --config FILE      settings (default " CONFIG_PATH_DEFAULT ")\n"
	"      --check-config     read the settings, say what is wrong, and end\n"
	"      --enroll -         get this node's certificate with the line of holdfast operator node "
	"enroll,\n"
	"                         read from standard input; other users can read a LINE that is an "
	"argument\n"
	"      --into FOLDER      with --enroll: where files are written (default " INTO_DEFAULT ")\n"
	"  -l, --log-level LEVEL  error, warning, notice, info or debug\n"
	"  -V, --version          print the version\n"
	"  -h, --help             print this text\n";

static const struct option options[] = {
	{"config", required_argument, NULL, 'c'},
	{"check-config", no_argument, NULL, OPTION_CHECK},
	{"enroll", required_argument, NULL, OPTION_ENROLL},
	{"into", required_argument, NULL, OPTION_INTO},
	{"log-level", required_argument, NULL, 'l'},
	{"version", no_argument, NULL, 'V'},
	{"help", no_argument, NULL, 'h'},
	{0},
};

struct arguments {
	const char *config_path;
	const char *line; /* NULL: run */
	const char *into;
	bool is_check;
	int log_level; /* negative: as configured */
	int exit_code; /* negative: continue */
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
		case OPTION_ENROLL:
			args->line = optarg;
			break;
		case OPTION_INTO:
			args->into = optarg;
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

static int fail(const struct error *err, int exit_code)
{
	(void)fprintf(stderr, "holdfast-agent: %s\n", err->msg);
	return exit_code;
}

/* Without its label it works as well: a host may have no policy for it. */
static void warn_unlabelled(void)
{
	struct error err;

	if (selinux_label_check("holdfast_agent_t", &err) != STATUS_OK)
		log_line(LOG_WARNING, "%s", err.msg);
}

/* Arguments are open to each user of the machine, and the line holds a token. */
static enum status read_line(char ret[static ENROLL_LINE_SIZE], struct error *err)
{
	if (isatty(STDIN_FILENO))
		(void)fputs("line of holdfast operator node enroll: ", stderr);
	if (!fgets(ret, ENROLL_LINE_SIZE, stdin))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "standard input has no enrolment line; with the line in a file: "
				 "holdfast-agent --enroll - <FILE");
	ret[strcspn(ret, "\r\n")] = '\0';
	return STATUS_OK;
}

static int enroll_node(const struct arguments *args)
{
	const bool is_stdin = str_eq(args->line, "-");
	char line[ENROLL_LINE_SIZE];
	struct enrolled enrolled = {.wrote_config = false};
	sd_event *event = NULL;
	struct error err;
	enum status status = STATUS_OK;
	int r = sd_event_new(&event);

	log_init("holdfast-agent", LOG_WARNING);
	if (r < 0)
		status = error_set(&err, status_from_errno(r), r, "make an event loop");
	if (status == STATUS_OK && is_stdin)
		status = read_line(line, &err);
	if (status == STATUS_OK)
		status = enroll(event, is_stdin ? line : args->line, args->into, &enrolled, &err);
	(void)sd_event_unref(event);
	if (status != STATUS_OK) {
		(void)error_prefix(&err, "this node is not enrolled");
		return fail(&err, EXIT_FAILED);
	}
	enroll_print(&enrolled);
	return EXIT_OK;
}

int main(int argc, char **argv)
{
	struct arguments args = {
		.config_path = CONFIG_PATH_DEFAULT, .into = INTO_DEFAULT, .log_level = -1, .exit_code = -1};
	struct config config;
	bool has_started = false;
	struct error err;
	enum status status;

	parse_arguments(argc, argv, &args);
	if (args.exit_code == EXIT_USAGE)
		(void)fputs("Try: holdfast-agent --help\n", stderr);
	if (args.exit_code >= 0)
		return args.exit_code;
	if (args.line)
		return enroll_node(&args);
	status = config_load(args.config_path, &config, &err);
	if (args.is_check)
		return status == STATUS_OK ? EXIT_OK : fail(&err, EXIT_FAILED);
	if (status == STATUS_OK)
		status = privileges_check_self(&err);
	if (status == STATUS_OK) {
		config.log_level_is_argument = args.log_level >= 0;
		if (config.log_level_is_argument)
			config.log_level = args.log_level;
		log_init("holdfast-agent", config.log_level);
		log_set_node(config.node_id);
		warn_unlabelled();
		status = agent_run(&config, &has_started, &err);
	}
	if (status == STATUS_OK)
		return EXIT_OK;
	service_failed(&err);
	return fail(&err, has_started ? EXIT_FAILED : exit_code_of_start(&err));
}
