/* SPDX-License-Identifier: Apache-2.0 */
#include "helper/picture.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int compare_mounts(const struct picture_mount *a, const struct picture_mount *b)
{
	int order = strcmp(a->volume, b->volume);

	if (order == 0)
		order = strcmp(a->alloc, b->alloc);
	return order ? order : a->slot - b->slot;
}

TREE_GENERATE(picture_mounts, picture_mount, entry, compare_mounts)

struct picture *picture_new(void)
{
	struct picture *picture = calloc(1, sizeof(*picture));

	if (!picture)
		return NULL;
	RB_INIT(&picture->staged);
	RB_INIT(&picture->published);
	return picture;
}

static void clear(struct picture_mounts *mounts)
{
	struct picture_mount *mount, *next;

	RB_FOREACH_SAFE (mount, picture_mounts, mounts, next) {
		RB_REMOVE(picture_mounts, mounts, mount);
		free(mount);
	}
}

void picture_free(struct picture *picture)
{
	if (!picture)
		return;
	clear(&picture->staged);
	clear(&picture->published);
	free(picture);
}

static struct picture_mount *find(const struct picture_mounts *mounts, const char *volume, const char *alloc,
				  uint8_t slot)
{
	struct picture_mount key = {.slot = slot};
	/* the lookup changes nothing, the macro does not know */
	struct picture_mounts root = *mounts;

	if (str_copy(key.volume, sizeof(key.volume), volume) < 0 ||
	    str_copy(key.alloc, sizeof(key.alloc), alloc) < 0)
		return NULL;
	return RB_FIND(picture_mounts, &root, &key);
}

static enum status add_profile(struct picture *picture, const struct mh_list_entry *entry, struct error *err)
{
	struct picture_profile *profile;

	if (picture->n_profiles >= PICTURE_PROFILES_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "the mount helper's policy has more than %d profiles", PICTURE_PROFILES_MAX);
	profile = &picture->profiles[picture->n_profiles++];
	memcpy(profile->name, entry->volume, sizeof(profile->name));
	profile->class = (enum mh_class)entry->class;
	profile->is_available = (entry->state & MH_STATE_AVAILABLE) != 0;
	return STATUS_OK;
}

enum status picture_add(struct picture *picture, enum mh_list_kind kind, const struct mh_list_entry *entry,
			struct error *err)
{
	struct picture_mounts *mounts = kind == MH_LIST_STAGED ? &picture->staged : &picture->published;
	size_t *n = kind == MH_LIST_STAGED ? &picture->n_staged : &picture->n_published;
	size_t max = kind == MH_LIST_STAGED ? PICTURE_STAGED_MAX : PICTURE_PUBLISHED_MAX;
	const char *volume = kind == MH_LIST_STAGED ? entry->volume : "";
	const char *alloc = kind == MH_LIST_STAGED ? "" : entry->alloc;
	uint8_t slot = kind == MH_LIST_STAGED ? 0 : entry->slot;
	struct picture_mount *mount;

	if (kind == MH_LIST_PROFILES)
		return add_profile(picture, entry, err);
	mount = find(mounts, volume, alloc, slot);
	if (!mount) {
		if (*n >= max)
			return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
					 "the mount helper lists more than %zu %s volumes", max,
					 kind == MH_LIST_STAGED ? "staged" : "published");
		mount = calloc(1, sizeof(*mount));
		if (!mount)
			return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot note a mount");
		(void)str_copy(mount->volume, sizeof(mount->volume), volume);
		(void)str_copy(mount->alloc, sizeof(mount->alloc), alloc);
		mount->slot = slot;
		RB_INSERT(picture_mounts, mounts, mount);
		++*n;
	}
	mount->state = entry->state;
	mount->dev_major = entry->dev_major;
	mount->dev_minor = entry->dev_minor;
	return STATUS_OK;
}

const struct picture_mount *picture_staged(const struct picture *picture, const char *volume)
{
	return find(&picture->staged, volume, "", 0);
}

const struct picture_mount *picture_published(const struct picture *picture, const char *alloc, uint8_t slot)
{
	return find(&picture->published, "", alloc, slot);
}

static void drop(struct picture_mounts *mounts, size_t *n, struct picture_mount *mount)
{
	if (!mount)
		return;
	RB_REMOVE(picture_mounts, mounts, mount);
	--*n;
	free(mount);
}

void picture_remove_staged(struct picture *picture, const char *volume)
{
	drop(&picture->staged, &picture->n_staged, find(&picture->staged, volume, "", 0));
}

void picture_remove_published(struct picture *picture, const char *alloc, uint8_t slot)
{
	drop(&picture->published, &picture->n_published, find(&picture->published, "", alloc, slot));
}

static struct picture_mount *next_of(const struct picture_mounts *mounts, struct picture_mount *previous)
{
	struct picture_mounts root = *mounts;

	return previous ? RB_NEXT(picture_mounts, &root, previous) : RB_MIN(picture_mounts, &root);
}

struct picture_mount *picture_next_staged(const struct picture *picture, struct picture_mount *previous)
{
	return next_of(&picture->staged, previous);
}

struct picture_mount *picture_next_published(const struct picture *picture, struct picture_mount *previous)
{
	return next_of(&picture->published, previous);
}

/* Profiles first: they are what the server waits for. */
static const enum mh_list_kind order[] = {MH_LIST_PROFILES, MH_LIST_STAGED, MH_LIST_PUBLISHED};

static void on_page(const union helper_reply *reply, const struct error *err, void *userdata);

void picture_load_init(struct picture_load *load, struct helper_client *client, picture_done_fn *done,
		       void *userdata)
{
	*load = (struct picture_load){.client = client, .done = done, .userdata = userdata};
}

void picture_load_release(struct picture_load *load)
{
	picture_free(TAKE_PTR(load->picture));
}

static enum status load_ask(struct picture_load *load, uint32_t cursor, struct error *err)
{
	union helper_request request;

	helper_request_list(load->kind, cursor, &request);
	return helper_client_request(load->client, &request, HELPER_URGENT, on_page, load, err);
}

static void load_finish(struct picture_load *load, const struct error *err)
{
	struct picture *picture = TAKE_PTR(load->picture);

	if (err) {
		picture_free(picture);
		picture = NULL;
	}
	load->done(picture, err, load->userdata);
}

/* The kind after this one; false when this was the last. */
static bool next_kind(struct picture_load *load)
{
	for (size_t i = 0; i + 1 < ARRAY_SIZE(order); i++) {
		if (order[i] == load->kind) {
			load->kind = order[i + 1];
			return true;
		}
	}
	return false;
}

static enum status load_begin(struct picture_load *load, struct error *err)
{
	enum status status;

	picture_load_release(load);
	load->picture = picture_new();
	if (!load->picture)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot read the kernel picture");
	load->is_stale = false;
	load->kind = order[0];
	status = load_ask(load, 0, err);
	if (status != STATUS_OK)
		picture_load_release(load);
	return status;
}

static enum status load_apply_page(struct picture_load *load, const struct mh_list_reply *page,
				   struct error *err)
{
	enum status status;

	if (page->status != MH_OK && page->status != MH_ALREADY)
		return error_set(err, STATUS_UNAVAILABLE, page->sys_errno,
				 "the mount helper cannot list its mounts (status %u)", page->status);
	for (size_t i = 0; i < page->count; i++) {
		status = picture_add(load->picture, load->kind, &page->entries[i], err);
		if (status != STATUS_OK)
			return status;
	}
	return STATUS_OK;
}

static void on_page(const union helper_reply *reply, const struct error *err, void *userdata)
{
	struct picture_load *load = userdata;
	struct error failure;
	enum status status;

	if (err) {
		load_finish(load, err);
		return;
	}
	if (load->is_stale) {
		status = load_begin(load, &failure);
	} else {
		status = load_apply_page(load, &reply->list, &failure);
		if (status == STATUS_OK && reply->list.cursor == 0 && !next_kind(load)) {
			load_finish(load, NULL);
			return;
		}
		if (status == STATUS_OK)
			status = load_ask(load, reply->list.cursor, &failure);
	}
	if (status != STATUS_OK)
		load_finish(load, &failure);
}

enum status picture_load_start(struct picture_load *load, struct error *err)
{
	if (load->picture) {
		load->is_stale = true;
		return STATUS_OK;
	}
	return load_begin(load, err);
}
