/* SPDX-License-Identifier: Apache-2.0 */
#include "claim/release.h"

#include "server.h"

#include "access/audit.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "claim/attest_record.h"
#include "claim/claims.h"
#include "claim/fence.h"
#include "log/log.h"
#include "model/admission.h"
#include "model/release.h"
#include "node/session.h"
#include "plugin/args.h"
#include "plugin/controller.h"
#include "plugin/plugins.h"
#include "recovery/epoch.h"
#include "state/claim_log.h"
#include "state/disk.h"
#include "state/storage_index.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct releases {
	struct server *server; /* borrowed */
	struct release_stats stats;
	uint64_t n_notes;	     /* reports of plugins, of all nodes */
	sd_event_source *push;	     /* owned; the next slice of stuck claims; NULL: the next report begins */
	sd_event_source *sweep;	     /* owned; the next slice */
	struct release_waits waits;  /* so far in this sweep */
	int n_waits_recorded;	     /* the same */
	char cursor[UUID_TEXT_SIZE]; /* first claim of that slice; empty: a pass begins */
	bool is_second;		     /* pass of the sweep, see is_late() */
};

enum {
	TIMER_ACCURACY_US = 1000,
	PUSH_ACCURACY_US = 100,
	SLICE_US = 2000,     /* a try compares with all claims of the volume, which may be many */
	PUSH_PAUSE_US = 100, /* for each claim of a slice */
	TAKEN_MAX_US = 2 * SLICE_US,
	SLICE_SHARE = 10, /* slices, and tries by timers, take at most a tenth of the time */
	/* after an answer that proves nothing: an operator ends it, and a node can invent any number */
	NO_PROOF_RETRY_US = 600 * USEC_PER_SEC,
};

/* Pause of work that took @taken_us and comes @n times, counted from the begin of the turn of the loop, as
 * timers are. Work is not charged for the time in which the machine did something else. */
static uint64_t pause_after(uint64_t taken_us, size_t n)
{
	return SLICE_SHARE * (taken_us < TAKEN_MAX_US ? taken_us : TAKEN_MAX_US) * n;
}

/* Has no attach ever confirmed the node's id? Then the node may have invented it. */
static bool is_only_reported(const struct claim *claim)
{
	return claim->adopted && claim->attach != ATTACH_DONE;
}

/* Returns whether one detach takes away what both claims hold: the provider knows nodes and volumes only by
 * their ids. A node may have reported another id when it got the second claim, or the volume had another one:
 * that is another attachment. */
static bool is_sibling(struct server *server, const struct claim_entry *other, const struct claim *claim)
{
	return claim_is_live(&other->claim) && !str_eq(other->id, claim->id) &&
	       str_eq(other->claim.plugin_id, claim->plugin_id) &&
	       plugin_args_same_node(&server->state, &other->claim, claim) &&
	       str_eq(plugin_args_external_id(&server->state, &other->claim),
		      plugin_args_external_id(&server->state, claim));
}

/* Returns the node's next live claim. History that a step drops must not be the next one. */
static struct claim_entry *next_live(struct claim_entry *entry)
{
	do
		entry = LIST_NEXT(entry, of_node);
	while (entry && !claim_is_live(&entry->claim));
	return entry;
}

/* Returns the next live claim of the volumes that have @volume's id at the provider. */
static struct claim_entry *next_live_attached(const struct volume_entry *volume, struct claim_entry *entry)
{
	do
		entry = storage_next_attached(volume, entry);
	while (entry && !claim_is_live(&entry->claim));
	return entry;
}

/* Live claims with the same attachment of the same volume, or of others that the provider calls alike. Costs
 * the number of the volumes' claims: a node has any number of them. Owned by the caller; NULL when memory is
 * short. */
static const struct claim **find_siblings(struct server *server, const struct claim_entry *entry,
					  size_t *ret_n)
{
	struct volume_entry unknown, *volume = claims_storage(entry, &unknown);
	const struct claim **ret;
	struct claim_entry *other;
	size_t n = 0;

	for (other = next_live_attached(volume, NULL); other; other = next_live_attached(volume, other))
		n += is_sibling(server, other, &entry->claim);
	ret = calloc(n + 1, sizeof(const struct claim *));
	if (!ret)
		return NULL;
	*ret_n = 0;
	for (other = next_live_attached(volume, NULL); other; other = next_live_attached(volume, other))
		if (is_sibling(server, other, &entry->claim))
			ret[(*ret_n)++] = &other->claim;
	return ret;
}

/* Is nothing attached? After a restore it is unknown whether an adopted claim was ever attached. */
static bool attaches_nothing(struct server *server, const struct claim *claim)
{
	const struct instance_entry *instance =
		state_instance(&server->state, claim->node_id, claim->plugin_id, "");
	struct plugin_entry *plugin = state_plugin(&server->state, claim->plugin_id);
	const struct controller_half *controller = plugin ? controller_capabilities(plugin) : NULL;

	if (controller)
		return !controller->attach_detach;
	if (plugin && plugin_waits_for_listed(plugin))
		return false;
	return instance && instance->instance.plugin.has_node &&
	       !plugin_requires_controller(instance->plugin, &instance->instance.plugin);
}

enum release_action release_next(struct server *server, const struct claim_entry *entry)
{
	const struct node_entry *node = entry->node;
	const struct release_facts facts = {
		.node_is_connected = node && node_is_connected(node),
		.is_being_granted = entry->work.n_grants > 0,
		.attaches_nothing = entry->claim.adopted && attaches_nothing(server, &entry->claim),
		.now_ms = clock_realtime_ms(),
		.reservation_ttl_ms = (int64_t)(server->config.reservation_ttl_us / USEC_PER_MSEC),
	};
	cleanup_free const struct claim **siblings = NULL;
	size_t n = 0;

	if (entry->claim.state == CLAIM_NODE_DETACHED && entry->claim.attach != ATTACH_NONE) {
		siblings = find_siblings(server, entry, &n);
		if (!siblings)
			return RELEASE_WAIT_SIBLING; /* memory is short: the sweep looks again */
	}
	return release_decide(&entry->claim, siblings, n, &facts);
}

bool release_is_driven(const struct claim_entry *entry)
{
	return entry->work.state == entry->claim.state && (entry->work.timer || entry->work.is_asked);
}

static void be_unstuck(struct claim_entry *entry)
{
	if (!entry->work.is_stuck)
		return;
	entry->work.is_stuck = false;
	entry->work.was_called = false;
	TAILQ_REMOVE(&entry->server->state.stuck, entry, work.stuck);
	entry->server->releases->stats.stuck--;
}

static void stop_waiting(struct claim_entry *entry)
{
	entry->work.timer = sd_event_source_disable_unref(entry->work.timer);
	be_unstuck(entry);
}

/* Forgets the delays of what came before. */
static void try_at_once(struct claim_entry *entry)
{
	stop_waiting(entry);
	entry->work.backoff = (struct backoff)BACKOFF_INIT(RELEASE_RETRY_MIN_MS * USEC_PER_MSEC,
							   RELEASE_RETRY_MAX_MS * USEC_PER_MSEC);
}

static int on_time(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct claim_entry *entry = userdata;

	stop_waiting(entry);
	release_drive(entry->server, entry);
	return 0;
}

static void wait_for(struct claim_entry *entry, uint64_t delay_us)
{
	stop_waiting(entry);
	/* without memory for a timer, the next event or the sweep drives it */
	(void)sd_event_add_time_relative(entry->server->event, &entry->work.timer, CLOCK_MONOTONIC, delay_us,
					 TIMER_ACCURACY_US, on_time, entry);
}

/* At least @least_us. */
static void wait_longer(struct claim_entry *entry, uint64_t least_us)
{
	uint64_t delay_us = backoff_next(&entry->work.backoff, backoff_random());

	wait_for(entry, delay_us > least_us ? delay_us : least_us);
}

/* The claim may be gone from memory afterwards, if it was freed long ago. */
static void step(struct claim_entry *entry, const struct claim_event *event)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct claim_work *work = &entry->work;
	struct claim_log log;
	struct claim after;
	struct error err;
	enum status status = claims_step(&change, entry, event, &after, &err);

	if (status == STATUS_OK)
		status = change_commit(entry->server, &change, NULL, NULL, &err);
	if (status == STATUS_OK)
		return;
	log_ctx(LOG_WARNING, claim_log(&log, &entry->claim, "release", LOG_EVENT_NONE, &err),
		"cannot record a step of the release, to be repeated");
	if (!work->timer)
		wait_longer(entry, 0);
}

static void ask_node(struct claim_entry *entry)
{
	if (entry->claim.create_index ==
	    0) /* it is not ordered before it is durable, which drives it again */
		return;
	session_release_claim(entry->node->session, &entry->claim);
	wait_longer(entry, 0);
}

static void expire(struct server *server, struct claim_entry *entry)
{
	server->releases->stats.expired++;
	step(entry, &(struct claim_event){.type = CLAIM_EVENT_EVIDENCE,
					  .evidence = EVIDENCE_NEVER_SENT,
					  .detail = "the node did not come back for it",
					  .now_ms = clock_realtime_ms()});
}

static void wait_expiry(struct server *server, struct claim_entry *entry)
{
	int64_t ttl_ms = (int64_t)(server->config.reservation_ttl_us / USEC_PER_MSEC);
	int64_t left_ms = release_expiry_ms(&entry->claim, ttl_ms) - clock_realtime_ms();

	wait_for(entry, left_ms > 0 ? (uint64_t)left_ms * USEC_PER_MSEC : 0);
}

static void free_claim(struct claim_entry *entry)
{
	bool is_detached = entry->claim.state == CLAIM_CONTROLLER_DETACHED;

	step(entry,
	     &(struct claim_event){.type = is_detached ? CLAIM_EVENT_FREE : CLAIM_EVENT_CONTROLLER_DETACHED,
				   .now_ms = clock_realtime_ms()});
}

/* --- detach --- */

/* Those that no report has come for since they were queued are the last ones. */
static void queue_stuck(struct claim_entry *entry)
{
	TAILQ_INSERT_TAIL(&entry->server->state.stuck, entry, work.stuck);
	entry->work.n_notes = entry->server->releases->n_notes;
}

/* Schedules the next try and logs the failure. @was_called: the plugin may have been reached. The repeated
 * failure to find a controller is not worth a write.
 * @taken_us: by this try. All stuck claims together take at most a tenth of the time with such tries. */
static void be_stuck(struct claim_entry *entry, const struct error *err, bool was_called, uint64_t taken_us)
{
	struct releases *releases = entry->server->releases;
	struct claim_log log;

	releases->stats.detach_errors++;
	wait_longer(entry, pause_after(taken_us, releases->stats.stuck));
	queue_stuck(entry);
	entry->work.is_stuck = true;
	entry->work.was_called = was_called;
	releases->stats.stuck++;
	if (!was_called && entry->claim.attempts > 0 && str_eq(entry->claim.last_error, err->msg))
		return;
	log_ctx(LOG_WARNING, claim_log(&log, &entry->claim, "detach", LOG_EVENT_RELEASE_STUCK, err),
		"not detached, tried again");
	step(entry, &(struct claim_event){.type = CLAIM_EVENT_CONTROLLER_FAILED,
					  .detail = err->msg,
					  .code = err->status,
					  .now_ms = clock_realtime_ms()});
}

/* Every claim for which the controller was asked, with @node_id. An id that is not stored may have been
 * reported since: such a claim has a detach of its own. */
static void free_detached(struct claim_entry *entry, const char *node_id)
{
	struct volume_entry unknown, *volume = claims_storage(entry, &unknown);
	struct claim_entry *other;
	struct claim_entry *next;

	for (other = next_live_attached(volume, NULL); other; other = next) {
		next = next_live_attached(volume, other);
		if (is_sibling(entry->server, other, &entry->claim) &&
		    str_eq(other->claim.external_node_id, node_id) &&
		    other->claim.state == CLAIM_NODE_DETACHED && other->claim.attach != ATTACH_NONE)
			free_claim(other);
	}
	free_claim(entry);
}

struct detach {
	char claim_id[UUID_TEXT_SIZE];
	char external_node_id[EXTERNAL_NODE_ID_MAX + 1]; /* that the provider is asked to detach */
	struct error unasked; /* why it was not sent when its turn came; else STATUS_OK */
};

/* Refuses if the detach could take the device of a claim of another node, whose id is not known. */
static enum status check_others(const struct claim_entry *entry, struct error *err)
{
	const struct claim *other = claims_find_other_holder(entry);

	if (!other)
		return STATUS_OK;
	if (!str_eq(other->namespace, entry->claim.namespace))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "plugin %s: how the provider calls node %s is not known, so the detach from "
				 "node %s could take the storage of " FOREIGN_VOLUME
				 " from it; it is known as soon as node %s reports the plugin again",
				 entry->claim.plugin_id, other->node_id, entry->claim.node_id,
				 other->node_id);
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "plugin %s: how the provider calls node %s is not known, so the detach from node %s "
			 "could take volume %s from node %s, which holds it by claim %s; it is known as soon "
			 "as node %s reports the plugin again: holdfast volume status %s%s%s --why",
			 entry->claim.plugin_id, other->node_id, entry->claim.node_id, other->volume_id,
			 other->node_id, other->id, other->node_id, other->volume_id,
			 NAMESPACE_OPTION(other->namespace));
}

static enum status check_detach(struct server *server, const struct claim_entry *entry, struct error *err)
{
	struct volume_entry unknown;

	/* after a restore the node may hold it by a claim that is not known here yet */
	TRY(epoch_check(server, &claims_storage(entry, &unknown)->volume, err));
	return check_others(entry, err);
}

static bool is_detach_wanted(struct server *server, void *userdata)
{
	struct detach *detach = userdata;
	struct claim_entry *entry = state_claim(&server->state, detach->claim_id);

	if (!entry || release_next(server, entry) != RELEASE_DETACH ||
	    check_detach(server, entry, &detach->unasked) != STATUS_OK)
		return false;
	entry->work.is_unsent = false;
	server->releases->stats.detaches++;
	return true;
}

/* Is it only an answer that the plugin does not know the volume or the node? That proves nothing for an
 * invented id. */
static bool is_no_proof(const struct claim *claim, const Holdfast__V1__PluginReply *reply, struct error *ret)
{
	if (!reply || !reply->detach || !reply->detach->not_found || !is_only_reported(claim))
		return false;
	(void)error_set(ret, STATUS_FAILED_PRECONDITION, 0,
			"plugin %s does not know the volume or the node, which proves nothing for a claim "
			"that is known only from the node's report: %s; look at the storage, then attest it: "
			"holdfast node attest %s %s/%s --reason TEXT",
			claim->plugin_id, reply->detach->message, claim->node_id, claim->namespace,
			claim->volume_id);
	return true;
}

static void on_detached(struct server *server, const Holdfast__V1__PluginReply *reply,
			const struct error *err, void *userdata)
{
	cleanup_free struct detach *detach = userdata;
	struct claim_entry *entry = state_claim(&server->state, detach->claim_id);
	struct claim_log log;
	struct error failure;

	if (!entry)
		return;
	entry->work.is_asked = false;
	if (controllers_have_stopped(server) || entry->claim.state != CLAIM_NODE_DETACHED)
		return;
	if (is_no_proof(&entry->claim, reply, &failure)) {
		entry->work.backoff = (struct backoff)BACKOFF_INIT(NO_PROOF_RETRY_US, NO_PROOF_RETRY_US);
		reply = NULL;
		err = &failure;
	}
	if (reply && reply->detach && reply->detach->not_found)
		/* its node has released it, as is recorded: nothing is left that could write */
		log_ctx(LOG_NOTICE, claim_log(&log, &entry->claim, "detach", LOG_EVENT_NONE, NULL),
			"the plugin does not know the volume or the node, taken as detached: %s",
			reply->detach->message);
	if (reply)
		free_detached(entry, detach->external_node_id);
	else if (release_next(server, entry) != RELEASE_DETACH)
		release_drive(server, entry); /* a controller is available again: the call was not sent */
	else if (detach->unasked.status != STATUS_OK)
		be_stuck(entry, &detach->unasked, false, 0);
	else
		be_stuck(entry, err, true, 0);
}

/* To CSI, no node means all nodes. */
static enum status no_provider_node(const struct claim *claim, struct error *err)
{
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "plugin %s: how the provider calls node %s or volume %s is not known, so the volume "
			 "cannot be detached just there; it is known as soon as the node reports the plugin "
			 "again, and the volume is registered: holdfast volume status %s%s%s",
			 claim->plugin_id, claim->node_id, claim->volume_id, claim->volume_id,
			 NAMESPACE_OPTION(claim->namespace));
}

static enum status call_detach(struct server *server, struct claim_entry *entry, struct error *err)
{
	struct plugin_detach_args args;
	struct detach *detach = calloc(1, sizeof(*detach));
	struct controller_call call = {
		.plugin_id = entry->claim.plugin_id,
		.namespace = entry->claim.namespace,
		.reporter = is_only_reported(&entry->claim) ? entry->claim.node_id : NULL,
		.wanted = is_detach_wanted,
		.done = on_detached,
		.userdata = detach,
	};
	enum status status;

	if (!detach)
		return error_no_memory(err, "a release");
	memcpy(detach->claim_id, entry->claim.id, sizeof(detach->claim_id));
	status = check_detach(server, entry, err);
	call.call = plugin_detach_args(&server->state, &entry->claim, &args);
	(void)str_copy(detach->external_node_id, sizeof(detach->external_node_id), args.external_node_id);
	if (status == STATUS_OK)
		status = call.call ? controller_call(server, &call, err)
				   : no_provider_node(&entry->claim, err);
	if (status != STATUS_OK)
		free(detach);
	return status;
}

static void start_detach(struct server *server, struct claim_entry *entry, uint64_t start_us)
{
	struct error err;

	if (call_detach(server, entry, &err) == STATUS_OK)
		entry->work.is_asked = true;
	else
		be_stuck(entry, &err, false, clock_monotonic_us() - start_us);
}

/* --- what drives it --- */

void release_freed(struct server *server, void *userdata)
{
	cleanup_free char *id = userdata;
	struct claim_entry *entry = state_claim(&server->state, id);

	if (entry)
		release_drive(server, entry); /* the controller may still have to detach it */
}

void release_drive(struct server *server, struct claim_entry *entry)
{
	uint64_t start_us = clock_monotonic_us();
	enum release_action action = release_next(server, entry);

	if (controllers_have_stopped(server))
		return; /* the next run continues from the store */
	entry->server = server;
	if (entry->work.state != entry->claim.state) {
		try_at_once(entry);
		entry->work.state = entry->claim.state;
	}
	if (attest_apply(server, entry, release_freed) || release_is_driven(entry))
		return; /* an attestation may free it at any time */
	switch (action) {
	case RELEASE_WAIT_EXPIRY:
		wait_expiry(server, entry);
		break;
	case RELEASE_EXPIRE:
		expire(server, entry);
		break;
	case RELEASE_ASK_NODE:
		ask_node(entry);
		break;
	case RELEASE_DETACH:
		start_detach(server, entry, start_us);
		break;
	case RELEASE_FREE:
		free_claim(entry);
		break;
	case RELEASE_NOTHING:
	case RELEASE_WAIT_NODE:
	case RELEASE_WAIT_SIBLING:
	case RELEASE_ACTION_N:
		stop_waiting(entry);
		break;
	}
}

/* Without a controller to ask, the provider's failure keeps its delay: any node can report any number of
 * changes of the plugin. */
static void push(struct server *server, struct claim_entry *entry, bool has_controller)
{
	if (entry->work.is_asked || (entry->work.was_called && !has_controller))
		return;
	try_at_once(entry);
	release_drive(server, entry);
}

static void push_some(struct releases *releases);

static int on_push(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct releases *releases = userdata;

	releases->push = sd_event_source_disable_unref(releases->push);
	push_some(releases);
	return 0;
}

/* Tries a slice of the stuck claims whose plugin was reported since each was queued, and arms the next slice.
 * Any node can report any number of changes of plugins of any name: reports that come before that slice cost
 * nothing of their own. */
static void push_some(struct releases *releases)
{
	struct server *server = releases->server;
	struct claim_queue *stuck = &server->state.stuck;
	struct claim_entry *entry;
	uint64_t start_us = clock_monotonic_us(), taken_us = 0, n = 0, delay_us;

	while (n < RELEASE_SWEEP_SLICE && taken_us < SLICE_US && (entry = TAILQ_FIRST(stuck)) &&
	       entry->work.n_notes < releases->n_notes) {
		const struct plugin_entry *plugin = state_plugin(&server->state, entry->claim.plugin_id);
		uint64_t n_notes = entry->work.n_notes;

		TAILQ_REMOVE(stuck, entry, work.stuck);
		queue_stuck(entry);
		if (plugin && plugin->noted > n_notes)
			push(server, entry, plugin->noted_healthy > n_notes);
		n++;
		taken_us = clock_monotonic_us() - start_us;
	}
	delay_us = n * PUSH_PAUSE_US + pause_after(taken_us, 1);
	if (n > 0) /* without memory for it, the next report continues */
		(void)sd_event_add_time_relative(server->event, &releases->push, CLOCK_MONOTONIC, delay_us,
						 PUSH_ACCURACY_US, on_push, releases);
}

/* A controller of the plugin may be there again, or be another one; or, without one, the provider's id of a
 * node may be known. */
static void note_plugin(struct server *server, const struct plugin_instance *instance, bool is_deletion)
{
	const struct node_plugin *plugin = &instance->plugin;
	struct plugin_entry *entry = state_plugin(&server->state, plugin->plugin_id);
	struct releases *releases = server->releases;

	if (!entry)
		return; /* it has gone since */
	entry->noted = ++releases->n_notes;
	if (!is_deletion && plugin->has_controller && plugin->controller.healthy)
		entry->noted_healthy = entry->noted;
	if (!releases->push)
		push_some(releases);
}

void release_node_back(struct server *server, struct node_entry *node)
{
	struct instance_entry *instance;
	struct claim_entry *entry;
	struct claim_entry *next;

	for (entry = LIST_FIRST(&node->claims); entry; entry = next) {
		next = next_live(entry);
		if (entry->claim.state >= CLAIM_UNPUBLISHING && claim_is_live(&entry->claim))
			push(server, entry, false);
	}
	LIST_FOREACH (instance, &node->instances, of_node)
		if (instance->is_controller)
			note_plugin(server, &instance->instance, false);
}

static void log_freed(const struct claim *claim)
{
	struct claim_log log;

	log_ctx(LOG_NOTICE, claim_log(&log, claim, "release", LOG_EVENT_CLAIM_FREED, NULL),
		"volume %s is freed from node %s, evidence %s%s%s%s%s", claim->volume_id, claim->node_id,
		evidence_name(claim->evidence), claim->evidence_detail[0] != '\0' ? ": " : "",
		claim->evidence_detail,
		claim->detach_detail[0] != '\0' ? "; detach, an operator's attestation: " : "",
		claim->detach_detail);
}

/* Drives the claim that asks the controller for all that waited for @claim of @volume. */
static void drive_siblings(struct server *server, const struct claim *claim,
			   const struct volume_entry *volume)
{
	struct claim_entry *lead = NULL;
	struct claim_entry *other;

	for (other = next_live_attached(volume, NULL); other; other = next_live_attached(volume, other))
		if (other->claim.state == CLAIM_NODE_DETACHED && other->claim.attach != ATTACH_NONE &&
		    is_sibling(server, other, claim) && (!lead || strcmp(other->id, lead->id) < 0))
			lead = other;
	if (lead)
		release_drive(server, lead);
}

static void note_claim(struct server *server, const struct claim *claim)
{
	struct claim_entry *entry = state_claim(&server->state, claim->id);
	struct volume_entry unknown;

	if (claim->state == CLAIM_FREED) {
		server->releases->stats.freed++;
		log_freed(claim);
	}
	if (!entry)
		return;
	if (claim->state == CLAIM_NODE_DETACHED && claim->attempts == 0 && !entry->work.is_asked)
		entry->work.is_unsent = true;
	release_drive(server, entry);
	if (claim->state >= CLAIM_NODE_DETACHED && claim->attempts == 0)
		drive_siblings(server, claim, claims_storage(entry, &unknown));
}

/* Work that is ordered to stop on a node that is away. */
static void note_alloc(struct server *server, const struct alloc *alloc)
{
	struct alloc_entry *entry = state_alloc(&server->state, alloc->id);
	struct claim_entry *claim;

	if (entry && alloc->desired_status == DESIRED_STOP)
		LIST_FOREACH (claim, &entry->claims, of_alloc)
			(void)attest_apply(server, claim, release_freed);
}

void release_note_durable(struct server *server, struct change_object *objects, size_t n, uint64_t revision)
{
	if (!server->releases)
		return; /* the server is being made */
	for (size_t i = 0; i < n; i++) {
		if (objects[i].kind == OBJECT_CLAIM && !objects[i].is_deletion)
			note_claim(server, objects[i].value);
		if (objects[i].kind == OBJECT_ALLOC && !objects[i].is_deletion)
			note_alloc(server, objects[i].value);
		if (objects[i].kind == OBJECT_NODE_PLUGIN)
			note_plugin(server, objects[i].value, objects[i].is_deletion);
	}
}

/* Has @node had the attachment to @node_id for a claim ever since it was granted? Then no detach of it is in
 * flight: the grant came after it, and the next one waits for the claim. */
static bool has_attachment(const struct node_entry *node, const struct volume_entry *volume,
			   const char *node_id)
{
	const struct claim_entry *entry;

	for (entry = storage_next_attached(volume, NULL); entry; entry = storage_next_attached(volume, entry))
		if (entry->node == node && entry->claim.state <= CLAIM_UNPUBLISHING &&
		    entry->claim.attach == ATTACH_DONE && !entry->claim.adopted &&
		    str_eq(entry->claim.external_node_id, node_id))
			return true;
	return false;
}

bool release_is_detaching(const struct node_entry *node, const struct volume_entry *volume)
{
	const struct node_plugin *plugin = node_entry_plugin(node, &volume->volume);
	const char *node_id = plugin ? plugin->node.provider_node_id : "";
	bool has_it = node_id[0] != '\0' && has_attachment(node, volume, node_id);
	const struct claim_entry *entry;

	for (entry = storage_next_attached(volume, NULL); entry; entry = storage_next_attached(volume, entry))
		if (release_may_be_detaching(&entry->claim, entry->work.is_unsent) &&
		    (entry->node == node ||
		     (!has_it && node_id[0] != '\0' &&
		      node_provider_id_compare(plugin_args_node_id(volume->state, &entry->claim), node_id) ==
			      0)))
			return true;
	return false;
}

void release_stats(const struct server *server, struct release_stats *ret)
{
	*ret = server->releases->stats;
}

/* The sweep: now and then every claim is checked, in slices, for a release that no event has driven on.
 * Such releases are counted: there should be zero. The sweep also counts which actor each claim waits for. */

enum {
	SLICE_GAP_US = 1000, /* others have their turn */
	SWEEP_ACCURACY_US = 1000,
};

static bool is_work(enum release_action action)
{
	switch (action) {
	case RELEASE_WAIT_EXPIRY:
	case RELEASE_EXPIRE:
	case RELEASE_ASK_NODE:
	case RELEASE_DETACH:
	case RELEASE_FREE:
		return true;
	case RELEASE_NOTHING:
	case RELEASE_WAIT_NODE:
	case RELEASE_WAIT_SIBLING:
	case RELEASE_ACTION_N:
		break;
	}
	return false;
}

/* Only the sweeps know since when a taken claim is being asked back. For the others their state has the
 * time, also after a restart. */
static void note_wait(struct claim_work *work, const struct claim *claim, enum explain_actor actor,
		      int64_t now_ms)
{
	bool is_first = work->waits_for == ACTOR_NOBODY;

	if (work->waits_for == actor)
		return;
	work->waits_for = actor;
	work->is_wait_recorded = false;
	work->waits_since_ms = is_first && claim->state != CLAIM_TAKEN ? claim->state_time_ms : now_ms;
}

static bool has_controller(struct server *server, const char *plugin_id)
{
	struct plugin_entry *plugin = state_plugin(&server->state, plugin_id);

	return plugin && controller_capabilities(plugin);
}

/* When the node or the controller is asked again, or a reservation is taken back, as wall-clock time. */
static int64_t next_attempt(const struct claim_entry *entry, int64_t now_ms)
{
	uint64_t at_us;

	if (!entry || !entry->work.timer || sd_event_source_get_time(entry->work.timer, &at_us) < 0)
		return 0;
	return now_ms + ((int64_t)at_us - (int64_t)clock_monotonic_us()) / (int64_t)USEC_PER_MSEC;
}

/* The facts that decide whom @claim waits for. @node, @alloc and @entry: its own, NULL for unknown ones. */
static struct holder holder_facts(struct server *server, const struct claim *claim,
				  const struct node_entry *node, const struct alloc_entry *alloc,
				  const struct claim_entry *entry)
{
	return (struct holder){
		.is_connected = node && node_is_connected(node) && !claim->other_machine,
		.is_stopping = alloc && alloc->alloc.desired_status == DESIRED_STOP,
		/* a claim keeps an entry for its node, which then has no record of its own */
		.is_purged = !node || node->node.boot_id[0] == '\0',
		.has_controller = claim->attach != ATTACH_NONE && has_controller(server, claim->plugin_id),
		.waits_for_other = entry && claim->state == CLAIM_NODE_DETACHED &&
				   release_next(server, entry) == RELEASE_WAIT_SIBLING,
	};
}

struct holder claim_holder(struct server *server, const struct claim *claim)
{
	const struct node_entry *node = state_node(&server->state, claim->node_id);
	const struct alloc_entry *alloc = state_alloc_of(&server->state, claim);
	const struct drain *drain = node ? &node->node.drain : NULL;
	const struct claim_entry *entry = state_claim(&server->state, claim->id);
	struct holder holder = holder_facts(server, claim, node, alloc, entry);

	holder.doing = alloc && (alloc->alloc.client_status == CLIENT_PENDING ||
				 (holder.is_stopping && !alloc_is_client_terminal(&alloc->alloc)))
			       ? alloc->alloc.client_description
			       : NULL;
	holder.is_draining = drain && drain->started_ms > 0 && drain->done_ms == 0;
	holder.must_report = node && node->is_unreported;
	holder.disk = node ? node_disk_of(&node->node) : NODE_DISK_ROOM;
	holder.disk_path = node ? node->node.disk_path : "";
	holder.can_fence = entry && fence_is_possible(server, entry);
	holder.can_power_fence = server->can_power_fence && node && !claim->other_machine &&
				 server->can_power_fence(server, node, claim->boot_id);
	holder.can_network_fence = server->can_network_fence && server->can_network_fence(server, claim);
	holder.detach_ms = server->config.controller_timeout_us / USEC_PER_MSEC;
	holder.disconnected_ms = node && !holder.is_connected ? node->node.disconnected_ms : 0;
	holder.next_attempt_ms = next_attempt(entry, clock_realtime_ms());
	return holder;
}

static void count_wait(struct releases *releases, struct claim_entry *entry)
{
	struct server *server = releases->server;
	const struct claim *claim = &entry->claim;
	struct holder holder =
		holder_facts(server, claim, entry->node, state_alloc_of(&server->state, claim), entry);
	enum explain_actor actor = explain_actor(claim, &holder);
	struct release_waits *waits = &releases->waits;
	int64_t *since_ms = &waits->since_ms[actor];

	note_wait(&entry->work, claim, actor, clock_realtime_ms());
	waits->n[actor]++;
	if (*since_ms == 0 || entry->work.waits_since_ms < *since_ms)
		*since_ms = entry->work.waits_since_ms;
}

/* The event of HoldfastVolumeStuck. After a restart of the server it is recorded again. */
static void record_long_wait(struct releases *releases, struct claim_entry *entry)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	const struct claim *claim = &entry->claim;
	int64_t now_ms = clock_realtime_ms();
	char object[AUDIT_OBJECT_SIZE], line[EXPLAIN_SIZE];
	struct holder holder;

	if (entry->work.waits_for == ACTOR_NOBODY || entry->work.waits_for == ACTOR_ALLOC ||
	    entry->work.is_wait_recorded || releases->server->disk->level != DISK_PLENTY ||
	    now_ms - entry->work.waits_since_ms <= RELEASE_WAIT_LONG_MS ||
	    releases->n_waits_recorded == RELEASE_WAITS_RECORDED)
		return;
	holder = claim_holder(releases->server, claim);
	(void)str_format(object, sizeof(object), "volume %s/%s, claim %s, node %s", claim->namespace,
			 claim->volume_id, claim->id, claim->node_id);
	audit_own(releases->server, &change, "Claims.Wait", object,
		  explain_claim(claim, &holder, now_ms, line));
	entry->work.is_wait_recorded =
		change_commit(releases->server, &change, NULL, NULL, NULL) == STATUS_OK;
	releases->n_waits_recorded++;
}

static void look_at(struct releases *releases, struct claim_entry *entry)
{
	bool is_first = releases->stats.sweeps == 0;
	struct claim_log log;

	if (!claim_is_live(&entry->claim))
		return;
	count_wait(releases, entry);
	record_long_wait(releases, entry);
	/* an attestation may have been refused, or lost by a crash, when the work was ordered to stop */
	if (attest_apply(releases->server, entry, release_freed) || release_is_driven(entry) ||
	    !is_work(release_next(releases->server, entry)))
		return;
	if (!is_first && entry->claim.modify_time_ms + RELEASE_SWEEP_GRACE_MS > clock_realtime_ms())
		return;
	if (!is_first) {
		releases->stats.swept_up++;
		log_ctx(LOG_WARNING, claim_log(&log, &entry->claim, "release", LOG_EVENT_NONE, NULL),
			"the sweep drives on what no event did");
	}
	release_drive(releases->server, entry);
}

/* The claim behind @id, which may be gone. */
static struct claim_entry *claim_behind(struct state *state, const char *id)
{
	struct claim_entry *entry = state_claim_from(state, id);

	return entry && str_eq(entry->id, id) ? state_claim_next(entry) : entry;
}

/* After a start only the sweep drives the claims of nodes that are away. A node can invent thousands of
 * claims with ids that come first, and each takes long: all others have a pass of their own before. */
static bool is_late(const struct claim *claim)
{
	return claim->state == CLAIM_NODE_DETACHED && is_only_reported(claim);
}

static uint64_t look_at_slice(struct releases *releases)
{
	struct server *server = releases->server;
	struct claim_entry *entry = claim_behind(&server->state, releases->cursor);
	uint64_t start_us = clock_monotonic_us(), taken_us = 0;

	for (int i = 0; entry && i < RELEASE_SWEEP_SLICE && taken_us < SLICE_US; i++) {
		memcpy(releases->cursor, entry->claim.id, sizeof(releases->cursor));
		if (is_late(&entry->claim) == releases->is_second)
			look_at(releases, entry);
		entry = claim_behind(&server->state, releases->cursor); /* history may have gone */
		taken_us = clock_monotonic_us() - start_us;
	}
	if (entry)
		return taken_us < SLICE_US ? SLICE_GAP_US : pause_after(taken_us, 1);
	releases->cursor[0] = '\0';
	releases->is_second = !releases->is_second;
	if (releases->is_second) {
		if (releases->stats.sweeps == 0) /* what one can know after a start */
			releases->stats.waits = releases->waits;
		return SLICE_GAP_US;
	}
	releases->stats.sweeps++;
	releases->stats.waits = releases->waits;
	releases->waits = (struct release_waits){0};
	releases->n_waits_recorded = 0;
	return server->config.release_sweep_us;
}

static int on_sweep(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct releases *releases = userdata;
	uint64_t delay_us = look_at_slice(releases);
	int r = sd_event_source_set_time_relative(source, delay_us);

	if (r >= 0)
		r = sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	return r; /* the source is then off: events still drive what they did before */
}

static enum status release_start_sweeping(struct releases *releases, struct error *err)
{
	int r = sd_event_add_time_relative(releases->server->event, &releases->sweep, CLOCK_MONOTONIC, 0,
					   SWEEP_ACCURACY_US, on_sweep, releases);

	return r < 0 ? error_set(err, STATUS_INTERNAL, r, "arm the sweep of releases") : STATUS_OK;
}

enum status releases_new(struct server *server, struct releases **ret, struct error *err)
{
	struct releases *releases = calloc(1, sizeof(*releases));
	enum status status;

	if (!releases)
		return error_no_memory(err, "a release");
	*releases = (struct releases){.server = server};
	status = release_start_sweeping(releases, err);
	if (status != STATUS_OK) {
		releases_free(releases);
		return status;
	}
	*ret = releases;
	return STATUS_OK;
}

void releases_free(struct releases *releases)
{
	if (!releases)
		return;
	releases->sweep = sd_event_source_disable_unref(releases->sweep);
	releases->push = sd_event_source_disable_unref(releases->push);
	free(releases);
}
