/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever keys there are, and however many: each is read once, in their order. */

#include "etcd_world.h"
#include "unit.h"

#include "base/clock.h"
#include "store/kv.h"

enum { KEYS = 40000, KEY_SIZE = 48, TXN = 100, UNDER_WAY = 8 };

static char keys[KEYS][KEY_SIZE];

/* Close together, far apart, alone, of few and many characters: what is guessed of one part of them is wrong
 * for the next one. */
static void make_keys(void)
{
	uint64_t seed = 1;

	for (size_t i = 0; i < KEYS; i++) {
		seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		if (i < KEYS / 2)
			(void)snprintf(keys[i], KEY_SIZE, "m/dense/%06zu", i);
		else if (i % 3 == 0)
			(void)snprintf(keys[i], KEY_SIZE, "r/%016llx", (unsigned long long)seed);
		else if (i % 3 == 1)
			(void)snprintf(keys[i], KEY_SIZE, "%c/%zu", (char)('a' + seed % 26), i);
		else
			(void)snprintf(keys[i], KEY_SIZE, "r/%016llx/%zu", (unsigned long long)(seed >> 40),
				       i);
	}
}

static int compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

struct filling {
	int asked, done;
};

static void on_done(uint64_t revision, const struct error *err, void *userdata)
{
	struct filling *filling = userdata;

	assert_null(err);
	filling->done++;
}

static void fill(struct part *part, sd_event *event)
{
	struct filling filling = {0};
	struct kv_op ops[TXN];

	for (size_t i = 0; i < KEYS; i += TXN) {
		const struct kv_txn txn = {.ops = ops, .n_ops = TXN};

		for (size_t k = 0; k < TXN; k++)
			ops[k] = (struct kv_op){.key = keys[i + k], .value = keys[i + k], .len = 1};
		assert_int_equal(kv_submit(part->kv, &txn, on_done, &filling, NULL), STATUS_OK);
		filling.asked++;
		while (filling.asked - filling.done > UNDER_WAY)
			assert_true(sd_event_run(event, UINT64_MAX) >= 0);
	}
	while (filling.asked > filling.done)
		assert_true(sd_event_run(event, UINT64_MAX) >= 0);
}

struct reading {
	size_t next; /* in keys */
	size_t left;
};

static bool is_next(const struct kv_item *item, void *userdata)
{
	struct reading *reading = userdata;

	assert_true(reading->next < KEYS);
	assert_string_equal(item->key, keys[reading->next++]);
	return --reading->left > 0;
}

static size_t first_from(const char *key)
{
	size_t i = 0;

	while (i < KEYS && strcmp(keys[i], key) < 0)
		i++;
	return i;
}

/* How many keys begin with @prefix and are not below @from. */
static size_t count(const char *prefix, const char *from)
{
	size_t n = 0;

	for (size_t i = first_from(from); i < KEYS; i++)
		n += str_starts_with(keys[i], prefix);
	return n;
}

TEST(each_key_is_read_once_and_in_its_place)
{
	static const struct {
		const char *prefix, *from;
		size_t limit;
	} rows[] = {
		{"", "", SIZE_MAX},   {"m/", "", SIZE_MAX}, {"m/dense/", "m/dense/011111", SIZE_MAX},
		{"r/", "", SIZE_MAX}, {"r/", "r/8", 9000},  {"c/", "", SIZE_MAX},
		{"none/", "", 10},    {"", "q", SIZE_MAX},  {"", "", 8001},
	};
	struct etcd_world *world = etcd_world_new(1);
	const char *url = world->urls[0];
	struct etcd_settings settings = part_settings(&url, 1, "/p", "a");
	cleanup(sd_event_unrefp) sd_event *event = NULL;
	cleanup(part_stop) struct part part;

	assert_true(sd_event_new(&event) >= 0);
	make_keys();
	qsort(keys, KEYS, KEY_SIZE, compare);
	settings.lease_us = 60 * USEC_PER_SEC;
	part_start(&part, event, &settings);
	part_lead(&part);
	fill(&part, event);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const char *from = strcmp(rows[i].from, rows[i].prefix) > 0 ? rows[i].from : rows[i].prefix;
		size_t wanted = count(rows[i].prefix, from);
		struct reading reading = {.next = first_from(from), .left = SIZE_MAX};
		size_t first = reading.next;

		wanted = wanted < rows[i].limit ? wanted : rows[i].limit;
		assert_ok(kv_range_from(part.kv, rows[i].prefix, rows[i].from, rows[i].limit, is_next,
					&reading, NULL));
		assert_int_equal(reading.next - first, wanted);
	}
	etcd_world_free(world);
}
