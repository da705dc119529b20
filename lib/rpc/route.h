/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Addresses that people and their tools type, "GET /v1/volume/csi/{id}?why", as other ways into unary
 * methods.
 *
 * Segments in braces and parameters of the query are fields of the request by their names in the .proto file
 * ("volume.id" for a field of a message within); a body is JSON of the request, merged over them. The answer
 * is the method's, as JSON. `pretty` in the query is for people. Pure but for the table's handlers. */

#include "base/error.h"

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rpc_call;

struct rpc_route_name {
	const char *parameter;
	const char *field;
};

struct rpc_route {
	const char *method;	    /* GET, PUT, POST or DELETE */
	const char *pattern;	    /* no two of one method match the same path */
	const char *service;	    /* "holdfast.v1.Volumes" */
	const char *call;	    /* "Get" */
	const char *index;	    /* uint64 field of the answer, also in x-holdfast-index; may be NULL */
	struct rpc_route_name name; /* a parameter whose name differs from its field; may be NULL */
	/* A parameter of other systems that is refused when it asks for anything, and the alternative; may be
	 * NULL. */
	struct rpc_route_refusal {
		const char *parameter;
		const char *instead;
	} refuses;
	const char *
		secrets; /* field of the request that the header x-nomad-csi-secrets fills; NULL: not taken */
	/* A body with any content type is JSON: for protocols that have a type of their own, on a socket that
	 * no browser reaches. */
	bool takes_any_type;
	const char *error_name; /* an error is an object with its text under this name; NULL: Connect's */

	/* Instead of a call: answers by rpc_call_reply_text() or rpc_call_fail(), now or later. */
	void (*text)(struct rpc_call *call, void *userdata);
};

/* Methods, a bit each. */
enum route_method {
	ROUTE_GET = 1 << 0,
	ROUTE_PUT = 1 << 1,
	ROUTE_POST = 1 << 2,
	ROUTE_DELETE = 1 << 3,
};

enum { ROUTE_ALLOW_SIZE = 32 };

/** The route of a request, or NULL, and then:
 * @ret_allow the methods of the path's routes, 0 without a route
 * @ret_near  its first segment is that of a route */
const struct rpc_route *route_find(const struct rpc_route *routes, size_t n, const char *method,
				   const char *target, unsigned int *ret_allow, bool *ret_near);

/** "GET, PUT" for the header `allow`. Returns @text. */
char *route_allow(unsigned int methods, char text[static ROUTE_ALLOW_SIZE]);

struct route_body {
	const char *text; /* not NUL-terminated */
	size_t n;
	const char *secrets; /* "k=v,k=v" of the header x-nomad-csi-secrets; may be NULL or empty */
};

/** Make the request of @route from @target and @body.
 * @descriptor of the request; NULL: a route with text, which takes neither fields nor body
 * @ret_pretty the answer is for people
 * @ret        owned by the caller, protobuf_c_message_free_unpacked(); NULL without @descriptor
 * STATUS_INVALID_ARGUMENT names the parameter or field. */
enum status route_request(const struct rpc_route *route, const char *target,
			  const ProtobufCMessageDescriptor *descriptor, const struct route_body *body,
			  bool *ret_pretty, ProtobufCMessage **ret, struct error *err);
