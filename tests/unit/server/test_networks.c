/* SPDX-License-Identifier: Apache-2.0 */
/* Networks of tokens, against addresses of callers. */

#include "unit.h"

#include "access/networks.h"
#include "base/cleanup.h"

#include <stdbool.h>

TEST(a_network_has_the_addresses_of_its_prefix_and_no_other)
{
	static const struct {
		const char *cidr, *address;
		bool has;
	} rows[] = {
		{"192.0.2.0/24", "192.0.2.7:4000", true},
		{"192.0.2.0/24", "192.0.3.7:4000", false},
		{"192.0.2.0/24", "[::ffff:192.0.2.7]:4000",
		 true}, /* a listener on all addresses sees it so */
		{"192.0.2.0/24", "[::ffff:192.0.3.7]:4000", false},
		{"192.0.2.0/24", "[2001:db8::7]:4000", false},
		{"192.0.2.7", "192.0.2.7:1", true},
		{"192.0.2.7", "192.0.2.70:1", false},
		{"192.0.2.7/32", "192.0.2.6:1", false},
		{"192.0.2.4/31", "192.0.2.5:1", true},
		{"192.0.2.4/31", "192.0.2.6:1", false},
		{"0.0.0.0/0", "203.0.113.1:1", true},
		{"0.0.0.0/0", "[2001:db8::1]:1", false},
		{"::/0", "[2001:db8::1]:1", true},
		{"::/0", "192.0.2.7:1", false},
		{"::/0", "[::ffff:192.0.2.7]:1", false}, /* it is IPv4 */
		{"2001:db8::/32", "[2001:db8:ffff::1]:1", true},
		{"2001:db8::/32", "[2001:db9::1]:1", false},
		{"2001:db8::7", "[2001:db8::7]:1", true},
		{"2001:db8::7", "[2001:db8::8]:1", false},
		{"fe80::/10", "[fe80::1%eth0]:1", true},
		{"0.0.0.0/0", "/run/holdfast-server/server.sock", false},
		{"0.0.0.0/0", "", false},
		{"0.0.0.0/0", "192.0.2.0/24:1", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char *cidrs[] = {(char *)(uintptr_t) "198.51.100.0/24", TEXT(rows[i].cidr)};

		assert_msg(networks_have(cidrs, 2, rows[i].address) == rows[i].has, "%s, %s", rows[i].cidr,
			   rows[i].address);
	}
}

TEST(a_text_that_is_no_network_is_refused)
{
	static const char *const bad[] = {"",		"192.0.2.0/33",	  "192.0.2.1/24",   "192.0.2/24",
					  "192.0.2.0/", "2001:db8::1/64", "2001:db8::/129", "desk",
					  "/24",	"192.0.2.0/24 ",  "192.0.2.0/-1"};
	char *one[] = {(char *)(uintptr_t) "192.0.2.0/24"};
	char *many[NETWORKS_MAX + 1];

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		char *cidrs[] = {one[0], TEXT(bad[i])};

		assert_msg(networks_check(cidrs, 2, NULL) == STATUS_INVALID_ARGUMENT, "'%s'", bad[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = one[0];
	assert_int_equal(networks_check(many, NETWORKS_MAX, NULL), STATUS_OK);
	assert_int_equal(networks_check(many, NETWORKS_MAX + 1, NULL), STATUS_INVALID_ARGUMENT);
}
