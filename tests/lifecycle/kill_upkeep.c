/* SPDX-License-Identifier: Apache-2.0 */
/* What keeps a cluster going: collection, tokens and policies, copies of the store. */

#include "kill.h"

#include "base/str.h"

#include <string.h>

enum { DISK, CSI };

static void prepare(struct kill *k)
{
	kill_register(k, kill_add_volume(k, "disk", false));
	kill_register(k, kill_add_volume(k, "db", true));
}

static void use(struct kill *k, int alloc, int volume)
{
	kill_run(k, alloc, volume, 0);
	KILL_UNTIL(k, kill_is_running(k, alloc, 0));
	kill_stop(k, alloc);
	KILL_UNTIL(k, kill_is_free(k, volume));
}

/* --- gc --- */

static void prepare_history(struct kill *k)
{
	prepare(k);
	for (int i = 1; i <= 3; i++)
		use(k, i, DISK);
	kill_run(k, 4, CSI, 0);
	KILL_UNTIL(k, kill_is_running(k, 4, 0));
}

static void run_gc(struct kill *k)
{
	for (int i = 1; i <= 3; i++) {
		char about[32];

		(void)str_format(about, sizeof(about), "allocation %d", i);
		kill_doubt(k, about);
	}
	(void)sd_event_run(k->sim.event, 2000); /* older than a millisecond */
	kill_must(k, "Operator.Gc", "{\"olderThanMs\":\"1\"}", STATUS_OK);
	kill_know(k, &(struct kill_fact){.about = "collected",
					 .method = "Allocations.Get",
					 .request = "{\"id\":\"01890001-0000-7000-" ID_MARK "\"}",
					 .status = STATUS_NOT_FOUND});
	use(k, 5, DISK);
	kill_stop(k, 4);
	KILL_UNTIL(k, kill_is_free(k, CSI));
}

/* --- tokens --- */

static void know_policy(struct kill *k, bool is_there)
{
	struct kill_fact fact = {
		.about = "policy", .method = "Operator.ListPolicies", .request = "{}", .status = STATUS_OK};

	(void)str_copy(is_there ? fact.part : fact.not_there, sizeof(fact.part), "\"name\":\"readers\"");
	kill_know(k, &fact);
}

/* The newest token that was acknowledged; one whose answer was lost may be there besides. */
static void make_token(struct kill *k, char *ret_accessor)
{
	struct kill_fact fact = {
		.about = "token", .method = "Operator.ListTokens", .request = "{}", .status = STATUS_OK};
	const char *at;

	kill_must(k, "Operator.CreateToken",
		  "{\"token\":{\"name\":\"ann\",\"type\":\"CLIENT\",\"policies\":[\"readers\"]}}", STATUS_OK);
	at = strstr(k->text, "\"accessor\":\"");
	if (!at)
		sim_fail(&k->sim, "a token without an accessor: %s", k->text);
	(void)str_format(ret_accessor, UUID_TEXT_SIZE, "%.*s", UUID_TEXT_SIZE - 1,
			 at + strlen("\"accessor\":\""));
	(void)str_copy(fact.part, sizeof(fact.part), ret_accessor);
	kill_know(k, &fact);
}

static void revoke_token(struct kill *k, const char *accessor)
{
	struct kill_fact fact = {
		.about = "token", .method = "Operator.ListTokens", .request = "{}", .status = STATUS_OK};
	char request[KILL_NAME];

	kill_doubt(k, "token");
	(void)str_format(request, sizeof(request), "{\"accessor\":\"%s\"}", accessor);
	kill_must(k, "Operator.RevokeToken", request, STATUS_NOT_FOUND);
	(void)str_copy(fact.not_there, sizeof(fact.not_there), accessor);
	kill_know(k, &fact);
}

/* A token whose answer was lost: it is there, and nobody has its secret. */
static void revoke_unanswered(struct kill *k)
{
	char accessor[UUID_TEXT_SIZE];
	char request[KILL_NAME];

	while (kill_shows(k, "Operator.ListTokens", "{}", "\"accessor\":\"")) {
		(void)str_format(accessor, sizeof(accessor), "%.*s", UUID_TEXT_SIZE - 1,
				 strstr(k->text, "\"accessor\":\"") + strlen("\"accessor\":\""));
		(void)str_format(request, sizeof(request), "{\"accessor\":\"%s\"}", accessor);
		kill_must(k, "Operator.RevokeToken", request, STATUS_NOT_FOUND);
	}
}

static void run_tokens(struct kill *k)
{
	char accessor[UUID_TEXT_SIZE];

	kill_must(k, "Operator.PutPolicy",
		  "{\"policy\":{\"name\":\"readers\",\"namespaces\":[{\"namespace\":\"default\",\"policy\":"
		  "\"read\"}]}}",
		  STATUS_OK);
	know_policy(k, true);
	kill_must(k, "Operator.BootstrapToken", "{}", STATUS_FAILED_PRECONDITION);
	make_token(k, accessor);
	/* a refusal has its place in the chain too */
	(void)kill_ask(k, "Operator.CreateToken", "{\"token\":{\"policies\":[\"nobody\"]}}");
	(void)kill_ask(k, "Volumes.Deregister", "{\"id\":\"none\"}");
	revoke_token(k, accessor);
	revoke_unanswered(k);
	kill_doubt(k, "policy");
	kill_must(k, "Operator.DeletePolicy", "{\"name\":\"readers\"}", STATUS_NOT_FOUND);
	know_policy(k, false);
}

/* --- backup and restore --- */

static void prepare_copy(struct kill *k)
{
	prepare(k);
	kill_run(k, 1, DISK, 0);
	KILL_UNTIL(k, kill_is_running(k, 1, 0));
	sim_backup(&k->sim);
	/* what the copy does not know, and its node does */
	kill_run(k, 2, CSI, 0);
	KILL_UNTIL(k, kill_is_running(k, 2, 0));
}

static bool is_restored(struct kill *k)
{
	return kill_shows(k, "Operator.Status", "{}", "\"epoch\":\"1\"");
}

/* What the older store need not know; nodes have to say it. */
static void step_back(struct kill *k)
{
	kill_forget_facts(k);
	k->sim.index = 0;
	for (int v = 0; v < k->sim.n_volumes; v++)
		k->sim.volumes[v].modify_index = k->sim.volumes[v].generation = 0;
	for (int i = 0; i < SIM_NODES; i++) {
		k->sim.nodes[i].reported = false;
		memset(k->sim.nodes[i].forgotten, 0, sizeof(k->sim.nodes[i].forgotten));
	}
}

static void run_restore(struct kill *k)
{
	bool is_acknowledged = false;
	bool is_following = true;

	kill_must(k, "Operator.BeginBackup", "{}", STATUS_OK); /* another copy, for nobody */
	k->is_restoring = true;
	step_back(k); /* when it is answered, and when it is not */
	while (!is_restored(k)) {
		struct error err;

		if (is_acknowledged)
			sim_fail(&k->sim, "a restore was acknowledged, and the old store is back");
		if (sim_restore(&k->sim, &err) == STATUS_OK) {
			is_acknowledged = true;
			step_back(k);
			is_following = kill_follow_restart(k);
			if (is_following)
				continue;
		} else if (!server_process_has_died(&k->sim)) {
			sim_fail(&k->sim, "restore: %s", err.msg);
		}
		step_back(k);
		kill_recover(k);
	}
	KILL_UNTIL(k, k->sim.nodes[0].reported && k->sim.nodes[1].reported);
	KILL_UNTIL(k,
		   kill_shows(k, "Operator.Status", "{}", "\"epoch\"") && !strstr(k->text, "nodesToReport"));
	if (!kill_is_running(k, 1, 0) || !kill_is_running(k, 2, 0))
		sim_fail(&k->sim, "a restore has ended work that runs");
	kill_stop(k, 1);
	kill_stop(k, 2);
	KILL_UNTIL(k, kill_is_free(k, DISK) && kill_is_free(k, CSI));
	use(k, 3, CSI);
}

const struct kill_scenario kill_scenarios_of_upkeep[] = {
	{.name = "gc", .prepare = prepare_history, .run = run_gc},
	{.name = "tokens", .run = run_tokens, .acl = true},
	{.name = "restore", .prepare = prepare_copy, .run = run_restore},
	{.name = NULL},
};
