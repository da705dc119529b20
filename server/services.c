/* SPDX-License-Identifier: Apache-2.0 */
#include "services.h"

#include "ca_change.h"
#include "events.h"
#include "gc.h"
#include "key_rotation.h"
#include "metrics.h"
#include "operator.h"
#include "server.h"

#include "access/access.h"
#include "access/policies.h"
#include "access/revocations.h"
#include "access/tokens.h"
#include "alloc/allocs.h"
#include "alloc/streams.h"
#include "api/watch.h"
#include "base/cleanup.h"
#include "claim/attest.h"
#include "claim/grant.h"
#include "fence/fencers.h"
#include "fence/fences.h"
#include "fence/loss.h"
#include "identity/authority.h"
#include "identity/enrollments.h"
#include "job/jobs.h"
#include "node/drain.h"
#include "node/nodes.h"
#include "node/reports.h"
#include "node/session.h"
#include "node/trails.h"
#include "plugin/plugins.h"
#include "recovery/backup.h"
#include "recovery/restore.h"
#include "volume/snapshots.h"
#include "volume/volumes.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/fences.pb-c.h>
#include <holdfast/v1/jobs.pb-c.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <holdfast/v1/operator.pb-c.h>
#include <holdfast/v1/plugins.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>

/* The rules that the gate checks. A row without a right is closed to all; a row without a node is closed
 * to tokens that are bound to one. */
#define READ(...)                                              \
	.on_gone = read_gone, .rule = &(const struct rpc_rule) \
	{                                                      \
		__VA_ARGS__                                    \
	}
#define WRITE(...)                            \
	.rule = &(const struct rpc_rule)      \
	{                                     \
		.is_write = true, __VA_ARGS__ \
	}

static const struct rpc_method volumes_methods[] = {
	{.name = "Register",
	 .unary = volumes_handle_register,
	 WRITE(.right = ACCESS_VOLUME_WRITE, .namespaces = "volume.namespace")},
	{.name = "Get",
	 .unary = volumes_handle_get,
	 READ(.right = ACCESS_VOLUME_READ, .namespaces = "namespace")},
	{.name = "List",
	 .unary = volumes_handle_list,
	 READ(.right = ACCESS_VOLUME_LIST, .namespaces = "namespace", .any = RULE_ANY_STAR)},
	{.name = "Deregister",
	 .unary = volumes_handle_deregister,
	 WRITE(.right = ACCESS_VOLUME_WRITE, .namespaces = "namespace")},
	{.name = "Detach",
	 .unary = volumes_handle_detach,
	 WRITE(.right = ACCESS_VOLUME_WRITE, .node = RULE_NODE_FIELD, .field = "node_id",
	       .attest_fields = {"attest_reason", "fence_reason", "without_plugin_reason"},
	       .namespaces = "namespace")},
	{.name = "Create",
	 .unary = volumes_handle_create,
	 WRITE(.right = ACCESS_VOLUME_WRITE, .namespaces = "volume.namespace")},
	{.name = "Delete",
	 .unary = volumes_handle_delete,
	 WRITE(.right = ACCESS_VOLUME_WRITE, .namespaces = "namespace", .also = ACCESS_PLUGIN_READ)},
	{.name = "Expand",
	 .unary = volumes_handle_expand,
	 WRITE(.right = ACCESS_VOLUME_WRITE, .namespaces = "namespace", .also = ACCESS_PLUGIN_READ)},
	{.name = "ListExternal",
	 .unary = volumes_handle_list_external,
	 READ(.right = ACCESS_VOLUME_LIST, .also = ACCESS_PLUGIN_READ)},
	{.name = "CreateSnapshot",
	 .unary = snapshots_handle_create,
	 WRITE(.right = ACCESS_VOLUME_WRITE, .namespaces = "namespace", .also = ACCESS_PLUGIN_READ)},
	{.name = "DeleteSnapshot",
	 .unary = snapshots_handle_delete,
	 WRITE(.right = ACCESS_BY_HANDLER, .also = ACCESS_PLUGIN_READ)},
	{.name = "ListSnapshots",
	 .unary = snapshots_handle_list,
	 READ(.right = ACCESS_VOLUME_LIST, .also = ACCESS_PLUGIN_READ)},
	{.name = "Claim", .unary = claim_grant_handle, WRITE(.right = ACCESS_BY_HANDLER)},
};

static const struct rpc_method nodes_methods[] = {
	{.name = "Session",
	 .stream = &sessions_stream,
	 READ(.right = ACCESS_BY_HANDLER),
	 .is_background = true},
	{.name = "TaskStream", .stream = &node_task_stream, READ(.right = ACCESS_BY_HANDLER)},
	{.name = "Get",
	 .unary = nodes_handle_get,
	 READ(.right = ACCESS_NODE_READ, .node = RULE_NODE_FIELD, .field = "id")},
	{.name = "List", .unary = nodes_handle_list, READ(.right = ACCESS_NODE_READ)},
	{.name = "SetEligibility",
	 .unary = nodes_handle_set_eligibility,
	 WRITE(.right = ACCESS_NODE_WRITE, .node = RULE_NODE_FIELD, .field = "id")},
	{.name = "Drain",
	 .unary = drain_handle,
	 WRITE(.right = ACCESS_NODE_WRITE, .node = RULE_NODE_FIELD, .field = "id")},
	{.name = "Purge",
	 .unary = nodes_handle_purge,
	 WRITE(.right = ACCESS_OPERATOR_WRITE, .attests = true)},
	{.name = "Identify",
	 .unary = nodes_handle_identify,
	 WRITE(.right = ACCESS_OPERATOR_WRITE, .attests = true)},
	{.name = "Enroll", .unary = enrollments_handle_enroll, WRITE(.right = ACCESS_BY_TOKEN_OF_REQUEST)},
	{.name = "Renew", .unary = authority_handle_renew, WRITE(.right = ACCESS_BY_HANDLER)},
	{.name = "Attest",
	 .unary = attest_handle,
	 WRITE(.right = ACCESS_OPERATOR_WRITE, .attests = true, .namespaces = "volumes")},
};

static const struct rpc_method plugins_methods[] = {
	{.name = "Get", .unary = plugins_handle_get, READ(.right = ACCESS_PLUGIN_READ)},
	{.name = "List", .unary = plugins_handle_list, READ(.right = ACCESS_PLUGIN_LIST)},
};

static const struct rpc_method allocs_methods[] = {
	{.name = "Run",
	 .unary = allocs_handle_run,
	 WRITE(.right = ACCESS_JOB_SUBMIT, .namespaces = "allocation.namespace", .node = RULE_NODE_FIELD,
	       .field = "allocation.node_id")},
	{.name = "Stop",
	 .unary = allocs_handle_stop,
	 WRITE(.right = ACCESS_JOB_SUBMIT, .node = RULE_NODE_ALLOC, .field = "id")},
	{.name = "Get",
	 .unary = allocs_handle_get,
	 READ(.right = ACCESS_JOB_READ, .node = RULE_NODE_ALLOC, .field = "id")},
	{.name = "List",
	 .unary = allocs_handle_list,
	 READ(.right = ACCESS_JOB_LIST, .namespaces = "namespace", .any = RULE_ANY_STAR_OR_EMPTY,
	      .node = RULE_NODE_FILTER, .field = "node_id")},
	{.name = "OrderTask", .unary = allocs_handle_order_task, WRITE(.right = ACCESS_BY_HANDLER)},
	{.name = "Exec",
	 .stream = &alloc_exec_stream,
	 WRITE(.right = ACCESS_BY_HANDLER, .check_open = task_stream_check)},
	{.name = "Logs",
	 .stream = &alloc_logs_stream,
	 READ(.right = ACCESS_BY_HANDLER, .check_open = task_stream_check)},
	{.name = "Stats",
	 .stream = &alloc_stats_stream,
	 READ(.right = ACCESS_BY_HANDLER, .check_open = task_stream_check)},
};

static const struct rpc_method jobs_methods[] = {
	{.name = "Run",
	 .unary = jobs_handle_run,
	 WRITE(.right = ACCESS_JOB_SUBMIT, .namespaces = "job.namespace")},
	{.name = "Plan",
	 .unary = jobs_handle_plan,
	 READ(.right = ACCESS_JOB_SUBMIT, .namespaces = "job.namespace")},
	{.name = "Get", .unary = jobs_handle_get, READ(.right = ACCESS_JOB_READ, .namespaces = "namespace")},
	{.name = "List",
	 .unary = jobs_handle_list,
	 READ(.right = ACCESS_JOB_LIST, .namespaces = "namespace", .any = RULE_ANY_STAR)},
	{.name = "Stop",
	 .unary = jobs_handle_stop,
	 WRITE(.right = ACCESS_JOB_SUBMIT, .namespaces = "namespace")},
	{.name = "History",
	 .unary = jobs_handle_history,
	 READ(.right = ACCESS_JOB_READ, .namespaces = "namespace")},
	{.name = "Revert",
	 .unary = jobs_handle_revert,
	 WRITE(.right = ACCESS_JOB_SUBMIT, .namespaces = "namespace")},
	{.name = "Scale",
	 .unary = jobs_handle_scale,
	 WRITE(.right = ACCESS_JOB_SUBMIT, .namespaces = "namespace")},
	{.name = "Restart",
	 .unary = jobs_handle_restart,
	 WRITE(.right = ACCESS_JOB_SUBMIT, .namespaces = "namespace")},
};

static const struct rpc_method fences_methods[] = {
	{.name = "Session", .stream = &fencers_stream, READ(.right = ACCESS_BY_HANDLER)},
	{.name = "Fence", .unary = fences_handle_fence, WRITE(.right = ACCESS_NODE_FENCE)},
	{.name = "Test", .unary = fences_handle_test, WRITE(.right = ACCESS_NODE_FENCE)},
	{.name = "Get",
	 .unary = fences_handle_get,
	 READ(.right = ACCESS_NODE_READ, .node = RULE_NODE_FIELD, .field = "id")},
	{.name = "List", .unary = fences_handle_list, READ(.right = ACCESS_NODE_READ)},
	{.name = "SetAutomatic", .unary = losses_handle_set, WRITE(.right = ACCESS_NODE_FENCE)},
	{.name = "Plan", .unary = losses_handle_plan, READ(.right = ACCESS_NODE_READ)},
};

static const struct rpc_method operator_methods[] = {
	{.name = "Metrics",
	 .unary = metrics_handle_get,
	 READ(.right = ACCESS_OPERATOR_READ, .without_leader = true)},
	{.name = "ListMembers",
	 .unary = operator_handle_list_members,
	 READ(.right = ACCESS_OPERATOR_READ, .without_leader = true)},
	{.name = "StepDown", .unary = operator_handle_step_down, WRITE(.right = ACCESS_OPERATOR_WRITE)},
	{.name = "Gc", .unary = gc_handle, WRITE(.right = ACCESS_OPERATOR_WRITE)},
	{.name = "BeginBackup", .unary = backup_handle_begin, WRITE(.right = ACCESS_BY_HANDLER)},
	{.name = "ReadBackup", .unary = backup_handle_read, READ(.right = ACCESS_BY_HANDLER)},
	{.name = "BeginRestore", .unary = restore_handle_begin, WRITE(.right = ACCESS_MANAGEMENT)},
	{.name = "WriteRestore", .unary = restore_handle_write, WRITE(.right = ACCESS_MANAGEMENT)},
	{.name = "ApplyRestore", .unary = restore_handle_apply, WRITE(.right = ACCESS_MANAGEMENT)},
	{.name = "Watch",
	 .stream = &events_stream,
	 READ(.right = ACCESS_BY_HANDLER, .check_open = events_check)},
	{.name = "Status", .unary = operator_handle_status, READ(.right = ACCESS_OPERATOR_READ)},
	{.name = "BootstrapToken", .unary = tokens_handle_bootstrap, WRITE(.right = ACCESS_MANAGEMENT)},
	{.name = "CreateToken", .unary = tokens_handle_create, WRITE(.right = ACCESS_MANAGEMENT)},
	{.name = "ListTokens", .unary = tokens_handle_list, READ(.right = ACCESS_MANAGEMENT)},
	{.name = "RevokeToken", .unary = tokens_handle_revoke, WRITE(.right = ACCESS_MANAGEMENT)},
	{.name = "RevokeCertificate", .unary = revocations_handle_revoke, WRITE(.right = ACCESS_MANAGEMENT)},
	{.name = "ListRevocations", .unary = revocations_handle_list, READ(.right = ACCESS_OPERATOR_READ)},
	{.name = "CreateEnrollment", .unary = enrollments_handle_create, WRITE(.right = ACCESS_MANAGEMENT)},
	{.name = "IssueCertificate", .unary = authority_handle_issue, WRITE(.right = ACCESS_MANAGEMENT)},
	{.name = "RotateKey", .unary = key_rotation_handle, WRITE(.right = ACCESS_MANAGEMENT)},
	{.name = "GetCa", .unary = ca_change_handle_get, READ(.right = ACCESS_OPERATOR_READ)},
	{.name = "ChangeCa", .unary = ca_change_handle, WRITE(.right = ACCESS_MANAGEMENT)},
	{.name = "WhoAmI",
	 .unary = tokens_handle_who_am_i,
	 READ(.right = ACCESS_IDENTITY, .node = RULE_NODE_ANY)},
	{.name = "PutPolicy", .unary = policies_handle_put, WRITE(.right = ACCESS_MANAGEMENT)},
	{.name = "ListPolicies", .unary = policies_handle_list, READ(.right = ACCESS_MANAGEMENT)},
	{.name = "DeletePolicy", .unary = policies_handle_delete, WRITE(.right = ACCESS_MANAGEMENT)},
	{.name = "ListAudit", .unary = operator_handle_list_audit, READ(.right = ACCESS_OPERATOR_READ)},
	{.name = "ListTrails", .unary = trails_handle_list, READ(.right = ACCESS_OPERATOR_READ)},
	{.name = "AcceptTrail", .unary = trails_handle_accept, WRITE(.right = ACCESS_MANAGEMENT)},
};

const struct rpc_service services[] = {
	{&holdfast__v1__volumes__descriptor, volumes_methods, ARRAY_SIZE(volumes_methods)},
	{&holdfast__v1__nodes__descriptor, nodes_methods, ARRAY_SIZE(nodes_methods)},
	{&holdfast__v1__plugins__descriptor, plugins_methods, ARRAY_SIZE(plugins_methods)},
	{&holdfast__v1__allocations__descriptor, allocs_methods, ARRAY_SIZE(allocs_methods)},
	{&holdfast__v1__jobs__descriptor, jobs_methods, ARRAY_SIZE(jobs_methods)},
	{&holdfast__v1__fences__descriptor, fences_methods, ARRAY_SIZE(fences_methods)},
	{&holdfast__v1__operator__descriptor, operator_methods, ARRAY_SIZE(operator_methods)},
};
const size_t n_services = ARRAY_SIZE(services);
