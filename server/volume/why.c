/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/why.h"

#include "server.h"

#include "access/foreign.h"
#include "alloc/allocs.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "claim/fence.h"
#include "claim/held_twice.h"
#include "claim/release.h"
#include "plugin/controller.h"
#include "plugin/plugins.h"
#include "recovery/epoch.h"
#include "state/freed.h"
#include "state/storage_index.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

static_assert((int)EXPLAIN_RETRY_MAX_MS == (int)RELEASE_RETRY_MAX_MS, "the worst case is counted with it");
static_assert((int)EXPLAIN_DETACH_MAX_MS == (int)CONFIG_CONTROLLER_TIMEOUT_MS,
	      "the worst case is counted with it");

enum { WHY_WAITING_MAX = 16, WHY_MAX = (WHY_CLAIMS_MAX + WHY_WAITING_MAX + 4) * EXPLAIN_SIZE };

/* Describes a free volume: can it be used, and how was it last released? */
static void write_free(struct strbuf *sb, struct server *server, struct volume_entry *entry, int64_t now_ms)
{
	const struct claim_entry *here = LIST_FIRST(&entry->claims); /* just freed */
	const struct claim *last = here ? &here->claim : NULL;
	cleanup(freed_list_release) struct freed_list freed = {NULL, 0};
	struct plugin_summary plugin;
	char line[EXPLAIN_SIZE];
	struct error err;

	plugin_summarize(entry->plugin, &entry->volume, &plugin);
	if (!plugin_is_schedulable(&plugin, &entry->volume, line, sizeof(line)))
		strbuf_printf(sb, "volume %s is free, but no node can use it: %s\n", entry->volume.id, line);
	else
		strbuf_printf(sb, "volume %s is free (generation %" PRIu64 ")\n", entry->volume.id,
			      entry->volume.generation);
	if (!last && freed_of_volume(server, entry, &freed, &err) != STATUS_OK)
		strbuf_printf(sb, "last: not known: %s\n", err.msg);
	else if (!last && freed.n > 0)
		last = &freed.claims[0];
	if (last)
		strbuf_printf(sb, "last: %s\n",
			      explain_claim(last, &(struct holder){.is_connected = true}, now_ms, line));
}

/* Each name of the storage needs an attestation. */
static void write_foreign_names(struct strbuf *sb, struct server *server, const struct rpc_call *call,
				const struct volume_entry *entry)
{
	struct volume_entry *other = NULL;
	char name[FOREIGN_NAME_SIZE];

	while ((other = storage_next_other(entry, other)))
		if (!str_eq(other->namespace, entry->namespace))
			strbuf_printf(sb, "%s is the same storage\n",
				      foreign_name(server, call, entry->namespace, &other->volume, name));
}

/* Adds the causes that keep the volume from being granted: history that was lost in a restore, or a claim
 * of a node that must not exist. */
static void write_withheld(struct strbuf *sb, struct server *server, const struct rpc_call *call,
			   const struct volume_entry *entry)
{
	struct error err;

	if (epoch_check(server, &entry->volume, &err) != STATUS_OK) {
		strbuf_printf(sb, "%s\n", err.msg);
		write_foreign_names(sb, server, call, entry);
	}
	if (held_twice_check(entry, &err) != STATUS_OK || held_twice_check_rivals(entry, &err) != STATUS_OK)
		strbuf_printf(sb, "%s\n", err.msg);
}

/* The first call shows nothing else before it ends: neither an attempt nor an error. */
static void write_call(struct strbuf *sb, struct server *server, const struct claim *claim)
{
	struct controller_asked asked;
	char time[CLOCK_TEXT_SIZE];

	if (controller_is_asked(server, claim, &asked))
		strbuf_printf(sb, "plugin %s on node %s: %s has not answered for %s\n", claim->plugin_id,
			      asked.node_id, asked.method,
			      clock_format_duration(asked.for_us - asked.for_us % USEC_PER_SEC, time));
}

/* @response NULL: text only. False when memory is short. */
static bool write_claims(struct strbuf *sb, struct server *server, const struct rpc_call *call,
			 struct volume_entry *entry, int64_t now_ms,
			 Holdfast__V1__GetVolumeResponse *response)
{
	struct claim_entry *claim;
	size_t n = 0;

	STORAGE_FOREACH_CLAIM (claim, entry) {
		struct holder holder;
		struct explanation explanation;
		char line[EXPLAIN_SIZE];

		if (!claim_is_live(&claim->claim))
			continue;
		if (n++ >= WHY_CLAIMS_MAX)
			break;
		if (!foreign_shows_claims(server, call, entry->namespace, claim->claim.namespace)) {
			strbuf_puts(sb, FOREIGN_VOLUME ", which is the same storage, holds it\n");
			continue;
		}
		holder = claim_holder(server, &claim->claim);
		explain(&claim->claim, &holder, now_ms, &explanation);
		if (claim->volume != entry)
			strbuf_printf(sb, "as volume %s, which is the same storage: ", claim->volume->id);
		strbuf_printf(sb, "%s\n", explanation_text(&explanation, line));
		write_call(sb, server, &claim->claim);
		if (!response)
			continue;
		response->explanations[response->n_explanations] = explanation_to_pb(&explanation);
		if (!response->explanations[response->n_explanations])
			return false;
		response->n_explanations++;
	}
	n = storage_n_live(entry);
	if (n > WHY_CLAIMS_MAX)
		strbuf_printf(sb, "and %zu more claims\n", n - WHY_CLAIMS_MAX);
	return true;
}

/* The allocations in the queue of the volume, in order. False when memory is short. */
static bool write_queue(struct strbuf *sb, struct server *server, const struct volume_entry *entry,
			int64_t now_ms)
{
	char time[CLOCK_TEXT_SIZE];
	size_t n;
	cleanup_free struct alloc_entry **list = pending_of_volume(server, entry->namespace, entry->id, &n);

	if (!list)
		return false;
	for (size_t i = 0; i < n && i < WHY_WAITING_MAX; i++) {
		const struct alloc *alloc = &list[i]->alloc;
		const char *node_id = alloc_wait_node(alloc);
		int64_t waited_ms = now_ms > alloc->create_time_ms ? now_ms - alloc->create_time_ms : 0;

		strbuf_printf(sb, "%zu. in its queue: %s, allocation %s%s%s, for %s\n", i + 1, alloc->name,
			      alloc->id, node_id[0] ? ", on node " : "", node_id,
			      clock_format_duration((uint64_t)waited_ms * USEC_PER_MSEC, time));
	}
	if (n > WHY_WAITING_MAX)
		strbuf_printf(sb, "and %zu more wait\n", n - WHY_WAITING_MAX);
	return true;
}

/* Lists the nodes where the volume is full or has a condition. */
static void write_usage(struct strbuf *sb, const struct volume_entry *entry)
{
	const struct claim_entry *claim;

	LIST_FOREACH (claim, &entry->claims, of_volume) {
		const struct claim_usage *usage = claim->usage;
		const char *node = claim->claim.node_id;

		if (usage && usage->is_full)
			strbuf_printf(sb,
				      "it is %u %% full on node %s: make room in it, or expand it (holdfast "
				      "volume expand, for volumes of a provider)\n",
				      usage_percent(&usage->usage), node);
		if (usage && usage->condition[0] != '\0')
			strbuf_printf(sb, "its condition on node %s: %s\n", node, usage->condition);
	}
}

static char *write_all(struct server *server, const struct rpc_call *call, struct volume_entry *entry,
		       Holdfast__V1__GetVolumeResponse *response)
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(WHY_MAX);
	int64_t now_ms = clock_realtime_ms();

	if (!write_claims(&sb, server, call, entry, now_ms, response))
		return NULL;
	if (storage_n_live(entry) == 0)
		write_free(&sb, server, entry, now_ms);
	write_withheld(&sb, server, call, entry);
	write_usage(&sb, entry);
	if (!write_queue(&sb, server, entry, now_ms))
		return NULL;
	return strbuf_take(&sb);
}

char *volume_why(struct server *server, struct volume_entry *entry)
{
	return write_all(server, NULL, entry, NULL);
}

bool volume_explain(struct server *server, const struct rpc_call *call, struct volume_entry *entry,
		    Holdfast__V1__GetVolumeResponse *response)
{
	char *why;

	response->explanations = calloc(WHY_CLAIMS_MAX, sizeof(Holdfast__V1__ClaimExplanation *));
	why = response->explanations ? write_all(server, call, entry, response) : NULL;
	if (why)
		response->why = why;
	return why != NULL;
}

enum status volume_check_unused(struct server *server, struct volume_entry *entry, struct error *err)
{
	cleanup_free char *why = NULL;

	if (entry->n_live == 0) /* as far as is known */
		return epoch_check(server, &entry->volume, err);
	why = volume_why(server, entry);
	if (why)
		why[strcspn(why, "\n")] = '\0';
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "volume %s is claimed (live claims: %zu; the newest: %s)", entry->volume.id,
			 entry->n_live, why ? why : "(out of memory)");
}
