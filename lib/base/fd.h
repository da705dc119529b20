/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Descriptors and whole files. All return 0 or a positive result, or a negative errno. */

#include <stddef.h>
#include <sys/types.h>

/** Write all @n bytes, restarting after signals and short writes. */
int fd_write_all(int fd, const void *bytes, size_t n);

/** Read until end of file into a new NUL-terminated buffer.
 * @max     most bytes accepted; one more is -EFBIG
 * @ret     owned by the caller, free()
 * @ret_len without the NUL; may be NULL */
int fd_read_all(int fd, size_t max, char **ret, size_t *ret_len);

/** Opens the regular file at @path for reading; -EISDIR or -EINVAL when it is something else. */
int file_open(const char *path);

/** fd_read_all of file_open. */
int file_read(const char *path, size_t max, char **ret, size_t *ret_len);

/** How the temporary file of file_write_atomic() ends, which one that is killed leaves: PATH.PID.tmp */
#define FILE_TMP_SUFFIX ".tmp"

/** Replace @path by @n bytes durably: temporary file in the same folder, fsync, rename, fsync of the folder.
 * Never leaves a half-written @path. */
int file_write_atomic(const char *path, mode_t mode, const void *bytes, size_t n);

/** Make the directory entry @path durable: fsync of the folder that holds it. */
int file_sync_folder(const char *path);
