/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A CSI client of a plugin that does as it is reported, on one event loop. */

#include "plugin.h"

#include "base/clock.h"
#include "csi/csi_client.h"

#include <csi/v1/csi.pb-c.h>

enum { TEXT_SIZE = 512 };

struct csi_world {
	sd_event *event;
	struct plugin plugin;
	struct service_client *client;
};

int csi_world_setup(void **state);
int csi_world_teardown(void **state);

/* How a call ended. */
struct end {
	size_t n_done;
	bool is_answered;
	struct error err;
	char text[TEXT_SIZE]; /* of the answer */
	struct csi_world *world;
	bool frees; /* the client, in its done */
	struct service_call *call;
};

/** A call of @method about the volume "vol-1", where it has one. */
enum status csi_world_start(struct csi_world *world, enum csi_method method, uint64_t timeout_us,
			    struct end *end, struct error *err);

/** The same, to its end. */
void csi_world_call(struct csi_world *world, enum csi_method method, uint64_t timeout_us, struct end *end);

/** Run the event loop until @count is at least @n; a test that waits too long fails. */
void csi_world_run(struct csi_world *world, const size_t *count, size_t n);

/** Run what is due now. */
void csi_world_settle(struct csi_world *world);

void csi_world_done(const ProtobufCMessage *response, const struct error *err, void *userdata);

#define WORLD_TEST(name) TEST_ON(name, struct csi_world, world, csi_world_setup, csi_world_teardown)
