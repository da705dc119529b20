/* SPDX-License-Identifier: Apache-2.0 */
/* An order and what is ordered, at the driver of containers: input is KIND FLAGS ORDER BODY. With flags set
 * the order is of this place, and its digest that of the body, so that what comes after these checks is
 * reached. The signature is taken as flags say (--wrap). What is taken is whole, and as it was ordered; what
 * an engine would be asked for then has the floor. */

#include "container.h"
#include "order_check.h"
#include "policy.h"
#include "task_spec.h"

#include "base/id.h"
#include "base/str.h"
#include "model/order.h"

#include <assert.h>
#include <holdfast/driver/v1/driver.pb-c.h>
#include <stdlib.h>
#include <string.h>

#define BOOT "11111111-2222-4333-8444-555555555555"

enum { FLAG_SIGNED = 1, FLAG_HERE = 2, FLAG_DIGEST = 4, FLAG_OF_BODY = 8 };

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
bool __wrap_order_is_signed(const struct order *order, const uint8_t key[static ORDER_KEY_SIZE]);

static struct settings settings;
static struct order_place place = {.settings = &settings, .now_ms = 500};
static uint8_t flags;

bool __wrap_order_is_signed(const struct order *order, const uint8_t key[static ORDER_KEY_SIZE])
{
	return flags & FLAG_SIGNED;
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const char text[] =
		"cluster = \"prod\"\nnode_id = \"node-1\"\nengine = \"/run/engine.sock\"\n"
		"ticket_keys = [\"8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c\"]\n"
		"users = [\"image\", \"1000\"]\nimages = [\"localhost/*\"]\nhost_paths = "
		"[\"/srv\"]\ncapabilities = [\"CAP_NET_RAW\"]\n"
		"csi_plugin \"ebs\" {\n  images = [\"localhost/*\"]\n  privileged = true\n}\n";
	char folder[] = "/tmp/holdfast-fuzz-XXXXXX";
	char path[sizeof(folder) + 8];

	if (settings_parse(text, "driver.hcl", &settings, NULL) != STATUS_OK || !mkdtemp(folder) ||
	    str_format(path, sizeof(path), "%s/orders", folder) < 0 ||
	    nonces_open(path, BOOT, &place.nonces, NULL) != STATUS_OK || !id_uuid_bytes(BOOT, place.boot_id))
		abort();
	return 0;
}

/* What the body says about itself, where it can be read. */
static void name_as_body(struct order *order, const uint8_t *body, size_t n)
{
	Holdfast__Driver__V1__TaskConfig *task = holdfast__driver__v1__task_config__unpack(NULL, n, body);

	if (!task)
		return;
	(void)id_uuid_bytes(task->alloc_id, order->alloc);
	memset(order->task, 0, sizeof(order->task));
	(void)str_copy(order->task, sizeof(order->task), task->task);
	holdfast__driver__v1__task_config__free_unpacked(task, NULL);
}

static void place_here(struct order *order, uint8_t kind)
{
	*order = (struct order){.magic = ORDER_MAGIC,
				.version = ORDER_VERSION,
				.kind = kind,
				.cluster = "prod",
				.node = "node-1",
				.driver = DRIVER_NAME,
				.who = "operator alice",
				.not_after_ms = 1000};
	memcpy(order->boot_id, place.boot_id, sizeof(order->boot_id));
}

static const struct container_order made_by = {.nonce = "00ff", .boot_id = "b"};

/* Nothing of the floor is left out for a task that root's file lets run. */
static void make_container(const Holdfast__Driver__V1__TaskConfig *task)
{
	struct task_spec spec;
	const char *reason = "";
	const json_t *host;
	json_t *body;

	if (task_spec_read(task, &spec, NULL) != STATUS_OK ||
	    policy_check_task(&settings, &spec, &reason, NULL) != STATUS_OK)
		return;
	body = container_of_task(&settings, &spec, &made_by, NULL);
	host = json_object_get(body, "HostConfig");
	if (body) {
		assert(json_array_size(json_object_get(host, "SecurityOpt")) == 1);
		assert(json_is_false(json_object_get(host, "Privileged")) ||
		       (task->csi_plugin && str_eq(task->csi_plugin->id, "ebs")));
	}
	json_decref(body);
}

static void judge(enum order_kind kind, const struct order *order, size_t n_order, const uint8_t *body,
		  size_t n_body)
{
	const ProtobufCBinaryData order_bytes = {n_order, (uint8_t *)(uintptr_t)order};
	const ProtobufCBinaryData body_bytes = {n_body, (uint8_t *)(uintptr_t)body};
	struct taken taken;
	enum status status = order_check(&place, kind, &order_bytes, &body_bytes, &taken, NULL);

	if (status == STATUS_OK) {
		assert((flags & FLAG_SIGNED) && taken.body && taken.order.kind == kind);
		assert(protobuf_c_message_get_packed_size(taken.body) == n_body);
		if (kind == ORDER_START)
			make_container((const Holdfast__Driver__V1__TaskConfig *)(const void *)taken.body);
	} else {
		assert(taken.reason && taken.reason[0] != '\0');
	}
	taken_release(&taken);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct order order = {0};
	size_t n_order;
	uint8_t kind;

	if (size < 2)
		return 0;
	kind = (uint8_t)(1 + data[0] % (ORDER_KIND_N - 1));
	flags = data[1];
	n_order = size - 2 < sizeof(order) ? size - 2 : sizeof(order);
	if (flags & FLAG_HERE) {
		n_order = 0;
		place_here(&order, kind);
	} else {
		memcpy(&order, data + 2, n_order);
	}
	data += 2 + n_order;
	size -= 2 + n_order;
	if (flags & FLAG_HERE)
		n_order = sizeof(order);
	if (flags & FLAG_OF_BODY)
		name_as_body(&order, data, size);
	if (flags & FLAG_DIGEST)
		order_digest(data, size, order.digest);
	judge((enum order_kind)kind, &order, n_order, data, size);
	return 0;
}
