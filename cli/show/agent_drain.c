/* SPDX-License-Identifier: Apache-2.0 */
#include "show/show.h"

#define VOLUME_LINE                                                                    \
	"volume {namespace?{namespace}/}{volume_id} of allocation {alloc_id}: {state}" \
	"{step?, {step}}{reason?: {reason}}{next?. Next: {next}}"

DEFINE_ROWS(show_agent_drain_volume, holdfast__v1__agent_drain_volume, NULL, LINE(NULL, VOLUME_LINE));

static DEFINE_ROWS(open_volumes, holdfast__v1__agent_drain_volume, NULL, LINE("{next}", VOLUME_LINE));

DEFINE_ROWS(show_agent_drain, holdfast__v1__agent_drain, NULL,
	    LINE(NULL, "drain {ended_ms?ended {ended_ms:time}|began {started_ms:time}}: {state}: {summary}"),
	    PART("volumes", &open_volumes),
	    LINE("{accepting?|y}",
		 "no new allocation is taken here until a restart of the agent, or: holdfast agent drain "
		 "--cancel"));
