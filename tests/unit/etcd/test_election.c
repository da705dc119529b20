/* SPDX-License-Identifier: Apache-2.0 */
/* Who leads, and for how long. */

#include "etcd_world.h"

#include "base/clock.h"

#include <signal.h>
#include <sys/wait.h>

static char prefix[32];

TEST_GROUP(etcd_world_setup, etcd_world_teardown)

static int setup(void **state)
{
	static int n;
	sd_event *event = NULL;

	(void)str_format(prefix, sizeof(prefix), "/election/%d", n++);
	assert_int_equal(sd_event_new(&event), 0);
	*state = event;
	return 0;
}

static int teardown(void **state)
{
	sd_event_unref(*state);
	return 0;
}

static void start(struct part *part, sd_event *event, const char *name)
{
	const char *url = etcd_world->urls[0];
	struct etcd_settings settings = part_settings(&url, 1, prefix, name);

	part_start(part, event, &settings);
}

static void on_done(uint64_t revision, const struct error *err, void *userdata)
{
	int *status = userdata;

	*status = err ? (int)err->status : 0;
}

/* The status of a put; -1 never. */
static enum status put(struct part *part, const char *value)
{
	const struct kv_op op = {.key = "a", .value = value, .len = strlen(value)};
	int status = -1;

	assert_ok(kv_submit(part->kv, &(struct kv_txn){.ops = &op, .n_ops = 1}, on_done, &status, NULL));
	run_until(part->event, &status, 0);
	return (enum status)status;
}

static bool keep(const struct kv_item *item, void *userdata)
{
	(void)snprintf(userdata, 16, "%.*s", (int)item->len, (const char *)item->value);
	return true;
}

#define CASE(name) TEST_ON(name, sd_event, event, setup, teardown)

CASE(one_leads_and_the_others_know_which)
{
	cleanup(part_stop) struct part first, second;

	start(&first, event, "server-one");
	run_until(event, &first.n_leading, 1);
	start(&second, event, "server-two");
	while (second.leader[0] == '\0')
		assert_true(sd_event_run(event, USEC_PER_SEC) >= 0);
	assert_string_equal(second.leader, "server-one");
	assert_true(etcd_is_leading(first.etcd));
	assert_false(etcd_is_leading(second.etcd));
	run_for(event, 2 * LEASE_S * 1000); /* the lease is kept alive */
	assert_int_equal(first.n_lost, 0);
	assert_int_equal(second.n_leading, 0);
}

CASE(a_resignation_frees_the_lead_at_once)
{
	struct part first, second;

	start(&first, event, "s1");
	part_lead(&first);
	assert_int_equal(put(&first, "1"), STATUS_OK);
	start(&second, event, "s2");
	run_for(event, 100);
	part_stop(&first);
	part_lead(&second);
	assert_int_equal(put(&second, "2"), STATUS_OK);
	part_stop(&second);
}

/* A revoked lease is not left lying for a part of a long lease. */
CASE(a_revoked_lease_is_taken_soon_however_long_it_was)
{
	const char *const url = etcd_world->urls[0];
	struct etcd_settings settings = part_settings(&url, 1, prefix, "s1");
	struct part first, second;

	settings.lease_us = 36000 * USEC_PER_SEC; /* a part of it ends this program by its limit */
	part_start(&first, event, &settings);
	run_until(event, &first.n_leading, 1);
	settings.name = "s2";
	part_start(&second, event, &settings);
	while (second.leader[0] == '\0')
		assert_true(sd_event_run(event, USEC_PER_SEC) >= 0);
	part_stop(&first);
	run_until(event, &second.n_leading, 1);
	part_stop(&second);
}

CASE(a_follower_opens_no_store)
{
	cleanup(part_stop) struct part first, second;
	struct error err;

	start(&first, event, "s1");
	run_until(event, &first.n_leading, 1);
	start(&second, event, "s2");
	run_for(event, 100);
	assert_error(kv_open_etcd(second.etcd, &second.kv, &err), STATUS_FAILED_PRECONDITION, err,
		     "not the leader");
}

CASE(a_leader_without_etcd_knows_when_its_lease_may_be_over)
{
	uint64_t begin_us, lasted_us;
	cleanup(part_stop) struct part part;

	start(&part, event, "s1");
	part_lead(&part);
	etcd_world_kill(etcd_world, 0);
	begin_us = clock_monotonic_us();
	run_until(event, &part.n_lost, 1);
	lasted_us = clock_monotonic_us() - begin_us;
	assert_true(lasted_us < 2 * LEASE_S * USEC_PER_SEC);
	assert_int_equal(part.lost.status, STATUS_FAILED_PRECONDITION);
	assert_non_null(strstr(part.lost.msg, "not the leader: etcd has not extended the lease"));
	assert_false(etcd_is_leading(part.etcd));
	assert_int_equal(put(&part, "1"), STATUS_FAILED_PRECONDITION);
	etcd_world_start(etcd_world, 0);
}

/* A server in a process of its own, which leads, says so, and writes again when it is let. */
static int run_child(int said, int let)
{
	sd_event *event = NULL;
	struct part part;
	bool was_leading;
	enum status status;

	(void)sd_event_new(&event);
	start(&part, event, "child");
	part_lead(&part);
	if (put(&part, "child-1") != STATUS_OK)
		return 2;
	(void)!write(said, "L", 1);
	(void)!read(let, &(char){0}, 1);
	was_leading = etcd_is_leading(part.etcd); /* before anything else has run */
	status = put(&part, "child-2");
	if (was_leading)
		return 3;
	return status == STATUS_FAILED_PRECONDITION ? 0 : 4;
}

CASE(a_leader_stopped_past_its_lease_neither_leads_nor_writes)
{
	struct part part;
	char value[16] = "";
	int said[2], let[2], status;
	siginfo_t info;
	pid_t pid;

	assert_int_equal(pipe(said) | pipe(let), 0);
	pid = fork();
	if (pid == 0)
		_exit(run_child(said[1], let[0]));
	assert_int_equal(read(said[0], value, 1), 1);
	assert_int_equal(kill(pid, SIGSTOP), 0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WSTOPPED), 0);
	start(&part, event, "s2");
	part_lead(&part); /* when etcd has ended the lease */
	assert_int_equal(put(&part, "two"), STATUS_OK);
	assert_int_equal(write(let[1], "", 1), 1);
	(void)kill(pid, SIGCONT);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(kv_range(part.kv, "a", keep, value, NULL), STATUS_OK);
	assert_string_equal(value, "two");
	part_stop(&part);
	for (int i = 0; i < 2; i++) {
		(void)close(said[i]);
		(void)close(let[i]);
	}
}

CASE(three_members_serve_without_one_and_stand_still_without_two)
{
	struct etcd_world *three = etcd_world_new(3);
	const char *const urls[] = {three->urls[0], three->urls[1], three->urls[2]};
	struct etcd_settings settings = part_settings(urls, 3, "/three", "s1");
	cleanup(part_stop) struct part part;

	settings.lease_us = 20 * USEC_PER_SEC;
	part_start(&part, event, &settings);
	part_lead(&part);
	assert_int_equal(put(&part, "1"), STATUS_OK);
	etcd_world_kill(three, 0);
	assert_int_equal(put(&part, "2"), STATUS_OK);
	part_stop(&part);
	etcd_world_kill(three, 1);
	settings.lease_us = LEASE_S * USEC_PER_SEC;
	part_start(&part, event, &settings);
	run_until(event, &part.n_trouble, 2);
	assert_int_equal(part.n_leading, 0);
	etcd_world_start(three, 1);
	part_lead(&part); /* there is a quorum again */
	assert_int_equal(put(&part, "3"), STATUS_OK);
	etcd_world_kill(three, 1);
	assert_int_equal(put(&part, "4"), STATUS_FAILED_PRECONDITION);
	run_until(event, &part.n_lost, 1);
	etcd_world_free(three);
}

/* Servers of two versions: those of the schema at which the cluster is lead, and after it was raised the
 * others. */
CASE(a_server_of_another_schema_follows_until_it_is_raised)
{
	const char *const url = etcd_world->urls[0];
	struct etcd_settings earlier = part_settings(&url, 1, "/schema", "earlier");
	struct etcd_settings newer = part_settings(&url, 1, "/schema", "newer");
	struct part old, new;
	uint32_t before;

	earlier.schema = 4;
	newer.schema = 5;
	assert_int_equal(etcd_raise_schema(&newer, &before, NULL), STATUS_NOT_FOUND);
	part_start(&old, event, &earlier);
	part_lead(&old);
	part_start(&new, event, &newer);
	while (new.leader[0] == '\0')
		run_for(event, 50);
	part_stop(&old);
	run_until(event, &new.n_aside, 1);
	assert_int_equal(new.aside, 4);
	run_for(event, 1000);
	assert_int_equal(new.n_aside, 1); /* it is said once */
	assert_int_equal(new.n_leading, 0);
	part_start(&old, event, &earlier);
	part_lead(&old);
	assert_int_equal(put(&old, "1"), STATUS_OK);
	assert_int_equal(etcd_raise_schema(&newer, &before, NULL), STATUS_OK);
	assert_int_equal(before, 4);
	assert_int_equal(put(&old, "2"), STATUS_OK); /* who leads continues */
	part_stop(&old);
	part_lead(&new);
	assert_int_equal(etcd_raise_schema(&newer, &before, NULL), STATUS_OK);
	assert_int_equal(before, 5);
	assert_int_equal(etcd_raise_schema(&earlier, &before, NULL), STATUS_FAILED_PRECONDITION);
	part_start(&old, event, &earlier);
	part_stop(&new);
	run_until(event, &old.n_aside, 1);
	assert_int_equal(old.aside, 5);
	assert_int_equal(old.n_leading, 0);
	etcd_world_put(url, "/schema/record-schema", "5 or so");
	run_until(event, &old.n_aside, 2);
	assert_int_equal(old.n_leading, 0);
	assert_int_equal(etcd_raise_schema(&newer, &before, NULL), STATUS_DATA_LOSS);
	part_stop(&old);
}

/* What was raised between its look at the schema and its election is not overlooked, nor written over. */
CASE(a_schema_that_is_raised_during_an_election_counts)
{
	const char *const url = etcd_world->urls[0];
	struct etcd_settings earlier = part_settings(&url, 1, "/race", "earlier");
	struct etcd_settings newer = part_settings(&url, 1, "/race", "newer");
	struct part old;
	int64_t elected, raised, created;
	uint32_t before;

	earlier.schema = 4;
	newer.schema = 5;
	part_start(&old, event, &earlier);
	part_lead(&old);
	part_stop(&old);
	for (int turns = 0; turns < 24; turns++) { /* wherever it is after so many turns */
		etcd_world_put(url, "/race/record-schema", "4");
		part_start(&old, event, &earlier);
		for (int i = 0; i < turns; i++)
			assert_true(sd_event_run(event, 20 * USEC_PER_MSEC) >= 0);
		assert_int_equal(etcd_raise_schema(&newer, &before, NULL), STATUS_OK);
		while (old.n_leading == 0 && old.n_aside == 0)
			run_for(event, 20);
		etcd_world_revisions(url, "/race/record-schema", &created, &raised);
		if (old.n_leading > 0) {
			etcd_world_revisions(url, "/race/leader", &elected, &created);
			assert_true(elected < raised);
		}
		part_stop(&old);
	}
}

/* Of two that might lead at once, the one that came first leaves it to the other. */
CASE(a_leader_that_yields_stays_away_for_the_given_time)
{
	const char *const url = etcd_world->urls[0];
	struct etcd_settings settings = part_settings(&url, 1, "/yield", "s1");
	struct part yielding, other;

	settings.yield_us = 600 * USEC_PER_SEC;
	part_start(&yielding, event, &settings);
	run_for(event, 200);
	settings.name = "s2";
	settings.yield_us = 0;
	part_start(&other, event, &settings);
	part_lead(&other);
	while (yielding.leader[0] == '\0')
		run_for(event, 50);
	assert_string_equal(yielding.leader, "s2");
	assert_int_equal(yielding.n_leading, 0);
	part_stop(&other);
	part_stop(&yielding);
	settings.yield_us = 1; /* over at once */
	part_start(&other, event, &settings);
	part_lead(&other);
	part_stop(&other);
}

/* A takeover by it would have every node refuse the tickets of the cluster. */
CASE(a_server_with_another_ticket_key_follows_and_does_not_lead)
{
	const char *const url = etcd_world->urls[0];
	struct etcd_settings ours = part_settings(&url, 1, "/key", "ours");
	struct etcd_settings other = part_settings(&url, 1, "/key", "other");
	struct part own, stranger;

	ours.ticket_key = "aa11";
	other.ticket_key = "bb22";
	assert_int_equal(etcd_replace_ticket_key(&other, NULL), STATUS_NOT_FOUND);
	part_start(&own, event, &ours);
	part_lead(&own);
	part_start(&stranger, event, &other);
	RUN_UNTIL(event, stranger.has_other_key && stranger.leader[0] != '\0'); /* said while it follows */
	part_stop(&own);
	run_until(event, &stranger.n_aside, 1);
	assert_int_equal(stranger.aside, 0);
	run_for(event, 1000);
	assert_int_equal(stranger.n_aside, 1); /* once */
	assert_int_equal(stranger.n_leading, 0);
	part_start(&own, event, &ours);
	part_lead(&own);
	assert_false(own.has_other_key);
	assert_int_equal(etcd_replace_ticket_key(&other, NULL), STATUS_OK);
	RUN_UNTIL(event, !stranger.has_other_key);
	assert_int_equal(put(&own, "1"), STATUS_OK); /* who leads continues */
	part_stop(&own);
	part_lead(&stranger);
	part_stop(&stranger);
}

/* Between its look at the key and its election the key is replaced: wherever that falls, it does not lead by
 * the old one. */
CASE(a_ticket_key_that_is_replaced_during_an_election_counts)
{
	const char *const url = etcd_world->urls[0];
	struct etcd_settings ours = part_settings(&url, 1, "/keyrace", "ours");
	struct etcd_settings other = part_settings(&url, 1, "/keyrace", "other");
	struct part own;
	int64_t elected, replaced, created;

	ours.ticket_key = "aa11";
	other.ticket_key = "bb22";
	part_start(&own, event, &ours);
	part_lead(&own);
	part_stop(&own);
	for (int turns = 0; turns < 24; turns++) {
		etcd_world_put(url, "/keyrace/ticket-key", "aa11");
		part_start(&own, event, &ours);
		for (int i = 0; i < turns; i++)
			assert_true(sd_event_run(event, 20 * USEC_PER_MSEC) >= 0);
		assert_int_equal(etcd_replace_ticket_key(&other, NULL), STATUS_OK);
		while (own.n_leading == 0 && own.n_aside == 0)
			run_for(event, 20);
		etcd_world_revisions(url, "/keyrace/ticket-key", &created, &replaced);
		if (own.n_leading > 0) {
			etcd_world_revisions(url, "/keyrace/leader", &elected, &created);
			assert_true(elected < replaced);
		}
		part_stop(&own);
	}
}

/* Each refused grant is an entry in the log of a full etcd. */
CASE(a_full_etcd_is_asked_for_a_lease_less_and_less_often)
{
	cleanup(part_stop) struct part part;

	etcd_world_alarm(etcd_world->urls[0], true);
	start(&part, event, "s1");
	run_until(event, &part.n_trouble, 1);
	assert_int_equal(part.trouble.status, STATUS_RESOURCE_EXHAUSTED);
	run_for(event, 4000);
	assert_int_equal(part.n_trouble, 1); /* the same is said once */
	assert_int_equal(part.n_leading, 0);
	etcd_world_alarm(etcd_world->urls[0], false);
	part_lead(&part);
}
