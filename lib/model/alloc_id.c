/* SPDX-License-Identifier: Apache-2.0 */
#include "model/alloc_id.h"

#include "base/clock.h"
#include "base/str.h"
#include "model/volume.h"

#include <errno.h>
#include <openssl/sha.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

enum {
	MARK_AT = UUID_SIZE - ALLOC_ID_MARK_SIZE,
	UNIT_MS = 16000, /* its 28 bits last until 2106 */
};

void alloc_id_mark(const char *namespace, char ret[static ALLOC_ID_MARK_SIZE])
{
	enum { DIGITS = 15 };
	unsigned char digest[SHA256_DIGEST_LENGTH];
	char hex[DIGITS + 2];

	namespace = namespace_or_default(namespace);
	SHA256((const unsigned char *)namespace, strlen(namespace), digest);
	hex_encode(hex, digest, sizeof(hex) / 2);
	(void)snprintf(ret, ALLOC_ID_MARK_SIZE, "8%.3s-%.12s", hex, hex + 3);
}

bool alloc_id_is_of(const char *id, const char *namespace)
{
	char mark[ALLOC_ID_MARK_SIZE];

	alloc_id_mark(namespace, mark);
	return strlen(id) == UUID_SIZE - 1 && str_eq(id + MARK_AT, mark);
}

int alloc_id_new(const char *namespace, char ret[static UUID_SIZE])
{
	const uint32_t now = (uint32_t)(clock_realtime_ms() / UNIT_MS) & 0x0fffffff;
	uint32_t random;

	if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return -errno;
	(void)snprintf(ret, UUID_SIZE, "%07x%x-%04x-8%03x-", now, random >> 28, random >> 12 & 0xffff,
		       random & 0xfff);
	alloc_id_mark(namespace, ret + MARK_AT);
	return 0;
}
