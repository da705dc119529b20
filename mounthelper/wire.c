/* SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"

#include "policy.h"

#include "base/id.h"
#include "privileged/layout.h"

#include <assert.h>
#include <string.h>

enum field {
	LABEL = LAYOUT_END + 1,
	PROFILE,
	PROFILE_OR_NONE,
	UUID,
	BY_ID,
	EXPORT,
	ANY = LAYOUT_ANY,
	ZERO = LAYOUT_ZERO,
	BOOL = LAYOUT_UP_TO + 1,
	SLOT = LAYOUT_UP_TO + MH_SLOT_MAX,
	PROPAGATION = LAYOUT_UP_TO + TICKET_PROPAGATION_N - 1,
	LIST_KIND = LAYOUT_UP_TO + MH_LIST_PROFILES,
};

/* An allocation's id is never all zeroes. */
static bool is_alloc(const char *s)
{
	return id_is_uuid(s) && s[strspn(s, "0-")] != '\0';
}

static bool is_profile_or_none(const char *s)
{
	return s[0] == '\0' || id_is_plugin(s);
}

static const struct layout_text texts[] = {
	[LABEL] = {MH_LABEL_SIZE, id_is_label},
	[PROFILE] = {MH_LABEL_SIZE, id_is_plugin},
	[PROFILE_OR_NONE] = {MH_LABEL_SIZE, is_profile_or_none},
	[UUID] = {MH_UUID_SIZE, is_alloc},
	[BY_ID] = {MH_BY_ID_SIZE, by_id_is_valid},
	[EXPORT] = {MH_EXPORT_SIZE, export_is_valid},
};

/* The layout after the header of each operation, and the forms of a source. */
enum shape {
	NFS4_IPV6 = MH_OP_N,
	SOURCE, /* plus enum mh_class */
	SHAPE_N = SOURCE + MH_CLASS_N,
};

static const uint16_t shapes[SHAPE_N][12] = {
	[MH_OP_STAGE] = {LABEL, PROFILE, UUID, BOOL, ZERO + 7, ANY + sizeof(struct mh_source),
			 ANY + sizeof(struct ticket)},
	[MH_OP_PUBLISH] = {LABEL, PROFILE, UUID, BOOL, SLOT, BOOL, PROPAGATION, ZERO + 4,
			   ANY + sizeof(struct mh_source), ANY + sizeof(struct ticket)},
	[MH_OP_UNPUBLISH] = {LABEL, UUID, SLOT, BOOL, ZERO + 6},
	[MH_OP_UNSTAGE] = {LABEL, PROFILE_OR_NONE, BOOL, ZERO + 7},
	[MH_OP_LIST] = {LIST_KIND, ZERO + 3, ANY + 4, PROFILE_OR_NONE, PROFILE_OR_NONE},
	[SOURCE + MH_CLASS_BLOCK] = {ANY + 1, ZERO + 7, BY_ID, ANY + 8, ZERO + 140},
	[SOURCE + MH_CLASS_TMPFS] = {ANY + 1, ZERO + 7, ANY + 16, ZERO + 264},
	[SOURCE + MH_CLASS_NFS4] = {ANY + 1, ZERO + 7, ANY + 1, ZERO + 7, ANY + 4, ZERO + 12, EXPORT},
	[NFS4_IPV6] = {ANY + 1, ZERO + 7, ANY + 1, ZERO + 7, ANY + 16, EXPORT},
	[SOURCE + MH_CLASS_BIND] = {ANY + 1, ZERO + 7, LABEL, ZERO + 216},
	[SOURCE + MH_CLASS_CSI] = {ANY + 1, ZERO + 7, ANY + TICKET_DIGEST_SIZE, ZERO + 248},
};

static bool source_is_valid(const struct mh_source *source)
{
	if (source->class == 0 || source->class >= MH_CLASS_N)
		return false;
	if (source->class != MH_CLASS_NFS4 || source->u.nfs4.family == 4)
		return layout_is_valid(shapes[SOURCE + source->class], texts, source);
	return source->u.nfs4.family == 6 && layout_is_valid(shapes[NFS4_IPV6], texts, source);
}

static enum reason check_header(const struct mh_header *header, size_t n, uint64_t seq)
{
	if (header->magic != MH_MAGIC)
		return REASON_MAGIC;
	if (header->version != MH_VERSION)
		return REASON_VERSION;
	if (header->op < MH_OP_ACK || header->op > MH_OP_LIST)
		return REASON_UNKNOWN_OP;
	if (header->length != n || sizeof(*header) + layout_size(shapes[header->op], texts) != n)
		return REASON_SIZE;
	if (header->flags != 0 || header->reserved != 0)
		return REASON_RESERVED;
	if (header->seq != seq)
		return REASON_SEQUENCE;
	if ((header->op == MH_OP_ACK) != (seq == 1))
		return REASON_ORDER;
	return REASON_NONE;
}

enum reason wire_decode(const void *bytes, size_t n, uint64_t seq, union mh_request *ret)
{
	union mh_request req = {.bytes = {0}};
	enum reason reason;

	assert(seq > 0);
	if (n < sizeof(req.header) || n > sizeof(req))
		return REASON_SIZE;
	memcpy(&req, bytes, n);
	reason = check_header(&req.header, n, seq);
	if (reason != REASON_NONE)
		return reason;
	if (!layout_is_valid(shapes[req.header.op], texts, req.bytes + sizeof(req.header)) ||
	    (req.header.length == sizeof(req.stage) && !source_is_valid(&req.stage.source)))
		return REASON_FIELD;
	*ret = req;
	return REASON_NONE;
}
