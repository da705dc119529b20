/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Between controller.c, controller_choice.c and controller_queue.c. */

#include "base/tree.h"
#include "plugin/controller.h"
#include "state/state.h"

#include <sys/queue.h>
#include <systemd/sd-event.h>

TAILQ_HEAD(plugin_jobs, plugin_job);

/* The calls to one plugin; gone with the last one. */
struct plugin_queue {
	char plugin_id[PLUGIN_ID_MAX + 1];
	RB_ENTRY(plugin_queue) by_plugin;
	struct plugin_jobs waiting; /* serial ones, for their turn */
	size_t n_waiting;
	size_t n_side; /* those that do not wait */
	bool is_taken; /* a serial one has its turn */
};
RB_HEAD(plugin_queues, plugin_queue);

/* A call from controller_call() to its end. */
struct plugin_job {
	struct controllers *controllers;
	struct plugin_queue *queue;
	Holdfast__V1__PluginCall *call; /* owned */
	bool is_serial;
	bool is_directed;	       /* to the node service of node_id, else to any controller */
	char node_id[NODE_ID_MAX + 1]; /* that was asked last, or is to be; empty: none yet */
	struct session *session;       /* that it went down; NULL: it waits */
	LIST_ENTRY(plugin_job) of_session;
	LIST_ENTRY(plugin_job) of_sent;
	TAILQ_ENTRY(plugin_job) waiting; /* for its turn, or to be sent */
	uint64_t deadline_us;		 /* monotonic; 0: not sent yet */
	sd_event_source *timer;		 /* owned */
	controller_wanted_fn *wanted;
	controller_done_fn *done;
	void *userdata;
};

struct controllers {
	struct server *server; /* borrowed */
	struct plugin_queues queues;
	struct plugin_jobs ready; /* whose turn it is */
	LIST_HEAD(, plugin_job) sent;
	sd_event_source *send_soon; /* owned; on while something is ready */
	struct controller_stats stats;
	bool has_stopped;
};

/** The first controller that can be asked, of nodes behind @after; NULL: there is none. Costs the number of
 * controllers that cannot be. */
struct instance_entry *controller_find(struct plugin_entry *plugin, const char *after);

/** The session of @node_id, whose node service of the plugin is wanted, or NULL. */
struct session *controller_find_node_service(struct server *server, const char *plugin_id,
					     const char *node_id);

/** Where @job can go now; NULL: nowhere. Another controller than the last one that it was sent to. */
struct session *controller_choose_session(struct plugin_job *job);

/** Why there is nobody to ask. @job as far as it has come, or NULL. Returns STATUS_UNAVAILABLE. */
enum status controller_none(const struct plugin_job *job, const char *plugin_id, struct error *err);

/** NULL when memory is short. */
struct plugin_queue *plugin_queue_or_new(struct controllers *controllers, const char *plugin_id);

void plugin_queue_drop_idle(struct controllers *controllers, struct plugin_queue *queue);

/** STATUS_RESOURCE_EXHAUSTED when CONTROLLER_QUEUE_MAX calls wait in it. */
enum status plugin_queue_check_room(const struct plugin_queue *queue, bool is_serial, struct error *err);

/** @job is ready when its turn comes: soon, when it need not wait. */
void plugin_queue_add(struct plugin_queue *queue, struct plugin_job *job);

/** @job, which had its turn, has it no more: the next one's comes. */
void plugin_queue_leave(struct plugin_queue *queue, const struct plugin_job *job);

/** How many calls wait for their turn. */
size_t plugin_queues_waiting(struct controllers *controllers);
