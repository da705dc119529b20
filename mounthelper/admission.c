#include "admission.h"

#include "ticket_check.h"

#include <string.h>

/* A ticket is checked whenever there is one, and may be missing only if the policy says so. */
static enum reason admit_ticket(const struct helper *h, const struct ticket *ticket,
				struct ticket_expectation *want, struct admission *admission)
{
	enum reason reason;

	want->keys = &h->agent->keys;
	want->cluster = h->agent->cluster;
	want->node = h->agent->node;
	want->boot_id = h->boot_id;
	if (h->agent->ticket_optional && ticket_is_absent(ticket))
		return REASON_NONE;
	reason = ticket_check(ticket, want);
	if (reason == REASON_NONE)
		admission->ticket = ticket;
	return reason;
}

static enum reason admit_profile(const struct helper *h, const char *name, const struct profile **ret)
{
	const struct profile *profile = policy_profile(h->policy, h->agent, name);

	if (!profile)
		return REASON_PROFILE_UNKNOWN;
	*ret = profile;
	return REASON_NONE;
}

enum reason admit_stage(const struct helper *h, const struct mh_stage *req, int64_t now_ms,
			struct admission *ret)
{
	struct admission admission = {.profile = NULL};
	struct ticket_expectation want = {.volume = req->volume,
					  .alloc = req->alloc,
					  .profile = req->profile,
					  .source_digest = admission.source_digest,
					  .writable = !req->read_only,
					  .propagation = TICKET_PROPAGATION_PRIVATE,
					  .now_ms = now_ms};
	enum reason reason;

	reason = admit_profile(h, req->profile, &admission.profile);
	if (reason != REASON_NONE)
		return reason;
	if (req->source.class != admission.profile->class)
		return REASON_CLASS;
	if (!req->read_only && admission.profile->read_only)
		return REASON_READ_ONLY;
	reason = profile_admit_source(admission.profile, &req->source);
	if (reason != REASON_NONE)
		return reason;
	ticket_source_digest(&req->source, admission.source_digest);
	reason = admit_ticket(h, &req->ticket, &want, &admission);
	if (reason == REASON_NONE && !h->type_available[admission.profile->kind])
		reason = REASON_TYPE_UNAVAILABLE;
	if (reason == REASON_NONE)
		*ret = admission;
	return reason;
}

enum reason admit_publish(const struct helper *h, const struct mh_publish *req, int64_t now_ms,
			  struct admission *ret)
{
	struct admission admission = {.profile = NULL};
	struct ticket_expectation want = {.volume = req->volume,
					  .alloc = req->alloc,
					  .profile = req->profile,
					  .writable = !req->read_only,
					  .propagation = req->propagation,
					  .now_ms = now_ms};
	enum reason reason = admit_profile(h, req->profile, &admission.profile);

	if (reason != REASON_NONE)
		return reason;
	if (!req->read_only && admission.profile->read_only)
		return REASON_READ_ONLY;
	if (req->exec && !admission.profile->exec)
		return REASON_EXEC;
	if (req->propagation != TICKET_PROPAGATION_PRIVATE && !admission.profile->shared)
		return REASON_PROPAGATION;
	if (req->propagation == TICKET_PROPAGATION_BIDIRECTIONAL && req->read_only)
		return REASON_PROPAGATION;
	if (req->slot >= h->agent->max_per_alloc)
		return REASON_MAX_PER_ALLOC;
	reason = admit_ticket(h, &req->ticket, &want, &admission);
	if (reason == REASON_NONE)
		*ret = admission;
	return reason;
}

enum reason admit_detach(const struct helper *h, uint8_t detach)
{
	return detach && !h->agent->allow_detach ? REASON_DETACH : REASON_NONE;
}
