/* SPDX-License-Identifier: Apache-2.0 */
#include "model/node.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "call/call.h"
#include "call/pages.h"
#include "command/commands.h"
#include "command/values.h"
#include "operator/events.h"
#include "pb/pbjson_word.h"
#include "pb/reflect.h"
#include "show/progress.h"
#include "show/show.h"

#include <assert.h>
#include <errno.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#define UNREPORTED "has not reported what it holds since the restore"

enum { ROUND_MS = 2000 }; /* of one look at the remaining claims: a blocking query */

#define DRAIN_TIMEOUT_US (UINT64_C(7200) * USEC_PER_SEC)
#define DEADLINE_MAX_MS (UINT64_C(30) * 86400 * 1000)

struct drain_watch {
	struct connection *connection;
	const char *node;
	bool quiet; /* JSON: only the end is shown */
	uint64_t started_us;
	uint64_t deadline_us;
	size_t n_first;			     /* claims at the beginning */
	Holdfast__V1__GetNodeResponse *last; /* owned; NULL: not looked yet */
};

static int by_claim_id(const void *a, const void *b)
{
	return strcmp((*(Holdfast__V1__Claim *const *)a)->id, (*(Holdfast__V1__Claim *const *)b)->id);
}

static void sort_claims(Holdfast__V1__GetNodeResponse *answer)
{
	if (answer->n_claims > 1)
		qsort(answer->claims, answer->n_claims, sizeof(Holdfast__V1__Claim *), by_claim_id);
}

static void print_claim(const Holdfast__V1__Claim *claim, bool is_gone)
{
	char state[PBJSON_WORD_SIZE];

	progress_end();
	print_line(
		"volume %s/%s of allocation %s: %s%s%s", claim->namespace_, claim->volume_id,
		claim->allocation_id,
		is_gone ? "released"
			: pbjson_word_text(&holdfast__v1__claim_state__descriptor, (int)claim->state, state),
		!is_gone && claim->last_error[0] ? ": " : "", is_gone ? "" : claim->last_error);
}

static bool is_freed(const Holdfast__V1__Claim *claim)
{
	return claim->state == HOLDFAST__V1__CLAIM_STATE__FREED;
}

static bool has_moved(const Holdfast__V1__Claim *before, const Holdfast__V1__Claim *now)
{
	return before->state != now->state || !str_eq(before->last_error, now->last_error);
}

/* Print what changed between two looks. Both lists are in the order of ids. */
static void print_changes(const Holdfast__V1__GetNodeResponse *before,
			  const Holdfast__V1__GetNodeResponse *now)
{
	size_t k = 0;

	for (size_t i = 0; i < before->n_claims; i++) {
		const Holdfast__V1__Claim *old = before->claims[i];

		while (k < now->n_claims && strcmp(now->claims[k]->id, old->id) < 0)
			print_claim(now->claims[k++], false);
		if (k == now->n_claims || strcmp(now->claims[k]->id, old->id) != 0) {
			if (!is_freed(old))
				print_claim(old, true);
			continue;
		}
		if (has_moved(old, now->claims[k]))
			print_claim(now->claims[k], is_freed(now->claims[k]));
		k++;
	}
	for (; k < now->n_claims; k++)
		print_claim(now->claims[k], is_freed(now->claims[k]));
}

/* The list of claims lacks those of namespaces that the caller may not read. */
static size_t count_held(const Holdfast__V1__GetNodeResponse *answer)
{
	size_t n = 0;

	for (size_t i = 0; i < answer->n_claims; i++)
		n += !is_freed(answer->claims[i]);
	return MAX(n, answer->node->live_claims);
}

static enum status drain_watch_look(struct drain_watch *watch, struct error *err)
{
	Holdfast__V1__GetNodeRequest request = HOLDFAST__V1__GET_NODE_REQUEST__INIT;
	cleanup_message Holdfast__V1__GetNodeResponse *answer = NULL;

	request.id = (char *)(uintptr_t)watch->node;
	request.index = watch->last ? watch->last->index : 0;
	request.wait_ms = watch->last ? ROUND_MS : 0;
	TRY(connection_call(watch->connection, &holdfast__v1__nodes__descriptor, "Get", &request.base,
			    ROUND_MS * USEC_PER_MSEC + CALL_TIMEOUT_US, &answer, err));
	if (!answer->node)
		return error_set(err, STATUS_INTERNAL, 0, "the server's answer holds no node");
	sort_claims(answer);
	if (!watch->last)
		watch->n_first = count_held(answer);
	else if (!watch->quiet)
		print_changes(watch->last, answer);
	message_freep(&watch->last);
	watch->last = TAKE_PTR(answer);
	return STATUS_OK;
}

static bool has_drain(const Holdfast__V1__Node *node)
{
	return node->drain && node->drain->started_ms != 0;
}

static bool is_done(const Holdfast__V1__Node *node)
{
	return !has_drain(node) || node->drain->done_ms != 0;
}

/* Another command cancelled the drain, or made the node eligible after its end. */
static enum status refuse_ended(const struct drain_watch *watch, struct error *err)
{
	const Holdfast__V1__Node *node = watch->last->node;

	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "the drain of node %s was ended by another command (%s); the node holds %zu claims. "
			 "Next: holdfast node status %s",
			 watch->node, node->ineligible ? node->eligibility_reason : "the node is eligible",
			 count_held(watch->last), watch->node);
}

static void show_wait(const struct drain_watch *watch)
{
	const Holdfast__V1__Drain *drain = watch->last->node->drain;
	char age[CLOCK_TEXT_SIZE];
	bool is_overdue = drain && drain->deadline_ms != 0 && clock_realtime_ms() > drain->deadline_ms;

	progress_show(
		"draining node %s: %zu of %zu claims left, %s%s%s", watch->node, count_held(watch->last),
		watch->n_first, clock_format_duration(clock_monotonic_us() - watch->started_us, age),
		watch->last->node->unreported ? ", it " UNREPORTED : "",
		is_overdue ? ", OVERDUE: holdfast volume status ID --why shows what each waits for" : "");
}

static enum status watch_drain(struct drain_watch *watch, struct error *err)
{
	enum status status = STATUS_OK;

	for (;;) {
		status = drain_watch_look(watch, err);
		if (status != STATUS_OK || is_done(watch->last->node))
			break;
		if (clock_monotonic_us() >= watch->deadline_us) {
			status = error_set(
				err, STATUS_DEADLINE_EXCEEDED, 0,
				"node %s still holds %zu claims%s; its drain continues without us. "
				"Next: holdfast node status %s",
				watch->node, count_held(watch->last),
				watch->last->node->unreported ? ", and " UNREPORTED : "", watch->node);
			break;
		}
		show_wait(watch);
	}
	progress_end();
	if (status == STATUS_OK && !has_drain(watch->last->node))
		return refuse_ended(watch, err);
	return status;
}

static void print_start(const Holdfast__V1__DrainNodeResponse *answer, const char *node)
{
	size_t n = MAX(answer->n_volumes, answer->node ? answer->node->live_claims : 0);

	print_line("node %s is draining, %zu volume%s not released yet%s", node, n, n == 1 ? " is" : "s are",
		   answer->node && answer->node->unreported ? "; it " UNREPORTED : "");
	for (size_t i = 0; i < answer->n_volumes; i++) {
		const Holdfast__V1__DrainVolume *v = answer->volumes[i];

		print_line("volume %s/%s of allocation %s: %s", v->namespace_, v->volume_id, v->allocation_id,
			   v->text);
	}
}

/* The answer of the whole command, as if it had been made at its end. */
static enum status print_end(struct invocation *inv, const struct drain_watch *watch, struct error *err)
{
	Holdfast__V1__DrainNodeResponse end = HOLDFAST__V1__DRAIN_NODE_RESPONSE__INIT;

	end.node = watch->last->node;
	if (inv->options[OPT_JSON])
		return print_answer(&end.base, err);
	print_line(
		"node %s is drained: it holds nothing, and nothing new is placed there. Next: holdfast node "
		"eligibility %s --enable",
		watch->node, watch->node);
	return STATUS_OK;
}

static enum status wait_for_end(struct invocation *inv, struct connection *connection, const char *node,
				struct error *err)
{
	struct drain_watch watch = {
		.connection = connection,
		.node = node,
		.quiet = inv->options[OPT_JSON] != NULL,
		.started_us = clock_monotonic_us(),
	};
	uint64_t timeout_us;
	enum status status = value_timeout(inv, DRAIN_TIMEOUT_US, &timeout_us, err);

	watch.deadline_us = watch.started_us + timeout_us;
	if (status == STATUS_OK)
		status = watch_drain(&watch, err);
	if (status == STATUS_OK)
		status = print_end(inv, &watch, err);
	message_freep(&watch.last);
	return status;
}

static enum status node_drain_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__DrainNodeRequest *request = message;
	uint64_t timeout_us;
	enum status status =
		value_duration(call->inv, OPT_DEADLINE, 0, DEADLINE_MAX_MS, &request->deadline_ms, err);

	if (status == STATUS_OK)
		status = value_timeout(call->inv, DRAIN_TIMEOUT_US, &timeout_us, err);
	if (status == STATUS_OK && call_has(call, OPT_CANCEL) && call_has(call, OPT_DEADLINE))
		return usage_error(call->inv, err, "--cancel ends the drain: it has no --deadline");
	return status;
}

/* Asks before all work of the node stops; --cancel and a look at a drain in progress stop nothing. The drain
 * that is cancelled may be another person's. */
static enum status confirm(struct call *call, const char *node, struct error *err)
{
	struct drain_watch watch = {.connection = call->connection, .node = node};
	char question[PICK_ID_SIZE + 64];
	bool is_draining;
	enum status status;

	if (call_has(call, OPT_CANCEL))
		return value_check_whole(call->inv, "--cancel", call->inv->args[0], node, err);
	if (call_has(call, OPT_YES)) /* no question shows the node that is meant */
		return value_check_whole(call->inv, "--yes", call->inv->args[0], node, err);
	status = drain_watch_look(&watch, err);
	is_draining = status == STATUS_OK && !is_done(watch.last->node);
	message_freep(&watch.last);
	if (status != STATUS_OK || is_draining)
		return status;
	(void)str_format(question, sizeof(question), "Stop all allocations of node %s?", node);
	return value_confirm(call->inv, question, err);
}

static enum status node_drain_fill(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__DrainNodeRequest *request = message;

	return confirm(call, request->id, err);
}

/* @node: after that; one without a drain is as it was. */
static void print_cancelled(const Holdfast__V1__Node *node)
{
	bool was_done = node->drain && node->drain->done_ms != 0;

	if (!node->ineligible)
		print_line("node %s has no drain: nothing was changed", node->id);
	else
		print_line("the drain of node %s is %s; it stays ineligible. Next: holdfast node eligibility "
			   "%s --enable",
			   node->id, was_done ? "done" : "cancelled", node->id);
}

static enum status node_drain_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__DrainNodeRequest *request = call->request;
	const Holdfast__V1__DrainNodeResponse *answer = message;
	bool waits = !request->cancel && !call_has(call, OPT_DETACH) && !call_has(call, OPT_NO_WAIT);

	if (call_has(call, OPT_JSON) && !waits)
		return print_answer(&answer->base, err);
	if (request->cancel)
		print_cancelled(answer->node);
	else if (!call_has(call, OPT_JSON))
		print_start(answer, request->id);
	return waits ? wait_for_end(call->inv, call->connection, request->id, err) : STATUS_OK;
}

static void put_healthy(const struct shown *shown, struct strbuf *sb)
{
	const Holdfast__V1__Node *node = (const void *)shown->message;
	size_t n_healthy = 0;

	for (size_t k = 0; k < node->n_plugins; k++)
		n_healthy += node->plugins[k]->healthy != 0;
	strbuf_printf(sb, "%zu/%zu", n_healthy, node->n_plugins);
}

static DEFINE_ROWS(node_table, holdfast__v1__node, "no nodes", COL("ID", "{id}"),
		   COL_STATE("STATUS", "{status}"),
		   COL_STATE("ELIGIBILITY", "{ineligible?ineligible|eligible}"), COL("ADDRESS", "{address}"),
		   COL("VERSION", "{agent_version}"), COL("KERNEL", "{kernel}"),
		   COL_PUT("PLUGINS HEALTHY", put_healthy), COL("SEEN", "{last_seen_ms:age}"));

/* Writes each flag that is set and each value of a list under its name in the protocol, so that new ones are
 * shown too. */
static void put_offers(const struct shown *shown, struct strbuf *sb)
{
	const Holdfast__V1__NodeDriver *driver = (const void *)shown->message;
	const ProtobufCMessageDescriptor *type = &holdfast__driver__v1__capabilities_response__descriptor;

	for (unsigned int i = 0; driver->capabilities && i < type->n_fields; i++) {
		const struct reflect_values values =
			reflect_values(&driver->capabilities->base, &type->fields[i]);

		for (size_t k = 0; k < values.n; k++) {
			const char *at = reflect_value(&values, k);
			char word[PBJSON_WORD_SIZE];

			if (values.field->type == PROTOBUF_C_TYPE_BOOL && get_u32(at))
				strbuf_printf(sb, "%s%s", sb->len ? ", " : "", values.field->name);
			else if (values.field->type == PROTOBUF_C_TYPE_ENUM)
				strbuf_printf(
					sb, "%s%s %s", sb->len ? ", " : "", values.field->name,
					pbjson_word_text(values.field->descriptor, (int)get_u32(at), word));
		}
	}
}

static DEFINE_ROWS(driver_table, holdfast__v1__node_driver, NULL, COL("NAME", "{name}"),
		   COL("VERSION", "{capabilities.version}"),
		   COL_STATE("HEALTH", "{healthy?healthy|unhealthy}"), COL_PUT("OFFERS", put_offers),
		   COL("DESCRIPTION", "{health_description}"));

static DEFINE_ROWS(plugin_table, holdfast__v1__node_plugin, NULL, COL("PLUGIN", "{plugin_id}"),
		   COL("PROFILE", "{profile}"), COL("CLASS", "{class}"), COL_STATE("HEALTHY", "{healthy}"),
		   COL("PROVIDER", "{provider}"), COL("DESCRIPTION", "{health_description}"));

static DEFINE_ROWS(attribute_table, holdfast__driver__v1__key_value, NULL, COL("ATTRIBUTE", "{key}"),
		   COL("VALUE", "{value}"));

static DEFINE_ROWS(drain_page, holdfast__v1__drain, NULL,
		   COL("drain",
		       "{done_ms?done, {done_ms:age} ago|for {started_ms:age}{deadline_ms:overdue}}"),
		   COL("drained by", "{by}"), COL("drain reason", "{reason}"));

static void put_clock(const struct shown *shown, struct strbuf *sb)
{
	const Holdfast__V1__Node *node = (const void *)shown->message;
	char skew[NODE_CLOCK_TEXT_SIZE];

	if (node_clock_is_off(node->clock_skew_ms))
		strbuf_printf(sb, "%s the server's: set the one that is wrong",
			      node_clock_text(node->clock_skew_ms, skew));
}

static void put_disk(const struct shown *shown, struct strbuf *sb)
{
	const Holdfast__V1__Node *node = (const void *)shown->message;
	enum node_disk disk = node_disk_of_word(node->disk_trouble);
	char text[NODE_DISK_TEXT_SIZE];

	if (disk != NODE_DISK_ROOM)
		strbuf_printf(sb, "%s; no new allocation is taken",
			      node_disk_text(disk, node->disk_path, text));
}

static DEFINE_ROWS(
	node_page, holdfast__v1__node, NULL, COL("ID", "{id}"), COL("status", "{status}"),
	COL("eligible", "{ineligible?no|yes}"), COL_WHEN("{ineligible?y}", "because", "{eligibility_reason}"),
	PART_WHEN("{drain.started_ms?y}", "drain", &drain_page), COL("address", "{address}"),
	COL("boot ID", "{boot_id}"), COL("machine", "{machine}"), COL_SET("refused", "{other_machine}"),
	COL_WHEN("{other_machine}", "refused as",
		 "another machine under this name; see holdfast node identify"),
	COL("agent", "{agent_version}"), COL("kernel", "{kernel}"),
	COLUMN("clock", "", .put = put_clock, .is_optional = true),
	COLUMN("disk", "", .put = put_disk, .is_optional = true), COL_SET("ticket keys", "{ticket_keys}"),
	COL_SET("ticket key", "{other_ticket_keys?{other_ticket_keys:32}..., another one than the server's: "
			      "mounts are refused}"),
	COL_SET("certificate expires", "{certificate_expires_at_ms?{certificate_expires_at_ms:time}}"),
	COL("seen", "{last_seen_ms:age}"), COL_SET("disconnected for", "{disconnected_ms:age}"),
	COL_SET("disconnected as", "{disconnected_ms?{disconnect_reason}}"),
	COL("age", "{create_time_ms:age}"), COL_SET("live claims", "{live_claims?{live_claims}}"),
	COL_WHEN("{unreported?y}", "report",
		 "it " UNREPORTED "; if it is gone for good: holdfast node purge {id} --reason TEXT"),
	TABLE("plugins", "plugins", &plugin_table), TABLE("attributes", "attributes", &attribute_table),
	TABLE("task drivers", "drivers", &driver_table));

static DEFINE_ROWS(node_answer_page, holdfast__v1__get_node_response, NULL, NEED("node", "node", &node_page),
		   TABLE("allocations", "allocations", &show_allocs));
static DEFINE_ROWS(node_claims_page, holdfast__v1__get_node_response, NULL,
		   TABLE("usage", "usages", &show_usages), TABLE("claims", "claims", &show_claims),
		   PART("claims", &show_claim_errors));

#define VALID_MAX_MS (UINT64_C(7) * 86400 * 1000)

enum { NAMED_SIZE = 2 * PICK_ID_SIZE, QUESTION_SIZE = 2 * PICK_ID_SIZE + 64 };

/* --- status, eligibility --- */

static DEFINE_ROWS(volume_table, holdfast__v1__volume, NULL, COL("ID", "{id}"),
		   COL("NAMESPACE", "{namespace}"), COL("NAME", "{name}"), COL("PROVIDER", "{provider}"),
		   COL("PLUGIN", "{plugin_id}"), COL_STATE("SCHEDULABLE", "{schedulable}"),
		   COL("ACCESS MODE", "{access_mode}"));

/* Those in use on the node that the caller may list. */
static enum status show_node_volumes(struct call *call, const char *node_id, bool verbose, struct error *err)
{
	Holdfast__V1__ListVolumesRequest request = HOLDFAST__V1__LIST_VOLUMES_REQUEST__INIT;
	cleanup_message Holdfast__V1__ListVolumesResponse *answer = NULL;
	char every[] = "*";
	enum status status;

	request.node_id = (char *)(uintptr_t)node_id;
	request.namespace_ = every;
	status = pages_fetch(call->connection, &holdfast__v1__volumes__descriptor, "List", &request.base, 0,
			     &answer, err);
	if (status == STATUS_PERMISSION_DENIED) {
		print_line("its volumes are not shown: %s", err->msg);
		return STATUS_OK;
	}
	if (status != STATUS_OK)
		return status;
	return show_list(&volume_table, "volumes", answer->volumes, answer->n_volumes, verbose, err);
}

static enum status node_get_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__GetNodeResponse *answer = message;
	bool verbose = call_has(call, OPT_VERBOSE);
	char about[PICK_ID_SIZE + 8];

	TRY(show_page(&node_answer_page, answer, NULL, verbose, err));
	if (answer->n_claims > 0)
		TRY(show_node_volumes(call, answer->node->id, verbose, err));
	TRY(show_page(&node_claims_page, answer, NULL, verbose, err));
	(void)str_format(about, sizeof(about), "node %s", answer->node->id);
	return events_show_newest(call->connection, about, verbose, err);
}

static enum status node_eligibility_load(struct call *call, void *message, struct error *err)
{
	if (call_has(call, OPT_ENABLE) == call_has(call, OPT_DISABLE))
		return usage_error(call->inv, err, "give either --enable or --disable");
	return STATUS_OK;
}

static DEFINE_ROWS_OF(eligibility_page, holdfast__v1__set_eligibility_response,
		      &holdfast__v1__set_eligibility_request__descriptor, NULL,
		      LINE(NULL, "node {^id} {^eligible?is eligible: new allocations may be placed there|is "
				 "ineligible: nothing new is placed there, what runs continues}"));

/* --- purge, identify: for a node that cannot speak for itself --- */

static enum status get_node(struct connection *connection, char *id, Holdfast__V1__GetNodeResponse **ret,
			    struct error *err)
{
	Holdfast__V1__GetNodeRequest request = HOLDFAST__V1__GET_NODE_REQUEST__INIT;

	request.id = id;
	TRY(connection_call(connection, &holdfast__v1__nodes__descriptor, "Get", &request.base,
			    CALL_TIMEOUT_US, ret, err));
	return (*ret)->node ? STATUS_OK
			    : error_set(err, STATUS_INTERNAL, 0, "the server's answer holds no node");
}

/* Shows the claims and work of the node, for which the server would refuse the purge. */
static enum status check_purge(struct invocation *inv, const Holdfast__V1__GetNodeResponse *answer,
			       struct error *err)
{
	size_t held = count_held(answer);
	enum status status = STATUS_OK;

	if (!inv->options[OPT_JSON]) {
		status = show_page(&node_page, answer->node, NULL, inv->options[OPT_VERBOSE] != NULL, err);
		if (status == STATUS_OK)
			status = show_list(&show_claims, "claims", answer->claims, answer->n_claims, true,
					   err);
	}
	if (status != STATUS_OK || held == 0)
		return status;
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "node %s holds %zu claims that a purge would not free; nothing changed. Next: "
			 "holdfast node drain %s if it runs, else holdfast node attest %s VOLUME...",
			 answer->node->id, held, answer->node->id, answer->node->id);
}

static enum status print_dry_purge(struct invocation *inv, const Holdfast__V1__GetNodeResponse *answer,
				   struct error *err)
{
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	print_line("node %s would be forgotten", answer->node->id);
	return STATUS_OK;
}

static enum status node_purge_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__PurgeNodeRequest *request = message;
	bool has_node = call->inv->n_args > 0;
	enum status status = call_reason(call, OPT_REASON, &request->reason, err);

	request->unknown = call_has(call, OPT_UNKNOWN);
	request->keep_certificate = call_has(call, OPT_KEEP_CERTIFICATE);
	if (status != STATUS_OK || (has_node && !request->unknown))
		return status;
	if (!request->unknown)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "name a node by its ID, or give --unknown");
	if (has_node)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "name a node, or give --unknown, not both");
	if (call_has(call, OPT_DRY_RUN))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "--dry-run cannot list unknown nodes. Next, for their number: holdfast "
				 "operator status");
	return STATUS_OK;
}

/* One that the server knows: what it has is shown first. */
static enum status fill_known(struct call *call, Holdfast__V1__PurgeNodeRequest *request, struct error *err)
{
	cleanup_message Holdfast__V1__GetNodeResponse *answer = NULL;
	char question[QUESTION_SIZE];

	TRY(call_pick(call, pick_node, call->inv->args[0], &request->id, err));
	TRY(value_check_whole(call->inv, "purge", call->inv->args[0], request->id, err));
	TRY(get_node(call->connection, request->id, &answer, err));
	TRY(check_purge(call->inv, answer, err));
	call->is_over = call_has(call, OPT_DRY_RUN);
	if (call->is_over)
		return print_dry_purge(call->inv, answer, err);
	(void)str_format(question, sizeof(question),
			 "Forget node %s, and what it holds and did not report%s?", request->id,
			 request->keep_certificate ? "" : ", and revoke its certificates");
	return value_confirm(call->inv, question, err);
}

static enum status node_purge_fill(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__PurgeNodeRequest *request = message;

	if (request->unknown)
		return value_confirm(call->inv,
				     "Is every node off, or without mounts, that the server does not know "
				     "since it lost history?",
				     err);
	return fill_known(call, request, err);
}

static enum status node_purge_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__PurgeNodeRequest *request = call->request;

	if (request->unknown)
		print_line("no node is missing now; one that comes back is a new one");
	else if (request->keep_certificate)
		print_line("node %s is forgotten; it is a new one if it comes back", request->id);
	else
		print_line(
			"node %s is forgotten and its certificates are revoked; with a new one it is a new "
			"node: holdfast operator node enroll %s, or without a block ca { } in the server's "
			"settings: holdfast operator cert node %s",
			request->id, request->id, request->id);
	return STATUS_OK;
}

/* Without a machine, the one that was refused is meant. If there were several, the last can be a thief's. */
static enum status choose_machine(struct call *call, const Holdfast__V1__Node *node, char **machine,
				  struct error *err)
{
	if (call->inv->n_args < 2 && node->other_machines > 1)
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"more than one machine was refused as node %s, lately %s; nothing was changed. "
			"Name the right one: the journal of its agent has the command (journalctl -u "
			"holdfast-agent)",
			node->id, node->other_machine);
	call_set(call, machine, call->inv->n_args > 1 ? call->inv->args[1] : node->other_machine);
	if ((*machine)[0] != '\0')
		return STATUS_OK;
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "no other machine was refused as node %s; nothing was changed", node->id);
}

static enum status node_identify_fill(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__IdentifyNodeRequest *request = message;
	cleanup_message Holdfast__V1__GetNodeResponse *answer = NULL;
	char question[QUESTION_SIZE];

	TRY(get_node(call->connection, request->id, &answer, err));
	TRY(choose_machine(call, answer->node, &request->machine, err));
	if (!call_has(call, OPT_JSON))
		TRY(show_page(&node_page, answer->node, NULL, call_has(call, OPT_VERBOSE), err));
	(void)str_format(question, sizeof(question), "Is node %s machine %.80s from now on?", request->id,
			 request->machine);
	return value_confirm(call->inv, question, err);
}

static enum status node_identify_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__IdentifyNodeRequest *request = call->request;
	const Holdfast__V1__IdentifyNodeResponse *answer = message;

	print_line("node %s is machine %s from now on", request->id, request->machine);
	if (answer->n_claims == 0)
		return STATUS_OK;
	print_line("its former machine may still have these mounted; they stay until that is ruled out: make "
		   "sure "
		   "that it is off, then holdfast node attest %s VOLUME...",
		   request->id);
	return show_list(&show_claims, "kept", answer->claims, answer->n_claims, true, err);
}

/* --- attest --- */

/* A volume is named as "ID" or "NAMESPACE/ID". */
static enum status name_volume(struct call *call, const char *given, Holdfast__V1__VolumeRef *ref,
			       struct error *err)
{
	const char *namespace = call->inv->options[OPT_NAMESPACE];
	char text[NAMED_SIZE];
	char *slash;

	if (str_copy(text, sizeof(text), given) < 0)
		return usage_error(call->inv, err, "'%.40s...' is too long for a volume", given);
	slash = strchr(text, '/');
	if (!slash && namespace && str_eq(namespace, "*"))
		return usage_error(call->inv, err,
				   "with --namespace '*' volumes are named as NAMESPACE/ID, not '%s'", given);
	if (slash)
		*slash = '\0';
	call_set(call, &ref->namespace_, slash ? text : namespace ? namespace : "default");
	call_set(call, &ref->id, slash ? slash + 1 : text);
	return STATUS_OK;
}

static enum status name_volumes(struct call *call, Holdfast__V1__AttestNodeRequest *request,
				struct error *err)
{
	size_t n = (size_t)call->inv->n_args - 1;
	enum status status = STATUS_OK;

	request->volumes = calloc(n, sizeof(Holdfast__V1__VolumeRef *));
	for (size_t i = 0; request->volumes && i < n && status == STATUS_OK; i++) {
		request->volumes[i] = message_new(&holdfast__v1__volume_ref__descriptor);
		if (!request->volumes[i])
			break;
		request->n_volumes++;
		status = name_volume(call, call->inv->args[i + 1], request->volumes[i], err);
	}
	if (status == STATUS_OK && request->n_volumes < n)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "name %zu volumes", n);
	return status;
}

static enum status node_attest_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__AttestNodeRequest *request = message;

	TRY(value_duration(call->inv, OPT_VALID, 0, VALID_MAX_MS, &request->valid_ms, err));
	return name_volumes(call, request, err);
}

/* An attestation is for the node only: a claim that is attached there is not free yet. */
static void print_detaches(const Holdfast__V1__AttestNodeResponse *answer)
{
	size_t n = 0;

	for (size_t i = 0; i < answer->n_claims; i++)
		n += answer->claims[i]->attach != HOLDFAST__V1__CONTROLLER_ATTACH__ATTACH_NONE &&
		     answer->claims[i]->state <= HOLDFAST__V1__CLAIM_STATE__NODE_DETACHED;
	if (n > 0)
		print_line("%zu of them only after a detach by a controller of their plugin; node-detached "
			   "until then",
			   n);
}

static enum status show_attest(const Holdfast__V1__AttestNodeRequest *request,
			       const Holdfast__V1__AttestNodeResponse *answer, const char *title,
			       struct error *err)
{
	if (answer->bypassed[0])
		print_text(stdout, answer->bypassed);
	if (answer->n_claims == 0) {
		print_line("no claim of node %s is freed by it now; it counts %s", request->id,
			   request->valid_ms > 0 ? "for those whose work is stopped while it is valid"
						 : "as proof that the node holds none of these volumes "
						   "since the restore");
		return STATUS_OK;
	}
	TRY(show_list(&show_claims, title, answer->claims, answer->n_claims, true, err));
	print_detaches(answer);
	return STATUS_OK;
}

/* Show what it would free, and ask. The server refuses an attestation that changes nothing. */
static enum status confirm_attest(struct call *call, Holdfast__V1__AttestNodeRequest *request,
				  struct error *err)
{
	cleanup_message Holdfast__V1__AttestNodeResponse *answer = NULL;
	enum status status;

	request->dry_run = true;
	status = call_method(call, &answer, err);
	request->dry_run = false;
	if (status == STATUS_OK && !call_has(call, OPT_JSON))
		status = show_attest(request, answer, "will be freed", err);
	if (status != STATUS_OK)
		return status;
	return value_confirm(call->inv,
			     "If the node still writes, data is lost. Is it certain that it does not?", err);
}

static enum status node_attest_fill(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__AttestNodeRequest *request = message;

	return request->dry_run ? STATUS_OK : confirm_attest(call, request, err);
}

static enum status node_attest_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__AttestNodeRequest *request = call->request;
	const Holdfast__V1__AttestNodeResponse *answer = message;

	if (request->dry_run)
		return show_attest(request, answer, "would be freed", err);
	print_line("freed by your attestation: %zu of the claims of node %s", answer->n_claims, request->id);
	print_detaches(answer);
	return STATUS_OK;
}

static const struct command commands[] = {
	{.path = "node status",
	 .args = "[ID]",
	 .help = "List nodes, or show one with its plugins, allocations and claims",
	 .example = "worker-3",
	 .options = LISTING,
	 .max_args = 1,
	 .arg_kinds = {WORD_NODE},
	 .call = {.service = &holdfast__v1__nodes__descriptor,
		  .method = "Get",
		  .fields = {{"id", ARG(0), FIELD_NODE}},
		  .show = node_get_show},
	 .list = {.service = &holdfast__v1__nodes__descriptor,
		  .method = "List",
		  .fields = {{"filter", OPT_FILTER}},
		  .rows = &node_table,
		  .pages = PAGES_LIST}},
	{.path = "node drain",
	 .args = "ID",
	 .help = "Stop all allocations of a node and wait until its volumes are released",
	 .example = "worker-3 --reason 'new kernel'",
	 .options = OPTION_BIT(OPT_REASON) | OPTION_BIT(OPT_DEADLINE) | OPTION_BIT(OPT_CANCEL) |
		    OPTION_BIT(OPT_DETACH) | OPTION_BIT(OPT_YES) | OPTION_BIT(OPT_VERBOSE) | WAITING,
	 .min_args = 1,
	 .max_args = 1,
	 .arg_kinds = {WORD_NODE},
	 .call = {.service = &holdfast__v1__nodes__descriptor,
		  .method = "Drain",
		  .fields = {{"id", ARG(0), FIELD_NODE}, {"reason", OPT_REASON}, {"cancel", OPT_CANCEL}},
		  .load = node_drain_load,
		  .fill = node_drain_fill,
		  .show = node_drain_show,
		  .shows_json = true}},
	{.path = "node eligibility",
	 .args = "ID",
	 .help = "Allow or forbid new allocations on a node",
	 .example = "worker-3 --disable --reason 'disk errors'",
	 .options = OPTION_BIT(OPT_ENABLE) | OPTION_BIT(OPT_DISABLE) | OPTION_BIT(OPT_REASON),
	 .min_args = 1,
	 .max_args = 1,
	 .arg_kinds = {WORD_NODE},
	 .call = {.service = &holdfast__v1__nodes__descriptor,
		  .method = "SetEligibility",
		  .fields = {{"id", ARG(0), FIELD_NODE}, {"eligible", OPT_ENABLE}, {"reason", OPT_REASON}},
		  .whole = "eligibility",
		  .load = node_eligibility_load,
		  .rows = &eligibility_page}},
	{.path = "node purge",
	 .args = "[ID]",
	 .help = "Forget a node that is gone and holds nothing",
	 .example = "worker-3 --reason 'scrapped'",
	 .options = OPTION_BIT(OPT_REASON) | OPTION_BIT(OPT_UNKNOWN) | OPTION_BIT(OPT_VERBOSE) |
		    OPTION_BIT(OPT_KEEP_CERTIFICATE) | FORCED,
	 .max_args = 1,
	 .arg_kinds = {WORD_NODE},
	 .call = {.service = &holdfast__v1__nodes__descriptor,
		  .method = "Purge",
		  .load = node_purge_load,
		  .fill = node_purge_fill,
		  .show = node_purge_show}},
	{.path = "node identify",
	 .args = "ID [MACHINE]",
	 .help = "Choose which of two machines a node is",
	 .example = "worker-3 --reason 'new mainboard, the old one is scrapped'",
	 .options = OPTION_BIT(OPT_REASON) | OPTION_BIT(OPT_VERBOSE) | OPTION_BIT(OPT_YES),
	 .min_args = 1,
	 .max_args = 2,
	 .arg_kinds = {WORD_NODE},
	 .call = {.service = &holdfast__v1__nodes__descriptor,
		  .method = "Identify",
		  .fields = {{"id", ARG(0), FIELD_NODE}, {"reason", OPT_REASON, FIELD_REASON}},
		  .whole = "identify",
		  .fill = node_identify_fill,
		  .show = node_identify_show}},
	{.path = "node attest",
	 .args = "ID VOLUME...",
	 .help = "Take responsibility that a node has released volumes",
	 .example = "worker-3 db logs --reason 'power cut by Kim, ticket 4711' --dry-run",
	 .options = OPTION_BIT(OPT_REASON) | OPTION_BIT(OPT_VALID) | OPTION_BIT(OPT_VERBOSE) | FORCED,
	 .min_args = 2,
	 .max_args = ANY_ARGS,
	 .arg_kinds = {WORD_NODE, WORD_VOLUME},
	 .call = {.service = &holdfast__v1__nodes__descriptor,
		  .method = "Attest",
		  .fields = {{"id", ARG(0), FIELD_KNOWN_NODE},
			     {"reason", OPT_REASON, FIELD_REASON},
			     {"dry_run", OPT_DRY_RUN}},
		  .whole = "attest",
		  .load = node_attest_load,
		  .fill = node_attest_fill,
		  .show = node_attest_show}},
};

const struct command_table node_commands = {commands, ARRAY_SIZE(commands)};
