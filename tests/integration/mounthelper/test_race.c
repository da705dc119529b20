/* SPDX-License-Identifier: Apache-2.0 */
/* Stages, publishes, unpublishes and unstages volumes while processes with the agent's uid do to the trees
 * whatever their rights and their own namespaces let them: once before each system call of each operation,
 * and then freely for some cycles: test_root_mounthelper_race [CYCLES]. */

#include "agent.h"
#include "attackers.h"
#include "steps.h"

#include "base/id.h"
#include "base/parse.h"
#include "base/strbuf.h"

#include <fts.h>
#include <poll.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum { CALLS_MAX = 512, VOLUMES = 2, LINGER_EACH = 3, LINGER_MS = 3 };

/* The walk comes to every place; these add chance. docs/helper-review.md runs ten thousand. */
static uint32_t cycles = 100;

/* A volume with the requests of its cycle. */
struct lane {
	struct agent agent;
	struct mh_stage stage;
	struct mh_publish publish;
	struct mh_unpublish unpublish;
	struct mh_unstage unstage;
};

static struct lane lanes[VOLUMES];

static void name_ticket(struct ticket *ticket, const char *volume, const char *alloc)
{
	memset(ticket->volume, 0, sizeof(ticket->volume));
	(void)str_copy(ticket->volume, sizeof(ticket->volume), volume);
	assert_true(id_uuid_bytes(alloc, ticket->alloc));
	sign_ticket(ticket);
}

#define NAME(request, field, text)                                              \
	do {                                                                    \
		memset((request).field, 0, sizeof((request).field));            \
		(void)str_copy((request).field, sizeof((request).field), text); \
	} while (0)

static void lane_open(struct lane *lane, const char *volume, const char *alloc, bool read_only)
{
	agent_up(&lane->agent);
	lane->stage = stage_tmpfs();
	NAME(lane->stage, volume, volume);
	NAME(lane->stage, alloc, alloc);
	name_ticket(&lane->stage.ticket, volume, alloc);
	lane->publish = publish_tmpfs();
	NAME(lane->publish, volume, volume);
	NAME(lane->publish, alloc, alloc);
	lane->publish.slot = lane->publish.ticket.slot = RACE_SLOT;
	lane->publish.read_only = read_only;
	name_ticket(&lane->publish.ticket, volume, alloc);
	lane->unpublish = unpublish(volume);
	NAME(lane->unpublish, alloc, alloc);
	lane->unpublish.slot = RACE_SLOT;
	lane->unstage = unstage(volume);
}

/* An attacker may have a file of the publish open: then it is in use, and goes lazily. */
static void unpublish_whatever(struct lane *lane)
{
	struct mh_unpublish req = lane->unpublish;
	struct mh_reply reply;

	assert_true(agent_call(&lane->agent, &req, sizeof(req), &reply));
	if (reply.status == MH_BUSY) {
		req.detach = 1;
		expect_unpublish(&lane->agent, req, MH_OK);
	} else if (reply.status != MH_OK) {
		fail_msg("unpublish: status %u step %u errno %u", reply.status, reply.step, reply.sys_errno);
	}
}

/* Most publishes live as short as can be; some long enough to be taken along into a namespace, and for the
 * policy's rate: a cycle takes a millisecond at least, and two volumes may have two thousand requests a
 * second after the burst. */
static void cycle(struct lane *lane, bool linger)
{
	expect_stage(&lane->agent, lane->stage, MH_OK);
	expect_publish(&lane->agent, lane->publish, MH_OK);
	if (linger)
		(void)poll(NULL, 0, LINGER_MS);
	unpublish_whatever(lane);
	expect_unstage(&lane->agent, lane->unstage, MH_OK);
}

/* Every name below the test's folder and in /dev, with owner, mode, inode and link; not what is below the
 * trees. */
static char *describe_outside(void)
{
	static char prefix[] = TEST_PREFIX;
	static char dev[] = "/dev";
	char *roots[] = {prefix, dev, NULL};
	FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	struct strbuf text = STRBUF_INIT(1 << 20);
	FTSENT *entry;

	assert_non_null(walk);
	while ((entry = fts_read(walk))) {
		char link[256] = "";

		if (entry->fts_info == FTS_DP)
			continue;
		if (str_eq(entry->fts_path, STAGE_BASE) || str_eq(entry->fts_path, PUBLISH_BASE) ||
		    str_eq(entry->fts_path, "/dev/pts"))
			(void)fts_set(walk, entry, FTS_SKIP);
		if (entry->fts_info == FTS_SL || entry->fts_info == FTS_SLNONE)
			(void)!readlink(entry->fts_accpath, link, sizeof(link) - 1);
		strbuf_printf(&text, "%s %o %u %u %lu %s\n", entry->fts_path, entry->fts_statp->st_mode,
			      entry->fts_statp->st_uid, entry->fts_statp->st_gid,
			      (unsigned long)entry->fts_statp->st_ino, link);
	}
	(void)fts_close(walk);
	return strbuf_take(&text);
}

static char *outside;

static struct witness *attack(bool in_turns)
{
	world_policy("required", "\tallow_detach = yes");
	lane_open(&lanes[0], "race-0", RACE_ALLOC_RO, true);
	lane_open(&lanes[1], "race-1", RACE_ALLOC_RW, false);
	outside = describe_outside();
	return attackers_start(in_turns);
}

static void end_attack(const struct witness *witness)
{
	char *after;

	attackers_stop();
	if (witness->violated)
		fail_msg("%s", witness->text);
	for (int i = 0; i < VOLUMES; i++)
		assert_int_equal(agent_stop_code(&lanes[i].agent), 0);
	assert_int_equal(count_mounts(), 0);
	after = describe_outside();
	assert_string_equal(outside, after);
	free(outside);
	free(after);
	print_message(
		"observers: %lu passes, %lu publishes seen; attackers: %lu calls, %lu of them successful "
		"in their own volume or namespace, %lu newer namespaces, %lu with a copy of the publish\n",
		witness->passes, witness->published, witness->attempts, witness->own_successes,
		witness->newer, witness->copies);
}

/* Which calls the attackers came before: shared with the tracer. */
struct walked {
	_Atomic bool is_over;
	uint32_t n;
	uint32_t of_call[CALLS_MAX];
};

static bool attack_before_the_call(const struct stop *stop, void *userdata)
{
	struct walked *walked = userdata;

	if (walked->is_over)
		return false;
	if (stop->side != STEPS_BEFORE)
		return true; /* between the return from a call and the next one the kernel changes nothing */
	attackers_turn();
	walked->n++;
	walked->of_call[stop->call < CALLS_MAX ? stop->call : 0]++;
	return true;
}

static void walk_a_cycle(int i)
{
	static const int needed[] = {SYS_mkdirat,	SYS_fsmount,	SYS_open_tree,
				     SYS_mount_setattr, SYS_move_mount, SYS_openat,
				     SYS_statx,		SYS_umount2,	SYS_unlinkat};
	struct walked *walked = steps_share(sizeof(*walked));
	const struct witness *witness = attack(true);
	pid_t tracer = steps_attach(lanes[i].agent.helper, attack_before_the_call, walked);
	struct mh_reply reply;

	cycle(&lanes[i], false);
	walked->is_over = true;
	assert_true(agent_look(&lanes[i].agent, "race-0", "", &reply)); /* the next stop is the last one */
	steps_wait(tracer);
	end_attack(witness);
	print_message("%u calls\n", walked->n);
	for (size_t n = 0; n < ARRAY_SIZE(needed); n++)
		if (walked->of_call[needed[n]] == 0)
			fail_msg("no stop before call %d", needed[n]);
	assert_true(witness->published > 0 && witness->newer > 0 && witness->copies > 0);
}

TEST(attacks_before_each_call_change_nothing_of_a_read_only_volume)
{
	walk_a_cycle(0);
}

TEST(attacks_before_each_call_change_nothing_of_a_writable_volume)
{
	walk_a_cycle(1);
}

TEST(cycles_under_attack_change_nothing_else_and_show_no_mount_without_its_flags)
{
	struct witness *witness = attack(false);

	for (uint32_t i = 0; i < cycles && !witness->violated; i++)
		cycle(&lanes[i % VOLUMES], i % LINGER_EACH == 0);
	end_attack(witness);
	print_message("%u cycles\n", cycles);
	/* else the race was not one */
	assert_true(witness->published > 0 && witness->newer > 0 && witness->attempts > 0);
}

TEST_GROUP(world_up, world_down)

int main(int argc, char **argv)
{
	if (argc > 1 && parse_u32(argv[1], 1, 10000000, &cycles) < 0)
		return 2;
	return unit_run();
}
