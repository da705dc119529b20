/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The members of struct etcd that the store uses. */

#include "etcd/election.h"
#include "etcd/settings.h"
#include "etcd/v3/etcd.pb-c.h"
#include "store/kv.h"

enum { ETCD_KEY_SIZE = ETCD_PREFIX_MAX + 32 };

#define ETCD_BRIEF_US (USEC_PER_SEC / 4)

struct etcd_store;
struct etcd_follower;

struct etcd {
	sd_event *outer;     /* borrowed */
	sd_event *loop;	     /* of everything below */
	sd_event_source *io; /* of the loop, on the outer one; with a function before the outer one sleeps */
	sd_event_source *turn; /* deferred, on the outer one, enabled: there are changes */
	struct etcd_client *client;
	struct election *election;
	struct etcd_store *store;	/* NULL: not open */
	struct etcd_follower *follower; /* NULL: it leads, or on_progress is NULL */
	struct etcd_copy *copy;		/* NULL: no copy is kept */
	bool is_running;		/* inside a turn of the loop */
	bool is_brief;			/* questions end after ETCD_BRIEF_US */
	struct etcd_events events;
	void *userdata;
	uint64_t call_us;
	char prefix[ETCD_PREFIX_MAX + 1];
	char cluster[ETCD_CLUSTER_MAX + 1];
	char leader_key[ETCD_KEY_SIZE];
	char record_schema_key[ETCD_KEY_SIZE];
	char ticket_key_key[ETCD_KEY_SIZE];
	bool may_be_retired;
	bool has_other_key;
	unsigned int changes; /* bits of enum etcd_change */
	char leader[ELECTION_NAME_MAX + 32];
	int64_t since_ms; /* the leader leads */
	struct etcd_progress progress;
	uint32_t aside; /* the schema for which it does not lead, see on_aside */
	struct error trouble;
	struct error lost;
};

enum etcd_change {
	CHANGE_FOLLOW = 1 << 0,
	CHANGE_TROUBLE = 1 << 1,
	CHANGE_LEADING = 1 << 2,
	CHANGE_LOST = 1 << 3,
	CHANGE_PROGRESS = 1 << 4,
	CHANGE_ASIDE = 1 << 5,
	CHANGE_OTHER_KEY = 1 << 6,
};

/* --- loop.c --- */

/** One turn of the loop. Returns false when nothing happened in that time. */
bool etcd_run(struct etcd *etcd, uint64_t timeout_us);

/** Have etcd.c do something about @changes, bits of enum etcd_change, on the outer loop. */
void etcd_notify(struct etcd *etcd, unsigned int changes);

typedef enum status etcd_answer_fn(const ProtobufCMessage *response, void *userdata, struct error *err);

/** Call, and call again while no member can be reached and this server leads; then @answer. It blocks, for
 * ETCD_BRIEF_US if @etcd->is_brief: then STATUS_UNAVAILABLE. */
enum status etcd_ask(struct etcd *etcd, const char *method, const ProtobufCMessage *request,
		     etcd_answer_fn *answer, void *userdata, struct error *err);

/* --- range.c --- */

/* The records of one generation of a store. */
struct etcd_records {
	const char *store;	  /* its name, in messages */
	char data[ETCD_KEY_SIZE]; /* before each key */
	uint64_t offset;	  /* of their revisions above etcd's, see kv_rewrite_advance() */
	int64_t revision;	  /* at which they are read; 0: the latest */
};

/** Parses @kv as a record, with its key and value in @space, which has room for both and a NUL.
 * STATUS_DATA_LOSS when it differs from the record that was written. */
enum status etcd_parse_record(const struct etcd_records *records, const Etcdserverpb__KeyValue *kv,
			      char *space, struct kv_item *ret, struct error *err);

enum { ETCD_FULL_KEY_SIZE = ETCD_KEY_SIZE + KV_KEY_MAX + 2 };

struct etcd_span {
	uint8_t bytes[ETCD_FULL_KEY_SIZE];
	size_t n;
};

/* How far a range has been read, page by page. */
struct etcd_cursor {
	struct etcd_span start; /* of the next page */
	struct etcd_span piece; /* where it ends, at the latest */
	struct etcd_span end;	/* of the range */
	size_t limit, page_max;
	int64_t revision; /* 0: not known yet */
};

/** Records whose keys begin with @prefix and are not below @from, @limit at most, at @records->revision. */
void etcd_cursor_init(struct etcd_cursor *cursor, const struct etcd_records *records, const char *prefix,
		      const char *from, size_t limit);
bool etcd_cursor_is_at_end(const struct etcd_cursor *cursor);
/** Ask for the next page; @ret borrows from the cursor. */
void etcd_cursor_request(struct etcd_cursor *cursor, Etcdserverpb__RangeRequest *ret);
/** That was too large for an answer: ask for a smaller one. False: it was of one record. */
bool etcd_cursor_shrink(struct etcd_cursor *cursor);
/** The page had @n records, the last of which is @last. @has_more: it ended there, not with the piece. */
void etcd_cursor_advance(struct etcd_cursor *cursor, const struct etcd_records *records, const char *last,
			 size_t n, bool has_more);

/** Those whose keys begin with @prefix and are not below @from, at one revision. See kv_range_from(). */
enum status etcd_range(struct etcd *etcd, const struct etcd_records *records, const char *prefix,
		       const char *from, size_t limit, kv_each_fn *each, void *userdata, uint64_t *n_read,
		       struct error *err);

/* --- progress.c --- */

enum { ETCD_LOOK_SEQUENCE, ETCD_LOOK_GENERATION, ETCD_LOOK_N };

/** Read the sequence's and the generation's key at one revision, which is the latest: the answers of a Txn.
 */
enum status etcd_look(struct etcd *etcd, struct etcd_call *call, rpc_done_fn *done, void *userdata);

/** Look how far the store has come, until it is freed. */
enum status etcd_follower_new(struct etcd *etcd, uint64_t lease_us, struct etcd_follower **ret,
			      struct error *err);
void etcd_follower_free(struct etcd_follower *follower);
void etcd_follower_interrupt(struct etcd_follower *follower, const struct kv_op *op);

/* --- copy.c --- */

/** Keep a copy, from a moment later on. */
enum status etcd_copy_new(struct etcd *etcd, uint64_t lease_us, struct etcd_copy **ret, struct error *err);
void etcd_copy_free(struct etcd_copy *copy);

/* --- kv_etcd.c --- */

/** Send what waits, if nothing is on its way. */
void etcd_store_kick(struct etcd_store *store);

void etcd_store_fail(struct etcd_store *store, const struct error *why);
