/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Who leads: whoever's lease the leader's key is bound to. The key is created if it is absent, and etcd takes
 * it away with the lease.
 *
 * The lease counts from when the last keep-alive that was answered was sent, by CLOCK_BOOTTIME, which
 * continues while the machine sleeps: never longer than etcd's own. An election ends once: what was lost is
 * not had again. Callbacks run from the loop, never inside a function of this header but
 * election_step_down(). */

#include "etcd/client.h"

#include <stdbool.h>

enum { ELECTION_NAME_MAX = 255 };

struct election;

struct election_settings {
	const char *key;
	const char *name; /* what others are told of who leads; in the key's value, with since when */
	uint64_t lease_us;
	uint64_t call_us;  /* how long a member may take to answer */
	uint64_t yield_us; /* how long to leave the lead to others at first; 0: not at all */
	/* It leads only while @schema_key has the number @schema, which whoever leads first puts there.
	 * NULL: whatever any key has. */
	const char *schema_key;
	uint32_t schema;
	/* Likewise, with the text @word; and it says so while another one leads, too. NULL: whatever any key
	 * has. */
	const char *word_key;
	const char *word;
};

struct election_events {
	void (*on_leading)(void *userdata);
	void (*on_lost)(const struct error *why, void *userdata); /* after on_leading only */
	/* Another one leads, or yet another, since @since_ms by its clock; 0: not known. Also the same one,
	 * when etcd says so again after on_trouble. */
	void (*on_follow)(const char *leader, int64_t since_ms, void *userdata);
	void (*on_trouble)(const struct error *why,
			   void *userdata); /* continues trying; again when it changes */
	/* Nobody leads, and this one does not, as the schema is @schema, or (0) the word is another. */
	void (*on_aside)(uint32_t schema, void *userdata);
	void (*on_other_key)(bool is_other, void *userdata); /* the word is another, or no longer */
};

/** All but the texts of @settings is borrowed. */
enum status election_new(sd_event *event, struct etcd_client *client,
			 const struct election_settings *settings, const struct election_events *events,
			 void *userdata, struct election **ret, struct error *err);

/** NULL is allowed. The lease stays as it is, see election_resign(). */
void election_free(struct election *election);

/** Try to lead, until it does. */
void election_start(struct election *election);

/** Does it lead at this moment for certain, by its own clock? */
bool election_is_leading(const struct election *election);

/** While it leads: the lease and the key's create revision. */
int64_t election_lease(const struct election *election);
int64_t election_revision(const struct election *election);

/** It was found out not to lead any more: on_lost, unless that was said before. */
void election_step_down(struct election *election, const struct error *why);

/** Revoke the lease, so that the next one need not wait; nothing is said any more. */
void election_resign(struct election *election);

/** Is there nothing left of the lease, as far as anybody can tell? */
bool election_is_over(const struct election *election);
