/* SPDX-License-Identifier: Apache-2.0 */
#include "access/policies.h"

#include "server.h"

#include "access/access.h"
#include "access/answer.h"
#include "access/audit.h"
#include "access/record_list.h"
#include "access/tokens.h"
#include "base/cleanup.h"
#include "base/id.h"
#include "base/str.h"
#include "state/change.h"
#include "state/keys.h"
#include "state/records.h"

#include <holdfast/v1/operator.pb-c.h>
#include <stdlib.h>
#include <string.h>

typedef Holdfast__V1__AccessPolicy Policy;

static void policy_key(const char *name, char ret[static OBJECT_KEY_SIZE])
{
	(void)str_format(ret, OBJECT_KEY_SIZE, PREFIX_POLICY "%s", name);
}

static const Policy *policy_of(const struct record_entry *entry)
{
	return entry && str_starts_with(entry->key, PREFIX_POLICY) ? (const Policy *)entry->record.message
								   : NULL;
}

static Policy shown(const struct record_entry *entry)
{
	Policy policy = *policy_of(entry);

	policy.create_index = entry->record.create_index;
	policy.modify_index = entry->record.modify_index;
	return policy;
}

/* --- put --- */

struct put {
	struct rpc_call *call;
	char name[POLICY_NAME_MAX + 1];
};

static void on_put(struct server *server, void *userdata)
{
	cleanup_free struct put *put = userdata;
	Holdfast__V1__PutPolicyResponse response = HOLDFAST__V1__PUT_POLICY_RESPONSE__INIT;
	struct record_entry *entry;
	char key[OBJECT_KEY_SIZE];
	Policy policy;

	policy_key(put->name, key);
	entry = records_entry(&server->state.records, key);
	if (!entry) {
		answer_error(put->call, STATUS_ABORTED, "the policy was deleted meanwhile");
		return;
	}
	policy = shown(entry);
	response.policy = &policy;
	rpc_call_reply(put->call, &response.base);
}

/* Walks the policies, which this bounds. */
static enum status check_room(struct server *server, struct error *err)
{
	struct record_entry *entry = records_from(&server->state.records, PREFIX_POLICY);
	size_t n = 0;

	for (; policy_of(entry); entry = records_next(entry))
		n++;
	return n < POLICIES_MAX ? STATUS_OK
				: error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
					    "there are %d policies already; delete some: holdfast operator "
					    "policy delete",
					    POLICIES_MAX);
}

static enum status handle_put(struct server *server, struct rpc_call *call,
			      const Holdfast__V1__PutPolicyRequest *request, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	char object[AUDIT_OBJECT_SIZE];
	char key[OBJECT_KEY_SIZE];
	bool exists;
	struct put *put;
	Policy policy;
	enum status status = STATUS_OK;

	if (!request->policy)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "policy: missing");
	TRY(policy_validate(request->policy, err));
	policy_key(request->policy->name, key);
	exists = records_get(&server->state.records, key) != NULL;
	if (!exists)
		status = check_room(server, err);
	if (status != STATUS_OK)
		return status;
	policy = *request->policy;
	policy.create_index = policy.modify_index = 0; /* the store's */
	change_put_record(&change, key, &policy.base);
	(void)str_format(object, sizeof(object), "policy %s", policy.name);
	audit_write(server, &change, call, "Operator.PutPolicy", object, exists ? "changed" : "new");
	put = calloc(1, sizeof(*put));
	if (put) {
		put->call = call;
		(void)str_copy(put->name, sizeof(put->name), policy.name);
	}
	return change_commit_taking(server, &change, on_put, put, err);
}

DEFINE_WRITE_METHOD(policies_handle_put, Holdfast__V1__PutPolicyRequest, "Operator.PutPolicy", handle_put)

/* --- delete --- */

static enum status handle_delete(struct server *server, struct rpc_call *call,
				 const Holdfast__V1__DeletePolicyRequest *request, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	const Holdfast__V1__DeletePolicyResponse response = HOLDFAST__V1__DELETE_POLICY_RESPONSE__INIT;
	const Holdfast__V1__Token *user;
	char object[AUDIT_OBJECT_SIZE];
	char key[OBJECT_KEY_SIZE];

	if (!id_is_name(request->name, POLICY_NAME_MAX))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "name: '%.64s' is not a policy's name",
				 request->name);
	policy_key(request->name, key);
	if (!records_get(&server->state.records, key))
		return error_set(err, STATUS_NOT_FOUND, 0,
				 "there is no policy %s; see: holdfast operator policy list", request->name);
	/* a policy that denies would give something when it went */
	user = tokens_with_policy(server, request->name);
	if (user)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "policy %s is in use by token %s (%s); revoke it first (holdfast operator "
				 "token revoke), or put a policy of that name with other rules",
				 request->name, user->accessor, user->name);
	change_delete_record(&change, key);
	(void)str_format(object, sizeof(object), "policy %s", request->name);
	audit_write(server, &change, call, "Operator.DeletePolicy", object, NULL);
	return answer_changed(server, &change, call, message_copy(&response.base), err);
}

DEFINE_WRITE_METHOD(policies_handle_delete, Holdfast__V1__DeletePolicyRequest, "Operator.DeletePolicy",
		    handle_delete)

/* --- list --- */

static const struct record_list list = {.prefix = PREFIX_POLICY,
					.response = &holdfast__v1__list_policies_response__descriptor};
DEFINE_RECORD_LIST(policies_handle_list, list)
