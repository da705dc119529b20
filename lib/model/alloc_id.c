/* SPDX-License-Identifier: Apache-2.0 */
#include "model/alloc_id.h"

#include "base/str.h"
#include "model/volume.h"

#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

enum { MARK_AT = UUID_SIZE - ALLOC_ID_MARK_SIZE };

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
	int r = uuid_new(ret);

	if (r < 0)
		return r;
	alloc_id_mark(namespace, ret + MARK_AT);
	return 0;
}
