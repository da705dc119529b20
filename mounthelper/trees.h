/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Names below the two trees, and facts about them from the whole mount table.
 *
 *	stage base/VOLUME			one staged file system
 *	stage base/.csi/PLUGIN			class csi: the tree in this plugin's container
 *	stage base/.csi/PLUGIN/VOLUME		class csi, and in it
 *		staging				what the plugin stages for itself
 *		ro-publish			what it publishes for readers, a staged mount for us
 *		rw-publish			and for writers
 *	publish base/ALLOC/SLOT			one publish of a volume for an allocation
 *	publish base/ALLOC/.SLOT/VOLUME		its mark, an empty directory: of which volume that publish is
 *	publish base/.published/VOLUME/ALLOC.SLOT	its note, likewise: which publishes that volume has
 *
 * Mark and note are made before the mount and removed after it, and there is at most one mark for a slot. So
 * rmdir(2) of a volume's folder of notes succeeds only if the volume is not published. Only the helper and
 * root can make one, and it lasts as long as the mount itself, even if the state file is lost.
 *
 * Every name is one component that the helper formed itself; links are never followed. */

#include "helper.h"

#include "base/str.h"
#include "base/sys.h"
#include "privileged/place.h"

#include <fcntl.h>

enum { SLOT_NAME_SIZE = 4 };

/** Name of the directory of @slot; returns @ret. */
char *slot_name(uint8_t slot, char ret[static SLOT_NAME_SIZE]);

/** Marks the publish at @slot as one of @volume, before it is made. Returns 0, also when it was; -EEXIST when
 * it is marked as another volume's; or another negative errno. */
int publish_mark(int alloc_fd, uint8_t slot, const char *volume);

/** Removes that mark, if there is one. Returns 0 or a negative errno. */
int publish_unmark(int alloc_fd, uint8_t slot, const char *volume);

/** Does the mark of @slot name @volume? Returns 1, 0 or a negative errno. */
int publish_is_of(int alloc_fd, uint8_t slot, const char *volume);

#define PUBLISHES_FOLDER ".published"

struct publish_name {
	const char *volume;
	const char *alloc;
	uint8_t slot;
};

/** Makes or removes the note of a publish. Returns 0, also when it is so already, or a negative errno. */
int publish_note(const struct helper *h, const struct publish_name *name, bool is_there);

/** Removes the folder of the notes of @volume: true if there was one, and no note in it. */
bool publish_notes_are_none(const struct helper *h, const char *volume);

/** Pins the folder of @plugin, a profile of class csi, in the stage tree; with @make it is made. It is never
 * removed: the plugin's container, which started before its volumes came, would keep the removed one.
 * Returns 0; 1 when a folder on the way is not the helper's own; -ENOENT; or another negative errno. */
int plugin_folder_open(const struct helper *h, const char *plugin, bool make, struct place *ret);

/** Name of the target of a csi volume for this use. */
const char *csi_target_name(bool read_only);

/** Pins the mount of a directory at @name in @dir_fd. Returns 0; -ENOENT when nothing is mounted there, as
 * for the file of a block attachment; or another negative errno. */
int mount_open(int dir_fd, const char *name, struct place *ret);

/** Is @place a plain directory of ours in @tree: no mount, no foreign owner, not writable by others? */
bool place_is_own(const struct helper *h, const struct tree *tree, const struct place *place);

/** Finds where @path, a directory or a file below trusted ones, is in its file system, as the root of struct
 * mount_facts; with @all also where the mount point of that is in the next one, and so on up to "/". Writes
 * them behind those of h->own, and returns how many, or a negative errno. Leaves out those on NFS: the kernel
 * does not show their paths. */
int own_find(struct helper *h, int root_fd, const char *path, bool all);

/** Is @at, found so or the root of a mount, one of h->own, above one or in one? True if it is empty. A
 * process that could write there could put any object where names are looked up. The paths are the same
 * under each mount, owner and id mapping. */
bool own_is_shown(const struct helper *h, const char *at);

/** umount2(@name, NOFOLLOW | @flags) with @dir_fd as working directory, so that nothing but one name is
 * resolved. */
int place_unmount(const struct helper *h, int dir_fd, const char *name, int flags);

/** Does the kernel show a superblock of the file system @type on this block device, in any namespace? False
 * for types that it does not show; true if it cannot be asked. Asks no server and no daemon. */
bool superblock_is_alive(const struct helper *h, const char *type, uint32_t dev_major, uint32_t dev_minor);

/** Has the ext4 that the kernel has just opened on @device its journal there, in the inode for it? Uses the
 * kernel's report /proc/fs/jbd2/DEVICE-INODE: the device may answer differently when it is asked again. A
 * journal on another device is shown by that one's name. */
bool journal_is_inside(const struct helper *h, const struct place *device);

enum tree_kind {
	TREE_NONE,
	TREE_STAGED,
	TREE_PUBLISHED,
};

struct tree_name {
	char volume[MH_LABEL_SIZE];
	char plugin[MH_LABEL_SIZE]; /* staged: in whose folder; native: empty */
	char alloc[MH_UUID_SIZE];
	uint8_t slot;
};

/** Which of our names the mount point @point is. Pure. */
enum tree_kind tree_classify(const struct agent_policy *agent, const char *point, struct tree_name *ret);

/* A question to the whole mount table, and its answers. Only for what must be known of all mounts. */
struct census {
	/* asked for */
	uint32_t dev_major; /* of the device, 0:0 for no device */
	uint32_t dev_minor;
	const char *volume; /* or NULL */
	/* found */
	uint32_t staged;
	uint32_t published;
	uint32_t on_device; /* mounts of the device anywhere */
	uint32_t of_volume; /* publishes of the volume */
};

/** Fills the answers in @census by one pass. Returns 0 or a negative errno. */
int census_take(struct helper *h, struct census *census);

/* The counts of the state table, each under its lock. */

/** Counts one publish before it is attached. At the limit of the policy the mount table decides, as
 * the sum of all is never lowered but by that. Returns 0, -EMFILE, or another negative errno. */
int counts_begin_publish(struct helper *h);

/** The staged mount of @volume is gone, or did not come about. Should the lock not be had, it stays counted.
 */
void counts_end_stage(struct helper *h, const char *volume);
