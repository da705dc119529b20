/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The node's first certificate, for the line that an operator has made. */

#include "base/error.h"
#include "rpc/enroll_line.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

enum { ENROLL_TICKET_KEY_SIZE = 2 * 32 + 1 };

struct enrolled {
	struct enroll_line line;
	char certificate[PATH_MAX]; /* with its key: one file, so that both change at once */
	char begun[PATH_MAX];	    /* key and request, until the certificate is written */
	char ca[PATH_MAX];
	char config[PATH_MAX];
	char ticket[PATH_MAX]; /* the ticket key, as holdfast policy init takes it */
	char cli[PATH_MAX];
	const char *policy; /* of the mount helper: root writes it */
	bool wrote_config;  /* false: there was one, which is kept */
	int64_t expires_ms;
	char ticket_key[ENROLL_TICKET_KEY_SIZE]; /* for the mount helper's policy */
};

/** Make a key, get the certificate from a server whose CA has the digest of @line, and write, each file
 * whole, INTO/tls/ca.pem, INTO/tls/ticket.pub,
 * INTO/tls/node.key (certificate and key, 0600) and, if they do not exist, INTO/agent.hcl and INTO/cli.env.
 * On failure no certificate is written, and one that exists stays. The key never leaves this machine, and the
 * token reaches no other server. */
enum status enroll(sd_event *event, const char *line, const char *into, struct enrolled *ret,
		   struct error *err);

/** Prints the written files and the next commands for root. */
void enroll_print(const struct enrolled *enrolled);
