/* SPDX-License-Identifier: Apache-2.0 */
#include "node/reports.h"

#include "server.h"

#include "access/access.h"
#include "access/audit.h"
#include "access/revocations.h"
#include "access/words.h"
#include "alloc/allocs.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/str.h"
#include "claim/attest_record.h"
#include "claim/claims.h"
#include "claim/held_twice.h"
#include "claim/release.h"
#include "log/log.h"
#include "model/alloc_health.h"
#include "model/pb.h"
#include "model/task.h"
#include "node/down.h"
#include "node/drain.h"
#include "node/lookup.h"
#include "node/machine_code.h"
#include "node/session.h"
#include "node/trails.h"
#include "plugin/controller.h"
#include "plugin/fingerprint.h"
#include "recovery/epoch.h"
#include "recovery/history.h"
#include "rpc/server.h"
#include "state/change.h"
#include "state/disk.h"
#include "state/freed.h"
#include "state/usage.h"

#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/random.h>

enum { LOST_MIN_MS = 60 * 1000 };

static void send_welcome(struct session *session)
{
	Holdfast__V1__SessionDown down = HOLDFAST__V1__SESSION_DOWN__INIT;
	Holdfast__V1__SessionWelcome welcome = HOLDFAST__V1__SESSION_WELCOME__INIT;
	char version[] = HOLDFAST_VERSION;
	uint8_t key[TICKET_KEY_SIZE];
	struct history_mark mark;

	ticket_issuer_public_key(session->server->issuer, key);
	welcome.ticket_key = (ProtobufCBinaryData){.len = TICKET_KEY_ID_SIZE, .data = key};
	history_mark(session->server, session->node_id, &mark);
	session->mark_index = mark.pb.index;
	session->mark_us = clock_monotonic_us();
	welcome.mark = &mark.pb;
	welcome.server_version = version;
	welcome.cluster = session->server->config.cluster;
	welcome.heartbeat_ms = nodes_heartbeat_ms(session->server);
	session->heartbeat_us = welcome.heartbeat_ms * USEC_PER_MSEC;
	welcome.clock_ms = clock_realtime_ms();
	down.message_case = HOLDFAST__V1__SESSION_DOWN__MESSAGE_WELCOME;
	down.welcome = &welcome;
	session_send(session, &down);
}

/* How far the history has got, if that is worth a message: with a heartbeat. */
static void send_mark(struct session *session)
{
	Holdfast__V1__SessionDown down = HOLDFAST__V1__SESSION_DOWN__INIT;
	uint64_t now_us = clock_monotonic_us();
	struct history_mark mark;

	if (kv_revision(session->server->kv) == session->mark_index ||
	    now_us - session->mark_us < HISTORY_MARK_INTERVAL_MS * USEC_PER_MSEC)
		return;
	history_mark(session->server, session->node_id, &mark);
	session->mark_index = mark.pb.index;
	session->mark_us = now_us;
	down.message_case = HOLDFAST__V1__SESSION_DOWN__MESSAGE_MARK;
	down.mark = &mark.pb;
	session_send(session, &down);
}

/* The fields of an allocation's status, while it is processed. */
struct reported_status {
	struct alloc_volume published[ALLOC_VOLUMES_MAX];
	char description[ALLOC_DESCRIPTION_MAX + 1];
	struct message_list *tasks; /* owned */
};

static enum status apply_published(const Holdfast__V1__AllocStatus *from, struct alloc *to,
				   struct reported_status *reported, struct error *err)
{
	if (from->n_published > ALLOC_VOLUMES_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "more than %d volumes are published",
				 ALLOC_VOLUMES_MAX);
	to->published = reported->published;
	to->n_published = 0;
	for (size_t i = 0; i < from->n_published; i++) {
		TRY(alloc_volume_from_pb(from->published[i], &reported->published[i], err));
		to->n_published++;
	}
	return STATUS_OK;
}

/* A member that is lost is placed again at once, on the same node if that has the most room, and no attempt
 * is counted. A node that reports each one as lost would get it thousands of times a second: one that has
 * just been placed has failed. */
static bool is_lost_early(const struct alloc *alloc)
{
	int64_t age_ms = clock_realtime_ms() - MAX(alloc->create_time_ms, alloc->place_time_ms);

	return alloc->client_status == CLIENT_LOST && alloc->job_id[0] != '\0' && age_ms >= 0 &&
	       age_ms < LOST_MIN_MS; /* the clock may have been ahead */
}

static enum status apply_alloc_status(const Holdfast__V1__AllocStatus *from, struct alloc *to,
				      struct reported_status *reported, struct error *err)
{
	int status = (int)from->client_status;

	if (status <= CLIENT_UNSPECIFIED || status >= CLIENT_N)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "client status %d is not known here",
				 status);
	to->client_status = (enum client_status)status;
	if (is_lost_early(to))
		to->client_status = CLIENT_FAILED;
	to->client_code = from->code;
	str_copy_text(reported->description, sizeof(reported->description), from->description);
	to->client_description = reported->description;
	return apply_published(from, to, reported, err);
}

/* Shown to people as they are, so they are bounded and of this allocation. */
static enum status check_tasks(const Holdfast__V1__AllocStatus *from, const struct alloc *to,
			       struct error *err)
{
	if (from->n_tasks > message_list_n(to->tasks))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "allocation %s has %zu tasks, not %zu",
				 from->alloc_id, message_list_n(to->tasks), from->n_tasks);
	for (size_t i = 0; i < from->n_tasks; i++)
		if (!task_status_is_valid(to, from->tasks[i]))
			return error_set(err, STATUS_INVALID_ARGUMENT, 0,
					 "allocation %s: the status of task '%.64s' is of a task that it "
					 "does not have, or has more than %d bytes or %d attributes",
					 from->alloc_id, from->tasks[i]->task, TASK_STATUS_BYTES_MAX,
					 TASK_STATUS_ATTRIBUTES_MAX);
	return STATUS_OK;
}

static enum status apply_tasks(const Holdfast__V1__AllocStatus *from, struct alloc *to,
			       struct reported_status *reported, struct error *err)
{
	if (!message_list_new((ProtobufCMessage *const *)(void *)from->tasks, from->n_tasks,
			      &reported->tasks))
		return error_no_memory(err, "the status of an allocation");
	to->task_status = reported->tasks;
	return STATUS_OK;
}

/* Keeps all of an allocation that may not grow, except for its end. */
static void keep_size(const struct alloc_entry *entry, struct alloc *reported)
{
	struct alloc kept = entry->alloc;

	if (epoch_may_grow(entry))
		return;
	if (alloc_is_client_terminal(reported)) {
		kept.client_status = reported->client_status;
		kept.client_code = reported->client_code;
	}
	*reported = kept;
}

static bool same_published(const struct alloc *a, const struct alloc *b)
{
	for (uint32_t i = 0; i < a->n_published; i++)
		if (!str_eq(a->published[i].name, b->published[i].name) ||
		    !str_eq(a->published[i].path, b->published[i].path) ||
		    !str_eq(a->published[i].claim_id, b->published[i].claim_id) ||
		    a->published[i].is_device != b->published[i].is_device)
			return false;
	return true;
}

/* Each hello repeats every status: known values are not written again. */
static bool reports_nothing_new(const struct alloc *known, const struct alloc *reported)
{
	return known->client_status == reported->client_status &&
	       known->client_code == reported->client_code &&
	       str_eq(alloc_description(known), alloc_description(reported)) &&
	       known->n_published == reported->n_published && same_published(known, reported) &&
	       message_list_eq(known->task_status, reported->task_status);
}

static enum status apply_known(struct session *session, struct alloc_entry *entry, struct alloc *alloc,
			       struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	bool has_ended = alloc_is_client_terminal(alloc);

	if (alloc_is_client_terminal(&entry->alloc)) /* for ever: there the node has to get, too */
		return session_commit(session, &change, has_ended ? SESSION_FORGET_ALLOC : SESSION_STOP_ALLOC,
				      alloc->id, err);
	if (reports_nothing_new(&entry->alloc, alloc))
		return STATUS_OK;
	alloc->modify_time_ms = clock_realtime_ms();
	alloc_note_times(alloc, &entry->alloc, alloc->modify_time_ms);
	change_put_alloc(&change, alloc);
	if (!has_ended)
		return session_commit(session, &change, SESSION_NOTHING, "", err);
	TRY(claims_end_work(&change, entry, alloc->modify_time_ms, err));
	return session_commit(session, &change, SESSION_FORGET_ALLOC, alloc->id, err);
}

/* The end of an unknown allocation, reported during a session, is the answer to a late order. */
static enum status is_forgotten(struct session *session, const Holdfast__V1__AllocStatus *status,
				const struct alloc_entry *entry, bool *ret, struct error *err)
{
	bool has_ended = (int)status->client_status > CLIENT_RUNNING;

	*ret = false;
	return entry || !has_ended ? epoch_is_forgotten(session, entry, status, ret, err) : STATUS_OK;
}

/* Holds a claim again that has ended here and that the node has mounted, also if the rest of the status is
 * refused. */
static enum status take_published(struct session *session, const Holdfast__V1__AllocStatus *status,
				  struct error *err)
{
	if (status->n_published > ALLOC_VOLUMES_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "more than %d volumes are published",
				 ALLOC_VOLUMES_MAX);
	for (size_t i = 0; i < status->n_published; i++)
		TRY(held_twice_take(session, status->published[i]->claim_id, err));
	return STATUS_OK;
}

/* Has the node a claim for it that shows whose it is? */
static bool is_disputed(const struct session *session, const struct alloc_entry *entry)
{
	const struct node_entry *node = state_node(&session->server->state, session->node_id);
	const struct claim_entry *claim;

	if (!entry->alloc.adopted) /* a node can name any, without a rate */
		return false;
	LIST_FOREACH (claim, &node->claims, of_node)
		if (claim_is_live(&claim->claim) && str_eq(claim->claim.allocation_id, entry->id) &&
		    epoch_is_disputed(entry, &claim->claim))
			return true;
	return false;
}

/* An allocation is its namespace and its id. After a restore a tenant may have submitted the id of another
 * namespace's work, which the store has forgotten and its node has. */
static bool is_about(const Holdfast__V1__AllocStatus *status, const struct alloc_entry *entry)
{
	return str_eq(entry->alloc.namespace, namespace_or_default(status->namespace_));
}

static void refuse_status(struct session *session, const struct error *why)
{
	audit_refused(session->server, session->call, "Nodes.Session: status", NULL, why);
}

/* After a restore work may have got another node. The session goes on: what the node holds is more important
 * than one status. The report decides about a pending one. */
static void refuse_foreign(struct session *session, const struct alloc_entry *entry,
			   const Holdfast__V1__AllocStatus *status)
{
	struct error err;

	if (alloc_is_pending(&entry->alloc) && session->is_report_due)
		return;
	(void)error_set(&err, STATUS_PERMISSION_DENIED, 0, "allocation %s is not of node %s", entry->id,
			session->node_id);
	refuse_status(session, &err);
	if (session->is_report_due || is_disputed(session, entry))
		return;
	/* the node forgets an ended one: a pending one may be placed there, and would be taken for it */
	session_notify(session,
		       (int)status->client_status > CLIENT_RUNNING ? SESSION_FORGET_ALLOC
								   : SESSION_STOP_ALLOC,
		       entry->id);
}

/* The node's allocation is another one than @entry: nothing of @entry changes, and neither is stopped. */
static enum status refuse_other(struct session *session, const struct alloc_entry *entry,
				const Holdfast__V1__AllocStatus *status, struct error *err)
{
	struct error why;

	(void)error_set(&why, STATUS_PERMISSION_DENIED, 0,
			"allocation %s is of namespace %s: node %s has another one of this id, of namespace "
			"%.64s",
			entry->id, entry->alloc.namespace, session->node_id,
			namespace_or_default(status->namespace_));
	refuse_status(session, &why);
	return take_published(session, status, err);
}

/* Takes only the end from a status with other tasks. The store has forgotten that allocation, and its id was
 * submitted again. A session that ended for it would end at each connect. */
static enum status apply_fitting(struct session *session, struct alloc_entry *entry,
				 const Holdfast__V1__AllocStatus *status, struct alloc *alloc,
				 struct reported_status *reported, struct error *err)
{
	struct error why;
	bool fits = check_tasks(status, alloc, &why) == STATUS_OK;
	bool runs = status->client_status == HOLDFAST__V1__CLIENT_STATUS__RUNNING;

	entry->runs_in = fits && runs ? session->serial : 0;
	if (fits)
		TRY(apply_tasks(status, alloc, reported, err));
	else
		refuse_status(session, &why);
	if (!fits && !alloc_is_client_terminal(alloc) && !alloc_is_client_terminal(&entry->alloc))
		return STATUS_OK;
	keep_size(entry, alloc);
	return apply_known(session, entry, alloc, err);
}

static enum status take_status(struct session *session, const Holdfast__V1__AllocStatus *status,
			       struct error *err)
{
	struct alloc_entry *entry = state_alloc(&session->server->state, status->alloc_id);
	struct reported_status reported = {.tasks = NULL};
	bool is_unknown = false;
	struct alloc alloc;
	enum status st;

	if (!entry && !id_is_uuid(status->alloc_id))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "the id of an allocation in a status is not a lower-case UUID");
	if (!session->was_asked)
		TRY(is_forgotten(session, status, entry, &is_unknown, err));
	if (is_unknown)
		return epoch_doubt(session, status->alloc_id, err);
	if (!entry) /* over and forgotten on both sides; or the report has it */
		return STATUS_OK;
	if (!is_about(status, entry))
		return refuse_other(session, entry, status, err);
	if (!str_eq(entry->alloc.node_id, session->node_id)) {
		refuse_foreign(session, entry, status);
		return STATUS_OK;
	}
	alloc = entry->alloc;
	TRY(apply_alloc_status(status, &alloc, &reported, err));
	TRY(take_published(session, status, err));
	st = apply_fitting(session, entry, status, &alloc, &reported, err);
	message_list_unref(reported.tasks);
	return st;
}

/* Does the receipt affirm one of the two? A field that is there but false denies it. */
static bool reports_what(const Holdfast__V1__ClaimReceipt *receipt)
{
	switch (receipt->what_case) {
	case HOLDFAST__V1__CLAIM_RECEIPT__WHAT_MOUNTED:
		return receipt->mounted;
	case HOLDFAST__V1__CLAIM_RECEIPT__WHAT_RELEASED:
		return receipt->released;
	case HOLDFAST__V1__CLAIM_RECEIPT__WHAT__NOT_SET:
	case _HOLDFAST__V1__CLAIM_RECEIPT__WHAT__CASE_IS_INT_SIZE:
		break;
	}
	return false;
}

static bool was_given_up(const struct claim *claim)
{
	return (claim->state >= CLAIM_NODE_DETACHED || claim->was_freed) &&
	       (claim->evidence == EVIDENCE_OPERATOR || claim->evidence == EVIDENCE_STORAGE_FENCE ||
		claim->evidence == EVIDENCE_POWER_FENCE || claim->evidence == EVIDENCE_NETWORK_FENCE);
}

/* Makes the event of a node that released the claim with only its mount helper: the plugin's part is
 * unconfirmed. It counts as a person's statement with the kernel's report. @detail for the event */
static void without_plugin_event(const struct claim *claim, const Holdfast__V1__ClaimReceipt *receipt,
				 char detail[static EVIDENCE_DETAIL_MAX + 1], struct claim_event *event)
{
	char kernel[KERNEL_WORDS_MAX + 1];
	/* a server that was restored may have forgotten who it was; the evidence is the weaker one anyway */
	const char *who = claim->plugin_waiver[0] != '\0' ? claim->plugin_waiver
			  : was_given_up(claim)		  ? claim->evidence_detail
						: "without its plugin, not ordered by anyone on record";

	str_copy_text(kernel, sizeof(kernel), receipt->kernel);
	(void)str_format(detail, EVIDENCE_DETAIL_MAX + 1, "%s%s%s", who,
			 kernel[0] != '\0' ? "; kernel: " : "", kernel);
	event->evidence = EVIDENCE_OPERATOR;
	event->detail = detail;
}

static void receipt_event(struct claim_entry *entry, const Holdfast__V1__ClaimReceipt *receipt,
			  char detail[static EVIDENCE_DETAIL_MAX + 1], struct claim_event *event,
			  struct error *err)
{
	const struct claim *claim = &entry->claim;

	*event = (struct claim_event){.now_ms = clock_realtime_ms()};
	if (receipt->error[0] != '\0') {
		event->type = CLAIM_EVENT_NODE_FAILED;
		event->detail = receipt->error;
		event->code = status_from_number((long)receipt->error_code);
	} else if (receipt->what_case == HOLDFAST__V1__CLAIM_RECEIPT__WHAT_MOUNTED) {
		event->type = CLAIM_EVENT_MOUNTED;
	} else if (held_twice_check_end(entry, err) != STATUS_OK) {
		event->type = CLAIM_EVENT_NODE_FAILED;
		event->detail = err->msg;
		event->code = err->status;
	} else {
		event->type = CLAIM_EVENT_EVIDENCE;
		event->evidence = EVIDENCE_RECEIPT;
		if (receipt->without_plugin)
			without_plugin_event(claim, receipt, detail, event);
	}
}

/* Must the order to continue without the plugin be sent again to the node, whose release has failed? Yes
 * if a person ordered it, maybe to an earlier run of its agent, or the claim was freed without the node's
 * receipt. It is sent at most as often as orders to release. */
static bool must_report_without_plugin(struct claim_entry *entry)
{
	uint64_t now_us = clock_monotonic_us();
	bool is_forced = entry->claim.state < CLAIM_NODE_DETACHED && entry->claim.plugin_waiver[0] != '\0';

	if (!is_forced && !was_given_up(&entry->claim))
		return false;
	if (entry->work.without_plugin_us != 0 &&
	    now_us - entry->work.without_plugin_us < RELEASE_RETRY_MIN_MS * USEC_PER_MSEC)
		return false;
	entry->work.without_plugin_us = now_us;
	return true;
}

static enum status check_receipt(const struct claim *claim, const Holdfast__V1__ClaimReceipt *receipt,
				 struct error *err)
{
	if (!str_eq(claim->boot_id, receipt->boot_id) || claim->generation != receipt->generation)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "the receipt for claim %s is of another boot or generation", claim->id);
	if (claim->state == CLAIM_RESERVED && !claim->sent_to_node)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "the receipt for claim %s comes before the claim was sent", claim->id);
	if (receipt->error[0] == '\0' && !reports_what(receipt))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "the receipt for claim %s is empty",
				 claim->id);
	return STATUS_OK;
}

/* Does it report a new mount of its helper? A repeat does not; a device may need no mount. */
static bool has_mounted(const struct claim_entry *entry, const Holdfast__V1__ClaimReceipt *receipt)
{
	return entry && entry->claim.state == CLAIM_RESERVED && receipt->error[0] == '\0' &&
	       receipt->what_case == HOLDFAST__V1__CLAIM_RECEIPT__WHAT_MOUNTED &&
	       entry->claim.attachment_mode == ATTACHMENT_FILE_SYSTEM;
}

/* Handles a receipt of the node: only for its own claim, in the boot and generation of the grant. */
static enum status take_receipt(struct session *session, const Holdfast__V1__ClaimReceipt *receipt,
				struct error *err)
{
	struct claim_entry *entry;
	cleanup(change_release) struct change change = CHANGE_INIT;
	enum session_notice ack = receipt->what_case == HOLDFAST__V1__CLAIM_RECEIPT__WHAT_RELEASED
					  ? SESSION_ACK_RELEASED
					  : SESSION_ACK_MOUNTED;
	char detail[EVIDENCE_DETAIL_MAX + 1];
	struct claim_event event;
	struct claim after;

	TRY(session_find_claim(session, receipt->claim_id, &entry, err));
	if (!entry && !session->was_asked && ack == SESSION_ACK_MOUNTED)
		return epoch_doubt(session, receipt->claim_id, err);
	trails_take(session->server, &change, session->node_id, receipt->trail, has_mounted(entry, receipt));
	/* long finished, and pruned: the repeat of a receipt whose acknowledgement was lost; or the node's
	 * report has it */
	if (!entry)
		return session_commit(session, &change, ack, receipt->claim_id, err);
	TRY(check_receipt(&entry->claim, receipt, err));
	if (claim_is_elsewhere(&entry->claim, session->boot_id)) /* another machine has it */
		return session_commit(session, &change, ack, receipt->claim_id, err);
	receipt_event(entry, receipt, detail, &event, err);
	/* if it was ordered to stop, its work is over, though the allocation's end is reported after the
	 * last of its volumes */
	TRY(event.evidence == EVIDENCE_OPERATOR
		    ? claims_take_from_node(&change, entry, &event, "its node released it without the plugin",
					    err)
		    : claims_step(&change, entry, &event, &after, err));
	if (event.type == CLAIM_EVENT_NODE_FAILED)
		return session_commit(session, &change,
				      receipt->error[0] != '\0' && must_report_without_plugin(entry)
					      ? SESSION_WITHOUT_PLUGIN
					      : SESSION_NOTHING,
				      entry->claim.id, err);
	return session_commit(session, &change, ack, entry->claim.id, err);
}

static enum status check_hello(const struct session *session, const Holdfast__V1__SessionHello *hello,
			       struct error *err)
{
	if (session_is_greeted(session))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "a second hello on one session");
	if (hello->machine[0] != '\0' && !node_machine_is_valid(hello->machine))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "the machine's digest has not its form");
	if (!str_eq(hello->node_id, session->node_id))
		return error_set(err, STATUS_PERMISSION_DENIED, 0,
				 "the agent calls itself node '%.64s' but its certificate is of node %s",
				 hello->node_id, session->node_id);
	if (!id_is_uuid(hello->boot_id)) /* another spelling would pass for another boot */
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "the boot id is not a lower-case UUID");
	if (hello->n_mounted > SESSION_REPORT_OBJECTS_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "node %s reports more than %d mounted volumes", session->node_id,
				 SESSION_REPORT_OBJECTS_MAX);
	return STATUS_OK;
}

/* Refuses another machine with the same certificate: it must not free the claims of the first one. A later
 * boot counts only after the earlier one has disconnected, or has had time to come back to a server that
 * leads since a moment ago. Keepalive ends dead sessions within seconds, so an honest reboot gets in. The
 * refusal does not name the boot: a hello with that id takes the session over. */
static enum status check_rival(const struct session *session, struct node_entry *node, const char *boot_id,
			       struct error *err)
{
	const struct session *rival = node->session;

	if (!rival) {
		nodes_note_boot(node, boot_id);
		return nodes_check_boot(session->server, node, boot_id, err);
	}
	if (rival == session || !session_is_greeted(rival) || str_eq(rival->boot_id, boot_id))
		return STATUS_OK;
	return error_set(err, STATUS_ALREADY_EXISTS, 0,
			 "node %s is connected already, in another boot; is its certificate used by two "
			 "machines?",
			 session->node_id);
}

/* Did the node hold a claim in @boot_id? As far as history goes. */
static enum status held_in_boot(struct server *server, const struct node_entry *node, const char *boot_id,
				bool *ret, struct error *err)
{
	const struct claim_entry *claim;

	*ret = true;
	LIST_FOREACH (claim, &node->claims, of_node)
		if (str_eq(claim->claim.boot_id, boot_id))
			return STATUS_OK;
	return freed_was_in_boot(server, node->id, boot_id, ret, err);
}

/* Does the node report running work of an earlier boot? In a new boot nothing was ever started. */
static bool runs_volumes(const Holdfast__V1__SessionHello *hello)
{
	for (size_t i = 0; i < hello->n_allocs && hello->adoption_complete; i++)
		if (hello->allocs[i]->client_status == HOLDFAST__V1__CLIENT_STATUS__RUNNING &&
		    hello->allocs[i]->n_published > 0)
			return true;
	return false;
}

/* It searches the store once for each allocation: the next hello finds the index. */
static enum status had_claim(struct session *session, struct alloc_entry *alloc, bool *ret, struct error *err)
{
	cleanup(freed_list_release) struct freed_list freed = {NULL, 0};
	uint64_t start_us = clock_monotonic_us();
	enum status status;

	*ret = !LIST_EMPTY(&alloc->claims) || alloc->freed_index > 0;
	if (*ret)
		return STATUS_OK;
	TRY(session_check_search(session, err));
	status = freed_of_alloc(session->server, alloc, &freed, err);
	session_pay_search(session, start_us);
	if (freed.n > 0)
		alloc->freed_index = freed.claims[0].modify_index;
	*ret = freed.n > 0 || status == STATUS_DATA_LOSS; /* there is a record, which cannot be read */
	return status == STATUS_DATA_LOSS ? STATUS_OK : status;
}

/* A short hello omits published volumes. */
static enum status runs_without_claim(struct session *session, struct alloc_entry *entry,
				      const Holdfast__V1__AllocStatus *reported, bool *ret, struct error *err)
{
	bool had = true;

	if (reported->client_status == HOLDFAST__V1__CLIENT_STATUS__RUNNING && is_about(reported, entry) &&
	    str_eq(entry->alloc.node_id, session->node_id) && !alloc_is_client_terminal(&entry->alloc) &&
	    entry->alloc.n_volumes > 0)
		TRY(had_claim(session, entry, &had, err));
	*ret = !had;
	return STATUS_OK;
}

/* Finds the first allocation or claim in the hello that the store does not know as the node does. @ret NULL:
 * it knows them all. */
static enum status forgotten_work(struct session *session, const Holdfast__V1__SessionHello *hello,
				  const char **ret, struct error *err)
{
	*ret = NULL;
	for (size_t i = 0; i < hello->n_allocs && !*ret; i++) {
		const Holdfast__V1__AllocStatus *status = hello->allocs[i];
		struct alloc_entry *entry = state_alloc(&session->server->state, status->alloc_id);
		bool is_forgotten;

		TRY(epoch_is_forgotten(session, entry, status, &is_forgotten, err));
		if (!is_forgotten)
			TRY(runs_without_claim(session, entry, status, &is_forgotten, err));
		if (is_forgotten)
			*ret = status->alloc_id;
	}
	for (size_t i = 0; i < hello->n_mounted && !*ret; i++) {
		struct claim_entry *claim;

		TRY(session_find_claim(session, hello->mounted[i]->claim_id, &claim, err));
		if (!claim)
			*ret = hello->mounted[i]->claim_id;
	}
	return STATUS_OK;
}

static enum status refuse_boot(const struct node_entry *node, const char *boot_id, struct error *err)
{
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "node %s: boot %s was taken as over when another boot or machine became the node, "
			 "and what it held may belong to others now. A machine that was resumed from a "
			 "snapshot must be rebooted before it connects",
			 node->id, boot_id);
}

/* Does a machine that the node is no longer hold a claim in @boot_id? Another one in that boot would speak
 * for it. */
static bool is_of_former_machine(const struct node_entry *node, const char *boot_id)
{
	const struct claim_entry *claim;

	LIST_FOREACH (claim, &node->claims, of_node)
		if (claim_is_live(&claim->claim) && claim->claim.other_machine &&
		    str_eq(claim->claim.boot_id, boot_id))
			return true;
	return false;
}

/* Refuses a boot that was taken as over: its mounts would be those of a second writer.
 *
 * Eight such boots are remembered by name. An older one is recognized by the claims that it held, as long
 * as history has them, and by the work that it reports: a new boot was never ordered to run anything. A
 * server that has lost history cannot use the last two: then the node's report counts. */
static enum status check_boot(struct session *session, const struct node_entry *node,
			      const Holdfast__V1__SessionHello *hello, struct error *err)
{
	bool is_current = str_eq(node->node.boot_id, hello->boot_id);
	const char *forgotten = NULL;
	bool has_held;

	/* after an identify that failed halfway, the claims of the present machine look like a former one's
	 */
	if (node_past_boot(&node->node, hello->boot_id) != 0 ||
	    (!is_current && is_of_former_machine(node, hello->boot_id)))
		return refuse_boot(node, hello->boot_id, err);
	if (is_current || node->is_unreported)
		return STATUS_OK;
	TRY(held_in_boot(session->server, node, hello->boot_id, &has_held, err));
	if (!has_held && runs_volumes(hello))
		TRY(forgotten_work(session, hello, &forgotten, err));
	if (has_held || (runs_volumes(hello) && !forgotten))
		return refuse_boot(node, hello->boot_id, err);
	return STATUS_OK;
}

enum { REFUSAL_COST_US = 60 * USEC_PER_SEC };

/* It is on record once for each machine, however often it tries. A list of machines fits at once, then one a
 * minute: invented ones must not push the honest one out before an operator has seen it. */
static void note_other_machine(struct session *session, const char *machine, const struct error *why)
{
	struct node_entry *entry = state_node(&session->server->state, session->node_id);
	cleanup(change_release) struct change change = CHANGE_INIT;
	cleanup_free struct node *node = malloc(sizeof(*node));
	char more[RATE_MORE_SIZE];
	struct error err;

	if (!node || node_machine_was_refused(&entry->node, machine) ||
	    !rate_take_counted(&entry->refusals, REFUSAL_COST_US, NODE_REFUSED_N, clock_monotonic_us(), more))
		return;
	*node = entry->node;
	node_refuse_machine(node, machine);
	node->other_machine_ms = node->modify_time_ms = clock_realtime_ms();
	change_put_node(&change, node);
	audit_refused(session->server, session->call, "Nodes.Session: hello", NULL, why);
	if (session_commit(session, &change, SESSION_NOTHING, "", &err) != STATUS_OK)
		log_ctx(LOG_WARNING, &(struct log_ctx){.node = node->id, .op = "session", .err = &err},
			"cannot store which other machine came under the node's name, ignoring");
}

/* The store has forgotten that @machine was the node: it may hold volumes. */
static void note_lost_machine(struct session *session, const char *machine)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	char what[SESSION_DOUBT_SIZE], code[NODE_MACHINE_MAX + 1];
	struct error err;

	if (!history_note_refused(session, machine, &change))
		return;
	(void)str_format(what, sizeof(what), "machine %s, which is refused, was the node in the lost time",
			 machine_code(session->server, session->node_id, machine, code));
	audit_node_event(session->server, &change, NODE_EVENT_DOUBT, session->node_id, what);
	log_ctx(LOG_ERR, &(struct log_ctx){.node = session->node_id, .op = "epoch"},
		"%s. Nothing is granted before it has reported: holdfast node identify %s %s", what,
		session->node_id, code);
	if (session_commit(session, &change, SESSION_NOTHING, "", &err) != STATUS_OK)
		log_ctx(LOG_WARNING, &(struct log_ctx){.node = session->node_id, .op = "epoch", .err = &err},
			"cannot store that this machine is waited for; its next hello repeats it");
}

/* A node that has shown its machine shows it in each hello: a clone that was resumed in the same boot would
 * leave it out, and so would a thief of the certificate, who does not know it. */
static enum status check_shows_machine(struct session *session, const struct node_entry *entry,
				       const Holdfast__V1__SessionHello *hello, struct error *err)
{
	if (entry->node.machine[0] == '\0' || hello->machine[0] != '\0')
		return STATUS_OK;
	(void)error_set(err, STATUS_FAILED_PRECONDITION, 0,
			"node %s has always shown which machine it is, and does not now: "
			"its agent must be able to read /etc/machine-id",
			entry->id);
	audit_refused(session->server, session->call, "Nodes.Session: hello", NULL, err);
	return err->status;
}

/* Its agent's journal has the code by which an operator names it. */
static void refuse_machine(struct server *server, const struct node *node, const char *machine,
			   struct error *err)
{
	char code[NODE_MACHINE_MAX + 1];

	(void)machine_code(server, node->id, machine, code);
	if (node_machine_differs(node->machine, machine))
		(void)error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"this is another machine than the one that is known as node %s: a clone of its disk, "
			"a second machine with its certificate, or new hardware. Nothing that the first one "
			"holds is freed. A clone gets a name, a certificate and a machine-id of its own; if "
			"this machine is the node from now on: holdfast node identify %s %s --reason TEXT",
			node->id, node->id, code);
	else
		(void)error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"node %s has always shown the UUID of its hardware, and does not now: its agent must "
			"be able to read it (LoadCredential=holdfast.hardware: in its unit). Nothing that it "
			"holds is freed. If its hardware has no UUID since a repair, reboot it, then: "
			"holdfast node identify %s %s --reason TEXT",
			node->id, node->id, code);
}

/* A boot of another machine proves nothing about the first one, which may still write: a clone of its disk,
 * or its certificate on two machines. The machine-id is in each record of the journal: a thief of the
 * certificate who knows it does not know the hardware. */
static enum status check_machine(struct session *session, const struct node_entry *entry,
				 const Holdfast__V1__SessionHello *hello, struct error *err)
{
	const struct node *node = &entry->node;

	if (node_machine_shows(node->machine, hello->machine))
		return STATUS_OK;
	refuse_machine(session->server, node, hello->machine, err);
	note_lost_machine(session, hello->machine);
	note_other_machine(session, hello->machine, err);
	return err->status;
}

/* Logs once when it goes wrong: the node sends hello often. */
static void apply_clock(const Holdfast__V1__SessionHello *hello, struct node *node)
{
	bool was_off = node_clock_is_off(node->clock_skew_ms);
	char text[NODE_CLOCK_TEXT_SIZE];

	node->clock_skew_ms = (hello->clock_ms < 0 ? 0 : hello->clock_ms) - clock_realtime_ms();
	if (node_clock_is_off(node->clock_skew_ms) && !was_off)
		log_ctx(LOG_WARNING, &(struct log_ctx){.node = node->id, .op = "session"},
			"the clock of node %s is %s the server's; tickets expire by the node's. Set the one "
			"that "
			"is wrong (chronyc makestep), and restart that program",
			node->id, node_clock_text(node->clock_skew_ms, text));
}

/* A node without plugins may leave it out. */
static const Holdfast__V1__Fingerprint *fingerprint_of(const Holdfast__V1__SessionHello *hello)
{
	static const Holdfast__V1__Fingerprint none = HOLDFAST__V1__FINGERPRINT__INIT;

	return hello->fingerprint ? hello->fingerprint : &none;
}

static void node_from_hello(const struct session *session, const Holdfast__V1__SessionHello *hello,
			    const char *boot_id, const struct node *current, struct node *ret)
{
	*ret = *current;
	(void)str_copy(ret->id, sizeof(ret->id), session->node_id);
	(void)str_copy(ret->boot_id, sizeof(ret->boot_id), boot_id);
	str_copy_text(ret->agent_version, sizeof(ret->agent_version), hello->agent_version);
	str_copy_text(ret->kernel, sizeof(ret->kernel), hello->kernel);
	str_copy_text(ret->address, sizeof(ret->address), rpc_call_peer(session->call)->address);
	(void)str_copy(ret->certificate_issuer, sizeof(ret->certificate_issuer),
		       rpc_call_peer(session->call)->issuer);
	fingerprint_take_issuer(fingerprint_of(hello),
				ret); /* the connection may be older than its renewal */
	ret->status = NODE_READY;
	ret->disconnected_ms = 0;
	ret->disconnect_reason[0] = '\0';
	fingerprint_take_keys(session->server, &fingerprint_of(hello)->ticket_keys, ret);
	fingerprint_take_disk(fingerprint_of(hello), ret);
	apply_clock(hello, ret);
	str_copy_text(ret->machine, sizeof(ret->machine), hello->machine); /* never a shorter one */
	ret->last_seen_ms = ret->modify_time_ms = clock_realtime_ms();
	if (ret->create_time_ms == 0)
		ret->create_time_ms = ret->modify_time_ms;
	if (!str_eq(boot_id, session->boot_id))
		node_end_boot(ret, ret->modify_time_ms);
}

/* Stages the doubt in the node's record, so that also a restarted server waits for its report. */
static enum status doubt_forgotten(struct session *session, const Holdfast__V1__SessionHello *hello,
				   struct node *node, struct change *change, struct error *err)
{
	char *what = session->doubt;
	const char *id;

	TRY(forgotten_work(session, hello, &id, err));
	if (!id && what[0] == '\0')
		return STATUS_OK;
	node->report_wanted = true;
	if (what[0] == '\0')
		(void)str_format(what, SESSION_DOUBT_SIZE,
				 "it names allocation or claim %.36s, which is not known here like that", id);
	audit_node_event(session->server, change, NODE_EVENT_DOUBT, node->id, what);
	log_ctx(LOG_ERR, &(struct log_ctx){.node = node->id, .op = "epoch"},
		"the server does not know what node %s holds: %s. Nothing is granted before it has reported",
		node->id, what);
	return STATUS_OK;
}

static void record_disk(struct server *server, const struct node *before, const struct node *after,
			struct change *change)
{
	char text[NODE_DISK_TEXT_SIZE];

	if (node_disk_of(before) == node_disk_of(after))
		return;
	audit_node_event(server, change, NODE_EVENT_DISK, after->id,
			 node_disk_of(after) == NODE_DISK_ROOM
				 ? "its disk has room again"
				 : node_disk_text(node_disk_of(after), after->disk_path, text));
}

/* A new boot stores the node twice: only the first time is recorded. A session that replaces an open one is
 * recorded also in the same boot: it may be another machine's. */
static void note_connect(const struct session *session, const struct node_entry *entry,
			 const struct node *node, struct change *change)
{
	static const struct node none;
	const struct node *before = entry && node_is_registered(entry) ? &entry->node : &none;
	bool is_new_boot = !str_eq(before->boot_id, session->boot_id);
	bool is_off = node_clock_is_off(node->clock_skew_ms);
	const struct session *replaced = entry && entry->session != session ? entry->session : NULL;
	char why[NODE_TEXT_MAX + RPC_ADDRESS_SIZE + NODE_CLOCK_TEXT_SIZE + 160], clock[NODE_CLOCK_TEXT_SIZE];

	record_disk(session->server, before, node, change);
	if (!replaced && before->disconnected_ms == 0 && before->boot_id[0] != '\0')
		return;
	(void)str_format(why, sizeof(why), "%s%s%sfrom %s, %s %s%s%s", is_off ? "its time is " : "",
			 is_off ? node_clock_text(node->clock_skew_ms, clock) : "",
			 is_off ? " the server's; " : "", node->address,
			 is_new_boot ? "in a new boot" : "boot", session->boot_id,
			 replaced ? "; it replaces the open session from " : "",
			 replaced ? rpc_call_peer(replaced->call)->address : "");
	audit_node_event(session->server, change, NODE_EVENT_CONNECT, node->id, why);
}

/* The node as it is in @boot_id, which is over when the session is in another one: from then on it cannot
 * come back. */
static enum status store_node(struct session *session, const Holdfast__V1__SessionHello *hello,
			      const char *boot_id, struct error *err)
{
	struct server *server = session->server;
	const struct node_entry *entry = state_node(&server->state, session->node_id);
	static const struct node none;
	cleanup(change_release) struct change change = CHANGE_INIT;
	cleanup_free struct node *node = malloc(sizeof(*node));

	if (!node)
		return error_no_memory(err, "a report");
	node_from_hello(session, hello, boot_id, entry && node_is_registered(entry) ? &entry->node : &none,
			node);
	history_take_node_mark(session, hello->mark,
			       entry && node_is_registered(entry) ? &entry->node : &none, node);
	if (!node->report_wanted)
		TRY(doubt_forgotten(session, hello, node, &change, err));
	if (!(entry && node_is_registered(entry)) && history_is_stranger(session))
		node->stranger_epoch = state_epoch(&server->state);
	history_count_node(session, entry && node_is_registered(entry), hello, &change);
	change_put_node(&change, node);
	note_connect(session, entry, node, &change);
	trails_take(server, &change, node->id, hello->trail, false);
	TRY(fingerprint_stage(server, &change, node->id, session->boot_id, node->machine,
			      fingerprint_of(hello), err));
	return session_commit(session, &change, SESSION_NOTHING, "", err);
}

/* A hello names each allocation once: each status that differs is a write. */
static enum status check_repeat(const struct session *session, const char *alloc_id, struct error *err)
{
	struct alloc_entry *entry = state_alloc(&session->server->state, alloc_id);

	if (entry && entry->in_hello_of == session->serial)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "hello has two statuses of allocation %s",
				 entry->id);
	if (entry)
		entry->in_hello_of = session->serial;
	return STATUS_OK;
}

static enum status handle_statuses(struct session *session, const Holdfast__V1__SessionHello *hello,
				   struct error *err)
{
	for (size_t i = 0; i < hello->n_allocs; i++) {
		TRY(check_repeat(session, hello->allocs[i]->alloc_id, err));
		TRY(take_status(session, hello->allocs[i], err));
	}
	return STATUS_OK;
}

static enum status handle_mounted(struct session *session, const Holdfast__V1__SessionHello *hello,
				  struct error *err)
{
	for (size_t i = 0; i < hello->n_mounted; i++)
		TRY(held_twice_take(session, hello->mounted[i]->claim_id, err));
	return STATUS_OK;
}

/* Work that the new boot has ended here and that the node has: the store is older than the node's boot. */
static void stop_ended(struct session *session, const Holdfast__V1__SessionHello *hello)
{
	for (size_t i = 0; i < hello->n_allocs; i++) {
		const Holdfast__V1__AllocStatus *status = hello->allocs[i];
		const struct alloc_entry *entry = state_alloc(&session->server->state, status->alloc_id);

		if (entry && is_about(status, entry) && alloc_is_client_terminal(&entry->alloc) &&
		    status->client_status <= HOLDFAST__V1__CLIENT_STATUS__RUNNING)
			session_stop_alloc(session, status->alloc_id);
	}
}

static void end_greeting(struct session *session)
{
	if (!session->is_greeting)
		return;
	session->is_greeting = false;
	session->server->n_greeting--;
	TAILQ_REMOVE(&session->server->greeting, session, by_greeting);
}

static void adopt_session(struct session *session, struct node_entry *node)
{
	static const struct error replaced = {.status = STATUS_ABORTED,
					      .msg = "the node has opened a newer session"};

	if (node->session && node->session != session)
		session_end(node->session, &replaced);
	session->hello_timer = sd_event_source_disable_unref(session->hello_timer);
	end_greeting(session);
	state_set_session(&session->server->state, node, session);
	node->session_call = session->call;
	node->certificate_expires_ms = rpc_call_peer(session->call)->expires_ms;
	memcpy(node->session_issuer, rpc_call_peer(session->call)->issuer, sizeof(node->session_issuer));
	node->session_serial[0] = '\0';
}

/* Handles a node that is in another boot than before. The new boot id is stored last: after a failure or a
 * crash the next hello does all of it again. */
static enum status handle_new_boot(struct session *session, const Holdfast__V1__SessionHello *hello,
				   struct node_entry *node, struct error *err)
{
	TRY(allocs_node_rebooted(session->server, node, err));
	TRY(claims_new_boot(session->server, node, session->boot_id, err));
	stop_ended(session, hello);
	return store_node(session, hello, session->boot_id, err);
}

/* Before anything else goes down comes welcome. */
static void greet(struct session *session, const struct node_entry *node)
{
	send_welcome(session);
	session_list(session);
	if (!node->is_unreported)
		return;
	session->is_report_due = session->was_asked = true;
	session->report_epoch = state_epoch(&session->server->state);
	session_request_report(session, session->report_epoch);
}

DEFINE_CLEANUP(struct message_list, message_list_unref)

static const Holdfast__V1__NodeDriver *find_driver(const struct message_list *drivers, const char *name)
{
	for (size_t i = 0; i < message_list_n(drivers); i++) {
		const Holdfast__V1__NodeDriver *driver = (const void *)drivers->messages[i];

		if (str_eq(driver->name, name))
			return driver;
	}
	return NULL;
}

/* Records which drivers have changed their health since @before. */
static void record_drivers(struct server *server, struct change *change, const struct node_entry *entry,
			   const struct message_list *before)
{
	for (size_t i = 0; i < message_list_n(entry->drivers); i++) {
		const Holdfast__V1__NodeDriver *driver = (const void *)entry->drivers->messages[i];
		const Holdfast__V1__NodeDriver *former = find_driver(before, driver->name);
		char why[AUDIT_WHY_SIZE], reason[AUDIT_WHY_SIZE / 2];

		if (driver->healthy == (!former || former->healthy))
			continue;
		str_copy_text(reason, sizeof(reason), driver->health_description);
		(void)str_format(why, sizeof(why), "driver %s is %shealthy%s%s", driver->name,
				 driver->healthy ? "" : "un", reason[0] != '\0' ? ": " : "", reason);
		audit_node_event(server, change, NODE_EVENT_DRIVER, entry->id, why);
	}
}

/* @known_boot: the one that the store knows, when the node is in another one now; else its own. */
static enum status hello_begin(struct session *session, const Holdfast__V1__SessionHello *hello,
			       const char *known_boot, struct error *err)
{
	cleanup(message_list_unrefp) struct message_list *drivers = NULL;
	cleanup(change_release) struct change change = CHANGE_INIT;
	bool rebooted = !str_eq(known_boot, session->boot_id);
	struct node_entry *node;
	enum status status = store_node(session, hello, known_boot, err);

	if (status != STATUS_OK) {
		session->boot_id[0] = '\0'; /* not greeted */
		return status;
	}
	node = state_node(&session->server->state, session->node_id);
	adopt_session(session, node);
	greet(session, node);
	drivers = message_list_ref(node->drivers);
	TRY(fingerprint_take_drivers(node, fingerprint_of(hello), err));
	node->has_hello = true;
	record_drivers(session->server, &change, node, drivers);
	if (change.n_audit > 0)
		(void)change_commit(session->server, &change, NULL, NULL, NULL); /* display only */
	TRY(fingerprint_take_attributes(node, hello->attributes, hello->n_attributes, err));
	TRY(handle_mounted(session, hello, err));
	TRY(handle_statuses(session, hello, err));
	if (rebooted)
		TRY(handle_new_boot(session, hello, node, err));
	log_ctx(LOG_NOTICE,
		&(struct log_ctx){.node = session->node_id,
				  .op = "session",
				  .peer = rpc_call_peer(session->call)->address,
				  .event = rebooted ? LOG_EVENT_NODE_NEW_BOOT : LOG_EVENT_NODE_CONNECTED},
		"node %s is connected from %s, boot %s%s", session->node_id,
		rpc_call_peer(session->call)->address, session->boot_id, rebooted ? " (a new one)" : "");
	if (!session->is_report_due) /* else the work depends on the node's report */
		session_send_work(session, node);
	drain_continue(session->server, node);
	return STATUS_OK;
}

static enum status take_hello(struct session *session, const Holdfast__V1__SessionHello *hello,
			      struct error *err)
{
	struct node_entry *node = state_node(&session->server->state, session->node_id);
	bool is_known = node && node_is_registered(node);
	char known_boot[UUID_TEXT_SIZE];

	TRY(check_hello(session, hello, err));
	TRY(history_check(session, hello, err)); /* the marks of a machine that is refused count, too */
	if (is_known)
		TRY(check_shows_machine(session, node, hello, err));
	/* attestations may outlive the purge of their node */
	TRY(attest_disprove(session->server, session->node_id, hello->machine, hello->boot_id, err));
	if (is_known) {
		TRY(check_machine(session, node, hello, err));
		node_note_heard(node); /* it runs, also if it is refused below */
		TRY(check_rival(session, node, hello->boot_id, err));
		TRY(check_boot(session, node, hello, err));
	}
	(void)str_copy(session->boot_id, sizeof(session->boot_id), hello->boot_id);
	(void)str_copy(known_boot, sizeof(known_boot), is_known ? node->node.boot_id : session->boot_id);
	return hello_begin(session, hello, known_boot, err);
}

/* --- the stream --- */

enum { TIMER_ACCURACY_US = 250000 };

static enum status take_fingerprint(struct session *session, const Holdfast__V1__Fingerprint *fingerprint,
				    struct error *err)
{
	const struct node_entry *entry = state_node(&session->server->state, session->node_id);
	cleanup(change_release) struct change change = CHANGE_INIT;
	cleanup_free struct node *node = malloc(sizeof(*node));
	cleanup(message_list_unrefp) struct message_list *drivers = message_list_ref(entry->drivers);
	enum status status = fingerprint_stage(session->server, &change, session->node_id, session->boot_id,
					       entry->node.machine, fingerprint, err);

	if (!node)
		return error_no_memory(err, "a session");
	*node = entry->node;
	fingerprint_take_keys(session->server, &fingerprint->ticket_keys, node);
	fingerprint_take_disk(fingerprint, node);
	fingerprint_take_issuer(fingerprint, node);
	if (status == STATUS_OK)
		status = fingerprint_take_drivers(state_node(&session->server->state, session->node_id),
						  fingerprint, err);
	if (status == STATUS_OK)
		record_drivers(session->server, &change, entry, drivers);
	/* drivers are not stored: the change wakes what waits for one */
	if (status == STATUS_OK && (!str_eq(node->other_ticket_keys, entry->node.other_ticket_keys) ||
				    !str_eq(node->ticket_keys, entry->node.ticket_keys) ||
				    !str_eq(node->disk_trouble, entry->node.disk_trouble) ||
				    !str_eq(node->certificate_issuer, entry->node.certificate_issuer) ||
				    !message_list_eq(drivers, entry->drivers)))
		change_put_node(&change, node);
	record_disk(session->server, &entry->node, node, &change);
	return status == STATUS_OK ? session_commit(session, &change, SESSION_NOTHING, "", err) : status;
}

/* Display only: without the record the log has it. */
static void record_usage(const struct claim_entry *entry, const char *text)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	const struct claim *claim = &entry->claim;
	char object[AUDIT_OBJECT_SIZE];
	struct error err;

	(void)str_format(object, sizeof(object), "volume %s/%s, claim %s, node %s", claim->namespace,
			 claim->volume_id, claim->id, claim->node_id);
	audit_node_event_about(entry->server, &change, NODE_EVENT_USAGE, claim->node_id, object, text);
	if (change.n_audit > 0 && change_commit(entry->server, &change, NULL, NULL, &err) != STATUS_OK)
		log_ctx(LOG_WARNING,
			&(struct log_ctx){.volume = claim->volume_id, .op = "usage", .err = &err},
			"cannot record the event, ignoring");
}

static enum status take_message(struct session *session, const Holdfast__V1__SessionUp *up, struct error *err)
{
	if (up->message_case != HOLDFAST__V1__SESSION_UP__MESSAGE_HELLO && !session_is_greeted(session))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "the first message of a session is hello");
	switch (up->message_case) {
	case HOLDFAST__V1__SESSION_UP__MESSAGE_HELLO:
		return take_hello(session, up->hello, err);
	case HOLDFAST__V1__SESSION_UP__MESSAGE_HEARTBEAT:
		send_mark(session);
		return STATUS_OK;
	case HOLDFAST__V1__SESSION_UP__MESSAGE_ALLOC:
		return take_status(session, up->alloc, err);
	case HOLDFAST__V1__SESSION_UP__MESSAGE_RECEIPT:
		return take_receipt(session, up->receipt, err);
	case HOLDFAST__V1__SESSION_UP__MESSAGE_FINGERPRINT:
		return take_fingerprint(session, up->fingerprint, err);
	case HOLDFAST__V1__SESSION_UP__MESSAGE_REPORT:
		return epoch_take_report(session, up->report, err);
	case HOLDFAST__V1__SESSION_UP__MESSAGE_USAGE:
		usage_take(&session->server->state, session->node_id, up->usage, record_usage);
		return STATUS_OK;
	case HOLDFAST__V1__SESSION_UP__MESSAGE_REPLY:
		controllers_take_reply(session, up->reply);
		return STATUS_OK;
	case HOLDFAST__V1__SESSION_UP__MESSAGE__NOT_SET:
	case _HOLDFAST__V1__SESSION_UP__MESSAGE__CASE_IS_INT_SIZE:
		break;
	}
	return error_set(err, STATUS_INVALID_ARGUMENT, 0, "a session message of a kind not known here");
}

static int on_hello_overdue(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct session *session = userdata;
	struct error err;

	(void)error_set(&err, STATUS_DEADLINE_EXCEEDED, 0, "node %s did not send its hello within %d ms",
			session->node_id, SESSION_HELLO_MAX_MS);
	session->hello_timer = sd_event_source_disable_unref(session->hello_timer);
	session_end(session, &err);
	return 0;
}

/* Ends the oldest session of the node without hello if another one would be too many. A thief of the node's
 * certificate that opens sessions fast ends the node's own, so this is noted. */
static void make_room(struct server *server, const char *node_id)
{
	struct session *session, *oldest = NULL;
	size_t n = 0;
	struct error err;

	TAILQ_FOREACH (session, &server->greeting, by_greeting) {
		if (!str_eq(session->node_id, node_id))
			continue;
		oldest = oldest ? oldest : session;
		n++;
	}
	if (n < SESSIONS_GREETING_PER_NODE_MAX)
		return;
	(void)error_set(
		&err, STATUS_RESOURCE_EXHAUSTED, 0,
		"%d sessions of node %s are without hello, and this is the oldest; is its certificate "
		"used by two machines?",
		SESSIONS_GREETING_PER_NODE_MAX, node_id);
	nodes_note_kept_out(server, node_id);
	end_greeting(oldest);
	session_end(oldest, &err);
}

static enum status session_new(struct server *server, struct rpc_call *call, const char *node_id,
			       struct error *err)
{
	struct session *session;
	int r;

	if (server->n_greeting >= SESSIONS_GREETING_MAX) {
		nodes_note_kept_out(server, node_id);
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "%d sessions have not sent their hello yet; node %s must retry later",
				 SESSIONS_GREETING_MAX, node_id);
	}
	session = calloc(1, sizeof(*session));
	/* from a number that no other session has: a late answer of a former one is no answer in this */
	if (!session || getrandom(&session->last_call_id, sizeof(session->last_call_id), 0) !=
				sizeof(session->last_call_id)) {
		free(session);
		return error_no_memory(err, "a session");
	}
	session->last_call_id /= 2; /* it does not come to 0 */
	session->server = server;
	session->call = call;
	session->serial = ++server->session_serial;
	LIST_INIT(&session->calls);
	(void)str_copy(session->node_id, sizeof(session->node_id), node_id);
	r = sd_event_add_time_relative(server->event, &session->hello_timer, CLOCK_MONOTONIC,
				       SESSION_HELLO_MAX_MS * USEC_PER_MSEC, TIMER_ACCURACY_US,
				       on_hello_overdue, session);
	if (r < 0) {
		free(session);
		return error_set(err, status_from_errno(r), r, "wait for hello of node %s", node_id);
	}
	rpc_call_set_data(call, session);
	server->n_sessions++;
	make_room(server, node_id);
	server->n_greeting++;
	TAILQ_INSERT_TAIL(&server->greeting, session, by_greeting);
	session->is_greeting = true;
	return STATUS_OK;
}

static void on_open(struct rpc_call *call, void *userdata)
{
	struct server *server = userdata;
	struct identity who;
	struct error err;
	enum status status = access_check_node(server, call, &who, &err);

	if (status == STATUS_OK)
		status = session_new(server, call, who.name, &err);
	if (status != STATUS_OK)
		rpc_call_fail(call, &err);
}

static void on_message(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	struct session *session = rpc_call_data(call);
	struct error err;
	enum status status;

	if (!session || session->closing)
		return;
	session_heard(session);
	words_take(message);
	status = take_message(session, (const Holdfast__V1__SessionUp *)message, &err);
	session_end_message(session);
	/* a receipt is repeated until it is acknowledged */
	if (status == STATUS_RESOURCE_EXHAUSTED && session->server->disk->level == DISK_FULL &&
	    session_is_greeted(session) &&
	    ((const Holdfast__V1__SessionUp *)message)->message_case ==
		    HOLDFAST__V1__SESSION_UP__MESSAGE_RECEIPT)
		return;
	if (status != STATUS_OK)
		session_end(session, &err);
}

/* Stored, so that it is known after a restart for how long the node has been away, and why. */
static void note_disconnect(struct session *session, struct node_entry *node)
{
	struct server *server = session->server;
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct error err;

	if (server->is_ending || !node_is_registered(node))
		return;
	node->node.disconnected_ms = clock_realtime_ms();
	(void)str_copy(node->node.disconnect_reason, sizeof(node->node.disconnect_reason),
		       session->end_reason);
	change_put_node(&change, &node->node);
	audit_node_event(server, &change, NODE_EVENT_DISCONNECT, node->id, session->end_reason);
	node->is_end_due = session_commit(session, &change, SESSION_NOTHING, "", &err) != STATUS_OK;
	server->has_ends_due |= node->is_end_due;
	if (node->is_end_due)
		log_ctx(LOG_WARNING, &(struct log_ctx){.node = node->id, .op = "session", .err = &err},
			"cannot store since when the node is away; trying again");
}

static void on_closed(struct rpc_call *call, void *userdata)
{
	struct session *session = rpc_call_data(call);
	struct server *server = userdata;
	struct node_entry *node;
	struct error err;

	if (!session)
		return;
	session_unlist(session);
	if (revocation_check(server, rpc_call_peer(call), &err) != STATUS_OK)
		str_copy_text(session->end_reason, sizeof(session->end_reason), err.msg);
	node = state_node(&server->state, session->node_id);
	if (node && node->session == session) {
		state_set_session(&server->state, node, NULL);
		note_disconnect(session, node);
		node_down_rearm(server);
		log_ctx(LOG_NOTICE,
			&(struct log_ctx){.node = session->node_id,
					  .op = "session",
					  .event = LOG_EVENT_NODE_DISCONNECTED},
			"node %s is disconnected; its claims stay%s%s", session->node_id,
			session->end_reason[0] != '\0' ? ": " : "", session->end_reason);
	}
	end_greeting(session);
	controllers_session_lost(session);
	server->n_sessions--;
	(void)sd_event_source_disable_unref(session->hello_timer);
	(void)sd_event_source_disable_unref(session->work_source);
	free(session->work);
	free(session);
}

const struct rpc_stream_handlers sessions_stream = {
	.on_open = on_open,
	.on_message = on_message,
	.on_closed = on_closed,
	.is_prompt = true,
};
