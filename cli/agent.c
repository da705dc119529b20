/* SPDX-License-Identifier: Apache-2.0 */
#include "call/call.h"
#include "command/commands.h"
#include "show/show.h"

enum status agent_status_show(struct call *call, const void *message, struct error *err)
{
	return show_agent(message, call_has(call, OPT_VERBOSE), err);
}
