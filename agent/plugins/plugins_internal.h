/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Between the files that are plugins.h: what stands there (plugins.c), what is waited for (waits.c), what
 * allocations promised (expect.c). For those only. */

#include "plugins/entry.h"
#include "plugins/plugin_dir.h"
#include "plugins/plugins.h"

#include <sys/queue.h>

enum {
	PLUGIN_WAITS_MAX = 1024,
	PLUGIN_EXPECTATIONS_MAX = 64,
};

struct expectation {
	TAILQ_ENTRY(expectation) entry;
	struct plugins *plugins;
	struct plugin_expectation is; /* socket filled in */
	sd_event_source *timer;
	bool is_over; /* told */
	/* before the allocation it was the host's, which gets it back, whoever has bound it anew meanwhile */
	bool is_lent;
};

struct plugins {
	sd_event *event; /* borrowed */
	struct plugins_options options;
	const struct plugins_handlers *handlers;
	void *userdata;
	struct plugin_dir *dir;
	bool is_scanned; /* what stands in the folder is known */
	bool is_full;	 /* and told */
	bool has_news;	 /* an entry was dropped */
	struct plugin_entry *entries[PLUGINS_MAX];
	size_t n_entries;
	TAILQ_HEAD(, plugin_wait) waits;
	size_t n_waits;
	TAILQ_HEAD(, expectation) expectations;
	size_t n_expectations;
	sd_event_source *settle; /* from the event loop, after something has changed */
	sd_event_source *later;	 /* the same, for news that had to wait */
};

/** NULL: not known. */
struct plugin_entry *plugins_entry(const struct plugins *plugins, const char *plugin_id);

/** The entry, made if there is none. */
enum status plugins_add(struct plugins *plugins, const char *plugin_id, struct plugin_entry **ret,
			struct error *err);

/** Why a plugin without sockets is not healthy. */
const char *plugins_reason(const struct plugins *plugins);

/** Look at everything anew, from the event loop. */
void plugins_settle_soon(struct plugins *plugins);

/** Ask for the socket at @name of @plugin_id: whose is it? NULL: the host's. */
const struct plugin_expectation *plugins_owner(const struct plugins *plugins, const char *plugin_id,
					       const char *name);
/** Does the host only lend it to an allocation? */
bool plugins_is_lent(const struct plugins *plugins, const char *plugin_id);
bool plugins_is_expected(const struct plugins *plugins, const char *plugin_id);

/** Tell of expectations that are met. */
void plugins_meet(struct plugins *plugins);

/** Wake who can go on. */
void plugins_wake(struct plugins *plugins);

void plugins_drop_waits(struct plugins *plugins);
void plugins_drop_expectations(struct plugins *plugins);
