#pragma once
/* What the server knows, in memory: volumes, nodes, allocations and claims with the links between them.
 *
 * Owned by struct server; changed only by change_commit() and by load, read by everybody. Entries stay where
 * they are until they are deleted, so a pointer is good for the duration of a callback, never across one.
 * Look-ups cost the logarithm of what is registered; walking the claims of one volume, allocation or node
 * costs their number. */

#include "base/tree.h"
#include "model/alloc.h"
#include "model/claim.h"
#include "model/node.h"
#include "model/volume.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>
#include <systemd/sd-event.h>

struct server;
struct session;
struct watch;

enum {
	CLAIMS_PER_VOLUME_MAX = 4096, /* live ones */
	CLAIM_HISTORY_MAX = 8,	      /* freed claims kept per volume, to explain what happened */
};

LIST_HEAD(claim_list, claim_entry);
LIST_HEAD(watch_list, watch);

struct claim_entry {
	const char *id; /* of the value below: the tree's key */
	struct claim claim;
	RB_ENTRY(claim_entry) by_id;
	LIST_ENTRY(claim_entry) of_volume; /* of the volume's list, newest first */
	LIST_ENTRY(claim_entry) of_alloc;
	LIST_ENTRY(claim_entry) of_node;
	struct volume_entry *volume;	/* never NULL: a volume with claims cannot be deregistered */
	sd_event_source *release_timer; /* owned; the next request to the node to let go */
	uint32_t release_asks;		/* since the node connected */
	struct server *server;		/* borrowed; set while the timer runs */
};

struct volume_entry {
	const char *namespace; /* of the value below: the tree's key, with id */
	const char *id;
	struct volume volume;
	RB_ENTRY(volume_entry) by_key;
	struct claim_list claims;
	size_t n_live;
};

struct alloc_entry {
	const char *id; /* of the value below: the tree's key */
	struct alloc alloc;
	RB_ENTRY(alloc_entry) by_id;
	LIST_ENTRY(alloc_entry) of_node;
	struct claim_list claims;
	struct watch_list watches; /* calls waiting for a change */
};
LIST_HEAD(alloc_list, alloc_entry);

struct node_entry {
	const char *id; /* of the value below: the tree's key */
	struct node node;
	RB_ENTRY(node_entry) by_id;
	struct alloc_list allocs;
	struct claim_list claims;
	struct session *session; /* borrowed; NULL: not connected */
};

RB_HEAD(volume_tree, volume_entry);
RB_HEAD(alloc_tree, alloc_entry);
RB_HEAD(claim_tree, claim_entry);
RB_HEAD(node_tree, node_entry);

struct state {
	struct volume_tree volumes;
	struct alloc_tree allocs;
	struct claim_tree claims;
	struct node_tree nodes;
	size_t n_volumes, n_allocs, n_claims, n_nodes; /* claims: live ones */
	uint64_t generation_floor;		       /* of volumes that are gone; new ones begin there */
};

void state_init(struct state *state);
void state_release(struct state *state);

struct volume_entry *state_volume(struct state *state, const char *namespace, const char *id);
struct alloc_entry *state_alloc(struct state *state, const char *id);
struct claim_entry *state_claim(struct state *state, const char *id);
struct node_entry *state_node(struct state *state, const char *id);

/** First entry whose key is not below the given one, and the next; for walking a prefix in order. */
struct volume_entry *state_volume_from(struct state *state, const char *namespace, const char *id);
struct volume_entry *state_volume_next(struct volume_entry *entry);
struct alloc_entry *state_alloc_from(struct state *state, const char *id);
struct alloc_entry *state_alloc_next(struct alloc_entry *entry);
struct node_entry *state_node_from(struct state *state, const char *id);
struct node_entry *state_node_next(struct node_entry *entry);

/** Insert or replace; the value is copied. STATUS_RESOURCE_EXHAUSTED when memory is short, STATUS_DATA_LOSS
 * when a claim names no known volume. An allocation or claim of a node not seen yet makes an entry for the
 * node. */
enum status state_put_volume(struct state *state, const struct volume *volume, struct error *err);
enum status state_put_alloc(struct state *state, const struct alloc *alloc, struct error *err);
enum status state_put_claim(struct state *state, const struct claim *claim, struct error *err);
enum status state_put_node(struct state *state, const struct node *node, struct error *err);

void state_delete_volume(struct state *state, struct volume_entry *entry);
void state_delete_claim(struct state *state, struct claim_entry *entry);

bool node_is_connected(const struct node_entry *node);
