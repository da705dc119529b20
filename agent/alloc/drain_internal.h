/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Shared by drain.c, which knows when a drain ends, and drain_report.c, which tells how it goes. */

#include "alloc/drain.h"

/* A volume of an allocation that had not ended when the drain began. */
struct drain_volume {
	char volume_id[VOLUME_ID_MAX + 1];
	char namespace[NAMESPACE_MAX + 1];
	char alloc_id[UUID_TEXT_SIZE];
	char claim_id[UUID_TEXT_SIZE]; /* empty: none is known */
	uint32_t slot;
};

struct agent_drain {
	struct drain_env env;
	bool is_under_way;
	bool is_refusing; /* new allocations */
	bool is_server_given;
	bool is_time_over;
	int64_t started_ms;
	int64_t deadline_ms;
	struct drain_volume *volumes; /* of the drain under way */
	size_t n_volumes;
	sd_event_source *look_timer;
	sd_event_source *end_timer;
	sd_event_source *server_timer;
	Holdfast__V1__AgentDrain *last; /* ended; NULL: none */
};

/** Will the plugin that an allocation runs be called for others yet? */
bool drain_plugin_is_needed(const struct agent_drain *drain, const struct alloc_record *runs_it);

/** How the drain under way stands. NULL when memory is short; protobuf_c_message_free_unpacked() */
Holdfast__V1__AgentDrain *drain_make(struct agent_drain *drain, enum drain_state state);

/** A message of its own with the same content; NULL when memory is short. */
Holdfast__V1__AgentDrain *drain_copy(const Holdfast__V1__AgentDrain *from);

/** The last result to its file, and back: *@ret NULL when there is none. */
enum status drain_store(const struct agent_drain *drain, const Holdfast__V1__AgentDrain *result,
			struct error *err);
enum status drain_load(const struct agent_drain *drain, Holdfast__V1__AgentDrain **ret, struct error *err);
