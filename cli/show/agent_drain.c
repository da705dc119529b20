/* SPDX-License-Identifier: Apache-2.0 */
#include "show/output.h"
#include "show/show.h"

void show_agent_drain_volume(const Holdfast__V1__AgentDrainVolume *v)
{
	print_line("volume %s%s%s of allocation %s: %s%s%s%s%s%s%s", v->namespace_,
		   v->namespace_[0] ? "/" : "", v->volume_id, v->alloc_id, v->state, v->step[0] ? ", " : "",
		   v->step, v->reason[0] ? ": " : "", v->reason, v->next[0] ? ". Next: " : "", v->next);
}

void show_agent_drain(const Holdfast__V1__AgentDrain *drain)
{
	char since[CLOCK_TEXT_SIZE];

	if (!drain)
		return;
	(void)clock_format(drain->ended_ms ? drain->ended_ms : drain->started_ms, since);
	print_line("drain %s %s: %s: %s", drain->ended_ms ? "ended" : "began", since, drain->state,
		   drain->summary);
	for (size_t i = 0; i < drain->n_volumes; i++) {
		if (drain->volumes[i]->next[0])
			show_agent_drain_volume(drain->volumes[i]);
	}
	if (!drain->accepting)
		print_line("no new allocation is taken here until a restart of the agent, or: holdfast agent "
			   "drain --cancel");
}
