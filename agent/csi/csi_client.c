#include "csi/csi_client.h"

#include <errno.h>
#include <stdlib.h>

struct csi_client {
	sd_event *event; /* borrowed */
};

enum status csi_client_new(sd_event *event, const struct csi_client_options *options, struct csi_client **ret,
			   struct error *err)
{
	struct csi_client *client = calloc(1, sizeof(*client));

	if (!client)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot speak to plugin %s",
				 options->plugin_id);
	client->event = event;
	*ret = client;
	return STATUS_OK;
}

void csi_client_free(struct csi_client *client)
{
	free(client);
}

enum status csi_call_start(struct csi_client *client, enum csi_method method, const ProtobufCMessage *request,
			   uint64_t timeout_us, csi_done_fn *done, void *userdata, struct csi_call **ret,
			   struct error *err)
{
	return error_set(err, STATUS_UNIMPLEMENTED, 0, "no plugin can be called yet");
}

void csi_call_cancel(struct csi_call *call)
{
}

void csi_client_stats(const struct csi_client *client, struct csi_client_stats *ret)
{
	*ret = (struct csi_client_stats){0};
}
