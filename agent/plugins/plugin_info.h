/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* CSI plugins of this node: limits and defaults, their halves, and the fields shown of each instance. */

#include "csi/csi_client.h"
#include "model/node.h"
#include "plugins/fence_args.h"

#include <stdbool.h>
#include <stdint.h>

enum {
	PLUGINS_MAX = 16,		/* ids on one node; the fingerprint also has room for profiles */
	PLUGIN_INSTANCES_MAX = 8,	/* of one id */
	PLUGIN_WAIT_DEFAULT_MS = 60000, /* plugin_wait: of a volume operation for its plugin */
	PLUGIN_HEALTH_TIMEOUT_DEFAULT_MS = 30000,
	PLUGIN_PROBE_INTERVAL_DEFAULT_MS = 30000,
	PLUGIN_CALL_TIMEOUT_DEFAULT_MS = 120000,
	PLUGIN_FENCE_CLIENTS_PROBES = 10, /* between two questions for the node's addresses */
};

struct plugins_options {
	const char *plugin_dir; /* borrowed */
	uint64_t probe_interval_us;
	size_t message_bytes;		 /* of service_client_options */
	uint64_t call_timeout_us;	 /* likewise */
	const struct fence_args *fences; /* borrowed */
	size_t n_fences;
};

enum plugin_half {
	PLUGIN_CONTROLLER,
	PLUGIN_NODE,
};

/* For `holdfast agent status`: one row per instance. */
struct plugin_instance_info {
	char plugin_id[PLUGIN_ID_MAX + 1];
	char socket[108];
	char alloc_id[UUID_TEXT_SIZE]; /* empty: the host's own */
	const char *state;	       /* "dialling", "fingerprinting", "healthy", "unhealthy" */
	bool is_used;		       /* calls go to this one */
	int64_t since_ms;	       /* wall clock, in this state */
	char last_error[512];
	struct service_stats calls;
};
