/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Root's own file: whose orders the driver takes, and what of them it may do.
 * holdfast-driver-container.hcl(5) */

#include "base/error.h"

#include <limits.h>
#include <order.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SETTINGS_PATH_DEFAULT "/etc/holdfast/holdfast-driver-container.hcl"

enum {
	SETTINGS_KEYS_MAX = 8,
	SETTINGS_LIST_MAX = 64,
	SETTINGS_CAPABILITIES_MAX = 41,
	SETTINGS_ARGV_MAX = 8,
	SETTINGS_TEXT_SIZE = 256,
	SETTINGS_USER_SIZE = 64,
	SETTINGS_CAPABILITY_SIZE = 32,
	SETTINGS_SOCKET_SIZE = 108,
	SETTINGS_PLUGINS_MAX = 16,
	SETTINGS_PLUGIN_IMAGES_MAX = 8,
};

/* A CSI plugin that a task may be, and what only this task may have. */
struct settings_plugin {
	char id[SETTINGS_USER_SIZE]; /* empty: the slot is free */
	char images[SETTINGS_PLUGIN_IMAGES_MAX][SETTINGS_TEXT_SIZE];
	char capabilities[SETTINGS_CAPABILITIES_MAX][SETTINGS_CAPABILITY_SIZE];
	bool privileged;
};

struct settings {
	char path[PATH_MAX];
	char cluster[ORDER_CLUSTER_SIZE];
	char node_id[ORDER_NODE_SIZE];
	uint8_t keys[SETTINGS_KEYS_MAX][ORDER_KEY_SIZE];
	uint32_t n_keys;
	char agent_user[SETTINGS_USER_SIZE]; /* who may call, as root may */
	char socket[SETTINGS_SOCKET_SIZE];
	char engine_socket[SETTINGS_SOCKET_SIZE];
	char metrics[SETTINGS_TEXT_SIZE]; /* where they are served; "": off */
	char publish_dir[PATH_MAX];
	char state_dir[PATH_MAX];
	char plugin_dir[PATH_MAX];  /* of the sockets of CSI plugins */
	char stage_dir[PATH_MAX];   /* in which plugins mount */
	uint64_t engine_timeout_us; /* of a request to the engine that should be short */
	uint64_t pull_timeout_us;
	uint64_t max_stop_timeout_us; /* of a task, also of one that asks for more */
	/* what a task may have; lists end with an empty one unless they are full */
	char images[SETTINGS_LIST_MAX][SETTINGS_TEXT_SIZE]; /* one that ends in * is a prefix */
	char users[SETTINGS_LIST_MAX][SETTINGS_USER_SIZE];  /* "image": the image's own user */
	char capabilities[SETTINGS_CAPABILITIES_MAX][SETTINGS_CAPABILITY_SIZE];
	char host_paths[SETTINGS_LIST_MAX][SETTINGS_TEXT_SIZE];
	char networks[4][SETTINGS_CAPABILITY_SIZE];
	bool privileged;
	char old_runc[8]; /* "accept": one that is not fixed may start tasks; "refuse" */
	bool pull;	  /* images that the engine does not have */
	uint32_t nofile;  /* most open files of a process, and most processes of its account; 0: the engine's
			     own limit */
	uint32_t nproc;
	uint64_t max_memory; /* of a task, also of one that asks for more or for no limit; 0: no limit */
	uint32_t max_pids;   /* likewise */
	struct settings_plugin csi_plugins[SETTINGS_PLUGINS_MAX];
	char infra_image[SETTINGS_TEXT_SIZE];
	char infra_command[SETTINGS_ARGV_MAX][SETTINGS_TEXT_SIZE];
};

/** The plugin called @id; NULL: no task may be it. */
const struct settings_plugin *settings_plugin(const struct settings *settings, const char *id);

/** Returns the seconds from a stop's signal to its SIGKILL, for a task that asks for @ms. */
uint32_t settings_stop_seconds(const struct settings *settings, uint32_t ms);

/** Read @text; @name is the file's for messages, which begin with "NAME:LINE: ". */
enum status settings_parse(const char *text, const char *name, struct settings *ret, struct error *err);

/** Reads the file at @path. STATUS_PERMISSION_DENIED if another user than root can change it. */
enum status settings_load(const char *path, struct settings *ret, struct error *err);
