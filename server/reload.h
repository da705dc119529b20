/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What changes on SIGHUP while the server runs: its certificates, and those settings that nothing was built
 * upon. Each file is told apart: a broken one is named and what was read from it before stays. */

struct server;

void server_reload(struct server *server);
