/* SPDX-License-Identifier: Apache-2.0 */
#include "routes.h"

#include "metrics.h"
#include "server.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "lead/lead.h"
#include "state/stall.h"

#define SERVICE(name) "holdfast.v1." name

/* A read, whose index is also in a header. */
#define GET(pattern_, service_, call_)                                                                 \
	{                                                                                              \
		.method = "GET", .pattern = (pattern_), .service = SERVICE(service_), .call = (call_), \
		.index = "index"                                                                       \
	}

#define WRITE(method_, pattern_, service_, call_)                                                         \
	{                                                                                                 \
		.method = (method_), .pattern = (pattern_), .service = SERVICE(service_), .call = (call_) \
	}

#define DELETE(...) WRITE("DELETE", __VA_ARGS__)

/* Tools for Nomad use either. */
#define PUT_OR_POST(...) WRITE("PUT", __VA_ARGS__), WRITE("POST", __VA_ARGS__)

#define NOTHING_IS_FORCED                                                                                  \
	"a claim is never dropped by force: its writer may still write. Its holder and its obstacles: "    \
	"holdfast volume status ID --why; a claim ends by holdfast alloc stop, and where the node or the " \
	"provider cannot answer by holdfast volume detach ID NODE with --fence or --attest"

/* --- for load balancers: without a right; they show only which server leads --- */

static const char TYPE[] = "text/plain; charset=utf-8";

/* As long as the loop turns. */
static void handle_live(struct rpc_call *call, void *userdata)
{
	rpc_call_reply_text(call, TYPE, "ok\n");
}

/* Where calls are taken: where the store is open or, on etcd, it is known which server has it open. */
static void handle_ready(struct rpc_call *call, void *userdata)
{
	const struct server *server = userdata;
	char text[LEAD_NAME_SIZE + LEAD_ADDRESS_SIZE + TROUBLE_TEXT_SIZE + 64];
	char why[TROUBLE_TEXT_SIZE];
	enum trouble_kind kind = lead_trouble(server->lead);
	struct lead_view view = {.is_known = false};
	struct error err;
	enum status status = lead_check(server->lead, &err);

	if (server->lead)
		lead_view(server->lead, &view);
	if (view.is_known && !view.is_own) {
		(void)str_format(text, sizeof(text), "follows %s at %s\n%s%s%s%s", view.name, view.address,
				 kind == TROUBLE_NONE ? "" : trouble_word(kind),
				 kind == TROUBLE_NONE ? "" : ": ",
				 kind == TROUBLE_NONE ? "" : lead_trouble_text(server->lead, kind, why),
				 kind == TROUBLE_NONE ? "" : "\n");
		rpc_call_reply_text(call, TYPE, text);
		return;
	}

	if (status == STATUS_OK && !server->is_serving)
		status =
			error_set(&err, STATUS_UNAVAILABLE, 0, "the server does not have its store open yet");
	if (status == STATUS_OK) {
		kind = stall_kind(server);
		status = stall_check(server, &err);
	}
	if (status != STATUS_OK && kind != TROUBLE_NONE)
		status = error_prefix(&err, "%s", trouble_word(kind));
	if (status != STATUS_OK)
		rpc_call_fail(call, &err);
	else
		rpc_call_reply_text(call, TYPE, server->lead ? "leads\n" : "ready\n");
}

const struct rpc_route routes[] = {
	GET("/v1/volumes", "Volumes", "List"),
	PUT_OR_POST("/v1/volumes", "Volumes", "Register"),
	GET("/v1/volumes/external", "Volumes", "ListExternal"),
	GET("/v1/volumes/snapshot", "Volumes", "ListSnapshots"),
	PUT_OR_POST("/v1/volumes/snapshot", "Volumes", "CreateSnapshot"),
	{.method = "DELETE",
	 .pattern = "/v1/volumes/snapshot",
	 .service = SERVICE("Volumes"),
	 .call = "DeleteSnapshot",
	 .secrets = "secrets"},
	GET("/v1/volume/csi/{id}", "Volumes", "Get"),
	PUT_OR_POST("/v1/volume/csi/{volume.id}", "Volumes", "Register"),
	{.method = "DELETE",
	 .pattern = "/v1/volume/csi/{id}",
	 .service = SERVICE("Volumes"),
	 .call = "Deregister",
	 .refuses = {"force", NOTHING_IS_FORCED}},
	PUT_OR_POST("/v1/volume/csi/{volume.id}/create", "Volumes", "Create"),
	PUT_OR_POST("/v1/volume/csi/{id}/expand", "Volumes", "Expand"),
	{.method = "DELETE",
	 .pattern = "/v1/volume/csi/{id}/delete",
	 .service = SERVICE("Volumes"),
	 .call = "Delete",
	 .secrets = "secrets"},
	{.method = "DELETE",
	 .pattern = "/v1/volume/csi/{id}/detach",
	 .service = SERVICE("Volumes"),
	 .call = "Detach",
	 .name = {"node", "node_id"}},
	GET("/v1/plugins", "Plugins", "List"),
	GET("/v1/plugin/csi/{id}", "Plugins", "Get"),
	GET("/v1/nodes", "Nodes", "List"),
	GET("/v1/node/{id}", "Nodes", "Get"),
	PUT_OR_POST("/v1/node/{id}/eligibility", "Nodes", "SetEligibility"),
	PUT_OR_POST("/v1/node/{id}/drain", "Nodes", "Drain"),
	PUT_OR_POST("/v1/node/{id}/purge", "Nodes", "Purge"),
	GET("/v1/allocations", "Allocations", "List"),
	GET("/v1/allocation/{id}", "Allocations", "Get"),
	PUT_OR_POST("/v1/allocation/{id}/stop", "Allocations", "Stop"),
	GET("/v1/jobs", "Jobs", "List"),
	PUT_OR_POST("/v1/jobs", "Jobs", "Run"),
	GET("/v1/job/{id}", "Jobs", "Get"),
	PUT_OR_POST("/v1/job/{job.id}", "Jobs", "Run"),
	DELETE("/v1/job/{id}", "Jobs", "Stop"),
	PUT_OR_POST("/v1/job/{job.id}/plan", "Jobs", "Plan"),
	GET("/v1/job/{id}/versions", "Jobs", "History"),
	PUT_OR_POST("/v1/job/{id}/revert", "Jobs", "Revert"),
	PUT_OR_POST("/v1/job/{id}/scale", "Jobs", "Scale"),
	PUT_OR_POST("/v1/job/{id}/restart", "Jobs", "Restart"),
	GET("/v1/status", "Operator", "Status"),
	GET("/v1/operator/members", "Operator", "ListMembers"),
	PUT_OR_POST("/v1/operator/step-down", "Operator", "StepDown"),
	GET("/v1/operator/audit", "Operator", "ListAudit"),
	GET("/v1/operator/trails", "Operator", "ListTrails"),
	PUT_OR_POST("/v1/system/gc", "Operator", "Gc"),
	{.method = "GET", .pattern = "/metrics", .text = metrics_handle},
	{.method = "GET", .pattern = "/healthz", .text = handle_live},
	{.method = "GET", .pattern = "/readyz", .text = handle_ready},
};
const size_t n_routes = ARRAY_SIZE(routes);
