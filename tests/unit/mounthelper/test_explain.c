/* SPDX-License-Identifier: Apache-2.0 */
#include "explain.h"
#include "fixture.h"

static struct policy policy;

/* The answer as one text: reason, then LINE:TEXT of each line. */
static const char *ask(const char *extra, const struct question *question)
{
	static char said[4 * ANSWER_TEXT_SIZE];
	static struct answer answer;
	const char *text = fixture_policy_text(extra);
	int n;

	fixture_policy(extra, &policy);
	explain(text, strlen(text), policy_agent(&policy, FIXTURE_UID), question, &answer);
	assert_true(answer.n_lines <= ANSWER_LINES);
	n = str_format(said, sizeof(said), "%s", answer.reason == REASON_NONE ? "allowed" : "refused");
	for (uint32_t i = 0; i < answer.n_lines; i++)
		n += str_format(said + n, sizeof(said) - (size_t)n, "\n%u:%s", answer.lines[i].line,
				answer.lines[i].text);
	if (answer.needs_ticket)
		(void)str_format(said + n, sizeof(said) - (size_t)n, "\nticket");
	return said;
}

static struct question stage(const char *profile, const char *by_id)
{
	struct question q = {.op = MH_OP_STAGE, .profile = profile};

	if (by_id) {
		q.source.class = MH_CLASS_BLOCK;
		(void)str_copy(q.source.u.block.by_id, MH_BY_ID_SIZE, by_id);
	}
	return q;
}

TEST(an_allowed_request_names_block_profile_and_rule)
{
	struct question q = stage("db", "holdfast-demo-1");

	assert_string_equal(ask("", &q),
			    "allowed\n1:agent 995\n11:profile db\n12:by_id = holdfast-demo-\nticket");
	q = stage("ro", "holdfast-demo-1");
	q.read_only = true;
	assert_string_equal(ask("", &q),
			    "allowed\n1:agent 995\n13:profile ro\n14:by_id = exact:holdfast-demo-1\nticket");
	q = stage("mem", NULL);
	assert_string_equal(ask("ticket = optional", &q),
			    "allowed\n1:agent 995\n17:profile mem\n17:max_size = 2MiB");
	q = (struct question){.op = MH_OP_PUBLISH, .profile = "db", .exec = true};
	assert_string_equal(ask("", &q), "allowed\n1:agent 995\n11:profile db\n11:exec = yes\nticket");
	q = (struct question){.op = MH_OP_PUBLISH, .profile = "nas"}; /* whatever source is staged */
	assert_string_equal(ask("profile nas { class = nfs4; server = 0.0.0.0/0; export = /a }", &q),
			    "allowed\n1:agent 995\n10:profile nas\nticket");
	assert_string_equal(ask("profile nas { class = nfs4; server = 192.0.0.0/2; export = /a }", &q),
			    "allowed\n1:agent 995\n10:profile nas\nticket");
	assert_string_equal(ask("profile nas { class = nfs4; server = ::/7; export = /a }", &q),
			    "allowed\n1:agent 995\n10:profile nas\nticket");
	q = (struct question){.op = MH_OP_UNSTAGE, .detach = true};
	assert_string_equal(ask("\nallow_detach = yes", &q), "allowed\n1:agent 995\n11:allow_detach = yes");
	q = (struct question){.op = MH_OP_UNPUBLISH};
	assert_string_equal(ask("", &q), "allowed\n1:agent 995");
}

TEST(the_rule_that_matches_is_named_among_several)
{
	struct question q = stage("many", "c2");

	assert_string_equal(ask("profile many { class = block; fstype = xfs; trust = trusted; by_id = a\n"
				"by_id = exact:c\nby_id = c\n# by_id = c2\nby_id = c2 }",
				&q),
			    "allowed\n1:agent 995\n10:profile many\n12:by_id = c\nticket");
}

TEST(an_nfs4_source_is_allowed_by_a_server_and_an_export)
{
	static const char extra[] =
		"profile nas { class = nfs4\nserver = 10.0.0.0/8\nserver = 192.168.0.0/16\n"
		"export = /a\nexport = /srv\n}\nhostvol data { path = /data; owner_uid = 5 }";
	struct question q = stage("nas", NULL);

	q.source = (struct mh_source){.class = MH_CLASS_NFS4,
				      .u.nfs4 = {.family = 4, .addr = {192, 168, 7, 1}, .export = "/srv/x"}};
	assert_string_equal(ask(extra, &q),
			    "allowed\n1:agent 995\n10:profile nas\n12:server = 192.168.0.0/16\n"
			    "14:export = /srv\nticket");
	q.source.u.nfs4.addr[1] = 1;
	assert_contains(ask(extra, &q), "11:profile nas has no server that holds the address: server = 10.");
	q.source.u.nfs4.addr[1] = 168;
	(void)str_copy(q.source.u.nfs4.export, MH_EXPORT_SIZE, "/srvx");
	assert_contains(ask(extra, &q), "13:profile nas has no export that the path is below: export = /a");
	q = stage("data", NULL);
	assert_string_equal(ask(extra, &q), "allowed\n1:agent 995\n16:hostvol data\n16:path = /data\nticket");
	assert_string_equal(
		ask("hostvol data { path = /data\nowner_uid = 5\nmount = required }", &q),
		"allowed\n1:agent 995\n10:hostvol data\n10:path = /data\n12:mount = required\nticket");
	q.source.class = MH_CLASS_BIND;
	(void)str_copy(q.source.u.bind.name, MH_LABEL_SIZE, "other");
	assert_string_equal(ask(extra, &q), "refused\n16:hostvol data is not the host volume asked for");
}

TEST(the_longest_answer_has_a_line_for_each_key)
{
	struct question q = stage("data", NULL);

	q.detach = true; /* which holdfast-policy refuses */
	assert_contains(
		ask("allow_detach = yes\nhostvol data { path = /data; owner_uid = 5; mount = required\n"
		    "uuid = 01234567-89ab-cdef-0123-456789abcdef }",
		    &q),
		"path = /data\n11:mount = required\n12:uuid = 01234567-89ab-cdef-0123-456789abcdef\n"
		"10:allow_detach = yes\nticket");
}

TEST(a_refusal_names_the_line_and_key)
{
	struct question q = stage("db", "other");

	assert_string_equal(ask("", &q), "refused\n11:profile db\n12:profile db has no by_id that the device "
					 "begins with or is: by_id = holdfast-demo-");
	q = stage("none", "x");
	assert_string_equal(ask("", &q), "refused\n1:agent 995 has no profile or hostvol of that name");
	q = stage("mem", "x");
	assert_contains(ask("", &q),
			"17:profile mem is of another class than the source asked for: class = tmpfs");
	q = stage("ro", "holdfast-demo-1");
	assert_non_null(strstr(ask("", &q), "13:profile ro can be mounted only read-only: ro = yes"));
	q = (struct question){.op = MH_OP_PUBLISH, .profile = "ro", .read_only = true, .exec = true};
	assert_string_equal(ask("", &q),
			    "refused\n13:profile ro does not allow programs to be run: exec is not set");
	q = (struct question){.op = MH_OP_PUBLISH, .profile = "db", .propagation = 1};
	assert_contains(ask("", &q), "11:profile db does not allow this propagation; bidirectional needs to "
				     "be writable: shared is not set");
	q = (struct question){.op = MH_OP_PUBLISH, .profile = "db", .slot = 3};
	assert_contains(ask("\nmax_per_alloc = 3", &q),
			"\n11:agent 995 does not allow that slot: max_per_alloc = 3");
	q = (struct question){.op = MH_OP_UNPUBLISH, .detach = true};
	assert_string_equal(ask("", &q), "refused\n1:agent 995 does not allow a busy mount to be detached: "
					 "allow_detach is not set");
	q = stage("mem", NULL);
	q.source =
		(struct mh_source){.class = MH_CLASS_TMPFS, .u.tmpfs = {.size_bytes = 3 << 20, .inodes = 1}};
	assert_non_null(strstr(ask("", &q), "17:profile mem does not allow that size: max_size = 2MiB"));
	q.source.u.tmpfs.size_bytes = 1;
	q.source.u.tmpfs.inodes = 1001;
	assert_contains(ask("", &q), "17:profile mem does not allow so many inodes: max_inodes = 1000");
}

TEST(keys_of_other_blocks_are_not_taken_for_it)
{
	static const char text[] =
		"agent 5 { cluster = c; node = n; helper_uid = 6; helper_gid = 6; ticket = optional\n"
		"stage_base = /a/s; publish_base = /a/p; log = /a/l; lock_dir = /a/k\n"
		"profile p { class = csi\nexec = no\n}\nprofile q { class = csi; ro = yes; exec = yes }\n}\n"
		"agent 7 { cluster = c; node = n; helper_uid = 6; helper_gid = 6; ticket = optional\n"
		"stage_base = /b/s; publish_base = /b/p; log = /b/l; lock_dir = /b/k\n"
		"profile p { class = csi\nexec = yes\n}\n}\n";
	struct question q = {.op = MH_OP_PUBLISH, .profile = "p", .exec = true};
	static struct answer answer;
	unsigned int line;

	assert_int_equal(policy_parse("p", text, sizeof(text) - 1, &policy, &line, NULL), STATUS_OK);
	explain(text, sizeof(text) - 1, policy_agent(&policy, 7), &q, &answer);
	assert_int_equal(answer.reason, REASON_NONE);
	assert_int_equal(answer.lines[answer.n_lines - 1].line, 11);
	explain(text, sizeof(text) - 1, policy_agent(&policy, 5), &q, &answer);
	assert_int_equal(answer.reason, REASON_EXEC);
	assert_int_equal(answer.lines[answer.n_lines - 1].line, 4);
}
