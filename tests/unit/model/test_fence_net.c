/* SPDX-License-Identifier: Apache-2.0 */
/* Which addresses a node may report as its own, and when the storage refuses them. */

#include "unit.h"

#include "model/fence_net.h"

static struct fence_net net_of(const char *text)
{
	struct fence_net net;

	assert_true(fence_net_read_any(text, &net));
	return net;
}

TEST(a_node_reports_small_networks_of_machines)
{
	static const struct {
		const char *text, *then; /* the text that is read, or a part of the error */
		bool is_read;
	} rows[] = {
		{"192.0.2.7", "192.0.2.7/32", true},
		{"192.0.2.7/32", "192.0.2.7/32", true},
		{"192.0.2.0/24", "192.0.2.0/24", true},
		{"2001:DB8::1", "2001:db8::1/128", true},
		{"2001:db8:0:1::/64", "2001:db8:0:1::/64", true},
		{"192.0.2.0/23", "larger than a /24", false},
		{"2001:db8::/63", "larger than a /64", false},
		{"0.0.0.0/0", "larger than a /24", false},
		{"::/0", "larger than a /64", false},
		{"192.0.2.7/24", "no network", false},
		{"192.0.2.7/33", "no network", false},
		{"192.0.2.07", "no network", false},
		{"192.0.2.7/32 ", "no network", false},
		{"192.0.2.7,192.0.2.8", "no network", false},
		{"node-1", "no network", false},
		{"", "no network", false},
		{FENCE_NET_UNREADABLE, "no network", false},
		{"0.0.0.0", "no address of a machine", false},
		{"127.0.0.1", "no address of a machine", false},
		{"169.254.1.1", "no address of a machine", false},
		{"224.0.0.1", "no address of a machine", false},
		{"255.255.255.255", "no address of a machine", false},
		{"::1", "no address of a machine", false},
		{"::ffff:192.0.2.7", "no address of a machine", false},
		{"fe80::1", "no address of a machine", false},
		{"ff02::1", "no address of a machine", false},
		{"128.0.0.1", "128.0.0.1/32", true},
		{"223.255.255.255", "223.255.255.255/32", true},
		{"fec0::1", "fec0::1/128", true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fence_net net = {.family = 9};
		char text[FENCE_NET_TEXT_SIZE];
		struct error err = {.msg = ""};

		if ((fence_net_read(rows[i].text, &net, &err) == STATUS_OK) != rows[i].is_read)
			fail_msg("%s: %s", rows[i].text, err.msg);
		if (rows[i].is_read) {
			assert_string_equal(fence_net_text(&net, text), rows[i].then);
			continue;
		}
		assert_int_equal(err.status, STATUS_INVALID_ARGUMENT);
		assert_int_equal(net.family, 9);
		if (!strstr(err.msg, rows[i].then))
			fail_msg("%s: %s, expected %s", rows[i].text, err.msg, rows[i].then);
	}
}

TEST(the_longest_text_has_room)
{
	const struct fence_net net = net_of("1111:2222:3333:4444:5555:6666:7777:8888/128");
	char text[FENCE_NET_TEXT_SIZE];

	assert_string_equal(fence_net_text(&net, text), "1111:2222:3333:4444:5555:6666:7777:8888/128");
}

/* The list of a storage may have networks of any size. */
TEST(a_network_is_covered_by_itself_and_by_larger_ones)
{
	static const struct {
		const char *a, *b;
		bool covers, overlaps;
	} rows[] = {
		{"192.0.2.7/32", "192.0.2.7/32", true, true},
		{"192.0.2.0/24", "192.0.2.7/32", true, true},
		{"0.0.0.0/0", "192.0.2.7/32", true, true},
		{"192.0.2.7/32", "192.0.2.0/24", false, true},
		{"192.0.2.7/32", "192.0.2.6/32", false, false},
		{"192.0.3.0/24", "192.0.2.7/32", false, false},
		{"::/0", "192.0.2.7/32", false, false},
		{"192.0.2.0/32", "192.0.2.0/24", false, true},
		{"2001:db8::/64", "2001:db8::1/128", true, true},
		{"2001:db8::/64", "2001:db8:0:1::1", false, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct fence_net a = net_of(rows[i].a), b = net_of(rows[i].b);

		assert_int_equal(fence_net_covers(&a, &b), rows[i].covers);
		assert_int_equal(fence_nets_overlap(&a, &b), rows[i].overlaps);
		assert_int_equal(fence_nets_overlap(&b, &a), rows[i].overlaps);
	}
}
