/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A log of one line of key=value per record, each carrying the SHA-256 of the line before it, so that a
 * removed or edited line shows. The file is only ever appended to; when root puts an empty one in its place
 * the chain continues in it.
 *
 * Several processes share one file: a record is look at the end, compose, append, sync under a lock of the
 * file. */

#include "privileged/keyline.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CHAIN_LOG_LINE_MAX = 1024,	   /* with its newline */
	CHAIN_LOG_DIGEST_HEX = 64,	   /* SHA-256 */
	CHAIN_LOG_AHEAD = 4 * 1024 * 1024, /* bytes reserved beyond the end of the file */
	CHAIN_LOG_AHEAD_MIN = 64 * 1024,   /* renewed when less is left */
};

/* The last record of all processes together, in memory that they share and that outlives them. */
struct chain_log_head {
	uint64_t rec;  /* 0: nothing is known */
	uint64_t file; /* inode of the file it is in: the newest one */
	char digest[CHAIN_LOG_DIGEST_HEX];
};

/* The end of the file. */
struct chain_log_end {
	uint64_t rec;				  /* number of the last record; 0: no record */
	bool torn;				  /* the last line has no newline */
	char digest[2][CHAIN_LOG_DIGEST_HEX + 1]; /* of the last line, and of the one before */
};

/* SHA-256 of @n bytes into @ret, as libsodium has it; what it returns is of no interest. */
typedef int chain_log_digest_fn(unsigned char *ret, const unsigned char *bytes, unsigned long long n);

struct chain_log {
	int fd;	     /* O_WRONLY | O_APPEND; negative: not open, and each record fails with -EBADF */
	int read_fd; /* the same file */
	int lock_fd; /* a file that only the writers can open, and the byte of it that they lock */
	int64_t lock_at;
	struct keyline origin; /* the same pairs in every record */
	chain_log_digest_fn *sha256;
	struct chain_log_head *head;
	bool batch;	     /* sync once a second instead of once a record */
	bool locked;	     /* from chain_log_append() to chain_log_settle() */
	bool unchained;	     /* the last record is not in `end` and head yet */
	bool unsynced;	     /* something is not on the medium yet */
	uint64_t head_file;  /* inode for the head; 0: the chain has gone on elsewhere */
	uint64_t synced_us;  /* monotonic */
	uint64_t known_size; /* of the file, as long as it is what `end` describes; 0: look again */
	struct chain_log_end end;
	struct keyline line; /* the last record, for the other sinks: a space before it, no newline */
};

/** Appends a record, of which @record is the middle, to the file; waits for the medium unless log->batch and
 * less than a second has passed. No other process writes until chain_log_settle().
 * If the end of the file differs from the head, the record has a key for it: head=rotated for an empty file
 * that continues the chain, head=moved in a file that another one has already replaced, head=unknown after a
 * reboot, head=mismatch when the end was changed by another program.
 *
 * log->line is set in any case, without number and chain when the file cannot be written.
 * @ret_rec its number in the file, untouched on failure
 * Returns 0 or a negative errno; -EBADMSG when the file does not end like a trail, -ESTALE when it was
 * deleted. */
int chain_log_append(struct chain_log *log, const struct keyline *record, uint64_t *ret_rec);

/** Finishes a record, outside the latency of its caller: computes the digest for the next record, publishes
 * the head to the other processes, and lets them write. Death before it leaves the same as death within
 * chain_log_append(). Must be called after each record, at the latest before the next one. */
void chain_log_settle(struct chain_log *log);

/** Brings to the medium what log->batch has left: when nothing happened for a second, and at the end. A
 * failure shows with the next record. */
void chain_log_idle(struct chain_log *log);

/** Understands the last @n bytes at @tail of a file, @whole when that is the whole file; writes into @tail.
 * Pure. Returns 0 or -EBADMSG. */
int chain_log_read_end(char *tail, size_t n, bool whole, chain_log_digest_fn *sha256,
		       struct chain_log_end *ret);
