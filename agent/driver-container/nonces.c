/* SPDX-License-Identifier: Apache-2.0 */
#include "nonces.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "model/order.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

enum {
	FILE_MAX = 16 << 20,
	LINE_MAX_ = 128,
	HEX_SIZE = 2 * ORDER_NONCE_SIZE + 1,
	FOR_SIZE = 16,
	FOR_HEX_SIZE = 2 * FOR_SIZE + 1,
	KEEP_FREE = 64,
	RESERVE = 8192 * 86,	      /* bytes for the ends of as many tasks */
	END_KEPT_MS = 60 * 60 * 1000, /* beyond ORDER_VALID_MS, if there are many: clocks differ by less */
};

_Static_assert((int)FOR_SIZE == (int)ORDER_NONCE_SIZE, "an end is found by what it is for");

struct entry {
	uint8_t nonce[ORDER_NONCE_SIZE];
	uint8_t for_what[FOR_SIZE]; /* digest of allocation and task */
	uint64_t not_after_ms;
	bool is_done;
	bool is_end; /* of a task, which no order starts again. Its nonce is for_what */
};

struct nonces {
	char path[PATH_MAX];
	char boot_id[64];
	int fd;
	off_t reserved; /* the file has blocks up to here; 0: not known */
	size_t n;
	uint64_t forgotten_ms; /* the latest end of the forgotten ones; 0: all are kept */
	struct entry entries[NONCES_MAX];
};

static struct entry *nonces_find(struct nonces *nonces, const uint8_t *nonce)
{
	for (size_t i = 0; i < nonces->n; i++)
		if (memcmp(nonces->entries[i].nonce, nonce, ORDER_NONCE_SIZE) == 0)
			return &nonces->entries[i];
	return NULL;
}

static void digest_of(const uint8_t alloc[static ORDER_UUID_SIZE], const char *task,
		      uint8_t ret[static FOR_SIZE])
{
	char text[ORDER_UUID_SIZE + ORDER_LABEL_SIZE] = "";
	uint8_t digest[ORDER_DIGEST_SIZE];

	memcpy(text, alloc, ORDER_UUID_SIZE);
	(void)str_copy(text + ORDER_UUID_SIZE, ORDER_LABEL_SIZE, task);
	order_digest(text, sizeof(text), digest);
	memcpy(ret, digest, FOR_SIZE);
}

static int format(char line[static LINE_MAX_], const struct entry *entry)
{
	char hex[HEX_SIZE];
	char for_what[FOR_HEX_SIZE];

	hex_encode(hex, entry->nonce, ORDER_NONCE_SIZE);
	hex_encode(for_what, entry->for_what, FOR_SIZE);
	return str_format(line, LINE_MAX_, "%s %s %s %" PRIu64 "\n",
			  entry->is_end	   ? "ended"
			  : entry->is_done ? "done"
					   : "begun",
			  hex, for_what, entry->not_after_ms);
}

/* "begun NONCE FOR END", "done NONCE FOR END", "ended FOR FOR END", "forgotten - - END" */
static bool parse_line(struct nonces *nonces, char *line)
{
	char *save = NULL;
	const char *word = strtok_r(line, " ", &save);
	const char *hex = strtok_r(NULL, " ", &save);
	const char *for_what = strtok_r(NULL, " ", &save);
	const char *end = strtok_r(NULL, " ", &save);
	struct entry entry = {0};
	struct entry *known;

	if (!word || !hex || !for_what || !end || *save != '\0' ||
	    parse_u64(end, 0, UINT64_MAX, &entry.not_after_ms) < 0)
		return false;
	if (str_eq(word, "forgotten")) {
		nonces->forgotten_ms = entry.not_after_ms;
		return true;
	}
	entry.is_end = str_eq(word, "ended");
	entry.is_done = entry.is_end || str_eq(word, "done");
	if ((!entry.is_done && !str_eq(word, "begun")) ||
	    hex_decode(entry.nonce, ORDER_NONCE_SIZE, hex) < 0 ||
	    hex_decode(entry.for_what, FOR_SIZE, for_what) < 0)
		return false;
	known = nonces_find(nonces, entry.nonce);
	if (!known && nonces->n == NONCES_MAX)
		return false;
	if (!known)
		known = &nonces->entries[nonces->n++];
	*known = entry;
	return true;
}

/* Parses the list, whose first line names the boot. Ignores a torn last line: its order was not carried
 * out. */
static enum status parse_text(struct nonces *nonces, char *text, struct error *err)
{
	char *line = text;
	char *end = strchr(line, '\n');
	size_t number = 1;

	if (!end)
		return STATUS_OK;
	*end = '\0';
	if (!str_eq(line, nonces->boot_id))
		return STATUS_OK;
	for (line = end + 1; (end = strchr(line, '\n')); line = end + 1) {
		*end = '\0';
		number++;
		if (!parse_line(nonces, line))
			return error_set(err, STATUS_DATA_LOSS, 0,
					 "%s:%zu: the line is broken, so the driver cannot know which orders "
					 "were used. Next: restart this machine, which voids its orders, "
					 "then remove the file",
					 nonces->path, number);
	}
	return STATUS_OK;
}

static void close_file(struct nonces *nonces)
{
	close_fdp(&nonces->fd);
	nonces->fd = -EBADF;
}

/* Keeps blocks for the ends of tasks: on a full disk tasks are destroyed, and nothing is begun. Returns 0 or
 * a negative errno. */
static int reserve(struct nonces *nonces)
{
	off_t end = lseek(nonces->fd, 0, SEEK_END);

	if (end < 0)
		return -errno;
	if (nonces->reserved - end >= RESERVE / 2)
		return 0;
	if (fallocate(nonces->fd, FALLOC_FL_KEEP_SIZE, end, RESERVE) < 0 && errno != EOPNOTSUPP)
		return -errno;
	nonces->reserved = end + RESERVE;
	return 0;
}

static enum status open_file(struct nonces *nonces, struct error *err)
{
	nonces->reserved = 0;
	nonces->fd = open(nonces->path, O_WRONLY | O_APPEND | O_CLOEXEC);
	if (nonces->fd < 0)
		return error_set(err, status_from_errno(errno), errno, "open %s", nonces->path);
	(void)reserve(nonces); /* the next order needs it, ends do not */
	return STATUS_OK;
}

/* Rewrites the whole list. After a failure no line is added before a rewrite succeeds: the file may end in
 * half a line, or may be another file. */
static enum status rewrite(struct nonces *nonces, struct error *err)
{
	cleanup_strbuf struct strbuf text = STRBUF_INIT(FILE_MAX);
	char line[LINE_MAX_];
	int r;

	close_file(nonces);
	strbuf_printf(&text, "%s\nforgotten - - %" PRIu64 "\n", nonces->boot_id, nonces->forgotten_ms);
	for (size_t i = 0; i < nonces->n; i++) {
		(void)format(line, &nonces->entries[i]);
		strbuf_puts(&text, line);
	}
	r = text.error ? text.error : file_write_atomic(nonces->path, 0600, text.data, text.len);
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "write %s", nonces->path);
	return open_file(nonces, err);
}

/* A list of this boot without a torn line is not rewritten: that needs a free block. */
static bool is_whole(const struct nonces *nonces, const char *text, size_t n)
{
	size_t n_boot = strlen(nonces->boot_id);

	return n > n_boot && strlen(text) == n && text[n - 1] == '\n' && text[n_boot] == '\n' &&
	       str_starts_with(text, nonces->boot_id);
}

DEFINE_CLEANUP(struct nonces, nonces_free)

enum status nonces_open(const char *path, const char *boot_id, struct nonces **ret, struct error *err)
{
	cleanup(nonces_freep) struct nonces *nonces = calloc(1, sizeof(*nonces));
	cleanup_free char *text = NULL;
	enum status status = STATUS_OK;
	bool keeps;
	size_t n = 0;
	int r;

	if (!nonces)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "open %s", path);
	nonces->fd = -EBADF;
	if (str_copy(nonces->path, sizeof(nonces->path), path) < 0 ||
	    str_copy(nonces->boot_id, sizeof(nonces->boot_id), boot_id) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s: too long", path);
	r = file_read(path, FILE_MAX, &text, &n);
	if (r < 0 && r != -ENOENT)
		return error_set(err, status_from_errno(r), r, "read %s", path);
	keeps = text && is_whole(nonces, text, n);
	if (text)
		status = parse_text(nonces, text, err);
	if (status == STATUS_OK)
		status = keeps ? open_file(nonces, err) : rewrite(nonces, err);
	if (status == STATUS_OK)
		*ret = TAKE_PTR(nonces);
	return status;
}

void nonces_free(struct nonces *nonces)
{
	if (!nonces)
		return;
	close_file(nonces);
	free(nonces);
}

enum nonce_use nonces_look(struct nonces *nonces, const struct order *order)
{
	const struct entry *entry = nonces_find(nonces, order->nonce);

	uint8_t for_what[FOR_SIZE];

	if (entry)
		return entry->is_done ? NONCE_DONE : NONCE_BEGUN;
	digest_of(order->alloc, order->task, for_what);
	entry = nonces_find(nonces, for_what);
	if (entry && entry->is_end)
		return NONCE_DONE;
	return order->not_after_ms <= nonces->forgotten_ms ? NONCE_DONE : NONCE_NEW;
}

static void forget(struct nonces *nonces, uint64_t now_ms)
{
	size_t kept = 0;

	for (size_t i = 0; i < nonces->n; i++) {
		const struct entry *entry = &nonces->entries[i];

		if (entry->not_after_ms >= now_ms)
			nonces->entries[kept++] = *entry;
		else if (!entry->is_end && entry->not_after_ms > nonces->forgotten_ms)
			nonces->forgotten_ms = entry->not_after_ms;
	}
	nonces->n = kept;
}

static enum status append(struct nonces *nonces, const struct entry *entry, struct error *err)
{
	char line[LINE_MAX_];
	int n = format(line, entry);
	int r;

	if (nonces->fd < 0)
		TRY(rewrite(nonces, err));
	r = fd_write_all(nonces->fd, line, (size_t)n);
	if (r == 0 && fdatasync(nonces->fd) < 0)
		r = -errno;
	if (r == 0)
		return STATUS_OK;
	close_file(nonces);
	return error_set(err, status_from_errno(r), r, "write %s", nonces->path);
}

/* Room for one more: those that have expired may be forgotten. */
static enum status make_room(struct nonces *nonces, int64_t now_ms, struct error *err)
{
	if (nonces->n >= NONCES_MAX - KEEP_FREE && now_ms > 0) {
		forget(nonces, (uint64_t)now_ms);
		TRY(rewrite(nonces, err));
	}
	if (nonces->n >= NONCES_MAX - KEEP_FREE)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "more than %zu orders that have not expired were used", nonces->n);
	return STATUS_OK;
}

enum status nonces_begin(struct nonces *nonces, const struct order *order, int64_t now_ms, struct error *err)
{
	struct entry entry = {.not_after_ms = order->not_after_ms};
	int r;

	assert(nonces_look(nonces, order) == NONCE_NEW);
	memcpy(entry.nonce, order->nonce, ORDER_NONCE_SIZE);
	digest_of(order->alloc, order->task, entry.for_what);
	TRY(make_room(nonces, now_ms, err));
	if (nonces->fd < 0)
		TRY(rewrite(nonces, err));
	r = reserve(nonces);
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "keep room in %s for the ends of tasks",
				 nonces->path);
	TRY(append(nonces, &entry, err));
	nonces->entries[nonces->n++] = entry;
	return STATUS_OK;
}

static enum status nonce_record_finish(struct nonces *nonces, struct entry *entry, struct error *err)
{
	struct entry done = *entry;
	enum status status;

	if (entry->is_done)
		return STATUS_OK;
	done.is_done = true;
	status = append(nonces, &done, err);
	if (status == STATUS_OK)
		*entry = done;
	return status;
}

enum status nonces_finish(struct nonces *nonces, const uint8_t nonce[static ORDER_NONCE_SIZE],
			  struct error *err)
{
	struct entry *entry = nonces_find(nonces, nonce);

	return entry ? nonce_record_finish(nonces, entry, err) : STATUS_OK;
}

/* For good, in this boot: a comparison of times would be one of the server's clock with this machine's. */
static enum status end_task(struct nonces *nonces, const uint8_t for_what[static FOR_SIZE], int64_t now_ms,
			    struct error *err)
{
	struct entry end = {.not_after_ms = (uint64_t)now_ms + ORDER_VALID_MS + END_KEPT_MS,
			    .is_done = true,
			    .is_end = true};

	if (nonces_find(nonces, for_what))
		return STATUS_OK;
	memcpy(end.nonce, for_what, FOR_SIZE);
	memcpy(end.for_what, for_what, FOR_SIZE);
	TRY(make_room(nonces, now_ms, err));
	TRY(append(nonces, &end, err));
	nonces->entries[nonces->n++] = end;
	return STATUS_OK;
}

enum status nonces_finish_task(struct nonces *nonces, const char *alloc, const char *task, int64_t now_ms,
			       struct error *err)
{
	uint8_t bytes[ORDER_UUID_SIZE];
	uint8_t for_what[FOR_SIZE];
	enum status status = STATUS_OK;

	if (!id_uuid_bytes(alloc, bytes))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "'%.64s' is no allocation", alloc);
	digest_of(bytes, task, for_what);
	for (size_t i = 0; i < nonces->n && status == STATUS_OK; i++)
		if (memcmp(nonces->entries[i].for_what, for_what, FOR_SIZE) == 0)
			status = nonce_record_finish(nonces, &nonces->entries[i], err);
	if (status == STATUS_OK && task[0] != '\0')
		status = end_task(nonces, for_what, now_ms, err);
	return status;
}
