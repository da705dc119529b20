/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include "unit.h"

#include <fcntl.h>
#include <inttypes.h>

/* Larger ones are a sanitizer's own. */
static const uint64_t MAPPING_MAX = UINT64_C(1) << 28;

static bool range_holds(int memory, uint64_t from, uint64_t to, const void *bytes, size_t n)
{
	char window[1 << 16]; /* on the stack: the heap is what is searched */

	while (from < to) {
		size_t size = to - from < sizeof(window) ? (size_t)(to - from) : sizeof(window);
		ssize_t got = pread(memory, window, size, (off_t)from);

		if (got <= 0)
			return false; /* nothing can be there */
		if (memmem(window, (size_t)got, bytes, n))
			return true;
		if ((size_t)got < n || from + (size_t)got >= to)
			return false;
		from += (size_t)got - (n - 1);
	}
	return false;
}

static bool is_searched(const char *line, uint64_t *ret_from, uint64_t *ret_to)
{
	char rights[5], name[64] = "";
	uint64_t inode;

	/* NOLINTNEXTLINE(cert-err34-c): the kernel's own numbers */
	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %*s %*s %" SCNu64 " %63s", ret_from, ret_to, rights,
		   &inode, name) < 4)
		fail_msg("/proc/self/maps: %s", line);
	return rights[0] == 'r' && rights[1] == 'w' && inode == 0 &&
	       (name[0] == '\0' || strcmp(name, "[heap]") == 0) && *ret_to - *ret_from <= MAPPING_MAX;
}

bool memory_holds(const void *bytes, size_t n)
{
	cleanup_close int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	char buffer[4096], line[512];
	FILE *maps = fopen("/proc/self/maps", "re");
	bool holds = false;
	uint64_t from, to;

	assert_in_range(n, 1, MEMORY_TEXT_MAX);
	assert_true(memory >= 0);
	assert_non_null(maps);
	assert_int_equal(setvbuf(maps, buffer, _IOFBF, sizeof(buffer)), 0);
	while (!holds && fgets(line, sizeof(line), maps))
		holds = is_searched(line, &from, &to) && range_holds(memory, from, to, bytes, n);
	(void)fclose(maps);
	return holds;
}
