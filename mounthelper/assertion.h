/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A failed assert(3) of any part that is linked, in place of the C library's, whose abort would leave no
 * record and needs system calls that the filter kills for. It is a death like any other: what is half done is
 * dropped by the kernel or mended by the same request, docs/helper-review.md. */

#include "helper.h"

/** What fails from now on ends with a record of @h, STOP with file and line, and MH_EXIT_ASSERTION. Before,
 * it is a start that failed. */
void assertion_arm(struct helper *h);
