#include "mounts.h"

#include <linux/stat.h>

void place_release(struct place *place)
{
	close_fdp(&place->fd);
	place->fd = -EBADF;
}

int place_of_fd(int fd, struct place *ret)
{
	const unsigned int needed = STATX_TYPE | STATX_MODE | STATX_UID | STATX_INO;
	const unsigned int either = STATX_MNT_ID | SYS_STATX_MNT_ID_UNIQUE;
	struct statx st;
	/* no question to a server or a plugin that may be dead: what identifies a root does not change */
	int r = sys_statx(fd, "", AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC,
			  needed | either, &st);

	if (r < 0)
		return r;
	if ((st.stx_mask & needed) != needed || (st.stx_mask & either) == 0 ||
	    (st.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) == 0)
		return -EOPNOTSUPP;
	*ret = (struct place){.fd = -EBADF,
			      .mount_id = st.stx_mnt_id,
			      .id_is_unique = (st.stx_mask & SYS_STATX_MNT_ID_UNIQUE) != 0,
			      .ino = st.stx_ino,
			      .dev_major = st.stx_dev_major,
			      .dev_minor = st.stx_dev_minor,
			      .uid = st.stx_uid,
			      .mode = st.stx_mode,
			      .is_mount_root = (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0};
	return 0;
}

int place_open(int dir_fd, const char *name, struct place *ret)
{
	cleanup_close int fd = sys_openat(dir_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int r = fd < 0 ? fd : place_of_fd(fd, ret);

	if (r == 0)
		ret->fd = TAKE_FD(fd);
	return r;
}

int place_make(int dir_fd, const char *name, struct place *ret)
{
	int r = sys_mkdirat(dir_fd, name, 0755);

	return r < 0 && r != -EEXIST ? r : place_open(dir_fd, name, ret);
}

bool place_is_own(const struct helper *h, const struct tree *tree, const struct place *place)
{
	return !place->is_mount_root && place->uid == h->agent->helper_uid && (place->mode & 022) == 0 &&
	       place->mount_id == tree->mount_id;
}

bool place_is_same(const struct place *a, const struct place *b)
{
	return a->dev_major == b->dev_major && a->dev_minor == b->dev_minor && a->ino == b->ino;
}

int place_unmount(const struct helper *h, int dir_fd, const char *name, bool detach)
{
	int r = sys_fchdir(dir_fd);

	if (r < 0)
		return r;
	r = sys_umount2(name, SYS_UMOUNT_NOFOLLOW | (detach ? SYS_UMOUNT_DETACH : 0));
	(void)sys_fchdir(h->root_fd); /* only keeps the tree from being pinned by our working directory */
	return r;
}

uint64_t mount_key(uint32_t dev_major, uint32_t dev_minor, const char *root)
{
	return str_hash((uint64_t)dev_major << 32 | dev_minor, root);
}

static int ask_for_one(uint64_t mount_id, struct mount_facts *ret)
{
	const uint64_t mask = SYS_STATMOUNT_SB_BASIC | SYS_STATMOUNT_MNT_BASIC | SYS_STATMOUNT_MNT_ROOT;
	struct sys_statmount st;
	const char *root;
	uint64_t below;
	ssize_t n;
	int r = sys_statmount(mount_id, mask, &st);

	if (r < 0)
		return r;
	if ((st.mask & mask) != mask || st.mnt_root >= sizeof(st.strings))
		return -EOPNOTSUPP;
	root = st.strings + st.mnt_root;
	n = sys_listmount(mount_id, &below, 1);
	if (n < 0)
		return (int)n;
	*ret = (struct mount_facts){.peer_group = st.mnt_peer_group,
				    .master = st.mnt_master,
				    .key = mount_key(st.sb_dev_major, st.sb_dev_minor, root),
				    .root_is_whole = str_eq(root, "/"),
				    .has_submounts = n > 0};
	return 0;
}

struct search {
	uint64_t id;
	bool found;
	struct mount_facts facts;
};

static int visit(const struct mount_entry *entry, void *userdata)
{
	struct search *search = userdata;

	if (entry->id == search->id) {
		search->found = true;
		search->facts = (struct mount_facts){
			.peer_group = entry->peer_group,
			.master = entry->master,
			.key = mount_key(entry->dev_major, entry->dev_minor, entry->root),
			.root_is_whole = str_eq(entry->root, "/"),
			.has_submounts = search->facts.has_submounts};
	} else if (entry->parent == search->id) {
		search->facts.has_submounts = true;
	}
	return 0;
}

int mount_facts(struct helper *h, const struct place *place, struct mount_facts *ret)
{
	struct search search = {.id = place->mount_id};
	int r;

	if (place->id_is_unique)
		return ask_for_one(place->mount_id, ret);
	r = mountinfo_each(&h->mountinfo, visit, &search);
	if (r < 0 || !search.found)
		return r < 0 ? r : -ENOENT;
	*ret = search.facts;
	return 0;
}

/* f_flags has the bits of the attributes, but for the last. */
static int64_t flags_of(uint64_t attributes, bool is_read_only)
{
	const uint64_t same =
		SYS_MOUNT_ATTR_RDONLY | SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV | SYS_MOUNT_ATTR_NOEXEC;

	return (int64_t)(attributes & same) | (is_read_only ? ST_RDONLY : 0) |
	       ((attributes & SYS_MOUNT_ATTR_NOSYMFOLLOW) != 0 ? ST_NOSYMFOLLOW_ : 0);
}

struct flags_search {
	uint64_t id;
	struct statfs found;
	bool is_known; /* its type is one of fs_types */
};

static int visit_flags(const struct mount_entry *entry, void *userdata)
{
	static const struct {
		const char *word;
		uint64_t attribute;
	} words[] = {{"ro", SYS_MOUNT_ATTR_RDONLY},
		     {"nosuid", SYS_MOUNT_ATTR_NOSUID},
		     {"nodev", SYS_MOUNT_ATTR_NODEV},
		     {"noexec", SYS_MOUNT_ATTR_NOEXEC},
		     {"nosymfollow", SYS_MOUNT_ATTR_NOSYMFOLLOW}};
	struct flags_search *search = userdata;
	uint64_t attributes = 0;

	if (entry->id != search->id)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (mount_option_is_set(entry->options, words[i].word))
			attributes |= words[i].attribute;
	search->found.f_flags = flags_of(attributes, mount_option_is_set(entry->super_options, "ro"));
	search->is_known = fs_kind_find(entry->type) >= 0;
	return 1;
}

/* A daemon may take the question of statfs(2) and never answer, and then no signal ends the wait for it. */
int mount_statfs(struct helper *h, const struct place *place, struct statfs *ret)
{
	const uint64_t mask = SYS_STATMOUNT_SB_BASIC | SYS_STATMOUNT_MNT_BASIC;
	struct flags_search search = {.id = place->mount_id};
	struct sys_statmount st;
	int r;

	if (!place->id_is_unique) {
		r = mountinfo_each(&h->mountinfo, visit_flags, &search);
		if (r == 0)
			r = -ENOENT;
	} else {
		r = sys_statmount(place->mount_id, mask, &st);
		if (r == 0 && (st.mask & mask) != mask)
			r = -EOPNOTSUPP;
		if (r == 0) {
			search.found.f_type = (__fsword_t)st.sb_magic;
			search.found.f_flags =
				flags_of(st.mnt_attr, (st.sb_flags & SYS_MOUNT_ATTR_RDONLY) != 0);
			search.is_known = fs_kind_of_magic(st.sb_magic) >= 0;
		}
	}
	if (r < 0)
		return r;
	if (search.is_known)
		return sys_fstatfs(place->fd, ret);
	*ret = search.found;
	return 0;
}
