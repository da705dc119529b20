/* SPDX-License-Identifier: Apache-2.0 */
/* Renews the node's certificate, and notices files that were replaced. */

#include "identity/renewal.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "log/log.h"
#include "rpc/pki.h"
#include "rpc/timer.h"

#include <holdfast/v1/nodes.pb-c.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define CALL_US (30 * USEC_PER_SEC)
#define LOOK_US (5 * USEC_PER_SEC)
#define RETRY_MIN_MS INT64_C(1000)
#define RETRY_MAX_MS INT64_C(3600000)

struct renewal {
	sd_event *event;	/* borrowed */
	struct rpc_client *rpc; /* borrowed */
	struct rpc_tls *tls;	/* borrowed */
	struct renewal_files files;
	struct renewal_choice in_use;
	struct timespec configured[2]; /* certificate and CA of the settings, when they were looked at */
	void (*changed)(void *userdata);
	void *userdata;
	sd_event_source *look;	     /* owned */
	struct rpc_pending *pending; /* NULL: no call is in flight */
	char *key;		     /* owned, a secret; of the call in flight */
	int64_t due_ms;		     /* 0: not known */
	uint64_t retry_us;	     /* by the monotonic clock: no try before it, after one that failed */
	bool has_failed;
	struct error error;
};

int64_t renewal_due_ms(int64_t issued_ms, int64_t expires_ms)
{
	return issued_ms + (expires_ms - issued_ms) / 3 * 2;
}

static struct timespec changed_at(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? st.st_ctim : (struct timespec){.tv_sec = 0};
}

/* Unlike st_ctim: a change of the owner or mode is no new content. */
static struct timespec written_at(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 ? st.st_mtim : (struct timespec){.tv_sec = 0};
}

/* The first line of RENEWED_CA: which file of the settings it replaces, by content and time. */
#define REPLACES "replaces "

enum { REPLACES_LINE_MAX = sizeof(REPLACES "\n") + (size_t)2 * SHA256_DIGEST_LENGTH + 48 };

/* Writes that line for the file as it is now; one that cannot be read counts as empty. The time is only
 * compared for being the same: an enrolment may write the content again that the file had. */
static void replaces_line(const struct renewal_files *files, char ret[static REPLACES_LINE_MAX])
{
	uint8_t digest[SHA256_DIGEST_LENGTH];
	char hex[2 * SHA256_DIGEST_LENGTH + 1];
	const struct timespec at = written_at(files->ca);
	cleanup_free char *text = NULL;
	size_t n = 0;

	(void)file_read(files->ca, PKI_PEM_MAX, &text, &n);
	(void)SHA256((const uint8_t *)(text ? text : ""), text ? n : 0, digest);
	hex_encode(hex, digest, sizeof(digest));
	(void)str_format(ret, REPLACES_LINE_MAX, REPLACES "%s %lld.%09ld\n", hex, (long long)at.tv_sec,
			 at.tv_nsec);
}

/* Does the renewed CA at @path count? As long as root's file is as it was when the renewal came:
 * no clock decides, root's may have been ahead. One of an earlier build has no such line: then the file
 * counts that was written last. */
static bool is_newer(const struct renewal_files *files, const char *path)
{
	struct timespec configured = written_at(files->ca), renewed = written_at(path);
	char line[REPLACES_LINE_MAX];
	cleanup_free char *text = NULL;

	if (file_read(path, PKI_PEM_MAX + REPLACES_LINE_MAX, &text, NULL) < 0)
		return false;
	replaces_line(files, line);
	if (str_starts_with(text, REPLACES))
		return str_starts_with(text, line);
	return renewed.tv_sec > configured.tv_sec ||
	       (renewed.tv_sec == configured.tv_sec && renewed.tv_nsec > configured.tv_nsec);
}

static void choose_ca(const struct renewal_files *files, char ret[static PATH_MAX])
{
	struct pki_facts facts;

	if (str_format(ret, PATH_MAX, "%s/" RENEWED_CA, files->folder) >= 0 &&
	    pki_read_facts(ret, &facts, NULL) == STATUS_OK && is_newer(files, ret))
		return;
	(void)str_copy(ret, PATH_MAX, files->ca);
}

void renewal_choose(const struct renewal_files *files, struct renewal_choice *ret)
{
	struct pki_facts configured = {.issued_ms = 0};
	struct pki_facts renewed;

	choose_ca(files, ret->ca);
	(void)str_copy(ret->cert, sizeof(ret->cert), files->cert);
	(void)str_copy(ret->key, sizeof(ret->key), files->key);
	if (pki_read_facts(files->cert, &configured, NULL) != STATUS_OK)
		configured.issued_ms = 0;
	if (str_format(ret->cert, sizeof(ret->cert), "%s/" RENEWED_FILE, files->folder) >= 0 &&
	    pki_read_facts(ret->cert, &renewed, NULL) == STATUS_OK && str_eq(renewed.uri, files->uri) &&
	    renewed.issued_ms > configured.issued_ms) {
		(void)str_copy(ret->key, sizeof(ret->key), ret->cert);
		return;
	}
	(void)str_copy(ret->cert, sizeof(ret->cert), files->cert);
}

static void look_at_configured(const struct renewal *renewal, struct timespec ret[static 2])
{
	ret[0] = changed_at(renewal->files.cert);
	ret[1] = changed_at(renewal->files.ca);
}

static void plan(struct renewal *renewal)
{
	struct pki_facts facts;

	renewal->due_ms = pki_read_facts(renewal->in_use.cert, &facts, NULL) == STATUS_OK
				  ? renewal_due_ms(facts.issued_ms, facts.expires_ms)
				  : 0;
	renewal->retry_us = 0;
}

enum status renewal_reload(struct renewal *renewal, struct error *err)
{
	struct renewal_choice choice;
	struct rpc_tls_files files = {.ca = choice.ca, .cert = choice.cert, .key = choice.key};

	look_at_configured(renewal, renewal->configured);
	renewal_choose(&renewal->files, &choice);
	if (str_eq(choice.cert, renewal->in_use.cert) && str_eq(choice.ca, renewal->in_use.ca))
		TRY(rpc_tls_reload(renewal->tls, err));
	else
		TRY(rpc_tls_use(renewal->tls, &files, err));
	renewal->in_use = choice;
	plan(renewal);
	renewal->changed(renewal->userdata);
	return STATUS_OK;
}

/* --- the next one --- */

static void forget_key(struct renewal *renewal)
{
	pki_key_free(TAKE_PTR(renewal->key));
}

static void look_later(struct renewal *renewal);

static void retry_later(struct renewal *renewal)
{
	struct pki_facts facts;
	int64_t delay_ms = RETRY_MAX_MS;

	if (pki_read_facts(renewal->in_use.cert, &facts, NULL) == STATUS_OK)
		delay_ms = (facts.expires_ms - clock_realtime_ms()) / 10;
	delay_ms = delay_ms < RETRY_MIN_MS ? RETRY_MIN_MS : delay_ms;
	delay_ms = delay_ms > RETRY_MAX_MS ? RETRY_MAX_MS : delay_ms;
	/* the clock may be wrong now: the date of the renewal stays */
	renewal->retry_us = clock_monotonic_us() + (uint64_t)delay_ms * USEC_PER_MSEC;
	look_later(renewal);
}

/* A server that answers that it has no CA renews nothing, which is as it was set up: no problem. */
static void fail(struct renewal *renewal, bool is_answer, const struct error *err)
{
	forget_key(renewal);
	retry_later(renewal);
	renewal->has_failed = !is_answer || (err->status != STATUS_FAILED_PRECONDITION &&
					     err->status != STATUS_UNIMPLEMENTED);
	renewal->error = *err;
	log_ctx(renewal->has_failed ? LOG_WARNING : LOG_INFO, &(struct log_ctx){.op = "renew", .err = err},
		"the certificate is not renewed, and stays in use; the next try follows");
}

static enum status write_file(const struct renewal *renewal, const char *name, mode_t mode, const char *text,
			      struct error *err)
{
	char path[PATH_MAX];
	int r = str_format(path, sizeof(path), "%s/%s", renewal->files.folder, name);

	if (r >= 0)
		r = file_write_atomic(path, mode, text, strlen(text));
	return r < 0 ? error_set(err, STATUS_INTERNAL, r, "write %s", path) : STATUS_OK;
}

static enum status write_ca(const struct renewal *renewal, const char *ca, struct error *err)
{
	char line[REPLACES_LINE_MAX];
	cleanup_free char *text = NULL;

	replaces_line(&renewal->files, line);
	if (asprintf(&text, "%s%s", line, ca) < 0)
		return error_no_memory(err, "the CA");
	return write_file(renewal, RENEWED_CA, 0644, text, err);
}

/* The CA before the certificate: while the cluster changes its CA, the file has the old and the new one. Both
 * only if they fit: a CA that the server had by mistake would last. */
static enum status take(struct renewal *renewal, const Holdfast__V1__RenewResponse *response,
			struct error *err)
{
	cleanup_free char *text = NULL;
	const char *ca = response->ca, *before;
	char path[PATH_MAX];
	char *pair = NULL;
	enum status status;

	choose_ca(&renewal->files, path);
	(void)file_read(path, PKI_PEM_MAX + REPLACES_LINE_MAX, &text, NULL);
	before = text && str_starts_with(text, REPLACES) ? text + strcspn(text, "\n") + 1 : text;
	if (before && ca[0] == '\0')
		ca = before;
	TRY(pki_check_pair(response->certificate, renewal->key, renewal->files.uri, ca, err));
	if (!before || !str_eq(before, ca))
		TRY(write_ca(renewal, ca, err));
	if (asprintf(&pair, "%s%s", response->certificate, renewal->key) < 0)
		return error_no_memory(err, "the certificate");
	status = write_file(renewal, RENEWED_FILE, 0600, pair, err);
	pki_key_free(pair);
	return status == STATUS_OK ? renewal_reload(renewal, err) : status;
}

static void on_answer(enum status status, const ProtobufCMessage *response, const struct error *err,
		      void *userdata)
{
	struct renewal *renewal = userdata;
	bool is_answer = status != STATUS_OK;
	struct error failed;

	renewal->pending = NULL;
	if (status == STATUS_OK)
		status = take(renewal, (const Holdfast__V1__RenewResponse *)response, &failed);
	else
		failed = *err;
	if (status != STATUS_OK) {
		fail(renewal, is_answer, &failed);
		return;
	}
	forget_key(renewal);
	renewal->has_failed = false;
	log_ctx(LOG_NOTICE, &(struct log_ctx){.op = "renew"}, "the certificate is renewed: %s",
		renewal->in_use.cert);
}

static void renew(struct renewal *renewal)
{
	Holdfast__V1__RenewRequest request = HOLDFAST__V1__RENEW_REQUEST__INIT;
	cleanup_free char *csr = NULL;
	struct error err;
	enum status status = pki_make_request(&renewal->key, &csr, &err);

	request.csr = csr;
	if (status == STATUS_OK)
		status = rpc_client_call(renewal->rpc, &holdfast__v1__nodes__descriptor, "Renew",
					 &request.base, CALL_US, on_answer, renewal, &renewal->pending, &err);
	if (status != STATUS_OK)
		fail(renewal, false, &err);
}

static bool is_replaced(const struct renewal *renewal)
{
	struct timespec now[2];

	look_at_configured(renewal, now);
	return rpc_tls_has_changed(renewal->tls) || memcmp(now, renewal->configured, sizeof(now)) != 0;
}

static int on_look(sd_event_source *source, uint64_t usec, void *userdata);

/* The timer exists: arming it does not fail. */
static void look_later(struct renewal *renewal)
{
	int64_t left_us = (renewal->due_ms - clock_realtime_ms()) * 1000;
	int64_t retry_us = (int64_t)(renewal->retry_us - clock_monotonic_us());
	uint64_t delay_us = LOOK_US;

	if (left_us < retry_us)
		left_us = retry_us;
	if (renewal->due_ms > 0 && !renewal->pending && left_us < (int64_t)LOOK_US)
		delay_us = left_us > 0 ? (uint64_t)left_us : RETRY_MIN_MS * USEC_PER_MSEC;
	(void)timer_arm(renewal->event, &renewal->look, delay_us, on_look, renewal);
}

static int on_look(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct renewal *renewal = userdata;
	struct error err;

	if (!renewal->pending && is_replaced(renewal)) {
		if (renewal_reload(renewal, &err) == STATUS_OK)
			log_line(LOG_NOTICE, "%s was replaced and is in use for new connections",
				 renewal->in_use.cert);
		else /* the other half may follow */
			log_ctx(LOG_WARNING, &(struct log_ctx){.op = "renew", .err = &err},
				"a certificate was replaced; the one before stays in use");
	}
	if (!renewal->pending && renewal->due_ms > 0 && clock_realtime_ms() >= renewal->due_ms &&
	    clock_monotonic_us() >= renewal->retry_us)
		renew(renewal);
	look_later(renewal);
	return 0;
}

enum status renewal_new(sd_event *event, struct rpc_client *rpc, struct rpc_tls *tls,
			const struct renewal_files *files, void (*changed)(void *userdata), void *userdata,
			struct renewal **ret, struct error *err)
{
	struct renewal *renewal = calloc(1, sizeof(*renewal));
	int r;

	if (!renewal)
		return error_no_memory(err, "the node's certificate");
	*renewal = (struct renewal){.event = event,
				    .rpc = rpc,
				    .tls = tls,
				    .files = *files,
				    .changed = changed,
				    .userdata = userdata};
	look_at_configured(renewal, renewal->configured);
	renewal_choose(files, &renewal->in_use);
	plan(renewal);
	r = timer_arm(event, &renewal->look, 0, on_look, renewal);
	if (r < 0) {
		free(renewal);
		return error_set(err, status_from_errno(r), r, "look after the node's certificate");
	}
	*ret = renewal;
	return STATUS_OK;
}

void renewal_free(struct renewal *renewal)
{
	if (!renewal)
		return;
	if (renewal->pending)
		rpc_pending_cancel(renewal->pending);
	(void)sd_event_source_disable_unref(renewal->look);
	forget_key(renewal);
	free(renewal);
}

const char *renewal_cert(const struct renewal *renewal)
{
	return renewal->in_use.cert;
}

const struct error *renewal_error(const struct renewal *renewal)
{
	return renewal->has_failed ? &renewal->error : NULL;
}
