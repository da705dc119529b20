/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The work on one volume, shared by volume_work.c (who waits, when it is tried, what is stored) and
 * volume_step.c (what each phase asks of whom). */

#include "base/backoff.h"
#include "model/volume_detail.h"
#include "state/change.h"
#include "volume/work.h"

#include <holdfast/v1/plugin_call.pb-c.h>
#include <stdbool.h>
#include <sys/queue.h>
#include <systemd/sd-event.h>

struct waiter {
	STAILQ_ENTRY(waiter) next;
	struct rpc_call *call;
	volume_answer_fn *answer;
};
STAILQ_HEAD(waiter_list, waiter);

struct volume_work {
	char namespace[NAMESPACE_MAX + 1];
	char id[VOLUME_ID_MAX + 1];
	RB_ENTRY(volume_work) by_key;
	struct server *server;
	struct waiter_list waiters;
	sd_event_source *timer; /* owned; the next try */
	bool is_busy;		/* a plugin is being asked, or its answer is on its way to the disk */
	bool may_be_done; /* an earlier try, of this run or the last, may have done it at the provider */
	bool node_failed; /* some node's file system could not be expanded in this try */
	char after[NODE_ID_MAX + 1]; /* the last node that was asked in this try */
	struct error error;	     /* of this try, when something failed */
	struct backoff backoff;
};

struct volume_entry *volume_work_entry(const struct volume_work *work);

/** Do the next thing that the stored phase asks for. */
void volume_work_step(struct volume_work *work);

/** The parts as they are stored; false: it was deregistered or memory is short, and this try is over. */
bool volume_work_load(struct volume_work *work, struct volume_parts *ret);

/** Store @parts, with a record that the server did @what (NULL: none); @done is volume_work_on_stored() or
 * volume_work_on_done(). */
void volume_work_store(struct volume_work *work, struct volume_parts *parts, const char *what,
		       const char *why, change_done_fn *done);
void volume_work_on_stored(struct server *server, void *userdata); /* takes the next step */
void volume_work_on_done(struct server *server,
			 void *userdata); /* ends, with the work's error if there is one */

/** Store that there is no such volume any more, and end. */
void volume_work_forget(struct volume_work *work, const char *what, const char *why);

/** This try ended with the work's error: store what that leaves. @was_asked: the provider may have heard of
 * it.
 */
void volume_work_failed(struct volume_work *work, struct volume_parts *parts, bool was_asked);

/** Answer this try's callers with the work's error and try again later. */
void volume_work_retry(struct volume_work *work);

/** Answer and free it. */
void volume_work_end(struct volume_work *work, const struct error *err);

/* A reply's step: what the answer says goes into @parts; true: store and go on. */
typedef bool take_reply_fn(struct volume_work *work, struct volume_parts *parts,
			   const Holdfast__V1__PluginReply *reply);

/** Common to all answers of controllers: failed, or taken by @take, stored as @what, and the next step. */
void volume_work_take_reply(struct volume_work *work, const Holdfast__V1__PluginReply *reply,
			    const struct error *err, const char *what, take_reply_fn *take);
