/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses and bodies as requests: a request or a reason, never both. */

#include "holdfast/v1/volumes.pb-c.h"
#include "rpc/request_head.h"
#include "rpc/route.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct rpc_route routes[] = {
	{.method = "GET", .pattern = "/v1/volumes"},
	{.method = "PUT", .pattern = "/v1/volume/csi/{volume.id}"},
	{.method = "DELETE", .pattern = "/v1/volume/csi/{id}/detach", .name = {"node", "node_id"}},
	{.method = "GET", .pattern = "/metrics"},
};
static const ProtobufCMessageDescriptor *const requests[] = {
	&holdfast__v1__list_volumes_request__descriptor,
	&holdfast__v1__register_volume_request__descriptor,
	&holdfast__v1__detach_volume_request__descriptor,
	NULL,
};
static const char *const methods[] = {"GET", "PUT", "DELETE", "POST"};

/* The target is the text up to the first line feed, the body the rest; the first byte chooses the method. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = size > 0 ? memchr(data + 1, '\n', size - 1) : NULL;
	size_t n = end ? (size_t)(end - data - 1) : size - (size > 0);
	struct route_body body = {.text = NULL};
	char target[REQUEST_PATH_MAX + 1];
	ProtobufCMessage *message = NULL;
	const struct rpc_route *route;
	unsigned int allow = 0;
	bool pretty = false;
	bool near = false;
	struct error err;
	enum status status;

	if (size == 0 || n > REQUEST_PATH_MAX || memchr(data + 1, '\0', n))
		return 0;
	memcpy(target, data + 1, n);
	target[n] = '\0';
	if (end)
		body = (struct route_body){(const char *)end + 1, size - n - 2};
	route = route_find(routes, sizeof(routes) / sizeof(routes[0]), methods[data[0] % 4], target, &allow,
			   &near);
	if (!route)
		return 0;
	status = route_request(route, target, requests[route - routes], &body, &pretty, &message, &err);
	if (status != STATUS_OK && (message || err.status != status))
		abort();
	protobuf_c_message_free_unpacked(message, NULL);
	return 0;
}
