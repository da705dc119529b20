/* SPDX-License-Identifier: Apache-2.0 */
#include "access/caller.h"

#include "server.h"

#include "access/networks.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/join.h"
#include "base/names.h"
#include "base/str.h"
#include "lead/lead.h"
#include "state/change.h"
#include "state/keys.h"
#include "state/records.h"

#include <openssl/sha.h>
#include <string.h>

#define SCHEME "holdfast://"

static const char *const role_names[ROLE_N] = {
	[ROLE_OPERATOR] = "operator",
	[ROLE_NODE] = "node",
	[ROLE_SERVER] = "server",
	[ROLE_FENCER] = "fencer",
};

enum { SEGMENTS = 3 /* cluster, role, name */ };

/* --- certificates --- */

/* Split into exactly SEGMENTS parts that are not empty and fit. */
static bool split(const char *s, char parts[SEGMENTS][NODE_ID_MAX + 1])
{
	for (int i = 0; i < SEGMENTS; i++) {
		size_t n = strcspn(s, "/");
		bool last = i == SEGMENTS - 1;

		if (n == 0 || n > NODE_ID_MAX || (s[n] == '\0') != last)
			return false;
		memcpy(parts[i], s, n);
		parts[i][n] = '\0';
		s += n + 1;
	}
	return true;
}

enum status identity_parse(const char *uri, const char *cluster, struct identity *ret, struct error *err)
{
	char parts[SEGMENTS][NODE_ID_MAX + 1];
	int role;

	if (!str_starts_with(uri, SCHEME))
		return error_set(err, STATUS_UNAUTHENTICATED, 0,
				 "the certificate has no identity holdfast://CLUSTER/ROLE/NAME");
	if (!split(uri + strlen(SCHEME), parts) || !id_is_name(parts[2], NODE_ID_MAX))
		return error_set(err, STATUS_UNAUTHENTICATED, 0, "the identity %s is malformed", uri);
	if (!str_eq(parts[0], cluster))
		return error_set(err, STATUS_UNAUTHENTICATED, 0,
				 "the identity %s is of another cluster than %s", uri, cluster);
	role = names_find(role_names, ROLE_N, parts[1]);
	if (role < 0)
		return error_set(err, STATUS_UNAUTHENTICATED, 0, "the identity %s has an unknown role", uri);
	*ret = (struct identity){.role = (enum role)role};
	(void)str_copy(ret->name, sizeof(ret->name), parts[2]); /* fits: split() saw to it */
	return STATUS_OK;
}

enum status access_check_end(const struct rpc_peer *peer, struct error *err)
{
	char text[CLOCK_TEXT_SIZE];

	if (peer->expires_ms == 0 || peer->expires_ms > clock_realtime_ms())
		return STATUS_OK;
	return error_set(err, STATUS_UNAUTHENTICATED, 0,
			 "the certificate of %s expired at %s, while this connection was open; another "
			 "certificate is needed (holdfast operator cert enroll, or: holdfast operator cert "
			 "issue; for a node: holdfast operator node enroll)",
			 peer->uri, clock_format(peer->expires_ms, text));
}

enum status access_operator(const struct rpc_peer *peer, const char *cluster, bool dev, struct identity *ret,
			    struct error *err)
{
	struct identity identity = {.role = ROLE_OPERATOR, .name = "dev"};

	if (peer->uri[0] == '\0' && !dev)
		return error_set(err, STATUS_UNAUTHENTICATED, 0,
				 "this call needs an operator's certificate (--cert and --key)");
	if (peer->uri[0] != '\0')
		TRY(identity_parse(peer->uri, cluster, &identity, err));
	if (identity.role != ROLE_OPERATOR)
		return error_set(err, STATUS_PERMISSION_DENIED, 0,
				 "%s may not make this call: it is not an operator", peer->uri);
	TRY(access_check_end(peer, err));
	if (ret)
		*ret = identity;
	return STATUS_OK;
}

enum status access_node(const struct rpc_peer *peer, const char *cluster, struct identity *ret,
			struct error *err)
{
	struct identity identity;

	if (peer->uri[0] == '\0')
		return error_set(err, STATUS_UNAUTHENTICATED, 0, "this call needs a node's certificate");
	TRY(identity_parse(peer->uri, cluster, &identity, err));
	if (identity.role != ROLE_NODE)
		return error_set(err, STATUS_PERMISSION_DENIED, 0,
				 "%s may not make this call: it is not a node", peer->uri);
	*ret = identity;
	return STATUS_OK;
}

/* --- tokens --- */

void token_key(const char *accessor, char ret[static OBJECT_KEY_SIZE])
{
	(void)str_format(ret, OBJECT_KEY_SIZE, PREFIX_TOKEN "%s", accessor);
}

bool token_is_expired(const Holdfast__V1__Token *token, int64_t at_ms)
{
	return token->expires_at_ms != 0 && token->expires_at_ms <= at_ms;
}

void token_hash(const char *secret, uint8_t ret[static TOKEN_HASH_SIZE])
{
	(void)SHA256((const unsigned char *)secret, strlen(secret), ret);
}

static enum status check_network(const Holdfast__V1__Token *token, const struct rpc_peer *peer,
				 struct error *err)
{
	if (token->n_cidrs == 0 || networks_have(token->cidrs, token->n_cidrs, peer->address))
		return STATUS_OK;
	return error_set(err, STATUS_PERMISSION_DENIED, 0,
			 "token %s (%s) is bound to %s%s, and this call comes from %s; ask an operator for "
			 "another: holdfast operator token create --cidr",
			 token->accessor, token->name, token->cidrs[0],
			 token->n_cidrs > 1 ? " and further networks" : "", peer->address);
}

/* The token with this secret; borrowed until the next change. The address of a call that another server
 * forwards is that of the first caller, as that server vouches. */
static enum status find_token(struct server *server, const char *secret, const struct rpc_peer *peer,
			      const Holdfast__V1__StoredToken **ret, struct error *err)
{
	uint8_t hash[TOKEN_HASH_SIZE];
	const Holdfast__V1__StoredToken *stored = NULL;
	char key[OBJECT_KEY_SIZE];
	char text[CLOCK_TEXT_SIZE];
	const char *accessor;

	token_hash(secret, hash);
	accessor = token_index_find(&server->state.records.tokens, hash);
	if (accessor) {
		token_key(accessor, key);
		stored = records_get(&server->state.records, key);
	}
	if (!stored && server->lead && !server->is_serving && !lead_has_copy(server->lead))
		return error_set(err, STATUS_UNAVAILABLE, 0,
				 "this server has just begun to follow and does not know any token yet; ask "
				 "again in some seconds");
	if (!stored)
		return error_set(err, STATUS_UNAUTHENTICATED, 0,
				 "the token is unknown to cluster %s, or was revoked; ask an operator for "
				 "another: holdfast operator token create",
				 server->config.cluster);
	if (token_is_expired(stored->token, clock_realtime_ms()))
		return error_set(err, STATUS_UNAUTHENTICATED, 0,
				 "token %s (%s) expired at %s; ask an operator for another: holdfast "
				 "operator token create",
				 stored->token->accessor, stored->token->name,
				 clock_format(stored->token->expires_at_ms, text));
	TRY(check_network(stored->token, peer, err));
	stored->token->last_used_at_ms = clock_realtime_ms(); /* in memory only: a read stores nothing */
	*ret = stored;
	return STATUS_OK;
}

/* --- who --- */

static enum status take_token(struct server *server, const char *secret, const struct rpc_peer *peer,
			      struct caller *caller, struct error *err)
{
	if (caller->identity.role != ROLE_NONE && caller->identity.role != ROLE_OPERATOR)
		return error_set(err, STATUS_PERMISSION_DENIED, 0,
				 "a token cannot be shown with the certificate of %s/%s: tokens are for "
				 "people; leave it out",
				 role_names[caller->identity.role], caller->identity.name);
	if (!server->config.acl)
		return error_set(err, STATUS_UNAUTHENTICATED, 0,
				 "this server takes no tokens (acl = false): leave the token out and show an "
				 "operator's certificate (--cert and --key)");
	return find_token(server, secret, peer, &caller->token, err);
}

enum status access_caller(struct server *server, const struct rpc_call *call, struct caller *ret,
			  struct error *err)
{
	const struct rpc_peer *peer = rpc_call_peer(call);
	const char *secret = rpc_call_token(call);
	struct caller caller = {.identity = {.role = ROLE_NONE}};
	enum status status = STATUS_OK;

	if (peer->uri[0] != '\0')
		status = identity_parse(peer->uri, server->config.cluster, &caller.identity, err);
	if (status == STATUS_OK && secret)
		status = take_token(server, secret, peer, &caller, err);
	if (status == STATUS_OK)
		*ret = caller;
	return status;
}

enum status access_check_node(struct server *server, const struct rpc_call *call, struct identity *ret,
			      struct error *err)
{
	enum status status = access_node(rpc_call_peer(call), server->config.cluster, ret, err);

	if (status == STATUS_OK && rpc_call_token(call))
		return error_set(err, STATUS_PERMISSION_DENIED, 0,
				 "a token cannot be shown with the certificate of node/%s: tokens are for "
				 "people; leave it out",
				 ret->name);
	return status == STATUS_OK ? access_check_end(rpc_call_peer(call), err) : status;
}

enum status access_check_fencer(struct server *server, const struct rpc_call *call, struct identity *ret,
				struct error *err)
{
	const struct rpc_peer *peer = rpc_call_peer(call);
	struct identity identity;

	if (peer->uri[0] == '\0')
		return error_set(err, STATUS_UNAUTHENTICATED, 0, "this call needs a fencer's certificate");
	TRY(identity_parse(peer->uri, server->config.cluster, &identity, err));
	if (identity.role != ROLE_FENCER || rpc_call_token(call))
		return error_set(err, STATUS_PERMISSION_DENIED, 0,
				 "%s may not make this call%s: it is only for a fencer's certificate",
				 peer->uri, rpc_call_token(call) ? " with a token" : "");
	TRY(access_check_end(peer, err));
	*ret = identity;
	return STATUS_OK;
}

const char *access_bound_node(struct server *server, const struct rpc_call *call)
{
	struct caller caller;

	if (!rpc_call_token(call) || access_caller(server, call, &caller, NULL) != STATUS_OK || !caller.token)
		return NULL;
	return caller.token->token->node[0] != '\0' ? caller.token->token->node : NULL;
}

/* --- for records and messages --- */

static void name_certificate(const struct server *server, const struct rpc_peer *peer, char *ret)
{
	struct identity identity;

	if (peer->uri[0] == '\0')
		(void)str_copy(ret, ACCESS_WHO_SIZE, "anonymous");
	else if (identity_parse(peer->uri, server->config.cluster, &identity, NULL) == STATUS_OK)
		(void)str_join(ret, ACCESS_WHO_SIZE, role_names[identity.role], "/", identity.name);
	else
		(void)str_format(ret, ACCESS_WHO_SIZE, "%.150s", peer->uri);
}

char *access_who(struct server *server, const struct rpc_call *call, char ret[static ACCESS_WHO_SIZE])
{
	const struct rpc_peer *peer = rpc_call_peer(call);
	char certificate[ACCESS_WHO_SIZE];
	struct caller caller;

	name_certificate(server, peer, certificate);
	if (!rpc_call_token(call))
		(void)str_copy(ret, ACCESS_WHO_SIZE, certificate);
	else if (access_caller(server, call, &caller, NULL) != STATUS_OK || !caller.token)
		(void)str_format(ret, ACCESS_WHO_SIZE, "refused token of %.150s", certificate);
	else if (caller.identity.role == ROLE_NONE)
		(void)str_format(ret, ACCESS_WHO_SIZE, "token %s (%s)", caller.token->token->accessor,
				 caller.token->token->name);
	else
		(void)str_format(ret, ACCESS_WHO_SIZE, "token %s (%s) of %s", caller.token->token->accessor,
				 caller.token->token->name, certificate);
	return ret;
}

void access_author(struct server *server, const struct rpc_call *call, struct change_author *ret)
{
	const struct rpc_peer *peer = rpc_call_peer(call);
	char text[ACCESS_WHO_SIZE];
	struct identity identity;
	struct caller caller;

	if (!rpc_call_token(call) || access_caller(server, call, &caller, NULL) != STATUS_OK || !caller.token)
		name_certificate(server, peer, text);
	else if (caller.token->token->namespace_[0] != '\0')
		(void)str_copy(text, sizeof(text), caller.token->token->namespace_);
	else
		(void)str_join(text, sizeof(text), "token ", caller.token->token->accessor);
	str_copy_text(ret->name, sizeof(ret->name), text);
	ret->is_person = identity_parse(peer->uri, server->config.cluster, &identity, NULL) != STATUS_OK ||
			 identity.role == ROLE_OPERATOR;
}

void access_sharer(struct server *server, const struct rpc_call *call, char ret[static NAMESPACE_MAX + 1])
{
	struct change_author author;

	access_author(server, call, &author);
	str_copy_text(ret, NAMESPACE_MAX + 1, author.name);
}

char *access_vouched_by(const struct server *server, const struct rpc_call *call,
			char ret[static ACCESS_WHO_SIZE])
{
	const struct rpc_peer *peer = rpc_call_vouching_peer(call);
	char certificate[ACCESS_WHO_SIZE];

	ret[0] = '\0';
	if (!peer)
		return ret;
	name_certificate(server, peer, certificate);
	(void)str_format(ret, ACCESS_WHO_SIZE, "%.80s at %.100s", certificate, peer->address);
	return ret;
}
