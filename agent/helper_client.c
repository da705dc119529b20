#include "helper_client.h"

#include "backoff.h"
#include "helper_proc.h"
#include "wakeup.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

enum instance_state {
	INSTANCE_NONE,	   /* no instance; perhaps waiting to start one */
	INSTANCE_STARTING, /* waiting for HELLO */
	INSTANCE_READY,	   /* HELLO acknowledged */
	INSTANCE_CLOSING,  /* its socket is closed, its end not yet seen */
};

struct helper_call {
	TAILQ_ENTRY(helper_call) entry;
	struct helper_client *client;
	union helper_request request;
	helper_done_fn *done;
	void *userdata;
	struct call_list *list; /* where it waits */
	sd_event_source *timer;
	unsigned int deaths; /* instances that died with it under way */
};

TAILQ_HEAD(call_list, helper_call);

struct abandoned {
	LIST_ENTRY(abandoned) entry;
	struct helper_proc *proc;
};

struct helper_client {
	sd_event *event; /* borrowed */
	const struct helper_client_events *events;
	void *userdata;
	char *path;
	uint64_t start_timeout_us;
	uint64_t request_timeout_us;
	enum instance_state state;
	struct helper_proc *proc;
	struct helper_call *current; /* under way, or to be repeated first */
	bool current_is_sent;
	uint64_t seq; /* of the last request on this connection */
	struct call_list urgent, normal;
	struct backoff backoff;
	sd_event_source *restart_timer;
	sd_event_source *start_timer;
	sd_event_source *dispatch; /* deferred: sends the next request */
	LIST_HEAD(, abandoned) abandoned;
	struct helper_info info;
};

DEFINE_CLEANUP(struct helper_client, helper_client_free)

static void start_instance(struct helper_client *client);
static int on_request_timeout(sd_event_source *source, uint64_t usec, void *userdata);

static void call_free(struct helper_call *call)
{
	wakeup_disarm(&call->timer);
	free(call);
}

/* The call is gone afterwards; its callback may queue others. */
static void call_finish(struct helper_call *call, const union helper_reply *reply, const struct error *err)
{
	helper_done_fn *done = call->done;
	void *userdata = call->userdata;

	call->client->info.queued--;
	call_free(call);
	done(reply, err, userdata);
}

static void kick(struct helper_client *client)
{
	/* cannot fail for a source that exists and is not floating */
	(void)sd_event_source_set_enabled(client->dispatch, SD_EVENT_ONESHOT);
}

static void note_failure(struct helper_client *client, const struct error *err)
{
	client->info.last_error = *err;
	if (client->info.failures < UINT32_MAX)
		client->info.failures++;
}

static int on_restart(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct helper_client *client = userdata;

	wakeup_disarm(&client->restart_timer);
	start_instance(client);
	return 0;
}

/* No instance is left: tell, and start another one after a delay. */
static void go_down(struct helper_client *client, const struct error *why)
{
	uint64_t delay_us = backoff_next(&client->backoff, backoff_random());
	struct error err;

	client->state = INSTANCE_NONE;
	client->info.is_running = false;
	client->info.pid = 0;
	note_failure(client, why);
	if (wakeup_arm(client->event, &client->restart_timer, delay_us, on_restart, client, &err) !=
	    STATUS_OK)
		client->info.last_error = err;
	client->events->on_down(why, client->userdata);
}

/* The instance has gone: what was under way goes to the next one, unless it has killed two. */
static void requeue_current(struct helper_client *client, const struct error *why)
{
	struct helper_call *call = client->current;
	struct error err;

	if (!call || !client->current_is_sent)
		return;
	client->current_is_sent = false;
	/* without a timer it waits for the next instance, however long */
	(void)wakeup_arm(client->event, &call->timer, client->request_timeout_us, on_request_timeout, call,
			 NULL);
	if (++call->deaths < 2)
		return;
	client->current = NULL;
	err = *why;
	err.status = STATUS_UNAVAILABLE;
	(void)error_prefix(&err, "%s was sent to two instances of the mount helper and both ended",
			   helper_op_name(call->request.header.op));
	call_finish(call, NULL, &err);
}

static void on_proc_gone(struct helper_proc *proc, bool still_running, const struct error *err,
			 void *userdata)
{
	struct helper_client *client = userdata;
	struct abandoned *abandoned;

	assert(proc == client->proc);
	wakeup_disarm(&client->start_timer);
	client->proc = NULL;
	if (!still_running) {
		helper_proc_free(proc);
	} else {
		abandoned = calloc(1, sizeof(*abandoned));
		if (abandoned) {
			abandoned->proc = proc;
			LIST_INSERT_HEAD(&client->abandoned, abandoned, entry);
			client->info.abandoned++;
		} else {
			helper_proc_free(proc);
		}
	}
	requeue_current(client, err);
	go_down(client, err);
}

static void on_proc_reaped(struct helper_proc *proc, void *userdata)
{
	struct helper_client *client = userdata;
	struct abandoned *abandoned;

	LIST_FOREACH (abandoned, &client->abandoned, entry) {
		if (abandoned->proc == proc)
			break;
	}
	if (abandoned) {
		LIST_REMOVE(abandoned, entry);
		free(abandoned);
		client->info.abandoned--;
	}
	helper_proc_free(proc);
}

static void give_up_instance(struct helper_client *client, const struct error *why)
{
	client->state = INSTANCE_CLOSING;
	client->info.is_running = false;
	helper_proc_close(client->proc, why);
}

static int on_start_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct helper_client *client = userdata;
	char text[CLOCK_TEXT_SIZE];
	struct error err;

	wakeup_disarm(&client->start_timer);
	(void)error_set(&err, STATUS_DEADLINE_EXCEEDED, 0,
			"the mount helper %s (pid %d) did not say HELLO within %s (helper.start_timeout)",
			client->path, helper_proc_pid(client->proc),
			clock_format_duration(client->start_timeout_us, text));
	give_up_instance(client, &err);
	return 0;
}

static void send_ack(struct helper_client *client)
{
	union helper_request ack;
	struct error err;

	helper_request_ack(&ack);
	helper_request_seal(&ack, ++client->seq);
	if (helper_proc_send(client->proc, &ack, ack.header.length, &err) != STATUS_OK)
		give_up_instance(client, &err);
}

static void on_hello(struct helper_client *client, const void *bytes, size_t n)
{
	struct helper_info *info = &client->info;
	struct mh_hello hello;
	struct error err;

	wakeup_disarm(&client->start_timer);
	if (helper_hello_check(bytes, n, &hello, &err) != STATUS_OK) {
		give_up_instance(client, &err);
		return;
	}
	info->is_running = true;
	info->pid = helper_proc_pid(client->proc);
	info->door = hello.door;
	info->container = hello.container == 1;
	info->ticket_optional = hello.ticket_optional == 1;
	memcpy(info->cluster, hello.cluster, sizeof(info->cluster));
	memcpy(info->node, hello.node, sizeof(info->node));
	memcpy(info->publish_base, hello.publish_base, sizeof(info->publish_base));
	hex_encode(info->policy_digest, hello.policy_digest, sizeof(hello.policy_digest));
	client->state = INSTANCE_READY;
	send_ack(client);
	if (client->state != INSTANCE_READY)
		return;
	kick(client);
	client->events->on_ready(client->userdata);
}

static void on_reply(struct helper_client *client, const void *bytes, size_t n)
{
	struct helper_call *call = client->current;
	union helper_reply reply;
	struct error err;

	if (!call || !client->current_is_sent) {
		(void)error_set(&err, STATUS_DATA_LOSS, 0,
				"the mount helper sent a message that nobody asked for");
		give_up_instance(client, &err);
		return;
	}
	if (helper_reply_check(bytes, n, &call->request, &reply, &err) != STATUS_OK) {
		give_up_instance(client, &err);
		return;
	}
	client->current = NULL;
	client->current_is_sent = false;
	backoff_reset(&client->backoff);
	client->info.failures = 0;
	client->info.last_error = (struct error){0};
	kick(client);
	call_finish(call, &reply, NULL);
}

static void on_proc_message(struct helper_proc *proc, const void *bytes, size_t n, void *userdata)
{
	struct helper_client *client = userdata;

	switch (client->state) {
	case INSTANCE_STARTING:
		on_hello(client, bytes, n);
		return;
	case INSTANCE_READY:
		on_reply(client, bytes, n);
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

static void start_instance(struct helper_client *client)
{
	struct error err;

	assert(!client->proc);
	if (client->info.abandoned >= HELPER_ABANDONED_MAX) {
		(void)error_set(
			&err, STATUS_UNAVAILABLE, 0,
			"%u instances of the mount helper hang in the kernel, no other one is started: see "
			"their stack in /proc/PID/stack, and the device or server behind the volumes",
			client->info.abandoned);
		go_down(client, &err);
		return;
	}
	if (helper_proc_start(client->event, client->path, &proc_events, client, &client->proc, &err) !=
	    STATUS_OK) {
		go_down(client, &err);
		return;
	}
	client->seq = 0;
	client->state = INSTANCE_STARTING;
	client->info.pid = helper_proc_pid(client->proc);
	client->info.starts++;
	if (wakeup_arm(client->event, &client->start_timer, client->start_timeout_us, on_start_timeout,
		       client, &err) != STATUS_OK)
		give_up_instance(client, &err);
}

static int on_request_timeout(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct helper_call *call = userdata;
	struct helper_client *client = call->client;
	char text[CLOCK_TEXT_SIZE];
	struct error err;

	(void)clock_format_duration(client->request_timeout_us, text);
	if (call != client->current) {
		TAILQ_REMOVE(call->list, call, entry);
		(void)error_set(&err, STATUS_DEADLINE_EXCEEDED, 0,
				"%s waited %s for the mount helper (helper.request_timeout)%s%s",
				helper_op_name(call->request.header.op), text,
				client->info.last_error.status != STATUS_OK ? "; " : "",
				client->info.last_error.msg);
	} else {
		client->current = NULL;
		(void)error_set(&err, STATUS_DEADLINE_EXCEEDED, 0,
				"the mount helper did not answer %s within %s (helper.request_timeout)",
				helper_op_name(call->request.header.op), text);
		if (client->current_is_sent)
			give_up_instance(client, &err);
		client->current_is_sent = false;
	}
	call_finish(call, NULL, &err);
	return 0;
}

static struct helper_call *take_next(struct helper_client *client)
{
	struct call_list *list = TAILQ_EMPTY(&client->urgent) ? &client->normal : &client->urgent;
	struct helper_call *call = TAILQ_FIRST(list);

	if (call)
		TAILQ_REMOVE(list, call, entry);
	return call;
}

static int on_dispatch(sd_event_source *source, void *userdata)
{
	struct helper_client *client = userdata;
	struct helper_call *call;
	struct error err;

	if (client->state != INSTANCE_READY || client->current_is_sent)
		return 0;
	if (!client->current)
		client->current = take_next(client);
	call = client->current;
	if (!call)
		return 0;
	helper_request_seal(&call->request, ++client->seq);
	client->current_is_sent = true;
	if (helper_proc_send(client->proc, &call->request, call->request.header.length, &err) != STATUS_OK ||
	    wakeup_arm(client->event, &call->timer, client->request_timeout_us, on_request_timeout, call,
		       &err) != STATUS_OK)
		give_up_instance(client, &err);
	return 0;
}

enum status helper_client_request(struct helper_client *client, const union helper_request *request,
				  enum helper_priority priority, helper_done_fn *done, void *userdata,
				  struct error *err)
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
	call->done = done;
	call->userdata = userdata;
	status = wakeup_arm(client->event, &call->timer, client->request_timeout_us, on_request_timeout, call,
			    err);
	if (status != STATUS_OK) {
		call_free(call);
		return status;
	}
	call->list = priority == HELPER_URGENT ? &client->urgent : &client->normal;
	TAILQ_INSERT_TAIL(call->list, call, entry);
	client->info.queued++;
	kick(client);
	return STATUS_OK;
}

const struct helper_info *helper_client_info(const struct helper_client *client)
{
	return &client->info;
}

enum status helper_client_new(sd_event *event, const struct helper_client_options *options,
			      const struct helper_client_events *events, void *userdata,
			      struct helper_client **ret, struct error *err)
{
	cleanup(helper_client_freep) struct helper_client *client = NULL;
	int r;

	client = calloc(1, sizeof(*client));
	if (client)
		client->path = strdup(options->path);
	if (!client || !client->path)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot prepare the mount helper");
	client->event = event;
	client->events = events;
	client->userdata = userdata;
	client->start_timeout_us = options->start_timeout_us;
	client->request_timeout_us = options->request_timeout_us;
	client->backoff = (struct backoff)BACKOFF_INIT(HELPER_RESTART_MIN_MS * USEC_PER_MSEC,
						       HELPER_RESTART_MAX_MS * USEC_PER_MSEC);
	TAILQ_INIT(&client->urgent);
	TAILQ_INIT(&client->normal);
	LIST_INIT(&client->abandoned);
	r = sd_event_add_defer(event, &client->dispatch, on_dispatch, client);
	if (r >= 0)
		r = sd_event_source_set_enabled(client->dispatch, SD_EVENT_OFF);
	if (r < 0)
		return error_set(err, STATUS_INTERNAL, r, "cannot prepare the mount helper");
	*ret = TAKE_PTR(client);
	return STATUS_OK;
}

enum status helper_client_start(struct helper_client *client, struct error *err)
{
	return wakeup_arm(client->event, &client->restart_timer, 0, on_restart, client, err);
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
	if (client->current)
		call_free(client->current);
	free_calls(&client->urgent);
	free_calls(&client->normal);
	while ((abandoned = LIST_FIRST(&client->abandoned))) {
		LIST_REMOVE(abandoned, entry);
		helper_proc_free(abandoned->proc);
		free(abandoned);
	}
	helper_proc_free(client->proc);
	wakeup_disarm(&client->restart_timer);
	wakeup_disarm(&client->start_timer);
	sd_event_source_disable_unref(client->dispatch);
	free(client->path);
	free(client);
}
