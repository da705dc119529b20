/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A start that fails because the disk of the journal takes no write: waits for room instead of ending. */

#include "config.h"

#include "base/error.h"

enum disk_wait {
	DISK_WAIT_NOT_THE_REASON, /* nothing was waited for */
	DISK_WAIT_TAKES_WRITES,	  /* start again */
	DISK_WAIT_ENDED,	  /* by SIGTERM or SIGINT, which the caller has blocked */
};

/** The start failed with @why. While it waits, the service manager and the local socket have the reason. */
enum disk_wait disk_wait(const struct config *config, const struct error *why);
