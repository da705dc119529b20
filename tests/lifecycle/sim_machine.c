/* SPDX-License-Identifier: Apache-2.0 */
/* What happens to a node's machine and disk beside reboots: a snapshot of it is resumed with all that was
 * mounted, its journal is lost or is an older one, or another machine comes under its name. */

#include "sim.h"

#include "base/str.h"

#include <string.h>

enum { CALL_TIMEOUT_US = 20 * 1000 * 1000, CLONE_TURNS = 1000, CLONE_TURN_US = 10000 };

static void begin_past(struct sim_node *node, const struct sim_node *then)
{
	if (node->client)
		sim_node_disconnect(node);
	node->mark = then->mark;
}

/* An entry of an earlier day: no call of then is answered any more. */
static void recall(struct sim_entry *entry, const struct sim_entry *then)
{
	*entry = *then;
	entry->call = NULL;
	if (entry->phase == SIM_CLAIMING)
		entry->phase = SIM_NEW;
	entry->is_of_past = true;
	entry->was_freed = entry->was_lost = entry->is_not_logged = false;
	entry->excused = SIM_NO_GAP;
}

/* What neither the server nor the node knows any more, the provider still has: as in oracle_forget_server().
 */
static void forget_attachments(struct sim_node *node)
{
	for (int v = 0; v < node->sim->n_volumes && !node->reported; v++) {
		bool is_known = false;

		for (int i = 0; i < SIM_ENTRIES; i++)
			is_known = is_known ||
				   (sim_entry_is_known(&node->entries[i]) &&
				    node->entries[i].claim_id[0] != '\0' && node->entries[i].volume == v);
		if (!is_known)
			node->sim->volumes[v].attached[node->number] = false;
	}
}

void sim_node_resume(struct sim_node *node, const struct sim_node *then, bool of_both)
{
	begin_past(node, then);
	node->is_resumed = node->powered = true;
	memcpy(node->boot_id, then->boot_id, sizeof(node->boot_id));
	for (int i = 0; i < SIM_ENTRIES; i++) {
		struct sim_entry *entry = &node->entries[i];

		recall(entry, &then->entries[i]);
		entry->came_back = entry->phase == SIM_MOUNTED;
		entry->is_of_both = entry->came_back && (of_both || entry->is_of_both || entry->off_journal);
	}
	forget_attachments(node);
	node->sim->counts[COUNT_RESUMED]++;
}

/* What of @kernel is mounted is mounted still, and the journal does not name it. Of what came back with a
 * snapshot that journal alone could have told. */
static void keep_mount(struct sim_node *node, const struct sim_entry *kernel)
{
	for (int i = 0; i < SIM_ENTRIES; i++) {
		struct sim_entry *entry = &node->entries[i];

		if (entry->phase != SIM_FREE)
			continue;
		*entry = *kernel;
		entry->off_journal = entry->is_of_past = true;
		entry->stopping = false;
		entry->is_of_both = entry->is_of_both || entry->came_back || !node->reported;
		return;
	}
	sim_fail(node->sim, "%s has no room for what is mounted", node->id);
}

static struct sim_entry *same_mount(struct sim_node *node, const struct sim_entry *kernel)
{
	struct sim_entry *entry = sim_node_find(node, kernel->alloc_id);

	return entry && entry->phase == SIM_MOUNTED && str_eq(entry->claim_id, kernel->claim_id) ? entry
												 : NULL;
}

/* What the journal has as mounted and the kernel has not is to be mounted again; of another boot nothing is.
 */
static void compare(struct sim_node *node, struct sim_entry *entry,
		    const struct sim_entry kernel[static SIM_ENTRIES])
{
	for (int i = 0; i < SIM_ENTRIES; i++)
		if (kernel[i].phase == SIM_MOUNTED && same_mount(node, &kernel[i]) == entry)
			return;
	if (entry->phase == SIM_MOUNTED)
		entry->phase = SIM_NEW;
	if (entry->phase == SIM_NEW && entry->claim_id[0] != '\0' &&
	    !str_eq(entry->claim_boot, node->boot_id)) {
		entry->phase = SIM_UNMOUNTED;
		entry->status = HOLDFAST__V1__CLIENT_STATUS__LOST;
	}
}

static void start_on(struct sim_node *node, const struct sim_node *journal)
{
	struct sim_entry kernel[SIM_ENTRIES];

	begin_past(node, journal);
	memcpy(kernel, node->entries, sizeof(kernel));
	for (int i = 0; i < SIM_ENTRIES; i++) {
		struct sim_entry *entry = &node->entries[i];

		recall(entry, &journal->entries[i]);
		if (entry->off_journal)
			*entry = (struct sim_entry){.phase = SIM_FREE};
		entry->came_back = entry->is_of_both = false;
	}
	for (int i = 0; i < SIM_ENTRIES; i++)
		compare(node, &node->entries[i], kernel);
	for (int i = 0; i < SIM_ENTRIES; i++) {
		struct sim_entry *known =
			kernel[i].phase == SIM_MOUNTED ? same_mount(node, &kernel[i]) : NULL;

		if (known) /* what the oracle has noted of the mount is of the mount */
			known->came_back = kernel[i].came_back, known->is_of_both = kernel[i].is_of_both;
		else if (kernel[i].phase == SIM_MOUNTED)
			keep_mount(node, &kernel[i]);
	}
	forget_attachments(node);
}

void sim_node_lose_journal(struct sim_node *node)
{
	static struct sim_node none;

	start_on(node, &none);
	node->sim->counts[COUNT_LOST_JOURNALS]++;
}

void sim_node_put_journal_back(struct sim_node *node, const struct sim_node *then)
{
	start_on(node, then);
	node->sim->counts[COUNT_OLD_JOURNALS]++;
}

/* --- clones --- */

struct clone {
	struct sim_node node; /* its own; entries are only read */
	enum status status;
	bool is_closed;
};

static void on_clone_message(struct rpc_stream *stream, const ProtobufCMessage *message, void *userdata)
{
	const struct clone *clone = userdata;

	sim_fail(clone->node.sim, "a clone of %s (machine %s, boot %s) is welcome", clone->node.id,
		 clone->node.machine, clone->node.boot_id);
}

static void on_clone_closed(struct rpc_stream *stream, enum status status, const struct error *err,
			    void *userdata)
{
	struct clone *clone = userdata;

	clone->status = status;
	clone->is_closed = true;
	clone->node.sim->activity++;
}

static const struct rpc_stream_events clone_events = {.on_message = on_clone_message,
						      .on_closed = on_clone_closed};

/* Another machine-id, or the same one on other hardware; with the first one connected even a machine that
 * cannot be told from it, in another boot. False: the last, and that one is not. */
static bool disguise(struct clone *clone, bool is_first_connected)
{
	struct sim *sim = clone->node.sim;
	uint64_t kind = sim_random(sim, 3);
	bool is_new_boot = kind == 2 || sim_random(sim, 2) == 0;
	char *digit = clone->node.machine + (kind == 0 ? 0 : NODE_MACHINE_MAX - 1);

	if (kind < 2)
		*digit = *digit == 'c' ? 'd' : 'c';
	if (is_new_boot)
		sim_make_uuid(sim, clone->node.boot_id);
	return kind < 2 || is_first_connected;
}

void sim_clone(struct sim_node *node)
{
	struct sim *sim = node->sim;
	static struct clone clone; /* large */
	bool is_connected = node->welcomed;

	clone = (struct clone){.node = *node};
	clone.node.client = NULL;
	clone.node.tls = NULL;
	if (!disguise(&clone, is_connected) || !node->is_pinned)
		return;
	sim_node_make_client(&clone.node);
	if (rpc_stream_open(clone.node.client, &holdfast__v1__nodes__descriptor, "Session", CALL_TIMEOUT_US,
			    &clone_events, &clone, &clone.node.stream, NULL) != STATUS_OK)
		sim_fail(sim, "the clone of %s cannot open a session", node->id);
	sim_node_send_hello(&clone.node);
	for (int i = 0; i < CLONE_TURNS && !clone.is_closed; i++)
		(void)sd_event_run(sim->event, CLONE_TURN_US);
	if (clone.status != STATUS_FAILED_PRECONDITION && clone.status != STATUS_ALREADY_EXISTS)
		sim_fail(sim, "the session of a clone of %s ended with status %d", node->id, clone.status);
	rpc_client_free(clone.node.client);
	rpc_tls_free(clone.node.tls);
	sim->counts[COUNT_CLONES]++;
}
