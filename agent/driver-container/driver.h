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

struct health;
struct known;
struct op;
struct restarts;
struct scrape;
struct session;
struct strbuf;
struct watcher;

struct driver {
	const struct settings *settings;
	sd_event *event;
	struct engine *engine;
	struct nonces *nonces;
	struct trail *trail;
	struct rpc_server *server;
	uid_t agent_uid;
	gid_t agent_gid;
	uint8_t boot_id[ORDER_UUID_SIZE];
	char boot_text[64];	/* the same as text, from the kernel */
	struct scrape *metrics; /* NULL: off */
	struct {
		uint64_t used, refused, failed;
	} orders; /* since the start */
	LIST_HEAD(, op) ops;
	size_t n_operations;
	LIST_HEAD(, session) sessions;
	size_t n_sessions;
	size_t n_waits, waits_max;
	LIST_HEAD(, restarts) restarts; /* of tasks that were restarted */
	LIST_HEAD(, known) knowns;	/* containers that the engine described */
	LIST_HEAD(, health) healths;	/* of tasks with a check */
	size_t n_checks;		/* that run within their time */
	json_t *leftovers;		/* what an earlier boot left and is not being removed yet; owned */
	unsigned int leftover_pages;
	sd_event_source *leftover_timer; /* NULL: the engine lists them by pages, if there are any */
	size_t n_clears;		 /* removals of leftovers */
	/* the engine's health, as it was found last */
	LIST_HEAD(, watcher) watchers;
	sd_event_source *probe_timer;
	struct engine_call *probe;
	struct engine_call *asked_version;
	uint64_t version_us; /* when the engine is asked again which one it is */
	bool is_nonsense;    /* its answer has no version */
	bool is_away;	     /* it was not asked yet, or did not answer */
	int health;
	char health_text[512];
	char engine_name[64];
	char engine_version[64];
	char old_runc[64];    /* version of an engine's runc that is not fixed; "": another runtime */
	bool has_new_version; /* the watchers did not get it yet */
};

/** Runs until SIGTERM or SIGINT.
 * @ret_has_started the sockets were open: a later failure is not caused by the settings */
enum status driver_run(const struct settings *settings, bool *ret_has_started, struct error *err);

/* WaitTask holds a call and a descriptor for each task of a node. */
enum { DRIVER_WAITS_MAX = 8192, DRIVER_CALLS_BESIDE = 1024 };

/** How many calls may wait if the program may open @n_files: the engine's connections need their share. */
size_t driver_waits_max(size_t n_files);

extern const struct rpc_method driver_methods[];
extern const size_t driver_n_methods;

/* Methods, by module: task.c */
void task_restart(struct rpc_call *call, const ProtobufCMessage *request, void *userdata);
void task_start(struct rpc_call *call, const ProtobufCMessage *request, void *userdata);
void task_recover(struct rpc_call *call, const ProtobufCMessage *request, void *userdata);
void task_wait(struct rpc_call *call, const ProtobufCMessage *request, void *userdata);
void task_wait_gone(struct rpc_call *call, void *userdata);
void task_inspect(struct rpc_call *call, const ProtobufCMessage *request, void *userdata);
void task_signal(struct rpc_call *call, const ProtobufCMessage *request, void *userdata);
void task_stop(struct rpc_call *call, const ProtobufCMessage *request, void *userdata);
void task_destroy(struct rpc_call *call, const ProtobufCMessage *request, void *userdata);
void network_create(struct rpc_call *call, const ProtobufCMessage *request, void *userdata);
void network_destroy(struct rpc_call *call, const ProtobufCMessage *request, void *userdata);
void task_free_all(struct driver *driver);

/** Goes on with starts that the last run of the driver did not compare. */
enum status task_recall_all(struct driver *driver, struct error *err);

/** Remove the container of a task (of a network for an empty @task) as DestroyTask does, for no caller:
 * unless it runs. */
void task_clear(struct driver *driver, const char *alloc, const char *task);

/* leftovers.c */
enum {
	CONTAINERS_PAGE = 32, /* as many as fit an answer if each has the longest labels an image may have */
	CONTAINERS_PAGES_MAX = 1024,
};

/** Asks for a page of the containers of this node, the newest first; the last page is not full.
 * @before the last container of the page before; NULL: the first page; else as container_filters() */
enum status containers_list(struct engine *engine, const struct settings *settings, bool only_at_rest,
			    const char *before, engine_done_fn *done, void *userdata, struct error *err);

/** Removes the containers of the last boot. The agent ended their tasks in its records, and sends no requests
 * for them. */
void leftovers_clear(struct driver *driver);
void leftovers_forget(struct driver *driver);

/* idle.c */
/** Asks the engine whether a container of this node runs, without a driver: STATUS_FAILED_PRECONDITION if so,
 * with the names of the first ones. */
enum status check_idle(const struct settings *settings, struct error *err);

/* session.c */
void exec_task(struct rpc_call *call, const ProtobufCMessage *request, void *userdata);
void exec_task_gone(struct rpc_call *call, void *userdata);
extern const struct rpc_stream_handlers exec_stream;
extern const struct rpc_stream_handlers logs_stream;
extern const struct rpc_stream_handlers stats_stream;

/* metrics.c */
/** Write them for Prometheus. */
void driver_metrics_print(const struct driver *driver, struct strbuf *to);

/* fingerprint.c */
extern const struct rpc_stream_handlers fingerprint_stream;
enum status fingerprint_begin(struct driver *driver, struct error *err);
void fingerprint_end(struct driver *driver);
