/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The commands of each noun: rows together with their functions. */

#include "command/command.h"

#define PROVIDER_TIMEOUT_US (UINT64_C(600) * USEC_PER_SEC)

#define WAITING (OPTION_BIT(OPT_NO_WAIT) | OPTION_BIT(OPT_TIMEOUT))
#define LISTING (OPTION_BIT(OPT_FILTER) | OPTION_BIT(OPT_LIMIT) | OPTION_BIT(OPT_VERBOSE))
#define FORCED (OPTION_BIT(OPT_DRY_RUN) | OPTION_BIT(OPT_YES))

extern const struct command_table agent_commands;
extern const struct command_table agent_drain_commands;
extern const struct command_table alloc_commands;
extern const struct command_table alloc_task_commands;
extern const struct command_table alloc_wait_commands;
extern const struct command_table apply_commands;
extern const struct command_table audit_commands;
extern const struct command_table backup_commands;
extern const struct command_table init_commands;
extern const struct command_table ca_commands;
extern const struct command_table cert_commands;
extern const struct command_table completion_commands;
extern const struct command_table context_commands;
extern const struct command_table debug_commands;
extern const struct command_table docker_commands;
extern const struct command_table driver_launch_commands;
extern const struct command_table enroll_commands;
extern const struct command_table enroll_line_commands;
extern const struct command_table fencing_commands;
extern const struct command_table hold_commands;
extern const struct command_table job_commands;
extern const struct command_table job_events_commands;
extern const struct command_table job_import_commands;
extern const struct command_table job_wait_commands;
extern const struct command_table link_commands;
extern const struct command_table node_commands;
extern const struct command_table node_events_commands;
extern const struct command_table node_fence_commands;
extern const struct command_table node_wait_commands;
extern const struct command_table operator_audit_commands;
extern const struct command_table operator_commands;
extern const struct command_table operator_policy_commands;
extern const struct command_table plugin_commands;
extern const struct command_table policy_commands;
extern const struct command_table policy_init_commands;
extern const struct command_table snapshot_commands;
extern const struct command_table token_commands;
extern const struct command_table trail_commands;
extern const struct command_table volume_commands;
extern const struct command_table volume_events_commands;
extern const struct command_table volume_other_commands;
extern const struct command_table volume_wait_commands;
extern const struct command_table watch_commands;
