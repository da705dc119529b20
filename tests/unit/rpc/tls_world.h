/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A world whose server also listens on TLS, with a CA and certificates of its own. */

#include "world.h"

#include "rpc/pki.h"
#include "rpc/tls.h"

#define SERVER_URI "holdfast://lab/server/s1"
#define NODE_URI "holdfast://lab/node/n1"

struct tls_world {
	struct world *world;
	struct rpc_tls *server_tls, *node_tls;
	uint16_t port;
	struct rpc_client *client; /* node_tls, expects SERVER_URI */
};

int tls_world_setup(void **state);
int tls_world_teardown(void **state);

/** Make the CA "NAME.key", "NAME.crt" in the world's folder. */
void tls_world_make_ca(struct tls_world *tw, const char *name);

/** Issue "NAME.key", "NAME.crt" with @uri from the CA of that name. */
void tls_world_issue(struct tls_world *tw, const char *ca, const char *name, const char *uri);

/** Load an identity; @name NULL: none. */
struct rpc_tls *tls_world_load(struct tls_world *tw, const char *ca, const char *name);

struct rpc_client *tls_world_client(struct tls_world *tw, struct rpc_tls *tls, const char *server_uri);

#define TLS_TEST(name) TEST_ON(name, struct tls_world, tw, tls_world_setup, tls_world_teardown)
