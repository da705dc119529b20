/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations.Run and Stop: what changes. */

#include "server.h"

#include "access/access.h"
#include "access/answer.h"
#include "access/audit.h"
#include "alloc/allocs.h"
#include "alloc/options.h"
#include "alloc/placement.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "claim/refusal.h"
#include "model/alloc_id.h"
#include "model/alloc_validate.h"
#include "model/node_loss.h"
#include "model/pb.h"
#include "node/nodes.h"
#include "node/session.h"
#include "rpc/server.h"
#include "state/change.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <stdlib.h>
#include <string.h>

#define WHAT_RUN "Allocations.Run"
#define WHAT_STOP "Allocations.Stop"

/* Answers with @response, whose member @slot is the allocation. */
static void answer_alloc(struct server *server, struct rpc_call *call, const ProtobufCMessage *response,
			 Holdfast__V1__Allocation **slot, const struct alloc *alloc)
{
	struct alloc shown = *alloc;
	struct error err;

	/* tasks have their environment: a caller who may only submit does not see them */
	if (access_check(server, call, ACCESS_JOB_READ, alloc->namespace, &err) != STATUS_OK)
		shown.tasks = NULL;
	*slot = allocs_view(server, &shown);
	if (*slot)
		rpc_call_reply(call, response);
	else
		answer_error(call, STATUS_RESOURCE_EXHAUSTED, "out of memory");
	holdfast__v1__allocation__free_unpacked(*slot, NULL);
}

static void answer_run(struct server *server, struct rpc_call *call, const struct alloc *alloc)
{
	Holdfast__V1__RunAllocationResponse response = HOLDFAST__V1__RUN_ALLOCATION_RESPONSE__INIT;

	answer_alloc(server, call, &response.base, &response.allocation, alloc);
}

/* The allocation that @waiting is about; NULL: it is gone, and the call is answered. */
static const struct alloc_entry *find_or_fail(struct server *server, const struct answer_waiting *waiting)
{
	const struct alloc_entry *entry = state_alloc(&server->state, waiting->id);

	if (!entry)
		answer_error(waiting->call, STATUS_ABORTED, "the allocation was collected in the meantime");
	return entry;
}

static void on_run_durable(struct server *server, void *userdata)
{
	cleanup_free struct answer_waiting *waiting = userdata;
	const struct alloc_entry *entry = find_or_fail(server, waiting);

	if (!entry)
		return;
	allocs_send(entry);
	answer_run(server, waiting->call, &entry->alloc);
}

static void audit_alloc(struct server *server, struct change *change, const struct rpc_call *call,
			const char *what, const struct alloc *alloc)
{
	char object[ALLOC_OBJECT_SIZE];

	audit_write(server, change, call, what, alloc_object(alloc, object), NULL);
}

/* Is @wanted the submission of this id before? If its node is open now, it was open then. */
static bool same_submission(const struct alloc *known, const struct alloc *wanted)
{
	const char *node_id = alloc_is_pending(known) ? alloc_wait_node(known) : known->node_id;
	bool same_node = wanted->node_id[0] == '\0' || str_eq(node_id, wanted->node_id);

	if (!same_node || !str_eq(known->namespace, wanted->namespace) ||
	    !str_eq(known->name, wanted->name) || !str_eq(known->driver, wanted->driver) ||
	    known->n_volumes != wanted->n_volumes)
		return false;
	if (!alloc_plugins_eq(known, wanted) || !str_eq(alloc_unit(known), alloc_unit(wanted)) ||
	    known->stop_timeout_ms != wanted->stop_timeout_ms ||
	    known->mount_timeout_ms != wanted->mount_timeout_ms ||
	    known->network.mode != wanted->network.mode || !message_list_eq(known->tasks, wanted->tasks) ||
	    !message_list_eq(known->constraints, wanted->constraints))
		return false;
	for (uint32_t i = 0; i < known->n_volumes; i++)
		if (!volume_request_eq(&known->volumes[i], &wanted->volumes[i]))
			return false;
	return true;
}

/* The server forgets allocations, and a node that lies may still have the mounts of one: its id must not
 * become another namespace's. */
static enum status check_id(const struct alloc *alloc, struct error *err)
{
	char mark[ALLOC_ID_MARK_SIZE];

	if (alloc->id[0] == '\0' || alloc_id_is_of(alloc->id, alloc->namespace))
		return STATUS_OK;
	alloc_id_mark(alloc->namespace, mark);
	return error_invalid(
		err, "id",
		"%s is not an id of namespace %s: these end in -%s; leave it out, and a new one is made",
		alloc->id, alloc->namespace, mark);
}

/* It would wait for itself. */
static enum status check_own_plugin(struct server *server, const struct alloc *alloc, struct error *err)
{
	for (uint32_t i = 0; i < alloc->n_volumes; i++) {
		const struct volume_request *request = &alloc->volumes[i];
		const struct volume_entry *volume =
			state_volume(&server->state, alloc->namespace, request->source);

		if (volume && alloc_find_plugin(alloc, volume->volume.plugin_id))
			return error_set(err, STATUS_INVALID_ARGUMENT, 0,
					 "volume %s contradicts csi_plugin: volume %s is of plugin %s, which "
					 "this allocation runs itself",
					 request->name, request->source, volume->volume.plugin_id);
	}
	return STATUS_OK;
}

/* Resets all fields that only the server and the node set. */
static void alloc_begin(struct alloc *alloc)
{
	alloc->desired_status = DESIRED_RUN;
	alloc->client_status = CLIENT_PENDING;
	alloc->create_time_ms = alloc->modify_time_ms = clock_realtime_ms();
	alloc->create_index = alloc->modify_index = 0;
	alloc->client_code = 0;
	alloc->running_time_ms = alloc->end_time_ms = 0;
	alloc->healthy_time_ms = alloc->unhealthy_time_ms = 0;
	alloc->wait_until_ms = alloc->place_time_ms = 0;
	alloc->queue_index = 0;
	alloc->keeps_place = alloc->lost_race = false;
	free(alloc->wait_node_id);
	alloc->wait_node_id = NULL;
	alloc->adopted = false;
	alloc->member_generation = 0;
	alloc->n_published = 0;
	message_list_unref(alloc->task_status);
	message_list_unref(alloc->events);
	alloc->task_status = alloc->events = NULL;
	free(alloc->client_description);
	alloc->client_description = NULL;
}

static enum status begin_new(struct server *server, struct alloc *alloc, struct error *err)
{
	int r = 0;

	if (alloc->id[0] == '\0')
		do
			r = alloc_id_new(alloc->namespace, alloc->id);
		while (r >= 0 && state_alloc(&server->state, alloc->id));
	if (r < 0)
		return error_set(err, STATUS_INTERNAL, r, "make an allocation id");
	alloc_begin(alloc);
	return STATUS_OK;
}

/* A replacement keeps the place of its predecessor in the queues, so it is not checked against them. */
enum status allocs_try_place(struct server *server, struct alloc *alloc,
			     const struct placement_assumed *assumed, struct refusal *refusal,
			     struct error *err)
{
	TRY(begin_new(server, alloc, err));
	if (!(assumed && assumed->without))
		TRY(pending_check(server, alloc, assumed, alloc->job_id[0] != '\0', err));
	return placement_choose_node(server, alloc, assumed, refusal, err);
}

enum status allocs_place(struct server *server, struct alloc *alloc, struct refusal *refusal,
			 struct error *err)
{
	return allocs_try_place(server, alloc, NULL, refusal, err);
}

/* The same; where a volume is taken it is pending instead. */
static enum status place_or_wait(struct server *server, struct alloc *alloc, uint32_t wait_ms,
				 struct refusal *refusal, struct error *err)
{
	TRY(begin_new(server, alloc, err));
	enum status status = pending_check(server, alloc, NULL, true, err);
	if (status == STATUS_OK)
		status = placement_choose_node(server, alloc, NULL, refusal, err);
	return status == STATUS_OK ? status : pending_enter(server, alloc, wait_ms, err);
}

static enum status submit(struct server *server, struct rpc_call *call, struct alloc *alloc,
			  const Holdfast__V1__AllocationOptions *options,
			  const Holdfast__V1__RunAllocationRequest *request, struct refusal *refusal,
			  struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;

	alloc->job_id[0] = alloc->job_group[0] = '\0';
	alloc->job_index = 0;
	alloc->job_version = alloc->job_content = 0;
	TRY(namespaces_check_room(&server->state.namespaces, alloc->namespace, true, err));
	TRY(request->wait_ms > 0 && !request->dry_run
		    ? place_or_wait(server, alloc, request->wait_ms, refusal, err)
		    : allocs_place(server, alloc, refusal, err));
	if (request->dry_run) {
		answer_run(server, call, alloc);
		return STATUS_OK;
	}
	alloc_options_stage(&change, alloc->id, options); /* first: they are charged with it */
	change_put_alloc(&change, alloc);
	audit_alloc(server, &change, call, WHAT_RUN, alloc);
	return change_commit_taking(server, &change, on_run_durable, answer_waiting_new(call, alloc->id),
				    err);
}

/* As for the same block of a volume: the fence ends the work of others on that node. */
enum status allocs_may_want_fence(struct server *server, const struct rpc_call *call, const char *namespace,
				  const Holdfast__V1__OnNodeLoss *loss, struct error *err)
{
	if (!node_loss_fences(loss) || access_check(server, call, ACCESS_VOLUME_WRITE,
						    namespace_or_default(namespace), err) == STATUS_OK)
		return STATUS_OK;
	return error_prefix(err, "on_node_loss with a fence needs the right to register volumes");
}

/* An allocation may use only volumes of its own namespace, so one right to mount is enough. A plugin gets
 * the volumes and secrets of any volume that names its id, in any namespace: running one needs a right of
 * its own. So does starting and stopping services of a node: they run as the user that their units name,
 * also root. */
enum status allocs_may_run(struct server *server, const struct rpc_call *call, const char *namespace,
			   const Holdfast__V1__Allocation *alloc, struct error *err)
{
	namespace = namespace_or_default(namespace);
	TRY(access_check(server, call, ACCESS_VOLUME_MOUNT, namespace, err));
	if (alloc && alloc->n_csi_plugins > 0)
		TRY(access_check(server, call, ACCESS_PLUGIN_REGISTER, namespace, err));
	if (alloc && (alloc->unit[0] != '\0' || str_eq(alloc->driver, DRIVER_SYSTEMD)))
		TRY(access_check(server, call, ACCESS_UNIT_RUN, namespace, err));
	return allocs_may_want_fence(server, call, namespace, alloc ? alloc->on_node_loss : NULL, err);
}

/* Parses and checks the allocation; to be released, also on failure. @ret_options NULL: no options; to be
 * freed */
static enum status parse_submission(struct server *server, const Holdfast__V1__Allocation *pb,
				    struct alloc *ret, Holdfast__V1__AllocationOptions **ret_options,
				    struct error *err)
{
	if (!pb)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "allocation: missing");
	TRY(alloc_from_pb(pb, ret, err));
	alloc_default(ret);
	TRY(alloc_validate(ret, err));
	TRY(check_id(ret, err));
	TRY(check_own_plugin(server, ret, err));
	return alloc_options_take(&server->state, pb, ret, ret_options, err);
}

static void options_freep(Holdfast__V1__AllocationOptions **options)
{
	holdfast__v1__allocation_options__free_unpacked(*options, NULL);
}

static enum status handle_run(struct server *server, struct rpc_call *call,
			      const Holdfast__V1__RunAllocationRequest *request, struct refusal *refusal,
			      struct error *err)
{
	cleanup(alloc_release) struct alloc alloc = {0};
	cleanup(options_freep) Holdfast__V1__AllocationOptions *options = NULL;
	cleanup(change_release) struct change nothing = CHANGE_INIT;
	const struct alloc_entry *known;

	TRY(allocs_may_run(server, call, request->allocation ? request->allocation->namespace_ : "",
			   request->allocation, err));
	TRY(parse_submission(server, request->allocation, &alloc, &options, err));
	known = state_alloc(&server->state, alloc.id);
	if (!known)
		return submit(server, call, &alloc, options, request, refusal, err);
	if (!same_submission(&known->alloc, &alloc) || !alloc_options_are(&server->state, known->id, options))
		return error_set(
			err, STATUS_ALREADY_EXISTS, 0,
			"allocation %s exists with another content; leave the id out, and a new one is "
			"made",
			alloc.id);
	return change_commit_taking(server, &nothing, on_run_durable, answer_waiting_new(call, alloc.id),
				    err);
}

void allocs_handle_run(struct rpc_call *call, const ProtobufCMessage *request, void *server)
{
	cleanup(refusal_release) struct refusal refusal = {.call = call};
	struct change_author author;
	enum status status;
	struct error err;

	answer_begin(server, call, &author);
	status =
		handle_run(server, call, (const Holdfast__V1__RunAllocationRequest *)request, &refusal, &err);
	change_end_author(server, &author);
	if (status != STATUS_OK)
		refusal_reply(&refusal, server, call, WHAT_RUN, &err);
}

static void on_stop_durable(struct server *server, void *userdata)
{
	Holdfast__V1__StopAllocationResponse response = HOLDFAST__V1__STOP_ALLOCATION_RESPONSE__INIT;
	cleanup_free struct answer_waiting *waiting = userdata;
	const struct alloc_entry *entry = find_or_fail(server, waiting);

	if (!entry)
		return;
	if (node_is_connected(entry->node) && !alloc_is_client_terminal(&entry->alloc))
		session_stop_alloc(entry->node->session, entry->alloc.id);
	response.node_disconnected_ms = allocs_disconnected_ms(server, entry);
	answer_alloc(server, waiting->call, &response.base, &response.allocation, &entry->alloc);
}

static enum status stop(struct server *server, struct rpc_call *call, const struct alloc_entry *entry,
			struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;

	allocs_stage_stop(&change, entry, entry->node);
	if (change.n > 0)
		audit_alloc(server, &change, call, WHAT_STOP, &entry->alloc);
	return change_commit_taking(server, &change, on_stop_durable,
				    answer_waiting_new(call, entry->alloc.id), err);
}

static enum status handle_stop(struct server *server, struct rpc_call *call,
			       const Holdfast__V1__StopAllocationRequest *request, struct error *err)
{
	struct alloc_entry *entry = state_alloc(&server->state, request->id);

	if (!entry)
		return access_no_alloc(request->id, err);
	if (request->pending_only && !alloc_is_pending(&entry->alloc))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "allocation %s is no longer pending; holdfast alloc stop %s stops it",
				 entry->id, entry->id);
	return stop(server, call, entry, err);
}

DEFINE_WRITE_METHOD(allocs_handle_stop, Holdfast__V1__StopAllocationRequest, WHAT_STOP, handle_stop)
