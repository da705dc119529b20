/* SPDX-License-Identifier: Apache-2.0 */
#include "access/tokens.h"

#include "server.h"

#include "access/access.h"
#include "access/answer.h"
#include "access/audit.h"
#include "access/caller.h"
#include "access/networks.h"
#include "access/record_list.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/str.h"
#include "state/change.h"
#include "state/keys.h"
#include "state/records.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define DAY_MS INT64_C(86400000)
#define SECRET_PREFIX "hf_"

typedef Holdfast__V1__Token Token;
typedef Holdfast__V1__StoredToken StoredToken;

/* --- walks --- */

static const StoredToken *token_of(const struct record_entry *entry)
{
	return entry && str_starts_with(entry->key, PREFIX_TOKEN) ? (const StoredToken *)entry->record.message
								  : NULL;
}

const Token *tokens_with_policy(struct server *server, const char *policy)
{
	struct record_entry *entry = records_from(&server->state.records, PREFIX_TOKEN);
	int64_t now_ms = clock_realtime_ms();
	const StoredToken *stored;

	for (; (stored = token_of(entry)); entry = records_next(entry))
		for (size_t i = 0; i < stored->token->n_policies; i++)
			if (str_eq(stored->token->policies[i], policy) &&
			    !token_is_expired(stored->token, now_ms))
				return stored->token;
	return NULL;
}

static const Token *find_management(struct server *server)
{
	struct record_entry *entry = records_from(&server->state.records, PREFIX_TOKEN);
	int64_t now_ms = clock_realtime_ms();
	const StoredToken *stored;

	for (; (stored = token_of(entry)); entry = records_next(entry))
		if (stored->token->type == HOLDFAST__V1__TOKEN_TYPE__MANAGEMENT &&
		    !token_is_expired(stored->token, now_ms))
			return stored->token;
	return NULL;
}

static bool ends_soon(const Token *token, int64_t now_ms)
{
	int64_t warn_ms = (token->expires_at_ms - token->create_time_ms) / 4;

	if (warn_ms > TOKENS_WARN_DAYS * DAY_MS)
		warn_ms = TOKENS_WARN_DAYS * DAY_MS;
	return token->expires_at_ms != 0 && !token_is_expired(token, now_ms) &&
	       token->expires_at_ms - now_ms < warn_ms;
}

bool tokens_warning(struct server *server, char ret[static TOKENS_WARNING_SIZE])
{
	struct record_entry *entry = records_from(&server->state.records, PREFIX_TOKEN);
	int64_t now_ms = clock_realtime_ms();
	const Token *first = NULL;
	const StoredToken *stored;
	char at[CLOCK_TEXT_SIZE];
	size_t n = 0;

	for (; (stored = token_of(entry)); entry = records_next(entry))
		if (ends_soon(stored->token, now_ms)) {
			n++;
			if (!first || stored->token->expires_at_ms < first->expires_at_ms)
				first = stored->token;
		}
	if (!first)
		return false;
	(void)str_format(
		ret, TOKENS_WARNING_SIZE,
		"tokens that end within %d days: %zu, the first is %s (%s) at %s; make the next one before "
		"(holdfast operator token create), and put it in its place",
		TOKENS_WARN_DAYS, n, first->accessor, first->name, clock_format(first->expires_at_ms, at));
	return true;
}

/* --- making one --- */

static enum status invalid(struct error *err, const char *why)
{
	return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s", why);
}

static enum status check_policies(struct server *server, const Token *token, struct error *err)
{
	char key[OBJECT_KEY_SIZE];

	if (token->n_policies > TOKEN_POLICIES_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "policies: more than %d",
				 TOKEN_POLICIES_MAX);
	if (token->type == HOLDFAST__V1__TOKEN_TYPE__MANAGEMENT && token->n_policies > 0)
		return invalid(err, "policies: a management token may do everything and has no policies");
	for (size_t i = 0; i < token->n_policies; i++) {
		const char *name = token->policies[i];

		if (!id_is_name(name, POLICY_NAME_MAX))
			return error_set(err, STATUS_INVALID_ARGUMENT, 0,
					 "policies: '%.64s' is not a policy's name", name);
		(void)str_format(key, sizeof(key), PREFIX_POLICY "%s", name);
		if (!records_get(&server->state.records, key))
			return error_set(
				err, STATUS_NOT_FOUND, 0,
				"policies: there is no policy %s; see: holdfast operator policy list", name);
	}
	return STATUS_OK;
}

static enum status check_token(struct server *server, const Token *token, struct error *err)
{
	if (!token)
		return invalid(err, "token: missing");
	if (token->accessor[0] != '\0' || token->secret[0] != '\0')
		return invalid(err, "accessor, secret: the server chooses them; leave them out");
	if (!id_is_name(token->name, TOKEN_NAME_MAX))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "name: '%.64s' is not a token's name (A-Z a-z 0-9 _ and -, up to %d)",
				 token->name, TOKEN_NAME_MAX);
	if (token->type != HOLDFAST__V1__TOKEN_TYPE__CLIENT &&
	    token->type != HOLDFAST__V1__TOKEN_TYPE__MANAGEMENT)
		return invalid(err, "type: CLIENT or MANAGEMENT is wanted");
	if (token->node[0] != '\0' && token->type == HOLDFAST__V1__TOKEN_TYPE__MANAGEMENT)
		return invalid(err, "node: a management token may do everything and is not bound to a node");
	if (token->node[0] != '\0' && !id_is_name(token->node, NODE_ID_MAX))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "node: '%.64s' is not a node's name (A-Z a-z 0-9 _ and -, up to %d)",
				 token->node, NODE_ID_MAX);
	if (token->expires_at_ms != 0 && token->expires_at_ms <= clock_realtime_ms())
		return invalid(err, "expires_at_ms: lies in the past");
	if (token->namespace_[0] != '\0' && token->type == HOLDFAST__V1__TOKEN_TYPE__MANAGEMENT)
		return invalid(err, "namespace: a management token may do everything: leave it out");
	if (token->namespace_[0] != '\0' && !id_is_name(token->namespace_, NAMESPACE_MAX))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "namespace: '%.64s' is not a namespace's name", token->namespace_);
	TRY(networks_check(token->cidrs, token->n_cidrs, err));
	return check_policies(server, token, err);
}

struct created {
	struct rpc_call *call;
	bool is_bootstrap;
	char accessor[UUID_SIZE];
	char secret[TOKEN_SECRET_SIZE];
};

static Token shown(const struct record_entry *entry)
{
	Token token = *token_of(entry)->token;

	token.create_index = entry->record.create_index;
	token.modify_index = entry->record.modify_index;
	return token;
}

static void on_created(struct server *server, void *userdata)
{
	cleanup_free struct created *created = userdata;
	Holdfast__V1__BootstrapTokenResponse bootstrap = HOLDFAST__V1__BOOTSTRAP_TOKEN_RESPONSE__INIT;
	Holdfast__V1__CreateTokenResponse create = HOLDFAST__V1__CREATE_TOKEN_RESPONSE__INIT;
	struct record_entry *entry;
	char key[OBJECT_KEY_SIZE];
	Token token;

	token_key(created->accessor, key);
	entry = records_entry(&server->state.records, key);
	if (entry) {
		token = shown(entry);
		token.secret = created->secret;
		bootstrap.token = create.token = &token;
		rpc_call_reply(created->call, created->is_bootstrap ? &bootstrap.base : &create.base);
	} else {
		answer_error(created->call, STATUS_ABORTED, "the token was revoked meanwhile");
	}
	OPENSSL_cleanse(created->secret, sizeof(created->secret));
}

static enum status make_secret(char ret[static TOKEN_SECRET_SIZE], struct error *err)
{
	uint8_t bytes[TOKEN_SECRET_BYTES];

	if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
		return error_set(err, STATUS_INTERNAL, errno, "make a secret");
	(void)str_copy(ret, TOKEN_SECRET_SIZE, SECRET_PREFIX);
	hex_encode(ret + strlen(SECRET_PREFIX), bytes, sizeof(bytes));
	OPENSSL_cleanse(bytes, sizeof(bytes));
	return STATUS_OK;
}

static enum status fill_created(struct created *created, struct error *err)
{
	int r = uuid_new(created->accessor);

	return r < 0 ? error_set(err, status_from_errno(r), r, "make an accessor")
		     : make_secret(created->secret, err);
}

static void stage_token(struct server *server, struct change *change, const Token *wanted,
			struct created *created, const char *what)
{
	StoredToken stored = HOLDFAST__V1__STORED_TOKEN__INIT;
	Token token = HOLDFAST__V1__TOKEN__INIT;
	uint8_t hash[TOKEN_HASH_SIZE];
	char key[OBJECT_KEY_SIZE];
	char object[AUDIT_OBJECT_SIZE];

	token.accessor = created->accessor;
	token.name = wanted->name;
	token.type = wanted->type;
	token.policies = wanted->policies;
	token.n_policies = wanted->n_policies;
	token.expires_at_ms = wanted->expires_at_ms;
	token.node = wanted->node;
	token.namespace_ = wanted->namespace_;
	token.cidrs = wanted->cidrs;
	token.n_cidrs = wanted->n_cidrs;
	token.create_time_ms = clock_realtime_ms();
	token_hash(created->secret, hash);
	stored.token = &token;
	stored.secret_sha256 = (ProtobufCBinaryData){.len = sizeof(hash), .data = hash};
	token_key(token.accessor, key);
	change_put_record(change, key, &stored.base);
	(void)str_format(object, sizeof(object), "token %s (%s)", token.accessor, token.name);
	audit_write(server, change, created->call, what, object,
		    token.type == HOLDFAST__V1__TOKEN_TYPE__MANAGEMENT ? "management" : "client");
}

static enum status make_token(struct server *server, struct rpc_call *call, const Token *wanted,
			      bool is_bootstrap, const char *what, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct created *created;
	enum status status;

	if (server->state.records.tokens.n >= TOKENS_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "there are %d tokens already; remove the expired ones (holdfast operator "
				 "gc), or revoke some: holdfast operator token revoke",
				 TOKENS_MAX);
	created = calloc(1, sizeof(*created));
	if (!created)
		return error_no_memory(err, "a token");
	created->call = call;
	created->is_bootstrap = is_bootstrap;
	status = fill_created(created, err);
	if (status != STATUS_OK) {
		free(created);
		return status;
	}
	stage_token(server, &change, wanted, created, what);
	return change_commit_taking(server, &change, on_created, created, err);
}

static enum status handle_bootstrap(struct server *server, struct rpc_call *call,
				    const Holdfast__V1__BootstrapTokenRequest *request, struct error *err)
{
	char name[] = "bootstrap";
	Token token = HOLDFAST__V1__TOKEN__INIT;
	const Token *existing;

	existing = find_management(server);
	if (existing)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "there is a management token already: %s (%s); an operator's certificate or "
				 "that token makes more: holdfast operator token create --management NAME",
				 existing->accessor, existing->name);
	token.name = name;
	token.type = HOLDFAST__V1__TOKEN_TYPE__MANAGEMENT;
	return make_token(server, call, &token, true, "Operator.BootstrapToken", err);
}

DEFINE_WRITE_METHOD(tokens_handle_bootstrap, Holdfast__V1__BootstrapTokenRequest, "Operator.BootstrapToken",
		    handle_bootstrap)

static enum status handle_create(struct server *server, struct rpc_call *call,
				 const Holdfast__V1__CreateTokenRequest *request, struct error *err)
{
	TRY(check_token(server, request->token, err));
	if (request->endless && request->token->expires_at_ms != 0)
		return invalid(err, "endless: expires_at_ms is given too");
	if (!request->endless && request->token->expires_at_ms == 0)
		request->token->expires_at_ms = clock_realtime_ms() + TOKEN_LIFE_DEFAULT_DAYS * DAY_MS;
	return make_token(server, call, request->token, false, "Operator.CreateToken", err);
}

DEFINE_WRITE_METHOD(tokens_handle_create, Holdfast__V1__CreateTokenRequest, "Operator.CreateToken",
		    handle_create)

/* --- the others --- */

static enum status handle_revoke(struct server *server, struct rpc_call *call,
				 const Holdfast__V1__RevokeTokenRequest *request, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	const Holdfast__V1__RevokeTokenResponse response = HOLDFAST__V1__REVOKE_TOKEN_RESPONSE__INIT;
	const StoredToken *stored;
	char key[OBJECT_KEY_SIZE];
	char object[AUDIT_OBJECT_SIZE];

	if (!id_is_uuid(request->accessor))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "accessor: '%.40s' is not one; see: holdfast operator token list",
				 request->accessor);
	token_key(request->accessor, key);
	stored = records_get(&server->state.records, key);
	if (!stored)
		return error_set(err, STATUS_NOT_FOUND, 0,
				 "there is no token %s; see: holdfast operator token list",
				 request->accessor);
	(void)str_format(object, sizeof(object), "token %s (%s)", request->accessor, stored->token->name);
	audit_write(server, &change, call, "Operator.RevokeToken", object, NULL);
	change_delete_record(&change, key);
	return answer_changed(server, &change, call, message_copy(&response.base), err);
}

DEFINE_WRITE_METHOD(tokens_handle_revoke, Holdfast__V1__RevokeTokenRequest, "Operator.RevokeToken",
		    handle_revoke)

static const ProtobufCMessage *listed(const struct record_entry *entry, void *userdata)
{
	return &token_of(entry)->token->base;
}

static const struct record_list list = {.prefix = PREFIX_TOKEN,
					.response = &holdfast__v1__list_tokens_response__descriptor,
					.message = listed};
DEFINE_RECORD_LIST(tokens_handle_list, list)

static enum status handle_who_am_i(struct server *server, struct rpc_call *call,
				   const ProtobufCMessage *request, struct error *err)
{
	Holdfast__V1__WhoAmIResponse response = HOLDFAST__V1__WHO_AM_IRESPONSE__INIT;
	char identity[RPC_URI_SIZE];
	struct caller caller;
	Token token;
	enum status status = access_caller(server, call, &caller, err);

	if (status != STATUS_OK)
		return status;
	(void)str_copy(identity, sizeof(identity), rpc_call_peer(call)->uri);
	response.identity = identity;
	response.acl_enabled = server->config.acl;
	if (caller.token) {
		char key[OBJECT_KEY_SIZE];

		token_key(caller.token->token->accessor, key);
		token = shown(records_entry(&server->state.records, key));
		response.token = &token;
	}
	answer_durable(server, call, message_copy(&response.base));
	return STATUS_OK;
}

static const struct read_method who_am_i_method = {.handle = handle_who_am_i};
DEFINE_READ_METHOD(tokens_handle_who_am_i, who_am_i_method)
