/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* When the server's own certificate, its CA's and those of connected nodes expire; of its own said in time.
 */

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

struct server;

enum { CERTIFICATE_WARN_DAYS = 30, CERTIFICATE_WARNING_SIZE = 4608 };

struct certificate {
	int64_t expires_at_ms;	  /* 0: not known */
	int64_t ca_expires_at_ms; /* the same; of the first one in the file */
	sd_event_source *timer;	  /* owned; looks once a day */
};

/** Read the expiry of the certificate in use and of its CA's, warn, and look again every day. After each load
 * of it. */
void certificate_watch(struct server *server);
void certificate_release(struct certificate *certificate);

/** Write what there is to say about the expiry; false: nothing yet. @path of the file, for the message. */
bool certificate_warning(const struct certificate *certificate, const char *path,
			 char ret[static CERTIFICATE_WARNING_SIZE]);
