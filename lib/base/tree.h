/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Ordered maps: the red-black trees of <bsd/sys/tree.h>, with functions private to one source file. */

#include <bsd/sys/tree.h> /* IWYU pragma: export */

/* RB_GENERATE_STATIC of Debian's libbsd does not compile: it uses __unused, which is not defined there. */
#define TREE_GENERATE(name, type, field, compare) \
	RB_GENERATE_INTERNAL(name, type, field, compare, static __attribute__((unused)))
