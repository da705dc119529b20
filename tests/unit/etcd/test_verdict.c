/* SPDX-License-Identifier: Apache-2.0 */
/* What became of a transaction, by the two keys. */

#include "unit.h"

#include "etcd/verdict.h"

enum { LEADER = 5, SEQUENCE = 7 }; /* revisions that this process knows */

static Etcdserverpb__KeyValue key(int64_t create_revision, int64_t mod_revision, const char *value)
{
	Etcdserverpb__KeyValue kv =
		PB(etcdserverpb__key_value, .create_revision = create_revision, .mod_revision = mod_revision);

	kv.value = (ProtobufCBinaryData){.len = strlen(value), .data = (uint8_t *)(uintptr_t)value};
	return kv;
}

struct verdict_case {
	int64_t leader;	  /* create revision; 0: absent */
	int64_t sequence; /* mod revision; 0: absent */
	const char *value;
	enum verdict verdict;
};

TEST(the_two_keys_show_the_outcome_of_a_transaction)
{
	static const struct verdict_case cases[] = {
		{LEADER, SEQUENCE, "a 1", VERDICT_UNCOMMITTED},
		{LEADER, SEQUENCE + 1, "a 2", VERDICT_COMMITTED},
		{LEADER + 4, SEQUENCE + 1, "a 2", VERDICT_COMMITTED}, /* and then another one was elected */
		{0, SEQUENCE + 1, "a 2", VERDICT_COMMITTED},
		{LEADER + 4, SEQUENCE, "a 1", VERDICT_DEPOSED},
		{0, SEQUENCE, "a 1", VERDICT_DEPOSED},
		{LEADER, SEQUENCE + 1, "b 1", VERDICT_DEPOSED}, /* somebody wrote without asking who leads */
		{LEADER, SEQUENCE - 1, "a 0", VERDICT_DEPOSED}, /* an etcd that forgot */
		{LEADER, 0, "", VERDICT_DEPOSED},
		{LEADER, SEQUENCE + 1, "a 22", VERDICT_DEPOSED},
		{LEADER, SEQUENCE, "interrupted 0", VERDICT_DEPOSED}, /* with a revision that came again */
		{LEADER, SEQUENCE, "a 2", VERDICT_DEPOSED},
	};
	const struct known_revisions known = {
		.leader_revision = LEADER, .sequence_revision = SEQUENCE, .last = "a 1", .sequence = "a 2"};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		Etcdserverpb__KeyValue leader = key(cases[i].leader, cases[i].leader, "s1");
		Etcdserverpb__KeyValue sequence = key(1, cases[i].sequence, cases[i].value);

		assert_int_equal(classify_transaction(&known, cases[i].leader ? &leader : NULL,
						      cases[i].sequence ? &sequence : NULL),
				 cases[i].verdict);
	}
}

TEST(a_batch_without_writes_is_never_committed)
{
	const struct known_revisions known = {
		.leader_revision = LEADER, .sequence_revision = SEQUENCE, .last = "a 1"};
	Etcdserverpb__KeyValue leader = key(LEADER, LEADER, "s1");
	Etcdserverpb__KeyValue sequence = key(1, SEQUENCE, "a 1");

	assert_int_equal(classify_transaction(&known, &leader, &sequence), VERDICT_UNCOMMITTED);
}
