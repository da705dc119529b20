/* SPDX-License-Identifier: Apache-2.0 */
/* The decisions of the start: pure functions of what the kernel says. */

#include "fixture.h"
#include "startup.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

#include <string.h>
#include <sys/stat.h>

enum { AGENT = 995, SERVICE = 996, NO_LAUNCH_MODE = 0 };

TEST(there_are_two_launch_modes_and_no_third_one)
{
	static const struct {
		struct entry_facts facts;
		enum mh_start word;
		int launch_mode;
	} rows[] = {
		/* argc, argv[0], AT_SECURE, capable, ruid, euid */
		{{1, true, true, true, AGENT, 0}, START_OK, LAUNCH_SETUID},
		{{1, true, true, false, AGENT, 0}, START_OK, LAUNCH_SETUID}, /* what lacks shows later */
		{{1, true, false, true, SERVICE, SERVICE}, START_OK, LAUNCH_SOCKET},
		/* no_new_privs, nosuid, or no setuid bit */
		{{1, true, false, false, AGENT, AGENT}, START_NOT_PRIVILEGED, NO_LAUNCH_MODE},
		/* file capabilities, or setuid to somebody else */
		{{1, true, true, true, AGENT, AGENT}, START_NOT_PRIVILEGED, NO_LAUNCH_MODE},
		{{1, true, true, true, AGENT, SERVICE}, START_NOT_PRIVILEGED, NO_LAUNCH_MODE},
		{{1, true, false, true, AGENT, SERVICE}, START_NOT_PRIVILEGED, NO_LAUNCH_MODE},
		/* euid 0 without the exec that raises to it */
		{{1, true, false, true, AGENT, 0}, START_NOT_PRIVILEGED, NO_LAUNCH_MODE},
		{{1, true, true, true, 0, 0}, START_BY_ROOT, NO_LAUNCH_MODE},
		{{1, true, false, true, 0, 0}, START_BY_ROOT, NO_LAUNCH_MODE},
		{{1, true, true, true, 0, AGENT}, START_BY_ROOT, NO_LAUNCH_MODE},
		{{2, true, true, true, AGENT, 0}, START_ARGUMENTS, NO_LAUNCH_MODE},
		{{0, false, true, true, AGENT, 0}, START_ARGUMENTS, NO_LAUNCH_MODE},
		{{0, true, true, true, AGENT, 0}, START_ARGUMENTS, NO_LAUNCH_MODE},
		{{1, false, true, true, AGENT, 0}, START_ARGUMENTS, NO_LAUNCH_MODE},
		{{2, true, false, true, SERVICE, SERVICE}, START_ARGUMENTS, NO_LAUNCH_MODE},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		enum launch_mode launch_mode = (enum launch_mode)NO_LAUNCH_MODE;
		enum mh_start word = entry_launch_mode(&rows[i].facts, &launch_mode);

		if (word != rows[i].word || (int)launch_mode != rows[i].launch_mode)
			fail_msg("row %zu: word %d, launch mode %d", i, (int)word, (int)launch_mode);
	}
}

TEST(a_tree_is_fit_only_with_owner_mode_file_system_and_propagation)
{
	static const char *const local[] = {"ext4", "xfs", "btrfs", "tmpfs"};
	static const char *const other[] = {"nfs4", "fuse.ext4", "fuseblk", "overlay", "ramfs", ""};
	struct mount_facts mount = {.peer_group = 7, .type = "ext4"};
	struct place place = {.uid = SERVICE};

	for (uint16_t mode = 0; mode <= 07777; mode++) {
		place.mode = S_IFDIR | mode;
		assert_int_equal(setup_check_tree(&place, &mount, SERVICE, 0700),
				 mode == 0700 ? START_OK : START_TREE_OWNER);
	}
	place.mode = S_IFDIR | 0700;
	assert_int_equal(setup_check_tree(&place, &mount, SERVICE, 0711), START_TREE_OWNER);
	assert_int_equal(setup_check_tree(&place, &mount, AGENT, 0700), START_TREE_OWNER);
	for (size_t i = 0; i < ARRAY_SIZE(other); i++) {
		(void)str_copy(mount.type, sizeof(mount.type), other[i]);
		assert_int_equal(setup_check_tree(&place, &mount, SERVICE, 0700), START_TREE_FS);
	}
	for (size_t i = 0; i < ARRAY_SIZE(local); i++) {
		(void)str_copy(mount.type, sizeof(mount.type), local[i]);
		assert_int_equal(setup_check_tree(&place, &mount, SERVICE, 0700), START_OK);
	}
	mount.peer_group = 0;
	assert_int_equal(setup_check_tree(&place, &mount, SERVICE, 0700), START_TREE_PRIVATE);
}

TEST(every_start_word_has_its_own_word_and_a_code_of_its_step)
{
#define REASON_ROW(name, code, word, sentence) {code, word, sentence},
	static const struct {
		int code;
		const char *word, *sentence;
	} rows[] = {MH_STARTS(REASON_ROW)};

	assert_int_equal(ARRAY_SIZE(rows), START_N);
	for (size_t i = 1; i < ARRAY_SIZE(rows); i++) {
		assert_true(rows[i].code >= 70 && rows[i].code <= 79);
		assert_true(strlen(rows[i].sentence) > 0);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(rows[i].word, rows[k].word);
	}
}

/* But for white space, which the page breaks elsewhere. */
static void squeeze(char *text)
{
	char *to = text;

	for (const char *from = text; *from != '\0'; from++)
		if (!strchr(" \t\n", *from))
			*to++ = *from;
	*to = '\0';
}

TEST(the_manual_has_every_word_with_code_and_sentence)
{
#define ENTRY(name, code, word, sentence) "*" word "* (" #code ") " sentence,
	static const char *const entries[] = {MH_STARTS(ENTRY)};
	char wanted[1024], *manual;

	assert_int_equal(file_read(HELPER_MANUAL, 1 << 20, &manual, NULL), 0);
	squeeze(manual);
	for (size_t i = 1; i < ARRAY_SIZE(entries); i++) {
		assert_int_equal(str_copy(wanted, sizeof(wanted), entries[i]), 0);
		squeeze(wanted);
		assert_msg(strstr(manual, wanted), "not in " HELPER_MANUAL ": %s", entries[i]);
	}
	free(manual);
}
