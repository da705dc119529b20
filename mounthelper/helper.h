/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Everything a running helper holds: descriptors opened before the lock-down and root's policy. */

#include "mounthelper_words.h"
#include "policy.h"
#include "state.h"

#include "base/mountinfo.h"
#include "privileged/chain_log.h"
#include "privileged/place.h"

#include <assert.h> /* what fails ends the helper with a record: assertion.h */
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

enum {
	HELPER_SOCKET_FD = 3,
	HELPER_MESSAGE_FD = 4, /* the caller's standard error, if it is a pipe, until the lock-down */
	HELPER_INSTANCES = 8,
	PLUGINS_INSTANCES = 6, /* of these, in folders of plugins and host volumes */
	PLUGIN_INSTANCES = 4,  /* of these, in that of one plugin, or in host volumes; a power of two */
	OWN_MAX = 33,	       /* one of them for the host volume of a request */
	OWN_SIZE = 1024 + MH_PATH_SIZE, /* a root and a path below it */
};

/* Every mount that is attached has these flags. */
enum { MOUNT_FLOOR = SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV };

enum launch_mode { LAUNCH_SETUID = 1, LAUNCH_SOCKET = 2 };

/* One of the two trees below which the helper mounts; only its uid and root can write there. */
struct tree {
	int fd;		    /* O_PATH */
	uint64_t mount_id;  /* of its mount, which every directory in it is in that is no mount */
	uint64_t listed_id; /* the same as mountinfo has it: reused by the kernel */
};

struct helper {
	const struct agent_policy *agent;
	uint8_t policy_digest[TICKET_DIGEST_SIZE];
	int policy_root_fd; /* "/" where root's files are, and the path of the policy below it */
	const char *policy_path;
	struct statx policy_file; /* that was read: what setup_compare_policy() compares */
	char boot_id[MH_UUID_SIZE];
	enum launch_mode launch_mode;
	uint32_t instance; /* 0 to HELPER_INSTANCES - 1 */
	pid_t own_pid;
	uint32_t peer_uid;
	pid_t peer_pid;
	struct keyline peer; /* the fields about it in every record */
	struct tree stage;
	struct tree publish;
	uint32_t n_own; /* trees, log, state, policy and the mount points that lead to them, by own_find() */
	char own[OWN_MAX][OWN_SIZE];
	int root_fd;	    /* "/" where the mounts are made */
	int dev_fd;	    /* /dev there */
	int sysfs_fd;	    /* /sys/fs there */
	int sysfs_block_fd; /* /sys/dev/block there */
	int procfs_fd;	    /* /proc/fs there */
	int state_fd;	    /* of state and locks */
	int audit_fd;	    /* or negative */
	struct state_table *state;
	struct chain_log trail;
	enum mh_trail trail_fault; /* its fault at the start */
	struct keyline start;	   /* the record of the start, */
	bool start_waits;	   /* which the own log has not taken yet */
	bool record_waits;	   /* the last record is only in the own log */
	uint32_t record_seq;
	bool log_is_append_only; /* by its attribute, chattr +a */
	bool type_available[FS_N];
	uint32_t refusals_unrecorded; /* they get one record together */
	struct mountinfo mountinfo;
	struct mh_list
		list_next; /* the LIST that continues the pass of the one before; cursor 0: no LIST does */
};
