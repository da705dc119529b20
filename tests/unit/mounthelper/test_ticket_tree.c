/* SPDX-License-Identifier: Apache-2.0 */
/* What the claim server makes, against what the mount helper takes: two programs that share no code. */

#include "fixture.h"

#include "ticket/ticket.h"

#include <openssl/evp.h>

TEST(the_servers_tree_is_that_of_rfc_9162)
{
	static const struct fixture_tree right = FIXTURE_TREE;
	const struct mh_stage req = fixture_stage();
	struct ticket made[TICKET_BATCH_MAX], wanted[TICKET_BATCH_MAX], *tickets[TICKET_BATCH_MAX];

	for (size_t n = 1; n <= TICKET_BATCH_MAX; n++) {
		struct ticket_root root;

		for (size_t i = 0; i < n; i++) {
			made[i] = req.ticket;
			made[i].generation = i;
			memset(made[i].path, 0xff, sizeof(made[i].path)); /* of a batch before */
			wanted[i] = made[i];
			tickets[i] = &made[i];
		}
		fixture_sign_tree(wanted, n, &right);
		root = ticket_tree_make(EVP_sha256(), tickets, n);
		for (size_t i = 0; i < n; i++) {
			struct ticket_root found;

			assert_int_equal(made[i].place, wanted[i].place);
			assert_memory_equal(made[i].path, wanted[i].path, sizeof(made[i].path));
			assert_true(ticket_tree_root(EVP_sha256(), &wanted[i], &found));
			assert_memory_equal(&found, &root, sizeof(root));
		}
	}
}

TEST(a_ticket_of_the_server_is_good_for_the_helper)
{
	static const struct fixture_tree right = FIXTURE_TREE;
	const struct mh_stage req = fixture_stage();
	struct ticket need = {.magic = TICKET_MAGIC,
			      .version = TICKET_VERSION,
			      .cluster = "demo",
			      .node = "node-1",
			      .boot_id = FIXTURE_BOOT_ID_BYTES,
			      .volume = "vol-1",
			      .alloc = FIXTURE_ALLOC_BYTES,
			      .profile = "db"};
	struct ticket_keys keys = {.n = 1};
	struct ticket t[TICKET_BATCH_MAX], *tickets[TICKET_BATCH_MAX];

	memcpy(keys.key[0], fixture_public_key(0), TICKET_KEY_SIZE);
	ticket_source_digest(&req.source, need.source_digest);
	for (size_t n = 1; n <= TICKET_BATCH_MAX; n++) {
		for (size_t i = 0; i < n; i++) {
			t[i] = req.ticket;
			t[i].generation = i;
			tickets[i] = &t[i];
		}
		fixture_sign_tree(t, n, &right); /* the signature; place and path anew by the server */
		(void)ticket_tree_make(EVP_sha256(), tickets, n);
		for (size_t i = 0; i < n; i++)
			assert_int_equal(ticket_check(&t[i], &need, &keys, FIXTURE_NOW_MS), REASON_NONE);
	}
}

/* OpenSSL's needs memory; without it the tree is the same. */
TEST(a_hash_that_fails_is_computed_in_another_way)
{
	const struct mh_stage req = fixture_stage();
	struct ticket t = req.ticket, *ticket = &t;
	struct ticket_root root, other;

	root = ticket_tree_make(EVP_sha256(), &ticket, 1);
	other = ticket_tree_make(NULL, &ticket, 1);
	assert_memory_equal(&root, &other, sizeof(root));
}
