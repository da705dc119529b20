/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include "base/fd.h"

#include <dirent.h>

static enum reason decode(const void *message, size_t n)
{
	union mh_request req;

	return wire_decode(message, n, 2, &req);
}

static union mh_request message(uint16_t op)
{
	union mh_request req = {.bytes = {0}};

	switch (op) {
	case MH_OP_STAGE:
		req.stage = fixture_stage();
		break;
	case MH_OP_PUBLISH:
		req.publish = fixture_publish();
		break;
	case MH_OP_UNPUBLISH:
		req.unpublish = fixture_unpublish();
		break;
	case MH_OP_UNSTAGE:
		req.unstage = fixture_unstage();
		break;
	case MH_OP_LIST:
		req.list = (struct mh_list){.header = {.length = sizeof(req.list)}, .kind = MH_LIST_PROFILES};
		break;
	default:
		req.header.length = sizeof(req.ack);
		break;
	}
	req.header.magic = MH_MAGIC;
	req.header.version = MH_VERSION;
	req.header.op = op;
	req.header.seq = 2;
	return req;
}

static const uint16_t requests[] = {MH_OP_STAGE, MH_OP_PUBLISH, MH_OP_UNPUBLISH, MH_OP_UNSTAGE, MH_OP_LIST};

TEST(well_formed_requests_are_understood_unchanged)
{
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		union mh_request sent = message(requests[i]);
		union mh_request got;

		assert_int_equal(wire_decode(&sent, sent.header.length, 2, &got), REASON_NONE);
		assert_memory_equal(&sent, &got, sizeof(sent));
	}
}

TEST(the_first_message_is_the_acknowledgement_and_only_that)
{
	union mh_request ack = message(MH_OP_ACK);
	union mh_request list = message(MH_OP_LIST);
	union mh_request got;

	ack.header.seq = 1;
	list.header.seq = 1;
	assert_int_equal(wire_decode(&ack, ack.header.length, 1, &got), REASON_NONE);
	assert_int_equal(wire_decode(&list, list.header.length, 1, &got), REASON_ORDER);
	ack.header.seq = 2;
	assert_int_equal(wire_decode(&ack, ack.header.length, 2, &got), REASON_ORDER);
}

TEST(every_other_size_is_a_violation)
{
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		union mh_request req = message(requests[i]);
		const uint32_t size = req.header.length;

		for (size_t n = 0; n <= sizeof(req); n++) {
			if (n == size)
				continue;
			assert_int_equal(decode(&req, n), REASON_SIZE);
			req.header.length = (uint32_t)n; /* lying about it does not help */
			assert_int_equal(decode(&req, n), REASON_SIZE);
			assert_int_equal(decode(&req, size), REASON_SIZE);
			req.header.length = size;
		}
	}
}

TEST(every_header_field_is_checked)
{
	union mh_request req = message(MH_OP_LIST);
	const struct mh_header good = req.header;

	req.header.magic ^= 1;
	assert_int_equal(decode(&req, sizeof(req.list)), REASON_MAGIC);
	req.header = good;
	req.header.version = MH_VERSION + 1;
	assert_int_equal(decode(&req, sizeof(req.list)), REASON_VERSION);
	req.header = good;
	req.header.flags = 1U << 31;
	assert_int_equal(decode(&req, sizeof(req.list)), REASON_RESERVED);
	req.header = good;
	req.header.reserved = UINT64_C(1) << 63;
	assert_int_equal(decode(&req, sizeof(req.list)), REASON_RESERVED);
	req.header = good;
	req.header.seq = 3;
	assert_int_equal(decode(&req, sizeof(req.list)), REASON_SEQUENCE);
	req.header.seq = 1;
	assert_int_equal(decode(&req, sizeof(req.list)), REASON_SEQUENCE);
	req.header = good;
	for (unsigned int op = 0; op <= UINT16_MAX; op++) {
		bool known = op >= MH_OP_ACK && op <= MH_OP_LIST; /* HELLO and FAILURE are the helper's */

		req.header.op = (uint16_t)op;
		if (!known)
			assert_int_equal(decode(&req, sizeof(req.list)), REASON_UNKNOWN_OP);
	}
}

/* Everything that a message may have in one place without being malformed. What no span names has one value.
 */
enum span_kind { FREE, TEXT, NUMBER, ONE_OF };

struct span {
	size_t offset;
	size_t n; /* bytes; for a number: its maximum */
	enum span_kind kind;
	const char *extra; /* of a text, besides a-z and 0-9; all values of one of */
};

struct variant {
	const char *name;
	union mh_request (*make)(void);
	struct span spans[14];
};

static struct mh_source source_of(uint8_t class)
{
	struct mh_source source = {.class = class};

	switch ((enum mh_class) class) {
	case MH_CLASS_BLOCK:
		(void)str_copy(source.u.block.by_id, MH_BY_ID_SIZE, "scsi-0SAN:volume-17");
		break;
	case MH_CLASS_NFS4:
		source.u.nfs4.family = 4;
		source.u.nfs4.addr[0] = 10;
		(void)str_copy(source.u.nfs4.export, MH_EXPORT_SIZE, "/export/a");
		break;
	case MH_CLASS_BIND:
		(void)str_copy(source.u.bind.name, MH_LABEL_SIZE, "data-of-all-of-us");
		break;
	case MH_CLASS_TMPFS:
		source.u.tmpfs.size_bytes = 1 << 20;
		source.u.tmpfs.inodes = 100;
		break;
	case MH_CLASS_CSI:
	case MH_CLASS_N:
		break;
	}
	return source;
}

static union mh_request stage_of(uint8_t class)
{
	union mh_request req = message(MH_OP_STAGE);

	req.stage.source = source_of(class);
	return req;
}

static union mh_request stage_block(void)
{
	return stage_of(MH_CLASS_BLOCK);
}

static union mh_request stage_tmpfs(void)
{
	return stage_of(MH_CLASS_TMPFS);
}

static union mh_request stage_nfs4(void)
{
	return stage_of(MH_CLASS_NFS4);
}

static union mh_request stage_nfs6(void)
{
	union mh_request req = stage_of(MH_CLASS_NFS4);

	req.stage.source.u.nfs4.family = 6;
	req.stage.source.u.nfs4.addr[15] = 1;
	return req;
}

static union mh_request stage_bind(void)
{
	return stage_of(MH_CLASS_BIND);
}

static union mh_request stage_csi(void)
{
	return stage_of(MH_CLASS_CSI);
}

static union mh_request publish(void)
{
	return message(MH_OP_PUBLISH);
}

static union mh_request unpublish(void)
{
	return message(MH_OP_UNPUBLISH);
}

static union mh_request unstage(void)
{
	return message(MH_OP_UNSTAGE);
}

static union mh_request unstage_csi(void)
{
	union mh_request req = message(MH_OP_UNSTAGE);

	(void)str_copy(req.unstage.profile, MH_LABEL_SIZE, "csi.plug");
	return req;
}

static union mh_request list(void)
{
	return message(MH_OP_LIST);
}

static union mh_request list_one(void)
{
	union mh_request req = message(MH_OP_LIST);

	(void)str_copy(req.list.volume, MH_LABEL_SIZE, "vol-1");
	(void)str_copy(req.list.profile, MH_LABEL_SIZE, "csi.plug");
	return req;
}

#define AT(type, member) offsetof(struct type, member), sizeof(((struct type *)0)->member)
#define UP_TO(type, member, max) offsetof(struct type, member), (max), NUMBER
#define STAGE_SPANS                                                                                          \
	{AT(mh_stage, volume), TEXT, "-"}, {AT(mh_stage, profile), TEXT, "-."}, {AT(mh_stage, alloc), TEXT}, \
		{UP_TO(mh_stage, read_only, 1)},                                                             \
	{                                                                                                    \
		AT(mh_stage, ticket), FREE                                                                   \
	}

static const struct variant variants[] = {
	ROW("block", stage_block,
	    {STAGE_SPANS,
	     {AT(mh_stage, source.u.block.by_id), TEXT, "ABCDEFGHIJKLMNOPQRSTUVWXYZ:._+-"},
	     {AT(mh_stage, source.u.block.major), FREE},
	     {AT(mh_stage, source.u.block.minor), FREE},
	     {AT(mh_stage, source.class), ONE_OF, "\1\5"}}), /* short names are 32 bytes, too */
	ROW("tmpfs", stage_tmpfs,
	    {STAGE_SPANS,
	     {AT(mh_stage, source.u.tmpfs), FREE},
	     {AT(mh_stage, source.class), ONE_OF, "\2\5"}}),
	ROW("nfs4", stage_nfs4,
	    {STAGE_SPANS,
	     {offsetof(struct mh_stage, source.u.nfs4.addr), 4, FREE},
	     {AT(mh_stage, source.u.nfs4.export), TEXT, "ABCDEFGHIJKLMNOPQRSTUVWXYZ/._-"},
	     {offsetof(struct mh_stage, source.u.nfs4.family), 1, ONE_OF, "\4\6"}}),
	ROW("nfs6", stage_nfs6,
	    {STAGE_SPANS,
	     {AT(mh_stage, source.u.nfs4.addr), FREE},
	     {AT(mh_stage, source.u.nfs4.export), TEXT, "ABCDEFGHIJKLMNOPQRSTUVWXYZ/._-"}}),
	ROW("bind", stage_bind,
	    {STAGE_SPANS,
	     {AT(mh_stage, source.u.bind.name), TEXT, "-"},
	     {AT(mh_stage, source.class), ONE_OF, "\1\4\5"}}), /* a label is a by_id, too */
	ROW("csi", stage_csi,
	    {STAGE_SPANS,
	     {AT(mh_stage, source.u.csi.volume), FREE},
	     {AT(mh_stage, source.class), ONE_OF, "\5\2"}}), /* a tmpfs of 0 bytes: policy's business */
	ROW("publish", publish,
	    {{AT(mh_publish, volume), TEXT, "-"},
	     {AT(mh_publish, profile), TEXT, "-."},
	     {AT(mh_publish, alloc), TEXT},
	     {UP_TO(mh_publish, slot, MH_SLOT_MAX)},
	     {UP_TO(mh_publish, read_only, 1)},
	     {UP_TO(mh_publish, exec, 1)},
	     {UP_TO(mh_publish, propagation, TICKET_PROPAGATION_N - 1)},
	     {AT(mh_publish, source.u.block.by_id), TEXT, "ABCDEFGHIJKLMNOPQRSTUVWXYZ:._+-"},
	     {AT(mh_publish, source.u.block.major), FREE},
	     {AT(mh_publish, source.u.block.minor), FREE},
	     {AT(mh_publish, source.class), ONE_OF, "\1"},
	     {AT(mh_publish, ticket), FREE}}),
	ROW("unpublish", unpublish,
	    {{AT(mh_unpublish, volume), TEXT, "-"},
	     {AT(mh_unpublish, alloc), TEXT},
	     {UP_TO(mh_unpublish, slot, MH_SLOT_MAX)},
	     {UP_TO(mh_unpublish, detach, 1)}}),
	ROW("unstage", unstage,
	    {{AT(mh_unstage, volume), TEXT, "-"},
	     {offsetof(struct mh_unstage, profile), 1, ONE_OF, "abcdefghijklmnopqrstuvwxyz0123456789"},
	     {UP_TO(mh_unstage, detach, 1)}}),
	ROW("unstage of a plugin's volume", unstage_csi,
	    {{AT(mh_unstage, volume), TEXT, "-"},
	     {AT(mh_unstage, profile), TEXT, "-."},
	     {UP_TO(mh_unstage, detach, 1)}}),
	ROW("list", list,
	    {{UP_TO(mh_list, kind, MH_LIST_PROFILES)},
	     {AT(mh_list, cursor), FREE},
	     {offsetof(struct mh_list, volume), 1, ONE_OF, "abcdefghijklmnopqrstuvwxyz0123456789"},
	     {offsetof(struct mh_list, profile), 1, ONE_OF, "abcdefghijklmnopqrstuvwxyz0123456789"}}),
	ROW("list of one volume", list_one,
	    {{UP_TO(mh_list, kind, MH_LIST_PROFILES)},
	     {AT(mh_list, cursor), FREE},
	     {AT(mh_list, volume), TEXT, "-."},
	     {AT(mh_list, profile), TEXT, "-."}}),
};

static const struct span *span_at(const struct variant *variant, size_t offset)
{
	for (const struct span *s = variant->spans; s->offset != 0; s++)
		if (offset >= s->offset && offset < s->offset + (s->kind == NUMBER ? 1 : s->n))
			return s;
	return NULL;
}

/* May @good still be well-formed with @value at @at? For FREE and NUMBER exactly; a text has its grammar,
 * too. */
static bool may_be(const struct variant *variant, const union mh_request *good, size_t at, uint8_t value)
{
	const struct span *s = span_at(variant, at);
	size_t used;

	if (value == good->bytes[at])
		return true;
	if (!s) /* STAGE and PUBLISH begin alike */
		return at == offsetof(struct mh_header, op) && good->header.op == MH_OP_STAGE &&
		       value == MH_OP_PUBLISH;
	if (s->kind == FREE)
		return true;
	if (s->kind == NUMBER)
		return value <= s->n;
	if (s->kind == ONE_OF)
		return value != 0 && strchr(s->extra, value);
	used = strlen((const char *)good->bytes + s->offset);
	if (value == '\0' && at == s->offset + used - 1 && used > 1)
		return true; /* one character less */
	return at <= s->offset + used && ((value >= 'a' && value <= 'z') || (value >= '0' && value <= '9') ||
					  (s->extra && value != '\0' && strchr(s->extra, value)));
}

TEST(a_changed_byte_is_refused_unless_its_field_allows_it)
{
	for (const struct variant *v = variants; v < &variants[ARRAY_SIZE(variants)]; v++) {
		const union mh_request good = v->make();

		assert_int_equal(decode(&good, good.header.length), REASON_NONE);
		for (size_t at = 0; at < good.header.length; at++) {
			const struct span *s = span_at(v, at);

			for (unsigned int value = 0; value < 256; value++) {
				union mh_request req = good;
				bool expected = may_be(v, &good, at, (uint8_t)value);
				enum reason reason;

				req.bytes[at] = (uint8_t)value;
				reason = decode(&req, good.header.length);
				if (reason == REASON_NONE ? !expected : expected && (!s || s->kind != TEXT))
					fail_msg("%s: byte %zu = %u: %d", v->name, at, value, (int)reason);
				if (reason != REASON_NONE && at >= sizeof(struct mh_header))
					assert_int_equal(reason, REASON_FIELD);
			}
		}
	}
}

#define REFUSED(statement)                                                       \
	do {                                                                     \
		req = good;                                                      \
		statement;                                                       \
		assert_int_equal(decode(&req, req.header.length), REASON_FIELD); \
	} while (0)

TEST(strings_must_be_terminated_and_zero_to_their_end)
{
	const union mh_request good = message(MH_OP_STAGE);
	union mh_request req;

	REFUSED(memset(req.stage.volume, 'a', MH_LABEL_SIZE));
	REFUSED(req.stage.volume[MH_LABEL_SIZE - 1] = 'x');
	REFUSED(req.stage.volume[0] = '\0');
	REFUSED(memset(req.stage.profile, 'a', MH_LABEL_SIZE));
	REFUSED(req.stage.profile[40] = 1);
	REFUSED(req.stage.alloc[36] = 'a');
	REFUSED(req.stage.alloc[37] = 1);
	REFUSED(req.stage.alloc[0] = 'A');
	REFUSED(req.stage.volume[1] = '.');
	REFUSED(req.stage.volume[1] = '/');
	REFUSED(req.stage.volume[1] = 'O');
	REFUSED(memset(req.stage.source.u.block.by_id, 'a', MH_BY_ID_SIZE));
	REFUSED(memset(req.stage.source.u.block.by_id, 'a', 129));
	REFUSED(req.stage.source.u.block.by_id[0] = '.');
	REFUSED(req.stage.source.u.block.by_id[3] = '/');
	REFUSED(req.stage.source.u.block.by_id[100] = 'x');
	req = good;
	memset(req.stage.source.u.block.by_id, 'a', 128);
	assert_int_equal(decode(&req, req.header.length), REASON_NONE);
}

TEST(booleans_enums_and_reserved_bytes_have_no_third_value)
{
	union mh_request good = message(MH_OP_STAGE);
	union mh_request req;

	REFUSED(req.stage.read_only = 2);
	REFUSED(req.stage.reserved[6] = 1);
	REFUSED(req.stage.source.reserved[0] = 1);
	REFUSED(req.stage.source.class = 0);
	REFUSED(req.stage.source.class = MH_CLASS_N);
	REFUSED(req.stage.source.u.bytes[140] = 1); /* beyond the block source */
	REFUSED(req.stage.source.u.bytes[279] = 1);
	good = message(MH_OP_PUBLISH);
	REFUSED(req.publish.read_only = 2);
	REFUSED(req.publish.exec = 255);
	REFUSED(req.publish.slot = MH_SLOT_MAX + 1);
	REFUSED(req.publish.propagation = TICKET_PROPAGATION_N);
	REFUSED(req.publish.reserved[3] = 1);
	good = message(MH_OP_UNPUBLISH);
	REFUSED(req.unpublish.detach = 2);
	REFUSED(req.unpublish.slot = MH_SLOT_MAX + 1);
	REFUSED(req.unpublish.reserved[5] = 1);
	good = message(MH_OP_UNSTAGE);
	REFUSED(req.unstage.detach = 2);
	REFUSED(req.unstage.reserved[0] = 1);
	good = message(MH_OP_LIST);
	REFUSED(req.list.kind = MH_LIST_PROFILES + 1);
	REFUSED(req.list.kind = UINT8_MAX);
	REFUSED(req.list.reserved[0] = 1);
	REFUSED(req.list.volume[0] = '.');
	REFUSED(req.list.volume[1] = 'a');
}

TEST(sources_of_the_other_classes_have_one_form_too)
{
	union mh_request good = message(MH_OP_STAGE);
	union mh_request req;

	memset(&good.stage.source, 0, sizeof(good.stage.source));
	good.stage.source.class = MH_CLASS_TMPFS;
	good.stage.source.u.tmpfs.size_bytes = UINT64_MAX;
	assert_int_equal(decode(&good, good.header.length), REASON_NONE);
	REFUSED(req.stage.source.u.bytes[16] = 1);
	memset(&good.stage.source, 0, sizeof(good.stage.source));
	good.stage.source.class = MH_CLASS_NFS4;
	good.stage.source.u.nfs4.family = 4;
	good.stage.source.u.nfs4.addr[0] = 10;
	(void)str_copy(good.stage.source.u.nfs4.export, MH_EXPORT_SIZE, "/export/a");
	assert_int_equal(decode(&good, good.header.length), REASON_NONE);
	REFUSED(req.stage.source.u.nfs4.family = 5);
	REFUSED(req.stage.source.u.nfs4.addr[4] = 1);
	REFUSED(req.stage.source.u.nfs4.export[0] = 'e');
	REFUSED(memcpy(req.stage.source.u.nfs4.export, "/export/.", 10));
	REFUSED(memcpy(req.stage.source.u.nfs4.export, "/../ex/a", 9));
	REFUSED(memcpy(req.stage.source.u.nfs4.export, "/export//", 10));
	REFUSED(memset(req.stage.source.u.nfs4.export + 1, 'a', MH_EXPORT_SIZE - 1));
	REFUSED(req.stage.source.u.nfs4.export[200] = 'a');
	REFUSED(req.stage.source.u.nfs4.family = 0);
	REFUSED(req.stage.source.u.nfs4.reserved[0] = 1);
	good.stage.source.u.nfs4.family = 6;
	good.stage.source.u.nfs4.addr[15] = 1;
	assert_int_equal(decode(&good, good.header.length), REASON_NONE);
	memset(&good.stage.source, 0, sizeof(good.stage.source));
	good.stage.source.class = MH_CLASS_BIND;
	good.stage.source.u.bind.name[0] = 'a';
	assert_int_equal(decode(&good, good.header.length), REASON_NONE);
	REFUSED(req.stage.source.u.bind.name[0] = '.');
	memset(&good.stage.source, 0, sizeof(good.stage.source));
	good.stage.source.class = MH_CLASS_CSI;
	assert_int_equal(decode(&good, good.header.length), REASON_NONE);
	REFUSED(req.stage.source.u.bytes[TICKET_DIGEST_SIZE] = 1);
}

TEST(no_allocation_is_of_zeroes_only)
{
	struct mh_publish req = fixture_publish();
	union mh_request ret;

	req.header = mh_header_make(MH_OP_PUBLISH, sizeof(req), 2);
	assert_int_equal(wire_decode(&req, sizeof(req), 2, &ret), REASON_NONE);
	(void)str_copy(req.alloc, sizeof(req.alloc), "00000000-0000-0000-0000-000000000000");
	assert_int_equal(wire_decode(&req, sizeof(req), 2, &ret), REASON_FIELD);
}

TEST(the_slot_may_be_31)
{
	union mh_request req = message(MH_OP_PUBLISH);

	req.publish.slot = MH_SLOT_MAX;
	assert_int_equal(decode(&req, req.header.length), REASON_NONE);
}

/* The fuzzer starts from them: one that is refused at the header would keep it from all that is behind. */
TEST(the_fuzz_corpus_is_accepted)
{
	DIR *dir = NON_NULL(opendir(WIRE_CORPUS));
	struct dirent *entry;
	unsigned int n = 0;

	while ((entry = readdir(dir))) {
		char path[PATH_MAX];
		cleanup_free char *bytes = NULL;
		union mh_request req;
		size_t len;

		if (entry->d_name[0] == '.')
			continue;
		(void)str_format(path, sizeof(path), WIRE_CORPUS "/%s", entry->d_name);
		assert_int_equal(file_read(path, 1 + MH_MESSAGE_MAX, &bytes, &len), 0);
		if (wire_decode(bytes + 1, len - 1, (uint8_t)bytes[0], &req) != REASON_NONE)
			fail_msg("%s", entry->d_name);
		n++;
	}
	(void)closedir(dir);
	assert_true(n >= MH_OP_N - MH_OP_ACK - 1); /* one of each at least */
}
