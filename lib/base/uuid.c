#include "base/uuid.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>

int uuid_new(char ret[static UUID_SIZE])
{
	static const uint8_t groups[] = {4, 2, 2, 2, 6}; /* bytes between the dashes */
	uint64_t ms = (uint64_t)clock_realtime_ms();
	uint8_t raw[16];
	size_t at = 0;

	if (getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw))
		return -errno;
	for (int i = 0; i < 6; i++)
		raw[i] = (uint8_t)(ms >> (40 - 8 * i));
	raw[6] = (uint8_t)((raw[6] & 0x0f) | 0x70);
	raw[8] = (uint8_t)((raw[8] & 0x3f) | 0x80);
	for (size_t i = 0; i < ARRAY_SIZE(groups); i++) {
		if (i > 0)
			*ret++ = '-';
		hex_encode(ret, raw + at, groups[i]);
		ret += 2 * (size_t)groups[i];
		at += groups[i];
	}
	return 0;
}
