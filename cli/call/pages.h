/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Lists that come in pages, as one answer. */

#include "call/connect.h"

/** Call a List method as often as it takes to have everything, or --limit of it.
 *
 * @request has the fields per_page and next_token, its answer next_token and one list of messages. Both
 *          fields are set here; next_token of the joined answer is not empty when --limit left something out.
 * @ret     owned by the caller, protobuf_c_message_free_unpacked() */
enum status pages_call(struct connection *connection, struct invocation *inv,
		       const ProtobufCServiceDescriptor *service, const char *method,
		       ProtobufCMessage *request, void *ret, struct error *err);

/** The same with a limit of the caller's, 0 for everything. Of a Get whose object has lists that come in
 * pages, which are joined, only everything. */
enum status pages_fetch(struct connection *connection, const ProtobufCServiceDescriptor *service,
			const char *method, ProtobufCMessage *request, uint64_t limit, void *ret,
			struct error *err);

/** The messages that @answer lists. */
ProtobufCMessage **pages_items(ProtobufCMessage *answer, size_t *ret_n);

/** A text field of a message; borrowed. */
const char *message_text(const ProtobufCMessage *message, const char *field);

/** Note on standard error that --limit cut @answer. */
void pages_report_rest(const ProtobufCMessage *answer);
