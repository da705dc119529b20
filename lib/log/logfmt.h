/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Text of log lines: fields of a context, and escaping. */

#include "log/log.h"

enum { LOG_FIELDS_MAX = 10 };

/* A field that is taken from the context as it is. */
struct log_field {
	const char *journal; /* "HOLDFAST_VOLUME" */
	const char *logfmt;  /* "volume" */
	size_t offset;	     /* of a const char * in struct log_ctx */
};

extern const struct log_field log_fields[LOG_FIELDS_MAX];

/* Those that the context gives in another form than text: "HOLDFAST_EVENT", "event", ... */
enum log_made {
	LOG_MADE_EVENT,
	LOG_MADE_MESSAGE_ID, /* of the journal alone */
	LOG_MADE_RESULT,
	LOG_MADE_GENERATION,
	LOG_MADE_STATUS,
	LOG_MADE_ERRNO,
	LOG_MADE_N,
};

struct log_made_field {
	const char *journal;
	const char *logfmt; /* NULL: not there */
};

extern const struct log_made_field log_made_fields[LOG_MADE_N];

enum { LOG_NUMBER_SIZE = 24 };

/** Value of @made in @ctx, in static storage or in @number; NULL: it has none. */
const char *log_made_value(enum log_made made, const struct log_ctx *ctx,
			   char number[static LOG_NUMBER_SIZE]);

/** Value of @field in @ctx, or NULL. */
const char *log_field_value(const struct log_field *field, const struct log_ctx *ctx);

/** Copy @text into @dst of @size bytes with control bytes and what is not UTF-8 as \n, \t, \r or \xHH; cut
 * between characters when it does not fit. Returns the length. */
size_t log_escape(char *dst, size_t size, const char *text);
