/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens and policies over the server's port: how they are made, shown, used, refused and recorded. */

#include "callers.h"
#include "unit.h"
#include "unit_clock.h"

#include "access/access.h"
#include "access/audit.h"
#include "access/policies.h"
#include "access/tokens.h"
#include "base/fd.h"
#include "state/keys.h"
#include "state/records.h"

#include <limits.h>

#define OPERATOR "holdfast://c1/operator/ann"

static enum status as(struct fixture *f, const char *uri, const char *token, const char *method,
		      const char *request, struct error *err)
{
	cleanup(caller_release) struct caller_client caller;
	enum status status;

	caller_init(&caller, f, uri, token);
	status = caller_call(&caller, method, request, NULL, err);
	return status;
}

static json_t *answer_to(struct fixture *f, const char *uri, const char *token, const char *method,
			 const char *request)
{
	cleanup(caller_release) struct caller_client caller;
	json_t *json = NULL;

	caller_init(&caller, f, uri, token);
	assert_int_equal(caller_call(&caller, method, request, &json, NULL), STATUS_OK);
	return json;
}

static const char *text_at(const json_t *json, const char *a, const char *b)
{
	return json_string_value(json_object_get(json_object_get(json, a), b));
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup_acl, teardown)

CASE(bootstrap_works_once_while_there_is_no_management_token)
{
	cleanup(json_decrefp) json_t *first = NULL;
	char accessor[64], request[128];
	struct error err;

	assert_int_equal(as(f, NULL, NULL, "Operator.BootstrapToken", "{}", &err), STATUS_UNAUTHENTICATED);
	first = answer_to(f, OPERATOR, NULL, "Operator.BootstrapToken", "{}");
	assert_true(str_starts_with(text_at(first, "token", "secret"), "hf_"));
	assert_int_equal(strlen(text_at(first, "token", "secret")), TOKEN_SECRET_SIZE - 1);
	(void)str_copy(accessor, sizeof(accessor), text_at(first, "token", "accessor"));
	assert_error(as(f, OPERATOR, NULL, "Operator.BootstrapToken", "{}", &err), STATUS_FAILED_PRECONDITION,
		     err, accessor);
	restart(f);
	assert_int_equal(as(f, OPERATOR, NULL, "Operator.BootstrapToken", "{}", &err),
			 STATUS_FAILED_PRECONDITION);
	assert_ok(as(f, NULL, text_at(first, "token", "secret"), "Operator.ListTokens", "{}", &err));
	(void)str_format(request, sizeof(request), "{\"accessor\": \"%s\"}", accessor);
	operator_does(f, "Operator.RevokeToken", request);
	operator_does(f, "Operator.BootstrapToken", "{}");
}

CASE(a_secret_is_shown_once_and_stored_nowhere)
{
	cleanup_free char *secret = make_token(f, "{\"name\": \"deploy\", \"type\": \"MANAGEMENT\"}");
	cleanup(json_decrefp) json_t *list = answer_to(f, OPERATOR, NULL, "Operator.ListTokens", "{}");
	cleanup(json_decrefp) json_t *who = answer_to(f, NULL, secret, "Operator.WhoAmI", "{}");
	char path[PATH_MAX];
	static const char *const files[] = {"holdfast.db", "holdfast.db-wal"};

	assert_int_equal(json_array_size(json_object_get(list, "tokens")), 1);
	assert_string_equal(json_string_value(json_object_get(
				    json_array_get(json_object_get(list, "tokens"), 0), "secret")),
			    "");
	assert_string_equal(text_at(who, "token", "name"), "deploy");
	assert_string_equal(text_at(who, "token", "secret"), "");
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		cleanup_free char *bytes = NULL;
		size_t n = 0;

		(void)str_format(path, sizeof(path), "%s/%s", f->dir, files[i]);
		assert_int_equal(file_read(path, 64 << 20, &bytes, &n), 0);
		assert_null(memmem(bytes, n, secret, strlen(secret)));
	}
}

CASE(a_token_that_is_shown_decides_whatever_the_certificate)
{
	cleanup_free char *nothing = make_token(f, "{\"name\": \"nothing\", \"type\": \"CLIENT\"}");
	cleanup_free char *all = make_token(f, "{\"name\": \"all\", \"type\": \"MANAGEMENT\"}");
	char unknown[TOKEN_SECRET_SIZE];
	const struct {
		const char *uri, *token;
		enum status status;
	} cases[] = {
		{NULL, NULL, STATUS_UNAUTHENTICATED},
		{OPERATOR, NULL, STATUS_OK},
		{NULL, all, STATUS_OK},
		{OPERATOR, all, STATUS_OK},
		{NULL, nothing, STATUS_PERMISSION_DENIED},
		{OPERATOR, nothing, STATUS_PERMISSION_DENIED},
		{NULL, unknown, STATUS_UNAUTHENTICATED},
		{OPERATOR, unknown, STATUS_UNAUTHENTICATED},
		{OPERATOR, "x", STATUS_UNAUTHENTICATED},
		{"holdfast://c1/node/n1", NULL, STATUS_PERMISSION_DENIED},
		{"holdfast://c1/node/n1", all, STATUS_PERMISSION_DENIED},
		{"holdfast://c1/server/s1", all, STATUS_PERMISSION_DENIED},
		{"holdfast://c2/operator/ann", all, STATUS_UNAUTHENTICATED},
		{"holdfast://c2/operator/ann", NULL, STATUS_UNAUTHENTICATED},
	};

	memset(unknown, '0', sizeof(unknown) - 1);
	memcpy(unknown, "hf_", 3);
	unknown[sizeof(unknown) - 1] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(as(f, cases[i].uri, cases[i].token, "Operator.ListTokens", "{}", NULL),
				 cases[i].status);
	}
}

/* As if its time had come. */
static void expire(struct fixture *f)
{
	struct record_entry *entry = records_from(&f->server->state.records, PREFIX_TOKEN);

	((Holdfast__V1__StoredToken *)entry->record.message)->token->expires_at_ms = clock_realtime_ms();
}

/* By the list, which a management token reads. */
static int64_t last_use_of(struct fixture *f, const char *name)
{
	struct caller_client caller;
	cleanup(json_decrefp) json_t *answer = NULL;
	const json_t *list;
	int64_t used_ms = -1;

	caller_init(&caller, f, OPERATOR, NULL);
	assert_int_equal(caller_call(&caller, "Operator.ListTokens", "{}", &answer, NULL), STATUS_OK);
	caller_release(&caller);
	list = json_object_get(answer, "tokens");
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *token = json_array_get(list, i);

		if (str_eq(json_string_value(json_object_get(token, "name")), name))
			used_ms = strtoll(json_string_value(json_object_get(token, "last_used_at_ms")), NULL,
					  10);
	}
	return used_ms;
}

CASE(the_list_shows_when_a_token_was_used_last)
{
	cleanup_free char *secret = make_token(f, "{\"name\": \"ci\", \"type\": \"MANAGEMENT\"}");
	int64_t before_ms = clock_realtime_ms();
	struct caller_client caller;

	assert_true(last_use_of(f, "ci") == 0);
	caller_init(&caller, f, NULL, secret);
	assert_int_equal(caller_call(&caller, "Operator.Status", "{}", NULL, NULL), STATUS_OK);
	caller_release(&caller);
	assert_in_range(last_use_of(f, "ci"), before_ms, clock_realtime_ms());
	restart(f);
	assert_true(last_use_of(f, "ci") == 0);
}

CASE(an_expired_token_is_no_token_even_with_an_operators_certificate)
{
	char fields[128];
	struct error err;
	cleanup_free char *secret = NULL;

	(void)str_format(fields, sizeof(fields),
			 "{\"name\": \"short\", \"type\": \"MANAGEMENT\", \"expires_at_ms\": \"%lld\"}",
			 (long long)clock_realtime_ms() + 3600000);
	secret = make_token(f, fields);
	assert_int_equal(as(f, NULL, secret, "Operator.WhoAmI", "{}", NULL), STATUS_OK);
	expire(f);
	assert_error(as(f, NULL, secret, "Operator.WhoAmI", "{}", &err), STATUS_UNAUTHENTICATED, err,
		     "expired");
	assert_int_equal(as(f, OPERATOR, secret, "Operator.WhoAmI", "{}", NULL), STATUS_UNAUTHENTICATED);
	operator_does(f, "Operator.BootstrapToken", "{}"); /* it does not count any more */
	assert_int_equal(f->server->state.records.tokens.n, 2);
}

/* @request is CreateTokenRequest. */
static int64_t life_days(struct fixture *f, const char *request)
{
	cleanup(json_decrefp) json_t *answer = answer_to(f, OPERATOR, NULL, "Operator.CreateToken", request);
	int64_t expires_ms = strtoll(text_at(answer, "token", "expires_at_ms"), NULL, 10);

	return expires_ms == 0 ? 0 : (expires_ms - clock_realtime_ms() + 3600000) / 86400000;
}

CASE(a_token_ends_after_90_days_unless_the_request_says_otherwise)
{
	char request[160];

	assert_int_equal(life_days(f, "{\"token\": {\"name\": \"a\", \"type\": \"CLIENT\"}}"), 90);
	assert_int_equal(life_days(f, "{\"token\": {\"name\": \"a\", \"type\": \"MANAGEMENT\"}}"), 90);
	assert_int_equal(
		life_days(f, "{\"endless\": true, \"token\": {\"name\": \"a\", \"type\": \"CLIENT\"}}"), 0);
	(void)str_format(request, sizeof(request),
			 "{\"token\": {\"name\": \"a\", \"type\": \"CLIENT\", \"expires_at_ms\": \"%lld\"}}",
			 (long long)clock_realtime_ms() + INT64_C(400) * 86400000);
	assert_int_equal(life_days(f, request), 400);
}

CASE(the_status_warns_of_the_token_that_ends_first)
{
	char warning[TOKENS_WARNING_SIZE];

	free(make_token(f, "{\"name\": \"long\", \"type\": \"CLIENT\"}"));
	assert_false(tokens_warning(f->server, warning));
	unit_clock_advance(UINT64_C(84) * 86400 * USEC_PER_SEC); /* of 90 days */
	free(make_token(f, "{\"name\": \"new\", \"type\": \"CLIENT\"}"));
	assert_true(tokens_warning(f->server, warning));
	assert_non_null(strstr(warning, "within 7 days: 1, the first is "));
	assert_non_null(strstr(warning, " (long) at "));
	unit_clock_advance(UINT64_C(7) * 86400 * USEC_PER_SEC); /* it has ended */
	assert_false(tokens_warning(f->server, warning));
}

/* Each right of a token is bound, whatever its type; after a restart too. */
CASE(a_token_that_is_bound_to_a_network_is_refused_elsewhere)
{
	char *inside = make_token(f, "{\"name\": \"in\", \"type\": \"MANAGEMENT\", \"cidrs\": "
				     "[\"192.0.2.0/24\", \"127.0.0.0/8\"]}");
	char *outside = make_token(f, "{\"name\": \"out\", \"type\": \"MANAGEMENT\", \"cidrs\": "
				      "[\"192.0.2.0/24\", \"2001:db8::/32\"]}");
	struct error err;

	for (int i = 0; i < 2; i++) {
		assert_int_equal(as(f, NULL, inside, "Operator.ListTokens", "{}", NULL), STATUS_OK);
		assert_error(as(f, NULL, outside, "Operator.ListTokens", "{}", &err),
			     STATUS_PERMISSION_DENIED, err,
			     "(out) is bound to 192.0.2.0/24 and further networks, and this "
			     "call comes from 127.0.0.1:");
		/* nor with an operator's certificate */
		assert_int_equal(as(f, OPERATOR, outside, "Operator.WhoAmI", "{}", NULL),
				 STATUS_PERMISSION_DENIED);
		restart(f);
	}
	free(inside);
	free(outside);
}

CASE(a_token_that_is_bound_to_a_namespace_has_rights_in_no_other)
{
	static const struct {
		const char *method, *request;
		enum status status;
	} rows[] = {
		{"Volumes.List", "{\"namespace\": \"team\"}", STATUS_OK},
		{"Volumes.List", "{\"namespace\": \"default\"}", STATUS_PERMISSION_DENIED},
		{"Volumes.List", "{\"namespace\": \"*\"}", STATUS_OK}, /* shows those of its own */
		{"Volumes.Get", "{\"namespace\": \"team\", \"id\": \"none\"}", STATUS_NOT_FOUND},
		{"Volumes.Get", "{\"namespace\": \"other\", \"id\": \"none\"}", STATUS_PERMISSION_DENIED},
		{"Jobs.List", "{\"namespace\": \"team\"}", STATUS_OK},
		{"Jobs.List", "{\"namespace\": \"default\"}", STATUS_PERMISSION_DENIED},
		{"Nodes.List", "{}", STATUS_OK}, /* of no namespace: its policy decides */
		{"Operator.Status", "{}", STATUS_PERMISSION_DENIED},
	};
	struct error err;
	cleanup_free char *token = NULL;

	operator_does(f, "Operator.PutPolicy",
		      "{\"policy\": {\"name\": \"all\", \"node\": \"read\", \"namespaces\": [{\"namespace\": "
		      "\"*\", \"policy\": \"write\"}]}}");
	token = make_token(f, "{\"name\": \"t\", \"type\": \"CLIENT\", \"policies\": [\"all\"], "
			      "\"namespace\": \"team\"}");
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		enum status status = as(f, NULL, token, rows[i].method, rows[i].request, &err);

		assert_msg(status == rows[i].status, "%s %s: %d", rows[i].method, rows[i].request, status);
	}
	assert_error(as(f, NULL, token, "Volumes.List", "{\"namespace\": \"default\"}", &err),
		     STATUS_PERMISSION_DENIED, err,
		     "(t) is bound to namespace team, and this call is about namespace default");
}

CASE(a_revoked_token_is_unknown_at_once_and_after_a_restart)
{
	cleanup_free char *secret = make_token(f, "{\"name\": \"deploy\", \"type\": \"CLIENT\"}");
	cleanup(json_decrefp) json_t *who = answer_to(f, NULL, secret, "Operator.WhoAmI", "{}");
	char request[128];

	(void)str_format(request, sizeof(request), "{\"accessor\": \"%s\"}",
			 text_at(who, "token", "accessor"));
	restart(f);
	assert_int_equal(as(f, NULL, secret, "Operator.WhoAmI", "{}", NULL), STATUS_OK);
	operator_does(f, "Operator.RevokeToken", request);
	assert_int_equal(as(f, NULL, secret, "Operator.WhoAmI", "{}", NULL), STATUS_UNAUTHENTICATED);
	restart(f);
	assert_int_equal(as(f, NULL, secret, "Operator.WhoAmI", "{}", NULL), STATUS_UNAUTHENTICATED);
	assert_int_equal(as(f, OPERATOR, NULL, "Operator.RevokeToken", request, NULL), STATUS_NOT_FOUND);
}

CASE(bad_requests_change_nothing)
{
	static const struct {
		const char *method, *request;
		enum status status;
	} cases[] = {
		{"Operator.CreateToken", "{}", STATUS_INVALID_ARGUMENT},
		{"Operator.CreateToken", "{\"token\": {\"name\": \"a\"}}", STATUS_INVALID_ARGUMENT},
		{"Operator.CreateToken", "{\"token\": {\"name\": \"\", \"type\": \"CLIENT\"}}",
		 STATUS_INVALID_ARGUMENT},
		{"Operator.CreateToken", "{\"token\": {\"name\": \"a b\", \"type\": \"CLIENT\"}}",
		 STATUS_INVALID_ARGUMENT},
		{"Operator.CreateToken",
		 "{\"token\": {\"name\": \"a\", \"type\": \"CLIENT\", \"secret\": \"hf_mine\"}}",
		 STATUS_INVALID_ARGUMENT},
		{"Operator.CreateToken",
		 "{\"token\": {\"name\": \"a\", \"type\": \"CLIENT\", \"accessor\": \"x\"}}",
		 STATUS_INVALID_ARGUMENT},
		{"Operator.CreateToken",
		 "{\"token\": {\"name\": \"a\", \"type\": \"CLIENT\", \"expires_at_ms\": \"1\"}}",
		 STATUS_INVALID_ARGUMENT},
		{"Operator.CreateToken",
		 "{\"token\": {\"name\": \"a\", \"type\": \"CLIENT\", \"expires_at_ms\": \"-1\"}}",
		 STATUS_INVALID_ARGUMENT},
		{"Operator.CreateToken",
		 "{\"token\": {\"name\": \"a\", \"type\": \"CLIENT\", \"policies\": [\"none\"]}}",
		 STATUS_NOT_FOUND},
		{"Operator.CreateToken",
		 "{\"token\": {\"name\": \"a\", \"type\": \"CLIENT\", \"policies\": [\"../x\"]}}",
		 STATUS_INVALID_ARGUMENT},
		{"Operator.CreateToken",
		 "{\"token\": {\"name\": \"a\", \"type\": \"MANAGEMENT\", \"policies\": [\"used\"]}}",
		 STATUS_INVALID_ARGUMENT},
		{"Operator.CreateToken",
		 "{\"token\": {\"name\": \"a\", \"type\": \"CLIENT\", \"node\": \"n 1\"}}",
		 STATUS_INVALID_ARGUMENT},
		{"Operator.CreateToken",
		 "{\"token\": {\"name\": \"a\", \"type\": \"MANAGEMENT\", \"node\": \"n1\"}}",
		 STATUS_INVALID_ARGUMENT},
		{"Operator.CreateToken",
		 "{\"token\": {\"name\": \"a\", \"type\": \"CLIENT\", \"cidrs\": [\"192.0.2.1/24\"]}}",
		 STATUS_INVALID_ARGUMENT},
		{"Operator.CreateToken",
		 "{\"token\": {\"name\": \"a\", \"type\": \"CLIENT\", \"namespace\": \"a/b\"}}",
		 STATUS_INVALID_ARGUMENT},
		{"Operator.CreateToken",
		 "{\"token\": {\"name\": \"a\", \"type\": \"MANAGEMENT\", \"namespace\": \"team\"}}",
		 STATUS_INVALID_ARGUMENT},
		{"Operator.CreateToken",
		 "{\"endless\": true, \"token\": {\"name\": \"a\", \"type\": \"CLIENT\", \"expires_at_ms\": "
		 "\"9999999999999\"}}",
		 STATUS_INVALID_ARGUMENT},
		{"Operator.RevokeToken", "{\"accessor\": \"x\"}", STATUS_INVALID_ARGUMENT},
		{"Operator.RevokeToken", "{\"accessor\": \"01890000-0000-7000-8000-000000000001\"}",
		 STATUS_NOT_FOUND},
		{"Operator.PutPolicy", "{}", STATUS_INVALID_ARGUMENT},
		{"Operator.PutPolicy", "{\"policy\": {\"name\": \"a/b\"}}", STATUS_INVALID_ARGUMENT},
		{"Operator.PutPolicy", "{\"policy\": {\"name\": \"a\", \"plugin\": \"write\"}}",
		 STATUS_INVALID_ARGUMENT},
		{"Operator.DeletePolicy", "{\"name\": \"\"}", STATUS_INVALID_ARGUMENT},
		{"Operator.DeletePolicy", "{\"name\": \"none\"}", STATUS_NOT_FOUND},
		{"Operator.DeletePolicy", "{\"name\": \"used\"}", STATUS_FAILED_PRECONDITION},
	};
	uint64_t revision;

	operator_does(f, "Operator.PutPolicy", "{\"policy\": {\"name\": \"used\"}}");
	free(make_token(f, "{\"name\": \"u\", \"type\": \"CLIENT\", \"policies\": [\"used\"]}"));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct error err;

		revision = audit_head(f->server).sequence;
		assert_int_equal(as(f, OPERATOR, NULL, cases[i].method, cases[i].request, &err),
				 cases[i].status);
		assert_int_equal(f->server->state.records.tokens.n, 1);
		/* the refusal is all that was written */
		assert_in_range(audit_head(f->server).sequence, revision, revision + 1);
	}
}

static void fill_policies(struct fixture *f, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char key[OBJECT_KEY_SIZE], name[32];
		Holdfast__V1__AccessPolicy policy = V1(access_policy, .name = name);
		const struct record record = {.key = key, .message = &policy.base};

		(void)str_format(name, sizeof(name), "fill%zu", i);
		(void)str_format(key, sizeof(key), PREFIX_POLICY "%s", name);
		assert_int_equal(records_put(&f->server->state.records, &record, NULL), STATUS_OK);
	}
}

CASE(the_last_token_and_policy_there_is_room_for_are_made_and_no_more)
{
	static const char token[] = "{\"token\": {\"name\": \"a\", \"type\": \"CLIENT\"}}";

	f->server->state.records.tokens.n += TOKENS_MAX - 1; /* only counted */
	assert_int_equal(as(f, OPERATOR, NULL, "Operator.CreateToken", token, NULL), STATUS_OK);
	assert_int_equal(f->server->state.records.tokens.n, TOKENS_MAX);
	assert_int_equal(as(f, OPERATOR, NULL, "Operator.CreateToken", token, NULL),
			 STATUS_RESOURCE_EXHAUSTED);
	f->server->state.records.tokens.n -= TOKENS_MAX - 1;
	fill_policies(f, POLICIES_MAX - 1);
	operator_does(f, "Operator.PutPolicy", "{\"policy\": {\"name\": \"last\"}}");
	assert_int_equal(
		as(f, OPERATOR, NULL, "Operator.PutPolicy", "{\"policy\": {\"name\": \"more\"}}", NULL),
		STATUS_RESOURCE_EXHAUSTED);
	/* one that is there can be changed */
	operator_does(f, "Operator.PutPolicy", "{\"policy\": {\"name\": \"last\", \"node\": \"read\"}}");
}

CASE(a_token_has_as_many_policies_as_it_may_and_no_more)
{
	char request[1024];

	operator_does(f, "Operator.PutPolicy", "{\"policy\": {\"name\": \"p\"}}");
	for (int n = TOKEN_POLICIES_MAX - 1; n <= TOKEN_POLICIES_MAX + 1; n++) {
		size_t at = (size_t)str_format(request, sizeof(request),
					       "{\"token\": {\"name\": \"a\", \"type\": \"CLIENT\", "
					       "\"policies\": [\"p\"");

		for (int i = 1; i < n; i++)
			at += (size_t)str_format(request + at, sizeof(request) - at, ", \"p\"");
		(void)str_format(request + at, sizeof(request) - at, "]}}");
		assert_int_equal(as(f, OPERATOR, NULL, "Operator.CreateToken", request, NULL),
				 n <= TOKEN_POLICIES_MAX ? STATUS_OK : STATUS_INVALID_ARGUMENT);
	}
}

CASE(no_list_gives_a_page_above_its_most)
{
	static const struct {
		const char *method;
		unsigned int most;
	} cases[] = {
		{"Operator.ListTokens", 1000}, {"Operator.ListPolicies", 1000}, {"Nodes.List", 1000},
		{"Plugins.List", 1000},	       {"Allocations.List", 5000},	{"Volumes.List", 10000},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char request[64];
		struct error err;

		(void)str_format(request, sizeof(request), "{\"per_page\": %u}", cases[i].most);
		assert_int_equal(as(f, OPERATOR, NULL, cases[i].method, request, &err), STATUS_OK);
		(void)str_format(request, sizeof(request), "{\"per_page\": %u}", cases[i].most + 1);
		assert_error(as(f, OPERATOR, NULL, cases[i].method, request, &err), STATUS_INVALID_ARGUMENT,
			     err, "per_page");
	}
}

/* A plugin is handed what is of others: the right to run work is not enough for it. */
CASE(a_plugin_needs_its_own_run_right)
{
	static const char put[] =
		"{\"policy\": {\"name\": \"dev\", \"namespaces\": [{\"namespace\": \"default\", \"policy\": "
		"\"write\"%s}, {\"namespace\": \"other\", \"capabilities\": [\"csi-register-plugin\"]}]}}";
	static const char run[] = "{\"allocation\": {\"name\": \"p\", \"node_id\": \"n1\"%s}}";
	static const char block[] =
		", \"csi_plugins\": [{\"id\": \"ebs\", \"type\": \"CSI_PLUGIN_TYPE_NODE\"}]";
	char request[512];
	struct error err;
	cleanup_free char *secret = NULL;

	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	(void)str_format(request, sizeof(request), put, "");
	operator_does(f, "Operator.PutPolicy", request);
	secret = make_token(f, "{\"name\": \"t\", \"type\": \"CLIENT\", \"policies\": [\"dev\"]}");
	(void)str_format(request, sizeof(request), run, "");
	assert_int_equal(as(f, NULL, secret, "Allocations.Run", request, &err), STATUS_INVALID_ARGUMENT);
	(void)str_format(request, sizeof(request), run, block);
	assert_error(as(f, NULL, secret, "Allocations.Run", request, &err), STATUS_PERMISSION_DENIED, err,
		     "csi-register-plugin");
	(void)str_format(request, sizeof(request), put, ", \"capabilities\": [\"csi-register-plugin\"]");
	operator_does(f, "Operator.PutPolicy", request);
	(void)str_format(request, sizeof(request), run, block);
	assert_int_equal(as(f, NULL, secret, "Allocations.Run", request, &err), STATUS_OK);
}

/* A service runs as whom its unit says: the right to run work is not enough for it. */
CASE(a_unit_needs_its_own_run_right)
{
	static const char put[] =
		"{\"policy\": {\"name\": \"dev\", \"namespaces\": [{\"namespace\": \"default\", \"policy\": "
		"\"write\"%s}, {\"namespace\": \"other\", \"capabilities\": [\"alloc-run-unit\"]}]}}";
	static const char run[] = "{\"allocation\": {\"name\": \"p\", \"node_id\": \"n1\"%s}}";
	static const char *const asks[] = {
		", \"driver\": \"systemd\"",
		", \"driver\": \"systemd\", \"unit\": \"db.service\"",
		", \"unit\": \"db.service\"",
	};
	char request[512];
	struct error err;
	cleanup_free char *secret = NULL;

	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	(void)str_format(request, sizeof(request), put, "");
	operator_does(f, "Operator.PutPolicy", request);
	secret = make_token(f, "{\"name\": \"t\", \"type\": \"CLIENT\", \"policies\": [\"dev\"]}");
	for (size_t i = 0; i < ARRAY_SIZE(asks); i++) {
		(void)str_format(request, sizeof(request), run, asks[i]);
		assert_error(as(f, NULL, secret, "Allocations.Run", request, &err), STATUS_PERMISSION_DENIED,
			     err, "alloc-run-unit");
	}
	(void)str_format(request, sizeof(request), put, ", \"capabilities\": [\"alloc-run-unit\"]");
	operator_does(f, "Operator.PutPolicy", request);
	/* from here on it is judged by what it asks for */
	for (size_t i = 0; i < ARRAY_SIZE(asks); i++) {
		(void)str_format(request, sizeof(request), run, asks[i]);
		assert_int_equal(as(f, NULL, secret, "Allocations.Run", request, &err),
				 STATUS_INVALID_ARGUMENT);
	}
}

CASE(a_policy_can_be_changed_listed_and_deleted)
{
	static const char put[] = "{\"policy\": {\"name\": \"team\", \"namespaces\": [{\"namespace\": "
				  "\"team-*\", \"policy\": \"read\"}], \"operator\": \"%s\"}}";
	char request[256], *secret;
	json_t *list;

	(void)str_format(request, sizeof(request), put, "");
	operator_does(f, "Operator.PutPolicy", request);
	secret = make_token(f, "{\"name\": \"t\", \"type\": \"CLIENT\", \"policies\": [\"team\"]}");
	assert_int_equal(as(f, NULL, secret, "Operator.Status", "{}", NULL), STATUS_PERMISSION_DENIED);
	(void)str_format(request, sizeof(request), put, "read");
	operator_does(f, "Operator.PutPolicy", request);
	assert_int_equal(as(f, NULL, secret, "Operator.Status", "{}", NULL), STATUS_OK);
	restart(f);
	assert_int_equal(as(f, NULL, secret, "Operator.Status", "{}", NULL), STATUS_OK);
	operator_does(f, "Operator.PutPolicy", "{\"policy\": {\"name\": \"unused\"}}");
	list = answer_to(f, OPERATOR, NULL, "Operator.ListPolicies", "{\"per_page\": 1}");
	assert_int_equal(json_array_size(json_object_get(list, "policies")), 1);
	assert_string_equal(json_string_value(json_object_get(list, "next_token")), "unused");
	json_decref(list);
	list = answer_to(f, OPERATOR, NULL, "Operator.ListPolicies", "{\"next_token\": \"unused\"}");
	assert_int_equal(json_array_size(json_object_get(list, "policies")), 1);
	assert_string_equal(json_string_value(json_object_get(list, "next_token")), "");
	json_decref(list);
	operator_does(f, "Operator.DeletePolicy", "{\"name\": \"unused\"}");
	list = answer_to(f, OPERATOR, NULL, "Operator.ListPolicies", "{\"prefix\": \"un\"}");
	assert_int_equal(json_array_size(json_object_get(list, "policies")), 0);
	json_decref(list);
	free(secret);
}

CASE(without_acl_tokens_are_refused_and_report_it)
{
	cleanup_free char *secret = make_token(f, "{\"name\": \"all\", \"type\": \"MANAGEMENT\"}");
	struct error err;

	f->server->config.acl = false;
	assert_error(as(f, NULL, secret, "Operator.Status", "{}", &err), STATUS_UNAUTHENTICATED, err,
		     "acl = false");
	assert_int_equal(as(f, OPERATOR, secret, "Operator.Status", "{}", NULL), STATUS_UNAUTHENTICATED);
	assert_int_equal(as(f, NULL, NULL, "Operator.Status", "{}", NULL), STATUS_UNAUTHENTICATED);
	assert_int_equal(as(f, OPERATOR, NULL, "Operator.Status", "{}", NULL), STATUS_OK);
	f->server->config.dev = true;
	assert_int_equal(as(f, NULL, NULL, "Operator.Status", "{}", NULL), STATUS_OK);
	assert_int_equal(as(f, "holdfast://c1/node/n1", NULL, "Operator.Status", "{}", NULL),
			 STATUS_PERMISSION_DENIED);
}

/* A refusal is answered before its record is durable. */
static json_t *last_record(struct fixture *f)
{
	cleanup(json_decrefp) json_t *audit = NULL;
	json_t *records;

	UNTIL(f, kv_stats(f->server->kv).pending == 0);
	audit = answer_to(f, OPERATOR, NULL, "Operator.ListAudit", "{}");
	records = json_object_get(audit, "records");
	return json_incref(json_array_get(records, json_array_size(records) - 1));
}

static const char *word(const json_t *json, const char *name)
{
	return json_string_value(json_object_get(json, name));
}

CASE(each_change_and_each_refusal_is_audited)
{
	cleanup_free char *secret = make_token(f, "{\"name\": \"deploy\", \"type\": \"CLIENT\"}");
	json_t *record = last_record(f);

	assert_string_equal(word(record, "who"), "operator/ann");
	assert_string_equal(word(record, "what"), "Operator.CreateToken");
	assert_true(str_starts_with(word(record, "object"), "token "));
	assert_int_equal(json_integer_value(json_object_get(record, "code")), 0);
	json_decref(record);
	(void)as(f, OPERATOR, secret, "Operator.PutPolicy", "{\"policy\": {\"name\": \"p\"}}", NULL);
	record = last_record(f);
	assert_true(str_starts_with(word(record, "who"), "token "));
	assert_non_null(strstr(word(record, "who"), "(deploy) of operator/ann"));
	assert_string_equal(word(record, "what"), "Operator.PutPolicy");
	assert_int_equal(json_integer_value(json_object_get(record, "code")), STATUS_PERMISSION_DENIED);
	assert_non_null(strstr(word(record, "message"), "management"));
	json_decref(record);
}

CASE(a_flood_of_refusals_is_cut_and_counted)
{
	enum { FLOOD = AUDIT_REFUSALS_BURST + 30 };
	struct caller_client caller;
	uint64_t before = audit_head(f->server).sequence;
	uint64_t recorded;
	struct audit_caller *counted = NULL;

	caller_init(&caller, f, "holdfast://c1/node/n1", NULL);
	for (int i = 0; i < FLOOD; i++)
		assert_int_equal(caller_call(&caller, "Operator.PutPolicy", "{}", NULL, NULL),
				 STATUS_PERMISSION_DENIED);
	caller_release(&caller);
	recorded = audit_head(f->server).sequence - before;
	assert_in_range(recorded, AUDIT_REFUSALS_BURST, FLOOD - 10);
	for (size_t i = 0; i < AUDIT_CALLERS; i++)
		if (str_eq(f->server->audit->callers[i].who, "node/n1"))
			counted = NON_NULL(&f->server->audit->callers[i]);
	assert_in_range(counted->left_out, FLOOD - recorded - 5, FLOOD - recorded);
	assert_non_null(f->server->audit->timer);
	(void)as(f, OPERATOR, NULL, "Operator.PutPolicy", "{}", NULL); /* others are still recorded */
	assert_int_equal(audit_head(f->server).sequence - before, recorded + 1);
}

/* A client without any identity causes refusals as long as it likes. */
CASE(a_caller_that_is_always_refused_is_recorded_once_a_minute)
{
	cleanup(caller_release) struct caller_client stranger;
	uint64_t before;

	caller_init(&stranger, f, NULL, NULL);
	for (int i = 0; i < AUDIT_REFUSALS_BURST; i++)
		(void)caller_call(&stranger, "Operator.PutPolicy", "{}", NULL, NULL);
	before = audit_head(f->server).sequence;
	for (int i = 0; i < 12; i++) {
		unit_clock_advance(10 * USEC_PER_SEC);
		(void)caller_call(&stranger, "Operator.PutPolicy", "{}", NULL, NULL);
	}
	assert_in_range(audit_head(f->server).sequence - before, 1, 5); /* of 12 */
}

/* Or the holder of many certificates pushes out what others have done. */
CASE(callers_that_are_always_refused_have_a_limit_together)
{
	enum { CALLERS = AUDIT_ALL_REFUSALS_BURST / AUDIT_REFUSALS_BURST + 3 };
	const uint64_t before = audit_head(f->server).sequence;

	for (int i = 0; i < CALLERS; i++) {
		cleanup(caller_release) struct caller_client caller;
		char uri[64];

		(void)str_format(uri, sizeof(uri), "holdfast://c1/node/m%d", i);
		caller_init(&caller, f, uri, NULL);
		for (int k = 0; k < AUDIT_REFUSALS_BURST; k++)
			(void)caller_call(&caller, "Operator.PutPolicy", "{}", NULL, NULL);
	}
	assert_in_range(audit_head(f->server).sequence - before, AUDIT_ALL_REFUSALS_BURST,
			AUDIT_ALL_REFUSALS_BURST + AUDIT_REFUSALS_BURST); /* of 260 */
}

CASE(suppressed_refusals_are_counted_without_a_further_one)
{
	struct caller_client caller;
	cleanup(json_decrefp) json_t *record = NULL;

	caller_init(&caller, f, "holdfast://c1/node/n1", NULL);
	for (int i = 0; i < AUDIT_REFUSALS_BURST + 5; i++)
		(void)caller_call(&caller, "Operator.PutPolicy", "{}", NULL, NULL);
	caller_release(&caller);
	assert_non_null(f->server->audit->timer);
	assert_true(sd_event_source_set_time_relative(f->server->audit->timer, 0) >= 0);
	UNTIL(f, !f->server->audit->timer);
	UNTIL(f, kv_stats(f->server->kv).pending == 0);
	record = last_record(f);
	assert_string_equal(word(record, "what"), "refusals");
	assert_string_equal(word(record, "who"), "node/n1");
	assert_in_range(strtol(word(record, "left_out"), NULL, 10), 1, 5);
}

/* Who comes after all places are taken makes the one who was not here for longest forget. */
CASE(callers_beyond_the_table_are_counted_together)
{
	struct audit_limits *limits = f->server->audit;
	uint64_t now_us = clock_monotonic_us();

	for (size_t i = 0; i < AUDIT_CALLERS; i++) {
		(void)str_format(limits->callers[i].who, AUDIT_WHO_SIZE, "operator/o%zu", i);
		limits->callers[i].used_us = now_us + i;
		limits->callers[i].left_out = 3;
	}
	(void)as(f, OPERATOR, NULL, "Operator.PutPolicy", "{}", NULL);
	assert_string_equal(limits->callers[0].who, "operator/ann");
	assert_int_equal(limits->callers[0].left_out, 0);
	assert_string_equal(limits->callers[1].who, "operator/o1");
	assert_int_equal(limits->left_out, 3);
}

CASE(a_page_of_tokens_ends_where_the_next_begins)
{
	char request[128] = "{\"per_page\": 2}";
	size_t n = 0;
	int pages = 0;

	for (int i = 0; i < 5; i++)
		free(make_token(f, "{\"name\": \"t\", \"type\": \"CLIENT\"}"));
	for (bool more = true; more; pages++) {
		cleanup(json_decrefp) json_t *list =
			answer_to(f, OPERATOR, NULL, "Operator.ListTokens", request);
		const char *next = word(list, "next_token");

		n += json_array_size(json_object_get(list, "tokens"));
		more = next[0] != '\0';
		(void)str_format(request, sizeof(request), "{\"per_page\": 2, \"next_token\": \"%s\"}", next);
	}
	assert_int_equal(n, 5);
	assert_int_equal(pages, 3);
}
