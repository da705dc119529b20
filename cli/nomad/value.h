/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Values of a file that was read with CONF_EXPRESSIONS: variables and locals are replaced by their values.
 * Pure. */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { NOMAD_WHY_SIZE = 192 };

/* The references of Holdfast that may stay in a value. */
enum nomad_references {
	NOMAD_NO_REFERENCES,
	NOMAD_OWN_REFERENCES, /* of the allocation and the id of its node: in config */
	NOMAD_ALL_REFERENCES, /* those that the node reports too: in env */
};

/* The names that expressions can use. */
struct nomad_scope {
	enum nomad_references references;
	const json_t *variables; /* blocks, by label */
	const json_t *locals;	 /* a block, or NULL */
	const json_t *values;	 /* of variables, texts that replace their defaults; or NULL */
	json_t *ports;		 /* numbers by label, of the group; or NULL */
	unsigned int depth;	 /* of variables and locals that name others */
	size_t cost;		 /* of all values so far: their number and bytes */
};

/** The value of @value, in which all expressions are replaced but the references that may stay. Returns NULL
 * if one is not evaluated, with the reason in @ret_why. Owned by the caller, json_decref(). */
json_t *nomad_value(struct nomad_scope *scope, const json_t *value, char ret_why[static NOMAD_WHY_SIZE]);

/* The type that a key takes. */
enum nomad_type { NOMAD_TEXT, NOMAD_INTEGER, NOMAD_BOOL, NOMAD_TEXTS };

/** Convert a value without expressions as Nomad does: "2" is a number, 2 is a text, one text is a list. NULL:
 * it has another type. Owned by the caller, json_decref(). */
json_t *nomad_convert(json_t *value, enum nomad_type type);

/** Print @value in HCL, on one line. Owned by the caller, free(); NULL when memory is short.
 */
char *nomad_print(const json_t *value);
