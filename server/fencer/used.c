/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of orders that were carried out: NOT_AFTER-NONCE, empty or with the packed answer. */

#include "fencer/used.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/folder.h"
#include "base/parse.h"
#include "base/str.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
	NONCE_TEXT_SIZE = 2 * FENCE_ORDER_NONCE_SIZE + 1,
	NAME_SIZE = 24 + NONCE_TEXT_SIZE,
	ANSWER_MAX = 64 << 10,
	KEEP_MS = 24 * 3600 * 1000, /* a server may ask for the answer again */
};

#define FLOOR_NAME "floor"

struct used {
	char folder[PATH_MAX - NAME_MAX];
	int64_t floor_ms;
};

static enum status path_of(const struct used *used, const char *name, char ret[static PATH_MAX],
			   struct error *err)
{
	if (str_format(ret, PATH_MAX, "%s/%s", used->folder, name) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "the path of %s is too long", used->folder);
	return STATUS_OK;
}

static enum status path_of_order(const struct used *used, const struct fence_order *order,
				 char ret[static PATH_MAX], struct error *err)
{
	char nonce[NONCE_TEXT_SIZE], name[NAME_SIZE];

	hex_encode(nonce, order->nonce, sizeof(order->nonce));
	(void)str_format(name, sizeof(name), "%020" PRIu64 "-%s", order->not_after_ms, nonce);
	return path_of(used, name, ret, err);
}

static enum status read_floor(struct used *used, struct error *err)
{
	cleanup_free char *text = NULL;
	char path[PATH_MAX];
	uint64_t floor_ms = 0;
	int r;

	TRY(path_of(used, FLOOR_NAME, path, err));
	r = file_read(path, 64, &text, NULL);
	if (r == -ENOENT)
		return STATUS_OK;
	if (r == 0 && parse_u64(text, 0, INT64_MAX, &floor_ms) < 0)
		r = -EBADMSG;
	if (r < 0)
		return error_set(err, STATUS_DATA_LOSS, r, "read %s", path);
	used->floor_ms = (int64_t)floor_ms;
	return STATUS_OK;
}

enum status used_open(const char *folder, struct used **ret, struct error *err)
{
	struct used *used = calloc(1, sizeof(*used));
	enum status status;

	if (!used)
		return error_no_memory(err, "the list of orders");
	status = str_copy(used->folder, sizeof(used->folder), folder) < 0
			 ? error_set(err, STATUS_INVALID_ARGUMENT, 0, "state_dir: the path is too long")
			 : STATUS_OK;
	if (status == STATUS_OK && access(folder, W_OK | X_OK) < 0)
		status = error_set(err, status_from_errno(errno), errno, "state_dir: write to %s", folder);
	if (status == STATUS_OK)
		status = read_floor(used, err);
	if (status == STATUS_OK)
		*ret = used;
	else
		used_free(used);
	return status;
}

void used_free(struct used *used)
{
	free(used);
}

int64_t used_floor_ms(const struct used *used)
{
	return used->floor_ms;
}

enum status used_look(const struct used *used, const struct fence_order *order, enum used_state *ret,
		      Holdfast__V1__FenceAnswer **ret_answer, struct error *err)
{
	cleanup_free char *bytes = NULL;
	char path[PATH_MAX];
	size_t n = 0;
	int r;

	TRY(path_of_order(used, order, path, err));
	r = file_read(path, ANSWER_MAX, &bytes, &n);
	if (r == -ENOENT) {
		*ret = USED_NEW;
		return STATUS_OK;
	}
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "read %s", path);
	if (n == 0) {
		*ret = USED_BEGUN;
		return STATUS_OK;
	}
	*ret_answer = holdfast__v1__fence_answer__unpack(NULL, n, (const uint8_t *)bytes);
	if (!*ret_answer)
		return error_set(err, STATUS_DATA_LOSS, 0, "%s has not the form of an answer", path);
	*ret = USED_DONE;
	return STATUS_OK;
}

static enum status raise_floor(struct used *used, int64_t floor_ms, struct error *err)
{
	char path[PATH_MAX], text[32];
	int n, r;

	if (floor_ms <= used->floor_ms)
		return STATUS_OK;
	TRY(path_of(used, FLOOR_NAME, path, err));
	n = str_format(text, sizeof(text), "%" PRId64, floor_ms);
	r = file_write_atomic(path, 0600, text, (size_t)n);
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "write %s", path);
	used->floor_ms = floor_ms;
	return STATUS_OK;
}

/* The floor is durable before an order is forgotten. */
static enum status forget_one(struct used *used, const char *name, int64_t now_ms, struct error *err)
{
	char path[PATH_MAX], number[32];
	uint64_t not_after_ms;

	if (strcspn(name, "-") >= sizeof(number) || !strchr(name, '-'))
		return STATUS_OK;
	(void)str_format(number, sizeof(number), "%.*s", (int)strcspn(name, "-"), name);
	if (parse_u64(number + strspn(number, "0"), 0, INT64_MAX, &not_after_ms) < 0 ||
	    (int64_t)not_after_ms + KEEP_MS >= now_ms)
		return STATUS_OK;
	TRY(raise_floor(used, (int64_t)not_after_ms, err));
	TRY(path_of(used, name, path, err));
	(void)unlink(path); /* one that stays is tried again */
	return STATUS_OK;
}

static enum status forget_old(struct used *used, int64_t now_ms, struct error *err)
{
	cleanup_closedir DIR *dir = opendir(used->folder);
	const struct dirent *entry;
	int r = dir ? 0 : -errno;

	while (dir && (r = folder_next(dir, &entry)) > 0)
		TRY(forget_one(used, entry->d_name, now_ms, err));
	return r < 0 ? error_set(err, status_from_errno(r), r, "read %s", used->folder) : STATUS_OK;
}

enum status used_begin(struct used *used, const struct fence_order *order, int64_t now_ms, struct error *err)
{
	char path[PATH_MAX];
	int fd, r;

	TRY(forget_old(used, now_ms, err));
	TRY(path_of_order(used, order, path, err));
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	r = fd < 0 ? -errno : fsync(fd) < 0 ? -errno : 0;
	close_fdp(&fd);
	if (r == -EEXIST)
		return error_set(err, STATUS_ALREADY_EXISTS, 0, "the order was carried out before");
	if (r == 0)
		r = file_sync_folder(path);
	return r < 0 ? error_set(err, status_from_errno(r), r, "write %s", path) : STATUS_OK;
}

enum status used_finish(struct used *used, const struct fence_order *order,
			const Holdfast__V1__FenceAnswer *answer, struct error *err)
{
	size_t n = holdfast__v1__fence_answer__get_packed_size(answer);
	cleanup_free uint8_t *bytes = malloc(n + 1);
	char path[PATH_MAX];
	int r;

	if (!bytes)
		return error_no_memory(err, "an answer");
	TRY(path_of_order(used, order, path, err));
	(void)holdfast__v1__fence_answer__pack(answer, bytes);
	r = file_write_atomic(path, 0600, bytes, n);
	return r < 0 ? error_set(err, status_from_errno(r), r, "write %s", path) : STATUS_OK;
}
