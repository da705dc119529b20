/* SPDX-License-Identifier: Apache-2.0 */
/* Issues certificates for callers with a certificate. */

#include "identity/authority.h"

#include "server.h"

#include "access/access.h"
#include "access/answer.h"
#include "access/audit.h"
#include "access/revocations.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/join.h"
#include "base/rates.h"
#include "base/str.h"
#include "log/log.h"
#include "state/change.h"
#include "state/keys.h"
#include "state/records.h"

#include <arpa/inet.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <holdfast/v1/operator.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	ISSUES_PER_S = 20, /* of all: 10 000 nodes renew theirs within minutes */
	ISSUES_BURST = 200,
	CALLS_PER_S = 1, /* of one address that enrols */
	CALLS_BURST = 10,
	RENEWALS_PER_LIFE = 60, /* of one node, and then one in RENEWAL_COST_MAX_US; it needs one or two */
	RENEWALS_BURST = 10,
	NAME_MAX_LEN = 63,
	HOST_MAX_LEN = 253,
	OTHERS_LIFE_DAYS = 90,
	LIFE_MAX_DAYS = 365,
};

#define DAY_US (UINT64_C(24) * 3600 * USEC_PER_SEC)
#define RENEWAL_COST_MAX_US (600 * USEC_PER_SEC)

struct authority {
	struct pki_ca *ca;
	struct rate rate;
	struct rates *renewing; /* owned */
	struct caller_rates enrolling;
};

/* --- the CA --- */

#define KEY_IS_LOST                                                                                        \
	"the store has the CA's key, encrypted with another ticket_key than this server's. Next: if the "  \
	"former file was replaced by mistake, put it back and restart; if it was replaced because it may " \
	"have leaked: holdfast operator ca begin"

static enum status open_stored(struct server *server, const Holdfast__V1__StoredCa *stored,
			       struct pki_ca **ret, struct error *err)
{
	cleanup_free char *chain = NULL;
	enum status status;
	char *key;

	key = calloc(1, stored->wrapped_key.len + 1);
	if (!key || asprintf(&chain, "%s%s", stored->certificate, stored->link) < 0) {
		chain = NULL;
		free(key);
		return error_no_memory(err, "the CA");
	}
	status = ticket_issuer_unwrap(server->issuer, stored->wrapped_key.data, stored->wrapped_key.len, key)
			 ? pki_ca_read(key, chain, ret, err)
			 : error_set(err, STATUS_FAILED_PRECONDITION, 0, KEY_IS_LOST);
	pki_key_free(key);
	return status;
}

/* The settings of a server that joined after a change may name a CA that the one of the store has replaced.
 */
static enum status issue_nothing(struct server *server, const struct error *why)
{
	log_ctx(LOG_ERR, &(struct log_ctx){.op = "certificate", .err = why},
		"this server issues no certificates");
	authority_free(TAKE_PTR(server->authority));
	return STATUS_OK;
}

enum status authority_open(struct server *server, struct error *err)
{
	const struct config *config = &server->config;
	const Holdfast__V1__StoredCa *stored = records_get(&server->state.records, KEY_CA);
	struct pki_ca *ca = NULL;
	struct error failed;

	if (config->authority.certificate[0] == '\0') {
		authority_free(TAKE_PTR(server->authority));
		return STATUS_OK;
	}
	if (stored && open_stored(server, stored, &ca, &failed) != STATUS_OK)
		return issue_nothing(server, &failed);
	if (!stored &&
	    pki_ca_open(config->authority.key, config->authority.certificate, &ca, &failed) != STATUS_OK) {
		(void)error_prefix(&failed, "ca in %s", config->path);
		if (config_is_on_etcd(config) && !server->kv && !server->authority)
			return issue_nothing(server, &failed); /* its store is not read yet */
		if (err)
			*err = failed;
		return failed.status;
	}
	if (!server->authority) {
		server->authority = calloc(1, sizeof(*server->authority));
		if (!server->authority || !(server->authority->renewing = rates_new())) {
			authority_free(TAKE_PTR(server->authority));
			pki_ca_free(ca);
			return error_no_memory(err, "the CA");
		}
		rate_init(&server->authority->rate, ISSUES_PER_S, ISSUES_BURST, clock_monotonic_us());
	}
	pki_ca_free(server->authority->ca);
	server->authority->ca = ca;
	return STATUS_OK;
}

void authority_free(struct authority *authority)
{
	if (!authority)
		return;
	pki_ca_free(authority->ca);
	rates_free(authority->renewing);
	free(authority);
}

enum status authority_check(struct server *server, struct error *err)
{
	if (server->authority)
		return STATUS_OK;
	return error_set(err, STATUS_FAILED_PRECONDITION, 0, "this server issues no certificates: %s",
			 server->config.authority.certificate[0] == '\0'
				 ? "its settings have no block ca { }, see holdfast-server.hcl(5). Next, to "
				   "make them offline: holdfast operator cert node"
			 : authority_key_is_lost(server)
				 ? KEY_IS_LOST
				 : "it cannot open the CA of its settings. Next, for the cause: journalctl "
				   "-u holdfast-server");
}

bool authority_key_is_lost(struct server *server)
{
	return !server->authority && server->config.authority.certificate[0] != '\0' &&
	       records_get(&server->state.records, KEY_CA);
}

struct caller_rates *authority_enrolling(struct server *server)
{
	return &server->authority->enrolling;
}

enum status authority_read_ca(const struct server *server, char **ret, struct error *err)
{
	int r = file_read(server->in_use.ca, PKI_PEM_MAX, ret, NULL);

	return r < 0 ? error_set(err, status_from_errno(r), r, "read the CA %s", server->in_use.ca)
		     : STATUS_OK;
}

enum status authority_read_ca_for(const struct server *server, const char *cert, char **ret,
				  struct error *err)
{
	struct error why;

	TRY(authority_read_ca(server, ret, err));
	if (pki_check_issuer(cert, *ret, &why) == STATUS_OK)
		return STATUS_OK;
	return error_set(err, STATUS_INTERNAL, 0,
			 "the server's file %s goes with no certificate: %s; put the CA that issues there",
			 server->in_use.ca, why.msg);
}

enum status caller_rates_take(struct caller_rates *rates, const char *name, uint64_t now_us, size_t *ret,
			      struct error *err)
{
	size_t at = 0;

	for (size_t i = 0; i < AUTHORITY_CALLERS; i++) {
		if (str_eq(rates->entries[i].name, name)) {
			at = i;
			break;
		}
		if (rates->entries[at].is_busy ||
		    (!rates->entries[i].is_busy && rates->entries[i].used_us < rates->entries[at].used_us))
			at = i;
	}
	if (!str_eq(rates->entries[at].name, name)) {
		if (rates->entries[at].is_busy)
			return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
					 "%d callers ask for certificates at once; ask again in some seconds",
					 AUTHORITY_CALLERS);
		(void)str_copy(rates->entries[at].name, sizeof(rates->entries[at].name), name);
		rate_init(&rates->entries[at].rate, CALLS_PER_S, CALLS_BURST, now_us);
	}
	rates->entries[at].used_us = now_us;
	if (rates->entries[at].is_busy || !rate_take(&rates->entries[at].rate, now_us))
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "%s asks for certificates too often; ask again in some seconds", name);
	*ret = at;
	return STATUS_OK;
}

static bool is_of_other_ca(const struct server *server, const char *issuer)
{
	return !str_eq(issuer, pki_ca_key_id(server->authority->ca));
}

const struct node_entry *authority_old_holder(struct server *server, const struct node_entry *after)
{
	struct node_entry *node;

	if (!server->authority || pki_ca_key_id(server->authority->ca)[0] == '\0')
		return NULL;
	node = after ? state_node_next((struct node_entry *)(uintptr_t)after)
		     : state_node_from(&server->state, "");
	for (; node; node = state_node_next(node))
		if (node_is_registered(node) && is_of_other_ca(server, node->node.certificate_issuer))
			return node;
	return NULL;
}

size_t authority_old_holders(struct server *server, char ret[static AUTHORITY_HOLDERS_SIZE])
{
	const struct node_entry *node = NULL;
	size_t n = 0, at = 0;

	ret[0] = '\0';
	while ((node = authority_old_holder(server, node)))
		if (++n <= AUTHORITY_HOLDERS_NAMED)
			at += (size_t)str_format(ret + at, AUTHORITY_HOLDERS_SIZE - at, "%snode %s",
						 n > 1 ? ", " : "", node->id);
	return n;
}

const struct pki_ca *authority_ca(const struct server *server)
{
	return server->authority ? server->authority->ca : NULL;
}

bool authority_is_only_one(struct server *server)
{
	const Holdfast__V1__StoredCa *stored = records_get(&server->state.records, KEY_CA);

	return stored && stored->former[0] == '\0';
}

bool authority_is_new(const struct server *server)
{
	return server->authority && pki_ca_key_id(server->authority->ca)[0] != '\0' &&
	       is_of_other_ca(server, server->own.issuer);
}

/* --- issuing --- */

static const char *const roles[] = {"node", "operator", "fencer", "driver", "server"};

static bool is_role(const char *role)
{
	for (size_t i = 0; i < ARRAY_SIZE(roles); i++)
		if (str_eq(role, roles[i]))
			return true;
	return false;
}

static uint64_t life_of(const struct server *server, const char *role)
{
	if (str_eq(role, "node"))
		return server->config.authority.node_life_us;
	if (str_eq(role, "operator"))
		return server->config.authority.operator_life_us;
	if (str_eq(role, "server"))
		return server->config.authority.server_life_us;
	return OTHERS_LIFE_DAYS * DAY_US;
}

/* Every address of a server is one that its clients check. */
struct hosts {
	const char *names[AUTHORITY_HOSTS_MAX];
	const char *addresses[AUTHORITY_HOSTS_MAX];
	size_t n_names, n_addresses;
};

static void sort_hosts(const struct authority_wish *wish, struct hosts *ret)
{
	unsigned char address[16];

	*ret = (struct hosts){.n_names = 0};
	for (size_t i = 0; i < wish->n_hosts; i++)
		if (inet_pton(AF_INET, wish->hosts[i], address) == 1 ||
		    inet_pton(AF_INET6, wish->hosts[i], address) == 1)
			ret->addresses[ret->n_addresses++] = wish->hosts[i];
		else
			ret->names[ret->n_names++] = wish->hosts[i];
}

static bool is_host(const char *host)
{
	size_t n = strlen(host);

	return n > 0 && n <= HOST_MAX_LEN &&
	       strspn(host, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-:_") == n;
}

enum status authority_check_wish(const struct authority_wish *wish, struct error *err)
{
	if (!is_role(wish->role) || !id_is_name(wish->name, NAME_MAX_LEN))
		return error_set(
			err, STATUS_INVALID_ARGUMENT, 0,
			"'%.40s/%.80s' is no identity to issue a certificate for: node, operator, fencer, "
			"driver or server, and a name of 1 to %d of A-Z a-z 0-9 _ and -",
			wish->role, wish->name, NAME_MAX_LEN);
	if (str_eq(wish->role, "server") ? wish->n_hosts == 0 || wish->n_hosts > AUTHORITY_HOSTS_MAX
					 : wish->n_hosts > 0)
		return error_set(
			err, STATUS_INVALID_ARGUMENT, 0,
			"hosts: a server needs 1 to %d names and addresses by which it is reached, and "
			"only a server has them: holdfast operator cert enroll server/NAME --host NAME,...",
			AUTHORITY_HOSTS_MAX);
	for (size_t i = 0; i < wish->n_hosts; i++)
		if (!is_host(wish->hosts[i]))
			return error_set(err, STATUS_INVALID_ARGUMENT, 0,
					 "hosts: '%.80s' is no name or address", wish->hosts[i]);
	return STATUS_OK;
}

enum status authority_issue(struct server *server, struct change *change, const struct rpc_call *call,
			    const char *what, const struct authority_wish *wish, char **ret_pem,
			    struct pki_facts *ret_facts, struct error *err)
{
	char uri[RPC_URI_SIZE];
	char identity[NAME_MAX_LEN + 32];
	char object[AUDIT_OBJECT_SIZE];
	char until[CLOCK_TEXT_SIZE];
	struct pki_cert_request request = {.uri = uri, .common_name = wish->name};
	struct hosts hosts;

	TRY(authority_check(server, err));
	TRY(authority_check_wish(wish, err));
	if (!rate_take(&server->authority->rate, clock_monotonic_us()))
		return error_set(
			err, STATUS_RESOURCE_EXHAUSTED, 0,
			"more than %d certificates a second are asked for; ask again in some seconds",
			ISSUES_PER_S);
	(void)str_join(identity, sizeof(identity), wish->role, "/", wish->name);
	(void)str_format(uri, sizeof(uri), "holdfast://%s/%s", server->config.cluster, identity);
	sort_hosts(wish, &hosts);
	request.dns_names = hosts.names;
	request.n_dns_names = hosts.n_names;
	request.ip_addresses = hosts.addresses;
	request.n_ip_addresses = hosts.n_addresses;
	request.life_s = (wish->life_us > 0 ? wish->life_us : life_of(server, wish->role)) / USEC_PER_SEC;
	request.after_ms = revocation_cutoff_ms(server, identity);
	TRY(pki_ca_sign(server->authority->ca, &request, wish->csr, ret_pem, ret_facts, err));
	(void)str_format(object, sizeof(object), "certificate %s of %s until %s", ret_facts->serial, identity,
			 clock_format(ret_facts->expires_ms, until));
	audit_write(server, change, call, what, object, NULL);
	return STATUS_OK;
}

enum status authority_issue_own(struct server *server, const char *like, const char *csr, char **ret_pem,
				struct pki_facts *ret_facts, struct error *err)
{
	struct identity identity;
	char name[sizeof("server/") + NODE_ID_MAX];
	struct pki_facts facts;
	struct pki_cert_request request = {.uri = facts.uri, .common_name = identity.name, .like = like};

	TRY(authority_check(server, err));
	TRY(pki_read_facts(like, &facts, err));
	TRY(identity_parse(facts.uri, server->config.cluster, &identity, err));
	if (identity.role != ROLE_SERVER)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0, "%s is of %s, not of a server", like,
				 facts.uri);
	(void)str_join(name, sizeof(name), "server/", identity.name);
	request.life_s = server->config.authority.server_life_us / USEC_PER_SEC;
	request.after_ms = revocation_cutoff_ms(server, name);
	/* the one that was issued last counts, unless a clock that was ahead has issued it */
	if (request.after_ms < facts.issued_ms && facts.issued_ms <= clock_realtime_ms() + PKI_AHEAD_MS)
		request.after_ms = facts.issued_ms;
	return pki_ca_sign(server->authority->ca, &request, csr, ret_pem, ret_facts, err);
}

static enum status handle_issue(struct server *server, struct rpc_call *call,
				const Holdfast__V1__IssueCertificateRequest *request, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	Holdfast__V1__IssueCertificateResponse response = HOLDFAST__V1__ISSUE_CERTIFICATE_RESPONSE__INIT;
	const char *slash = strchr(request->identity, '/');
	cleanup_free char *pem = NULL;
	cleanup_free char *ca = NULL;
	struct authority_wish wish;
	struct pki_facts facts;
	char role[32];

	if (!slash ||
	    str_format(role, sizeof(role), "%.*s", (int)(slash - request->identity), request->identity) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "identity: '%.80s' is not one; expected ROLE/NAME, as in operator/ann",
				 request->identity);
	if ((request->ttl_ms > 0 && request->ttl_ms < 1000) ||
	    request->ttl_ms > LIFE_MAX_DAYS * (DAY_US / USEC_PER_MSEC))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "ttl_ms: 1000 (1 second) to %d days; 0 is the default", LIFE_MAX_DAYS);
	wish = (struct authority_wish){.role = role,
				       .name = slash + 1,
				       .csr = request->csr,
				       .life_us = request->ttl_ms * USEC_PER_MSEC};
	TRY(authority_issue(server, &change, call, "Operator.IssueCertificate", &wish, &pem, &facts, err));
	TRY(authority_read_ca_for(server, pem, &ca, err));
	response.certificate = pem;
	response.ca = ca;
	response.identity = facts.uri;
	response.serial = facts.serial;
	response.expires_at_ms = facts.expires_ms;
	return answer_changed(server, &change, call, message_copy(&response.base), err);
}

DEFINE_WRITE_METHOD(authority_handle_issue, Holdfast__V1__IssueCertificateRequest,
		    "Operator.IssueCertificate", handle_issue)

/* Each certificate is on record: a stolen one must not push out what others have done. The connection of the
 * session has a rate of its own, so that a thief does not use up what the node needs. */
static enum status take_renewal(struct server *server, const char *node, bool is_of_session,
				struct error *err)
{
	uint64_t cost_us = server->config.authority.node_life_us / RENEWALS_PER_LIFE;
	char payer[NODE_ID_MAX + sizeof("/session")], text[CLOCK_TEXT_SIZE];

	if (cost_us > RENEWAL_COST_MAX_US)
		cost_us = RENEWAL_COST_MAX_US;
	if (cost_us < USEC_PER_SEC)
		cost_us = USEC_PER_SEC;
	(void)str_join(payer, sizeof(payer), node, is_of_session ? "/session" : "");
	if (rates_take(server->authority->renewing, payer, cost_us, RENEWALS_BURST, clock_monotonic_us()))
		return STATUS_OK;
	return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
			 "node %s renews its certificate too often: it may do so again in %s", node,
			 clock_format_duration(cost_us, text));
}

/* The node's certificate decides the identity, never a field. */
static enum status handle_renew(struct server *server, struct rpc_call *call,
				const Holdfast__V1__RenewRequest *request, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	Holdfast__V1__RenewResponse response = HOLDFAST__V1__RENEW_RESPONSE__INIT;
	cleanup_free char *pem = NULL;
	cleanup_free char *ca = NULL;
	struct node_entry *node;
	struct identity who;
	struct authority_wish wish = {.role = "node", .name = who.name, .csr = request->csr};
	struct pki_facts facts;
	bool is_of_session;

	TRY(access_check_node(server, call, &who, err));
	TRY(authority_check(server, err));
	node = state_node(&server->state, who.name);
	is_of_session = node && node->session && rpc_call_is_of_connection(call, node->session_call);
	TRY(take_renewal(server, who.name, is_of_session, err));
	TRY(authority_issue(server, &change, call, "Nodes.Renew", &wish, &pem, &facts, err));
	TRY(authority_read_ca_for(server, pem, &ca, err));
	response.ca = ca;
	response.certificate = pem;
	response.serial = facts.serial;
	response.expires_at_ms = facts.expires_ms;
	TRY(answer_changed(server, &change, call, message_copy(&response.base), err));
	rpc_call_renew_peer(call, facts.expires_ms, facts.serial);
	if (is_of_session) {
		node->certificate_expires_ms = facts.expires_ms;
		memcpy(node->session_issuer, facts.issuer, sizeof(node->session_issuer));
		memcpy(node->session_serial, facts.serial, sizeof(node->session_serial));
	}
	return STATUS_OK;
}

DEFINE_WRITE_METHOD(authority_handle_renew, Holdfast__V1__RenewRequest, "Nodes.Renew", handle_renew)

void authority_note_renewed(struct rpc_call *call, const ProtobufCMessage *response)
{
	const Holdfast__V1__RenewResponse *renewed = (const void *)response;

	if (response->descriptor == &holdfast__v1__renew_response__descriptor)
		rpc_call_renew_peer(call, renewed->expires_at_ms, renewed->serial);
}
