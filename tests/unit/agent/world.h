/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A whole agent in the test's process, between a model of the server and a model of the mount helper. */

#include "agent.h"
#include "fake_helper_client.h"
#include "model_server.h"
#include "records.h"
#include "temp_dir.h"
#include "unit.h"

#include "kernel/path_look.h"

#include <holdfast/v1/agent.pb-c.h>
#include <stdbool.h>
#include <systemd/sd-event.h>

#define ALLOC_A "0190a5a0-0000-7000-8000-0000000000a1"
#define ALLOC_B "0190a5a0-0000-7000-8000-0000000000b2"

struct world {
	struct fake_helper fake;
	struct model_server server;
	struct config config;
	sd_event *event;
	struct agent *agent;
	bool superblock_lives; /* of every block device, as /sys/fs shows it */
	bool sysfs_fails;      /* of devices that are there */
	int seen_errno;
	enum path_state seen; /* what a look at a publish gives; PATH_MOUNTED: what the helper's model has */
	unsigned int looks;   /* at publishes */
	struct path_space space; /* of every publish */
	bool is_fs_stopped;	 /* every one: an error stopped writes */

	/* of volumes of class nfs4: what is staged is in the kernel's list, and is so with nosharecache */
	bool nfs_lives;		   /* every NFS superblock, also when it is no longer staged */
	bool nfs_list_is_foreign;  /* it shows nothing of ours */
	bool nfs_list_fails;	   /* it cannot be read */
	bool nfs_is_shared;	   /* without nosharecache */
	bool nfs_number_is_reused; /* as the mount table shows */
	const char *nfs_elsewhere; /* where the mount table has the number; NULL: nowhere */
};

/* One certificate authority for all tests of the program. */
int world_group_setup(void **state);
int world_group_teardown(void **state);

/** Everything stopped, nothing started. */
struct world *world_new(void);
/** Fails the test on any violation. */
void world_free(struct world *w);
int world_setup(void **state); /* with a server */
int world_teardown(void **state);

/** Server gone and back on the same port, with what it knew; or back only. */
void world_restart_server(struct world *w);
void world_start_server(struct world *w);

/** Where the certificates are. */
const char *world_pki(void);

void world_start_agent(struct world *w);
/** As if killed: what was not yet on the disk may be lost, nothing is tidied up. */
void world_kill_agent(struct world *w);

typedef bool world_condition(struct world *w);
/** Run the loop until @condition holds; 20 seconds are a failure that prints @what. */
void world_until(struct world *w, const char *what, world_condition *condition);
#define WORLD_UNTIL(w, condition) world_until((w), #condition, (condition))

/** For a loop of a test's own: until when it may wait, and one turn of the event loop, which fails after that
 * and prints @what. Heartbeats turn the loop too, so a number of turns is no bound. */
uint64_t world_deadline(void);
void world_turn(struct world *w, uint64_t deadline_us, const char *what);

/** Run @n turns of the loop, or until @condition holds; true: it does. */
bool world_turns(struct world *w, unsigned int n, world_condition *condition);

/** Run the loop for a while in which nothing of note may happen. */
void world_idle(struct world *w, unsigned int ms);

/** Name of volume @volume towards the helper. */
const char *world_wire(const char *volume);

/** The agent's own report; protobuf_c_message_free_unpacked() */
Holdfast__V1__GetAgentStatusResponse *world_report(struct world *w);

const char *world_boot_id(void);

#define WORLD_TEST(name) TEST_ON(name, struct world, w, world_setup, world_teardown)
