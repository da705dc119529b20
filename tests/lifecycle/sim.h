/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A small cluster in one process: simulated nodes with what is physically mounted on them, a storage provider
 * with what is attached to them, and a real claim server in a process of its own.
 *
 * The simulation knows the truth, the server knows what it is told: every invariant compares the two. */

#include "base/error.h"
#include "model/claim.h"
#include "model/node.h"
#include "rpc/client.h"

#include <holdfast/v1/nodes.pb-c.h>
#include <holdfast/v1/plugin_call.pb-c.h>
#include <holdfast/v1/types.pb-c.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <systemd/sd-event.h>
#include <ticket.h>

enum {
	SIM_NODES = 4,
	SIM_REGISTERED = 14, /* one of each access mode, native and csi */
	SIM_VOLUMES = 16,    /* and those that are created and deleted again */
	SIM_SNAPSHOTS = 4,
	SIM_ENTRIES = 64,   /* allocations that a node remembers */
	SIM_FORGOTTEN = 64, /* of those that it was told to forget, the last ones */
	SIM_ID_SIZE = 64,
};

struct sim;

enum sim_phase {
	SIM_FREE,      /* the slot is unused */
	SIM_NEW,       /* to be claimed and mounted */
	SIM_CLAIMING,  /* the call is in flight */
	SIM_MOUNTED,   /* in the kernel */
	SIM_UNMOUNTED, /* terminal: nothing is mounted, the server may not know yet */
};

/* What the checker has to let pass, because nobody is left who could notify the server: see oracle.c. */
enum sim_gap {
	SIM_NO_GAP,
	SIM_GAP_OLDER_STORE,
	SIM_GAP_EMPTY_STORE,
	SIM_GAP_NO_MARK,
	SIM_GAP_SNAPSHOT,
	SIM_GAP_BOTH,
	SIM_GAPS
};

/* Where the server's history was when the node was shown it, in its journal. */
struct sim_mark {
	char store_id[UUID_TEXT_SIZE]; /* "": none yet */
	uint64_t epoch, index, nodes;
	char machine[NODE_MACHINE_MAX + 1];
	uint8_t proof[32];
};

/* One allocation in a node's journal: it survives restarts of the agent and reboots. */
struct sim_entry {
	enum sim_phase phase;
	struct sim_node *node;
	char alloc_id[UUID_TEXT_SIZE];
	int volume;
	bool is_write;
	bool stopping;		  /* was ordered to stop */
	struct rpc_pending *call; /* of SIM_CLAIMING */
	char claim_id[UUID_TEXT_SIZE];
	char claim_boot[UUID_TEXT_SIZE];
	uint64_t generation;
	uint8_t ticket[sizeof(struct ticket)]; /* of the grant: proof of the claim after a restore */
	bool mounted_acked;
	bool released_acked;
	bool is_ack_lost;     /* the server that acknowledged the mount has forgotten that */
	bool was_lost;	      /* mounted when a gap began, */
	bool is_not_logged;   /* and its node has not been connected since */
	bool is_of_gap;	      /* its claim may have been granted in a gap, */
	bool was_cut_in_gap;  /* and the node does not know that */
	bool is_of_past;      /* from a journal or a snapshot of an earlier day */
	bool off_journal;     /* mounted, and the journal does not know it */
	bool came_back;	      /* mounted again by a snapshot, and its node has had no session since */
	bool is_of_both;      /* mounted, and what node and server knew of it went back, of both */
	bool was_freed;	      /* as the server's order to release it says, */
	uint64_t freed_index; /* since then */
	enum sim_gap excused; /* from the promise of the access mode */
	Holdfast__V1__ClientStatus status;
};

/* A copy of the server's store, taken while it ran. */
struct sim_backup {
	uint8_t *data; /* owned; NULL: none was taken yet */
	size_t size;
	uint8_t sha256[32];
};

struct sim_node {
	struct sim *sim;
	int number;
	char id[NODE_ID_MAX + 1];
	char boot_id[UUID_TEXT_SIZE];
	struct rpc_tls *tls;
	struct rpc_client *client; /* NULL: partitioned, or the server is dead */
	struct rpc_stream *stream;
	bool welcomed;
	char machine[NODE_MACHINE_MAX + 1]; /* "": it shows none */
	bool is_pinned;			    /* the server's store knows it by its machine */
	bool is_resumed;		    /* from a snapshot: its boot may have been taken as over, */
	bool is_refused;		    /* and was */
	bool powered;			    /* false: off for good, until it boots again */
	bool plugin_healthy;		    /* what its fingerprint says */
	bool unmount_fails;		    /* the kernel says EBUSY */
	bool lose_grants;		    /* the agent dies when a grant arrives, before it is journalled */
	bool reported;			    /* has told the server everything since that lost history */
	struct sim_mark mark;
	struct sim_entry entries[SIM_ENTRIES];
	char forgotten[SIM_FORGOTTEN][UUID_TEXT_SIZE]; /* in this epoch */
	uint64_t n_forgotten;
};

/* What the server has acknowledged of a volume that comes and goes. */
enum sim_said { SIM_UNSURE, SIM_THERE, SIM_GONE };

struct sim_volume {
	char id[SIM_ID_SIZE];
	Holdfast__V1__AccessMode mode;
	bool is_csi;
	bool is_known;	    /* to the server: it has said so */
	bool is_made;	    /* created and deleted through the server */
	enum sim_said said; /* of those */
	bool is_of_copy; /* a restored server believes what its copy says of it; the provider may have another
			    one */
	/* at the provider */
	bool exists;
	uint64_t capacity;
	bool attached[SIM_NODES];
	bool attach_fails;
	bool attach_hangs; /* attached, and no answer */
	bool detach_fails;
	/* highest seen */
	uint64_t modify_index;
	uint64_t generation;
	uint64_t granted; /* of a write grant, in any epoch */
	char granted_claim[UUID_TEXT_SIZE];
};

/* At the provider. */
struct sim_snapshot {
	char name[SIM_ID_SIZE]; /* "": none */
	int volume;
};

/* What happened, for the summary. */
enum sim_count {
	COUNT_RUN,
	COUNT_REFUSED,
	COUNT_GRANTED,
	COUNT_MOUNTED,
	COUNT_UNMOUNTED,
	COUNT_KILLS,
	COUNT_REBOOTS,
	COUNT_PARTITIONS,
	COUNT_ATTESTED,
	COUNT_ATTACHED,
	COUNT_DETACHED,
	COUNT_RESTORES,
	COUNT_ADOPTED,
	COUNT_CREATED,
	COUNT_EXPANDED,
	COUNT_DELETED,
	COUNT_DRAINS,
	COUNT_COLLECTED,
	COUNT_REFUSED_STARTS,
	COUNT_OFFLINE_RESTORES,
	COUNT_NEW_CLUSTERS,
	COUNT_EPOCHS_BY_START,
	COUNT_EPOCHS_BY_NODES,
	COUNT_REVERTED,
	COUNT_RESUMED,
	COUNT_REFUSED_BOOTS,
	COUNT_LOST_JOURNALS,
	COUNT_OLD_JOURNALS,
	COUNT_GIVEN_UP,
	COUNT_CLONES,
	COUNT_FENCED,
	COUNT_NETWORK_FENCED,
	COUNT_LIFTED,
	COUNT_N,
};

enum sim_damage {
	DAMAGE_FLIP_DB,
	DAMAGE_FLIP_WAL,
	DAMAGE_CUT_WAL,
	DAMAGE_NO_WAL,
	DAMAGE_OLD_DB,	       /* the mark stays */
	DAMAGE_OLD_DB_NO_MARK, /* and is removed */
	DAMAGE_OLD_FOLDER,     /* and is put back, too */
	DAMAGE_NO_STORE,
	DAMAGE_NO_FOLDER, /* but keys and certificates */
	DAMAGE_N,
};

struct sim {
	sd_event *event;
	uint64_t rng;
	uint64_t step;
	char dir[64];
	const char *server_binary;
	/** Make the server's process, on dir. */
	pid_t (*spawn)(struct sim *sim);
	/** To stderr: what fails, and how to see it again. */
	void (*print_where)(const struct sim *sim);
	void (*print_rerun)(const struct sim *sim);
	pid_t server_pid; /* 0: dead */
	uint16_t port;
	struct rpc_tls *tls; /* of the operator */
	struct rpc_client *operator;
	struct sim_node nodes[SIM_NODES];
	bool refused[SIM_NODES]; /* the provider refuses each write of the node */
	struct sim_volume volumes[SIM_VOLUMES];
	int n_volumes;
	struct sim_snapshot snapshots[SIM_SNAPSHOTS];
	uint64_t activity; /* messages and answers that arrived */
	int in_flight;	   /* Claim calls, */
	int hanging;	   /* of them those for which nobody answers */
	uint64_t index;	   /* highest the server has shown */
	uint64_t epoch;
	struct sim_backup backup;
	bool may_restart; /* the server by itself: somebody settles that */
	enum sim_gap last_gap;
	enum sim_gap gap; /* open: the server does not know what it has forgotten */
	bool has_folder_copy;
	uint64_t copy_epoch; /* of that folder */
	uint64_t excused[SIM_GAPS];
	uint64_t damages[DAMAGE_N];
	uint64_t counts[COUNT_N];
};

/** Does the provider refuse what the node has mounted of the volume? It writes nothing then. */
static inline bool sim_is_refused(const struct sim *sim, int node, int volume)
{
	return sim->volumes[volume].is_csi && sim->refused[node];
}

/** Stop with the seed and the step; for violated invariants and for a simulation that is wrong. */
_Noreturn void sim_fail(const struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* sim_node.c: an agent that does what the real one does, with a simulated kernel. */
void sim_node_connect(struct sim_node *node);
void sim_node_disconnect(struct sim_node *node);
/** The machine starts again: nothing is mounted, the journal is still there. */
void sim_node_reboot(struct sim_node *node);
/** Its disk is new: a reboot, and the journal is gone. */
void sim_node_reinstall(struct sim_node *node);
void sim_node_send_plugins(struct sim_node *node);
/** Lost when it has no session. */
void sim_node_send(struct sim_node *node, const Holdfast__V1__SessionUp *up);
/** Try again what failed or was lost. */
void sim_node_act(struct sim_node *node);
struct sim_entry *sim_node_find(struct sim_node *node, const char *alloc_id);

/** Is it in the node's journal? */
static inline bool sim_entry_is_known(const struct sim_entry *entry)
{
	return entry->phase != SIM_FREE && !entry->off_journal;
}
/** Granted in this boot and not released, by the journal. */
bool sim_entry_is_held(const struct sim_entry *entry);
/** Unmount it in the kernel; the entry is free then. */
void sim_entry_unmount(struct sim_entry *entry);
void sim_node_make_client(struct sim_node *node);
void sim_node_send_hello(struct sim_node *node);

/* sim_machine.c: machines and journals that go back in time, and clones. */

/** A snapshot of the running machine is resumed: memory, disk and mounts are as they were in @then. @of_both:
 * the server has lost history since. */
void sim_node_resume(struct sim_node *node, const struct sim_node *then, bool of_both);
/** The agent starts again on a journal that is empty, or as it was in @then, under what is mounted now. */
void sim_node_lose_journal(struct sim_node *node);
void sim_node_put_journal_back(struct sim_node *node, const struct sim_node *then);
/** Another machine comes with the node's certificate and journal, and must be refused. */
void sim_clone(struct sim_node *node);

/* sim_report.c */
/** Answer the server's request after a restore: everything that the journal holds. */
void sim_node_report(struct sim_node *node, uint64_t epoch);

/* sim_plugin.c: the storage provider, behind whichever node's controller the server asks. */
void sim_plugin_call(struct sim_node *node, const Holdfast__V1__PluginCall *call);

/* sim_fencer.c: a fencer with the power switch of every node. */
void sim_fencer_connect(struct sim *sim);
void sim_fencer_disconnect(void);
/** Answer the last order, if the dice say so. */
void sim_fencer_act(struct sim *sim);
void sim_fencer_free(void);
/** Have the server ask for it, connected or not. */
/** @plugin_id "": its power. */
void sim_fence(struct sim *sim, int node, const char *plugin_id);

/* oracle.c: what must hold, whatever happened. */
void oracle_check_mounts(struct sim *sim);
const char *oracle_exception(enum sim_gap gap);
/** May volumes be granted in it that an absent node has? */
bool oracle_is_open(enum sim_gap gap);
/** Each node with a session has told what it has: what it had to give up by now is given up. */
void oracle_check_reported(struct sim *sim, struct sim_node *node);
/** Nothing is granted of a volume that is held twice. */
void oracle_check_grant(struct sim *sim, int volume, uint64_t create_index);
/** Is it mounted there by what came back with a snapshot, or what node and server have forgotten? */
bool oracle_is_of_past(const struct sim_node *node, int volume);
/** Is the volume mounted where nobody could have told the server? Counted. */
bool oracle_excuses(struct sim *sim, int volume);
/** The server's history may have gone back: compare with what it says from here on. */
void oracle_forget_server(struct sim *sim);
/** Ask the server about every volume and compare. */
void oracle_check_server(struct sim *sim);
/** Nothing is mounted, attached or claimed. */
bool oracle_is_quiet(struct sim *sim);
/** Unmount what neither a journal nor the server knows any more: an operator does it, who sees it as unknown
 * in `holdfast agent status`. */
void oracle_end_unknown(struct sim *sim);
void oracle_explain_all(struct sim *sim);

/* server_process.c */
void server_process_start(struct sim *sim);
/** False: it has ended by itself, as it does when its store is damaged. */
bool server_process_try(struct sim *sim);
void server_process_kill(struct sim *sim);
/** The server is starting again by itself: wait for its new port. False: it has died. */
bool server_process_wait_again(struct sim *sim);
/** It was killed, by whomever; a process that is just dying is waited for. */
bool server_process_has_died(const struct sim *sim);

/* sim_backup.c: an operator who takes copies and restores them. */
void sim_backup(struct sim *sim);
enum status sim_restore(struct sim *sim, struct error *err);

/** Of a server that is dead: holdfast-server --restore. */
void sim_restore_offline(struct sim *sim);
/** The same, without a store: holdfast-server --new-cluster. */
void sim_new_cluster(struct sim *sim);

/* sim_damage.c: what happens to the state folder of a server that is dead. */
extern const char *const sim_damage_names[DAMAGE_N];
/** Keep the folder of the running server as it is at one moment. */
void sim_copy_folder(struct sim *sim);
void sim_damage(struct sim *sim, enum sim_damage damage);
/** What nobody notices by the folder alone. */
enum sim_gap sim_damage_gap(enum sim_damage damage);

/* sim_calls.c: an operator's calls. */
struct sim_status {
	uint64_t epoch, index;
};
struct sim_status sim_status(struct sim *sim);
/** Volumes that the server has forgotten, as far as it takes them. */
void sim_register_again(struct sim *sim);
/** Of a @method like "Volumes.Get". */
const ProtobufCServiceDescriptor *sim_service(const struct sim *sim, const char *method);
/** Its request in JSON, in which ' is as good as ".
 * @ret owned by the caller, protobuf_c_message_free_unpacked() */
ProtobufCMessage *sim_request(const struct sim *sim, const char *method, const char *json);
enum sim_patience { SIM_WAITS, SIM_GOES_ON }; /* whether for the answer */
/** Its answer, or STATUS_UNKNOWN for a call that is only on its way.
 * @ret, @err: may be NULL */
enum status sim_ask(struct sim *sim, enum sim_patience patience, const char *method, ProtobufCMessage **ret,
		    struct error *err, const char *format, ...) __attribute__((format(printf, 6, 7)));
enum status sim_call(struct sim *sim, const ProtobufCServiceDescriptor *service, const char *method,
		     const ProtobufCMessage *request, ProtobufCMessage **ret, struct error *err);
void sim_register_volumes(struct sim *sim);
enum status sim_run(struct sim *sim, int volume, int node, bool is_write, char ret_id[static UUID_TEXT_SIZE],
		    struct error *err);
enum status sim_stop(struct sim *sim, const char *alloc_id);
/** Whatever runs, also what a restore has brought back. */
void sim_stop_all(struct sim *sim);
enum status sim_attest(struct sim *sim, int volume, int node, struct error *err);
/** Run the loop until nothing happens any more. False: the server has died. */
bool sim_settle(struct sim *sim);

/* sim_operator.c: what operators do besides running work. */
void sim_add_made_volumes(struct sim *sim);
void sim_create(struct sim *sim, int volume, enum sim_patience patience);
void sim_expand(struct sim *sim, int volume, enum sim_patience patience);
void sim_delete(struct sim *sim, int volume, enum sim_patience patience);
/** Which of the volumes that come and go are there, against what was acknowledged. */
void sim_look_at_made(struct sim *sim);
void sim_drain(struct sim *sim, int node, enum sim_patience patience);
void sim_make_eligible(struct sim *sim, int node);
/** @lasting: also for what is released later. */
enum status sim_attest_node(struct sim *sim, int node, int volume, bool lasting);
/** No node is left that the server does not know by name. */
void sim_purge_missing(struct sim *sim);
void sim_gc(struct sim *sim, enum sim_patience patience);

uint64_t sim_random(struct sim *sim, uint64_t n);
int sim_volume_of(const struct sim *sim, const char *id);
void sim_make_uuid(struct sim *sim, char ret[static UUID_TEXT_SIZE]);
