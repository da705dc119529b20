/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parse.h"

#include "base/cleanup.h"

#include <errno.h>
#include <string.h>

int parse_digits(const char **s, uint64_t *ret)
{
	const char *p = *s;
	uint64_t value = 0;

	for (; *p >= '0' && *p <= '9'; p++) {
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*p - '0'), &value))
			return -ERANGE;
	}
	if (p == *s)
		return -EINVAL;
	*s = p;
	*ret = value;
	return 0;
}

int parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret)
{
	uint64_t value;

	TRY_SYS(parse_digits(&s, &value));
	if (*s != '\0')
		return -EINVAL;
	if (value < min || value > max)
		return -ERANGE;
	*ret = value;
	return 0;
}

int parse_u32(const char *s, uint32_t min, uint32_t max, uint32_t *ret)
{
	uint64_t value;

	TRY_SYS(parse_u64(s, min, max, &value));
	*ret = (uint32_t)value;
	return 0;
}

bool network_contains(const uint8_t net[static 16], unsigned int bits, const uint8_t addr[static 16])
{
	size_t whole = bits / 8;

	return memcmp(addr, net, whole) == 0 &&
	       (bits % 8 == 0 || (addr[whole] ^ net[whole]) >> (8 - bits % 8) == 0);
}
