/* SPDX-License-Identifier: Apache-2.0 */
#include "admission.h"

#include "ticket_check.h"

#include "base/id.h"
#include "base/str.h"

#include <string.h>

/* STAGE and PUBLISH begin alike. */
_Static_assert(offsetof(struct mh_stage, profile) == offsetof(struct mh_publish, profile), "as above");
_Static_assert(offsetof(struct mh_stage, alloc) == offsetof(struct mh_publish, alloc), "as above");
_Static_assert(offsetof(struct mh_stage, read_only) == offsetof(struct mh_publish, read_only), "as above");
_Static_assert(offsetof(struct mh_stage, source) == offsetof(struct mh_publish, source), "as above");
_Static_assert(offsetof(struct mh_stage, ticket) == offsetof(struct mh_publish, ticket), "as above");

/* PUBLISH checks the source again: root may have replaced the policy since STAGE. */
static enum reason check_source(const struct helper *h, const struct mh_stage *req,
				const struct profile *profile)
{
	if (req->source.class != profile->class)
		return REASON_CLASS;
	if (profile->read_only && !req->read_only)
		return REASON_READ_ONLY;
	if (profile->kind != FS_ANY && !h->type_available[profile->kind])
		return REASON_TYPE_UNAVAILABLE;
	return profile_admit_source(profile, &req->source);
}

static enum reason check_publish(const struct helper *h, const struct mh_publish *req,
				 const struct profile *profile)
{
	if (req->exec && !profile->exec)
		return REASON_EXEC;
	if (req->propagation != TICKET_PROPAGATION_PRIVATE && !profile->shared)
		return REASON_PROPAGATION;
	if (req->propagation == TICKET_PROPAGATION_BIDIRECTIONAL && req->read_only)
		return REASON_PROPAGATION;
	return req->slot >= h->agent->max_per_alloc ? REASON_MAX_PER_ALLOC : REASON_NONE;
}

static enum reason check_detach(const struct helper *h, uint8_t detach)
{
	return detach && !h->agent->allow_detach ? REASON_DETACH : REASON_NONE;
}

enum reason admit_request(const struct helper *h, const union mh_request *req, int64_t now_ms,
			  struct admission *ret)
{
	bool is_stage = req->header.op == MH_OP_STAGE;
	const struct ticket *ticket = &req->stage.ticket;
	struct ticket need = {
		.magic = TICKET_MAGIC, .version = TICKET_VERSION, .read_only = 1, .stage_read_only = 1};
	enum reason reason;

	assert(req->header.op >= MH_OP_STAGE && req->header.op <= MH_OP_UNSTAGE);
	*ret = (struct admission){.profile = NULL};
	if (req->header.op == MH_OP_UNPUBLISH)
		return check_detach(h, req->unpublish.detach);
	if (req->header.op == MH_OP_UNSTAGE)
		return check_detach(h, req->unstage.detach);
	ret->profile = policy_profile(h->agent, req->stage.profile);
	if (!ret->profile)
		return REASON_PROFILE_UNKNOWN;
	reason = check_source(h, &req->stage, ret->profile);
	ticket_source_digest(&req->stage.source, ret->source_digest);
	memcpy(need.source_digest, ret->source_digest, sizeof(need.source_digest));
	if (is_stage) {
		need.stage_read_only = req->stage.read_only;
	} else {
		reason = reason == REASON_NONE ? check_publish(h, &req->publish, ret->profile) : reason;
		need.propagation = req->publish.propagation;
		need.read_only = req->publish.read_only;
	}
	/* an engine may set the flags of the volume that was there when it made a container */
	need.slot = is_stage ? ticket->slot : req->publish.slot;
	/* a ticket that is present is checked; it may be missing only if the policy allows that */
	if (reason != REASON_NONE || (h->agent->ticket_optional && ticket_is_absent(ticket)))
		return reason;
	ret->ticket = ticket;
	(void)str_copy(need.cluster, sizeof(need.cluster), h->agent->cluster);
	(void)str_copy(need.node, sizeof(need.node), h->agent->node);
	(void)id_uuid_bytes(h->boot_id, need.boot_id);
	(void)str_copy(need.volume, sizeof(need.volume), req->stage.volume);
	(void)id_uuid_bytes(req->stage.alloc, need.alloc);
	(void)str_copy(need.profile, sizeof(need.profile), req->stage.profile);
	return ticket_check(ticket, &need, &h->agent->keys, now_ms);
}
