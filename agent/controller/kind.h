/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The kinds of calls, for map.c and answer.c only. */

#include "controller/map.h"

typedef enum status controller_fill_fn(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
				       struct controller_request *ret, struct error *err);

/* What an answer is checked against. */
struct controller_answer {
	const Holdfast__V1__PluginCall *call;
	const struct node_plugin *facts;
	const ProtobufCMessage *response;
	const char *name; /* of the call */
	struct controller_reply *reply;
	struct error *err;
};

typedef enum status controller_check_fn(const Holdfast__V1__PluginCall *call, const struct node_plugin *facts,
					struct error *err);
typedef enum status controller_take_fn(const struct controller_answer *answer);

struct controller_kind {
	Holdfast__V1__PluginCall__RequestCase request;
	Holdfast__V1__PluginReply__ResponseCase response;
	const ProtobufCMessageDescriptor *response_descriptor;
	enum csi_method method;
	enum plugin_half half;
	size_t ability;		    /* offset of a bool in struct node_plugin; 0: none is needed */
	const char *announces;	    /* CSI's name of it */
	bool wants_gone;	    /* NOT_FOUND is what was wanted */
	controller_check_fn *check; /* of what else the plugin must announce; NULL: nothing */
	controller_fill_fn *fill;   /* NULL: the volume manager's */
	controller_take_fn *take;   /* NULL: of an empty response */
};

/** NULL: this agent does not know it. */
const struct controller_kind *controller_kind(const Holdfast__V1__PluginCall *call);

controller_take_fn controller_take_attach, controller_take_validate, controller_take_create,
	controller_take_expand, controller_take_volumes, controller_take_snapshot, controller_take_snapshots;

/** The capability of @call as the plugin can be told: the finer single-node modes are for those that announce
 * them; who may share the volume is the claim's matter, whatever the plugin knows. */
void controller_borrow_capability(const Holdfast__V1__Capability *from,
				  const Holdfast__V1__MountOptions *options, const struct node_plugin *facts,
				  struct csi_capability *ret);
