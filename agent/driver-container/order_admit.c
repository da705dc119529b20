/* SPDX-License-Identifier: Apache-2.0 */
#include "order_admit.h"

#include "driver.h"
#include "policy.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/str.h"
#include "log/log.h"
#include "model/order.h"

#include <string.h>
#include <sys/stat.h>

enum { FAULT_MAX = 96 };

static void begin_record(struct keyline *record, const struct order *order)
{
	char alloc[2 * ORDER_UUID_SIZE + 1];
	char nonce[2 * ORDER_NONCE_SIZE + 1];

	hex_encode(alloc, order->alloc, sizeof(order->alloc));
	hex_encode(nonce, order->nonce, sizeof(order->nonce));
	keyline_words(record, "op", order_kind_name(order->kind), "alloc", alloc, "task", order->task,
		      "order", nonce, "who", order->who);
	keyline_sha256(record, "digest", order->digest, sizeof(order->digest));
}

/* Adds a difference to the record. Shortens the values, which may come from the engine, to fit a line. */
static void add_fault(struct keyline *record, const struct readback_fault *fault, bool is_removed)
{
	char value[FAULT_MAX + 1];

	keyline_words(record, "field", fault->field);
	str_copy_text(value, sizeof(value), fault->ordered);
	keyline_words(record, "ordered", value);
	str_copy_text(value, sizeof(value), fault->found);
	keyline_words(record, "found", value, "removed", is_removed ? "1" : "0");
}

static enum status refuse(struct driver *driver, const struct taken *taken, const char *reason,
			  const struct readback_fault *fault, bool is_removed, struct error *why)
{
	struct keyline record = KEYLINE_INIT;
	uint64_t skipped = 0;
	struct error err;

	driver->orders.refused++;
	if (!fault && !trail_has_room(driver->trail, clock_monotonic_us(), &skipped))
		return why->status;
	begin_record(&record, &taken->order);
	if (skipped > 0)
		keyline_number(&record, "skipped", skipped);
	keyline_words(&record, "res", "refused", "reason", reason, "code", status_name(why->status));
	if (fault)
		add_fault(&record, fault, is_removed);
	if (trail_write(driver->trail, &record, &err) != STATUS_OK)
		log_ctx(LOG_ERR, &(struct log_ctx){.err = &err}, "cannot record a refusal");
	log_line(LOG_WARNING, "%s", why->msg);
	return why->status;
}

enum status driver_refuse(struct driver *driver, const struct taken *taken, const char *reason,
			  struct error *why)
{
	return refuse(driver, taken, reason, NULL, false, why);
}

enum status driver_refuse_made(struct driver *driver, const struct taken *taken,
			       const struct readback_fault *fault, bool is_removed, struct error *why)
{
	return refuse(driver, taken, "made", fault, is_removed, why);
}

static enum status take_order(struct driver *driver, enum order_kind kind, bool is_restart,
			      const ProtobufCBinaryData *order, const ProtobufCBinaryData *body,
			      struct taken *ret, struct error *err)
{
	struct order_place place = {.settings = driver->settings,
				    .nonces = driver->nonces,
				    .now_ms = clock_realtime_ms(),
				    .is_restart = is_restart};
	enum status status;

	memcpy(place.boot_id, driver->boot_id, sizeof(place.boot_id));
	status = order_check(&place, kind, order, body, ret, err);
	if (status == STATUS_OK)
		return status;
	if (ret->order.magic == 0) /* could not be read: that much is known */
		ret->order.kind = (uint8_t)kind;
	return driver_refuse(driver, ret, ret->reason, err);
}

enum status driver_take_order(struct driver *driver, enum order_kind kind, const ProtobufCBinaryData *order,
			      const ProtobufCBinaryData *body, struct taken *ret, struct error *err)
{
	return take_order(driver, kind, false, order, body, ret, err);
}

enum status driver_take_restart(struct driver *driver, const ProtobufCBinaryData *order,
				const ProtobufCBinaryData *body, struct taken *ret, struct error *err)
{
	return take_order(driver, ORDER_START, true, order, body, ret, err);
}

enum status driver_use_order(struct driver *driver, const struct taken *taken, bool is_restart,
			     struct error *err)
{
	struct keyline record = KEYLINE_INIT;

	if (taken->use != NONCE_NEW &&
	    !trail_has_room_again(driver->trail, taken->order.alloc, clock_monotonic_us()))
		return error_set(
			err, STATUS_RESOURCE_EXHAUSTED, 0,
			"the orders of this allocation were shown too often; see holdfast alloc status for "
			"its tasks");
	begin_record(&record, &taken->order);
	keyline_words(&record, "phase", "intent", "again", taken->use == NONCE_NEW ? "0" : "1");
	if (is_restart)
		keyline_words(&record, "restart", "1");
	TRY(trail_write(driver->trail, &record, err));
	if (taken->use == NONCE_NEW)
		TRY(nonces_begin(driver->nonces, &taken->order, clock_realtime_ms(), err));
	driver->orders.used++;
	return STATUS_OK;
}

void driver_note_end(struct driver *driver, const struct order *order, enum status status, bool is_compared)
{
	struct keyline record = KEYLINE_INIT;
	struct error err;

	driver->orders.failed += status != STATUS_OK;
	begin_record(&record, order);
	keyline_words(&record, "phase", "result", "res", status == STATUS_OK ? "success" : "failed", "code",
		      status_name(status));
	if (status == STATUS_OK && order->kind != ORDER_EXEC)
		keyline_words(&record, "compared", is_compared ? "1" : "0");
	if (trail_write(driver->trail, &record, &err) != STATUS_OK)
		log_ctx(LOG_ERR, &(struct log_ctx){.err = &err}, "the end of an order is not on record");
}

/* Uid 0 is the host's own, and `users` in root's file decides about it. Engines give gid 0 to a user of no
 * group. */
static void add_account(struct readback_users *users, uid_t uid, gid_t gid)
{
	if (uid != 0)
		users->never[users->n++] = uid;
	if (gid != 0)
		users->never_groups[users->n_groups++] = gid;
}

static void add_owner(struct readback_users *users, const char *path)
{
	struct stat st;

	if (stat(path, &st) == 0)
		add_account(users, st.st_uid, st.st_gid);
}

struct readback_users driver_users(const struct driver *driver)
{
	struct readback_users users = {.is_root_named = policy_names_root(driver->settings)};

	add_account(&users, driver->agent_uid, driver->agent_gid);
	add_account(&users, getuid(), getgid());
	add_owner(&users, driver->settings->publish_dir);
	add_owner(&users, driver->settings->stage_dir);
	add_owner(&users, driver->settings->engine_socket); /* who reaches it is root */
	return users;
}

/* Whom a name means shows when a task runs. */
static bool is_number_of(const uint32_t *never, size_t n, const char *text)
{
	uint32_t id;

	if (parse_u32(text, 0, UINT32_MAX, &id) < 0)
		return false;
	for (size_t i = 0; i < n; i++)
		if (id == never[i])
			return true;
	return false;
}

enum status driver_check_user(const struct driver *driver, const char *user, const char **ret_reason,
			      struct error *err)
{
	struct readback_users users = driver_users(driver);
	const char *group = strchr(user, ':');
	char name[64];

	if (str_format(name, sizeof(name), "%.*s", (int)strcspn(user, ":"), user) >= 0 &&
	    !is_number_of(users.never, users.n, name) &&
	    !(group && is_number_of(users.never_groups, users.n_groups, group + 1)))
		return STATUS_OK;
	*ret_reason = "users";
	return error_set(
		err, STATUS_PERMISSION_DENIED, 0,
		"user %s is, or has the group of, the account of the agent, of the driver, or of the "
		"owner of the mount helper's folders or the engine's socket, which no task may have",
		user);
}
