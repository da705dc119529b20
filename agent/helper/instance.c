/* SPDX-License-Identifier: Apache-2.0 */
#include "helper/instance.h"

#include "base/clock.h"
#include "base/str.h"
#include "helper/door_fault.h"
#include "helper/end.h"
#include "rpc/wakeup.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void start(struct helper_instance *instance);

static int on_restart(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct helper_instance *instance = userdata;

	wakeup_disarm(&instance->restart_timer);
	start(instance);
	return 0;
}

enum status instance_start_soon(struct helper_instance *instance, struct error *err)
{
	assert(instance->state == INSTANCE_NONE);
	return wakeup_arm(instance->client->event, &instance->restart_timer, 0, on_restart, instance, err);
}

/* Nothing is left of it: tell, and start another one after a delay. */
static void go_down(struct helper_instance *instance, const struct error *why)
{
	uint64_t delay_us = backoff_next(&instance->backoff, backoff_random());
	struct error err;

	instance->state = INSTANCE_NONE;
	instance->pid = 0;
	instance->has_failed = true;
	instance->last_error = *why;
	if (wakeup_arm(instance->client->event, &instance->restart_timer, delay_us, on_restart, instance,
		       &err) != STATUS_OK)
		instance->last_error = err;
	client_on_down(instance, why);
}

/* Keep what hangs in sight. */
static void abandon(struct helper_instance *instance, struct helper_proc *proc)
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
	abandoned->door = instance->door;
	abandoned->op = instance->given_up_op;
	memcpy(abandoned->volume, instance->given_up_volume, sizeof(abandoned->volume));
	abandoned->sent_ms = instance->given_up_ms;
	LIST_INSERT_HEAD(&client->abandoned, abandoned, entry);
	client->info.abandoned++;
}

static void on_proc_gone(struct helper_proc *proc, bool still_running, const struct error *err,
			 void *userdata)
{
	struct helper_instance *instance = userdata;
	struct helper_call *call = instance->current;
	struct error why = *err;

	assert(proc == instance->proc);
	if (instance->state == INSTANCE_STARTING && instance->client->door.is_socket)
		door_fault_explain_self(&instance->client->door, NULL, &why);
	wakeup_disarm(&instance->start_timer);
	instance->proc = NULL;
	if (still_running)
		abandon(instance, proc);
	else
		helper_proc_free(proc);
	instance->given_up_op = 0;
	if (instance->is_retiring) {
		instance->is_retiring = false;
		instance->state = INSTANCE_NONE;
		instance->pid = 0;
		start(instance);
		return;
	}
	instance->current = NULL;
	if (call)
		client_repeat(call, &why);
	go_down(instance, &why);
}

static void on_proc_reaped(struct helper_proc *proc, void *userdata)
{
	struct helper_instance *instance = userdata;

	client_on_abandoned_end(instance->client, proc);
	helper_proc_free(proc);
}

/* What it was doing, for those who look at one that hangs. */
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

void instance_give_up(struct helper_instance *instance, const struct error *why)
{
	if (instance->state == INSTANCE_CLOSING)
		return;
	note_given_up(instance);
	instance->state = INSTANCE_CLOSING;
	client_refresh(instance->client);
	helper_proc_close(instance->proc, why);
}

void instance_retire(struct helper_instance *instance)
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
			"the mount helper %s did not say HELLO within %s (helper.start_timeout)",
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
		door_fault_explain_self(&instance->client->door, &failure, &err);
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
	instance->door = hello.door;
	instance->state = INSTANCE_READY;
	client_note_head(instance, hello.record, hello.head);
	send_ack(instance);
	if (instance->state != INSTANCE_READY)
		return;
	client_on_ready(instance, &hello);
	instance->has_failed = false;
}

static void on_reply(struct helper_instance *instance, const void *bytes, size_t n)
{
	struct helper_call *call = instance->current;
	union helper_reply reply;
	struct error err;

	if (!call) {
		(void)error_set(&err, STATUS_DATA_LOSS, 0,
				"the mount helper sent a message that nobody asked for");
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

static void start(struct helper_instance *instance)
{
	struct helper_client *client = instance->client;
	struct error err;

	assert(!instance->proc);
	instance->seq = 0;
	instance->known_record = client->info.head.record;
	if (instance->lane == HELPER_NFS && !client_has_work(client, HELPER_NFS))
		return;
	if (!client_may_start(client, instance->lane, &err) ||
	    helper_proc_start(client->event, &client->door, &proc_events, instance, &instance->proc, &err) !=
		    STATUS_OK) {
		go_down(instance, &err);
		return;
	}
	instance->state = INSTANCE_STARTING;
	instance->is_restart_wanted = false;
	instance->door = 0;
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
	client_finish(call, NULL, &err);
	return 0;
}

void instance_send(struct helper_instance *instance, struct helper_call *call)
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

void instance_init(struct helper_instance *instance, struct helper_client *client, enum helper_lane lane)
{
	*instance = (struct helper_instance){
		.client = client,
		.lane = lane,
		.backoff = BACKOFF_INIT(HELPER_RESTART_MIN_MS * USEC_PER_MSEC,
					HELPER_RESTART_MAX_MS * USEC_PER_MSEC),
	};
}

void instance_release(struct helper_instance *instance)
{
	helper_proc_free(instance->proc);
	wakeup_disarm(&instance->restart_timer);
	wakeup_disarm(&instance->start_timer);
}
