/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The claim server as a process: owns the event loop, the store, the state and the listeners. Wiring only. */

#include "config.h"

#include "base/error.h"

struct server;

/** Open the store, load the state, listen; on etcd listen, and do the rest when it leads. @config is copied.
 * @ret owned by the caller, server_free(). */
enum status server_new(const struct config *config, struct server **ret, struct error *err);

/** Run until SIGTERM or SIGINT (STATUS_OK), until the store broke (its error), or until another one leads. */
enum status server_run(struct server *server, struct error *err);

void server_free(struct server *server);
