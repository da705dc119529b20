/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Between state.c and the state_*.c of each kind of entry.
 *
 * A look-up by key takes an entry of which only the key is set. */

#include "state/state.h"

/** The entry of a node or plugin that may not have been seen yet; NULL when memory is short. */
struct node_entry *node_or_new(struct state *state, const char *id);
struct plugin_entry *plugin_or_new(struct state *state, const char *id);

/** An entry without a record goes with the last thing that names it; call it after each that may have been.
 */
void node_drop_unnamed(struct state *state, struct node_entry *entry);
void plugin_drop_unnamed(struct state *state, struct plugin_entry *entry);

/** Raise the volume's generation to @generation, unless it is that far. */
void volume_raise_generation(struct volume *volume, uint64_t generation);

/** Count the claim anew among those that are on their way to be freed.
 * @alloc its allocation; NULL: it is not known */
void state_count_release(struct state *state, struct claim_entry *entry, const struct alloc *alloc);

/** What is counted of the instance's plugin has to be counted anew. */
void instance_changed(struct instance_entry *entry);

/** @entry runs @plugin, or does not any more. */
void plugin_add_runner(struct plugin_entry *plugin, struct alloc_entry *entry);
void plugin_remove_runner(struct plugin_entry *plugin, struct alloc_entry *entry);

/** What is counted of the plugin, whose allocation has changed, has to be counted anew. */
void plugin_runner_changed(struct plugin_entry *plugin);

enum status state_no_memory(struct error *err, const char *what);
