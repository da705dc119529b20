/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The program: what its services share, its start and its end. */

#include "engine.h"
#include "nonces.h"
#include "order_check.h"
#include "readback.h"
#include "settings.h"
#include "trail.h"

#include "base/error.h"
#include "rpc/server.h"

#include <order.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <systemd/sd-event.h>

struct op;
struct session;
struct watcher;

struct driver {
	const struct settings *settings;
	sd_event *event;
	struct engine *engine;
	struct nonces *nonces;
	struct trail *trail;
	struct rpc_server *server;
	uid_t agent_uid;
	uint8_t boot_id[ORDER_UUID_SIZE];
	char boot_text[64]; /* the same, as the kernel says it */
	LIST_HEAD(, op) ops;
	LIST_HEAD(, session) sessions;
	size_t n_sessions;
	size_t n_waits;
	/* the engine's health, as it was found last */
	LIST_HEAD(, watcher) watchers;
	sd_event_source *probe_timer;
	struct engine_call *probe;
	struct engine_call *asked_version;
	uint64_t version_us; /* when the engine is asked again which one it is */
	bool is_nonsense;    /* it does not say it */
	int health;
	char health_text[512];
	char engine_name[64];
	char engine_version[64];
};

/** Run until SIGTERM or SIGINT.
 * @ret_has_started the sockets were open: a failure after it is none of the settings */
enum status driver_run(const struct settings *settings, bool *ret_has_started, struct error *err);

/** Is this ordered? As order_check(); a refusal is put on record. */
enum status driver_take_order(struct driver *driver, enum order_kind kind, const ProtobufCBinaryData *order,
			      const ProtobufCBinaryData *body, struct taken *ret, struct error *err);

/** Put @why, for which an order is refused, on record; returns its status. */
enum status driver_refuse(struct driver *driver, const struct taken *taken, const char *reason,
			  struct error *why);

/** driver_refuse() for what was made otherwise than ordered; @fault goes on record too. */
enum status driver_refuse_made(struct driver *driver, const struct taken *taken,
			       const struct readback_fault *fault, struct error *why);

/** Whose account no task may have: the agent's, the driver's own, and of whom the mount helper's folders
 * are. */
struct readback_users driver_users(const struct driver *driver);
/** STATUS_PERMISSION_DENIED for a number that is one of them. */
enum status driver_check_user(const struct driver *driver, const char *user, const char **ret_reason,
			      struct error *err);

/** Put on record that @taken is carried out, and that it was used; both durable before it returns. */
enum status driver_use_order(struct driver *driver, const struct taken *taken, struct error *err);

/** Put on record how it ended: "success" or the name of @status. */
void driver_note_end(struct driver *driver, const struct order *order, enum status status);

extern const struct rpc_method driver_methods[];
extern const size_t driver_n_methods;

/* Methods, by module: task.c */
void task_start(struct rpc_call *call, const ProtobufCMessage *request, void *userdata);
void task_recover(struct rpc_call *call, const ProtobufCMessage *request, void *userdata);
void task_wait(struct rpc_call *call, const ProtobufCMessage *request, void *userdata);
void task_inspect(struct rpc_call *call, const ProtobufCMessage *request, void *userdata);
void task_signal(struct rpc_call *call, const ProtobufCMessage *request, void *userdata);
void task_stop(struct rpc_call *call, const ProtobufCMessage *request, void *userdata);
void task_destroy(struct rpc_call *call, const ProtobufCMessage *request, void *userdata);
void network_create(struct rpc_call *call, const ProtobufCMessage *request, void *userdata);
void network_destroy(struct rpc_call *call, const ProtobufCMessage *request, void *userdata);
void task_free_all(struct driver *driver);

/** Remove the container of a task (of a network for an empty @task) as DestroyTask does, for no caller:
 * unless it runs. */
void task_clear(struct driver *driver, const char *alloc, const char *task);

/* leftovers.c */
/** Remove the containers that the last boot left: the agent ended their tasks by its records alone, and asks
 * for nothing of them any more. */
void leftovers_clear(struct driver *driver);

/* session.c */
void exec_task(struct rpc_call *call, const ProtobufCMessage *request, void *userdata);
extern const struct rpc_stream_handlers exec_stream;
extern const struct rpc_stream_handlers logs_stream;
extern const struct rpc_stream_handlers stats_stream;

/* fingerprint.c */
extern const struct rpc_stream_handlers fingerprint_stream;
enum status fingerprint_begin(struct driver *driver, struct error *err);
void fingerprint_end(struct driver *driver);
/** Has the engine said which one it is? How it binds depends on it. */
bool fingerprint_knows_engine(const struct driver *driver);
/** @json answer of GET /version */
void fingerprint_read_version(struct driver *driver, const json_t *json);
