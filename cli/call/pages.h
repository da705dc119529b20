/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Lists that come in pages, page by page or as one answer. */

#include "call/connect.h"

/** Take a page of a list; *@page may be taken over. Anything but STATUS_OK ends the list. */
typedef enum status page_fn(ProtobufCMessage **page, bool is_last, void *userdata, struct error *err);

/** Call a List method page by page, until everything came or @limit of it (0: no limit), and hand on each
 * page. Only one page is in memory. @request has the fields per_page and next_token, which are set here, its
 * answer has next_token and one list of messages. */
enum status pages_each(struct connection *connection, const ProtobufCServiceDescriptor *service,
		       const char *method, ProtobufCMessage *request, uint64_t limit, page_fn *on_page,
		       void *userdata, struct error *err);

/** Value of --limit, 0 when it is not given. */
enum status pages_limit(struct invocation *inv, uint64_t *ret, struct error *err);

/** Call a List method as often as it takes to have everything, or --limit of it.
 *
 * @request has the fields per_page and next_token, its answer next_token and one list of messages. Both
 *          fields are set here; next_token of the joined answer is not empty when --limit left something out.
 * @ret     owned by the caller, protobuf_c_message_free_unpacked() */
enum status pages_call(struct connection *connection, struct invocation *inv,
		       const ProtobufCServiceDescriptor *service, const char *method,
		       ProtobufCMessage *request, void *ret, struct error *err);

/** The same with a limit of the caller's, 0 for everything. The object of a Get whose lists come in pages is
 * only fetched as a whole, with its pages joined. */
enum status pages_fetch(struct connection *connection, const ProtobufCServiceDescriptor *service,
			const char *method, ProtobufCMessage *request, uint64_t limit, void *ret,
			struct error *err);

/** The messages that @answer lists. */
ProtobufCMessage **pages_items(ProtobufCMessage *answer, size_t *ret_n);

/** A text field of a message; borrowed. */
const char *message_text(const ProtobufCMessage *message, const char *field);

/** Note on standard error that --limit cut @answer. */
void pages_report_rest(const ProtobufCMessage *answer);
