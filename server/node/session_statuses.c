/* SPDX-License-Identifier: Apache-2.0 */
#include "server.h"

#include "alloc/allocs.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/str.h"
#include "claim/claims.h"
#include "claim/held_twice.h"
#include "log/log.h"
#include "model/pb.h"
#include "node/session.h"
#include "recovery/epoch.h"

#include <stdlib.h>
#include <string.h>

/* What a status says of an allocation, for as long as it is being taken. */
struct said {
	struct alloc_volume published[ALLOC_VOLUMES_MAX];
	char description[ALLOC_DESCRIPTION_MAX + 1];
};

static enum status take_published(const Holdfast__V1__AllocStatus *from, struct alloc *to, struct said *said,
				  struct error *err)
{
	if (from->n_published > ALLOC_VOLUMES_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "more than %d volumes are published",
				 ALLOC_VOLUMES_MAX);
	to->published = said->published;
	to->n_published = 0;
	for (size_t i = 0; i < from->n_published; i++) {
		enum status st = alloc_volume_from_pb(from->published[i], &said->published[i], err);

		if (st != STATUS_OK)
			return st;
		to->n_published++;
	}
	return STATUS_OK;
}

static enum status apply_alloc_status(const Holdfast__V1__AllocStatus *from, struct alloc *to,
				      struct said *said, struct error *err)
{
	int status = (int)from->client_status;

	if (status <= CLIENT_UNSPECIFIED || status >= CLIENT_N)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "client status %d is not known here",
				 status);
	to->client_status = (enum client_status)status;
	to->client_code = from->code;
	str_copy_text(said->description, sizeof(said->description), from->description);
	to->client_description = said->description;
	return take_published(from, to, said, err);
}

static bool same_published(const struct alloc *a, const struct alloc *b)
{
	for (uint32_t i = 0; i < a->n_published; i++)
		if (!str_eq(a->published[i].name, b->published[i].name) ||
		    !str_eq(a->published[i].path, b->published[i].path) ||
		    !str_eq(a->published[i].claim_id, b->published[i].claim_id) ||
		    a->published[i].is_device != b->published[i].is_device)
			return false;
	return true;
}

/* Each hello repeats every status: what is known already is not written again. */
static bool says_nothing_new(const struct alloc *known, const struct alloc *said)
{
	return known->client_status == said->client_status && known->client_code == said->client_code &&
	       str_eq(alloc_description(known), alloc_description(said)) &&
	       known->n_published == said->n_published && same_published(known, said);
}

static enum status take_known(struct session *session, struct alloc_entry *entry, struct alloc *alloc,
			      struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	bool has_ended = alloc_is_client_terminal(alloc);
	enum status st;

	if (alloc_is_client_terminal(&entry->alloc)) /* for ever: there the node has to get, too */
		return session_commit(session, &change, has_ended ? SESSION_FORGET_ALLOC : SESSION_STOP_ALLOC,
				      alloc->id, err);
	if (says_nothing_new(&entry->alloc, alloc))
		return STATUS_OK;
	alloc->modify_time_ms = clock_realtime_ms();
	change_put_alloc(&change, alloc);
	if (!has_ended)
		return session_commit(session, &change, SESSION_NOTHING, "", err);
	st = claims_end_work(&change, entry, alloc->modify_time_ms, err);
	return st == STATUS_OK ? session_commit(session, &change, SESSION_FORGET_ALLOC, alloc->id, err) : st;
}

/* The end of an allocation that is not known here, said during a session, is the answer to a late order. */
static bool is_forgotten(const struct session *session, const Holdfast__V1__AllocStatus *status,
			 const struct alloc_entry *entry)
{
	bool has_ended = (int)status->client_status > CLIENT_RUNNING;

	return (entry || !has_ended) && epoch_is_forgotten(session, status);
}

enum status session_take_status(struct session *session, const Holdfast__V1__AllocStatus *status,
				struct error *err)
{
	struct alloc_entry *entry = state_alloc(&session->server->state, status->alloc_id);
	struct said said;
	struct alloc alloc;
	enum status st;

	if (!entry && !id_is_uuid(status->alloc_id))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "the id of an allocation in a status is not a lower-case UUID");
	if (!session->was_asked && is_forgotten(session, status, entry))
		return epoch_doubt(session, status->alloc_id, err);
	if (!entry) /* over and forgotten on both sides; or the report has it */
		return STATUS_OK;
	if (!str_eq(entry->alloc.node_id, session->node_id))
		return error_set(err, STATUS_PERMISSION_DENIED, 0, "allocation %s is not of node %s",
				 entry->alloc.id, session->node_id);
	alloc = entry->alloc;
	st = apply_alloc_status(status, &alloc, &said, err);
	for (uint32_t i = 0; st == STATUS_OK && i < alloc.n_published; i++)
		st = held_twice_take(session, alloc.published[i].claim_id, err);
	return st == STATUS_OK ? take_known(session, entry, &alloc, err) : st;
}
