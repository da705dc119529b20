/* SPDX-License-Identifier: Apache-2.0 */
#include "call/pick.h"

#include "base/str.h"
#include "base/strbuf.h"
#include "base/uuid.h"
#include "call/pages.h"

#include <errno.h>
#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/jobs.pb-c.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <holdfast/v1/plugins.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>
#include <string.h>

enum { LISTED_MAX = 10 };

static void list_candidate(struct strbuf *names, const struct candidate *candidate)
{
	strbuf_printf(names, "%s%s%s%s", names->len ? ", " : "",
		      candidate->namespace ? candidate->namespace : "", candidate->namespace ? "/" : "",
		      candidate->id);
}

static enum status ambiguous(const char *what, const char *given, bool exact,
			     const struct candidate *candidates, size_t n, size_t matches, struct error *err)
{
	cleanup_strbuf struct strbuf names = STRBUF_INIT(4096);
	size_t listed = 0;

	for (size_t i = 0; i < n && listed < LISTED_MAX; i++) {
		if (exact ? !str_eq(candidates[i].id, given) : !str_starts_with(candidates[i].id, given))
			continue;
		list_candidate(&names, &candidates[i]);
		listed++;
	}
	if (matches > listed)
		strbuf_printf(&names, " and %zu more", matches - listed);
	if (exact)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "more than one %s is called '%s', give --namespace: %s", what, given,
				 names.data ? names.data : "");
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "more than one %s begins with '%s', give more of it: %s", what, given,
			 names.data ? names.data : "");
}

enum status pick(const char *what, const char *given, const struct candidate *candidates, size_t n,
		 size_t *ret_index, struct error *err)
{
	size_t exact = 0;
	size_t matches = 0;
	size_t found = 0;

	if (given[0] == '\0')
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "the id of a %s is wanted, or its beginning, and not an empty text", what);
	for (size_t i = 0; i < n; i++) {
		bool is_exact = str_eq(candidates[i].id, given);

		if (!str_starts_with(candidates[i].id, given))
			continue;
		matches++;
		exact += is_exact;
		if (is_exact || exact == 0)
			found = i;
	}
	if (matches == 0)
		return error_set(err, STATUS_NOT_FOUND, 0, "no %s is called '%s' or begins with it", what,
				 given);
	if (exact > 1 || (exact == 0 && matches > 1))
		return ambiguous(what, given, exact > 1, candidates, n, exact > 1 ? exact : matches, err);
	*ret_index = found;
	return STATUS_OK;
}

/* Borrows @text for a request: protobuf-c's strings are not const, but only read. */
static char *borrow(const char *text)
{
	return (char *)(uintptr_t)text;
}

static enum status copy_id(const char *what, const char *id, char ret[static PICK_ID_SIZE], struct error *err)
{
	if (str_copy(ret, PICK_ID_SIZE, id) < 0)
		return error_set(err, STATUS_INTERNAL, ENAMETOOLONG, "the server's id of a %s", what);
	return STATUS_OK;
}

/* Find @given among what a List method has for @request, whose prefix is set already. @ret_answer owned by
 * the caller, holds @ret. */
static enum status pick_listed(struct connection *connection, const ProtobufCServiceDescriptor *service,
			       ProtobufCMessage *request, const char *what, const char *given,
			       bool with_namespace, ProtobufCMessage **ret_answer,
			       const ProtobufCMessage **ret, struct error *err)
{
	cleanup_message ProtobufCMessage *answer = NULL;
	cleanup_free struct candidate *candidates = NULL;
	ProtobufCMessage **items;
	size_t n;
	size_t i = 0;

	TRY(pages_fetch(connection, service, "List", request, 0, &answer, err));
	items = pages_items(answer, &n);
	candidates = calloc(n + 1, sizeof(*candidates));
	if (!candidates)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot find %s %s", what, given);
	for (size_t k = 0; k < n; k++)
		candidates[k] = (struct candidate){
			.id = message_text(items[k], "id"),
			.namespace = with_namespace ? message_text(items[k], "namespace") : NULL,
		};
	TRY(pick(what, given, candidates, n, &i, err));
	*ret = items[i];
	*ret_answer = TAKE_PTR(answer);
	return STATUS_OK;
}

/* Find @given in @namespace; @request has both. */
static enum status pick_in_namespace(struct connection *connection, const ProtobufCServiceDescriptor *service,
				     ProtobufCMessage *request, const char *what, const char *given,
				     const char *namespace, char ret_id[static PICK_ID_SIZE],
				     char ret_namespace[static PICK_ID_SIZE], struct error *err)
{
	cleanup_message ProtobufCMessage *answer = NULL;
	const ProtobufCMessage *found = NULL;
	bool is_any = namespace && str_eq(namespace, "*");
	enum status status =
		pick_listed(connection, service, request, what, given, is_any, &answer, &found, err);

	if (status == STATUS_NOT_FOUND && !is_any)
		return error_set(err, STATUS_NOT_FOUND, 0,
				 "no %s of namespace %s is called '%s' or begins with it; of all "
				 "namespaces: holdfast %s status --namespace '*'",
				 what, namespace ? namespace : "default", given, what);
	if (status == STATUS_PERMISSION_DENIED && !is_any) { /* who may not list gives the whole id */
		TRY(copy_id(what, namespace ? namespace : "default", ret_namespace, err));
		return copy_id(what, given, ret_id, err);
	}
	if (status == STATUS_OK)
		status = copy_id(what, message_text(found, "namespace"), ret_namespace, err);
	return status == STATUS_OK ? copy_id(what, message_text(found, "id"), ret_id, err) : status;
}

enum status pick_volume(struct connection *connection, const char *given, const char *namespace,
			char ret_id[static PICK_ID_SIZE], char ret_namespace[static PICK_ID_SIZE],
			struct error *err)
{
	Holdfast__V1__ListVolumesRequest request = HOLDFAST__V1__LIST_VOLUMES_REQUEST__INIT;

	request.prefix = borrow(given);
	request.namespace_ = borrow(namespace ? namespace : "");
	return pick_in_namespace(connection, &holdfast__v1__volumes__descriptor, &request.base, "volume",
				 given, namespace, ret_id, ret_namespace, err);
}

enum status pick_job(struct connection *connection, const char *given, const char *namespace,
		     char ret_id[static PICK_ID_SIZE], char ret_namespace[static PICK_ID_SIZE],
		     struct error *err)
{
	Holdfast__V1__ListJobsRequest request = HOLDFAST__V1__LIST_JOBS_REQUEST__INIT;

	request.prefix = borrow(given);
	request.namespace_ = borrow(namespace ? namespace : "");
	return pick_in_namespace(connection, &holdfast__v1__jobs__descriptor, &request.base, "job", given,
				 namespace, ret_id, ret_namespace, err);
}

enum status pick_alloc(struct connection *connection, const char *given, char ret_id[static PICK_ID_SIZE],
		       struct error *err)
{
	Holdfast__V1__ListAllocationsRequest request = HOLDFAST__V1__LIST_ALLOCATIONS_REQUEST__INIT;
	cleanup_message ProtobufCMessage *answer = NULL;
	const ProtobufCMessage *found = NULL;

	if (strlen(given) == UUID_SIZE - 1) /* a whole one, which needs no right to list */
		return copy_id("allocation", given, ret_id, err);
	request.prefix = borrow(given);
	TRY(pick_listed(connection, &holdfast__v1__allocations__descriptor, &request.base, "allocation",
			given, false, &answer, &found, err));
	return copy_id("allocation", message_text(found, "id"), ret_id, err);
}

enum status pick_node(struct connection *connection, const char *given, char ret_id[static PICK_ID_SIZE],
		      struct error *err)
{
	Holdfast__V1__ListNodesRequest request = HOLDFAST__V1__LIST_NODES_REQUEST__INIT;
	cleanup_message ProtobufCMessage *answer = NULL;
	const ProtobufCMessage *found = NULL;

	request.prefix = borrow(given);
	TRY(pick_listed(connection, &holdfast__v1__nodes__descriptor, &request.base, "node", given, false,
			&answer, &found, err));
	return copy_id("node", message_text(found, "id"), ret_id, err);
}

enum status pick_plugin(struct connection *connection, const char *given, char ret_id[static PICK_ID_SIZE],
			struct error *err)
{
	Holdfast__V1__ListPluginsRequest request = HOLDFAST__V1__LIST_PLUGINS_REQUEST__INIT;
	cleanup_message ProtobufCMessage *answer = NULL;
	const ProtobufCMessage *found = NULL;
	enum status status;

	request.prefix = borrow(given);
	status = pick_listed(connection, &holdfast__v1__plugins__descriptor, &request.base, "plugin", given,
			     false, &answer, &found, err);
	if (status == STATUS_NOT_FOUND)
		return error_set(
			err, STATUS_NOT_FOUND, 0,
			"no plugin is called '%s' or begins with it: the server knows a plugin once it "
			"was healthy on a node. On the node: holdfast agent status",
			given);
	return status == STATUS_OK ? copy_id("plugin", message_text(found, "id"), ret_id, err) : status;
}

/* @status is that of a search for @given. */
static enum status or_as_given(enum status status, const char *given, char ret_id[static PICK_ID_SIZE])
{
	if (status != STATUS_NOT_FOUND)
		return status;
	return str_copy(ret_id, PICK_ID_SIZE, given) < 0 ? status : STATUS_OK;
}

enum status pick_known_node(struct connection *connection, const char *given,
			    char ret_id[static PICK_ID_SIZE], struct error *err)
{
	return or_as_given(pick_node(connection, given, ret_id, err), given, ret_id);
}

enum status pick_known_plugin(struct connection *connection, const char *given,
			      char ret_id[static PICK_ID_SIZE], struct error *err)
{
	return or_as_given(pick_plugin(connection, given, ret_id, err), given, ret_id);
}
