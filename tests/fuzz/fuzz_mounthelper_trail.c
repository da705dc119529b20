/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the log, as a killed instance or a full disk may have left it. */

#include "privileged/chain_log.h"

#include <assert.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct chain_log_end end;
	char *tail;

	if (size == 0)
		return 0;
	tail = malloc(size);
	if (!tail)
		return 0;
	memcpy(tail, data + 1, size - 1);
	tail[size - 1] = '\0';
	if (chain_log_read_end(tail, size - 1, (data[0] & 1) != 0, crypto_hash_sha256, &end) == 0)
		assert(strlen(end.digest[0]) == CHAIN_LOG_DIGEST_HEX &&
		       strlen(end.digest[1]) == CHAIN_LOG_DIGEST_HEX);
	free(tail);
	return 0;
}
