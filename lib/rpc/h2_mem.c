/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/h2_mem.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void *map(struct h2_mem *mem, size_t n)
{
	void *pages = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		return NULL;
	mem->pages = pages;
	mem->n_pages_bytes = n;
	return pages;
}

/* A block that the allocator has given. */
static void *add(struct h2_mem *mem, void *block)
{
	mem->n_bytes += malloc_usable_size(block);
	return block;
}

static void *allocate(size_t n, void *userdata)
{
	struct h2_mem *mem = userdata;

	return n >= H2_MEM_LARGE && !mem->pages ? map(mem, n) : add(mem, malloc(n));
}

static void free_block(void *block, void *userdata)
{
	struct h2_mem *mem = userdata;

	if (!block || block != mem->pages) {
		mem->n_bytes -= malloc_usable_size(block);
		free(block);
		return;
	}
	(void)munmap(block, mem->n_pages_bytes);
	mem->pages = NULL;
}

/* A table: small, or no frame's. */
static void *allocate_zeroed(size_t n, size_t size, void *userdata)
{
	return add(userdata, calloc(n, size));
}

static void *resize(void *block, size_t n, void *userdata)
{
	struct h2_mem *mem = userdata;
	void *other;

	if (!block)
		return allocate(n, mem); /* as nghttp2 takes its buffers */
	if (block != mem->pages) {
		size_t before = malloc_usable_size(block);

		other = realloc(block, n);
		if (other)
			mem->n_bytes -= before;
		return add(mem, other);
	}
	other = add(mem, malloc(n));
	if (!other)
		return NULL;
	memcpy(other, block, n < mem->n_pages_bytes ? n : mem->n_pages_bytes);
	free_block(block, mem);
	return other;
}

nghttp2_mem h2_mem_of(struct h2_mem *mem)
{
	return (nghttp2_mem){
		.mem_user_data = mem,
		.malloc = allocate,
		.free = free_block,
		.calloc = allocate_zeroed,
		.realloc = resize,
	};
}
