/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Settings of the agent, from /etc/holdfast/agent.hcl and its drop-in folder. */

#include "base/error.h"
#include "plugins/fence_args.h"
#include "rpc/address.h"
#include "session/attributes.h"
#include "unit/task.h"

#include <stdbool.h>
#include <stdint.h>

#define CONFIG_PATH_DEFAULT "/etc/holdfast/agent.hcl"
#define CONFIG_KEY_CREDENTIAL "holdfast.node.key"

enum {
	CONFIG_NAME_SIZE = 64,
	CONFIG_PATH_SIZE = 256,
	CONFIG_SOCKET_SIZE = 108, /* what sun_path holds */
	CONFIG_HOST_SIZE = 256,
};

struct config {
	char path[CONFIG_PATH_SIZE]; /* it was read from */
	char cluster[CONFIG_NAME_SIZE];
	char node_id[CONFIG_NAME_SIZE];
	char data_dir[CONFIG_PATH_SIZE];
	uint64_t disk_reserve; /* bytes */
	char socket[CONFIG_SOCKET_SIZE];
	char metrics[CONFIG_HOST_SIZE]; /* where they are served; "": off */
	char plugin_dir[CONFIG_PATH_SIZE];
	char driver_dir[CONFIG_PATH_SIZE]; /* of task drivers */
	uint64_t plugin_probe_interval_us;
	uint64_t plugin_wait_us;	 /* of a volume operation for its plugin */
	uint64_t plugin_call_timeout_us; /* the longest that a plugin's own answer is waited for */
	uint64_t volume_stats_us;	 /* between two measurements of the published volumes; 0: off */
	uint64_t plugin_message_max;	 /* bytes of one answer of a plugin */
	int log_level;			 /* of syslog(3) */
	bool log_level_is_argument;
	uint64_t claim_timeout_us;
	uint64_t connect_timeout_us;
	struct {
		char host[CONFIG_HOST_SIZE]; /* "": servers */
		uint32_t port;
		char server_uri[CONFIG_HOST_SIZE];
	} server;
	char servers[RPC_SERVERS_MAX][RPC_SERVER_NAME_SIZE]; /* ends with "" unless it is full */
	struct {
		char ca[CONFIG_PATH_SIZE];
		char cert[CONFIG_PATH_SIZE];
		char key[CONFIG_PATH_SIZE];
		bool key_is_default; /* neither the settings nor a credential name its path */
	} tls;
	struct {
		char path[CONFIG_PATH_SIZE];
		char socket[CONFIG_SOCKET_SIZE]; /* empty: started from path */
		uint32_t instances;
		uint64_t start_timeout_us;
		uint64_t request_timeout_us;
	} helper;
	struct node_meta meta[NODE_META_MAX];
	size_t n_meta;
	struct fence_args fences[FENCE_ARGS_PLUGINS_MAX]; /* of the fence services of plugins */
	size_t n_fences;
	struct {
		task_unit_name systemd_units[TASK_UNITS_MAX];
	} task;
};

/** Everything that has a default. */
void config_init(struct config *config);

/** Read @path and `<@path without .hcl>.d/`. Errors name file and line. */
enum status config_load(const char *path, struct config *ret, struct error *err);

/** Returns LOG_* for "error", "warning", "notice", "info" or "debug"; negative for any other text. */
int config_log_level(const char *word);
