/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Which fencer may prove which nodes off: the blocks fencer "NAME" { nodes = [...] } of server.hcl.
 *
 * A fencer names the nodes whose switches it has, and its answer frees the claims of such a node. While there
 * is no block, the server accepts any node of any fencer. A fencer that has a block reaches only the nodes in
 * it, and a fencer that lacks one reaches no node. */

#include "base/error.h"
#include "conf/conf.h"
#include "model/claim.h"

#include <stdbool.h>
#include <stddef.h>

enum {
	FENCE_BINDINGS_MAX = 32, /* blocks */
	FENCE_PATTERNS_MAX = 64, /* of a block */
};

struct fence_binding {
	char fencer[NODE_ID_MAX + 1];
	/* An id; with a last '*': all ids that begin so. Ends with an empty one unless it is full */
	char nodes[FENCE_PATTERNS_MAX][NODE_ID_MAX + 2];
};

struct fence_bindings {
	struct fence_binding list[FENCE_BINDINGS_MAX];
	size_t n;
};

/** Add a block. Errors name file and line. */
enum status fence_bindings_bind(const struct conf *conf, const char *label, json_t *body,
				struct fence_bindings *bindings, struct error *err);

/** May @fencer have the switch of @node? Yes for all while there is no block. */
bool fence_bindings_allow(const struct fence_bindings *bindings, const char *fencer, const char *node);
