/* SPDX-License-Identifier: Apache-2.0 */
#include "helper/mount_snapshot.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int compare_mounts(const struct mount_snapshot_entry *a, const struct mount_snapshot_entry *b)
{
	int order = strcmp(a->volume, b->volume);

	if (order == 0)
		order = strcmp(a->alloc, b->alloc);
	return order ? order : a->slot - b->slot;
}

TREE_GENERATE(mount_snapshot_tree, mount_snapshot_entry, entry, compare_mounts)

struct mount_snapshot *mount_snapshot_new(void)
{
	struct mount_snapshot *observed = calloc(1, sizeof(*observed));

	if (!observed)
		return NULL;
	RB_INIT(&observed->staged);
	RB_INIT(&observed->published);
	RB_INIT(&observed->strays);
	return observed;
}

static void clear(struct mount_snapshot_tree *mounts)
{
	struct mount_snapshot_entry *mount, *next;

	RB_FOREACH_SAFE (mount, mount_snapshot_tree, mounts, next) {
		RB_REMOVE(mount_snapshot_tree, mounts, mount);
		free(mount);
	}
}

void mount_snapshot_free(struct mount_snapshot *observed)
{
	if (!observed)
		return;
	clear(&observed->staged);
	clear(&observed->published);
	clear(&observed->strays);
	free(observed);
}

static struct mount_snapshot_entry *mount_snapshot_find(const struct mount_snapshot_tree *mounts,
							const char *volume, const char *alloc, uint8_t slot)
{
	struct mount_snapshot_entry key = {.slot = slot};
	/* the lookup changes nothing, the macro does not know */
	struct mount_snapshot_tree root = *mounts;

	if (str_copy(key.volume, sizeof(key.volume), volume) < 0 ||
	    str_copy(key.alloc, sizeof(key.alloc), alloc) < 0)
		return NULL;
	return RB_FIND(mount_snapshot_tree, &root, &key);
}

static void drop(struct mount_snapshot_tree *mounts, size_t *n, struct mount_snapshot_entry *mount)
{
	if (!mount)
		return;
	RB_REMOVE(mount_snapshot_tree, mounts, mount);
	--*n;
	free(mount);
}

/* For a volume that the helper counts now, or that is gone. */
static void forget_stray(struct mount_snapshot *observed, const char *volume)
{
	drop(&observed->strays, &observed->n_strays, mount_snapshot_find(&observed->strays, volume, "", 0));
}

static enum status add_profile(struct mount_snapshot *observed, const struct mh_list_entry *entry,
			       struct error *err)
{
	struct mount_snapshot_profile *profile;

	if (observed->n_profiles >= MOUNT_SNAPSHOT_PROFILES_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "the mount helper's policy has more than %d profiles",
				 MOUNT_SNAPSHOT_PROFILES_MAX);
	profile = &observed->profiles[observed->n_profiles++];
	memcpy(profile->name, entry->volume, sizeof(profile->name));
	profile->class = (enum mh_class)entry->class;
	profile->is_available = (entry->state & MH_STATE_AVAILABLE) != 0;
	return STATUS_OK;
}

enum status mount_snapshot_add(struct mount_snapshot *observed, enum mh_list_kind kind,
			       const struct mh_list_entry *entry, struct error *err)
{
	bool is_stray = kind == MH_LIST_STAGED && (entry->state & MH_STATE_UNCOUNTED) != 0;
	struct mount_snapshot_tree *mounts = is_stray		      ? &observed->strays
					     : kind == MH_LIST_STAGED ? &observed->staged
								      : &observed->published;
	size_t *n = is_stray		     ? &observed->n_strays
		    : kind == MH_LIST_STAGED ? &observed->n_staged
					     : &observed->n_published;
	size_t max = kind == MH_LIST_STAGED ? MOUNT_SNAPSHOT_STAGED_MAX : MOUNT_SNAPSHOT_PUBLISHED_MAX;
	const char *volume = kind == MH_LIST_STAGED ? entry->volume : "";
	const char *alloc = kind == MH_LIST_STAGED ? "" : entry->alloc;
	uint8_t slot = kind == MH_LIST_STAGED ? 0 : entry->slot;
	struct mount_snapshot_entry *mount;

	if (kind == MH_LIST_PROFILES)
		return add_profile(observed, entry, err);
	if (kind == MH_LIST_STAGED && !is_stray)
		forget_stray(observed, volume);
	mount = mount_snapshot_find(mounts, volume, alloc, slot);
	if (!mount) {
		if (is_stray && *n >= MOUNT_SNAPSHOT_STRAYS_MAX)
			return STATUS_OK;
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
		RB_INSERT(mount_snapshot_tree, mounts, mount);
		++*n;
	}
	mount->state = entry->state;
	mount->dev_major = entry->dev_major;
	mount->dev_minor = entry->dev_minor;
	return STATUS_OK;
}

const struct mount_snapshot_entry *mount_snapshot_staged(const struct mount_snapshot *observed,
							 const char *volume)
{
	return mount_snapshot_find(&observed->staged, volume, "", 0);
}

const struct mount_snapshot_entry *mount_snapshot_published(const struct mount_snapshot *observed,
							    const char *alloc, uint8_t slot)
{
	return mount_snapshot_find(&observed->published, "", alloc, slot);
}

void mount_snapshot_remove_staged(struct mount_snapshot *observed, const char *volume)
{
	drop(&observed->staged, &observed->n_staged, mount_snapshot_find(&observed->staged, volume, "", 0));
	forget_stray(observed, volume);
}

void mount_snapshot_remove_published(struct mount_snapshot *observed, const char *alloc, uint8_t slot)
{
	drop(&observed->published, &observed->n_published,
	     mount_snapshot_find(&observed->published, "", alloc, slot));
}

static struct mount_snapshot_entry *next_of(const struct mount_snapshot_tree *mounts,
					    struct mount_snapshot_entry *previous)
{
	struct mount_snapshot_tree root = *mounts;

	return previous ? RB_NEXT(mount_snapshot_tree, &root, previous) : RB_MIN(mount_snapshot_tree, &root);
}

struct mount_snapshot_entry *mount_snapshot_next_staged(const struct mount_snapshot *observed,
							struct mount_snapshot_entry *previous)
{
	return next_of(&observed->staged, previous);
}

struct mount_snapshot_entry *mount_snapshot_next_published(const struct mount_snapshot *observed,
							   struct mount_snapshot_entry *previous)
{
	return next_of(&observed->published, previous);
}

struct mount_snapshot_entry *mount_snapshot_next_stray(const struct mount_snapshot *observed,
						       struct mount_snapshot_entry *previous)
{
	return next_of(&observed->strays, previous);
}

/* Profiles first: they are what the server waits for. */
static const enum mh_list_kind order[] = {MH_LIST_PROFILES, MH_LIST_STAGED, MH_LIST_PUBLISHED};

static void on_page(const union helper_reply *reply, const struct error *err, void *userdata);

void mount_snapshot_load_init(struct mount_snapshot_load *load, struct helper_client *client,
			      mount_snapshot_done_fn *done, void *userdata)
{
	*load = (struct mount_snapshot_load){.client = client, .done = done, .userdata = userdata};
}

void mount_snapshot_load_release(struct mount_snapshot_load *load)
{
	mount_snapshot_free(TAKE_PTR(load->observed));
}

static enum status load_ask(struct mount_snapshot_load *load, uint32_t cursor, struct error *err)
{
	union helper_request request;

	helper_request_list(load->kind, cursor, &request);
	return helper_client_request(load->client, &request, HELPER_URGENT, "", on_page, load, err);
}

static void load_finish(struct mount_snapshot_load *load, const struct error *err)
{
	struct mount_snapshot *observed = TAKE_PTR(load->observed);

	if (err) {
		mount_snapshot_free(observed);
		observed = NULL;
	}
	load->done(observed, err, load->userdata);
}

/* The kind after this one; false when this was the last. */
static bool next_kind(struct mount_snapshot_load *load)
{
	for (size_t i = 0; i + 1 < ARRAY_SIZE(order); i++) {
		if (order[i] == load->kind) {
			load->kind = order[i + 1];
			return true;
		}
	}
	return false;
}

static enum status load_begin(struct mount_snapshot_load *load, struct error *err)
{
	enum status status;

	mount_snapshot_load_release(load);
	load->observed = mount_snapshot_new();
	if (!load->observed)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot read the mount snapshot");
	load->is_stale = false;
	load->kind = order[0];
	status = load_ask(load, 0, err);
	if (status != STATUS_OK)
		mount_snapshot_load_release(load);
	return status;
}

static enum status load_apply_page(struct mount_snapshot_load *load, const struct mh_list_reply *page,
				   struct error *err)
{
	if (page->status != MH_OK && page->status != MH_ALREADY)
		return error_set(err, STATUS_UNAVAILABLE, page->sys_errno,
				 "the mount helper cannot list its mounts (status %u)", page->status);
	for (size_t i = 0; i < page->count; i++)
		TRY(mount_snapshot_add(load->observed, load->kind, &page->entries[i], err));
	return STATUS_OK;
}

static void on_page(const union helper_reply *reply, const struct error *err, void *userdata)
{
	struct mount_snapshot_load *load = userdata;
	struct error failure;
	enum status status;

	if (err) {
		load_finish(load, err);
		return;
	}
	/* a page that another instance, or this one after another request, cannot continue with */
	if (load->is_stale || reply->list.status == MH_CONFLICT) {
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

enum status mount_snapshot_load_start(struct mount_snapshot_load *load, struct error *err)
{
	if (load->observed) {
		load->is_stale = true;
		return STATUS_OK;
	}
	return load_begin(load, err);
}
