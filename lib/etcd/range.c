/* SPDX-License-Identifier: Apache-2.0 */
/* Reading by pages, all of the revision of the first one. */

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "etcd/batch.h"
#include "etcd/etcd_internal.h"

#include <inttypes.h>
#include <string.h>

enum {
	PAGE_MAX = 8000,
	DIGITS = 7, /* bytes of a key by which the end of a piece is estimated */
	WIDER_MAX = 16,
	TAKE_IN_EVERY = 256, /* records */
};

struct page {
	const struct etcd_records *records;
	int64_t revision; /* 0: not known yet */
	bool has_more;
	struct kv_item *items; /* owned, in one allocation with what they point to */
	size_t n;
};

static void page_release(struct page *page)
{
	free(page->items);
	page->items = NULL;
}

static enum status damaged(const struct etcd_records *records, const Etcdserverpb__KeyValue *kv,
			   struct error *err)
{
	return error_set(err, STATUS_DATA_LOSS, 0,
			 "store %s: key %.*s is damaged; restore etcd from a snapshot", records->store,
			 (int)kv->key.len, (const char *)kv->key.data);
}

enum status etcd_parse_record(const struct etcd_records *records, const Etcdserverpb__KeyValue *kv,
			      char *space, struct kv_item *ret, struct error *err)
{
	size_t data_len = strlen(records->data);
	size_t key_len = kv->key.len - data_len;
	uint8_t sum[BATCH_SUM_SIZE];

	if (kv->key.len <= data_len || key_len > KV_KEY_MAX || kv->value.len <= BATCH_SUM_SIZE)
		return damaged(records, kv, err);
	*ret = (struct kv_item){
		.key = space,
		.value = space + key_len + 1,
		.len = kv->value.len - BATCH_SUM_SIZE,
		.create_revision = (uint64_t)kv->create_revision + records->offset,
		.mod_revision = (uint64_t)kv->mod_revision + records->offset,
	};
	memcpy(space, kv->key.data + data_len, key_len);
	space[key_len] = '\0';
	memcpy(space + key_len + 1, kv->value.data + BATCH_SUM_SIZE, ret->len);
	batch_sum(space, ret->value, ret->len, sum);
	return memcmp(sum, kv->value.data, sizeof(sum)) == 0 ? STATUS_OK : damaged(records, kv, err);
}

static enum status on_page(const ProtobufCMessage *response, void *userdata, struct error *err)
{
	const Etcdserverpb__RangeResponse *range = (const Etcdserverpb__RangeResponse *)response;
	struct page *page = userdata;
	size_t bytes = range->n_kvs * sizeof(*page->items);
	enum status status = STATUS_OK;
	char *free_space;

	for (size_t i = 0; i < range->n_kvs; i++)
		bytes += range->kvs[i]->key.len + 1 + range->kvs[i]->value.len;
	page->items = malloc(bytes + 1);
	if (!page->items || !range->header)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "store %s: read",
				 page->records->store);
	free_space = (char *)(page->items + range->n_kvs);
	for (size_t i = 0; i < range->n_kvs && status == STATUS_OK; i++) {
		status = etcd_parse_record(page->records, range->kvs[i], free_space, &page->items[i], err);
		free_space += range->kvs[i]->key.len + 1 + range->kvs[i]->value.len;
	}
	page->n = range->n_kvs;
	page->has_more = range->more;
	if (page->revision == 0)
		page->revision = range->header->revision;
	return status;
}

static size_t join(uint8_t ret[static ETCD_FULL_KEY_SIZE], const void *data, size_t data_len, const void *key,
		   size_t key_len)
{
	memcpy(ret, data, data_len);
	memcpy(ret + data_len, key, key_len);
	return data_len + key_len;
}

/* The first key behind all that begin with @prefix, which ends with a printable character or a slash. */
static size_t end_of(const char *data, const char *prefix, uint8_t ret[static ETCD_FULL_KEY_SIZE])
{
	size_t n = join(ret, data, strlen(data), prefix, strlen(prefix));

	ret[n - 1]++;
	return n;
}

/* Writes the start of a range at the key @from, or (@is_behind) after it: a key with its NUL is the next one.
 */
static size_t start_of(const char *data, const char *from, bool is_behind,
		       uint8_t ret[static ETCD_FULL_KEY_SIZE])
{
	return join(ret, data, strlen(data), from, strlen(from) + is_behind);
}

/* A page of large values is read in smaller ones. */
static enum status read_page(struct etcd *etcd, struct page *page, struct etcd_cursor *cursor,
			     struct error *err)
{
	Etcdserverpb__RangeRequest range;
	enum status status;

	do {
		page_release(page);
		etcd_cursor_request(cursor, &range);
		status = etcd_ask(etcd, "Range", &range.base, on_page, page, err);
	} while (status == STATUS_RESOURCE_EXHAUSTED && etcd_cursor_shrink(cursor));
	if (status == STATUS_OUT_OF_RANGE) {
		char why[ERROR_MSG_MAX];

		str_copy_text(why, sizeof(why), err->msg);
		return error_set(
			err, STATUS_UNAVAILABLE, 0,
			"store %s: etcd was compacted while it was read; read it again (revision %" PRId64
			": %s)",
			page->records->store, range.revision, why);
	}
	return status;
}

/* --- the next page ---
 *
 * etcd reads it while the caller takes this one. */

struct ahead {
	struct etcd_call call;
	struct page page;
	bool is_asked, is_read;
};

static void ahead_release(struct ahead *ahead)
{
	etcd_call_cancel(&ahead->call);
	page_release(&ahead->page);
}

static void on_ahead(enum status status, const ProtobufCMessage *response, const struct error *err,
		     void *userdata)
{
	struct ahead *ahead = userdata;

	(void)err; /* it is asked for again */
	ahead->is_asked = false;
	ahead->is_read = status == STATUS_OK && on_page(response, &ahead->page, NULL) == STATUS_OK;
}

static void ahead_ask(struct etcd *etcd, struct ahead *ahead, const struct page *page,
		      struct etcd_cursor *cursor)
{
	Etcdserverpb__RangeRequest range;

	page_release(&ahead->page);
	ahead->page = *page;
	ahead->page.items = NULL;
	ahead->is_read = false;
	etcd_cursor_request(cursor, &range);
	ahead->is_asked = etcd_call_start(etcd->client, &ahead->call, &etcdserverpb__kv__descriptor, "Range",
					  &range.base, etcd->call_us, on_ahead, ahead, NULL) == STATUS_OK;
}

/* False: it did not come, or cannot be read. */
static bool ahead_take(struct etcd *etcd, struct ahead *ahead, struct page *page)
{
	const uint64_t end_us = etcd->is_brief ? clock_monotonic_us() + ETCD_BRIEF_US : UINT64_MAX;

	for (uint64_t now_us = 0; ahead->is_asked && now_us < end_us; now_us = clock_monotonic_us())
		(void)etcd_run(etcd, etcd->is_brief ? ETCD_BRIEF_US : UINT64_MAX);
	if (ahead->is_asked) {
		etcd_call_cancel(&ahead->call);
		ahead->is_asked = false;
	}
	if (!ahead->is_read)
		return false;
	page_release(page);
	*page = ahead->page;
	ahead->page.items = NULL;
	ahead->is_read = false;
	return true;
}

/* Hands out a page. Now and then it reads the bytes of the next page, so that etcd can continue. */
static bool hand_out(struct etcd *etcd, const struct page *page, kv_each_fn *each, void *userdata)
{
	for (size_t i = 0; i < page->n; i++) {
		if (!each(&page->items[i], userdata))
			return false;
		if (i % TAKE_IN_EVERY == 0)
			(void)etcd_run(etcd, 0);
	}
	return true;
}

/* --- pieces ---
 *
 * For each page etcd visits every key up to the end of the range that is asked for, however few it gives: a
 * store of 300 000 records read to the end by pages costs it as many visits as there are pairs of a page and
 * a record behind it. So a page is asked of a piece, which ends where about another page of keys should end
 * by how close they were in the one before. A wrong guess costs only time. */

static uint64_t number_at(const struct etcd_span *key, size_t from)
{
	uint64_t number = 0;

	for (size_t i = from; i < from + DIGITS; i++)
		number = number << 8 | (i < key->n ? key->bytes[i] : 0);
	return number;
}

static bool is_below(const struct etcd_span *a, const struct etcd_span *b)
{
	int r = memcmp(a->bytes, b->bytes, a->n < b->n ? a->n : b->n);

	return r != 0 ? r < 0 : a->n < b->n;
}

/* Between @from and @to were @n keys: put the estimated end of the next page behind @to into @ret, @end at
 * most. */
static void guess_end(const struct etcd_span *from, const struct etcd_span *to, size_t n,
		      const struct etcd_span *end, struct etcd_span *ret)
{
	uint64_t wider = n > PAGE_MAX / WIDER_MAX ? UINT64_C(2) * PAGE_MAX / n : WIDER_MAX;
	uint64_t at, width;
	size_t same = 0;

	while (same < from->n && same < to->n && from->bytes[same] == to->bytes[same])
		same++;
	*ret = *end;
	if (same + DIGITS > sizeof(ret->bytes))
		return;
	at = number_at(to, same);
	width = at - number_at(from, same) + 1;
	if (width > (UINT64_C(1) << (8 * DIGITS)) / WIDER_MAX - at / WIDER_MAX)
		return;
	at += width * (wider > 0 ? wider : 1);
	if (at >> (8 * DIGITS))
		return;
	memcpy(ret->bytes, to->bytes, same);
	for (size_t i = 0; i < DIGITS; i++)
		ret->bytes[same + i] = (uint8_t)(at >> (8 * (DIGITS - 1 - i)));
	ret->n = same + DIGITS;
	if (!is_below(ret, end) || !is_below(to, ret))
		*ret = *end;
}

void etcd_cursor_init(struct etcd_cursor *cursor, const struct etcd_records *records, const char *prefix,
		      const char *from, size_t limit)
{
	*cursor = (struct etcd_cursor){.limit = limit, .page_max = PAGE_MAX, .revision = records->revision};
	cursor->end.n = end_of(records->data, prefix, cursor->end.bytes);
	cursor->start.n =
		start_of(records->data, strcmp(from, prefix) > 0 ? from : prefix, false, cursor->start.bytes);
	cursor->piece = cursor->end;
}

bool etcd_cursor_is_at_end(const struct etcd_cursor *cursor)
{
	return cursor->limit == 0 || !is_below(&cursor->start, &cursor->end);
}

void etcd_cursor_request(struct etcd_cursor *cursor, Etcdserverpb__RangeRequest *ret)
{
	etcdserverpb__range_request__init(ret);
	ret->key = (ProtobufCBinaryData){.len = cursor->start.n, .data = cursor->start.bytes};
	ret->range_end = (ProtobufCBinaryData){.len = cursor->piece.n, .data = cursor->piece.bytes};
	ret->limit = (int64_t)(cursor->limit < cursor->page_max ? cursor->limit : cursor->page_max);
	ret->revision = cursor->revision;
}

bool etcd_cursor_shrink(struct etcd_cursor *cursor)
{
	if (cursor->page_max == 1)
		return false;
	cursor->page_max = cursor->page_max > 8 ? cursor->page_max / 8 : 1;
	return true;
}

void etcd_cursor_advance(struct etcd_cursor *cursor, const struct etcd_records *records, const char *last,
			 size_t n, bool has_more)
{
	struct etcd_span before = cursor->start;

	cursor->limit -= n;
	cursor->start = cursor->piece;
	if (has_more)
		cursor->start.n = start_of(records->data, last, true, cursor->start.bytes);
	guess_end(&before, &cursor->start, n, &cursor->end, &cursor->piece);
}

/* --- all of it --- */

enum status etcd_range(struct etcd *etcd, const struct etcd_records *records, const char *prefix,
		       const char *from, size_t limit, kv_each_fn *each, void *userdata, uint64_t *n_read,
		       struct error *err)
{
	cleanup(page_release) struct page page = {.records = records, .revision = records->revision};
	cleanup(ahead_release) struct ahead ahead = {.is_asked = false};
	struct etcd_cursor cursor;
	enum status status = STATUS_OK;

	etcd_cursor_init(&cursor, records, prefix, from, limit);
	while (!etcd_cursor_is_at_end(&cursor)) {
		if (!ahead_take(etcd, &ahead, &page))
			status = read_page(etcd, &page, &cursor, err);
		if (status != STATUS_OK)
			break;
		*n_read += page.n;
		cursor.revision = page.revision;
		etcd_cursor_advance(&cursor, records, page.n > 0 ? page.items[page.n - 1].key : "", page.n,
				    page.has_more);
		if (!etcd_cursor_is_at_end(&cursor))
			ahead_ask(etcd, &ahead, &page, &cursor);
		if (!hand_out(etcd, &page, each, userdata))
			break;
	}
	return status;
}
