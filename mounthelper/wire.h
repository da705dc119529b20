/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Decodes one datagram of the agent. Pure; any violation of the format of proto/mounthelper_wire.h is a
 * reason to end, so nothing here is lenient. Rights of a well-formed request are admission.h's business. */

#include "mounthelper_wire.h"
#include "words.h"

#include <stddef.h>
#include <stdint.h>

union mh_request {
	struct mh_header header;
	struct mh_ack ack;
	struct mh_stage stage;
	struct mh_publish publish;
	struct mh_unpublish unpublish;
	struct mh_unstage unstage;
	struct mh_list list;
	uint8_t bytes[MH_MESSAGE_MAX];
};

/** Is @bytes of @n a well-formed request with number @seq?
 *
 * @seq 1 for the first one, which must be ACK; no other may be
 * @ret filled on success only
 * Returns REASON_NONE or the kind of violation. */
enum reason wire_decode(const void *bytes, size_t n, uint64_t seq, union mh_request *ret);
