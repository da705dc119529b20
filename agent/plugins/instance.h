/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One instance of a CSI plugin (service/instance.h), and its facts. */

#include "base/error.h"
#include "plugins/facts.h"
#include "plugins/fence_args.h"
#include "plugins/plugin_info.h"
#include "service/instance.h"

#include <csi_addons/fence.pb-c.h>
#include <stdint.h>
#include <systemd/sd-event.h>

/** State, facts or reason have changed. From the event loop; may not free the instance. */
typedef void instance_changed_fn(void *userdata);

/* Read outside of its module: base, alloc_id; instance_facts(). */
struct instance {
	struct service_instance base;
	char alloc_id[UUID_TEXT_SIZE]; /* whose it is; empty: the host's */
	struct facts_wanted wanted;
	struct node_plugin reading; /* so far */
	bool has_controller;	    /* announced */
	bool has_fence_clients;	    /* likewise */
	bool has_facts;
	struct node_plugin facts;	     /* of the last time when they could be read */
	const struct fence_args *fence_args; /* borrowed; NULL: no settings */
	Fence__GetFenceClientsRequest fence_request;
	struct fence_maps fence_maps;	 /* of fence_request, while it is sent */
	struct service_call *fence_call; /* that asks for the addresses again */
	unsigned int n_probes;		 /* since they were asked for */
	instance_changed_fn *changed;
	void *userdata;
};

/** Dialled at once, from the event loop. @ret owned by the caller, instance_free() */
enum status instance_new(sd_event *event, const struct plugins_options *options, const char *plugin_id,
			 const char *socket, instance_changed_fn *changed, void *userdata,
			 struct instance **ret, struct error *err);

/** Reports that its socket is gone, and frees it. */
void instance_end(struct instance *instance);

/** Frees it without a report. Calls in flight end with UNAVAILABLE before this returns. NULL is allowed. */
void instance_free(struct instance *instance);

/** Sets its owner (empty: the host) and its required services; asks for its facts again after a change. */
void instance_own(struct instance *instance, const char *alloc_id, const struct facts_wanted *wanted);

/** NULL: they could not be read since it appeared. */
static inline const struct node_plugin *instance_facts(const struct instance *instance)
{
	return instance->has_facts ? &instance->facts : NULL;
}

/** All but is_used. */
void instance_info(const struct instance *instance, struct plugin_instance_info *ret);
