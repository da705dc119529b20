/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The reload on SIGHUP while the server runs: its certificates, and settings that can change at run time.
 * A broken file is named, and its previous contents stay in use; the other files are reloaded. */

#include "base/error.h"

struct server;

void server_reload(struct server *server);

/** Have certificates that are replaced loaded within seconds, without SIGHUP. */
enum status server_reload_watch(struct server *server, struct error *err);
