/* SPDX-License-Identifier: Apache-2.0 */
#include "kill.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "rpc/pbjson.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <holdfast/v1/operator.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>
#include <stdlib.h>
#include <string.h>

enum { TURN_US = 2000, REFUSED_LIMIT_US = 20 * 1000 * 1000 };

static void keep_answer(struct kill *k, ProtobufCMessage *response)
{
	json_t *json = NULL;
	cleanup_free char *text = NULL;

	if (pbjson_encode(response, 0, &json, NULL) == STATUS_OK)
		text = json_dumps(json, JSON_COMPACT);
	json_decref(json);
	protobuf_c_message_free_unpacked(response, NULL);
	if (!text || str_copy(k->text, sizeof(k->text), text) < 0)
		sim_fail(&k->sim, "an answer is too long");
}

static bool may_be_death(enum status status)
{
	return status == STATUS_UNAVAILABLE || status == STATUS_CANCELLED || status == STATUS_ABORTED ||
	       status == STATUS_INTERNAL || status == STATUS_UNKNOWN;
}

bool kill_try(struct kill *k, const char *method, const char *request)
{
	ProtobufCMessage *message = sim_request(&k->sim, method, request);
	ProtobufCMessage *response = NULL;
	struct error err = {.msg = ""};

	k->text[0] = k->message[0] = '\0';
	k->status = sim_call(&k->sim, sim_service(&k->sim, method), strchr(method, '.') + 1, message,
			     &response, &err);
	protobuf_c_message_free_unpacked(message, NULL);
	if (k->status == STATUS_OK)
		keep_answer(k, response);
	else
		(void)str_copy(k->message, sizeof(k->message), err.msg);
	return !may_be_death(k->status) || !server_process_has_died(&k->sim);
}

enum status kill_ask(struct kill *k, const char *method, const char *request)
{
	k->is_asked_again = false;
	while (!kill_try(k, method, request)) {
		kill_recover(k);
		k->is_asked_again = true;
	}
	return k->status;
}

void kill_must(struct kill *k, const char *method, const char *request, enum status again)
{
	uint64_t limit = clock_monotonic_us() + REFUSED_LIMIT_US;
	bool is_asked_again = false;

	while (kill_ask(k, method, request) != STATUS_OK) {
		is_asked_again = is_asked_again || k->is_asked_again;
		if (is_asked_again && k->status == again)
			break;
		if (k->status != STATUS_UNAVAILABLE && k->status != STATUS_ABORTED)
			sim_fail(&k->sim, "%s %s: %s", method, request, k->message);
		if (clock_monotonic_us() > limit)
			sim_fail(&k->sim, "%s %s: still: %s", method, request, k->message);
		kill_turn(k);
	}
	kill_count(k, method);
}

void kill_turn(struct kill *k)
{
	if (!sim_settle(&k->sim)) {
		kill_recover(k);
		return;
	}
	for (int i = 0; i < SIM_NODES; i++)
		sim_node_act(&k->sim.nodes[i]);
	(void)sd_event_run(k->sim.event, TURN_US);
	oracle_check_mounts(&k->sim);
}

static void must_settle(struct kill *k)
{
	if (!sim_settle(&k->sim))
		sim_fail(&k->sim, "the server has died though nobody killed it; see %s/server.log",
			 k->sim.dir);
}

void kill_check(struct kill *k)
{
	kill_check_facts(k);
	kill_check_audit(k);
	oracle_check_mounts(&k->sim);
	oracle_check_server(&k->sim);
}

static void reconnect(struct kill *k, const bool connected[static SIM_NODES])
{
	for (int i = 0; i < SIM_NODES; i++) {
		int n = k->is_reverse ? SIM_NODES - 1 - i : i;

		if (!connected[n])
			continue;
		sim_node_connect(&k->sim.nodes[n]);
		must_settle(k);
		sim_node_act(&k->sim.nodes[n]);
		must_settle(k);
	}
}

static void set_reported(struct kill *k, const bool connected[static SIM_NODES], bool reported)
{
	for (int i = 0; i < SIM_NODES && k->is_restoring; i++)
		k->sim.nodes[i].reported = connected[i] && reported;
}

static void lose_sessions(struct kill *k, bool ret_connected[static SIM_NODES])
{
	for (int i = 0; i < SIM_NODES; i++) {
		ret_connected[i] = k->sim.nodes[i].client != NULL;
		if (ret_connected[i])
			sim_node_disconnect(&k->sim.nodes[i]);
	}
}

void kill_recover(struct kill *k)
{
	bool connected[SIM_NODES];

	k->has_died = true;
	k->died_at = k->fault.step;
	k->fault.step = 0;
	server_process_kill(&k->sim);
	lose_sessions(k, connected);
	server_process_start(&k->sim);
	set_reported(k, connected, false);
	kill_check(k);
	reconnect(k, connected);
	set_reported(k, connected, true); /* those it has asked have answered */
	kill_check(k);
}

bool kill_follow_restart(struct kill *k)
{
	bool connected[SIM_NODES];

	if (!server_process_wait_again(&k->sim))
		return false;
	lose_sessions(k, connected);
	for (int i = 0; i < SIM_NODES; i++) {
		int n = k->is_reverse ? SIM_NODES - 1 - i : i;

		if (connected[n])
			sim_node_connect(&k->sim.nodes[n]);
	}
	return true;
}

void kill_connect(struct kill *k, int node)
{
	sim_node_connect(&k->sim.nodes[node]);
	kill_turn(k);
}
