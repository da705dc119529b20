/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Jobs as tests submit and look at them. */

#include "cluster.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/jobs.pb-c.h>

#define JOBS (&holdfast__v1__jobs__descriptor)

/* A job of one group with volume db; tests change what they are about. */
struct submission {
	Holdfast__V1__RunJobRequest request;
	Holdfast__V1__Job job;
	Holdfast__V1__JobGroup group, *groups[1];
	Holdfast__V1__JobUpdate update;
	Holdfast__V1__JobReschedule reschedule;
	Holdfast__V1__Allocation alloc;
	Holdfast__V1__CsiPlugin plugin, *plugins[1];
	Holdfast__V1__VolumeRequest volume, *volumes[1];
	char *per_alloc[1];
};

/** Writable, for protobuf-c. */
char *text(const char *s);

/** Job web, a service of one member on volume db. Good as long as @s. */
void make_job(struct fixture *f, struct submission *s);

/** The version that it is; 0 when it was refused. */
uint64_t run(struct fixture *f, const struct submission *s, struct error *err);

/** Job web; the caller's. */
Holdfast__V1__GetJobResponse *get(struct fixture *f);

/** Is job web in @state, with so many that wait? */
bool is_in(struct fixture *f, const char *state, size_t n_waits);
enum status stop_job(struct fixture *f, bool purge, struct error *err);

/** Allocations of job web, ended ones too. */
size_t n_allocs(struct fixture *f);

/** Volume db, and both nodes. */
void connect_both(struct fixture *f);

/** Its node has started the allocation that it was given last. */
void start_last(struct fixture *f, struct fake_node *node);

/** And has ended it, with everything. */
void end(struct fixture *f, struct fake_node *node, const char *id);
