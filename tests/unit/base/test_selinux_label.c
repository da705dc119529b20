/* SPDX-License-Identifier: Apache-2.0 */
/* Does a daemon notice that its program has lost its label? */

#include "temp_dir.h"
#include "unit.h"

#include "base/selinux_label.h"

static char dir[TEMP_DIR_SIZE];
static char enforce_path[TEMP_PATH_SIZE];
static char current_path[TEMP_PATH_SIZE];

static void put(const char *path, const char *text)
{
	FILE *f = NON_NULL(fopen(path, "we"));

	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

static int set_up(void **state)
{
	temp_dir_make(dir);
	(void)temp_dir_path(enforce_path, dir, "enforce");
	(void)temp_dir_path(current_path, dir, "current");
	return 0;
}

static int tear_down(void **state)
{
	temp_dir_remove(dir);
	return 0;
}

static int look(const char *enforce, const char *current, char ret[static SELINUX_LABEL_MAX + 1])
{
	(void)unlink(enforce_path);
	(void)unlink(current_path);
	if (enforce)
		put(enforce_path, enforce);
	if (current)
		put(current_path, current);
	return selinux_label_is_wrong(enforce_path, current_path, "holdfast_agent_t", ret);
}

TEST(only_another_domain_under_an_enforcing_kernel_is_wrong)
{
	static const struct {
		const char *enforce, *current;
		int result;
	} rows[] = {
		{NULL, NULL, 0},
		{"0", "system_u:system_r:initrc_t:s0", 0},
		{"1", "system_u:system_r:holdfast_agent_t:s0", 0},
		{"1", "system_u:system_r:holdfast_agent_t:s0\n", 0},
		{"1", "system_u:system_r:holdfast_agent_t", 0},
		{"1\n", "system_u:system_r:holdfast_agent_t:s0:c0.c1023", 0},
		{"1", "system_u:system_r:initrc_t:s0", 1},
		{"1", "system_u:system_r:unconfined_service_t:s0", 1},
		{"1", "system_u:system_r:holdfast_agent_type:s0", 1},
		{"1", "system_u:system_r:holdfast_agent:s0", 1},
		{"1", "holdfast_agent_t:system_r:init_t:s0", 1},
		{"1", "holdfast_agent_t", 1},
		{"1", "", 1},
		{"1", NULL, -ENOENT},
	};
	char context[SELINUX_LABEL_MAX + 1];

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(str_copy(context, sizeof(context), "untouched"), 0);
		assert_int_equal(look(rows[i].enforce, rows[i].current, context), rows[i].result);
		assert_string_equal(context, rows[i].result == 1 ? rows[i].current : "untouched");
	}
}

TEST(a_context_is_of_bounded_length)
{
	char current[SELINUX_LABEL_MAX + 2], context[SELINUX_LABEL_MAX + 1];

	memset(current, 'x', sizeof(current));
	current[SELINUX_LABEL_MAX] = '\0';
	assert_int_equal(look("1", current, context), 1);
	current[SELINUX_LABEL_MAX] = 'x';
	current[SELINUX_LABEL_MAX + 1] = '\0';
	assert_int_equal(look("1", current, context), -EFBIG);
}

TEST(the_message_names_the_file_the_domain_and_the_command)
{
	struct error err;

	assert_error(selinux_label_error("/usr/sbin/holdfast-agent", "holdfast_agent_t",
					 "system_u:system_r:initrc_t:s0", &err),
		     STATUS_FAILED_PRECONDITION, err, "system_u:system_r:initrc_t:s0");
	assert_non_null(strstr(err.msg, "holdfast_agent_t"));
	assert_non_null(strstr(err.msg, "restorecon -v /usr/sbin/holdfast-agent,"));
	assert_non_null(strstr(err.msg, "restart its unit"));
}

TEST_GROUP(set_up, tear_down)
