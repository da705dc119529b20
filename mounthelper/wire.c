#include "wire.h"

#include "policy.h"

#include "base/id.h"
#include "base/str.h"

#include <string.h>

/* Fields as they follow each other: a text, or a kind and a number. */
enum field {
	END,
	LABEL,
	UUID,
	BY_ID,
	EXPORT,
	ANY = 1 << 12,	 /* plus a number of bytes */
	ZERO = 2 << 12,	 /* plus a number of bytes */
	UP_TO = 3 << 12, /* plus the highest value of one byte */
	BOOL = UP_TO + 1,
	SLOT = UP_TO + MH_SLOT_MAX,
	PROPAGATION = UP_TO + TICKET_PROPAGATION_N - 1,
	LIST_KIND = UP_TO + MH_LIST_PROFILES,
};

static const struct {
	size_t size;
	bool (*is_valid)(const char *text);
} texts[] = {
	[LABEL] = {MH_LABEL_SIZE, id_is_label},
	[UUID] = {MH_UUID_SIZE, id_is_uuid},
	[BY_ID] = {MH_BY_ID_SIZE, by_id_is_valid},
	[EXPORT] = {MH_EXPORT_SIZE, export_is_valid},
};

/* What follows the header of each operation; two forms of STAT, and the forms of a source. */
enum shape {
	STAT_ALLOC = MH_OP_N,
	NFS4_IPV6,
	SOURCE, /* plus enum mh_class */
	SHAPE_N = SOURCE + MH_CLASS_N,
};

static const uint16_t shapes[SHAPE_N][10] = {
	[MH_OP_STAGE] = {LABEL, LABEL, UUID, BOOL, ZERO + 7, ANY + sizeof(struct mh_source),
			 ANY + sizeof(struct ticket)},
	[MH_OP_PUBLISH] = {LABEL, LABEL, UUID, SLOT, BOOL, BOOL, PROPAGATION, ZERO + 4,
			   ANY + sizeof(struct ticket)},
	[MH_OP_UNPUBLISH] = {LABEL, UUID, SLOT, BOOL, ZERO + 6},
	[MH_OP_UNSTAGE] = {LABEL, BOOL, ZERO + 7},
	[MH_OP_STAT] = {LABEL, ZERO + MH_UUID_SIZE, ZERO + 8},
	[STAT_ALLOC] = {ZERO + MH_LABEL_SIZE, UUID, SLOT, ZERO + 7},
	[MH_OP_LIST] = {LIST_KIND, ZERO + 3, ANY + 4},
	[SOURCE + MH_CLASS_BLOCK] = {ANY + 1, ZERO + 7, BY_ID, ANY + 8, ZERO + 140},
	[SOURCE + MH_CLASS_TMPFS] = {ANY + 1, ZERO + 7, ANY + 16, ZERO + 264},
	[SOURCE + MH_CLASS_NFS4] = {ANY + 1, ZERO + 7, ANY + 1, ZERO + 7, ANY + 4, ZERO + 12, EXPORT},
	[NFS4_IPV6] = {ANY + 1, ZERO + 7, ANY + 1, ZERO + 7, ANY + 16, EXPORT},
	[SOURCE + MH_CLASS_BIND] = {ANY + 1, ZERO + 7, LABEL, ZERO + 216},
	[SOURCE + MH_CLASS_CSI] = {ANY + 1, ZERO + 7, ZERO + 280},
};

static size_t field_size(uint16_t field)
{
	if (field < ANY)
		return texts[field].size;
	return field >= UP_TO ? 1 : field % ANY;
}

static bool field_is_valid(uint16_t field, const char *at)
{
	if (field < ANY)
		return str_is_padded(at, texts[field].size) && texts[field].is_valid(at);
	if (field >= UP_TO)
		return (uint8_t)*at <= field % ANY;
	return field < ZERO || bytes_are_zero(at, field % ANY);
}

static size_t shape_size(uint32_t shape)
{
	size_t n = 0;

	for (const uint16_t *field = shapes[shape]; *field != END; field++)
		n += field_size(*field);
	return n;
}

static bool shape_is_valid(uint32_t shape, const void *bytes)
{
	const char *at = bytes;

	for (const uint16_t *field = shapes[shape]; *field != END; at += field_size(*field++))
		if (!field_is_valid(*field, at))
			return false;
	return true;
}

static bool source_is_valid(const struct mh_source *source)
{
	if (source->class == 0 || source->class >= MH_CLASS_N)
		return false;
	if (source->class != MH_CLASS_NFS4 || source->u.nfs4.family == 4)
		return shape_is_valid(SOURCE + source->class, source);
	return source->u.nfs4.family == 6 && shape_is_valid(NFS4_IPV6, source);
}

static enum reason check_header(const struct mh_header *header, size_t n, uint64_t seq)
{
	if (header->magic != MH_MAGIC)
		return REASON_MAGIC;
	if (header->version != MH_VERSION)
		return REASON_VERSION;
	if (header->op < MH_OP_ACK || header->op > MH_OP_LIST)
		return REASON_UNKNOWN_OP;
	if (header->length != n || sizeof(*header) + shape_size(header->op) != n)
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
	uint32_t shape;

	if (n < sizeof(req.header) || n > sizeof(req))
		return REASON_SIZE;
	memcpy(&req, bytes, n);
	reason = check_header(&req.header, n, seq);
	if (reason != REASON_NONE)
		return reason;
	shape = req.header.op;
	if (shape == MH_OP_STAT && req.stat.alloc[0] != '\0')
		shape = STAT_ALLOC;
	if (!shape_is_valid(shape, req.bytes + sizeof(req.header)) ||
	    (shape == MH_OP_STAGE && !source_is_valid(&req.stage.source)))
		return REASON_FIELD;
	*ret = req;
	return REASON_NONE;
}
