/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The error that travels: a canonical gRPC code, the errno behind it and one sentence for a person.
 *
 * A value, never allocated, usable when memory is short. Functions that can fail return `enum status` and
 * take `struct error *err` last: filled on failure (may be NULL), untouched on success; `ret_` outputs are
 * untouched on failure. Callers branch on the status, never on the text. lib/base itself returns 0 or a
 * negative errno. */

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Canonical codes, same numbers as gRPC. Source: grpc/doc/statuscodes.md. */
enum status {
	STATUS_OK = 0,
	STATUS_CANCELLED = 1,
	STATUS_UNKNOWN = 2,
	STATUS_INVALID_ARGUMENT = 3,
	STATUS_DEADLINE_EXCEEDED = 4,
	STATUS_NOT_FOUND = 5,
	STATUS_ALREADY_EXISTS = 6,
	STATUS_PERMISSION_DENIED = 7,
	STATUS_RESOURCE_EXHAUSTED = 8,
	STATUS_FAILED_PRECONDITION = 9,
	STATUS_ABORTED = 10,
	STATUS_OUT_OF_RANGE = 11,
	STATUS_UNIMPLEMENTED = 12,
	STATUS_INTERNAL = 13,
	STATUS_UNAVAILABLE = 14,
	STATUS_DATA_LOSS = 15,
	STATUS_UNAUTHENTICATED = 16,
	STATUS_N,
};

enum {
	ERROR_MSG_MAX = 1024,
	ERROR_FIELDS_MAX = 32, /* more lines than a message has room for */
	ERROR_FIELD_SIZE = 96,
};

/** A line of a message that begins with the path of the field that it is about, @n bytes at @at. */
struct error_field {
	uint16_t at;
	uint16_t n;
};

struct error {
	enum status status;
	int sys_errno;		 /* positive errno, or 0 when no system call failed */
	char msg[ERROR_MSG_MAX]; /* UTF-8: who, what, where, why, the next command; cut at the end if long */
	size_t n_fields;	 /* for error_get_field() */
	struct error_field fields[ERROR_FIELDS_MAX];
};

/** error_set() without its value. */
void error_fill(struct error *err, enum status status, int sys_errno, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/** enum status error_set(struct error *err, enum status status, int sys_errno, const char *fmt, ...)
 *
 * Fill @err and return @status.
 * @err       may be NULL
 * @status    not STATUS_OK
 * @sys_errno errno of either sign, or 0; when not 0 its text is appended to the message
 * @fmt       printf format without a trailing newline
 * A macro, so that static analysis sees that what it returns is a failure. */
#define error_set(err, status_, ...)                           \
	__extension__({                                        \
		enum status error_status_ = (status_);         \
		if (error_status_ == STATUS_OK)                \
			__builtin_unreachable();               \
		error_fill((err), error_status_, __VA_ARGS__); \
		error_status_;                                 \
	})

/** enum status error_no_memory(struct error *err, const char *what): STATUS_RESOURCE_EXHAUSTED, @what names
 * the object that was not made, with its article. */
#define error_no_memory(err, what) \
	error_set((err), STATUS_RESOURCE_EXHAUSTED, 0, "out of memory for %s", (what))

/** error_invalid() without its value. */
void error_fill_field(struct error *err, const char *field, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/** enum status error_invalid(struct error *err, const char *field, const char *fmt, ...)
 *
 * error_set() with STATUS_INVALID_ARGUMENT and "<field>: <message>", where error_get_field() finds the field.
 * @field path within the message that is judged, as people write it: "source.by_id", "capability[1]",
 *        "volume data" (a block with a label) */
#define error_invalid(err, field, ...)                         \
	__extension__({                                        \
		error_fill_field((err), (field), __VA_ARGS__); \
		STATUS_INVALID_ARGUMENT;                       \
	})

/** Gather mistakes, STATUS_INVALID_ARGUMENT, a line each, as far as an error has room. Any other failure
 * takes their place.
 * @so_far what @err has, STATUS_OK: nothing
 * @status of the part that was just judged, whose error @one is unless it is STATUS_OK
 * Returns what @err has now. */
enum status error_collect(enum status so_far, enum status status, const struct error *one, struct error *err);

/** Reads the @i-th field that an error names, @i below err->n_fields, and its text. False when it was cut. */
bool error_get_field(const struct error *err, size_t i, char field[static ERROR_FIELD_SIZE],
		     char text[static ERROR_MSG_MAX]);

/** Put @path before each field that @err names, "group db" and "count" make "group db.count"; an error
 * without a field gets @path. Returns the status; @err must not be NULL. */
enum status error_below(struct error *err, const char *path);

/** Put "<prefix>: " before the message of a filled @err and return its status; @err must not be NULL. Its
 * fields are removed. */
enum status error_prefix(struct error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/** TRY(enum status expr): return the status of @expr from the calling function unless it is STATUS_OK. Safe
 * at any point, because the cleanup attribute releases what the function owns. */
#define TRY(expr)                          \
	do {                               \
		enum status try_ = (expr); \
		if (try_ != STATUS_OK)     \
			return try_;       \
	} while (0)

/** Code for a failed system call. @sys_errno of either sign; unlisted values are STATUS_INTERNAL. */
enum status status_from_errno(int sys_errno);

/** Canonical name, "NOT_FOUND"; "UNKNOWN" for a value outside the enum. */
const char *status_name(enum status status);

/** Fold a number from the wire into the enum: unknown codes are STATUS_UNKNOWN, as gRPC prescribes. */
enum status status_from_number(long number);
