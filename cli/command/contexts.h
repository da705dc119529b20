/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Contexts: names for a server and how it is reached, in a file of the user. The file holds addresses and
 * paths, and nothing secret: keys and tokens stay in their own files. */

#include "command/command.h"

#include <jansson.h>

/** The options that a context holds. */
extern const option_set context_options;

/** The name of option @id in the file: token_file for --token-file. */
const char *context_key(enum option_id id, char ret[static 32]);

/** The file as it is: {"current": NAME, "contexts": {NAME: {KEY: TEXT}}}; both are there, also without a
 * file. A file that other users own or may change is STATUS_PERMISSION_DENIED.
 * @ret owned by the caller, json_decref() */
enum status contexts_load(json_t **ret, struct error *err);

/** Replace the file, and make its folder. */
enum status contexts_save(const json_t *contexts, struct error *err);

/** The context @name of @contexts, borrowed; STATUS_NOT_FOUND names those that exist. */
enum status context_find(json_t *contexts, const char *name, json_t **ret, struct error *err);

/** Give @inv the options of its context, as far as it lacks them: of the one that --context or
 * HOLDFAST_CONTEXT names, else of the current one if neither options nor variables name a server. Does
 * nothing the second time. */
enum status context_apply(struct invocation *inv, struct error *err);
