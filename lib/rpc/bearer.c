/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/bearer.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

static bool is_token_byte(uint8_t c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
	       (c != '\0' && strchr("-._~+/", c) != NULL);
}

bool bearer_is_token(const uint8_t *bytes, size_t n)
{
	size_t body = 0;

	if (n > BEARER_MAX)
		return false;
	while (body < n && is_token_byte(bytes[body]))
		body++;
	if (body == 0)
		return false;
	while (body < n && bytes[body] == '=')
		body++;
	return body == n;
}

ssize_t bearer_read(const uint8_t *value, size_t n)
{
	static const char scheme[] = "bearer ";
	size_t at = sizeof(scheme) - 1;

	if (n < at || strncasecmp((const char *)value, scheme, at) != 0)
		return -EINVAL;
	while (at < n && value[at] == ' ')
		at++;
	return bearer_is_token(value + at, n - at) ? (ssize_t)at : -EINVAL;
}
