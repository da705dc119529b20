/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A node's plugins in a folder of the test, with models of plugins behind the sockets. */

#include "fake_csi.h"
#include "temp_dir.h"
#include "unit_loop.h"

#include "plugins/plugins.h"

#include <systemd/sd-event.h>

#define ALLOC_A "0190a5a0-0000-7000-8000-0000000000a1"
#define ALLOC_B "0190a5a0-0000-7000-8000-0000000000b2"

enum { YARD_IDS_MAX = 24 };

struct yard {
	char dir[TEMP_DIR_SIZE];
	sd_event *event;
	struct plugins *plugins;
	/* seen */
	unsigned int changes;
	unsigned int stores; /* calls that stored something */
	unsigned int drops;
	char last_dropped[PLUGIN_ID_MAX + 1];
	struct node_plugin stored;
	unsigned int met, failed; /* expectations */
	char last_met[UUID_TEXT_SIZE], last_met_plugin[PLUGIN_ID_MAX + 1];
	struct error last_failure;
	unsigned int ready, not_ready; /* waits */
	struct error last_wait;
	bool forgets_upon_failure, forgets_when_met;
	unsigned int n_ended; /* calls, each of whose ends forgets: */
	const char *forgotten;
};

int yard_setup(void **state); /* empty, not started */
int yard_teardown(void **state);

/** Make plugins as after a start of the agent; @probe_interval_us 0: none within the test. */
void yard_open(struct yard *y, uint64_t probe_interval_us);
void yard_start(struct yard *y); /* with the folder there */
void yard_close(struct yard *y);

/** "<dir>/<id>/<name>", until the next call. */
const char *yard_path(const struct yard *y, const char *id, const char *name);

void yard_mkdir(struct yard *y, const char *id);
void yard_rmdir(struct yard *y, const char *id);

/** Bind a socket, in a folder that is made if need be. */
void yard_bind(struct yard *y, const char *id, const char *name);
void yard_unbind(struct yard *y, const char *id, const char *name);

/** A model behind it, and the socket. */
struct fake_csi_plugin *yard_plugin(struct yard *y, const char *id, const char *name);

/** Its entry in the fingerprint; NULL: none. Until the next call. */
const struct node_plugin *yard_entry(const struct yard *y, const char *id);

/** The instance as status shows it; NULL: none. Until the next call. */
const struct plugin_instance_info *yard_instance(const struct yard *y, const char *id, const char *name);

bool yard_is_healthy(const struct yard *y, const char *id);
enum status yard_client(const struct yard *y, const char *id, enum plugin_half half);

#define YARD_UNTIL(y, condition) RUN_UNTIL((y)->event, condition)

/** Delays between retries are an hour from now on, but for the first of each kind; or short again. */
void yard_slow(struct yard *y, bool is_slow);

/** Run the loop for a while. */
void yard_idle(struct yard *y, unsigned int ms);

#define YARD_TEST(name) TEST_ON(name, struct yard, y, yard_setup, yard_teardown)
