/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* References in the texts of a task, ${NOMAD_ALLOC_ID} and ${node.unique.name}: names of the allocation and
 * of the attributes of its node. Pure. */

#include <stdbool.h>

/** Is there a reference of this name? All of metadata are known, "meta.NAME", whether a node has them or not.
 */
bool reference_is_known(const char *name);
