/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The records of a freed claim, see freed.h: their keys and values. */

#include "base/error.h"
#include "model/claim.h"
#include "state/objects.h"

#include <holdfast/v1/types.pb-c.h>

struct kv;
struct kv_item;

enum { FREED_KEYS = 3 }; /* of each claim; under the first one it is whole */

void freed_keys(const Holdfast__V1__Claim *claim, char ret[static FREED_KEYS][OBJECT_KEY_SIZE]);

/** Returns the value of the keys that lead to the claim. */
Holdfast__V1__Claim freed_reference(const Holdfast__V1__Claim *claim);

/** Reads the value of any of the keys. STATUS_DATA_LOSS names the record that cannot be read. */
enum status freed_read(const struct kv_item *item, struct claim *ret, struct error *err);

/** Can every record be read? Checks a copy before it is restored. */
enum status freed_check(struct kv *kv, struct error *err);
