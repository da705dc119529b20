/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Machines that gave up the name of their node before they reported, after the server lost history; and those
 * that were the node in the lost time, which their marks prove, and are refused as another machine. The
 * machine that is the node cannot report what they hold: they may hold volumes as a node that has not
 * reported may. One record per node and machine. It ends when the machine is the node again and reports, or
 * when an operator attests that all missing nodes are gone. An attestation about the node and a volume that
 * is given while the record is there covers the machine, too. */

#include "model/node.h"
#include "state/change.h"

#include <stdbool.h>
#include <stdint.h>

struct record_entry;
struct server;

/** Stages that @machine has not reported and does not have the name of its node. */
void replaced_add(struct change *change, const char *node_id, const char *machine);

/** Has the present machine of @node given up the name before, and not reported since? */
bool replaced_is_due(struct server *server, const struct node *node);

/** Stages that the present machine of @node has reported. */
void replaced_end(struct server *server, struct change *change, const struct node *node);

/** Stages that they are gone, at most so many as fit @change. */
void replaced_forget(struct server *server, struct change *change);

/** The first, or the one behind @entry; NULL: no other. Its message is a ReplacedMachine. */
struct record_entry *replaced_next(struct server *server, struct record_entry *entry);

/** The first one, or the one behind @entry, of the machines that gave up the name @node_id and did not
 * report; NULL: no other. */
struct record_entry *replaced_next_of(struct server *server, const char *node_id, struct record_entry *entry);

/** Borrowed. */
const char *replaced_machine(const struct record_entry *entry);

uint64_t replaced_count(struct server *server);
