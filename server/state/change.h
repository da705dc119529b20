/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The one way by which state changes: a set of objects that become durable together.
 *
 * change_put_*() stages copies. change_commit() submits them to the store as one transaction. Once the store
 * has accepted it, the change is applied to memory, so the next request sees it. The done function runs when
 * the change is durable; only then may the server answer or notify. A change that fails half-way has changed
 * nothing.
 * While another store is about to replace this one (server.is_superseded), every change is refused, also the
 * empty one by which an answer waits for earlier changes.
 * If the store cannot commit, memory is ahead of the disk: the server ends (server_fail) and starts again
 * from the store. */

#include "base/error.h"
#include "model/alloc.h"
#include "model/claim.h"
#include "model/node.h"
#include "model/volume.h"
#include "state/objects.h"
#include "store/kv.h"

#include <stdbool.h>

struct server;
struct rpc_call;
struct Holdfast__V1__AuditRecord;

enum {
	CHANGE_OBJECTS_MAX = 96, /* a node's whole fingerprint, or an allocation with its volumes' claims and
				    their history, fits; below KV_TXN_OPS_MAX */
	CHANGE_AUDIT_MAX = 30,	 /* records of it; with their head they fill KV_TXN_OPS_MAX */
};

/* The caller whose call commits: its changes count as its own until they are durable. */
struct change_author {
	char name[NAMESPACE_MAX + 16]; /* "blue", "token 0189...", "node/n1": see access_author() */
	bool is_person;		       /* or a program in the place of one: no node, fencer or server */
	const struct change_author *outer;
};

struct change_object {
	enum object_kind kind;
	bool is_deletion;
	char *key;    /* owned */
	void *value;  /* owned copy; of deletions what makes up the key */
	void *packed; /* owned; as stored, once it was submitted, or by change_put_packed(); NULL: deleted */
	size_t packed_len;
	char *text; /* owned; what goes with packed until it is submitted; may be NULL */
};

struct change {
	struct change_object *objects; /* owned; NULL: empty */
	size_t n;
	size_t size;				  /* of the array */
	struct Holdfast__V1__AuditRecord **audit; /* owned, without a number, see audit.h; NULL: empty */
	size_t n_audit;
	uint64_t audit_first; /* oldest audit record that is kept from here on; 0: as before */
	bool is_confirmed;    /* of an empty change: done runs after the store has confirmed that this server
				 leads */
	bool is_sealing;      /* inside change_commit(): records of the audit are staged */
	enum status status;   /* the first failure sticks and is returned by change_commit() */
	struct error error;
};

#define CHANGE_INIT    \
	{              \
		.n = 0 \
	}

void change_release(struct change *change);

/** Stages a copy of the object. The last call for a key counts. */
void change_put(struct change *change, enum object_kind kind, const void *value);
void change_delete(struct change *change, enum object_kind kind, const void *value);

void change_put_volume(struct change *change, const struct volume *volume);
void change_put_alloc(struct change *change, const struct alloc *alloc);
void change_put_claim(struct change *change, const struct claim *claim);
void change_put_node(struct change *change, const struct node *node);
void change_delete_volume(struct change *change, const struct volume *volume);
void change_delete_claim(struct change *change, const struct claim *claim);

/** A record of records.h. */
void change_put_record(struct change *change, const char *key, const ProtobufCMessage *message);
/** Stages a record that is kept only in the store, in its stored form. Takes over @bytes and @text, also on
 * failure. */
void change_put_packed(struct change *change, const char *key, void *bytes, size_t len, char *text);

void change_delete_record(struct change *change, const char *key);

/** A record of the audit as one block of memory, which is owned from here on; NULL is
 * STATUS_RESOURCE_EXHAUSTED. It gets its number and its place in the chain in change_commit(). */
void change_take_audit(struct change *change, struct Holdfast__V1__AuditRecord *record);

void change_put_floor(struct change *change, uint64_t generation_floor);

/* A module that takes part in each change, in the order of daemon.c's table. Each function may be NULL. */
struct change_observer {
	/** May it be committed? Before anything of it is submitted. */
	enum status (*check)(struct server *server, const struct change *change, struct error *err);
	/** Stages objects that depend on no change being submitted in between. Called only for a change
	 * with audit records. */
	void (*seal)(struct server *server, struct change *change);
	/** It is submitted, and memory shows it. */
	void (*submitted)(struct server *server, const struct change_object *objects, size_t n);
	/** It is durable as of @revision, and memory shows it; before the done function. */
	void (*durable)(struct server *server, struct change_object *objects, size_t n, uint64_t revision);
	/** It is durable, and the done function was called. */
	void (*finished)(struct server *server, const struct change_object *objects, size_t n);
};

/** @userdata as given to change_commit(). Never runs when the store failed: the server ends then. */
typedef void change_done_fn(struct server *server, void *userdata);

/** May anything change, or be acknowledged? STATUS_UNAVAILABLE while another store is about to replace this
 * one. A full disk is checked by change_commit(), see disk.h. */
enum status change_check(const struct server *server, struct error *err);

/** Counts commits as @author's until change_end_author(). */
void change_begin_author(struct server *server, struct change_author *author);
void change_end_author(struct server *server, const struct change_author *author);

/** Submits and applies. @done may be NULL. An empty change is durable as soon as everything before it is. */
enum status change_commit(struct server *server, struct change *change, change_done_fn *done, void *userdata,
			  struct error *err);

/** change_commit() with a @userdata from malloc() that is handed over: @done frees it, or this does when it
 * fails. NULL is STATUS_RESOURCE_EXHAUSTED, so that an allocation need not be checked before. */
enum status change_commit_taking(struct server *server, struct change *change, change_done_fn *done,
				 void *userdata, struct error *err);
