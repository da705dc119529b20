/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Filling the state from the store at start-up. */

#include "base/error.h"

struct kv;
struct state;

/** STATUS_DATA_LOSS names the record that cannot be read or that points nowhere. */
enum status load_state(struct kv *kv, struct state *state, struct error *err);
