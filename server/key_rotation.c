/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the next ticket key, waits until nodes and drivers know it, and uses it. */

#include "key_rotation.h"

#include "server.h"
#include "waits.h"

#include "access/answer.h"
#include "access/audit.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/str.h"
#include "fence/fencers.h"
#include "log/log.h"
#include "model/message.h"
#include "node/lookup.h"
#include "plugin/fingerprint.h"
#include "state/change.h"
#include "state/keys.h"
#include "state/records.h"

#include <assert.h>
#include <holdfast/v1/operator.pb-c.h>
#include <holdfast/v1/types.pb-c.h>
#include <string.h>

#define WHAT "Operator.RotateKey"
#define DRIVER_KEYS "ticket_keys" /* attribute of drivers that check orders */

#define NEXT HOLDFAST__V1__SIGNING_KEY_STATE__SIGNING_KEY_STATE_NEXT
#define IN_USE HOLDFAST__V1__SIGNING_KEY_STATE__SIGNING_KEY_STATE_IN_USE
#define FORMER HOLDFAST__V1__SIGNING_KEY_STATE__SIGNING_KEY_STATE_FORMER

typedef Holdfast__V1__SigningKey Key;
typedef Holdfast__V1__SigningKeys Keys;

enum { ID_TEXT_SIZE = 2 * TICKET_KEY_ID_SIZE + 1, WAIT_SIZE = 256, SETTLE_MS = 600000 };

static const Keys *stored_keys(struct server *server)
{
	return records_get(&server->state.records, KEY_SIGNING_KEYS);
}

/* One that this server can sign with. */
static const Key *find(struct server *server, Holdfast__V1__SigningKeyState state)
{
	const Keys *keys = stored_keys(server);

	for (size_t i = 0; keys && i < keys->n_keys; i++)
		if (keys->keys[i]->state == state && keys->keys[i]->public_key.len == TICKET_KEY_SIZE &&
		    ticket_issuer_has(server->issuer, keys->keys[i]->public_key.data))
			return keys->keys[i];
	return NULL;
}

bool key_rotation_next(struct server *server, uint8_t ret[static TICKET_KEY_SIZE])
{
	const Key *next = find(server, NEXT);

	if (next)
		memcpy(ret, next->public_key.data, TICKET_KEY_SIZE);
	return next;
}

/* After the key's file was replaced, the keys of the earlier one cannot be opened, and the file's is used. */
void key_rotation_load(struct server *server)
{
	const Keys *keys = stored_keys(server);
	uint8_t file[TICKET_KEY_SIZE];
	const Key *in_use;
	struct error err;

	for (size_t i = 0; keys && i < keys->n_keys; i++)
		if (ticket_issuer_add_key(server->issuer, keys->keys[i]->wrapped.data,
					  keys->keys[i]->wrapped.len, &err) != STATUS_OK)
			log_ctx(LOG_WARNING, &(struct log_ctx){.err = &err}, "a ticket key is not used");
	in_use = find(server, IN_USE);
	ticket_issuer_file_key(server->issuer, file);
	(void)ticket_issuer_use(server->issuer, in_use ? in_use->public_key.data : file); /* it has both */
}

/* --- nodes and drivers that lack it --- */

/* NULL: the driver checks no orders. */
static const char *keys_of_driver(const Holdfast__Driver__V1__FingerprintResponse *fingerprint)
{
	for (size_t i = 0; i < fingerprint->n_attributes; i++)
		if (str_eq(fingerprint->attributes[i]->key, DRIVER_KEYS))
			return fingerprint->attributes[i]->value;
	return NULL;
}

static void look_at_node(const struct node_entry *node, const char *id, struct waits *waits)
{
	const struct message_list *drivers = node->drivers;
	char of[WAIT_SIZE];

	if (!node->has_hello)
		waits_add(
			waits, "node ", node->id,
			" (has not connected since this server leads; if it is gone: holdfast node purge, or "
			"holdfast operator key use)");
	else if (!strstr(node->node.ticket_keys, id))
		waits_add(waits, "node ", node->id, node_is_connected(node) ? "" : " (not connected)");
	for (size_t i = 0; drivers && i < drivers->n; i++) {
		const Holdfast__V1__NodeDriver *driver = (const void *)drivers->messages[i];
		const char *keys = driver->fingerprint ? keys_of_driver(driver->fingerprint) : "";

		if (!keys || strstr(keys, id))
			continue;
		(void)str_format(of, sizeof(of), "%.63s of node %.63s", driver->name, node->id);
		waits_add(waits, "driver ", of, driver->fingerprint ? "" : " (has not reported its keys)");
	}
}

/* Fencers do not count one by one: their hello names keys, but only the one in use is compared. A server that
 * has just begun to lead does not know all of them. */
static void find_waits(struct server *server, const uint8_t *key, struct waits *ret)
{
	const struct fencers_count fencers = fencers_count(server->fencers);
	struct node_entry *node = state_node_from(&server->state, "");
	char id[ID_TEXT_SIZE];

	hex_encode(id, key, TICKET_KEY_ID_SIZE);
	ret->n = ret->n_named = 0;
	for (; node; node = state_node_next(node))
		if (node_is_registered(node))
			look_at_node(node, id, ret);
	if (fencers.connected + fencers.away > 0)
		waits_add(
			ret, "fencers", fencers.away > 0 ? ", also those that are away" : "",
			" (put it into ticket_keys of holdfast-fencer.hcl, then: holdfast operator key use)");
	if (nodes_led_ms(server) < nodes_grace_ms(server))
		waits_add(ret, "fencers", "",
			  " that have not connected yet (this server has just begun to lead)");
}

/* --- changes of the record --- */

static enum status stage(struct change *change, const Keys *before, const Key *added, const uint8_t *used)
{
	Keys keys = HOLDFAST__V1__SIGNING_KEYS__INIT;
	Key copies[KEY_ROTATION_KEYS_MAX];
	Key *all[KEY_ROTATION_KEYS_MAX];
	size_t n = before ? before->n_keys : 0;
	size_t first = n + (added ? 1 : 0) > KEY_ROTATION_KEYS_MAX ? 1 : 0;

	assert(n <= KEY_ROTATION_KEYS_MAX);
	for (size_t i = first; i < n; i++) {
		copies[keys.n_keys] = *before->keys[i];
		if (added && copies[keys.n_keys].state == NEXT) /* of a file that was replaced */
			copies[keys.n_keys].state = FORMER;
		all[keys.n_keys] = &copies[keys.n_keys];
		keys.n_keys++;
	}
	if (added) {
		copies[keys.n_keys] = *added;
		all[keys.n_keys] = &copies[keys.n_keys];
		keys.n_keys++;
	}
	keys.keys = all;
	for (size_t i = 0; used && i < keys.n_keys; i++) {
		if (memcmp(copies[i].public_key.data, used, TICKET_KEY_SIZE) == 0) {
			copies[i].state = IN_USE;
			copies[i].changed_at_ms = clock_realtime_ms();
		} else if (copies[i].state == IN_USE)
			copies[i].state = FORMER;
	}
	change_put_record(change, KEY_SIGNING_KEYS, &keys.base);
	return change->status;
}

static enum status make_next(struct server *server, struct change *change, const struct rpc_call *call,
			     struct error *err)
{
	Key key = HOLDFAST__V1__SIGNING_KEY__INIT;
	uint8_t wrapped[TICKET_WRAPPED_SIZE];
	uint8_t public_key[TICKET_KEY_SIZE];
	char object[AUDIT_OBJECT_SIZE];
	char id[ID_TEXT_SIZE];

	TRY(ticket_issuer_make_key(server->issuer, public_key, wrapped, err));
	key.public_key = (ProtobufCBinaryData){.len = sizeof(public_key), .data = public_key};
	key.wrapped = (ProtobufCBinaryData){.len = sizeof(wrapped), .data = wrapped};
	key.state = NEXT;
	key.changed_at_ms = clock_realtime_ms();
	(void)stage(change, stored_keys(server), &key, NULL);
	hex_encode(id, public_key, TICKET_KEY_ID_SIZE);
	(void)str_format(object, sizeof(object), "ticket key %s", id);
	audit_write(server, change, call, WHAT, object, "made");
	return STATUS_OK;
}

/* Nodes that do not know it refuse mounts from now on, as their status shows. */
static void compare_nodes(struct server *server)
{
	struct node_entry *node = state_node_from(&server->state, "");
	cleanup_free struct node *copy = malloc(sizeof(*copy));
	struct error err;

	for (; copy && node; node = state_node_next(node)) {
		cleanup(change_release) struct change change = CHANGE_INIT;

		*copy = node->node;
		if (!node_is_registered(node))
			continue;
		fingerprint_compare_keys(server, copy);
		if (str_eq(copy->other_ticket_keys, node->node.other_ticket_keys))
			continue;
		change_put_node(&change, copy);
		if (change_commit(server, &change, NULL, NULL, &err) != STATUS_OK)
			log_ctx(LOG_WARNING, &(struct log_ctx){.node = node->id, .err = &err},
				"the status of the node does not show its ticket keys until its next hello");
	}
}

/* It is durable: a server that starts again signs with it as well. */
static void on_used(struct server *server, void *userdata)
{
	const Key *in_use = find(server, IN_USE);
	char id[ID_TEXT_SIZE];

	if (!in_use || !ticket_issuer_use(server->issuer, in_use->public_key.data))
		return;
	hex_encode(id, in_use->public_key.data, TICKET_KEY_ID_SIZE);
	log_line(LOG_NOTICE,
		 "tickets and orders are signed with the key %s... from now on; in ten minutes the former "
		 "key can "
		 "be removed from policies and files",
		 id);
	compare_nodes(server);
	fencers_compare_keys(server->fencers);
}

static void stage_use(struct server *server, struct change *change, const struct rpc_call *call,
		      const Key *next, const char *why)
{
	char object[AUDIT_OBJECT_SIZE];
	char id[ID_TEXT_SIZE];

	(void)stage(change, stored_keys(server), NULL, next->public_key.data);
	hex_encode(id, next->public_key.data, TICKET_KEY_ID_SIZE);
	(void)str_format(object, sizeof(object), "ticket key %s", id);
	if (call)
		audit_write(server, change, call, WHAT, object, why);
	else
		audit_own(server, change, WHAT, object, why);
}

void key_rotation_look(struct server *server)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	const Key *next = server->is_serving ? find(server, NEXT) : NULL;
	struct waits waits;
	struct error err;

	if (!next)
		return;
	find_waits(server, next->public_key.data, &waits);
	if (waits.n > 0)
		return;
	stage_use(server, &change, NULL, next, "every node knows it");
	if (change_commit(server, &change, on_used, NULL, &err) != STATUS_OK)
		log_ctx(LOG_WARNING, &(struct log_ctx){.err = &err}, "the next ticket key is not in use yet");
}

bool key_rotation_warning(struct server *server, char ret[static KEY_ROTATION_WARNING_SIZE])
{
	uint8_t next[TICKET_KEY_SIZE];
	char id[ID_TEXT_SIZE];
	struct waits waits;

	if (!key_rotation_next(server, next))
		return false;
	find_waits(server, next, &waits);
	hex_encode(id, next, TICKET_KEY_ID_SIZE);
	(void)str_format(
		ret, KEY_ROTATION_WARNING_SIZE,
		"the next ticket key %s... waits for %zu nodes, drivers or fencers%s%s: see holdfast "
		"operator key rotate",
		id, waits.n, waits.n > 0 ? ", first " : "", waits.n > 0 ? waits.texts[0] : "");
	return true;
}

/* --- the method --- */

static void answer(struct server *server, struct rpc_call *call)
{
	Holdfast__V1__RotateKeyResponse response = HOLDFAST__V1__ROTATE_KEY_RESPONSE__INIT;
	uint8_t in_use[TICKET_KEY_SIZE];
	uint8_t next[TICKET_KEY_SIZE];
	struct waits waits = {.n = 0};

	ticket_issuer_public_key(server->issuer, in_use);
	response.in_use = (ProtobufCBinaryData){.len = sizeof(in_use), .data = in_use};
	if (key_rotation_next(server, next)) {
		response.next = (ProtobufCBinaryData){.len = sizeof(next), .data = next};
		find_waits(server, next, &waits);
	}
	response.waiting = waits.n;
	response.waits_for = waits.named;
	response.n_waits_for = waits.n_named;
	rpc_call_reply(call, &response.base);
}

static void on_made(struct server *server, void *userdata)
{
	cleanup_free struct answer_waiting *waiting = userdata;

	answer(server, waiting->call);
}

static void on_used_now(struct server *server, void *userdata)
{
	on_used(server, NULL);
	on_made(server, userdata);
}

static enum status refuse_use(const Key *in_use, struct error *err)
{
	char at[CLOCK_TEXT_SIZE];

	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"there is no next ticket key%s%s. Next, to begin another change: holdfast operator key "
		"rotate",
		in_use ? "; the last one is in use since " : "",
		in_use ? clock_format(in_use->changed_at_ms, at) : "");
}

/* Policies still have the former key and this one. A look at the end of a change begins no other one. */
static bool is_new(const Key *in_use)
{
	int64_t age_ms = in_use ? clock_realtime_ms() - in_use->changed_at_ms : -1;

	return age_ms >= 0 && age_ms < SETTLE_MS;
}

static enum status handle(struct server *server, struct rpc_call *call,
			  const Holdfast__V1__RotateKeyRequest *request, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	const Key *next = find(server, NEXT), *in_use = find(server, IN_USE);

	if (request->use_now && !next)
		return refuse_use(in_use, err);
	if (request->use_now)
		stage_use(server, &change, call, next, "used now");
	else if (!next && !is_new(in_use))
		TRY(make_next(server, &change, call, err));
	return change_commit_taking(server, &change, request->use_now ? on_used_now : on_made,
				    answer_waiting_new(call, ""), err);
}

DEFINE_WRITE_METHOD(key_rotation_handle, Holdfast__V1__RotateKeyRequest, WHAT, handle)
