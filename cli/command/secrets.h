/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Secrets come only from files: every user can read arguments in the process list. Errors never quote a
 * value. */

#include "base/error.h"

#include <jansson.h>

enum { SECRETS_MAX = 64 };

/** Reads a file of `key = "value"` lines, or a JSON object of texts.
 * @fd  of the file; negative: it is opened
 * @ret an object of texts; owned by the caller, json_decref() */
enum status secrets_load(int fd, const char *path, json_t **ret, struct error *err);
