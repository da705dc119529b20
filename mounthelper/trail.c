#include "trail.h"

#include "base/clock.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

_Static_assert(TRAIL_DIGEST_HEX == 2 * crypto_hash_sha256_BYTES, "SHA-256");

enum { TAIL_MAX = 4 * TRAIL_LINE_MAX };

static void append(struct record *record, const char *text)
{
	size_t n = strlen(text);

	if (n >= sizeof(record->text) - record->len) {
		record->overflow = true;
		return;
	}
	memcpy(record->text + record->len, text, n + 1);
	record->len += n;
}

static bool is_plain(const char *s)
{
	if (*s == '\0')
		return false;
	for (; *s != '\0'; s++) {
		bool alnum = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9');

		if (!alnum && !strchr("._:+/@,-", *s))
			return false;
	}
	return true;
}

static void upper_hex(char *dst, const void *bytes, size_t n)
{
	hex_encode(dst, bytes, n);
	for (; *dst != '\0'; dst++)
		if (*dst >= 'a')
			*dst = (char)(*dst - 'a' + 'A');
}

void record_word(struct record *record, const char *key, const char *value)
{
	char hex[2 * TRAIL_VALUE_MAX + 1];
	size_t n = strnlen(value, TRAIL_VALUE_MAX + 1);

	if (n > TRAIL_VALUE_MAX) {
		record->overflow = true;
		return;
	}
	append(record, " ");
	append(record, key);
	append(record, "=");
	if (is_plain(value)) {
		append(record, value);
	} else {
		upper_hex(hex, value, n);
		append(record, hex);
	}
}

void record_number(struct record *record, const char *key, uint64_t value)
{
	char digits[24];

	(void)str_format(digits, sizeof(digits), "%" PRIu64, value);
	record_word(record, key, digits);
}

void record_hex(struct record *record, const char *key, const void *bytes, size_t n)
{
	char hex[2 * TRAIL_VALUE_MAX + 1];

	if (n > TRAIL_VALUE_MAX / 2) {
		record->overflow = true;
		return;
	}
	hex_encode(hex, bytes, n);
	record_word(record, key, hex);
}

/* The number of the line of @n bytes; false when it has none that is complete. */
static bool line_rec(const char *line, size_t n, uint64_t *ret)
{
	static const char key[] = " rec=";
	const char *at = memmem(line, n, key, sizeof(key) - 1);
	char digits[24];
	size_t len;

	if (!at)
		return false;
	at += sizeof(key) - 1;
	len = strspn(at, "0123456789");
	if (len == 0 || len >= sizeof(digits) || at + len >= line + n || at[len] != ' ')
		return false;
	memcpy(digits, at, len);
	digits[len] = '\0';
	return parse_u64(digits, 1, UINT64_MAX - 1, ret) == 0;
}

/* Start of the line that ends before @end. */
static const char *line_start(const char *tail, const char *end)
{
	const char *newline = end > tail ? memrchr(tail, '\n', (size_t)(end - tail)) : NULL;

	return newline ? newline + 1 : tail;
}

int trail_read_end(const char *tail, size_t n, bool whole, struct trail_end *ret)
{
	struct trail_end end = {.rec = 0};
	uint8_t digest[crypto_hash_sha256_BYTES];
	const char *stop = tail + n;
	const char *start;
	uint64_t rec = 0;

	if (n == 0) {
		end.rec = 1;
		memset(end.prev, '0', TRAIL_DIGEST_HEX);
		*ret = end;
		return whole ? 0 : -EBADMSG;
	}
	end.torn = stop[-1] != '\n';
	if (!end.torn)
		stop--;
	start = line_start(tail, stop);
	if (start == tail && !whole)
		return -EBADMSG; /* longer than any line of ours */
	(void)crypto_hash_sha256(digest, (const unsigned char *)start, (unsigned long long)(stop - start));
	hex_encode(end.prev, digest, sizeof(digest));
	/* a torn line may have lost its number: go back to one that has it */
	while (!line_rec(start, (size_t)(stop - start), &rec)) {
		if (start == tail)
			break;
		stop = start - 1;
		start = line_start(tail, stop);
	}
	if (rec == 0 && !(whole && end.torn))
		return -EBADMSG;
	end.rec = rec + 1;
	*ret = end;
	return 0;
}

static int read_end(const struct trail *trail, struct trail_end *ret)
{
	char tail[TAIL_MAX + 1];
	struct stat st;
	off_t from;
	size_t have = 0;
	int r = sys_fstat(trail->read_fd, &st);

	if (r < 0)
		return r;
	if (st.st_nlink == 0)
		return -ESTALE; /* deleted: what is written there nobody will ever read */
	from = st.st_size > TAIL_MAX ? st.st_size - TAIL_MAX : 0;
	while (have < (size_t)(st.st_size - from)) {
		ssize_t n = sys_pread(trail->read_fd, tail + have, (size_t)(st.st_size - from) - have,
				      from + (off_t)have);

		if (n == -EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? (int)n : -EIO;
		have += (size_t)n;
	}
	tail[have] = '\0';
	return trail_read_end(tail, have, from == 0, ret);
}

static int append_locked(const struct trail *trail, const struct record *record, uint64_t *ret_rec)
{
	char line[TRAIL_LINE_MAX + 2];
	char time[CLOCK_TEXT_SIZE];
	struct trail_end end;
	ssize_t written;
	int n;
	int r = read_end(trail, &end);

	if (r < 0)
		return r;
	n = str_format(line, sizeof(line), "%sts=%s rec=%" PRIu64 " cluster=%s node=%s%s prev=%s\n",
		       end.torn ? "\n" : "", clock_format(clock_realtime_ms(), time), end.rec, trail->cluster,
		       trail->node, record->text, end.prev);
	if (n < 0 || record->overflow)
		return -EMSGSIZE;
	do {
		written = sys_write(trail->fd, line, (size_t)n);
	} while (written == -EINTR);
	if (written < 0)
		return (int)written;
	if (written != n)
		return -ENOSPC; /* a torn line; the next record mends the chain */
	r = sys_fdatasync(trail->fd);
	if (r < 0)
		return r;
	*ret_rec = end.rec;
	return 0;
}

int trail_append(const struct trail *trail, const struct record *record, uint64_t *ret_rec)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	int r;

	do {
		r = sys_ofd_lock(trail->fd, F_OFD_SETLKW, &lock);
	} while (r == -EINTR);
	if (r < 0)
		return r;
	r = append_locked(trail, record, ret_rec);
	lock.l_type = F_UNLCK;
	(void)sys_ofd_lock(trail->fd, F_OFD_SETLKW, &lock); /* cannot fail for a lock that is held */
	return r;
}
