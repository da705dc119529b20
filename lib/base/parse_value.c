/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/str.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

int parse_bool(const char *s, bool *ret)
{
	if (str_eq(s, "yes") || str_eq(s, "true"))
		*ret = true;
	else if (str_eq(s, "no") || str_eq(s, "false"))
		*ret = false;
	else
		return -EINVAL;
	return 0;
}

struct unit {
	const char *name;
	uint64_t factor;
};

/* A number followed by one of the units, or by nothing when the table has an empty name. */
static int parse_with_unit(const char *s, bool allow_space, const struct unit *units, size_t n, uint64_t *ret)
{
	uint64_t value;
	int r = parse_digits(&s, &value);

	if (r < 0)
		return r;
	if (allow_space && s[0] == ' ' && s[1] != '\0')
		s++;
	for (size_t i = 0; i < n; i++) {
		if (!str_eq(s, units[i].name))
			continue;
		if (__builtin_mul_overflow(value, units[i].factor, &value))
			return -ERANGE;
		*ret = value;
		return 0;
	}
	return -EINVAL;
}

int parse_size(const char *s, uint64_t *ret_bytes)
{
	static const struct unit units[] = {
		{"", 1},
		{"B", 1},
		{"K", 1000},
		{"KB", 1000},
		{"KiB", UINT64_C(1) << 10},
		{"M", 1000000},
		{"MB", 1000000},
		{"MiB", UINT64_C(1) << 20},
		{"G", 1000000000},
		{"GB", 1000000000},
		{"GiB", UINT64_C(1) << 30},
		{"T", UINT64_C(1000000000000)},
		{"TB", UINT64_C(1000000000000)},
		{"TiB", UINT64_C(1) << 40},
	};

	return parse_with_unit(s, true, units, ARRAY_SIZE(units), ret_bytes);
}

int parse_duration(const char *s, uint64_t *ret_us)
{
	static const struct unit units[] = {
		{"us", 1},
		{"ms", USEC_PER_MSEC},
		{"s", USEC_PER_SEC},
		{"m", 60 * USEC_PER_SEC},
		{"h", 3600 * USEC_PER_SEC},
		{"d", 86400 * USEC_PER_SEC},
	};

	return parse_with_unit(s, false, units, ARRAY_SIZE(units), ret_us);
}

int parse_network(const char *s, uint8_t *ret_family, uint8_t ret_addr[static 16], uint8_t *ret_bits)
{
	bool is_v6 = strchr(s, ':') != NULL;
	uint32_t bits = is_v6 ? 128 : 32;
	size_t n = strcspn(s, "/");
	uint8_t addr[16] = {0};
	char text[INET6_ADDRSTRLEN];

	if (n >= sizeof(text))
		return -EINVAL;
	memcpy(text, s, n);
	text[n] = '\0';
	if (s[n] == '/' && parse_u32(s + n + 1, 0, bits, &bits) < 0)
		return -EINVAL;
	if (inet_pton(is_v6 ? AF_INET6 : AF_INET, text, addr) != 1)
		return -EINVAL;
	for (uint32_t i = bits; i < 8 * sizeof(addr); i++)
		if ((addr[i / 8] & 0x80U >> i % 8) != 0)
			return -EINVAL;
	*ret_family = is_v6 ? 6 : 4;
	memcpy(ret_addr, addr, sizeof(addr));
	*ret_bits = (uint8_t)bits;
	return 0;
}
