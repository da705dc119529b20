/* SPDX-License-Identifier: Apache-2.0 */
#include "call/pages.h"

#include "base/str.h"
#include "command/values.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

enum {
	LIMIT_MAX = 10 * 1000 * 1000,
	PAGE_MAX = 1000, /* what the server gives at most */
};

/* One of the answer's lists of messages. */
struct list {
	size_t *n; /* NULL: there is none */
	ProtobufCMessage ***items;
};

/* The list of @message that is the field @at or comes after it, which @at is set behind. */
static struct list next_list(ProtobufCMessage *message, unsigned int *at)
{
	char *base = (char *)message;

	while (*at < message->descriptor->n_fields) {
		const ProtobufCFieldDescriptor *field = &message->descriptor->fields[(*at)++];

		if (field->label == PROTOBUF_C_LABEL_REPEATED && field->type == PROTOBUF_C_TYPE_MESSAGE)
			return (struct list){
				.n = (size_t *)(void *)(base + field->quantifier_offset),
				.items = (ProtobufCMessage ***)(void *)(base + field->offset),
			};
	}
	return (struct list){.n = NULL};
}

/* What has the lists: the answer of a List, and the object in that of a Get; NULL when that is missing. */
static ProtobufCMessage *lister_of(ProtobufCMessage *answer)
{
	const ProtobufCFieldDescriptor *field = answer->descriptor->fields;
	unsigned int at = 0;

	if (next_list(answer, &at).n || field->type != PROTOBUF_C_TYPE_MESSAGE)
		return answer;
	return *(ProtobufCMessage **)(void *)((char *)answer + field->offset);
}

static struct list list_of(ProtobufCMessage *answer)
{
	ProtobufCMessage *lister = lister_of(answer);
	unsigned int at = 0;

	return lister ? next_list(lister, &at) : (struct list){.n = NULL};
}

static void *field_of(const ProtobufCMessage *message, const char *name)
{
	const ProtobufCFieldDescriptor *field =
		protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);

	assert(field);
	return (char *)(uintptr_t)message + field->offset;
}

static char **next_token(const ProtobufCMessage *message)
{
	return field_of(message, "next_token");
}

/* False when memory is short. */
static bool join_list(struct list to, struct list from)
{
	ProtobufCMessage **grown = realloc(*to.items, (*to.n + *from.n + 1) * sizeof(ProtobufCMessage *));

	if (!grown)
		return false;
	*to.items = grown;
	if (*from.n > 0)
		memcpy(grown + *to.n, *from.items, *from.n * sizeof(ProtobufCMessage *));
	*to.n += *from.n;
	*from.n = 0;
	return true;
}

/* Move what @page lists to the end of @all, and its token. */
static enum status join(ProtobufCMessage *all, ProtobufCMessage *page, struct error *err)
{
	ProtobufCMessage *to = lister_of(all);
	ProtobufCMessage *from = lister_of(page);
	unsigned int to_at = 0;
	unsigned int from_at = 0;
	struct list list;
	char *token;

	if (!to || !from)
		return error_set(err, STATUS_INTERNAL, 0, "the server's answer lacks what was asked for");
	while ((list = next_list(to, &to_at)).n)
		if (!join_list(list, next_list(from, &from_at)))
			return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "keep a page of the list");
	token = *next_token(all);
	*next_token(all) = *next_token(page);
	*next_token(page) = token;
	return STATUS_OK;
}

/* A server that gives more than was asked for is cut. */
static void cut(ProtobufCMessage *all, uint64_t limit)
{
	struct list list = list_of(all);

	assert(list.n); /* every answer in pages has a list */
	while (limit > 0 && *list.n > limit)
		protobuf_c_message_free_unpacked((*list.items)[--*list.n], NULL);
}

static bool wants_more(ProtobufCMessage *all, uint64_t limit)
{
	struct list list = list_of(all);

	assert(list.n);
	return (*next_token(all))[0] != '\0' && (limit == 0 || *list.n < limit);
}

static enum status call_page(struct connection *connection, const ProtobufCServiceDescriptor *service,
			     const char *method, ProtobufCMessage *request, uint64_t left,
			     ProtobufCMessage **ret, struct error *err)
{
	*(uint32_t *)field_of(request, "per_page") =
		(uint32_t)(left > 0 && left < PAGE_MAX ? left : PAGE_MAX);
	return connection_call(connection, service, method, request, CALL_TIMEOUT_US, ret, err);
}

enum status pages_fetch(struct connection *connection, const ProtobufCServiceDescriptor *service,
			const char *method, ProtobufCMessage *request, uint64_t limit, void *ret,
			struct error *err)
{
	cleanup_message ProtobufCMessage *all = NULL;
	enum status status = call_page(connection, service, method, request, limit, &all, err);

	while (status == STATUS_OK && wants_more(all, limit)) {
		cleanup_message ProtobufCMessage *page = NULL;
		cleanup_free char *before = strdup(*next_token(all));

		*next_token(request) = before;
		status = before ? call_page(connection, service, method, request,
					    limit > 0 ? limit - *list_of(all).n : 0, &page, err)
				: error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "ask for a page");
		if (status == STATUS_OK && str_eq(*next_token(page), before))
			status = error_set(err, STATUS_INTERNAL, 0,
					   "the server repeats a page of %s.%s: please report this",
					   service->short_name, method);
		if (status == STATUS_OK)
			status = join(all, page, err);
		*next_token(request) = (char *)(uintptr_t)protobuf_c_empty_string;
	}
	if (status != STATUS_OK)
		return status;
	cut(all, limit);
	*(ProtobufCMessage **)ret = TAKE_PTR(all);
	return STATUS_OK;
}

enum status pages_call(struct connection *connection, struct invocation *inv,
		       const ProtobufCServiceDescriptor *service, const char *method,
		       ProtobufCMessage *request, void *ret, struct error *err)
{
	uint64_t limit;

	TRY(value_number(inv, OPT_LIMIT, 1, LIMIT_MAX, 0, &limit, err));
	return pages_fetch(connection, service, method, request, limit, ret, err);
}

ProtobufCMessage **pages_items(ProtobufCMessage *answer, size_t *ret_n)
{
	struct list list = list_of(answer);

	assert(list.n);
	*ret_n = *list.n;
	return *list.items;
}

const char *message_text(const ProtobufCMessage *message, const char *field)
{
	return *(char *const *)field_of(message, field);
}

void pages_report_rest(const ProtobufCMessage *answer)
{
	if ((*next_token(answer))[0] != '\0')
		(void)fputs("there are more: raise --limit, or leave it out to see all\n", stderr);
}
