/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The codes of machines, by the ticket key: what the server shows instead of them. A thief of a node's
 * certificate who reads one does not learn which machine to imitate. They have the form of machines, and
 * differ as machines do. Another file ticket.key makes other codes. */

#include "model/node.h"

#include <stdbool.h>

struct server;

/** Returns @ret, the code of @machine as the node @node_id; empty for an empty one. */
const char *machine_code(struct server *server, const char *node_id, const char *machine,
			 char ret[static NODE_MACHINE_MAX + 1]);

/** The same for a list with blanks between. */
const char *machine_code_list(struct server *server, const char *node_id, const char *machines,
			      char ret[static NODE_REFUSED_SIZE]);

/** Replaces such a list, a field of a message on the heap, by its codes. False when memory is short. */
bool machine_code_show(struct server *server, const char *node_id, char **field);

/** Finds the machine of @list that has the code. */
bool machine_code_find(struct server *server, const char *node_id, const char *list, const char *code,
		       char ret[static NODE_MACHINE_MAX + 1]);
