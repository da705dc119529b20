/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/mountinfo.h"

static struct mountinfo table;

static int parse(const char *line, struct mount_entry *ret)
{
	static char copy[4096];

	(void)str_copy(copy, sizeof(copy), line);
	return mountinfo_parse(copy, ret);
}

TEST(a_line_of_the_kernel_is_taken_apart)
{
	struct mount_entry e;

	assert_int_equal(parse("36 35 98:7 /mnt1 /mnt2 rw,noatime master:1 shared:2 - ext4 /dev/root "
			       "rw,errors=continue",
			       &e),
			 0);
	assert_int_equal(e.id, 36);
	assert_int_equal(e.parent, 35);
	assert_int_equal(e.dev_major, 98);
	assert_int_equal(e.dev_minor, 7);
	assert_string_equal(e.root, "/mnt1");
	assert_string_equal(e.point, "/mnt2");
	assert_string_equal(e.options, "rw,noatime");
	assert_int_equal(e.peer_group, 2);
	assert_int_equal(e.master, 1);
	assert_string_equal(e.type, "ext4");
	assert_string_equal(e.source, "/dev/root");
	assert_string_equal(e.super_options, "rw,errors=continue");
	assert_int_equal(parse("1 0 0:1 / / rw - tmpfs x rw", &e), 0);
	assert_int_equal(e.peer_group, 0);
	assert_int_equal(e.master, 0);
	assert_int_equal(parse("1 0 0:1 / / rw unbindable propagate_from:3 - tmpfs x rw", &e), 0);
	assert_int_equal(e.peer_group | e.master, 0);
	assert_int_equal(parse("1 0 0:1 / / rw - tmpfs  rw", &e), 0); /* a mount may have an empty source */
	assert_string_equal(e.source, "");
}

TEST(the_kernels_escapes_are_undone_and_no_others)
{
	struct mount_entry e;

	assert_int_equal(parse("1 0 0:1 / /a\\040b\\011c\\012d\\134e rw - t\\043 s\\040s rw", &e), 0);
	assert_string_equal(e.point, "/a b\tc\nd\\e");
	assert_string_equal(e.type, "t#");
	assert_string_equal(e.source, "s s");
	assert_int_equal(parse("1 0 0:1 / /a\\000b\\101\\04 rw - t s rw", &e), 0);
	assert_string_equal(e.point, "/a\\000b\\101\\04");
	/* an escaped backslash does not begin an escape */
	assert_int_equal(parse("1 0 0:1 / /a\\134040 rw - t s rw", &e), 0);
	assert_string_equal(e.point, "/a\\040");
	/* " - " inside a name stays inside */
	assert_int_equal(parse("1 0 0:1 / /a\\040-\\040ext4 rw - t s rw", &e), 0);
	assert_string_equal(e.point, "/a - ext4");
	assert_string_equal(e.type, "t");
}

TEST(malformed_lines_are_refused)
{
	static const char *const lines[] = {
		"",
		" ",
		"1",
		"1 0",
		"1 0 0:1",
		"1 0 0:1 /",
		"1 0 0:1 / /",
		"1 0 0:1 / / rw",
		"1 0 0:1 / / rw -",
		"1 0 0:1 / / rw - t",
		"1 0 0:1 / / rw - t s",
		"1 0 0:1 / / rw - t s rw more",
		"x 0 0:1 / / rw - t s rw",
		"1 y 0:1 / / rw - t s rw",
		"1 0 01 / / rw - t s rw",
		"1 0 0: / / rw - t s rw",
		"1 0 :1 / / rw - t s rw",
		"1 0 a:1 / / rw - t s rw",
		"1 0 4294967296:1 / / rw - t s rw",
		"18446744073709551616 0 0:1 / / rw - t s rw",
		"-1 0 0:1 / / rw - t s rw",
		"1 0 0:1 / / rw shared:1 t s rw",
		"1 0 0:-1 / / rw - t s rw",
		"1 0 0:1 / / rw shared:x - t s rw",
		"1 0 0:1 / / rw shared: - t s rw",
		"1 0 0:1 / / rw shared:0 - t s rw",
		"1 0 0:1 / / rw master:0 - t s rw",
		"1 0 0:1 / / rw master:18446744073709551616 - t s rw",
	};
	struct mount_entry e;

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++)
		assert_msg(parse(lines[i], &e) == -EBADMSG, "accepted: %s", lines[i]);
}

TEST(options_are_compared_as_whole_words)
{
	assert_true(mount_option_is_set("ro", "ro"));
	assert_true(mount_option_is_set("rw,nosuid,ro", "ro"));
	assert_true(mount_option_is_set("nosuid,nodev", "nosuid"));
	assert_false(mount_option_is_set("errors=remount-ro", "ro"));
	assert_false(mount_option_is_set("rox,xro", "ro"));
	assert_false(mount_option_is_set("", "ro"));
}

static void open_text(const char *text, size_t n)
{
	char path[] = "/tmp/holdfast-mountinfo-XXXXXX";
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	(void)unlink(path);
	assert_int_equal(write(fd, text, n), (ssize_t)n);
	table.fd = fd;
}

static int count(const struct mount_entry *entry, void *userdata)
{
	(*(int *)userdata)++;
	return 0;
}

static int count_text(const char *text, size_t n, int *ret_count)
{
	int r;

	*ret_count = 0;
	open_text(text, n);
	r = mountinfo_each(&table, count, ret_count);
	(void)close(table.fd);
	return r;
}

TEST(the_whole_table_is_read_however_long_it_is)
{
	enum { LINES = 20000 };
	cleanup_free char *text = malloc((size_t)LINES * 64);
	size_t n = 0;
	int found = 0;

	for (int i = 1; i <= LINES; i++)
		n += (size_t)str_format(text + n, 64, "%d 1 0:9 / /m/%d rw - tmpfs t rw,size=1k\n", i, i);
	assert_int_equal(count_text(text, n, &found), 0);
	assert_int_equal(found, LINES);
	assert_int_equal(count_text(text, n - 1, &found), -EBADMSG); /* the last line is cut */
	assert_int_equal(found, LINES - 1);
	assert_int_equal(count_text("", 0, &found), 0);
}

/* A well-formed line of exactly @n bytes with its newline; not NUL-terminated. */
static char *long_line(size_t n)
{
	static const char begin[] = "1 0 0:1 / /", end[] = " rw - t s rw\n";
	char *text = malloc(n + 1);

	memset(text, 'a', n);
	text[n] = '\0';
	for (size_t i = 0; i < strlen(begin); i++)
		text[i] = begin[i];
	for (size_t i = 0; i < strlen(end); i++)
		text[n - strlen(end) + i] = end[i];
	return text;
}

enum { LONG = 3 * MOUNTINFO_LINE_MAX };

/* Each mount of the table but for the long one: is it as in its line? */
static int check_neighbours(const struct mount_entry *entry, void *userdata)
{
	int *n = userdata;

	(*n)++;
	if (entry->id != 2) {
		assert_string_equal(entry->point, entry->id == 1 ? "/first" : "/last");
		return 0;
	}
	assert_int_equal(entry->parent, 1);
	assert_int_equal(entry->dev_minor, 7);
	assert_string_equal(entry->type, "fuse");
	assert_int_equal(strncmp(entry->root, "/r", 2), 0);
	assert_int_equal(strncmp(entry->point, "/stage/x", 8), 0);
	assert_true(strlen(entry->root) >= PATH_MAX || strlen(entry->point) >= PATH_MAX);
	return 0;
}

/* As after a rename of a folder above a mount's root, or above a mount. */
TEST(a_path_of_any_length_is_cut_and_hides_no_other_mount)
{
	static const char *const fillers[] = {"a", "\\040"};
	static const size_t lengths[][2] = {{LONG, 0}, {0, LONG}, {LONG, LONG}, {MOUNTINFO_LINE_MAX, LONG}};

	for (size_t i = 0; i < ARRAY_SIZE(fillers) * ARRAY_SIZE(lengths); i++) {
		const size_t *length = lengths[i / ARRAY_SIZE(fillers)];
		const char *filler = fillers[i % ARRAY_SIZE(fillers)];
		char *text = NULL;
		size_t n = 0;
		FILE *file = NON_NULL(open_memstream(&text, &n));
		int found = 0;

		(void)fputs("1 0 0:9 / /first rw - tmpfs t rw\n2 1 0:7 /r", file);
		for (size_t at = 0; at < length[0]; at += strlen(filler))
			(void)fputs(filler, file);
		(void)fputs(" /stage/x", file);
		for (size_t at = 0; at < length[1]; at += strlen(filler))
			(void)fputs(filler, file);
		(void)fputs(" rw - fuse s rw\n3 1 0:9 / /last rw - tmpfs t rw\n", file);
		(void)fclose(file);
		open_text(text, n);
		assert_int_equal(mountinfo_each(&table, check_neighbours, &found), 0);
		assert_int_equal(found, 3);
		(void)close(table.fd);
		free(text);
	}
}

/* Longer than any kernel writes: many long fields. */
TEST(a_line_of_too_many_long_fields_fails_the_pass)
{
	enum { FIELDS = 9 };
	char *text = NULL;
	size_t n = 0;
	FILE *file = NON_NULL(open_memstream(&text, &n));
	int found;

	for (size_t i = 0; i < (size_t)FIELDS * MOUNTINFO_CUT_FIELD; i++)
		(void)fputc(i % MOUNTINFO_CUT_FIELD == 0 ? ' ' : 'a', file);
	(void)fclose(file);
	assert_int_equal(count_text(text, n, &found), -EMSGSIZE);
	free(text);
}

TEST(a_line_may_fill_the_buffer_and_has_no_nul)
{
	static const char with_nul[] = "1 0 0:1 / /\0a rw - t s rw\n";
	cleanup_free char *fits = long_line(MOUNTINFO_LINE_MAX);
	cleanup_free char *too_long = long_line(MOUNTINFO_LINE_MAX + 1);
	int found;

	assert_int_equal(count_text(fits, MOUNTINFO_LINE_MAX, &found), 0);
	assert_int_equal(found, 1);
	assert_int_equal(count_text(too_long, MOUNTINFO_LINE_MAX + 1, &found), 0);
	assert_int_equal(found, 1);
	assert_int_equal(count_text(with_nul, sizeof(with_nul) - 1, &found), -EBADMSG);
}

static int stop_at_second(const struct mount_entry *entry, void *userdata)
{
	*(uint64_t *)userdata = entry->id;
	return entry->id == 11 ? 7 : 0;
}

TEST(a_pass_ends_where_the_visitor_says)
{
	static const char text[] = "10 1 0:9 / /a rw - tmpfs one rw\n"
				   "11 1 7:3 /sub /b rw shared:4 - ext4 /dev/loop3 rw\n"
				   "12 1 7:3 / /c rw master:4 - ext4 /dev/loop3 rw\n";
	uint64_t last = 0;

	open_text(text, sizeof(text) - 1);
	assert_int_equal(mountinfo_each(&table, stop_at_second, &last), 7);
	assert_int_equal(last, 11);
	(void)close(table.fd);
	assert_int_equal(mountinfo_each(&table, stop_at_second, &last), -EBADF);
}

TEST(the_last_mount_at_a_point_is_found)
{
	static const char text[] = "10 1 0:9 / /a rw - tmpfs one rw\n"
				   "11 1 7:3 / /a rw - ext4 /dev/loop3 rw\n"
				   "12 1 7:3 / /a/b rw - a-type-with-a-long-name x rw\n"
				   "13 1 7:3 / /a rw -broken\n";
	uint64_t id = 1;

	open_text(text, strlen(text) - strlen("13 1 7:3 / /a rw -broken\n"));
	assert_int_equal(mountinfo_at(&table, "/c", &id), 0);
	assert_int_equal(id, 0);
	assert_int_equal(mountinfo_at(&table, "/a", &id), 0);
	assert_int_equal(id, 11);
	assert_int_equal(mountinfo_at(&table, "/a/b", &id), 0);
	assert_int_equal(id, 12);
	(void)close(table.fd);
	open_text(text, strlen(text));
	assert_int_equal(mountinfo_at(&table, "/a", &id), -EBADMSG);
	assert_int_equal(id, 12);
	(void)close(table.fd);
}
