/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The functions behind the table of commands, in cmd_*.c. */

#include "command.h"

command_fn cmd_volume_register, cmd_volume_create, cmd_volume_status, cmd_volume_deregister;
command_fn cmd_volume_delete, cmd_volume_detach, cmd_volume_expand, cmd_volume_init, cmd_volume_external;
command_fn cmd_volume_hold, cmd_volume_link, cmd_volume_unlink;
command_fn cmd_snapshot_create, cmd_snapshot_delete, cmd_snapshot_list;
command_fn cmd_plugin_status;
command_fn cmd_alloc_run, cmd_alloc_stop, cmd_alloc_status;
command_fn cmd_node_status, cmd_node_drain, cmd_node_eligibility, cmd_node_purge, cmd_node_attest,
	cmd_node_identify;
command_fn cmd_agent_status, cmd_agent_drain;
command_fn cmd_operator_status, cmd_operator_gc, cmd_operator_backup, cmd_operator_restore,
	cmd_operator_backup_verify, cmd_operator_watch;
command_fn cmd_audit_show, cmd_audit_verify;
command_fn cmd_policy_check, cmd_policy_explain, cmd_policy_init;
command_fn cmd_operator_cert_ca, cmd_operator_cert_server, cmd_operator_cert_node, cmd_operator_cert_operator;
command_fn cmd_operator_token_bootstrap, cmd_operator_token_create, cmd_operator_token_list,
	cmd_operator_token_revoke, cmd_operator_token_whoami;
command_fn cmd_operator_policy_put, cmd_operator_policy_list, cmd_operator_policy_delete;
command_fn cmd_operator_audit, cmd_operator_audit_verify, cmd_operator_trail, cmd_operator_trail_accept;

enum { TOKEN_POLICY_ARGS = 16 }; /* policies of one token */

command_fn cmd_version, cmd_completion;
