/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* An operation on a volume, and the manager that it is of: what the files that carry it out share. For those
 * files only. */

#include "base/backoff.h"
#include "base/tree.h"
#include "helper/client.h"
#include "helper/mount_snapshot.h"
#include "kernel/device_changes.h"
#include "kernel/host_devices.h"
#include "kernel/mount_table.h"
#include "kernel/path_probe.h"
#include "plugins/plugins.h"
#include "volume/op_done.h"
#include "volume/plugin_owned.h"
#include "volume/step.h"

#include <sys/queue.h>

struct volume_queue;

struct volume_op {
	TAILQ_ENTRY(volume_op) entry;
	LIST_ENTRY(volume_op) all;
	struct volume_manager *manager;
	struct volume_queue *queue;
	struct volume_target target;
	enum volume_op_event kind; /* VOLUME_OP_MOUNT, _UNMOUNT, _RELEASE or _EXPAND */
	enum volume_op_state state;
	bool is_cancelled;
	bool has_met_other;    /* instance of the helper at work: the mount snapshot lacks what that did */
	bool has_staged_again; /* as the plugin refused to publish */
	bool is_forced;	       /* no plugin: from there on only the helper undid it */
	bool has_mounted;
	struct volume_mounted mounted; /* what @done gets; kernel: of an unmount without its plugin */
	volume_done_fn *done;
	volume_retry_fn *retry;
	volume_keep_fn *keep;	      /* NULL: not wanted */
	volume_expanded_fn *expanded; /* in the place of done */
	void *userdata;
	struct backoff backoff;
	sd_event_source *timer; /* runs while waiting for another attempt, or for being cancelled */
	int64_t since_ms;
	int64_t step_since_ms;
	int64_t next_try_ms;
	int64_t gives_up_ms; /* wall clock, of a mount that has met an error; 0: no error yet */
	struct error last_error;
	struct mh_reply publish_reply;
	struct path_probe *probe;	    /* while verifying */
	struct plugin_wait *wait;	    /* for the plugin */
	struct service_call *call;	    /* in flight */
	struct plugin_process called;	    /* by the last call */
	uint64_t called_since;		    /* when it was made, as of plugin_process_now() */
	uint64_t called_at;		    /* and the mount_table_last() of the stage mounts then */
	struct device_moment before_plugin; /* of a mount: before the first call; zero: no call */
	/* monotonic: when a mount gives up, 0: it has not begun to lose patience; the deadline of an
	 * expansion */
	uint64_t patience_end_us;
	struct secret_message *expansion; /* the NodeExpandRequest */
	int64_t expanded_bytes;
};

/* The operations of one volume; lives as long as it has operations. */
struct volume_queue {
	RB_ENTRY(volume_queue) entry;
	TAILQ_ENTRY(volume_queue) ready;
	bool is_ready; /* among those that can begin: something waits and nothing is in flight */
	char wire_volume[WIRE_VOLUME_SIZE];
	TAILQ_HEAD(, volume_op) waiting;
	struct volume_op *current;
	size_t n_ops; /* waiting, current and between two attempts */
};

RB_HEAD(volume_queues, volume_queue);

struct volume_manager {
	sd_event *event;	      /* borrowed */
	struct helper_client *helper; /* borrowed */
	volume_in_use_fn *in_use;
	void *userdata;
	struct plugins *plugins; /* borrowed; NULL: there are no plugins */
	uint64_t plugin_wait_us;
	struct plugin_owned_set plugin_owned;
	struct host_devices host_devices;
	struct device_changes device_changes;
	struct mount_table *stage_mounts; /* below stage_base; NULL: not read yet */
	char stage_base[MH_PATH_SIZE];
	struct mount_snapshot *observed;
	struct path_probes *probes;
	struct volume_queues queues;
	TAILQ_HEAD(, volume_queue) ready; /* in the order in which they became so */
	LIST_HEAD(, volume_op) ops;
	size_t n_ops;
	sd_event_handler_t on_dispatch;
	sd_event_source *dispatch; /* deferred: begins what can begin */
};
