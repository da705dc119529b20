/* SPDX-License-Identifier: Apache-2.0 */
/* The fencer: its session, and what it does with each node's switch. */

#include "fencer/fencer.h"

#include "base/backoff.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "fencer/agent.h"
#include "fencer/used.h"
#include "log/log.h"
#include "model/fence_order.h"
#include "model/node.h"
#include "rpc/client.h"
#include "rpc/wakeup.h"

#include <stdlib.h>
#include <string.h>
#include <ticket.h>

enum {
	HEARTBEAT_MIN_MS = 100,
	HEARTBEAT_DEFAULT_MS = 10000,
	URI_SIZE = 192,
};

#define CONNECT_TIMEOUT_US (10 * USEC_PER_SEC)
#define BACKOFF_MIN_US (500 * USEC_PER_MSEC)
#define BACKOFF_MAX_US (30 * USEC_PER_SEC)

typedef Holdfast__V1__FenceAnswer Answer;

enum work {
	WORK_NOTHING,
	WORK_CHECK, /* a look at the switch, by itself */
	WORK_ORDER,
};

/* The work on one node's switch: one action at a time. */
struct node_switch {
	struct fencer *fencer;
	const struct fencer_node *node;
	enum work work;
	struct agent_run *run; /* owned; the action in flight */
	enum agent_action action;
	struct fence_order order;
	enum fence_outcome monitor, off, status; /* so far */
	int64_t off_ms, status_ms;
	char error[AGENT_ERROR_SIZE];
	bool knows_agent; /* agent_check_metadata() */
	int64_t checked_ms;
	char check_error[AGENT_ERROR_SIZE];
};

struct fencer {
	sd_event *event; /* borrowed */
	const struct fencer_settings *settings;
	struct rpc_tls *tls;
	struct rpc_client *client;
	struct rpc_stream *stream; /* NULL: no session */
	bool is_up;
	struct backoff backoff;
	uint64_t heartbeat_us;
	sd_event_source *timer; /* owned; the next attempt, or the next heartbeat */
	struct used *used;
	struct node_switch *switches; /* of each node of the file */
	size_t next_check;	      /* in the round that goes on */
	uint64_t round_us;	      /* its beginning */
	sd_event_source *check_timer; /* owned */
	char server_uri[URI_SIZE];
};

/* --- up --- */

static int on_attempt(sd_event_source *source, uint64_t usec, void *userdata);

static void lose(struct fencer *fencer, const struct error *err)
{
	uint64_t delay_us = backoff_next(&fencer->backoff, backoff_random());
	struct error arming;

	rpc_stream_cancel(fencer->stream);
	fencer->stream = NULL;
	if (!fencer->is_up)
		rpc_client_move_on(fencer->client);
	if (err->status == STATUS_UNAUTHENTICATED) /* another certificate may be loaded meanwhile */
		rpc_client_reconnect(fencer->client);
	fencer->is_up = false;
	log_ctx(LOG_WARNING, &(struct log_ctx){.op = "session", .err = err},
		"no session with a claim server; trying again");
	if (wakeup_arm(fencer->event, &fencer->timer, delay_us, on_attempt, fencer, &arming) != STATUS_OK)
		(void)sd_event_exit(fencer->event, 1); /* the service manager begins again */
}

static void send_up(struct fencer *fencer, const Holdfast__V1__FencerUp *up)
{
	struct error err;

	if (rpc_stream_send(fencer->stream, &up->base, &err) != STATUS_OK)
		lose(fencer, &err);
}

static void fill_node(const struct node_switch *of, Holdfast__V1__FencerNode *ret)
{
	holdfast__v1__fencer_node__init(ret);
	ret->id = (char *)(uintptr_t)of->node->id; /* only read */
	ret->agent = (char *)(uintptr_t)of->node->agent;
	ret->checked_ms = of->checked_ms;
	ret->error = (char *)(uintptr_t)of->check_error;
}

static void say_node(const struct node_switch *of)
{
	Holdfast__V1__FencerUp up = HOLDFAST__V1__FENCER_UP__INIT;
	Holdfast__V1__FencerNode node;

	if (!of->fencer->is_up)
		return; /* the next hello has it */
	fill_node(of, &node);
	up.message_case = HOLDFAST__V1__FENCER_UP__MESSAGE_NODE;
	up.node = &node;
	send_up(of->fencer, &up);
}

static void send_answer(struct fencer *fencer, const struct fence_order *order, const Answer *answer)
{
	Holdfast__V1__FencerUp up = HOLDFAST__V1__FENCER_UP__INIT;
	Answer named = *answer;

	if (!fencer->is_up)
		return; /* the server sends the order again */
	named.nonce = (ProtobufCBinaryData){sizeof(order->nonce), (uint8_t *)(uintptr_t)order->nonce};
	up.message_case = HOLDFAST__V1__FENCER_UP__MESSAGE_ANSWER;
	up.answer = &named;
	send_up(fencer, &up);
}

static enum status say_hello(struct fencer *fencer, struct error *err)
{
	Holdfast__V1__FencerUp up = HOLDFAST__V1__FENCER_UP__INIT;
	Holdfast__V1__FencerHello hello = HOLDFAST__V1__FENCER_HELLO__INIT;
	size_t n = fencer->settings->n_nodes;
	cleanup_free Holdfast__V1__FencerNode *nodes = calloc(n, sizeof(*nodes));
	cleanup_free Holdfast__V1__FencerNode **list = calloc(n, sizeof(Holdfast__V1__FencerNode *));
	uint8_t keys[FENCER_KEYS_MAX * TICKET_KEY_ID_SIZE];
	static char version[] = HOLDFAST_VERSION;

	if (!nodes || !list)
		return error_no_memory(err, "a hello");
	for (size_t i = 0; i < n; i++) {
		fill_node(&fencer->switches[i], &nodes[i]);
		list[i] = &nodes[i];
	}
	for (size_t i = 0; i < fencer->settings->n_keys; i++)
		memcpy(keys + i * TICKET_KEY_ID_SIZE, fencer->settings->keys[i], TICKET_KEY_ID_SIZE);
	hello.ticket_keys = (ProtobufCBinaryData){fencer->settings->n_keys * TICKET_KEY_ID_SIZE, keys};
	hello.fencer_version = version;
	hello.nodes = list;
	hello.n_nodes = n;
	up.message_case = HOLDFAST__V1__FENCER_UP__MESSAGE_HELLO;
	up.hello = &hello;
	return rpc_stream_send(fencer->stream, &up.base, err);
}

/* --- orders --- */

static void refuse(struct fencer *fencer, const struct fence_order *order, const struct error *why)
{
	Answer answer = HOLDFAST__V1__FENCE_ANSWER__INIT;

	log_ctx(LOG_WARNING, &(struct log_ctx){.node = order->node, .op = "fence", .err = why},
		"order to %s the power of node %s refused", fence_order_action_name(order->action),
		order->node);
	answer.refused = true;
	answer.error = (char *)(uintptr_t)why->msg; /* only read */
	send_answer(fencer, order, &answer);
}

static void end_order(struct node_switch *of)
{
	Answer answer = HOLDFAST__V1__FENCE_ANSWER__INIT;
	struct fencer *fencer = of->fencer;
	struct error err;

	answer.off = (Holdfast__V1__FenceOutcome)of->off;
	answer.status = (Holdfast__V1__FenceOutcome)of->status;
	answer.monitor = (Holdfast__V1__FenceOutcome)of->monitor;
	answer.off_ms = of->off_ms;
	answer.status_ms = of->status_ms;
	answer.agent = (char *)(uintptr_t)of->node->agent; /* only read */
	answer.error = of->error;
	of->work = WORK_NOTHING;
	log_ctx(of->error[0] == '\0' ? LOG_NOTICE : LOG_ERR,
		&(struct log_ctx){.node = of->node->id, .op = "fence"},
		"order to %s the power of node %s by %s: off %s, status %s%s%s",
		fence_order_action_name(of->order.action), of->node->id, of->order.who,
		fence_outcome_name(of->off), fence_outcome_name(of->status), of->error[0] != '\0' ? ": " : "",
		of->error);
	/* an answer that is not kept is not given: a repeat of the order is unsure */
	if (of->order.action == FENCE_ORDER_OFF &&
	    used_finish(fencer->used, &of->order, &answer, &err) != STATUS_OK) {
		log_ctx(LOG_ERR, &(struct log_ctx){.node = of->node->id, .op = "fence", .err = &err},
			"cannot keep the outcome of an order");
		return;
	}
	send_answer(fencer, &of->order, &answer);
}

static void run_action(struct node_switch *of, enum agent_action action);
static void continue_checks(struct fencer *fencer);

static void end_check(struct node_switch *of, const char *error)
{
	str_copy_text(of->check_error, sizeof(of->check_error), error);
	of->checked_ms = clock_realtime_ms();
	of->work = WORK_NOTHING;
	say_node(of);
	continue_checks(of->fencer);
}

/* The agent's metadata, which come before all else. */
static enum status take_metadata(struct node_switch *of, const struct agent_result *result, struct error *err)
{
	if (result->outcome != FENCE_OUTCOME_DONE)
		return error_set(err, STATUS_UNAVAILABLE, 0, "%s", result->error);
	TRY(agent_check_metadata(result->output, of->node, err));
	of->knows_agent = true;
	return STATUS_OK;
}

static void take_check(struct node_switch *of, const struct agent_result *result)
{
	struct error err;

	if (of->action == AGENT_MONITOR)
		end_check(of, result->error);
	else if (take_metadata(of, result, &err) != STATUS_OK)
		end_check(of, err.msg);
	else
		run_action(of, AGENT_MONITOR);
}

static enum status check_end(const struct fencer *fencer, const struct fence_order *order, struct error *err)
{
	return fence_order_check_end(order, clock_realtime_ms(), used_floor_ms(fencer->used), err);
}

/* Its agent knows the node's options; nothing was touched until here. */
static enum status start_order(struct node_switch *of, struct error *err)
{
	const struct fence_order *order = &of->order;

	TRY(check_end(of->fencer, order, err));
	if (order->action == FENCE_ORDER_OFF)
		TRY(used_begin(of->fencer->used, order, clock_realtime_ms(), err));
	run_action(of, order->action == FENCE_ORDER_OFF ? AGENT_OFF : AGENT_MONITOR);
	return STATUS_OK;
}

/* The order that is in work, before anything was touched. */
static void refuse_begun(struct node_switch *of, const struct error *why)
{
	of->work = WORK_NOTHING;
	refuse(of->fencer, &of->order, why);
}

/* off, then status; monitor, then status for a test. A second action follows only a success. */
static void take_outcome(struct node_switch *of, const struct agent_result *result)
{
	bool is_first = of->action != AGENT_STATUS;
	struct error err;

	if (of->action == AGENT_METADATA) {
		if (take_metadata(of, result, &err) != STATUS_OK || start_order(of, &err) != STATUS_OK)
			refuse_begun(of, &err);
		return;
	}
	str_copy_text(of->error, sizeof(of->error), result->error);
	if (of->action == AGENT_OFF) {
		of->off = result->outcome;
		of->off_ms = clock_realtime_ms();
	} else if (of->action == AGENT_MONITOR) {
		of->monitor = result->outcome;
	} else {
		of->status = result->outcome;
		of->status_ms = clock_realtime_ms();
	}
	if (is_first && result->outcome == FENCE_OUTCOME_DONE) {
		run_action(of, AGENT_STATUS);
		return;
	}
	if (of->action == AGENT_STATUS && of->off == FENCE_OUTCOME_DONE && of->status == FENCE_OUTCOME_IS_ON)
		str_copy_text(of->error, sizeof(of->error), "the switch reports off, and its status is on");
	end_order(of);
}

static void on_result(const struct agent_result *result, void *userdata)
{
	struct node_switch *of = userdata;

	of->run = NULL;
	if (of->work == WORK_CHECK)
		take_check(of, result);
	else if (of->work == WORK_ORDER)
		take_outcome(of, result);
}

static void run_action(struct node_switch *of, enum agent_action action)
{
	struct fencer *fencer = of->fencer;
	struct agent_result result = {.outcome = FENCE_OUTCOME_FAILED, .output = ""};
	struct error err;

	of->action = action;
	if (agent_start(fencer->event, fencer->settings->agent_dir, of->node, action, on_result, of, &of->run,
			&err) == STATUS_OK)
		return;
	str_copy_text(result.error, sizeof(result.error), err.msg);
	on_result(&result, of);
}

/* NULL: the file does not name the node. */
static struct node_switch *find_switch(const struct fencer *fencer, const char *id)
{
	const struct fencer_node *node = fencer_settings_node(fencer->settings, id);

	return node ? &fencer->switches[node - fencer->settings->nodes] : NULL;
}

static bool is_running(const struct node_switch *of, const struct fence_order *order)
{
	return of && of->work == WORK_ORDER &&
	       memcmp(of->order.nonce, order->nonce, sizeof(order->nonce)) == 0;
}

static void begin_order(struct node_switch *of, const struct fence_order *order)
{
	bool was_checked = of->work == WORK_CHECK;
	struct error err;

	agent_cancel(of->run);
	of->run = NULL;
	of->work = WORK_ORDER;
	of->order = *order;
	of->monitor = of->off = of->status = FENCE_OUTCOME_NONE;
	of->off_ms = of->status_ms = 0;
	of->error[0] = '\0';
	if (!of->knows_agent)
		run_action(of, AGENT_METADATA);
	else if (start_order(of, &err) != STATUS_OK)
		refuse_begun(of, &err);
	if (was_checked)
		continue_checks(of->fencer);
}

static enum status check_order(const struct fencer *fencer, const struct fence_order *order,
			       struct error *err)
{
	const struct fence_order_place place = {.cluster = fencer->settings->cluster,
						.fencer = fencer->settings->name,
						.keys = fencer->settings->keys,
						.n_keys = fencer->settings->n_keys};

	return fence_order_check(order, &place, err);
}

/* A repeat of an order that was begun here, or may have been: the answer that there is. False: it is new. */
static bool answer_repeat(struct fencer *fencer, const struct fence_order *order)
{
	Answer unsure = HOLDFAST__V1__FENCE_ANSWER__INIT;
	enum used_state state = USED_BEGUN;
	Answer *kept = NULL;
	struct error err;

	(void)error_set(&err, STATUS_UNKNOWN, 0,
			"the fencer was interrupted after it began; the node may be off");
	if (used_look(fencer->used, order, &state, &kept, &err) == STATUS_OK && state == USED_NEW)
		return false;
	unsure.unsure = true;
	unsure.error = err.msg;
	send_answer(fencer, order, kept ? kept : &unsure);
	holdfast__v1__fence_answer__free_unpacked(kept, NULL);
	return true;
}

/* Time counts only for an order that was not begun: the answer of another one is due for ever. A test, which
 * changes nothing, makes way for an order to switch off. */
static enum status take_new_order(struct fencer *fencer, const struct fence_order *order, struct error *err)
{
	struct node_switch *of = find_switch(fencer, order->node);

	if (!of)
		return error_set(err, STATUS_NOT_FOUND, 0, "%s has no node %s", fencer->settings->path,
				 order->node);
	TRY(check_end(fencer, order, err));
	if (of->work == WORK_ORDER) {
		(void)error_set(err, STATUS_FAILED_PRECONDITION, 0,
				"another order for node %s is in flight; ask again", order->node);
		if (of->order.action != FENCE_ORDER_TEST || order->action != FENCE_ORDER_OFF)
			return err->status;
		refuse(fencer, &of->order, err);
	}
	begin_order(of, order);
	return STATUS_OK;
}

static void take_order(struct fencer *fencer, const ProtobufCBinaryData *bytes)
{
	struct fence_order order;
	enum status status;
	struct error err;

	if (fence_order_read(bytes->data, bytes->len, &order, &err) != STATUS_OK) {
		log_ctx(LOG_ERR, &(struct log_ctx){.op = "fence", .err = &err}, "an order is not readable");
		return;
	}
	status = check_order(fencer, &order, &err);
	if (status == STATUS_OK && is_running(find_switch(fencer, order.node), &order))
		return; /* its answer follows */
	if (status == STATUS_OK && order.action == FENCE_ORDER_OFF && answer_repeat(fencer, &order))
		return;
	if (status == STATUS_OK)
		status = take_new_order(fencer, &order, &err);
	if (status != STATUS_OK)
		refuse(fencer, &order, &err);
}

/* --- checks: one switch at a time, each once in a round, which begins every check_interval or later --- */

static int on_check(sd_event_source *source, uint64_t usec, void *userdata);

static void arm_checks(struct fencer *fencer, uint64_t delay_us)
{
	struct error err;

	if (wakeup_arm(fencer->event, &fencer->check_timer, delay_us, on_check, fencer, &err) != STATUS_OK)
		(void)sd_event_exit(fencer->event, 1); /* the service manager begins again */
}

/* From the event loop: a switch whose agent cannot be run is no reason to go deeper. */
static void continue_checks(struct fencer *fencer)
{
	uint64_t end_us = fencer->round_us + fencer->settings->check_interval_us;
	bool has_more = fencer->next_check < fencer->settings->n_nodes;
	uint64_t now_us = clock_monotonic_us();

	arm_checks(fencer, has_more || now_us >= end_us ? 0 : end_us - now_us);
}

static int on_check(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct fencer *fencer = userdata;

	if (fencer->next_check == fencer->settings->n_nodes)
		fencer->next_check = 0;
	if (fencer->next_check == 0)
		fencer->round_us = clock_monotonic_us();
	while (fencer->next_check < fencer->settings->n_nodes) {
		struct node_switch *of = &fencer->switches[fencer->next_check++];

		if (of->work != WORK_NOTHING)
			continue;
		of->work = WORK_CHECK;
		run_action(of, of->knows_agent ? AGENT_MONITOR : AGENT_METADATA);
		return 0; /* continues when that has ended */
	}
	continue_checks(fencer);
	return 0;
}

/* --- the session --- */

static int on_heartbeat(sd_event_source *source, uint64_t usec, void *userdata)
{
	Holdfast__V1__FencerHeartbeat heartbeat = HOLDFAST__V1__FENCER_HEARTBEAT__INIT;
	Holdfast__V1__FencerUp up = HOLDFAST__V1__FENCER_UP__INIT;
	struct fencer *fencer = userdata;
	struct error err;

	backoff_reset(&fencer->backoff);
	up.message_case = HOLDFAST__V1__FENCER_UP__MESSAGE_HEARTBEAT;
	up.heartbeat = &heartbeat;
	if (wakeup_arm(fencer->event, &fencer->timer, fencer->heartbeat_us, on_heartbeat, fencer, &err) !=
	    STATUS_OK) {
		lose(fencer, &err);
		return 0;
	}
	send_up(fencer, &up);
	return 0;
}

/* Orders expire by this machine's clock. */
static void check_clock(int64_t server_ms)
{
	int64_t skew_ms = clock_realtime_ms() - server_ms;
	char text[NODE_CLOCK_TEXT_SIZE];

	if (node_clock_is_off(skew_ms))
		log_line(LOG_WARNING,
			 "this machine's clock is %s the server's; orders expire by this one. Set "
			 "the one that is wrong (chronyc makestep)",
			 node_clock_text(skew_ms, text));
}

static enum status take_welcome(struct fencer *fencer, const Holdfast__V1__FencerWelcome *welcome,
				struct error *err)
{
	uint32_t heartbeat_ms = welcome->heartbeat_ms;

	if (!str_eq(welcome->cluster, fencer->settings->cluster))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "the server is of cluster '%.64s', this fencer of '%s'", welcome->cluster,
				 fencer->settings->cluster);
	if (heartbeat_ms < HEARTBEAT_MIN_MS)
		heartbeat_ms = HEARTBEAT_DEFAULT_MS;
	fencer->heartbeat_us = heartbeat_ms * USEC_PER_MSEC;
	rpc_client_set_keepalive(fencer->client, fencer->heartbeat_us);
	TRY(wakeup_arm(fencer->event, &fencer->timer, fencer->heartbeat_us, on_heartbeat, fencer, err));
	fencer->is_up = true;
	check_clock(welcome->clock_ms);
	log_line(LOG_NOTICE, "the session with the claim server at %s is established",
		 rpc_client_server(fencer->client));
	return STATUS_OK;
}

static int on_welcome_overdue(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct error err;

	(void)error_set(&err, STATUS_DEADLINE_EXCEEDED, 0, "the server did not send welcome in time");
	lose(userdata, &err);
	return 0;
}

static void on_open(struct rpc_stream *stream, void *userdata)
{
	struct fencer *fencer = userdata;
	struct error err;

	if (say_hello(fencer, &err) != STATUS_OK ||
	    wakeup_arm(fencer->event, &fencer->timer, CONNECT_TIMEOUT_US, on_welcome_overdue, fencer, &err) !=
		    STATUS_OK)
		lose(fencer, &err);
}

static void on_message(struct rpc_stream *stream, const ProtobufCMessage *message, void *userdata)
{
	const Holdfast__V1__FencerDown *down = (const void *)message;
	struct fencer *fencer = userdata;
	struct error err;

	if (down->message_case == HOLDFAST__V1__FENCER_DOWN__MESSAGE_WELCOME && !fencer->is_up) {
		if (take_welcome(fencer, down->welcome, &err) != STATUS_OK)
			lose(fencer, &err);
	} else if (down->message_case == HOLDFAST__V1__FENCER_DOWN__MESSAGE_ORDER && fencer->is_up) {
		take_order(fencer, &down->order);
	} /* a kind that a later server may send is ignored */
}

static void on_closed(struct rpc_stream *stream, enum status status, const struct error *err, void *userdata)
{
	struct fencer *fencer = userdata;
	struct error ended;

	fencer->stream = NULL;
	if (!err) {
		(void)error_set(&ended, STATUS_UNAVAILABLE, 0, "the server ended the session");
		err = &ended;
	}
	lose(fencer, err);
}

/* A certificate is replaced while the fencer runs. */
static void use_replaced(struct fencer *fencer)
{
	struct error err;

	if (!rpc_tls_has_changed(fencer->tls))
		return;
	if (rpc_tls_reload(fencer->tls, &err) == STATUS_OK)
		log_line(LOG_NOTICE, "%s was replaced and is in use for new connections",
			 fencer->settings->cert);
	else /* the other half may follow */
		log_ctx(LOG_WARNING, &(struct log_ctx){.op = "session", .err = &err},
			"a certificate was replaced; the one before stays in use");
}

static int on_attempt(sd_event_source *source, uint64_t usec, void *userdata)
{
	static const struct rpc_stream_events events = {
		.on_open = on_open, .on_message = on_message, .on_closed = on_closed};
	struct fencer *fencer = userdata;
	struct error err;

	wakeup_disarm(&fencer->timer);
	use_replaced(fencer);
	if (rpc_stream_open(fencer->client, &holdfast__v1__fences__descriptor, "Session", CONNECT_TIMEOUT_US,
			    &events, fencer, &fencer->stream, &err) != STATUS_OK)
		lose(fencer, &err);
	return 0;
}

/* --- the whole --- */

static enum status make_client(struct fencer *fencer, struct error *err)
{
	const struct fencer_settings *settings = fencer->settings;
	const struct rpc_tls_files files = {.ca = settings->ca, .cert = settings->cert, .key = settings->key};
	struct rpc_endpoint endpoint = {.servers = settings->servers,
					.n_servers = settings->n_servers,
					.server_uri = fencer->server_uri};

	if (rpc_tls_new(&files, &fencer->tls, err) != STATUS_OK)
		return err ? error_prefix(err, "tls in %s", settings->path) : STATUS_INTERNAL;
	endpoint.tls = fencer->tls;
	(void)str_format(fencer->server_uri, sizeof(fencer->server_uri), "holdfast://%s/server/",
			 settings->cluster);
	return rpc_client_new(fencer->event, &endpoint, &fencer->client, err);
}

static enum status build(struct fencer *fencer, struct error *err)
{
	fencer->switches = calloc(fencer->settings->n_nodes, sizeof(*fencer->switches));
	if (!fencer->switches)
		return error_no_memory(err, "the switches");
	for (size_t i = 0; i < fencer->settings->n_nodes; i++) {
		fencer->switches[i].fencer = fencer;
		fencer->switches[i].node = &fencer->settings->nodes[i];
	}
	TRY(used_open(fencer->settings->state_dir, &fencer->used, err));
	TRY(make_client(fencer, err));
	TRY(wakeup_arm(fencer->event, &fencer->check_timer, 0, on_check, fencer, err));
	return wakeup_arm(fencer->event, &fencer->timer, 0, on_attempt, fencer, err);
}

enum status fencer_new(sd_event *event, const struct fencer_settings *settings, struct fencer **ret,
		       struct error *err)
{
	struct fencer *fencer = calloc(1, sizeof(*fencer));
	enum status status;

	if (!fencer)
		return error_no_memory(err, "the fencer");
	fencer->event = event;
	fencer->settings = settings;
	fencer->backoff = (struct backoff)BACKOFF_INIT(BACKOFF_MIN_US, BACKOFF_MAX_US);
	status = build(fencer, err);
	if (status == STATUS_OK)
		*ret = fencer;
	else
		fencer_free(fencer);
	return status;
}

void fencer_free(struct fencer *fencer)
{
	if (!fencer)
		return;
	wakeup_disarm(&fencer->timer);
	wakeup_disarm(&fencer->check_timer);
	for (size_t i = 0; fencer->switches && i < fencer->settings->n_nodes; i++)
		agent_cancel(fencer->switches[i].run);
	free(fencer->switches);
	rpc_stream_cancel(fencer->stream);
	rpc_client_free(fencer->client);
	rpc_tls_free(fencer->tls);
	used_free(fencer->used);
	free(fencer);
}
