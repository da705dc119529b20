/* SPDX-License-Identifier: Apache-2.0 */
/* tmpfs: always of a given size and number of inodes; the total of all of them is bounded in the state table.
 */
#include "ops.h"
#include "source.h"

#include <inttypes.h>
#include <sys/vfs.h>

enum { TMPFS_PAGE = 4096 };

uint64_t source_tmpfs_bytes(const struct mh_source *source)
{
	if (source->class != MH_CLASS_TMPFS)
		return 0;
	return (source->u.tmpfs.size_bytes + TMPFS_PAGE - 1) / TMPFS_PAGE * TMPFS_PAGE;
}

static int set_options(const struct staging *s, int fs_fd)
{
	char size[24];
	char inodes[24];
	int r;

	assert(s->req->source.class == MH_CLASS_TMPFS);
	(void)str_format(size, sizeof(size), "%" PRIu64, source_tmpfs_bytes(&s->req->source));
	(void)str_format(inodes, sizeof(inodes), "%" PRIu64, s->req->source.u.tmpfs.inodes);
	r = filesystem_set(fs_fd, "size", size);
	return r < 0 ? r : filesystem_set(fs_fd, "nr_inodes", inodes);
}

static bool is_same(const struct staging *s, const struct mount_facts *facts)
{
	struct statfs fs = {.f_type = 0};

	return facts->root_is_whole && sys_fstatfs(s->target.fd, &fs) == 0 &&
	       fs.f_blocks * TMPFS_PAGE == source_tmpfs_bytes(&s->req->source) &&
	       fs.f_files == s->req->source.u.tmpfs.inodes;
}

const struct source_class source_tmpfs = {
	.make = filesystem_make, .is_same = is_same, .set_options = set_options};
