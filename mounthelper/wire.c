#include "wire.h"

#include "policy.h"

#include "base/id.h"

#include <string.h>

bool wire_is_zero(const void *bytes, size_t n)
{
	const uint8_t *p = bytes;

	for (size_t i = 0; i < n; i++)
		if (p[i] != 0)
			return false;
	return true;
}

bool wire_is_string(const char *s, size_t n)
{
	size_t len = strnlen(s, n);

	return len < n && wire_is_zero(s + len, n - len);
}

#define IS_ZERO(array) wire_is_zero(array, sizeof(array))
#define IS_STRING(array) wire_is_string(array, sizeof(array))

static bool is_label(const char s[static MH_LABEL_SIZE])
{
	return wire_is_string(s, MH_LABEL_SIZE) && id_is_label(s);
}

static bool is_uuid(const char s[static MH_UUID_SIZE])
{
	return wire_is_string(s, MH_UUID_SIZE) && id_is_uuid(s);
}

static bool is_bool(uint8_t b)
{
	return b <= 1;
}

static bool is_export(const char *path)
{
	return path[0] == '/';
}

static bool source_is_valid(const struct mh_source *source)
{
	size_t used;

	if (!IS_ZERO(source->reserved))
		return false;
	switch (source->class) {
	case MH_CLASS_BLOCK:
		used = sizeof(source->u.block);
		if (!IS_STRING(source->u.block.by_id) || !by_id_is_valid(source->u.block.by_id))
			return false;
		break;
	case MH_CLASS_TMPFS:
		used = sizeof(source->u.tmpfs);
		break;
	case MH_CLASS_NFS4:
		used = sizeof(source->u.nfs4);
		if ((source->u.nfs4.family != 4 && source->u.nfs4.family != 6) ||
		    !IS_ZERO(source->u.nfs4.reserved) || !IS_STRING(source->u.nfs4.export) ||
		    !is_export(source->u.nfs4.export))
			return false;
		if (source->u.nfs4.family == 4 && !wire_is_zero(source->u.nfs4.addr + 4, 12))
			return false;
		break;
	case MH_CLASS_BIND:
		used = sizeof(source->u.bind);
		if (!is_label(source->u.bind.name))
			return false;
		break;
	case MH_CLASS_CSI:
		used = 0;
		break;
	default:
		return false;
	}
	return wire_is_zero(source->u.bytes + used, sizeof(source->u.bytes) - used);
}

static bool ack_is_valid(const union mh_request *req)
{
	(void)req;
	return true;
}

static bool stage_is_valid(const union mh_request *req)
{
	const struct mh_stage *m = &req->stage;

	return is_label(m->volume) && is_label(m->profile) && is_uuid(m->alloc) && is_bool(m->read_only) &&
	       IS_ZERO(m->reserved) && source_is_valid(&m->source);
}

static bool publish_is_valid(const union mh_request *req)
{
	const struct mh_publish *m = &req->publish;

	return is_label(m->volume) && is_label(m->profile) && is_uuid(m->alloc) && m->slot <= MH_SLOT_MAX &&
	       is_bool(m->read_only) && is_bool(m->exec) && m->propagation < TICKET_PROPAGATION_N &&
	       IS_ZERO(m->reserved);
}

static bool unpublish_is_valid(const union mh_request *req)
{
	const struct mh_unpublish *m = &req->unpublish;

	return is_label(m->volume) && is_uuid(m->alloc) && m->slot <= MH_SLOT_MAX && is_bool(m->detach) &&
	       IS_ZERO(m->reserved);
}

static bool unstage_is_valid(const union mh_request *req)
{
	const struct mh_unstage *m = &req->unstage;

	return is_label(m->volume) && is_bool(m->detach) && IS_ZERO(m->reserved);
}

static bool stat_is_valid(const union mh_request *req)
{
	const struct mh_stat *m = &req->stat;

	if (!IS_ZERO(m->reserved))
		return false;
	if (m->alloc[0] == '\0')
		return IS_ZERO(m->alloc) && m->slot == 0 && is_label(m->volume);
	return is_uuid(m->alloc) && m->slot <= MH_SLOT_MAX && IS_ZERO(m->volume);
}

static bool list_is_valid(const union mh_request *req)
{
	const struct mh_list *m = &req->list;

	return m->kind <= MH_LIST_PROFILES && IS_ZERO(m->reserved);
}

static const struct {
	size_t size;
	bool (*is_valid)(const union mh_request *req);
} formats[MH_OP_N] = {
	[MH_OP_ACK] = {sizeof(struct mh_ack), ack_is_valid},
	[MH_OP_STAGE] = {sizeof(struct mh_stage), stage_is_valid},
	[MH_OP_PUBLISH] = {sizeof(struct mh_publish), publish_is_valid},
	[MH_OP_UNPUBLISH] = {sizeof(struct mh_unpublish), unpublish_is_valid},
	[MH_OP_UNSTAGE] = {sizeof(struct mh_unstage), unstage_is_valid},
	[MH_OP_STAT] = {sizeof(struct mh_stat), stat_is_valid},
	[MH_OP_LIST] = {sizeof(struct mh_list), list_is_valid},
};

static enum reason check_header(const struct mh_header *header, size_t n, uint64_t seq)
{
	if (header->magic != MH_MAGIC)
		return REASON_MAGIC;
	if (header->version != MH_VERSION)
		return REASON_VERSION;
	if (header->op >= MH_OP_N || formats[header->op].size == 0)
		return REASON_UNKNOWN_OP;
	if (header->length != n || formats[header->op].size != n)
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

	if (n < sizeof(req.header) || n > sizeof(req))
		return REASON_SIZE;
	memcpy(&req, bytes, n);
	reason = check_header(&req.header, n, seq);
	if (reason != REASON_NONE)
		return reason;
	if (!formats[req.header.op].is_valid(&req))
		return REASON_FIELD;
	*ret = req;
	return REASON_NONE;
}
