/* SPDX-License-Identifier: Apache-2.0 */
#include "nomad/value.h"

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "model/reference.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH_MAX = 16, NAME_SIZE = 128, VALUE_COST = 16, COST_MAX = 4 << 20 };

#define cleanup_json cleanup(json_decrefp)

static void set_why(char ret_why[static NOMAD_WHY_SIZE], const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void set_why(char ret_why[static NOMAD_WHY_SIZE], const char *fmt, ...)
{
	char why[2 * NOMAD_WHY_SIZE];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(why, sizeof(why), fmt, args);
	va_end(args);
	str_copy_text(ret_why, NOMAD_WHY_SIZE, why);
}

/* Fills @ret_why and is NULL. */
#define why_not(ret_why, ...) (set_why((ret_why), __VA_ARGS__), NULL)

/* Is it a type of variables whose values are not texts? */
static bool is_text_type(const json_t *type)
{
	return !type || (json_is_string(type) && str_eq(json_string_value(type), "${string}"));
}

static json_t *variable(struct nomad_scope *scope, const char *name, char ret_why[static NOMAD_WHY_SIZE])
{
	const json_t *block = json_object_get(scope->variables, name);
	json_t *given = json_object_get(scope->values, name);
	json_t *value = json_object_get(block, "default");

	if (!block)
		return why_not(ret_why, "there is no variable %.64s", name);
	if (given && !is_text_type(json_object_get(block, "type"))) {
		json_t *typed = json_loads(json_string_value(given), JSON_DECODE_ANY, NULL);

		return typed ? typed : json_incref(given);
	}
	if (given)
		return json_incref(given);
	if (!value || json_is_null(value))
		return why_not(ret_why, "variable %.64s has no default; give it with --var NAME=VALUE", name);
	return nomad_value(scope, value, ret_why);
}

static json_t *local(struct nomad_scope *scope, const char *name, char ret_why[static NOMAD_WHY_SIZE])
{
	const json_t *value = json_object_get(scope->locals, name);

	return value ? nomad_value(scope, value, ret_why)
		     : why_not(ret_why, "there is no local value %.64s", name);
}

/* `.key` and `["key"]` behind a value, which is taken over. */
static json_t *member(json_t *of, const char *path, const char *whole, char ret_why[static NOMAD_WHY_SIZE])
{
	cleanup_json json_t *value = of;

	while (value && *path != '\0') {
		char name[NAME_SIZE];
		bool is_index = str_starts_with(path, "[\"");
		const char *start = path + (is_index ? 2 : 1);
		size_t n = strcspn(start, is_index ? "\"" : ".[");
		json_t *inner;

		if ((*path != '.' && !is_index) || n == 0 || n >= sizeof(name) ||
		    (is_index && !str_starts_with(start + n, "\"]")))
			return why_not(ret_why, "%.96s is not evaluated; write its value", whole);
		(void)str_format(name, sizeof(name), "%.*s", (int)n, start);
		inner = json_object_get(value, name);
		if (!inner)
			return why_not(ret_why, "%.96s has no value", whole);
		(void)json_incref(inner);
		json_decref(value);
		value = inner;
		path = start + n + (is_index ? 2 : 0);
	}
	return TAKE_PTR(value);
}

static json_t *named(struct nomad_scope *scope, const char *text, char ret_why[static NOMAD_WHY_SIZE])
{
	const char *start = strchr(text, '.') + 1;
	size_t n = strcspn(start, ".[");
	char name[NAME_SIZE];
	json_t *value;

	if (n == 0 || n >= sizeof(name) || strcspn(text, " \t(?+*/=<>&|!") < strlen(text))
		return why_not(ret_why, "%.96s is not evaluated; write its value", text);
	if (scope->depth == DEPTH_MAX)
		return why_not(ret_why, "%.96s names itself, or others more than %d levels deep", text,
			       DEPTH_MAX);
	(void)str_format(name, sizeof(name), "%.*s", (int)n, start);
	scope->depth++;
	value = str_starts_with(text, "var.") ? variable(scope, name, ret_why) : local(scope, name, ret_why);
	scope->depth--;
	return value ? member(value, start + n, text, ret_why) : NULL;
}

/* ${NOMAD_PORT_http}: the port is the same inside and outside. */
static json_t *port(const struct nomad_scope *scope, const char *text, char ret_why[static NOMAD_WHY_SIZE])
{
	static const char *const names[] = {"NOMAD_PORT_", "NOMAD_HOST_PORT_", "NOMAD_ALLOC_PORT_"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (str_starts_with(text, names[i])) {
			json_t *number = json_object_get(scope->ports, text + strlen(names[i]));

			return number ? json_incref(number)
				      : why_not(ret_why,
						"%.96s has no number: no port is mapped; write the number",
						text);
		}
	return NULL;
}

/* The value of the @n bytes at @at, which were in "${}". */
static json_t *expression(struct nomad_scope *scope, const char *at, size_t n,
			  char ret_why[static NOMAD_WHY_SIZE])
{
	cleanup_free char *text = NULL;
	json_t *value;

	scope->cost += n;
	for (; n > 0 && strchr(" \t", *at); at++)
		n--;
	while (n > 0 && strchr(" \t", at[n - 1]))
		n--;
	text = strndup(at, n);
	if (!text)
		return why_not(ret_why, "memory is short");
	if (str_starts_with(text, "var.") || str_starts_with(text, "local."))
		return named(scope, text, ret_why);
	ret_why[0] = '\0';
	value = port(scope, text, ret_why);
	if (value || ret_why[0] != '\0')
		return value;
	if (str_eq(text, "attr.unique.hostname") && scope->references != NOMAD_NO_REFERENCES)
		return json_string("${node.unique.name}");
	if (reference_is_known(text))
		return scope->references == NOMAD_ALL_REFERENCES ||
				       (scope->references == NOMAD_OWN_REFERENCES &&
					!reference_is_of_node(text))
			       ? json_sprintf("${%s}", text)
			       : why_not(ret_why, "${%.96s} is not replaced here; write its value", text);
	value = json_loads(text, JSON_DECODE_ANY, NULL);
	if (str_eq(text, "CSI_ENDPOINT"))
		return why_not(ret_why, "${CSI_ENDPOINT} is not replaced here; write unix:///csi/csi.sock, "
					"where /csi is the mount_dir of csi_plugin");
	return value ? value : why_not(ret_why, "${%.96s} is not evaluated; write its value", text);
}

/* The end of the expression that begins at @p with "${"; the parser has seen it. */
static const char *expression_end(const char *p)
{
	bool is_text = false;
	size_t depth = 0;

	for (p++; *p != '\0'; p++) {
		if (*p == '"')
			is_text = !is_text;
		else if (is_text && p[0] == '\\' && p[1] != '\0')
			p++;
		else if (!is_text && *p == '{')
			depth++;
		else if (!is_text && *p == '}' && --depth == 0)
			return p;
	}
	return p;
}

/* The text of @value in Nomad. NULL: a list, a map, null or a number of too many digits. free() */
static char *scalar_text(const json_t *value)
{
	double real = json_real_value(value);
	char text[32];

	if (json_is_string(value))
		return strdup(json_string_value(value));
	if (json_is_integer(value) || json_is_boolean(value))
		return json_dumps(value, JSON_ENCODE_ANY);
	/* 15 digits of the file are exact in a double */
	(void)str_format(text, sizeof(text), "%.15g", real);
	return json_is_real(value) && !strchr(text, 'e') && strtod(text, NULL) == real ? strdup(text) : NULL;
}

/* A value within a text. */
static bool put_part(struct strbuf *text, const json_t *part, char ret_why[static NOMAD_WHY_SIZE])
{
	cleanup_free char *scalar = scalar_text(part);

	if (scalar)
		strbuf_puts(text, scalar);
	else
		set_why(ret_why,
			"a list, a map, null or a number of more than 15 digits is no part of a text");
	return scalar != NULL;
}

static json_t *text_value(struct nomad_scope *scope, const char *at, char ret_why[static NOMAD_WHY_SIZE])
{
	cleanup_strbuf struct strbuf text = STRBUF_INIT(1 << 20);
	json_t *value;

	if (str_starts_with(at, "${") && *expression_end(at) == '}' && expression_end(at)[1] == '\0')
		return expression(scope, at + 2, (size_t)(expression_end(at) - at - 2), ret_why);
	while (*at != '\0') {
		cleanup_json json_t *part = NULL;
		const char *end;

		if ((at[0] == '$' || at[0] == '%') && at[1] == at[0] && at[2] == '{') {
			strbuf_put(&text, at, 3);
			at += 3;
		} else if (str_starts_with(at, "%{")) {
			return why_not(ret_why, "%%{ } is not evaluated; write the text");
		} else if (str_starts_with(at, "${")) {
			end = expression_end(at);
			part = expression(scope, at + 2, (size_t)(end - at - 2), ret_why);
			if (!part || !put_part(&text, part, ret_why))
				return NULL;
			at = end + 1;
		} else {
			strbuf_put(&text, at++, 1);
		}
	}
	scope->cost += text.len;
	value = text.error == 0 ? json_string(text.data ? text.data : "") : NULL;
	return value ? value : why_not(ret_why, "memory is short");
}

static json_t *list_value(struct nomad_scope *scope, const json_t *list, char ret_why[static NOMAD_WHY_SIZE])
{
	cleanup_json json_t *result = json_array();
	json_t *item;
	size_t i;

	json_array_foreach (list, i, item)
		if (json_array_append_new(result, nomad_value(scope, item, ret_why)) < 0)
			return NULL;
	return TAKE_PTR(result);
}

json_t *nomad_value(struct nomad_scope *scope, const json_t *value, char ret_why[static NOMAD_WHY_SIZE])
{
	cleanup_json json_t *result = NULL;
	const char *key;
	json_t *inner;

	scope->cost += VALUE_COST;
	if (scope->cost > COST_MAX)
		return why_not(ret_why, "the file has too many expressions that name others; write values");
	if (json_is_string(value))
		return text_value(scope, json_string_value(value), ret_why);
	if (json_is_array(value))
		return list_value(scope, value, ret_why);
	if (!json_is_object(value))
		return json_deep_copy(value);
	result = json_object();
	json_object_foreach ((json_t *)(uintptr_t)value, key, inner) {
		scope->cost += strlen(key);
		if (json_object_set_new(result, key, nomad_value(scope, inner, ret_why)) < 0)
			return NULL;
	}
	return TAKE_PTR(result);
}

static json_t *list_of_texts(json_t *list)
{
	cleanup_json json_t *result = json_array();
	json_t *item;
	size_t i;

	json_array_foreach (list, i, item)
		if (json_array_append_new(result, nomad_convert(item, NOMAD_TEXT)) < 0)
			return NULL;
	return TAKE_PTR(result);
}

json_t *nomad_convert(json_t *value, enum nomad_type type)
{
	cleanup_free char *text = scalar_text(value);
	bool is_negative = text && text[0] == '-', truth;
	uint32_t number;

	if (type == NOMAD_TEXTS && json_is_array(value))
		return list_of_texts(value);
	if (!text)
		return NULL;
	switch (type) {
	case NOMAD_TEXTS:
		return json_pack("[s]", text);
	case NOMAD_INTEGER:
		return parse_u32(text + is_negative, 0, INT32_MAX, &number) < 0
			       ? NULL
			       : json_integer(is_negative ? -(json_int_t)number : number);
	case NOMAD_BOOL:
		return parse_bool(text, &truth) < 0 ? NULL : json_boolean(truth);
	case NOMAD_TEXT:
	default:
		return json_string(text);
	}
}

static void print_text(struct strbuf *out, const char *text)
{
	strbuf_puts(out, "\"");
	for (; *text != '\0'; text++) {
		static const char escaped[] = "\n\t\r\"\\", letters[] = "ntr\"\\";
		const char *at = strchr(escaped, *text);

		if (at)
			strbuf_printf(out, "\\%c", letters[at - escaped]);
		else if ((unsigned char)*text < 0x20)
			strbuf_printf(out, "\\u%04x", (unsigned int)*text);
		else
			strbuf_put(out, text, 1);
	}
	strbuf_puts(out, "\"");
}

static void print_value(struct strbuf *out, const json_t *value)
{
	cleanup_free char *number = NULL;
	const char *comma = "", *key;
	json_t *inner;
	size_t i;

	if (json_is_string(value)) {
		print_text(out, json_string_value(value));
	} else if (json_is_array(value)) {
		strbuf_puts(out, "[");
		json_array_foreach (value, i, inner) {
			strbuf_puts(out, comma);
			print_value(out, inner);
			comma = ", ";
		}
		strbuf_puts(out, "]");
	} else if (json_is_object(value)) {
		strbuf_puts(out, "{");
		json_object_foreach ((json_t *)(uintptr_t)value, key, inner) {
			strbuf_printf(out, "%s ", comma);
			print_text(out, key);
			strbuf_puts(out, " = ");
			print_value(out, inner);
			comma = ",";
		}
		strbuf_puts(out, " }");
	} else {
		number = json_dumps(value, JSON_ENCODE_ANY);
		strbuf_puts(out, number ? number : "null");
	}
}

char *nomad_print(const json_t *value)
{
	cleanup_strbuf struct strbuf out = STRBUF_INIT(4 << 20);

	print_value(&out, value);
	return strbuf_take(&out);
}
