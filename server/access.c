#include "access.h"

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

/* Copy up to the next '/' or the end; NULL when it does not fit, else what follows. */
static const char *take_segment(const char *s, char *dst, size_t size)
{
	size_t n = strcspn(s, "/");

	if (n == 0 || n >= size)
		return NULL;
	memcpy(dst, s, n);
	dst[n] = '\0';
	return s[n] == '/' ? s + n + 1 : s + n;
}

enum status identity_parse(const char *uri, const char *cluster, struct identity *ret, struct error *err)
{
	char text[3][NODE_ID_MAX + 1] = {{0}};
	const char *p = uri;
	int role;

	if (!str_starts_with(uri, SCHEME))
		return error_set(err, STATUS_UNAUTHENTICATED, 0,
				 "the certificate has no identity holdfast://CLUSTER/ROLE/NAME");
	p += strlen(SCHEME);
	for (int i = 0; i < 3 && p; i++)
		p = take_segment(p, text[i], sizeof(text[i]));
	if (!p || *p != '\0' || !id_is_name(text[2], NODE_ID_MAX))
		return error_set(err, STATUS_UNAUTHENTICATED, 0, "the identity %s is malformed", uri);
	if (!str_eq(text[0], cluster))
		return error_set(err, STATUS_UNAUTHENTICATED, 0,
				 "the identity %s is of another cluster than %s", uri, cluster);
	role = names_find(role_names, ROLE_N, text[1]);
	if (role < 0)
		return error_set(err, STATUS_UNAUTHENTICATED, 0, "the identity %s has an unknown role", uri);
	*ret = (struct identity){.role = (enum role)role};
	return str_copy(ret->name, sizeof(ret->name), text[2]) < 0
		       ? error_set(err, STATUS_UNAUTHENTICATED, 0, "the identity %s is too long", uri)
		       : STATUS_OK;
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
