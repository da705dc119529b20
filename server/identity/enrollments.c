/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens of new nodes: made by an operator, used once without any identity. */

#include "identity/enrollments.h"

#include "server.h"

#include "access/access.h"
#include "access/answer.h"
#include "access/audit.h"
#include "access/caller.h"
#include "access/issuers.h"
#include "access/revocations.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/join.h"
#include "base/str.h"
#include "identity/authority.h"
#include "rpc/caller.h"
#include "rpc/enroll_line.h"
#include "state/change.h"
#include "state/keys.h"
#include "state/records.h"
#include "ticket/ticket.h"

#include <errno.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <holdfast/v1/operator.pb-c.h>
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/random.h>

#define WHAT "Nodes.Enroll"
#define NEW_LINE "an operator makes a new line: %s"

enum { TOKEN_BYTES = 32, TOKEN_SIZE = 2 * TOKEN_BYTES + 1, NAME_MAX_LEN = 63 };

typedef Holdfast__V1__StoredEnrollment Stored;

/* For whom: in requests either a node or an identity. */
struct who {
	char role[32];
	char name[NAME_MAX_LEN + 1];
	char identity[NAME_MAX_LEN + 32]; /* "node/n1" */
	char text[NAME_MAX_LEN + 32];	  /* "node n1", for messages */
	char command[NAME_MAX_LEN + 64];  /* that makes a line */
	char key[OBJECT_KEY_SIZE];
};

static bool is_node(const struct who *who)
{
	return str_eq(who->role, ENROLL_ROLE_NODE);
}

static void complete(struct who *who)
{
	(void)str_join(who->identity, sizeof(who->identity), who->role, "/", who->name);
	(void)str_join(who->text, sizeof(who->text), who->role, " ", who->name);
	(void)str_join(who->key, sizeof(who->key), PREFIX_ENROLLMENT,
		       is_node(who) ? who->name : who->identity);
	(void)str_join(who->command, sizeof(who->command),
		       is_node(who) ? "holdfast operator node enroll " : "holdfast operator cert enroll ",
		       is_node(who) ? who->name : who->identity, "");
}

static void who_stored(const Stored *stored, struct who *ret)
{
	(void)str_copy(ret->role, sizeof(ret->role),
		       stored->role[0] != '\0' ? stored->role : ENROLL_ROLE_NODE);
	(void)str_copy(ret->name, sizeof(ret->name), stored->node);
	complete(ret);
}

static enum status read_who(const char *node, const char *identity, struct who *ret, struct error *err)
{
	const char *slash = strchr(identity, '/');

	if (identity[0] == '\0') {
		if (!id_is_name(node, NAME_MAX_LEN))
			return error_set(err, STATUS_INVALID_ARGUMENT, 0,
					 "node: '%.64s' is not a node's name (A-Z a-z 0-9 _ and -, up to %d)",
					 node, NAME_MAX_LEN);
		(void)str_copy(ret->role, sizeof(ret->role), ENROLL_ROLE_NODE);
		(void)str_copy(ret->name, sizeof(ret->name), node);
	} else if (node[0] != '\0' || !slash || !id_is_name(slash + 1, NAME_MAX_LEN) ||
		   str_format(ret->role, sizeof(ret->role), "%.*s", (int)(slash - identity), identity) < 0 ||
		   is_node(ret)) {
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "identity: '%.80s' is not one without a node; expected operator/NAME, "
				 "fencer/NAME, driver/NAME or server/NAME",
				 identity);
	} else {
		(void)str_copy(ret->name, sizeof(ret->name), slash + 1);
	}
	complete(ret);
	return STATUS_OK;
}

/* --- making one --- */

static size_t count(struct server *server)
{
	struct record_entry *entry = records_from(&server->state.records, PREFIX_ENROLLMENT);
	size_t n = 0;

	for (; entry && str_starts_with(entry->key, PREFIX_ENROLLMENT); entry = records_next(entry))
		n++;
	return n;
}

static uint64_t finished_changes(struct server *server)
{
	const Holdfast__V1__StoredCa *ca = records_get(&server->state.records, KEY_CA);

	return ca ? ca->finished : 0;
}

/* A line that a certificate of the former CA made is worth as little as that one. Issuers know the new CA
 * since this server uses it. */
static uint64_t outlived_changes(struct server *server, const struct rpc_peer *maker)
{
	const Holdfast__V1__StoredCa *ca = records_get(&server->state.records, KEY_CA);
	bool is_changing = ca && ca->former[0] != '\0' && server->issuers->ca[0] != '\0';

	return finished_changes(server) + (is_changing && (!rpc_peer_has_certificate(maker) ||
							   str_eq(maker->issuer, server->issuers->ca)));
}

size_t enrollments_ending(struct server *server)
{
	struct record_entry *entry = records_from(&server->state.records, PREFIX_ENROLLMENT);
	int64_t now_ms = clock_realtime_ms();
	const Stored *stored;
	size_t n = 0;

	for (; entry && str_starts_with(entry->key, PREFIX_ENROLLMENT); entry = records_next(entry)) {
		stored = (const Stored *)entry->record.message;
		n += stored->used_at_ms == 0 && stored->expires_at_ms > now_ms &&
		     stored->ca_changes <= finished_changes(server);
	}
	return n;
}

/* Revocations find a line by its maker, its holder and its time, which is after all that they have covered.
 * A line ends with the token that made it. */
static enum status note_maker(struct server *server, const struct rpc_call *call, const struct who *who,
			      Stored *stored, struct error *err)
{
	const struct rpc_peer *peer = rpc_call_peer(call);
	struct caller caller;
	int64_t cutoff_ms;

	TRY(access_caller(server, call, &caller, err));
	cutoff_ms = MAX(revocation_cutoff_ms(server, who->identity), revocation_cutoff_of(server, peer->uri));
	stored->made_at_ms = MAX(clock_realtime_ms(), cutoff_ms + 1);
	stored->maker_uri = (char *)(uintptr_t)peer->uri;
	stored->maker_serial = (char *)(uintptr_t)peer->serial;
	stored->ca_changes = outlived_changes(server, peer);
	if (!caller.token)
		return STATUS_OK;
	stored->maker_token = caller.token->token->accessor;
	if (token_is_expired(caller.token->token, stored->expires_at_ms))
		stored->expires_at_ms = caller.token->token->expires_at_ms;
	return STATUS_OK;
}

static enum status handle_create(struct server *server, struct rpc_call *call,
				 const Holdfast__V1__CreateEnrollmentRequest *request, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	Holdfast__V1__CreateEnrollmentResponse response = HOLDFAST__V1__CREATE_ENROLLMENT_RESPONSE__INIT;
	uint64_t ttl_ms = request->ttl_ms ? request->ttl_ms : ENROLLMENT_TTL_DEFAULT_S * UINT64_C(1000);
	Stored stored = HOLDFAST__V1__STORED_ENROLLMENT__INIT;
	uint8_t anchor[RPC_TLS_SHA256_SIZE];
	uint8_t bytes[TOKEN_BYTES];
	uint8_t hash[TOKEN_HASH_SIZE];
	char token[TOKEN_SIZE];
	char maker[ACCESS_WHO_SIZE];
	struct who who;
	struct authority_wish wish = {.role = who.role,
				      .name = who.name,
				      .hosts = (const char *const *)request->hosts,
				      .n_hosts = request->n_hosts};
	enum status status;

	TRY(authority_check(server, err));
	TRY(read_who(request->node, request->identity, &who, err));
	TRY(authority_check_wish(&wish, err));
	if (ttl_ms < ENROLLMENT_TTL_MIN_S * UINT64_C(1000) || ttl_ms > ENROLLMENT_TTL_MAX_S * UINT64_C(1000))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "ttl_ms: %d seconds to 7 days",
				 ENROLLMENT_TTL_MIN_S);
	if (!rpc_tls_anchor(server->tls, anchor))
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"no certificate in %s signed the server's certificate %s: put the CA there, then: "
			"systemctl reload holdfast-server",
			server->in_use.ca, server->in_use.cert);
	if (!records_get(&server->state.records, who.key) && count(server) >= ENROLLMENTS_MAX)
		return error_set(
			err, STATUS_RESOURCE_EXHAUSTED, 0,
			"there are %d enrolments already; those that are over go with: holdfast operator "
			"gc",
			ENROLLMENTS_MAX);
	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return error_set(err, STATUS_INTERNAL, errno, "make a token");
	hex_encode(token, bytes, sizeof(bytes));
	token_hash(token, hash);
	stored.node = who.name;
	stored.role = is_node(&who) ? (char *)(uintptr_t) "" : who.role;
	stored.hosts = request->hosts;
	stored.n_hosts = request->n_hosts;
	stored.token_sha256 = (ProtobufCBinaryData){.len = sizeof(hash), .data = hash};
	stored.expires_at_ms = clock_realtime_ms() + (int64_t)ttl_ms;
	stored.who = access_who(server, call, maker);
	TRY(note_maker(server, call, &who, &stored, err));
	change_put_record(&change, who.key, &stored.base);
	audit_write(server, &change, call, "Operator.CreateEnrollment", who.text, NULL);
	response.cluster = server->config.cluster;
	response.node = who.name;
	response.role = who.role;
	response.token = token;
	response.ca_sha256 = (ProtobufCBinaryData){.len = sizeof(anchor), .data = anchor};
	response.expires_at_ms = stored.expires_at_ms;
	status = answer_changed(server, &change, call, message_copy(&response.base), err);
	OPENSSL_cleanse(token, sizeof(token));
	OPENSSL_cleanse(bytes, sizeof(bytes));
	return status;
}

DEFINE_WRITE_METHOD(enrollments_handle_create, Holdfast__V1__CreateEnrollmentRequest,
		    "Operator.CreateEnrollment", handle_create)

/* --- using it --- */

static bool is_of(const Stored *stored, const uint8_t hash[static TOKEN_HASH_SIZE])
{
	return stored->token_sha256.len == TOKEN_HASH_SIZE &&
	       CRYPTO_memcmp(stored->token_sha256.data, hash, TOKEN_HASH_SIZE) == 0;
}

/* Finds the token by its hash, so that one with a wrong name gets its own error. The token stays good. */
static const Stored *find_by_hash(struct server *server, const uint8_t hash[static TOKEN_HASH_SIZE])
{
	struct record_entry *entry = records_from(&server->state.records, PREFIX_ENROLLMENT);

	for (; entry && str_starts_with(entry->key, PREFIX_ENROLLMENT); entry = records_next(entry))
		if (is_of((const Stored *)entry->record.message, hash))
			return (const Stored *)entry->record.message;
	return NULL;
}

/* A line that was made before a revocation is worth as little as the certificates that were. */
static enum status check_revocations(struct server *server, const Stored *stored, const struct who *who,
				     struct error *err)
{
	struct rpc_peer holder = {.kind = RPC_PEER_TLS, .issued_ms = stored->made_at_ms};
	struct rpc_peer maker = holder;
	const char *revoked = NULL;
	char at[CLOCK_TEXT_SIZE];
	char key[OBJECT_KEY_SIZE];

	(void)str_format(holder.uri, sizeof(holder.uri), "holdfast://%s/%s", server->config.cluster,
			 who->identity);
	(void)str_copy(maker.uri, sizeof(maker.uri), stored->maker_uri);
	(void)str_copy(maker.serial, sizeof(maker.serial), stored->maker_serial);
	token_key(stored->maker_token, key);
	if (revocation_check(server, &holder, NULL) != STATUS_OK)
		revoked = is_node(who) ? "the node's certificates were" : "its certificates were";
	else if (revocation_check(server, &maker, NULL) != STATUS_OK)
		revoked = "the certificate of the operator who made it was";
	else if (stored->maker_token[0] != '\0' && !records_get(&server->state.records, key))
		revoked = "the token with which it was made was";
	return revoked ? error_set(err, STATUS_PERMISSION_DENIED, 0,
				   "the enrolment line of %s was made at %s, before %s revoked; " NEW_LINE,
				   who->text, clock_format(stored->made_at_ms, at), revoked, who->command)
		       : STATUS_OK;
}

/* The answer may have been lost. */
static bool is_repeat(const Stored *stored, const uint8_t key_sha256[static PKI_KEY_DIGEST_SIZE])
{
	return stored->certificate[0] != '\0' && stored->key_sha256.len == PKI_KEY_DIGEST_SIZE &&
	       memcmp(stored->key_sha256.data, key_sha256, PKI_KEY_DIGEST_SIZE) == 0;
}

static enum status check_token(struct server *server, const Holdfast__V1__EnrollRequest *request,
			       const struct who *asked, uint8_t ret_key_sha256[static PKI_KEY_DIGEST_SIZE],
			       const Stored **ret, struct error *err)
{
	uint8_t hash[TOKEN_HASH_SIZE];
	char at[CLOCK_TEXT_SIZE];
	const Stored *stored;
	struct who who;

	token_hash(request->token, hash);
	stored = find_by_hash(server, hash);
	if (!stored)
		return error_set(err, STATUS_UNAUTHENTICATED, 0,
				 "the enrolment token is unknown to cluster %s, or a newer line for %s or a "
				 "restore has ended it; " NEW_LINE,
				 server->config.cluster, asked->text, asked->command);
	who_stored(stored, &who);
	if (!str_eq(who.identity, asked->identity))
		return error_set(err, STATUS_PERMISSION_DENIED, 0,
				 "the enrolment token is for %s, not for %s; " NEW_LINE, who.text,
				 is_node(asked) ? asked->name : asked->identity, asked->command);
	TRY(pki_request_digest(request->csr, ret_key_sha256, err));
	if (stored->used_at_ms != 0 && !is_repeat(stored, ret_key_sha256))
		return error_set(
			err, STATUS_PERMISSION_DENIED, 0,
			"the enrolment token of %s was used at %s from %s, and is good once; if that "
			"was not this machine: holdfast operator cert revoke %s; " NEW_LINE,
			who.text, clock_format(stored->used_at_ms, at), stored->used_from, who.identity,
			who.command);
	if (stored->expires_at_ms <= clock_realtime_ms())
		return error_set(err, STATUS_PERMISSION_DENIED, 0,
				 "the enrolment token of %s expired at %s; " NEW_LINE, who.text,
				 clock_format(stored->expires_at_ms, at), who.command);
	if (stored->ca_changes < finished_changes(server))
		return error_set(err, STATUS_PERMISSION_DENIED, 0,
				 "the enrolment line of %s was made at %s, before a change of the CA was "
				 "finished; " NEW_LINE,
				 who.text, clock_format(stored->made_at_ms, at), who.command);
	TRY(check_revocations(server, stored, &who, err));
	*ret = stored;
	return STATUS_OK;
}

/* A certificate on its way to the disk. */
struct enrolling {
	struct rpc_call *call;
	size_t slot; /* of its address */
	ProtobufCMessage *response;
};

static void on_enrolled(struct server *server, void *userdata)
{
	cleanup_free struct enrolling *enrolling = userdata;

	if (server->authority)
		authority_enrolling(server)->entries[enrolling->slot].is_busy = false;
	rpc_call_reply(enrolling->call, enrolling->response);
	protobuf_c_message_free_unpacked(enrolling->response, NULL);
}

static enum status answer(struct server *server, struct change *change, struct rpc_call *call, size_t slot,
			  const Holdfast__V1__EnrollResponse *response, struct error *err)
{
	struct enrolling *enrolling = calloc(1, sizeof(*enrolling));
	enum status status;

	if (!enrolling)
		return error_no_memory(err, "an answer");
	*enrolling =
		(struct enrolling){.call = call, .slot = slot, .response = message_copy(&response->base)};
	status = enrolling->response ? change_commit(server, change, on_enrolled, enrolling, err)
				     : error_no_memory(err, "an answer");
	if (status == STATUS_OK) {
		authority_enrolling(server)->entries[slot].is_busy = true;
		return STATUS_OK;
	}
	protobuf_c_message_free_unpacked(enrolling->response, NULL);
	free(enrolling);
	return status;
}

static void host_of(const struct rpc_call *call, char ret[static RPC_ADDRESS_SIZE])
{
	char *colon;

	(void)str_copy(ret, RPC_ADDRESS_SIZE, rpc_call_peer(call)->address);
	colon = strrchr(ret, ':');
	if (colon)
		*colon = '\0';
}

/* The same certificate again for the same key; else a new one, and the line is used. */
static enum status issue(struct server *server, struct change *change, struct rpc_call *call,
			 const Holdfast__V1__EnrollRequest *request, const Stored *stored,
			 uint8_t key_sha256[static PKI_KEY_DIGEST_SIZE], char *host, char **ret_pem,
			 struct pki_facts *ret_facts, struct error *err)
{
	char object[AUDIT_OBJECT_SIZE];
	struct who who;
	const struct authority_wish wish = {.role = who.role,
					    .name = who.name,
					    .csr = request->csr,
					    .hosts = (const char *const *)stored->hosts,
					    .n_hosts = stored->n_hosts};
	Stored used = *stored;

	who_stored(stored, &who);

	if (stored->used_at_ms != 0) {
		*ret_pem = strdup(stored->certificate);
		if (!*ret_pem)
			return error_no_memory(err, "a certificate");
		TRY(pki_pem_facts(*ret_pem, ret_facts, err));
		(void)str_format(object, sizeof(object), "certificate %s of %s", ret_facts->serial,
				 who.identity);
		audit_write(server, change, call, WHAT, object, "again, for the same key");
		return STATUS_OK;
	}
	TRY(authority_issue(server, change, call, WHAT, &wish, ret_pem, ret_facts, err));
	used.used_at_ms = clock_realtime_ms();
	used.used_from = host;
	used.certificate = *ret_pem;
	used.key_sha256 = (ProtobufCBinaryData){.len = PKI_KEY_DIGEST_SIZE, .data = key_sha256};
	change_put_record(change, who.key, &used.base);
	return STATUS_OK;
}

static enum status handle_enroll(struct server *server, struct rpc_call *call,
				 const Holdfast__V1__EnrollRequest *request, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	Holdfast__V1__EnrollResponse response = HOLDFAST__V1__ENROLL_RESPONSE__INIT;
	uint8_t ticket_key[TICKET_KEY_SIZE];
	ProtobufCBinaryData keys[1] = {{.len = sizeof(ticket_key), .data = ticket_key}};
	cleanup_free char *pem = NULL;
	cleanup_free char *ca = NULL;
	const Stored *stored = NULL;
	char host[RPC_ADDRESS_SIZE];
	char origin[RPC_ADDRESS_SIZE];
	uint8_t key_sha256[PKI_KEY_DIGEST_SIZE];
	struct pki_facts facts;
	struct who who;
	size_t slot = 0;

	TRY(authority_check(server, err));
	host_of(call, host);
	caller_origin(rpc_call_peer(call), origin);
	TRY(caller_rates_take(authority_enrolling(server), origin, clock_monotonic_us(), &slot, err));
	TRY(read_who(request->node, request->identity, &who, err));
	TRY(check_token(server, request, &who, key_sha256, &stored, err));
	TRY(issue(server, &change, call, request, stored, key_sha256, host, &pem, &facts, err));
	TRY(authority_read_ca_for(server, pem, &ca, err));
	ticket_issuer_public_key(server->issuer, ticket_key);
	response.certificate = pem;
	response.ca = ca;
	response.identity = facts.uri;
	response.serial = facts.serial;
	response.expires_at_ms = facts.expires_ms;
	response.ticket_keys = keys;
	response.n_ticket_keys = 1;
	return answer(server, &change, call, slot, &response, err);
}

DEFINE_WRITE_METHOD(enrollments_handle_enroll, Holdfast__V1__EnrollRequest, WHAT, handle_enroll)
