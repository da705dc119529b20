/* SPDX-License-Identifier: Apache-2.0 */
/* Ownership that ends with the scope, or is handed over. */

#include "cmocka_all.h"

#include "base/cleanup.h"

#include <fcntl.h>
#include <stdbool.h>

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

static int open_something(void)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	return fd;
}

static void a_descriptor_is_closed_at_the_end_of_its_scope(void **state)
{
	int kept;

	(void)state;
	{
		cleanup_close int fd = open_something();

		kept = fd;
		assert_true(is_open(kept));
	}
	assert_false(is_open(kept));
}

static void a_descriptor_that_was_taken_stays_open(void **state)
{
	cleanup_close int taken = -EBADF;

	(void)state;
	{
		cleanup_close int fd = open_something();

		taken = TAKE_FD(fd);
		assert_int_equal(fd, -EBADF);
	}
	assert_true(is_open(taken));
}

static void closing_keeps_errno_and_leaves_negative_values_alone(void **state)
{
	int closed = open_something();
	int none = -ENOENT;

	(void)state;
	(void)close(closed);
	errno = ENOSPC;
	close_fdp(&closed); /* fails with EBADF inside */
	assert_int_equal(errno, ENOSPC);
	close_fdp(&none);
	assert_int_equal(errno, ENOSPC);
}

static int freed;

static void count_free(int *p)
{
	freed++;
	free(p);
}

DEFINE_CLEANUP(int, count_free)

static void a_pointer_is_freed_once_or_handed_over(void **state)
{
	int *taken;

	(void)state;
	{
		cleanup(count_freep) int *a = malloc(sizeof(*a));
		cleanup(count_freep) int *b = malloc(sizeof(*b));
		cleanup(count_freep) int *none = NULL;

		taken = TAKE_PTR(b);
		/* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): blind to the attribute */
		assert_true(a && !b && !none);
	}
	assert_int_equal(freed, 1);
	assert_non_null(taken);
	free(taken);
}

static void arrays_know_their_size(void **state)
{
	static const uint16_t numbers[7];

	(void)state;
	assert_int_equal(ARRAY_SIZE(numbers), 7);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_descriptor_is_closed_at_the_end_of_its_scope),
		cmocka_unit_test(a_descriptor_that_was_taken_stays_open),
		cmocka_unit_test(closing_keeps_errno_and_leaves_negative_values_alone),
		cmocka_unit_test(a_pointer_is_freed_once_or_handed_over),
		cmocka_unit_test(arrays_know_their_size),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
