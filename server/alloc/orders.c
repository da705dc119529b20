/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations.OrderTask: the signed order by which the driver of a node starts a task, or makes the network
 * of an allocation's tasks (proto/order.h). */

#include "alloc/orders.h"

#include "server.h"

#include "access/access.h"
#include "access/answer.h"
#include "access/audit.h"
#include "alloc/allocs.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/join.h"
#include "base/str.h"
#include "claim/held_twice.h"
#include "model/feasibility.h"
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

enum { REPEAT_COST_US = 60000000, REPEATS_BURST = 10 }; /* records of a node's repeated orders */

/* One task of one allocation in one boot has one nonce: its driver starts it once, however often it is
 * ordered. */
static void make_nonce(const struct server *server, const char *namespace, struct order *order)
{
	struct {
		char what[24];
		uint8_t boot_id[ORDER_UUID_SIZE];
		uint8_t alloc[ORDER_UUID_SIZE];
		char task[ORDER_LABEL_SIZE];
		char namespace[NAMESPACE_MAX + 1];
	} of = {.what = "holdfast: start of task"};
	uint8_t mac[TICKET_MAC_SIZE];

	memcpy(of.boot_id, order->boot_id, sizeof(of.boot_id));
	memcpy(of.alloc, order->alloc, sizeof(of.alloc));
	memcpy(of.task, order->task, sizeof(of.task));
	(void)str_copy(of.namespace, sizeof(of.namespace), namespace);
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
		make_nonce(server, wish->alloc->namespace, ret);
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

/* Is the volume claimed for this allocation, and held by no rival? */
static enum status check_held(const struct alloc_entry *entry, const struct volume_request *request,
			      struct error *err)
{
	const struct claim_entry *claim;

	LIST_FOREACH (claim, &entry->claims, of_alloc)
		if (claim->claim.state <= CLAIM_TAKEN && str_eq(claim->claim.volume_id, request->source) &&
		    str_eq(claim->claim.namespace, entry->alloc.namespace))
			return held_twice_check_repeat(claim, err);
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "allocation %s: volume %s is not claimed for it, and no task of it is started "
			 "before that",
			 entry->id, request->source);
}

static enum status check_allocation(const struct alloc_entry *entry, const char *node_id, struct error *err)
{
	const struct alloc *alloc = &entry->alloc;

	if (!str_eq(alloc->node_id, node_id))
		return error_set(err, STATUS_PERMISSION_DENIED, 0, "allocation %s is not of node %s",
				 alloc->id, node_id);
	if (alloc->desired_status != DESIRED_RUN) /* which its node hears: it has not failed */
		return error_set(err, STATUS_ABORTED, 0,
				 "allocation %s must not run any longer: no task of it is started",
				 alloc->id);
	if (alloc_is_client_terminal(alloc))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "allocation %s has ended: no task of it is started", alloc->id);
	if (alloc->adopted)
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"allocation %s: only its node knows it, by a report in a new epoch, and no task of "
			"it is started again; stop it (holdfast alloc stop %s) and run its work again",
			alloc->id, alloc->id);
	for (uint32_t i = 0; i < alloc->n_volumes; i++)
		TRY(check_held(entry, &alloc->volumes[i], err));
	return STATUS_OK;
}

static Holdfast__V1__OrderTaskResponse *response_with(const struct order *order,
						      const struct order_wish *wish)
{
	Holdfast__Driver__V1__StartTaskRequest start = HOLDFAST__DRIVER__V1__START_TASK_REQUEST__INIT;
	Holdfast__Driver__V1__CreateNetworkRequest create =
		HOLDFAST__DRIVER__V1__CREATE_NETWORK_REQUEST__INIT;
	Holdfast__V1__OrderTaskResponse response = HOLDFAST__V1__ORDER_TASK_RESPONSE__INIT;

	start.order = (ProtobufCBinaryData){.len = sizeof(*order), .data = (uint8_t *)(uintptr_t)order};
	start.task = (ProtobufCBinaryData){.len = wish->n_bytes, .data = (uint8_t *)(uintptr_t)wish->bytes};
	create.order = start.order;
	create.network = start.task;
	if (wish->kind == ORDER_NETWORK) {
		response.network = &create;
		response.network_driver = wish->task->driver;
	} else {
		response.start = &start;
	}
	return (Holdfast__V1__OrderTaskResponse *)(void *)message_convert(response.base.descriptor,
									  &response.base);
}

/* Is the order worth a record? A repeated one starts nothing twice, and its node must not push everything
 * else out of the audit. */
static bool is_to_record(struct alloc_entry *entry, const struct order_wish *wish,
			 char ret_more[static RATE_MORE_SIZE])
{
	size_t i = 0;
	uint16_t bit;

	while (i < message_list_n(entry->alloc.tasks) && alloc_task(&entry->alloc, i) != wish->task)
		i++;
	bit = (uint16_t)(1U << (wish->kind == ORDER_NETWORK ? ALLOC_TASKS_MAX : i));
	ret_more[0] = '\0';
	if (entry->ordered & bit)
		return rate_take_counted(&entry->node->orders, REPEAT_COST_US, REPEATS_BURST,
					 clock_monotonic_us(), ret_more);
	entry->ordered |= bit;
	return true;
}

/* Signs what @wish has, puts it on record and answers. */
static enum status give_order(struct server *server, struct rpc_call *call, struct alloc_entry *entry,
			      struct order_wish wish, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	const struct alloc *alloc = wish.alloc;
	char more[RATE_MORE_SIZE];
	char object[AUDIT_OBJECT_SIZE], who[NAMESPACE_MAX + ALLOC_NAME_MAX + 16];
	bool is_network = wish.kind == ORDER_NETWORK;
	struct order order;

	(void)str_join(who, sizeof(who), "allocation ", alloc->namespace, "/", alloc->name);
	wish.who = who;
	TRY(order_make(server, &wish, &order, err));
	(void)str_join(object, sizeof(object), "allocation ", alloc->namespace, "/", alloc->id,
		       is_network ? ", network" : ", task ", wish.task->task);
	if (is_to_record(entry, &wish, more))
		audit_write(server, &change, call, WHAT_ORDER, object, more[0] != '\0' ? more : NULL);
	return answer_changed(server, &change, call, (ProtobufCMessage *)response_with(&order, &wish), err);
}

static enum status check_handle(const struct alloc *alloc, const Holdfast__V1__OrderTaskRequest *request,
				struct error *err)
{
	if (alloc->network.mode == NETWORK_ISOLATED && !alloc_network_is_right(alloc, request->network))
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"task %s of allocation %s joins its isolated network, and is ordered with the "
			"handle of that only",
			request->task, alloc->id);
	if (alloc->network.mode != NETWORK_ISOLATED && request->network)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "allocation %s has no isolated network",
				 alloc->id);
	return STATUS_OK;
}

static enum status order_task(struct server *server, struct rpc_call *call, struct alloc_entry *entry,
			      const Holdfast__V1__OrderTaskRequest *request, struct error *err)
{
	cleanup_free uint8_t *bytes = NULL;
	struct order_wish wish = {.kind = ORDER_START,
				  .alloc = &entry->alloc,
				  .boot_id = entry->node->session->boot_id,
				  .task = alloc_find_task(&entry->alloc, request->task)};
	enum status status;

	if (!wish.task)
		return error_set(err, STATUS_NOT_FOUND, 0, "allocation %s has no task '%.64s'",
				 entry->alloc.id, request->task);
	status = check_handle(&entry->alloc, request, err);
	if (status == STATUS_OK)
		status = alloc_pack_task(&entry->alloc, wish.task, request->network, entry->node->attributes,
					 &bytes, &wish.n_bytes, err);
	wish.bytes = bytes;
	return status == STATUS_OK ? give_order(server, call, entry, wish, err) : status;
}

/* Puts the driver of its node that makes the network into @ret; false: no driver can. */
static bool name_driver(const struct alloc_entry *entry, Holdfast__Driver__V1__TaskConfig *ret)
{
	struct wanted_task tasks[ALLOC_TASKS_MAX];
	size_t n = message_list_n(entry->alloc.tasks);

	for (size_t i = 0; i < n; i++) {
		const Holdfast__Driver__V1__TaskConfig *task = alloc_task(&entry->alloc, i);

		tasks[i] = (struct wanted_task){task, node_driver(entry->node, task->driver)};
	}
	ret->driver = (char *)(uintptr_t)feasibility_network_driver(tasks, n);
	return ret->driver != NULL;
}

static enum status order_network(struct server *server, struct rpc_call *call, struct alloc_entry *entry,
				 struct error *err)
{
	Holdfast__Driver__V1__TaskConfig nobody = HOLDFAST__DRIVER__V1__TASK_CONFIG__INIT;
	cleanup_free uint8_t *bytes = NULL;
	struct order_wish wish = {.kind = ORDER_NETWORK,
				  .alloc = &entry->alloc,
				  .boot_id = entry->node->session->boot_id,
				  .task = &nobody};
	enum status status;

	if (entry->alloc.network.mode != NETWORK_ISOLATED)
		return error_set(err, STATUS_NOT_FOUND, 0, "allocation %s has no isolated network",
				 entry->alloc.id);
	if (!name_driver(entry, &nobody))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "allocation %s: two drivers of node %s must make its network, and only one "
				 "can",
				 entry->alloc.id, entry->alloc.node_id);
	status = alloc_pack_network(&entry->alloc, nobody.driver, &bytes, &wish.n_bytes, err);
	wish.bytes = bytes;
	return status == STATUS_OK ? give_order(server, call, entry, wish, err) : status;
}

static enum status handle_order(struct server *server, struct rpc_call *call,
				const Holdfast__V1__OrderTaskRequest *request, struct error *err)
{
	struct alloc_entry *entry = state_alloc(&server->state, request->id);
	struct identity who;

	TRY(access_check_node(server, call, &who, err));
	if (!entry || !str_eq(entry->alloc.namespace, namespace_or_default(request->namespace_)))
		return error_set(err, STATUS_NOT_FOUND, 0, "there is no allocation %.64s", request->id);
	TRY(check_allocation(entry, who.name, err));
	if (!node_is_connected(entry->node))
		return error_set(err, STATUS_UNAVAILABLE, 0,
				 "node %s has no session; tasks are ordered of connected nodes only",
				 who.name);
	return request->task[0] == '\0' ? order_network(server, call, entry, err)
					: order_task(server, call, entry, request, err);
}

DEFINE_WRITE_METHOD(allocs_handle_order_task, Holdfast__V1__OrderTaskRequest, WHAT_ORDER, handle_order)
