/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Calls to the controller of a CSI plugin, through the session of a node that runs it.
 *
 * Calls are spread over the plugin's healthy controllers on connected nodes by volume: those about one
 * volume go to one controller as long as it is healthy, lists too. Another one is asked only when the node
 * reports that the plugin is not there. At most one attach, detach, expand, delete, create snapshot or
 * delete snapshot is in flight per plugin; the others wait. Create, validate and lists run side by side.
 * Among those that wait, namespaces take turns; those of one namespace keep their order. Source: nomad-facts
 * 3 (controller selection, serialization). */

#include "base/error.h"

#include <holdfast/v1/plugin_call.pb-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct claim;
struct server;
struct session;
struct plugin_entry;
struct plugin_instance;
struct controllers;

enum {
	CONTROLLER_QUEUE_MAX = 1024, /* calls that wait, calls side by side, and lists, per plugin */
	CONTROLLER_QUEUE_KEPT_FREE =
		CONTROLLER_QUEUE_MAX / 4, /* of these, for namespaces with fewer waiting */
	/* Creations, confirmations and lists in flight, per plugin: below the calls that an agent has in
	 * flight to one plugin, so that an attach and what a node mounts find room there. */
	CONTROLLER_SIDE_MAX = 12,
	CONTROLLER_REPORTED_MAX = 16, /* calls of one reporter that wait, per plugin */
	CONTROLLER_CALL_BYTES_MAX = 256 * 1024,
};

/** Called once from the event loop, never inside controller_call(). @reply is borrowed, with the response of
 * the request's kind; NULL if @err is set:
 * - STATUS_UNAVAILABLE no controller to ask, or its node went away before it was sent (nothing was called);
 * - STATUS_DEADLINE_EXCEEDED, STATUS_UNKNOWN the plugin may or may not have done it (no answer in time; the
 *   session ended in between; an answer to something else);
 * - STATUS_ABORTED it was no longer wanted (nothing was called);
 * - STATUS_CANCELLED the server ends, with everything still in place;
 * - else the plugin's own code and message, with its name and the call's (which may be one of these, too). */
typedef void controller_done_fn(struct server *server, const Holdfast__V1__PluginReply *reply,
				const struct error *err, void *userdata);

/** May a queued call still go out? Asked when it is scheduled; false drops it with STATUS_ABORTED. */
typedef bool controller_wanted_fn(struct server *server, void *userdata);

struct controller_call {
	const char *plugin_id;
	const Holdfast__V1__PluginCall *call; /* request set; copied. call_id and timeout_ms are filled in */
	const char *namespace; /* for which it counts, see access_sharer(); NULL: the server by itself */
	const char *reporter;  /* the claim is known only from this node's report; or NULL */
	const char *node_id;   /* NULL: any controller; else the node service of this node */
	bool is_of_controller; /* of node_id: its controller, not its node service */
	uint64_t timeout_us;   /* 0: controller_timeout of the settings */
	controller_wanted_fn *wanted; /* NULL: always */
	controller_done_fn *done;
	void *userdata;
};

/** Makes the call. On failure @done is not called: STATUS_NOT_FOUND no such plugin, STATUS_UNAVAILABLE it has
 * no healthy controller on a connected node, STATUS_RESOURCE_EXHAUSTED too many wait,
 * STATUS_INVALID_ARGUMENT it is too large. */
enum status controller_call(struct server *server, const struct controller_call *call, struct error *err);

/** The next node after @after in the order of ids, "" for the first, whose controller can be asked now; NULL:
 * it was the last. Borrowed until the next fingerprint. */
const struct plugin_instance *controller_after(struct plugin_entry *plugin, const char *after);

/** Returns the capabilities of the plugin's healthy controllers, from the first by node id; NULL if there
 * is no healthy one. Borrowed until the next fingerprint. */
const struct controller_half *controller_capabilities(struct plugin_entry *plugin);

/* A call in flight. */
struct controller_asked {
	const char *method;  /* "ControllerUnpublishVolume" */
	const char *node_id; /* borrowed; of the controller */
	uint64_t for_us;
};

/** Is an attach or detach of @claim in flight? One that waits in the queue is not. Costs the number of calls
 * in flight. */
bool controller_is_asked(struct server *server, const struct claim *claim, struct controller_asked *ret);

struct controller_stats {
	uint64_t calls;	  /* sent, a repeat to another node counted again */
	uint64_t failed;  /* ended without a response */
	uint64_t strays;  /* answers that nothing waited for: late, repeated, made up */
	size_t waiting;	  /* in the queue */
	size_t in_flight; /* sent and not answered */
};

void controller_stats(const struct server *server, struct controller_stats *ret);

/* For daemon.c and reports.c. */

enum status controllers_new(struct server *server, struct controllers **ret, struct error *err);

/** Ends every call with STATUS_CANCELLED, and takes no new ones. Must run while all else still exists. */
void controllers_stop(struct controllers *controllers);
void controllers_free(struct controllers *controllers);

/** In a controller_done_fn: was the call cut off because the server ends? Then it must do nothing. */
bool controllers_have_stopped(const struct server *server);

/** Handles an answer on @session; ignores one without a request there. */
void controllers_take_reply(struct session *session, const Holdfast__V1__PluginReply *reply);

/** @session ends: the result of calls in flight there is unknown. */
void controllers_session_lost(struct session *session);
