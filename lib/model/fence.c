/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a fence, and what an answer proves. */

#include "model/fence.h"

#include "base/grid.h"
#include "base/names.h"

#include <assert.h>

/* clang-format off */
#define NO GRID_NO
#define STAY GRID_STAY
#define TO(state) GRID_TO(FENCE_##state)

static const uint8_t steps[FENCE_EVENT_N][FENCE_STATE_N] = {
	/*                        asked          sent           off            recorded     refused failed       unknown      overtaken lifting     lifted */
	[FENCE_EVENT_SENT] =     {TO(SENT),      STAY,          NO,            NO,          NO,     NO,          NO,          NO,       NO,         NO},
	/* a proof may come late: it is of that boot, whenever it arrives */
	[FENCE_EVENT_PROVED] =   {NO,            TO(OFF),       STAY,          STAY,        NO,     NO,          TO(OFF),     NO,       NO,         NO},
	[FENCE_EVENT_NEXT] =     {NO,            STAY,          NO,            NO,          NO,     NO,          NO,          NO,       NO,         NO},
	[FENCE_EVENT_REFUSED] =  {NO,            TO(REFUSED),   NO,            NO,          NO,     NO,          NO,          NO,       NO,         NO},
	[FENCE_EVENT_FAILED] =   {NO,            TO(FAILED),    NO,            NO,          NO,     NO,          TO(FAILED),  NO,       NO,         NO},
	[FENCE_EVENT_UNSURE] =   {NO,            TO(UNKNOWN),   NO,            NO,          NO,     NO,          STAY,        NO,       NO,         NO},
	[FENCE_EVENT_EXPIRED] =  {TO(REFUSED),   TO(UNKNOWN),   STAY,          STAY,        STAY,   STAY,        STAY,        STAY,     STAY,       STAY},
	[FENCE_EVENT_HEARD] =    {STAY,          STAY,          TO(FAILED),    STAY,        STAY,   STAY,        STAY,        STAY,     STAY,       STAY},
	[FENCE_EVENT_RECORDED] = {NO,            NO,            TO(RECORDED),  STAY,        NO,     NO,          NO,          NO,       NO,         NO},
	[FENCE_EVENT_REBOOTED] = {TO(OVERTAKEN), TO(OVERTAKEN), TO(OVERTAKEN), STAY,        TO(OVERTAKEN), TO(OVERTAKEN), TO(OVERTAKEN), STAY, STAY,  STAY},
	[FENCE_EVENT_RETURNED] = {TO(OVERTAKEN), TO(LIFTING),   TO(LIFTING),   TO(LIFTING), TO(OVERTAKEN), TO(LIFTING), TO(LIFTING), STAY,     STAY,       STAY},
	[FENCE_EVENT_LIFT] =     {TO(OVERTAKEN), TO(LIFTING),   TO(LIFTING),   TO(LIFTING), TO(OVERTAKEN), TO(LIFTING), TO(LIFTING), STAY,     STAY,       TO(LIFTING)},
	[FENCE_EVENT_DOUBT] =    {STAY,          TO(UNKNOWN),   TO(UNKNOWN),   TO(UNKNOWN), STAY,   TO(UNKNOWN), STAY,        STAY,     TO(UNKNOWN), STAY},
	[FENCE_EVENT_MORE] =     {STAY,          STAY,          TO(SENT),      TO(SENT),    STAY,   STAY,        STAY,        STAY,     STAY,       STAY},
	[FENCE_EVENT_LIFTED] =   {NO,            NO,            NO,            NO,          NO,     NO,          NO,          NO,       TO(LIFTED), STAY},
};
/* clang-format on */

static const char *const state_names[FENCE_STATE_N] = {
	[FENCE_ASKED] = "asked",       [FENCE_SENT] = "sent",		[FENCE_OFF] = "off",
	[FENCE_RECORDED] = "recorded", [FENCE_REFUSED] = "refused",	[FENCE_FAILED] = "failed",
	[FENCE_UNKNOWN] = "unknown",   [FENCE_OVERTAKEN] = "overtaken", [FENCE_LIFTING] = "lifting",
	[FENCE_LIFTED] = "lifted",
};

static const char *const outcome_names[FENCE_OUTCOME_N] = {
	[FENCE_OUTCOME_NONE] = "not run", [FENCE_OUTCOME_DONE] = "done",     [FENCE_OUTCOME_IS_ON] = "on",
	[FENCE_OUTCOME_IS_OFF] = "off",	  [FENCE_OUTCOME_FAILED] = "failed",
};

bool fence_times_fit(const struct fence_answer *answer)
{
	return answer->off_ms >= answer->created_ms - FENCE_CLOCK_SKEW_MS &&
	       answer->status_ms <= answer->answered_ms + FENCE_CLOCK_SKEW_MS &&
	       answer->status_ms >= answer->off_ms;
}

enum fence_event fence_judge(const struct fence_answer *answer)
{
	bool was_run = answer->off != FENCE_OUTCOME_NONE || answer->status != FENCE_OUTCOME_NONE;

	if (answer->was_refused)
		return was_run || answer->is_unsure ? FENCE_EVENT_FAILED : FENCE_EVENT_REFUSED;
	if (answer->is_unsure)
		return FENCE_EVENT_UNSURE;
	if (answer->off != FENCE_OUTCOME_DONE || answer->status != FENCE_OUTCOME_IS_OFF)
		return FENCE_EVENT_FAILED;
	return answer->off_ms > 0 && fence_times_fit(answer) ? FENCE_EVENT_PROVED : FENCE_EVENT_FAILED;
}

bool fence_step(enum fence_state state, enum fence_event event, enum fence_state *ret)
{
	assert(state < FENCE_STATE_N && event < FENCE_EVENT_N);
	if (steps[event][state] == GRID_NO)
		return false;
	*ret = (enum fence_state)grid_next(steps[event][state], state);
	return true;
}

bool fence_is_open(enum fence_state state)
{
	return state <= FENCE_OFF || state == FENCE_LIFTING;
}

bool fence_is_in_force(enum fence_state state)
{
	return state != FENCE_ASKED && state != FENCE_REFUSED && state != FENCE_OVERTAKEN &&
	       state != FENCE_LIFTED;
}

const char *fence_state_name(enum fence_state state)
{
	const char *name = names_get(state_names, FENCE_STATE_N, (int)state);

	return name ? name : "invalid";
}

const char *fence_outcome_name(enum fence_outcome outcome)
{
	const char *name = names_get(outcome_names, FENCE_OUTCOME_N, (int)outcome);

	return name ? name : "invalid";
}

enum fence_verdict_auto fence_auto(const struct fence_auto_facts *facts)
{
	if (facts->is_connected)
		return FENCE_AUTO_CONNECTED;
	if (facts->after_ms < 0)
		return FENCE_AUTO_NOT_WANTED;
	if (facts->away_ms < facts->after_ms)
		return FENCE_AUTO_NOT_DUE;
	if (facts->is_open)
		return FENCE_AUTO_OPEN;
	if (facts->was_contradicted)
		return FENCE_AUTO_CONTRADICTED;
	if (facts->has_expired)
		return FENCE_AUTO_EXPIRED;
	if (facts->is_switched_off)
		return FENCE_AUTO_SWITCHED_OFF;
	if (facts->led_ms < facts->grace_ms)
		return FENCE_AUTO_NEW_LEADER;
	if (2 * facts->n_connected < facts->n_nodes)
		return FENCE_AUTO_TOO_FEW;
	if (!facts->has_fencer)
		return FENCE_AUTO_NO_FENCER;
	if (facts->since_last_ms >= 0 && facts->since_last_ms < facts->retry_ms)
		return FENCE_AUTO_RETRY_LATER;
	return facts->n_last_minute < facts->max_per_minute ? FENCE_AUTO_NOW : FENCE_AUTO_RATE;
}

const char *fence_auto_text(enum fence_verdict_auto verdict)
{
	static const char *const texts[FENCE_AUTO_N] = {
		[FENCE_AUTO_NOW] = "now",
		[FENCE_AUTO_CONNECTED] = "the node is connected",
		[FENCE_AUTO_NOT_WANTED] = "no volume that it holds has on_node_loss",
		[FENCE_AUTO_NOT_DUE] = "it is away for less than the volume's after",
		[FENCE_AUTO_OPEN] = "it is being fenced",
		[FENCE_AUTO_CONTRADICTED] = "it was heard after it was proved off: look at its switch",
		[FENCE_AUTO_EXPIRED] =
			("its certificate has expired, so it is away though it may run: renew the "
			 "certificate, or fence it yourself"),
		[FENCE_AUTO_SWITCHED_OFF] = "automatic fencing is off",
		[FENCE_AUTO_NEW_LEADER] = "the server leads for too short a time",
		[FENCE_AUTO_TOO_FEW] = "fewer than half of the nodes are connected",
		[FENCE_AUTO_NO_FENCER] = "no connected fencer can switch it",
		[FENCE_AUTO_RETRY_LATER] = "the last fence did not prove it; it is repeated later",
		[FENCE_AUTO_RATE] = "fence_max_per_minute is reached",
	};
	const char *text = names_get(texts, FENCE_AUTO_N, (int)verdict);

	return text ? text : "invalid";
}
