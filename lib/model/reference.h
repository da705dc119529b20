/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* References in the texts of a task, ${NOMAD_ALLOC_ID} and ${meta.rack}: in the values of `env` and `config`.
 * The server replaces them when it orders the task. "$${" is the text "${".
 *
 * The server knows the values of the allocation itself. Attributes and metadata are reported by the node,
 * which may lie: they are only for `env`, and have a closed alphabet without '/'. Pure. */

#include "base/error.h"
#include "model/alloc.h"
#include "model/message.h"

#include <holdfast/driver/v1/driver.pb-c.h>
#include <stdbool.h>
#include <stddef.h>

enum {
	NODE_ATTRIBUTES_MAX = 64,
	NODE_ATTRIBUTE_NAME_MAX = 63,
	NODE_ATTRIBUTE_VALUE_MAX = 127,
	REFERENCE_WANTS_MAX = 32,
};

/* The values that tasks want of their node, each once. */
struct reference_wants {
	struct reference_want {
		const char *task; /* borrowed; the first that wants it */
		char name[NODE_ATTRIBUTE_NAME_MAX + 1];
	} list[REFERENCE_WANTS_MAX];
	size_t n;
};

/** Is there a reference of this name? Those that begin with "meta." are known whether a node has them or not.
 */
bool reference_is_known(const char *name);

/** Is it one whose value the node reports? */
bool reference_is_of_node(const char *name);

/** "attr.NAME" or "meta.NAME", of letters, digits and . _ -; up to NODE_ATTRIBUTE_NAME_MAX. */
bool node_attribute_name_is_valid(const char *name);

/** Up to NODE_ATTRIBUTE_VALUE_MAX letters, digits, blanks and . _ - + : ~ ( ). */
bool node_attribute_value_is_valid(const char *value);

/** The value of @name among @attributes, which are KeyValue, or NULL. */
const char *node_attribute(const struct message_list *attributes, const char *name);

/** Replace all references in @task, which is on the heap and of @alloc. STATUS_INVALID_ARGUMENT names an
 * unknown reference, or one in the wrong place; STATUS_FAILED_PRECONDITION one that the node does not report.
 * @attributes  of the node, KeyValue
 * @is_check    the node and the allocation's id are not known yet: another text is in their place */
enum status reference_replace(Holdfast__Driver__V1__TaskConfig *task, const struct alloc *alloc,
			      const struct message_list *attributes, bool is_check, struct error *err);

/** Collects the values that the tasks of @alloc want of their node. Costs the texts of their `env`.
 * STATUS_INVALID_ARGUMENT: they are more than REFERENCE_WANTS_MAX. */
enum status reference_collect(const struct alloc *alloc, struct reference_wants *ret, struct error *err);
