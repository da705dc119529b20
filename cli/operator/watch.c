/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/str.h"
#include "call/connect.h"
#include "command/commands.h"
#include "command/values.h"
#include "show/rows.h"

#include <errno.h>
#include <holdfast/v1/operator.pb-c.h>

static const char *const topics[] = {"volume", "claim", "node", "plugin", "allocation", "job"};

static enum status check_topics(struct invocation *inv, struct error *err)
{
	for (int i = 0; i < inv->n_args; i++) {
		bool known = false;

		for (size_t k = 0; k < ARRAY_SIZE(topics); k++)
			known = known || str_eq(inv->args[i], topics[k]);
		if (!known)
			return usage_error(
				inv, err,
				"nothing is called '%s': volume, claim, node, plugin, allocation, job",
				inv->args[i]);
	}
	return STATUS_OK;
}

/* Events of volumes leave out the fields that are derived from claims and nodes. */
static DEFINE_ROWS(
	event_page, holdfast__v1__watch_event, NULL,
	LINE("{topic}",
	     "{index} {topic} {key}: {deleted?is gone|{volume?changed, generation {volume.generation}|"
	     "{claim?{claim.state}, volume {claim.volume_id:64} on node {claim.node_id:64}, evidence "
	     "{claim.evidence}|{node?{node.disconnected_ms?lost{node.disconnect_reason?: "
	     "{node.disconnect_reason}}|{node.status}}{node.disk_trouble?, its disk: "
	     "{node.disk_trouble}}{node.ineligible?, ineligible}|"
	     "{allocation?{allocation.client_status} on node {allocation.node_id:64}, wanted: "
	     "{allocation.desired_status}|{job?version {job.version}, {job.stop?stopped|update "
	     "{job.update_status?{job.update_status}|in progress}}|changed}}}}}}"));

/* Prints each event before the next one is read: the reader of a pipe sees it at once. */
static enum status on_event(const ProtobufCMessage *message, void *userdata, struct error *err)
{
	const Holdfast__V1__WatchEvent *event = (const void *)message;
	const struct invocation *inv = userdata;
	enum status status = STATUS_OK;

	if (inv->options[OPT_JSON])
		status = print_answer_line(&event->base, err);
	else /* the first one only has the beginning */
		status = show_page(&event_page, event, NULL, false, err);
	if (status == STATUS_OK && fflush(stdout) != 0)
		return error_set(err, STATUS_INTERNAL, errno, "cannot write the output");
	return status;
}

static enum status cmd_operator_watch(struct invocation *inv, struct error *err)
{
	Holdfast__V1__WatchRequest request = HOLDFAST__V1__WATCH_REQUEST__INIT;
	struct connection_stream stream = {
		.service = &holdfast__v1__operator__descriptor,
		.method = "Watch",
		.request = &request.base,
		.on_message = on_event,
		.userdata = inv,
	};
	cleanup_connection struct connection *connection = NULL;

	TRY(check_topics(inv, err));
	TRY(value_number(inv, OPT_INDEX, 0, UINT64_MAX, 0, &request.index, err));
	TRY(value_timeout(inv, 0, &stream.timeout_us, err));
	TRY(connect_server(inv, &connection, err));
	request.topics = inv->args;
	request.n_topics = (size_t)inv->n_args;
	request.namespace_ =
		inv->options[OPT_NAMESPACE] ? option_text(inv, OPT_NAMESPACE) : (char *)(uintptr_t) "*";
	return connection_stream(connection, &stream, err);
}

static const struct command commands[] = {
	{.path = "operator watch",
	 .args = "[volume|claim|node|plugin|allocation|job...]",
	 .help = "Print what changes, as it changes",
	 .example = "claim node --json",
	 .options = OPTION_BIT(OPT_INDEX) | OPTION_BIT(OPT_TIMEOUT),
	 .max_args = ANY_ARGS,
	 .run = cmd_operator_watch},
};

const struct command_table watch_commands = {commands, ARRAY_SIZE(commands)};
