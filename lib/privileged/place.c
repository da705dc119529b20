/* SPDX-License-Identifier: Apache-2.0 */
#include "privileged/place.h"

#include "base/str.h"
#include "base/sys.h"

#include <assert.h>
#include <fcntl.h>
#include <linux/stat.h>

void place_release(struct place *place)
{
	close_fdp(&place->fd);
	place->fd = -EBADF;
}

static int place_look_at(int fd, const char *name, int flags, struct place *ret)
{
	const unsigned int needed = STATX_TYPE | STATX_MODE | STATX_UID | STATX_INO;
	const unsigned int either = STATX_MNT_ID | SYS_STATX_MNT_ID_UNIQUE;
	struct statx st;

	/* no question to a server or a plugin that may be dead: what identifies a root does not change */
	TRY_SYS(sys_statx(fd, name, flags | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC,
			  needed | either, &st));
	if ((st.stx_mask & needed) != needed || (st.stx_mask & either) == 0 ||
	    (st.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) == 0)
		return -EOPNOTSUPP;
	*ret = (struct place){.fd = -EBADF,
			      .mount_id = st.stx_mnt_id,
			      .id_is_unique = (st.stx_mask & SYS_STATX_MNT_ID_UNIQUE) != 0,
			      .ino = st.stx_ino,
			      .dev_major = st.stx_dev_major,
			      .dev_minor = st.stx_dev_minor,
			      .rdev_major = st.stx_rdev_major,
			      .rdev_minor = st.stx_rdev_minor,
			      .uid = st.stx_uid,
			      .mode = st.stx_mode,
			      .is_mount_root = (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0};
	return 0;
}

int place_of_fd(int fd, struct place *ret)
{
	return place_look_at(fd, "", AT_EMPTY_PATH, ret);
}

int place_look(int dir_fd, const char *name, struct place *ret)
{
	int r = place_look_at(dir_fd, name, 0, ret);

	return r == 0 && !S_ISDIR(ret->mode) ? -ENOTDIR : r;
}

int place_open(int dir_fd, const char *name, struct place *ret)
{
	assert(dir_fd >= 0 || dir_fd == AT_FDCWD);

	cleanup_close int fd = sys_openat(dir_fd, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	TRY_SYS(fd);
	TRY_SYS(place_of_fd(fd, ret));
	ret->fd = TAKE_FD(fd);
	return 0;
}

int place_make(int dir_fd, const char *name, struct place *ret)
{
	int r = sys_mkdirat(dir_fd, name, 0755);

	return r < 0 && r != -EEXIST ? r : place_open(dir_fd, name, ret);
}

bool place_is_same(const struct place *a, const struct place *b)
{
	return a->dev_major == b->dev_major && a->dev_minor == b->dev_minor && a->ino == b->ino &&
	       a->idmap == b->idmap;
}

static void set_root(struct mount_facts *facts, uint32_t dev_major, uint32_t dev_minor, const char *root)
{
	facts->root_is_whole = str_eq(root, "/");
	(void)str_format(facts->root, sizeof(facts->root), "/%u:%u%s", dev_major, dev_minor,
			 facts->root_is_whole ? "" : root);
}

/* @names: SYS_STATMOUNT_* of names, or 0. */
static int ask_for_one(uint64_t mount_id, uint64_t names, struct mount_facts *ret)
{
	const uint64_t mask = SYS_STATMOUNT_SB_BASIC | SYS_STATMOUNT_MNT_BASIC | names;
	struct sys_statmount st;

	TRY_SYS(sys_statmount(mount_id, mask, &st));
	if ((st.mask & mask) != mask)
		return -EOPNOTSUPP;
	*ret = (struct mount_facts){.peer_group = st.mnt_peer_group,
				    .master = st.mnt_master,
				    .parent = st.mnt_parent_id,
				    .attributes = (st.mnt_attr & MOUNT_ATTRIBUTES) |
						  (st.sb_flags & SYS_MOUNT_ATTR_RDONLY)};
	if (names == 0)
		return 0;
	if (st.mnt_root >= sizeof(st.strings) || st.fs_type >= sizeof(st.strings))
		return -EOPNOTSUPP;
	if ((names & SYS_STATMOUNT_MNT_ROOT) != 0)
		set_root(ret, st.sb_dev_major, st.sb_dev_minor, st.strings + st.mnt_root);
	(void)str_copy(ret->type, sizeof(ret->type), st.strings + st.fs_type);
	return 0;
}

static uint64_t attributes_of(const struct mount_entry *entry)
{
	static const struct {
		const char *word;
		uint64_t attribute;
	} words[] = {{"ro", SYS_MOUNT_ATTR_RDONLY},
		     {"nosuid", SYS_MOUNT_ATTR_NOSUID},
		     {"nodev", SYS_MOUNT_ATTR_NODEV},
		     {"noexec", SYS_MOUNT_ATTR_NOEXEC},
		     {"nosymfollow", SYS_MOUNT_ATTR_NOSYMFOLLOW},
		     {"idmapped", SYS_MOUNT_ATTR_IDMAP}};
	uint64_t attributes = mount_option_is_set(entry->super_options, "ro") ? SYS_MOUNT_ATTR_RDONLY : 0;

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (mount_option_is_set(entry->options, words[i].word))
			attributes |= words[i].attribute;
	return attributes;
}

static int find_facts(struct mountinfo *table, const struct place *place, uint64_t names,
		      struct mount_facts *ret)
{
	struct mount_entry entry;
	int r;

	if (place->id_is_unique) {
		r = ask_for_one(place->mount_id, names, ret);
		/* a root whose path does not fit is not "/" */
		return r == -EOVERFLOW ? ask_for_one(place->mount_id, names & SYS_STATMOUNT_FS_TYPE, ret) : r;
	}
	mountinfo_rewind(table);
	while ((r = mountinfo_next(table, &entry)) > 0 && entry.id != place->mount_id)
		;
	if (r <= 0)
		return r < 0 ? r : -ENOENT;
	*ret = (struct mount_facts){.peer_group = entry.peer_group,
				    .master = entry.master,
				    .parent = entry.parent,
				    .attributes = attributes_of(&entry)};
	(void)str_copy(ret->type, sizeof(ret->type), entry.type);
	set_root(ret, entry.dev_major, entry.dev_minor, entry.root);
	return 0;
}

int mount_facts(struct mountinfo *table, struct place *place, struct mount_facts *ret)
{
	TRY_SYS(find_facts(table, place, SYS_STATMOUNT_MNT_ROOT | SYS_STATMOUNT_FS_TYPE, ret));
	place->idmap = ret->attributes & SYS_MOUNT_ATTR_IDMAP;
	return 0;
}

int mount_flags(struct mountinfo *table, const struct place *place, struct mount_facts *ret)
{
	return find_facts(table, place, 0, ret);
}

bool mount_has_stopped(const struct place *place)
{
	const uint64_t mask = SYS_STATMOUNT_SB_BASIC | SYS_STATMOUNT_MNT_BASIC | SYS_STATMOUNT_MNT_OPTS;
	struct sys_statmount st;

	if (!place->id_is_unique || sys_statmount(place->mount_id, mask, &st) < 0)
		return false;
	return (st.sb_flags & ~st.mnt_attr & SYS_MOUNT_ATTR_RDONLY) != 0 ||
	       ((st.mask & SYS_STATMOUNT_MNT_OPTS) != 0 && st.mnt_opts < sizeof(st.strings) &&
		mount_options_show_stop(st.strings + st.mnt_opts));
}

int mount_has_submounts(struct mountinfo *table, const struct place *place)
{
	struct mount_entry entry;
	uint64_t below;
	int r;

	if (place->id_is_unique)
		return (int)sys_listmount(place->mount_id, 0, &below, 1);
	mountinfo_rewind(table);
	while ((r = mountinfo_next(table, &entry)) > 0 && entry.parent != place->mount_id)
		;
	return r;
}

bool mount_shows(const struct mount_facts *facts, uint64_t attributes)
{
	return ((facts->attributes ^ attributes) & MOUNT_RESTRICTIONS) == 0;
}
