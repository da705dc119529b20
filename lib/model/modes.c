/* SPDX-License-Identifier: Apache-2.0 */
#include "model/modes.h"

#include "base/names.h"

static const char *const access_mode_names[ACCESS_MODE_N] = {
	[ACCESS_MODE_UNSPECIFIED] = "unspecified",
	[SINGLE_NODE_READER_ONLY] = "single-node-reader-only",
	[SINGLE_NODE_WRITER] = "single-node-writer",
	[SINGLE_NODE_SINGLE_WRITER] = "single-node-single-writer",
	[SINGLE_NODE_MULTI_WRITER] = "single-node-multi-writer",
	[MULTI_NODE_READER_ONLY] = "multi-node-reader-only",
	[MULTI_NODE_SINGLE_WRITER] = "multi-node-single-writer",
	[MULTI_NODE_MULTI_WRITER] = "multi-node-multi-writer",
};

static const char *const attachment_mode_names[ATTACHMENT_MODE_N] = {
	[ATTACHMENT_MODE_UNSPECIFIED] = "unspecified",
	[ATTACHMENT_FILE_SYSTEM] = "file-system",
	[ATTACHMENT_BLOCK_DEVICE] = "block-device",
};

static const char *const claim_mode_names[CLAIM_MODE_N] = {
	[CLAIM_MODE_UNSPECIFIED] = "unspecified",
	[CLAIM_READ] = "read",
	[CLAIM_WRITE] = "write",
};

static const char *name_or_invalid(const char *const *table, size_t n, int value)
{
	const char *name = names_get(table, n, value);

	return name ? name : "invalid";
}

const char *access_mode_name(enum access_mode mode)
{
	return name_or_invalid(access_mode_names, ACCESS_MODE_N, (int)mode);
}

const char *attachment_mode_name(enum attachment_mode mode)
{
	return name_or_invalid(attachment_mode_names, ATTACHMENT_MODE_N, (int)mode);
}

const char *claim_mode_name(enum claim_mode mode)
{
	return name_or_invalid(claim_mode_names, CLAIM_MODE_N, (int)mode);
}

bool access_mode_is_writer(enum access_mode mode)
{
	switch (mode) {
	case SINGLE_NODE_WRITER:
	case SINGLE_NODE_SINGLE_WRITER:
	case SINGLE_NODE_MULTI_WRITER:
	case MULTI_NODE_SINGLE_WRITER:
	case MULTI_NODE_MULTI_WRITER:
		return true;
	case ACCESS_MODE_UNSPECIFIED:
	case SINGLE_NODE_READER_ONLY:
	case MULTI_NODE_READER_ONLY:
	case ACCESS_MODE_N:
		break;
	}
	return false;
}
