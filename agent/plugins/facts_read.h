/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Asks a plugin for its facts, one call after the other: who it is, what it announces, and then what of that
 * it serves. A service that is not announced is not called, but for the node service, which CSI does not
 * announce: a plugin that answers UNIMPLEMENTED has none. */

#include "base/error.h"
#include "csi/csi_client.h"
#include "plugins/facts.h"

/** @facts borrowed; NULL when @err says why there are none, with plugin and call. */
typedef void facts_done_fn(const struct node_plugin *facts, const struct error *err, void *userdata);

struct facts_read {
	struct csi_client *client; /* borrowed */
	struct facts_wanted wanted;
	struct node_plugin facts; /* so far */
	bool has_controller;	  /* announced */
	unsigned int step;
	struct csi_call *call; /* NULL: nothing is under way */
	facts_done_fn *done;
	void *userdata;
};

/** Begin; @done runs once, from the event loop, unless facts_read_cancel() comes first or this fails.
 * @read where it is kept, not in use */
enum status facts_read_start(struct facts_read *read, struct csi_client *client, const char *plugin_id,
			     const struct facts_wanted *wanted, facts_done_fn *done, void *userdata,
			     struct error *err);

/** Harmless when nothing is under way. */
void facts_read_cancel(struct facts_read *read);
