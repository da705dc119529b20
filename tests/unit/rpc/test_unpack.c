/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "rpc/unpack.h"

#include <holdfast/v1/nodes.pb-c.h>

static enum status unpack(const uint8_t *bytes, size_t n, size_t max, struct error *err)
{
	ProtobufCMessage *message = NULL;
	enum status status =
		unpack_message(&holdfast__v1__session_hello__descriptor, bytes, n, max, &message, err);

	if (status == STATUS_OK)
		protobuf_c_message_free_unpacked(message, NULL);
	else
		assert_null(message);
	return status;
}

/* @n statuses of nothing: two bytes each. */
static uint8_t *empty_statuses(size_t n)
{
	uint8_t *bytes = NON_NULL(malloc(2 * n));

	for (size_t i = 0; i < n; i++) {
		bytes[2 * i] = 6 << 3 | 2;
		bytes[2 * i + 1] = 0;
	}
	return bytes;
}

TEST(a_message_takes_no_more_memory_than_a_multiple_of_the_limit)
{
	enum { N = 500000 };
	cleanup_free uint8_t *bytes = empty_statuses(N);
	struct error err;

	assert_int_equal(unpack(bytes, 2 * N, 1 << 20, &err), STATUS_RESOURCE_EXHAUSTED);
	assert_non_null(strstr(err.msg, "16777216 bytes of memory"));
	assert_int_equal(unpack(bytes, 2000, 1 << 20, &err), STATUS_OK);
}

/* The smallest limit that is enough, and one byte less; and each smaller one fails without a leak. */
TEST(the_limit_is_exact_and_every_failure_clean)
{
	cleanup_free uint8_t *bytes = empty_statuses(20);
	size_t enough = 1;
	struct error err;

	while (unpack(bytes, 40, enough, &err) != STATUS_OK) {
		assert_int_equal(err.status, STATUS_RESOURCE_EXHAUSTED);
		enough++;
	}
	assert_in_range(enough * UNPACK_FACTOR, 20 * (sizeof(Holdfast__V1__AllocStatus) + UNPACK_CHUNK),
			40 * (sizeof(Holdfast__V1__AllocStatus) + UNPACK_CHUNK));
	assert_int_equal(unpack(bytes, 40, enough - 1, &err), STATUS_RESOURCE_EXHAUSTED);
}

TEST(rubbish_is_no_message)
{
	struct error err;

	assert_int_equal(unpack((const uint8_t *)"\xff\xff", 2, 1 << 20, &err), STATUS_INTERNAL);
	assert_non_null(strstr(err.msg, "no valid holdfast.v1.SessionHello"));
}

TEST(a_text_with_a_nul_byte_is_refused_wherever_it_is)
{
	static const struct {
		const char *bytes;
		size_t n;
		const char *field; /* NULL: it is a message */
	} rows[] = {
#define WIRE(bytes, field) {bytes, sizeof(bytes) - 1, field}
		WIRE("\x0a\x03n\x00x", "node_id"),
		WIRE("\x0a\x01\x00", "node_id"),
		WIRE("\x0a\x02nx", NULL),
		WIRE("\x0a\x01n\x0a\x02x\x00", "node_id"),	      /* the last one counts */
		WIRE("\x0a\x03n\x00x\x0a\x01x", "node_id"),	      /* refused nevertheless */
		WIRE("\x32\x06\x0a\x04\x61\x00\x62\x63", "alloc_id"), /* in a list */
		WIRE("\x32\x06\x0a\x04\x61\x00\x62", ""),	      /* cut: no message */
		WIRE("\xfa\x7f\x02\x00\x00\x0a\x01n", NULL),	      /* a field of a later version */
		WIRE("\xf8\x7f\x00\xf9\x7f\0\0\0\0\0\0\0\0\xfd\x7f\0\0\0\0\x0a\x02\x6e\x00", "node_id"),
		WIRE("\x32\x00\x0a\x01n", NULL), /* the length is no text */
#undef WIRE
	};
	char expected[128];
	struct error err;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		enum status status = unpack((const uint8_t *)rows[i].bytes, rows[i].n, 1 << 20, &err);

		assert_int_equal(status, rows[i].field ? STATUS_INTERNAL : STATUS_OK);
		if (!rows[i].field || rows[i].field[0] == '\0')
			continue;
		(void)snprintf(expected, sizeof(expected), "SessionHello: %s has a NUL byte", rows[i].field);
		assert_non_null(strstr(err.msg, expected));
	}
}

static enum status parse(const char *text, size_t n, struct error *err)
{
	json_t *json = NULL;
	enum status status = unpack_json("the body", text, n, &json, err);

	if (status == STATUS_OK)
		json_decref(json);
	else
		assert_null(json);
	return status;
}

TEST(a_document_has_a_number_of_values_at_most)
{
	for (size_t over = 0; over < 2; over++) {
		size_t n = 2 * (JSON_VALUES_MAX - 1 + over);
		cleanup_free char *text = NON_NULL(malloc(n + 1));
		struct error err;

		text[0] = '[';
		for (size_t i = 1; i < n; i++)
			text[i] = i % 2 ? '1' : ',';
		text[n - 1] = '1';
		text[n] = ']';
		assert_int_equal(parse(text, n + 1, &err), over ? STATUS_RESOURCE_EXHAUSTED : STATUS_OK);
	}
}

TEST(commas_inside_texts_do_not_count)
{
	size_t n = 4 * JSON_VALUES_MAX;
	cleanup_free char *text = NON_NULL(malloc(n));
	struct error err;

	memset(text, ',', n);
	memcpy(text, "[\"\\\"", 4);
	memcpy(text + n - 2, "\"]", 2);
	assert_int_equal(parse(text, n, &err), STATUS_OK);
}

TEST(commas_after_a_text_count)
{
	size_t n = 2 * JSON_VALUES_MAX + 5;
	cleanup_free char *text = NON_NULL(malloc(n));
	struct error err;

	memcpy(text, "[\"a\"", 4);
	for (size_t i = 4; i < n; i++)
		text[i] = i % 2 ? '1' : ',';
	text[n - 1] = ']';
	text[n - 2] = '1';
	assert_int_equal(parse(text, n, &err), STATUS_RESOURCE_EXHAUSTED);
}

TEST(depth_duplicates_and_cut_documents_are_refused)
{
	static const char *const documents[] = {
		"{\"a\": 1, \"a\": 2}", "{\"a\"",     "\"",	      "\"\\", "",
		"[1e999999]",		"[\"\xff\"]", "[\"\\ud800\"]"};
	char deep[20000];
	struct error err;

	memset(deep, '[', sizeof(deep));
	assert_int_equal(parse(deep, sizeof(deep), &err), STATUS_INVALID_ARGUMENT);
	for (size_t i = 0; i < sizeof(documents) / sizeof(documents[0]); i++) {
		assert_int_equal(parse(documents[i], strlen(documents[i]), &err), STATUS_INVALID_ARGUMENT);
		assert_non_null(strstr(err.msg, "the body is no JSON: line 1"));
	}
	assert_int_equal(parse("{\"password\" \"hunter2\"}", 22, &err), STATUS_INVALID_ARGUMENT);
	assert_string_equal(err.msg, "the body is no JSON: line 1 column 21: ':' expected");
}
