#include "trail.h"

#include "base/clock.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/falloc.h>
#include <sodium.h>
#include <stdatomic.h>
#include <string.h>

enum { TAIL_MAX = 4 * TRAIL_LINE_MAX };

static void digest_of(const char *line, size_t n, char ret[static TRAIL_DIGEST_HEX + 1])
{
	uint8_t digest[crypto_hash_sha256_BYTES];

	(void)crypto_hash_sha256(digest, (const unsigned char *)line, (unsigned long long)n);
	hex_encode(ret, digest, sizeof(digest));
}

/* The number of the record of @n bytes at @line, or 0 for a line that is none or was never finished. Spoils
 * the line. */
static uint64_t number_of(char *line, size_t n)
{
	static const char prev[] = " prev=";
	static const char rec[] = " rec=";
	size_t chain = strlen(prev) + TRAIL_DIGEST_HEX;
	char *at = memmem(line, n, rec, strlen(rec));
	char *end = at ? memchr(at + strlen(rec), ' ', (size_t)(line + n - at) - strlen(rec)) : NULL;
	uint64_t number = 0;

	if (!end || n < chain || memcmp(line + n - chain, prev, strlen(prev)) != 0)
		return 0;
	*end = '\0';
	return parse_u64(at + strlen(rec), 1, UINT64_MAX - 1, &number) == 0 ? number : 0;
}

int trail_read_end(char *tail, size_t n, bool whole, struct trail_end *ret)
{
	static const uint8_t nothing[crypto_hash_sha256_BYTES];
	struct trail_end end = {.torn = n > 0 && tail[n - 1] != '\n'};
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
			digest_of(start, (size_t)(stop - start), end.digest[i]);
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
static int read_end(struct trail *trail, uint64_t size)
{
	char tail[TAIL_MAX];
	size_t n = size > sizeof(tail) ? sizeof(tail) : (size_t)size;

	for (size_t have = 0; have < n;) {
		ssize_t got = sys_pread(trail->read_fd, tail + have, n - have, (off_t)(size - n + have));

		if (got <= 0)
			return got < 0 ? (int)got : -EIO;
		have += (size_t)got;
	}
	return trail_read_end(tail, n, n == size, &trail->end);
}

/* Is the end of the file what the head says? Returns what there is to say about it, or "". One line more than
 * the head knows is what a death between the write and store_head() leaves. */
static const char *compare_head(struct trail *trail, uint64_t size)
{
	const struct trail_head *head = trail->head;
	struct trail_end *end = &trail->end;

	if (head->rec == 0)
		return size == 0 ? "" : " head=unknown";
	if (size == 0) {
		end->rec = head->rec;
		memcpy(end->digest[0], head->digest, sizeof(head->digest));
		return " head=rotated";
	}
	if (memcmp(end->digest[0], head->digest, sizeof(head->digest)) == 0 ||
	    memcmp(end->digest[1], head->digest, sizeof(head->digest)) == 0)
		return "";
	return " head=mismatch";
}

/* A death in between leaves no number, hence no false alarm. */
static void store_head(struct trail_head *head, const struct trail_end *end, uint64_t file)
{
	head->rec = 0;
	atomic_signal_fence(memory_order_seq_cst);
	memcpy(head->digest, end->digest[0], sizeof(head->digest));
	head->file = file;
	atomic_signal_fence(memory_order_seq_cst);
	head->rec = end->rec;
}

static int sync_log(struct trail *trail)
{
	int r = sys_fdatasync(trail->fd);

	trail->unsynced = r < 0;
	trail->synced_us = r < 0 ? 0 : clock_monotonic_us();
	return r;
}

static int append_locked(struct trail *trail, const struct keyline *record, const char *time)
{
	char bytes[TRAIL_LINE_MAX + 2];
	const char *head = "";
	bool is_moved;
	struct stat st;
	ssize_t written;
	int n;
	int r = sys_fstat(trail->read_fd, &st);

	if (r == 0 && st.st_nlink == 0)
		return -ESTALE; /* deleted: what is written there nobody will ever read */
	/* what this process once wrote to is not where a younger one writes: the chain has gone on there */
	is_moved = r == 0 && trail->known_size != 0 && trail->head->file != (uint64_t)st.st_ino;
	/* of another size: another instance or root was there */
	if (r == 0 && (trail->known_size == 0 || (uint64_t)st.st_size != trail->known_size)) {
		r = read_end(trail, (uint64_t)st.st_size);
		head = r == 0 ? compare_head(trail, (uint64_t)st.st_size) : "";
	}
	if (r < 0)
		return r;
	head = is_moved ? " head=moved" : head;
	/* keeps room for cleaning up when the disk is full; without it the write may still succeed */
	if (st.st_blocks * 512 < st.st_size + TRAIL_AHEAD_MIN)
		(void)sys_fallocate(trail->fd, FALLOC_FL_KEEP_SIZE, st.st_size, TRAIL_AHEAD);
	n = str_format(trail->line, sizeof(trail->line),
		       "ts=%s rec=%" PRIu64 " cluster=%s node=%s%s%s prev=%s", time, trail->end.rec + 1,
		       trail->cluster, trail->node, record->text, head, trail->end.digest[0]);
	if (n < 0 || record->overflow)
		return -EMSGSIZE;
	n = str_format(bytes, sizeof(bytes), "%s%s\n", trail->end.torn ? "\n" : "", trail->line);
	written = sys_write(trail->fd, bytes, (size_t)n);
	if (written != n)
		return written < 0 ? (int)written : -ENOSPC; /* torn; the next record mends the chain */
	trail->known_size = (uint64_t)st.st_size + (uint64_t)n;
	trail->end.rec++;
	trail->end.torn = false;
	digest_of(trail->line, strlen(trail->line), trail->end.digest[0]);
	if (!is_moved)
		store_head(trail->head, &trail->end, (uint64_t)st.st_ino);
	trail->unsynced = true;
	return trail->batch && clock_monotonic_us() - trail->synced_us < USEC_PER_SEC ? 0 : sync_log(trail);
}

int trail_append(struct trail *trail, const struct keyline *record, uint64_t *ret_rec)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	char time[CLOCK_TEXT_SIZE];
	int r = sys_ofd_lock(trail->fd, F_OFD_SETLKW, &lock);

	(void)clock_format(clock_realtime_ms(), time);
	if (r == 0) {
		r = append_locked(trail, record, time);
		lock.l_type = F_UNLCK;
		(void)sys_ofd_lock(trail->fd, F_OFD_SETLKW, &lock); /* it is held: cannot fail */
	}
	if (r == 0) {
		*ret_rec = trail->end.rec;
		return 0;
	}
	(void)str_format(trail->line, sizeof(trail->line), "ts=%s cluster=%s node=%s%s", time, trail->cluster,
			 trail->node, record->text);
	return r;
}

void trail_idle(struct trail *trail)
{
	if (trail->unsynced)
		(void)sync_log(trail);
}
