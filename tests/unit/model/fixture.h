/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Model values that are valid as they are; tests change what they are about. */

#include "unit.h"

#include "base/str.h"
#include "model/admission.h"

#include <string.h>

#define ALLOC_1 "01890000-0000-7000-8000-000000000001"
#define ALLOC_2 "01890000-0000-7000-8000-000000000002"
#define BOOT_1 "b0010000-0000-4000-8000-000000000001"
#define BOOT_2 "b0010000-0000-4000-8000-000000000002"

static inline struct volume a_volume(void)
{
	struct volume v = {
		.id = "db",
		.namespace = NAMESPACE_DEFAULT,
		.name = "db",
		.external_id = "db",
		.type = VOLUME_NATIVE,
		.plugin_id = PLUGIN_NATIVE,
		.profile = "disk",
		.source = {.class = SOURCE_BLOCK, .by_id = "holdfast-db"},
		.capabilities = {{SINGLE_NODE_WRITER, ATTACHMENT_FILE_SYSTEM}},
		.n_capabilities = 1,
	};

	return v;
}

/* Its lists have room for the most; they are good until so many more are made. */
static inline struct alloc an_alloc(const char *id, const char *node)
{
	enum { ALIVE = 8 };
	static struct volume_request volumes[ALIVE][ALLOC_VOLUMES_MAX];
	static struct alloc_volume published[ALIVE][ALLOC_VOLUMES_MAX];
	static unsigned int next;
	unsigned int place = next++ % ALIVE;
	struct alloc a = {
		.namespace = NAMESPACE_DEFAULT,
		.name = "app",
		.driver = "none",
		.volumes = volumes[place],
		.n_volumes = 1,
		.published = published[place],
		.desired_status = DESIRED_RUN,
		.client_status = CLIENT_PENDING,
	};

	memset(volumes[place], 0, sizeof(volumes[place]));
	memset(published[place], 0, sizeof(published[place]));
	a.volumes[0] = (struct volume_request){.name = "data",
					       .source = "db",
					       .access_mode = SINGLE_NODE_WRITER,
					       .attachment_mode = ATTACHMENT_FILE_SYSTEM};
	assert_int_equal(str_copy(a.id, sizeof(a.id), id), 0);
	assert_int_equal(str_copy(a.node_id, sizeof(a.node_id), node), 0);
	return a;
}

static inline struct node_plugin a_node_plugin(void)
{
	return (struct node_plugin){.plugin_id = PLUGIN_NATIVE,
				    .profile = "disk",
				    .class = SOURCE_BLOCK,
				    .healthy = true,
				    .has_node = true};
}

static inline struct node a_node(const char *id)
{
	struct node n = {
		.boot_id = BOOT_1,
		.status = NODE_READY,
	};

	assert_int_equal(str_copy(n.id, sizeof(n.id), id), 0);
	return n;
}

static inline struct claim a_claim(enum claim_state state)
{
	struct claim c = {
		.id = "01890000-0000-7000-8000-00000000c001",
		.volume_id = "db",
		.namespace = NAMESPACE_DEFAULT,
		.external_id = "db",
		.plugin_id = PLUGIN_NATIVE,
		.profile = "disk",
		.allocation_id = ALLOC_1,
		.node_id = "n1",
		.boot_id = BOOT_1,
		.external_node_id = "ext-n1",
		.mode = CLAIM_WRITE,
		.access_mode = SINGLE_NODE_WRITER,
		.attachment_mode = ATTACHMENT_FILE_SYSTEM,
		.generation = 3,
		.state = state,
		.sent_to_node = true,
		.create_time_ms = 1000,
	};

	return c;
}
