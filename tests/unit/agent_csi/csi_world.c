/* SPDX-License-Identifier: Apache-2.0 */
#include "csi_world.h"

#include "unit_loop.h"

#include "csi/csi_text.h"

enum { WAIT_US = 20 * USEC_PER_SEC };

int csi_world_setup(void **state)
{
	struct csi_world *world = NON_NULL(calloc(1, sizeof(*world)));
	struct service_client_options options = {.name = "nfs"};

	assert_true(sd_event_new(&world->event) >= 0);
	(void)plugin_setup(&world->plugin, world->event);
	options.socket = world->plugin.path;
	assert_ok(service_client_new(world->event, &csi_kind, &options, &world->client, NULL));
	*state = world;
	return 0;
}

int csi_world_teardown(void **state)
{
	struct csi_world *world = *state;

	service_client_free(world->client);
	plugin_teardown(&world->plugin);
	(void)sd_event_unref(world->event);
	free(world);
	return 0;
}

void csi_world_done(const ProtobufCMessage *response, const struct error *err, void *userdata)
{
	struct end *end = userdata;

	end->n_done++;
	end->is_answered = response != NULL;
	assert_true(!response == !!err);
	end->err = err ? *err : (struct error){.status = STATUS_OK};
	end->text[0] = '\0';
	if (response)
		csi_text(response, end->text, sizeof(end->text));
	if (end->frees)
		service_client_free(TAKE_PTR(end->world->client));
}

enum status csi_world_start(struct csi_world *world, enum csi_method method, uint64_t timeout_us,
			    struct end *end, struct error *err)
{
	static char volume_id[] = "vol-1";
	const struct service_method *info = &csi_methods[method];
	const ProtobufCFieldDescriptor *field =
		protobuf_c_message_descriptor_get_field_by_name(info->request, "volume_id");
	union {
		ProtobufCMessage base;
		char space[512];
	} request;

	assert_true(info->request->sizeof_message <= sizeof(request));
	protobuf_c_message_init(info->request, &request);
	if (field)
		memcpy(request.space + field->offset, &(char *){volume_id}, sizeof(char *));
	*end = (struct end){.world = world, .frees = end->frees};
	return service_call_start(world->client,
				  &(struct service_request){.method = method,
							    .message = &request.base,
							    .timeout_us = timeout_us,
							    .done = csi_world_done,
							    .userdata = end},
				  &end->call, err);
}

void csi_world_call(struct csi_world *world, enum csi_method method, uint64_t timeout_us, struct end *end)
{
	struct error err;

	assert_succeeds(csi_world_start(world, method, timeout_us, end, &err), err);
	csi_world_run(world, &end->n_done, 1);
}

void csi_world_run(struct csi_world *world, const size_t *count, size_t n)
{
	RUN_UNTIL(world->event, *count >= n);
}

void csi_world_settle(struct csi_world *world)
{
	run_idle(world->event);
}
