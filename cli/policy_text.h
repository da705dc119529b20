/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A first policy for the mount helper of one machine, for root to read and to change. */

#include <stdbool.h>
#include <stdint.h>

struct policy_words {
	const char *cluster; /* id_is_name() */
	const char *node;
	const char *ticket_key; /* 64 hex digits */
	uint32_t agent_uid;
	uint32_t helper_uid;
	uint32_t helper_gid;
	bool is_container; /* the machine has not the kernel's first pid namespace */
};

enum { POLICY_TEXT_SIZE = 8192 };

/** Write the text of mounthelper.policy(5) with the trees that the packages make. Returns its length, or
 * -ENOSPC. */
int policy_text(const struct policy_words *words, char ret[static POLICY_TEXT_SIZE]);
