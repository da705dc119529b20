/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

enum { NOW = 5000 };

static struct claim_event event(enum claim_event_type type)
{
	return (struct claim_event){.type = type, .now_ms = NOW};
}

static struct claim attached_claim(enum claim_state state)
{
	struct claim claim = a_claim(state);

	claim.attach = ATTACH_DONE;
	claim.sent_to_node = true;
	(void)str_copy(claim.plugin_id, sizeof(claim.plugin_id), "ceph");
	return claim;
}

TEST(modes_boot_and_provider_node_stay_through_every_step)
{
	static const struct {
		enum claim_event_type type;
		enum claim_state state;
	} way[] = {{CLAIM_EVENT_MOUNTED, CLAIM_TAKEN},
		   {CLAIM_EVENT_WORK_ENDED, CLAIM_UNPUBLISHING},
		   {CLAIM_EVENT_NODE_FAILED, CLAIM_UNPUBLISHING},
		   {CLAIM_EVENT_EVIDENCE, CLAIM_NODE_DETACHED},
		   {CLAIM_EVENT_CONTROLLER_DETACHED, CLAIM_CONTROLLER_DETACHED},
		   {CLAIM_EVENT_FREE, CLAIM_FREED}};
	struct claim first = a_claim(CLAIM_RESERVED);
	struct claim claim = first;

	for (size_t i = 0; i < ARRAY_SIZE(way); i++) {
		struct claim_event ev = event(way[i].type);
		bool changed = false;

		ev.evidence = EVIDENCE_RECEIPT;
		assert_int_equal(claim_step(&claim, &ev, &changed, NULL), STATUS_OK);
		assert_true(changed);
		assert_int_equal(claim.state, way[i].state);
		assert_int_equal(claim.mode, first.mode);
		assert_int_equal(claim.access_mode, first.access_mode);
		assert_int_equal(claim.attachment_mode, first.attachment_mode);
		assert_int_equal(claim.generation, first.generation);
		assert_string_equal(claim.boot_id, first.boot_id);
		assert_string_equal(claim.external_node_id, first.external_node_id);
		assert_string_equal(claim.node_id, first.node_id);
	}
	assert_int_equal(claim.evidence, EVIDENCE_RECEIPT);
	assert_false(claim_is_live(&claim));
}

TEST(a_grant_that_never_left_the_server_is_freed_at_once)
{
	struct claim claim = a_claim(CLAIM_RESERVED);
	struct claim_event ev = event(CLAIM_EVENT_WORK_ENDED);
	bool changed = false;

	claim.sent_to_node = false;
	assert_int_equal(claim_step(&claim, &ev, &changed, NULL), STATUS_OK);
	assert_int_equal(claim.state, CLAIM_FREED);
	assert_int_equal(claim.evidence, EVIDENCE_NEVER_SENT);
}

TEST(a_grant_is_sent_once_with_its_attachment)
{
	static const struct {
		enum controller_attach before, after;
	} rows[] = {{ATTACH_NONE, ATTACH_NONE}, {ATTACH_ASKED, ATTACH_DONE}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct claim claim = a_claim(CLAIM_RESERVED);
		struct claim_event failed = event(CLAIM_EVENT_ATTACH_FAILED);
		struct claim_event ev = event(CLAIM_EVENT_SENT);
		bool changed = false;

		failed.detail = "no slot";
		claim.sent_to_node = false;
		claim.attach = rows[i].before;
		assert_int_equal(claim_step(&claim, &failed, &changed, NULL), STATUS_OK);
		assert_false(claim.sent_to_node);
		assert_int_equal(claim_step(&claim, &ev, &changed, NULL), STATUS_OK);
		assert_true(changed);
		assert_true(claim.sent_to_node);
		assert_int_equal(claim.attach, rows[i].after);
		assert_int_equal(claim.state, CLAIM_RESERVED);
		assert_int_equal(claim.attempts, 0);
		assert_string_equal(claim.last_error, "");
		assert_int_equal(claim_step(&claim, &ev, &changed, NULL), STATUS_OK);
		assert_false(changed);
	}
}

TEST(the_count_of_attempts_stays_at_its_end)
{
	struct claim claim = a_claim(CLAIM_UNPUBLISHING);
	struct claim_event ev = event(CLAIM_EVENT_NODE_FAILED);
	bool changed;

	claim.attempts = UINT32_MAX - 1;
	for (int i = 0; i < 3; i++)
		assert_int_equal(claim_step(&claim, &ev, &changed, NULL), STATUS_OK);
	assert_int_equal(claim.attempts, UINT32_MAX);
}

TEST(an_attach_request_is_undone_even_if_the_grant_was_unsent)
{
	struct claim claim = a_claim(CLAIM_RESERVED);
	struct claim_event ev = event(CLAIM_EVENT_WORK_ENDED);
	bool changed;

	claim.sent_to_node = false;
	claim.attach = ATTACH_ASKED;
	assert_int_equal(claim_step(&claim, &ev, &changed, NULL), STATUS_OK);
	assert_int_equal(claim.state, CLAIM_NODE_DETACHED);
	assert_int_equal(claim.evidence, EVIDENCE_NEVER_SENT);
}

TEST(never_sent_is_no_evidence_for_a_sent_claim)
{
	struct claim claim = a_claim(CLAIM_TAKEN);
	struct claim_event ev = event(CLAIM_EVENT_EVIDENCE);
	bool changed;

	claim.sent_to_node = true;
	ev.evidence = EVIDENCE_NEVER_SENT;
	assert_int_equal(claim_step(&claim, &ev, &changed, NULL), STATUS_FAILED_PRECONDITION);
}

TEST(no_claim_that_may_be_mounted_leaves_its_node_without_evidence)
{
	static const enum claim_state held[] = {CLAIM_RESERVED, CLAIM_TAKEN, CLAIM_UNPUBLISHING};

	for (size_t i = 0; i < ARRAY_SIZE(held); i++) {
		for (int e = 0; e < CLAIM_EVENT_N; e++) {
			struct claim claim = a_claim(held[i]);
			struct claim_event ev = event((enum claim_event_type)e);
			bool changed;

			ev.evidence = EVIDENCE_NONE;
			(void)claim_step(&claim, &ev, &changed, NULL);
			assert_true(claim.state <= CLAIM_UNPUBLISHING);
		}
	}
}

TEST(a_new_boot_counts_only_when_the_boot_is_another_one)
{
	static const struct {
		const char *detail;
		enum status expected;
	} cases[] = {
		{BOOT_1, STATUS_FAILED_PRECONDITION},
		{"", STATUS_FAILED_PRECONDITION},
		{NULL, STATUS_FAILED_PRECONDITION},
		{BOOT_2, STATUS_OK},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct claim claim = a_claim(CLAIM_TAKEN);
		struct claim_event ev = event(CLAIM_EVENT_EVIDENCE);
		bool changed = false;
		struct error err;

		ev.evidence = EVIDENCE_NEW_BOOT;
		ev.detail = cases[i].detail;
		assert_int_equal(claim_step(&claim, &ev, &changed, &err), cases[i].expected);
		assert_int_equal(claim.state,
				 cases[i].expected == STATUS_OK ? CLAIM_NODE_DETACHED : CLAIM_TAKEN);
	}
}

TEST(an_operators_word_needs_a_reason_and_ended_work)
{
	struct claim_event ev = event(CLAIM_EVENT_EVIDENCE);
	struct claim claim = a_claim(CLAIM_TAKEN);
	bool changed = false;
	struct error err;

	ev.evidence = EVIDENCE_OPERATOR;
	ev.detail = "ann: machine is in the skip";
	assert_int_equal(claim_step(&claim, &ev, &changed, &err), STATUS_FAILED_PRECONDITION);
	claim = a_claim(CLAIM_UNPUBLISHING);
	ev.detail = "";
	assert_int_equal(claim_step(&claim, &ev, &changed, &err), STATUS_INVALID_ARGUMENT);
	ev.detail = "ann: machine is in the skip";
	assert_int_equal(claim_step(&claim, &ev, &changed, &err), STATUS_OK);
	assert_int_equal(claim.evidence, EVIDENCE_OPERATOR);
	assert_string_equal(claim.evidence_detail, ev.detail);
}

TEST(a_fence_is_evidence_only_when_it_was_noted_before_the_provider_was_asked)
{
	struct claim claim = attached_claim(CLAIM_UNPUBLISHING);
	struct claim_event fenced = event(CLAIM_EVENT_EVIDENCE);
	struct claim_event asked = event(CLAIM_EVENT_FENCE_ASKED);
	bool changed = false;

	fenced.evidence = EVIDENCE_STORAGE_FENCE;
	assert_int_equal(claim_step(&claim, &fenced, &changed, NULL), STATUS_FAILED_PRECONDITION);
	assert_int_equal(claim_step(&claim, &asked, &changed, NULL), STATUS_OK);
	assert_true(changed);
	assert_int_equal(claim_step(&claim, &asked, &changed, NULL), STATUS_OK);
	assert_false(changed); /* a repeat */
	assert_int_equal(claim_step(&claim, &fenced, &changed, NULL), STATUS_OK);
	assert_int_equal(claim.state, CLAIM_NODE_DETACHED);
	assert_int_equal(claim.evidence, EVIDENCE_STORAGE_FENCE);
}

TEST(a_power_fence_frees_only_claims_of_the_boot_that_was_switched_off)
{
	struct claim claim = attached_claim(CLAIM_UNPUBLISHING);
	struct claim_event fenced = event(CLAIM_EVENT_EVIDENCE);
	char boot_id[UUID_TEXT_SIZE];
	bool changed = false;

	(void)str_copy(boot_id, sizeof(boot_id), claim.boot_id);
	fenced.evidence = EVIDENCE_POWER_FENCE;
	fenced.boot_id = boot_id;
	assert_int_equal(claim_step(&claim, &fenced, &changed, NULL), STATUS_INVALID_ARGUMENT);
	fenced.detail = "fencer f1: off, then status off";
	fenced.boot_id = NULL;
	assert_int_equal(claim_step(&claim, &fenced, &changed, NULL), STATUS_FAILED_PRECONDITION);
	boot_id[0] = boot_id[0] == 'f' ? 'e' : 'f';
	fenced.boot_id = boot_id;
	assert_int_equal(claim_step(&claim, &fenced, &changed, NULL), STATUS_FAILED_PRECONDITION);
	assert_int_equal(claim.state, CLAIM_UNPUBLISHING);
	fenced.boot_id = claim.boot_id;
	assert_int_equal(claim_step(&claim, &fenced, &changed, NULL), STATUS_OK);
	assert_int_equal(claim.state, CLAIM_NODE_DETACHED);
	assert_int_equal(claim.evidence, EVIDENCE_POWER_FENCE);
	assert_string_equal(claim.evidence_detail, fenced.detail);
}

TEST(a_network_fence_frees_only_claims_of_its_plugin_and_of_the_boot_that_was_fenced)
{
	struct claim claim = attached_claim(CLAIM_UNPUBLISHING);
	struct claim_event fenced = event(CLAIM_EVENT_EVIDENCE);
	bool changed = false;

	fenced.evidence = EVIDENCE_NETWORK_FENCE;
	fenced.boot_id = claim.boot_id;
	fenced.plugin_id = claim.plugin_id;
	assert_int_equal(claim_step(&claim, &fenced, &changed, NULL), STATUS_INVALID_ARGUMENT);
	fenced.detail = "fenced, then listed";
	fenced.plugin_id = NULL;
	assert_int_equal(claim_step(&claim, &fenced, &changed, NULL), STATUS_FAILED_PRECONDITION);
	fenced.plugin_id = "another";
	assert_int_equal(claim_step(&claim, &fenced, &changed, NULL), STATUS_FAILED_PRECONDITION);
	fenced.plugin_id = claim.plugin_id;
	fenced.boot_id = "another boot";
	assert_int_equal(claim_step(&claim, &fenced, &changed, NULL), STATUS_FAILED_PRECONDITION);
	assert_int_equal(claim.state, CLAIM_UNPUBLISHING);
	fenced.boot_id = claim.boot_id;
	assert_int_equal(claim_step(&claim, &fenced, &changed, NULL), STATUS_OK);
	assert_int_equal(claim.state, CLAIM_NODE_DETACHED);
	assert_int_equal(claim.evidence, EVIDENCE_NETWORK_FENCE);
}

TEST(a_fence_without_an_attachment_is_refused)
{
	struct claim claim = a_claim(CLAIM_UNPUBLISHING);
	struct claim_event asked = event(CLAIM_EVENT_FENCE_ASKED);
	bool changed;

	assert_int_equal(claim_step(&claim, &asked, &changed, NULL), STATUS_FAILED_PRECONDITION);
	claim = attached_claim(CLAIM_RESERVED);
	claim.sent_to_node = false;
	assert_int_equal(claim_step(&claim, &asked, &changed, NULL), STATUS_FAILED_PRECONDITION);
	assert_false(claim.fence_asked);
}

TEST(a_word_about_the_detach_needs_a_reason_and_leaves_the_nodes_evidence)
{
	struct claim claim = attached_claim(CLAIM_NODE_DETACHED);
	struct claim_event word = event(CLAIM_EVENT_DETACH_ATTESTED);
	bool changed;

	claim.evidence = EVIDENCE_RECEIPT;
	assert_int_equal(claim_step(&claim, &word, &changed, NULL), STATUS_INVALID_ARGUMENT);
	word.detail = "";
	assert_int_equal(claim_step(&claim, &word, &changed, NULL), STATUS_INVALID_ARGUMENT);
	assert_int_equal(claim.state, CLAIM_NODE_DETACHED);
	word.detail = "ann: the provider's console says so";
	assert_int_equal(claim_step(&claim, &word, &changed, NULL), STATUS_OK);
	assert_int_equal(claim.state, CLAIM_CONTROLLER_DETACHED);
	assert_int_equal(claim.evidence, EVIDENCE_RECEIPT);
	assert_int_equal(claim.detach_evidence, EVIDENCE_OPERATOR);
	assert_string_equal(claim.detach_detail, word.detail);
}

TEST(a_failure_is_counted_and_forgotten_by_the_next_state)
{
	struct claim claim = a_claim(CLAIM_UNPUBLISHING);
	struct claim_event failed = event(CLAIM_EVENT_NODE_FAILED);
	struct claim_event receipt = event(CLAIM_EVENT_EVIDENCE);
	bool changed;

	failed.detail = "target is busy";
	assert_int_equal(claim_step(&claim, &failed, &changed, NULL), STATUS_OK);
	assert_int_equal(claim_step(&claim, &failed, &changed, NULL), STATUS_OK);
	assert_int_equal(claim.attempts, 2);
	receipt.evidence = EVIDENCE_RECEIPT;
	assert_int_equal(claim_step(&claim, &receipt, &changed, NULL), STATUS_OK);
	assert_int_equal(claim.attempts, 0);
	assert_string_equal(claim.last_error, "");
}

/* The plugin's words are behind what names plugin, volume and call. */
TEST(a_long_failure_keeps_the_attempt_and_the_cause)
{
	static const char tried[] = "plugin nfs, volume pvc-1: NodeUnpublishVolume answered INTERNAL: ";
	static const char cause[] = "umount: /x: target is busy.";
	struct claim claim = a_claim(CLAIM_TAKEN);
	struct claim_event failed = event(CLAIM_EVENT_NODE_FAILED);
	char text[LAST_ERROR_MAX + 100];
	bool changed;

	memset(text, 'x', sizeof(text));
	memcpy(text, tried, strlen(tried));
	memcpy(text + sizeof(text) - sizeof(cause), cause, sizeof(cause));
	failed.detail = text;
	assert_int_equal(claim_step(&claim, &failed, &changed, NULL), STATUS_OK);
	assert_int_equal(strlen(claim.last_error), LAST_ERROR_MAX);
	assert_true(str_starts_with(claim.last_error, tried));
	assert_string_equal(claim.last_error + LAST_ERROR_MAX - strlen(cause), cause);
}

TEST(a_plugin_is_bypassed_only_by_a_named_operator_with_a_reason)
{
	static const struct {
		const char *plugin, *detail;
		bool unsent;
		enum status status;
		const char *words;
	} rows[] = {
		{"ceph", "ann: gone", false, STATUS_OK, ""},
		{"ceph", NULL, false, STATUS_INVALID_ARGUMENT, "needs a name and a reason"},
		{"ceph", "", false, STATUS_INVALID_ARGUMENT, "needs a name and a reason"},
		{"native", "ann: gone", false, STATUS_FAILED_PRECONDITION, "is native"},
		{"", "ann: gone", false, STATUS_FAILED_PRECONDITION, "is native"},
		{"ceph", "ann: gone", true, STATUS_FAILED_PRECONDITION, "was never sent"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct claim claim = a_claim(CLAIM_UNPUBLISHING);
		struct claim_event ev = event(CLAIM_EVENT_FORCED);
		bool changed = false;
		struct claim before;
		struct error err;

		assert_int_equal(str_copy(claim.plugin_id, sizeof(claim.plugin_id), rows[i].plugin), 0);
		claim.sent_to_node = !rows[i].unsent;
		before = claim;
		ev.detail = rows[i].detail;
		assert_int_equal(claim_step(&claim, &ev, &changed, &err), rows[i].status);
		assert_int_equal(changed, rows[i].status == STATUS_OK);
		if (rows[i].status == STATUS_OK) {
			assert_string_equal(claim.plugin_waiver, rows[i].detail);
			/* the same once more is nothing new, another word is */
			assert_int_equal(claim_step(&claim, &ev, &changed, NULL), STATUS_OK);
			assert_false(changed);
			ev.detail = "bob: gone";
			assert_int_equal(claim_step(&claim, &ev, &changed, NULL), STATUS_OK);
			assert_true(changed);
			continue;
		}
		assert_non_null(strstr(err.msg, rows[i].words));
		assert_memory_equal(&claim, &before, sizeof(claim));
	}
}
