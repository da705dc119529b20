/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The mount snapshot: what the mount helper reports as staged and published on this node, and what its policy
 * offers. Read whole after each start of the helper, kept up to date by our own operations in between. */

#include "mounthelper_wire.h"

#include "base/error.h"
#include "base/tree.h"
#include "helper/client.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	MOUNT_SNAPSHOT_STAGED_MAX = 4096,
	MOUNT_SNAPSHOT_STRAYS_MAX = 256, /* that are kept: a plugin can make as many as it wants */
	MOUNT_SNAPSHOT_PUBLISHED_MAX = 16384,
	MOUNT_SNAPSHOT_PROFILES_MAX = 128,
};

struct mount_snapshot_entry {
	RB_ENTRY(mount_snapshot_entry) entry;
	char volume[MH_LABEL_SIZE]; /* of a stage; empty in a publish */
	char alloc[MH_UUID_SIZE];   /* of a publish; empty in a stage */
	uint8_t slot;
	uint16_t state; /* MH_STATE_* */
	uint32_t dev_major;
	uint32_t dev_minor;
};

struct mount_snapshot_profile {
	char name[MH_LABEL_SIZE];
	enum mh_class class;
	bool is_available; /* the kernel knows its file system type */
};

RB_HEAD(mount_snapshot_tree, mount_snapshot_entry);

struct mount_snapshot {
	struct mount_snapshot_tree staged;    /* by volume */
	struct mount_snapshot_tree published; /* by allocation, then slot */
	struct mount_snapshot_tree strays; /* of plugins, by name: no volume of the helper's, to be shown */
	size_t n_staged;
	size_t n_published;
	size_t n_strays;
	struct mount_snapshot_profile profiles[MOUNT_SNAPSHOT_PROFILES_MAX];
	size_t n_profiles;
};

/** An empty one, owned by the caller, mount_snapshot_free(); NULL when memory is short. */
struct mount_snapshot *mount_snapshot_new(void);
void mount_snapshot_free(struct mount_snapshot *observed);

/** Add one entry of a list of @kind, or replace an existing one. STATUS_RESOURCE_EXHAUSTED above the limits;
 * strays above theirs are ignored. */
enum status mount_snapshot_add(struct mount_snapshot *observed, enum mh_list_kind kind,
			       const struct mh_list_entry *entry, struct error *err);

const struct mount_snapshot_entry *mount_snapshot_staged(const struct mount_snapshot *observed,
							 const char *volume);
const struct mount_snapshot_entry *mount_snapshot_published(const struct mount_snapshot *observed,
							    const char *alloc, uint8_t slot);

void mount_snapshot_remove_staged(struct mount_snapshot *observed, const char *volume);
void mount_snapshot_remove_published(struct mount_snapshot *observed, const char *alloc, uint8_t slot);

/** For each mount, in order; NULL at the end. @previous NULL: the first. */
struct mount_snapshot_entry *mount_snapshot_next_staged(const struct mount_snapshot *observed,
							struct mount_snapshot_entry *previous);
struct mount_snapshot_entry *mount_snapshot_next_published(const struct mount_snapshot *observed,
							   struct mount_snapshot_entry *previous);
struct mount_snapshot_entry *mount_snapshot_next_stray(const struct mount_snapshot *observed,
						       struct mount_snapshot_entry *previous);

/* Reading it from the mount helper, page by page, before every other request. */

/** @observed handed over, mount_snapshot_free(); NULL on failure with the cause in @err. */
typedef void mount_snapshot_done_fn(struct mount_snapshot *observed, const struct error *err, void *userdata);

/* Embedded in its owner. */
struct mount_snapshot_load {
	struct helper_client *client; /* borrowed */
	mount_snapshot_done_fn *done;
	void *userdata;
	struct mount_snapshot *observed; /* being filled; NULL: no load is in flight */
	enum mh_list_kind kind;		 /* being read */
	bool is_stale; /* requested again while in flight: the entries read so far do not count */
};

void mount_snapshot_load_init(struct mount_snapshot_load *load, struct helper_client *client,
			      mount_snapshot_done_fn *done, void *userdata);

/** The helper client must be freed before. */
void mount_snapshot_load_release(struct mount_snapshot_load *load);

/** Read the mount snapshot from the beginning; @done runs once, from the event loop, also after several
 * starts. */
enum status mount_snapshot_load_start(struct mount_snapshot_load *load, struct error *err);
