/* SPDX-License-Identifier: Apache-2.0 */
#include "claim/grant.h"

#include "server.h"

#include "access/access.h"
#include "access/answer.h"
#include "access/audit.h"
#include "alloc/allocs.h"
#include "alloc/options.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"
#include "base/join.h"
#include "base/rate.h"
#include "base/str.h"
#include "base/uuid.h"
#include "claim/admit.h"
#include "claim/claims.h"
#include "claim/held_twice.h"
#include "claim/refusal.h"
#include "claim/release.h"
#include "log/log.h"
#include "model/admission.h"
#include "model/pb.h"
#include "model/plain_options.h"
#include "model/volume_detail.h"
#include "plugin/args.h"
#include "plugin/controller.h"
#include "plugin/plugins.h"
#include "recovery/epoch.h"
#include "recovery/history.h"
#include "rpc/server.h"
#include "state/change.h"
#include "state/claim_log.h"
#include "state/state.h"
#include "state/storage_index.h"
#include "volume/identity.h"
#include "volume/store.h"
#include "volume/view.h"

#include <assert.h>
#include <holdfast/v1/volumes.pb-c.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

enum {
	CLAIMS_FREE_PER_VOLUME = 8,
	REGRANT_COST_US = 10000000, /* of the claims of a node beyond these: one in ten seconds */
	REGRANTS_BURST = 16,
	/* The back-off of an agent asks seven times in the first half minute, then once in 15 seconds at
	 * most, for one volume of an allocation after the other. It begins again when the agent restarts. */
	REPEAT_COST_US = 10000000,
	REPEATS_BURST = 16,
	REPEATS_BURST_PER_VOLUME = 8,
};

/* The attach that a claim needs before its node may get the volume. */
struct attach_need {
	bool is_needed;		      /* the controller must attach it */
	const char *external_node_id; /* the node as the provider calls it; borrowed from the state */
};

/* Finds out; nothing is stored yet. STATUS_UNAVAILABLE when there is no controller to do it, or the
 * provider's name of the node is not known: the plugin is named. */
static enum status grant_need_attach(struct volume_entry *volume, const struct node_entry *node,
				     struct attach_need *ret, struct error *err)
{
	const struct node_plugin *plugin = node_entry_plugin(node, &volume->volume);
	const struct controller_half *controller;
	bool is_required, is_needed;

	if (volume->volume.type != VOLUME_CSI || !plugin) {
		/* a native volume's provider is the node itself */
		*ret = (struct attach_need){.external_node_id = node->id};
		return STATUS_OK;
	}
	controller = controller_capabilities(volume->plugin);
	is_required = plugin_requires_controller(volume->plugin, plugin);
	if (is_required && !controller)
		return error_set(err, STATUS_UNAVAILABLE, 0,
				 "volume %s: plugin %s has no healthy controller on a connected node; see "
				 "holdfast plugin status %s",
				 volume->volume.id, volume->volume.plugin_id, volume->volume.plugin_id);
	is_needed = is_required && controller->attach_detach;
	if (is_needed && plugin->node.provider_node_id[0] == '\0')
		return error_set(err, STATUS_UNAVAILABLE, 0,
				 "volume %s: plugin %s does not report the provider's id of node %s, or "
				 "reports the provider id of another node, so the volume cannot be attached "
				 "there; see holdfast plugin status %s, and the server's log",
				 volume->volume.id, volume->volume.plugin_id, node->id,
				 volume->volume.plugin_id);
	*ret = (struct attach_need){.is_needed = is_needed,
				    .external_node_id = plugin->node.provider_node_id};
	return STATUS_OK;
}

/* Checks @claim, which its node may have only by a report, for another ticket. */
static enum status check_again(struct server *server, const struct volume_entry *volume,
			       const struct claim *claim, struct error *err)
{
	const struct node_entry *node = state_node(&server->state, claim->node_id);

	if (!claim_is_on_storage(claim, &volume->volume))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "volume %s: allocation %s holds by this name other storage than the volume "
				 "has now, and gets no ticket for that; stop it: holdfast alloc stop %s",
				 volume->volume.id, claim->allocation_id, claim->allocation_id);
	TRY(held_twice_check_repeat(state_claim(&server->state, claim->id), err));
	return node && server->check_not_fenced
		       ? server->check_not_fenced(server, node, claim->plugin_id, err)
		       : STATUS_OK;
}

/* Checks that @volume may be granted, given the reports of its mounts and regardless of its claims.
 * @claim: an existing one; NULL: a new one. STATUS_UNAVAILABLE names the node that must report or release
 * it: see epoch.h and held_twice.h. The result may change while the controller is asked. */
static enum status grant_check_past(struct server *server, const struct volume_entry *volume,
				    const struct claim *claim, struct error *err)
{
	enum status status = epoch_check(server, &volume->volume, err);

	if (status == STATUS_OK)
		status = held_twice_check(volume, err);
	return status == STATUS_OK && claim ? check_again(server, volume, claim, err) : status;
}

/* A grant between the node's call and its answer, while a controller is asked. */
struct grant {
	struct rpc_call *call;
	char claim_id[UUID_TEXT_SIZE];
	Holdfast__V1__ControllerAttachResponse *attached; /* owned; NULL: it has not answered */
	bool is_repeat;					  /* the claim was made for an earlier call */
	struct error error; /* of the attach; answered once it is noted. Or why it was not sent at its turn */
};

static void grant_free(struct grant *grant)
{
	if (grant->attached)
		holdfast__v1__controller_attach_response__free_unpacked(grant->attached, NULL);
	free(grant);
}
DEFINE_CLEANUP(struct grant, grant_free)

static void fail(struct rpc_call *call, enum status status, const char *text)
{
	struct error err;

	(void)error_set(&err, status, 0, "%s", text);
	rpc_call_fail(call, &err);
}

/* Adds the allocation's mount options to the volume's. */
static bool overlay_options(struct server *server, const struct claim *claim, Holdfast__V1__Volume *to)
{
	struct alloc_mount_options storage;
	Holdfast__V1__MountOptions *options =
		alloc_options_for(&server->state, claim, to->mount_options, &storage);
	Holdfast__V1__MountOptions *copy;

	if (options == to->mount_options)
		return true;
	copy = (Holdfast__V1__MountOptions *)(void *)message_copy(&options->base);
	if (!copy)
		return false;
	holdfast__v1__mount_options__free_unpacked(to->mount_options, NULL);
	to->mount_options = copy;
	return true;
}

/* Adds the data that the plugin needs on this node, secrets included. */
static bool add_stored(struct server *server, const struct claim *claim, const struct volume *volume,
		       Holdfast__V1__Volume *to)
{
	return volume_show_to_node(to, plugin_args_detail(&server->state, volume->namespace, volume->id),
				   plugin_args_node_secrets(&server->state, claim)) &&
	       overlay_options(server, claim, to);
}

static void send_response(struct server *server, struct rpc_call *call,
			  const Holdfast__V1__ControllerAttachResponse *attached,
			  const struct claim_entry *entry, struct ticket *ticket)
{
	typedef Holdfast__V1__ClaimVolumeResponse__PublishContextEntry context_entry;
	Holdfast__V1__ClaimVolumeResponse response = HOLDFAST__V1__CLAIM_VOLUME_RESPONSE__INIT;
	const struct volume *volume = &entry->volume->volume;
	bool is_csi = volume->type == VOLUME_CSI;
	struct history_mark mark;

	history_mark(server, entry->claim.node_id, &mark);
	response.mark = &mark.pb;
	response.claim = claim_borrow_pb(&entry->claim);
	/* a borrowed message cannot be extended */
	response.volume = is_csi ? volume_to_pb(volume) : volume_borrow_pb(volume);
	response.wire_volume = ticket->volume;
	response.ticket = (ProtobufCBinaryData){.len = sizeof(*ticket), .data = (uint8_t *)ticket};
	if (attached) {
		/* borrowed: entries of all maps of texts are alike on the wire */
		response.publish_context = (context_entry **)(void *)attached->publish_context;
		response.n_publish_context = attached->n_publish_context;
	}
	if (response.claim && response.volume &&
	    (!is_csi || add_stored(server, &entry->claim, volume, response.volume)))
		rpc_call_reply(call, &response.base);
	else
		fail(call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
	pb_free_borrowing((ProtobufCMessage *)response.claim);
	if (!is_csi)
		pb_free_borrowing((ProtobufCMessage *)response.volume);
	else if (response.volume)
		holdfast__v1__volume__free_unpacked(response.volume, NULL);
}

static bool is_grantable(const struct claim_entry *entry)
{
	/* what the provider was asked to take away is not attached again under the same claim */
	return entry && entry->claim.state <= CLAIM_TAKEN && !entry->claim.fence_asked;
}

/* Refuses the call: the claim was released before the answer. The node's repeat gets the cause. */
static void refuse_released(struct rpc_call *call)
{
	fail(call, STATUS_ABORTED, "the claim was released while it was being granted; ask again");
}

/* Returns that of the youngest grant of the volume that is durable, or will be with this claim. A later one
 * may be lost, and its generation granted again. */
static uint64_t generation_of(const struct claim_entry *entry)
{
	return MAX(entry->claim.generation, entry->volume->durable_generation);
}

static enum status make_ticket(struct server *server, const struct claim_entry *entry, struct ticket *ret,
			       struct error *err)
{
	int64_t not_after_ms = clock_realtime_ms() + (int64_t)(server->config.ticket_ttl_us / USEC_PER_MSEC);
	struct volume granted = entry->volume->volume;

	granted.generation = generation_of(entry);
	return ticket_make(server->issuer, &entry->claim, &granted, not_after_ms, ret, err);
}

/* A claim that no controller attaches is on its way to the disk: let its ticket be signed meanwhile. */
static void grant_sign_ahead(struct server *server, struct claim_entry *entry)
{
	struct ticket ticket;

	if (make_ticket(server, entry, &ticket, NULL) ==
	    STATUS_OK) /* else that is found when it is answered */
		entry->work.ticket = ticket_ahead_new(server->signer, &ticket);
}

static enum status sign(struct server *server, const struct claim_entry *entry, struct ticket *ret,
			struct error *err)
{
	/* another writer may have been granted since that one was begun */
	if (ticket_ahead_take(entry->work.ticket, generation_of(entry), ret))
		return STATUS_OK;
	TRY(make_ticket(server, entry, ret, err));
	ticket_sign(server->issuer, ret);
	return STATUS_OK;
}

/* @attached: the controller's response; NULL: the controller was not asked. */
static void answer(struct server *server, struct rpc_call *call,
		   const Holdfast__V1__ControllerAttachResponse *attached, struct claim_entry *entry)
{
	struct ticket ticket;
	struct error err;

	if (!is_grantable(entry))
		refuse_released(call);
	else if (grant_check_past(server, entry->volume, &entry->claim, &err) != STATUS_OK ||
		 sign(server, entry, &ticket, &err) != STATUS_OK)
		rpc_call_fail(call, &err);
	else
		send_response(server, call, attached, entry, &ticket);
	if (!entry)
		return;
	ticket_ahead_free(entry->work.ticket);
	entry->work.ticket = NULL;
}

/* A grant is durable and goes to its node. */
static void grant_log(const struct claim *claim)
{
	const struct log_ctx about = {.node = claim->node_id, .event = LOG_EVENT_CLAIM_GRANTED};
	struct claim_log log;

	if (log_would_drop(LOG_NOTICE, &about))
		return;
	log_ctx(LOG_NOTICE, claim_log(&log, claim, "claim", LOG_EVENT_CLAIM_GRANTED, NULL),
		"volume %s is granted to node %s for %s (%s), generation %" PRIu64, claim->volume_id,
		claim->node_id, claim_mode_name(claim->mode), access_mode_name(claim->access_mode),
		claim->generation);
}

static void on_sent(struct server *server, void *userdata)
{
	cleanup(grant_freep) struct grant *grant = userdata;
	struct claim_entry *entry = state_claim(&server->state, grant->claim_id);

	if (is_grantable(entry))
		grant_log(&entry->claim);
	answer(server, grant->call, grant->attached, entry);
}

static void on_failure_noted(struct server *server, void *userdata)
{
	cleanup(grant_freep) struct grant *grant = userdata;

	rpc_call_fail(grant->call, &grant->error);
}

/* Notes @event in the claim; @done takes the grant over once that is durable. */
static enum status note(struct server *server, const struct claim_entry *entry,
			const struct claim_event *event, change_done_fn *done, struct grant *grant,
			struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct claim after;

	TRY(claims_step(&change, entry, event, &after, err));
	return change_commit(server, &change, done, grant, err);
}

/* The node gets the plugin's code and message. Nothing was sent to it, so the claim can be tried again or
 * taken back. */
static void attach_failed(struct server *server, const struct claim_entry *entry, struct grant *grant,
			  const struct error *err)
{
	const struct claim_event event = {.type = CLAIM_EVENT_ATTACH_FAILED,
					  .detail = err->msg,
					  .code = err->status,
					  .now_ms = clock_realtime_ms()};
	struct error other;

	grant->error = *err;
	/* of one that is taken there is nothing to note: it stays attached */
	if (note(server, entry, &event, on_failure_noted, grant, &other) == STATUS_OK)
		return;
	rpc_call_fail(grant->call, err);
	grant_free(grant);
}

static enum status apply_context(struct grant *grant, const Holdfast__V1__PluginReply *reply,
				 const char *plugin_id, struct error *err)
{
	if (protobuf_c_message_get_packed_size(&reply->attach->base) > PUBLISH_CONTEXT_MAX)
		return error_set(
			err, STATUS_INTERNAL, 0,
			"plugin %s: ControllerPublishVolume: the publish context has more than %d bytes",
			plugin_id, PUBLISH_CONTEXT_MAX);
	grant->attached = (Holdfast__V1__ControllerAttachResponse *)message_copy(&reply->attach->base);
	return grant->attached ? STATUS_OK : error_no_memory(err, "a claim");
}

static void attached(struct server *server, struct claim_entry *entry, struct grant *grant,
		     const Holdfast__V1__PluginReply *reply)
{
	const struct claim_event event = {.type = CLAIM_EVENT_SENT, .now_ms = clock_realtime_ms()};
	struct error err;

	if (apply_context(grant, reply, entry->claim.plugin_id, &err) != STATUS_OK) {
		attach_failed(server, entry, grant, &err);
	} else if (entry->claim.sent_to_node) { /* a repeat */
		answer(server, grant->call, grant->attached, entry);
		grant_free(grant);
	} else if (note(server, entry, &event, on_sent, grant, &err) != STATUS_OK) {
		rpc_call_fail(grant->call, &err);
		grant_free(grant);
	}
}

static bool is_attach_wanted(struct server *server, void *userdata)
{
	struct grant *grant = userdata;
	const struct claim_entry *entry = state_claim(&server->state, grant->claim_id);

	return is_grantable(entry) &&
	       grant_check_past(server, entry->volume, &entry->claim, &grant->error) == STATUS_OK;
}

static void on_attached(struct server *server, const Holdfast__V1__PluginReply *reply,
			const struct error *err, void *userdata)
{
	struct grant *grant = userdata;
	struct claim_entry *entry = state_claim(&server->state, grant->claim_id);

	if (entry)
		entry->work.n_grants--;
	if (controllers_have_stopped(server)) {
		fail(grant->call, STATUS_UNAVAILABLE, "the server is ending; ask again");
		grant_free(grant);
		return;
	}
	if (!is_grantable(entry)) { /* its release undoes the attach */
		refuse_released(grant->call);
		grant_free(grant);
		return;
	}
	if (reply)
		attached(server, entry, grant, reply);
	else
		attach_failed(server, entry, grant, grant->error.status != STATUS_OK ? &grant->error : err);
}

static enum status call_attach(struct server *server, struct claim_entry *entry, struct grant *grant,
			       struct error *err)
{
	const struct controller_half *controller = controller_capabilities(entry->volume->plugin);
	struct plugin_attach_args args;
	const struct controller_call call = {
		.plugin_id = entry->claim.plugin_id,
		.namespace = entry->claim.namespace,
		.call = plugin_attach_args(&server->state, &entry->claim,
					   controller && controller->readonly_attach, &args),
		.wanted = is_attach_wanted,
		.done = on_attached,
		.userdata = grant,
	};

	if (!call.call)
		return error_set(
			err, STATUS_UNAVAILABLE, 0,
			"plugin %s: how the provider calls node %s is not known; it is as soon as the "
			"node reports the plugin again: holdfast plugin status %s",
			entry->claim.plugin_id, entry->claim.node_id, entry->claim.plugin_id);
	return controller_call(server, &call, err);
}

/* False: the controller answers. */
static bool ask_controller(struct server *server, struct claim_entry *entry, struct grant *grant)
{
	struct error err;

	if (call_attach(server, entry, grant, &err) == STATUS_OK)
		return true;
	attach_failed(server, entry, grant, &err);
	return false;
}

/* Refuses an allocation whose node repeats its claims again and again: each repeat calls the provider, which
 * limits the calls of all nodes. The rate is the allocation's: a claim may end and be made again. */
static enum status check_repeats(struct server *server, const struct claim *claim, struct error *err)
{
	struct alloc_entry *alloc = state_alloc_of(&server->state, claim);
	struct rate rate;

	if (!alloc)
		return STATUS_OK;
	rate = (struct rate){
		.cost_us = REPEAT_COST_US,
		.most_us = REPEAT_COST_US *
			   (uint64_t)(REPEATS_BURST + REPEATS_BURST_PER_VOLUME * alloc->alloc.n_volumes),
		.paid_us = alloc->repeats_paid_us};
	if (!rate_take(&rate, clock_monotonic_us()))
		return error_set(err, STATUS_UNAVAILABLE, 0,
				 "allocation %s has repeated its claims many times, and volume %s is "
				 "attached for a repeat only every ten seconds. Look at the agent of node "
				 "%s: journalctl -u holdfast-agent",
				 alloc->id, claim->volume_id, claim->node_id);
	alloc->repeats_paid_us = rate.paid_us;
	return STATUS_OK;
}

/* The claim is durable: lets the controller attach it, if that is its part, and answers the call once,
 * with the grant or the cause of its refusal. A repeat does the same again, for the same answer, but not
 * while the controller has a call for the claim: a node must not fill its queue. Takes over @grant, and one
 * of the claim's n_grants, which keep it from expiring. */
static void grant_finish(struct server *server, struct grant *grant)
{
	struct claim_entry *entry = state_claim(&server->state, grant->claim_id);
	bool is_attached = is_grantable(entry) && entry->claim.attach != ATTACH_NONE;
	struct error err;

	if (is_attached && entry->work.n_grants > 1) {
		fail(grant->call, STATUS_ABORTED,
		     "the volume is being attached for another call of this claim; ask again");
		grant_free(grant);
	} else if (is_attached && grant->is_repeat &&
		   check_repeats(server, &entry->claim, &err) != STATUS_OK) {
		rpc_call_fail(grant->call, &err);
		grant_free(grant);
	} else if (is_attached) {
		if (ask_controller(server, entry, grant))
			return;
	} else {
		answer(server, grant->call, NULL, entry);
		grant_free(grant);
	}
	if (entry)
		entry->work.n_grants--; /* once the note is durable, its time begins */
}

static struct grant *grant_new(struct rpc_call *call, const char *claim_id)
{
	struct grant *grant = calloc(1, sizeof(*grant));

	if (!grant)
		return NULL;
	grant->call = call;
	(void)str_copy(grant->claim_id, sizeof(grant->claim_id), claim_id);
	return grant;
}

static void on_reserved(struct server *server, void *userdata)
{
	struct grant *grant = userdata;
	const struct claim_entry *entry = state_claim(&server->state, grant->claim_id);

	if (entry && entry->claim.attach == ATTACH_NONE && entry->claim.state <= CLAIM_TAKEN)
		grant_log(&entry->claim);
	grant_finish(server, grant);
}

static void on_granted_before(struct server *server, void *userdata)
{
	struct grant *grant = userdata;

	grant->is_repeat = true;
	grant_finish(server, grant);
}

/* Commits, and attaches afterwards; until then the claim does not expire, however long the disk takes. */
static enum status commit_and_attach(struct server *server, struct change *change, struct rpc_call *call,
				     const char *claim_id, change_done_fn *done, struct error *err)
{
	enum status status = change_commit_taking(server, change, done, grant_new(call, claim_id), err);
	struct claim_entry *entry = state_claim(&server->state, claim_id);

	if (status == STATUS_OK && entry)
		entry->work.n_grants++;
	return status;
}

/* A writer's generation is new, and becomes the volume's with the claim: see state_put_claim(). */
static void make_claim(const struct volume *volume, const struct alloc *alloc,
		       const struct volume_request *request, const struct node *node,
		       const struct attach_need *need, struct claim *claim)
{
	enum claim_mode mode = volume_request_mode(request);

	*claim = (struct claim){
		.mode = mode,
		.access_mode = request->access_mode,
		.attachment_mode = request->attachment_mode,
		.propagation = request->propagation,
		.slot = (uint32_t)(request - alloc->volumes),
		.generation = volume->generation + (mode == CLAIM_WRITE),
		.state = CLAIM_RESERVED,
		/* stored before the controller is asked. Without one the answer goes out as soon as this is
		 * durable, so after a crash it must count as sent */
		.attach = need->is_needed ? ATTACH_ASKED : ATTACH_NONE,
		.sent_to_node = !need->is_needed,
		.create_time_ms = clock_realtime_ms(),
		.volume_create_time_ms = volume->create_time_ms,
	};
	claim->modify_time_ms = claim->state_time_ms = claim->create_time_ms;
	memcpy(claim->volume_id, volume->id, sizeof(claim->volume_id));
	memcpy(claim->namespace, volume->namespace, sizeof(claim->namespace));
	claim_set_storage(claim, volume);
	memcpy(claim->plugin_id, volume->plugin_id, sizeof(claim->plugin_id));
	memcpy(claim->profile, volume->profile, sizeof(claim->profile));
	memcpy(claim->allocation_id, alloc->id, sizeof(claim->allocation_id));
	memcpy(claim->node_id, node->id, sizeof(claim->node_id));
	memcpy(claim->boot_id, node->boot_id, sizeof(claim->boot_id));
	(void)str_copy(claim->external_node_id, sizeof(claim->external_node_id), need->external_node_id);
}

/* Refuses while a detach from the node may be in flight: the next attach there must come after it. */
static enum status check_detaching(const struct volume_entry *volume, const struct node_entry *node,
				   struct error *err)
{
	if (!release_is_detaching(node, volume))
		return STATUS_OK;
	return error_set(err, STATUS_ABORTED, 0,
			 "volume %s is just being detached from node %s by plugin %s, or may be; ask again",
			 volume->id, node->id, volume->volume.plugin_id);
}

static enum status reserve(struct server *server, struct rpc_call *call, const struct asked *asked,
			   const struct attach_need *need, struct error *err)
{
	const struct volume_request *request = alloc_find_volume(asked->alloc, asked->volume_name);
	char object[sizeof("volume /, allocation ") + NAMESPACE_MAX + VOLUME_ID_MAX + UUID_TEXT_SIZE];
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct claim claim;
	int r;

	assert(request); /* admitted */
	make_claim(&asked->volume->volume, asked->alloc, request, &asked->node->node, need, &claim);
	r = uuid_new(claim.id);
	if (r < 0)
		return error_set(err, STATUS_INTERNAL, r, "make a claim id");
	change_put_claim(&change, &claim);
	(void)str_join(object, sizeof(object), "volume ", claim.namespace, "/", claim.volume_id,
		       ", allocation ", claim.allocation_id);
	audit_silent(server, &change, call, "Volumes.Claim", object, NULL);
	TRY(commit_and_attach(server, &change, call, claim.id, on_reserved, err));
	if (!need->is_needed)
		grant_sign_ahead(server, state_claim(&server->state, claim.id));
	return STATUS_OK;
}

/* Has the allocation a claim on the volume that the server granted? A claim that only the node reports
 * holds the volume, but no controller may attach it, and it gets no ticket. */
static bool has_granted(const struct asked *asked, const struct alloc_entry *alloc)
{
	const struct claim_entry *entry;
	bool has_granted = false;

	LIST_FOREACH (entry, &alloc->claims, of_alloc) {
		if (entry->claim.state > CLAIM_TAKEN || !str_eq(entry->claim.volume_id, asked->volume_id) ||
		    !str_eq(entry->claim.namespace, asked->namespace))
			continue;
		if (entry->claim.adopted &&
		    (entry->claim.attach != ATTACH_NONE || !entry->claim.storage_proven))
			return false;
		has_granted = true;
	}
	return has_granted;
}

/* Refuses an adopted allocation, which its node may have invented, before anything of the volume is looked
 * at. It keeps its earlier grants. */
static enum status check_adopted(const struct asked *asked, const struct alloc_entry *alloc,
				 struct error *err)
{
	if (!asked->alloc->adopted || has_granted(asked, alloc))
		return STATUS_OK;
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "allocation %s: only its node knows it, by a report in a new epoch, so it keeps "
			 "what it was granted and gets no further grant; stop it (holdfast alloc stop %s) "
			 "and run its work again for volume %s",
			 asked->alloc->id, asked->alloc->id, asked->volume_id);
}

/* Refuses an allocation that has claimed and released its volumes many times: each time costs an attach, a
 * detach and records of the audit, out of which its node could push everything else. */
static enum status check_often(const struct alloc_entry *alloc, struct error *err)
{
	char more[RATE_MORE_SIZE];

	if (alloc->n_granted < CLAIMS_FREE_PER_VOLUME * alloc->alloc.n_volumes ||
	    rate_take_counted(&alloc->node->regrants, REGRANT_COST_US, REGRANTS_BURST, clock_monotonic_us(),
			      more))
		return STATUS_OK;
	return error_set(err, STATUS_UNAVAILABLE, 0,
			 "allocation %s has claimed its volumes %" PRIu32 " times, and gets a further claim "
			 "only every ten seconds. Look at the agent of node %s: journalctl -u holdfast-agent",
			 alloc->id, alloc->n_granted, alloc->node->id);
}

/* Root may have removed the name of the file system since the volume was registered. Mounts of the same
 * storage wait, too. */
static enum status check_device(struct server *server, const struct asked *asked, struct error *err)
{
	const struct volume_request *request = alloc_find_volume(asked->alloc, asked->volume_name);
	const Holdfast__V1__VolumeDetail *detail;

	assert(request); /* admitted */
	if (identity_check_device(server, asked->volume->volume.plugin_id, err) == STATUS_OK ||
	    !identity_has_device(server, asked->volume))
		return STATUS_OK;
	detail = volume_detail_of(server, &asked->volume->volume);
	/* "auto" would go by the contents, too */
	if (request->attachment_mode != ATTACHMENT_BLOCK_DEVICE && detail && detail->mount_options &&
	    detail->mount_options->fs_type[0] != '\0' && fs_type_is_plain(detail->mount_options->fs_type))
		return STATUS_OK;
	err->status = STATUS_UNAVAILABLE; /* the work waits for root */
	return err->status;
}

static enum status grant(struct server *server, struct rpc_call *call, const struct asked *asked,
			 struct alloc_entry *alloc, struct error *err)
{
	struct attach_need need;

	TRY(check_detaching(asked->volume, asked->node, err));
	TRY(check_device(server, asked, err));
	TRY(grant_need_attach(asked->volume, asked->node, &need, err));
	TRY(check_often(alloc, err));
	TRY(reserve(server, call, asked, &need, err));
	alloc->n_granted++;
	return STATUS_OK;
}

/* Before anything of the volume is looked at: a node learns and changes nothing of what it has no work for.
 */
static enum status check_own_alloc(const struct alloc *alloc, const char *node_id,
				   const Holdfast__V1__ClaimVolumeRequest *request, struct error *err)
{
	const struct volume_request *wanted;

	if (!volume_id_is_valid(request->volume_id))
		return error_set(err, STATUS_NOT_FOUND, 0, "volume_id: '%.128s' is no volume's id",
				 request->volume_id);
	if (!alloc)
		return error_set(err, STATUS_NOT_FOUND, 0, "volume %.128s: there is no allocation %.64s",
				 request->volume_id, request->allocation_id);
	if (!str_eq(alloc->node_id, node_id))
		return error_set(err, STATUS_PERMISSION_DENIED, 0,
				 "volume %.128s: allocation %s is not assigned to this node",
				 request->volume_id, alloc->id);
	wanted = alloc_find_volume(alloc, request->volume_name);
	if (!wanted || !str_eq(wanted->source, request->volume_id) ||
	    !str_eq(alloc->namespace, namespace_or_default(request->namespace_)))
		return error_set(err, STATUS_PERMISSION_DENIED, 0,
				 "volume %.128s: allocation %s does not ask for it as '%.64s'",
				 request->volume_id, alloc->id, request->volume_name);
	return STATUS_OK;
}

static enum status handle_claim(struct server *server, struct rpc_call *call,
				const Holdfast__V1__ClaimVolumeRequest *request,
				const struct alloc_entry **ret_own, struct error *err)
{
	struct asked asked = {
		.namespace = namespace_or_default(request->namespace_),
		.volume_id = request->volume_id,
		.alloc_id = request->allocation_id,
		.volume_name = request->volume_name,
	};
	struct alloc_entry *alloc = state_alloc(&server->state, request->allocation_id);
	const struct claim *same = NULL;
	struct node_entry *node;
	struct identity who;

	TRY(access_check_node(server, call, &who, err));
	node = state_node(&server->state, who.name);
	if (!node || !node_is_connected(node))
		return error_set(err, STATUS_UNAVAILABLE, 0,
				 "node %s has no session; claims are granted to connected nodes only",
				 who.name);
	TRY(check_own_alloc(alloc ? &alloc->alloc : NULL, who.name, request, err));
	*ret_own = alloc;
	asked.node = node;
	asked.volume = state_volume(&server->state, asked.namespace, asked.volume_id);
	asked.alloc = &alloc->alloc;
	TRY(check_adopted(&asked, alloc, err));
	enum status status = claim_admit(server, &asked, &same, err);
	if (status != STATUS_OK && status != STATUS_ALREADY_EXISTS)
		return status;
	/* also a volume that it has already: after a restore it may be another's */
	TRY(grant_check_past(server, asked.volume, same, err));
	if (!same)
		return grant(server, call, &asked, alloc, err);
	/* Waits for the first grant, and for etcd to confirm the lead: an old etcd may extend a lease that it
	 * has revoked elsewhere. */
	return commit_and_attach(server, &(struct change){.is_confirmed = server->lead != NULL}, call,
				 same->id, on_granted_before, err);
}

void claim_grant_handle(struct rpc_call *call, const ProtobufCMessage *request, void *server)
{
	const Holdfast__V1__ClaimVolumeRequest *asked = (const Holdfast__V1__ClaimVolumeRequest *)request;
	const struct alloc_entry *alloc = NULL; /* of the calling node */
	char wire_volume[WIRE_VOLUME_SIZE];
	struct change_author author;
	enum status status;
	struct error err;

	answer_begin(server, call, &author);
	status = handle_claim(server, call, asked, &alloc, &err);
	change_end_author(server, &author);
	if (status == STATUS_OK)
		return;
	if (alloc && err.status == STATUS_FAILED_PRECONDITION && alloc->alloc.job_id[0] != '\0')
		allocs_note_lost_race(server, alloc);
	volume_wire_name(namespace_or_default(asked->namespace_), asked->volume_id, wire_volume);
	refusal_reply_claim(server, call, "Volumes.Claim",
			    &(struct log_ctx){.volume = asked->volume_id,
					      .wire_volume = wire_volume,
					      .alloc = asked->allocation_id,
					      .node = alloc ? alloc->alloc.node_id : NULL,
					      .op = "claim",
					      .event = LOG_EVENT_CLAIM_REFUSED},
			    alloc ? &alloc->alloc : NULL, asked->volume_name,
			    alloc ? alloc->alloc.node_id : "", &err);
}
