/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* An election: the server leads whose lease the leader's key is bound to. A server creates the key if it is
 * absent, and etcd deletes it with the lease.
 *
 * The lease counts from the sending of the last answered keep-alive, by CLOCK_BOOTTIME, which continues while
 * the machine sleeps: never longer than etcd's own. An election ends once: a lost lead is not regained.
 * Callbacks run from the loop, never inside a function of this header except election_step_down(). */

#include "etcd/client.h"

#include <stdbool.h>

enum { ELECTION_NAME_MAX = 255 };

struct election;

struct election_settings {
	const char *key;
	const char *name; /* the leader's name as others see it; the key's value has it, with the time of the
			     start */
	uint64_t lease_us;
	uint64_t call_us;  /* how long a member may take to answer */
	uint64_t yield_us; /* how long to leave the lead to others at first; 0: not at all */
	/* It leads only while @schema_key has the number @schema, which the first leader puts there.
	 * NULL: no schema is compared. */
	const char *schema_key;
	uint32_t schema;
	/* Likewise, with the text @word; on_other_key reports a difference while another one leads, too.
	 * NULL: no text is compared. */
	const char *word_key;
	const char *word;
};

struct election_events {
	void (*on_leading)(void *userdata);
	void (*on_lost)(const struct error *why, void *userdata); /* after on_leading only */
	/* Another one leads since @since_ms by its clock; 0: not known. Called for each new leader, and for
	 * the same one when etcd reports it again after on_trouble. */
	void (*on_follow)(const char *leader, int64_t since_ms, void *userdata);
	void (*on_trouble)(const struct error *why,
			   void *userdata); /* it continues to try; called again when the trouble changes */
	/* No one leads, and this one does not, because the schema is @schema, or (0) the text of word_key
	 * differs. */
	void (*on_aside)(uint32_t schema, void *userdata);
	void (*on_other_key)(bool is_other, void *userdata); /* the text of word_key differs, or no longer */
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

/** Ends the lead because the caller found that it is lost: calls on_lost, unless it was called before. */
void election_step_down(struct election *election, const struct error *why);

/** Revoke the lease, so that the next leader need not wait. No callback runs afterwards. */
void election_resign(struct election *election);

/** Is the lease over for certain, or was it never granted? */
bool election_is_over(const struct election *election);
