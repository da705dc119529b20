#include "volume_view.h"

#include "plugins.h"
#include "server.h"
#include "volume_store.h"

#include "base/str.h"
#include "model/pb.h"

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
	if (derive_plugin(server, entry, summarize(entry, cache ? cache : &own), view) &&
	    volume_show(view, volume_detail_of(server, &entry->volume),
			volume_secrets_of(server, &entry->volume)) &&
	    (!with_claims || add_claims(entry, view)))
		return view;
	holdfast__v1__volume__free_unpacked(view, NULL);
	return NULL;
}
