/* SPDX-License-Identifier: Apache-2.0 */
/* Revoked certificates and tokens: what ends, what is refused, what is kept and recorded. */

#include "asks.h"
#include "callers.h"
#include "unit.h"

#include "access/access.h"
#include "access/issuers.h"
#include "access/local_operators.h"
#include "access/revocations.h"
#include "api/watch.h"
#include "rpc/caller.h"
#include "rpc/pki.h"
#include "state/keys.h"

#include <ctype.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <limits.h>
#include <sys/stat.h>

#define OPERATOR "holdfast://c1/operator/ann"

#define CASE(name) TEST_ON(name, struct fixture, f, setup_acl, teardown)

static void facts_of(struct fixture *f, const char *cert, struct pki_facts *ret)
{
	char path[PATH_MAX];

	(void)str_format(path, sizeof(path), "%s/tls/%s.pem", f->dir, cert);
	assert_int_equal(pki_read_facts(path, ret, NULL), STATUS_OK);
}

static void revoke_cert(struct fixture *f, const char *field, const char *value)
{
	char request[256];

	(void)str_format(request, sizeof(request), "{\"%s\": \"%s\", \"reason\": \"stolen\"}", field, value);
	operator_does(f, "Operator.RevokeCertificate", request);
}

static enum status revoke_fails(struct fixture *f, const char *request, struct error *err)
{
	cleanup(caller_release) struct caller_client caller;
	enum status status;

	caller_init(&caller, f, OPERATOR, NULL);
	status = caller_call(&caller, "Operator.RevokeCertificate", request, NULL, err);
	return status;
}

/* Another node's session is open all the time. */
CASE(a_revocation_of_a_node_ends_its_session_and_keeps_its_claims)
{
	struct pki_facts facts;

	take_volume(f);
	facts_of(f, "node-n1", &facts);
	revoke_cert(f, "identity", "node/n1");
	UNTIL(f, f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_UNAUTHENTICATED);
	assert_non_null(strstr(f->n1.closed_message, facts.serial));
	assert_non_null(strstr(f->n1.closed_message, " of node/n1 was revoked at 2"));
	assert_non_null(strstr(f->n1.closed_message, " by operator/ann: stolen"));
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	assert_false(f->n2.closed);
	assert_contains(state_node(&f->server->state, "n1")->node.disconnect_reason, "was revoked at");
}

CASE(a_revoked_certificate_opens_nothing_with_or_without_a_restart)
{
	for (int i = 0; i < 2; i++) {
		revoke_cert(f, "identity", "node/n1");
		fake_node_open(&f->n1, "n1", BOOT_1);
		UNTIL(f, f->n1.closed);
		assert_int_equal(f->n1.closed_status, STATUS_UNAUTHENTICATED);
		assert_non_null(strstr(f->n1.closed_message, "was revoked at"));
		restart(f);
	}
}

static enum status ask_as_bob(struct caller_client *bob, struct error *err)
{
	return caller_call(bob, "Operator.ListTokens", "{}", NULL, err);
}

/* Clocks of those that issue are ahead; the last one had its clock set back since. */
CASE(a_revocation_covers_each_certificate_of_the_identity_that_is_valid)
{
	static const int64_t ahead_ms[] = {0, 1000, 60000, 240000, PKI_AHEAD_MS - 1000};
	struct caller_client bob[ARRAY_SIZE(ahead_ms)];
	char *key = TEXT(PREFIX_REVOCATION "id/operator/bob");
	Holdfast__V1__Revocation *revocation;
	struct error err;

	for (size_t i = 0; i < ARRAY_SIZE(ahead_ms); i++) {
		callers_after_ms = clock_realtime_ms() + ahead_ms[i];
		caller_init(&bob[i], f, "holdfast://c1/operator/bob", NULL);
		assert_int_equal(ask_as_bob(&bob[i], NULL), STATUS_OK);
	}
	callers_after_ms = 0;
	revoke_cert(f, "identity", "operator/bob");
	for (int k = 0; k < 2; k++) {
		for (size_t i = 0; i < ARRAY_SIZE(ahead_ms); i++)
			assert_error(ask_as_bob(&bob[i], &err), STATUS_UNAUTHENTICATED, err,
				     "of operator/bob was revoked at");
		revocation = (void *)(uintptr_t)NON_NULL(records_get(&f->server->state.records, key));
		revocation->revoked_at_ms += 3600000;
		revocation->covers_until_ms += 3600000;
		revoke_cert(f, "identity", "operator/bob");
		assert_true(revocation_cutoff_ms(f->server, "operator/bob") > clock_realtime_ms() + 3600000);
	}
	for (size_t i = 0; i < ARRAY_SIZE(ahead_ms); i++)
		caller_release(&bob[i]);
}

CASE(an_identity_is_good_again_with_a_certificate_issued_later)
{
	cleanup(caller_release) struct caller_client before, after;
	struct error err;

	caller_init(&before, f, "holdfast://c1/operator/bob", NULL);
	assert_int_equal(ask_as_bob(&before, NULL), STATUS_OK);
	revoke_cert(f, "identity", "operator/bob");
	assert_error(ask_as_bob(&before, &err), STATUS_UNAUTHENTICATED, err,
		     "of operator/bob was revoked at");
	callers_after_ms = revocation_cutoff_ms(f->server, "operator/bob"); /* as the server issues it */
	caller_init(&after, f, "holdfast://c1/operator/bob", NULL);
	callers_after_ms = 0;
	assert_int_equal(ask_as_bob(&after, NULL), STATUS_OK);
}

CASE(a_serial_number_revokes_one_certificate_of_an_identity)
{
	struct pki_facts facts;
	cleanup(caller_release) struct caller_client other;
	char written[2 * RPC_SERIAL_SIZE] = "00:";

	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	facts_of(f, "node-n1", &facts);
	for (size_t i = 0, n = 3; facts.serial[i]; i++) /* as other programs write it */
		written[n++] = (char)tolower(facts.serial[i]);
	revoke_cert(f, "serial", written);
	UNTIL(f, f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_UNAUTHENTICATED);
	assert_non_null(strstr(f->n1.closed_message, facts.serial));
	caller_init(&other, f, "holdfast://c1/node/n1", NULL);
	assert_int_not_equal(caller_call(&other, "Nodes.List", "{}", NULL, NULL), STATUS_UNAUTHENTICATED);
}

static bool is_revoked(struct fixture *f, const char *key)
{
	return records_get(&f->server->state.records, key) != NULL;
}

/* A node renews its certificates. One that was made in advance is not covered by the revocation of all, and
 * an operator may have one at each place. */
CASE(a_certificate_revokes_all_of_its_identity_if_that_is_a_nodes)
{
	operator_does(f, "Operator.RevokeCertificate",
		      "{\"serial\": \"0A\", \"identity\": \"holdfast://c1/node/n9\", \"ends_at_ms\": \"9\"}");
	operator_does(f, "Operator.RevokeCertificate",
		      "{\"serial\": \"0B\", \"identity\": \"holdfast://c1/operator/bob\"}");
	assert_true(is_revoked(f, PREFIX_REVOCATION "serial/0A"));
	assert_true(is_revoked(f, PREFIX_REVOCATION "id/node/n9"));
	assert_true(is_revoked(f, PREFIX_REVOCATION "serial/0B"));
	assert_false(is_revoked(f, PREFIX_REVOCATION "id/operator/bob"));
	operator_does(f, "Operator.Gc", "{\"older_than_ms\": \"1\"}");
	assert_false(is_revoked(f, PREFIX_REVOCATION "serial/0A"));
	assert_true(is_revoked(f, PREFIX_REVOCATION "id/node/n9"));
}

/* --- calls that wait --- */

struct waiting {
	bool is_done;
	enum status status;
	char message[ERROR_MSG_MAX];
};

static void on_answer(enum status status, const ProtobufCMessage *response, const struct error *err,
		      void *userdata)
{
	struct waiting *waiting = userdata;

	waiting->is_done = true;
	waiting->status = status;
	if (status != STATUS_OK)
		(void)str_copy(waiting->message, sizeof(waiting->message), err->msg);
}

static void wait_for_nodes(struct fixture *f, struct caller_client *caller, struct waiting *waiting)
{
	Holdfast__V1__ListNodesRequest request = HOLDFAST__V1__LIST_NODES_REQUEST__INIT;

	*waiting = (struct waiting){.is_done = false};
	request.index = UINT32_MAX;
	request.wait_ms = TIMEOUT_US / 1000;
	assert_ok(rpc_client_call(caller->client, &holdfast__v1__nodes__descriptor, "List", &request.base,
				  TIMEOUT_US, on_answer, waiting, NULL, NULL));
	run_idle(f->event);
	assert_false(waiting->is_done);
}

CASE(calls_that_wait_end_with_their_certificate_or_token)
{
	cleanup_free char *secret = make_token(f, "{\"name\": \"reader\", \"type\": \"MANAGEMENT\"}");
	cleanup(caller_release) struct caller_client person, program;
	struct waiting waits, waits_too;
	cleanup(json_decrefp) json_t *list = NULL;
	char request[128];

	caller_init(&person, f, "holdfast://c1/operator/bob", NULL);
	caller_init(&program, f, NULL, secret);
	wait_for_nodes(f, &person, &waits);
	wait_for_nodes(f, &program, &waits_too);
	revoke_cert(f, "identity", "operator/bob");
	UNTIL(f, waits.is_done);
	assert_int_equal(waits.status, STATUS_UNAUTHENTICATED);
	assert_non_null(strstr(waits.message, "of operator/bob was revoked"));
	assert_false(waits_too.is_done);
	assert_int_equal(caller_call(&program, "Operator.ListTokens", "{}", &list, NULL), STATUS_OK);
	(void)str_format(request, sizeof(request), "{\"accessor\": \"%s\"}",
			 json_string_value(json_object_get(json_array_get(json_object_get(list, "tokens"), 0),
							   "accessor")));
	operator_does(f, "Operator.RevokeToken", request);
	UNTIL(f, waits_too.is_done);
	assert_int_equal(waits_too.status, STATUS_UNAUTHENTICATED);
	assert_non_null(strstr(waits_too.message, "or was revoked"));
}

CASE(one_caller_does_not_take_all_places_of_reads_that_wait)
{
	enum { N = WATCHES_PER_CALLER_MAX };
	static struct waiting waits[N + 1];
	struct caller_client callers[2], other;
	struct waiting others_wait;
	struct error err;

	for (size_t i = 0; i < ARRAY_SIZE(callers); i++) /* a connection takes as many */
		caller_init(&callers[i], f, "holdfast://c1/operator/bob", NULL);
	caller_init(&other, f, "holdfast://c1/operator/eve", NULL);
	for (size_t i = 0; i < N; i++)
		wait_for_nodes(f, &callers[i % 2], &waits[i]);
	assert_int_equal(f->server->n_watches, N);
	assert_int_equal(caller_call(&callers[0], "Nodes.List",
				     "{\"index\": \"4294967295\", \"wait_ms\": 1000}", NULL, &err),
			 STATUS_RESOURCE_EXHAUSTED);
	assert_non_null(strstr(err.msg, "this caller has 256 calls that wait for changes already"));
	wait_for_nodes(f, &other, &others_wait);
	revoke_cert(f, "identity", "operator/bob");
	for (size_t i = 0; i < N; i++)
		UNTIL(f, waits[i].is_done);
	assert_false(others_wait.is_done);
	for (size_t i = 0; i < ARRAY_SIZE(callers); i++)
		caller_release(&callers[i]);
	caller_release(&other);
}

CASE(a_read_that_waits_ends_with_its_caller)
{
	struct caller_client callers[2];
	struct waiting waits[3];

	for (size_t i = 0; i < ARRAY_SIZE(callers); i++)
		caller_init(&callers[i], f, "holdfast://c1/operator/bob", NULL);
	for (size_t i = 0; i < ARRAY_SIZE(waits); i++)
		wait_for_nodes(f, &callers[i % 2], &waits[i]);
	assert_int_equal(f->server->n_watches, 3);
	caller_release(&callers[0]);
	UNTIL(f, f->server->n_watches == 1);
	operator_does(f, "Operator.Gc", "{\"older_than_ms\": \"1\"}"); /* the calls of others go on */
	assert_false(waits[1].is_done);
	revoke_cert(f, "identity", "operator/bob");
	UNTIL(f, waits[1].is_done);
	assert_int_equal(waits[1].status, STATUS_UNAUTHENTICATED);
	caller_release(&callers[1]);
}

static void on_stream_closed(struct rpc_stream *stream, enum status status, const struct error *err,
			     void *userdata)
{
	on_answer(status, NULL, err, userdata);
}

static void on_stream_message(struct rpc_stream *stream, const ProtobufCMessage *message, void *userdata)
{
}

/* @request NULL: it never asks */
static void watch_topics(struct fixture *f, struct caller_client *caller,
			 const Holdfast__V1__WatchRequest *request, struct waiting *waiting)
{
	static const struct rpc_stream_events events = {.on_message = on_stream_message,
							.on_closed = on_stream_closed};
	struct rpc_stream *stream;

	*waiting = (struct waiting){.is_done = false};
	assert_int_equal(rpc_stream_open(caller->client, &holdfast__v1__operator__descriptor, "Watch",
					 TIMEOUT_US, &events, waiting, &stream, NULL),
			 STATUS_OK);
	if (request)
		assert_int_equal(rpc_stream_send(stream, &request->base, NULL), STATUS_OK);
	run_idle(f->event);
	assert_false(waiting->is_done);
}

static void open_stream(struct fixture *f, struct caller_client *caller, struct waiting *waiting)
{
	watch_topics(f, caller, NULL, waiting);
}

static void put_policy(struct fixture *f, const char *namespace, const char *rights)
{
	char text[256];

	(void)str_format(text, sizeof(text),
			 "{\"policy\": {\"name\": \"p\", %s\"namespaces\": [{\"namespace\": \"%s\", "
			 "\"capabilities\": [\"csi-read-volume\"]}]}}",
			 rights, namespace);
	operator_does(f, "Operator.PutPolicy", text);
}

static void assert_denied(const struct waiting *waiting, const char *right)
{
	assert_int_equal(waiting->status, STATUS_PERMISSION_DENIED);
	assert_contains(waiting->message, right);
}

/* An event that does not come checks no right. */
CASE(calls_that_wait_end_with_the_right_that_a_policy_gave)
{
	Holdfast__V1__ListVolumesRequest list = HOLDFAST__V1__LIST_VOLUMES_REQUEST__INIT;
	Holdfast__V1__WatchRequest watch = HOLDFAST__V1__WATCH_REQUEST__INIT;
	char *topics[] = {TEXT("claim"), TEXT("volume"), TEXT("node")};
	struct waiting nodes, volumes, stream, unasked, of_nodes;
	cleanup(caller_release) struct caller_client program;
	cleanup_free char *secret = NULL;

	put_policy(f, "default", "\"node\": \"read\", ");
	secret = make_token(f, "{\"name\": \"t\", \"type\": \"CLIENT\", \"policies\": [\"p\"]}");
	caller_init(&program, f, NULL, secret);
	wait_for_nodes(f, &program, &nodes);
	list.index = UINT32_MAX;
	list.wait_ms = TIMEOUT_US / 1000;
	volumes = (struct waiting){.is_done = false};
	assert_ok(rpc_client_call(program.client, &holdfast__v1__volumes__descriptor, "List", &list.base,
				  TIMEOUT_US, on_answer, &volumes, NULL, NULL));
	watch.topics = topics;
	watch.n_topics = 2;
	watch_topics(f, &program, &watch, &stream);
	watch.n_topics = 3;
	watch_topics(f, &program, &watch, &of_nodes);
	open_stream(f, &program, &unasked);
	assert_int_equal(f->server->n_watches, 2);

	put_policy(f, "other", "\"node\": \"read\", ");
	UNTIL(f, volumes.is_done && stream.is_done);
	assert_denied(&volumes, "in namespace default");
	assert_denied(&stream, "in namespace default");
	settle(f);
	assert_false(nodes.is_done || of_nodes.is_done || unasked.is_done); /* a new one is allowed as well */
	put_policy(f, "other", "");
	UNTIL(f, nodes.is_done && of_nodes.is_done);
	assert_denied(&nodes, "'node read'");
	assert_denied(&of_nodes, "'node read'");
	settle(f);
	assert_false(unasked.is_done);
	operator_does(f, "Operator.PutPolicy", "{\"policy\": {\"name\": \"p\"}}");
	UNTIL(f, unasked.is_done);
	assert_int_equal(unasked.status, STATUS_PERMISSION_DENIED);
}

/* TLS looks at a certificate only in the handshake, and no event comes to check a token by. */
CASE(calls_end_with_the_time_of_their_token_or_certificate)
{
	enum { HOUR_S = 3600, DAY_S = 24 * HOUR_S };
	struct caller_client person, program;
	struct waiting waits, waits_too;
	char fields[128], *secret;
	struct error err;

	(void)str_format(fields, sizeof(fields),
			 "{\"name\": \"t\", \"type\": \"MANAGEMENT\", \"expires_at_ms\": \"%lld\"}",
			 (long long)clock_realtime_ms() + HOUR_S * 1000);
	secret = make_token(f, fields);
	caller_init(&person, f, "holdfast://c1/operator/bob", NULL); /* for a day */
	caller_init(&program, f, NULL, secret);
	open_stream(f, &person, &waits);
	open_stream(f, &program, &waits_too);
	unit_clock_advance((HOUR_S + 1) * USEC_PER_SEC);
	UNTIL(f, waits_too.is_done);
	assert_int_equal(waits_too.status, STATUS_UNAUTHENTICATED);
	assert_non_null(strstr(waits_too.message, "(t) expired at"));
	assert_false(waits.is_done);
	assert_int_equal(caller_call(&person, "Operator.WhoAmI", "{}", NULL, NULL), STATUS_OK);
	unit_clock_advance(DAY_S * USEC_PER_SEC);
	UNTIL(f, waits.is_done);
	assert_int_equal(waits.status, STATUS_UNAUTHENTICATED);
	assert_non_null(strstr(waits.message, "certificate of holdfast://c1/operator/bob expired at"));
	assert_int_equal(caller_call(&person, "Operator.ListTokens", "{}", NULL, &err),
			 STATUS_UNAUTHENTICATED);
	assert_non_null(strstr(err.msg, "while this connection was open"));
	caller_release(&person);
	caller_release(&program);
	free(secret);
}

/* --- purge --- */

CASE(a_purge_revokes_the_certificates_of_the_node)
{
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	fake_node_disconnect(&f->n1);
	UNTIL(f, !state_node(&f->server->state, "n1")->session);
	operator_does(f, "Nodes.Purge", "{\"id\": \"n1\"}");
	fake_node_open(&f->n1, "n1", BOOT_1);
	UNTIL(f, f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_UNAUTHENTICATED);
	assert_non_null(strstr(f->n1.closed_message, "by operator/ann: the node was purged"));
}

/* --- bounds, records, bad input --- */

CASE(a_revocation_is_listed_and_recorded_and_ends_with_the_ca)
{
	const Holdfast__V1__Revocation *stored;
	cleanup(caller_release) struct caller_client caller;
	json_t *list = NULL;

	revoke_cert(f, "identity", "node/n1");
	stored = NON_NULL(records_get(&f->server->state.records, PREFIX_REVOCATION "id/node/n1"));
	assert_true(stored->ends_at_ms == f->server->certificate->ca_expires_at_ms);
	assert_true(stored->ends_at_ms > clock_realtime_ms());
	caller_init(&caller, f, OPERATOR, NULL);
	assert_int_equal(caller_call(&caller, "Operator.ListRevocations", "{}", &list, NULL), STATUS_OK);
	assert_int_equal(json_array_size(json_object_get(list, "revocations")), 1);
	json_decref(list);
	assert_int_equal(caller_call(&caller, "Operator.ListAudit", "{}", &list, NULL), STATUS_OK);
	assert_string_equal(json_string_value(json_object_get(
				    json_array_get(json_object_get(list, "records"), 0), "what")),
			    "Operator.RevokeCertificate");
	json_decref(list);
}

CASE(an_entry_goes_when_its_certificate_has_expired)
{
	operator_does(f, "Operator.RevokeCertificate", "{\"serial\": \"0A\", \"ends_at_ms\": \"1000\"}");
	operator_does(f, "Operator.RevokeCertificate", "{\"serial\": \"0B\"}");
	operator_does(f, "Operator.Gc", "{\"older_than_ms\": \"1\"}");
	assert_null(records_get(&f->server->state.records, PREFIX_REVOCATION "serial/0A"));
	assert_non_null(records_get(&f->server->state.records, PREFIX_REVOCATION "serial/0B"));
}

static void fill_revocations(struct fixture *f, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		Holdfast__V1__Revocation revocation = HOLDFAST__V1__REVOCATION__INIT;
		char key[OBJECT_KEY_SIZE];
		const struct record record = {.key = key, .message = &revocation.base};

		(void)str_format(key, sizeof(key), PREFIX_REVOCATION "serial/%08zX", i);
		assert_int_equal(records_put(&f->server->state.records, &record, NULL), STATUS_OK);
	}
}

CASE(the_last_revocation_there_is_room_for_is_made_and_no_more)
{
	struct error err;

	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	fake_node_disconnect(&f->n1);
	UNTIL(f, !state_node(&f->server->state, "n1")->session);
	fill_revocations(f, REVOCATIONS_MAX - 1);
	assert_int_equal(revoke_fails(f, "{\"serial\": \"FFFFFFFE\", \"identity\": \"node/two\"}", &err),
			 STATUS_RESOURCE_EXHAUSTED); /* takes two places */
	revoke_cert(f, "identity", "node/last");
	assert_int_equal(revoke_fails(f, "{\"identity\": \"node/more\"}", &err), STATUS_RESOURCE_EXHAUSTED);
	assert_non_null(strstr(err.msg, "8192 certificates and identities are revoked already"));
	assert_int_equal(revoke_fails(f, "{\"serial\": \"FFFFFFFF\"}", &err), STATUS_RESOURCE_EXHAUSTED);
	revoke_cert(f, "identity", "node/last");					 /* is there */
	operator_does(f, "Nodes.Purge", "{\"id\": \"n1\", \"keep_certificate\": true}"); /* needs no room */
}

CASE(a_request_that_names_no_certificate_is_refused)
{
	static const char *const requests[] = {
		"{}",
		"{\"serial\": \"xyz\"}",
		"{\"serial\": \":\"}",
		"{\"serial\": \"0123456789ABCDEF0123456789ABCDEF0123456789\"}",
		"{\"identity\": \"n1\"}",
		"{\"identity\": \"node/\"}",
		"{\"identity\": \"node/a/b\"}",
		"{\"identity\": \"nobody/n1\"}",
		"{\"identity\": \"node/n1\", \"ends_at_ms\": \"-1\"}",
		"{\"serial\": \"0A\", \"identity\": \"holdfast://c2/node/n1\"}", /* of another cluster */
		"{\"serial\": \"0A\", \"identity\": \"holdfast://c1/\"}",
	};
	struct error err;

	for (size_t i = 0; i < ARRAY_SIZE(requests); i++)
		assert_int_equal(revoke_fails(f, requests[i], &err), STATUS_INVALID_ARGUMENT);
	assert_null(records_from(&f->server->state.records, PREFIX_REVOCATION "id/node/n1"));
}

CASE(the_server_that_answers_is_not_revoked)
{
	struct pki_facts facts;
	char request[128];
	struct error err;

	facts_of(f, "server", &facts);
	(void)str_format(request, sizeof(request), "{\"serial\": \"%s\"}", facts.serial);
	assert_int_equal(revoke_fails(f, request, &err), STATUS_FAILED_PRECONDITION);
	(void)str_format(request, sizeof(request), "{\"identity\": \"%s\"}",
			 facts.uri + strlen("holdfast://c1/"));
	assert_error(revoke_fails(f, request, &err), STATUS_FAILED_PRECONDITION, err,
		     "serves with that certificate");
}

/* As another server has revoked it, which led. */
CASE(a_server_whose_certificate_is_revoked_may_not_lead)
{
	char key[] = PREFIX_REVOCATION "id/server/dev";
	Holdfast__V1__Revocation revocation = V1(revocation, .who = "operator/ann");
	const struct record record = {.key = key, .message = &revocation.base};
	struct error err;

	assert_string_equal(f->server->own.uri, "holdfast://c1/server/dev");
	assert_int_equal(revocation_check_own(f->server, NULL), STATUS_OK);
	revocation.revoked_at_ms = clock_realtime_ms();
	assert_int_equal(records_put(&f->server->state.records, &record, NULL), STATUS_OK);
	assert_error(revocation_check_own(f->server, &err), STATUS_UNAUTHENTICATED, err,
		     "of server/dev was revoked at");
}

/* --- expiry --- */

CASE(the_status_lists_certificates_of_connected_nodes)
{
	struct caller_client caller;
	cleanup(json_decrefp) json_t *status = NULL;
	cleanup(json_decrefp) json_t *node = NULL;
	json_t *list;

	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	caller_init(&caller, f, OPERATOR, NULL);
	assert_int_equal(caller_call(&caller, "Operator.Status", "{}", &status, NULL), STATUS_OK);
	assert_int_equal(caller_call(&caller, "Nodes.Get", "{\"id\": \"n1\"}", &node, NULL), STATUS_OK);
	caller_release(&caller);
	list = json_object_get(status, "node_certificates");
	assert_int_equal(json_array_size(list), f->server->state.n_connected);
	assert_string_equal(json_string_value(json_object_get(json_object_get(node, "node"),
							      "certificate_expires_at_ms")),
			    json_string_value(json_object_get(json_array_get(list, 0), "expires_at_ms")));
}

/* Entries that are older than the only CA are of certificates that it does not trust. */
CASE(a_list_that_is_nearly_full_is_an_alarm_and_a_new_ca_empties_it)
{
	cleanup_free char *secret = make_token(f, "{\"name\": \"root\", \"type\": \"MANAGEMENT\"}");
	cleanup(caller_release) struct caller_client program;
	char warning[REVOCATIONS_WARNING_SIZE];

	open_authority(f);
	caller_init(&program, f, NULL, secret);
	fill_revocations(f, REVOCATIONS_WARN - 1);
	assert_false(revocations_warning(f->server, warning));
	expect_warning_events(f, "revocations", 0, 0);
	revoke_cert(f, "identity", "node/last");
	assert_true(revocations_warning(f->server, warning));
	assert_non_null(strstr(warning, "has 6144 of 8192 entries"));
	assert_int_equal(metric_of(f, "revocations"), REVOCATIONS_WARN);
	expect_warning_events(f, "revocations", 1, 0);
	run_for(f->event, (PKI_SKEW_S + 1) * 1000); /* the clocks of two servers differ by no more */
	revoke_cert(f, "identity", "node/later");
	run_for(f->event, 2000); /* the CA begins with a second */
	assert_int_equal(caller_call(&program, "Operator.ChangeCa", "{}", NULL, NULL), STATUS_OK);
	run_for(f->event, 6000);
	assert_int_equal(caller_call(&program, "Operator.Gc", "{}", NULL, NULL), STATUS_OK);
	assert_int_equal(revocations_count(f->server), REVOCATIONS_WARN + 1); /* both are trusted */
	assert_int_equal(
		caller_call(&program, "Operator.ChangeCa", "{\"finish\": true, \"now\": true}", NULL, NULL),
		STATUS_OK);
	run_for(f->event, 6000);
	assert_int_equal(caller_call(&program, "Operator.Gc", "{}", NULL, NULL), STATUS_OK);
	assert_int_equal(revocations_count(f->server), 1); /* it may be of the new CA */
	assert_false(revocations_warning(f->server, warning));
	expect_warning_events(f, "revocations", 1, 1);
}

/* Streams that it has handed on before stay: they are of their callers. */
CASE(a_server_whose_certificate_has_expired_hands_nothing_on)
{
	struct rpc_peer peer = {.kind = RPC_PEER_TLS, .uri = "holdfast://c1/server/s2"};
	struct error err;

	f->server->lead = (struct lead *)f; /* not looked into */
	peer.expires_ms = clock_realtime_ms() + 1000;
	assert_int_equal(access_vouching(&peer, f->server, &err), STATUS_OK);
	peer.expires_ms = clock_realtime_ms() - 1000;
	assert_int_equal(access_vouching(&peer, f->server, &err), STATUS_UNAUTHENTICATED);
	f->server->lead = NULL;
}

CASE(a_server_with_a_certificate_of_a_former_ca_hands_nothing_on)
{
	const struct rpc_peer peer = {
		.kind = RPC_PEER_TLS, .uri = "holdfast://c1/server/s2", .issuer = "ab", .issued_ms = 1};
	struct error err;

	f->server->lead = (struct lead *)f; /* not looked into */
	(void)str_copy(f->server->issuers->only, RPC_KEY_ID_SIZE, "ab");
	assert_int_equal(access_vouching(&peer, f->server, &err), STATUS_OK);
	(void)str_copy(f->server->issuers->only, RPC_KEY_ID_SIZE, "cd");
	assert_error(access_vouching(&peer, f->server, &err), STATUS_UNAUTHENTICATED, err, "a former CA");
	f->server->lead = NULL;
}

/* Until it comes with a certificate of the new one; a node is on record in the store. */
CASE(a_follower_with_a_certificate_of_the_former_ca_is_known_while_the_ca_changes)
{
	struct rpc_peer peer = {
		.kind = RPC_PEER_TLS, .uri = "holdfast://c1/server/s2", .issuer = "ab", .issued_ms = 1};

	f->server->lead = (struct lead *)f; /* not looked into */
	issuers_begin(f->server->issuers, "cd");
	assert_ok(access_vouching(&peer, f->server, NULL));
	assert_int_equal(f->server->issuers->n, 1);
	assert_string_equal(f->server->issuers->callers[0].uri, peer.uri);
	(void)str_copy(peer.issuer, sizeof(peer.issuer), "cd");
	assert_ok(access_vouching(&peer, f->server, NULL));
	assert_int_equal(f->server->issuers->n, 0);
	f->server->lead = NULL;
}

/* --- callers while the CA changes, and after --- */

/* As the leader sees it when another server hands its call on. */
static struct rpc_peer handed_on(const struct rpc_peer *peer)
{
	char text[REQUEST_CALLER_MAX + 1];
	struct rpc_peer ret;

	assert_ok(caller_format(peer, text, NULL));
	assert_ok(caller_parse(text, &ret, NULL));
	return ret;
}

static struct rpc_peer root_at_the_socket(void)
{
	static const struct local_operators root = {.n = 1, .list = {{.uid = 0, .name = "root"}}};
	struct rpc_peer peer = {.kind = RPC_PEER_UNIX, .address = "/run/server.sock"};

	assert_ok(local_operators_name(&root, "c1", &peer, NULL));
	return peer;
}

TEST(after_a_change_of_the_ca_a_caller_passes_with_its_certificate_or_without_any)
{
	static const struct issuers issuers = {.only = "cd"};
#define ANN .kind = RPC_PEER_TLS, .address = "192.0.2.1:1", .uri = OPERATOR
	const struct {
		struct rpc_peer peer;
		enum status expected;
	} rows[] = {
		{root_at_the_socket(), STATUS_OK},
		{{.kind = RPC_PEER_TLS, .address = "192.0.2.1:1"}, STATUS_OK},
		{{ANN, .issued_ms = 1, .serial = "01", .issuer = "cd"}, STATUS_OK},
		{{ANN, .issued_ms = -1, .serial = "01", .issuer = "cd"}, STATUS_OK},
		{{ANN, .issued_ms = 1, .serial = "01", .issuer = "ab"}, STATUS_UNAUTHENTICATED},
		{{ANN, .issued_ms = 0, .serial = "01", .issuer = "ab"}, STATUS_UNAUTHENTICATED},
		{{ANN, .issued_ms = -1, .serial = "01", .issuer = "ab"}, STATUS_UNAUTHENTICATED},
		{{ANN, .issued_ms = -1, .issuer = "ab"}, STATUS_UNAUTHENTICATED},
		{{ANN, .issued_ms = 1}, STATUS_UNAUTHENTICATED},
		{{ANN}, STATUS_UNAUTHENTICATED},
	};
#undef ANN

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct rpc_peer other = handed_on(&rows[i].peer);

		if (issuers_check(&issuers, &rows[i].peer, NULL) != rows[i].expected ||
		    issuers_check(&issuers, &other, NULL) != rows[i].expected)
			fail_msg("row %zu", i);
	}
}

TEST(callers_with_a_certificate_are_noted_while_the_ca_changes_except_nodes)
{
	static const struct {
		const char *uri, *issuer;
		bool is_noted;
	} rows[] = {
		{OPERATOR, "ab", true},
		{OPERATOR, "", true},
		{OPERATOR, "cd", false},
		{"holdfast://node/operator/ann", "ab", true},
		{"holdfast://node/node/n1", "ab", false},
		{"holdfast://c2/operator/ann", "ab", false},
		{"", "ab", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *cluster = str_starts_with(rows[i].uri, "holdfast://node/") ? "node" : "c1";
		struct rpc_peer peer = {.kind = RPC_PEER_TLS, .issued_ms = -1};
		struct issuers issuers = {.ca = "cd"};

		(void)str_copy(peer.uri, sizeof(peer.uri), rows[i].uri);
		(void)str_copy(peer.issuer, sizeof(peer.issuer), rows[i].issuer);
		issuers_note(&issuers, cluster, &peer);
		if (issuers.n != rows[i].is_noted)
			fail_msg("row %zu", i);
	}
}

TEST(a_user_of_the_socket_has_no_certificate_of_a_former_ca)
{
	struct rpc_peer peer = root_at_the_socket();
	struct issuers issuers = {.ca = "cd"};

	issuers_note(&issuers, "c1", &peer);
	peer = handed_on(&peer);
	issuers_note(&issuers, "c1", &peer);
	assert_int_equal(issuers.n, 0);
}
