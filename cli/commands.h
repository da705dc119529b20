#pragma once
/* The functions behind the table of commands, in cmd_*.c. */

#include "command.h"

command_fn cmd_volume_register, cmd_volume_status, cmd_volume_deregister, cmd_volume_detach;
command_fn cmd_alloc_run, cmd_alloc_stop, cmd_alloc_status;
command_fn cmd_node_status, cmd_agent_status, cmd_operator_status;
command_fn cmd_audit_show, cmd_audit_verify;
command_fn cmd_policy_check, cmd_policy_explain;
command_fn cmd_operator_cert_ca, cmd_operator_cert_server, cmd_operator_cert_node, cmd_operator_cert_operator;
command_fn cmd_operator_token_bootstrap, cmd_operator_token_create, cmd_operator_token_list,
	cmd_operator_token_revoke, cmd_operator_token_whoami;
command_fn cmd_operator_policy_put, cmd_operator_policy_list, cmd_operator_policy_delete;
command_fn cmd_operator_audit, cmd_operator_audit_verify;

enum { TOKEN_POLICY_ARGS = 16 }; /* policies of one token */

command_fn cmd_version, cmd_completion;
