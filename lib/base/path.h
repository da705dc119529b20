#pragma once
/* Paths of directories that only root (or one named owner) can change.
 *
 * A directory is trusted when nobody but root and the named owner could have put it there or can replace it:
 * it is walked one component at a time without following links, and every level is checked on the descriptor
 * that is then used. */

#include <stdbool.h>
#include <sys/types.h>

/** Is @path absolute, normalised (no empty, "." or ".." component, no trailing slash) and shorter than
 * PATH_MAX? */
bool path_is_normal(const char *path);

/** Open the directory @path with O_PATH by walking from the directory @root_fd.
 *
 * @root_fd descriptor of "/" in the mount namespace meant
 * @path    path_is_normal()
 * Every directory on the way, @root_fd included and the last one excluded, must belong to uid 0 and be
 * writable by its owner alone (a sticky bit does not help). The last one is for the caller to check. Returns
 * the descriptor; -EINVAL for a malformed path, -EPERM for an untrusted level, -ELOOP or -ENOTDIR for a link,
 * or another errno of openat(2) and fstat(2). */
int path_open_trusted(int root_fd, const char *path);

/** path_open_trusted() of the parent; writes the last component into @ret_name of NAME_MAX + 1 bytes. */
int path_open_trusted_parent(int root_fd, const char *path, char *ret_name);

/** Open the regular file @path with @flags (not following a link; O_CREAT makes it with mode 0600), below
 * directories that path_open_trusted() accepts, the parent included.
 *
 * It must belong to uid 0 or @owner, have one link, and be writable by its owner alone: else -EPERM. Returns
 * the descriptor or a negative errno. */
int path_open_trusted_file(int root_fd, const char *path, int flags, uid_t owner);
