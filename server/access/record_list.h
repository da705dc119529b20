/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Lists of records: one handler for every List method whose objects are records under one prefix. */

#include "api/watch.h"
#include "state/records.h"

struct record_list {
	const char *prefix;			    /* of the keys, and what a wait is for */
	const char *table;			    /* a longer prefix of the keys, or NULL */
	const ProtobufCMessageDescriptor *response; /* its first field is the list */

	/** The message to show of a record, or NULL to leave it out. NULL: the record itself. */
	const ProtobufCMessage *(*message)(const struct record_entry *entry, void *userdata);
	/** Is the caller allowed to see nothing of the folder "FOLDER/" of the entry's key, behind the
	 * table? No token names an entry of such a folder. NULL: there are no such folders. */
	bool (*is_hidden)(const struct record_entry *entry, void *userdata);
	void *userdata;
	bool takes_prefix; /* message() compares with the request's prefix itself */
};

/** Answer @call with the page that @request asks for by prefix, next_token, per_page and, if it has that
 * field, filter. Messages that have create_index and modify_index get those of their record. */
enum status record_list_answer(struct server *server, struct rpc_call *call, const ProtobufCMessage *request,
			       const struct record_list *list, struct error *err);

/* Define the rpc_unary_fn @name of a record_list. */
#define DEFINE_RECORD_LIST(name, list)                                                       \
	static enum status name##_answer(struct server *server, struct rpc_call *call,       \
					 const ProtobufCMessage *request, struct error *err) \
	{                                                                                    \
		return record_list_answer(server, call, request, &(list), err);              \
	}                                                                                    \
	static const struct read_method name##_method = {.handle = name##_answer};           \
	DEFINE_READ_METHOD(name, name##_method)
