/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/grpc_timeout.h"

#include "base/cleanup.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

enum { DIGITS_MAX = 8, VALUE_MAX = 99999999 };

struct unit {
	char letter;
	uint64_t us;
};

static const struct unit units[] = {
	{'u', UINT64_C(1)},	   {'m', UINT64_C(1000)},	{'S', UINT64_C(1000000)},
	{'M', UINT64_C(60000000)}, {'H', UINT64_C(3600000000)},
};

int grpc_timeout_parse(const char *text, size_t n, uint64_t *ret_us)
{
	uint64_t value = 0;

	if (n < 2 || n > DIGITS_MAX + 1)
		return -EINVAL;
	for (size_t i = 0; i < n - 1; i++) {
		if (text[i] < '0' || text[i] > '9')
			return -EINVAL;
		value = value * 10 + (uint64_t)(text[i] - '0');
	}
	if (text[n - 1] == 'n') {
		*ret_us = (value + 999) / 1000;
		return 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		if (text[n - 1] == units[i].letter) {
			*ret_us = value * units[i].us;
			return 0;
		}
	}
	return -EINVAL;
}

char *grpc_timeout_format(uint64_t timeout_us, char text[static GRPC_TIMEOUT_SIZE])
{
	uint64_t value = VALUE_MAX;
	char letter = 'H';

	for (size_t i = 0; i < ARRAY_SIZE(units); i++) {
		uint64_t rounded = timeout_us / units[i].us + (timeout_us % units[i].us != 0);

		if (rounded <= VALUE_MAX) {
			value = rounded;
			letter = units[i].letter;
			break;
		}
	}
	(void)snprintf(text, GRPC_TIMEOUT_SIZE, "%" PRIu64 "%c", value, letter);
	return text;
}
