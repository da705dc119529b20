/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "helper/mount_snapshot.h"

static struct mh_list_entry staged(unsigned int n)
{
	struct mh_list_entry entry = {.dev_minor = n};

	(void)snprintf(entry.volume, sizeof(entry.volume), "v%u", n);
	return entry;
}

static struct mh_list_entry published(unsigned int alloc, unsigned int slot)
{
	struct mh_list_entry entry = {.slot = (uint8_t)slot, .dev_minor = alloc};

	(void)snprintf(entry.alloc, sizeof(entry.alloc), "0190a5a0-0000-7000-8000-%012u", alloc);
	return entry;
}

TEST(mounts_are_found_changed_and_removed)
{
	struct mount_snapshot *observed = mount_snapshot_new();
	struct mh_list_entry entry = staged(5);
	struct mh_list_entry publish = published(1, 31);
	const struct mount_snapshot_entry *mount;
	struct error err;

	assert_int_equal(mount_snapshot_add(observed, MH_LIST_STAGED, &entry, &err), STATUS_OK);
	assert_int_equal(mount_snapshot_add(observed, MH_LIST_PUBLISHED, &publish, &err), STATUS_OK);
	assert_non_null(mount_snapshot_staged(observed, "v5"));
	assert_null(mount_snapshot_staged(observed, "v"));
	assert_null(mount_snapshot_published(observed, publish.alloc, 30));
	mount = NON_NULL(mount_snapshot_published(observed, publish.alloc, 31));
	assert_int_equal(mount->dev_minor, 1);
	publish.dev_minor = 9;
	assert_int_equal(mount_snapshot_add(observed, MH_LIST_PUBLISHED, &publish, &err), STATUS_OK);
	assert_int_equal(observed->n_published, 1);
	assert_int_equal(mount_snapshot_published(observed, publish.alloc, 31)->dev_minor, 9);
	mount_snapshot_remove_published(observed, publish.alloc, 31);
	mount_snapshot_remove_published(observed, publish.alloc, 31);
	mount_snapshot_remove_staged(observed, "v5");
	assert_int_equal(observed->n_published + observed->n_staged, 0);
	assert_null(mount_snapshot_staged(observed, "v5"));
	mount_snapshot_free(observed);
}

TEST(mounts_are_walked_in_order)
{
	struct mount_snapshot *observed = mount_snapshot_new();
	struct mount_snapshot_entry *mount = NULL;
	unsigned int n = 0;
	struct error err;

	for (unsigned int i = 10; i-- > 0;) {
		struct mh_list_entry entry = published(i / 4, i % 4);

		assert_int_equal(mount_snapshot_add(observed, MH_LIST_PUBLISHED, &entry, &err), STATUS_OK);
	}
	while ((mount = mount_snapshot_next_published(observed, mount))) {
		assert_int_equal(mount->dev_minor, n / 4);
		assert_int_equal(mount->slot, n % 4);
		n++;
	}
	assert_int_equal(n, 10);
	assert_null(mount_snapshot_next_staged(observed, NULL));
	mount_snapshot_free(observed);
}

TEST(names_that_the_helper_does_not_count_are_no_volumes)
{
	struct mount_snapshot *observed = mount_snapshot_new();
	struct mh_list_entry entry;

	for (unsigned int i = 0; i < 2 * MOUNT_SNAPSHOT_STAGED_MAX; i++) {
		entry = staged(i / 2);
		entry.state |= i % 2 ? MH_STATE_UNCOUNTED : 0;
		entry.dev_minor = i % 2;
		assert_ok(mount_snapshot_add(observed, MH_LIST_STAGED, &entry, &(struct error){0}));
	}
	assert_int_equal(observed->n_staged, MOUNT_SNAPSHOT_STAGED_MAX);
	assert_int_equal(observed->n_strays, MOUNT_SNAPSHOT_STRAYS_MAX);
	assert_int_equal(mount_snapshot_staged(observed, "v1")->dev_minor, 0);
	assert_string_equal(mount_snapshot_next_stray(observed, NULL)->volume, "v0");
	mount_snapshot_remove_staged(observed, "v0");
	assert_null(mount_snapshot_staged(observed, "v0"));
	assert_string_equal(mount_snapshot_next_stray(observed, NULL)->volume, "v1");
	entry = staged(1);
	assert_ok(mount_snapshot_add(observed, MH_LIST_STAGED, &entry, &(struct error){0})); /* counted now */
	assert_string_equal(mount_snapshot_next_stray(observed, NULL)->volume, "v10");
	mount_snapshot_free(observed);
}

TEST(every_kind_is_bounded)
{
	struct mount_snapshot *observed = mount_snapshot_new();
	struct mh_list_entry entry;
	struct error err;

	for (unsigned int i = 0; i < MOUNT_SNAPSHOT_STAGED_MAX; i++) {
		entry = staged(i);
		assert_int_equal(mount_snapshot_add(observed, MH_LIST_STAGED, &entry, &err), STATUS_OK);
	}
	assert_ok(mount_snapshot_add(observed, MH_LIST_STAGED, &entry, &err)); /* replaced */
	entry = staged(MOUNT_SNAPSHOT_STAGED_MAX);
	assert_int_equal(mount_snapshot_add(observed, MH_LIST_STAGED, &entry, &err),
			 STATUS_RESOURCE_EXHAUSTED);
	for (unsigned int i = 0; i < MOUNT_SNAPSHOT_PUBLISHED_MAX; i++) {
		entry = published(i, 0);
		assert_int_equal(mount_snapshot_add(observed, MH_LIST_PUBLISHED, &entry, &err), STATUS_OK);
	}
	entry = published(MOUNT_SNAPSHOT_PUBLISHED_MAX, 0);
	assert_int_equal(mount_snapshot_add(observed, MH_LIST_PUBLISHED, &entry, &err),
			 STATUS_RESOURCE_EXHAUSTED);
	entry = staged(0);
	entry.class = MH_CLASS_TMPFS;
	entry.state = MH_STATE_AVAILABLE;
	for (unsigned int i = 0; i < MOUNT_SNAPSHOT_PROFILES_MAX; i++)
		assert_int_equal(mount_snapshot_add(observed, MH_LIST_PROFILES, &entry, &err), STATUS_OK);
	assert_int_equal(mount_snapshot_add(observed, MH_LIST_PROFILES, &entry, &err),
			 STATUS_RESOURCE_EXHAUSTED);
	assert_true(observed->profiles[0].is_available);
	assert_int_equal(observed->profiles[0].class, MH_CLASS_TMPFS);
	assert_string_equal(observed->profiles[0].name, "v0");
	mount_snapshot_free(observed);
	mount_snapshot_free(NULL);
}
