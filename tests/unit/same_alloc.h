/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Are two allocations the same, whoever has their lists? */

#include "model/alloc.h"

#include <string.h>

static inline bool is_same_alloc(const struct alloc *a, const struct alloc *b)
{
	struct alloc rest = *b;

	rest.volumes = a->volumes;
	rest.published = a->published;
	rest.plugins = a->plugins;
	rest.client_description = a->client_description;
	rest.unit = a->unit;
	/* none has been anything but zeroed, filled in and copied whole, so gaps are the same, too
	 * NOLINTNEXTLINE(bugprone-suspicious-memory-comparison,cert-exp42-c,cert-flp37-c) */
	return memcmp(a, &rest, sizeof(rest)) == 0 && alloc_plugins_eq(a, b) &&
	       strcmp(alloc_description(a), alloc_description(b)) == 0 &&
	       strcmp(alloc_unit(a), alloc_unit(b)) == 0 &&
	       (a->n_volumes == 0 ||
		memcmp(a->volumes, b->volumes, a->n_volumes * sizeof(a->volumes[0])) == 0) &&
	       (a->n_published == 0 ||
		memcmp(a->published, b->published, a->n_published * sizeof(a->published[0])) == 0);
}
