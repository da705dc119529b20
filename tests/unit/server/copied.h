/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A copy of what a server knows, as one that follows keeps it: loaded once, then kept up with by what the
 * server has stored, record by record. At the end it has to be what loading the store would give. */

struct copied;
struct server;

/** From now on; before anything changes. Owned, copied_check(). */
struct copied *copied_begin(struct server *server);

/** Let what is being stored be stored, and compare; nothing is compared when the store is broken. */
void copied_check(struct copied *copied);
