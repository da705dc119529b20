/* SPDX-License-Identifier: Apache-2.0 */
/* The list of revoked certificates, and the end of the calls that they made. */

#include "access/revocations.h"

#include "server.h"

#include "access/answer.h"
#include "access/audit.h"
#include "access/caller.h"
#include "access/issuers.h"
#include "access/record_list.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/join.h"
#include "base/str.h"
#include "log/log.h"
#include "rpc/pki.h"
#include "state/keys.h"
#include "state/records.h"

#include <ctype.h>
#include <holdfast/v1/operator.pb-c.h>
#include <string.h>

#define WHAT "Operator.RevokeCertificate"
#define DRIVER "driver/"
#define PREFIX_SERIAL PREFIX_REVOCATION "serial/"
#define PREFIX_IDENTITY PREFIX_REVOCATION "id/"

typedef Holdfast__V1__Revocation Revocation;

/* --- the check --- */

/* "node/NAME" of "holdfast://CLUSTER/node/NAME"; NULL for another cluster's. */
static const char *identity_of(const struct server *server, const char *uri)
{
	char begin[RPC_URI_SIZE];

	if (str_format(begin, sizeof(begin), "holdfast://%s/", server->config.cluster) < 0 ||
	    !str_starts_with(uri, begin))
		return NULL;
	return uri + strlen(begin);
}

static const Revocation *find(struct server *server, const char *prefix, const char *name)
{
	char key[OBJECT_KEY_SIZE];

	if (!name || name[0] == '\0' || str_join(key, sizeof(key), prefix, name) < 0)
		return NULL;
	return records_get(&server->state.records, key);
}

int64_t revocation_cutoff_ms(struct server *server, const char *identity)
{
	const Revocation *found = find(server, PREFIX_IDENTITY, identity);

	if (!found)
		return 0;
	return found->covers_until_ms > 0 ? found->covers_until_ms : found->revoked_at_ms;
}

int64_t revocation_cutoff_of(struct server *server, const char *uri)
{
	return revocation_cutoff_ms(server, identity_of(server, uri));
}

enum status revocation_check(struct server *server, const struct rpc_peer *peer, struct error *err)
{
	const char *identity = identity_of(server, peer->uri);
	const Revocation *found = find(server, PREFIX_IDENTITY, identity);
	const char *serial = peer->serial[0] != '\0' ? peer->serial : "(serial not known)";
	char at[CLOCK_TEXT_SIZE];

	if (!found || peer->issued_ms > revocation_cutoff_ms(server, identity))
		found = find(server, PREFIX_SERIAL, peer->serial);
	if (!found)
		found = find(server, PREFIX_SERIAL, peer->renewed_serial);
	if (!found)
		return STATUS_OK;
	if (found->serial[0] != '\0')
		serial = found->serial;
	return error_set(
		err, STATUS_UNAUTHENTICATED, 0,
		"certificate %s of %s was revoked at %s by %s%s%s; another certificate is needed, of "
		"this server or made 5 minutes later (for an operator: holdfast operator cert "
		"revoked)",
		serial, identity ? identity : peer->uri, clock_format(found->revoked_at_ms, at), found->who,
		found->reason[0] != '\0' ? ": " : "", found->reason);
}

enum status revocation_check_own(struct server *server, struct error *err)
{
	struct rpc_peer own = {.kind = RPC_PEER_TLS, .issued_ms = server->own.issued_ms};

	memcpy(own.uri, server->own.uri, sizeof(own.uri));
	memcpy(own.serial, server->own.serial, sizeof(own.serial));
	return revocation_check(server, &own, err);
}

/* The node whose session has the connection of @call; NULL: not a session's connection. */
static const struct node_entry *node_of_connection(struct server *server, const struct rpc_call *call)
{
	const struct node_entry *node;
	struct identity who;

	if (access_node(rpc_call_peer(call), server->config.cluster, &who, NULL) != STATUS_OK)
		return NULL;
	node = state_node(&server->state, who.name);
	return node && node->session && rpc_call_is_of_connection(call, node->session_call) ? node : NULL;
}

/* A node that renewed over the connection of its session keeps that. A server that follows does not know;
 * the leader checks the calls of nodes. */
static enum status check_issuer(struct server *server, const struct rpc_peer *peer,
				const struct node_entry *node, struct error *err)
{
	struct identity who;

	if ((node && str_eq(node->session_issuer, server->issuers->only)) ||
	    (!server->is_serving && access_node(peer, server->config.cluster, &who, NULL) == STATUS_OK))
		return STATUS_OK;
	return issuers_check(server->issuers, peer, err);
}

enum status revocation_check_call(struct server *server, const struct rpc_call *call, struct error *err)
{
	const struct node_entry *node = node_of_connection(server, call);
	struct rpc_peer peer = *rpc_call_peer(call);

	/* a follower's call for the session does not know that it was renewed */
	if (node && node->session_serial[0] != '\0')
		memcpy(peer.renewed_serial, node->session_serial, sizeof(peer.renewed_serial));
	TRY(revocation_check(server, &peer, err));
	return check_issuer(server, &peer, node, err);
}

/* --- the end of calls --- */

/* A follower that took the renewal knows; the calls that it had handed on before do not. */
static bool has_renewed(struct server *server, const struct rpc_call *call)
{
	const struct node_entry *node =
		rpc_call_vouching_peer(call) ? node_of_connection(server, call) : NULL;

	return node && node->certificate_expires_ms > clock_realtime_ms();
}

static enum status check_certificate_end(struct server *server, const struct rpc_call *call,
					 struct error *err)
{
	return has_renewed(server, call) ? STATUS_OK : access_check_end(rpc_call_peer(call), err);
}

/* A server that follows may not have a new token yet: tokens are the leader's to check. */
static enum status check_end(const struct rpc_call *call, void *userdata, struct error *err)
{
	struct server *server = userdata;
	struct caller caller;
	enum status status;

	if (!rpc_call_token(call))
		return check_certificate_end(server, call, err);
	if (!server->is_serving)
		return STATUS_OK;
	status = access_caller(server, call, &caller, err);
	return status == STATUS_UNAUTHENTICATED ? status : STATUS_OK;
}

static enum status may_continue(const struct rpc_call *call, void *userdata, struct error *err)
{
	struct server *server = userdata;
	const struct rpc_peer *vouching = rpc_call_vouching_peer(call);

	TRY(revocation_check_call(server, call, err));
	if (vouching) /* its stream may be older than its renewal: further calls come over a new connection */
		TRY(revocation_check(server, vouching, err));
	TRY(check_end(call, userdata, err));
	return rpc_call_token(call) ? server->check_open(server, call, err) : STATUS_OK;
}

void revocations_end(struct server *server)
{
	if (server->rpc)
		rpc_server_review(server->rpc, may_continue);
}

void revocations_end_expired(struct server *server)
{
	if (server->rpc)
		rpc_server_review(server->rpc, check_end);
}

static int on_review(sd_event_source *source, void *userdata)
{
	struct server *server = userdata;
	struct error err;

	revocations_end(server);
	if (server->lead && revocation_check_own(server, &err) != STATUS_OK)
		server_end(server, &err); /* the others serve */
	return 0;
}

/* In the next turn, once for all changes of this one. */
static void review_soon(struct server *server)
{
	int r = server->review ? sd_event_source_set_enabled(server->review, SD_EVENT_ONESHOT)
			       : sd_event_add_defer(server->event, &server->review, on_review, server);

	if (r < 0)
		log_line(LOG_ERR, "cannot end the calls of a revoked certificate or token, or of a changed "
				  "policy; restart holdfast-server to end them");
}

static bool ends_calls(const char *key, bool is_deletion)
{
	return str_starts_with(key, PREFIX_POLICY) ||
	       str_starts_with(key, is_deletion ? PREFIX_TOKEN : PREFIX_REVOCATION);
}

void revocations_note_durable(struct server *server, struct change_object *objects, size_t n,
			      uint64_t revision)
{
	for (size_t i = 0; i < n; i++)
		if (objects[i].kind == OBJECT_RECORD && ends_calls(objects[i].key, objects[i].is_deletion)) {
			review_soon(server);
			return;
		}
}

void revocations_note_followed(struct server *server, const struct kv_item *item)
{
	if (ends_calls(item->key, false))
		review_soon(server);
}

/* --- the methods --- */

size_t revocations_count(struct server *server)
{
	struct record_entry *entry = records_from(&server->state.records, PREFIX_REVOCATION);
	size_t n = 0;

	for (; entry && str_starts_with(entry->key, PREFIX_REVOCATION); entry = records_next(entry))
		n++;
	return n;
}

bool revocations_warning(struct server *server, char ret[static REVOCATIONS_WARNING_SIZE])
{
	size_t n = revocations_count(server);

	if (n < REVOCATIONS_WARN)
		return false;
	(void)str_format(
		ret, REVOCATIONS_WARNING_SIZE,
		"the list of revoked certificates has %zu of %d entries; %s. Entries end with their "
		"certificates (holdfast operator gc), and all that are older than a new CA once that "
		"is the only one: holdfast operator ca begin, and later: holdfast operator ca finish",
		n, REVOCATIONS_MAX,
		n < REVOCATIONS_MAX ? "a full list takes no revocation" : "it takes no revocation");
	return true;
}

/* @n_staged: revocations that are in @change already. */
static enum status stage(struct server *server, struct change *change, size_t n_staged, const char *key,
			 const Revocation *revocation, struct error *err)
{
	if (!records_get(&server->state.records, key) &&
	    revocations_count(server) + n_staged >= REVOCATIONS_MAX)
		return error_set(
			err, STATUS_RESOURCE_EXHAUSTED, 0,
			"%d certificates and identities are revoked already; an entry ends with its "
			"certificate (holdfast operator gc), and all that are older than a new CA once "
			"that is the only one: holdfast operator ca begin",
			REVOCATIONS_MAX);
	change_put_record(change, key, &revocation->base);
	return STATUS_OK;
}

/* Dates a revocation, of @identity or, if that is NULL, of one certificate. It covers no less than an earlier
 * one: the clock may have been set back. */
static void cover(struct server *server, const char *identity, Revocation *revocation)
{
	revocation->revoked_at_ms = clock_realtime_ms();
	if (!identity)
		return;
	revocation->covers_until_ms = revocation->revoked_at_ms + PKI_AHEAD_MS;
	if (revocation->covers_until_ms < revocation_cutoff_ms(server, identity))
		revocation->covers_until_ms = revocation_cutoff_ms(server, identity);
}

enum status revocation_stage(struct server *server, struct change *change, const struct rpc_call *call,
			     const char *identity, const char *reason, struct error *err)
{
	Revocation revocation = HOLDFAST__V1__REVOCATION__INIT;
	char name[OBJECT_KEY_SIZE];
	char text[REVOCATION_REASON_MAX + 1];
	char key[OBJECT_KEY_SIZE];
	char who[ACCESS_WHO_SIZE];

	(void)str_copy(name, sizeof(name), identity);
	str_copy_text(text, sizeof(text), reason);
	(void)str_join(key, sizeof(key), PREFIX_IDENTITY, name);
	revocation.identity = name;
	revocation.reason = text;
	revocation.who = access_who(server, call, who);
	cover(server, name, &revocation);
	revocation.ends_at_ms = server->trust_ends_at_ms;
	return stage(server, change, 0, key, &revocation, err);
}

static enum status invalid(struct error *err, const char *why)
{
	return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s", why);
}

/* Upper case without colons and leading zero bytes, as in struct rpc_peer. */
static enum status read_serial(const char *given, char ret[static RPC_SERIAL_SIZE], struct error *err)
{
	char digits[2 * RPC_SERIAL_SIZE];
	const char *first = digits;
	size_t n = 0;

	for (const char *c = given; *c != '\0' && n < sizeof(digits) - 2; c++)
		if (*c != ':')
			digits[n++] = (char)toupper((unsigned char)*c);
	digits[n] = '\0';
	if (n == 0 || strspn(digits, "0123456789ABCDEF") != n)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "serial: '%.64s' is not one; see: openssl x509 -noout -serial -in CERT.pem",
				 given);
	while (n > 2 && first[0] == '0' && first[1] == '0') {
		first += 2;
		n -= 2;
	}
	if (str_format(ret, RPC_SERIAL_SIZE, "%s%s", n % 2 ? "0" : "", first) < 0)
		return invalid(err, "serial: longer than the 20 bytes that a certificate may have");
	return STATUS_OK;
}

/* The identity as it is in certificates. */
static enum status check_identity(const struct server *server, const char *identity, struct error *err)
{
	char uri[RPC_URI_SIZE];
	struct identity parsed;

	if (str_starts_with(identity, DRIVER) && id_is_name(identity + strlen(DRIVER), NODE_ID_MAX))
		return STATUS_OK; /* has certificates, and calls no server */
	if (str_format(uri, sizeof(uri), "holdfast://%s/%s", server->config.cluster, identity) < 0 ||
	    identity_parse(uri, server->config.cluster, &parsed, NULL) != STATUS_OK)
		return error_set(
			err, STATUS_INVALID_ARGUMENT, 0,
			"identity: '%.80s' is not one; expected node/NAME, operator/NAME, server/NAME, "
			"fencer/NAME or driver/NAME",
			identity);
	return STATUS_OK;
}

/* "ROLE/NAME", or the URI of a certificate, which must be of this cluster. @ret: borrowed from @given. */
static enum status read_identity(const struct server *server, const char *given, const char **ret,
				 struct error *err)
{
	*ret = strstr(given, "://") ? identity_of(server, given) : given;
	if (!*ret)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "identity: '%.200s' is not of cluster %s",
				 given, server->config.cluster);
	return check_identity(server, *ret, err);
}

/* The server that answers would serve no longer. */
static enum status check_not_own(const struct server *server, const char *identity, const char *serial,
				 struct error *err)
{
	const char *name = identity_of(server, server->own.uri);

	if ((serial[0] == '\0' || !str_eq(serial, server->own.serial)) &&
	    (identity[0] == '\0' || !name || !str_eq(identity, name)))
		return STATUS_OK;
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "this server serves with that certificate: give it another first (holdfast operator "
			 "cert server, systemctl reload holdfast-server), then revoke the old one by its "
			 "serial; with several servers, stop it or have another one lead (holdfast operator "
			 "step-down)");
}

/* A node gets further certificates with each, over any connection, and no record shows with which. */
static bool is_renewed(const char *identity)
{
	return str_starts_with(identity, "node/");
}

/* Dates and stages @revocation: of the certificate @serial or, if that is empty, of its identity. @change has
 * only revocations. */
static enum status stage_one(struct server *server, struct change *change, Revocation *revocation,
			     char *serial, int64_t ends_at_ms, struct error *err)
{
	const char *identity = serial[0] == '\0' ? revocation->identity : NULL;
	char key[OBJECT_KEY_SIZE];

	(void)str_join(key, sizeof(key), identity ? PREFIX_IDENTITY : PREFIX_SERIAL,
		       identity ? identity : serial);
	revocation->serial = serial;
	revocation->ends_at_ms = ends_at_ms > 0 ? ends_at_ms : server->trust_ends_at_ms;
	cover(server, identity, revocation);
	return stage(server, change, change->n, key, revocation, err);
}

static enum status handle_revoke(struct server *server, struct rpc_call *call,
				 const Holdfast__V1__RevokeCertificateRequest *request, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	Holdfast__V1__RevokeCertificateResponse response = HOLDFAST__V1__REVOKE_CERTIFICATE_RESPONSE__INIT;
	Revocation revocation = HOLDFAST__V1__REVOCATION__INIT;
	char serial[RPC_SERIAL_SIZE] = "", all[] = "";
	char reason[REVOCATION_REASON_MAX + 1];
	const char *identity = request->identity;
	char object[AUDIT_OBJECT_SIZE];
	char who[ACCESS_WHO_SIZE];

	if (request->serial[0] == '\0' && request->identity[0] == '\0')
		return invalid(err, "serial, identity: one of them is wanted");
	if (request->serial[0] != '\0')
		TRY(read_serial(request->serial, serial, err));
	if (request->identity[0] != '\0')
		TRY(read_identity(server, request->identity, &identity, err));
	TRY(check_not_own(server, serial[0] != '\0' ? "" : identity, serial, err));
	if (request->ends_at_ms < 0)
		return invalid(err, "ends_at_ms: 0 or a time since 1970 is wanted");
	str_copy_text(reason, sizeof(reason), request->reason);
	revocation.identity = (char *)(uintptr_t)identity;
	revocation.reason = reason;
	revocation.who = access_who(server, call, who);
	if (serial[0] != '\0') /* that of a node, too: it may become valid later */
		TRY(stage_one(server, &change, &revocation, serial, request->ends_at_ms, err));
	if (serial[0] == '\0' || is_renewed(identity))
		TRY(stage_one(server, &change, &revocation, all, 0, err));
	(void)str_format(object, sizeof(object), "%s %s",
			 revocation.serial[0] != '\0' ? "certificate" : "certificates of",
			 revocation.serial[0] != '\0' ? serial : identity);
	audit_write(server, &change, call, WHAT, object, reason);
	response.revocation = &revocation;
	return answer_changed(server, &change, call, message_copy(&response.base), err);
}

DEFINE_WRITE_METHOD(revocations_handle_revoke, Holdfast__V1__RevokeCertificateRequest, WHAT, handle_revoke)

static const struct record_list list = {.prefix = PREFIX_REVOCATION,
					.response = &holdfast__v1__list_revocations_response__descriptor};
DEFINE_RECORD_LIST(revocations_handle_list, list)
