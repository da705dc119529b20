/* SPDX-License-Identifier: Apache-2.0 */
/* The other volumes of a storage, and the claims of all of them. */
#include "state/storage_index.h"

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

size_t storage_n_live(const struct volume_entry *volume)
{
	struct volume_entry *other = NULL;
	size_t n = volume->n_live;

	while ((other = storage_next_other(volume, other)))
		n += other->n_live;
	return n;
}

static struct claim_entry *next_claim(const struct volume_entry *volume, const struct storage_id *id,
				      const struct claim_entry *at)
{
	struct claim_entry *claim = at ? LIST_NEXT(at, of_volume) : LIST_FIRST(&volume->claims);
	struct volume_entry *other = at && at->volume != volume ? at->volume : NULL;

	while (!claim && (other = next_other(volume, id, other)))
		claim = LIST_FIRST(&other->claims);
	return claim;
}

struct claim_entry *storage_next_claim(const struct volume_entry *volume, const struct claim_entry *at)
{
	return next_claim(volume, &volume->storage, at);
}

struct claim_entry *storage_next_attached(const struct volume_entry *volume, const struct claim_entry *at)
{
	const struct storage_id all = storage_of_provider(&volume->storage);

	return next_claim(volume, &all, at);
}

bool storage_is_attached_as(const struct volume_entry *a, const struct volume_entry *b)
{
	const struct storage_id all = storage_of_provider(&a->storage);

	return a == b || storage_is_same(&all, &b->storage);
}
