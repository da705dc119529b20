/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/parse.h"

enum { UNTOUCHED = 4711 };

struct number_case {
	const char *text;
	int result;
	uint64_t value; /* when the result is 0 */
};

static void check(const struct number_case *c, int result, uint64_t value)
{
	if (result != c->result || value != (result == 0 ? c->value : UNTOUCHED))
		fail_msg("'%s': %d, %llu", c->text, result, (unsigned long long)value);
}

TEST(numbers_are_digits_within_bounds)
{
	static const struct number_case cases[] = {
		{"10", 0, 10},
		{"20", 0, 20},
		{"15", 0, 15},
		{"0015", 0, 15},
		{"9", -ERANGE, 0},
		{"21", -ERANGE, 0},
		{"", -EINVAL, 0},
		{" 15", -EINVAL, 0},
		{"15 ", -EINVAL, 0},
		{"+15", -EINVAL, 0},
		{"-15", -EINVAL, 0},
		{"0x0f", -EINVAL, 0},
		{"15a", -EINVAL, 0},
		{"1e1", -EINVAL, 0},
		{"15\n", -EINVAL, 0},
		{"18446744073709551616", -ERANGE, 0},
		{"99999999999999999999999", -ERANGE, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t value = UNTOUCHED;
		uint32_t small = UNTOUCHED;

		int r = parse_u64(cases[i].text, 10, 20, &value);

		check(&cases[i], r, value);
		r = parse_u32(cases[i].text, 10, 20, &small);
		check(&cases[i], r, small);
	}
}

TEST(numbers_reach_the_ends_of_their_types)
{
	uint64_t value = UNTOUCHED;
	uint32_t small = UNTOUCHED;

	assert_int_equal(parse_u64("18446744073709551615", 0, UINT64_MAX, &value), 0);
	assert_true(value == UINT64_MAX);
	assert_int_equal(parse_u64("18446744073709551616", 0, UINT64_MAX, &value), -ERANGE);
	assert_int_equal(parse_u64("18446744073709551620", 0, UINT64_MAX, &value), -ERANGE);
	assert_int_equal(parse_u32("4294967295", 0, UINT32_MAX, &small), 0);
	assert_true(small == UINT32_MAX);
	assert_int_equal(parse_u32("4294967296", 0, UINT32_MAX, &small), -ERANGE);
}

TEST(booleans_are_two_pairs_of_words)
{
	static const char *const refused[] = {"", "1", "0", "on", "off", "Yes", "TRUE", "y", "yes ", "nope"};
	bool value = false;

	assert_int_equal(parse_bool("yes", &value), 0);
	assert_true(value);
	assert_int_equal(parse_bool("no", &value), 0);
	assert_false(value);
	assert_int_equal(parse_bool("true", &value), 0);
	assert_true(value);
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		assert_int_equal(parse_bool(refused[i], &value), -EINVAL);
	assert_true(value);
	assert_int_equal(parse_bool("false", &value), 0);
	assert_false(value);
}

TEST(sizes_have_decimal_and_binary_units)
{
	static const struct number_case cases[] = {
		{"0", 0, 0},
		{"512", 0, 512},
		{"512B", 0, 512},
		{"1K", 0, 1000},
		{"1KB", 0, 1000},
		{"1KiB", 0, 1024},
		{"2M", 0, 2000000},
		{"2MB", 0, 2000000},
		{"2MiB", 0, 2097152},
		{"3G", 0, 3000000000},
		{"3GB", 0, 3000000000},
		{"10GiB", 0, 10737418240},
		{"10 GiB", 0, 10737418240},
		{"1T", 0, 1000000000000},
		{"1TB", 0, 1000000000000},
		{"1TiB", 0, 1099511627776},
		{"16777215TiB", 0, UINT64_C(16777215) << 40},
		{"16777216TiB", -ERANGE, 0},
		{"18446744073709551615", 0, UINT64_MAX},
		{"18446744073709551615B", 0, UINT64_MAX},
		{"18446744073709551616", -ERANGE, 0},
		{"18446744073709551615K", -ERANGE, 0},
		{"", -EINVAL, 0},
		{"GiB", -EINVAL, 0},
		{"1.5G", -EINVAL, 0},
		{"1  G", -EINVAL, 0},
		{"1 ", -EINVAL, 0},
		{" 1", -EINVAL, 0},
		{"1G ", -EINVAL, 0},
		{"-1G", -EINVAL, 0},
		{"1gib", -EINVAL, 0},
		{"1Gi", -EINVAL, 0},
		{"1P", -EINVAL, 0},
		{"1GiBx", -EINVAL, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t value = UNTOUCHED;
		int r = parse_size(cases[i].text, &value);

		check(&cases[i], r, value);
	}
}

TEST(durations_have_a_unit)
{
	static const struct number_case cases[] = {
		{"0s", 0, 0},
		{"7us", 0, 7},
		{"7ms", 0, 7000},
		{"90s", 0, 90000000},
		{"5m", 0, 300000000},
		{"2h", 0, 7200000000},
		{"3d", 0, 259200000000},
		{"213503982d", 0, UINT64_C(213503982) * 86400000000},
		{"213503983d", -ERANGE, 0},
		{"18446744073709551615us", 0, UINT64_MAX},
		{"18446744073709551616us", -ERANGE, 0},
		{"90", -EINVAL, 0},
		{"", -EINVAL, 0},
		{"s", -EINVAL, 0},
		{"1 s", -EINVAL, 0},
		{"1s ", -EINVAL, 0},
		{"1m30s", -EINVAL, 0},
		{"1.5h", -EINVAL, 0},
		{"-1s", -EINVAL, 0},
		{"1S", -EINVAL, 0},
		{"1w", -EINVAL, 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint64_t value = UNTOUCHED;
		int r = parse_duration(cases[i].text, &value);

		check(&cases[i], r, value);
	}
}

TEST(networks_are_addresses_without_stray_bits)
{
	static const struct {
		const char *text;
		uint8_t family; /* 0: refused */
		uint8_t bits, addr[16];
	} networks[] = {
		{"10.0.0.1", 4, 32, {10, 0, 0, 1}},
		{"10.16.0.0/12", 4, 12, {10, 16}},
		{"0.0.0.0/0", 4, 0, {0}},
		{"255.255.255.255/32", 4, 32, {255, 255, 255, 255}},
		{"::1", 6, 128, {[15] = 1}},
		{"fd00::/8", 6, 8, {0xfd}},
		{"::/0", 6, 0, {0}},
		{"::ffff:10.0.0.1/128", 6, 128, {[10] = 0xff, 0xff, 10, 0, 0, 1}},
		{.text = ""},
		{.text = "/8"},
		{.text = "10.0.0.1/31"},
		{.text = "10.0.0.0/"},
		{.text = "10.0.0.0/33"},
		{.text = "10.0.0.0/-1"},
		{.text = "10.0.0.0/8/8"},
		{.text = "10.0.0"},
		{.text = "010.0.0.1x"},
		{.text = "10.0.0.256"},
		{.text = " 10.0.0.1"},
		{.text = "fd00::/129"},
		{.text = "fd00::1/127"},
		{.text = "fd00:::1"},
		{.text = "fe80::1%eth0"},
		{.text = "host.example"},
		{.text = "1111:1111:1111:1111:1111:1111:255.255.255.2555"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(networks); i++) {
		uint8_t addr[16] = {77};
		uint8_t family = 77, bits = 77;
		int r = parse_network(networks[i].text, &family, addr, &bits);

		assert_int_equal(r, networks[i].family ? 0 : -EINVAL);
		assert_int_equal(family, networks[i].family ? networks[i].family : 77);
		assert_int_equal(bits, networks[i].family ? networks[i].bits : 77);
		if (r == 0)
			assert_memory_equal(addr, networks[i].addr, sizeof(addr));
	}
}

TEST(a_network_contains_addresses_that_share_its_first_bits)
{
	static const struct {
		const char *net, *addr;
		bool is_in;
	} cases[] = {
		{"0.0.0.0/0", "255.1.2.3", true},
		{"10.0.0.0/8", "10.255.255.255", true},
		{"10.0.0.0/8", "11.0.0.0", false},
		{"10.8.0.0/13", "10.15.255.255", true},
		{"10.8.0.0/13", "10.16.0.0", false},
		{"10.1.2.3", "10.1.2.3", true},
		{"10.1.2.3", "10.1.2.2", false},
		{"10.1.2.2/31", "10.1.2.3", true},
		{"2001:db8::/33", "2001:db8:7fff::1", true},
		{"2001:db8::/33", "2001:db8:8000::1", false},
		{"2001:db8::1", "2001:db8::1", true},
		{"2001:db8::1", "2001:db8::", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		uint8_t net[16], addr[16], family, bits, all;

		assert_int_equal(parse_network(cases[i].net, &family, net, &bits), 0);
		assert_int_equal(parse_network(cases[i].addr, &family, addr, &all), 0);
		assert_int_equal(network_contains(net, bits, addr), cases[i].is_in);
	}
}
