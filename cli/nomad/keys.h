/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The keys of Nomad's job files, and what they are here. One table serves the hints of specifications, `job
 * import` and docs/nomad-keys.md, which tests/docs/check_docs.py compares with it. Pure. */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum nomad_block {
	NOMAD_NONE,
	NOMAD_FILE,
	NOMAD_JOB,
	NOMAD_GROUP,
	NOMAD_TASK,
	NOMAD_VOLUME,
	NOMAD_VOLUME_MOUNT,
	NOMAD_CSI_PLUGIN,
	NOMAD_NETWORK,
	NOMAD_UPDATE,
	NOMAD_RESCHEDULE,
	NOMAD_RESTART,
	NOMAD_RESOURCES,
	NOMAD_LOGS,
	NOMAD_CONFIG, /* of the docker and podman drivers */
	NOMAD_CONSTRAINT,
	NOMAD_BLOCK_N,
};

enum nomad_fate {
	NOMAD_TAKEN,   /* it means the same here */
	NOMAD_CHANGED, /* its meaning has another form here, which `job import` writes */
	NOMAD_DROPPED, /* a job runs without it */
	NOMAD_REFUSED, /* a job without it would be another one: a person must decide */
};

struct nomad_key {
	enum nomad_block block;
	const char *key;
	enum nomad_fate fate;
	const char *text; /* what to use instead, or why it is not needed; NULL if it is taken */
};

/** The rows, in the order of the page. */
size_t nomad_key_count(void);
const struct nomad_key *nomad_key_at(size_t i);

/** The row of @key; NULL: Nomad's @block has no such key. */
const struct nomad_key *nomad_find_key(enum nomad_block block, const char *key);

/** Has the file @root a key of Nomad that Holdfast lacks, in the file, a job, a group or a task? */
bool nomad_has_keys(const json_t *root);
