/* SPDX-License-Identifier: Apache-2.0 */
/* A node whose calls another server hands on: its session, and the certificate that it renews. */

#include "callers.h"
#include "unit.h"

#include "access/issuers.h"
#include "access/revocations.h"
#include "identity/authority.h"
#include "rpc/pki.h"

#include <holdfast/v1/nodes.pb-c.h>

enum { LIFE_S = 30 };

/* As the follower says. */
static struct rpc_peer peer;
static bool is_followers_ca_former;
static bool is_from_another_machine; /* the follower */
static bool is_ipv6;

WRAPPED(enum status, access_vouching, const struct rpc_peer *server, void *userdata, struct error *err)
{
	if (is_followers_ca_former)
		(void)str_copy(((struct rpc_peer *)(uintptr_t)server)->issuer, RPC_KEY_ID_SIZE, "00");
	if (is_from_another_machine)
		(void)str_copy(((struct rpc_peer *)(uintptr_t)server)->address, RPC_ADDRESS_SIZE,
			       is_ipv6 ? "[2001:db8::9]:1" : "192.0.2.9:1");
	else if (is_ipv6)
		(void)str_copy(((struct rpc_peer *)(uintptr_t)server)->address, RPC_ADDRESS_SIZE,
			       "[2001:db8::8]:1");
	return STATUS_OK;
}

WRAPPED(enum status, rpc_stream_open, struct rpc_client *client, const ProtobufCServiceDescriptor *service,
	const char *method, uint64_t connect_timeout_us, const struct rpc_stream_events *events,
	void *userdata, struct rpc_stream **ret, struct error *err)
{
	const struct rpc_behalf behalf = {.peer = &peer};

	return rpc_stream_open_for(client, &behalf, service, method, connect_timeout_us, events, userdata,
				   ret, err);
}

static void on_renewed(enum status status, const ProtobufCMessage *response, const struct error *err,
		       void *userdata)
{
	assert_int_equal(status, STATUS_OK);
	*(bool *)userdata = true;
}

/* Over a connection from @address to the server of @client. */
static void renew_through(struct fixture *f, struct rpc_client *client, const char *address)
{
	const struct rpc_peer from = peer;
	const struct rpc_behalf behalf = {.peer = &peer};
	Holdfast__V1__RenewRequest request = HOLDFAST__V1__RENEW_REQUEST__INIT;
	cleanup_free char *csr = NULL;
	char *key = NULL;
	bool is_done = false;

	(void)str_copy(peer.address, sizeof(peer.address), address);
	assert_int_equal(pki_make_request(&key, &csr, NULL), STATUS_OK);
	request.csr = csr;
	assert_ok(rpc_client_call_for(client, &behalf, &holdfast__v1__nodes__descriptor, "Renew",
				      &request.base, TIMEOUT_US, on_renewed, &is_done, NULL, NULL));
	UNTIL(f, is_done);
	pki_key_free(key);
	peer = from;
}

static void renew(struct fixture *f, const char *address)
{
	renew_through(f, f->n1.client, address);
}

static void begin(struct fixture *f)
{
	f->server->config.authority.node_life_us = 4 * LIFE_S * USEC_PER_SEC;
	fake_node_release(&f->n1);
	fake_node_init(&f->n1, f->event, f->dir, "server", f->port);
	peer = (struct rpc_peer){.kind = RPC_PEER_TLS,
				 .uri = "holdfast://c1/node/n1",
				 .address = "192.0.2.1:4000",
				 .issued_ms = 1,
				 .expires_ms = clock_realtime_ms() + LIFE_S * 1000};
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_true(f->n1.welcomed);
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup_authority, teardown)

/* The follower's connection has the new certificate, the session that it handed on before has not. */
CASE(a_session_through_a_follower_outlives_its_first_certificate)
{
	begin(f);
	renew(f, peer.address);
	run_for(f->event, 2 * LIFE_S * 1000);
	assert_false(f->n1.closed);
	UNTIL(f, f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_UNAUTHENTICATED);
	assert_non_null(strstr(f->n1.closed_message, "expired at"));
}

CASE(the_revocation_of_a_renewed_certificate_ends_the_session_through_a_follower)
{
	char revocation[128];

	begin(f);
	renew(f, "192.0.2.1:4001"); /* over another connection: not the session's */
	assert_string_equal(state_node(&f->server->state, "n1")->session_serial, "");
	renew(f, peer.address);
	(void)str_format(revocation, sizeof(revocation), "{\"serial\": \"%s\"}",
			 state_node(&f->server->state, "n1")->session_serial);
	operator_does(f, "Operator.RevokeCertificate", revocation);
	UNTIL(f, f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_UNAUTHENTICATED);
	assert_non_null(strstr(f->n1.closed_message, "was revoked at"));
	begin(f); /* another session */
	assert_string_equal(state_node(&f->server->state, "n1")->session_serial, "");
}

/* Both sessions began with a certificate of a former CA. */
CASE(after_a_change_of_the_ca_a_session_stays_if_its_node_has_renewed)
{
	char *only = f->server->issuers->only;

	begin(f);
	renew(f, peer.address);
	(void)str_copy(only, RPC_KEY_ID_SIZE, pki_ca_key_id(authority_ca(f->server)));
	revocations_end(f->server);
	settle(f);
	assert_false(f->n1.closed);
	only[0] = '\0';
	begin(f); /* another session */
	(void)str_copy(only, RPC_KEY_ID_SIZE, pki_ca_key_id(authority_ca(f->server)));
	revocations_end(f->server);
	UNTIL(f, f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_UNAUTHENTICATED);
}

/* The connection between the servers is older than the renewal of the follower's certificate. */
CASE(after_a_change_of_the_ca_a_session_stays_though_its_follower_shows_the_former_one)
{
	char *only = f->server->issuers->only;

	is_followers_ca_former = true;
	begin(f);
	renew(f, peer.address);
	is_followers_ca_former = false;
	(void)str_copy(only, RPC_KEY_ID_SIZE, pki_ca_key_id(authority_ca(f->server)));
	revocations_end(f->server);
	settle(f);
	assert_false(f->n1.closed);
}

CASE(a_renewal_over_another_connection_prolongs_no_session_through_a_follower)
{
	begin(f);
	renew(f, "192.0.2.1:4001");
	run_for(f->event, 2 * LIFE_S * 1000);
	assert_true(f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_UNAUTHENTICATED);
}

/* A thief's connection to another follower may have the address of the session's. */
static void renew_through_another_follower(struct fixture *f)
{
	struct caller_client other;

	begin(f);
	caller_init(&other, f, "holdfast://c1/server/other", NULL);
	is_from_another_machine = true;
	renew_through(f, other.client, peer.address);
	is_from_another_machine = false;
	assert_string_equal(state_node(&f->server->state, "n1")->session_serial, "");
	renew(f, peer.address);
	assert_string_not_equal(state_node(&f->server->state, "n1")->session_serial, "");
	caller_release(&other);
}

CASE(a_renewal_through_another_follower_is_over_another_connection)
{
	renew_through_another_follower(f);
}

CASE(followers_of_one_network_are_two_machines)
{
	is_ipv6 = true;
	renew_through_another_follower(f);
	is_ipv6 = false;
}

static void on_enrolled(enum status status, const ProtobufCMessage *response, const struct error *err,
			void *userdata)
{
	*(enum status *)userdata = status;
}

static enum status enroll_from(struct fixture *f, unsigned int host)
{
	const struct rpc_behalf behalf = {.peer = &peer};
	Holdfast__V1__EnrollRequest request = HOLDFAST__V1__ENROLL_REQUEST__INIT;
	enum status status = STATUS_OK;

	(void)str_format(peer.address, sizeof(peer.address), "[2001:db8::%x]:4000", host);
	assert_ok(rpc_client_call_for(f->n1.client, &behalf, &holdfast__v1__nodes__descriptor, "Enroll",
				      &request.base, TIMEOUT_US, on_enrolled, &status, NULL, NULL));
	UNTIL(f, status != STATUS_OK);
	return status;
}

CASE(hosts_of_an_ipv6_network_enrol_at_the_rate_of_one)
{
	begin(f);
	peer.uri[0] = '\0';
	for (unsigned int i = 0; i < 10; i++)
		assert_int_not_equal(enroll_from(f, i), STATUS_RESOURCE_EXHAUSTED);
	assert_int_equal(enroll_from(f, 10), STATUS_RESOURCE_EXHAUSTED);
}
