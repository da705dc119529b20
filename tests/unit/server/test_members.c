/* SPDX-License-Identifier: Apache-2.0 */
/* How a server keeps itself in the list of servers, at an etcd that refuses or does not answer. */
#include "folder.h"
#include "unit.h"
#include "unit_loop.h"

#include "etcd/etcd.h"
#include "lead/members.h"
#include "rpc/server.h"

enum { LEASE_S = 3, BEAT_MS = 1000, LEASE_ID = 7 };

struct world {
	char dir[FOLDER_SIZE];
	sd_event *event;
	struct rpc_server *etcd;
	struct members *members;
	enum status refusal; /* STATUS_OK: a grant is answered */
	size_t n_grants;
	size_t n_puts;
};

static void on_grant(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	Etcdserverpb__LeaseGrantResponse response = ETCDSERVERPB__LEASE_GRANT_RESPONSE__INIT;
	struct world *w = userdata;
	struct error err;

	w->n_grants++;
	response.id = LEASE_ID;
	if (w->refusal == STATUS_OK)
		rpc_call_reply(call, &response.base);
	else
		rpc_call_fail(call, (error_set(&err, w->refusal, 0, "no lease"), &err));
}

static void on_put(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	Etcdserverpb__PutResponse response = ETCDSERVERPB__PUT_RESPONSE__INIT;
	struct world *w = userdata;

	assert_int_equal(((const Etcdserverpb__PutRequest *)request)->lease, LEASE_ID);
	w->n_puts++;
	rpc_call_reply(call, &response.base);
}

static const struct rpc_method lease_methods[] = {{.name = "LeaseGrant", .unary = on_grant}};
static const struct rpc_method kv_methods[] = {{.name = "Put", .unary = on_put}};
static const struct rpc_service services[] = {{&etcdserverpb__lease__descriptor, lease_methods, 1},
					      {&etcdserverpb__kv__descriptor, kv_methods, 1}};

static int setup(void **state)
{
	struct world *w = unit_zeroed(sizeof(*w));
	struct lead_settings settings = {.prefix = "/c1", .lease_us = LEASE_S * USEC_PER_SEC};
	char path[PATH_MAX];

	folder_make(w->dir);
	(void)str_format(path, sizeof(path), "%s/etcd", w->dir);
	(void)str_format(settings.endpoints[0], sizeof(settings.endpoints[0]), "unix:%s", path);
	assert_int_equal(sd_event_new(&w->event), 0);
	assert_ok(rpc_server_new(w->event, services, ARRAY_SIZE(services), NULL, w, &w->etcd, NULL));
	assert_ok(rpc_server_listen_unix(w->etcd, path, 0600, NULL));
	assert_ok(members_new(w->event, &settings, NULL, "s1", "127.0.0.1:1", &w->members, NULL));
	*state = w;
	return 0;
}

UNIT_TEARDOWN(teardown, struct world, w)
{
	members_free(w->members);
	rpc_server_free(w->etcd);
	sd_event_unref(w->event);
	folder_remove(w->dir);
}

#define CASE(name) TEST_ON(name, struct world, w, setup, teardown)

/* An etcd that starts, or elects, or is slow: the server is in the list with the next beat. */
CASE(a_server_is_listed_as_soon_as_etcd_answers_again)
{
	w->refusal = STATUS_UNAVAILABLE;
	run_for(w->event, 100 * BEAT_MS);
	w->refusal = STATUS_OK;
	run_for(w->event, 2 * BEAT_MS);
	assert_int_equal(w->n_puts, 1);
}

/* Each grant is an entry in the log of a full etcd: the pauses are 2, 4, 8, 16, 32 beats. */
CASE(a_full_etcd_is_asked_for_a_lease_with_growing_pauses)
{
	w->refusal = STATUS_RESOURCE_EXHAUSTED;
	run_for(w->event, 60 * BEAT_MS);
	assert_int_equal(w->n_grants, 5);
	assert_int_equal(w->n_puts, 0);
}
