/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd/election.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/str.h"
#include "etcd/request.h"
#include "etcd/verdict.h"
#include "rpc/timer.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	LOOK_PART = 10,	 /* of a lease, at most between two looks at the key while another leads */
	BEAT_PART = 5,	 /* how often the lease is kept alive */
	LATE_BEATS = 2,	 /* for which a member is waited for at least before it is asked again */
	SPARE_PART = 16, /* that this clock may be slower than etcd's */
	VALUE_SIZE = ELECTION_NAME_MAX + 32,
};

static const uint64_t LOOK_MAX_US = 200 * USEC_PER_MSEC; /* between two looks, however long the lease */
static const uint64_t RETRY_MIN_US = 50 * USEC_PER_MSEC;
static const uint64_t RETRY_MAX_US = USEC_PER_SEC;

enum { LOOK_LEADER, LOOK_SCHEMA, LOOK_WORD, LOOK_N, TERMS_MAX = 2 };

enum phase {
	PHASE_IDLE,
	PHASE_TRYING,
	PHASE_LEADING,
	PHASE_RESIGNING,
	PHASE_OVER,
};

/* Keep-alives at one member: one at a time is in flight, so that an answer is known to be of the one that was
 * sent last. */
struct keeper {
	struct election *election;
	size_t member;
	struct rpc_stream *stream; /* NULL: not open */
	uint64_t sent_us;	   /* boot time, of the keep-alive in flight; 0: not in flight */
};

struct election {
	sd_event *event;	    /* borrowed */
	struct etcd_client *client; /* borrowed */
	char *key;
	char *name;
	uint64_t lease_us;
	uint64_t call_us;
	uint64_t yield_us; /* monotonic: until then others may lead */
	char *schema_key;  /* NULL: not compared */
	uint32_t schema;
	int64_t schema_revision; /* of its key when it was last read; 0: it did not exist */
	bool is_aside;		 /* on_aside was called, with @aside */
	uint32_t aside;
	char *word_key; /* NULL: not compared */
	char *word;
	int64_t word_revision; /* as schema_revision */
	bool has_other_word;   /* on_other_key(true) was called */
	const struct election_events *events;
	void *userdata;
	enum phase phase;
	struct etcd_call call;
	sd_event_source *retry;
	struct backoff backoff;
	int64_t lease;	      /* 0: no lease */
	uint64_t sent_us;     /* boot time, of the request for it */
	uint64_t extended_us; /* boot time, of the last keep-alive sent that was answered; 0: no answer yet */
	uint64_t deadline_us; /* boot time, when it may be over */
	int64_t revision;     /* the key's create revision, while leading */
	struct keeper keepers[ETCD_ENDPOINTS_MAX];
	size_t member; /* which is asked to extend the lease */
	sd_event_source *beat;
	sd_event_source *end; /* on the boot time's clock */
	int64_t followed;     /* create revision of the leader's key; 0: no leader is known */
	struct error trouble; /* STATUS_OK: no trouble */
};

static void election_look(struct election *e);
static void beat(struct election *e);

static uint64_t boottime_us(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_BOOTTIME, &now); /* cannot fail */
	return (uint64_t)now.tv_sec * USEC_PER_SEC + (uint64_t)now.tv_nsec / 1000;
}

/* --- trying --- */

static int on_retry(sd_event_source *source, uint64_t usec, void *userdata)
{
	election_look(userdata);
	return 0;
}

static void look_in(struct election *e, uint64_t delay_us)
{
	/* memory short: the loop cannot continue either */
	(void)timer_arm(e->event, &e->retry, delay_us, on_retry, e);
}

static void look_again(struct election *e)
{
	const uint64_t part_us = e->lease_us / LOOK_PART;

	look_in(e, part_us < LOOK_MAX_US ? part_us : LOOK_MAX_US);
}

static void stumble(struct election *e, const struct error *why)
{
	bool is_new = !str_eq(e->trouble.msg, why->msg);

	e->trouble = *why;
	e->followed = 0; /* the leader is reported again when etcd answers */
	look_in(e, backoff_next(&e->backoff, backoff_random()));
	if (is_new)
		e->events->on_trouble(why, e->userdata);
}

static void call(struct election *e, const ProtobufCServiceDescriptor *service, const char *method,
		 const ProtobufCMessage *request, rpc_done_fn *done)
{
	struct error err;

	if (etcd_call_start(e->client, &e->call, service, method, request, e->call_us, done, e, &err) !=
	    STATUS_OK)
		stumble(e, &err);
}

static void follow(struct election *e, const Etcdserverpb__KeyValue *kv)
{
	size_t n = kv->value.len < VALUE_SIZE - 1 ? kv->value.len : VALUE_SIZE - 1;
	char leader[VALUE_SIZE];
	uint64_t since_ms = 0;
	char *since;

	memcpy(leader, kv->value.data, n);
	leader[n] = '\0';
	look_again(e);
	if (kv->create_revision == e->followed)
		return;
	e->followed = kv->create_revision;
	since = strrchr(leader, ' ');
	if (since && parse_u64(since + 1, 0, INT64_MAX, &since_ms) == 0)
		*since = '\0';
	e->events->on_follow(leader, (int64_t)since_ms, e->userdata);
}

static int on_end(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct election *e = userdata;
	char text[CLOCK_TEXT_SIZE];
	struct error err;

	(void)error_set(&err, STATUS_FAILED_PRECONDITION, 0,
			"not the leader: etcd has not extended the lease within %s%s%s",
			clock_format_duration(e->lease_us, text), e->trouble.status == STATUS_OK ? "" : ": ",
			e->trouble.status == STATUS_OK ? "" : e->trouble.msg);
	election_step_down(e, &err);
	return 0;
}

/* The lease was given for @ttl_s when the request of @sent_us arrived, or later. */
static void extend(struct election *e, uint64_t sent_us, int64_t ttl_s)
{
	uint64_t us = (uint64_t)ttl_s * USEC_PER_SEC;

	e->deadline_us = sent_us + us - us / SPARE_PART;
	if (e->end) {
		(void)sd_event_source_set_time(e->end, e->deadline_us);
		(void)sd_event_source_set_enabled(e->end, SD_EVENT_ONESHOT);
	}
}

static void lead(struct election *e, int64_t revision)
{
	struct error err;
	int r;

	if (boottime_us() >= e->deadline_us) { /* the key goes with it; then again */
		(void)error_set(&err, STATUS_DEADLINE_EXCEEDED, 0,
				"etcd: the election took longer than its lease");
		e->lease = 0;
		stumble(e, &err);
		return;
	}
	r = sd_event_add_time(e->event, &e->end, CLOCK_BOOTTIME, e->deadline_us, 1000, on_end, e);
	if (r < 0) {
		(void)error_set(&err, STATUS_RESOURCE_EXHAUSTED, r, "etcd: watch the lease");
		stumble(e, &err);
		return;
	}
	(void)sd_event_source_set_priority(e->end, SD_EVENT_PRIORITY_IMPORTANT);
	e->phase = PHASE_LEADING;
	(void)etcd_client_member(e->client, &e->member);
	e->revision = revision;
	e->trouble.status = STATUS_OK;
	backoff_reset(&e->backoff);
	beat(e);
	e->events->on_leading(e->userdata);
}

static void classify_key(struct election *e, const Etcdserverpb__KeyValue *kv)
{
	if (e->lease != 0 && kv->lease == e->lease)
		lead(e, kv->create_revision); /* the answer to the creation was lost */
	else
		follow(e, kv);
}

static void on_created(enum status status, const ProtobufCMessage *response, const struct error *err,
		       void *userdata)
{
	const Etcdserverpb__TxnResponse *txn = (const Etcdserverpb__TxnResponse *)response;
	struct election *e = userdata;
	const Etcdserverpb__KeyValue *kv;
	struct error odd;

	if (status != STATUS_OK) {
		stumble(e, err);
		return;
	}
	if (txn->succeeded && txn->header) {
		lead(e, txn->header->revision);
		return;
	}
	kv = txn_key_of(txn, 0);
	if (kv) {
		classify_key(e, kv);
		return;
	}
	if (e->schema_key || e->word_key) { /* it was changed meanwhile */
		look_again(e);
		return;
	}
	(void)error_set(&odd, STATUS_INTERNAL, 0, "etcd answers without the key %s", e->key);
	stumble(e, &odd);
}

/* Adds to @txn: @key is unchanged since it was read. The caller puts @value if the key did not exist. */
static void add_term(Etcdserverpb__TxnRequest *txn, const char *key, const char *value, int64_t revision,
		     Etcdserverpb__Compare *unchanged, Etcdserverpb__PutRequest *put)
{
	*unchanged = etcd_compare_modified(etcd_bytes(key), revision);
	txn->compare[txn->n_compare++] = unchanged;
	put->key = etcd_bytes(key);
	put->value = etcd_bytes(value);
}

/* Creates the leader's key if it does not exist, and if schema and word are unchanged since they were read.
 * Puts the own schema and word if they did not exist. */
static void create(struct election *e)
{
	Etcdserverpb__TxnRequest txn = ETCDSERVERPB__TXN_REQUEST__INIT;
	Etcdserverpb__Compare absent = etcd_compare_created(etcd_bytes(e->key), 0);
	Etcdserverpb__Compare schema_unchanged, word_unchanged;
	Etcdserverpb__PutRequest leader = ETCDSERVERPB__PUT_REQUEST__INIT;
	Etcdserverpb__PutRequest schema = ETCDSERVERPB__PUT_REQUEST__INIT;
	Etcdserverpb__PutRequest word = ETCDSERVERPB__PUT_REQUEST__INIT;
	Etcdserverpb__RangeRequest range = ETCDSERVERPB__RANGE_REQUEST__INIT;
	Etcdserverpb__RequestOp put_leader = etcd_op_put(&leader);
	Etcdserverpb__RequestOp put_schema = etcd_op_put(&schema);
	Etcdserverpb__RequestOp put_word = etcd_op_put(&word);
	Etcdserverpb__RequestOp read_leader = etcd_op_range(&range);
	char value[VALUE_SIZE];
	char number[ETCD_SCHEMA_SIZE];

	(void)str_format(value, sizeof(value), "%s %" PRId64, e->name, clock_realtime_ms());
	leader.key = range.key = etcd_bytes(e->key);
	leader.value = etcd_bytes(value);
	leader.lease = e->lease;
	txn.n_compare = txn.n_success = txn.n_failure = 1;
	txn.compare = (Etcdserverpb__Compare * [1 + TERMS_MAX]){&absent};
	txn.success = (Etcdserverpb__RequestOp * [1 + TERMS_MAX]){&put_leader};
	txn.failure = (Etcdserverpb__RequestOp *[]){&read_leader};
	(void)str_decimal(number, sizeof(number), e->schema);
	if (e->schema_key)
		add_term(&txn, e->schema_key, number, e->schema_revision, &schema_unchanged, &schema);
	if (e->schema_key && e->schema_revision == 0)
		txn.success[txn.n_success++] = &put_schema;
	if (e->word_key)
		add_term(&txn, e->word_key, e->word, e->word_revision, &word_unchanged, &word);
	if (e->word_key && e->word_revision == 0)
		txn.success[txn.n_success++] = &put_word;
	call(e, &etcdserverpb__kv__descriptor, "Txn", &txn.base, on_created);
}

static void on_granted(enum status status, const ProtobufCMessage *response, const struct error *err,
		       void *userdata)
{
	const Etcdserverpb__LeaseGrantResponse *grant = (const Etcdserverpb__LeaseGrantResponse *)response;
	struct election *e = userdata;
	struct error odd;

	if (status != STATUS_OK) {
		stumble(e, err);
		return;
	}
	if (grant->id == 0 || grant->ttl <= 0) {
		(void)error_set(&odd, STATUS_INTERNAL, 0, "etcd grants no lease: %s", grant->error);
		stumble(e, &odd);
		return;
	}
	e->lease = grant->id;
	extend(e, e->sent_us, grant->ttl);
	create(e);
}

static void grant(struct election *e)
{
	Etcdserverpb__LeaseGrantRequest request = ETCDSERVERPB__LEASE_GRANT_REQUEST__INIT;

	if (e->lease != 0 && boottime_us() + e->lease_us / 2 < e->deadline_us) {
		create(e); /* the one that is there is fresh enough */
		return;
	}
	request.ttl = (int64_t)(e->lease_us / USEC_PER_SEC);
	e->sent_us = boottime_us();
	call(e, &etcdserverpb__lease__descriptor, "LeaseGrant", &request.base, on_granted);
}

/* @schema NULL: no server has led yet. */
static bool may_write(struct election *e, const Etcdserverpb__KeyValue *schema)
{
	e->schema_revision = schema ? schema->mod_revision : 0;
	return !schema || etcd_schema_read(schema) == e->schema;
}

/* @word NULL: no server has led yet. Reports a change by on_other_key, also while another one leads. */
static bool is_own_word(struct election *e, const Etcdserverpb__KeyValue *word)
{
	bool is_own = !e->word_key || !word ||
		      (word->value.len == strlen(e->word) &&
		       memcmp(word->value.data, e->word, word->value.len) == 0);

	e->word_revision = word ? word->mod_revision : 0;
	if (e->has_other_word == !is_own)
		return is_own;
	e->has_other_word = !is_own;
	e->events->on_other_key(!is_own, e->userdata);
	return is_own;
}

static void stand_aside(struct election *e, uint32_t schema)
{
	look_again(e);
	if (e->is_aside && e->aside == schema)
		return;
	e->is_aside = true;
	e->aside = schema;
	e->followed = 0; /* no one leads: the next leader is reported again */
	e->events->on_aside(schema, e->userdata);
}

/* Call it only after more than a read has succeeded: a full etcd answers reads, too. */
static void end_trouble(struct election *e)
{
	e->trouble = (struct error){.status = STATUS_OK};
	backoff_reset(&e->backoff);
}

static void on_looked(enum status status, const ProtobufCMessage *response, const struct error *err,
		      void *userdata)
{
	const Etcdserverpb__TxnResponse *txn = (const Etcdserverpb__TxnResponse *)response;
	const Etcdserverpb__KeyValue *leader;
	const Etcdserverpb__KeyValue *schema;
	struct election *e = userdata;
	bool is_own;

	if (status != STATUS_OK) {
		stumble(e, err);
		return;
	}
	leader = txn_key_of(txn, LOOK_LEADER);
	schema = e->schema_key ? txn_key_of(txn, LOOK_SCHEMA) : NULL;
	is_own = is_own_word(e, txn_key_of(txn, LOOK_WORD));
	if (leader) {
		end_trouble(e);
		e->is_aside = false;
		classify_key(e, leader);
	} else if (!is_own) {
		end_trouble(e);
		stand_aside(e, 0);
	} else if (!may_write(e, schema)) {
		end_trouble(e);
		stand_aside(e, etcd_schema_read(schema));
	} else if (clock_monotonic_us() < e->yield_us) {
		look_again(e);
	} else {
		e->is_aside = false;
		grant(e);
	}
}

/* A key that is not wanted is read as the leader's is: the answers keep their places. */
static void election_look(struct election *e)
{
	Etcdserverpb__TxnRequest txn = ETCDSERVERPB__TXN_REQUEST__INIT;
	Etcdserverpb__RangeRequest ranges[LOOK_N];
	Etcdserverpb__RequestOp ops[LOOK_N];
	Etcdserverpb__RequestOp *pointers[LOOK_N];

	if (e->phase != PHASE_TRYING)
		return;
	for (size_t i = 0; i < LOOK_N; i++) {
		etcdserverpb__range_request__init(&ranges[i]);
		ranges[i].key = etcd_bytes(e->key);
		ops[i] = etcd_op_range(&ranges[i]);
		pointers[i] = &ops[i];
	}
	if (e->schema_key)
		ranges[LOOK_SCHEMA].key = etcd_bytes(e->schema_key);
	if (e->word_key)
		ranges[LOOK_WORD].key = etcd_bytes(e->word_key);
	txn.n_success = LOOK_N;
	txn.success = pointers;
	call(e, &etcdserverpb__kv__descriptor, "Txn", &txn.base, on_looked);
}

/* --- leading --- */

static int on_beat(sd_event_source *source, uint64_t usec, void *userdata)
{
	beat(userdata);
	return 0;
}

static void on_alive(struct rpc_stream *stream, const ProtobufCMessage *message, void *userdata)
{
	const Etcdserverpb__LeaseKeepAliveResponse *alive =
		(const Etcdserverpb__LeaseKeepAliveResponse *)message;
	struct keeper *k = userdata;
	struct election *e = k->election;
	const uint64_t sent_us = k->sent_us;
	struct error err;

	k->sent_us = 0;
	if (e->phase != PHASE_LEADING || alive->id != e->lease || sent_us == 0)
		return;
	if (alive->ttl > 0) {
		if (sent_us > e->extended_us) /* another member may have answered a later one */
			extend(e, sent_us, alive->ttl);
		e->extended_us = sent_us > e->extended_us ? sent_us : e->extended_us;
		e->trouble.status = STATUS_OK;
		return;
	}
	(void)error_set(&err, STATUS_FAILED_PRECONDITION, 0, "not the leader: etcd has ended the lease");
	election_step_down(e, &err);
}

static void on_closed(struct rpc_stream *stream, enum status status, const struct error *err, void *userdata)
{
	struct keeper *k = userdata;
	struct election *e = k->election;

	k->stream = NULL;
	k->sent_us = 0;
	if (err)
		e->trouble = *err;
	etcd_client_failed(e->client, k->member, status == STATUS_OK ? STATUS_UNAVAILABLE : status);
	if (k->member != e->member)
		return;
	e->member = (e->member + 1) % etcd_client_n(e->client);
	(void)timer_arm(e->event, &e->beat, backoff_next(&e->backoff, backoff_random()), on_beat, e);
}

static enum status open_stream(struct election *e, struct keeper *k, struct error *err)
{
	static const struct rpc_stream_events events = {.on_message = on_alive, .on_closed = on_closed};

	return rpc_stream_open(etcd_client_at(e->client, k->member), &etcdserverpb__lease__descriptor,
			       "LeaseKeepAlive", e->call_us, &events, k, &k->stream, err);
}

static void close_stream(struct keeper *k)
{
	rpc_stream_cancel(k->stream);
	k->stream = NULL;
	k->sent_us = 0;
}

/* The member that is asked next. If one is late the next one is asked, too: when etcd's leader stops, the
 * others hang until they have elected one, and a lease is short for asking one after the other. NULL: it was
 * asked a moment ago. */
static struct keeper *choose_keeper(struct election *e)
{
	struct keeper *k = &e->keepers[e->member];

	if (k->sent_us != 0) {
		etcd_client_failed(e->client, e->member, STATUS_UNAVAILABLE);
		e->member = (e->member + 1) % etcd_client_n(e->client);
		k = &e->keepers[e->member];
	}
	if (k->sent_us != 0 && boottime_us() - k->sent_us < LATE_BEATS * e->lease_us / BEAT_PART)
		return NULL;
	if (k->sent_us != 0) {
		close_stream(k);
		etcd_client_failed(e->client, k->member, STATUS_DEADLINE_EXCEEDED);
	}
	return k;
}

static void beat(struct election *e)
{
	Etcdserverpb__LeaseKeepAliveRequest request = ETCDSERVERPB__LEASE_KEEP_ALIVE_REQUEST__INIT;
	enum status st = STATUS_OK;
	struct keeper *k;

	if (e->phase != PHASE_LEADING)
		return;
	k = choose_keeper(e);
	if (k)
		k->sent_us = boottime_us(); /* if it cannot be sent it is late, too */
	if (k && !k->stream)
		st = open_stream(e, k, &e->trouble);
	request.id = e->lease;
	if (k && st == STATUS_OK)
		st = rpc_stream_send(k->stream, &request.base, &e->trouble);
	if (k && st == STATUS_OK)
		backoff_reset(&e->backoff);
	(void)timer_arm(e->event, &e->beat, e->lease_us / BEAT_PART, on_beat, e);
}

static void stop_leading(struct election *e)
{
	for (size_t i = 0; i < ETCD_ENDPOINTS_MAX; i++)
		close_stream(&e->keepers[i]);
	e->beat = sd_event_source_disable_unref(e->beat);
	e->end = sd_event_source_disable_unref(e->end);
}

void election_step_down(struct election *e, const struct error *why)
{
	struct error copy = *why;

	if (e->phase != PHASE_LEADING)
		return;
	stop_leading(e);
	e->phase = PHASE_OVER;
	e->events->on_lost(&copy, e->userdata);
}

bool election_is_leading(const struct election *e)
{
	return e->phase == PHASE_LEADING && boottime_us() < e->deadline_us;
}

int64_t election_lease(const struct election *e)
{
	return e->lease;
}

int64_t election_revision(const struct election *e)
{
	return e->revision;
}

/* --- its end --- */

static void on_revoked(enum status status, const ProtobufCMessage *response, const struct error *err,
		       void *userdata)
{
	struct election *e = userdata;

	(void)status; /* it ends by itself */
	e->phase = PHASE_OVER;
}

void election_resign(struct election *e)
{
	Etcdserverpb__LeaseRevokeRequest request = ETCDSERVERPB__LEASE_REVOKE_REQUEST__INIT;

	if (e->phase == PHASE_RESIGNING)
		return;
	stop_leading(e);
	etcd_call_cancel(&e->call);
	timer_disarm(e->retry);
	e->phase = PHASE_OVER;
	request.id = e->lease;
	if (e->lease != 0 &&
	    etcd_call_start(e->client, &e->call, &etcdserverpb__lease__descriptor, "LeaseRevoke",
			    &request.base, e->call_us, on_revoked, e, NULL) == STATUS_OK)
		e->phase = PHASE_RESIGNING;
}

bool election_is_over(const struct election *e)
{
	return e->phase == PHASE_OVER;
}

/* --- life --- */

void election_start(struct election *e)
{
	assert(e->phase == PHASE_IDLE);
	e->phase = PHASE_TRYING;
	election_look(e);
}

enum status election_new(sd_event *event, struct etcd_client *client,
			 const struct election_settings *settings, const struct election_events *events,
			 void *userdata, struct election **ret, struct error *err)
{
	assert(settings->lease_us >= USEC_PER_SEC && settings->call_us > 0);

	struct election *e = malloc(sizeof(*e));

	if (!e)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "etcd");
	*e = (struct election){
		.event = event,
		.client = client,
		.key = strdup(settings->key),
		.name = strdup(settings->name),
		.schema_key = settings->schema_key ? strdup(settings->schema_key) : NULL,
		.schema = settings->schema,
		.word_key = settings->word_key ? strdup(settings->word_key) : NULL,
		.word = settings->word_key ? strdup(settings->word) : NULL,
		.lease_us = settings->lease_us,
		.call_us = settings->call_us,
		.yield_us = settings->yield_us > 0 ? clock_monotonic_us() + settings->yield_us : 0,
		.events = events,
		.userdata = userdata,
		.backoff = BACKOFF_INIT(RETRY_MIN_US, RETRY_MAX_US),
	};
	for (size_t i = 0; i < ETCD_ENDPOINTS_MAX; i++)
		e->keepers[i] = (struct keeper){.election = e, .member = i};
	if (!e->key || !e->name || (settings->schema_key && !e->schema_key) ||
	    (settings->word_key && (!e->word_key || !e->word))) {
		election_free(e);
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "etcd");
	}
	*ret = e;
	return STATUS_OK;
}

void election_free(struct election *e)
{
	if (!e)
		return;
	stop_leading(e);
	etcd_call_cancel(&e->call);
	(void)sd_event_source_disable_unref(e->retry);
	free(e->key);
	free(e->name);
	free(e->schema_key);
	free(e->word_key);
	free(e->word);
	free(e);
}
