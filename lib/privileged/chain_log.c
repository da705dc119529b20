/* SPDX-License-Identifier: Apache-2.0 */
#include "privileged/chain_log.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/ofd_lock.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/sys.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/stat.h>
#include <stdatomic.h>
#include <string.h>

enum { TAIL_MAX = 4 * CHAIN_LOG_LINE_MAX, DIGEST_SIZE = CHAIN_LOG_DIGEST_HEX / 2 };

static void digest_of(chain_log_digest_fn *sha256, const char *line, size_t n,
		      char ret[static CHAIN_LOG_DIGEST_HEX + 1])
{
	uint8_t digest[DIGEST_SIZE];

	(void)sha256(digest, (const unsigned char *)line, (unsigned long long)n);
	hex_encode(ret, digest, sizeof(digest));
}

/* Returns the number of the record of @n bytes at @line, or 0 for a line that is not a record or was never
 * finished. Spoils the line. */
static uint64_t number_of(char *line, size_t n)
{
	static const char prev[] = " prev=";
	static const char rec[] = " rec=";
	size_t chain = strlen(prev) + CHAIN_LOG_DIGEST_HEX;
	char *at = memmem(line, n, rec, strlen(rec));
	char *end = at ? memchr(at + strlen(rec), ' ', (size_t)(line + n - at) - strlen(rec)) : NULL;
	uint64_t number = 0;

	if (!end || n < chain || memcmp(line + n - chain, prev, strlen(prev)) != 0)
		return 0;
	*end = '\0';
	return parse_u64(at + strlen(rec), 1, UINT64_MAX - 1, &number) == 0 ? number : 0;
}

int chain_log_read_end(char *tail, size_t n, bool whole, chain_log_digest_fn *sha256,
		       struct chain_log_end *ret)
{
	static const uint8_t nothing[DIGEST_SIZE];
	struct chain_log_end end = {.torn = n > 0 && tail[n - 1] != '\n'};
	char *stop = tail + n - (n > 0 && !end.torn);
	bool is_first = n == 0;

	hex_encode(end.digest[0], nothing, sizeof(nothing));
	hex_encode(end.digest[1], nothing, sizeof(nothing));
	/* lines from the last one back, to one that is a record: a death leaves unfinished ones behind it */
	for (int i = 0; !is_first && (i < 2 || end.rec == 0); i++) {
		char *newline = memrchr(tail, '\n', (size_t)(stop - tail));
		char *start = newline ? newline + 1 : tail;

		is_first = !newline;
		if (is_first && !whole)
			break; /* its beginning is out of sight */
		if (i < 2)
			digest_of(sha256, start, (size_t)(stop - start), end.digest[i]);
		if (end.rec == 0)
			end.rec = number_of(start, (size_t)(stop - start));
		stop = start - 1;
	}
	if (end.rec == 0 && !(whole && (n == 0 || end.torn)))
		return -EBADMSG;
	*ret = end;
	return 0;
}

/* Where the next record goes, from the file or from the head. Returns 0 or a negative errno. */
static int read_end(struct chain_log *log, uint64_t size)
{
	char tail[TAIL_MAX];
	size_t n = size > sizeof(tail) ? sizeof(tail) : (size_t)size;

	for (size_t have = 0; have < n;) {
		ssize_t got = sys_pread(log->read_fd, tail + have, n - have, (off_t)(size - n + have));

		if (got <= 0)
			return got < 0 ? (int)got : -EIO;
		have += (size_t)got;
	}
	return chain_log_read_end(tail, n, n == size, log->sha256, &log->end);
}

/* Compares the end of the file with the head. Returns the head= value for the next record, or NULL. A
 * death between the write and store_head() leaves one line more than in the head. */
static const char *compare_head(struct chain_log *log, uint64_t size)
{
	const struct chain_log_head *head = log->head;
	struct chain_log_end *end = &log->end;

	if (head->rec == 0)
		return size == 0 ? NULL : "unknown";
	if (size == 0) {
		end->rec = head->rec;
		memcpy(end->digest[0], head->digest, sizeof(head->digest));
		return "rotated";
	}
	if (memcmp(end->digest[0], head->digest, sizeof(head->digest)) == 0 ||
	    memcmp(end->digest[1], head->digest, sizeof(head->digest)) == 0)
		return NULL;
	return "mismatch";
}

/* A death in between leaves no number, hence no false alarm. */
static void store_head(struct chain_log_head *head, const struct chain_log_end *end, uint64_t file)
{
	head->rec = 0;
	atomic_signal_fence(memory_order_seq_cst);
	memcpy(head->digest, end->digest[0], sizeof(head->digest));
	head->file = file;
	atomic_signal_fence(memory_order_seq_cst);
	head->rec = end->rec;
}

static int sync_log(struct chain_log *log)
{
	int r = sys_fdatasync(log->fd);

	log->unsynced = r < 0;
	log->synced_us = r < 0 ? 0 : clock_monotonic_us();
	return r;
}

static void begin_line(struct chain_log *log, const char *time)
{
	log->line = (struct keyline)KEYLINE_INIT;
	keyline_word(&log->line, "ts", time);
}

/* Puts the record together as it goes to the file. Returns 0 or -EMSGSIZE. */
static int compose(struct chain_log *log, const struct keyline *record, const char *time, const char *head)
{
	begin_line(log, time);
	keyline_number(&log->line, "rec", log->end.rec + 1);
	keyline_append(&log->line, &log->origin);
	keyline_append(&log->line, record);
	if (head)
		keyline_word(&log->line, "head", head);
	keyline_word(&log->line, "prev", log->end.digest[0]);
	return log->line.overflow ? -EMSGSIZE : 0;
}

static int append_locked(struct chain_log *log, const struct keyline *record, const char *time)
{
	const char *head = NULL;
	bool is_moved;
	struct statx st;
	ssize_t written;
	size_t n; /* of the line with its newline, without the space before it */

	if (log->fd < 0)
		return -EBADF;
	/* without its times: asking for them makes the next write update them */
	TRY_SYS(sys_statx(log->read_fd, "", AT_EMPTY_PATH,
			  STATX_NLINK | STATX_INO | STATX_SIZE | STATX_BLOCKS, &st));
	if (st.stx_nlink == 0)
		return -ESTALE; /* deleted: written data would be lost */
	/* what this process once wrote to is not where a younger one writes: the chain has gone on there */
	is_moved = log->known_size != 0 && log->head->file != st.stx_ino;
	/* of another size: another instance or root was there */
	if (log->known_size == 0 || st.stx_size != log->known_size) {
		TRY_SYS(read_end(log, st.stx_size));
		head = compare_head(log, st.stx_size);
		/* one death after another must not leave it two lines behind */
		if (!head && !is_moved && log->head->rec != 0 &&
		    memcmp(log->head->digest, log->end.digest[0], sizeof(log->head->digest)) != 0)
			store_head(log->head, &log->end, st.stx_ino);
	}
	/* keeps room for cleaning up when the disk is full; without it the write may still succeed */
	if (st.stx_blocks * 512 < st.stx_size + CHAIN_LOG_AHEAD_MIN)
		(void)sys_fallocate(log->fd, FALLOC_FL_KEEP_SIZE, (off_t)st.stx_size, CHAIN_LOG_AHEAD);
	TRY_SYS(compose(log, record, time, is_moved ? "moved" : head));
	written = log->end.torn ? sys_write(log->fd, "\n", 1) : 1;
	if (written != 1)
		return written < 0 ? (int)written : -ENOSPC;
	n = log->line.len;
	log->line.text[n] = '\n';
	written = sys_write(log->fd, log->line.text + 1, n);
	log->line.text[n] = '\0';
	if (written != (ssize_t)n)
		return written < 0 ? (int)written : -ENOSPC; /* torn; the next record repairs the chain */
	log->known_size = st.stx_size + log->end.torn + (uint64_t)written;
	log->end.rec++;
	log->end.torn = false;
	log->head_file = is_moved ? 0 : st.stx_ino;
	log->unchained = true;
	log->unsynced = true;
	return log->batch && clock_monotonic_us() - log->synced_us < USEC_PER_SEC ? 0 : sync_log(log);
}

void chain_log_settle(struct chain_log *log)
{
	if (log->unchained) {
		digest_of(log->sha256, log->line.text + 1, log->line.len - 1, log->end.digest[0]);
		if (log->head_file != 0)
			store_head(log->head, &log->end, log->head_file);
	}
	log->unchained = false;
	if (log->locked)
		ofd_unlock(log->lock_fd, log->lock_at, 1);
	log->locked = false;
}

int chain_log_append(struct chain_log *log, const struct keyline *record, uint64_t *ret_rec)
{
	char time[CLOCK_TEXT_SIZE];
	int r;

	assert(log->head && log->sha256);
	chain_log_settle(log);
	r = ofd_lock(log->lock_fd, log->lock_at, 1, true);
	(void)clock_format(clock_realtime_ms(), time);
	if (r == 0) {
		log->locked = true;
		r = append_locked(log, record, time);
	}
	if (r == 0) {
		*ret_rec = log->end.rec;
		return 0;
	}
	chain_log_settle(log);
	begin_line(log, time);
	keyline_append(&log->line, &log->origin);
	keyline_append(&log->line, record);
	return r;
}

void chain_log_idle(struct chain_log *log)
{
	if (log->unsynced)
		(void)sync_log(log);
}
