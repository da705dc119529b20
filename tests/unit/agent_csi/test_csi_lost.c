/* SPDX-License-Identifier: Apache-2.0 */
/* A connection that ends is told, once, after its calls have ended. */

#include "plugin.h"
#include "unit_loop.h"

#include "csi/csi_client.h"

#include <csi/v1/csi.pb-c.h>

struct setting {
	sd_event *event;
	struct plugin plugin;
	struct service_client *client;
	unsigned int done;
	enum status status;
	int sys_errno;
	unsigned int lost, done_when_lost;
	bool frees;
};

static void on_lost(void *userdata)
{
	struct setting *s = userdata;

	s->lost++;
	s->done_when_lost = s->done;
	if (s->frees) {
		service_client_free(s->client);
		s->client = NULL;
	}
}

UNIT_SETUP(setup, struct setting, s)
{
	struct service_client_options options = {.name = "ebs", .on_lost = on_lost, .userdata = s};

	assert_true(sd_event_new(&s->event) >= 0);
	assert_int_equal(plugin_setup(&s->plugin, s->event), 0);
	options.socket = s->plugin.path;
	assert_int_equal(service_client_new(s->event, &csi_kind, &options, &s->client, NULL), STATUS_OK);
}

UNIT_TEARDOWN(teardown, struct setting, s)
{
	service_client_free(s->client);
	plugin_teardown(&s->plugin);
	sd_event_unref(s->event);
}

static void on_done(const ProtobufCMessage *response, const struct error *err, void *userdata)
{
	struct setting *s = userdata;

	s->done++;
	s->status = err ? err->status : STATUS_OK;
	s->sys_errno = err ? err->sys_errno : 0;
}

static void probe(struct setting *s)
{
	const Csi__V1__ProbeRequest request = CSI__V1__PROBE_REQUEST__INIT;

	assert_ok(service_call_start(
		s->client,
		&(struct service_request){
			.method = CSI_PROBE, .message = &request.base, .done = on_done, .userdata = s},
		NULL, NULL));
}

#define UNTIL(s, condition) RUN_UNTIL((s)->event, condition)

#define CASE(name) TEST_ON(name, struct setting, s, setup, teardown)

CASE(a_connection_that_ends_while_nothing_is_asked_is_reported)
{
	probe(s);
	UNTIL(s, s->done == 1);
	assert_int_equal(s->status, STATUS_OK);
	plugin_hang_up(&s->plugin);
	UNTIL(s, s->lost == 1);
	run_idle(s->event);
	assert_int_equal(s->lost, 1);
	/* and there is another one for who asks */
	probe(s);
	UNTIL(s, s->done == 2);
	assert_int_equal(s->status, STATUS_OK);
	plugin_kill(&s->plugin);
	UNTIL(s, s->lost == 2);
}

CASE(its_calls_end_before_it_is_reported)
{
	s->plugin.holds = true;
	probe(s);
	probe(s);
	UNTIL(s, s->plugin.n_whole == 2);
	plugin_hang_up(&s->plugin);
	UNTIL(s, s->lost == 1);
	assert_int_equal(s->done_when_lost, 2);
	assert_int_equal(s->status, STATUS_UNAVAILABLE);
}

CASE(a_connection_that_never_stood_is_not_lost)
{
	plugin_kill(&s->plugin);
	probe(s);
	UNTIL(s, s->done == 1);
	assert_int_equal(s->status, STATUS_UNAVAILABLE);
	assert_int_equal(s->sys_errno, ECONNREFUSED);
	run_idle(s->event);
	assert_int_equal(s->lost, 0);
}

CASE(a_freed_client_reports_no_loss)
{
	probe(s);
	UNTIL(s, s->done == 1);
	service_client_free(s->client);
	s->client = NULL;
	run_idle(s->event);
	assert_int_equal(s->lost, 0);
}

CASE(the_client_may_be_freed_when_it_is_reported)
{
	s->frees = true;
	s->plugin.holds = true;
	probe(s);
	UNTIL(s, s->plugin.n_whole == 1);
	plugin_hang_up(&s->plugin);
	UNTIL(s, s->lost == 1);
	assert_int_equal(s->done, 1);
	run_idle(s->event);
}
