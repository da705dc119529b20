/* SPDX-License-Identifier: Apache-2.0 */
#include "claim/grant.h"

#include "server.h"

#include "access/access.h"
#include "access/audit.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/join.h"
#include "base/str.h"
#include "base/uuid.h"
#include "claim/attach.h"
#include "claim/refusal.h"
#include "claim/release.h"
#include "log/log.h"
#include "model/admission.h"
#include "rpc/server.h"
#include "state/change.h"
#include "volume/store.h"
#include "volume/view.h"

#include <assert.h>
#include <holdfast/v1/volumes.pb-c.h>
#include <stdlib.h>
#include <string.h>

/* The live claims of a volume as admission wants them. */
struct holders {
	const struct claim **claims; /* owned array of borrowed claims */
	struct holder *about;	     /* owned; NULL until something is to be explained */
	size_t n;
};

static void release_holders(struct holders *holders)
{
	free(holders->claims);
	free(holders->about);
}

static enum status find_holders(struct volume_entry *volume, struct holders *holders, struct error *err)
{
	struct claim_entry *entry;

	if (volume->n_live >= CLAIMS_PER_VOLUME_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "volume %s has %d claims, the most there may be", volume->volume.id,
				 CLAIMS_PER_VOLUME_MAX);
	holders->claims = calloc(volume->n_live + 1, sizeof(const struct claim *));
	if (!holders->claims)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "out of memory");
	LIST_FOREACH (entry, &volume->claims, of_volume)
		if (claim_is_live(&entry->claim))
			holders->claims[holders->n++] = &entry->claim;
	return STATUS_OK;
}

/* Without memory the explanation knows less. */
static const struct holder *look_at_holders(struct server *server, struct holders *holders)
{
	holders->about = calloc(holders->n + 1, sizeof(*holders->about));
	for (size_t i = 0; holders->about && i < holders->n; i++)
		holders->about[i] = claim_holder(server, holders->claims[i]);
	return holders->about;
}

/* What is asked for, by whom; ids as they came, for messages. */
struct asked {
	const char *namespace;
	const char *volume_id;
	const char *alloc_id;
	const char *volume_name;
	struct volume_entry *volume; /* NULL: no such volume */
	const struct alloc *alloc;   /* NULL: no such allocation */
	const struct node_entry *node;
};

static enum status admit(struct server *server, const struct asked *asked, const struct claim **ret_same,
			 struct error *err)
{
	struct volume_entry *volume = asked->volume;
	cleanup(release_holders) struct holders holders = {0};
	struct admission in = {
		.volume_id = asked->volume_id,
		.volume = volume ? &volume->volume : NULL,
		.alloc = asked->alloc,
		.alloc_id = asked->alloc_id,
		.node = asked->node ? &asked->node->node : NULL,
		.volume_name = asked->volume_name,
		.now_ms = clock_realtime_ms(),
	};
	enum status st;

	if (volume && asked->node)
		in.plugin = node_entry_plugin(asked->node, &volume->volume);
	if (volume) {
		st = volume_store_check_usable(server, &volume->volume, err);
		if (st == STATUS_OK)
			st = find_holders(volume, &holders, err);
		if (st != STATUS_OK)
			return st;
		in.claims = holders.claims;
		in.n_claims = holders.n;
	}
	st = admission_check(&in, ret_same, err);
	if (st != STATUS_FAILED_PRECONDITION || in.n_claims == 0)
		return st;
	in.holders = look_at_holders(server, &holders); /* costs more: only who is refused needs it */
	return admission_check(&in, ret_same, err);
}

enum status claim_grant_check(struct server *server, const struct alloc *alloc,
			      const struct volume_request *request, struct error *err)
{
	const struct node_entry *node = state_node(&server->state, alloc->node_id);
	const struct asked asked = {
		.namespace = alloc->namespace,
		.volume_id = request->source,
		.volume = state_volume(&server->state, alloc->namespace, request->source),
		.alloc_id = alloc->id,
		.volume_name = request->name,
		.alloc = alloc,
		.node = node,
	};
	const struct claim *same;
	enum status st = admit(server, &asked, &same, err);

	return st == STATUS_ALREADY_EXISTS ? STATUS_OK : st;
}

/* A grant on its way to the disk. */
struct grant {
	struct rpc_call *call;
	char claim_id[UUID_TEXT_SIZE];
};

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
	cleanup_free struct grant *grant = userdata;
	const struct claim_entry *entry = state_claim(&server->state, grant->claim_id);

	if (entry && entry->claim.attach == ATTACH_NONE && entry->claim.state <= CLAIM_TAKEN)
		claim_log_granted(&entry->claim);
	claim_attach(server, grant->claim_id, grant->call);
}

static void on_granted_before(struct server *server, void *userdata)
{
	cleanup_free struct grant *grant = userdata;

	claim_attach(server, grant->claim_id, grant->call);
}

/* Commit, and attach afterwards; until then the claim does not expire, however long the disk takes. */
static enum status commit_and_attach(struct server *server, struct change *change, struct rpc_call *call,
				     const char *claim_id, change_done_fn *done, struct error *err)
{
	enum status st = change_commit_taking(server, change, done, grant_new(call, claim_id), err);
	struct claim_entry *entry = state_claim(&server->state, claim_id);

	if (st == STATUS_OK && entry)
		entry->work.n_grants++;
	return st;
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
		.generation = volume->generation + (mode == CLAIM_WRITE),
		.state = CLAIM_RESERVED,
		/* stored before the controller is asked. Without one the answer goes out as soon as this is
		 * durable, so after a crash it must count as sent */
		.attach = need->is_needed ? ATTACH_ASKED : ATTACH_NONE,
		.sent_to_node = !need->is_needed,
		.create_time_ms = clock_realtime_ms(),
	};
	claim->modify_time_ms = claim->state_time_ms = claim->create_time_ms;
	memcpy(claim->volume_id, volume->id, sizeof(claim->volume_id));
	memcpy(claim->namespace, volume->namespace, sizeof(claim->namespace));
	memcpy(claim->external_id, volume->external_id, sizeof(claim->external_id));
	memcpy(claim->plugin_id, volume->plugin_id, sizeof(claim->plugin_id));
	memcpy(claim->profile, volume->profile, sizeof(claim->profile));
	memcpy(claim->allocation_id, alloc->id, sizeof(claim->allocation_id));
	memcpy(claim->node_id, node->id, sizeof(claim->node_id));
	memcpy(claim->boot_id, node->boot_id, sizeof(claim->boot_id));
	(void)str_copy(claim->external_node_id, sizeof(claim->external_node_id), need->external_node_id);
}

/* What is being detached from the node must be gone before it is attached there anew. */
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
	enum status st;
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
	st = commit_and_attach(server, &change, call, claim.id, on_reserved, err);
	if (st == STATUS_OK && !need->is_needed)
		claim_attach_ahead(server, state_claim(&server->state, claim.id));
	return st;
}

/* Its node may have invented it to get the volume. What it was granted before, it keeps. */
static enum status check_adopted(const struct asked *asked, struct error *err)
{
	assert(asked->alloc); /* admitted */
	if (!asked->alloc->adopted)
		return STATUS_OK;
	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"allocation %s: only its node knows it, by a report in a new epoch, so "
		"it keeps what it was granted and is granted nothing anew; stop it (holdfast alloc stop "
		"%s) and run its work again for volume %s",
		asked->alloc->id, asked->alloc->id, asked->volume_id);
}

static enum status grant(struct server *server, struct rpc_call *call, const struct asked *asked,
			 struct error *err)
{
	struct attach_need need;
	enum status st = check_adopted(asked, err);

	if (st == STATUS_OK)
		st = check_detaching(asked->volume, asked->node, err);

	if (st == STATUS_OK)
		st = claim_attach_need(asked->volume, asked->node, &need, err);
	return st == STATUS_OK ? reserve(server, call, asked, &need, err) : st;
}

static enum status handle_claim(struct server *server, struct rpc_call *call,
				const Holdfast__V1__ClaimVolumeRequest *request, struct error *err)
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
	enum status st = access_check_node(server, call, &who, err);

	if (st != STATUS_OK)
		return st;
	node = state_node(&server->state, who.name);
	if (!node || !node_is_connected(node))
		return error_set(err, STATUS_UNAVAILABLE, 0,
				 "node %s has no session; claims are granted to connected nodes only",
				 who.name);
	asked.node = node;
	asked.volume = state_volume(&server->state, asked.namespace, asked.volume_id);
	asked.alloc = alloc ? &alloc->alloc : NULL;
	st = admit(server, &asked, &same, err);
	if (st != STATUS_OK && st != STATUS_ALREADY_EXISTS)
		return st;
	/* also what it has already: after a restore that may be another's by now */
	st = claim_attach_check(server, asked.volume, same, err);
	if (st != STATUS_OK)
		return st;
	if (!same)
		return grant(server, call, &asked, err);
	/* waits for the first grant */
	return commit_and_attach(server, &(struct change)CHANGE_INIT, call, same->id, on_granted_before, err);
}

void claim_grant_handle(struct rpc_call *call, const ProtobufCMessage *request, void *server)
{
	const Holdfast__V1__ClaimVolumeRequest *asked = (const Holdfast__V1__ClaimVolumeRequest *)request;
	const struct alloc_entry *alloc;
	char wire_volume[WIRE_VOLUME_SIZE];
	struct error err;

	if (handle_claim(server, call, asked, &err) == STATUS_OK)
		return;
	alloc = state_alloc(&((struct server *)server)->state, asked->allocation_id);
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
