/* SPDX-License-Identifier: Apache-2.0 */
/* lifecycle --seed N --steps N SERVER: random operations, invariants after each.
 *
 * In between the server is killed and its state folder is damaged, or comes back from an earlier day
 * (sim_damage.c). What nobody could notify the server then, and only that, is let pass: the table is in
 * oracle.c, and the last line says how often. As a unit test it runs few steps; by hand:
 *
 *   for seed in 1 2 3; do
 *     build/dev/tests/lifecycle/lifecycle --seed $seed --steps 50000 build/dev/server/holdfast-server
 *   done */

#include "sample.h"
#include "sim.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/str.h"
#include "log/log.h"

#include <fcntl.h>
#include <ftw.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	CHECK_EVERY = 20,  /* steps between questions about every volume */
	SESSIONS_MAX = 20, /* one after the other in a step */
	RUNS_KEPT = 256,   /* allocations that may be stopped */
	QUIET_LIMIT_US = 120 * 1000 * 1000,
	KILL_WITHIN_US = 3000,
	LOST_STEPS = 12,  /* that nobody knows any more, */
	AFTER_STEPS = 48, /* and before others are back */
};

struct runs {
	char ids[RUNS_KEPT][UUID_TEXT_SIZE];
	size_t n;
};

static struct runs runs;
static int wanted_volume;	    /* by everybody, so that there are rivals */
static struct sim_node copied_node; /* of an earlier day */
static uint64_t copied_epoch;	    /* the server's then */
static uint64_t seed;

static void print_where(const struct sim *sim)
{
	(void)fprintf(stderr, "lifecycle: seed %llu, step %llu: ", (unsigned long long)seed,
		      (unsigned long long)sim->step);
}

static void print_rerun(const struct sim *sim)
{
	(void)fprintf(stderr, "again: lifecycle --seed %llu --steps %llu %s\n", (unsigned long long)seed,
		      (unsigned long long)sim->step, sim->server_binary);
}

static pid_t exec_server(struct sim *sim)
{
	const char *argv[] = {sim->server_binary, "--dev", sim->dir, "--cluster", "c1",	    "--node", "n0",
			      "--node",		  "n1",	   "--node", "n2",	  "--node", "n3",     NULL};
	char path[PATH_MAX];
	pid_t pid = fork();
	int fd;

	if (pid != 0)
		return pid;
	(void)str_format(path, sizeof(path), "%s/server.log", sim->dir);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd >= 0)
		(void)dup2(fd, STDERR_FILENO);
	(void)execv(sim->server_binary, (char **)(uintptr_t)argv);
	_exit(127);
}

static struct sim_node *any_node(struct sim *sim)
{
	return &sim->nodes[sim_random(sim, SIM_NODES)];
}

static bool is_connected(const struct sim_node *node)
{
	return node->stream != NULL;
}

static void disconnect_all(struct sim *sim, bool ret_connected[static SIM_NODES])
{
	for (int i = 0; i < SIM_NODES; i++) {
		ret_connected[i] = sim->nodes[i].client;
		if (ret_connected[i])
			sim_node_disconnect(&sim->nodes[i]);
	}
}

static void reconnect_all(struct sim *sim, const bool connected[static SIM_NODES])
{
	for (int i = 0; i < SIM_NODES; i++)
		if (connected[i])
			sim_node_connect(&sim->nodes[i]);
}

/* A node has shown that the server is behind: it starts again, in an epoch in which it waits for all. */
static void follow_restart(struct sim *sim)
{
	bool connected[SIM_NODES];
	struct sim_status status;

	if (server_process_has_died(sim))
		sim_fail(sim, "the server has died; see %s/server.log", sim->dir);
	disconnect_all(sim, connected);
	if (!server_process_wait_again(sim))
		sim_fail(sim, "the server does not come back; see %s/server.log", sim->dir);
	status = sim_status(sim);
	if (status.epoch <= sim->epoch)
		sim_fail(sim, "the server starts again, and no epoch begins");
	sim->epoch = status.epoch;
	sim->gap = SIM_NO_GAP;
	sim->counts[COUNT_EPOCHS_BY_NODES]++;
	oracle_forget_server(sim);
	reconnect_all(sim, connected);
}

/* Agents whose session has ended connect again. */
static bool reconnect_ended(struct sim *sim)
{
	bool any = false;

	for (int i = 0; i < SIM_NODES; i++) {
		if (sim->nodes[i].is_refused) { /* as the refusal says */
			sim_node_reboot(&sim->nodes[i]);
			sim->counts[COUNT_REFUSED_BOOTS]++;
		} else if (!sim->nodes[i].client || is_connected(&sim->nodes[i])) {
			continue;
		}
		sim_node_connect(&sim->nodes[i]);
		any = true;
	}
	return any;
}

/* Whoever is connected has told by now what it holds. */
static void note_reported(struct sim *sim)
{
	for (int n = 0; n < SIM_NODES; n++) {
		if (!sim->nodes[n].welcomed)
			continue;
		sim->nodes[n].reported = true;
		oracle_check_reported(sim, &sim->nodes[n]);
		for (int i = 0; i < SIM_ENTRIES; i++)
			sim->nodes[n].entries[i].is_not_logged = false;
	}
}

static void settle(struct sim *sim)
{
	for (int i = 0; i < SESSIONS_MAX; i++) {
		if (!sim_settle(sim)) {
			follow_restart(sim);
		} else if (!reconnect_ended(sim)) {
			note_reported(sim);
			return;
		}
	}
	sim_fail(sim, "sessions begin and end for ever");
}

static void do_run(struct sim *sim)
{
	int volume = (int)sim_random(sim, (uint64_t)sim->n_volumes);
	int node = (int)sim_random(sim, SIM_NODES);
	bool is_write = sim_random(sim, 3) > 0;
	bool is_wanted = sim_random(sim, 3) == 0;
	size_t slot = sim_random(sim, RUNS_KEPT);
	char id[UUID_TEXT_SIZE];
	struct error err;

	if (is_wanted)
		volume = wanted_volume;
	if (sim_run(sim, volume, node, is_write, id, &err) != STATUS_OK) {
		sim->counts[COUNT_REFUSED]++;
		return;
	}
	sim->counts[COUNT_RUN]++;
	if (runs.ids[slot][0] != '\0')
		(void)sim_stop(sim, runs.ids[slot]);
	(void)str_copy(runs.ids[slot], UUID_TEXT_SIZE, id);
}

static void do_stop(struct sim *sim)
{
	size_t slot = sim_random(sim, RUNS_KEPT);

	for (size_t i = 0; i < RUNS_KEPT; i++) {
		char *id = runs.ids[(slot + i) % RUNS_KEPT];

		if (id[0] == '\0')
			continue;
		(void)sim_stop(sim, id);
		id[0] = '\0';
		return;
	}
}

static void do_partition(struct sim *sim)
{
	struct sim_node *node = any_node(sim);

	if (!is_connected(node))
		return;
	sim_node_disconnect(node);
	sim->counts[COUNT_PARTITIONS]++;
}

static void do_heal(struct sim *sim)
{
	struct sim_node *node = any_node(sim);

	if (!is_connected(node) && node->powered)
		sim_node_connect(node);
}

static void do_reboot(struct sim *sim)
{
	struct sim_node *node = any_node(sim);

	sim_node_reboot(node);
	sim->counts[COUNT_REBOOTS]++;
	if (sim_random(sim, 2) == 0)
		return; /* it comes back later */
	settle(sim);	/* the server sees the old session end */
	sim_node_connect(node);
}

static void do_power_off(struct sim *sim)
{
	struct sim_node *node = any_node(sim);

	if (is_connected(node))
		sim_node_disconnect(node);
	node->powered = false;
}

/* The operator says only what is true: the word may be about the node, or about its provider, so both are
 * looked after before it is given. */
static void do_attest(struct sim *sim)
{
	int volume = (int)sim_random(sim, (uint64_t)sim->n_volumes);
	struct sim_node *node = any_node(sim);

	bool is_of_node = sim_random(sim, 2) == 0;
	bool is_lasting = sim_random(sim, 2) == 0;
	enum status status;

	if (node->powered)
		return;
	sim->volumes[volume].attached[node->number] = false;
	status = is_of_node ? sim_attest_node(sim, node->number, volume, is_lasting)
			    : sim_attest(sim, volume, node->number, NULL);
	sim->counts[COUNT_ATTESTED] += status == STATUS_OK;
}

static int any_made(struct sim *sim)
{
	return SIM_REGISTERED + (int)sim_random(sim, SIM_VOLUMES - SIM_REGISTERED);
}

static void do_create(struct sim *sim)
{
	sim_create(sim, any_made(sim), SIM_WAITS);
}

static void do_expand(struct sim *sim)
{
	sim_expand(sim, any_made(sim), SIM_WAITS);
}

static void do_delete(struct sim *sim)
{
	sim_delete(sim, any_made(sim), SIM_WAITS);
}

static void do_gc(struct sim *sim)
{
	sim_gc(sim, SIM_WAITS);
}

static void do_drain(struct sim *sim)
{
	sim_drain(sim, any_node(sim)->number, SIM_WAITS);
}

static void do_make_eligible(struct sim *sim)
{
	sim_make_eligible(sim, any_node(sim)->number);
}

/* Something that the server is in the middle of when it dies. */
static void begin_anything(struct sim *sim)
{
	switch (sim_random(sim, 6)) {
	case 0:
		sim_create(sim, any_made(sim), SIM_GOES_ON);
		break;
	case 1:
		sim_expand(sim, any_made(sim), SIM_GOES_ON);
		break;
	case 2:
		sim_delete(sim, any_made(sim), SIM_GOES_ON);
		break;
	case 3:
		sim_gc(sim, SIM_GOES_ON);
		break;
	case 4:
		sim_drain(sim, any_node(sim)->number, SIM_GOES_ON);
		break;
	default:
		break;
	}
}

static void do_kill(struct sim *sim)
{
	bool connected[SIM_NODES];

	do_run(sim);
	begin_anything(sim);
	(void)usleep((useconds_t)sim_random(sim, KILL_WITHIN_US));
	server_process_kill(sim);
	disconnect_all(sim, connected);
	server_process_start(sim);
	sim->counts[COUNT_KILLS]++;
	reconnect_all(sim, connected);
}

/* A lost store, or a copy of an empty one, does not know them: operators register them again. */
static void look_for_volumes(struct sim *sim)
{
	for (int v = 0; v < sim->n_volumes; v++)
		sim->volumes[v].is_known = false;
}

/* The server refuses what is left of its store: an operator restores the last copy, or, when nothing is left,
 * begins anew. */
static void start_damaged(struct sim *sim, enum sim_damage damage)
{
	bool is_lost = damage == DAMAGE_NO_STORE || damage == DAMAGE_NO_FOLDER;

	if (server_process_try(sim)) {
		if (is_lost)
			sim_fail(sim, "after damage (%s) the server starts empty by itself",
				 sim_damage_names[damage]);
		return;
	}
	sim->counts[COUNT_REFUSED_STARTS]++;
	if (is_lost)
		sim_new_cluster(sim);
	else
		sim_restore_offline(sim);
	server_process_start(sim);
}

static void open_gap(struct sim *sim, enum sim_gap gap)
{
	sim->gap = sim->last_gap = gap;
	for (int n = 0; n < SIM_NODES; n++)
		for (int i = 0; i < SIM_ENTRIES; i++) {
			struct sim_entry *entry = &sim->nodes[n].entries[i];

			entry->was_lost = entry->is_not_logged = entry->phase == SIM_MOUNTED;
		}
}

/* What was acknowledged is there, or the server knows that it is not. */
static void check_start(struct sim *sim, enum sim_damage damage)
{
	struct sim_status status = sim_status(sim);
	enum sim_gap gap = sim_damage_gap(damage);

	/* what was made anew without a mark has an epoch, and knows of no node to wait for */
	bool opens = oracle_is_open(gap) && (status.epoch <= sim->epoch || damage == DAMAGE_NO_FOLDER);

	if (opens)
		open_gap(sim, gap);
	if (gap == SIM_GAP_NO_MARK && status.epoch <= sim->epoch)
		sim->excused[gap]++;
	if (gap == SIM_GAP_NO_MARK && status.epoch <= sim->copy_epoch)
		sim_fail(sim, "after damage (%s) no epoch begins", sim_damage_names[damage]);
	if (gap == SIM_NO_GAP && status.epoch < sim->epoch)
		sim_fail(sim, "after damage (%s) epoch %llu has become %llu", sim_damage_names[damage],
			 (unsigned long long)sim->epoch, (unsigned long long)status.epoch);
	if (gap == SIM_NO_GAP && status.epoch == sim->epoch && status.index < sim->index)
		sim_fail(sim, "after damage (%s) the index fell from %llu to %llu, and the server continues",
			 sim_damage_names[damage], (unsigned long long)sim->index,
			 (unsigned long long)status.index);
	if (status.epoch > sim->epoch && !opens) {
		sim->gap = SIM_NO_GAP;
		sim->counts[COUNT_EPOCHS_BY_START]++;
	}
	sim->epoch = status.epoch;
	sim->index = status.index;
}

/* Between two runs of the server. @stay_away: these nodes do not come back at once. */
static void damage_store(struct sim *sim, enum sim_damage damage, const bool stay_away[static SIM_NODES])
{
	bool connected[SIM_NODES];

	sim->index = sim_status(sim).index;
	server_process_kill(sim);
	disconnect_all(sim, connected);
	sim_damage(sim, damage);
	oracle_forget_server(sim);
	look_for_volumes(sim);
	start_damaged(sim, damage);
	check_start(sim, damage);
	for (int i = 0; i < SIM_NODES; i++)
		connected[i] = connected[i] && !stay_away[i];
	reconnect_all(sim, connected);
}

static bool needs_copy(enum sim_damage damage)
{
	return damage == DAMAGE_OLD_DB || damage == DAMAGE_OLD_DB_NO_MARK || damage == DAMAGE_OLD_FOLDER;
}

static void do_damage(struct sim *sim)
{
	enum sim_damage damage = (enum sim_damage)sim_random(sim, DAMAGE_N);
	bool stay_away[SIM_NODES];

	for (int i = 0; i < SIM_NODES; i++)
		stay_away[i] = sim_random(sim, 2) == 0;
	if (needs_copy(damage) && !sim->has_folder_copy)
		return;
	damage_store(sim, damage, stay_away);
}

static void do_copy_folder(struct sim *sim)
{
	sim_copy_folder(sim);
}

/* So that there is something to lose, and indexes continue. */
static void live(struct sim *sim, int steps)
{
	for (int i = 0; i < steps; i++) {
		if (sim_random(sim, 3) > 0)
			do_run(sim);
		else
			do_stop(sim);
		settle(sim);
		oracle_check_mounts(sim);
	}
}

/* Once all that there are are connected, an operator knows that nobody else is left. */
static void do_purge_missing(struct sim *sim)
{
	for (int i = 0; i < SIM_NODES; i++)
		if (!sim->nodes[i].reported || !sim->nodes[i].powered)
			return;
	sim_purge_missing(sim);
}

/* What held the mounts has ended, and the agent tries again. */
static void end_unmount_failures(struct sim_node *node)
{
	node->unmount_fails = false;
	sim_node_act(node);
}

/* Operators have looked after everything: else too little is granted for anything to be lost. */
static void tend(struct sim *sim)
{
	for (int i = 0; i < SIM_NODES; i++) {
		struct sim_node *node = &sim->nodes[i];

		if (!node->powered)
			sim_node_reboot(node);
		if (!node->client)
			sim_node_connect(node);
		node->plugin_healthy = true;
		node->lose_grants = false;
		end_unmount_failures(node);
	}
	settle(sim);
	do_purge_missing(sim);
	for (int i = 0; i < SIM_NODES; i++) {
		sim_node_send_plugins(&sim->nodes[i]);
		sim_make_eligible(sim, i);
		sim_node_act(&sim->nodes[i]);
	}
	sim_register_again(sim);
	if (sim_random(sim, 2) == 0)
		sim_stop_all(sim);
	settle(sim);
}

/* The time between a copy and its return: some nodes work, and are away when it is back; others were away
 * then, and are back now. */
static void do_lose_time(struct sim *sim)
{
	static const enum sim_damage kinds[] = {DAMAGE_OLD_DB, DAMAGE_OLD_DB_NO_MARK, DAMAGE_OLD_FOLDER,
						DAMAGE_OLD_FOLDER};
	enum sim_damage damage = kinds[sim_random(sim, ARRAY_SIZE(kinds))];
	int n = (int)sim_random(sim, LOST_STEPS);
	int after = (int)sim_random(sim, AFTER_STEPS);
	bool were_away[SIM_NODES];
	bool is_away[SIM_NODES];

	wanted_volume = (int)sim_random(sim, SIM_REGISTERED);
	tend(sim);
	sim_copy_folder(sim);
	for (int i = 0; i < SIM_NODES; i++) {
		were_away[i] = sim_random(sim, 2) == 0;
		is_away[i] = sim_random(sim, 4) > 0;
		if (were_away[i] && sim->nodes[i].client)
			sim_node_disconnect(&sim->nodes[i]);
	}
	live(sim, n);
	damage_store(sim, damage, is_away);
	for (int i = 0; i < SIM_NODES; i++)
		if (were_away[i] && sim->nodes[i].powered && !sim->nodes[i].client)
			sim_node_connect(&sim->nodes[i]);
	settle(sim);
	live(sim, after);
}

/* A machine with a new disk, or with one of an earlier day. */
static void do_reinstall(struct sim *sim)
{
	struct sim_node *node = any_node(sim);

	sim_node_reinstall(node);
	settle(sim); /* the server sees the old session end */
	sim_node_connect(node);
}

static void do_copy_node(struct sim *sim)
{
	copied_node = *any_node(sim);
	copied_epoch = sim->epoch;
}

static void come_back(struct sim *sim, struct sim_node *node)
{
	settle(sim); /* the server sees the old session end */
	if (sim_random(sim, 3) > 0)
		sim_node_connect(node); /* else later */
}

static void do_resume(struct sim *sim)
{
	struct sim_node *node = &sim->nodes[copied_node.number];

	if (!copied_node.sim || !copied_node.powered)
		return;
	sim_node_resume(node, &copied_node,
			sim->epoch != copied_epoch || sim->gap != SIM_NO_GAP || !node->reported);
	come_back(sim, node);
}

static void do_lose_journal(struct sim *sim)
{
	struct sim_node *node = any_node(sim);

	if (!node->powered)
		return;
	sim_node_lose_journal(node);
	come_back(sim, node);
}

static void do_put_journal_back(struct sim *sim)
{
	struct sim_node *node = &sim->nodes[copied_node.number];

	if (!copied_node.sim || !node->powered)
		return;
	sim_node_put_journal_back(node, &copied_node);
	come_back(sim, node);
}

static void check_server(struct sim *sim)
{
	sim_look_at_made(sim);
	sim_look_at_made(sim);
	oracle_check_server(sim);
}

static void do_clone(struct sim *sim)
{
	sim_clone(any_node(sim));
	settle(sim);
	check_server(sim);
}

static void do_revert(struct sim *sim)
{
	struct sim_node *node;

	if (!copied_node.sim)
		return;
	node = &sim->nodes[copied_node.number];
	sim_node_reinstall(node);
	memcpy(node->entries, copied_node.entries, sizeof(node->entries));
	node->mark = copied_node.mark;
	for (int i = 0; i < SIM_ENTRIES; i++) {
		struct sim_entry *entry = &node->entries[i];

		entry->call = NULL;
		if (entry->phase == SIM_CLAIMING)
			entry->phase = SIM_NEW;
	}
	sim_node_reboot(node); /* nothing is mounted: what the journal had is over */
	settle(sim);
	sim_node_connect(node);
	sim->counts[COUNT_REVERTED]++;
}

/* What a node had was released and went to others, and then it is back with it. */
static void do_lose_time_of_node(struct sim *sim)
{
	wanted_volume = (int)sim_random(sim, SIM_REGISTERED);
	tend(sim);
	live(sim, 1 + (int)sim_random(sim, LOST_STEPS));
	do_copy_node(sim);
	if (sim_random(sim, 2) == 0)
		sim_stop_all(sim);
	live(sim, (int)sim_random(sim, LOST_STEPS));
	if (sim_random(sim, 3) > 0)
		do_resume(sim);
	else
		do_put_journal_back(sim);
	settle(sim);
	oracle_check_mounts(sim);
	check_server(sim);
	live(sim, (int)sim_random(sim, AFTER_STEPS));
}

static void do_backup(struct sim *sim)
{
	sim_backup(sim);
}

static void do_restore(struct sim *sim)
{
	bool connected[SIM_NODES];
	struct error err;

	if (!sim->backup.data || sim_random(sim, 4) != 0)
		return;
	if (sim_restore(sim, &err) != STATUS_OK)
		sim_fail(sim, "restore: %s", err.msg);
	sim->gap = SIM_NO_GAP;
	look_for_volumes(sim);
	disconnect_all(sim, connected);
	if (!server_process_wait_again(sim))
		sim_fail(sim, "the server does not come back; see %s/server.log", sim->dir);
	reconnect_all(sim, connected);
}

static void do_plugin(struct sim *sim)
{
	struct sim_node *node = any_node(sim);

	node->plugin_healthy = !node->plugin_healthy;
	sim_node_send_plugins(node);
}

static void do_trouble(struct sim *sim)
{
	struct sim_node *node = any_node(sim);
	struct sim_volume *volume = &sim->volumes[sim_random(sim, (uint64_t)sim->n_volumes)];

	switch (sim_random(sim, 4)) {
	case 0:
		if (node->unmount_fails)
			end_unmount_failures(node);
		else
			node->unmount_fails = true;
		break;
	case 1:
		node->lose_grants = !node->lose_grants;
		break;
	case 2:
		volume->attach_fails = !volume->attach_fails;
		break;
	default:
		volume->detach_fails = !volume->detach_fails;
		break;
	}
}

/* Most are of a node that is cut off and works on: what is not proved off must keep its volumes. */
static void do_fence(struct sim *sim)
{
	struct sim_node *node = any_node(sim);

	sim_fencer_connect(sim);
	if (is_connected(node) && sim_random(sim, 4) > 0) {
		sim_node_disconnect(node);
		sim->counts[COUNT_PARTITIONS]++;
	}
	settle(sim);
	sim_fence(sim, node->number, "");
}

/* The node works on: the provider refuses its writes, until it has booted. */
static void do_network_fence(struct sim *sim)
{
	struct sim_node *node = any_node(sim);

	if (is_connected(node) && sim_random(sim, 4) > 0) {
		sim_node_disconnect(node);
		sim->counts[COUNT_PARTITIONS]++;
	}
	settle(sim);
	sim_fence(sim, node->number, "csi");
}

static void do_fencer_act(struct sim *sim)
{
	sim_fencer_act(sim);
}

static void do_fencer_lost(struct sim *sim)
{
	sim_fencer_disconnect();
}

static void do_act(struct sim *sim)
{
	sim_node_act(any_node(sim));
}

struct operation {
	const char *name;
	unsigned int weight;
	void (*run)(struct sim *sim);
};

static const struct operation operations[] = {
	{"run", 300, do_run},
	{"stop", 260, do_stop},
	{"act", 200, do_act},
	{"partition", 30, do_partition},
	{"heal", 60, do_heal},
	{"reboot", 15, do_reboot},
	{"power-off", 5, do_power_off},
	{"attest", 20, do_attest},
	{"fence", 15, do_fence},
	{"network-fence", 15, do_network_fence},
	{"fencer-act", 90, do_fencer_act},
	{"fencer-lost", 2, do_fencer_lost},
	{"kill", 4, do_kill},
	{"backup", 3, do_backup},
	{"restore", 2, do_restore},
	{"damage", 5, do_damage},
	{"lose-time", 4, do_lose_time},
	{"copy-folder", 3, do_copy_folder},
	{"reinstall", 1, do_reinstall},
	{"copy-node", 5, do_copy_node},
	{"revert-node", 2, do_revert},
	{"resume-node", 3, do_resume},
	{"lose-time-of-node", 4, do_lose_time_of_node},
	{"lose-journal", 2, do_lose_journal},
	{"put-journal-back", 3, do_put_journal_back},
	{"clone", 4, do_clone},
	{"purge-missing", 10, do_purge_missing},
	{"plugin", 15, do_plugin},
	{"trouble", 30, do_trouble},
	{"create", 20, do_create},
	{"expand", 10, do_expand},
	{"delete", 12, do_delete},
	{"drain", 4, do_drain},
	{"eligible", 20, do_make_eligible},
	{"gc", 5, do_gc},
};

static void step(struct sim *sim)
{
	unsigned int total = 0;
	uint64_t pick;

	for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
		total += operations[i].weight;
	pick = sim_random(sim, total);
	for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++) {
		if (pick >= operations[i].weight) {
			pick -= operations[i].weight;
			continue;
		}
		operations[i].run(sim);
		break;
	}
	settle(sim);
	sim_register_again(sim);
	oracle_check_mounts(sim);
	if (sim->step % CHECK_EVERY == 0)
		check_server(sim);
}

static void start(struct sim *sim)
{
	const char *tmp = getenv("TMPDIR");

	(void)str_format(sim->dir, sizeof(sim->dir), "%s/holdfast-lifecycle-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(sim->dir) || sd_event_new(&sim->event) < 0)
		sim_fail(sim, "cannot set up");
	server_process_start(sim);
	sim->epoch = sim_status(sim).epoch; /* it is made in one */
	for (int i = 0; i < SIM_NODES; i++) {
		struct sim_node *node = &sim->nodes[i];

		node->sim = sim;
		node->number = i;
		node->powered = node->plugin_healthy = node->reported = true;
		(void)str_format(node->id, sizeof(node->id), "n%d", i);
		(void)str_format(node->machine, sizeof(node->machine), "%032x+%032x", i + 1, i + 1);
		sim_make_uuid(sim, node->boot_id);
		sim_node_connect(node);
	}
	sd_event_run(sim->event, 100000);
	while (!sim->nodes[0].welcomed || !sim->nodes[1].welcomed || !sim->nodes[2].welcomed ||
	       !sim->nodes[3].welcomed)
		(void)sd_event_run(sim->event, 100000);
	sim_register_volumes(sim);
	sim_add_made_volumes(sim);
	settle(sim);
	sim_backup(sim);
}

/* Everything works again and all work is stopped: then every claim must be freed. */
static void finish(struct sim *sim)
{
	uint64_t limit = clock_monotonic_us() + QUIET_LIMIT_US;

	sim_fencer_free();
	for (int v = 0; v < sim->n_volumes; v++)
		sim->volumes[v].attach_fails = sim->volumes[v].detach_fails = false;
	for (int i = 0; i < SIM_NODES; i++) {
		struct sim_node *node = &sim->nodes[i];

		end_unmount_failures(node);
		node->lose_grants = false;
		node->plugin_healthy = true;
		if (!node->powered)
			sim_node_reboot(node);
		if (!is_connected(node))
			sim_node_connect(node);
	}
	settle(sim);
	do_purge_missing(sim);
	sim_stop_all(sim);
	for (int i = 0; i < SIM_NODES; i++)
		sim_node_send_plugins(&sim->nodes[i]);
	sim_look_at_made(sim);
	oracle_end_unknown(sim);
	while (!oracle_is_quiet(sim)) {
		if (clock_monotonic_us() > limit) {
			oracle_explain_all(sim);
			sim_fail(sim, "claims are left although everything works again");
		}
		for (int i = 0; i < SIM_NODES; i++)
			sim_node_act(&sim->nodes[i]);
		(void)sd_event_run(sim->event, 100000);
		settle(sim);
	}
	oracle_check_server(sim);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void end(struct sim *sim)
{
	for (int i = 0; i < SIM_NODES; i++) {
		sim_node_disconnect(&sim->nodes[i]);
		rpc_tls_free(sim->nodes[i].tls);
	}
	server_process_kill(sim);
	rpc_tls_free(sim->tls);
	free(sim->backup.data);
	(void)sd_event_unref(sim->event);
	(void)nftw(sim->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void print_summary(const struct sim *sim)
{
	static const char *const names[COUNT_N] = {"run",
						   "refused",
						   "granted",
						   "mounted",
						   "unmounted",
						   "kill -9",
						   "reboots",
						   "partitions",
						   "attested",
						   "attached",
						   "detached",
						   "restores",
						   "adopted",
						   "created",
						   "expanded",
						   "deleted",
						   "drains",
						   "collections",
						   "refused starts",
						   "offline restores",
						   "new clusters",
						   "epochs by a start",
						   "epochs by a node",
						   "reverted nodes",
						   "resumed snapshots",
						   "refused boots",
						   "lost journals",
						   "older journals",
						   "given up",
						   "clones refused",
						   "power fences",
						   "network fences",
						   "lifts"};

	(void)printf("seed %llu, %llu steps:", (unsigned long long)seed, (unsigned long long)sim->step);
	for (int i = 0; i < COUNT_N; i++)
		(void)printf(" %s %llu", names[i], (unsigned long long)sim->counts[i]);
	(void)printf("\ndamages:");
	for (int i = 0; i < DAMAGE_N; i++)
		(void)printf(" %s %llu%s", sim_damage_names[i], (unsigned long long)sim->damages[i],
			     i + 1 < DAMAGE_N ? "," : "");
	(void)printf("\nlet pass:");
	for (int i = SIM_NO_GAP + 1; i < SIM_GAPS; i++)
		(void)printf(" %s %llu%s", oracle_exception((enum sim_gap)i),
			     (unsigned long long)sim->excused[i], i + 1 < SIM_GAPS ? "," : "");
	(void)printf("\n");
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"seed", required_argument, NULL, 's'}, {"steps", required_argument, NULL, 'n'}, {0}};
	static struct sim sim;
	const struct sample sample = sample_of_environment();
	uint64_t steps = 1000;
	int opt;

	seed = 1 + sample.part;
	while ((opt = getopt_long(argc, argv, "s:n:", options, NULL)) != -1)
		if (opt == '?' || parse_u64(optarg, 0, UINT64_MAX, opt == 's' ? &seed : &steps) < 0)
			return 2;
	if (optind + 1 != argc)
		return 2;
	steps /= sample.parts;
	log_init("lifecycle", LOG_ERR);
	(void)signal(SIGPIPE, SIG_IGN);
	sim.server_binary = argv[optind];
	sim.spawn = exec_server;
	sim.may_restart = true;
	sim.print_where = print_where;
	sim.print_rerun = print_rerun;
	sim.rng = seed;
	start(&sim);
	for (sim.step = 1; sim.step <= steps; sim.step++)
		step(&sim);
	finish(&sim);
	print_summary(&sim);
	end(&sim);
	return 0;
}
