#pragma once
/* Specification files to messages: a table per kind of block says which keys exist and which fields they
 * fill. */

#include "conf/conf.h"

#include <holdfast/v1/types.pb-c.h>

/** Mistakes are STATUS_INVALID_ARGUMENT with file and line: unknown keys, values of the wrong kind, words
 * that do not exist, what Nomad has and we do not.
 * @ret owned by the caller, protobuf_c_message_free_unpacked() */
enum status spec_volume(const struct conf *conf, Holdfast__V1__Volume **ret, struct error *err);
enum status spec_alloc(const struct conf *conf, Holdfast__V1__Allocation **ret, struct error *err);
