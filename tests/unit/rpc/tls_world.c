/* SPDX-License-Identifier: Apache-2.0 */
#include "tls_world.h"

static const char *file(struct tls_world *tw, const char *name, const char *suffix)
{
	char full[64];

	assert_true(str_format(full, sizeof(full), "%s.%s", name, suffix) > 0);
	return world_path(tw->world, full);
}

void tls_world_make_ca(struct tls_world *tw, const char *name)
{
	struct error err;

	assert_succeeds(pki_make_ca(file(tw, name, "key"), file(tw, name, "crt"), "lab", &err), err);
}

void tls_world_issue(struct tls_world *tw, const char *ca, const char *name, const char *uri)
{
	static const char *const dns[] = {"localhost"};
	static const char *const ip[] = {"127.0.0.1", "::1"};
	const struct pki_cert_request request = {
		.uri = uri,
		.common_name = name,
		.dns_names = dns,
		.n_dns_names = ARRAY_SIZE(dns),
		.ip_addresses = ip,
		.n_ip_addresses = ARRAY_SIZE(ip),
		.days = 1,
	};
	struct error err;

	assert_succeeds(pki_issue(file(tw, ca, "key"), file(tw, ca, "crt"), &request, file(tw, name, "key"),
				  file(tw, name, "crt"), &err),
			err);
}

struct rpc_tls *tls_world_load(struct tls_world *tw, const char *ca, const char *name)
{
	const struct rpc_tls_files files = {
		.ca = file(tw, ca, "crt"),
		.cert = name ? file(tw, name, "crt") : NULL,
		.key = name ? file(tw, name, "key") : NULL,
	};
	struct rpc_tls *tls = NULL;
	struct error err;

	assert_succeeds(rpc_tls_new(&files, &tls, &err), err);
	return tls;
}

struct rpc_client *tls_world_client(struct tls_world *tw, struct rpc_tls *tls, const char *server_uri)
{
	const struct rpc_endpoint endpoint = {
		.host = "127.0.0.1", .port = tw->port, .tls = tls, .server_uri = server_uri};
	struct rpc_client *client = NULL;
	struct error err;

	assert_int_equal(rpc_client_new(tw->world->event, &endpoint, &client, &err), STATUS_OK);
	return client;
}

int tls_world_setup(void **state)
{
	struct tls_world *tw = NON_NULL(calloc(1, sizeof(*tw)));
	struct error err;

	assert_int_equal(world_setup((void **)&tw->world), 0);
	tls_world_make_ca(tw, "ca");
	tls_world_issue(tw, "ca", "server", SERVER_URI);
	tls_world_issue(tw, "ca", "node", NODE_URI);
	tw->server_tls = tls_world_load(tw, "ca", "server");
	tw->node_tls = tls_world_load(tw, "ca", "node");
	if (rpc_server_listen_tls(tw->world->server, "127.0.0.1", 0, tw->server_tls, &tw->port, &err) !=
	    STATUS_OK)
		fail_msg("%s", err.msg);
	assert_int_not_equal(tw->port, 0);
	tw->client = tls_world_client(tw, tw->node_tls, SERVER_URI);
	*state = tw;
	return 0;
}

int tls_world_teardown(void **state)
{
	struct tls_world *tw = *state;

	rpc_client_free(tw->client);
	rpc_server_free(tw->world->server);
	tw->world->server = NULL;
	rpc_tls_free(tw->server_tls);
	rpc_tls_free(tw->node_tls);
	assert_int_equal(world_teardown((void **)&tw->world), 0);
	free(tw);
	return 0;
}
