/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/ofd_lock.h"

#include <fcntl.h>

static char path[] = "/tmp/holdfast-lock-XXXXXX";
static int one;
static int two;

static int set_up(void **state)
{
	one = mkstemp(path);
	two = open(path, O_RDWR | O_CLOEXEC);
	return one < 0 || two < 0 ? -1 : 0;
}

static int tear_down(void **state)
{
	(void)close(one);
	(void)close(two);
	return unlink(path);
}

TEST(a_range_belongs_to_one_open_file_at_a_time)
{
	const int64_t far = INT64_C(1) << 61;

	assert_int_equal(ofd_lock(one, far, 2, false), 0);
	assert_int_equal(ofd_lock(one, far, 2, false), 0); /* its own again */
	assert_int_equal(ofd_lock(two, far + 1, 1, false), -EAGAIN);
	assert_int_equal(ofd_lock(two, far + 2, 1, true), 0);
	assert_int_equal(ofd_lock(two, far - 1, 1, true), 0);
	ofd_unlock(one, far + 1, 1);
	assert_int_equal(ofd_lock(two, far + 1, 1, false), 0);
	assert_int_equal(ofd_lock(two, far, 1, false), -EAGAIN);
	ofd_unlock(two, far - 1, 0); /* to the end, and only its own */
	assert_int_equal(ofd_lock(one, far + 1, 0, false), 0);
	assert_int_equal(ofd_lock(two, far, 1, false), -EAGAIN);
	ofd_unlock(one, 0, 0);
	assert_int_equal(ofd_lock(two, 0, 0, false), 0);
	ofd_unlock(two, 0, 0);
	assert_int_equal(ofd_lock(-1, 0, 0, true), -EBADF);
}

TEST_GROUP(set_up, tear_down)
