/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/str.h"
#include "call/connect.h"
#include "command/commands.h"
#include "command/values.h"
#include "rpc/pbjson.h"
#include "rpc/pbjson_word.h"
#include "show/output.h"

#include <errno.h>
#include <holdfast/v1/operator.pb-c.h>
#include <inttypes.h>

enum { WHAT_SIZE = 256 };

static const char *const topics[] = {"volume", "claim", "node", "plugin", "allocation"};

static enum status check_topics(struct invocation *inv, struct error *err)
{
	for (int i = 0; i < inv->n_args; i++) {
		bool known = false;

		for (size_t k = 0; k < ARRAY_SIZE(topics); k++)
			known = known || str_eq(inv->args[i], topics[k]);
		if (!known)
			return usage_error(inv, err,
					   "nothing is called '%s': volume, claim, node, plugin, allocation",
					   inv->args[i]);
	}
	return STATUS_OK;
}

/* The change of the object in a few words. */
static void describe(const Holdfast__V1__WatchEvent *event, char what[static WHAT_SIZE])
{
	char word[PBJSON_WORD_SIZE], second[PBJSON_WORD_SIZE];

	what[0] = '\0';
	if (event->deleted)
		(void)str_copy(what, WHAT_SIZE, "is gone");
	else if (event->volume)
		/* what is derived from claims and nodes is not in events */
		(void)str_format(what, WHAT_SIZE, "changed, generation %" PRIu64, event->volume->generation);
	else if (event->claim)
		(void)str_format(what, WHAT_SIZE, "%s, volume %.64s on node %.64s, evidence %s",
				 pbjson_word_text(&holdfast__v1__claim_state__descriptor,
						  (int)event->claim->state, word),
				 event->claim->volume_id, event->claim->node_id,
				 pbjson_word_text(&holdfast__v1__evidence__descriptor,
						  (int)event->claim->evidence, second));
	else if (event->node)
		(void)str_format(what, WHAT_SIZE, "%s%s",
				 pbjson_word_text(&holdfast__v1__node_status__descriptor,
						  (int)event->node->status, word),
				 event->node->ineligible ? ", ineligible" : "");
	else if (event->allocation)
		(void)str_format(what, WHAT_SIZE, "%s on node %.64s, wanted: %s",
				 pbjson_word_text(&holdfast__v1__client_status__descriptor,
						  (int)event->allocation->client_status, word),
				 event->allocation->node_id,
				 pbjson_word_text(&holdfast__v1__desired_status__descriptor,
						  (int)event->allocation->desired_status, second));
	else
		(void)str_copy(what, WHAT_SIZE, "changed");
}

/* Each event is out before the next one is read: whoever reads a pipe sees it at once. */
static enum status on_event(const ProtobufCMessage *message, void *userdata, struct error *err)
{
	const Holdfast__V1__WatchEvent *event = (const void *)message;
	const struct invocation *inv = userdata;
	enum status status = STATUS_OK;
	char what[WHAT_SIZE];

	if (inv->options[OPT_JSON]) {
		status = print_answer_line(&event->base, err);
	} else if (event->topic[0]) { /* the first one only says where it begins */
		describe(event, what);
		print_line("%" PRIu64 " %s %s: %s", event->index, event->topic, event->key, what);
	}
	if (status == STATUS_OK && fflush(stdout) != 0)
		return error_set(err, STATUS_INTERNAL, errno, "write the output");
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
	 .args = "[volume|claim|node|plugin|allocation...]",
	 .help = "Print what changes, as it changes",
	 .example = "claim node --json",
	 .options = OPTION_BIT(OPT_INDEX) | OPTION_BIT(OPT_TIMEOUT),
	 .max_args = ANY_ARGS,
	 .run = cmd_operator_watch},
};

const struct command_table watch_commands = {commands, ARRAY_SIZE(commands)};
