/* Who may call what: every method of every service against every sort of caller. A method that has no row
 * fails the test. */

#include "callers.h"
#include "keys.h"
#include "records.h"
#include "services.h"
#include "unit.h"

#include "base/str.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <holdfast/v1/operator.pb-c.h>
#include <holdfast/v1/plugins.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>
#include <string.h>

enum kind {
	OF_NAMESPACE,  /* a policy gives it, in the namespace of the object */
	OF_NO_OBJECT,  /* a policy gives it, in any namespace or over something else */
	OF_MANAGEMENT, /* no policy gives it */
	OF_NODES,      /* a node's certificate alone */
	OF_ANYBODY,    /* who may call anything at all */
};

struct row {
	const char *method;
	enum kind kind;
	bool is_stream;
	const char *policy; /* exactly what is needed; "@" stands for the namespace */
	const char *request;
	const char *not_enough; /* lacks one thing of the policy; NULL: there is only one */
};

#define IN_NAMESPACE(capabilities) \
	"\"namespaces\": [{\"namespace\": \"@\", \"capabilities\": [" capabilities "]}]"
#define PLUGIN_READ ", \"plugin\": \"read\""
#define DB "\"id\": \"db\", \"namespace\": \"default\""
#define A_TOKEN "01890000-0000-7000-8000-00000000000f"

static const struct row rows[] = {
	{"Volumes.Register", OF_NAMESPACE, .policy = IN_NAMESPACE("\"csi-write-volume\"") PLUGIN_READ,
	 .not_enough = IN_NAMESPACE("\"csi-write-volume\""),
	 .request = "{\"volume\": {\"type\": \"CSI\", " DB "}}"},
	{"Volumes.Create", OF_NAMESPACE, .policy = IN_NAMESPACE("\"csi-write-volume\"") PLUGIN_READ,
	 .not_enough = IN_NAMESPACE("\"csi-write-volume\""),
	 .request = "{\"volume\": {\"type\": \"CSI\", " DB "}}"},
	{"Volumes.Get", OF_NAMESPACE, .policy = IN_NAMESPACE("\"csi-read-volume\""), .request = "{" DB "}"},
	{"Volumes.List", OF_NAMESPACE, .policy = IN_NAMESPACE("\"csi-list-volume\""),
	 .request = "{\"namespace\": \"default\"}"},
	{"Volumes.Deregister", OF_NAMESPACE, .policy = IN_NAMESPACE("\"csi-write-volume\""),
	 .request = "{" DB "}"},
	{"Volumes.Delete", OF_NAMESPACE, .policy = IN_NAMESPACE("\"csi-write-volume\"") PLUGIN_READ,
	 .not_enough = IN_NAMESPACE("\"csi-write-volume\""), .request = "{" DB "}"},
	{"Volumes.Expand", OF_NAMESPACE, .policy = IN_NAMESPACE("\"csi-write-volume\"") PLUGIN_READ,
	 .not_enough = IN_NAMESPACE("\"csi-write-volume\""), .request = "{" DB "}"},
	{"Volumes.Detach", OF_NAMESPACE, .policy = IN_NAMESPACE("\"csi-write-volume\""),
	 .request = "{" DB ", \"node_id\": \"n1\"}"},
	{"Volumes.Claim", OF_NODES,
	 .request = "{\"volume_id\": \"db\", \"namespace\": \"default\", \"allocation_id\": \"" ALLOC_1
		    "\", \"volume_name\": \"data\"}"},
	{"Volumes.ListExternal", OF_NO_OBJECT, .policy = IN_NAMESPACE("\"csi-list-volume\"") PLUGIN_READ,
	 .not_enough = IN_NAMESPACE("\"csi-list-volume\""), .request = "{\"plugin_id\": \"p\"}"},
	{"Volumes.CreateSnapshot", OF_NAMESPACE, .policy = IN_NAMESPACE("\"csi-write-volume\"") PLUGIN_READ,
	 .not_enough = IN_NAMESPACE("\"csi-write-volume\""),
	 .request = "{\"volume_id\": \"db\", \"namespace\": \"default\", \"name\": \"s\"}"},
	{"Volumes.DeleteSnapshot", OF_NO_OBJECT,
	 .policy = "\"operator\": \"write\"" PLUGIN_READ, /* of one that the server does not know */
	 .not_enough = IN_NAMESPACE("\"csi-write-volume\"") PLUGIN_READ,
	 .request = "{\"plugin_id\": \"p\", \"snapshot_id\": \"s\"}"},
	{"Volumes.ListSnapshots", OF_NO_OBJECT, .policy = IN_NAMESPACE("\"csi-list-volume\"") PLUGIN_READ,
	 .not_enough = IN_NAMESPACE("\"csi-list-volume\""), .request = "{\"plugin_id\": \"p\"}"},
	{"Plugins.Get", OF_NO_OBJECT, .policy = "\"plugin\": \"read\"", .request = "{\"id\": \"native\"}"},
	{"Plugins.List", OF_NO_OBJECT, .policy = "\"plugin\": \"list\"", .request = "{}"},
	{"Nodes.Session", OF_NODES, .is_stream = true, .request = "{}"},
	{"Nodes.Get", OF_NO_OBJECT, .policy = "\"node\": \"read\"", .request = "{\"id\": \"n1\"}"},
	{"Nodes.List", OF_NO_OBJECT, .policy = "\"node\": \"read\"", .request = "{}"},
	{"Nodes.SetEligibility", OF_NO_OBJECT, .policy = "\"node\": \"write\"",
	 .request = "{\"id\": \"n1\", \"eligible\": true}"},
	{"Nodes.Drain", OF_NO_OBJECT, .policy = "\"node\": \"write\"",
	 .request = "{\"id\": \"n1\", \"cancel\": true}"},
	{"Nodes.Purge", OF_NO_OBJECT, .policy = "\"operator\": \"write\"", .request = "{\"id\": \"n1\"}"},
	{"Nodes.Attest", OF_NO_OBJECT, .policy = "\"operator\": \"write\"",
	 .request = "{\"id\": \"n1\", \"dry_run\": true}"},
	{"Allocations.Run", OF_NAMESPACE, .policy = IN_NAMESPACE("\"submit-job\", \"csi-mount-volume\""),
	 .not_enough = IN_NAMESPACE("\"submit-job\""),
	 .request = "{\"allocation\": {\"namespace\": \"default\"}}"},
	{"Allocations.Stop", OF_NAMESPACE, .policy = IN_NAMESPACE("\"submit-job\""),
	 .request = "{\"id\": \"" ALLOC_1 "\"}"},
	{"Allocations.Get", OF_NAMESPACE, .policy = IN_NAMESPACE("\"read-job\""),
	 .request = "{\"id\": \"" ALLOC_1 "\"}"},
	{"Allocations.List", OF_NAMESPACE, .policy = IN_NAMESPACE("\"list-jobs\""),
	 .request = "{\"namespace\": \"default\"}"},
	{"Operator.Status", OF_NO_OBJECT, .policy = "\"operator\": \"read\"", .request = "{}"},
	{"Operator.Gc", OF_NO_OBJECT, .policy = "\"operator\": \"write\"", .request = "{\"dry_run\": true}"},
	{"Operator.BeginBackup", OF_MANAGEMENT, .request = "{}"},
	{"Operator.ReadBackup", OF_MANAGEMENT, .request = "{}"},
	{"Operator.BeginRestore", OF_MANAGEMENT, .request = "{}"},
	{"Operator.WriteRestore", OF_MANAGEMENT, .request = "{}"},
	{"Operator.ApplyRestore", OF_MANAGEMENT, .request = "{}"},
	{"Operator.BootstrapToken", OF_MANAGEMENT, .request = "{}"},
	{"Operator.CreateToken", OF_MANAGEMENT, .request = "{}"},
	{"Operator.ListTokens", OF_MANAGEMENT, .request = "{}"},
	{"Operator.RevokeToken", OF_MANAGEMENT, .request = "{\"accessor\": \"" A_TOKEN "\"}"},
	{"Operator.WhoAmI", OF_ANYBODY, .request = "{}"},
	{"Operator.PutPolicy", OF_MANAGEMENT, .request = "{}"},
	{"Operator.ListPolicies", OF_MANAGEMENT, .request = "{}"},
	{"Operator.DeletePolicy", OF_MANAGEMENT, .request = "{\"name\": \"none\"}"},
	{"Operator.ListAudit", OF_NO_OBJECT, .policy = "\"operator\": \"read\"", .request = "{}"},
	{"Operator.Watch", OF_NAMESPACE, .is_stream = true, .policy = IN_NAMESPACE("\"csi-read-volume\""),
	 .request = "{\"topics\": [\"volume\"], \"namespace\": \"default\"}"},
};

/* Everything that a policy can give. */
#define ALL_POLICIES                                                                                   \
	"\"namespaces\": [{\"namespace\": \"*\", \"policy\": \"write\", \"capabilities\": "            \
	"[\"csi-register-plugin\", \"alloc-run-unit\"]}], \"plugin\": \"read\", \"node\": \"write\", " \
	"\"operator\": \"write\""

static const ProtobufCServiceDescriptor *const all_services[] = {
	&holdfast__v1__volumes__descriptor,  &holdfast__v1__plugins__descriptor,
	&holdfast__v1__nodes__descriptor,    &holdfast__v1__allocations__descriptor,
	&holdfast__v1__operator__descriptor,
};

static void every_method_has_one_row(void **state)
{
	size_t n = 0;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(all_services); i++)
		for (unsigned int j = 0; j < all_services[i]->n_methods; j++) {
			char name[128];
			int found = 0;

			(void)str_format(name, sizeof(name), "%s.%s", all_services[i]->short_name,
					 all_services[i]->methods[j].name);
			for (size_t k = 0; k < ARRAY_SIZE(rows); k++)
				found += str_eq(rows[k].method, name);
			if (found != 1)
				fail_msg("%s has %d rows", name, found);
			n++;
		}
	assert_int_equal(n, ARRAY_SIZE(rows));
	for (size_t i = 0; i < n_services; i++) { /* nothing is served that was not looked at */
		bool known = false;

		for (size_t j = 0; j < ARRAY_SIZE(all_services); j++)
			known |= services[i].descriptor == all_services[j];
		assert_true(known);
	}
}

/* A method that nobody has built yet refuses everybody as such. */
static bool is_built(const char *method)
{
	for (size_t i = 0; i < n_services; i++)
		for (size_t j = 0; j < services[i].n_methods; j++) {
			char name[128];

			(void)str_format(name, sizeof(name), "%s.%s", services[i].descriptor->short_name,
					 services[i].methods[j].name);
			if (str_eq(name, method))
				return true;
		}
	return false;
}

/* --- callers --- */

struct stand {
	struct fixture *f;
	char *no_policies;
	char *all_policies;
	char *management;
	char *expired;
};

static char *token_with(struct fixture *f, const char *name, const char *policy)
{
	char request[1024];

	(void)str_format(request, sizeof(request), "{\"policy\": {\"name\": \"%s\", %s}}", name, policy);
	operator_does(f, "Operator.PutPolicy", request);
	(void)str_format(request, sizeof(request),
			 "{\"name\": \"%s\", \"type\": \"CLIENT\", \"policies\": [\"%s\"]}", name, name);
	return make_token(f, request);
}

/* A token with the policy, of @namespace. */
static char *token_for(struct fixture *f, const char *template, const char *namespace)
{
	static unsigned int n;
	char policy[512];
	char name[32];
	const char *at = strchr(template, '@');

	(void)str_format(name, sizeof(name), "p%u", n++);
	if (!at)
		return token_with(f, name, template);
	(void)str_format(policy, sizeof(policy), "%.*s%s%s", (int)(at - template), template, namespace,
			 at + 1);
	return token_with(f, name, policy);
}

static void expire(struct fixture *f, const char *name)
{
	struct record_entry *entry = state_record_from(&f->server->state, PREFIX_TOKEN);

	for (; entry && str_starts_with(entry->key, PREFIX_TOKEN); entry = state_record_next(entry)) {
		Holdfast__V1__Token *token = ((Holdfast__V1__StoredToken *)entry->record.message)->token;

		if (str_eq(token->name, name))
			token->expires_at_ms = 1;
	}
}

static void stand_init(struct stand *stand, struct fixture *f)
{
	*stand = (struct stand){
		.f = f,
		.no_policies = make_token(f, "{\"name\": \"none\", \"type\": \"CLIENT\"}"),
		.management = make_token(f, "{\"name\": \"root\", \"type\": \"MANAGEMENT\"}"),
		.expired = make_token(f, "{\"name\": \"old\", \"type\": \"MANAGEMENT\"}"),
		.all_policies = token_with(f, "all", ALL_POLICIES),
	};
	expire(f, "old");
}

static void stand_release(struct stand *stand)
{
	free(stand->no_policies);
	free(stand->all_policies);
	free(stand->management);
	free(stand->expired);
}

static enum status try(struct fixture *f, const struct row *row, const char *uri, const char *token)
{
	struct caller_client caller;
	enum status st;

	caller_init(&caller, f, uri, token);
	st = row->is_stream ? caller_stream(&caller, row->method, row->request)
			    : caller_call(&caller, row->method, row->request, NULL, NULL);
	caller_release(&caller);
	return st;
}

static void expect(struct fixture *f, const struct row *row, const char *uri, const char *token,
		   enum status expected)
{
	enum status st = try(f, row, uri, token);

	if (st != expected)
		fail_msg("%s by %s %s: %s instead of %s", row->method, uri ? uri : "nobody",
			 token ? "with a token" : "without a token", status_name(st), status_name(expected));
}

static void expect_allowed(struct fixture *f, const struct row *row, const char *uri, const char *token)
{
	enum status st = try(f, row, uri, token);

	if (st == STATUS_UNAUTHENTICATED || st == STATUS_PERMISSION_DENIED)
		fail_msg("%s by %s %s: %s", row->method, uri ? uri : "nobody",
			 token ? "with a token" : "without a token", status_name(st));
}

#define OPERATOR "holdfast://c1/operator/ann"

/* What no row makes an exception of. */
static void check_everybody(const struct stand *stand, const struct row *row)
{
	expect(stand->f, row, NULL, NULL, STATUS_UNAUTHENTICATED);
	expect(stand->f, row, "holdfast://c2/operator/ann", NULL, STATUS_UNAUTHENTICATED);
	expect(stand->f, row, "holdfast://c2/node/n1", NULL, STATUS_UNAUTHENTICATED);
	expect(stand->f, row, NULL, stand->expired, STATUS_UNAUTHENTICATED);
	expect(stand->f, row, "holdfast://c1/node/n1", stand->management, STATUS_PERMISSION_DENIED);
	expect(stand->f, row, "holdfast://c1/server/s1", stand->management, STATUS_PERMISSION_DENIED);
	expect(stand->f, row, "holdfast://c1/server/s1", NULL, STATUS_PERMISSION_DENIED);
}

static void check_people(const struct stand *stand, const struct row *row)
{
	struct fixture *f = stand->f;
	bool is_for_anybody = row->kind == OF_ANYBODY;

	expect(f, row, OPERATOR, stand->expired, STATUS_UNAUTHENTICATED);
	expect(f, row, "holdfast://c1/node/n1", NULL, STATUS_PERMISSION_DENIED);
	expect(f, row, "holdfast://c1/node/n9", NULL, STATUS_PERMISSION_DENIED);
	if (is_for_anybody) {
		expect_allowed(f, row, NULL, stand->no_policies);
	} else {
		expect(f, row, NULL, stand->no_policies, STATUS_PERMISSION_DENIED);
		expect(f, row, OPERATOR, stand->no_policies, STATUS_PERMISSION_DENIED);
	}
	if (row->kind == OF_MANAGEMENT)
		expect(f, row, NULL, stand->all_policies, STATUS_PERMISSION_DENIED);
	else
		expect_allowed(f, row, NULL, stand->all_policies);
	if (row->policy) {
		cleanup_free char *exact = token_for(f, row->policy, "default");
		cleanup_free char *elsewhere = token_for(f, row->policy, "team-b");

		expect_allowed(f, row, NULL, exact);
		if (row->kind == OF_NAMESPACE)
			expect(f, row, NULL, elsewhere, STATUS_PERMISSION_DENIED);
	}
	if (row->not_enough) {
		cleanup_free char *less = token_for(f, row->not_enough, "default");

		expect(f, row, NULL, less, STATUS_PERMISSION_DENIED);
	}
	expect_allowed(f, row, NULL, stand->management);
	expect_allowed(f, row, OPERATOR, NULL);
}

static void check_nodes(const struct stand *stand, const struct row *row)
{
	struct fixture *f = stand->f;

	expect(f, row, NULL, stand->management, STATUS_UNAUTHENTICATED);
	expect(f, row, OPERATOR, NULL, STATUS_PERMISSION_DENIED);
	expect(f, row, OPERATOR, stand->management, STATUS_PERMISSION_DENIED);
	expect_allowed(f, row, "holdfast://c1/node/n1", NULL);
	if (str_eq(row->method, "Volumes.Claim")) /* for an allocation of another node */
		expect(f, row, "holdfast://c1/node/n2", NULL, STATUS_PERMISSION_DENIED);
}

static void each_method_is_open_to_whom_it_is_for_and_to_nobody_else(void **state)
{
	struct fixture *f = *state;
	struct stand stand;

	take_volume(f);
	stand_init(&stand, f);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (!is_built(rows[i].method)) {
			expect(f, &rows[i], OPERATOR, NULL, STATUS_UNIMPLEMENTED);
			continue;
		}
		check_everybody(&stand, &rows[i]);
		if (rows[i].kind == OF_NODES)
			check_nodes(&stand, &rows[i]);
		else
			check_people(&stand, &rows[i]);
	}
	stand_release(&stand);
}

static void anonymous_is_an_operator_in_development_and_only_there(void **state)
{
	struct fixture *f = *state;
	const struct row status = {"Operator.Status", OF_NO_OBJECT, .request = "{}"};

	expect(f, &status, NULL, NULL, STATUS_UNAUTHENTICATED);
	f->server->config.dev = true;
	f->server->config.acl = false;
	expect(f, &status, NULL, NULL, STATUS_OK);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (is_built(rows[i].method) && rows[i].kind == OF_NODES)
			expect(f, &rows[i], NULL, NULL, STATUS_UNAUTHENTICATED);
		else if (is_built(rows[i].method))
			expect_allowed(f, &rows[i], NULL, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_method_has_one_row),
		cmocka_unit_test_setup_teardown(each_method_is_open_to_whom_it_is_for_and_to_nobody_else,
						setup_acl, teardown),
		cmocka_unit_test_setup_teardown(anonymous_is_an_operator_in_development_and_only_there,
						setup_acl, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
