/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the store sees of struct etcd. */

#include "etcd/election.h"
#include "etcd/settings.h"
#include "store/kv.h"

enum { ETCD_KEY_SIZE = ETCD_PREFIX_MAX + 32 };

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
	struct etcd_follower *follower; /* NULL: it leads, or nobody asks */
	bool is_running;		/* inside a turn of the loop */
	struct etcd_events events;
	void *userdata;
	uint64_t call_us;
	char prefix[ETCD_PREFIX_MAX + 1];
	char cluster[ETCD_CLUSTER_MAX + 1];
	char leader_key[ETCD_KEY_SIZE];
	char record_schema_key[ETCD_KEY_SIZE];
	unsigned int changes; /* bits of enum etcd_change in etcd.c */
	char leader[ELECTION_NAME_MAX + 32];
	int64_t since_ms; /* the leader leads */
	struct etcd_progress progress;
	uint32_t aside; /* the schema for which it stands aside */
	struct error trouble;
	struct error lost;
};

/** One turn of the loop. Returns false when nothing happened in that time. */
bool etcd_run(struct etcd *etcd, uint64_t timeout_us);

/** This server no longer leads: the store is broken, and on_lost will say so. */
void etcd_step_down(struct etcd *etcd, const struct error *why);

void etcd_note_progress(struct etcd *etcd, const struct etcd_progress *progress);

/** Look how far the store has come, until it is freed. */
enum status etcd_follower_new(struct etcd *etcd, uint64_t lease_us, struct etcd_follower **ret,
			      struct error *err);
void etcd_follower_free(struct etcd_follower *follower);

typedef enum status etcd_answer_fn(const ProtobufCMessage *response, void *userdata, struct error *err);

/** Call, and call again while no member can be reached and this server leads; then @answer. It blocks. */
enum status etcd_ask(struct etcd *etcd, const char *method, const ProtobufCMessage *request,
		     etcd_answer_fn *answer, void *userdata, struct error *err);

/* The records of one generation of a store. */
struct etcd_records {
	const char *store;	  /* its name, in messages */
	char data[ETCD_KEY_SIZE]; /* before each key */
	uint64_t offset;	  /* of their revisions above etcd's, see kv_rewrite_advance() */
};

/** Those whose keys begin with @prefix and are not below @from, at one revision. See kv_range_from(). */
enum status etcd_range(struct etcd *etcd, const struct etcd_records *records, const char *prefix,
		       const char *from, size_t limit, kv_each_fn *each, void *userdata, uint64_t *n_read,
		       struct error *err);

/* --- kv_etcd.c --- */

/** Send what waits, if nothing is on its way. */
void etcd_store_kick(struct etcd_store *store);

void etcd_store_fail(struct etcd_store *store, const struct error *why);
