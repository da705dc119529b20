/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/view.h"

#include "server.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "log/log.h"
#include "model/pb.h"
#include "plugin/plugins.h"
#include "recovery/epoch.h"
#include "state/freed.h"
#include "state/storage_index.h"
#include "state/usage.h"
#include "volume/store.h"

#include <stdlib.h>
#include <string.h>

enum { REASON_SIZE = 512 };

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

struct shown {
	const char *node_id;
	uint64_t since;
	Holdfast__V1__Claim **claims;
	size_t n;
};

/* False when memory is short. */
static bool show_claim(const struct claim *claim, struct shown *shown)
{
	Holdfast__V1__Claim *message;

	if ((shown->node_id && !str_eq(claim->node_id, shown->node_id)) ||
	    (!claim_is_live(claim) && claim->modify_index <= shown->since))
		return true;
	message = claim_to_pb(claim);
	if (message)
		shown->claims[shown->n++] = message;
	return message != NULL;
}

/* Reads the history. Live claims are shown even if it cannot be read. @ret_why may be NULL. False when memory
 * is short. */
static bool read_history(struct server *server, const struct volume_entry *entry, struct freed_list *ret,
			 char **ret_why)
{
	struct error err;

	if (freed_of_volume(server, entry, ret, &err) == STATUS_OK)
		return true;
	if (err.status != STATUS_RESOURCE_EXHAUSTED) /* any reader can cause it */
		log_ctx(LOG_ERR, &(struct log_ctx){.volume = entry->id, .op = "volume", .err = &err},
			"the history of volume %s cannot be shown", entry->id);
	return !ret_why || message_set_text(ret_why, err.msg);
}

bool volume_show_claims(struct server *server, const struct volume_entry *entry, const char *node_id,
			uint64_t since, Holdfast__V1__Claim ***ret, size_t *ret_n, char **ret_why)
{
	cleanup(freed_list_release) struct freed_list freed = {NULL, 0};
	const struct claim_entry *claim;
	struct shown shown = {.node_id = node_id, .since = since};
	bool is_whole;
	size_t n = 0;

	is_whole = read_history(server, entry, &freed, ret_why);
	LIST_FOREACH (claim, &entry->claims, of_volume)
		n++;
	shown.claims = calloc(n + freed.n + 1, sizeof(Holdfast__V1__Claim *));
	is_whole = is_whole && shown.claims;
	LIST_FOREACH (claim, &entry->claims, of_volume)
		is_whole = is_whole && show_claim(&claim->claim, &shown);
	for (size_t i = 0; i < freed.n; i++)
		is_whole = is_whole && show_claim(&freed.claims[i], &shown);
	*ret = shown.claims;
	*ret_n = shown.n;
	return is_whole;
}

static const struct plugin_summary *summarize(const struct volume_entry *entry,
					      struct volume_view_cache *cache)
{
	size_t place = cache->n % VOLUME_VIEW_CACHE_N;
	size_t known = cache->n < VOLUME_VIEW_CACHE_N ? cache->n : VOLUME_VIEW_CACHE_N;

	for (size_t i = 0; i < known; i++)
		if (cache->entries[i].plugin == entry->plugin &&
		    str_eq(cache->entries[i].profile, entry->volume.profile))
			return &cache->entries[i].summary;
	cache->entries[place].plugin = entry->plugin;
	memcpy(cache->entries[place].profile, entry->volume.profile, sizeof(cache->entries[place].profile));
	plugin_summarize(entry->plugin, &entry->volume, &cache->entries[place].summary);
	cache->n++;
	return &cache->entries[place].summary;
}

/* False when memory is short. */
static bool derive_plugin(struct server *server, const struct volume_entry *entry,
			  const struct plugin_summary *plugin, Holdfast__V1__Volume *view)
{
	char reason[REASON_SIZE];
	struct error err;

	view->nodes_healthy = plugin->nodes_healthy;
	view->nodes_expected = plugin->nodes_expected;
	view->controllers_healthy = plugin->controllers_healthy;
	view->controllers_expected = plugin->controllers_expected;
	view->controller_required = plugin->controller_required;
	view->schedulable = plugin_is_schedulable(plugin, &entry->volume, reason, sizeof(reason));
	if (volume_store_check_usable(server, &entry->volume, &err) != STATUS_OK) {
		view->schedulable = false;
		str_copy_text(reason, sizeof(reason), err.msg);
	}
	view->unschedulable_reason = strdup(reason);
	view->provider = strdup(plugin->provider);
	view->provider_version = strdup(plugin->provider_version);
	return view->unschedulable_reason && view->provider && view->provider_version;
}

Holdfast__V1__Volume *volume_view(struct server *server, struct volume_entry *entry, bool with_claims,
				  struct volume_view_cache *cache)
{
	Holdfast__V1__Volume *view = volume_to_pb(&entry->volume);
	struct volume_view_cache own = {.n = 0};

	if (!view)
		return NULL;
	derive_modes(entry, view);
	if (with_claims) {
		view->held_by_others = (uint32_t)(storage_n_live(entry) - entry->n_live);
		view->may_be_held = epoch_check(server, &entry->volume, NULL) != STATUS_OK;
	}
	if (derive_plugin(server, entry, summarize(entry, cache ? cache : &own), view) &&
	    volume_show(view, volume_detail_of(server, &entry->volume),
			volume_secrets_of(server, &entry->volume)) &&
	    usage_of_volume(entry, !with_claims, &view->usages, &view->n_usages) &&
	    (!with_claims || !server->show_schedule ||
	     server->show_schedule(server, entry, &view->snapshots_state)) &&
	    (!with_claims || volume_show_claims(server, entry, NULL, 0, &view->claims, &view->n_claims,
						&view->history_error)))
		return view;
	holdfast__v1__volume__free_unpacked(view, NULL);
	return NULL;
}
