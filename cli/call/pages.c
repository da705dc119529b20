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
	size_t *n; /* NULL: no further list */
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

/* Returns the message with the lists: the answer of a List, or the object in that of a Get, perhaps NULL. */
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

/* A list on its way. */
struct walk {
	struct connection *connection;
	const ProtobufCServiceDescriptor *service;
	const char *method;
	ProtobufCMessage *request;
	uint64_t limit; /* 0: everything */
	uint64_t n;	/* elements so far */
	char *token;	/* of the next page, NULL: the first one */
	char *seen;	/* the token of the last of pages 1, 2, 4, 8 ...: a circle comes back to it */
	size_t n_pages;
	bool is_over;
};

/* Counts what came. A server that gives more than was asked for is cut. */
static void count(struct walk *walk, ProtobufCMessage *page)
{
	struct list list = list_of(page);

	walk->is_over = !list.n || (*next_token(page))[0] == '\0';
	if (!list.n)
		return;
	while (walk->limit > 0 && walk->n + *list.n > walk->limit)
		protobuf_c_message_free_unpacked((*list.items)[--*list.n], NULL);
	walk->n += *list.n;
	walk->is_over = walk->is_over || (walk->limit > 0 && walk->n == walk->limit);
}

static enum status call_page(struct walk *walk, ProtobufCMessage **ret, struct error *err)
{
	uint64_t left = walk->limit > 0 ? walk->limit - walk->n : PAGE_MAX;
	char **token = next_token(walk->request);
	enum status status;

	*(uint32_t *)field_of(walk->request, "per_page") = (uint32_t)(left < PAGE_MAX ? left : PAGE_MAX);
	*token = walk->token ? walk->token : (char *)(uintptr_t)protobuf_c_empty_string;
	status = connection_call(walk->connection, walk->service, walk->method, walk->request,
				 CALL_TIMEOUT_US, ret, err);
	*token = (char *)(uintptr_t)protobuf_c_empty_string;
	if (status != STATUS_OK)
		return status;
	if (walk->seen && str_eq(*next_token(*ret), walk->seen))
		return error_set(err, STATUS_INTERNAL, 0,
				 "the server repeats a page of %s.%s, or a plugin that it asks does: please "
				 "report this",
				 walk->service->short_name, walk->method);
	free(walk->token);
	walk->token = strdup(*next_token(*ret));
	walk->n_pages++;
	if ((walk->n_pages & (walk->n_pages - 1)) == 0) {
		free(walk->seen);
		walk->seen = strdup(*next_token(*ret));
	}
	count(walk, *ret);
	return walk->token && walk->seen
		       ? STATUS_OK
		       : error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot ask for a page");
}

enum status pages_each(struct connection *connection, const ProtobufCServiceDescriptor *service,
		       const char *method, ProtobufCMessage *request, uint64_t limit, page_fn *on_page,
		       void *userdata, struct error *err)
{
	struct walk walk = {connection, service, method, request, limit};
	enum status status = STATUS_OK;

	while (status == STATUS_OK && !walk.is_over) {
		cleanup_message ProtobufCMessage *page = NULL;

		status = call_page(&walk, &page, err);
		if (status == STATUS_OK)
			status = on_page(&page, walk.is_over, userdata, err);
	}
	free(walk.token);
	free(walk.seen);
	return status;
}

static enum status join_page(ProtobufCMessage **page, bool is_last, void *userdata, struct error *err)
{
	ProtobufCMessage **all = userdata;

	if (*all)
		return join(*all, *page, err);
	*all = TAKE_PTR(*page);
	return STATUS_OK;
}

enum status pages_fetch(struct connection *connection, const ProtobufCServiceDescriptor *service,
			const char *method, ProtobufCMessage *request, uint64_t limit, void *ret,
			struct error *err)
{
	cleanup_message ProtobufCMessage *all = NULL;

	TRY(pages_each(connection, service, method, request, limit, join_page, &all, err));
	*(ProtobufCMessage **)ret = TAKE_PTR(all);
	return STATUS_OK;
}

enum status pages_limit(struct invocation *inv, uint64_t *ret, struct error *err)
{
	return value_number(inv, OPT_LIMIT, 1, LIMIT_MAX, 0, ret, err);
}

enum status pages_call(struct connection *connection, struct invocation *inv,
		       const ProtobufCServiceDescriptor *service, const char *method,
		       ProtobufCMessage *request, void *ret, struct error *err)
{
	uint64_t limit;

	TRY(pages_limit(inv, &limit, err));
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
