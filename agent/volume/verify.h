/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Is a publish what was asked for? Decided from two witnesses: the helper's reply, read from the kernel in
 * its own namespace, and this process's mount table. Pure. */

#include "base/error.h"
#include "kernel/mount_table.h"
#include "model/modes.h"

#include <stdbool.h>
#include <stdint.h>

struct verify_wanted {
	const char *path;
	bool read_only;
	bool exec;
	enum propagation propagation;
};

struct verify_reply {
	uint16_t state; /* MH_STATE_* */
	uint32_t dev_major;
	uint32_t dev_minor;
};

/** STATUS_FAILED_PRECONDITION names the path and the difference.
 *
 * Propagation is judged only by the helper's reply: in another mount namespace than the host's, our own copy
 * of the mount may rightly be a slave or a peer of copies of its own. */
enum status verify_publish(const struct verify_wanted *wanted, const struct verify_reply *reply,
			   const struct mount_view *view, struct error *err);
