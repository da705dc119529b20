/* SPDX-License-Identifier: Apache-2.0 */
/* Where the units of a host set an option, on trees made up here; and what is made of that for a launch mode.
 */

#include "folder.h"
#include "mounthelper_words.h"
#include "temp_dir.h"
#include "unit.h"

#include "base/fd.h"
#include "helper/proc.h"
#include "unit/lines.h"

#include <sys/stat.h>

#define UNIT "a.service"

static char root[TEMP_DIR_SIZE];
static const char *const wanted[] = {"PrivateTmp", "LimitAS", "CapabilityBoundingSet", NULL};

static int setup(void **state)
{
	temp_dir_make(root);
	return 0;
}

static int teardown(void **state)
{
	folder_remove(root);
	return 0;
}

static void put(const char *path, const char *text)
{
	char full[PATH_MAX];

	assert_true(str_format(full, sizeof(full), "%s%s", root, path) > 0);
	for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		(void)mkdir(full, 0755);
		*slash = '/';
	}
	assert_int_equal(file_write_atomic(full, 0644, text, strlen(text)), 0);
}

static bool find(struct unit_line *ret)
{
	return unit_lines_find(root, UNIT, "alias.service", wanted, ret);
}

TEST_FIXTURE(an_option_is_found_with_its_line, setup, teardown)
{
	struct unit_line line = {.number = 7};

	assert_false(find(&line));
	put("/usr/lib/systemd/system/" UNIT,
	    "[Service]\n# PrivateTmp=yes\n;PrivateTmp=yes\nPrivateTmpX=yes\n");
	assert_false(find(&line));
	assert_int_equal(line.number, 7);
	put("/usr/lib/systemd/system/" UNIT, "[Service]\n\n PrivateTmp = yes \r\n");
	assert_true(find(&line));
	assert_int_equal(line.number, 3);
	assert_string_equal(line.path, "/usr/lib/systemd/system/" UNIT);
	assert_string_equal(line.option, "PrivateTmp");
	assert_string_equal(line.value, "yes");
}

TEST_FIXTURE(the_last_assignment_wins_in_the_order_of_systemd, setup, teardown)
{
	struct unit_line line;

	put("/usr/lib/systemd/system/" UNIT, "LimitAS=1\n");
	put("/etc/systemd/system/" UNIT, "LimitAS=2\n"); /* instead of the other */
	assert_true(find(&line));
	assert_string_equal(line.value, "2");
	put("/usr/lib/systemd/system/" UNIT ".d/50-b.conf", "LimitAS=3\n");
	put("/etc/systemd/system/" UNIT ".d/10-a.conf", "LimitAS=4\n");
	assert_true(find(&line));
	assert_string_equal(line.value, "3");
	put("/etc/systemd/system/" UNIT ".d/50-b.conf", "LimitAS=5\n"); /* hides that of the same name */
	assert_true(find(&line));
	assert_string_equal(line.value, "5");
	put("/run/systemd/system/alias.service.d/60.conf", "LimitAS=6\n");
	assert_true(find(&line));
	assert_string_equal(line.path, "/run/systemd/system/alias.service.d/60.conf");
	put("/etc/systemd/system/service.d/70.conf", "LimitAS=7\n");
	assert_true(find(&line));
	assert_string_equal(line.value, "7");
	put("/etc/systemd/system/" UNIT ".d/99.txt", "LimitAS=8\n"); /* no drop-in */
	assert_true(find(&line));
	assert_string_equal(line.value, "7");
}

TEST_FIXTURE(settings_switched_off_later_do_not_apply, setup, teardown)
{
	static const char *const off[] = {"", "no", "NO", "0", "false", "off", "n", "f"};
	struct unit_line line;
	char text[64];

	put("/etc/systemd/system/" UNIT, "PrivateTmp=yes\n");
	for (size_t i = 0; i < ARRAY_SIZE(off); i++) {
		(void)str_format(text, sizeof(text), "PrivateTmp=%s\n", off[i]);
		put("/etc/systemd/system/" UNIT ".d/1.conf", text);
		assert_false(find(&line));
	}
	/* but no capabilities at all are what a unit may have been given */
	put("/etc/systemd/system/" UNIT ".d/1.conf", "PrivateTmp=\nCapabilityBoundingSet=\n");
	assert_true(find(&line));
	assert_string_equal(line.option, "CapabilityBoundingSet");
	assert_int_equal(line.number, 2);
}

TEST_FIXTURE(oversized_and_excess_unit_files_are_skipped, setup, teardown)
{
	static char text[UNIT_FILE_MAX + 2];
	struct unit_line line;
	char name[128];

	memset(text, '\n', sizeof(text) - 1);
	(void)memcpy(text, "LimitAS=1\n", 10);
	put("/etc/systemd/system/" UNIT, text);
	assert_false(find(&line));
	text[UNIT_FILE_MAX] = '\0';
	put("/etc/systemd/system/" UNIT, text);
	assert_true(find(&line));
	for (int i = 0; i <= UNIT_DROPINS_MAX; i++) {
		(void)str_format(name, sizeof(name), "/etc/systemd/system/" UNIT ".d/%d.conf", i);
		put(name, "LimitAS=2\n");
	}
	assert_true(find(&line));
	assert_string_equal(line.value, "2");
}

static const struct mh_failure *failure(enum mh_start word)
{
	static struct mh_failure one;

	one = (struct mh_failure){.word = (uint16_t)word};
	return &one;
}

static struct error explain(bool is_socket, bool no_new_privs, const struct mh_failure *what)
{
	const struct launch_facts facts = {.root = root, .unit = UNIT, .no_new_privs = no_new_privs};
	const struct helper_launch launch = {.path = "/helper", .is_socket = is_socket};
	struct error err = {.status = STATUS_UNAVAILABLE, .msg = "as it was"};

	launch_fault_explain(&facts, &launch, what, &err);
	assert_int_equal(err.status, STATUS_UNAVAILABLE);
	return err;
}

static void says(const struct error *err, const char *text)
{
	assert_msg(strstr(err->msg, text), "'%s' is not in: %s", text, err->msg);
}

TEST_FIXTURE(a_dead_setuid_bit_is_reported_with_the_option_that_disables_it, setup, teardown)
{
	struct error err = explain(false, true, failure(START_NOT_PRIVILEGED));

	says(&err, "no_new_privs is set for this agent");
	put("/etc/systemd/system/" UNIT ".d/x.conf", "[Service]\nRestrictNamespaces=yes\n");
	err = explain(false, true, failure(START_NOT_PRIVILEGED));
	says(&err, "/etc/systemd/system/" UNIT ".d/x.conf:2: RestrictNamespaces=yes sets no_new_privs");
	says(&err, "systemctl daemon-reload");
}

TEST_FIXTURE(a_program_of_the_wrong_owner_or_mode_is_reported, setup, teardown)
{
	char full[PATH_MAX];
	struct error err;

	err = explain(false, false, failure(START_NOT_PRIVILEGED));
	says(&err, "as it was"); /* nothing can be seen */
	put("/helper", "");
	(void)str_format(full, sizeof(full), "%s/helper", root);
	assert_int_equal(chmod(full, 0755), 0);
	err = explain(false, false, failure(START_NOT_PRIVILEGED));
	says(&err, "mode 0755");
	says(&err, "chmod 4750 /helper");
	err = explain(false, false, NULL);
	says(&err, "chown root:holdfast /helper");
}

TEST_FIXTURE(the_template_of_launch_mode_socket_is_searched_for_the_option, setup, teardown)
{
	struct error err;

	err = explain(true, true, failure(START_NAMESPACE));
	says(&err, "as it was");
	put("/usr/lib/systemd/system/" HELPER_UNIT_TEMPLATE,
	    "[Service]\nUser=x\nPrivateTmp=yes\nLimitAS=1\n");
	err = explain(true, true, failure(START_NAMESPACE));
	says(&err, HELPER_UNIT_TEMPLATE ":3: PrivateTmp=yes");
	err = explain(true, true, failure(START_HELPER_UID)); /* the package's: the policy is wrong */
	says(&err, "as it was");
	err = explain(true, true, failure(START_LIMIT));
	says(&err, HELPER_UNIT_TEMPLATE ":4: LimitAS=1");
	err = explain(true, true, failure(START_POLICY)); /* says itself which file */
	says(&err, "as it was");
	put("/etc/systemd/system/" HELPER_UNIT_TEMPLATE ".d/x.conf", "[Service]\nUser=y\n");
	err = explain(true, true, failure(START_HELPER_UID));
	says(&err, "x.conf:2: User=y");
}

TEST_FIXTURE(in_launch_mode_setuid_it_is_the_agents_unit, setup, teardown)
{
	struct error err;

	put("/usr/lib/systemd/system/" HELPER_UNIT_TEMPLATE, "PrivateTmp=yes\n");
	put("/usr/lib/systemd/system/" UNIT, "PrivateTmp=yes\nCapabilityBoundingSet=CAP_SETUID\n");
	err = explain(false, false, failure(START_NAMESPACE));
	says(&err, "/usr/lib/systemd/system/" UNIT ":2: CapabilityBoundingSet=CAP_SETUID must keep");
}

TEST_FIXTURE(a_helper_that_reports_nothing_could_not_be_executed, setup, teardown)
{
	char full[PATH_MAX];
	struct error err;

	err = explain(true, true, NULL);
	says(&err, "install holdfast-mounthelper");
	put("/usr/lib/systemd/system/" HELPER_UNIT_TEMPLATE, "ExecStart=/helper\n");
	err = explain(true, true, NULL);
	says(&err, "is not there");
	put("/helper", "");
	err = explain(true, true, NULL);
	says(&err, "chmod 0755");
	(void)str_format(full, sizeof(full), "%s/helper", root);
	assert_int_equal(chmod(full, 0755), 0);
	err = explain(true, true, NULL);
	says(&err, "as it was");
}
