/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/str.h"
#include "call/connect.h"
#include "command/commands.h"
#include "command/settings.h"
#include "command/values.h"
#include "hold/spec.h"
#include "hold/unit.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

/* A process that starts another one again when that is killed. Restart= of systemd would stop the units that
 * are bound to this one, and with BindsTo= not start them again. */

enum { DEATHS_MAX = 5 };

/* So many deaths within this time are too many. */
#define DEATHS_US (60 * USEC_PER_SEC)

struct watch {
	sigset_t signals;
	pid_t child;
	bool is_ending; /* SIGTERM was handed on */
	unsigned int deaths;
	uint64_t first_death_us;
};

/* Returns in the child. In the parent, a failure is reported and ends it. */
static bool start_child(struct watch *watch)
{
	pid_t parent = getpid();

	watch->child = fork();
	if (watch->child < 0) {
		hold_unit_print("holdfast: volume hold: start a process: %s", strerror(errno));
		exit(EXIT_FAILURE);
	}
	if (watch->child > 0)
		return false;
	/* without its parent it would hold the volume while the unit looks stopped */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
		_exit(EXIT_FAILURE);
	return true;
}

static bool is_too_often(struct watch *watch)
{
	uint64_t now_us = clock_monotonic_us();

	if (watch->deaths == 0 || now_us - watch->first_death_us > DEATHS_US) {
		watch->deaths = 0;
		watch->first_death_us = now_us;
	}
	return ++watch->deaths > DEATHS_MAX;
}

/* Returns true in a child that was started again. */
static bool on_child(struct watch *watch)
{
	int status;

	if (waitpid(watch->child, &status, WNOHANG) <= 0)
		return false;
	if (WIFEXITED(status))
		exit(WEXITSTATUS(status));
	if (!WIFSIGNALED(status))
		return false;
	if (is_too_often(watch)) {
		hold_unit_print(
			"holdfast: volume hold: its process was killed %d times within a minute, the last "
			"time by signal %d",
			DEATHS_MAX + 1, WTERMSIG(status));
		exit(EXIT_FAILURE);
	}
	hold_unit_print("its process was killed by signal %d; started again, the volume stays",
			WTERMSIG(status));
	if (start_child(watch))
		return true;
	if (watch->is_ending)
		(void)kill(watch->child, SIGTERM);
	return false;
}

/* Continue in a child, and return there. The parent stays in here: it hands SIGTERM and SIGINT on, has a
 * child that was killed by a signal followed by another one, and exits with the child's exit code, or with 1
 * when too many were killed in a short time. In the child those signals and SIGCHLD are blocked. */
static void hold_watch(void)
{
	struct watch watch = {.child = 0};

	(void)sigemptyset(&watch.signals);
	(void)sigaddset(&watch.signals, SIGTERM);
	(void)sigaddset(&watch.signals, SIGINT);
	(void)sigaddset(&watch.signals, SIGCHLD);
	(void)sigprocmask(SIG_BLOCK, &watch.signals, NULL);
	if (start_child(&watch))
		return;
	for (;;) {
		int sig = sigwaitinfo(&watch.signals, NULL);

		if (sig == SIGCHLD) {
			if (on_child(&watch))
				return;
		} else if (sig > 0) {
			watch.is_ending = true;
			(void)kill(watch.child, SIGTERM);
		}
	}
}

/* Less than a unit's usual time to start and to stop, so that the reason can still be reported. */
#define TIMEOUT_DEFAULT_US (80 * USEC_PER_SEC)
#define NOTIFY_MAX_US (2 * USEC_PER_SEC)

enum { CREDENTIAL_SIZE = HOLD_NAME_MAX + 32 };

/* The folders that systemd made for the unit. */
static enum status find_place(struct invocation *inv, struct hold_place *ret, struct error *err)
{
	const char *state = getenv("STATE_DIRECTORY");
	const char *runtime = getenv("RUNTIME_DIRECTORY");

	if (!state || state[0] != '/' || !runtime || runtime[0] != '/')
		return usage_error(
			inv, err,
			"STATE_DIRECTORY and RUNTIME_DIRECTORY are not set: this is for a unit. Next: "
			"systemctl start holdfast-volume@%s.service",
			inv->args[0]);
	return hold_place_init(ret, state, runtime, err);
}

static enum status hold(struct invocation *inv, struct hold_unit *unit, struct error *err)
{
	cleanup_connection struct connection *connection = NULL;
	enum hold_outcome outcome = HOLD_FAILED;
	enum status status = connect_server(inv, &connection, err);

	if (status != STATUS_OK) {
		/* a setting, not the command line: nothing was asked of the server yet */
		inv->exit_code = HOLD_WRONG_SPEC;
		inv->is_usage_error = false;
		return error_prefix(err, "%s has the server's address", HOLDFAST_CLI_ENV_PATH);
	}
	unit->holder.connection = connection;
	status = hold_unit_run(unit, &outcome, err);
	inv->exit_code = (int)outcome;
	return status;
}

/* Reports the one line that `systemctl status` shows. Waits for the service manager to read it: it could not
 * find the unit of a process that is gone. */
static void report_end(const struct error *err)
{
	char line[sizeof(err->msg)];

	str_copy_text(line, sizeof(line), err->msg);
	(void)sd_notifyf(0, "STATUS=%s", line);
	(void)sd_notify_barrier(0, NOTIFY_MAX_US);
}

static enum status cmd_volume_hold(struct invocation *inv, struct error *err)
{
	cleanup_message Holdfast__V1__Allocation *alloc = NULL;
	char credential[CREDENTIAL_SIZE], token[PATH_MAX];
	struct hold_place place;
	struct hold_unit unit = {
		.holder = {.inv = inv}, .place = &place, .links = HOLDFAST_LINKS_PATH, .name = inv->args[0]};

	TRY(value_timeout(inv, TIMEOUT_DEFAULT_US, &unit.holder.timeout_us, err));
	TRY(value_wait(inv, &unit.holder.wait_ms, err));
	if (!id_is_name(inv->args[0], HOLD_NAME_MAX))
		return usage_error(inv, err,
				   "NAME '%s' is 1 to %d of A-Z a-z 0-9 _ and -: %s/NAME.hcl is read",
				   inv->args[0], HOLD_NAME_MAX, HOLDFAST_VOLUMES_PATH);
	TRY(find_place(inv, &place, err));
	hold_watch();
	enum status status = hold_spec_load_named(inv, inv->args[0], &alloc, err);
	if (status != STATUS_OK)
		inv->exit_code = HOLD_WRONG_SPEC;
	(void)str_format(credential, sizeof(credential), "holdfast.token.%s", inv->args[0]);
	settings_prefer_credential(inv, credential, token);
	unit.holder.alloc = alloc;
	if (status == STATUS_OK)
		status = hold(inv, &unit, err);
	inv->options[OPT_TOKEN_FILE] = NULL; /* it is of this function */
	if (status != STATUS_OK)
		report_end(err);
	return status;
}

static const struct command commands[] = {
	{.path = "volume hold",
	 .args = "NAME",
	 .help = "Hold the volume of a unit holdfast-volume@NAME.service, until it is stopped",
	 .example = "pgdata --timeout 80s",
	 .options = OPTION_BIT(OPT_TIMEOUT) | OPTION_BIT(OPT_WAIT),
	 .min_args = 1,
	 .max_args = 1,
	 .run = cmd_volume_hold},
};

const struct command_table hold_commands = {commands, ARRAY_SIZE(commands)};
