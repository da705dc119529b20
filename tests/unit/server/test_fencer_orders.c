/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast-fencer between its session and its agents: what it does with an order. The test is the server, and
 * ends each action of an agent. */

#include "folder.h"
#include "unit.h"
#include "unit_loop.h"

#include "base/fd.h"
#include "base/str.h"
#include "fencer/agent.h"
#include "fencer/fencer.h"
#include "model/fence_order.h"
#include "rpc/client.h"

#include <holdfast/v1/fences.pb-c.h>
#include <openssl/evp.h>

#define WRAPPED(type, name, ...)         \
	type __wrap_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__)

enum { ANSWERS_MAX = 8, HOUR_MS = 3600 * 1000 };

/* What the fencer has done last. */
static struct {
	const struct rpc_stream_events *events; /* of its session; NULL: none is open */
	void *fencer;
	agent_done_fn *done; /* of the action in flight; NULL: none is */
	void *of;
	enum agent_action action;
	size_t n_actions[AGENT_ACTION_N];
	Holdfast__V1__FenceAnswer *answers[ANSWERS_MAX];
	size_t n;
	char check_error[AGENT_ERROR_SIZE];
} seen;

static struct rpc_stream *const a_stream = (void *)&seen;

WRAPPED(enum status, rpc_tls_new, const struct rpc_tls_files *files, struct rpc_tls **ret, struct error *err)
{
	return STATUS_OK;
}

WRAPPED(enum status, rpc_client_new, sd_event *event, const struct rpc_endpoint *endpoint,
	struct rpc_client **ret, struct error *err)
{
	return STATUS_OK;
}

WRAPPED(void, rpc_client_free, struct rpc_client *client)
{
}

WRAPPED(bool, rpc_tls_has_changed, const struct rpc_tls *tls)
{
	return false;
}

WRAPPED(const char *, rpc_client_server, const struct rpc_client *client)
{
	return "s1";
}

WRAPPED(void, rpc_client_set_keepalive, struct rpc_client *client, uint64_t interval_us)
{
}

WRAPPED(void, rpc_stream_cancel, struct rpc_stream *stream)
{
	seen.events = NULL;
}

WRAPPED(enum status, rpc_stream_open, struct rpc_client *client, const ProtobufCServiceDescriptor *service,
	const char *method, uint64_t connect_timeout_us, const struct rpc_stream_events *events,
	void *userdata, struct rpc_stream **ret, struct error *err)
{
	seen.events = events;
	seen.fencer = userdata;
	*ret = a_stream;
	return STATUS_OK;
}

WRAPPED(enum status, rpc_stream_send, struct rpc_stream *stream, const ProtobufCMessage *message,
	struct error *err)
{
	const Holdfast__V1__FencerUp *up = (const void *)message;
	uint8_t bytes[4096];
	size_t n;

	if (up->message_case == HOLDFAST__V1__FENCER_UP__MESSAGE_NODE)
		str_copy_text(seen.check_error, sizeof(seen.check_error), up->node->error);
	if (up->message_case != HOLDFAST__V1__FENCER_UP__MESSAGE_ANSWER)
		return STATUS_OK;
	assert_true(holdfast__v1__fence_answer__get_packed_size(up->answer) <= sizeof(bytes));
	assert_true(seen.n < ANSWERS_MAX);
	n = holdfast__v1__fence_answer__pack(up->answer, bytes);
	seen.answers[seen.n++] = NON_NULL(holdfast__v1__fence_answer__unpack(NULL, n, bytes));
	return STATUS_OK;
}

WRAPPED(enum status, agent_start, sd_event *event, const char *agent_dir, const struct fencer_node *node,
	enum agent_action action, agent_done_fn *done, void *userdata, struct agent_run **ret,
	struct error *err)
{
	assert_null(seen.done);
	seen.done = done;
	seen.of = userdata;
	seen.action = action;
	seen.n_actions[action]++;
	*ret = (void *)&seen;
	return STATUS_OK;
}

WRAPPED(void, agent_cancel, struct agent_run *run)
{
	if (run)
		seen.done = NULL;
}

/* --- the world --- */

struct ordered {
	char dir[FOLDER_SIZE];
	sd_event *event;
	struct fencer_settings settings;
	struct fencer *fencer;
	EVP_PKEY *key;
	uint8_t n_orders;
};

static void start(struct ordered *w)
{
	struct error err;

	assert_succeeds(fencer_new(w->event, &w->settings, &w->fencer, &err), err);
}

UNIT_SETUP(setup_ordered, struct ordered, w)
{
	size_t n = FENCE_ORDER_KEY_SIZE;
	char text[512];
	struct error err;

	memset(&seen, 0, sizeof(seen));
	folder_make(w->dir);
	assert_true(sd_event_new(&w->event) >= 0);
	(void)str_format(text, sizeof(text),
			 "name = \"f1\"\ncluster = \"c1\"\nservers = [\"s1:1\"]\nticket_keys = [\"%064d\"]\n"
			 "state_dir = \"%s\"\ncheck_interval = \"1h\"\n"
			 "node \"n1\" {\n  agent = \"fence_test\"\n  options {\n    ip = \"a\"\n  }\n}\n",
			 0, w->dir);
	assert_succeeds(fencer_settings_parse(text, "fencer.hcl", &w->settings, &err), err);
	w->key = NON_NULL(EVP_PKEY_Q_keygen(NULL, NULL, "ED25519"));
	assert_int_equal(EVP_PKEY_get_raw_public_key(w->key, w->settings.keys[0], &n), 1);
	start(w);
}

UNIT_TEARDOWN(teardown_ordered, struct ordered, w)
{
	fencer_free(w->fencer);
	fencer_settings_release(&w->settings);
	EVP_PKEY_free(w->key);
	for (size_t i = 0; i < seen.n; i++)
		holdfast__v1__fence_answer__free_unpacked(seen.answers[i], NULL);
	folder_remove(w->dir);
	(void)sd_event_unref(w->event);
}

#define ORDERED_TEST(name) TEST_ON(name, struct ordered, w, setup_ordered, teardown_ordered)

/* Its session; at once, whatever its back-off. */
static void connect(struct ordered *w)
{
	Holdfast__V1__FencerWelcome welcome = HOLDFAST__V1__FENCER_WELCOME__INIT;
	Holdfast__V1__FencerDown down = HOLDFAST__V1__FENCER_DOWN__INIT;
	char cluster[] = "c1";

	RUN_UNTIL(w->event, seen.events);
	seen.events->on_open(a_stream, seen.fencer);
	welcome.cluster = cluster;
	welcome.heartbeat_ms = HOUR_MS;
	welcome.clock_ms = clock_realtime_ms();
	down.message_case = HOLDFAST__V1__FENCER_DOWN__MESSAGE_WELCOME;
	down.welcome = &welcome;
	seen.events->on_message(a_stream, &down.base, seen.fencer);
}

static void disconnect(void)
{
	const struct rpc_stream_events *events = seen.events;

	seen.events = NULL;
	events->on_closed(a_stream, STATUS_OK, NULL, seen.fencer);
}

static struct fence_order an_order(struct ordered *w, enum fence_order_action action)
{
	struct fence_order order = {.magic = FENCE_ORDER_MAGIC,
				    .version = FENCE_ORDER_VERSION,
				    .action = (uint8_t)action,
				    .cluster = "c1",
				    .fencer = "f1",
				    .node = "n1",
				    .who = "ann",
				    .not_after_ms = (uint64_t)clock_realtime_ms() + FENCE_ORDER_VALID_MS,
				    .nonce = {++w->n_orders}};
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	size_t n = sizeof(order.signature);

	assert_int_equal(EVP_DigestSignInit(ctx, NULL, NULL, NULL, w->key), 1);
	assert_int_equal(
		EVP_DigestSign(ctx, order.signature, &n, (const uint8_t *)&order, FENCE_ORDER_SIGNED_SIZE),
		1);
	EVP_MD_CTX_free(ctx);
	return order;
}

static void send(const struct fence_order *order)
{
	Holdfast__V1__FencerDown down = HOLDFAST__V1__FENCER_DOWN__INIT;

	down.message_case = HOLDFAST__V1__FENCER_DOWN__MESSAGE_ORDER;
	down.order = (ProtobufCBinaryData){sizeof(*order), (uint8_t *)(uintptr_t)order};
	seen.events->on_message(a_stream, &down.base, seen.fencer);
}

/* The action in flight ends, and is the one that was expected. */
static void end(enum agent_action action, enum fence_outcome outcome, const char *output)
{
	struct agent_result result = {.outcome = outcome, .output = output};
	agent_done_fn *done = NON_NULL(seen.done);

	assert_int_equal(seen.action, action);
	if (outcome == FENCE_OUTCOME_FAILED)
		str_copy_text(result.error, sizeof(result.error), "it failed");
	seen.done = NULL;
	done(&result, seen.of);
}

#define METADATA "<resource-agent><parameter name=\"ip\">"

/* The first check finds no fault. */
static void check(struct ordered *w)
{
	RUN_UNTIL(w->event, seen.done);
	end(AGENT_METADATA, FENCE_OUTCOME_DONE, METADATA);
	end(AGENT_MONITOR, FENCE_OUTCOME_DONE, "");
	run_idle(w->event);
	assert_null(seen.done);
}

/* --- age --- */

ORDERED_TEST(an_order_that_was_begun_is_answered_whatever_its_age)
{
	struct fence_order order = an_order(w, FENCE_ORDER_OFF);
	const struct fence_order late = an_order(w, FENCE_ORDER_OFF);

	connect(w);
	check(w);
	send(&order);
	unit_clock_advance((FENCE_ORDER_VALID_MS + 1000) * USEC_PER_MSEC);
	disconnect();
	connect(w);
	send(&order); /* it runs: its answer follows */
	send(&late);
	assert_int_equal(seen.n, 1);
	assert_true(seen.answers[0]->refused);
	assert_non_null(strstr(seen.answers[0]->error, "expired"));
	disconnect();
	end(AGENT_OFF, FENCE_OUTCOME_DONE, "");
	end(AGENT_STATUS, FENCE_OUTCOME_IS_OFF, "");
	connect(w);
	unit_clock_advance((uint64_t)24 * HOUR_MS * USEC_PER_MSEC);
	send(&order); /* its proof is on the disk */
	assert_int_equal(seen.n, 2);
	assert_false(seen.answers[1]->refused);
	assert_int_equal(seen.answers[1]->status, HOLDFAST__V1__FENCE_OUTCOME__FENCE_OUTCOME_OFF);
	w->settings.nodes[0].id[0] = 'x'; /* as after a start with another file */
	send(&order);
	assert_int_equal(seen.answers[2]->status, HOLDFAST__V1__FENCE_OUTCOME__FENCE_OUTCOME_OFF);
	assert_int_equal(seen.n_actions[AGENT_OFF], 1);
}

ORDERED_TEST(an_order_that_was_interrupted_is_unsure_whatever_its_age)
{
	const struct fence_order order = an_order(w, FENCE_ORDER_OFF);

	connect(w);
	check(w);
	send(&order);
	fencer_free(w->fencer);
	start(w);
	connect(w);
	unit_clock_advance((FENCE_ORDER_VALID_MS + 1000) * USEC_PER_MSEC);
	send(&order);
	assert_int_equal(seen.n, 1);
	assert_true(seen.answers[0]->unsure);
	assert_false(seen.answers[0]->refused);
	assert_int_equal(seen.n_actions[AGENT_OFF], 1);
}

ORDERED_TEST(an_order_whose_answer_cannot_be_read_is_unsure)
{
	const struct fence_order order = an_order(w, FENCE_ORDER_OFF);
	char path[256], nonce[2 * FENCE_ORDER_NONCE_SIZE + 1];

	connect(w);
	check(w);
	hex_encode(nonce, order.nonce, sizeof(order.nonce));
	(void)str_format(path, sizeof(path), "%s/%020llu-%s", w->dir, (unsigned long long)order.not_after_ms,
			 nonce);
	assert_int_equal(file_write_atomic(path, 0600, "\xff\xff", 2), 0);
	send(&order);
	assert_int_equal(seen.n, 1);
	assert_true(seen.answers[0]->unsure);
	assert_false(seen.answers[0]->refused);
}

/* --- metadata first --- */

static void expect_refusal(size_t n, const char *part)
{
	assert_int_equal(seen.n, n);
	assert_true(seen.answers[n - 1]->refused);
	assert_non_null(strstr(seen.answers[n - 1]->error, part));
	assert_null(seen.done);
}

ORDERED_TEST(an_agent_that_lacks_an_option_of_the_node_is_not_run_for_an_order)
{
	const struct fence_order off = an_order(w, FENCE_ORDER_OFF), test = an_order(w, FENCE_ORDER_TEST);

	connect(w);
	RUN_UNTIL(w->event, seen.done);
	end(AGENT_METADATA, FENCE_OUTCOME_DONE, "<resource-agent>");
	assert_string_equal(seen.check_error, "fence_test has no option 'ip'");
	send(&off);
	send(&off); /* its answer follows */
	end(AGENT_METADATA, FENCE_OUTCOME_DONE, "<resource-agent>");
	expect_refusal(1, "no option 'ip'");
	send(&test);
	end(AGENT_METADATA, FENCE_OUTCOME_DONE, "<resource-agent>");
	expect_refusal(2, "no option 'ip'");
	send(&off);
	end(AGENT_METADATA, FENCE_OUTCOME_FAILED, "");
	expect_refusal(3, "it failed");
	send(&off); /* was not begun */
	end(AGENT_METADATA, FENCE_OUTCOME_DONE, METADATA);
	end(AGENT_OFF, FENCE_OUTCOME_DONE, "");
	end(AGENT_STATUS, FENCE_OUTCOME_IS_OFF, "");
	assert_int_equal(seen.answers[3]->status, HOLDFAST__V1__FENCE_OUTCOME__FENCE_OUTCOME_OFF);
	assert_int_equal(seen.n_actions[AGENT_OFF], 1);
}

ORDERED_TEST(an_order_that_expires_during_the_metadata_is_refused)
{
	const struct fence_order order = an_order(w, FENCE_ORDER_OFF);

	connect(w);
	send(&order);
	unit_clock_advance(FENCE_ORDER_VALID_MS * USEC_PER_MSEC);
	end(AGENT_METADATA, FENCE_OUTCOME_DONE, METADATA);
	expect_refusal(1, "expired");
}

ORDERED_TEST(an_order_that_has_expired_ends_no_check)
{
	const struct fence_order order = an_order(w, FENCE_ORDER_OFF);

	connect(w);
	RUN_UNTIL(w->event, seen.done);
	unit_clock_advance(FENCE_ORDER_VALID_MS * USEC_PER_MSEC);
	send(&order);
	assert_non_null(strstr(seen.answers[0]->error, "expired"));
	end(AGENT_METADATA, FENCE_OUTCOME_DONE, METADATA);
	end(AGENT_MONITOR, FENCE_OUTCOME_DONE, "");
}

/* --- several orders --- */

ORDERED_TEST(a_test_makes_way_for_an_order_to_switch_off)
{
	const struct fence_order off = an_order(w, FENCE_ORDER_OFF), test = an_order(w, FENCE_ORDER_TEST);
	const struct fence_order other = an_order(w, FENCE_ORDER_OFF);

	connect(w);
	check(w);
	send(&test);
	send(&off);
	assert_int_equal(seen.n, 1);
	assert_true(seen.answers[0]->refused);
	assert_memory_equal(seen.answers[0]->nonce.data, test.nonce, sizeof(test.nonce));
	send(&test);
	send(&other);
	assert_int_equal(seen.n, 3);
	assert_true(seen.answers[1]->refused && seen.answers[2]->refused);
	end(AGENT_OFF, FENCE_OUTCOME_DONE, "");
	end(AGENT_STATUS, FENCE_OUTCOME_IS_OFF, "");
	assert_memory_equal(seen.answers[3]->nonce.data, off.nonce, sizeof(off.nonce));
	assert_int_equal(seen.n_actions[AGENT_OFF], 1);
}

/* --- checks --- */

ORDERED_TEST(a_round_of_checks_begins_every_check_interval)
{
	connect(w);
	check(w);
	unit_clock_advance(w->settings.check_interval_us);
	RUN_UNTIL(w->event, seen.done);
	unit_clock_advance(w->settings.check_interval_us - USEC_PER_SEC); /* the switch answers late */
	run_idle(w->event);
	end(AGENT_MONITOR, FENCE_OUTCOME_DONE, "");
	run_idle(w->event);
	assert_null(seen.done);
	unit_clock_advance(2 * USEC_PER_SEC);
	RUN_UNTIL(w->event, seen.done);
	unit_clock_advance(2 * w->settings.check_interval_us); /* too late */
	end(AGENT_MONITOR, FENCE_OUTCOME_DONE, "");
	RUN_UNTIL(w->event, seen.done);
}
