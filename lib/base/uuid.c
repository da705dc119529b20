/* SPDX-License-Identifier: Apache-2.0 */
#include "base/uuid.h"

#include "base/clock.h"
#include "base/str.h"

#include <errno.h>
#include <stdint.h>
#include <sys/random.h>

int uuid_new(char ret[static UUID_SIZE])
{
	uint64_t ms = (uint64_t)clock_realtime_ms();
	uint8_t raw[16];

	if (getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw))
		return -errno;
	for (int i = 0; i < 6; i++)
		raw[i] = (uint8_t)(ms >> (40 - 8 * i));
	raw[6] = (uint8_t)((raw[6] & 0x0f) | 0x70);
	raw[8] = (uint8_t)((raw[8] & 0x3f) | 0x80);
	for (size_t i = 0; i < sizeof(raw); i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*ret++ = '-';
		hex_encode(ret, &raw[i], 1);
		ret += 2;
	}
	return 0;
}
