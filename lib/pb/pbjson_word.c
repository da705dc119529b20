/* SPDX-License-Identifier: Apache-2.0 */
#include "pb/pbjson_word.h"

#include "base/str.h"

#include <stdio.h>
#include <string.h>

static char to_lower(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (char)(c - 'A' + 'a');
	return c;
}

/* SINGLE_NODE_WRITER is written single-node-writer; underscores do as well. */
static char spec_char(char c)
{
	if (c == '_')
		return '-';
	return to_lower(c);
}

/* Length of the enum's own name with '_' at the start of @name: 12 for PROPAGATION_PRIVATE of Propagation. */
static size_t prefix_length(const ProtobufCEnumDescriptor *descriptor, const char *name)
{
	size_t n = 0;

	for (const char *p = descriptor->short_name; *p; p++) {
		if (p > descriptor->short_name && *p >= 'A' && *p <= 'Z' && name[n++] != '_')
			return 0;
		if (to_lower(name[n++]) != to_lower(*p))
			return 0;
	}
	return name[n] == '_' && name[n + 1] ? n + 1 : 0;
}

static bool spec_eq(const char *name, const char *word)
{
	while (*name && spec_char(*name) == spec_char(*word)) {
		name++;
		word++;
	}
	return *name == '\0' && *word == '\0';
}

const ProtobufCEnumValue *pbjson_word_find(const ProtobufCEnumDescriptor *descriptor, const char *word,
					   bool spec)
{
	for (unsigned int i = 0; i < descriptor->n_values; i++) {
		const ProtobufCEnumValue *value = &descriptor->values[i];

		if (str_eq(value->name, word))
			return value;
		if (spec && (spec_eq(value->name, word) ||
			     spec_eq(value->name + prefix_length(descriptor, value->name), word)))
			return value;
	}
	return NULL;
}

/* The zero that means "not given" has no form for people. */
static bool is_unspecified(const ProtobufCEnumValue *value)
{
	static const char tail[] = "_UNSPECIFIED";
	size_t n = strlen(value->name);

	return value->value == 0 && n >= sizeof(tail) && str_eq(value->name + n - (sizeof(tail) - 1), tail);
}

const char *pbjson_word_list(const ProtobufCEnumDescriptor *descriptor, bool spec, char *text, size_t size)
{
	size_t n = 0;

	text[0] = '\0';
	for (unsigned int i = 0; i < descriptor->n_values && n < size; i++) {
		const ProtobufCEnumValue *value = &descriptor->values[i];
		size_t start = n + (n ? 2 : 0);
		const char *name = value->name;

		if (spec && is_unspecified(value))
			continue;
		if (spec)
			name += prefix_length(descriptor, name);
		n += (size_t)snprintf(text + n, size - n, "%s%s", n ? ", " : "", name);
		for (size_t k = start; spec && k < n && k < size - 1; k++)
			text[k] = spec_char(text[k]);
	}
	return text;
}

const char *pbjson_word_text(const ProtobufCEnumDescriptor *descriptor, int value,
			     char text[static PBJSON_WORD_SIZE])
{
	const ProtobufCEnumValue *known = protobuf_c_enum_descriptor_get_value(descriptor, value);

	if (!known) {
		(void)snprintf(text, PBJSON_WORD_SIZE, "%d", value);
		return text;
	}
	(void)snprintf(text, PBJSON_WORD_SIZE, "%s", known->name + prefix_length(descriptor, known->name));
	for (char *p = text; *p; p++)
		*p = spec_char(*p);
	return text;
}
