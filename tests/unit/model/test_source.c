/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "model/source.h"

static struct source nfs(const char *server, const char *export)
{
	struct source s = {.class = SOURCE_NFS4};

	assert_int_equal(str_copy(s.server, sizeof(s.server), server), 0);
	assert_int_equal(str_copy(s.export, sizeof(s.export), export), 0);
	return s;
}

static const struct source block = {.class = SOURCE_BLOCK, .by_id = "wwn-0x1"};
static const struct source tmpfs = {.class = SOURCE_TMPFS, .size_bytes = 4096, .inodes = 7};
static const struct source bound = {.class = SOURCE_BIND, .host_volume = "data"};

static void check(const struct source *source, const char *says)
{
	struct error err = {0};
	struct mh_source wire;

	assert_int_equal(source_validate(source, &err), says ? STATUS_INVALID_ARGUMENT : STATUS_OK);
	if (says && !strstr(err.msg, says))
		fail_msg("'%s' does not say '%s'", err.msg, says);
	/* nothing that is not valid is ever said to a helper: it would end there */
	assert_int_equal(source_to_wire(source, &wire, NULL), says ? STATUS_INVALID_ARGUMENT : STATUS_OK);
}

TEST(every_class_becomes_its_struct_and_zeroes)
{
	static const uint8_t v4[16] = {192, 0, 2, 7};
	static const uint8_t v6[16] = {0x20, 0x01, 0x0d, 0xb8, [15] = 1};
	struct mh_source expected, got;
	struct source source;

	memset(&got, 0xff, sizeof(got));
	memset(&expected, 0, sizeof(expected));
	expected.class = MH_CLASS_BLOCK;
	memcpy(expected.u.block.by_id, "wwn-0x1", 8);
	assert_int_equal(source_to_wire(&block, &got, NULL), STATUS_OK);
	assert_memory_equal(&got, &expected, sizeof(got));

	memset(&expected, 0, sizeof(expected));
	expected.class = MH_CLASS_TMPFS;
	expected.u.tmpfs.size_bytes = 4096;
	expected.u.tmpfs.inodes = 7;
	assert_int_equal(source_to_wire(&tmpfs, &got, NULL), STATUS_OK);
	assert_memory_equal(&got, &expected, sizeof(got));

	memset(&expected, 0, sizeof(expected));
	expected.class = MH_CLASS_BIND;
	memcpy(expected.u.bind.name, "data", 5);
	assert_int_equal(source_to_wire(&bound, &got, NULL), STATUS_OK);
	assert_memory_equal(&got, &expected, sizeof(got));

	memset(&expected, 0, sizeof(expected));
	expected.class = MH_CLASS_NFS4;
	expected.u.nfs4.family = 4;
	memcpy(expected.u.nfs4.addr, v4, 16);
	memcpy(expected.u.nfs4.export, "/exports/a", 11);
	source = nfs("192.0.2.7", "/exports/a");
	assert_int_equal(source_to_wire(&source, &got, NULL), STATUS_OK);
	assert_memory_equal(&got, &expected, sizeof(got));
	expected.u.nfs4.family = 6;
	memcpy(expected.u.nfs4.addr, v6, 16);
	source = nfs("2001:DB8::1", "/exports/a");
	assert_int_equal(source_to_wire(&source, &got, NULL), STATUS_OK);
	assert_memory_equal(&got, &expected, sizeof(got));
}

TEST(servers_are_addresses_of_one_machine)
{
	static const struct {
		const char *server, *says;
	} cases[] = {
		{"192.0.2.7", NULL},
		{"127.0.0.1", NULL}, /* for the policy to decide */
		{"2001:db8::1", NULL},
		{"::1", NULL},
		{"", "source.server: '' is not an IPv4 or IPv6 address"},
		{"nfs.example.org", "not an IPv4 or IPv6 address"},
		{"192.0.2.07", "not an IPv4 or IPv6 address"},
		{"192.0.2", "not an IPv4 or IPv6 address"},
		{"[2001:db8::1]", "not an IPv4 or IPv6 address"},
		{"0.0.0.0", "no server's address"},
		{"223.255.255.254", NULL},
		{"224.0.0.1", "multicast"},
		{"255.255.255.255", "reserved"},
		{"::", "no server's address"},
		{"ff02::1", "multicast"},
		{"fe80::1", "link-local"},
		{"::ffff:192.0.2.7", "IPv4"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct source source = nfs(cases[i].server, "/a");

		check(&source, cases[i].says);
	}
}

TEST(exports_are_plain_absolute_paths)
{
	static const char *const good[] = {"/a", "/exports/a", "/a.b/..c/_-9"};
	static const char *const bad[] = {"",	 "/",	    "a",      "//a",  "/a/",  "/a//b",	  "/.",
					  "/..", "/a/../b", "/a/./b", "/a b", "/a,b", "/\xc3\xa4"};
	char longest[SOURCE_EXPORT_MAX + 1];
	struct source source;

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		source = nfs("192.0.2.7", good[i]);
		check(&source, NULL);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		source = nfs("192.0.2.7", bad[i]);
		check(&source, "source.export: ");
	}
	memset(longest, 'x', sizeof(longest));
	longest[0] = '/';
	longest[SOURCE_EXPORT_MAX] = '\0';
	source = nfs("192.0.2.7", longest);
	check(&source, NULL);
}

TEST(host_volumes_have_names_of_policies)
{
	struct source source = bound;

	check(&source, NULL);
	(void)str_copy(source.host_volume, sizeof(source.host_volume), "/srv");
	check(&source, "source.host_volume: '/srv' is not the name");
	source.host_volume[0] = '\0';
	check(&source, "source.host_volume");
}

/* Every field of another class is a mistake, and is named. */
TEST(fields_of_other_classes_are_refused)
{
	const struct source wholes[] = {block, tmpfs, nfs("192.0.2.7", "/a"), bound};
	static const char *const fields[] = {"source.by_id", "source.size", "source.server",
					     "source.host_volume"};

	for (size_t i = 0; i < ARRAY_SIZE(wholes); i++) {
		for (size_t k = 0; k < ARRAY_SIZE(wholes); k++) {
			struct source mixed = wholes[i];

			if (i == k)
				continue;
			if (k == 0)
				memcpy(mixed.by_id, block.by_id, sizeof(mixed.by_id));
			if (k == 1)
				mixed.size_bytes = 1;
			if (k == 2)
				memcpy(mixed.server, wholes[2].server, sizeof(mixed.server));
			if (k == 3)
				memcpy(mixed.host_volume, bound.host_volume, sizeof(mixed.host_volume));
			check(&mixed, fields[k]);
			assert_false(source_eq(&mixed, &wholes[i]));
		}
	}
}

TEST(addresses_have_one_form)
{
	struct source a = nfs("2001:DB8:0::1", "/a"), b = nfs("2001:db8::1", "/a");

	assert_false(source_eq(&a, &b));
	source_default(&a);
	source_default(&b);
	assert_true(source_eq(&a, &b));
	assert_string_equal(a.server, "2001:db8::1");
	a = nfs("no-address", "/a");
	source_default(&a);
	assert_string_equal(a.server, "no-address");
}

TEST(a_class_is_needed)
{
	struct source source = block;

	source.class = SOURCE_UNSPECIFIED;
	check(&source, "source.class: use");
	source.class = SOURCE_CLASS_N;
	check(&source, "source.class: use");
}
