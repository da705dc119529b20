/* SPDX-License-Identifier: Apache-2.0 */
/* A table of attempts to have node n1 fenced, or its claim freed by a fence: by a compromised agent or a
 * stolen certificate of node n2, by certificates of other identities, and by tokens without the right.
 *
 * n1 holds db, and fencer f1 is connected and could switch n1. After each attempt there is no fence, f1 has
 * no order, automatic fencing is as it was, and n1 has its claim. */

#include "callers.h"
#include "cluster.h"
#include "fake_fencer.h"
#include "unit.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "state/keys.h"
#include "state/records.h"

#include <stdlib.h>

#define THIEF "holdfast://c1/node/n2"
#define FENCE_N1 "{\"id\": \"n1\", \"reason\": \"r\""
#define HELLO "{\"hello\": {\"nodes\": [{\"id\": \"n1\", \"agent\": \"fence_dummy\", \"checkedMs\": \"1\"}]}}"
#define ANSWER                                                                                     \
	"{\"answer\": {\"nonce\": \"AAAAAAAAAAAAAAAAAAAAAA==\", \"off\": \"FENCE_OUTCOME_DONE\", " \
	"\"status\": \"FENCE_OUTCOME_OFF\"}}"
#define LOSS "\"onNodeLoss\": {\"afterMs\": \"5000\", \"do\": \"NODE_LOSS_ACTION_POWER_FENCE\"}"
#define VOLUMES                                                                                           \
	"\"volumes\": [{\"name\": \"data\", \"source\": \"db\", \"accessMode\": \"SINGLE_NODE_WRITER\", " \
	"\"attachmentMode\": \"FILE_SYSTEM\"}]"

/* Whose token it is; what its policy gives. */
enum token { NO_TOKEN, WRITES_NODES, READS_NODES, RUNS_JOBS, OF_N2, OF_NOTHING, OLD, ROOT, N_TOKENS };

static const struct attempt {
	const char *what;
	const char *uri; /* of the certificate; NULL: without one */
	enum token token;
	const char *method, *request;
	enum status status;
} attempts[] = {
	{"a node fences another one", THIEF, NO_TOKEN, "Fences.Fence", FENCE_N1 "}",
	 STATUS_PERMISSION_DENIED},
	{"a node fences one that is alive", THIEF, NO_TOKEN, "Fences.Fence", FENCE_N1 ", \"alive\": true}",
	 STATUS_PERMISSION_DENIED},
	{"a node fences another one at a storage", THIEF, NO_TOKEN, "Fences.Fence",
	 FENCE_N1 ", \"pluginId\": \"ebs\"}", STATUS_PERMISSION_DENIED},
	{"a node lifts a fence", THIEF, NO_TOKEN, "Fences.Fence",
	 FENCE_N1 ", \"pluginId\": \"ebs\", \"lift\": true}", STATUS_PERMISSION_DENIED},
	{"a node fences itself", THIEF, NO_TOKEN, "Fences.Fence", "{\"id\": \"n2\", \"reason\": \"r\"}",
	 STATUS_PERMISSION_DENIED},
	{"a node looks at a switch", THIEF, NO_TOKEN, "Fences.Test", "{\"id\": \"n1\"}",
	 STATUS_PERMISSION_DENIED},
	{"a node starts automatic fences", THIEF, NO_TOKEN, "Fences.SetAutomatic", "{\"reason\": \"r\"}",
	 STATUS_PERMISSION_DENIED},
	{"a node stops automatic fences", THIEF, NO_TOKEN, "Fences.SetAutomatic",
	 "{\"off\": true, \"reason\": \"r\"}", STATUS_PERMISSION_DENIED},
	{"a node lists fencers", THIEF, NO_TOKEN, "Fences.List", "{}", STATUS_PERMISSION_DENIED},
	{"a node connects as a fencer", THIEF, NO_TOKEN, "Fences.Session", HELLO, STATUS_PERMISSION_DENIED},
	{"a node answers an order", THIEF, NO_TOKEN, "Fences.Session", ANSWER, STATUS_PERMISSION_DENIED},
	{"a node fences with the token of a manager", THIEF, ROOT, "Fences.Fence", FENCE_N1 "}",
	 STATUS_PERMISSION_DENIED},
	{"a node has a job that wants a fence", THIEF, NO_TOKEN, "Jobs.Run",
	 "{\"job\": {\"id\": \"j\", \"namespace\": \"default\", \"type\": \"JOB_TYPE_SERVICE\", \"groups\": "
	 "[{\"name\": \"g\", \"count\": 1, \"allocation\": {" VOLUMES "}, " LOSS "}]}}",
	 STATUS_PERMISSION_DENIED},
	{"a node of another cluster", "holdfast://c2/node/n2", NO_TOKEN, "Fences.Fence", FENCE_N1 "}",
	 STATUS_UNAUTHENTICATED},
	{"a fencer of another cluster", "holdfast://c2/fencer/f1", NO_TOKEN, "Fences.Session", HELLO,
	 STATUS_UNAUTHENTICATED},
	{"a fencer asks for a fence itself", "holdfast://c1/fencer/f2", NO_TOKEN, "Fences.Fence",
	 FENCE_N1 "}", STATUS_PERMISSION_DENIED},
	{"a fencer answers before it says hello", "holdfast://c1/fencer/f2", NO_TOKEN, "Fences.Session",
	 ANSWER, STATUS_INVALID_ARGUMENT},
	{"a driver", "holdfast://c1/driver/d1", NO_TOKEN, "Fences.Fence", FENCE_N1 "}",
	 STATUS_UNAUTHENTICATED},
	{"a server in its own name", "holdfast://c1/server/s1", NO_TOKEN, "Fences.Fence", FENCE_N1 "}",
	 STATUS_PERMISSION_DENIED},
	{"a caller without identity", NULL, NO_TOKEN, "Fences.Fence", FENCE_N1 "}", STATUS_UNAUTHENTICATED},
	{"a caller without identity as a fencer", NULL, NO_TOKEN, "Fences.Session", HELLO,
	 STATUS_UNAUTHENTICATED},
	{"a manager's token as a fencer", NULL, ROOT, "Fences.Session", HELLO, STATUS_UNAUTHENTICATED},
	{"a token that drains nodes", NULL, WRITES_NODES, "Fences.Fence", FENCE_N1 "}",
	 STATUS_PERMISSION_DENIED},
	{"a token that drains nodes, at a storage", NULL, WRITES_NODES, "Fences.Fence",
	 FENCE_N1 ", \"pluginId\": \"ebs\"}", STATUS_PERMISSION_DENIED},
	{"a token that drains nodes looks at a switch", NULL, WRITES_NODES, "Fences.Test", "{\"id\": \"n1\"}",
	 STATUS_PERMISSION_DENIED},
	{"a token that drains nodes stops automatic fences", NULL, WRITES_NODES, "Fences.SetAutomatic",
	 "{\"off\": true, \"reason\": \"r\"}", STATUS_PERMISSION_DENIED},
	{"a token that reads nodes", NULL, READS_NODES, "Fences.Fence", FENCE_N1 "}",
	 STATUS_PERMISSION_DENIED},
	{"a token of another node that may fence", NULL, OF_N2, "Fences.Fence", FENCE_N1 "}",
	 STATUS_PERMISSION_DENIED},
	{"a token of another node that may fence, of its own node", NULL, OF_N2, "Fences.Fence",
	 "{\"id\": \"n2\", \"reason\": \"r\"}", STATUS_PERMISSION_DENIED},
	{"a token without policies", NULL, OF_NOTHING, "Fences.Fence", FENCE_N1 "}",
	 STATUS_PERMISSION_DENIED},
	{"a token that has expired", NULL, OLD, "Fences.Fence", FENCE_N1 "}", STATUS_UNAUTHENTICATED},
	{"a token that runs jobs", NULL, RUNS_JOBS, "Fences.Fence", FENCE_N1 "}", STATUS_PERMISSION_DENIED},
	{"a token that runs jobs, by an allocation that wants a fence", NULL, RUNS_JOBS, "Allocations.Run",
	 "{\"allocation\": {\"namespace\": \"default\", \"name\": \"a\", \"nodeId\": \"n1\", " VOLUMES
	 ", " LOSS "}}",
	 STATUS_PERMISSION_DENIED},
	{"a token that runs jobs, by a job that wants a fence", NULL, RUNS_JOBS, "Jobs.Run",
	 "{\"job\": {\"id\": \"j\", \"namespace\": \"default\", \"type\": \"JOB_TYPE_SERVICE\", \"groups\": "
	 "[{\"name\": \"g\", \"count\": 1, \"allocation\": {" VOLUMES "}, " LOSS "}]}}",
	 STATUS_PERMISSION_DENIED},
	{"a token that runs jobs, by a volume that wants a fence", NULL, RUNS_JOBS, "Volumes.Register",
	 "{\"volume\": {\"id\": \"db\", \"namespace\": \"default\", " LOSS "}}", STATUS_PERMISSION_DENIED},
};

static char *make_token_with(struct fixture *f, const char *name, const char *policy, const char *node)
{
	char text[512];

	(void)str_format(text, sizeof(text), "{\"policy\": {\"name\": \"%s\", %s}}", name, policy);
	operator_does(f, "Operator.PutPolicy", text);
	(void)str_format(text, sizeof(text),
			 "{\"name\": \"%s\", \"type\": \"CLIENT\", \"policies\": [\"%s\"], \"node\": \"%s\"}",
			 name, name, node);
	return make_token(f, text);
}

static void expire(struct fixture *f, const char *name)
{
	struct record_entry *entry = records_from(&f->server->state.records, PREFIX_TOKEN);

	for (; entry && str_starts_with(entry->key, PREFIX_TOKEN); entry = records_next(entry)) {
		Holdfast__V1__StoredToken *stored = (void *)entry->record.message;

		if (str_eq(stored->token->name, name))
			stored->token->expires_at_ms = 1;
	}
}

static enum status attempt(struct fixture *f, const struct attempt *one, const char *token)
{
	cleanup(caller_release) struct caller_client caller;
	enum status status;

	caller_init(&caller, f, one->uri, token);
	status = str_eq(one->method, "Fences.Session")
			 ? caller_stream(&caller, one->method, one->request)
			 : caller_call(&caller, one->method, one->request, NULL, NULL);
	return status;
}

static bool has_record(struct fixture *f, const char *prefix)
{
	const struct record_entry *entry = records_from(&f->server->state.records, prefix);

	return entry && str_starts_with(entry->key, prefix);
}

TEST_ON(no_attempt_without_the_right_fences_a_node, struct fixture, f, setup_acl, teardown)
{
	struct fake_fencer f1 = {.n = 0};
	char *tokens[N_TOKENS] = {NULL};

	take_volume(f);
	caller_init(&f1.caller, f, "holdfast://c1/fencer/f1", NULL);
	fake_fencer_connect(&f1, "");
	tokens[WRITES_NODES] = make_token_with(f, "writes", "\"node\": \"write\"", "");
	tokens[READS_NODES] = make_token_with(f, "reads", "\"node\": \"read\"", "");
	tokens[RUNS_JOBS] = make_token_with(f, "runs",
					    "\"namespaces\": [{\"namespace\": \"default\", \"capabilities\": "
					    "[\"submit-job\", \"csi-mount-volume\", \"read-job\"]}]",
					    "");
	tokens[OF_N2] = make_token_with(f, "of-n2", "\"node\": \"fence\"", "n2");
	tokens[OF_NOTHING] = make_token(f, "{\"name\": \"none\", \"type\": \"CLIENT\"}");
	tokens[OLD] = make_token(f, "{\"name\": \"old\", \"type\": \"MANAGEMENT\"}");
	tokens[ROOT] = make_token(f, "{\"name\": \"root\", \"type\": \"MANAGEMENT\"}");
	expire(f, "old");
	for (size_t i = 0; i < ARRAY_SIZE(attempts); i++) {
		enum status status = attempt(f, &attempts[i], tokens[attempts[i].token]);

		run_idle(f->event);
		assert_msg(status == attempts[i].status, "%s: %s instead of %s", attempts[i].what,
			   status_name(status), status_name(attempts[i].status));
		if (has_record(f, PREFIX_FENCE) || has_record(f, KEY_FENCING) || f1.n > 0 ||
		    state_of(f, ALLOC_1) != CLAIM_TAKEN)
			fail_msg("%s had an effect", attempts[i].what);
	}
	for (int i = 0; i < N_TOKENS; i++)
		free(tokens[i]);
	caller_release(&f1.caller);
}
