/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The functions behind the table of commands, each in the module of its noun. */

#include "command/command.h"

call_fill_fn volume_register_load, volume_create_load, volume_get_load, volume_list_load, volume_detach_load,
	volume_expand_load, snapshot_list_load, node_get_load, node_list_load, node_drain_load,
	node_eligibility_load, node_purge_load, node_identify_load, node_attest_load, alloc_run_load,
	alloc_stop_load, alloc_get_load, alloc_list_load, operator_gc_load, token_create_load,
	token_revoke_load, policy_put_load, policy_list_load, policy_delete_load, trail_list_load,
	trail_accept_load, volume_get_fill, volume_list_fill, volume_deregister_fill, volume_delete_fill,
	volume_detach_fill, volume_expand_fill, volume_external_fill, snapshot_create_fill,
	snapshot_delete_fill, snapshot_list_fill, plugin_get_fill, node_get_fill, node_drain_fill,
	node_eligibility_fill, node_purge_fill, node_identify_fill, node_attest_fill, alloc_run_fill,
	alloc_stop_fill, alloc_get_fill, alloc_list_fill, trail_accept_fill;

call_show_fn volume_register_show, volume_create_show, volume_get_show, volume_list_show,
	volume_deregister_show, volume_delete_show, volume_detach_show, volume_expand_show,
	volume_external_show, snapshot_create_show, snapshot_delete_show, snapshot_list_show, plugin_get_show,
	plugin_list_show, node_get_show, node_list_show, node_drain_show, node_eligibility_show,
	node_purge_show, node_identify_show, node_attest_show, alloc_run_show, alloc_stop_show,
	alloc_get_show, alloc_list_show, agent_status_show, operator_status_show, operator_gc_show,
	token_bootstrap_show, token_create_show, token_list_show, token_revoke_show, token_whoami_show,
	policy_put_show, policy_list_show, policy_delete_show, trail_list_show, trail_accept_show;

call_refused_fn volume_register_refused, volume_create_refused, volume_resumable, alloc_run_refused;

command_fn cmd_volume_init;
command_fn cmd_volume_hold, cmd_volume_link, cmd_volume_unlink;
command_fn cmd_agent_drain;
command_fn cmd_operator_backup, cmd_operator_restore, cmd_operator_backup_verify, cmd_operator_watch;
command_fn cmd_audit_show, cmd_audit_verify;
command_fn cmd_policy_apply, cmd_policy_check, cmd_policy_explain, cmd_policy_init;
command_fn cmd_operator_cert_ca, cmd_operator_cert_server, cmd_operator_cert_node, cmd_operator_cert_operator;
command_fn cmd_operator_audit, cmd_operator_audit_verify;

enum { TOKEN_POLICY_ARGS = 16 }; /* policies of one token */

command_fn cmd_version, cmd_completion;
