/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The leader, where several servers share a store in etcd: store "etcd" in the settings.
 *
 * Only the leader has the store open, decides and answers. The others follow: they take connections, know the
 * leader, and lead when no other server does. A server that loses the lead ends, and begins again as a
 * follower.
 *
 * server->lead is this server's part. It is NULL where the store is in sqlite; then the server always leads.
 * A call that only the leader can answer is forwarded like this:
 *
 *	struct lead_view view;
 *
 *	if (!lead_is_own(server->lead)) {
 *		lead_view(server->lead, &view);
 *		if (view.is_known && !view.is_own)
 *			... connect to view.address, which has to show the identity of server view.name
 *		else
 *			... answer with the error of lead_check()
 *	}
 *
 * and has lead_watch() call it when another one leads, to give up connections to the one before. */

#include "base/error.h"
#include "etcd/etcd.h"
#include "lead/lead_settings.h"
#include "lead/trouble.h"
#include "rpc/tls.h"
#include "store/kv.h"

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

struct lead;
struct members;

struct lead_view {
	bool is_known;	       /* that a server leads; else nothing below counts */
	bool is_own;	       /* this server */
	bool is_doubted;       /* known from before: etcd does not confirm it at present. See lead_forget() */
	uint32_t other_schema; /* the cluster's, while no server leads and this one may not; else 0 */
	char name[LEAD_NAME_SIZE];	 /* of the server */
	char address[LEAD_ADDRESS_SIZE]; /* "HOST:PORT", where other servers reach it */
	int64_t since_ms;		 /* by its clock; 0: not known */
};

/* From the event loop, never inside a function of this header. */
struct lead_events {
	void (*on_leading)(void *userdata);			  /* lead_open_store() now, and take over */
	void (*on_lost)(const struct error *why, void *userdata); /* once, after on_leading: end */
	/* While another one leads: how far it has come. May be NULL. */
	void (*on_progress)(const struct etcd_progress *progress, void *userdata);
	/* While another one leads: a copy of the store, as in struct etcd_events. */
	const char *(*copied)(size_t i);
	void (*on_copy)(void *userdata);
	bool (*on_record)(const struct kv_item *item, void *userdata);
};

/** Begin to campaign. @settings is borrowed, @cluster copied.
 * @address where this server listens, "HOST:PORT": shown to others unless the settings have another one */
enum status lead_new(sd_event *event, const struct lead_settings *settings, const char *cluster,
		     const char *address, const struct lead_events *events, void *userdata, struct lead **ret,
		     struct error *err);

/** Resigns, which waits for etcd as long as it may take to answer; the store must be closed. NULL is allowed.
 */
void lead_free(struct lead *lead);

void lead_view(const struct lead *lead, struct lead_view *ret);

/** Does this server lead at this moment for certain, by its own clock? NULL: yes. */
bool lead_is_own(const struct lead *lead);

/** STATUS_UNAVAILABLE unless it does, with name and address of the leader. */
enum status lead_check(const struct lead *lead, struct error *err);

/** TROUBLE_NONE where a server leads, etcd answers and this server could lead; also for NULL. */
enum trouble_kind lead_trouble(const struct lead *lead);

/** The sentence of it. */
const char *lead_trouble_text(const struct lead *lead, enum trouble_kind kind,
			      char ret[static TROUBLE_TEXT_SIZE]);

/** While another one leads: etcd is behind the mark of this server; NULL: it is not. */
void lead_set_behind(struct lead *lead, const char *why);

/** Forget a doubted leader, which does not answer either: no leader is known until etcd reports one. Does
 * nothing if the leader is not doubted. */
void lead_forget(struct lead *lead);

typedef void lead_change_fn(const struct lead_view *view, void *userdata);

/** Have @changed called when the result of lead_view() changes. Only one function at a time; NULL ends it. */
void lead_watch(struct lead *lead, lead_change_fn *changed, void *userdata);

/** Be one of the servers that lead_members() knows. @event, @settings as of lead_new(). */
enum status lead_join(struct lead *lead, sd_event *event, const struct lead_settings *settings,
		      struct error *err);

/** For members_look(), after lead_join(). */
struct members *lead_members(struct lead *lead);

/** Open the store; see kv_open_etcd(). To be closed before lead_free(). */
enum status lead_open_store(struct lead *lead, struct kv **ret, struct error *err);

/** While another one leads: does the state have all that the store has, though it may be a little behind? */
bool lead_has_copy(const struct lead *lead);

/** Is the copy complete? The store must be open. See etcd_copy_finish(). */
bool lead_finish_copy(struct lead *lead);

/** While another one leads a store that has gone back: end its lead and give the next one the record @op; see
 * etcd_interrupt(). */
void lead_interrupt(struct lead *lead, const struct kv_op *op);

/** Set the cluster's schema to @settings->schema; see etcd_raise_schema(). */
enum status lead_raise_schema(const struct lead_settings *settings, const char *cluster, uint32_t *ret_before,
			      struct error *err);

/** Set the cluster's ticket key to @settings->ticket_key; see etcd_replace_ticket_key(). */
enum status lead_replace_ticket_key(const struct lead_settings *settings, const char *cluster,
				    struct error *err);

/** Read every record of the store that @settings name, at one revision; any server may lead. See etcd_walk().
 */
enum status lead_walk_store(const struct lead_settings *settings, const char *cluster, kv_each_fn *each,
			    void *userdata, uint64_t *ret_revision, struct error *err);
