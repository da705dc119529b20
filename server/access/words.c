/* SPDX-License-Identifier: Apache-2.0 */
#include "access/words.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "pb/reflect.h"

#include <stdlib.h>

/* Names of fields and of messages. */
static const char *const handed_on[] = {
	"external_id", "external_source_id", "provider_node_id", "published_node_ids", "snapshot_id",
	"clone_id",    "next_token",	     "Constraint",	 "MountOptions",       "TaskConfig",
	"csr",
};

static bool is_handed_on(const ProtobufCFieldDescriptor *field)
{
	const ProtobufCMessageDescriptor *message =
		field->type == PROTOBUF_C_TYPE_MESSAGE ? field->descriptor : NULL;

	for (size_t i = 0; i < ARRAY_SIZE(handed_on); i++)
		if (str_eq(handed_on[i], field->name) ||
		    (message && str_eq(handed_on[i], message->short_name)))
			return true;
	return reflect_is_map(field);
}

static void take_field(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
	const struct reflect_values values = reflect_values(message, field);

	for (size_t i = 0; i < values.n; i++) {
		if (field->type == PROTOBUF_C_TYPE_MESSAGE)
			words_take(reflect_message(reflect_value(&values, i)));
		else if (field->type == PROTOBUF_C_TYPE_STRING)
			str_make_one_reason((char *)(uintptr_t)get_pointer(reflect_value(&values, i)));
	}
}

/* In memory each takes 25 times its bytes, and it is kept with the message. */
static void drop_unknown(ProtobufCMessage *message)
{
	for (unsigned int i = 0; i < message->n_unknown_fields; i++)
		free(message->unknown_fields[i].data);
	free(message->unknown_fields);
	message->unknown_fields = NULL;
	message->n_unknown_fields = 0;
}

void words_take(const ProtobufCMessage *message)
{
	drop_unknown((ProtobufCMessage *)(uintptr_t)message);
	for (unsigned int i = 0; i < message->descriptor->n_fields; i++)
		if (!is_handed_on(&message->descriptor->fields[i]))
			take_field(message, &message->descriptor->fields[i]);
}
