/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_model.h"
#include "fixture.h"
#include "trees.h"

#include <sys/mount.h>

static int make_path(const char *path, uint32_t uid, uint16_t mode)
{
	char copy[512], *part, *rest = copy;
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
	char copy[512], *part, *rest = copy;
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

static bool before_6_8;

void fake_kernel_before_6_8(bool old)
{
	before_6_8 = old;
}

bool has_unique_ids(void)
{
	return !before_6_8;
}

void fake_kernel_reset(void)
{
	static const char *const bases[] = {"",	    "/srv/stage", "/srv/publish",
					    "/dev", "/sys/fs",	  "/sys/dev/block"};
	int node;

	memset(&k, 0, sizeof(k));
	fake_sinks_reset();
	fake_clock_step(1000000);
	fake_fault(FAKE_NO_FAULT, 0, 0);
	k.next_mount_id = 20;
	k.next_ino = 1000;
	k.next_anonymous = 40;
	(void)new_system("tmpfs", "root", 0, 30);
	k.next_group = 1;
	(void)new_mount(0, k.systems[0].root, PLAIN_ATTR);
	k.mounts[0].attached = true;
	set_propagation_of(0, MS_SHARED);
	(void)make_path("/srv", 0, S_IFDIR | 0755);
	(void)make_path("/srv/stage", FIXTURE_HELPER_UID, S_IFDIR | 0700);
	(void)make_path("/srv/publish", FIXTURE_HELPER_UID, S_IFDIR | 0711);
	(void)make_path("/dev/disk/by-id", 0, S_IFDIR | 0755);
	(void)make_path("/dev/disk/by-uuid", 0, S_IFDIR | 0755);
	(void)make_path("/sys/fs", 0, S_IFDIR | 0755);
	(void)make_path("/sys/dev/block", 0, S_IFDIR | 0755);
	node = make_path("/sys/dev/block/7:3", 0, S_IFLNK | 0777);
	/* longer than a name may be, as that of a disk behind three expanders */
	(void)str_format(k.nodes[node].link, sizeof(k.nodes[node].link), "../../devices/%0300d/block/loop3",
			 0);
	(void)make_path("/mnt", 0, S_IFDIR | 0755);
	node = make_path("/dev/disk/by-id/" FIXTURE_BY_ID, 0, S_IFLNK | 0777);
	(void)str_copy(k.nodes[node].link, sizeof(k.nodes[node].link), "../../loop3");
	node = make_path("/dev/disk/by-uuid/" FIXTURE_UUID, 0, S_IFLNK | 0777);
	(void)str_copy(k.nodes[node].link, sizeof(k.nodes[node].link), "../../loop3");
	(void)make_path("/dev/loop3", 0, S_IFBLK | 0660);
	k.rdev_major = FIXTURE_MAJOR;
	k.rdev_minor = FIXTURE_MINOR;
	k.base[0] = root_of(0);
	for (size_t i = 1; i < ARRAY_SIZE(bases); i++)
		assert_true(walk(bases[i], &k.base[i]));
	k.cwd = k.base[0];
}

static struct tree tree_at(struct helper *h, const char *path, int fd)
{
	int n = own_find(h, h->root_fd, path, true);

	assert_int_equal(n, 1);
	h->n_own += (uint32_t)n;
	return (struct tree){.fd = fd,
			     .mount_id = k.mounts[0].id + (has_unique_ids() ? UNIQUE_ID : 0),
			     .listed_id = k.mounts[0].id};
}

void fake_kernel_open(struct helper *h)
{
	h->root_fd = FAKE_ROOT_FD;
	h->dev_fd = FAKE_DEV_FD;
	h->sysfs_fd = FAKE_SYSFS_FD;
	h->sysfs_block_fd = FAKE_SYSFS_BLOCK_FD;
	h->procfs_fd = FAKE_PROCFS_FD;
	h->state_fd = FAKE_STATE_FD;
	h->audit_fd = FAKE_AUDIT_FD;
	h->mountinfo.fd = FAKE_MOUNTINFO_FD;
	h->n_own = 0;
	h->stage = tree_at(h, "/srv/stage", FAKE_STAGE_FD);
	h->publish = tree_at(h, "/srv/publish", FAKE_PUBLISH_FD);
	h->trail.fd = FAKE_LOG_FD;
	h->trail.read_fd = FAKE_LOG_READ_FD;
	h->trail.lock_fd = FAKE_STATE_FD;
	h->trail.lock_at = LOCK_TRAIL;
}

void fake_process_died(void)
{
	for (int i = 0; i < FDS; i++)
		k.fds[i].kind = FD_FREE;
	k.cwd = k.base[0];
	k.n_locks = 0;
	k.log_locked = false;
	k.timer_s = 0;
	fake_sinks_process_died();
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
	return (int)k.n_locks + k.log_locked;
}

bool fake_cwd_is_root(void)
{
	return k.cwd.mount == k.base[0].mount && k.cwd.node == k.base[0].node;
}

static int compare_lines(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The first other mount in peer group @group, as " WORDS PATH". */
static void name_member(uint64_t group, int but, const char *words, char *ret, size_t size)
{
	char path[512];

	for (int i = 1; i < MOUNTS; i++) {
		if (!k.mounts[i].used || i == but || k.mounts[i].group != group)
			continue;
		(void)path_of(root_of(i), path, sizeof(path));
		(void)str_format(ret, size, " %s %s", words, path);
		return;
	}
}

/* Group numbers differ from run to run: say with whom. */
static const char *propagation_words(int mount)
{
	static char words[1200];
	const struct mount *m = &k.mounts[mount];
	char peer[560] = "", master[560] = " slave";

	if (m->group != 0)
		name_member(m->group, mount, "peer of", peer, sizeof(peer));
	if (m->master != 0)
		name_member(m->master, mount, "slave of", master, sizeof(master));
	(void)str_format(words, sizeof(words), "%s%s%s", m->group != 0 ? " shared" : "", peer,
			 m->master != 0 ? master : "");
	return words;
}

const char *fake_summary(void)
{
	static char lines[128][640], text[128 * 640];
	const char *sorted[128];
	size_t n = 0, used = 0;

	for (int i = 0; i < NODES; i++) {
		char path[512];

		if (!k.nodes[i].used || k.nodes[i].fs != 0)
			continue;
		(void)path_of((struct position){.mount = 0, .node = i}, path, sizeof(path));
		if (str_starts_with(path, "/srv/") && !str_starts_with(path, "/srv/publish/.published"))
			(void)str_format(lines[n++], sizeof(lines[0]), "dir %s\n", path);
	}
	for (int i = 1; i < MOUNTS; i++) {
		char path[512];

		if (!k.mounts[i].used || !k.mounts[i].attached)
			continue;
		(void)path_of(root_of(i), path, sizeof(path));
		(void)str_format(lines[n++], sizeof(lines[0]), "mount %s %s %llx%s\n", path,
				 k.systems[k.mounts[i].fs].source, (unsigned long long)k.mounts[i].attr,
				 propagation_words(i));
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

void fake_image_unsupported(void)
{
	k.image_unsupported = true;
}

void fake_lock_held_elsewhere(bool held)
{
	k.lock_held = held;
}

int64_t fake_place_of_plugin(void)
{
	int64_t at = k.plugin_lock;

	k.plugin_lock = 0;
	return at;
}

void fake_places_of_plugins_taken(bool taken)
{
	k.places_taken = taken;
}

void fake_policy(const struct statx *is, int r)
{
	k.policy = *is;
	k.policy_errno = r;
}

void fake_log_deleted(bool deleted)
{
	k.log_deleted = deleted;
}

void fake_log_full(bool full)
{
	k.log_full = full;
}

void fake_stop_writes(bool has_stopped, bool shows_options)
{
	k.has_stopped_writes = has_stopped;
	k.has_no_options = !shows_options;
}

void fake_superblock_elsewhere(bool alive)
{
	k.superblock_elsewhere = alive;
}

void fake_journal_is(enum fake_journal journal)
{
	k.journal = journal;
}

void fake_make_directory(const char *path, uint32_t uid, uint16_t mode)
{
	int node = make_path(path, uid, (uint16_t)(S_IFDIR | mode));

	k.nodes[node].uid = uid;
	k.nodes[node].mode = (uint16_t)(S_IFDIR | mode);
}

static void attach_system(const char *path, int fs, int root, uint64_t attr)
{
	struct position at;
	int mount = new_mount(fs, root, attr);

	assert_true(walk(path, &at));
	attach_at(mount, top(at));
}

void fake_mount_other(const char *path)
{
	int fs = new_system("tmpfs", "other", 0, k.next_anonymous++);

	attach_system(path, fs, k.systems[fs].root, SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV);
}

void fake_mount_inside(const char *path)
{
	int within = (int)(mount_on(path) - k.mounts);
	int fs = new_system("tmpfs", "inside", 0, k.next_anonymous++);
	int node = new_node(root_of(within).node, k.mounts[within].fs, "sub", 0, S_IFDIR | 0755);

	attach_at(new_mount(fs, k.systems[fs].root, PLAIN_ATTR),
		  (struct position){.mount = within, .node = node});
}

void fake_mount_device(const char *path)
{
	int fs = new_system("ext4", "/dev/loop3", k.rdev_major, k.rdev_minor);

	attach_system(path, fs, k.systems[fs].root, PLAIN_ATTR);
}

void fake_set_busy(const char *path, bool busy)
{
	assert_non_null(mount_on(path));
	mount_on(path)->busy = busy;
}

void fake_mark_expired(const char *path)
{
	assert_non_null(mount_on(path));
	mount_on(path)->expiring = true;
}

void fake_set_shared(const char *path)
{
	assert_non_null(mount_on(path));
	set_propagation_of((int)(mount_on(path) - k.mounts), MS_SHARED);
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

void fake_unmount(const char *path)
{
	struct mount *mount = NON_NULL(mount_on(path));

	k.mounts[top(root_of((int)(mount - k.mounts))).mount].attached = false;
	drop_unused();
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

uint64_t fake_inodes(const char *path)
{
	assert_non_null(mount_on(path));
	return k.systems[mount_on(path)->fs].inodes;
}

void fake_mount_again(const char *path)
{
	const struct mount *mount = NON_NULL(mount_on(path));

	attach_system(path, mount->fs, mount->root, mount->attr);
}

void fake_race_mount(const char *path)
{
	k.race_path = path;
}

void fake_race_stack(const char *path)
{
	k.stack_path = path;
}

void fake_race_device(uint32_t dev_major)
{
	k.race_major = dev_major;
}

void fake_lose_attributes(uint64_t attr)
{
	k.lost_attributes = attr;
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

void fake_mount_part(const char *path, const char *of, const char *directory)
{
	const struct mount *mount = NON_NULL(str_eq(of, "/") ? &k.mounts[0] : mount_on(of));
	int node;

	node = find_node(mount->root, directory);
	if (node < 0)
		node = new_node(mount->root, mount->fs, directory, 0, S_IFDIR | 0755);
	attach_system(path, mount->fs, node, mount->attr);
}

void fake_mount_foreign(int n)
{
	int fs = new_system("tmpfs", "foreign", 0, k.next_anonymous++);

	for (int i = 0; i < n; i++)
		attach_system("/mnt", fs, k.systems[fs].root, PLAIN_ATTR);
}

unsigned int fake_timer(void)
{
	return k.timer_s;
}

int fake_table_passes(void)
{
	return k.passes;
}

void fake_bind_device(const char *path, const char *type)
{
	int fs = new_system(type, type, 0, k.next_anonymous++);
	int node = make_path("/dev/loop3", 0, S_IFBLK | 0660);

	k.nodes[node].fs = fs;
	attach_system(path, fs, node, PLAIN_ATTR);
}

void fake_make_file(const char *path)
{
	(void)make_path(path, 0, S_IFREG | 0644);
}

const char *fake_propagation(const char *path)
{
	assert_non_null(mount_on(path));
	return propagation_words((int)(mount_on(path) - k.mounts));
}

void fake_set_slave(const char *path)
{
	assert_non_null(mount_on(path));
	mount_on(path)->master = k.next_group++; /* of a group in another namespace */
}

void fake_set_private(const char *path)
{
	assert_non_null(mount_on(path));
	set_propagation_of((int)(mount_on(path) - k.mounts), MS_PRIVATE);
}

void fake_remove(const char *path)
{
	struct position at = {.mount = 0};

	assert_true(walk(path, &at));
	assert_int_equal(mount_at(at), -1);
	k.nodes[at.node].used = false;
}
