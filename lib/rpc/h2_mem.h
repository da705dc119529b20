/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The memory of an nghttp2 session, with one block of it on pages of its own.
 *
 * Every session has a buffer for the largest frame, 16 KiB, and writes a few hundred bytes at its beginning:
 * bodies do not pass through it. Untouched pages that no other block shares take no memory. */

#include <nghttp2/nghttp2.h>
#include <stddef.h>

enum { H2_MEM_LARGE = 16 * 1024 }; /* from here on a block gets pages, while no other has them */

struct h2_mem {
	void *pages; /* NULL: no block has any */
	size_t n_pages_bytes;
	size_t n_bytes; /* of all other blocks that are there */
};

/** The allocator for nghttp2; @mem is borrowed, and must outlive the session. */
nghttp2_mem h2_mem_of(struct h2_mem *mem);
