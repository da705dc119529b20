/* SPDX-License-Identifier: Apache-2.0 */
#include "status/metrics.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "rpc/scrape.h"

typedef Holdfast__V1__GetAgentStatusResponse report;

enum { MSEC_PER_SEC = 1000 };

static uint64_t seconds_since(int64_t since_ms, int64_t now_ms)
{
	return since_ms > 0 && since_ms < now_ms ? (uint64_t)(now_ms - since_ms) / MSEC_PER_SEC : 0;
}

static void print_session(const report *pb, int64_t now_ms, struct strbuf *to)
{
	scrape_one(to, "agent_connected", "gauge", "1 if the agent has a session with a server.",
		   pb->connected ? 1 : 0);
	scrape_one(to, "agent_session_seconds", "gauge", "Age of the session, 0 without one.",
		   pb->connected ? seconds_since(pb->connected_since_ms, now_ms) : 0);
	scrape_one(to, "agent_receipts_pending", "gauge",
		   "Receipts that the server has not acknowledged yet.", pb->receipts_pending);
	scrape_one(to, "agent_problems", "gauge",
		   "Problems of the agent itself; holdfast agent status shows them.", pb->n_problems);
}

static void print_work(const report *pb, int64_t now_ms, struct strbuf *to)
{
	uint64_t oldest = 0, failing = 0, full = 0, abnormal = 0;

	for (size_t i = 0; i < pb->n_operations; i++) {
		uint64_t age = seconds_since(pb->operations[i]->since_ms, now_ms);

		oldest = age > oldest ? age : oldest;
		failing += pb->operations[i]->last_error[0] != '\0';
	}
	for (size_t i = 0; i < pb->n_mounts; i++) {
		const Holdfast__V1__VolumeUsage *usage = pb->mounts[i]->usage;

		full += usage && usage->full;
		abnormal += usage && usage->condition[0] != '\0';
	}
	scrape_one(to, "agent_allocations", "gauge", "Allocations that the agent has.", pb->n_allocations);
	scrape_one(to, "agent_mounts", "gauge", "Published volumes, unknown mounts included.", pb->n_mounts);
	scrape_one(to, "agent_mounts_full", "gauge", "Published volumes at or above their level.", full);
	scrape_one(to, "agent_mounts_abnormal", "gauge",
		   "Published volumes with a condition, for instance read-only.", abnormal);
	scrape_one(to, "agent_operations", "gauge", "Volume operations in flight.", pb->n_operations);
	scrape_one(to, "agent_operations_failing", "gauge", "Volume operations whose last try failed.",
		   failing);
	scrape_one(to, "agent_operation_seconds_max", "gauge", "Age of the oldest volume operation.", oldest);
}

static void print_helper(const report *pb, struct strbuf *to)
{
	const Holdfast__V1__AgentHelper *helper = pb->helper;

	scrape_one(to, "agent_helper_running", "gauge", "1 if a mount helper takes requests.",
		   helper && helper->running);
	scrape_one(to, "agent_helper_restarts_total", "counter", "Restarts of mount helpers.",
		   helper ? helper->restarts : 0);
	scrape_one(to, "agent_helper_queued", "gauge", "Requests to the mount helper without an answer.",
		   helper ? helper->queued : 0);
}

static uint64_t is_healthy(const Holdfast__V1__AgentPlugin *plugin)
{
	return str_eq(plugin->state, "healthy");
}

static uint64_t n_calls(const Holdfast__V1__AgentPlugin *plugin)
{
	return plugin->calls;
}

static uint64_t n_failed(const Holdfast__V1__AgentPlugin *plugin)
{
	return plugin->calls_failed;
}

static uint64_t n_in_flight(const Holdfast__V1__AgentPlugin *plugin)
{
	return plugin->calls_in_flight;
}

static uint64_t n_waiting(const Holdfast__V1__AgentPlugin *plugin)
{
	return plugin->calls_waiting;
}

/* A plugin is shown by the instance in use, or by its first one. */
static bool is_shown(const report *pb, size_t i)
{
	bool is_first = true;

	for (size_t k = 0; k < pb->n_plugins; k++) {
		if (!str_eq(pb->plugins[k]->plugin_id, pb->plugins[i]->plugin_id))
			continue;
		if (pb->plugins[k]->used)
			return k == i;
		is_first = is_first && k >= i;
	}
	return is_first;
}

static void print_plugins(const report *pb, const char *name,
			  uint64_t (*value_of)(const Holdfast__V1__AgentPlugin *plugin), struct strbuf *to)
{
	for (size_t i = 0; i < pb->n_plugins; i++)
		if (is_shown(pb, i))
			scrape_labelled(to, name, "plugin", pb->plugins[i]->plugin_id,
					value_of(pb->plugins[i]));
}

static void print_calls(const report *pb, int64_t now_ms, struct strbuf *to)
{
	scrape_head(to, "agent_plugin_healthy", "gauge", "1 if the CSI plugin answers its probes.");
	print_plugins(pb, "agent_plugin_healthy", is_healthy, to);
	scrape_head(to, "agent_plugin_calls_total", "counter", "Calls to the plugin's instance in use.");
	print_plugins(pb, "agent_plugin_calls_total", n_calls, to);
	scrape_head(to, "agent_plugin_call_failures_total", "counter", "Calls to it that failed.");
	print_plugins(pb, "agent_plugin_call_failures_total", n_failed, to);
	scrape_head(to, "agent_plugin_calls_in_flight", "gauge", "Calls without an answer yet.");
	print_plugins(pb, "agent_plugin_calls_in_flight", n_in_flight, to);
	scrape_head(to, "agent_plugin_calls_waiting", "gauge", "Calls that wait for an earlier one.");
	print_plugins(pb, "agent_plugin_calls_waiting", n_waiting, to);
	scrape_head(to, "agent_plugin_call_seconds_max", "gauge", "Age of the oldest call in flight.");
	for (size_t i = 0; i < pb->n_plugins; i++)
		if (is_shown(pb, i))
			scrape_labelled(to, "agent_plugin_call_seconds_max", "plugin",
					pb->plugins[i]->plugin_id,
					seconds_since(pb->plugins[i]->oldest_since_ms, now_ms));
	scrape_head(to, "agent_driver_healthy", "gauge", "1 if the task driver and its engine answer.");
	for (size_t i = 0; i < pb->n_drivers; i++)
		scrape_labelled(to, "agent_driver_healthy", "driver", pb->drivers[i]->name,
				pb->drivers[i]->healthy ? 1 : 0);
}

void agent_metrics_print(const report *pb, int64_t now_ms, struct strbuf *to)
{
	print_session(pb, now_ms, to);
	print_work(pb, now_ms, to);
	print_helper(pb, to);
	print_calls(pb, now_ms, to);
}
