/* SPDX-License-Identifier: Apache-2.0 */
/* Claims from the registration of their volume to the last detach. */

#include "kill.h"

#include "base/clock.h"

#include <string.h>

static void use(struct kill *k, int alloc, int volume, int node)
{
	kill_run(k, alloc, volume, node);
	KILL_UNTIL(k, kill_is_running(k, alloc, node));
	kill_stop(k, alloc);
	KILL_UNTIL(k, kill_is_free(k, volume));
}

static void deregister(struct kill *k, const char *request)
{
	kill_doubt(k, "volume db");
	k->sim.volumes[0].is_known = false;
	kill_must(k, "Volumes.Deregister", request, STATUS_NOT_FOUND);
	kill_know(k, &(struct kill_fact){.about = "volume db",
					 .method = "Volumes.Get",
					 .request = "{\"id\":\"db\"}",
					 .status = STATUS_NOT_FOUND});
}

static void life_of(struct kill *k, bool is_csi)
{
	int db = kill_add_volume(k, "db", is_csi);

	kill_register(k, db);
	use(k, 1, db, 0);
	use(k, 2, db, 1);
	deregister(k, "{\"id\":\"db\"}");
	kill_doubt(k, "volume db");
	k->sim.volumes[db].modify_index = 0;
	kill_register(k, db); /* and its generations continue */
}

static void run_native(struct kill *k)
{
	life_of(k, false);
}

static void run_csi(struct kill *k)
{
	life_of(k, true);
}

static void prepare_csi(struct kill *k)
{
	kill_register(k, kill_add_volume(k, "db", true));
}

/* The provider does it and says that it failed; the work ends, other work gets the volume. */
static void run_attach_failure(struct kill *k)
{
	k->sim.volumes[0].attach_fails = true;
	kill_run(k, 1, 0, 0);
	KILL_UNTIL(k, kill_is_over(k, 1, 0) && k->sim.counts[COUNT_ATTACHED] > 0);
	k->sim.volumes[0].attach_fails = false;
	KILL_UNTIL(k, kill_is_free(k, 0));
	use(k, 2, 0, 1);
}

static void reconnect_one(struct kill *k, int node)
{
	sim_node_disconnect(&k->sim.nodes[node]);
	kill_turn(k);
	kill_connect(k, node);
}

/* Its node is cut off while the controller is asked, and comes back when the reservation has expired. */
static void run_expiry(struct kill *k)
{
	k->sim.volumes[0].attach_hangs = true;
	kill_run(k, 1, 0, 0);
	KILL_UNTIL(k, k->sim.volumes[0].attached[0]);
	sim_node_disconnect(&k->sim.nodes[0]);
	k->sim.volumes[0].attach_hangs = false;
	k->sim.hanging = 0;
	reconnect_one(k, 1); /* its session's end is the end of the call */
	KILL_UNTIL(k, kill_is_free(k, 0) && !k->sim.volumes[0].attached[0]);
	kill_connect(k, 0);
	KILL_UNTIL(k, kill_is_running(k, 1, 0));
	kill_stop(k, 1);
	KILL_UNTIL(k, kill_is_free(k, 0));
}

static void run_detach_failure(struct kill *k)
{
	k->sim.volumes[0].detach_fails = true;
	kill_run(k, 1, 0, 0);
	KILL_UNTIL(k, kill_is_running(k, 1, 0));
	kill_stop(k, 1);
	KILL_UNTIL(k, kill_shows(k, "Volumes.Get", "{\"id\":\"db\",\"why\":true}", "\"attempts\""));
	k->sim.volumes[0].detach_fails = false;
	reconnect_one(k, 0); /* a controller is back: it is asked at once */
	reconnect_one(k, 1);
	KILL_UNTIL(k, kill_is_free(k, 0));
	use(k, 2, 0, 1);
}

/* The node says that it cannot release it, until it can. */
static void run_busy(struct kill *k)
{
	k->sim.nodes[0].unmount_fails = true;
	kill_run(k, 1, 0, 0);
	KILL_UNTIL(k, kill_is_running(k, 1, 0));
	kill_stop(k, 1);
	for (int i = 0; i < 3; i++)
		kill_turn(k);
	if (kill_is_free(k, 0))
		sim_fail(&k->sim, "a volume was taken from a node that has it mounted");
	k->sim.nodes[0].unmount_fails = false;
	KILL_UNTIL(k, kill_is_free(k, 0));
}

/* Two that want the same volume on two nodes: one of them has it, whoever dies. */
static void run_rivals(struct kill *k)
{
	bool has_second;

	kill_run(k, 1, 0, 0);
	/* refused here, or when its node asks */
	has_second = kill_ask(k, "Allocations.Run",
			      "{\"allocation\":{\"id\":\"01890002-0000-7000-" ID_MARK "\",\"name\":"
			      "\"app\",\"nodeId\":\"n1\",\"volumes\":[{\"name\":\"data\",\"source\":\"db\","
			      "\"accessMode\":\"SINGLE_NODE_WRITER\"}]}}") == STATUS_OK;
	KILL_UNTIL(k, kill_is_running(k, 1, 0) || kill_is_running(k, 2, 1));
	kill_stop(k, 1);
	if (has_second) /* its node may not have heard of it yet */
		kill_stop(k, 2);
	KILL_UNTIL(k, kill_is_free(k, 0));
	use(k, 3, 0, 1);
}

const struct kill_scenario kill_scenarios_of_claims[] = {
	{.name = "native", .run = run_native},
	{.name = "csi", .run = run_csi},
	{.name = "attach-failure", .prepare = prepare_csi, .run = run_attach_failure},
	{.name = "expiry",
	 .prepare = prepare_csi,
	 .run = run_expiry,
	 .reservation_ttl_us = 100 * USEC_PER_MSEC},
	{.name = "detach-failure", .prepare = prepare_csi, .run = run_detach_failure},
	{.name = "busy", .prepare = prepare_csi, .run = run_busy},
	{.name = "rivals", .prepare = prepare_csi, .run = run_rivals},
	{.name = NULL},
};
