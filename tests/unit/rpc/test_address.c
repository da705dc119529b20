/* SPDX-License-Identifier: Apache-2.0 */
#include "../unit.h"
#include "rpc/address.h"

TEST(addresses_are_a_host_and_a_port)
{
	static const struct {
		const char *text;
		const char *host; /* NULL: refused */
		int port;
	} cases[] = {
		{"127.0.0.1:4646", "127.0.0.1", 4646},
		{"server.example:1", "server.example", 1},
		{"[::1]:65535", "::1", 65535},
		{"h:0", NULL, 0},
		{"h:65536", NULL, 0},
		{"h:", NULL, 0},
		{"h", NULL, 0},
		{":5", NULL, 0},
		{"", NULL, 0},
		{"::1:5", NULL, 0},
		{"[]:5", NULL, 0},
		{"[::1:5", NULL, 0},
		{"[:5", NULL, 0},
		{"h:+5", NULL, 0},
		{"h: 5", NULL, 0},
		{"[fe80::1%eth0]:5", "fe80::1%eth0", 5},
		{"my_host-1.Example:5", "my_host-1.Example", 5},
		{"evil\nTOKEN=x:5", NULL, 0}, /* these go into settings as they are */
		{"evil\"]\nx=1:5", NULL, 0},
		{"[evil\"::]:5", NULL, 0},
		{"${x}:5", NULL, 0},
		{"h\xc3\xa4:5", NULL, 0},
		{"h\r:5", NULL, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct rpc_address address = {.host = "untouched", .port = 9};
		char text[RPC_SERVER_NAME_SIZE];
		int r = rpc_address_parse(cases[i].text, &address);

		assert_msg((r == 0) == (cases[i].host != NULL), "'%s' gave %d", cases[i].text, r);
		if (r < 0)
			continue;
		assert_string_equal(address.host, cases[i].host);
		assert_int_equal(address.port, cases[i].port);
		assert_string_equal(rpc_address_text(&address, text), cases[i].text);
	}
}

TEST(a_host_may_be_as_long_as_the_limit)
{
	char text[RPC_HOST_SIZE + 8];
	struct rpc_address address;

	memset(text, 'a', sizeof(text));
	memcpy(text + RPC_HOST_SIZE - 1, ":5", 3);
	assert_int_equal(rpc_address_parse(text, &address), 0);
	text[RPC_HOST_SIZE - 1] = 'a';
	memcpy(text + RPC_HOST_SIZE, ":5", 3);
	assert_int_equal(rpc_address_parse(text, &address), -EINVAL);
}

TEST(a_list_has_commas_between_its_addresses)
{
	static const struct {
		const char *text;
		ssize_t n;
	} cases[] = {
		{"a:1", 1},
		{"a:1,[::1]:2,c:3", 3},
		{" a:1 , b:2 ", 2},
		{"", -EINVAL},
		{",", -EINVAL},
		{"a:1,", -EINVAL},
		{",a:1", -EINVAL},
		{"a:1,,b:2", -EINVAL},
		{"a:1 b:2", -EINVAL},
		{"a:1,b", -EINVAL},
		{"a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1", 16},
		{"a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1", -EINVAL},
	};
	struct rpc_address list[RPC_SERVERS_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_msg(rpc_addresses_parse(cases[i].text, list) == cases[i].n, "'%s'", cases[i].text);
	assert_int_equal(rpc_addresses_parse("a:1, [::2]:2", list), 2);
	assert_string_equal(list[0].host, "a");
	assert_string_equal(list[1].host, "::2");
	assert_int_equal(list[1].port, 2);
}
