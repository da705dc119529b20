/* SPDX-License-Identifier: Apache-2.0 */
#include "mounts.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

int mounts_read(const char *path, mount_visit_fn *visit, void *userdata)
{
	cleanup_free struct mountinfo *mountinfo = malloc(sizeof(*mountinfo));
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (!mountinfo || fd < 0)
		return mountinfo ? -errno : -ENOMEM;
	mountinfo->fd = fd;
	return mountinfo_each(mountinfo, visit, userdata);
}

unsigned int mounts_flags(const char *options)
{
	return (mount_option_is_set(options, "ro") ? READ_ONLY : 0U) |
	       (mount_option_is_set(options, "nosuid") ? NO_SUID : 0U) |
	       (mount_option_is_set(options, "nodev") ? NO_DEV : 0U) |
	       (mount_option_is_set(options, "noexec") ? NO_EXEC : 0U);
}

struct lookup {
	const char *path;
	size_t n_max;
	struct place place;
};

static int visit_lookup(const struct mount_entry *entry, void *userdata)
{
	struct lookup *lookup = userdata;
	size_t n = strlen(entry->point);
	const char *rest = lookup->path + (n > 1 ? n : 0);

	if (n > lookup->n_max || n < lookup->place.n_point || !path_is_normal(entry->point) ||
	    !path_is_within(lookup->path, entry->point))
		return 0;
	lookup->place.n_point = n;
	lookup->place.dev_major = entry->dev_major;
	lookup->place.dev_minor = entry->dev_minor;
	lookup->place.flags = mounts_flags(entry->options);
	lookup->place.is_known =
		str_format(lookup->place.root, sizeof(lookup->place.root), "%s%s",
			   str_eq(entry->root, "/") && rest[0] != '\0' ? "" : entry->root, rest) > 0;
	return 0;
}

int mounts_find(const char *table, const char *path, size_t n_max, struct place *ret)
{
	struct lookup lookup = {.path = path, .n_max = n_max};
	int r = mounts_read(table, visit_lookup, &lookup);

	*ret = lookup.place;
	return r;
}
