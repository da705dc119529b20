/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A container in the engine's JSON: the request, and the answer. Pure. */

#include "settings.h"
#include "task_spec.h"

#include "base/error.h"
#include "model/volume.h"

#include <holdfast/driver/v1/driver.pb-c.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum { CONTAINER_NAME_SIZE = 128, CONTAINER_ID_SIZE = 80, CONTAINER_TEXT_SIZE = 256 };

/** The one container of a task; that which holds the allocation's network for an empty @task. */
void container_name(const char *alloc_id, const char *task, char ret[static CONTAINER_NAME_SIZE]);

/** Array of texts. Owned by the caller; NULL when memory is short or one is no UTF-8. */
json_t *container_list(char *const *texts, size_t n);

/** Writes the folder in which the plugin mounts into @ret of PATH_MAX bytes. */
bool container_stage(const struct settings *settings, const char *plugin_id, char *ret);

/** Returns the beginning that the name of @image lacks, as Docker defines it: docker.io/ or
 * docker.io/library/ if it names no registry. Podman would take a local image of any registry for a name
 * without one. */
const char *container_image_registry(const char *image);

/** Has each variable of the image a value? Podman gives one without it the value that it has itself
 * (CVE-2026-57231), and all of its own for "*". @described answer of GET /images/NAME/json */
bool container_image_env_is_whole(const json_t *described);

/** Does the engine know the image by the name @image? Podman looks only for the digest behind @, in each
 * local image. A digest means the same bytes whenever it is looked for.
 * @described answer of GET /images/NAME/json */
bool container_image_is_named(const json_t *described, const char *image);

/** Would the image's CMD run although the task's command or args is an empty list? Engines take it if both
 * are empty or missing. A plugin's command is never empty: it begins with the program that sets its umask.
 * @described answer of GET /images/NAME/json */
bool container_image_cmd_replaces_list(const json_t *described, const struct task_spec *spec);

/* The order that makes a container. */
struct container_order {
	const char *nonce;   /* in hex */
	const char *boot_id; /* in which it is good */
	bool is_podman;	     /* the engine */
};

/** Body of POST /containers/create. Owned by the caller; NULL when memory is short or a text is no UTF-8.
 * @image answer of GET /images/NAME/json
 * @namespace of the network; empty: the container is one of an earlier driver */
json_t *container_of_task(const struct settings *settings, const struct task_spec *spec,
			  const struct container_order *order, const json_t *image);
json_t *container_of_network(const struct settings *settings,
			     const Holdfast__Driver__V1__NetworkConfig *network, const char *namespace,
			     const struct container_order *order);

/** Filters of GET /containers/json for containers of this node. Owned by the caller; NULL when memory is
 * short.
 * @only_at_rest leaves out those that run
 * @before       only those that were made before this container; NULL: all */
json_t *container_filters(const struct settings *settings, bool only_at_rest, const char *before);

/** Returns whether a container may run: not if its state is one of a container at rest, nor if its name does
 * not fit its labels: those are of its image.
 * @listed of the answer of GET /containers/json */
bool container_may_run(const json_t *listed);

/** Returns whether a container was made in another boot than @boot_id. One without a boot label is no
 * leftover, nor is one whose name does not fit its labels.
 * @listed of the answer of GET /containers/json; @ret_alloc and @ret_task are its texts */
bool container_is_leftover(const json_t *listed, const char *boot_id, const char **ret_alloc,
			   const char **ret_task);

/* The engine's description of a container of ours. */
struct container {
	char id[CONTAINER_ID_SIZE];
	char alloc[64];
	char task[64];
	char namespace[NAMESPACE_MAX + 1]; /* empty: not known */
	char nonce[2 * ORDER_NONCE_SIZE + 1];
	char plugin[CONTAINER_ID_SIZE];	       /* the CSI plugin in it; empty: no plugin */
	char plugin_socket[CONTAINER_ID_SIZE]; /* likewise: in the plugin's folder */
	bool has_logs;
	uint32_t stop_ms; /* from the signal to SIGKILL */
	Holdfast__Driver__V1__TaskState state;
	int64_t started_ms; /* 0: never */
	int64_t finished_ms;
	int32_t exit_code;
	bool oom_killed;
	char error[CONTAINER_TEXT_SIZE];
	int64_t pid; /* of its first process, on the host; 0: no process */
	bool waits;  /* that process, for the start of its program: podman begins them one by one */
};

/** Read the answer of GET /containers/NAME/json. STATUS_INTERNAL for nonsense, STATUS_FAILED_PRECONDITION
 * when it is not of this node's driver, or of another task. */
enum status container_read(const struct settings *settings, const json_t *json, const char *alloc_id,
			   const char *task, struct container *ret, struct error *err);

/** The health check of the container, as JSON; empty: it has no check. Borrowed of the engine's description.
 */
const char *container_check(const json_t *json);

/** Fill @ret; its texts are @container's. */
void container_status(struct container *container, Holdfast__Driver__V1__TaskStatus *ret,
		      Holdfast__Driver__V1__ExitResult *ret_result);

/** Read the answer of GET /exec/ID/json. @ret_code counts only for a command that has ended. */
enum status container_read_exec(const json_t *json, bool *ret_is_running, int32_t *ret_code,
				struct error *err);

enum { EXEC_PAUSE_US = 100 * 1000 }; /* then a command that runs without its output is looked at again */

/** Read the answer of GET /containers/NAME/stats. */
enum status container_stats(const json_t *json, Holdfast__Driver__V1__TaskStatsResponse *ret,
			    struct error *err);

/** Converts the engine's RFC 3339 to milliseconds since the epoch; 0 for its zero, and for invalid text. */
int64_t container_time(const char *text);

/** Is it what engines call containers and execs by: hex digits? */
bool container_is_id(const char *id);
