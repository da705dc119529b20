/* SPDX-License-Identifier: Apache-2.0 */
/* The change of the key that signs tickets and orders, with nodes that learn the next key one by one. */

#include "fake_fencer.h"
#include "unit.h"

#include "base/id.h"
#include "fence/fencers.h"
#include "node/lookup.h"
#include "node/machine_code.h"
#include "state/keys.h"
#include "state/records.h"
#include "ticket/ticket.h"

#include <holdfast/v1/nodes.pb-c.h>
#include <limits.h>
#include <string.h>

#define OPERATOR "holdfast://c1/operator/ann"
#define LOOKS_MS 12000 /* in which the server looks twice */

#define TEN_MINUTES_US (600 * USEC_PER_SEC)

#define CASE(name) TEST_ON(name, struct fixture, f, setup_acl, teardown)

/* Of the two keys that a policy may have. */
struct policy {
	uint8_t ids[2 * TICKET_KEY_ID_SIZE];
};

static void key_in_use(struct fixture *f, uint8_t ret[static TICKET_KEY_SIZE])
{
	ticket_issuer_public_key(f->server->issuer, ret);
}

/* The answer's list of what the next key waits for, with commas; "": of nothing. @ret_next: the next key. */
static enum status rotate(struct fixture *f, const char *request, char ret_waits[static 512],
			  uint8_t ret_next[static TICKET_KEY_SIZE])
{
	struct caller_client caller;
	json_t *answer = NULL;
	const json_t *list;
	const char *next;
	size_t at = 0;
	enum status status;

	caller_init(&caller, f, OPERATOR, NULL);
	status = caller_call(&caller, "Operator.RotateKey", request, &answer, NULL);
	caller_release(&caller);
	if (status != STATUS_OK)
		return status;
	ret_waits[0] = '\0';
	list = json_object_get(answer, "waits_for");
	for (size_t i = 0; i < json_array_size(list); i++)
		at += (size_t)str_format(ret_waits + at, 512 - at, "%s%s", i > 0 ? ", " : "",
					 json_string_value(json_array_get(list, i)));
	next = json_string_value(json_object_get(answer, "next"));
	if (next[0] != '\0') {
		const Holdfast__V1__SigningKeys *keys =
			records_get(&f->server->state.records, KEY_SIGNING_KEYS);

		memcpy(ret_next, keys->keys[keys->n_keys - 1]->public_key.data, TICKET_KEY_SIZE);
	}
	json_decref(answer);
	return STATUS_OK;
}

/* Its policy has these keys; @second may be NULL. */
static void connect_with(struct fake_node *node, const char *id, const uint8_t *first, const uint8_t *second,
			 struct policy *policy)
{
	if (node->stream)
		fake_node_disconnect(node);
	memcpy(policy->ids, first, TICKET_KEY_ID_SIZE);
	if (second)
		memcpy(policy->ids + TICKET_KEY_ID_SIZE, second, TICKET_KEY_ID_SIZE);
	node->ticket_keys.data = policy->ids;
	node->ticket_keys.len = (second ? 2 : 1) * (size_t)TICKET_KEY_ID_SIZE;
	fake_node_connect(node, id, BOOT_1, NULL, 0);
}

/* Past the grace of a server that has just begun to lead. */
static void lead_long(struct fixture *f)
{
	pass_grace(f);
	settle(f);
}

static void expect_in_use(struct fixture *f, const uint8_t *key)
{
	uint8_t in_use[TICKET_KEY_SIZE];

	key_in_use(f, in_use);
	assert_memory_equal(in_use, key, sizeof(in_use));
}

static void replace_file(struct fixture *f)
{
	char path[PATH_MAX];

	(void)str_format(path, sizeof(path), "%s/ticket.key", f->dir);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(ticket_key_make(path, NULL), STATUS_OK);
}

CASE(the_next_key_is_used_once_every_node_knows_it)
{
	uint8_t first[TICKET_KEY_SIZE], next[TICKET_KEY_SIZE], same[TICKET_KEY_SIZE];
	struct policy policies[2];
	char waits[512];

	lead_long(f);
	key_in_use(f, first);
	connect_with(&f->n1, "n1", first, NULL, &policies[0]);
	connect_with(&f->n2, "n2", first, NULL, &policies[1]);
	assert_int_equal(rotate(f, "{}", waits, next), STATUS_OK);
	assert_string_equal(waits, "node n1, node n2");
	connect_with(&f->n1, "n1", first, next, &policies[0]);
	assert_int_equal(rotate(f, "{}", waits, same), STATUS_OK); /* makes no other one */
	assert_string_equal(waits, "node n2");
	assert_memory_equal(same, next, sizeof(next));
	run_for(f->event, LOOKS_MS);
	expect_in_use(f, first);
	connect_with(&f->n2, "n2", first, next, &policies[1]);
	run_for(f->event, LOOKS_MS);
	expect_in_use(f, next);
	assert_int_equal(f->server->state.n_nodes_other_key, 0);
	fake_node_disconnect(&f->n1);
	fake_node_disconnect(&f->n2);
	restart(f);
	expect_in_use(f, next);
	/* the former key is removed from a policy */
	connect_with(&f->n1, "n1", next, NULL, &policies[0]);
	assert_int_equal(f->server->state.n_nodes_other_key, 0);
}

static enum status identify_by(struct fixture *f, const char *code)
{
	cleanup(caller_release) struct caller_client caller;
	char request[192];

	(void)str_format(request, sizeof(request),
			 "{\"id\": \"n1\", \"machine\": \"%s\", \"reason\": \"new\"}", code);
	caller_init(&caller, f, OPERATOR, NULL);
	return caller_call(&caller, "Nodes.Identify", request, NULL, NULL);
}

/* A change of the key that signs leaves them as they are; by another ticket.key the operator looks again. */
CASE(the_code_of_a_machine_by_another_key_file_is_refused)
{
	static const char first_machine[] = "11111111111111111111111111111111";
	static const char next_machine[] = "22222222222222222222222222222222";
	uint8_t first[TICKET_KEY_SIZE], next[TICKET_KEY_SIZE];
	char waits[512], former[NODE_MACHINE_MAX + 1], code[NODE_MACHINE_MAX + 1];
	struct policy policy;

	key_in_use(f, first);
	f->n1.machine = first_machine;
	connect_with(&f->n1, "n1", first, NULL, &policy);
	f->n1.machine = next_machine;
	connect_with(&f->n1, "n1", first, NULL, &policy);
	assert_true(f->n1.closed);
	(void)machine_code(f->server, "n1", next_machine, former);
	assert_int_equal(rotate(f, "{}", waits, next), STATUS_OK);
	assert_int_equal(rotate(f, "{\"use_now\": true}", waits, next), STATUS_OK);
	assert_string_equal(machine_code(f->server, "n1", next_machine, code), former);
	restart_with(f, replace_file);
	assert_int_equal(identify_by(f, former), STATUS_FAILED_PRECONDITION);
	assert_int_equal(identify_by(f, machine_code(f->server, "n1", next_machine, code)), STATUS_OK);
	assert_string_equal(state_node(&f->server->state, "n1")->node.machine, next_machine);
}

CASE(a_node_that_is_away_holds_the_next_key_back_until_it_is_used_by_order)
{
	uint8_t first[TICKET_KEY_SIZE], next[TICKET_KEY_SIZE];
	struct policy policies[2];
	char waits[512];

	assert_int_equal(rotate(f, "{\"use_now\": true}", waits, next), STATUS_FAILED_PRECONDITION);
	lead_long(f);
	key_in_use(f, first);
	connect_with(&f->n1, "n1", first, NULL, &policies[0]);
	connect_with(&f->n2, "n2", first, NULL, &policies[1]);
	assert_int_equal(rotate(f, "{}", waits, next), STATUS_OK);
	connect_with(&f->n1, "n1", first, next, &policies[0]);
	fake_node_disconnect(&f->n2);
	run_for(f->event, LOOKS_MS);
	expect_in_use(f, first);
	assert_int_equal(rotate(f, "{}", waits, next), STATUS_OK);
	assert_string_equal(waits, "node n2 (not connected)");
	assert_int_equal(rotate(f, "{\"use_now\": true}", waits, next), STATUS_OK);
	assert_string_equal(waits, "");
	expect_in_use(f, next);
	UNTIL(f, f->server->state.n_nodes_other_key == 1); /* n2 refuses mounts, as its status shows */
}

CASE(a_look_after_a_change_of_the_key_begins_no_other_one)
{
	uint8_t first[TICKET_KEY_SIZE], next[TICKET_KEY_SIZE];
	struct policy policies[2];
	char waits[512];

	lead_long(f);
	key_in_use(f, first);
	connect_with(&f->n1, "n1", first, NULL, &policies[0]);
	connect_with(&f->n2, "n2", first, NULL, &policies[1]);
	assert_int_equal(rotate(f, "{}", waits, next), STATUS_OK);
	unit_clock_advance(TEN_MINUTES_US);
	connect_with(&f->n1, "n1", first, next, &policies[0]);
	connect_with(&f->n2, "n2", first, next, &policies[1]);
	run_for(f->event, LOOKS_MS);
	expect_in_use(f, next);
	assert_int_equal(rotate(f, "{}", waits, next), STATUS_OK);
	assert_string_equal(waits, "");
	unit_clock_step(-60000); /* it was ahead: the time of the change does not count */
	assert_int_equal(rotate(f, "{}", waits, next), STATUS_OK);
	assert_string_equal(waits, "node n1, node n2");
}

CASE(a_key_that_came_into_use_meanwhile_is_not_replaced_by_key_use)
{
	uint8_t first[TICKET_KEY_SIZE], next[TICKET_KEY_SIZE];
	struct policy policies[2];
	char waits[512];

	lead_long(f);
	key_in_use(f, first);
	connect_with(&f->n1, "n1", first, NULL, &policies[0]);
	connect_with(&f->n2, "n2", first, NULL, &policies[1]);
	assert_int_equal(rotate(f, "{}", waits, next), STATUS_OK);
	connect_with(&f->n1, "n1", first, next, &policies[0]);
	assert_int_equal(rotate(f, "{}", waits, next), STATUS_OK);
	assert_string_equal(waits, "node n2");		       /* it is gone, the person thinks: key use */
	connect_with(&f->n2, "n2", first, next, &policies[1]); /* it comes, or is purged by a colleague */
	run_for(f->event, LOOKS_MS);
	expect_in_use(f, next);
	assert_int_equal(rotate(f, "{\"use_now\": true}", waits, next), STATUS_FAILED_PRECONDITION);
	assert_int_equal(rotate(f, "{}", waits, next), STATUS_OK); /* as the error's text advises */
	assert_int_equal(rotate(f, "{\"use_now\": true}", waits, next), STATUS_FAILED_PRECONDITION);
	run_for(f->event, LOOKS_MS);
	assert_int_equal(f->server->state.n_nodes_other_key, 0);
	unit_clock_advance(TEN_MINUTES_US);
	assert_int_equal(rotate(f, "{}", waits, next), STATUS_OK);
	assert_string_not_equal(waits, "");
}

/* The driver "container" of n1 checks orders by the keys that it names in @ids. */
struct driver {
	Holdfast__V1__NodeDriver driver;
	Holdfast__V1__NodeDriver *list[1];
	Holdfast__Driver__V1__FingerprintResponse fingerprint;
	Holdfast__Driver__V1__KeyValue keys;
	Holdfast__Driver__V1__KeyValue *attributes[1];
	char ids[64];
};

static void driver_init(struct driver *driver, struct fixture *f, const uint8_t *key)
{
	holdfast__v1__node_driver__init(&driver->driver);
	holdfast__driver__v1__fingerprint_response__init(&driver->fingerprint);
	holdfast__driver__v1__key_value__init(&driver->keys);
	hex_encode(driver->ids, key, TICKET_KEY_ID_SIZE);
	driver->driver.name = "container";
	driver->driver.healthy = true;
	driver->driver.fingerprint = &driver->fingerprint;
	driver->keys.key = "ticket_keys";
	driver->keys.value = driver->ids;
	driver->attributes[0] = &driver->keys;
	driver->fingerprint.n_attributes = 1;
	driver->fingerprint.attributes = driver->attributes;
	driver->list[0] = &driver->driver;
	f->n1.drivers = driver->list;
	f->n1.n_drivers = 1;
}

CASE(a_driver_that_lacks_the_next_key_holds_it_back)
{
	uint8_t first[TICKET_KEY_SIZE], next[TICKET_KEY_SIZE];
	struct driver driver;
	struct policy policy;
	char waits[512];

	lead_long(f);
	key_in_use(f, first);
	driver_init(&driver, f, first);
	connect_with(&f->n1, "n1", first, NULL, &policy);
	assert_int_equal(rotate(f, "{}", waits, next), STATUS_OK);
	assert_string_equal(waits, "node n1, driver container of node n1");
	connect_with(&f->n1, "n1", first, next, &policy);
	run_for(f->event, LOOKS_MS);
	expect_in_use(f, first);
	driver.driver.fingerprint = NULL; /* it is being restarted */
	connect_with(&f->n1, "n1", first, next, &policy);
	assert_int_equal(rotate(f, "{}", waits, next), STATUS_OK);
	assert_string_equal(waits, "driver container of node n1 (has not reported its keys)");
	run_for(f->event, LOOKS_MS);
	expect_in_use(f, first);
	driver.driver.fingerprint = &driver.fingerprint;
	hex_encode(driver.ids, next, TICKET_KEY_ID_SIZE);
	connect_with(&f->n1, "n1", first, next, &policy);
	run_for(f->event, LOOKS_MS);
	expect_in_use(f, next);
	fake_node_disconnect(&f->n1);
}

CASE(a_new_leader_uses_the_next_key_only_after_each_node_has_connected)
{
	uint8_t first[TICKET_KEY_SIZE], next[TICKET_KEY_SIZE];
	struct driver driver;
	struct policy policy;
	char waits[512];

	key_in_use(f, first);
	connect_with(&f->n1, "n1", first, NULL, &policy);
	assert_int_equal(rotate(f, "{}", waits, next), STATUS_OK);
	driver_init(&driver, f, first);
	connect_with(&f->n1, "n1", first, next, &policy);
	fake_node_disconnect(&f->n1);
	restart(f);
	driver_init(&driver, f, first);
	lead_long(f);
	run_for(f->event, LOOKS_MS);
	expect_in_use(f, first);
	assert_int_equal(rotate(f, "{}", waits, next), STATUS_OK);
	assert_string_equal(waits,
			    "node n1 (has not connected since this server leads; if it is gone: holdfast "
			    "node purge, or holdfast operator key use)");
	connect_with(&f->n1, "n1", first, next, &policy);
	assert_int_equal(rotate(f, "{}", waits, next), STATUS_OK);
	assert_string_equal(waits, "driver container of node n1");
	run_for(f->event, LOOKS_MS);
	expect_in_use(f, first);
	hex_encode(driver.ids, next, TICKET_KEY_ID_SIZE);
	connect_with(&f->n1, "n1", first, next, &policy);
	fake_node_disconnect(&f->n1); /* its keys are known */
	run_for(f->event, LOOKS_MS);
	expect_in_use(f, next);
}

CASE(a_node_that_is_purged_does_not_hold_the_next_key_back)
{
	uint8_t first[TICKET_KEY_SIZE], next[TICKET_KEY_SIZE];
	struct policy policy;
	char waits[512];

	key_in_use(f, first);
	connect_with(&f->n1, "n1", first, NULL, &policy);
	assert_int_equal(rotate(f, "{}", waits, next), STATUS_OK);
	connect_with(&f->n1, "n1", first, next, &policy);
	fake_node_disconnect(&f->n1);
	restart(f);
	lead_long(f);
	run_for(f->event, LOOKS_MS);
	expect_in_use(f, first);
	operator_does(f, "Nodes.Purge", "{\"id\": \"n1\", \"reason\": \"gone\"}");
	run_for(f->event, LOOKS_MS);
	expect_in_use(f, next);
}

CASE(a_new_leader_gives_fencers_time_to_connect_before_it_uses_the_next_key)
{
	uint8_t first[TICKET_KEY_SIZE], next[TICKET_KEY_SIZE];
	struct policy policy;
	char waits[512];

	key_in_use(f, first);
	assert_int_equal(rotate(f, "{}", waits, next), STATUS_OK);
	connect_with(&f->n1, "n1", first, next, &policy);
	run_for(f->event, LOOKS_MS);
	expect_in_use(f, first);
	assert_int_equal(rotate(f, "{}", waits, next), STATUS_OK);
	assert_string_equal(waits,
			    "fencers that have not connected yet (this server has just begun to lead)");
	lead_long(f);
	run_for(f->event, LOOKS_MS);
	expect_in_use(f, next);
}

static void fencer_init(struct fake_fencer *fencer, struct fixture *f)
{
	*fencer = (struct fake_fencer){.n = 0};
	caller_init(&fencer->caller, f, "holdfast://c1/fencer/f1", NULL);
}

CASE(a_fencer_that_is_away_holds_the_next_key_back_until_it_is_used_by_order)
{
	uint8_t first[TICKET_KEY_SIZE], next[TICKET_KEY_SIZE];
	struct fake_fencer fencer;
	char waits[512];

	lead_long(f);
	key_in_use(f, first);
	fencer_init(&fencer, f);
	fake_fencer_connect(&fencer, "");
	assert_int_equal(rotate(f, "{}", waits, next), STATUS_OK);
	assert_string_equal(waits, "fencers (put it into ticket_keys of holdfast-fencer.hcl, then: holdfast "
				   "operator key use)");
	run_for(f->event, LOOKS_MS);
	expect_in_use(f, first);
	rpc_stream_cancel(fencer.stream);
	run_for(f->event, LOOKS_MS);
	expect_in_use(f, first);
	assert_int_equal(rotate(f, "{}", waits, next), STATUS_OK);
	assert_string_equal(waits, "fencers, also those that are away (put it into ticket_keys of "
				   "holdfast-fencer.hcl, then: holdfast operator key use)");
	assert_int_equal(rotate(f, "{\"use_now\": true}", waits, next), STATUS_OK);
	expect_in_use(f, next);
	caller_release(&fencer.caller);
}

CASE(a_fencer_of_the_settings_that_has_not_connected_holds_the_next_key_back)
{
	struct fence_bindings *bindings = &f->server->config.fence_bindings;
	uint8_t first[TICKET_KEY_SIZE], next[TICKET_KEY_SIZE];
	char waits[512];

	(void)str_copy(bindings->list[bindings->n++].fencer, sizeof(bindings->list[0].fencer), "f1");
	key_in_use(f, first);
	assert_int_equal(rotate(f, "{}", waits, next), STATUS_OK);
	lead_long(f);
	run_for(f->event, LOOKS_MS);
	expect_in_use(f, first);
}

CASE(a_connected_fencer_without_the_key_that_comes_into_use_is_an_alarm)
{
	uint8_t first[TICKET_KEY_SIZE], next[TICKET_KEY_SIZE], ids[2 * TICKET_KEY_ID_SIZE];
	char waits[512], warning[FENCERS_WARNING_SIZE];
	struct fake_fencer fencer;

	key_in_use(f, first);
	assert_int_equal(rotate(f, "{}", waits, next), STATUS_OK);
	memcpy(ids, first, TICKET_KEY_ID_SIZE);
	memcpy(ids + TICKET_KEY_ID_SIZE, next, TICKET_KEY_ID_SIZE);
	fencer_init(&fencer, f);
	fencer.keys = (const char *)ids;
	fencer.n_keys = 2;
	fake_fencer_connect(&fencer, "");
	assert_int_equal(rotate(f, "{\"use_now\": true}", waits, next), STATUS_OK);
	assert_false(fencers_warning(f->server->fencers, warning));
	unit_clock_advance(TEN_MINUTES_US);
	assert_int_equal(rotate(f, "{}", waits, next), STATUS_OK);
	assert_false(fencers_warning(f->server->fencers, warning));
	assert_int_equal(rotate(f, "{\"use_now\": true}", waits, next), STATUS_OK);
	assert_true(fencers_warning(f->server->fencers, warning));
	assert_non_null(strstr(warning, "fencer f1 refuses every order"));
	caller_release(&fencer.caller);
}

CASE(a_fencer_that_shows_more_keys_than_a_file_may_have_is_compared_by_the_first)
{
	uint8_t first[TICKET_KEY_SIZE], ids[1024 * TICKET_KEY_ID_SIZE];
	char warning[FENCERS_WARNING_SIZE];
	struct fake_fencer fencer;

	key_in_use(f, first);
	memset(ids, 0xff, sizeof(ids));
	memcpy(ids, first, TICKET_KEY_ID_SIZE);
	fencer_init(&fencer, f);
	fencer.keys = (const char *)ids;
	fencer.n_keys = sizeof(ids) / TICKET_KEY_ID_SIZE;
	fake_fencer_connect(&fencer, "");
	assert_false(fencers_warning(f->server->fencers, warning));
	caller_release(&fencer.caller);
}

/* As node.md describes for a file that has leaked. */
CASE(another_key_file_takes_the_place_of_the_keys_that_were_made)
{
	uint8_t next[TICKET_KEY_SIZE], file[TICKET_KEY_SIZE];
	char waits[512];

	assert_int_equal(rotate(f, "{}", waits, next), STATUS_OK);
	assert_int_equal(rotate(f, "{\"use_now\": true}", waits, next), STATUS_OK);
	unit_clock_advance(TEN_MINUTES_US);
	assert_int_equal(rotate(f, "{}", waits, next), STATUS_OK); /* and a next one */
	restart_with(f, replace_file);
	ticket_issuer_file_key(f->server->issuer, file);
	expect_in_use(f, file);
	assert_int_equal(rotate(f, "{\"use_now\": true}", waits, next), STATUS_FAILED_PRECONDITION);
	assert_int_equal(rotate(f, "{}", waits, next), STATUS_OK);
	assert_int_equal(rotate(f, "{\"use_now\": true}", waits, next), STATUS_OK);
	expect_in_use(f, next);
}

/* One change after the other: sixteen keys are kept. */
CASE(many_changes_leave_the_last_key_in_use)
{
	uint8_t next[TICKET_KEY_SIZE];
	char waits[512];

	for (int i = 0; i < 20; i++) {
		assert_int_equal(rotate(f, "{}", waits, next), STATUS_OK);
		assert_int_equal(rotate(f, "{\"use_now\": true}", waits, next), STATUS_OK);
		expect_in_use(f, next);
		unit_clock_advance(TEN_MINUTES_US);
	}
	restart(f);
	expect_in_use(f, next);
}
