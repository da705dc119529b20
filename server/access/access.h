/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Access control: the rights of a caller, whose identity is in caller.h. */

#include "access/caller.h"
#include "base/error.h"
#include "model/claim.h"
#include "model/policy.h"
#include "model/volume.h"
#include "rpc/server.h"

#include <stdbool.h>

struct server;

enum { TOKEN_POLICIES_MAX = 16 };

/* The right that a call needs. Names are Nomad's capabilities, see its "namespace" and "plugin" policies. */
enum access_right {
	ACCESS_NONE,		/* no caller has it: a method whose row names no right is closed */
	ACCESS_VOLUME_LIST,	/* csi-list-volume */
	ACCESS_VOLUME_READ,	/* csi-read-volume */
	ACCESS_VOLUME_MOUNT,	/* csi-mount-volume: run allocations that ask for volumes */
	ACCESS_VOLUME_WRITE,	/* csi-write-volume */
	ACCESS_JOB_LIST,	/* list-jobs: list allocations */
	ACCESS_JOB_READ,	/* read-job */
	ACCESS_JOB_SUBMIT,	/* submit-job: run and stop allocations */
	ACCESS_ALLOC_EXEC,	/* alloc-exec: run commands in tasks */
	ACCESS_READ_LOGS,	/* read-logs: what tasks have written */
	ACCESS_PLUGIN_REGISTER, /* csi-register-plugin: run allocations that are plugins */
	ACCESS_UNIT_RUN,	/* alloc-run-unit: run allocations that start a unit of their node */
	ACCESS_VOLUME_ATTEST,	/* csi-attest-volume: attest in place of a node's or a provider's evidence */
	ACCESS_VOLUME_ADOPT,	/* csi-adopt-volume: name storage that the namespace does not have yet */
	ACCESS_PLUGIN_LIST,	/* the rights from here on are not of a namespace */
	ACCESS_PLUGIN_READ,
	ACCESS_NODE_READ,
	ACCESS_NODE_WRITE, /* eligibility, drain */
	ACCESS_NODE_FENCE, /* have a fencer switch nodes off */
	ACCESS_OPERATOR_READ,
	ACCESS_OPERATOR_WRITE, /* purge, attest (needs csi-attest-volume, too), gc */
	ACCESS_BACKUP_KIT,     /* take kits that only the key of the server's certificate opens */
	ACCESS_BACKUP_COPY,    /* take copies of the store, secrets and all */
	ACCESS_MANAGEMENT,     /* tokens, policies, kits to a passphrase, restore */
	ACCESS_RIGHT_N,

	/* in the row of a method */
	ACCESS_IDENTITY = ACCESS_RIGHT_N, /* any caller with a valid identity */
	ACCESS_BY_HANDLER,		  /* which one depends on what the handler finds: it asks */
	ACCESS_BY_TOKEN_OF_REQUEST, /* no identity: only Nodes.Enroll, whose handler bounds and checks it
				     */
};

/** May the caller do this to objects of @namespace (NULL: not in a namespace, or in any)? The namespace is
 * the object's own, never one that the request claims for it. STATUS_UNAUTHENTICATED without an identity,
 * STATUS_PERMISSION_DENIED names the missing right. */
enum status access_check(struct server *server, const struct rpc_call *call, enum access_right right,
			 const char *namespace, struct error *err);

/** The same in the namespace of the allocation @id. If the caller lacks the right there and has it elsewhere,
 * the allocation is as one that does not exist: STATUS_NOT_FOUND. An unknown id needs the right in any
 * namespace. */
enum status access_check_alloc(struct server *server, const struct rpc_call *call, enum access_right right,
			       const char *id, struct error *err);

/** STATUS_NOT_FOUND: there is no allocation @id. */
enum status access_no_alloc(const char *id, struct error *err);

/* Which node a request is about, which decides what a token bound to a node may ask. */
enum rule_node {
	RULE_NODE_NONE,	  /* of no one node: not for a bound token */
	RULE_NODE_ANY,	  /* alike for all */
	RULE_NODE_FIELD,  /* the node that the field names */
	RULE_NODE_FILTER, /* the same; when it is empty the handler takes access_bound_node() */
	RULE_NODE_ALLOC,  /* that of the allocation that the field names */
};

enum { RULE_ATTEST_FIELDS_MAX = 4 };

/* Texts of the field of a namespace that mean: in any of them. */
enum rule_any {
	RULE_ANY_NEVER,
	RULE_ANY_STAR,
	RULE_ANY_STAR_OR_EMPTY,
};

/* In the row of each method: the requirements for its callers, checked before its handler runs. */
struct rpc_rule {
	bool is_write;	     /* refusals are audited */
	bool without_leader; /* answered to operators' certificates also by a server that knows no leader */

	/* A right of a namespace is wanted in that of the allocation with RULE_NODE_ALLOC, else in that of
	 * the field, else in any. */
	enum access_right right;
	enum access_right also; /* in addition, over no namespace; ACCESS_NONE: no other */
	enum rule_any any;	/* of the field */
	enum rule_node node;
	const char *field; /* of the request; "a.b": of a message within */

	/* A request that ends in evidence of a person needs ACCESS_VOLUME_ATTEST: always, or when one of
	 * these fields is not empty. */
	bool attests;
	const char *attest_fields[RULE_ATTEST_FIELDS_MAX];
	const char
		*namespaces; /* field with the namespace, or with VolumeRefs; NULL: it is about all; "a.b" */

	/* NULL, or fails if the caller of a stream no longer has the right to it. Asked only while the stream
	 * has data of its handler, see rpc_call_set_data(). */
	enum status (*check_open)(struct server *server, const struct rpc_call *call, struct error *err);
};

/** Fails if the caller no longer has the right to @call, which is in progress: a stream by its check_open(),
 * a read that waits by its rule. A unary call has data while it is a read that waits, see read_request().
 * Other calls continue by the rights that they began with: they wait for no change. */
enum status access_check_open(struct server *server, const struct rpc_call *call, struct error *err);

/** The gate of the server's methods, see rpc_server_set_gate(). */
rpc_gate_fn access_gate;

/** For rpc_server_set_vouching(): servers of this cluster, where several share a store. */
rpc_vouching_fn access_vouching;

/** Does the method's rule mark it as a write? */
bool access_is_write(const struct rpc_method *method);

/* One right of one caller, found once for a walk over many objects. Good for the duration of a callback. */
struct access_scope {
	enum access_right right;
	bool is_all;	       /* in every namespace */
	bool is_bound;	       /* to a node: has only rights that are of one */
	const char *namespace; /* the only one of its policies; NULL: each; borrowed from the token */
	const Holdfast__V1__AccessPolicy *policies[TOKEN_POLICIES_MAX];
	size_t n_policies;
	char last[NAMESPACE_MAX + 1]; /* namespace asked for last; "": not asked yet */
	bool last_may;
};

/** Fails as access_check(server, call, right, NULL) does. */
enum status access_scope_init(struct server *server, const struct rpc_call *call, enum access_right right,
			      struct access_scope *ret, struct error *err);

/** Does the scope contain @namespace? Costs next to nothing when asked again for the same one. */
bool access_scope_has(struct access_scope *scope, const char *namespace);
