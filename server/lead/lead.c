/* SPDX-License-Identifier: Apache-2.0 */
#include "lead/lead.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/str.h"
#include "etcd/etcd.h"
#include "lead/members.h"
#include "log/log.h"
#include "rpc/timer.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { DETAIL_SIZE = 512 };

/* Between two looks at etcd, and two lines in the log, for the same trouble. */
static const uint64_t LOOK_MIN_US = USEC_PER_SEC;
static const uint64_t LOOK_MAX_US = 60 * USEC_PER_SEC;

enum { ANSWER_PART = 4 }; /* of the lease, that a member of etcd may take to answer */

struct lead {
	struct etcd *etcd;
	struct rpc_tls *tls; /* to etcd; NULL: all endpoints are unix sockets */
	struct members *members;
	struct lead_view view;
	char name[LEAD_NAME_SIZE];
	char address[LEAD_ADDRESS_SIZE];
	struct lead_events events;
	void *userdata;
	lead_change_fn *changed; /* may be NULL */
	void *changed_userdata;
	uint32_t schema;    /* of the records that it writes */
	bool is_in_trouble; /* and the log has it */
	sd_event *event;    /* borrowed */
	uint64_t lease_us;
	bool has_other_key;
	uint64_t own_since_us; /* monotonic, when the lease of a server of this name was seen first */
	enum trouble_kind etcd_trouble; /* while in trouble: what a look at the members shows */
	char detail[DETAIL_SIZE];	/* of a certificate */
	char behind[DETAIL_SIZE];	/* "": etcd is not */
	bool is_looking;		/* at the members */
	sd_event_source *look;		/* the next one; or who has this server's name */
	struct backoff look_backoff;
	enum trouble_kind logged;
};

static void notify_changed(struct lead *lead)
{
	if (lead->changed)
		lead->changed(&lead->view, lead->changed_userdata);
}

static int on_look_time(sd_event_source *source, uint64_t usec, void *userdata);

/* --- answers of etcd --- */

static void log_leader(const struct lead *lead)
{
	if (lead->view.is_own)
		log_ctx(LOG_NOTICE, &(struct log_ctx){.op = "lead"}, "%s leads", lead->name);
	else if (!lead->view.is_known)
		log_ctx(LOG_NOTICE, &(struct log_ctx){.op = "lead"},
			"no server leads: the lease of this server, %s, is not over, which led before it "
			"began",
			lead->name);
	else
		log_ctx(LOG_NOTICE, &(struct log_ctx){.op = "lead"}, "%s (%s) leads, this server follows",
			lead->view.name, lead->view.address);
}

static void end_trouble(struct lead *lead)
{
	lead->is_in_trouble = false;
	lead->own_since_us = 0;
	lead->logged = TROUBLE_NONE;
}

/* A server of this name at this address leads: this one before it began, whose lease ends, or a copy of it.
 */
static void note_own_name(struct lead *lead)
{
	if (lead->view.is_known)
		return;
	lead->own_since_us = clock_monotonic_us();
	(void)timer_arm(lead->event, &lead->look, 2 * lead->lease_us + USEC_PER_SEC, on_look_time, lead);
}

static void on_leading(void *userdata)
{
	struct lead *lead = userdata;

	end_trouble(lead);
	lead->view = (struct lead_view){.is_known = true, .is_own = true, .since_ms = clock_realtime_ms()};
	memcpy(lead->view.name, lead->name, sizeof(lead->view.name));
	memcpy(lead->view.address, lead->address, sizeof(lead->view.address));
	log_leader(lead);
	notify_changed(lead);
	lead->events.on_leading(lead->userdata);
}

static void on_lost(const struct error *why, void *userdata)
{
	struct lead *lead = userdata;

	lead->view = (struct lead_view){.is_known = false};
	notify_changed(lead);
	lead->events.on_lost(why, lead->userdata);
}

/* "NAME HOST:PORT" */
static struct lead_view parse_leader(const struct lead *lead, const char *leader, int64_t since_ms)
{
	const char *blank = strchr(leader, ' ');
	size_t n = blank ? (size_t)(blank - leader) : strlen(leader);
	struct lead_view view = {.since_ms = since_ms};

	(void)str_format(view.name, sizeof(view.name), "%.*s", (int)n, leader);
	str_copy_text(view.address, sizeof(view.address), blank ? blank + 1 : "");
	/* a server that led at this address before no longer runs, as this server is there */
	view.is_known = !str_eq(view.name, lead->name) || !str_eq(view.address, lead->address);
	return view;
}

/* The same leader since the same time? */
static bool is_same_lead(const struct lead_view *a, const struct lead_view *b)
{
	return a->is_known == b->is_known && a->since_ms == b->since_ms && str_eq(a->name, b->name) &&
	       str_eq(a->address, b->address);
}

static void on_follow(const char *leader, int64_t since_ms, void *userdata)
{
	const struct lead_view view = parse_leader(userdata, leader, since_ms);
	struct lead *lead = userdata;
	bool is_kept = lead->is_in_trouble && is_same_lead(&lead->view, &view);

	end_trouble(lead);
	lead->view = view;
	note_own_name(lead);
	if (is_kept)
		log_ctx(LOG_NOTICE, &(struct log_ctx){.op = "lead"},
			"etcd answers again: %s (%s) leads still", view.name, view.address);
	else
		log_leader(lead);
	if (!is_kept && view.is_known && str_eq(view.name, lead->name))
		log_ctx(LOG_ERR, &(struct log_ctx){.op = "lead"},
			"another server, at %s, calls itself %s as well: give each a name of its own (name "
			"in "
			"store \"etcd\")",
			lead->view.address, lead->name);
	notify_changed(lead);
}

/* --- trouble --- */

/* Servers of two versions run side by side: those of the schema at which the cluster is lead. */
static void describe_schema(const struct lead *lead, char ret[static DETAIL_SIZE])
{
	if (lead->view.other_schema < lead->schema)
		(void)str_format(ret, DETAIL_SIZE,
				 "the cluster is at schema %" PRIu32 ", this server, %s, writes %" PRIu32
				 " and only follows. Next: start a server of the earlier version, or confirm "
				 "that all are of the new one: holdfast-server --raise-schema",
				 lead->view.other_schema, lead->name, lead->schema);
	else
		(void)str_format(ret, DETAIL_SIZE,
				 "the cluster is at schema %" PRIu32 ", this server, %s, knows %" PRIu32
				 " only. Next: install the newer version here",
				 lead->view.other_schema, lead->name, lead->schema);
}

/* Returns true if a key with this server's name lives on though its last lease has expired. */
static bool has_own_name(const struct lead *lead)
{
	return lead->own_since_us > 0 && clock_monotonic_us() - lead->own_since_us > 2 * lead->lease_us;
}

static enum trouble_kind trouble_without_leader(const struct lead *lead)
{
	if (lead->is_in_trouble)
		return lead->etcd_trouble;
	if (lead->view.other_schema > 0)
		return TROUBLE_OTHER_SCHEMA;
	if (lead->has_other_key)
		return TROUBLE_OTHER_KEY;
	return has_own_name(lead) ? TROUBLE_SAME_NAME : TROUBLE_NO_LEADER;
}

enum trouble_kind lead_trouble(const struct lead *lead)
{
	if (!lead || lead_is_own(lead))
		return TROUBLE_NONE;
	if (lead->behind[0] != '\0')
		return TROUBLE_BEHIND;
	if (!lead->view.is_known || lead->view.is_own)
		return trouble_without_leader(lead);
	if (lead->view.is_doubted)
		return lead->etcd_trouble;
	return lead->has_other_key ? TROUBLE_OTHER_KEY : TROUBLE_NONE;
}

const char *lead_trouble_text(const struct lead *lead, enum trouble_kind kind,
			      char ret[static TROUBLE_TEXT_SIZE])
{
	char schema[DETAIL_SIZE];
	struct trouble_facts facts = {.server = lead->name, .detail = lead->detail};

	if (kind == TROUBLE_BEHIND)
		facts.detail = lead->behind;
	if (kind == TROUBLE_OTHER_SCHEMA) {
		describe_schema(lead, schema);
		facts.detail = schema;
	}
	return trouble_text(kind, &facts, ret);
}

static void log_change(struct lead *lead)
{
	enum trouble_kind kind = lead_trouble(lead);
	char text[TROUBLE_TEXT_SIZE];

	if (kind == lead->logged)
		return;
	lead->logged = kind;
	if (kind != TROUBLE_NONE && kind != TROUBLE_NO_LEADER)
		log_ctx(kind == TROUBLE_OTHER_SCHEMA ? LOG_WARNING : LOG_ERR, &(struct log_ctx){.op = "lead"},
			"%s: %s", trouble_word(kind), lead_trouble_text(lead, kind, text));
}

/* Classifies the answers of etcd's members. TROUBLE_NONE: it is over, or elsewhere. */
static enum trouble_kind classify_members(const struct members_view *view,
					  char ret_detail[static DETAIL_SIZE])
{
	size_t n_reachable = 0, n_led = 0, n_refused = 0;
	bool is_full = false;

	for (size_t i = 0; i < view->n_etcd; i++) {
		n_reachable += view->etcd[i].is_reachable;
		n_led += view->etcd[i].is_reachable && view->etcd[i].has_leader;
		is_full |= view->etcd[i].is_full;
		n_refused += view->etcd[i].is_refused;
		if (view->etcd[i].is_refused)
			(void)str_format(ret_detail, DETAIL_SIZE, "%.240s", view->etcd[i].why);
	}
	if (n_reachable == 0)
		return n_refused > 0 ? TROUBLE_CERTIFICATE : TROUBLE_NO_ANSWER;
	if (is_full)
		return TROUBLE_NO_SPACE;
	return n_led == 0 ? TROUBLE_NO_QUORUM : TROUBLE_NONE;
}

static void look_later(struct lead *lead);

static void on_looked(const struct members_view *view, const struct error *err, void *userdata)
{
	struct lead *lead = userdata;
	enum trouble_kind kind = TROUBLE_NONE;

	lead->is_looking = false;
	if (err) /* this server is ending */
		return;
	kind = classify_members(view, lead->detail);
	if (!lead->is_in_trouble)
		return;
	if (kind != TROUBLE_NONE)
		lead->etcd_trouble = kind;
	log_change(lead);
	look_later(lead);
}

static int on_look_time(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct lead *lead = userdata;

	log_change(lead);
	if (!lead->is_in_trouble || lead->is_looking || !lead->members)
		return 0;
	lead->is_looking = members_look(lead->members, on_looked, lead, NULL) == STATUS_OK;
	if (!lead->is_looking)
		look_later(lead);
	return 0;
}

static void look_in(struct lead *lead, uint64_t delay_us)
{
	/* memory short: the trouble keeps its first name */
	(void)timer_arm(lead->event, &lead->look, delay_us, on_look_time, lead);
}

static void look_later(struct lead *lead)
{
	look_in(lead, backoff_next(&lead->look_backoff, backoff_random()));
}

void lead_set_behind(struct lead *lead, const char *why)
{
	(void)str_format(lead->behind, sizeof(lead->behind), "%.240s", why ? why : "");
	log_change(lead);
}

static void on_other_key(bool is_other, void *userdata)
{
	struct lead *lead = userdata;

	lead->has_other_key = is_other;
	if (!is_other)
		log_ctx(LOG_NOTICE, &(struct log_ctx){.op = "lead"},
			"the ticket key of the cluster is the one of this server, which may lead again");
	log_change(lead);
}

/* 0: because of its key, which is known. */
static void on_aside(uint32_t schema, void *userdata)
{
	struct lead *lead = userdata;

	end_trouble(lead);
	lead->view = (struct lead_view){.other_schema = schema};
	log_change(lead);
	notify_changed(lead);
}

/* Keeps a known leader as long as it answers: the trouble may be only this server's. */
static void on_trouble(const struct error *why, void *userdata)
{
	struct lead *lead = userdata;

	if (!lead->is_in_trouble) {
		log_ctx(LOG_WARNING, &(struct log_ctx){.op = "lead", .err = why},
			"etcd does not report the leader; retrying");
		lead->etcd_trouble =
			why->status == STATUS_RESOURCE_EXHAUSTED ? TROUBLE_NO_SPACE : TROUBLE_NO_ANSWER;
		backoff_reset(&lead->look_backoff);
		look_in(lead, 0);
	}
	lead->is_in_trouble = true;
	if (!lead->view.is_known)
		return;
	lead->view.is_doubted = true;
	notify_changed(lead);
}

void lead_forget(struct lead *lead)
{
	if (!lead->view.is_known || !lead->view.is_doubted)
		return;
	log_ctx(LOG_WARNING, &(struct log_ctx){.op = "lead"},
		"%s (%s), which led, does not answer as the leader either", lead->view.name,
		lead->view.address);
	lead->view = (struct lead_view){.is_known = false};
	notify_changed(lead);
}

static void on_progress(const struct etcd_progress *progress, void *userdata)
{
	struct lead *lead = userdata;

	if (lead->events.on_progress)
		lead->events.on_progress(progress, lead->userdata);
}

static void on_copy(void *userdata)
{
	struct lead *lead = userdata;

	lead->events.on_copy(lead->userdata);
}

static bool on_record(const struct kv_item *item, void *userdata)
{
	struct lead *lead = userdata;

	return lead->events.on_record(item, lead->userdata);
}

/* --- what others ask --- */

void lead_view(const struct lead *lead, struct lead_view *ret)
{
	*ret = lead->view;
}

bool lead_is_own(const struct lead *lead)
{
	return !lead || (lead->view.is_own && etcd_is_leading(lead->etcd));
}

enum status lead_check(const struct lead *lead, struct error *err)
{
	char text[TROUBLE_TEXT_SIZE];

	if (lead_is_own(lead))
		return STATUS_OK;
	if (!lead->view.is_known || lead->view.is_own)
		return error_set(err, STATUS_UNAVAILABLE, 0, "%s",
				 lead_trouble_text(lead, trouble_without_leader(lead), text));
	return error_set(err, STATUS_UNAVAILABLE, 0, "this server, %s, follows: %s leads, ask it at %s",
			 lead->name, lead->view.name, lead->view.address);
}

void lead_watch(struct lead *lead, lead_change_fn *changed, void *userdata)
{
	lead->changed = changed;
	lead->changed_userdata = userdata;
}

enum status lead_join(struct lead *lead, sd_event *event, const struct lead_settings *settings,
		      struct error *err)
{
	return members_new(event, settings, lead->tls, lead->name, lead->address, &lead->members, err);
}

struct members *lead_members(struct lead *lead)
{
	return lead->members;
}

enum status lead_open_store(struct lead *lead, struct kv **ret, struct error *err)
{
	return kv_open_etcd(lead->etcd, ret, err);
}

void lead_interrupt(struct lead *lead, const struct kv_op *op)
{
	etcd_interrupt(lead->etcd, op);
}

bool lead_has_copy(const struct lead *lead)
{
	return etcd_has_copy(lead->etcd);
}

bool lead_finish_copy(struct lead *lead)
{
	return etcd_copy_finish(lead->etcd);
}

/* --- life --- */

/* A socket needs no certificate. */
static bool needs_tls(const struct lead_settings *settings)
{
	for (size_t i = 0; i < LEAD_ENDPOINTS_MAX && settings->endpoints[i][0] != '\0'; i++)
		if (!str_starts_with(settings->endpoints[i], "unix:"))
			return true;
	return false;
}

static enum status open_tls(const struct lead_settings *settings, struct rpc_tls **ret, struct error *err)
{
	const struct rpc_tls_files files = {
		.ca = settings->ca, .cert = settings->certificate, .key = settings->key};
	enum status status = needs_tls(settings) ? rpc_tls_new(&files, ret, err) : STATUS_OK;

	return status != STATUS_OK && err ? error_prefix(err, "store \"etcd\"") : status;
}

static enum status name_itself(struct lead *lead, const struct lead_settings *settings, const char *address,
			       struct error *err)
{
	const char *advertised = settings->advertise[0] != '\0' ? settings->advertise : address;

	if (str_copy(lead->name, sizeof(lead->name), settings->name) < 0 ||
	    str_copy(lead->address, sizeof(lead->address), advertised) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "store \"etcd\": name or advertise is too long");
	return STATUS_OK;
}

static struct etcd_settings address(const struct lead_settings *settings, const char *cluster,
				    struct rpc_tls *tls, const char *urls[static LEAD_ENDPOINTS_MAX])
{
	size_t n = 0;

	for (; n < LEAD_ENDPOINTS_MAX && settings->endpoints[n][0] != '\0'; n++)
		urls[n] = settings->endpoints[n];
	return (struct etcd_settings){.endpoints = {.urls = urls, .n = n, .tls = tls},
				      .prefix = settings->prefix,
				      .cluster = cluster,
				      .schema = settings->schema,
				      .ticket_key =
					      settings->ticket_key[0] != '\0' ? settings->ticket_key : NULL,
				      .may_be_retired = settings->may_be_retired,
				      .lease_us = settings->lease_us,
				      .call_us = settings->lease_us / ANSWER_PART,
				      .yield_us = settings->yields ? settings->lease_us : 0};
}

static enum status campaign(struct lead *lead, sd_event *event, const struct lead_settings *settings,
			    const char *cluster, struct error *err)
{
	const struct etcd_events events = {.on_leading = on_leading,
					   .on_lost = on_lost,
					   .on_follow = on_follow,
					   .on_trouble = on_trouble,
					   .on_aside = on_aside,
					   .on_other_key = on_other_key,
					   .on_progress = on_progress,
					   .copied = lead->events.copied,
					   .on_copy = on_copy,
					   .on_record = on_record};
	char own[LEAD_NAME_SIZE + LEAD_ADDRESS_SIZE];
	const char *urls[LEAD_ENDPOINTS_MAX];
	struct etcd_settings to = address(settings, cluster, lead->tls, urls);

	(void)str_format(own, sizeof(own), "%s %s", lead->name, lead->address);
	to.name = own;
	return etcd_new(event, &to, &events, lead, &lead->etcd, err);
}

enum status lead_new(sd_event *event, const struct lead_settings *settings, const char *cluster,
		     const char *address, const struct lead_events *events, void *userdata, struct lead **ret,
		     struct error *err)
{
	assert(lead_settings_are_given(settings));

	struct lead *lead = calloc(1, sizeof(*lead));
	enum status status;

	if (!lead)
		return error_no_memory(err, "the lead");
	lead->events = *events;
	lead->userdata = userdata;
	lead->schema = settings->schema;
	lead->event = event;
	lead->lease_us = settings->lease_us;
	lead->look_backoff = (struct backoff)BACKOFF_INIT(LOOK_MIN_US, LOOK_MAX_US);
	status = name_itself(lead, settings, address, err);
	if (status == STATUS_OK)
		status = open_tls(settings, &lead->tls, err);
	if (status == STATUS_OK)
		status = campaign(lead, event, settings, cluster, err);
	if (status != STATUS_OK) {
		lead_free(lead);
		return status;
	}
	*ret = lead;
	return STATUS_OK;
}

void lead_free(struct lead *lead)
{
	if (!lead)
		return;
	members_free(lead->members);
	(void)sd_event_source_disable_unref(lead->look);
	etcd_free(lead->etcd);
	rpc_tls_free(lead->tls);
	free(lead);
}

enum status lead_walk_store(const struct lead_settings *settings, const char *cluster, kv_each_fn *each,
			    void *userdata, uint64_t *ret_revision, struct error *err)
{
	const char *urls[LEAD_ENDPOINTS_MAX];
	struct rpc_tls *tls = NULL;
	struct etcd_settings from;

	TRY(open_tls(settings, &tls, err));
	from = address(settings, cluster, tls, urls);
	enum status status = etcd_walk(&from, each, userdata, ret_revision, err);
	rpc_tls_free(tls);
	return status;
}

enum status lead_raise_schema(const struct lead_settings *settings, const char *cluster, uint32_t *ret_before,
			      struct error *err)
{
	const char *urls[LEAD_ENDPOINTS_MAX];
	struct rpc_tls *tls = NULL;
	struct etcd_settings at;

	TRY(open_tls(settings, &tls, err));
	at = address(settings, cluster, tls, urls);
	enum status status = etcd_raise_schema(&at, ret_before, err);
	rpc_tls_free(tls);
	return status;
}

enum status lead_replace_ticket_key(const struct lead_settings *settings, const char *cluster,
				    struct error *err)
{
	const char *urls[LEAD_ENDPOINTS_MAX];
	struct rpc_tls *tls = NULL;
	struct etcd_settings at;

	TRY(open_tls(settings, &tls, err));
	at = address(settings, cluster, tls, urls);
	enum status status = etcd_replace_ticket_key(&at, err);
	rpc_tls_free(tls);
	return status;
}
