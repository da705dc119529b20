/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A node with csi volumes: the volume manager between models of the mount helper and of a plugin, and users
 * of volumes that behave as allocations do. */

#include "fake_helper_client.h"
#include "fake_plugins.h"
#include "unit.h"

#include "volume/manager.h"

#include <stdbool.h>
#include <systemd/sd-event.h>

#define CSI_PLUGIN "csi.plug"
/* longer than what free() writes over */
#define CSI_SECRET "s3cr3t-of-the-volume-and-of-nobody-else"

enum { CSI_USERS_MAX = 6 };

enum csi_user_state {
	CSI_USER_CLAIMED, /* may have something on the node */
	CSI_USER_MOUNTED,
	CSI_USER_RELEASED,
};

struct csi_node;

/* One allocation with one volume, at slot 0. */
struct csi_user {
	struct csi_node *node;
	char alloc[UUID_TEXT_SIZE];
	char volume[VOLUME_ID_MAX + 1]; /* also its name towards the helper */
	char namespace[NAMESPACE_MAX + 1];
	bool read_only, is_device;
	enum csi_user_state state;
	bool wants_stop;
	struct volume_op *task;
	bool is_unmounting;
	unsigned int mounts, retries;
	struct error mount_error; /* status OK: none yet */
	struct error last_retry;
	bool is_forced;
	bool is_without_plugin; /* how it was released, and what was seen then */
	char kernel[KERNEL_WORDS_MAX + 1];
	struct volume_mounted mounted;
};

struct csi_node {
	struct fake_helper fake;
	sd_event *event;
	struct helper_client *helper;
	struct plugins *plugins;
	struct fake_csi_plugin *model;
	struct volume_manager *manager;
	struct csi_user users[CSI_USERS_MAX];
	size_t n_users;
	uint32_t next_minor;
	uint32_t major;		    /* not 0: everything is mounted from this one device, major:1 */
	bool superblock_lives;	    /* of every device */
	bool counts_nothing;	    /* the helper has lost its state */
	const char *elsewhere;	    /* where every device is mounted besides; NULL: nowhere */
	unsigned int tables;	    /* of mounts that were read for it */
	unsigned int moments;	    /* that were noted */
	unsigned int made_at;	    /* every device's file system is younger than this one; 0: than none */
	bool is_part;		    /* no plugin mounts the root of a file system */
	uint32_t mount_timeout_ms;  /* of who is added from now on */
	const char *stacked;	    /* a path with two mounts; NULL: there is no such */
	const char *extra;	    /* a path at which one more is mounted; NULL: nowhere */
	uint64_t last_id;	    /* of mounts, as the table has it */
	uint64_t settled;	    /* with which the table was looked at last */
	unsigned int n_whole_looks; /* at all mounts */
	const char *naming;	    /* the argument of a process that names a folder; NULL: there is none */
	unsigned int n_session;	    /* processes of the plugin's session */
	bool hides_processes;	    /* nothing is known of the plugin's */
	bool is_proc_partial;
	bool is_proc_unfinished;
	unsigned int process_looks; /* for such */
	unsigned int restarts;
	uint64_t wait_us;      /* for a plugin */
	unsigned int patience; /* turns left until the test has waited in vain */
};

int csi_node_setup(void **state);
/** Fails the test on violations. */
int csi_node_teardown(void **state);

/** An allocation is granted a volume; it mounts at once. */
struct csi_user *csi_node_add(struct csi_node *node, const char *volume, bool read_only, bool is_device);

/** It ends: what it has is unmounted. */
void csi_user_stop(struct csi_user *user);

/** Its unmount, which is in flight, is to continue without the plugin. */
void csi_user_force(struct csi_user *user, bool is_freed);

/** The agent is killed and started again: what it had in memory only is gone. */
void csi_node_restart(struct csi_node *node);

typedef bool csi_node_condition(struct csi_node *node);
bool csi_node_all_mounted(struct csi_node *node);
bool csi_node_all_released(struct csi_node *node);
/** Nobody has anything in flight, or wants anything. */
bool csi_node_is_quiet(struct csi_node *node);

/** Run the loop until it holds; as long as csi_node_turn() lets it. */
void csi_node_until(struct csi_node *node, const char *what, csi_node_condition *condition);
#define CSI_NODE_UNTIL(node, condition) csi_node_until((node), #condition, (condition))

/** One turn of the loop; who is mounted must stay so. Too many of them since the test has last done something
 * (added, stopped or left out a user, or restarted the agent) are a failure that says what each user waits
 * for. */
void csi_node_turn(struct csi_node *node);

/** Nothing is left of the helper's or the plugin's making. */
void csi_node_expect_nothing(struct csi_node *node);

unsigned int csi_node_calls(const struct csi_node *node, enum csi_method method);

#define NODE_TEST(name) TEST_ON(name, struct csi_node, node, csi_node_setup, csi_node_teardown)
