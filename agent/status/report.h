/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The answer to `holdfast agent status`. */

#include "alloc/allocs.h"
#include "alloc/drain.h"
#include "driver/drivers.h"
#include "helper/client.h"
#include "kernel/mount_table.h"
#include "plugins/plugins.h"
#include "session/session.h"
#include "status/stale.h"
#include "status/volume_usage.h"
#include "volume/manager.h"

#include <holdfast/v1/agent.pb-c.h>

struct report_facts {
	const char *version;
	const char *node_id;
	const char *cluster;
	const char *boot_id;
	const char *server; /* where it is, for people */
	const struct session_info *session;
	const struct helper_client *helper;
	const struct allocs *allocs;
	const struct mount_snapshot *observed; /* NULL: not read yet */
	const struct receipts *receipts;
	const struct plugins *plugins;
	const struct drivers *drivers;
	const struct stale *stale;
	const struct volume_usages *usages;
	const struct agent_drain *drain;
	const char *const *problems; /* with the agent itself */
	size_t n_problems;
	struct mount_table **mounts;	   /* kept by the caller, refreshed */
	struct mount_table **stage_mounts; /* likewise, of what plugins have bound */
};

/** Returns what protobuf_c_message_free_unpacked() frees; NULL when memory is short. */
Holdfast__V1__GetAgentStatusResponse *report_make(const struct report_facts *facts);
