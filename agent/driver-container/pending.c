/* SPDX-License-Identifier: Apache-2.0 */
#include "pending.h"

#include "container.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/folder.h"
#include "base/str.h"
#include "model/order.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FOLDER_MODE = 0700, FILE_MODE = 0600, FILE_SIZE_MAX = 2 << 20 };

/* The body of the order follows until the container is compared. */
struct head {
	struct order order;
	char id[CONTAINER_ID_SIZE];
	int64_t compared_ms; /* when the run began that was compared; 0: it was not */
	uint64_t is_ended;   /* by DestroyTask */
};

enum status pending_put(const char *state_dir, const char *name, const char *id, const struct taken *taken,
			struct error *err)
{
	struct head head = {.order = taken->order};
	size_t n = sizeof(head) + protobuf_c_message_get_packed_size(taken->body);
	cleanup_free uint8_t *bytes = malloc(n);
	char path[PATH_MAX];
	int r = -ENAMETOOLONG;

	if (!bytes)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "keep an order");
	(void)str_copy(head.id, sizeof(head.id), id);
	memcpy(bytes, &head, sizeof(head));
	(void)protobuf_c_message_pack(taken->body, bytes + sizeof(head));
	if (str_format(path, sizeof(path), "%s/pending", state_dir) >= 0)
		r = mkdir(path, FOLDER_MODE) < 0 && errno != EEXIST ? -errno : 0;
	if (r == 0 && str_format(path, sizeof(path), "%s/pending/%s", state_dir, name) >= 0)
		r = file_write_atomic(path, FILE_MODE, bytes, n);
	return r < 0 ? error_set(err, status_from_errno(r), r, "write %s", path) : STATUS_OK;
}

void pending_remove(const char *state_dir, const char *name)
{
	char path[PATH_MAX];

	if (str_format(path, sizeof(path), "%s/pending/%s", state_dir, name) >= 0)
		(void)unlink(path);
}

/* Returns a descriptor or a negative errno. */
static int open_file(const char *state_dir, const char *name, int flags)
{
	char path[PATH_MAX];
	int fd;

	if (str_format(path, sizeof(path), "%s/pending/%s", state_dir, name) < 0)
		return -ENAMETOOLONG;
	fd = open(path, flags | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? -errno : fd;
}

enum status pending_end(const char *state_dir, const char *name, struct error *err)
{
	const uint64_t is_ended = 1;
	cleanup_close int fd = open_file(state_dir, name, O_WRONLY);
	int r = fd < 0 ? fd : 0;

	if (r == -ENOENT)
		return STATUS_OK;
	if (r == 0 && (pwrite(fd, &is_ended, sizeof(is_ended), offsetof(struct head, is_ended)) < 0 ||
		       fdatasync(fd) < 0))
		r = -errno;
	return r < 0 ? error_set(err, status_from_errno(r), r, "write %s/pending/%s", state_dir, name)
		     : STATUS_OK;
}

bool pending_may_start(const char *state_dir, const char *name, const uint8_t nonce[static ORDER_NONCE_SIZE],
		       bool is_done)
{
	cleanup_close int fd = open_file(state_dir, name, O_RDONLY);
	struct head head;

	if (fd == -ENOENT)
		return !is_done;
	if (fd < 0 || pread(fd, &head, sizeof(head), 0) != sizeof(head))
		return false;
	return memcmp(head.order.nonce, nonce, ORDER_NONCE_SIZE) == 0 ? head.is_ended == 0 : !is_done;
}

/* The body goes last: half of this is no comparison. */
void pending_settle(const char *state_dir, const char *name, int64_t started_ms)
{
	cleanup_close int fd = open_file(state_dir, name, O_WRONLY);

	if (fd >= 0 && pwrite(fd, &started_ms, sizeof(started_ms), offsetof(struct head, compared_ms)) ==
			       sizeof(started_ms))
		(void)!ftruncate(fd, sizeof(struct head));
}

bool pending_was_compared(const char *state_dir, const char *name,
			  const uint8_t nonce[static ORDER_NONCE_SIZE], int64_t started_ms)
{
	cleanup_free char *bytes = NULL;
	char path[PATH_MAX];
	struct head head;
	size_t n = 0;

	if (str_format(path, sizeof(path), "%s/pending/%s", state_dir, name) < 0 ||
	    file_read(path, sizeof(head), &bytes, &n) < 0 || n != sizeof(head))
		return false;
	memcpy(&head, bytes, sizeof(head));
	return memcmp(head.order.nonce, nonce, ORDER_NONCE_SIZE) == 0 && head.compared_ms != 0 &&
	       head.compared_ms == started_ms;
}

static enum status read_one(const char *path, char ret_id[static CONTAINER_ID_SIZE], struct taken *ret,
			    struct error *err)
{
	cleanup_free char *bytes = NULL;
	ProtobufCBinaryData order, body;
	size_t n = 0;
	int r = file_read(path, FILE_SIZE_MAX, &bytes, &n);

	if (r == 0 && n >= sizeof(struct head))
		(void)str_format(ret_id, CONTAINER_ID_SIZE, "%.*s", CONTAINER_ID_SIZE - 1,
				 bytes + offsetof(struct head, id));
	if (r < 0 || n < sizeof(struct head) || !container_is_id(ret_id))
		return error_set(err, STATUS_DATA_LOSS, r, "%s holds no order", path);
	order = (ProtobufCBinaryData){sizeof(ret->order), (uint8_t *)bytes};
	if (n == sizeof(struct head))
		return order_read(order.data, order.len, &ret->order, err);
	body = (ProtobufCBinaryData){n - sizeof(struct head), (uint8_t *)bytes + sizeof(struct head)};
	return order_recall(&order, &body, ret, err);
}

enum status pending_each(const char *state_dir, pending_fn *visit, void *userdata, struct error *err)
{
	cleanup_closedir DIR *folder = NULL;
	const struct dirent *entry;
	char path[PATH_MAX];
	int r;

	if (str_format(path, sizeof(path), "%s/pending", state_dir) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, ENAMETOOLONG, "read pending in %s", state_dir);
	folder = opendir(path);
	r = folder || errno == ENOENT ? 0 : -errno;
	while (folder && (r = folder_next(folder, &entry)) > 0) {
		struct taken taken = {.reason = ""};
		char id[CONTAINER_ID_SIZE] = "";
		struct error own;

		if (!str_starts_with(entry->d_name, "holdfast-") ||
		    str_format(path, sizeof(path), "%s/pending/%s", state_dir, entry->d_name) < 0)
			continue;
		if (read_one(path, id, &taken, &own) == STATUS_OK) {
			visit(entry->d_name, id, &taken, NULL, userdata);
			continue;
		}
		taken_release(&taken);
		visit(entry->d_name, id, NULL, &own, userdata);
	}
	return r < 0 ? error_set(err, status_from_errno(r), r, "read the folder pending in %s", state_dir)
		     : STATUS_OK;
}
