/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Values at an address that need not be aligned for them, such as the fields of a struct that only a
 * descriptor describes. */

#include <stdint.h>
#include <string.h>

static inline uint32_t get_u32(const char *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static inline uint64_t get_u64(const char *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return value;
}

static inline const void *get_pointer(const char *at)
{
	const void *value;

	memcpy(&value, at, sizeof(value));
	return value;
}
