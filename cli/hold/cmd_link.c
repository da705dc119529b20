/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/id.h"
#include "base/str.h"
#include "call/connect.h"
#include "command/commands.h"
#include "command/settings.h"
#include "hold/link.h"
#include "hold/place.h"
#include "hold/spec.h"

#include <stdlib.h>

static enum status check_name(struct invocation *inv, struct error *err)
{
	if (id_is_name(inv->args[0], HOLD_NAME_MAX))
		return STATUS_OK;
	return usage_error(inv, err, "NAME '%s' is 1 to %d of A-Z a-z 0-9 _ and -", inv->args[0],
			   HOLD_NAME_MAX);
}

/* Reads the holder's path of the volume. The holder may write any text there. */
static enum status read_claim(struct invocation *inv, char ret[static PATH_MAX], struct error *err)
{
	const char *runtime = getenv("RUNTIME_DIRECTORY");
	struct hold_place place;

	if (!runtime || runtime[0] != '/')
		return usage_error(inv, err,
				   "RUNTIME_DIRECTORY is not set: this is for a unit. Next: systemctl start "
				   "holdfast-volume@%s.service",
				   inv->args[0]);
	TRY(hold_place_init(&place, "/", runtime, err));
	if (!hold_link_read(&place, ret))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "the holder of volume unit %s does not report where it is published (%s)",
				 inv->args[0], place.link);
	return STATUS_OK;
}

static enum status cmd_volume_link(struct invocation *inv, struct error *err)
{
	cleanup_message Holdfast__V1__Allocation *alloc = NULL;
	struct hold_published found;
	char path[PATH_MAX];

	TRY(check_name(inv, err));
	TRY(read_claim(inv, path, err));
	TRY(hold_spec_load_named(inv, inv->args[0], &alloc, err));
	TRY(hold_publish_check(publish_dir(), path, alloc, &found, err));
	return hold_link_give(HOLDFAST_LINKS_PATH, inv->args[0], found.path, err);
}

static enum status cmd_volume_unlink(struct invocation *inv, struct error *err)
{
	TRY(check_name(inv, err));
	return hold_link_take(HOLDFAST_LINKS_PATH, inv->args[0], err);
}

static const struct command commands[] = {
	{.path = "volume link",
	 .args = "NAME",
	 .help = "Give services the volume of a unit holdfast-volume@NAME.service",
	 .example = "pgdata",
	 .min_args = 1,
	 .max_args = 1,
	 .run = cmd_volume_link},
	{.path = "volume unlink",
	 .args = "NAME",
	 .help = "Take away what volume link has made",
	 .example = "pgdata",
	 .min_args = 1,
	 .max_args = 1,
	 .run = cmd_volume_unlink},
};

const struct command_table link_commands = {commands, ARRAY_SIZE(commands)};
