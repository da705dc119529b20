/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One instance of a task driver (service/instance.h). Its probe is Capabilities; its facts are ConfigSchema,
 * SetConfig and the first answer of Fingerprint. Whether what it drives works is in its fingerprint. */

#include "base/error.h"
#include "driver/driver_client.h"
#include "driver/driver_info.h"
#include "service/instance.h"

#include <stdbool.h>
#include <systemd/sd-event.h>

enum {
	DRIVER_ASK_TIMEOUT_MS = 5000,	   /* of each question */
	DRIVER_FINGERPRINT_MAX = 64 << 10, /* bytes of an answer that is kept, of each kind */
	DRIVER_MEMORY_MAX = 160 << 10,	   /* the same in memory: the server takes 4 MiB of a node */
};

/** Reports a change of its capabilities, state or reason. From the event loop; may not free the instance. */
typedef void driver_instance_changed_fn(void *userdata);

/* Read outside of its module: base. */
struct driver_instance {
	struct service_instance base;
	const struct drivers_options *options;
	driver_instance_changed_fn *changed;
	void *userdata;
	/* its answers; NULL: it has not given one yet */
	ProtobufCMessage *capabilities;
	ProtobufCMessage *schema;
	ProtobufCMessage *fingerprint;
};

/** Dialled at once, from the event loop. @options borrowed; @name and @socket copied.
 * @ret owned by the caller, driver_instance_free() */
enum status driver_instance_new(sd_event *event, const char *name, const char *socket,
				const struct drivers_options *options, driver_instance_changed_fn *changed,
				void *userdata, struct driver_instance **ret, struct error *err);

/** Its calls end before this returns, as "driver shut down". NULL is allowed. */
void driver_instance_free(struct driver_instance *instance);

/** Fills in the state of the instance, valid as long as the instance; without its name. */
void driver_instance_info(const struct driver_instance *instance, struct driver_info *ret);
