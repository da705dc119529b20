/* SPDX-License-Identifier: Apache-2.0 */
/* Machines that gave up the name of their node before they reported. */

#include "recovery/replaced.h"

#include "server.h"

#include "base/str.h"
#include "state/keys.h"
#include "state/records.h"

#include <holdfast/v1/types.pb-c.h>

static char *key_of(const struct node *node, char ret[static OBJECT_KEY_SIZE])
{
	(void)str_format(ret, OBJECT_KEY_SIZE, PREFIX_REPLACED "%s/%s", node->id, node->machine);
	return ret;
}

void replaced_add(struct change *change, const struct node *node)
{
	Holdfast__V1__ReplacedMachine replaced = HOLDFAST__V1__REPLACED_MACHINE__INIT;
	char key[OBJECT_KEY_SIZE];

	replaced.node_id = (char *)(uintptr_t)node->id; /* only read, as the next one */
	replaced.machine = (char *)(uintptr_t)node->machine;
	change_put_record(change, key_of(node, key), &replaced.base);
}

bool replaced_is_due(struct server *server, const struct node *node)
{
	char key[OBJECT_KEY_SIZE];

	return records_get(&server->state.records, key_of(node, key)) != NULL;
}

void replaced_end(struct server *server, struct change *change, const struct node *node)
{
	char key[OBJECT_KEY_SIZE];

	if (replaced_is_due(server, node))
		change_delete_record(change, key_of(node, key));
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

bool replaced_has(struct server *server, const char *node_id)
{
	struct record_entry *entry;
	char prefix[OBJECT_KEY_SIZE];

	(void)str_format(prefix, sizeof(prefix), PREFIX_REPLACED "%s/", node_id);
	entry = records_from(&server->state.records, prefix);
	return entry && str_starts_with(entry->key, prefix);
}

uint64_t replaced_count(struct server *server)
{
	struct record_entry *entry = NULL;
	uint64_t n = 0;

	while ((entry = replaced_next(server, entry)))
		n++;
	return n;
}
