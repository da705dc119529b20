/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The CSI plugins of this node: finds, probes and fingerprints them, and finds them again after a restart.
 *
 * A plugin is a socket `<plugin_dir>/<plugin id>/<anything>.sock` (host-managed: a unit, a container), or the
 * one that an allocation with a csi_plugin block runs. Several instances of one id may exist during an
 * upgrade: the newest healthy one is used, and the end of an older one changes nothing.
 *
 * Facts of a plugin (provider, capabilities, the provider's node id) outlive its instances and the agent: a
 * plugin that was here and does not answer is reported as not healthy, with the reason, until its folder or
 * allocation is gone. */

#include "base/error.h"
#include "csi/csi_client.h"
#include "model/node.h"
#include "plugins/plugin_info.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <systemd/sd-event.h>

struct plugins;
struct plugin_wait;

/* The expected properties of a plugin that an allocation runs. */
struct plugin_expectation {
	char plugin_id[PLUGIN_ID_MAX + 1];
	char alloc_id[UUID_TEXT_SIZE];
	char socket[64]; /* file name in <plugin_dir>/<plugin_id>; empty: csi.sock */
	bool has_controller;
	bool has_node;
	uint64_t health_timeout_us; /* 0: the default */
};

/* All from the event loop, never inside a function of this header. */
struct plugins_handlers {
	/* the result of plugins_fingerprint() has changed */
	void (*on_change)(void *userdata);
	/* stores @facts of one plugin for plugins_restore(); NULL: removes those of @plugin_id */
	void (*on_store)(const char *plugin_id, const struct node_plugin *facts, void *userdata);
	/* a plugin of an allocation became healthy (@err NULL), or did not in time */
	void (*on_expected)(const char *alloc_id, const char *plugin_id, const struct error *err,
			    void *userdata);
};

/** @event, @handlers borrowed. @ret owned by the caller, plugins_free() */
enum status plugins_new(sd_event *event, const struct plugins_options *options,
			const struct plugins_handlers *handlers, void *userdata, struct plugins **ret,
			struct error *err);

/** Facts from before a restart: the plugin is known, and not healthy until it has answered. Before
 * plugins_start(). */
enum status plugins_restore(struct plugins *plugins, const struct node_plugin *facts, struct error *err);

/** Is its folder not there, or not to be read? Not known before it was looked at. */
bool plugins_lack_folder(const struct plugins *plugins);

/** Look at the folder, and watch it. One that is not there yet is waited for. */
enum status plugins_start(struct plugins *plugins, struct error *err);

/** Calls in flight end with STATUS_UNAVAILABLE, waits with STATUS_CANCELLED, before this returns. No other
 * callbacks. NULL is allowed. */
void plugins_free(struct plugins *plugins);

/** An allocation, which may run several, runs this plugin now. STATUS_ALREADY_EXISTS when another allocation
 * runs it from the same socket. */
enum status plugins_expect(struct plugins *plugins, const struct plugin_expectation *expectation,
			   struct error *err);

/** Forgets the allocation's plugins; their sockets have no owner as long as they exist. */
void plugins_forget(struct plugins *plugins, const char *alloc_id);

/** Entries of the node's fingerprint, one per plugin id, at most @max. Returns how many. */
size_t plugins_fingerprint(const struct plugins *plugins, struct node_plugin *ret, size_t max);

/** The facts of a plugin as last known, healthy or not; NULL when it was never here. Borrowed until the event
 * loop runs again. */
const struct node_plugin *plugins_facts(const struct plugins *plugins, const char *plugin_id);

/** Parameters and secrets of its fence service, NULL: the settings have no block for it. */
const struct fence_args *plugins_fence_args(const struct plugins *plugins, const char *plugin_id);

/** Whom to call now. STATUS_NOT_FOUND when the plugin, or this half of it, is not here; STATUS_UNAVAILABLE
 * when it is not healthy, with the reason. @ret borrowed until the event loop runs again: look it up for each
 * call. */
enum status plugins_client(const struct plugins *plugins, const char *plugin_id, enum plugin_half half,
			   struct service_client **ret, struct error *err);

/** @err NULL: plugins_client() finds it now. */
typedef void plugin_ready_fn(const struct error *err, void *userdata);

/** Wait until the plugin can be called, at most @timeout_us. @done runs once, from the event loop, also when
 * it can be called at once. @ret for plugin_wait_cancel(), until @done ran */
enum status plugins_wait(struct plugins *plugins, const char *plugin_id, enum plugin_half half,
			 uint64_t timeout_us, plugin_ready_fn *done, void *userdata, struct plugin_wait **ret,
			 struct error *err);

/** @done does not run. NULL is allowed. */
void plugin_wait_cancel(struct plugin_wait *wait);

/** At most @max; returns how many. */
size_t plugins_instances(const struct plugins *plugins, struct plugin_instance_info *ret, size_t max);
