/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/task_step.h"

#include "base/names.h"
#include "base/str.h"

#include <assert.h>

static const char *const state_names[TASK_STATE_N] = {
	[TASK_FIRST] = "first",	    [TASK_RESUMED] = "resumed",	  [TASK_STARTING] = "starting",
	[TASK_RUNNING] = "running", [TASK_STOPPING] = "stopping", [TASK_OVER] = "over",
};

const char *task_state_name(enum task_state state)
{
	const char *name = names_get(state_names, TASK_STATE_N, (int)state);

	return name ? name : "invalid";
}

/* clang-format off */
static const struct task_step steps[TASK_STATE_N][TASK_EVENT_N] = {
	[TASK_FIRST] = {
		[TASK_SEES_UNKNOWN] =        {TASK_FIRST, TASK_DO_NOTHING},
		[TASK_SEES_ABSENT] =         {TASK_OVER, TASK_DO_FAILED},
		[TASK_SEES_IDLE] =           {TASK_FIRST, TASK_DO_JOURNAL},
		[TASK_SEES_QUEUED] =         {TASK_FIRST, TASK_DO_NOTHING}, /* by somebody else */
		[TASK_SEES_ENDED] =          {TASK_FIRST, TASK_DO_JOURNAL},
		[TASK_SEES_FAILED] =         {TASK_FIRST, TASK_DO_JOURNAL},
		[TASK_SEES_COMING] =         {TASK_OVER, TASK_DO_REFUSE},
		[TASK_SEES_RESTARTING] =     {TASK_OVER, TASK_DO_REFUSE},
		[TASK_SEES_ACTIVE] =         {TASK_OVER, TASK_DO_REFUSE},
		[TASK_SEES_GOING] =          {TASK_FIRST, TASK_DO_NOTHING},
		[TASK_EVENT_JOURNALLED] =    {TASK_STARTING, TASK_DO_START},
		[TASK_EVENT_START_REFUSED] = {TASK_OVER, TASK_DO_FAILED},
		[TASK_EVENT_START_UNSURE] =  {TASK_FIRST, TASK_DO_NOTHING},
		[TASK_EVENT_STOP] =          {TASK_OVER, TASK_DO_STOPPED},
	},
	[TASK_RESUMED] = {
		[TASK_SEES_UNKNOWN] =        {TASK_RESUMED, TASK_DO_NOTHING},
		[TASK_SEES_ABSENT] =         {TASK_OVER, TASK_DO_FAILED},
		[TASK_SEES_IDLE] =           {TASK_STARTING, TASK_DO_START},
		[TASK_SEES_QUEUED] =         {TASK_STARTING, TASK_DO_NOTHING},
		[TASK_SEES_ENDED] =          {TASK_OVER, TASK_DO_ENDED},
		[TASK_SEES_FAILED] =         {TASK_OVER, TASK_DO_FAILED},
		[TASK_SEES_COMING] =         {TASK_STARTING, TASK_DO_NOTHING},
		[TASK_SEES_RESTARTING] =     {TASK_STARTING, TASK_DO_NOTHING},
		[TASK_SEES_ACTIVE] =         {TASK_RUNNING, TASK_DO_RUNS},
		[TASK_SEES_GOING] =          {TASK_STARTING, TASK_DO_NOTHING},
		[TASK_EVENT_JOURNALLED] =    {TASK_RESUMED, TASK_DO_NOTHING},
		[TASK_EVENT_START_REFUSED] = {TASK_OVER, TASK_DO_FAILED},
		[TASK_EVENT_START_UNSURE] =  {TASK_RESUMED, TASK_DO_NOTHING},
		[TASK_EVENT_STOP] =          {TASK_STOPPING, TASK_DO_NOTHING},
	},
	[TASK_STARTING] = {
		[TASK_SEES_UNKNOWN] =        {TASK_STARTING, TASK_DO_NOTHING},
		[TASK_SEES_ABSENT] =         {TASK_OVER, TASK_DO_FAILED},
		[TASK_SEES_IDLE] =           {TASK_OVER, TASK_DO_FAILED}, /* the job came to nothing */
		[TASK_SEES_QUEUED] =         {TASK_STARTING, TASK_DO_NOTHING},
		[TASK_SEES_ENDED] =          {TASK_OVER, TASK_DO_ENDED},
		[TASK_SEES_FAILED] =         {TASK_OVER, TASK_DO_FAILED},
		[TASK_SEES_COMING] =         {TASK_STARTING, TASK_DO_NOTHING},
		[TASK_SEES_RESTARTING] =     {TASK_STARTING, TASK_DO_NOTHING},
		[TASK_SEES_ACTIVE] =         {TASK_RUNNING, TASK_DO_RUNS},
		[TASK_SEES_GOING] =          {TASK_STARTING, TASK_DO_NOTHING},
		[TASK_EVENT_JOURNALLED] =    {TASK_STARTING, TASK_DO_NOTHING},
		[TASK_EVENT_START_REFUSED] = {TASK_OVER, TASK_DO_FAILED},
		[TASK_EVENT_START_UNSURE] =  {TASK_RESUMED, TASK_DO_NOTHING},
		[TASK_EVENT_STOP] =          {TASK_STOPPING, TASK_DO_NOTHING},
	},
	[TASK_RUNNING] = {
		[TASK_SEES_UNKNOWN] =        {TASK_RUNNING, TASK_DO_NOTHING},
		[TASK_SEES_ABSENT] =         {TASK_OVER, TASK_DO_ENDED},
		[TASK_SEES_IDLE] =           {TASK_OVER, TASK_DO_ENDED}, /* systemd has forgotten how */
		[TASK_SEES_QUEUED] =         {TASK_RUNNING, TASK_DO_NOTHING}, /* systemctl restart */
		[TASK_SEES_ENDED] =          {TASK_OVER, TASK_DO_ENDED},
		[TASK_SEES_FAILED] =         {TASK_OVER, TASK_DO_FAILED},
		[TASK_SEES_COMING] =         {TASK_RUNNING, TASK_DO_NOTHING},
		[TASK_SEES_RESTARTING] =     {TASK_RUNNING, TASK_DO_NOTHING},
		[TASK_SEES_ACTIVE] =         {TASK_RUNNING, TASK_DO_RUNS}, /* perhaps another invocation */
		[TASK_SEES_GOING] =          {TASK_RUNNING, TASK_DO_NOTHING}, /* how it ends is not known yet */
		[TASK_EVENT_JOURNALLED] =    {TASK_RUNNING, TASK_DO_NOTHING},
		[TASK_EVENT_START_REFUSED] = {TASK_RUNNING, TASK_DO_NOTHING},
		[TASK_EVENT_START_UNSURE] =  {TASK_RUNNING, TASK_DO_NOTHING},
		[TASK_EVENT_STOP] =          {TASK_STOPPING, TASK_DO_NOTHING},
	},
	[TASK_STOPPING] = {
		[TASK_SEES_UNKNOWN] =        {TASK_STOPPING, TASK_DO_NOTHING},
		[TASK_SEES_ABSENT] =         {TASK_OVER, TASK_DO_STOPPED},
		[TASK_SEES_IDLE] =           {TASK_OVER, TASK_DO_STOPPED},
		[TASK_SEES_QUEUED] =         {TASK_STOPPING, TASK_DO_STOP},
		[TASK_SEES_ENDED] =          {TASK_OVER, TASK_DO_STOPPED},
		[TASK_SEES_FAILED] =         {TASK_OVER, TASK_DO_STOPPED},
		[TASK_SEES_COMING] =         {TASK_STOPPING, TASK_DO_STOP},
		[TASK_SEES_RESTARTING] =     {TASK_STOPPING, TASK_DO_STOP},
		[TASK_SEES_ACTIVE] =         {TASK_STOPPING, TASK_DO_STOP},
		[TASK_SEES_GOING] =          {TASK_STOPPING, TASK_DO_STOP}, /* or Restart= would begin again */
		[TASK_EVENT_JOURNALLED] =    {TASK_STOPPING, TASK_DO_NOTHING},
		[TASK_EVENT_START_REFUSED] = {TASK_STOPPING, TASK_DO_NOTHING},
		[TASK_EVENT_START_UNSURE] =  {TASK_STOPPING, TASK_DO_NOTHING},
		[TASK_EVENT_STOP] =          {TASK_STOPPING, TASK_DO_NOTHING},
	},
	[TASK_OVER] = {
		[TASK_SEES_UNKNOWN] =        {TASK_OVER, TASK_DO_NOTHING},
		[TASK_SEES_ABSENT] =         {TASK_OVER, TASK_DO_NOTHING},
		[TASK_SEES_IDLE] =           {TASK_OVER, TASK_DO_NOTHING},
		[TASK_SEES_QUEUED] =         {TASK_OVER, TASK_DO_NOTHING},
		[TASK_SEES_ENDED] =          {TASK_OVER, TASK_DO_NOTHING},
		[TASK_SEES_FAILED] =         {TASK_OVER, TASK_DO_NOTHING},
		[TASK_SEES_COMING] =         {TASK_OVER, TASK_DO_NOTHING},
		[TASK_SEES_RESTARTING] =     {TASK_OVER, TASK_DO_NOTHING},
		[TASK_SEES_ACTIVE] =         {TASK_OVER, TASK_DO_NOTHING},
		[TASK_SEES_GOING] =          {TASK_OVER, TASK_DO_NOTHING},
		[TASK_EVENT_JOURNALLED] =    {TASK_OVER, TASK_DO_NOTHING},
		[TASK_EVENT_START_REFUSED] = {TASK_OVER, TASK_DO_NOTHING},
		[TASK_EVENT_START_UNSURE] =  {TASK_OVER, TASK_DO_NOTHING},
		[TASK_EVENT_STOP] =          {TASK_OVER, TASK_DO_NOTHING},
	},
};
/* clang-format on */

struct task_step task_step(enum task_state state, enum task_event event)
{
	assert(state < TASK_STATE_N && event < TASK_EVENT_N);
	assert(steps[state][event].action != TASK_NO_STEP);
	return steps[state][event];
}

static enum task_event see_down(const struct task_view *view, const char *before, bool has_run)
{
	if (view->has_job)
		return TASK_SEES_QUEUED;
	if (!view->is_loaded)
		return TASK_SEES_ABSENT;
	if (!has_run && (view->invocation[0] == '\0' || str_eq(view->invocation, before)))
		return TASK_SEES_IDLE;
	return view->active == TASK_ACTIVE_FAILED ? TASK_SEES_FAILED : TASK_SEES_ENDED;
}

enum task_event task_see(const struct task_view *view, const char *before, bool has_run)
{
	switch (view->active) {
	case TASK_ACTIVE_INACTIVE:
	case TASK_ACTIVE_FAILED:
		return see_down(view, before, has_run);
	case TASK_ACTIVE_ACTIVATING:
		return TASK_SEES_COMING;
	case TASK_ACTIVE_RESTARTING:
		return TASK_SEES_RESTARTING;
	case TASK_ACTIVE_ACTIVE:
		return TASK_SEES_ACTIVE;
	case TASK_ACTIVE_DEACTIVATING:
		return TASK_SEES_GOING;
	case TASK_ACTIVE_UNKNOWN:
	case TASK_ACTIVE_N:
		break;
	}
	return TASK_SEES_UNKNOWN;
}
