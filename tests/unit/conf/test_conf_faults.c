/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation fails in turn: the answer is an error, nothing is handed out, and (under the address
 * sanitizer) nothing is leaked. */

#include "failing_memory.h"

#include "conf/conf.h"

#include <jansson.h>

static void sweep(const char *path, const char *dropins)
{
	long failures = 0;

	for (;;) {
		struct conf *conf = NULL;
		struct error err = {0};
		enum status status;
		bool failed;

		countdown = failures;
		status = conf_load_merged(path, dropins, &conf, &err);
		failed = countdown < 0;
		countdown = -1;
		if (!failed) {
			assert_int_equal(status, STATUS_OK);
			conf_free(conf);
			break;
		}
		assert_msg(status != STATUS_OK && !conf, "allocation %ld failed unseen", failures);
		failures++;
	}
	assert_in_range(failures, 50, 10000);
}

static bool jansson_fails;

static void *jansson_malloc(size_t n)
{
	return jansson_fails && now_fails() ? NULL : __real_malloc(n);
}

TEST(reading_hcl_survives_the_failure_of_every_allocation)
{
	jansson_fails = true;
	sweep(GOLDEN_DIR "/volume.hcl", "/nonexistent");
}

/* jansson's parser ignores some of its own failures, so only ours are played here. */
TEST(reading_json_and_merging_survive_the_failure_of_every_allocation)
{
	jansson_fails = false;
	sweep(GOLDEN_DIR "/volume.json", "/nonexistent");
	sweep(GOLDEN_DIR "/volume.hcl", GOLDEN_DIR);
}

static int use_failing_memory(void **state)
{
	json_set_alloc_funcs(jansson_malloc, free);
	return 0;
}

TEST_GROUP(use_failing_memory, NULL)
