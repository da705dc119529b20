/* SPDX-License-Identifier: Apache-2.0 */
/* Ownership that ends with the scope, or is handed over. */

#include "unit.h"

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

TEST(a_descriptor_is_closed_at_the_end_of_its_scope)
{
	int kept;

	{
		cleanup_close int fd = open_something();

		kept = fd;
		assert_true(is_open(kept));
	}
	assert_false(is_open(kept));
}

TEST(a_descriptor_that_was_taken_stays_open)
{
	cleanup_close int taken = -EBADF;

	{
		cleanup_close int fd = open_something();

		taken = TAKE_FD(fd);
		assert_int_equal(fd, -EBADF);
	}
	assert_true(is_open(taken));
}

TEST(closing_keeps_errno_and_leaves_negative_values_alone)
{
	int closed = open_something();
	int none = -ENOENT;

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

TEST(a_pointer_is_freed_once_or_handed_over)
{
	cleanup_free int *taken = NULL;

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
}

TEST(arrays_know_their_size)
{
	static const uint16_t numbers[7];

	assert_int_equal(ARRAY_SIZE(numbers), 7);
}
