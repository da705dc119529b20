/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A claim server's store with much in it, for benchmarks: native volumes of a profile "scratch", each with a
 * claim that is taken and an allocation that runs, on nodes in turn. */

#include "base/error.h"
#include "base/str.h"

#include <inttypes.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#define FILL_BOOT "b0010000-0000-4000-8000-000000000001"

enum fill_content { FILL_VOLUMES, FILL_CLAIMS, FILL_ALLOCATIONS }; /* with the claims, the nodes */

struct fill_settings {
	sd_event *event;  /* is run */
	const char *path; /* of the database, in sqlite; made if it is missing */
	uint32_t n;	  /* volumes, claims or allocations */
	uint32_t nodes;
};

/** Add to what is there. Ends the program when it cannot. */
void fill_store(const struct fill_settings *settings, enum fill_content content);

/** Names of the @i-th of each. */
void fill_volume_id(uint32_t i, char id[static 32]);
static inline void fill_alloc_id(uint32_t i, char id[static 37])
{
	(void)str_format(id, 37, "01890000-0000-7000-8000-%012" PRIu32, i);
}
static inline void fill_node_id(uint32_t i, char id[static 32])
{
	(void)str_format(id, 32, "node-%05" PRIu32, i);
}
