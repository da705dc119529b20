/* SPDX-License-Identifier: Apache-2.0 */
/* What a compromised agent can send: accepted only in its one form. The sequence number is the first byte, so
 * that both the acknowledgement and requests are reached. */

#include "wire.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	union mh_request req;
	uint64_t seq;

	if (size == 0 || data[0] == 0) /* the helper counts from 1 */
		return 0;
	seq = data[0];
	if (wire_decode(data + 1, size - 1, seq, &req) != REASON_NONE)
		return 0;
	assert(req.header.length == size - 1 && req.header.seq == seq);
	assert(memcmp(&req, data + 1, size - 1) == 0);
	if (req.header.op == MH_OP_STAGE)
		assert(strnlen(req.stage.volume, MH_LABEL_SIZE) < MH_LABEL_SIZE &&
		       !strchr(req.stage.volume, '/') && !strchr(req.stage.volume, '.'));
	return 0;
}
