/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Secrets come from files alone: arguments are in everybody's process list, and errors never quote a value.
 */

#include "base/error.h"

#include <jansson.h>

enum { SECRETS_MAX = 64 };

/** Read a file of `key = "value"` lines, or a JSON object of texts.
 * @ret an object of texts; owned by the caller, json_decref() */
enum status secrets_load(const char *path, json_t **ret, struct error *err);
