/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The commands of each noun: rows beside the functions that they name. */

#include "command/command.h"

#define PROVIDER_TIMEOUT_US (UINT64_C(600) * USEC_PER_SEC)

#define WAITING (OPTION_BIT(OPT_NO_WAIT) | OPTION_BIT(OPT_TIMEOUT))
#define LISTING (OPTION_BIT(OPT_FILTER) | OPTION_BIT(OPT_LIMIT) | OPTION_BIT(OPT_VERBOSE))
#define FORCED (OPTION_BIT(OPT_DRY_RUN) | OPTION_BIT(OPT_YES))

extern const struct command_table apply_commands, volume_commands, hold_commands, link_commands,
	docker_commands, volume_other_commands, snapshot_commands, plugin_commands, node_commands,
	node_fence_commands, alloc_commands, alloc_task_commands, job_commands, job_import_commands,
	agent_commands, agent_drain_commands, audit_commands, policy_commands, policy_init_commands,
	operator_commands, backup_commands, watch_commands, cert_commands, enroll_commands, token_commands,
	operator_policy_commands, operator_audit_commands, volume_events_commands, node_events_commands,
	job_events_commands, trail_commands, driver_launch_commands, completion_commands;
