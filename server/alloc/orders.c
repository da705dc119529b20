/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations.OrderTask: the signed order by which the driver of a node starts a task (proto/order.h). */

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

static bool fill_order(const struct server *server, const struct alloc *alloc, const char *boot_id,
		       const Holdfast__Driver__V1__TaskConfig *task, struct order *ret)
{
	char who[ORDER_WHO_SIZE];

	*ret = (struct order){
		.magic = ORDER_MAGIC,
		.version = ORDER_VERSION,
		.kind = ORDER_START,
		.not_after_ms = (uint64_t)clock_realtime_ms() + ORDER_VALID_MS,
	};
	str_copy_text(who, sizeof(who), alloc->name);
	return str_copy(ret->cluster, sizeof(ret->cluster), server->config.cluster) == 0 &&
	       str_copy(ret->node, sizeof(ret->node), alloc->node_id) == 0 &&
	       str_copy(ret->driver, sizeof(ret->driver), task->driver) == 0 &&
	       str_copy(ret->task, sizeof(ret->task), task->task) == 0 &&
	       str_format(ret->who, sizeof(ret->who), "allocation %s/%s", alloc->namespace, who) >= 0 &&
	       id_uuid_bytes(boot_id, ret->boot_id) && id_uuid_bytes(alloc->id, ret->alloc);
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
	char object[AUDIT_OBJECT_SIZE];
	struct order order;
	size_t n = 0;
	enum status st = alloc_pack_task(&entry->alloc, task, &bytes, &n, err);

	if (st != STATUS_OK)
		return st;
	if (!fill_order(server, &entry->alloc, boot_id, task, &order))
		return error_set(err, STATUS_INTERNAL, 0, "task %s of allocation %s cannot be ordered",
				 task->task, entry->alloc.id);
	order_digest(bytes, n, order.digest);
	make_nonce(server, &order);
	ticket_issuer_sign(server->issuer, &order, ORDER_SIGNED_SIZE, order.signature);
	(void)str_join(object, sizeof(object), "allocation ", entry->alloc.namespace, "/", entry->alloc.id,
		       ", task ", task->task);
	audit_write(server, &change, call, WHAT_ORDER, object, NULL);
	return reply_changed(server, &change, call, (ProtobufCMessage *)response_with(&order, bytes, n), err);
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
