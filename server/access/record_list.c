/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of records, by the descriptors of the request and of the answer. */

#include "access/record_list.h"

#include "server.h"

#include "access/answer.h"
#include "api/list_page.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "model/filter.h"
#include "pb/reflect.h"

#include <stdlib.h>

enum {
	RECORDS_MAX = 1000,	   /* of one page */
	RECORDS_BYTES = 512 << 10, /* below the largest message */
	SCAN_MAX = 20000,	   /* records that one page looks at: a filter may leave it short, or empty */
};

static const char *field_at(const ProtobufCMessage *request, const char *name)
{
	return reflect_at(request, reflect_find(request->descriptor, name));
}

/* Copies @value, as large as the field @name, into @message. Without such a field it does nothing. */
static void set_field(ProtobufCMessage *message, const char *name, const void *value)
{
	const ProtobufCFieldDescriptor *field = reflect_find(message->descriptor, name);

	if (field)
		memcpy((char *)message + field->offset, value, reflect_size(field->type));
}

static void filter_freep(struct filter **filter)
{
	filter_free(*filter);
}

/* @ret NULL: the request has no filter. */
static enum status read_filter(const ProtobufCMessage *request, const ProtobufCMessageDescriptor *descriptor,
			       struct filter **ret, struct error *err)
{
	const ProtobufCFieldDescriptor *field = reflect_find(request->descriptor, "filter");
	const char *text = field ? reflect_text(reflect_at(request, field)) : "";

	return text[0] != '\0' ? filter_new(text, descriptor, ret, err) : STATUS_OK;
}

/* The first entry of another folder behind @entry. */
static struct record_entry *skip_folder(struct server *server, const struct record_entry *entry,
					const char *table)
{
	size_t n = strlen(table) + strcspn(entry->key + strlen(table), "/");
	char key[OBJECT_KEY_SIZE];

	(void)str_format(key, sizeof(key), "%.*s/\x7f", (int)n, entry->key);
	return records_from(&server->state.records, key);
}

enum status record_list_answer(struct server *server, struct rpc_call *call, const ProtobufCMessage *request,
			       const struct record_list *list, struct error *err)
{
	const char *table = list->table ? list->table : list->prefix;
	const char *prefix = list->takes_prefix ? "" : reflect_text(field_at(request, "prefix"));
	const char *from = reflect_text(field_at(request, "next_token")), *next_token = "";
	const ProtobufCFieldDescriptor *items = &list->response->fields[0];
	const ProtobufCMessageDescriptor *item = items->descriptor;
	size_t width = item->sizeof_message;
	cleanup(filter_freep) struct filter *filter = NULL;
	cleanup_free ProtobufCMessage *response = calloc(1, list->response->sizeof_message);
	cleanup_free ProtobufCMessage **shown = NULL;
	cleanup_free char *copies = NULL; /* of the messages, but not of what they own */
	uint64_t index = watch_index(server, list->prefix);
	char first[OBJECT_KEY_SIZE], all[OBJECT_KEY_SIZE];
	size_t most, n = 0, n_seen = 0, bytes = 0;

	TRY(read_filter(request, item, &filter, err));
	TRY(list_page_size(get_u32(field_at(request, "per_page")), RECORDS_MAX, &most, err));
	if (str_format(all, sizeof(all), "%s%s", table, prefix) < 0 ||
	    str_format(first, sizeof(first), "%s%s", table, from[0] != '\0' ? from : prefix) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "prefix, next_token: too long");
	copies = calloc(most, width);
	shown = calloc(most, sizeof(void *));
	if (!response || !copies || !shown)
		return error_no_memory(err, "a page of a list");
	for (struct record_entry *entry = records_from(&server->state.records, first), *next;
	     entry && str_starts_with(entry->key, all); entry = next) {
		const ProtobufCMessage *message;

		if (list->is_hidden && list->is_hidden(entry, list->userdata)) {
			next = skip_folder(server, entry, table);
			continue;
		}
		next = records_next(entry);
		message = list->message ? list->message(entry, list->userdata) : entry->record.message;
		bytes += message ? protobuf_c_message_get_packed_size(message) : 0;
		if (n == most || n_seen++ == SCAN_MAX || bytes > RECORDS_BYTES || filter_is_spent(filter)) {
			next_token = entry->key + strlen(table);
			break;
		}
		if (!message)
			continue;
		shown[n] = memcpy(copies + n * width, message, width);
		set_field(shown[n], "create_index", &entry->record.create_index);
		set_field(shown[n], "modify_index", &entry->record.modify_index);
		n += !filter || filter_matches(filter, shown[n]);
	}
	protobuf_c_message_init(list->response, response);
	set_field(response, items->name, &shown);
	memcpy((char *)response + items->quantifier_offset, &n, sizeof(n));
	set_field(response, "next_token", &next_token);
	set_field(response, "index", &index);
	answer_durable(server, call, message_copy(response));
	return STATUS_OK;
}
