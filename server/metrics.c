/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics.h"

#include "certificate.h"
#include "server.h"

#include "access/access.h"
#include "access/revocations.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "claim/release.h"
#include "fence/fencers.h"
#include "fence/fences.h"
#include "lead/lead.h"
#include "model/alloc.h"
#include "model/claim.h"
#include "node/lookup.h"
#include "node/session.h"
#include "node/trails.h"
#include "plugin/controller.h"
#include "plugin/fence_clients.h"
#include "plugin/plugins.h"
#include "recovery/backup.h"
#include "recovery/history.h"
#include "recovery/replaced.h"
#include "rpc/scrape.h"
#include "state/disk.h"
#include "state/stall.h"
#include "volume/schedules.h"

#include <holdfast/v1/operator.pb-c.h>
#include <inttypes.h>

#define CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

enum {
	METRICS_MAX = 2048 * 1024, /* bytes; the numbers of methods, plugins and volumes bound them below */
	METRICS_PLUGINS_MAX = 500, /* nodes name what they like */
	METRICS_DRIVERS_MAX = 64,  /* names */
	METRICS_NODES_MAX = 1000,
	METRICS_VOLUMES_MAX = 500, /* the fullest ones */
	MSEC_PER_SEC = 1000,
};

static void print_nodes(const struct server *server, struct strbuf *to)
{
	const struct state *state = &server->state;

	scrape_head(to, "nodes", "gauge", "Known nodes, by whether they have a session.");
	scrape_labelled(to, "nodes", "status", "connected", server->n_sessions);
	scrape_labelled(to, "nodes", "status", "disconnected",
			state->n_nodes > server->n_sessions ? state->n_nodes - server->n_sessions : 0);
	scrape_one(to, "nodes_down", "gauge", "Nodes that are disconnected for longer than node_down_after.",
		   state->n_nodes_down);
	scrape_one(to, "node_heartbeat_age_seconds_max", "gauge",
		   "How long nothing was heard of the connected node that is silent longest.",
		   session_silence_us(server) / USEC_PER_SEC);
	scrape_one(to, "node_heartbeat_seconds", "gauge",
		   "The interval of heartbeats: the setting, or more with many nodes.",
		   (nodes_heartbeat_ms(server) + MSEC_PER_SEC - 1) / MSEC_PER_SEC);
	scrape_one(to, "sessions_silent_total", "counter",
		   "Sessions ended because nothing was heard of their node for three heartbeats.",
		   server->silence.n_ended);
	scrape_one(to, "nodes_clock_off", "gauge",
		   "Nodes whose clock was 10 seconds or more away from the server's when they connected.",
		   state->n_nodes_clock_off);
	scrape_one(to, "nodes_other_ticket_key", "gauge",
		   "Nodes whose mount helper takes no ticket of this server, because its policy names "
		   "another key.",
		   state->n_nodes_other_key);
	scrape_head(to, "nodes_disk_trouble", "gauge",
		    "Nodes whose agent has no room for its journal, by kind: they take no new allocation.");
	for (int i = NODE_DISK_ROOM + 1; i < NODE_DISK_N; i++)
		scrape_labelled(to, "nodes_disk_trouble", "kind", node_disk_word((enum node_disk)i),
				state->n_nodes_disk[i]);
	scrape_one(to, "nodes_ineligible", "gauge", "Nodes where nothing new is placed.",
		   state->n_nodes_ineligible);
	scrape_one(to, "nodes_draining", "gauge", "Nodes whose drain is in progress.",
		   state->n_nodes_draining);
}

static void print_services(const char *plugin, const char *service, uint32_t healthy, uint32_t expected,
			   struct strbuf *to)
{
	static const char line[] =
		"holdfast_plugin_instances{plugin=\"%s\",service=\"%s\",healthy=\"%s\"} %" PRIu32 "\n";

	if (expected == 0)
		return;
	strbuf_printf(to, line, plugin, service, "true", healthy);
	strbuf_printf(to, line, plugin, service, "false", expected > healthy ? expected - healthy : 0);
}

/* Prints the counts of Plugins.List; only plugins of which a fact has changed are counted again. */
static void print_plugins(struct server *server, struct strbuf *to)
{
	struct plugin_entry *plugin = state_plugin_from(&server->state, "");

	scrape_head(to, "plugin_instances", "gauge",
		    "Instances of plugins on nodes; healthy: as the node reports, and connected. 500 plugins "
		    "at most.");
	for (int n = 0; plugin && n < METRICS_PLUGINS_MAX; plugin = state_plugin_next(plugin)) {
		struct plugin_summary summary;

		plugin_summarize_all(plugin, &summary);
		n += summary.nodes_expected > 0 || summary.controllers_expected > 0;
		print_services(plugin->id, "node", summary.nodes_healthy, summary.nodes_expected, to);
		print_services(plugin->id, "controller", summary.controllers_healthy,
			       summary.controllers_expected, to);
	}
}

struct driver_counts {
	size_t n;
	struct {
		const char *name; /* borrowed from a node's report */
		uint32_t n[2];	  /* unhealthy, healthy */
	} of[METRICS_DRIVERS_MAX];
};

static void count_drivers(const struct node_entry *node, struct driver_counts *counts)
{
	for (size_t i = 0; i < message_list_n(node->drivers); i++) {
		const Holdfast__V1__NodeDriver *driver = (const void *)node->drivers->messages[i];
		size_t k = 0;

		while (k < counts->n && !str_eq(counts->of[k].name, driver->name))
			k++;
		if (k == METRICS_DRIVERS_MAX)
			continue;
		if (k == counts->n)
			counts->of[counts->n++].name = driver->name;
		counts->of[k].n[driver->healthy && node_is_connected(node)]++;
	}
}

/* A node that is away keeps the drivers of its last report. */
static void print_drivers(struct server *server, struct strbuf *to)
{
	static const char line[] = "holdfast_driver_instances{driver=\"%s\",healthy=\"%s\"} %" PRIu32 "\n";
	struct driver_counts counts = {.n = 0};

	for (struct node_entry *node = state_node_from(&server->state, ""); node;
	     node = state_node_next(node))
		count_drivers(node, &counts);
	scrape_head(
		to, "driver_instances", "gauge",
		"Task drivers on nodes; healthy: the node reports so, and is connected. 64 names at most.");
	for (size_t i = 0; i < counts.n; i++) {
		strbuf_printf(to, line, counts.of[i].name, "true", counts.of[i].n[true]);
		strbuf_printf(to, line, counts.of[i].name, "false", counts.of[i].n[false]);
	}
}

static void print_objects(struct server *server, struct strbuf *to)
{
	struct state *state = &server->state;
	uint64_t percent;

	(void)namespaces_fullest(&state->namespaces, &percent);
	scrape_one(to, "volumes", "gauge", "Registered volumes.", state->n_volumes);
	scrape_head(to, "claims", "gauge",
		    "Claims by state; those that are freed are history, and not counted.");
	for (int i = CLAIM_RESERVED; i < CLAIM_FREED; i++)
		scrape_labelled(to, "claims", "state", claim_state_name((enum claim_state)i),
				state->n_claims_by[i]);
	scrape_one(to, "volumes_held_twice", "gauge",
		   "Volumes of which more is mounted than their access mode allows: by a claim that was "
		   "freed, or by two writers; see operations.",
		   state->n_volumes_held_twice);
	scrape_one(to, "releases_waiting", "gauge",
		   "Claims on their way to be freed, from the moment on when their work was ordered to stop.",
		   state->n_releasing);
	scrape_head(to, "allocations", "gauge", "Allocations by client status.");
	for (int i = CLIENT_PENDING; i < CLIENT_N; i++)
		scrape_labelled(to, "allocations", "client_status", client_status_name((enum client_status)i),
				state->n_allocs_by[i]);
	scrape_one(to, "sessions", "gauge", "Sessions of nodes.", server->n_sessions);
	scrape_one(to, "revocations", "gauge",
		   "Entries of the list of revoked certificates; 8192 are the most.",
		   revocations_count(server));
	scrape_one(to, "namespace_memory_percent_max", "gauge",
		   "Share of namespace_memory that the largest namespace takes; at 87 it gets nothing new.",
		   percent);
	scrape_one(to, "watches", "gauge", "Reads that wait for a change.", server->n_watches);
}

typedef uint64_t usage_value(const Holdfast__V1__VolumeUsage *usage);

static void print_usage(const struct state *state, const char *name, usage_value *value, struct strbuf *to)
{
	const struct claim_usage *usage = usages_first(&state->usages);

	for (int n = 0; usage && n < METRICS_VOLUMES_MAX; usage = usages_next(usage)) {
		const struct claim *claim = &usage->claim->claim;

		if (usage->usage.total_bytes == 0 || usage->usage.unknown_since_ms != 0 ||
		    !node_is_connected(usage->claim->node))
			continue;
		n++;
		strbuf_printf(to, "holdfast_%s{volume=\"%s\",namespace=\"%s\",node=\"%s\"} %" PRIu64 "\n",
			      name, claim->volume_id, claim->namespace, claim->node_id, value(&usage->usage));
	}
}

#define USAGE_VALUE(field)                                                 \
	static uint64_t field##_of(const Holdfast__V1__VolumeUsage *usage) \
	{                                                                  \
		return usage->field;                                       \
	}
USAGE_VALUE(total_bytes)
USAGE_VALUE(used_bytes)
USAGE_VALUE(free_bytes)
USAGE_VALUE(used_inodes)
USAGE_VALUE(free_inodes)

static void print_usages(const struct state *state, struct strbuf *to)
{
	const struct usages *usages = &state->usages;

	scrape_one(to, "volumes_full", "gauge", "Mounted volumes at or above their level (warn_at).",
		   usages->n_full);
	scrape_one(to, "volumes_read_only", "gauge",
		   "Volumes mounted for writing whose file system the kernel made read-only.",
		   usages->n_read_only);
	scrape_one(to, "volumes_abnormal", "gauge", "Mounted volumes whose node reports a condition.",
		   usages->n_abnormal);
	scrape_one(to, "volumes_unmeasured", "gauge", "Mounted volumes that their node cannot measure.",
		   usages->n_unknown);
	scrape_head(to, "volume_size_bytes", "gauge", "Size of a mounted volume; the 500 fullest.");
	print_usage(state, "volume_size_bytes", total_bytes_of, to);
	scrape_head(to, "volume_used_bytes", "gauge", "Used bytes of a mounted volume.");
	print_usage(state, "volume_used_bytes", used_bytes_of, to);
	scrape_head(to, "volume_free_bytes", "gauge", "Bytes that a workload can still write.");
	print_usage(state, "volume_free_bytes", free_bytes_of, to);
	scrape_head(to, "volume_used_inodes", "gauge", "Used inodes of a mounted volume.");
	print_usage(state, "volume_used_inodes", used_inodes_of, to);
	scrape_head(to, "volume_free_inodes", "gauge", "Inodes that a workload can still make.");
	print_usage(state, "volume_free_inodes", free_inodes_of, to);
}

static uint64_t seconds_since(int64_t since_ms, int64_t now_ms)
{
	return since_ms > 0 && since_ms < now_ms ? (uint64_t)(now_ms - since_ms) / MSEC_PER_SEC : 0;
}

static void print_waits(const struct release_waits *waits, struct strbuf *to)
{
	int64_t now_ms = clock_realtime_ms();

	scrape_head(to, "claims_waiting", "gauge",
		    "Claims by whom they wait for, as of the last sweep; those of an allocation are in use.");
	for (int i = ACTOR_NOBODY + 1; i < ACTOR_N; i++)
		scrape_labelled(to, "claims_waiting", "for", explain_actor_name((enum explain_actor)i),
				waits->n[i]);
	scrape_head(to, "claims_waiting_seconds_max", "gauge",
		    "How long the one of them that waits longest has waited; those in use wait for nothing.");
	for (int i = ACTOR_NOBODY + 1; i < ACTOR_N; i++)
		if (i != ACTOR_ALLOC)
			scrape_labelled(to, "claims_waiting_seconds_max", "for",
					explain_actor_name((enum explain_actor)i),
					seconds_since(waits->since_ms[i], now_ms));
}

static void print_releases(const struct server *server, struct strbuf *to)
{
	struct controller_stats calls;
	struct release_stats stats;

	controller_stats(server, &calls);
	release_stats(server, &stats);
	print_waits(&stats.waits, to);
	scrape_one(to, "claims_failing", "gauge", "Claims whose present step has failed three times or more.",
		   server->state.n_claims_failing);
	scrape_one(to, "releases_total", "counter", "Claims freed.", stats.freed);
	scrape_one(to, "release_detaches_total", "counter", "Detaches asked of controllers.", stats.detaches);
	scrape_one(to, "release_detach_errors_total", "counter",
		   "Detaches that failed, or for which no controller could be asked.", stats.detach_errors);
	scrape_head(
		to, "release_stuck", "gauge",
		"Releases whose last try failed; for: who tried, the node with its plugin or a controller.");
	scrape_labelled(to, "release_stuck", "for", explain_actor_name(ACTOR_NODE),
			server->state.n_node_failing);
	scrape_labelled(to, "release_stuck", "for", explain_actor_name(ACTOR_CONTROLLER), stats.stuck);
	scrape_one(to, "reservations_expired_total", "counter",
		   "Grants that never reached their node, taken back.", stats.expired);
	scrape_one(to, "release_sweeps_total", "counter", "Looks for releases that no event drove on.",
		   stats.sweeps);
	scrape_one(to, "release_swept_up_total", "counter", "Releases found by them; each is a defect.",
		   stats.swept_up);
	scrape_one(to, "plugin_calls_total", "counter", "Calls sent to CSI controllers.", calls.calls);
	scrape_one(to, "plugin_call_failures_total", "counter",
		   "Calls to CSI controllers without a good answer.", calls.failed);
	scrape_one(to, "plugin_call_strays_total", "counter", "Answers of nodes that nothing waited for.",
		   calls.strays);
	scrape_one(to, "plugin_calls_waiting", "gauge",
		   "Calls to CSI controllers that are queued; those of a node are in its agent's status.",
		   calls.waiting);
	scrape_one(to, "plugin_calls_in_flight", "gauge",
		   "Calls to CSI controllers that are not answered yet.", calls.in_flight);
}

/* Prints the time of expiry, which alerts compare with the present time; nothing if it is unknown. */
static void print_expiry(const char *of, int64_t at_ms, struct strbuf *to)
{
	if (at_ms > 0)
		scrape_labelled(to, "certificate_expiry_timestamp_seconds", "of", of,
				(uint64_t)at_ms / MSEC_PER_SEC);
}

/* In the order of their names. */
static void print_node_certificates(struct server *server, struct strbuf *to)
{
	struct node_entry *node = state_node_from(&server->state, "");
	size_t n = 0;

	scrape_head(to, "node_certificate_expiry_timestamp_seconds", "gauge",
		    "When the certificate of each connected node expires, in seconds since 1970.");
	for (; node && n < METRICS_NODES_MAX; node = state_node_next(node)) {
		if (!node->session || node->certificate_expires_ms <= 0)
			continue;
		scrape_labelled(to, "node_certificate_expiry_timestamp_seconds", "node", node->id,
				(uint64_t)node->certificate_expires_ms / MSEC_PER_SEC);
		n++;
	}
}

static void print_certificates(struct server *server, struct strbuf *to)
{
	scrape_head(to, "certificate_expiry_timestamp_seconds", "gauge",
		    "When certificates expire, in seconds since 1970; of connected nodes the first one.");
	print_expiry("server", server->certificate->expires_at_ms, to);
	print_expiry("ca", server->certificate->ca_expires_at_ms, to);
	print_expiry("store", server->certificate->store_expires_at_ms, to);
	print_expiry("nodes", session_first_expiry_ms(server), to);
	print_node_certificates(server, to);
}

static void print_trails(struct server *server, struct strbuf *to)
{
	const struct trails_count count = trails_count(server);

	scrape_one(to, "trail_head_age_seconds_max", "gauge",
		   "How long ago the first node reported a mount, and has shown no new head of its trail "
		   "since; 0: there is no such node.",
		   seconds_since(count.since_ms, clock_realtime_ms()));
	scrape_one(to, "trails_behind", "gauge", "Such nodes.", count.n_behind);
	scrape_one(to, "trails_broken", "gauge", "Nodes whose trail has gone back; see operator trail.",
		   count.n_broken);
}

static void print_fences(struct server *server, struct strbuf *to)
{
	const struct fencers_count fencers = fencers_count(server->fencers);
	const struct fences_count fences = fences_count(server);

	scrape_head(to, "fencers", "gauge", "Fencers that were connected since this server began to lead.");
	scrape_labelled(to, "fencers", "status", "connected", fencers.connected);
	scrape_labelled(to, "fencers", "status", "away", fencers.away);
	scrape_head(to, "power_switches", "gauge",
		    "Power switches of nodes, by the last look of a connected fencer.");
	scrape_labelled(to, "power_switches", "status", "healthy", fencers.switches - fencers.failing);
	scrape_labelled(to, "power_switches", "status", "failing", fencers.failing);
	scrape_one(to, "fences_open", "gauge",
		   "Fences that wait for a fencer, a controller, an answer or a node.", fences.open);
	scrape_one(to, "fences_unproved", "gauge", "Last fences of nodes that were not proved.",
		   fences.unproved);
	scrape_one(to, "network_fences_in_force", "gauge",
		   "Network fences that the storage carries out until the node is back in another boot.",
		   fences.in_force);
	scrape_one(to, "fence_clients_refused", "gauge",
		   "Nodes at a plugin that no network fence can reach, because of the addresses that were "
		   "reported.",
		   fence_clients_refused(server));
}

static void print_schedules(const struct server *server, struct strbuf *to)
{
	const struct schedules_count count = schedules_count(server);

	scrape_one(to, "snapshot_schedules", "gauge",
		   "Volumes of which the server makes snapshots by itself.", count.schedules);
	scrape_one(to, "snapshot_schedules_failing", "gauge",
		   "Those of which the last scheduled snapshot, or its removal, failed.", count.failing);
	scrape_one(to, "scheduled_snapshots_made_total", "counter", "Snapshots made by schedules.",
		   count.made);
	scrape_one(to, "scheduled_snapshots_removed_total", "counter", "Snapshots removed by schedules.",
		   count.removed);
	scrape_one(to, "scheduled_snapshots_failed_total", "counter",
		   "Tries of schedules to make or remove a snapshot that failed.", count.failed);
}

static void print_store(struct server *server, struct strbuf *to)
{
	const struct kv_stats stats = kv_stats(server->kv);

	scrape_one(to, "disk_level", "gauge",
		   "0: there is room; 1: nothing new is taken; 2: nothing is stored; see operator status.",
		   (uint64_t)server->disk->level);
	scrape_one(to, "disk_free_bytes", "gauge", "Free on the disk of the store, without the reserve.",
		   server->disk->free_bytes);
	scrape_one(to, "backup_timestamp_seconds", "gauge",
		   "When the last backup that was read to its end was begun, in seconds since 1970; 0: "
		   "never, or the clock was ahead.",
		   (uint64_t)backup_last_ms(server) / MSEC_PER_SEC);
	scrape_one(to, "backup_kit_timestamp_seconds", "gauge",
		   "When the last kit that was read to its end was begun, in seconds since 1970; 0: never, "
		   "or the clock was ahead.",
		   (uint64_t)backup_last_kit_ms(server) / MSEC_PER_SEC);
	scrape_one(to, "store_mark_broken", "gauge", "1: a mark of the store cannot be written.",
		   stats.mark_errno != 0);
	scrape_one(to, "history_lost", "gauge",
		   "1: the server has begun an epoch because its store went back, and nodes are waited for.",
		   history_is_lost(server));
	scrape_one(to, "nodes_unreported", "gauge", "Known nodes that must still report what they hold.",
		   server->state.n_unreported);
	scrape_one(to, "nodes_missing", "gauge",
		   "Nodes not known by name, of a time that the store has forgotten, which may hold volumes.",
		   history_missing_nodes(server) + replaced_count(server));
	scrape_one(to, "store_index", "gauge", "Revision of the store.", kv_revision(server->kv));
	scrape_one(to, "store_commits_total", "counter", "Durable commits.", stats.commits);
	scrape_one(to, "store_transactions_total", "counter", "Transactions within them.",
		   stats.transactions);
	scrape_one(to, "store_pending", "gauge", "Transactions that wait to be durable.", stats.pending);
	scrape_one(to, "store_pending_seconds_max", "gauge", "How long the oldest one of them has waited.",
		   stats.pending_us / USEC_PER_SEC);
	scrape_one(to, "store_largest_batch", "gauge", "Most transactions of one commit since the start.",
		   stats.largest_batch);
}

static void print_count(const char *service, const char *method, enum status status, uint64_t n,
			void *userdata)
{
	strbuf_printf(userdata,
		      "holdfast_rpc_calls_total{service=\"%s\",method=\"%s\",code=\"%s\"} %" PRIu64 "\n",
		      service, method, status_name(status), n);
}

static void print_rpc(const struct server *server, struct strbuf *to)
{
	const struct rpc_server_stats stats = rpc_server_stats(server->rpc);

	scrape_one(to, "rpc_connections", "gauge", "Open connections.", stats.connections);
	scrape_one(to, "rpc_streams", "gauge", "Open streams.", stats.streams);
	scrape_one(to, "rpc_connections_total", "counter", "Connections that were accepted.", stats.accepted);
	scrape_one(to, "rpc_connections_refused_total", "counter",
		   "Connections that ended before TLS had come about, or were too many.", stats.refused);
	scrape_head(to, "rpc_calls_total", "counter", "Ended calls, by gRPC, JSON or an address.");
	rpc_server_each_count(server->rpc, print_count, to);
}

static void print_lead(const struct server *server, struct strbuf *to)
{
	struct lead_view view = {.is_known = true};

	if (server->lead)
		lead_view(server->lead, &view);
	scrape_one(to, "leads", "gauge", "1: this server leads, or is the only one.",
		   lead_is_own(server->lead));
	scrape_one(to, "leader_known", "gauge", "0: as far as this server knows, no server leads.",
		   view.is_known);
	scrape_one(
		to, "leads_since_seconds", "gauge",
		"When the one that leads began to, in seconds since 1970; 0: not known, or there is but one.",
		(uint64_t)view.since_ms / MSEC_PER_SEC);
}

/* Prints a value for each kind of trouble, so no alert has to test for absence. */
static void print_trouble(const struct server *server, struct strbuf *to)
{
	enum trouble_kind stalled = stall_kind(server);
	enum trouble_kind kind = stalled == TROUBLE_NONE ? lead_trouble(server->lead) : stalled;

	scrape_head(to, "store_trouble", "gauge", "1: the store has this trouble, as this server sees it.");
	for (int i = TROUBLE_NONE + 1; i < TROUBLE_N; i++)
		scrape_labelled(to, "store_trouble", "kind", trouble_word((enum trouble_kind)i),
				kind == (enum trouble_kind)i);
}

void metrics_print(struct server *server, struct strbuf *to)
{
	scrape_head(to, "build_info", "gauge", "Version of the server.");
	scrape_labelled(to, "build_info", "version", HOLDFAST_VERSION, 1);
	print_lead(server, to);
	print_trouble(server, to);
	if (!server->is_serving) { /* the rest is in the store, which another one has open */
		print_certificates(server, to);
		print_rpc(server, to);
		return;
	}
	print_objects(server, to);
	print_usages(&server->state, to);
	print_nodes(server, to);
	print_fences(server, to);
	print_schedules(server, to);
	print_trails(server, to);
	print_plugins(server, to);
	print_drivers(server, to);
	print_releases(server, to);
	print_store(server, to);
	print_certificates(server, to);
	print_rpc(server, to);
}

static enum status print(struct server *server, struct strbuf *to, struct error *err)
{
	metrics_print(server, to);
	return to->error == 0 ? STATUS_OK
			      : error_set(err, STATUS_RESOURCE_EXHAUSTED, to->error, "print the metrics");
}

void metrics_handle(struct rpc_call *call, void *userdata)
{
	cleanup_strbuf struct strbuf text = STRBUF_INIT(METRICS_MAX);
	struct server *server = userdata;
	struct error err;

	if (revocation_check_call(server, call, &err) != STATUS_OK ||
	    access_check(server, call, ACCESS_OPERATOR_READ, NULL, &err) != STATUS_OK ||
	    print(server, &text, &err) != STATUS_OK)
		rpc_call_fail(call, &err);
	else
		rpc_call_reply_text(call, CONTENT_TYPE, text.data);
}

void metrics_handle_get(struct rpc_call *call, const ProtobufCMessage *request, void *server)
{
	cleanup_strbuf struct strbuf text = STRBUF_INIT(METRICS_MAX);
	Holdfast__V1__GetMetricsResponse response = HOLDFAST__V1__GET_METRICS_RESPONSE__INIT;
	struct error err;

	if (print(server, &text, &err) != STATUS_OK) {
		rpc_call_fail(call, &err);
		return;
	}
	response.text = text.data;
	rpc_call_reply(call, &response.base);
}
