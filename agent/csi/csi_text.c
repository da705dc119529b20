/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/csi_text.h"

#include "base/ends.h"
#include "base/error.h"
#include "base/str.h"
#include "csi/csi_secret.h"
#include "pb/reflect.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static const char dots[] = "...";

/* Text being written into an array, in pieces that are never cut. */
struct out {
	char *text;
	size_t size;
	size_t len;
	size_t safe; /* the last end of a piece behind which the dots have room */
	bool is_full;
};

static void put(struct out *out, const char *piece, size_t n)
{
	if (out->len + sizeof(dots) <= out->size)
		out->safe = out->len;
	if (out->is_full || n >= out->size - out->len) {
		out->is_full = true;
		return;
	}
	memcpy(out->text + out->len, piece, n);
	out->len += n;
}

static void puts_out(struct out *out, const char *text)
{
	put(out, text, strlen(text));
}

static void csi_text_finish(struct out *out)
{
	size_t room;

	if (out->is_full) {
		room = out->size - 1 - out->safe;
		memcpy(out->text + out->safe, dots, room < sizeof(dots) - 1 ? room : sizeof(dots) - 1);
		out->len = out->safe + (room < sizeof(dots) - 1 ? room : sizeof(dots) - 1);
	}
	out->text[out->len] = '\0';
}

static void put_escaped(struct out *out, char c)
{
	char escape[8];

	switch (c) {
	case '\n':
		puts_out(out, "\\n");
		return;
	case '\t':
		puts_out(out, "\\t");
		return;
	case '\r':
		puts_out(out, "\\r");
		return;
	default:
		(void)snprintf(escape, sizeof(escape), "\\x%02x", (unsigned int)(uint8_t)c);
		puts_out(out, escape);
		return;
	}
}

/* @quote is escaped as well; 0: no such character */
static void put_line(struct out *out, const char *text, char quote)
{
	while (*text != '\0' && !out->is_full) {
		size_t n = str_printable(text);

		if (quote && *text == quote)
			put(out, (const char[]){'\\', quote}, 2);
		else if (n == 0)
			put_escaped(out, *text);
		else
			put(out, text, n);
		text += n > 0 ? n : 1;
	}
}

static void put_message(struct out *out, const ProtobufCMessage *message);

/* Writes a map. Shows the values of a topology only, because a plugin may put passwords into its contexts. */
static void put_map(struct out *out, const struct reflect_values *values)
{
	bool is_open = str_eq(values->field->name, "segments");

	puts_out(out, "{");
	for (size_t i = 0; i < values->n && !out->is_full; i++) {
		const ProtobufCMessage *entry = reflect_message(reflect_value(values, i));

		puts_out(out, i > 0 ? " \"" : "\"");
		put_line(out, reflect_entry_key(entry), '"');
		puts_out(out, "\"");
		if (!is_open)
			continue;
		puts_out(out, "=\"");
		put_line(out, reflect_entry_value(entry), '"');
		puts_out(out, "\"");
	}
	puts_out(out, "}");
}

static void put_number(struct out *out, const struct reflect_values *values, size_t i)
{
	int64_t number = (int64_t)reflect_number(values->field->type, reflect_value(values, i));
	const ProtobufCEnumValue *name = NULL;
	char text[32];

	if (values->field->type == PROTOBUF_C_TYPE_BOOL) {
		puts_out(out, number ? "true" : "false");
		return;
	}
	if (values->field->type == PROTOBUF_C_TYPE_ENUM)
		name = protobuf_c_enum_descriptor_get_value(values->field->descriptor, (int)number);
	(void)snprintf(text, sizeof(text), "%" PRId64, number);
	puts_out(out, name ? name->name : text);
}

static void put_value(struct out *out, const struct reflect_values *values, size_t i)
{
	if (values->field->type == PROTOBUF_C_TYPE_MESSAGE) {
		puts_out(out, "{");
		put_message(out, reflect_message(reflect_value(values, i)));
		puts_out(out, "}");
	} else if (values->field->type == PROTOBUF_C_TYPE_STRING) {
		puts_out(out, "\"");
		put_line(out, reflect_text(reflect_value(values, i)), '"');
		puts_out(out, "\"");
	} else {
		put_number(out, values, i);
	}
}

static void put_field(struct out *out, const struct reflect_values *values, bool is_secret)
{
	bool is_list = reflect_is_list(values->field);

	puts_out(out, values->field->name);
	puts_out(out, "=");
	if (is_secret) {
		puts_out(out, "[redacted]");
		return;
	}
	if (reflect_is_map(values->field)) {
		put_map(out, values);
		return;
	}
	puts_out(out, is_list ? "[" : "");
	for (size_t i = 0; i < values->n && !out->is_full; i++) {
		puts_out(out, i > 0 ? " " : "");
		put_value(out, values, i);
	}
	puts_out(out, is_list ? "]" : "");
}

static void put_message(struct out *out, const ProtobufCMessage *message)
{
	const ProtobufCMessageDescriptor *type = message->descriptor;
	bool is_first = true;

	for (unsigned int i = 0; i < type->n_fields && !out->is_full; i++) {
		struct reflect_values values = reflect_values(message, &type->fields[i]);

		/* in a wrapper, the default is a value too */
		if (str_starts_with(type->name, "google.protobuf."))
			values.n = 1;
		if (values.n == 0)
			continue;
		puts_out(out, is_first ? "" : " ");
		is_first = false;
		put_field(out, &values, csi_is_secret(type, values.field));
	}
}

void csi_text(const ProtobufCMessage *message, char *ret, size_t size)
{
	struct out out = {.text = ret, .size = size};

	put_message(&out, message);
	csi_text_finish(&out);
}

void csi_text_line(const char *text, char *ret, size_t size)
{
	struct out out = {.text = ret, .size = size};

	put_line(&out, text ? text : "", '\0');
	csi_text_finish(&out);
}

void csi_text_ends(const char *text, char *ret, size_t size)
{
	enum { ESCAPED_MAX = 4 }; /* bytes of one that is escaped */
	char whole[ESCAPED_MAX * ERROR_MSG_MAX];

	csi_text_line(text, whole, sizeof(whole));
	str_copy_ends(ret, size, whole);
}
