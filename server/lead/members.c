/* SPDX-License-Identifier: Apache-2.0 */
#include "lead/members.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/str.h"
#include "etcd/client.h"
#include "etcd/etcd.h"
#include "rpc/timer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

enum {
	BEAT_PART = 3,	 /* of a lease, between two signs of life */
	ANSWER_PART = 4, /* that a member may take to answer */
	KEY_SIZE = LEAD_PREFIX_SIZE + LEAD_NAME_SIZE + LEAD_ADDRESS_SIZE + 16,
	VALUE_SIZE = 64,
	REFUSED_MAX = 6, /* then a grant is asked for at every 64th beat */
};

/* One look at all of them. */
struct look {
	struct members *members;
	struct members_view view;
	struct etcd_call servers; /* servers that share the store */
	struct etcd_call alarms;
	size_t n_tries; /* to read the servers */
	size_t n_open;	/* answers that are still to come */
	struct asked {
		struct look *look;
		struct rpc_pending *pending; /* NULL: it has ended */
	} asked[LEAD_ENDPOINTS_MAX];
	struct error err; /* STATUS_OK: no error */
	members_done_fn *done;
	void *userdata;
	LIST_ENTRY(look) all;
};

struct members {
	sd_event *event; /* borrowed */
	struct etcd_client *client;
	char endpoints[LEAD_ENDPOINTS_MAX][LEAD_ENDPOINT_SIZE];
	size_t n_endpoints;
	char prefix[KEY_SIZE]; /* of the keys of all servers */
	char key[KEY_SIZE];
	char value[VALUE_SIZE];
	uint64_t lease_us;
	uint64_t call_us;
	struct etcd_call call;
	int64_t lease;		/* 0: no lease */
	unsigned int n_refused; /* grants, by a full etcd */
	unsigned int n_skipped; /* beats since the last one */
	struct rpc_stream *stream;
	size_t stream_endpoint;
	bool is_awaited; /* the answer to the last sign of life */
	sd_event_source *beat;
	LIST_HEAD(, look) looks;
};

static ProtobufCBinaryData bytes_of(const char *text)
{
	return (ProtobufCBinaryData){.len = strlen(text), .data = (uint8_t *)(uintptr_t)text};
}

/* --- this server's key --- */

/* A failure is retried with the next beat. */
static void on_put(enum status status, const ProtobufCMessage *response, const struct error *err,
		   void *userdata)
{
	struct members *m = userdata;

	if (status != STATUS_OK)
		m->lease = 0; /* it ends by itself */
}

static void put(struct members *m)
{
	Etcdserverpb__PutRequest request = ETCDSERVERPB__PUT_REQUEST__INIT;

	request.key = bytes_of(m->key);
	request.value = bytes_of(m->value);
	request.lease = m->lease;
	if (etcd_call_start(m->client, &m->call, &etcdserverpb__kv__descriptor, "Put", &request.base,
			    m->call_us, on_put, m, NULL) != STATUS_OK)
		m->lease = 0;
}

static void on_granted(enum status status, const ProtobufCMessage *response, const struct error *err,
		       void *userdata)
{
	const Etcdserverpb__LeaseGrantResponse *grant = (const Etcdserverpb__LeaseGrantResponse *)response;
	struct members *m = userdata;

	if (status != STATUS_OK || grant->id == 0) {
		m->n_refused += status == STATUS_RESOURCE_EXHAUSTED && m->n_refused < REFUSED_MAX;
		return;
	}
	m->n_refused = 0;
	m->lease = grant->id;
	put(m);
}

static void grant(struct members *m)
{
	Etcdserverpb__LeaseGrantRequest request = ETCDSERVERPB__LEASE_GRANT_REQUEST__INIT;

	if (m->n_skipped++ < (1U << m->n_refused) - 1) /* each is an entry in the log of a full etcd */
		return;
	m->n_skipped = 0;
	request.ttl = (int64_t)(m->lease_us / USEC_PER_SEC);
	(void)etcd_call_start(m->client, &m->call, &etcdserverpb__lease__descriptor, "LeaseGrant",
			      &request.base, m->call_us, on_granted, m, NULL);
}

static void on_alive(struct rpc_stream *stream, const ProtobufCMessage *message, void *userdata)
{
	const Etcdserverpb__LeaseKeepAliveResponse *alive =
		(const Etcdserverpb__LeaseKeepAliveResponse *)message;
	struct members *m = userdata;

	m->is_awaited = false;
	if (alive->id == m->lease && alive->ttl <= 0)
		m->lease = 0; /* etcd has ended it: another one with the next beat */
}

static void on_closed(struct rpc_stream *stream, enum status status, const struct error *err, void *userdata)
{
	struct members *m = userdata;

	m->stream = NULL;
	etcd_client_failed(m->client, m->stream_endpoint, status == STATUS_OK ? STATUS_UNAVAILABLE : status);
}

static void drop_stream(struct members *m)
{
	rpc_stream_cancel(m->stream);
	m->stream = NULL;
}

static void keep_alive(struct members *m)
{
	static const struct rpc_stream_events events = {.on_message = on_alive, .on_closed = on_closed};
	Etcdserverpb__LeaseKeepAliveRequest request = ETCDSERVERPB__LEASE_KEEP_ALIVE_REQUEST__INIT;

	if (m->stream && m->is_awaited) { /* this member is silent */
		drop_stream(m);
		etcd_client_failed(m->client, m->stream_endpoint, STATUS_DEADLINE_EXCEEDED);
	}
	request.id = m->lease;
	m->is_awaited = true;
	if (!m->stream && rpc_stream_open(etcd_client_member(m->client, &m->stream_endpoint),
					  &etcdserverpb__lease__descriptor, "LeaseKeepAlive", m->call_us,
					  &events, m, &m->stream, NULL) != STATUS_OK)
		return;
	if (rpc_stream_send(m->stream, &request.base, NULL) != STATUS_OK)
		drop_stream(m);
}

static int on_beat(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct members *m = userdata;

	/* memory short: the loop cannot continue either */
	(void)timer_arm(m->event, &m->beat, m->lease_us / BEAT_PART, on_beat, m);
	if (m->lease != 0)
		keep_alive(m);
	else if (!m->call.pending)
		grant(m);
	return 0;
}

/* --- a look --- */

static void look_free(struct look *look)
{
	etcd_call_cancel(&look->servers);
	etcd_call_cancel(&look->alarms);
	for (size_t i = 0; i < LEAD_ENDPOINTS_MAX; i++)
		if (look->asked[i].pending)
			rpc_pending_cancel(look->asked[i].pending);
	free(look);
}

static void close_one(struct look *look)
{
	const struct error *err = look->err.status == STATUS_OK ? NULL : &look->err;

	if (--look->n_open > 0)
		return;
	LIST_REMOVE(look, all);
	look->done(err ? NULL : &look->view, err, look->userdata);
	look_free(look);
}

/* PREFIX NAME/ADDRESS with "VERSION SINCE_MS" */
static void add_server(struct look *look, const Etcdserverpb__KeyValue *kv)
{
	struct members_view *view = &look->view;
	struct members_server *server = &view->servers[view->n_servers];
	size_t skip = strlen(look->members->prefix);
	char key[KEY_SIZE], value[VALUE_SIZE];
	uint64_t since_ms = 0;
	char *slash, *blank;

	if (view->n_servers == MEMBERS_SERVERS_MAX || kv->key.len <= skip ||
	    str_format(key, sizeof(key), "%.*s", (int)(kv->key.len - skip),
		       (const char *)kv->key.data + skip) < 0 ||
	    str_format(value, sizeof(value), "%.*s", (int)kv->value.len, (const char *)kv->value.data) < 0)
		return;
	slash = strchr(key, '/');
	blank = strchr(value, ' ');
	if (!slash || !blank || parse_u64(blank + 1, 0, INT64_MAX, &since_ms) < 0)
		return;
	*slash = *blank = '\0';
	*server = (struct members_server){.since_ms = (int64_t)since_ms};
	str_copy_text(server->name, sizeof(server->name), key);
	str_copy_text(server->address, sizeof(server->address), slash + 1);
	str_copy_text(server->version, sizeof(server->version), value);
	view->n_servers++;
}

static void read_servers(struct look *look);

static void on_servers(enum status status, const ProtobufCMessage *response, const struct error *err,
		       void *userdata)
{
	const Etcdserverpb__RangeResponse *range = (const Etcdserverpb__RangeResponse *)response;
	struct look *look = userdata;

	if (status != STATUS_OK && look->n_tries < look->members->n_endpoints) {
		read_servers(look);
		return;
	}
	if (status != STATUS_OK)
		(void)str_format(look->view.servers_why, sizeof(look->view.servers_why), "%.200s", err->msg);
	else
		for (size_t i = 0; i < range->n_kvs; i++)
			add_server(look, range->kvs[i]);
	close_one(look);
}

static void read_servers(struct look *look)
{
	Etcdserverpb__RangeRequest request = ETCDSERVERPB__RANGE_REQUEST__INIT;
	struct members *m = look->members;
	char end[KEY_SIZE];

	(void)str_copy(end, sizeof(end), m->prefix);
	end[strlen(end) - 1]++; /* behind all that begins so */
	request.key = bytes_of(m->prefix);
	request.range_end = bytes_of(end);
	request.limit = MEMBERS_SERVERS_MAX;
	request.serializable = true; /* a member without the others answers, too */
	look->n_tries++;
	if (etcd_call_start(m->client, &look->servers, &etcdserverpb__kv__descriptor, "Range", &request.base,
			    m->call_us, on_servers, look, &look->err) != STATUS_OK)
		close_one(look);
}

static void add_alarm(struct members_etcd *member, const char *name, bool is_full)
{
	size_t n = strlen(member->alarms);

	member->is_full |= is_full;
	(void)str_format(member->alarms + n, sizeof(member->alarms) - n, "%s%s", n > 0 ? " " : "", name);
}

/* One of a member that has not named itself is shown at all: it stops them all. */
static void apply_alarm(struct members_view *view, const Etcdserverpb__AlarmMember *alarm)
{
	static const char *const names[] = {
		[ETCDSERVERPB__ALARM_TYPE__NOSPACE] = "NOSPACE",
		[ETCDSERVERPB__ALARM_TYPE__CORRUPT] = "CORRUPT",
	};
	size_t type = (size_t)alarm->alarm;
	bool is_known = false;

	if (type >= ARRAY_SIZE(names) || !names[type])
		return;
	for (size_t i = 0; i < view->n_etcd; i++)
		is_known |= view->etcd[i].id == alarm->memberid && view->etcd[i].id != 0;
	for (size_t i = 0; i < view->n_etcd; i++)
		if (!is_known || view->etcd[i].id == alarm->memberid)
			add_alarm(&view->etcd[i], names[type], type == ETCDSERVERPB__ALARM_TYPE__NOSPACE);
}

static void on_alarms(enum status status, const ProtobufCMessage *response, const struct error *err,
		      void *userdata)
{
	const Etcdserverpb__AlarmResponse *alarms = (const Etcdserverpb__AlarmResponse *)response;
	struct look *look = userdata;

	(void)err; /* the view of the member shows that it does not answer */
	for (size_t i = 0; status == STATUS_OK && i < alarms->n_alarms; i++)
		apply_alarm(&look->view, alarms->alarms[i]);
	close_one(look);
}

/* Whose they are is known when each member has named itself. */
static void read_alarms(struct look *look)
{
	Etcdserverpb__AlarmRequest request = ETCDSERVERPB__ALARM_REQUEST__INIT;
	struct members *m = look->members;

	if (etcd_call_start(m->client, &look->alarms, &etcdserverpb__maintenance__descriptor, "Alarm",
			    &request.base, m->call_us, on_alarms, look, NULL) != STATUS_OK)
		close_one(look);
}

static void close_member(struct look *look)
{
	for (size_t i = 0; i < look->view.n_etcd; i++)
		if (look->asked[i].pending)
			return;
	read_alarms(look);
}

static void on_status(enum status status, const ProtobufCMessage *response, const struct error *err,
		      void *userdata)
{
	const Etcdserverpb__StatusResponse *answer = (const Etcdserverpb__StatusResponse *)response;
	struct asked *asked = userdata;
	struct look *look = asked->look;
	struct members_etcd *member = &look->view.etcd[asked - look->asked];

	asked->pending = NULL;
	member->is_reachable = status == STATUS_OK;
	if (status == STATUS_OK) {
		member->id = answer->header ? answer->header->member_id : 0;
		member->leads = answer->leader != 0 && answer->leader == member->id;
		member->size_bytes = answer->dbsize > 0 ? (uint64_t)answer->dbsize : 0;
		member->applied = answer->raftappliedindex;
		str_copy_text(member->version, sizeof(member->version), answer->version);
		member->has_leader = answer->leader != 0;
		if (answer->leader == 0)
			(void)str_copy(member->why, sizeof(member->why), "it knows no leader of etcd");
	} else {
		member->is_refused = err->sys_errno == EKEYREJECTED;
		str_copy_text(member->why, sizeof(member->why), err->msg);
	}
	close_member(look);
}

static void ask_member(struct look *look, size_t i)
{
	Etcdserverpb__StatusRequest request = ETCDSERVERPB__STATUS_REQUEST__INIT;
	struct members *m = look->members;
	struct members_etcd *member = &look->view.etcd[i];
	struct error err;

	look->asked[i].look = look;
	memcpy(member->endpoint, m->endpoints[i], sizeof(member->endpoint));
	if (rpc_client_call(etcd_client_at(m->client, i), &etcdserverpb__maintenance__descriptor, "Status",
			    &request.base, m->call_us, on_status, &look->asked[i], &look->asked[i].pending,
			    &err) != STATUS_OK)
		str_copy_text(member->why, sizeof(member->why), err.msg);
}

enum status members_look(struct members *m, members_done_fn *done, void *userdata, struct error *err)
{
	struct look *look = calloc(1, sizeof(*look));

	if (!look)
		return error_no_memory(err, "a look at the members");
	look->members = m;
	look->done = done;
	look->userdata = userdata;
	look->n_open = 2; /* the servers, and the members with their alarms */
	look->view.n_etcd = m->n_endpoints;
	LIST_INSERT_HEAD(&m->looks, look, all);
	for (size_t i = 0; i < m->n_endpoints; i++)
		ask_member(look, i);
	look->n_open++; /* nothing ends in here */
	read_servers(look);
	close_member(look);
	look->n_open--;
	if (look->n_open > 0)
		return STATUS_OK;
	LIST_REMOVE(look, all);
	look_free(look);
	return error_no_memory(err, "a look at the members");
}

/* --- life --- */

static enum status open_client(struct members *m, struct rpc_tls *tls, struct error *err)
{
	const char *urls[LEAD_ENDPOINTS_MAX];
	const struct etcd_endpoints endpoints = {.urls = urls, .n = m->n_endpoints, .tls = tls};

	for (size_t i = 0; i < m->n_endpoints; i++)
		urls[i] = m->endpoints[i];
	return etcd_client_new(m->event, &endpoints, &m->client, err);
}

enum status members_new(sd_event *event, const struct lead_settings *settings, struct rpc_tls *tls,
			const char *name, const char *address, struct members **ret, struct error *err)
{
	struct members *m = calloc(1, sizeof(*m));
	enum status status;
	int r;

	if (!m)
		return error_no_memory(err, "the members");
	m->event = event;
	m->lease_us = settings->lease_us;
	m->call_us = settings->lease_us / ANSWER_PART;
	memcpy(m->endpoints, settings->endpoints, sizeof(m->endpoints));
	while (m->n_endpoints < LEAD_ENDPOINTS_MAX && m->endpoints[m->n_endpoints][0] != '\0')
		m->n_endpoints++;
	(void)str_format(m->prefix, sizeof(m->prefix), "%s/" ETCD_SERVERS, settings->prefix);
	(void)str_format(m->key, sizeof(m->key), "%s%s/%s", m->prefix, name, address);
	(void)str_format(m->value, sizeof(m->value), "%.31s %" PRId64, HOLDFAST_VERSION, clock_realtime_ms());
	status = open_client(m, tls, err);
	r = status == STATUS_OK ? timer_arm(event, &m->beat, 0, on_beat, m) : 0;
	if (r < 0)
		status = error_set(err, STATUS_RESOURCE_EXHAUSTED, r, "the members");
	if (status != STATUS_OK) {
		members_free(m);
		return status;
	}
	*ret = m;
	return STATUS_OK;
}

void members_free(struct members *m)
{
	static const struct error ending = {.status = STATUS_UNAVAILABLE, .msg = "the server is ending"};
	struct look *look;

	if (!m)
		return;
	while ((look = LIST_FIRST(&m->looks)) != NULL) {
		LIST_REMOVE(look, all);
		look->done(NULL, &ending, look->userdata);
		look_free(look);
	}
	drop_stream(m);
	etcd_call_cancel(&m->call);
	(void)sd_event_source_disable_unref(m->beat);
	etcd_client_free(m->client);
	free(m);
}
