/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The mount helper's trail: lines of key=value, each carrying the SHA-256 of the line before it. Pure. */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum {
	TRAIL_LINE_MAX = 4096, /* bytes without the newline; the helper's own limit is lower */
	TRAIL_FIELDS_MAX = 64,
	TRAIL_HASH_SIZE = 65, /* lower-case hex and NUL */
};

struct trail_field {
	const char *key;
	const char *value;
};

/* A record; everything borrowed from the line. */
struct trail_record {
	struct trail_field fields[TRAIL_FIELDS_MAX];
	size_t n;
};

/** Split @line in place. False for anything that is not a whole record: no ts first, no prev last, a key
 * twice, more fields than the limit. */
bool trail_parse(char *line, struct trail_record *ret);

/** Value of @key, or "". */
const char *trail_get(const struct trail_record *record, const char *key);

/** NULL when memory is short. @ret owned by the caller */
json_t *trail_to_json(const struct trail_record *record);

/* Which records to show; NULL means any. */
struct trail_filter {
	const char *volume;    /* whole value */
	const char *alloc;     /* beginning of the value */
	const char *result;    /* whole value of res */
	const char *operation; /* whole value of op */
	const char *since;     /* RFC 3339 UTC or its beginning */
	const char *until;     /* the same; all that begins with it is still in */
};

bool trail_matches(const struct trail_record *record, const struct trail_filter *filter);

enum { TRAIL_OPEN_MAX = 64 }; /* far more than helpers that can be at work at once */

/* Operations whose intent has been seen, and no result yet: in the order of the file. Begin with zeroes. */
struct trail_open {
	size_t n;
	struct trail_intent {
		char *key;
		char *line;
	} intents[TRAIL_OPEN_MAX];
};

/** Take in the next record, @line, and the same split. An intent that can no longer get a result, because it
 * came again or because too many younger ones wait, is given out as @ret_line, owned by the caller; else
 * NULL. False when memory is short. */
bool trail_open_add(struct trail_open *open, const char *line, const struct trail_record *record,
		    char **ret_line);

/** Take out the oldest intent that waits: its line, owned by the caller, or NULL. */
char *trail_open_take(struct trail_open *open);

enum trail_fault {
	TRAIL_INTACT,
	TRAIL_CHANGED,	 /* the hash of the line before is not the line's prev */
	TRAIL_GAP,	 /* numbers are missing, or run backwards, under a valid chain */
	TRAIL_START,	 /* the first record has a predecessor */
	TRAIL_JOINT,	 /* the first record of a further file does not follow the last one before */
	TRAIL_MISMATCH,	 /* the helper itself missed its last record */
	TRAIL_UNVOUCHED, /* a torn line that no record follows */
	TRAIL_TOO_LONG,	 /* no line of a trail is */
	TRAIL_CUT,	 /* the last line has no end */
	TRAIL_HEAD,	 /* no line has the hash that one must have */
};

/** A sentence without the line number. */
const char *trail_fault_text(enum trail_fault fault);

/* The results of a verification so far. Begin with TRAIL_CHECK_INIT. */
struct trail_check {
	bool rotated;	  /* the first record may have a predecessor */
	const char *want; /* hash that some line must have, or NULL */
	bool is_found;
	size_t files;	/* before this one */
	uint64_t lines; /* of this file */
	uint64_t records;
	uint64_t torn;		    /* lines that were never finished */
	bool is_torn;		    /* the last line is */
	uint64_t rec;		    /* number of the last record, 0 before the first */
	char head[TRAIL_HASH_SIZE]; /* hash of the last line; of no line: zeroes */
	bool is_moved;		    /* a helper wrote here after the next file was begun */
	uint64_t joint_rec;	    /* number and hash of the last line before that */
	char joint[TRAIL_HASH_SIZE];
	enum trail_fault fault; /* the first one */
	size_t fault_file;	/* counted from 0 */
	uint64_t fault_line;
	uint64_t faults; /* how many */
};

#define TRAIL_CHECK_INIT(rotated_, want_)              \
	{                                              \
		.rotated = (rotated_), .want = (want_) \
	}

/** Take in the next line of @n bytes, NUL-terminated, without its newline. @complete: it had one. */
void trail_check_line(struct trail_check *check, const char *line, size_t n, bool complete);

/** Continues with the chain in the next file. */
void trail_check_next_file(struct trail_check *check);

/** After the last line. */
void trail_check_end(struct trail_check *check);

enum { TRAIL_HEADS_MAX = 64 };

/* A head that the server was shown, and what the files have in its place. */
struct trail_shown {
	uint64_t record;
	char sha256[TRAIL_HASH_SIZE];
	int64_t time_ms;
	enum { SHOWN_MISSING, SHOWN_AGREES, SHOWN_DIFFERS } is;
};

struct trail_heads {
	struct trail_shown shown[TRAIL_HEADS_MAX]; /* by number */
	size_t n;
	uint64_t first, last; /* numbers of the first and of the last record in the files; 0: no record */
};

/** Compare the line that @check has just taken in. */
void trail_heads_look(struct trail_heads *heads, const struct trail_check *check);

/* The result of comparing the files with the heads. */
enum trail_verdict {
	TRAIL_AGREES,
	TRAIL_UNKNOWN,	/* there is no head */
	TRAIL_EARLIER,	/* every head is older than the files */
	TRAIL_SHORT,	/* they end before the newest head, and agree with the others */
	TRAIL_REWOUND,	/* they agree with an old head and not with a newer one */
	TRAIL_REPLACED, /* they agree with no head */
};

/** @ret_bad the lowest head that does not agree, @ret_good the highest below it that does; NULL: there is no
 * such head */
enum trail_verdict trail_heads_classify(const struct trail_heads *heads, const struct trail_shown **ret_good,
					const struct trail_shown **ret_bad);

/** Read the next line of at most TRAIL_LINE_MAX bytes without its newline into @line of TRAIL_LINE_MAX + 1. A
 * longer line is passed over: @ret_length is TRAIL_LINE_MAX + 1 then. Returns false at the end of the file or
 * on an error, see ferror(). */
bool trail_read_line(FILE *file, char *line, size_t *ret_length, bool *ret_complete);
