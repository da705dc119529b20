/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The agent runs without privilege, or not at all. */

#include "base/error.h"

#include <stdint.h>
#include <sys/types.h>

/** STATUS_FAILED_PRECONDITION for uid 0 or any capability. Pure. */
enum status privileges_check(uid_t uid, uint64_t effective, uint64_t permitted, struct error *err);

/** privileges_check() of this process. */
enum status privileges_check_self(struct error *err);
