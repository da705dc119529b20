/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Attributes and metadata of this node, for the server's placement: attr.kernel.name, meta.rack. */

#include "model/reference.h"

#include <stdbool.h>
#include <stddef.h>

enum { NODE_META_MAX = 32 };

/* An entry of the block meta of the settings. */
struct node_meta {
	char name[NODE_ATTRIBUTE_NAME_MAX + 1]; /* "meta.rack" */
	char value[NODE_ATTRIBUTE_VALUE_MAX + 1];
};

/** The attributes of this machine, and @meta. An attribute that cannot be read is left out.
 * @ret owned by the caller, message_list_unref(). False when memory is short. */
bool attributes_read(const struct node_meta *meta, size_t n, struct message_list **ret);
