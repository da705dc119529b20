#include "fixture.h"

#include "base/str.h"

#include <string.h>

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
	case MH_OP_STAT:
		req.stat = (struct mh_stat){.header = {.length = sizeof(req.stat)}, .volume = "vol-1"};
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

static const uint16_t requests[] = {MH_OP_STAGE,   MH_OP_PUBLISH, MH_OP_UNPUBLISH,
				    MH_OP_UNSTAGE, MH_OP_STAT,	  MH_OP_LIST};

static void well_formed_requests_are_understood_unchanged(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		union mh_request sent = message(requests[i]);
		union mh_request got;

		assert_int_equal(wire_decode(&sent, sent.header.length, 2, &got), REASON_NONE);
		assert_memory_equal(&sent, &got, sizeof(sent));
	}
}

static void the_first_message_is_the_acknowledgement_and_only_that(void **state)
{
	union mh_request ack = message(MH_OP_ACK);
	union mh_request list = message(MH_OP_LIST);
	union mh_request got;

	(void)state;
	ack.header.seq = 1;
	list.header.seq = 1;
	assert_int_equal(wire_decode(&ack, ack.header.length, 1, &got), REASON_NONE);
	assert_int_equal(wire_decode(&list, list.header.length, 1, &got), REASON_ORDER);
	ack.header.seq = 2;
	assert_int_equal(wire_decode(&ack, ack.header.length, 2, &got), REASON_ORDER);
}

static void every_other_size_is_a_violation(void **state)
{
	(void)state;
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

static void every_header_field_is_checked(void **state)
{
	union mh_request req = message(MH_OP_LIST);
	const struct mh_header good = req.header;

	(void)state;
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
		bool known = op >= MH_OP_ACK && op < MH_OP_N;

		req.header.op = (uint16_t)op;
		if (!known)
			assert_int_equal(decode(&req, sizeof(req.list)), REASON_UNKNOWN_OP);
	}
}

/* Bytes that may have any value and still be a well-formed message: numbers, and the ticket, which is judged
 * by its signature. */
static bool is_free(uint16_t op, size_t offset)
{
	const size_t in_source = offset - offsetof(struct mh_stage, source);

	switch (op) {
	case MH_OP_STAGE:
		return offset >= offsetof(struct mh_stage, ticket) ||
		       (offset >= offsetof(struct mh_stage, source) &&
			in_source >= offsetof(struct mh_source, u.block.major) &&
			in_source < offsetof(struct mh_source, u.block.major) + 8);
	case MH_OP_PUBLISH:
		return offset >= offsetof(struct mh_publish, ticket);
	case MH_OP_LIST:
		return offset >= offsetof(struct mh_list, cursor);
	default:
		return false;
	}
}

static void no_byte_value_is_accepted_that_changes_the_form(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		union mh_request good = message(requests[i]);

		for (size_t at = sizeof(struct mh_header); at < good.header.length; at++) {
			for (unsigned int value = 0; value < 256; value++) {
				union mh_request req = good;
				enum reason reason;

				req.bytes[at] = (uint8_t)value;
				reason = decode(&req, good.header.length);
				if (is_free(requests[i], at) || value == good.bytes[at])
					assert_int_equal(reason, REASON_NONE);
				else if (reason == REASON_NONE) /* then it must still be the same alphabet */
					assert_true((value >= 'a' && value <= 'z') ||
						    (value >= '0' && value <= '9') || value == '-' ||
						    value <= MH_SLOT_MAX ||
						    (value < 128 &&
						     strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZ:._+", (int)value)));
				else
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

static void strings_must_be_terminated_and_zero_to_their_end(void **state)
{
	const union mh_request good = message(MH_OP_STAGE);
	union mh_request req;

	(void)state;
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

static void booleans_enums_and_reserved_bytes_have_no_third_value(void **state)
{
	union mh_request good = message(MH_OP_STAGE);
	union mh_request req;

	(void)state;
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
	good = message(MH_OP_STAT);
	REFUSED(req.stat.slot = 1); /* a volume has no slot */
	REFUSED(memset(req.stat.volume, 0, MH_LABEL_SIZE));
	REFUSED((void)str_copy(req.stat.alloc, MH_UUID_SIZE, FIXTURE_ALLOC)); /* one of the two */
	REFUSED(req.stat.alloc[5] = 'a');
	REFUSED(req.stat.reserved[6] = 1);
	good = message(MH_OP_LIST);
	REFUSED(req.list.kind = MH_LIST_PROFILES + 1);
	REFUSED(req.list.reserved[0] = 1);
}

static void sources_of_the_other_classes_have_one_form_too(void **state)
{
	union mh_request good = message(MH_OP_STAGE);
	union mh_request req;

	(void)state;
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
	REFUSED(req.stage.source.u.bytes[0] = 1);
}

static void the_slot_may_be_31(void **state)
{
	union mh_request req = message(MH_OP_PUBLISH);

	(void)state;
	req.publish.slot = MH_SLOT_MAX;
	assert_int_equal(decode(&req, req.header.length), REASON_NONE);
	req = message(MH_OP_STAT);
	memset(req.stat.volume, 0, MH_LABEL_SIZE);
	(void)str_copy(req.stat.alloc, MH_UUID_SIZE, FIXTURE_ALLOC);
	req.stat.slot = MH_SLOT_MAX;
	assert_int_equal(decode(&req, req.header.length), REASON_NONE);
	req.stat.slot++;
	assert_int_equal(decode(&req, req.header.length), REASON_FIELD);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(well_formed_requests_are_understood_unchanged),
		cmocka_unit_test(the_first_message_is_the_acknowledgement_and_only_that),
		cmocka_unit_test(every_other_size_is_a_violation),
		cmocka_unit_test(every_header_field_is_checked),
		cmocka_unit_test(no_byte_value_is_accepted_that_changes_the_form),
		cmocka_unit_test(strings_must_be_terminated_and_zero_to_their_end),
		cmocka_unit_test(booleans_enums_and_reserved_bytes_have_no_third_value),
		cmocka_unit_test(sources_of_the_other_classes_have_one_form_too),
		cmocka_unit_test(the_slot_may_be_31),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
