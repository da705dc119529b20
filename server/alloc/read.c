/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations.Get and List: reads, which may wait. */

#include "server.h"

#include "access/access.h"
#include "access/answer.h"
#include "alloc/allocs.h"
#include "alloc/options.h"
#include "api/list_page.h"
#include "api/watch.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "claim/claims.h"
#include "model/filter.h"
#include "model/pb.h"
#include "node/lookup.h"
#include "rpc/server.h"
#include "state/freed.h"
#include "state/keys.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <stdlib.h>
#include <string.h>

enum {
	ALLOCS_PER_PAGE_MAX = 5000,
	FILTER_BYTES_MAX =
		512 << 10, /* that the filter of one page is asked about: it may be short, or empty */
};

Holdfast__V1__Allocation *allocs_view(struct server *server, const struct alloc *alloc)
{
	char text[ALLOC_DESCRIPTION_MAX + 1];
	struct alloc shown = *alloc;

	if (alloc_is_pending(alloc))
		shown.client_description = (char *)(uintptr_t)pending_text(server, alloc, text);
	return alloc_to_pb(&shown);
}

static void add_claim(Holdfast__V1__GetAllocationResponse *response, const struct claim *claim)
{
	Holdfast__V1__Claim *message = claim_to_pb(claim);

	if (!message)
		return; /* memory is short: a shorter list is still true */
	response->claims[response->n_claims++] = message;
	if (claim->modify_index > response->index)
		response->index = claim->modify_index;
}

/* Without its present claims. */
static uint64_t index_of(struct server *server, const struct alloc_entry *entry)
{
	return watch_object_index(server, entry->alloc.modify_index > entry->freed_index
						  ? entry->alloc.modify_index
						  : entry->freed_index);
}

static Holdfast__V1__GetAllocationResponse *make_get_response(struct server *server,
							      const struct alloc_entry *entry,
							      const struct freed_list *freed,
							      const char *history_error)
{
	Holdfast__V1__GetAllocationResponse *response = calloc(1, sizeof(*response));
	const struct claim_entry *claim;
	size_t n = freed->n;

	if (!response)
		return NULL;
	holdfast__v1__get_allocation_response__init(response);
	response->allocation = allocs_view(server, &entry->alloc);
	response->index = index_of(server, entry);
	response->node_disconnected_ms = allocs_disconnected_ms(server, entry);
	LIST_FOREACH (claim, &entry->claims, of_alloc)
		n++;
	response->claims = calloc(n + 1, sizeof(Holdfast__V1__Claim *));
	if (!response->allocation || !response->claims ||
	    !message_set_text(&response->history_error, history_error) ||
	    !alloc_options_show(&server->state, response->allocation)) {
		protobuf_c_message_free_unpacked(&response->base, NULL);
		return NULL;
	}
	LIST_FOREACH (claim, &entry->claims, of_alloc)
		add_claim(response, &claim->claim);
	for (size_t i = 0; i < freed->n; i++)
		add_claim(response, &freed->claims[i]);
	return response;
}

static enum status handle_get(struct server *server, struct rpc_call *call, const ProtobufCMessage *message,
			      struct error *err)
{
	const Holdfast__V1__GetAllocationRequest *request = (const void *)message;
	struct alloc_entry *entry = state_alloc(&server->state, request->id);
	cleanup(freed_list_release) struct freed_list freed = {NULL, 0};
	Holdfast__V1__GetAllocationResponse *response;
	struct error why = {.msg = ""};
	enum status status;

	if (!entry)
		return access_no_alloc(request->id, err);
	status = freed_of_alloc(server, entry, &freed, &why);
	/* units and containers that start wait for the rest, and need no history */
	if (status != STATUS_OK && status != STATUS_UNAVAILABLE && status != STATUS_RESOURCE_EXHAUSTED) {
		*err = why;
		return status;
	}
	response = make_get_response(server, entry, &freed, status == STATUS_OK ? "" : why.msg);
	if (response)
		claims_hide_boots(server, call, response->claims, response->n_claims);
	answer_durable(server, call, (ProtobufCMessage *)response);
	return STATUS_OK;
}

static void get_name(const ProtobufCMessage *message, char ret[static OBJECT_KEY_SIZE])
{
	const Holdfast__V1__GetAllocationRequest *request = (const void *)message;

	(void)str_format(ret, OBJECT_KEY_SIZE, PREFIX_ALLOC "%.36s", request->id);
}

/* Returns the newest index of the allocation and of the claims that are shown with it. */
static uint64_t get_index(struct server *server, const ProtobufCMessage *message)
{
	const Holdfast__V1__GetAllocationRequest *request = (const void *)message;
	const struct alloc_entry *entry = state_alloc(&server->state, request->id);
	const struct claim_entry *claim;
	uint64_t index;

	if (!entry)
		return UINT64_MAX;
	index = index_of(server, entry);
	LIST_FOREACH (claim, &entry->claims, of_alloc)
		if (claim->claim.modify_index > index)
			index = claim->claim.modify_index;
	return index;
}

static const struct read_method get_method = {.handle = handle_get, .name = get_name, .index = get_index};
DEFINE_READ_METHOD(allocs_handle_get, get_method)

/* One page in the making. */
struct page {
	struct server *server;
	const Holdfast__V1__ListAllocationsRequest *request;
	struct node_entry *node; /* NULL: of all */
	struct filter *filter;	 /* owned; NULL: no filter */
	Holdfast__V1__ListAllocationsResponse *response;
	size_t size;		   /* of the page */
	size_t bytes;		   /* that were looked at */
	size_t waiting_cost;	   /* of the texts of those that wait */
	struct access_scope scope; /* when it is of every namespace */
	struct access_scope read;
	bool may_read; /* somewhere: the scope above is good */
};

static void page_release(struct page *page)
{
	filter_free(page->filter);
	if (page->response)
		holdfast__v1__list_allocations_response__free_unpacked(page->response, NULL);
}

static bool is_any_namespace(const char *namespace)
{
	return namespace[0] == '\0' || str_eq(namespace, "*");
}

static struct alloc_entry *entry_from(const struct page *page, const char *namespace, const char *id)
{
	return state_alloc_key_from(&page->server->state, page->node, namespace, id);
}

/* Returns the first entry from @entry on that is asked for. A namespace that the caller may not see costs one
 * step. */
static struct alloc_entry *find_asked_for(struct page *page, struct alloc_entry *entry)
{
	const char *prefix = page->request->prefix, *asked = page->request->namespace_;

	while (entry) {
		const char *namespace = entry->alloc.namespace;
		bool is_visible = !is_any_namespace(asked) || access_scope_has(&page->scope, namespace);

		if (!is_any_namespace(asked) && !str_eq(namespace, asked))
			return NULL;
		if (is_visible && str_starts_with(entry->id, prefix))
			return entry;
		entry = entry_from(page, namespace,
				   is_visible && strcmp(entry->id, prefix) < 0 ? prefix : BEHIND);
	}
	return NULL;
}

static bool is_full(const struct page *page)
{
	return page->response->n_allocations == page->size || page->waiting_cost > PENDING_COST_MAX ||
	       page->bytes > (page->filter ? FILTER_BYTES_MAX : LIST_PAGE_BYTES_MAX) ||
	       filter_is_spent(page->filter);
}

/* Adds @alloc, which is asked for. False: the page is full, and its token names @alloc. Tasks, with their
 * environment, are for callers who may read the allocation. */
static bool add(struct page *page, const struct alloc *alloc)
{
	Holdfast__V1__ListAllocationsResponse *response = page->response;
	char token[NAMESPACE_MAX + UUID_TEXT_SIZE + 1];
	struct alloc shown = *alloc;
	Holdfast__V1__Allocation *pb;

	shown.events = NULL;
	if (is_full(page)) {
		(void)str_format(token, sizeof(token), "%s.%s", alloc->namespace, alloc->id);
		response->next_token = strdup(token);
		return false;
	}
	if (!page->may_read || !access_scope_has(&page->read, alloc->namespace))
		shown.tasks = NULL;
	if (alloc_is_pending(alloc))
		page->waiting_cost += pending_text_cost(page->server);
	pb = allocs_view(page->server, &shown);
	page->bytes += pb ? protobuf_c_message_get_packed_size(&pb->base) : 0;
	if (pb && (!page->filter || filter_matches(page->filter, &pb->base)))
		response->allocations[response->n_allocations++] = pb;
	else if (pb)
		holdfast__v1__allocation__free_unpacked(pb, NULL);
	return true;
}

static enum status fill(struct page *page, struct error *err)
{
	const char *asked = page->request->namespace_, *token = page->request->next_token;
	char namespace[NAMESPACE_MAX + 1] = "", id[UUID_TEXT_SIZE] = "";
	struct alloc_entry *entry;

	if (token[0] != '\0')
		TRY(list_page_token(token, namespace, id, sizeof(id), err));
	else if (!is_any_namespace(asked))
		(void)str_copy(namespace, sizeof(namespace), asked);
	for (entry = entry_from(page, namespace, id);
	     (entry = find_asked_for(page, entry)) && add(page, &entry->alloc);
	     entry = state_alloc_key_next(page->node, entry))
		;
	return STATUS_OK;
}

static enum status page_init(struct page *page, struct error *err)
{
	Holdfast__V1__ListAllocationsResponse *response = calloc(1, sizeof(*response));

	if (!response)
		return error_no_memory(err, "an allocation");
	holdfast__v1__list_allocations_response__init(response);
	page->response = response;
	TRY(list_page_size(page->request->per_page, ALLOCS_PER_PAGE_MAX, &page->size, err));
	response->allocations = calloc(page->size, sizeof(Holdfast__V1__Allocation *));
	if (!response->allocations)
		return error_no_memory(err, "an allocation");
	response->index = watch_index(page->server, PREFIX_ALLOC);
	if (page->request->filter[0] == '\0')
		return STATUS_OK;
	return filter_new(page->request->filter, &holdfast__v1__allocation__descriptor, &page->filter, err);
}

static enum status handle_list(struct server *server, struct rpc_call *call, const ProtobufCMessage *message,
			       struct error *err)
{
	cleanup(page_release) struct page page = {.server = server, .request = (const void *)message};
	const char *bound = access_bound_node(server, call), *node_id;
	enum status status = page_init(&page, err);

	node_id = bound ? bound : page.request->node_id;
	page.node = node_id[0] != '\0' ? state_node(&server->state, node_id) : NULL;
	page.may_read = access_scope_init(server, call, ACCESS_JOB_READ, &page.read, NULL) == STATUS_OK;
	if (status == STATUS_OK && is_any_namespace(page.request->namespace_))
		status = access_scope_init(server, call, ACCESS_JOB_LIST, &page.scope, err);
	if (status == STATUS_OK && (page.node || node_id[0] == '\0'))
		status = fill(&page, err);
	if (status != STATUS_OK)
		return status;
	answer_durable(server, call, &page.response->base);
	page.response = NULL; /* handed over */
	return STATUS_OK;
}

static void list_name(const ProtobufCMessage *message, char ret[static OBJECT_KEY_SIZE])
{
	(void)str_copy(ret, OBJECT_KEY_SIZE, PREFIX_ALLOC);
}

static const struct read_method list_method = {.handle = handle_list, .name = list_name};
DEFINE_READ_METHOD(allocs_handle_list, list_method)
