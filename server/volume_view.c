#include "volume_view.h"

#include "server.h"

#include "base/clock.h"
#include "base/strbuf.h"
#include "model/explain.h"
#include "model/pb.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { WHY_MAX = 64 * 1024 };

static uint32_t healthy_nodes(struct server *server, const struct volume *volume)
{
	struct node_entry *node = state_node_from(&server->state, "");
	uint32_t n = 0;

	for (; node; node = state_node_next(node)) {
		const struct node_plugin *plugin = node_find_plugin(&node->node, volume);

		n += plugin && plugin->healthy && node_is_connected(node);
	}
	return n;
}

static void derive_modes(struct volume_entry *entry, Holdfast__V1__Volume *view)
{
	struct claim_entry *claim;

	LIST_FOREACH (claim, &entry->claims, of_volume) {
		if (!claim_is_live(&claim->claim))
			continue;
		view->access_mode = (Holdfast__V1__AccessMode)claim->claim.access_mode;
		view->attachment_mode = (Holdfast__V1__AttachmentMode)claim->claim.attachment_mode;
		if (claim->claim.mode == CLAIM_WRITE)
			view->writers++;
		else
			view->readers++;
	}
}

static bool add_claims(struct volume_entry *entry, Holdfast__V1__Volume *view)
{
	struct claim_entry *claim;
	size_t n = 0;

	LIST_FOREACH (claim, &entry->claims, of_volume)
		n++;
	view->claims = calloc(n + 1, sizeof(Holdfast__V1__Claim *));
	if (!view->claims)
		return false;
	LIST_FOREACH (claim, &entry->claims, of_volume) {
		view->claims[view->n_claims] = claim_to_pb(&claim->claim);
		if (!view->claims[view->n_claims])
			return false;
		view->n_claims++;
	}
	return true;
}

Holdfast__V1__Volume *volume_view(struct server *server, struct volume_entry *entry, bool with_claims)
{
	Holdfast__V1__Volume *view = volume_to_pb(&entry->volume);
	bool ok = view != NULL;

	if (!ok)
		return NULL;
	derive_modes(entry, view);
	view->nodes_healthy = healthy_nodes(server, &entry->volume);
	view->schedulable = view->nodes_healthy > 0;
	if (!view->schedulable) {
		view->unschedulable_reason =
			strdup("no connected node offers its plugin and profile in good health");
		ok = view->unschedulable_reason != NULL;
	}
	if (ok && with_claims)
		ok = add_claims(entry, view);
	if (ok)
		return view;
	holdfast__v1__volume__free_unpacked(view, NULL);
	return NULL;
}

char *volume_why(struct server *server, struct volume_entry *entry)
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(WHY_MAX);
	char line[EXPLAIN_SIZE];
	struct claim_entry *claim;
	int64_t now_ms = clock_realtime_ms();

	LIST_FOREACH (claim, &entry->claims, of_volume) {
		const struct node_entry *node = state_node(&server->state, claim->claim.node_id);

		if (!claim_is_live(&claim->claim))
			continue;
		strbuf_printf(&sb, "%s\n",
			      explain_claim(&claim->claim, node && node_is_connected(node), now_ms, line));
	}
	if (sb.len == 0)
		strbuf_printf(&sb, "volume %s is free: nobody holds it (generation %" PRIu64 ")\n",
			      entry->volume.id, entry->volume.generation);
	return strbuf_take(&sb);
}
