/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/response_head.h"

#include "rpc/base64.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { FIELD_OVERHEAD = 32, RESPONSE_DETAILS_MAX = 8 * 1024 };

static bool equals(const uint8_t *bytes, size_t n, const char *text)
{
	return strlen(text) == n && memcmp(bytes, text, n) == 0;
}

static int http_status(const uint8_t *value, size_t n)
{
	int number = 0;

	if (n != 3)
		return 0;
	for (size_t i = 0; i < n; i++) {
		if (value[i] < '0' || value[i] > '9')
			return 0;
		number = number * 10 + (value[i] - '0');
	}
	return number;
}

void details_release(struct details *details)
{
	free(details->bytes);
	*details = (struct details){.bytes = NULL};
}

void response_head_release(struct response_head *head)
{
	details_release(&head->details);
}

/* Details are only a help: unreadable ones count as missing. */
static void add_details(struct response_head *head, const uint8_t *value, size_t n)
{
	details_release(&head->details);
	if (n <= RESPONSE_DETAILS_MAX)
		(void)base64_decode((const char *)value, n, true, &head->details.bytes, &head->details.n);
}

void response_head_add(struct response_head *head, const uint8_t *name, size_t name_len, const uint8_t *value,
		       size_t value_len)
{
	static const char grpc[] = "application/grpc";

	head->bytes += name_len + value_len + FIELD_OVERHEAD;
	if (equals(name, name_len, ":status")) {
		head->http_status = http_status(value, value_len);
	} else if (equals(name, name_len, "content-type")) {
		head->is_grpc = value_len >= sizeof(grpc) - 1 &&
				strncasecmp((const char *)value, grpc, sizeof(grpc) - 1) == 0;
	} else if (equals(name, name_len, "grpc-status")) {
		head->has_status = true;
		head->status = grpc_status_parse(value, value_len);
	} else if (equals(name, name_len, "grpc-message")) {
		(void)grpc_message_decode(head->message, sizeof(head->message), value, value_len);
	} else if (equals(name, name_len, RPC_UNCHANGED_HEADER)) {
		head->has_changed_nothing = true;
	} else if (equals(name, name_len, "holdfast-error-details-bin")) {
		add_details(head, value, value_len);
	}
}

bool response_head_is_error(const struct response_head *head)
{
	return head->bytes <= RESPONSE_HEADERS_MAX && head->has_status && head->status != STATUS_OK;
}

enum status response_head_status(const struct response_head *head, const char *what, struct error *err)
{
	if (head->bytes > RESPONSE_HEADERS_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "%s: the answer's headers are larger than %d bytes", what,
				 RESPONSE_HEADERS_MAX);
	if (head->has_status && head->status == STATUS_OK)
		return STATUS_OK;
	if (head->has_status)
		return head->message[0] ? error_set(err, head->status, 0, "%s", head->message)
					: error_set(err, head->status, 0, "%s: answered %s without a message",
						    what, status_name(head->status));
	if (head->http_status != 200)
		return error_set(err, status_from_http(head->http_status), 0,
				 "%s: the server answered with HTTP status %d; is it a gRPC server?", what,
				 head->http_status);
	return error_set(err, STATUS_UNKNOWN, 0, "%s: the answer ended without a status", what);
}
