/* SPDX-License-Identifier: Apache-2.0 */
/* Each failure that operations tells of moves a series. */

#include "cluster.h"
#include "status_text.h"
#include "unit.h"
#include "warnings.h"

#include "rpc/pki.h"
#include "volume/why.h"

#include <arpa/inet.h>
#include <limits.h>
#include <netinet/in.h>
#include <sys/socket.h>

#define DETACH HOLDFAST__V1__PLUGIN_CALL__REQUEST_DETACH

enum { HOUR_MS = 3600 * 1000 };

static int mark_errno; /* of every write of a mark; 0: it works */

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): names of the linker */
ssize_t __real_pwrite(int fd, const void *bytes, size_t n, off_t at);

/* sqlite has its own: these are of the marks alone */
WRAPPED(ssize_t, pwrite, int fd, const void *bytes, size_t n, off_t at)
{
	if (mark_errno == 0)
		return __real_pwrite(fd, bytes, n, at);
	errno = mark_errno;
	return -1;
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

static int setup_csi(void **state)
{
	struct fixture *f;

	assert_int_equal(setup(state), 0);
	f = *state;
	f->release_sweep_us = 20 * USEC_PER_MSEC;
	restart(f);
	register_csi(f, "db");
	connect_csi(f);
	return 0;
}

static void fail_release(struct fixture *f, const char *alloc)
{
	struct claim claim = claim_of(f, alloc);

	fake_node_send_failed(&f->n1, &claim, STATUS_DEADLINE_EXCEEDED,
			      "NodeUnpublishVolume: no answer in time");
	UNTIL(f, claim_of(f, alloc).attempts == claim.attempts + 1);
}

static void disconnect(struct fixture *f, struct fake_node *node)
{
	fake_node_disconnect(node);
	UNTIL(f, !node_is_connected(state_node(&f->server->state, node->id)));
}

/* @n claims wait for @whom, and none for anybody else. */
static bool wait_for(struct fixture *f, const char *whom, int64_t n)
{
	char series[64];

	for (int i = ACTOR_NOBODY + 1; i < ACTOR_N; i++) {
		const char *name = explain_actor_name((enum explain_actor)i);

		(void)str_format(series, sizeof(series), "claims_waiting{for=\"%s\"}", name);
		if (metric_of(f, series) != (str_eq(name, whom) ? n : 0))
			return false;
	}
	return true;
}

/* As if it had waited an hour longer. */
static void wait_an_hour(struct fixture *f, const char *alloc)
{
	LIST_FIRST(&state_alloc(&f->server->state, alloc)->claims)->work.waits_since_ms -= HOUR_MS;
}

static void expect_text(struct fixture *f, const char *releases)
{
	char text[256];

	server_status_text(text, sizeof(text), f->server);
	assert_msg(strstr(text, releases), "%s: %s", releases, text);
}

/* From the moment on when its work was ordered to stop, whatever its plugin does then. */
static void expect_releases(struct fixture *f, int64_t n_waiting, int64_t n_stuck_at_node)
{
	assert_int_equal(metric_of(f, "releases_waiting"), n_waiting);
	assert_int_equal(metric_of(f, "release_stuck{for=\"node\"}"), n_stuck_at_node);
	assert_int_equal(metric_of(f, "release_stuck{for=\"controller\"}"), 0);
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup_csi, teardown)

CASE(a_release_that_hangs_in_a_plugin_waits_for_its_node_and_fails)
{
	take_claim(f, &f->n1, "db", ALLOC_1);
	UNTIL(f, wait_for(f, "allocation", 1));
	assert_int_equal(metric_of(f, "claims_waiting_seconds_max{for=\"allocation\"}"), -1);
	expect_releases(f, 0, 0);
	expect_text(f, "; 0 releases waiting");
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	expect_releases(f, 1, 0);
	expect_text(f, "; 1 release waiting");
	UNTIL(f, wait_for(f, "node", 1));
	assert_in_range(metric_of(f, "claims_waiting_seconds_max{for=\"node\"}"), 0, 60);
	fail_release(f, ALLOC_1);
	expect_releases(f, 1, 1);
	expect_text(f, "; 1 release waiting (1 stuck)");
	fail_release(f, ALLOC_1);
	assert_int_equal(metric_of(f, "claims_failing"), 0);
	assert_int_equal(n_events(f, "volume default/db", "Claims.Fail", ""), 0);
	fail_release(f, ALLOC_1);
	assert_int_equal(metric_of(f, "claims_failing"), 1);
	fail_release(f, ALLOC_1);
	assert_int_equal(metric_of(f, "claims_failing"), 1);
	assert_int_equal(n_events(f, "volume default/db", "Claims.Fail",
				  "failed 3 times, tried again: NodeUnpublishVolume: no answer in time"),
			 1);
	assert_int_equal(metric_of(f, "claims{state=\"taken\"}"), 1);
	assert_int_equal(n_events(f, "volume default/db", "Claims.Wait", ""), 0);
	wait_an_hour(f, ALLOC_1);
	UNTIL(f, metric_of(f, "claims_waiting_seconds_max{for=\"node\"}") >= HOUR_MS / 1000);
	UNTIL(f, n_events(f, "volume default/db", "Claims.Wait", "waiting for node n1") == 1);
	assert_int_equal(n_events(f, "node n1", "Claims.Wait", ""), 1);
	restart(f);
	assert_int_equal(metric_of(f, "claims_failing"), 1); /* as is stored */
	expect_releases(f, 1, 1);
	connect_csi(f);
	UNTIL(f, wait_for(f, "node", 1));
	assert_int_equal(n_events(f, "volume default/db", "Claims.Fail", ""), 1);
	assert_int_equal(n_events(f, "volume default/db", "Claims.Wait", ""), 1);
	release_claim(f, &f->n1, ALLOC_1);
	assert_int_equal(metric_of(f, "claims_failing"), 0);
	UNTIL(f, metric_of(f, "releases_waiting") == 0);
	expect_releases(f, 0, 0);
	UNTIL(f, wait_for(f, "node", 0));
	assert_int_equal(metric_of(f, "claims_waiting_seconds_max{for=\"node\"}"), 0);
}

CASE(a_dead_node_with_a_stop_asked_for_is_waited_for)
{
	take_claim(f, &f->n1, "db", ALLOC_1);
	UNTIL(f, wait_for(f, "allocation", 1));
	disconnect(f, &f->n1);
	UNTIL(f, wait_for(f, "node-away", 1));
	assert_int_equal(n_events(f, "node n1", "Nodes.Disconnect", ""), 1);
	expect_releases(f, 0, 0);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	settle(f);
	expect_releases(f, 1, 0);
	UNTIL(f, wait_for(f, "node-away", 1));
	assert_int_equal(metric_of(f, "nodes{status=\"disconnected\"}"), 1);
	wait_an_hour(f, ALLOC_1);
	UNTIL(f, metric_of(f, "claims_waiting_seconds_max{for=\"node-away\"}") >= HOUR_MS / 1000);
	fake_node_connect(&f->n1, "n1", BOOT_2, NULL, 0);
	UNTIL(f, wait_for(f, "node-away", 0));
}

/* Two hours in its state, as far as the store knows. */
static void age(struct fixture *f, const char *alloc)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct claim claim = claim_of(f, alloc);

	claim.state_time_ms -= 2 * HOUR_MS;
	change_put_claim(&change, &claim);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
	settle(f);
}

CASE(how_long_a_release_waits_is_known_after_a_restart)
{
	take_claim(f, &f->n1, "db", ALLOC_1);
	assert_int_equal(stop_alloc(f, ALLOC_1, NULL), STATUS_OK);
	fake_node_send_alloc(&f->n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	UNTIL(f, state_of(f, ALLOC_1) == CLAIM_UNPUBLISHING);
	age(f, ALLOC_1);
	restart(f);
	run_idle(f->event); /* at once, not with the next sweep */
	assert_true(wait_for(f, "node-away", 1));
	assert_true(metric_of(f, "claims_waiting_seconds_max{for=\"node-away\"}") >= 2 * HOUR_MS / 1000);
	assert_int_equal(metric_of(f, "releases_waiting"), 1);
}

CASE(a_detach_that_fails_is_stuck_and_waits_for_its_controller)
{
	take_claim(f, &f->n1, "db", ALLOC_1);
	model_plugin_order(&f->plugin, DETACH, MODEL_FAIL, 100, STATUS_INTERNAL);
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, metric_of(f, "release_stuck{for=\"controller\"}") == 1);
	assert_int_equal(metric_of(f, "release_stuck{for=\"node\"}"), 0);
	assert_true(metric_of(f, "release_detach_errors_total") >= 1);
	assert_true(metric_of(f, "plugin_call_failures_total") >= 1);
	assert_int_equal(metric_of(f, "releases_waiting"), 1);
	UNTIL(f, wait_for(f, "controller", 1));
	disconnect(f, &f->n2);
	UNTIL(f, wait_for(f, "controller-away", 1));
}

/* The first call has no error and no attempt yet. */
static void expect_call(struct fixture *f, const char *volume, bool is_in_flight)
{
	struct volume_entry *entry = state_volume(&f->server->state, NAMESPACE_DEFAULT, volume);
	cleanup_free char *why = NON_NULL(volume_why(f->server, entry));
	bool is_named =
		strstr(why, "\nplugin ebs on node n2: ControllerUnpublishVolume has not answered for ") !=
		NULL;

	assert_msg(is_named == is_in_flight, "%s", why);
	assert_null(strstr(why, "last error"));
}

CASE(a_call_behind_one_that_hangs_waits)
{
	register_csi(f, "wal");
	take_claim(f, &f->n1, "db", ALLOC_1);
	take_claim(f, &f->n1, "wal", ALLOC_2);
	model_plugin_order(&f->plugin, DETACH, MODEL_HOLD_DONE, 1, 0);
	release_claim(f, &f->n1, ALLOC_1);
	UNTIL(f, metric_of(f, "plugin_calls_in_flight") == 1);
	assert_int_equal(metric_of(f, "plugin_calls_waiting"), 0);
	expect_call(f, "db", true);
	release_claim(f, &f->n1, ALLOC_2);
	UNTIL(f, metric_of(f, "plugin_calls_waiting") == 1 && f->n2.n_held == 1);
	expect_call(f, "wal", false);
	fake_node_answer(&f->n2);
	UNTIL(f, metric_of(f, "releases_waiting") == 0);
	assert_int_equal(metric_of(f, "plugin_calls_waiting"), 0);
}

CASE(a_plugin_that_is_unhealthy_or_away_moves_its_instances)
{
	size_t healthy;

	assert_int_equal(metric_of(f, "plugin_instances{plugin=\"ebs\",service=\"node\",healthy=\"true\"}"),
			 2);
	assert_int_equal(metric_of(f, "plugin_instances{plugin=\"ebs\",service=\"node\",healthy=\"false\"}"),
			 0);
	f->n1.csi.node_sick = true;
	fake_node_send_fingerprint(&f->n1);
	UNTIL(f, metric_of(f, "plugin_instances{plugin=\"ebs\",service=\"node\",healthy=\"false\"}") == 1);
	assert_int_equal(metric_of(f, "plugin_instances{plugin=\"ebs\",service=\"node\",healthy=\"true\"}"),
			 1);
	assert_int_equal(n_events(f, "node n1", "Nodes.Plugin", "plugin ebs is unhealthy: "), 1);
	healthy = n_events(f, "node n1", "Nodes.Plugin", "plugin ebs is healthy");
	f->n1.csi.node_sick = false;
	fake_node_send_fingerprint(&f->n1);
	UNTIL(f, n_events(f, "node n1", "Nodes.Plugin", "plugin ebs is healthy") > healthy);
	f->n1.csi.node_sick = true;
	fake_node_send_fingerprint(&f->n1);
	UNTIL(f, n_events(f, "node n1", "Nodes.Plugin", "plugin ebs is unhealthy: ") == 2);
	assert_int_equal(n_events(f, "node n2", "Nodes.Plugin", "unhealthy"), 0);
	f->n2.csi.controller_sick = true;
	fake_node_send_fingerprint(&f->n2);
	UNTIL(f, n_events(f, "node n2", "Nodes.Plugin", "the controller of plugin ebs is unhealthy: ") == 1);
	f->n2.csi.controller_sick = false;
	fake_node_send_fingerprint(&f->n2);
	UNTIL(f, n_events(f, "node n2", "Nodes.Plugin", "plugin ebs is healthy") == 1);
	f->n2.csi.node_sick = true;
	fake_node_send_fingerprint(&f->n2);
	UNTIL(f,
	      n_events(f, "node n2", "Nodes.Plugin", "the node service of plugin ebs is unhealthy: ") == 1);
	f->n2.csi.node_sick = false;
	fake_node_send_fingerprint(&f->n2);
	UNTIL(f, n_events(f, "node n2", "Nodes.Plugin", "plugin ebs is healthy") == 2);
	assert_int_equal(
		metric_of(f, "plugin_instances{plugin=\"ebs\",service=\"controller\",healthy=\"true\"}"), 1);
	disconnect(f, &f->n2);
	assert_int_equal(
		metric_of(f, "plugin_instances{plugin=\"ebs\",service=\"controller\",healthy=\"true\"}"), 0);
	assert_int_equal(
		metric_of(f, "plugin_instances{plugin=\"ebs\",service=\"controller\",healthy=\"false\"}"), 1);
	assert_int_equal(metric_of(f, "plugin_instances{plugin=\"ebs\",service=\"node\",healthy=\"false\"}"),
			 2);
}

CASE(a_driver_that_is_unhealthy_or_away_moves_its_instances)
{
	Holdfast__V1__NodeDriver driver = V1(node_driver, .name = "container", .healthy = true);
	Holdfast__V1__NodeDriver *drivers[] = {&driver};

	f->n1.drivers = f->n2.drivers = drivers;
	f->n1.n_drivers = f->n2.n_drivers = 1;
	fake_node_send_fingerprint(&f->n1);
	fake_node_send_fingerprint(&f->n2);
	UNTIL(f, metric_of(f, "driver_instances{driver=\"container\",healthy=\"true\"}") == 2);
	assert_int_equal(metric_of(f, "driver_instances{driver=\"container\",healthy=\"false\"}"), 0);
	driver.healthy = false;
	driver.health_description = "no engine";
	fake_node_send_fingerprint(&f->n1);
	UNTIL(f, metric_of(f, "driver_instances{driver=\"container\",healthy=\"true\"}") == 1);
	assert_int_equal(metric_of(f, "driver_instances{driver=\"container\",healthy=\"false\"}"), 1);
	assert_int_equal(n_events(f, "node n1", "Nodes.Driver", "driver container is unhealthy: no engine"),
			 1);
	fake_node_send_fingerprint(&f->n1);
	driver.healthy = true;
	driver.health_description = "";
	fake_node_send_fingerprint(&f->n1);
	UNTIL(f, n_events(f, "node n1", "Nodes.Driver", "driver container is healthy") == 1);
	assert_int_equal(n_events(f, "node n1", "Nodes.Driver", "driver"), 2);
	assert_int_equal(n_events(f, "node n2", "Nodes.Driver", "driver"), 0);
	disconnect(f, &f->n2);
	assert_int_equal(metric_of(f, "driver_instances{driver=\"container\",healthy=\"true\"}"), 1);
	assert_int_equal(metric_of(f, "driver_instances{driver=\"container\",healthy=\"false\"}"), 1);
	driver.healthy = false; /* since then */
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	UNTIL(f, n_events(f, "node n2", "Nodes.Driver", "driver container is unhealthy") == 1);
}

CASE(a_silent_node_makes_the_oldest_heartbeat_grow)
{
	assert_int_equal(metric_of(f, "node_heartbeat_age_seconds_max"), 0);
	assert_int_equal(metric_of(f, "node_heartbeat_seconds"),
			 f->server->config.heartbeat_us / USEC_PER_SEC);
	f->server->silence.listened_us += 40 * USEC_PER_SEC; /* as looks do that hear nothing */
	fake_node_send_heartbeat(&f->n2);
	settle(f);
	assert_int_equal(metric_of(f, "node_heartbeat_age_seconds_max"), 40); /* of n1 */
	fake_node_send_heartbeat(&f->n1);
	UNTIL(f, metric_of(f, "node_heartbeat_age_seconds_max") == 0);
}

/* A certificate DIR/tls/NAME.pem for @uri that expires tomorrow. */
static void issue_for_a_day(struct fixture *f, const char *name, const char *uri)
{
	const char *const addresses[] = {"127.0.0.1"};
	const struct pki_cert_request request = {
		.uri = uri, .common_name = name, .ip_addresses = addresses, .n_ip_addresses = 1, .days = 1};
	char ca_key[PATH_MAX], ca[PATH_MAX], key[PATH_MAX], cert[PATH_MAX];

	(void)str_format(ca_key, sizeof(ca_key), "%s/tls/ca.key", f->dir);
	(void)str_format(ca, sizeof(ca), "%s/tls/ca.pem", f->dir);
	(void)str_format(key, sizeof(key), "%s/tls/%s.key", f->dir, name);
	(void)str_format(cert, sizeof(cert), "%s/tls/%s.pem", f->dir, name);
	assert_int_equal(pki_issue(ca_key, ca, &request, key, cert, NULL), STATUS_OK);
}

static void expect_expiry(struct fixture *f, const char *of, int64_t from_days, int64_t to_days)
{
	enum { DAY_S = 24 * 3600 };
	char series[96];
	int64_t left_s;

	(void)str_format(series, sizeof(series), "certificate_expiry_timestamp_seconds{of=\"%s\"}", of);
	left_s = metric_of(f, series) - clock_realtime_ms() / 1000;
	assert_in_range(left_s, from_days * DAY_S, to_days * DAY_S);
}

CASE(a_certificate_that_is_about_to_expire_shows_when)
{
	expect_expiry(f, "server", 300, 400);
	expect_expiry(f, "ca", 3000, 4000);
	expect_expiry(f, "nodes", 300, 400);
	expect_warning_events(f, "certificate", 0, 0);
	issue_for_a_day(f, "again", "holdfast://c1/server/again");
	(void)str_format(f->server->in_use.cert, sizeof(f->server->in_use.cert), "%s/tls/again.pem", f->dir);
	certificate_watch(f->server); /* as a reload does */
	expect_expiry(f, "server", 0, 1);
	f->server->certificate->warns_at_ms = clock_realtime_ms(); /* as three quarters of a day later */
	expect_warning_events(f, "certificate", 1, 0);
	expect_warning_events(f, "certificate", 1, 0);
	restart(f); /* with the first certificate */
	connect_csi(f);
	expect_warning_events(f, "certificate", 1, 0);
	disconnect(f, &f->n1);
	fake_node_release(&f->n1);
	issue_for_a_day(f, "short", "holdfast://c1/node/n1");
	fake_node_init(&f->n1, f->event, f->dir, "short", f->port);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_true(f->n1.welcomed);
	expect_expiry(f, "nodes", 0, 1); /* the first of two */
	assert_true(metric_of(f, "node_certificate_expiry_timestamp_seconds{node=\"n1\"}") <
		    metric_of(f, "node_certificate_expiry_timestamp_seconds{node=\"n2\"}"));
	warnings_review(f->server->warnings);
	warnings_review(f->server->warnings); /* records it once */
	assert_int_equal(n_events(f, "node n1", "Nodes.Certificate", "its certificate expires at "), 1);
	assert_int_equal(n_events(f, "node n2", "Nodes.Certificate", ""), 0);
	disconnect(f, &f->n1);
	disconnect(f, &f->n2);
	assert_int_equal(metric_of(f, "certificate_expiry_timestamp_seconds{of=\"nodes\"}"), -1);
	assert_int_equal(metric_of(f, "node_certificate_expiry_timestamp_seconds{node=\"n1\"}"), -1);
}

CASE(the_certificate_for_etcd_shows_when_it_expires)
{
	struct config *config = &f->server->config;

	assert_int_equal(metric_of(f, "certificate_expiry_timestamp_seconds{of=\"store\"}"), -1);
	issue_for_a_day(f, "etcd", "holdfast://c1/server/dev");
	(void)str_format(config->etcd.certificate, sizeof(config->etcd.certificate), "%s/tls/etcd.pem",
			 f->dir);
	certificate_watch(f->server); /* as at a start with a store in sqlite */
	assert_int_equal(metric_of(f, "certificate_expiry_timestamp_seconds{of=\"store\"}"), -1);
	(void)str_copy(config->etcd.endpoints[0], sizeof(config->etcd.endpoints[0]), "https://127.0.0.1:1");
	certificate_watch(f->server);
	expect_expiry(f, "store", 0, 1);
	expect_warning_events(f, "certificate", 1,
			      0); /* it has no name in store "etcd", but one in its certificate */
	config->etcd.endpoints[0][0] = '\0';
	expect_warning_events(f, "certificate", 1, 1);
	certificate_watch(f->server);
	assert_int_equal(metric_of(f, "certificate_expiry_timestamp_seconds{of=\"store\"}"), -1);
}

static void write_something(struct fixture *f)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct node node = state_node(&f->server->state, "n1")->node;

	change_put_node(&change, &node);
	(void)change_commit(f->server, &change, NULL, NULL, NULL);
	settle(f);
}

CASE(a_mark_that_cannot_be_written_is_broken)
{
	assert_int_equal(metric_of(f, "store_mark_broken"), 0);
	mark_errno = EIO;
	write_something(f);
	mark_errno = 0;
	assert_int_equal(metric_of(f, "store_mark_broken"), 1);
	write_something(f);
	assert_int_equal(metric_of(f, "store_mark_broken"), 0);
}

static int64_t pending;

static void write_meanwhile(struct fixture *f)
{
	write_something(f);
	pending = metric_of(f, "store_pending");
}

CASE(writes_that_a_disk_holds_up_are_pending)
{
	UNTIL(f, metric_of(f, "store_pending") == 0);
	while_the_disk_stalls(f, write_meanwhile);
	assert_int_equal(pending, 1);
	UNTIL(f, metric_of(f, "store_pending") == 0);
}

CASE(a_connection_without_tls_is_counted_as_refused)
{
	struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_port = htons(f->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(send(fd, "no TLS\n", 7, MSG_NOSIGNAL), 7);
	assert_int_equal(metric_of(f, "rpc_connections_refused_total"), 0);
	UNTIL(f, metric_of(f, "rpc_connections_refused_total") == 1);
	assert_int_equal(close(fd), 0);
}
