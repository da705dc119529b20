/* SPDX-License-Identifier: Apache-2.0 */
#include "helper/client.h"

#include "mounthelper_words.h"

#include "base/backoff.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "helper/end.h"
#include "helper/proc.h"
#include "log/log.h"
#include "rpc/wakeup.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

enum worker_state {
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
	char group[MH_LABEL_SIZE];
	helper_done_fn *done;
	void *userdata;
	struct helper_instance *instance; /* that does it; NULL: it waits in its lane's list */
	sd_event_source *timer;
	unsigned int deaths;	 /* instances that died with it in flight */
	unsigned int n_replaced; /* instances that refused it because their policy was replaced */
	int64_t sent_ms;	 /* wall clock */
};

/* A place in the pool. */
struct helper_instance {
	struct helper_client *client;
	enum helper_lane lane; /* HELPER_NORMAL or HELPER_NFS */
	enum worker_state state;
	struct helper_proc *proc;
	struct helper_call *current; /* in flight */
	uint64_t seq;		     /* of the last request on this connection */
	uint64_t known_record;	     /* of the trail, when the next message of the instance was requested */
	struct backoff backoff;
	sd_event_source *restart_timer;
	sd_event_source *start_timer;
	uint32_t starts;
	uint32_t birth;		/* number among all starts of the pool: the youngest has the highest */
	uint8_t launch_mode;	/* of HELLO */
	pid_t pid;		/* 0: no process, or not known yet */
	bool has_failed;	/* it went down against our will and has not been ready since */
	bool is_start_failing;	/* it went down before it was ready, and has not been ready since */
	bool is_retiring;	/* CLOSING because another one will take its place */
	bool is_restart_wanted; /* to be replaced when it is scheduled */
	struct error last_error;
	uint16_t given_up_op; /* the request in flight when it was given up; 0: no request */
	int64_t given_up_ms;
	char given_up_volume[MH_LABEL_SIZE];
};

/* An instance whose socket is closed and that does not end. */
struct abandoned {
	LIST_ENTRY(abandoned) entry;
	struct helper_proc *proc;
	enum helper_lane lane;
	pid_t pid;
	uint8_t launch_mode;
	uint16_t op; /* in flight when it was given up; 0: no operation */
	char volume[MH_LABEL_SIZE];
	int64_t sent_ms;
};

enum { SILENT_MAX = 16 };

struct helper_client {
	sd_event *event; /* borrowed */
	const struct helper_client_events *events;
	void *userdata;
	char *path;
	struct helper_launch launch; /* with that path */
	uint64_t start_timeout_us;
	uint64_t request_timeout_us;
	struct helper_instance instances[HELPER_POOL_MAX + 1]; /* that of NFS is the last one in use */
	size_t n_instances;
	struct helper_instance *rolling; /* being replaced */
	struct call_list urgent, normal; /* what waits */
	sd_event_source *dispatch;	 /* deferred: sends what can be sent */
	LIST_HEAD(, abandoned) abandoned;
	bool is_list_overlapped;     /* a change that may_hang() was in flight during a list */
	sd_event_source *rate_timer; /* no change is begun until then, */
	bool is_list_over_rate;	     /* and no list */
	uint64_t over_rate_us;	     /* monotonic, of the last reply that its rate is used up; 0: never */
	char silent[SILENT_MAX][MH_LABEL_SIZE]; /* groups whose last call ended its instance; or empty */
	unsigned int next_silent;
	struct helper_info info;
};

DEFINE_CLEANUP(struct helper_client, helper_client_free)

#define FOREACH_INSTANCE(i, client)                           \
	for (struct helper_instance *i = (client)->instances; \
	     i < (client)->instances + (client)->n_instances; i++)

/* Every instance is over the rate at most once in a pause: half of the refusals with which a helper ends. */
enum { RATE_PAUSE_MS = 500 };

static struct helper_instance *nfs_instance(struct helper_client *client)
{
	return &client->instances[client->n_instances - 1];
}

/* May it wait for a server or a plugin? */
static bool may_hang(const struct helper_call *call)
{
	return call && (call->lane == HELPER_NFS || call->group[0] != '\0');
}

/* Returns the place of @group among those whose last call ended its instance; NULL: it is not there. */
static char *find_silent(struct helper_client *client, const char *group)
{
	for (size_t i = 0; i < SILENT_MAX && group[0] != '\0'; i++) {
		if (str_eq(client->silent[i], group))
			return client->silent[i];
	}
	return NULL;
}

/* The latest are kept. */
static void note_silent(const struct helper_call *call)
{
	struct helper_client *client = call->client;

	if (call->group[0] != '\0' && !find_silent(client, call->group))
		(void)str_copy(client->silent[client->next_silent++ % SILENT_MAX], MH_LABEL_SIZE,
			       call->group);
}

static struct call_list *list_of(struct helper_call *call)
{
	return call->lane == HELPER_URGENT ? &call->client->urgent : &call->client->normal;
}

static void client_kick(struct helper_client *client)
{
	/* cannot fail for a source that exists and is not floating */
	(void)sd_event_source_set_enabled(client->dispatch, SD_EVENT_ONESHOT);
}

static void client_refresh(struct helper_client *client)
{
	client->info.is_running = false;
	client->info.pid = 0;
	FOREACH_INSTANCE (instance, client) {
		if (instance->lane != HELPER_NORMAL || instance->state != INSTANCE_READY)
			continue;
		client->info.is_running = true;
		client->info.pid = instance->pid;
		return;
	}
}

static bool client_has_work(const struct helper_client *client, enum helper_lane lane)
{
	const struct helper_call *call;

	TAILQ_FOREACH (call, &client->normal, entry) {
		if (call->lane == lane)
			return true;
	}
	return false;
}

static bool client_may_start(const struct helper_client *client, enum helper_lane lane, struct error *err)
{
	const struct abandoned *abandoned;
	unsigned int hanging_here = 0;
	unsigned int alive = client->info.abandoned;

	LIST_FOREACH (abandoned, &client->abandoned, entry)
		hanging_here += abandoned->lane == lane;
	for (size_t i = 0; i < client->n_instances; i++)
		alive += client->instances[i].proc != NULL;
	if (alive < HELPER_INSTANCES_MAX && (lane != HELPER_NFS || hanging_here < HELPER_NFS_ABANDONED_MAX))
		return true;
	(void)error_set(err, STATUS_UNAVAILABLE, 0,
			"%u instances of the mount helper%s hang in the kernel, no other one is started: see "
			"their stack in /proc/PID/stack, and the %s behind the volumes",
			hanging_here, lane == HELPER_NFS ? " for NFS" : "",
			lane == HELPER_NFS ? "NFS server" : "device or server");
	return false;
}

static void call_free(struct helper_call *call)
{
	wakeup_disarm(&call->timer);
	free(call);
}

/* A change that may have been done after the list was read: read it again. */
static void end_overlap(struct helper_client *client)
{
	if (!client->is_list_overlapped)
		return;
	client->is_list_overlapped = false;
	client->events->on_stale(client->userdata);
}

/* The callback may queue other calls. */
static void client_finish(struct helper_call *call, const union helper_reply *reply, const struct error *err)
{
	struct helper_client *client = call->client;
	helper_done_fn *done = call->done;
	void *userdata = call->userdata;
	bool is_overlapping = may_hang(call);
	char *silent = find_silent(client, call->group);

	if (reply && silent)
		silent[0] = '\0';
	if (reply && call->lane != HELPER_NFS) {
		client->info.failures = 0;
		client->info.last_error = (struct error){0};
	}
	client->info.queued--;
	client_kick(client);
	call_free(call);
	done(reply, err, userdata);
	if (is_overlapping)
		end_overlap(client);
}

static int on_wait_timeout(sd_event_source *source, uint64_t usec, void *userdata);

/* Restarts the deadline of the queue before the next attempt. Without a timer there is no deadline. */
static void wait_again(struct helper_call *call)
{
	struct helper_client *client = call->client;

	wakeup_disarm(&call->timer);
	(void)wakeup_arm(client->event, &call->timer, client->request_timeout_us, on_wait_timeout, call,
			 NULL);
}

/* Has it waited only for its turn? If no instance of its lane starts, or after a death, more is wrong. */
static bool waits_for_its_turn(const struct helper_call *call)
{
	FOREACH_INSTANCE (instance, call->client) {
		if ((instance->lane == HELPER_NFS) == (call->lane == HELPER_NFS) &&
		    !instance->is_start_failing)
			return call->deaths == 0;
	}
	return false;
}

static int on_wait_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct helper_call *call = userdata;
	struct helper_client *client = call->client;
	const struct error *why =
		call->lane == HELPER_NFS ? &nfs_instance(client)->last_error : &client->info.last_error;
	char text[CLOCK_TEXT_SIZE];
	struct error err;

	/* the queue moves, as fast as the policy lets it */
	if (client->over_rate_us > 0 &&
	    clock_monotonic_us() - client->over_rate_us < client->request_timeout_us) {
		wait_again(call);
		return 0;
	}
	TAILQ_REMOVE(list_of(call), call, entry);
	(void)error_set(&err, waits_for_its_turn(call) ? STATUS_ABORTED : STATUS_DEADLINE_EXCEEDED, 0,
			"%s waited %s for the mount helper (helper.request_timeout)%s%s",
			helper_op_name(call->request.header.op),
			clock_format_duration(client->request_timeout_us, text),
			why->status != STATUS_OK ? "; " : "", why->status != STATUS_OK ? why->msg : "");
	client_finish(call, NULL, &err);
	return 0;
}

/* It goes behind the others of its lane, but stays first of its volume. */
static void put_back(struct helper_call *call)
{
	struct helper_call *other;

	TAILQ_FOREACH (other, list_of(call), entry) {
		if (str_eq(helper_request_volume(&other->request), helper_request_volume(&call->request)))
			break;
	}
	if (other)
		TAILQ_INSERT_BEFORE(other, call, entry);
	else
		TAILQ_INSERT_TAIL(list_of(call), call, entry);
}

static void client_repeat(struct helper_call *call, const struct error *why)
{
	struct helper_client *client = call->client;
	struct error err;

	call->instance = NULL;
	note_silent(call);
	if (++call->deaths >= 2) {
		err = *why;
		err.status = STATUS_UNAVAILABLE;
		(void)error_prefix(&err, "%s was sent to two instances of the mount helper and both ended",
				   helper_op_name(call->request.header.op));
		client_finish(call, NULL, &err);
		return;
	}
	wait_again(call);
	put_back(call);
	client_kick(client);
}

static int on_rate_pause_over(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct helper_client *client = userdata;

	wakeup_disarm(&client->rate_timer);
	client->is_list_over_rate = false;
	client_kick(client);
	return 0;
}

static void client_wait_for_rate(struct helper_call *call)
{
	struct helper_client *client = call->client;

	call->instance = NULL;
	wait_again(call);
	TAILQ_INSERT_HEAD(list_of(call), call, entry);
	client->is_list_over_rate = client->is_list_over_rate || call->lane == HELPER_URGENT;
	client->over_rate_us = clock_monotonic_us();
	if (!client->rate_timer &&
	    wakeup_arm(client->event, &client->rate_timer, RATE_PAUSE_MS * USEC_PER_MSEC, on_rate_pause_over,
		       client, NULL) != STATUS_OK)
		client->is_list_over_rate = false;
	client_kick(client);
}

/* Records the trail's head. Messages of several instances overtake each other: the highest number counts. A
 * number no higher than that before the request shows that the trail went back, and is kept. */
static void client_note_head(const struct helper_instance *instance, uint64_t record,
			     const uint8_t sha256[static TICKET_DIGEST_SIZE])
{
	struct trail_head *head = &instance->client->info.head;

	if (record == 0 || bytes_are_zero(sha256, TICKET_DIGEST_SIZE) ||
	    (record <= head->record && record > instance->known_record))
		return;
	head->record = record;
	memcpy(head->sha256, sha256, TICKET_DIGEST_SIZE);
}

/* Records whether the trail takes mounts. Cleaning up proves nothing: it has room of its own there. */
static void client_note_trail(struct helper_client *client, const struct mh_reply *reply)
{
	bool mounts = reply->header.op == MH_OP_STAGE || reply->header.op == MH_OP_PUBLISH;

	if (!mounts || (!helper_reply_is_without_trail(reply) && reply->record == 0))
		return;
	client->info.is_without_trail = helper_reply_is_without_trail(reply);
	if (!client->info.is_without_trail)
		client->info.trail_fault = NULL;
}

static void client_on_ready(struct helper_instance *instance, const struct mh_hello *hello)
{
	struct helper_client *client = instance->client;
	struct helper_info *info = &client->info;
	bool is_change = !info->is_running || instance->has_failed;
	char digest[HELPER_DIGEST_TEXT];

	client_refresh(client);
	client_kick(client);
	if (client->rolling == instance)
		client->rolling = NULL;
	if (instance->lane == HELPER_NORMAL) {
		hex_encode(digest, hello->policy_digest, sizeof(hello->policy_digest));
		is_change = is_change || !str_eq(digest, info->policy_digest);
		info->launch_mode = hello->launch_mode;
		info->container = hello->container == 1;
		info->ticket_optional = hello->ticket_optional == 1;
		info->trail_fault = helper_end_trail_fault(hello->trail);
		memcpy(info->cluster, hello->cluster, sizeof(info->cluster));
		memcpy(info->node, hello->node, sizeof(info->node));
		memcpy(info->publish_base, hello->publish_base, sizeof(info->publish_base));
		memcpy(info->stage_base, hello->stage_base, sizeof(info->stage_base));
		memcpy(info->policy_digest, digest, sizeof(digest));
		memcpy(info->ticket_keys, hello->ticket_keys, sizeof(info->ticket_keys));
	}
	client->events->on_ready(instance->pid, client->userdata);
	if (instance->lane == HELPER_NORMAL && is_change)
		client->events->on_stale(client->userdata);
}

static void client_on_down(struct helper_instance *instance, const struct error *why)
{
	struct helper_client *client = instance->client;

	client_refresh(client);
	if (instance->lane == HELPER_NORMAL) {
		client->info.last_error = *why;
		if (client->info.failures < UINT32_MAX)
			client->info.failures++;
	}
	client_kick(client);
	client->events->on_down(why, client->userdata);
	/* for the others when they are ready again; this one is perhaps never needed again */
	if (instance->lane == HELPER_NFS && instance->seq > 1)
		client->events->on_stale(client->userdata);
}

static void client_on_abandoned_end(struct helper_client *client, const struct helper_proc *proc)
{
	struct abandoned *abandoned;

	LIST_FOREACH (abandoned, &client->abandoned, entry) {
		if (abandoned->proc == proc)
			break;
	}
	if (!abandoned)
		return;
	LIST_REMOVE(abandoned, entry);
	free(abandoned);
	client->info.abandoned--;
	client->events->on_stale(client->userdata);
}

static void instance_start(struct helper_instance *instance);

static int on_restart(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct helper_instance *instance = userdata;

	wakeup_disarm(&instance->restart_timer);
	instance_start(instance);
	return 0;
}

static enum status instance_start_soon(struct helper_instance *instance, struct error *err)
{
	assert(instance->state == INSTANCE_NONE);
	return wakeup_arm(instance->client->event, &instance->restart_timer, 0, on_restart, instance, err);
}

/* Reports that nothing is left of an instance, and starts another one after a delay. */
static void instance_go_down(struct helper_instance *instance, const struct error *why)
{
	uint64_t delay_us;
	struct error err;

	if (instance->seq > 1) /* it had a request, which it did not answer perhaps */
		backoff_reset(&instance->backoff);
	delay_us = backoff_next(&instance->backoff, backoff_random());
	instance->state = INSTANCE_NONE;
	instance->pid = 0;
	instance->has_failed = true;
	instance->is_start_failing = instance->seq == 0;
	instance->last_error = *why;
	if (wakeup_arm(instance->client->event, &instance->restart_timer, delay_us, on_restart, instance,
		       &err) != STATUS_OK)
		instance->last_error = err;
	client_on_down(instance, why);
}

/* Keep what hangs in sight. */
static void instance_abandon(struct helper_instance *instance, struct helper_proc *proc)
{
	struct helper_client *client = instance->client;
	struct abandoned *abandoned = calloc(1, sizeof(*abandoned));

	if (!abandoned) {
		helper_proc_free(proc);
		return;
	}
	abandoned->proc = proc;
	abandoned->lane = instance->lane;
	abandoned->pid = instance->pid;
	abandoned->launch_mode = instance->launch_mode;
	abandoned->op = instance->given_up_op;
	memcpy(abandoned->volume, instance->given_up_volume, sizeof(abandoned->volume));
	abandoned->sent_ms = instance->given_up_ms;
	LIST_INSERT_HEAD(&client->abandoned, abandoned, entry);
	client->info.abandoned++;
}

static void relay_start(const struct helper_instance *instance, const struct mh_hello *hello)
{
	log_ctx(LOG_INFO,
		&(struct log_ctx){.op = "start",
				  .event = LOG_EVENT_HELPER_STARTED,
				  .relayed = HELPER_RELAYED,
				  .record = hello->record},
		"mount helper: an instance started, pid %d (record %" PRIu64 " of its trail)",
		(int)instance->pid, hello->record);
	if (helper_end_trail_fault(hello->trail))
		log_line(LOG_WARNING,
			 "mount helper: the instance with pid %d unmounts and mounts nothing, because it "
			 "could not record its start: %s",
			 (int)instance->pid, helper_end_trail_fault(hello->trail));
}

/* Logs the end of an instance that had started; the instance itself reports no end. */
static void relay_end(const struct helper_instance *instance, const struct error *why)
{
	bool is_violation = helper_proc_exit_code(instance->proc) == MH_EXIT_VIOLATION;

	if (instance->launch_mode == 0)
		return;
	log_ctx(is_violation ? LOG_WARNING : LOG_INFO,
		&(struct log_ctx){.op = is_violation ? "violation" : "stop",
				  .event = is_violation ? LOG_EVENT_HELPER_VIOLATION
							: LOG_EVENT_HELPER_STOPPED,
				  .relayed = HELPER_RELAYED},
		"mount helper: instance with pid %d ended: %s", (int)instance->pid, why->msg);
}

static void on_proc_gone(struct helper_proc *proc, bool still_running, const struct error *err,
			 void *userdata)
{
	struct helper_instance *instance = userdata;
	struct helper_call *call = instance->current;
	struct error why = *err;

	assert(proc == instance->proc);
	if (instance->state == INSTANCE_STARTING && instance->client->launch.is_socket)
		launch_fault_explain_self(&instance->client->launch, NULL, &why);
	wakeup_disarm(&instance->start_timer);
	if (!still_running)
		relay_end(instance, &why);
	instance->proc = NULL;
	if (still_running)
		instance_abandon(instance, proc);
	else
		helper_proc_free(proc);
	instance->given_up_op = 0;
	if (instance->is_retiring) {
		instance->is_retiring = false;
		instance->state = INSTANCE_NONE;
		instance->pid = 0;
		instance_start(instance);
		return;
	}
	instance->current = NULL;
	if (call)
		client_repeat(call, &why);
	instance_go_down(instance, &why);
}

static void on_proc_reaped(struct helper_proc *proc, void *userdata)
{
	struct helper_instance *instance = userdata;

	client_on_abandoned_end(instance->client, proc);
	helper_proc_free(proc);
}

/* Keeps the request of an instance that was given up, to show it while the instance hangs. */
static void note_given_up(struct helper_instance *instance)
{
	const struct helper_call *call = instance->current;

	instance->given_up_op = 0;
	if (!call)
		return;
	instance->given_up_op = call->request.header.op;
	instance->given_up_ms = call->sent_ms;
	(void)str_copy(instance->given_up_volume, sizeof(instance->given_up_volume),
		       helper_request_volume(&call->request)); /* fits: a label */
}

static void instance_give_up(struct helper_instance *instance, const struct error *why)
{
	if (instance->state == INSTANCE_CLOSING)
		return;
	note_given_up(instance);
	instance->state = INSTANCE_CLOSING;
	client_refresh(instance->client);
	helper_proc_close(instance->proc, why);
}

static void instance_retire(struct helper_instance *instance)
{
	const struct error why = {.status = STATUS_CANCELLED, .msg = "it is being replaced"};

	assert(!instance->current);
	instance->is_retiring = true;
	wakeup_disarm(&instance->start_timer);
	instance_give_up(instance, &why);
}

static int on_start_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct helper_instance *instance = userdata;
	const struct helper_client *client = instance->client;
	char text[CLOCK_TEXT_SIZE];
	struct error err;

	wakeup_disarm(&instance->start_timer);
	(void)error_set(&err, STATUS_DEADLINE_EXCEEDED, 0,
			"the mount helper %s did not send HELLO within %s (helper.start_timeout)",
			client->path, clock_format_duration(client->start_timeout_us, text));
	instance_give_up(instance, &err);
	return 0;
}

static void send_ack(struct helper_instance *instance)
{
	union helper_request ack;
	struct error err;

	helper_request_ack(&ack);
	helper_request_seal(&ack, ++instance->seq);
	if (helper_proc_send(instance->proc, &ack, ack.header.length, &err) != STATUS_OK)
		instance_give_up(instance, &err);
}

static void on_first_message(struct helper_instance *instance, const void *bytes, size_t n)
{
	struct mh_failure failure;
	struct mh_hello hello;
	struct error err;

	wakeup_disarm(&instance->start_timer);
	if (helper_failure_check(bytes, n, &failure)) {
		helper_end_describe_failure(&failure, &err);
		launch_fault_explain_self(&instance->client->launch, &failure, &err);
		instance_give_up(instance, &err);
		return;
	}
	if (helper_hello_check(bytes, n, &hello, &err) != STATUS_OK) {
		instance_give_up(instance, &err);
		return;
	}
	instance->pid = helper_proc_pid(instance->proc);
	if (instance->pid == 0)
		instance->pid = (pid_t)hello.helper_pid;
	instance->launch_mode = hello.launch_mode;
	instance->state = INSTANCE_READY;
	relay_start(instance, &hello);
	client_note_head(instance, hello.record, hello.head);
	send_ack(instance);
	if (instance->state != INSTANCE_READY)
		return;
	client_on_ready(instance, &hello);
	instance->has_failed = false;
	instance->is_start_failing = false;
}

/* Sends the call again, and the first time replaces the other instances, too: each may have that policy. */
static void instance_leave_policy(struct helper_instance *instance, struct helper_call *call)
{
	bool is_first = !instance->is_restart_wanted;

	call->instance = NULL;
	wait_again(call);
	TAILQ_INSERT_HEAD(list_of(call), call, entry);
	instance_retire(instance);
	if (is_first)
		helper_client_restart(instance->client);
}

static void on_reply(struct helper_instance *instance, const void *bytes, size_t n)
{
	struct helper_call *call = instance->current;
	union helper_reply reply;
	struct error err;

	if (!call) {
		(void)error_set(&err, STATUS_DATA_LOSS, 0,
				"the mount helper sent a message without a request");
		instance_give_up(instance, &err);
		return;
	}
	if (helper_reply_check(bytes, n, &call->request, &reply, &err) != STATUS_OK) {
		instance_give_up(instance, &err);
		return;
	}
	if (reply.header.op != MH_OP_LIST) {
		client_note_head(instance, reply.reply.record, reply.reply.head);
		client_note_trail(instance->client, &reply.reply);
	}
	instance->current = NULL;
	backoff_reset(&instance->backoff);
	instance->last_error = (struct error){0};
	if (helper_reply_is_over_rate(&reply.reply))
		client_wait_for_rate(call);
	else if (reply.reply.status == MH_REPLACED && call->n_replaced++ < instance->client->n_instances)
		instance_leave_policy(instance, call);
	else
		client_finish(call, &reply, NULL);
}

static void on_proc_message(struct helper_proc *proc, const void *bytes, size_t n, void *userdata)
{
	struct helper_instance *instance = userdata;

	switch (instance->state) {
	case INSTANCE_STARTING:
		on_first_message(instance, bytes, n);
		return;
	case INSTANCE_READY:
		on_reply(instance, bytes, n);
		return;
	case INSTANCE_NONE:
	case INSTANCE_CLOSING:
		return;
	}
}

static const struct helper_proc_events proc_events = {
	.on_message = on_proc_message,
	.on_gone = on_proc_gone,
	.on_reaped = on_proc_reaped,
};

static void instance_start(struct helper_instance *instance)
{
	struct helper_client *client = instance->client;
	struct error err;

	assert(!instance->proc);
	instance->seq = 0;
	instance->known_record = client->info.head.record;
	if (instance->lane == HELPER_NFS && !client_has_work(client, HELPER_NFS))
		return;
	if (!client_may_start(client, instance->lane, &err) ||
	    helper_proc_start(client->event, &client->launch, &proc_events, instance, &instance->proc,
			      &err) != STATUS_OK) {
		instance_go_down(instance, &err);
		return;
	}
	instance->state = INSTANCE_STARTING;
	instance->is_restart_wanted = false;
	instance->launch_mode = 0;
	instance->pid = helper_proc_pid(instance->proc);
	instance->starts++;
	instance->birth = ++client->info.starts;
	if (wakeup_arm(client->event, &instance->start_timer, client->start_timeout_us, on_start_timeout,
		       instance, &err) != STATUS_OK)
		instance_give_up(instance, &err);
}

static int on_request_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct helper_call *call = userdata;
	struct helper_instance *instance = call->instance;
	char text[CLOCK_TEXT_SIZE];
	struct error err;

	(void)error_set(&err, STATUS_DEADLINE_EXCEEDED, 0,
			"the mount helper did not answer %s within %s (helper.request_timeout)",
			helper_op_name(call->request.header.op),
			clock_format_duration(instance->client->request_timeout_us, text));
	instance_give_up(instance, &err);
	instance->current = NULL;
	note_silent(call);
	client_finish(call, NULL, &err);
	return 0;
}

static void instance_send(struct helper_instance *instance, struct helper_call *call)
{
	struct helper_client *client = instance->client;
	struct error err;

	assert(instance->state == INSTANCE_READY && !instance->current);
	instance->current = call;
	call->instance = instance;
	call->sent_ms = clock_realtime_ms();
	instance->known_record = client->info.head.record;
	helper_request_seal(&call->request, ++instance->seq);
	if (wakeup_arm(client->event, &call->timer, client->request_timeout_us, on_request_timeout, call,
		       &err) != STATUS_OK ||
	    helper_proc_send(instance->proc, &call->request, call->request.header.length, &err) != STATUS_OK)
		instance_give_up(instance, &err);
}

static void instance_init(struct helper_instance *instance, struct helper_client *client,
			  enum helper_lane lane)
{
	*instance = (struct helper_instance){
		.client = client,
		.lane = lane,
		.backoff = BACKOFF_INIT(HELPER_RESTART_MIN_MS * USEC_PER_MSEC,
					HELPER_RESTART_MAX_MS * USEC_PER_MSEC),
	};
}

static void instance_release(struct helper_instance *instance)
{
	helper_proc_free(instance->proc);
	wakeup_disarm(&instance->restart_timer);
	wakeup_disarm(&instance->start_timer);
}

/* Is an earlier request of the same volume in flight, or does one wait before @call? */
static bool is_volume_taken(struct helper_client *client, const struct helper_call *call)
{
	const char *volume = helper_request_volume(&call->request);
	const struct helper_call *earlier;

	FOREACH_INSTANCE (instance, client) {
		if (instance->current && str_eq(helper_request_volume(&instance->current->request), volume))
			return true;
	}
	TAILQ_FOREACH (earlier, &client->normal, entry) {
		if (earlier == call)
			return false;
		if (str_eq(helper_request_volume(&earlier->request), volume))
			return true;
	}
	return false;
}

/* Has its group a share of the pool in flight, half of it but at least one? Silent groups share one. */
static bool is_share_taken(struct helper_client *client, const struct helper_call *call)
{
	const bool is_silent = find_silent(client, call->group);
	size_t n = 0;

	if (call->group[0] == '\0')
		return false;
	FOREACH_INSTANCE (instance, client)
		n += instance->lane == call->lane && instance->current &&
		     (str_eq(instance->current->group, call->group) ||
		      (is_silent && find_silent(client, instance->current->group)));
	return n > 0 && n >= (client->n_instances - 1) / 2;
}

/* One at a time, of the youngest free instance, while no change is in flight but for those that may hang. */
static struct helper_call *next_list(struct helper_client *client, const struct helper_instance *instance)
{
	bool is_overlapped = client->is_list_overlapped;

	FOREACH_INSTANCE (other, client) {
		if (may_hang(other->current))
			is_overlapped = true;
		else if (other->lane == HELPER_NORMAL && (other->current || (other->state == INSTANCE_READY &&
									     other->birth > instance->birth)))
			return NULL;
	}
	client->is_list_overlapped = is_overlapped;
	return TAILQ_FIRST(&client->urgent);
}

static bool is_list_in_flight(struct helper_client *client)
{
	FOREACH_INSTANCE (instance, client) {
		if (instance->current && instance->current->lane == HELPER_URGENT)
			return true;
	}
	return !TAILQ_EMPTY(&client->urgent);
}

/* The first that may be sent; of a silent group only if there is no other. */
static struct helper_call *next_call(struct helper_client *client, const struct helper_instance *instance)
{
	struct helper_call *silent = NULL;
	struct helper_call *call;

	if (instance->lane == HELPER_NORMAL && !TAILQ_EMPTY(&client->urgent))
		return client->is_list_over_rate ? NULL : next_list(client, instance);
	if (client->rate_timer || is_list_in_flight(client))
		return NULL;
	TAILQ_FOREACH (call, &client->normal, entry) {
		if (call->lane != instance->lane || is_share_taken(client, call) ||
		    is_volume_taken(client, call))
			continue;
		if (!find_silent(client, call->group))
			return call;
		if (!silent)
			silent = call;
	}
	return silent;
}

/* Replace those that have nothing in flight; of the pool one at a time, so that others serve meanwhile. */
static void roll(struct helper_client *client)
{
	FOREACH_INSTANCE (instance, client) {
		if (!instance->is_restart_wanted || instance->state != INSTANCE_READY || instance->current)
			continue;
		if (instance->lane == HELPER_NORMAL) {
			if (client->rolling)
				continue;
			client->rolling = instance;
		}
		instance_retire(instance);
	}
}

static int on_dispatch(sd_event_source *source, void *userdata)
{
	struct helper_client *client = userdata;

	roll(client);
	FOREACH_INSTANCE (instance, client) {
		struct helper_call *call;

		if (instance->state != INSTANCE_READY || instance->current)
			continue;
		call = next_call(client, instance);
		if (!call)
			continue;
		TAILQ_REMOVE(list_of(call), call, entry);
		instance_send(instance, call);
	}
	return 0;
}

/* That of NFS is started by its first request, and again by the first one after its end. */
static enum status wake_nfs(struct helper_client *client, struct error *err)
{
	struct helper_instance *instance = nfs_instance(client);

	if (instance->state != INSTANCE_NONE || instance->restart_timer)
		return STATUS_OK;
	return instance_start_soon(instance, err);
}

enum status helper_client_request(struct helper_client *client, const union helper_request *request,
				  enum helper_lane lane, const char *group, helper_done_fn *done,
				  void *userdata, struct error *err)
{
	struct helper_call *call;
	enum status status;

	if (client->info.queued >= HELPER_QUEUE_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "%d requests wait for the mount helper already", HELPER_QUEUE_MAX);
	call = calloc(1, sizeof(*call));
	if (!call)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot queue a request");
	call->client = client;
	call->request = *request;
	call->lane = lane;
	(void)str_copy(call->group, sizeof(call->group), group); /* fits: a profile's name */
	call->done = done;
	call->userdata = userdata;
	status = wakeup_arm(client->event, &call->timer, client->request_timeout_us, on_wait_timeout, call,
			    err);
	if (status == STATUS_OK && lane == HELPER_NFS)
		status = wake_nfs(client, err);
	if (status != STATUS_OK) {
		call_free(call);
		return status;
	}
	TAILQ_INSERT_TAIL(list_of(call), call, entry);
	client->info.queued++;
	client_kick(client);
	return STATUS_OK;
}

void helper_client_restart(struct helper_client *client)
{
	FOREACH_INSTANCE (instance, client) {
		instance->is_restart_wanted = instance->proc && instance->state != INSTANCE_CLOSING;
		/* what kept it from starting may be repaired; without a timer it is queued */
		if (instance->state == INSTANCE_NONE && instance->restart_timer) {
			backoff_reset(&instance->backoff);
			(void)instance_start_soon(instance, NULL);
		}
	}
	client_kick(client);
}

const struct helper_info *helper_client_info(const struct helper_client *client)
{
	return &client->info;
}

static enum status client_init(struct helper_client *client, const struct helper_client_options *options,
			       struct error *err)
{
	int r;

	client->start_timeout_us = options->start_timeout_us;
	client->request_timeout_us = options->request_timeout_us;
	TAILQ_INIT(&client->urgent);
	TAILQ_INIT(&client->normal);
	LIST_INIT(&client->abandoned);
	client->n_instances = options->instances + 1;
	for (size_t i = 0; i < options->instances; i++)
		instance_init(&client->instances[i], client, HELPER_NORMAL);
	instance_init(nfs_instance(client), client, HELPER_NFS);
	client->path = strdup(options->launch.path);
	client->launch = (struct helper_launch){.path = client->path, .is_socket = options->launch.is_socket};
	if (!client->path)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot prepare the mount helper");
	r = sd_event_add_defer(client->event, &client->dispatch, on_dispatch, client);
	if (r >= 0)
		r = sd_event_source_set_enabled(client->dispatch, SD_EVENT_OFF);
	if (r < 0)
		return error_set(err, STATUS_INTERNAL, r, "cannot prepare the mount helper");
	return STATUS_OK;
}

enum status helper_client_new(sd_event *event, const struct helper_client_options *options,
			      const struct helper_client_events *events, void *userdata,
			      struct helper_client **ret, struct error *err)
{
	assert(options->instances >= 1 && options->instances <= HELPER_POOL_MAX);

	cleanup(helper_client_freep) struct helper_client *client = calloc(1, sizeof(*client));

	if (!client)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot prepare the mount helper");
	client->event = event;
	client->events = events;
	client->userdata = userdata;
	TRY(client_init(client, options, err));
	*ret = TAKE_PTR(client);
	return STATUS_OK;
}

enum status helper_client_start(struct helper_client *client, struct error *err)
{
	enum status status = STATUS_OK;

	FOREACH_INSTANCE (instance, client) {
		if (status == STATUS_OK && instance->lane == HELPER_NORMAL)
			status = instance_start_soon(instance, err);
	}
	return status;
}

static void free_calls(struct call_list *list)
{
	struct helper_call *call;

	while ((call = TAILQ_FIRST(list))) {
		TAILQ_REMOVE(list, call, entry);
		call_free(call);
	}
}

void helper_client_free(struct helper_client *client)
{
	struct abandoned *abandoned;

	if (!client)
		return;
	FOREACH_INSTANCE (instance, client) {
		if (instance->current)
			call_free(instance->current);
		instance_release(instance);
	}
	free_calls(&client->urgent);
	free_calls(&client->normal);
	while ((abandoned = LIST_FIRST(&client->abandoned))) {
		LIST_REMOVE(abandoned, entry);
		helper_proc_free(abandoned->proc);
		free(abandoned);
	}
	sd_event_source_disable_unref(client->dispatch);
	wakeup_disarm(&client->rate_timer);
	free(client->path);
	free(client);
}

static const char *instance_state_text(const struct helper_instance *instance)
{
	static const char *const names[] = {
		[INSTANCE_NONE] = "down",
		[INSTANCE_STARTING] = "starting",
		[INSTANCE_READY] = "ready",
		[INSTANCE_CLOSING] = "ending",
	};

	if (instance->lane == HELPER_NFS && instance->state == INSTANCE_NONE && !instance->restart_timer)
		return "idle";
	return names[instance->state];
}

static void describe_instance(const struct helper_instance *instance, struct helper_instance_info *ret)
{
	const struct helper_call *call = instance->current;

	*ret = (struct helper_instance_info){
		.pid = instance->pid,
		.is_nfs = instance->lane == HELPER_NFS,
		.state = instance_state_text(instance),
		.launch_mode = instance->launch_mode,
		.restarts = instance->starts > 0 ? instance->starts - 1 : 0,
	};
	if (instance->last_error.status != STATUS_OK)
		(void)str_copy(ret->last_error, sizeof(ret->last_error), instance->last_error.msg);
	if (!call)
		return;
	ret->op = helper_op_name(call->request.header.op);
	ret->since_ms = call->sent_ms;
	(void)str_copy(ret->volume, sizeof(ret->volume), helper_request_volume(&call->request));
}

size_t helper_client_instances(const struct helper_client *client,
			       struct helper_instance_info ret[static HELPER_INSTANCES_MAX])
{
	const struct abandoned *abandoned;
	size_t n = 0;

	for (; n < client->n_instances; n++)
		describe_instance(&client->instances[n], &ret[n]);
	LIST_FOREACH (abandoned, &client->abandoned, entry) {
		if (n == HELPER_INSTANCES_MAX)
			break;
		ret[n] = (struct helper_instance_info){
			.pid = abandoned->pid,
			.is_nfs = abandoned->lane == HELPER_NFS,
			.state = "hangs",
			.launch_mode = abandoned->launch_mode,
			.op = abandoned->op ? helper_op_name(abandoned->op) : NULL,
			.since_ms = abandoned->sent_ms,
		};
		memcpy(ret[n].volume, abandoned->volume, sizeof(ret[n].volume));
		n++;
	}
	return n;
}
