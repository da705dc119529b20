/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/call.h"

#include "base/cleanup.h"

#include <stddef.h>

struct kind {
	Holdfast__V1__PluginCall__RequestCase request;
	Holdfast__V1__PluginReply__ResponseCase response;
	const char *name;
	bool is_serial;
};

#define KIND(kind, name_, is_serial_)                                                     \
	{                                                                                 \
		.request = HOLDFAST__V1__PLUGIN_CALL__REQUEST_##kind,                     \
		.response = HOLDFAST__V1__PLUGIN_REPLY__RESPONSE_##kind, .name = (name_), \
		.is_serial = (is_serial_)                                                 \
	}

static const struct kind kinds[] = {
	KIND(ATTACH, "ControllerPublishVolume", true),
	KIND(DETACH, "ControllerUnpublishVolume", true),
	KIND(VALIDATE, "ValidateVolumeCapabilities", false),
	KIND(CREATE, "CreateVolume", false),
	KIND(DELETE, "DeleteVolume", true),
	KIND(EXPAND, "ControllerExpandVolume", true),
	KIND(LIST_VOLUMES, "ListVolumes", false),
	KIND(CREATE_SNAPSHOT, "CreateSnapshot", true),
	KIND(DELETE_SNAPSHOT, "DeleteSnapshot", true),
	KIND(LIST_SNAPSHOTS, "ListSnapshots", false),
	KIND(NODE_EXPAND, "NodeExpandVolume", false),
};

static const struct kind *find_kind(const Holdfast__V1__PluginCall *call)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		if (kinds[i].request == call->request_case)
			return &kinds[i];
	return NULL;
}

const char *plugin_call_name(const Holdfast__V1__PluginCall *call)
{
	const struct kind *kind = find_kind(call);

	return kind ? kind->name : NULL;
}

bool plugin_call_is_serial(const Holdfast__V1__PluginCall *call)
{
	const struct kind *kind = find_kind(call);

	return kind && kind->is_serial;
}

bool plugin_call_fits(const Holdfast__V1__PluginCall *call, const Holdfast__V1__PluginReply *reply)
{
	const struct kind *kind = find_kind(call);

	return kind && kind->response == reply->response_case;
}
