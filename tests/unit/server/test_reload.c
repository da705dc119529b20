/* SPDX-License-Identifier: Apache-2.0 */
/* SIGHUP: what changes while the server runs, what waits for a start, and that a broken file changes
 * nothing. */

#include "callers.h"
#include "reload.h"
#include "unit.h"

#include "base/fd.h"
#include "rpc/pki.h"

#include <limits.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <sys/stat.h>

static void write_config(struct fixture *f, const char *text)
{
	struct config *config = &f->server->config;

	(void)str_format(config->path, sizeof(config->path), "%s/server.hcl", f->dir);
	assert_int_equal(file_write_atomic(config->path, 0644, text, strlen(text)), 0);
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup_acl, teardown)

CASE(settings_that_nothing_was_built_upon_change)
{
	const struct config *config = &f->server->config;

	write_config(f, "cluster = \"c1\"\nacl = false\naudit_keep = 5000\naudit_keep_for = \"2d\"\n"
			"ticket_ttl = \"30s\"\nheartbeat = \"7s\"\nnode_down_after = \"11s\"\n"
			"controller_timeout = \"12s\"\nreservation_ttl = \"13s\"\nrelease_sweep = \"14s\"\n"
			"gc_interval = \"15s\"\ngc_after = \"61s\"\nnamespace_memory = \"17MiB\"\n");
	server_reload(f->server);
	assert_false(config->acl);
	assert_int_equal(config->audit_keep, 5000);
	assert_int_equal(config->audit_keep_for_us, 2 * 86400 * USEC_PER_SEC);
	assert_int_equal(config->ticket_ttl_us, 30 * USEC_PER_SEC);
	assert_int_equal(config->heartbeat_us, 7 * USEC_PER_SEC);
	assert_int_equal(config->node_down_after_us, 11 * USEC_PER_SEC);
	assert_int_equal(config->controller_timeout_us, 12 * USEC_PER_SEC);
	assert_int_equal(config->reservation_ttl_us, 13 * USEC_PER_SEC);
	assert_int_equal(config->release_sweep_us, 14 * USEC_PER_SEC);
	assert_int_equal(config->gc_interval_us, 15 * USEC_PER_SEC);
	assert_int_equal(config->gc_after_us, 61 * USEC_PER_SEC);
	assert_int_equal(config->namespace_memory, 17 << 20);
	assert_int_equal(audit_head(f->server).sequence, 12); /* each is on record */
	server_reload(f->server);
	assert_int_equal(audit_head(f->server).sequence, 12);
}

CASE(settings_of_the_start_stay)
{
	struct config before = f->server->config;

	write_config(f, "cluster = \"c2\"\ndata_dir = \"/nowhere\"\nlisten {\n  port = 1\n}\n"
			"tls {\n  cert = \"/nowhere.pem\"\n}\n");
	server_reload(f->server);
	assert_string_equal(f->server->config.cluster, "c1");
	assert_string_equal(f->server->config.data_dir, before.data_dir);
	assert_string_equal(f->server->config.cert, before.cert);
	assert_int_equal(f->server->config.port, before.port);
}

CASE(a_broken_file_changes_nothing)
{
	static const char *const broken[] = {"", "acl = false", "cluster = \"c1\"\nacl = false\nalc = 1\n",
					     "cluster = \"c1\"\nacl = false\naudit_keep = 999\n"};

	for (size_t i = 0; i < ARRAY_SIZE(broken); i++) {
		write_config(f, broken[i]);
		server_reload(f->server);
		assert_true(f->server->config.acl);
	}
	assert_int_equal(unlink(f->server->config.path), 0);
	server_reload(f->server);
	assert_true(f->server->config.acl);
}

CASE(sighup_loads_a_new_certificate_and_keeps_the_old_one_when_it_is_broken)
{
	const struct config *config = &f->server->config;
	char ca_key[PATH_MAX];
	const struct pki_cert_request request = {
		.uri = "holdfast://c1/server/dev", .common_name = "dev", .days = 20};
	int64_t before_ms = f->server->certificate->expires_at_ms;
	char warning[CERTIFICATE_WARNING_SIZE];

	assert_false(certificate_warning(f->server->certificate, config->cert, warning));
	(void)str_format(ca_key, sizeof(ca_key), "%s/tls/ca.key", f->dir);
	assert_int_equal(unlink(config->cert), 0);
	server_reload(f->server);
	assert_int_equal(f->server->certificate->expires_at_ms, before_ms);
	operator_does(f, "Operator.Status", "{}");
	assert_int_equal(unlink(config->key), 0);
	assert_int_equal(pki_issue(ca_key, config->ca, &request, config->key, config->cert, NULL), STATUS_OK);
	assert_int_equal(raise(SIGHUP), 0);
	UNTIL(f, f->server->certificate->expires_at_ms != before_ms);
	assert_in_range(f->server->certificate->expires_at_ms - clock_realtime_ms(), 19 * 86400000LL,
			20 * 86400000LL);
	assert_false(certificate_warning(f->server->certificate, config->cert, warning));
	/* of 20 days the last quarter */
	assert_in_range(f->server->certificate->expires_at_ms - f->server->certificate->warns_at_ms, 1,
			5 * 86400000LL);
	operator_does(f, "Operator.Status", "{}");
}

/* First the one file, then the other. */
CASE(a_certificate_that_is_replaced_is_loaded_without_a_signal)
{
	const struct config *config = &f->server->config;
	const struct pki_cert_request request = {
		.uri = "holdfast://c1/server/dev", .common_name = "dev", .days = 20};
	int64_t before_ms = f->server->certificate->expires_at_ms;
	char key[PATH_MAX], cert[PATH_MAX], ca_key[PATH_MAX];

	(void)str_format(ca_key, sizeof(ca_key), "%s/tls/ca.key", f->dir);
	(void)str_format(key, sizeof(key), "%s/tls/next.key", f->dir);
	(void)str_format(cert, sizeof(cert), "%s/tls/next.pem", f->dir);
	assert_int_equal(pki_issue(ca_key, config->ca, &request, key, cert, NULL), STATUS_OK);
	assert_int_equal(rename(cert, config->cert), 0);
	settle(f);
	settle(f);
	operator_does(f, "Operator.Status", "{}");
	assert_int_equal(f->server->certificate->expires_at_ms, before_ms);
	assert_int_equal(rename(key, config->key), 0);
	UNTIL(f, f->server->certificate->expires_at_ms != before_ms);
	operator_does(f, "Operator.Status", "{}");
}

/* --- renewal by the server itself --- */

static bool is_for_address(const char *path, const char *address)
{
	FILE *file = fopen(path, "re");
	X509 *cert = file ? PEM_read_X509(file, NULL, NULL, NULL) : NULL;
	bool is = cert && X509_check_ip_asc(cert, address, 0) == 1;

	X509_free(cert);
	(void)fclose(file);
	return is;
}

static void expect_in_use(struct fixture *f, const char *cert)
{
	assert_string_equal(f->server->in_use.cert, cert);
	operator_does(f, "Operator.Status", "{}"); /* a new connection, which checks the names */
}

CASE(a_server_with_a_ca_renews_its_certificate_and_keeps_it_over_a_restart)
{
	struct pki_facts before, after;
	char made[PATH_MAX];
	struct stat st;

	(void)str_format(made, sizeof(made), "%s/" CERTIFICATE_RENEWED, f->dir);
	assert_int_equal(pki_read_facts(f->server->config.cert, &before, NULL), STATUS_OK);
	assert_true(f->server->certificate->due_ms ==
		    before.issued_ms + (before.expires_ms - before.issued_ms) / 3 * 2);
	settle(f);
	settle(f);
	expect_in_use(f, f->server->config.cert);
	f->server->certificate->due_ms = 1;
	settle(f);
	settle(f);
	expect_in_use(f, f->server->config.cert); /* it has no CA */
	open_authority(f);
	UNTIL(f, str_eq(f->server->in_use.cert, made));
	expect_in_use(f, made);
	assert_int_equal(pki_read_facts(made, &after, NULL), STATUS_OK);
	assert_string_equal(after.uri, before.uri);
	assert_true(is_for_address(f->server->config.cert, "127.0.0.1"));
	assert_true(is_for_address(made, "127.0.0.1"));
	assert_string_not_equal(after.serial, before.serial);
	assert_string_equal(f->server->own.serial, after.serial);
	assert_in_range(after.expires_ms - clock_realtime_ms(), 119 * 86400000LL, 120 * 86400000LL);
	assert_int_equal(stat(made, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(audit_head(f->server).sequence, 1);
	restart(f);
	expect_in_use(f, made);
}

CASE(a_renewal_that_cannot_be_written_keeps_the_certificate_in_use)
{
	char made[PATH_MAX];

	(void)str_format(made, sizeof(made), "%s/" CERTIFICATE_RENEWED, f->dir);
	assert_int_equal(mkdir(made, 0700), 0);
	open_authority(f);
	f->server->certificate->due_ms = 1;
	UNTIL(f, f->server->certificate->retry_us > 0);
	expect_in_use(f, f->server->config.cert);
	assert_int_equal(rmdir(made), 0);
	f->server->certificate->retry_us = 0;
	UNTIL(f, str_eq(f->server->in_use.cert, made));
}

CASE(a_renewal_that_failed_while_the_clock_was_ahead_is_tried_again_when_it_is_due)
{
	struct certificate *certificate = f->server->certificate;
	const int64_t due_ms = certificate->due_ms, ahead_ms = 500 * 86400000LL;
	char made[PATH_MAX];

	(void)str_format(made, sizeof(made), "%s/" CERTIFICATE_RENEWED, f->dir);
	assert_int_equal(mkdir(made, 0700), 0);
	open_authority(f);
	unit_clock_step(ahead_ms);
	UNTIL(f, certificate->retry_us > 0);
	unit_clock_step(-ahead_ms);
	assert_int_equal(rmdir(made), 0);
	assert_true(certificate->due_ms == due_ms);
	run_for(f->event, 12000); /* two looks: it is not due */
	expect_in_use(f, f->server->config.cert);
	unit_clock_step(due_ms - clock_realtime_ms() + 1);
	UNTIL(f, str_eq(f->server->in_use.cert, made));
}

/* The next look follows the failed one in seconds. */
CASE(a_renewal_that_failed_waits_for_a_tenth_of_the_time_left)
{
	struct certificate *certificate = f->server->certificate;
	const int64_t in_ms = certificate->expires_at_ms - clock_realtime_ms() - 600000;
	uint64_t retry_us;
	char made[PATH_MAX];

	(void)str_format(made, sizeof(made), "%s/" CERTIFICATE_RENEWED, f->dir);
	assert_int_equal(mkdir(made, 0700), 0);
	open_authority(f);
	unit_clock_step(in_ms);
	UNTIL(f, certificate->retry_us > 0);
	retry_us = certificate->retry_us;
	assert_in_range(retry_us - clock_monotonic_us(), 50 * USEC_PER_SEC, 60 * USEC_PER_SEC);
	run_for(f->event, 40000);
	assert_true(certificate->retry_us == retry_us);
	assert_in_range(certificate_wait_us(f->server, 30 * USEC_PER_SEC), 1, 25 * USEC_PER_SEC);
	UNTIL(f, certificate->retry_us != retry_us);
	assert_true(clock_monotonic_us() >= retry_us);
	server_reload(f->server);
	assert_true(certificate->retry_us == 0); /* the next look tries it at once */
}

CASE(a_ca_that_is_gone_keeps_the_server_issuing_and_serving_with_the_one_before)
{
	char made[PATH_MAX], gone[PATH_MAX];

	(void)str_format(made, sizeof(made), "%s/" CERTIFICATE_RENEWED, f->dir);
	(void)str_format(gone, sizeof(gone), "%s/tls/ca.away", f->dir);
	open_authority(f);
	assert_int_equal(rename(f->server->config.authority.key, gone), 0);
	server_reload(f->server);
	f->server->certificate->due_ms = 1;
	UNTIL(f, str_eq(f->server->in_use.cert, made)); /* the key is open */
	assert_int_equal(rename(gone, f->server->config.authority.key), 0);
	assert_int_equal(rename(f->server->config.ca, gone), 0);
	server_reload(f->server);
	f->server->certificate->due_ms = 1;
	UNTIL(f, f->server->certificate->retry_us > 0); /* nothing proves the next one: it is tried again */
	assert_int_equal(rename(gone, f->server->config.ca), 0);
	expect_in_use(f, made);
}

CASE(a_later_certificate_of_the_settings_takes_the_place_of_a_renewed_one)
{
	const struct config *config = &f->server->config;
	struct pki_cert_request request = {
		.uri = "holdfast://c1/server/dev", .common_name = "dev", .days = 20, .like = config->cert};
	char made[PATH_MAX], old[PATH_MAX];
	uint64_t n;

	(void)str_format(made, sizeof(made), "%s/" CERTIFICATE_RENEWED, f->dir);
	(void)str_format(old, sizeof(old), "%s/old.pem", f->dir);
	open_authority(f);
	f->server->config.authority.server_life_us = 600 * USEC_PER_SEC;
	f->server->certificate->due_ms = 1;
	UNTIL(f, str_eq(f->server->in_use.cert, made));
	assert_int_equal(rename(config->cert, old), 0);
	assert_int_equal(unlink(config->key), 0);
	request.like = old;
	request.after_ms = f->server->own.issued_ms; /* else perhaps of the same second */
	assert_ok(pki_issue(config->authority.key, config->ca, &request, config->key, config->cert, NULL));
	UNTIL(f, str_eq(f->server->in_use.cert, config->cert));
	expect_in_use(f, config->cert);
	unit_clock_step(1200000); /* the renewed one has expired */
	server_reload(f->server);
	n = audit_head(f->server).sequence;
	run_for(f->event, 30000);
	assert_int_equal(audit_head(f->server).sequence, n);
	expect_in_use(f, config->cert);
}

/* --- a clock that was ahead --- */

static void expect_valid(struct fixture *f, const char *cert)
{
	struct pki_facts facts;

	expect_in_use(f, cert);
	assert_ok(pki_read_facts(cert, &facts, NULL));
	assert_true(facts.issued_ms <= clock_realtime_ms() + PKI_AHEAD_MS);
	assert_true(facts.expires_ms > clock_realtime_ms());
}

/* Returns by how much. The renewed one is of that clock. */
static int64_t renew_ahead(struct fixture *f, char made[static PATH_MAX])
{
	const int64_t ahead_ms = f->server->certificate->due_ms - clock_realtime_ms() + 86400000LL;

	(void)str_format(made, PATH_MAX, "%s/" CERTIFICATE_RENEWED, f->dir);
	unit_clock_step(ahead_ms);
	UNTIL(f, str_eq(f->server->in_use.cert, made));
	return ahead_ms;
}

CASE(a_server_whose_clock_was_ahead_renews_its_certificate_again)
{
	char made[PATH_MAX];
	uint64_t n;

	open_authority(f);
	unit_clock_step(-renew_ahead(f, made));
	run_for(f->event, 12000); /* two looks */
	expect_valid(f, made);
	n = audit_head(f->server).sequence;
	run_for(f->event, 30000);
	assert_int_equal(audit_head(f->server).sequence, n); /* once */
	restart(f);
	expect_valid(f, made);
}

CASE(a_certificate_of_the_settings_counts_while_the_renewed_one_is_not_valid_yet)
{
	struct authority *authority;
	char made[PATH_MAX];

	open_authority(f);
	unit_clock_step(-renew_ahead(f, made));
	authority = f->server->authority;
	f->server->authority = NULL; /* as before the store of several servers is read */
	run_for(f->event, 12000);
	expect_in_use(f, f->server->config.cert);
	server_reload(f->server);
	expect_in_use(f, f->server->config.cert);
	f->server->authority = authority;
	UNTIL(f, str_eq(f->server->in_use.cert, made));
	expect_valid(f, made);
}

CASE(a_certificate_of_the_settings_counts_when_the_renewed_one_has_expired)
{
	struct authority *authority;
	char made[PATH_MAX];

	(void)str_format(made, sizeof(made), "%s/" CERTIFICATE_RENEWED, f->dir);
	open_authority(f);
	f->server->config.authority.server_life_us = 600 * USEC_PER_SEC;
	f->server->certificate->due_ms = 1;
	UNTIL(f, str_eq(f->server->in_use.cert, made));
	authority = f->server->authority;
	f->server->authority = NULL;
	unit_clock_step(601000);
	UNTIL(f, str_eq(f->server->in_use.cert, f->server->config.cert));
	expect_in_use(f, f->server->config.cert);
	f->server->authority = authority;
	UNTIL(f, str_eq(f->server->in_use.cert, made));
	expect_valid(f, made);
}

CASE(a_certificate_of_the_settings_that_is_not_valid_yet_is_a_warning_and_is_replaced)
{
	const struct config *config = &f->server->config;
	const struct certificate *certificate = f->server->certificate;
	struct pki_cert_request request = {
		.uri = "holdfast://c1/server/dev", .common_name = "dev", .days = 20};
	const int64_t ahead_ms = 86400000LL;
	char warning[CERTIFICATE_WARNING_SIZE], made[PATH_MAX], old[PATH_MAX], ca_key[PATH_MAX];
	uint64_t n;

	(void)str_format(made, sizeof(made), "%s/" CERTIFICATE_RENEWED, f->dir);
	(void)str_format(old, sizeof(old), "%s/old.pem", f->dir);
	(void)str_format(ca_key, sizeof(ca_key), "%s/tls/ca.key", f->dir);
	request.like = old;
	unit_clock_step(ahead_ms);
	assert_int_equal(rename(config->cert, old), 0);
	assert_int_equal(unlink(config->key), 0);
	assert_ok(pki_issue(ca_key, config->ca, &request, config->key, config->cert, NULL));
	server_reload(f->server);
	assert_false(certificate_warning(certificate, config->cert, warning));
	unit_clock_step(-ahead_ms);
	server_reload(f->server);
	assert_true(certificate_warning(certificate, config->cert, warning));
	assert_non_null(strstr(warning, "is not valid before "));
	assert_int_equal(mkdir(made, 0700), 0);
	open_authority(f);
	UNTIL(f, certificate->retry_us > 0);
	assert_int_equal(rmdir(made), 0);
	UNTIL(f, str_eq(f->server->in_use.cert, made)); /* in seconds: peers refuse it meanwhile */
	expect_valid(f, made);
	assert_false(certificate_warning(certificate, made, warning));
	n = audit_head(f->server).sequence;
	run_for(f->event, 30000);
	assert_int_equal(audit_head(f->server).sequence, n);
}

TEST(a_server_whose_lists_show_another_name_than_its_certificate_is_a_warning)
{
	static struct server server;
	char warning[CERTIFICATE_WARNING_SIZE];

	(void)str_copy(server.config.etcd.name, sizeof(server.config.etcd.name), "claims");
	assert_false(certificate_name_warning(&server, warning));
	(void)str_copy(server.own.uri, sizeof(server.own.uri), "holdfast://prod/server/server");
	assert_false(certificate_name_warning(&server, warning)); /* its store is in sqlite */
	(void)str_copy(server.config.etcd.endpoints[0], LEAD_ENDPOINT_SIZE, "unix:/run/e");
	assert_true(certificate_name_warning(&server, warning));
	assert_non_null(strstr(warning, "enrol it as server/claims"));
	(void)str_copy(server.own.uri, sizeof(server.own.uri), "holdfast://prod/server/claims");
	assert_false(certificate_name_warning(&server, warning));
}

TEST(the_warning_begins_thirty_days_before)
{
	static const struct {
		int64_t days;
		const char *word;
	} cases[] = {{31, NULL}, {29, "expires"}, {-1, "expired"}};
	char warning[CERTIFICATE_WARNING_SIZE];

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const int64_t expires_ms = clock_realtime_ms() + cases[i].days * 86400000LL;
		const struct certificate certificate = {.expires_at_ms = expires_ms,
							.warns_at_ms = expires_ms - 30 * 86400000LL};

		assert_int_equal(certificate_warning(&certificate, "/c.pem", warning), cases[i].word != NULL);
		if (cases[i].word)
			assert_non_null(strstr(warning, cases[i].word));
	}
}
