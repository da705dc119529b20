/* SPDX-License-Identifier: Apache-2.0 */
/* Thousands of random operations against a model in memory. */

#include "fixture.h"

#include "base/strbuf.h"

#include <inttypes.h>

enum { KEYS = 40, STEPS = 12000, OUTSTANDING = 64, OPS = 6, CONDITIONS = 3, VALUE_SIZE = 24 };

struct entry {
	char value[VALUE_SIZE]; /* empty: does not exist */
	uint64_t create_revision, mod_revision;
};

struct expectation {
	enum status status;
	uint64_t revision;
};

struct model {
	struct fixture *f;
	struct entry entries[KEYS];
	uint64_t revision;
	struct expectation expected[OUTSTANDING]; /* ring */
	size_t n_submitted, n_answered;
	uint64_t seed;
};

static uint32_t draw(struct model *m, uint32_t n)
{
	m->seed = m->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(m->seed >> 33) % n;
}

static const char *key_name(uint32_t index, char name[static 16])
{
	(void)str_format(name, 16, "%c/%02u", "ab~"[index % 3], index);
	return name;
}

static void check_answer(uint64_t revision, const struct error *err, void *userdata)
{
	struct model *m = userdata;
	const struct expectation *expected = &m->expected[m->n_answered % OUTSTANDING];

	assert_true(m->n_answered < m->n_submitted);
	assert_int_equal(err ? err->status : STATUS_OK, expected->status);
	assert_int_equal(revision, expected->revision);
	m->n_answered++;
}

static void settle(struct model *m)
{
	while (m->n_answered < m->n_submitted)
		assert_true(sd_event_run(m->f->event, PATIENCE_US) > 0);
}

static void expect(struct model *m, struct expectation expected)
{
	m->expected[m->n_submitted % OUTSTANDING] = expected;
	m->n_submitted++;
}

static void model_apply(struct model *m, uint32_t index, const char *value, uint64_t revision, bool *changed)
{
	struct entry *entry = &m->entries[index];

	if (!value && entry->value[0] == '\0')
		return;
	*changed = true;
	if (!value) {
		*entry = (struct entry){0};
	} else {
		if (entry->value[0] == '\0')
			entry->create_revision = revision;
		entry->mod_revision = revision;
		(void)str_copy(entry->value, VALUE_SIZE, value);
	}
}

static void random_transaction(struct model *m)
{
	char names[CONDITIONS + OPS][16], values[OPS][VALUE_SIZE];
	struct kv_condition conditions[CONDITIONS];
	struct kv_op ops[OPS];
	struct kv_txn txn = {conditions, draw(m, CONDITIONS + 1), ops, draw(m, OPS + 1)};
	uint64_t next = m->revision + 1;
	bool holds = true, changed = false;

	for (size_t i = 0; i < txn.n_conditions; i++) {
		uint32_t index = draw(m, KEYS);
		uint64_t actual = m->entries[index].mod_revision;

		conditions[i] = (struct kv_condition){key_name(index, names[i]), actual};
		if (draw(m, 8) == 0)
			conditions[i].mod_revision = draw(m, 2) ? actual + 1 : 0;
		holds = holds && conditions[i].mod_revision == actual;
	}
	for (size_t i = 0; i < txn.n_ops; i++) {
		uint32_t index = draw(m, KEYS);
		bool is_put = draw(m, 3) > 0;

		(void)str_format(values[i], VALUE_SIZE, "v%zu.%zu", m->n_submitted, i);
		ops[i] = (struct kv_op){.key = key_name(index, names[CONDITIONS + i]),
					.value = is_put ? values[i] : NULL,
					.len = is_put ? strlen(values[i]) : 0};
		if (holds)
			model_apply(m, index, ops[i].value, next, &changed);
	}
	if (changed)
		m->revision = next;
	expect(m, holds ? (struct expectation){STATUS_OK, m->revision}
			: (struct expectation){STATUS_ABORTED, 0});
	assert_int_equal(kv_submit(m->f->kv, &txn, check_answer, m, NULL), STATUS_OK);
}

static void barrier(struct model *m)
{
	expect(m, (struct expectation){STATUS_OK, m->revision});
	assert_int_equal(kv_barrier(m->f->kv, check_answer, m, NULL), STATUS_OK);
}

/* The whole state in the order of keys. */
static void compare_range(struct model *m, char first)
{
	struct strbuf text = STRBUF_INIT(1 << 16);
	char prefix[2] = {first, '\0'};
	cleanup_free char *expected = NULL;
	char name[16];

	for (size_t group = 0; group < 3; group++)
		for (uint32_t i = (uint32_t)group; i < KEYS; i += 3)
			if (m->entries[i].value[0] != '\0' &&
			    (first == '\0' || first == key_name(i, name)[0]))
				strbuf_printf(&text, "%s=%s@%" PRIu64 ",%" PRIu64 " ", key_name(i, name),
					      m->entries[i].value, m->entries[i].create_revision,
					      m->entries[i].mod_revision);
	expected = strbuf_take(&text);
	assert_string_equal(range_text(m->f, prefix), expected);
}

static void compare_all(struct model *m)
{
	settle(m);
	compare_range(m, '\0');
	compare_range(m, "ab~c"[draw(m, 4)]);
	assert_int_equal(kv_revision(m->f->kv), m->revision);
}

static void step(struct model *m)
{
	uint32_t dice = draw(m, 1000);

	if (m->n_submitted - m->n_answered >= OUTSTANDING - 1)
		settle(m);
	if (dice < 5) {
		compare_all(m);
	} else if (dice < 7) {
		compare_all(m);
		fixture_close(m->f);
		fixture_open(m->f);
		compare_all(m);
	} else if (dice < 50) {
		barrier(m);
	} else if (dice < 90) {
		settle(m);
	} else {
		random_transaction(m);
	}
}

TEST_FIXTURE(random_operations_agree_with_the_model, fixture_setup, fixture_teardown)
{
	struct model *m = NON_NULL(calloc(1, sizeof(*m)));

	*m = (struct model){.f = *state, .seed = 20240229};
	for (int i = 0; i < STEPS; i++)
		step(m);
	compare_all(m);
	assert_true(m->revision > STEPS / 4);
	free(m);
}
