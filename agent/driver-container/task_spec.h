/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A task's own settings, `config` of TaskConfig, by one table: the answer of ConfigSchema and the accepted
 * keys. */

#include "base/error.h"

#include <holdfast/driver/v1/driver.pb-c.h>
#include <stdbool.h>
#include <stddef.h>

/* Borrows from the message that it was read from. */
struct task_spec {
	const Holdfast__Driver__V1__TaskConfig *task;
	const Holdfast__Driver__V1__ConfigValue *image;
	const Holdfast__Driver__V1__ConfigValue *command; /* NULL: not given, as all below */
	const Holdfast__Driver__V1__ConfigValue *args;
	const Holdfast__Driver__V1__ConfigValue *work_dir;
	const Holdfast__Driver__V1__ConfigValue *hostname;
	const Holdfast__Driver__V1__ConfigValue *cap_add;
	const Holdfast__Driver__V1__ConfigValue *host_paths; /* path on the host to path in the task */
	const Holdfast__Driver__V1__ConfigValue *privileged;
	const Holdfast__Driver__V1__ConfigValue *read_only_root;
	const Holdfast__Driver__V1__ConfigValue *init;
};

/** STATUS_INVALID_ARGUMENT names the field, and what would be right. */
enum status task_spec_read(const Holdfast__Driver__V1__TaskConfig *task, struct task_spec *ret,
			   struct error *err);

/** The fields of a task's config; @ret_n how many. */
Holdfast__Driver__V1__ConfigField *const *task_spec_schema(size_t *ret_n);

/** The number of a signal's name, as in SIGHUP; 0: no task gets it. */
int signal_number(const char *name);
