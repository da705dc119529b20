/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The server's own certificate: which files are in use, when it expires, and the next one.
 *
 * A server with a CA (block ca { }) issues its next certificate to itself after two thirds of the life, with
 * a new key and the same names. Both are one file in its data folder, which replaces the one before in a
 * single step. The certificate that was issued last counts, in this file or in those of the settings, unless
 * only the other one is valid now: it may be of a clock that was ahead. Open connections stay. */

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>
#include <time.h>

struct server;

#define CERTIFICATE_RENEWED "server.pem" /* in data_dir */
#define CERTIFICATE_CA "cluster-ca.pem"	 /* the same: the trusted CAs, instead of the file of the settings */

enum { CERTIFICATE_WARNING_SIZE = 4608, CERTIFICATE_CA_WARNING_SIZE = 2048 };

struct certificate {
	int64_t begins_at_ms;  /* peers refuse it before that */
	int64_t expires_at_ms; /* 0: not known */
	int64_t warns_at_ms;
	uint64_t retry_us;	       /* by the monotonic clock: no try before it, after one that failed */
	int64_t due_ms;		       /* its renewal; 0: not known */
	bool is_made_invalid;	       /* the renewed one, now: the next one follows at once */
	struct timespec configured[2]; /* certificate and key of the settings, when they were chosen */
	size_t n_old_cas;	       /* in the CA's file: neither the one that issues nor above it */
	int64_t ca_expires_at_ms;      /* the same; of the first one in the file */
	int64_t store_expires_at_ms;   /* the same; of the one for etcd */
	sd_event_source *timer;	       /* owned; looks once a day */
};

/** Counts the old CAs in the file, after it or the CA that issues has changed. */
void certificate_count_cas(struct server *server);

/** Chooses the files in use. */
void certificate_choose(struct server *server);

/** Were the files in use, or those of the settings, replaced? Looks at them. */
bool certificate_is_replaced(const struct server *server);

/** Chooses and loads the files again; on failure the certificate in use stays. */
enum status certificate_use(struct server *server, struct error *err);

/** Chooses again if the certificate in use is not valid now. Issues the next one if it is due and the server
 * has a CA. A failure is logged, and tried again. */
void certificate_renew_due(struct server *server);

/** Returns how long to wait for the next certificate_renew_due(), @most_us at most. */
uint64_t certificate_wait_us(const struct server *server, uint64_t most_us);

/** Reads the expiry of the certificate in use and of its CA's, warns, and looks again every day. After each
 * load of it. */
void certificate_watch(struct server *server);
void certificate_release(struct certificate *certificate);

/** Writes the warning about its begin or expiry; false: nothing yet. @path of the file, for the message. */
bool certificate_warning(const struct certificate *certificate, const char *path,
			 char ret[static CERTIFICATE_WARNING_SIZE]);

/** Is the name of store "etcd", which lists show, not the one that a revocation must name? */
bool certificate_name_warning(const struct server *server, char ret[static CERTIFICATE_WARNING_SIZE]);

/** Names the holders of certificates of another CA than the issuing one, while the CA's file has several;
 * false: no change of the CA is under way. */
bool certificate_ca_warning(struct server *server, char ret[static CERTIFICATE_CA_WARNING_SIZE]);
