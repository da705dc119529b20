/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What changes on SIGHUP while the server runs: its certificates, and those settings that nothing was built
 * upon. Each file is told apart: a broken one is named and what was read from it before stays. */

#include "base/error.h"

struct server;

void server_reload(struct server *server);

/** Have certificates that are replaced loaded within seconds, without SIGHUP. */
enum status server_reload_watch(struct server *server, struct error *err);
