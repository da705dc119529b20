/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that go away, and what operators say about them. */

#include "kill.h"

#include "base/str.h"

enum { DISK, CSI };

static void prepare(struct kill *k)
{
	kill_register(k, kill_add_volume(k, "disk", false));
	kill_register(k, kill_add_volume(k, "db", true));
}

/* Both volumes in use on n0, by work that need not survive it. */
static void use_both(struct kill *k)
{
	kill_run(k, 1, DISK, 0);
	kill_run(k, 2, CSI, 0);
	KILL_UNTIL(k, kill_is_running(k, 1, 0) && kill_is_running(k, 2, 0));
}

static void prepare_used(struct kill *k)
{
	prepare(k);
	use_both(k);
}

static void use_elsewhere(struct kill *k)
{
	kill_run(k, 3, DISK, 1);
	kill_run(k, 4, CSI, 1);
	KILL_UNTIL(k, kill_is_running(k, 3, 1) && kill_is_running(k, 4, 1));
	kill_stop(k, 3);
	kill_stop(k, 4);
	KILL_UNTIL(k, kill_is_free(k, DISK) && kill_is_free(k, CSI));
}

static void power_off(struct kill *k, int node)
{
	sim_node_disconnect(&k->sim.nodes[node]);
	k->sim.nodes[node].powered = false;
	kill_turn(k);
}

static void power_on(struct kill *k, int node)
{
	sim_node_reboot(&k->sim.nodes[node]);
	kill_connect(k, node);
}

static void run_reboot(struct kill *k)
{
	power_off(k, 0);
	power_on(k, 0);
	KILL_UNTIL(k, kill_is_free(k, DISK) && kill_is_free(k, CSI));
	use_elsewhere(k);
}

static void know_free(struct kill *k, const char *about, const char *request)
{
	struct kill_fact fact = {.method = "Volumes.Get", .status = STATUS_OK, .part = "EVIDENCE_OPERATOR"};

	(void)str_copy(fact.about, sizeof(fact.about), about);
	(void)str_copy(fact.request, sizeof(fact.request), request);
	kill_know(k, &fact);
}

static void stop_both(struct kill *k)
{
	power_off(k, 0);
	kill_stop(k, 1);
	kill_stop(k, 2);
}

static void end_attested(struct kill *k)
{
	KILL_UNTIL(k, kill_is_free(k, DISK) && kill_is_free(k, CSI));
	kill_doubt(k, "word for disk");
	kill_doubt(k, "word for db");
	use_elsewhere(k);
	power_on(k, 0);
	for (int i = 0; i < 2; i++)
		kill_turn(k);
}

static void run_node_attest(struct kill *k)
{
	stop_both(k);
	kill_must(k, "Nodes.Attest",
		  "{\"id\":\"n0\",\"volumes\":[{\"id\":\"disk\"},{\"id\":\"db\"}],\"reason\":\"burnt down\"}",
		  STATUS_FAILED_PRECONDITION);
	know_free(k, "word for disk", "{\"id\":\"disk\"}");
	know_free(k, "word for db", "{\"id\":\"db\"}");
	end_attested(k);
}

static void run_detach_attest(struct kill *k)
{
	stop_both(k);
	kill_must(k, "Volumes.Detach", "{\"id\":\"disk\",\"nodeId\":\"n0\",\"attestReason\":\"burnt down\"}",
		  STATUS_FAILED_PRECONDITION);
	know_free(k, "word for disk", "{\"id\":\"disk\"}");
	kill_must(k, "Volumes.Detach", "{\"id\":\"db\",\"nodeId\":\"n0\",\"attestReason\":\"burnt down\"}",
		  STATUS_FAILED_PRECONDITION);
	know_free(k, "word for db", "{\"id\":\"db\"}");
	end_attested(k);
}

static void run_drain(struct kill *k)
{
	kill_doubt(k, "allocation 1"); /* which the drain stops */
	kill_doubt(k, "allocation 2");
	kill_must(k, "Nodes.Drain", "{\"id\":\"n0\",\"reason\":\"new disks\"}", STATUS_OK);
	kill_know(k, &(struct kill_fact){.about = "drain",
					 .method = "Nodes.Get",
					 .request = "{\"id\":\"n0\"}",
					 .status = STATUS_OK,
					 .part = "\"ineligible\":true"});
	KILL_UNTIL(k, kill_is_free(k, DISK) && kill_is_free(k, CSI));
	use_elsewhere(k);
	kill_doubt(k, "drain");
	(void)kill_ask(k, "Nodes.Drain", "{\"id\":\"n0\",\"cancel\":true}"); /* it may be over */
	kill_must(k, "Nodes.SetEligibility", "{\"id\":\"n0\",\"eligible\":true}", STATUS_OK);
	kill_know(k, &(struct kill_fact){.about = "drain",
					 .method = "Nodes.Get",
					 .request = "{\"id\":\"n0\"}",
					 .status = STATUS_OK,
					 .not_there = "\"ineligible\""});
}

static void run_purge(struct kill *k)
{
	power_off(k, 1);
	kill_must(k, "Nodes.Purge", "{\"id\":\"n1\",\"reason\":\"sold\",\"keep_certificate\":true}",
		  STATUS_NOT_FOUND);
	kill_know(k, &(struct kill_fact){.about = "purge",
					 .method = "Nodes.Get",
					 .request = "{\"id\":\"n1\"}",
					 .status = STATUS_NOT_FOUND});
	for (int i = 0; i < 2; i++)
		kill_turn(k);
	kill_doubt(k, "purge");
	power_on(k, 1);
	kill_stop(k, 1);
	kill_stop(k, 2);
	KILL_UNTIL(k, kill_is_free(k, DISK) && kill_is_free(k, CSI));
	use_elsewhere(k);
}

const struct kill_scenario kill_scenarios_of_nodes[] = {
	{.name = "reboot", .prepare = prepare_used, .run = run_reboot},
	{.name = "node-attest", .prepare = prepare_used, .run = run_node_attest},
	{.name = "detach-attest", .prepare = prepare_used, .run = run_detach_attest},
	{.name = "drain", .prepare = prepare_used, .run = run_drain},
	{.name = "purge", .prepare = prepare_used, .run = run_purge},
	{.name = NULL},
};
