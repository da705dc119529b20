/* SPDX-License-Identifier: Apache-2.0 */
#include "order_check.h"

#include "base/cleanup.h"
#include "base/id.h"
#include "base/str.h"
#include "model/order.h"
#include "rpc/unpack.h"

#include <assert.h>
#include <holdfast/driver/v1/driver.pb-c.h>
#include <string.h>

enum { BODY_MAX = 1 << 20 };

void taken_release(struct taken *taken)
{
	if (taken->body)
		protobuf_c_message_free_unpacked(taken->body, NULL);
	taken->body = NULL;
}

static enum status refuse(struct taken *ret, const char *reason, enum status status, struct error *err,
			  const char *why)
{
	ret->reason = reason;
	return error_set(err, status, 0, "%s refuses an order: %s", DRIVER_NAME, why);
}

static bool is_signed(const struct order *order, const struct settings *settings)
{
	for (uint32_t i = 0; i < settings->n_keys; i++)
		if (order_is_signed(order, settings->keys[i]))
			return true;
	return false;
}

/* Whether it is for this driver, here and now. */
static enum status check_place(const struct order_place *place, enum order_kind kind, struct taken *ret,
			       struct error *err)
{
	const struct order *order = &ret->order;

	if (!is_signed(order, place->settings))
		return refuse(
			ret, "signature", STATUS_PERMISSION_DENIED, err,
			"its signature is of none of the keys in ticket_keys; see holdfast operator status");
	if (order->kind != kind)
		return refuse(ret, "kind", STATUS_PERMISSION_DENIED, err, "it orders something else");
	if (!str_eq(order->driver, DRIVER_NAME))
		return refuse(ret, "driver", STATUS_PERMISSION_DENIED, err, "it is for another driver");
	if (!str_eq(order->cluster, place->settings->cluster))
		return refuse(ret, "cluster", STATUS_PERMISSION_DENIED, err, "it is for another cluster");
	if (!str_eq(order->node, place->settings->node_id))
		return refuse(ret, "node", STATUS_PERMISSION_DENIED, err, "it is for another node");
	if (memcmp(order->boot_id, place->boot_id, sizeof(order->boot_id)) != 0)
		return refuse(ret, "boot", STATUS_PERMISSION_DENIED, err,
			      "it is for another boot of this node");
	if (!place->is_restart && (place->now_ms < 0 || (uint64_t)place->now_ms > order->not_after_ms))
		return refuse(ret, "expired", STATUS_PERMISSION_DENIED, err,
			      "it has expired; compare this machine's clock with the server's");
	return STATUS_OK;
}

/* The subject that the body names. */
struct order_subject {
	const char *alloc;
	const char *task;
	const char *driver;
};

static struct order_subject subject_of(enum order_kind kind, const ProtobufCMessage *body)
{
	const Holdfast__Driver__V1__TaskConfig *task = (const void *)body;
	const Holdfast__Driver__V1__ExecCommand *command = (const void *)body;
	const Holdfast__Driver__V1__NetworkConfig *network = (const void *)body;

	switch (kind) {
	case ORDER_START:
		return (struct order_subject){task->alloc_id, task->task, task->driver};
	case ORDER_EXEC:
		return (struct order_subject){command->alloc_id, command->task, command->driver};
	case ORDER_NETWORK:
		return (struct order_subject){network->alloc_id, "", network->driver};
	case ORDER_KIND_N:
		break;
	}
	return (struct order_subject){"", "", ""};
}

static enum status check_body(enum order_kind kind, const ProtobufCBinaryData *body, struct taken *ret,
			      struct error *err)
{
	static const ProtobufCMessageDescriptor *const types[ORDER_KIND_N] = {
		[ORDER_START] = &holdfast__driver__v1__task_config__descriptor,
		[ORDER_EXEC] = &holdfast__driver__v1__exec_command__descriptor,
		[ORDER_NETWORK] = &holdfast__driver__v1__network_config__descriptor,
	};
	uint8_t digest[ORDER_DIGEST_SIZE];
	uint8_t alloc[ORDER_UUID_SIZE];
	struct order_subject subject;

	order_digest(body->data, body->len, digest);
	if (memcmp(digest, ret->order.digest, sizeof(digest)) != 0)
		return refuse(ret, "digest", STATUS_PERMISSION_DENIED, err,
			      "the task differs from its order");
	if (unpack_message(types[kind], body->data, body->len, BODY_MAX, &ret->body, NULL) != STATUS_OK ||
	    !order_is_canonical(ret->body, body->data, body->len))
		return refuse(ret, "form", STATUS_INVALID_ARGUMENT, err,
			      "the task has fields that this version does not know, or another form "
			      "than its own");
	subject = subject_of(kind, ret->body);
	if (!id_uuid_bytes(subject.alloc, alloc) || memcmp(alloc, ret->order.alloc, sizeof(alloc)) != 0)
		return refuse(ret, "alloc", STATUS_PERMISSION_DENIED, err, "it is of another allocation");
	if (!str_eq(subject.task, ret->order.task))
		return refuse(ret, "task", STATUS_PERMISSION_DENIED, err, "it is of another task");
	if (!str_eq(subject.driver, DRIVER_NAME))
		return refuse(ret, "driver", STATUS_PERMISSION_DENIED, err, "it is for another driver");
	return STATUS_OK;
}

enum status order_check(const struct order_place *place, enum order_kind kind,
			const ProtobufCBinaryData *order, const ProtobufCBinaryData *body, struct taken *ret,
			struct error *err)
{
	enum status status;

	assert(kind > 0 && kind < ORDER_KIND_N);
	*ret = (struct taken){.reason = ""};
	status = order_read(order->data, order->len, &ret->order, err);
	if (status != STATUS_OK) {
		ret->reason = "form";
		return status;
	}
	TRY(check_place(place, kind, ret, err));
	TRY(check_body(kind, body, ret, err));
	ret->use = nonces_look(place->nonces, &ret->order);
	if (place->is_restart && nonces_has_ended(place->nonces, &ret->order))
		return refuse(ret, "ended", STATUS_FAILED_PRECONDITION, err,
			      "its task was ended by DestroyTask; repeat DestroyTask until the container is "
			      "gone");
	if (place->is_restart && ret->use == NONCE_NEW)
		return refuse(ret, "unused", STATUS_FAILED_PRECONDITION, err,
			      "it has started no task that could be restarted");
	if (ret->use != NONCE_NEW && kind == ORDER_EXEC)
		return refuse(ret, "used", STATUS_FAILED_PRECONDITION, err,
			      "it was used already; ask the server for another one");
	return STATUS_OK;
}

enum status order_recall(const ProtobufCBinaryData *order, const ProtobufCBinaryData *body, struct taken *ret,
			 struct error *err)
{
	*ret = (struct taken){.reason = "", .use = NONCE_DONE};
	TRY(order_read(order->data, order->len, &ret->order, err));
	return check_body((enum order_kind)ret->order.kind, body, ret, err);
}
