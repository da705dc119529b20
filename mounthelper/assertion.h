/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A failed assert(3) of any part that is linked, in place of the C library's, whose abort would leave no
 * record and needs system calls that the filter kills for. It is a death like any other: the kernel
 * drops an unfinished mount, or the same request repairs it, docs/helper-review.md. */

#include "helper.h"

/** From now on a failed assertion ends with a record of @h, STOP with file and line, and MH_EXIT_ASSERTION.
 * Before, it counts as a failed start. */
void assertion_arm(struct helper *h);
