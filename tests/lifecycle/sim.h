#pragma once
/* A small cluster in one process: simulated nodes with what is physically mounted on them, a storage provider
 * with what is attached to them, and a real claim server in a process of its own.
 *
 * The simulation knows the truth, the server knows what it is told: every invariant compares the two. */

#include "base/error.h"
#include "model/claim.h"
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
	SIM_VOLUMES = 14, /* one of each access mode, native and csi */
	SIM_ENTRIES = 64, /* allocations that a node remembers */
	SIM_ID_SIZE = 64,
};

struct sim;

enum sim_phase {
	SIM_FREE,      /* the slot is unused */
	SIM_NEW,       /* to be claimed and mounted */
	SIM_CLAIMING,  /* the call is under way */
	SIM_MOUNTED,   /* in the kernel */
	SIM_UNMOUNTED, /* terminal: nothing is mounted, the server may not know yet */
};

/* One allocation in a node's journal: it survives restarts of the agent and reboots. */
struct sim_entry {
	enum sim_phase phase;
	struct sim_node *node;
	char alloc_id[UUID_TEXT_SIZE];
	int volume;
	bool is_write;
	bool stopping;		  /* was told to stop */
	struct rpc_pending *call; /* of SIM_CLAIMING */
	char claim_id[UUID_TEXT_SIZE];
	char claim_boot[UUID_TEXT_SIZE];
	uint64_t generation;
	uint8_t ticket[sizeof(struct ticket)]; /* of the grant: proof of the claim after a restore */
	bool mounted_acked;
	bool released_acked;
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
	bool powered;	     /* false: off for good, until it boots again */
	bool plugin_healthy; /* what its fingerprint says */
	bool unmount_fails;  /* the kernel says EBUSY */
	bool lose_grants;    /* the agent dies when a grant arrives, before it is journalled */
	bool reported;	     /* has told the server everything since the last restore */
	struct sim_entry entries[SIM_ENTRIES];
};

struct sim_volume {
	char id[SIM_ID_SIZE];
	Holdfast__V1__AccessMode mode;
	bool is_csi;
	bool attached[SIM_NODES]; /* at the provider */
	bool attach_fails;
	bool detach_fails;
	uint64_t modify_index; /* highest seen */
};

struct sim {
	sd_event *event;
	uint64_t rng;
	uint64_t step;
	char dir[64];
	const char *server_binary;
	pid_t server_pid; /* 0: dead */
	uint16_t port;
	struct rpc_tls *tls; /* of the operator */
	struct rpc_client *operator;
	struct sim_node nodes[SIM_NODES];
	struct sim_volume volumes[SIM_VOLUMES];
	uint64_t activity; /* messages and answers that arrived */
	int in_flight;	   /* Claim calls */
	uint64_t index;	   /* highest the server has shown */
	uint64_t epoch;
	struct sim_backup backup;
	uint64_t counts[16]; /* what happened, for the summary: enum sim_count */
};

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
	COUNT_N,
};

/** Stop with the seed and the step; for violated invariants and for a simulation that is wrong. */
_Noreturn void sim_fail(const struct sim *sim, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* sim_node.c: an agent that does what the real one does, with a simulated kernel. */
void sim_node_connect(struct sim_node *node);
void sim_node_disconnect(struct sim_node *node);
/** The machine starts again: nothing is mounted, the journal is still there. */
void sim_node_reboot(struct sim_node *node);
void sim_node_say_plugins(struct sim_node *node);
/** Try again what failed or was lost. */
void sim_node_act(struct sim_node *node);
/** Answer the server's request after a restore: everything that the journal holds. */
void sim_node_report(struct sim_node *node, uint64_t epoch);
struct sim_entry *sim_node_find(struct sim_node *node, const char *alloc_id);

/* sim_plugin.c: the storage provider, behind whichever node's controller the server asks. */
void sim_plugin_call(struct sim_node *node, const Holdfast__V1__PluginCall *call);

/* oracle.c: what must hold, whatever happened. */
void oracle_check_mounts(const struct sim *sim);
/** Ask the server about every volume and compare. */
void oracle_check_server(struct sim *sim);
/** Nothing is mounted, attached or claimed. */
bool oracle_is_quiet(struct sim *sim);
void oracle_explain_all(struct sim *sim);

/* server_process.c */
void server_process_start(struct sim *sim);
void server_process_kill(struct sim *sim);
/** The server is starting again by itself: wait for its new port. */
void server_process_wait_again(struct sim *sim);

/* sim_backup.c: an operator who takes copies and restores them. */
void sim_backup(struct sim *sim);
void sim_restore(struct sim *sim);

/* sim_calls.c: an operator's calls. */
enum status sim_call(struct sim *sim, const ProtobufCServiceDescriptor *service, const char *method,
		     const ProtobufCMessage *request, ProtobufCMessage **ret, struct error *err);
void sim_register_volumes(struct sim *sim);
enum status sim_run(struct sim *sim, int volume, int node, bool is_write, char ret_id[static UUID_TEXT_SIZE],
		    struct error *err);
enum status sim_stop(struct sim *sim, const char *alloc_id);
/** Whatever runs, also what a restore has brought back. */
void sim_stop_all(struct sim *sim);
enum status sim_attest(struct sim *sim, int volume, int node, struct error *err);
/** Run the loop until nothing happens any more. */
void sim_settle(struct sim *sim);

uint64_t sim_random(struct sim *sim, uint64_t n);
int sim_volume_of(const struct sim *sim, const char *id);
void sim_make_uuid(struct sim *sim, char ret[static UUID_TEXT_SIZE]);
