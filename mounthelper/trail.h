#pragma once
/* The record of what was asked and done: one line of key=value per record, each carrying the SHA-256 of the
 * line before it, so that a removed or edited line shows. The file belongs to root and is only ever appended
 * to.
 *
 * Several instances share one file: a record is read-tail, compose, append, sync under a lock of the file. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	TRAIL_LINE_MAX = 1024, /* with its newline */
	TRAIL_DIGEST_HEX = 64, /* SHA-256 */
	TRAIL_VALUE_MAX = 160, /* bytes of one value before any encoding */
};

struct trail {
	int fd;	     /* O_WRONLY | O_APPEND */
	int read_fd; /* the same file */
	const char *cluster;
	const char *node;
};

/* The middle of a record under construction. Begin with RECORD_INIT. */
struct record {
	char text[TRAIL_LINE_MAX];
	size_t len;
	bool overflow;
};

#define RECORD_INIT      \
	{                \
		.len = 0 \
	}

/** Append key=value. Bytes outside `[A-Za-z0-9._:+/@,-]` make the whole value upper-case hex. */
void record_word(struct record *record, const char *key, const char *value);
void record_number(struct record *record, const char *key, uint64_t value);
void record_hex(struct record *record, const char *key, const void *bytes, size_t n);

/** Append the record to the file and wait for the medium.
 * @ret_rec its number in the file
 * Returns 0 or a negative errno; -EBADMSG when the file does not end like a trail, -ESTALE when it was
 * deleted. */
int trail_append(const struct trail *trail, const struct record *record, uint64_t *ret_rec);

/* What the end of the file says about the next record. */
struct trail_end {
	uint64_t rec;			 /* number of the next record */
	char prev[TRAIL_DIGEST_HEX + 1]; /* hex digest of the last line */
	bool torn;			 /* the last line has no newline */
};

/** Understand the last @n bytes at @tail of a file; @whole when that is the whole file. Pure.
 * Returns 0 or -EBADMSG. */
int trail_read_end(const char *tail, size_t n, bool whole, struct trail_end *ret);
