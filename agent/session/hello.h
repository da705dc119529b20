/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The first message of a session: everything the node knows. */

#include "alloc/allocs.h"
#include "session/fingerprint.h"

#include <holdfast/v1/nodes.pb-c.h>
#include <stdbool.h>

/* Above this size the hello leaves out descriptions, paths and mounts, which follow one by one. */
enum { HELLO_BYTES_MAX = 768 << 10 };

struct hello_facts {
	const char *node_id;
	const char *boot_id;
	const char *kernel;
	const char *machine;
	const struct message_list *attributes; /* KeyValue */
	struct fingerprint_facts fingerprint;
	const struct allocs *allocs;
	const Holdfast__V1__Mark *mark; /* NULL: no mark yet */
};

/** @ret_is_short set when the hello leaves something out and every status must be sent after it
 * Returns what protobuf_c_message_free_unpacked() frees; NULL when memory is short. */
Holdfast__V1__SessionHello *hello_make(const struct hello_facts *facts, bool *ret_is_short);

/** @is_short without description and paths. Freed likewise; NULL when memory is short. */
Holdfast__V1__AllocStatus *hello_alloc_status(const struct alloc *alloc, bool is_short);
