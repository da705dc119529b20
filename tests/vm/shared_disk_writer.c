/* SPDX-License-Identifier: Apache-2.0 */
/* Writes numbered blocks to a file on a shared disk until the machine ends: the writer of a node that is
 * fenced. */

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK_SIZE = 4096 };

/* As BLOCK in power_fence.py: the writer, which block of the file it is, and its place in the writer's
 * sequence. */
struct block {
	char magic[8];
	uint64_t writer, index, sequence;
};

int main(int argc, char **argv)
{
	struct block *block = aligned_alloc(BLOCK_SIZE, BLOCK_SIZE);
	struct stat st;
	int fd = argc == 3 ? open(argv[1], O_WRONLY | O_DIRECT | O_CLOEXEC) : -1;

	if (fd < 0 || !block || fstat(fd, &st) < 0 || st.st_size < BLOCK_SIZE) {
		(void)fprintf(stderr, "usage: %s FILE WRITER; FILE has blocks of %d bytes\n", argv[0],
			      BLOCK_SIZE);
		return 2;
	}
	memset(block, 'w', BLOCK_SIZE);
	memcpy(block->magic, "HFSHARED", sizeof(block->magic));
	block->writer = strtoull(argv[2], NULL, 10);
	for (block->sequence = 1;; block->sequence++) {
		block->index = block->sequence % ((uint64_t)st.st_size / BLOCK_SIZE);
		if (pwrite(fd, block, BLOCK_SIZE, (off_t)block->index * BLOCK_SIZE) != BLOCK_SIZE) {
			perror("pwrite");
			return 1;
		}
	}
}
