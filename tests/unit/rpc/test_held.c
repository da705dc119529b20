/* SPDX-License-Identifier: Apache-2.0 */
/* What a server holds for peers that do not read or finish: the budgets of one and of all. Who is at the
 * other end of a unix socket is said by a model of the kernel. */

#include "raw.h"

#include "rpc/server_internal.h"

#include <sys/socket.h>

enum {
	HOG = 4000,
	OTHER = 5000,
	ONE_MAX = 1000000, /* bytes held for one */
	ALL_MAX = 4000000, /* and for all */
	ANSWER = 100000,
	SLACK = 10000, /* the calls themselves */
	ASKS = 12,     /* calls of one connection */
	CONNS = 6,     /* of one identity */
	ROUNDS = 1000,
};

static uid_t peer_uid; /* of who connects now */
static struct error told;
static size_t n_reported;
static size_t most_held; /* when it was */

int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *len);

WRAPPED(int, getsockopt, int fd, int level, int name, void *value, socklen_t *len)
{
	int r = __real_getsockopt(fd, level, name, value, len);

	if (r == 0 && level == SOL_SOCKET && name == SO_PEERCRED)
		((struct ucred *)value)->uid = peer_uid;
	return r;
}

static void on_refused(const struct rpc_peer *peer, const struct error *why, void *userdata)
{
	const struct world *world = userdata;

	told = *why;
	n_reported++;
	if (world->server->held_bytes > most_held)
		most_held = world->server->held_bytes;
}

static int setup(void **state)
{
	static const struct rpc_server_limits limits = {.identity_bytes = ONE_MAX, .total_bytes = ALL_MAX};
	struct world *world;

	if (world_setup_with(state, &limits) != 0)
		return -1;
	world = *state;
	world->answer_bytes = ANSWER;
	n_reported = most_held = 0;
	rpc_server_on_refused(world->server, on_refused);
	return 0;
}

/* A connection that asks and does not read. */
struct hog {
	struct raw raw;
	struct raw_answer answers[ASKS];
	size_t n;
};

static struct hog *hog_new(struct world *world, uid_t uid)
{
	struct hog *hog = NON_NULL(calloc(1, sizeof(*hog)));

	peer_uid = uid;
	raw_open(&hog->raw, world, true);
	world_settle(world);
	raw_read(&hog->raw, false);
	return hog;
}

static void hog_free(struct hog *hog)
{
	raw_close(&hog->raw);
	free(hog);
}

static void hog_send(struct hog *hog, const struct raw_request *request)
{
	char byte;

	/* the server may have closed it, which a hog does not see */
	if (send(hog->raw.fd, "", 0, MSG_NOSIGNAL) < 0 ||
	    recv(hog->raw.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0)
		hog->raw.closed = true;
	raw_start(&hog->raw, request, &hog->answers[hog->n++]);
	world_settle(hog->raw.world);
}

static void hog_ask(struct hog *hog, const char *id)
{
	uint8_t frame[64];

	hog_send(hog, &(struct raw_request){.body = frame, .body_len = raw_get_frame(frame, id)});
}

/* A call of somebody else. */
static void others_get_on(struct world *world, uid_t uid)
{
	struct rpc_client *client;
	struct answer answer;

	peer_uid = uid;
	client = world_client(world);
	if (world_get_now(world, client, "db", &answer) != STATUS_OK)
		fail_msg("uid %u: %s", (unsigned int)uid, answer.err.msg);
	assert_int_equal(world_get_now(world, client, "huge", &answer), STATUS_OK);
	rpc_client_free(client);
	world_settle(world);
}

static void everything_is_released(struct world *world)
{
	world_settle(world);
	assert_int_equal(world->server->n_conns, 0);
	assert_int_equal(world->server->held_bytes, 0);
	assert_null(world->server->cut);
	assert_true(RB_EMPTY(&world->server->holders));
}

/* The connections of one identity that leave @id unread, or send @request. */
static void gorge(struct world *world, const char *id, const struct raw_request *request)
{
	struct hog *hogs[CONNS];

	for (size_t i = 0; i < CONNS; i++)
		hogs[i] = hog_new(world, HOG);
	for (size_t k = 0; k < ASKS * CONNS; k++) {
		if (request)
			hog_send(hogs[k % CONNS], request);
		else
			hog_ask(hogs[k % CONNS], id);
		assert_in_range(world->server->held_bytes, 0, ONE_MAX);
	}
	assert_in_range(most_held, ONE_MAX / 2, ONE_MAX + SLACK);
	assert_true(n_reported > 0);
	assert_error(told.status, STATUS_RESOURCE_EXHAUSTED, told, "uid 4000");
	others_get_on(world, OTHER);
	for (size_t i = 0; i < CONNS; i++)
		hog_free(hogs[i]);
	everything_is_released(world);
}

TEST_FIXTURE(unread_answers_stay_within_the_identitys_budget, setup, world_teardown)
{
	gorge(*state, "huge", NULL);
}

TEST_FIXTURE(unfinished_requests_stay_within_the_identitys_budget, setup, world_teardown)
{
	static const uint8_t body[50000] = {0, 0, 1, 0, 0};

	gorge(*state, NULL,
	      &(const struct raw_request){.body = body, .body_len = sizeof(body), .open = true});
}

#define CASE(name) TEST_ON(name, struct world, world, setup, world_teardown)

CASE(an_identity_whose_budget_is_full_is_reported_and_has_its_largest_connection_closed)
{
	struct hog *large = hog_new(world, HOG);
	struct hog *small = hog_new(world, HOG);
	struct hog *other = hog_new(world, OTHER); /* it has more, and all of that may be */
	const struct server_conn *conn;
	struct rpc_client *client;
	struct answer answer;
	struct session session;

	peer_uid = HOG;
	client = world_client(world);
	session_open(&session, world, client);
	session_say(&session, "hello");
	world_run_until_count(world, &session.n_messages, 1);
	for (int i = 0; i < 7; i++)
		hog_ask(large, "huge");
	for (int i = 0; i < 9; i++)
		hog_ask(other, "huge");
	for (int i = 0; i < 2; i++)
		hog_ask(small, "huge");
	assert_int_equal(n_reported, 0);
	/* nothing is left, and who holds nothing gets on */
	LIST_FOREACH (conn, &world->server->conns, all)
		if (conn->peer.uid == HOG)
			world->server->limits.identity_bytes = *peer_count_bytes(conn->holder);
	session_say(&session, "hello");
	world_run_until_count(world, &session.n_messages, 2);
	assert_int_equal(world_get_now(world, client, "db", &answer), STATUS_OK);
	assert_int_equal(n_reported, 0);
	world->server->limits.identity_bytes = ONE_MAX;
	world->answer_bytes = 3 * ANSWER;
	assert_error(world_get_now(world, client, "huge", &answer), STATUS_RESOURCE_EXHAUSTED, answer.err,
		     "uid 4000");
	assert_int_equal(n_reported, 1);
	/* there is room again, and who held little is still there */
	assert_int_equal(world_get_now(world, client, "huge", &answer), STATUS_OK);
	session_say(&session, "hello");
	world_run_until_count(world, &session.n_messages, 3);
	assert_false(session.closed);
	assert_int_equal(world->server->n_conns, 3);
	assert_in_range(world->server->held_bytes, 800000, 1100000);
	rpc_client_free(client);
	hog_free(other);
	hog_free(large);
	hog_free(small);
	everything_is_released(world);
}

/* Flow control has nothing against what the socket takes no more of. */
static void widen(struct hog *hog)
{
	static const nghttp2_settings_entry wide = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 1 << 30};

	assert_int_equal(nghttp2_submit_settings(hog->raw.session, NGHTTP2_FLAG_NONE, &wide, 1), 0);
	assert_int_equal(
		nghttp2_session_set_local_window_size(hog->raw.session, NGHTTP2_FLAG_NONE, 0, 1 << 30), 0);
	raw_flush(&hog->raw);
	world_settle(hog->raw.world);
}

CASE(errors_that_are_not_read_count_as_answers_do)
{
	static char path[900];
	static const struct raw_field fields[] = RAW_POST(path, "application/grpc");
	struct hog *hog = hog_new(world, HOG);

	widen(hog);
	world->answer_bytes = 400000; /* more than the socket takes, and is asked for at once */
	hog_ask(hog, "huge");
	world->server->limits.identity_bytes = world->server->held_bytes + 7000;
	memset(path, '/', sizeof(path) - 1); /* there is no such method, as the error says */
	for (size_t i = 1; i < ASKS && n_reported == 0; i++)
		hog_send(hog, &(struct raw_request){.fields = fields});
	assert_int_equal(n_reported, 1);
	hog_free(hog);
	everything_is_released(world);
}

CASE(many_identities_together_stay_within_the_budget_of_all_and_newcomers_get_on)
{
	enum { MANY = 30 };
	struct hog *hogs[MANY];

	world->answer_bytes = ANSWER / 2; /* more than what is free */
	for (size_t i = 0; i < MANY; i++) {
		hogs[i] = hog_new(world, (uid_t)(HOG + i));
		for (size_t k = 0; k < ASKS; k++) {
			hog_ask(hogs[i], "huge");
			assert_in_range(world->server->held_bytes, 0, ALL_MAX);
		}
		others_get_on(world, (uid_t)(OTHER + i));
	}
	assert_true(n_reported > 0);
	assert_in_range(world->server->held_bytes, ALL_MAX / 4, ALL_MAX);
	for (size_t i = 0; i < MANY; i++)
		hog_free(hogs[i]);
	everything_is_released(world);
}

CASE(an_identity_that_holds_more_than_is_left_gets_nothing_of_it)
{
	struct hog *hog = hog_new(world, HOG);

	for (size_t i = 0; i < 8; i++)
		hog_ask(hog, "huge");
	world->server->limits.total_bytes = world->server->held_bytes + 2 * ANSWER;
	assert_in_range(world->server->held_bytes, 3 * ANSWER, ONE_MAX - 2 * ANSWER);
	hog_ask(hog, "huge");
	assert_error(n_reported, 1, told, "uid 4000");
	others_get_on(world, OTHER);
	hog_free(hog);
	everything_is_released(world);
}

CASE(the_largest_holder_is_closed_when_all_hold_too_much)
{
	struct hog *most[] = {hog_new(world, HOG), hog_new(world, HOG)};
	struct hog *less = hog_new(world, HOG + 1);
	struct hog *asks = hog_new(world, HOG + 2);

	world->server->limits.total_bytes = 1600000;
	for (size_t i = 0; i < 8; i++)
		hog_ask(most[i % 2], "huge");
	for (size_t i = 0; i < 5; i++)
		hog_ask(less, "huge");
	for (size_t i = 0; i < 6 && n_reported == 0; i++)
		hog_ask(asks, "huge");
	assert_error(n_reported, 1, told, "uid 4000");
	assert_int_equal(world->server->n_conns, 3);
	hog_free(most[0]);
	hog_free(most[1]);
	hog_free(less);
	hog_free(asks);
	everything_is_released(world);
}

CASE(ended_connections_free_their_held_memory)
{
	for (size_t i = 0; i < ROUNDS; i++) {
		struct hog *hog = hog_new(world, HOG);

		for (size_t k = 0; k <= i % 3; k++)
			hog_ask(hog, i % 2 ? "huge" : "long");
		if (i % 3 == 2)
			raw_reset(&hog->raw, &hog->answers[0]);
		hog_free(hog);
		everything_is_released(world);
	}
	assert_int_equal(n_reported, 0);
}

CASE(sessions_that_are_idle_hold_nothing)
{
	struct session sessions[5];
	struct rpc_client *clients[5];

	for (size_t i = 0; i < 5; i++) {
		clients[i] = world_client(world);
		session_open(&sessions[i], world, clients[i]);
		session_say(&sessions[i], "hello");
		world_run_until_count(world, &sessions[i].n_messages, 1);
	}
	world_settle(world);
	assert_int_equal(world->server->n_conns, 5);
	assert_int_equal(world->server->held_bytes, 0);
	for (size_t i = 0; i < 5; i++)
		rpc_client_free(clients[i]);
	everything_is_released(world);
}

/* Ask for Volumes/Get by HTTP/1.1 with a body of @n bytes, of which @sent are sent. */
static void ask_h1(struct raw *raw, const char *body, size_t n, size_t sent)
{
	char head[200];

	peer_uid = HOG;
	raw_open(raw, raw->world, false);
	raw_read(raw, false);
	assert_true(str_format(head, sizeof(head),
			       "POST /holdfast.v1.Volumes/Get HTTP/1.1\r\nhost: h\r\n"
			       "content-type: application/json\r\ncontent-length: %zu\r\n\r\n",
			       n) > 0);
	assert_int_equal(raw_send(raw, head, strlen(head)), strlen(head));
	while (sent > 0) {
		size_t some = raw_send(raw, body, sent);

		sent -= some;
		body += some;
		world_settle(raw->world);
	}
	world_settle(raw->world);
}

CASE(unread_or_unfinished_http1_counts_too)
{
	static const char asks[] = "{\"id\": \"huge\"}";
	static char body[200000];
	struct raw raws[10];
	size_t before;

	/* more than any socket takes */
	world->answer_bytes = 700000;
	world->server->limits.identity_bytes = 1500000;
	world->server->limits.total_bytes = 10 * ONE_MAX;
	memset(body, ' ', sizeof(body));
	for (size_t i = 0; i < 10; i++) {
		raws[i].world = world;
		before = world->server->held_bytes;
		if (i < 5)
			ask_h1(&raws[i], asks, strlen(asks), strlen(asks));
		else
			ask_h1(&raws[i], body, sizeof(body), sizeof(body) - 1);
		if (i == 0 || i == 9)
			assert_int_not_equal(world->server->held_bytes, before);
	}
	assert_true(n_reported > 1);
	assert_in_range(most_held, 800000, 1500000 + SLACK);
	others_get_on(world, OTHER);
	for (size_t i = 0; i < 10; i++)
		raw_close(&raws[i]);
	everything_is_released(world);
}
