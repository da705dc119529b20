/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The kernel picture: what the mount helper says is staged and published on this node, and what its policy
 * offers. Read whole after each start of the helper, kept up to date by our own operations in between. */

#include "mounthelper_wire.h"

#include "base/error.h"
#include "base/tree.h"
#include "helper/client.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	PICTURE_STAGED_MAX = 4096,
	PICTURE_PUBLISHED_MAX = 16384,
	PICTURE_PROFILES_MAX = 128,
};

struct picture_mount {
	RB_ENTRY(picture_mount) entry;
	char volume[MH_LABEL_SIZE]; /* of a stage; empty in a publish */
	char alloc[MH_UUID_SIZE];   /* of a publish; empty in a stage */
	uint8_t slot;
	uint16_t state; /* MH_STATE_* */
	uint32_t dev_major;
	uint32_t dev_minor;
};

struct picture_profile {
	char name[MH_LABEL_SIZE];
	enum mh_class class;
	bool is_available; /* the kernel knows its file system type */
};

RB_HEAD(picture_mounts, picture_mount);

struct picture {
	struct picture_mounts staged;	 /* by volume */
	struct picture_mounts published; /* by allocation, then slot */
	size_t n_staged;
	size_t n_published;
	struct picture_profile profiles[PICTURE_PROFILES_MAX];
	size_t n_profiles;
};

/** An empty one, owned by the caller, picture_free(); NULL when memory is short. */
struct picture *picture_new(void);
void picture_free(struct picture *picture);

/** Add one entry of a list of @kind, or replace what stands there. STATUS_RESOURCE_EXHAUSTED above the
 * limits. */
enum status picture_add(struct picture *picture, enum mh_list_kind kind, const struct mh_list_entry *entry,
			struct error *err);

const struct picture_mount *picture_staged(const struct picture *picture, const char *volume);
const struct picture_mount *picture_published(const struct picture *picture, const char *alloc, uint8_t slot);

void picture_remove_staged(struct picture *picture, const char *volume);
void picture_remove_published(struct picture *picture, const char *alloc, uint8_t slot);

/** For each mount, in order; NULL at the end. @previous NULL: the first. */
struct picture_mount *picture_next_staged(const struct picture *picture, struct picture_mount *previous);
struct picture_mount *picture_next_published(const struct picture *picture, struct picture_mount *previous);

/* Reading it from the mount helper, page by page, before every other request. */

/** @picture handed over, picture_free(); NULL when @err says why there is none. */
typedef void picture_done_fn(struct picture *picture, const struct error *err, void *userdata);

/* Embedded in its owner. */
struct picture_load {
	struct helper_client *client; /* borrowed */
	picture_done_fn *done;
	void *userdata;
	struct picture *picture; /* being filled; NULL: no load is under way */
	enum mh_list_kind kind;	 /* being read */
	bool is_stale;		 /* asked for again while under way: what was read so far does not count */
};

void picture_load_init(struct picture_load *load, struct helper_client *client, picture_done_fn *done,
		       void *userdata);

/** The helper client must be freed before. */
void picture_load_release(struct picture_load *load);

/** Read the picture from the beginning; @done runs once, from the event loop, also after several starts. */
enum status picture_load_start(struct picture_load *load, struct error *err);
