/* SPDX-License-Identifier: Apache-2.0 */
#include "csi_node.h"
#include "memory.h"
#include "sample.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "volume/guard.h"

#include <string.h>
#include <unistd.h>

static uint64_t clock_offset_us;

uint64_t __real_clock_monotonic_us(void);
uint64_t __wrap_clock_monotonic_us(void);

uint64_t __wrap_clock_monotonic_us(void)
{
	return __real_clock_monotonic_us() + clock_offset_us;
}

#define EXPECT_WORDS(text, words)                                     \
	do {                                                          \
		if (!strstr((text), (words)))                         \
			fail_msg("'%s' lacks '%s'", (text), (words)); \
	} while (0)

static unsigned int calls(struct csi_node *node, enum csi_method method)
{
	return csi_node_calls(node, method);
}

static void expect_calls(struct csi_node *node, unsigned int stage, unsigned int publish,
			 unsigned int unpublish, unsigned int unstage)
{
	assert_int_equal(calls(node, CSI_NODE_STAGE_VOLUME), stage);
	assert_int_equal(calls(node, CSI_NODE_PUBLISH_VOLUME), publish);
	assert_int_equal(calls(node, CSI_NODE_UNPUBLISH_VOLUME), unpublish);
	assert_int_equal(calls(node, CSI_NODE_UNSTAGE_VOLUME), unstage);
}

static const char *step_of(const struct csi_user *user)
{
	return user->task ? volume_op_info(user->task).step : "";
}

static void turn_until_step(struct csi_node *node, const struct csi_user *user, const char *step)
{
	for (unsigned int i = 0; !str_eq(step_of(user), step); i++) {
		assert_msg(i <= 2000, "step '%s' instead of '%s'", step_of(user), step);
		csi_node_turn(node);
	}
}

static void stop_all(struct csi_node *node)
{
	for (size_t i = 0; i < node->n_users; i++)
		csi_user_stop(&node->users[i]);
	CSI_NODE_UNTIL(node, csi_node_all_released);
}

#define CASE(name) TEST_ON(name, struct csi_node, node, csi_node_setup, csi_node_teardown)

CASE(a_volume_goes_by_its_plugin_and_back)
{
	const struct csi_user *user = csi_node_add(node, "v", false, false);
	const struct fake_csi_volume *volume;

	CSI_NODE_UNTIL(node, csi_node_all_mounted);
	expect_calls(node, 1, 1, 0, 0);
	volume = NON_NULL(fake_csi_volume("ext/v"));
	assert_string_equal(volume->staged, FAKE_PLUGIN_BASE "/v/staging");
	assert_true(fake_csi_is_published("ext/v", FAKE_PLUGIN_BASE "/v/rw-publish"));
	assert_string_equal(volume->last_secret, CSI_SECRET);
	assert_string_equal(volume->last_publish_context, "/dev/x");
	assert_string_equal(volume->last_context, "pool");
	assert_true(str_starts_with(user->mounted.path, FAKE_PUBLISH_BASE "/"));
	assert_false(user->mounted.is_device);
	/* before the plugin, and after it */
	assert_int_equal(fake_helper_count(&node->fake, MH_OP_STAGE, MH_OK, "v", NULL), 1);
	assert_int_equal(fake_helper_count(&node->fake, MH_OP_STAGE, MH_ALREADY, "v", NULL), 1);
	stop_all(node);
	expect_calls(node, 1, 1, 1, 1);
	csi_node_expect_nothing(node);
	assert_int_equal(node->fake.state->plugin_left, 0);
	assert_string_equal(volume->staged, "");
}

NODE_TEST(the_secrets_of_a_mount_that_has_ended_are_nowhere)
{
	char secret[] = CSI_SECRET;

	(void)csi_node_add(node, "v", false, false);
	CSI_NODE_UNTIL(node, csi_node_all_mounted);
	assert_string_equal(fake_csi_volume("ext/v")->last_secret, secret);
	/* the model's */
	explicit_bzero(fake_csi_volume("ext/v")->last_secret, sizeof(secret));
	stop_all(node);
	assert_false(memory_holds(secret + sizeof(secret) / 2, sizeof(secret) / 2 - 1));
}

NODE_TEST(a_plugin_gets_no_access_mode_that_it_does_not_know)
{
	struct node_plugin *facts =
		(struct node_plugin *)(uintptr_t)plugins_facts(node->plugins, CSI_PLUGIN); /* the model's */

	(void)csi_node_add(node, "v", false, false); /* SINGLE_NODE_MULTI_WRITER */
	CSI_NODE_UNTIL(node, csi_node_all_mounted);
	assert_int_equal(fake_csi_volume("ext/v")->last_access_mode,
			 CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__MODE__SINGLE_NODE_MULTI_WRITER);
	facts->node.single_node_multi_writer = false;
	(void)csi_node_add(node, "w", false, false);
	(void)csi_node_add(node, "r", true, false);
	CSI_NODE_UNTIL(node, csi_node_all_mounted);
	assert_int_equal(fake_csi_volume("ext/w")->last_access_mode,
			 CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__MODE__SINGLE_NODE_WRITER);
	assert_int_equal(fake_csi_volume("ext/r")->last_access_mode,
			 CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__MODE__MULTI_NODE_READER_ONLY);
	stop_all(node);
}

CASE(a_profile_that_the_policy_lacks_is_named)
{
	struct mh_list_entry profile = {.volume = CSI_PLUGIN, .class = MH_CLASS_BLOCK};
	static const struct {
		enum mh_class class;
		const char *words;
	} rows[] = {
		{MH_CLASS_BLOCK,
		 "has no profile for plugin csi.plug: add 'profile csi.plug { class = csi }' to the agent's "
		 "block of mounthelper.policy, run holdfast policy apply,"},
		{MH_CLASS_CSI, "refused by its policy or for the ticket"},
	};

	node->fake.state->refuses_csi = true;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct mount_snapshot *observed = NON_NULL(mount_snapshot_new());
		const struct csi_user *user = csi_node_add(node, "v", false, false);

		profile.class = (uint8_t)rows[i].class;
		assert_int_equal(mount_snapshot_add(observed, MH_LIST_PROFILES, &profile, NULL), STATUS_OK);
		volume_manager_set_observed(node->manager, observed);
		while (user->mount_error.status == STATUS_OK)
			csi_node_turn(node);
		assert_int_equal(user->mount_error.status, STATUS_PERMISSION_DENIED);
		EXPECT_WORDS(user->mount_error.msg, rows[i].words);
	}
	expect_calls(node, 0, 0, 0, 0);
	stop_all(node);
}

CASE(an_existing_mount_needs_no_plugin)
{
	struct csi_user *first = csi_node_add(node, "v", true, false), *second;

	CSI_NODE_UNTIL(node, csi_node_all_mounted);
	fake_csi_set_up(node->model, false);
	second = csi_node_add(node, "v", true, false);
	CSI_NODE_UNTIL(node, csi_node_all_mounted);
	expect_calls(node, 1, 1, 0, 0);
	/* nor does what others still use */
	csi_user_stop(first);
	CSI_NODE_UNTIL(node, csi_node_is_quiet);
	assert_int_equal(first->state, CSI_USER_RELEASED);
	expect_calls(node, 1, 1, 0, 0);
	fake_csi_set_up(node->model, true);
	csi_user_stop(second);
	CSI_NODE_UNTIL(node, csi_node_all_released);
	csi_node_expect_nothing(node);
}

/* The agent that had it mounted has forgotten it. */
CASE(an_existing_mount_is_removed_by_its_plugin)
{
	struct csi_user *first = csi_node_add(node, "v", true, false), *second;

	CSI_NODE_UNTIL(node, csi_node_all_mounted);
	first->state = CSI_USER_RELEASED;
	csi_node_restart(node);
	second = csi_node_add(node, "v", true, false);
	while (second->state != CSI_USER_MOUNTED)
		csi_node_turn(node);
	expect_calls(node, 1, 1, 0, 0);
	for (size_t i = 0; i < FAKE_MOUNTS_MAX; i++) {
		if (str_eq(node->fake.state->mounts[i].alloc, first->alloc))
			node->fake.state->mounts[i].is_used = false;
	}
	csi_user_stop(second);
	CSI_NODE_UNTIL(node, csi_node_all_released);
	expect_calls(node, 1, 1, 1, 1);
	csi_node_expect_nothing(node);
}

NODE_TEST(each_use_has_its_target_and_goes_with_its_last_user)
{
	struct csi_user *reader = csi_node_add(node, "v", true, false);
	struct csi_user *writer = csi_node_add(node, "v", false, false);

	CSI_NODE_UNTIL(node, csi_node_all_mounted);
	assert_true(fake_csi_is_published("ext/v", FAKE_PLUGIN_BASE "/v/ro-publish"));
	assert_true(fake_csi_is_published("ext/v", FAKE_PLUGIN_BASE "/v/rw-publish"));
	expect_calls(node, 1, 2, 0, 0); /* staged once */
	csi_user_stop(writer);
	CSI_NODE_UNTIL(node, csi_node_is_quiet);
	assert_false(fake_csi_is_published("ext/v", FAKE_PLUGIN_BASE "/v/rw-publish"));
	assert_true(fake_csi_is_published("ext/v", FAKE_PLUGIN_BASE "/v/ro-publish"));
	assert_int_equal(calls(node, CSI_NODE_UNPUBLISH_VOLUME), 1);
	assert_int_equal(calls(node, CSI_NODE_UNSTAGE_VOLUME), 0);
	csi_user_stop(reader);
	CSI_NODE_UNTIL(node, csi_node_all_released);
	assert_int_equal(calls(node, CSI_NODE_UNPUBLISH_VOLUME), 2);
	assert_int_equal(calls(node, CSI_NODE_UNSTAGE_VOLUME), 1);
	csi_node_expect_nothing(node);
}

/* Only of what the plugin has confirmed and the mount table still shows is staging not asked for again. */
NODE_TEST(a_second_use_restages_an_unconfirmed_stage)
{
	static const struct {
		bool restarts, is_gone;
		unsigned int stages;
	} rows[] = {{false, false, 1}, {true, false, 1}, {false, true, 2}, {true, true, 2}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		unsigned int before = calls(node, CSI_NODE_STAGE_VOLUME);

		node->n_users = 0;
		(void)csi_node_add(node, "v", false, false);
		CSI_NODE_UNTIL(node, csi_node_all_mounted);
		if (rows[i].restarts)
			csi_node_restart(node);
		if (rows[i].is_gone) /* somebody has unmounted it */
			fake_helper_plugin(&node->fake, FAKE_PLUGIN_BASE "/v/staging", NULL);
		(void)csi_node_add(node, "v", true, false);
		CSI_NODE_UNTIL(node, csi_node_all_mounted);
		assert_int_equal(calls(node, CSI_NODE_STAGE_VOLUME) - before, rows[i].stages);
		stop_all(node);
		csi_node_expect_nothing(node);
	}
}

NODE_TEST(a_plugin_without_the_stage_capability_gets_no_stage)
{
	node->model->n_node_rpcs = 0;
	csi_node_restart(node);
	(void)csi_node_add(node, "v", false, false);
	CSI_NODE_UNTIL(node, csi_node_all_mounted);
	expect_calls(node, 0, 1, 0, 0);
	stop_all(node);
	expect_calls(node, 0, 1, 1, 0);
	csi_node_expect_nothing(node);
}

static bool has_published_in_vain(struct csi_node *node)
{
	return calls(node, CSI_NODE_PUBLISH_VOLUME) >= 2;
}

NODE_TEST(a_plugin_that_announces_staging_late_is_staged_before_the_publish)
{
	size_t announced = node->model->n_node_rpcs;

	node->model->n_node_rpcs = 0;
	csi_node_restart(node);
	fake_csi_order(node->model, CSI_NODE_PUBLISH_VOLUME, FAKE_CSI_FAIL, 2, STATUS_FAILED_PRECONDITION);
	(void)csi_node_add(node, "v", false, false);
	CSI_NODE_UNTIL(node, has_published_in_vain);
	expect_calls(node, 0, 2, 0, 0);
	node->model->n_node_rpcs = announced;
	fake_plugins_look_again(node->plugins, "csi.plug");
	CSI_NODE_UNTIL(node, csi_node_all_mounted);
	expect_calls(node, 1, 3, 0, 0);
	stop_all(node);
	expect_calls(node, 1, 3, 1, 1);
	csi_node_expect_nothing(node);
}

/* A plugin that was exchanged for one that announces less; what it has never staged it is not asked to
 * unstage. */
NODE_TEST(a_stage_is_undone_though_the_plugin_lost_the_capability)
{
	static const struct {
		unsigned int failures;
		enum status status;
		unsigned int calls;
	} rows[] = {{0, STATUS_OK, 1}, {2, STATUS_UNAVAILABLE, 3}, {1, STATUS_UNIMPLEMENTED, 1}};
	size_t announced = node->model->n_node_rpcs;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		unsigned int before = calls(node, CSI_NODE_UNSTAGE_VOLUME);

		node->model->n_node_rpcs = announced;
		csi_node_restart(node);
		node->n_users = 0;
		(void)csi_node_add(node, "v", false, false);
		CSI_NODE_UNTIL(node, csi_node_all_mounted);
		node->model->n_node_rpcs = 0;
		csi_node_restart(node);
		fake_csi_order(node->model, CSI_NODE_UNSTAGE_VOLUME, FAKE_CSI_FAIL, rows[i].failures,
			       rows[i].status);
		stop_all(node);
		assert_int_equal(calls(node, CSI_NODE_UNSTAGE_VOLUME) - before, rows[i].calls);
		csi_node_expect_nothing(node);
		/* and what it publishes now, without staging, it is not asked to unstage */
		node->n_users = 0;
		(void)csi_node_add(node, "v", false, false);
		CSI_NODE_UNTIL(node, csi_node_all_mounted);
		csi_node_restart(node);
		stop_all(node);
		assert_int_equal(calls(node, CSI_NODE_UNSTAGE_VOLUME) - before, rows[i].calls);
		csi_node_expect_nothing(node);
	}
}

NODE_TEST(an_ok_of_the_plugin_is_not_trusted_alone)
{
	struct csi_user *user;

	fake_csi_order(node->model, CSI_NODE_PUBLISH_VOLUME, FAKE_CSI_LIE, 1, STATUS_OK);
	user = csi_node_add(node, "v", false, false);
	CSI_NODE_UNTIL(node, csi_node_all_released);
	assert_int_equal(user->mounts, 0);
	assert_int_equal(user->mount_error.status, STATUS_FAILED_PRECONDITION);
	EXPECT_WORDS(user->mount_error.msg,
		     "plugin csi.plug answered OK to NodePublishVolume and mounted nothing");
	EXPECT_WORDS(user->mount_error.msg, FAKE_PLUGIN_BASE "/v/rw-publish");
	assert_int_equal(fake_helper_count(&node->fake, MH_OP_PUBLISH, MH_OK, NULL, NULL), 0);
	csi_node_expect_nothing(node);
}

CASE(the_helper_removes_mounts_that_a_plugin_denies)
{
	(void)csi_node_add(node, "v", false, false);
	CSI_NODE_UNTIL(node, csi_node_all_mounted);
	fake_csi_order(node->model, CSI_NODE_UNPUBLISH_VOLUME, FAKE_CSI_LIE, 1, STATUS_OK);
	fake_csi_order(node->model, CSI_NODE_UNSTAGE_VOLUME, FAKE_CSI_LIE, 1, STATUS_OK);
	stop_all(node);
	csi_node_expect_nothing(node);
	assert_int_equal(node->fake.state->plugin_left, 2);
}

NODE_TEST(not_found_from_the_plugin_counts_as_released)
{
	struct csi_user *user = csi_node_add(node, "v", false, false);

	CSI_NODE_UNTIL(node, csi_node_all_mounted);
	fake_csi_order(node->model, CSI_NODE_UNPUBLISH_VOLUME, FAKE_CSI_FAIL, 9, STATUS_NOT_FOUND);
	fake_csi_order(node->model, CSI_NODE_UNSTAGE_VOLUME, FAKE_CSI_FAIL, 9, STATUS_NOT_FOUND);
	stop_all(node);
	assert_int_equal(user->retries, 0);
	expect_calls(node, 1, 1, 1, 1);
	csi_node_expect_nothing(node);
}

CASE(volumes_of_an_absent_plugin_stay_mounted)
{
	struct csi_user *user = csi_node_add(node, "v", false, false);

	CSI_NODE_UNTIL(node, csi_node_all_mounted);
	fake_csi_set_up(node->model, false);
	csi_user_stop(user);
	while (user->retries < 5)
		csi_node_turn(node);
	assert_int_equal(user->state, CSI_USER_MOUNTED);
	assert_int_equal(user->last_retry.status, STATUS_UNAVAILABLE);
	EXPECT_WORDS(user->last_retry.msg, "volume v cannot be released without its plugin: ");
	EXPECT_WORDS(user->last_retry.msg, "its socket is closed");
	turn_until_step(node, user, "wait to try again");
	/* the allocation has released it, the volume is not unstaged */
	assert_null(fake_helper_mount(&node->fake, "", user->alloc, 0));
	assert_true(fake_helper_folder(&node->fake, "v")->targets[0].is_mounted);
	assert_int_equal(fake_helper_count(&node->fake, MH_OP_UNSTAGE, MH_OK, NULL, NULL), 0);
	fake_csi_set_up(node->model, true);
	CSI_NODE_UNTIL(node, csi_node_all_released);
	csi_node_expect_nothing(node);
}

/* The facade's NOT_FOUND is not the plugin's. */
NODE_TEST(a_plugin_that_was_never_here_is_no_answer)
{
	struct csi_user *user = csi_node_add(node, "v", false, false);
	struct plugins *none = fake_plugins_new(node->event);

	CSI_NODE_UNTIL(node, csi_node_all_mounted);
	volume_manager_set_plugins(node->manager, NULL, 0);
	csi_user_stop(user);
	while (user->retries < 3)
		csi_node_turn(node);
	volume_manager_set_plugins(node->manager, none, 0);
	while (user->retries < 6)
		csi_node_turn(node);
	assert_int_equal(user->last_retry.status, STATUS_UNAVAILABLE);
	EXPECT_WORDS(user->last_retry.msg, "it was never here");
	assert_true(fake_helper_folder(&node->fake, "v")->targets[0].is_mounted);
	volume_manager_set_plugins(node->manager, node->plugins, node->wait_us);
	CSI_NODE_UNTIL(node, csi_node_all_released);
	plugins_free(none);
}

NODE_TEST(a_mount_waits_for_its_plugin_and_reports_it)
{
	struct csi_user *user;

	fake_csi_set_up(node->model, false);
	user = csi_node_add(node, "v", false, false);
	turn_until_step(node, user, "wait for plugin");
	assert_true(volume_op_info(user->task).next_try_ms > clock_realtime_ms() + 20000);
	fake_csi_set_up(node->model, true);
	CSI_NODE_UNTIL(node, csi_node_all_mounted);
	stop_all(node);
}

NODE_TEST(a_volume_without_a_plugin_call_is_undone_without_the_plugin)
{
	struct csi_user *user;

	fake_csi_set_up(node->model, false);
	node->wait_us = 2 * USEC_PER_MSEC;
	csi_node_restart(node);
	user = csi_node_add(node, "v", false, false);
	CSI_NODE_UNTIL(node, csi_node_all_released);
	assert_int_equal(user->mount_error.status, STATUS_UNAVAILABLE);
	EXPECT_WORDS(user->mount_error.msg, "volume v cannot be mounted without its plugin: ");
	assert_int_equal(user->retries, 0);
	csi_node_expect_nothing(node);
}

NODE_TEST(errors_that_pass_are_waited_out)
{
	static const struct {
		enum csi_method method;
		enum status code;
	} rows[] = {
		{CSI_NODE_STAGE_VOLUME, STATUS_UNAVAILABLE},
		{CSI_NODE_STAGE_VOLUME, STATUS_ABORTED},
		{CSI_NODE_PUBLISH_VOLUME, STATUS_UNAVAILABLE},
		{CSI_NODE_PUBLISH_VOLUME, STATUS_ABORTED},
		{CSI_NODE_PUBLISH_VOLUME, STATUS_DEADLINE_EXCEEDED},
		{CSI_NODE_STAGE_VOLUME, STATUS_INTERNAL},
		{CSI_NODE_STAGE_VOLUME, STATUS_UNKNOWN},
		{CSI_NODE_STAGE_VOLUME, STATUS_FAILED_PRECONDITION},
		{CSI_NODE_PUBLISH_VOLUME, STATUS_INTERNAL},
		{CSI_NODE_PUBLISH_VOLUME, STATUS_UNKNOWN},
		{CSI_NODE_PUBLISH_VOLUME, STATUS_FAILED_PRECONDITION},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		unsigned int before = calls(node, rows[i].method);
		struct csi_user *user;

		node->n_users = 0;
		fake_csi_order(node->model, rows[i].method, FAKE_CSI_FAIL, 3, rows[i].code);
		user = csi_node_add(node, "v", false, false);
		CSI_NODE_UNTIL(node, csi_node_all_mounted);
		assert_int_equal(calls(node, rows[i].method) - before, 4);
		assert_int_equal(user->mount_error.status, STATUS_OK);
		stop_all(node);
	}
	csi_node_expect_nothing(node);
}

/* A plugin that has forgotten what it had staged; once per mount. */
NODE_TEST(a_publish_refused_for_a_precondition_is_staged_again_once)
{
	for (unsigned int refusals = 0; refusals <= 4; refusals++) {
		unsigned int stages = calls(node, CSI_NODE_STAGE_VOLUME);
		unsigned int publishes = calls(node, CSI_NODE_PUBLISH_VOLUME);

		node->n_users = 0;
		fake_csi_order(node->model, CSI_NODE_PUBLISH_VOLUME, FAKE_CSI_FAIL, refusals,
			       STATUS_FAILED_PRECONDITION);
		(void)csi_node_add(node, "v", false, false);
		CSI_NODE_UNTIL(node, csi_node_all_mounted);
		assert_int_equal(calls(node, CSI_NODE_STAGE_VOLUME) - stages, refusals > 0 ? 2 : 1);
		assert_int_equal(calls(node, CSI_NODE_PUBLISH_VOLUME) - publishes, refusals + 1);
		stop_all(node);
		csi_node_expect_nothing(node);
	}
}

NODE_TEST(other_errors_end_a_mount_with_the_plugins_words)
{
	static const struct {
		enum csi_method method;
		enum status code;
	} rows[] = {
		{CSI_NODE_STAGE_VOLUME, STATUS_INVALID_ARGUMENT},
		{CSI_NODE_STAGE_VOLUME, STATUS_NOT_FOUND},
		{CSI_NODE_STAGE_VOLUME, STATUS_ALREADY_EXISTS},
		{CSI_NODE_STAGE_VOLUME, STATUS_PERMISSION_DENIED},
		{CSI_NODE_STAGE_VOLUME, STATUS_UNAUTHENTICATED},
		{CSI_NODE_STAGE_VOLUME, STATUS_UNIMPLEMENTED},
		{CSI_NODE_PUBLISH_VOLUME, STATUS_INVALID_ARGUMENT},
		{CSI_NODE_PUBLISH_VOLUME, STATUS_NOT_FOUND},
		{CSI_NODE_PUBLISH_VOLUME, STATUS_ALREADY_EXISTS},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		unsigned int before = calls(node, rows[i].method);
		struct csi_user *user;

		node->n_users = 0;
		fake_csi_order(node->model, rows[i].method, FAKE_CSI_FAIL, 1, rows[i].code);
		node->model->orders[rows[i].method].text = "no such pool";
		user = csi_node_add(node, "v", false, false);
		CSI_NODE_UNTIL(node, csi_node_all_released);
		assert_int_equal(calls(node, rows[i].method) - before, 1);
		assert_int_equal(user->mount_error.status, rows[i].code);
		EXPECT_WORDS(user->mount_error.msg, "no such pool");
		EXPECT_WORDS(user->mount_error.msg, "volume v");
		csi_node_expect_nothing(node);
	}
}

NODE_TEST(patience_with_passing_errors_ends)
{
	struct csi_user *user;

	fake_csi_order(node->model, CSI_NODE_STAGE_VOLUME, FAKE_CSI_FAIL, 1000000, STATUS_UNAVAILABLE);
	node->model->orders[CSI_NODE_STAGE_VOLUME].text = "pool is away";
	user = csi_node_add(node, "v", false, false);
	while (calls(node, CSI_NODE_STAGE_VOLUME) < 5)
		csi_node_turn(node);
	clock_offset_us = (VOLUME_MOUNT_PATIENCE_MS - 5000) * USEC_PER_MSEC;
	while (calls(node, CSI_NODE_STAGE_VOLUME) < 10)
		csi_node_turn(node);
	assert_int_equal(user->mount_error.status, STATUS_OK);
	EXPECT_WORDS(volume_op_info(user->task).last_error, "pool is away");
	assert_true(volume_op_info(user->task).attempts >= 9);
	clock_offset_us = VOLUME_MOUNT_PATIENCE_MS * USEC_PER_MSEC;
	while (user->mount_error.status == STATUS_OK)
		csi_node_turn(node);
	EXPECT_WORDS(user->mount_error.msg, "pool is away");
	EXPECT_WORDS(user->mount_error.msg, "given up after ");
	EXPECT_WORDS(user->mount_error.msg, " attempts (mount_timeout): volume v: plugin csi.plug");
	clock_offset_us = 0;
	CSI_NODE_UNTIL(node, csi_node_all_released);
	csi_node_expect_nothing(node);
}

NODE_TEST(an_allocation_may_have_more_or_less_patience)
{
	static const uint32_t timeouts[] = {1000, 2 * VOLUME_MOUNT_PATIENCE_MS};

	fake_csi_order(node->model, CSI_NODE_STAGE_VOLUME, FAKE_CSI_FAIL, 1000000, STATUS_INTERNAL);
	for (size_t i = 0; i < ARRAY_SIZE(timeouts); i++) {
		struct volume_op_info info;
		struct csi_user *user;

		node->n_users = 0;
		node->mount_timeout_ms = timeouts[i];
		user = csi_node_add(node, "v", false, false);
		while (!user->task || volume_op_info(user->task).attempts < 5)
			csi_node_turn(node);
		info = volume_op_info(user->task);
		assert_in_range(info.gives_up_ms, clock_realtime_ms() + timeouts[i] - 900,
				clock_realtime_ms() + timeouts[i]);
		if (i == 1)
			clock_offset_us = (timeouts[i] - 10000) * USEC_PER_MSEC;
		for (int t = 0; t < 20; t++)
			csi_node_turn(node);
		assert_int_equal(user->mount_error.status, STATUS_OK);
		clock_offset_us = timeouts[i] * USEC_PER_MSEC;
		while (user->mount_error.status == STATUS_OK)
			csi_node_turn(node);
		assert_int_equal(user->mount_error.status, STATUS_INTERNAL);
		clock_offset_us = 0;
		CSI_NODE_UNTIL(node, csi_node_all_released);
	}
	csi_node_expect_nothing(node);
}

CASE(a_hanging_step_shows_the_work_it_blocks)
{
	struct csi_user *first, *second;
	struct volume_op_info info;

	fake_csi.patience_us = 30 * USEC_PER_SEC;
	fake_csi_order(node->model, CSI_NODE_PUBLISH_VOLUME, FAKE_CSI_HOLD, 1, STATUS_OK);
	first = csi_node_add(node, "v", false, false);
	second = csi_node_add(node, "v", true, false);
	turn_until_step(node, first, "plugin publish");
	for (int i = 0; i < 10; i++)
		csi_node_turn(node);
	assert_string_equal(step_of(first), "plugin publish");
	assert_string_equal(step_of(second), "queued");
	info = volume_op_info(first->task);
	assert_string_equal(info.plugin_id, CSI_PLUGIN);
	assert_string_equal(info.call, "NodePublishVolume");
	assert_true(info.is_calling && info.step_since_ms >= info.since_ms);
	info = volume_op_info(second->task);
	assert_true(!info.plugin_id && !info.call && !info.is_calling);
	/* other volumes go their way */
	assert_int_equal(csi_node_add(node, "w", false, false)->state, CSI_USER_CLAIMED);
	while (node->users[2].state != CSI_USER_MOUNTED)
		csi_node_turn(node);
	/* a waiter that is cancelled has an error at once */
	csi_user_stop(second);
	while (second->state != CSI_USER_RELEASED && !second->is_unmounting)
		csi_node_turn(node);
	assert_int_equal(second->mount_error.status, STATUS_CANCELLED);
	assert_int_equal(second->mounts, 0);
	assert_int_equal(fake_csi_answer(), 1);
	while (first->state != CSI_USER_MOUNTED)
		csi_node_turn(node);
	stop_all(node);
	csi_node_expect_nothing(node);
}

NODE_TEST(a_mount_that_is_cancelled_in_a_call_ends_after_it)
{
	static const enum csi_method methods[] = {CSI_NODE_STAGE_VOLUME, CSI_NODE_PUBLISH_VOLUME};

	fake_csi.patience_us = 30 * USEC_PER_SEC;
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		struct csi_user *user;

		node->n_users = 0;
		fake_csi_order(node->model, methods[i], FAKE_CSI_HOLD, 1, STATUS_OK);
		user = csi_node_add(node, "v", false, false);
		turn_until_step(node, user, i == 0 ? "plugin stage" : "plugin publish");
		for (int t = 0; t < 5; t++)
			csi_node_turn(node);
		csi_user_stop(user);
		for (int t = 0; t < 5; t++)
			csi_node_turn(node);
		assert_int_equal(user->mount_error.status, STATUS_OK);
		assert_int_equal(fake_csi_answer(), 1);
		CSI_NODE_UNTIL(node, csi_node_all_released);
		assert_int_equal(user->mount_error.status, STATUS_CANCELLED);
		assert_int_equal(user->mounts, 0);
		csi_node_expect_nothing(node);
	}
}

NODE_TEST(looks_at_mounts_reach_back_to_the_oldest_mounting_call_in_flight)
{
	struct csi_user *slow, *other;

	fake_csi.patience_us = 30 * USEC_PER_SEC;
	fake_csi_order(node->model, CSI_NODE_PUBLISH_VOLUME, FAKE_CSI_HOLD, 1, STATUS_OK);
	slow = csi_node_add(node, "v", false, false);
	while (fake_csi_waiting() == 0)
		csi_node_turn(node);
	for (int i = 0; i < 2; i++) {
		other = csi_node_add(node, "w", false, false);
		while (other->state != CSI_USER_MOUNTED)
			csi_node_turn(node);
		csi_user_stop(other);
		while (other->state != CSI_USER_RELEASED)
			csi_node_turn(node);
		assert_int_equal(node->settled, 0); /* slow began before the first look */
	}
	assert_int_equal(fake_csi_answer(), 1);
	while (slow->state != CSI_USER_MOUNTED)
		csi_node_turn(node);
	csi_user_stop(slow);
	CSI_NODE_UNTIL(node, csi_node_all_released);
	assert_true(node->settled == UINT64_MAX);
	assert_int_equal(node->n_whole_looks, 1);
}

NODE_TEST(after_a_lost_call_all_mounts_are_looked_at)
{
	struct csi_user *user;

	fake_csi.patience_us = 30 * USEC_PER_SEC;
	fake_csi_order(node->model, CSI_NODE_STAGE_VOLUME, FAKE_CSI_HOLD, 1, STATUS_OK);
	user = csi_node_add(node, "v", false, false);
	while (fake_csi_waiting() == 0)
		csi_node_turn(node);
	csi_user_stop(user);
	assert_int_equal(fake_csi_expire(), 1);
	CSI_NODE_UNTIL(node, csi_node_all_released);
	assert_in_range(node->n_whole_looks, 2, 10); /* before unpublish and unstage each */
}

NODE_TEST(a_failed_call_without_users_is_not_retried)
{
	struct csi_user *user;

	fake_csi.patience_us = 30 * USEC_PER_SEC;
	fake_csi_order(node->model, CSI_NODE_STAGE_VOLUME, FAKE_CSI_HOLD, 1, STATUS_OK);
	user = csi_node_add(node, "v", false, false);
	while (fake_csi_waiting() == 0)
		csi_node_turn(node);
	csi_user_stop(user);
	assert_int_equal(fake_csi_expire(), 1);
	CSI_NODE_UNTIL(node, csi_node_all_released);
	assert_int_equal(user->mount_error.status, STATUS_CANCELLED);
	expect_calls(node, 1, 0, 1, 1); /* it may have staged */
	csi_node_expect_nothing(node);
}

CASE(a_pause_between_two_calls_ends_with_a_cancel)
{
	struct csi_user *user;

	fake_csi_order(node->model, CSI_NODE_PUBLISH_VOLUME, FAKE_CSI_FAIL, 1000000, STATUS_UNAVAILABLE);
	user = csi_node_add(node, "v", false, false);
	while (user->state == CSI_USER_CLAIMED && calls(node, CSI_NODE_PUBLISH_VOLUME) < 3)
		csi_node_turn(node);
	csi_user_stop(user);
	CSI_NODE_UNTIL(node, csi_node_all_released);
	assert_int_equal(user->mount_error.status, STATUS_CANCELLED);
	assert_in_range(calls(node, CSI_NODE_PUBLISH_VOLUME), 3, 4);
	csi_node_expect_nothing(node);
}

/* A copy of the mount in another namespace is a writer still. */
CASE(a_file_system_that_lives_on_is_not_released)
{
	struct csi_user *user, *other;

	node->major = 8;
	user = csi_node_add(node, "v", false, false);
	CSI_NODE_UNTIL(node, csi_node_all_mounted);
	node->superblock_lives = true;
	csi_user_stop(user);
	while (user->retries < 3)
		csi_node_turn(node);
	EXPECT_WORDS(user->last_retry.msg, "its file system (device 8:1) is still in use");
	/* the plugin has released it: it is not asked again and again */
	expect_calls(node, 1, 1, 1, 1);
	node->superblock_lives = false;
	CSI_NODE_UNTIL(node, csi_node_all_released);
	csi_node_expect_nothing(node);
	/* as the helper says it */
	node->n_users = 0;
	user = csi_node_add(node, "v", false, false);
	CSI_NODE_UNTIL(node, csi_node_all_mounted);
	node->fake.state->sb_alive = true;
	csi_user_stop(user);
	while (user->retries < 1)
		csi_node_turn(node);
	node->fake.state->sb_alive = false;
	CSI_NODE_UNTIL(node, csi_node_all_released);
	/* another volume has the device by now: its file system proves nothing */
	node->n_users = 0;
	user = csi_node_add(node, "v", false, false);
	other = csi_node_add(node, "w", false, false);
	CSI_NODE_UNTIL(node, csi_node_all_mounted);
	node->superblock_lives = true;
	csi_user_stop(user);
	while (user->state != CSI_USER_RELEASED)
		csi_node_turn(node);
	assert_int_equal(user->retries, 0);
	node->superblock_lives = false;
	csi_user_stop(other);
	CSI_NODE_UNTIL(node, csi_node_all_released);
}

/* Mounts of a plugin are volumes then by the journal alone, and its own is no other one. */
CASE(a_helper_that_lost_its_state_keeps_no_volume_beside_another_one_of_its_device)
{
	struct csi_user *user, *other;

	node->major = 8;
	node->counts_nothing = true;
	for (int is_known = 1; is_known >= 0; is_known--) {
		node->n_users = 0;
		user = csi_node_add(node, "v", false, false);
		other = csi_node_add(node, "w", false, false);
		CSI_NODE_UNTIL(node, csi_node_all_mounted);
		other->state = is_known ? CSI_USER_MOUNTED : CSI_USER_RELEASED;
		csi_node_restart(node);
		node->superblock_lives = true;
		csi_user_stop(user);
		while (user->state != CSI_USER_RELEASED && user->retries < 2)
			csi_node_turn(node);
		assert_int_equal(user->state == CSI_USER_RELEASED, is_known);
		node->superblock_lives = false;
		CSI_NODE_UNTIL(node, csi_node_is_quiet);
		other->state = CSI_USER_MOUNTED;
		csi_user_stop(other);
		CSI_NODE_UNTIL(node, csi_node_all_released);
		csi_node_expect_nothing(node);
	}
}

/* Whose device it is was judged when the plugin had mounted it, and survives the agent. */
CASE(a_mount_made_by_hand_keeps_the_volume_from_being_released)
{
	node->major = 8;
	node->superblock_lives = true; /* its own, as long as it is mounted */
	for (int restarts = 0; restarts <= 1; restarts++) {
		struct csi_user *user;

		node->n_users = 0;
		node->elsewhere = NULL;
		user = csi_node_add(node, "v", false, false);
		CSI_NODE_UNTIL(node, csi_node_all_mounted);
		assert_false(user->mounted.is_host_device);
		node->elsewhere = "/mnt/by;$(hand)"; /* the plugin chooses such a name */
		/* a reader beside it classifies nothing anew */
		(void)csi_node_add(node, "v", true, false);
		CSI_NODE_UNTIL(node, csi_node_all_mounted);
		assert_false(node->users[1].mounted.is_host_device);
		if (restarts)
			csi_node_restart(node);
		csi_user_stop(user);
		csi_user_stop(&node->users[1]);
		while (user->retries + node->users[1].retries < 3)
			csi_node_turn(node);
		if (user->state == CSI_USER_RELEASED)
			user = &node->users[1];
		EXPECT_WORDS(user->last_retry.msg, "(device 8:1) is still in use");
		EXPECT_WORDS(user->last_retry.msg, "umount '/mnt/by;$(hand)')");
		EXPECT_WORDS(user->last_retry.msg, "grep ' 8:1 ' /proc/*/mountinfo");
		node->superblock_lives = false;
		CSI_NODE_UNTIL(node, csi_node_all_released);
		csi_node_expect_nothing(node);
		node->superblock_lives = true;
	}
}

NODE_TEST(a_file_system_of_the_host_lives_on)
{
	node->major = 8;
	node->superblock_lives = true;
	node->elsewhere = "/srv";
	for (int restarts = 0; restarts <= 1; restarts++) {
		struct csi_user *user;

		node->n_users = 0;
		user = csi_node_add(node, "v", false, false);
		CSI_NODE_UNTIL(node, csi_node_all_mounted);
		assert_true(user->mounted.is_host_device);
		if (restarts)
			csi_node_restart(node);
		csi_user_stop(user);
		CSI_NODE_UNTIL(node, csi_node_all_released);
		assert_int_equal(user->retries, 0);
		csi_node_expect_nothing(node);
	}
}

/* Many volumes of one device of the host's: the table is read for the first, and whenever the host has
 * mounted it elsewhere since. */
NODE_TEST(the_mount_table_is_not_read_for_each_volume_of_a_device)
{
	static const struct {
		const char *name, *elsewhere;
		bool is_hosts;
		unsigned int tables;
	} rows[] = {
		{"v1", "/srv", true, 1},  {"v2", "/srv", true, 1}, {"v3", "/data", true, 2},
		{"v4", "/data", true, 2}, {"v5", NULL, false, 3},  {"v6", "/data", true, 3},
	};

	node->major = 8;
	node->superblock_lives = true;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct csi_user *user = csi_node_add(node, rows[i].name, false, false);

		node->elsewhere = rows[i].elsewhere;
		CSI_NODE_UNTIL(node, csi_node_all_mounted);
		assert_int_equal(user->mounted.is_host_device, rows[i].is_hosts);
		assert_int_equal(node->tables, rows[i].tables);
	}
	node->superblock_lives = false;
	for (size_t i = 0; i < node->n_users; i++)
		csi_user_stop(&node->users[i]);
	CSI_NODE_UNTIL(node, csi_node_all_released);
}

/* What the plugin has made needs no whole table, wherever else it is mounted; what was there before does. */
NODE_TEST(new_plugin_mounts_need_no_read_of_the_whole_table)
{
	static const struct {
		const char *name, *elsewhere;
		bool is_made, is_hosts;
		unsigned int tables;
	} rows[] = {
		{"v1", NULL, true, false, 0},	  {"v2", NULL, false, false, 1},
		{"v3", NULL, true, false, 1},	  {"v4", "/pool", true, true, 1},
		{"v5", "/pool2", false, true, 2},
	};

	node->major = 8;
	node->superblock_lives = true;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct csi_user *user = csi_node_add(node, rows[i].name, false, false);

		node->elsewhere = rows[i].elsewhere;
		node->made_at = rows[i].is_made ? node->moments + 1 : 0;
		/* the first call counts: it may have mounted already */
		fake_csi_order(node->model, CSI_NODE_STAGE_VOLUME, FAKE_CSI_FAIL, 2, STATUS_UNAVAILABLE);
		CSI_NODE_UNTIL(node, csi_node_all_mounted);
		assert_int_equal(user->mounted.is_host_device, rows[i].is_hosts);
		assert_int_equal(node->tables, rows[i].tables);
		assert_int_equal(node->moments, i + 1);
	}
	/* a reader beside a writer classifies nothing anew */
	(void)csi_node_add(node, rows[0].name, true, false);
	CSI_NODE_UNTIL(node, csi_node_all_mounted);
	assert_int_equal(node->moments, sizeof(rows) / sizeof(rows[0]));
	node->superblock_lives = false;
	for (size_t i = 0; i < node->n_users; i++)
		csi_user_stop(&node->users[i]);
	CSI_NODE_UNTIL(node, csi_node_all_released);
}

/* The agent died between the plugin's mount and its own note of it. */
CASE(a_device_never_classified_is_the_hosts_only_if_a_part_is_bound)
{
	node->major = 8;
	node->superblock_lives = true;
	node->elsewhere = "/srv";
	for (int is_part = 0; is_part <= 1; is_part++) {
		struct csi_user *user;

		node->is_part = is_part != 0;
		node->n_users = 0;
		user = csi_node_add(node, "v", false, false);
		CSI_NODE_UNTIL(node, csi_node_all_mounted);
		user->state = CSI_USER_CLAIMED;
		user->wants_stop = true;
		csi_node_restart(node);
		while (!is_part && user->retries < 2)
			csi_node_turn(node);
		node->superblock_lives = is_part != 0;
		CSI_NODE_UNTIL(node, csi_node_all_released);
		assert_int_equal(user->retries > 0, !is_part);
		node->superblock_lives = true;
	}
}

NODE_TEST(a_mount_that_waits_for_its_plugin_is_cancelled_at_once)
{
	struct csi_user *user;

	fake_csi_set_up(node->model, false);
	user = csi_node_add(node, "v", false, false);
	turn_until_step(node, user, "wait for plugin");
	csi_user_stop(user);
	CSI_NODE_UNTIL(node, csi_node_all_released);
	assert_int_equal(user->mount_error.status, STATUS_CANCELLED);
	csi_node_expect_nothing(node);
}

/* What may have been carried out is called again before anything else of the volume. */
CASE(an_undoing_of_unknown_outcome_comes_before_all_others)
{
	static const enum csi_method methods[] = {CSI_NODE_UNPUBLISH_VOLUME, CSI_NODE_UNSTAGE_VOLUME};

	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		unsigned int before = calls(node, methods[i]), staged;
		struct csi_user *first, *second;

		node->n_users = 0;
		first = csi_node_add(node, "v", false, false);
		CSI_NODE_UNTIL(node, csi_node_all_mounted);
		fake_csi_order(node->model, methods[i], FAKE_CSI_HANG_DONE, 3, STATUS_OK);
		csi_user_stop(first);
		turn_until_step(node, first, i == 0 ? "plugin unpublish" : "plugin unstage");
		staged = calls(node, CSI_NODE_STAGE_VOLUME);
		second = csi_node_add(node, "v", false, false);
		while (calls(node, methods[i]) < before + 4) {
			csi_node_turn(node);
			if (calls(node, methods[i]) < before + 4)
				assert_int_equal(calls(node, CSI_NODE_STAGE_VOLUME), staged);
		}
		while (second->state != CSI_USER_MOUNTED)
			csi_node_turn(node);
		assert_int_equal(first->state, CSI_USER_RELEASED);
		assert_int_equal(first->retries, 3);
		stop_all(node);
		csi_node_expect_nothing(node);
	}
}

CASE(a_refused_operation_lets_others_go_first)
{
	struct csi_user *first = csi_node_add(node, "v", false, false), *second;

	CSI_NODE_UNTIL(node, csi_node_all_mounted);
	fake_csi_order(node->model, CSI_NODE_UNPUBLISH_VOLUME, FAKE_CSI_FAIL, 1000000,
		       STATUS_FAILED_PRECONDITION);
	csi_user_stop(first);
	while (first->retries == 0)
		csi_node_turn(node);
	second = csi_node_add(node, "v", false, false);
	while (second->state != CSI_USER_MOUNTED)
		csi_node_turn(node);
	/* now somebody uses the target, and there is nothing left to undo for the first */
	while (first->state != CSI_USER_RELEASED)
		csi_node_turn(node);
	node->model->orders[CSI_NODE_UNPUBLISH_VOLUME].times = 0;
	stop_all(node);
	csi_node_expect_nothing(node);
}

NODE_TEST(a_device_is_the_plugins_target_itself)
{
	struct csi_user *first = csi_node_add(node, "v", false, true), *second;

	CSI_NODE_UNTIL(node, csi_node_all_mounted);
	assert_true(first->mounted.is_device);
	assert_string_equal(first->mounted.path, FAKE_PLUGIN_BASE "/v/rw-publish");
	assert_int_equal(first->mounted.dev_major, 8);
	assert_true(first->mounted.dev_minor != 0);
	assert_int_equal(fake_helper_count(&node->fake, MH_OP_PUBLISH, MH_OK, NULL, NULL), 0);
	assert_int_equal(fake_helper_count(&node->fake, MH_OP_STAGE, MH_OK, NULL, NULL), 2);
	/* what stands already */
	second = csi_node_add(node, "v", false, true);
	CSI_NODE_UNTIL(node, csi_node_all_mounted);
	assert_int_equal(second->mounted.dev_minor, first->mounted.dev_minor);
	expect_calls(node, 1, 1, 0, 0);
	csi_node_restart(node);
	stop_all(node);
	expect_calls(node, 1, 1, 1, 1);
	csi_node_expect_nothing(node);
}

NODE_TEST(a_publish_without_a_device_fails)
{
	struct csi_user *user;

	fake_csi_order(node->model, CSI_NODE_PUBLISH_VOLUME, FAKE_CSI_LIE, 1, STATUS_OK);
	user = csi_node_add(node, "v", false, true);
	CSI_NODE_UNTIL(node, csi_node_all_released);
	assert_int_equal(user->mounts, 0);
	assert_int_equal(user->mount_error.status, STATUS_FAILED_PRECONDITION);
	EXPECT_WORDS(user->mount_error.msg,
		     "bound no block device of /dev at " FAKE_PLUGIN_BASE "/v/rw-publish");
	csi_node_expect_nothing(node);
}

static const enum csi_method node_methods[] = {CSI_NODE_STAGE_VOLUME, CSI_NODE_PUBLISH_VOLUME,
					       CSI_NODE_UNPUBLISH_VOLUME, CSI_NODE_UNSTAGE_VOLUME};

/* What a plugin that is restarted by its supervisor looks like. */
static void plugin_comes_back(struct csi_node *node)
{
	if (!node->model->is_up)
		fake_csi_set_up(node->model, true);
}

/* A whole life of a volume: mounted, or failed and undone; then stopped. True: nobody has restarted it. */
static bool live(struct csi_node *node, const char *name, unsigned int restart_at)
{
	struct csi_user *user;
	unsigned int turns = 0;
	bool is_short = true;

	node->n_users = 0;
	user = csi_node_add(node, name, false, false);
	while (user->state != CSI_USER_RELEASED) {
		if (++turns == restart_at) {
			csi_node_restart(node);
			is_short = false;
		}
		assert_msg(turns <= 5000, "%s does not end: %s", step_of(user), user->last_retry.msg);
		csi_node_turn(node);
		plugin_comes_back(node);
		if (user->state == CSI_USER_MOUNTED && !user->wants_stop)
			csi_user_stop(user);
	}
	return is_short;
}

/* Every call, ended in every way, with the agent killed between any two turns of its loop: nothing is left.
 */
NODE_TEST(whatever_a_call_does_nothing_is_left)
{
	const struct sample sample = sample_of_environment();
	unsigned int n = 0;

	for (size_t m = 0; m < ARRAY_SIZE(node_methods); m++) {
		for (enum fake_csi_way way = FAKE_CSI_OK; way < FAKE_CSI_WAY_N; way++) {
			bool is_lie = way == FAKE_CSI_LIE;
			bool is_over = way == FAKE_CSI_HOLD || way == FAKE_CSI_HOLD_DONE ||
				       !sample_has(&sample, m + way);

			for (unsigned int at = 0; !is_over; at++) {
				char name[32];

				(void)str_format(name, sizeof(name), "v%u", n++ % 40);
				fake_csi_order(node->model, node_methods[m], way, 1,
					       m < 2 ? STATUS_INTERNAL : STATUS_UNAVAILABLE);
				is_over = live(node, name, at) && at > 0;
				node->model->orders[node_methods[m]].times = 0;
				csi_node_expect_nothing(node);
				/* the next call after a lie is against the rules, without our knowledge */
				if (is_lie) {
					fake_csi.violation[0] = '\0';
					fake_csi.n_volumes = 0;
					memset(fake_csi.volumes, 0, sizeof(fake_csi.volumes));
				}
				assert_string_equal(fake_csi.violation, "");
			}
		}
	}
	print_message("%u lives\n", n);
}

/* The helper's answers: refusals, what is busy, and its death around each request. */
static void order_helper(struct fake_state *helper, unsigned int answer)
{
	helper->refuse_stage = answer == 0;
	helper->refuse_publish = answer == 1;
	helper->busy_unpublish = answer == 2 ? 2 : 0;
	helper->busy_unstage = answer == 3 ? 2 : 0;
	helper->calls = 0;
	helper->fault_calls = 1;
	helper->fault_call = answer < 4 ? 0 : 1 + (answer - 4) / 2;
	helper->fault = answer % 2 == 0 ? FAKE_DIE_BEFORE : FAKE_DIE_AFTER;
}

CASE(whatever_helper_and_plugin_do_nothing_is_left)
{
	static const enum fake_csi_way ways[] = {FAKE_CSI_OK, FAKE_CSI_FAIL_DONE, FAKE_CSI_HANG_DONE,
						 FAKE_CSI_VANISH_DONE};
	enum { ANSWERS = 4 + 2 * 6 };
	const struct sample sample = sample_of_environment();
	unsigned int n = 0;

	for (unsigned int answer = 0; answer < ANSWERS; answer++) {
		for (size_t w = 0; w < ARRAY_SIZE(ways); w++) {
			for (unsigned int at = 0; at <= 16; at += 4) {
				enum csi_method method = node_methods[n % ARRAY_SIZE(node_methods)];
				char name[32];

				/* n alone would leave each part one method */
				if (!sample_has(&sample, answer + w + at / 4)) {
					n++;
					continue;
				}
				(void)str_format(name, sizeof(name), "v%u", n++ % 40);
				order_helper(node->fake.state, answer);
				fake_csi_order(node->model, method, ways[w], 1, STATUS_UNAVAILABLE);
				(void)live(node, name, at);
				node->model->orders[method].times = 0;
				node->fake.state->fault_call = 0;
				csi_node_expect_nothing(node);
				assert_string_equal(fake_csi.violation, "");
			}
		}
	}
	print_message("%u lives\n", n);
}

static const char target[] = FAKE_PLUGIN_BASE "/v/rw-publish";

/* The plugin dies in a call that mounts, is started again, and a child of the first one is still at it. */
static struct csi_user *lose_a_mount(struct csi_node *node, enum csi_method method)
{
	struct csi_user *user;

	fake_csi_order(node->model, method, FAKE_CSI_VANISH, 1, STATUS_UNAVAILABLE);
	user = csi_node_add(node, "v", false, false);
	while (node->model->is_up)
		csi_node_turn(node);
	node->model->pid = 4242;
	fake_csi_set_up(node->model, true);
	return user;
}

NODE_TEST(children_of_a_dead_plugin_end_before_a_mount_is_repeated)
{
	static const enum csi_method methods[] = {CSI_NODE_STAGE_VOLUME, CSI_NODE_PUBLISH_VOLUME};

	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		unsigned int before = calls(node, methods[i]);
		const struct csi_user *user;

		node->n_users = 0;
		node->naming = target;
		user = lose_a_mount(node, methods[i]);
		while (node->process_looks < 5)
			csi_node_turn(node);
		assert_int_equal(calls(node, methods[i]) - before, 1);
		EXPECT_WORDS(volume_op_info(user->task).last_error, "is not called yet");
		EXPECT_WORDS(volume_op_info(user->task).last_error, "pid 4711, mount");
		clock_offset_us += 2 * GUARD_WAIT_MS * USEC_PER_MSEC;
		node->process_looks = 0;
		while (node->process_looks < 5)
			csi_node_turn(node);
		assert_int_equal(calls(node, methods[i]) - before, 1);
		node->naming = NULL;
		CSI_NODE_UNTIL(node, csi_node_all_mounted);
		assert_int_equal(calls(node, methods[i]) - before, 2);
		stop_all(node);
		node->process_looks = 0;
		clock_offset_us = 0;
		node->model->pid = getpid();
	}
	csi_node_expect_nothing(node);
}

/* A file server in user space names what it serves, and does not end. */
NODE_TEST(a_process_that_serves_the_mount_is_not_waited_for)
{
	node->naming = target;
	fake_csi_order(node->model, CSI_NODE_PUBLISH_VOLUME, FAKE_CSI_VANISH_DONE, 1, STATUS_UNAVAILABLE);
	(void)csi_node_add(node, "v", false, false);
	while (node->model->is_up)
		csi_node_turn(node);
	node->model->pid = 4242;
	fake_csi_set_up(node->model, true);
	while (node->process_looks < 3)
		csi_node_turn(node);
	assert_int_equal(calls(node, CSI_NODE_PUBLISH_VOLUME), 1); /* mounts have just changed */
	clock_offset_us = GUARD_QUIET_MS * USEC_PER_MSEC;
	CSI_NODE_UNTIL(node, csi_node_all_mounted);
	assert_int_equal(calls(node, CSI_NODE_PUBLISH_VOLUME), 2);
	stop_all(node);
	csi_node_expect_nothing(node);
	clock_offset_us = 0;
}

NODE_TEST(children_of_a_dead_plugin_end_before_a_removal)
{
	struct csi_user *user;

	node->naming = target;
	user = lose_a_mount(node, CSI_NODE_PUBLISH_VOLUME);
	csi_user_stop(user);
	while (user->retries < 5)
		csi_node_turn(node);
	assert_int_equal(user->last_retry.status, STATUS_ABORTED);
	expect_calls(node, 1, 1, 0, 0);
	/* no time alone lets it continue */
	clock_offset_us = 10 * GUARD_WAIT_MS * USEC_PER_MSEC;
	while (user->retries < 10)
		csi_node_turn(node);
	expect_calls(node, 1, 1, 0, 0);
	node->naming = NULL;
	CSI_NODE_UNTIL(node, csi_node_all_released);
	expect_calls(node, 1, 1, 1, 1);
	csi_node_expect_nothing(node);
	clock_offset_us = 0;
}

/* A hidden process may mount at any time. */
NODE_TEST(a_proc_that_hides_processes_is_waited_for_without_a_deadline)
{
	struct csi_user *user = lose_a_mount(node, CSI_NODE_PUBLISH_VOLUME);

	node->is_proc_partial = true;
	csi_user_stop(user);
	while (user->retries < 3)
		csi_node_turn(node);
	assert_int_equal(user->last_retry.status, STATUS_ABORTED);
	EXPECT_WORDS(user->last_retry.msg, "/proc hides processes from the agent");
	EXPECT_WORDS(user->last_retry.msg, "remove ProtectProc=");
	clock_offset_us = 10 * GUARD_WAIT_MS * USEC_PER_MSEC;
	while (user->retries < 10)
		csi_node_turn(node);
	expect_calls(node, 1, 1, 0, 0);
	node->is_proc_partial = false;
	CSI_NODE_UNTIL(node, csi_node_all_released);
	expect_calls(node, 1, 1, 1, 1);
	csi_node_expect_nothing(node);
	clock_offset_us = 0;
}

NODE_TEST(a_process_that_hangs_its_readers_is_waited_for_without_a_deadline)
{
	struct csi_user *user = lose_a_mount(node, CSI_NODE_PUBLISH_VOLUME);

	node->is_proc_unfinished = true;
	csi_user_stop(user);
	while (user->retries < 3)
		csi_node_turn(node);
	assert_int_equal(user->last_retry.status, STATUS_ABORTED);
	EXPECT_WORDS(user->last_retry.msg, "a process does not show its command line");
	EXPECT_WORDS(user->last_retry.msg, "(pid 4711, mount)");
	EXPECT_WORDS(user->last_retry.msg, "Look: cat /proc/4711/status"); /* ps would hang */
	clock_offset_us = 10 * GUARD_WAIT_MS * USEC_PER_MSEC;
	while (user->retries < 10)
		csi_node_turn(node);
	expect_calls(node, 1, 1, 0, 0);
	node->is_proc_unfinished = false;
	CSI_NODE_UNTIL(node, csi_node_all_released);
	expect_calls(node, 1, 1, 1, 1);
	csi_node_expect_nothing(node);
	clock_offset_us = 0;
}

/* Of what may be somebody else's, and of what nothing is known. */
NODE_TEST(possibly_unrelated_processes_are_waited_for_until_a_deadline)
{
	static const struct {
		unsigned int n_session;
		bool is_hidden;
		unsigned int ms;
	} rows[] = {{1, false, GUARD_WAIT_MS}, {0, true, GUARD_QUIET_MS}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		unsigned int before = calls(node, CSI_NODE_PUBLISH_VOLUME);

		node->n_users = 0;
		node->n_session = rows[i].n_session;
		node->hides_processes = rows[i].is_hidden;
		(void)lose_a_mount(node, CSI_NODE_PUBLISH_VOLUME);
		while (node->process_looks < 5)
			csi_node_turn(node);
		assert_int_equal(calls(node, CSI_NODE_PUBLISH_VOLUME) - before, 1);
		clock_offset_us = rows[i].ms * USEC_PER_MSEC;
		CSI_NODE_UNTIL(node, csi_node_all_mounted);
		stop_all(node);
		node->process_looks = 0;
		clock_offset_us = 0;
		node->model->pid = getpid();
	}
	csi_node_expect_nothing(node);
}

/* Who removes its target recursively would delete what is below the uppermost mount. */
NODE_TEST(a_plugin_is_not_asked_to_remove_where_more_is_mounted)
{
	static const struct {
		const char *extra;
		unsigned int unpublish;
		const char *words, *command;
	} rows[] = {
		{FAKE_PLUGIN_BASE "/v/rw-publish", 0, "2 mounts are stacked at " FAKE_PLUGIN_BASE "/v/",
		 "then umount " FAKE_PLUGIN_BASE "/v/"},
		{FAKE_PLUGIN_BASE "/v/rw-publish/deep", 0,
		 "something is mounted below " FAKE_PLUGIN_BASE "/v/",
		 "see: findmnt -R " FAKE_PLUGIN_BASE "/v/rw-publish"},
		{FAKE_PLUGIN_BASE "/v/staging", 1, "2 mounts are stacked at " FAKE_PLUGIN_BASE "/v/",
		 "then umount " FAKE_PLUGIN_BASE "/v/"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		unsigned int unpublish = calls(node, CSI_NODE_UNPUBLISH_VOLUME);
		unsigned int unstage = calls(node, CSI_NODE_UNSTAGE_VOLUME);
		struct csi_user *user;

		node->n_users = 0;
		user = csi_node_add(node, "v", false, false);
		CSI_NODE_UNTIL(node, csi_node_all_mounted);
		node->extra = rows[i].extra;
		csi_user_stop(user);
		while (user->retries < 3)
			csi_node_turn(node);
		assert_int_equal(user->last_retry.status, STATUS_FAILED_PRECONDITION);
		EXPECT_WORDS(user->last_retry.msg, rows[i].words);
		EXPECT_WORDS(user->last_retry.msg, rows[i].command);
		assert_true(calls(node, CSI_NODE_UNPUBLISH_VOLUME) - unpublish >= rows[i].unpublish);
		if (rows[i].unpublish == 0)
			assert_int_equal(calls(node, CSI_NODE_UNPUBLISH_VOLUME), unpublish);
		assert_int_equal(calls(node, CSI_NODE_UNSTAGE_VOLUME), unstage);
		node->extra = NULL;
		CSI_NODE_UNTIL(node, csi_node_all_released);
		csi_node_expect_nothing(node);
	}
}

NODE_TEST(a_stacked_mount_is_an_argument_of_a_shell)
{
	struct csi_user *user = csi_node_add(node, "v", false, false);

	CSI_NODE_UNTIL(node, csi_node_all_mounted);
	node->stacked = FAKE_PLUGIN_BASE "/v/staging/a;b";
	csi_user_stop(user);
	while (user->retries < 3)
		csi_node_turn(node);
	EXPECT_WORDS(user->last_retry.msg, "then umount '" FAKE_PLUGIN_BASE "/v/staging/a;b',");
	node->stacked = NULL;
	CSI_NODE_UNTIL(node, csi_node_all_released);
}

NODE_TEST(a_repeated_mount_that_stands_twice_is_no_success)
{
	struct csi_user *user;

	fake_csi_order(node->model, CSI_NODE_PUBLISH_VOLUME, FAKE_CSI_HANG_DONE, 1, STATUS_OK);
	node->extra = target;
	user = csi_node_add(node, "v", false, false);
	while (user->retries < 3)
		csi_node_turn(node);
	assert_int_equal(user->mount_error.status, STATUS_FAILED_PRECONDITION);
	EXPECT_WORDS(user->mount_error.msg, "2 mounts are stacked at");
	expect_calls(node, 1, 2, 0, 0);
	node->extra = NULL;
	CSI_NODE_UNTIL(node, csi_node_all_released);
	csi_node_expect_nothing(node);
}

/* What an agent was at when it was killed it does not remember; who still names the folder is seen. */
NODE_TEST(operations_begun_before_a_restart_are_waited_for)
{
	struct csi_user *user = lose_a_mount(node, CSI_NODE_PUBLISH_VOLUME);

	node->naming = target;
	csi_user_stop(user);
	csi_node_restart(node);
	while (user->retries < 3)
		csi_node_turn(node);
	assert_int_equal(user->last_retry.status, STATUS_ABORTED);
	assert_int_equal(calls(node, CSI_NODE_UNPUBLISH_VOLUME), 0);
	node->naming = NULL;
	CSI_NODE_UNTIL(node, csi_node_all_released);
	csi_node_expect_nothing(node);
}

struct random {
	uint32_t state;
};

static uint32_t next_random(struct random *random, uint32_t n)
{
	random->state = random->state * 1664525 + 1013904223;
	return (random->state >> 8) % n;
}

static void harm(struct csi_node *node, struct random *random)
{
	static const enum fake_csi_way ways[] = {FAKE_CSI_FAIL,	  FAKE_CSI_FAIL_DONE,
						 FAKE_CSI_HANG,	  FAKE_CSI_HANG_DONE,
						 FAKE_CSI_VANISH, FAKE_CSI_VANISH_DONE};
	static const enum status codes[] = {STATUS_UNAVAILABLE, STATUS_INTERNAL, STATUS_ABORTED,
					    STATUS_RESOURCE_EXHAUSTED};

	fake_csi_order(node->model, node_methods[next_random(random, ARRAY_SIZE(node_methods))],
		       ways[next_random(random, ARRAY_SIZE(ways))], 1 + next_random(random, 3),
		       codes[next_random(random, ARRAY_SIZE(codes))]);
}

/* Users of two volumes come and go, with plugin and agent failing: nobody loses what it was told to have, and
 * in the end nothing is left. */
NODE_TEST(users_come_and_go_whatever_fails)
{
	static const char *const names[] = {"v", "w"};
	const struct sample sample = sample_of_environment();

	for (uint32_t seed = 1; seed <= 60; seed++) {
		struct random random = {seed};

		if (!sample_has(&sample, seed))
			continue;
		node->n_users = 0;
		for (unsigned int turn = 0; turn < 150; turn++) {
			uint32_t what = next_random(&random, 40);

			if (what < 4 && node->n_users < CSI_USERS_MAX)
				(void)csi_node_add(node, names[next_random(&random, 2)],
						   next_random(&random, 2) == 0, false);
			else if (what < 7 && node->n_users > 0)
				csi_user_stop(&node->users[next_random(&random, (uint32_t)node->n_users)]);
			else if (what < 10)
				harm(node, &random);
			else if (what == 10)
				csi_node_restart(node);
			else if (what < 13)
				plugin_comes_back(node);
			if (node->n_users > 0 && !csi_node_is_quiet(node))
				csi_node_turn(node);
		}
		for (size_t m = 0; m < ARRAY_SIZE(node_methods); m++)
			node->model->orders[node_methods[m]].times = 0;
		plugin_comes_back(node);
		stop_all(node);
		csi_node_expect_nothing(node);
		assert_string_equal(fake_csi.violation, "");
	}
}

struct expansion {
	bool is_done;
	uint64_t bytes;
	enum status status;
	char why[ERROR_MSG_MAX];
};

static void on_expanded(uint64_t bytes, const struct error *err, void *userdata)
{
	struct expansion *expansion = userdata;

	assert_false(expansion->is_done);
	expansion->is_done = true;
	expansion->bytes = bytes;
	expansion->status = err ? err->status : STATUS_OK;
	if (err)
		(void)str_copy(expansion->why, sizeof(expansion->why), err->msg);
}

/* Names towards the helper are the server's here. */
static struct csi_user *add_named(struct csi_node *node, const char *id, bool read_only)
{
	static char wire[WIRE_VOLUME_SIZE];

	volume_wire_name(NAMESPACE_DEFAULT, id, wire);
	return csi_node_add(node, wire, read_only, false);
}

static void data_external(char ret[static sizeof("ext/") + WIRE_VOLUME_SIZE])
{
	char wire[WIRE_VOLUME_SIZE];

	volume_wire_name(NAMESPACE_DEFAULT, "data", wire);
	(void)str_format(ret, sizeof("ext/") + WIRE_VOLUME_SIZE, "ext/%s", wire);
}

static void expand_begin(struct csi_node *node, uint64_t timeout_us, struct expansion *ret)
{
	Holdfast__V1__NodeExpandRequest__SecretsEntry entry =
		HOLDFAST__V1__NODE_EXPAND_REQUEST__SECRETS_ENTRY__INIT;
	Holdfast__V1__NodeExpandRequest__SecretsEntry *entries[] = {&entry};
	char external[sizeof("ext/") + WIRE_VOLUME_SIZE];
	Holdfast__V1__NodeExpandRequest request =
		V1(node_expand_request, .volume_id = "data", .external_id = external, .capacity_min = 1 << 20,
		   .secrets = entries, .n_secrets = 1);

	entry.key = "key";
	entry.value = "expand-secret";
	/* as with an agent, whose mount snapshot the helper gives */
	while (helper_client_info(node->helper)->stage_base[0] == '\0')
		csi_node_turn(node);
	data_external(external);
	*ret = (struct expansion){0};
	assert_ok(volume_manager_expand(node->manager, CSI_PLUGIN, &request, timeout_us, on_expanded, ret,
					NULL, NULL));
	assert_false(ret->is_done);
}

static void expand(struct csi_node *node, struct expansion *ret)
{
	expand_begin(node, 10 * USEC_PER_SEC, ret);
	while (!ret->is_done)
		csi_node_turn(node);
}

NODE_TEST(a_grown_volume_is_expanded_by_its_plugin)
{
	struct expansion expansion;
	char external[sizeof("ext/") + WIRE_VOLUME_SIZE];

	data_external(external);
	(void)add_named(node, "data", true);
	CSI_NODE_UNTIL(node, csi_node_all_mounted);
	expand(node, &expansion);
	assert_int_equal(expansion.status, STATUS_OK);
	assert_int_equal(calls(node, CSI_NODE_EXPAND_VOLUME), 1);
	assert_string_equal(fake_csi_volume(external)->last_secret, "expand-secret");
	fake_csi_volume(external)->capacity = 1 << 20;
	expand(node, &expansion);
	assert_int_equal(expansion.bytes, 1 << 20);
	/* one try */
	fake_csi_order(node->model, CSI_NODE_EXPAND_VOLUME, FAKE_CSI_FAIL, 1, STATUS_OUT_OF_RANGE);
	expand(node, &expansion);
	assert_int_equal(expansion.status, STATUS_OUT_OF_RANGE);
	assert_int_equal(calls(node, CSI_NODE_EXPAND_VOLUME), 3);
	stop_all(node);
}

CASE(a_grown_volume_is_expanded_where_it_is_mounted)
{
	struct expansion expansion;
	struct csi_user *reader = add_named(node, "data", true);
	struct csi_user *writer;

	CSI_NODE_UNTIL(node, csi_node_all_mounted);
	/* after a restart of the agent, too */
	csi_node_restart(node);
	expand(node, &expansion);
	assert_int_equal(expansion.status, STATUS_OK);
	/* a writer that has its claim, and its mount only after the expansion */
	expand_begin(node, 10 * USEC_PER_SEC, &expansion);
	writer = add_named(node, "data", false);
	while (!expansion.is_done)
		csi_node_turn(node);
	assert_int_equal(expansion.status, STATUS_OK);
	assert_int_equal(writer->state, CSI_USER_CLAIMED);
	CSI_NODE_UNTIL(node, csi_node_all_mounted);
	csi_user_stop(reader);
	CSI_NODE_UNTIL(node, csi_node_is_quiet);
	expand(node, &expansion);
	assert_int_equal(expansion.status, STATUS_OK);
	assert_int_equal(calls(node, CSI_NODE_EXPAND_VOLUME), 3);
	stop_all(node);
	expand(node, &expansion);
	assert_int_equal(expansion.status, STATUS_NOT_FOUND);
	assert_int_equal(calls(node, CSI_NODE_EXPAND_VOLUME), 3);
}

NODE_TEST(an_expansion_that_cannot_be_is_refused)
{
	struct expansion expansion;

	expand(node, &expansion);
	assert_int_equal(expansion.status, STATUS_NOT_FOUND);
	EXPECT_WORDS(expansion.why, "nothing of volume data is on this node");
	(void)add_named(node, "data", false);
	CSI_NODE_UNTIL(node, csi_node_all_mounted);
	node->model->n_node_rpcs = 1; /* staging only */
	csi_node_restart(node);
	expand(node, &expansion);
	assert_int_equal(expansion.status, STATUS_UNIMPLEMENTED);
	EXPECT_WORDS(expansion.why, "EXPAND_VOLUME");
	fake_csi_set_up(node->model, false);
	node->model->n_node_rpcs = 5;
	csi_node_restart(node);
	expand(node, &expansion);
	assert_int_equal(expansion.status, STATUS_UNAVAILABLE);
	assert_int_equal(calls(node, CSI_NODE_EXPAND_VOLUME), 0);
	fake_csi_set_up(node->model, true);
	stop_all(node);
}

NODE_TEST(an_expansion_is_scheduled_or_times_out)
{
	struct expansion late, in_time;
	struct csi_user *user;

	fake_csi.patience_us = 30 * USEC_PER_SEC;
	fake_csi_order(node->model, CSI_NODE_STAGE_VOLUME, FAKE_CSI_HOLD, 1, STATUS_OK);
	user = add_named(node, "data", false);
	turn_until_step(node, user, "plugin stage");
	while (fake_csi_waiting() == 0)
		csi_node_turn(node);
	expand_begin(node, 2 * USEC_PER_MSEC, &late);
	expand_begin(node, 20 * USEC_PER_SEC, &in_time);
	while (!late.is_done)
		csi_node_turn(node);
	assert_int_equal(late.status, STATUS_DEADLINE_EXCEEDED);
	assert_int_equal(calls(node, CSI_NODE_EXPAND_VOLUME), 0);
	assert_false(in_time.is_done);
	assert_int_equal(fake_csi_answer(), 1);
	while (!in_time.is_done)
		csi_node_turn(node);
	assert_int_equal(calls(node, CSI_NODE_EXPAND_VOLUME), 1);
	/* what was left of its time */
	assert_in_range(node->model->last_timeout_us[CSI_NODE_EXPAND_VOLUME], 1, 20 * USEC_PER_SEC);
	stop_all(node);
}

static void retry_times(struct csi_node *node, const struct csi_user *user, unsigned int n)
{
	n += user->retries;
	while (user->retries < n)
		csi_node_turn(node);
}

/* What a plugin answers, or not, that will never release it; whatever it is, an operator may bypass it. */
CASE(a_stuck_plugin_is_bypassed_when_the_server_forces_it)
{
	static const struct {
		enum csi_method method; /* that fails */
		enum status code;
		bool is_gone;
	} rows[] = {
		{CSI_NODE_UNSTAGE_VOLUME, STATUS_UNKNOWN, false},
		{CSI_NODE_UNPUBLISH_VOLUME, STATUS_UNKNOWN, false},
		{CSI_NODE_UNSTAGE_VOLUME, STATUS_FAILED_PRECONDITION, false},
		{CSI_NODE_UNPUBLISH_VOLUME, STATUS_DEADLINE_EXCEEDED, false},
		{CSI_NODE_UNSTAGE_VOLUME, STATUS_UNKNOWN, true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct csi_user *user;
		unsigned int before;
		char volume[8]; /* the plugin thinks that it holds the one before still */

		node->n_users = 0;
		(void)str_format(volume, sizeof(volume), "v%zu", i);
		user = csi_node_add(node, volume, false, false);
		CSI_NODE_UNTIL(node, csi_node_all_mounted);
		fake_csi_order(node->model, rows[i].method, FAKE_CSI_FAIL, 1000, rows[i].code);
		if (rows[i].is_gone)
			fake_csi_set_up(node->model, false);
		csi_user_stop(user);
		retry_times(node, user, 4);
		assert_int_equal(user->state, CSI_USER_MOUNTED);
		csi_user_force(user, false);
		before = calls(node, rows[i].method);
		CSI_NODE_UNTIL(node, csi_node_all_released);
		assert_true(calls(node, rows[i].method) <= before + 1); /* what was in flight */
		assert_true(user->is_without_plugin);
		EXPECT_WORDS(user->kernel, "unstaged by the helper; device ");
		EXPECT_WORDS(user->kernel, "no longer has a mounted file system");
		assert_null(fake_helper_folder(&node->fake, volume));
		fake_csi_order(node->model, rows[i].method, FAKE_CSI_FAIL, 0, STATUS_OK);
		fake_csi_set_up(node->model, true);
	}
}

NODE_TEST(a_plugin_that_releases_after_all_is_not_reported_as_bypassed)
{
	struct csi_user *user = csi_node_add(node, "v", false, false);

	CSI_NODE_UNTIL(node, csi_node_all_mounted);
	stop_all(node);
	assert_false(user->is_without_plugin);
	assert_string_equal(user->kernel, "");
}

/* The helper's word is not passed over. */
CASE(the_helpers_refusal_holds_without_the_plugin_too)
{
	struct csi_user *user;

	node->major = 8;
	user = csi_node_add(node, "v", false, false);
	CSI_NODE_UNTIL(node, csi_node_all_mounted);
	fake_csi_order(node->model, CSI_NODE_UNSTAGE_VOLUME, FAKE_CSI_FAIL, 1000, STATUS_UNKNOWN);
	csi_user_stop(user);
	retry_times(node, user, 2);
	node->superblock_lives = true; /* a copy of the mount elsewhere */
	csi_user_force(user, true);
	retry_times(node, user, 6);
	assert_int_equal(user->state, CSI_USER_MOUNTED);
	EXPECT_WORDS(user->last_retry.msg, "is still in use: another mount namespace");
	assert_string_equal(step_of(user), "left over");
	node->superblock_lives = false;
	CSI_NODE_UNTIL(node, csi_node_all_released);
	assert_true(user->is_without_plugin);
	EXPECT_WORDS(user->kernel, "nothing was mounted at the stage");
}

CASE(a_use_beside_another_one_is_not_ended_without_the_plugin)
{
	struct csi_user *reader = csi_node_add(node, "v", true, false);
	struct csi_user *writer = csi_node_add(node, "v", false, false);

	CSI_NODE_UNTIL(node, csi_node_all_mounted);
	fake_csi_order(node->model, CSI_NODE_UNPUBLISH_VOLUME, FAKE_CSI_FAIL, 1000, STATUS_UNKNOWN);
	csi_user_stop(writer);
	retry_times(node, writer, 2);
	csi_user_force(writer, false);
	retry_times(node, writer, 4);
	assert_int_equal(writer->state, CSI_USER_MOUNTED);
	EXPECT_WORDS(writer->last_retry.msg, "is still used in another way on this node");
	assert_int_equal(reader->state, CSI_USER_MOUNTED);
	assert_true(fake_helper_folder(&node->fake, "v")->targets[0].is_mounted);
	assert_true(fake_helper_folder(&node->fake, "v")->targets[1].is_mounted);
	csi_user_stop(reader);
	while (!reader->task)
		csi_node_turn(node);
	csi_user_force(reader, false);
	CSI_NODE_UNTIL(node, csi_node_all_released);
	assert_true(reader->is_without_plugin && writer->is_without_plugin);
	assert_null(fake_helper_folder(&node->fake, "v"));
}
