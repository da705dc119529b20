#pragma once
/* The lock-down: own uid, two capabilities, nothing to gain any more, and the filter of filter.h. */

#include "base/error.h"

#include <stdint.h>

/** Become @uid and @gid with exactly CAP_SYS_ADMIN and CAP_AUDIT_WRITE, an empty bounding set, locked
 * securebits and no_new_privs, and check that the kernel says so. */
enum status sandbox_drop(uint32_t uid, uint32_t gid, struct error *err);
