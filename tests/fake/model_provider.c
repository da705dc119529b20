/* SPDX-License-Identifier: Apache-2.0 */
#include "model_provider.h"

#include "base/str.h"
#include "model/message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef Holdfast__V1__PluginCall plugin_call;
typedef Holdfast__V1__PluginReply plugin_reply;

struct provider provider;

/* A call on its way to its answer. */
struct job {
	struct server *server;
	plugin_call *call; /* owned */
	controller_wanted_fn *wanted;
	controller_done_fn *done;
	void *userdata;
	sd_event_source *source; /* owned; NULL: held */
	bool is_done;		 /* before it was held */
	struct provider_orders orders;
};

static struct job *jobs[PROVIDER_HELD_MAX];

void provider_reset(void)
{
	provider = (struct provider){.can = {.healthy = true,
					     .create_delete = true,
					     .expand = true,
					     .list_volumes = true,
					     .create_delete_snapshot = true,
					     .list_snapshots = true}};
}

void provider_order(int request, enum provider_outcome outcome, unsigned int times, enum status code)
{
	provider.orders[request] = (struct provider_orders){outcome, times, code};
}

static struct provider_thing *by_name(struct provider_thing *things, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (things[i].id[0] != '\0' && str_eq(things[i].name, name))
			return &things[i];
	return NULL;
}

static struct provider_thing *by_id(struct provider_thing *things, size_t n, const char *id)
{
	for (size_t i = 0; i < n; i++)
		if (things[i].id[0] != '\0' && str_eq(things[i].id, id))
			return &things[i];
	return NULL;
}

static size_t count(const struct provider_thing *things, size_t n)
{
	size_t there = 0;

	for (size_t i = 0; i < n; i++)
		there += things[i].id[0] != '\0';
	return there;
}

size_t provider_volumes(void)
{
	return count(provider.volumes, provider.n_volumes);
}

size_t provider_snapshots(void)
{
	return count(provider.snapshots, provider.n_snapshots);
}

static char *copy(const char *text)
{
	char *ret = strdup(text);

	if (!ret)
		abort();
	return ret;
}

__attribute__((noreturn)) static void end_full(void)
{
	(void)fputs("the model of the provider has no room for more\n", stderr);
	abort();
}

static void *message(const ProtobufCMessageDescriptor *descriptor)
{
	ProtobufCMessage *ret = calloc(1, descriptor->sizeof_message);

	if (!ret)
		abort();
	descriptor->message_init(ret);
	return ret;
}

static void *pointers(size_t n)
{
	void *ret = calloc(n + 1, sizeof(void *));

	if (!ret)
		abort();
	return ret;
}

/* The one of this name, or a new one: that is how providers recognise a repeat. */
static struct provider_thing *make(struct provider_thing *things, size_t *n, const char *name,
				   const char *sort)
{
	struct provider_thing *thing = by_name(things, *n, name);

	if (thing)
		return thing;
	if (*n == PROVIDER_THINGS_MAX)
		end_full();
	thing = &things[*n];
	(void)snprintf(thing->name, sizeof(thing->name), "%s", name);
	(void)snprintf(thing->id, sizeof(thing->id), "%s-%zu", sort, ++*n);
	return thing;
}

static void note_secrets(struct message_text_entry *const *secrets, size_t n)
{
	size_t len = 0;

	provider.last_secrets[0] = '\0';
	for (size_t i = 0; i < n && len < sizeof(provider.last_secrets); i++)
		len += (size_t)snprintf(provider.last_secrets + len, sizeof(provider.last_secrets) - len,
					"%s=%s,", secrets[i]->key, secrets[i]->value);
}

#define NOTE_SECRETS(request) note_secrets((void *)(request)->secrets, (request)->n_secrets)

static Holdfast__V1__Topology *topology(const char *key, const char *value)
{
	Holdfast__V1__Topology *ret = message(&holdfast__v1__topology__descriptor);

	ret->segments = pointers(1);
	ret->segments[0] = message(&holdfast__v1__topology__segments_entry__descriptor);
	ret->segments[0]->key = copy(key);
	ret->segments[0]->value = copy(value);
	ret->n_segments = 1;
	return ret;
}

static void answer_create(const Holdfast__V1__ControllerCreateRequest *request, plugin_reply *reply)
{
	struct provider_thing *made = make(provider.volumes, &provider.n_volumes, request->name, "vol");

	made->capacity = request->capacity_min > made->capacity ? request->capacity_min : made->capacity;
	reply->create = message(&holdfast__v1__controller_create_response__descriptor);
	if (!provider.names_nothing)
		reply->create->external_id = copy(provider.names_made ? provider.names_made : made->id);
	reply->create->capacity = made->capacity;
	reply->create->context = pointers(1);
	reply->create->context[0] =
		message(&holdfast__v1__controller_create_response__context_entry__descriptor);
	reply->create->context[0]->key = copy("made");
	reply->create->context[0]->value = copy(made->id);
	reply->create->n_context = 1;
	reply->create->topologies = pointers(provider.n_topologies);
	while (reply->create->n_topologies < provider.n_topologies)
		reply->create->topologies[reply->create->n_topologies++] = topology("zone", "z");
}

static void answer_expand(const Holdfast__V1__ControllerExpandRequest *request, plugin_reply *reply)
{
	struct provider_thing *volume = by_id(provider.volumes, provider.n_volumes, request->external_id);

	if (volume)
		volume->capacity = request->capacity_min;
	reply->expand = message(&holdfast__v1__controller_expand_response__descriptor);
	reply->expand->capacity = request->capacity_min;
	reply->expand->node_expansion_required = provider.needs_node_expansion;
}

static Holdfast__V1__ExternalSnapshot *show_snapshot(const struct provider_thing *thing)
{
	Holdfast__V1__ExternalSnapshot *ret = message(&holdfast__v1__external_snapshot__descriptor);

	if (!provider.names_nothing)
		ret->snapshot_id = copy(thing->id);
	ret->external_source_id = copy(provider.names_no_source ? "" : thing->source);
	ret->size_bytes = 77;
	ret->ready = !provider.is_slow_snapshot;
	return ret;
}

static void answer_snapshot(const Holdfast__V1__ControllerCreateSnapshotRequest *request, plugin_reply *reply)
{
	struct provider_thing *made = make(provider.snapshots, &provider.n_snapshots, request->name, "snap");

	if (provider.names_made)
		(void)snprintf(made->id, sizeof(made->id), "%s", provider.names_made);
	if (made->source[0] == '\0') /* else it is a repeat */
		(void)snprintf(made->source, sizeof(made->source), "%s", request->external_id);
	reply->create_snapshot = message(&holdfast__v1__controller_create_snapshot_response__descriptor);
	reply->create_snapshot->snapshot = show_snapshot(made);
}

static void answer_list_volumes(const Holdfast__V1__ControllerListVolumesRequest *request,
				plugin_reply *reply)
{
	Holdfast__V1__ControllerListVolumesResponse *list =
		message(&holdfast__v1__controller_list_volumes_response__descriptor);

	reply->list_volumes = list;
	list->volumes = pointers(provider.n_volumes);
	list->next_token = copy(request->starting_token[0] == '\0' ? "more" : "");
	for (size_t i = 0; i < provider.n_volumes; i++) { /* all of them, whatever was asked for */
		Holdfast__V1__ExternalVolume *volume = message(&holdfast__v1__external_volume__descriptor);

		volume->external_id = copy(provider.volumes[i].id);
		list->volumes[list->n_volumes++] = volume;
	}
}

static void answer_list_snapshots(plugin_reply *reply)
{
	Holdfast__V1__ControllerListSnapshotsResponse *list =
		message(&holdfast__v1__controller_list_snapshots_response__descriptor);

	reply->list_snapshots = list;
	list->snapshots = pointers(provider.n_snapshots);
	for (size_t i = 0; i < provider.n_snapshots; i++)
		if (provider.snapshots[i].id[0] != '\0')
			list->snapshots[list->n_snapshots++] = show_snapshot(&provider.snapshots[i]);
}

static void forget(struct provider_thing *thing)
{
	if (thing)
		thing->id[0] = '\0';
}

static void note_node(const plugin_call *call, const char *node_id)
{
	size_t len = strlen(provider.nodes);

	(void)snprintf(provider.nodes + len, sizeof(provider.nodes) - len, "%s,", node_id);
}

static void perform(const plugin_call *call, plugin_reply *reply)
{
	switch (call->request_case) {
	case HOLDFAST__V1__PLUGIN_CALL__REQUEST_VALIDATE:
		reply->validate = message(&holdfast__v1__controller_validate_response__descriptor);
		reply->validate->confirmed = !provider.does_not_confirm;
		reply->validate->message = copy(provider.does_not_confirm ? "it is too old" : "");
		break;
	case HOLDFAST__V1__PLUGIN_CALL__REQUEST_CREATE:
		answer_create(call->create, reply);
		break;
	case HOLDFAST__V1__PLUGIN_CALL__REQUEST_DELETE:
		forget(by_id(provider.volumes, provider.n_volumes, call->delete_->external_id));
		break;
	case HOLDFAST__V1__PLUGIN_CALL__REQUEST_EXPAND:
		answer_expand(call->expand, reply);
		break;
	case HOLDFAST__V1__PLUGIN_CALL__REQUEST_NODE_EXPAND:
		reply->node_expand = message(&holdfast__v1__node_expand_response__descriptor);
		reply->node_expand->bytes = provider.node_bytes;
		break;
	case HOLDFAST__V1__PLUGIN_CALL__REQUEST_CREATE_SNAPSHOT:
		answer_snapshot(call->create_snapshot, reply);
		break;
	case HOLDFAST__V1__PLUGIN_CALL__REQUEST_DELETE_SNAPSHOT:
		forget(by_id(provider.snapshots, provider.n_snapshots, call->delete_snapshot->snapshot_id));
		break;
	case HOLDFAST__V1__PLUGIN_CALL__REQUEST_LIST_VOLUMES:
		answer_list_volumes(call->list_volumes, reply);
		break;
	case HOLDFAST__V1__PLUGIN_CALL__REQUEST_LIST_SNAPSHOTS:
		answer_list_snapshots(reply);
		break;
	case HOLDFAST__V1__PLUGIN_CALL__REQUEST__NOT_SET:
	case HOLDFAST__V1__PLUGIN_CALL__REQUEST_ATTACH:
	case HOLDFAST__V1__PLUGIN_CALL__REQUEST_DETACH:
	case HOLDFAST__V1__PLUGIN_CALL__REQUEST_FENCE_NETWORK:
	case HOLDFAST__V1__PLUGIN_CALL__REQUEST_UNFENCE_NETWORK:
	case HOLDFAST__V1__PLUGIN_CALL__REQUEST_LIST_FENCED:
	case _HOLDFAST__V1__PLUGIN_CALL__REQUEST__CASE_IS_INT_SIZE:
		abort();
	}
	reply->response_case = (Holdfast__V1__PluginReply__ResponseCase)call->request_case;
}

static void note(const plugin_call *call)
{
	provider.calls[call->request_case]++;
	if (call->request_case == HOLDFAST__V1__PLUGIN_CALL__REQUEST_CREATE) {
		(void)snprintf(provider.last_name, sizeof(provider.last_name), "%s", call->create->name);
		provider.last_min = call->create->capacity_min;
		provider.last_max = call->create->capacity_max;
		NOTE_SECRETS(call->create);
	}
	if (call->request_case == HOLDFAST__V1__PLUGIN_CALL__REQUEST_EXPAND) {
		provider.last_min = call->expand->capacity_min;
		provider.last_max = call->expand->capacity_max;
		provider.last_attachment_mode =
			call->expand->capability ? call->expand->capability->attachment_mode : 0;
		NOTE_SECRETS(call->expand);
	}
	if (call->request_case == HOLDFAST__V1__PLUGIN_CALL__REQUEST_VALIDATE)
		NOTE_SECRETS(call->validate);
	if (call->request_case == HOLDFAST__V1__PLUGIN_CALL__REQUEST_DELETE)
		NOTE_SECRETS(call->delete_);
	if (call->request_case == HOLDFAST__V1__PLUGIN_CALL__REQUEST_CREATE_SNAPSHOT)
		NOTE_SECRETS(call->create_snapshot);
	if (call->request_case == HOLDFAST__V1__PLUGIN_CALL__REQUEST_DELETE_SNAPSHOT)
		NOTE_SECRETS(call->delete_snapshot);
	if (call->request_case == HOLDFAST__V1__PLUGIN_CALL__REQUEST_LIST_SNAPSHOTS)
		NOTE_SECRETS(call->list_snapshots);
}

static void job_forget(const struct job *job)
{
	for (size_t i = 0; i < PROVIDER_HELD_MAX; i++)
		if (jobs[i] == job)
			jobs[i] = NULL;
}

static void end(struct job *job, const plugin_reply *reply, const struct error *err)
{
	job_forget(job);
	(void)sd_event_source_disable_unref(job->source);
	job->done(job->server, reply, err, job->userdata);
	holdfast__v1__plugin_call__free_unpacked(job->call, NULL);
	free(job);
}

static void finish(struct job *job)
{
	plugin_reply *reply = message(&holdfast__v1__plugin_reply__descriptor);
	struct error err;

	if (job->orders.outcome == PROVIDER_QUEUE && job->wanted && !job->wanted(job->server, job->userdata))
		job->orders = (struct provider_orders){PROVIDER_FAIL, 0, STATUS_ABORTED};
	if (job->orders.outcome != PROVIDER_FAIL)
		perform(job->call, reply); /* again, if it was done before: it is idempotent */
	if (job->orders.outcome == PROVIDER_FAIL || job->orders.outcome == PROVIDER_FAIL_DONE) {
		(void)error_set(&err, job->orders.code, 0, "plugin %s: %s", job->call->plugin_id,
				provider.words ? provider.words : "the provider's words");
		end(job, NULL, &err);
	} else {
		end(job, reply, NULL);
	}
	holdfast__v1__plugin_reply__free_unpacked(reply, NULL);
}

static int on_turn(sd_event_source *source, void *userdata)
{
	struct job *job = userdata;
	plugin_reply *reply;

	job->source = sd_event_source_disable_unref(job->source);
	if (job->orders.outcome == PROVIDER_HOLD_DONE) {
		reply = message(&holdfast__v1__plugin_reply__descriptor);
		perform(job->call, reply);
		holdfast__v1__plugin_reply__free_unpacked(reply, NULL);
	}
	if (job->orders.outcome != PROVIDER_HOLD && job->orders.outcome != PROVIDER_HOLD_DONE &&
	    job->orders.outcome != PROVIDER_QUEUE)
		finish(job);
	return 0;
}

void provider_fail(enum status code)
{
	for (size_t i = 0; i < PROVIDER_HELD_MAX; i++)
		if (jobs[i])
			jobs[i]->orders = (struct provider_orders){PROVIDER_FAIL, 0, code};
	provider_answer();
}

void provider_answer(void)
{
	for (size_t i = 0; i < PROVIDER_HELD_MAX; i++) {
		if (!jobs[i])
			continue;
		if (jobs[i]->source) /* its turn comes yet */
			jobs[i]->orders.outcome = PROVIDER_OK;
		else
			finish(jobs[i]);
	}
}

void provider_stop(struct server *server)
{
	static const struct error ending = {.status = STATUS_CANCELLED, .msg = "the server ends"};

	for (size_t i = 0; i < PROVIDER_HELD_MAX; i++)
		if (jobs[i] && jobs[i]->server == server)
			end(jobs[i], NULL, &ending);
}

static struct provider_orders take_orders(int request)
{
	struct provider_orders *orders = &provider.orders[request];
	struct provider_orders ret = *orders;

	if (orders->times == 0)
		return (struct provider_orders){.outcome = PROVIDER_OK};
	orders->times--;
	return ret;
}

enum status __wrap_controller_call(struct server *server, const struct controller_call *call,
				   struct error *err)
{
	struct provider_orders orders = take_orders((int)call->call->request_case);
	struct job *job;
	size_t place = 0;

	if (orders.outcome == PROVIDER_REFUSE)
		return error_set(err, orders.code, 0, "no controller of plugin %s can be asked",
				 call->plugin_id);
	if (!call->node_id && provider.has_no_controller)
		return error_set(err, STATUS_UNAVAILABLE, 0, "no controller of plugin %s", call->plugin_id);
	note(call->call);
	str_copy_text(provider.last_namespace, sizeof(provider.last_namespace),
		      call->namespace ? call->namespace : "");
	if (call->node_id)
		note_node(call->call, call->node_id);
	while (place < PROVIDER_HELD_MAX && jobs[place])
		place++;
	if (place == PROVIDER_HELD_MAX)
		end_full();
	job = calloc(1, sizeof(*job));
	if (!job)
		abort();
	*job = (struct job){.server = server,
			    .wanted = call->wanted,
			    .done = call->done,
			    .userdata = call->userdata,
			    .orders = orders};
	job->call = (plugin_call *)(void *)message_convert(call->call->base.descriptor, &call->call->base);
	free(job->call->plugin_id == protobuf_c_empty_string ? NULL : job->call->plugin_id);
	job->call->plugin_id = copy(call->plugin_id);
	if (sd_event_add_defer(server->event, &job->source, on_turn, job) < 0)
		abort();
	jobs[place] = job;
	return STATUS_OK;
}

const struct controller_half *__wrap_controller_capabilities(struct plugin_entry *plugin)
{
	return provider.has_no_controller ? NULL : &provider.can;
}
