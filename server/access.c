#include "access.h"

#include "server.h"

#include "base/id.h"
#include "base/names.h"
#include "base/str.h"

#include <string.h>

#define SCHEME "holdfast://"

static const char *const role_names[ROLE_N] = {
	[ROLE_OPERATOR] = "operator",
	[ROLE_NODE] = "node",
	[ROLE_SERVER] = "server",
};

enum { SEGMENTS = 3 }; /* cluster, role, name */

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

enum status access_operator(const struct rpc_peer *peer, const char *cluster, bool dev, struct identity *ret,
			    struct error *err)
{
	struct identity identity = {.role = ROLE_OPERATOR, .name = "dev"};
	enum status st;

	if (peer->uri[0] == '\0' && !dev)
		return error_set(err, STATUS_UNAUTHENTICATED, 0,
				 "this call needs an operator's certificate (--cert and --key)");
	if (peer->uri[0] != '\0') {
		st = identity_parse(peer->uri, cluster, &identity, err);
		if (st != STATUS_OK)
			return st;
	}
	if (identity.role != ROLE_OPERATOR)
		return error_set(err, STATUS_PERMISSION_DENIED, 0,
				 "%s may not make this call: it is not an operator", peer->uri);
	if (ret)
		*ret = identity;
	return STATUS_OK;
}

enum status access_node(const struct rpc_peer *peer, const char *cluster, struct identity *ret,
			struct error *err)
{
	struct identity identity;
	enum status st;

	if (peer->uri[0] == '\0')
		return error_set(err, STATUS_UNAUTHENTICATED, 0, "this call needs a node's certificate");
	st = identity_parse(peer->uri, cluster, &identity, err);
	if (st != STATUS_OK)
		return st;
	if (identity.role != ROLE_NODE)
		return error_set(err, STATUS_PERMISSION_DENIED, 0,
				 "%s may not make this call: it is not a node", peer->uri);
	*ret = identity;
	return STATUS_OK;
}

enum status access_check(struct server *server, const struct rpc_call *call, enum access_right right,
			 const char *namespace, struct error *err)
{
	(void)right; /* an operator's certificate gives every right */
	(void)namespace;
	return access_operator(rpc_call_peer(call), server->config.cluster, server->config.dev, NULL, err);
}

char *access_who(struct server *server, const struct rpc_call *call, char ret[static ACCESS_WHO_SIZE])
{
	const struct rpc_peer *peer = rpc_call_peer(call);
	struct identity identity;

	if (peer->uri[0] == '\0')
		(void)str_copy(ret, ACCESS_WHO_SIZE, "anonymous");
	else if (identity_parse(peer->uri, server->config.cluster, &identity, NULL) == STATUS_OK)
		(void)str_format(ret, ACCESS_WHO_SIZE, "%s/%s", role_names[identity.role], identity.name);
	else
		(void)str_format(ret, ACCESS_WHO_SIZE, "%.150s", peer->uri);
	return ret;
}
