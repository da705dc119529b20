/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Constraints of an allocation on its node: an attribute, an operator and a value. A node reports its
 * attributes, so that they decide on placement only. Pure. */

#include "base/error.h"
#include "model/alloc.h"
#include "model/message.h"
#include "model/reference.h"

#include <holdfast/v1/types.pb-c.h>
#include <stdbool.h>

enum { CONSTRAINT_TEXT_SIZE = 256 };

/** Part of alloc_validate(). Each constraint has a known attribute, an operator of the table, and the value
 * that the operator needs. */
enum status alloc_validate_constraints(const struct alloc *alloc, struct error *err);

/** True: the node meets those of the @n @constraints that look at its attributes, so all but distinct_hosts.
 */
bool constraints_allow_node(Holdfast__V1__Constraint *const *constraints, size_t n, const char *node_id,
			    const struct message_list *attributes);

/** The first constraint of @alloc that the node does not meet, as text in @ret: "attr.cpu.arch = arm64, and
 * it is amd64". False: the node meets all. An attribute that the node lacks meets "is_not_set" and "!=" only.
 * @n_same  live allocations of the same group that the node has, for distinct_hosts */
bool constraints_find_unmet(const struct alloc *alloc, const char *node_id,
			    const struct message_list *attributes, size_t n_same,
			    char ret[static CONSTRAINT_TEXT_SIZE]);
