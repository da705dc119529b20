#include "claim_grant.h"

#include "access.h"
#include "change.h"
#include "server.h"
#include "volume_view.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/uuid.h"
#include "log/log.h"
#include "model/admission.h"
#include "model/pb.h"
#include "rpc/server.h"

#include <assert.h>
#include <holdfast/v1/volumes.pb-c.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The live claims of a volume as admission wants them. */
struct holders {
	const struct claim **claims; /* owned array of borrowed claims */
	struct holder *about;	     /* owned */
	size_t n;
};

static void release_holders(struct holders *holders)
{
	free(holders->claims);
	free(holders->about);
}

static enum status find_holders(struct server *server, struct volume_entry *volume, struct holders *holders,
				struct error *err)
{
	struct claim_entry *entry;

	if (volume->n_live >= CLAIMS_PER_VOLUME_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "volume %s has %d claims, the most there may be", volume->volume.id,
				 CLAIMS_PER_VOLUME_MAX);
	holders->claims = calloc(volume->n_live + 1, sizeof(const struct claim *));
	holders->about = calloc(volume->n_live + 1, sizeof(*holders->about));
	if (!holders->claims || !holders->about)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "out of memory");
	LIST_FOREACH (entry, &volume->claims, of_volume) {
		if (!claim_is_live(&entry->claim))
			continue;
		holders->claims[holders->n] = &entry->claim;
		holders->about[holders->n] = claim_holder(server, &entry->claim);
		holders->n++;
	}
	return STATUS_OK;
}

/* What is asked for, by whom; ids as they came, for messages. */
struct asked {
	const char *namespace;
	const char *volume_id;
	const char *alloc_id;
	const char *volume_name;
	const struct alloc *alloc; /* NULL: no such allocation */
	const struct node_entry *node;
};

static enum status admit(struct server *server, const struct asked *asked, const struct claim **ret_same,
			 struct error *err)
{
	struct volume_entry *volume = state_volume(&server->state, asked->namespace, asked->volume_id);
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
		st = find_holders(server, volume, &holders, err);
		if (st != STATUS_OK)
			return st;
		in.claims = holders.claims;
		in.holders = holders.about;
		in.n_claims = holders.n;
	}
	return admission_check(&in, ret_same, err);
}

enum status claim_grant_check(struct server *server, const struct alloc *alloc,
			      const struct volume_request *request, struct error *err)
{
	const struct node_entry *node = state_node(&server->state, alloc->node_id);
	const struct asked asked = {
		.namespace = alloc->namespace,
		.volume_id = request->source,
		.alloc_id = alloc->id,
		.volume_name = request->name,
		.alloc = alloc,
		.node = node,
	};
	const struct claim *same;
	enum status st = admit(server, &asked, &same, err);

	return st == STATUS_ALREADY_EXISTS ? STATUS_OK : st;
}

/* A grant on its way to the disk, to be answered when it is there. */
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

static void reply_claim(struct server *server, struct rpc_call *call, const struct claim_entry *entry)
{
	Holdfast__V1__ClaimVolumeResponse response = HOLDFAST__V1__CLAIM_VOLUME_RESPONSE__INIT;
	const struct volume *volume = &entry->volume->volume;
	int64_t not_after_ms = clock_realtime_ms() + (int64_t)(server->config.ticket_ttl_us / USEC_PER_MSEC);
	char wire_volume[WIRE_VOLUME_SIZE];
	struct ticket ticket;
	struct error err;

	if (ticket_issue(server->issuer, &entry->claim, volume, not_after_ms, &ticket, &err) != STATUS_OK) {
		rpc_call_fail(call, &err);
		return;
	}
	volume_wire_name(volume->namespace, volume->id, wire_volume);
	response.claim = claim_to_pb(&entry->claim);
	response.volume = volume_to_pb(volume);
	response.wire_volume = wire_volume;
	response.ticket = (ProtobufCBinaryData){.len = sizeof(ticket), .data = (uint8_t *)&ticket};
	if (response.claim && response.volume) {
		rpc_call_reply(call, &response.base);
	} else {
		(void)error_set(&err, STATUS_RESOURCE_EXHAUSTED, 0, "out of memory");
		rpc_call_fail(call, &err);
	}
	holdfast__v1__claim__free_unpacked(response.claim, NULL);
	holdfast__v1__volume__free_unpacked(response.volume, NULL);
}

static void on_granted(struct server *server, void *userdata)
{
	cleanup_free struct grant *grant = userdata;
	const struct claim_entry *entry = state_claim(&server->state, grant->claim_id);
	struct error err;

	if (entry && entry->claim.state <= CLAIM_TAKEN) {
		reply_claim(server, grant->call, entry);
		return;
	}
	/* released again before it was durable: the node's repeat will be told why */
	(void)error_set(&err, STATUS_ABORTED, 0,
			"the claim was released while it was being granted; ask again");
	rpc_call_fail(grant->call, &err);
}

static void make_claim(const struct volume *volume, const struct alloc *alloc,
		       const struct volume_request *request, const struct node *node, struct claim *claim)
{
	*claim = (struct claim){
		.mode = volume_request_mode(request),
		.access_mode = request->access_mode,
		.attachment_mode = request->attachment_mode,
		.propagation = request->propagation,
		.generation = volume->generation,
		.state = CLAIM_RESERVED,
		/* the answer goes out as soon as this is durable, so after a crash it must count as sent */
		.sent_to_node = true,
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
	/* a native volume's provider is the node itself */
	memcpy(claim->external_node_id, node->id, sizeof(node->id));
}

static enum status grant(struct server *server, struct rpc_call *call, const struct asked *asked,
			 struct error *err)
{
	struct volume_entry *entry = state_volume(&server->state, asked->namespace, asked->volume_id);
	const struct volume_request *request = alloc_find_volume(asked->alloc, asked->volume_name);
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct volume volume = entry->volume;
	struct claim claim;
	enum status st;
	int r;

	assert(asked->alloc && request); /* admitted */
	if (volume_request_mode(request) == CLAIM_WRITE) {
		volume.generation++;
		change_put_volume(&change, &volume);
	}
	make_claim(&volume, asked->alloc, request, &asked->node->node, &claim);
	r = uuid_new(claim.id);
	if (r < 0)
		return error_set(err, STATUS_INTERNAL, r, "make a claim id");
	change_put_claim(&change, &claim);
	st = change_commit_taking(server, &change, on_granted, grant_new(call, claim.id), err);
	if (st != STATUS_OK)
		return st;
	log_ctx(LOG_NOTICE,
		&(struct log_ctx){.volume = volume.id,
				  .alloc = claim.allocation_id,
				  .node = claim.node_id,
				  .claim = claim.id,
				  .op = "claim"},
		"granted for %s (%s), generation %" PRIu64, claim_mode_name(claim.mode),
		access_mode_name(claim.access_mode), claim.generation);
	return STATUS_OK;
}

static enum status handle_claim(struct server *server, struct rpc_call *call,
				const Holdfast__V1__ClaimVolumeRequest *request, struct error *err)
{
	struct asked asked = {
		.namespace = request->namespace_[0] != '\0' ? request->namespace_ : NAMESPACE_DEFAULT,
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
	asked.alloc = alloc ? &alloc->alloc : NULL;
	st = admit(server, &asked, &same, err);
	if (st == STATUS_OK)
		return grant(server, call, &asked, err);
	if (st != STATUS_ALREADY_EXISTS)
		return st;
	assert(same); /* that is what the status means */
	/* waits for the first grant */
	return change_commit_taking(server, &(struct change)CHANGE_INIT, on_granted,
				    grant_new(call, same->id), err);
}

void claim_grant_handle(struct rpc_call *call, const ProtobufCMessage *request, void *server)
{
	struct error err;

	if (handle_claim(server, call, (const Holdfast__V1__ClaimVolumeRequest *)request, &err) != STATUS_OK)
		rpc_call_fail(call, &err);
}
