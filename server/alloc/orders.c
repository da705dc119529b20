/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations.OrderTask: the signed order by which the driver of a node starts a task (proto/order.h). */

#include "alloc/orders.h"

#include "server.h"

#include "access/access.h"
#include "access/audit.h"
#include "access/reply.h"
#include "alloc/allocs.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/join.h"
#include "base/str.h"
#include "model/order.h"
#include "model/task.h"
#include "node/session.h"
#include "state/change.h"
#include "ticket/ticket.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define WHAT_ORDER "Allocations.OrderTask"

enum { ORDER_VALID_MS = 10 * 60 * 1000 };

/* One task of one allocation in one boot has one nonce: its driver starts it once, however often it is
 * ordered. */
static void make_nonce(const struct server *server, struct order *order)
{
	struct {
		char what[24];
		uint8_t boot_id[ORDER_UUID_SIZE];
		uint8_t alloc[ORDER_UUID_SIZE];
		char task[ORDER_LABEL_SIZE];
	} of = {.what = "holdfast: start of task"};
	uint8_t mac[TICKET_MAC_SIZE];

	memcpy(of.boot_id, order->boot_id, sizeof(of.boot_id));
	memcpy(of.alloc, order->alloc, sizeof(of.alloc));
	memcpy(of.task, order->task, sizeof(of.task));
	ticket_issuer_mac(server->issuer, &of, sizeof(of), mac);
	memcpy(order->nonce, mac, sizeof(order->nonce));
}

static bool fill_order(const struct server *server, const struct order_wish *wish, struct order *ret)
{
	*ret = (struct order){
		.magic = ORDER_MAGIC,
		.version = ORDER_VERSION,
		.kind = (uint8_t)wish->kind,
		.not_after_ms = (uint64_t)clock_realtime_ms() + ORDER_VALID_MS,
	};
	str_copy_text(ret->who, sizeof(ret->who), wish->who);
	return str_copy(ret->cluster, sizeof(ret->cluster), server->config.cluster) == 0 &&
	       str_copy(ret->node, sizeof(ret->node), wish->alloc->node_id) == 0 &&
	       str_copy(ret->driver, sizeof(ret->driver), wish->task->driver) == 0 &&
	       str_copy(ret->task, sizeof(ret->task), wish->task->task) == 0 &&
	       id_uuid_bytes(wish->boot_id, ret->boot_id) && id_uuid_bytes(wish->alloc->id, ret->alloc);
}

enum status order_make(const struct server *server, const struct order_wish *wish, struct order *ret,
		       struct error *err)
{
	bool is_made = fill_order(server, wish, ret);

	if (wish->kind == ORDER_START)
		make_nonce(server, ret);
	else
		is_made = is_made &&
			  getrandom(ret->nonce, sizeof(ret->nonce), 0) == (ssize_t)sizeof(ret->nonce);
	if (!is_made)
		return error_set(err, STATUS_INTERNAL, 0, "task %s of allocation %s cannot be ordered",
				 wish->task->task, wish->alloc->id);
	order_digest(wish->bytes, wish->n_bytes, ret->digest);
	ticket_issuer_sign(server->issuer, ret, ORDER_SIGNED_SIZE, ret->signature);
	return STATUS_OK;
}

/* Is the volume claimed for this allocation, and held? */
static bool is_held(const struct alloc_entry *entry, const struct volume_request *request)
{
	const struct claim_entry *claim;

	LIST_FOREACH (claim, &entry->claims, of_alloc)
		if (claim->claim.state <= CLAIM_TAKEN && str_eq(claim->claim.volume_id, request->source))
			return true;
	return false;
}

static enum status check_allocation(const struct alloc_entry *entry, const char *node_id, struct error *err)
{
	const struct alloc *alloc = &entry->alloc;

	if (!str_eq(alloc->node_id, node_id))
		return error_set(err, STATUS_PERMISSION_DENIED, 0, "allocation %s is not of node %s",
				 alloc->id, node_id);
	if (alloc->desired_status != DESIRED_RUN || alloc_is_client_terminal(alloc))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "allocation %s is not to run any more: no task of it is started", alloc->id);
	if (alloc->adopted)
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"allocation %s: only its node knows it, by a report in a new epoch, and no task "
			"of it is started anew; stop it (holdfast alloc stop %s) and run its work again",
			alloc->id, alloc->id);
	for (uint32_t i = 0; i < alloc->n_volumes; i++)
		if (!is_held(entry, &alloc->volumes[i]))
			return error_set(
				err, STATUS_FAILED_PRECONDITION, 0,
				"allocation %s: volume %s is not claimed for it, and no task of it is "
				"started before that",
				alloc->id, alloc->volumes[i].source);
	return STATUS_OK;
}

static Holdfast__V1__OrderTaskResponse *response_with(const struct order *order, uint8_t *task, size_t n)
{
	Holdfast__Driver__V1__StartTaskRequest start = HOLDFAST__DRIVER__V1__START_TASK_REQUEST__INIT;
	Holdfast__V1__OrderTaskResponse response = HOLDFAST__V1__ORDER_TASK_RESPONSE__INIT;

	start.order = (ProtobufCBinaryData){.len = sizeof(*order), .data = (uint8_t *)(uintptr_t)order};
	start.task = (ProtobufCBinaryData){.len = n, .data = task};
	response.start = &start;
	return (Holdfast__V1__OrderTaskResponse *)(void *)message_convert(response.base.descriptor,
									  &response.base);
}

static enum status order_task(struct server *server, struct rpc_call *call, const struct alloc_entry *entry,
			      const Holdfast__Driver__V1__TaskConfig *task, const char *boot_id,
			      struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	cleanup_free uint8_t *bytes = NULL;
	struct order_wish wish = {
		.kind = ORDER_START, .alloc = &entry->alloc, .boot_id = boot_id, .task = task};
	char object[AUDIT_OBJECT_SIZE], who[NAMESPACE_MAX + ALLOC_NAME_MAX + 16];
	struct order order;
	enum status st = alloc_pack_task(&entry->alloc, task, &bytes, &wish.n_bytes, err);

	(void)str_join(who, sizeof(who), "allocation ", entry->alloc.namespace, "/", entry->alloc.name);
	wish.who = who;
	wish.bytes = bytes;
	if (st == STATUS_OK)
		st = order_make(server, &wish, &order, err);
	if (st != STATUS_OK)
		return st;
	(void)str_join(object, sizeof(object), "allocation ", entry->alloc.namespace, "/", entry->alloc.id,
		       ", task ", task->task);
	audit_write(server, &change, call, WHAT_ORDER, object, NULL);
	return reply_changed(server, &change, call,
			     (ProtobufCMessage *)response_with(&order, bytes, wish.n_bytes), err);
}

static enum status handle_order(struct server *server, struct rpc_call *call,
				const Holdfast__V1__OrderTaskRequest *request, struct error *err)
{
	const struct alloc_entry *entry = state_alloc(&server->state, request->id);
	const Holdfast__Driver__V1__TaskConfig *task;
	struct identity who;
	enum status st = access_check_node(server, call, &who, err);

	if (st != STATUS_OK)
		return st;
	if (!entry)
		return error_set(err, STATUS_NOT_FOUND, 0, "there is no allocation %.64s", request->id);
	st = check_allocation(entry, who.name, err);
	if (st != STATUS_OK)
		return st;
	task = alloc_find_task(&entry->alloc, request->task);
	if (!task)
		return error_set(err, STATUS_NOT_FOUND, 0, "allocation %s has no task '%.64s'",
				 entry->alloc.id, request->task);
	if (!node_is_connected(entry->node))
		return error_set(err, STATUS_UNAVAILABLE, 0,
				 "node %s has no session; tasks are ordered of connected nodes only",
				 who.name);
	return order_task(server, call, entry, task, entry->node->session->boot_id, err);
}

DEFINE_WRITE_METHOD(allocs_handle_order_task, Holdfast__V1__OrderTaskRequest, WHAT_ORDER, handle_order)
