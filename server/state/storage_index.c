/* SPDX-License-Identifier: Apache-2.0 */
/* The other volumes of a storage, and the claims of all of them. */
#include "state/storage_index.h"

#include "base/cleanup.h"
#include "base/str.h"

static struct volume_entry *next_other(const struct volume_entry *volume, const struct storage_id *id,
				       struct volume_entry *at)
{
	if (!at && storage_is_alone(volume))
		return NULL;
	do
		at = at ? storage_next(volume->state, id, at) : storage_first(volume->state, id);
	while (at == volume);
	return at;
}

struct volume_entry *storage_next_other(const struct volume_entry *volume, struct volume_entry *at)
{
	return next_other(volume, &volume->storage, at);
}

/* The next claim with the external id @key behind @at (NULL: the first one) that names the storage. @part: of
 * what its provider's id names; NULL: all of it. */
static struct claim_entry *next_of_key(struct state *state, const char *plugin_id, const char *key,
				       const struct volume *part, const struct claim_entry *at)
{
	struct claim_entry *claim =
		at ? state_unmatched_next(at) : state_unmatched_from(state, plugin_id, key);

	while (claim && part && str_eq(claim->claim.external_id, key) &&
	       claim_is_of_other_context(&claim->claim, part))
		claim = state_unmatched_next(claim);
	return claim && str_eq(claim->claim.plugin_id, plugin_id) && str_eq(claim->claim.external_id, key)
		       ? claim
		       : NULL;
}

/* Those that name it by its id come first: digests of tickets, with the context and without, cost more. */
static struct claim_entry *next_wanted(struct state *state, const struct volume *volume,
				       const struct storage_id *id, const struct claim_entry *at)
{
	const struct storage_id all = storage_of_provider(id);
	char source[2][VOLUME_SOURCE_HEX_SIZE];
	struct volume without = *volume;
	struct claim_entry *claim = NULL;

	if (volume->type == VOLUME_CSI && (!at || str_eq(at->claim.external_id, volume->external_id))) {
		claim = next_of_key(state, volume->plugin_id, volume->external_id,
				    storage_id_eq(id, &all) ? NULL : volume, at);
		at = NULL; /* then the first digest */
	}
	if (claim)
		return claim;
	without.context_digest[0] = '\0';
	volume_source_hex(volume, source[0]);
	volume_source_hex(&without, source[1]);
	for (int i = 0; !claim && i < 1 + !str_eq(source[0], source[1]); i++) {
		if (at && !str_eq(at->claim.external_id, source[i]))
			continue;
		claim = next_of_key(state, volume->plugin_id, source[i], NULL, at);
		at = NULL;
	}
	return claim;
}

struct claim_entry *storage_next_unmatched(struct state *state, const struct volume *volume,
					   const struct storage_id *id, const struct claim_entry *at)
{
	return RB_EMPTY(&state->unmatched) || !id->is_known ? NULL : next_wanted(state, volume, id, at);
}

/* Is it a claim of a volume of that storage? */
static bool is_of_name(const struct claim_entry *claim, const struct volume_entry *volume,
		       const struct storage_id *id)
{
	return claim->volume == volume || storage_is_same(id, &claim->volume->storage);
}

/* Those of its names are not found again. */
static struct claim_entry *next_unmatched(const struct volume_entry *volume, const struct storage_id *id,
					  const struct claim_entry *at)
{
	struct claim_entry *claim = storage_next_unmatched(volume->state, &volume->volume, id, at);

	while (claim && is_of_name(claim, volume, id))
		claim = storage_next_unmatched(volume->state, &volume->volume, id, claim);
	return claim;
}

/* Is it a claim of a placeholder, which has no context, that is surely on another part of its id? */
static bool is_other_part(const struct volume_entry *volume, const struct storage_id *id,
			  const struct claim_entry *claim)
{
	const struct storage_id all = storage_of_provider(id);

	return claim->volume != volume && volume_is_placeholder(&claim->volume->volume) &&
	       !storage_id_eq(id, &all) && claim_is_of_other_context(&claim->claim, &volume->volume);
}

static size_t n_live_of(const struct volume_entry *volume, const struct volume_entry *other)
{
	const struct claim_entry *claim;
	size_t n = 0;

	if (!volume_is_placeholder(&other->volume))
		return other->n_live;
	LIST_FOREACH (claim, &other->claims, of_volume)
		n += claim_is_live(&claim->claim) && !is_other_part(volume, &volume->storage, claim);
	return n;
}

size_t storage_n_live(const struct volume_entry *volume)
{
	const struct claim_entry *claim = NULL;
	struct volume_entry *other = NULL;
	size_t n = volume->n_live;

	while ((other = storage_next_other(volume, other)))
		n += n_live_of(volume, other);
	while ((claim = next_unmatched(volume, &volume->storage, claim)))
		n++;
	return n;
}

static struct claim_entry *next_claim(const struct volume_entry *volume, const struct storage_id *id,
				      const struct claim_entry *at)
{
	struct claim_entry *claim = at ? LIST_NEXT(at, of_volume) : LIST_FIRST(&volume->claims);
	struct volume_entry *other = at && at->volume != volume ? at->volume : NULL;

	if (at && !is_of_name(at, volume, id))
		return next_unmatched(volume, id, at);
	while (!claim && (other = next_other(volume, id, other)))
		claim = LIST_FIRST(&other->claims);
	return claim ? claim : next_unmatched(volume, id, NULL);
}

/* @claim or the next one that is not surely on another part. */
static struct claim_entry *skip_other_parts(const struct volume_entry *volume, struct claim_entry *claim)
{
	while (claim && is_other_part(volume, &volume->storage, claim))
		claim = next_claim(volume, &volume->storage, claim);
	return claim;
}

struct claim_entry *storage_next_claim(const struct volume_entry *volume, const struct claim_entry *at)
{
	return skip_other_parts(volume, next_claim(volume, &volume->storage, at));
}

static struct claim_entry *next_by_others(const struct volume_entry *volume, const struct storage_id *id,
					  const struct claim_entry *at)
{
	struct volume_entry *other = NULL;
	struct claim_entry *claim = NULL;

	if (at)
		return next_claim(volume, id, at);
	while (!claim && (other = next_other(volume, id, other)))
		claim = LIST_FIRST(&other->claims);
	return claim ? claim : next_unmatched(volume, id, NULL);
}

struct claim_entry *storage_next_by_others(const struct volume_entry *volume, const struct claim_entry *at)
{
	return skip_other_parts(volume, next_by_others(volume, &volume->storage, at));
}

struct claim_entry *storage_next_attached(const struct volume_entry *volume, const struct claim_entry *at)
{
	const struct storage_id all = storage_of_provider(&volume->storage);

	return next_claim(volume, &all, at);
}

struct claim_entry *storage_next_attached_by_others(const struct volume_entry *volume,
						    const struct claim_entry *at)
{
	const struct storage_id all = storage_of_provider(&volume->storage);

	return next_by_others(volume, &all, at);
}

bool storage_is_attached_as(const struct volume_entry *a, const struct volume_entry *b)
{
	const struct storage_id all = storage_of_provider(&a->storage);

	return a == b || storage_is_same(&all, &b->storage);
}
