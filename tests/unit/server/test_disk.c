/* SPDX-License-Identifier: Apache-2.0 */
/* A disk that fills: nothing new, then nothing at all, never an end; and as before when there is room. */

#include "cluster.h"
#include "lines.h"
#include "metrics.h"
#include "unit.h"
#include "warnings.h"

#include "base/strbuf.h"
#include "node/down.h"
#include "state/disk.h"

#include <holdfast/v1/operator.pb-c.h>
#include <limits.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#define MIB UINT64_C(1048576)

/* As --dev has it. */
enum { RESERVE_MIB = 16, PLENTY_MIB = 10000 };

/* Never the real disk: other tests fill that. */
static struct {
	uint64_t other_free; /* MiB beside the reserve */
	char reserve[PATH_MAX];
} disk = {.other_free = PLENTY_MIB};

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): names of the linker */
int __real_statvfs(const char *path, struct statvfs *ret);

WRAPPED(int, statvfs, const char *path, struct statvfs *ret)
{
	int r = __real_statvfs(path, ret);

	ret->f_frsize = MIB;
	ret->f_bavail = disk.other_free + (access(disk.reserve, F_OK) < 0 ? RESERVE_MIB : 0);
	return r;
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

/* @mib free beside the reserve, whether that is there or not. */
static void set_free(struct fixture *f, uint64_t mib)
{
	(void)str_format(disk.reserve, sizeof(disk.reserve), "%s/holdfast.reserve", f->dir);
	disk.other_free = mib;
	f->server->disk->looked_us = 0;
}

static int tear_down(void **state)
{
	disk.other_free = PLENTY_MIB;
	return teardown(state);
}

static bool has_reserve(const struct fixture *f)
{
	char path[PATH_MAX];

	(void)str_format(path, sizeof(path), "%s/holdfast.reserve", f->dir);
	return access(path, F_OK) == 0;
}

static enum status get_status(struct fixture *f, Holdfast__V1__GetStatusResponse **ret)
{
	Holdfast__V1__GetStatusRequest request = HOLDFAST__V1__GET_STATUS_REQUEST__INIT;
	ProtobufCMessage *response = NULL;
	enum status status = call(&f->operator, & holdfast__v1__operator__descriptor, "Status", &request.base,
				  &response, NULL);

	*ret = (Holdfast__V1__GetStatusResponse *)response;
	return status;
}

static void expect_warning(struct fixture *f, const char *part)
{
	cleanup_pb Holdfast__V1__GetStatusResponse *status = NULL;

	assert_int_equal(get_status(f, &status), STATUS_OK);
	if (part) {
		assert_true(status->n_warnings >= 1);
		assert_non_null(strstr(status->warnings[0], part));
		assert_non_null(strstr(status->warnings[0], f->dir));
		assert_non_null(strstr(status->warnings[0], "Next: df -h "));
	} else {
		assert_int_equal(status->n_warnings, 0);
	}
}

static void expect_metric(struct fixture *f, const char *line)
{
	cleanup_strbuf struct strbuf text = STRBUF_INIT(1 << 20);

	metrics_print(f->server, &text);
	assert_non_null(strstr(text.data, line));
}

/* Something new. */
static enum status register_another(struct fixture *f, struct error *err)
{
	return register_disk(f, &f->operator, "another", "wwn-0x2", err);
}

static void expect_full(enum status status, const struct fixture *f, const struct error *err)
{
	assert_error(status, STATUS_RESOURCE_EXHAUSTED, *err, f->dir);
	assert_non_null(strstr(err->msg, "Next: df -h "));
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup, tear_down)

CASE(a_reserve_is_allocated_beside_the_store)
{
	char path[PATH_MAX];
	struct stat st;

	(void)str_format(path, sizeof(path), "%s/holdfast.reserve", f->dir);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, RESERVE_MIB * MIB);
	assert_true((uint64_t)st.st_blocks * 512 >= RESERVE_MIB * MIB);
	assert_int_equal(st.st_mode & 07777, 0600);
	restart(f); /* and kept */
	assert_true(has_reserve(f));
	expect_warning(f, NULL);
	expect_metric(f, "\nholdfast_disk_level 0\n");
}

CASE(a_disk_that_is_almost_full_takes_nothing_new_and_releases_continue)
{
	static struct lines lines;
	struct claim claim;
	enum status status;
	struct error err;

	take_volume(f);
	claim = claim_of(f, ALLOC_1);
	set_free(f, RESERVE_MIB - 1);
	lines_begin(&lines);
	status = register_another(f, &err);
	warnings_review(f->server->warnings); /* records nothing on this disk */
	lines_end(&lines);
	expect_full(status, f, &err);
	assert_int_equal(lines_with(&lines, " event=disk-full "), 1);
	assert_int_equal(n_events(f, "warning disk", "Server.Warn", ""), 0);
	assert_false(has_reserve(f));
	expect_warning(f, "nothing new is taken; reading and releases continue");
	expect_metric(f, "\nholdfast_disk_level 1\n");
	assert_int_equal(metric_of(f, "disk_free_bytes"),
			 (2 * RESERVE_MIB - 1) * MIB); /* the reserve was freed */
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	UNTIL(f, f->n1.stops == 1);
	fake_node_send_released(&f->n1, &claim);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_true(node_is_connected(state_node(&f->server->state, "n1")));
	assert_false(f->server->failed);
}

CASE(a_full_disk_keeps_receipts_at_the_nodes_and_the_server_running)
{
	struct claim claim;
	struct error err;
	uint64_t last;
	int n_acks;

	take_volume(f);
	claim = claim_of(f, ALLOC_1);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	UNTIL(f, f->n1.stops == 1);
	settle(f);
	last = kv_revision(f->server->kv);
	n_acks = f->n1.acks;
	set_free(f, 1);
	f->server->config.disk_reserve = 64 * MIB; /* the reserve is used up, too */
	fake_node_send_released(&f->n1, &claim);
	expect_full(register_another(f, &err), f, &err);
	settle(f);
	assert_int_equal(f->n1.acks, n_acks);
	assert_int_equal(kv_revision(f->server->kv), last);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	assert_true(node_is_connected(state_node(&f->server->state, "n1")));
	expect_warning(f, "nothing is stored");
	expect_metric(f, "\nholdfast_disk_level 2\n");
	set_free(f, PLENTY_MIB);
	fake_node_send_released(&f->n1, &claim); /* said again */
	UNTIL(f, f->n1.acks == n_acks + 1);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_false(f->server->failed);
}

CASE(a_node_that_goes_while_the_disk_is_full_has_its_end_stored_once_there_is_room)
{
	const struct node_entry *n1;

	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	n1 = state_node(&f->server->state, "n1");
	set_free(f, 1);
	f->server->config.disk_reserve = 64 * MIB;
	fake_node_disconnect(&f->n1);
	UNTIL(f, n1->is_end_due);
	set_free(f, PLENTY_MIB);
	UNTIL(f, !n1->is_end_due);
	settle(f);
	restart(f);
	assert_true(state_node(&f->server->state, "n1")->node.disconnected_ms > 0);
}

CASE(a_node_that_goes_down_while_the_disk_is_full_is_down_once_there_is_room)
{
	uint64_t now_us, retry_us;

	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	fake_node_disconnect(&f->n1);
	UNTIL(f, f->server->state.n_connected == 0);
	settle(f);
	set_free(f, 1);
	f->server->config.disk_reserve = 64 * MIB;
	f->server->config.node_down_after_us = 0;
	node_down_rearm(f->server);
	run_for(f->event, 1500);
	assert_int_equal(f->server->state.n_nodes_down, 0);
	assert_true(sd_event_now(f->event, CLOCK_MONOTONIC, &now_us) >= 0);
	assert_int_equal(sd_event_source_get_time(f->server->node_down_timer, &retry_us), 0);
	assert_true(retry_us > now_us + USEC_PER_SEC);
	set_free(f, PLENTY_MIB);
	UNTIL(f, f->server->state.n_nodes_down == 1);
}

CASE(a_disk_must_have_more_room_again_than_it_had_when_it_was_full)
{
	struct error err;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	set_free(f, RESERVE_MIB); /* just enough */
	assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_OK);
	set_free(f, RESERVE_MIB - 1);
	expect_full(register_another(f, &err), f, &err);
	set_free(f, 2 * RESERVE_MIB - 1); /* with what the reserve has freed 1 short of 3 */
	expect_full(register_another(f, &err), f, &err);
	set_free(f, 2 * RESERVE_MIB);
	UNTIL(f, f->server->disk->level == DISK_PLENTY); /* by itself */
	assert_true(has_reserve(f));
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	expect_warning(f, NULL);
}

CASE(a_server_starts_on_a_full_disk_and_answers)
{
	struct error err;

	take_volume(f);
	set_free(f, 1);
	restart(f);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
	assert_false(has_reserve(f));
	expect_warning(f, "nothing new is taken");
	expect_full(register_another(f, &err), f, &err);
}
