#include "claims.h"

#include "attest.h"
#include "server.h"
#include "session.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "log/log.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
	RELEASE_RETRY_MIN_MS = 1000,
	RELEASE_RETRY_MAX_MS = 30000,
	TIMER_ACCURACY_US = 1000,
};

/* Oldest freed claims beyond the history that is kept. */
static void prune_history(struct change *change, struct volume_entry *volume)
{
	struct claim_entry *entry;
	int kept = 0;

	LIST_FOREACH (entry, &volume->claims, of_volume) {
		if (claim_is_live(&entry->claim) || ++kept < CLAIM_HISTORY_MAX)
			continue;
		change_delete_claim(change, &entry->claim);
		return; /* one comes, one goes */
	}
}

/* Steps that need nobody: without a controller, what the node let go of is free. */
static enum status follow_up(struct claim *claim, int64_t now_ms, struct error *err)
{
	static const enum claim_event_type rest[] = {CLAIM_EVENT_CONTROLLER_DETACHED, CLAIM_EVENT_FREE};
	bool changed;

	if (claim->state != CLAIM_NODE_DETACHED || !str_eq(claim->plugin_id, PLUGIN_NATIVE))
		return STATUS_OK;
	for (size_t i = 0; i < ARRAY_SIZE(rest); i++) {
		enum status st = claim_step(claim, &(struct claim_event){.type = rest[i], .now_ms = now_ms},
					    &changed, err);

		if (st != STATUS_OK)
			return st;
	}
	return STATUS_OK;
}

static void log_freed(const struct claim *claim)
{
	log_ctx(LOG_NOTICE,
		&(struct log_ctx){.volume = claim->volume_id,
				  .alloc = claim->allocation_id,
				  .node = claim->node_id,
				  .claim = claim->id,
				  .op = "release"},
		"freed, evidence %s%s%s", evidence_name(claim->evidence),
		claim->evidence_detail[0] != '\0' ? ": " : "", claim->evidence_detail);
}

enum status claims_step(struct change *change, const struct claim_entry *entry,
			const struct claim_event *event, struct claim *ret, struct error *err)
{
	struct claim claim = entry->claim;
	bool changed = false;
	enum status st = claim_step(&claim, event, &changed, err);

	if (st == STATUS_OK && changed)
		st = follow_up(&claim, event->now_ms, err);
	if (st != STATUS_OK)
		return st;
	if (changed) {
		change_put_claim(change, &claim);
		if (!claim_is_live(&claim)) {
			prune_history(change, entry->volume);
			log_freed(&claim);
		}
	}
	*ret = claim;
	return STATUS_OK;
}

enum status claims_end_work(struct change *change, struct alloc_entry *alloc, int64_t now_ms,
			    struct error *err)
{
	struct claim_entry *entry;

	LIST_FOREACH (entry, &alloc->claims, of_alloc) {
		const struct claim_event event = {.type = CLAIM_EVENT_WORK_ENDED, .now_ms = now_ms};
		struct claim after;
		enum status st = claims_step(change, entry, &event, &after, err);

		if (st != STATUS_OK)
			return st;
	}
	return STATUS_OK;
}

static uint64_t retry_delay_us(uint32_t asks)
{
	uint64_t ms = RELEASE_RETRY_MIN_MS;
	uint32_t jitter = 0;

	for (uint32_t i = 0; i < asks && ms < RELEASE_RETRY_MAX_MS; i++)
		ms *= 2;
	if (ms > RELEASE_RETRY_MAX_MS)
		ms = RELEASE_RETRY_MAX_MS;
	if (getrandom(&jitter, sizeof(jitter), GRND_NONBLOCK) < 0)
		jitter = 0; /* no harm */
	return (ms - jitter % (ms / 4)) * USEC_PER_MSEC;
}

static int on_release_time(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct claim_entry *entry = userdata;

	(void)source;
	(void)usec;
	entry->release_timer = sd_event_source_disable_unref(entry->release_timer);
	claims_drive(entry->server, entry);
	return 0;
}

void claims_drive(struct server *server, struct claim_entry *entry)
{
	const struct node_entry *node = state_node(&server->state, entry->claim.node_id);

	if (entry->claim.state != CLAIM_UNPUBLISHING) {
		entry->release_timer = sd_event_source_disable_unref(entry->release_timer);
		return;
	}
	if (attest_apply(server, entry))
		return;
	if (entry->release_timer || !node || !node_is_connected(node))
		return; /* asked already, or there is nobody to ask until the node connects */
	session_release_claim(node->session, &entry->claim);
	entry->server = server;
	/* without memory for a timer the next event of the node drives it again */
	(void)sd_event_add_time_relative(server->event, &entry->release_timer, CLOCK_MONOTONIC,
					 retry_delay_us(entry->release_asks++), TIMER_ACCURACY_US,
					 on_release_time, entry);
}

void claims_drive_node(struct server *server, struct node_entry *node)
{
	struct claim_entry *entry;

	LIST_FOREACH (entry, &node->claims, of_node) {
		if (entry->claim.state != CLAIM_UNPUBLISHING)
			continue;
		entry->release_timer = sd_event_source_disable_unref(entry->release_timer); /* ask at once */
		entry->release_asks = 0;
		claims_drive(server, entry);
	}
}

/* Ids of the node's live claims that were granted in another boot than @boot_id: freeing one may drop others
 * from the lists, as history. @ret owned by the caller. */
static size_t claims_of_other_boots(const struct node_entry *node, const char *boot_id,
				    char (**ret)[UUID_TEXT_SIZE])
{
	struct claim_entry *entry;
	size_t n = 0;

	LIST_FOREACH (entry, &node->claims, of_node)
		n += claim_is_live(&entry->claim) && !str_eq(entry->claim.boot_id, boot_id);
	*ret = calloc(n + 1, sizeof(**ret));
	if (!*ret)
		return 0;
	n = 0;
	LIST_FOREACH (entry, &node->claims, of_node)
		if (claim_is_live(&entry->claim) && !str_eq(entry->claim.boot_id, boot_id))
			memcpy((*ret)[n++], entry->claim.id, UUID_TEXT_SIZE);
	return n;
}

enum status claims_new_boot(struct server *server, struct node_entry *node, const char *boot_id,
			    struct error *err)
{
	const struct claim_event event = {
		.type = CLAIM_EVENT_EVIDENCE,
		.evidence = EVIDENCE_NEW_BOOT,
		.detail = boot_id,
		.now_ms = clock_realtime_ms(),
	};
	cleanup_free char(*ids)[UUID_TEXT_SIZE] = NULL;
	size_t n = claims_of_other_boots(node, boot_id, &ids);

	if (!ids)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "out of memory");
	for (size_t i = 0; i < n; i++) {
		cleanup(change_release) struct change change = CHANGE_INIT;
		const struct claim_entry *entry = state_claim(&server->state, ids[i]);
		struct claim after;
		enum status st;

		assert(entry); /* live claims are never history */
		st = claims_step(&change, entry, &event, &after, err);
		if (st == STATUS_OK)
			st = change_commit(server, &change, NULL, NULL, err);
		if (st != STATUS_OK)
			return st;
	}
	return STATUS_OK;
}
