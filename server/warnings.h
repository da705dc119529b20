/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Faults of the cluster that an operator should repair. `operator status` shows those in force. The server
 * that leads reviews them once a minute and audits each that begins (Server.Warn) or ends (Server.WarnEnd),
 * about "warning NAME". A server that begins to lead records those in force again. */

#include "base/error.h"

#include <stdbool.h>

struct server;
struct warnings;

enum warning_kind {
	WARNING_STORE,
	WARNING_HELD_TWICE,
	WARNING_HISTORY,
	WARNING_FENCERS,
	WARNING_FENCE_CLIENTS,
	WARNING_SNAPSHOTS,
	WARNING_TICKET_KEY,
	WARNING_CA,
	WARNING_CA_CHANGE,
	WARNING_TOKENS,
	WARNING_REVOCATIONS,
	WARNING_NAMESPACES,
	WARNING_KEY_ROTATION,
	WARNING_DISK,
	WARNING_MARK,
	WARNING_CERTIFICATE,
	WARNING_KIT_CERTIFICATE,
	WARNING_BACKUP,
	WARNING_KIT,
	WARNING_N,
};

enum { WARNING_SIZE = 4608, WARNINGS_REVIEW_S = 60 };

/** Writes the text of `operator status`; false: not in force, or not shown there. */
bool warning_text(struct server *server, enum warning_kind kind, char ret[static WARNING_SIZE]);

/** Audits the warnings that have begun or ended since the last review, and certificates of connected nodes
 * that expire within two days. */
void warnings_review(struct warnings *warnings);

enum status warnings_new(struct server *server, struct warnings **ret, struct error *err);
void warnings_free(struct warnings *warnings);
