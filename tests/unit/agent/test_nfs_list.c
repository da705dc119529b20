/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's list of NFS file systems, and whose a number in it is. */

#include "unit.h"

#include "kernel/nfs_list.h"
#include "kernel/nfs_owner.h"

#define HEADER "NV SERVER   PORT DEV          FSID                              FSC\n"
#define V4 "v4 7f000001 0801 "
#define FSID " 7d0aef2b9c4e5f61:8a1b2c3d4e5f6071 "

/* What one read after the other gives; the last one again and again. */
static const char *const *reads;
static size_t n_reads;
static int read_error;

WRAPPED(int, file_read, const char *path, size_t max, char **ret, size_t *ret_len)
{
	assert_string_equal(path, "/proc/self/net/nfsfs/volumes");
	assert_int_equal(max, NFS_LIST_MAX);
	if (read_error != 0)
		return read_error;
	*ret = strdup(reads[n_reads]);
	assert_non_null(*ret);
	*ret_len = strlen(*ret);
	n_reads += reads[n_reads + 1] != NULL;
	return 0;
}

struct row {
	const char *text;
	enum status status;
	bool is_listed; /* 0:45 */
};

TEST(a_device_is_found_in_its_own_column_alone)
{
	static const struct row rows[] = {
		{HEADER, STATUS_OK, false},
		{HEADER V4 "0:45        " FSID "no \n", STATUS_OK, true},
		{HEADER V4 "0:45        " FSID "yes\n", STATUS_OK, true},
		{HEADER "v3 00000000000000000000000000000001 0801 0:45" FSID "no \n", STATUS_OK, true},
		{HEADER "v4 unprintable unprintable 0:45         0:0 no \n", STATUS_OK, true},
		/* a later kernel's further columns */
		{HEADER V4 "0:45 1:2 no more\n", STATUS_OK, true},
		{HEADER V4 "0:45 1:2\n", STATUS_OK, true},
		{HEADER V4 "0:44" FSID "no \n" V4 "0:45" FSID "no \n" V4 "0:46" FSID "no \n", STATUS_OK,
		 true},
		{HEADER V4 "0:451" FSID "no \n", STATUS_OK, false},
		{HEADER V4 "0:4" FSID "no \n", STATUS_OK, false},
		{HEADER V4 "10:45" FSID "no \n", STATUS_OK, false},
		{HEADER V4 "45:0" FSID "no \n", STATUS_OK, false},
		{HEADER V4 "0:46 0:45 no \n", STATUS_OK, false},
		{HEADER "v4 0:45 0:45 0:46 1:2 no \n", STATUS_OK, false},
		/* made, but not yet a superblock */
		{HEADER V4 "0:0" FSID "no \n", STATUS_OK, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		bool is_listed = !rows[i].is_listed;
		struct error err = {0};

		assert_msg(nfs_list_find(rows[i].text, strlen(rows[i].text), 0, 45, &is_listed, &err) ==
					   rows[i].status &&
				   is_listed == rows[i].is_listed,
			   "row %zu: %s", i, err.msg);
	}
}

TEST(malformed_nfs_lists_are_refused)
{
	static const char *const texts[] = {
		"",
		"\n",
		V4 "0:45" FSID "no \n",			 /* no header */
		"NV SERVER   PORT\n",			 /* another one */
		HEADER "\n",				 /* an empty line */
		HEADER V4 "0:45" FSID "no ",		 /* cut */
		HEADER V4 "0:45\n",			 /* a column less */
		HEADER V4 "\n",				 /* more of them */
		HEADER "4 7f000001 0801 0:45 1:2 no \n", /* another version column */
		HEADER V4 "45" FSID "no \n",		 /* no colon */
		HEADER V4 ":45" FSID "no \n",
		HEADER V4 "0:" FSID "no \n",
		HEADER V4 "0:-45" FSID "no \n",
		HEADER V4 "0:4x" FSID "no \n",
		HEADER V4 "0:4294967296" FSID "no \n",
		HEADER V4 "0:45:1" FSID "no \n",
		HEADER V4 "0:45 12 no \n", /* the fsid is none */
		/* also behind what was looked for */
		HEADER V4 "0:45" FSID "no \n"
			  "junk\n",
		HEADER HEADER,
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		bool is_listed = true;
		struct error err = {0};

		if (nfs_list_find(texts[i], strlen(texts[i]), 0, 45, &is_listed, &err) != STATUS_INTERNAL)
			fail_msg("row %zu was accepted", i);
		assert_true(is_listed); /* untouched */
		assert_non_null(strstr(err.msg, "/proc/self/net/nfsfs/volumes"));
	}
}

TEST(a_nul_byte_is_no_answer)
{
	static const char text[] = HEADER V4 "0:46\0 1:2 no \n" V4 "0:46 1:2 no \n";
	bool is_listed = true;

	assert_int_equal(nfs_list_find(text, sizeof(text) - 1, 0, 45, &is_listed, NULL), STATUS_INTERNAL);
	assert_true(is_listed);
}

/* A line of @length characters. */
static char *list_with_line(size_t length)
{
	static const char line[] = V4 "0:45 1:2 ";
	char *text = NON_NULL(malloc(strlen(HEADER) + length + 2));

	memcpy(text, HEADER, strlen(HEADER));
	memset(text + strlen(HEADER), 'x', length);
	memcpy(text + strlen(HEADER), line, strlen(line));
	memcpy(text + strlen(HEADER) + length, "\n", 2);
	return text;
}

TEST(a_line_has_its_limit)
{
	for (int more = -1; more <= 1; more++) {
		cleanup_free char *text = list_with_line((size_t)NFS_LIST_LINE_MAX + (size_t)more);
		bool is_listed = false;
		enum status status = nfs_list_find(text, strlen(text), 0, 45, &is_listed, NULL);

		assert_int_equal(status, more > 0 ? STATUS_INTERNAL : STATUS_OK);
		assert_int_equal(is_listed, more <= 0);
	}
}

#define A HEADER V4 "0:44 1:2 no \n"
#define B HEADER V4 "0:44 1:2 no \n" V4 "0:45 1:2 no \n"

static void set_reads(const char *const *texts)
{
	reads = texts;
	n_reads = 0;
	read_error = 0;
}

/* With one taken away between two pieces of a read, that read leaves out another one. */
TEST(only_two_equal_reads_count)
{
	static const char *const steady[] = {A, NULL}, *const left_out[] = {A, B, NULL},
				 *const late[] = {B, A, B, A, B, A, B, B, NULL},
				 *const restless[] = {A, B, A, B, A, B, A, B, B, NULL};
	bool is_listed = true;
	struct error err;

	set_reads(steady);
	assert_int_equal(nfs_list_has(0, 45, &is_listed, NULL), STATUS_OK);
	assert_false(is_listed);
	set_reads(left_out);
	assert_int_equal(nfs_list_has(0, 45, &is_listed, NULL), STATUS_OK);
	assert_true(is_listed);
	is_listed = false;
	set_reads(late);
	assert_int_equal(nfs_list_has(0, 45, &is_listed, NULL), STATUS_OK);
	assert_true(is_listed);
	is_listed = false;
	set_reads(restless);
	assert_int_equal(nfs_list_has(0, 45, &is_listed, &err), STATUS_UNAVAILABLE);
	assert_error(n_reads, NFS_LIST_READS_MAX, err, "changes faster");
	assert_false(is_listed);
}

TEST(a_list_that_cannot_be_read_is_no_answer)
{
	static const struct {
		int sys_errno;
		enum status status;
		const char *words;
	} rows[] = {
		{-ENOENT, STATUS_NOT_FOUND, "modprobe nfs"},
		{-EACCES, STATUS_PERMISSION_DENIED, "cannot read"},
		{-EFBIG, STATUS_INTERNAL, "cannot read"},
	};
	static const char *const junk[] = {"junk\n", NULL};
	bool is_listed = true;
	struct error err;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		read_error = rows[i].sys_errno;
		assert_error(nfs_list_has(0, 45, &is_listed, &err), rows[i].status, err, rows[i].words);
		assert_true(is_listed);
	}
	set_reads(junk);
	assert_int_equal(nfs_list_has(0, 45, &is_listed, &err), STATUS_INTERNAL);
	assert_true(is_listed);
}

#define OWN "rw,vers=4.2,hard,nosharecache,proto=tcp"
#define SHARED "rw,vers=4.2,hard,proto=tcp"
#define STAGE "/run/holdfast-mount/stage"

TEST(a_number_is_another_ones_only_when_that_is_sure)
{
	static const struct {
		bool is_own;
		const char *point, *super_options;
		bool is_other;
	} rows[] = {
		/* another volume was staged, with one of its own */
		{true, STAGE "/v-2", OWN, true},
		{false, STAGE "/v-2", OWN, true},
		/* before there was nosharecache: it may be the same */
		{false, STAGE "/v-2", SHARED, false},
		/* what was ours could not become that */
		{true, STAGE "/v-2", SHARED, true},
		{true, "/mnt/filer", SHARED, true},
		/* a copy of what was ours looks so */
		{true, "/mnt/filer", OWN, false},
		{false, "/mnt/filer", OWN, false},
		{false, "/mnt/filer", SHARED, false},
		{true, STAGE "/.csi/p/v-2/staging", OWN, false},
		{true, STAGE "/", OWN, false},
		{true, STAGE, OWN, false},
		{true, STAGE "-2/v-2", OWN, false},
		{true, "/run/holdfast-mount/publish/alloc/0", OWN, false},
		{true, "/mnt/filer", SHARED ",xnosharecache", true},
		{true, "/mnt/filer", SHARED ",nosharecache=no", true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct nfs_owner owner = {.dev_minor = 45, .stage_base = STAGE, .is_own = rows[i].is_own};
		const struct mount_entry entry = {
			.dev_minor = 45, .point = rows[i].point, .super_options = rows[i].super_options};

		assert_int_equal(nfs_owner_look(&entry, &owner), 0);
		if (owner.is_other != rows[i].is_other)
			fail_msg("row %zu", i);
		assert_string_equal(owner.point, rows[i].point);
	}
}

TEST(mounts_of_other_devices_prove_nothing)
{
	struct nfs_owner owner = {.dev_minor = 45, .stage_base = STAGE, .is_own = true};
	const struct mount_entry entries[] = {
		{.dev_minor = 46, .point = "/mnt/a", .super_options = SHARED},
		{.dev_major = 1, .dev_minor = 45, .point = "/mnt/b", .super_options = SHARED},
		{.dev_minor = 45, .point = "/mnt/c", .super_options = OWN},
		{.dev_minor = 45, .point = "/mnt/d", .super_options = OWN},
	};

	for (size_t i = 0; i < ARRAY_SIZE(entries); i++)
		assert_int_equal(nfs_owner_look(&entries[i], &owner), 0);
	assert_false(owner.is_other);
	assert_string_equal(owner.point, "/mnt/c");
}

TEST(a_base_that_is_not_known_makes_nothing_a_stage)
{
	struct nfs_owner owner = {.dev_minor = 45, .stage_base = ""};
	const struct mount_entry entry = {.dev_minor = 45, .point = "/mnt", .super_options = OWN};

	assert_int_equal(nfs_owner_look(&entry, &owner), 0);
	assert_false(owner.is_other);
}

TEST(the_real_mount_table_is_looked_through)
{
	struct nfs_owner owner = {.dev_major = UINT32_MAX, .dev_minor = UINT32_MAX, .stage_base = STAGE};

	nfs_owner_find(&owner);
	assert_false(owner.is_other);
	assert_string_equal(owner.point, "");
}
