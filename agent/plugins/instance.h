/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One instance of a CSI plugin: a socket that is dialled, probed, fingerprinted and probed again, for as long
 * as it stands. What happens is decided by instance_step(). */

#include "base/error.h"
#include "csi/csi_client.h"
#include "plugins/facts.h"
#include "plugins/plugin_info.h"
#include "service/instance_step.h"

#include <stdint.h>
#include <systemd/sd-event.h>

enum {
	INSTANCE_PROBE_TIMEOUT_MS = 5000,
	INSTANCE_RETRY_MIN_MS = 500, /* between probes of one that is not healthy */
	INSTANCE_RETRY_MAX_MS = 30000,
	INSTANCE_SOON_MIN_MS = 250, /* between probes of one that is bound, or lost, again and again */
	INSTANCE_SOON_MAX_MS = 5000,
};

struct instance_options {
	const char *plugin_id; /* copied */
	const char *path;      /* copied */
	uint64_t probe_interval_us;
	size_t message_bytes;
	uint64_t call_timeout_us;
};

struct instance;

/** State, facts or reason have changed. From the event loop; may not free the instance. */
typedef void instance_changed_fn(struct instance *instance, void *userdata);

/** Dialled at once, from the event loop. @ret owned by the caller, instance_free() */
enum status instance_new(sd_event *event, const struct instance_options *options,
			 instance_changed_fn *changed, void *userdata, struct instance **ret,
			 struct error *err);

/** Its socket is gone: say so, and free it. */
void instance_end(struct instance *instance);

/** Calls in flight end with UNAVAILABLE before this returns. Nothing is said. NULL is allowed. */
void instance_free(struct instance *instance);

/** Its socket was bound anew: another process, which says anew what it is. Calls in flight end. */
void instance_recreate(struct instance *instance);

/** Perhaps it can be reached now: one that is not healthy is probed again, soon. */
void instance_retry(struct instance *instance);

/** Whose it is from now on (empty: the host's), and what it must have; asked anew when that differs. */
void instance_own(struct instance *instance, const char *alloc_id, const struct facts_wanted *wanted);

const char *instance_alloc(const struct instance *instance);
bool instance_is_healthy(const struct instance *instance);

/** Is it healthy, and nothing asked anew? */
bool instance_is_settled(const struct instance *instance);

/** Of the last time when they could be read; NULL: never since it appeared. */
const struct node_plugin *instance_facts(const struct instance *instance);

/** Why it is not healthy; status OK: it is, or nothing is known yet. */
const struct error *instance_error(const struct instance *instance);

struct service_client *instance_client(const struct instance *instance);

/** All but is_used. */
void instance_info(const struct instance *instance, struct plugin_instance_info *ret);
