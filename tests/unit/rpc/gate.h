/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A man in the middle of a unix socket: passes bytes on, in pieces, or not at all. */

#include "world.h"

enum { GATE_PAIRS = 16 };

struct gate {
	struct world *world;
	char path[WORLD_PATH_SIZE];
	int listen_fd;
	sd_event_source *listen_io;
	size_t piece;	     /* most bytes passed on at once; 0: as they come */
	bool shut;	     /* nothing is passed on any more, and nothing is told */
	size_t cut_up_after; /* bytes from client to server until both sides are closed; 0: never */
	size_t n_pairs;
	struct gate_pair {
		struct gate *gate;
		int fds[2]; /* client, server */
		sd_event_source *io[2];
		size_t up;
	} pairs[GATE_PAIRS];
};

void gate_open(struct gate *gate, struct world *world);
void gate_close(struct gate *gate);

/** A client that goes through the gate. */
struct rpc_client *gate_client(struct gate *gate);

/** Run @body with a gate that is open and a client that goes through it, which @body frees. */
void gate_run(struct world *world,
	      void (*body)(struct world *world, struct gate *gate, struct rpc_client *client));

/* A case with a gate that is open and a client that goes through it. */
#define GATE_TEST(name)                                                                      \
	static void name(struct world *world, struct gate *gate, struct rpc_client *client); \
	WORLD_TEST_AS(name, gate_run(*state, name))                                          \
	static void name(struct world *world, struct gate *gate, struct rpc_client *client)
