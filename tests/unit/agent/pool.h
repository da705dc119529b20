/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A pool of mount helpers that are models, and what became of the requests. */

#include "fake_helper_client.h"
#include "unit.h"

#include "helper/client.h"

#include <systemd/sd-event.h>

#define POOL_ALLOC "0190a5a0-0000-7000-8000-000000000001"

enum { POOL_RESULTS_MAX = 128 };

struct pool {
	struct fake_helper fake;
	sd_event *event;
	struct helper_client *client;
	bool was_down; /* no instance took requests at some time after the first did */
	unsigned int ready, down, stale;
	struct error last_down;
	struct request *requests; /* of pool.c */
	unsigned int n_requests, n_results;
	struct result {
		const char *name;
		uint16_t op;
		bool is_answered;
		uint16_t status; /* of the answer */
		struct error err;
	} results[POOL_RESULTS_MAX];
};

int pool_setup(void **state);
int pool_teardown(void **state);

/** Start it: in launch mode socket if the fake has a socket. */
void pool_make(struct pool *f, unsigned int instances, uint64_t request_timeout_ms);

typedef bool pool_condition(struct pool *f);
/** Run the loop until @is_met, or until *@counter is at least @n; ten seconds are a failure. */
void pool_until(struct pool *f, pool_condition *is_met);
void pool_count(struct pool *f, const unsigned int *counter, unsigned int n);

/** Run the loop for a while in which nothing of note may happen. */
void pool_idle(struct pool *f);

void pool_ask(struct pool *f, enum mh_op op, const char *volume, enum helper_lane lane);
/** The same in the normal lane, of a volume of @group. */
void pool_ask_of(struct pool *f, enum mh_op op, const char *volume, const char *group);
/** The same of an NFS server. */
void pool_ask_nfs(struct pool *f, enum mh_op op, const char *volume, const char *server);

/** What fails: the first @calls requests about volumes that begin with @volume. */
void pool_inject(struct pool *f, enum fake_fault fault, const char *volume, uint32_t calls);
