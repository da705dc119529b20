/* SPDX-License-Identifier: Apache-2.0 */
#include "server.h"
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

TEST(an_ipv6_network_counts_as_one_address)
{
	cleanup_free struct refused_peers *refused = refused_peers_at(clock_monotonic_us());
	struct server server = {.refused_peers = refused};
	const struct rpc_peer peers[] = {{.address = "[2001:db8::1]:1"},
					 {.address = "[2001:db8::2]:2"},
					 {.address = "[2001:db8:0:1::1]:1"}};
	struct error why;

	(void)error_set(&why, STATUS_UNAUTHENTICATED, 0, "no");
	for (size_t i = 0; i < ARRAY_SIZE(peers); i++)
		refused_peers_log(&peers[i], &why, &server);
	assert_string_equal(refused->entries[0].host, "2001:db8::/64");
	assert_string_equal(refused->entries[1].host, "2001:db8:0:1::/64");
	assert_string_equal(refused->entries[2].host, "");
}
