/* SPDX-License-Identifier: Apache-2.0 */
#include "access/audit_read.h"

#include "server.h"

#include "access/audit.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "state/keys.h"
#include "state/records.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void sequence_key(uint64_t sequence, char ret[static OBJECT_KEY_SIZE])
{
	(void)str_format(ret, OBJECT_KEY_SIZE, PREFIX_AUDIT "%016" PRIx64, sequence);
}

static Holdfast__V1__AuditRecord *read_record(const struct kv_item *item, struct error *err)
{
	Holdfast__V1__AuditRecord *record = holdfast__v1__audit_record__unpack(NULL, item->len, item->value);

	if (!record)
		(void)error_set(err, STATUS_DATA_LOSS, 0,
				"the store's record %s cannot be read: the audit was changed behind the "
				"server's back; see: holdfast operator audit verify",
				item->key);
	return record;
}

/* --- a page --- */

struct page {
	const Holdfast__V1__ListAuditRequest *request;
	Holdfast__V1__ListAuditResponse *response;
	size_t max;
	size_t bytes;
	size_t scanned;
	uint64_t last; /* sequence that was looked at last */
	uint64_t end;  /* of the head: what became durable since it was read is for the next call */
	bool is_full;
	bool has_dropped; /* of newest: there are older ones */
	struct error *err;
	enum status status;
};

/* Is @name all of @who, or one part of it: of "token ID (ci) of operator/ann" ID, ci, operator/ann and ann?
 */
static bool is_named(const char *who, const char *name)
{
	static const char between[] = " ()/";
	const size_t n = strlen(name);

	if (str_eq(who, name))
		return true;
	for (const char *at = strstr(who, name); at; at = strstr(at + 1, name))
		if ((at == who || strchr(between, at[-1])) && strchr(between, at[n]))
			return true;
	return false;
}

/* Is @about one of the objects of a record: "node n1" of "volume default/db, claim ID, node n1"? */
static bool is_about(const char *object, const char *about)
{
	const size_t n = strlen(about);

	for (const char *at = object; at; at = strstr(at, ", ")) {
		at += at == object ? 0 : strlen(", ");
		if (strncmp(at, about, n) == 0 && strchr(", ", at[n]))
			return true;
	}
	return false;
}

static bool matches(const Holdfast__V1__ListAuditRequest *request, const Holdfast__V1__AuditRecord *record)
{
	return (request->who[0] == '\0' || is_named(record->who, request->who)) &&
	       str_starts_with(record->object, request->object) && record->time_ms >= request->since_ms &&
	       (request->about[0] == '\0' || is_about(record->object, request->about));
}

static void drop_oldest(struct page *page)
{
	Holdfast__V1__ListAuditResponse *response = page->response;

	page->has_dropped = true;
	if (response->n_records == 0)
		return;
	page->bytes -= holdfast__v1__audit_record__get_packed_size(response->records[0]);
	holdfast__v1__audit_record__free_unpacked(response->records[0], NULL);
	response->n_records--;
	memmove(response->records, response->records + 1, response->n_records * sizeof(void *));
}

static bool on_record(const struct kv_item *item, void *userdata)
{
	struct page *page = userdata;
	Holdfast__V1__ListAuditResponse *response = page->response;
	Holdfast__V1__AuditRecord *record = read_record(item, page->err);

	if (!record) {
		page->status = STATUS_DATA_LOSS;
		return false;
	}
	if (record->sequence > page->end) {
		holdfast__v1__audit_record__free_unpacked(record, NULL);
		return false;
	}
	if (!matches(page->request, record)) {
		page->scanned++;
		page->last = record->sequence;
		holdfast__v1__audit_record__free_unpacked(record, NULL);
		return true;
	}
	page->is_full = response->n_records == page->max || page->bytes + item->len > AUDIT_PAGE_BYTES_MAX;
	if (page->is_full && page->request->newest) {
		drop_oldest(page);
	} else if (page->is_full) {
		holdfast__v1__audit_record__free_unpacked(record, NULL);
		return false;
	}
	page->scanned++;
	page->last = record->sequence;
	page->bytes += item->len;
	response->records[response->n_records++] = record;
	return true;
}

static Holdfast__V1__ListAuditResponse *new_response(size_t max)
{
	Holdfast__V1__ListAuditResponse *response = malloc(sizeof(*response));

	if (!response)
		return NULL;
	holdfast__v1__list_audit_response__init(response);
	response->records = calloc(max, sizeof(Holdfast__V1__AuditRecord *));
	if (response->records)
		return response;
	free(response);
	return NULL;
}

static void release_response(Holdfast__V1__ListAuditResponse **response)
{
	if (*response)
		holdfast__v1__list_audit_response__free_unpacked(*response, NULL);
}

static bool on_head(const struct kv_item *item, void *userdata)
{
	*(Holdfast__V1__AuditHead **)userdata =
		holdfast__v1__audit_head__unpack(NULL, item->len, item->value);
	return false;
}

/* The head that is durable, not the one in memory, which may be ahead of what can be read. */
static enum status read_head(struct server *server, Holdfast__V1__AuditHead **ret, struct error *err)
{
	Holdfast__V1__AuditHead empty = HOLDFAST__V1__AUDIT_HEAD__INIT;

	empty.first = 1;
	*ret = NULL;
	TRY(kv_range_from(server->kv, KEY_AUDIT_HEAD, KEY_AUDIT_HEAD, 1, on_head, ret, err));
	if (!*ret)
		*ret = (Holdfast__V1__AuditHead *)message_copy(&empty.base);
	return *ret ? STATUS_OK : error_no_memory(err, "audit records");
}

static uint64_t next_before(const struct page *page, uint64_t start)
{
	if (page->has_dropped && page->response->n_records > 0)
		return page->response->records[0]->sequence;
	return start > page->response->head->first ? start : 0;
}

static enum status read_page(struct server *server, const Holdfast__V1__ListAuditRequest *request,
			     Holdfast__V1__ListAuditResponse **ret, struct error *err)
{
	cleanup(release_response) Holdfast__V1__ListAuditResponse *response = NULL;
	struct page page = {.request = request, .max = request->per_page, .err = err};
	uint64_t start = request->after + 1;
	char from[OBJECT_KEY_SIZE];

	if (page.max == 0 || page.max > AUDIT_PAGE_MAX)
		page.max = AUDIT_PAGE_MAX;
	page.response = response = new_response(page.max);
	if (!response)
		return error_no_memory(err, "audit records");
	TRY(read_head(server, &response->head, err));
	page.end = response->head->sequence;
	if (request->newest && request->before > 0 && request->before <= page.end)
		page.end = request->before - 1;
	if (request->newest)
		start = page.end > AUDIT_SCAN_MAX ? page.end - AUDIT_SCAN_MAX + 1 : 1;
	sequence_key(start, from);
	TRY(kv_range_from(server->kv, PREFIX_AUDIT, from, AUDIT_SCAN_MAX, on_record, &page, err));
	TRY(page.status);
	if (request->newest)
		response->next_before = next_before(&page, start);
	else if (page.is_full || page.scanned == AUDIT_SCAN_MAX)
		response->next_after = page.last;
	*ret = TAKE_PTR(response);
	return STATUS_OK;
}

/* Were records forgotten between the reading of the head and of them? */
static enum status was_pruned(struct server *server, const Holdfast__V1__ListAuditResponse *response,
			      bool *ret, struct error *err)
{
	Holdfast__V1__AuditHead *head;

	TRY(read_head(server, &head, err));
	*ret = head->first != response->head->first;
	holdfast__v1__audit_head__free_unpacked(head, NULL);
	return STATUS_OK;
}

enum status audit_list(struct server *server, const Holdfast__V1__ListAuditRequest *request,
		       Holdfast__V1__ListAuditResponse **ret, struct error *err)
{
	enum { TRIES = 3 };
	cleanup(release_response) Holdfast__V1__ListAuditResponse *response = NULL;
	bool is_pruned = true;

	if (request->after == UINT64_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "after: there is nothing after %" PRIu64,
				 request->after);
	for (int i = 0; i < TRIES && is_pruned; i++) {
		release_response(&response);
		response = NULL;
		TRY(read_page(server, request, &response, err));
		TRY(was_pruned(server, response, &is_pruned, err));
	}
	*ret = TAKE_PTR(response);
	return STATUS_OK;
}

/* --- forgetting --- */

struct old {
	int64_t before_ms;
	uint64_t keep_from; /* the sequence that is kept at any age; those below the count are not */
	uint64_t count_from;
	uint32_t n;
	uint64_t last;
	uint64_t sequences[AUDIT_PRUNE_SLICE]; /* the first ones of the n */
};

static bool on_old(const struct kv_item *item, void *userdata)
{
	struct old *old = userdata;
	Holdfast__V1__AuditRecord *record = read_record(item, NULL);
	bool is_old = record && record->sequence < old->keep_from &&
		      (record->sequence < old->count_from || record->time_ms < old->before_ms);

	if (is_old) {
		if (old->n < AUDIT_PRUNE_SLICE)
			old->sequences[old->n] = record->sequence;
		old->n++;
		old->last = record->sequence;
	}
	if (record)
		holdfast__v1__audit_record__free_unpacked(record, NULL);
	return is_old;
}

/* The oldest records that may go, in order: a record with a wrong time ends them, never makes a hole. */
static struct old find_old(struct server *server, int64_t now_ms, uint32_t max)
{
	const Holdfast__V1__AuditHead head = audit_head(server);
	uint64_t keep = server->config.audit_keep;
	struct old old = {
		.before_ms = now_ms - (int64_t)(server->config.audit_keep_for_us / USEC_PER_MSEC),
		.keep_from = head.sequence,
		.count_from = head.sequence >= keep ? head.sequence - keep + 1 : 0,
	};
	char from[OBJECT_KEY_SIZE];

	sequence_key(head.first, from);
	if (kv_range_from(server->kv, PREFIX_AUDIT, from, max, on_old, &old, NULL) != STATUS_OK)
		old.n = 0; /* the next round tries again */
	return old;
}

uint32_t audit_prunable(struct server *server, int64_t now_ms, uint32_t max)
{
	return find_old(server, now_ms, max).n;
}

static uint32_t prune_slice(struct server *server, int64_t now_ms, uint32_t max)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	uint64_t first = audit_head(server).first;
	struct old old = find_old(server, now_ms, max);
	char key[OBJECT_KEY_SIZE];
	char object[AUDIT_OBJECT_SIZE];

	if (old.n == 0)
		return 0;
	for (uint32_t i = 0; i < old.n; i++) {
		sequence_key(old.sequences[i], key);
		change_delete_record(&change, key);
	}
	change.audit_first = old.last + 1;
	(void)str_format(object, sizeof(object), "audit %" PRIu64 " to %" PRIu64, first, old.last);
	audit_own(server, &change, "Operator.Gc", object, "older than the oldest record that is kept");
	return change_commit(server, &change, NULL, NULL, NULL) == STATUS_OK ? old.n : 0;
}

uint32_t audit_prune(struct server *server, int64_t now_ms, uint32_t max)
{
	uint32_t n = 0;

	while (n < max) {
		uint32_t want = max - n < AUDIT_PRUNE_SLICE ? max - n : AUDIT_PRUNE_SLICE;
		uint32_t got = prune_slice(server, now_ms, want);

		n += got;
		if (got < want)
			break;
	}
	return n;
}
