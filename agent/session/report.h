/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Reports the node's claims from its journal, for a server that was restored from a backup and may have lost
 * some of them: allocations as they were run, every claim of this boot that is mounted or may be, and, as
 * node-detached, the released ones that it remembers, of earlier boots as well: a provider may still have
 * them attached. */

#include "alloc/allocs.h"

#include <holdfast/v1/nodes.pb-c.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	NODE_REPORT_ALLOCS = 16,   /* of one part: with their claims they fit a message */
	NODE_REPORT_RELEASES = 64, /* likewise */
};

struct node_report_facts {
	const char *node_id;
	const char *boot_id;
	const struct allocs *allocs;
	const struct plugins *plugins; /* for the providers' ids of this node; NULL: there are no plugins */
	uint64_t epoch;
};

/** @report borrowed; false ends it. */
typedef bool node_report_fn(const Holdfast__V1__NodeReport *report, void *userdata);

/** Hand the report over part by part; at least one, the last without `more`. False when memory is short, or
 * when @send ended it. */
bool node_report_make(const struct node_report_facts *facts, node_report_fn *send, void *userdata);
