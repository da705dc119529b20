/* SPDX-License-Identifier: Apache-2.0 */
#include "base/id.h"

#include "base/str.h"

#include <string.h>

bool id_is_plugin(const char *s)
{
	size_t n = strnlen(s, 64);

	return n > 0 && n <= 63 && s[0] != '-' && s[0] != '.' && s[n - 1] != '.' &&
	       strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789-.") == n && !strstr(s, "..") &&
	       !strstr(s, ".-") && !strstr(s, "-.");
}

bool id_is_label(const char *s)
{
	return id_is_plugin(s) && !strchr(s, '.');
}

bool id_is_name(const char *s, size_t max)
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	size_t n = strnlen(s, max + 1);

	return n > 0 && n <= max && s[0] != '-' && s[0] != '_' && strspn(s, allowed) == n;
}

bool id_is_uuid(const char *s)
{
	if (strnlen(s, 37) != 36)
		return false;
	for (size_t i = 0; i < 36; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash ? s[i] != '-' : !((s[i] >= '0' && s[i] <= '9') || (s[i] >= 'a' && s[i] <= 'f')))
			return false;
	}
	return true;
}

bool id_uuid_bytes(const char *s, uint8_t ret[static ID_UUID_BYTES])
{
	char hex[2 * ID_UUID_BYTES + 1];
	size_t n = 0;

	if (!id_is_uuid(s))
		return false;
	for (; *s != '\0'; s++)
		if (*s != '-')
			hex[n++] = *s;
	hex[n] = '\0';
	return hex_decode(ret, ID_UUID_BYTES, hex) == 0;
}
