#pragma once
/* Text of log lines: fields of a context, and escaping. */

#include "log/log.h"

enum { LOG_FIELDS_MAX = 7 };

/* A field that is taken from the context as it is. */
struct log_field {
	const char *journal; /* "HOLDFAST_VOLUME" */
	const char *logfmt;  /* "volume" */
	size_t offset;	     /* of a const char * in struct log_ctx */
};

extern const struct log_field log_fields[LOG_FIELDS_MAX];

/** Value of @field in @ctx, or NULL. */
const char *log_field_value(const struct log_field *field, const struct log_ctx *ctx);

/** Copy @text into @dst of @size bytes with control bytes and what is not UTF-8 as \n, \t, \r or \xHH; cut
 * between characters when it does not fit. Returns the length. */
size_t log_escape(char *dst, size_t size, const char *text);
