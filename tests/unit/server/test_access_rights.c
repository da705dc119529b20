/* SPDX-License-Identifier: Apache-2.0 */
/* What each word of a policy opens, right by right, without a network: the caller is made up. */

#include "server.h"
#include "unit.h"

#include "access/access.h"
#include "access/tokens.h"
#include "state/keys.h"

#include <openssl/sha.h>

static struct rpc_peer peer;
static const char *token;

WRAPPED(const struct rpc_peer *, rpc_call_peer, const struct rpc_call *call)
{
	return &peer;
}

WRAPPED(const char *, rpc_call_token, const struct rpc_call *call)
{
	return token;
}

static char *text(const char *s)
{
	return TEXT(s);
}

static void put(struct server *server, const char *key, const ProtobufCMessage *message)
{
	const struct record record = {.key = text(key), .message = (ProtobufCMessage *)(uintptr_t)message};

	assert_int_equal(records_put(&server->state.records, &record, NULL), STATUS_OK);
}

/* Token "secret" with the policy. */
static void put_token(struct server *server, const Holdfast__V1__AccessPolicy *policy)
{
	Holdfast__V1__Token fields = HOLDFAST__V1__TOKEN__INIT;
	Holdfast__V1__StoredToken stored = V1(stored_token, .token = &fields);
	uint8_t hash[SHA256_DIGEST_LENGTH];
	char *policies[] = {text("gone"), text("p")};

	(void)SHA256((const unsigned char *)"secret", 6, hash);
	fields.accessor = text("01890000-0000-7000-8000-000000000001");
	fields.name = text("t");
	fields.type = HOLDFAST__V1__TOKEN_TYPE__CLIENT;
	fields.policies = policies;
	fields.n_policies = 2;
	stored.secret_sha256 = (ProtobufCBinaryData){.len = sizeof(hash), .data = hash};
	put(server, PREFIX_TOKEN "01890000-0000-7000-8000-000000000001", &stored.base);
	put(server, PREFIX_POLICY "p", &policy->base);
}

UNIT_SETUP(setup, struct server, server)
{
	state_init(&server->state);
	server->config.acl = true;
	(void)str_copy(server->config.cluster, sizeof(server->config.cluster), "c1");
	peer = (struct rpc_peer){.kind = RPC_PEER_TLS};
	token = "secret";
}

UNIT_TEARDOWN(teardown, struct server, server)
{
	state_release(&server->state);
}

#define R(name) (1U << ACCESS_##name)

static uint32_t rights_in(struct server *server, const char *namespace)
{
	uint32_t given = 0;

	for (int right = ACCESS_NONE + 1; right < ACCESS_RIGHT_N; right++) {
		enum status status = access_check(server, NULL, (enum access_right)right, namespace, NULL);

		assert_true(status == STATUS_OK || status == STATUS_PERMISSION_DENIED);
		given |= status == STATUS_OK ? 1U << right : 0;
	}
	return given;
}

#define CASE(name) TEST_ON(name, struct server, server, setup, teardown)

CASE(each_capability_opens_its_rights_in_its_namespace)
{
	static const struct {
		const char *word;
		uint32_t rights;
	} cases[] = {
		{"csi-list-volume", R(VOLUME_LIST)},
		{"csi-read-volume", R(VOLUME_LIST) | R(VOLUME_READ)},
		{"csi-mount-volume", R(VOLUME_LIST) | R(VOLUME_READ) | R(VOLUME_MOUNT)},
		{"csi-write-volume", R(VOLUME_WRITE)},
		{"csi-register-plugin", R(PLUGIN_REGISTER)},
		{"alloc-run-unit", R(UNIT_RUN)},
		{"csi-attest-volume", R(VOLUME_ATTEST)},
		{"csi-adopt-volume", R(VOLUME_ADOPT)},
		{"list-jobs", R(VOLUME_LIST) | R(JOB_LIST)},
		{"read-job", R(VOLUME_READ) | R(JOB_READ)},
		{"submit-job", R(JOB_SUBMIT)},
		{"alloc-exec", R(ALLOC_EXEC)},
		{"read-logs", R(READ_LOGS)},
		{"deny", 0},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		Holdfast__V1__NamespaceRule rule = HOLDFAST__V1__NAMESPACE_RULE__INIT;
		Holdfast__V1__NamespaceRule *rules[] = {&rule};
		Holdfast__V1__AccessPolicy policy =
			V1(access_policy, .name = text("p"), .namespaces = rules, .n_namespaces = 1);
		char *words[] = {text(cases[i].word)};

		rule.namespace_ = text("a");
		rule.capabilities = words;
		rule.n_capabilities = 1;
		put_token(server, &policy);
		assert_int_equal(rights_in(server, "a"), cases[i].rights);
		assert_int_equal(rights_in(server, "b"), 0);
		assert_int_equal(rights_in(server, NULL), cases[i].rights); /* in some namespace */
	}
}

CASE(each_level_opens_its_rights_everywhere)
{
	static const struct {
		const char *plugin, *node, *operator, * backup;
		uint32_t rights;
	} cases[] = {
		{"", "", "", "", 0},
		{"list", "", "", "", R(PLUGIN_LIST)},
		{"read", "", "", "", R(PLUGIN_LIST) | R(PLUGIN_READ)},
		{"", "read", "", "", R(NODE_READ)},
		{"", "write", "", "", R(NODE_READ) | R(NODE_WRITE)},
		{"", "fence", "", "", R(NODE_READ) | R(NODE_WRITE) | R(NODE_FENCE)},
		{"", "", "read", "", R(OPERATOR_READ)},
		{"", "", "write", "", R(OPERATOR_READ) | R(OPERATOR_WRITE)},
		{"", "", "", "kit", R(BACKUP_KIT)},
		{"", "", "", "copy", R(BACKUP_KIT) | R(BACKUP_COPY)},
		{"read", "write", "write", "copy",
		 R(PLUGIN_LIST) | R(PLUGIN_READ) | R(NODE_READ) | R(NODE_WRITE) | R(OPERATOR_READ) |
			 R(OPERATOR_WRITE) | R(BACKUP_KIT) | R(BACKUP_COPY)}, /* never management */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		Holdfast__V1__AccessPolicy policy =
			V1(access_policy, .name = text("p"), .plugin = text(cases[i].plugin),
			   .node = text(cases[i].node), .operator_ = text(cases[i].operator),
			   .backup = text(cases[i].backup));

		put_token(server, &policy);
		assert_int_equal(rights_in(server, NULL), cases[i].rights);
		assert_int_equal(rights_in(server, "a"), cases[i].rights);
	}
}

CASE(a_bound_token_has_only_rights_that_are_of_a_node)
{
	Holdfast__V1__NamespaceRule rule = HOLDFAST__V1__NAMESPACE_RULE__INIT;
	Holdfast__V1__NamespaceRule *rules[] = {&rule};
	Holdfast__V1__AccessPolicy policy =
		V1(access_policy, .name = text("p"), .namespaces = rules, .n_namespaces = 1,
		   .plugin = text("read"), .node = text("fence"), .operator_ = text("write"),
		   .backup = text("copy"));
	char *words[] = {text("csi-register-plugin"), text("alloc-run-unit"), text("csi-attest-volume"),
			 text("csi-adopt-volume")};
	struct record_entry *entry;

	rule.namespace_ = text("*");
	rule.policy = text("write");
	rule.capabilities = words;
	rule.n_capabilities = ARRAY_SIZE(words);
	put_token(server, &policy);
	assert_int_equal(rights_in(server, "a"), R(MANAGEMENT) - 1 - R(NONE));
	entry = records_from(&server->state.records, PREFIX_TOKEN);
	((Holdfast__V1__StoredToken *)entry->record.message)->token->node = strdup("n1");
	assert_int_equal(rights_in(server, "a"), R(VOLUME_MOUNT) | R(VOLUME_WRITE) | R(JOB_LIST) |
							 R(JOB_READ) | R(JOB_SUBMIT) | R(PLUGIN_REGISTER) |
							 R(UNIT_RUN) | R(NODE_READ) | R(NODE_WRITE));
}

TEST_ON(a_scope_shows_the_namespaces_of_its_caller_alone, struct server, server, setup, teardown)
{
	Holdfast__V1__NamespaceRule all =
		V1(namespace_rule, .namespace_ = text("team-*"), .policy = text("read"));
	Holdfast__V1__NamespaceRule secret =
		V1(namespace_rule, .namespace_ = text("team-secret"), .policy = text("deny"));
	Holdfast__V1__NamespaceRule *rules[] = {&all, &secret};
	Holdfast__V1__AccessPolicy policy =
		V1(access_policy, .name = text("p"), .namespaces = rules, .n_namespaces = 2);
	struct access_scope scope;

	put_token(server, &policy);
	assert_int_equal(access_scope_init(server, NULL, ACCESS_VOLUME_WRITE, &scope, NULL),
			 STATUS_PERMISSION_DENIED);
	assert_int_equal(access_scope_init(server, NULL, ACCESS_VOLUME_LIST, &scope, NULL), STATUS_OK);
	for (int again = 0; again < 2; again++) {
		assert_true(access_scope_has(&scope, "team-a"));
		assert_true(access_scope_has(&scope, "team-a"));
		assert_false(access_scope_has(&scope, "team-secret"));
		assert_false(access_scope_has(&scope, "team-secret"));
		assert_false(access_scope_has(&scope, "default"));
		assert_false(access_scope_has(&scope, ""));
	}
	token = NULL;
	(void)str_copy(peer.uri, sizeof(peer.uri), "holdfast://c1/operator/ann");
	assert_int_equal(access_scope_init(server, NULL, ACCESS_VOLUME_LIST, &scope, NULL), STATUS_OK);
	assert_true(access_scope_has(&scope, "default"));
	assert_true(access_scope_has(&scope, "team-secret"));
}

TEST_ON(callers_are_named_without_their_secrets, struct server, server, setup, teardown)
{
	Holdfast__V1__AccessPolicy policy = HOLDFAST__V1__ACCESS_POLICY__INIT;
	static const struct {
		const char *uri, *token, *who;
	} cases[] = {
		{"", NULL, "anonymous"},
		{"holdfast://c1/operator/ann", NULL, "operator/ann"},
		{"holdfast://c1/node/n1", NULL, "node/n1"},
		{"holdfast://c2/node/n1", NULL, "holdfast://c2/node/n1"},
		{"", "secret", "token 01890000-0000-7000-8000-000000000001 (t)"},
		{"holdfast://c1/operator/ann", "secret",
		 "token 01890000-0000-7000-8000-000000000001 (t) of operator/ann"},
		{"holdfast://c1/operator/ann", "secret2", "refused token of operator/ann"},
		{"holdfast://c1/node/n1", "secret", "refused token of node/n1"},
	};

	policy.name = text("p");
	put_token(server, &policy);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char who[ACCESS_WHO_SIZE];

		(void)str_copy(peer.uri, sizeof(peer.uri), cases[i].uri);
		token = cases[i].token;
		assert_string_equal(access_who(server, NULL, who), cases[i].who);
	}
}
