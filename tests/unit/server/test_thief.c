/* SPDX-License-Identifier: Apache-2.0 */
/* A table of what the thief of a node's certificate tries: each message that a node sends, and each method,
 * with values that are another node's, another namespace's or nobody's.
 *
 * The thief is n1, which has allocation 1 with volume "own". Node n2 has all else: allocation 2 with "db",
 * allocation 3 of namespace blue with "secret", and allocation 4, whose claim of "shared" waits for the
 * controller, which is on n2. After each attempt the operator looks at the server: nothing but what n1 may
 * report of itself has changed. tests/docs/check_thief.py counts the rows. */

#include "callers.h"
#include "cluster.h"
#include "unit.h"

#include "base/str.h"
#include "model/pb.h"
#include "rpc/pbjson.h"
#include "state/keys.h"
#include "state/records.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define BLUE "blue"
#define BLUE_3 "01890003-0000-7000-8164-77688c0e0069" /* an id of namespace blue */
#define ALLOC_4 "01890004-0000-7000-" ID_MARK
#define ATTACH HOLDFAST__V1__PLUGIN_CALL__REQUEST_ATTACH

enum via {
	HELLO,	/* a SessionHello that begins a session; node_id and boot_id are n1's where it names none */
	UP,	/* a SessionUp in n1's session */
	FIRST,	/* a SessionUp before hello */
	CALL,	/* a unary method */
	STREAM, /* the first message of a stream */
};

struct attempt {
	enum via via;
	const char *what;   /* the method; of messages what is tried */
	const char *json;   /* with $NAMES, see names[] */
	enum status status; /* with which session or call ends; STATUS_OK: it is taken, and has no effect */
};

static const struct attempt attempts[] = {
	/* the node's name, boot and machine */
	{HELLO, "another node's name", "{'node_id': 'n2'}", STATUS_PERMISSION_DENIED},
	{HELLO, "a node that does not exist", "{'node_id': 'n9'}", STATUS_PERMISSION_DENIED},
	{HELLO, "no name", "{'node_id': ''}", STATUS_PERMISSION_DENIED},
	{HELLO, "a path as name", "{'node_id': 'n1/../n2'}", STATUS_PERMISSION_DENIED},
	{HELLO, "no boot", "{'boot_id': ''}", STATUS_INVALID_ARGUMENT},
	{HELLO, "its boot, spelled otherwise", "{'boot_id': 'B0010000-0000-4000-8000-000000000001'}",
	 STATUS_INVALID_ARGUMENT},
	{HELLO, "another boot while it is connected", "{'boot_id': '$OTHER_BOOT'}", STATUS_ALREADY_EXISTS},
	{HELLO, "a machine that is no digest", "{'machine': '../../etc'}", STATUS_INVALID_ARGUMENT},
	{UP, "a second hello", "{'hello': {'node_id': 'n2', 'boot_id': '$BOOT'}}", STATUS_INVALID_ARGUMENT},
	{FIRST, "a receipt before hello",
	 "{'receipt': {'claim_id': '$DB_CLAIM', 'boot_id': '$BOOT', 'generation': '1', 'released': true}}",
	 STATUS_INVALID_ARGUMENT},
	{FIRST, "a status before hello", "{'alloc': {'alloc_id': '$DB_ALLOC', 'client_status': 'FAILED'}}",
	 STATUS_INVALID_ARGUMENT},
	/* allocations */
	/* refused alone, and on record: what the node holds itself is more important */
	{HELLO, "another node's allocation runs",
	 "{'allocs': [{'alloc_id': '$DB_ALLOC', 'client_status': 'RUNNING'}]}", STATUS_OK},
	{HELLO, "another node's allocation has failed",
	 "{'allocs': [{'alloc_id': '$DB_ALLOC', 'client_status': 'FAILED'}]}", STATUS_OK},
	{UP, "another node's allocation runs",
	 "{'alloc': {'alloc_id': '$DB_ALLOC', 'client_status': 'RUNNING', 'description': 'here'}}",
	 STATUS_OK},
	{UP, "another node's allocation is complete",
	 "{'alloc': {'alloc_id': '$DB_ALLOC', 'client_status': 'COMPLETE'}}", STATUS_OK},
	{UP, "another node's allocation has failed",
	 "{'alloc': {'alloc_id': '$DB_ALLOC', 'client_status': 'FAILED', 'code': 5}}", STATUS_OK},
	{UP, "another node's allocation is lost",
	 "{'alloc': {'alloc_id': '$DB_ALLOC', 'client_status': 'LOST'}}", STATUS_OK},
	{UP, "another namespace's allocation is complete",
	 "{'alloc': {'alloc_id': '$BLUE_ALLOC', 'client_status': 'COMPLETE'}}", STATUS_OK},
	{UP, "where another node's allocation is published",
	 "{'alloc': {'alloc_id': '$DB_ALLOC', 'client_status': 'RUNNING', 'published': [{'name': 'data', "
	 "'path': '/etc'}]}}",
	 STATUS_OK},
	{UP, "its allocation has another node's claim",
	 "{'alloc': {'alloc_id': '$OWN_ALLOC', 'client_status': 'RUNNING', 'published': [{'name': 'data', "
	 "'path': '/x', 'claim_id': '$DB_CLAIM'}]}}",
	 STATUS_UNAVAILABLE},
	{UP, "its allocation is published at the root of the host",
	 "{'alloc': {'alloc_id': '$OWN_ALLOC', 'client_status': 'RUNNING', 'published': [{'name': 'data', "
	 "'path': '/', 'claim_id': '$OWN_CLAIM'}]}}",
	 STATUS_OK},
	{UP, "its allocation is published at another one's path",
	 "{'alloc': {'alloc_id': '$OWN_ALLOC', 'client_status': 'RUNNING', 'published': [{'name': 'data', "
	 "'path': '/run/holdfast/publish/$DB_ALLOC/0', 'claim_id': '$OWN_CLAIM', 'is_device': true}]}}",
	 STATUS_OK},
	{UP, "its allocation has a volume that it never asked for",
	 "{'alloc': {'alloc_id': '$OWN_ALLOC', 'client_status': 'RUNNING', 'published': [{'name': 'db', "
	 "'path': '/run/holdfast/publish/$OWN_ALLOC/1'}]}}",
	 STATUS_OK},
	{UP, "a task that its allocation does not have",
	 "{'alloc': {'alloc_id': '$OWN_ALLOC', 'client_status': 'RUNNING', 'tasks': [{'task': 'evil'}]}}",
	 STATUS_OK},
	{UP, "no status",
	 "{'alloc': {'alloc_id': '$OWN_ALLOC', 'client_status': 'CLIENT_STATUS_UNSPECIFIED'}}",
	 STATUS_INVALID_ARGUMENT},
	{UP, "a path as allocation", "{'alloc': {'alloc_id': '../$DB_ALLOC', 'client_status': 'FAILED'}}",
	 STATUS_INVALID_ARGUMENT},
	/* claims: one of another node is as one that does not exist, and on record */
	{HELLO, "it has another node's claim mounted",
	 "{'mounted': [{'claim_id': '$DB_CLAIM', 'generation': '1'}]}", STATUS_OK},
	{HELLO, "it has another namespace's claim mounted",
	 "{'mounted': [{'claim_id': '$BLUE_CLAIM', 'generation': '1'}]}", STATUS_OK},
	{UP, "another node's claim is released",
	 "{'receipt': {'claim_id': '$DB_CLAIM', 'boot_id': '$BOOT', 'generation': '1', 'released': true}}",
	 STATUS_OK},
	{UP, "another node's claim is released, with the boot of that node",
	 "{'receipt': {'claim_id': '$DB_CLAIM', 'boot_id': '$DB_BOOT', 'generation': '1', 'released': true}}",
	 STATUS_OK},
	{UP, "another node's claim is mounted",
	 "{'receipt': {'claim_id': '$DB_CLAIM', 'boot_id': '$DB_BOOT', 'generation': '1', 'mounted': true}}",
	 STATUS_UNAVAILABLE},
	{UP, "another node's claim is released without its plugin",
	 "{'receipt': {'claim_id': '$DB_CLAIM', 'boot_id': '$DB_BOOT', 'generation': '1', 'released': true, "
	 "'without_plugin': true, 'kernel': 'nothing'}}",
	 STATUS_OK},
	{UP, "the release of another node's claim fails",
	 "{'receipt': {'claim_id': '$DB_CLAIM', 'boot_id': '$DB_BOOT', 'generation': '1', 'error': 'busy'}}",
	 STATUS_UNAVAILABLE},
	{UP, "another namespace's claim is released",
	 "{'receipt': {'claim_id': '$BLUE_CLAIM', 'boot_id': '$DB_BOOT', 'generation': '1', 'released': "
	 "true}}",
	 STATUS_OK},
	{UP, "a claim is mounted that its node was not given yet",
	 "{'receipt': {'claim_id': '$SHARED_CLAIM', 'boot_id': '$DB_BOOT', 'generation': '1', 'mounted': "
	 "true}}",
	 STATUS_UNAVAILABLE},
	{UP, "its claim is released, in another boot",
	 "{'receipt': {'claim_id': '$OWN_CLAIM', 'boot_id': '$OTHER_BOOT', 'generation': '1', 'released': "
	 "true}}",
	 STATUS_FAILED_PRECONDITION},
	{UP, "its claim is released, without a boot",
	 "{'receipt': {'claim_id': '$OWN_CLAIM', 'generation': '1', 'released': true}}",
	 STATUS_FAILED_PRECONDITION},
	{UP, "its claim is released, of a later generation",
	 "{'receipt': {'claim_id': '$OWN_CLAIM', 'boot_id': '$BOOT', 'generation': '2', 'released': true}}",
	 STATUS_FAILED_PRECONDITION},
	{UP, "its claim is released, of no generation",
	 "{'receipt': {'claim_id': '$OWN_CLAIM', 'boot_id': '$BOOT', 'released': true}}",
	 STATUS_FAILED_PRECONDITION},
	{UP, "its claim is not released",
	 "{'receipt': {'claim_id': '$OWN_CLAIM', 'boot_id': '$BOOT', 'generation': '1', 'released': false}}",
	 STATUS_INVALID_ARGUMENT},
	{UP, "its claim, and nothing of it",
	 "{'receipt': {'claim_id': '$OWN_CLAIM', 'boot_id': '$BOOT', 'generation': '1'}}",
	 STATUS_INVALID_ARGUMENT},
	{UP, "a claim that does not exist is released",
	 "{'receipt': {'claim_id': '$NOTHING', 'boot_id': '$BOOT', 'generation': '1', 'released': true}}",
	 STATUS_OK},
	{UP, "no claim is released", "{'receipt': {'boot_id': '$BOOT', 'released': true}}", STATUS_OK},
	/* reports that the server did not ask for */
	{UP, "a report of another node's claim",
	 "{'report': {'epoch': '1', 'claims': [{'id': '$DB_CLAIM', 'volume_id': 'db', 'node_id': 'n1'}]}}",
	 STATUS_INVALID_ARGUMENT},
	{UP, "a report of an allocation of another namespace",
	 "{'report': {'epoch': '1', 'allocations': [{'id': '$NOTHING', 'namespace': 'blue', 'node_id': 'n1', "
	 "'volumes': [{'name': 'x', 'source': 'secret'}]}]}}",
	 STATUS_INVALID_ARGUMENT},
	{UP, "a report of a later epoch", "{'report': {'epoch': '99'}}", STATUS_INVALID_ARGUMENT},
	/* plugins, drivers and attributes */
	{UP, "a controller of the plugin, on a node that may have none",
	 "{'fingerprint': {'plugins': [{'plugin_id': 'ebs', 'healthy': true, 'controller_required': true, "
	 "'controller': {'healthy': true, 'attach_detach': true}, 'node': {'provider_node_id': 'i-n1'}}]}}",
	 STATUS_OK},
	{HELLO, "the same in its hello",
	 "{'fingerprint': {'plugins': [{'plugin_id': 'ebs', 'healthy': true, 'controller_required': true, "
	 "'controller': {'healthy': true, 'attach_detach': true}, 'node': {'provider_node_id': 'i-n1'}}]}}",
	 STATUS_OK},
	{UP, "another node's id at the provider",
	 "{'fingerprint': {'plugins': [{'plugin_id': 'ebs', 'healthy': true, 'controller_required': true, "
	 "'node': {'provider_node_id': 'i-n2'}}]}}",
	 STATUS_OK},
	{UP, "a plugin that another node's allocation runs",
	 "{'fingerprint': {'plugins': [{'plugin_id': 'ebs', 'healthy': true, 'allocation_id': '$DB_ALLOC', "
	 "'node': {'provider_node_id': 'i-n1'}}]}}",
	 STATUS_OK},
	{UP, "a plugin twice",
	 "{'fingerprint': {'plugins': [{'plugin_id': 'ebs', 'node': {}}, {'plugin_id': 'ebs', 'node': {}}]}}",
	 STATUS_INVALID_ARGUMENT},
	{UP, "a path as plugin", "{'fingerprint': {'plugins': [{'plugin_id': '../native', 'node': {}}]}}",
	 STATUS_INVALID_ARGUMENT},
	{UP, "a profile of a plugin",
	 "{'fingerprint': {'plugins': [{'plugin_id': 'ebs', 'profile': 'disk', 'node': {}}]}}",
	 STATUS_INVALID_ARGUMENT},
	{UP, "a path as driver", "{'fingerprint': {'drivers': [{'name': '../container', 'healthy': true}]}}",
	 STATUS_INVALID_ARGUMENT},
	{UP, "a driver twice", "{'fingerprint': {'drivers': [{'name': 'container'}, {'name': 'container'}]}}",
	 STATUS_INVALID_ARGUMENT},
	/* answers to calls of the server's to another node: its controller attaches "shared" */
	{UP, "the answer to an attach of another node's",
	 "{'reply': {'call_id': '1', 'attach': {'publish_context': {'device': '/dev/sda'}}}}", STATUS_OK},
	{UP, "the failure of an attach of another node's",
	 "{'reply': {'call_id': '1', 'code': 3, 'message': 'no'}}", STATUS_OK},
	{UP, "that another node has no controller", "{'reply': {'call_id': '1', 'not_here': true}}",
	 STATUS_OK},
	{UP, "a detach that nobody asked for", "{'reply': {'call_id': '1', 'detach': {}}}", STATUS_OK},
	{UP, "the answer to the highest call", "{'reply': {'call_id': '18446744073709551615', 'attach': {}}}",
	 STATUS_OK},
	/* streams */
	{STREAM, "Nodes.TaskStream", "{'id': '1', 'exec': {'exited': true}}", STATUS_NOT_FOUND},
	{STREAM, "Nodes.TaskStream", "{'id': '0', 'end': {'code': 0}}", STATUS_NOT_FOUND},
	{STREAM, "Allocations.Exec", "{'id': '$DB_ALLOC', 'task': 'web', 'command': {'argv': ['id']}}",
	 STATUS_PERMISSION_DENIED},
	{STREAM, "Allocations.Exec", "{'id': '$OWN_ALLOC', 'task': 'web', 'command': {'argv': ['id']}}",
	 STATUS_PERMISSION_DENIED},
	{STREAM, "Allocations.Logs", "{'id': '$DB_ALLOC'}", STATUS_PERMISSION_DENIED},
	{STREAM, "Allocations.Stats", "{'id': '$DB_ALLOC'}", STATUS_PERMISSION_DENIED},
	{STREAM, "Operator.Watch", "{}", STATUS_PERMISSION_DENIED},
	/* claims and orders, which are a node's to ask for */
	{CALL, "Volumes.Claim", "{'volume_id': 'db', 'allocation_id': '$DB_ALLOC', 'volume_name': 'data'}",
	 STATUS_PERMISSION_DENIED},
	{CALL, "Volumes.Claim", "{'volume_id': 'db', 'allocation_id': '$OWN_ALLOC', 'volume_name': 'data'}",
	 STATUS_PERMISSION_DENIED},
	{CALL, "Volumes.Claim", "{'volume_id': 'own', 'allocation_id': '$DB_ALLOC', 'volume_name': 'data'}",
	 STATUS_PERMISSION_DENIED},
	{CALL, "Volumes.Claim", "{'volume_id': 'own', 'allocation_id': '$OWN_ALLOC', 'volume_name': 'more'}",
	 STATUS_PERMISSION_DENIED},
	{CALL, "Volumes.Claim",
	 "{'volume_id': 'secret', 'namespace': 'blue', 'allocation_id': '$BLUE_ALLOC', 'volume_name': "
	 "'data'}",
	 STATUS_PERMISSION_DENIED},
	{CALL, "Volumes.Claim",
	 "{'volume_id': 'secret', 'namespace': 'blue', 'allocation_id': '$OWN_ALLOC', 'volume_name': 'data'}",
	 STATUS_PERMISSION_DENIED},
	{CALL, "Volumes.Claim", "{'volume_id': 'own', 'allocation_id': '$NOTHING', 'volume_name': 'data'}",
	 STATUS_NOT_FOUND},
	{CALL, "Volumes.Claim",
	 "{'volume_id': '../db', 'allocation_id': '$OWN_ALLOC', 'volume_name': 'data'}", STATUS_NOT_FOUND},
	{CALL, "Allocations.OrderTask", "{'id': '$DB_ALLOC', 'task': 'web'}", STATUS_PERMISSION_DENIED},
	{CALL, "Allocations.OrderTask", "{'id': '$BLUE_ALLOC'}", STATUS_NOT_FOUND},
	{CALL, "Allocations.OrderTask", "{'id': '$BLUE_ALLOC', 'namespace': 'blue'}",
	 STATUS_PERMISSION_DENIED},
	{CALL, "Allocations.OrderTask", "{'id': '$OWN_ALLOC', 'task': 'evil'}", STATUS_NOT_FOUND},
	{CALL, "Allocations.OrderTask", "{'id': '$OWN_ALLOC'}", STATUS_NOT_FOUND},
	{CALL, "Allocations.OrderTask", "{'id': '$NOTHING', 'task': 'web'}", STATUS_NOT_FOUND},
	/* all else is a person's */
	{CALL, "Volumes.Register", "{'volume': {'id': 'x', 'type': 'NATIVE', 'profile': 'disk'}}",
	 STATUS_PERMISSION_DENIED},
	{CALL, "Volumes.Create", "{'volume': {'id': 'x', 'type': 'CSI', 'plugin_id': 'ebs'}}",
	 STATUS_PERMISSION_DENIED},
	{CALL, "Volumes.Get", "{'id': 'db'}", STATUS_PERMISSION_DENIED},
	{CALL, "Volumes.Get", "{'id': 'own'}", STATUS_PERMISSION_DENIED},
	{CALL, "Volumes.Get", "{'id': 'secret', 'namespace': 'blue'}", STATUS_PERMISSION_DENIED},
	{CALL, "Volumes.List", "{}", STATUS_PERMISSION_DENIED},
	{CALL, "Volumes.Deregister", "{'id': 'db'}", STATUS_PERMISSION_DENIED},
	{CALL, "Volumes.Delete", "{'id': 'shared'}", STATUS_PERMISSION_DENIED},
	{CALL, "Volumes.Expand", "{'id': 'shared', 'capacity_min': '1'}", STATUS_PERMISSION_DENIED},
	{CALL, "Volumes.Detach", "{'id': 'db', 'node_id': 'n2', 'attest_reason': 'x'}",
	 STATUS_PERMISSION_DENIED},
	{CALL, "Volumes.Detach", "{'id': 'own', 'node_id': 'n1'}", STATUS_PERMISSION_DENIED},
	{CALL, "Volumes.ListExternal", "{'plugin_id': 'ebs'}", STATUS_PERMISSION_DENIED},
	{CALL, "Volumes.CreateSnapshot", "{'volume_id': 'shared', 'name': 'x'}", STATUS_PERMISSION_DENIED},
	{CALL, "Volumes.ListSnapshots", "{'plugin_id': 'ebs'}", STATUS_PERMISSION_DENIED},
	{CALL, "Volumes.DeleteSnapshot", "{'plugin_id': 'ebs', 'snapshot_id': 'x'}",
	 STATUS_PERMISSION_DENIED},
	{CALL, "Plugins.Get", "{'id': 'ebs'}", STATUS_PERMISSION_DENIED},
	{CALL, "Nodes.Get", "{'id': 'n2'}", STATUS_PERMISSION_DENIED},
	{CALL, "Nodes.Get", "{'id': 'n1'}", STATUS_PERMISSION_DENIED},
	{CALL, "Nodes.List", "{}", STATUS_PERMISSION_DENIED},
	{CALL, "Nodes.SetEligibility", "{'id': 'n2', 'eligible': false}", STATUS_PERMISSION_DENIED},
	{CALL, "Nodes.Drain", "{'id': 'n2'}", STATUS_PERMISSION_DENIED},
	{CALL, "Nodes.Purge", "{'id': 'n2', 'reason': 'x'}", STATUS_PERMISSION_DENIED},
	{CALL, "Nodes.Attest", "{'id': 'n2', 'volumes': [{'id': 'db'}], 'reason': 'x'}",
	 STATUS_PERMISSION_DENIED},
	{CALL, "Nodes.Identify", "{'id': 'n1', 'machine': 'x', 'reason': 'x'}", STATUS_PERMISSION_DENIED},
	{CALL, "Allocations.Run",
	 "{'allocation': {'name': 'x', 'node_id': 'n1', 'volumes': [{'name': 'x', 'source': 'db'}]}}",
	 STATUS_PERMISSION_DENIED},
	{CALL, "Allocations.Stop", "{'id': '$DB_ALLOC'}", STATUS_PERMISSION_DENIED},
	{CALL, "Allocations.Stop", "{'id': '$OWN_ALLOC'}", STATUS_PERMISSION_DENIED},
	{CALL, "Allocations.Get", "{'id': '$BLUE_ALLOC'}", STATUS_PERMISSION_DENIED},
	{CALL, "Allocations.List", "{'namespace': '*'}", STATUS_PERMISSION_DENIED},
	{CALL, "Jobs.Run", "{'job': {'id': 'x'}}", STATUS_PERMISSION_DENIED},
	{CALL, "Jobs.Stop", "{'id': 'x'}", STATUS_PERMISSION_DENIED},
	{CALL, "Jobs.Revert", "{'id': 'x'}", STATUS_PERMISSION_DENIED},
	{CALL, "Jobs.Scale", "{'id': 'x'}", STATUS_PERMISSION_DENIED},
	{CALL, "Jobs.Restart", "{'id': 'x'}", STATUS_PERMISSION_DENIED},
	{CALL, "Operator.CreateToken", "{'token': {'name': 'x', 'type': 'MANAGEMENT'}}",
	 STATUS_PERMISSION_DENIED},
	{CALL, "Operator.BootstrapToken", "{}", STATUS_PERMISSION_DENIED},
	{CALL, "Operator.PutPolicy", "{'policy': {'name': 'x'}}", STATUS_PERMISSION_DENIED},
	{CALL, "Operator.BeginBackup", "{}", STATUS_PERMISSION_DENIED},
	{CALL, "Operator.BeginRestore", "{}", STATUS_PERMISSION_DENIED},
	{CALL, "Operator.ListAudit", "{}", STATUS_PERMISSION_DENIED},
	{CALL, "Operator.AcceptTrail", "{'node_id': 'n2', 'reason': 'x'}", STATUS_PERMISSION_DENIED},
	{CALL, "Operator.StepDown", "{}", STATUS_PERMISSION_DENIED},
	{CALL, "Operator.Gc", "{}", STATUS_PERMISSION_DENIED},
};

/* --- the world --- */

struct world {
	struct fixture *f;
	struct caller_client operator;
	struct caller_client thief; /* a further connection with n1's identity */
	struct claim own, db, blue, shared;
};

/* JSON with ' for " and $NAMES: the caller's. */
static char *expand(const struct world *w, const char *json)
{
	const struct {
		const char *name, *value;
	} names[] = {
		{"$OWN_ALLOC", ALLOC_1},
		{"$DB_ALLOC", ALLOC_2},
		{"$BLUE_ALLOC", BLUE_3},
		{"$OWN_CLAIM", w->own.id},
		{"$DB_CLAIM", w->db.id},
		{"$BLUE_CLAIM", w->blue.id},
		{"$SHARED_CLAIM", w->shared.id},
		{"$OTHER_BOOT", "b0010000-0000-4000-8000-000000000009"},
		{"$DB_BOOT", w->db.boot_id},
		{"$BOOT", BOOT_1},
		{"$NOTHING", "018900ff-0000-7000-" ID_MARK},
	};
	char *text = NON_NULL(calloc(1, 4096));
	size_t n = 0;

	for (const char *c = json; *c;) {
		size_t i = 0;

		while (i < ARRAY_SIZE(names) && !str_starts_with(c, names[i].name))
			i++;
		assert_true(n < 4000);
		if (i < ARRAY_SIZE(names)) {
			n += (size_t)snprintf(text + n, 4096 - n, "%s", names[i].value);
			c += strlen(names[i].name);
		} else {
			text[n++] = (char)(*c == '\'' ? '"' : *c);
			c++;
		}
	}
	return text;
}

static void does(struct world *w, const char *method, const char *request)
{
	cleanup_free char *json = expand(w, request);
	struct error err;

	if (caller_call(&w->operator, method, json, NULL, &err) != STATUS_OK)
		fail_msg("%s %s: %s", method, json, err.msg);
}

static void register_native(struct world *w, const char *namespace, const char *id, const char *by_id)
{
	char request[512];

	(void)snprintf(request, sizeof(request),
		       "{'volume': {'id': '%s', 'namespace': '%s', 'type': 'NATIVE', 'profile': 'disk', "
		       "'source': {'class': 'BLOCK', 'by_id': '%s'}, 'requested_capabilities': "
		       "[{'access_mode': 'SINGLE_NODE_WRITER', 'attachment_mode': 'FILE_SYSTEM'}]}}",
		       id, namespace, by_id);
	does(w, "Volumes.Register", request);
}

static void run_on(struct world *w, const char *namespace, const char *id, const char *node,
		   const char *source, const char *mode)
{
	char request[512];

	(void)snprintf(request, sizeof(request),
		       "{'allocation': {'id': '%s', 'namespace': '%s', 'name': 'app', 'node_id': '%s', "
		       "'volumes': [{'name': 'data', 'source': '%s', 'access_mode': '%s', 'attachment_mode': "
		       "'FILE_SYSTEM'}]}}",
		       id, namespace, node, source, mode);
	does(w, "Allocations.Run", request);
}

/* The node claims and mounts what its allocation asks for. */
static struct claim take(struct world *w, struct fake_node *node, const char *namespace, const char *volume,
			 const char *alloc)
{
	Holdfast__V1__ClaimVolumeRequest request =
		V1(claim_volume_request, .volume_id = TEXT(volume), .namespace_ = TEXT(namespace),
		   .allocation_id = TEXT(alloc), .volume_name = (char *)(uintptr_t) "data");
	Holdfast__V1__AllocStatus status =
		V1(alloc_status, .alloc_id = TEXT(alloc), .namespace_ = TEXT(namespace),
		   .client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	Holdfast__V1__SessionUp up =
		V1(session_up, .message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_ALLOC, .alloc = &status);
	struct fixture *f = w->f;
	struct claim claim;
	struct error err;

	if (call(node, &holdfast__v1__volumes__descriptor, "Claim", &request.base, NULL, &err) != STATUS_OK)
		fail_msg("%s: %s", volume, err.msg);
	claim = claim_of(f, alloc);
	fake_node_send_mounted(node, &claim);
	fake_node_send(node, &up);
	UNTIL(f, state_of(f, alloc) == CLAIM_TAKEN);
	UNTIL(f, state_alloc(&f->server->state, alloc)->alloc.client_status == CLIENT_RUNNING);
	return claim_of(f, alloc);
}

static void ignore(enum status status, const ProtobufCMessage *response, const struct error *err,
		   void *userdata)
{
	*(bool *)userdata = true;
}

static bool is_answered;

/* The controller on n2 attaches "shared", and has not answered. */
static struct claim begin_attach(struct world *w)
{
	struct fixture *f = w->f;

	f->access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_MULTI_WRITER;
	register_csi(f, "shared");
	run_on(w, "default", ALLOC_4, "n2", "shared", "MULTI_NODE_MULTI_WRITER");
	model_plugin_order(&f->plugin, ATTACH, MODEL_HOLD, 1, 0);
	is_answered = false;
	fake_node_start_claim(&f->n2, "shared", ALLOC_4, ignore, &is_answered);
	UNTIL(f, f->n2.n_held == 1);
	return claim_of(f, ALLOC_4);
}

static void begin(struct world *w)
{
	struct controller_nodes *lists;
	void *state = NULL;

	assert_int_equal(setup_acl(&state), 0);
	*w = (struct world){.f = state};
	caller_init(&w->operator, w->f, "holdfast://c1/operator/ann", NULL);
	caller_init(&w->thief, w->f, "holdfast://c1/node/n1", NULL);
	lists = &w->f->server->config.controller_nodes;
	lists->n_lists = 1;
	lists->lists[0] = (struct controller_list){.plugin_id = CSI_PLUGIN, .nodes = {"n2"}};
	connect_csi(w->f);
	w->f->n1.plugin = NULL; /* it is asked for nothing */
	register_native(w, "default", "own", "wwn-0x1");
	register_native(w, "default", "db", "wwn-0x2");
	register_native(w, BLUE, "secret", "wwn-0x3");
	run_on(w, "default", ALLOC_1, "n1", "own", "SINGLE_NODE_WRITER");
	run_on(w, "default", ALLOC_2, "n2", "db", "SINGLE_NODE_WRITER");
	run_on(w, BLUE, BLUE_3, "n2", "secret", "SINGLE_NODE_WRITER");
	w->own = take(w, &w->f->n1, "default", "own", ALLOC_1);
	w->db = take(w, &w->f->n2, "default", "db", ALLOC_2);
	w->blue = take(w, &w->f->n2, BLUE, "secret", BLUE_3);
	w->shared = begin_attach(w);
	run_idle(w->f->event);
}

static void end(struct world *w)
{
	void *state = w->f;

	caller_release(&w->thief);
	caller_release(&w->operator);
	assert_int_equal(teardown(&state), 0);
}

/* --- what the operator sees --- */

/* What moves by itself, and what a node may say of its own allocation. */
static void leave_out(json_t *json)
{
	static const char *const keys[] = {"index",	  "last_seen_ms",  "why",
					   "may_be_held", "nodes_healthy", "nodes_expected"};
	const char *key;
	json_t *value;
	size_t i;

	for (i = 0; json_is_object(json) && i < ARRAY_SIZE(keys); i++)
		(void)json_object_del(json, keys[i]);
	json_object_foreach (json, key, value)
		leave_out(value);
	json_array_foreach (json, i, value)
		leave_out(value);
}

static const char *look(struct world *w, const char *method, const char *request, const char *part,
			json_t *picture)
{
	cleanup_free char *json = expand(w, request);
	cleanup(json_decrefp) json_t *answer = NULL;
	struct error err;

	if (caller_call(&w->operator, method, json, &answer, &err) != STATUS_OK)
		fail_msg("%s %s: %s", method, json, err.msg);
	leave_out(answer);
	assert_int_equal(json_array_append(picture, part ? json_object_get(answer, part) : answer), 0);
	return method;
}

/* The caller's. */
static char *picture(struct world *w)
{
	cleanup(json_decrefp) json_t *all = json_array();
	char *text;

	look(w, "Volumes.Get", "{'id': 'own'}", NULL, all);
	look(w, "Volumes.Get", "{'id': 'db'}", NULL, all);
	look(w, "Volumes.Get", "{'id': 'secret', 'namespace': 'blue'}", NULL, all);
	look(w, "Volumes.Get", "{'id': 'shared'}", NULL, all);
	look(w, "Volumes.List", "{'namespace': '*'}", NULL, all);
	look(w, "Allocations.Get", "{'id': '$OWN_ALLOC'}", "claims", all);
	look(w, "Allocations.Get", "{'id': '$DB_ALLOC'}", NULL, all);
	look(w, "Allocations.Get", "{'id': '$BLUE_ALLOC'}", NULL, all);
	look(w, "Allocations.Get", "{'id': '" ALLOC_4 "'}", NULL, all);
	look(w, "Nodes.Get", "{'id': 'n2'}", NULL, all);
	look(w, "Jobs.List", "{}", NULL, all);
	look(w, "Operator.ListTokens", "{}", NULL, all);
	look(w, "Operator.ListPolicies", "{}", NULL, all);
	look(w, "Operator.ListTrails", "{}", NULL, all);
	text = NON_NULL(json_dumps(all, JSON_SORT_KEYS | JSON_INDENT(1)));
	return text;
}

static void expect_same(const char *what, const char *before, const char *after)
{
	size_t i = 0;

	while (before[i] && before[i] == after[i])
		i++;
	assert_msg(!before[i] && !after[i], "%s changed what is not n1's: %.300s", what,
		   after + (i > 100 ? i - 100 : 0));
}

/* --- the attempts --- */

static ProtobufCMessage *message_of(const struct world *w, const ProtobufCMessageDescriptor *type,
				    const char *text)
{
	cleanup_free char *expanded = expand(w, text);
	cleanup(json_decrefp) json_t *json = json_loads(expanded, 0, NULL);
	ProtobufCMessage *message = NULL;
	struct error err;

	assert_msg(json && pbjson_decode(type, json, 0, &message, &err) == STATUS_OK, "%s: %s", expanded,
		   json ? err.msg : "no JSON");
	return message;
}

static enum status outcome(struct world *w)
{
	run_idle(w->f->event);
	return w->f->n1.closed ? w->f->n1.closed_status : STATUS_OK;
}

static enum status say_up(struct world *w, const char *text)
{
	cleanup_pb ProtobufCMessage *up = message_of(w, &holdfast__v1__session_up__descriptor, text);

	fake_node_send(&w->f->n1, (const void *)up);
	return outcome(w);
}

/* With the id of the node's boot a thief takes its session over. */
static void expect_boot_untold(const char *refusal)
{
	assert_msg(!strstr(refusal, BOOT_1), "%s", refusal);
}

/* By a second connection, as the thief's beside the node's own. */
static enum status say_hello(struct world *w, const char *text)
{
	Holdfast__V1__SessionHello *hello =
		(void *)message_of(w, &holdfast__v1__session_hello__descriptor, text);
	Holdfast__V1__SessionUp up = HOLDFAST__V1__SESSION_UP__INIT;
	char node_id[] = "n1", boot_id[] = BOOT_1;
	char *said_node = hello->node_id, *said_boot = hello->boot_id;
	cleanup(fake_node_release) struct fake_node second;
	enum status status;

	fake_node_init(&second, w->f->event, w->f->dir, "node-n1", w->f->port);
	fake_node_open(&second, "n1", BOOT_1);
	if (!strstr(text, "'node_id':"))
		hello->node_id = node_id;
	if (!strstr(text, "'boot_id':"))
		hello->boot_id = boot_id;
	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_HELLO;
	up.hello = hello;
	fake_node_send(&second, &up);
	run_idle(w->f->event);
	status = second.closed ? second.closed_status : STATUS_OK;
	expect_boot_untold(second.closed_message);
	hello->node_id = said_node;
	hello->boot_id = said_boot;
	protobuf_c_message_free_unpacked(&hello->base, NULL);
	return status;
}

static enum status say_first(struct world *w, const char *text)
{
	rpc_stream_cancel(w->f->n1.stream);
	w->f->n1.stream = NULL;
	run_idle(w->f->event);
	fake_node_open(&w->f->n1, "n1", BOOT_1);
	return say_up(w, text);
}

static enum status call_as_thief(struct world *w, const struct attempt *a)
{
	cleanup_free char *json = expand(w, a->json);
	struct error err = {0};
	enum status status = a->via == STREAM ? caller_stream(&w->thief, a->what, json)
					      : caller_call(&w->thief, a->what, json, NULL, &err);

	expect_boot_untold(err.msg);
	return status;
}

static enum status attempt(struct world *w, const struct attempt *a)
{
	switch (a->via) {
	case HELLO:
		return say_hello(w, a->json);
	case UP:
		return say_up(w, a->json);
	case FIRST:
		return say_first(w, a->json);
	case CALL:
	case STREAM:
		return call_as_thief(w, a);
	}
	return STATUS_INTERNAL;
}

/* Tries it in @w and looks at what came of it. Returns whether the status was the expected one. */
static bool try_one(struct world *w, const struct attempt *a)
{
	cleanup_free char *before = picture(w);
	enum status status = attempt(w, a);
	cleanup_free char *after = NULL;

	run_idle(w->f->event); /* the claim of n2 waits with a deadline: no time passes */
	after = picture(w);
	expect_same(a->what, before, after);
	assert_false(is_answered);
	assert_int_equal(w->f->n1.calls, 0);
	if (status != a->status)
		print_error("%s %s: %s, expected %s\n", a->what, a->json, status_name(status),
			    status_name(a->status));
	return status == a->status;
}

TEST(a_stolen_certificate_reaches_nothing_of_others)
{
	bool is_begun = false;
	int n_wrong = 0;
	struct world w;

	for (size_t i = 0; i < ARRAY_SIZE(attempts); i++) {
		bool is_call = attempts[i].via == CALL || attempts[i].via == STREAM;

		if (is_begun && !is_call) /* a session has been used */
			end(&w);
		if (!is_begun || !is_call)
			begin(&w);
		is_begun = true;
		n_wrong += !try_one(&w, &attempts[i]);
	}
	end(&w);
	assert_int_equal(n_wrong, 0);
}

/* A token does not give a node's certificate more: what is shown decides alone. */
TEST(a_stolen_certificate_gives_a_token_no_node)
{
	struct caller_client both;
	struct world w;
	struct error err;
	cleanup_free char *secret = NULL;

	begin(&w);
	secret = make_token(w.f, "{\"name\": \"small\", \"type\": \"MANAGEMENT\"}");
	caller_init(&both, w.f, "holdfast://c1/node/n1", secret);
	assert_int_equal(caller_call(&both, "Volumes.Claim",
				     "{\"volume_id\": \"own\", \"allocation_id\": \"" ALLOC_1
				     "\", \"volume_name\": \"data\"}",
				     NULL, &err),
			 STATUS_PERMISSION_DENIED);
	caller_release(&both);
	end(&w);
}

/* Neither whether a volume exists nor what is done to it. */
CLUSTER_TEST(a_claim_for_an_allocation_of_another_node_shows_nothing_of_a_volume)
{
	static const char *const volumes[] = {"db", "made", "nowhere"};
	char key[] = PREFIX_VOLUME_DETAIL "default/made";
	Holdfast__V1__VolumeDetail detail =
		V1(volume_detail, .phase = HOLDFAST__V1__VOLUME_PHASE__VOLUME_CREATING);
	const struct record record = {.key = key, .message = &detail.base};

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	assert_int_equal(register_disk(f, &f->operator, "made", "disk-2", NULL), STATUS_OK);
	assert_int_equal(records_put(&f->server->state.records, &record, NULL), STATUS_OK);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_OK);
	for (size_t i = 0; i < ARRAY_SIZE(volumes); i++) {
		char wanted[ERROR_MSG_MAX];
		struct error err;

		(void)str_format(wanted, sizeof(wanted),
				 "volume %s: allocation %s is not assigned to this node", volumes[i],
				 ALLOC_1);
		assert_error(fake_node_claim(&f->n2, volumes[i], ALLOC_1, NULL, &err),
			     STATUS_PERMISSION_DENIED, err, wanted);
		(void)str_format(wanted, sizeof(wanted), "volume %s: there is no allocation %s", volumes[i],
				 ALLOC_3);
		assert_error(fake_node_claim(&f->n2, volumes[i], ALLOC_3, NULL, &err), STATUS_NOT_FOUND, err,
			     wanted);
	}
}
