/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What bench_nodes is to say of allocations, and tells of its sessions, in a file that whoever measures maps
 * as well. */

#include <stdatomic.h>
#include <stdint.h>

/* Nodes are at addresses 127.0.1.1 and on, as many at each: servers take so many handshakes of one address.
 */
enum { NODES_MAP_MAX = 20000, NODES_PER_ADDRESS = 200 };

struct nodes_map {
	/* of the store: allocation i runs on node i % n_nodes */
	uint32_t n_nodes, n_allocs;
	_Atomic(uint32_t) n_up;
	/* monotonic, of each node's session: when it began last, and when it was lost last; 0: never */
	_Atomic(uint64_t) up_us[NODES_MAP_MAX];
	_Atomic(uint64_t) down_us[NODES_MAP_MAX];
};
