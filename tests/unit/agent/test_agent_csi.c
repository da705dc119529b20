/* SPDX-License-Identifier: Apache-2.0 */
/* A whole agent with csi volumes: the plugin is a model behind csi_client.h, its socket a real one. */

#include "fake_csi.h"
#include "scenario.h"

#include "base/clock.h"
#include "base/fd.h"
#include "kernel/mount_table.h"
#include "model/usage.h"

#include <dirent.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

static char plugin_dir[TEMP_DIR_SIZE];
static char plugin_folder[TEMP_PATH_SIZE];
static char plugin_socket[TEMP_PATH_SIZE];
static struct world *world;
static struct fake_csi_plugin *plugin;
static bool is_one_export; /* all volumes have one device */

static void on_mount(const char *path, const struct fake_csi_target *target, void *userdata)
{
	static uint32_t minor = 200;
	bool is_device = target && target->is_device;
	const struct fake_place place = {.is_mounted = true,
					 .is_device = is_device,
					 .read_only = target && target->read_only,
					 .major = is_device ? 8 : 0,
					 .minor = is_one_export ? minor : minor++};

	fake_helper_plugin(&world->fake, path, &place);
}

static void on_unmount(const char *path, void *userdata)
{
	fake_helper_plugin(&world->fake, path, NULL);
}

static void make_socket(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(str_copy(address.sun_path, sizeof(address.sun_path), path), 0);
	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
}

static int setup(void **state)
{
	struct world *w;

	(void)world_setup(state);
	world = w = *state;
	is_one_export = false;
	temp_dir_make(plugin_dir);
	(void)temp_dir_path(plugin_folder, plugin_dir, MODEL_PLUGIN);
	assert_int_equal(mkdir(plugin_folder, 0700), 0);
	(void)temp_dir_path(plugin_socket, plugin_folder, "csi.sock");
	make_socket(plugin_socket);
	fake_csi_init();
	fake_csi.on_mount = on_mount;
	fake_csi.on_unmount = on_unmount;
	plugin = fake_csi_add(plugin_socket);
	(void)str_copy(w->config.plugin_dir, sizeof(w->config.plugin_dir), plugin_dir);
	w->config.plugin_wait_us = 20 * USEC_PER_SEC;
	w->server.is_csi = true;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	world_kill_agent(w);
	fake_csi_release();
	(void)world_teardown(state);
	(void)remove(plugin_socket);
	temp_dir_remove(plugin_folder);
	temp_dir_remove(plugin_dir);
	return 0;
}

static const char *awaited;

static bool awaited_ended(struct world *w)
{
	return alloc_is_client_terminal(&model_server_alloc(&w->server, awaited)->alloc);
}

static void stop_only(struct world *w, const char *id)
{
	awaited = id;
	model_server_want_stop(&w->server, id);
	WORLD_UNTIL(w, awaited_ended);
}

static unsigned int calls(enum csi_method method)
{
	return plugin->calls[method];
}

static void expect_no_folders(const struct world *w)
{
	for (size_t i = 0; i < FAKE_FOLDERS_MAX; i++)
		assert_false(w->fake.state->folders[i].is_used);
}

/* Everything that the agent has written. */
static bool journal_holds(const struct world *w, const char *text)
{
	DIR *folder = NON_NULL(opendir(w->config.data_dir));
	const struct dirent *entry;
	bool holds = false;

	while (!holds && (entry = readdir(folder))) {
		char path[TEMP_PATH_SIZE];
		cleanup_free char *bytes = NULL;
		size_t n = 0;

		if (!str_starts_with(entry->d_name, "agent.db"))
			continue;
		if (file_read(temp_dir_path(path, w->config.data_dir, entry->d_name), 1 << 26, &bytes, &n) ==
		    0)
			holds = memmem(bytes, n, text, strlen(text)) != NULL;
	}
	(void)closedir(folder);
	return holds;
}

#define ALLOC_C "0190a5a0-0000-7000-8000-0000000000c3"

#define CASE(name) TEST_ON(name, struct world, w, setup, teardown)

CASE(a_csi_volume_lives_and_goes_with_its_allocation)
{
	const struct model_alloc *a;
	const struct fake_csi_volume *volume;
	char external[64];

	start_with_a(w, 2);
	a = model_server_alloc(&w->server, ALLOC_A);
	assert_string_equal(a->alloc.published[1].path, FAKE_PUBLISH_BASE "/" ALLOC_A "/1");
	assert_false(a->alloc.published[1].is_device);
	(void)str_format(external, sizeof(external), "ext/%s", a->alloc.volumes[1].source);
	volume = NON_NULL(fake_csi_volume(external));
	assert_string_equal(volume->last_secret, MODEL_SECRET);
	assert_string_equal(volume->last_publish_context, "/dev/model");
	assert_int_equal(calls(CSI_NODE_STAGE_VOLUME), 2);
	stop_a(w);
	assert_int_equal(calls(CSI_NODE_UNPUBLISH_VOLUME), 2);
	assert_int_equal(calls(CSI_NODE_UNSTAGE_VOLUME), 2);
	expect_nothing_mounted(w);
	expect_no_folders(w);
	assert_true(journal_holds(w, "n1"));
	assert_false(journal_holds(w, MODEL_SECRET));
	assert_false(journal_holds(w, "/dev/model"));
}

static bool both_run(struct world *w)
{
	return status_of(w, ALLOC_A) == CLIENT_RUNNING && status_of(w, ALLOC_B) == CLIENT_RUNNING;
}

CASE(readers_and_writers_share_a_volume_and_go_one_by_one)
{
	struct alloc b = records_alloc(ALLOC_B, 1);
	const char *const ro = "/ro-publish", *const rw = "/rw-publish";
	char path[2][128];

	b.volumes[0].read_only = true;
	world_start_agent(w);
	run_a(w, 1);
	model_server_run(&w->server, &b);
	WORLD_UNTIL(w, both_run);
	(void)str_format(path[0], sizeof(path[0]), FAKE_PLUGIN_BASE "/%s%s", world_wire("vol0"), rw);
	(void)str_format(path[1], sizeof(path[1]), FAKE_PLUGIN_BASE "/%s%s", world_wire("vol0"), ro);
	assert_true(fake_csi_is_published("ext/vol0", path[0]));
	assert_true(fake_csi_is_published("ext/vol0", path[1]));
	stop_only(w, ALLOC_A);
	assert_false(fake_csi_is_published("ext/vol0", path[0]));
	assert_true(fake_csi_is_published("ext/vol0", path[1]));
	assert_int_equal(calls(CSI_NODE_UNSTAGE_VOLUME), 0);
	stop_only(w, ALLOC_B);
	assert_int_equal(calls(CSI_NODE_UNSTAGE_VOLUME), 1);
	expect_no_folders(w);
}

static bool b_runs(struct world *w)
{
	return status_of(w, ALLOC_B) == CLIENT_RUNNING;
}

static bool both_are_lost(struct world *w)
{
	return status_of(w, ALLOC_A) == CLIENT_LOST && status_of(w, ALLOC_B) == CLIENT_LOST;
}

CASE(the_plugin_stays_until_a_drain_has_no_more_need_of_it)
{
	struct csi_plugin run_by_b = {.id = MODEL_PLUGIN, .type = CSI_PLUGIN_MONOLITH};
	struct alloc b = records_alloc(ALLOC_B, 0);
	struct drain_answer answer;

	b.plugins = &run_by_b;
	b.n_plugins = 1;
	world_start_agent(w);
	model_server_run(&w->server, &b);
	WORLD_UNTIL(w, b_runs);
	run_a(w, 2);
	WORLD_UNTIL(w, a_runs);
	answer = ask_drain(w, 20000, false, 0);
	assert_int_equal(answer.err.status, STATUS_OK);
	protobuf_c_message_free_unpacked(&answer.response->base, NULL);
	WORLD_UNTIL(w, both_are_lost);
	assert_int_equal(calls(CSI_NODE_UNSTAGE_VOLUME), 2);
	for (unsigned int i = 0; i < w->server.n_claims; i++)
		assert_true(w->server.claims[i].released_clock <
			    model_server_alloc(&w->server, ALLOC_B)->clock);
	expect_no_folders(w);
}

/* What a stopped allocation of an earlier run has is released by its plugin too. */
CASE(a_stop_after_a_restart_asks_the_plugin)
{
	start_with_a(w, 1);
	world_kill_agent(w);
	world_start_agent(w);
	stop_a(w);
	assert_int_equal(calls(CSI_NODE_UNPUBLISH_VOLUME), 1);
	assert_int_equal(calls(CSI_NODE_UNSTAGE_VOLUME), 1);
	assert_int_equal(w->fake.state->plugin_left, 0);
}

static bool helper_is_at_work(struct world *w)
{
	return w->fake.state->in_flight > 0;
}

static bool stage_was_sent_away(struct world *w)
{
	return fake_helper_count(&w->fake, MH_OP_STAGE, MH_BUSY, NULL, NULL) > 0;
}

/* An agent ends while its helper makes the folders, looks at the plugin's mount, or publishes it: the next
 * one waits for that helper, and continues from what it did. */
TEST_FIXTURE(a_restart_waits_for_the_helper_at_work, setup, teardown)
{
	for (uint32_t call = 1; call <= 3; call++) {
		struct world *w = *state;

		w->fake.state->fault = FAKE_LATE;
		w->fake.state->fault_call = call;
		w->fake.state->fault_calls = 1;
		world_start_agent(w);
		run_a(w, 1);
		WORLD_UNTIL(w, helper_is_at_work);
		world_kill_agent(w);
		world_start_agent(w);
		WORLD_UNTIL(w, stage_was_sent_away);
		w->fake.state->go = 1;
		WORLD_UNTIL(w, a_runs);
		assert_int_equal(w->server.n_claims, 1);
		assert_int_equal(done(w, MH_OP_PUBLISH), 1);
		stop_a(w);
		expect_no_folders(w);
		assert_int_equal(w->fake.state->plugin_left, 0);
		(void)teardown(state);
		(void)setup(state);
	}
}

static bool agent_is_adopted(struct world *w)
{
	return has_mount_snapshot(w);
}

CASE(a_restart_changes_nothing_with_the_plugin_away)
{
	start_with_a(w, 1);
	world_kill_agent(w);
	fake_csi_set_up(plugin, false);
	w->server.hellos = 0;
	w->server.adoption_complete = false;
	world_start_agent(w);
	WORLD_UNTIL(w, agent_is_adopted);
	world_idle(w, 50);
	assert_int_equal(status_of(w, ALLOC_A), CLIENT_RUNNING);
	assert_int_equal(w->server.claim_calls, 1);
	assert_int_equal(calls(CSI_NODE_STAGE_VOLUME), 1);
	assert_int_equal(calls(CSI_NODE_PUBLISH_VOLUME), 1);
	fake_csi_set_up(plugin, true);
	stop_a(w);
	expect_no_folders(w);
}

static bool a_waits_for_its_plugin(struct world *w)
{
	return w->server.claim_calls > 0 && fake_helper_count(&w->fake, MH_OP_STAGE, MH_OK, NULL, NULL) > 0;
}

CASE(a_claimed_unmounted_volume_is_claimed_again)
{
	fake_csi_set_up(plugin, false);
	world_start_agent(w);
	run_a(w, 1);
	WORLD_UNTIL(w, a_waits_for_its_plugin);
	world_kill_agent(w);
	assert_false(journal_holds(w, MODEL_SECRET));
	assert_int_equal(w->server.claim_calls, 1);
	fake_csi_set_up(plugin, true);
	world_start_agent(w);
	WORLD_UNTIL(w, a_runs);
	assert_int_equal(w->server.claim_calls, 2);
	assert_int_equal(w->server.n_claims, 1);
	stop_a(w);
	expect_no_folders(w);
}

static bool release_failed(struct world *w)
{
	return w->server.n_claims > 0 && w->server.claims[0].errors >= 2;
}

CASE(a_blocked_release_reports_its_cause_to_the_server)
{
	Holdfast__V1__GetAgentStatusResponse *report;

	start_with_a(w, 1);
	fake_csi_set_up(plugin, false);
	model_server_want_stop(&w->server, ALLOC_A);
	WORLD_UNTIL(w, release_failed);
	if (!strstr(w->server.claims[0].last_error,
		    "cannot be released without its plugin: plugin csi.plug is not healthy on this node"))
		fail_msg("%s", w->server.claims[0].last_error);
	assert_int_equal(w->server.claims[0].last_error_code, STATUS_UNAVAILABLE);
	assert_false(w->server.claims[0].is_released);
	report = world_report(w);
	assert_int_equal(report->n_operations, 1);
	assert_string_equal(report->operations[0]->alloc_id, ALLOC_A);
	assert_non_null(strstr(report->operations[0]->last_error, "cannot be released without its plugin"));
	protobuf_c_message_free_unpacked(&report->base, NULL);
	/* the release outlives the agent */
	world_kill_agent(w);
	world_start_agent(w);
	fake_csi_set_up(plugin, true);
	WORLD_UNTIL(w, a_ended_and_all_is_released);
	expect_no_folders(w);
}

static bool release_failed_once(struct world *w)
{
	return w->server.n_claims > 0 && w->server.claims[0].errors >= 1;
}

static void never_release(void)
{
	fake_csi_order(plugin, CSI_NODE_UNSTAGE_VOLUME, FAKE_CSI_FAIL, 100000, STATUS_UNKNOWN);
}

/* As the server says it: by a person's word, or of a claim that was freed while the agent was away. */
static void wants_no_plugin(struct world *w, bool is_freed)
{
	struct model_claim order = w->server.claims[0];

	if (is_freed)
		order.claim.state = CLAIM_FREED;
	else
		(void)str_copy(order.claim.plugin_waiver, sizeof(order.claim.plugin_waiver), "ann: gone");
	model_server_release(&w->server, &order);
}

static bool a_is_released(struct world *w)
{
	return w->server.claims[0].is_released;
}

TEST(a_claim_is_released_without_its_plugin_when_the_server_wants_that)
{
	for (int is_freed = 0; is_freed <= 1; is_freed++) {
		struct world *w;

		(void)setup(state);
		w = *state;
		start_with_a(w, 1);
		never_release();
		model_server_want_stop(&w->server, ALLOC_A);
		WORLD_UNTIL(w, release_failed);
		/* as after any restart of the agent, which knows nothing of what was wanted before */
		world_kill_agent(w);
		w->server.claims[0].errors = 0;
		world_start_agent(w);
		WORLD_UNTIL(w, release_failed);
		assert_false(a_is_released(w));
		wants_no_plugin(w, is_freed != 0);
		WORLD_UNTIL(w, a_ended_and_all_is_released);
		assert_true(w->server.claims[0].is_without_plugin);
		assert_non_null(strstr(w->server.claims[0].kernel, "unstaged by the helper"));
		assert_int_equal(status_of(w, ALLOC_A), CLIENT_COMPLETE);
		expect_no_folders(w);
		expect_nothing_mounted(w);
		(void)teardown(state);
	}
}

CASE(the_plugin_of_a_live_allocation_is_never_bypassed)
{
	start_with_a(w, 1);
	wants_no_plugin(w, false);
	WORLD_UNTIL(w, release_failed_once);
	wants_no_plugin(w, true);
	WORLD_UNTIL(w, release_failed);
	assert_non_null(strstr(w->server.claims[0].last_error, "holdfast alloc stop " ALLOC_A));
	assert_int_equal(status_of(w, ALLOC_A), CLIENT_RUNNING);
	assert_false(a_is_released(w));
	/* nor is that remembered */
	stop_a(w);
	assert_int_equal(calls(CSI_NODE_UNSTAGE_VOLUME), 1);
	assert_false(w->server.claims[0].is_without_plugin);
}

static bool helper_refuses(struct world *w)
{
	return strstr(w->server.claims[0].last_error, "mount helper") != NULL;
}

CASE(unfinished_undo_of_a_freed_claim_is_shown_as_left_over)
{
	Holdfast__V1__GetAgentStatusResponse *report;

	start_with_a(w, 1);
	never_release();
	model_server_want_stop(&w->server, ALLOC_A);
	WORLD_UNTIL(w, release_failed);
	w->fake.state->busy_unstage = 1000;
	wants_no_plugin(w, true);
	WORLD_UNTIL(w, helper_refuses);
	report = world_report(w);
	assert_int_equal(report->n_operations, 1);
	assert_string_equal(report->operations[0]->step, "left over");
	protobuf_c_message_free_unpacked(&report->base, NULL);
	assert_false(a_is_released(w));
	w->fake.state->busy_unstage = 0;
	WORLD_UNTIL(w, a_ended_and_all_is_released);
}

static void other_plugin(struct claim *claim, struct volume *volume)
{
	(void)str_copy(claim->plugin_id, sizeof(claim->plugin_id), "other");
}

static void bad_plugin(struct claim *claim, struct volume *volume)
{
	(void)str_copy(volume->plugin_id, sizeof(volume->plugin_id), "../plug");
}

static void other_mode(struct claim *claim, struct volume *volume)
{
	claim->mode = CLAIM_READ;
}

static void other_access(struct claim *claim, struct volume *volume)
{
	claim->access_mode = MULTI_NODE_MULTI_WRITER;
}

static void a_device(struct claim *claim, struct volume *volume)
{
	claim->attachment_mode = ATTACHMENT_BLOCK_DEVICE;
}

static void no_type(struct claim *claim, struct volume *volume)
{
	volume->type = VOLUME_TYPE_UNSPECIFIED;
}

TEST(a_grant_that_was_not_asked_for_is_no_mount)
{
	static const struct {
		void (*tamper)(struct claim *claim, struct volume *volume);
		const char *words;
	} rows[] = {
		{other_plugin, "its claim and its volume name different plugins"},
		{bad_plugin, "its plugin's id is malformed"},
		{other_mode, "it is for another claim mode"},
		{other_access, "it is for another access mode"},
		{a_device, "it is for a block device, a file system was asked for"},
		{no_type, "of a type that this agent does not know"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct world *w;

		(void)setup(state);
		w = *state;
		w->server.tamper = rows[i].tamper;
		world_start_agent(w);
		run_a(w, 1);
		WORLD_UNTIL(w, a_ended_and_all_is_released);
		if (!strstr(alloc_description(&model_server_alloc(&w->server, ALLOC_A)->alloc),
			    rows[i].words))
			fail_msg("'%s' lacks '%s'",
				 alloc_description(&model_server_alloc(&w->server, ALLOC_A)->alloc),
				 rows[i].words);
		assert_int_equal(calls(CSI_NODE_STAGE_VOLUME), 0);
		assert_int_equal(done(w, MH_OP_STAGE), 0);
		(void)teardown(state);
	}
}

/* As world.c has it: what is looked up does not depend on it. */
WRAPPED(enum status, mount_table_read, struct mount_table **ret, struct error *err)
{
	*ret = NULL;
	return mount_table_refresh(ret, "", 0, err);
}

WRAPPED(enum status, device_of_mount, const struct mount_view *view, uint32_t *ret_major, uint32_t *ret_minor,
	struct error *err)
{
	if (!str_eq(view->fs_type, "devtmpfs"))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0, "it is no device");
	*ret_major = 8;
	*ret_minor = view->dev_minor;
	return STATUS_OK;
}

static void run_with_device(struct world *w)
{
	struct alloc alloc = records_alloc(ALLOC_A, 1);

	alloc.volumes[0].attachment_mode = ATTACHMENT_BLOCK_DEVICE;
	w->server.tamper = a_device;
	world_start_agent(w);
	model_server_run(&w->server, &alloc);
	WORLD_UNTIL(w, a_runs);
	WORLD_UNTIL(w, all_is_acknowledged);
}

CASE(a_device_is_handed_out_and_found_again)
{
	const struct alloc_volume *published;
	Holdfast__V1__GetAgentStatusResponse *report;

	run_with_device(w);
	published = &model_server_alloc(&w->server, ALLOC_A)->alloc.published[0];
	assert_true(published->is_device);
	assert_true(str_starts_with(published->path, FAKE_PLUGIN_BASE "/"));
	assert_int_equal(done(w, MH_OP_PUBLISH), 0);
	report = world_report(w);
	assert_int_equal(report->n_mounts, 1);
	assert_true(report->mounts[0]->verified);
	assert_true(str_starts_with(report->mounts[0]->device, "8:"));
	protobuf_c_message_free_unpacked(&report->base, NULL);
	world_kill_agent(w);
	w->server.hellos = 0;
	w->server.adoption_complete = false;
	world_start_agent(w);
	WORLD_UNTIL(w, agent_is_adopted);
	world_idle(w, 20);
	assert_int_equal(status_of(w, ALLOC_A), CLIENT_RUNNING);
	assert_int_equal(calls(CSI_NODE_PUBLISH_VOLUME), 1);
	stop_a(w);
	expect_no_folders(w);
}

CASE(a_device_that_is_another_one_after_a_restart_is_no_success)
{
	const struct alloc_volume *published;
	struct fake_place other = {.is_mounted = true, .is_device = true, .minor = 77};

	run_with_device(w);
	published = &model_server_alloc(&w->server, ALLOC_A)->alloc.published[0];
	world_kill_agent(w);
	fake_helper_plugin(&w->fake, published->path, &other);
	world_start_agent(w);
	WORLD_UNTIL(w, a_ended_and_all_is_released);
	assert_int_equal(status_of(w, ALLOC_A), CLIENT_FAILED);
	assert_non_null(strstr(alloc_description(&model_server_alloc(&w->server, ALLOC_A)->alloc),
			       "is device 8:77 instead of that of volume"));
	expect_no_folders(w);
}

static bool everything_is_released(struct world *w)
{
	return model_server_unreleased(&w->server) == 0;
}

static void lose_journal(struct world *w)
{
	static const char *const files[] = {"agent.db", "agent.db-wal", "agent.db-shm"};
	char path[TEMP_PATH_SIZE];

	world_kill_agent(w);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		(void)remove(temp_dir_path(path, w->config.data_dir, files[i]));
	w->server.n_allocs = 0;
	w->server.mark_kept = 0; /* which the journal had */
	w->server.adoption_complete = false;
	w->server.hellos = 0;
	world_start_agent(w);
	WORLD_UNTIL(w, has_mount_snapshot);
}

static void order_release(struct world *w, struct model_claim *claim)
{
	(void)str_copy(claim->claim.plugin_id, sizeof(claim->claim.plugin_id), MODEL_PLUGIN);
	(void)str_format(claim->claim.external_id, sizeof(claim->claim.external_id), "ext/%s",
			 claim->claim.volume_id);
	model_server_release(&w->server, claim);
}

/* The agent's journal is lost, the mounts are not. */
CASE(a_claim_without_its_allocation_is_released_by_its_plugin)
{
	start_with_a(w, 1);
	lose_journal(w);
	order_release(w, &w->server.claims[0]);
	WORLD_UNTIL(w, everything_is_released);
	assert_int_equal(calls(CSI_NODE_UNPUBLISH_VOLUME), 1);
	assert_int_equal(calls(CSI_NODE_UNSTAGE_VOLUME), 1);
	expect_nothing_mounted(w);
	expect_no_folders(w);
}

CASE(an_unknown_publish_of_its_device_keeps_a_volume_claimed)
{
	struct alloc b = records_alloc(ALLOC_B, 1);

	(void)str_copy(b.volumes[0].source, sizeof(b.volumes[0].source), "vol1");
	is_one_export = true;
	world_start_agent(w);
	run_a(w, 1);
	model_server_run(&w->server, &b);
	WORLD_UNTIL(w, both_run);
	lose_journal(w);
	order_release(w, &w->server.claims[0]);
	WORLD_UNTIL(w, release_failed_once);
	assert_non_null(strstr(w->server.claims[0].last_error, "publish of no known allocation"));
	assert_false(w->server.claims[0].is_released);
	assert_int_equal(calls(CSI_NODE_UNPUBLISH_VOLUME), 0);
	order_release(w, &w->server.claims[1]);
	WORLD_UNTIL(w, everything_is_released);
	assert_int_equal(calls(CSI_NODE_UNPUBLISH_VOLUME), 2);
	assert_int_equal(calls(CSI_NODE_UNSTAGE_VOLUME), 2);
	expect_nothing_mounted(w);
	expect_no_folders(w);
}

CASE(volumes_of_one_device_and_allocation_do_not_wait_for_each_other)
{
	is_one_export = true;
	start_with_a(w, 2);
	lose_journal(w);
	order_release(w, &w->server.claims[0]);
	order_release(w, &w->server.claims[1]);
	WORLD_UNTIL(w, everything_is_released);
	assert_int_equal(calls(CSI_NODE_UNPUBLISH_VOLUME), 2);
	assert_int_equal(calls(CSI_NODE_UNSTAGE_VOLUME), 2);
	expect_no_folders(w);
}

static void created_anew(struct claim *claim, struct volume *volume)
{
	(void)str_copy(volume->external_id, sizeof(volume->external_id), "ext/new");
	(void)str_copy(claim->external_id, sizeof(claim->external_id), "ext/new");
}

static bool b_failed_and_all_is_released(struct world *w)
{
	return status_of(w, ALLOC_B) == CLIENT_FAILED && everything_is_released(w);
}

static bool c_runs(struct world *w)
{
	return status_of(w, ALLOC_C) == CLIENT_RUNNING;
}

static void leave_a_mount(struct world *w)
{
	start_with_a(w, 1);
	lose_journal(w);
	w->server.claims[0].is_released = true;
	for (size_t i = 0; i < ARRAY_SIZE(w->fake.state->mounts); i++)
		w->fake.state->mounts[i].is_used = false;
	world_kill_agent(w);
}

static void expect_it_undone(struct world *w)
{
	struct alloc b = records_alloc(ALLOC_B, 1), c = records_alloc(ALLOC_C, 1);
	const char *why;

	world_start_agent(w);
	model_server_run(&w->server, &b);
	WORLD_UNTIL(w, b_failed_and_all_is_released);
	why = alloc_description(&model_server_alloc(&w->server, ALLOC_B)->alloc);
	if (!strstr(why, "may have mounted another storage"))
		fail_msg("%s", why);
	assert_int_equal(done(w, MH_OP_PUBLISH), 1);
	assert_int_equal(calls(CSI_NODE_PUBLISH_VOLUME), 1);
	assert_int_equal(calls(CSI_NODE_UNPUBLISH_VOLUME), 1);
	assert_int_equal(calls(CSI_NODE_UNSTAGE_VOLUME), 1);
	expect_no_folders(w);
	model_server_run(&w->server, &c);
	WORLD_UNTIL(w, c_runs);
	assert_int_equal(calls(CSI_NODE_PUBLISH_VOLUME), 2);
}

/* What was left of a volume that was deleted since is of no other volume of its name. */
CASE(a_left_mount_of_another_storage_is_undone_and_not_handed_out)
{
	leave_a_mount(w);
	w->server.tamper = created_anew;
	expect_it_undone(w);
}

CASE(a_left_mount_of_another_share_of_one_id_is_undone_and_not_handed_out)
{
	w->server.share = "/a";
	leave_a_mount(w);
	w->server.share = "/b";
	expect_it_undone(w);
}

CASE(an_unprepared_volume_is_released_without_its_plugin)
{
	start_with_a(w, 1);
	stop_a(w);
	lose_journal(w);
	fake_csi_set_up(plugin, false);
	w->server.claims[0].is_released = false;
	order_release(w, &w->server.claims[0]);
	WORLD_UNTIL(w, everything_is_released);
	/* those of the allocation before */
	assert_int_equal(calls(CSI_NODE_UNPUBLISH_VOLUME), 1);
	assert_int_equal(calls(CSI_NODE_UNSTAGE_VOLUME), 1);
	assert_int_equal(w->server.claims[0].errors, 0);
}

static bool has_folder(struct world *w)
{
	for (size_t i = 0; i < FAKE_FOLDERS_MAX; i++) {
		if (w->fake.state->folders[i].is_used)
			return true;
	}
	return false;
}

/* Whether the plugin was called before the journal was lost, nobody can tell. */
CASE(a_prepared_volume_is_released_only_by_its_plugin)
{
	fake_csi_set_up(plugin, false);
	world_start_agent(w);
	run_a(w, 1);
	WORLD_UNTIL(w, has_folder);
	lose_journal(w);
	order_release(w, &w->server.claims[0]);
	WORLD_UNTIL(w, release_failed);
	if (!strstr(w->server.claims[0].last_error, "cannot be released without its plugin"))
		fail_msg("%s", w->server.claims[0].last_error);
	assert_false(w->server.claims[0].is_released);
	assert_true(has_folder(w));
	fake_csi_set_up(plugin, true);
	WORLD_UNTIL(w, everything_is_released);
	assert_int_equal(calls(CSI_NODE_UNPUBLISH_VOLUME), 1);
	expect_no_folders(w);
}

CASE(a_volume_the_helper_cannot_read_is_not_released)
{
	start_with_a(w, 1);
	stop_a(w);
	lose_journal(w);
	fake_csi_set_up(plugin, false);
	w->server.claims[0].is_released = false;
	w->fake.state->fail_look = 2;
	order_release(w, &w->server.claims[0]);
	WORLD_UNTIL(w, release_failed);
	assert_false(w->server.claims[0].is_released);
	assert_non_null(strstr(w->server.claims[0].last_error, "LIST of volume"));
	WORLD_UNTIL(w, everything_is_released);
}

static bool is_reported(struct world *w)
{
	return w->server.report_complete;
}

CASE(a_report_names_plugin_volume_and_node_as_the_provider_does)
{
	const struct claim *claim;

	start_with_a(w, 1);
	model_server_want_report(&w->server, 7);
	WORLD_UNTIL(w, is_reported);
	assert_int_equal(w->server.n_reported, 1);
	claim = &w->server.reported[0];
	assert_string_equal(claim->plugin_id, MODEL_PLUGIN);
	assert_string_equal(claim->profile, "");
	assert_true(str_starts_with(claim->external_id, "ext/"));
	assert_string_equal(claim->context_digest, "");
	assert_string_equal(claim->external_node_id, "fake-node");
	assert_int_equal(claim->access_mode, SINGLE_NODE_MULTI_WRITER);
	stop_a(w);
}

CASE(a_restarted_agent_reports_the_context_of_its_mount)
{
	w->server.share = "/a";
	start_with_a(w, 1);
	world_kill_agent(w);
	w->server.hellos = 0;
	w->server.adoption_complete = false;
	world_start_agent(w);
	WORLD_UNTIL(w, has_mount_snapshot);
	model_server_want_report(&w->server, 7);
	WORLD_UNTIL(w, is_reported);
	assert_int_equal(strlen(w->server.reported[0].context_digest), CONTEXT_DIGEST_SIZE - 1);
	stop_a(w);
}

/* --- how full volumes are --- */

static const struct model_usage *reported(const struct world *w)
{
	return w->server.n_usages > 0 ? &w->server.usages[0] : NULL;
}

static bool is_reported_by_plugin(struct world *w)
{
	return reported(w) && reported(w)->used_bytes == (uint64_t)plugin->used;
}

static bool has_reported_condition(struct world *w)
{
	return reported(w) &&
	       str_eq(reported(w)->condition, "its plugin reports: a replica is lost, look. next: rm");
}

static bool is_normal(struct world *w)
{
	return reported(w) && reported(w)->condition[0] == '\0';
}

static bool plugin_is_silent(struct world *w)
{
	return reported(w) && strstr(reported(w)->condition, "does not answer NodeGetVolumeStats") != NULL;
}

static bool is_measured_by_statfs(struct world *w)
{
	return reported(w) && reported(w)->used_bytes == w->space.used_bytes;
}

static void start_measuring(struct world *w, uint32_t n_volumes, uint64_t interval_s)
{
	w->config.volume_stats_us = interval_s * USEC_PER_SEC;
	w->server.heartbeat_ms = 40 * 1000; /* each one costs a turn of the loop */
	w->space = (struct path_space){.total_bytes = 1000, .used_bytes = 111, .free_bytes = 889};
	plugin->total = 2000;
	plugin->used = 700;
	start_with_a(w, n_volumes);
}

CASE(the_figures_of_a_plugin_that_announces_them_count)
{
	start_measuring(w, 1, 10);
	WORLD_UNTIL(w, is_reported_by_plugin);
	assert_int_equal(reported(w)->total_bytes, 2000);
	plugin->used = 1900;
	WORLD_UNTIL(w, is_reported_by_plugin);
	assert_true(calls(CSI_NODE_GET_VOLUME_STATS) >= 2);
}

static bool all_are_reported(struct world *w)
{
	return w->server.n_usages == 2 && w->server.usages[0].used_bytes == 700 &&
	       w->server.usages[1].used_bytes == 700;
}

CASE(each_volume_of_a_plugin_is_asked_about_one_after_another)
{
	start_measuring(w, 2, 3600); /* one round */
	WORLD_UNTIL(w, all_are_reported);
	assert_int_equal(calls(CSI_NODE_GET_VOLUME_STATS), 2);
}

CASE(a_plugin_that_does_not_announce_stats_is_not_asked)
{
	plugin->node_rpcs[1] = CSI__V1__NODE_SERVICE_CAPABILITY__RPC__TYPE__STAGE_UNSTAGE_VOLUME;
	start_measuring(w, 1, 10);
	WORLD_UNTIL(w, is_measured_by_statfs);
	world_idle(w, 30 * 1000);
	assert_int_equal(calls(CSI_NODE_GET_VOLUME_STATS), 0);
}

CASE(a_condition_that_a_plugin_reports_is_shown_and_changes_nothing_else)
{
	start_measuring(w, 1, 10);
	WORLD_UNTIL(w, is_reported_by_plugin);
	plugin->condition = "a replica is lost; look. Next: rm";
	WORLD_UNTIL(w, has_reported_condition);
	assert_false(reported(w)->is_unknown);
	assert_true(a_runs(w));
	plugin->condition = NULL;
	WORLD_UNTIL(w, is_normal);
}

static bool has_cut_condition(struct world *w)
{
	return reported(w) && str_starts_with(reported(w)->condition, "read-only: ") &&
	       strlen(reported(w)->condition) == USAGE_CONDITION_MAX;
}

/* The server ends the session of an agent whose message it cannot read. */
CASE(a_condition_that_is_cut_within_a_character_is_reported)
{
	char text[2 * USAGE_CONDITION_MAX];

	start_measuring(w, 1, 10);
	for (size_t shift = 0; shift < 3; shift++) {
		memset(text, 'x', shift);
		for (size_t n = shift; n + 3 < sizeof(text); n += 3)
			memcpy(text + n, "\xe5\xad\x98", 4);
		plugin->condition = text;
		w->is_fs_stopped = true;
		WORLD_UNTIL(w, has_cut_condition);
		plugin->condition = NULL;
		w->is_fs_stopped = false;
		WORLD_UNTIL(w, is_normal);
	}
}

CASE(a_plugin_that_hangs_at_stats_delays_nothing_and_is_named)
{
	start_measuring(w, 1, 10);
	WORLD_UNTIL(w, is_reported_by_plugin);
	fake_csi_order(plugin, CSI_NODE_GET_VOLUME_STATS, FAKE_CSI_HANG, 1, STATUS_OK);
	WORLD_UNTIL(w, plugin_is_silent);
	WORLD_UNTIL(w, is_normal); /* it answers again */
	fake_csi_order(plugin, CSI_NODE_GET_VOLUME_STATS, FAKE_CSI_HANG, 1000, STATUS_OK);
	world_idle(w, 15 * 1000);
	stop_a(w);
}

static void last_is_of_other_plugin(struct claim *claim, struct volume *volume)
{
	if (!str_eq(claim->volume_id, "vol2"))
		return;
	(void)str_copy(claim->plugin_id, sizeof(claim->plugin_id), FAKE_OTHER_PLUGIN);
	(void)str_copy(volume->plugin_id, sizeof(volume->plugin_id), FAKE_OTHER_PLUGIN);
}

/* Volumes of which as much is used. */
static size_t n_used(const struct world *w, int64_t used)
{
	size_t n = 0;

	for (unsigned int i = 0; i < w->server.n_usages; i++)
		n += w->server.usages[i].used_bytes == (uint64_t)used;
	return n;
}

static size_t n_silent(const struct world *w)
{
	size_t n = 0;

	for (unsigned int i = 0; i < w->server.n_usages; i++)
		n += strstr(w->server.usages[i].condition, "does not answer NodeGetVolumeStats") != NULL;
	return n;
}

static bool all_are_measured(struct world *w)
{
	return n_used(w, 700) == 2 && n_used(w, 1234) == 1;
}

static bool other_has_changed(struct world *w)
{
	return n_used(w, 1500) == 1;
}

static bool one_is_silent(struct world *w)
{
	return n_silent(w) == 1;
}

CASE(a_plugin_that_hangs_at_stats_delays_no_other_plugin)
{
	char folder[TEMP_PATH_SIZE], socket_path[TEMP_PATH_SIZE];
	struct fake_csi_plugin *other;

	assert_int_equal(mkdir(temp_dir_path(folder, plugin_dir, FAKE_OTHER_PLUGIN), 0700), 0);
	make_socket(temp_dir_path(socket_path, folder, "csi.sock"));
	other = fake_csi_add(socket_path);
	other->total = 2000;
	other->used = 1234;
	w->server.tamper = last_is_of_other_plugin;
	start_measuring(w, 3, 10);
	WORLD_UNTIL(w, all_are_measured);
	fake_csi_order(plugin, CSI_NODE_GET_VOLUME_STATS, FAKE_CSI_HANG, 1000, STATUS_OK);
	other->used = 1500;
	WORLD_UNTIL(w, other_has_changed);
	assert_int_equal(n_silent(w), 0);
	WORLD_UNTIL(w, one_is_silent);
	world_idle(w, 30 * 1000);
	assert_true(one_is_silent(w)); /* it is not asked about its second volume in the same round */
	world_kill_agent(w);
	(void)remove(socket_path);
	temp_dir_remove(folder);
}
static bool hangs_at_stats(struct world *w)
{
	return calls(CSI_NODE_GET_VOLUME_STATS) == 1;
}

/* The allocation of the volume that its plugin is asked about ends: the plugin is asked about the next. */
CASE(a_volume_that_ends_while_its_plugin_is_asked_delays_no_other_volume)
{
	struct alloc b = records_alloc(ALLOC_B, 1);

	(void)str_copy(b.volumes[0].source, sizeof(b.volumes[0].source), "vol1");
	w->config.volume_stats_us = 600 * USEC_PER_SEC;
	w->server.heartbeat_ms = 40 * 1000;
	w->space = (struct path_space){.total_bytes = 1000, .used_bytes = 111, .free_bytes = 889};
	plugin->total = 2000;
	plugin->used = 700;
	fake_csi_order(plugin, CSI_NODE_GET_VOLUME_STATS, FAKE_CSI_HOLD, 1, STATUS_OK);
	world_start_agent(w);
	run_a(w, 1);
	WORLD_UNTIL(w, a_runs);
	model_server_run(&w->server, &b);
	WORLD_UNTIL(w, both_run);
	WORLD_UNTIL(w, hangs_at_stats);
	stop_only(w, ALLOC_A);
	world_idle(w, 60 * 1000);
	assert_int_equal(calls(CSI_NODE_GET_VOLUME_STATS), 2);
}

CASE(a_plugin_that_fails_at_stats_leaves_the_figures_to_statfs)
{
	start_measuring(w, 1, 10);
	WORLD_UNTIL(w, is_reported_by_plugin);
	fake_csi_order(plugin, CSI_NODE_GET_VOLUME_STATS, FAKE_CSI_FAIL, 1000, STATUS_NOT_FOUND);
	WORLD_UNTIL(w, is_measured_by_statfs);
	assert_false(reported(w)->is_unknown);
}

static bool is_connected_without_helper(struct world *w)
{
	return is_connected(w) && !w->server.adoption_complete && w->server.n_plugins > 0;
}

static bool has_adopted(struct world *w)
{
	return is_connected(w) && w->server.adoption_complete;
}

static bool a_plugin_call_waits(struct world *w)
{
	return fake_csi_waiting() == 1;
}

/* Numbers of calls are of a session: the answer could be that of another volume. */
CASE(a_session_that_is_restarted_sends_no_answer_of_the_former_one)
{
	w->fake.state->start = FAKE_START_EXIT;
	w->fake.state->start_times = UINT32_MAX;
	fake_csi_order(plugin, CSI_CONTROLLER_UNPUBLISH_VOLUME, FAKE_CSI_HOLD, 1, STATUS_OK);
	world_start_agent(w);
	WORLD_UNTIL(w, is_connected_without_helper);
	model_server_call_plugin(&w->server, MODEL_PLUGIN, 1);
	WORLD_UNTIL(w, a_plugin_call_waits);
	w->fake.state->start_times = 0; /* the mount helper starts: its first list restarts the session */
	WORLD_UNTIL(w, has_adopted);
	world_idle(w, 2000); /* the agent sees the welcome */
	assert_int_equal(fake_csi_answer(), 1);
	world_idle(w, 2000);
	assert_string_equal(w->server.violation, ""); /* the model takes no answer */
	assert_int_equal(w->server.not_here, 0);
}

TEST_GROUP(world_group_setup, world_group_teardown)
