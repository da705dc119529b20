#pragma once
/* The record of what was asked and done: one line of key=value per record, each carrying the SHA-256 of the
 * line before it, so that a removed or edited line shows. The file belongs to root and is only ever appended
 * to; when root puts an empty one in its place the chain goes on in it.
 *
 * Several instances share one file: a record is look at the end, compose, append, sync under a lock of the
 * file. */

#include "base/keyline.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	TRAIL_LINE_MAX = 1024,	       /* with its newline */
	TRAIL_DIGEST_HEX = 64,	       /* SHA-256 */
	TRAIL_AHEAD = 4 * 1024 * 1024, /* bytes reserved beyond the end of the file */
	TRAIL_AHEAD_MIN = 64 * 1024,   /* renewed when less is left */
};

/* What the instances together wrote last, in memory that they share and that outlives them. */
struct trail_head {
	uint64_t rec;  /* 0: nothing is known */
	uint64_t file; /* inode of the file it is in: the newest one */
	char digest[TRAIL_DIGEST_HEX];
};

/* The end of the file. */
struct trail_end {
	uint64_t rec;			      /* number of the last record, 0 for none */
	bool torn;			      /* the last line has no newline */
	char digest[2][TRAIL_DIGEST_HEX + 1]; /* of the last line, and of the one before */
};

struct trail {
	int fd;	     /* O_WRONLY | O_APPEND */
	int read_fd; /* the same file */
	const char *cluster;
	const char *node;
	struct trail_head *head;
	bool batch;	     /* sync once a second instead of once a record */
	bool unsynced;	     /* something is not on the medium yet */
	uint64_t synced_us;  /* monotonic */
	uint64_t known_size; /* of the file, as long as it is what `end` describes; 0: look again */
	struct trail_end end;
	char line[TRAIL_LINE_MAX]; /* the last record, for the other sinks: without newline */
};

/** Append a record, of which @record is the middle, to the file; wait for the medium unless trail->batch and
 * less than a second has passed.
 * When the file does not end as the head says, the record has a word about it: head=rotated for an empty file
 * that continues the chain, head=moved in a file that another one has taken the place of already,
 * head=unknown after a reboot, head=mismatch when somebody changed the end.
 *
 * trail->line is set in any case, without number and chain when the file cannot be written.
 * @ret_rec its number in the file, untouched on failure
 * Returns 0 or a negative errno; -EBADMSG when the file does not end like a trail, -ESTALE when it was
 * deleted. */
int trail_append(struct trail *trail, const struct keyline *record, uint64_t *ret_rec);

/** Bring to the medium what trail->batch has left: when nothing happened for a second, and at the end. A
 * failure shows with the next record. */
void trail_idle(struct trail *trail);

/** Understand the last @n bytes at @tail of a file, @whole when that is the whole file; writes into @tail.
 * Pure. Returns 0 or -EBADMSG. */
int trail_read_end(char *tail, size_t n, bool whole, struct trail_end *ret);
