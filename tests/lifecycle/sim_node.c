/* SPDX-License-Identifier: Apache-2.0 */
/* The simulated node is a model of an agent, and no better than what it copies of the real one (agent/):
 *
 * - The mark of the server's history is kept before anything is mounted, and only a higher one takes its
 * place.
 * - hello names every allocation of the journal, and as mounted whatever was granted in this boot and not
 *   released, whether the kernel has it or not.
 * - What the journal has as mounted and the kernel does not is claimed again before it is mounted again; what
 *   was in another boot is lost. What only the kernel has is kept until the server orders its release, which
 *   looks in the kernel.
 * - An order to release what runs here is refused, but of a claim that was freed: that stops the allocation.
 * - Receipts are repeated until they are acknowledged; an allocation that has not ended is not forgotten.
 *
 * A journal that is damaged so that it cannot be read is one that was lost: its agent does not start. One
 * whose last writes are cut off is an older one. */

#include "sim.h"

#include "base/clock.h"
#include "base/str.h"

#include <holdfast/v1/volumes.pb-c.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { CALL_TIMEOUT_US = 20 * 1000 * 1000, GENERATION_EPOCH_SHIFT = 32 };

struct sim_entry *sim_node_find(struct sim_node *node, const char *alloc_id)
{
	for (int i = 0; i < SIM_ENTRIES; i++)
		if (sim_entry_is_known(&node->entries[i]) && str_eq(node->entries[i].alloc_id, alloc_id))
			return &node->entries[i];
	return NULL;
}

bool sim_entry_is_held(const struct sim_entry *entry)
{
	return sim_entry_is_known(entry) && entry->phase != SIM_UNMOUNTED && entry->claim_id[0] != '\0' &&
	       str_eq(entry->claim_boot, entry->node->boot_id);
}

/* Mounted, and not in the journal. */
static struct sim_entry *find_in_kernel(struct sim_node *node, const char *alloc_id)
{
	for (int i = 0; i < SIM_ENTRIES; i++)
		if (node->entries[i].off_journal && str_eq(node->entries[i].alloc_id, alloc_id))
			return &node->entries[i];
	return NULL;
}

void sim_entry_unmount(struct sim_entry *entry)
{
	entry->node->sim->counts[COUNT_UNMOUNTED]++;
	*entry = (struct sim_entry){.phase = SIM_FREE};
}

static struct sim_entry *new_entry(struct sim_node *node)
{
	for (int i = 0; i < SIM_ENTRIES; i++)
		if (node->entries[i].phase == SIM_FREE)
			return &node->entries[i];
	return NULL;
}

void sim_node_send(struct sim_node *node, const Holdfast__V1__SessionUp *up)
{
	if (node->stream && node->welcomed)
		(void)rpc_stream_send(node->stream, &up->base, NULL); /* lost like anything on a dead link */
}

/* A mark of another store counts when its epoch is higher. */
static bool is_higher(const Holdfast__V1__Mark *mark, const struct sim_mark *than)
{
	if (than->store_id[0] == '\0' || mark->epoch != than->epoch)
		return than->store_id[0] == '\0' || mark->epoch > than->epoch;
	return str_eq(mark->store_id, than->store_id) && mark->index > than->index;
}

static void note_mark(struct sim_node *node, const Holdfast__V1__Mark *mark)
{
	if (!mark || mark->proof.len != sizeof(node->mark.proof))
		sim_fail(node->sim, "%s was shown no mark of the server's history", node->id);
	if (!is_higher(mark, &node->mark))
		return;
	node->mark = (struct sim_mark){.epoch = mark->epoch, .index = mark->index, .nodes = mark->nodes};
	(void)str_copy(node->mark.store_id, sizeof(node->mark.store_id), mark->store_id);
	(void)str_copy(node->mark.machine, sizeof(node->mark.machine), mark->machine);
	memcpy(node->mark.proof, mark->proof.data, sizeof(node->mark.proof));
}

/* A server that is behind what a node was shown does not continue with it: it begins an epoch. */
static void check_welcome(const struct sim_node *node, const Holdfast__V1__Mark *now)
{
	const struct sim_mark *seen = &node->mark;
	bool is_same = str_eq(now->store_id, seen->store_id) && now->epoch == seen->epoch;

	if (seen->store_id[0] != '\0' && (is_same ? now->index < seen->index : now->epoch <= seen->epoch))
		sim_fail(node->sim,
			 "%s was shown index %llu of epoch %llu, and is welcomed at index %llu of epoch %llu",
			 node->id, (unsigned long long)seen->index, (unsigned long long)seen->epoch,
			 (unsigned long long)now->index, (unsigned long long)now->epoch);
}

/* A status, with the memory of its texts. */
struct said_status {
	Holdfast__V1__AllocStatus pb;
	Holdfast__V1__AllocVolume volume;
	Holdfast__V1__AllocVolume *published[1];
	char name[8], path[16];
};

static void fill_status(struct sim_entry *entry, struct said_status *said)
{
	*said = (struct said_status){.pb = HOLDFAST__V1__ALLOC_STATUS__INIT,
				     .volume = HOLDFAST__V1__ALLOC_VOLUME__INIT,
				     .name = "data",
				     .path = "/published"};
	said->pb.alloc_id = entry->alloc_id;
	said->pb.client_status = entry->status;
	if (entry->phase != SIM_MOUNTED)
		return;
	said->volume.name = said->name;
	said->volume.path = said->path;
	said->volume.claim_id = entry->claim_id;
	said->published[0] = &said->volume;
	said->pb.published = said->published;
	said->pb.n_published = 1;
}

static void send_status(struct sim_entry *entry)
{
	Holdfast__V1__SessionUp up = HOLDFAST__V1__SESSION_UP__INIT;
	struct said_status said;

	fill_status(entry, &said);
	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_ALLOC;
	up.alloc = &said.pb;
	sim_node_send(entry->node, &up);
}

/* Of an allocation that is not in its journal. */
static void send_status_of(struct sim_node *node, const char *alloc_id, Holdfast__V1__ClientStatus status)
{
	struct sim_entry entry = {.node = node, .status = status};

	(void)str_copy(entry.alloc_id, sizeof(entry.alloc_id), alloc_id);
	send_status(&entry);
}

struct receipt_about {
	char claim_id[UUID_TEXT_SIZE];
	char boot_id[UUID_TEXT_SIZE];
	uint64_t generation;
};

static void send_receipt(struct sim_node *node, const struct receipt_about *about, bool released,
			 const char *error)
{
	Holdfast__V1__SessionUp up = HOLDFAST__V1__SESSION_UP__INIT;
	Holdfast__V1__ClaimReceipt receipt = HOLDFAST__V1__CLAIM_RECEIPT__INIT;
	struct receipt_about copy = *about;
	char text[64];

	receipt.claim_id = copy.claim_id;
	receipt.boot_id = copy.boot_id;
	receipt.generation = copy.generation;
	if (error) {
		(void)str_copy(text, sizeof(text), error);
		receipt.error = text;
	} else if (released) {
		receipt.what_case = HOLDFAST__V1__CLAIM_RECEIPT__WHAT_RELEASED;
		receipt.released = true;
	} else {
		receipt.what_case = HOLDFAST__V1__CLAIM_RECEIPT__WHAT_MOUNTED;
		receipt.mounted = true;
	}
	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_RECEIPT;
	up.receipt = &receipt;
	sim_node_send(node, &up);
}

static struct receipt_about about_entry(const struct sim_entry *entry)
{
	struct receipt_about about = {.generation = entry->generation};

	memcpy(about.claim_id, entry->claim_id, sizeof(about.claim_id));
	memcpy(about.boot_id, entry->claim_boot, sizeof(about.boot_id));
	return about;
}

/* Whatever the server has not acknowledged is said again. */
static void send_receipts(struct sim_entry *entry)
{
	const struct receipt_about about = about_entry(entry);

	if (entry->claim_id[0] == '\0' || !str_eq(entry->claim_boot, entry->node->boot_id))
		return;
	if (entry->phase == SIM_MOUNTED && !entry->mounted_acked)
		send_receipt(entry->node, &about, false, NULL);
	if (entry->phase == SIM_UNMOUNTED && !entry->released_acked)
		send_receipt(entry->node, &about, true, NULL);
}

static void become_terminal(struct sim_entry *entry, Holdfast__V1__ClientStatus status)
{
	if (entry->phase == SIM_MOUNTED)
		entry->node->sim->counts[COUNT_UNMOUNTED]++;
	if (entry->call)
		rpc_pending_cancel(entry->call);
	if (entry->phase == SIM_CLAIMING)
		entry->node->sim->in_flight--;
	entry->call = NULL;
	entry->phase = SIM_UNMOUNTED;
	entry->status = status;
	send_receipts(entry);
	send_status(entry);
}

static void mount_volume(struct sim_entry *entry)
{
	struct sim *sim = entry->node->sim;
	const struct sim_volume *volume = &sim->volumes[entry->volume];
	struct sim_entry *there = find_in_kernel(entry->node, entry->alloc_id);

	if (there) { /* it is that mount */
		entry->is_of_both = there->is_of_both && !str_eq(there->claim_id, entry->claim_id);
		*there = (struct sim_entry){.phase = SIM_FREE};
	}
	if (volume->is_csi && !volume->attached[entry->node->number])
		sim_fail(sim, "volume %s was granted to %s but is not attached there", volume->id,
			 entry->node->id);
	entry->phase = SIM_MOUNTED;
	entry->status = HOLDFAST__V1__CLIENT_STATUS__RUNNING;
	entry->mounted_acked = entry->released_acked = false;
	sim->counts[COUNT_MOUNTED]++;
	oracle_check_mounts(sim);
	send_receipts(entry);
	send_status(entry);
}

static bool has_one_writer(Holdfast__V1__AccessMode mode)
{
	return mode == HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_WRITER ||
	       mode == HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_SINGLE_WRITER ||
	       mode == HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_SINGLE_WRITER;
}

/* Each writer has a later generation than the one before: mount helpers refuse it otherwise. Of several at
 * once, the later grant may arrive first. */
static void note_generation(const struct sim_entry *entry, const Holdfast__V1__Claim *claim)
{
	struct sim *sim = entry->node->sim;
	struct sim_volume *volume = &sim->volumes[entry->volume];
	bool is_repeated = str_eq(volume->granted_claim, claim->id);

	if (!entry->is_write)
		return;
	if (has_one_writer(volume->mode) && !is_repeated && !entry->is_of_gap &&
	    claim->generation <= volume->granted)
		sim_fail(sim, "volume %s is granted with generation %llu after %llu", volume->id,
			 (unsigned long long)claim->generation, (unsigned long long)volume->granted);
	if (claim->generation > volume->granted || entry->is_of_gap)
		volume->granted = claim->generation;
	if (claim->generation > volume->generation)
		volume->generation = claim->generation;
	(void)str_copy(volume->granted_claim, sizeof(volume->granted_claim), claim->id);
}

static void take_grant(struct sim_entry *entry, const Holdfast__V1__ClaimVolumeResponse *response)
{
	const Holdfast__V1__Claim *claim = response->claim;
	struct sim_node *node = entry->node;

	node->sim->counts[COUNT_GRANTED]++;
	if (!str_eq(claim->boot_id, node->boot_id) || !str_eq(claim->node_id, node->id) ||
	    !str_eq(claim->allocation_id, entry->alloc_id))
		sim_fail(node->sim, "the grant of claim %s is for another boot, node or allocation",
			 claim->id);
	entry->is_of_gap = node->sim->gap != SIM_NO_GAP || entry->was_cut_in_gap ||
			   claim->generation >> GENERATION_EPOCH_SHIFT < node->sim->epoch;
	note_generation(entry, claim);
	if (node->lose_grants) {
		node->lose_grants = false;
		entry->was_cut_in_gap = entry->is_of_gap;
		entry->phase = SIM_NEW;
		return;
	}
	oracle_check_grant(node->sim, entry->volume, claim->create_index);
	note_mark(node, response->mark);
	entry->was_freed = false;
	(void)str_copy(entry->claim_id, sizeof(entry->claim_id), claim->id);
	(void)str_copy(entry->claim_boot, sizeof(entry->claim_boot), claim->boot_id);
	entry->generation = claim->generation;
	if (response->ticket.len != sizeof(entry->ticket))
		sim_fail(node->sim, "the grant of claim %s has no ticket", claim->id);
	memcpy(entry->ticket, response->ticket.data, sizeof(entry->ticket));
	mount_volume(entry);
}

static bool is_passing(enum status status)
{
	return status == STATUS_UNAVAILABLE || status == STATUS_DEADLINE_EXCEEDED ||
	       status == STATUS_ABORTED || status == STATUS_CANCELLED;
}

static void on_claim_done(enum status status, const ProtobufCMessage *response, const struct error *err,
			  void *userdata)
{
	struct sim_entry *entry = userdata;
	struct sim *sim = entry->node->sim;

	sim->activity++;
	sim->in_flight--;
	entry->call = NULL;
	entry->phase = SIM_NEW;
	if (status == STATUS_OK) {
		take_grant(entry, (const Holdfast__V1__ClaimVolumeResponse *)response);
		return;
	}
	if (is_passing(status))
		return; /* sim_node_act() tries again */
	sim->counts[COUNT_REFUSED]++;
	become_terminal(entry, HOLDFAST__V1__CLIENT_STATUS__FAILED);
}

static void start_claim(struct sim_entry *entry)
{
	Holdfast__V1__ClaimVolumeRequest request = HOLDFAST__V1__CLAIM_VOLUME_REQUEST__INIT;
	struct sim *sim = entry->node->sim;
	char name[] = "data";

	request.volume_id = sim->volumes[entry->volume].id;
	request.allocation_id = entry->alloc_id;
	request.volume_name = name;
	if (rpc_client_call(entry->node->client, &holdfast__v1__volumes__descriptor, "Claim", &request.base,
			    CALL_TIMEOUT_US, on_claim_done, entry, &entry->call, NULL) != STATUS_OK)
		return;
	entry->phase = SIM_CLAIMING;
	sim->in_flight++;
}

static void take_run(struct sim_node *node, const Holdfast__V1__Allocation *alloc)
{
	struct sim_entry *entry = sim_node_find(node, alloc->id);

	if (entry) {
		send_status(entry);
		return;
	}
	for (int i = 0; i < SIM_FORGOTTEN; i++)
		if (str_eq(node->forgotten[i], alloc->id))
			sim_fail(node->sim, "%s shall run allocation %s, which it was told to forget",
				 node->id, alloc->id);
	entry = new_entry(node);
	if (!entry) {
		send_status_of(node, alloc->id, HOLDFAST__V1__CLIENT_STATUS__FAILED);
		return;
	}
	*entry = (struct sim_entry){.phase = SIM_NEW,
				    .node = node,
				    .status = HOLDFAST__V1__CLIENT_STATUS__PENDING,
				    .volume = sim_volume_of(node->sim, alloc->volumes[0]->source),
				    .is_write = !alloc->volumes[0]->read_only};
	(void)str_copy(entry->alloc_id, sizeof(entry->alloc_id), alloc->id);
	start_claim(entry);
}

static void try_unmount(struct sim_entry *entry)
{
	const struct receipt_about about = about_entry(entry);

	if (entry->phase == SIM_MOUNTED && entry->node->unmount_fails) {
		send_receipt(entry->node, &about, true, "EBUSY");
		return;
	}
	become_terminal(entry, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
}

static void take_stop(struct sim_node *node, const char *alloc_id)
{
	struct sim_entry *entry = sim_node_find(node, alloc_id);

	if (!entry) {
		send_status_of(node, alloc_id, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
		return;
	}
	entry->stopping = true;
	if (entry->phase == SIM_UNMOUNTED)
		send_status(entry);
	else
		try_unmount(entry);
}

/* The kernel is asked, whatever the journal knows. */
static void release_in_kernel(struct sim_node *node, const char *alloc_id, const struct receipt_about *about)
{
	struct sim_entry *there = find_in_kernel(node, alloc_id);

	if (there && node->unmount_fails) {
		send_receipt(node, about, true, "EBUSY");
		return;
	}
	if (there)
		sim_entry_unmount(there);
	send_receipt(node, about, true, NULL);
}

/* Its work must not continue with what may be another's. */
static void give_up(struct sim_entry *entry, const Holdfast__V1__Claim *claim)
{
	if (!entry->was_freed)
		entry->freed_index = claim->modify_index;
	if (entry->phase == SIM_MOUNTED && !entry->was_freed)
		entry->node->sim->counts[COUNT_GIVEN_UP]++;
	if (!entry->is_of_past && !sim_is_refused(entry->node->sim, entry->node->number, entry->volume))
		sim_fail(entry->node->sim, "claim %s was freed although %s has it, and never went back",
			 claim->id, entry->node->id);
	entry->was_freed = entry->stopping = true;
}

static void take_release(struct sim_node *node, const Holdfast__V1__Claim *claim)
{
	struct sim_entry *entry = sim_node_find(node, claim->allocation_id);
	struct receipt_about about = {.generation = claim->generation};

	(void)str_copy(about.claim_id, sizeof(about.claim_id), claim->id);
	(void)str_copy(about.boot_id, sizeof(about.boot_id), claim->boot_id);
	if (!str_eq(claim->boot_id, node->boot_id))
		return;
	if (entry && claim->was_freed && sim_entry_is_held(entry) && str_eq(entry->claim_id, claim->id))
		give_up(entry, claim);
	if (entry && entry->phase != SIM_UNMOUNTED) {
		if (entry->stopping)
			try_unmount(entry);
		else
			send_receipt(node, &about, true, "it runs here");
		return;
	}
	release_in_kernel(node, claim->allocation_id, &about);
}

static void take_ack(struct sim_node *node, const Holdfast__V1__ReceiptAck *ack)
{
	for (int i = 0; i < SIM_ENTRIES; i++) {
		struct sim_entry *entry = &node->entries[i];

		if (!sim_entry_is_known(entry) || !str_eq(entry->claim_id, ack->claim_id))
			continue;
		if (ack->released)
			entry->released_acked = true;
		else
			entry->mounted_acked = true;
	}
}

static void take_forget(struct sim_node *node, const char *alloc_id)
{
	struct sim_entry *entry = sim_node_find(node, alloc_id);

	if (!entry || (entry->is_of_past && entry->phase != SIM_UNMOUNTED))
		return;
	if (entry->phase != SIM_UNMOUNTED)
		sim_fail(node->sim, "%s shall forget allocation %s, which is not over", node->id, alloc_id);
	(void)str_copy(node->forgotten[node->n_forgotten++ % SIM_FORGOTTEN], UUID_TEXT_SIZE, alloc_id);
	if (entry->claim_id[0] == '\0' || entry->released_acked || !str_eq(entry->claim_boot, node->boot_id))
		entry->phase = SIM_FREE; /* else its receipt is still to be said */
}

static void on_message(struct rpc_stream *stream, const ProtobufCMessage *message, void *userdata)
{
	const Holdfast__V1__SessionDown *down = (const Holdfast__V1__SessionDown *)message;
	struct sim_node *node = userdata;

	node->sim->activity++;
	switch (down->message_case) {
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_WELCOME:
		check_welcome(node, down->welcome->mark);
		note_mark(node, down->welcome->mark);
		node->welcomed = node->is_pinned = true;
		for (int i = 0; i < SIM_ENTRIES; i++)
			if (sim_entry_is_known(&node->entries[i]))
				send_receipts(&node->entries[i]);
		break;
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_RUN:
		take_run(node, down->run->alloc);
		break;
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_STOP:
		take_stop(node, down->stop->alloc_id);
		break;
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_RECEIPT_ACK:
		take_ack(node, down->receipt_ack);
		break;
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_RELEASE:
		take_release(node, down->release->claim);
		break;
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_FORGET:
		take_forget(node, down->forget->alloc_id);
		break;
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_CALL:
		sim_plugin_call(node, down->call);
		break;
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_REPORT:
		sim_node_report(node, down->report->epoch);
		break;
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_MARK:
		note_mark(node, down->mark);
		break;
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_STREAM: /* its allocations have no tasks */
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE__NOT_SET:
	case _HOLDFAST__V1__SESSION_DOWN__MESSAGE__CASE_IS_INT_SIZE:
		sim_fail(node->sim, "%s was sent a message that it does not know", node->id);
	}
}

static void on_closed(struct rpc_stream *stream, enum status status, const struct error *err, void *userdata)
{
	struct sim_node *node = userdata;

	node->sim->activity++;
	node->stream = NULL;
	node->welcomed = false;
	node->is_refused = node->is_resumed && status == STATUS_FAILED_PRECONDITION;
	if (!node->is_refused && status != STATUS_UNAVAILABLE && status != STATUS_ABORTED &&
	    node->sim->server_pid != 0)
		sim_fail(node->sim, "the session of %s was ended: %s", node->id, err ? err->msg : "OK");
}

static const struct rpc_stream_events events = {.on_message = on_message, .on_closed = on_closed};

/* The fingerprint: one profile of the native plugin and one CSI plugin, both halves. */
struct fingerprint {
	Holdfast__V1__NodePlugin native, csi;
	Holdfast__V1__ControllerHalf controller;
	Holdfast__V1__NodeHalf half;
	Holdfast__V1__NodePlugin *plugins[2];
	Holdfast__V1__FenceClient client, *clients[1];
	char native_id[8], profile[8], csi_id[8], provider_node[NODE_ID_MAX + 16], cidr[24];
};

static void make_fingerprint(const struct sim_node *node, struct fingerprint *fp)
{
	*fp = (struct fingerprint){.native = HOLDFAST__V1__NODE_PLUGIN__INIT,
				   .csi = HOLDFAST__V1__NODE_PLUGIN__INIT,
				   .controller = HOLDFAST__V1__CONTROLLER_HALF__INIT,
				   .half = HOLDFAST__V1__NODE_HALF__INIT,
				   .client = HOLDFAST__V1__FENCE_CLIENT__INIT,
				   .native_id = "native",
				   .profile = "disk",
				   .csi_id = "csi"};
	(void)str_format(fp->provider_node, sizeof(fp->provider_node), "provider-%s", node->id);
	fp->native.plugin_id = fp->native_id;
	fp->native.profile = fp->profile;
	fp->native.healthy = true;
	fp->controller.healthy = fp->csi.healthy = node->plugin_healthy;
	fp->controller.attach_detach = fp->controller.create_delete = true;
	fp->controller.expand = fp->controller.create_delete_snapshot = fp->half.expand = true;
	fp->half.provider_node_id = fp->provider_node;
	fp->controller.network_fence = true;
	(void)str_format(fp->cidr, sizeof(fp->cidr), "192.0.2.%d/32", node->number);
	fp->client.cidr = fp->cidr;
	fp->clients[0] = &fp->client;
	fp->half.fence_clients = fp->clients;
	fp->half.n_fence_clients = 1;
	fp->csi.plugin_id = fp->csi_id;
	fp->csi.controller_required = true;
	fp->csi.controller = &fp->controller;
	fp->csi.node = &fp->half;
	fp->plugins[0] = &fp->native;
	fp->plugins[1] = &fp->csi;
}

void sim_node_send_plugins(struct sim_node *node)
{
	Holdfast__V1__SessionUp up = HOLDFAST__V1__SESSION_UP__INIT;
	Holdfast__V1__Fingerprint pb = HOLDFAST__V1__FINGERPRINT__INIT;
	struct fingerprint fp;

	make_fingerprint(node, &fp);
	pb.plugins = fp.plugins;
	pb.n_plugins = 2;
	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_FINGERPRINT;
	up.fingerprint = &pb;
	sim_node_send(node, &up);
}

/* What hello names, with the memory of it. */
struct named {
	struct said_status statuses[SIM_ENTRIES];
	Holdfast__V1__AllocStatus *allocs[SIM_ENTRIES];
	Holdfast__V1__MountedClaim claims[SIM_ENTRIES];
	Holdfast__V1__MountedClaim *mounted[SIM_ENTRIES];
};

static void name_entries(struct sim_node *node, Holdfast__V1__SessionHello *hello, struct named *named)
{
	hello->allocs = named->allocs;
	hello->mounted = named->mounted;
	for (int i = 0; i < SIM_ENTRIES; i++) {
		struct sim_entry *entry = &node->entries[i];

		if (!sim_entry_is_known(entry))
			continue;
		fill_status(entry, &named->statuses[i]);
		named->allocs[hello->n_allocs++] = &named->statuses[i].pb;
		if (!sim_entry_is_held(entry))
			continue;
		holdfast__v1__mounted_claim__init(&named->claims[i]);
		named->claims[i].claim_id = entry->claim_id;
		named->claims[i].generation = entry->generation;
		named->mounted[hello->n_mounted++] = &named->claims[i];
	}
}

void sim_node_send_hello(struct sim_node *node)
{
	Holdfast__V1__SessionUp up = HOLDFAST__V1__SESSION_UP__INIT;
	Holdfast__V1__SessionHello hello = HOLDFAST__V1__SESSION_HELLO__INIT;
	Holdfast__V1__Mark mark = HOLDFAST__V1__MARK__INIT;
	Holdfast__V1__Fingerprint fingerprint = HOLDFAST__V1__FINGERPRINT__INIT;
	struct named named;
	struct fingerprint fp;

	make_fingerprint(node, &fp);
	hello.node_id = node->id;
	hello.boot_id = node->boot_id;
	hello.machine = node->machine;
	hello.clock_ms = clock_realtime_ms();
	fingerprint.plugins = fp.plugins;
	fingerprint.n_plugins = 2;
	hello.fingerprint = &fingerprint;
	hello.adoption_complete = true;
	name_entries(node, &hello, &named);
	mark.store_id = node->mark.store_id;
	mark.epoch = node->mark.epoch;
	mark.index = node->mark.index;
	mark.nodes = node->mark.nodes;
	mark.node = node->id;
	mark.machine = node->mark.machine;
	mark.proof = (ProtobufCBinaryData){.len = sizeof(node->mark.proof), .data = node->mark.proof};
	if (node->mark.store_id[0] != '\0')
		hello.mark = &mark;
	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_HELLO;
	up.hello = &hello;
	(void)rpc_stream_send(node->stream, &up.base, NULL);
}

void sim_node_make_client(struct sim_node *node)
{
	struct rpc_endpoint endpoint = {.host = "127.0.0.1", .port = node->sim->port};
	char ca[PATH_MAX];
	char cert[PATH_MAX];
	char key[PATH_MAX];
	const struct rpc_tls_files files = {.ca = ca, .cert = cert, .key = key};
	struct error err;

	(void)str_format(ca, sizeof(ca), "%s/tls/ca.pem", node->sim->dir);
	(void)str_format(cert, sizeof(cert), "%s/tls/node-%s.pem", node->sim->dir, node->id);
	(void)str_format(key, sizeof(key), "%s/tls/node-%s.key", node->sim->dir, node->id);
	if (!node->tls && rpc_tls_new(&files, &node->tls, &err) != STATUS_OK)
		sim_fail(node->sim, "certificate of %s: %s", node->id, err.msg);
	endpoint.tls = node->tls;
	if (rpc_client_new(node->sim->event, &endpoint, &node->client, &err) != STATUS_OK)
		sim_fail(node->sim, "client of %s: %s", node->id, err.msg);
}

void sim_node_connect(struct sim_node *node)
{
	if (!node->client)
		sim_node_make_client(node);
	if (rpc_stream_open(node->client, &holdfast__v1__nodes__descriptor, "Session", CALL_TIMEOUT_US,
			    &events, node, &node->stream, NULL) != STATUS_OK)
		sim_fail(node->sim, "%s cannot open a session", node->id);
	sim_node_send_hello(node);
}

void sim_node_disconnect(struct sim_node *node)
{
	rpc_stream_cancel(node->stream);
	node->stream = NULL;
	node->welcomed = false;
	for (int i = 0; i < SIM_ENTRIES; i++) {
		struct sim_entry *entry = &node->entries[i];

		if (entry->phase != SIM_CLAIMING)
			continue;
		rpc_pending_cancel(entry->call); /* whether it was granted is not known here */
		entry->was_cut_in_gap = entry->was_cut_in_gap || node->sim->gap != SIM_NO_GAP;
		entry->call = NULL;
		entry->phase = SIM_NEW;
		node->sim->in_flight--;
	}
	rpc_client_free(node->client);
	node->client = NULL;
}

void sim_node_reboot(struct sim_node *node)
{
	if (node->client)
		sim_node_disconnect(node);
	sim_make_uuid(node->sim, node->boot_id);
	node->unmount_fails = node->is_resumed = node->is_refused = false;
	node->powered = true;
	for (int i = 0; i < SIM_ENTRIES; i++) {
		struct sim_entry *entry = &node->entries[i];

		if (entry->off_journal)
			*entry = (struct sim_entry){.phase = SIM_FREE};
		if (entry->phase == SIM_FREE || entry->phase == SIM_UNMOUNTED)
			continue;
		entry->phase = SIM_UNMOUNTED;
		entry->status = HOLDFAST__V1__CLIENT_STATUS__LOST;
	}
}

void sim_node_reinstall(struct sim_node *node)
{
	sim_node_reboot(node);
	memset(node->entries, 0, sizeof(node->entries));
	memset(node->forgotten, 0, sizeof(node->forgotten));
	node->mark = (struct sim_mark){.store_id = ""};
	/* nobody knows them any more but the provider: as in oracle_forget_server() */
	for (int v = 0; v < node->sim->n_volumes && !node->reported; v++)
		node->sim->volumes[v].attached[node->number] = false;
}

static void send_heartbeat(struct sim_node *node)
{
	Holdfast__V1__SessionUp up = HOLDFAST__V1__SESSION_UP__INIT;
	Holdfast__V1__Heartbeat heartbeat = HOLDFAST__V1__HEARTBEAT__INIT;

	heartbeat.boot_id = node->boot_id;
	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_HEARTBEAT;
	up.heartbeat = &heartbeat;
	sim_node_send(node, &up);
}

void sim_node_act(struct sim_node *node)
{
	if (!node->stream || !node->welcomed)
		return;
	send_heartbeat(node);
	for (int i = 0; i < SIM_ENTRIES; i++) {
		struct sim_entry *entry = &node->entries[i];

		if (entry->phase == SIM_NEW)
			start_claim(entry);
		else if (entry->phase == SIM_MOUNTED && entry->stopping)
			try_unmount(entry);
		else if (sim_entry_is_known(entry) && entry->phase != SIM_CLAIMING)
			send_receipts(entry);
	}
}
