#include "pick.h"

#include "base/str.h"
#include "base/strbuf.h"

#include <errno.h>
#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>

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

/* Borrows @given for the request: protobuf-c's strings are not const, but only read. */
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

enum status pick_volume(struct connection *connection, const char *given, const char *namespace,
			char ret_id[static PICK_ID_SIZE], char ret_namespace[static PICK_ID_SIZE],
			struct error *err)
{
	Holdfast__V1__ListVolumesRequest request = HOLDFAST__V1__LIST_VOLUMES_REQUEST__INIT;
	cleanup_message Holdfast__V1__ListVolumesResponse *answer = NULL;
	cleanup_free struct candidate *candidates = NULL;
	bool is_every = namespace && str_eq(namespace, "*");
	enum status status;
	size_t i = 0;

	request.prefix = borrow(given);
	request.namespace_ = borrow(namespace ? namespace : "");
	status = connection_call(connection, &holdfast__v1__volumes__descriptor, "List", &request.base,
				 CALL_TIMEOUT_US, (ProtobufCMessage **)(void *)&answer, err);
	if (status != STATUS_OK)
		return status;
	candidates = calloc(answer->n_volumes + 1, sizeof(*candidates));
	if (!candidates)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "find volume %s", given);
	for (size_t k = 0; k < answer->n_volumes; k++)
		candidates[k] = (struct candidate){
			.id = answer->volumes[k]->id,
			.namespace = is_every ? answer->volumes[k]->namespace_ : NULL,
		};
	status = pick("volume", given, candidates, answer->n_volumes, &i, err);
	if (status == STATUS_OK)
		status = copy_id("volume", answer->volumes[i]->namespace_, ret_namespace, err);
	return status == STATUS_OK ? copy_id("volume", answer->volumes[i]->id, ret_id, err) : status;
}

enum status pick_alloc(struct connection *connection, const char *given, char ret_id[static PICK_ID_SIZE],
		       struct error *err)
{
	Holdfast__V1__ListAllocationsRequest request = HOLDFAST__V1__LIST_ALLOCATIONS_REQUEST__INIT;
	cleanup_message Holdfast__V1__ListAllocationsResponse *answer = NULL;
	cleanup_free struct candidate *candidates = NULL;
	enum status status;
	size_t i = 0;

	request.prefix = borrow(given);
	status = connection_call(connection, &holdfast__v1__allocations__descriptor, "List", &request.base,
				 CALL_TIMEOUT_US, (ProtobufCMessage **)(void *)&answer, err);
	if (status != STATUS_OK)
		return status;
	candidates = calloc(answer->n_allocations + 1, sizeof(*candidates));
	if (!candidates)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "find allocation %s", given);
	for (size_t k = 0; k < answer->n_allocations; k++)
		candidates[k] = (struct candidate){.id = answer->allocations[k]->id};
	status = pick("allocation", given, candidates, answer->n_allocations, &i, err);
	return status == STATUS_OK ? copy_id("allocation", answer->allocations[i]->id, ret_id, err) : status;
}

enum status pick_node(struct connection *connection, const char *given, char ret_id[static PICK_ID_SIZE],
		      struct error *err)
{
	Holdfast__V1__ListNodesRequest request = HOLDFAST__V1__LIST_NODES_REQUEST__INIT;
	cleanup_message Holdfast__V1__ListNodesResponse *answer = NULL;
	cleanup_free struct candidate *candidates = NULL;
	enum status status;
	size_t i = 0;

	request.prefix = borrow(given);
	status = connection_call(connection, &holdfast__v1__nodes__descriptor, "List", &request.base,
				 CALL_TIMEOUT_US, (ProtobufCMessage **)(void *)&answer, err);
	if (status != STATUS_OK)
		return status;
	candidates = calloc(answer->n_nodes + 1, sizeof(*candidates));
	if (!candidates)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "find node %s", given);
	for (size_t k = 0; k < answer->n_nodes; k++)
		candidates[k] = (struct candidate){.id = answer->nodes[k]->id};
	status = pick("node", given, candidates, answer->n_nodes, &i, err);
	return status == STATUS_OK ? copy_id("node", answer->nodes[i]->id, ret_id, err) : status;
}
