/* SPDX-License-Identifier: Apache-2.0 */
/* nfs4: an export of a server named by its address. Only the kernel takes part: no mount.nfs, no DNS. */
#include "source.h"
#include "trees.h"

#include <arpa/inet.h>

static bool is_v6(const struct staging *s)
{
	return s->req->source.u.nfs4.family == 6;
}

/* Address of the server as text; returns @ret. */
static const char *address(const struct staging *s, char ret[static INET6_ADDRSTRLEN])
{
	return inet_ntop(is_v6(s) ? AF_INET6 : AF_INET, s->req->source.u.nfs4.addr, ret, INET6_ADDRSTRLEN);
}

static struct outcome nfs4_find(struct staging *s)
{
	char text[INET6_ADDRSTRLEN];

	assert(s->req->source.class == MH_CLASS_NFS4);
	(void)str_format(s->source, sizeof(s->source), "%s%s%s:%s", is_v6(s) ? "[" : "", address(s, text),
			 is_v6(s) ? "]" : "", s->req->source.u.nfs4.export);
	return OUTCOME_OK;
}

static int set_options(const struct staging *s, int fs_fd)
{
	char text[INET6_ADDRSTRLEN];

	TRY_SYS(filesystem_set(fs_fd, "vers", nfs_vers_words[s->profile->vers]));
	TRY_SYS(filesystem_set(fs_fd, "addr", address(s, text)));
	TRY_SYS(filesystem_set(fs_fd, "proto", is_v6(s) ? "tcp6" : "tcp"));
	return filesystem_set(fs_fd, "sec", nfs_sec_words[s->profile->sec]);
}

/* Only the mount table shows the server and the export of a mount. Mounts of a release without nosharecache
 * may share their device: the mount must be this volume's. */
static bool is_same(const struct staging *s, const struct mount_facts *facts)
{
	struct mountinfo *table = &s->h->mountinfo;
	struct mount_entry entry;
	struct tree_name name;

	mountinfo_rewind(table);
	while (mountinfo_next(table, &entry) > 0) {
		if (tree_classify(s->h->agent, entry.point, &name) == TREE_STAGED &&
		    str_eq(name.volume, s->req->volume) && entry.dev_major == s->target.dev_major &&
		    entry.dev_minor == s->target.dev_minor && str_eq(entry.source, s->source))
			return true;
	}
	return false;
}

const struct source_class source_nfs4 = {
	.find = nfs4_find, .make = filesystem_make, .is_same = is_same, .set_options = set_options};
