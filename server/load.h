/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Filling the state from the store: all of it when this server leads, or record by record for a copy while
 * another one does. */

#include "base/error.h"
#include "store/kv.h"

struct state;

/** Returns the prefixes of the loaded keys, in the order of loading; NULL at the end. */
const char *load_prefix(size_t i);

/** All records, into an empty @state. STATUS_DATA_LOSS names the record that cannot be read or that points
 * nowhere. */
enum status load_state(struct kv *kv, struct state *state, struct error *err);

/** Applies a change of one record, after those that load_prefix() has before it: @item, which has no value
 * if it was deleted. STATUS_OK for keys that are not loaded. STATUS_ABORTED if the state must be loaded
 * again, STATUS_DATA_LOSS as above. */
enum status load_record(struct state *state, const struct kv_item *item, struct error *err);
