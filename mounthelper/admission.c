#include "admission.h"

#include "ticket_check.h"

/* A ticket is checked whenever there is one, and may be missing only if the policy says so. */
static enum reason admit_ticket(const struct helper *h, const struct ticket *ticket,
				struct ticket_expectation *want, struct admission *ret)
{
	enum reason reason;

	want->keys = &h->agent->keys;
	want->cluster = h->agent->cluster;
	want->node = h->agent->node;
	want->boot_id = h->boot_id;
	ret->ticket = NULL;
	if (h->agent->ticket_optional && ticket_is_absent(ticket))
		return REASON_NONE;
	reason = ticket_check(ticket, want);
	if (reason == REASON_NONE)
		ret->ticket = ticket;
	return reason;
}

enum reason admit_stage(const struct helper *h, const struct mh_stage *req, int64_t now_ms,
			struct admission *ret)
{
	const struct profile *profile = policy_profile(h->policy, h->agent, req->profile);
	struct ticket_expectation want = {.volume = req->volume,
					  .alloc = req->alloc,
					  .profile = req->profile,
					  .source_digest = ret->source_digest,
					  .writable = !req->read_only,
					  .propagation = TICKET_PROPAGATION_PRIVATE,
					  .now_ms = now_ms};
	enum reason reason;

	if (!profile)
		return REASON_PROFILE_UNKNOWN;
	if (req->source.class != profile->class)
		return REASON_CLASS;
	if (!req->read_only && profile->read_only)
		return REASON_READ_ONLY;
	reason = profile_admit_source(profile, &req->source);
	if (reason != REASON_NONE)
		return reason;
	ret->profile = profile;
	ticket_source_digest(&req->source, ret->source_digest);
	reason = admit_ticket(h, &req->ticket, &want, ret);
	if (reason == REASON_NONE && profile->kind != FS_ANY && !h->type_available[profile->kind])
		return REASON_TYPE_UNAVAILABLE;
	return reason;
}

enum reason admit_publish(const struct helper *h, const struct mh_publish *req, int64_t now_ms,
			  struct admission *ret)
{
	const struct profile *profile = policy_profile(h->policy, h->agent, req->profile);
	struct ticket_expectation want = {.volume = req->volume,
					  .alloc = req->alloc,
					  .profile = req->profile,
					  .writable = !req->read_only,
					  .propagation = req->propagation,
					  .now_ms = now_ms};

	if (!profile)
		return REASON_PROFILE_UNKNOWN;
	if (!req->read_only && profile->read_only)
		return REASON_READ_ONLY;
	if (req->exec && !profile->exec)
		return REASON_EXEC;
	if (req->propagation != TICKET_PROPAGATION_PRIVATE && !profile->shared)
		return REASON_PROPAGATION;
	if (req->propagation == TICKET_PROPAGATION_BIDIRECTIONAL && req->read_only)
		return REASON_PROPAGATION;
	if (req->slot >= h->agent->max_per_alloc)
		return REASON_MAX_PER_ALLOC;
	ret->profile = profile;
	return admit_ticket(h, &req->ticket, &want, ret);
}

enum reason admit_detach(const struct helper *h, uint8_t detach)
{
	return detach && !h->agent->allow_detach ? REASON_DETACH : REASON_NONE;
}
