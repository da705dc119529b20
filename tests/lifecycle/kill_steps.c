/* SPDX-License-Identifier: Apache-2.0 */
/* kill_steps [--all] [GROUP|SCENARIO]...: each scenario with a server that dies before and after every
 * durable step, or at the places of the sample (HOLDFAST_SAMPLE, tests/support/sample.h) and at the first two
 * steps.
 */

#include "dev.h"
#include "folder.h"
#include "kill.h"
#include "places.h"

#include "base/clock.h"
#include "base/parse.h"
#include "base/str.h"
#include "log/log.h"

#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NODES = 2 };

static struct sample sample;

static const struct {
	const char *name;
	const struct kill_scenario *scenarios;
} groups[] = {
	{"claims", kill_scenarios_of_claims},
	{"nodes", kill_scenarios_of_nodes},
	{"volumes", kill_scenarios_of_volumes},
	{"upkeep", kill_scenarios_of_upkeep},
};

static struct kill kill_; /* too large for the stack */

static const char *side_name(enum fault_side side)
{
	return side == FAULT_BEFORE ? "before" : "after";
}

static void print_where(const struct sim *sim)
{
	const struct kill *k = (const struct kill *)sim;

	(void)fprintf(stderr, "kill_steps: %s, killed %s step %d (%s), %s node first: ", k->scenario->name,
		      side_name(k->fault.side), k->has_died ? k->died_at : k->fault.step,
		      k->has_died ? "it has died" : "it has not died yet", k->is_reverse ? "last" : "first");
}

static void print_rerun(const struct sim *sim)
{
	const struct kill *k = (const struct kill *)sim;

	(void)fprintf(stderr, "again: kill_steps --step %d --side %d --reverse %d %s\n",
		      k->has_died ? k->died_at : k->fault.step, (int)k->fault.side, k->is_reverse,
		      k->scenario->name);
}

static void make_config(struct kill *k)
{
	static const char *const nodes[] = {"n0", "n1"};
	const struct dev_options options = {
		.dir = k->sim.dir, .cluster = "c1", .nodes = nodes, .n_nodes = NODES};
	struct error err;

	if (dev_prepare(&options, &k->config, &err) != STATUS_OK)
		sim_fail(&k->sim, "%s", err.msg);
	k->config.dev = !k->scenario->acl;
	k->config.acl = k->scenario->acl;
	k->config.heartbeat_us = 300 * USEC_PER_SEC; /* the nodes here give no sign of life */
	if (k->scenario->reservation_ttl_us > 0)
		k->config.reservation_ttl_us = k->scenario->reservation_ttl_us;
}

static void start(struct kill *k)
{
	struct fault fault = k->fault;

	make_config(k);
	kill_server_forget_store(k);
	server_process_start(&k->sim);
	for (int i = 0; i < NODES; i++) {
		struct sim_node *node = &k->sim.nodes[i];

		node->sim = &k->sim;
		node->number = i;
		node->powered = node->plugin_healthy = node->reported = true;
		(void)str_format(node->id, sizeof(node->id), "n%d", i);
		sim_make_uuid(&k->sim, node->boot_id);
		kill_connect(k, i);
	}
	if (k->scenario->prepare)
		k->scenario->prepare(k);
	k->fault = fault;
	fault_arm();
}

/* Everything stands as it was acknowledged, nothing is left over, also when the end is a death. */
static void finish(struct kill *k)
{
	fault_disarm();
	kill_turn(k); /* it may have died already */
	KILL_UNTIL(k, oracle_is_quiet(&k->sim));
	kill_check(k);
}

static void end(struct kill *k)
{
	for (int i = 0; i < NODES; i++)
		if (k->sim.nodes[i].client)
			sim_node_disconnect(&k->sim.nodes[i]);
	server_process_kill(&k->sim);
	free(k->sim.backup.data);
	k->sim.backup.data = NULL;
}

/* What is made once for all runs. */
struct made {
	sd_event *event;
	char dir[64];
	struct rpc_tls *tls;
	struct rpc_tls *node_tls[NODES];
};

static void take_over(struct kill *k, const struct made *made)
{
	k->sim.event = made->event;
	k->sim.spawn = kill_server_spawn;
	k->sim.print_where = print_where;
	k->sim.print_rerun = print_rerun;
	k->sim.server_binary = "";
	k->sim.tls = made->tls;
	(void)str_copy(k->sim.dir, sizeof(k->sim.dir), made->dir);
	for (int i = 0; i < NODES; i++)
		k->sim.nodes[i].tls = made->node_tls[i];
}

static void hand_over(const struct kill *k, struct made *made)
{
	made->tls = k->sim.tls;
	for (int i = 0; i < NODES; i++)
		made->node_tls[i] = k->sim.nodes[i].tls;
}

/* True: it has died. */
static bool run(const struct kill_scenario *scenario, const struct fault *fault, bool is_reverse,
		struct made *made)
{
	struct kill *k = &kill_;

	memset(k, 0, sizeof(*k));
	k->scenario = scenario;
	k->fault = *fault;
	k->is_reverse = is_reverse;
	take_over(k, made);
	start(k);
	scenario->run(k);
	finish(k);
	end(k);
	hand_over(k, made);
	return k->has_died;
}

/* With @is_all in both orders of nodes at each place. */
static void sweep(const struct kill_scenario *scenario, bool is_all, struct made *made)
{
	uint64_t since = clock_monotonic_us();
	struct places places = places_of(&sample);
	struct fault fault = {.step = 0};

	while (places_next(&places, &fault)) {
		bool has_died = run(scenario, &fault, places.is_reverse, made);

		if (is_all && run(scenario, &fault, !places.is_reverse, made))
			has_died = true;
		places_result(&places, has_died);
	}
	(void)printf("%s: %d steps, %d deaths, %llu ms\n", scenario->name, fault.step - 1, places.n_deaths,
		     (unsigned long long)(clock_monotonic_us() - since) / USEC_PER_MSEC);
	(void)fflush(stdout);
	if (!places_have_ended(&places)) {
		(void)fprintf(stderr, "kill_steps: %s has no end, or no step\n", scenario->name);
		exit(EXIT_FAILURE);
	}
}

static void make(struct made *made)
{
	/* what kill -9 leaves is what the kernel has: no disk is needed */
	(void)str_copy(made->dir, sizeof(made->dir),
		       access("/dev/shm", W_OK) == 0 ? "/dev/shm/holdfast-kill-XXXXXX"
						     : "/tmp/holdfast-kill-XXXXXX");
	if (!mkdtemp(made->dir) || sd_event_new(&made->event) < 0) {
		perror("kill_steps");
		exit(EXIT_FAILURE);
	}
}

static void unmake(struct made *made)
{
	for (int i = 0; i < NODES; i++)
		rpc_tls_free(made->node_tls[i]);
	rpc_tls_free(made->tls);
	(void)sd_event_unref(made->event);
	folder_remove(made->dir);
}

static bool is_wanted(char **names, int n, const char *group, const char *scenario)
{
	for (int i = 0; i < n; i++)
		if (str_eq(names[i], group) || str_eq(names[i], scenario))
			return true;
	return n == 0;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {{"step", required_argument, NULL, 0},
						{"side", required_argument, NULL, 1},
						{"reverse", required_argument, NULL, 2},
						{"all", no_argument, NULL, 3},
						{0}};
	uint32_t numbers[] = {0, 0, 0};
	struct made made = {.event = NULL};
	struct fault only;
	bool is_all = false;
	int opt;

	while ((opt = getopt_long(argc, argv, "", options, NULL)) != -1)
		if (opt == 3)
			is_all = true;
		else if (opt == '?' || parse_u32(optarg, 0, PLACES_STEPS_MAX, &numbers[opt]) < 0)
			return 2;
	only = (struct fault){.step = (int)numbers[0], .side = (enum fault_side)numbers[1]};
	sample = sample_of_environment();
	log_init("kill_steps", LOG_ERR);
	(void)signal(SIGPIPE, SIG_IGN);
	make(&made);
	for (size_t g = 0; g < sizeof(groups) / sizeof(groups[0]); g++) {
		for (const struct kill_scenario *s = groups[g].scenarios; s->name; s++) {
			if (!is_wanted(argv + optind, argc - optind, groups[g].name, s->name))
				continue;
			if (only.step > 0)
				(void)run(s, &only, numbers[2] == 1, &made);
			else
				sweep(s, is_all, &made);
		}
	}
	unmake(&made);
	return 0;
}
