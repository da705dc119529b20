/* lifecycle --seed N --steps N SERVER: random operations, invariants after each. */

#include "sim.h"

#include "base/clock.h"
#include "base/parse.h"
#include "base/str.h"
#include "log/log.h"

#include <ftw.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	CHECK_EVERY = 20, /* steps between questions about every volume */
	RUNS_KEPT = 256,  /* allocations that may be stopped */
	QUIET_LIMIT_US = 120 * 1000 * 1000,
	KILL_WITHIN_US = 3000,
};

struct runs {
	char ids[RUNS_KEPT][UUID_TEXT_SIZE];
	size_t n;
};

static struct runs runs;
static uint64_t seed = 1;

_Noreturn void sim_fail(const struct sim *sim, const char *format, ...)
{
	va_list ap;

	(void)fprintf(stderr, "lifecycle: seed %llu, step %llu: ", (unsigned long long)seed,
		      (unsigned long long)sim->step);
	va_start(ap, format);
	(void)vfprintf(stderr, format, ap);
	va_end(ap);
	(void)fprintf(stderr, "\nagain: lifecycle --seed %llu --steps %llu %s\nleft for you: %s\n",
		      (unsigned long long)seed, (unsigned long long)sim->step, sim->server_binary, sim->dir);
	if (sim->server_pid > 0)
		(void)kill(sim->server_pid, SIGKILL);
	_exit(EXIT_FAILURE);
}

/* splitmix64 */
uint64_t sim_random(struct sim *sim, uint64_t n)
{
	uint64_t z = sim->rng += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return (z ^ (z >> 31)) % n;
}

void sim_make_uuid(struct sim *sim, char ret[static UUID_TEXT_SIZE])
{
	uint64_t a = sim_random(sim, UINT64_MAX);
	uint64_t b = sim_random(sim, UINT64_MAX);

	(void)str_format(ret, UUID_TEXT_SIZE, "%08x-%04x-4%03x-8%03x-%012llx", (unsigned int)(a >> 32),
			 (unsigned int)(a >> 16) & 0xffff, (unsigned int)a & 0xfff,
			 (unsigned int)(b >> 48) & 0xfff, (unsigned long long)b & 0xffffffffffffULL);
}

int sim_volume_of(const struct sim *sim, const char *id)
{
	for (int i = 0; i < SIM_VOLUMES; i++)
		if (str_eq(sim->volumes[i].id, id))
			return i;
	sim_fail(sim, "nobody knows volume '%s'", id);
}

static struct sim_node *any_node(struct sim *sim)
{
	return &sim->nodes[sim_random(sim, SIM_NODES)];
}

static bool is_connected(const struct sim_node *node)
{
	return node->stream != NULL;
}

static void do_run(struct sim *sim)
{
	int volume = (int)sim_random(sim, SIM_VOLUMES);
	int node = (int)sim_random(sim, SIM_NODES);
	bool is_write = sim_random(sim, 3) > 0;
	size_t slot = sim_random(sim, RUNS_KEPT);
	char id[UUID_TEXT_SIZE];
	struct error err;

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
		return;	 /* it comes back later */
	sim_settle(sim); /* the server sees the old session end */
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
	int volume = (int)sim_random(sim, SIM_VOLUMES);
	struct sim_node *node = any_node(sim);

	if (!node->powered)
		sim->volumes[volume].attached[node->number] = false;
	if (!node->powered && sim_attest(sim, volume, node->number, NULL) == STATUS_OK)
		sim->counts[COUNT_ATTESTED]++;
}

static void reconnect_all(struct sim *sim, const bool connected[static SIM_NODES])
{
	for (int i = 0; i < SIM_NODES; i++)
		if (connected[i])
			sim_node_connect(&sim->nodes[i]);
}

static void do_kill(struct sim *sim)
{
	bool connected[SIM_NODES];

	/* in the middle of something */
	do_run(sim);
	(void)usleep((useconds_t)sim_random(sim, KILL_WITHIN_US));
	for (int i = 0; i < SIM_NODES; i++)
		connected[i] = is_connected(&sim->nodes[i]);
	server_process_kill(sim);
	for (int i = 0; i < SIM_NODES; i++)
		if (connected[i])
			sim_node_disconnect(&sim->nodes[i]);
	server_process_start(sim);
	sim->counts[COUNT_KILLS]++;
	reconnect_all(sim, connected);
}

static void do_backup(struct sim *sim)
{
	sim_backup(sim);
}

static void do_restore(struct sim *sim)
{
	bool connected[SIM_NODES];

	if (!sim->backup.data || sim_random(sim, 4) != 0)
		return;
	for (int i = 0; i < SIM_NODES; i++)
		connected[i] = is_connected(&sim->nodes[i]);
	sim_restore(sim);
	for (int i = 0; i < SIM_NODES; i++) {
		sim->nodes[i].reported = false;
		if (connected[i])
			sim_node_disconnect(&sim->nodes[i]);
	}
	server_process_wait_again(sim);
	reconnect_all(sim, connected);
}

static void do_plugin(struct sim *sim)
{
	struct sim_node *node = any_node(sim);

	node->plugin_healthy = !node->plugin_healthy;
	sim_node_say_plugins(node);
}

static void do_trouble(struct sim *sim)
{
	struct sim_node *node = any_node(sim);
	struct sim_volume *volume = &sim->volumes[sim_random(sim, SIM_VOLUMES)];

	switch (sim_random(sim, 4)) {
	case 0:
		node->unmount_fails = !node->unmount_fails;
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
	{"run", 300, do_run},		{"stop", 260, do_stop},
	{"act", 200, do_act},		{"partition", 30, do_partition},
	{"heal", 60, do_heal},		{"reboot", 15, do_reboot},
	{"power-off", 5, do_power_off}, {"attest", 20, do_attest},
	{"kill", 4, do_kill},		{"backup", 3, do_backup},
	{"restore", 2, do_restore},	{"plugin", 15, do_plugin},
	{"trouble", 30, do_trouble},
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
	sim_settle(sim);
	oracle_check_mounts(sim);
	if (sim->step % CHECK_EVERY == 0)
		oracle_check_server(sim);
}

static void start(struct sim *sim)
{
	(void)str_copy(sim->dir, sizeof(sim->dir), "/tmp/holdfast-lifecycle-XXXXXX");
	if (!mkdtemp(sim->dir) || sd_event_new(&sim->event) < 0)
		sim_fail(sim, "cannot set up");
	server_process_start(sim);
	for (int i = 0; i < SIM_NODES; i++) {
		struct sim_node *node = &sim->nodes[i];

		node->sim = sim;
		node->number = i;
		node->powered = node->plugin_healthy = node->reported = true;
		(void)str_format(node->id, sizeof(node->id), "n%d", i);
		sim_make_uuid(sim, node->boot_id);
		sim_node_connect(node);
	}
	sd_event_run(sim->event, 100000);
	while (!sim->nodes[0].welcomed || !sim->nodes[1].welcomed || !sim->nodes[2].welcomed ||
	       !sim->nodes[3].welcomed)
		(void)sd_event_run(sim->event, 100000);
	sim_register_volumes(sim);
	sim_settle(sim);
}

/* Everything works again and all work is stopped: then every claim must be freed. */
static void finish(struct sim *sim)
{
	uint64_t limit = clock_monotonic_us() + QUIET_LIMIT_US;

	for (int v = 0; v < SIM_VOLUMES; v++)
		sim->volumes[v].attach_fails = sim->volumes[v].detach_fails = false;
	for (int i = 0; i < SIM_NODES; i++) {
		struct sim_node *node = &sim->nodes[i];

		node->unmount_fails = node->lose_grants = false;
		node->plugin_healthy = true;
		if (!node->powered)
			sim_node_reboot(node);
		if (!is_connected(node))
			sim_node_connect(node);
	}
	sim_settle(sim);
	sim_stop_all(sim);
	for (int i = 0; i < SIM_NODES; i++)
		sim_node_say_plugins(&sim->nodes[i]);
	while (!oracle_is_quiet(sim)) {
		if (clock_monotonic_us() > limit) {
			oracle_explain_all(sim);
			sim_fail(sim, "claims are left although everything works again");
		}
		for (int i = 0; i < SIM_NODES; i++)
			sim_node_act(&sim->nodes[i]);
		(void)sd_event_run(sim->event, 100000);
		sim_settle(sim);
	}
	oracle_check_server(sim);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
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
	static const char *const names[COUNT_N] = {
		"run",	      "refused",  "granted",  "mounted",  "unmounted", "kill -9", "reboots",
		"partitions", "attested", "attached", "detached", "restores",  "adopted"};

	(void)printf("seed %llu, %llu steps:", (unsigned long long)seed, (unsigned long long)sim->step);
	for (int i = 0; i < COUNT_N; i++)
		(void)printf(" %s %llu", names[i], (unsigned long long)sim->counts[i]);
	(void)printf("\n");
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{"seed", required_argument, NULL, 's'}, {"steps", required_argument, NULL, 'n'}, {0}};
	static struct sim sim;
	uint64_t steps = 1000;
	int opt;

	while ((opt = getopt_long(argc, argv, "s:n:", options, NULL)) != -1)
		if (opt == '?' || parse_u64(optarg, 0, UINT64_MAX, opt == 's' ? &seed : &steps) < 0)
			return 2;
	if (optind + 1 != argc)
		return 2;
	log_init("lifecycle", LOG_ERR);
	(void)signal(SIGPIPE, SIG_IGN);
	sim.server_binary = argv[optind];
	sim.rng = seed;
	start(&sim);
	for (sim.step = 1; sim.step <= steps; sim.step++)
		step(&sim);
	finish(&sim);
	print_summary(&sim);
	end(&sim);
	return 0;
}
