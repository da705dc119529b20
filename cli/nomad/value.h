/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Values of a file that was read with CONF_EXPRESSIONS: variables and locals are replaced by their values.
 * Pure. */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { NOMAD_WHY_SIZE = 192 };

/* The names that expressions can use. */
struct nomad_scope {
	const json_t *variables; /* blocks, by label */
	const json_t *locals;	 /* a block, or NULL */
	const json_t *values;	 /* of variables, texts that replace their defaults; or NULL */
	json_t *ports;		 /* numbers by label, of the group; or NULL */
	unsigned int depth;	 /* of locals that name locals */
};

/** The value of @value, in which all expressions are replaced but those of the node and the allocation, which
 * Holdfast replaces when it places a member. Returns NULL if one is not evaluated, with the reason in
 * @ret_why.
 * @keeps_references may such expressions stay?
 * Owned by the caller, json_decref(). */
json_t *nomad_value(struct nomad_scope *scope, const json_t *value, bool keeps_references,
		    char ret_why[static NOMAD_WHY_SIZE]);

/** Print @value in HCL, on one line. Owned by the caller, free(); NULL when memory is short.
 */
char *nomad_print(const json_t *value);
