/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* An allocation: work placed on one node, with the volumes it needs.
 *
 * Its lists, its unit and its description are not inside: a copy by assignment shares those of the original,
 * and is valid as long as they are. An owner that keeps an allocation gives it its own, see alloc_own(). */

#include "base/error.h"
#include "model/claim.h"
#include "model/message.h"

#include <stdbool.h>
#include <stdint.h>

#define CSI_PLUGIN_SOCKET "csi.sock"
#define CSI_PLUGIN_MOUNT_DIR "/csi"

enum {
	ALLOC_VOLUMES_MAX = 16,
	ALLOC_TASKS_MAX = 8,
	NODE_ALLOCS_MAX = 1024, /* that an agent takes */
	ALLOC_CONSTRAINTS_MAX = 16,
	ALLOC_PLUGINS_MAX = 4,
	ALLOC_NAME_MAX = 128,
	ALLOC_DRIVER_MAX = 31,
	ALLOC_DESCRIPTION_MAX = 1023,
	ALLOC_PATH_MAX = 511,
	JOB_ID_MAX = 63,
	JOB_GROUP_NAME_MAX = 47, /* with the job's id and an index a name of an allocation */
	CSI_PLUGIN_SOCKET_MAX = 63,
	CSI_PLUGIN_HEALTH_TIMEOUT_MAX_MS = 3600 * 1000,
	ALLOC_STOP_TIMEOUT_MAX_MS = 24 * 3600 * 1000,
	ALLOC_MOUNT_TIMEOUT_MAX_MS = 24 * 3600 * 1000,
};

#define DRIVER_NONE "none"
#define DRIVER_SYSTEMD "systemd"

enum desired_status {
	DESIRED_UNSPECIFIED,
	DESIRED_RUN,
	DESIRED_STOP,
	DESIRED_N,
};

enum client_status {
	CLIENT_UNSPECIFIED,
	CLIENT_PENDING,
	CLIENT_RUNNING,
	CLIENT_COMPLETE,
	CLIENT_FAILED,
	CLIENT_LOST,
	CLIENT_N,
};

struct volume_request {
	char name[PROFILE_MAX + 1];
	char source[VOLUME_ID_MAX + 1];
	enum access_mode access_mode;
	enum attachment_mode attachment_mode;
	bool read_only;
	enum propagation propagation;
	bool exec;
};

struct alloc_volume {
	char name[PROFILE_MAX + 1];
	char path[ALLOC_PATH_MAX + 1];
	char claim_id[UUID_TEXT_SIZE];
	bool is_device; /* path is a block device, made by the plugin */
};

enum csi_plugin_type {
	CSI_PLUGIN_NONE,
	CSI_PLUGIN_CONTROLLER,
	CSI_PLUGIN_NODE,
	CSI_PLUGIN_MONOLITH, /* both */
	CSI_PLUGIN_TYPE_N,
};

/* A plugin that an allocation runs. */
struct csi_plugin {
	char id[PLUGIN_ID_MAX + 1]; /* id_is_plugin() */
	enum csi_plugin_type type;
	uint32_t health_timeout_ms;		/* 0: the agent's default */
	char socket[CSI_PLUGIN_SOCKET_MAX + 1]; /* file name in the plugin's folder; empty: csi.sock */
};

/* The numbers are those of holdfast.driver.v1.NetworkMode. */
enum network_mode {
	NETWORK_UNSPECIFIED, /* each task has its own setting */
	NETWORK_HOST,
	NETWORK_NONE,
	NETWORK_ISOLATED, /* one for all tasks */
	NETWORK_MODE_N,
};

/* Settings that all tasks of an allocation share. */
struct alloc_network {
	enum network_mode mode;
};

struct alloc {
	char id[UUID_TEXT_SIZE];
	char namespace[NAMESPACE_MAX + 1];
	char name[ALLOC_NAME_MAX + 1];
	char node_id[NODE_ID_MAX + 1];
	char driver[ALLOC_DRIVER_MAX + 1];
	char *unit;			/* DRIVER_SYSTEMD: that is started; may be NULL, see alloc_unit() */
	uint32_t stop_timeout_ms;	/* DRIVER_SYSTEMD; 0: the unit's setting */
	uint32_t mount_timeout_ms;	/* of each mount, while a plugin's errors may pass; 0: the agent's */
	struct volume_request *volumes; /* NULL only if the number is 0 */
	uint32_t n_volumes;
	enum desired_status desired_status;
	enum client_status client_status;
	char *client_description; /* at most ALLOC_DESCRIPTION_MAX; NULL: empty, see alloc_description() */
	struct alloc_volume *published; /* NULL only if the number is 0 */
	uint32_t n_published;
	int32_t client_code;	    /* enum status behind a failure */
	struct csi_plugin *plugins; /* that it runs; NULL only when n_plugins is 0 */
	uint32_t n_plugins;
	struct alloc_network network;	  /* of its tasks */
	struct message_list *tasks;	  /* TaskConfig of task drivers: see task.h; may be NULL */
	struct message_list *task_status; /* TaskStatus of those that were started */
	struct message_list *events;	  /* AllocationEvent, the oldest first: see alloc_event.h */
	struct message_list *constraints; /* Constraint: see constraint.h; NULL: there is no constraint */
	char job_id[JOB_ID_MAX + 1];	  /* empty: of no job */
	char job_group[JOB_GROUP_NAME_MAX + 1];
	uint32_t job_index;	   /* of the group's members */
	uint64_t job_version;	   /* with which it was placed */
	uint64_t job_content;	   /* sum of what its group ran then, see job_content() */
	int64_t running_time_ms;   /* since when it runs, or ran last; 0: it never did */
	int64_t end_time_ms;	   /* when it ended; 0: it has not */
	int64_t healthy_time_ms;   /* since when it is healthy, or was last; 0: never. See alloc_health.h */
	int64_t unhealthy_time_ms; /* when that ended; 0: it has not */
	int64_t wait_until_ms;	   /* of one that is pending for a volume, without a node; 0: no limit */
	int64_t place_time_ms;	   /* when it got its node, if it was pending; 0: it was not */
	uint64_t queue_index; /* its place in the queue of a volume; 0: its create_index, see alloc_arrival()
			       */
	bool keeps_place;     /* ends for another version of its job, which takes its place in the queues */
	bool lost_race;	      /* its claim was refused, as another one had the volume */
	bool adopted;	      /* learned from its node after a restore: it gets no new claim */
	uint64_t member_generation; /* likewise: of the claim that proves it a member; 0: it is no member */
	char *wait_node_id;	    /* the node that it gets then; NULL: any, see alloc_wait_node() */
	int64_t create_time_ms;
	int64_t modify_time_ms;
	uint64_t create_index;
	uint64_t modify_index;
};

/** Gives @alloc lists, a unit and a description of its own, copies of the present ones. False without memory:
 * then it has empty ones. alloc_release() frees them. */
bool alloc_own(struct alloc *alloc);

/** Frees what one that has its own has; it is without then. */
void alloc_release(struct alloc *alloc);

/** Its node's description of it, for people; may be empty. */
const char *alloc_description(const struct alloc *alloc);

/** The requested node of a pending one; empty: any. */
const char *alloc_wait_node(const struct alloc *alloc);

/** The unit that it runs; may be empty. */
const char *alloc_unit(const struct alloc *alloc);

/** Fills what may be left out: namespace, driver, attachment mode of volume requests. */
void alloc_default(struct alloc *alloc);

/** Has the node finished with it (complete, failed or lost)? */
bool alloc_is_client_terminal(const struct alloc *alloc);

/** It has no node yet, and waits for one. */
bool alloc_is_pending(const struct alloc *alloc);

/** Does the next allocation of its job's member take its place in the queues of its volumes? */
static inline bool alloc_is_heritable(const struct alloc *alloc)
{
	return alloc->keeps_place || alloc->lost_race;
}

/** The volume request called @name, or NULL. */
const struct volume_request *alloc_find_volume(const struct alloc *alloc, const char *name);

/** Returns the request for the claim's volume if the server itself gave the claim's node this allocation; or
 * NULL. A record that the node has reported does not count: the node could prove any claim with it. */
const struct volume_request *alloc_asks_for(const struct alloc *alloc, const struct claim *claim);

/** Do both ask for the same? */
bool volume_request_eq(const struct volume_request *a, const struct volume_request *b);

/** The plugin called @id; NULL: it does not run that. */
const struct csi_plugin *alloc_find_plugin(const struct alloc *alloc, const char *id);

/** Do both run the same plugins in the same way, or no plugin? */
bool alloc_plugins_eq(const struct alloc *a, const struct alloc *b);

enum { ALLOC_PLUGINS_TEXT_SIZE = ALLOC_PLUGINS_MAX * (PLUGIN_ID_MAX + 2) };

/** "a, b": for people.
 * @only  of ALLOC_PLUGINS_MAX: those that are meant; NULL: all */
void alloc_plugins_text(const struct alloc *alloc, const bool *only, char text[ALLOC_PLUGINS_TEXT_SIZE]);

/** File name of its socket in its folder. */
const char *csi_plugin_socket(const struct csi_plugin *plugin);

/** Do both mean the same plugin, run in the same way, or no plugin? */
bool csi_plugin_eq(const struct csi_plugin *a, const struct csi_plugin *b);

/** The services that a plugin of this type has. */
bool csi_plugin_has_controller(const struct csi_plugin *plugin);
bool csi_plugin_has_node(const struct csi_plugin *plugin);

/** Claim mode that a request means. */
enum claim_mode volume_request_mode(const struct volume_request *request);
struct capability volume_request_capability(const struct volume_request *request);

const char *desired_status_name(enum desired_status status);
const char *client_status_name(enum client_status status);
