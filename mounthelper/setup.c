#include "setup.h"

#include "locks.h"
#include "mounts.h"
#include "policy_file.h"
#include "trees.h"

#include "base/cleanup.h"
#include "base/path.h"
#include "base/str.h"
#include "base/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { STAGE_MODE = 0700, PUBLISH_MODE = 0711 };

/* Local file systems whose directories only the local kernel changes. */
static bool is_local(uint64_t magic)
{
	static const uint64_t local[] = {EXT4_SUPER_MAGIC, 0x58465342 /* xfs */, BTRFS_SUPER_MAGIC,
					 TMPFS_MAGIC};

	for (size_t i = 0; i < ARRAY_SIZE(local); i++)
		if (local[i] == magic)
			return true;
	return false;
}

static enum status check_tree(struct helper *h, const struct tree *tree, const struct place *place,
			      mode_t mode, struct error *err)
{
	struct mount_facts facts = {.peer_group = 0};
	struct statfs fs = {.f_type = 0};
	int r = sys_fstatfs(tree->fd, &fs);

	if (r == 0)
		r = mount_facts(h, place, &facts);
	if (r < 0)
		return error_set(err, STATUS_INTERNAL, r, "examine %s", tree->path);
	if (place->uid != h->agent->helper_uid || (place->mode & 07777) != mode)
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"%s belongs to uid %u with mode %04o, it must be uid %u with mode %04o: chown %u %s; "
			"chmod %04o %s",
			tree->path, place->uid, (unsigned int)place->mode & 07777, h->agent->helper_uid,
			(unsigned int)mode, h->agent->helper_uid, tree->path, (unsigned int)mode, tree->path);
	if (!is_local((uint64_t)fs.f_type))
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"%s is on a file system of type 0x%llx; it must be on ext4, xfs, btrfs or tmpfs",
			tree->path, (unsigned long long)fs.f_type);
	/* below a private mount an unmount would leave copies behind in the namespaces of tasks */
	if (facts.peer_group == 0)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "the mount that holds %s is not shared: mount --make-shared it", tree->path);
	return STATUS_OK;
}

static enum status open_tree_base(struct helper *h, const char *path, mode_t mode, struct tree *tree,
				  struct error *err)
{
	struct place place = PLACE_INIT;
	enum status status;
	int r;

	tree->path = path;
	tree->fd = path_open_trusted(h->root_fd, path);
	if (tree->fd < 0)
		return error_set(
			err, STATUS_FAILED_PRECONDITION, tree->fd,
			"open %s: it must be a directory, and every directory above it must belong to root "
			"and be writable by root only",
			path);
	r = place_of_fd(tree->fd, &place);
	if (r < 0)
		return error_set(err, STATUS_INTERNAL, r, "examine %s", path);
	status = check_tree(h, tree, &place, mode, err);
	tree->mount_id = place.mount_id;
	return status;
}

/* devtmpfs reports the f_type of tmpfs: only the table tells them apart. */
static int visit_dev(const struct mount_entry *entry, void *userdata)
{
	char(*type)[16] = userdata;

	if (str_eq(entry->point, "/dev"))
		(void)str_copy(*type, sizeof(*type), entry->type);
	return 0;
}

static enum status open_dev(struct helper *h, struct error *err)
{
	struct place place = PLACE_INIT;
	char type[16] = "";
	bool fit;
	int r;

	h->dev_fd = path_open_trusted(h->root_fd, "/dev");
	r = h->dev_fd < 0 ? h->dev_fd : place_of_fd(h->dev_fd, &place);
	if (r == 0)
		r = mountinfo_each(&h->mountinfo, visit_dev, &type);
	if (r < 0)
		return error_set(err, STATUS_FAILED_PRECONDITION, r, "open /dev");
	fit = str_eq(type, "devtmpfs") || (h->agent->container && str_eq(type, "tmpfs"));
	if (!fit || !place.is_mount_root || place.uid != 0 || (place.mode & 022) != 0)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "/dev is not a devtmpfs of root (type %s, uid %u, mode %04o)", type,
				 place.uid, (unsigned int)place.mode & 07777);
	return STATUS_OK;
}

static enum status open_sysfs(struct helper *h, struct error *err)
{
	struct statfs fs = {.f_type = 0};
	int r;

	h->sysfs_fd = path_open_trusted(h->root_fd, "/sys/fs");
	r = h->sysfs_fd < 0 ? h->sysfs_fd : sys_fstatfs(h->sysfs_fd, &fs);
	if (r < 0)
		return error_set(err, STATUS_FAILED_PRECONDITION, r, "open /sys/fs");
	if (fs.f_type != SYSFS_MAGIC)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0, "/sys/fs is not on sysfs");
	h->sysfs_block_fd = path_open_trusted(h->root_fd, "/sys/dev/block");
	if (h->sysfs_block_fd < 0)
		return error_set(err, STATUS_FAILED_PRECONDITION, h->sysfs_block_fd, "open /sys/dev/block");
	return STATUS_OK;
}

enum status setup_trees(struct helper *h, struct error *err)
{
	enum status status;

	h->root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (h->root_fd < 0)
		return error_set(err, STATUS_INTERNAL, errno, "open /");
	status = open_tree_base(h, h->agent->stage_base, STAGE_MODE, &h->stage, err);
	if (status == STATUS_OK)
		status = open_tree_base(h, h->agent->publish_base, PUBLISH_MODE, &h->publish, err);
	if (status == STATUS_OK)
		status = open_dev(h, err);
	return status == STATUS_OK ? open_sysfs(h, err) : status;
}

static enum status open_log(struct helper *h, int host_root_fd, struct error *err)
{
	const char *path = h->agent->log;

	h->trail = (struct trail){.fd = path_open_trusted_file(host_root_fd, path, 0, O_WRONLY | O_APPEND, 0),
				  .read_fd = path_open_trusted_file(host_root_fd, path, 0, O_RDONLY, 0),
				  .cluster = h->agent->cluster,
				  .node = h->agent->node};
	if (h->trail.fd < 0 || h->trail.read_fd < 0)
		return error_set(
			err, STATUS_FAILED_PRECONDITION, h->trail.fd < 0 ? h->trail.fd : h->trail.read_fd,
			"log %s (in the mount namespace of PID 1): it must exist as a regular file of root, "
			"and "
			"every directory above it must belong to root and be writable by root only: install "
			"-m 0600 /dev/null %s",
			path, path);
	return STATUS_OK;
}

static enum status map_state(struct helper *h, const char *path, struct error *err)
{
	void *map;
	int r = lock_table(h->state_fd);

	/* reserve the blocks: a store into a hole of a full disk would kill */
	if (r == 0)
		r = -posix_fallocate(h->state_fd, 0, sizeof(struct state_table));
	if (r < 0)
		return error_set(err, STATUS_INTERNAL, r, "reserve %zu bytes for %s",
				 sizeof(struct state_table), path);
	map = mmap(NULL, sizeof(struct state_table), PROT_READ | PROT_WRITE, MAP_SHARED, h->state_fd, 0);
	if (map == MAP_FAILED)
		return error_set(err, STATUS_INTERNAL, errno, "map %s", path);
	h->state = map;
	state_open(h->state, h->boot_id);
	unlock_table(h->state_fd);
	return STATUS_OK;
}

enum status setup_trail(struct helper *h, int host_root_fd, uint32_t *ret_instance, struct error *err)
{
	char path[MH_PATH_SIZE + 8];
	enum status status = open_log(h, host_root_fd, err);
	int r;

	if (status != STATUS_OK)
		return status;
	(void)str_format(path, sizeof(path), "%s/state", h->agent->lock_dir);
	h->state_fd = path_open_trusted_file(host_root_fd, path, 0, O_RDWR | O_CREAT, 0600);
	if (h->state_fd < 0)
		return error_set(
			err, STATUS_FAILED_PRECONDITION, h->state_fd,
			"open %s (in the mount namespace of PID 1): lock_dir must exist, and it and every "
			"directory above it must belong to root and be writable by root only",
			path);
	r = lock_instance(h->state_fd);
	if (r < 0)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, r,
				 "%d instances already run for agent uid %u; end one", HELPER_INSTANCES,
				 h->agent->uid);
	*ret_instance = (uint32_t)r;
	return map_state(h, path, err);
}

void setup_types(struct helper *h)
{
	for (uint32_t i = 0; i < h->agent->n_profiles; i++) {
		uint32_t kind = h->policy->profiles[h->agent->first_profile + i].kind;
		cleanup_close int fd = sys_fsopen(fs_types[kind].name, SYS_FSOPEN_CLOEXEC);

		h->type_available[kind] = fd >= 0;
	}
}
