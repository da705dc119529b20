/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The texts of a task that a container engine reads: a closed alphabet for each, in one table.
 *
 * An engine may split a text at commas, colons, quotes or newlines. No text that it could split leaves the
 * server, and the driver refuses it again. Pure. */

#include <holdfast/driver/v1/driver.pb-c.h>
#include <stdbool.h>

#define TASK_DRIVER_CONTAINER "container"

enum task_text {
	TASK_TEXT_DESTINATION, /* a path in the task on which something is mounted */
	TASK_TEXT_SOURCE,      /* a path of the host */
	TASK_TEXT_WORK_DIR,
	TASK_TEXT_HOSTNAME,
	TASK_TEXT_IMAGE,
	TASK_TEXT_USER,
	TASK_TEXT_ENV_NAME,
	TASK_TEXT_ENV_VALUE,
	TASK_TEXT_CAPABILITY,
	TASK_TEXT_SIGNAL,
	TASK_TEXT_SOCKET, /* name of a CSI plugin's socket in its folder */
	TASK_TEXT_ARGUMENT,
	TASK_TEXT_N
};

bool task_text_is_right(enum task_text kind, const char *text);

/** The valid form: ends the sentence "FIELD 'TEXT' is not ...". */
const char *task_text_rule(enum task_text kind);

struct task_text_fault {
	const char *field;
	const char *text; /* of the task */
	enum task_text kind;
};

/** Has @task a text that no engine may get? @ret is the first one. In `config` those of driver container. */
bool task_text_find_fault(const Holdfast__Driver__V1__TaskConfig *task, struct task_text_fault *ret);
