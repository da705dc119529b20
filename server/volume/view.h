/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The view of a volume: the stored record with fields derived from claims and nodes, never stored. */

#include "plugin/plugins.h"
#include "state/state.h"

#include <holdfast/v1/types.pb-c.h>

struct server;

enum { VOLUME_VIEW_CACHE_N = 8 };

/* Summaries of plugins, good for the duration of one callback: a page of volumes looks at the instances of
 * each of its plugins once. */
struct volume_view_cache {
	struct {
		const struct plugin_entry *plugin;
		char profile[PROFILE_MAX + 1];
		struct plugin_summary summary;
	} entries[VOLUME_VIEW_CACHE_N];
	size_t n; /* ever filled; the next one takes the place n modulo VOLUME_VIEW_CACHE_N */
};

/** All fields, secrets and mount flags redacted. @with_claims also the claims, live ones and the history that
 * is kept. @cache may be NULL. NULL when memory is short; owned by the caller. Costs the number of the
 * plugin's instances for schedulability, unless @cache has it, and that of the volume's claims. */
Holdfast__V1__Volume *volume_view(struct server *server, struct volume_entry *entry, bool with_claims,
				  struct volume_view_cache *cache);

/** Returns the volume's claims, live ones and then its history, the newest first. @node_id: only of that
 * node, NULL: of all. @since: without those that were freed in this revision or before. The caller owns @ret
 * with its elements, also when it returns false: memory is short and some are left out.
 * @ret_why why the history is left out; a message's text, or NULL */
bool volume_show_claims(struct server *server, const struct volume_entry *entry, const char *node_id,
			uint64_t since, Holdfast__V1__Claim ***ret, size_t *ret_n, char **ret_why);
