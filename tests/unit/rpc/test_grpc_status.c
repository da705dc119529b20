/* SPDX-License-Identifier: Apache-2.0 */
#include "../unit.h"
#include "rpc/grpc_status.h"

#include <nghttp2/nghttp2.h>

static size_t decode(char *dst, size_t size, const char *text)
{
	return grpc_message_decode(dst, size, (const uint8_t *)text, strlen(text));
}

TEST(messages_survive_the_wire_whatever_bytes_they_hold)
{
	char message[256], encoded[GRPC_MESSAGE_SIZE], back[ERROR_MSG_MAX];

	for (int c = 1; c < 256; c++)
		message[c - 1] = (char)c;
	message[255] = '\0';
	(void)grpc_message_encode(encoded, sizeof(encoded), message);
	for (const char *s = encoded; *s; s++)
		assert_true(*s >= 0x20 && *s <= 0x7e);
	assert_int_equal(decode(back, sizeof(back), encoded), 255);
	assert_string_equal(back, message);
}

TEST(no_encoded_message_begins_or_ends_with_a_space)
{
	static const char *const messages[] = {
		" ", "  ", " a", "a ", "  a b  ", "cannot connect: there is no ", "a b c d"};
	char encoded[64], back[64];

	for (size_t i = 0; i < ARRAY_SIZE(messages); i++) {
		for (size_t size = 1; size <= sizeof(encoded); size++) {
			size_t n = grpc_message_encode(encoded, size, messages[i]);

			assert_int_equal(strlen(encoded), n);
			assert_true(n == 0 ||
				    nghttp2_check_header_value_rfc9113((const uint8_t *)encoded, n));
		}
		(void)decode(back, sizeof(back), encoded);
		assert_string_equal(back, messages[i]);
	}
}

TEST(the_largest_message_fits_even_if_every_byte_is_escaped)
{
	char message[ERROR_MSG_MAX], encoded[GRPC_MESSAGE_SIZE], back[ERROR_MSG_MAX];

	memset(message, '%', sizeof(message) - 1);
	message[sizeof(message) - 1] = '\0';
	assert_int_equal(grpc_message_encode(encoded, sizeof(encoded), message), GRPC_MESSAGE_SIZE - 1);
	assert_int_equal(decode(back, sizeof(back), encoded), ERROR_MSG_MAX - 1);
	assert_string_equal(back, message);
}

TEST(encoding_never_overruns_and_never_cuts_an_escape)
{
	for (size_t size = 1; size < 20; size++) {
		char *dst = malloc(size); /* exact, so that a sanitizer sees an overrun */
		size_t n;

		assert_non_null(dst);
		n = grpc_message_encode(dst, size, "a%b\nc%%%");
		assert_true(n < size);
		assert_int_equal(strlen(dst), n);
		for (size_t i = 0; i < n; i++)
			if (dst[i] == '%')
				assert_true(i + 2 < n);
		free(dst);
	}
}

TEST(odd_escapes_are_decoded_as_other_implementations_send_them)
{
	static const struct row {
		const char *wire, *text;
	} rows[] = {
		{"", ""},
		{"OK", "OK"},
		{"with raw spaces", "with raw spaces"},
		{"na%C3%AFve%20%5B1%5D", "na\xc3\xafve [1]"},
		{"na%c3%afve", "na\xc3\xafve"},
		{"%", "%"},
		{"%4", "%4"},
		{"%zz", "%zz"},
		{"%%41", "%A"},
		{"100%", "100%"},
		{"a%00b", "a?b"},
		{"line%0Aline", "line\nline"},
	};
	char text[64];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(decode(text, sizeof(text), rows[i].wire), strlen(rows[i].text));
		assert_string_equal(text, rows[i].text);
	}
}

TEST(a_message_that_is_too_long_is_cut_between_characters)
{
	/* one, two, three and four bytes */
	static const char wire[] = "aa%C3%AF%E2%82%AC%F0%9F%98%80zz";
	static const char *const cut[] =
		ROW([1] = "", [2] = "a", [3] = "aa", [4] = "aa", [5] = "aa\xc3\xaf", [6] = "aa\xc3\xaf",
		    [7] = "aa\xc3\xaf", [8] = "aa\xc3\xaf\xe2\x82\xac", [11] = "aa\xc3\xaf\xe2\x82\xac",
		    [12] = "aa\xc3\xaf\xe2\x82\xac\xf0\x9f\x98\x80",
		    [13] = "aa\xc3\xaf\xe2\x82\xac\xf0\x9f\x98\x80z");

	for (size_t size = 1; size < ARRAY_SIZE(cut); size++) {
		cleanup_free char *text = NON_NULL(malloc(size));

		(void)decode(text, size, wire);
		if (cut[size])
			assert_string_equal(text, cut[size]);
	}
}

TEST(the_grpc_status_header_is_read_strictly)
{
	static const struct row {
		const char *text;
		enum status status;
	} rows[] = {
		{"0", STATUS_OK},	  {"5", STATUS_NOT_FOUND}, {"16", STATUS_UNAUTHENTICATED},
		{"17", STATUS_UNKNOWN},	  {"", STATUS_UNKNOWN},	   {"-1", STATUS_UNKNOWN},
		{"0x0", STATUS_UNKNOWN},  {" 0", STATUS_UNKNOWN},  {"00", STATUS_OK},
		{"0000", STATUS_UNKNOWN}, {"999", STATUS_UNKNOWN},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		assert_int_equal(grpc_status_parse((const uint8_t *)rows[i].text, strlen(rows[i].text)),
				 rows[i].status);
}

TEST(http_and_http2_codes_map_as_grpc_prescribes)
{
	assert_int_equal(status_from_http(400), STATUS_INTERNAL);
	assert_int_equal(status_from_http(401), STATUS_UNAUTHENTICATED);
	assert_int_equal(status_from_http(403), STATUS_PERMISSION_DENIED);
	assert_int_equal(status_from_http(404), STATUS_UNIMPLEMENTED);
	assert_int_equal(status_from_http(429), STATUS_UNAVAILABLE);
	assert_int_equal(status_from_http(502), STATUS_UNAVAILABLE);
	assert_int_equal(status_from_http(503), STATUS_UNAVAILABLE);
	assert_int_equal(status_from_http(504), STATUS_UNAVAILABLE);
	assert_int_equal(status_from_http(200), STATUS_UNKNOWN);
	assert_int_equal(status_from_http(0), STATUS_UNKNOWN);
	assert_int_equal(status_from_h2(NGHTTP2_CANCEL), STATUS_CANCELLED);
	assert_int_equal(status_from_h2(NGHTTP2_REFUSED_STREAM), STATUS_UNAVAILABLE);
	assert_int_equal(status_from_h2(NGHTTP2_ENHANCE_YOUR_CALM), STATUS_RESOURCE_EXHAUSTED);
	assert_int_equal(status_from_h2(NGHTTP2_INADEQUATE_SECURITY), STATUS_PERMISSION_DENIED);
	assert_int_equal(status_from_h2(NGHTTP2_NO_ERROR), STATUS_INTERNAL);
	assert_int_equal(status_from_h2(0xdeadbeef), STATUS_INTERNAL);
}

TEST(every_status_has_a_word_of_its_own_and_an_http_status_for_connect)
{
	for (int a = 0; a < STATUS_N; a++) {
		int http = connect_http_status((enum status)a);

		assert_true(a == STATUS_OK ? http == 200 : http >= 400 && http < 600);
		assert_int_equal(strspn(connect_code((enum status)a), "abcdefghijklmnopqrstuvwxyz_"),
				 strlen(connect_code((enum status)a)));
		for (int b = 0; b < a; b++)
			assert_false(str_eq(connect_code((enum status)a), connect_code((enum status)b)));
	}
	assert_string_equal(connect_code(STATUS_NOT_FOUND), "not_found");
	assert_string_equal(connect_code(STATUS_CANCELLED), "canceled");
	assert_int_equal(connect_http_status(STATUS_NOT_FOUND), 404);
	assert_int_equal(connect_http_status(STATUS_UNAVAILABLE), 503);
}
