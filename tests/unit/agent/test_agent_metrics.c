/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's report as metrics. */

#include "unit.h"

#include "base/strbuf.h"
#include "rpc/pbjson.h"
#include "status/metrics.h"

#include <jansson.h>

enum { NOW_MS = 100000 };

static void print(const char *json_text, struct strbuf *to)
{
	cleanup(json_decrefp) json_t *json = json_loads(json_text, 0, NULL);
	cleanup_pb ProtobufCMessage *report = NULL;
	struct error err = {.msg = ""};

	assert_succeeds(
		pbjson_decode(&holdfast__v1__get_agent_status_response__descriptor, json, 0, &report, &err),
		err);
	agent_metrics_print((const void *)report, NOW_MS, to);
}

static void expect(const char *json, const char *const *lines, size_t n)
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(1 << 20);

	print(json, &sb);
	for (size_t i = 0; i < n; i++)
		assert_msg(strstr(sb.data, lines[i]), "%s is not in\n%s", lines[i], sb.data);
}

TEST(an_agent_at_rest_has_every_metric)
{
	static const char *const lines[] = {
		"\nholdfast_agent_connected 0\n",	 "\nholdfast_agent_session_seconds 0\n",
		"\nholdfast_agent_receipts_pending 0\n", "\nholdfast_agent_problems 0\n",
		"\nholdfast_agent_allocations 0\n",	 "\nholdfast_agent_mounts 0\n",
		"\nholdfast_agent_mounts_full 0\n",	 "\nholdfast_agent_mounts_abnormal 0\n",
		"\nholdfast_agent_operations 0\n",	 "\nholdfast_agent_operations_failing 0\n",
		"\nholdfast_agent_helper_running 0\n",	 "\nholdfast_agent_operation_seconds_max 0\n",
		"\nholdfast_agent_helper_queued 0\n",	 "\nholdfast_agent_helper_restarts_total 0\n",
	};

	expect("{}", lines, ARRAY_SIZE(lines));
}

TEST(an_agent_at_work_moves_its_metrics)
{
	static const char *const lines[] = {
		"\nholdfast_agent_connected 1\n",
		"\nholdfast_agent_session_seconds 60\n",
		"\nholdfast_agent_receipts_pending 2\n",
		"\nholdfast_agent_problems 1\n",
		"\nholdfast_agent_allocations 1\n",
		"\nholdfast_agent_mounts 3\n",
		"\nholdfast_agent_mounts_full 1\n",
		"\nholdfast_agent_mounts_abnormal 1\n",
		"\nholdfast_agent_operations 2\n",
		"\nholdfast_agent_operations_failing 1\n",
		"\nholdfast_agent_operation_seconds_max 90\n",
		"\nholdfast_agent_helper_running 1\n",
		"\nholdfast_agent_helper_restarts_total 4\n",
		"\nholdfast_agent_helper_queued 5\n",
	};

	expect("{\"connected\": true, \"connected_since_ms\": 40000, \"receipts_pending\": 2, \"problems\": "
	       "[\"x\"], \"allocations\": [{\"id\": \"a\"}], \"mounts\": [{\"volume_id\": \"db\"}, "
	       "{\"usage\": "
	       "{\"full\": true}}, {\"usage\": {\"condition\": \"read-only\"}}], \"operations\": "
	       "[{\"since_ms\": "
	       "10000, \"last_error\": \"x\"}, {\"since_ms\": 70000}], \"helper\": {\"running\": true, "
	       "\"restarts\": 4, \"queued\": 5}}",
	       lines, ARRAY_SIZE(lines));
}

#define OLD "{\"plugin_id\": \"ebs\", \"state\": \"unhealthy\", \"calls\": 90}"
#define USED                                                                                                \
	"{\"plugin_id\": \"ebs\", \"state\": \"healthy\", \"used\": true, \"calls\": 9, \"calls_failed\": " \
	"4, "                                                                                               \
	"\"calls_in_flight\": 2, \"calls_waiting\": 1, \"oldest_call\": \"NodeStageVolume\", "              \
	"\"oldest_since_ms\": "                                                                             \
	"95000}"

TEST(a_plugin_counts_by_the_instance_in_use)
{
	static const char *const lines[] = {
		"\nholdfast_agent_plugin_healthy{plugin=\"ebs\"} 1\n",
		"\nholdfast_agent_plugin_calls_total{plugin=\"ebs\"} 9\n",
		"\nholdfast_agent_plugin_call_failures_total{plugin=\"ebs\"} 4\n",
		"\nholdfast_agent_plugin_calls_in_flight{plugin=\"ebs\"} 2\n",
		"\nholdfast_agent_plugin_calls_waiting{plugin=\"ebs\"} 1\n",
		"\nholdfast_agent_plugin_call_seconds_max{plugin=\"ebs\"} 5\n",
		"\nholdfast_agent_plugin_healthy{plugin=\"nfs\"} 0\n",
		"\nholdfast_agent_driver_healthy{driver=\"container\"} 1\n",
		"\nholdfast_agent_driver_healthy{driver=\"wasm\"} 0\n",
	};
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(1 << 20);
	const char *at;
	size_t n = 0;

	expect("{\"plugins\": [" OLD ", " USED
	       ", {\"plugin_id\": \"nfs\", \"state\": \"absent\"}], \"drivers\": "
	       "[{\"name\": \"container\", \"healthy\": true}, {\"name\": \"wasm\"}]}",
	       lines, ARRAY_SIZE(lines));
	print("{\"plugins\": [" OLD ", " USED "]}", &sb);
	assert_null(strstr(sb.data, "{plugin=\"ebs\"} 90\n"));
	strbuf_consume(&sb, sb.len);
	print("{\"plugins\": [" OLD ", " OLD "]}", &sb); /* a series is there once */
	for (at = sb.data; (at = strstr(at, "holdfast_agent_plugin_healthy{")) != NULL; at++)
		n++;
	assert_int_equal(n, 1);
}

TEST(metrics_name_no_volume_and_no_allocation)
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(1 << 20);

	print("{\"mounts\": [{\"volume_id\": \"secret-name\", \"alloc_id\": \"0192\"}], \"operations\": "
	      "[{\"volume_id\": \"secret-name\", \"alloc_id\": \"0192\", \"last_error\": \"secret-name\"}]}",
	      &sb);
	assert_null(strstr(sb.data, "secret-name"));
	assert_null(strstr(sb.data, "0192"));
}
