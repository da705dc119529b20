/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/clock.h"
#include "base/id.h"
#include "base/uuid.h"

enum { MANY = 1000 };

static int64_t time_of(const char *uuid)
{
	char hex[13];

	assert_true(str_format(hex, sizeof(hex), "%.8s%.4s", uuid, uuid + 9) == 12);
	return (int64_t)strtoull(hex, NULL, 16);
}

TEST(a_uuid_is_of_version_7_and_carries_the_time)
{
	int64_t before = clock_realtime_ms();

	for (int i = 0; i < MANY; i++) {
		char uuid[UUID_SIZE];

		assert_int_equal(uuid_new(uuid), 0);
		assert_true(id_is_uuid(uuid));
		assert_int_equal(uuid[14], '7');
		assert_non_null(strchr("89ab", uuid[19]));
		assert_in_range(time_of(uuid), before, clock_realtime_ms());
	}
}

static int compare(const void *a, const void *b)
{
	return strcmp(a, b);
}

TEST(no_two_are_alike)
{
	static char uuids[MANY][UUID_SIZE];

	for (int i = 0; i < MANY; i++)
		assert_int_equal(uuid_new(uuids[i]), 0);
	qsort(uuids, MANY, UUID_SIZE, compare);
	for (int i = 1; i < MANY; i++)
		assert_string_not_equal(uuids[i - 1], uuids[i]);
}
