/* SPDX-License-Identifier: Apache-2.0 */
#include "sim.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "model/alloc_id.h"
#include "model/modes.h"
#include "rpc/pbjson.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/fences.pb-c.h>
#include <holdfast/v1/operator.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { CALL_TIMEOUT_US = 20 * 1000 * 1000, IDLE_TURNS = 3, IDLE_ROUNDS = 2, FLUSH_TURNS = 3 };

enum status sim_call(struct sim *sim, const ProtobufCServiceDescriptor *service, const char *method,
		     const ProtobufCMessage *request, ProtobufCMessage **ret, struct error *err)
{
	ProtobufCMessage *response = NULL;
	enum status status = rpc_client_call_sync(sim->operator, service, method, request, CALL_TIMEOUT_US,
						  &response, err);

	if (ret)
		*ret = response;
	else if (response)
		protobuf_c_message_free_unpacked(response, NULL);
	return status;
}

const ProtobufCServiceDescriptor *sim_service(const struct sim *sim, const char *method)
{
	static const ProtobufCServiceDescriptor *const services[] = {
		&holdfast__v1__volumes__descriptor,	&holdfast__v1__nodes__descriptor,
		&holdfast__v1__allocations__descriptor, &holdfast__v1__operator__descriptor,
		&holdfast__v1__fences__descriptor,
	};
	size_t n = strcspn(method, ".");

	for (size_t i = 0; i < ARRAY_SIZE(services); i++)
		if (strncmp(services[i]->short_name, method, n) == 0 && services[i]->short_name[n] == '\0')
			return services[i];
	sim_fail(sim, "there is no service for %s", method);
}

ProtobufCMessage *sim_request(const struct sim *sim, const char *method, const char *text)
{
	const ProtobufCMethodDescriptor *found = protobuf_c_service_descriptor_get_method_by_name(
		sim_service(sim, method), strchr(method, '.') + 1);
	cleanup_free char *copy = strdup(text);
	json_t *json;
	ProtobufCMessage *request = NULL;
	struct error err;

	for (char *at = copy; at && (at = strchr(at, '\'')) != NULL;)
		*at = '"';
	json = copy ? json_loads(copy, 0, NULL) : NULL;
	if (!found || !json || pbjson_decode(found->input, json, 0, &request, &err) != STATUS_OK)
		sim_fail(sim, "%s %s: %s", method, text, found && json ? err.msg : "not understood");
	json_decref(json);
	return request;
}

static void on_nobody_waits(enum status status, const ProtobufCMessage *response, const struct error *err,
			    void *userdata)
{
}

enum status sim_ask(struct sim *sim, enum sim_patience patience, const char *method, ProtobufCMessage **ret,
		    struct error *err, const char *format, ...)
{
	const ProtobufCServiceDescriptor *service = sim_service(sim, method);
	const char *name = strchr(method, '.') + 1;
	ProtobufCMessage *request;
	enum status status = STATUS_UNKNOWN;
	char text[2048];
	va_list args;

	va_start(args, format);
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): it is started in the line before */
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	request = sim_request(sim, method, text);
	if (patience == SIM_WAITS)
		status = sim_call(sim, service, name, request, ret, err);
	else
		(void)rpc_client_call(sim->operator, service, name, request, CALL_TIMEOUT_US, on_nobody_waits,
				      sim, NULL, NULL);
	for (int i = 0; i < FLUSH_TURNS && patience == SIM_GOES_ON; i++)
		(void)sd_event_run(sim->event, 0);
	protobuf_c_message_free_unpacked(request, NULL);
	return status;
}

/* Answered once everything before it is durable. */
static bool barrier(struct sim *sim)
{
	struct error err;

	if (sim_ask(sim, SIM_WAITS, "Nodes.List", NULL, &err, "{'per_page': 1}") == STATUS_OK)
		return true;
	if ((sim->may_restart && err.status == STATUS_UNAVAILABLE) || server_process_has_died(sim))
		return false;
	sim_fail(sim, "Nodes.List: %s", err.msg);
}

/* A node has said hello, and has no answer yet. */
static bool is_greeting(const struct sim *sim)
{
	for (int i = 0; i < SIM_NODES; i++)
		if (sim->nodes[i].stream && !sim->nodes[i].welcomed)
			return true;
	return false;
}

bool sim_settle(struct sim *sim)
{
	int idle = 0;

	while (idle < IDLE_ROUNDS ||
	       (sim->server_pid != 0 && (sim->in_flight > sim->hanging || is_greeting(sim)))) {
		uint64_t before = sim->activity;

		if (sim->server_pid != 0 && !barrier(sim))
			return false;
		for (int i = 0; i < IDLE_TURNS; i++)
			while (sd_event_run(sim->event, 0) > 0)
				;
		idle = sim->activity == before ? idle + 1 : 0;
	}
	return true;
}

static enum status register_volume(struct sim *sim, struct sim_volume *volume, Holdfast__V1__AccessMode mode,
				   bool is_csi, struct error *err)
{
	char place[256];

	volume->mode = mode;
	volume->is_csi = is_csi;
	(void)str_format(volume->id, sizeof(volume->id), "%s-%s", is_csi ? "csi" : "native",
			 access_mode_name((enum access_mode)mode));
	if (is_csi)
		(void)str_format(place, sizeof(place), "'plugin_id': 'csi', 'external_id': '%s'", volume->id);
	else /* each has a disk of its own */
		(void)str_format(place, sizeof(place),
				 "'profile': 'disk', 'source': {'class': 'BLOCK', 'by_id': '%s'}",
				 volume->id);
	TRY(sim_ask(sim, SIM_WAITS, "Volumes.Register", NULL, err,
		    "{'volume': {'id': '%s', 'type': '%s', %s, 'requested_capabilities': "
		    "[{'access_mode': %d, 'attachment_mode': 'FILE_SYSTEM'}]}}",
		    volume->id, is_csi ? "CSI" : "NATIVE", place, (int)mode));
	volume->is_known = volume->exists = true;
	return STATUS_OK;
}

void sim_register_again(struct sim *sim)
{
	struct error err;

	for (int v = 0; v < SIM_REGISTERED; v++) {
		struct sim_volume *volume = &sim->volumes[v];

		if (!volume->is_known)
			(void)register_volume(sim, volume, volume->mode, volume->is_csi, &err);
	}
}

struct sim_status sim_status(struct sim *sim)
{
	Holdfast__V1__GetStatusResponse *response;
	ProtobufCMessage *message = NULL;
	struct sim_status status;
	struct error err;

	if (sim_ask(sim, SIM_WAITS, "Operator.Status", &message, &err, "{}") != STATUS_OK)
		sim_fail(sim, "Operator.Status: %s", err.msg);
	response = (Holdfast__V1__GetStatusResponse *)message;
	status = (struct sim_status){.epoch = response->epoch, .index = response->index};
	protobuf_c_message_free_unpacked(message, NULL);
	return status;
}

void sim_register_volumes(struct sim *sim)
{
	struct error err;

	for (int csi = 0; csi < 2; csi++)
		for (int mode = SINGLE_NODE_READER_ONLY; mode < ACCESS_MODE_N; mode++)
			if (register_volume(sim, &sim->volumes[sim->n_volumes++],
					    (Holdfast__V1__AccessMode)mode, csi == 1, &err) != STATUS_OK)
				sim_fail(sim, "Volumes.Register: %s", err.msg);
	if (sim->n_volumes != SIM_REGISTERED)
		sim_fail(sim, "%d volumes", sim->n_volumes);
}

enum status sim_run(struct sim *sim, int volume, int node, bool is_write, char ret_id[static UUID_TEXT_SIZE],
		    struct error *err)
{
	sim_make_uuid(sim, ret_id);
	alloc_id_mark("", ret_id + UUID_SIZE - ALLOC_ID_MARK_SIZE);
	return sim_ask(
		sim, SIM_WAITS, "Allocations.Run", NULL, err,
		"{'allocation': {'id': '%s', 'name': 'app', 'node_id': '%s', 'volumes': [{'name': 'data', "
		"'source': '%s', 'access_mode': %d, 'read_only': %s}]}}",
		ret_id, sim->nodes[node].id, sim->volumes[volume].id, (int)sim->volumes[volume].mode,
		is_write ? "false" : "true");
}

enum status sim_stop(struct sim *sim, const char *alloc_id)
{
	return sim_ask(sim, SIM_WAITS, "Allocations.Stop", NULL, NULL, "{'id': '%s'}", alloc_id);
}

void sim_stop_all(struct sim *sim)
{
	Holdfast__V1__ListAllocationsResponse *response = NULL;
	char next[256] = "";
	struct error err;

	do {
		if (sim_ask(sim, SIM_WAITS, "Allocations.List", (ProtobufCMessage **)&response, &err,
			    "{'namespace': '*', 'next_token': '%s'}", next) != STATUS_OK)
			sim_fail(sim, "Allocations.List: %s", err.msg);
		for (size_t i = 0; i < response->n_allocations; i++)
			if (response->allocations[i]->client_status <= HOLDFAST__V1__CLIENT_STATUS__RUNNING)
				(void)sim_stop(sim, response->allocations[i]->id);
		(void)str_copy(next, sizeof(next), response->next_token);
		holdfast__v1__list_allocations_response__free_unpacked(response, NULL);
	} while (next[0] != '\0');
}

enum status sim_attest(struct sim *sim, int volume, int node, struct error *err)
{
	return sim_ask(
		sim, SIM_WAITS, "Volumes.Detach", NULL, err,
		"{'id': '%s', 'node_id': '%s', 'attest_reason': 'the machine is switched off and locked "
		"away'}",
		sim->volumes[volume].id, sim->nodes[node].id);
}
