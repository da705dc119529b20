/* SPDX-License-Identifier: Apache-2.0 */
#include "model/alloc_id.h"

#include "base/str.h"
#include "model/volume.h"

#include <openssl/sha.h>
#include <string.h>

enum { MARK_AT = UUID_SIZE - ALLOC_ID_MARK_SIZE };

void alloc_id_mark(const char *namespace, char ret[static ALLOC_ID_MARK_SIZE])
{
	unsigned char digest[SHA256_DIGEST_LENGTH];

	namespace = namespace_or_default(namespace);
	SHA256((const unsigned char *)namespace, strlen(namespace), digest);
	hex_encode(ret, digest, ALLOC_ID_MARK_DIGITS / 2);
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
