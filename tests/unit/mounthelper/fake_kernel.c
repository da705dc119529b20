/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_model.h"
#include "fixture.h"

#include "base/names.h"
#include "base/sys.h"

#include <fcntl.h>
#include <linux/stat.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

struct model k;

/* Tree */

int new_node(int parent, int fs, const char *name, uint32_t uid, uint16_t mode)
{
	for (int i = 0; i < NODES; i++) {
		if (k.nodes[i].used)
			continue;
		k.nodes[i] = (struct node){.used = true,
					   .parent = parent < 0 ? i : parent,
					   .fs = fs,
					   .uid = uid,
					   .mode = mode,
					   .ino = k.next_ino++};
		(void)str_copy(k.nodes[i].name, sizeof(k.nodes[i].name), name);
		return i;
	}
	fail_msg("the model is out of nodes");
	return -1;
}

int find_node(int parent, const char *name)
{
	for (int i = 0; i < NODES; i++)
		if (k.nodes[i].used && k.nodes[i].parent == parent && i != parent &&
		    str_eq(k.nodes[i].name, name))
			return i;
	return -1;
}

int new_system(const char *type, const char *source, uint32_t dev_major, uint32_t dev_minor)
{
	for (int i = 0; i < SYSTEMS; i++) {
		if (k.systems[i].used)
			continue;
		k.systems[i] = (struct system){.used = true, .dev_major = dev_major, .dev_minor = dev_minor};
		(void)str_copy(k.systems[i].type, sizeof(k.systems[i].type), type);
		(void)str_copy(k.systems[i].source, sizeof(k.systems[i].source), source);
		k.systems[i].root = new_node(-1, i, "", 0, S_IFDIR | 0755);
		k.nodes[k.systems[i].root].ino = 2;
		return i;
	}
	fail_msg("the model is out of file systems");
	return -1;
}

int new_mount(int fs, int root, uint64_t attr)
{
	for (int i = 0; i < MOUNTS; i++) {
		if (k.mounts[i].used)
			continue;
		k.mounts[i] = (struct mount){
			.used = true, .id = k.next_mount_id++, .fs = fs, .root = root, .attr = attr};
		return i;
	}
	fail_msg("the model is out of mounts");
	return -1;
}

int mount_at(struct position at)
{
	int best = -1;

	for (int i = 0; i < MOUNTS; i++)
		if (k.mounts[i].used && k.mounts[i].attached && i != at.mount &&
		    k.mounts[i].at_mount == at.mount && k.mounts[i].at_node == at.node &&
		    (best < 0 || k.mounts[i].id > k.mounts[best].id))
			best = i;
	return best;
}

struct position root_of(int mount)
{
	return (struct position){.mount = mount, .node = k.mounts[mount].root};
}

struct position top(struct position at)
{
	int mount;

	while ((mount = mount_at(at)) >= 0)
		at = root_of(mount);
	return at;
}

static bool has_other_peers(int mount)
{
	for (int i = 0; i < MOUNTS; i++)
		if (k.mounts[i].used && i != mount && k.mounts[i].group == k.mounts[mount].group)
			return true;
	return false;
}

/* do_make_slave() of the kernel: the slaves of a group that ends go to its last member's master. */
static void leave_group(int mount)
{
	struct mount *m = &k.mounts[mount];
	uint64_t group = m->group;

	if (group == 0)
		return;
	if (has_other_peers(mount)) {
		m->master = group;
	} else {
		for (int i = 0; i < MOUNTS; i++)
			if (k.mounts[i].used && k.mounts[i].master == group)
				k.mounts[i].master = m->master;
	}
	m->group = 0;
}

/* change_mnt_propagation() of the kernel. */
void set_propagation_of(int mount, uint64_t propagation)
{
	struct mount *m = &k.mounts[mount];

	if (propagation == MS_SHARED) {
		m->group = m->group ? m->group : k.next_group++;
		return;
	}
	leave_group(mount);
	if (propagation == MS_PRIVATE)
		m->master = 0;
}

/* Below a shared mount everything becomes shared; a slave stays one besides. */
void attach_at(int mount, struct position at)
{
	k.mounts[mount].attached = true;
	k.mounts[mount].at_mount = at.mount;
	k.mounts[mount].at_node = at.node;
	if (k.mounts[at.mount].group != 0)
		set_propagation_of(mount, MS_SHARED);
}

static void drop_nodes(int fs)
{
	for (int i = 0; i < NODES; i++)
		if (k.nodes[i].fs == fs)
			k.nodes[i].used = false;
}

/* The file system goes with its last mount or context. */
void drop_unused(void)
{
	for (int i = 0; i < MOUNTS; i++) {
		bool held = !k.mounts[i].used || k.mounts[i].attached;

		for (int j = 0; j < FDS && !held; j++)
			held = k.fds[j].kind == FD_MOUNT && k.fds[j].mount == i;
		if (!held) {
			leave_group(i);
			k.mounts[i].used = false;
		}
	}
	for (int i = 0; i < SYSTEMS; i++) {
		bool held = !k.systems[i].used;

		for (int j = 0; j < MOUNTS && !held; j++)
			held = k.mounts[j].used && k.mounts[j].fs == i;
		for (int j = 0; j < FDS && !held; j++)
			held = k.fds[j].kind == FD_CONTEXT && k.fds[j].fs == i;
		if (!held) {
			k.systems[i].used = false;
			drop_nodes(i);
		}
	}
}

static int new_fd(struct descriptor descriptor)
{
	for (int i = 0; i < FDS; i++) {
		if (k.fds[i].kind != FD_FREE)
			continue;
		k.fds[i] = descriptor;
		return FAKE_DYNAMIC_FD + i;
	}
	return -EMFILE;
}

static struct descriptor *get_fd(int fd)
{
	assert_in_range(fd, FAKE_DYNAMIC_FD, FAKE_DYNAMIC_FD + FDS - 1);
	assert_int_not_equal(k.fds[fd - FAKE_DYNAMIC_FD].kind, FD_FREE);
	return &k.fds[fd - FAKE_DYNAMIC_FD];
}

static struct position position_of(int fd)
{
	struct descriptor *descriptor;

	if (fd >= FAKE_ROOT_FD && fd <= FAKE_SYSFS_BLOCK_FD)
		return k.base[fd - FAKE_ROOT_FD];
	descriptor = get_fd(fd);
	assert_int_not_equal(descriptor->kind, FD_CONTEXT);
	return descriptor->kind == FD_MOUNT ? root_of(descriptor->mount) : descriptor->at;
}

static void assert_is_component(const char *name)
{
	assert_true(name[0] != '\0' && !strchr(name, '/') && !str_eq(name, ".."));
}

/* Calls */

int model_openat(int dir_fd, const char *name, int flags)
{
	struct position at = position_of(dir_fd);
	int node;

	assert_true(flags == (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) ||
		    flags == (O_PATH | O_NOFOLLOW | O_CLOEXEC));
	if (str_eq(name, "..")) {
		while (at.mount != 0 && at.node == k.mounts[at.mount].root)
			at = (struct position){.mount = k.mounts[at.mount].at_mount,
					       .node = k.mounts[at.mount].at_node};
		at = top((struct position){.mount = at.mount, .node = k.nodes[at.node].parent});
	} else if (!str_eq(name, ".")) {
		assert_is_component(name);
		node = find_node(at.node, name);
		if (node < 0)
			return -ENOENT;
		if ((flags & O_DIRECTORY) != 0 && !S_ISDIR(k.nodes[node].mode))
			return -ENOTDIR;
		at = top((struct position){.mount = at.mount, .node = node});
	}
	k.mounts[at.mount].expiring = false;
	return new_fd((struct descriptor){.kind = FD_PATH, .at = at, .fs = -1});
}

/* A server may never answer. */
static void ask_server(const struct system *fs)
{
	assert_true(k.timer_s > 0 || !str_eq(fs->type, "nfs4"));
}

/* Of the log nobody asks for the times, which would make the next write cost more. */
static int statx_log(unsigned int mask, struct statx *ret)
{
	assert_int_equal(mask & (STATX_MTIME | STATX_CTIME), 0);
	*ret = (struct statx){.stx_mask = mask,
			      .stx_ino = 1,
			      .stx_size = k.log_len,
			      .stx_blocks = (k.log_len + fake_log_ahead() + 511) / 512,
			      .stx_nlink = k.log_deleted ? 0 : 1};
	return 0;
}

static int statx_policy(const char *name, int flags, unsigned int mask, struct statx *ret)
{
	assert_string_equal(name, "etc/policy.applied");
	assert_int_equal(flags, AT_SYMLINK_NOFOLLOW);
	assert_int_equal(mask, STATX_INO | STATX_CTIME | STATX_MNT_ID | SYS_STATX_MNT_ID_UNIQUE);
	*ret = k.policy;
	return k.policy_errno;
}

/* /sys/fs/TYPE/DEVICE exists as long as the superblock. */
static int statx_sysfs(const char *name, int flags, struct statx *ret)
{
	char here[128];

	assert_int_equal(flags, AT_SYMLINK_NOFOLLOW);
	*ret = (struct statx){.stx_mode = S_IFDIR};
	for (int i = 0; i < SYSTEMS; i++) {
		const struct system *fs = &k.systems[i];

		if (!fs->used || !str_starts_with(fs->source, "/dev/"))
			continue;
		(void)str_format(here, sizeof(here), "%s/%s", fs->type, fs->source + 5);
		if (str_eq(here, name))
			return 0;
	}
	return k.superblock_elsewhere ? 0 : -ENOENT;
}

/* /proc/fs/jbd2/DEVICE-8 is a journal in its inode, as long as the superblock. */
static int statx_procfs(const char *name, int flags, struct statx *ret)
{
	char here[128];

	assert_int_equal(flags, AT_SYMLINK_NOFOLLOW);
	*ret = (struct statx){.stx_mode = S_IFDIR};
	for (int i = 0; i < SYSTEMS; i++) {
		const struct system *fs = &k.systems[i];

		if (!fs->used || fs->ro || !str_eq(fs->type, "ext4") || k.journal != FAKE_JOURNAL_INSIDE)
			continue;
		(void)str_format(here, sizeof(here), "jbd2/%s-8", fs->source + strlen("/dev/"));
		if (str_eq(here, name))
			return 0;
	}
	return -ENOENT;
}

int model_statx(int fd, const char *name, int flags, unsigned int mask, struct statx *ret)
{
	struct position at;
	const struct node *node;
	const struct system *fs;
	uint64_t attr;

	assert_int_equal((flags & AT_EMPTY_PATH) != 0, name[0] == '\0');
	if (fd == FAKE_LOG_READ_FD)
		return statx_log(mask, ret);
	if (fd == FAKE_POLICY_ROOT_FD)
		return statx_policy(name, flags, mask, ret);
	if (fd == FAKE_SYSFS_FD)
		return statx_sysfs(name, flags, ret);
	if (fd == FAKE_PROCFS_FD)
		return statx_procfs(name, flags, ret);
	at = position_of(fd);
	if (name[0] != '\0') {
		assert_is_component(name);
		assert_int_not_equal(flags & AT_SYMLINK_NOFOLLOW, 0);
		at.node = find_node(at.node, name);
		if (at.node < 0)
			return -ENOENT;
		at = top(at);
	}
	k.mounts[at.mount].expiring = false;
	attr = k.mounts[at.mount].attr;
	node = &k.nodes[at.node];
	fs = &k.systems[node->fs];
	ask_server(fs);
	if (S_ISDIR(node->mode) && (mask & STATX_MNT_ID) != 0) /* a dead server is not asked */
		assert_int_not_equal(flags & AT_STATX_DONT_SYNC, 0);
	*ret = (struct statx){.stx_mask = STATX_TYPE | STATX_MODE | STATX_UID | STATX_INO | STATX_MNT_ID,
			      .stx_mode = node->mode,
			      .stx_uid = (attr & SYS_MOUNT_ATTR_IDMAP) != 0 ? MAPPED_UID : node->uid,
			      .stx_ino = node->ino,
			      .stx_dev_major = fs->dev_major,
			      .stx_dev_minor = fs->dev_minor,
			      .stx_mnt_id = k.mounts[at.mount].id,
			      .stx_attributes_mask = STATX_ATTR_MOUNT_ROOT};
	if (has_unique_ids() && (mask & SYS_STATX_MNT_ID_UNIQUE) != 0) {
		ret->stx_mask |= SYS_STATX_MNT_ID_UNIQUE;
		ret->stx_mnt_id += UNIQUE_ID;
	}
	if (at.node == k.mounts[at.mount].root)
		ret->stx_attributes = STATX_ATTR_MOUNT_ROOT;
	if (S_ISBLK(node->mode)) {
		ret->stx_rdev_major = k.rdev_major;
		ret->stx_rdev_minor = k.rdev_minor;
	}
	return 0;
}

int model_mkdirat(int dir_fd, const char *name, mode_t mode)
{
	struct position at = position_of(dir_fd);

	assert_is_component(name);
	assert_int_equal(mode, 0755);
	if (find_node(at.node, name) >= 0)
		return -EEXIST;
	(void)new_node(at.node, k.nodes[at.node].fs, name, FIXTURE_HELPER_UID, S_IFDIR | 0755);
	return 0;
}

int model_rmdirat(int dir_fd, const char *name)
{
	struct position at = position_of(dir_fd);
	int node;

	assert_is_component(name);
	node = find_node(at.node, name);
	if (node < 0)
		return -ENOENT;
	if (mount_at((struct position){.mount = at.mount, .node = node}) >= 0)
		return -EBUSY;
	for (int i = 0; i < NODES; i++)
		if (k.nodes[i].used && k.nodes[i].parent == node && i != node)
			return -ENOTEMPTY;
	k.nodes[node].used = false;
	return 0;
}

int model_readlinkat(int dir_fd, const char *name, char *buf, size_t size)
{
	int node;
	size_t n;

	assert_is_component(name);
	node = find_node(position_of(dir_fd).node, name);
	if (node < 0)
		return -ENOENT;
	if (!S_ISLNK(k.nodes[node].mode))
		return -EINVAL;
	n = strlen(k.nodes[node].link);
	n = n < size ? n : size;
	memcpy(buf, k.nodes[node].link, n);
	return (int)n;
}

int model_fstatfs(int fd, struct statfs *ret)
{
	struct position at = position_of(fd);
	const struct system *fs = &k.systems[k.nodes[at.node].fs];
	uint64_t attr = k.mounts[at.mount].attr;
	int kind = names_find(fs_names, FS_N, fs->type);

	ask_server(fs);
	assert_true(kind >= 0); /* or a daemon would be asked */
	*ret = (struct statfs){.f_type = 0x1234, .f_blocks = fs->blocks, .f_files = fs->inodes};
	ret->f_flags |= (attr & SYS_MOUNT_ATTR_RDONLY) != 0 || fs->ro ? ST_RDONLY : 0;
	ret->f_flags |= (attr & SYS_MOUNT_ATTR_NOSUID) != 0 ? ST_NOSUID : 0;
	ret->f_flags |= (attr & SYS_MOUNT_ATTR_NODEV) != 0 ? ST_NODEV : 0;
	ret->f_flags |= (attr & SYS_MOUNT_ATTR_NOEXEC) != 0 ? ST_NOEXEC : 0;
	ret->f_flags |= (attr & SYS_MOUNT_ATTR_NOSYMFOLLOW) != 0 ? 0x2000 : 0;
	return 0;
}

int model_fchdir(int fd)
{
	k.cwd = position_of(fd);
	return 0;
}

int model_fsopen(const char *type, unsigned int flags)
{
	int kind = names_find(fs_names, FS_N, type);

	assert_int_equal(flags, SYS_FSOPEN_CLOEXEC);
	k.options[0] = '\0';
	return kind < 0 ? -ENODEV : new_fd((struct descriptor){.kind = FD_CONTEXT, .fs = -1, .mount = kind});
}

static void note_option(const char *key, const char *value)
{
	size_t n = strlen(k.options);

	(void)str_format(k.options + n, sizeof(k.options) - n, value ? "%s=%s;" : "%s;", key, value);
}

/* "key=VALUE;" among the options noted, copied to @ret. */
static bool option(const char *key, char *ret, size_t size)
{
	char pattern[32];
	const char *at;
	size_t n;

	(void)str_format(pattern, sizeof(pattern), "%s=", key);
	at = strstr(k.options, pattern);
	if (!at)
		return false;
	at += strlen(pattern);
	n = strcspn(at, ";");
	assert_true(n < size);
	memcpy(ret, at, n);
	ret[n] = '\0';
	return true;
}

static int get_tree(struct descriptor *context, bool exclusive)
{
	const struct fs_type *type = &fs_types[context->mount];
	bool block = type->class == MH_CLASS_BLOCK;
	char source[80] = "", number[32] = "0";
	struct system *fs;

	assert_true(option("source", source, sizeof(source)));
	assert_int_equal(exclusive, block && !k.no_excl);
	if (context->mount == FS_EXT4)
		assert_non_null(strstr(k.options, "errors=remount-ro;"));
	if (k.image_unsupported)
		return -EOPNOTSUPP;
	if (exclusive && k.superblock_elsewhere)
		return -EBUSY;
	/* "can't mount with commit=6, fs mounted w/o journal" */
	if (strstr(k.options, "commit=") && k.journal == FAKE_JOURNAL_NONE)
		return -EINVAL;
	context->fs = -1;
	for (int i = 0; i < SYSTEMS && block; i++)
		if (k.systems[i].used && k.systems[i].dev_major == k.rdev_major &&
		    k.systems[i].dev_minor == k.rdev_minor)
			context->fs = i;
	if (context->fs >= 0) {
		context->created = true;
		return exclusive ? -EBUSY : 0; /* shared silently, with the options it had */
	}
	context->fs = block ? new_system(fs_names[context->mount], source,
					 k.race_major ? k.race_major : k.rdev_major, k.rdev_minor)
			    : new_system(fs_names[context->mount], source, 0, k.next_anonymous++);
	fs = &k.systems[context->fs];
	fs->ro = strstr(k.options, ";ro;") != NULL || type->always_read_only;
	if (type->class == MH_CLASS_NFS4)
		assert_true(k.timer_s > 0);
	if (type->class == MH_CLASS_TMPFS) {
		assert_true(option("size", number, sizeof(number)));
		fs->blocks = strtoull(number, NULL, 10) / 4096;
		assert_true(option("nr_inodes", number, sizeof(number)));
		fs->inodes = strtoull(number, NULL, 10);
	}
	/* before 6.4 an erofs opens the paths that its image holds; the sign of that is of 6.6 */
	k.opened_devices_of_image |= context->mount == FS_EROFS && k.no_excl;
	context->created = true;
	return 0;
}

static int create(struct descriptor *context, bool exclusive)
{
	int r = context->failed ? -EBUSY : get_tree(context, exclusive);

	context->failed |= r < 0;
	return r;
}

int model_fsconfig(int fd, unsigned int cmd, const char *key, const void *value, int aux)
{
	struct descriptor *context = get_fd(fd);

	assert_int_equal(context->kind, FD_CONTEXT);
	assert_true(aux == 0 || cmd == SYS_FSCONFIG_CMD_CREATE_EXCL);
	switch (cmd) {
	case SYS_FSCONFIG_SET_FLAG:
		note_option(key, NULL);
		return 0;
	case SYS_FSCONFIG_SET_STRING:
		note_option(key, value);
		return 0;
	case SYS_FSCONFIG_CMD_CREATE_EXCL:
		if (k.no_excl)
			return -EOPNOTSUPP;
		return aux == 0 ? create(context, true) : -EINVAL;
	case SYS_FSCONFIG_CMD_CREATE:
		return create(context, false);
	default:
		fail_msg("fsconfig command %u", cmd);
	}
	return -EINVAL;
}

/* Another process of root mounts something meanwhile. */
static void run_race(void)
{
	const char *path = k.race_path;

	k.race_path = NULL;
	if (path)
		fake_mount_other(path);
}

static void run_stack_race(void)
{
	const char *path = k.stack_path;

	k.stack_path = NULL;
	if (path)
		fake_mount_again(path);
}

int model_fsmount(int fd, unsigned int flags, unsigned int attributes)
{
	const unsigned int floor = SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV | SYS_MOUNT_ATTR_NOEXEC |
				   SYS_MOUNT_ATTR_NOSYMFOLLOW;
	struct descriptor *context = get_fd(fd);

	assert_true(context->created);
	run_race();
	assert_int_equal(flags, SYS_FSMOUNT_CLOEXEC);
	assert_int_equal(attributes & floor, floor);
	return new_fd(
		(struct descriptor){.kind = FD_MOUNT,
				    .mount = new_mount(context->fs, k.systems[context->fs].root, attributes),
				    .fs = -1});
}

int model_open_tree(int fd, const char *path, unsigned int flags)
{
	struct position at = position_of(fd);
	int mount;

	assert_string_equal(path, "");
	assert_int_equal(flags, SYS_OPEN_TREE_CLONE | O_CLOEXEC | AT_EMPTY_PATH);
	assert_true(S_ISDIR(k.nodes[at.node].mode));
	run_race();
	mount = new_mount(k.nodes[at.node].fs, at.node, k.mounts[at.mount].attr);
	k.mounts[mount].group = k.mounts[at.mount].group;
	k.mounts[mount].master = k.mounts[at.mount].master;
	return new_fd((struct descriptor){.kind = FD_MOUNT, .mount = mount, .fs = -1});
}

int model_move_mount(int from_fd, const char *from, int to_fd, const char *to, unsigned int flags)
{
	struct descriptor *descriptor = get_fd(from_fd);
	const uint64_t floor = SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV;
	struct position at = position_of(to_fd);
	struct mount *mount = &k.mounts[descriptor->mount];

	assert_int_equal(descriptor->kind, FD_MOUNT);
	assert_string_equal(from, "");
	assert_string_equal(to, "");
	assert_int_equal(flags, SYS_MOVE_MOUNT_F_EMPTY_PATH | SYS_MOVE_MOUNT_T_EMPTY_PATH);
	assert_false(mount->attached);
	assert_int_equal(mount->attr & floor, floor);
	assert_int_equal(mount_at(at), -1); /* never stack */
	if (!k.nodes[at.node].used)
		return -ENOENT;
	mount->attr &= ~k.lost_attributes;
	attach_at(descriptor->mount, at);
	run_stack_race();
	return 0;
}

int model_mount_setattr(int fd, const char *path, unsigned int flags, const struct sys_mount_attr *attr)
{
	struct position at = position_of(fd);
	struct mount *mount = &k.mounts[at.mount];

	assert_string_equal(path, "");
	assert_int_equal(flags, AT_EMPTY_PATH);
	assert_int_equal(
		attr->attr_clr & (SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV | SYS_MOUNT_ATTR_RDONLY), 0);
	assert_true(attr->propagation == 0 || attr->propagation == MS_PRIVATE ||
		    attr->propagation == MS_SLAVE || attr->propagation == MS_SHARED);
	assert_int_equal(attr->userns_fd, 0); /* no mount is idmapped */
	assert_int_equal((attr->attr_set | attr->attr_clr) & SYS_MOUNT_ATTR_IDMAP, 0);
	assert_int_equal(at.node, mount->root);
	if (mount->attached)
		assert_int_equal(attr->attr_set | attr->attr_clr, 0); /* flags only while nobody can see it */
	mount->attr = (mount->attr & ~attr->attr_clr) | attr->attr_set;
	if (attr->propagation != 0 && (!mount->attached || !k.private_has_no_effect))
		set_propagation_of(at.mount, attr->propagation);
	return 0;
}

int model_umount2(const char *name, int flags)
{
	int node, mount;
	bool busy;

	assert_is_component(name);
	assert_true(flags == SYS_UMOUNT_NOFOLLOW || flags == (SYS_UMOUNT_NOFOLLOW | SYS_UMOUNT_DETACH) ||
		    flags == (SYS_UMOUNT_NOFOLLOW | SYS_UMOUNT_EXPIRE));
	node = find_node(k.cwd.node, name);
	if (node < 0)
		return -ENOENT;
	mount = top((struct position){.mount = k.cwd.mount, .node = node}).mount;
	if (mount == k.cwd.mount)
		return -EINVAL;
	busy = k.mounts[mount].busy;
	for (int i = 0; i < FDS; i++)
		busy |= (k.fds[i].kind == FD_PATH && k.fds[i].at.mount == mount) ||
			(k.fds[i].kind == FD_MOUNT && k.fds[i].mount == mount);
	for (int i = 0; i < MOUNTS; i++)
		busy |= k.mounts[i].used && k.mounts[i].attached && i != mount &&
			k.mounts[i].at_mount == mount;
	if (busy && (flags & SYS_UMOUNT_DETACH) == 0)
		return -EBUSY;
	if ((flags & SYS_UMOUNT_EXPIRE) != 0 && !k.mounts[mount].expiring) {
		k.mounts[mount].expiring = true;
		return -EAGAIN;
	}
	k.mounts[mount].attached = false;
	drop_unused();
	return 0;
}

long model_write(int fd, const void *bytes, size_t n)
{
	assert_int_equal(fd, FAKE_LOG_FD);
	if (k.log_full)
		return -ENOSPC;
	if (k.log_short)
		n /= 2;
	assert_true(k.log_len + n < LOG);
	memcpy(k.log + k.log_len, bytes, n);
	k.log_len += n;
	k.log[k.log_len] = '\0';
	return (long)n;
}

size_t path_of(struct position at, char *ret, size_t size)
{
	char parent[512] = "";

	if (at.node == k.mounts[at.mount].root) {
		const struct mount *mount = &k.mounts[at.mount];

		if (!mount->attached || at.mount == 0)
			return (size_t)str_format(ret, size, "%s", "");
		return path_of((struct position){.mount = mount->at_mount, .node = mount->at_node}, ret,
			       size);
	}
	(void)path_of((struct position){.mount = at.mount, .node = k.nodes[at.node].parent}, parent,
		      sizeof(parent));
	return (size_t)str_format(ret, size, "%s/%s", parent, k.nodes[at.node].name);
}

/* The path of @node in its file system. */
static void root_path(int node, char *ret, size_t size)
{
	char parent[256];

	if (k.nodes[node].parent == node) {
		(void)str_copy(ret, size, "/");
		return;
	}
	root_path(k.nodes[node].parent, parent, sizeof(parent));
	(void)str_format(ret, size, "%s/%s", parent[1] != '\0' ? parent : "", k.nodes[node].name);
}

static struct mount *mount_of_unique(uint64_t id)
{
	for (int i = 0; i < MOUNTS; i++)
		if (k.mounts[i].used && k.mounts[i].attached && k.mounts[i].id + UNIQUE_ID == id)
			return &k.mounts[i];
	return NULL;
}

int model_statmount(uint64_t id, uint64_t mask, struct sys_statmount *ret)
{
	const struct mount *mount = mount_of_unique(id);

	assert_true(has_unique_ids());
	if (!mount)
		return -ENOENT;
	if (k.has_no_options)
		mask &= ~(uint64_t)SYS_STATMOUNT_MNT_OPTS;
	*ret = (struct sys_statmount){.mask = mask,
				      .mnt_opts = 640,
				      .fs_type = 512,
				      .sb_flags = k.systems[mount->fs].ro,
				      .mnt_attr = mount->attr,
				      .sb_dev_major = k.systems[mount->fs].dev_major,
				      .sb_dev_minor = k.systems[mount->fs].dev_minor,
				      .mnt_id = id,
				      .mnt_parent_id = k.mounts[mount->at_mount].id + UNIQUE_ID,
				      .mnt_peer_group = mount->group,
				      .mnt_master = mount->master};
	root_path(mount->root, ret->strings, sizeof(ret->strings));
	(void)str_copy(ret->strings + 512, 64, k.systems[mount->fs].type);
	(void)str_copy(ret->strings + 640, 64,
		       k.has_stopped_writes ? "rw,errors=remount-ro,emergency_ro" : "rw");
	return 0;
}

/* Everything below, not only the mounts on the mount itself. */
long model_listmount(uint64_t id, uint64_t after_id, uint64_t *ret_ids, size_t n)
{
	const struct mount *of = mount_of_unique(id);
	size_t found = 0;

	assert_true(has_unique_ids());
	if (!of)
		return -ENOENT;
	for (int i = 1; i < MOUNTS && found < n; i++) {
		int above = i;

		if (!k.mounts[i].used || !k.mounts[i].attached || k.mounts[i].id + UNIQUE_ID <= after_id ||
		    &k.mounts[i] == of)
			continue;
		while (above != 0 && &k.mounts[above] != of)
			above = k.mounts[above].at_mount;
		if (&k.mounts[above] == of)
			ret_ids[found++] = k.mounts[i].id + UNIQUE_ID;
	}
	return (long)found;
}

static void make_table(void)
{
	k.table_len = 0;
	k.passes++;
	for (int i = 0; i < MOUNTS; i++) {
		const struct mount *m = &k.mounts[i];
		const struct system *fs = &k.systems[m->fs];
		char point[512], root[256], tags[64] = "";

		if (!m->used || !m->attached)
			continue;
		(void)path_of(root_of(i), point, sizeof(point));
		root_path(m->root, root, sizeof(root));
		if (m->group != 0)
			(void)str_format(tags, sizeof(tags), "shared:%llu ", (unsigned long long)m->group);
		if (m->master != 0)
			(void)str_format(tags + strlen(tags), sizeof(tags) - strlen(tags), "master:%llu ",
					 (unsigned long long)m->master);
		k.table_len += (size_t)str_format(
			k.table + k.table_len, sizeof(k.table) - k.table_len,
			"%llu %llu %u:%u %s %s %s%s%s%s%s%s %s- %s %s %s,size=%lluk\n",
			(unsigned long long)m->id, (unsigned long long)k.mounts[m->at_mount].id,
			fs->dev_major, fs->dev_minor, root, point[0] != '\0' ? point : "/",
			(m->attr & SYS_MOUNT_ATTR_RDONLY) != 0 ? "ro" : "rw",
			(m->attr & SYS_MOUNT_ATTR_NOSUID) != 0 ? ",nosuid" : "",
			(m->attr & SYS_MOUNT_ATTR_NODEV) != 0 ? ",nodev" : "",
			(m->attr & SYS_MOUNT_ATTR_NOEXEC) != 0 ? ",noexec" : "",
			(m->attr & SYS_MOUNT_ATTR_NOSYMFOLLOW) != 0 ? ",nosymfollow" : "",
			(m->attr & SYS_MOUNT_ATTR_IDMAP) != 0 ? ",idmapped" : "", tags, fs->type, fs->source,
			fs->ro ? "ro" : "rw", (unsigned long long)fs->blocks * 4);
	}
}

long model_pread(int fd, void *buf, size_t n, off_t offset)
{
	const char *from = fd == FAKE_LOG_READ_FD ? k.log : k.table;
	size_t len;

	assert_true(fd == FAKE_LOG_READ_FD || fd == FAKE_MOUNTINFO_FD);
	if (fd == FAKE_MOUNTINFO_FD && offset == 0)
		make_table();
	len = fd == FAKE_LOG_READ_FD ? k.log_len : k.table_len;
	if ((size_t)offset >= len)
		return 0;
	n = n < len - (size_t)offset ? n : len - (size_t)offset;
	n = n < 1000 ? n : 1000; /* short reads are normal */
	memcpy(buf, from + offset, n);
	return (long)n;
}

/* The trail's is counted apart. */
static bool is_of_trail(const struct flock *lock)
{
	return lock->l_start == LOCK_TRAIL;
}

/* As locks.c has it: behind the table's byte, before the allocations'. */
static bool is_of_plugins(const struct flock *lock)
{
	return lock->l_start > (off_t)1 << 40 && lock->l_start < (off_t)1 << 60;
}

int model_ofd_lock(int fd, int cmd, const struct flock *lock)
{
	assert_int_equal(fd, FAKE_STATE_FD);
	if (cmd == F_OFD_SETLK && (k.lock_held || (k.places_taken && is_of_plugins(lock))))
		return -EAGAIN;
	k.log_locked |= is_of_trail(lock);
	if (!is_of_trail(lock)) {
		if (lock->l_start >= ((int64_t)1 << 61) + ((int64_t)1 << 60)) /* as locks.c has it */
			k.plugin_lock = lock->l_start;
		assert_true(k.n_locks < ARRAY_SIZE(k.locks));
		k.locks[k.n_locks++] = *lock;
	}
	return 0;
}

/* The kernel never fails to release a lock. A length of 0 reaches to the end. */
void model_ofd_unlock(int fd, const struct flock *lock)
{
	size_t kept = 0;

	assert_int_equal(fd, FAKE_STATE_FD);
	k.log_locked &= !is_of_trail(lock);
	for (size_t i = 0; i < k.n_locks; i++)
		if (k.locks[i].l_start < lock->l_start ||
		    (lock->l_len != 0 && k.locks[i].l_start >= lock->l_start + lock->l_len))
			k.locks[kept++] = k.locks[i];
	k.n_locks = kept;
}

bool model_table_is_locked(void)
{
	const off_t table = (off_t)1 << 40; /* as locks.c has it */

	for (size_t i = 0; i < k.n_locks; i++)
		if (k.locks[i].l_start == table)
			return true;
	return false;
}

void model_close(int fd)
{
	get_fd(fd)->kind = FD_FREE;
	drop_unused();
}
