/* SPDX-License-Identifier: Apache-2.0 */
#include "server.h"

#include "access/access.h"
#include "access/answer.h"
#include "api/list_page.h"
#include "api/watch.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "model/filter.h"
#include "state/keys.h"
#include "volume/view.h"
#include "volume/volumes.h"

#include <holdfast/v1/volumes.pb-c.h>
#include <stdlib.h>
#include <string.h>

/* A page is filled from one of three ordered sources: all volumes, those of a plugin, those that a node has
 * live claims on. Each is entered where the page begins and left where nothing that matches can follow, so
 * that a page costs what it looks at; with a filter that is bounded, and the page may be short or empty with
 * a token to continue from. */

struct key {
	char namespace[NAMESPACE_MAX + 2];
	char id[VOLUME_ID_MAX + 2];
};

struct page {
	struct server *server;
	const Holdfast__V1__ListVolumesRequest *request;
	const char *namespace; /* NULL: all */
	struct filter *filter; /* NULL: no filter */
	size_t max;
	size_t looked_at;
	size_t bytes; /* of the volumes that were looked at */
	struct volume_view_cache cache;
	Holdfast__V1__ListVolumesResponse *response;
	struct access_scope scope; /* for a list of every namespace */
	/* owned; by key, one entry for each claim; NULL: the list is not of a node, or the node is unknown */
	struct volume_entry **of_node;
	size_t n_of_node, next_of_node;
};

/* Where the walk continues. */
enum verdict {
	TAKE,
	PASS_BY,
	TO_PREFIX,    /* the prefix begins further on in this namespace */
	TO_NAMESPACE, /* skip the rest of this namespace */
	TO_END,
};

static enum verdict classify(struct page *page, const struct volume_entry *entry)
{
	const char *prefix = page->request->prefix;

	if (page->namespace && !str_eq(entry->namespace, page->namespace))
		return TO_END;
	if (!page->namespace && !access_scope_has(&page->scope, entry->namespace))
		return TO_NAMESPACE;
	if (str_starts_with(entry->id, prefix))
		return TAKE;
	if (strcmp(entry->id, prefix) < 0)
		return TO_PREFIX;
	return page->namespace ? TO_END : TO_NAMESPACE;
}

/* The three sources, one shape: the first entry not below a key. */
typedef struct volume_entry *source_fn(struct page *page, const char *namespace, const char *id);

static struct volume_entry *from_all(struct page *page, const char *namespace, const char *id)
{
	return state_volume_from(&page->server->state, namespace, id);
}

static struct volume_entry *from_plugin(struct page *page, const char *namespace, const char *id)
{
	const char *id_asked = page->request->plugin_id;
	struct plugin_entry *plugin =
		state_plugin(&page->server->state, id_asked[0] != '\0' ? id_asked : PLUGIN_NATIVE);

	return plugin ? state_plugin_volume_from(plugin, namespace, id) : NULL;
}

static int compare_key(const struct volume_entry *entry, const char *namespace, const char *id)
{
	int c = strcmp(entry->namespace, namespace);

	return c != 0 ? c : strcmp(entry->id, id);
}

static struct volume_entry *from_node(struct page *page, const char *namespace, const char *id)
{
	while (page->next_of_node < page->n_of_node &&
	       compare_key(page->of_node[page->next_of_node], namespace, id) < 0)
		page->next_of_node++;
	return page->next_of_node < page->n_of_node ? page->of_node[page->next_of_node] : NULL;
}

static int compare_entries(const void *a, const void *b)
{
	const struct volume_entry *const *x = a;
	const struct volume_entry *const *y = b;

	return compare_key(*x, (*y)->namespace, (*y)->id);
}

/* Collects the volumes that are asked for and that the node has live claims on, once for a page. False when
 * memory is short. */
static bool collect_of_node(struct page *page)
{
	const char *plugin_id = page->request->plugin_id;
	const struct node_entry *node = state_node(&page->server->state, page->request->node_id);
	struct claim_entry *claim;

	if (!node)
		return true;
	page->of_node = calloc(node->n_live + 1, sizeof(struct volume_entry *));
	if (!page->of_node)
		return false;
	LIST_FOREACH (claim, &node->claims, of_node) {
		struct volume_entry *entry = claim->volume;

		if (claim_is_live(&claim->claim) &&
		    (plugin_id[0] == '\0' || str_eq(entry->volume.plugin_id, plugin_id)) &&
		    classify(page, entry) == TAKE)
			page->of_node[page->n_of_node++] = entry;
	}
	qsort((void *)page->of_node, page->n_of_node, sizeof(struct volume_entry *), compare_entries);
	return true;
}

static source_fn *source_of(const Holdfast__V1__ListVolumesRequest *request)
{
	if (request->node_id[0] != '\0')
		return from_node;
	/* all native volumes are of one plugin */
	return request->plugin_id[0] != '\0' || request->type == HOLDFAST__V1__VOLUME_TYPE__NATIVE
		       ? from_plugin
		       : from_all;
}

/* False when memory is short. */
static bool add_row(struct page *page, struct volume_entry *entry)
{
	enum volume_type type = (enum volume_type)page->request->type;
	Holdfast__V1__Volume *view;

	page->looked_at++;
	if (type != VOLUME_TYPE_UNSPECIFIED && entry->volume.type != type)
		return true;
	view = volume_view(page->server, entry, false, &page->cache);
	if (!view)
		return false;
	page->bytes += protobuf_c_message_get_packed_size(&view->base);
	if (page->filter && !filter_matches(page->filter, &view->base)) {
		holdfast__v1__volume__free_unpacked(view, NULL);
		return true;
	}
	page->response->volumes[page->response->n_volumes++] = view;
	return true;
}

/* The key behind @entry from which the walk continues. */
static void next_key(const struct page *page, const struct volume_entry *entry, enum verdict verdict,
		     struct key *ret)
{
	const char *id = verdict == TO_PREFIX ? page->request->prefix : entry->id;

	/* ids that fit the arrays, and a prefix that is a beginning of one or is behind all of them */
	(void)str_copy(ret->namespace, sizeof(ret->namespace), entry->namespace);
	if (verdict == TO_NAMESPACE)
		(void)str_copy(ret->id, sizeof(ret->id), BEHIND);
	else if (verdict == TO_PREFIX)
		(void)str_format(ret->id, sizeof(ret->id), "%.*s", VOLUME_ID_MAX + 1, id);
	else
		(void)str_format(ret->id, sizeof(ret->id), "%s\x01", id); /* below any longer id */
}

static bool set_token(struct page *page, const struct volume_entry *entry)
{
	char token[NAMESPACE_MAX + VOLUME_ID_MAX + 2];

	(void)str_format(token, sizeof(token), "%s.%s", entry->namespace, entry->id);
	page->response->next_token = strdup(token);
	return page->response->next_token != NULL;
}

static bool is_full(const struct page *page)
{
	return page->response->n_volumes == page->max || page->looked_at == VOLUMES_LOOK_AT_MAX ||
	       page->bytes > LIST_PAGE_BYTES_MAX || filter_is_spent(page->filter);
}

static enum status fill(struct page *page, const struct key *begin, struct error *err)
{
	source_fn *from = source_of(page->request);
	struct volume_entry *entry;
	struct key key;

	if (from == from_node && !collect_of_node(page))
		return error_no_memory(err, "a list of volumes");
	entry = from(page, begin->namespace, begin->id);
	while (entry) {
		enum verdict verdict = classify(page, entry);

		if (verdict == TO_END)
			return STATUS_OK;
		if (verdict == TAKE && is_full(page))
			return set_token(page, entry) ? STATUS_OK : error_no_memory(err, "a list of volumes");
		if (verdict == TAKE && !add_row(page, entry))
			return error_no_memory(err, "a list of volumes");
		next_key(page, entry, verdict, &key);
		entry = from(page, key.namespace, key.id);
	}
	return STATUS_OK;
}

static enum status first_key(const struct page *page, struct key *ret, struct error *err)
{
	const Holdfast__V1__ListVolumesRequest *request = page->request;

	*ret = (struct key){0};
	if (request->next_token[0] != '\0')
		return list_page_token(request->next_token, ret->namespace, ret->id, sizeof(ret->id), err);
	if (!page->namespace)
		return STATUS_OK;
	(void)str_format(ret->namespace, sizeof(ret->namespace), "%.*s", NAMESPACE_MAX + 1, page->namespace);
	(void)str_format(ret->id, sizeof(ret->id), "%.*s", VOLUME_ID_MAX + 1, request->prefix);
	return STATUS_OK;
}

static const Holdfast__V1__ListVolumesRequest *list_request(const ProtobufCMessage *request)
{
	return (const Holdfast__V1__ListVolumesRequest *)(const void *)request;
}

static bool is_all(const Holdfast__V1__ListVolumesRequest *request)
{
	return str_eq(request->namespace_, "*");
}

static void name_list(const ProtobufCMessage *request, char ret[static OBJECT_KEY_SIZE])
{
	(void)str_copy(ret, OBJECT_KEY_SIZE, PREFIX_VOLUME);
}

static Holdfast__V1__ListVolumesResponse *response_new(struct server *server, size_t max)
{
	Holdfast__V1__ListVolumesResponse *response = calloc(1, sizeof(*response));

	if (!response)
		return NULL;
	holdfast__v1__list_volumes_response__init(response);
	response->index = watch_index(server, PREFIX_VOLUME);
	response->volumes = calloc(max, sizeof(Holdfast__V1__Volume *));
	if (response->volumes)
		return response;
	free(response);
	return NULL;
}

static enum status fill_page(struct page *page, struct error *err)
{
	struct key begin;

	TRY(first_key(page, &begin, err));
	page->response = response_new(page->server, page->max);
	if (!page->response)
		return error_no_memory(err, "a list of volumes");
	enum status status = fill(page, &begin, err);
	free((void *)page->of_node);
	if (status != STATUS_OK)
		protobuf_c_message_free_unpacked(&page->response->base, NULL);
	return status;
}

static enum status handle_list(struct server *server, struct rpc_call *call, const ProtobufCMessage *request,
			       struct error *err)
{
	const Holdfast__V1__ListVolumesRequest *list = list_request(request);
	struct page page = {
		.server = server,
		.request = list,
		.namespace = is_all(list) ? NULL : namespace_or_default(list->namespace_),
	};
	struct filter *filter = NULL;
	enum status status = list_page_size(list->per_page, VOLUMES_PER_PAGE_MAX, &page.max, err);

	if (status == STATUS_OK && (unsigned int)list->type >= VOLUME_TYPE_N)
		status = error_set(err, STATUS_INVALID_ARGUMENT, 0, "type: use csi, native or nothing");
	if (status == STATUS_OK && list->filter[0] != '\0')
		status = filter_new(list->filter, &holdfast__v1__volume__descriptor, &filter, err);
	page.filter = filter;
	if (status == STATUS_OK && !page.namespace)
		status = access_scope_init(server, call, ACCESS_VOLUME_LIST, &page.scope, err);
	if (status == STATUS_OK)
		status = fill_page(&page, err);
	filter_free(filter);
	if (status == STATUS_OK)
		answer_durable(server, call, &page.response->base);
	return status;
}

static const struct read_method list_method = {
	.handle = handle_list,
	.name = name_list,
};

DEFINE_READ_METHOD(volumes_handle_list, list_method)
