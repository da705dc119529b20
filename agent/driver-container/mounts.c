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

/* A mount whose point is the path or above it. Another mount may hide it. */
struct candidate {
	uint64_t id, parent;
	struct place place;
};

enum { CANDIDATES_MAX = 64 };

struct lookup {
	const char *path;
	size_t n_max;
	size_t n;
	struct candidate all[CANDIDATES_MAX];
};

static int visit_lookup(const struct mount_entry *entry, void *userdata)
{
	struct lookup *lookup = userdata;
	size_t n = strlen(entry->point);
	const char *rest = lookup->path + (n > 1 ? n : 0);
	struct candidate *new = &lookup->all[lookup->n];

	if (n > lookup->n_max || !path_is_normal(entry->point) || !path_is_within(lookup->path, entry->point))
		return 0;
	if (lookup->n == CANDIDATES_MAX)
		return -E2BIG;
	lookup->n++;
	*new = (struct candidate){
		.id = entry->id,
		.parent = entry->parent,
		.place = {.dev_major = entry->dev_major,
			  .dev_minor = entry->dev_minor,
			  .flags = mounts_flags(entry->options),
			  .n_point = n,
			  .is_point = str_eq(entry->point, lookup->path),
			  .is_shared = entry->peer_group != 0,
			  .is_slave = entry->master != 0},
	};
	new->place.is_known =
		str_format(new->place.root, sizeof(new->place.root), "%s%s",
			   str_eq(entry->root, "/") && rest[0] != '\0' ? "" : entry->root, rest) > 0;
	return 0;
}

/* The root is the only one whose parent the table does not show; it may be its own parent. */
static const struct candidate *find_root(const struct lookup *lookup)
{
	for (size_t i = 0; i < lookup->n; i++) {
		const struct candidate *root = &lookup->all[i];
		size_t k = 0;

		while (k < lookup->n && (k == i || lookup->all[k].id != root->parent))
			k++;
		if (k == lookup->n && root->place.n_point == 1)
			return root;
	}
	return NULL;
}

/* Finds the first mount on the way from @parent to the path. It hides the others: they are at points that
 * only @parent shows. A lookup never goes into a mount over the root. */
static const struct candidate *find_child(const struct lookup *lookup, const struct candidate *parent)
{
	const struct candidate *child = NULL;

	for (size_t i = 0; i < lookup->n; i++) {
		const struct candidate *other = &lookup->all[i];

		if (other->parent == parent->id && other->place.n_point > 1 &&
		    (!child || other->place.n_point < child->place.n_point))
			child = other;
	}
	return child;
}

int mounts_find(const char *table, const char *path, size_t n_max, struct place *ret)
{
	cleanup_free struct lookup *lookup = calloc(1, sizeof(*lookup));
	const struct candidate *at;
	int r;

	*ret = (struct place){};
	if (!lookup)
		return -ENOMEM;
	lookup->path = path;
	lookup->n_max = n_max;
	r = mounts_read(table, visit_lookup, lookup);
	if (r < 0)
		return r;
	at = find_root(lookup);
	for (size_t i = 0; at && i < lookup->n; i++) { /* ends also if an id came twice */
		*ret = at->place;
		at = find_child(lookup, at);
	}
	return 0;
}
