/* SPDX-License-Identifier: Apache-2.0 */
/* Ids for the shell: one page, quickly, and silence when the server is away. */

#include "completion.h"
#include "completion_parts.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "call/connect.h"
#include "call/pages.h"
#include "show/output.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/jobs.pb-c.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <holdfast/v1/plugins.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>

enum { IDS_MAX = 200 };

static enum status print_ids(struct connection *connection, const ProtobufCServiceDescriptor *service,
			     ProtobufCMessage *request, struct error *err)
{
	cleanup_message ProtobufCMessage *answer = NULL;
	enum status status = pages_fetch(connection, service, "List", request, IDS_MAX, &answer, err);
	ProtobufCMessage **items;
	size_t n;

	if (status != STATUS_OK)
		return status;
	items = pages_items(answer, &n);
	for (size_t i = 0; i < n; i++)
		print_line("%s", message_text(items[i], "id"));
	return STATUS_OK;
}

enum status completion_ids(struct invocation *inv, struct error *err)
{
	Holdfast__V1__ListVolumesRequest of_volumes = HOLDFAST__V1__LIST_VOLUMES_REQUEST__INIT;
	Holdfast__V1__ListNodesRequest of_nodes = HOLDFAST__V1__LIST_NODES_REQUEST__INIT;
	Holdfast__V1__ListPluginsRequest of_plugins = HOLDFAST__V1__LIST_PLUGINS_REQUEST__INIT;
	Holdfast__V1__ListAllocationsRequest of_allocs = HOLDFAST__V1__LIST_ALLOCATIONS_REQUEST__INIT;
	Holdfast__V1__ListJobsRequest of_jobs = HOLDFAST__V1__LIST_JOBS_REQUEST__INIT;
	const struct {
		enum word_kind kind;
		const ProtobufCServiceDescriptor *service;
		ProtobufCMessage *request;
	} kinds[] = {
		{WORD_VOLUME, &holdfast__v1__volumes__descriptor, &of_volumes.base},
		{WORD_NODE, &holdfast__v1__nodes__descriptor, &of_nodes.base},
		{WORD_PLUGIN, &holdfast__v1__plugins__descriptor, &of_plugins.base},
		{WORD_ALLOC, &holdfast__v1__allocations__descriptor, &of_allocs.base},
		{WORD_JOB, &holdfast__v1__jobs__descriptor, &of_jobs.base},
	};
	cleanup_connection struct connection *connection = NULL;
	const char *kind = inv->n_args > 1 ? inv->args[1] : "";
	char *prefix = inv->n_args > 2 ? inv->args[2] : (char *)(uintptr_t)protobuf_c_empty_string;

	if (str_eq(kind, "context"))
		return completion_contexts(prefix, err);
	of_volumes.namespace_ = of_jobs.namespace_ = option_text(inv, OPT_NAMESPACE);
	of_volumes.prefix = of_nodes.prefix = of_plugins.prefix = of_allocs.prefix = of_jobs.prefix = prefix;
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (!str_eq(kind, completion_kind(kinds[i].kind)))
			continue;
		TRY(connect_server(inv, &connection, err));
		return print_ids(connection, kinds[i].service, kinds[i].request, err);
	}
	return usage_error(inv, err, "there are no ids of '%s': volume, node, plugin, alloc, job, context",
			   kind);
}
