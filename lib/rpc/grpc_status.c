/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/grpc_status.h"

#include "base/str.h"

#include <nghttp2/nghttp2.h>
#include <stdbool.h>

size_t grpc_message_encode(char *dst, size_t size, const char *message)
{
	static const char digits[] = "0123456789ABCDEF";
	size_t o = 0;

	for (const char *s = message; *s; s++) {
		uint8_t c = (uint8_t)*s;
		bool is_edge = s == message || s[1] == '\0';
		bool plain = c > ' ' && c <= 0x7e && c != '%';

		/* no header may begin or end with a space: nghttp2 resets the stream of one that does */
		plain = plain || (c == ' ' && !is_edge);
		if (o + (plain ? 1 : 3) >= size)
			break;
		if (plain) {
			dst[o++] = *s;
			continue;
		}
		dst[o++] = '%';
		dst[o++] = digits[c >> 4];
		dst[o++] = digits[c & 15];
	}
	while (o > 0 && dst[o - 1] == ' ') /* where it was cut */
		o--;
	dst[o] = '\0';
	return o;
}

/* Length of @s without a UTF-8 character that was cut at its end. */
static size_t without_cut_character(const char *s, size_t n)
{
	size_t start = n;
	uint8_t lead;
	size_t want;

	while (start > 0 && n - start < 3 && ((uint8_t)s[start - 1] & 0xc0) == 0x80)
		start--;
	if (start == 0)
		return n;
	lead = (uint8_t)s[start - 1];
	want = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
	return n - start + 1 < want ? start - 1 : n;
}

size_t grpc_message_decode(char *dst, size_t size, const uint8_t *bytes, size_t n)
{
	size_t o = 0;
	size_t i = 0;

	while (i < n && o + 1 < size) {
		uint8_t c = bytes[i++];
		char hex[3] = {0};

		if (c == '%' && n - i >= 2) {
			hex[0] = (char)bytes[i];
			hex[1] = (char)bytes[i + 1];
			if (hex_decode(&c, 1, hex) == 0)
				i += 2;
		}
		if (c == '\0')
			c = '?';
		dst[o++] = (char)c;
	}
	if (i < n)
		o = without_cut_character(dst, o);
	dst[o] = '\0';
	return o;
}

enum status grpc_status_parse(const uint8_t *bytes, size_t n)
{
	long number = 0;

	if (n == 0 || n > 3)
		return STATUS_UNKNOWN;
	for (size_t i = 0; i < n; i++) {
		if (bytes[i] < '0' || bytes[i] > '9')
			return STATUS_UNKNOWN;
		number = number * 10 + (bytes[i] - '0');
	}
	return status_from_number(number);
}

enum status status_from_http(int http_status)
{
	switch (http_status) {
	case 400:
		return STATUS_INTERNAL;
	case 401:
		return STATUS_UNAUTHENTICATED;
	case 403:
		return STATUS_PERMISSION_DENIED;
	case 404:
		return STATUS_UNIMPLEMENTED;
	case 429:
	case 502:
	case 503:
	case 504:
		return STATUS_UNAVAILABLE;
	default:
		return STATUS_UNKNOWN;
	}
}

enum status status_from_h2(uint32_t h2_code)
{
	switch (h2_code) {
	case NGHTTP2_CANCEL:
		return STATUS_CANCELLED;
	case NGHTTP2_REFUSED_STREAM:
		return STATUS_UNAVAILABLE;
	case NGHTTP2_ENHANCE_YOUR_CALM:
		return STATUS_RESOURCE_EXHAUSTED;
	case NGHTTP2_INADEQUATE_SECURITY:
		return STATUS_PERMISSION_DENIED;
	default:
		return STATUS_INTERNAL;
	}
}

static const struct connect_row {
	const char *code;
	int http;
} connect_rows[STATUS_N] = {
	[STATUS_OK] = {"ok", 200},
	[STATUS_CANCELLED] = {"canceled", 499},
	[STATUS_UNKNOWN] = {"unknown", 500},
	[STATUS_INVALID_ARGUMENT] = {"invalid_argument", 400},
	[STATUS_DEADLINE_EXCEEDED] = {"deadline_exceeded", 504},
	[STATUS_NOT_FOUND] = {"not_found", 404},
	[STATUS_ALREADY_EXISTS] = {"already_exists", 409},
	[STATUS_PERMISSION_DENIED] = {"permission_denied", 403},
	[STATUS_RESOURCE_EXHAUSTED] = {"resource_exhausted", 429},
	[STATUS_FAILED_PRECONDITION] = {"failed_precondition", 400},
	[STATUS_ABORTED] = {"aborted", 409},
	[STATUS_OUT_OF_RANGE] = {"out_of_range", 400},
	[STATUS_UNIMPLEMENTED] = {"unimplemented", 501},
	[STATUS_INTERNAL] = {"internal", 500},
	[STATUS_UNAVAILABLE] = {"unavailable", 503},
	[STATUS_DATA_LOSS] = {"data_loss", 500},
	[STATUS_UNAUTHENTICATED] = {"unauthenticated", 401},
};

static const struct connect_row *connect_row(enum status status)
{
	return &connect_rows[(unsigned int)status < STATUS_N ? status : STATUS_UNKNOWN];
}

int connect_http_status(enum status status)
{
	return connect_row(status)->http;
}

const char *connect_code(enum status status)
{
	return connect_row(status)->code;
}
