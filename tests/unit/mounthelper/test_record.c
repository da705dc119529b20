/* SPDX-License-Identifier: Apache-2.0 */
#include "record.h"
#include "workbench.h"

#include <sodium.h>

static int count(const char *text, const char *word)
{
	int n = 0;

	for (const char *at = text; (at = strstr(at, word)); at++)
		n++;
	return n;
}

static struct agent_policy agent;

/* The fixture's agent with the word of the policy on audit. */
static void audit_is_optional(bool optional)
{
	agent = *helper.agent;
	agent.audit_optional = optional;
	helper.agent = &agent;
}

static void run_all(enum mh_status stage_status, enum mh_status publish_status)
{
	ASSERT_REPLY(stage(fixture_stage()), stage_status);
	ASSERT_REPLY(publish(fixture_publish()), publish_status);
	ASSERT_REPLY(unpublish(fixture_unpublish()), MH_OK);
	ASSERT_REPLY(unstage(fixture_unstage()), MH_OK);
}

TEST_FIXTURE(intent_and_result_go_to_log_and_audit_with_one_text, setup, teardown)
{
	run_all(MH_OK, MH_OK);
	assert_int_equal(count(fake_log(), " phase=intent "), 4);
	assert_int_equal(count(fake_log(), " phase=result "), 4);
	assert_string_equal(fake_audit(), fake_log());
	assert_null(strstr(fake_log(), "degraded"));
}

TEST_FIXTURE(a_refusal_is_recorded_with_its_reason, setup, teardown)
{
	struct mh_stage req = fixture_stage();

	(void)str_copy(req.profile, sizeof(req.profile), "nonesuch");
	ASSERT_REPLY(stage(req), MH_REFUSED);
	ASSERT_RECORDED("phase=refused");
	ASSERT_RECORDED(" reason=profile-unknown res=failed ");
	assert_string_equal(fake_audit(), fake_log());
}

/* The reply does not wait for the audit; nothing overtakes the record on its way there. */
TEST_FIXTURE(a_result_is_in_the_own_log_before_the_reply_and_everywhere_before_the_next_record, setup,
	     teardown)
{
	union mh_request req = {.stage = fixture_stage()};
	union mh_answer answer;

	assert_int_equal(ops_run(&helper, &req, &answer), REASON_NONE);
	assert_int_equal(count(fake_log(), " phase=result "), 1);
	assert_int_equal(count(fake_audit(), " phase=intent "), 1);
	assert_int_equal(count(fake_audit(), " phase=result "), 0);
	assert_int_equal(fake_locks_held(), 0); /* not of the log either: its digest is in the reply */
	ASSERT_REPLY(unstage(fixture_unstage()), MH_OK);
	assert_string_equal(fake_audit(), fake_log());
	assert_int_equal(fake_locks_held(), 0);
	record_pass_on(&helper);
	assert_string_equal(fake_audit(), fake_log());
}

TEST_FIXTURE(the_kernel_confirms_an_intent_and_is_not_asked_about_a_result, setup, teardown)
{
	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	ASSERT_REPLY(unstage(fixture_unstage()), MH_OK);
	assert_int_equal(count(fake_audit(), "\n"), 4);
	assert_int_equal(fake_audit_confirmed(), 2);
	record_end(&helper, false, REASON_CLOSED, 3);
	assert_int_equal(fake_audit_confirmed(), 3);
}

TEST_FIXTURE(a_refused_result_record_does_not_fail_the_next_intent, setup, teardown)
{
	union mh_request req = {.stage = fixture_stage()};
	union mh_answer answer;

	assert_int_equal(ops_run(&helper, &req, &answer), REASON_NONE);
	fake_audit_answers(ECONNREFUSED);
	record_pass_on(&helper);
	fake_audit_answers(0);
	ASSERT_REPLY(publish(fixture_publish()), MH_OK);
	assert_null(strstr(fake_log(), "degraded"));
}

static void expect_no_new_mounts(void)
{
	ASSERT_REPLY(stage(fixture_stage()), MH_UNAVAILABLE);
	assert_false(fake_is_mount(STAGED));
	ASSERT_RECORDED("phase=result");
	ASSERT_RECORDED("status=unavailable errno=0 step=trail reason=none trail=degraded res=failed");
	ASSERT_REPLY(publish(fixture_publish()), MH_UNAVAILABLE);
}

/* Make audit fail in way @way; false when there are no more. */
static bool break_audit(int way)
{
	switch (way) {
	case 0:
		fake_audit_answers(EPERM);
		return true;
	case 1:
		fake_audit_is_mute();
		return true;
	case 2:
		fake_audit_takes_nothing();
		return true;
	case 3:
		helper.audit_fd = FAKE_AUDIT_FD;
		fake_audit_answers(ECONNREFUSED);
		return true;
	case 4:
		fake_audit_is_off();
		return true;
	default:
		return false;
	}
}

TEST_FIXTURE(without_required_audit_only_cleaning_up_continues, setup, teardown)
{
	for (int way = 0; break_audit(way); way++) {
		expect_no_new_mounts();
		new_world("");
		ASSERT_REPLY(stage(fixture_stage()), MH_OK);
		ASSERT_REPLY(publish(fixture_publish()), MH_OK);
		(void)break_audit(way);
		ASSERT_REPLY(unpublish(fixture_unpublish()), MH_OK);
		ASSERT_RECORDED(" trail=degraded res=success ");
		ASSERT_REPLY(unstage(fixture_unstage()), MH_OK);
		ASSERT_RECORDED(" trail=degraded res=success ");
		new_world("");
	}
}

TEST_FIXTURE(without_optional_audit_everything_continues, setup, teardown)
{
	for (int way = 0; break_audit(way); way++) {
		audit_is_optional(true);
		run_all(MH_OK, MH_OK);
		assert_null(strstr(fake_log(), "degraded"));
		assert_string_equal(fake_audit(), "");
		new_world("");
	}
}

TEST_FIXTURE(an_audit_that_could_not_be_opened_is_not_called, setup, teardown)
{
	audit_is_optional(true);
	helper.audit_fd = -EPROTONOSUPPORT;
	run_all(MH_OK, MH_OK); /* the model knows no other descriptors */
	assert_string_equal(fake_audit(), "");
	audit_is_optional(false);
	ASSERT_REPLY(stage(fixture_stage()), MH_UNAVAILABLE);
}

TEST_FIXTURE(records_the_log_rejects_still_reach_the_audit, setup, teardown)
{
	const char *audit;

	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	fake_log_full(true);
	ASSERT_REPLY(unstage(fixture_unstage()), MH_OK);
	audit = NON_NULL(strstr(fake_audit(), "op=unstage phase=result"));
	assert_non_null(strstr(audit, " trail=degraded res=success\n")); /* no number, no chain */
	assert_null(strstr(fake_log(), "op=unstage"));
}

TEST_FIXTURE(a_start_record_shows_staged_and_published_counts, setup, teardown)
{
	helper.instance = 3;
	record_start(&helper, 1, 2);
	assert_int_equal(helper.trail_fault, TRAIL_GOOD);
	ASSERT_RECORDED(" op=start phase=event seq=0 version=");
	ASSERT_RECORDED(" instance=3 container=0 staged=1 published=2 append_only=0 ticket=required kernel=");
	ASSERT_RECORDED(" boot=" FIXTURE_BOOT_ID " digest=sha256:0000");
	ASSERT_RECORDED(
		" peer_uid=995 peer_pid=4711 door=setuid policy=sha256:0000000000000000 res=success ");
	assert_string_equal(fake_audit(), fake_log());
}

/* A helper that starts while the trail takes nothing, in the world as it is: it cleans up and mounts nothing.
 */
static void expect_only_cleaning(enum mh_trail fault)
{
	record_start(&helper, 1, 1);
	assert_int_equal(helper.trail_fault, fault);
	ASSERT_REPLY(stage(fixture_stage()), MH_UNAVAILABLE);
	ASSERT_REPLY(publish(fixture_publish()), MH_UNAVAILABLE);
	ASSERT_REPLY(look("vol-1", "", 0), MH_OK);
	ASSERT_REPLY(unpublish(fixture_unpublish()), MH_OK);
	ASSERT_REPLY(unstage(fixture_unstage()), MH_OK);
	assert_false(fake_is_mount(STAGED));
	assert_false(fake_is_mount(PUBLISHED));
}

TEST_FIXTURE(a_helper_that_starts_without_required_audit_cleans_up, setup, teardown)
{
	for (int way = 0; break_audit(way); way++) {
		new_world("");
		ASSERT_REPLY(stage(fixture_stage()), MH_OK);
		ASSERT_REPLY(publish(fixture_publish()), MH_OK);
		start_helper("");
		(void)break_audit(way);
		expect_only_cleaning(TRAIL_AUDIT);
		assert_int_equal(count(fake_log(), " op=start "), 1);
		new_world("");
	}
	helper.audit_fd = -EPROTONOSUPPORT;
	record_start(&helper, 0, 0);
	assert_int_equal(helper.trail_fault, TRAIL_AUDIT);
	audit_is_optional(true);
	helper.trail_fault = TRAIL_GOOD;
	record_start(&helper, 0, 0);
	assert_int_equal(helper.trail_fault, TRAIL_GOOD);
}

TEST_FIXTURE(a_helper_that_starts_without_its_log_cleans_up, setup, teardown)
{
	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	ASSERT_REPLY(publish(fixture_publish()), MH_OK);
	start_helper("");
	helper.trail.fd = helper.trail.read_fd = -EROFS;
	expect_only_cleaning(TRAIL_LOG);
	assert_null(strstr(fake_log(), " op=start "));
}

TEST_FIXTURE(a_log_that_takes_records_again_begins_with_the_start, setup, teardown)
{
	ASSERT_REPLY(stage(fixture_stage()), MH_OK);
	ASSERT_REPLY(publish(fixture_publish()), MH_OK);
	start_helper("");
	fake_log_full(true);
	record_start(&helper, 1, 1);
	assert_int_equal(helper.trail_fault, TRAIL_LOG_END);
	ASSERT_REPLY(publish(fixture_publish()), MH_UNAVAILABLE);
	ASSERT_REPLY(unpublish(fixture_unpublish()), MH_OK);
	fake_log_full(false);
	ASSERT_REPLY(publish(fixture_publish()), MH_OK);
	assert_int_equal(count(fake_log(), " op=start "), 1);
	assert_int_equal(count(fake_audit(), " op=start "), 1);
	assert_true(strstr(fake_log(), " op=start ") <
		    strstr(strstr(fake_log(), " op=start "), " op=publish "));
	ASSERT_REPLY(unpublish(fixture_unpublish()), MH_OK);
	assert_int_equal(count(fake_log(), " op=start "), 1);
}

TEST_FIXTURE(the_end_gives_the_reason_and_sums_up_the_refusals, setup, teardown)
{
	helper.refusals_unrecorded = 5;
	record_end(&helper, false, REASON_CLOSED, 9);
	ASSERT_RECORDED(" op=stop phase=event seq=9 peer_uid=995 ");
	ASSERT_RECORDED(" reason=closed res=success ");
	assert_non_null(strstr(fake_log(), " op=refusals phase=event seq=0 count=5 "));
	record_end(&helper, true, REASON_MAGIC, 10);
	ASSERT_RECORDED(" op=violation phase=event seq=10 ");
	ASSERT_RECORDED(" reason=magic res=failed ");
	assert_string_equal(fake_audit(), fake_log());
}

static void put(const union mh_request *req)
{
	const struct admission admission = {.profile = NULL};
	const struct outcome outcome = {.status = MH_OK};
	uint64_t rec;

	assert_int_equal(record_request(&helper, req, &admission, &outcome, &rec), 0);
}

TEST_FIXTURE(every_class_of_source_is_named, setup, teardown)
{
	union mh_request req = {.stage = fixture_stage()};
	struct mh_source *source = &req.stage.source;

	put(&req);
	ASSERT_RECORDED(" src=" FIXTURE_BY_ID " dev=7:3 ");
	*source = (struct mh_source){.class = MH_CLASS_TMPFS,
				     .u.tmpfs = {.size_bytes = UINT64_C(1) << 40, .inodes = 77}};
	put(&req);
	ASSERT_RECORDED(" size=1099511627776 inodes=77 ");
	*source = (struct mh_source){.class = MH_CLASS_NFS4, .u.nfs4 = {.family = 4, .addr = {192, 0, 2, 9}}};
	(void)str_copy(source->u.nfs4.export, MH_EXPORT_SIZE, "/srv/a-b_c.d");
	put(&req);
	ASSERT_RECORDED(" src=/srv/a-b_c.d addr=192.0.2.9 ");
	*source = (struct mh_source){
		.class = MH_CLASS_NFS4,
		.u.nfs4 = {.family = 6, .addr = {0x20, 0x01, 0x0d, 0xb8, [15] = 1}, .export = "/"}};
	put(&req);
	ASSERT_RECORDED(" src=/ addr=2001:db8::1 ");
	*source = (struct mh_source){.class = MH_CLASS_BIND, .u.bind = {.name = "media"}};
	put(&req);
	ASSERT_RECORDED(" src=media ");
	*source = (struct mh_source){.class = MH_CLASS_CSI};
	(void)str_copy(req.stage.profile, MH_LABEL_SIZE, "ceph");
	put(&req);
	ASSERT_RECORDED(" profile=ceph ro=0 src=ceph ");
}

TEST_FIXTURE(every_operation_record_names_its_arguments, setup, teardown)
{
	union mh_request req = {.publish = fixture_publish()};

	req.publish.propagation = TICKET_PROPAGATION_HOST_TO_TASK;
	req.publish.exec = 1;
	put(&req);
	ASSERT_RECORDED(" op=publish phase=result seq=2 vol=vol-1 alloc=" FIXTURE_ALLOC
			" slot=2 profile=db ro=0 exec=1 prop=host-to-task peer_uid=");
	req = (union mh_request){.unpublish = fixture_unpublish()};
	req.unpublish.detach = 1;
	put(&req);
	ASSERT_RECORDED(" op=unpublish phase=result seq=2 vol=vol-1 alloc=" FIXTURE_ALLOC
			" slot=2 detach=1 peer_uid=");
	req = (union mh_request){.unstage = fixture_unstage()};
	put(&req);
	ASSERT_RECORDED(" op=unstage phase=result seq=2 vol=vol-1 detach=0 peer_uid=");
	(void)str_copy(req.unstage.profile, sizeof(req.unstage.profile), "csi.plug");
	put(&req);
	ASSERT_RECORDED(" op=unstage phase=result seq=2 vol=vol-1 profile=csi.plug detach=0 peer_uid=");
}

static void fill(char *label, size_t size)
{
	memset(label, 'x', size - 1);
	label[size - 1] = '\0';
}

/* Whatever is asked for can be put on record. */
TEST_FIXTURE(the_longest_names_fit_a_record, setup, teardown)
{
	static char cluster[TICKET_CLUSTER_SIZE], node[TICKET_NODE_SIZE];
	const struct profile profile = {.kind = FS_SQUASHFS};
	const struct ticket ticket = {.generation = UINT64_MAX};
	const struct admission admission = {.profile = &profile, .ticket = &ticket};
	const struct outcome outcome = {.status = MH_UNAVAILABLE,
					.sys_errno = 133,
					.step = STEP_ATTACH,
					.reason = REASON_FOREIGN_DIRECTORY,
					.dev_major = 4095,
					.dev_minor = 1048575,
					.is_degraded = true};
	union mh_request req = {.stage = fixture_stage()};
	uint64_t rec;

	fill(cluster, sizeof(cluster));
	fill(node, sizeof(node));
	helper.trail.origin = (struct keyline)KEYLINE_INIT;
	keyline_words(&helper.trail.origin, "cluster", cluster, "node", node);
	helper.trail.head->rec = UINT64_MAX - 3;
	helper.peer_uid = UINT32_MAX;
	helper.peer_pid = INT32_MAX;
	req.stage.header.seq = UINT64_MAX;
	fill(req.stage.volume, sizeof(req.stage.volume));
	fill(req.stage.profile, sizeof(req.stage.profile));
	req.stage.source = (struct mh_source){.class = MH_CLASS_NFS4, .u.nfs4 = {.family = 6}};
	memset(req.stage.source.u.nfs4.addr, 0x11, sizeof(req.stage.source.u.nfs4.addr));
	fill(req.stage.source.u.nfs4.export, MH_EXPORT_SIZE);
	assert_int_equal(record_request(&helper, &req, &admission, &outcome, &rec), 0);
	ASSERT_RECORDED(" head=rotated "); /* which makes it longer still */
	assert_true(strlen(last_record()) <= CHAIN_LOG_LINE_MAX);
}

/* Every line names the digest of the line before, whatever that line is. */
static void check_chain(void)
{
	char prev[CHAIN_LOG_DIGEST_HEX + 1];

	memset(prev, '0', CHAIN_LOG_DIGEST_HEX);
	prev[CHAIN_LOG_DIGEST_HEX] = '\0';
	for (const char *line = fake_log(); *line != '\0'; line = strchr(line, '\n') + 1) {
		size_t n = strcspn(line, "\n");
		uint8_t digest[crypto_hash_sha256_BYTES];

		assert_true(n > CHAIN_LOG_DIGEST_HEX && line[n] == '\n');
		assert_memory_equal(line + n - CHAIN_LOG_DIGEST_HEX, prev, CHAIN_LOG_DIGEST_HEX);
		(void)crypto_hash_sha256(digest, (const unsigned char *)line, n);
		hex_encode(prev, digest, sizeof(digest));
	}
}

TEST_FIXTURE(the_chain_holds_whatever_call_a_death_comes_at, setup, teardown)
{
	volatile bool fired = true;

	for (volatile int at = 1; fired; at++) {
		for (volatile int after = 0; after < 2; after++) {
			new_world("");
			fake_fault(after ? FAKE_KILL_AFTER : FAKE_KILL_BEFORE, at, 0);
			if (setjmp(fake_killed) == 0)
				run_all(MH_OK, MH_OK);
			fired = fake_fault_fired();
			fake_process_died();
			start_helper("");
			(void)unstage(fixture_unstage()); /* whatever is left: it is put on record */
			assert_null(strstr(fake_log(), "head=mismatch"));
			check_chain();
		}
	}
}
