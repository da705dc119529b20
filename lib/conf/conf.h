/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Configuration and specification files: an HCL subset or JSON, read into a JSON tree that knows its lines.
 *
 * Subset: `key = value` and `key: value`, blocks with at most one label, lists, objects, strings with
 * escapes, heredocs, integers, reals, booleans, null, three comment forms. No expressions, no variables: "${"
 * is refused, unless the caller keeps it. A file whose first non-blank byte is '{' is JSON.
 *
 * In the tree a block is an object and repeated blocks are an array of objects; blocks with labels are
 * members, named by their labels, of one object, so `volume "a" { }` is {"volume": {"a": {}}}. */

#include "base/cleanup.h"
#include "base/error.h"
#include "conf/templates.h"

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	CONF_SIZE_MAX = 1 << 20, /* bytes of a file */
	CONF_DROPINS_MAX = 256,	 /* files of a drop-in folder */
	CONF_FIELDS_MAX = 64,	 /* of one conf_bind() table */
};

struct conf; /* a document */

/** Parse @text. @name for messages, "agent.hcl". Errors begin with "NAME:LINE: ", all of a text at once.
 * @ret owned by the caller, conf_free() */
enum status conf_parse(const char *text, const char *name, struct conf **ret, struct error *err);

/** Parse the file at @path; "-" is standard input. */
enum status conf_load(const char *path, struct conf **ret, struct error *err);

/** Load @path as conf_load() does, but keep templates, and keep mistakes for conf_mistakes(): the tree has
 * all the rest, or nothing if the end of the text is missing. */
enum status conf_load_whole(const char *path, enum conf_templates templates, struct conf **ret,
			    struct error *err);

/** The same of the open file @fd, whose name is @path; negative: it is opened. */
enum status conf_load_open(int fd, const char *path, enum conf_templates templates, struct conf **ret,
			   struct error *err);

/** The same of @text. */
enum status conf_parse_whole(const char *text, const char *name, enum conf_templates templates,
			     struct conf **ret, struct error *err);

/** STATUS_INVALID_ARGUMENT with the mistakes that conf_load_whole() kept, or STATUS_OK. */
enum status conf_mistakes(const struct conf *conf, struct error *err);

/** Read the file at @path, which only root can change: it and the folders above it. @what describes the file
 * in the error, "names the switches of nodes". @ret free() */
enum status conf_read_trusted(const char *path, const char *what, char **ret, struct error *err);

/** Load @path, then every *.hcl and *.json of @dropin_dir in lexical order, later values replacing earlier
 * ones (objects are merged, lists replaced). A missing folder is fine, a missing main file is not. */
enum status conf_load_merged(const char *path, const char *dropin_dir, struct conf **ret, struct error *err);

/** The drop-in folder of the file at @path: "/etc/x.hcl" has "/etc/x.d". */
enum status conf_dropin_dir(const char *path, char ret[static PATH_MAX], struct error *err);

/** Is a file of this name in that folder one of those? */
bool conf_is_dropin(const char *name);

void conf_free(struct conf *conf);
DEFINE_CLEANUP(struct conf, conf_free)

/** The tree; borrowed. */
json_t *conf_root(const struct conf *conf);

/** The line of member @key of @object, or of @object if it has no such member or @key is NULL; 0: not known.
 */
unsigned int conf_line(const struct conf *conf, const json_t *object, const char *key);

/** Is member @key of @object written as blocks with labels? */
bool conf_is_labelled(const struct conf *conf, const json_t *object, const char *key);

/** Fill @err with "FILE:LINE: <message>" for member @key of @object (a node of the tree), for @object when it
 * has no such member or @key is NULL, or for the whole file when both are unknown. Returns
 * STATUS_INVALID_ARGUMENT. */
enum status conf_error(const struct conf *conf, const json_t *object, const char *key, struct error *err,
		       const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/** conf_error() for a key that does not exist, with the closest of the @n @known ones. */
enum status conf_unknown_key(const struct conf *conf, const json_t *object, const char *key,
			     const char *const *known, size_t n, struct error *err);

enum conf_type {
	CONF_STRING,   /* char[size] */
	CONF_PATH,     /* char[size]: absolute and normalised */
	CONF_BOOL,     /* bool */
	CONF_U32,      /* uint32_t, within [min, max] */
	CONF_U64,      /* uint64_t, within [min, max] */
	CONF_SIZE,     /* uint64_t bytes, "10GiB" or a number, within [min, max] */
	CONF_DURATION, /* uint64_t microseconds, "90s", within [min, max] */
	CONF_STRINGS,  /* char[max][size] from a list of strings that are not empty; ends with an empty one
			* unless it is full */
	CONF_BLOCKS, /* `key "label" { }` blocks handed to the callback, or bound by fields, one by one; label
		      * NULL without one */
};

struct conf_field {
	const char *key;
	enum conf_type type;
	size_t offset;	   /* of the member in the bound struct */
	size_t size;	   /* of the array, for strings; of each one, for lists of them */
	uint64_t min, max; /* max 0: no limit but the type's */
	bool required;
	enum status (*block)(const struct conf *conf, const char *label, json_t *body, void *target,
			     struct error *err);
	const struct conf_field *fields; /* of blocks without a callback, bound into the same target */
	size_t n_fields;
};

/** Fill @target from @object by a table: unknown keys (with the closest known one), wrong types, values out
 * of range and missing required keys are errors with file and line. Members whose key is absent keep their
 * value, so put defaults there first. @target may be half filled on failure. */
enum status conf_bind(const struct conf *conf, json_t *object, const struct conf_field *fields,
		      size_t n_fields, void *target, struct error *err);
