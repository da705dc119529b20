/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Inside the model: its state and its calls (fake_kernel.c), circumstances and looking (fake_world.c), and
 * the seam that adds faults and puts the calls in the kernel's place (fake_seam.c). */

#include "fake_kernel.h"

#include "base/sys.h"

#include <fcntl.h>

/* MAPPED_UID: the owner of everything in an idmapped mount */
enum { NODES = 512, MOUNTS = 512, SYSTEMS = 64, FDS = 64, LOG = 1 << 18, PLAIN_ATTR = 0, MAPPED_UID = 4711 };

struct node {
	bool used;
	int parent; /* index; the root of a file system is its own parent */
	int fs;
	char name[64];
	uint32_t uid;
	uint16_t mode; /* with the type */
	uint64_t ino;
	char link[512];
};

struct system {
	bool used;
	char type[16], source[80];
	uint32_t dev_major, dev_minor;
	bool ro;
	uint64_t blocks, inodes;
	int root;
};

struct mount {
	bool used, attached, busy;
	bool expiring;	 /* marked by MNT_EXPIRE, and not looked at since */
	uint64_t id;	 /* of mountinfo; UNIQUE_ID more for statx and statmount */
	uint64_t group;	 /* peer group, or 0 */
	uint64_t master; /* peer group it is a slave of, or 0 */
	int fs;
	int root; /* node */
	int at_mount, at_node;
	uint64_t attr;
};

struct position {
	int mount, node;
};

enum fd_kind { FD_FREE, FD_PATH, FD_MOUNT, FD_CONTEXT };

struct descriptor {
	enum fd_kind kind;
	struct position at; /* FD_PATH */
	int mount;	    /* FD_MOUNT */
	int fs;		    /* FD_CONTEXT: being made, or -1 */
	bool created;
	bool failed; /* to create: good for nothing any more */
};

struct model {
	struct node nodes[NODES];
	struct system systems[SYSTEMS];
	struct mount mounts[MOUNTS];
	struct descriptor fds[FDS];
	struct position base[6]; /* root, stage, publish, dev, sysfs, its block devices */
	struct position cwd;
	uint64_t next_mount_id, next_group;
	int passes; /* over the mount table */
	uint64_t next_ino;
	uint32_t next_anonymous;
	char log[LOG];
	size_t log_len;
	char table[LOG];
	size_t table_len;
	char options[1024];
	uint32_t rdev_major, rdev_minor;
	bool no_excl, image_unsupported, opened_devices_of_image, lock_held, places_taken, log_full;
	bool log_deleted, log_short;
	struct statx policy;	 /* its file */
	int policy_errno;	 /* negative: it cannot be looked at */
	bool has_no_options;	 /* statmount(2) tells none, as before Linux 6.11 */
	bool has_stopped_writes; /* every file system shows it in its options */
	bool superblock_elsewhere;
	enum fake_journal journal;
	bool private_has_no_effect;
	uint64_t lost_attributes;
	unsigned int timer_s;
	const char *race_path, *stack_path;
	uint32_t race_major;
	struct flock locks[8];
	size_t n_locks;
	int64_t plugin_lock;
	bool log_locked;
};

/* What mount ids that are never used again begin with. */
#define UNIQUE_ID (UINT64_C(1) << 32)

extern struct model k;

/* Parts of the tree. */
int new_node(int parent, int fs, const char *name, uint32_t uid, uint16_t mode);
int find_node(int parent, const char *name);
int new_system(const char *type, const char *source, uint32_t dev_major, uint32_t dev_minor);
int new_mount(int fs, int root, uint64_t attr);
int mount_at(struct position at);
struct position root_of(int mount);
struct position top(struct position at);
void set_propagation_of(int mount, uint64_t propagation);
void attach_at(int mount, struct position at);
bool has_unique_ids(void);
void drop_unused(void);
size_t path_of(struct position at, char *ret, size_t size);

/* The calls. */
int model_openat(int dir_fd, const char *name, int flags);
int model_statx(int fd, const char *name, int flags, unsigned int mask, struct statx *ret);
int model_mkdirat(int dir_fd, const char *name, mode_t mode);
int model_rmdirat(int dir_fd, const char *name);
int model_readlinkat(int dir_fd, const char *name, char *buf, size_t size);
int model_fstatfs(int fd, struct statfs *ret);
int model_fchdir(int fd);
int model_fsopen(const char *type, unsigned int flags);
int model_fsconfig(int fd, unsigned int cmd, const char *key, const void *value, int aux);
int model_fsmount(int fd, unsigned int flags, unsigned int attributes);
int model_open_tree(int fd, const char *path, unsigned int flags);
int model_move_mount(int from_fd, const char *from, int to_fd, const char *to, unsigned int flags);
int model_mount_setattr(int fd, const char *path, unsigned int flags, const struct sys_mount_attr *attr);
int model_umount2(const char *name, int flags);
int model_statmount(uint64_t id, uint64_t mask, struct sys_statmount *ret);
long model_listmount(uint64_t id, uint64_t after_id, uint64_t *ret_ids, size_t n);
long model_write(int fd, const void *bytes, size_t n);
long model_pread(int fd, void *buf, size_t n, off_t offset);
void fake_sinks_process_died(void);
int model_fallocate(int fd, int mode, off_t offset, off_t n); /* this and the next two: fake_sinks.c */
long model_sendto(int fd, const void *bytes, size_t n, int flags);
long model_recvfrom(int fd, void *buf, size_t n, int flags);
int model_ofd_lock(int fd, int cmd, const struct flock *lock);
void model_ofd_unlock(int fd, const struct flock *lock);
bool model_table_is_locked(void);
void model_close(int fd);
