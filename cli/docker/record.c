/* SPDX-License-Identifier: Apache-2.0 */
#include "docker/record.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/folder.h"
#include "base/id.h"
#include "base/str.h"
#include "base/uuid.h"
#include "model/message.h"
#include "rpc/pbjson.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#define SUFFIX ".json"

enum { RECORD_SIZE_MAX = 1 << 20 };

DEFINE_CLEANUP(Docker__VolumeRecord, record_free)

void record_free(Docker__VolumeRecord *record)
{
	if (record)
		protobuf_c_message_free_unpacked(&record->base, NULL);
}

static enum status read_boot(char ret[static UUID_SIZE], struct error *err)
{
	cleanup_free char *text = NULL;
	int r = file_read("/proc/sys/kernel/random/boot_id", UUID_SIZE, &text, NULL);

	if (r >= 0)
		text[strcspn(text, "\n")] = '\0';
	if (r < 0 || str_copy(ret, UUID_SIZE, text) < 0)
		return error_set(err, STATUS_INTERNAL, r, "cannot read the id of this boot");
	return STATUS_OK;
}

static enum status set_boot(Docker__VolumeRecord *record, struct error *err)
{
	char boot[UUID_SIZE];

	TRY(read_boot(boot, err));
	if (!message_set_text(&record->boot_id, boot))
		return error_no_memory(err, "a volume's record");
	return STATUS_OK;
}

enum status record_new(const Docker__VolumeRequest *request, Docker__VolumeRecord **ret, struct error *err)
{
	Docker__VolumeRecord blank = DOCKER__VOLUME_RECORD__INIT;
	cleanup(record_freep) Docker__VolumeRecord *record = NULL;
	enum status status;

	blank.name = request->name;
	blank.n_opts = request->n_opts;
	blank.opts = (Docker__VolumeRecord__OptsEntry **)(void *)request->opts;
	record = (void *)message_convert(&docker__volume_record__descriptor, &blank.base);
	if (!record)
		return error_no_memory(err, "a volume's record");
	status = set_boot(record, err);
	if (status == STATUS_OK)
		*ret = TAKE_PTR(record);
	return status;
}

static enum status record_path(const char *dir, const char *name, char ret[static PATH_MAX],
			       struct error *err)
{
	assert(id_is_name(name, RECORD_NAME_MAX));
	if (str_format(ret, PATH_MAX, "%s/%s" SUFFIX, dir, name) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, ENAMETOOLONG, "%s", dir);
	return STATUS_OK;
}

/* Drops the mounts of an earlier boot, which are gone with it. The allocation may still exist, until the
 * server learns of the new boot. */
static enum status drop_earlier_boot(Docker__VolumeRecord *record, struct error *err)
{
	char boot[UUID_SIZE];
	enum status status = read_boot(boot, err);

	if (status != STATUS_OK || str_eq(record->boot_id, boot))
		return status;
	while (record->n_mount_ids > 0)
		record_remove_mount(record, record->mount_ids[0]);
	return message_set_text(&record->path, "") ? set_boot(record, err)
						   : error_no_memory(err, "a volume's record");
}

static enum status parse(const char *path, const char *text, Docker__VolumeRecord **ret, struct error *err)
{
	cleanup(json_decrefp) json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
	ProtobufCMessage *message = NULL;
	enum status status = json ? pbjson_decode(&docker__volume_record__descriptor, json, 0, &message, err)
				  : error_set(err, STATUS_INVALID_ARGUMENT, 0, "not JSON");

	if (status != STATUS_OK) {
		(void)error_prefix(err,
				   "%s cannot be understood. Next: find the allocation of the volume with "
				   "holdfast alloc status, stop it, and remove the file",
				   path);
		err->status = STATUS_FAILED_PRECONDITION;
		return STATUS_FAILED_PRECONDITION;
	}
	*ret = (void *)message;
	return STATUS_OK;
}

enum status record_load(const char *dir, const char *name, Docker__VolumeRecord **ret, struct error *err)
{
	cleanup(record_freep) Docker__VolumeRecord *record = NULL;
	cleanup_free char *text = NULL;
	char path[PATH_MAX];
	enum status status = record_path(dir, name, path, err);
	int r;

	if (status != STATUS_OK)
		return status;
	r = file_read(path, RECORD_SIZE_MAX, &text, NULL);
	if (r == -ENOENT)
		return error_set(err, STATUS_NOT_FOUND, 0,
				 "no volume %s was made on this machine. Next: docker volume create --driver "
				 "holdfast %s",
				 name, name);
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "cannot read %s", path);
	status = parse(path, text, &record, err);
	if (status == STATUS_OK)
		status = drop_earlier_boot(record, err);
	if (status == STATUS_OK)
		*ret = TAKE_PTR(record);
	return status;
}

enum status record_save(const char *dir, const Docker__VolumeRecord *record, struct error *err)
{
	cleanup_strbuf struct strbuf text = STRBUF_INIT(PBJSON_TEXT_MAX);
	char path[PATH_MAX];
	enum status status = record_path(dir, record->name, path, err);
	int r;

	if (status == STATUS_OK)
		status = pbjson_print(&record->base, PBJSON_PROTO_NAMES | PBJSON_LINES, 0, &text, err);
	if (status != STATUS_OK)
		return status;
	r = file_write_atomic(path, 0600, text.data, text.len);
	return r < 0 ? error_set(err, status_from_errno(r), r, "cannot write %s", path) : STATUS_OK;
}

enum status record_remove(const char *dir, const char *name, struct error *err)
{
	char path[PATH_MAX];

	TRY(record_path(dir, name, path, err));
	if (unlink(path) < 0 && errno != ENOENT)
		return error_set(err, status_from_errno(errno), errno, "cannot remove %s", path);
	return STATUS_OK;
}

/* Returns the lock file's byte for a name; two names that share one only wait for each other. FNV-1a */
static off_t lock_byte(const char *name)
{
	uint32_t hash = 2166136261U;

	for (const char *c = name; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 16777619U;
	return (off_t)hash;
}

enum status record_lock(const char *dir, const char *name, bool is_patient, int *ret, struct error *err)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = lock_byte(name), .l_len = 1};
	cleanup_close int fd = -1;
	char path[PATH_MAX];

	if (str_format(path, sizeof(path), "%s/lock", dir) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, ENAMETOOLONG, "%s", dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return error_set(err, status_from_errno(errno), errno, "cannot open %s", path);
	while (fcntl(fd, is_patient ? F_OFD_SETLKW : F_OFD_SETLK, &lock) < 0) {
		if (errno == EINTR)
			continue;
		return error_set(err, errno == EAGAIN ? STATUS_UNAVAILABLE : STATUS_INTERNAL, errno,
				 "cannot lock volume %s in %s", name, path);
	}
	*ret = TAKE_FD(fd);
	return STATUS_OK;
}

/* The name that a file begins with, and what comes after it. */
static bool split_name(const char *file, char ret[static RECORD_NAME_MAX + 1], const char **ret_rest)
{
	size_t n = strcspn(file, ".");

	if (n > RECORD_NAME_MAX)
		return false;
	memcpy(ret, file, n);
	ret[n] = '\0';
	*ret_rest = file + n;
	return id_is_name(ret, RECORD_NAME_MAX);
}

enum status record_each(const char *dir,
			enum status (*each)(const char *name, void *userdata, struct error *err),
			void *userdata, struct error *err)
{
	cleanup_closedir DIR *stream = opendir(dir);
	const struct dirent *entry;
	int r = stream ? 0 : -errno;

	while (stream && (r = folder_next(stream, &entry)) > 0) {
		char name[RECORD_NAME_MAX + 1];
		const char *rest;

		if (split_name(entry->d_name, name, &rest) && str_eq(rest, SUFFIX))
			TRY(each(name, userdata, err));
	}
	return r < 0 ? error_set(err, status_from_errno(r), r, "list %s", dir) : STATUS_OK;
}

/* Returns whether @rest is a suffix of file_write_atomic(), which is called with the name's lock held. */
static bool is_unfinished(const char *rest)
{
	const char *last = strrchr(rest, '.');

	return str_starts_with(rest, SUFFIX ".") && last && str_eq(last, FILE_TMP_SUFFIX);
}

enum status record_remove_unfinished(const char *dir, struct error *err)
{
	cleanup_closedir DIR *stream = opendir(dir);
	const struct dirent *entry;
	int r = stream ? 0 : -errno;

	while (stream && (r = folder_next(stream, &entry)) > 0) {
		char name[RECORD_NAME_MAX + 1];
		cleanup_close int lock = -1;
		const char *rest;

		if (!split_name(entry->d_name, name, &rest) || !is_unfinished(rest) ||
		    record_lock(dir, name, false, &lock, err) != STATUS_OK)
			continue;
		if (unlinkat(dirfd(stream), entry->d_name, 0) < 0 && errno != ENOENT)
			return error_set(err, status_from_errno(errno), errno, "cannot remove %s/%s", dir,
					 entry->d_name);
	}
	return r < 0 ? error_set(err, status_from_errno(r), r, "list %s", dir) : STATUS_OK;
}

enum status record_add_mount(Docker__VolumeRecord *record, const char *id, struct error *err)
{
	cleanup_free char *copy = NULL;
	char **ids;

	if (record->n_mount_ids >= RECORD_MOUNTS_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "volume %s is mounted %d times already",
				 record->name, RECORD_MOUNTS_MAX);
	copy = strdup(id);
	ids = reallocarray(record->mount_ids, record->n_mount_ids + 1, sizeof(*ids));
	if (ids)
		record->mount_ids = ids;
	if (!copy || !ids)
		return error_no_memory(err, "a volume's record");
	ids[record->n_mount_ids++] = TAKE_PTR(copy);
	return STATUS_OK;
}

void record_remove_mount(Docker__VolumeRecord *record, const char *id)
{
	for (size_t i = 0; i < record->n_mount_ids; i++)
		if (str_eq(record->mount_ids[i], id)) {
			free(record->mount_ids[i]);
			record->mount_ids[i] = record->mount_ids[--record->n_mount_ids];
			return;
		}
}
