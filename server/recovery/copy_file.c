/* SPDX-License-Identifier: Apache-2.0 */
#include "recovery/copy_file.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/folder.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK = 1 << 16 };

static void free_digestp(EVP_MD_CTX **ctx)
{
	EVP_MD_CTX_free(*ctx);
}

enum status copy_folder_make(const char *path, struct error *err)
{
	cleanup_closedir DIR *dir = NULL;
	const struct dirent *entry;
	int r;

	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return error_set(err, status_from_errno(errno), errno, "make %s", path);
	dir = opendir(path);
	if (!dir)
		return error_set(err, status_from_errno(errno), errno, "open %s", path);
	while ((r = folder_next(dir, &entry)) > 0)
		if (entry->d_name[0] != '.')
			(void)unlinkat(dirfd(dir), entry->d_name, 0); /* a folder in it is not ours */
	return r < 0 ? error_set(err, status_from_errno(r), r, "read %s", path) : STATUS_OK;
}

enum status copy_move(const char *from, const char *to, struct error *err)
{
	int r = rename(from, to) < 0 ? -errno : file_sync_folder(to);

	return r < 0 ? error_set(err, status_from_errno(r), r, "move %s to %s", from, to) : STATUS_OK;
}

void copy_remove(const char *path)
{
	static const char *const suffixes[] = {"", "-wal", "-shm", "-lock", "-journal"};
	char name[PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++)
		if (str_format(name, sizeof(name), "%s%s", path, suffixes[i]) >= 0)
			(void)unlink(name); /* most of them do not exist */
}

enum status store_file_open(const char *path, struct store_file *ret, struct error *err)
{
	int r = sd_event_new(&ret->event);

	if (r < 0)
		return error_set(err, status_from_errno(r), r, "make an event loop");
	return kv_open_sqlite(ret->event, path, &ret->kv, err);
}

void store_file_closep(struct store_file *file)
{
	kv_close(file->kv);
	(void)sd_event_unref(file->event);
}

enum status copy_digest(const char *path, uint8_t sha256[static COPY_SHA256_SIZE], uint64_t *ret_size,
			struct error *err)
{
	cleanup(free_digestp) EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	cleanup_free uint8_t *chunk = malloc(CHUNK);
	uint64_t size = 0;
	ssize_t n = 0;

	if (fd < 0)
		return error_set(err, status_from_errno(errno), errno, "open %s", path);
	if (!ctx || !chunk || EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) != 1)
		return error_no_memory(err, "a copy");
	while ((n = read(fd, chunk, CHUNK)) > 0) {
		if (EVP_DigestUpdate(ctx, chunk, (size_t)n) != 1)
			return error_set(err, STATUS_INTERNAL, 0, "hash %s", path);
		size += (uint64_t)n;
	}
	if (n < 0)
		return error_set(err, status_from_errno(errno), errno, "read %s", path);
	if (EVP_DigestFinal_ex(ctx, sha256, NULL) != 1)
		return error_set(err, STATUS_INTERNAL, 0, "hash %s", path);
	*ret_size = size;
	return STATUS_OK;
}
