/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast-driver-container: argv, then driver_run(). */

#include "driver.h"

#include "base/arguments.h"
#include "base/cleanup.h"
#include "base/exit_code.h"
#include "log/log.h"
#include "log/service.h"

#include <stdio.h>
#include <stdlib.h>
#include <syslog.h>
#include <unistd.h>

enum { EXIT_OK = 0, EXIT_FAILED = 1 };

static const char usage_text[] =
	"usage: holdfast-driver-container [--config FILE] [--check-config | --check-idle]\n"
	"\n"
	"The driver of containers of Holdfast: runs what the claim server ordered "
	"and root's file allows, with\n"
	"podman or Docker.\n"
	"\n"
	"  -c, --config FILE   root's file (default " SETTINGS_PATH_DEFAULT ")\n"
	"      --check-config  check it, print each error, and end\n"
	"      --check-idle    ask the engine whether a container of this node runs, and end\n"
	"  -V, --version       print the version\n"
	"  -h, --help          print this text\n";

static int fail(const struct error *err, int exit_code)
{
	log_last("holdfast-driver-container", err);
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
	const char *path = SETTINGS_PATH_DEFAULT;
	bool is_check = false, is_idle_check = false, has_started = false;
	const struct argument options[] = {{"config", 'c', &path, NULL},
					   {"check-config", '\0', NULL, &is_check},
					   {"check-idle", '\0', NULL, &is_idle_check}};
	const struct arguments args = {"holdfast-driver-container", HOLDFAST_VERSION, usage_text, options,
				       ARRAY_SIZE(options)};
	static struct settings settings;
	enum status status;
	struct error err;
	int exit_code;

	exit_code = arguments_parse(&args, argc, argv);
	if (exit_code >= 0)
		return exit_code;
	service_hide_memory();
	status = settings_load(path, &settings, &err);
	if (is_check)
		return status == STATUS_OK ? EXIT_OK : fail(&err, EXIT_FAILED);
	if (is_idle_check && status == STATUS_OK)
		status = check_idle(&settings, &err);
	if (is_idle_check)
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
