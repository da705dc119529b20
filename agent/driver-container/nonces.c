/* SPDX-License-Identifier: Apache-2.0 */
#include "nonces.h"

#include "base/cleanup.h"
#include "base/clock.h"
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
	LINES_MAX = 120000,		/* of the file: then it is rewritten */
	ENDS_MIN = 8192,		/* places that orders leave to ends */
	RESERVE = ENDS_MIN * LINE_MAX_, /* bytes that orders leave to as many ends; a line has 86 */
	GIVE_WAY = 4096,		/* ends at once */
	PAUSE_MS = 1000,		/* between two looks for places for orders */
	END_KEPT_MS = 60 * 60 * 1000,	/* beyond ORDER_VALID_MS, if there are many: clocks differ by less */
	SLACK_MS = 5 * 60 * 1000,	/* beyond the lead of the server's clock that orders have shown */
};

enum by { BY_NONCE, BY_TASK, BY_N };

_Static_assert((int)FOR_SIZE == (int)ORDER_NONCE_SIZE, "an end is found by what it is for");

struct entry {
	uint8_t nonce[ORDER_NONCE_SIZE];
	uint8_t for_what[FOR_SIZE]; /* digest of allocation and task */
	uint64_t not_after_ms;
	bool is_done;
	bool is_end;	     /* of a task, which no order starts again. Its nonce is for_what */
	uint32_t next[BY_N]; /* in its bucket; as in buckets */
};

struct nonces {
	char path[PATH_MAX];
	char boot_id[64];
	int fd;
	off_t reserved; /* the file has blocks up to here; 0: not known */
	size_t n_lines; /* of the file */
	size_t n, n_ends;
	size_t n_compared;
	uint64_t forgotten_ms;		    /* the latest end of the forgotten ones; 0: all are kept */
	uint64_t ahead_ms;		    /* the most that orders showed the server's clock to be ahead */
	uint64_t looked_ms;		    /* for places, when the list was full */
	uint32_t buckets[BY_N][NONCES_MAX]; /* the number of an entry, from 1; 0: empty */
	struct entry entries[NONCES_MAX];   /* the oldest first */
};

static const uint8_t *key_of(const struct entry *entry, enum by by)
{
	return by == BY_NONCE ? entry->nonce : entry->for_what;
}

/* Keys are chance and digests. */
static uint32_t *bucket_of(struct nonces *nonces, enum by by, const uint8_t *key)
{
	uint32_t hash;

	memcpy(&hash, key, sizeof(hash));
	return &nonces->buckets[by][hash % NONCES_MAX];
}

/* Returns the next entry of @key behind @place, or NULL. */
static struct entry *nonces_next(struct nonces *nonces, enum by by, const uint8_t *key, uint32_t place)
{
	while (place > 0) {
		struct entry *entry = &nonces->entries[place - 1];

		nonces->n_compared++;
		if (memcmp(key_of(entry, by), key, ORDER_NONCE_SIZE) == 0)
			return entry;
		place = entry->next[by];
	}
	return NULL;
}

static struct entry *nonces_find(struct nonces *nonces, const uint8_t *nonce)
{
	return nonces_next(nonces, BY_NONCE, nonce, *bucket_of(nonces, BY_NONCE, nonce));
}

static void nonces_add(struct nonces *nonces, const struct entry *entry)
{
	struct entry *place = &nonces->entries[nonces->n++];

	assert(nonces->n <= NONCES_MAX);
	*place = *entry;
	nonces->n_ends += entry->is_end;
	for (enum by by = 0; by < BY_N; by++) {
		uint32_t *bucket = bucket_of(nonces, by, key_of(place, by));

		place->next[by] = *bucket;
		*bucket = (uint32_t)nonces->n;
	}
}

/* Returns the latest end of an order that was made before the task ended at @ended_ms. */
static uint64_t covered_ms(const struct nonces *nonces, uint64_t ended_ms)
{
	return ended_ms + ORDER_VALID_MS + nonces->ahead_ms + SLACK_MS;
}

/* Returns the next order of the task behind @place that is begun and not done, or NULL. */
static struct entry *next_begun(struct nonces *nonces, const uint8_t *for_what, uint32_t place)
{
	struct entry *entry = nonces_next(nonces, BY_TASK, for_what, place);

	while (entry && entry->is_done)
		entry = nonces_next(nonces, BY_TASK, for_what, entry->next[BY_TASK]);
	return entry;
}

static struct entry *first_begun(struct nonces *nonces, const uint8_t *for_what)
{
	return next_begun(nonces, for_what, *bucket_of(nonces, BY_TASK, for_what));
}

/* Is the line one of all orders of its task or network? Those of them that are begun have no other line of
 * their end. */
static bool is_of_all(const struct entry *line)
{
	return memcmp(line->nonce, line->for_what, FOR_SIZE) == 0;
}

/* That of a network, which is made again, is not kept. */
static bool is_kept(const struct entry *line)
{
	return line->is_end || !is_of_all(line);
}

/* Takes over a line of the file. There is a place for one that is_kept(). */
static void take_line(struct nonces *nonces, const struct entry *line)
{
	struct entry *known = nonces_find(nonces, line->nonce);
	struct entry *begun = is_of_all(line) ? first_begun(nonces, line->for_what) : NULL;

	for (; begun; begun = next_begun(nonces, line->for_what, begun->next[BY_TASK]))
		begun->is_done = true;
	if (!known && is_kept(line))
		nonces_add(nonces, line);
	if (!known)
		return;
	known->is_done |= line->is_done;
	if (line->not_after_ms > known->not_after_ms) /* an end that was forgotten, and came again */
		known->not_after_ms = line->not_after_ms;
}

/* Forgets those that have expired; in a full list also the oldest ends, if no order that expires at @limit_ms
 * or later counts as used for that. The file keeps their lines. */
static void forget(struct nonces *nonces, uint64_t now_ms, uint64_t limit_ms)
{
	size_t n = nonces->n, n_ends = n == NONCES_MAX ? GIVE_WAY : 0;

	nonces->n_compared += n;
	memset(nonces->buckets, 0, sizeof(nonces->buckets));
	nonces->n = nonces->n_ends = 0;
	for (size_t i = 0; i < n; i++) {
		const struct entry *entry = &nonces->entries[i];
		bool has_expired = entry->not_after_ms < now_ms;
		uint64_t until_ms = entry->not_after_ms;

		if (entry->is_end)
			until_ms = covered_ms(nonces, until_ms - ORDER_VALID_MS - END_KEPT_MS);
		if (!has_expired && (!entry->is_end || n_ends == 0 || until_ms >= limit_ms)) {
			nonces_add(nonces, entry);
			continue;
		}
		n_ends -= !has_expired;
		if (until_ms > nonces->forgotten_ms)
			nonces->forgotten_ms = until_ms;
	}
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

/* "begun NONCE FOR END", "done NONCE FOR END", "forgotten - - END"; of all orders of a task "ended FOR FOR
 * END", of a network "done FOR FOR END" */
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
	if (known && memcmp(known->for_what, entry.for_what, FOR_SIZE) != 0)
		return false;
	if (!known && is_kept(&entry) && nonces->n == NONCES_MAX) /* the file has lines of forgotten ones */
		forget(nonces, (uint64_t)clock_realtime_ms(), UINT64_MAX);
	if (!known && is_kept(&entry) && nonces->n == NONCES_MAX)
		return false;
	take_line(nonces, &entry);
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
		nonces->n_lines++;
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
	if (nonces->reserved - end >= RESERVE)
		return 0;
	if (fallocate(nonces->fd, FALLOC_FL_KEEP_SIZE, end, 2L * RESERVE) < 0 && errno != EOPNOTSUPP)
		return -errno;
	nonces->reserved = end + 2L * RESERVE;
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

/* Rewrites the whole list. After a failure the file that is at its path is opened, except one that may end in
 * half a line: to that no line is added before a rewrite succeeds. */
static enum status rewrite(struct nonces *nonces, struct error *err)
{
	cleanup_strbuf struct strbuf text = STRBUF_INIT(FILE_MAX);
	bool was_whole = nonces->fd >= 0;
	char line[LINE_MAX_];
	int r;

	close_file(nonces);
	strbuf_printf(&text, "%s\nforgotten - - %" PRIu64 "\n", nonces->boot_id, nonces->forgotten_ms);
	for (size_t i = 0; i < nonces->n; i++) {
		(void)format(line, &nonces->entries[i]);
		strbuf_puts(&text, line);
	}
	r = text.error ? text.error : file_write_atomic(nonces->path, 0600, text.data, text.len);
	if (r < 0 && was_whole)
		(void)open_file(nonces, NULL);
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "write %s", nonces->path);
	nonces->n_lines = nonces->n;
	return open_file(nonces, err);
}

/* Rewrites a list that may not be continued, or has too many lines. */
static enum status tidy(struct nonces *nonces, struct error *err)
{
	return nonces->fd < 0 || nonces->n_lines >= LINES_MAX ? rewrite(nonces, err) : STATUS_OK;
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

bool nonces_has_ended(struct nonces *nonces, const struct order *order)
{
	uint8_t for_what[FOR_SIZE];
	const struct entry *entry;

	digest_of(order->alloc, order->task, for_what);
	entry = nonces_find(nonces, for_what);
	return entry && entry->is_end;
}

enum nonce_use nonces_look(struct nonces *nonces, const struct order *order)
{
	const struct entry *entry = nonces_find(nonces, order->nonce);

	if (entry)
		return entry->is_done ? NONCE_DONE : NONCE_BEGUN;
	if (nonces_has_ended(nonces, order))
		return NONCE_DONE;
	return order->not_after_ms <= nonces->forgotten_ms ? NONCE_DONE : NONCE_NEW;
}

/* Takes back what a full disk left of a line; to cut nothing off would cost the room for ends. */
static bool cut_off(const struct nonces *nonces, off_t size)
{
	return size >= 0 && (lseek(nonces->fd, 0, SEEK_END) == size || ftruncate(nonces->fd, size) == 0);
}

static enum status append(struct nonces *nonces, const struct entry *entry, struct error *err)
{
	char line[LINE_MAX_];
	int n = format(line, entry);
	bool is_whole = false;
	off_t size;
	int r;

	if (nonces->fd < 0)
		TRY(rewrite(nonces, err));
	size = lseek(nonces->fd, 0, SEEK_END);
	r = fd_write_all(nonces->fd, line, (size_t)n);
	if (r < 0)
		is_whole = cut_off(nonces, size);
	else if (fdatasync(nonces->fd) < 0)
		r = -errno;
	nonces->n_lines++;
	if (r == 0)
		return STATUS_OK;
	nonces->reserved = 0;
	if (!is_whole)
		close_file(nonces);
	return error_set(err, status_from_errno(r), r, "write %s", nonces->path);
}

static bool has_place(const struct nonces *nonces)
{
	return nonces->n < NONCES_MAX && nonces->n - nonces->n_ends < NONCES_MAX - ENDS_MIN;
}

/* Makes room for an order. One that must wait does not cost the others a walk over the list each time. */
static enum status make_place(struct nonces *nonces, const struct order *order, uint64_t now_ms,
			      struct error *err)
{
	if (!has_place(nonces) && now_ms - nonces->looked_ms >= PAUSE_MS) {
		nonces->looked_ms = now_ms;
		forget(nonces, now_ms, order->not_after_ms);
	}
	if (!has_place(nonces))
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "no place for another order: %zu that have not expired were used, and %zu "
				 "tasks ended",
				 nonces->n - nonces->n_ends, nonces->n_ends);
	return STATUS_OK;
}

/* Makes room for an end, which never waits: orders leave it places. */
static void make_place_for_end(struct nonces *nonces, uint64_t now_ms)
{
	if (nonces->n == NONCES_MAX)
		forget(nonces, now_ms, now_ms + ORDER_VALID_MS + nonces->ahead_ms);
	if (nonces->n == NONCES_MAX)
		forget(nonces, now_ms, UINT64_MAX); /* orders of now count as used */
}

/* Notes how far the server's clock is ahead, up to the difference for which ends are kept. */
static void note_clock(struct nonces *nonces, const struct order *order, uint64_t now_ms)
{
	uint64_t most_ms = now_ms + ORDER_VALID_MS + END_KEPT_MS - SLACK_MS;
	uint64_t until_ms = order->not_after_ms < most_ms ? order->not_after_ms : most_ms;

	if (until_ms > now_ms + ORDER_VALID_MS + nonces->ahead_ms)
		nonces->ahead_ms = until_ms - ORDER_VALID_MS - now_ms;
}

enum status nonces_begin(struct nonces *nonces, const struct order *order, int64_t now_ms, struct error *err)
{
	struct entry entry = {.not_after_ms = order->not_after_ms};
	int r;

	assert(nonces_look(nonces, order) == NONCE_NEW);
	memcpy(entry.nonce, order->nonce, ORDER_NONCE_SIZE);
	digest_of(order->alloc, order->task, entry.for_what);
	note_clock(nonces, order, (uint64_t)now_ms);
	TRY(make_place(nonces, order, (uint64_t)now_ms, err));
	TRY(tidy(nonces, err));
	r = reserve(nonces);
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "keep room in %s for the ends of tasks",
				 nonces->path);
	TRY(append(nonces, &entry, err));
	nonces_add(nonces, &entry);
	return STATUS_OK;
}

enum status nonces_finish(struct nonces *nonces, const uint8_t nonce[static ORDER_NONCE_SIZE],
			  struct error *err)
{
	struct entry *entry = nonces_find(nonces, nonce);
	struct entry done;

	if (!entry || entry->is_done)
		return STATUS_OK;
	done = *entry;
	done.is_done = true;
	TRY(append(nonces, &done, err));
	entry->is_done = true;
	return STATUS_OK;
}

/* Its end is known, or each order of the task counts as used. */
static bool has_ended(struct nonces *nonces, const struct entry *end, uint64_t now_ms)
{
	return nonces_find(nonces, end->nonce) || covered_ms(nonces, now_ms) <= nonces->forgotten_ms;
}

/* A task ends for good, in this boot: a comparison of times would be one of the server's clock with this
 * machine's. */
enum status nonces_finish_task(struct nonces *nonces, const char *alloc, const char *task, int64_t now_ms,
			       struct error *err)
{
	struct entry end = {.not_after_ms = (uint64_t)now_ms + ORDER_VALID_MS + END_KEPT_MS,
			    .is_done = true,
			    .is_end = task[0] != '\0'};
	uint8_t bytes[ORDER_UUID_SIZE];

	if (!id_uuid_bytes(alloc, bytes))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "'%.64s' is no allocation", alloc);
	digest_of(bytes, task, end.for_what);
	memcpy(end.nonce, end.for_what, FOR_SIZE);
	if (!first_begun(nonces, end.for_what) && (!end.is_end || has_ended(nonces, &end, (uint64_t)now_ms)))
		return STATUS_OK;
	if (end.is_end)
		make_place_for_end(nonces, (uint64_t)now_ms);
	(void)tidy(nonces, NULL); /* a full disk keeps the file that has room for ends */
	TRY(append(nonces, &end, err));
	take_line(nonces, &end);
	return STATUS_OK;
}

size_t nonces_n_compared(const struct nonces *nonces)
{
	return nonces->n_compared;
}
