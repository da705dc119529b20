/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd/etcd.h"

#include "base/clock.h"
#include "base/str.h"
#include "etcd/etcd_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

enum { TURNS_MAX = 64 /* of the loop in one of the outer one */ };

/* --- the loop --- */

/* Runs before the outer loop sleeps: runs the due sources, and puts timers into the descriptor that the outer
 * loop watches. */
static int on_prepare(sd_event_source *source, void *userdata)
{
	struct etcd *etcd = userdata;
	int n = 0;

	if (etcd->store)
		etcd_store_kick(etcd->store);
	while (n < TURNS_MAX && etcd_run(etcd, 0))
		n++;
	if (n == TURNS_MAX)
		etcd_notify(etcd, 0); /* the next turn of the outer loop continues */
	return 0;
}

static int on_io(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	(void)source; /* the next turn begins with on_prepare() */
	return 0;
}

/* on_lost comes last, as it may free all of it. */
static int on_turn(sd_event_source *source, void *userdata)
{
	struct etcd *etcd = userdata;
	const struct etcd_events *events = &etcd->events;
	unsigned int changes = etcd->changes;

	etcd->changes = 0;
	if (changes & CHANGE_TROUBLE)
		events->on_trouble(&etcd->trouble, etcd->userdata);
	if (changes & CHANGE_OTHER_KEY && events->on_other_key)
		events->on_other_key(etcd->has_other_key, etcd->userdata);
	if (changes & CHANGE_ASIDE)
		events->on_aside(etcd->aside, etcd->userdata);
	if (changes & CHANGE_FOLLOW)
		events->on_follow(etcd->leader, etcd->since_ms, etcd->userdata);
	if (changes & CHANGE_PROGRESS)
		events->on_progress(&etcd->progress, etcd->userdata);
	if (changes & CHANGE_LEADING)
		events->on_leading(etcd->userdata);
	if (changes & CHANGE_LOST)
		events->on_lost(&etcd->lost, etcd->userdata);
	return 0;
}

/* --- the election --- */

static void on_leading(void *userdata)
{
	struct etcd *etcd = userdata;

	etcd_follower_free(etcd->follower);
	etcd->follower = NULL;
	etcd_notify(etcd, CHANGE_LEADING);
}

static void on_lost(const struct error *why, void *userdata)
{
	struct etcd *etcd = userdata;

	etcd->lost = *why;
	if (etcd->store)
		etcd_store_fail(etcd->store, why);
	etcd_notify(etcd, CHANGE_LOST);
}

static void on_follow(const char *leader, int64_t since_ms, void *userdata)
{
	struct etcd *etcd = userdata;

	etcd->since_ms = since_ms;
	(void)str_copy(etcd->leader, sizeof(etcd->leader), leader);
	etcd_notify(etcd, CHANGE_FOLLOW);
}

static void on_trouble(const struct error *why, void *userdata)
{
	struct etcd *etcd = userdata;

	etcd->trouble = *why;
	etcd->changes &= ~(unsigned int)CHANGE_FOLLOW; /* was before; it is reported again */
	etcd_notify(etcd, CHANGE_TROUBLE);
}

static void on_aside(uint32_t schema, void *userdata)
{
	struct etcd *etcd = userdata;

	etcd->aside = schema;
	etcd->changes &= ~(unsigned int)CHANGE_FOLLOW;
	etcd_notify(etcd, CHANGE_ASIDE);
}

static void on_other_key(bool is_other, void *userdata)
{
	struct etcd *etcd = userdata;

	etcd->has_other_key = is_other;
	etcd_notify(etcd, CHANGE_OTHER_KEY);
}

bool etcd_is_leading(const struct etcd *etcd)
{
	return election_is_leading(etcd->election);
}

void etcd_interrupt(struct etcd *etcd, const struct kv_op *op)
{
	if (etcd->follower)
		etcd_follower_interrupt(etcd->follower, op);
}

/* --- life --- */

static enum status check_settings(const struct etcd_settings *settings, struct error *err)
{
	size_t n = strlen(settings->prefix);

	if (n == 0 || n > ETCD_PREFIX_MAX || settings->prefix[n - 1] == '/' ||
	    !str_is_made_of(settings->prefix, "/-_."))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "etcd: the prefix \"%s\" is invalid: 1 to %d letters, digits and -_./, "
				 "without a / at its end",
				 settings->prefix, ETCD_PREFIX_MAX);
	if (settings->cluster[0] == '\0' || strlen(settings->cluster) > ETCD_CLUSTER_MAX ||
	    strchr(settings->cluster, ' '))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "etcd: \"%s\" is no name of a cluster",
				 settings->cluster);
	if (settings->name[0] == '\0' || strlen(settings->name) > ELECTION_NAME_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "etcd: \"%s\" is no name of a server",
				 settings->name);
	if (settings->lease_us < USEC_PER_SEC || settings->call_us == 0 ||
	    settings->call_us > settings->lease_us)
		return error_set(
			err, STATUS_INVALID_ARGUMENT, 0,
			"etcd: a lease is at least 1s, and an answer is waited for no longer than that");
	return STATUS_OK;
}

static int watch_loop(struct etcd *etcd)
{
	int r = sd_event_new(&etcd->loop);

	if (r >= 0)
		r = sd_event_add_io(etcd->outer, &etcd->io, sd_event_get_fd(etcd->loop), EPOLLIN, on_io,
				    etcd);
	if (r >= 0)
		r = sd_event_source_set_prepare(etcd->io, on_prepare);
	if (r >= 0)
		r = sd_event_add_defer(etcd->outer, &etcd->turn, on_turn, etcd);
	return r < 0 ? r : sd_event_source_set_enabled(etcd->turn, SD_EVENT_OFF);
}

static enum status etcd_start_parts(struct etcd *etcd, const struct etcd_settings *settings,
				    struct error *err)
{
	static const struct election_events events = {.on_leading = on_leading,
						      .on_lost = on_lost,
						      .on_follow = on_follow,
						      .on_trouble = on_trouble,
						      .on_aside = on_aside,
						      .on_other_key = on_other_key};
	const struct election_settings election = {
		.key = etcd->leader_key,
		.name = settings->name,
		.lease_us = settings->lease_us,
		.call_us = settings->call_us,
		.yield_us = settings->yield_us,
		.schema_key = settings->schema > 0 ? etcd->record_schema_key : NULL,
		.schema = settings->schema,
		.word_key = settings->ticket_key ? etcd->ticket_key_key : NULL,
		.word = settings->ticket_key};
	int r = watch_loop(etcd);

	if (r < 0)
		return error_set(err, status_from_errno(r), r, "etcd: make a loop");
	TRY(etcd_client_new(etcd->loop, &settings->endpoints, &etcd->client, err));
	TRY(election_new(etcd->loop, etcd->client, &election, &events, etcd, &etcd->election, err));
	if (etcd->events.on_progress)
		TRY(etcd_follower_new(etcd, settings->lease_us, &etcd->follower, err));
	if (etcd->events.copied)
		TRY(etcd_copy_new(etcd, settings->lease_us, &etcd->copy, err));
	election_start(etcd->election);
	return STATUS_OK;
}

enum status etcd_new(sd_event *event, const struct etcd_settings *settings, const struct etcd_events *events,
		     void *userdata, struct etcd **ret, struct error *err)
{
	enum status status = check_settings(settings, err);
	struct etcd *etcd;

	if (status != STATUS_OK)
		return status;
	etcd = malloc(sizeof(*etcd));
	if (!etcd)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "etcd");
	*etcd = (struct etcd){
		.outer = event, .events = *events, .userdata = userdata, .call_us = settings->call_us};
	(void)str_copy(etcd->prefix, sizeof(etcd->prefix), settings->prefix);
	(void)str_copy(etcd->cluster, sizeof(etcd->cluster), settings->cluster);
	(void)str_format(etcd->leader_key, sizeof(etcd->leader_key), "%s/leader", settings->prefix);
	etcd->may_be_retired = settings->may_be_retired;
	(void)str_format(etcd->ticket_key_key, sizeof(etcd->ticket_key_key), "%s/" ETCD_TICKET_KEY,
			 settings->prefix);
	(void)str_format(etcd->record_schema_key, sizeof(etcd->record_schema_key), "%s/" ETCD_RECORD_SCHEMA,
			 settings->prefix);
	status = etcd_start_parts(etcd, settings, err);
	if (status != STATUS_OK) {
		etcd_free(etcd);
		return status;
	}
	*ret = etcd;
	return STATUS_OK;
}

static void resign(struct etcd *etcd)
{
	election_resign(etcd->election);
	while (!election_is_over(etcd->election))
		(void)etcd_run(etcd, UINT64_MAX); /* its call has a deadline */
}

void etcd_free(struct etcd *etcd)
{
	if (!etcd)
		return;
	assert(!etcd->store && !etcd->is_running);
	(void)sd_event_source_disable_unref(etcd->io);
	(void)sd_event_source_disable_unref(etcd->turn);
	etcd_follower_free(etcd->follower);
	etcd_copy_free(etcd->copy);
	if (etcd->election)
		resign(etcd);
	election_free(etcd->election);
	etcd_client_free(etcd->client);
	sd_event_unref(etcd->loop);
	free(etcd);
}
