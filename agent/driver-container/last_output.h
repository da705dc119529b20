/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Keeps the last output of tasks whose containers are gone: a file each in the driver's state folder, in the
 * engine's frames.
 *
 * The files show why a task ended. They are not synced; the oldest of the namespace that has most is removed
 * first. */

#include "frames.h"

#include "base/error.h"
#include "base/strbuf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	LAST_OUTPUT_MAX = 48 << 10, /* bytes of a task, with their frames */
	LAST_OUTPUT_LINES = 1000,   /* what the engine is asked for */
	LAST_OUTPUT_TASKS = 256,
};

struct last_output {
	struct frames frames;
	struct strbuf bytes; /* whole frames */
	bool is_broken;	     /* the engine sent something else: what came before it stays */
};

void last_output_init(struct last_output *output);
void last_output_release(struct last_output *output);

/** Take the @n bytes that the engine sent next; of all the last LAST_OUTPUT_MAX stay. */
void last_output_put(struct last_output *output, const uint8_t *bytes, size_t n);

/** Saves the output of task @task of allocation @alloc, in place of its previous one; without output it saves
 * nothing.
 * @state_dir the driver's
 * @namespace of the task, id_is_name(); empty: not known */
enum status last_output_save(const char *state_dir, const char *namespace, const char *alloc,
			     const char *task, const struct last_output *output, struct error *err);

struct last_output_wish {
	bool has_stdout;
	bool has_stderr;
	uint32_t tail; /* lines; 0: all */
};

/** Reads the saved output, as frames of the wanted streams.
 * @ret initialized with room for LAST_OUTPUT_MAX
 * STATUS_NOT_FOUND when there is no output of that task in that namespace */
enum status last_output_load(const char *state_dir, const char *namespace, const char *alloc,
			     const char *task, const struct last_output_wish *wish, struct strbuf *ret,
			     struct error *err);
