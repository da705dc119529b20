/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Is an allocation one that can be? Pure. */

#include "base/error.h"
#include "model/alloc.h"

/** Check a submission; contradictions name both fields. No node: it is to be placed. Read-only under a writer
 * mode is none: the mode says who may share the volume, not what this allocation does with it. */
enum status alloc_validate(const struct alloc *alloc, struct error *err);
