/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Is an allocation one that can be? Pure. */

#include "base/error.h"
#include "model/alloc.h"

/** Check a submission; contradictions name both fields. An empty node is allowed: the server places it.
 * Read-only under a writer mode is no contradiction: the mode defines who may share the volume, not how this
 * allocation uses it. */
enum status alloc_validate(const struct alloc *alloc, struct error *err);
