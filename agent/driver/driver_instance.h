/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One instance of a task driver: a socket that is dialled, asked what it is, and watched for as long as it
 * stands. What happens is decided by instance_step(), as for CSI plugins: its probe is Capabilities; its
 * facts are ConfigSchema, SetConfig and the first answer of Fingerprint, whose stream stays open. The end of
 * that stream is how a driver that was restarted is noticed at once. */

#include "base/error.h"
#include "driver/driver_client.h"
#include "driver/driver_info.h"

#include <stdbool.h>
#include <systemd/sd-event.h>

enum {
	DRIVER_ASK_TIMEOUT_MS = 5000,	   /* of each question */
	DRIVER_FINGERPRINT_MAX = 64 << 10, /* bytes of an answer that is kept, of each kind */
};

struct driver_instance;

/** What it says, its state or the reason have changed. From the event loop; may not free the instance. */
typedef void driver_instance_changed_fn(void *userdata);

/** Dialled at once, from the event loop. @options borrowed; @name and @path copied.
 * @ret owned by the caller, driver_instance_free() */
enum status driver_instance_new(sd_event *event, const char *name, const char *path,
				const struct drivers_options *options, driver_instance_changed_fn *changed,
				void *userdata, struct driver_instance **ret, struct error *err);

/** Its calls end before this returns, as "driver shut down". NULL is allowed. */
void driver_instance_free(struct driver_instance *instance);

/** Its socket was bound anew: another process, which says anew what it is. Calls in flight end, as "driver
 * shut down". */
void driver_instance_recreate(struct driver_instance *instance);

/** Perhaps it can be reached now: one that cannot is asked again, soon. */
void driver_instance_retry(struct driver_instance *instance);

/** Does it answer? Whether what it drives does is in its fingerprint. */
bool driver_instance_answers(const struct driver_instance *instance);

/** Does it, and was it asked and set since it was last seen anew? Else it may be another process already,
 * which has not been set yet. */
bool driver_instance_is_ready(const struct driver_instance *instance);

/** What is known of it: as long as it stands. Its name is left out. */
void driver_instance_info(const struct driver_instance *instance, struct driver_info *ret);

struct service_client *driver_instance_client(const struct driver_instance *instance);
