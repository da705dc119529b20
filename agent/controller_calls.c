#include "controller_calls.h"

#include <errno.h>
#include <stdlib.h>

struct controller_calls {
	controller_reply_fn *reply;
	void *userdata;
};

enum status controller_calls_new(sd_event *event, struct plugins *plugins, struct volume_manager *volumes,
				 controller_reply_fn *reply, void *userdata, struct controller_calls **ret,
				 struct error *err)
{
	struct controller_calls *calls = calloc(1, sizeof(*calls));

	if (!calls)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot take calls to plugins");
	*calls = (struct controller_calls){.reply = reply, .userdata = userdata};
	*ret = calls;
	return STATUS_OK;
}

void controller_calls_free(struct controller_calls *calls)
{
	free(calls);
}

/* No CSI plugin runs here: the server asks another node. */
void controller_calls_take(struct controller_calls *calls, const Holdfast__V1__PluginCall *call)
{
	Holdfast__V1__PluginReply reply = HOLDFAST__V1__PLUGIN_REPLY__INIT;

	reply.call_id = call->call_id;
	reply.not_here = true;
	calls->reply(&reply, calls->userdata);
}

void controller_calls_drop(struct controller_calls *calls)
{
}
