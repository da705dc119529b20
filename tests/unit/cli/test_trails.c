/* SPDX-License-Identifier: Apache-2.0 */
/* Trails against the heads that a model of the server was shown. */

#include "run.h"
#include "unit.h"

#include "audit/trail.h"

#include <openssl/evp.h>

enum { RECORDS = 12, MINUTE_MS = 60000 };

/* A trail as the helper writes it; from a record on it may be another one. */
struct written {
	char lines[RECORDS + 1][256]; /* by number */
	unsigned char digest[RECORDS + 1][32];
};

static struct written honest, forged;
static char answer[8192];

static void write_records(struct written *to, unsigned int from, char salt)
{
	static const unsigned char nothing[32];
	char prev[TRAIL_HASH_SIZE];
	unsigned int n;

	for (unsigned int rec = from; rec <= RECORDS; rec++) {
		hex_encode(prev, rec > 1 ? to->digest[rec - 1] : nothing, sizeof(nothing));
		(void)str_format(to->lines[rec], sizeof(to->lines[rec]),
				 "ts=2025-01-31T12:00:%02u.000Z rec=%u cluster=c node=n1 op=stage "
				 "phase=result vol=%c prev=%s",
				 rec, rec, salt, prev);
		assert_int_equal(EVP_Digest(to->lines[rec], strlen(to->lines[rec]), to->digest[rec], &n,
					    EVP_sha256(), NULL),
				 1);
	}
}

/* @first to @last of the trail into the file. */
static void keep(const struct written *trail, unsigned int first, unsigned int last)
{
	static char text[RECORDS * 257 + 1]; /* fits: RECORDS lines */
	size_t len = 0;

	text[0] = '\0';
	for (unsigned int rec = first; rec <= last; rec++)
		len += (size_t)str_format(text + len, sizeof(text) - len, "%s\n", trail->lines[rec]);
	write_spec(text);
}

static const char *head_json(const struct written *trail, unsigned int rec, unsigned int minute,
			     char ret[160])
{
	char base64[64];

	(void)EVP_EncodeBlock((unsigned char *)base64, trail->digest[rec], 32);
	(void)str_format(ret, 160, "{\"record\": \"%u\", \"sha256\": \"%s\", \"time_ms\": \"%d\"}", rec,
			 base64, (int)minute * MINUTE_MS);
	return ret;
}

/* The server was shown records of the honest trail, in the order of the minutes 1, 2 ... */
static void server_was_shown(unsigned int a, unsigned int b)
{
	char one[160], other[160];

	(void)str_format(answer, sizeof(answer),
			 "{\"trails\": [{\"node_id\": \"n1\", \"heads\": [%s, %s]}, {\"node_id\": \"n10\"}]}",
			 head_json(&honest, a, 1, one), head_json(&honest, b, 2, other));
	will_answer(0, "Operator.ListTrails", answer);
}

static int trails_setup(void **state)
{
	assert_int_equal(run_setup(state), 0);
	write_records(&honest, 1, 'a');
	forged = honest;
	write_records(&forged, 6, 'b');
	return 0;
}

TEST_FIXTURE(a_trail_that_went_on_agrees, trails_setup, NULL)
{
	keep(&honest, 1, 12);
	server_was_shown(3, 9);
	expect_ok(with_spec("audit verify --server @"));
	expect_output("node n1: whole up to record 9, which was shown to the server last");
	expect_request("Operator.ListTrails {\"prefix\":\"n1\"}\n");
	expect_ok(with_spec("audit verify @ --server --json"));
	expect_output("\"verdict\": \"agrees\"");
	keep(&honest, 1, 9);
	expect_ok(with_spec("audit verify --server @"));
}

TEST_FIXTURE(a_trail_cut_at_its_end_is_found, trails_setup, NULL)
{
	keep(&honest, 1, 8);
	server_was_shown(3, 9);
	expect_ok(with_spec("audit verify @")); /* nothing in the file tells */
	expect_failure(
		with_spec("audit verify --server @"), STATUS_DATA_LOSS,
		"the trail of node n1 is cut: the server saw record 9 at 1970-01-01T00:02:00.000Z, but "
		"the files end with record 8. If the copy is older than that, copy them again. Keep "
		"them as they are; what is missing or was changed may be in the kernel's audit of the "
		"node: ausearch -m TRUSTED_APP");
	expect_failure(with_spec("audit verify --server --json @"), STATUS_DATA_LOSS, "is cut");
	expect_output("\"verdict\": \"cut\"");
	expect_output("\"is\": \"missing\"");
}

TEST_FIXTURE(a_trail_that_was_rewound_and_went_on_is_found, trails_setup, NULL)
{
	keep(&forged, 1, 12);
	server_was_shown(3, 9);
	expect_ok(with_spec("audit verify @"));
	expect_failure(with_spec("audit verify --server @"), STATUS_DATA_LOSS,
		       "the trail of node n1 was rewound: record 9, which the server saw at "
		       "1970-01-01T00:02:00.000Z, is missing; it was last as it is here at "
		       "1970-01-01T00:01:00.000Z; later ones follow.");
	expect_failure(with_spec("audit verify --server --json @"), STATUS_DATA_LOSS, "was rewound");
	expect_output("\"verdict\": \"rewound\"");
}

/* Shown since, and shorter than what was shown before. */
TEST_FIXTURE(a_trail_that_went_back_before_the_servers_eyes_is_found, trails_setup, NULL)
{
	char kept[160], shown[160], more[512];

	keep(&forged, 1, 8);
	(void)head_json(&forged, 8, 3, shown);
	(void)head_json(&honest, 9, 2, kept);
	(void)str_format(more, sizeof(more),
			 "{\"trails\": [{\"node_id\": \"n1\", \"heads\": [%s], \"breaks\": [{\"kept\": %s, "
			 "\"shown\": %s}]}]}",
			 shown, kept, shown);
	will_answer(0, "Operator.ListTrails", more);
	expect_failure(with_spec("audit verify --server @"), STATUS_DATA_LOSS, "was rewound: record 9");
}

TEST_FIXTURE(another_trail_in_its_place_is_found, trails_setup, NULL)
{
	keep(&forged, 6, 12);
	server_was_shown(7, 9);
	expect_ok(with_spec("audit verify --rotated @"));
	expect_failure(
		with_spec("audit verify --rotated --server @"), STATUS_DATA_LOSS,
		"the trail of node n1 was replaced, or its agent lied: it has no record that the server saw. "
		"The first missing one is record 7, seen at 1970-01-01T00:01:00.000Z.");
	expect_failure(with_spec("audit verify --rotated --server --json @"), STATUS_DATA_LOSS, "replaced");
	expect_output("\"verdict\": \"replaced\"");
}

TEST_FIXTURE(a_rotated_trail_is_verified_by_its_newest_file_alone, trails_setup, NULL)
{
	keep(&honest, 5, 12);
	server_was_shown(3, 9);
	expect_ok(with_spec("audit verify --rotated --server --json @"));
	expect_output("\"is\": \"not-covered\"");
	keep(&honest, 10, 12);
	expect_failure(
		with_spec("audit verify --rotated --server @"), STATUS_FAILED_PRECONDITION,
		"the files begin with record 10, after record 9, the last that node n1 has shown. Next: add "
		"the older files");
}

TEST_FIXTURE(a_trail_without_a_server_head_is_not_verified, trails_setup, NULL)
{
	keep(&honest, 1, 12);
	will_answer(0, "Operator.ListTrails", "{\"trails\": [{\"node_id\": \"n10\"}]}");
	expect_failure(
		with_spec("audit verify --server @"), STATUS_NOT_FOUND,
		"the server has no head of the trail of node n1, so its length is unknown. Next: holdfast "
		"operator trail");
	will_refuse(0, "Operator.ListTrails", STATUS_PERMISSION_DENIED);
	expect_failure(with_spec("audit verify --server @"), STATUS_PERMISSION_DENIED, "");
}

TEST_FIXTURE(the_trail_of_another_node_is_not_taken_for_this_ones, trails_setup, NULL)
{
	keep(&honest, 1, 12);
	server_was_shown(3, 9);
	expect_ok(with_spec("audit verify --server --node n1 @"));
	expect_failure(with_spec("audit verify --server --node n2 @"), STATUS_DATA_LOSS,
		       "is the trail of node n1. Next: give the trail of node n2");
	write_spec("");
	expect_failure(with_spec("audit verify --server @"), STATUS_DATA_LOSS, "give --node ID");
	expect_failure(with_spec("audit verify --server --node n1 @"), STATUS_DATA_LOSS, "is cut");
	expect_usage_error(with_spec("audit verify --node n1 @"), "it needs --server");
	expect_usage_error("audit verify --server -", "--server needs --node ID");
}

TEST_FIXTURE(the_last_head_of_each_node_is_shown_with_its_age, trails_setup, NULL)
{
	char shown[160];

	server_was_shown(3, 9);
	expect_ok("operator trail");
	expect_output("n1");
	expect_output("9");
	expect_output("ok");
	(void)str_format(
		answer, sizeof(answer),
		"{\"trails\": [{\"node_id\": \"n1\", \"behind_since_ms\": \"1\"}, {\"node_id\": \"n2\", "
		"\"heads\": [%s], \"breaks\": [{\"kept\": %s, \"shown\": %s}]}]}",
		head_json(&honest, 4, 1, shown), shown, shown);
	expect_ok("operator trail");
	expect_output("behind for ");
	expect_output("went back 1 times");
	expect_ok("operator trail n1 --json");
	expect_request("Operator.ListTrails {\"per_page\":1000}\nOperator.ListTrails "
		       "{\"per_page\":1000}\nOperator.ListTrails {\"per_page\":1000,\"prefix\":\"n1\"}\n");
	expect_output("\"behind_since_ms\": ");
}

TEST_FIXTURE(accepting_a_break_needs_a_reason_and_a_confirmation, trails_setup, NULL)
{
	will_answer(0, "Operator.AcceptTrail", "{\"trail\": {\"node_id\": \"n1\"}}");
	expect_usage_error("operator trail accept n1", "give a reason with --reason");
	expect_failure("operator trail accept n1 --reason new", STATUS_INVALID_ARGUMENT, "give --yes");
	assert_null(strstr(fake.requests, "AcceptTrail"));
	expect_ok("operator trail accept n1 --reason new --yes");
	expect_request("Operator.AcceptTrail {\"node_id\":\"n1\",\"reason\":\"new\"}");
	expect_output("the trail of node n1 counts as whole from its last head on");
}

TEST_GROUP(run_begin, run_end)
