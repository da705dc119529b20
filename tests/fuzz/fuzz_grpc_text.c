/* SPDX-License-Identifier: Apache-2.0 */
/* The texts of gRPC's headers: grpc-message, grpc-timeout, grpc-status. */

#include "rpc/grpc_status.h"
#include "rpc/grpc_timeout.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_message(const uint8_t *data, size_t size)
{
	char message[ERROR_MSG_MAX];
	char again[ERROR_MSG_MAX];
	char encoded[GRPC_MESSAGE_SIZE];
	size_t n = grpc_message_decode(message, sizeof(message), data, size);
	size_t m;

	if (n >= sizeof(message) || strlen(message) != n)
		abort();
	m = grpc_message_encode(encoded, sizeof(encoded), message);
	if (m >= sizeof(encoded) || strlen(encoded) != m)
		abort();
	if (grpc_message_decode(again, sizeof(again), (const uint8_t *)encoded, m) != n ||
	    strcmp(again, message) != 0)
		abort();
}

static void check_small(const uint8_t *data, size_t size)
{
	char *exact = malloc(size); /* so that reading past it is seen */
	size_t room = size > 0 ? data[0] % 8U : 0;

	if (!exact || room == 0) {
		free(exact);
		return;
	}
	(void)grpc_message_decode(exact, room < size ? room : size, data, size);
	free(exact);
}

static void check_timeout(const uint8_t *data, size_t size)
{
	char text[GRPC_TIMEOUT_SIZE];
	uint64_t us = 0;
	uint64_t again = 0;

	if (grpc_timeout_parse((const char *)data, size, &us) < 0)
		return;
	(void)grpc_timeout_format(us, text);
	if (grpc_timeout_parse(text, strlen(text), &again) < 0 || again < us || again - us > us / 10000)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	check_message(data, size);
	check_small(data, size);
	check_timeout(data, size);
	(void)grpc_status_parse(data, size);
	return 0;
}
