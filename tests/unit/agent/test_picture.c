/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "helper/picture.h"

#include <stdio.h>
#include <string.h>

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
	struct picture *picture = picture_new();
	struct mh_list_entry entry = staged(5);
	struct mh_list_entry publish = published(1, 31);
	const struct picture_mount *mount;
	struct error err;

	assert_int_equal(picture_add(picture, MH_LIST_STAGED, &entry, &err), STATUS_OK);
	assert_int_equal(picture_add(picture, MH_LIST_PUBLISHED, &publish, &err), STATUS_OK);
	assert_non_null(picture_staged(picture, "v5"));
	assert_null(picture_staged(picture, "v"));
	assert_null(picture_published(picture, publish.alloc, 30));
	mount = picture_published(picture, publish.alloc, 31);
	assert_non_null(mount);
	assert_int_equal(mount->dev_minor, 1);
	publish.dev_minor = 9;
	assert_int_equal(picture_add(picture, MH_LIST_PUBLISHED, &publish, &err), STATUS_OK);
	assert_int_equal(picture->n_published, 1);
	assert_int_equal(picture_published(picture, publish.alloc, 31)->dev_minor, 9);
	picture_remove_published(picture, publish.alloc, 31);
	picture_remove_published(picture, publish.alloc, 31);
	picture_remove_staged(picture, "v5");
	assert_int_equal(picture->n_published + picture->n_staged, 0);
	assert_null(picture_staged(picture, "v5"));
	picture_free(picture);
}

TEST(mounts_are_walked_in_order)
{
	struct picture *picture = picture_new();
	struct picture_mount *mount = NULL;
	unsigned int n = 0;
	struct error err;

	for (unsigned int i = 10; i-- > 0;) {
		struct mh_list_entry entry = published(i / 4, i % 4);

		assert_int_equal(picture_add(picture, MH_LIST_PUBLISHED, &entry, &err), STATUS_OK);
	}
	while ((mount = picture_next_published(picture, mount))) {
		assert_int_equal(mount->dev_minor, n / 4);
		assert_int_equal(mount->slot, n % 4);
		n++;
	}
	assert_int_equal(n, 10);
	assert_null(picture_next_staged(picture, NULL));
	picture_free(picture);
}

TEST(every_kind_is_bounded)
{
	struct picture *picture = picture_new();
	struct mh_list_entry entry;
	struct error err;

	for (unsigned int i = 0; i < PICTURE_STAGED_MAX; i++) {
		entry = staged(i);
		assert_int_equal(picture_add(picture, MH_LIST_STAGED, &entry, &err), STATUS_OK);
	}
	assert_int_equal(picture_add(picture, MH_LIST_STAGED, &entry, &err), STATUS_OK); /* replaced */
	entry = staged(PICTURE_STAGED_MAX);
	assert_int_equal(picture_add(picture, MH_LIST_STAGED, &entry, &err), STATUS_RESOURCE_EXHAUSTED);
	for (unsigned int i = 0; i < PICTURE_PUBLISHED_MAX; i++) {
		entry = published(i, 0);
		assert_int_equal(picture_add(picture, MH_LIST_PUBLISHED, &entry, &err), STATUS_OK);
	}
	entry = published(PICTURE_PUBLISHED_MAX, 0);
	assert_int_equal(picture_add(picture, MH_LIST_PUBLISHED, &entry, &err), STATUS_RESOURCE_EXHAUSTED);
	entry = staged(0);
	entry.class = MH_CLASS_TMPFS;
	entry.state = MH_STATE_AVAILABLE;
	for (unsigned int i = 0; i < PICTURE_PROFILES_MAX; i++)
		assert_int_equal(picture_add(picture, MH_LIST_PROFILES, &entry, &err), STATUS_OK);
	assert_int_equal(picture_add(picture, MH_LIST_PROFILES, &entry, &err), STATUS_RESOURCE_EXHAUSTED);
	assert_true(picture->profiles[0].is_available);
	assert_int_equal(picture->profiles[0].class, MH_CLASS_TMPFS);
	assert_string_equal(picture->profiles[0].name, "v0");
	picture_free(picture);
	picture_free(NULL);
}
