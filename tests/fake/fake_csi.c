/* SPDX-License-Identifier: Apache-2.0 */
#include "fake_csi.h"

#include "fake_csi_model.h"
#include "unit.h"

#include "base/clock.h"
#include "rpc/message_text.h"

#include <assert.h>
#include <sys/queue.h>

struct fake_csi fake_csi;

enum { FAKE_TIMEOUT_US = 120 * 1000 * 1000, FAKE_ACCURACY_US = 1000 };

enum call_state {
	CALL_NEW,     /* until the event loop runs */
	CALL_HANGING, /* until its deadline */
	CALL_HELD,    /* until fake_csi_answer() */
};

struct service_call {
	TAILQ_ENTRY(service_call) entry;
	struct service_client *client;
	enum csi_method method;
	ProtobufCMessage *request;
	service_done_fn *done;
	void *userdata;
	uint64_t timeout_us;
	enum call_state state;
	bool is_begun; /* the plugin has seen it */
	bool is_done;  /* answer is what came of it */
	enum status status;
	struct error err;
	uint8_t *answer;
	size_t answer_len;
	sd_event_source *timer;
	int64_t since_ms;
};

TAILQ_HEAD(call_list, service_call);

struct service_client {
	LIST_ENTRY(service_client) entry;
	sd_event *event;
	char plugin_id[128];
	char socket[108];
	void (*on_lost)(void *userdata);
	void *userdata;
	bool is_connected;
	sd_event_source *lost;
	struct call_list calls;
	struct service_stats stats;
};

static LIST_HEAD(client_list, service_client) clients = LIST_HEAD_INITIALIZER(clients);

static struct fake_csi_plugin *find_plugin(const char *socket)
{
	for (size_t i = 0; i < fake_csi.n_plugins; i++)
		if (str_eq(fake_csi.plugins[i].socket, socket))
			return &fake_csi.plugins[i];
	return NULL;
}

static void call_free(struct service_call *call)
{
	TAILQ_REMOVE(&call->client->calls, call, entry);
	call->client->stats.in_flight--;
	if (call->is_begun)
		fake_csi_end(call->method, call->request);
	sd_event_source_disable_unref(call->timer);
	message_text_wipe(call->request);
	protobuf_c_message_free_unpacked(call->request, NULL);
	free(call->answer);
	free(call);
}

static void perform(struct service_call *call, struct fake_csi_plugin *plugin)
{
	struct error err;

	if (call->is_done)
		return;
	call->is_done = true;
	call->status =
		fake_csi_perform(plugin, call->method, call->request, &call->answer, &call->answer_len, &err);
	if (call->status != STATUS_OK)
		(void)error_set(&call->err, call->status, 0, "plugin %s: %s: %s", call->client->plugin_id,
				fake_csi_methods[call->method].name, err.msg);
}

/* Tell the caller what was made of it. */
static void finish(struct service_call *call)
{
	const ProtobufCMessageDescriptor *type = fake_csi_methods[call->method].response;
	service_done_fn *done = call->done;
	void *userdata = call->userdata;
	enum status status = call->status;
	struct error err = call->err;
	ProtobufCMessage *answer = NULL;

	if (status == STATUS_OK)
		answer = protobuf_c_message_unpack(type, NULL, call->answer_len, call->answer);
	else
		call->client->stats.failed++;
	call_free(call);
	done(answer, status == STATUS_OK ? NULL : &err, userdata);
	protobuf_c_message_free_unpacked(answer, NULL);
}

static void finish_with(struct service_call *call, enum status status, const char *text)
{
	call->status = status;
	if (status != STATUS_OK)
		(void)error_set(&call->err, status, 0, "plugin %s: %s: %s", call->client->plugin_id,
				fake_csi_methods[call->method].name, text);
	finish(call);
}

static void expire(struct service_call *call)
{
	finish_with(call, STATUS_DEADLINE_EXCEEDED, "no answer in time, what it did is unknown");
}

static int on_deadline(sd_event_source *source, uint64_t usec, void *userdata)
{
	expire(userdata);
	return 0;
}

static void let_wait(struct service_call *call, enum call_state state)
{
	uint64_t delay_us = call->timeout_us;
	int r;

	if (fake_csi.patience_us != 0 && delay_us > fake_csi.patience_us)
		delay_us = fake_csi.patience_us;
	call->state = state;
	sd_event_source_disable_unref(call->timer);
	call->timer = NULL;
	r = sd_event_add_time_relative(call->client->event, &call->timer, CLOCK_MONOTONIC, delay_us,
				       FAKE_ACCURACY_US, on_deadline, call);
	assert(r >= 0);
	(void)r;
}

/* Empty answer, nothing done. */
static void lie(struct service_call *call)
{
	call->is_done = true;
	finish_with(call, STATUS_OK, "");
}

static void obey(struct service_call *call, struct fake_csi_plugin *plugin,
		 const struct fake_csi_orders *orders)
{
	const char *text = orders->text ? orders->text : "";

	switch (orders->way) {
	case FAKE_CSI_FAIL_DONE:
		perform(call, plugin);
		finish_with(call, orders->code, text);
		return;
	case FAKE_CSI_FAIL:
		finish_with(call, orders->code, text);
		return;
	case FAKE_CSI_HANG_DONE:
		perform(call, plugin);
		let_wait(call, CALL_HANGING);
		return;
	case FAKE_CSI_HANG:
		let_wait(call, CALL_HANGING);
		return;
	case FAKE_CSI_HOLD_DONE:
		perform(call, plugin);
		let_wait(call, CALL_HELD);
		return;
	case FAKE_CSI_HOLD:
		let_wait(call, CALL_HELD);
		return;
	case FAKE_CSI_LIE:
		lie(call);
		return;
	case FAKE_CSI_VANISH_DONE:
		perform(call, plugin);
		fake_csi_set_up(plugin, false);
		return;
	case FAKE_CSI_VANISH:
		fake_csi_set_up(plugin, false);
		return;
	case FAKE_CSI_OK:
	case FAKE_CSI_WAY_N:
		break;
	}
	perform(call, plugin);
	finish(call);
}

static void refuse(struct service_call *call, int sys_errno)
{
	call->status = error_set(&call->err, STATUS_UNAVAILABLE, sys_errno, "plugin %s: %s: cannot connect",
				 call->client->plugin_id, fake_csi_methods[call->method].name);
	finish(call);
}

static int on_turn(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct service_call *call = userdata;
	struct fake_csi_plugin *plugin = find_plugin(call->client->socket);
	struct fake_csi_orders orders = {0};

	if (!plugin || !plugin->is_up) {
		refuse(call, plugin && plugin->refusal ? plugin->refusal : ECONNREFUSED);
		return 0;
	}
	call->client->is_connected = true;
	call->is_begun = true;
	fake_csi_begin(plugin, call->method, call->request);
	plugin->last_timeout_us[call->method] = call->timeout_us;
	if (plugin->orders[call->method].times > 0) {
		orders = plugin->orders[call->method];
		plugin->orders[call->method].times--;
	}
	obey(call, plugin, &orders);
	return 0;
}

enum status service_client_new(sd_event *event, const struct service_kind *kind,
			       const struct service_client_options *options, struct service_client **ret,
			       struct error *err)
{
	struct service_client *client = calloc(1, sizeof(*client));

	if (!client)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot make a client");
	client->event = event;
	client->on_lost = options->on_lost;
	client->userdata = options->userdata;
	TAILQ_INIT(&client->calls);
	if (str_copy(client->plugin_id, sizeof(client->plugin_id), options->name) < 0 ||
	    str_copy(client->socket, sizeof(client->socket), options->socket) < 0) {
		free(client);
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "the socket's path is too long");
	}
	LIST_INSERT_HEAD(&clients, client, entry);
	fake_csi.clients_made++;
	*ret = client;
	return STATUS_OK;
}

void service_client_free(struct service_client *client)
{
	struct service_call *call;

	if (!client)
		return;
	while ((call = TAILQ_FIRST(&client->calls)))
		finish_with(call, STATUS_UNAVAILABLE, "the connection was given up");
	LIST_REMOVE(client, entry);
	sd_event_source_disable_unref(client->lost);
	free(client);
}

enum status service_call_start(struct service_client *client, const struct service_request *request,
			       struct service_call **ret, struct error *err)
{
	const ProtobufCMessageDescriptor *type = fake_csi_methods[request->method].request;
	struct service_call *call = calloc(1, sizeof(*call));
	size_t n = protobuf_c_message_get_packed_size(request->message);
	uint8_t *bytes = malloc(n + 1);

	assert(request->message->descriptor == type);
	if (!call || !bytes)
		abort();
	(void)protobuf_c_message_pack(request->message, bytes);
	call->client = client;
	call->method = (enum csi_method)request->method;
	call->request = protobuf_c_message_unpack(type, NULL, n, bytes);
	explicit_bzero(bytes, n); /* tests look for what others leave behind */
	free(bytes);
	call->done = request->done;
	call->userdata = request->userdata;
	call->timeout_us = request->timeout_us != 0 ? request->timeout_us : FAKE_TIMEOUT_US;
	call->since_ms = clock_realtime_ms();
	if (sd_event_add_time_relative(client->event, &call->timer, CLOCK_MONOTONIC, 0, FAKE_ACCURACY_US,
				       on_turn, call) < 0)
		abort();
	TAILQ_INSERT_TAIL(&client->calls, call, entry);
	client->stats.in_flight++;
	client->stats.calls++;
	if (ret)
		*ret = call;
	return STATUS_OK;
}

void service_call_cancel(struct service_call *call)
{
	if (call)
		call_free(call);
}

/* No plugin answers with a stream, or is watched. */
void service_client_exited(struct service_client *client)
{
}

enum status service_call_send(struct service_call *call, const ProtobufCMessage *message, struct error *err)
{
	abort();
}

bool service_call_is_full(const struct service_call *call)
{
	abort();
}

void service_call_pause(struct service_call *call, bool is_paused)
{
	abort();
}

pid_t service_client_peer(const struct service_client *client)
{
	return find_plugin(client->socket)->pid;
}

void service_client_stats(const struct service_client *client, struct service_stats *ret)
{
	const struct service_call *oldest = TAILQ_FIRST(&client->calls);

	*ret = client->stats;
	ret->oldest_since_ms = oldest ? oldest->since_ms : 0;
	ret->oldest_name = oldest ? fake_csi_methods[oldest->method].name : NULL;
}

static int on_lost_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct service_client *client = userdata;

	(void)sd_event_source_set_enabled(source, SD_EVENT_OFF);
	client->on_lost(client->userdata);
	return 0;
}

/* The connection ends with all that is on it. */
static void lose(struct service_client *client)
{
	struct service_call *call;
	bool was_connected = client->is_connected;

	client->is_connected = false;
	if (was_connected && client->on_lost) {
		sd_event_source_disable_unref(client->lost);
		client->lost = NULL;
		if (sd_event_add_time_relative(client->event, &client->lost, CLOCK_MONOTONIC, 0,
					       FAKE_ACCURACY_US, on_lost_due, client) < 0)
			abort();
	}
	/* what its callers begin anew is not of this connection */
	for (unsigned int n = (unsigned int)client->stats.in_flight; n > 0; n--) {
		call = TAILQ_FIRST(&client->calls);
		if (!call)
			return;
		finish_with(call, STATUS_UNAVAILABLE, "the plugin closed the connection");
	}
}

void fake_csi_set_up(struct fake_csi_plugin *plugin, bool is_up)
{
	struct service_client *next;

	plugin->is_up = is_up;
	if (is_up)
		return;
	for (struct service_client *client = LIST_FIRST(&clients); client; client = next) {
		next = LIST_NEXT(client, entry);
		if (str_eq(client->socket, plugin->socket))
			lose(client);
	}
}

void fake_csi_order(struct fake_csi_plugin *plugin, enum csi_method method, enum fake_csi_way way,
		    unsigned int times, enum status code)
{
	plugin->orders[method] = (struct fake_csi_orders){.way = way, .times = times, .code = code};
}

static struct service_call *find_waiting(bool only_held)
{
	const struct service_client *client;
	struct service_call *call;

	LIST_FOREACH (client, &clients, entry) {
		TAILQ_FOREACH (call, &client->calls, entry) {
			if (call->state == CALL_HELD || (!only_held && call->state == CALL_HANGING))
				return call;
		}
	}
	return NULL;
}

unsigned int fake_csi_answer(void)
{
	struct service_call *call;
	unsigned int n = 0;

	for (; (call = find_waiting(true)); n++) {
		struct fake_csi_plugin *plugin = find_plugin(call->client->socket);

		assert(plugin);
		perform(call, plugin);
		finish(call);
	}
	return n;
}

unsigned int fake_csi_expire(void)
{
	struct service_call *call;
	unsigned int n = 0;

	for (; (call = find_waiting(false)); n++)
		expire(call);
	return n;
}

unsigned int fake_csi_waiting(void)
{
	const struct service_client *client;
	const struct service_call *call;
	unsigned int n = 0;

	LIST_FOREACH (client, &clients, entry) {
		TAILQ_FOREACH (call, &client->calls, entry)
			n += call->state != CALL_NEW;
	}
	return n;
}

unsigned int fake_csi_clients(const char *socket)
{
	const struct service_client *client;
	unsigned int n = 0;

	LIST_FOREACH (client, &clients, entry)
		n += str_eq(client->socket, socket);
	return n;
}

void fake_csi_init(void)
{
	fake_csi = (struct fake_csi){0};
}

void fake_csi_release(void)
{
	assert_string_equal(fake_csi.violation, "");
	assert_true(LIST_EMPTY(&clients));
}
