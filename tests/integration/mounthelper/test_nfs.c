/* SPDX-License-Identifier: Apache-2.0 */
/* Class nfs4 through the real helper, in mount and pid namespaces of its own as the root tests. Needs three
 * servers, as tests/vm/payloads/nfs makes them: 127.0.0.1 serves /srv/holdfast/rw, writable for everybody,
 * and /srv/holdfast/ro with a file, and is stopped and started again; 127.0.0.2 refuses connections;
 * 192.0.2.2 never answers. */
#include "volume.h"

#include "base/clock.h"

#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>

enum { TIMEOUT_S = 6, TRIES = 20 };

#define PROFILES                                                   \
	"\tprofile filer { class = nfs4; export = /srv/holdfast\n" \
	"\t\tserver = 127.0.0.0/8; server = 192.0.2.0/24 }\n"      \
	"\tprofile wide { class = nfs4; export = /srv/holdfast; server = 0.0.0.0/0 }\n"

/* On a busy machine a server takes its time to answer. */
static const char patient[] = "\tnfs_timeout = 600\n" PROFILES;
static const char impatient[] = "\tnfs_timeout = 6\n" PROFILES; /* TIMEOUT_S */

static struct agent agent;

static struct mh_source export_of(const uint8_t addr[static 4], const char *path)
{
	struct mh_source source = {.class = MH_CLASS_NFS4, .u.nfs4.family = 4};

	memcpy(source.u.nfs4.addr, addr, 4);
	(void)str_copy(source.u.nfs4.export, sizeof(source.u.nfs4.export), path);
	return source;
}

static const uint8_t serving[] = {127, 0, 0, 1};
static const uint8_t refusing[] = {127, 0, 0, 2};
static const uint8_t silent[] = {192, 0, 2, 2};

static int start(void **state)
{
	world_policy("required", patient);
	agent_up(&agent);
	return 0;
}

/* Has another helper, which waits for TIMEOUT_S only. */
static void hurry(void)
{
	(void)agent_stop(&agent);
	world_policy("required", impatient);
	agent_up(&agent);
}

static int stop(void **state)
{
	(void)agent_stop(&agent);
	(void)umount2(PUBLISHED, MNT_DETACH);
	(void)umount2(STAGED, MNT_DETACH);
	(void)rmdir(STAGED);
	return count_mounts();
}

TEST_FIXTURE(an_export_is_staged_written_and_kept, start, stop)
{
	const struct mh_source source = export_of(serving, "/srv/holdfast/rw");

	(void)unlink("/srv/holdfast/rw/from-task");
	expect_stage(&agent, stage_of("filer", source, false), MH_OK);
	assert_inert("rw");
	assert_string_equal(shown(STAGED).type, "nfs4");
	assert_string_equal(shown(STAGED).source, "127.0.0.1:/srv/holdfast/rw");
	assert_words(shown(STAGED).super_options,
		     "rw,vers=4.2,hard,nosharecache,proto=tcp,sec=sys,addr=127.0.0.1", "soft,softerr");
	expect_stage(&agent, stage_of("filer", source, false), MH_ALREADY);
	expect_stage(&agent, stage_of("filer", export_of(serving, "/srv/holdfast/ro"), false), MH_CONFLICT);
	assert_last_record("reason=other-mount");
	expect_publish(&agent, publish_of("filer", source, false), MH_OK);
	assert_words(shown(PUBLISHED).options, "rw,nosuid,nodev,noexec", "");
	assert_int_equal(task_writes(PUBLISHED "/from-task"), 0);
	take_away(&agent);
	assert_int_equal(access("/srv/holdfast/rw/from-task", F_OK), 0);
}

TEST_FIXTURE(a_reader_gets_errors_instead_of_waiting, start, stop)
{
	const struct mh_source source = export_of(serving, "/srv/holdfast/ro");

	expect_stage(&agent, stage_of("filer", source, true), MH_OK);
	assert_inert("ro");
	assert_words(shown(STAGED).super_options, "ro,vers=4.2,softerr,timeo=100,retrans=2", "hard");
	expect_publish(&agent, publish_of("filer", source, true), MH_OK);
	assert_int_equal(access(PUBLISHED "/file", R_OK), 0);
	take_away(&agent);
}

TEST_FIXTURE(only_the_policys_servers_and_exports_are_asked, start, stop)
{
	static const uint8_t other[] = {198, 51, 100, 1};

	expect_stage(&agent, stage_of("filer", export_of(serving, "/srv/holdfast2"), false), MH_REFUSED);
	assert_last_record("reason=export-not-allowed");
	expect_stage(&agent, stage_of("filer", export_of(other, "/srv/holdfast/rw"), false), MH_REFUSED);
	assert_last_record("reason=server-not-allowed");
	expect_stage(&agent, stage_of("wide", export_of(serving, "/srv/holdfast/rw"), false), MH_REFUSED);
	assert_last_record("reason=server-not-allowed");
	expect_stage(&agent, stage_of("filer", export_of(serving, "/srv/holdfast/none"), false), MH_KERNEL);
	assert_last_record("errno=2 step=create");
	assert_int_equal(count_mounts(), 0);
}

TEST_FIXTURE(a_server_that_refuses_is_an_error_at_once, start, stop)
{
	hurry();
	/* an answer: the alarm has not ended the helper */
	expect_stage(&agent, stage_of("filer", export_of(refusing, "/srv/holdfast/rw"), true), MH_KERNEL);
	assert_last_record("step=create");
	assert_int_equal(count_mounts(), 0);
}

static void assert_died_of_alarm(void)
{
	int status = agent_stop(&agent);

	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGALRM);
}

/* The helper dies instead of waiting; the trail has an intent without a result, and the next one continues.
 */
TEST_FIXTURE(a_server_that_never_answers_costs_one_helper, start, stop)
{
	struct mh_stage req = stage_of("filer", export_of(silent, "/srv/holdfast/rw"), false);
	struct mh_reply reply;
	uint64_t before;

	hurry();
	before = clock_monotonic_us();
	assert_false(agent_call(&agent, &req, sizeof(req), &reply));
	assert_true(clock_monotonic_us() - before >= TIMEOUT_S * UINT64_C(1000000));
	assert_died_of_alarm();
	assert_last_record("op=stage phase=intent");
	assert_int_equal(count_mounts(), 0);
	world_policy("required", patient);
	agent_up(&agent);
	expect_stage(&agent, stage_of("filer", export_of(serving, "/srv/holdfast/rw"), false), MH_OK);
	expect_unstage(&agent, unstage("vol-1"), MH_OK);
}

static void server_down(void)
{
	static const char *const down[] = {"/usr/sbin/rpc.nfsd", "0", NULL};

	assert_int_equal(run_program(down), 0);
}

static void server_up(void)
{
	static const char *const up[] = {"/usr/sbin/rpc.nfsd",
					 "--host",
					 "127.0.0.1",
					 "--no-nfs-version",
					 "3",
					 "--nfs-version",
					 "4.2",
					 "2",
					 NULL};

	assert_int_equal(run_program(up), 0);
}

/* True when the helper answered; else it died of its alarm, and there is another one. */
static bool is_answered(void *request, size_t n, struct mh_reply *reply)
{
	if (agent_call(&agent, request, n, reply))
		return true;
	assert_died_of_alarm();
	agent_up(&agent);
	return false;
}

/* The client continues at its own pace. */
static void until_answered(void *request, size_t n)
{
	struct mh_reply reply = {.status = MH_KERNEL};

	for (int i = 0; i < TRIES && !is_answered(request, n, &reply); i++)
		;
	assert_true(reply.status == MH_OK || reply.status == MH_ALREADY);
}

/* Whether the server is asked depends on what the client knows of the root, and how long it has known it. */
TEST_FIXTURE(a_server_that_went_away_costs_one_helper_a_request_at_most, start, stop)
{
	struct mh_publish publish = publish_of("filer", export_of(serving, "/srv/holdfast/rw"), false);
	struct mh_unpublish take_back = unpublish("vol-1");
	struct mh_unstage take_down = unstage("vol-1");
	struct mh_reply reply;

	expect_stage(&agent, stage_of("filer", export_of(serving, "/srv/holdfast/rw"), false), MH_OK);
	hurry();
	/* in the procfs of this pid namespace */
	assert_int_equal(mount("nfsd", "/proc/fs/nfsd", "nfsd", 0, NULL), 0);
	server_down();
	(void)is_answered(&publish, sizeof(publish), &reply);
	(void)is_answered(&take_back, sizeof(take_back), &reply);
	(void)is_answered(&take_down, sizeof(take_down), &reply);
	server_up();
	until_answered(&take_back, sizeof(take_back));
	until_answered(&take_down, sizeof(take_down));
	assert_int_equal(count_mounts(), 0);
}

TEST_GROUP(world_up, world_down)
