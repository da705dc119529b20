/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Filter expressions over the fields of a message, as lists take them:
 *
 *   plugin_id == "nfs" and not (schedulable == true or capacity == 0)
 *   requested_capabilities.access_mode == single-node-writer
 *   parameters.tier != gold and "backup" in parameters and topologies is not empty
 *
 *   or     = and ("or" and)*
 *   and    = unary ("and" unary)*
 *   unary  = "not" unary | "(" or ")" | match
 *   match  = field ("==" | "!=" | ["not"] "contains") value | value ["not"] "in" field
 *          | field "is" ["not"] "empty"
 *   field  = name ("." name | "[" value "]")*
 *   value  = characters of A-Z a-z 0-9 _ - . / : + | "text" with \" and \\ | `text`
 *
 * Names are those of the .proto file or of JSON (plugin_id, pluginId). A way that leads through a list means
 * any of its elements; "!=" and "not" are the opposite of the whole. `contains` and `in` look for a part of a
 * text, an element of a list, a key of a map. Enums are compared by name, in the .proto file's spelling or as
 * people write them ("service" for JOB_TYPE_SERVICE). The grammar is go-bexpr's as Nomad uses it, without
 * `matches`. */

#include "base/error.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>

enum {
	FILTER_TEXT_MAX = 4096, /* bytes of the expression */
	FILTER_DEPTH_MAX = 32,	/* parentheses and "not" within each other */
	FILTER_NODES_MAX = 256, /* comparisons and the operators that join them */
	FILTER_PATH_MAX = 8,	/* names in one field */
};

struct filter;

/** Read @text as an expression over messages of @descriptor. Costs memory and time in proportion to @text.
 * STATUS_INVALID_ARGUMENT names the column, counted in bytes from 1. @ret owned by the caller, filter_free().
 */
enum status filter_new(const char *text, const ProtobufCMessageDescriptor *descriptor, struct filter **ret,
		       struct error *err);
void filter_free(struct filter *filter);

/** Does @message, of the filter's descriptor, match? Costs the number of comparisons times what they look at.
 */
bool filter_matches(struct filter *filter, const ProtobufCMessage *message);

/** Has the filter looked at as many values as one page of a list may cost, a few milliseconds? The page ends
 * then, with a token. NULL, no filter: false. */
bool filter_is_spent(const struct filter *filter);
