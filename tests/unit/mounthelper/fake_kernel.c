#include "fake_kernel.h"

#include "fixture.h"

#include "base/str.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/stat.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>

enum { NODES = 512, MOUNTS = 128, SYSTEMS = 64, FDS = 64, LOG = 1 << 18, PLAIN_ATTR = 0 };

struct node {
	bool used;
	int parent; /* index; the root of a file system is its own parent */
	int fs;
	char name[64];
	uint32_t uid;
	uint16_t mode; /* with the type */
	uint64_t ino;
	char link[80];
};

struct system {
	bool used;
	char type[16];
	char source[80];
	uint32_t dev_major;
	uint32_t dev_minor;
	bool ro;
	uint64_t blocks;
	uint64_t inodes;
	int root;
};

struct mount {
	bool used;
	bool attached;
	bool shared;
	bool busy;
	uint64_t id;
	int fs;
	int at_mount;
	int at_node;
	uint64_t attr;
};

struct position {
	int mount;
	int node;
};

enum fd_kind { FD_FREE, FD_PATH, FD_MOUNT, FD_CONTEXT };

struct descriptor {
	enum fd_kind kind;
	struct position at; /* FD_PATH */
	int mount;	    /* FD_MOUNT */
	int fs;		    /* FD_CONTEXT: being made, or -1 */
	bool created;
};

static struct {
	struct node nodes[NODES];
	struct system systems[SYSTEMS];
	struct mount mounts[MOUNTS];
	struct descriptor fds[FDS];
	struct position base[5]; /* root, stage, publish, dev, sysfs */
	struct position cwd;
	uint64_t next_mount_id;
	uint64_t next_ino;
	uint32_t next_anonymous;
	char log[LOG];
	size_t log_len;
	char table[LOG];
	size_t table_len;
	char options[1024];
	uint32_t rdev_major;
	uint32_t rdev_minor;
	bool no_excl;
	bool lock_held;
	bool log_full;
	bool log_short;
	bool superblock_elsewhere;
	bool private_has_no_effect;
	const char *race_path;
	uint32_t race_major;
	struct flock locks[8];
	size_t n_locks;
} k;

static struct {
	enum fake_fault fault;
	int at;
	int err;
	int calls;
	bool fired;
} f;

jmp_buf fake_killed;

/* Faults */

void fake_fault(enum fake_fault fault, int at_call, int sys_errno)
{
	f.fault = fault;
	f.at = at_call;
	f.err = sys_errno;
	f.calls = 0;
	f.fired = false;
}

bool fake_fault_fired(void)
{
	return f.fired;
}

/* 0 to go on, else what the call returns. */
static int enter(void)
{
	f.calls++;
	if (f.fault == FAKE_NO_FAULT || f.calls != f.at)
		return 0;
	f.fired = true;
	if (f.fault == FAKE_KILL_BEFORE)
		longjmp(fake_killed, 1);
	return f.fault == FAKE_FAIL ? -f.err : 0;
}

static long leave(long r)
{
	if (f.fault == FAKE_KILL_AFTER && f.calls == f.at)
		longjmp(fake_killed, 1);
	return r;
}

#define CALL(type, expression)                          \
	do {                                            \
		int failed_ = enter();                  \
		if (failed_ < 0)                        \
			return (type)failed_;           \
		return (type)leave((long)(expression)); \
	} while (0)

/* Tree */

static int new_node(int parent, int fs, const char *name, uint32_t uid, uint16_t mode)
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

static int find_node(int parent, const char *name)
{
	for (int i = 0; i < NODES; i++)
		if (k.nodes[i].used && k.nodes[i].parent == parent && i != parent &&
		    str_eq(k.nodes[i].name, name))
			return i;
	return -1;
}

static int new_system(const char *type, const char *source, uint32_t dev_major, uint32_t dev_minor)
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

static int new_mount(int fs, uint64_t attr)
{
	for (int i = 0; i < MOUNTS; i++) {
		if (k.mounts[i].used)
			continue;
		k.mounts[i] = (struct mount){.used = true, .id = k.next_mount_id++, .fs = fs, .attr = attr};
		return i;
	}
	fail_msg("the model is out of mounts");
	return -1;
}

static int mount_at(struct position at)
{
	int best = -1;

	for (int i = 0; i < MOUNTS; i++)
		if (k.mounts[i].used && k.mounts[i].attached && i != at.mount &&
		    k.mounts[i].at_mount == at.mount && k.mounts[i].at_node == at.node &&
		    (best < 0 || k.mounts[i].id > k.mounts[best].id))
			best = i;
	return best;
}

static struct position root_of(int mount)
{
	return (struct position){.mount = mount, .node = k.systems[k.mounts[mount].fs].root};
}

static struct position top(struct position at)
{
	int mount;

	while ((mount = mount_at(at)) >= 0)
		at = root_of(mount);
	return at;
}

/* The file system goes with its last mount or context. */
static void drop_unused(void)
{
	for (int i = 0; i < MOUNTS; i++) {
		bool held = k.mounts[i].attached;

		for (int j = 0; j < FDS; j++)
			held |= k.fds[j].kind == FD_MOUNT && k.fds[j].mount == i;
		if (!held)
			k.mounts[i].used = false;
	}
	for (int i = 0; i < SYSTEMS; i++) {
		bool held = false;

		for (int j = 0; j < MOUNTS; j++)
			held |= k.mounts[j].used && k.mounts[j].fs == i;
		for (int j = 0; j < FDS; j++)
			held |= k.fds[j].kind == FD_CONTEXT && k.fds[j].fs == i;
		if (!held && k.systems[i].used) {
			k.systems[i].used = false;
			k.nodes[k.systems[i].root].used = false;
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

	if (fd >= FAKE_ROOT_FD && fd <= FAKE_SYSFS_FD)
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

static int do_openat(int dir_fd, const char *name, int flags)
{
	struct position at = position_of(dir_fd);
	int node;

	assert_true(flags == (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) ||
		    flags == (O_PATH | O_NOFOLLOW | O_CLOEXEC));
	assert_is_component(name);
	if (!str_eq(name, ".")) {
		node = find_node(at.node, name);
		if (node < 0)
			return -ENOENT;
		if ((flags & O_DIRECTORY) != 0 && !S_ISDIR(k.nodes[node].mode))
			return -ENOTDIR;
		at = top((struct position){.mount = at.mount, .node = node});
	}
	return new_fd((struct descriptor){.kind = FD_PATH, .at = at, .fs = -1});
}

static int do_statx(int fd, const char *name, int flags, struct statx *ret)
{
	struct position at = position_of(fd);
	const struct node *node = &k.nodes[at.node];
	const struct system *fs = &k.systems[node->fs];

	assert_string_equal(name, "");
	assert_int_not_equal(flags & AT_EMPTY_PATH, 0);
	*ret = (struct statx){.stx_mask = STATX_TYPE | STATX_MODE | STATX_UID | STATX_INO | STATX_MNT_ID,
			      .stx_mode = node->mode,
			      .stx_uid = node->uid,
			      .stx_ino = node->ino,
			      .stx_dev_major = fs->dev_major,
			      .stx_dev_minor = fs->dev_minor,
			      .stx_mnt_id = k.mounts[at.mount].id,
			      .stx_attributes_mask = STATX_ATTR_MOUNT_ROOT};
	if (at.node == fs->root)
		ret->stx_attributes = STATX_ATTR_MOUNT_ROOT;
	if (S_ISBLK(node->mode)) {
		ret->stx_rdev_major = k.rdev_major;
		ret->stx_rdev_minor = k.rdev_minor;
	}
	return 0;
}

static int do_mkdirat(int dir_fd, const char *name, mode_t mode)
{
	struct position at = position_of(dir_fd);

	assert_is_component(name);
	assert_int_equal(mode, 0755);
	if (find_node(at.node, name) >= 0)
		return -EEXIST;
	(void)new_node(at.node, k.nodes[at.node].fs, name, FIXTURE_HELPER_UID, S_IFDIR | 0755);
	return 0;
}

static int do_rmdirat(int dir_fd, const char *name)
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

static int do_readlinkat(int dir_fd, const char *name, char *buf, size_t size)
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

static int do_fstat(int fd, struct stat *ret)
{
	*ret = (struct stat){.st_size = (off_t)k.log_len};
	if (fd != FAKE_LOG_READ_FD) {
		ret->st_uid = k.nodes[position_of(fd).node].uid;
		ret->st_mode = k.nodes[position_of(fd).node].mode;
	}
	return 0;
}

/* /sys/fs/TYPE/DEVICE exists as long as the superblock. */
static int do_fstatat(int dir_fd, const char *name, struct stat *ret, int flags)
{
	char here[128];

	assert_int_equal(dir_fd, FAKE_SYSFS_FD);
	assert_int_equal(flags, AT_SYMLINK_NOFOLLOW);
	*ret = (struct stat){.st_mode = S_IFDIR};
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

static int do_fstatfs(int fd, struct statfs *ret)
{
	struct position at = position_of(fd);
	const struct system *fs = &k.systems[k.nodes[at.node].fs];
	uint64_t attr = k.mounts[at.mount].attr;
	int kind = fs_kind_find(fs->type);

	*ret = (struct statfs){.f_type = kind < 0 ? 0x1234 : (__fsword_t)fs_types[kind].magic,
			       .f_blocks = fs->blocks,
			       .f_files = fs->inodes};
	ret->f_flags |= (attr & SYS_MOUNT_ATTR_RDONLY) != 0 || fs->ro ? ST_RDONLY : 0;
	ret->f_flags |= (attr & SYS_MOUNT_ATTR_NOSUID) != 0 ? ST_NOSUID : 0;
	ret->f_flags |= (attr & SYS_MOUNT_ATTR_NODEV) != 0 ? ST_NODEV : 0;
	ret->f_flags |= (attr & SYS_MOUNT_ATTR_NOEXEC) != 0 ? ST_NOEXEC : 0;
	ret->f_flags |= (attr & SYS_MOUNT_ATTR_NOSYMFOLLOW) != 0 ? 0x2000 : 0;
	return 0;
}

static int do_fchdir(int fd)
{
	k.cwd = position_of(fd);
	return 0;
}

static int do_fsopen(const char *type, unsigned int flags)
{
	int kind = fs_kind_find(type);

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

static int create(struct descriptor *context, bool exclusive)
{
	const struct fs_type *type = &fs_types[context->mount];
	bool block = type->class == MH_CLASS_BLOCK;
	char source[80] = "";
	char number[32] = "0";
	struct system *fs;

	assert_true(option("source", source, sizeof(source)));
	assert_int_equal(exclusive, block && !k.no_excl);
	if (type->forced_key)
		assert_non_null(strstr(k.options, "errors=remount-ro;"));
	if (block && k.superblock_elsewhere)
		return -EBUSY;
	context->fs = -1;
	for (int i = 0; i < SYSTEMS && block; i++)
		if (k.systems[i].used && k.systems[i].dev_major == k.rdev_major &&
		    k.systems[i].dev_minor == k.rdev_minor)
			context->fs = i;
	if (context->fs >= 0) {
		context->created = true;
		return exclusive ? -EBUSY : 0; /* shared silently, with the options it had */
	}
	context->fs = block ? new_system(type->name, source, k.race_major ? k.race_major : k.rdev_major,
					 k.rdev_minor)
			    : new_system(type->name, source, 0, k.next_anonymous++);
	fs = &k.systems[context->fs];
	fs->ro = strstr(k.options, ";ro;") != NULL || type->always_read_only;
	if (!block) {
		assert_true(option("size", number, sizeof(number)));
		fs->blocks = strtoull(number, NULL, 10) / 4096;
		assert_true(option("nr_inodes", number, sizeof(number)));
		fs->inodes = strtoull(number, NULL, 10);
	}
	context->created = true;
	return 0;
}

static int do_fsconfig(int fd, unsigned int cmd, const char *key, const void *value, int aux)
{
	struct descriptor *context = get_fd(fd);

	assert_int_equal(context->kind, FD_CONTEXT);
	assert_int_equal(aux, 0);
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
		return create(context, true);
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

static int do_fsmount(int fd, unsigned int flags, unsigned int attributes)
{
	const unsigned int floor = SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV | SYS_MOUNT_ATTR_NOEXEC |
				   SYS_MOUNT_ATTR_NOSYMFOLLOW;
	struct descriptor *context = get_fd(fd);

	assert_true(context->created);
	run_race();
	assert_int_equal(flags, SYS_FSMOUNT_CLOEXEC);
	assert_int_equal(attributes & floor, floor);
	return new_fd(
		(struct descriptor){.kind = FD_MOUNT, .mount = new_mount(context->fs, attributes), .fs = -1});
}

static int do_open_tree(int fd, const char *path, unsigned int flags)
{
	struct position at = position_of(fd);
	int mount;

	assert_string_equal(path, "");
	assert_int_equal(flags, SYS_OPEN_TREE_CLONE | O_CLOEXEC | AT_EMPTY_PATH);
	assert_int_equal(at.node, k.systems[k.nodes[at.node].fs].root);
	run_race();
	mount = new_mount(k.nodes[at.node].fs, k.mounts[at.mount].attr);
	k.mounts[mount].shared = k.mounts[at.mount].shared;
	return new_fd((struct descriptor){.kind = FD_MOUNT, .mount = mount, .fs = -1});
}

static int do_move_mount(int from_fd, const char *from, int to_fd, const char *to, unsigned int flags)
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
	mount->attached = true;
	mount->at_mount = at.mount;
	mount->at_node = at.node;
	mount->shared |= k.mounts[at.mount].shared;
	return 0;
}

static int do_mount_setattr(int fd, const char *path, unsigned int flags, const struct sys_mount_attr *attr)
{
	struct position at = position_of(fd);
	struct mount *mount = &k.mounts[at.mount];

	assert_string_equal(path, "");
	assert_int_equal(flags, AT_EMPTY_PATH);
	assert_int_equal(
		attr->attr_clr & (SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV | SYS_MOUNT_ATTR_RDONLY), 0);
	assert_int_equal(attr->propagation, MS_PRIVATE);
	assert_int_equal(at.node, k.systems[mount->fs].root);
	if (mount->attached)
		assert_int_equal(attr->attr_set | attr->attr_clr, 0); /* flags only while nobody can see it */
	mount->attr = (mount->attr & ~attr->attr_clr) | attr->attr_set;
	if (!mount->attached || !k.private_has_no_effect)
		mount->shared = false;
	return 0;
}

static int do_umount2(const char *name, int flags)
{
	int node;
	int mount;
	bool busy;

	assert_is_component(name);
	assert_true(flags == SYS_UMOUNT_NOFOLLOW || flags == (SYS_UMOUNT_NOFOLLOW | SYS_UMOUNT_DETACH));
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
	k.mounts[mount].attached = false;
	drop_unused();
	return 0;
}

static long do_write(int fd, const void *bytes, size_t n)
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

static size_t path_of(struct position at, char *ret, size_t size)
{
	char parent[512] = "";

	if (at.node == k.systems[k.nodes[at.node].fs].root) {
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

static void make_table(void)
{
	k.table_len = 0;
	for (int i = 0; i < MOUNTS; i++) {
		const struct mount *m = &k.mounts[i];
		const struct system *fs = &k.systems[m->fs];
		char point[512];

		if (!m->used || !m->attached)
			continue;
		(void)path_of(root_of(i), point, sizeof(point));
		k.table_len += (size_t)str_format(
			k.table + k.table_len, sizeof(k.table) - k.table_len,
			"%llu %llu %u:%u / %s %s%s %s- %s %s %s,size=%lluk\n", (unsigned long long)m->id,
			(unsigned long long)k.mounts[m->at_mount].id, fs->dev_major, fs->dev_minor,
			point[0] != '\0' ? point : "/", (m->attr & SYS_MOUNT_ATTR_RDONLY) != 0 ? "ro" : "rw",
			(m->attr & SYS_MOUNT_ATTR_NOEXEC) != 0 ? ",noexec" : "", m->shared ? "shared:1 " : "",
			fs->type, fs->source, fs->ro ? "ro" : "rw", (unsigned long long)fs->blocks * 4);
	}
}

static long do_pread(int fd, void *buf, size_t n, off_t offset)
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

static int do_ofd_lock(int fd, int cmd, const struct flock *lock)
{
	assert_true(fd == FAKE_STATE_FD || fd == FAKE_LOG_FD);
	if (cmd == F_OFD_SETLK && k.lock_held)
		return -EAGAIN;
	if (fd == FAKE_STATE_FD) {
		assert_true(k.n_locks < ARRAY_SIZE(k.locks));
		k.locks[k.n_locks++] = *lock;
	}
	return 0;
}

/* The kernel never fails to give a lock back. A length of 0 reaches to the end. */
static void do_ofd_unlock(int fd, const struct flock *lock)
{
	size_t kept = 0;

	for (size_t i = 0; i < k.n_locks && fd == FAKE_STATE_FD; i++)
		if (k.locks[i].l_start < lock->l_start ||
		    (lock->l_len != 0 && k.locks[i].l_start >= lock->l_start + lock->l_len))
			k.locks[kept++] = k.locks[i];
	if (fd == FAKE_STATE_FD)
		k.n_locks = kept;
}

/* Seam. The linker sends the calls of the code under test here. */

int __wrap_sys_openat(int dir_fd, const char *name, int flags);
int __wrap_sys_statx(int fd, const char *name, int flags, unsigned int mask, struct statx *ret);
int __wrap_sys_mkdirat(int dir_fd, const char *name, mode_t mode);
int __wrap_sys_rmdirat(int dir_fd, const char *name);
int __wrap_sys_readlinkat(int dir_fd, const char *name, char *buf, size_t size);
int __wrap_sys_fstat(int fd, struct stat *ret);
int __wrap_sys_fstatat(int dir_fd, const char *name, struct stat *ret, int flags);
int __wrap_sys_fstatfs(int fd, struct statfs *ret);
int __wrap_sys_fchdir(int fd);
int __wrap_sys_fsopen(const char *type, unsigned int flags);
int __wrap_sys_fsconfig(int fd, unsigned int cmd, const char *key, const void *value, int aux);
int __wrap_sys_fsmount(int fd, unsigned int flags, unsigned int attributes);
int __wrap_sys_open_tree(int fd, const char *path, unsigned int flags);
int __wrap_sys_move_mount(int from_fd, const char *from, int to_fd, const char *to, unsigned int flags);
int __wrap_sys_mount_setattr(int fd, const char *path, unsigned int flags, const struct sys_mount_attr *attr);
int __wrap_sys_umount2(const char *name, int flags);
ssize_t __wrap_sys_write(int fd, const void *bytes, size_t n);
ssize_t __wrap_sys_pread(int fd, void *buf, size_t n, off_t offset);
int __wrap_sys_fdatasync(int fd);
int __wrap_sys_ofd_lock(int fd, int cmd, struct flock *lock);
int __wrap_close(int fd);
int __real_close(int fd);
int64_t __wrap_clock_realtime_ms(void);
uint64_t __wrap_clock_monotonic_us(void);

int __wrap_sys_openat(int dir_fd, const char *name, int flags)
{
	CALL(int, do_openat(dir_fd, name, flags));
}

int __wrap_sys_statx(int fd, const char *name, int flags, unsigned int mask, struct statx *ret)
{
	(void)mask;
	CALL(int, do_statx(fd, name, flags, ret));
}

int __wrap_sys_mkdirat(int dir_fd, const char *name, mode_t mode)
{
	CALL(int, do_mkdirat(dir_fd, name, mode));
}

int __wrap_sys_rmdirat(int dir_fd, const char *name)
{
	CALL(int, do_rmdirat(dir_fd, name));
}

int __wrap_sys_readlinkat(int dir_fd, const char *name, char *buf, size_t size)
{
	CALL(int, do_readlinkat(dir_fd, name, buf, size));
}

int __wrap_sys_fstat(int fd, struct stat *ret)
{
	CALL(int, do_fstat(fd, ret));
}

int __wrap_sys_fstatat(int dir_fd, const char *name, struct stat *ret, int flags)
{
	CALL(int, do_fstatat(dir_fd, name, ret, flags));
}

int __wrap_sys_fstatfs(int fd, struct statfs *ret)
{
	CALL(int, do_fstatfs(fd, ret));
}

int __wrap_sys_fchdir(int fd)
{
	CALL(int, do_fchdir(fd));
}

int __wrap_sys_fsopen(const char *type, unsigned int flags)
{
	CALL(int, do_fsopen(type, flags));
}

int __wrap_sys_fsconfig(int fd, unsigned int cmd, const char *key, const void *value, int aux)
{
	CALL(int, do_fsconfig(fd, cmd, key, value, aux));
}

int __wrap_sys_fsmount(int fd, unsigned int flags, unsigned int attributes)
{
	CALL(int, do_fsmount(fd, flags, attributes));
}

int __wrap_sys_open_tree(int fd, const char *path, unsigned int flags)
{
	CALL(int, do_open_tree(fd, path, flags));
}

int __wrap_sys_move_mount(int from_fd, const char *from, int to_fd, const char *to, unsigned int flags)
{
	CALL(int, do_move_mount(from_fd, from, to_fd, to, flags));
}

int __wrap_sys_mount_setattr(int fd, const char *path, unsigned int flags, const struct sys_mount_attr *attr)
{
	CALL(int, do_mount_setattr(fd, path, flags, attr));
}

int __wrap_sys_umount2(const char *name, int flags)
{
	CALL(int, do_umount2(name, flags));
}

ssize_t __wrap_sys_write(int fd, const void *bytes, size_t n)
{
	CALL(ssize_t, do_write(fd, bytes, n));
}

ssize_t __wrap_sys_pread(int fd, void *buf, size_t n, off_t offset)
{
	CALL(ssize_t, do_pread(fd, buf, n, offset));
}

int __wrap_sys_fdatasync(int fd)
{
	assert_int_equal(fd, FAKE_LOG_FD);
	CALL(int, 0);
}

int __wrap_sys_ofd_lock(int fd, int cmd, struct flock *lock)
{
	if (lock->l_type == F_UNLCK) {
		do_ofd_unlock(fd, lock);
		return 0;
	}
	CALL(int, do_ofd_lock(fd, cmd, lock));
}

int __wrap_close(int fd)
{
	if (fd < FAKE_ROOT_FD)
		return __real_close(fd);
	get_fd(fd)->kind = FD_FREE;
	drop_unused();
	return 0;
}

int64_t __wrap_clock_realtime_ms(void)
{
	return FIXTURE_NOW_MS;
}

uint64_t __wrap_clock_monotonic_us(void)
{
	static uint64_t now;

	return now += 1000000; /* the rate never interferes */
}

/* Building and looking */

static int make_path(const char *path, uint32_t uid, uint16_t mode)
{
	char copy[512];
	char *part;
	char *rest = copy;
	int node = k.systems[0].root;

	(void)str_copy(copy, sizeof(copy), path + 1);
	while ((part = strsep(&rest, "/"))) {
		int next = find_node(node, part);

		node = next >= 0 ? next : new_node(node, 0, part, uid, mode);
	}
	return node;
}

/* Where the path leads, through the mounts on the way but not through one on its end. */
static bool walk(const char *path, struct position *ret)
{
	char copy[512];
	char *part;
	char *rest = copy;
	struct position at = root_of(0);

	(void)str_copy(copy, sizeof(copy), path + 1);
	while ((part = strsep(&rest, "/"))) {
		struct position here = top(at);
		int node = find_node(here.node, part);

		if (node < 0)
			return false;
		at = (struct position){.mount = here.mount, .node = node};
	}
	*ret = at;
	return true;
}

static struct mount *mount_on(const char *path)
{
	struct position at;
	int mount;

	if (!walk(path, &at))
		return NULL;
	mount = mount_at(at);
	return mount < 0 ? NULL : &k.mounts[mount];
}

void fake_kernel_reset(void)
{
	static const char *const bases[] = {"", "/srv/stage", "/srv/publish", "/dev", "/sys/fs"};
	int node;

	memset(&k, 0, sizeof(k));
	memset(&f, 0, sizeof(f));
	k.next_mount_id = 20;
	k.next_ino = 1000;
	k.next_anonymous = 40;
	(void)new_system("tmpfs", "root", 0, 30);
	(void)new_mount(0, PLAIN_ATTR);
	k.mounts[0].attached = true;
	k.mounts[0].shared = true;
	(void)make_path("/srv", 0, S_IFDIR | 0755);
	(void)make_path("/srv/stage", FIXTURE_HELPER_UID, S_IFDIR | 0700);
	(void)make_path("/srv/publish", FIXTURE_HELPER_UID, S_IFDIR | 0711);
	(void)make_path("/dev/disk/by-id", 0, S_IFDIR | 0755);
	(void)make_path("/sys/fs", 0, S_IFDIR | 0755);
	(void)make_path("/mnt", 0, S_IFDIR | 0755);
	node = make_path("/dev/disk/by-id/" FIXTURE_BY_ID, 0, S_IFLNK | 0777);
	(void)str_copy(k.nodes[node].link, sizeof(k.nodes[node].link), "../../loop3");
	(void)make_path("/dev/loop3", 0, S_IFBLK | 0660);
	k.rdev_major = FIXTURE_MAJOR;
	k.rdev_minor = FIXTURE_MINOR;
	k.base[0] = root_of(0);
	for (size_t i = 1; i < ARRAY_SIZE(bases); i++)
		assert_true(walk(bases[i], &k.base[i]));
	k.cwd = k.base[0];
}

void fake_kernel_open(struct helper *h)
{
	h->root_fd = FAKE_ROOT_FD;
	h->stage = (struct tree){.fd = FAKE_STAGE_FD, .mount_id = 20, .path = "/srv/stage"};
	h->publish = (struct tree){.fd = FAKE_PUBLISH_FD, .mount_id = 20, .path = "/srv/publish"};
	h->dev_fd = FAKE_DEV_FD;
	h->sysfs_fd = FAKE_SYSFS_FD;
	h->state_fd = FAKE_STATE_FD;
	h->audit_fd = -EBADF;
	h->mountinfo.fd = FAKE_MOUNTINFO_FD;
	h->trail.fd = FAKE_LOG_FD;
	h->trail.read_fd = FAKE_LOG_READ_FD;
}

void fake_process_died(void)
{
	for (int i = 0; i < FDS; i++)
		k.fds[i].kind = FD_FREE;
	k.cwd = k.base[0];
	k.n_locks = 0;
	drop_unused();
	fake_fault(FAKE_NO_FAULT, 0, 0);
}

int fake_open_descriptors(void)
{
	int n = 0;

	for (int i = 0; i < FDS; i++)
		n += k.fds[i].kind != FD_FREE;
	return n;
}

int fake_locks_held(void)
{
	return (int)k.n_locks;
}

bool fake_cwd_is_root(void)
{
	return k.cwd.mount == k.base[0].mount && k.cwd.node == k.base[0].node;
}

static int compare_lines(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

const char *fake_summary(void)
{
	static char lines[128][640];
	static char text[128 * 640];
	const char *sorted[128];
	size_t n = 0;
	size_t used = 0;

	for (int i = 0; i < NODES; i++) {
		char path[512];

		if (!k.nodes[i].used || k.nodes[i].fs != 0)
			continue;
		(void)path_of((struct position){.mount = 0, .node = i}, path, sizeof(path));
		if (str_starts_with(path, "/srv/"))
			(void)str_format(lines[n++], sizeof(lines[0]), "dir %s\n", path);
	}
	for (int i = 1; i < MOUNTS; i++) {
		char path[512];

		if (!k.mounts[i].used || !k.mounts[i].attached)
			continue;
		(void)path_of(root_of(i), path, sizeof(path));
		(void)str_format(lines[n++], sizeof(lines[0]), "mount %s %s %llx%s\n", path,
				 k.systems[k.mounts[i].fs].source, (unsigned long long)k.mounts[i].attr,
				 k.mounts[i].shared ? " shared" : "");
	}
	for (size_t i = 0; i < n; i++)
		sorted[i] = lines[i];
	qsort(sorted, n, sizeof(sorted[0]), compare_lines);
	text[0] = '\0';
	for (size_t i = 0; i < n; i++)
		used += (size_t)str_format(text + used, sizeof(text) - used, "%s", sorted[i]);
	return text;
}

const char *fake_log(void)
{
	return k.log;
}

const char *fake_options(void)
{
	return k.options;
}

void fake_no_create_excl(void)
{
	k.no_excl = true;
}

void fake_lock_held_elsewhere(bool held)
{
	k.lock_held = held;
}

void fake_log_full(bool full)
{
	k.log_full = full;
}

void fake_superblock_elsewhere(bool alive)
{
	k.superblock_elsewhere = alive;
}

void fake_make_directory(const char *path, uint32_t uid, uint16_t mode)
{
	(void)make_path(path, uid, (uint16_t)(S_IFDIR | mode));
}

static void attach_system(const char *path, int fs, uint64_t attr)
{
	struct position at;
	int mount = new_mount(fs, attr);

	assert_true(walk(path, &at));
	at = top(at);
	k.mounts[mount].attached = true;
	k.mounts[mount].at_mount = at.mount;
	k.mounts[mount].at_node = at.node;
}

void fake_mount_other(const char *path)
{
	attach_system(path, new_system("tmpfs", "other", 0, k.next_anonymous++),
		      SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV);
}

void fake_mount_inside(const char *path)
{
	int within = (int)(mount_on(path) - k.mounts);
	int mount = new_mount(new_system("tmpfs", "inside", 0, k.next_anonymous++), PLAIN_ATTR);

	k.mounts[mount].attached = true;
	k.mounts[mount].at_mount = within;
	k.mounts[mount].at_node =
		new_node(root_of(within).node, k.mounts[within].fs, "sub", 0, S_IFDIR | 0755);
}

void fake_mount_device_elsewhere(void)
{
	attach_system("/mnt", new_system("ext4", "/dev/loop3", k.rdev_major, k.rdev_minor), PLAIN_ATTR);
}

void fake_set_busy(const char *path, bool busy)
{
	assert_non_null(mount_on(path));
	mount_on(path)->busy = busy;
}

void fake_set_shared(const char *path)
{
	assert_non_null(mount_on(path));
	mount_on(path)->shared = true;
}

void fake_set_link(const char *target)
{
	int node = make_path("/dev/disk/by-id/" FIXTURE_BY_ID, 0, S_IFLNK);

	(void)str_copy(k.nodes[node].link, sizeof(k.nodes[node].link), target);
}

void fake_set_device(uint32_t dev_major, uint32_t dev_minor, bool is_block)
{
	k.rdev_major = dev_major;
	k.rdev_minor = dev_minor;
	k.nodes[make_path("/dev/loop3", 0, 0)].mode = is_block ? S_IFBLK | 0660 : S_IFREG | 0660;
}

bool fake_is_mount(const char *path)
{
	return mount_on(path) != NULL;
}

uint64_t fake_flags(const char *path)
{
	assert_non_null(mount_on(path));
	return mount_on(path)->attr;
}

void fake_mount_again(const char *path)
{
	const struct mount *mount = mount_on(path);

	assert_non_null(mount);
	attach_system(path, mount->fs, mount->attr);
}

void fake_race_mount(const char *path)
{
	k.race_path = path;
}

void fake_race_device(uint32_t dev_major)
{
	k.race_major = dev_major;
}

void fake_private_has_no_effect(void)
{
	k.private_has_no_effect = true;
}

void fake_log_short(bool cut)
{
	k.log_short = cut;
}

void fake_set_flags(const char *path, uint64_t attr)
{
	assert_non_null(mount_on(path));
	mount_on(path)->attr = attr;
}
