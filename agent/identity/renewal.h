/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The node's certificate while the agent runs: which files it is in, replaced ones, and the next one.
 *
 * After two thirds of its life the agent asks the server for the next one, with a new key. Certificate and
 * key are one file in the agent's own folder, which replaces the one before in a single step: at each moment
 * there is one good pair. Connections that are open stay; the next ones use it. The certificate that was
 * issued last counts, in this file or in the one of the settings. The renewal also brings the CAs that the
 * cluster trusts, as a file of the same folder: that one or the one of the settings counts, whichever was
 * written last. */

#include "base/error.h"
#include "rpc/client.h"
#include "rpc/tls.h"

#include <limits.h>
#include <stdint.h>
#include <systemd/sd-event.h>

#define RENEWED_FILE "node.pem" /* in the agent's folder */
#define RENEWED_CA "ca.pem"	/* likewise */

struct renewal_files {
	const char *uri;    /* of the node; each borrowed */
	const char *folder; /* of the agent */
	const char *ca, *cert, *key;
};

/* The files that are in use. */
struct renewal_choice {
	char cert[PATH_MAX];
	char key[PATH_MAX];
	char ca[PATH_MAX];
};

void renewal_choose(const struct renewal_files *files, struct renewal_choice *ret);

struct renewal;

/** @changed called after another certificate is in use
 * @event, @rpc, @tls borrowed, @files copied, its texts borrowed. @ret owned by the caller, renewal_free() */
enum status renewal_new(sd_event *event, struct rpc_client *rpc, struct rpc_tls *tls,
			const struct renewal_files *files, void (*changed)(void *userdata), void *userdata,
			struct renewal **ret, struct error *err);
void renewal_free(struct renewal *renewal);

/** Choose and load the files again; on failure the certificate in use stays. */
enum status renewal_reload(struct renewal *renewal, struct error *err);

/** The file of the certificate that is in use; borrowed. */
const char *renewal_cert(const struct renewal *renewal);

/** Why the last renewal failed; NULL: it did not. */
const struct error *renewal_error(const struct renewal *renewal);

/** When the next one is due: after two thirds of the life. Pure. */
int64_t renewal_due_ms(int64_t issued_ms, int64_t expires_ms);
