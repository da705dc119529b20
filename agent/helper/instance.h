/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The life of one instance in the pool, between helper_client.c, which owns the requests, and
 * helper_instance.c, which starts, feeds and ends the instance. For those two files only. */

#include "base/backoff.h"
#include "helper/client.h"
#include "helper/proc.h"

#include <sys/queue.h>

enum instance_state {
	INSTANCE_NONE,	   /* no process; perhaps waiting to start one */
	INSTANCE_STARTING, /* waiting for HELLO */
	INSTANCE_READY,	   /* HELLO acknowledged */
	INSTANCE_CLOSING,  /* its socket is closed, its end not yet seen */
};

TAILQ_HEAD(call_list, helper_call);

struct helper_call {
	TAILQ_ENTRY(helper_call) entry;
	struct helper_client *client;
	union helper_request request;
	enum helper_lane lane;
	helper_done_fn *done;
	void *userdata;
	struct helper_instance *instance; /* that does it; NULL: it waits in its lane's list */
	sd_event_source *timer;
	unsigned int deaths; /* instances that died with it under way */
	int64_t sent_ms;     /* wall clock */
};

/* A place in the pool. */
struct helper_instance {
	struct helper_client *client;
	enum helper_lane lane; /* HELPER_NORMAL or HELPER_NFS */
	enum instance_state state;
	struct helper_proc *proc;
	struct helper_call *current; /* under way */
	uint64_t seq;		     /* of the last request on this connection */
	uint64_t known_record;	     /* of the trail, when what the instance says next was asked for */
	struct backoff backoff;
	sd_event_source *restart_timer;
	sd_event_source *start_timer;
	uint32_t starts;
	uint32_t birth;		/* number among all starts of the pool: the youngest has the highest */
	uint8_t door;		/* of HELLO */
	pid_t pid;		/* 0: none, or not known yet */
	bool has_failed;	/* it went down against our will and has not been ready since */
	bool is_retiring;	/* CLOSING because another one is to take its place */
	bool is_restart_wanted; /* to be replaced when its turn comes */
	struct error last_error;
	uint16_t given_up_op; /* what was under way when it was given up; 0: nothing */
	int64_t given_up_ms;
	char given_up_volume[MH_LABEL_SIZE];
};

/* An instance whose socket is closed and that does not end. */
struct abandoned {
	LIST_ENTRY(abandoned) entry;
	struct helper_proc *proc;
	enum helper_lane lane;
	pid_t pid;
	uint8_t door;
	uint16_t op; /* that it was given up with; 0: none */
	char volume[MH_LABEL_SIZE];
	int64_t sent_ms;
};

struct helper_client {
	sd_event *event; /* borrowed */
	const struct helper_client_events *events;
	void *userdata;
	char *path;
	struct helper_door door; /* with that path */
	uint64_t start_timeout_us;
	uint64_t request_timeout_us;
	struct helper_instance instances[HELPER_POOL_MAX + 1]; /* that of NFS is the last one in use */
	size_t n_instances;
	struct helper_instance *rolling; /* being replaced */
	struct call_list urgent, normal; /* what waits */
	sd_event_source *dispatch;	 /* deferred: sends what can be sent */
	LIST_HEAD(, abandoned) abandoned;
	bool is_list_overlapped;     /* a change of the NFS lane was under way during a list */
	sd_event_source *rate_timer; /* no change is begun until then */
	uint64_t over_rate_us; /* monotonic: when the helper last said that its rate is used up; 0: never */
	struct helper_info info;
};

/* What the instance does for the client. */

void instance_init(struct helper_instance *instance, struct helper_client *client, enum helper_lane lane);
void instance_release(struct helper_instance *instance);

/** Start it, from the event loop. */
enum status instance_start_soon(struct helper_instance *instance, struct error *err);

/** Send it a request that is in no list; the instance takes it. */
void instance_send(struct helper_instance *instance, struct helper_call *call);

/** Give it up; @why is what its end is told with. The call under way, if any, is repeated. */
void instance_give_up(struct helper_instance *instance, const struct error *why);

/** Close it so that another one takes its place. Nothing may be under way. */
void instance_retire(struct helper_instance *instance);

/* What the client does for the instance. */

/** Something can be sent, perhaps. */
void client_kick(struct helper_client *client);

/** Which instances take requests has changed. */
void client_refresh(struct helper_client *client);

/** HELLO was acknowledged. */
void client_on_ready(struct helper_instance *instance, const struct mh_hello *hello);

/** The instance has said up to which record it wrote the trail; 0: nothing. */
void client_note_head(const struct helper_instance *instance, uint64_t record,
		      const uint8_t sha256[static TICKET_DIGEST_SIZE]);

/** Whether the trail takes the records of mounts follows from the replies to these. */
void client_note_trail(struct helper_client *client, const struct mh_reply *reply);

/** It is gone against our will and starts again by itself, that of NFS when it is needed. */
void client_on_down(struct helper_instance *instance, const struct error *why);

/** One that hung has ended. */
void client_on_abandoned_end(struct helper_client *client, const struct helper_proc *proc);

/** The call is answered, or not any more; it is gone afterwards. */
void client_finish(struct helper_call *call, const union helper_reply *reply, const struct error *err);

/** The instance died with the call under way: to be sent once more. */
void client_repeat(struct helper_call *call, const struct error *why);

/** The helper had no more for now: to be sent again, before any other of its volume, after a pause of all. */
void client_wait_for_rate(struct helper_call *call);

/** May one more instance be started in this lane? */
bool client_may_start(const struct helper_client *client, enum helper_lane lane, struct error *err);

/** Does anything wait for this lane? */
bool client_has_work(const struct helper_client *client, enum helper_lane lane);
