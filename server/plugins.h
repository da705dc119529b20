#pragma once
/* Plugins, derived from what nodes report. Counts are computed from the facts, never kept by deltas. */

#include "state.h"

#include <stdbool.h>
#include <stdint.h>

/* A plugin, or one profile of the native plugin, as volumes see it. */
struct plugin_summary {
	uint32_t nodes_healthy,
		nodes_expected; /* expected: reported by a node that is known, healthy or not */
	uint32_t controllers_healthy, controllers_expected;
	bool controller_required;
	char provider[NODE_TEXT_MAX + 1];
	char provider_version[NODE_TEXT_MAX + 1];
	uint64_t modify_index; /* of the newest fact */
};

/** Of the volume's plugin, and of its profile when it is native. */
void plugin_summarize(const struct plugin_entry *plugin, const struct volume *volume,
		      struct plugin_summary *ret);

/** Can @volume be used now: a healthy node service, and a healthy controller when it needs one? @ret_reason
 * of
 * @size says what is missing and the next command, else it is empty. */
bool plugin_is_schedulable(const struct plugin_summary *summary, const struct volume *volume,
			   char *ret_reason, size_t size);
