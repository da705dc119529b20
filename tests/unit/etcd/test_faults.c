/* SPDX-License-Identifier: Apache-2.0 */
/* What goes wrong between the store and etcd: nothing is acknowledged that is not durable, and nothing is
 * written twice. */

#include "etcd_world.h"
#include "proxy.h"

#include "base/clock.h"

#include <sys/socket.h>
#include <sys/un.h>

struct faults {
	struct proxy *proxy;
	char proxy_url[WORLD_URL_SIZE], prefix[32];
	sd_event *event;
	struct part part;
};

TEST_GROUP(etcd_world_setup, etcd_world_teardown)

UNIT_SETUP(setup, struct faults, f)
{
	static int n;

	(void)str_format(f->prefix, sizeof(f->prefix), "/faults/%d", n++);
	(void)str_format(f->proxy_url, sizeof(f->proxy_url), "unix:%s/proxy%d", etcd_world->folder, n);
	f->proxy = proxy_new(f->proxy_url + strlen("unix:"), etcd_world_socket(etcd_world, 0));
	assert_int_equal(sd_event_new(&f->event), 0);
}

UNIT_TEARDOWN(teardown, struct faults, f)
{
	part_stop(&f->part);
	proxy_free(f->proxy);
	sd_event_unref(f->event);
}

static void start(struct faults *f, uint64_t lease_us)
{
	const char *url = f->proxy_url;
	struct etcd_settings settings = part_settings(&url, 1, f->prefix, "s1");

	settings.lease_us = lease_us;
	part_start(&f->part, f->event, &settings);
	part_lead(&f->part);
}

/* Loses nothing to a machine that is slow. */
static int setup_leading(void **state)
{
	(void)setup(state);
	start(*state, 60 * USEC_PER_SEC);
	return 0;
}

struct answer {
	int n;
	uint64_t revision;
	struct error err;
};

static void on_done(uint64_t revision, const struct error *err, void *userdata)
{
	struct answer *answer = userdata;

	answer->n++;
	answer->revision = revision;
	answer->err = err ? *err : (struct error){.status = STATUS_OK};
}

static void put(struct faults *f, const char *key, const char *value, struct answer *answer)
{
	const struct kv_op op = {.key = key, .value = value, .len = strlen(value)};

	*answer = (struct answer){0};
	assert_ok(kv_submit(f->part.kv, &(struct kv_txn){.ops = &op, .n_ops = 1}, on_done, answer, NULL));
}

static void await(struct faults *f, const struct answer *answer)
{
	run_until(f->event, &answer->n, 1);
	assert_int_equal(answer->n, 1);
}

static void put_ok(struct faults *f, const char *key, const char *value)
{
	struct answer answer;

	put(f, key, value, &answer);
	await(f, &answer);
	assert_msg(answer.err.status == STATUS_OK, "%s", answer.err.msg);
}

struct read {
	size_t n;
	char text[1024];
};

static bool add_item(const struct kv_item *item, void *userdata)
{
	struct read *read = userdata;
	size_t at = strlen(read->text);

	read->n++;
	(void)snprintf(read->text + at, sizeof(read->text) - at, "%s=%.*s ", item->key, (int)item->len,
		       (const char *)item->value);
	return true;
}

static void assert_store(struct faults *f, const char *expected)
{
	struct read read = {0};
	struct error err;

	assert_succeeds(kv_range(f->part.kv, "", add_item, &read, &err), err);
	assert_string_equal(read.text, expected);
}

/* A second server, past the proxy. */
static void take_over(struct faults *f, struct part *other)
{
	const char *url = etcd_world->urls[0];
	struct etcd_settings settings = part_settings(&url, 1, f->prefix, "s2");

	part_start(other, f->event, &settings);
	part_lead(other);
}

#define CASE(name) TEST_ON(name, struct faults, f, setup_leading, teardown)

CASE(a_lost_answer_of_a_committed_transaction_is_found_and_not_written_again)
{
	struct answer answer;
	uint64_t before;

	put_ok(f, "a", "1");
	before = kv_revision(f->part.kv);
	proxy_do(f->proxy, PROXY_DROP_ANSWERS);
	put(f, "b", "2", &answer);
	await(f, &answer);
	assert_int_equal(answer.err.status, STATUS_OK);
	assert_int_equal(answer.revision, before + 1); /* one transaction was made of it */
	put_ok(f, "c", "3");
	assert_int_equal(kv_revision(f->part.kv), before + 2);
	assert_store(f, "a=1 b=2 c=3 ");
}

CASE(a_lost_request_is_sent_again)
{
	struct answer answer;
	uint64_t before;

	put_ok(f, "a", "1");
	before = kv_revision(f->part.kv);
	proxy_do(f->proxy, PROXY_DROP_REQUESTS);
	put(f, "b", "2", &answer);
	await(f, &answer);
	assert_int_equal(answer.err.status, STATUS_OK);
	assert_int_equal(answer.revision, before + 1);
	assert_store(f, "a=1 b=2 ");
}

CASE(a_request_that_arrives_late_is_not_a_second_one)
{
	struct answer answer;
	uint64_t before;

	put_ok(f, "a", "1");
	before = kv_revision(f->part.kv);
	proxy_do(f->proxy, PROXY_HOLD_REQUESTS);
	put(f, "a", "2", &answer);
	await(f, &answer); /* it was sent again */
	assert_int_equal(answer.err.status, STATUS_OK);
	put_ok(f, "a", "3");
	proxy_do(f->proxy, PROXY_RELEASE);
	run_for(f->event, 200);
	put_ok(f, "b", "4");
	assert_int_equal(kv_revision(f->part.kv), before + 3);
	assert_store(f, "a=3 b=4 ");
}

/* The lease is long, and so is the time that a member has: the caller is not waited for that long. */
CASE(a_bounded_read_of_an_etcd_that_is_silent_ends_soon)
{
	struct read read = {0};
	struct error err = {0};
	uint64_t start_us;

	put_ok(f, "a", "1");
	proxy_do(f->proxy, PROXY_HOLD_REQUESTS);
	assert_ok(kv_range(f->part.kv, "a", add_item, &read, NULL)); /* it asks until it has an answer */
	assert_string_equal(read.text, "a=1 ");
	kv_bound_reads(f->part.kv);
	assert_ok(kv_range(f->part.kv, "a", add_item, &read, NULL));
	assert_string_equal(read.text, "a=1 a=1 ");
	proxy_do(f->proxy, PROXY_HOLD_REQUESTS);
	start_us = clock_monotonic_us();
	assert_error(kv_range(f->part.kv, "a", add_item, &read, &err), STATUS_UNAVAILABLE, err,
		     "etcd does not answer in time");
	assert_in_range(clock_monotonic_us() - start_us, 0, CALL_MS * USEC_PER_MSEC);
}

CASE(nothing_is_answered_before_the_sequence_key_is_read)
{
	struct answer answers[2];

	put_ok(f, "a", "1");
	proxy_do(f->proxy, PROXY_DROP_ANSWERS);
	put(f, "b", "2", &answers[0]);
	run_for(f->event, 20); /* it is on its way, or there */
	proxy_do(f->proxy, PROXY_REFUSE);
	put(f, "c", "3", &answers[1]);
	run_for(f->event, 3 * CALL_MS);
	assert_int_equal(answers[0].n + answers[1].n, 0);
	proxy_do(f->proxy, PROXY_ACCEPT);
	await(f, &answers[0]);
	await(f, &answers[1]);
	assert_int_equal(answers[0].err.status, STATUS_OK);
	assert_int_equal(answers[1].err.status, STATUS_OK);
	assert_true(answers[1].revision > answers[0].revision);
	assert_store(f, "a=1 b=2 c=3 ");
}

CASE(cut_connections_and_slow_answers_cost_time_only)
{
	struct answer answer;

	proxy_do(f->proxy, PROXY_SLOW);
	for (int i = 0; i < 20; i++) {
		char value[8];

		(void)str_format(value, sizeof(value), "%d", i);
		put(f, "a", value, &answer);
		run_for(f->event, (unsigned int)i % 5);
		proxy_do(f->proxy, PROXY_CUT);
		await(f, &answer);
		assert_int_equal(answer.err.status, STATUS_OK);
	}
	assert_store(f, "a=19 ");
	assert_int_equal(f->part.n_lost, 0);
}

CASE(etcd_may_be_killed_and_started_again)
{
	struct answer answer;

	put_ok(f, "a", "1");
	etcd_world_kill(etcd_world, 0);
	put(f, "a", "2", &answer);
	run_for(f->event, 2 * CALL_MS);
	assert_int_equal(answer.n, 0);
	etcd_world_start(etcd_world, 0);
	await(f, &answer);
	assert_int_equal(answer.err.status, STATUS_OK);
	assert_store(f, "a=2 ");
	assert_int_equal(f->part.n_lost, 0);
}

CASE(records_hidden_from_another_leader_are_not_written)
{
	struct part other;
	struct answer answer;
	char key[64];

	put_ok(f, "a", "1");
	(void)str_format(key, sizeof(key), "%s/leader", f->prefix);
	etcd_world_put(etcd_world->urls[0], key, NULL); /* as if the lease were over */
	take_over(f, &other);
	assert_true(etcd_is_leading(f->part.etcd)); /* for all that it knows */
	put(f, "a", "2", &answer);
	await(f, &answer);
	assert_error(answer.err.status, STATUS_FAILED_PRECONDITION, answer.err, "not the leader");
	run_until(f->event, &f->part.n_lost, 1);
	assert_int_equal(f->part.lost.status, STATUS_FAILED_PRECONDITION);
	assert_false(etcd_is_leading(f->part.etcd));
	put(f, "a", "3", &answer); /* broken for ever */
	await(f, &answer);
	assert_int_equal(answer.err.status, STATUS_FAILED_PRECONDITION);
	part_stop(&f->part);
	f->part = other;
	f->part.kv = other.kv;
	assert_store(f, "a=1 ");
	part_stop(&other);
	f->part = (struct part){0};
}

CASE(a_sequence_key_that_somebody_wrote_ends_the_lead)
{
	struct answer answer;
	char key[64];

	put_ok(f, "a", "1");
	(void)str_format(key, sizeof(key), "%s/sequence", f->prefix);
	etcd_world_put(etcd_world->urls[0], key, "0 99");
	put(f, "a", "2", &answer);
	await(f, &answer);
	assert_int_equal(answer.err.status, STATUS_FAILED_PRECONDITION);
	run_until(f->event, &f->part.n_lost, 1);
}

CASE(conditions_are_checked_whatever_is_lost)
{
	const struct kv_condition is_new = {.key = "a"};
	const struct kv_op op = {.key = "a", .value = "1", .len = 1};
	const struct kv_txn txn = {&is_new, 1, &op, 1};
	struct answer answer = {0};

	put_ok(f, "z", "1");
	proxy_do(f->proxy, PROXY_DROP_ANSWERS);
	assert_int_equal(kv_submit(f->part.kv, &txn, on_done, &answer, NULL), STATUS_OK);
	await(f, &answer);
	assert_int_equal(answer.err.status, STATUS_OK); /* it created the key itself */
	answer.n = 0;
	proxy_do(f->proxy, PROXY_DROP_ANSWERS);
	assert_int_equal(kv_submit(f->part.kv, &txn, on_done, &answer, NULL), STATUS_OK);
	await(f, &answer);
	assert_error(answer.err.status, STATUS_ABORTED, answer.err, "key a exists already");
}

CASE(a_full_etcd_keeps_pending_changes_until_there_is_room)
{
	struct answer answer;

	put_ok(f, "a", "1");
	assert_false(kv_stats(f->part.kv).is_full);
	etcd_world_alarm(etcd_world->urls[0], true);
	put(f, "a", "2", &answer);
	RUN_UNTIL(f->event, kv_stats(f->part.kv).is_full);
	run_for(f->event, 3000);
	assert_int_equal(answer.n, 0); /* neither stored nor failed */
	assert_int_equal(f->part.n_lost, 0);
	assert_true(kv_stats(f->part.kv).pending_us >= 3000 * USEC_PER_MSEC);
	etcd_world_alarm(etcd_world->urls[0], false);
	await(f, &answer);
	assert_int_equal(answer.err.status, STATUS_OK);
	assert_false(kv_stats(f->part.kv).is_full);
	assert_int_equal(kv_stats(f->part.kv).pending_us, 0);
}

static void fill(struct faults *f, int n)
{
	for (int i = 0; i < n; i++) {
		char key[16];
		const struct kv_op op = {.key = key, .value = "v", .len = 1};

		(void)str_format(key, sizeof(key), "k%05d", i);
		assert_ok(kv_submit(f->part.kv, &(struct kv_txn){.ops = &op, .n_ops = 1}, NULL, NULL, NULL));
	}
	put_ok(f, "last", "v");
}

static bool compact_once(const struct kv_item *item, void *userdata)
{
	int *n = userdata;

	if ((*n)++ == 0)
		etcd_world_compact(etcd_world->urls[0]);
	return true;
}

static bool count(const struct kv_item *item, void *userdata)
{
	(*(int *)userdata)++;
	return true;
}

CASE(a_range_that_a_compaction_overtook_reports_it)
{
	struct error err;
	int n = 0;

	fill(f, 17000);
	assert_error(kv_range(f->part.kv, "", compact_once, &n, &err), STATUS_UNAVAILABLE, err,
		     "etcd was compacted while it was read");
	n = 0;
	assert_int_equal(kv_range(f->part.kv, "", count, &n, &err), STATUS_OK);
	assert_int_equal(n, 17001);
	n = 0;
	assert_int_equal(kv_range_from(f->part.kv, "k", "k00100", 9000, count, &n, &err), STATUS_OK);
	assert_int_equal(n, 9000);
	put_ok(f, "a", "1"); /* nothing else takes harm */
}

CASE(a_changed_value_is_data_loss)
{
	struct error err;
	char key[64];
	int n = 0;

	put_ok(f, "a", "1");
	(void)str_format(key, sizeof(key), "%s/e/1/a", f->prefix);
	etcd_world_put(etcd_world->urls[0], key, "XXXXXXXX1");
	assert_error(kv_range(f->part.kv, "", count, &n, &err), STATUS_DATA_LOSS, err, "/e/1/a is damaged");
	assert_int_equal(n, 0);
}

struct refusal {
	const char *key; /* behind the prefix */
	const char *value, *message;
};

TEST_ON(a_prefix_that_is_not_this_clusters_is_refused, struct faults, f, setup, teardown)
{
	static const struct refusal cases[] = {
		{"schema", "holdfast-store 2 lab", "has schema 2, this version knows up to 1; upgrade it"},
		{"schema", "holdfast-store 1 prod", "is cluster prod's, and this is lab"},
		{"schema", "x", "is not of a store of Holdfast"},
		{"registry/pods", "x", "registry/pods, and no store of Holdfast at"},
	};
	const char *url = f->proxy_url;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char prefix[64], key[128];
		struct etcd_settings settings = part_settings(&url, 1, prefix, "s1");
		struct error err = {0};

		(void)str_format(prefix, sizeof(prefix), "%s/case%zu", f->prefix, i);
		(void)str_format(key, sizeof(key), "%s/%s", prefix, cases[i].key);
		etcd_world_put(etcd_world->urls[0], key, cases[i].value);
		part_start(&f->part, f->event, &settings);
		run_until(f->event, &f->part.n_leading, 1);
		assert_int_equal(kv_open_etcd(f->part.etcd, &f->part.kv, &err), STATUS_FAILED_PRECONDITION);
		assert_msg(strstr(err.msg, cases[i].message), "%s", err.msg);
		part_stop(&f->part);
	}
}

TEST_ON(invalid_endpoints_are_refused, struct faults, f, setup, teardown)
{
	static const char *const urls[] = {
		"http://localhost:2379", "https://localhost:2379", "https://:1", "unix:relative", "",
		"localhost:2379"};

	for (size_t i = 0; i < ARRAY_SIZE(urls); i++) {
		const struct etcd_settings settings = part_settings(&urls[i], 1, f->prefix, "s1");
		const struct etcd_events events = {0};
		struct etcd *etcd = NULL;
		struct error err;

		assert_error(etcd_new(f->event, &settings, &events, NULL, &etcd, &err),
			     STATUS_INVALID_ARGUMENT, err, "is no endpoint");
	}
}

TEST_ON(an_endpoint_without_a_listener_is_named, struct faults, f, setup, teardown)
{
	const char *url = "unix:/nonexistent/etcd";
	struct etcd_settings settings = part_settings(&url, 1, f->prefix, "s1");

	part_start(&f->part, f->event, &settings);
	run_until(f->event, &f->part.n_trouble, 1);
	assert_int_equal(f->part.trouble.status, STATUS_UNAVAILABLE);
	assert_non_null(strstr(f->part.trouble.msg, "/nonexistent/etcd"));
	assert_int_equal(f->part.n_leading, 0);
}

enum { MEMBER_LEASE_S = 8, ENDPOINTS = 4 };

/* Takes connections and never answers. */
static int listen_silently(const struct faults *f, int n, char url[static WORLD_URL_SIZE])
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)str_format(url, WORLD_URL_SIZE, "%s-silent%d", f->proxy_url, n);
	assert_int_equal(str_copy(address.sun_path, sizeof(address.sun_path), url + strlen("unix:")), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fd, 16), 0);
	return fd;
}

/* As while etcd elects a leader of its own: the member that was asked hangs, and so do the next two. */
TEST_ON(a_lease_is_extended_by_the_one_member_that_answers, struct faults, f, setup, teardown)
{
	char silent[2][WORLD_URL_SIZE];
	const int fds[2] = {listen_silently(f, 0, silent[0]), listen_silently(f, 1, silent[1])};
	const char *urls[ENDPOINTS] = {f->proxy_url, silent[0], silent[1], etcd_world->urls[0]};
	struct etcd_settings settings = part_settings(urls, ENDPOINTS, f->prefix, "s1");

	settings.lease_us = MEMBER_LEASE_S * USEC_PER_SEC;
	settings.call_us = settings.lease_us / 4; /* as a server's */
	part_start(&f->part, f->event, &settings);
	part_lead(&f->part);
	proxy_do(f->proxy, PROXY_DROP_REQUESTS);
	run_for(f->event, MEMBER_LEASE_S * 1000);
	assert_int_equal(f->part.n_lost, 0);
	assert_true(etcd_is_leading(f->part.etcd));
	put_ok(f, "a", "1");
	(void)close(fds[0]);
	(void)close(fds[1]);
}
