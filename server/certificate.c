/* SPDX-License-Identifier: Apache-2.0 */
#include "certificate.h"

#include "server.h"

#include "access/audit.h"
#include "access/issuers.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "forward/forward.h"
#include "identity/authority.h"
#include "lead/lead.h"
#include "log/log.h"
#include "rpc/pki.h"
#include "state/change.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DAY_MS (INT64_C(24) * 3600 * 1000)
#define DAY_US (UINT64_C(24) * 3600 * USEC_PER_SEC)

enum { TIMER_ACCURACY_US = 60000000 };

#define RETRY_MIN_MS INT64_C(5000)
#define RETRY_MAX_MS INT64_C(3600000)

/* --- the files --- */

static struct timespec changed_at(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? st.st_ctim : (struct timespec){.tv_sec = 0};
}

static void look_at_configured(const struct server *server, struct timespec ret[static 2])
{
	ret[0] = changed_at(server->config.cert);
	ret[1] = changed_at(server->config.key);
}

static int64_t begins_ms(const struct pki_facts *facts)
{
	return facts->issued_ms - PKI_SKEW_S * INT64_C(1000);
}

static bool is_valid(const struct pki_facts *facts)
{
	int64_t now_ms = clock_realtime_ms();

	return begins_ms(facts) <= now_ms && now_ms < facts->expires_ms;
}

/* Returns whether a renewed certificate was issued last that is not valid now. */
static bool choose(const struct server *server, struct server_files *ret)
{
	const struct config *config = &server->config;
	struct pki_facts configured = {.issued_ms = 0};
	struct pki_facts made;
	char path[PATH_MAX];

	(void)str_format(ret->ca, sizeof(ret->ca), "%s/" CERTIFICATE_CA, config->data_dir);
	if (access(ret->ca, F_OK) < 0)
		memcpy(ret->ca, config->ca, sizeof(config->ca));
	memcpy(ret->cert, config->cert, sizeof(config->cert));
	memcpy(ret->key, config->key, sizeof(config->key));
	if (pki_read_facts(config->cert, &configured, NULL) != STATUS_OK)
		configured = (struct pki_facts){.issued_ms = 0};
	(void)str_format(path, sizeof(path), "%s/" CERTIFICATE_RENEWED, config->data_dir);
	if (pki_read_facts(path, &made, NULL) != STATUS_OK ||
	    (configured.issued_ms > 0 && !str_eq(made.uri, configured.uri)))
		return false;
	if (is_valid(&made) != is_valid(&configured) ? is_valid(&made)
						     : made.issued_ms > configured.issued_ms) {
		memcpy(ret->cert, path, sizeof(path));
		memcpy(ret->key, path, sizeof(path));
	}
	return !is_valid(&made) && made.issued_ms > configured.issued_ms;
}

void certificate_choose(struct server *server)
{
	look_at_configured(server, server->certificate->configured);
	server->certificate->is_made_invalid = choose(server, &server->in_use);
}

bool certificate_is_replaced(const struct server *server)
{
	struct timespec now[2];

	look_at_configured(server, now);
	return rpc_tls_has_changed(server->tls) ||
	       memcmp(now, server->certificate->configured, sizeof(now)) != 0;
}

enum status certificate_use(struct server *server, struct error *err)
{
	const struct rpc_tls_files files = {
		.ca = server->in_use.ca, .cert = server->in_use.cert, .key = server->in_use.key};
	struct server_files before = server->in_use;
	enum status status;

	certificate_choose(server);
	status = str_eq(before.ca, server->in_use.ca) && str_eq(before.cert, server->in_use.cert) &&
				 str_eq(before.key, server->in_use.key)
			 ? rpc_tls_reload(server->tls, err)
			 : rpc_tls_use(server->tls, &files, err);
	if (status != STATUS_OK) {
		server->in_use = before;
		return status;
	}
	certificate_watch(server);
	forward_reconnect(server->forward);
	return STATUS_OK;
}

/* --- the next one --- */

static void free_key(char **key)
{
	pki_key_free(*key);
}

static void record(struct server *server, const struct pki_facts *facts)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	char object[AUDIT_OBJECT_SIZE];
	char until[CLOCK_TEXT_SIZE];
	struct error err;

	(void)str_format(object, sizeof(object), "certificate %s of %.150s until %s", facts->serial,
			 facts->uri, clock_format(facts->expires_ms, until));
	if (!server->is_serving) { /* it follows: the record is the leader's */
		log_line(LOG_NOTICE, "renewed: %s", object);
		return;
	}
	audit_own(server, &change, "Server.RenewCertificate", object, NULL);
	if (change_commit(server, &change, NULL, NULL, &err) != STATUS_OK)
		log_ctx(LOG_WARNING, &(struct log_ctx){.err = &err}, "%s is not on record", object);
}

static enum status renew(struct server *server, struct error *err)
{
	cleanup(free_key) char *key = NULL;
	cleanup(free_key) char *pair = NULL;
	cleanup_free char *csr = NULL;
	cleanup_free char *pem = NULL;
	cleanup_free char *ca = NULL;
	char path[PATH_MAX];
	struct pki_facts facts;
	int r;

	TRY(pki_make_request(&key, &csr, err));
	TRY(authority_issue_own(server, server->in_use.cert, csr, &pem, &facts, err));
	TRY(authority_read_ca_for(server, pem, &ca, err));
	TRY(pki_check_pair(pem, key, facts.uri, ca, err));
	(void)str_format(path, sizeof(path), "%s/" CERTIFICATE_RENEWED, server->config.data_dir);
	if (asprintf(&pair, "%s%s", pem, key) < 0) {
		pair = NULL;
		return error_no_memory(err, "the certificate");
	}
	r = file_write_atomic(path, 0600, pair, strlen(pair));
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "write %s", path);
	TRY(certificate_use(server, err));
	record(server, &facts);
	return STATUS_OK;
}

/* A server that has just started may not have the records of the nodes yet. */
static bool may_use_new_ca(struct server *server)
{
	char holders[AUTHORITY_HOLDERS_SIZE];

	return authority_is_new(server) &&
	       (server->is_serving || (server->lead && lead_has_copy(server->lead))) &&
	       (authority_is_only_one(server) || authority_old_holders(server, holders) == 0);
}

/* The certificate of a new CA waits until every node trusts it, or for the last quarter of the life. */
static int64_t due_ms_of(const struct server *server)
{
	const struct certificate *certificate = server->certificate;

	return authority_is_new(server) && certificate->due_ms < certificate->warns_at_ms
		       ? certificate->warns_at_ms
		       : certificate->due_ms;
}

uint64_t certificate_wait_us(const struct server *server, uint64_t most_us)
{
	int64_t left_ms = due_ms_of(server) - clock_realtime_ms();
	uint64_t now_us = clock_monotonic_us(), retry_us = server->certificate->retry_us, left_us;

	if (!server->authority || server->certificate->due_ms == 0)
		return most_us;
	left_us = left_ms > 0 ? (uint64_t)left_ms * USEC_PER_MSEC : 0;
	if (retry_us > now_us && left_us < retry_us - now_us)
		left_us = retry_us - now_us;
	return left_us == 0 || left_us > most_us ? most_us : left_us;
}

/* The clock may have been set since the choice. */
static void choose_again(struct server *server)
{
	struct server_files files;
	struct error err;

	if (server->own.expires_ms == 0 || is_valid(&server->own))
		return;
	(void)choose(server, &files);
	if (str_eq(files.cert, server->in_use.cert))
		return;
	if (certificate_use(server, &err) == STATUS_OK)
		log_line(LOG_NOTICE, "%s is in use: the certificate before is not valid now",
			 server->in_use.cert);
}

/* Peers that do not trust a new CA yet do not trust one that is not valid yet either. */
static bool is_due(struct server *server, int64_t now_ms)
{
	return begins_ms(&server->own) > now_ms ||
	       (server->certificate->is_made_invalid && !authority_is_new(server)) ||
	       now_ms >= due_ms_of(server) || may_use_new_ca(server);
}

void certificate_renew_due(struct server *server)
{
	struct certificate *certificate = server->certificate;
	int64_t now_ms = clock_realtime_ms();
	int64_t delay_ms;
	struct error err;

	choose_again(server);
	if (!server->authority || certificate->due_ms == 0 || clock_monotonic_us() < certificate->retry_us)
		return;
	if (!is_due(server, now_ms))
		return;
	if (renew(server, &err) == STATUS_OK)
		return;
	delay_ms = is_valid(&server->own) ? (server->own.expires_ms - now_ms) / 10 : 0;
	delay_ms = delay_ms < RETRY_MIN_MS ? RETRY_MIN_MS : delay_ms;
	delay_ms = delay_ms > RETRY_MAX_MS ? RETRY_MAX_MS : delay_ms;
	/* the clock may be wrong now: the date of the renewal stays */
	certificate->retry_us = clock_monotonic_us() + (uint64_t)delay_ms * USEC_PER_MSEC;
	log_ctx(err.status == STATUS_FAILED_PRECONDITION ? LOG_INFO : LOG_WARNING,
		&(struct log_ctx){.op = "certificate", .err = &err},
		"the server's certificate is not renewed, and stays in use; the next try follows");
}

void certificate_count_cas(struct server *server)
{
	const struct pki_ca *ca = authority_ca(server);

	server->certificate->n_old_cas = ca ? pki_ca_count_others(ca, server->in_use.ca) : 0;
}

bool certificate_ca_warning(struct server *server, char ret[static CERTIFICATE_CA_WARNING_SIZE])
{
	char holders[AUTHORITY_HOLDERS_SIZE];
	size_t n;

	if (server->certificate->n_old_cas == 0 || !server->authority)
		return false;
	n = authority_old_holders(server, holders);
	if (server->issuers->ca[0] != '\0') {
		(void)str_format(
			ret, CERTIFICATE_CA_WARNING_SIZE,
			"a change of the CA is under way; %zu nodes%s have certificates of the former "
			"one%s%s: see holdfast operator ca status",
			n, authority_is_new(server) ? " and this server" : "", n > 0 ? ": " : "", holders);
		return true;
	}
	if (n == 0 && !authority_is_new(server))
		(void)str_format(
			ret, CERTIFICATE_CA_WARNING_SIZE,
			"every node and this server have certificates of the CA that issues: once the "
			"other servers and people have too, remove the old CA from %s and reload",
			server->in_use.ca);
	else
		(void)str_format(
			ret, CERTIFICATE_CA_WARNING_SIZE,
			"%zu nodes%s have certificates of an old CA, and get one of the new CA when they "
			"renew theirs%s%s: keep the old CA in %s until then",
			n, authority_is_new(server) ? " and this server" : "", n > 0 ? ": " : "", holders,
			server->in_use.ca);
	return true;
}

/* --- its end --- */

bool certificate_warning(const struct certificate *certificate, const char *path,
			 char ret[static CERTIFICATE_WARNING_SIZE])
{
	int64_t left_ms = certificate->expires_at_ms - clock_realtime_ms();
	char text[CLOCK_TEXT_SIZE];

	if (clock_realtime_ms() < certificate->begins_at_ms) {
		(void)str_format(
			ret, CERTIFICATE_WARNING_SIZE,
			"the server's certificate %s is not valid before %s by this server's clock: nodes "
			"and clients with the same time refuse it; correct the clock, or make another "
			"certificate (holdfast operator cert server), put it at tls.cert and reload "
			"(systemctl reload holdfast-server)",
			path, clock_format(certificate->begins_at_ms, text));
		return true;
	}
	if (certificate->expires_at_ms == 0 || clock_realtime_ms() < certificate->warns_at_ms)
		return false;
	(void)clock_format(certificate->expires_at_ms, text);
	(void)str_format(ret, CERTIFICATE_WARNING_SIZE,
			 "the server's certificate %s %s at %s: nodes and clients %s; make another (holdfast "
			 "operator cert server), put it there and reload (systemctl reload holdfast-server)",
			 path, left_ms > 0 ? "expires" : "expired", text,
			 left_ms > 0 ? "will refuse it then" : "refuse it");
	return true;
}

bool certificate_name_warning(const struct server *server, char ret[static CERTIFICATE_WARNING_SIZE])
{
	const char *name = server->config.etcd.name, *slash = strrchr(server->own.uri, '/');

	if (!config_is_on_etcd(&server->config) || !slash || str_eq(slash + 1, name))
		return false;
	(void)str_format(ret, CERTIFICATE_WARNING_SIZE,
			 "this server has the name %s in store \"etcd\", and in its certificate %s: a "
			 "revocation of server/%s would not end it; enrol it as server/%s",
			 name, server->own.uri, name, name);
	return true;
}

static void warn(const struct server *server)
{
	char warning[CERTIFICATE_WARNING_SIZE];

	if (certificate_warning(server->certificate, server->in_use.cert, warning))
		log_ctx(LOG_WARNING,
			&(struct log_ctx){.op = "certificate", .event = LOG_EVENT_CERTIFICATE_EXPIRES}, "%s",
			warning);
	if (certificate_name_warning(server, warning))
		log_ctx(LOG_WARNING, &(struct log_ctx){.op = "certificate"}, "%s", warning);
}

static int on_day(sd_event_source *source, uint64_t usec, void *userdata)
{
	const struct server *server = userdata;

	warn(server);
	if (sd_event_source_set_time_relative(source, DAY_US) >= 0)
		(void)sd_event_source_set_enabled(source, SD_EVENT_ONESHOT); /* else no warning */
	return 0;
}

static void plan(struct certificate *certificate, const struct pki_facts *own)
{
	int64_t life_ms = own->expires_ms - own->issued_ms;

	certificate->due_ms = own->expires_ms > 0 ? own->issued_ms + life_ms / 3 * 2 : 0;
	certificate->retry_us = 0;
	certificate->warns_at_ms = pki_warns_at_ms(own);
}

void certificate_watch(struct server *server)
{
	struct certificate *certificate = server->certificate;
	struct error err;

	struct pki_facts ca = {.expires_ms = 0};

	if (pki_read_facts(server->in_use.ca, &ca, &err) != STATUS_OK)
		ca = (struct pki_facts){.expires_ms = 0}; /* only the metrics lack it */
	certificate->ca_expires_at_ms = ca.expires_ms;
	if (!config_is_on_etcd(&server->config) ||
	    pki_expiry(server->config.etcd.certificate, &certificate->store_expires_at_ms, &err) != STATUS_OK)
		certificate->store_expires_at_ms = 0; /* the same; a socket has no TLS */
	certificate_count_cas(server);
	server->trust_ends_at_ms = ca.last_expires_ms;
	/* by the clock of the server that made it, which may have been ahead of others */
	server->trust_begins_at_ms = ca.n == 1 && !str_eq(server->in_use.ca, server->config.ca)
					     ? ca.issued_ms - PKI_SKEW_S * INT64_C(1000)
					     : 0;
	if (pki_read_facts(server->in_use.cert, &server->own, &err) != STATUS_OK)
		server->own = (struct pki_facts){.expires_ms = 0};
	certificate->begins_at_ms = server->own.expires_ms > 0 ? begins_ms(&server->own) : 0;
	certificate->expires_at_ms = server->own.expires_ms;
	plan(certificate, &server->own);
	if (server->own.expires_ms == 0) {
		log_ctx(LOG_WARNING, &(struct log_ctx){.err = &err}, "the certificate's expiry is not known");
	}
	warn(server);
	if (!certificate->timer)
		(void)sd_event_add_time_relative(server->event, &certificate->timer, CLOCK_MONOTONIC, DAY_US,
						 TIMER_ACCURACY_US, on_day, server);
}

void certificate_release(struct certificate *certificate)
{
	certificate->timer = sd_event_source_disable_unref(certificate->timer);
}
