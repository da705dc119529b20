/* SPDX-License-Identifier: Apache-2.0 */
#include "last_output.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/folder.h"
#include "base/str.h"

#include <arpa/inet.h>
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PIECE_MAX = LAST_OUTPUT_MAX / 4 };

/* --- frames ---
 */

struct piece {
	unsigned int stream;
	const uint8_t *bytes;
	size_t n;
};

/* The frame at @at of what this module wrote itself, cut where the file was. False: it was the last one. */
static bool next_piece(const uint8_t *bytes, size_t n, size_t *at, struct piece *ret)
{
	uint32_t length;

	if (n - *at <= FRAMES_HEAD)
		return false;
	ret->stream = bytes[*at] == FRAMES_STDERR ? FRAMES_STDERR : FRAMES_STDOUT;
	memcpy(&length, bytes + *at + 4, sizeof(length));
	*at += FRAMES_HEAD;
	ret->bytes = bytes + *at;
	ret->n = ntohl(length) < n - *at ? ntohl(length) : n - *at;
	*at += ret->n;
	return true;
}

static void put_piece(struct strbuf *to, const struct piece *piece)
{
	uint8_t head[FRAMES_HEAD] = {(uint8_t)piece->stream};
	uint32_t length = htonl((uint32_t)piece->n);

	memcpy(head + 4, &length, sizeof(length));
	strbuf_put(to, head, sizeof(head));
	strbuf_put(to, piece->bytes, piece->n);
}

static void drop_first(struct strbuf *bytes, size_t room)
{
	struct piece piece;
	size_t at = 0;

	while (bytes->len - at + room > LAST_OUTPUT_MAX &&
	       next_piece((const uint8_t *)bytes->data, bytes->len, &at, &piece))
		;
	strbuf_consume(bytes, at);
}

void last_output_init(struct last_output *output)
{
	*output = (struct last_output){.bytes = STRBUF_INIT(LAST_OUTPUT_MAX)};
}

void last_output_release(struct last_output *output)
{
	strbuf_release(&output->bytes);
}

void last_output_put(struct last_output *output, const uint8_t *bytes, size_t n)
{
	while (n > 0 && !output->is_broken) {
		struct piece piece;
		size_t used;

		output->is_broken = frames_next(&output->frames, bytes, n < PIECE_MAX ? n : PIECE_MAX, &used,
						&piece.stream, &piece.bytes, &piece.n, NULL) != STATUS_OK;
		if (output->is_broken)
			return;
		if (piece.n > 0) {
			drop_first(&output->bytes, piece.n + FRAMES_HEAD);
			put_piece(&output->bytes, &piece);
		}
		bytes += used;
		n -= used;
	}
}

/* --- files ---
 */

static DIR *open_folder(const char *state_dir, struct error *err)
{
	char path[PATH_MAX];
	DIR *folder = NULL;

	if (str_format(path, sizeof(path), "%s/output", state_dir) >= 0 &&
	    (mkdir(path, S_IRWXU) == 0 || errno == EEXIST))
		folder = opendir(path);
	if (!folder)
		(void)error_set(err, status_from_errno(errno), errno,
				"open the folder output in %s, for the output of ended tasks", state_dir);
	return folder;
}

/* A file, ALLOC.TASK.NAMESPACE: these have no dots. */
struct file {
	char name[NAME_MAX + 1];
	const char *namespace;
	struct timespec time;
};

static size_t read_files(DIR *folder, struct file files[static LAST_OUTPUT_TASKS])
{
	const struct dirent *entry;
	size_t n = 0;

	while (n < LAST_OUTPUT_TASKS && folder_next(folder, &entry) > 0) {
		struct file *file = &files[n];
		const char *dot;
		struct stat st;

		if (entry->d_name[0] == '.' ||
		    fstatat(dirfd(folder), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		(void)str_copy(file->name, sizeof(file->name), entry->d_name);
		dot = strrchr(file->name, '.');
		file->namespace = dot ? dot + 1 : "";
		file->time = st.st_mtim;
		n++;
	}
	return n;
}

static size_t count_files(const struct file *files, size_t n, const char *namespace)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		count += str_eq(files[i].namespace, namespace);
	return count;
}

static bool is_older(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

/* Makes room for a file of @namespace: drops the oldest of the namespace that would have most. */
static void make_room(DIR *folder, const char *namespace)
{
	cleanup_free struct file *files = calloc(LAST_OUTPUT_TASKS, sizeof(*files));
	size_t n = files ? read_files(folder, files) : 0;
	const struct file *drop = NULL;
	size_t most = 0;

	for (size_t i = 0; n >= LAST_OUTPUT_TASKS && i < n; i++) {
		size_t count =
			count_files(files, n, files[i].namespace) + str_eq(files[i].namespace, namespace);

		if (count < most || (drop && count == most && !is_older(&files[i].time, &drop->time)))
			continue;
		most = count;
		drop = &files[i];
	}
	if (drop)
		(void)unlinkat(dirfd(folder), drop->name, 0);
}

enum status last_output_save(const char *state_dir, const char *namespace, const char *alloc,
			     const char *task, const struct last_output *output, struct error *err)
{
	cleanup_closedir DIR *folder = NULL;
	cleanup_close int fd = -EBADF;
	char name[NAME_MAX + 1];
	int r;

	assert(!strpbrk(namespace, "./"));
	if (output->bytes.len == 0)
		return STATUS_OK;
	if (str_format(name, sizeof(name), "%s.%s.%s", alloc, task, namespace) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "the name of task %.64s is too long", task);
	folder = open_folder(state_dir, err);
	if (!folder)
		return err ? err->status : STATUS_INTERNAL;
	make_room(folder, namespace);
	fd = openat(dirfd(folder), name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
		    S_IRUSR | S_IWUSR);
	r = fd < 0 ? -errno : fd_write_all(fd, output->bytes.data, output->bytes.len);
	return r < 0 ? error_set(err, status_from_errno(r), r, "write output/%s in %s", name, state_dir)
		     : STATUS_OK;
}

static bool is_wished(const struct piece *piece, const struct last_output_wish *wish)
{
	return piece->stream == FRAMES_STDERR ? wish->has_stderr : wish->has_stdout;
}

static size_t count_lines(const struct piece *piece)
{
	size_t n = 0;

	for (size_t i = 0; i < piece->n; i++)
		n += piece->bytes[i] == '\n';
	return n;
}

/* Skips up to *@skip lines at the beginning of a piece, and counts *@skip down. */
static void skip_lines(struct piece *piece, size_t *skip)
{
	while (*skip > 0 && piece->n > 0) {
		*skip -= *piece->bytes == '\n';
		piece->bytes++;
		piece->n--;
	}
}

static void copy_wished(const uint8_t *bytes, size_t n, const struct last_output_wish *wish,
			struct strbuf *ret)
{
	struct piece piece = {.n = 0};
	size_t lines = 0, skip;
	bool is_open = false; /* the last line has no end */

	for (size_t at = 0; next_piece(bytes, n, &at, &piece);) {
		if (!is_wished(&piece, wish) || piece.n == 0)
			continue;
		lines += count_lines(&piece);
		is_open = piece.bytes[piece.n - 1] != '\n';
	}
	lines += is_open;
	skip = wish->tail > 0 && wish->tail < lines ? lines - wish->tail : 0;
	for (size_t at = 0; next_piece(bytes, n, &at, &piece);) {
		if (!is_wished(&piece, wish))
			continue;
		skip_lines(&piece, &skip);
		if (piece.n > 0)
			put_piece(ret, &piece);
	}
}

/* Reads the file of a task: a caller's names are compared, and make no path. Returns 0 or a negative errno.
 */
static int read_file(const char *state_dir, const char *namespace, const char *alloc, const char *task,
		     char **ret, size_t *ret_n)
{
	cleanup_closedir DIR *folder = NULL;
	const struct dirent *entry;
	char path[PATH_MAX], name[NAME_MAX + 1];
	int r;

	if (str_format(path, sizeof(path), "%s/output", state_dir) < 0 ||
	    str_format(name, sizeof(name), "%s.%s.%s", alloc, task, namespace) < 0)
		return -ENAMETOOLONG;
	folder = opendir(path);
	if (!folder)
		return -errno;
	while ((r = folder_next(folder, &entry)) > 0)
		if (str_eq(entry->d_name, name) &&
		    str_format(path, sizeof(path), "%s/output/%s", state_dir, entry->d_name) >= 0)
			return file_read(path, LAST_OUTPUT_MAX, ret, ret_n);
	return r < 0 ? r : -ENOENT;
}

enum status last_output_load(const char *state_dir, const char *namespace, const char *alloc,
			     const char *task, const struct last_output_wish *wish, struct strbuf *ret,
			     struct error *err)
{
	cleanup_free char *bytes = NULL;
	size_t n = 0;
	int r = read_file(state_dir, namespace, alloc, task, &bytes, &n);

	if (r == -ENOENT)
		return error_set(err, STATUS_NOT_FOUND, 0,
				 "driver container has no task '%s' of allocation %s, and no output of it: "
				 "the output of %d tasks is kept, and the namespace that has most loses its "
				 "oldest",
				 task, alloc, LAST_OUTPUT_TASKS);
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "read the output of task %s.%s in %s", alloc,
				 task, state_dir);
	copy_wished((const uint8_t *)bytes, n, wish, ret);
	return STATUS_OK;
}
