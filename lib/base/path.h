/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Paths of directories that only root (or one named owner) can change.
 *
 * A directory is trusted when only root and the named owner could have put it there or can replace it:
 * it is walked one component at a time without following links, and every level is checked on the descriptor
 * that is then used. */

#include <stdbool.h>
#include <sys/types.h>

/** Is @path absolute, normalised (no empty, "." or ".." component, no trailing slash) and shorter than
 * PATH_MAX? */
bool path_is_normal(const char *path);

/** Is @path @base itself or below it? Both are path_is_normal(). */
bool path_is_within(const char *path, const char *base);

/** Opens the directory @path with O_PATH by walking from the directory @root_fd.
 *
 * @root_fd descriptor of "/" in the mount namespace meant
 * @path    path_is_normal()
 * Every directory on the way, @root_fd included and the last one excluded, must belong to uid 0 and be
 * writable only by its owner (a sticky bit does not help). The caller checks the last one. Returns the
 * descriptor; -EINVAL for a malformed path, -EPERM for an untrusted level, -ELOOP or -ENOTDIR for a link,
 * or another errno of openat(2) and fstat(2). */
int path_open_trusted(int root_fd, const char *path);

/** path_open_trusted() of the parent; writes the last component into @ret_name of NAME_MAX + 1 bytes. */
int path_open_trusted_parent(int root_fd, const char *path, char *ret_name);

/** Opens the file @path below trusted directories with openat(2)'s @flags and @mode.
 *
 * It must be a regular file with one name, of uid 0 or of @owner, and writable only by its owner. Returns
 * the descriptor; -EINVAL when it is no regular file, -EPERM when it or a level above is not trusted, or
 * another errno as above. */
int path_open_trusted_file(int root_fd, const char *path, uid_t owner, int flags, mode_t mode);
