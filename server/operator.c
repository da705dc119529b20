/* SPDX-License-Identifier: Apache-2.0 */
#include "operator.h"

#include "certificate.h"
#include "key_rotation.h"
#include "server.h"
#include "warnings.h"

#include "access/access.h"
#include "access/answer.h"
#include "access/audit.h"
#include "access/audit_read.h"
#include "api/watch.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "lead/lead.h"
#include "lead/members.h"
#include "log/log.h"
#include "node/session.h"
#include "recovery/backup.h"
#include "state/change.h"
#include "state/keys.h"
#include "state/records.h"
#include "state/stall.h"

#include <assert.h>
#include <holdfast/v1/operator.pb-c.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#define WHAT_STEP_DOWN "Operator.StepDown"

static const uint64_t FLUSH_US = 200 * USEC_PER_MSEC; /* for the answer to be on its way */

static void add_epoch(struct server *server, Holdfast__V1__GetStatusResponse *response)
{
	const Holdfast__V1__Epoch *epoch = records_get(&server->state.records, KEY_EPOCH);
	const Holdfast__V1__Schema *schema = records_get(&server->state.records, KEY_SCHEMA);

	response->epoch = epoch ? epoch->number : 0;
	response->restored_at_ms = epoch ? epoch->restored_at_ms : 0;
	if (epoch)
		response->epoch_reason = epoch->restored_from;
	response->nodes_to_report = (uint32_t)server->state.n_unreported;
	response->schema = schema ? schema->version : 0;
}

struct expiring {
	Holdfast__V1__NodeCertificate nodes[SESSION_EXPIRIES_MAX];
	Holdfast__V1__NodeCertificate *all[SESSION_EXPIRIES_MAX];
	char names[SESSION_EXPIRIES_MAX][NODE_ID_MAX + 1];
};

static void add_expiries(const struct server *server, struct expiring *expiring,
			 Holdfast__V1__GetStatusResponse *response)
{
	struct session_expiry first[SESSION_EXPIRIES_MAX];

	response->n_node_certificates = session_expiries(server, first);
	response->node_certificates = expiring->all;
	for (size_t i = 0; i < response->n_node_certificates; i++) {
		holdfast__v1__node_certificate__init(&expiring->nodes[i]);
		(void)str_copy(expiring->names[i], sizeof(expiring->names[i]), first[i].node_id);
		expiring->nodes[i].node = expiring->names[i];
		expiring->nodes[i].expires_at_ms = first[i].expires_ms;
		expiring->all[i] = &expiring->nodes[i];
	}
}

static enum status handle_status(struct server *server, struct rpc_call *call,
				 const ProtobufCMessage *request, struct error *err)
{
	Holdfast__V1__GetStatusResponse response = HOLDFAST__V1__GET_STATUS_RESPONSE__INIT;
	char version[] = HOLDFAST_VERSION;
	char texts[WARNING_N][WARNING_SIZE];
	char *warnings[WARNING_N];
	uint8_t key[TICKET_KEY_SIZE];
	uint8_t next_key[TICKET_KEY_SIZE];
	struct expiring expiring;

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
	response.certificate_expires_at_ms = server->certificate->expires_at_ms;
	response.warnings = warnings;
	for (int kind = 0; kind < WARNING_N; kind++)
		if (warning_text(server, (enum warning_kind)kind, texts[kind]))
			warnings[response.n_warnings++] = texts[kind];
	response.last_backup_at_ms = backup_last_ms(server);
	response.last_kit_at_ms = backup_last_kit_ms(server);
	if (key_rotation_next(server, next_key))
		response.next_ticket_key = (ProtobufCBinaryData){.len = sizeof(next_key), .data = next_key};
	response.ca_expires_at_ms = server->certificate->ca_expires_at_ms;
	add_expiries(server, &expiring, &response);
	answer_durable(server, call, message_copy(&response.base));
	return STATUS_OK;
}

static const struct read_method status_method = {.handle = handle_status};
DEFINE_READ_METHOD(operator_handle_status, status_method)

static enum status handle_list_audit(struct server *server, struct rpc_call *call,
				     const ProtobufCMessage *request, struct error *err)
{
	Holdfast__V1__ListAuditResponse *response;

	TRY(audit_list(server, (const Holdfast__V1__ListAuditRequest *)request, &response, err));
	answer_durable(server, call, &response->base);
	return STATUS_OK;
}

static const struct read_method list_audit_method = {.handle = handle_list_audit};
DEFINE_READ_METHOD(operator_handle_list_audit, list_audit_method)

/* --- members --- */

/* A call that waits for etcd to answer. */
struct asked {
	struct server *server;
	struct rpc_call *call;
};

struct answer {
	Holdfast__V1__ListMembersResponse response;
	Holdfast__V1__ServerMember servers[MEMBERS_SERVERS_MAX + 1];
	Holdfast__V1__ServerMember *server_list[MEMBERS_SERVERS_MAX + 1];
	Holdfast__V1__EtcdMember etcd[LEAD_ENDPOINTS_MAX];
	Holdfast__V1__EtcdMember *etcd_list[LEAD_ENDPOINTS_MAX];
};

static struct answer *answer_new(const struct server *server)
{
	struct answer *answer = calloc(1, sizeof(*answer));

	if (!answer)
		return NULL;
	holdfast__v1__list_members_response__init(&answer->response);
	answer->response.servers = answer->server_list;
	answer->response.etcd = answer->etcd_list;
	answer->response.index = server->kv ? kv_revision(server->kv) : 0;
	return answer;
}

static Holdfast__V1__ServerMember *add_server(struct answer *answer, const char *name, const char *address)
{
	size_t n = answer->response.n_servers++;

	holdfast__v1__server_member__init(&answer->servers[n]);
	answer->server_list[n] = &answer->servers[n];
	answer->servers[n].name = (char *)(uintptr_t)name; /* only read */
	answer->servers[n].address = (char *)(uintptr_t)address;
	return &answer->servers[n];
}

static void add_leader(struct answer *answer, const char *name, const char *address, int64_t since_ms)
{
	static char version[] = HOLDFAST_VERSION;
	Holdfast__V1__ServerMember *server = add_server(answer, name, address);

	server->leads = true;
	server->since_ms = since_ms;
	server->version = version;
}

/* Returns the number of entries by which a member is behind the most advanced one. */
static uint64_t lag_of(const struct members_view *view, const struct members_etcd *member)
{
	uint64_t furthest = 0;

	for (size_t i = 0; i < view->n_etcd; i++)
		if (view->etcd[i].applied > furthest)
			furthest = view->etcd[i].applied;
	return member->is_reachable ? furthest - member->applied : 0;
}

static void add_etcd(struct answer *answer, const struct members_view *view, size_t i)
{
	const struct members_etcd *from = &view->etcd[i];
	Holdfast__V1__EtcdMember *member = &answer->etcd[i];

	holdfast__v1__etcd_member__init(member);
	answer->etcd_list[answer->response.n_etcd++] = member;
	member->endpoint = (char *)(uintptr_t)from->endpoint;
	member->reachable = from->is_reachable;
	member->error = (char *)(uintptr_t)from->why;
	member->version = (char *)(uintptr_t)from->version;
	member->leads = from->leads;
	member->size_bytes = from->size_bytes;
	member->lag = lag_of(view, from);
	member->alarms = (char *)(uintptr_t)from->alarms;
}

/* A server that leads is in the list also before its key is. */
static void fill(struct answer *answer, const struct members_view *view, const struct lead_view *own)
{
	assert(view);
	if (own->is_known)
		add_leader(answer, own->name, own->address, own->since_ms);
	for (size_t i = 0; i < view->n_servers; i++) {
		const struct members_server *from = &view->servers[i];
		Holdfast__V1__ServerMember *server;

		if (own->is_known && str_eq(from->name, own->name) && str_eq(from->address, own->address))
			continue;
		server = add_server(answer, from->name, from->address);
		server->since_ms = from->since_ms;
		server->version = (char *)(uintptr_t)from->version;
	}
	for (size_t i = 0; i < view->n_etcd; i++)
		add_etcd(answer, view, i);
}

/* Nothing of it is the store's: it waits for no change. */
static char *describe_trouble(const struct server *server, char ret[static TROUBLE_TEXT_SIZE + 32])
{
	enum trouble_kind kind = lead_trouble(server->lead);
	char text[TROUBLE_TEXT_SIZE];
	struct error err;

	ret[0] = '\0';
	if (kind != TROUBLE_NONE)
		(void)str_format(ret, TROUBLE_TEXT_SIZE + 32, "%s: %s", trouble_word(kind),
				 lead_trouble_text(server->lead, kind, text));
	else if (stall_check(server, &err) != STATUS_OK)
		(void)str_format(ret, TROUBLE_TEXT_SIZE + 32, "%s: %.760s", trouble_word(stall_kind(server)),
				 err.msg);
	return ret;
}

static void on_look(const struct members_view *view, const struct error *err, void *userdata)
{
	cleanup_free struct asked *asked = userdata;
	struct server *server = asked->server;
	cleanup_free struct answer *answer = NULL;
	char text[TROUBLE_TEXT_SIZE + 32];
	struct lead_view own;
	struct error failure;

	lead_view(server->lead, &own);
	if (view && own.is_known && lead_check(server->lead, &failure) != STATUS_OK)
		err = &failure;
	if (err) {
		rpc_call_fail(asked->call, err);
		return;
	}
	answer = answer_new(server);
	if (!answer) {
		answer_error(asked->call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
		return;
	}
	fill(answer, view, &own);
	answer->response.trouble = describe_trouble(server, text);
	rpc_call_reply(asked->call, &answer->response.base);
}

/* The only server is its own. */
static void answer_alone(struct server *server, struct rpc_call *call)
{
	cleanup_free struct answer *answer = answer_new(server);
	char address[PKI_HOST_SIZE + sizeof("[]:65535")];
	struct utsname machine;
	const char *host = server->config.host;

	if (uname(&machine) < 0)
		machine.nodename[0] = '\0';
	/* of all addresses, the one that its certificate names */
	if ((str_eq(host, "0.0.0.0") || str_eq(host, "::")) && server->own.host[0] != '\0')
		host = server->own.host;
	(void)str_format(address, sizeof(address), strchr(host, ':') ? "[%s]:%u" : "%s:%u", host,
			 (unsigned int)server->port);
	if (answer)
		add_leader(answer, machine.nodename, address, server->started_ms);
	answer_durable(server, call, answer ? message_copy(&answer->response.base) : NULL);
}

static enum status handle_list_members(struct server *server, struct rpc_call *call,
				       const ProtobufCMessage *request, struct error *err)
{
	struct asked *asked;
	enum status status;

	if (!server->lead) {
		answer_alone(server, call);
		return STATUS_OK;
	}
	asked = malloc(sizeof(*asked));
	if (!asked)
		return error_no_memory(err, "a look at the members");
	*asked = (struct asked){.server = server, .call = call};
	status = members_look(lead_members(server->lead), on_look, asked, err);
	if (status != STATUS_OK)
		free(asked);
	return status;
}

static const struct read_method list_members_method = {.handle = handle_list_members};
DEFINE_READ_METHOD(operator_handle_list_members, list_members_method)

/* --- former leader --- */

static int on_flushed(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct server *server = userdata;

	server->has_stepped_down = true;
	server_restart(server);
	return 0;
}

static void on_recorded(struct server *server, void *userdata)
{
	Holdfast__V1__StepDownResponse response = HOLDFAST__V1__STEP_DOWN_RESPONSE__INIT;

	log_ctx(LOG_NOTICE, &(struct log_ctx){.op = "lead"}, "handing over, as an operator has asked for");
	rpc_call_reply(userdata, &response.base);
	if (server->step_down_timer ||
	    sd_event_add_time_relative(server->event, &server->step_down_timer, CLOCK_MONOTONIC, FLUSH_US, 0,
				       on_flushed, server) >= 0)
		return;
	(void)on_flushed(NULL, 0, server);
}

static enum status handle_step_down(struct server *server, struct rpc_call *call,
				    const Holdfast__V1__StepDownRequest *request, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	char object[LEAD_NAME_SIZE + 16];
	struct lead_view own;

	if (!server->lead)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "the store is in sqlite: this server is the only one, and no other could "
				 "lead in its place");
	lead_view(server->lead, &own);
	(void)str_format(object, sizeof(object), "server %s", own.name);
	audit_write(server, &change, call, WHAT_STEP_DOWN, object, NULL);
	return change_commit(server, &change, on_recorded, call, err);
}

DEFINE_WRITE_METHOD(operator_handle_step_down, Holdfast__V1__StepDownRequest, WHAT_STEP_DOWN,
		    handle_step_down)
