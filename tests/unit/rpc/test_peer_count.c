/* SPDX-License-Identifier: Apache-2.0 */
#include "../unit.h"
#include "rpc/peer_count.h"

TEST(a_peer_may_have_as_many_as_the_limit_and_one_more_when_one_is_gone)
{
	struct peer_count_tree tree = RB_INITIALIZER(&tree);
	struct peer_count *counts[3];
	bool full = true;

	for (size_t i = 0; i < 3; i++) {
		counts[i] = peer_count_enter(&tree, "n1", 3, &full);
		assert_non_null(counts[i]);
		assert_false(full);
	}
	assert_null(peer_count_enter(&tree, "n1", 3, &full));
	assert_true(full);
	peer_count_leave(&tree, counts[0]);
	counts[0] = peer_count_enter(&tree, "n1", 3, &full);
	assert_non_null(counts[0]);
	for (size_t i = 0; i < 3; i++)
		peer_count_leave(&tree, counts[i]);
	assert_true(RB_EMPTY(&tree));
	peer_count_leave(&tree, NULL);
}

TEST(peers_do_not_count_for_each_other)
{
	struct peer_count_tree tree = RB_INITIALIZER(&tree);
	static const char *const names[] = {"n1", "n10", "n", ""};
	struct peer_count *counts[4];
	bool full = true;

	for (size_t i = 0; i < 4; i++) {
		counts[i] = peer_count_enter(&tree, names[i], 1, &full);
		assert_non_null(counts[i]);
	}
	for (size_t i = 0; i < 4; i++)
		assert_ptr_equal(peer_count_find(&tree, names[i]), counts[i]);
	for (size_t i = 0; i < 4; i++)
		peer_count_leave(&tree, counts[i]);
	assert_null(peer_count_find(&tree, "n1"));
	assert_true(RB_EMPTY(&tree));
}

TEST(a_limit_of_zero_admits_no_peer)
{
	struct peer_count_tree tree = RB_INITIALIZER(&tree);
	bool full = false;

	assert_null(peer_count_enter(&tree, "n1", 0, &full));
	assert_true(full);
	assert_true(RB_EMPTY(&tree));
}
