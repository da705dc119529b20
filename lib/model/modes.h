/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Access and attachment modes, with CSI's and Nomad's names. Numbers are those of
 * proto/holdfast/v1/types.proto. */

#include <stdbool.h>

enum access_mode {
	ACCESS_MODE_UNSPECIFIED,
	SINGLE_NODE_READER_ONLY,
	SINGLE_NODE_WRITER,
	SINGLE_NODE_SINGLE_WRITER,
	SINGLE_NODE_MULTI_WRITER,
	MULTI_NODE_READER_ONLY,
	MULTI_NODE_SINGLE_WRITER,
	MULTI_NODE_MULTI_WRITER,
	ACCESS_MODE_N,
};

enum attachment_mode {
	ATTACHMENT_MODE_UNSPECIFIED,
	ATTACHMENT_FILE_SYSTEM,
	ATTACHMENT_BLOCK_DEVICE,
	ATTACHMENT_MODE_N,
};

enum propagation {
	PROPAGATION_PRIVATE,
	PROPAGATION_HOST_TO_TASK,
	PROPAGATION_BIDIRECTIONAL,
	PROPAGATION_N,
};

enum claim_mode {
	CLAIM_MODE_UNSPECIFIED,
	CLAIM_READ,
	CLAIM_WRITE,
	CLAIM_MODE_N,
};

/** "single-node-writer"; "unspecified" for 0, "invalid" outside the enum. */
const char *access_mode_name(enum access_mode mode);
const char *attachment_mode_name(enum attachment_mode mode);
const char *claim_mode_name(enum claim_mode mode);

/** Does the mode allow writers? */
bool access_mode_is_writer(enum access_mode mode);
