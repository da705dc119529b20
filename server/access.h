#pragma once
/* Who a caller is, and what that lets it do. Identity is the certificate, never a field of a message. */

#include "base/error.h"
#include "model/claim.h"
#include "rpc/peer.h"

#include <stdbool.h>

enum role {
	ROLE_NONE,
	ROLE_OPERATOR,
	ROLE_NODE,
	ROLE_SERVER,
	ROLE_N,
};

struct identity {
	enum role role;
	char name[NODE_ID_MAX + 1];
};

/** Read "holdfast://CLUSTER/ROLE/NAME". STATUS_UNAUTHENTICATED for anything else, and for another cluster. */
enum status identity_parse(const char *uri, const char *cluster, struct identity *ret, struct error *err);

/** The caller must be an operator. With @dev a caller without a certificate is one. @ret may be NULL. */
enum status access_operator(const struct rpc_peer *peer, const char *cluster, bool dev, struct identity *ret,
			    struct error *err);

/** The caller must be a node. */
enum status access_node(const struct rpc_peer *peer, const char *cluster, struct identity *ret,
			struct error *err);
