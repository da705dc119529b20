/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation fails in turn: the answer is an error, nothing is handed out, and (under the address
 * sanitizer) nothing is leaked. */

#include "unit.h"

#include "conf/conf.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
char *__real_strdup(const char *s);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
char *__wrap_strdup(const char *s);

static long countdown = -1; /* allocations until the one that fails; negative: none does */

static bool now_fails(void)
{
	return countdown >= 0 && countdown-- == 0;
}

void *__wrap_malloc(size_t n)
{
	return now_fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
	return now_fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
	return now_fails() ? NULL : __real_realloc(p, n);
}

char *__wrap_strdup(const char *s)
{
	return now_fails() ? NULL : __real_strdup(s);
}

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
		if (status == STATUS_OK || conf)
			fail_msg("allocation %ld failed unseen", failures);
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
