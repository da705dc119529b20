/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/request_head.h"

#include "base/parse.h"
#include "base/str.h"
#include "rpc/grpc_timeout.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

/* RFC 9113 section 6.5.2: what a field adds to the size of its list. */
enum { FIELD_OVERHEAD = 32 };

enum pseudo { PSEUDO_METHOD, PSEUDO_SCHEME, PSEUDO_AUTHORITY, PSEUDO_PATH, PSEUDO_N };

static const char *const pseudo_names[PSEUDO_N] = {
	[PSEUDO_METHOD] = ":method",
	[PSEUDO_SCHEME] = ":scheme",
	[PSEUDO_AUTHORITY] = ":authority",
	[PSEUDO_PATH] = ":path",
};

static bool equals(const uint8_t *bytes, size_t n, const char *text)
{
	return strlen(text) == n && memcmp(bytes, text, n) == 0;
}

/* Copy a value unless it is longer than @size - 1 or has a NUL inside; @dst is empty then. */
static bool copy_value(char *dst, size_t size, const uint8_t *value, size_t n)
{
	dst[0] = '\0';
	if (n >= size || memchr(value, '\0', n) != NULL)
		return false;
	memcpy(dst, value, n);
	dst[n] = '\0';
	return true;
}

static void add_pseudo(struct request_head *head, const uint8_t *name, size_t name_len, const uint8_t *value,
		       size_t value_len)
{
	int which = -1;

	for (int i = 0; i < PSEUDO_N; i++)
		if (equals(name, name_len, pseudo_names[i]))
			which = i;
	if (which < 0 || head->regular || head->seen & 1U << which) {
		head->malformed = true;
		return;
	}
	head->seen |= 1U << which;
	if (which == PSEUDO_METHOD && !copy_value(head->method, sizeof(head->method), value, value_len))
		(void)str_copy(head->method, sizeof(head->method), "?");
	if (which == PSEUDO_PATH)
		head->long_path = !copy_value(head->path, sizeof(head->path), value, value_len);
}

/* Does @value begin with @type, in any case, followed by nothing or a parameter? */
static bool is_media_type(const uint8_t *value, size_t n, const char *type)
{
	size_t len = strlen(type);

	if (n < len || strncasecmp((const char *)value, type, len) != 0)
		return false;
	return n == len || value[len] == ';' || value[len] == ' ';
}

static enum request_kind kind_of(const uint8_t *value, size_t n)
{
	if (is_media_type(value, n, "application/grpc") || is_media_type(value, n, "application/grpc+proto"))
		return REQUEST_GRPC;
	if (is_media_type(value, n, "application/json"))
		return REQUEST_JSON;
	return REQUEST_OTHER;
}

static void add_timeout_ms(struct request_head *head, const uint8_t *value, size_t n)
{
	char text[11]; /* Connect allows ten digits */
	uint64_t ms;

	if (!copy_value(text, sizeof(text), value, n) || parse_u64(text, 0, UINT64_C(9999999999), &ms) < 0) {
		head->bad_timeout = true;
		return;
	}
	head->has_timeout = true;
	head->timeout_us = ms * 1000;
}

/* The token is the value from @at on; negative if there is no token. Two headers may have the same one. */
static void add_token(struct request_head *head, ssize_t at, const uint8_t *value, size_t n)
{
	char token[sizeof(head->token)];

	if (at < 0 || !copy_value(token, sizeof(token), value + at, n - (size_t)at) ||
	    (head->token[0] != '\0' && !str_eq(head->token, token)))
		head->bad_token = true;
	else
		(void)str_copy(head->token, sizeof(head->token), token);
	explicit_bzero(token, sizeof(token));
}

static void add_caller(struct request_head *head, const uint8_t *value, size_t n)
{
	if (head->caller[0] != '\0' || n == 0 || !copy_value(head->caller, sizeof(head->caller), value, n))
		head->bad_caller = true;
}

static void add_secrets(struct request_head *head, const uint8_t *value, size_t n)
{
	if (head->secrets[0] != '\0' || !copy_value(head->secrets, sizeof(head->secrets), value, n))
		head->bad_secrets = true;
}

void request_head_add(struct request_head *head, const uint8_t *name, size_t name_len, const uint8_t *value,
		      size_t value_len)
{
	head->bytes += name_len + value_len + FIELD_OVERHEAD;
	if (name_len > 0 && name[0] == ':') {
		add_pseudo(head, name, name_len, value, value_len);
		return;
	}
	head->regular = true;
	if (equals(name, name_len, "origin")) {
		head->is_of_page = true;
	} else if (equals(name, name_len, "content-type")) {
		head->kind = kind_of(value, value_len);
	} else if (equals(name, name_len, "grpc-timeout")) {
		head->has_timeout = true;
		head->bad_timeout |=
			grpc_timeout_parse((const char *)value, value_len, &head->timeout_us) < 0;
	} else if (equals(name, name_len, "authorization")) {
		add_token(head, bearer_read(value, value_len), value, value_len);
	} else if (equals(name, name_len, "x-nomad-token")) {
		add_token(head, bearer_is_token(value, value_len) ? 0 : -EINVAL, value, value_len);
	} else if (equals(name, name_len, "x-nomad-csi-secrets")) {
		add_secrets(head, value, value_len);
	} else if (equals(name, name_len, RPC_CALLER_HEADER)) {
		add_caller(head, value, value_len);
	} else if (equals(name, name_len, "connect-timeout-ms")) {
		add_timeout_ms(head, value, value_len);
	} else if (equals(name, name_len, "grpc-encoding") || equals(name, name_len, "content-encoding")) {
		head->encoded |= !equals(value, value_len, "identity");
	}
}

bool request_head_is_malformed(const struct request_head *head)
{
	const unsigned int needed = 1U << PSEUDO_METHOD | 1U << PSEUDO_SCHEME | 1U << PSEUDO_PATH;

	return head->malformed || (head->seen & needed) != needed;
}

static enum status check_size(const struct request_head *head, int *ret_http, struct error *err)
{
	if (head->bytes <= REQUEST_HEADERS_MAX)
		return STATUS_OK;
	*ret_http = 431;
	return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "the request's headers are larger than %d bytes",
			 REQUEST_HEADERS_MAX);
}

static enum status check_path(const struct request_head *head, int *ret_http, struct error *err)
{
	if (!head->long_path)
		return STATUS_OK;
	*ret_http = 414;
	return error_set(err, STATUS_UNIMPLEMENTED, 0, "no method has a path longer than %d bytes",
			 REQUEST_PATH_MAX);
}

static enum status check_fields(const struct request_head *head, int *ret_http, struct error *err)
{
	if (head->encoded) {
		*ret_http = 501;
		return error_set(
			err, STATUS_UNIMPLEMENTED, 0,
			"compressed messages are not supported, send them with the encoding identity");
	}
	if (head->bad_token) {
		*ret_http = 401;
		return error_set(
			err, STATUS_UNAUTHENTICATED, 0,
			"the request's token cannot be read: send it once, as \"authorization: Bearer "
			"TOKEN\", of at most %d bytes",
			BEARER_MAX);
	}
	if (head->bad_secrets) {
		*ret_http = 400;
		return error_set(
			err, STATUS_INVALID_ARGUMENT, 0,
			"x-nomad-csi-secrets: send it once, with at most %d bytes of text; more secrets "
			"fit the body",
			REQUEST_SECRETS_MAX);
	}
	if (head->bad_caller) {
		*ret_http = 400;
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "" RPC_CALLER_HEADER ": send it once, with at most %d bytes of text",
				 REQUEST_CALLER_MAX);
	}
	if (head->bad_timeout) {
		*ret_http = 400;
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "the request's timeout cannot be read");
	}
	return STATUS_OK;
}

enum status request_head_check_form(const struct request_head *head, int *ret_http, struct error *err)
{
	TRY(check_size(head, ret_http, err));
	TRY(check_path(head, ret_http, err));
	return check_fields(head, ret_http, err);
}

enum status request_head_check(const struct request_head *head, int *ret_http, struct error *err)
{
	TRY(check_size(head, ret_http, err));
	if (!str_eq(head->method, "POST")) {
		*ret_http = 405;
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "calls are made with POST, not %s",
				 head->method);
	}

	TRY(check_path(head, ret_http, err));
	if (head->kind == REQUEST_OTHER) {
		*ret_http = 415;
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "the content type must be application/grpc or application/json");
	}
	return check_fields(head, ret_http, err);
}
