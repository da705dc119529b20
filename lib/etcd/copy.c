/* SPDX-License-Identifier: Apache-2.0 */
/* A copy of the store for who follows, so that it need not read all of it when it leads: read once at one
 * revision, then watched from there on.
 *
 * One watch has everything below the prefix, and etcd gives each change once and in order. Each transaction
 * of the store writes the sequence key: "LEASE NUMBER ...", where a lease counts from 1. So a copy that has
 * missed one is found out, and so is one that is not of the store that a new leader opens: see is_current().
 * An etcd that was put back has another past: with each watch that is opened the sequence is read as it was
 * where the copy is. Whenever something does not fit, all of it is read again. */

#include "base/backoff.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/str.h"
#include "etcd/etcd.h"
#include "etcd/kv_etcd.h"
#include "etcd/request.h"
#include "rpc/timer.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	FIRST_N = 3,	 /* prefixes, with little below them, that are read at once */
	DELAY_PART = 2,	 /* of a lease, before the others: a leader that begins is not disturbed */
	PAGE_MAX = 1000, /* records in one turn of the loop */
};

#define CATCH_UP_MAX_US (USEC_PER_SEC / 2) /* for changes on their way; reading all takes longer */
#define AGAIN_MAX_US (60 * USEC_PER_SEC)

enum { PAST_THEN, PAST_NOW }; /* the sequence key where the copy is, and the latest */

enum copy_stage {
	COPY_NONE,    /* until the timer fires */
	COPY_READ,    /* page by page; its timer continues behind the first ones */
	COPY_WATCHED, /* its timer reopens the stream */
};

struct sequence {
	int64_t revision;
	char text[SEQUENCE_SIZE];
};

struct etcd_copy {
	struct etcd *etcd; /* borrowed */
	enum copy_stage stage;
	sd_event_source *timer;
	struct backoff backoff;
	struct rpc_stream *stream; /* NULL: not open */
	size_t endpoint;	   /* of it */
	char sequence_key[ETCD_KEY_SIZE];
	char generation_key[ETCD_KEY_SIZE];
	struct etcd_records records;
	struct etcd_call call; /* for a page; then of confirm() */
	uint64_t pause_us;     /* after the first prefixes; 0: no pause */
	bool is_confirmed;     /* etcd has the past that the copy has, as of when the watch was opened */
	int64_t goal;	       /* the revision of the sequence then: the copy is whole from there on */
	bool is_whole;	       /* it has come there, with this watch or an earlier one */
	size_t prefix;	       /* of those that are copied, which is read */
	struct etcd_cursor cursor;
	/* All changes up to @revision are in the copy, the last transaction of the store is @sequence. */
	int64_t revision;
	struct sequence sequence;
	struct sequence opened; /* the same when the watch was opened */
	/* The same with the part of an answer that is not complete. */
	int64_t coming_revision;
	struct sequence coming;
	char *space; /* owned; for one record */
	size_t space_size;
};

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata);

static void later(struct etcd_copy *copy, uint64_t delay_us)
{
	/* memory short: the loop cannot continue either */
	(void)timer_arm(copy->etcd->loop, &copy->timer, delay_us, on_timer, copy);
}

/* All of it is read again. */
static void discard(struct etcd_copy *copy)
{
	copy->stage = COPY_NONE;
	copy->is_confirmed = copy->is_whole = false;
}

static void close_watch(struct etcd_copy *copy)
{
	if (copy->coming_revision > copy->revision) /* a part of an answer is in the copy */
		discard(copy);
	etcd_call_cancel(&copy->call);
	rpc_stream_cancel(copy->stream);
	copy->stream = NULL;
	later(copy, backoff_next(&copy->backoff, backoff_random()));
}

static void begin_anew(struct etcd_copy *copy)
{
	discard(copy);
	close_watch(copy);
}

/* --- changes --- */

/* Parses "LEASE NUMBER ...". Returns the length of LEASE, 0 for another form. */
static size_t parse_sequence(const char *text, uint64_t *ret_number)
{
	size_t lease_len = strcspn(text, " ");
	const char *rest = text[lease_len] ? text + lease_len + 1 : "";
	char number[SEQUENCE_SIZE];

	(void)str_format(number, sizeof(number), "%.*s", (int)strcspn(rest, " "), rest);
	return parse_u64(number, 0, UINT64_MAX, ret_number) == 0 ? lease_len : 0;
}

/* Is there no transaction between the two? */
static bool is_next(const char *before, const char *after)
{
	uint64_t number_before, number_after;
	size_t len_before = parse_sequence(before, &number_before);
	size_t len_after = parse_sequence(after, &number_after);
	bool is_same_lease = len_before == len_after && memcmp(before, after, len_after) == 0;

	return len_before > 0 && len_after > 0 && number_after == (is_same_lease ? number_before + 1 : 1);
}

static bool key_is(const Etcdserverpb__KeyValue *kv, const char *key)
{
	return kv->key.len == strlen(key) && memcmp(kv->key.data, key, kv->key.len) == 0;
}

static bool make_space(struct etcd_copy *copy, size_t n)
{
	char *larger;

	if (n <= copy->space_size)
		return true;
	larger = realloc(copy->space, n);
	if (!larger)
		return false;
	copy->space = larger;
	copy->space_size = n;
	return true;
}

/* @key is what comes behind the prefix of the store. */
static bool is_copied(const struct etcd_copy *copy, const uint8_t *key, size_t n)
{
	const char *prefix;

	for (size_t i = 0; (prefix = copy->etcd->events.copied(i)); i++)
		if (n >= strlen(prefix) && memcmp(key, prefix, strlen(prefix)) == 0)
			return true;
	return false;
}

static bool put_record(struct etcd_copy *copy, const Etcdserverpb__KeyValue *kv)
{
	struct kv_item item;

	return make_space(copy, kv->key.len + 1 + kv->value.len) &&
	       etcd_parse_record(&copy->records, kv, copy->space, &item, NULL) == STATUS_OK &&
	       copy->etcd->events.on_record(&item, copy->etcd->userdata);
}

static bool delete_record(struct etcd_copy *copy, const Etcdserverpb__KeyValue *kv, size_t data_len)
{
	if (!make_space(copy, kv->key.len + 1))
		return false;
	memcpy(copy->space, kv->key.data + data_len, kv->key.len - data_len);
	copy->space[kv->key.len - data_len] = '\0';
	return copy->etcd->events.on_record(&(struct kv_item){.key = copy->space}, copy->etcd->userdata);
}

/* False: the copy cannot follow. */
static bool apply(struct etcd_copy *copy, const Etcdserverpb__Event *event)
{
	const Etcdserverpb__KeyValue *kv = event->kv;
	size_t data_len = strlen(copy->records.data);

	if (!kv || key_is(kv, copy->generation_key))
		return false;
	copy->coming_revision = kv->mod_revision;
	if (key_is(kv, copy->sequence_key)) {
		char before[SEQUENCE_SIZE];

		memcpy(before, copy->coming.text, sizeof(before));
		copy->coming.revision = kv->mod_revision;
		etcd_text_of(kv, copy->coming.text, sizeof(copy->coming.text));
		return is_next(before, copy->coming.text);
	}
	if (kv->key.len <= data_len || memcmp(kv->key.data, copy->records.data, data_len) != 0 ||
	    !is_copied(copy, kv->key.data + data_len, kv->key.len - data_len))
		return true; /* of the election, of a server, or not in memory */
	return event->type == ETCDSERVERPB__EVENT__EVENT_TYPE__PUT ? put_record(copy, kv)
								   : delete_record(copy, kv, data_len);
}

/* --- the watch --- */

static void on_open(struct rpc_stream *stream, void *userdata)
{
	struct etcd_copy *copy = userdata;

	backoff_reset(&copy->backoff);
}

static void note_whole(struct etcd_copy *copy)
{
	copy->is_whole |= copy->is_confirmed && copy->sequence.revision >= copy->goal;
}

static void on_message(struct rpc_stream *stream, const ProtobufCMessage *message, void *userdata)
{
	const Etcdserverpb__WatchResponse *response = (const Etcdserverpb__WatchResponse *)message;
	struct etcd_copy *copy = userdata;
	bool can_follow = !response->canceled;

	for (size_t i = 0; i < response->n_events && can_follow; i++)
		can_follow = apply(copy, response->events[i]);
	if (!can_follow) {
		begin_anew(copy);
	} else if (!response->fragment) {
		copy->revision = copy->coming_revision;
		copy->sequence = copy->coming;
		note_whole(copy);
	}
}

static void on_closed(struct rpc_stream *stream, enum status status, const struct error *err, void *userdata)
{
	struct etcd_copy *copy = userdata;

	copy->stream = NULL;
	etcd_client_failed(copy->etcd->client, copy->endpoint,
			   status == STATUS_OK ? STATUS_UNAVAILABLE : status);
	close_watch(copy);
}

static bool has_same_past(const struct etcd_copy *copy, const Etcdserverpb__KeyValue *sequence)
{
	char text[SEQUENCE_SIZE];

	if (!sequence || sequence->mod_revision != copy->opened.revision)
		return false;
	etcd_text_of(sequence, text, sizeof(text));
	return str_eq(text, copy->opened.text);
}

static void on_past(enum status status, const ProtobufCMessage *response, const struct error *err,
		    void *userdata)
{
	const Etcdserverpb__TxnResponse *txn = (const Etcdserverpb__TxnResponse *)response;
	struct etcd_copy *copy = userdata;
	const Etcdserverpb__KeyValue *now;

	(void)err; /* the election reports the cause */
	if (status == STATUS_OK) {
		copy->is_confirmed = has_same_past(copy, txn_key_of(txn, PAST_THEN));
		now = txn_key_of(txn, PAST_NOW);
		copy->goal = now ? now->mod_revision : 0;
		note_whole(copy);
	}
	if (status != STATUS_OK &&
	    status != STATUS_OUT_OF_RANGE) /* OUT_OF_RANGE: etcd has no such revision, past or future */
		close_watch(copy);
	else if (!copy->is_confirmed)
		begin_anew(copy);
}

static enum status confirm(struct etcd_copy *copy)
{
	Etcdserverpb__TxnRequest txn = ETCDSERVERPB__TXN_REQUEST__INIT;
	Etcdserverpb__RangeRequest ranges[] = {ETCDSERVERPB__RANGE_REQUEST__INIT,
					       ETCDSERVERPB__RANGE_REQUEST__INIT};
	Etcdserverpb__RequestOp then = etcd_op_range(&ranges[PAST_THEN]);
	Etcdserverpb__RequestOp now = etcd_op_range(&ranges[PAST_NOW]);

	copy->is_confirmed = false;
	copy->opened = copy->sequence;
	ranges[PAST_THEN].key = ranges[PAST_NOW].key = etcd_bytes(copy->sequence_key);
	ranges[PAST_THEN].revision = copy->revision;
	txn.n_success = 2;
	txn.success = (Etcdserverpb__RequestOp *[]){&then, &now};
	return etcd_call_start(copy->etcd->client, &copy->call, &etcdserverpb__kv__descriptor, "Txn",
			       &txn.base, copy->etcd->call_us, on_past, copy, NULL);
}

/* Watches from the copy's revision on. An incomplete answer is sent again. */
static void watch(struct etcd_copy *copy)
{
	static const struct rpc_stream_events events = {
		.on_open = on_open, .on_message = on_message, .on_closed = on_closed};
	Etcdserverpb__WatchRequest request = ETCDSERVERPB__WATCH_REQUEST__INIT;
	Etcdserverpb__WatchCreateRequest create = ETCDSERVERPB__WATCH_CREATE_REQUEST__INIT;
	struct etcd *etcd = copy->etcd;
	char first[ETCD_KEY_SIZE], end[ETCD_KEY_SIZE];
	enum status status;

	(void)str_format(first, sizeof(first), "%s/", etcd->prefix);
	(void)str_format(end, sizeof(end), "%s0", etcd->prefix); /* what comes behind a slash */
	create.key = etcd_bytes(first);
	create.range_end = etcd_bytes(end);
	create.start_revision = copy->revision + 1;
	copy->coming_revision = copy->revision;
	copy->coming = copy->sequence;
	create.fragment = true;
	request.request_union_case = ETCDSERVERPB__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
	request.create_request = &create;
	status = rpc_stream_open(etcd_client_member(etcd->client, &copy->endpoint),
				 &etcdserverpb__watch__descriptor, "Watch", etcd->call_us, &events, copy,
				 &copy->stream, NULL);
	if (status == STATUS_OK)
		status = rpc_stream_send(copy->stream, &request.base, NULL);
	if (status == STATUS_OK)
		status = confirm(copy);
	if (status != STATUS_OK)
		close_watch(copy);
}

/* --- reading --- */

static bool find_store(struct etcd_copy *copy, const Etcdserverpb__TxnResponse *txn)
{
	const Etcdserverpb__KeyValue *sequence = txn_key_of(txn, ETCD_LOOK_SEQUENCE);
	struct etcd_generation generation;

	if (!sequence || !txn->header ||
	    !etcd_generation_read(txn_key_of(txn, ETCD_LOOK_GENERATION), &generation))
		return false;
	copy->revision = copy->coming_revision = txn->header->revision;
	copy->sequence.revision = sequence->mod_revision;
	etcd_text_of(sequence, copy->sequence.text, sizeof(copy->sequence.text));
	copy->records = (struct etcd_records){
		.store = copy->etcd->prefix, .offset = generation.offset, .revision = copy->revision};
	(void)str_format(copy->records.data, sizeof(copy->records.data), "%s/e/%" PRIu32 "/",
			 copy->etcd->prefix, generation.number);
	return true;
}

static void read_page(struct etcd_copy *copy);

static bool take_page(struct etcd_copy *copy, const Etcdserverpb__RangeResponse *range)
{
	for (size_t i = 0; i < range->n_kvs; i++)
		if (!put_record(copy, range->kvs[i]))
			return false;
	/* the last one's key is in the space still */
	etcd_cursor_advance(&copy->cursor, &copy->records, copy->space, range->n_kvs, range->more);
	return true;
}

static void on_page(enum status status, const ProtobufCMessage *response, const struct error *err,
		    void *userdata)
{
	struct etcd_copy *copy = userdata;
	bool can_continue =
		status == STATUS_OK
			? take_page(copy, (const Etcdserverpb__RangeResponse *)response)
			: status == STATUS_RESOURCE_EXHAUSTED && etcd_cursor_shrink(&copy->cursor);

	(void)err; /* the election reports the cause */
	if (can_continue)
		read_page(copy);
	else
		begin_anew(copy);
}

static void begin_prefix(struct etcd_copy *copy)
{
	const char *prefix = copy->etcd->events.copied(copy->prefix);

	etcd_cursor_init(&copy->cursor, &copy->records, prefix ? prefix : "", "", prefix ? SIZE_MAX : 0);
	copy->cursor.page_max = PAGE_MAX;
}

/* Reads the next page, of the next prefix if this one is done. Watches after the last one. */
static void read_page(struct etcd_copy *copy)
{
	Etcdserverpb__RangeRequest range;

	while (etcd_cursor_is_at_end(&copy->cursor) && copy->etcd->events.copied(copy->prefix)) {
		copy->prefix++;
		begin_prefix(copy);
		if (copy->prefix == FIRST_N && copy->pause_us > 0) {
			later(copy, copy->pause_us);
			copy->pause_us = 0;
			return;
		}
	}
	if (etcd_cursor_is_at_end(&copy->cursor)) {
		copy->stage = COPY_WATCHED;
		watch(copy);
		return;
	}
	etcd_cursor_request(&copy->cursor, &range);
	if (etcd_call_start(copy->etcd->client, &copy->call, &etcdserverpb__kv__descriptor, "Range",
			    &range.base, copy->etcd->call_us, on_page, copy, NULL) != STATUS_OK)
		begin_anew(copy);
}

static void on_found(enum status status, const ProtobufCMessage *response, const struct error *err,
		     void *userdata)
{
	struct etcd_copy *copy = userdata;

	if (status != STATUS_OK || !find_store(copy, (const Etcdserverpb__TxnResponse *)response)) {
		begin_anew(copy);
		return;
	}
	copy->etcd->events.on_copy(copy->etcd->userdata);
	copy->prefix = 0;
	begin_prefix(copy);
	read_page(copy);
}

/* At the revision of both keys the records are read. */
static void begin(struct etcd_copy *copy)
{
	copy->stage = COPY_READ;
	if (etcd_look(copy->etcd, &copy->call, on_found, copy) != STATUS_OK)
		begin_anew(copy);
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct etcd_copy *copy = userdata;

	if (election_is_leading(copy->etcd->election))
		return 0; /* it ends when the store is open */
	if (copy->stage == COPY_WATCHED)
		watch(copy);
	else if (copy->stage == COPY_READ)
		read_page(copy);
	else
		begin(copy);
	return 0;
}

/* --- life --- */

/* Is it what the store has, whose leader has written last what is under the sequence key? */
static bool is_current(const struct etcd_copy *copy, const struct etcd_store *store)
{
	return copy->is_confirmed && copy->sequence.revision == store->known.sequence_revision &&
	       str_eq(copy->sequence.text, store->last);
}

bool etcd_has_copy(const struct etcd *etcd)
{
	const struct etcd_copy *copy = etcd->copy;

	return copy && copy->stage == COPY_WATCHED && copy->is_whole;
}

bool etcd_copy_finish(struct etcd *etcd)
{
	assert(etcd->store);

	const uint64_t end = clock_monotonic_us() + CATCH_UP_MAX_US;
	struct etcd_copy *copy = etcd->copy;
	bool is_complete;

	if (!copy)
		return false;
	for (uint64_t now = clock_monotonic_us(); copy->stream && !is_current(copy, etcd->store) && now < end;
	     now = clock_monotonic_us())
		(void)etcd_run(etcd, end - now);
	is_complete = copy->stage == COPY_WATCHED && is_current(copy, etcd->store);
	etcd_copy_free(copy);
	etcd->copy = NULL;
	return is_complete;
}

enum status etcd_copy_new(struct etcd *etcd, uint64_t lease_us, struct etcd_copy **ret, struct error *err)
{
	struct etcd_copy *copy = calloc(1, sizeof(*copy));

	if (!copy)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "etcd");
	copy->etcd = etcd;
	copy->backoff = (struct backoff)BACKOFF_INIT(USEC_PER_SEC, AGAIN_MAX_US);
	(void)str_format(copy->sequence_key, sizeof(copy->sequence_key), "%s/sequence", etcd->prefix);
	(void)str_format(copy->generation_key, sizeof(copy->generation_key), "%s/generation", etcd->prefix);
	copy->pause_us = lease_us / DELAY_PART;
	later(copy, 0);
	*ret = copy;
	return STATUS_OK;
}

void etcd_copy_free(struct etcd_copy *copy)
{
	if (!copy)
		return;
	etcd_call_cancel(&copy->call);
	rpc_stream_cancel(copy->stream);
	(void)sd_event_source_disable_unref(copy->timer);
	free(copy->space);
	free(copy);
}
