/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast-agent: argv, then agent_run(). */

#include "agent.h"
#include "config.h"
#include "privileges.h"

#include "base/arguments.h"
#include "base/cleanup.h"
#include "base/exit_code.h"
#include "base/selinux_label.h"
#include "base/str.h"
#include "identity/enroll.h"
#include "log/log.h"
#include "log/service.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>
#include <unistd.h>

enum { EXIT_OK = 0, EXIT_FAILED = 1 };

#define INTO_DEFAULT "/etc/holdfast"

static const char usage_text[] =
	"usage: holdfast-agent [--config FILE] [--check-config] [--log-level LEVEL]\n"
	"       holdfast-agent --enroll -|LINE [--into FOLDER]\n"
	"\n"
	"The node agent of Holdfast: gives allocations their volumes. Runs without privileges.\n"
	"\n"
	"  -c, --config FILE      settings (default " CONFIG_PATH_DEFAULT ")\n"
	"      --check-config     check the settings, and end\n"
	"      --enroll -         get this node's certificate with the line of holdfast operator node "
	"enroll,\n"
	"                         read from standard input; other users can read a LINE that is an argument\n"
	"      --into FOLDER      with --enroll: where files are written (default " INTO_DEFAULT ")\n"
	"  -l, --log-level LEVEL  error, warning, notice, info or debug\n"
	"  -V, --version          print the version\n"
	"  -h, --help             print this text\n";

struct given {
	const char *config_path;
	const char *line; /* NULL: run */
	const char *into, *log_level;
	bool is_check;
};

static int fail(const struct error *err, int exit_code)
{
	log_last("holdfast-agent", err);
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

static int enroll_node(const struct given *given)
{
	const bool is_stdin = str_eq(given->line, "-");
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
		status = enroll(event, is_stdin ? line : given->line, given->into, &enrolled, &err);
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
	struct given given = {.config_path = CONFIG_PATH_DEFAULT, .into = INTO_DEFAULT};
	const struct argument options[] = {{"config", 'c', &given.config_path, NULL},
					   {"check-config", '\0', NULL, &given.is_check},
					   {"enroll", '\0', &given.line, NULL},
					   {"into", '\0', &given.into, NULL},
					   {"log-level", 'l', &given.log_level, NULL}};
	const struct arguments args = {"holdfast-agent", HOLDFAST_VERSION, usage_text, options,
				       ARRAY_SIZE(options)};
	int exit_code, log_level;
	struct config config;
	bool has_started = false;
	struct error err;
	enum status status;

	exit_code = arguments_parse(&args, argc, argv);
	if (exit_code >= 0)
		return exit_code;
	log_level = given.log_level ? config_log_level(given.log_level) : 0;
	if (log_level < 0) {
		(void)fprintf(stderr, "holdfast-agent: '%s' is no log level\n", given.log_level);
		return arguments_refuse("holdfast-agent");
	}
	service_hide_memory();
	if (given.line)
		return enroll_node(&given);
	status = config_load(given.config_path, &config, &err);
	if (given.is_check)
		return status == STATUS_OK ? EXIT_OK : fail(&err, EXIT_FAILED);
	if (status == STATUS_OK)
		status = privileges_check_self(&err);
	if (status == STATUS_OK) {
		config.log_level_is_argument = given.log_level != NULL;
		if (config.log_level_is_argument)
			config.log_level = log_level;
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
