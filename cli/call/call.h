/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Commands that are one call of a method: a row of the table names the method and its functions, one
 * dispatcher makes the request, calls, and gives the answer to the printer. */

#include "call/connect.h"
#include "call/pick.h"

#include <jansson.h>

/* A call of a command. */
struct call {
	struct invocation *inv;
	const struct command_call *row;
	struct connection *connection; /* NULL before the request is loaded */
	void *request;		       /* the method's, owned with all that it holds */
	uint64_t timeout_us;	       /* from the row */
	const char *subject;	       /* what a row that takes long is doing it to; borrowed */
	uint32_t members;	       /* of the volume's file, 0: it is about one volume */
	bool is_over;		       /* fill() completed the command: the method is not called */
	bool is_short;		       /* memory ran out in call_set() or message_new() */
};

/** A message of @descriptor with its defaults. NULL when memory is short.
 * Owned by the caller, protobuf_c_message_free_unpacked() */
void *message_new(const ProtobufCMessageDescriptor *descriptor);

/** Give a field a copy of @text; NULL leaves it. A lack of memory sticks to @call and fails it later. */
void call_set(struct call *call, char **field, const char *text);

/** Give the field the reason that the option has to have. */
enum status call_reason(struct call *call, enum option_id id, char **field, struct error *err);

typedef enum status pick_fn(struct connection *connection, const char *given,
			    char ret_id[static PICK_ID_SIZE], struct error *err);

/** Give the field the whole id that @complete finds for @given. */
enum status call_pick(struct call *call, pick_fn *complete, const char *given, char **field,
		      struct error *err);

/** Call the row's method once with the request as it is: a dry run before the question.
 * @ret owned by the caller, protobuf_c_message_free_unpacked() */
enum status call_method(struct call *call, void *ret, struct error *err);

/** Was the option given? */
bool call_has(const struct call *call, enum option_id id);

/** Prints the rows of the call. */
enum status call_show_rows(const struct call *call, ProtobufCMessage *answer, struct error *err);
