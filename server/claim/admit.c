/* SPDX-License-Identifier: Apache-2.0 */
#include "claim/admit.h"

#include "server.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "claim/release.h"
#include "model/admission.h"
#include "state/storage_index.h"
#include "volume/store.h"

#include <stdlib.h>

/* The live claims of a volume's storage as admission wants them. */
struct holders {
	const struct claim **claims; /* owned array of borrowed claims */
	struct holder *about;	     /* owned; NULL until a refusal must be explained */
	size_t n;
};

static void release_holders(struct holders *holders)
{
	free(holders->claims);
	free(holders->about);
}

static enum status find_holders(struct volume_entry *volume, struct holders *holders, struct error *err)
{
	size_t n_live = storage_n_live(volume);
	struct claim_entry *entry;

	if (n_live >= CLAIMS_PER_VOLUME_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "volume %s has %d claims, the most there may be", volume->volume.id,
				 CLAIMS_PER_VOLUME_MAX);
	holders->claims = calloc(n_live + 1, sizeof(const struct claim *));
	if (!holders->claims)
		return error_no_memory(err, "a claim");
	STORAGE_FOREACH_CLAIM (entry, volume)
		if (claim_is_live(&entry->claim))
			holders->claims[holders->n++] = &entry->claim;
	return STATUS_OK;
}

/* Without memory the explanation knows less. */
static const struct holder *look_at_holders(struct server *server, struct holders *holders)
{
	holders->about = calloc(holders->n + 1, sizeof(*holders->about));
	for (size_t i = 0; holders->about && i < holders->n; i++)
		holders->about[i] = claim_holder(server, holders->claims[i]);
	return holders->about;
}

enum status claim_admit(struct server *server, const struct asked *asked, const struct claim **ret_same,
			struct error *err)
{
	struct volume_entry *volume = asked->volume;
	cleanup(release_holders) struct holders holders = {0};
	struct admission in = {
		.volume_id = asked->volume_id,
		.volume = volume ? &volume->volume : NULL,
		.alloc = asked->alloc,
		.alloc_id = asked->alloc_id,
		.node = asked->node ? &asked->node->node : NULL,
		.volume_name = asked->volume_name,
		.now_ms = clock_realtime_ms(),
	};
	enum status status;

	if (volume && asked->node)
		in.plugin = node_entry_plugin(asked->node, &volume->volume);
	if (volume) {
		TRY(volume_store_check_usable(server, &volume->volume, err));
		TRY(find_holders(volume, &holders, err));
		in.claims = holders.claims;
		in.n_claims = holders.n;
	}
	status = admission_check(&in, ret_same, err);
	if (status == STATUS_OK && volume && asked->node && server->check_not_fenced)
		return server->check_not_fenced(server, asked->node, volume->volume.plugin_id, err);
	if (status != STATUS_FAILED_PRECONDITION || in.n_claims == 0)
		return status;
	in.holders = look_at_holders(server, &holders); /* costs more: only needed for a refusal */
	return admission_check(&in, ret_same, err);
}

enum status claim_admit_alloc(struct server *server, const struct alloc *alloc,
			      const struct volume_request *request, struct error *err)
{
	const struct node_entry *node = state_node(&server->state, alloc->node_id);
	const struct asked asked = {
		.namespace = alloc->namespace,
		.volume_id = request->source,
		.volume = state_volume(&server->state, alloc->namespace, request->source),
		.alloc_id = alloc->id,
		.volume_name = request->name,
		.alloc = alloc,
		.node = node,
	};
	const struct claim *same;
	enum status status = claim_admit(server, &asked, &same, err);

	return status == STATUS_ALREADY_EXISTS ? STATUS_OK : status;
}
