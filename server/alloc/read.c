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
	SCAN_MAX = 20000,	  /* entries that one page looks at: a filter may leave it short, or empty */
	PAGE_BYTES_MAX = 2 << 20, /* with one more allocation below what clients take in one message */
	FILTER_BYTES_MAX = 512 << 10, /* that the filter of one page is asked about */
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

static Holdfast__V1__GetAllocationResponse *
make_get_response(struct server *server, const struct alloc_entry *entry, const struct freed_list *freed)
{
	Holdfast__V1__GetAllocationResponse *response = calloc(1, sizeof(*response));
	const struct claim_entry *claim;
	size_t n = freed->n;

	if (!response)
		return NULL;
	holdfast__v1__get_allocation_response__init(response);
	response->allocation = allocs_view(server, &entry->alloc);
	response->index = entry->alloc.modify_index > entry->freed_index ? entry->alloc.modify_index
									 : entry->freed_index;
	response->node_disconnected_ms = allocs_disconnected_ms(server, entry);
	LIST_FOREACH (claim, &entry->claims, of_alloc)
		n++;
	response->claims = calloc(n + 1, sizeof(Holdfast__V1__Claim *));
	if (!response->allocation || !response->claims ||
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

	if (!entry)
		return access_no_alloc(request->id, err);
	TRY(freed_of_alloc(server, entry, &freed, err));
	answer_durable(server, call, (ProtobufCMessage *)make_get_response(server, entry, &freed));
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
	index = entry->alloc.modify_index > entry->freed_index ? entry->alloc.modify_index
							       : entry->freed_index;
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
	const char *node_id;   /* borrowed; "": of all */
	struct filter *filter; /* owned; NULL: no filter */
	Holdfast__V1__ListAllocationsResponse *response;
	size_t size; /* of the page */
	size_t n_scanned;
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

static bool is_asked_for(struct page *page, const struct alloc *alloc)
{
	const Holdfast__V1__ListAllocationsRequest *request = page->request;

	if (!str_starts_with(alloc->id, request->prefix) ||
	    (page->node_id[0] != '\0' && !str_eq(alloc->node_id, page->node_id)))
		return false;
	if (is_any_namespace(request->namespace_))
		return access_scope_has(&page->scope, alloc->namespace);
	return str_eq(alloc->namespace, request->namespace_);
}

static bool is_full(const struct page *page)
{
	return page->response->n_allocations == page->size || page->waiting_cost > PENDING_COST_MAX ||
	       page->bytes > (page->filter ? FILTER_BYTES_MAX : PAGE_BYTES_MAX) ||
	       filter_is_spent(page->filter);
}

/* Adds @alloc if it is asked for. False: the page is full, and @alloc begins the next one. A full page looks
 * for one that the caller may see, so that no token names another. Tasks, with their environment, are for
 * callers who may read the allocation. */
static bool add(struct page *page, const struct alloc *alloc)
{
	Holdfast__V1__ListAllocationsResponse *response = page->response;
	bool is_wanted = is_asked_for(page, alloc);
	struct alloc shown = *alloc;
	Holdfast__V1__Allocation *pb;

	shown.events = NULL;
	if ((is_wanted && is_full(page)) || page->n_scanned++ == SCAN_MAX) {
		response->next_token = strdup(alloc->id);
		return false;
	}
	if (!is_wanted)
		return true;
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

static int compare_ids(const void *a, const void *b)
{
	const struct alloc_entry *const *x = a;
	const struct alloc_entry *const *y = b;

	return strcmp((*x)->id, (*y)->id);
}

/* Adds those of @node from @from on: its lists are in no order. */
static enum status add_of_node(struct page *page, const struct node_entry *node, const char *from,
			       struct error *err)
{
	cleanup_free const struct alloc_entry **list =
		calloc(node->n_allocs + 1, sizeof(const struct alloc_entry *));
	const struct alloc_entry *entry;
	size_t n = 0;

	if (!list)
		return error_no_memory(err, "an allocation");
	LIST_FOREACH (entry, &node->allocs, of_node)
		if (strcmp(entry->id, from) >= 0)
			list[n++] = entry;
	LIST_FOREACH (entry, &node->ended, of_node)
		if (strcmp(entry->id, from) >= 0)
			list[n++] = entry;
	qsort((void *)list, n, sizeof(const struct alloc_entry *), compare_ids);
	for (size_t i = 0; i < n && add(page, &list[i]->alloc); i++)
		;
	return STATUS_OK;
}

static enum status fill(struct page *page, struct error *err)
{
	const char *prefix = page->request->prefix;
	const char *token = page->request->next_token;
	const char *from = strcmp(token, prefix) > 0 ? token : prefix;
	const struct node_entry *node = state_node(&page->server->state, page->node_id);
	struct alloc_entry *entry;

	if (page->node_id[0] != '\0' && !node)
		return STATUS_OK;
	if (page->node_id[0] != '\0' && node->n_allocs <= SCAN_MAX)
		return add_of_node(page, node, from, err);
	for (entry = state_alloc_from(&page->server->state, from);
	     entry && str_starts_with(entry->id, prefix) && add(page, &entry->alloc);
	     entry = state_alloc_next(entry))
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
	const char *bound = access_bound_node(server, call);
	enum status status = page_init(&page, err);

	page.node_id = bound ? bound : page.request->node_id;
	page.may_read = access_scope_init(server, call, ACCESS_JOB_READ, &page.read, NULL) == STATUS_OK;
	if (status == STATUS_OK && is_any_namespace(page.request->namespace_))
		status = access_scope_init(server, call, ACCESS_JOB_LIST, &page.scope, err);
	if (status == STATUS_OK)
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
