/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "access/refused_peers.h"
#include "base/clock.h"

#define HOUR_US (3600 * USEC_PER_SEC)

static struct refused_peers *refused_peers_at(uint64_t now_us)
{
	struct refused_peers *refused = NON_NULL(malloc(sizeof(*refused)));

	refused_peers_init(refused, now_us);
	return refused;
}

TEST(an_address_is_reported_of_once_an_hour)
{
	uint64_t now_us = 50 * USEC_PER_SEC;
	cleanup_free struct refused_peers *refused = refused_peers_at(now_us);

	assert_true(refused_peers_note(refused, "10.0.0.1", now_us));
	assert_false(refused_peers_note(refused, "10.0.0.1", now_us + 1));
	assert_true(refused_peers_note(refused, "10.0.0.2", now_us + 1));
	assert_false(refused_peers_note(refused, "10.0.0.1", now_us + HOUR_US - 1));
	assert_true(refused_peers_note(refused, "10.0.0.1", now_us + HOUR_US));
	assert_false(refused_peers_note(refused, "10.0.0.1", now_us + HOUR_US + 1));
}

TEST(many_addresses_at_once_are_not_reported_of_one_by_one)
{
	uint64_t now_us = 50 * USEC_PER_SEC;
	cleanup_free struct refused_peers *refused = refused_peers_at(now_us);
	size_t told = 0;

	for (int i = 0; i < 1000; i++) {
		char host[32];

		(void)snprintf(host, sizeof(host), "10.0.%d.%d", i / 256, i % 256);
		told += refused_peers_note(refused, host, now_us);
	}
	assert_int_equal(told, 10);
}

TEST(the_oldest_address_gives_way)
{
	uint64_t now_us = 50 * USEC_PER_SEC;
	cleanup_free struct refused_peers *refused = refused_peers_at(now_us);

	for (int i = 0; i <= REFUSED_PEERS_N; i++) {
		char host[32];

		now_us += 10 * USEC_PER_SEC;
		(void)snprintf(host, sizeof(host), "10.0.0.%d", i);
		assert_true(refused_peers_note(refused, host, now_us));
	}
	now_us += 10 * USEC_PER_SEC;
	assert_false(refused_peers_note(refused, "10.0.0.1", now_us));
	assert_true(refused_peers_note(refused, "10.0.0.0", now_us)); /* forgotten, so told of again */
}
