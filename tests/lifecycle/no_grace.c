/* SPDX-License-Identifier: Apache-2.0 */
#include "node/lookup.h"

/* A new leader makes another boot of a node wait for a minute. The time of these programs is real, and their
 * nodes reboot at once. */
enum status __wrap_nodes_check_boot(const struct server *server, const struct node_entry *node,
				    const char *boot_id, struct error *err);
enum status __wrap_nodes_check_boot(const struct server *server, const struct node_entry *node,
				    const char *boot_id, struct error *err)
{
	return STATUS_OK;
}
