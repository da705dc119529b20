/* SPDX-License-Identifier: Apache-2.0 */
/* How full volumes are: what a node reports is shown, counted and logged, and decides nothing. */
#include "cluster.h"
#include "lines.h"
#include "unit.h"
#include "unit_clock.h"

#include "model/pb.h"
#include "state/usage.h"

typedef Holdfast__V1__VolumeUsage usage_t;

static usage_t usage_of(struct fixture *f, const char *alloc, char id[static UUID_TEXT_SIZE], uint64_t used)
{
	struct claim claim = claim_of(f, alloc);
	usage_t usage =
		V1(volume_usage, .claim_id = id, .total_bytes = 1000, .used_bytes = used,
		   .free_bytes = 1000 - used, .total_inodes = 100, .used_inodes = 7, .free_inodes = 93);

	memcpy(id, claim.id, UUID_TEXT_SIZE);
	return usage;
}

static void send_usage(struct fake_node *node, usage_t *usage)
{
	Holdfast__V1__VolumeUsageReport report = V1(volume_usage_report, .volumes = &usage, .n_volumes = 1);
	Holdfast__V1__SessionUp up =
		V1(session_up, .message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_USAGE, .usage = &report);

	fake_node_send(node, &up);
	fake_node_send_heartbeat(node);
}

static const struct claim_usage *known(struct fixture *f)
{
	return usages_first(&f->server->state.usages);
}

static void report_used(struct fixture *f, uint64_t used)
{
	char id[UUID_TEXT_SIZE];
	usage_t usage = usage_of(f, ALLOC_1, id, used);

	send_usage(&f->n1, &usage);
	UNTIL(f, known(f) && known(f)->usage.used_bytes == used);
}

static Holdfast__V1__GetVolumeResponse *get_volume(struct fixture *f)
{
	ProtobufCMessage *response = NULL;
	Holdfast__V1__GetVolumeRequest request = V1(get_volume_request, .id = "db", .why = true);
	struct error err;

	if (call(&f->operator, & holdfast__v1__volumes__descriptor, "Get", &request.base, &response, &err) !=
	    STATUS_OK)
		fail_msg("%s", err.msg);
	return (void *)response;
}

static void drop(Holdfast__V1__GetVolumeResponse *response)
{
	holdfast__v1__get_volume_response__free_unpacked(response, NULL);
}

static void set_warn_at(struct fixture *f, const char *level)
{
	struct volume_entry *entry = state_volume(&f->server->state, NAMESPACE_DEFAULT, "db");
	Holdfast__V1__RegisterVolumeRequest request =
		V1(register_volume_request, .volume = volume_to_pb(&entry->volume));
	struct error err;

	request.volume->warn_at = (uint32_t)strtoul(level, NULL, 10);
	assert_ok(call(&f->operator, & holdfast__v1__volumes__descriptor, "Register", &request.base, NULL,
		       &err));
	holdfast__v1__volume__free_unpacked(request.volume, NULL);
}

CLUSTER_TEST(a_nodes_report_is_shown_for_volume_and_node_and_as_metrics)
{
	Holdfast__V1__GetVolumeResponse *volume;
	cleanup_pb ProtobufCMessage *response = NULL;
	Holdfast__V1__GetNodeRequest request = V1(get_node_request, .id = "n1");
	struct error err;

	take_volume(f);
	volume = get_volume(f);
	assert_int_equal(volume->volume->n_usages, 0); /* unknown is not zero */
	drop(volume);
	assert_int_equal(metric_of(f, "volume_used_bytes{volume=\"db\",namespace=\"default\",node=\"n1\"}"),
			 -1);
	report_used(f, 400);
	volume = get_volume(f);
	assert_int_equal(volume->volume->n_usages, 1);
	assert_string_equal(volume->volume->usages[0]->node_id, "n1");
	assert_int_equal(volume->volume->usages[0]->used_bytes, 400);
	assert_int_equal(volume->volume->usages[0]->percent, 40);
	assert_int_equal(volume->volume->usages[0]->unknown_since_ms, 0);
	drop(volume);
	assert_ok(
		call(&f->operator, & holdfast__v1__nodes__descriptor, "Get", &request.base, &response, &err));
	assert_int_equal(((Holdfast__V1__GetNodeResponse *)response)->n_usages, 1);
	assert_string_equal(((Holdfast__V1__GetNodeResponse *)response)->usages[0]->volume_id, "db");
	assert_int_equal(metric_of(f, "volume_size_bytes{volume=\"db\",namespace=\"default\",node=\"n1\"}"),
			 1000);
	assert_int_equal(metric_of(f, "volume_used_bytes{volume=\"db\",namespace=\"default\",node=\"n1\"}"),
			 400);
	assert_int_equal(metric_of(f, "volume_free_bytes{volume=\"db\",namespace=\"default\",node=\"n1\"}"),
			 600);
	assert_int_equal(metric_of(f, "volume_used_inodes{volume=\"db\",namespace=\"default\",node=\"n1\"}"),
			 7);
	assert_int_equal(metric_of(f, "volume_free_inodes{volume=\"db\",namespace=\"default\",node=\"n1\"}"),
			 93);
}

CLUSTER_TEST(a_volume_above_its_level_is_full_until_it_is_well_below)
{
	Holdfast__V1__GetVolumeResponse *volume;

	take_volume(f);
	report_used(f, 890);
	assert_int_equal(metric_of(f, "volumes_full"), 0);
	report_used(f, 905);
	assert_int_equal(metric_of(f, "volumes_full"), 1);
	volume = get_volume(f);
	assert_true(volume->volume->usages[0]->full);
	assert_non_null(strstr(volume->why, "91 % full on node n1"));
	drop(volume);
	report_used(f, 860);
	assert_int_equal(metric_of(f, "volumes_full"), 1);
	assert_int_equal(n_events(f, "volume default/db", "Volumes.Usage", ""), 1);
	assert_int_equal(
		n_events(f, "volume default/db", "Volumes.Usage", "volume db is 91 % full on node n1"), 1);
	report_used(f, 830);
	assert_int_equal(metric_of(f, "volumes_full"), 0);
	assert_int_equal(
		n_events(f, "volume default/db", "Volumes.Usage", "volume db is 83 % full on node n1"), 1);
}

CLUSTER_TEST(a_new_level_counts_without_a_new_report)
{
	take_volume(f);
	report_used(f, 700);
	assert_int_equal(metric_of(f, "volumes_full"), 0);
	set_warn_at(f, "70");
	assert_int_equal(metric_of(f, "volumes_full"), 1);
	set_warn_at(f, "0");
	assert_int_equal(metric_of(f, "volumes_full"), 0);
}

CLUSTER_TEST(a_condition_is_shown_and_counted_until_it_is_gone)
{
	char id[UUID_TEXT_SIZE], text[] = "read-only: the kernel\n stopped \xe2\x80\xaewrites";
	Holdfast__V1__GetVolumeResponse *volume;
	usage_t usage;

	take_volume(f);
	usage = usage_of(f, ALLOC_1, id, 1);
	usage.read_only = true;
	usage.condition = text;
	send_usage(&f->n1, &usage);
	UNTIL(f, metric_of(f, "volumes_read_only") == 1);
	assert_int_equal(metric_of(f, "volumes_abnormal"), 1);
	volume = get_volume(f);
	assert_null(strchr(volume->volume->usages[0]->condition, '\n')); /* a node's text is one line, */
	assert_null(strstr(volume->volume->usages[0]->condition, "\xe2\x80\xae")); /* from left to right */
	assert_non_null(strstr(volume->why, "its condition on node n1: read-only: the kernel"));
	drop(volume);
	assert_int_equal(n_events(f, "volume default/db", "Volumes.Usage",
				  "volume db on node n1: read-only: the kernel"),
			 1);
	report_used(f, 2);
	assert_int_equal(metric_of(f, "volumes_read_only"), 0);
	assert_int_equal(metric_of(f, "volumes_abnormal"), 0);
	assert_int_equal(n_events(f, "volume default/db", "Volumes.Usage", "it is in order again"), 1);
}

CLUSTER_TEST(unknown_is_shown_as_unknown_since_the_node_could_not_measure_or_is_away)
{
	char id[UUID_TEXT_SIZE];
	Holdfast__V1__GetVolumeResponse *volume;
	usage_t usage;

	take_volume(f);
	report_used(f, 400);
	usage = usage_of(f, ALLOC_1, id, 400);
	usage.unknown_since_ms = 1;
	send_usage(&f->n1, &usage);
	UNTIL(f, metric_of(f, "volumes_unmeasured") == 1);
	assert_int_equal(metric_of(f, "volume_used_bytes{volume=\"db\",namespace=\"default\",node=\"n1\"}"),
			 -1);
	volume = get_volume(f);
	assert_true(volume->volume->usages[0]->unknown_since_ms > 1); /* by the server's clock */
	drop(volume);
	report_used(f, 401);
	assert_int_equal(metric_of(f, "volumes_unmeasured"), 0);
	fake_node_disconnect(&f->n1);
	UNTIL(f, !node_is_connected(state_node(&f->server->state, "n1")));
	assert_int_equal(metric_of(f, "volume_used_bytes{volume=\"db\",namespace=\"default\",node=\"n1\"}"),
			 -1);
	volume = get_volume(f);
	assert_true(volume->volume->usages[0]->unknown_since_ms > 1);
	drop(volume);
}

CLUSTER_TEST(a_node_reports_its_own_claims_only)
{
	char id[UUID_TEXT_SIZE];
	usage_t usage;

	take_volume(f);
	usage = usage_of(f, ALLOC_1, id, 400);
	send_usage(&f->n2, &usage);
	usage.claim_id = TEXT(ALLOC_2); /* no claim */
	send_usage(&f->n1, &usage);
	settle(f);
	assert_null(known(f));
	assert_false(f->n1.closed);
	assert_false(f->n2.closed);
}

CLUSTER_TEST(usage_is_forgotten_with_its_claim)
{
	struct claim claim;

	take_volume(f);
	report_used(f, 950);
	claim = claim_of(f, ALLOC_1);
	fake_node_send_released(&f->n1, &claim);
	UNTIL(f, state_of(f, ALLOC_1) >= CLAIM_NODE_DETACHED);
	assert_null(known(f));
	assert_int_equal(metric_of(f, "volumes_full"), 0);
}

CLUSTER_TEST(of_many_entries_for_one_claim_the_last_one_counts_and_the_log_has_room)
{
	enum { N = 2001 };
	Holdfast__V1__VolumeUsageReport report = HOLDFAST__V1__VOLUME_USAGE_REPORT__INIT;
	Holdfast__V1__SessionUp up = HOLDFAST__V1__SESSION_UP__INIT;
	static usage_t usages[N], *list[N];
	char id[UUID_TEXT_SIZE];
	static struct lines lines;

	take_volume(f);
	for (size_t i = 0; i < N; i++) {
		usages[i] = usage_of(f, ALLOC_1, id, i % 2 == 0 ? 950 : 100);
		if (i % 2 == 0)
			usages[i].condition = "broken";
		list[i] = &usages[i];
	}
	report.volumes = list;
	report.n_volumes = N;
	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_USAGE;
	up.usage = &report;
	lines_begin(&lines);
	fake_node_send(&f->n1, &up);
	fake_node_send_heartbeat(&f->n1);
	UNTIL(f, known(f));
	set_warn_at(f, "77");
	lines_end(&lines);
	assert_int_equal(known(f)->usage.used_bytes, 950);
	assert_int_equal(lines_with(&lines, "95 % full on node n1"), 1);
	assert_int_equal(lines_with(&lines, "on node n1: broken"), 1);
	assert_int_equal(lines_with(&lines, "Volumes.Register by"), 1);
}

CLUSTER_TEST(a_node_whose_volume_is_full_and_has_room_in_turn_is_logged_so_often_only)
{
	static struct lines lines;

	take_volume(f);
	lines_begin(&lines);
	for (uint64_t i = 0; i < 200; i++)
		report_used(f, i % 2 == 0 ? 950 : 100);
	unit_clock_advance(60 * USEC_PER_SEC);
	report_used(f, 960);
	lines_end(&lines);
	assert_in_range(lines_with(&lines, "full on node n1"), 20, 60);
	assert_int_equal(lines_with(&lines, " more before"), 1);
	assert_int_equal(metric_of(f, "volumes_full"), 1); /* it is counted all the same */
}
