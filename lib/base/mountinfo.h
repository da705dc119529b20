/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Reads the mount table from a descriptor of /proc/PID/mountinfo.
 *
 * Its text is hostile input: names of mounts and sources come from any process that could mount. A NUL byte
 * or a malformed line fails the whole pass, and nothing is allocated.
 *
 * No line stops the pass by its length: a user who renames a folder above the root of a mount, or above its
 * own FUSE mount, makes a path of any length. In a line that does not fit, each long field loses bytes behind
 * its beginning. Even unescaped this is at least PATH_MAX, so a cut path differs from each that a caller may
 * have, and is within the same folders as before. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { MOUNTINFO_LINE_MAX = 128 * 1024, MOUNTINFO_CUT_FIELD = 4 * 4096 /* escaped: four bytes each */ };

/* One line; strings point into the caller's line and are unescaped. */
struct mount_entry {
	uint64_t id;
	uint64_t parent;
	uint32_t dev_major;
	uint32_t dev_minor;
	const char *root;
	const char *point;
	const char *options; /* of the mount */
	uint64_t peer_group; /* 0: not shared */
	uint64_t master;     /* peer group it is a slave of, or 0 */
	const char *type;
	const char *source;
	const char *super_options;
};

/** Takes @line (NUL-terminated, without its newline) apart in place. Returns 0 or -EBADMSG. Pure. */
int mountinfo_parse(char *line, struct mount_entry *ret);

/** Is @word one of the comma-separated items of @options? */
bool mount_option_is_set(const char *options, const char *word);

/** Do the options of a file system show that an error stopped writes to it? ext4 does since Linux 6.15, where
 * it no longer becomes read-only, and when it was shut down. */
bool mount_options_show_stop(const char *super_options);

struct mountinfo {
	int fd;
	off_t offset;	 /* of the next read */
	size_t have, at; /* bytes in the buffer, and how many of them are parsed */
	char buf[MOUNTINFO_LINE_MAX];
};

/** Starts a pass over all mounts. */
void mountinfo_rewind(struct mountinfo *mountinfo);

/** The next mount of the pass, oldest first. In one pass each mount that exists from its beginning to its end
 * comes once, also if others come and go meanwhile. Strings in @ret are valid until the next call.
 * Returns 1, 0 at the end, -EMSGSIZE for a line whose fields do not fit when cut, -EBADMSG for a malformed
 * one, or another negative errno. */
int mountinfo_next(struct mountinfo *mountinfo, struct mount_entry *ret);

/** Called for each mount; a value other than 0 ends the pass and is its result. */
typedef int mount_visit_fn(const struct mount_entry *entry, void *userdata);

/** One pass over all mounts. Returns 0, what @visit returned, or as mountinfo_next(). */
int mountinfo_each(struct mountinfo *mountinfo, mount_visit_fn *visit, void *userdata);

/** Finds the id of the last mount at @point; 0: not mounted. Returns 0, or as mountinfo_next(), @ret_id
 * untouched. */
int mountinfo_at(struct mountinfo *mountinfo, const char *point, uint64_t *ret_id);
