/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"
#include "helper.h"
#include "state.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct agent_policy plenty = {.max_staged = UINT32_MAX, .max_tmpfs_total = UINT64_MAX};
static struct state_table *table;
static uint8_t digest[TICKET_DIGEST_SIZE] = {1, 2, 3};

static int setup(void **state)
{
	table = calloc(1, sizeof(*table));
	state_open(table, FIXTURE_BOOT_ID);
	return 0;
}

static int teardown(void **state)
{
	free(table);
	return 0;
}

static int admit(const char *volume, uint64_t generation)
{
	return state_admit(table, volume, generation, FIXTURE_NOW_MS + 1000, FIXTURE_NOW_MS);
}

static int begin_stage(const char *volume, uint64_t tmpfs_bytes, const struct agent_policy *limits)
{
	return state_begin_stage(table, volume, "", tmpfs_bytes, digest, limits, FIXTURE_NOW_MS);
}

TEST_FIXTURE(a_lower_generation_is_stale_an_equal_one_is_not, setup, teardown)
{
	assert_int_equal(admit("a", 5), 0);
	assert_int_equal(admit("a", 5), 0);
	assert_int_equal(admit("a", 4), -ESTALE);
	assert_int_equal(admit("a", 6), 0);
	assert_int_equal(admit("a", 5), -ESTALE);
	assert_int_equal(admit("b", 1), 0);
	assert_int_equal(admit("a", UINT64_MAX), 0);
	assert_int_equal(admit("a", 0), -ESTALE);
}

TEST_FIXTURE(an_empty_table_admits_generation_zero, setup, teardown)
{
	assert_int_equal(admit("a", 0), 0);
}

TEST_FIXTURE(the_same_boot_keeps_the_table_and_another_empties_it, setup, teardown)
{
	assert_int_equal(admit("a", 5), 0);
	state_open(table, FIXTURE_BOOT_ID);
	assert_int_equal(admit("a", 4), -ESTALE);
	state_open(table, "1d3b9a4c-1111-4222-8333-444455556666");
	assert_int_equal(admit("a", 4), 0);
}

TEST_FIXTURE(another_format_empties_the_table, setup, teardown)
{
	uint32_t *const fields[] = {&table->header.magic, &table->header.version, &table->header.slots,
				    &table->header.slot_size};

	for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
		assert_int_equal(admit("a", 5), 0);
		*fields[i] ^= 1;
		state_open(table, FIXTURE_BOOT_ID);
		assert_int_equal(admit("a", 4), 0);
	}
	memset(table->header.boot_id, 'a', sizeof(table->header.boot_id));
	state_open(table, FIXTURE_BOOT_ID);
	assert_int_equal(admit("a", 1), 0);
}

static void fill(uint64_t not_after_ms)
{
	char name[16];

	for (int i = 0; i < STATE_SLOTS; i++) {
		(void)str_format(name, sizeof(name), "v%d", i);
		assert_int_equal(state_admit(table, name, 9, not_after_ms, FIXTURE_NOW_MS), 0);
	}
}

TEST_FIXTURE(a_full_table_takes_no_new_volume_but_serves_the_old_ones, setup, teardown)
{
	fill(FIXTURE_NOW_MS);
	assert_int_equal(admit("new", 1), -ENOSPC);
	assert_int_equal(begin_stage("new", 0, &plenty), -ENOSPC);
	assert_null(state_find(table, "new"));
	assert_int_equal(admit("v17", 10), 0);
	assert_int_equal(admit("v17", 9), -ESTALE);
}

TEST_FIXTURE(a_slot_is_reused_only_when_its_newest_ticket_is_over, setup, teardown)
{
	fill(FIXTURE_NOW_MS);
	assert_int_equal(state_admit(table, "v7", 10, FIXTURE_NOW_MS + 5000, FIXTURE_NOW_MS), 0);
	/* an older ticket with an earlier end does not shorten it */
	assert_int_equal(state_admit(table, "v7", 10, FIXTURE_NOW_MS + 1, FIXTURE_NOW_MS), 0);
	for (int i = 0; i < STATE_SLOTS - 1; i++) {
		char name[16];

		(void)str_format(name, sizeof(name), "w%d", i);
		assert_int_equal(state_admit(table, name, 1, FIXTURE_NOW_MS + 9000, FIXTURE_NOW_MS + 1), 0);
	}
	assert_int_equal(state_admit(table, "x", 1, FIXTURE_NOW_MS + 9000, FIXTURE_NOW_MS + 5000), -ENOSPC);
	assert_int_equal(state_admit(table, "v7", 9, FIXTURE_NOW_MS + 9000, FIXTURE_NOW_MS + 5000), -ESTALE);
	assert_int_equal(state_admit(table, "x", 1, FIXTURE_NOW_MS + 9000, FIXTURE_NOW_MS + 5001), 0);
	assert_int_equal(state_admit(table, "v7", 1, FIXTURE_NOW_MS + 9000, FIXTURE_NOW_MS + 5001), -ENOSPC);
}

TEST_FIXTURE(staged_sources_are_remembered_and_forgotten, setup, teardown)
{
	const struct state_slot *slot;

	assert_null(state_find(table, "a"));
	assert_int_equal(admit("a", 5), 0);
	assert_int_equal(state_find(table, "a")->stage, STATE_UNSTAGED);
	assert_int_equal(begin_stage("a", 0, &plenty), 0);
	assert_int_equal(state_find(table, "a")->stage, STATE_STAGING);
	state_set_staged(table, "a", "db", digest);
	slot = state_find(table, "a");
	assert_int_equal(slot->stage, STATE_STAGED);
	assert_string_equal(slot->profile, "db");
	assert_memory_equal(slot->source_digest, digest, sizeof(digest));
	state_clear_staged(table, "a");
	assert_int_equal(state_find(table, "a")->stage, STATE_UNSTAGED);
	assert_int_equal(admit("a", 4), -ESTALE);
	state_clear_staged(table, "never-seen");
}

TEST_FIXTURE(a_counted_volume_is_in_one_folder_until_it_is_forgotten, setup, teardown)
{
	const struct state_slot *slot;

	assert_int_equal(state_begin_stage(table, "a", "csi.plug", 0, digest, &plenty, FIXTURE_NOW_MS), 0);
	slot = state_find(table, "a");
	assert_true(state_is_at(slot, "csi.plug"));
	assert_false(state_is_at(slot, "") || state_is_at(slot, "csi.plug-2"));
	assert_int_equal(state_begin_stage(table, "a", "csi.plug", 0, digest, &plenty, FIXTURE_NOW_MS), 0);
	assert_string_equal(slot->plugin, "csi.plug");
	state_clear_staged(table, "a");
	assert_true(state_is_at(slot, "") && state_is_at(slot, "csi.plug-2"));
	assert_int_equal(begin_stage("a", 0, &plenty), 0);
	assert_false(state_is_at(slot, "csi.plug"));
}

TEST_FIXTURE(a_staged_volume_keeps_its_slot, setup, teardown)
{
	fill(FIXTURE_NOW_MS);
	for (int i = 0; i < STATE_SLOTS; i++) {
		if (i == 100)
			continue;
		assert_int_equal(begin_stage(table->slot[i].volume, 0, &plenty), 0);
	}
	assert_int_equal(state_admit(table, "new", 1, FIXTURE_NOW_MS + 9, FIXTURE_NOW_MS + 1), 0);
	assert_string_equal(table->slot[100].volume, "new");
	assert_int_equal(state_find(table, "new")->stage, STATE_UNSTAGED);
	assert_int_equal(state_admit(table, "newer", 1, FIXTURE_NOW_MS + 9, FIXTURE_NOW_MS + 1), -ENOSPC);
}

TEST_FIXTURE(counts_of_stages_have_limits, setup, teardown)
{
	const struct agent_policy limits = {.max_staged = 2, .max_tmpfs_total = 100};

	assert_int_equal(begin_stage("a", 60, &limits), 0);
	assert_int_equal(begin_stage("b", 41, &limits), -EDQUOT);
	assert_int_equal(begin_stage("b", 40, &limits), 0);
	assert_int_equal(begin_stage("c", 0, &limits), -EMFILE);
	assert_int_equal(begin_stage("a", 60, &limits), 0); /* counted already */
	assert_int_equal(begin_stage("a", 61, &limits), -EDQUOT);
	assert_int_equal(begin_stage("b", UINT64_MAX, &limits), -EDQUOT);
	assert_int_equal(table->header.staged, 2);
	assert_true(table->header.tmpfs_bytes == 100);
	state_clear_staged(table, "a");
	state_clear_staged(table, "a");
	assert_int_equal(table->header.staged, 1);
	assert_true(table->header.tmpfs_bytes == 40);
	assert_int_equal(begin_stage("c", 60, &limits), 0);
}

static bool may_start(uint64_t now_us)
{
	return rate_take(&table->header.rate[RATE_STARTS], now_us);
}

TEST_FIXTURE(starts_are_paid_for_by_the_minute, setup, teardown)
{
	static const struct agent_policy limits = {
		.starts_per_minute = 6, .ops_per_second = 20, .burst = 100};
	const uint64_t second_us = 1000000;
	uint64_t now_us = 3600 * second_us;

	state_set_rates(table, &limits);
	for (int i = 0; i < 6; i++)
		assert_true(may_start(now_us));
	assert_false(may_start(now_us));
	assert_false(may_start(now_us + 10 * second_us - 1));
	assert_true(may_start(now_us + 10 * second_us));
	assert_false(may_start(now_us + 10 * second_us));
	now_us += 3600 * second_us;
	for (int i = 0; i < 6; i++)
		assert_true(may_start(now_us));
	assert_false(may_start(now_us));
	state_open(table, FIXTURE_BOOT_ID);
	state_set_rates(table, &limits);
	assert_false(may_start(now_us));
	state_open(table, "1d3b9a4c-1111-4222-8333-444455556666");
	state_set_rates(table, &limits);
	assert_true(may_start(now_us));
}

/* Seven processes had seven bursts. */
TEST_FIXTURE(a_new_process_gets_only_the_remaining_rate, setup, teardown)
{
	static const struct agent_policy limits = {
		.starts_per_minute = 60, .ops_per_second = 20, .burst = 100};
	struct rate *ops = &table->header.rate[RATE_OPS];
	const uint64_t now_us = UINT64_C(3600000000);
	int n = 0;

	for (int process = 0; process < 7; process++) {
		state_open(table, FIXTURE_BOOT_ID);
		state_set_rates(table, &limits);
		for (int i = 0; i < 100; i++)
			n += rate_take(ops, now_us);
	}
	assert_int_equal(n, 100);
	for (int i = 0; i < 100; i++)
		n += rate_take(ops, now_us + 1000000);
	assert_int_equal(n, 120);
}

TEST_FIXTURE(the_sums_are_made_anew_at_the_start, setup, teardown)
{
	assert_int_equal(begin_stage("a", 7, &plenty), 0);
	assert_true(table->header.published == UINT32_MAX); /* not known in a table that is new */
	table->header.published = 7;
	table->header.staged = 77;
	table->header.tmpfs_bytes = 77;
	state_open(table, FIXTURE_BOOT_ID);
	assert_int_equal(table->header.staged, 1);
	assert_int_equal(table->header.published, 7);
	assert_true(table->header.tmpfs_bytes == 7);
}

/* A process that dies after any of its stores. It runs instruction by instruction, and after each one that
 * changed the table, what another process would find is looked at. */

static const uint8_t other_digest[TICKET_DIGEST_SIZE] = {9, 8, 7};

/* A name that is looked for in the same slot as "old". */
static const char *name_that_meets_old(void)
{
	static char name[16];

	for (int i = 0;
	     name[0] == '\0' || ((str_hash(0, name) ^ str_hash(0, "old")) & (STATE_SLOTS - 1)) != 0; i++)
		(void)str_format(name, sizeof(name), "n%d", i);
	return name;
}

TEST_FIXTURE(a_slot_that_is_reused_has_no_folder_of_its_former_volume, setup, teardown)
{
	assert_int_equal(state_admit(table, "old", 7, FIXTURE_NOW_MS - 1, FIXTURE_NOW_MS - 1), 0);
	assert_int_equal(state_begin_stage(table, "old", "csi.plug", 0, digest, &plenty, FIXTURE_NOW_MS), 0);
	state_clear_staged(table, "old");
	assert_string_equal(state_find(table, "old")->plugin, "csi.plug"); /* where it was last */
	assert_int_equal(admit(name_that_meets_old(), 1), 0);
	assert_null(state_find(table, "old"));
	assert_string_equal(state_find(table, name_that_meets_old())->plugin, "");
}

static void store_new_volume(void)
{
	(void)state_admit(table, name_that_meets_old(), 5, FIXTURE_NOW_MS + 9, FIXTURE_NOW_MS + 1);
}

static void store_generation(void)
{
	(void)state_admit(table, "a", 10, FIXTURE_NOW_MS + 5000, FIXTURE_NOW_MS);
}

static void store_begin_stage(void)
{
	(void)state_begin_stage(table, "a", "csi.plug", 5, digest, &plenty, FIXTURE_NOW_MS);
}

static void store_begin_stage_of_plugin(void)
{
	(void)state_begin_stage(table, "old", "csi.plug", 0, digest, &plenty, FIXTURE_NOW_MS);
}

static void store_staged(void)
{
	state_set_staged(table, "a", "other", other_digest);
}

static void store_unstaged(void)
{
	state_clear_staged(table, "a");
}

static void store_another_boot(void)
{
	state_open(table, "1d3b9a4c-1111-4222-8333-444455556666");
}

static void (*const stores[])(void) = {
	store_new_volume, store_generation, store_begin_stage, store_begin_stage_of_plugin,
	store_staged,	  store_unstaged,   store_another_boot};

static bool is_staged_from(const struct state_slot *slot, const char *profile, const uint8_t *from)
{
	return str_eq(slot->profile, profile) && memcmp(slot->source_digest, from, sizeof(digest)) == 0;
}

static void assert_sums_are_high_enough(const struct state_table *t)
{
	uint32_t staged = 0;
	uint64_t bytes = 0;

	for (int i = 0; i < STATE_SLOTS; i++) {
		staged += t->slot[i].stage != STATE_UNSTAGED;
		bytes += t->slot[i].tmpfs_bytes;
	}
	assert_true(t->header.staged >= staged);
	assert_true(t->header.tmpfs_bytes >= bytes);
}

static void assert_valid(const struct state_table *t)
{
	const struct state_slot *a = state_find(t, "a");
	const struct state_slot *fresh = state_find(t, name_that_meets_old());
	const struct state_slot *old = state_find(t, "old");

	if (t->header.magic != STATE_MAGIC)
		return; /* void: begun anew by the next one */
	if (!str_eq(t->header.boot_id, FIXTURE_BOOT_ID)) {
		assert_true(!a && !fresh && !old);
		return;
	}
	assert_sums_are_high_enough(t);
	assert_non_null(a);
	assert_true(a->generation == 9 || a->generation == 10);
	assert_true(a->not_after_ms >= FIXTURE_NOW_MS + 1000);
	assert_true(a->generation == 9 || a->not_after_ms == FIXTURE_NOW_MS + 5000);
	if (a->stage != STATE_UNSTAGED)
		assert_string_equal(a->plugin, "csi.plug");
	if (a->stage == STATE_STAGED)
		assert_true(is_staged_from(a, "db", digest) || is_staged_from(a, "other", other_digest));
	if (fresh)
		assert_true((fresh->generation == 0 || fresh->generation == 5) &&
			    fresh->stage == STATE_UNSTAGED);
	if (old)
		assert_int_equal(old->generation, 7);
	if (old && old->stage != STATE_UNSTAGED) {
		assert_string_equal(old->plugin, "csi.plug");
		assert_memory_equal(old->source_digest, digest, sizeof(digest));
	}
	assert_false(fresh && old);
}

/* "a" is staged; the slot of "old" may be reused. */
static void prepare_for_death(void)
{
	memset(table, 0, sizeof(*table));
	state_open(table, FIXTURE_BOOT_ID);
	assert_int_equal(state_admit(table, "a", 9, FIXTURE_NOW_MS + 1000, FIXTURE_NOW_MS), 0);
	assert_int_equal(state_admit(table, "old", 7, FIXTURE_NOW_MS, FIXTURE_NOW_MS), 0);
	assert_int_equal(state_begin_stage(table, "old", "earlier", 0, other_digest, &plenty, FIXTURE_NOW_MS),
			 0);
	state_clear_staged(table, "old");
	assert_int_equal(state_begin_stage(table, "a", "csi.plug", 7, digest, &plenty, FIXTURE_NOW_MS), 0);
	state_set_staged(table, "a", "db", digest);
}

/* What a store can change, of all the table. */
struct watched {
	struct state_header header;
	struct state_slot a, old;
};

static struct watched watch(size_t a, size_t old)
{
	return (struct watched){.header = table->header, .a = table->slot[a], .old = table->slot[old]};
}

enum { STEPS = 20000 }; /* wiping the whole table takes more: only its beginning is seen */

/* Returns how many stores there were. */
static int step_through(void (*store)(void))
{
	size_t a = (size_t)(state_find(table, "a") - table->slot);
	size_t old = (size_t)(state_find(table, "old") - table->slot);
	struct watched before = watch(a, old);
	pid_t pid = fork();
	int status = 0, steps = 0, n = 0;

	if (pid == 0) {
		(void)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		(void)raise(SIGSTOP);
		store();
		_exit(0);
	}
	while (waitpid(pid, &status, 0) == pid && WIFSTOPPED(status)) {
		struct watched now = watch(a, old);

		if (memcmp(&before, &now, sizeof(now)) != 0) {
			assert_valid(table);
			before = now;
			n++;
		}
		assert_int_equal(ptrace(steps++ < STEPS ? PTRACE_SINGLESTEP : PTRACE_CONT, pid, NULL, NULL),
				 0);
	}
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	return n;
}

TEST_FIXTURE(a_death_after_any_store_leaves_a_valid_table, setup, teardown)
{
	struct state_table *heap = table;

	table = mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(table != MAP_FAILED);
	for (size_t i = 0; i < ARRAY_SIZE(stores); i++) {
		prepare_for_death();
		assert_valid(table);
		assert_in_range(step_through(stores[i]), 1, 1000);
	}
	(void)munmap(table, sizeof(*table));
	table = heap;
}

/* Each instance has an open file of its own. */
static int open_again(int file)
{
	char path[64];
	int fd;

	(void)str_format(path, sizeof(path), "/proc/self/fd/%d", file);
	fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

TEST(plugins_that_never_answer_leave_places_for_others)
{
	static const char *const plugins[] = {"a", "a", "a", "a", "b", "b"};
	int fds[ARRAY_SIZE(plugins)], other, native;
	int file = memfd_create("state", MFD_CLOEXEC);

	assert_int_equal(ARRAY_SIZE(plugins), PLUGINS_INSTANCES);
	other = open_again(file);
	native = open_again(file);
	for (size_t i = 0; i < ARRAY_SIZE(plugins); i++) {
		fds[i] = open_again(file);
		assert_true(lock_instance(fds[i]) >= 0);
		assert_true(lock_plugin(fds[i], plugins[i]) >= 0);
		if (i == PLUGIN_INSTANCES - 1)
			assert_int_equal(lock_plugin(other, "a"), -EAGAIN);
		lock_release(other);
	}
	assert_int_equal(lock_plugin(other, "d"), -EAGAIN);
	lock_release(other);
	assert_true(lock_instance(native) >= 0);
	assert_int_equal(lock_volume(native, "v"), 0);
	(void)close(fds[0]);
	assert_true(lock_plugin(other, "d") >= 0);
	for (size_t i = 1; i < ARRAY_SIZE(plugins); i++)
		(void)close(fds[i]);
	(void)close(other);
	(void)close(native);
	(void)close(file);
}
