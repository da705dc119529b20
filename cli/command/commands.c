/* SPDX-License-Identifier: Apache-2.0 */
#include "command/commands.h"

#include "base/cleanup.h"

#include <assert.h>

/* In the order of the help. */
static const struct command_table *const tables[] = {
	&volume_commands,
	&hold_commands,
	&link_commands,
	&docker_commands,
	&volume_events_commands,
	&volume_wait_commands,
	&volume_other_commands,
	&snapshot_commands,
	&plugin_commands,
	&node_commands,
	&node_fence_commands,
	&node_events_commands,
	&node_wait_commands,
	&alloc_commands,
	&alloc_task_commands,
	&alloc_wait_commands,
	&job_commands,
	&job_events_commands,
	&job_wait_commands,
	&job_import_commands,
	&apply_commands,
	&agent_commands,
	&agent_drain_commands,
	&audit_commands,
	&policy_commands,
	&policy_init_commands,
	&operator_commands,
	&fencing_commands,
	&backup_commands,
	&watch_commands,
	&init_commands,
	&ca_commands,
	&cert_commands,
	&enroll_commands,
	&token_commands,
	&operator_policy_commands,
	&operator_audit_commands,
	&trail_commands,
	&debug_commands,
	&enroll_line_commands,
	&driver_launch_commands,
	&context_commands,
	&completion_commands,
};

size_t command_count(void)
{
	size_t n = 0;

	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		n += tables[i]->n;
	return n;
}

const struct command *command_at(size_t n)
{
	assert(n < command_count());
	for (size_t i = 0;; n -= tables[i++]->n)
		if (n < tables[i]->n)
			return &tables[i]->rows[n];
}
