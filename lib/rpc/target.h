/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The target of an HTTP request, "/v1/volume/csi/db?why=true", taken apart strictly. Pure.
 *
 * A segment of the path is decoded only after the path was cut at its slashes, so an escaped slash is part of
 * a name. Source: RFC 3986 sections 2.1 and 3; "+" is a blank in a query, as browsers and curl write it. */

#include "base/error.h"
#include "rpc/request_head.h"

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum {
	TARGET_PARAMS_MAX = 32, /* of a query */
	PATTERN_FIELDS_MAX = 3, /* in braces, of a pattern */
};

struct target_param {
	const char *name; /* decoded, into the target's text */
	const char *value;
};

struct target {
	char text[REQUEST_PATH_MAX + 1];
	size_t n_params;
	struct target_param params[TARGET_PARAMS_MAX];
};

/** Read the query behind the path of @target, if there is one. STATUS_INVALID_ARGUMENT for a broken escape, a
 * NUL, an empty name, bytes that are no UTF-8, or too many parameters. @ret must stay where it is. */
enum status target_read(const char *target, struct target *ret, struct error *err);

/** Bytes of the path of @target, without query. */
size_t target_path_length(const char *target);

/** Decode @n bytes into @dst of at least @n + 1. @plus: "+" is a blank.
 * Returns the length, or -EINVAL for a broken escape, a NUL, or bytes that are not UTF-8. */
ssize_t percent_decode(char *dst, const char *src, size_t n, bool plus);

/* One segment in braces: neither is NUL-terminated, the value is not decoded. */
struct pattern_field {
	const char *name;
	size_t name_len;
	const char *value;
	size_t value_len;
};

struct pattern_match {
	size_t n;
	struct pattern_field fields[PATTERN_FIELDS_MAX];
};

/** Is the path of @n bytes one of @pattern, "/v1/volume/csi/{id}/create"? A segment in braces takes any that
 * is not empty. @ret points into both. */
bool pattern_match(const char *pattern, const char *path, size_t n, struct pattern_match *ret);
