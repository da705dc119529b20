/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "access/access.h"
#include "access/local_operators.h"

TEST(identities_are_read_whole_or_not_at_all)
{
	static const struct {
		const char *uri;
		enum status status;
		enum role role;
	} cases[] = {
		{"holdfast://c1/node/n1", STATUS_OK, ROLE_NODE},
		{"holdfast://c1/operator/ann", STATUS_OK, ROLE_OPERATOR},
		{"holdfast://c1/server/s1", STATUS_OK, ROLE_SERVER},
		{"", STATUS_UNAUTHENTICATED, ROLE_NONE},
		{"holdfast://c2/node/n1", STATUS_UNAUTHENTICATED, ROLE_NONE},
		{"holdfast://c1x/node/n1", STATUS_UNAUTHENTICATED, ROLE_NONE},
		{"holdfast://c/node/n1", STATUS_UNAUTHENTICATED, ROLE_NONE},
		{"holdfast://c1/admin/n1", STATUS_UNAUTHENTICATED, ROLE_NONE},
		{"holdfast://c1/nod/n1", STATUS_UNAUTHENTICATED, ROLE_NONE},
		{"holdfast://c1/node/", STATUS_UNAUTHENTICATED, ROLE_NONE},
		{"holdfast://c1/node", STATUS_UNAUTHENTICATED, ROLE_NONE},
		{"holdfast://c1//n1", STATUS_UNAUTHENTICATED, ROLE_NONE},
		{"holdfast://c1/node/n1/", STATUS_UNAUTHENTICATED, ROLE_NONE},
		{"holdfast://c1/node/n1/x", STATUS_UNAUTHENTICATED, ROLE_NONE},
		{"holdfast://c1/node/../operator/ann", STATUS_UNAUTHENTICATED, ROLE_NONE},
		{"holdfast://c1/node/n.1", STATUS_UNAUTHENTICATED, ROLE_NONE},
		{"HOLDFAST://c1/node/n1", STATUS_UNAUTHENTICATED, ROLE_NONE},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct identity who = {0};
		struct error err;

		assert_int_equal(identity_parse(cases[i].uri, "c1", &who, &err), cases[i].status);
		assert_int_equal(who.role, cases[i].role);
	}
}

TEST(a_name_of_63_bytes_fits_and_one_more_does_not)
{
	char uri[128];
	struct identity who;

	(void)str_format(uri, sizeof(uri), "holdfast://c1/node/%063d", 7);
	assert_int_equal(identity_parse(uri, "c1", &who, NULL), STATUS_OK);
	assert_int_equal(strlen(who.name), NODE_ID_MAX);
	(void)str_format(uri, sizeof(uri), "holdfast://c1/node/%064d", 7);
	assert_int_equal(identity_parse(uri, "c1", &who, NULL), STATUS_UNAUTHENTICATED);
}

static struct rpc_peer peer(const char *uri)
{
	struct rpc_peer p = {.kind = RPC_PEER_TLS};

	assert_int_equal(str_copy(p.uri, sizeof(p.uri), uri), 0);
	return p;
}

TEST(only_operators_make_operators_calls)
{
	static const struct {
		const char *uri;
		bool dev;
		enum status status;
	} cases[] = {
		{"holdfast://c1/operator/ann", false, STATUS_OK},
		{"holdfast://c1/node/n1", false, STATUS_PERMISSION_DENIED},
		{"holdfast://c1/node/n1", true, STATUS_PERMISSION_DENIED},
		{"holdfast://c1/server/s1", false, STATUS_PERMISSION_DENIED},
		{"", false, STATUS_UNAUTHENTICATED},
		{"", true, STATUS_OK},
		{"holdfast://c2/operator/ann", true, STATUS_UNAUTHENTICATED},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct rpc_peer p = peer(cases[i].uri);

		assert_int_equal(access_operator(&p, "c1", cases[i].dev, NULL, NULL), cases[i].status);
	}
}

TEST(only_nodes_make_nodes_calls)
{
	static const struct {
		const char *uri;
		enum status status;
	} cases[] = {
		{"holdfast://c1/node/n1", STATUS_OK},
		{"holdfast://c1/operator/ann", STATUS_PERMISSION_DENIED},
		{"", STATUS_UNAUTHENTICATED},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct rpc_peer p = peer(cases[i].uri);
		struct identity who;

		assert_int_equal(access_node(&p, "c1", &who, NULL), cases[i].status);
	}
}

TEST(users_of_the_machine_are_operators_if_they_exist_and_are_not_the_overflow_user)
{
	static const struct {
		const char *name;
		enum status status;
	} cases[] = {
		{"root", STATUS_OK},
		{"no-such-user", STATUS_FAILED_PRECONDITION},
		{"nobody", STATUS_FAILED_PRECONDITION},
		{"ro/ot", STATUS_FAILED_PRECONDITION},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char names[LOCAL_OPERATORS_MAX][NODE_ID_MAX + 1] = {"daemon"};
		struct local_operators operators;
		struct error err;

		(void)str_copy(names[1], sizeof(names[1]), cases[i].name);
		assert_int_equal(local_operators_find(names, &operators, &err), cases[i].status);
		if (cases[i].status != STATUS_OK)
			assert_non_null(strstr(err.msg, cases[i].name));
	}
}

TEST(a_socket_for_root_is_closed_to_all_others)
{
	static const struct local_operators root = {.n = 1, .list = {{.uid = 0, .name = "root"}}};
	static const struct local_operators both = {
		.n = 2, .list = {{.uid = 0, .name = "root"}, {.uid = 1000, .name = "ann"}}};

	assert_int_equal(local_operators_mode(&root), 0600);
	assert_int_equal(local_operators_mode(&both), 0666);
}

TEST(a_uid_is_the_operator_that_the_settings_name_and_no_other_uid_is_one)
{
	static const struct local_operators operators = {
		.n = 2, .list = {{.uid = 0, .name = "root"}, {.uid = 1000, .name = "ann"}}};
	struct rpc_peer p = {.kind = RPC_PEER_UNIX, .uid = 1000};
	struct identity who;
	struct error err;

	assert_int_equal(local_operators_name(&operators, "c1", &p, &err), STATUS_OK);
	assert_int_equal(access_operator(&p, "c1", false, &who, &err), STATUS_OK);
	assert_string_equal(who.name, "ann");
	assert_true(p.issued_ms > 0 && p.expires_ms == 0);
	for (size_t i = 0; i < 3; i++) {
		p = (struct rpc_peer){.kind = RPC_PEER_UNIX, .uid = (uid_t[]){1001, 65534, (uid_t)-1}[i]};
		assert_int_equal(local_operators_name(&operators, "c1", &p, &err), STATUS_PERMISSION_DENIED);
		assert_string_equal(p.uri, "");
		assert_int_equal(strstr(err.msg, "PrivateUsers=") != NULL, p.uid == 65534);
	}
}
