/* SPDX-License-Identifier: Apache-2.0 */
#include "base/id.h"

#include <string.h>

bool id_is_service_unit(const char *s)
{
	static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789:-_.\\";
	static const char suffix[] = ".service";
	size_t n = strnlen(s, ID_UNIT_MAX + 1);
	size_t prefix, instance, stem;

	if (n > ID_UNIT_MAX || n <= sizeof(suffix) - 1)
		return false;
	stem = n - (sizeof(suffix) - 1);
	if (memcmp(s + stem, suffix, sizeof(suffix)) != 0)
		return false;
	/* a name that begins with - would be an option to those who type it, with . a hidden file */
	if (s[0] == '-' || s[0] == '.')
		return false;
	prefix = strspn(s, allowed);
	if (prefix == n)
		return true;
	if (s[prefix] != '@' || prefix == 0)
		return false;
	instance = strspn(s + prefix + 1, allowed);
	return prefix + 1 + instance == n && stem > prefix + 1;
}
