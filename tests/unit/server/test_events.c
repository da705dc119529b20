/* SPDX-License-Identifier: Apache-2.0 */
/* Operator.Watch: what is told to whom, from where on, and for how long it is known. */

#include "callers.h"
#include "cluster.h"
#include "events.h"
#include "server.h"
#include "services.h"
#include "submission.h"
#include "unit.h"

#include "access/access.h"
#include "api/watch.h"
#include "forward/forward.h"
#include "lead/lead.h"
#include "node/machine_code.h"
#include "state/keys.h"
#include "state/records.h"

#include <holdfast/v1/operator.pb-c.h>
#include <holdfast/v1/types.pb-c.h>

enum { REPORTED_MAX = 1024 };

struct listener {
	struct rpc_stream *stream; /* NULL once it is closed */
	bool has_begun;		   /* the message that says from where on */
	uint64_t from, last_index;
	size_t n;
	char told[REPORTED_MAX]; /* "topic:key " of each event, "-" before deletions; the first ones */
	size_t n_payloads;
	char volume[64]; /* of the last payload, as the next one */
	char machine[NODE_MACHINE_MAX + 1], claim_boot[UUID_TEXT_SIZE];
	uint64_t job_version, modify_index;
	bool is_closed;
	enum status status;
	char message[ERROR_MSG_MAX];
};

static void on_message(struct rpc_stream *stream, const ProtobufCMessage *message, void *userdata)
{
	const Holdfast__V1__WatchEvent *event = (const Holdfast__V1__WatchEvent *)message;
	struct listener *l = userdata;
	size_t at = strlen(l->told);

	expect_no_machine(message);
	assert_true(event->index >= l->last_index);
	l->last_index = event->index;
	if (!l->has_begun) {
		assert_string_equal(event->topic, "");
		l->has_begun = true;
		l->from = event->index;
		return;
	}
	l->n++;
	(void)str_format(l->told + at, sizeof(l->told) - at, "%s%s:%s ", event->deleted ? "-" : "",
			 event->topic, str_eq(event->topic, "claim") ? "?" : event->key);
	l->n_payloads += event->volume || event->claim || event->node || event->allocation || event->job;
	if (event->claim)
		(void)str_copy(l->claim_boot, sizeof(l->claim_boot), event->claim->boot_id);
	if (event->node)
		(void)str_copy(l->machine, sizeof(l->machine), event->node->machine);
	if (event->job)
		l->job_version = event->job->version;
	if (event->volume) {
		(void)str_copy(l->volume, sizeof(l->volume), event->volume->id);
		l->modify_index = event->volume->modify_index;
	}
}

static void on_closed(struct rpc_stream *stream, enum status status, const struct error *err, void *userdata)
{
	struct listener *l = userdata;

	l->stream = NULL;
	l->is_closed = true;
	l->status = status;
	if (err)
		(void)str_copy(l->message, sizeof(l->message), err->msg);
}

static const struct rpc_stream_events stream_events = {.on_message = on_message, .on_closed = on_closed};

static void send_request(struct listener *l, const char *topic, const char *namespace, uint64_t index)
{
	char topic_text[64];
	char *topics[] = {topic_text};
	Holdfast__V1__WatchRequest request = V1(watch_request, .topics = topics, .n_topics = topic ? 1 : 0,
						.namespace_ = TEXT(namespace), .index = index);

	(void)str_copy(topic_text, sizeof(topic_text), topic ? topic : "");
	assert_int_equal(rpc_stream_send(l->stream, &request.base, NULL), STATUS_OK);
}

static void open_stream(struct fake_node *as, struct listener *l)
{
	*l = (struct listener){.n = 0};
	assert_ok(rpc_stream_open(as->client, &holdfast__v1__operator__descriptor, "Watch", TIMEOUT_US,
				  &stream_events, l, &l->stream, NULL));
}

static void listen_with(struct fixture *f, struct rpc_client *client, struct listener *l, const char *topic,
			const char *namespace)
{
	*l = (struct listener){.n = 0};
	assert_ok(rpc_stream_open(client, &holdfast__v1__operator__descriptor, "Watch", TIMEOUT_US,
				  &stream_events, l, &l->stream, NULL));
	send_request(l, topic, namespace, 0);
	UNTIL(f, l->has_begun || l->is_closed);
}

/* Until it is told from where on, or why not. */
static void listen_as(struct fixture *f, struct fake_node *as, struct listener *l, const char *topic,
		      const char *namespace, uint64_t index)
{
	open_stream(as, l);
	send_request(l, topic, namespace, index);
	UNTIL(f, l->has_begun || l->is_closed);
}

static void hang_up(struct listener *l)
{
	if (l->stream)
		rpc_stream_cancel(l->stream);
	l->stream = NULL;
}

/* A thief of the node's certificate would imitate it. */
CLUSTER_TEST(a_watcher_of_nodes_reads_codes_of_machines)
{
	char code[NODE_MACHINE_MAX + 1];
	struct listener l;

	listen_as(f, &f->operator, & l, "node", "", 0);
	f->n1.machine = "11111111111111111111111111111111";
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	UNTIL(f, l.n_payloads > 0);
	assert_string_equal(l.machine, machine_code(f->server, "n1", f->n1.machine, code));
	hang_up(&l);
}

/* A hello in the boot of a node takes its session over. */
TEST_ON(a_caller_that_reads_no_nodes_reads_claims_without_their_boots, struct fixture, f, setup_acl, teardown)
{
	static const struct {
		const char *method, *request, *at;
	} reads[] = {
		{"Volumes.Get", "{\"id\": \"db\"}", "volume"},
		{"Allocations.Get", "{\"id\": \"" ALLOC_1 "\"}", NULL},
	};
	static const char *const nodes[] = {"", ", \"node\": \"read\""};
	cleanup_free char *secret = NULL;
	struct caller_client caller;
	struct listener l, own;
	char policy[320];

	take_volume(f);
	listen_as(f, &f->operator, & own, "claim", "default", 0);
	for (size_t i = 0; i < ARRAY_SIZE(nodes); i++) {
		const char *boot = i == 0 ? "" : BOOT_1;

		(void)str_format(
			policy, sizeof(policy),
			"{\"policy\": {\"name\": \"p\"%s, \"namespaces\": [{\"namespace\": \"default\", "
			"\"capabilities\": [\"csi-read-volume\", \"read-job\"]}]}}",
			nodes[i]);
		operator_does(f, "Operator.PutPolicy", policy);
		if (!secret)
			secret = make_token(f,
					    "{\"name\": \"t\", \"type\": \"CLIENT\", \"policies\": [\"p\"]}");
		caller_init(&caller, f, NULL, secret);
		for (size_t k = 0; k < ARRAY_SIZE(reads); k++) {
			cleanup(json_decrefp) json_t *answer = NULL;
			const char *shown;

			assert_ok(caller_call(&caller, reads[k].method, reads[k].request, &answer, NULL));
			shown = json_string_value(json_object_get(
				json_array_get(json_object_get(reads[k].at
								       ? json_object_get(answer, reads[k].at)
								       : answer,
							       "claims"),
					       0),
				"boot_id"));
			assert_string_equal(shown ? shown : "", boot);
		}
		listen_with(f, caller.client, &l, "claim", "default");
		if (i == 0)
			release_claim(f, &f->n1, ALLOC_1);
		else
			take_claim(f, &f->n1, "db", ALLOC_2);
		UNTIL(f, l.n_payloads > 0 && own.n_payloads > i);
		assert_string_equal(l.claim_boot, boot);
		assert_string_equal(own.claim_boot, BOOT_1);
		hang_up(&l);
		caller_release(&caller);
	}
	hang_up(&own);
}

TEST_ON(the_answer_to_a_detach_shows_a_tenant_no_boot, struct fixture, f, setup_acl, teardown)
{
	cleanup(json_decrefp) json_t *answer = NULL;
	cleanup(caller_release) struct caller_client caller;
	cleanup_free char *secret = NULL, *said = NULL;

	take_volume(f);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_UNPUBLISHING);
	operator_does(f, "Operator.PutPolicy",
		      "{\"policy\": {\"name\": \"p\", \"namespaces\": [{\"namespace\": \"default\", "
		      "\"capabilities\": [\"csi-write-volume\"]}]}}");
	secret = make_token(f, "{\"name\": \"t\", \"type\": \"CLIENT\", \"policies\": [\"p\"]}");
	caller_init(&caller, f, NULL, secret);
	assert_ok(caller_call(&caller, "Volumes.Detach", "{\"id\": \"db\", \"node_id\": \"n1\"}", &answer,
			      NULL));
	said = json_dumps(answer, 0);
	assert_non_null(strstr(said, ALLOC_1));
	assert_null(strstr(said, BOOT_1));
}

TEST_ON(the_answer_to_an_attestation_shows_no_boot, struct fixture, f, setup_acl, teardown)
{
	cleanup(caller_release) struct caller_client caller;
	cleanup_free char *secret = NULL;

	take_volume(f);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	fake_node_disconnect(&f->n1);
	UNTIL(f, !node_is_connected(state_node(&f->server->state, "n1")));
	operator_does(
		f, "Operator.PutPolicy",
		"{\"policy\": {\"name\": \"p\", \"operator\": \"write\", \"namespaces\": [{\"namespace\": "
		"\"default\", \"capabilities\": [\"csi-attest-volume\"]}]}}");
	secret = make_token(f, "{\"name\": \"t\", \"type\": \"CLIENT\", \"policies\": [\"p\"]}");
	caller_init(&caller, f, NULL, secret);
	for (unsigned int i = 0; i < 2; i++) { /* tried, and done */
		cleanup(json_decrefp) json_t *answer = NULL;
		cleanup_free char *said = NULL;

		assert_ok(
			caller_call(&caller, "Nodes.Attest",
				    i == 0 ? "{\"id\": \"n1\", \"volumes\": [{\"id\": \"db\"}], \"reason\": "
					     "\"is off\", \"dry_run\": true}"
					   : "{\"id\": \"n1\", \"volumes\": [{\"id\": \"db\"}], \"reason\": "
					     "\"is off\"}",
				    &answer, NULL));
		said = json_dumps(answer, 0);
		assert_non_null(strstr(said, "no later boot of it was seen"));
		assert_null(strstr(said, BOOT_1));
	}
	assert_int_equal(state_of(f, ALLOC_1), CLAIM_FREED);
}

/* Its evidence is the boot in which the node is now. */
TEST_ON(a_claim_that_a_new_boot_ended_shows_it_to_readers_of_nodes, struct fixture, f, setup_acl, teardown)
{
	static const char *const nodes[] = {"", ", \"node\": \"read\""};
	char policy[320];

	take_volume(f);
	fake_node_disconnect(&f->n1);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_FREED);
	settle(f);
	for (size_t i = 0; i < ARRAY_SIZE(nodes); i++) {
		cleanup(json_decrefp) json_t *answer = NULL;
		cleanup(caller_release) struct caller_client caller;
		cleanup_free char *secret = NULL, *said = NULL;

		(void)str_format(
			policy, sizeof(policy),
			"{\"policy\": {\"name\": \"p%zu\"%s, \"namespaces\": [{\"namespace\": \"default\", "
			"\"capabilities\": [\"read-job\"]}]}}",
			i, nodes[i]);
		operator_does(f, "Operator.PutPolicy", policy);
		(void)str_format(policy, sizeof(policy),
				 "{\"name\": \"t%zu\", \"type\": \"CLIENT\", \"policies\": [\"p%zu\"]}", i,
				 i);
		secret = make_token(f, policy);
		caller_init(&caller, f, NULL, secret);
		assert_ok(
			caller_call(&caller, "Allocations.Get", "{\"id\": \"" ALLOC_1 "\"}", &answer, NULL));
		said = json_dumps(answer, 0);
		assert_non_null(strstr(said, "NEW_BOOT"));
		assert_int_equal(strstr(said, BOOT_2) != NULL, i == 1);
	}
}

CLUSTER_TEST(every_change_is_reported_once_in_order)
{
	struct listener l;

	listen_as(f, &f->operator, & l, NULL, "*", 0);
	assert_true(l.has_begun);
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	UNTIL(f, l.n == 1);
	assert_string_equal(l.told, "volume:default/db ");
	assert_string_equal(l.volume, "db");
	assert_int_equal(l.modify_index, l.last_index);
	assert_true(l.last_index > l.from);
	assert_int_equal(deregister_volume(f, NULL), STATUS_OK);
	UNTIL(f, l.n == 2);
	assert_string_equal(l.told, "volume:default/db -volume:default/db ");
	assert_int_equal(l.n_payloads, 1);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	UNTIL(f, l.n == 4);
	assert_non_null(strstr(l.told, "node:n1 "));
	assert_non_null(strstr(l.told, "plugin:n1/native/disk "));
	hang_up(&l);
}

CLUSTER_TEST(a_watcher_hears_its_topics_and_its_namespace_only)
{
	struct listener claims, elsewhere, nodes, all;

	listen_as(f, &f->operator, & claims, "claim", "default", 0);
	listen_as(f, &f->operator, & elsewhere, "claim", "other", 0);
	listen_as(f, &f->operator, & nodes, "node", "other", 0); /* nodes are in none */
	listen_as(f, &f->operator, & all, NULL, "", 0);		 /* the default one */
	take_volume(f);
	settle(f);
	assert_true(claims.n >= 2); /* reserved, taken */
	assert_true(str_starts_with(claims.told, "claim:? claim:? "));
	assert_null(strstr(claims.told, "volume"));
	assert_int_equal(elsewhere.n, 0);
	assert_true(nodes.n >= 2);
	assert_null(strstr(nodes.told, "claim"));
	assert_non_null(strstr(all.told, "claim"));
	assert_non_null(strstr(all.told, "allocation"));
	hang_up(&claims);
	hang_up(&elsewhere);
	hang_up(&nodes);
	hang_up(&all);
}

CLUSTER_TEST(a_watcher_of_jobs_sees_each_version_and_the_end)
{
	struct listener jobs, elsewhere;
	struct submission s;

	listen_as(f, &f->operator, & jobs, "job", "default", 0);
	listen_as(f, &f->operator, & elsewhere, "job", "other", 0);
	make_job(f, &s);
	assert_int_equal(run(f, &s, NULL), 1);
	UNTIL(f, jobs.n == 1);
	assert_int_equal(jobs.job_version, 1);
	s.update.max_parallel = 2;
	assert_int_equal(run(f, &s, NULL), 2);
	UNTIL(f, jobs.n == 2);
	assert_int_equal(jobs.job_version, 2);
	assert_int_equal(stop_job(f, false, NULL), STATUS_OK);
	UNTIL(f, jobs.n == 3);
	assert_int_equal(stop_job(f, true, NULL), STATUS_OK);
	UNTIL(f, jobs.n == 4);
	settle(f);
	assert_string_equal(jobs.told, "job:default/web job:default/web job:default/web -job:default/web ");
	assert_int_equal(jobs.n_payloads, 3);
	assert_int_equal(elsewhere.n, 0);
	hang_up(&jobs);
	hang_up(&elsewhere);
}

CLUSTER_TEST(a_watch_resumes_from_the_last_index)
{
	struct listener l;
	uint64_t seen;

	listen_as(f, &f->operator, & l, "volume", "*", 0);
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	UNTIL(f, l.n == 1);
	seen = l.last_index;
	hang_up(&l);
	assert_int_equal(deregister_volume(f, NULL), STATUS_OK);
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	listen_as(f, &f->operator, & l, "volume", "*", seen);
	UNTIL(f, l.n == 3);
	assert_int_equal(l.from, seen);
	assert_string_equal(l.told, "volume:default/db -volume:default/db volume:default/db ");
	assert_int_equal(deregister_volume(f, NULL), STATUS_OK);
	UNTIL(f, l.n == 4); /* and lives on */
	hang_up(&l);
}

/* How far the store is ahead of what was published. */
static uint64_t n_ahead;

uint64_t __real_kv_revision(const struct kv *kv);
WRAPPED(uint64_t, kv_revision, const struct kv *kv)
{
	return __real_kv_revision(kv) + n_ahead;
}

CLUSTER_TEST(a_watch_begins_at_the_last_index_that_was_published)
{
	struct listener l;

	n_ahead = 1;
	listen_as(f, &f->operator, & l, "volume", "*", 0);
	n_ahead = 0;
	assert_int_equal(l.from, kv_revision(f->server->kv));
	hang_up(&l);
}

CLUSTER_TEST(pruned_and_future_indexes_are_out_of_range)
{
	struct listener l;
	uint64_t before;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	before = kv_revision(f->server->kv) - 1;
	listen_as(f, &f->operator, & l, NULL, "*", kv_revision(f->server->kv) + 1);
	assert_int_equal(l.status, STATUS_OUT_OF_RANGE);
	listen_as(f, &f->operator, & l, NULL, "*", before);
	assert_true(l.has_begun);
	hang_up(&l);
	restart(f);
	listen_as(f, &f->operator, & l, NULL, "*", before);
	assert_int_equal(l.status, STATUS_OUT_OF_RANGE);
	assert_non_null(strstr(l.message, "list again"));
}

static void publish_deletion(struct fixture *f, uint64_t index)
{
	static const struct node node = {.id = "gone"};

	events_publish(f->server->events, OBJECT_NODE, &node, NULL, 0, index);
}

CLUSTER_TEST(events_are_kept_up_to_a_number)
{
	struct listener l;
	uint64_t start = kv_revision(f->server->kv);
	uint64_t index;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK); /* one event */
	index = kv_revision(f->server->kv);
	for (int i = 1; i < EVENTS_MAX; i++)
		publish_deletion(f, index);
	listen_as(f, &f->operator, & l, NULL, "*", start);
	assert_true(l.has_begun);
	UNTIL(f, l.n == EVENTS_MAX || l.is_closed); /* all of them, in turns */
	assert_int_equal(l.n, EVENTS_MAX);
	hang_up(&l);
	publish_deletion(f, index);
	listen_as(f, &f->operator, & l, NULL, "*", start);
	assert_int_equal(l.status, STATUS_OUT_OF_RANGE);
}

/* How many questions for a right until one finds the token revoked; 0: none does. */
static int n_until_revoked;

enum status __real_access_check(struct server *server, const struct rpc_call *call, enum access_right right,
				const char *namespace, struct error *err);
WRAPPED(enum status, access_check, struct server *server, const struct rpc_call *call,
	enum access_right right, const char *namespace, struct error *err)
{
	if (n_until_revoked > 0 && --n_until_revoked == 0)
		return error_set(err, STATUS_UNAUTHENTICATED, 0, "the token is revoked");
	return __real_access_check(server, call, right, namespace, err);
}

CLUSTER_TEST(a_token_that_is_revoked_during_the_catch_up_watches_no_longer)
{
	struct listener l;
	uint64_t start = kv_revision(f->server->kv);

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	for (int i = 0; i < 2 * EVENTS_PER_TURN; i++)
		publish_deletion(f, kv_revision(f->server->kv));
	n_until_revoked = EVENTS_PER_TURN;
	listen_as(f, &f->operator, & l, "node", "*", start);
	UNTIL(f, l.is_closed);
	assert_int_equal(l.status, STATUS_UNAUTHENTICATED);
	assert_int_equal(n_until_revoked, 0);
	assert_true(l.n > 0 && l.n < EVENTS_PER_TURN);
}

static void publish_big_volume(struct fixture *f, size_t size, uint64_t index)
{
	static const struct volume volume = {.namespace = "default", .id = "big"};
	cleanup_free char *name = NON_NULL(malloc(size + 1));
	Holdfast__V1__Volume message = V1(volume, .name = name);
	uint8_t *bytes;

	memset(name, 'x', size);
	name[size] = '\0';
	bytes = NON_NULL(malloc(size + 100));
	events_publish(f->server->events, OBJECT_VOLUME, &volume, bytes,
		       protobuf_c_message_pack(&message.base, bytes), index);
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup, teardown)

CASE(events_are_kept_up_to_a_number_of_bytes)
{
	enum { PIECE = 1 << 20, FITTING = EVENTS_BYTES_MAX / PIECE - 1 };
	struct listener l;
	uint64_t start = kv_revision(f->server->kv);
	uint64_t index;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	index = kv_revision(f->server->kv);
	for (int i = 0; i < FITTING; i++)
		publish_big_volume(f, PIECE - 4096, index);
	listen_as(f, &f->operator, & l, "volume", "*", start);
	assert_true(l.has_begun);
	hang_up(&l);
	for (int i = 0; i < 2; i++)
		publish_big_volume(f, PIECE - 4096, index);
	listen_as(f, &f->operator, & l, "volume", "*", start);
	assert_int_equal(l.status, STATUS_OUT_OF_RANGE);
}

/* What is displaced by another topic is not missed, neither before the watch nor while its reader waits. */
CASE(a_busy_topic_takes_nothing_from_a_watch_of_a_quiet_one)
{
	struct listener quiet, busy;
	uint64_t index;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	settle(f);
	index = watch_index(f->server, PREFIX_VOLUME); /* of a list */
	for (int i = 0; i <= EVENTS_MAX; i++)
		publish_deletion(f, index + 1);
	listen_as(f, &f->operator, & busy, "node", "*", index);
	assert_int_equal(busy.status, STATUS_OUT_OF_RANGE);
	listen_as(f, &f->operator, & busy, NULL, "*", index);
	assert_int_equal(busy.status, STATUS_OUT_OF_RANGE);
	listen_as(f, &f->operator, & quiet, "volume", "*", index);
	assert_true(quiet.has_begun);
	settle(f); /* it has seen what is there */
	rpc_stream_pause(quiet.stream, true);
	publish_big_volume(f, 1 << 19, index + 1); /* more than waits for a reader */
	for (int i = 0; i <= EVENTS_MAX; i++)
		publish_deletion(f, index + 1);
	publish_big_volume(f, 1, index + 1);
	rpc_stream_pause(quiet.stream, false);
	UNTIL(f, quiet.n == 2 || quiet.is_closed);
	assert_string_equal(quiet.told, "volume:default/big volume:default/big ");
	hang_up(&quiet);
}

CLUSTER_TEST(a_peer_that_does_not_read_is_disconnected)
{
	struct listener slow, quick;

	listen_as(f, &f->operator, & slow, "volume", "*", 0);
	listen_as(f, &f->n1, &quick, "node", "*", 0); /* another connection; and no rights */
	assert_int_equal(quick.status, STATUS_PERMISSION_DENIED);
	for (int i = 0; i < 40; i++) /* nobody reads meanwhile */
		publish_big_volume(f, 1 << 19, kv_revision(f->server->kv));
	UNTIL(f, slow.is_closed);
	assert_int_equal(slow.status, STATUS_RESOURCE_EXHAUSTED);
	assert_non_null(strstr(slow.message, "list again"));
}

static bool is_memory_short;

char *__real_strdup(const char *s);
WRAPPED(char *, strdup, const char *s)
{
	return is_memory_short && str_eq(s, "gone") ? NULL : __real_strdup(s);
}

CLUSTER_TEST(a_watcher_hears_of_an_event_that_memory_was_too_short_for)
{
	struct listener live, catching_up, later;
	const uint64_t index = kv_revision(f->server->kv);

	listen_as(f, &f->operator, & live, "node", "*", 0);
	listen_as(f, &f->operator, & catching_up, "volume", "*", 0);
	rpc_stream_pause(catching_up.stream, true);
	for (int i = 0; i < 4; i++) /* more than waits for a reader */
		publish_big_volume(f, 1 << 18, index + 1);
	is_memory_short = true;
	publish_deletion(f, index + 1);
	is_memory_short = false;
	rpc_stream_pause(catching_up.stream, false);
	UNTIL(f, live.is_closed && catching_up.is_closed);
	assert_int_equal(live.status, STATUS_RESOURCE_EXHAUSTED);
	assert_non_null(strstr(live.message, "list again"));
	assert_int_equal(live.n, 0);
	assert_int_equal(catching_up.status, STATUS_RESOURCE_EXHAUSTED);
	listen_as(f, &f->operator, & later, "node", "*", 0);
	publish_deletion(f, index + 2);
	UNTIL(f, later.n == 1);
	hang_up(&later);
}

/* --- through a server that follows --- */

struct follower {
	struct fake_node with; /* its certificate */
	struct rpc_server *server;
	struct forward *forward;
	uint16_t port;
};

static uint16_t leader_port;
static lead_change_fn *leader_changed;

WRAPPED(void, lead_view, const struct lead *lead, struct lead_view *ret)
{
	*ret = (struct lead_view){.is_known = true, .name = "s1"};
	(void)str_format(ret->address, sizeof(ret->address), "127.0.0.1:%u", (unsigned int)leader_port);
}

WRAPPED(void, lead_watch, struct lead *lead, lead_change_fn *changed, void *userdata)
{
	leader_changed = changed;
}

WRAPPED(enum status, access_vouching, const struct rpc_peer *peer, void *userdata, struct error *err)
{
	return STATUS_OK;
}

static bool changes_nothing(const struct rpc_method *method)
{
	return false;
}

static void ignore_renewed(struct rpc_call *call, const ProtobufCMessage *response)
{
}

static void follow(struct fixture *f, struct follower *ret)
{
	struct lead_view view;

	leader_port = f->port;
	ret->port = 0;
	fake_node_init(&ret->with, f->event, f->dir, "server", f->port);
	assert_ok(rpc_server_new(f->event, services, n_services, NULL, f->server, &ret->server, NULL));
	assert_ok(forward_new(f->event, ret->server, ret->with.tls, "c1", changes_nothing, ignore_renewed,
			      &ret->forward, NULL));
	rpc_server_set_relay(ret->server, forward_relay, ret->forward);
	assert_ok(rpc_server_listen_tls(ret->server, "127.0.0.1", 0, ret->with.tls, &ret->port, NULL));
	forward_follow(ret->forward, (struct lead *)ret); /* not looked into */
	__wrap_lead_view(NULL, &view);
	leader_changed(&view, ret->forward);
}

static void unfollow(struct follower *follower)
{
	rpc_server_free(follower->server);
	forward_free(follower->forward);
	fake_node_release(&follower->with);
}

CASE(a_slow_watcher_behind_a_follower_holds_back_only_its_own_stream)
{
	enum { PIECE = 1 << 19, N = 12, SLOW = 3 }; /* all are kept, and more than a connection may hold */
	struct listener slow[SLOW], quick;
	struct follower follower;
	struct fake_node reader, other;

	follow(f, &follower);
	fake_node_init(&reader, f->event, f->dir, "operator", follower.port);
	fake_node_init(&other, f->event, f->dir, "node-n1", follower.port);
	fake_node_connect(&other, "n1", BOOT_1, NULL, 0);
	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	listen_as(f, &reader, &quick, "volume", "*", 0);
	for (int i = 0; i < SLOW; i++) {
		listen_as(f, &reader, &slow[i], "volume", "*", 0);
		rpc_stream_pause(slow[i].stream, true);
	}
	for (size_t n = 1; n <= N; n++) {
		publish_big_volume(f, PIECE, kv_revision(f->server->kv));
		UNTIL(f, quick.n == n || quick.is_closed);
	}
	assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_OK);
	UNTIL(f, other.runs == 1 || other.closed);
	assert_false(other.closed);
	for (int i = 0; i < SLOW; i++) {
		assert_int_equal(slow[i].n, 0);
		rpc_stream_pause(slow[i].stream, false);
		UNTIL(f, slow[i].n == N || slow[i].is_closed);
		assert_false(slow[i].is_closed);
		hang_up(&slow[i]);
	}
	hang_up(&quick);
	fake_node_release(&other);
	fake_node_release(&reader);
	unfollow(&follower);
}

static void publish_volume_of(struct fixture *f, const char *namespace)
{
	struct volume volume = {.id = "v"};

	(void)str_copy(volume.namespace, sizeof(volume.namespace), namespace);
	events_publish(f->server->events, OBJECT_VOLUME, &volume, NULL, 0, kv_revision(f->server->kv));
}

TEST_ON(a_token_gets_only_events_it_may_still_read, struct fixture, f, setup_acl, teardown)
{
	cleanup(caller_release) struct caller_client caller;
	struct listener l;
	cleanup_free char *secret = NULL;

	operator_does(f, "Operator.PutPolicy",
		      "{\"policy\": {\"name\": \"p\", \"namespaces\": [{\"namespace\": \"team\", "
		      "\"policy\": \"read\"}]}}");
	secret = make_token(f, "{\"name\": \"t\", \"type\": \"CLIENT\", \"policies\": [\"p\"]}");
	caller_init(&caller, f, NULL, secret);
	listen_with(f, caller.client, &l, "volume", "other");
	assert_int_equal(l.status, STATUS_PERMISSION_DENIED);
	listen_with(f, caller.client, &l, "node", "*");
	assert_int_equal(l.status, STATUS_PERMISSION_DENIED);
	listen_with(f, caller.client, &l, "volume", "*");
	assert_true(l.has_begun);
	publish_volume_of(f, "other");
	publish_volume_of(f, "team");
	UNTIL(f, l.n == 1);
	settle(f);
	assert_string_equal(l.told, "-volume:team/v ");
	operator_does(f, "Operator.PutPolicy", "{\"policy\": {\"name\": \"p\", \"namespaces\": []}}");
	publish_volume_of(f, "team");
	settle(f);
	assert_int_equal(l.n, 1);
	hang_up(&l);
}

/* Every token, as its operator would. */
static void revoke_all(struct fixture *f)
{
	struct record_entry *entry = records_from(&f->server->state.records, PREFIX_TOKEN);
	char accessors[8][64], request[128];
	size_t n = 0;

	for (; entry && str_starts_with(entry->key, PREFIX_TOKEN); entry = records_next(entry))
		(void)str_copy(accessors[n++], sizeof(accessors[0]), entry->key + strlen(PREFIX_TOKEN));
	for (size_t i = 0; i < n; i++) {
		(void)str_format(request, sizeof(request), "{\"accessor\": \"%s\"}", accessors[i]);
		operator_does(f, "Operator.RevokeToken", request);
	}
}

CLUSTER_TEST(invalid_event_requests_are_refused_with_a_remedy)
{
	struct listener l;
	char long_name[NAMESPACE_MAX + 2];

	listen_as(f, &f->operator, & l, "volumes", "*", 0);
	assert_int_equal(l.status, STATUS_INVALID_ARGUMENT);
	assert_non_null(strstr(l.message, "'volumes' is unknown; there are volume, claim"));
	memset(long_name, 'n', sizeof(long_name));
	long_name[NAMESPACE_MAX + 1] = '\0';
	listen_as(f, &f->operator, & l, NULL, long_name, 0);
	assert_int_equal(l.status, STATUS_INVALID_ARGUMENT);
	long_name[NAMESPACE_MAX] = '\0';
	listen_as(f, &f->operator, & l, NULL, long_name, 0);
	assert_true(l.has_begun);
	send_request(&l, NULL, "*", 0); /* a second one */
	UNTIL(f, l.is_closed);
	assert_int_equal(l.status, STATUS_INVALID_ARGUMENT);
	listen_as(f, &f->n1, &l, NULL, "*", 0);
	assert_int_equal(l.status, STATUS_PERMISSION_DENIED);
}

/* How many of @n have begun; which one was closed. */
static int count(struct listener *listeners, int n, struct listener **ret_closed)
{
	int n_begun = 0;

	for (int i = 0; i < n; i++) {
		n_begun += listeners[i].has_begun;
		if (listeners[i].is_closed)
			*ret_closed = &listeners[i];
	}
	return n_begun;
}

CASE(one_caller_does_not_take_all_places_of_watchers)
{
	enum { N = WATCHERS_PER_CALLER_MAX };
	static struct listener listeners[N + 1];
	struct listener *refused = NULL;
	struct fake_node again; /* another connection, the same certificate */

	fake_node_init(&again, f->event, f->dir, "operator", f->port);
	for (int i = 0; i <= N; i++) {
		open_stream(i < N / 2 ? &f->operator : & again, &listeners[i]);
		send_request(&listeners[i], "node", "*", 0);
	}
	UNTIL(f, count(listeners, N + 1, &refused) == N && refused);
	assert_int_equal(refused->status, STATUS_RESOURCE_EXHAUSTED);
	assert_non_null(strstr(refused->message, "the most that one caller may have"));
	hang_up(&listeners[refused == &listeners[0] ? 1 : 0]);
	settle(f);
	open_stream(&again, refused); /* there is room again */
	send_request(refused, "node", "*", 0);
	UNTIL(f, refused->has_begun);
	for (int i = 0; i <= N; i++)
		hang_up(&listeners[i]);
	fake_node_release(&again);
}

CASE(watchers_are_bounded)
{
	enum { CALLERS = WATCHERS_MAX / WATCHERS_PER_CALLER_MAX + 1 };
	static struct listener listeners[WATCHERS_MAX + 1];
	struct listener *refused = NULL;
	struct caller_client callers[CALLERS];

	for (int i = 0; i < CALLERS; i++) {
		char uri[64];

		(void)str_format(uri, sizeof(uri), "holdfast://c1/operator/o%d", i);
		caller_init(&callers[i], f, uri, NULL);
	}
	for (int i = 0; i <= WATCHERS_MAX; i++) {
		listeners[i] = (struct listener){.n = 0};
		assert_ok(rpc_stream_open(callers[i / WATCHERS_PER_CALLER_MAX].client,
					  &holdfast__v1__operator__descriptor, "Watch", TIMEOUT_US,
					  &stream_events, &listeners[i], &listeners[i].stream, NULL));
		send_request(&listeners[i], "node", "*", 0);
	}
	UNTIL(f, count(listeners, WATCHERS_MAX + 1, &refused) == WATCHERS_MAX && refused);
	assert_int_equal(refused->status, STATUS_RESOURCE_EXHAUSTED);
	for (int i = 0; i <= WATCHERS_MAX; i++)
		hang_up(&listeners[i]);
	for (int i = 0; i < CALLERS; i++)
		caller_release(&callers[i]);
}

/* The stream alone: nobody holds a place of others' without being let in. */
TEST_ON(a_caller_that_may_read_nothing_opens_no_watch, struct fixture, f, setup_acl, teardown)
{
	static const char *const uris[] = {NULL, "holdfast://c1/node/n1", "holdfast://c2/operator/o"};

	for (size_t i = 0; i < ARRAY_SIZE(uris); i++) {
		cleanup(caller_release) struct caller_client caller;
		struct listener l = {.n = 0};

		caller_init(&caller, f, uris[i], NULL);
		assert_ok(rpc_stream_open(caller.client, &holdfast__v1__operator__descriptor, "Watch",
					  TIMEOUT_US, &stream_events, &l, &l.stream, NULL));
		UNTIL(f, l.is_closed);
		assert_true(l.status == STATUS_UNAUTHENTICATED || l.status == STATUS_PERMISSION_DENIED);
	}
}

TEST_ON(a_token_that_is_revoked_watches_no_longer, struct fixture, f, setup_acl, teardown)
{
	cleanup(caller_release) struct caller_client caller;
	struct listener l;
	cleanup_free char *secret = NULL;

	operator_does(f, "Operator.PutPolicy",
		      "{\"policy\": {\"name\": \"p\", \"namespaces\": [{\"namespace\": \"team\", "
		      "\"policy\": \"read\"}]}}");
	secret = make_token(f, "{\"name\": \"t\", \"type\": \"CLIENT\", \"policies\": [\"p\"]}");
	caller_init(&caller, f, NULL, secret);
	listen_with(f, caller.client, &l, "volume", "*");
	assert_true(l.has_begun);
	revoke_all(f);
	publish_volume_of(f, "team");
	UNTIL(f, l.is_closed);
	assert_int_equal(l.status, STATUS_UNAUTHENTICATED);
	assert_int_equal(l.n, 0);
}

struct waiting {
	bool is_done;
	enum status status;
};

static void on_answer(enum status status, const ProtobufCMessage *response, const struct error *err,
		      void *userdata)
{
	struct waiting *waiting = userdata;

	waiting->is_done = true;
	waiting->status = status;
}

TEST_ON(a_revoked_token_gets_no_answer_to_its_waiting_call, struct fixture, f, setup_acl, teardown)
{
	Holdfast__V1__ListVolumesRequest request =
		V1(list_volumes_request, .index = UINT64_MAX, .wait_ms = 1000);
	struct waiting waiting = {.is_done = false};
	cleanup(caller_release) struct caller_client caller;
	struct rpc_pending *pending;
	cleanup_free char *secret = NULL;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	operator_does(f, "Operator.PutPolicy",
		      "{\"policy\": {\"name\": \"p\", \"namespaces\": [{\"namespace\": \"default\", "
		      "\"policy\": \"read\"}]}}");
	secret = make_token(f, "{\"name\": \"t\", \"type\": \"CLIENT\", \"policies\": [\"p\"]}");
	caller_init(&caller, f, NULL, secret);
	assert_ok(rpc_client_call(caller.client, &holdfast__v1__volumes__descriptor, "List", &request.base,
				  TIMEOUT_US, on_answer, &waiting, &pending, NULL));
	UNTIL(f, f->server->n_watches == 1);
	revoke_all(f);
	UNTIL(f, waiting.is_done);
	assert_int_equal(waiting.status, STATUS_UNAUTHENTICATED);
}
