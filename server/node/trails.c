/* SPDX-License-Identifier: Apache-2.0 */
#include "node/trails.h"

#include "server.h"

#include "access/access.h"
#include "access/answer.h"
#include "access/audit.h"
#include "access/record_list.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/join.h"
#include "base/str.h"
#include "claim/attest_record.h"
#include "log/log.h"
#include "node/lookup.h"
#include "state/keys.h"
#include "state/records.h"

#include <holdfast/v1/operator.pb-c.h>
#include <inttypes.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

typedef Holdfast__V1__TrailHead Head;
typedef Holdfast__V1__TrailBreak Break;
typedef Holdfast__V1__NodeTrail Trail;

static const char what_accept[] = "Operator.AcceptTrail";

enum { HEX_SIZE = 2 * SHA256_DIGEST_LENGTH + 1, OBJECT_SIZE = sizeof("node ") + NODE_ID_MAX };

/* The next record, put together from the stored one, from which it borrows. */
struct draft {
	Trail trail;
	Head shown;
	Break broken;
	Head *heads[TRAIL_HEADS_MAX + 1];
	Break *breaks[TRAIL_BREAKS_MAX];
};

static void trail_key(const char *node_id, char ret[static OBJECT_KEY_SIZE])
{
	(void)str_join(ret, OBJECT_KEY_SIZE, PREFIX_TRAIL, node_id);
}

static bool is_head(const Head *head)
{
	return head && head->record > 0 && head->sha256.len == SHA256_DIGEST_LENGTH;
}

static bool is_same(const Head *a, const Head *b)
{
	return a->record == b->record && memcmp(a->sha256.data, b->sha256.data, SHA256_DIGEST_LENGTH) == 0;
}

static void begin_draft(struct draft *draft, const Trail *stored, const char *node_id, const Head *shown)
{
	*draft = (struct draft){.trail = HOLDFAST__V1__NODE_TRAIL__INIT};
	if (stored)
		draft->trail = *stored;
	for (size_t i = 0; stored && i < stored->n_heads && i < TRAIL_HEADS_MAX; i++)
		draft->heads[i] = stored->heads[i];
	for (size_t i = 0; stored && i < stored->n_breaks && i < TRAIL_BREAKS_MAX; i++)
		draft->breaks[i] = stored->breaks[i];
	draft->trail.node_id = (char *)(uintptr_t)node_id;
	draft->trail.heads = draft->heads;
	draft->trail.breaks = draft->breaks;
	if (shown)
		draft->shown = *shown;
	draft->shown.time_ms = clock_realtime_ms();
}

/* Returns the head that is missed least: where its neighbours are nearest to each other for their distance
 * from the end. The remaining heads are ever sparser the older they are. Neither the first nor the last. */
static size_t find_densest(Head *const heads[], size_t n)
{
	size_t densest = 1;
	double least = 0;

	for (size_t i = 1; i + 1 < n; i++) {
		double gap = (double)(heads[i + 1]->record - heads[i - 1]->record);
		double share = gap / (double)(heads[n - 1]->record - heads[i]->record + 1);

		if (i == 1 || share < least) {
			least = share;
			densest = i;
		}
	}
	return densest;
}

static void add_head(struct draft *draft)
{
	Trail *trail = &draft->trail;

	draft->heads[trail->n_heads++] = &draft->shown;
	if (trail->n_heads > TRAIL_HEADS_MAX) {
		size_t i = find_densest(draft->heads, trail->n_heads);

		trail->n_heads--;
		memmove(&draft->heads[i], &draft->heads[i + 1], (trail->n_heads - i) * sizeof(Head *));
	}
}

static void put_on_record(struct server *server, struct change *change, struct draft *draft,
			  const char *format_text, const Head *before)
{
	char object[OBJECT_SIZE];
	char shown[HEX_SIZE];
	char kept[HEX_SIZE] = "";
	char why[AUDIT_WHY_SIZE];

	hex_encode(shown, draft->shown.sha256.data, SHA256_DIGEST_LENGTH);
	if (before)
		hex_encode(kept, before->sha256.data, SHA256_DIGEST_LENGTH);
	(void)str_format(object, sizeof(object), "node %s", draft->trail.node_id);
	(void)str_format(why, sizeof(why), "record %" PRIu64 ", SHA-256 %s%s", draft->shown.record, shown,
			 format_text);
	if (before)
		(void)str_format(why, sizeof(why),
				 "record %" PRIu64 ", SHA-256 %s, after record %" PRIu64 ", SHA-256 %s%s",
				 draft->shown.record, shown, before->record, kept, format_text);
	audit_own(server, change, "Nodes.Trail", object, why);
	draft->trail.audited_ms = draft->shown.time_ms;
}

/* Records a break. The earlier heads become history, of which the last one is kept. Beyond the bound the
 * last break is overwritten and not audited: a lying agent does not fill the audit. */
static void break_off(struct server *server, struct change *change, struct draft *draft, Head *last)
{
	Trail *trail = &draft->trail;
	bool is_full = trail->n_breaks == TRAIL_BREAKS_MAX;

	draft->broken = (Break)HOLDFAST__V1__TRAIL_BREAK__INIT;
	draft->broken.kept = is_full ? draft->breaks[TRAIL_BREAKS_MAX - 1]->kept : last;
	draft->broken.shown = &draft->shown;
	draft->breaks[is_full ? TRAIL_BREAKS_MAX - 1 : trail->n_breaks++] = &draft->broken;
	trail->n_heads = 0;
	if (is_full)
		return;
	put_on_record(server, change, draft, ": the trail was cut or replaced, or its agent lies", last);
	log_ctx(LOG_WARNING, &(struct log_ctx){.node = trail->node_id, .op = "session"},
		"the trail of node %s has gone back from record %" PRIu64 " to %" PRIu64
		": it was cut or replaced, or its agent lies; see: holdfast operator trail %s",
		trail->node_id, last->record, draft->shown.record, trail->node_id);
}

/* Notes that the node reported a mount but showed no new record. */
static bool fall_behind(Trail *trail, bool must_grow, int64_t now_ms)
{
	if (!must_grow || trail->behind_since_ms != 0)
		return false;
	trail->behind_since_ms = now_ms;
	return true;
}

static void add_new_head(struct server *server, struct change *change, struct draft *draft)
{
	Trail *trail = &draft->trail;
	Head *last = trail->n_heads > 0 ? draft->heads[trail->n_heads - 1] : NULL;
	int64_t since_ms = draft->shown.time_ms - trail->audited_ms;

	trail->behind_since_ms = 0;
	if (last && draft->shown.record <= last->record)
		break_off(server, change, draft, last);
	else if (since_ms < 0 || since_ms >= TRAIL_AUDIT_MS)
		put_on_record(server, change, draft, "", NULL);
	add_head(draft);
}

void trails_take(struct server *server, struct change *change, const char *node_id, const Head *head,
		 bool must_grow)
{
	const Trail *stored;
	struct draft draft;
	char key[OBJECT_KEY_SIZE];
	bool is_change = is_head(head);

	trail_key(node_id, key);
	stored = records_get(&server->state.records, key);
	if (is_change && stored && stored->n_heads > 0)
		is_change = !is_same(stored->heads[stored->n_heads - 1], head);
	begin_draft(&draft, stored, node_id, is_change ? head : NULL);
	if (is_change)
		add_new_head(server, change, &draft);
	else if (!fall_behind(&draft.trail, must_grow, draft.shown.time_ms))
		return;
	change_put_record(change, key, &draft.trail.base);
}

void trails_forget(struct server *server, struct change *change, const char *node_id)
{
	const Trail *stored;
	struct draft draft;
	char key[OBJECT_KEY_SIZE];

	trail_key(node_id, key);
	stored = records_get(&server->state.records, key);
	if (!stored)
		return;
	if (stored->n_heads > 0) {
		begin_draft(&draft, stored, node_id, stored->heads[stored->n_heads - 1]);
		put_on_record(server, change, &draft, ", was its last head", NULL);
	}
	change_delete_record(change, key);
}

struct trails_count trails_count(struct server *server)
{
	struct record_entry *entry = records_from(&server->state.records, PREFIX_TRAIL);
	struct trails_count count = {.n_broken = 0};

	for (; entry && str_starts_with(entry->key, PREFIX_TRAIL); entry = records_next(entry)) {
		const Trail *trail = (const Trail *)entry->record.message;
		int64_t since_ms = trail->behind_since_ms;

		count.n_broken += trail->n_breaks > 0;
		count.n_behind += since_ms != 0;
		if (since_ms != 0 && (count.since_ms == 0 || since_ms < count.since_ms))
			count.since_ms = since_ms;
	}
	return count;
}

static const struct record_list list = {.prefix = PREFIX_TRAIL,
					.response = &holdfast__v1__list_trails_response__descriptor};
DEFINE_RECORD_LIST(trails_handle_list, list)

/* The breaks themselves stay in the audit. */
static enum status handle_accept(struct server *server, struct rpc_call *call,
				 const Holdfast__V1__AcceptTrailRequest *request, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	Holdfast__V1__AcceptTrailResponse response = HOLDFAST__V1__ACCEPT_TRAIL_RESPONSE__INIT;
	char detail[EVIDENCE_DETAIL_MAX + 1];
	char object[OBJECT_SIZE];
	char key[OBJECT_KEY_SIZE];
	struct node_entry *entry;
	const Trail *stored;
	Trail trail;

	TRY(attest_detail(server, call, "reason", request->reason, detail, err));
	TRY(nodes_find(server, request->node_id, &entry, err));
	trail_key(request->node_id, key);
	stored = records_get(&server->state.records, key);
	if (!stored)
		return error_set(err, STATUS_NOT_FOUND, 0,
				 "node %s has shown no head of its trail; see: holdfast operator trail",
				 request->node_id);
	trail = *stored;
	trail.n_breaks = 0;
	trail.breaks = NULL;
	response.trail = &trail;
	change_put_record(&change, key, &trail.base);
	(void)str_format(object, sizeof(object), "node %s", request->node_id);
	audit_write(server, &change, call, what_accept, object, request->reason);
	return answer_changed(server, &change, call, message_copy(&response.base), err);
}
DEFINE_WRITE_METHOD(trails_handle_accept, Holdfast__V1__AcceptTrailRequest, what_accept, handle_accept)
