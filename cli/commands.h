#pragma once
/* The functions behind the table of commands, in cmd_*.c. */

#include "command.h"

command_fn cmd_volume_register, cmd_volume_status, cmd_volume_deregister, cmd_volume_detach;
command_fn cmd_alloc_run, cmd_alloc_stop, cmd_alloc_status;
command_fn cmd_node_status, cmd_agent_status, cmd_operator_status;
command_fn cmd_audit_show, cmd_audit_verify;
command_fn cmd_policy_check, cmd_policy_explain;
command_fn cmd_version, cmd_completion;
