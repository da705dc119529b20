/* SPDX-License-Identifier: Apache-2.0 */
/* Ten thousand times stage, publish, unpublish, unstage, while processes with the agent's uid do to the trees
 * whatever their rights and their own namespaces let them: test_root_mounthelper_race [CYCLES]. */

#include "agent.h"
#include "attackers.h"

#include "base/id.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/strbuf.h"

#include <errno.h>
#include <fts.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>

enum { VOLUMES = 2, LINGER_EACH = 3, LINGER_MS = 3 };

static uint32_t cycles = 10000;

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
	lane->publish.slot = RACE_SLOT;
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

TEST(ten_thousand_cycles_under_attack_change_nothing_else_and_show_no_mount_without_its_flags)
{
	struct witness *witness;
	char *before;
	char *after;

	world_policy("required", "\tallow_detach = yes");
	lane_open(&lanes[0], "race-0", RACE_ALLOC_RO, true);
	lane_open(&lanes[1], "race-1", RACE_ALLOC_RW, false);
	before = describe_outside();
	witness = attackers_start();
	for (uint32_t i = 0; i < cycles && !witness->violated; i++)
		cycle(&lanes[i % VOLUMES], i % LINGER_EACH == 0);
	attackers_stop();
	if (witness->violated)
		fail_msg("%s", witness->text);
	for (int i = 0; i < VOLUMES; i++)
		assert_int_equal(agent_stop_code(&lanes[i].agent), 0);
	assert_int_equal(count_mounts(), 0);
	after = describe_outside();
	assert_string_equal(before, after);
	free(before);
	free(after);
	print_message(
		"%u cycles; observers: %lu passes, %lu publishes seen; attackers: %lu calls, %lu of them "
		"successful in their own volume or namespace, %lu newer namespaces, %lu with a copy of "
		"the publish\n",
		cycles, witness->passes, witness->published, witness->attempts, witness->own_successes,
		witness->newer, witness->copies);
	/* else the race was not one */
	assert_true(witness->published > cycles / 100);
	assert_true(witness->newer > 10 && witness->copies > 0 && witness->attempts > 100UL * cycles / 10);
}

TEST_GROUP(world_up, world_down)

int main(int argc, char **argv)
{
	if (argc > 1 && parse_u32(argv[1], 1, 10000000, &cycles) < 0)
		return 2;
	return unit_run();
}
