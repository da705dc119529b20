/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/target.h"

#include "base/str.h"
#include "base/utf8.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

size_t target_path_length(const char *target)
{
	return strcspn(target, "?");
}

ssize_t percent_decode(char *dst, const char *src, size_t n, bool plus)
{
	size_t length = 0;

	for (size_t i = 0; i < n; i++) {
		char c = src[i];

		if (c == '+' && plus) {
			c = ' ';
		} else if (c == '%') {
			char digits[3] = {0};

			if (n - i < 3)
				return -EINVAL;
			memcpy(digits, src + i + 1, 2);
			if (hex_decode(&c, 1, digits) < 0)
				return -EINVAL;
			i += 2;
		}
		if (c == '\0')
			return -EINVAL;
		dst[length++] = c;
	}
	dst[length] = '\0';
	return utf8_is_valid(dst, length) ? (ssize_t)length : -EINVAL;
}

/* Decode @n bytes of the query to the end of the text that is used; NULL when they are malformed. */
static const char *decode_part(struct target *target, size_t *used, const char *part, size_t n)
{
	char *at = target->text + *used;
	ssize_t length = percent_decode(at, part, n, true);

	if (length < 0)
		return NULL;
	*used += (size_t)length + 1;
	return at;
}

static enum status read_param(struct target *target, size_t *used, const char *param, size_t n,
			      struct error *err)
{
	const char *equals = memchr(param, '=', n);
	size_t name_len = equals ? (size_t)(equals - param) : n;
	struct target_param *next = &target->params[target->n_params];

	if (target->n_params == TARGET_PARAMS_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "a query has at most %d parameters",
				 TARGET_PARAMS_MAX);
	next->name = decode_part(target, used, param, name_len);
	next->value = equals ? decode_part(target, used, equals + 1, n - name_len - 1) : "";
	if (!next->name || !next->value || next->name[0] == '\0')
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "parameter %zu of the query cannot be read: escape it as %%XX, in UTF-8",
				 target->n_params + 1);
	target->n_params++;
	return STATUS_OK;
}

enum status target_read(const char *target, struct target *ret, struct error *err)
{
	assert(strlen(target) <= REQUEST_PATH_MAX);

	const char *query = target + target_path_length(target);
	size_t used = 0;

	ret->n_params = 0;
	while (*query != '\0') {
		size_t n = strcspn(query + 1, "&");

		if (n != 0)
			TRY(read_param(ret, &used, query + 1, n, err));
		query += 1 + n;
	}
	return STATUS_OK;
}

/* Does @segment of @n bytes fit the next segment of the pattern, of @pattern_len bytes? */
static bool match_segment(const char *pattern, size_t pattern_len, const char *segment, size_t n,
			  struct pattern_match *match)
{
	if (pattern_len < 2 || pattern[0] != '{')
		return pattern_len == n && memcmp(pattern, segment, n) == 0;
	if (n == 0)
		return false;
	assert(match->n < PATTERN_FIELDS_MAX && pattern[pattern_len - 1] == '}');
	match->fields[match->n++] = (struct pattern_field){
		.name = pattern + 1,
		.name_len = pattern_len - 2,
		.value = segment,
		.value_len = n,
	};
	return true;
}

static size_t segment_length(const char *at, const char *end)
{
	const char *slash = memchr(at, '/', (size_t)(end - at));

	return (size_t)((slash ? slash : end) - at);
}

bool pattern_match(const char *pattern, const char *path, size_t n, struct pattern_match *ret)
{
	const char *pattern_end = pattern + strlen(pattern);
	const char *end = path + n;

	ret->n = 0;
	while (pattern < pattern_end && path < end) {
		size_t pattern_len = segment_length(pattern, pattern_end);
		size_t segment_len = segment_length(path, end);

		if (!match_segment(pattern, pattern_len, path, segment_len, ret))
			return false;
		pattern += pattern_len;
		path += segment_len;
		if ((pattern < pattern_end) != (path < end))
			return false;
		pattern += pattern < pattern_end;
		path += path < end;
		if ((pattern < pattern_end) != (path < end))
			return false; /* one of them ends with a slash */
	}
	return pattern == pattern_end && path == end;
}
