/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/closest.h"
#include "base/parse.h"
#include "base/path.h"
#include "base/str.h"
#include "conf/conf.h"
#include "conf/conf_internal.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* One member that is being bound. */
struct binding {
	const struct conf *conf;
	json_t *object;
	const struct conf_field *field;
	json_t *value;
	void *target; /* the struct */
	struct error *err;
};

static void *member(const struct binding *b)
{
	return (char *)b->target + b->field->offset;
}

#define bind_error(b, ...) conf_error((b)->conf, (b)->object, (b)->field->key, (b)->err, __VA_ARGS__)

static enum status bind_string(const struct binding *b)
{
	const char *text = json_string_value(b->value);

	if (!text)
		return bind_error(b, "'%s' must be a string", b->field->key);
	if (b->field->type == CONF_PATH && !path_is_normal(text))
		return bind_error(b, "'%s' must be an absolute path without '.', '..' and doubled slashes",
				  b->field->key);
	if (strlen(text) != json_string_length(b->value))
		return bind_error(b, "'%s' holds a NUL byte", b->field->key);
	if (strlen(text) >= b->field->size)
		return bind_error(b, "'%s' may have %zu bytes at most", b->field->key, b->field->size - 1);
	return str_copy(member(b), b->field->size, text) < 0 ? STATUS_INTERNAL : STATUS_OK;
}

static enum status bind_strings(const struct binding *b)
{
	size_t n = json_array_size(b->value), i;
	char *list = member(b);
	json_t *item;

	if (!json_is_array(b->value))
		return bind_error(b, "'%s' must be a list of strings", b->field->key);
	if (n > b->field->max)
		return bind_error(b, "'%s' may have %" PRIu64 " entries at most", b->field->key,
				  b->field->max);
	memset(list, 0, b->field->max * b->field->size);
	json_array_foreach (b->value, i, item) {
		const char *text = json_string_value(item);

		if (!text || text[0] == '\0' || strlen(text) != json_string_length(item))
			return bind_error(b, "'%s' must be a list of strings, none of them empty",
					  b->field->key);
		if (str_copy(list + i * b->field->size, b->field->size, text) < 0)
			return bind_error(b, "an entry of '%s' may have %zu bytes at most", b->field->key,
					  b->field->size - 1);
	}
	return STATUS_OK;
}

static enum status bind_bool(const struct binding *b)
{
	if (!json_is_boolean(b->value))
		return bind_error(b, "'%s' must be true or false", b->field->key);
	*(bool *)member(b) = json_is_true(b->value);
	return STATUS_OK;
}

static enum status bind_number(const struct binding *b, uint64_t type_max)
{
	uint64_t max = b->field->max && b->field->max < type_max ? b->field->max : type_max;
	uint64_t number = (uint64_t)json_integer_value(b->value); /* below zero: above every maximum */

	if (!json_is_integer(b->value))
		return bind_error(b, "'%s' must be a whole number", b->field->key);
	if (number < b->field->min || number > max)
		return bind_error(b, "'%s' must be %" PRIu64 " to %" PRIu64, b->field->key, b->field->min,
				  max);
	if (b->field->type == CONF_U32)
		*(uint32_t *)member(b) = (uint32_t)number;
	else
		*(uint64_t *)member(b) = number;
	return STATUS_OK;
}

static enum status bind_size(const struct binding *b)
{
	uint64_t max = b->field->max ? b->field->max : UINT64_MAX;
	uint64_t size = 0;
	bool ok;

	if (json_is_string(b->value)) {
		ok = parse_size(json_string_value(b->value), &size) == 0;
	} else {
		ok = json_is_integer(b->value) && json_integer_value(b->value) >= 0;
		size = ok ? (uint64_t)json_integer_value(b->value) : 0;
	}
	if (!ok)
		return bind_error(b, "'%s' must be a size, a number of bytes or as in \"10GiB\"",
				  b->field->key);
	if (size < b->field->min || size > max)
		return bind_error(b, "'%s' must be %" PRIu64 " to %" PRIu64 " bytes", b->field->key,
				  b->field->min, max);
	*(uint64_t *)member(b) = size;
	return STATUS_OK;
}

static enum status bind_duration(const struct binding *b)
{
	uint64_t max = b->field->max ? b->field->max : UINT64_MAX;
	uint64_t duration = 0;
	char low[CLOCK_TEXT_SIZE];
	char high[CLOCK_TEXT_SIZE];

	if (!json_is_string(b->value) || parse_duration(json_string_value(b->value), &duration) < 0)
		return bind_error(b, "'%s' must be a duration with its unit, as in \"90s\"", b->field->key);
	if (duration < b->field->min || duration > max)
		return bind_error(b, "'%s' must be %s to %s", b->field->key,
				  clock_format_duration(b->field->min, low),
				  clock_format_duration(max, high));
	*(uint64_t *)member(b) = duration;
	return STATUS_OK;
}

/* JSON knows no labels: there, members that are all objects are taken for labelled blocks. */
static bool is_labelled(const struct binding *b)
{
	const struct line *line = lines_find(b->conf->lines, b->object, b->field->key);
	const char *key;
	json_t *value;

	if (line && line->kind != LINE_VALUE)
		return line->kind == LINE_LABELLED;
	json_object_foreach (b->value, key, value) {
		if (!json_is_object(value))
			return false;
	}
	return json_object_size(b->value) > 0;
}

static enum status bind_blocks(const struct binding *b)
{
	const char *label;
	json_t *body;
	size_t i;
	enum status status = STATUS_OK;

	if (json_is_array(b->value)) {
		json_array_foreach (b->value, i, body) {
			if (status != STATUS_OK)
				break;
			if (!json_is_object(body))
				return bind_error(b, "'%s' must be a block", b->field->key);
			status = b->field->block(b->conf, NULL, body, b->target, b->err);
		}
		return status;
	}
	if (!json_is_object(b->value))
		return bind_error(b, "'%s' must be a block", b->field->key);
	if (!is_labelled(b))
		return b->field->block(b->conf, NULL, b->value, b->target, b->err);
	json_object_foreach (b->value, label, body) {
		if (status == STATUS_OK)
			status = b->field->block(b->conf, label, body, b->target, b->err);
	}
	return status;
}

static enum status bind_member(const struct binding *b)
{
	switch (b->field->type) {
	case CONF_STRING:
	case CONF_PATH:
		return bind_string(b);
	case CONF_BOOL:
		return bind_bool(b);
	case CONF_U32:
		return bind_number(b, UINT32_MAX);
	case CONF_U64:
		return bind_number(b, INT64_MAX); /* what a file can express */
	case CONF_SIZE:
		return bind_size(b);
	case CONF_DURATION:
		return bind_duration(b);
	case CONF_STRINGS:
		return bind_strings(b);
	case CONF_BLOCKS:
		return bind_blocks(b);
	}
	assert(false);
	return STATUS_INTERNAL;
}

enum status conf_unknown_key(const struct conf *conf, const json_t *object, const char *key,
			     const char *const *known, size_t n, struct error *err)
{
	const char *meant = closest(key, known, n);

	if (meant)
		return conf_error(conf, object, key, err, "unknown key '%.64s', did you mean '%s'?", key,
				  meant);
	return conf_error(conf, object, key, err, "unknown key '%.64s'", key);
}

static enum status check_keys(const struct conf *conf, json_t *object, const struct conf_field *fields,
			      size_t n_fields, struct error *err)
{
	const char *known[CONF_FIELDS_MAX];
	const char *key;
	json_t *value;

	assert(n_fields <= CONF_FIELDS_MAX);
	for (size_t i = 0; i < n_fields; i++)
		known[i] = fields[i].key;
	json_object_foreach (object, key, value) {
		size_t i = 0;

		while (i < n_fields && !str_eq(key, known[i]))
			i++;
		if (i == n_fields)
			return conf_unknown_key(conf, object, key, known, n_fields, err);
	}
	return STATUS_OK;
}

enum status conf_bind(const struct conf *conf, json_t *object, const struct conf_field *fields,
		      size_t n_fields, void *target, struct error *err)
{
	enum status status = check_keys(conf, object, fields, n_fields, err);

	for (size_t i = 0; i < n_fields && status == STATUS_OK; i++) {
		struct binding b = {
			.conf = conf,
			.object = object,
			.field = &fields[i],
			.value = json_object_get(object, fields[i].key),
			.target = target,
			.err = err,
		};

		if (b.value && !json_is_null(b.value))
			status = bind_member(&b);
		else if (fields[i].required)
			status = conf_error(conf, object, fields[i].key, err, "'%s' is missing",
					    fields[i].key);
	}
	return status;
}
