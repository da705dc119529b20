/* SPDX-License-Identifier: Apache-2.0 */
#include "access/access.h"

#include "server.h"

#include "access/audit.h"
#include "access/caller.h"
#include "access/issuers.h"
#include "access/revocations.h"
#include "access/words.h"
#include "api/watch.h"
#include "base/id.h"
#include "base/join.h"
#include "base/names.h"
#include "base/str.h"
#include "lead/lead.h"
#include "model/pb.h"
#include "pb/reflect.h"
#include "state/change.h"
#include "state/keys.h"
#include "state/stall.h"

#include <assert.h>
#include <holdfast/v1/types.pb-c.h>
#include <string.h>

enum { WHAT_SIZE = 128 };

#define BIT(name) CAPABILITY_BIT(CAPABILITY_##name)

/* How policies give a right to a token. */
struct right_info {
	const char *name; /* for people */
	uint32_t any_of;  /* CAPABILITY_BITs; 0: not of a namespace */
	enum policy_level (*level)(const Holdfast__V1__AccessPolicy *const *policies, size_t n);
	enum policy_level least;
	bool is_of_node; /* good for something that is of one node: a token bound to one can have it */
};

static const struct right_info rights[ACCESS_RIGHT_N] = {
	[ACCESS_VOLUME_LIST] = {.name = "csi-list-volume",
				.any_of = BIT(LIST_VOLUME) | BIT(READ_VOLUME) | BIT(MOUNT_VOLUME) |
					  BIT(LIST_JOBS)},
	[ACCESS_VOLUME_READ] = {.name = "csi-read-volume",
				.any_of = BIT(READ_VOLUME) | BIT(MOUNT_VOLUME) | BIT(READ_JOB)},
	[ACCESS_VOLUME_MOUNT] = {.name = "csi-mount-volume", .any_of = BIT(MOUNT_VOLUME), .is_of_node = true},
	[ACCESS_VOLUME_WRITE] = {.name = "csi-write-volume", .any_of = BIT(WRITE_VOLUME), .is_of_node = true},
	[ACCESS_JOB_LIST] = {.name = "list-jobs", .any_of = BIT(LIST_JOBS), .is_of_node = true},
	[ACCESS_JOB_READ] = {.name = "read-job", .any_of = BIT(READ_JOB), .is_of_node = true},
	[ACCESS_JOB_SUBMIT] = {.name = "submit-job", .any_of = BIT(SUBMIT_JOB), .is_of_node = true},
	[ACCESS_ALLOC_EXEC] = {.name = "alloc-exec", .any_of = BIT(ALLOC_EXEC)},
	[ACCESS_READ_LOGS] = {.name = "read-logs", .any_of = BIT(READ_LOGS)},
	[ACCESS_PLUGIN_REGISTER] = {.name = "csi-register-plugin",
				    .any_of = BIT(REGISTER_PLUGIN),
				    .is_of_node = true},
	[ACCESS_UNIT_RUN] = {.name = "alloc-run-unit", .any_of = BIT(RUN_UNIT), .is_of_node = true},
	[ACCESS_VOLUME_ATTEST] = {.name = "csi-attest-volume", .any_of = BIT(ATTEST_VOLUME)},
	[ACCESS_VOLUME_ADOPT] = {.name = "csi-adopt-volume", .any_of = BIT(ADOPT_VOLUME)},
	[ACCESS_PLUGIN_LIST] = {.name = "plugin list", .level = policy_plugin_level, .least = POLICY_LIST},
	[ACCESS_PLUGIN_READ] = {.name = "plugin read", .level = policy_plugin_level, .least = POLICY_READ},
	[ACCESS_NODE_READ] = {.name = "node read",
			      .level = policy_node_level,
			      .least = POLICY_READ,
			      .is_of_node = true},
	[ACCESS_NODE_WRITE] = {.name = "node write",
			       .level = policy_node_level,
			       .least = POLICY_WRITE,
			       .is_of_node = true},
	[ACCESS_NODE_FENCE] = {.name = "node fence", .level = policy_node_level, .least = POLICY_FENCE},
	[ACCESS_OPERATOR_READ] = {.name = "operator read",
				  .level = policy_operator_level,
				  .least = POLICY_READ},
	[ACCESS_OPERATOR_WRITE] = {.name = "operator write",
				   .level = policy_operator_level,
				   .least = POLICY_WRITE},
	[ACCESS_BACKUP_KIT] = {.name = "backup kit", .level = policy_backup_level, .least = POLICY_READ},
	[ACCESS_BACKUP_COPY] = {.name = "backup copy", .level = policy_backup_level, .least = POLICY_WRITE},
	[ACCESS_MANAGEMENT] = {.name = "management"}, /* no policy gives it */
};

/* --- may it --- */

/* Without a token the certificate decides: operators may do everything, others nothing here. */
static enum status check_certificate(const struct server *server, const struct rpc_call *call,
				     struct error *err)
{
	const struct config *config = &server->config;

	if (rpc_call_peer(call)->uri[0] == '\0' && !config->dev && config->acl)
		return error_set(err, STATUS_UNAUTHENTICATED, 0,
				 "this call needs a token (--token-file) or an operator's certificate "
				 "(--cert and --key)");
	return access_operator(rpc_call_peer(call), config->cluster, config->dev, NULL, err);
}

static void collect_policies(struct server *server, const Holdfast__V1__Token *token,
			     struct access_scope *scope)
{
	char key[OBJECT_KEY_SIZE];

	for (size_t i = 0; i < token->n_policies && i < TOKEN_POLICIES_MAX; i++)
		if (str_format(key, sizeof(key), PREFIX_POLICY "%s", token->policies[i]) >= 0)
			scope->policies[scope->n_policies++] = records_get(&server->state.records, key);
}

static bool is_given(const struct access_scope *scope, const char *namespace)
{
	const struct right_info *right = &rights[scope->right];

	if (scope->is_all)
		return true;
	if (scope->is_bound && !right->is_of_node)
		return false;
	if (right->any_of && scope->namespace) {
		if (namespace && !str_eq(namespace, scope->namespace))
			return false;
		namespace = scope->namespace;
	}
	if (right->any_of)
		return (policy_capabilities(scope->policies, scope->n_policies, namespace) & right->any_of) !=
		       0;
	return right->level && right->level(scope->policies, scope->n_policies) >= right->least;
}

static enum status find_scope(struct server *server, const struct rpc_call *call, enum access_right right,
			      struct access_scope *ret, struct caller *ret_caller, struct error *err)
{
	enum status status;

	assert(right > ACCESS_NONE && right < ACCESS_RIGHT_N);
	status = access_caller(server, call, ret_caller, err);
	*ret = (struct access_scope){.right = right};
	if (status != STATUS_OK)
		return status;
	if (!ret_caller->token) {
		ret->is_all = true;
		return check_certificate(server, call, err);
	}
	ret->is_bound = ret_caller->token->token->node[0] != '\0';
	ret->is_all =
		ret_caller->token->token->type == HOLDFAST__V1__TOKEN_TYPE__MANAGEMENT && !ret->is_bound;
	if (ret_caller->token->token->namespace_[0] != '\0')
		ret->namespace = ret_caller->token->token->namespace_;
	if (!ret->is_all)
		collect_policies(server, ret_caller->token->token, ret);
	return STATUS_OK;
}

static enum status deny(const struct caller *caller, enum access_right right, const char *namespace,
			struct error *err)
{
	const Holdfast__V1__Token *token;

	assert(caller->token); /* a caller without a token is refused by check_certificate() */
	token = caller->token->token;
	if (right == ACCESS_MANAGEMENT)
		return error_set(err, STATUS_PERMISSION_DENIED, 0,
				 "token %s (%s) may not make this call: it needs a management token or an "
				 "operator's certificate",
				 token->accessor, token->name);
	if (token->node[0] != '\0' && !rights[right].is_of_node)
		return error_set(
			err, STATUS_PERMISSION_DENIED, 0,
			"token %s (%s) may not make this call: it is bound to node %s, and '%s' is of "
			"no one node; use a token without a node",
			token->accessor, token->name, token->node, rights[right].name);
	if (rights[right].any_of && token->namespace_[0] != '\0' && namespace &&
	    !str_eq(namespace, token->namespace_))
		return error_set(
			err, STATUS_PERMISSION_DENIED, 0,
			"token %s (%s) is bound to namespace %s, and this call is about namespace %s; use "
			"a token of that namespace",
			token->accessor, token->name, token->namespace_, namespace);
	if (!rights[right].any_of)
		return error_set(err, STATUS_PERMISSION_DENIED, 0,
				 "token %s (%s) lacks the right '%s'; an operator gives it in a policy: "
				 "holdfast operator policy put NAME FILE",
				 token->accessor, token->name, rights[right].name);
	return error_set(err, STATUS_PERMISSION_DENIED, 0,
			 "token %s (%s) lacks the capability '%s' in %s%s; an operator gives it in a policy: "
			 "holdfast operator policy put NAME FILE",
			 token->accessor, token->name, rights[right].name,
			 namespace ? "namespace " : "every namespace", namespace ? namespace : "");
}

enum status access_check(struct server *server, const struct rpc_call *call, enum access_right right,
			 const char *namespace, struct error *err)
{
	struct access_scope scope;
	struct caller caller;

	TRY(find_scope(server, call, right, &scope, &caller, err));
	return is_given(&scope, namespace) ? STATUS_OK : deny(&caller, right, namespace, err);
}

enum status access_no_alloc(const char *id, struct error *err)
{
	return error_set(err, STATUS_NOT_FOUND, 0,
			 "there is no allocation %.64s; holdfast alloc status lists them", id);
}

enum status access_check_alloc(struct server *server, const struct rpc_call *call, enum access_right right,
			       const char *id, struct error *err)
{
	const struct alloc_entry *alloc = state_alloc(&server->state, id);
	enum status status;

	if (alloc && access_check(server, call, right, alloc->alloc.namespace, NULL) == STATUS_OK)
		return STATUS_OK;
	status = access_check(server, call, right, NULL, err);
	return alloc && status == STATUS_OK ? access_no_alloc(id, err) : status;
}

enum status access_scope_init(struct server *server, const struct rpc_call *call, enum access_right right,
			      struct access_scope *ret, struct error *err)
{
	struct access_scope scope;
	struct caller caller;

	TRY(find_scope(server, call, right, &scope, &caller, err));
	if (!is_given(&scope, NULL))
		return deny(&caller, right, NULL, err);
	*ret = scope;
	return STATUS_OK;
}

bool access_scope_has(struct access_scope *scope, const char *namespace)
{
	if (scope->is_all)
		return true;
	if (!str_eq(scope->last, namespace)) {
		scope->last_may = is_given(scope, namespace);
		(void)str_copy(scope->last, sizeof(scope->last), namespace); /* too long: not cached */
	}
	return scope->last_may;
}

/* --- before a method runs --- */

static const ProtobufCFieldDescriptor *field_of(const ProtobufCMessage *message, const char *name)
{
	const ProtobufCFieldDescriptor *field;

	assert(message);
	field = protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);
	assert(field); /* rules name fields of their requests */
	return field;
}

/* A text of @message; @path is of at most two names. */
static const char *text_of(const ProtobufCMessage *message, const char *path)
{
	char name[64];
	size_t n = strcspn(path, ".");
	const ProtobufCFieldDescriptor *field;

	assert(n < sizeof(name));
	memcpy(name, path, n);
	name[n] = '\0';
	field = field_of(message, name);
	if (path[n] == '\0') {
		assert(field->type == PROTOBUF_C_TYPE_STRING && !reflect_is_list(field));
		return reflect_text(reflect_at(message, field));
	}
	message = reflect_message(reflect_at(message, field));
	return message ? text_of(message, path + n + 1) : "";
}

static bool attests(const struct rpc_rule *rule, const ProtobufCMessage *request)
{
	for (size_t i = 0; i < RULE_ATTEST_FIELDS_MAX && rule->attest_fields[i]; i++)
		if (text_of(request, rule->attest_fields[i])[0] != '\0')
			return true;
	return rule->attests;
}

/* Checks the right to attest, in each namespace that the request is about. A request without a namespace
 * is about all: it needs a rule for "*", the only one that fits that name. */
static enum status check_attest(struct server *server, const struct rpc_call *call,
				const struct rpc_rule *rule, const ProtobufCMessage *request,
				struct error *err)
{
	const char *path = rule->namespaces;
	const ProtobufCFieldDescriptor *field = path ? field_of(request, path) : NULL;
	struct reflect_values refs;
	enum status status = STATUS_OK;

	if (!field)
		return access_check(server, call, ACCESS_VOLUME_ATTEST, "*", err);
	if (!reflect_is_list(field))
		return access_check(server, call, ACCESS_VOLUME_ATTEST,
				    namespace_or_default(text_of(request, path)), err);
	assert(field->descriptor == &holdfast__v1__volume_ref__descriptor);
	refs = reflect_values(request, field);
	for (size_t i = 0; i < refs.n && status == STATUS_OK; i++) {
		const Holdfast__V1__VolumeRef *ref =
			(const Holdfast__V1__VolumeRef *)reflect_message(reflect_value(&refs, i));

		status = access_check(server, call, ACCESS_VOLUME_ATTEST,
				      namespace_or_default(ref->namespace_), err);
	}
	return status;
}

/* Is the request about @node, which a token is bound to? An unknown allocation has no node; the handler
 * reports that. */
static bool is_about_node(struct server *server, const struct rpc_rule *rule, const ProtobufCMessage *request,
			  const char *node)
{
	const struct alloc_entry *alloc;
	const char *named;

	if (rule->node == RULE_NODE_ANY)
		return true;
	if (rule->node == RULE_NODE_NONE || !request)
		return false;
	named = text_of(request, rule->field);
	if (rule->node == RULE_NODE_FILTER && named[0] == '\0')
		return true;
	if (rule->node != RULE_NODE_ALLOC)
		return str_eq(named, node);
	alloc = state_alloc(&server->state, named);
	return !alloc || str_eq(alloc->alloc.node_id, node) ||
	       (alloc->alloc.node_id[0] == '\0' && str_eq(alloc_wait_node(&alloc->alloc), node));
}

/* Checks that the caller has a valid token, or may do everything without one. */
static enum status check_identity(struct server *server, const struct rpc_call *call, struct error *err)
{
	struct caller caller;
	enum status status = access_caller(server, call, &caller, err);

	return status != STATUS_OK || caller.token ? status : check_certificate(server, call, err);
}

/* In which namespace the rule's right is wanted; NULL: in any. */
static const char *namespace_of(const struct rpc_rule *rule, const ProtobufCMessage *request)
{
	const char *name;

	if (!rights[rule->right].any_of || !rule->namespaces)
		return NULL;
	name = text_of(request, rule->namespaces);
	if ((rule->any != RULE_ANY_NEVER && str_eq(name, "*")) ||
	    (rule->any == RULE_ANY_STAR_OR_EMPTY && name[0] == '\0'))
		return NULL;
	return namespace_or_default(name);
}

static enum status check_right(struct server *server, const struct rpc_call *call,
			       const struct rpc_rule *rule, const ProtobufCMessage *request,
			       struct error *err)
{
	if (rule->right == ACCESS_NONE)
		return error_set(err, STATUS_PERMISSION_DENIED, 0,
				 "this method is closed: no right opens it");
	if (rule->right == ACCESS_BY_HANDLER || rule->right == ACCESS_BY_TOKEN_OF_REQUEST)
		return STATUS_OK;
	if (rule->right == ACCESS_IDENTITY)
		return check_identity(server, call, err);
	if (rule->node == RULE_NODE_ALLOC)
		return access_check_alloc(server, call, rule->right, text_of(request, rule->field), err);
	return access_check(server, call, rule->right, namespace_of(rule, request), err);
}

static enum status check_node(struct server *server, const struct rpc_call *call, const struct rpc_rule *rule,
			      const ProtobufCMessage *request, struct error *err)
{
	const char *node = access_bound_node(server, call);

	if (!node || is_about_node(server, rule, request, node))
		return STATUS_OK;
	if (rule->node == RULE_NODE_NONE)
		return error_set(err, STATUS_PERMISSION_DENIED, 0,
				 "this token is bound to node %s, and this call is about no one node; use a "
				 "token without a node",
				 node);
	return error_set(err, STATUS_PERMISSION_DENIED, 0,
			 "this token is bound to node %s, and this call is not only about that node (%s); "
			 "name it, or use a token without a node",
			 node, rule->field);
}

/* Tokens are in the store: only a certificate counts. */
static bool may_do_without_leader(const struct server *server, const struct rpc_call *call,
				  const struct rpc_rule *rule)
{
	struct lead_view view;

	lead_view(server->lead, &view);
	return rule->without_leader && !view.is_known && !rpc_call_token(call) &&
	       check_certificate(server, call, NULL) == STATUS_OK;
}

/* Refusals quote requests: those of nodes and strangers must not look like advice. People's texts stay. */
static void take_words(const struct server *server, const struct rpc_call *call, const struct rpc_rule *rule,
		       const ProtobufCMessage *request)
{
	struct identity who;

	if (rule->right == ACCESS_BY_TOKEN_OF_REQUEST ||
	    access_node(rpc_call_peer(call), server->config.cluster, &who, NULL) == STATUS_OK)
		words_take(request);
}

static enum status check_rule(struct server *server, const struct rpc_call *call, const struct rpc_rule *rule,
			      const ProtobufCMessage *request, struct error *err)
{
	if (request && attests(rule, request))
		TRY(check_attest(server, call, rule, request, err));
	TRY(check_right(server, call, rule, request,
			err)); /* before the node of an allocation is looked up */
	if (rule->also != ACCESS_NONE)
		TRY(access_check(server, call, rule->also, NULL, err));
	return check_node(server, call, rule, request, err);
}

enum status access_check_open(struct server *server, const struct rpc_call *call, struct error *err)
{
	const struct rpc_method *method = rpc_call_row(call);
	const struct rpc_rule *rule = method ? method->rule : NULL;

	if (!rule || !rpc_call_data(call))
		return STATUS_OK;
	if (rule->check_open)
		return rule->check_open(server, call, err);
	return method->stream ? STATUS_OK : check_rule(server, call, rule, read_request(call), err);
}

/* Bounds what callers have in the store's queue: the other half is for nodes and for the server's own
 * changes. Reads wait there too, without bytes. */
static enum status check_pending(struct server *server, const struct rpc_call *call, bool is_write,
				 struct error *err)
{
	enum { SHARE = 8, ALL = 2 };
	struct authors *authors = &server->authors;
	struct change_author author;
	struct peer_count *mine;
	size_t n, bytes;

	if (RB_EMPTY(&authors->waiting))
		return STATUS_OK;
	access_author(server, call, &author);
	mine = peer_count_find(&authors->waiting, author.name);
	n = mine ? peer_count_number(mine) : 0;
	bytes = is_write && mine ? *peer_count_bytes(mine) : 0;
	if (n >= KV_PENDING_MAX / SHARE || bytes >= KV_PENDING_BYTES_MAX / SHARE)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "%zu changes and reads of %s (%zu bytes of changes) wait for the store, "
				 "where a caller has room for %d, or %d bytes: nothing was changed. Ask "
				 "again in some seconds, with fewer calls at once",
				 n, author.name, mine ? *peer_count_bytes(mine) : 0, KV_PENDING_MAX / SHARE,
				 KV_PENDING_BYTES_MAX / SHARE);
	n = author.is_person ? authors->n : 0;
	bytes = author.is_person && is_write ? authors->bytes : 0;
	if (n >= KV_PENDING_MAX / ALL || bytes >= KV_PENDING_BYTES_MAX / ALL)
		return error_set(
			err, STATUS_RESOURCE_EXHAUSTED, 0,
			"%zu changes and reads of all callers (%zu bytes of changes) wait for the "
			"store, where they have room for %d, or %d bytes: nothing was changed. Ask "
			"again in some seconds; if it stays so, the store is slow: holdfast operator "
			"status",
			n, authors->bytes, KV_PENDING_MAX / ALL, KV_PENDING_BYTES_MAX / ALL);
	return STATUS_OK;
}

enum status access_gate(struct rpc_call *call, const char *service, const struct rpc_method *method,
			const ProtobufCMessage *request, void *userdata, struct error *err)
{
	const struct rpc_rule *rule = method->rule;
	struct server *server = userdata;
	char what[WHAT_SIZE];
	enum status status;

	assert(rule);
	(void)str_format(what, sizeof(what), "%s.%s", service, method->name);
	status = revocation_check_call(server, call, err);
	if (status != STATUS_OK) {
		if (rule->is_write && server->is_serving)
			audit_refused(server, call, what, NULL, err);
		return status;
	}
	issuers_note(server->issuers, server->config.cluster, rpc_call_peer(call));
	status = lead_check(server->lead, err);
	if (status != STATUS_OK && may_do_without_leader(server, call, rule))
		return STATUS_OK;
	if (status != STATUS_OK || !server->is_serving)
		return status == STATUS_OK
			       ? error_set(err, STATUS_UNAVAILABLE, 0,
					   "the server does not have its store open yet; ask again")
			       : status;
	if (rule->is_write)
		TRY(stall_check(server, err));
	if (request)
		take_words(server, call, rule, request);
	status = check_rule(server, call, rule, request, err);
	if (status == STATUS_OK && (request || rule->is_write)) /* other streams take no place there */
		status = check_pending(server, call, rule->is_write, err);
	if (status != STATUS_OK && rule->is_write)
		audit_refused(server, call, what, NULL, err);
	return status;
}

enum status access_vouching(const struct rpc_peer *peer, void *userdata, struct error *err)
{
	struct server *server = userdata;
	struct identity identity;

	TRY(identity_parse(peer->uri, server->config.cluster, &identity, err));
	TRY(revocation_check(server, peer, err));
	TRY(issuers_check(server->issuers, peer, err));
	if (identity.role != ROLE_SERVER || !server->lead)
		return error_set(err, STATUS_PERMISSION_DENIED, 0, "%s may not make calls for others: %s",
				 peer->uri,
				 server->lead ? "it is not a server" : "this server is the only one");
	issuers_note(server->issuers, server->config.cluster, peer);
	return access_check_end(peer, err);
}

bool access_is_write(const struct rpc_method *method)
{
	return method->rule->is_write;
}
