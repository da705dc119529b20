/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/csi_request.h"

#include "base/cleanup.h"
#include "model/message.h"
#include "pb/reflect.h"

#include <stdlib.h>
#include <string.h>

static int compare_entries(const void *a, const void *b)
{
	return strcmp(reflect_entry_key(reflect_message(a)), reflect_entry_key(reflect_message(b)));
}

static void sort_maps(ProtobufCMessage *message)
{
	for (unsigned int i = 0; i < message->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
		struct reflect_values values = reflect_values(message, field);

		if (field->type != PROTOBUF_C_TYPE_MESSAGE)
			continue;
		for (size_t k = 0; k < values.n; k++)
			sort_maps(reflect_message(reflect_value(&values, k)));
		if (reflect_is_map(field) && values.n > 1)
			qsort((void *)(uintptr_t)values.first, values.n, sizeof(ProtobufCMessage *),
			      compare_entries);
	}
}

ProtobufCMessage *csi_request_copy(const ProtobufCMessage *request)
{
	ProtobufCMessage *copy = message_copy_secret(request);

	if (copy)
		sort_maps(copy);
	return copy;
}

void csi_request_free(ProtobufCMessage *request)
{
	message_free_secret(request);
}

static const struct subject {
	const char *field;
	const char *kind;
} subjects[] = {
	{"volume_id", "volume"},
	{"snapshot_id", "snapshot"},
	{"source_volume_id", "volume"},
	{"name", "volume"},
};

const char *csi_request_subject(const ProtobufCMessage *request, const char **ret_kind)
{
	for (size_t i = 0; i < ARRAY_SIZE(subjects); i++) {
		const ProtobufCFieldDescriptor *field = protobuf_c_message_descriptor_get_field_by_name(
			request->descriptor, subjects[i].field);
		struct reflect_values values;

		if (!field || field->type != PROTOBUF_C_TYPE_STRING)
			continue;
		values = reflect_values(request, field);
		if (values.n == 1 && reflect_text(reflect_value(&values, 0))[0] != '\0') {
			*ret_kind = subjects[i].kind;
			return reflect_text(reflect_value(&values, 0));
		}
	}
	return NULL;
}
