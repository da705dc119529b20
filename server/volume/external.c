/* SPDX-License-Identifier: Apache-2.0 */
#include "server.h"

#include "access/access.h"
#include "access/answer.h"
#include "api/list_page.h"
#include "base/cleanup.h"
#include "base/id.h"
#include "base/join.h"
#include "base/str.h"
#include "model/message.h"
#include "state/keys.h"
#include "volume/call.h"
#include "volume/identity.h"
#include "volume/snapshots.h"
#include "volume/volumes.h"

#include <holdfast/v1/volumes.pb-c.h>
#include <stdlib.h>
#include <string.h>

/* Listings of providers: volumes as reported, snapshots joined with the records here. */

enum {
	EXTERNAL_PER_PAGE_MAX = 1000,
	TOKEN_MAX = 4096, /* of a provider */
};

/* A list while the provider is being asked. */
struct listing {
	struct rpc_call *call;
	char plugin_id[PLUGIN_ID_MAX + 1];
	size_t max;
};

static enum status listing_new(struct rpc_call *call, const char *plugin_id, size_t max, struct listing **ret,
			       struct error *err)
{
	struct listing *listing = calloc(1, sizeof(*listing));

	if (!listing)
		return error_no_memory(err, "external volumes");
	listing->call = call;
	(void)str_copy(listing->plugin_id, sizeof(listing->plugin_id), plugin_id);
	listing->max = max;
	*ret = listing;
	return STATUS_OK;
}

static enum status check_page(const char *plugin_id, uint32_t per_page, const char *token, size_t *ret_size,
			      struct error *err)
{
	if (plugin_id[0] != '\0' && !id_is_plugin(plugin_id))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "plugin_id: '%.64s' is no plugin id",
				 plugin_id);
	if (strlen(token) > TOKEN_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "next_token: longer than %d bytes",
				 TOKEN_MAX);
	return list_page_size(per_page, EXTERNAL_PER_PAGE_MAX, ret_size, err);
}

/* Explains a refused token. The rest of a too long page is lost: the token is behind it. */
static void explain_token(const struct error *from, struct error *ret)
{
	*ret = *from;
	if (ret->status == STATUS_ABORTED)
		(void)error_prefix(ret, "next_token: the provider no longer knows it; begin without it");
}

/* The order is by ids; equal ones keep their order. */
static int compare_places(const void *a, const void *b)
{
	Holdfast__V1__ExternalVolume *const *one = *(Holdfast__V1__ExternalVolume *const *const *)a;
	Holdfast__V1__ExternalVolume *const *other = *(Holdfast__V1__ExternalVolume *const *const *)b;
	int c = strcmp((*one)->external_id, (*other)->external_id);

	return c != 0 ? c : (one > other) - (one < other);
}

/* Owned by the caller; NULL when memory is short. */
static Holdfast__V1__ExternalVolume ***sort_ids(const Holdfast__V1__ControllerListVolumesResponse *list)
{
	Holdfast__V1__ExternalVolume ***ret = calloc(list->n_volumes + 1, sizeof(*ret));

	for (size_t i = 0; ret && i < list->n_volumes; i++)
		ret[i] = &list->volumes[i];
	if (ret)
		qsort(ret, list->n_volumes, sizeof(*ret), compare_places);
	return ret;
}

/* Is it the first of its id? Each look at an id costs a walk over all volumes that have it, and a plugin may
 * list one again and again. */
static bool is_first(Holdfast__V1__ExternalVolume ***sorted, size_t n, Holdfast__V1__ExternalVolume **volume)
{
	Holdfast__V1__ExternalVolume ***found = bsearch(&volume, sorted, n, sizeof(*sorted), compare_places);

	return found == sorted || !str_eq((*found[-1])->external_id, (*volume)->external_id);
}

/* Those that the caller may see, of one page, each once; the messages are borrowed. */
static Holdfast__V1__ExternalVolume **visible_volumes(struct server *server, const struct listing *listing,
						      const Holdfast__V1__ControllerListVolumesResponse *list,
						      size_t *ret_n)
{
	cleanup_free Holdfast__V1__ExternalVolume **ret = calloc(list->n_volumes + 1, sizeof(void *));
	cleanup_free Holdfast__V1__ExternalVolume ***sorted = sort_ids(list);
	struct identity_sight sight;

	identity_sight_init(server, listing->call, &sight);
	*ret_n = 0;
	for (size_t i = 0; ret && sorted && i < list->n_volumes && i < listing->max; i++)
		if (is_first(sorted, list->n_volumes, &list->volumes[i]) &&
		    identity_sees_volume(server, &sight, listing->plugin_id, list->volumes[i]->external_id))
			ret[(*ret_n)++] = list->volumes[i];
	return sorted ? TAKE_PTR(ret) : NULL;
}

static void on_volumes_listed(struct server *server, const Holdfast__V1__PluginReply *reply,
			      const struct error *err, void *userdata)
{
	cleanup_free struct listing *listing = userdata;
	Holdfast__V1__ListExternalVolumesResponse response =
		HOLDFAST__V1__LIST_EXTERNAL_VOLUMES_RESPONSE__INIT;
	cleanup_free Holdfast__V1__ExternalVolume **visible = NULL;
	struct error why;

	if (err) {
		explain_token(err, &why);
		rpc_call_fail(listing->call, &why);
		return;
	}
	if (reply->list_volumes) {
		visible = visible_volumes(server, listing, reply->list_volumes, &response.n_volumes);
		if (!visible) {
			answer_error(listing->call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
			return;
		}
		response.volumes = visible;
		response.next_token = reply->list_volumes->next_token;
	}
	rpc_call_reply(listing->call, &response.base);
}

static enum status list_external(struct server *server, struct rpc_call *call,
				 const Holdfast__V1__ListExternalVolumesRequest *request, struct error *err)
{
	Holdfast__V1__ControllerListVolumesRequest list = HOLDFAST__V1__CONTROLLER_LIST_VOLUMES_REQUEST__INIT;
	Holdfast__V1__PluginCall pb = HOLDFAST__V1__PLUGIN_CALL__INIT;
	char sharer[NAMESPACE_MAX + 1];
	struct controller_call controller = {
		.plugin_id = request->plugin_id, .namespace = sharer, .call = &pb, .done = on_volumes_listed};
	struct listing *listing;
	size_t max;
	enum status status =
		check_page(request->plugin_id, request->per_page, request->next_token, &max, err);

	if (status == STATUS_OK && request->plugin_id[0] == '\0')
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "plugin_id: missing; holdfast plugin status lists the plugins");
	if (status == STATUS_OK)
		status = volume_check_ability(server, request->plugin_id, &VOLUME_CAN_LIST, err);
	if (status == STATUS_OK)
		status = listing_new(call, request->plugin_id, max, &listing, err);
	if (status != STATUS_OK)
		return status;
	list.max_entries = (uint32_t)listing->max;
	list.starting_token = request->next_token;
	pb.request_case = HOLDFAST__V1__PLUGIN_CALL__REQUEST_LIST_VOLUMES;
	pb.list_volumes = &list;
	controller.userdata = listing;
	access_sharer(server, call, sharer);
	status = controller_call(server, &controller, err);
	if (status != STATUS_OK)
		free(listing);
	return status;
}

void volumes_handle_list_external(struct rpc_call *call, const ProtobufCMessage *request, void *server)
{
	struct error err;

	if (list_external(server, call,
			  (const Holdfast__V1__ListExternalVolumesRequest *)(const void *)request,
			  &err) != STATUS_OK)
		rpc_call_fail(call, &err);
}

static Holdfast__V1__ListSnapshotsResponse *snapshots_response(size_t max)
{
	Holdfast__V1__ListSnapshotsResponse *response = calloc(1, sizeof(*response));

	if (!response)
		return NULL;
	holdfast__v1__list_snapshots_response__init(response);
	response->snapshots = calloc(max + 1, sizeof(Holdfast__V1__Snapshot *));
	if (response->snapshots)
		return response;
	free(response);
	return NULL;
}

/* Without the limits of its volume, which the caller may not read. */
static bool add_copy(Holdfast__V1__ListSnapshotsResponse *response, const Holdfast__V1__Snapshot *snapshot)
{
	Holdfast__V1__Snapshot shown = *snapshot;
	ProtobufCMessage *copy;

	shown.limits = NULL;
	copy = message_convert(&holdfast__v1__snapshot__descriptor, &shown.base);
	if (copy)
		response->snapshots[response->n_snapshots++] = (Holdfast__V1__Snapshot *)(void *)copy;
	return copy != NULL;
}

/* Adds the provider's snapshot, merged with its record if there is one. */
static bool add_external(Holdfast__V1__ListSnapshotsResponse *response, const struct listing *listing,
			 const Holdfast__V1__ExternalSnapshot *external, const Holdfast__V1__Snapshot *known)
{
	Holdfast__V1__Snapshot snapshot = HOLDFAST__V1__SNAPSHOT__INIT;
	char plugin_id[PLUGIN_ID_MAX + 1];

	memcpy(plugin_id, listing->plugin_id, sizeof(plugin_id));
	if (known)
		snapshot = *known;
	snapshot.plugin_id = plugin_id;
	snapshot.snapshot_id = external->snapshot_id;
	snapshot.external_source_id = external->external_source_id;
	snapshot.size_bytes = external->size_bytes;
	snapshot.ready = external->ready;
	if (external->create_time_ms > 0)
		snapshot.create_time_ms = external->create_time_ms;
	return add_copy(response, &snapshot);
}

static int compare_ids(const void *a, const void *b)
{
	const Holdfast__V1__Snapshot *const *left = a;
	const Holdfast__V1__Snapshot *const *right = b;

	return strcmp((*left)->snapshot_id, (*right)->snapshot_id);
}

/* The plugin's records, by the provider's ids. */
struct join {
	const Holdfast__V1__Snapshot **records; /* owned array */
	size_t n;
};

static void join_release(struct join *join)
{
	free(join->records);
}

static bool join_fill(struct state *state, const char *plugin_id, struct join *ret)
{
	struct record_entry *entry;
	size_t n = 0;

	for (entry = snapshots_first(state, plugin_id); entry; entry = snapshots_next(entry, plugin_id))
		n++;
	ret->records = calloc(n + 1, sizeof(Holdfast__V1__Snapshot *));
	if (!ret->records)
		return false;
	for (entry = snapshots_first(state, plugin_id); entry; entry = snapshots_next(entry, plugin_id))
		ret->records[ret->n++] = snapshots_of(entry);
	qsort(ret->records, ret->n, sizeof(Holdfast__V1__Snapshot *), compare_ids);
	return true;
}

static const Holdfast__V1__Snapshot *join_find(const struct join *join, char *snapshot_id)
{
	Holdfast__V1__Snapshot wanted = HOLDFAST__V1__SNAPSHOT__INIT;
	const Holdfast__V1__Snapshot *key = &wanted;
	const Holdfast__V1__Snapshot **found;

	wanted.snapshot_id = snapshot_id;
	found = bsearch(&key, join->records, join->n, sizeof(Holdfast__V1__Snapshot *), compare_ids);
	return found ? *found : NULL;
}

static bool join_all(struct server *server, const struct listing *listing,
		     const Holdfast__V1__ControllerListSnapshotsResponse *list,
		     Holdfast__V1__ListSnapshotsResponse *response)
{
	cleanup(join_release) struct join join = {.n = 0};
	struct identity_sight sight;

	identity_sight_init(server, listing->call, &sight);
	if (!join_fill(&server->state, listing->plugin_id, &join))
		return false;
	for (size_t i = 0; i < list->n_snapshots && response->n_snapshots < listing->max; i++) {
		Holdfast__V1__ExternalSnapshot *external = list->snapshots[i];
		const Holdfast__V1__Snapshot *known = join_find(&join, external->snapshot_id);

		if (!identity_sees_snapshot(&sight, known))
			continue;
		if (!add_external(response, listing, external, known))
			return false;
	}
	if (list->next_token[0] != '\0')
		return true;
	/* the last page: those that were asked for and are not known to be made */
	for (size_t i = 0; i < join.n && response->n_snapshots < listing->max; i++)
		if (join.records[i]->snapshot_id[0] == '\0' &&
		    access_scope_has(&sight.scope, join.records[i]->namespace_) &&
		    !add_copy(response, join.records[i]))
			return false;
	return true;
}

static void on_snapshots_listed(struct server *server, const Holdfast__V1__PluginReply *reply,
				const struct error *err, void *userdata)
{
	static const Holdfast__V1__ControllerListSnapshotsResponse none =
		HOLDFAST__V1__CONTROLLER_LIST_SNAPSHOTS_RESPONSE__INIT;
	const Holdfast__V1__ControllerListSnapshotsResponse *list =
		reply && reply->list_snapshots ? reply->list_snapshots : &none;
	cleanup_free struct listing *listing = userdata;
	Holdfast__V1__ListSnapshotsResponse *response;
	struct error why;

	if (err) {
		explain_token(err, &why);
		rpc_call_fail(listing->call, &why);
		return;
	}
	response = snapshots_response(listing->max);
	if (response && join_all(server, listing, list, response)) {
		response->next_token = strdup(list->next_token);
		if (response->next_token) {
			answer_durable(server, listing->call, &response->base);
			return;
		}
		response->next_token = (char *)(uintptr_t)protobuf_c_empty_string;
	}
	if (response)
		protobuf_c_message_free_unpacked(&response->base, NULL);
	answer_error(listing->call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
}

static enum status ask_for_snapshots(struct server *server, struct rpc_call *call,
				     const Holdfast__V1__ListSnapshotsRequest *request, size_t max,
				     struct error *err)
{
	Holdfast__V1__ControllerListSnapshotsRequest list =
		HOLDFAST__V1__CONTROLLER_LIST_SNAPSHOTS_REQUEST__INIT;
	Holdfast__V1__PluginCall pb = HOLDFAST__V1__PLUGIN_CALL__INIT;
	char sharer[NAMESPACE_MAX + 1];
	struct controller_call controller = {.plugin_id = request->plugin_id,
					     .namespace = sharer,
					     .call = &pb,
					     .done = on_snapshots_listed};
	struct listing *listing;

	TRY(volume_check_secrets(VOLUME_MAP(request->secrets), request->n_secrets, err));
	TRY(identity_check_parameters(server, call, request->plugin_id, NULL, PARAMETERS_SECRETS,
				      VOLUME_MAP(request->secrets), request->n_secrets, err));
	TRY(volume_check_ability(server, request->plugin_id, &VOLUME_CAN_LIST_SNAPSHOTS, err));
	TRY(listing_new(call, request->plugin_id, max, &listing, err));
	list.max_entries = (uint32_t)listing->max;
	list.starting_token = request->next_token;
	list.secrets = (void *)request->secrets;
	list.n_secrets = request->n_secrets;
	pb.request_case = HOLDFAST__V1__PLUGIN_CALL__REQUEST_LIST_SNAPSHOTS;
	pb.list_snapshots = &list;
	controller.userdata = listing;
	access_sharer(server, call, sharer);
	enum status status = controller_call(server, &controller, err);
	if (status != STATUS_OK)
		free(listing);
	return status;
}

/* "", or "PLUGIN/NAMESPACE/NAME" */
static bool is_own_token(const char *token)
{
	const char *slash = strchr(token, '/');

	return token[0] == '\0' || (slash && strchr(slash + 1, '/') && str_is_made_of(token, "._-/"));
}

/* The first record whose key is not below; NULL: all are. */
static struct record_entry *own_from(struct server *server, const char *key)
{
	struct record_entry *entry = records_from(&server->state.records, key);

	return entry && str_starts_with(entry->key, PREFIX_SNAPSHOT) ? entry : NULL;
}

/* The first record of another namespace, or plugin, behind @entry. */
static struct record_entry *skip_namespace(struct server *server, const struct record_entry *entry)
{
	const Holdfast__V1__Snapshot *snapshot = snapshots_of(entry);
	char key[OBJECT_KEY_SIZE];

	snapshots_key(snapshot->plugin_id, snapshot->namespace_, "\x7f", key);
	return own_from(server, key);
}

/* A token names only a snapshot that the caller may see. */
static bool fill_own(struct server *server, struct access_scope *scope, struct record_entry *entry,
		     size_t max, Holdfast__V1__ListSnapshotsResponse *response)
{
	while (entry) {
		if (!access_scope_has(scope, snapshots_of(entry)->namespace_)) {
			entry = skip_namespace(server, entry);
			continue;
		}
		if (response->n_snapshots == max) {
			response->next_token = strdup(entry->key + strlen(PREFIX_SNAPSHOT));
			if (response->next_token)
				return true;
			response->next_token = (char *)(uintptr_t)protobuf_c_empty_string;
			return false;
		}
		if (!add_copy(response, snapshots_of(entry)))
			return false;
		entry = snapshots_next(entry, NULL);
	}
	return true;
}

static enum status list_own(struct server *server, struct rpc_call *call,
			    const Holdfast__V1__ListSnapshotsRequest *request, size_t max, struct error *err)
{
	Holdfast__V1__ListSnapshotsResponse *response;
	struct access_scope scope;
	char from[OBJECT_KEY_SIZE];

	if (!is_own_token(request->next_token) ||
	    str_join(from, sizeof(from), PREFIX_SNAPSHOT, request->next_token) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "next_token: '%.64s' is not one that a list gave; begin without it",
				 request->next_token);
	TRY(access_scope_init(server, call, ACCESS_VOLUME_LIST, &scope, err));
	response = snapshots_response(max);
	if (response && fill_own(server, &scope, own_from(server, from), max, response)) {
		answer_durable(server, call, &response->base);
		return STATUS_OK;
	}
	if (response)
		protobuf_c_message_free_unpacked(&response->base, NULL);
	return error_no_memory(err, "external volumes");
}

static enum status list_snapshots(struct server *server, struct rpc_call *call,
				  const Holdfast__V1__ListSnapshotsRequest *request, struct error *err)
{
	size_t max;

	TRY(check_page(request->plugin_id, request->per_page, request->next_token, &max, err));
	return request->plugin_id[0] != '\0' ? ask_for_snapshots(server, call, request, max, err)
					     : list_own(server, call, request, max, err);
}

void snapshots_handle_list(struct rpc_call *call, const ProtobufCMessage *request, void *server)
{
	struct error err;

	if (list_snapshots(server, call, (const Holdfast__V1__ListSnapshotsRequest *)(const void *)request,
			   &err) != STATUS_OK)
		rpc_call_fail(call, &err);
}
