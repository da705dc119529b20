/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Ordered maps: the red-black trees of <bsd/sys/tree.h>, with functions private to one source file. */

#include <bsd/sys/tree.h> /* IWYU pragma: export */

/* RB_GENERATE_STATIC of Debian's libbsd does not compile: it uses __unused, which is not defined there. */
#define TREE_GENERATE(name, type, field, compare) \
	RB_GENERATE_INTERNAL(name, type, field, compare, static __attribute__((unused)))

/* TREE_FIRST(head, field, at, cond) is the first entry for which @cond, an expression of its pointer @at,
 * holds, or NULL if it holds for no entry. @cond must hold for all entries behind that one. */
/* NOLINTBEGIN(bugprone-macro-parentheses): @at is declared */
#define TREE_FIRST(head, field, at, cond)                                                     \
	__extension__({                                                                       \
		__typeof__(RB_ROOT(head)) at = RB_ROOT(head);                                 \
		__typeof__(at) tree_first_ = NULL;                                            \
                                                                                              \
		while (at)                                                                    \
			at = (cond) ? RB_LEFT(tree_first_ = at, field) : RB_RIGHT(at, field); \
		tree_first_;                                                                  \
	})
/* NOLINTEND(bugprone-macro-parentheses) */
