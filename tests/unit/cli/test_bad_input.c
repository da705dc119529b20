/* SPDX-License-Identifier: Apache-2.0 */
/* One table: what is typed, and the exact answer. */

#include "run.h"
#include "unit.h"

#include "show/output.h"

#include <sys/mman.h>

#define NEEDS_YES "this asks before it acts, and there is no terminal to ask on: give --yes"

static const struct row {
	const char *typed; /* '@' stands for the file */
	const char *file;  /* its text; NULL: there is none */
	enum status status;
	const char *says;  /* exactly; "FILE" stands for the file */
	const char *asked; /* nothing of this is asked of the server; NULL: nothing at all */
	struct fake_answer answer;
	const char *prints; /* is in the output; NULL: not looked at */
} rows[] = {
	/* What destroys asks, and nobody is there to answer. */
	ROW(.typed = "volume deregister web", .status = STATUS_INVALID_ARGUMENT, .says = NEEDS_YES,
	    .asked = "Volumes.Deregister"),
	ROW(.typed = "volume deregister web --json", .status = STATUS_INVALID_ARGUMENT, .says = NEEDS_YES,
	    .asked = "Volumes.Deregister"),
	ROW(.typed = "volume delete web", .status = STATUS_INVALID_ARGUMENT, .says = NEEDS_YES,
	    .asked = "Volumes.Delete"),
	ROW(.typed = "volume snapshot delete ebs snap-1", .status = STATUS_INVALID_ARGUMENT,
	    .says = NEEDS_YES, .asked = "Volumes.DeleteSnapshot",
	    .answer = {.method = "Plugins.List", .json = "{\"plugins\": [{\"id\": \"ebs\"}]}"}),
	{.typed = "operator token revoke a1", .status = STATUS_INVALID_ARGUMENT, .says = NEEDS_YES},
	ROW(.typed = "operator restore @ --reason lost", .file = "x", .status = STATUS_INVALID_ARGUMENT,
	    .says = NEEDS_YES),
	ROW(.typed = "node drain node-1", .status = STATUS_INVALID_ARGUMENT, .says = NEEDS_YES,
	    .asked = "Nodes.Drain",
	    .answer = {.method = "Nodes.Get", .json = "{\"node\": {\"id\": \"node-1\"}}"}),
	/* one that was never drained, as a server shows it */
	ROW(.typed = "node drain node-1", .status = STATUS_INVALID_ARGUMENT, .says = NEEDS_YES,
	    .asked = "Nodes.Drain",
	    .answer = {.method = "Nodes.Get",
		       .json = "{\"node\": {\"id\": \"node-1\", \"drain\": {\"started_ms\": 0}}}"}),
	ROW(.typed = "node drain node-1 --no-wait", .status = STATUS_INVALID_ARGUMENT, .says = NEEDS_YES,
	    .asked = "Nodes.Drain",
	    .answer = {.method = "Nodes.Get",
		       .json = "{\"node\": {\"id\": \"node-1\", \"drain\": {\"started_ms\": 7, \"done_ms\": "
			       "9}}}"}),
	/* Mistakes of a file, all at once. */
	ROW(.typed = "volume register @",
	    .file = "id = 5\nplugin_idd = \"ebs\"\ncapability {\n  acces_mode = \"x\"\n}\ncapability {\n"
		    "  attachment_mode = \"fs\"\n}\nsecrets {\n  a = 7\n}\n",
	    .status = STATUS_INVALID_ARGUMENT,
	    .says = "FILE:1: id: wants a string, not a number\n"
		    "FILE:2: unknown key 'plugin_idd', did you mean 'plugin_id'?\n"
		    "FILE:4: unknown key 'acces_mode', did you mean 'access_mode'?\n"
		    "FILE:7: attachment_mode: 'fs' is unknown, use one of: file-system, block-device\n"
		    "FILE:10: the value of 'a' must be a text in quotes"),
	ROW(.typed = "alloc run @",
	    .file = "name = \"app\"\nnode_id = \"n1\"\nvolume \"a\" {\n  name = \"b\"\n}\nvolume \"c\" {\n"
		    "  read_only = \"yes\"\n}\n",
	    .status = STATUS_INVALID_ARGUMENT,
	    .says = "FILE:2: unknown key 'node_id'\n"
		    "FILE:4: unknown key 'name'\n"
		    "FILE:7: read_only: 'yes' is not true or false"),
	ROW(.typed = "job run @",
	    .file = "job \"web\" {\n  type = \"servize\"\n  group \"a\" {\n    count = \"two\"\n    cuont = "
		    "1\n"
		    "    volume \"data\" {\n      per_alloc = 1\n    }\n  }\n}\n",
	    .status = STATUS_INVALID_ARGUMENT,
	    .says = "FILE:2: type: 'servize' is unknown, use one of: service, system, batch\n"
		    "FILE:4: count: 'two' is not a whole number\n"
		    "FILE:5: unknown key 'cuont', did you mean 'count'?\n"
		    "FILE:7: per_alloc: it is true or false"),
	ROW(.typed = "job run @", .file = "name = \"app\"\n", .status = STATUS_INVALID_ARGUMENT,
	    .says = "FILE:1: unknown key 'name'"),
	ROW(.typed = "volume create @",
	    .file = "id = \"db\"\naccess_mode = \"single-node-writer\"\nattachment_mode = \"file-system\"\n",
	    .status = STATUS_INVALID_ARGUMENT,
	    .says = "FILE:2: 'access_mode' belongs into a block: capability { access_mode = \"...\" "
		    "attachment_mode = \"...\" }\n"
		    "FILE:3: 'attachment_mode' belongs into a block: capability { access_mode = \"...\" "
		    "attachment_mode = \"...\" }"),
	ROW(.typed = "alloc run @",
	    .file = "network {\n  mode = \"host\"\n}\nnetwork {\n  mode = \"none\"\n}\n",
	    .status = STATUS_INVALID_ARGUMENT,
	    .says = "FILE:1: there are 2 blocks 'network', and there can be one"),
	/* What only the server can judge has its line, as far as the file goes, all at once. */
	ROW(.typed = "volume register @",
	    .file = "id = \"db\"\nsource {\n  size = \"1MiB\"\n}\ncapability {\n}\ncapability {\n"
		    "  access_mode = \"single-node-writer\"\n}\nmount_options {\n  mount_flags = "
		    "[\"a\"]\n}\n",
	    .status = STATUS_INVALID_ARGUMENT,
	    .says = "FILE:1: id: is wrong\nFILE:3: source.size_bytes: is too large\nFILE:2: source.by_id: it "
		    "is missing\nFILE:8: capability[1].access_mode: is odd\nFILE:11: "
		    "mount_options.mount_flags[0]: no\n"
		    "FILE: plugin_id: it is missing",
	    .asked = "Volumes.Get",
	    .answer =
		    ROW(.method = "Volumes.Register", .status = STATUS_INVALID_ARGUMENT,
			.details = "{\"fields\": [{\"field\": \"id\", \"description\": \"is wrong\"}, "
				   "{\"field\": \"source.size_bytes\", \"description\": \"is too large\"}, "
				   "{\"field\": \"source.by_id\", \"description\": \"it is missing\"}, "
				   "{\"field\": \"capability[1].access_mode\", \"description\": \"is odd\"}, "
				   "{\"field\": \"mount_options.mount_flags[0]\", \"description\": \"no\"}, "
				   "{\"field\": \"plugin_id\", \"description\": \"it is missing\"}]}")),
	ROW(.typed = "alloc run @",
	    .file = "name = \"app\"\nvolume \"a\" {\n  source = \"x\"\n}\nvolume \"b\" {\n  source = "
		    "\"y\"\n}\n",
	    .status = STATUS_INVALID_ARGUMENT,
	    .says = "FILE:5: volume b: access_mode is missing\nFILE:6: volume b.source: no\nFILE:2: volume "
		    "c: ?\n"
		    "FILE: [9.: !",
	    .asked = "Allocations.Get",
	    .answer = ROW(.method = "Allocations.Run", .status = STATUS_INVALID_ARGUMENT,
			  .details =
				  "{\"fields\": [{\"field\": \"volume b\", \"description\": \"access_mode is "
				  "missing\"}, {\"field\": \"volume b.source\", \"description\": \"no\"}, "
				  "{\"field\": \"volume c\", \"description\": \"?\"}, {\"field\": \"[9.\", "
				  "\"description\": \"!\"}]}")),
	ROW(.typed = "job run @",
	    .file = "job \"web\" {\n  type = \"service\"\n  group \"a\" {\n    count = 2\n    volume "
		    "\"data\" {\n"
		    "      source = \"x\"\n      access_mode = \"single-node-writer\"\n    }\n    update {\n"
		    "      min_healthy_time = \"3s\"\n    }\n  }\n  group \"b\" {\n    task \"t\" {\n    }\n "
		    " }\n}\n",
	    .status = STATUS_INVALID_ARGUMENT,
	    .says = "FILE:4: group a.count: no\nFILE:7: group a.volume data.access_mode: no\n"
		    "FILE:10: group a.update.min_healthy_time: no\nFILE:3: group a.reschedule.interval: no\n"
		    "FILE:14: group b.task t: no\nFILE:1: id: no",
	    .asked = "Jobs.Get",
	    .answer =
		    ROW(.method = "Jobs.Run", .status = STATUS_INVALID_ARGUMENT,
			.details =
				"{\"fields\": [{\"field\": \"group a.count\", \"description\": \"no\"}, "
				"{\"field\": \"group a.volume data.access_mode\", \"description\": \"no\"}, "
				"{\"field\": \"group a.update.min_healthy_time\", \"description\": \"no\"}, "
				"{\"field\": \"group a.reschedule.interval\", \"description\": \"no\"}, "
				"{\"field\": \"group b.task t\", \"description\": \"no\"}, {\"field\": "
				"\"id\", \"description\": \"no\"}]}")),
	/* ... or the file's name, when the server names no field. */
	ROW(.typed = "volume register @", .file = "id = \"db\"\n", .status = STATUS_INVALID_ARGUMENT,
	    .says = "FILE: the server refuses", .asked = "Volumes.Get",
	    .answer = {.method = "Volumes.Register", .status = STATUS_INVALID_ARGUMENT}),
	ROW(.typed = "volume create @", .file = "id = \"db\"\n", .status = STATUS_INVALID_ARGUMENT,
	    .says = "FILE: the server refuses", .asked = "Volumes.Get",
	    .answer = {.method = "Volumes.Create", .status = STATUS_INVALID_ARGUMENT}),
	ROW(.typed = "alloc run @", .file = "name = \"app\"\n", .status = STATUS_INVALID_ARGUMENT,
	    .says = "FILE: the server refuses", .asked = "Allocations.Get",
	    .answer = {.method = "Allocations.Run", .status = STATUS_INVALID_ARGUMENT}),
	ROW(.typed = "volume register @", .file = "id = \"db\"\n", .status = STATUS_FAILED_PRECONDITION,
	    .says = "the server refuses", .asked = "Volumes.Get",
	    .answer = {.method = "Volumes.Register", .status = STATUS_FAILED_PRECONDITION}),
	/* Nobody answers. */
	ROW(.typed = "operator status", .status = STATUS_UNAVAILABLE,
	    .says = "cannot connect: connect: Connection refused. Next: is --address right? On its machine: "
		    "systemctl status holdfast-server",
	    .asked = "Volumes",
	    .answer = ROW(.method = "Operator.Status", .status = STATUS_UNAVAILABLE,
			  .lost = "cannot connect: connect: Connection refused", .sys_errno = ECONNREFUSED)),
	/* a firewall that drops: certificates have no part in it */
	ROW(.typed = "operator status", .status = STATUS_UNAVAILABLE,
	    .says = "cannot connect: no connection within 10s. Next: is --address right? On its machine: "
		    "systemctl status holdfast-server",
	    .asked = "Volumes",
	    .answer = ROW(.method = "Operator.Status", .status = STATUS_UNAVAILABLE,
			  .lost = "cannot connect: no connection within 10s", .sys_errno = ETIMEDOUT)),
	ROW(.typed = "operator status", .status = STATUS_UNAVAILABLE,
	    .says = "cannot connect: certificate has expired. Next: openssl x509 -noout -subject -issuer "
		    "-dates -in FILE, of --cert and --ca; at the server: systemctl status holdfast-server",
	    .asked = "Volumes",
	    .answer = {.method = "Operator.Status",
		       .status = STATUS_UNAVAILABLE,
		       .lost = "cannot connect: certificate has expired"}),
	/* a handshake that succeeded is no reason to look at certificates */
	ROW(.typed = "operator status", .status = STATUS_UNAVAILABLE,
	    .says = "connection lost: closed by the other side. The server was lost meanwhile, and may have "
		    "done it; on its machine: systemctl status holdfast-server",
	    .asked = "Volumes",
	    .answer = {.method = "Operator.Status",
		       .status = STATUS_UNAVAILABLE,
		       .lost = "connection lost: closed by the other side"}),
	ROW(.typed = "agent status", .status = STATUS_UNAVAILABLE,
	    .says = "cannot connect: connect: No such file or directory. Next: systemctl status "
		    "holdfast-agent",
	    .asked = "Volumes",
	    .answer = ROW(.method = "Agent.Status", .status = STATUS_UNAVAILABLE,
			  .lost = "cannot connect: connect: No such file or directory", .sys_errno = ENOENT)),
	/* ... or the server does, which knows best. */
	ROW(.typed = "operator status", .status = STATUS_UNAVAILABLE, .says = "the server refuses",
	    .asked = "Volumes", .answer = {.method = "Operator.Status", .status = STATUS_UNAVAILABLE}),
	/* A list that is empty says how a name is meant. */
	ROW(.typed = "operator audit --who an", .status = STATUS_OK, .says = "", .asked = "Operator.Watch",
	    .answer = {.method = "Operator.ListAudit", .json = "{}"},
	    .prints = "no records; --who is a name as in the column WHO, whole (operator/ann) or a part "
		      "(ann)\n"),
	/* What would be done without the plugin, a line for each claim. */
	ROW(.typed = "volume detach db node-1 --without-plugin gone --dry-run", .status = STATUS_OK,
	    .says = "", .asked = "Volumes.List {\"id",
	    .answer = {.method = "Volumes.Detach",
		       .json = "{\"claims\": [{\"id\": \"c1\"}], \"bypassed\": \"claim c1\\nclaim c2\\n\"}"},
	    .prints = "nobody confirms:\nclaim c1\nclaim c2\n"),
	ROW(.typed = "node purge node-1 --reason scrapped", .status = STATUS_INVALID_ARGUMENT,
	    .says = NEEDS_YES, .asked = "Nodes.Purge",
	    .answer = {.method = "Nodes.Get", .json = "{\"node\": {\"id\": \"node-1\"}}"}),
};

static void expect_says(const struct row *row)
{
	const char *at = ending.err.msg, *want = row->says;

	while (*want != '\0') {
		size_t n = strcspn(want, "F");

		if (strncmp(at, want, n) != 0)
			break;
		at += n;
		want += n;
		if (row->file && strncmp(want, "FILE", 4) == 0 &&
		    strncmp(at, spec_path, strlen(spec_path)) == 0) {
			at += strlen(spec_path);
			want += 4;
		} else if (*want != '\0' && *at++ != *want++) {
			break;
		}
	}
	assert_msg(*at == '\0' && *want == '\0' && ending.status == row->status, "%s: %s:\n%s\nnot %s:\n%s",
		   row->typed, status_name(ending.status), ending.err.msg, status_name(row->status),
		   row->says);
}

TEST_FIXTURE(each_bad_input_gets_its_answer, run_setup, NULL)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		(void)run_setup(state);
		fake.answers[0] = rows[i].answer;
		if (rows[i].file)
			write_spec(rows[i].file);
		run(with_spec(rows[i].typed));
		expect_says(&rows[i]);
		if (rows[i].prints && !strstr(ending.output, rows[i].prints))
			fail_msg("%s: %s", rows[i].typed, ending.output);
		if (rows[i].asked ? strstr(fake.requests, rows[i].asked) != NULL : fake.requests[0] != '\0')
			fail_msg("%s: the server was asked: %s", rows[i].typed, fake.requests);
		if (fake.given[0] > 1) /* one server: no call is made again */
			fail_msg("%s: it was asked %u times", rows[i].typed, fake.given[0]);
	}
}

TEST_FIXTURE(a_drain_in_flight_is_watched_again_without_a_question, run_setup, NULL)
{
	will_answer(0, "Nodes.Get", "{\"node\": {\"id\": \"node-1\", \"drain\": {\"started_ms\": 7}}}");
	will_answer(1, "Nodes.Drain", "{\"node\": {\"id\": \"node-1\"}}");
	expect_ok("node drain node-1 --no-wait");
	expect_request("Nodes.Drain {\"id\":\"node-1\"}");
}

TEST(a_long_refusal_has_a_line_for_each_reason_on_a_terminal)
{
	static const char text[] =
		"volume db is in use; node n1 holds it; node n2 waits; what is \x1b[1m. Next: holdfast "
		"volume status db --why";
	static const struct {
		size_t columns;
		const char *shown;
	} shows[] = {
		ROW(0, "volume db is in use; node n1 holds it; node n2 waits; what is \\x1b[1m. Next: "
		       "holdfast volume status db --why\n"),
		ROW(sizeof(text) - 1,
		    "volume db is in use; node n1 holds it; node n2 waits; what is \\x1b[1m. Next: holdfast "
		    "volume status db --why\n"),
		ROW(sizeof(text) - 2,
		    "volume db is in use;\n  node n1 holds it;\n  node n2 waits;\n  what is \\x1b[1m.\n"
		    "  Next: holdfast volume status db --why\n"),
	};

	for (size_t i = 0; i < sizeof(shows) / sizeof(shows[0]); i++) {
		cleanup_free char *shown = NULL;
		size_t n = 0;
		FILE *out = NON_NULL(open_memstream(&shown, &n));

		print_reasons(out, text, shows[i].columns);
		(void)fclose(out);
		assert_string_equal(shown, shows[i].shown);
	}
}

/* The longest message, of nothing but reasons. */
TEST(a_refusal_of_many_reasons_is_shown_whole)
{
	char text[ERROR_MSG_MAX];
	cleanup_free char *shown = NULL;
	size_t n = 0;
	FILE *out = NON_NULL(open_memstream(&shown, &n));

	for (size_t i = 0; i < sizeof(text) - 1; i++)
		text[i] = i % 2 ? ' ' : ';';
	text[sizeof(text) - 1] = '\0';
	print_reasons(out, text, 80);
	(void)fclose(out);
	assert_true(n > sizeof(text));
}

/* Runs @line; @ret gets what it prints on standard error. */
static void run_with_notes(const char *line, char *ret, size_t size)
{
	int saved = dup(STDERR_FILENO), out = memfd_create("notes", 0);
	ssize_t n;

	assert_true(saved >= 0 && out >= 0 && dup2(out, STDERR_FILENO) >= 0);
	run(line);
	(void)fflush(stderr);
	assert_true(dup2(saved, STDERR_FILENO) >= 0);
	n = pread(out, ret, size - 1, 0);
	assert_true(n > 0);
	ret[n] = '\0';
	(void)close(out);
	(void)close(saved);
}

TEST_FIXTURE(a_key_of_a_foreign_job_makes_no_line_and_moves_no_cursor, run_setup, NULL)
{
	char notes[1024];

	write_spec("{\"job\": {\"a\": {\"x\\u001b[2J\\nweb:1: y\": 1}}}\n");
	run_with_notes(with_spec("job import @"), notes, sizeof(notes));
	assert_non_null(strstr(notes, ":1: x\\x1b[2J\\x0aweb:1: y is refused: Nomad has no such key here\n"));
	assert_ptr_equal(strchr(notes, '\n'), notes + strlen(notes) - 1);
}

/* 64 bytes of a key are in the remark. */
TEST_FIXTURE(a_key_that_is_cut_within_a_character_is_shown_as_json, run_setup, NULL)
{
#define BYTES_63 "012345678901234567890123456789012345678901234567890123456789012"
	write_spec("{\"job\": {\"a\": {\"" BYTES_63 "\u00e9\": 1}}}\n");
	expect_failure(with_spec("job import @ --json"), STATUS_FAILED_PRECONDITION, "1 line is refused");
	expect_output(BYTES_63 "? is refused");
}

TEST_FIXTURE(more_mistakes_than_an_error_has_room_for_end_with_and_more, run_setup, NULL)
{
	static char text[64 * 32];
	size_t n = 0;

	for (int i = 0; i < 64; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "nokey_of_any_volume%d = 1\n", i);
	write_spec(text);
	expect_failure(with_spec("volume register @"), STATUS_INVALID_ARGUMENT,
		       ":1: unknown key 'nokey_of_any_volume0'\n");
	assert_true(strlen(ending.err.msg) > sizeof(ending.err.msg) - 100);
	assert_string_equal(strrchr(ending.err.msg, '\n'), "\nand more");
	assert_int_equal(strstr(ending.err.msg, "\nand more") - ending.err.msg,
			 strrchr(ending.err.msg, '\n') - ending.err.msg);
}

TEST_GROUP(run_begin, run_end)
