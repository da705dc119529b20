/* SPDX-License-Identifier: Apache-2.0 */
#include "certificate.h"

#include "server.h"

#include "base/clock.h"
#include "base/str.h"
#include "log/log.h"
#include "rpc/pki.h"

#define DAY_MS (INT64_C(24) * 3600 * 1000)
#define DAY_US (UINT64_C(24) * 3600 * USEC_PER_SEC)

enum { TIMER_ACCURACY_US = 60000000 };

bool certificate_warning(const struct certificate *certificate, const char *path,
			 char ret[static CERTIFICATE_WARNING_SIZE])
{
	int64_t left_ms = certificate->expires_at_ms - clock_realtime_ms();
	char text[CLOCK_TEXT_SIZE];

	if (certificate->expires_at_ms == 0 || left_ms > CERTIFICATE_WARN_DAYS * DAY_MS)
		return false;
	(void)clock_format(certificate->expires_at_ms, text);
	(void)str_format(ret, CERTIFICATE_WARNING_SIZE,
			 "the server's certificate %s %s at %s: nodes and clients %s; make another (holdfast "
			 "operator cert server), put it there and reload (systemctl reload holdfast-server)",
			 path, left_ms > 0 ? "expires" : "expired", text,
			 left_ms > 0 ? "will refuse it then" : "refuse it");
	return true;
}

static void warn(const struct server *server)
{
	char warning[CERTIFICATE_WARNING_SIZE];

	if (certificate_warning(server->certificate, server->config.cert, warning))
		log_ctx(LOG_WARNING,
			&(struct log_ctx){.op = "certificate", .event = LOG_EVENT_CERTIFICATE_EXPIRES}, "%s",
			warning);
}

static int on_day(sd_event_source *source, uint64_t usec, void *userdata)
{
	const struct server *server = userdata;

	warn(server);
	if (sd_event_source_set_time_relative(source, DAY_US) >= 0)
		(void)sd_event_source_set_enabled(source, SD_EVENT_ONESHOT); /* without it nobody is warned */
	return 0;
}

void certificate_watch(struct server *server)
{
	struct certificate *certificate = server->certificate;
	struct error err;

	struct pki_facts ca = {.expires_ms = 0};

	if (pki_read_facts(server->config.ca, &ca, &err) != STATUS_OK)
		ca = (struct pki_facts){.expires_ms = 0}; /* only the metrics lack it */
	certificate->ca_expires_at_ms = ca.expires_ms;
	server->trust_ends_at_ms = ca.last_expires_ms;
	if (pki_read_facts(server->config.cert, &server->own, &err) != STATUS_OK)
		server->own = (struct pki_facts){.expires_ms = 0};
	certificate->expires_at_ms = server->own.expires_ms;
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
