/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "state/state.h"

#include <time.h>

static struct volume volume(const char *namespace, const char *id)
{
	struct volume v = {0};

	(void)str_copy(v.namespace, sizeof(v.namespace), namespace);
	(void)str_copy(v.id, sizeof(v.id), id);
	return v;
}

static struct claim claim(int n, const char *volume_id, enum claim_state state)
{
	struct claim c = {.namespace = "default", .node_id = "n1", .state = state};

	(void)str_format(c.id, sizeof(c.id), "01890000-0000-7000-8000-%012d", n);
	(void)str_format(c.allocation_id, sizeof(c.allocation_id), "01890000-0000-7000-9000-%012d", n);
	(void)str_copy(c.volume_id, sizeof(c.volume_id), volume_id);
	return c;
}

TEST(volumes_are_found_whole_and_walked_in_order_by_namespace)
{
	static const char *const ids[] = {"db", "db1", "da", "db-2"};
	cleanup(state_release) struct state world;
	struct volume_entry *entry;

	state_init(&world);
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		struct volume a = volume("default", ids[i]);
		struct volume b = volume("other", ids[i]);

		assert_int_equal(state_put_volume(&world, &a, NULL), STATUS_OK);
		assert_int_equal(state_put_volume(&world, &b, NULL), STATUS_OK);
	}
	assert_int_equal(world.n_volumes, 8);
	assert_string_equal(state_volume(&world, "default", "db")->volume.id, "db");
	assert_null(state_volume(&world, "default", "d"));
	assert_null(state_volume(&world, "third", "db"));
	entry = state_volume_from(&world, "default", "db");
	assert_string_equal(entry->volume.id, "db");
	entry = state_volume_next(entry);
	assert_string_equal(entry->volume.id, "db-2");
	entry = state_volume_next(entry);
	assert_string_equal(entry->volume.id, "db1");
	entry = state_volume_next(entry);
	assert_string_equal(entry->volume.namespace, "other");
}

TEST(keys_that_are_too_long_find_nothing)
{
	cleanup(state_release) struct state world;
	char text[VOLUME_ID_MAX + 2];

	state_init(&world);
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_null(state_volume(&world, "default", text));
	assert_null(state_volume(&world, text, "db"));
	assert_null(state_alloc(&world, text));
	assert_null(state_claim(&world, text));
	assert_null(state_node(&world, text));
	assert_null(state_volume_from(&world, text, ""));
}

/* A look-up remembers what it found: what has gone, or came again, must not be mistaken for it. */
TEST(a_cached_lookup_is_forgotten_when_its_object_goes)
{
	struct volume v = volume("default", "db");
	struct volume other = volume("other", "db");
	struct claim c = claim(1, "db", CLAIM_RESERVED);
	struct alloc a = {.node_id = "n1", .namespace = NAMESPACE_DEFAULT};
	cleanup(state_release) struct state world;

	(void)str_copy(a.id, sizeof(a.id), c.allocation_id);
	state_init(&world);
	for (int round = 0; round < 2; round++) {
		assert_int_equal(state_put_volume(&world, &v, NULL), STATUS_OK);
		assert_int_equal(state_put_volume(&world, &other, NULL), STATUS_OK);
		assert_int_equal(state_put_alloc(&world, &a, NULL), STATUS_OK);
		assert_int_equal(state_put_claim(&world, &c, NULL), STATUS_OK);
		assert_string_equal(state_volume(&world, "default", "db")->namespace, "default");
		assert_string_equal(state_volume(&world, "other", "db")->namespace, "other");
		assert_null(state_volume(&world, "other", "d"));
		assert_ptr_equal(state_claim(&world, c.id)->volume, state_volume(&world, "default", "db"));
		assert_null(state_claim(&world, a.id));
		assert_ptr_equal(LIST_FIRST(&state_alloc(&world, a.id)->claims), state_claim(&world, c.id));
		assert_null(state_alloc(&world, c.id));
		state_delete_claim(&world, state_claim(&world, c.id));
		assert_null(state_claim(&world, c.id));
		state_delete_alloc(&world, state_alloc(&world, a.id));
		assert_null(state_alloc(&world, a.id));
		state_delete_volume(&world, state_volume(&world, "default", "db"));
		assert_null(state_volume(&world, "default", "db"));
	}
}

TEST(live_claims_are_counted_through_their_whole_life)
{
	struct volume v = volume("default", "db");
	cleanup(state_release) struct state world;
	struct volume_entry *entry;

	state_init(&world);
	assert_int_equal(state_put_volume(&world, &v, NULL), STATUS_OK);
	entry = state_volume(&world, "default", "db");
	for (int n = 0; n < 4; n++) {
		struct claim c = claim(n, "db", CLAIM_RESERVED);

		assert_int_equal(state_put_claim(&world, &c, NULL), STATUS_OK);
		assert_int_equal(entry->n_live, n + 1);
		c.state = CLAIM_TAKEN;
		assert_int_equal(state_put_claim(&world, &c, NULL), STATUS_OK);
		assert_int_equal(entry->n_live, n + 1);
	}
	for (int n = 0; n < 4; n++) {
		struct claim c = claim(n, "db", CLAIM_FREED);

		assert_int_equal(state_put_claim(&world, &c, NULL), STATUS_OK);
		assert_int_equal(entry->n_live, 3 - n);
		assert_int_equal(world.n_claims, 3 - n);
		assert_int_equal(state_put_claim(&world, &c, NULL), STATUS_OK);
		state_delete_claim(&world, state_claim(&world, c.id));
		assert_int_equal(entry->n_live, 3 - n);
	}
	assert_true(LIST_EMPTY(&entry->claims));
}

/* In each order in which they come and go. */
TEST(rivals_are_counted_from_both_sides)
{
	static const struct {
		enum access_mode a, b;
		enum claim_mode mode; /* of a; b writes */
		size_t n;
		bool is_device; /* b */
	} cases[] = {
		{MULTI_NODE_MULTI_WRITER, SINGLE_NODE_WRITER, CLAIM_WRITE, 1},
		{MULTI_NODE_READER_ONLY, SINGLE_NODE_WRITER, CLAIM_READ, 1},
		{MULTI_NODE_READER_ONLY, MULTI_NODE_READER_ONLY, CLAIM_WRITE, 1},
		{MULTI_NODE_MULTI_WRITER, MULTI_NODE_MULTI_WRITER, CLAIM_WRITE, 0},
		{MULTI_NODE_READER_ONLY, MULTI_NODE_MULTI_WRITER, CLAIM_READ, 0},
		{MULTI_NODE_MULTI_WRITER, MULTI_NODE_MULTI_WRITER, CLAIM_WRITE, 1, .is_device = true},
		{MULTI_NODE_READER_ONLY, MULTI_NODE_MULTI_WRITER, CLAIM_READ, 1, .is_device = true},
	};
	struct volume db = volume("default", "db");

	for (size_t i = 0; i < ARRAY_SIZE(cases) * 4; i++) {
		cleanup(state_release) struct state world;
		struct claim claims[2] = {claim(1, "db", CLAIM_TAKEN), claim(2, "db", CLAIM_TAKEN)};
		const struct volume_entry *entry;
		size_t first = i % 2, gone = i / 2 % 2;

		state_init(&world);
		(void)str_copy(claims[1].node_id, sizeof(claims[1].node_id), "n2");
		claims[0].access_mode = cases[i / 4].a;
		claims[0].mode = cases[i / 4].mode;
		claims[1].access_mode = cases[i / 4].b;
		claims[1].mode = CLAIM_WRITE;
		claims[0].attachment_mode = ATTACHMENT_FILE_SYSTEM;
		claims[1].attachment_mode =
			cases[i / 4].is_device ? ATTACHMENT_BLOCK_DEVICE : ATTACHMENT_FILE_SYSTEM;
		assert_int_equal(state_put_volume(&world, &db, NULL), STATUS_OK);
		assert_int_equal(state_put_claim(&world, &claims[first], NULL), STATUS_OK);
		assert_int_equal(state_put_claim(&world, &claims[1 - first], NULL), STATUS_OK);
		entry = state_volume(&world, "default", "db");
		assert_int_equal(entry->n_rivals, cases[i / 4].n);
		for (int k = 0; k < 2; k++)
			assert_int_equal(state_claim(&world, claims[k].id)->n_rivals, cases[i / 4].n);
		assert_int_equal(world.n_volumes_held_twice, cases[i / 4].n);
		claims[gone].state = CLAIM_FREED;
		assert_int_equal(state_put_claim(&world, &claims[gone], NULL), STATUS_OK);
		assert_int_equal(entry->n_rivals, 0);
		assert_int_equal(state_claim(&world, claims[1 - gone].id)->n_rivals, 0);
		state_delete_claim(&world, state_claim(&world, claims[1 - gone].id));
		assert_int_equal(entry->n_rivals, 0);
		assert_int_equal(world.n_volumes_held_twice, 0);
		for (int crowd = 0; crowd < CLAIM_CROWDS; crowd++)
			assert_int_equal(entry->n_crowd[crowd], 0);
	}
}

/* Puts volume n@n with claim @n, and returns the claim. */
static struct claim_entry *put_held(struct state *world, int n)
{
	char name[16];
	struct volume v;
	struct claim c;

	(void)str_format(name, sizeof(name), "n%d", n);
	v = volume("default", name);
	c = claim(n, name, CLAIM_TAKEN);
	assert_int_equal(state_put_volume(world, &v, NULL), STATUS_OK);
	assert_int_equal(state_put_claim(world, &c, NULL), STATUS_OK);
	return state_claim(world, c.id);
}

static void end_claim(struct state *world, struct claim_entry *entry)
{
	struct claim c = entry->claim;

	c.state = CLAIM_FREED;
	assert_int_equal(state_put_claim(world, &c, NULL), STATUS_OK);
}

TEST(a_pair_of_rivals_ends_with_either_claim)
{
	cleanup(state_release) struct state world;
	struct claim_entry *claims[4];

	state_init(&world);
	for (int i = 0; i < 4; i++)
		claims[i] = put_held(&world, i);
	for (int i = 0; i < 3; i++)
		assert_true(state_pair_rivals(&world, claims[i], claims[i + 1]));
	assert_int_equal(claims[1]->n_rivals, 2);
	assert_int_equal(world.n_volumes_held_twice, 4);
	end_claim(&world, claims[1]);
	assert_int_equal(claims[0]->n_rivals, 0);
	assert_int_equal(claims[1]->n_rivals, 0);
	assert_int_equal(claims[2]->n_rivals, 1);
	assert_int_equal(world.n_volumes_held_twice, 2);
	state_delete_claim(&world, claims[3]);
	assert_int_equal(claims[2]->n_rivals, 0);
	assert_int_equal(claims[2]->volume->n_rivals, 0);
	assert_int_equal(world.n_volumes_held_twice, 0);
}

/* Its former list and that of unpaired ones have one link. */
TEST(a_recalled_claim_that_is_live_again_may_have_a_pair)
{
	cleanup(state_release) struct state world;
	struct claim_entry *claims[3];
	struct claim again;

	state_init(&world);
	for (int i = 0; i < 3; i++)
		claims[i] = put_held(&world, i);
	again = claims[0]->claim;
	for (int i = 0; i < 2; i++) {
		end_claim(&world, claims[i]);
		state_list_recalled(&world, claims[i]);
	}
	assert_int_equal(state_put_claim(&world, &again, NULL), STATUS_OK);
	assert_true(state_pair_rivals(&world, claims[0], claims[2]));
	end_claim(&world, claims[2]);
	assert_ptr_equal(LIST_FIRST(&world.unpaired), claims[0]);
	assert_ptr_equal(LIST_FIRST(&world.recalled), claims[1]);
	assert_null(LIST_NEXT(claims[0], of_unpaired));
	assert_null(LIST_NEXT(claims[1], of_recalled));
	end_claim(&world, claims[0]);
	assert_true(LIST_EMPTY(&world.unpaired));
}

/* Each of @n claims has two rivals. Returns the time in which half of them end. */
static clock_t end_rivals(int n)
{
	struct claim_entry **claims = calloc((size_t)n, sizeof(*claims));
	cleanup(state_release) struct state world;
	clock_t start;

	assert_non_null(claims);
	state_init(&world);
	for (int i = 0; i < n; i++) {
		claims[i] = put_held(&world, i);
		assert_true(i == 0 || state_pair_rivals(&world, claims[i], claims[i - 1]));
	}
	start = clock();
	for (int i = 0; i < n / 2; i++) /* the oldest pairs: a walk of all would meet them last */
		end_claim(&world, claims[i]);
	start = clock() - start;
	assert_int_equal(world.n_volumes_held_twice, n / 2);
	free(claims);
	return start;
}

TEST(the_end_of_claims_with_rivals_costs_no_square_of_their_number)
{
	clock_t few = end_rivals(2048);

	assert_true(end_rivals(16384) < 24 * few); /* 8 times as many; a square: 64 times as long */
}

TEST(a_claim_of_an_unknown_volume_is_refused)
{
	struct claim c = claim(1, "db", CLAIM_TAKEN);
	cleanup(state_release) struct state world;
	struct error err;

	state_init(&world);
	assert_int_equal(state_put_claim(&world, &c, &err), STATUS_DATA_LOSS);
	assert_null(state_claim(&world, c.id));
}

TEST(a_claim_outlives_the_order_in_which_its_allocation_comes_and_goes)
{
	struct volume v = volume("default", "db");
	struct claim c = claim(1, "db", CLAIM_TAKEN);
	struct alloc a = {.node_id = "n1", .namespace = NAMESPACE_DEFAULT};
	cleanup(state_release) struct state world;

	(void)str_copy(a.id, sizeof(a.id), c.allocation_id);
	state_init(&world);
	assert_int_equal(state_put_volume(&world, &v, NULL), STATUS_OK);
	assert_int_equal(state_put_claim(&world, &c, NULL), STATUS_OK); /* its allocation is not known */
	assert_int_equal(state_put_alloc(&world, &a, NULL), STATUS_OK);
	assert_true(LIST_EMPTY(&state_alloc(&world, a.id)->claims));
	state_delete_claim(&world, state_claim(&world, c.id));
	assert_int_equal(state_put_claim(&world, &c, NULL), STATUS_OK);
	assert_false(LIST_EMPTY(&state_alloc(&world, a.id)->claims));
}

TEST(allocations_that_are_not_over_are_listed_and_counted_by_node)
{
	struct alloc a = {
		.id = "01890000-0000-7000-8000-000000000001", .node_id = "n1", .namespace = "default"};
	struct alloc b = {.id = "01890000-0000-7000-8000-000000000002", .node_id = "n1"};
	cleanup(state_release) struct state world;

	state_init(&world);
	assert_int_equal(state_put_alloc(&world, &a, NULL), STATUS_OK);
	assert_int_equal(state_put_alloc(&world, &b, NULL), STATUS_OK);
	assert_int_equal(state_node(&world, "n1")->n_live_allocs, 2);
	a.client_status = CLIENT_FAILED;
	assert_int_equal(state_put_alloc(&world, &a, NULL), STATUS_OK);
	assert_int_equal(state_put_alloc(&world, &a, NULL), STATUS_OK);
	assert_int_equal(state_node(&world, "n1")->n_live_allocs, 1);
	assert_string_equal(LIST_FIRST(&state_node(&world, "n1")->allocs)->id, b.id);
	assert_null(LIST_NEXT(LIST_FIRST(&state_node(&world, "n1")->allocs), of_node));
	assert_int_equal(namespaces_find(&world.namespaces, "default")->ended_bytes,
			 state_alloc(&world, a.id)->bytes);
	assert_string_equal(LIST_FIRST(&state_node(&world, "n1")->allocs)->id, b.id);
	state_delete_alloc(&world, state_alloc(&world, a.id));
	assert_int_equal(state_node(&world, "n1")->n_live_allocs, 1);
	state_delete_alloc(&world, state_alloc(&world, b.id));
	assert_null(state_node(&world, "n1")); /* nothing names it any more */
}

TEST(allocations_that_hand_their_place_on_are_counted_by_job)
{
	struct alloc a = {.id = "a1", .namespace = NAMESPACE_DEFAULT, .job_id = "web"}, b = a;
	struct job_entry *job;
	struct state world;

	state_init(&world);
	(void)str_copy(b.id, sizeof(b.id), "a2");
	b.lost_race = true;
	assert_int_equal(state_put_alloc(&world, &a, NULL), STATUS_OK);
	assert_int_equal(state_put_alloc(&world, &b, NULL), STATUS_OK);
	job = NON_NULL(state_job(&world, NAMESPACE_DEFAULT, "web"));
	assert_int_equal(job->n_heritable, 1);
	a.keeps_place = true;
	assert_int_equal(state_put_alloc(&world, &a, NULL), STATUS_OK);
	assert_int_equal(job->n_heritable, 2);
	a.keeps_place = false;
	assert_int_equal(state_put_alloc(&world, &a, NULL), STATUS_OK);
	assert_int_equal(job->n_heritable, 1);
	state_delete_alloc(&world, state_alloc(&world, "a2"));
	assert_int_equal(job->n_heritable, 0);
	state_release(&world);
}

TEST(an_allocation_may_be_replaced_by_a_copy_that_shares_its_lists)
{
	struct volume_request request = {.name = "data", .source = "db"};
	struct alloc a = ROW(.id = "01890000-0000-7000-8000-000000000001", .node_id = "n1",
			     .volumes = &request, .n_volumes = 1);
	cleanup(state_release) struct state world;

	state_init(&world);
	assert_int_equal(state_put_alloc(&world, &a, NULL), STATUS_OK);
	a = state_alloc(&world, a.id)->alloc;
	a.client_status = CLIENT_RUNNING;
	assert_int_equal(state_put_alloc(&world, &a, NULL), STATUS_OK);
	assert_int_equal(state_alloc(&world, a.id)->alloc.client_status, CLIENT_RUNNING);
	assert_string_equal(state_alloc(&world, a.id)->alloc.volumes[0].source, "db");
	state_delete_alloc(&world, state_alloc(&world, a.id));
}

TEST(a_node_that_is_gone_stays_as_a_name_while_something_names_it)
{
	struct node n = {.id = "n1", .boot_id = "b0010000-0000-4000-8000-000000000001"};
	struct plugin_instance i = {.node_id = "n1", .plugin.plugin_id = "native"};
	struct volume v = volume("default", "db");
	struct claim c = claim(1, "db", CLAIM_FREED);
	cleanup(state_release) struct state world;

	state_init(&world);
	assert_int_equal(state_put_node(&world, &n, NULL), STATUS_OK);
	assert_int_equal(state_put_instance(&world, &i, NULL), STATUS_OK);
	assert_int_equal(state_put_volume(&world, &v, NULL), STATUS_OK);
	assert_int_equal(state_put_claim(&world, &c, NULL), STATUS_OK);
	assert_int_equal(world.n_nodes, 1);
	state_delete_node(&world, state_node(&world, "n1"));
	assert_int_equal(world.n_nodes, 0);
	assert_non_null(state_node(&world, "n1"));
	assert_false(node_is_registered(state_node(&world, "n1")));
	assert_null(state_plugin(&world, "native"));
	assert_int_equal(state_put_node(&world, &n, NULL), STATUS_OK); /* back */
	assert_int_equal(world.n_nodes, 1);
	state_delete_claim(&world, state_claim(&world, c.id));
	assert_true(node_is_registered(state_node(&world, "n1")));
	state_delete_node(&world, state_node(&world, "n1"));
	assert_null(state_node(&world, "n1"));
}

TEST(a_volumes_generation_is_raised_by_its_claims_and_never_goes_back)
{
	static const struct {
		bool is_claims;
		uint64_t generation, then;
	} steps[] = {{false, 3, 3}, {true, 5, 5}, {true, 4, 5}, {false, 4, 5}, {false, 6, 6}, {true, 5, 6}};
	struct volume v = volume("default", "db");
	cleanup(state_release) struct state world;

	state_init(&world);
	for (int i = 0; i < (int)ARRAY_SIZE(steps); i++) {
		struct claim c = claim(i, "db", CLAIM_FREED);

		v.generation = c.generation = steps[i].generation;
		assert_ok(steps[i].is_claims ? state_put_claim(&world, &c, NULL)
					     : state_put_volume(&world, &v, NULL));
		assert_int_equal(state_volume(&world, "default", "db")->volume.generation, steps[i].then);
	}
}

static void expect_provider_id(struct state *world, const char *id, const char *asker, const char *owner)
{
	struct plugin_entry *plugin = NON_NULL(state_plugin(world, "ebs"));
	const struct instance_entry *found = state_other_of_provider_id(plugin, id, asker);

	assert_string_equal(found ? found->node->id : "", owner);
}

TEST(a_provider_id_is_of_another_node_as_long_as_that_reports_it)
{
	struct plugin_instance i = {.plugin = {.plugin_id = "ebs"}};
	cleanup(state_release) struct state world;

	state_init(&world);
	for (int n = 0; n < 100; n++) {
		(void)str_format(i.node_id, sizeof(i.node_id), "n%d", n);
		(void)str_format(i.plugin.node.provider_node_id, sizeof(i.plugin.node.provider_node_id),
				 "i-%d", n / 2);
		assert_ok(state_put_instance(&world, &i, NULL));
	}
	expect_provider_id(&world, "i-7", "n1", "n14");
	expect_provider_id(&world, "i-7", "n14", "n15");
	expect_provider_id(&world, "i-7", "n15", "n14");
	expect_provider_id(&world, "i-50", "n1", "");
	(void)str_copy(i.node_id, sizeof(i.node_id), "n14");
	(void)str_copy(i.plugin.node.provider_node_id, sizeof(i.plugin.node.provider_node_id), "i-50");
	assert_ok(state_put_instance(&world, &i, NULL));
	expect_provider_id(&world, "i-7", "n15", "");
	expect_provider_id(&world, "i-50", "n1", "n14");
	i.plugin.node.provider_node_id[0] = '\0';
	assert_ok(state_put_instance(&world, &i, NULL));
	expect_provider_id(&world, "i-50", "n1", "");
	state_delete_instance(&world, state_instance(&world, "n15", "ebs", ""));
	expect_provider_id(&world, "i-7", "n1", "");
	expect_provider_id(&world, "i-8", "n16", "n17");
}
