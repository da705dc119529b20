/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A model of the claim server, in the process of the test: sessions and claims over TLS, with what an agent
 * must never do written down as violations. */

#include "fake_helper_client.h"

#include "model/alloc.h"
#include "model/claim.h"
#include "model/node.h"
#include "rpc/server.h"

#include <systemd/sd-event.h>

enum {
	MODEL_ALLOCS_MAX = 32,
	MODEL_CLAIMS_MAX = 128,
	MODEL_HELD_MAX = 32,
	SESSION_HEARTBEAT_FAST_MS = 50,
};

#define MODEL_CLUSTER "test"
#define MODEL_PLUGIN "csi.plug"
#define MODEL_SECRET "s3cr3t-of-the-model"
#define MODEL_SERVER_URI "holdfast://test/server/s1"

struct model_alloc {
	struct alloc alloc; /* as sent, with what was last reported; it points to these: */
	char description[ALLOC_DESCRIPTION_MAX + 1];
	struct volume_request volumes[ALLOC_VOLUMES_MAX];
	struct alloc_volume published[ALLOC_VOLUMES_MAX];
	unsigned int statuses;
	unsigned int clock; /* of the last status */
	bool runs;	    /* by what this session has reported */
};

struct model_claim {
	struct claim claim;
	char name[PROFILE_MAX + 1];
	bool is_mounted;
	bool is_released;
	bool is_without_plugin;
	char kernel[KERNEL_WORDS_MAX + 1];
	unsigned int released_clock;
	uint64_t mark; /* index of the one that came with its first grant */
	unsigned int receipts;
	unsigned int errors;
	char last_error[1024];
	uint32_t last_error_code;
};

/* The last report of one volume. */
struct model_usage {
	char claim_id[UUID_TEXT_SIZE];
	unsigned int reports;
	uint64_t used_bytes, total_bytes;
	bool read_only, is_unknown;
	char condition[256];
};

struct model_server {
	sd_event *event;		/* borrowed */
	const struct fake_helper *fake; /* borrowed; the truth about mounts */
	struct rpc_tls *tls;
	struct rpc_server *rpc;
	uint16_t port;
	struct rpc_call *session;
	/* set by tests */
	bool hold_claims;	  /* claims wait until model_server_answer() */
	unsigned int fail_claims; /* the next so many fail ... */
	enum status fail_status;  /* ... with this */
	bool hold_acks;
	bool hold_forget;
	bool holds_welcome; /* until model_server_welcome() */
	bool other_cluster;
	uint32_t heartbeat_ms; /* told by welcome; 0: SESSION_HEARTBEAT_FAST_MS */
	bool other_boot;       /* claims are granted for another boot than the node's */
	int64_t ticket_ttl_ms;
	int64_t clock_ms;	    /* its clock is so far ahead of the agent's; below 0: behind */
	size_t foreign_ticket_size; /* of another version, for grants and orders to release; 0: none is */
	enum source_class class;    /* of every volume */
	bool is_csi;		    /* every volume is of plugin MODEL_PLUGIN, with MODEL_SECRET */
	const char *share;	    /* the context of every such volume; NULL: none has one */
	/* changes what is granted before it is sent; NULL: nobody does */
	void (*tamper)(struct claim *claim, struct volume *volume);
	bool is_reverted;      /* with the request for a report */
	const char *namespace; /* in orders to stop and in requests for streams; NULL: "default" */
	/* seen */
	unsigned int foreign_statuses; /* of other namespaces' allocations; the last one: */
	enum client_status foreign_status;
	char foreign_namespace[NAMESPACE_MAX + 1];
	int foreign_code;
	unsigned int streams; /* to tasks that have ended; the last one: */
	uint32_t stream_code;
	char stream_message[256];
	unsigned int clock; /* counts messages */
	bool shows_marks;   /* with each welcome, too */
	uint64_t mark;	    /* index of the last one that was given */
	uint64_t mark_kept; /* of the last one without which nothing may have been mounted */
	unsigned int hellos;
	bool adoption_complete;
	unsigned int hello_allocs;
	unsigned int hello_plugins;
	unsigned int hello_mounted;
	char hello_claim[UUID_TEXT_SIZE]; /* the first of those that are mounted */
	uint64_t hello_generation;	  /* its own */
	int64_t hello_clock_ms;
	char hello_machine[NODE_MACHINE_MAX + 1];
	unsigned int fingerprints; /* messages of their own */
	/* as last said, in a hello or a message of its own */
	struct node_plugin plugins[NODE_PLUGINS_MAX];
	size_t n_plugins;
	size_t n_drivers;
	bool driver_is_healthy; /* the first one */
	char driver_version[32];
	unsigned int heartbeats;
	uint64_t heartbeat_us, status_us; /* when the last one came */
	unsigned int claim_calls;
	unsigned int not_here; /* answers to calls to plugins */
	uint64_t answered_call;
	/* the last report */
	uint64_t report_epoch;
	unsigned int report_parts;
	bool report_complete;
	unsigned int n_reported_allocs;
	struct alloc reported_allocs[MODEL_ALLOCS_MAX];
	unsigned int n_usages;
	struct model_usage usages[MODEL_CLAIMS_MAX]; /* how full its volumes are, as it has reported last */
	unsigned int n_reported;
	struct claim reported[MODEL_CLAIMS_MAX];
	unsigned int n_allocs;
	struct model_alloc allocs[MODEL_ALLOCS_MAX];
	unsigned int n_claims;
	struct model_claim claims[MODEL_CLAIMS_MAX];
	unsigned int n_held;
	struct rpc_call *held[MODEL_HELD_MAX];
	struct claim held_for[MODEL_HELD_MAX];
	char violation[256];
};

/** Make CA, server and node certificates in @dir; asserts. */
void model_server_make_pki(const char *dir);

/** @port 0: chosen; asserts. @pki_dir of model_server_make_pki() */
void model_server_start(struct model_server *model, const char *pki_dir, uint16_t port);

/** What it knows stays, as in a database. */
void model_server_stop(struct model_server *model);

/** Answer the hello that came while @holds_welcome. */
void model_server_welcome(struct model_server *model);

/** From now on the allocation is to run; told at once to a node that is connected. */
void model_server_run(struct model_server *model, const struct alloc *alloc);
void model_server_want_stop(struct model_server *model, const char *alloc_id);

/** Ask for the output of a task of driver "container". */
void model_server_want_logs(struct model_server *model, const char *alloc_id, const char *task);

/** Send RunAlloc once more. */
void model_server_run_again(struct model_server *model, const char *alloc_id);

/** Order the release of a claim as if the node had it. */
void model_server_release(struct model_server *model, const struct model_claim *claim);

/** A claim that the server holds, whatever the node knows of it. */
struct model_claim *model_server_add_claim(struct model_server *model, const char *alloc_id,
					   const char *volume, const char *boot_id);

/** Ask for a report; what an earlier one said is forgotten. */
void model_server_want_report(struct model_server *model, uint64_t epoch);

/** Answer the claims that were held. */
void model_server_answer(struct model_server *model);

/** Ask a plugin on the node for the detach of a volume. */
void model_server_call_plugin(struct model_server *model, const char *plugin_id, uint64_t call_id);

/** End the session. */
void model_server_hang_up(struct model_server *model);

struct model_alloc *model_server_alloc(struct model_server *model, const char *alloc_id);
/** Of one volume request; NULL: none. */
struct model_claim *model_server_claim(struct model_server *model, const char *alloc_id, const char *name);
unsigned int model_server_unreleased(const struct model_server *model);
