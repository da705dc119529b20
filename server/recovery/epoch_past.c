/* SPDX-License-Identifier: Apache-2.0 */
#include "server.h"

#include "access/audit.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "log/log.h"
#include "node/session.h"
#include "recovery/epoch_internal.h"
#include "recovery/proof.h"
#include "state/change.h"
#include "state/claim_log.h"

#include <inttypes.h>
#include <string.h>

/* What the node had, and what was granted after the backup must not be granted again under its number. */
static enum status raise_generation(struct session *session, const struct volume_entry *entry,
				    const struct claim *said, struct error *err)
{
	struct server *server = session->server;
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct volume volume;

	if (entry && entry->volume.generation < said->generation) {
		volume = entry->volume;
		volume.generation = said->generation;
		change_put_volume(&change, &volume);
	}
	if (!entry && state_generation_floor(&server->state) < said->generation)
		change_put_floor(&change, said->generation);
	return session_commit(session, &change, SESSION_NOTHING, "", err);
}

/* Nobody has it mounted: only its attachment may be left, for the controller to take away. */
static void make_past(const struct session *session, const struct claim *said, const struct volume *volume,
		      struct claim *ret)
{
	bool is_new_boot = !str_eq(said->boot_id, session->boot_id);

	epoch_adopt(said, volume, ret);
	ret->state = CLAIM_NODE_DETACHED;
	ret->adopted = true;
	ret->evidence = is_new_boot ? EVIDENCE_NEW_BOOT : EVIDENCE_RECEIPT;
	(void)str_copy(ret->evidence_detail, sizeof(ret->evidence_detail),
		       is_new_boot ? session->boot_id : "in the node's report");
	ret->modify_time_ms = ret->state_time_ms = clock_realtime_ms();
}

enum status epoch_take_past(struct session *session, struct claim *said, const ProtobufCBinaryData *ticket,
			    struct error *err)
{
	struct server *server = session->server;
	const struct volume_entry *entry = state_volume(&server->state, said->namespace, said->volume_id);
	struct claim_log log;
	struct volume volume;
	struct claim claim;
	enum status st = epoch_check_leap(server, entry, said, err);

	if (st != STATUS_OK)
		return st;
	if (proof_check(server, said, ticket, err) != STATUS_OK) {
		epoch_refuse_claim(session, err);
		return STATUS_OK;
	}
	if (entry)
		volume = entry->volume;
	else
		epoch_make_volume(server, said, &volume);
	if (volume.type == VOLUME_NATIVE) /* no provider has it attached */
		return raise_generation(session, entry, said, err);
	make_past(session, said, &volume, &claim);
	st = epoch_store_claim(session, entry, &claim, err);
	if (st == STATUS_OK)
		log_ctx(LOG_WARNING, claim_log(&log, &claim, "epoch", LOG_EVENT_NONE, NULL),
			"adopted from the node's report to be detached, generation %" PRIu64,
			claim.generation);
	return st;
}
