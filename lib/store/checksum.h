/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* FNV-1a: every step is one to one, so that no change of one byte leaves the sum as it was, and it costs a
 * multiplication per byte. Against disks and memory, not against people, who could compute it too. */

#include <stddef.h>
#include <stdint.h>

#define CHECKSUM_INIT UINT64_C(0xcbf29ce484222325)

/** Adds @n bytes to @sum; @bytes may be NULL if @n is 0. */
static inline uint64_t checksum_add(uint64_t sum, const void *bytes, size_t n)
{
	const uint8_t *p = bytes;

	for (size_t i = 0; i < n; i++)
		sum = (sum ^ p[i]) * UINT64_C(0x100000001b3);
	return sum;
}
