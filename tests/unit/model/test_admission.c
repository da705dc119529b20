/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#define AS(mode) ((struct capability){mode, ATTACHMENT_FILE_SYSTEM})

/* One world: volume db, allocation 2 on node n2 asking for it. */
struct world {
	struct volume volume;
	struct alloc alloc;
	struct node node;
	struct node_plugin plugin;
	struct claim held;
	const struct claim *claims[1];
	struct admission in;
};

static void make_world(struct world *w)
{
	w->volume = a_volume();
	w->alloc = an_alloc(ALLOC_2, "n2");
	w->node = a_node("n2");
	w->plugin = a_node_plugin();
	w->held = a_claim(CLAIM_TAKEN);
	w->claims[0] = &w->held;
	w->in = (struct admission){
		.volume_id = "db",
		.volume = &w->volume,
		.alloc = &w->alloc,
		.alloc_id = ALLOC_2,
		.node = &w->node,
		.plugin = &w->plugin,
		.volume_name = "data",
		.claims = w->claims,
		.n_claims = 0,
		.now_ms = 91000,
	};
}

static enum status check(const struct world *w, struct error *err)
{
	const struct claim *same = NULL;

	return admission_check(&w->in, &same, err);
}

TEST(a_free_volume_is_granted)
{
	struct world w;

	make_world(&w);
	assert_int_equal(check(&w, NULL), STATUS_OK);
}

TEST(each_check_has_its_own_error)
{
	struct world w;
	struct error err;

	make_world(&w);
	w.in.volume = NULL;
	assert_int_equal(check(&w, &err), STATUS_NOT_FOUND);
	make_world(&w);
	w.in.alloc = NULL;
	assert_error(check(&w, &err), STATUS_NOT_FOUND, err, ALLOC_2);
	make_world(&w);
	w.node = a_node("n3");
	assert_int_equal(check(&w, &err), STATUS_PERMISSION_DENIED);
	make_world(&w);
	w.in.volume_name = "other";
	assert_int_equal(check(&w, &err), STATUS_PERMISSION_DENIED);
	make_world(&w);
	w.alloc.desired_status = DESIRED_STOP;
	assert_int_equal(check(&w, &err), STATUS_FAILED_PRECONDITION);
	make_world(&w);
	w.alloc.client_status = CLIENT_FAILED;
	assert_int_equal(check(&w, &err), STATUS_FAILED_PRECONDITION);
	make_world(&w);
	w.alloc.volumes[0].access_mode = MULTI_NODE_MULTI_WRITER;
	assert_error(check(&w, &err), STATUS_FAILED_PRECONDITION, err, "multi-node-multi-writer");
	make_world(&w);
	w.in.plugin = NULL;
	assert_int_equal(check(&w, &err), STATUS_UNAVAILABLE);
	make_world(&w);
	w.plugin.healthy = false;
	assert_int_equal(check(&w, &err), STATUS_UNAVAILABLE);
	make_world(&w);
	assert_int_equal(str_copy(w.alloc.namespace, sizeof(w.alloc.namespace), "other"), 0);
	assert_int_equal(check(&w, &err), STATUS_PERMISSION_DENIED);
}

TEST(a_second_writer_error_names_holder_and_next_step)
{
	struct world w;
	struct error err;

	make_world(&w);
	w.in.n_claims = 1;
	assert_error(check(&w, &err), STATUS_FAILED_PRECONDITION, err, ALLOC_1);
	assert_non_null(strstr(err.msg, "node n1"));
	assert_non_null(strstr(err.msg, "claim taken"));
	assert_non_null(strstr(err.msg, "holdfast alloc status " ALLOC_1));
	assert_null(strstr(err.msg, "holdfast alloc stop")); /* it may be somebody's running database */
}

TEST(a_holder_on_a_lost_node_keeps_the_volume_in_every_live_state)
{
	for (int s = CLAIM_RESERVED; s < CLAIM_FREED; s++) {
		const struct holder lost = {.is_connected = false, .is_stopping = true};
		struct world w;
		struct error err;

		make_world(&w);
		w.held.state = (enum claim_state)s;
		w.in.n_claims = 1;
		w.in.holders = &lost;
		assert_int_equal(check(&w, &err), STATUS_FAILED_PRECONDITION);
		if (s <= CLAIM_UNPUBLISHING) /* beyond it the node has released it */
			assert_non_null(strstr(err.msg, "--attest"));
	}
}

TEST(the_same_allocation_gets_its_own_claim_again)
{
	struct world w;
	const struct claim *same = NULL;

	make_world(&w);
	w.in.n_claims = 1;
	assert_int_equal(str_copy(w.held.allocation_id, sizeof(w.held.allocation_id), ALLOC_2), 0);
	assert_int_equal(str_copy(w.held.node_id, sizeof(w.held.node_id), "n2"), 0);
	w.in.plugin = NULL; /* a repeat does not depend on the plugin */
	assert_int_equal(admission_check(&w.in, &same, NULL), STATUS_ALREADY_EXISTS);
	assert_ptr_equal(same, &w.held);
	w.held.state = CLAIM_UNPUBLISHING;
	assert_int_equal(check(&w, NULL), STATUS_FAILED_PRECONDITION);
	w.held.state = CLAIM_NODE_DETACHED; /* its node never had it: it will get another one */
	w.held.evidence = EVIDENCE_NEVER_SENT;
	assert_int_equal(check(&w, NULL), STATUS_UNAVAILABLE);
}

TEST(an_allocation_gets_no_claim_again_that_has_another_mode)
{
	struct world w;
	struct error err;

	make_world(&w);
	w.in.n_claims = 1;
	assert_int_equal(str_copy(w.held.allocation_id, sizeof(w.held.allocation_id), ALLOC_2), 0);
	assert_int_equal(str_copy(w.held.node_id, sizeof(w.held.node_id), "n2"), 0);
	w.held.access_mode = MULTI_NODE_MULTI_WRITER;
	assert_error(check(&w, &err), STATUS_FAILED_PRECONDITION, err, "holdfast alloc stop " ALLOC_2);
	w.held.access_mode = w.alloc.volumes[0].access_mode;
	assert_int_equal(check(&w, NULL), STATUS_ALREADY_EXISTS);
	w.alloc.volumes[0].read_only = true;
	assert_error(check(&w, &err), STATUS_FAILED_PRECONDITION, err, "holds it for write");
}

TEST(another_attachment_mode_than_the_holders_is_refused)
{
	struct world w;
	struct error err;

	make_world(&w);
	w.volume.capabilities[0].access_mode = MULTI_NODE_MULTI_WRITER;
	w.alloc.volumes[0].access_mode = MULTI_NODE_MULTI_WRITER;
	w.held.access_mode = MULTI_NODE_MULTI_WRITER;
	w.in.n_claims = 1;
	assert_int_equal(check(&w, NULL), STATUS_OK);
	w.held.attachment_mode = ATTACHMENT_BLOCK_DEVICE;
	assert_error(check(&w, &err), STATUS_FAILED_PRECONDITION, err, "attached as block-device");
}

/* A node may report a claim for an allocation of another node. */
TEST(a_claim_of_another_node_is_not_the_allocations_own)
{
	struct world w;
	struct error err;

	make_world(&w);
	w.in.n_claims = 1;
	assert_int_equal(str_copy(w.held.allocation_id, sizeof(w.held.allocation_id), ALLOC_2), 0);
	assert_error(check(&w, &err), STATUS_FAILED_PRECONDITION, err, "is not free");
}

/* The claim is the allocation's own whatever others have. */
TEST(a_holder_gets_its_claim_again_beside_another_attachment)
{
	struct world w;
	const struct claim *same = NULL;
	struct claim other = a_claim(CLAIM_TAKEN);
	const struct claim *both[] = {&other, &w.held};

	make_world(&w);
	assert_int_equal(str_copy(w.held.allocation_id, sizeof(w.held.allocation_id), ALLOC_2), 0);
	assert_int_equal(str_copy(w.held.node_id, sizeof(w.held.node_id), "n2"), 0);
	other.attachment_mode = ATTACHMENT_BLOCK_DEVICE;
	w.in.claims = both;
	w.in.n_claims = 2;
	assert_int_equal(admission_check(&w.in, &same, NULL), STATUS_ALREADY_EXISTS);
	assert_ptr_equal(same, &w.held);
	w.held.attachment_mode = ATTACHMENT_BLOCK_DEVICE;
	assert_int_equal(admission_check(&w.in, &same, NULL), STATUS_FAILED_PRECONDITION);
}

/* Rows: access mode of both sides. Columns: held read / write, and the newcomer's mode and node.
 * The table of Nomad (nomad-facts 2.5) with node identity, and the two single-node writer modes. */
TEST(room_beside_one_holder)
{
	/* same node: rr rw wr ww, other node: rr rw wr ww (held mode first) */
	static const struct {
		enum access_mode mode;
		const char *room;
	} rows[] = {
		{SINGLE_NODE_READER_ONLY, "........"},	 {SINGLE_NODE_WRITER, ".+......"},
		{SINGLE_NODE_SINGLE_WRITER, "........"}, {SINGLE_NODE_MULTI_WRITER, "++++...."},
		{MULTI_NODE_READER_ONLY, "+...+..."},	 {MULTI_NODE_SINGLE_WRITER, "+++.+++."},
		{MULTI_NODE_MULTI_WRITER, "++++++++"},
	};

	for (size_t r = 0; r < ARRAY_SIZE(rows); r++) {
		for (int i = 0; i < 8; i++) {
			struct claim held = a_claim(CLAIM_TAKEN);
			const struct claim *claims[] = {&held};
			const struct claim *blocker;
			const char *node = i < 4 ? "n1" : "n2";
			enum claim_mode mode = (i & 1) != 0 ? CLAIM_WRITE : CLAIM_READ;

			held.mode = (i & 2) != 0 ? CLAIM_WRITE : CLAIM_READ;
			held.access_mode = rows[r].mode;
			if (held.mode == CLAIM_WRITE && !access_mode_is_writer(rows[r].mode))
				continue; /* nobody holds such a claim */
			assert_int_equal(
				admission_has_room(AS(rows[r].mode), mode, node, claims, 1, &blocker),
				rows[r].room[i] == '+');
		}
	}
}

TEST(a_csi_volume_is_in_one_access_mode_on_a_node)
{
	static const enum access_mode modes[] = {SINGLE_NODE_MULTI_WRITER, MULTI_NODE_READER_ONLY,
						 MULTI_NODE_SINGLE_WRITER, MULTI_NODE_MULTI_WRITER};
	struct claim held = a_claim(CLAIM_TAKEN);
	const struct claim *claims[] = {&held};

	(void)str_copy(held.plugin_id, sizeof(held.plugin_id), "nfs");
	held.mode = CLAIM_READ;
	for (size_t h = 0; h < ARRAY_SIZE(modes); h++)
		for (size_t n = 0; n < ARRAY_SIZE(modes); n++) {
			const struct claim *blocker = NULL;

			held.access_mode = modes[h];
			assert_int_equal(
				admission_has_room(AS(modes[n]), CLAIM_READ, "n1", claims, 1, &blocker),
				h == n);
			assert_ptr_equal(blocker, h == n ? NULL : &held);
		}
	/* elsewhere it is another attachment */
	held.access_mode = MULTI_NODE_MULTI_WRITER;
	held.mode = CLAIM_WRITE;
	assert_true(admission_has_room(AS(MULTI_NODE_READER_ONLY), CLAIM_READ, "n2", claims, 1,
				       &(const struct claim *){NULL}));
	assert_true(admission_has_room(AS(MULTI_NODE_MULTI_WRITER), CLAIM_READ, "n1", claims, 1,
				       &(const struct claim *){NULL}));
}

TEST(a_refused_reader_only_claim_names_the_mode_to_request)
{
	struct world w;
	struct error err;

	make_world(&w);
	w.volume.capabilities[0].access_mode = MULTI_NODE_READER_ONLY;
	w.alloc.volumes[0].access_mode = MULTI_NODE_READER_ONLY;
	w.alloc.volumes[0].read_only = true;
	(void)str_copy(w.held.plugin_id, sizeof(w.held.plugin_id), "nfs");
	w.held.access_mode = MULTI_NODE_MULTI_WRITER;
	w.held.mode = CLAIM_READ;
	w.in.n_claims = 1;
	assert_int_equal(check(&w, NULL), STATUS_OK); /* it is on n1, this is on n2 */
	(void)str_copy(w.held.node_id, sizeof(w.held.node_id), "n2");
	assert_error(check(&w, &err), STATUS_FAILED_PRECONDITION, err,
		     "attached to node n2 as multi-node-multi-writer by allocation " ALLOC_1);
	assert_non_null(strstr(err.msg, "ask for multi-node-multi-writer there (with read_only = true"));
	assert_null(strstr(err.msg, "alloc stop")); /* its holder does nothing wrong */
}

TEST(the_holders_rules_bind_the_newcomer_too)
{
	struct claim held = a_claim(CLAIM_TAKEN);
	const struct claim *claims[] = {&held};
	const struct claim *blocker = NULL;

	held.access_mode = MULTI_NODE_READER_ONLY;
	held.mode = CLAIM_READ;
	assert_false(admission_has_room(AS(MULTI_NODE_MULTI_WRITER), CLAIM_WRITE, "n2", claims, 1, &blocker));
	assert_ptr_equal(blocker, &held);
	assert_true(admission_has_room(AS(MULTI_NODE_MULTI_WRITER), CLAIM_READ, "n2", claims, 1, &blocker));
}

TEST(claims_of_a_former_machine_leave_no_room_on_a_single_node)
{
	static const struct {
		enum access_mode mode;
		enum claim_mode held;
		bool same, other; /* is there room for a writer of the same machine, of another one */
	} rows[] = {
		{SINGLE_NODE_WRITER, CLAIM_READ, true, false},
		{SINGLE_NODE_MULTI_WRITER, CLAIM_WRITE, true, false},
		{MULTI_NODE_MULTI_WRITER, CLAIM_WRITE, true, true},
	};

	for (size_t r = 0; r < ARRAY_SIZE(rows); r++) {
		struct claim held = a_claim(CLAIM_UNPUBLISHING), newer = a_claim(CLAIM_TAKEN);
		const struct claim *claims[] = {&held};
		const struct claim *blocker;

		held.access_mode = newer.access_mode = rows[r].mode;
		held.mode = rows[r].held;
		newer.mode = CLAIM_WRITE;
		assert_true(admission_has_room(AS(rows[r].mode), CLAIM_WRITE, "n1", claims, 1, &blocker));
		held.other_machine = true;
		assert_false(
			admission_are_rivals(&held, &newer)); /* both of the former machine, in one boot */
		(void)str_copy(newer.boot_id, sizeof(newer.boot_id), BOOT_2);
		assert_int_equal(admission_has_room(AS(rows[r].mode), CLAIM_WRITE, "n1", claims, 1, &blocker),
				 rows[r].other);
		assert_int_equal(admission_are_rivals(&held, &newer), !rows[r].other);
		assert_int_equal(admission_are_rivals(&newer, &held), !rows[r].other);
		held.other_machine = false;
		assert_int_equal(admission_are_rivals(&newer, &held), !rows[r].same);
	}
}

/* A reader of single-node-writer has room for a writer beside it, a writer none for a reader. */
TEST(claims_are_rivals_when_in_neither_order_there_was_room_for_both)
{
	struct claim a = a_claim(CLAIM_TAKEN);
	struct claim b = a_claim(CLAIM_TAKEN);

	a.access_mode = b.access_mode = SINGLE_NODE_WRITER;
	a.mode = CLAIM_READ;
	b.mode = CLAIM_WRITE;
	assert_false(admission_are_rivals(&a, &b));
	assert_false(admission_are_rivals(&b, &a));
	a.mode = CLAIM_WRITE;
	assert_true(admission_are_rivals(&a, &b));
	a.access_mode = b.access_mode = SINGLE_NODE_MULTI_WRITER;
	assert_false(admission_are_rivals(&a, &b));
	(void)str_copy(b.node_id, sizeof(b.node_id), "n2");
	assert_true(admission_are_rivals(&a, &b));
	b.access_mode = MULTI_NODE_MULTI_WRITER;
	assert_true(admission_are_rivals(&a, &b));
	assert_true(admission_are_rivals(&b, &a));
	a.access_mode = MULTI_NODE_MULTI_WRITER;
	assert_false(admission_are_rivals(&a, &b));
}
