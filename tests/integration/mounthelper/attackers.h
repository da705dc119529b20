/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Processes that work against the helper while it works: with the agent's uid, in mount namespaces that are
 * older and newer than the mounts, and observers that look for a mount that is not as it must be. */

#include "harness.h"

#include <stdatomic.h>

/* The publishes under attack: of the first allocation always read-only, of the second writable. */
#define RACE_ALLOC_RO "aaaaaaaa-1111-2222-3333-000000000000"
#define RACE_ALLOC_RW "aaaaaaaa-1111-2222-3333-000000000001"

enum { RACE_SLOT = 7, WITNESS_TEXT = 512 };

/* What all processes share. */
struct witness {
	_Atomic bool violated;
	_Atomic unsigned long passes;	     /* of the mount table, by the observers */
	_Atomic unsigned long published;     /* publishes seen in them */
	_Atomic unsigned long attempts;	     /* system calls of the attackers */
	_Atomic unsigned long newer;	     /* namespaces made while mounts were there */
	_Atomic unsigned long copies;	     /* of a publish, taken along into such a namespace */
	_Atomic unsigned long own_successes; /* what an attacker could do, in its own namespace or volume */
	char text[WITNESS_TEXT];	     /* of the first violation */
};

/** Start all of them. They end with attackers_stop(). With @in_turns they only act in attackers_turn(). */
struct witness *attackers_start(bool in_turns);

/** Let the observers look, each attacker act once, and the observers look again. Any process that was there
 * at the start may call it. */
void attackers_turn(void);

/** End them and wait. */
void attackers_stop(void);
