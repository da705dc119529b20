/* SPDX-License-Identifier: Apache-2.0 */
/* What a node, or a thief of its certificate, invents about work that only it knows. It is asked to report at
 * any time, if its hello names an unknown allocation. */

#include "asks.h"
#include "callers.h"
#include "forgotten.h"
#include "restored.h"
#include "submission.h"
#include "unit.h"

#include "access/audit.h"
#include "base/clock.h"
#include "base/rate_counted.h"
#include "base/uuid.h"
#include "job/job_work.h"
#include "model/pb.h"
#include "model/task.h"
#include "node/session.h"
#include "plugin/args.h"
#include "recovery/new_epoch.h"
#include "state/keys.h"
#include "state/namespaces.h"
#include "state/storage_index.h"
#include "ticket/ticket.h"

static void invent(struct fixture *f, struct fake_node *node, struct alloc *alloc)
{
	provoke_report(f, node);
	(void)str_copy(alloc->id, sizeof(alloc->id), INVENTED);
	(void)str_copy(alloc->node_id, sizeof(alloc->node_id), node->id);
	report(f, node, node->report_epoch, alloc, NULL, false);
	UNTIL(f, state_alloc(&f->server->state, INVENTED) != NULL);
	settle(f);
}

/* The member of job web, as @ret_node got it. */
static struct alloc member_of(struct fixture *f, struct submission *s, struct fake_node **ret_node,
			      struct fake_node **ret_other)
{
	struct alloc alloc;

	assert_int_equal(run(f, s, NULL), 1);
	UNTIL(f, f->n1.runs + f->n2.runs == 1);
	*ret_node = f->n1.runs == 1 ? &f->n1 : &f->n2;
	*ret_other = f->n1.runs == 1 ? &f->n2 : &f->n1;
	settle(f);
	alloc = alloc_of(f, (*ret_node)->last_run);
	alloc.events = alloc.task_status = NULL;
	return alloc;
}

CLUSTER_TEST(a_node_takes_the_place_of_no_other_nodes_member)
{
	struct submission s;
	struct fake_node *node, *thief;
	struct alloc alloc;
	char id[UUID_TEXT_SIZE];

	connect_both(f);
	make_job(f, &s);
	alloc = member_of(f, &s, &node, &thief);
	start_last(f, node);
	(void)str_copy(id, sizeof(id), node->last_run);
	alloc.job_version = INT64_MAX;
	alloc.client_status = CLIENT_RUNNING;
	invent(f, thief, &alloc);
	assert_int_equal(node->stops, 0);
	assert_int_equal(state_alloc(&f->server->state, id)->alloc.desired_status, DESIRED_RUN);
	assert_string_equal(state_alloc(&f->server->state, INVENTED)->alloc.job_id, "");
	end(f, node, id);
	UNTIL(f, f->n1.runs + f->n2.runs == 2); /* it is placed again */
}

/* The first report of an epoch keeps the place of work that only its node knows. The node never ends it. */
CLUSTER_TEST(a_member_that_a_node_invents_after_a_restore_does_not_hold_up_its_job)
{
	struct submission s;
	struct fake_node *node, *thief;
	struct backup backup = {0};
	struct alloc mine, invented;
	struct claim held;

	connect_both(f);
	make_job(f, &s);
	(void)member_of(f, &s, &node, &thief);
	start_last(f, node);
	held = claim_of(f, node->last_run);
	take_backup(f, &backup);
	restore(f, &backup, 1);
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	mine = alloc_of(f, held.allocation_id);
	mine.events = mine.task_status = NULL;
	report(f, node, 1, &mine, &held, false);
	invented = mine;
	(void)str_copy(invented.id, sizeof(invented.id), INVENTED);
	(void)str_copy(invented.node_id, sizeof(invented.node_id), thief->id);
	report(f, thief, 1, &invented, NULL, true);
	UNTIL(f, state_alloc(&f->server->state, INVENTED));
	settle(f);
	assert_int_equal(thief->stops, 0); /* its claims may follow */
	report(f, thief, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, thief->id) && thief->stops == 1);
	assert_string_equal(state_alloc(&f->server->state, INVENTED)->alloc.job_id, mine.job_id);
	assert_int_equal(node->stops, 0);
	f->n1.runs = f->n2.runs = 0;
	fake_node_disconnect(thief);
	UNTIL(f, !state_node(&f->server->state, thief->id)->session);
	end(f, node, mine.id);
	UNTIL(f, node->runs == 1);
	start_last(f, node);
	node->stops = 0;
	s.alloc.mount_timeout_ms = 5000; /* the invented one asks for its volume, too */
	assert_int_equal(run(f, &s, NULL), 2);
	UNTIL(f, node->stops == 1);
	assert_int_equal(stop_job(f, false, NULL), STATUS_OK);
	end(f, node, node->last_run);
	UNTIL(f, is_in(f, "stopped", 0));
	assert_int_equal(stop_job(f, true, NULL), STATUS_OK);
	assert_int_equal(state_alloc(&f->server->state, INVENTED)->alloc.client_status, CLIENT_RUNNING);
}

CLUSTER_TEST(a_job_waits_for_the_end_of_its_own_member_that_has_no_claim)
{
	struct submission s;

	connect_both(f);
	make_job(f, &s);
	assert_int_equal(run(f, &s, NULL), 1);
	UNTIL(f, f->n1.runs + f->n2.runs == 1);
	assert_int_equal(stop_job(f, false, NULL), STATUS_OK);
	UNTIL(f, f->n1.stops + f->n2.stops == 1);
	settle(f);
	assert_false(is_in(f, "stopped", 0));
}

struct other {
	struct claim claim;
	struct ticket ticket;
};

/* Connects n1, which has meta.rack. */
static void connect_n1(struct fixture *f)
{
	static Holdfast__Driver__V1__KeyValue rack, *attributes[] = {&rack};

	rack = (Holdfast__Driver__V1__KeyValue)PB(holdfast__driver__v1__key_value, .key = text("meta.rack"),
						  .value = text("a"));
	f->n1.attributes = attributes;
	f->n1.n_attributes = 1;
	connect_node(&f->n1, "n1");
}

/* The backup has job web without members, and knows both nodes. @ret_alloc: the member that n1 got since; the
 * caller's. @ret_held: its claim; NULL: it has no volume. @ret_other: the claim that n2 got for ALLOC_2 on
 * volume other; NULL: it has no claim. */
static void forget_member(struct fixture *f, const struct submission *s, struct backup *backup,
			  struct alloc *ret_alloc, struct claim *ret_held, struct other *ret_other)
{
	cleanup_pb Holdfast__V1__ClaimVolumeResponse *granted = NULL;
	struct error err;

	fake_node_disconnect(&f->n1);
	fake_node_disconnect(&f->n2);
	UNTIL(f,
	      !state_node(&f->server->state, "n1")->session && !state_node(&f->server->state, "n2")->session);
	assert_int_equal(run(f, s, NULL), 1);
	take_backup(f, backup);
	connect_n1(f);
	UNTIL(f, f->n1.runs == 1);
	if (ret_held)
		start_last(f, &f->n1);
	*ret_alloc = alloc_of(f, f->n1.last_run);
	ret_alloc->events = ret_alloc->task_status = NULL;
	ret_alloc->client_status = CLIENT_RUNNING;
	assert_true(alloc_own(ret_alloc));
	if (ret_held)
		*ret_held = claim_of(f, ret_alloc->id);
	if (ret_other) {
		connect_node(&f->n2, "n2");
		f->source = "other";
		assert_int_equal(run_alloc(f, ALLOC_2, "n2", NULL), STATUS_OK);
		assert_succeeds(fake_node_claim(&f->n2, "other", ALLOC_2, &granted, &err), err);
		assert_succeeds(claim_from_pb(granted->claim, &ret_other->claim, &err), err);
		ret_other->claim.state = CLAIM_TAKEN;
		memcpy(&ret_other->ticket, granted->ticket.data, sizeof(ret_other->ticket));
	}
	restore(f, backup, 1);
}

/* Another node invents one first, by its claim for other work, and the report comes in two parts. */
CLUSTER_TEST(a_forgotten_member_whose_volume_is_proven_is_the_jobs_and_is_waited_for)
{
	cleanup(alloc_release) struct alloc alloc;
	Holdfast__V1__VolumeRequest second;
	struct backup backup = {0};
	struct submission s;
	struct alloc invented;
	struct other other;
	struct claim held;

	connect_both(f);
	assert_int_equal(register_disk(f, &f->operator, "other", "wwn-0x2", NULL), STATUS_OK);
	make_job(f, &s);
	second = s.volume; /* the generations of two volumes do not compare */
	second.name = text("more");
	second.source = text("other");
	s.alloc.volumes = (Holdfast__V1__VolumeRequest *[]){&s.volume, &second};
	s.alloc.n_volumes = 2;
	forget_member(f, &s, &backup, &alloc, &held, &other);
	connect_node(&f->n2, "n2");
	alloc.member_generation = 7; /* the server's to set */
	invented = alloc;
	(void)str_copy(invented.id, sizeof(invented.id), ALLOC_2);
	(void)str_copy(invented.node_id, sizeof(invented.node_id), "n2");
	invented.job_version = INT64_MAX;
	report_with(&f->n2, 1, &invented, &other.claim, &other.ticket, false);
	UNTIL(f, has_reported(f, "n2") && state_of(f, ALLOC_2) == CLAIM_TAKEN);
	connect_node(&f->n1, "n1");
	report(f, &f->n1, 1, &alloc, NULL, true);
	UNTIL(f, state_alloc(&f->server->state, alloc.id));
	settle(f);
	report(f, &f->n1, 1, NULL, &held, false);
	UNTIL(f, f->n2.stops == 1);
	settle(f);
	assert_int_equal(f->n1.stops, 0);
	end(f, &f->n2, ALLOC_2);
	s.alloc.mount_timeout_ms = 5000;
	assert_int_equal(run(f, &s, NULL), 2);
	settle(f);
	UNTIL(f, f->n1.stops == 1);
	assert_false(state_alloc(&f->server->state, alloc.id)->alloc.keeps_place);
	assert_int_equal(stop_job(f, false, NULL), STATUS_OK);
	settle(f);
	assert_false(is_in(f, "stopped", 0));
	fake_node_disconnect(&f->n1);
	UNTIL(f, !state_node(&f->server->state, "n1")->session);
	assert_false(is_in(f, "stopped", 0));
	assert_int_equal(stop_job(f, true, NULL), STATUS_FAILED_PRECONDITION);
	connect_node(&f->n1, "n1");
	end(f, &f->n1, alloc.id);
	UNTIL(f, is_in(f, "stopped", 0));
}

/* n1 reports the member that it got since the backup, n2 nothing. */
static void report_member(struct fixture *f, const struct alloc *alloc, const struct claim *held)
{
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	connect_node(&f->n1, "n1");
	report(f, &f->n1, 1, alloc, held, false);
	UNTIL(f, has_reported(f, "n1") && has_reported(f, "n2"));
	settle(f);
	f->n1.runs = f->n2.runs = 0;
}

CLUSTER_TEST(a_forgotten_member_that_runs_is_healthy_and_ends_the_update)
{
	cleanup(alloc_release) struct alloc alloc;
	struct backup backup = {0};
	struct submission s;
	struct claim held;

	connect_both(f);
	make_job(f, &s);
	forget_member(f, &s, &backup, &alloc, &held, NULL);
	report_member(f, &alloc, &held);
	fake_node_send_alloc(&f->n1, alloc.id, HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	UNTIL(f, is_in(f, "running", 0));
	{
		cleanup_pb Holdfast__V1__GetJobResponse *response = get(f);

		assert_int_equal(response->job->update_status,
				 HOLDFAST__V1__JOB_UPDATE_STATUS__JOB_UPDATE_STATUS_DONE);
	}
}

static uint64_t member_generation(struct fixture *f, const char *id)
{
	return state_alloc(&f->server->state, id)->alloc.member_generation;
}

enum proof_lie {
	ANOTHER_KEY,
	FOREIGN_NAMESPACE,
	OTHER_VOLUME,
	OTHER_GROUP,
	LATE_CLAIM,
	SHARED_VOLUME,
	READER,
	READING_JOB,
	REPLACED_VOLUME
};

/* A ticket for the claim of a volume that is this disk. */
static struct ticket ticket_on(struct fixture *f, const struct claim *claim, const char *disk)
{
	struct volume volume = state_volume(&f->server->state, "default", claim->volume_id)->volume;
	struct ticket ticket;

	(void)str_copy(volume.source.by_id, sizeof(volume.source.by_id), disk);
	volume.generation = claim->generation;
	assert_int_equal(ticket_issue(f->server->issuer, claim, &volume, 1, &ticket, NULL), STATUS_OK);
	return ticket;
}

static void check_no_proof(struct fixture *f, enum proof_lie lie)
{
	cleanup(alloc_release) struct alloc alloc;
	struct backup backup = {0};
	struct submission s;
	struct ticket ticket;
	struct claim held;

	if (lie == SHARED_VOLUME)
		f->access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_MULTI_WRITER;
	connect_both(f);
	make_job(f, &s);
	s.volume.read_only = lie == READING_JOB;
	forget_member(f, &s, &backup, &alloc, &held, NULL);
	if (lie == READER || lie == READING_JOB)
		held.mode = lie == READER ? CLAIM_READ : CLAIM_WRITE;
	if (lie == FOREIGN_NAMESPACE)
		(void)str_copy(held.namespace, sizeof(held.namespace), "foreign");
	if (lie == OTHER_VOLUME)
		(void)str_copy(held.volume_id, sizeof(held.volume_id), "another");
	if (lie == OTHER_GROUP)
		(void)str_copy(alloc.job_group, sizeof(alloc.job_group), "gone");
	held.generation += lie == REPLACED_VOLUME;
	ticket = lie == REPLACED_VOLUME ? ticket_on(f, &held, "wwn-0x9") : ticket_of(f, &held);
	if (lie == ANOTHER_KEY)
		restart_with(f, make_another_key);
	connect_node(&f->n1, "n1");
	f->n1.stops = 0;
	report_with(&f->n1, 1, &alloc, lie == LATE_CLAIM ? NULL : &held, &ticket, false);
	UNTIL(f, has_reported(f, "n1") && f->n1.stops == 1);
	if (lie == LATE_CLAIM) {
		provoke_report(f, &f->n1);
		report_with(&f->n1, f->n1.report_epoch, NULL, &held, &ticket, false);
		UNTIL(f, has_reported(f, "n1"));
	}
	assert_non_null(state_claim(&f->server->state, held.id));
	assert_int_equal(member_generation(f, alloc.id), 0);
	assert_int_equal(count_records(f, "Jobs.StopAllocation", "nothing proves"), 1);
	fake_node_send_alloc(&f->n1, alloc.id, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, alloc_is_client_terminal(&state_alloc(&f->server->state, alloc.id)->alloc));
	settle(f);
	assert_false(job_needs_alloc(f->server, state_alloc(&f->server->state, alloc.id)));
}

CLUSTER_TEST(a_claim_with_a_ticket_of_another_key_makes_no_member)
{
	check_no_proof(f, ANOTHER_KEY);
}

CLUSTER_TEST(a_claim_in_another_namespace_makes_no_member)
{
	check_no_proof(f, FOREIGN_NAMESPACE);
}

CLUSTER_TEST(a_claim_on_a_volume_of_other_work_makes_no_member)
{
	check_no_proof(f, OTHER_VOLUME);
}

CLUSTER_TEST(a_claim_for_a_group_that_its_job_lacks_makes_no_member)
{
	check_no_proof(f, OTHER_GROUP);
}

CLUSTER_TEST(a_claim_that_was_freed_makes_no_member)
{
	check_no_proof(f, LATE_CLAIM);
}

/* The ticket of other work on such a volume may be as young as that of the member. */
CLUSTER_TEST(a_claim_on_a_volume_that_nodes_share_makes_no_member)
{
	check_no_proof(f, SHARED_VOLUME);
}

CLUSTER_TEST(a_claim_to_read_makes_no_member)
{
	check_no_proof(f, READER);
}

CLUSTER_TEST(a_claim_to_write_makes_no_member_of_a_job_that_reads)
{
	check_no_proof(f, READING_JOB);
}

CLUSTER_TEST(a_claim_on_storage_that_its_volume_got_since_makes_no_member)
{
	check_no_proof(f, REPLACED_VOLUME);
	assert_true(volume_is_placeholder(&state_volume(&f->server->state, "default", "db")->volume));
}

/* The backup has both members of job web, on n1. n2 has other work on their volume. */
CLUSTER_TEST(work_on_a_shared_volume_that_a_node_calls_a_member_holds_up_no_job)
{
	struct claim held[2], other = {0};
	struct alloc honest[2], lie;
	struct backup backup = {0};
	const struct alloc_entry *at;
	struct submission s;
	struct ticket ticket;
	int n = 0;

	f->access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_MULTI_WRITER;
	connect_both(f);
	make_job(f, &s);
	s.group.count = 2;
	s.job.type = HOLDFAST__V1__JOB_TYPE__JOB_TYPE_BATCH;
	s.group.update = NULL;
	fake_node_disconnect(&f->n2);
	UNTIL(f, !state_node(&f->server->state, "n2")->session);
	assert_int_equal(run(f, &s, NULL), 1);
	UNTIL(f, f->n1.runs == 2);
	settle(f);
	LIST_FOREACH (at, &state_job(&f->server->state, "default", "web")->allocs, of_job) {
		(void)str_copy(f->n1.last_run, sizeof(f->n1.last_run), at->id);
		start_last(f, &f->n1);
		honest[n] = alloc_of(f, at->id);
		honest[n].events = honest[n].task_status = NULL;
		held[n++] = claim_of(f, at->id);
	}
	for (int i = 0; i < 2; i++)
		assert_true(alloc_own(&honest[i]));
	take_backup(f, &backup);
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", NULL), STATUS_OK);
	assert_int_equal(claim_for(&f->n2, ALLOC_2, &other, NULL), STATUS_OK);
	other = claim_of(f, ALLOC_2);
	other.state = CLAIM_TAKEN;
	ticket = ticket_of(f, &other);
	restore(f, &backup, 1);
	lie = honest[0];
	(void)str_copy(lie.id, sizeof(lie.id), ALLOC_2);
	(void)str_copy(lie.node_id, sizeof(lie.node_id), "n2");
	lie.job_version = INT64_MAX;
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	report(f, &f->n1, 1, &honest[0], &held[0], true);
	report(f, &f->n1, 1, &honest[1], &held[1], false);
	report_with(&f->n2, 1, &lie, &other, &ticket, false);
	UNTIL(f, has_reported(f, "n1") && has_reported(f, "n2") && f->n2.stops == 1);
	assert_int_equal(alloc_of(f, ALLOC_2).job_version, 1);
	assert_int_equal(f->n1.stops, 0);
	f->n1.runs = f->n2.runs = 0;
	fake_node_send_alloc(&f->n1, honest[0].id, HOLDFAST__V1__CLIENT_STATUS__FAILED);
	UNTIL(f, f->n1.runs + f->n2.runs == 1);
	fake_node_send_alloc(&f->n2, ALLOC_2, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	end(f, &f->n1, honest[1].id);
	settle(f);
	assert_false(is_in(f, "complete", 0));
	alloc_release(&honest[0]);
	alloc_release(&honest[1]);
}

CLUSTER_TEST(a_member_is_proven_on_the_volume_of_its_index)
{
	cleanup(alloc_release) struct alloc alloc;
	struct backup backup = {0};
	struct submission s;
	struct other other;

	connect_both(f);
	assert_int_equal(register_disk(f, &f->operator, "db[0]", "wwn-0x3", NULL), STATUS_OK);
	assert_int_equal(register_disk(f, &f->operator, "other", "wwn-0x2", NULL), STATUS_OK);
	make_job(f, &s);
	s.group.per_alloc = s.per_alloc;
	s.group.n_per_alloc = 1;
	forget_member(f, &s, &backup, &alloc, NULL, &other);
	connect_node(&f->n1, "n1");
	for (int i = 0; i < 3; i++) {
		struct claim claim = other.claim;
		struct ticket ticket;

		(void)str_copy(claim.node_id, sizeof(claim.node_id), "n1");
		(void)str_copy(claim.allocation_id, sizeof(claim.allocation_id), alloc.id);
		(void)str_copy(claim.volume_id, sizeof(claim.volume_id), i == 0 ? "db" : "db[0]");
		(void)uuid_new(claim.id);
		claim.external_id[0] = '\0';
		claim.mode = i < 2 ? CLAIM_WRITE : CLAIM_READ; /* the last one is another of its volume */
		claim.generation += (uint64_t)i;
		ticket = ticket_on(f, &claim, i == 0 ? "wwn-0x1" : "wwn-0x3");
		report_with(&f->n1, 1, i == 0 ? &alloc : NULL, &claim, &ticket, true);
		UNTIL(f, state_claim(&f->server->state, claim.id));
		assert_int_equal(member_generation(f, alloc.id), i == 0 ? 0 : other.claim.generation + 1);
	}
}

CLUSTER_TEST(a_member_stays_one_when_the_server_starts_again_within_the_report)
{
	cleanup(alloc_release) struct alloc alloc;
	struct backup backup = {0};
	struct submission s;
	struct claim held;

	connect_both(f);
	make_job(f, &s);
	forget_member(f, &s, &backup, &alloc, &held, NULL);
	connect_node(&f->n1, "n1");
	report(f, &f->n1, 1, &alloc, NULL, true);
	UNTIL(f, state_alloc(&f->server->state, alloc.id));
	settle(f);
	restart(f);
	assert_int_equal(member_generation(f, alloc.id), 0);
	f->n1.stops = 0;
	report_member(f, &alloc, &held);
	assert_int_equal(member_generation(f, alloc.id), held.generation);
	restart(f);
	connect_node(&f->n1, "n1");
	settle(f);
	assert_int_equal(member_generation(f, alloc.id), held.generation);
	assert_int_equal(f->n1.stops, 0);
}

/* The backup lacks the job. Its work goes on until the job is there again. */
CLUSTER_TEST(work_of_a_forgotten_job_is_stopped_when_the_job_is_submitted)
{
	cleanup(alloc_release) struct alloc alloc = {0};
	struct backup backup = {0};
	struct fake_node *other, *node;
	struct submission s;
	struct claim held;

	connect_both(f);
	take_backup(f, &backup);
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	make_job(f, &s);
	alloc = member_of(f, &s, &node, &other);
	assert_true(alloc_own(&alloc));
	start_last(f, node);
	alloc.client_status = CLIENT_RUNNING;
	held = claim_of(f, alloc.id);
	restore(f, &backup, 1);
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	report(f, other, 1, NULL, NULL, false);
	report(f, node, 1, &alloc, &held, false);
	UNTIL(f, has_reported(f, "n1") && has_reported(f, "n2"));
	settle(f);
	assert_int_equal(node->stops, 0);
	f->n1.runs = f->n2.runs = 0;
	assert_int_equal(run(f, &s, NULL), 1);
	UNTIL(f, node->stops == 1);
	settle(f);
	assert_int_equal(f->n1.runs + f->n2.runs, 0);
	end(f, node, alloc.id);
	UNTIL(f, f->n1.runs + f->n2.runs == 1);
}

static void assert_not_purged(struct fixture *f, const char *why)
{
	struct error err;

	assert_error(stop_job(f, true, &err), STATUS_FAILED_PRECONDITION, err, why);
}

/* Without the job, no order would end what its nodes run. */
CLUSTER_TEST(a_job_is_purged_when_all_nodes_have_reported_and_its_work_is_ordered_to_stop)
{
	cleanup(alloc_release) struct alloc alloc;
	struct backup backup = {0};
	struct submission s;
	struct claim held;

	connect_both(f);
	make_job(f, &s);
	forget_member(f, &s, &backup, &alloc, &held, NULL);
	assert_int_equal(stop_job(f, false, NULL), STATUS_OK);
	UNTIL(f, is_in(f, "stopped", 0));
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n2"));
	assert_not_purged(f, "node n1 has not reported what it holds");
	assert_not_purged(f, "holdfast node purge n1 --reason TEXT");
	connect_n1(f);
	report(f, &f->n1, 1, &alloc, NULL, false); /* nothing proves that it is a member */
	UNTIL(f, f->n1.stops == 1);
	assert_string_equal(f->n1.last_stop, alloc.id);
	assert_int_equal(stop_job(f, true, NULL), STATUS_OK); /* a node may never end it */
}

CLUSTER_TEST(a_job_is_purged_when_its_node_that_did_not_report_is_purged)
{
	cleanup(alloc_release) struct alloc alloc;
	struct backup backup = {0};
	struct submission s;
	struct claim held;

	connect_both(f);
	make_job(f, &s);
	s.job.type = HOLDFAST__V1__JOB_TYPE__JOB_TYPE_BATCH;
	forget_member(f, &s, &backup, &alloc, &held, NULL);
	assert_int_equal(stop_job(f, false, NULL), STATUS_OK);
	UNTIL(f, is_in(f, "stopped", 0));
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n2"));
	assert_not_purged(f, "node n1");
	assert_ok(purge(f, "n1", NULL));
	assert_int_equal(stop_job(f, true, NULL), STATUS_OK);
}

CLUSTER_TEST(a_job_is_purged_when_no_node_is_missing)
{
	struct backup backup = {0};
	struct submission s;

	make_job(f, &s);
	assert_int_equal(run(f, &s, NULL), 1);
	assert_int_equal(stop_job(f, false, NULL), STATUS_OK);
	take_backup(f, &backup);
	restore_missing(f, &backup, 1, 1);
	assert_not_purged(f, "holdfast node purge --unknown --reason TEXT");
	assert_ok(purge_unknown(f, NULL));
	assert_int_equal(stop_job(f, true, NULL), STATUS_OK);
}

CLUSTER_TEST(an_invented_member_keeps_no_place_also_while_its_node_is_away)
{
	Holdfast__V1__Constraint constraint = HOLDFAST__V1__CONSTRAINT__INIT, *list[] = {&constraint};
	cleanup(alloc_release) struct alloc alloc;
	struct backup backup = {0};
	struct submission s;
	struct alloc invented;
	struct other other;
	struct claim held;
	char id[UUID_TEXT_SIZE];

	connect_both(f);
	assert_int_equal(register_disk(f, &f->operator, "other", "wwn-0x2", NULL), STATUS_OK);
	make_job(f, &s);
	constraint.attribute = text("node.unique.name");
	constraint.value = text("n1");
	s.alloc.constraints = list;
	s.alloc.n_constraints = 1;
	forget_member(f, &s, &backup, &alloc, &held, &other);
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	f->n1.runs = f->n2.stops = 0;
	invented = alloc;
	(void)str_copy(invented.id, sizeof(invented.id), ALLOC_2);
	(void)str_copy(invented.node_id, sizeof(invented.node_id), "n2");
	report_with(&f->n2, 1, &invented, &other.claim, &other.ticket, false);
	UNTIL(f, has_reported(f, "n2") && f->n2.stops == 1);
	report(f, &f->n1, 1, NULL, NULL, false);
	UNTIL(f, f->n1.runs == 1);
	start_last(f, &f->n1);
	fake_node_disconnect(&f->n2);
	UNTIL(f, !state_node(&f->server->state, "n2")->session);
	(void)str_copy(id, sizeof(id), f->n1.last_run);
	end(f, &f->n1, id);
	UNTIL(f, !str_eq(f->n1.last_run, id));
	start_last(f, &f->n1);
	assert_int_equal(stop_job(f, false, NULL), STATUS_OK);
	end(f, &f->n1, f->n1.last_run);
	UNTIL(f, is_in(f, "stopped", 0));
	assert_int_equal(stop_job(f, true, NULL), STATUS_OK);
	assert_int_equal(state_of(f, ALLOC_2), CLAIM_TAKEN);
}

CLUSTER_TEST(an_update_to_another_volume_waits_for_the_end_of_a_forgotten_member)
{
	cleanup(alloc_release) struct alloc alloc;
	struct backup backup = {0};
	struct submission s;
	struct claim held;

	connect_both(f);
	assert_int_equal(register_disk(f, &f->operator, "other", "wwn-0x2", NULL), STATUS_OK);
	make_job(f, &s);
	forget_member(f, &s, &backup, &alloc, &held, NULL);
	report_member(f, &alloc, &held);
	s.volume.source = text("other");
	assert_int_equal(run(f, &s, NULL), 2);
	UNTIL(f, f->n1.stops == 1);
	settle(f);
	assert_int_equal(f->n1.runs + f->n2.runs, 0);
	end(f, &f->n1, alloc.id);
	UNTIL(f, f->n1.runs + f->n2.runs == 1);
}

static void end_forgotten(struct fixture *f, Holdfast__V1__JobType type)
{
	cleanup(alloc_release) struct alloc alloc;
	struct backup backup = {0};
	struct submission s;
	struct claim held;

	connect_both(f);
	make_job(f, &s);
	s.job.type = type;
	s.reschedule.unlimited = false; /* and so no attempt */
	if (type == HOLDFAST__V1__JOB_TYPE__JOB_TYPE_BATCH)
		s.group.update = NULL;
	forget_member(f, &s, &backup, &alloc, &held, NULL);
	report_member(f, &alloc, &held);
	end(f, &f->n1, alloc.id);
	settle(f);
	assert_int_equal(f->n1.runs + f->n2.runs, 0);
	assert_true(job_needs_alloc(f->server, state_alloc(&f->server->state, alloc.id)));
}

CLUSTER_TEST(a_forgotten_member_of_a_batch_job_that_ends_with_success_is_done)
{
	end_forgotten(f, HOLDFAST__V1__JOB_TYPE__JOB_TYPE_BATCH);
	assert_true(is_in(f, "complete", 0));
}

CLUSTER_TEST(the_end_of_a_forgotten_member_of_a_service_uses_its_attempts)
{
	end_forgotten(f, HOLDFAST__V1__JOB_TYPE__JOB_TYPE_SERVICE);
	assert_true(is_in(f, "pending", 1));
}

static void make_system_job(struct fixture *f, struct submission *s)
{
	make_job(f, s);
	s->job.type = HOLDFAST__V1__JOB_TYPE__JOB_TYPE_SYSTEM;
	s->alloc.n_volumes = 0;
	s->plugin.id = text("nfs");
	s->plugin.type = HOLDFAST__V1__CSI_PLUGIN_TYPE__CSI_PLUGIN_TYPE_NODE;
	s->alloc.csi_plugins = s->plugins;
	s->alloc.n_csi_plugins = 1;
}

/* Its place is that of its node, which can hold up no other one. */
CLUSTER_TEST(a_system_job_waits_for_the_end_of_a_forgotten_member)
{
	Holdfast__V1__Constraint constraint = HOLDFAST__V1__CONSTRAINT__INIT, *list[] = {&constraint};
	cleanup(alloc_release) struct alloc alloc;
	struct backup backup = {0};
	const struct alloc_entry *at;
	struct submission s;

	connect_both(f);
	make_system_job(f, &s);
	constraint.attribute = text("meta.rack");
	constraint.value = text("a");
	s.alloc.constraints = list;
	s.alloc.n_constraints = 1;
	forget_member(f, &s, &backup, &alloc, NULL, NULL);
	connect_n1(f);
	report(f, &f->n1, 1, &alloc, NULL, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_true(state_alloc(&f->server->state, alloc.id)->alloc.adopted);
	restart(f);
	settle(f); /* the attributes of its node are not known */
	connect_n1(f);
	settle(f);
	assert_int_equal(count_records(f, "Jobs.StopAllocation", "nothing proves"), 0);
	assert_int_equal(stop_job(f, false, NULL), STATUS_OK);
	UNTIL(f, f->n1.stops >= 1); /* one of its own may be placed before the report */
	settle(f);
	assert_false(is_in(f, "stopped", 0));
	assert_int_equal(stop_job(f, true, NULL), STATUS_FAILED_PRECONDITION);
	LIST_FOREACH (at, &state_node(&f->server->state, "n1")->allocs, of_node)
		fake_node_send_alloc(&f->n1, at->id, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, is_in(f, "stopped", 0));
}

/* While n1 is away, the server does not know whether n1 has a member of the job, and orders nothing. */
CLUSTER_TEST(a_system_job_is_not_purged_before_its_forgotten_work_is_ordered_to_stop)
{
	Holdfast__V1__Constraint constraint = HOLDFAST__V1__CONSTRAINT__INIT, *list[] = {&constraint};
	cleanup(alloc_release) struct alloc alloc;
	struct backup backup = {0};
	struct submission s;

	connect_both(f);
	make_system_job(f, &s);
	constraint.attribute = text("meta.rack");
	constraint.value = text("a");
	s.alloc.constraints = list;
	s.alloc.n_constraints = 1;
	forget_member(f, &s, &backup, &alloc, NULL, NULL);
	assert_ok(set_eligible(f, "n1", false, NULL)); /* the job places no second one there */
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, NULL, NULL, false);
	connect_n1(f);
	report(f, &f->n1, 1, &alloc, NULL, false);
	UNTIL(f, has_reported(f, "n1") && has_reported(f, "n2"));
	settle(f);
	restart(f);
	assert_int_equal(stop_job(f, false, NULL), STATUS_OK);
	UNTIL(f, is_in(f, "stopped", 0));
	assert_not_purged(f, alloc.id);
	connect_n1(f);
	UNTIL(f, f->n1.stops == 1);
	assert_not_purged(f, alloc.id);
	fake_node_send_alloc(&f->n1, alloc.id, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, is_in(f, "stopped", 0));
	assert_int_equal(stop_job(f, true, NULL), STATUS_OK);
}

/* n1 is excluded, and goes away after its report. */
CLUSTER_TEST(an_invented_member_on_an_excluded_node_holds_up_no_system_job)
{
	Holdfast__V1__Constraint constraint = HOLDFAST__V1__CONSTRAINT__INIT, *list[] = {&constraint};
	cleanup(alloc_release) struct alloc mine = {0};
	struct backup backup = {0};
	struct submission s;
	struct alloc invented;
	char id[UUID_TEXT_SIZE];

	connect_both(f);
	make_system_job(f, &s);
	constraint.attribute = text("node.unique.name");
	constraint.value = text("n2");
	s.alloc.constraints = list;
	s.alloc.n_constraints = 1;
	assert_int_equal(run(f, &s, NULL), 1);
	UNTIL(f, f->n2.runs == 1);
	fake_node_send_alloc(&f->n2, f->n2.last_run, HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	UNTIL(f, is_in(f, "running", 0));
	(void)str_copy(id, sizeof(id), f->n2.last_run);
	take_backup(f, &backup);
	restore(f, &backup, 1);
	connect_node(&f->n2, "n2");
	connect_node(&f->n1, "n1");
	mine = alloc_of(f, id);
	mine.task_status = NULL;
	assert_true(alloc_own(&mine));
	report(f, &f->n2, 1, &mine, NULL, false);
	for (int i = 0; i < 2; i++) {
		invented = mine;
		(void)str_copy(invented.id, sizeof(invented.id), i == 0 ? INVENTED : UNKNOWN);
		(void)str_copy(invented.node_id, sizeof(invented.node_id), "n1");
		if (i == 1)
			(void)str_copy(invented.job_group, sizeof(invented.job_group), "gone");
		report(f, &f->n1, 1, &invented, NULL, i == 0);
	}
	UNTIL(f, has_reported(f, "n2") && has_reported(f, "n1") && f->n1.stops == 2);
	fake_node_disconnect(&f->n1);
	UNTIL(f, !state_node(&f->server->state, "n1")->session);
	f->n2.runs = f->n2.stops = 0;
	s.plugin.id = text("nfs2");
	assert_int_equal(run(f, &s, NULL), 2);
	UNTIL(f, f->n2.stops == 1);
	fake_node_send_alloc(&f->n2, mine.id, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, f->n2.runs == 1);
	assert_int_equal(stop_job(f, false, NULL), STATUS_OK);
	UNTIL(f, f->n2.stops == 2);
	fake_node_send_alloc(&f->n2, f->n2.last_run, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, is_in(f, "stopped", 0));
	assert_int_equal(stop_job(f, true, NULL), STATUS_OK);
}

CLUSTER_TEST(a_member_that_a_node_invents_after_a_restore_uses_up_no_versions_of_its_job)
{
	struct volume_request request = {.name = "data",
					 .source = "db",
					 .access_mode = SINGLE_NODE_WRITER,
					 .attachment_mode = ATTACHMENT_FILE_SYSTEM};
	struct alloc invented =
		ROW(.volumes = &request, .n_volumes = 1, .namespace = "default", .name = "web",
		    .driver = "none", .job_id = "web", .job_group = "one", .job_version = UINT64_MAX,
		    .desired_status = DESIRED_RUN, .client_status = CLIENT_RUNNING);
	struct backup backup = {0};
	struct submission s;

	connect_both(f);
	take_backup(f, &backup);
	restore(f, &backup, 1);
	connect_node(&f->n1, "n1");
	connect_node(&f->n2, "n2");
	(void)str_copy(invented.id, sizeof(invented.id), INVENTED);
	(void)str_copy(invented.node_id, sizeof(invented.node_id), "n1");
	report(f, &f->n1, 1, &invented, NULL, false);
	UNTIL(f, state_alloc(&f->server->state, INVENTED));
	assert_string_equal(state_alloc(&f->server->state, INVENTED)->alloc.job_id, "web");
	assert_int_equal(state_alloc(&f->server->state, INVENTED)->alloc.job_version, 1);
	make_job(f, &s);
	assert_int_equal(run(f, &s, NULL), 1);
}

CLUSTER_TEST(work_that_a_node_invents_ends_no_batch_job)
{
	struct submission s;
	struct fake_node *node, *thief;
	struct alloc alloc;

	connect_both(f);
	make_job(f, &s);
	s.job.type = HOLDFAST__V1__JOB_TYPE__JOB_TYPE_BATCH;
	s.group.update = NULL;
	alloc = member_of(f, &s, &node, &thief);
	alloc.client_status = CLIENT_COMPLETE;
	invent(f, thief, &alloc);
	fake_node_send_alloc(node, node->last_run, HOLDFAST__V1__CLIENT_STATUS__FAILED);
	UNTIL(f, f->n1.runs + f->n2.runs == 2);
}

CLUSTER_TEST(an_invented_allocation_keeps_no_volume_from_others)
{
	struct volume_request request = {.name = "data",
					 .source = "db",
					 .access_mode = SINGLE_NODE_WRITER,
					 .attachment_mode = ATTACHMENT_FILE_SYSTEM};
	struct alloc alloc = ROW(.namespace = "default", .name = "x", .driver = "none", .volumes = &request,
				 .n_volumes = 1, .desired_status = DESIRED_RUN,
				 .client_status = CLIENT_PENDING, .place_time_ms = 1, .queue_index = 1);
	struct submission s;

	connect_both(f);
	invent(f, &f->n2, &alloc);
	make_job(f, &s);
	assert_int_equal(run(f, &s, NULL), 1);
	UNTIL(f, f->n1.runs + f->n2.runs == 1);
}

CLUSTER_TEST(an_invented_allocation_shows_nothing_of_a_volume)
{
	struct volume_request request = {.name = "data",
					 .source = "db",
					 .access_mode = SINGLE_NODE_WRITER,
					 .attachment_mode = ATTACHMENT_FILE_SYSTEM};
	struct alloc alloc =
		ROW(.namespace = "default", .name = "x", .driver = "none", .volumes = &request,
		    .n_volumes = 1, .desired_status = DESIRED_RUN, .client_status = CLIENT_PENDING);
	struct error err = {.msg = ""};

	take_volume(f); /* n1 has it */
	invent(f, &f->n2, &alloc);
	assert_error(fake_node_claim(&f->n2, "db", INVENTED, NULL, &err), STATUS_FAILED_PRECONDITION, err,
		     "only its node knows it");
	assert_null(strstr(err.msg, "n1"));
	assert_null(strstr(err.msg, ALLOC_1));
}

CLUSTER_TEST(a_reported_claim_brings_no_words_of_an_operator)
{
	static const char words[] = "operator/alice: I have switched n2 off";
	const struct claim *adopted;
	struct claim claim;

	take_volume(f);
	claim = claim_of(f, ALLOC_1);
	provoke_report(f, &f->n1);
	(void)str_copy(claim.id, sizeof(claim.id), INVENTED);
	claim.detach_evidence = EVIDENCE_OPERATOR;
	(void)str_copy(claim.detach_detail, sizeof(claim.detach_detail), words);
	(void)str_copy(claim.plugin_waiver, sizeof(claim.plugin_waiver), words);
	claim.other_machine = claim.was_freed = claim.fence_asked = true;
	claim.attempts = 7;
	report_with(&f->n1, f->n1.report_epoch, NULL, &claim, NULL, false);
	UNTIL(f, state_claim(&f->server->state, INVENTED) != NULL);
	adopted = &state_claim(&f->server->state, INVENTED)->claim;
	assert_int_equal(adopted->detach_evidence, EVIDENCE_NONE);
	assert_string_equal(adopted->detach_detail, "");
	assert_string_equal(adopted->plugin_waiver, "");
	assert_false(adopted->other_machine || adopted->was_freed || adopted->fence_asked);
	assert_int_equal(adopted->attempts, 0);
}

/* Tickets prove nothing then, but only the first report of an epoch counts without one. */
CLUSTER_TEST(a_report_that_a_node_provokes_needs_proof_also_after_a_new_ticket_key)
{
	struct claim claim;

	take_volume(f);
	claim = claim_of(f, ALLOC_1);
	restart_with(f, make_another_key);
	connect_node(&f->n2, "n2");
	provoke_report(f, &f->n2);
	(void)str_copy(claim.id, sizeof(claim.id), INVENTED);
	(void)str_copy(claim.node_id, sizeof(claim.node_id), "n2");
	(void)str_copy(claim.allocation_id, sizeof(claim.allocation_id), UNKNOWN);
	report_with(&f->n2, f->n2.report_epoch, NULL, &claim, NULL, false);
	UNTIL(f, !state_node(&f->server->state, "n2")->node.report_wanted);
	assert_null(state_claim(&f->server->state, INVENTED));
}

static void rotate_key(struct fixture *f, uint8_t ret_ids[static 2 * TICKET_KEY_ID_SIZE])
{
	cleanup(caller_release) struct caller_client caller;
	uint8_t key[TICKET_KEY_SIZE];

	caller_init(&caller, f, "holdfast://c1/operator/ann", NULL);
	ticket_issuer_public_key(f->server->issuer, key);
	memcpy(ret_ids, key, TICKET_KEY_ID_SIZE);
	assert_int_equal(caller_call(&caller, "Operator.RotateKey", "{}", NULL, NULL), STATUS_OK);
	assert_int_equal(caller_call(&caller, "Operator.RotateKey", "{\"use_now\": true}", NULL, NULL),
			 STATUS_OK);
	ticket_issuer_public_key(f->server->issuer, key);
	memcpy(ret_ids + TICKET_KEY_ID_SIZE, key, TICKET_KEY_ID_SIZE);
}

/* The older store has lost the key that signed the ticket. The node's policy still names it. */
CLUSTER_TEST(a_claim_of_a_rotated_key_is_kept_after_an_older_backup)
{
	uint8_t ids[2 * TICKET_KEY_ID_SIZE];
	struct backup backup = {0};
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	connect_node(&f->n1, "n1");
	take_backup(f, &backup);
	rotate_key(f, ids);
	take_volume(f);
	alloc = alloc_of(f, ALLOC_1);
	held = claim_of(f, ALLOC_1);
	ticket = ticket_of(f, &held);
	restore(f, &backup, 1);
	f->n1.ticket_keys = (ProtobufCBinaryData){.len = sizeof(ids), .data = ids};
	report_n1(f, &alloc, &held, &ticket);
	assert_non_null(state_claim(&f->server->state, held.id));
}

/* The backup knows no node: n1's mark proves that it was there before. */
CLUSTER_TEST(a_node_that_a_mark_counts_as_missing_is_believed)
{
	uint8_t ids[2 * TICKET_KEY_ID_SIZE];
	struct backup backup = {0};
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;
	cleanup_pb Holdfast__V1__Mark *mark = NULL;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	take_backup(f, &backup);
	rotate_key(f, ids);
	take_volume(f);
	alloc = alloc_of(f, ALLOC_1);
	held = claim_of(f, ALLOC_1);
	ticket = ticket_of(f, &held);
	connect_node(&f->n1, "n1"); /* it gets a mark that counts it */
	mark = mark_copy(f->n1.mark);
	restore(f, &backup, 1);
	f->n1.shows = mark;
	f->n1.ticket_keys = (ProtobufCBinaryData){.len = sizeof(ids), .data = ids};
	report_n1(f, &alloc, &held, &ticket);
	assert_non_null(state_claim(&f->server->state, held.id));
}

/* All nodes have reported, and no node is missing. */
CLUSTER_TEST(a_purged_node_is_not_believed_when_it_comes_back)
{
	static const uint8_t no_such_key[TICKET_KEY_ID_SIZE] = {1, 2, 3, 4};
	struct backup backup = {0};
	struct alloc alloc;
	struct claim lie;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	connect_both(f);
	take_backup(f, &backup);
	restore(f, &backup, 1);
	connect_both(f);
	report(f, &f->n1, 1, NULL, NULL, false);
	report(f, &f->n2, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n1") && has_reported(f, "n2"));
	take_claim(f, &f->n2, "db", ALLOC_2);
	lie = claim_of(f, ALLOC_2);
	alloc = alloc_of(f, ALLOC_2);
	lose(f, &f->n1);
	assert_int_equal(purge(f, "n1", NULL), STATUS_OK);
	f->n1.ticket_keys =
		(ProtobufCBinaryData){.len = sizeof(no_such_key), .data = (uint8_t *)(uintptr_t)no_such_key};
	connect_node(&f->n1, "n1");
	UNTIL(f, f->n1.reports_wanted > 0);
	(void)str_copy(lie.id, sizeof(lie.id), UNKNOWN);
	(void)str_copy(lie.node_id, sizeof(lie.node_id), "n1");
	(void)str_copy(lie.allocation_id, sizeof(lie.allocation_id), INVENTED);
	(void)str_copy(alloc.id, sizeof(alloc.id), INVENTED);
	(void)str_copy(alloc.node_id, sizeof(alloc.node_id), "n1");
	(void)str_copy(alloc.job_id, sizeof(alloc.job_id), "web");
	alloc.client_status = CLIENT_RUNNING;
	lie.generation = 1;
	report_with(&f->n1, 1, &alloc, &lie, NULL, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_null(state_claim(&f->server->state, UNKNOWN));
	assert_string_equal(state_alloc(&f->server->state, INVENTED)->alloc.job_id, "");
	assert_int_equal(state_of(f, ALLOC_2), CLAIM_TAKEN);
}

/* --- the storage of a claim whose volume the store does not know --- */

/* A volume of another namespace, which the tenant of default may not touch. */
static void store_secret_volume(struct fixture *f)
{
	const struct volume volume = ROW(.namespace = "blue", .id = "secret", .type = VOLUME_CSI,
					 .plugin_id = CSI_PLUGIN, .external_id = "vol-secret",
					 .capabilities = {{SINGLE_NODE_WRITER, ATTACHMENT_FILE_SYSTEM}},
					 .n_capabilities = 1, .create_time_ms = 1, .modify_time_ms = 1);

	store_volume(f, &volume);
}

/* n1 has run an allocation with volume x, which was freed and deregistered. @ret its claim, to lie with */
static void forget_x(struct fixture *f, struct claim *ret)
{
	register_csi(f, "x");
	store_secret_volume(f);
	f->n1.plugin = f->n2.plugin = &f->plugin;
	f->n1.csi = (struct fake_csi){.has_node = true};
	f->n2.csi = (struct fake_csi){.has_node = true, .has_controller = true, .can_create_delete = true};
	connect_both(f);
	take_claim(f, &f->n1, "x", ALLOC_1);
	*ret = claim_of(f, ALLOC_1);
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	deregister(f, "x");
	settle(f);
}

/* Reports @claim under a new id, held, with a storage that n1 has chosen. */
static void lie_about_x(struct fixture *f, struct claim *claim, const char *external_id,
			const struct ticket *ticket)
{
	provoke_report(f, &f->n1);
	(void)str_copy(claim->id, sizeof(claim->id), INVENTED);
	(void)str_copy(claim->external_id, sizeof(claim->external_id), external_id);
	claim->state = CLAIM_TAKEN;
	report_with(&f->n1, f->n1.report_epoch, NULL, claim, ticket, false);
	UNTIL(f, state_claim(&f->server->state, INVENTED) != NULL);
	settle(f);
}

#define POLICY_OF_DEFAULT                                                                             \
	"{\"policy\":{\"name\":\"t\",\"plugin\":\"read\",\"namespaces\":[{\"namespace\":\"default\"," \
	"\"policy\":\"write\"}]}}"
#define CLONE(id)                                                                                         \
	"{\"volume\":{\"id\":\"copy\",\"type\":\"CSI\",\"pluginId\":\"" CSI_PLUGIN "\",\"cloneId\":\"" id \
	"\",\"requestedCapabilities\":[" MODE "]}}"

TEST_ON(a_node_gives_no_namespace_the_storage_of_another_one, struct fixture, f, setup_acl, teardown)
{
	struct error err;
	struct claim lie;
	char *secret;

	forget_x(f, &lie);
	operator_does(f, "Operator.PutPolicy", POLICY_OF_DEFAULT);
	secret = make_token(f, "{\"name\":\"t\",\"type\":\"CLIENT\",\"policies\":[\"t\"]}");
	lie_about_x(f, &lie, "vol-secret", NULL);
	assert_string_equal(state_volume(&f->server->state, "default", "x")->volume.external_id, "");
	assert_string_equal(state_claim(&f->server->state, INVENTED)->claim.external_id, "");
	assert_int_equal(storage_n_live(state_volume(&f->server->state, "blue", "secret")), 0);
	assert_error(tenant_asks(f, secret, "Volumes.Create", CLONE("vol-secret"), &err),
		     STATUS_PERMISSION_DENIED, err,
		     "clone_id: no volume or snapshot of namespace default has this id");
	free(secret);
}

/* The ticket is genuine, but for the storage that x had. */
TEST_ON(a_ticket_names_one_storage_only, struct fixture, f, setup_acl, teardown)
{
	struct ticket ticket;
	struct claim lie;

	forget_x(f, &lie);
	ticket = ticket_of(f, &lie);
	lie_about_x(f, &lie, "vol-secret", &ticket);
	assert_string_equal(state_volume(&f->server->state, "default", "x")->volume.external_id, "");
	assert_int_equal(storage_n_live(state_volume(&f->server->state, "blue", "secret")), 0);
}

/* As x had it when n1 was granted it; another namespace may have it by now. */
TEST_ON(an_old_ticket_gives_no_namespace_its_storage_back, struct fixture, f, setup_acl, teardown)
{
	struct ticket ticket;
	struct error err;
	struct claim lie;
	char *secret;

	forget_x(f, &lie);
	operator_does(f, "Operator.PutPolicy", POLICY_OF_DEFAULT);
	secret = make_token(f, "{\"name\":\"t\",\"type\":\"CLIENT\",\"policies\":[\"t\"]}");
	ticket = ticket_of(f, &lie);
	lie_about_x(f, &lie, "vol-x", &ticket);
	assert_string_equal(state_volume(&f->server->state, "default", "x")->volume.external_id, "vol-x");
	assert_error(tenant_asks(f, secret, "Volumes.Create", CLONE("vol-x"), &err), STATUS_PERMISSION_DENIED,
		     err, "clone_id: no volume or snapshot of namespace default has this id");
	free(secret);
}

TEST_ON(no_provider_is_asked_about_a_volume_that_only_a_node_knows, struct fixture, f, setup_acl, teardown)
{
	static const char *const asks[][2] = {
		{"Volumes.Delete", "{\"id\":\"x\"}"},
		{"Volumes.Expand", "{\"id\":\"x\",\"capacityMin\":\"1048576\"}"},
		{"Volumes.CreateSnapshot", "{\"volumeId\":\"x\",\"name\":\"s\"}"},
		{"Volumes.Create", "{\"volume\":{\"id\":\"x\",\"type\":\"CSI\",\"pluginId\":\"" CSI_PLUGIN
				   "\",\"requestedCapabilities\":[{\"accessMode\":\"SINGLE_NODE_WRITER\","
				   "\"attachmentMode\":\"FILE_SYSTEM\"}]}}"},
	};
	struct error err;
	struct claim lie;
	char *secret;

	forget_x(f, &lie);
	operator_does(f, "Operator.PutPolicy", POLICY_OF_DEFAULT);
	secret = make_token(f, "{\"name\":\"t\",\"type\":\"CLIENT\",\"policies\":[\"t\"]}");
	lie_about_x(f, &lie, "vol-of-nobody-here", NULL);
	UNTIL(f, f->n1.releases > 0);
	fake_node_send_released(&f->n1, &lie);
	settle(f);
	for (size_t i = 0; i < ARRAY_SIZE(asks); i++)
		assert_error(tenant_asks(f, secret, asks[i][0], asks[i][1], &err), STATUS_FAILED_PRECONDITION,
			     err, "known only from a node's report");
	free(secret);
}

/* The server has an allocation of n1 that asks for db, and n1 shows no ticket. */
CLUSTER_TEST(a_claim_without_a_ticket_delays_no_registration_of_a_disk)
{
	struct backup backup = {0};
	struct claim lie;
	struct error err;

	connect_both(f);
	take_backup(f, &backup);
	restore(f, &backup, 1);
	connect_both(f);
	report(f, &f->n1, 1, NULL, NULL, false);
	report(f, &f->n2, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n1") && has_reported(f, "n2"));
	assert_ok(register_volume(f, &f->operator, & err));
	take_claim(f, &f->n1, "db", ALLOC_1);
	lie = claim_of(f, ALLOC_1);
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	assert_ok(deregister_volume(f, &err));
	lie_about_x(f, &lie, "", NULL);
	assert_true(volume_is_placeholder(&state_volume(&f->server->state, "default", "db")->volume));
	assert_ok(register_disk(f, &f->operator, "other", "wwn-0x1", &err));
}

/* --- the attachment of a volume --- */

/* n1 reports that it holds db also by a second claim of its allocation, with a plugin and an id of its
 * choice.
 */
static void report_claim_as(struct fixture *f, const char *id, const char *plugin_id,
			    const char *external_node_id, struct claim *ret)
{
	provoke_report(f, &f->n1);
	*ret = claim_of(f, ALLOC_1);
	(void)str_copy(ret->id, sizeof(ret->id), id);
	(void)str_copy(ret->plugin_id, sizeof(ret->plugin_id), plugin_id);
	(void)str_copy(ret->external_node_id, sizeof(ret->external_node_id), external_node_id);
	ret->state = CLAIM_TAKEN;
	report_with(&f->n1, f->n1.report_epoch, NULL, ret, NULL, false);
	UNTIL(f, state_claim(&f->server->state, id) != NULL);
	settle(f);
}

static void report_second_claim(struct fixture *f, const char *plugin_id, const char *external_node_id,
				struct claim *ret)
{
	report_claim_as(f, INVENTED, plugin_id, external_node_id, ret);
}

static enum status fence(struct fixture *f, const char *node, struct error *err)
{
	const Holdfast__V1__DetachVolumeRequest request = V1(
		detach_volume_request, .id = TEXT("db"), .node_id = TEXT(node), .fence_reason = TEXT("away"));

	return call(&f->operator, & holdfast__v1__volumes__descriptor, "Detach", &request.base, NULL, err);
}

TEST_ON(a_reported_claim_names_no_other_node_at_the_provider, struct fixture, f, setup_shared_db, teardown_db)
{
	struct error err;
	struct claim lie;

	take_claim(f, &f->n1, "db", ALLOC_1);
	take_claim(f, &f->n2, "db", ALLOC_2);
	report_second_claim(f, PLUGIN_NATIVE, "i-n2", &lie);
	release_claim(f, &f->n2, ALLOC_2);
	UNTIL(f, state_of(f, ALLOC_2) == CLAIM_FREED);
	assert_false(model_plugin_is_attached(&f->plugin, "vol-db", "i-n2"));
	take_claim(f, &f->n2, "db", ALLOC_3);
	assert_ok(stop_alloc(f, ALLOC_3, &err));
	lose(f, &f->n2);
	f->n1.csi.has_controller = true;
	fake_node_send_fingerprint(&f->n1);
	settle(f);
	assert_ok(fence(f, "n2", &err));
	assert_int_equal(state_of(f, ALLOC_3), CLAIM_FREED);
}

static int setup_read_only_db(void **state)
{
	struct fixture *f;

	(void)setup(state);
	f = *state;
	f->access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_READER_ONLY;
	f->read_only = true;
	register_csi(f, "db");
	connect_csi(f);
	return 0;
}

/* The allocation runs, and its claim was released. */
TEST_ON(a_node_chooses_no_rights_of_a_claim_of_its_own_allocation, struct fixture, f, setup_read_only_db,
	teardown)
{
	cleanup_pb Holdfast__V1__ClaimVolumeResponse *response = NULL;
	const struct claim *adopted;
	struct claim lie;
	struct ticket ticket;

	take_claim(f, &f->n1, "db", ALLOC_1);
	lie = claim_of(f, ALLOC_1);
	fake_node_send_released(&f->n1, &lie);
	UNTIL(f, !state_claim(&f->server->state, lie.id));
	provoke_report(f, &f->n1);
	(void)str_copy(lie.id, sizeof(lie.id), INVENTED);
	lie.state = CLAIM_TAKEN;
	lie.access_mode = MULTI_NODE_MULTI_WRITER;
	lie.attachment_mode = ATTACHMENT_BLOCK_DEVICE;
	lie.propagation = PROPAGATION_BIDIRECTIONAL;
	report_with(&f->n1, f->n1.report_epoch, NULL, &lie, NULL, false);
	UNTIL(f, state_claim(&f->server->state, INVENTED) != NULL);
	settle(f);
	adopted = &state_claim(&f->server->state, INVENTED)->claim;
	assert_int_equal(adopted->access_mode, MULTI_NODE_READER_ONLY);
	assert_int_equal(adopted->attachment_mode, ATTACHMENT_FILE_SYSTEM);
	assert_ok(fake_node_claim(&f->n1, "db", ALLOC_1, &response, NULL));
	memcpy(&ticket, response->ticket.data, sizeof(ticket));
	assert_int_equal(ticket.propagation, TICKET_PROPAGATION_PRIVATE);
	assert_int_equal(f->plugin.n_attachments, 1);
	assert_true(f->plugin.attachments[0].is_read_only);
}

/* The grant was forgotten: only the node knows the allocation and its modes. */
TEST_ON(a_node_chooses_no_mode_in_which_its_forgotten_claim_is_attached, struct fixture, f,
	setup_read_only_db, teardown)
{
	cleanup_pb Holdfast__V1__ClaimVolumeResponse *response = NULL;
	struct volume volume = state_volume(&f->server->state, "default", "db")->volume;
	struct backup backup = {0};
	struct ticket ticket;
	struct claim held;
	struct alloc alloc;
	struct error err;

	volume.capabilities[volume.n_capabilities] = volume.capabilities[0];
	volume.capabilities[volume.n_capabilities++].access_mode = MULTI_NODE_MULTI_WRITER;
	store_volume(f, &volume);
	run_idle(f->event);
	take_backup(f, &backup);
	connect_csi(f);
	take_claim(f, &f->n1, "db", ALLOC_1);
	held = claim_of(f, ALLOC_1);
	ticket = ticket_of(f, &held);
	alloc = alloc_of(f, ALLOC_1);
	restore(f, &backup, 1);
	connect_csi(f);
	settle(f);
	((struct volume_request *)alloc.volumes)[0].access_mode = MULTI_NODE_MULTI_WRITER;
	alloc.client_status = CLIENT_RUNNING;
	held.access_mode = MULTI_NODE_MULTI_WRITER;
	report(f, &f->n2, 1, NULL, NULL, false);
	report_with(&f->n1, 1, &alloc, &held, &ticket, false);
	UNTIL(f, has_reported(f, "n1") && has_reported(f, "n2"));
	assert_true(claim_of(f, ALLOC_1).adopted);
	assert_error(fake_node_claim(&f->n1, "db", ALLOC_1, &response, &err), STATUS_FAILED_PRECONDITION, err,
		     "holdfast alloc stop " ALLOC_1);
	assert_int_equal(f->plugin.n_attachments, 1);
	assert_true(f->plugin.attachments[0].is_read_only);
	assert_string_equal(f->plugin.violation, "");
}

static void n1_calls_itself(struct fixture *f, const char *id)
{
	f->n1.csi.node_id = id;
	fake_node_send_fingerprint(&f->n1);
	settle(f);
}

/* n1 releases its claim while the invented one is held, then moves that one, and releases it. */
TEST_ON(a_node_moves_no_claim_to_another_attachment, struct fixture, f, setup_db, teardown_db)
{
	struct claim real, lie;

	take_claim(f, &f->n1, "db", ALLOC_1);
	real = claim_of(f, ALLOC_1);
	report_second_claim(f, CSI_PLUGIN, "", &lie);
	fake_node_send_released(&f->n1, &real);
	UNTIL(f, is_freed(f, real.id)); /* the other claim has the attachment ended */
	n1_calls_itself(f, "i-nowhere");
	assert_true(model_plugin_is_attached(&f->plugin, "vol-db", "i-n1"));
	fake_node_send_released(&f->n1, &lie);
	UNTIL(f, is_freed(f, INVENTED));
	assert_int_equal(f->plugin.n_attachments, 0);
	n1_calls_itself(f, NULL);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	take_claim(f, &f->n2, "db", ALLOC_2);
}

/* n1 did not report the plugin when the second claim was adopted. */
TEST_ON(a_claim_of_an_unknown_provider_id_keeps_no_device_attached, struct fixture, f, setup_db, teardown_db)
{
	struct claim real, lie;

	take_claim(f, &f->n1, "db", ALLOC_1);
	real = claim_of(f, ALLOC_1);
	f->n1.csi.has_node = false;
	report_second_claim(f, CSI_PLUGIN, "", &lie);
	assert_string_equal(state_claim(&f->server->state, INVENTED)->claim.external_node_id, "");
	f->n1.csi.has_node = true;
	n1_calls_itself(f, NULL);
	fake_node_send_released(&f->n1, &real);
	settle(f);
	assert_int_equal(state_claim(&f->server->state, real.id)->claim.state, CLAIM_NODE_DETACHED);
	n1_calls_itself(f, "i-nowhere");
	UNTIL(f, is_freed(f, real.id));
	assert_int_equal(f->plugin.n_attachments, 0);
}

/* The detach of the first claim is sent for another id than its node reports when the answer comes. */
TEST_ON(a_detach_of_one_id_frees_no_claim_of_another, struct fixture, f, setup_db, teardown_db)
{
	struct claim real, lie;

	take_claim(f, &f->n1, "db", ALLOC_1);
	real = claim_of(f, ALLOC_1);
	f->n1.csi.has_node = false;
	report_second_claim(f, CSI_PLUGIN, "", &lie);
	f->n1.csi.has_node = true;
	n1_calls_itself(f, "i-nowhere");
	model_plugin_order(&f->plugin, DETACH, MODEL_HOLD_DONE, 1, 0);
	fake_node_send_released(&f->n1, &lie);
	UNTIL(f, f->n2.n_held == 1);
	n1_calls_itself(f, NULL);
	fake_node_send_released(&f->n1, &real);
	settle(f);
	fake_node_answer(&f->n2);
	UNTIL(f, is_freed(f, real.id));
	assert_int_equal(f->plugin.n_attachments, 0);
}

/* n1 has a claim under a stored id and one without, which may be another attachment. */
TEST_ON(a_fence_of_a_stored_id_frees_no_claim_without_one, struct fixture, f, setup_db, teardown_db)
{
	struct error err;
	struct claim lie;

	take_claim(f, &f->n1, "db", ALLOC_1);
	f->n1.csi.has_node = false;
	report_second_claim(f, CSI_PLUGIN, "", &lie);
	f->n1.csi.has_node = true;
	n1_calls_itself(f, NULL);
	assert_ok(stop_alloc(f, ALLOC_1, &err));
	lose(f, &f->n1);
	assert_ok(fence(f, "n1", &err));
	assert_true(is_freed(f, INVENTED));
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_FREED);
	assert_int_equal(f->plugin.calls[DETACH], 2);
}

/* The detach is asked for the first claim, whose id is the lower one. */
TEST_ON(a_detach_of_a_stored_id_frees_no_claim_without_one, struct fixture, f, setup_db, teardown_db)
{
	static const char last[] = "ff89dead-0000-7000-8000-000000000001";
	struct claim real, lie;

	take_claim(f, &f->n1, "db", ALLOC_1);
	real = claim_of(f, ALLOC_1);
	f->n1.csi.has_node = false;
	report_claim_as(f, last, CSI_PLUGIN, "", &lie);
	f->n1.csi.has_node = true;
	n1_calls_itself(f, NULL);
	fake_node_send_released(&f->n1, &lie);
	fake_node_send_released(&f->n1, &real);
	UNTIL(f, is_freed(f, real.id) && is_freed(f, last));
	assert_int_equal(f->plugin.calls[DETACH], 2);
}

/* n1 may have reported an id that no machine has. */
CLUSTER_TEST(a_provider_that_does_not_know_a_reported_id_proves_no_detach)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	forget_csi(f, &alloc, &held, &ticket);
	report_forgotten(f, &alloc, &held, &ticket);
	model_plugin_order(&f->plugin, DETACH, MODEL_NOT_FOUND, 1, 0);
	fake_node_send_released(&f->n1, &held);
	UNTIL(f, claim_of(f, ALLOC_1).attempts == 1);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_NODE_DETACHED);
	assert_non_null(strstr(claim_of(f, ALLOC_1).last_error, "which proves nothing"));
	run_for(f->event, 4 * 60 * 1000); /* a node can invent any number of claims */
	assert_int_equal(f->plugin.calls[DETACH], 1);
	run_for(f->event, 6 * 60 * 1000);
	assert_true(is_freed(f, held.id));
	assert_int_equal(f->plugin.n_attachments, 0);
}

/* The store has the claim as freed, and the id under which it was attached. */
CLUSTER_TEST(a_provider_that_does_not_know_an_attached_id_proves_the_detach)
{
	struct backup backup = {0};
	unsigned int n;
	struct claim held;

	register_csi(f, "db");
	connect_csi(f);
	take_claim(f, &f->n1, "db", ALLOC_1);
	held = claim_of(f, ALLOC_1);
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	take_backup(f, &backup);
	restore(f, &backup, 1);
	run_csi(f);
	n = f->plugin.calls[DETACH];
	report_forgotten(f, NULL, &held, NULL);
	model_plugin_order(&f->plugin, DETACH, MODEL_NOT_FOUND, 1, 0);
	fake_node_send_released(&f->n1, &held);
	UNTIL(f, is_freed(f, held.id));
	assert_int_equal(f->plugin.calls[DETACH], n + 1);
}

/* --- the secrets of a volume --- */

#define NODE_EXPAND HOLDFAST__V1__PLUGIN_CALL__REQUEST_NODE_EXPAND

/* The file system of db, whose detail is @stored, is to be expanded by the next node that has it mounted. */
static void set_expansion_due(struct fixture *f, const Holdfast__V1__VolumeDetail *stored)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	Holdfast__V1__VolumeDetail detail = *stored;

	detail.node_expansion_due = true;
	change_put_record(&change, PREFIX_VOLUME_DETAIL "default/db", &detail.base);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	settle(f);
}

static void expand_on_next_node(struct fixture *f)
{
	register_csi(f, "db");
	set_expansion_due(f, records_get(&f->server->state.records, PREFIX_VOLUME_DETAIL "default/db"));
}

CLUSTER_TEST(a_claim_that_a_node_invents_gets_no_secrets_with_an_expansion)
{
	struct volume_request request = {.name = "data",
					 .source = "db",
					 .access_mode = SINGLE_NODE_WRITER,
					 .attachment_mode = ATTACHMENT_FILE_SYSTEM};
	struct alloc alloc = ROW(.id = INVENTED, .namespace = "default", .name = "x", .driver = "none",
				 .node_id = "n1", .volumes = &request, .n_volumes = 1,
				 .desired_status = DESIRED_RUN, .client_status = CLIENT_RUNNING);
	const struct claim claim =
		ROW(.mode = CLAIM_WRITE, .access_mode = SINGLE_NODE_WRITER,
		    .attachment_mode = ATTACHMENT_FILE_SYSTEM, .generation = 1, .state = CLAIM_TAKEN,
		    .namespace = "default", .volume_id = "db", .plugin_id = CSI_PLUGIN, .id = UNKNOWN,
		    .allocation_id = INVENTED, .node_id = "n1", .boot_id = BOOT_1);
	uint8_t no_such_key[TICKET_KEY_ID_SIZE] = {1, 2, 3, 4};
	struct backup backup = {0};
	struct claim proven;

	connect_csi(f);
	expand_on_next_node(f);
	take_backup(f, &backup);
	restore(f, &backup, 1);
	f->n1.ticket_keys = (ProtobufCBinaryData){.len = sizeof(no_such_key), .data = no_such_key};
	f->n1.plugin = &f->plugin;
	f->n1.csi = (struct fake_csi){.has_node = true, .can_expand = true};
	report_n1(f, &alloc, &claim, NULL);
	settle(f);
	assert_int_equal(f->plugin.calls[NODE_EXPAND], 0);
	proven = state_claim(&f->server->state, UNKNOWN)->claim;
	proven.storage_proven = true; /* as by a ticket: its allocation is still the node's own */
	store_claim(f, &proven);
	UNTIL(f, f->plugin.calls[NODE_EXPAND] == 1);
	assert_string_equal(f->plugin.last_node_secret, "");
}

CLUSTER_TEST(an_expansion_is_done_on_no_mount_of_another_storage)
{
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	store_old_db(f);
	set_expansion_due(f, &(Holdfast__V1__VolumeDetail)HOLDFAST__V1__VOLUME_DETAIL__INIT);
	forget_csi(f, &alloc, &held, &ticket);
	grant_since(f);
	f->n1.csi.can_expand = true;
	report_n1(f, &alloc, &held, &ticket);
	fake_node_send_fingerprint(&f->n1);
	settle(f);
	assert_true(state_claim(&f->server->state, held.id)->is_unmatched);
	assert_int_equal(f->plugin.calls[NODE_EXPAND], 0);
}

/* db has another secret since n1 was granted it, and is to be grown. */
static void expand_with_another_secret(struct fixture *f)
{
	Holdfast__V1__VolumeSecrets__SecretsEntry entry = HOLDFAST__V1__VOLUME_SECRETS__SECRETS_ENTRY__INIT,
						  *entries[] = {&entry};
	Holdfast__V1__VolumeSecrets secrets = V1(volume_secrets, .secrets = entries, .n_secrets = 1);
	cleanup(change_release) struct change change = CHANGE_INIT;
	Holdfast__V1__VolumeDetail detail = *(const Holdfast__V1__VolumeDetail *)(const void *)records_get(
		&f->server->state.records, PREFIX_VOLUME_DETAIL "default/db");

	detail.capacity = 1048576;
	entry.key = TEXT("key");
	entry.value = TEXT("rotated");
	change_put_record(&change, PREFIX_VOLUME_DETAIL "default/db", &detail.base);
	change_put_record(&change, PREFIX_VOLUME_SECRETS "default/db", &secrets.base);
	assert_ok(change_commit(f->server, &change, NULL, NULL, NULL));
	operator_does(f, "Volumes.Expand", "{\"id\":\"db\",\"capacityMin\":\"1048576\"}");
	settle(f);
}

/* n1 has it, and its work has ended. */
static struct claim end_work_on_db(struct fixture *f)
{
	struct claim held;

	connect_csi(f);
	register_csi(f, "db");
	f->n1.csi.can_expand = f->n2.csi.can_expand = true;
	fake_node_send_fingerprint(&f->n1);
	fake_node_send_fingerprint(&f->n2);
	take_claim(f, &f->n1, "db", ALLOC_1);
	held = claim_of(f, ALLOC_1);
	assert_ok(stop_alloc(f, ALLOC_1, NULL));
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_UNPUBLISHING);
	return held;
}

CLUSTER_TEST(a_node_whose_work_has_ended_gets_no_secrets_with_an_expansion)
{
	struct claim held = end_work_on_db(f);

	assert_null(plugin_args_node_secrets(&f->server->state, &held));
	expand_with_another_secret(f);
	assert_int_equal(f->plugin.calls[NODE_EXPAND], 0);
}

CLUSTER_TEST(a_node_that_reports_a_freed_claim_gets_no_secrets_with_an_expansion)
{
	struct claim held = end_work_on_db(f);

	fake_node_send_released(&f->n1, &held);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	report_freed(f, &held);
	assert_false(f->n1.last_release_has_ticket);
	expand_with_another_secret(f);
	assert_int_equal(f->plugin.calls[NODE_EXPAND], 0);
}

CLUSTER_TEST(a_claim_of_the_servers_own_allocation_gets_secrets_with_an_expansion)
{
	struct claim claim;

	connect_csi(f);
	expand_on_next_node(f);
	f->n1.csi.can_expand = true;
	fake_node_send_fingerprint(&f->n1);
	settle(f);
	take_claim(f, &f->n1, "db", ALLOC_1);
	UNTIL(f, f->plugin.calls[NODE_EXPAND] == 1);
	assert_string_equal(f->plugin.last_node_secret, "hunter2");
	claim = claim_of(f, ALLOC_1);
	assert_non_null(plugin_args_node_secrets(&f->server->state, &claim));
	claim.state = CLAIM_UNPUBLISHING;
	assert_null(plugin_args_node_secrets(&f->server->state, &claim));
}

/* --- generations --- */

/* Reports that n1 has released the volume in an earlier boot, by a claim that was @generation. */
static void report_past(struct fixture *f, const struct claim *like, uint64_t generation)
{
	struct claim past = *like;

	assert_true(uuid_new(past.id) >= 0);
	(void)str_copy(past.boot_id, sizeof(past.boot_id), BOOT_2);
	past.state = CLAIM_NODE_DETACHED;
	past.generation = generation;
	report_with(&f->n1, f->n1.report_epoch, NULL, &past, NULL, true);
	settle(f);
}

static uint64_t generation_of_db(struct fixture *f)
{
	return state_volume(&f->server->state, "default", "db")->volume.generation;
}

CLUSTER_TEST(a_node_uses_up_at_most_half_of_the_generations_of_an_epoch)
{
	uint64_t most = new_epoch_generation_max(0), records;
	struct backup backup = {0};
	struct alloc alloc;
	struct claim held;

	take_volume(f);
	held = claim_of(f, ALLOC_1);
	settle(f);
	take_backup(f, &backup);
	connect_both(f);
	provoke_report(f, &f->n1);
	records = audit_head(f->server).sequence;
	report_past(f, &held, most);
	assert_int_equal(generation_of_db(f), most);
	assert_int_equal(audit_head(f->server).sequence, records + 1);
	report_past(f, &held, most - 1); /* which raises nothing */
	assert_int_equal(audit_head(f->server).sequence, records + 1);
	report_past(f, &held, most + 1);
	assert_int_equal(generation_of_db(f), most);
	assert_false(f->n1.closed); /* the rest of the report counts */
	report(f, &f->n1, f->n1.report_epoch, NULL, NULL, false);
	fake_node_send_released(&f->n1, &held);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	take_claim(f, &f->n2, "db", ALLOC_2);
	alloc = alloc_of(f, ALLOC_2);
	held = claim_of(f, ALLOC_2);
	restore(f, &backup, 1);
	connect_node(&f->n2, "n2");
	report(f, &f->n2, 1, &alloc, &held, false);
	UNTIL(f, has_reported(f, "n2"));
	assert_int_equal(state_of(f, ALLOC_2), CLAIM_TAKEN);
}

/* The next generation is the nearest that could be granted twice. */
CLUSTER_TEST(the_next_generation_is_not_granted_after_a_node_had_it)
{
	cleanup_pb Holdfast__V1__ClaimVolumeResponse *response = NULL;
	struct ticket ticket;
	struct alloc alloc;
	struct claim held;

	take_volume(f);
	alloc = alloc_of(f, ALLOC_1);
	held = claim_of(f, ALLOC_1);
	provoke_report(f, &f->n1);
	report_past(f, &held, generation_of_db(f) + 1);
	assert_int_equal(generation_of_db(f), held.generation + 1);
	report(f, &f->n1, f->n1.report_epoch, &alloc, &held, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_int_equal(fake_node_claim(&f->n1, "db", ALLOC_1, &response, NULL), STATUS_OK);
	assert_int_equal(response->ticket.len, sizeof(ticket));
	memcpy(&ticket, response->ticket.data, sizeof(ticket));
	assert_int_equal(ticket.generation, held.generation + 1); /* the volume's, which is durable */
}

CLUSTER_TEST(generations_are_raised_at_the_rate_of_adoptions)
{
	char more[RATE_MORE_SIZE];
	struct node_entry *node;
	struct claim held;

	take_volume(f);
	held = claim_of(f, ALLOC_1);
	provoke_report(f, &f->n1);
	node = state_node(&f->server->state, "n1");
	report_past(f, &held, 10);
	assert_int_equal(generation_of_db(f), 10);
	while (rate_take_counted(&node->adoptions, SESSION_ADOPTION_COST_US, SESSION_REPORT_OBJECTS_MAX,
				 clock_monotonic_us(), more))
		;
	report_past(f, &held, 11);
	UNTIL(f, f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_RESOURCE_EXHAUSTED);
	assert_int_equal(generation_of_db(f), 10);
}

/* --- the store's queue --- */

enum { STATUSES = 64 };

/* Connects n1 with a hello that has @n statuses of its allocation, each with another code. */
static void greet_with(struct fixture *f, size_t n)
{
	Holdfast__V1__AllocStatus statuses[STATUSES], *list[STATUSES];

	assert_true(n <= STATUSES);
	for (size_t i = 0; i < n; i++) {
		statuses[i] = V1(alloc_status, .alloc_id = TEXT(ALLOC_1), .code = (int32_t)i,
				 .client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING);
		list[i] = &statuses[i];
	}
	fake_node_connect(&f->n1, "n1", BOOT_1, list, n);
	settle(f);
}

CLUSTER_TEST(a_hello_names_each_allocation_once)
{
	take_volume(f);
	fake_node_disconnect(&f->n1);
	greet_with(f, 1);
	assert_false(f->n1.closed);
	fake_node_disconnect(&f->n1);
	greet_with(f, 2);
	assert_true(f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_INVALID_ARGUMENT);
}

/* As if its earlier changes were that large. */
CLUSTER_TEST(a_node_fills_a_part_of_the_stores_queue_only)
{
	struct node_entry *node;

	take_volume(f);
	settle(f);
	node = state_node(&f->server->state, "n1");
	assert_int_equal(node->pending_bytes, 0);
	node->pending_bytes = SESSION_PENDING_BYTES_MAX;
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__PENDING);
	UNTIL(f, f->n1.closed);
	assert_int_equal(f->n1.closed_status, STATUS_RESOURCE_EXHAUSTED);
	node->pending_bytes = 0;
	connect_node(&f->n1, "n1");
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__PENDING);
	UNTIL(f, node->pending_bytes > 0);
	settle(f);
	assert_int_equal(node->pending_bytes, 0);
}

/* Its session ended at the limit, before its changes were durable. */
CLUSTER_TEST(the_end_of_a_session_at_the_limit_of_pending_changes_is_stored_later)
{
	enum { CHANGES = 8 };
	struct node_entry *node;
	int64_t ended_ms;

	take_volume(f);
	settle(f);
	node = state_node(&f->server->state, "n1");
	node->pending_bytes = SESSION_PENDING_BYTES_MAX - 1;
	for (int i = 0; i < CHANGES; i++)
		fake_node_send_alloc(&f->n1, ALLOC_1,
				     i % 2 == 0 ? HOLDFAST__V1__CLIENT_STATUS__PENDING
						: HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	UNTIL(f, f->n1.closed && !node_is_connected(node));
	ended_ms = node->node.disconnected_ms;
	settle(f);
	restart(f);
	assert_true(ended_ms > 0);
	assert_int_equal(state_node(&f->server->state, "n1")->node.disconnected_ms, ended_ms);
}

/* --- limits --- */

enum { REQUESTED = 13 };

/* Reports a further claim of each volume of allocation 1, which needs no ticket: it asks for them. */
static void claim_each_again(struct fixture *f, int round)
{
	ProtobufCBinaryData none[REQUESTED] = {{0}};
	Holdfast__V1__Claim *claims[REQUESTED];
	Holdfast__V1__NodeReport pb = V1(node_report, .claims = claims, .n_claims = REQUESTED,
					 .tickets = none, .n_tickets = REQUESTED);

	for (int i = 0; i < REQUESTED; i++) {
		struct claim claim = ROW(.mode = CLAIM_WRITE, .access_mode = SINGLE_NODE_WRITER,
					 .attachment_mode = ATTACHMENT_FILE_SYSTEM, .state = CLAIM_TAKEN,
					 .namespace = "default", .plugin_id = "native", .profile = "disk",
					 .allocation_id = ALLOC_1, .node_id = "n1", .boot_id = BOOT_1);

		(void)str_format(claim.volume_id, sizeof(claim.volume_id), "v%d", i);
		(void)str_format(claim.id, sizeof(claim.id), "0189dead-0000-7000-8000-%012d",
				 100 + round * REQUESTED + i);
		claims[i] = claim_to_pb(&claim);
	}
	provoke_report(f, &f->n1);
	pb.epoch = f->n1.report_epoch;
	fake_node_send_report(&f->n1, &pb);
	UNTIL(f, has_reported(f, "n1"));
	for (int i = 0; i < REQUESTED; i++)
		holdfast__v1__claim__free_unpacked(claims[i], NULL);
}

CLUSTER_TEST(claims_that_a_node_invents_end_with_its_boot)
{
	Holdfast__V1__VolumeRequest requests[REQUESTED], *volumes[REQUESTED];
	Holdfast__V1__Allocation alloc = V1(allocation, .id = ALLOC_1, .name = "app", .node_id = "n1",
					    .volumes = volumes, .n_volumes = REQUESTED);
	Holdfast__V1__RunAllocationRequest run = V1(run_allocation_request, .allocation = &alloc);
	char names[REQUESTED][8], disk[24];
	struct error err;

	connect_both(f);
	for (int i = 0; i < REQUESTED; i++) {
		(void)str_format(names[i], sizeof(names[i]), "v%d", i);
		(void)str_format(disk, sizeof(disk), "wwn-0x%x", 100 + i);
		assert_ok(register_disk(f, &f->operator, names[i], disk, &err));
		requests[i] = (Holdfast__V1__VolumeRequest)V1(
			volume_request, .name = names[i], .source = names[i],
			.access_mode = HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_WRITER);
		volumes[i] = &requests[i];
	}
	assert_ok(call(&f->operator, & holdfast__v1__allocations__descriptor, "Run", &run.base, NULL, &err));
	UNTIL(f, f->n1.runs == 1);
	for (int round = 0; round < 8; round++)
		claim_each_again(f, round);
	assert_int_equal(state_node(&f->server->state, "n1")->n_live, 64);
	fake_node_disconnect(&f->n1);
	UNTIL(f, !node_is_connected(state_node(&f->server->state, "n1")));
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	assert_true(f->n1.welcomed);
	UNTIL(f, state_node(&f->server->state, "n1")->n_live == 0);
}

CLUSTER_TEST(of_two_freed_claims_of_one_allocation_a_report_brings_back_one)
{
	struct claim freed[2];

	take_volume(f);
	for (int i = 0; i < 2; i++) {
		if (i > 0)
			assert_int_equal(claim_for(&f->n1, ALLOC_1, &freed[i], NULL), STATUS_OK);
		freed[i] = claim_of(f, ALLOC_1);
		fake_node_send_released(&f->n1, &freed[i]);
		UNTIL(f, state_volume(&f->server->state, "default", "db")->n_live == 0);
		freed[i].state = CLAIM_TAKEN;
	}
	provoke_report(f, &f->n1);
	report(f, &f->n1, f->n1.report_epoch, NULL, &freed[0], true);
	report(f, &f->n1, f->n1.report_epoch, NULL, &freed[1], false);
	UNTIL(f, has_reported(f, "n1"));
	assert_int_equal(state_volume(&f->server->state, "default", "db")->n_live, 1);
}

enum task_lie { HONEST_TASK, OTHER_TASK, LARGE_TASK, MANY_ATTRIBUTES, TASK_TWICE, TASK_LIES };

/* At the limit of its node an adopted allocation grows in no way, and ends. */
static void end_at_limit(struct fixture *f, Holdfast__V1__SessionUp *up)
{
	const struct alloc_entry *entry = state_alloc(&f->server->state, up->alloc->alloc_id);
	Holdfast__V1__AllocVolume volume = V1(alloc_volume, .name = "data", .path = "/stage/db");
	Holdfast__V1__AllocVolume *volumes[] = {&volume, &volume, &volume, &volume};
	Holdfast__V1__NodeHalf half = HOLDFAST__V1__NODE_HALF__INIT;
	Holdfast__V1__NodePlugin plugin = V1(node_plugin, .plugin_id = "new", .healthy = true, .node = &half);
	Holdfast__V1__NodePlugin *plugins[] = {&plugin};
	const Holdfast__Driver__V1__TaskStatus *kept;
	size_t before;

	entry->node->adopted_bytes += SESSION_ADOPTED_BYTES_MAX; /* by others */
	before = entry->node->adopted_bytes;
	plugin.allocation_id = TEXT(entry->id);
	f->n1.plugins = plugins;
	f->n1.n_plugins = 1;
	fake_node_send_fingerprint(&f->n1);
	settle(f);
	assert_int_equal(entry->node->adopted_bytes, before);
	up->alloc->tasks[0]->n_attributes = 0;
	up->alloc->description = TEXT("busy");
	up->alloc->published = volumes;
	up->alloc->n_published = ARRAY_SIZE(volumes);
	fake_node_send(&f->n1, up);
	up->alloc->client_status = HOLDFAST__V1__CLIENT_STATUS__COMPLETE;
	fake_node_send(&f->n1, up);
	UNTIL(f, entry->alloc.client_status == CLIENT_COMPLETE);
	kept = (const void *)entry->alloc.task_status->messages[0];
	assert_int_equal(kept->n_attributes, TASK_STATUS_ATTRIBUTES_MAX);
	assert_int_equal(entry->alloc.n_published, 0);
	assert_string_equal(alloc_description(&entry->alloc), "");
	assert_in_range(entry->node->adopted_bytes, before, before + 256); /* the event of its end */
	entry->node->adopted_bytes -= SESSION_ADOPTED_BYTES_MAX;
	f->n1.plugins = NULL;
}

/* A status that takes more memory than the report of the allocation counts for the node, up to its limit, and
 * never for the namespace that the node named. Fields that are not known here are dropped. */
static void grow_by_status(struct fixture *f, const char *id, Holdfast__Driver__V1__TaskStatus *task)
{
	static uint8_t value;
	static ProtobufCMessageUnknownField unknown[2000];
	const struct alloc_entry *entry = state_alloc(&f->server->state, id);
	struct namespace_entry *namespace = namespaces_find(&f->server->state.namespaces, "default");
	const size_t of_namespace = namespace ? namespace->bytes : 0;
	const size_t before = entry->node->adopted_bytes;
	Holdfast__V1__AllocStatus status =
		V1(alloc_status, .alloc_id = TEXT(id), .client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING,
		   .tasks = &task, .n_tasks = 1);
	Holdfast__V1__SessionUp up =
		V1(session_up, .message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_ALLOC, .alloc = &status);

	for (size_t i = 0; i < ARRAY_SIZE(unknown); i++)
		unknown[i] = (ProtobufCMessageUnknownField){15, PROTOBUF_C_WIRE_TYPE_VARINT, 1, &value};
	task->base.unknown_fields = unknown;
	task->base.n_unknown_fields = ARRAY_SIZE(unknown);
	task->restarts++;
	task->n_attributes = TASK_STATUS_ATTRIBUTES_MAX;
	fake_node_send(&f->n1, &up);
	UNTIL(f, entry->node->adopted_bytes > before || f->n1.closed);
	assert_in_range(entry->node->adopted_bytes, before + 1000, before + 2 * TASK_STATUS_BYTES_MAX);
	namespace = namespaces_find(&f->server->state.namespaces, "default");
	assert_int_equal(namespace ? namespace->bytes : 0, of_namespace);
	end_at_limit(f, &up);
}

/* An empty attribute takes two bytes of a report, and fifty of memory. */
CLUSTER_TEST(a_report_brings_only_statuses_of_tasks_within_their_limits)
{
	enum { ATTRIBUTES = TASK_STATUS_ATTRIBUTES_MAX + 1 };
	static char large[TASK_STATUS_BYTES_MAX + 1];
	static Holdfast__Driver__V1__KeyValue *attributes[ATTRIBUTES];
	Holdfast__Driver__V1__KeyValue attribute = PB(holdfast__driver__v1__key_value, .key = "");
	Holdfast__Driver__V1__CsiPluginMount mount =
		PB(holdfast__driver__v1__csi_plugin_mount, .destination = "/csi");
	Holdfast__Driver__V1__TaskConfig config = PB(holdfast__driver__v1__task_config, .task = TEXT("app"),
						     .driver = TEXT("container"), .csi_plugin = &mount);
	Holdfast__Driver__V1__TaskConfig *configs[] = {&config};
	Holdfast__V1__VolumeRequest request =
		V1(volume_request, .name = "data", .source = "db",
		   .access_mode = HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_WRITER);
	Holdfast__V1__VolumeRequest *requests[] = {&request};
	Holdfast__V1__CsiPlugin runs =
		V1(csi_plugin, .id = "new", .type = HOLDFAST__V1__CSI_PLUGIN_TYPE__CSI_PLUGIN_TYPE_NODE);
	Holdfast__V1__CsiPlugin *plugins[] = {&runs};
	char id[UUID_TEXT_SIZE];

	memset(large, 'x', sizeof(large) - 1);
	for (size_t i = 0; i < ATTRIBUTES; i++)
		attributes[i] = &attribute;
	connect_both(f);
	for (enum task_lie lie = 0; lie < TASK_LIES; lie++) {
		Holdfast__Driver__V1__TaskStatus status =
			PB(holdfast__driver__v1__task_status,
			   .task = lie == OTHER_TASK ? TEXT("other") : TEXT("app"), .attributes = attributes,
			   .health = lie == LARGE_TASK ? large : TEXT(""),
			   .n_attributes = lie == MANY_ATTRIBUTES ? ATTRIBUTES : 1);
		Holdfast__Driver__V1__TaskStatus *statuses[] = {&status, &status};
		Holdfast__V1__Allocation alloc =
			V1(allocation, .id = id, .name = "x", .node_id = "n1", .volumes = requests,
			   .n_volumes = 1, .tasks = configs, .n_tasks = 1, .csi_plugins = plugins,
			   .n_csi_plugins = 1, .client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING,
			   .task_status = statuses, .n_task_status = lie == TASK_TWICE ? 2 : 1);
		Holdfast__V1__Allocation *allocs[] = {&alloc};
		Holdfast__V1__NodeReport pb = V1(node_report, .allocations = allocs, .n_allocations = 1);

		(void)str_format(id, sizeof(id), "0189dead-0000-7000-8000-%012d", (int)lie + 1);
		provoke_report(f, &f->n1);
		pb.epoch = f->n1.report_epoch;
		fake_node_send_report(&f->n1, &pb);
		UNTIL(f, f->n1.closed || has_reported(f, "n1"));
		assert_non_null(state_alloc(&f->server->state, id));
		assert_int_equal(message_list_n(state_alloc(&f->server->state, id)->alloc.task_status),
				 lie == HONEST_TASK);
		if (lie == HONEST_TASK)
			grow_by_status(f, id, &status);
	}
}

CLUSTER_TEST(an_order_to_release_proves_nothing_for_an_adopted_claim)
{
	struct claim lie;

	take_volume(f);
	lie = claim_of(f, ALLOC_1);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, f->n1.releases >= 1);
	assert_true(f->n1.last_release_has_ticket);
	fake_node_send_released(&f->n1, &lie);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	(void)str_copy(lie.id, sizeof(lie.id), INVENTED);
	lie.state = CLAIM_TAKEN;
	provoke_report(f, &f->n1);
	report(f, &f->n1, f->n1.report_epoch, NULL, &lie, false);
	UNTIL(f, f->n1.releases >= 1);
	assert_string_equal(f->n1.last_release, INVENTED);
	assert_false(f->n1.last_release_has_ticket);
}

/* It waits on its node until that is stopped, or is in another boot. */
CLUSTER_TEST(work_that_only_its_node_knows_is_not_ordered_of_the_node)
{
	struct volume_request request = {.name = "data",
					 .source = "db",
					 .access_mode = SINGLE_NODE_WRITER,
					 .attachment_mode = ATTACHMENT_FILE_SYSTEM};
	struct alloc alloc = ROW(.namespace = "b", .name = "x", .driver = "systemd",
				 .unit = "payroll.service", .volumes = &request, .n_volumes = 1,
				 .desired_status = DESIRED_RUN, .client_status = CLIENT_PENDING);

	connect_both(f);
	invent(f, &f->n1, &alloc);
	fake_node_disconnect(&f->n1);
	connect_node(&f->n1, "n1");
	settle(f);
	assert_int_equal(f->n1.runs, 0);
	assert_int_equal(alloc_of(f, INVENTED).client_status, CLIENT_PENDING);
	restart(f);
	connect_node(&f->n1, "n1");
	settle(f);
	assert_int_equal(f->n1.runs, 0);
	fake_node_disconnect(&f->n1);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	settle(f);
	assert_int_equal(f->n1.runs, 0);
	assert_int_equal(alloc_of(f, INVENTED).client_status, CLIENT_LOST);
}

/* It was never ordered, and no order follows. */
CLUSTER_TEST(adopted_work_that_has_not_begun_is_lost_when_its_node_has_it_no_longer)
{
	struct volume_request request = {.name = "data",
					 .source = "db",
					 .access_mode = SINGLE_NODE_WRITER,
					 .attachment_mode = ATTACHMENT_FILE_SYSTEM};
	struct alloc alloc = ROW(.namespace = "b", .name = "x", .driver = "systemd",
				 .unit = "payroll.service", .volumes = &request, .n_volumes = 1,
				 .desired_status = DESIRED_RUN, .client_status = CLIENT_PENDING);
	struct backup backup = {0};

	connect_both(f);
	invent(f, &f->n1, &alloc);
	take_backup(f, &backup);
	restore(f, &backup, 1);
	connect_node(&f->n1, "n1");
	report(f, &f->n1, 1, NULL, NULL, false);
	UNTIL(f, has_reported(f, "n1"));
	assert_int_equal(alloc_of(f, INVENTED).client_status, CLIENT_LOST);
	assert_int_equal(f->n1.runs, 0);
}

/* A ticket of work that has ended on n1, whose thief names a unit with it. */
CLUSTER_TEST(a_ticket_with_an_invented_unit_has_the_unit_started_by_no_honest_node)
{
	struct alloc alloc;
	struct claim held;

	forget_that_n1_has_it(f, &alloc, &held);
	(void)str_copy(alloc.driver, sizeof(alloc.driver), "systemd");
	alloc.unit = text("payroll.service");
	alloc.client_status = CLIENT_PENDING;
	report_that_n1_has_it(f, &alloc, &held);
	settle(f);
	assert_true(alloc_of(f, ALLOC_1).adopted);
	fake_node_disconnect(&f->n1);
	connect_node(&f->n1, "n1");
	settle(f);
	assert_int_equal(f->n1.runs, 0);
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_TAKEN);
}

static struct alloc running_member(struct fixture *f, struct fake_node *node)
{
	struct alloc ret;

	UNTIL(f, node->runs == 1);
	start_last(f, node);
	ret = alloc_of(f, node->last_run);
	ret.events = ret.task_status = NULL;
	ret.client_status = CLIENT_RUNNING;
	assert_true(alloc_own(&ret));
	return ret;
}

/* The backup has job web without members. Since then n1 had the member and gave it up by its own word; the
 * member is n2's now. Then n1 has its freed claim ordered away once more. */
CLUSTER_TEST(an_order_to_release_is_no_proof_of_the_next_holders_place)
{
	cleanup(alloc_release) struct alloc mine = {0}, honest = {0};
	struct ticket ticket, of_honest;
	struct backup backup = {0};
	struct claim held, other;
	struct submission s;

	connect_both(f);
	make_job(f, &s);
	fake_node_disconnect(&f->n1);
	fake_node_disconnect(&f->n2);
	UNTIL(f,
	      !state_node(&f->server->state, "n1")->session && !state_node(&f->server->state, "n2")->session);
	assert_int_equal(run(f, &s, NULL), 1);
	take_backup(f, &backup);
	connect_node(&f->n1, "n1");
	mine = running_member(f, &f->n1);
	held = claim_of(f, mine.id);
	connect_node(&f->n2, "n2");
	fake_node_send_alloc(&f->n1, mine.id, HOLDFAST__V1__CLIENT_STATUS__FAILED);
	fake_node_send_without_plugin(&f->n1, &held, "");
	UNTIL(f, state_of(f, mine.id) == CLAIM_FREED);
	honest = running_member(f, &f->n2);
	other = claim_of(f, honest.id);
	of_honest = ticket_of(f, &other);
	f->n1.releases = 0;
	fake_node_send_failed(&f->n1, &held, STATUS_UNAVAILABLE, "busy");
	UNTIL(f, f->n1.releases == 1);
	assert_true(f->n1.last_release_has_ticket);
	ticket = f->n1.last_release_ticket;
	assert_true(ticket.generation < other.generation);
	held.generation = ticket.generation;
	held.state = CLAIM_TAKEN;
	held.evidence = EVIDENCE_NONE;
	restore(f, &backup, 1);
	connect_node(&f->n1, "n1");
	report_with(&f->n1, 1, &mine, &held, &ticket, false);
	UNTIL(f, has_reported(f, "n1"));
	connect_node(&f->n2, "n2");
	report_with(&f->n2, 1, &honest, &other, &of_honest, false);
	UNTIL(f, has_reported(f, "n2"));
	UNTIL(f, f->n1.stops + f->n2.stops >= 1);
	settle(f);
	assert_int_equal(f->n1.stops, 1);
	assert_int_equal(f->n2.stops, 0);
}
