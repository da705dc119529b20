/* SPDX-License-Identifier: Apache-2.0 */
#include "random_message.h"
#include "unit.h"

#include "base/strbuf.h"
#include "pb/pbjson_word.h"
#include "rpc/pbjson.h"

#include <all.pb-c.h>
#include <holdfast/v1/agent.pb-c.h>
#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/jobs.pb-c.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <holdfast/v1/operator.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>
#include <inttypes.h>
#include <math.h>

static const ProtobufCMessageDescriptor *const all = &test__v1__all__descriptor;
static const ProtobufCMessageDescriptor *const volume = &holdfast__v1__volume__descriptor;

static json_t *load(const char *text)
{
	json_error_t why;
	json_t *json = json_loads(text, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);

	assert_msg(json, "%s: %s", text, why.text);
	return json;
}

/* On one line and on several, the text is jansson's for the tree. */
static void expect_text(const ProtobufCMessage *message, unsigned int flags, const json_t *tree)
{
	for (unsigned int lines = 0; lines <= PBJSON_LINES; lines += PBJSON_LINES) {
		cleanup_strbuf struct strbuf text = STRBUF_INIT(PBJSON_TEXT_MAX);
		cleanup_free char *want = json_dumps(tree, lines ? JSON_INDENT(2) : JSON_COMPACT);

		assert_int_equal(pbjson_print(message, flags | lines, 0, &text, NULL), STATUS_OK);
		assert_string_equal(text.data, want);
	}
}

static void expect_json(const ProtobufCMessage *message, unsigned int flags, const char *want)
{
	struct error err = {0};
	cleanup(json_decrefp) json_t *json = NULL;
	cleanup_free char *text = NULL;

	assert_msg(pbjson_encode(message, flags, &json, &err) == STATUS_OK, "%s", err.msg);
	text = json_dumps(json, JSON_COMPACT);
	assert_string_equal(text, want);
	expect_text(message, flags, json);
}

static ProtobufCMessage *decode(const ProtobufCMessageDescriptor *descriptor, const char *text,
				unsigned int flags)
{
	cleanup(json_decrefp) json_t *json = load(text);
	ProtobufCMessage *message = NULL;
	struct error err = {0};

	assert_msg(pbjson_decode(descriptor, json, flags, &message, &err) == STATUS_OK, "%s: %s", text,
		   err.msg);
	return message;
}

static void expect_error(const ProtobufCMessageDescriptor *descriptor, const char *text, unsigned int flags,
			 const char *want)
{
	cleanup(json_decrefp) json_t *json = load(text);
	ProtobufCMessage *message = NULL;
	struct error err = {0};
	enum status status = pbjson_decode(descriptor, json, flags, &message, &err);

	assert_msg(status == STATUS_INVALID_ARGUMENT, "%s: %s", text, status_name(status));
	assert_null(message);
	assert_int_equal(err.status, STATUS_INVALID_ARGUMENT);
	assert_string_equal(err.msg, want);
}

TEST(a_message_prints_only_nondefault_fields)
{
	Holdfast__V1__Capability capability =
		V1(capability, .access_mode = HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_WRITER);
	Holdfast__V1__Capability *capabilities[] = {&capability};
	Holdfast__V1__Volume message = HOLDFAST__V1__VOLUME__INIT;

	expect_json(&message.base, 0, "{}");
	message.id = "db \"1\"";
	message.generation = UINT64_MAX;
	message.create_time_ms = INT64_MIN;
	message.schedulable = true;
	message.readers = UINT32_MAX;
	message.n_requested_capabilities = 1;
	message.requested_capabilities = capabilities;
	expect_json(&message.base, 0,
		    "{\"id\":\"db "
		    "\\\"1\\\"\",\"requestedCapabilities\":[{\"accessMode\":\"SINGLE_NODE_WRITER\"}],"
		    "\"generation\":\"18446744073709551615\",\"createTimeMs\":\"-9223372036854775808\","
		    "\"schedulable\":true,\"readers\":4294967295}");
	expect_json(&capability.base, PBJSON_PROTO_NAMES, "{\"access_mode\":\"SINGLE_NODE_WRITER\"}");
}

TEST(characters_that_a_terminal_obeys_are_escaped)
{
	Holdfast__V1__Volume message = HOLDFAST__V1__VOLUME__INIT;
	cleanup_strbuf struct strbuf text = STRBUF_INIT(PBJSON_TEXT_MAX);
	cleanup(json_decrefp) json_t *json = NULL;

	message.id = "\x1f\x7f\xc2\x9b\xc2\xa0\xe2\x80\xae\xe2\x80\xaf\xd8\x9c";
	assert_int_equal(pbjson_print(&message.base, 0, 0, &text, NULL), STATUS_OK);
	assert_string_equal(text.data,
			    "{\"id\":\"\\u001F\\u007F\\u009B\xc2\xa0\\u202E\xe2\x80\xaf\\u061C\"}");
	json = load(text.data);
	assert_string_equal(json_string_value(json_object_get(json, "id")), message.id);
}

TEST(defaults_are_printed_on_demand_but_absent_messages_and_oneofs_are_not)
{
	Holdfast__V1__ClaimReceipt receipt = HOLDFAST__V1__CLAIM_RECEIPT__INIT;
	Holdfast__V1__RegisterVolumeResponse answer = HOLDFAST__V1__REGISTER_VOLUME_RESPONSE__INIT;
	Holdfast__V1__ListTokensResponse list = HOLDFAST__V1__LIST_TOKENS_RESPONSE__INIT;
	Holdfast__V1__BeginBackupResponse backup = HOLDFAST__V1__BEGIN_BACKUP_RESPONSE__INIT;

	expect_json(&receipt.base, PBJSON_DEFAULTS | PBJSON_PROTO_NAMES,
		    "{\"claim_id\":\"\",\"boot_id\":\"\",\"generation\":\"0\",\"error\":\"\",\"without_"
		    "plugin\":false,\"kernel\":\"\",\"error_code\":0}");
	expect_json(&answer.base, PBJSON_DEFAULTS, "{\"created\":false,\"secretsReplaced\":false}");
	expect_json(&list.base, PBJSON_DEFAULTS, "{\"tokens\":[],\"index\":\"0\",\"nextToken\":\"\"}");
	expect_json(&backup.base, PBJSON_DEFAULTS,
		    "{\"id\":\"\",\"sizeBytes\":\"0\",\"sha256\":\"\",\"index\":\"0\"}");
}

TEST(numbers_outside_json_travel_as_words)
{
	Test__V1__All message = PB(test__v1__all, .d = NAN, .f = INFINITY);

	message.color = 99; /* from a newer peer */
	expect_json(&message.base, 0, "{\"d\":\"NaN\",\"f\":\"Infinity\",\"color\":99}");
	message.d = -INFINITY;
	message.f = 0.5F;
	message.color = TEST__V1__COLOR__PLAIN_GREEN;
	expect_json(&message.base, 0, "{\"d\":\"-Infinity\",\"f\":0.5,\"color\":\"PLAIN_GREEN\"}");
}

TEST(bytes_that_are_not_utf8_are_shown_as_question_marks)
{
	Holdfast__V1__Volume inner = V1(volume, .name = "\"\xe5\xad\x98\xe5\xad");
	Holdfast__V1__Volume *volumes[] = {&inner};
	Holdfast__V1__ListVolumesResponse message =
		V1(list_volumes_response, .n_volumes = 1, .volumes = volumes);

	expect_json(&message.base, 0, "{\"volumes\":[{\"name\":\"\\\"\xe5\xad\x98??\"}]}");
}

TEST(a_map_entry_without_value_is_the_empty_message)
{
	Test__V1__All__MImEntry entry = TEST__V1__ALL__MIM_ENTRY__INIT;
	Test__V1__All__MImEntry *entries[] = {&entry};
	Test__V1__All message = PB(test__v1__all, .n_m_im = 1, .m_im = entries);

	entry.key = -5;
	expect_json(&message.base, 0, "{\"mIm\":{\"-5\":{}}}");
}

static void expect_same(const ProtobufCMessage *a, const ProtobufCMessage *b, uint64_t seed)
{
	size_t n = protobuf_c_message_get_packed_size(a);
	cleanup_free uint8_t *bytes_a = malloc(n + 1);
	cleanup_free uint8_t *bytes_b = NULL;

	assert_msg(protobuf_c_message_get_packed_size(b) == n,
		   "%s of seed %" PRIu64 " came back with another size", a->descriptor->name, seed);
	bytes_b = malloc(n + 1);
	(void)protobuf_c_message_pack(a, bytes_a);
	(void)protobuf_c_message_pack(b, bytes_b);
	assert_memory_equal(bytes_a, bytes_b, n);
}

static void there_and_back(const ProtobufCMessageDescriptor *descriptor, uint64_t seed)
{
	cleanup_pb ProtobufCMessage *message = random_message(descriptor, seed);
	unsigned int flags = (unsigned int)(seed & (PBJSON_DEFAULTS | PBJSON_PROTO_NAMES));
	struct error err = {0};
	cleanup_pb ProtobufCMessage *back = NULL;
	json_t *json = NULL, *read;
	cleanup_free char *text = NULL;

	assert_msg(pbjson_encode(message, flags, &json, &err) == STATUS_OK, "%s", err.msg);
	expect_text(message, flags, json);
	text = json_dumps(json, JSON_COMPACT);
	read = load(text);
	assert_msg(pbjson_decode(descriptor, read, (unsigned int)(seed & PBJSON_SPEC), &back, &err) ==
			   STATUS_OK,
		   "%s: %s", text, err.msg);
	expect_same(message, back, seed);
	json_decref(json);
	json_decref(read);
}

TEST(every_message_comes_back_as_it_went)
{
	static const ProtobufCServiceDescriptor *const services[] = {
		&holdfast__v1__volumes__descriptor,
		&holdfast__v1__allocations__descriptor,
		&holdfast__v1__jobs__descriptor,
		&holdfast__v1__nodes__descriptor,
		&holdfast__v1__operator__descriptor,
		&holdfast__v1__agent__descriptor,
		NULL,
	};

	for (uint64_t seed = 1; seed <= 400; seed++)
		there_and_back(all, seed);
	for (size_t i = 0; services[i]; i++) {
		for (unsigned int k = 0; k < services[i]->n_methods; k++) {
			for (uint64_t seed = 1; seed <= 8; seed++) {
				there_and_back(services[i]->methods[k].input, seed);
				there_and_back(services[i]->methods[k].output, seed);
			}
		}
	}
}

TEST(numbers_are_read_from_json_numbers_and_text_alike)
{
	Test__V1__All *message = (Test__V1__All *)decode(
		all,
		"{\"i32\":\"-2147483648\",\"i64\":-5,\"u32\":4294967295,\"u64\":\"18446744073709551615\","
		"\"s32\":1e3,\"s64\":\"-9223372036854775808\",\"d\":\"-Infinity\",\"f\":1,\"fx32\":7.0,"
		"\"sf64\":-9007199254740992.0}",
		0);

	assert_int_equal(message->i32, INT32_MIN);
	assert_int_equal(message->i64, -5);
	assert_int_equal(message->u32, UINT32_MAX);
	assert_true(message->u64 == UINT64_MAX);
	assert_int_equal(message->s32, 1000);
	assert_true(message->s64 == INT64_MIN);
	assert_true(isinf(message->d) && message->d < 0);
	assert_true(message->f == 1);
	assert_int_equal(message->fx32, 7);
	assert_true(message->sf64 == -(INT64_C(1) << 53));
	protobuf_c_message_free_unpacked(&message->base, NULL);
}

TEST(both_spellings_null_and_enum_numbers_are_read)
{
	Test__V1__All *message = (Test__V1__All *)decode(
		all,
		"{\"str_field\":\"x\",\"rawBytes\":\"AP/"
		"+\",\"color\":7,\"inner\":{\"a_name\":null,\"bigNumber\":\"3\"},\"rm\":null,\"mBi\":{"
		"\"true\":1,\"false\":\"2\"},\"kStr\":\"\",\"rb\":[\"\",\"AA==\"]}",
		0);

	assert_string_equal(message->str_field, "x");
	assert_int_equal(message->raw_bytes.len, 3);
	assert_memory_equal(message->raw_bytes.data, "\x00\xff\xfe", 3);
	assert_int_equal(message->color, TEST__V1__COLOR__COLOR_DARK_BLUE);
	assert_string_equal(message->inner->a_name, "");
	assert_int_equal(message->inner->big_number, 3);
	assert_int_equal(message->n_rm, 0);
	assert_int_equal(message->n_m_bi, 2);
	assert_int_equal(message->kind_case, TEST__V1__ALL__KIND_K_STR);
	assert_int_equal(message->n_rb, 2);
	assert_int_equal(message->rb[1].len, 1);
	protobuf_c_message_free_unpacked(&message->base, NULL);
}

TEST(wrong_input_is_refused_with_the_path_of_the_field)
{
	static const struct {
		const char *json, *error;
	} cases[] = {
		{"[]", "wants an object, not a list"},
		{"\"x\"", "wants an object, not a string"},
		{"{\"nope\":1}", "nope: All has no such field"},
		{"{\"inner\":{\"kids\":[{},{\"x\":1}]}}", "inner.kids[1].x: Inner has no such field"},
		{"{\"mIm\":{\"4\":{\"x\":1}}}", "m_im[\"4\"].x: Inner has no such field"},
		{"{\"aName\":1}", "aName: All has no such field"},
		{"{\"strField\":\"a\",\"str_field\":\"a\"}", "str_field: is given twice, in both spellings"},
		{"{\"str_field\":null,\"strField\":\"a\"}", "str_field: is given twice, in both spellings"},
		{"{\"kStr\":\"a\",\"kInt\":\"1\"}",
		 "k_int: only one of its group may be given, k_str is given as well"},
		{"{\"i32\":2147483648}",
		 "i32: the number is out of range, it may be -2147483648 to 2147483647"},
		{"{\"i32\":\"-2147483649\"}",
		 "i32: the number is out of range, it may be -2147483648 to 2147483647"},
		{"{\"u32\":4294967296}", "u32: the number is out of range, it may be 0 to 4294967295"},
		{"{\"u32\":-1}", "u32: the number is out of range, it may be 0 to 4294967295"},
		{"{\"i64\":\"9223372036854775808\"}",
		 "i64: the number is out of range, it may be -9223372036854775808 to 9223372036854775807"},
		{"{\"i64\":\"-9223372036854775809\"}",
		 "i64: the number is out of range, it may be -9223372036854775808 to 9223372036854775807"},
		{"{\"u64\":\"-1\"}", "u64: the number is out of range, it may be 0 to 18446744073709551615"},
		{"{\"u64\":\"18446744073709551616\"}", "u64: '18446744073709551616' is not a whole number"},
		{"{\"u64\":\"-0\"}", "u64: '-0' is not a whole number"},
		{"{\"u64\":\"01\"}", "u64: '01' is not a whole number"},
		{"{\"u64\":\" 1\"}", "u64: ' 1' is not a whole number"},
		{"{\"u64\":\"\"}", "u64: '' is not a whole number"},
		{"{\"i64\":\"-\"}", "i64: '-' is not a whole number"},
		{"{\"i32\":1.5}", "i32: wants a whole number, not a number"},
		{"{\"i64\":1e300}", "i64: wants a whole number, not a number"},
		{"{\"u64\":9007199254740994.0}", "u64: wants a whole number, not a number"},
		{"{\"i32\":true}", "i32: wants a whole number, not true"},
		{"{\"room_bytes\":\"10GiB\"}", "room_bytes: '10GiB' is not a whole number"},
		{"{\"d\":\"1\"}", "d: '1' is not a number"},
		{"{\"f\":1e39}", "f: the number is out of range"},
		{"{\"f\":-1e39}", "f: the number is out of range"},
		{"{\"b\":1}", "b: wants true or false, not a number"},
		{"{\"b\":\"true\"}", "b: 'true' is not true or false"},
		{"{\"strField\":5}", "str_field: wants a string, not a number"},
		{"{\"strField\":\"a\\u0000b\"}", "str_field: the text holds a NUL byte"},
		{"{\"rawBytes\":\"A\"}", "raw_bytes: 'A' is not base64 text"},
		{"{\"rawBytes\":\"A===\"}", "raw_bytes: 'A===' is not base64 text"},
		{"{\"rawBytes\":\"AA=A\"}", "raw_bytes: 'AA=A' is not base64 text"},
		{"{\"rawBytes\":\" AAA\"}", "raw_bytes: ' AAA' is not base64 text"},
		{"{\"rawBytes\":{}}", "raw_bytes: wants base64 text, not an object"},
		{"{\"color\":\"color_red\"}", "color: 'color_red' is unknown, use one of: PLAIN_GREEN, "
					      "COLOR_UNSPECIFIED, COLOR_RED, COLOR_DARK_BLUE"},
		{"{\"rc\":[1,2]}", "rc[1]: 2 is not one of its numbers, use one of: PLAIN_GREEN, "
				   "COLOR_UNSPECIFIED, COLOR_RED, COLOR_DARK_BLUE"},
		{"{\"color\":4294967297}", "color: 4294967297 is not one of its numbers, use one of: "
					   "PLAIN_GREEN, COLOR_UNSPECIFIED, COLOR_RED, COLOR_DARK_BLUE"},
		{"{\"color\":1.0}", "color: wants a word, not a number"},
		{"{\"rm\":{}}", "rm: wants a list, not an object"},
		{"{\"ri\":[1,null]}", "ri[1]: wants a whole number, not null"},
		{"{\"rm\":[null]}", "rm[0]: wants an object, not null"},
		{"{\"mSs\":[]}", "m_ss: wants an object, not a list"},
		{"{\"mSs\":{\"a\":null}}", "m_ss[\"a\"]: wants a string, not null"},
		{"{\"mSs\":{\"a\\nb: c\":null}}", "m_ss[\"a b: c\"]: wants a string, not null"},
		{"{\"mIm\":{\"x\":{}}}", "m_im[\"x\"]: 'x' is not a whole number"},
		{"{\"mBi\":{\"yes\":1}}", "m_bi[\"yes\"]: the key must be true or false"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		expect_error(all, cases[i].json, 0, cases[i].error);
}

TEST(specifications_may_use_dashed_words_sizes_and_single_blocks)
{
	Holdfast__V1__Volume *message = (Holdfast__V1__Volume *)decode(
		volume,
		"{\"type\":\"native\",\"source\":{\"class\":\"Block\",\"size_bytes\":\"10 "
		"GiB\",\"inodes\":9},\"requested_capabilities\":{\"access_mode\":\"single-node-writer\","
		"\"attachment_mode\":\"FILE_SYSTEM\"}}",
		PBJSON_SPEC);
	Holdfast__V1__VolumeRequest *request = (Holdfast__V1__VolumeRequest *)decode(
		&holdfast__v1__volume_request__descriptor,
		"{\"propagation\":\"host-to-task\",\"access_mode\":\"MULTI_node-reader_only\"}", PBJSON_SPEC);

	assert_int_equal(message->type, HOLDFAST__V1__VOLUME_TYPE__NATIVE);
	assert_int_equal(message->source->class_, HOLDFAST__V1__SOURCE_CLASS__BLOCK);
	assert_true(message->source->size_bytes == UINT64_C(10) << 30);
	assert_int_equal(message->n_requested_capabilities, 1);
	assert_int_equal(message->requested_capabilities[0]->access_mode,
			 HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_WRITER);
	assert_int_equal(message->requested_capabilities[0]->attachment_mode,
			 HOLDFAST__V1__ATTACHMENT_MODE__FILE_SYSTEM);
	assert_int_equal(request->propagation, HOLDFAST__V1__PROPAGATION__PROPAGATION_HOST_TO_TASK);
	assert_int_equal(request->access_mode, HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_READER_ONLY);
	protobuf_c_message_free_unpacked(&message->base, NULL);
	protobuf_c_message_free_unpacked(&request->base, NULL);
}

TEST(the_forms_of_specifications_have_their_own_limits)
{
	static const struct {
		const char *json, *error;
	} cases[] = {
		{"{\"color\":\"dark-bluee\"}",
		 "color: 'dark-bluee' is unknown, use one of: plain-green, red, dark-blue"},
		{"{\"color\":\"dark-blu\"}",
		 "color: 'dark-blu' is unknown, use one of: plain-green, red, dark-blue"},
		{"{\"color\":\"\"}", "color: '' is unknown, use one of: plain-green, red, dark-blue"},
		{"{\"small_bytes\":\"4GiB\"}",
		 "small_bytes: the number is out of range, it may be 0 to 4294967295"},
		{"{\"signed_bytes\":\"9223372036854775808\"}",
		 "signed_bytes: the number is out of range, it may be -9223372036854775808 to "
		 "9223372036854775807"},
		{"{\"room_bytes\":\"10XB\"}", "room_bytes: '10XB' is not a size as in \"10GiB\""},
		{"{\"room_bytes\":\"-1KiB\"}", "room_bytes: '-1KiB' is not a size as in \"10GiB\""},
		{"{\"u64\":\"10GiB\"}", "u64: '10GiB' is not a whole number"},
		{"{\"ri\":5}", "ri: wants a list, not a number"},
		{"{\"rm\":{\"x\":1}}", "rm.x: Inner has no such field"},
	};
	Test__V1__All *message = (Test__V1__All *)decode(
		all, "{\"small_bytes\":\"4294967295\",\"signed_bytes\":\"-7\",\"color\":\"Color_Dark-Blue\"}",
		PBJSON_SPEC);

	assert_int_equal(message->small_bytes, UINT32_MAX);
	assert_int_equal(message->signed_bytes, -7);
	assert_int_equal(message->color, TEST__V1__COLOR__COLOR_DARK_BLUE);
	protobuf_c_message_free_unpacked(&message->base, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		expect_error(all, cases[i].json, PBJSON_SPEC, cases[i].error);
}

TEST(words_are_shown_as_people_write_them)
{
	const ProtobufCEnumDescriptor *color = &test__v1__color__descriptor;
	char text[PBJSON_WORD_SIZE];

	assert_string_equal(pbjson_word_text(color, TEST__V1__COLOR__COLOR_DARK_BLUE, text), "dark-blue");
	assert_string_equal(pbjson_word_text(color, TEST__V1__COLOR__PLAIN_GREEN, text), "plain-green");
	assert_string_equal(pbjson_word_text(color, 0, text), "unspecified");
	assert_string_equal(pbjson_word_text(color, -77, text), "-77");
}

/* Inner messages, @depth in all, in JSON. */
static char *nested(int depth)
{
	struct strbuf text = STRBUF_INIT(4096);

	for (int i = 1; i < depth; i++)
		strbuf_puts(&text, "{\"kids\":[");
	strbuf_puts(&text, "{}");
	for (int i = 1; i < depth; i++)
		strbuf_puts(&text, "]}");
	return strbuf_take(&text);
}

TEST(nesting_ends_at_the_limit_in_both_directions)
{
	const ProtobufCMessageDescriptor *inner = &test__v1__inner__descriptor;
	cleanup_free char *good = nested(PBJSON_DEPTH_MAX);
	cleanup_free char *bad = nested(PBJSON_DEPTH_MAX + 1);
	cleanup_pb ProtobufCMessage *deepest = decode(inner, good, 0);
	ProtobufCMessage *message = NULL;
	Test__V1__Inner *kids[] = {(Test__V1__Inner *)deepest};
	Test__V1__Inner outer = PB(test__v1__inner, .n_kids = 1, .kids = kids);
	struct error err = {0};
	cleanup(json_decrefp) json_t *json = NULL;

	expect_json(deepest, 0, good);
	assert_int_equal(pbjson_encode(&outer.base, 0, &json, &err), STATUS_INTERNAL);
	assert_null(json);
	assert_non_null(strstr(err.msg, "kids[0]: nested deeper than 32 messages"));
	json = load(bad);
	assert_int_equal(pbjson_decode(inner, json, 0, &message, &err), STATUS_INVALID_ARGUMENT);
	assert_null(message);
}

TEST(types_with_a_json_form_of_their_own_are_not_mapped_wrongly)
{
	Google__Protobuf__Duration duration = GOOGLE__PROTOBUF__DURATION__INIT;
	Test__V1__Timed timed = PB(test__v1__timed, .after = &duration);
	json_t *json = NULL;
	cleanup(json_decrefp) json_t *given = load("{\"after\":{}}");
	ProtobufCMessage *message = NULL;

	assert_int_equal(pbjson_encode(&timed.base, 0, &json, NULL), STATUS_UNIMPLEMENTED);
	assert_int_equal(pbjson_decode(&test__v1__timed__descriptor, given, 0, &message, NULL),
			 STATUS_UNIMPLEMENTED);
	assert_null(json);
	assert_null(message);
}

TEST(a_long_path_cuts_the_message_but_nothing_else)
{
	cleanup_free char *text = nested(PBJSON_DEPTH_MAX);
	char *end = strstr(text, "{}");
	cleanup_free char *whole = calloc(1, strlen(text) + 2000);
	ProtobufCMessage *message = NULL;
	struct error err = {0};
	cleanup(json_decrefp) json_t *json = NULL;

	(void)snprintf(whole, strlen(text) + 2000, "%.*s{\"%01500d\":1%s", (int)(end - text), text, 0,
		       end + 1);
	json = load(whole);
	assert_int_equal(pbjson_decode(&test__v1__inner__descriptor, json, 0, &message, &err),
			 STATUS_INVALID_ARGUMENT);
	assert_true(strlen(err.msg) < sizeof(err.msg));
	assert_true(str_starts_with(err.msg, "kids[0].kids[0]."));
}
