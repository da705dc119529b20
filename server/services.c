#include "services.h"

#include "allocs.h"
#include "attest.h"
#include "backup.h"
#include "claim_grant.h"
#include "drain.h"
#include "events.h"
#include "gc.h"
#include "nodes.h"
#include "operator.h"
#include "plugins.h"
#include "policies.h"
#include "restore.h"
#include "server.h"
#include "sessions.h"
#include "snapshots.h"
#include "tokens.h"
#include "volumes.h"

#include "base/cleanup.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <holdfast/v1/operator.pb-c.h>
#include <holdfast/v1/plugins.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>

static const struct rpc_method volumes_methods[] = {
	{.name = "Register", .unary = volumes_handle_register},
	{.name = "Get", .unary = volumes_handle_get},
	{.name = "List", .unary = volumes_handle_list},
	{.name = "Deregister", .unary = volumes_handle_deregister},
	{.name = "Detach", .unary = volumes_handle_detach},
	{.name = "Create", .unary = volumes_handle_create},
	{.name = "Delete", .unary = volumes_handle_delete},
	{.name = "Expand", .unary = volumes_handle_expand},
	{.name = "ListExternal", .unary = volumes_handle_list_external},
	{.name = "CreateSnapshot", .unary = snapshots_handle_create},
	{.name = "DeleteSnapshot", .unary = snapshots_handle_delete},
	{.name = "ListSnapshots", .unary = snapshots_handle_list},
	{.name = "Claim", .unary = claim_grant_handle},
};

static const struct rpc_method nodes_methods[] = {
	{.name = "Session", .stream = &sessions_stream},
	{.name = "Get", .unary = nodes_handle_get},
	{.name = "List", .unary = nodes_handle_list},
	{.name = "SetEligibility", .unary = nodes_handle_set_eligibility},
	{.name = "Drain", .unary = drain_handle},
	{.name = "Purge", .unary = nodes_handle_purge},
	{.name = "Attest", .unary = attest_handle},
};

static const struct rpc_method plugins_methods[] = {
	{.name = "Get", .unary = plugins_handle_get},
	{.name = "List", .unary = plugins_handle_list},
};

static const struct rpc_method allocs_methods[] = {
	{.name = "Run", .unary = allocs_handle_run},
	{.name = "Stop", .unary = allocs_handle_stop},
	{.name = "Get", .unary = allocs_handle_get},
	{.name = "List", .unary = allocs_handle_list},
};

static const struct rpc_method operator_methods[] = {
	{.name = "Gc", .unary = gc_handle},
	{.name = "BeginBackup", .unary = backup_handle_begin},
	{.name = "ReadBackup", .unary = backup_handle_read},
	{.name = "BeginRestore", .unary = restore_handle_begin},
	{.name = "WriteRestore", .unary = restore_handle_write},
	{.name = "ApplyRestore", .unary = restore_handle_apply},
	{.name = "Watch", .stream = &events_stream},
	{.name = "Status", .unary = operator_handle_status},
	{.name = "BootstrapToken", .unary = tokens_handle_bootstrap},
	{.name = "CreateToken", .unary = tokens_handle_create},
	{.name = "ListTokens", .unary = tokens_handle_list},
	{.name = "RevokeToken", .unary = tokens_handle_revoke},
	{.name = "WhoAmI", .unary = tokens_handle_who_am_i},
	{.name = "PutPolicy", .unary = policies_handle_put},
	{.name = "ListPolicies", .unary = policies_handle_list},
	{.name = "DeletePolicy", .unary = policies_handle_delete},
	{.name = "ListAudit", .unary = operator_handle_list_audit},
};

const struct rpc_service services[] = {
	{&holdfast__v1__volumes__descriptor, volumes_methods, ARRAY_SIZE(volumes_methods)},
	{&holdfast__v1__nodes__descriptor, nodes_methods, ARRAY_SIZE(nodes_methods)},
	{&holdfast__v1__plugins__descriptor, plugins_methods, ARRAY_SIZE(plugins_methods)},
	{&holdfast__v1__allocations__descriptor, allocs_methods, ARRAY_SIZE(allocs_methods)},
	{&holdfast__v1__operator__descriptor, operator_methods, ARRAY_SIZE(operator_methods)},
};
const size_t n_services = ARRAY_SIZE(services);
