/* SPDX-License-Identifier: Apache-2.0 */
/* Who may call what: every method of every service against every sort of caller, among them one that may do
 * everything but what is needed, and has the next lower level of that. A method that has no row fails the
 * test. */

#include "callers.h"
#include "http.h"
#include "services.h"
#include "unit.h"

#include "access/access.h"
#include "base/str.h"
#include "state/keys.h"
#include "state/records.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/fences.pb-c.h>
#include <holdfast/v1/jobs.pb-c.h>
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
	OF_FENCERS,    /* a fencer's certificate alone */
	OF_ANYBODY,    /* who may call anything at all */
	OF_NEW_NODES,  /* without identity: the token of the request counts, see test_enroll.c */
};

/* May a token that is bound to a node call it? */
enum bound {
	BOUND_NO,
	BOUND_TO_N1, /* only to n1, which the request is about */
	BOUND_ANY,
};

/* --- what a policy can give --- */

enum need {
	VOLUME_LIST,
	VOLUME_READ,
	VOLUME_MOUNT,
	VOLUME_WRITE,
	VOLUME_ATTEST,
	VOLUME_ADOPT,
	PLUGIN_REGISTER,
	UNIT_RUN,
	JOB_LIST,
	JOB_READ,
	JOB_SUBMIT,
	ALLOC_EXEC,
	READ_LOGS,
	N_WORDS,
	PLUGIN_LIST = N_WORDS,
	PLUGIN_READ,
	NODE_READ,
	NODE_WRITE,
	NODE_FENCE,
	OPERATOR_READ,
	OPERATOR_WRITE,
	BACKUP_KIT,
	BACKUP_COPY,
	N_NEEDS,
};

enum over { OVER_NAMESPACE, OVER_PLUGIN, OVER_NODE, OVER_OPERATOR, OVER_BACKUP, N_OVER };

static const char *const over_names[N_OVER] = {"namespaces", "plugin", "node", "operator", "backup"};
static const char *const over_most[N_OVER] = {NULL, "read", "fence", "write", "copy"};

/* Each word that gives it, the least of them first; of a level the word and the next lower one. */
static const struct {
	enum over over;
	const char *words[5];
} needs[N_NEEDS] = {
	[VOLUME_LIST] = {OVER_NAMESPACE,
			 {"csi-list-volume", "csi-read-volume", "csi-mount-volume", "list-jobs"}},
	[VOLUME_READ] = {OVER_NAMESPACE, {"csi-read-volume", "csi-mount-volume", "read-job"}},
	[VOLUME_MOUNT] = {OVER_NAMESPACE, {"csi-mount-volume"}},
	[VOLUME_WRITE] = {OVER_NAMESPACE, {"csi-write-volume"}},
	[VOLUME_ATTEST] = {OVER_NAMESPACE, {"csi-attest-volume"}},
	[VOLUME_ADOPT] = {OVER_NAMESPACE, {"csi-adopt-volume"}},
	[PLUGIN_REGISTER] = {OVER_NAMESPACE, {"csi-register-plugin"}},
	[UNIT_RUN] = {OVER_NAMESPACE, {"alloc-run-unit"}},
	[JOB_LIST] = {OVER_NAMESPACE, {"list-jobs"}},
	[JOB_READ] = {OVER_NAMESPACE, {"read-job"}},
	[JOB_SUBMIT] = {OVER_NAMESPACE, {"submit-job"}},
	[ALLOC_EXEC] = {OVER_NAMESPACE, {"alloc-exec"}},
	[READ_LOGS] = {OVER_NAMESPACE, {"read-logs"}},
	[PLUGIN_LIST] = {OVER_PLUGIN, {"list", ""}},
	[PLUGIN_READ] = {OVER_PLUGIN, {"read", "list"}},
	[NODE_READ] = {OVER_NODE, {"read", ""}},
	[NODE_WRITE] = {OVER_NODE, {"write", "read"}},
	[NODE_FENCE] = {OVER_NODE, {"fence", "write"}},
	[OPERATOR_READ] = {OVER_OPERATOR, {"read", ""}},
	[OPERATOR_WRITE] = {OVER_OPERATOR, {"write", "read"}},
	[BACKUP_KIT] = {OVER_BACKUP, {"kit", ""}},
	[BACKUP_COPY] = {OVER_BACKUP, {"copy", "kit"}},
};

#define N(name) (1U << (name))

struct row {
	const char *method;
	enum kind kind;
	unsigned int needs; /* exactly these */
	const char *request;
	enum bound bound;
	bool is_stream;
	const char *namespace; /* in which they are needed; NULL: default */
};

#define DB "\"id\": \"db\", \"namespace\": \"default\""
#define A_VOLUME                                                                                           \
	"\"type\": \"CSI\", \"plugin_id\": \"p\", \"requested_capabilities\": [{\"access_mode\": "         \
	"\"SINGLE_NODE_WRITER\", \"attachment_mode\": \"FILE_SYSTEM\"}], \"id\": \"new\", \"namespace\": " \
	"\"default\""
#define DETACH "{" DB ", \"node_id\": \"n1\""
#define RUN "{\"allocation\": {\"namespace\": \"default\", \"node_id\": \"n1\""
#define JOB                                                                                                  \
	"{\"job\": {\"id\": \"j\", \"namespace\": \"default\", \"type\": \"JOB_TYPE_SERVICE\", \"groups\": " \
	"[{\"name\": "                                                                                       \
	"\"g\", \"count\": 1"
#define NODE_LOSS "\"on_node_loss\": {\"after_ms\": \"5000\", \"do\": \"NODE_LOSS_ACTION_POWER_FENCE\"}"
#define WATCH(topic) "{\"topics\": [\"" topic "\"], \"namespace\": \"default\"}"
#define A_TOKEN "01890000-0000-7000-8000-00000000000f"

/* Methods with requests that need different things have a row for each. */
static const struct row rows[] = {
	{"Volumes.Register", OF_NAMESPACE, N(VOLUME_WRITE) | N(PLUGIN_READ),
	 "{\"volume\": {\"type\": \"CSI\", " DB "}}"},
	{"Volumes.Create", OF_NAMESPACE, N(VOLUME_WRITE) | N(PLUGIN_READ),
	 "{\"volume\": {\"type\": \"CSI\", " DB "}}"},
	/* that name what no record of the namespace has */
	{"Volumes.Register", OF_NAMESPACE, N(VOLUME_WRITE) | N(VOLUME_ADOPT) | N(PLUGIN_READ),
	 "{\"volume\": {" A_VOLUME ", \"external_id\": \"x\"}}"},
	{"Volumes.Create", OF_NAMESPACE, N(VOLUME_WRITE) | N(VOLUME_ADOPT) | N(PLUGIN_READ),
	 "{\"volume\": {" A_VOLUME ", \"clone_id\": \"x\"}}"},
	{"Volumes.Create", OF_NAMESPACE, N(VOLUME_WRITE) | N(VOLUME_ADOPT) | N(PLUGIN_READ),
	 "{\"volume\": {" A_VOLUME ", \"snapshot_id\": \"x\"}}"},
	{"Volumes.Get", OF_NAMESPACE, N(VOLUME_READ), "{" DB "}"},
	{"Volumes.List", OF_NAMESPACE, N(VOLUME_LIST), "{\"namespace\": \"default\"}"},
	{"Volumes.List", OF_NO_OBJECT, N(VOLUME_LIST), "{\"namespace\": \"*\"}"},
	{"Volumes.Deregister", OF_NAMESPACE, N(VOLUME_WRITE), "{" DB "}"},
	{"Volumes.Delete", OF_NAMESPACE, N(VOLUME_WRITE) | N(PLUGIN_READ), "{" DB "}"},
	{"Volumes.Expand", OF_NAMESPACE, N(VOLUME_WRITE) | N(PLUGIN_READ), "{" DB "}"},
	{"Volumes.Detach", OF_NAMESPACE, N(VOLUME_WRITE), DETACH "}", BOUND_TO_N1},
	{"Volumes.Detach", OF_NAMESPACE, N(VOLUME_WRITE) | N(VOLUME_ATTEST),
	 DETACH ", \"attest_reason\": \"r\"}"},
	{"Volumes.Detach", OF_NAMESPACE, N(VOLUME_WRITE) | N(VOLUME_ATTEST),
	 DETACH ", \"attest_reason\": \"r\", \"dry_run\": true}"},
	{"Volumes.Detach", OF_NAMESPACE, N(VOLUME_WRITE) | N(VOLUME_ATTEST),
	 DETACH ", \"fence_reason\": \"r\"}"},
	{"Volumes.Detach", OF_NAMESPACE, N(VOLUME_WRITE) | N(VOLUME_ATTEST),
	 DETACH ", \"without_plugin_reason\": \"r\"}"},
	{"Volumes.Claim", OF_NODES, 0,
	 "{\"volume_id\": \"db\", \"namespace\": \"default\", \"allocation_id\": \"" ALLOC_1
	 "\", \"volume_name\": \"data\"}"},
	{"Allocations.OrderTask", OF_NODES, 0, "{\"id\": \"" ALLOC_1 "\", \"task\": \"web\"}"},
	{"Volumes.ListExternal", OF_NO_OBJECT, N(VOLUME_LIST) | N(PLUGIN_READ), "{\"plugin_id\": \"p\"}"},
	{"Volumes.CreateSnapshot", OF_NAMESPACE, N(VOLUME_WRITE) | N(PLUGIN_READ),
	 "{\"volume_id\": \"db\", \"namespace\": \"default\", \"name\": \"s\"}"},
	/* of one that the server does not know */
	{"Volumes.DeleteSnapshot", OF_NO_OBJECT, N(OPERATOR_WRITE) | N(PLUGIN_READ),
	 "{\"plugin_id\": \"p\", \"snapshot_id\": \"s\"}"},
	/* of one that was made here: it is of its volume's namespace */
	{"Volumes.DeleteSnapshot", OF_NAMESPACE, N(VOLUME_WRITE) | N(PLUGIN_READ),
	 "{\"plugin_id\": \"p\", \"snapshot_id\": \"known\"}"},
	{"Volumes.ListSnapshots", OF_NO_OBJECT, N(VOLUME_LIST) | N(PLUGIN_READ), "{\"plugin_id\": \"p\"}"},
	{"Plugins.Get", OF_NO_OBJECT, N(PLUGIN_READ), "{\"id\": \"native\"}"},
	{"Plugins.List", OF_NO_OBJECT, N(PLUGIN_LIST), "{}"},
	{"Nodes.Enroll", OF_NEW_NODES, 0, "{}"},
	{"Nodes.Renew", OF_NODES, 0, "{}"},
	{"Nodes.Session", OF_NODES, 0, "{}", .is_stream = true},
	{"Nodes.TaskStream", OF_NODES, 0, "{}", .is_stream = true},
	{"Nodes.Get", OF_NO_OBJECT, N(NODE_READ), "{\"id\": \"n1\"}", BOUND_TO_N1},
	{"Nodes.List", OF_NO_OBJECT, N(NODE_READ), "{}"},
	{"Nodes.SetEligibility", OF_NO_OBJECT, N(NODE_WRITE), "{\"id\": \"n1\", \"eligible\": true}",
	 BOUND_TO_N1},
	{"Nodes.Drain", OF_NO_OBJECT, N(NODE_WRITE), "{\"id\": \"n1\", \"cancel\": true}", BOUND_TO_N1},
	{"Nodes.Purge", OF_NAMESPACE, N(OPERATOR_WRITE) | N(VOLUME_ATTEST), "{\"id\": \"n1\"}",
	 .namespace = "*"},
	{"Nodes.Identify", OF_NAMESPACE, N(OPERATOR_WRITE) | N(VOLUME_ATTEST), "{\"id\": \"n1\"}",
	 .namespace = "*"},
	{"Nodes.Attest", OF_NAMESPACE, N(OPERATOR_WRITE) | N(VOLUME_ATTEST),
	 "{\"id\": \"n1\", \"dry_run\": true, \"volumes\": [{" DB "}]}"},
	{"Nodes.Attest", OF_NAMESPACE, N(OPERATOR_WRITE) | N(VOLUME_ATTEST),
	 "{\"id\": \"n1\", \"valid_ms\": 1000, \"volumes\": [{\"id\": \"none\"}, {" DB "}]}"},
	{"Nodes.Attest", OF_NO_OBJECT, N(OPERATOR_WRITE), "{\"id\": \"n1\"}"}, /* of no volume: refused */
	{"Allocations.Run", OF_NAMESPACE, N(JOB_SUBMIT) | N(VOLUME_MOUNT), RUN "}}", BOUND_TO_N1},
	{"Allocations.Run", OF_NAMESPACE, N(JOB_SUBMIT) | N(VOLUME_MOUNT) | N(PLUGIN_REGISTER),
	 RUN ", \"csi_plugins\": [{}]}}", BOUND_TO_N1},
	{"Allocations.Run", OF_NAMESPACE, N(JOB_SUBMIT) | N(VOLUME_MOUNT) | N(UNIT_RUN),
	 RUN ", \"unit\": \"a.service\"}}", BOUND_TO_N1},
	{"Allocations.Run", OF_NAMESPACE, N(JOB_SUBMIT) | N(VOLUME_MOUNT) | N(UNIT_RUN),
	 RUN ", \"driver\": \"systemd\"}}", BOUND_TO_N1},
	{"Allocations.Run", OF_NAMESPACE, N(JOB_SUBMIT) | N(VOLUME_MOUNT) | N(VOLUME_WRITE),
	 RUN ", " NODE_LOSS "}}", BOUND_TO_N1},
	{"Allocations.Run", OF_NAMESPACE, N(JOB_SUBMIT) | N(VOLUME_MOUNT),
	 "{\"allocation\": {\"namespace\": \"default\"}}"}, /* wherever there is room */
	{"Allocations.Run", OF_NAMESPACE, N(JOB_SUBMIT) | N(VOLUME_MOUNT), "{}"},
	{"Allocations.Stop", OF_NAMESPACE, N(JOB_SUBMIT), "{\"id\": \"" ALLOC_1 "\"}", BOUND_TO_N1},
	{"Allocations.Get", OF_NAMESPACE, N(JOB_READ), "{\"id\": \"" ALLOC_1 "\"}", BOUND_TO_N1},
	{"Allocations.List", OF_NAMESPACE, N(JOB_LIST), "{\"namespace\": \"default\"}", BOUND_ANY},
	{"Allocations.List", OF_NO_OBJECT, N(JOB_LIST), "{\"namespace\": \"*\"}", BOUND_ANY},
	{"Allocations.List", OF_NAMESPACE, N(JOB_LIST), "{\"namespace\": \"default\", \"node_id\": \"n1\"}",
	 BOUND_TO_N1},
	{"Allocations.Exec", OF_NAMESPACE, N(ALLOC_EXEC), "{\"id\": \"" ALLOC_1 "\"}", .is_stream = true},
	{"Allocations.Logs", OF_NAMESPACE, N(READ_LOGS), "{\"id\": \"" ALLOC_1 "\"}", .is_stream = true},
	{"Allocations.Stats", OF_NAMESPACE, N(JOB_READ), "{\"id\": \"" ALLOC_1 "\"}", .is_stream = true},
	{"Jobs.Run", OF_NAMESPACE, N(JOB_SUBMIT) | N(VOLUME_MOUNT), JOB "}]}}"},
	{"Jobs.Run", OF_NAMESPACE, N(JOB_SUBMIT) | N(VOLUME_MOUNT) | N(PLUGIN_REGISTER),
	 JOB ", \"allocation\": {\"csi_plugins\": [{\"id\": \"p\"}]}}]}}"},
	{"Jobs.Run", OF_NAMESPACE, N(JOB_SUBMIT) | N(VOLUME_MOUNT) | N(UNIT_RUN),
	 JOB ", \"allocation\": {\"driver\": \"systemd\"}}]}}"},
	{"Jobs.Run", OF_NAMESPACE, N(JOB_SUBMIT) | N(VOLUME_MOUNT) | N(VOLUME_WRITE),
	 JOB ", \"allocation\": {}, " NODE_LOSS "}]}}"},
	{"Jobs.Plan", OF_NAMESPACE, N(JOB_SUBMIT) | N(VOLUME_MOUNT), JOB "}]}}"},
	{"Jobs.Plan", OF_NAMESPACE, N(JOB_SUBMIT) | N(VOLUME_MOUNT) | N(PLUGIN_REGISTER),
	 JOB ", \"allocation\": {\"csi_plugins\": [{\"id\": \"p\"}]}}]}}"},
	{"Jobs.Get", OF_NAMESPACE, N(JOB_READ), "{\"id\": \"j\", \"namespace\": \"default\"}"},
	{"Jobs.List", OF_NAMESPACE, N(JOB_LIST), "{\"namespace\": \"default\"}"},
	{"Jobs.Stop", OF_NAMESPACE, N(JOB_SUBMIT), "{\"id\": \"j\", \"namespace\": \"default\"}"},
	{"Jobs.History", OF_NAMESPACE, N(JOB_READ), "{\"id\": \"j\", \"namespace\": \"default\"}"},
	{"Jobs.Revert", OF_NAMESPACE, N(JOB_SUBMIT) | N(VOLUME_MOUNT),
	 "{\"id\": \"j\", \"namespace\": \"default\"}"},
	{"Jobs.Scale", OF_NAMESPACE, N(JOB_SUBMIT) | N(VOLUME_MOUNT),
	 "{\"id\": \"j\", \"namespace\": \"default\", \"count\": 2}"},
	{"Jobs.Restart", OF_NAMESPACE, N(JOB_SUBMIT) | N(VOLUME_MOUNT),
	 "{\"id\": \"j\", \"namespace\": \"default\"}"},
	{"Fences.Session", OF_FENCERS, 0, "{}", .is_stream = true},
	{"Fences.Fence", OF_NO_OBJECT, N(NODE_FENCE), "{\"id\": \"n1\", \"reason\": \"r\"}"},
	{"Fences.Test", OF_NO_OBJECT, N(NODE_FENCE), "{\"id\": \"n1\"}"},
	{"Fences.Get", OF_NO_OBJECT, N(NODE_READ), "{\"id\": \"n1\"}", BOUND_TO_N1},
	{"Fences.List", OF_NO_OBJECT, N(NODE_READ), "{}"},
	{"Fences.SetAutomatic", OF_NO_OBJECT, N(NODE_FENCE), "{\"reason\": \"r\"}"},
	{"Fences.Plan", OF_NO_OBJECT, N(NODE_READ), "{}"},
	{"Operator.Status", OF_NO_OBJECT, N(OPERATOR_READ), "{}"},
	{"Operator.Metrics", OF_NO_OBJECT, N(OPERATOR_READ), "{}"},
	{"Operator.ListMembers", OF_NO_OBJECT, N(OPERATOR_READ), "{}"},
	{"Operator.StepDown", OF_NO_OBJECT, N(OPERATOR_WRITE), "{}"},
	{"Operator.Gc", OF_NO_OBJECT, N(OPERATOR_WRITE), "{\"dry_run\": true}"},
	{"Operator.BeginBackup", OF_NO_OBJECT, N(BACKUP_COPY), "{}"},
	{"Operator.BeginBackup", OF_NO_OBJECT, N(BACKUP_KIT), "{\"kit\": true}"},
	{"Operator.BeginBackup", OF_MANAGEMENT, 0, "{\"kit\": true, \"passphrase\": \"short\"}"},
	{"Operator.ReadBackup", OF_NO_OBJECT, N(BACKUP_KIT), "{}"},
	{"Operator.BeginRestore", OF_MANAGEMENT, 0, "{}"},
	{"Operator.WriteRestore", OF_MANAGEMENT, 0, "{}"},
	{"Operator.ApplyRestore", OF_MANAGEMENT, 0, "{}"},
	{"Operator.BootstrapToken", OF_MANAGEMENT, 0, "{}"},
	{"Operator.CreateToken", OF_MANAGEMENT, 0, "{}"},
	{"Operator.ListTokens", OF_MANAGEMENT, 0, "{}"},
	{"Operator.RevokeToken", OF_MANAGEMENT, 0, "{\"accessor\": \"" A_TOKEN "\"}"},
	{"Operator.RotateKey", OF_MANAGEMENT, 0, "{}"},
	{"Operator.GetCa", OF_NO_OBJECT, N(OPERATOR_READ), "{}"},
	{"Operator.ChangeCa", OF_MANAGEMENT, 0, "{\"finish\": true}"},
	{"Operator.WhoAmI", OF_ANYBODY, 0, "{}", BOUND_ANY},
	{"Operator.PutPolicy", OF_MANAGEMENT, 0, "{}"},
	{"Operator.ListPolicies", OF_MANAGEMENT, 0, "{}"},
	{"Operator.DeletePolicy", OF_MANAGEMENT, 0, "{\"name\": \"none\"}"},
	{"Operator.RevokeCertificate", OF_MANAGEMENT, 0, "{\"serial\": \"0A\"}"},
	{"Operator.ListRevocations", OF_NO_OBJECT, N(OPERATOR_READ), "{}"},
	{"Operator.CreateEnrollment", OF_MANAGEMENT, 0, "{\"node\": \"n9\"}"},
	{"Operator.CreateEnrollment", OF_MANAGEMENT, 0, "{\"identity\": \"operator/x\"}"},
	{"Operator.IssueCertificate", OF_MANAGEMENT, 0, "{\"identity\": \"node/n9\"}"},
	{"Operator.ListAudit", OF_NO_OBJECT, N(OPERATOR_READ), "{}"},
	{"Operator.ListTrails", OF_NO_OBJECT, N(OPERATOR_READ), "{}"},
	{"Operator.AcceptTrail", OF_MANAGEMENT, 0, "{\"node_id\": \"n1\", \"reason\": \"r\"}"},
	{"Operator.Watch", OF_NAMESPACE, N(VOLUME_READ), WATCH("volume"), .is_stream = true},
	{"Operator.Watch", OF_NAMESPACE, N(VOLUME_READ), WATCH("claim"), .is_stream = true},
	{"Operator.Watch", OF_NAMESPACE, N(JOB_READ), WATCH("allocation"), .is_stream = true},
	{"Operator.Watch", OF_NAMESPACE, N(JOB_READ), WATCH("job"), .is_stream = true},
	{"Operator.Watch", OF_NO_OBJECT, N(NODE_READ), WATCH("node"), .is_stream = true},
	{"Operator.Watch", OF_NO_OBJECT, N(PLUGIN_READ), WATCH("plugin"), .is_stream = true},
};

static const ProtobufCServiceDescriptor *const all_services[] = {
	&holdfast__v1__volumes__descriptor, &holdfast__v1__plugins__descriptor,
	&holdfast__v1__nodes__descriptor,   &holdfast__v1__allocations__descriptor,
	&holdfast__v1__jobs__descriptor,    &holdfast__v1__operator__descriptor,
	&holdfast__v1__fences__descriptor,
};

TEST(every_method_has_a_row)
{
	for (size_t i = 0; i < ARRAY_SIZE(all_services); i++)
		for (unsigned int j = 0; j < all_services[i]->n_methods; j++) {
			char name[128];
			int found = 0;

			(void)str_format(name, sizeof(name), "%s.%s", all_services[i]->short_name,
					 all_services[i]->methods[j].name);
			for (size_t k = 0; k < ARRAY_SIZE(rows); k++)
				found += str_eq(rows[k].method, name);
			assert_msg(found != 0, "%s has no row", name);
		}
	for (size_t i = 0; i < n_services; i++) { /* nothing is served that was not looked at */
		bool known = false;

		for (size_t j = 0; j < ARRAY_SIZE(all_services); j++)
			known |= services[i].descriptor == all_services[j];
		assert_true(known);
		for (size_t j = 0; j < services[i].n_methods; j++) {
			assert_non_null(services[i].methods[j].rule);
			assert_int_not_equal(services[i].methods[j].rule->right, ACCESS_NONE);
		}
	}
}

/* --- fields that name a scope --- */

/* Fields that no row of server/services.c names, and what checks them instead. */
static const struct {
	const char *method, *field;
} checked_elsewhere[] = {
	{"Volumes.List", "node_id"},		     /* narrows what the namespace's right shows */
	{"Volumes.Claim", "namespace"},		     /* the allocation's own */
	{"Nodes.Session", "hello.node_id"},	     /* the certificate's */
	{"Allocations.Exec", "command.namespace"},   /* the server sets it */
	{"Allocations.OrderTask", "namespace"},	     /* compared with the allocation's own */
	{"Nodes.Session", "alloc.namespace"},	     /* likewise */
	{"Nodes.Attest", "volumes.namespace"},	     /* its rule names all of volumes */
	{"Operator.Watch", "namespace"},	     /* per topic */
	{"Operator.AcceptTrail", "node_id"},	     /* for management only */
	{"Operator.CreateToken", "token.namespace"}, /* likewise */
};

static bool is_scope(const char *field)
{
	return str_eq(field, "namespace") || str_eq(field, "node_id");
}

static void check_scope(const struct rpc_rule *rule, const char *method, const char *field)
{
	if ((rule->namespaces && str_eq(rule->namespaces, field)) ||
	    (rule->field && str_eq(rule->field, field)))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(checked_elsewhere); i++)
		if (str_eq(checked_elsewhere[i].method, method) && str_eq(checked_elsewhere[i].field, field))
			return;
	fail_msg("%s: no rule checks the field %s", method, field);
}

/* Of the request and of the messages in it. */
TEST(every_field_that_names_a_scope_is_checked_by_a_rule)
{
	for (size_t i = 0; i < n_services; i++)
		for (size_t j = 0; j < services[i].n_methods; j++) {
			const struct rpc_method *served = &services[i].methods[j];
			const ProtobufCMethodDescriptor *method =
				protobuf_c_service_descriptor_get_method_by_name(services[i].descriptor,
										 served->name);
			char name[128], path[128];

			(void)str_format(name, sizeof(name), "%s.%s", services[i].descriptor->short_name,
					 served->name);
			for (unsigned int k = 0; k < method->input->n_fields; k++) {
				const ProtobufCFieldDescriptor *field = &method->input->fields[k];
				const ProtobufCMessageDescriptor *inner =
					field->type == PROTOBUF_C_TYPE_MESSAGE ? field->descriptor : NULL;

				if (is_scope(field->name))
					check_scope(served->rule, name, field->name);
				for (unsigned int l = 0; inner && l < inner->n_fields; l++) {
					(void)str_format(path, sizeof(path), "%s.%s", field->name,
							 inner->fields[l].name);
					if (is_scope(inner->fields[l].name))
						check_scope(served->rule, name, path);
				}
			}
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
	char *no_policies, *all_policies;
	char *all_but[N_NEEDS]; /* everything else, and the next lower level of this */
	char *of_n1, *of_n2;	/* everything, bound to the node */
	char *management, *expired;
};

/* What a policy gives: words in a namespace, and a level over each of the others. */
struct gift {
	const char *namespace;
	unsigned int words; /* of needs */
	const char *levels[N_OVER];
};

/* A token with a policy of its own that gives it; @node NULL: not bound. */
static char *token_with(struct fixture *f, const struct gift *gift, const char *node)
{
	static unsigned int n;
	char name[32], text[2048];
	size_t at;

	(void)str_format(name, sizeof(name), "p%u", n++);
	at = (size_t)str_format(text, sizeof(text),
				"{\"policy\": {\"name\": \"%s\", \"namespaces\": [{\"namespace\": \"%s\", "
				"\"capabilities\": [",
				name, gift->namespace);
	for (int i = 0; i < N_WORDS; i++)
		if (gift->words & N(i))
			at += (size_t)str_format(text + at, sizeof(text) - at, "%s\"%s\"",
						 text[at - 1] == '[' ? "" : ", ", needs[i].words[0]);
	at += (size_t)str_format(text + at, sizeof(text) - at, "]}]");
	for (int i = OVER_PLUGIN; i < N_OVER; i++)
		if (gift->levels[i])
			at += (size_t)str_format(text + at, sizeof(text) - at, ", \"%s\": \"%s\"",
						 over_names[i], gift->levels[i]);
	(void)str_format(text + at, sizeof(text) - at, "}}");
	operator_does(f, "Operator.PutPolicy", text);
	(void)str_format(text, sizeof(text),
			 "{\"name\": \"%s\", \"type\": \"CLIENT\", \"policies\": [\"%s\"], \"node\": \"%s\"}",
			 name, name, node ? node : "");
	return make_token(f, text);
}

static struct gift everything(void)
{
	struct gift gift = {.namespace = "*", .words = N(N_WORDS) - 1};

	for (int i = OVER_PLUGIN; i < N_OVER; i++)
		gift.levels[i] = over_most[i];
	return gift;
}

static bool gives(enum need need, const char *word)
{
	for (size_t i = 0; i < ARRAY_SIZE(needs[need].words) && needs[need].words[i]; i++)
		if (str_eq(needs[need].words[i], word))
			return true;
	return false;
}

static struct gift everything_but(enum need need)
{
	struct gift gift = everything();

	if (needs[need].over != OVER_NAMESPACE) {
		gift.levels[needs[need].over] = needs[need].words[1];
		return gift;
	}
	for (int i = 0; i < N_WORDS; i++)
		if (gives(need, needs[i].words[0]))
			gift.words &= ~N(i);
	return gift;
}

static struct gift exactly(unsigned int wanted, const char *namespace)
{
	struct gift gift = {.namespace = namespace, .words = wanted & (N(N_WORDS) - 1)};

	for (int i = N_WORDS; i < N_NEEDS; i++)
		if (wanted & N(i))
			gift.levels[needs[i].over] = needs[i].words[0];
	return gift;
}

static void expire(struct fixture *f, const char *name)
{
	struct record_entry *entry = records_from(&f->server->state.records, PREFIX_TOKEN);

	for (; entry && str_starts_with(entry->key, PREFIX_TOKEN); entry = records_next(entry)) {
		Holdfast__V1__Token *token = ((Holdfast__V1__StoredToken *)entry->record.message)->token;

		if (str_eq(token->name, name))
			token->expires_at_ms = 1;
	}
}

static void remember_snapshot(struct fixture *f)
{
	char key[] = PREFIX_SNAPSHOT "p/default/made";
	Holdfast__V1__Snapshot snapshot = V1(snapshot, .plugin_id = "p", .name = "made",
					     .snapshot_id = "known", .namespace_ = "default");
	const struct record record = {.key = key, .message = &snapshot.base};

	assert_int_equal(records_put(&f->server->state.records, &record, NULL), STATUS_OK);
}

static const char *const revoked[] = {"operator/revoked", "node/revoked", "fencer/revoked", "server/revoked"};

/* With all certificates that the test issues to them later. */
static void revoke_all_of(struct fixture *f, const char *identity)
{
	char key[OBJECT_KEY_SIZE];
	Holdfast__V1__Revocation revocation =
		V1(revocation, .identity = TEXT(identity), .revoked_at_ms = INT64_MAX);
	const struct record record = {.key = key, .message = &revocation.base};

	(void)str_format(key, sizeof(key), PREFIX_REVOCATION "id/%s", identity);
	assert_int_equal(records_put(&f->server->state.records, &record, NULL), STATUS_OK);
}

static void stand_init(struct stand *stand, struct fixture *f)
{
	const struct gift all = everything();

	remember_snapshot(f);
	for (size_t i = 0; i < ARRAY_SIZE(revoked); i++)
		revoke_all_of(f, revoked[i]);
	*stand = (struct stand)ROW(.f = f,
				   .no_policies = make_token(f, "{\"name\": \"none\", \"type\": \"CLIENT\"}"),
				   .management =
					   make_token(f, "{\"name\": \"root\", \"type\": \"MANAGEMENT\"}"),
				   .expired = make_token(f, "{\"name\": \"old\", \"type\": \"MANAGEMENT\"}"),
				   .all_policies = token_with(f, &all, NULL),
				   .of_n1 = token_with(f, &all, "n1"), .of_n2 = token_with(f, &all, "n2"));
	for (int i = 0; i < N_NEEDS; i++) {
		const struct gift gift = everything_but((enum need)i);

		stand->all_but[i] = token_with(f, &gift, NULL);
	}
	expire(f, "old");
}

/* Connections are kept: a handshake takes longer than all that a call does. */
enum { KEPT_MAX = 64 };

static struct kept {
	char *uri, *token; /* owned; NULL: none */
	struct caller_client caller;
	bool is_used;
} kept[KEPT_MAX];
static size_t next_kept;

static void close_kept(struct kept *one)
{
	if (one->is_used)
		caller_release(&one->caller);
	free(one->uri);
	free(one->token);
	*one = (struct kept){.is_used = false};
}

static bool is_same(const char *a, const char *b)
{
	return a && b ? str_eq(a, b) : a == b;
}

static struct caller_client *caller_of(struct fixture *f, const char *uri, const char *token)
{
	struct kept *one;

	for (size_t i = 0; i < KEPT_MAX; i++)
		if (kept[i].is_used && is_same(kept[i].uri, uri) && is_same(kept[i].token, token))
			return &kept[i].caller;
	one = &kept[next_kept++ % KEPT_MAX];
	close_kept(one);
	one->uri = uri ? strdup(uri) : NULL;
	one->token = token ? strdup(token) : NULL;
	one->is_used = true;
	caller_init(&one->caller, f, uri, token);
	return &one->caller;
}

static int teardown_callers(void **state)
{
	for (size_t i = 0; i < KEPT_MAX; i++)
		close_kept(&kept[i]);
	return teardown(state);
}

static void stand_release(struct stand *stand)
{
	free(stand->no_policies);
	free(stand->all_policies);
	for (int i = 0; i < N_NEEDS; i++)
		free(stand->all_but[i]);
	free(stand->of_n1);
	free(stand->of_n2);
	free(stand->management);
	free(stand->expired);
}

static enum status try_by(struct caller_client *caller, const struct row *row)
{
	return row->is_stream ? caller_stream(caller, row->method, row->request)
			      : caller_call(caller, row->method, row->request, NULL, NULL);
}

static enum status try(struct fixture *f, const struct row *row, const char *uri, const char *token)
{
	return try_by(caller_of(f, uri, token), row);
}

static void expect(struct fixture *f, const struct row *row, const char *uri, const char *token,
		   enum status expected)
{
	enum status status = try(f, row, uri, token);

	assert_msg(status == expected, "%s by %s %s: %s instead of %s", row->method, uri ? uri : "nobody",
		   token ? "with a token" : "without a token", status_name(status), status_name(expected));
}

static void expect_allowed(struct fixture *f, const struct row *row, const char *uri, const char *token)
{
	enum status status = try(f, row, uri, token);

	if (status == STATUS_UNAUTHENTICATED || status == STATUS_PERMISSION_DENIED)
		fail_msg("%s by %s %s: %s", row->method, uri ? uri : "nobody",
			 token ? "with a token" : "without a token", status_name(status));
}

#define OPERATOR "holdfast://c1/operator/ann"

#define NODE "holdfast://c1/node/n1"
#define FENCER "holdfast://c1/fencer/f1"

enum ally { AN_OPERATOR, A_NODE, A_FENCER, N_ALLIES };

static const char *const allies[N_ALLIES] = {OPERATOR, NODE, FENCER};

/* Each makes a new handshake for each call. */
static struct caller_client faulty[N_ALLIES][CERTIFICATE_FAULT_N];

static void faulty_init(struct fixture *f)
{
	for (int i = 0; i < N_ALLIES; i++)
		for (int fault = 0; fault < CERTIFICATE_FAULT_N; fault++)
			caller_init_faulty(&faulty[i][fault], f, allies[i], (enum certificate_fault)fault);
}

static void faulty_release(void)
{
	for (int i = 0; i < N_ALLIES; i++)
		for (int fault = 0; fault < CERTIFICATE_FAULT_N; fault++)
			caller_release(&faulty[i][fault]);
}

static enum ally ally_of(const struct row *row)
{
	if (row->kind == OF_NODES || row->kind == OF_NEW_NODES)
		return A_NODE;
	return row->kind == OF_FENCERS ? A_FENCER : AN_OPERATOR;
}

/* The identity that may call the method, with a certificate that is no good. */
static void check_faulty(struct fixture *f, const struct row *row)
{
	for (int fault = 0; fault < CERTIFICATE_FAULT_N; fault++) {
		enum status status = try_by(&faulty[ally_of(row)][fault], row);

		if (status != STATUS_UNAVAILABLE) /* the handshake fails */
			fail_msg("%s by %s with fault %d: %s", row->method, allies[ally_of(row)], fault,
				 status_name(status));
	}
	for (size_t i = 0; i < ARRAY_SIZE(revoked); i++) {
		char uri[64];

		(void)str_format(uri, sizeof(uri), "holdfast://c1/%s", revoked[i]);
		expect(f, row, uri, NULL, STATUS_UNAUTHENTICATED);
	}
}

/* What no row makes an exception of. */
static void check_everybody(const struct stand *stand, const struct row *row)
{
	expect(stand->f, row, NULL, NULL, STATUS_UNAUTHENTICATED);
	expect(stand->f, row, "holdfast://c2/operator/ann", NULL, STATUS_UNAUTHENTICATED);
	expect(stand->f, row, "holdfast://c2/node/n1", NULL, STATUS_UNAUTHENTICATED);
	expect(stand->f, row, NULL, stand->expired, STATUS_UNAUTHENTICATED);
	expect(stand->f, row, "holdfast://c1/driver/d1", NULL, STATUS_UNAUTHENTICATED); /* calls no server */
	expect(stand->f, row, "holdfast://c1/operator/revoked", stand->management, STATUS_UNAUTHENTICATED);
	expect(stand->f, row, "holdfast://c1/node/n1", stand->management, STATUS_PERMISSION_DENIED);
	expect(stand->f, row, "holdfast://c1/server/s1", stand->management, STATUS_PERMISSION_DENIED);
	expect(stand->f, row, "holdfast://c1/server/s1", NULL, STATUS_PERMISSION_DENIED);
	expect(stand->f, row, "holdfast://c1/fencer/f1", stand->management, STATUS_PERMISSION_DENIED);
	if (row->kind != OF_FENCERS)
		expect(stand->f, row, "holdfast://c1/fencer/f1", NULL, STATUS_PERMISSION_DENIED);
}

/* Exactly what is needed is enough, everything else is not. */
static void check_needs(const struct stand *stand, const struct row *row)
{
	const char *namespace = row->namespace ? row->namespace : "default";
	const struct gift exact = exactly(row->needs, namespace);
	const struct gift elsewhere = exactly(row->needs, "team-b");
	cleanup_free char *here = NULL;
	cleanup_free char *there = NULL;

	if (row->needs == 0)
		return;
	here = token_with(stand->f, &exact, NULL);
	there = token_with(stand->f, &elsewhere, NULL);
	expect_allowed(stand->f, row, NULL, here);
	if (row->kind == OF_NAMESPACE)
		expect(stand->f, row, NULL, there,
		       strstr(row->request, ALLOC_1) ? STATUS_NOT_FOUND : STATUS_PERMISSION_DENIED);
	for (int i = 0; i < N_NEEDS; i++) {
		if (!(row->needs & N(i)))
			continue;
		expect(stand->f, row, NULL, stand->all_but[i], STATUS_PERMISSION_DENIED);
		expect(stand->f, row, OPERATOR, stand->all_but[i], STATUS_PERMISSION_DENIED);
	}
}

static void check_bound(const struct stand *stand, const struct row *row)
{
	if (row->bound == BOUND_NO)
		expect(stand->f, row, NULL, stand->of_n1, STATUS_PERMISSION_DENIED);
	else
		expect_allowed(stand->f, row, NULL, stand->of_n1);
	if (row->bound == BOUND_ANY)
		expect_allowed(stand->f, row, NULL, stand->of_n2);
	else
		expect(stand->f, row, NULL, stand->of_n2, STATUS_PERMISSION_DENIED);
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
	check_needs(stand, row);
	check_bound(stand, row);
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

static void check_fencers(const struct stand *stand, const struct row *row)
{
	expect(stand->f, row, NULL, stand->management, STATUS_UNAUTHENTICATED);
	expect(stand->f, row, OPERATOR, NULL, STATUS_PERMISSION_DENIED);
	expect(stand->f, row, OPERATOR, stand->management, STATUS_PERMISSION_DENIED);
	expect(stand->f, row, "holdfast://c1/node/n1", NULL, STATUS_PERMISSION_DENIED);
	expect_allowed(stand->f, row, "holdfast://c1/fencer/f1", NULL);
}

TEST_ON(each_method_is_open_only_to_its_callers, struct fixture, f, setup_acl, teardown_callers)
{
	cleanup(stand_release) struct stand stand;

	take_volume(f);
	stand_init(&stand, f);
	faulty_init(f);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		if (!is_built(rows[i].method)) {
			expect(f, &rows[i], OPERATOR, NULL, STATUS_UNIMPLEMENTED);
			continue;
		}
		check_faulty(f, &rows[i]);
		if (rows[i].kind == OF_NEW_NODES) { /* the gate lets it pass; it is the only one */
			assert_string_equal(rows[i].method, "Nodes.Enroll");
			expect_allowed(f, &rows[i], NULL, NULL);
			continue;
		}
		check_everybody(&stand, &rows[i]);
		if (rows[i].kind == OF_NODES)
			check_nodes(&stand, &rows[i]);
		else if (rows[i].kind == OF_FENCERS)
			check_fencers(&stand, &rows[i]);
		else
			check_people(&stand, &rows[i]);
	}
	faulty_release();
}

#define ELSEWHERE "n2"

/* A request over HTTP as curl sends it; what it has to be answered with. */
static void expect_http(struct fixture *f, const struct http_request *request, const char *answer)
{
	const char *got = http_send(f, request);

	assert_msg(str_starts_with(got, answer), "%s %s %s: %.200s", request->method, request->target,
		   request->body ? request->body : "", got);
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup_acl, teardown)

CASE(a_bound_token_ends_and_sees_nothing_of_another_node)
{
	static const struct http_request refused[] = {
		{NULL, "DELETE", "/v1/volume/csi/db/detach?node=" ELSEWHERE},
		{NULL, "DELETE", "/v1/volume/csi/db/detach?node=" ELSEWHERE "&attest_reason=x"},
		{NULL, "DELETE", "/v1/volume/csi/db/detach?node=n1&attest_reason=x"},
		{NULL, "DELETE", "/v1/volume/csi/db/detach?node=n1&fence_reason=x"},
		{NULL, "DELETE", "/v1/volume/csi/db/detach"},
		{NULL, "DELETE", "/v1/volume/csi/db"},
		{NULL, "PUT", "/v1/allocation/" ALLOC_2 "/stop"},
		{NULL, "POST", "/v1/allocation/" ALLOC_2 "/stop"},
		{NULL, "GET", "/v1/allocation/" ALLOC_2},
		{NULL, "GET", "/v1/allocation/" ALLOC_2 "?index=1&wait_ms=10"},
		{NULL, "GET", "/v1/allocations?node_id=" ELSEWHERE},
		{NULL, "GET", "/v1/volumes"},
		{NULL, "GET", "/v1/volume/csi/db"},
		{NULL, "GET", "/v1/nodes"},
		{NULL, "GET", "/v1/node/" ELSEWHERE},
		{NULL, "PUT", "/v1/node/" ELSEWHERE "/drain"},
		{NULL, "PUT", "/v1/node/" ELSEWHERE "/eligibility?eligible=false"},
		{NULL, "PUT", "/v1/node/n1/purge"},
		{NULL, "GET", "/metrics"},
		{NULL, "POST", "/holdfast.v1.Allocations/Stop", "{\"id\": \"" ALLOC_2 "\"}"},
		{NULL, "POST", "/holdfast.v1.Allocations/Run",
		 "{\"allocation\": {\"id\": \"" ALLOC_3 "\", \"nodeId\": \"" ELSEWHERE "\"}}"},
		{NULL, "POST", "/holdfast.v1.Allocations/Run", "{\"allocation\": {\"id\": \"" ALLOC_2 "\"}}"},
		{NULL, "POST", "/holdfast.v1.Allocations/Run", "{\"allocation\": {\"nodeId\": \"n\"}}"},
		{NULL, "POST", "/holdfast.v1.Allocations/Run", "{\"allocation\": {\"nodeId\": \"n11\"}}"},
		{NULL, "POST", "/holdfast.v1.Nodes/Attest",
		 "{\"id\": \"n1\", \"reason\": \"x\", \"volumes\": [{\"id\": \"db\"}]}"},
	};
	const struct gift all = everything();
	cleanup_free char *token = NULL;
	const char *list;

	f->access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_MULTI_WRITER;
	take_volume(f);
	assert_int_equal(run_alloc(f, ALLOC_2, ELSEWHERE, NULL), STATUS_OK);
	token = token_with(f, &all, "n1");
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		struct http_request request = refused[i];

		request.token = token;
		expect_http(f, &request, "HTTP/1.1 403");
	}
	assert_int_equal(state_alloc(&f->server->state, ALLOC_2)->alloc.desired_status, DESIRED_RUN);
	list = http_send(f,
			 &(struct http_request)ROW(.method = "GET", .target = "/v1/allocations?namespace=*",
						   .token = token));
	assert_non_null(strstr(list, ALLOC_1));
	assert_null(strstr(list, ALLOC_2));
	expect_http(f,
		    &(struct http_request){
			    .method = "PUT", .target = "/v1/allocation/" ALLOC_3 "/stop", .token = token},
		    "HTTP/1.1 404");
	expect_http(f,
		    &(struct http_request){
			    .method = "PUT", .target = "/v1/allocation/" ALLOC_1 "/stop", .token = token},
		    "HTTP/1.1 200");
}

/* --- ids --- */

/* Fields that may be empty, and what that means. */
static const struct {
	const char *method, *field;
} optional[] = {
	{"Volumes.List", "plugin_id"},		/* of all */
	{"Volumes.List", "node_id"},		/* on all */
	{"Volumes.ListSnapshots", "volume_id"}, /* of all */
	{"Volumes.ListSnapshots", "plugin_id"}, /* of all */
	{"Allocations.List", "node_id"},	/* on all */
	{"Fences.Fence", "plugin_id"},		/* a power fence */
	{"Fences.Get", "plugin_id"},		/* the same */
};

static bool is_optional(const char *method, const char *field)
{
	for (size_t i = 0; i < ARRAY_SIZE(optional); i++)
		if (str_eq(optional[i].method, method) && str_eq(optional[i].field, field))
			return true;
	return false;
}

static bool is_id(const ProtobufCFieldDescriptor *field)
{
	size_t n = strlen(field->name);

	if (field->type != PROTOBUF_C_TYPE_STRING || field->label == PROTOBUF_C_LABEL_REPEATED)
		return false;
	return str_eq(field->name, "id") || str_eq(field->name, "accessor") ||
	       (n > 3 && str_eq(field->name + n - 3, "_id"));
}

static const ProtobufCMessageDescriptor *input_of(const char *method)
{
	for (size_t i = 0; i < ARRAY_SIZE(all_services); i++) {
		size_t n = strlen(all_services[i]->short_name);
		const ProtobufCMethodDescriptor *found = NULL;

		if (strncmp(all_services[i]->short_name, method, n) == 0 && method[n] == '.')
			found = protobuf_c_service_descriptor_get_method_by_name(all_services[i],
										 method + n + 1);
		if (found)
			return found->input;
	}
	fail_msg("%s is no method", method);
	return NULL;
}

/* The row's request but for one field, by who may do everything. */
static enum status try_empty(struct fixture *f, const struct row *row, const char *field)
{
	const char *uri = row->kind == OF_NODES ? "holdfast://c1/node/n1" : OPERATOR;
	cleanup(json_decrefp) json_t *request = json_loads(row->request, 0, NULL);
	struct row changed = *row;
	cleanup_free char *text = NULL;
	enum status status;

	assert_int_equal(json_object_set_new(request, field, json_string("")), 0);
	changed.request = text = json_dumps(request, JSON_COMPACT);
	status = try(f, &changed, uri, NULL);
	return status;
}

TEST_ON(an_empty_id_is_refused_by_every_method, struct fixture, f, setup_acl, teardown_callers)
{
	size_t n = 0;

	take_volume(f);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		const ProtobufCMessageDescriptor *input = input_of(rows[i].method);

		for (unsigned int k = 0; k < input->n_fields && !rows[i].is_stream; k++) {
			const char *field = input->fields[k].name;
			enum status status;

			if (!is_id(&input->fields[k]) || is_optional(rows[i].method, field))
				continue;
			status = try_empty(f, &rows[i], field);
			if (status != STATUS_INVALID_ARGUMENT && status != STATUS_NOT_FOUND)
				fail_msg("%s without %s: %s", rows[i].method, field, status_name(status));
			n++;
		}
	}
	assert_true(n > 20);
	expect_http(
		f,
		&(struct http_request){.cert = "operator", .method = "PUT", .target = "/v1/allocation//stop"},
		"HTTP/1.1 40");
	assert_int_equal(state_alloc(&f->server->state, ALLOC_1)->alloc.desired_status, DESIRED_RUN);
	assert_true(node_is_connected(state_node(&f->server->state, "n1")));
}

static void expect_metrics(struct fixture *f, char *token, const char *answer)
{
	const struct http_request get = {.method = "GET", .target = "/metrics", .token = token};

	assert_true(str_starts_with(http_send(f, &get), answer));
	free(token);
}

CASE(metrics_need_the_right_to_read_as_operator)
{
	const struct gift exact = exactly(N(OPERATOR_READ), "default");
	const struct gift less = everything_but(OPERATOR_READ);
	const struct gift all = everything();

	expect_metrics(f, token_with(f, &exact, NULL), "HTTP/1.1 200");
	expect_metrics(f, token_with(f, &less, NULL), "HTTP/1.1 403");
	expect_metrics(f, token_with(f, &all, "n1"), "HTTP/1.1 403");
}

CASE(a_read_that_waits_ends_at_its_deadline)
{
	char target[64];

	assert_true(str_format(target, sizeof(target), "/v1/nodes?index=%" PRIu64 "&wait_ms=60000",
			       kv_revision(f->server->kv)) > 0);
	expect_http(f,
		    &(struct http_request)ROW(.cert = "operator", .method = "GET", .target = target,
					      .header = "connect-timeout-ms: 50\r\n"),
		    "HTTP/1.1 504");
	UNTIL(f, f->server->n_watches == 0);
	expect_http(f, &(struct http_request){.cert = "operator", .method = "GET", .target = "/v1/nodes"},
		    "HTTP/1.1 200");
}

CASE(a_plugin_is_shown_with_the_allocations_that_the_caller_may_read)
{
	const struct http_request get = {.method = "GET", .target = "/v1/plugin/csi/ebs"};
	const struct gift enough = exactly(N(PLUGIN_READ) | N(JOB_READ), "default");
	const struct gift less = everything_but(JOB_READ);
	struct http_request with = get, without = get;
	cleanup_free char *exact = NULL;
	cleanup_free char *other = NULL;
	const char *answer;

	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	operator_does(
		f, "Allocations.Run",
		"{\"allocation\": {\"id\": \"" ALLOC_3
		"\", \"node_id\": \"n1\", \"name\": \"p\", \"csi_plugins\": [{\"id\": \"ebs\", \"type\": "
		"\"CSI_PLUGIN_TYPE_NODE\"}]}}");
	exact = token_with(f, &enough, NULL);
	with.token = exact;
	answer = http_send(f, &with);
	assert_non_null(strstr(answer, ALLOC_3));
	other = token_with(f, &less, NULL);
	without.token = other;
	answer = http_send(f, &without);
	assert_true(str_starts_with(answer, "HTTP/1.1 200"));
	assert_null(strstr(answer, ALLOC_3));
}

#define PLUGIN_JOB \
	JOB ", \"allocation\": {\"csi_plugins\": [{\"id\": \"p\", \"type\": \"CSI_PLUGIN_TYPE_NODE\"}]}}]}}"
#define VOLUME_JOB                                                                                     \
	JOB ", \"allocation\": {\"volumes\": [{\"name\": \"d\", \"source\": \"db\", \"access_mode\": " \
	    "\"SINGLE_NODE_WRITER\"}]}}]}}"

CASE(a_change_of_a_job_needs_the_rights_of_its_members)
{
	static const struct row changes[] = {
		{"Jobs.Revert", .request = "{\"id\": \"j\", \"version\": 1}"},
		{"Jobs.Scale", .request = "{\"id\": \"j\", \"count\": 1}"},
		{"Jobs.Restart", .request = "{\"id\": \"j\"}"},
	};
	const struct gift submit = exactly(N(JOB_SUBMIT) | N(VOLUME_MOUNT), "default");
	const struct gift enough = exactly(N(JOB_SUBMIT) | N(VOLUME_MOUNT) | N(PLUGIN_REGISTER), "default");
	cleanup_free char *less = token_with(f, &submit, NULL);
	cleanup_free char *exact = token_with(f, &enough, NULL);

	operator_does(f, "Jobs.Run", PLUGIN_JOB);
	for (size_t i = 0; i < ARRAY_SIZE(changes); i++)
		expect(f, &changes[i], NULL, less, STATUS_PERMISSION_DENIED);
	expect(f, &changes[0], NULL, exact, STATUS_OK);
	operator_does(f, "Jobs.Run", VOLUME_JOB); /* version 1 has the plugin */
	expect(f, &changes[0], NULL, less, STATUS_PERMISSION_DENIED);
	expect(f, &changes[0], NULL, exact, STATUS_OK);
}

CASE(anonymous_is_an_operator_in_development_and_only_there)
{
	const struct row status = {"Operator.Status", OF_NO_OBJECT, N(OPERATOR_READ), "{}"};

	expect(f, &status, NULL, NULL, STATUS_UNAUTHENTICATED);
	f->server->config.dev = true;
	f->server->config.acl = false;
	expect(f, &status, NULL, NULL, STATUS_OK);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (is_built(rows[i].method) && (rows[i].kind == OF_NODES || rows[i].kind == OF_FENCERS))
			expect(f, &rows[i], NULL, NULL, STATUS_UNAUTHENTICATED);
		else if (is_built(rows[i].method))
			expect_allowed(f, &rows[i], NULL, NULL);
}
