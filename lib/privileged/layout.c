/* SPDX-License-Identifier: Apache-2.0 */
#include "privileged/layout.h"

#include "base/str.h"

static size_t field_size(uint16_t field, const struct layout_text *texts)
{
	if (field < LAYOUT_ANY)
		return texts[field].size;
	return field >= LAYOUT_UP_TO ? 1 : field % LAYOUT_ANY;
}

static bool field_is_valid(uint16_t field, const struct layout_text *texts, const char *at)
{
	if (field < LAYOUT_ANY)
		return str_is_padded(at, texts[field].size) && texts[field].is_valid(at);
	if (field >= LAYOUT_UP_TO)
		return (uint8_t)*at <= field % LAYOUT_ANY;
	return field < LAYOUT_ZERO || bytes_are_zero(at, field % LAYOUT_ANY);
}

size_t layout_size(const uint16_t *layout, const struct layout_text *texts)
{
	size_t n = 0;

	for (; *layout != LAYOUT_END; layout++)
		n += field_size(*layout, texts);
	return n;
}

bool layout_is_valid(const uint16_t *layout, const struct layout_text *texts, const void *bytes)
{
	const char *at = bytes;

	for (; *layout != LAYOUT_END; at += field_size(*layout++, texts))
		if (!field_is_valid(*layout, texts, at))
			return false;
	return true;
}
