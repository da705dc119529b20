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

/* Counts one that is skipped; false: the walk ends. @left NULL: it skips any number. */
static bool skip(size_t *left)
{
	if (!left)
		return true;
	*left -= *left > 0;
	return *left > 0;
}

/* The next claim with the external id @key behind @at (NULL: the first one) that names the storage. @part: of
 * what its provider's id names; NULL: all of it. */
static struct claim_entry *next_of_key(struct state *state, const char *plugin_id, const char *key,
				       const struct volume *part, const struct claim_entry *at, size_t *left)
{
	struct claim_entry *claim =
		at ? state_unmatched_next(at) : state_unmatched_from(state, plugin_id, key);

	while (claim && part && str_eq(claim->claim.external_id, key) &&
	       claim_is_of_other_context(&claim->claim, part))
		claim = skip(left) ? state_unmatched_next(claim) : NULL;
	return claim && str_eq(claim->claim.plugin_id, plugin_id) && str_eq(claim->claim.external_id, key)
		       ? claim
		       : NULL;
}

/* Those that name it by its id come first: digests of tickets, with the context and without, cost more. */
static struct claim_entry *next_wanted(struct state *state, const struct volume *volume,
				       const struct storage_id *id, const struct claim_entry *at,
				       size_t *left)
{
	const struct storage_id all = storage_of_provider(id);
	char source[2][VOLUME_SOURCE_HEX_SIZE];
	struct volume without = *volume;
	struct claim_entry *claim = NULL;

	if (volume->type == VOLUME_CSI && (!at || str_eq(at->claim.external_id, volume->external_id))) {
		claim = next_of_key(state, volume->plugin_id, volume->external_id,
				    storage_id_eq(id, &all) ? NULL : volume, at, left);
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
		claim = next_of_key(state, volume->plugin_id, source[i], NULL, at, left);
		at = NULL;
	}
	return claim;
}

static struct claim_entry *find_unmatched(struct state *state, const struct volume *volume,
					  const struct storage_id *id, const struct claim_entry *at,
					  size_t *left)
{
	return RB_EMPTY(&state->unmatched) || !id->is_known ? NULL : next_wanted(state, volume, id, at, left);
}

struct claim_entry *storage_next_unmatched(struct state *state, const struct volume *volume,
					   const struct storage_id *id, const struct claim_entry *at)
{
	return find_unmatched(state, volume, id, at, NULL);
}

/* Is it a claim of a volume of that storage? */
static bool is_of_name(const struct claim_entry *claim, const struct volume_entry *volume,
		       const struct storage_id *id)
{
	return claim->volume == volume || storage_is_same(id, &claim->volume->storage);
}

/* Those of its names are not found again. */
static struct claim_entry *next_unmatched(const struct volume_entry *volume, const struct storage_id *id,
					  const struct claim_entry *at, size_t *left)
{
	struct claim_entry *claim = find_unmatched(volume->state, &volume->volume, id, at, left);

	while (claim && is_of_name(claim, volume, id))
		claim = skip(left) ? find_unmatched(volume->state, &volume->volume, id, claim, left) : NULL;
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
	while ((claim = next_unmatched(volume, &volume->storage, claim, NULL)))
		n++;
	return n;
}

/* The first claim of a name behind @other (NULL: the first of them), then of the unmatched ones. */
static struct claim_entry *first_of_others(const struct volume_entry *volume, const struct storage_id *id,
					   struct volume_entry *other, size_t *left)
{
	struct claim_entry *claim = NULL;

	while (!claim && (other = next_other(volume, id, other))) {
		claim = LIST_FIRST(&other->claims);
		if (!claim && !skip(left))
			return NULL;
	}
	return claim ? claim : next_unmatched(volume, id, NULL, left);
}

static struct claim_entry *next_claim(const struct volume_entry *volume, const struct storage_id *id,
				      const struct claim_entry *at, size_t *left)
{
	struct claim_entry *claim = at ? LIST_NEXT(at, of_volume) : LIST_FIRST(&volume->claims);

	if (at && !is_of_name(at, volume, id))
		return next_unmatched(volume, id, at, left);
	return claim ? claim
		     : first_of_others(volume, id, at && at->volume != volume ? at->volume : NULL, left);
}

/* @claim or the next one that is not surely on another part. */
static struct claim_entry *skip_other_parts(const struct volume_entry *volume, struct claim_entry *claim,
					    size_t *left)
{
	while (claim && is_other_part(volume, &volume->storage, claim))
		claim = skip(left) ? next_claim(volume, &volume->storage, claim, left) : NULL;
	return claim;
}

struct claim_entry *storage_next_claim(const struct volume_entry *volume, const struct claim_entry *at)
{
	return skip_other_parts(volume, next_claim(volume, &volume->storage, at, NULL), NULL);
}

struct claim_entry *storage_next_attached(const struct volume_entry *volume, const struct claim_entry *at)
{
	const struct storage_id all = storage_of_provider(&volume->storage);

	return next_claim(volume, &all, at, NULL);
}

struct claim_entry *storage_walk_next(struct storage_walk *walk, const struct claim_entry *at)
{
	const struct volume_entry *volume = walk->volume;
	const struct storage_id all = storage_of_provider(&volume->storage);
	const struct storage_id *id = walk->is_attached ? &all : &volume->storage;
	struct claim_entry *claim = !at && walk->is_by_others
					    ? first_of_others(volume, id, NULL, &walk->n_left)
					    : next_claim(volume, id, at, &walk->n_left);

	return walk->is_attached ? claim : skip_other_parts(volume, claim, &walk->n_left);
}

bool storage_is_attached_as(const struct volume_entry *a, const struct volume_entry *b)
{
	const struct storage_id all = storage_of_provider(&a->storage);

	return a == b || storage_is_same(&all, &b->storage);
}
