/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Prefixes of ids: which one is meant. */

#include "call/connect.h"

enum { PICK_ID_SIZE = 128 };

struct candidate {
	const char *id;
	const char *namespace; /* shown before the id; NULL: not shown */
};

/** Picks the exact match of @given, else the only candidate that begins with it; several are listed in the
 * error (STATUS_FAILED_PRECONDITION), STATUS_NOT_FOUND if no candidate does.
 * @what "volume"; for messages */
enum status pick(const char *what, const char *given, const struct candidate *candidates, size_t n,
		 size_t *ret_index, struct error *err);

/** Complete an id by asking the server what begins with @given.
 * @namespace NULL for the default one; the one found is written to @ret_namespace */
enum status pick_volume(struct connection *connection, const char *given, const char *namespace,
			char ret_id[static PICK_ID_SIZE], char ret_namespace[static PICK_ID_SIZE],
			struct error *err);
enum status pick_job(struct connection *connection, const char *given, const char *namespace,
		     char ret_id[static PICK_ID_SIZE], char ret_namespace[static PICK_ID_SIZE],
		     struct error *err);
enum status pick_alloc(struct connection *connection, const char *given, char ret_id[static PICK_ID_SIZE],
		       struct error *err);
enum status pick_node(struct connection *connection, const char *given, char ret_id[static PICK_ID_SIZE],
		      struct error *err);
enum status pick_plugin(struct connection *connection, const char *given, char ret_id[static PICK_ID_SIZE],
			struct error *err);

/** Picks a node or plugin, which may be gone while its volumes remain: an unknown name is used as given. */
enum status pick_known_node(struct connection *connection, const char *given,
			    char ret_id[static PICK_ID_SIZE], struct error *err);
enum status pick_known_plugin(struct connection *connection, const char *given,
			      char ret_id[static PICK_ID_SIZE], struct error *err);
