/* SPDX-License-Identifier: Apache-2.0 */
/* What nodes are like, how they are emptied and forgotten, and what a person's word can do. */

#include "asks.h"
#include "metrics.h"
#include "unit.h"

#include "access/audit_read.h"
#include "base/strbuf.h"
#include "claim/attest.h"
#include "claim/attest_record.h"
#include "node/down.h"
#include "node/lookup.h"
#include "node/machine_code.h"
#include "node/nodes.h"
#include "node/session.h"
#include "recovery/replaced.h"
#include "rpc/server_internal.h"
#include "state/keys.h"
#include "state/records.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/operator.pb-c.h>

#define NODES &holdfast__v1__nodes__descriptor
#define READY HOLDFAST__V1__NODE_STATUS__READY
#define DISCONNECTED HOLDFAST__V1__NODE_STATUS__DISCONNECTED
#define DOWN HOLDFAST__V1__NODE_STATUS__DOWN
#define DRAINING HOLDFAST__V1__NODE_STATUS__DRAINING

static struct node_entry *node_of(struct fixture *f, const char *id)
{
	return state_node(&f->server->state, id);
}

/* Status. */

CLUSTER_TEST(a_node_is_ready_disconnected_then_down_and_keeps_everything)
{
	take_volume(f);
	assert_int_equal(status_of(f, "n1"), READY);
	lose(f, &f->n1);
	assert_int_equal(status_of(f, "n1"), DISCONNECTED);
	f->server->config.node_down_after_us = 0;
	assert_int_equal(status_of(f, "n1"), DOWN);
	settle(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	assert_int_equal(node_of(f, "n1")->n_live, 1);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_int_equal(status_of(f, "n1"), READY);
	assert_int_equal(nodes_disconnected_ms(f->server, node_of(f, "n1")), 0);
}

static bool is_down(struct fixture *f, const char *node)
{
	return node_of(f, node)->node.status == NODE_DOWN;
}

/* One that went while the clock was a year ahead, before or since the start, keeps no other one up. */
CLUSTER_TEST(a_node_with_a_time_to_come_goes_down_and_so_do_later_ones)
{
	const int64_t year_ms = INT64_C(365) * 24 * 3600 * 1000;

	take_volume(f);
	for (int i = 0; i < 2; i++) {
		lose(f, &f->n2);
		settle(f);
		node_of(f, "n2")->node.disconnected_ms += year_ms;
		lose(f, &f->n1);
		settle(f);
		f->server->config.node_down_after_us = 1;
		if (i == 0)
			node_down_rearm(f->server);
		else
			assert_int_equal(node_down_start(f->server, NULL), STATUS_OK);
		UNTIL(f, is_down(f, "n1") && is_down(f, "n2"));
		f->server->config.node_down_after_us = 3600 * USEC_PER_SEC;
		fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
		fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	}
}

CLUSTER_TEST(a_node_that_stays_away_goes_down_by_itself_and_is_counted)
{
	uint64_t index;

	take_volume(f);
	lose(f, &f->n1);
	settle(f);
	index = node_of(f, "n1")->node.modify_index;
	assert_int_equal(f->server->state.n_nodes_down, 0);
	f->server->config.node_down_after_us = 1;
	node_down_rearm(f->server);
	UNTIL(f, is_down(f, "n1"));
	assert_int_equal(f->server->state.n_nodes_down, 1);
	UNTIL(f, node_of(f, "n1")->node.modify_index > index); /* who waits is woken, who watches is told */
	assert_int_equal(status_of(f, "n1"), DOWN);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN); /* no timer releases anything */
	assert_false(is_down(f, "n2"));
	/* it is not told twice, and survives a restart */
	index = node_of(f, "n1")->node.modify_index;
	restart(f);
	settle(f);
	assert_true(is_down(f, "n1"));
	assert_int_equal(f->server->state.n_nodes_down, 1);
	assert_int_equal(node_of(f, "n1")->node.modify_index, index);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_int_equal(f->server->state.n_nodes_down, 0);
	assert_int_equal(status_of(f, "n1"), READY);
}

CLUSTER_TEST(nodes_go_down_in_the_order_in_which_they_went_also_after_a_restart)
{
	struct error err;

	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	lose(f, &f->n2);
	restart(f); /* n1 is missed since then */
	assert_string_equal(TAILQ_FIRST(&f->server->state.absent)->id, "n2");
	assert_string_equal(TAILQ_LAST(&f->server->state.absent, absent_list)->id, "n1");
	f->server->config.node_down_after_us = 0;
	node_down_rearm(f->server);
	UNTIL(f, f->server->state.n_nodes_down == 2);
	assert_null(TAILQ_FIRST(&f->server->state.absent));
	assert_error(purge(f, "n1", &err), STATUS_FAILED_PRECONDITION, err, "may come back"); /* also now */
	assert_int_equal(purge(f, "n2", NULL), STATUS_OK);
	assert_int_equal(f->server->state.n_nodes_down, 1);
}

CLUSTER_TEST(a_node_that_comes_back_in_time_or_is_purged_does_not_go_down)
{
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	lose(f, &f->n1);
	lose(f, &f->n2);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_int_equal(purge(f, "n2", NULL), STATUS_OK);
	f->server->config.node_down_after_us = 0;
	node_down_rearm(f->server);
	settle(f);
	assert_int_equal(f->server->state.n_nodes_down, 0);
	assert_null(TAILQ_FIRST(&f->server->state.absent));
}

CLUSTER_TEST(since_when_a_node_is_away_survives_a_restart)
{
	int64_t since_ms;

	take_volume(f);
	lose(f, &f->n1);
	since_ms = nodes_disconnected_ms(f->server, node_of(f, "n1"));
	assert_true(since_ms > 0);
	restart(f);
	assert_true(nodes_disconnected_ms(f->server, node_of(f, "n1")) == since_ms);
	/* the other one was connected until the server ended: it is missed since the server is back */
	assert_true(nodes_disconnected_ms(f->server, node_of(f, "n2")) == f->server->started_ms);
	assert_int_equal(status_of(f, "n2"), DISCONNECTED);
}

/* Silence. */

enum { HEARTBEAT_MS = 100 };

static void restart_with_heartbeat(struct fixture *f)
{
	f->heartbeat_us = HEARTBEAT_MS * USEC_PER_MSEC;
	restart(f);
}

/* Turns of the loop for @ms, in which n1 says what @speak has it say as often as it should. */
static void pass(struct fixture *f, int64_t ms, void (*speak)(struct fixture *f))
{
	uint64_t end_us = clock_monotonic_us() + (uint64_t)ms * USEC_PER_MSEC;
	uint64_t next_us = 0;

	while (clock_monotonic_us() < end_us) {
		if (speak && clock_monotonic_us() >= next_us) {
			speak(f);
			next_us = clock_monotonic_us() + f->heartbeat_us;
		}
		assert_true(sd_event_run(f->event, 5000) >= 0);
	}
}

static void send_heartbeat(struct fixture *f)
{
	fake_node_send_heartbeat(&f->n1);
}

static void send_fingerprint(struct fixture *f)
{
	fake_node_send_fingerprint(&f->n1);
}

CLUSTER_TEST(a_node_that_is_silent_for_three_heartbeats_is_disconnected_and_keeps_its_claims)
{
	uint64_t since_us;

	take_volume(f);
	restart_with_heartbeat(f);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	since_us = clock_monotonic_us();
	assert_int_equal(status_of(f, "n1"), READY);
	UNTIL(f, f->n1.closed);
	assert_true(clock_monotonic_us() - since_us >= 3 * f->heartbeat_us);
	assert_int_equal(f->n1.closed_status, STATUS_DEADLINE_EXCEEDED);
	assert_int_equal(status_of(f, "n1"), DISCONNECTED);
	assert_non_null(strstr(node_of(f, "n1")->node.disconnect_reason, "nothing was heard of node n1"));
	assert_int_equal(f->server->silence.n_ended, 1);
	settle(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN); /* no timer releases anything */
	/* it is kept, and forgotten when the node is back */
	restart(f);
	assert_non_null(strstr(node_of(f, "n1")->node.disconnect_reason, "nothing was heard of node n1"));
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_string_equal(node_of(f, "n1")->node.disconnect_reason, "");
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup, teardown)

CASE(a_node_that_says_anything_in_time_stays_connected)
{
	static void (*const says[])(struct fixture * f) = {send_heartbeat, send_fingerprint};

	restart_with_heartbeat(f);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	for (size_t i = 0; i < ARRAY_SIZE(says); i++) {
		int64_t seen_ms = node_of(f, "n1")->node.last_seen_ms;

		pass(f, 6 * HEARTBEAT_MS, says[i]);
		assert_false(f->n1.closed);
		assert_true(node_of(f, "n1")->node.last_seen_ms > seen_ms);
	}
	assert_int_equal(f->server->silence.n_ended, 0);
}

CASE(heartbeats_are_rarer_the_more_nodes_there_are)
{
	static const struct {
		size_t nodes;
		uint32_t ms;
	} rows[] = {{2, 5000}, {2500, 5000}, {2501, 5002}, {10000, 20000}, {30000, 60000}, {1000000, 60000}};
	size_t registered;

	f->server->config.heartbeat_us = 5 * USEC_PER_SEC;
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	registered = f->server->state.n_nodes;
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		fake_node_disconnect(&f->n1);
		UNTIL(f, !node_is_connected(node_of(f, "n1")));
		f->server->state.n_nodes = rows[i].nodes;
		fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
		assert_int_equal(nodes_grace_ms(f->server),
				 NODES_GRACE_MS + f->server->config.etcd.lease_us / USEC_PER_MSEC +
					 3 * rows[i].ms);
		f->server->state.n_nodes = registered;
		assert_int_equal(f->n1.heartbeat_ms, rows[i].ms);
	}
	/* an agent has no longer interval than a minute */
	f->server->config.heartbeat_us = 300 * USEC_PER_SEC;
	assert_int_equal(nodes_grace_ms(f->server),
			 NODES_GRACE_MS + f->server->config.etcd.lease_us / USEC_PER_MSEC + 3 * 60000);
}

CLUSTER_TEST(the_time_in_which_the_server_itself_was_stopped_counts_for_no_node)
{
	restart_with_heartbeat(f);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	for (int i = 0; i < 3; i++) {
		unit_clock_advance(5 * HEARTBEAT_MS * USEC_PER_MSEC); /* server and loop stand still */
		pass(f, HEARTBEAT_MS / 5, NULL);
	}
	assert_false(f->n1.closed);
	assert_int_equal(f->server->silence.n_ended, 0);
	UNTIL(f, f->n1.closed);
}

CLUSTER_TEST(a_node_is_silent_by_the_interval_that_it_was_given)
{
	restart_with_heartbeat(f);
	f->server->config.heartbeat_us = 100 * f->heartbeat_us; /* as a reload sets it, for new sessions */
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	f->server->config.heartbeat_us = f->heartbeat_us;
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	UNTIL(f, f->n1.closed);
	pass(f, 6 * HEARTBEAT_MS, NULL);
	assert_false(f->n2.closed);
}

CASE(the_metrics_count_sessions_that_fell_silent)
{
	cleanup_strbuf struct strbuf text = STRBUF_INIT(1 << 20);

	restart_with_heartbeat(f);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	UNTIL(f, f->n1.closed);
	metrics_print(f->server, &text);
	assert_non_null(strstr(text.data, "\nholdfast_sessions_silent_total 1\n"));
	assert_non_null(strstr(text.data, "\nholdfast_nodes{status=\"disconnected\"} 1\n"));
	assert_int_equal(n_events(f, "node n1", "Nodes.Disconnect", "nothing was heard of node n1"), 1);
}

/* Clocks. */

static void expect_clock(struct fixture *f, int64_t ahead_ms, size_t n_off)
{
	cleanup_strbuf struct strbuf text = STRBUF_INIT(1 << 20);
	cleanup_pb Holdfast__V1__GetNodeResponse *response = NULL;
	char line[64];
	int64_t skew_ms;

	fake_node_disconnect(&f->n1);
	f->n1.clock_ahead_ms = ahead_ms;
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	response = NON_NULL(get_node(f, "n1", NULL));
	skew_ms = response->node->clock_skew_ms;
	assert_true(skew_ms <= ahead_ms && skew_ms > ahead_ms - 5000); /* on its way for so long at most */
	metrics_print(f->server, &text);
	(void)str_format(line, sizeof(line), "\nholdfast_nodes_clock_off %zu\n", n_off);
	assert_non_null(strstr(text.data, line));
}

CLUSTER_TEST(a_clock_that_is_wrong_is_seen_at_hello_and_counted)
{
	int64_t before_ms = clock_realtime_ms();

	expect_clock(f, 120000, 1);
	expect_clock(f, 120000, 1);
	assert_int_equal(n_events(f, "node n1", "Nodes.Connect", " ahead of the server's"), 2);
	assert_in_range(f->n1.welcome_clock_ms, before_ms, clock_realtime_ms());
	expect_clock(f, -120000, 1);
	expect_clock(f, 5000, 0);
	expect_clock(f, 120000, 1);
	fake_node_disconnect(&f->n1);
	UNTIL(f, !node_is_connected(node_of(f, "n1")));
	settle(f);
	restart(f);
	assert_int_equal(f->server->state.n_nodes_clock_off, 1);
	assert_int_equal(purge(f, "n1", NULL), STATUS_OK);
	assert_int_equal(f->server->state.n_nodes_clock_off, 0);
}

/* n1's next hello names @keys; @n nodes of which the status warns then. */
static void expect_keys(struct fixture *f, uint8_t *keys, size_t len, size_t n)
{
	Holdfast__V1__GetStatusRequest request = HOLDFAST__V1__GET_STATUS_REQUEST__INIT;
	cleanup_pb ProtobufCMessage *response = NULL;
	const Holdfast__V1__GetStatusResponse *status;
	bool is_named = false;

	if (f->n1.stream)
		fake_node_disconnect(&f->n1);
	f->n1.ticket_keys = (ProtobufCBinaryData){.len = len, .data = keys};
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_int_equal(f->server->state.n_nodes_other_key, n);
	assert_int_equal(metric_of(f, "nodes_other_ticket_key"), n);
	assert_ok(call(&f->operator, & holdfast__v1__operator__descriptor, "Status", &request.base, &response,
		       NULL));
	status = (const Holdfast__V1__GetStatusResponse *)response;
	for (size_t i = 0; i < status->n_warnings; i++)
		is_named |= strstr(status->warnings[i], "node n1 has another ticket key (") != NULL;
	assert_int_equal(is_named, n > 0);
}

CLUSTER_TEST(a_node_with_another_ticket_key_is_named_until_its_policy_has_the_servers)
{
	uint8_t keys[TICKET_KEY_ID_SIZE + TICKET_KEY_SIZE]; /* another one, then the server's */
	Holdfast__V1__SessionUp up = HOLDFAST__V1__SESSION_UP__INIT;
	Holdfast__V1__Fingerprint fingerprint = HOLDFAST__V1__FINGERPRINT__INIT;

	ticket_issuer_public_key(f->server->issuer, keys + TICKET_KEY_ID_SIZE);
	memcpy(keys, keys + TICKET_KEY_ID_SIZE, TICKET_KEY_ID_SIZE);
	keys[0] ^= 1;
	expect_keys(f, keys, 0, 0); /* not known */
	expect_keys(f, keys, TICKET_KEY_ID_SIZE, 1);
	expect_warning_events(f, "ticket-key", 1, 0);
	expect_keys(f, keys, 2 * (size_t)TICKET_KEY_ID_SIZE, 0); /* while the key is changed it has both */
	expect_keys(f, keys, TICKET_KEY_ID_SIZE, 1);
	/* the policy was changed while the session continued */
	fingerprint.ticket_keys = (ProtobufCBinaryData){TICKET_KEY_ID_SIZE, keys + TICKET_KEY_ID_SIZE};
	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_FINGERPRINT;
	up.fingerprint = &fingerprint;
	assert_int_equal(rpc_stream_send(f->n1.stream, &up.base, NULL), STATUS_OK);
	UNTIL(f, f->server->state.n_nodes_other_key == 0);
	expect_warning_events(f, "ticket-key", 1, 1);
	expect_keys(f, keys, TICKET_KEY_ID_SIZE, 1);
	fake_node_disconnect(&f->n1);
	UNTIL(f, !node_is_connected(node_of(f, "n1")));
	assert_int_equal(purge(f, "n1", NULL), STATUS_OK);
	assert_int_equal(f->server->state.n_nodes_other_key, 0);
}

static void report_disk(struct fixture *f, const char *trouble, const char *path)
{
	Holdfast__V1__Fingerprint fingerprint =
		V1(fingerprint, .disk_trouble = TEXT(trouble), .disk_path = TEXT(path));
	Holdfast__V1__SessionUp up =
		V1(session_up, .message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_FINGERPRINT,
		   .fingerprint = &fingerprint);

	assert_int_equal(rpc_stream_send(f->n1.stream, &up.base, NULL), STATUS_OK);
}

CLUSTER_TEST(a_full_disk_of_a_node_is_counted_until_it_has_room)
{
	const size_t *n = f->server->state.n_nodes_disk;
	cleanup_strbuf struct strbuf text = STRBUF_INIT(1 << 20);

	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	report_disk(f, "quota", "/var/lib/holdfast/agent");
	UNTIL(f, n[NODE_DISK_QUOTA] == 1);
	assert_string_equal(node_of(f, "n1")->node.disk_path, "/var/lib/holdfast/agent");
	assert_int_equal(metric_of(f, "nodes_disk_trouble{kind=\"quota\"}"), 1);
	report_disk(f, "full", "/tmp; rm -rf /");
	UNTIL(f, n[NODE_DISK_FULL] == 1);
	assert_int_equal(n[NODE_DISK_QUOTA], 0);
	assert_string_equal(node_of(f, "n1")->node.disk_path, "");
	report_disk(f, "on fire", "/x");
	UNTIL(f, n[NODE_DISK_FULL] == 0);
	report_disk(f, "inodes", "/x");
	UNTIL(f, n[NODE_DISK_INODES] == 1);
	metrics_print(f->server, &text);
	assert_non_null(strstr(text.data, "\nholdfast_nodes_disk_trouble{kind=\"inodes\"} 1\n"));
	/* what it reported last stays when it disconnects */
	fake_node_disconnect(&f->n1);
	UNTIL(f, !node_is_connected(node_of(f, "n1")));
	settle(f);
	restart(f);
	n = f->server->state.n_nodes_disk;
	assert_int_equal(n[NODE_DISK_INODES], 1);
	assert_int_equal(purge(f, "n1", NULL), STATUS_OK);
	assert_int_equal(n[NODE_DISK_INODES], 0);
}

static size_t count_events(struct fixture *f, const char *what)
{
	cleanup_pb Holdfast__V1__ListAuditResponse *page = NULL;
	Holdfast__V1__ListAuditRequest request = V1(list_audit_request, .about = "node n1", .newest = true);
	size_t n = 0;

	UNTIL(f, kv_stats(f->server->kv).pending == 0);
	assert_int_equal(audit_list(f->server, &request, &page, NULL), STATUS_OK);
	for (size_t i = 0; i < page->n_records; i++)
		n += str_eq(page->records[i]->what, what);
	return n;
}

CLUSTER_TEST(events_of_a_node_say_when_it_was_lost_and_back_and_its_disk_full)
{
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	settle(f);
	assert_int_equal(count_events(f, "Nodes.Connect"), 1);
	report_disk(f, "full", "/x");
	UNTIL(f, f->server->state.n_nodes_disk[NODE_DISK_FULL] == 1);
	report_disk(f, "full", "/x");
	settle(f);
	assert_int_equal(count_events(f, "Nodes.Disk"), 1);
	fake_node_disconnect(&f->n1);
	UNTIL(f, !node_is_connected(node_of(f, "n1")));
	settle(f);
	assert_int_equal(count_events(f, "Nodes.Disconnect"), 1);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	settle(f);
	assert_int_equal(count_events(f, "Nodes.Connect"), 2);
	assert_int_equal(count_events(f, "Nodes.Disk"), 2); /* the new boot reports room */
}

/* The reason of the newest record about n1. */
static void newest_event(struct fixture *f, char ret[static AUDIT_WHY_SIZE])
{
	cleanup_pb Holdfast__V1__ListAuditResponse *page = NULL;
	Holdfast__V1__ListAuditRequest request = V1(list_audit_request, .about = "node n1", .newest = true);

	UNTIL(f, kv_stats(f->server->kv).pending == 0);
	assert_int_equal(audit_list(f->server, &request, &page, NULL), STATUS_OK);
	assert_true(page->n_records > 0);
	str_copy_text(ret, AUDIT_WHY_SIZE, page->records[page->n_records - 1]->why);
}

CLUSTER_TEST(a_disk_that_flips_is_recorded_ten_times_and_then_once_a_minute)
{
	const size_t *n = f->server->state.n_nodes_disk;
	char why[AUDIT_WHY_SIZE];

	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	run_idle(f->event);
	for (size_t i = 0; i < 40; i++)
		report_disk(f, i % 2 == 0 ? "" : "full", "/x");
	UNTIL(f, n[NODE_DISK_FULL] == 1);
	settle(f);
	assert_false(f->n1.closed);
	assert_int_equal(n[NODE_DISK_FULL], 1); /* what it says is taken all the same */
	assert_int_equal(count_events(f, "Nodes.Disk"), 10);
	unit_clock_advance(60 * USEC_PER_SEC);
	report_disk(f, "", "");
	UNTIL(f, n[NODE_DISK_FULL] == 0);
	settle(f);
	assert_int_equal(count_events(f, "Nodes.Disk"), 11);
	newest_event(f, why);
	assert_string_equal(why, "its disk has room again; and 29 more before");
}

CLUSTER_TEST(a_node_that_connects_again_and_again_is_recorded_ten_times)
{
	for (size_t i = 0; i < 20; i++) {
		fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
		UNTIL(f, state_node(&f->server->state, "n1") && node_is_connected(node_of(f, "n1")));
		fake_node_disconnect(&f->n1);
		UNTIL(f, !node_is_connected(node_of(f, "n1")));
	}
	settle(f);
	assert_int_equal(count_events(f, "Nodes.Connect"), 11); /* the first one made the node known */
	assert_int_equal(count_events(f, "Nodes.Disconnect"), 10);
	assert_true(node_of(f, "n1")->node.disconnected_ms > 0);
}

/* As a thief of the certificate who knows the boot, and the node in turn. */
CLUSTER_TEST(a_session_that_replaces_an_open_one_in_the_same_boot_is_recorded_with_both_addresses)
{
	cleanup(fake_node_release) struct fake_node other;
	struct fake_node *both[] = {&other, &f->n1};
	char first[RPC_ADDRESS_SIZE], text[2 * RPC_ADDRESS_SIZE + 160];

	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	UNTIL(f, state_node(&f->server->state, "n1") && node_is_connected(node_of(f, "n1")));
	(void)str_copy(first, sizeof(first), node_of(f, "n1")->node.address);
	fake_node_init(&other, f->event, f->dir, "node-n1", f->port);
	fake_node_connect(&other, "n1", BOOT_1, NULL, 0);
	UNTIL(f, other.welcomed && f->n1.closed);
	settle(f);
	assert_string_not_equal(node_of(f, "n1")->node.address, first);
	(void)str_format(text, sizeof(text), "from %s, boot " BOOT_1 "; it replaces the open session from %s",
			 node_of(f, "n1")->node.address, first);
	assert_int_equal(n_events(f, "node n1", "Nodes.Connect", text), 1);
	assert_int_equal(n_events(f, "node n1", "Nodes.Connect", ""), 2);
	assert_int_equal(n_events(f, "node n1", "Nodes.Disconnect", ""), 0);
	for (size_t i = 0; i < 20; i++) {
		fake_node_disconnect(both[1 - i % 2]);
		fake_node_connect(both[1 - i % 2], "n1", BOOT_1, NULL, 0);
		UNTIL(f, both[i % 2]->closed);
	}
	settle(f);
	assert_int_equal(n_events(f, "node n1", "Nodes.Connect", ""), 11); /* the first made it known */
	assert_int_equal(n_events(f, "node n1", "Nodes.Disconnect", ""), 0);
}

CLUSTER_TEST(each_kind_of_event_of_a_node_is_recorded_ten_times_a_minute)
{
	static const char *const names[NODE_EVENT_N] = {
		"Nodes.Connect", "Nodes.Disconnect", "Nodes.Disk",	  "Nodes.Doubt",  "Nodes.Report",
		"Nodes.Plugin",	 "Nodes.Driver",     "Nodes.Certificate", "Volumes.Usage"};

	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	settle(f);
	for (size_t event = 0; event < NODE_EVENT_N; event++) {
		size_t before = count_events(f, names[event]);

		for (size_t i = 0; i < 40; i++) {
			struct change change = CHANGE_INIT;

			audit_node_event(f->server, &change, (enum node_event)event, "n1", "again");
			assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
		}
		settle(f);
		assert_int_equal(count_events(f, names[event]), before + 10);
	}
}

TEST(a_clock_is_off_from_ten_seconds_on)
{
	char text[NODE_CLOCK_TEXT_SIZE];

	assert_false(node_clock_is_off(0));
	assert_false(node_clock_is_off(9999));
	assert_true(node_clock_is_off(10000));
	assert_false(node_clock_is_off(-9999));
	assert_true(node_clock_is_off(-10000));
	assert_true(node_clock_is_off(INT64_MIN));
	assert_string_equal(node_clock_text(120000, text), "2m00s ahead of");
	assert_string_equal(node_clock_text(-15000, text), "15s behind");
	assert_non_null(strstr(node_clock_text(INT64_MIN, text), " behind"));
}

/* Machines. */

#define ID_1 "11111111111111111111111111111111"
#define ID_2 "22222222222222222222222222222222"
#define HARDWARE_1 "+aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define HARDWARE_2 "+bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define BOOT_3 "b0010000-0000-4000-8000-000000000003"

/* n1 says hello as @machine in @boot; the last session has ended. */
static void come_as(struct fixture *f, const char *machine, const char *boot)
{
	if (f->n1.stream)
		lose(f, &f->n1);
	f->n1.machine = machine;
	fake_node_connect(&f->n1, "n1", boot, NULL, 0);
	settle(f);
}

static void expect_refused_as_another(struct fixture *f)
{
	char code[NODE_MACHINE_MAX + 1];

	assert_true(f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_FAILED_PRECONDITION);
	assert_non_null(strstr(f->n1.closed_message, "holdfast node identify n1 "));
	assert_non_null(strstr(f->n1.closed_message, /* which its agent logs */
			       machine_code(f->server, "n1", f->n1.machine, code)));
}

CLUSTER_TEST(a_clone_is_refused_and_frees_nothing)
{
	uint64_t index;

	f->n1.machine = ID_1 HARDWARE_1;
	take_volume(f);
	come_as(f, ID_2, BOOT_2);
	expect_refused_as_another(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	assert_string_equal(node_of(f, "n1")->node.other_machine, ID_2);
	come_as(f, ID_1 HARDWARE_2, BOOT_2); /* a disk of the same content in another machine */
	expect_refused_as_another(f);
	come_as(f, ID_1 HARDWARE_2, BOOT_1); /* and its memory */
	expect_refused_as_another(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	assert_string_equal(node_of(f, "n1")->node.other_machine, ID_1 HARDWARE_2 " " ID_2);
	index = node_of(f, "n1")->node.modify_index;
	come_as(f, ID_1 HARDWARE_2, BOOT_1);
	come_as(f, ID_2, BOOT_2);				      /* both try again and again */
	assert_int_equal(node_of(f, "n1")->node.modify_index, index); /* stored once */
	assert_int_equal(node_of(f, "n1")->node.other_machines, 2);
	restart(f);
	come_as(f, ID_1 HARDWARE_2, BOOT_2);
	expect_refused_as_another(f);
	come_as(f, ID_1 HARDWARE_1, BOOT_1);
	assert_true(f->n1.welcomed);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	come_as(f, ID_1 HARDWARE_1, BOOT_2); /* an honest reboot */
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
}

CLUSTER_TEST(a_machine_is_pinned_by_the_first_hello_that_shows_one)
{
	come_as(f, NULL, BOOT_1); /* of a server or an agent that knows no machines */
	assert_string_equal(node_of(f, "n1")->node.machine, "");
	come_as(f, ID_1, BOOT_1);
	assert_string_equal(node_of(f, "n1")->node.machine, ID_1);
	come_as(f, ID_1 HARDWARE_1, BOOT_1); /* it can read more than before */
	assert_string_equal(node_of(f, "n1")->node.machine, ID_1 HARDWARE_1);
	come_as(f, NULL, BOOT_2); /* would be taken for evidence */
	assert_int_equal(f->n1.closed_status, STATUS_FAILED_PRECONDITION);
	come_as(f, "no digest", BOOT_1);
	assert_int_equal(f->n1.closed_status, STATUS_INVALID_ARGUMENT);
}

CLUSTER_TEST(a_hello_without_machine_is_refused_once_the_node_has_shown_one)
{
	come_as(f, ID_1, BOOT_1);
	come_as(f, NULL, BOOT_1); /* a clone that was resumed in the same boot */
	assert_true(f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_FAILED_PRECONDITION);
	come_as(f, ID_1, BOOT_1);
	assert_true(f->n1.welcomed);
}

static enum status identify_by(struct fixture *f, const char *code, struct error *err)
{
	Holdfast__V1__IdentifyNodeRequest request =
		V1(identify_node_request, .id = "n1", .machine = TEXT(code), .reason = "new mainboard");

	return call(&f->operator, NODES, "Identify", &request.base, NULL, err);
}

/* cluster.c looks for the machine in each answer, and fake_node.c in each refusal. */
CLUSTER_TEST(an_operator_reads_and_names_machines_by_their_codes)
{
	char own[NODE_MACHINE_MAX + 1], other[NODE_MACHINE_MAX + 1], list[NODE_REFUSED_SIZE];
	Holdfast__V1__ListNodesRequest all = HOLDFAST__V1__LIST_NODES_REQUEST__INIT;
	Holdfast__V1__ListAuditRequest audit = HOLDFAST__V1__LIST_AUDIT_REQUEST__INIT;
	cleanup_pb Holdfast__V1__GetNodeResponse *answer = NULL;
	struct error err;

	come_as(f, ID_1 HARDWARE_1, BOOT_1);
	come_as(f, ID_1 HARDWARE_1, BOOT_2);
	come_as(f, ID_2, BOOT_3);
	come_as(f, ID_1 HARDWARE_2, BOOT_3);
	(void)machine_code(f->server, "n1", ID_1 HARDWARE_1, own);
	(void)machine_code(f->server, "n1", ID_1 HARDWARE_2, other);
	assert_true(node_machine_is_valid(own) && node_machine_differs(own, other));
	assert_memory_equal(own, other, strlen(ID_1));
	answer = get_node(f, "n1", NULL);
	assert_string_equal(answer->node->machine, own);
	assert_string_equal(answer->node->other_machine,
			    machine_code_list(f->server, "n1", ID_1 HARDWARE_2 " " ID_2, list));
	assert_true(str_starts_with(list, other) && list[strlen(other)] == ' ');
	assert_string_equal(answer->node->past_boots[0]->machine, own);
	assert_ok(call(&f->operator, NODES, "List", &all.base, NULL, &err));
	assert_error(identify_by(f, ID_2, &err), STATUS_FAILED_PRECONDITION, err, list);
	assert_null(strstr(err.msg, ID_1));
	assert_error(identify_by(f, machine_code(f->server, "n2", ID_2, other), &err),
		     STATUS_FAILED_PRECONDITION, err, own);
	assert_error(identify_by(f, "", &err), STATUS_FAILED_PRECONDITION, err, own);
	assert_ok(identify_by(f, machine_code(f->server, "n1", ID_2, other), &err));
	assert_string_equal(node_of(f, "n1")->node.machine, ID_2);
	assert_ok(call(&f->operator, & holdfast__v1__operator__descriptor, "ListAudit", &audit.base, NULL,
		       &err));
}

/* The machine-id is in each record of the journal, the hardware is not. */
CLUSTER_TEST(a_hello_without_the_hardware_is_refused_once_the_node_has_shown_it)
{
	f->n1.machine = ID_1 HARDWARE_1;
	take_volume(f);
	come_as(f, ID_1, BOOT_1);
	expect_refused_as_another(f);
	assert_non_null(strstr(f->n1.closed_message, "LoadCredential=holdfast.hardware:"));
	come_as(f, ID_1, BOOT_2);
	expect_refused_as_another(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	assert_string_equal(node_of(f, "n1")->node.other_machine, ID_1);
	come_as(f, ID_1 HARDWARE_1, BOOT_1);
	assert_true(f->n1.welcomed);
}

/* Its firmware has no UUID since a repair, or it is a thief: the operator decides, and attests. */
CLUSTER_TEST(a_node_is_identified_without_its_hardware_and_frees_nothing)
{
	cleanup_pb Holdfast__V1__AttestNodeResponse *word = NULL;
	char code[NODE_MACHINE_MAX + 1];
	struct error err;

	f->n1.machine = ID_1 HARDWARE_1;
	take_volume(f);
	come_as(f, ID_1, BOOT_2);
	expect_refused_as_another(f);
	assert_succeeds(identify(f, "n1", ID_1, &err), err);
	assert_string_equal(node_of(f, "n1")->node.machine, ID_1);
	come_as(f, ID_1, BOOT_1);
	assert_non_null(strstr(f->n1.closed_message, "must be rebooted"));
	come_as(f, ID_1, BOOT_2);
	assert_true(f->n1.welcomed);
	assert_true(state_of(f, ALLOC_1) < CLAIM_NODE_DETACHED && claim_of(f, ALLOC_1).other_machine);
	lose(f, &f->n1);
	assert_succeeds(attest(f, "n1", "db", "it is the same", 0, true, &word, &err), err);
	assert_string_equal(word->attestation->machines[0], machine_code(f->server, "n1", ID_1, code));
	assert_succeeds(attest(f, "n1", "db", "it is the same", 0, false, NULL, &err), err);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
}

/* Its unit had lost the credential, and has it again. */
CLUSTER_TEST(a_node_identified_without_its_hardware_by_mistake_keeps_its_boot)
{
	struct error err;

	f->n1.machine = ID_1 HARDWARE_1;
	take_volume(f);
	come_as(f, ID_1, BOOT_1);
	assert_succeeds(identify(f, "n1", ID_1, &err), err);
	come_as(f, ID_1 HARDWARE_1, BOOT_1);
	assert_non_null(strstr(f->n1.closed_message, "must be rebooted"));
	assert_succeeds(identify(f, "n1", ID_1 HARDWARE_1, &err), err);
	come_as(f, ID_1 HARDWARE_1, BOOT_1);
	assert_true(f->n1.welcomed);
	assert_false(claim_of(f, ALLOC_1).other_machine);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
}

/* Each connection of a node would otherwise be a change or two that no limit counts. */
CLUSTER_TEST(the_connections_of_a_node_change_nothing_above_its_part_of_the_stores_queue)
{
	struct node_entry *node;
	uint64_t index;

	f->n1.machine = ID_1;
	take_volume(f);
	settle(f);
	node = node_of(f, "n1");
	node->pending_bytes = SESSION_PENDING_BYTES_MAX;
	index = node->node.modify_index;
	come_as(f, ID_2, BOOT_2);
	expect_refused_as_another(f);
	assert_int_equal(node->node.modify_index, index);
	assert_string_equal(node->node.other_machine, "");
	node->pending_bytes = 0;
	come_as(f, ID_2, BOOT_2);
	assert_string_equal(node->node.other_machine, ID_2);
	assert_int_equal(node->pending_bytes, 0);
}

CLUSTER_TEST(a_node_with_more_claims_than_one_change_has_objects_is_identified)
{
	const struct claim_entry *claim;
	char name[16], disk[24], id[UUID_TEXT_SIZE];
	struct error err;

	come_as(f, ID_1, BOOT_1);
	for (int i = 0; i <= CHANGE_OBJECTS_MAX; i++) {
		(void)str_format(name, sizeof(name), "v%d", i);
		(void)str_format(disk, sizeof(disk), "wwn-0x%x", 1000 + i);
		(void)str_format(id, sizeof(id), "018%05d-0001-7000-" ID_MARK, i);
		assert_ok(register_disk(f, &f->operator, name, disk, &err));
		take_claim(f, &f->n1, name, id);
	}
	come_as(f, ID_2, BOOT_2);
	assert_succeeds(identify(f, "n1", ID_2, &err), err);
	assert_string_equal(node_of(f, "n1")->node.machine, ID_2);
	LIST_FOREACH (claim, &node_of(f, "n1")->claims, of_node)
		assert_true(claim->claim.other_machine);
}

/* Its claims were stored ahead, and the change of the node failed. */
CLUSTER_TEST(a_machine_goes_on_after_an_identify_that_failed_halfway)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct claim claim;

	f->n1.machine = ID_1;
	take_volume(f);
	claim = claim_of(f, ALLOC_1);
	claim.other_machine = true;
	change_put_claim(&change, &claim);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	come_as(f, ID_1, BOOT_1);
	assert_true(f->n1.welcomed);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, f->n1.releases == 1);
	fake_node_send_released(&f->n1, &claim);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
}

CLUSTER_TEST(an_identify_that_failed_halfway_is_taken_back_after_a_reboot)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct claim claim;

	f->n1.machine = ID_1;
	take_volume(f);
	claim = claim_of(f, ALLOC_1);
	claim.other_machine = true;
	change_put_claim(&change, &claim);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	come_as(f, ID_1, BOOT_2);
	assert_true(f->n1.welcomed);
	assert_true(claim_of(f, ALLOC_1).other_machine);
	assert_int_equal(identify(f, "n1", ID_1, NULL), STATUS_OK);
	assert_false(claim_of(f, ALLOC_1).other_machine);
	come_as(f, ID_1, "b0010000-0000-4000-8000-000000000003");
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
}

/* It was attested while it was replaced, and has the volume mounted still. */
CLUSTER_TEST(a_claim_that_a_machine_takes_back_as_the_node_again_is_freed_by_its_reboot)
{
	struct claim held;
	struct error err;

	f->n1.machine = ID_1;
	take_volume(f);
	held = claim_of(f, ALLOC_1);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	come_as(f, ID_2, BOOT_2);
	assert_succeeds(identify(f, "n1", ID_2, &err), err);
	assert_succeeds(attest(f, "n1", "db", "it is off", 0, false, NULL, &err), err);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	come_as(f, ID_1, BOOT_1);
	assert_succeeds(identify(f, "n1", ID_1, &err), err);
	f->n1.has = &held;
	come_as(f, ID_1, BOOT_1);
	assert_true(f->n1.welcomed);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_UNPUBLISHING);
	assert_false(claim_of(f, ALLOC_1).other_machine);
	f->n1.has = NULL;
	come_as(f, ID_1, BOOT_2);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
}

CLUSTER_TEST(a_node_that_is_another_machine_by_now_cannot_speak_for_the_first_one)
{
	struct claim claim;
	struct error err;

	f->n1.machine = ID_1;
	take_volume(f);
	claim = claim_of(f, ALLOC_1);
	assert_int_equal(identify(f, "n1", ID_2, &err), STATUS_FAILED_PRECONDITION); /* was never seen */
	come_as(f, ID_2, BOOT_2);
	expect_refused_as_another(f);
	assert_int_equal(identify(f, "n1", ID_2, &err), STATUS_OK);
	assert_string_equal(node_of(f, "n1")->node.machine, ID_2);
	assert_string_equal(node_of(f, "n1")->node.other_machine, "");
	assert_int_equal(node_of(f, "n1")->node.other_machines, 0);
	come_as(f, ID_1, BOOT_1);
	expect_refused_as_another(f);
	come_as(f, ID_2, BOOT_2);
	assert_true(f->n1.welcomed);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_UNPUBLISHING); /* its work is lost, its mount is not known */
	fake_node_send_released(&f->n1, &claim);
	settle(f);
	assert_false(f->n1.closed);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_UNPUBLISHING);
	assert_int_equal(f->n1.releases, 0); /* it is not asked for what it cannot know */
	restart(f);
	come_as(f, ID_2, "b0010000-0000-4000-8000-000000000003");
	settle(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_UNPUBLISHING);
	lose(f, &f->n1);
	assert_int_equal(attest(f, "n1", "db", "the old one is scrapped", 0, false, NULL, &err), STATUS_OK);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
}

/* It runs, in the boot of the word. */
CLUSTER_TEST(a_word_is_over_when_the_former_machine_is_refused)
{
	struct error err;

	f->n1.machine = ID_1;
	take_volume(f);
	lose(f, &f->n1);
	assert_int_equal(attest(f, "n1", "db", "it is broken", 3600000, false, NULL, NULL), STATUS_OK);
	come_as(f, ID_2, BOOT_2);
	assert_succeeds(identify(f, "n1", ID_2, &err), err);
	come_as(f, ID_1, BOOT_1);
	expect_refused_as_another(f);
	come_as(f, ID_2, BOOT_2);
	assert_true(f->n1.welcomed);
	settle(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_UNPUBLISHING);
}

CLUSTER_TEST(a_machine_that_is_the_node_again_goes_on_in_its_boot)
{
	struct error err;

	f->n1.machine = ID_1;
	take_volume(f);
	come_as(f, ID_2, BOOT_2);
	assert_succeeds(identify(f, "n1", ID_2, &err), err); /* a mistake */
	assert_true(claim_of(f, ALLOC_1).other_machine);
	come_as(f, ID_1, BOOT_1);
	expect_refused_as_another(f);
	assert_succeeds(identify(f, "n1", ID_1, &err), err);
	assert_false(claim_of(f, ALLOC_1).other_machine);
	restart(f);
	come_as(f, ID_1, BOOT_1);
	assert_true(f->n1.welcomed);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	come_as(f, ID_1, BOOT_2);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(claim_of(f, ALLOC_1).evidence, EVIDENCE_NEW_BOOT);
}

/* The volume is for one node, and both machines have its name. */
CLUSTER_TEST(a_volume_of_one_node_is_not_granted_beside_the_former_machine)
{
	struct error err;

	f->access_mode = HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_MULTI_WRITER;
	f->n1.machine = ID_1;
	take_volume(f);
	come_as(f, ID_2, BOOT_2);
	assert_succeeds(identify(f, "n1", ID_2, &err), err);
	come_as(f, ID_2, BOOT_2);
	assert_true(f->n1.welcomed);
	assert_error(run_alloc(f, ALLOC_2, "n1", &err), STATUS_FAILED_PRECONDITION, err, ALLOC_1);
	lose(f, &f->n1);
	assert_succeeds(attest(f, "n1", "db", "the old one is scrapped", 0, false, NULL, &err), err);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	come_as(f, ID_2, BOOT_2);
	take_claim(f, &f->n1, "db", ALLOC_2);
}

static void expect_boot_refused(struct fixture *f, const char *machine, const char *boot)
{
	come_as(f, machine, boot);
	assert_true(f->n1.closed);
	assert_non_null(strstr(f->n1.closed_message, "must be rebooted"));
}

CLUSTER_TEST(another_machine_cannot_be_in_the_boot_of_the_first_one)
{
	come_as(f, ID_1, BOOT_1);
	come_as(f, ID_2, BOOT_2);
	lose(f, &f->n1);
	assert_int_equal(identify(f, "n1", ID_2, NULL), STATUS_OK);
	expect_boot_refused(f, ID_2, BOOT_1); /* which a clone knows from the journal */
	come_as(f, ID_2, BOOT_2);
	assert_true(f->n1.welcomed);
	assert_int_equal(replaced_count(f->server), 0); /* the first one had nothing to report */
}

#define BOOT_4 "b0010000-0000-4000-8000-000000000004"

/* Each machine holds a volume, and each boot is evidence for its own one only. */
CLUSTER_TEST(the_boot_of_a_machine_that_is_the_node_again_frees_its_claims)
{
	struct error err;

	assert_ok(register_disk(f, &f->operator, "logs", "wwn-0x2", &err));
	f->n1.machine = ID_1;
	take_volume(f);
	come_as(f, ID_2, BOOT_2);
	assert_succeeds(identify(f, "n1", ID_2, &err), err);
	come_as(f, ID_2, BOOT_2);
	take_claim(f, &f->n1, "logs", ALLOC_2);
	come_as(f, ID_1, BOOT_1);
	assert_succeeds(identify(f, "n1", ID_1, &err), err);
	assert_true(claim_of(f, ALLOC_2).other_machine && !claim_of(f, ALLOC_1).other_machine);
	expect_boot_refused(f, ID_1, BOOT_1); /* its work was lost to the other one */
	come_as(f, ID_1, BOOT_3);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(state_of(f, ALLOC_2), CLAIM_UNPUBLISHING);
	come_as(f, ID_2, BOOT_2);
	assert_succeeds(identify(f, "n1", ID_2, &err), err);
	come_as(f, ID_2, BOOT_4);
	UNTIL(f, state_of(f, ALLOC_2) == CLAIM_FREED);
}

TEST(only_a_boot_that_a_replacement_ended_goes_on)
{
	struct node node = {.id = "n1", .boot_id = BOOT_1, .machine = ID_1};

	node_end_boot(&node, 1); /* it has rebooted, and the server failed before it stored the new boot */
	node_replace_machine(&node, ID_2, 2);
	assert_false(node_was_in_boot(&node, BOOT_1));
	node_replace_machine(&node, ID_1, 3);
	assert_int_equal(node_past_boot(&node, BOOT_1), 1);
	assert_false(node_was_in_boot(&node, BOOT_1));
	(void)str_copy(node.boot_id, sizeof(node.boot_id), BOOT_2);
	assert_true(node_was_in_boot(&node, BOOT_2));
	node_replace_machine(&node, ID_2, 4);
	node_replace_machine(&node, ID_2 HARDWARE_2, 5);
	assert_false(node_was_in_boot(&node, BOOT_2));
	node_replace_machine(&node, ID_1, 6);
	assert_int_equal(node_past_boot(&node, BOOT_2), 0);
	assert_true(node_was_in_boot(&node, BOOT_2));
	assert_int_equal(node.n_past_boots, 1);
	node_replace_machine(&node, ID_2, 7);
	(void)str_copy(node.boot_id, sizeof(node.boot_id), BOOT_3);
	node_replace_machine(&node, ID_1, 8);
	assert_true(node_was_in_boot(&node, BOOT_2));
	assert_true(node_was_in_boot(&node, BOOT_1)); /* before it rebooted */
	assert_false(node_was_in_boot(&node, BOOT_3));
	(void)str_copy(node.machine, sizeof(node.machine), ID_1 HARDWARE_1); /* it shows more than then */
	assert_true(node_was_in_boot(&node, BOOT_2));
	(void)str_copy(node.past_boots[1].machine, sizeof(node.machine), ID_1 HARDWARE_1);
	(void)str_copy(node.machine, sizeof(node.machine), ID_1); /* and less */
	assert_false(node_was_in_boot(&node, BOOT_2));
}

/* Neither by boots that push that one out of the list, nor by a report that it provokes. */
CLUSTER_TEST(another_machine_cannot_be_in_the_boot_in_which_the_first_one_holds_a_volume)
{
	Holdfast__V1__AllocStatus unknown =
		V1(alloc_status, .alloc_id = ALLOC_2, .client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	Holdfast__V1__AllocStatus *list[] = {&unknown};
	char boot[UUID_TEXT_SIZE];

	f->n1.machine = ID_1;
	take_volume(f);
	come_as(f, ID_2, BOOT_2);
	assert_int_equal(identify(f, "n1", ID_2, NULL), STATUS_OK);
	for (int i = 0; i <= NODE_PAST_BOOTS_MAX; i++) {
		(void)str_format(boot, sizeof(boot), "b0020000-0000-4000-8000-%012d", i);
		come_as(f, ID_2, boot);
		assert_true(f->n1.welcomed);
	}
	assert_int_equal(node_past_boot(&node_of(f, "n1")->node, BOOT_1), 0);
	expect_boot_refused(f, ID_2, BOOT_1);
	fake_node_connect(&f->n1, "n1", boot, list, 1);
	UNTIL(f, node_of(f, "n1")->is_unreported);
	expect_boot_refused(f, ID_2, BOOT_1);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_UNPUBLISHING);
}

CLUSTER_TEST(each_machine_that_was_refused_can_be_the_node_from_now_on)
{
	char codes[NODE_REFUSED_SIZE], text[NODE_REFUSED_SIZE + 64];
	struct error err;

	come_as(f, ID_1, BOOT_1);
	come_as(f, ID_2, BOOT_2);
	come_as(f, ID_2 HARDWARE_2, BOOT_2); /* a thief comes last */
	lose(f, &f->n1);
	(void)str_format(text, sizeof(text), "refused, %s, and lately as no other",
			 machine_code_list(f->server, "n1", ID_2 HARDWARE_2 " " ID_2, codes));
	assert_error(identify(f, "n1", ID_2 HARDWARE_1, &err), STATUS_FAILED_PRECONDITION, err, text);
	assert_int_equal(identify(f, "n1", ID_2, &err), STATUS_OK);
	assert_string_equal(node_of(f, "n1")->node.machine, ID_2);
}

CLUSTER_TEST(invented_machines_push_no_other_one_out_of_the_list)
{
	char machine[NODE_MACHINE_MAX + 1];
	uint64_t index;

	come_as(f, ID_1, BOOT_1);
	come_as(f, ID_2, BOOT_2); /* the new machine */
	for (int i = 1; i < NODE_REFUSED_N; i++) {
		(void)str_format(machine, sizeof(machine), "%032x", i);
		come_as(f, machine, BOOT_2);
	}
	assert_int_equal(node_of(f, "n1")->node.other_machines, NODE_REFUSED_N);
	index = node_of(f, "n1")->node.modify_index;
	(void)str_format(machine, sizeof(machine), "%032x", NODE_REFUSED_N);
	come_as(f, machine, BOOT_2);
	expect_refused_as_another(f);
	assert_int_equal(node_of(f, "n1")->node.modify_index, index);
	assert_true(node_machine_was_refused(&node_of(f, "n1")->node, ID_2));
}

TEST(the_last_four_refused_machines_are_known)
{
	static struct node node;
	char machines[6][NODE_MACHINE_MAX + 1];

	for (int i = 0; i < 6; i++) {
		(void)str_format(machines[i], sizeof(machines[i]), "%032x+%032x", i, i);
		assert_true(node_machine_is_valid(machines[i]));
		assert_false(node_machine_was_refused(&node, machines[i]));
		node_refuse_machine(&node, machines[i]);
	}
	for (int i = 0; i < 6; i++)
		assert_int_equal(node_machine_was_refused(&node, machines[i]), i >= 2);
	assert_int_equal(node.other_machines, 6);
	machines[5][32] = '\0'; /* a beginning is another machine */
	assert_false(node_machine_was_refused(&node, machines[5]));
	assert_false(node_machine_was_refused(&node, ""));
	(void)str_copy(node.other_machine, sizeof(node.other_machine), "");
	assert_false(node_machine_was_refused(&node, ""));
}

CLUSTER_TEST(a_node_is_not_given_to_another_machine_while_the_first_is_connected)
{
	struct error err;

	come_as(f, ID_1, BOOT_1);
	come_as(f, ID_2, BOOT_2);
	come_as(f, ID_1, BOOT_1);
	assert_error(identify(f, "n1", ID_2, &err), STATUS_FAILED_PRECONDITION, err, "is connected");
	assert_int_equal(identify(f, "n1", ID_1, &err), STATUS_OK); /* the first one is meant */
	assert_string_equal(node_of(f, "n1")->node.other_machine, "");
	assert_int_equal(identify(f, "n1", "", &err), STATUS_FAILED_PRECONDITION);
	assert_int_equal(identify(f, "n9", ID_1, &err), STATUS_NOT_FOUND);
}

TEST(machines_differ_where_both_are_known)
{
	assert_true(node_machine_is_valid(ID_1));
	assert_true(node_machine_is_valid(ID_1 HARDWARE_1));
	assert_false(node_machine_is_valid(ID_1 "1"));
	assert_false(node_machine_is_valid(ID_1 "+"));
	assert_false(node_machine_is_valid(ID_1 HARDWARE_1 "a"));
	assert_false(node_machine_is_valid("A1111111111111111111111111111111"));
	assert_false(node_machine_differs(ID_1, ID_1 HARDWARE_1));
	assert_false(node_machine_differs("", ID_1));
	assert_true(node_machine_differs(ID_1, ID_2));
	assert_true(node_machine_differs(ID_1 HARDWARE_1, ID_2 HARDWARE_1));
	assert_true(node_machine_differs(ID_1 HARDWARE_1, ID_1 HARDWARE_2));
}

/* Boots. */

static void boot_name(int i, char ret[static UUID_TEXT_SIZE])
{
	(void)str_format(ret, UUID_TEXT_SIZE, "b0020000-0000-4000-8000-%012d", i);
}

static void assert_refused(struct fixture *f, const char *boot)
{
	fake_node_connect(&f->n1, "n1", boot, NULL, 0);
	assert_true(f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_FAILED_PRECONDITION);
	assert_non_null(strstr(f->n1.closed_message, "must be rebooted"));
}

CLUSTER_TEST(a_boot_that_was_over_cannot_come_back)
{
	take_volume(f);
	lose(f, &f->n1);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	assert_true(f->n1.welcomed);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_FREED);
	lose(f, &f->n1);
	assert_refused(f, BOOT_1);
	restart(f);
	assert_refused(f, BOOT_1);
	assert_string_equal(node_of(f, "n1")->node.boot_id, BOOT_2);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	assert_true(f->n1.welcomed);
}

/* Its claims are being freed because of the new boot: from the first word of that on it is over. */
CLUSTER_TEST(a_boot_is_over_as_soon_as_a_later_one_was_heard_of)
{
	Holdfast__V1__AllocStatus status = V1(alloc_status, .alloc_id = ALLOC_1);
	Holdfast__V1__AllocStatus *list[] = {&status};

	take_volume(f);
	lose(f, &f->n1);
	status.client_status = (Holdfast__V1__ClientStatus)99; /* the hello breaks off */
	fake_node_connect(&f->n1, "n1", BOOT_2, list, 1);
	UNTIL(f, f->n1.closed);
	UNTIL(f, !node_is_connected(node_of(f, "n1")));
	assert_refused(f, BOOT_1);
}

CLUSTER_TEST(eight_boots_are_remembered_and_older_ones_known_by_their_claims)
{
	char boot[UUID_TEXT_SIZE];

	take_volume(f); /* in BOOT_1 */
	lose(f, &f->n1);
	for (int i = 0; i <= NODE_PAST_BOOTS_MAX; i++) {
		boot_name(i, boot);
		fake_node_connect(&f->n1, "n1", boot, NULL, 0);
		assert_true(f->n1.welcomed);
		lose(f, &f->n1);
	}
	assert_int_equal(node_of(f, "n1")->node.n_past_boots, NODE_PAST_BOOTS_MAX);
	for (int i = 0; i < NODE_PAST_BOOTS_MAX; i++) {
		boot_name(i, boot);
		assert_refused(f, boot);
	}
	assert_int_equal(node_past_boot(&node_of(f, "n1")->node, BOOT_1), 0); /* forgotten */
	assert_refused(f, BOOT_1);					      /* but it held the claim */
}

CLUSTER_TEST(a_boot_that_is_new_here_cannot_have_work_that_runs)
{
	Holdfast__V1__AllocStatus status = HOLDFAST__V1__ALLOC_STATUS__INIT;
	Holdfast__V1__AllocStatus *list[] = {&status};
	Holdfast__V1__AllocVolume volume = HOLDFAST__V1__ALLOC_VOLUME__INIT;
	Holdfast__V1__AllocVolume *volumes[] = {&volume};

	take_volume(f);
	lose(f, &f->n1);
	status.alloc_id = ALLOC_1;
	status.client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING;
	status.published = volumes;
	status.n_published = 1;
	fake_node_connect(&f->n1, "n1", BOOT_2, list, 1);
	assert_true(f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_FAILED_PRECONDITION);
	settle(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	fake_node_connect(&f->n1, "n1", BOOT_1, list, 1); /* of the same boot that is what is expected */
	assert_true(f->n1.welcomed);
}

TEST(a_boot_ends_once_and_the_oldest_is_forgotten)
{
	struct node node = {0};

	node_end_boot(&node, 1); /* there was none */
	assert_int_equal(node.n_past_boots, 0);
	for (int i = 0; i <= NODE_PAST_BOOTS_MAX; i++) {
		boot_name(i, node.boot_id);
		node_end_boot(&node, i + 1);
		node_end_boot(&node, 1000);
		assert_int_equal(node_past_boot(&node, node.boot_id), i + 1);
	}
	assert_int_equal(node.n_past_boots, NODE_PAST_BOOTS_MAX);
	boot_name(0, node.boot_id);
	assert_int_equal(node_past_boot(&node, node.boot_id), 0);
	boot_name(1, node.boot_id);
	assert_int_equal(node_past_boot(&node, node.boot_id), 2);
}

/* Drain. */

static size_t drain(struct fixture *f, const char *node, Holdfast__V1__NodeStatus wanted)
{
	cleanup_pb Holdfast__V1__DrainNodeResponse *response = NON_NULL(drain_node(f, node, false, NULL));
	size_t n;

	assert_int_equal(response->node->status, wanted);
	assert_true(response->node->ineligible);
	n = response->n_volumes;
	if (n > 0)
		assert_non_null(strstr(response->volumes[0]->text, ALLOC_1));
	return n;
}

static void release_alloc(struct fixture *f, struct fake_node *node, const char *alloc)
{
	struct claim claim = claim_of(f, alloc);

	fake_node_send_released(node, &claim);
	fake_node_send_alloc(node, alloc, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
}

CLUSTER_TEST(a_drain_stops_unmounts_releases_and_is_done_by_itself)
{
	take_volume(f);
	assert_int_equal(drain(f, "n1", DRAINING), 1);
	UNTIL(f, f->n1.stops == 1);
	assert_int_equal(drain(f, "n1", DRAINING), 1); /* again: the same, and nobody is told twice */
	settle(f);
	assert_int_equal(f->n1.stops, 1);
	assert_int_equal(node_of(f, "n1")->node.drain.done_ms, 0);
	release_alloc(f, &f->n1, ALLOC_1);
	UNTIL(f, node_of(f, "n1")->node.drain.done_ms != 0);
	assert_int_equal(claim_of(f, ALLOC_1).evidence, EVIDENCE_RECEIPT);
	assert_int_equal(drain(f, "n1", READY), 0);
	assert_true(node_of(f, "n1")->node.drain.done_ms != 0); /* not begun anew */
	assert_int_equal(set_eligible(f, "n1", true, NULL), STATUS_OK);
	assert_false(node_of(f, "n1")->node.ineligible);
	assert_int_equal(node_of(f, "n1")->node.drain.started_ms, 0);
}

CLUSTER_TEST(a_drain_of_an_empty_node_is_done_at_once)
{
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_int_equal(drain(f, "n1", READY), 0);
	assert_true(node_of(f, "n1")->node.drain.done_ms != 0);
}

CLUSTER_TEST(a_drain_survives_a_restart_of_the_server)
{
	take_volume(f);
	(void)drain(f, "n1", DRAINING);
	restart(f);
	assert_int_equal(status_of(f, "n1"), DISCONNECTED);
	assert_true(node_is_draining(&node_of(f, "n1")->node));
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_int_equal(status_of(f, "n1"), DRAINING);
	UNTIL(f, f->n1.stops >= 1);
	release_alloc(f, &f->n1, ALLOC_1);
	UNTIL(f, node_of(f, "n1")->node.drain.done_ms != 0);
	restart(f);
	assert_true(node_of(f, "n1")->node.drain.done_ms != 0);
}

CLUSTER_TEST(an_overdue_drain_forces_nothing)
{
	cleanup_pb Holdfast__V1__DrainNodeResponse *response = NULL;

	take_volume(f);
	(void)drain(f, "n1", DRAINING);
	node_of(f, "n1")->node.drain.deadline_ms = 1;
	response = drain_node(f, "n1", false, NULL);
	assert_non_null(strstr(response->volumes[0]->text, "overdue"));
	settle(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
}

CLUSTER_TEST(a_cancelled_drain_stops_nothing_more_and_the_node_stays_ineligible)
{
	struct error err;

	take_volume(f);
	(void)drain(f, "n1", DRAINING);
	assert_error(set_eligible(f, "n1", true, &err), STATUS_FAILED_PRECONDITION, err, "--cancel");
	for (int i = 0; i < 2; i++)
		holdfast__v1__drain_node_response__free_unpacked(drain_node(f, "n1", true, NULL), NULL);
	assert_int_equal(status_of(f, "n1"), READY);
	assert_true(node_of(f, "n1")->node.ineligible);
	release_alloc(f, &f->n1, ALLOC_1);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	settle(f);
	assert_int_equal(node_of(f, "n1")->node.drain.done_ms, 0);
	assert_int_equal(set_eligible(f, "n1", true, NULL), STATUS_OK);
}

/* The plugin that unmounts the volumes must be there until they are.
 * @volume that the allocation has; NULL: no volume. */
static void run_plugin_with(struct fixture *f, const char *id, const char *plugin, const char *volume)
{
	Holdfast__V1__CsiPlugin runs = V1(csi_plugin, .id = TEXT(plugin), .socket = "csi.sock",
					  .type = HOLDFAST__V1__CSI_PLUGIN_TYPE__CSI_PLUGIN_TYPE_CONTROLLER);
	Holdfast__V1__CsiPlugin *plugins[] = {&runs};
	Holdfast__V1__VolumeRequest has = V1(
		volume_request, .name = "data", .source = TEXT(volume ? volume : ""),
		.access_mode = f->access_mode, .attachment_mode = HOLDFAST__V1__ATTACHMENT_MODE__FILE_SYSTEM);
	Holdfast__V1__VolumeRequest *volumes[] = {&has};
	Holdfast__V1__Allocation alloc = V1(allocation, .id = TEXT(id), .name = "plugin", .node_id = "n1",
					    .driver = "none", .csi_plugins = plugins, .n_csi_plugins = 1,
					    .volumes = volumes, .n_volumes = volume != NULL);
	Holdfast__V1__RunAllocationRequest request = V1(run_allocation_request, .allocation = &alloc);
	struct error err;

	assert_ok(call(&f->operator, & holdfast__v1__allocations__descriptor, "Run", &request.base, NULL,
		       NULL));
	if (volume)
		assert_succeeds(fake_node_claim(&f->n1, volume, id, NULL, &err), err);
	fake_node_send_alloc(&f->n1, id, HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	UNTIL(f, state_alloc(&f->server->state, id)->alloc.client_status == CLIENT_RUNNING);
}

static void run_plugin(struct fixture *f)
{
	run_plugin_with(f, ALLOC_2, "ebs", NULL);
}

/* The node does not report this allocation: another one runs the other half of the plugin. */
CLUSTER_TEST(allocations_that_run_plugins_stop_last)
{
	take_volume(f);
	run_plugin(f);
	fake_node_send_alloc(&f->n1, ALLOC_2, HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	settle(f);
	(void)drain(f, "n1", DRAINING);
	UNTIL(f, f->n1.stops == 1);
	assert_string_equal(f->n1.last_stop, ALLOC_1);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	settle(f);
	assert_int_equal(f->n1.stops, 1); /* its claim is not released yet */
	release_alloc(f, &f->n1, ALLOC_1);
	UNTIL(f, f->n1.stops == 2);
	assert_string_equal(f->n1.last_stop, ALLOC_2);
	assert_int_equal(node_of(f, "n1")->node.drain.done_ms, 0);
	fake_node_send_alloc(&f->n1, ALLOC_2, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, node_of(f, "n1")->node.drain.done_ms != 0);
}

TEST_ON(a_plugin_stops_after_another_ones_volume_that_it_releases, struct fixture, f, setup_db, teardown)
{
	run_plugin_with(f, ALLOC_1, "third", NULL);
	run_plugin_with(f, ALLOC_2, "ebs", NULL);
	run_plugin_with(f, ALLOC_3, "other", "db");
	for (int i = 0; i < 2; i++) { /* it looks again, while the others stop still */
		Holdfast__V1__DrainNodeResponse *response = NON_NULL(drain_node(f, "n1", false, NULL));

		holdfast__v1__drain_node_response__free_unpacked(response, NULL);
		UNTIL(f, f->n1.stops > 1);
		settle(f);
		assert_int_equal(f->n1.stops, 2);
		assert_string_not_equal(f->n1.last_stop, ALLOC_2);
	}
	release_alloc(f, &f->n1, ALLOC_3);
	UNTIL(f, f->n1.stops == 3);
	assert_string_equal(f->n1.last_stop, ALLOC_2);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	fake_node_send_alloc(&f->n1, ALLOC_2, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, node_of(f, "n1")->node.drain.done_ms != 0);
}

TEST_ON(plugins_that_need_each_other_stop_together, struct fixture, f, setup_db, teardown)
{
	cleanup_pb Holdfast__V1__DrainNodeResponse *response = NULL;
	struct claim_entry *claim;

	assert_int_equal(register_disk(f, &f->operator, "disk", "wwn-0x2", NULL), STATUS_OK);
	run_plugin_with(f, ALLOC_2, "ebs", "disk");
	run_plugin_with(f, ALLOC_3, "other", "db");
	claim = NON_NULL(LIST_FIRST(&state_alloc(&f->server->state, ALLOC_2)->claims));
	(void)str_copy(claim->claim.plugin_id, sizeof(claim->claim.plugin_id), "other");
	response = NON_NULL(drain_node(f, "n1", false, NULL));
	UNTIL(f, f->n1.stops == 2);
}

/* Purge. */

CLUSTER_TEST(a_purge_strands_nothing)
{
	Holdfast__V1__GetVolumeRequest request = HOLDFAST__V1__GET_VOLUME_REQUEST__INIT;
	Holdfast__V1__GetVolumeResponse *response = NULL;
	struct error err;

	take_volume(f);
	assert_error(purge(f, "n1", &err), STATUS_FAILED_PRECONDITION, err, "connected");
	lose(f, &f->n1);
	assert_error(purge(f, "n1", &err), STATUS_FAILED_PRECONDITION, err, "default/db");
	assert_non_null(strstr(err.msg, "holdfast node attest n1"));
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	assert_int_equal(attest(f, "n1", NULL, "it burnt", 0, false, NULL, NULL), STATUS_OK);
	assert_int_equal(purge(f, "n1", &err), STATUS_OK);
	assert_int_equal(purge(f, "n1", &err), STATUS_NOT_FOUND);
	assert_null(get_node(f, "n1", NULL));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(f->server->state.n_nodes, 1);
		assert_null(state_instance(&f->server->state, "n1", "native", "disk"));
		request.id = "db";
		assert_ok(call(&f->operator, & holdfast__v1__volumes__descriptor, "Get", &request.base,
			       (ProtobufCMessage **)&response, NULL));
		assert_int_equal(response->volume->n_claims, 1); /* what happened can still be told */
		assert_string_equal(response->volume->claims[0]->node_id, "n1");
		holdfast__v1__get_volume_response__free_unpacked(response, NULL);
		restart(f);
	}
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0); /* as a new one */
	assert_true(f->n1.welcomed);
	assert_int_equal(node_of(f, "n1")->node.n_past_boots, 0);
	assert_int_equal(f->server->state.n_nodes, 2);
}

/* Attest. */

static bool has_attestation(struct fixture *f)
{
	const struct record_entry *entry = records_from(&f->server->state.records, "attestation/n1/");

	return entry && str_starts_with(entry->key, "attestation/n1/");
}

CLUSTER_TEST(an_attestation_is_for_work_ordered_to_end_on_a_node_that_is_away)
{
	Holdfast__V1__AttestNodeResponse *response = NULL;
	struct error err;

	take_volume(f);
	assert_error(attest(f, "n1", NULL, "it burnt", 0, false, NULL, &err), STATUS_FAILED_PRECONDITION, err,
		     "is connected");
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	assert_int_equal(attest(f, "n1", NULL, "it burnt", 0, false, NULL, &err), STATUS_FAILED_PRECONDITION);
	lose(f, &f->n1);
	assert_int_equal(attest(f, "n1", NULL, "it burnt", 0, true, &response, NULL), STATUS_OK);
	assert_int_equal(response->n_claims, 1); /* that would be freed */
	assert_non_null(strstr(response->bypassed, "receipt"));
	assert_non_null(strstr(response->bypassed, ALLOC_1));
	assert_string_equal(response->attestation->by, "operator/dev");
	holdfast__v1__attest_node_response__free_unpacked(response, NULL);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	assert_false(has_attestation(f));
	assert_int_equal(attest(f, "n1", NULL, "it burnt", 0, false, &response, NULL), STATUS_OK);
	assert_int_equal(response->claims[0]->state, HOLDFAST__V1__CLAIM_STATE__FREED);
	assert_int_equal(response->claims[0]->evidence, HOLDFAST__V1__EVIDENCE__EVIDENCE_OPERATOR);
	assert_string_equal(response->claims[0]->evidence_detail, "operator/dev: it burnt");
	holdfast__v1__attest_node_response__free_unpacked(response, NULL);
	assert_error(attest(f, "n1", NULL, "it burnt", 0, false, NULL, &err), STATUS_FAILED_PRECONDITION, err,
		     "nothing would change");
	restart(f);
	assert_int_equal(claim_of(f, ALLOC_1).evidence, EVIDENCE_OPERATOR);
	assert_true(has_attestation(f));
}

CLUSTER_TEST(work_without_an_order_to_end_is_not_given_away)
{
	struct error err;

	take_volume(f);
	lose(f, &f->n1);
	assert_error(attest(f, "n1", NULL, "it burnt", 0, false, NULL, &err), STATUS_FAILED_PRECONDITION, err,
		     "holdfast alloc stop " ALLOC_1);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
}

CLUSTER_TEST(a_release_that_hangs_is_attested_once_the_node_is_away)
{
	struct error err;

	take_volume(f);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_UNPUBLISHING);
	assert_error(attest(f, "n1", NULL, "the filer fenced it", 0, false, NULL, &err),
		     STATUS_FAILED_PRECONDITION, err, "--without-plugin");
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_UNPUBLISHING);
	lose(f, &f->n1);
	assert_int_equal(attest(f, "n1", NULL, "the filer fenced it", 0, false, NULL, NULL), STATUS_OK);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_FREED);
}

CLUSTER_TEST(a_node_is_not_missed_since_a_time_to_come)
{
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	unit_clock_step(3600000);
	restart(f);
	unit_clock_step(-3600000);
	assert_true(nodes_disconnected_ms(f->server, node_of(f, "n1")) <= clock_realtime_ms());
}

/* It may come back in seconds, and gives its receipt. */
CLUSTER_TEST(a_node_that_was_connected_until_the_server_began_is_not_taken_for_away)
{
	struct error err;

	take_volume(f);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	restart(f);
	assert_error(attest(f, "n1", NULL, "it burnt", 0, false, NULL, &err), STATUS_FAILED_PRECONDITION, err,
		     "may come back; ask again in");
	assert_error(attest(f, "n1", NULL, "it burnt", 60000, false, NULL, &err), STATUS_FAILED_PRECONDITION,
		     err, "may come back; ask again in");
	assert_int_equal(detach(f, "n1", "it burnt", &err), STATUS_FAILED_PRECONDITION);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	assert_error(purge(f, "n2", &err), STATUS_FAILED_PRECONDITION, err, "may come back; ask again in");
	pass_grace(f);
	settle(f);
	assert_succeeds(attest(f, "n1", NULL, "it burnt", 0, false, NULL, &err), err);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
}

/* A thief of its key does not know its boot, and may be faster than the node. */
CLUSTER_TEST(another_boot_of_a_node_that_was_connected_until_the_server_began_waits_for_it)
{
	take_volume(f);
	restart(f);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	assert_int_equal(f->n1.closed_status, STATUS_FAILED_PRECONDITION);
	assert_non_null(strstr(f->n1.closed_message, "may come back; ask again in"));
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_false(f->n1.closed);
	restart(f);
	pass_grace(f);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	assert_false(f->n1.closed);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_FREED);
}

CLUSTER_TEST(a_timed_attestation_frees_the_claims_of_stopped_work_of_an_absent_node)
{
	cleanup_pb Holdfast__V1__AttestNodeResponse *attested = NULL;
	struct error err;

	take_volume(f);
	assert_error(attest(f, "n1", NULL, "switched off", 60000, false, NULL, &err),
		     STATUS_FAILED_PRECONDITION, err, "n1 is connected");
	lose(f, &f->n1);
	assert_int_equal(attest(f, "n1", NULL, "switched off", 60000, false, &attested, NULL), STATUS_OK);
	assert_int_equal(attested->n_claims, 0); /* work that continues is not given away */
	assert_true(attested->attestation->expires_at_ms >= attested->attestation->create_time_ms + 60000);
	settle(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(claim_of(f, ALLOC_1).evidence, EVIDENCE_OPERATOR);
	assert_string_equal(claim_of(f, ALLOC_1).evidence_detail, "operator/dev: switched off");
}

/* It was not switched off: it writes, and its connection may break at any time. */
CLUSTER_TEST(a_timed_attestation_is_over_when_its_node_connects)
{
	take_volume(f);
	lose(f, &f->n1);
	assert_int_equal(attest(f, "n1", NULL, "switched off", 60000, false, NULL, NULL), STATUS_OK);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	restart(f);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	settle(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
}

CLUSTER_TEST(a_word_about_one_boot_frees_nothing_of_the_next)
{
	take_volume(f);
	lose(f, &f->n1);
	assert_int_equal(attest(f, "n1", NULL, "switched off", 60000, false, NULL, NULL), STATUS_OK);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_int_equal(claim_of(f, ALLOC_1).evidence, EVIDENCE_NEW_BOOT);
	take_claim(f, &f->n1, "db", ALLOC_2);
	lose(f, &f->n1);
	assert_int_equal(stop_alloc(f, ALLOC_2, NULL), STATUS_OK);
	settle(f);
	assert_int_equal(state_of(f, ALLOC_2), CLAIM_TAKEN);
}

/* It was given before the setting was. */
CLUSTER_TEST(a_lasting_word_frees_nothing_of_plugins_that_the_configuration_names)
{
	take_volume(f);
	lose(f, &f->n1);
	assert_int_equal(attest(f, "n1", NULL, "switched off", 3600000, false, NULL, NULL), STATUS_OK);
	(void)str_copy(f->server->config.attest_forbidden[0], PLUGIN_ID_MAX + 1, "native");
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	settle(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	f->server->config.attest_forbidden[0][0] = '\0';
	unit_clock_advance(f->server->config.release_sweep_us);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
}

static size_t count_attestations(struct fixture *f, const char *node)
{
	char prefix[OBJECT_KEY_SIZE];
	struct record_entry *entry;
	size_t n = 0;

	(void)str_format(prefix, sizeof(prefix), PREFIX_ATTESTATION "%s/", node);
	for (entry = records_from(&f->server->state.records, prefix);
	     entry && str_starts_with(entry->key, prefix); entry = records_next(entry))
		n++;
	return n;
}

static void put_attestation(struct fixture *f, const Holdfast__V1__Attestation *attestation)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	char key[OBJECT_KEY_SIZE];

	(void)str_format(key, sizeof(key), PREFIX_ATTESTATION "%s/%s", attestation->node_id, attestation->id);
	change_put_record(&change, key, &attestation->base);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
}

/* Puts @n earlier ones about another volume of the namespace. */
static void put_attestations(struct fixture *f, const char *node, const char *by, const char *namespace,
			     int n)
{
	static int n_put;
	char id[UUID_TEXT_SIZE];
	Holdfast__V1__VolumeRef ref = V1(volume_ref, .namespace_ = TEXT(namespace), .id = "other"),
				*refs[] = {&ref};
	Holdfast__V1__Attestation attestation = V1(attestation, .id = id, .node_id = TEXT(node),
						   .by = TEXT(by), .volumes = refs, .n_volumes = 1);

	for (int i = 0; i < n; i++) {
		(void)str_format(id, sizeof(id), "018%05d-0000-7000-" ID_MARK, n_put++);
		put_attestation(f, &attestation);
	}
}

CLUSTER_TEST(at_most_half_of_the_attestations_about_a_node_are_of_one_author)
{
	struct error err;

	take_volume(f);
	lose(f, &f->n1);
	lose(f, &f->n2);
	put_attestations(f, "n1", "operator/dev", "blue", ATTEST_RECORDS_MAX / 2 - 1);
	assert_ok(attest(f, "n1", NULL, "maintenance", 60000, false, NULL, &err));
	assert_error(attest(f, "n1", NULL, "maintenance", 30000, false, NULL, &err),
		     STATUS_RESOURCE_EXHAUSTED, err,
		     "128 attestations by operator/dev are kept about node n1");
	assert_ok(attest(f, "n2", NULL, "maintenance", 60000, false, NULL, &err));
}

CLUSTER_TEST(at_most_three_quarters_of_the_attestations_about_a_node_are_of_one_namespace)
{
	struct error err;

	take_volume(f);
	lose(f, &f->n1);
	put_attestations(f, "n1", "token a", "default", ATTEST_RECORDS_MAX / 4 * 3 - 1);
	assert_ok(attest(f, "n1", NULL, "maintenance", 60000, false, NULL, &err));
	assert_error(attest(f, "n1", NULL, "maintenance", 30000, false, NULL, &err),
		     STATUS_RESOURCE_EXHAUSTED, err, "192 attestations of namespace default are kept");
}

CLUSTER_TEST(about_a_node_as_many_words_are_kept_as_may_be_and_no_more)
{
	struct error err;

	take_volume(f);
	lose(f, &f->n1);
	lose(f, &f->n2);
	put_attestations(f, "n1", "token a", "blue", ATTEST_RECORDS_MAX - 1);
	assert_ok(attest(f, "n1", NULL, "maintenance", 60000, false, NULL, &err));
	assert_error(attest(f, "n1", NULL, "maintenance", 30000, false, NULL, &err),
		     STATUS_RESOURCE_EXHAUSTED, err, "256 attestations are kept about node n1");
	assert_ok(attest(f, "n1", NULL, "maintenance", 90000, false, NULL, &err)); /* for the first one */
	assert_ok(attest(f, "n2", NULL, "maintenance", 60000, false, NULL, &err));
}

CLUSTER_TEST(a_repeated_attestation_takes_the_place_of_the_earlier_one)
{
	struct error err;

	take_volume(f);
	lose(f, &f->n1);
	for (int i = 0; i < 3; i++)
		assert_ok(attest(f, "n1", NULL, "maintenance", 60000, false, NULL, &err));
	assert_int_equal(count_attestations(f, "n1"), 1);
	assert_int_equal(n_events(f, "node n1", "Nodes.Attest", "maintenance"), 3);
	restart(f);
	assert_int_equal(count_attestations(f, "n1"), 1);
	assert_ok(stop_alloc(f, ALLOC_1, &err));
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
}

/* Each of the earlier ones is good for something that the new one is not good for. */
CLUSTER_TEST(an_attestation_that_the_new_one_does_not_cover_stays)
{
	cleanup_pb Holdfast__V1__AttestNodeResponse *response = NULL;
	char other[] = "other", *machines[] = {other, other, other}, *storages[] = {other};
	Holdfast__V1__VolumeRef ref = V1(volume_ref, .namespace_ = "default", .id = other), *refs[] = {&ref};
	Holdfast__V1__VolumeRef blue = V1(volume_ref, .namespace_ = "blue", .id = "db"), *blues[] = {&blue};
	const Holdfast__V1__Attestation *first;
	Holdfast__V1__Attestation earlier;
	char id[UUID_TEXT_SIZE], key[OBJECT_KEY_SIZE];
	struct error err;

	take_volume(f);
	lose(f, &f->n1);
	assert_ok(attest(f, "n1", NULL, "maintenance", 60000, false, &response, &err));
	(void)str_format(key, sizeof(key), PREFIX_ATTESTATION "n1/%s", response->attestation->id);
	first = NON_NULL(records_get(&f->server->state.records, key));
	assert_int_equal(first->n_machines, 1);
	for (int i = 0; i < 9; i++) {
		earlier = *first;
		(void)str_format(id, sizeof(id), "018%05d-0000-7000-" ID_MARK, i);
		earlier.id = id;
		if (i == 0)
			earlier.epoch++;
		else if (i == 1)
			earlier.boot_id = other;
		else if (i == 2)
			earlier.expires_at_ms += 3600000;
		else if (i == 3)
			earlier.n_storages = 0;
		else if (i == 4)
			earlier.machines = machines;
		else if (i == 5)
			earlier.volumes = refs;
		else if (i == 6)
			earlier.storages = storages;
		else if (i == 7)
			earlier.volumes = blues;
		else
			earlier.n_volumes = earlier.n_storages = 0;
		put_attestation(f, &earlier);
	}
	assert_int_equal(count_attestations(f, "n1"), 10);
	assert_ok(attest(f, "n1", NULL, "maintenance", 120000, false, NULL, &err));
	assert_int_equal(count_attestations(f, "n1"), 10);
	assert_null(records_get(&f->server->state.records, key));
}

CLUSTER_TEST(a_word_that_has_expired_frees_nothing)
{
	take_volume(f);
	lose(f, &f->n1);
	assert_int_equal(attest(f, "n1", NULL, "switched off", 1, false, NULL, NULL), STATUS_OK);
	settle(f);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	settle(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
}

CLUSTER_TEST(no_word_is_taken_for_plugins_that_the_configuration_names)
{
	struct error err;

	take_volume(f);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	lose(f, &f->n1);
	(void)str_copy(f->server->config.attest_forbidden[0], PLUGIN_ID_MAX + 1, "native");
	assert_error(attest(f, "n1", NULL, "it burnt", 0, false, NULL, &err), STATUS_FAILED_PRECONDITION, err,
		     "attest_forbidden_plugins");
	assert_int_equal(detach(f, "n1", "it burnt", &err), STATUS_FAILED_PRECONDITION);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
}

/* Bad input. */

CLUSTER_TEST(invalid_node_requests_get_their_own_code)
{
	Holdfast__V1__AttestNodeRequest none = HOLDFAST__V1__ATTEST_NODE_REQUEST__INIT;
	Holdfast__V1__AttestNodeRequest many = HOLDFAST__V1__ATTEST_NODE_REQUEST__INIT;
	Holdfast__V1__DrainNodeRequest late = HOLDFAST__V1__DRAIN_NODE_REQUEST__INIT;
	Holdfast__V1__VolumeRef ref = HOLDFAST__V1__VOLUME_REF__INIT;
	Holdfast__V1__VolumeRef spelled = HOLDFAST__V1__VOLUME_REF__INIT;
	Holdfast__V1__VolumeRef *refs[ATTEST_VOLUMES_MAX + 1];
	char longer[EVIDENCE_DETAIL_MAX + 1];
	struct error err;

	take_volume(f);
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	assert_int_equal(attest(f, "n1", NULL, longer, 0, false, NULL, NULL), STATUS_INVALID_ARGUMENT);
	assert_int_equal(attest(f, "n1", NULL, "", 0, false, NULL, NULL), STATUS_INVALID_ARGUMENT);
	assert_int_equal(attest(f, "n1", NULL, "a\nb", 0, false, NULL, NULL), STATUS_INVALID_ARGUMENT);
	assert_int_equal(attest(f, "n9", NULL, "r", 0, false, NULL, NULL), STATUS_NOT_FOUND);
	assert_int_equal(attest(f, "n1", "no", "r", 0, false, NULL, NULL), STATUS_NOT_FOUND);
	assert_int_equal(attest(f, "n1", NULL, "r", ATTEST_VALID_MAX_MS + UINT64_C(1), false, NULL, NULL),
			 STATUS_INVALID_ARGUMENT);
	none.id = many.id = late.id = "n1";
	none.reason = many.reason = "r";
	assert_error(call(&f->operator, NODES, "Attest", &none.base, NULL, &err), STATUS_INVALID_ARGUMENT,
		     err, "named volumes");
	ref.id = "db";
	for (size_t i = 0; i < ARRAY_SIZE(refs); i++)
		refs[i] = &ref;
	many.volumes = refs;
	many.n_volumes = ATTEST_VOLUMES_MAX + 1;
	assert_int_equal(call(&f->operator, NODES, "Attest", &many.base, NULL, &err),
			 STATUS_INVALID_ARGUMENT);
	many.n_volumes = 2; /* named twice; once would be refused because it works */
	lose(f, &f->n1);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	assert_error(call(&f->operator, NODES, "Attest", &many.base, NULL, &err), STATUS_INVALID_ARGUMENT,
		     err, "twice");
	spelled.id = "db";
	spelled.namespace_ = "default"; /* as without a namespace */
	refs[1] = &spelled;
	assert_error(call(&f->operator, NODES, "Attest", &many.base, NULL, &err), STATUS_INVALID_ARGUMENT,
		     err, "twice");
	late.deadline_ms = UINT64_MAX;
	assert_int_equal(call(&f->operator, NODES, "Drain", &late.base, NULL, &err), STATUS_INVALID_ARGUMENT);
	assert_null(drain_node(f, "n9", false, &err));
	assert_int_equal(err.status, STATUS_NOT_FOUND);
	assert_int_equal(set_eligible(f, "n9", false, NULL), STATUS_NOT_FOUND);
	assert_int_equal(purge(f, "n9", NULL), STATUS_NOT_FOUND);
	assert_null(get_node(f, "../n1", &err));
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
}

/* Lists. */

static Holdfast__V1__ListNodesResponse *list(struct fixture *f, uint32_t per_page, const char *filter,
					     const char *token, struct error *err)
{
	Holdfast__V1__ListNodesRequest request = HOLDFAST__V1__LIST_NODES_REQUEST__INIT;
	ProtobufCMessage *response = NULL;
	char texts[2][128];

	(void)str_copy(texts[0], 128, filter);
	(void)str_copy(texts[1], 128, token);
	request.filter = texts[0];
	request.next_token = texts[1];
	request.per_page = per_page;
	(void)call(&f->operator, NODES, "List", &request.base, &response, err);
	return (Holdfast__V1__ListNodesResponse *)response;
}

CLUSTER_TEST(nodes_are_listed_by_page_and_filter)
{
	struct alloc alloc = {.id = ALLOC_2, .namespace = "other", .node_id = "n1-not-registered"};
	Holdfast__V1__ListNodesResponse *page;
	struct error err;

	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	assert_int_equal(state_put_alloc(&f->server->state, &alloc, NULL), STATUS_OK);
	assert_int_equal(set_eligible(f, "n2", false, NULL), STATUS_OK);
	page = list(f, 1, "", "", NULL);
	assert_int_equal(page->n_nodes, 1);
	assert_string_equal(page->nodes[0]->id, "n1");
	assert_string_equal(page->next_token, "n2");
	holdfast__v1__list_nodes_response__free_unpacked(page, NULL);
	page = list(f, 1, "", "n2", NULL);
	assert_int_equal(page->n_nodes, 1);
	assert_string_equal(page->nodes[0]->id, "n2");
	assert_string_equal(page->nodes[0]->eligibility_reason, "looks odd");
	assert_string_equal(page->next_token, "");
	holdfast__v1__list_nodes_response__free_unpacked(page, NULL);
	page = list(f, 0, "ineligible == true and status == ready", "", NULL);
	assert_int_equal(page->n_nodes, 1);
	assert_string_equal(page->nodes[0]->id, "n2");
	holdfast__v1__list_nodes_response__free_unpacked(page, NULL);
	assert_null(list(f, 0, "ineligible ==", "", &err));
	assert_int_equal(err.status, STATUS_INVALID_ARGUMENT);
}

CLUSTER_TEST(a_page_of_nodes_ends_when_its_filter_has_looked_at_so_much)
{
	enum { N = 2000 };
	char filter[2048] = "id==x", token[NODE_ID_MAX + 1] = "";
	Holdfast__V1__ListNodesRequest request =
		V1(list_nodes_request, .filter = filter, .next_token = token);
	struct node node = {.boot_id = BOOT_1, .create_time_ms = 1};
	size_t n_pages = 0;

	for (int i = 1; i < 128; i++)
		(void)strcat(filter, " or id==x");
	for (int i = 0; i < N; i++) {
		(void)str_format(node.id, sizeof(node.id), "node-%d", i);
		assert_int_equal(state_put_node(&f->server->state, &node, NULL), STATUS_OK);
	}
	do {
		cleanup_pb Holdfast__V1__ListNodesResponse *page = NULL;
		ProtobufCMessage *response = NULL;

		assert_int_equal(call(&f->operator, NODES, "List", &request.base, &response, NULL),
				 STATUS_OK);
		page = (void *)response;
		(void)str_copy(token, sizeof(token), page->next_token);
		n_pages++;
	} while (token[0] != '\0');
	assert_int_equal(n_pages, 2);
}

static int woken;

static void on_woken(enum status status, const ProtobufCMessage *response, const struct error *err,
		     void *userdata)
{
	assert_int_equal(status, STATUS_OK);
	woken++;
}

CLUSTER_TEST(a_list_that_waits_is_woken_by_a_node_that_goes)
{
	Holdfast__V1__ListNodesRequest request = HOLDFAST__V1__LIST_NODES_REQUEST__INIT;
	cleanup_pb Holdfast__V1__ListNodesResponse *now = NULL;

	woken = 0;
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	settle(f);
	now = list(f, 0, "", "", NULL);
	request.index = now->index;
	request.wait_ms = 60000;
	assert_ok(rpc_client_call(f->operator.client, NODES, "List", &request.base, TIMEOUT_US * 20, on_woken,
				  NULL, NULL, NULL));
	settle(f);
	assert_int_equal(woken, 0);
	lose(f, &f->n1);
	UNTIL(f, woken == 1);
}

/* Sessions. */

CLUSTER_TEST(sessions_without_hello_are_few_and_short)
{
	size_t before = f->server->n_greeting;

	fake_node_open(&f->n1, "n1", BOOT_1);
	UNTIL(f, f->server->n_greeting == before + 1);
	fake_node_disconnect(&f->n1);
	UNTIL(f, f->server->n_greeting == before);
	f->server->n_greeting = SESSIONS_GREETING_MAX;
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_true(f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_RESOURCE_EXHAUSTED);
	f->server->n_greeting = SESSIONS_GREETING_MAX - 1;
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_true(f->n1.welcomed);
	assert_int_equal(f->server->n_greeting, SESSIONS_GREETING_MAX - 1);
	fake_node_disconnect(&f->n1);
	f->server->n_greeting = SESSIONS_GREETING_MAX;
	assert_true(state_node(&f->server->state, "n1")->kept_out_us == 0);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_true(f->n1.closed);
	assert_true(state_node(&f->server->state, "n1")->kept_out_us != 0);
	f->server->n_greeting = 0;
}

/* A thief of a node's certificate keeps no node from its session. */
CLUSTER_TEST(one_node_has_few_sessions_without_hello)
{
	enum { N = SESSIONS_GREETING_PER_NODE_MAX };
	struct fake_node thieves[N], other;

	fake_node_init(&other, f->event, f->dir, "node-n2", f->port);
	fake_node_open(&other, "n2", BOOT_1);
	UNTIL(f, f->server->n_greeting == 1);
	for (size_t i = 0; i < N; i++) {
		fake_node_init(&thieves[i], f->event, f->dir, "node-n1", f->port);
		fake_node_open(&thieves[i], "n1", BOOT_1);
		UNTIL(f, f->server->n_greeting == i + 2);
	}
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_true(f->n1.welcomed);
	UNTIL(f, thieves[0].closed);
	assert_int_equal(thieves[0].closed_status, STATUS_RESOURCE_EXHAUSTED);
	assert_non_null(strstr(thieves[0].closed_message, "8 sessions of node n1 are without hello"));
	assert_false(other.closed);
	fake_node_release(&other);
	for (size_t i = 1; i < N; i++)
		assert_false(thieves[i].closed);
	assert_int_equal(f->server->n_greeting, N);
	for (size_t i = 0; i < N; i++)
		fake_node_release(&thieves[i]);
	UNTIL(f, f->server->n_greeting == 0);
}

static void expect_kept_out(struct fixture *f, struct fake_node *thief)
{
	fake_node_disconnect(thief);
	fake_node_connect(thief, "n1", BOOT_2, NULL, 0);
	assert_int_equal(thief->closed_status, STATUS_FAILED_PRECONDITION);
	assert_non_null(strstr(thief->closed_message, "node n1 may run in its last boot"));
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
}

/* The thief has kept the node out, not longer ago than the node tries again, and has passed the time in which
 * any node comes back. */
static void expect_another_boot_waits(struct fixture *f, struct fake_node *thief)
{
	const uint64_t rest_us = 30 * USEC_PER_SEC;

	unit_clock_advance(NODES_KEPT_OUT_MS * USEC_PER_MSEC - rest_us);
	assert_true(nodes_led_ms(f->server) > nodes_grace_ms(f->server));
	expect_kept_out(f, thief);
	fake_node_disconnect(&f->n1);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0); /* its own boot does not wait */
	assert_true(f->n1.welcomed);
	lose(f, &f->n1);
	expect_kept_out(f, thief);
	unit_clock_advance(rest_us);
	fake_node_connect(thief, "n1", BOOT_2, NULL, 0); /* the node has rebooted */
	assert_true(thief->welcomed);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_FREED);
}

/* The node's hello comes one round trip after its stream; a thief opens eight streams meanwhile. */
CLUSTER_TEST(another_boot_waits_after_sessions_without_hello_have_ended_that_of_the_node)
{
	enum { N = SESSIONS_GREETING_PER_NODE_MAX };
	struct fake_node thieves[N];

	take_volume(f);
	restart(f);
	fake_node_open(&f->n1, "n1", BOOT_1);
	UNTIL(f, f->server->n_greeting == 1);
	for (size_t i = 0; i < N; i++) {
		fake_node_init(&thieves[i], f->event, f->dir, "node-n1", f->port);
		fake_node_open(&thieves[i], "n1", BOOT_2);
	}
	UNTIL(f, f->n1.closed && f->server->n_greeting == N);
	assert_int_equal(f->n1.closed_status, STATUS_RESOURCE_EXHAUSTED);
	for (size_t i = 1; i < N; i++)
		fake_node_release(&thieves[i]);
	expect_another_boot_waits(f, &thieves[0]);
	fake_node_release(&thieves[0]);
}

CLUSTER_TEST(another_boot_waits_after_connections_have_kept_the_node_out)
{
	struct fake_node thieves[2];

	take_volume(f);
	restart(f);
	f->server->rpc->limits.per_identity = ARRAY_SIZE(thieves);
	for (size_t i = 0; i < ARRAY_SIZE(thieves); i++) {
		fake_node_init(&thieves[i], f->event, f->dir, "node-n1", f->port);
		fake_node_open(&thieves[i], "n1", BOOT_2);
		UNTIL(f, f->server->n_greeting == i + 1);
	}
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_true(f->n1.closed);
	assert_non_null(strstr(f->n1.closed_message, "2 connections of"));
	fake_node_release(&thieves[1]); /* before the node tries again */
	expect_another_boot_waits(f, &thieves[0]);
	fake_node_release(&thieves[0]);
}

static void talk_much(struct fixture *f)
{
	f->n1.closed = false;
	for (int i = 0; i <= SESSION_PENDING_MAX && !f->n1.closed; i++) {
		fake_node_send_alloc(&f->n1, ALLOC_1,
				     i % 2 == 0 ? HOLDFAST__V1__CLIENT_STATUS__PENDING
						: HOLDFAST__V1__CLIENT_STATUS__RUNNING);
		if (i % 64 == 0)
			(void)sd_event_run(f->event, 0);
	}
	for (int i = 0; i < 2000 && !f->n1.closed; i++)
		(void)sd_event_run(f->event, 1000);
}

CLUSTER_TEST(a_node_that_reports_more_than_the_disk_takes_is_cut_off)
{
	take_volume(f);
	while_the_disk_stalls(f, talk_much);
	UNTIL(f, f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_RESOURCE_EXHAUSTED);
	UNTIL(f, !node_is_connected(node_of(f, "n1")));
	UNTIL(f, kv_stats(f->server->kv).pending == 0); /* until then a new session is none either */
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_true(f->n1.welcomed);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	settle(f);
	assert_false(f->n1.closed);
	assert_int_equal(node_of(f, "n1")->n_pending, 0);
}

CASE(a_node_with_much_work_gets_all_of_it)
{
	enum { N = 3 * SESSION_WORK_SLICE + 1 };

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	for (int i = 0; i < N; i++) {
		char id[UUID_TEXT_SIZE];

		(void)str_format(id, sizeof(id), "018%05d-0000-7000-" ID_MARK, i);
		assert_int_equal(run_alloc(f, id, "n1", NULL), STATUS_OK);
	}
	lose(f, &f->n1);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	UNTIL(f, f->n1.runs == N);
	settle(f);
	assert_int_equal(f->n1.runs, N);
	lose(f, &f->n1);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	fake_node_disconnect(&f->n1); /* in the middle of it */
	settle(f);
}

/* In its hello: the first allocation runs, the second is on its way. */
static void connect_running(struct fixture *f)
{
	char ids[2][UUID_TEXT_SIZE] = {ALLOC_1, ALLOC_2};
	Holdfast__V1__AllocStatus said[2], *all[2];

	for (int i = 0; i < 2; i++) {
		holdfast__v1__alloc_status__init(&said[i]);
		said[i].alloc_id = ids[i];
		all[i] = &said[i];
	}
	said[0].client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING;
	said[1].client_status = HOLDFAST__V1__CLIENT_STATUS__PENDING;
	fake_node_connect(&f->n1, "n1", BOOT_1, all, 2);
}

CASE(a_node_is_not_sent_work_it_reports_running)
{
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_OK);
	assert_int_equal(run_alloc(f, ALLOC_2, "n1", NULL), STATUS_OK);
	assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_1, NULL, NULL), STATUS_OK);
	lose(f, &f->n1);
	connect_running(f);
	UNTIL(f, f->n1.runs > 0);
	settle(f);
	assert_int_equal(f->n1.runs, 1);
	assert_string_equal(f->n1.last_run, ALLOC_2);
	lose(f, &f->n1);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0); /* what it said in another session is over */
	UNTIL(f, f->n1.runs == 2);
	lose(f, &f->n1);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	connect_running(f);
	UNTIL(f, f->n1.runs == 1 && f->n1.stops == 1);
	assert_string_equal(f->n1.last_stop, ALLOC_1);
}

/* Rights. */

CASE(a_node_may_not_change_nodes)
{
	static const char *const methods[] = {"Get",   "List",	 "SetEligibility", "Drain",
					      "Purge", "Attest", "Identify"};
	struct error err;

	take_volume(f);
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		const ProtobufCMethodDescriptor *method =
			protobuf_c_service_descriptor_get_method_by_name(NODES, methods[i]);
		ProtobufCMessage *request;

		request = protobuf_c_message_unpack(method->input, NULL, 0, NULL);
		assert_int_equal(call(&f->n1, NODES, methods[i], request, NULL, &err),
				 STATUS_PERMISSION_DENIED);
		protobuf_c_message_free_unpacked(request, NULL);
	}
	for (int i = 0; i < 2; i++) {
		const ProtobufCServiceDescriptor *plugins = &holdfast__v1__plugins__descriptor;
		ProtobufCMessage *request =
			protobuf_c_message_unpack(plugins->methods[i].input, NULL, 0, NULL);

		assert_int_equal(call(&f->n1, plugins, plugins->methods[i].name, request, NULL, &err),
				 STATUS_PERMISSION_DENIED);
		protobuf_c_message_free_unpacked(request, NULL);
	}
}

/* A hello that names claims which the server never had, as many as one message takes. */
static void greet_with_unknown_claims(struct fixture *f, unsigned int n)
{
	static char ids[20000][UUID_TEXT_SIZE];
	static Holdfast__V1__MountedClaim claims[ARRAY_SIZE(ids)], *list[ARRAY_SIZE(ids)];
	Holdfast__V1__SessionHello hello = HOLDFAST__V1__SESSION_HELLO__INIT;
	Holdfast__V1__SessionUp up = HOLDFAST__V1__SESSION_UP__INIT;

	assert_in_range(n, 1, ARRAY_SIZE(ids));
	for (unsigned int i = 0; i < n; i++) {
		(void)str_format(ids[i], UUID_TEXT_SIZE, "018%05u-0003-7000-" ID_MARK, i);
		holdfast__v1__mounted_claim__init(&claims[i]);
		claims[i].claim_id = ids[i];
		list[i] = &claims[i];
	}
	fake_node_open(&f->n1, "n1", BOOT_1);
	hello.node_id = f->n1.id;
	hello.boot_id = f->n1.boot_id;
	hello.mounted = list;
	hello.n_mounted = n;
	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_HELLO;
	up.hello = &hello;
	fake_node_send(&f->n1, &up);
	UNTIL(f, f->n1.welcomed || f->n1.closed);
}

CLUSTER_TEST(a_node_that_names_unknown_claims_pays_for_the_time_of_their_searches)
{
	const uint64_t before_us = clock_monotonic_us() + SESSION_SEARCH_BURST_US / 2;
	uint64_t *paid_us;

	take_volume(f);
	paid_us = &state_node(&f->server->state, "n1")->searches.rate.paid_us;
	fake_node_disconnect(&f->n1);
	*paid_us = before_us;
	greet_with_unknown_claims(f, 2); /* the store may have forgotten them: the node must report */
	assert_true(f->n1.welcomed && !f->n1.closed);
	assert_true(state_node(&f->server->state, "n1")->node.report_wanted);
	assert_true(*paid_us > before_us + 10); /* more than one for each */
	fake_node_disconnect(&f->n1);
	*paid_us = clock_monotonic_us() + 2 * (uint64_t)SESSION_SEARCH_BURST_US;
	greet_with_unknown_claims(f, 2);
	UNTIL(f, f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_RESOURCE_EXHAUSTED);
	assert_contains(f->n1.closed_message, "the server has searched them for 1000 ms");
	/* unknown means keep */
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	assert_true(state_node(&f->server->state, "n1")->node.report_wanted);
}
