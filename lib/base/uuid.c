#include "base/uuid.h"

#include "base/clock.h"
#include "base/str.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/random.h>

int uuid_new(char ret[static UUID_SIZE])
{
	static const uint8_t groups[] = {8, 4, 4, 4, 12}; /* digits, with a dash between */
	uint64_t ms = (uint64_t)clock_realtime_ms();
	uint8_t raw[16];
	char hex[33];
	const char *from = hex;
	char *to = ret;

	if (getrandom(raw, sizeof(raw), 0) != (ssize_t)sizeof(raw))
		return -errno;
	for (int i = 0; i < 6; i++)
		raw[i] = (uint8_t)(ms >> (40 - 8 * i));
	raw[6] = (uint8_t)((raw[6] & 0x0f) | 0x70);
	raw[8] = (uint8_t)((raw[8] & 0x3f) | 0x80);
	hex_encode(hex, raw, sizeof(raw));
	for (size_t i = 0; i < sizeof(groups); i++) {
		memcpy(to, from, groups[i]);
		from += groups[i];
		to += groups[i];
		*to++ = i + 1 < sizeof(groups) ? '-' : '\0';
	}
	return 0;
}
