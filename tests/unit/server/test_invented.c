/* SPDX-License-Identifier: Apache-2.0 */
/* What a node, or a thief of its certificate, invents about work that only it knows. It is asked to report at
 * any time, if its hello names an unknown allocation. */

#include "asks.h"
#include "restored.h"
#include "submission.h"
#include "unit.h"

#define UNKNOWN "0189dead-0000-7000-8000-00000000000f"
#define INVENTED "0189dead-0000-7000-8000-000000000001"

static void provoke_report(struct fixture *f, struct fake_node *node)
{
	Holdfast__V1__AllocStatus unknown = V1(alloc_status, .alloc_id = TEXT(UNKNOWN),
					       .client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	Holdfast__V1__AllocStatus *list[] = {&unknown};
	char id[NODE_ID_MAX + 1];

	(void)str_copy(id, sizeof(id), node->id);
	if (node->stream)
		fake_node_disconnect(node);
	fake_node_connect(node, id, BOOT_1, list, 1);
	UNTIL(f, node->reports_wanted == 1);
}

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
