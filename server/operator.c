/* SPDX-License-Identifier: Apache-2.0 */
#include "operator.h"

#include "server.h"

#include "access/access.h"
#include "access/audit_read.h"
#include "access/reply.h"
#include "api/watch.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "recovery/backup.h"
#include "recovery/history.h"
#include "recovery/marks.h"
#include "state/keys.h"
#include "state/records.h"

#include <holdfast/v1/operator.pb-c.h>
#include <inttypes.h>

enum { WARNINGS_MAX = 5, HISTORY_WARNING_SIZE = 640, KEYS_WARNING_SIZE = 512, KEYS_NAMED = 4 };

static void add_epoch(struct server *server, Holdfast__V1__GetStatusResponse *response)
{
	const Holdfast__V1__Epoch *epoch = state_record(&server->state, KEY_EPOCH);
	const Holdfast__V1__Schema *schema = state_record(&server->state, KEY_SCHEMA);

	response->epoch = epoch ? epoch->number : 0;
	response->restored_at_ms = epoch ? epoch->restored_at_ms : 0;
	if (epoch)
		response->epoch_reason = epoch->restored_from;
	response->nodes_to_report = (uint32_t)server->state.n_unreported;
	response->schema = schema ? schema->version : 0;
}

static bool history_warning(struct server *server, char ret[static HISTORY_WARNING_SIZE])
{
	const Holdfast__V1__Epoch *epoch = state_record(&server->state, KEY_EPOCH);
	uint64_t missing = history_missing_nodes(server);

	if (!history_is_lost(server) &&
	    missing == 0) /* the nodes of a restore report; that is as it should be */
		return false;
	(void)str_format(ret, HISTORY_WARNING_SIZE,
			 "%sepoch %" PRIu64 " has begun (%.400s), %zu nodes have not reported, %" PRIu64
			 " are missing that are not known by name; nothing that they may hold is granted",
			 epoch && epoch->lost_history ? "the store had lost history: " : "",
			 state_epoch(&server->state), epoch ? epoch->restored_from : "",
			 server->state.n_unreported, missing);
	return true;
}

/* Names some of the nodes, all of which are walked only when there is one. */
static bool keys_warning(struct server *server, char ret[static KEYS_WARNING_SIZE])
{
	const struct state *state = &server->state;
	struct node_entry *entry;
	size_t named = 0;
	size_t at = 0;

	if (state->n_nodes_other_key == 0)
		return false;
	for (entry = state_node_from(&server->state, ""); entry; entry = state_node_next(entry)) {
		int n;

		if (entry->node.other_ticket_keys[0] == '\0')
			continue;
		n = str_format(ret + at, KEYS_WARNING_SIZE - at, "%snode %s has another ticket key (%s...)",
			       at > 0 ? ", " : "", entry->node.id, entry->node.other_ticket_keys);
		at += n > 0 ? (size_t)n : 0;
		if (++named == KEYS_NAMED)
			break;
	}
	(void)str_format(
		ret + at, KEYS_WARNING_SIZE - at,
		"%s: mounts are refused there. Put this server's key into mounthelper.policy, or give "
		"the server its old key back",
		state->n_nodes_other_key > named ? " and more" : "");
	return true;
}

static enum status handle_status(struct server *server, struct rpc_call *call,
				 const ProtobufCMessage *request, struct error *err)
{
	Holdfast__V1__GetStatusResponse response = HOLDFAST__V1__GET_STATUS_RESPONSE__INIT;
	char version[] = HOLDFAST_VERSION;
	char certificate[CERTIFICATE_WARNING_SIZE];
	char disk[DISK_WARNING_SIZE];
	char mark[MARKS_WARNING_SIZE];
	char history[HISTORY_WARNING_SIZE];
	char keys[KEYS_WARNING_SIZE];
	char *warnings[WARNINGS_MAX];
	uint8_t key[TICKET_KEY_SIZE];

	(void)request;
	(void)err;
	ticket_issuer_public_key(server->issuer, key);
	response.version = version;
	response.cluster = server->config.cluster;
	response.index = kv_revision(server->kv);
	response.volumes = (uint32_t)server->state.n_volumes;
	response.nodes = (uint32_t)server->state.n_nodes;
	response.nodes_ready = (uint32_t)server->state.n_connected;
	response.allocations = (uint32_t)server->state.n_allocs;
	response.claims = (uint32_t)server->state.n_claims;
	response.ticket_key = (ProtobufCBinaryData){.len = sizeof(key), .data = key};
	response.acl_enabled = server->config.acl;
	add_epoch(server, &response);
	response.certificate_expires_at_ms = server->certificate.expires_at_ms;
	response.warnings = warnings;
	if (history_warning(server, history))
		warnings[response.n_warnings++] = history;
	response.last_backup_at_ms = backup_last_ms(server);
	response.last_kit_at_ms = backup_last_kit_ms(server);
	if (keys_warning(server, keys))
		warnings[response.n_warnings++] = keys;
	if (disk_warning(server, disk))
		warnings[response.n_warnings++] = disk;
	if (marks_warning(server, mark))
		warnings[response.n_warnings++] = mark;
	if (certificate_warning(&server->certificate, server->config.cert, certificate))
		warnings[response.n_warnings++] = certificate;
	reply_durable(server, call, message_copy(&response.base));
	return STATUS_OK;
}

static const struct read_method status_method = {.handle = handle_status};
DEFINE_READ_METHOD(operator_handle_status, status_method)

static enum status handle_list_audit(struct server *server, struct rpc_call *call,
				     const ProtobufCMessage *request, struct error *err)
{
	Holdfast__V1__ListAuditResponse *response;
	enum status st = audit_list(server, (const Holdfast__V1__ListAuditRequest *)request, &response, err);

	if (st == STATUS_OK)
		reply_durable(server, call, &response->base);
	return st;
}

static const struct read_method list_audit_method = {.handle = handle_list_audit};
DEFINE_READ_METHOD(operator_handle_list_audit, list_audit_method)
