/* SPDX-License-Identifier: Apache-2.0 */
#include "tls_world.h"

#include "rpc/caller.h"
#include "rpc/server_internal.h"

static const struct rpc_peer n7 = {.kind = RPC_PEER_TLS,
				   .expires_ms = 1795000000000,
				   .issued_ms = 1794000000000,
				   .serial = "0A3F",
				   .issuer = "b7",
				   .uri = "holdfast://lab/node/n7",
				   .address = "[::1]:4711"};

TEST(the_identity_of_a_caller_survives_a_round_trip)
{
	struct rpc_peer nobody = {.kind = RPC_PEER_TLS, .address = "127.0.0.1:1"};
	struct rpc_peer renewed = n7;
	char text[REQUEST_CALLER_MAX + 1];
	struct rpc_peer back;

	assert_int_equal(caller_format(&n7, text, NULL), STATUS_OK);
	assert_string_equal(text, "1795000000000 [::1]:4711 holdfast://lab/node/n7 1794000000000 0A3F b7");
	assert_int_equal(caller_parse(text, &back, NULL), STATUS_OK);
	assert_memory_equal(&back, &n7, sizeof(n7));
	(void)str_copy(renewed.renewed_serial, sizeof(renewed.renewed_serial), "0B");
	assert_ok(caller_format(&renewed, text, NULL));
	assert_string_equal(text, "1795000000000 [::1]:4711 holdfast://lab/node/n7 1794000000000 0A3F,0B b7");
	assert_ok(caller_parse(text, &back, NULL));
	assert_memory_equal(&back, &renewed, sizeof(renewed));
	assert_int_equal(caller_format(&nobody, text, NULL), STATUS_OK);
	assert_string_equal(text, "0 127.0.0.1:1");
	assert_int_equal(caller_parse(text, &back, NULL), STATUS_OK);
	assert_memory_equal(&back, &nobody, sizeof(nobody));
}

/* Its uid means nothing there, and no other server may take it for a certificate. */
TEST(a_named_user_of_a_unix_socket_arrives_without_a_certificate)
{
	struct rpc_peer root = {.kind = RPC_PEER_UNIX,
				.issued_ms = 1794000000000,
				.uri = "holdfast://lab/operator/root",
				.address = "/run/holdfast-server/server.sock"};
	char text[REQUEST_CALLER_MAX + 1];
	struct rpc_peer back;

	assert_ok(caller_format(&root, text, NULL));
	assert_string_equal(text,
			    "0 /run/holdfast-server/server.sock holdfast://lab/operator/root 1794000000000");
	assert_ok(caller_parse(text, &back, NULL));
	assert_false(rpc_peer_has_certificate(&back));
	assert_int_equal(back.uid, (uid_t)-1);
	root.uid = back.uid;
	root.gid = back.gid;
	root.pid = back.pid;
	assert_memory_equal(&back, &root, sizeof(root));
}

/* A CA that has leaked signs any time of issue and any serial number. */
TEST(a_caller_with_a_certificate_arrives_with_one_whatever_that_says)
{
	static const char *const serials[] = {"0A3F", ""};
	static const int64_t times[] = {INT64_MIN, 0, 1794000000000};
	char text[REQUEST_CALLER_MAX + 1];
	struct rpc_peer peer = n7;
	struct rpc_peer back;

	for (size_t i = 0; i < ARRAY_SIZE(serials); i++)
		for (size_t j = 0; j < ARRAY_SIZE(times); j++) {
			(void)str_copy(peer.serial, sizeof(peer.serial), serials[i]);
			peer.issued_ms = times[j];
			assert_ok(caller_format(&peer, text, NULL));
			assert_ok(caller_parse(text, &back, NULL));
			assert_true(rpc_peer_has_certificate(&back));
			assert_string_equal(back.serial, peer.serial);
			assert_string_equal(back.issuer, serials[i][0] != '\0' ? "b7" : "");
		}
}

TEST(a_caller_of_the_largest_size_fits)
{
	struct rpc_peer peer = {.kind = RPC_PEER_TLS, .expires_ms = INT64_MAX, .issued_ms = INT64_MAX};
	char text[REQUEST_CALLER_MAX + 1];
	struct rpc_peer back;

	memset(peer.uri, 'u', sizeof(peer.uri) - 1);
	memset(peer.address, 'a', sizeof(peer.address) - 1);
	memset(peer.serial, 'F', sizeof(peer.serial) - 1);
	memset(peer.renewed_serial, 'F', sizeof(peer.renewed_serial) - 1);
	memset(peer.issuer, 'f', sizeof(peer.issuer) - 1);
	assert_int_equal(caller_format(&peer, text, NULL), STATUS_OK);
	assert_int_equal(caller_parse(text, &back, NULL), STATUS_OK);
	assert_memory_equal(&back, &peer, sizeof(peer));
}

TEST(a_caller_that_could_be_read_as_another_is_not_reported)
{
	char text[REQUEST_CALLER_MAX + 1];
	struct rpc_peer peer = n7;
	struct error err;

	(void)str_copy(peer.uri, sizeof(peer.uri), "holdfast://lab/node/n7 x");
	assert_int_equal(caller_format(&peer, text, &err), STATUS_INVALID_ARGUMENT);
	(void)str_copy(peer.uri, sizeof(peer.uri), "holdfast://lab/node/n\xc3\xa4");
	assert_int_equal(caller_format(&peer, text, &err), STATUS_INVALID_ARGUMENT);
	peer = n7;
	peer.address[0] = '\0';
	assert_int_equal(caller_format(&peer, text, &err), STATUS_INVALID_ARGUMENT);
	peer = n7;
	peer.kind = RPC_PEER_UNIX;
	assert_int_equal(caller_format(&peer, text, &err), STATUS_OK); /* it has a name */
	peer.uri[0] = '\0';
	assert_int_equal(caller_format(&peer, text, &err), STATUS_INVALID_ARGUMENT);
}

TEST(a_text_that_tells_no_caller_is_refused)
{
	static const char *const texts[] = {
		"",	      "1",
		"1 ",	      "1 a ",
		"1  u",	      "-1 a u",
		"-1 a",	      "x a u",
		" a u",	      "1 a u u",
		"1 a\tb u",   "9223372036854775808 a u",
		"1 a u 1 ",   "1 a u 1 A B C",
		"1 a u -1 A", "1 a u x A",
		"1 a u 1 A,", "1 a u 1 ,A",
	};
	char large[REQUEST_CALLER_MAX + 1] = "1 a ";
	struct rpc_peer peer;

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		assert_int_equal(caller_parse(texts[i], &peer, NULL), STATUS_INVALID_ARGUMENT);
	memset(large + 4, 'u', RPC_URI_SIZE);
	assert_int_equal(caller_parse(large, &peer, NULL), STATUS_INVALID_ARGUMENT);
}

/* --- whose places are counted --- */

/* Are both counted as one caller? */
static bool is_same(const struct rpc_peer *a, const char *a_token, const struct rpc_peer *b,
		    const char *b_token)
{
	char first[CALLER_KEY_SIZE];
	char second[CALLER_KEY_SIZE];

	caller_key(a, a_token, first);
	caller_key(b, b_token, second);
	return str_eq(first, second);
}

static const struct rpc_peer nameless = {.kind = RPC_PEER_TLS, .address = "192.0.2.7:4711"};

TEST(a_caller_with_a_certificate_is_one_from_any_address)
{
	struct rpc_peer elsewhere = n7;
	struct rpc_peer other = n7;

	(void)str_copy(elsewhere.address, sizeof(elsewhere.address), "192.0.2.9:5");
	(void)str_copy(other.uri, sizeof(other.uri), "holdfast://lab/node/n8");
	assert_true(is_same(&n7, NULL, &elsewhere, NULL));
	assert_false(is_same(&n7, NULL, &other, NULL));
	assert_true(is_same(&n7, "t", &elsewhere, "t"));
	assert_false(is_same(&n7, "t", &other, "t"));
}

TEST(a_caller_with_a_token_is_one_from_any_address)
{
	struct rpc_peer elsewhere = nameless;

	(void)str_copy(elsewhere.address, sizeof(elsewhere.address), "[2001:db8::1]:5");
	assert_true(is_same(&nameless, "t", &elsewhere, "t"));
	assert_false(is_same(&nameless, "t", &nameless, "u"));
	assert_false(is_same(&nameless, "t", &nameless, NULL));
	assert_false(is_same(&n7, "t", &nameless, "t"));
}

TEST(a_caller_without_both_is_its_address_whatever_the_port)
{
	static const char *const addresses[][2] = {
		{"192.0.2.7:1", "192.0.2.7:2"},
		{"[2001:db8::7]:1", "[2001:db8::7]:2"},
		{"[2001:db8:0:7::1]:1", "[2001:db8:0:7:f::2]:1"}, /* of one network */
		{"socket", "socket"},
	};
	struct rpc_peer peers[2] = {nameless, nameless};

	for (size_t i = 0; i < ARRAY_SIZE(addresses); i++) {
		(void)str_copy(peers[0].address, sizeof(peers[0].address), addresses[i][0]);
		(void)str_copy(peers[1].address, sizeof(peers[1].address), addresses[i][1]);
		assert_true(is_same(&peers[0], NULL, &peers[1], NULL));
		(void)str_copy(peers[1].address, sizeof(peers[1].address), "192.0.2.70:1");
		assert_false(is_same(&peers[0], NULL, &peers[1], NULL));
	}
}

TEST(an_ipv6_host_counts_with_its_network)
{
	static const char *const rows[][2] = {
		{"192.0.2.7:4711", "192.0.2.7"},
		{"[2001:db8:1:2:3:4:5:6]:4711", "2001:db8:1:2::/64"},
		{"[2001:db8:1:2::]:1", "2001:db8:1:2::/64"},
		{"[2001:db8:1:3::]:1", "2001:db8:1:3::/64"},
		{"[::1]:1", "::/64"},
		{"[fe80::7%eth0]:1", "fe80::/64"},
		{"[::ffff:192.0.2.7]:1", "192.0.2.7"}, /* all IPv4 hosts have one network there */
		{"/run/holdfast/agent.sock", "/run/holdfast/agent.sock"},
		{"", ""},
	};
	char origin[RPC_ADDRESS_SIZE];
	struct rpc_peer peer;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		(void)str_copy(peer.address, sizeof(peer.address), rows[i][0]);
		caller_origin(&peer, origin);
		assert_string_equal(origin, rows[i][1]);
	}
}

TEST(a_key_of_the_largest_size_has_the_digest_of_the_token_and_not_the_token)
{
	struct rpc_peer peer = {.kind = RPC_PEER_TLS};
	char key[CALLER_KEY_SIZE];

	memset(peer.uri, 'u', sizeof(peer.uri) - 1);
	memset(peer.address, 'a', sizeof(peer.address) - 1);
	caller_key(&peer, "abc", key);
	assert_non_null(strstr(key, "u ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
	peer.uri[0] = '\0';
	caller_key(&peer, NULL, key);
	assert_int_equal(strlen(key), sizeof(peer.address));
}

TEST(a_caller_may_have_so_many_and_no_more_whatever_others_have)
{
	struct peer_count_tree tree = RB_INITIALIZER(&tree);
	struct peer_count *counts[4];
	struct rpc_peer other_port = nameless;
	struct error err;

	(void)str_copy(other_port.address, sizeof(other_port.address), "192.0.2.7:12");
	assert_int_equal(caller_count(&nameless, NULL, &tree, 2, "calls", &counts[0], &err), STATUS_OK);
	assert_int_equal(caller_count(&other_port, NULL, &tree, 2, "calls", &counts[1], &err), STATUS_OK);
	assert_int_equal(caller_count(&nameless, NULL, &tree, 2, "calls", &counts[2], &err),
			 STATUS_RESOURCE_EXHAUSTED);
	assert_string_equal(err.msg, "this caller has 2 calls already, the most that one may have; end some");
	assert_null(counts[2]);
	assert_int_equal(caller_count(&n7, NULL, &tree, 2, "calls", &counts[2], &err), STATUS_OK);
	peer_count_leave(&tree, counts[0]);
	assert_int_equal(caller_count(&nameless, NULL, &tree, 2, "calls", &counts[3], &err), STATUS_OK);
	for (size_t i = 1; i < ARRAY_SIZE(counts); i++)
		peer_count_leave(&tree, counts[i]);
	assert_true(RB_EMPTY(&tree));
}

/* --- with a server --- */

static size_t n_vouched;
static size_t n_refused;

static enum status vouching_of_n1(const struct rpc_peer *peer, void *userdata, struct error *err)
{
	n_vouched++;
	return str_eq(peer->uri, NODE_URI) ? STATUS_OK
					   : error_set(err, STATUS_PERMISSION_DENIED, 0, "not you");
}

static void count_refused(const struct rpc_peer *peer, const struct error *why, void *userdata)
{
	n_refused += why->status == STATUS_PERMISSION_DENIED;
}

static enum status get_for(struct tls_world *tw, const struct rpc_behalf *behalf, struct answer *answer)
{
	Holdfast__V1__GetVolumeRequest request = V1(get_volume_request, .id = "db");

	*answer = (struct answer){.done = false};
	assert_ok(rpc_client_call_for(tw->client, behalf, &holdfast__v1__volumes__descriptor, "Get",
				      &request.base, WORLD_CALL_US, world_on_done, answer, NULL, NULL));
	world_run_until(tw->world, &answer->done);
	return answer->status;
}

TLS_TEST(a_call_for_somebody_else_is_theirs)
{
	struct answer answer;

	rpc_server_set_vouching(tw->world->server, vouching_of_n1);
	assert_int_equal(get_for(tw, &(struct rpc_behalf){.peer = &n7}, &answer), STATUS_OK);
	assert_memory_equal(&tw->world->peer, &n7, sizeof(n7));
	assert_int_equal(get_for(tw, NULL, &answer), STATUS_OK);
	assert_string_equal(tw->world->peer.uri, NODE_URI);
}

/* By token alone, as most people and units call. */
TLS_TEST(a_call_for_a_caller_without_certificate_arrives)
{
	static const struct rpc_peer bare = {.kind = RPC_PEER_TLS, .address = "127.0.0.1:4711"};
	struct answer answer;

	rpc_server_set_vouching(tw->world->server, vouching_of_n1);
	assert_int_equal(get_for(tw, &(struct rpc_behalf){.peer = &bare, .token = "t"}, &answer), STATUS_OK);
	assert_memory_equal(&tw->world->peer, &bare, sizeof(bare));
}

TLS_TEST(without_somebody_to_ask_no_call_is_taken_for_others)
{
	struct answer answer;

	n_refused = 0;
	rpc_server_on_refused(tw->world->server, count_refused);
	assert_int_equal(get_for(tw, &(struct rpc_behalf){.peer = &n7}, &answer), STATUS_PERMISSION_DENIED);
	assert_int_equal(tw->world->n_calls, 0);
	assert_int_equal(n_refused, 1);
	assert_int_equal(rpc_server_stats(tw->world->server).refused, 1);
}

TLS_TEST(a_caller_without_the_right_makes_no_calls_for_others)
{
	struct rpc_tls *other_tls;
	struct answer answer;

	n_refused = n_vouched = 0;
	rpc_server_set_vouching(tw->world->server, vouching_of_n1);
	rpc_server_on_refused(tw->world->server, count_refused);
	tls_world_issue(tw, "ca", "n2", "holdfast://lab/node/n2");
	other_tls = tls_world_load(tw, "ca", "n2");
	rpc_client_free(tw->client);
	tw->client = tls_world_client(tw, other_tls, SERVER_URI);
	assert_int_equal(get_for(tw, &(struct rpc_behalf){.peer = &n7}, &answer), STATUS_PERMISSION_DENIED);
	assert_string_equal(answer.err.msg, "not you");
	assert_int_equal(tw->world->n_calls, 0);
	assert_int_equal(n_vouched, 2); /* for its connection, and for the call */
	assert_int_equal(n_refused, 1);
	rpc_client_free(tw->client);
	tw->client = tls_world_client(tw, tw->node_tls, SERVER_URI);
	rpc_tls_free(other_tls);
}

/* The row that takes calls instead. */
static size_t n_taken;
static bool takes;

static void take(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	assert_ptr_equal(userdata, &n_taken);
	n_taken++;
	assert_string_equal(rpc_call_service(call)->name, "holdfast.v1.Volumes");
	assert_string_equal(rpc_call_method(call), "Get");
	assert_true(rpc_call_left_us(call) > 0 && rpc_call_left_us(call) <= WORLD_CALL_US);
	world_answer(call, "elsewhere");
}

static const struct rpc_method *relay(const struct rpc_call *call, const struct rpc_method *method,
				      void *userdata)
{
	static const struct rpc_method row = {.name = "take", .unary = take};

	return takes && !method->stream ? &row : NULL;
}

static enum status closed_gate(struct rpc_call *call, const char *service, const struct rpc_method *method,
			       const ProtobufCMessage *request, void *userdata, struct error *err)
{
	return error_set(err, STATUS_PERMISSION_DENIED, 0, "closed");
}

TLS_TEST(a_relayed_call_is_not_asked_about_at_the_gate_and_relayed_once)
{
	struct answer answer;

	n_taken = 0;
	takes = true;
	rpc_server_set_vouching(tw->world->server, vouching_of_n1);
	rpc_server_set_relay(tw->world->server, relay, &n_taken);
	rpc_server_set_gate(tw->world->server, closed_gate);
	assert_int_equal(get_for(tw, NULL, &answer), STATUS_OK);
	assert_string_equal(answer.id, "elsewhere");
	assert_int_equal(n_taken, 1);
	/* what was handed on once is not again */
	assert_int_equal(get_for(tw, &(struct rpc_behalf){.peer = &n7}, &answer), STATUS_PERMISSION_DENIED);
	assert_string_equal(answer.err.msg, "closed");
	takes = false;
	assert_int_equal(get_for(tw, NULL, &answer), STATUS_PERMISSION_DENIED);
	assert_int_equal(n_taken, 1);
	assert_int_equal(tw->world->n_calls, 0);
}

TLS_TEST(any_server_of_a_cluster_is_expected_by_how_its_identity_begins)
{
	static const struct {
		const char *uri;
		enum status status;
	} rows[] = {
		{"holdfast://lab/server/", STATUS_OK},		 {"holdfast://lab/", STATUS_OK},
		{"holdfast://lab/server/s", STATUS_UNAVAILABLE}, {"holdfast://la/", STATUS_UNAVAILABLE},
		{"holdfast://lab/node/", STATUS_UNAVAILABLE},	 {"", STATUS_UNAVAILABLE},
	};
	struct answer answer;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		rpc_client_free(tw->client);
		tw->client = tls_world_client(tw, tw->node_tls, rows[i].uri);
		assert_int_equal(world_get_now(tw->world, tw->client, "db", &answer), rows[i].status);
		assert_int_equal(rpc_client_may_have_begun(tw->client), rows[i].status == STATUS_OK);
	}
}
