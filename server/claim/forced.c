/* SPDX-License-Identifier: Apache-2.0 */
#include "claim/forced.h"

#include "server.h"

#include "access/audit.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "claim/attest_record.h"
#include "claim/claims.h"
#include "node/session.h"
#include "state/change.h"

#include <inttypes.h>
#include <string.h>

enum { BYPASSED_MAX = 64 * 1024, BYPASSED_LINE_MAX = 2048, OBJECT_SIZE = 512, REASON_SIZE = 512 };

#define FIELD "without_plugin_reason"

static bool is_meant(const struct claim_entry *entry, const char *node_id)
{
	return entry->claim.state <= CLAIM_UNPUBLISHING && str_eq(entry->claim.node_id, node_id);
}

/* Bounds the reason more tightly than other evidence: the kernel's report is appended to it. */
static enum status name_word(struct server *server, const struct rpc_call *call, const char *reason,
			     char ret[static EVIDENCE_DETAIL_MAX + 1], struct error *err)
{
	enum status status = attest_detail(server, call, FIELD, reason, ret, err);
	size_t n = status == STATUS_OK ? strlen(ret) : 0;

	if (n > PLUGIN_WAIVER_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s: longer than %zu bytes", FIELD,
				 (size_t)PLUGIN_WAIVER_MAX - (n - strlen(reason)));
	return status;
}

static enum status check_claims(struct server *server, const struct node_entry *node,
				const struct volume_entry *volume, struct error *err)
{
	const struct claim_entry *entry;
	bool has_failed = false;
	size_t n = 0;

	LIST_FOREACH (entry, &volume->claims, of_volume) {
		if (!is_meant(entry, node->id))
			continue;
		if (entry->claim.state < CLAIM_UNPUBLISHING && claims_may_run(server, &entry->claim))
			return error_set(err, STATUS_FAILED_PRECONDITION, 0,
					 "allocation %s on node %s may continue with volume %s; stop it "
					 "first: holdfast "
					 "alloc stop %s",
					 entry->claim.allocation_id, node->id, volume->id,
					 entry->claim.allocation_id);
		TRY(attest_check_plugin(server, &volume->volume, entry->claim.plugin_id, err));
		n++;
		has_failed = has_failed || (entry->claim.attempts > 0 && entry->claim.sent_to_node);
	}
	if (n == 0)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "node %s holds no claim of volume %s that it has not released: nothing was "
				 "changed; holdfast volume status %s%s%s --why shows the cause",
				 node->id, volume->id, volume->id, NAMESPACE_OPTION(volume->namespace));
	if (!has_failed)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "node %s has not failed to release volume %s: plugin %s is given its time "
				 "first; holdfast volume status %s%s%s --why shows the outcome",
				 node->id, volume->id, volume->volume.plugin_id, volume->id,
				 NAMESPACE_OPTION(volume->namespace));
	return STATUS_OK;
}

static enum status forced_check(struct server *server, const struct node_entry *node,
				const struct volume_entry *volume, struct error *err)
{
	if (str_eq(volume->volume.plugin_id, PLUGIN_NATIVE))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "volume %s is native: only the mount helper mounts it, so there is no "
				 "plugin to leave out; see the cause: holdfast volume status %s%s%s --why",
				 volume->id, volume->id, NAMESPACE_OPTION(volume->namespace));
	if (!node_is_connected(node))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "node %s is not connected and cannot be ordered to release volume %s "
				 "without plugin %s: bring it back; when it is certain that it can no longer "
				 "write: holdfast volume detach %s %s%s%s --attest REASON",
				 node->id, volume->id, volume->volume.plugin_id, volume->id, node->id,
				 NAMESPACE_OPTION(volume->namespace));
	TRY(attest_check_plugin(server, &volume->volume, volume->volume.plugin_id, err));
	return check_claims(server, node, volume, err);
}

static enum status note_one(struct server *server, const struct rpc_call *call, const char *what,
			    const struct claim_entry *entry, const char *detail, struct error *err)
{
	const struct claim_event forced = {
		.type = CLAIM_EVENT_FORCED, .detail = detail, .now_ms = clock_realtime_ms()};
	cleanup(change_release) struct change change = CHANGE_INIT;
	char why[REASON_SIZE];
	struct claim after;

	TRY(claims_step(&change, entry, &forced, &after, err));
	(void)str_format(why, sizeof(why), "without plugin %s: %s", entry->claim.plugin_id, detail);
	audit_word(server, &change, call, what, &entry->claim, why);
	return change_commit(server, &change, NULL, NULL, err);
}

enum status forced_begin(struct server *server, const struct rpc_call *call, const char *what,
			 const struct node_entry *node, struct volume_entry *volume, const char *reason,
			 bool dry_run, struct error *err)
{
	char detail[EVIDENCE_DETAIL_MAX + 1];
	enum status status = name_word(server, call, reason, detail, err);
	const struct claim_entry *entry;

	if (status == STATUS_OK)
		status = forced_check(server, node, volume, err);
	if (dry_run)
		return status;
	LIST_FOREACH (entry, &volume->claims, of_volume) /* no claim leaves the list by that */
		if (status == STATUS_OK && is_meant(entry, node->id))
			status = note_one(server, call, what, entry, detail, err);
	return status;
}

void forced_notify(const struct volume_entry *volume, const char *node_id)
{
	const struct claim_entry *entry;

	LIST_FOREACH (entry, &volume->claims, of_volume)
		if (is_meant(entry, node_id) && entry->claim.plugin_waiver[0] != '\0' &&
		    node_is_connected(entry->node))
			session_release_claim(entry->node->session, &entry->claim);
}

char *forced_bypassed(const struct volume_entry *volume, const char *node_id)
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(BYPASSED_MAX);
	const struct claim_entry *entry;

	LIST_FOREACH (entry, &volume->claims, of_volume) {
		const struct claim *claim = &entry->claim;

		if (!is_meant(entry, node_id) || sb.len > BYPASSED_MAX - BYPASSED_LINE_MAX)
			continue;
		strbuf_printf(
			&sb,
			"volume %s/%s, allocation %s, generation %" PRIu64
			": plugin %s does not confirm on node %s that it released it (NodeUnpublishVolume, "
			"NodeUnstageVolume), and a call to it may still be carried out; the only evidence is "
			"what the mount helper unmounts and the kernel shows; the last error: %s\n",
			claim->namespace, claim->volume_id, claim->allocation_id, claim->generation,
			claim->plugin_id, claim->node_id,
			claim->last_error[0] != '\0' ? claim->last_error : "none");
	}
	return strbuf_take(&sb);
}
