/* SPDX-License-Identifier: Apache-2.0 */
/* The copy that a follower keeps has what the store has when it leads, or says that it has not. */

#include "etcd_world.h"
#include "proxy.h"

#include "base/clock.h"
#include "base/parse.h"

enum { KEYS = 40, VALUE_SIZE = 16, ROUNDS = 200, OPS = 6 };

/* Key "a/N" or "b/N". */
struct records {
	char values[2][KEYS][VALUE_SIZE]; /* "": absent */
	uint64_t revisions[2][KEYS];
};

struct follower {
	sd_event *event;
	struct etcd *etcd;
	struct records records;
	int n_leading;
	int n_begun;   /* copies */
	int n_records; /* that it was told of */
	bool refuses;  /* the next record */
};

struct copies {
	sd_event *event;
	struct proxy *proxy;
	char proxy_url[WORLD_URL_SIZE], prefix[32];
	struct part leader;
	struct follower follower;
	int n_done;
	unsigned int n_value;
};

TEST_GROUP(etcd_world_setup, etcd_world_teardown)

/* --- who follows --- */

static uint32_t index_of(const char *key)
{
	uint32_t index = 0;

	assert_int_equal(parse_u32(key + 2, 0, KEYS - 1, &index), 0);
	return index;
}

static void put(struct records *records, const struct kv_item *item)
{
	int kind = item->key[0] - 'a';
	uint32_t index = index_of(item->key);

	assert_in_range(kind, 0, 1);
	assert_true(item->len < VALUE_SIZE);
	memset(records->values[kind][index], 0, VALUE_SIZE);
	if (item->value)
		memcpy(records->values[kind][index], item->value, item->len);
	records->revisions[kind][index] = item->value ? item->mod_revision : 0;
}

static const char *copied(size_t i)
{
	static const char *const prefixes[] = {"c/", "d/", "b/", "a/"}; /* the first two are read at once */

	return i < ARRAY_SIZE(prefixes) ? prefixes[i] : NULL;
}

static void on_copy(void *userdata)
{
	struct follower *follower = userdata;

	follower->n_begun++;
	follower->records = (struct records){0};
}

static bool on_record(const struct kv_item *item, void *userdata)
{
	struct follower *follower = userdata;

	follower->n_records++;
	if (follower->refuses) {
		follower->refuses = false;
		return false;
	}
	put(&follower->records, item);
	return true;
}

static void on_leading(void *userdata)
{
	struct follower *follower = userdata;

	follower->n_leading++;
}

static void on_follow(const char *leader, int64_t since_ms, void *userdata)
{
}

static void on_trouble(const struct error *why, void *userdata)
{
}

static void on_lost(const struct error *why, void *userdata)
{
	fail_msg("the lead is lost: %s", why->msg);
}

static void follow(struct copies *c, const char *url)
{
	static const struct etcd_events events = {.on_leading = on_leading,
						  .on_lost = on_lost,
						  .on_follow = on_follow,
						  .on_trouble = on_trouble,
						  .copied = copied,
						  .on_copy = on_copy,
						  .on_record = on_record};
	struct etcd_settings settings = part_settings(&url, 1, c->prefix, "s2");
	struct error err;

	settings.lease_us = USEC_PER_SEC; /* it begins to read soon */
	assert_succeeds(etcd_new(c->event, &settings, &events, &c->follower, &c->follower.etcd, &err), err);
}

/* --- who leads --- */

UNIT_SETUP(setup, struct copies, c)
{
	static int n;
	const char *url = etcd_world->urls[0];
	struct etcd_settings settings;

	(void)str_format(c->prefix, sizeof(c->prefix), "/copies/%d", n++);
	(void)str_format(c->proxy_url, sizeof(c->proxy_url), "unix:%s/copy%d", etcd_world->folder, n);
	c->proxy = proxy_new(c->proxy_url + strlen("unix:"), etcd_world_socket(etcd_world, 0));
	assert_int_equal(sd_event_new(&c->event), 0);
	settings = part_settings(&url, 1, c->prefix, "s1");
	settings.lease_us = 60 * USEC_PER_SEC;
	part_start(&c->leader, c->event, &settings);
	part_lead(&c->leader);
}

UNIT_TEARDOWN(teardown, struct copies, c)
{
	if (c->leader.etcd)
		part_stop(&c->leader);
	etcd_free(c->follower.etcd);
	proxy_free(c->proxy);
	sd_event_unref(c->event);
}

static void on_done(uint64_t revision, const struct error *err, void *userdata)
{
	struct copies *c = userdata;

	assert_msg(!err, "%s", err->msg);
	c->n_done++;
}

/* One transaction that puts (or deletes) the keys. */
static void write_keys(struct copies *c, struct kv *kv, const char *const *keys, size_t n, bool is_put)
{
	char values[OPS][VALUE_SIZE];
	struct kv_op ops[OPS];

	for (size_t i = 0; i < n; i++) {
		(void)str_format(values[i], VALUE_SIZE, "v%u", c->n_value++);
		ops[i] = (struct kv_op){.key = keys[i],
					.value = is_put ? values[i] : NULL,
					.len = is_put ? strlen(values[i]) : 0};
	}
	assert_ok(kv_submit(kv, &(struct kv_txn){.ops = ops, .n_ops = n}, on_done, c, NULL));
}

static void write_key(struct copies *c, const char *key, bool is_put)
{
	int n = c->n_done;

	write_keys(c, c->leader.kv, &key, 1, is_put);
	run_until(c->event, &c->n_done, n + 1);
}

static void until_value(struct copies *c, const char *key, bool is_there)
{
	const uint64_t end = clock_monotonic_us() + 10 * USEC_PER_SEC;

	while ((c->follower.records.values[key[0] - 'a'][index_of(key)][0] != '\0') != is_there) {
		assert_true(clock_monotonic_us() < end);
		assert_true(sd_event_run(c->event, 10 * USEC_PER_MSEC) >= 0);
	}
}

static bool add_item(const struct kv_item *item, void *userdata)
{
	put(userdata, item);
	return true;
}

/* Whoever followed leads, with the store open. */
static struct kv *take_over(struct copies *c)
{
	struct kv *kv;
	struct error err;

	part_stop(&c->leader);
	run_until(c->event, &c->follower.n_leading, 1);
	assert_succeeds(kv_open_etcd(c->follower.etcd, &kv, &err), err);
	return kv;
}

static void expect_copy(struct copies *c, struct kv *kv)
{
	static struct records stored;
	struct error err;

	assert_true(etcd_copy_finish(c->follower.etcd));
	stored = (struct records){0};
	if (kv_range(kv, "a/", add_item, &stored, &err) != STATUS_OK ||
	    kv_range(kv, "b/", add_item, &stored, &err) != STATUS_OK)
		fail_msg("%s", err.msg);
	assert_memory_equal(&stored, &c->follower.records, sizeof(stored));
}

/* --- cases --- */

#define CASE(name) TEST_ON(name, struct copies, c, setup, teardown)

CASE(existing_records_and_changes_are_copied)
{
	struct kv *kv;

	write_key(c, "a/1", true);
	write_key(c, "b/2", true);
	follow(c, etcd_world->urls[0]);
	until_value(c, "a/1", true);
	assert_string_equal(c->follower.records.values[1][2], "v1");
	write_key(c, "a/1", false);
	write_key(c, "audit/3", true); /* which is not copied */
	write_key(c, "a/3", true);
	until_value(c, "a/1", false);
	until_value(c, "a/3", true);
	kv = take_over(c);
	expect_copy(c, kv);
	assert_false(etcd_copy_finish(c->follower.etcd)); /* not followed any more */
	kv_close(kv);
	assert_int_equal(c->follower.n_begun, 1);
}

CASE(the_first_write_of_a_new_leader_is_in_its_copy)
{
	static const char *const keys[] = {"a/7", "b/7"};
	struct kv *kv;
	int n;

	write_key(c, "a/1", true);
	follow(c, etcd_world->urls[0]);
	until_value(c, "a/1", true);
	kv = take_over(c);
	n = c->n_done;
	write_keys(c, kv, keys, ARRAY_SIZE(keys), true);
	run_until(c->event, &c->n_done, n + 1);
	expect_copy(c, kv);
	assert_int_not_equal(c->follower.records.values[0][7][0], '\0');
	kv_close(kv);
}

/* Random transactions, many of them in one of etcd, the lead taken at any moment. */
CASE(a_copy_of_random_changes_is_the_store)
{
	uint64_t seed = 7;
	struct kv *kv;

	follow(c, etcd_world->urls[0]);
	for (int round = 0; round < ROUNDS; round++) {
		char names[OPS][8];
		const char *keys[OPS];
		size_t n = 0;

		for (size_t i = 0; i < OPS; i++) {
			seed = seed * UINT64_C(6364136223846793005) + 1;
			(void)str_format(names[n], sizeof(names[n]), "%c/%u", 'a' + (int)(seed >> 63),
					 (unsigned int)(seed >> 33) % KEYS);
			keys[n] = names[n];
			n++;
			for (size_t k = 0; k + 1 < n; k++)
				if (str_eq(names[k], names[n - 1])) {
					n--;
					break;
				}
		}
		write_keys(c, c->leader.kv, keys, n, (seed >> 40) % 3 > 0);
		if (round % 5 == 0)
			run_for(c->event, 5);
		if (round == ROUNDS / 4)
			run_for(c->event, 700); /* the copy begins */
	}
	run_until(c->event, &c->n_done, ROUNDS);
	kv = take_over(c);
	expect_copy(c, kv);
	assert_true(c->follower.n_records > ROUNDS);
	kv_close(kv);
}

CASE(a_watch_that_breaks_continues_where_it_was)
{
	struct kv *kv;

	write_key(c, "a/1", true);
	write_key(c, "a/2", true);
	follow(c, c->proxy_url);
	until_value(c, "a/2", true);
	proxy_do(c->proxy, PROXY_REFUSE);
	write_key(c, "a/1", false);
	write_key(c, "a/3", true);
	proxy_do(c->proxy, PROXY_ACCEPT);
	until_value(c, "a/3", true);
	until_value(c, "a/1", false);
	assert_int_equal(c->follower.n_begun, 1);
	kv = take_over(c);
	expect_copy(c, kv);
	kv_close(kv);
}

CASE(a_compacted_revision_is_read_again)
{
	struct kv *kv;

	write_key(c, "a/1", true);
	follow(c, c->proxy_url);
	until_value(c, "a/1", true);
	proxy_do(c->proxy, PROXY_REFUSE);
	write_key(c, "a/1", false);
	write_key(c, "a/3", true);
	etcd_world_compact(etcd_world->urls[0]);
	proxy_do(c->proxy, PROXY_ACCEPT);
	until_value(c, "a/3", true);
	assert_int_equal(c->follower.n_begun, 2);
	kv = take_over(c);
	expect_copy(c, kv);
	kv_close(kv);
}

CASE(a_transaction_that_was_not_seen_is_noticed)
{
	char sequence[64];

	write_key(c, "a/1", true);
	follow(c, etcd_world->urls[0]);
	until_value(c, "a/1", true);
	(void)str_format(sequence, sizeof(sequence), "%s/sequence", c->prefix);
	etcd_world_put(etcd_world->urls[0], sequence, "abc 17"); /* numbers of a lease begin with 1 */
	run_until(c->event, &c->follower.n_begun, 2);
	until_value(c, "a/1", true);
}

CASE(a_rejected_record_is_read_again)
{
	char key[64];

	write_key(c, "a/1", true);
	follow(c, etcd_world->urls[0]);
	until_value(c, "a/1", true);
	c->follower.refuses = true;
	write_key(c, "a/2", true);
	run_until(c->event, &c->follower.n_begun, 2);
	until_value(c, "a/2", true);
	(void)str_format(key, sizeof(key), "%s/e/1/a/3", c->prefix);
	etcd_world_put(etcd_world->urls[0], key, "not what a server writes");
	run_until(c->event, &c->follower.n_begun, 3);
}

CASE(a_copy_that_has_more_than_the_store_is_refused)
{
	char sequence[64];
	struct kv *kv;

	write_key(c, "a/1", true);
	follow(c, etcd_world->urls[0]);
	until_value(c, "a/1", true);
	kv = take_over(c);
	(void)str_format(sequence, sizeof(sequence), "%s/sequence", c->prefix);
	etcd_world_put(etcd_world->urls[0], sequence, "abc 1");
	run_for(c->event, 200);
	assert_false(etcd_copy_finish(c->follower.etcd));
	kv_close(kv);
}

static void copy_member(const char *from, const char *to)
{
	char command[256];

	(void)str_format(command, sizeof(command), "cd %s && rm -rf %s && cp -a %s %s", etcd_world->folder,
			 to, from, to);
	/* NOLINTNEXTLINE(cert-env33-c): of constants and a folder of the test */
	assert_int_equal(system(command), 0);
}

/* Its past is another one from some revision on, which is as high again later. */
CASE(a_copy_from_before_an_etcd_restore_is_read_again)
{
	char key[64];

	write_key(c, "a/1", true);
	etcd_world_kill(etcd_world, 0);
	copy_member("d0", "former");
	etcd_world_start(etcd_world, 0);
	write_key(c, "a/2", true);
	follow(c, c->proxy_url);
	until_value(c, "a/2", true);
	proxy_do(c->proxy, PROXY_REFUSE);
	etcd_world_kill(etcd_world, 0);
	copy_member("former", "d0");
	etcd_world_start(etcd_world, 0);
	(void)str_format(key, sizeof(key), "%s/other", c->prefix);
	for (int i = 0; i < 50; i++)
		etcd_world_put(etcd_world->urls[0], key, "anything");
	proxy_do(c->proxy, PROXY_ACCEPT);
	run_until(c->event, &c->follower.n_begun, 2);
	until_value(c, "a/1", true);
	assert_string_equal(c->follower.records.values[0][2], "");
}

CASE(a_leader_before_the_first_copy_has_no_copy)
{
	struct kv *kv;

	write_key(c, "a/1", true);
	part_stop(&c->leader);
	follow(c, etcd_world->urls[0]);
	run_until(c->event, &c->follower.n_leading, 1);
	assert_int_equal(kv_open_etcd(c->follower.etcd, &kv, NULL), STATUS_OK);
	assert_false(etcd_copy_finish(c->follower.etcd));
	run_for(c->event, 700);
	assert_int_equal(c->follower.n_records, 0); /* it had not come to them, and does not go on */
	kv_close(kv);
}
