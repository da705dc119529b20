/* SPDX-License-Identifier: Apache-2.0 */
#include "base/id.h"
#include "base/str.h"
#include "call/connect.h"
#include "command/commands.h"
#include "command/settings.h"
#include "command/values.h"
#include "hold/place.h"
#include "hold/run.h"
#include "hold/spec.h"
#include "hold/watch.h"

#include <stdlib.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

/* Less than a unit's usual time to start and to stop, so that the reason can still be told. */
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

static enum status hold(struct invocation *inv, struct hold_order *order, struct error *err)
{
	cleanup_connection struct connection *connection = NULL;
	enum hold_outcome outcome = HOLD_FAILED;
	enum status status = connect_server(inv, &connection, err);

	if (status != STATUS_OK) {
		/* a setting, not the command line: nothing was asked of the server yet */
		inv->exit_code = HOLD_WRONG_SPEC;
		inv->is_usage_error = false;
		return error_prefix(err, "%s says how the server is reached", HOLDFAST_CLI_ENV_PATH);
	}
	order->connection = connection;
	status = hold_run(inv, order, &outcome, err);
	inv->exit_code = (int)outcome;
	return status;
}

/* The one line that `systemctl status` shows. Of a process that is gone the service manager would not know to
 * which unit it belonged. */
static void tell_end(const struct error *err)
{
	char line[sizeof(err->msg)];

	str_copy_text(line, sizeof(line), err->msg);
	(void)sd_notifyf(0, "STATUS=%s", line);
	(void)sd_notify_barrier(0, NOTIFY_MAX_US);
}

enum status cmd_volume_hold(struct invocation *inv, struct error *err)
{
	cleanup_message Holdfast__V1__Allocation *alloc = NULL;
	char credential[CREDENTIAL_SIZE], token[PATH_MAX];
	struct hold_place place;
	struct hold_order order = {.place = &place, .name = inv->args[0]};
	enum status status = value_timeout(inv, TIMEOUT_DEFAULT_US, &order.timeout_us, err);

	if (status == STATUS_OK && !id_is_name(inv->args[0], HOLD_NAME_MAX))
		status = usage_error(inv, err,
				     "NAME '%s' is 1 to %d of A-Z a-z 0-9 _ and -: %s/NAME.hcl is read",
				     inv->args[0], HOLD_NAME_MAX, HOLDFAST_VOLUMES_PATH);
	if (status == STATUS_OK)
		status = find_place(inv, &place, err);
	if (status != STATUS_OK)
		return status;
	hold_watch();
	status = hold_spec_load_named(inv, inv->args[0], &alloc, err);
	if (status != STATUS_OK)
		inv->exit_code = HOLD_WRONG_SPEC;
	(void)str_format(credential, sizeof(credential), "holdfast.token.%s", inv->args[0]);
	settings_prefer_credential(inv, credential, token);
	order.alloc = alloc;
	if (status == STATUS_OK)
		status = hold(inv, &order, err);
	inv->options[OPT_TOKEN_FILE] = NULL; /* it is of this function */
	if (status != STATUS_OK)
		tell_end(err);
	return status;
}
