/* SPDX-License-Identifier: Apache-2.0 */
/* Machines that gave up the name of their node before they reported. */

#include "recovery/replaced.h"

#include "server.h"

#include "base/str.h"
#include "state/keys.h"
#include "state/records.h"

#include <holdfast/v1/types.pb-c.h>

void replaced_add(struct change *change, const char *node_id, const char *machine)
{
	Holdfast__V1__ReplacedMachine replaced = HOLDFAST__V1__REPLACED_MACHINE__INIT;
	char key[OBJECT_KEY_SIZE];

	(void)str_format(key, sizeof(key), PREFIX_REPLACED "%s/%s", node_id, machine);
	replaced.node_id = (char *)(uintptr_t)node_id; /* only read, as the next one */
	replaced.machine = (char *)(uintptr_t)machine;
	change_put_record(change, key, &replaced.base);
}

/* Returns the first record of the present machine of @node, or the one behind @entry. Its digest may have
 * become longer since. */
static struct record_entry *next_of(struct server *server, const struct node *node,
				    struct record_entry *entry)
{
	while ((entry = replaced_next(server, entry))) {
		const Holdfast__V1__ReplacedMachine *replaced = (const void *)entry->record.message;

		if (str_eq(replaced->node_id, node->id) &&
		    node_machine_shows(replaced->machine, node->machine))
			return entry;
	}
	return NULL;
}

bool replaced_is_due(struct server *server, const struct node *node)
{
	return next_of(server, node, NULL) != NULL;
}

void replaced_end(struct server *server, struct change *change, const struct node *node)
{
	struct record_entry *entry = NULL;

	while ((entry = next_of(server, node, entry)))
		change_delete_record(change, entry->key);
}

struct record_entry *replaced_next(struct server *server, struct record_entry *entry)
{
	entry = entry ? records_next(entry) : records_from(&server->state.records, PREFIX_REPLACED);
	return entry && str_starts_with(entry->key, PREFIX_REPLACED) ? entry : NULL;
}

void replaced_forget(struct server *server, struct change *change)
{
	struct record_entry *entry = NULL;

	while (change->n < CHANGE_OBJECTS_MAX / 2 && (entry = replaced_next(server, entry)))
		change_delete_record(change, entry->key);
}

struct record_entry *replaced_next_of(struct server *server, const char *node_id, struct record_entry *entry)
{
	char prefix[OBJECT_KEY_SIZE];

	(void)str_format(prefix, sizeof(prefix), PREFIX_REPLACED "%s/", node_id);
	entry = entry ? records_next(entry) : records_from(&server->state.records, prefix);
	return entry && str_starts_with(entry->key, prefix) ? entry : NULL;
}

const char *replaced_machine(const struct record_entry *entry)
{
	return ((const Holdfast__V1__ReplacedMachine *)(const void *)entry->record.message)->machine;
}

uint64_t replaced_count(struct server *server)
{
	struct record_entry *entry = NULL;
	uint64_t n = 0;

	while ((entry = replaced_next(server, entry)))
		n++;
	return n;
}
