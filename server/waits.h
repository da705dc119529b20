/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Nodes, drivers and callers that a change of a key or a CA waits for: all are counted, the first are named.
 */

#include "base/str.h"
#include "rpc/caller.h"

#include <stddef.h>

enum { WAITS_MAX = 20 };

struct waits {
	char texts[WAITS_MAX][RPC_URI_SIZE];
	char *named[WAITS_MAX];
	size_t n, n_named;
};

static inline void waits_add(struct waits *waits, const char *what, const char *name, const char *why)
{
	waits->n++;
	if (waits->n_named == WAITS_MAX)
		return;
	waits->named[waits->n_named] = waits->texts[waits->n_named];
	(void)str_format(waits->texts[waits->n_named++], RPC_URI_SIZE, "%s%.190s%s", what, name, why);
}
