/* SPDX-License-Identifier: Apache-2.0 */
/* Long lists: each output has one page of them in memory, a table the bytes that it shows. */

#include "run.h"
#include "unit.h"

#include "model/filter.h"

#include <holdfast/v1/jobs.pb-c.h>
#include <holdfast/v1/types.pb-c.h>
#include <jansson.h>
#include <string.h>

enum {
	PAGE = 1000,
	SHORT = 3 * PAGE,
	LONG = 12 * PAGE,
	HUGE = 40 * PAGE,
	SLACK = 256 * 1024,  /* buffers */
	BYTES_OF_LINE = 128, /* of the table's cells, in a buffer that doubles */
};

/* Bytes that the heap grew while pages of @n volumes came. */
static size_t growth(const char *line, size_t n)
{
	fake.n_volumes = n;
	fake.calls[0] = '\0';
	expect_ok(line);
	return fake.heap_most - fake.heap_least;
}

TEST_FIXTURE(json_of_a_long_list_takes_no_more_memory_than_of_a_short_one, run_setup, NULL)
{
	assert_true(growth("volume status --json", LONG) <= growth("volume status --json", SHORT) + SLACK);
}

TEST_FIXTURE(yaml_and_names_of_a_long_list_take_no_more_memory, run_setup, NULL)
{
	assert_true(growth("volume status -o yaml", LONG) <= growth("volume status -o yaml", SHORT) + SLACK);
	assert_true(growth("volume status -o name", LONG) <= growth("volume status -o name", SHORT) + SLACK);
}

TEST_FIXTURE(a_table_of_a_long_list_takes_the_bytes_that_it_shows, run_setup, NULL)
{
	assert_true(growth("volume status", HUGE) <= HUGE * BYTES_OF_LINE + SLACK);
}

/* What the server answers to a filter by @name. */
static void expect_filter_refused(const char *command, const char *method,
				  const ProtobufCMessageDescriptor *listed, const char *name,
				  const char *text)
{
	struct filter *filter = NULL;
	static struct error err;
	char line[FAKE_TEXT];

	(void)str_format(line, sizeof(line), "%s == 1", name);
	assert_int_equal(filter_new(line, listed, &filter, &err), STATUS_INVALID_ARGUMENT);
	fake.answers[0] =
		(struct fake_answer){.method = method, .status = STATUS_INVALID_ARGUMENT, .lost = err.msg};
	(void)str_format(line, sizeof(line), "%s --filter %s==1", command, name);
	expect_failure(line, STATUS_INVALID_ARGUMENT, text);
}

TEST_FIXTURE(a_filter_by_the_name_of_a_column_is_told_its_field, run_setup, NULL)
{
	expect_filter_refused("alloc status", "Allocations.List", &holdfast__v1__allocation__descriptor,
			      "status", "has no field 'status'; column STATUS shows client_status");
	expect_filter_refused("alloc status", "Allocations.List", &holdfast__v1__allocation__descriptor,
			      "AGE", "has no field 'AGE'; column AGE shows create_time_ms");
	expect_filter_refused("volume status", "Volumes.List", &holdfast__v1__volume__descriptor, "full",
			      "has no field 'full'; column FULL shows usages.percent");
	expect_filter_refused("node status", "Nodes.List", &holdfast__v1__node__descriptor, "version",
			      "has no field 'version'; column VERSION shows agent_version");
	expect_filter_refused("job status", "Jobs.List", &holdfast__v1__job__descriptor, "submitted",
			      "has no field 'submitted'; column SUBMITTED shows submit_time_ms");
	expect_filter_refused("job status", "Jobs.List", &holdfast__v1__job__descriptor, "statu",
			      "has no field 'statu'");
	assert_null(strstr(ending.err.msg, "column STATU"));
}

/* The same text as one answer has: pages leave no trace. */
static void expect_same_in_pages(const char *line)
{
	static char whole[OUTPUT_MAX];

	will_answer(0, "Volumes.List",
		    "{\"volumes\": [{\"id\": \"a\"}, {\"id\": \"b\"}, {\"id\": \"c\"}], \"index\": 7}");
	expect_ok(line);
	(void)str_copy(whole, sizeof(whole), ending.output);
	will_answer(0, "Volumes.List",
		    "{\"volumes\": [{\"id\": \"a\"}], \"next_token\": \"b\", \"index\": 7}");
	will_answer(1, "Volumes.List", "{\"next_token\": \"c\", \"index\": 8}");
	will_answer(2, "Volumes.List", "{\"volumes\": [{\"id\": \"b\"}, {\"id\": \"c\"}], \"index\": 9}");
	memset(fake.given, 0, sizeof(fake.given));
	expect_ok(line);
	assert_string_equal(ending.output, whole);
	memset(fake.given, 0, sizeof(fake.given));
	memset(fake.answers, 0, sizeof(fake.answers));
}

TEST_FIXTURE(pages_leave_no_trace_in_any_output, run_setup, NULL)
{
	expect_same_in_pages("volume status --json");
	expect_same_in_pages("volume status -o yaml");
	expect_same_in_pages("volume status -o name");
	expect_same_in_pages("volume status");
}

TEST_FIXTURE(an_empty_list_is_a_whole_answer, run_setup, NULL)
{
	cleanup(json_decrefp) json_t *json = NULL;

	will_answer(0, "Volumes.List", "{\"index\": 7}");
	expect_ok("volume status --json");
	assert_string_equal(ending.output,
			    "{\n  \"volumes\": [],\n  \"index\": \"7\",\n  \"next_token\": \"\"\n}\n");
	expect_ok("volume status -o yaml");
	assert_string_equal(ending.output, "volumes: []\nindex: \"7\"\nnext_token: \"\"\n");
	expect_ok("volume status -o name");
	assert_string_equal(ending.output, "");
	expect_ok("volume status");
	assert_string_equal(ending.output, "no volumes\n");
	fake.n_volumes = 2;
	memset(fake.answers, 0, sizeof(fake.answers));
	expect_ok("volume status --json");
	json = json_loads(ending.output, 0, NULL);
	assert_int_equal(json_array_size(json_object_get(json, "volumes")), 2);
}

TEST_FIXTURE(a_list_that_breaks_off_fails, run_setup, NULL)
{
	will_answer(0, "Volumes.List", "{\"volumes\": [{\"id\": \"a\"}], \"next_token\": \"b\"}");
	will_refuse(1, "Volumes.List", STATUS_UNAVAILABLE);
	expect_failure("volume status --json", STATUS_UNAVAILABLE, "the server refuses");
	assert_null(json_loads(ending.output, 0, NULL));
	memset(fake.given, 0, sizeof(fake.given));
	expect_failure("volume status", STATUS_UNAVAILABLE, "the server refuses");
	assert_string_equal(ending.output, "");
}

TEST_FIXTURE(a_server_that_repeats_a_page_is_found, run_setup, NULL)
{
	will_answer(0, "Volumes.List", "{\"volumes\": [{\"id\": \"a\"}], \"next_token\": \"b\"}");
	expect_failure("volume status", STATUS_INTERNAL, "the server repeats a page of Volumes.List");
}

TEST_FIXTURE(a_list_that_comes_back_to_a_former_page_is_found, run_setup, NULL)
{
	for (size_t i = 0; i < 4; i++)
		will_answer(i, "Volumes.List",
			    i % 2 == 0 ? "{\"volumes\": [{\"id\": \"a\"}], \"next_token\": \"b\"}"
				       : "{\"volumes\": [{\"id\": \"b\"}], \"next_token\": \"a\"}");
	will_answer(4, "Volumes.List", "{}");
	expect_failure("volume status", STATUS_INTERNAL, "the server repeats a page of Volumes.List");
}
