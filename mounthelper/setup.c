/* SPDX-License-Identifier: Apache-2.0 */
#include "startup.h"

#include "base/clock.h"
#include "base/names.h"
#include "base/path.h"
#include "base/str.h"
#include "base/sys.h"
#include "privileged/kernel_audit.h"
#include "privileged/peer_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sodium.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SEND_BUFFER = 64 * 1024 };
enum { POLICY_FACTS = STATX_INO | STATX_CTIME | STATX_MNT_ID | SYS_STATX_MNT_ID_UNIQUE };

void setup_peer(struct helper *h)
{
	struct ucred peer = {.uid = 0};

	start_sys(peer_socket_pin(HELPER_SOCKET_FD, SEND_BUFFER, &peer), START_SOCKET, "");
	start_need(h->launch_mode == LAUNCH_SOCKET || peer.uid == h->peer_uid, START_PEER, peer.uid, "");
	h->peer_uid = peer.uid;
	h->peer_pid = peer.pid;
}

void setup_policy(struct helper *h, int root_fd, const char *path, struct policy_file *ret)
{
	cleanup_close int fd =
		start_sys(path_open_trusted_file(root_fd, path, 0, O_RDONLY, 0), START_POLICY, path);
	int r = own_find(h, root_fd, path, true);
	ssize_t n;
	char more;

	start_need(r != -EXDEV, START_CHROOT, 0, "/");
	h->n_own += (uint32_t)start_sys(r, START_POLICY, path);
	start_sys(sys_statx(fd, "", AT_EMPTY_PATH, POLICY_FACTS, &h->policy_file), START_POLICY, path);
	n = start_libc((int)read(fd, ret, sizeof(*ret)), START_POLICY, path);
	start_need(read(fd, &more, 1) == 0 && policy_file_check(ret, (size_t)n), START_POLICY_FORMAT, 0,
		   path);
	h->policy_root_fd = root_fd;
	h->policy_path = path + 1;
	memcpy(h->policy_digest, ret->text_digest, sizeof(h->policy_digest));
	h->agent = policy_agent(&ret->policy, h->peer_uid);
	if (!h->agent)
		start_fail(START_POLICY_AGENT, 0, h->peer_uid, path);
	start_need(h->launch_mode == LAUNCH_SETUID || geteuid() == h->agent->helper_uid, START_HELPER_UID,
		   h->agent->helper_uid, path);
}

int setup_compare_policy(const struct helper *h)
{
	const struct statx *was = &h->policy_file;
	struct statx is;
	int r = sys_statx(h->policy_root_fd, h->policy_path, AT_SYMLINK_NOFOLLOW, POLICY_FACTS, &is);

	/* the time of change is the kernel's, but in an image, which another one may cover */
	if (r == 0 &&
	    (is.stx_mnt_id != was->stx_mnt_id || is.stx_dev_major != was->stx_dev_major ||
	     is.stx_dev_minor != was->stx_dev_minor || is.stx_ino != was->stx_ino ||
	     is.stx_ctime.tv_sec != was->stx_ctime.tv_sec || is.stx_ctime.tv_nsec != was->stx_ctime.tv_nsec))
		r = -ESTALE;
	return r;
}

/* Without it the helper only cleans up: h->trail.fd is negative then. */
static void open_log(struct helper *h, int root_fd)
{
	const char *path = h->agent->log;
	const uint32_t owner = h->agent->helper_uid;
	int flags = 0;

	keyline_words(&h->trail.origin, "cluster", h->agent->cluster, "node", h->agent->node);
	h->trail.sha256 = crypto_hash_sha256;
	h->trail.fd = path_open_trusted_file(root_fd, path, owner, O_WRONLY | O_APPEND, 0);
	h->trail.read_fd = path_open_trusted_file(root_fd, path, owner, O_RDONLY, 0);
	if (h->trail.read_fd < 0)
		close_fdp(&h->trail.fd);
	else
		h->n_own += (uint32_t)start_sys(own_find(h, root_fd, path, true), START_STATE, path);
	h->log_is_append_only =
		ioctl(h->trail.read_fd, FS_IOC_GETFLAGS, &flags) == 0 && (flags & FS_APPEND_FL) != 0;
}

static void open_state(struct helper *h, int root_fd)
{
	const struct agent_policy *agent = h->agent;
	char path[MH_PATH_SIZE + 8];
	int r;

	(void)str_format(path, sizeof(path), "%s/state", agent->lock_dir);
	r = path_open_trusted_file(root_fd, path, agent->helper_uid, O_RDWR | O_CREAT, 0600);
	h->state_fd = start_sys(r, START_STATE, agent->lock_dir);
	h->n_own += (uint32_t)start_sys(own_find(h, root_fd, path, true), START_STATE, agent->lock_dir);
	/* it is for both launch modes; without CAP_CHOWN it stays for launch mode setuid */
	if (h->launch_mode == LAUNCH_SETUID)
		(void)!fchown(h->state_fd, agent->helper_uid, agent->helper_gid);
	r = lock_instance(h->state_fd);
	start_need(r >= 0, START_INSTANCES, HELPER_INSTANCES, "");
	h->instance = (uint32_t)r;
	h->trail.lock_fd = h->state_fd;
	h->trail.lock_at = LOCK_TRAIL;
	start_sys(lock_table(h->state_fd), START_STATE, agent->lock_dir);
	/* reserve the blocks: a store into a hole of a full disk would kill */
	start_sys(-posix_fallocate(h->state_fd, 0, sizeof(*h->state)), START_STATE, agent->lock_dir);
	h->state = mmap(NULL, sizeof(*h->state), PROT_READ | PROT_WRITE, MAP_SHARED, h->state_fd, 0);
	start_need(h->state != MAP_FAILED, START_STATE, 0, agent->lock_dir);
	state_open(h->state, h->boot_id);
	state_set_rates(h->state, agent);
	r = rate_take(&h->state->header.rate[RATE_STARTS], clock_monotonic_us());
	unlock_table(h->state_fd);
	start_need(r, START_START_RATE, agent->starts_per_minute, "");
}

void setup_records(struct helper *h, int root_fd)
{
	assert(h->agent && root_fd >= 0);
	open_log(h, root_fd);
	open_state(h, root_fd);
	h->audit_fd = kernel_audit_open();
}

void setup_waits(struct helper *h)
{
	const struct timeval second = {.tv_sec = 1};

	if (h->agent->sync_batch)
		start_libc(setsockopt(HELPER_SOCKET_FD, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second)),
			   START_SOCKET, "");
}

/* Pin the directory @path below directories of root: what it is, and of what mount. */
static int open_place(struct helper *h, const char *path, enum mh_start word, struct place *ret,
		      struct mount_facts *ret_mount)
{
	int fd = start_sys(path_open_trusted(h->root_fd, path), word, path);

	start_sys(place_of_fd(fd, ret), word, path);
	start_sys(mount_facts(&h->mountinfo, ret, ret_mount), word, path);
	return fd;
}

enum mh_start setup_check_tree(const struct place *place, const struct mount_facts *mount,
			       uint32_t helper_uid, uint32_t mode)
{
	/* whose directories only the local kernel changes */
	static const char *const local[] = {"ext4", "xfs", "btrfs", "tmpfs"};

	if (place->uid != helper_uid || (place->mode & 07777U) != mode)
		return START_TREE_OWNER;
	if (names_find(local, ARRAY_SIZE(local), mount->type) < 0)
		return START_TREE_FS;
	/* below a private mount an unmount would leave copies behind in the namespaces of tasks */
	return mount->peer_group != 0 ? START_OK : START_TREE_PRIVATE;
}

static struct tree open_tree_base(struct helper *h, const char *path, uint32_t mode)
{
	const uint32_t uid = h->agent->helper_uid;
	struct mount_facts mount = {.peer_group = 0};
	struct place place = PLACE_INIT;
	struct tree tree = {.fd = open_place(h, path, START_TREE, &place, &mount)};
	enum mh_start word = setup_check_tree(&place, &mount, uid, mode);
	struct statx listed;

	start_need(word == START_OK, word, word == START_TREE_OWNER ? uid : 0, path);
	tree.mount_id = place.mount_id;
	h->n_own += (uint32_t)start_sys(own_find(h, h->root_fd, path, true), START_TREE, path);
	start_sys(sys_statx(tree.fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &listed),
		  START_TREE, path);
	tree.listed_id = listed.stx_mnt_id;
	return tree;
}

/* A directory of root in a file system of the kernel's own; a container has another one for /dev. */
static int open_system(struct helper *h, const char *path, const char *type, const char *in_container)
{
	struct mount_facts mount = {.peer_group = 0};
	struct place place = PLACE_INIT;
	int fd = open_place(h, path, START_DEV, &place, &mount);
	bool is_of_type =
		str_eq(mount.type, type) || (h->agent->container && str_eq(mount.type, in_container));

	start_need(is_of_type && place.uid == 0 && (place.mode & 022) == 0, START_DEV, 0, path);
	return fd;
}

void setup_trees(struct helper *h)
{
	assert(h->agent && h->root_fd >= 0);
	h->stage = open_tree_base(h, h->agent->stage_base, 0700);
	h->publish = open_tree_base(h, h->agent->publish_base, 0711);
	h->dev_fd = open_system(h, "/dev", "devtmpfs", "tmpfs");
	h->sysfs_fd = open_system(h, "/sys/fs", "sysfs", "sysfs");
	h->sysfs_block_fd = open_system(h, "/sys/dev/block", "sysfs", "sysfs");
	h->procfs_fd = open_system(h, "/proc/fs", "proc", "proc");
}

void setup_folders(const struct helper *h)
{
	(void)sys_mkdirat(h->publish.fd, PUBLISHES_FOLDER,
			  0700); /* as the tree, it lists nothing to others */
	cleanup_place struct place all = PLACE_INIT;

	if (place_make(h->stage.fd, MH_CSI_FOLDER, &all) < 0 || !place_is_own(h, &h->stage, &all))
		return;
	/* not entered: a plugin may have covered its own with what never answers */
	for (uint32_t i = 0; i < h->agent->n_profiles; i++)
		if (h->agent->profiles[i].class == MH_CLASS_CSI)
			(void)sys_mkdirat(all.fd, h->agent->profiles[i].name, 0755);
}

void setup_types(struct helper *h)
{
	for (uint32_t i = 0; i < h->agent->n_profiles; i++) {
		uint32_t kind = h->agent->profiles[i].kind;
		cleanup_close int fd = kind < FS_N ? sys_fsopen(fs_names[kind], SYS_FSOPEN_CLOEXEC) : -1;

		if (kind < FS_N)
			h->type_available[kind] = fd >= 0;
	}
}
