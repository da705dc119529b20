/* SPDX-License-Identifier: Apache-2.0 */
/* Brings a new CA to every server, and finishes with the former one. */

#include "ca_change.h"

#include "certificate.h"
#include "server.h"
#include "waits.h"

#include "access/answer.h"
#include "access/audit.h"
#include "access/caller.h"
#include "access/issuers.h"
#include "access/revocations.h"
#include "api/watch.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "identity/authority.h"
#include "identity/enrollments.h"
#include "lead/lead.h"
#include "log/log.h"
#include "model/message.h"
#include "state/change.h"
#include "state/keys.h"
#include "state/records.h"

#include <assert.h>
#include <errno.h>
#include <holdfast/v1/operator.pb-c.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WHAT "Operator.ChangeCa"

typedef Holdfast__V1__StoredCa Stored;

static const Stored *stored_ca(struct server *server)
{
	return records_get(&server->state.records, KEY_CA);
}

static bool is_changing(const Stored *stored)
{
	return stored && stored->former[0] != '\0';
}

/* --- the trusted CAs --- */

/* The file first: a certificate that others do not trust is never issued. */
static enum status write_file(struct server *server, const Stored *stored, struct error *err)
{
	cleanup_free char *text = NULL;
	cleanup_free char *before = NULL;
	char path[PATH_MAX];
	int r;

	(void)str_format(path, sizeof(path), "%s/" CERTIFICATE_CA, server->config.data_dir);
	if (!stored)
		return unlink(path) < 0 && errno != ENOENT
			       ? error_set(err, status_from_errno(errno), errno, "remove %s", path)
			       : STATUS_OK;
	if (asprintf(&text, "%s%s", stored->certificate, stored->former) < 0) {
		text = NULL;
		return error_no_memory(err, "the CA");
	}
	if (file_read(path, PKI_PEM_MAX, &before, NULL) >= 0 && str_eq(before, text))
		return STATUS_OK;
	r = file_write_atomic(path, 0644, text, strlen(text));
	return r < 0 ? error_set(err, status_from_errno(r), r, "write %s", path) : STATUS_OK;
}

/* Fencers call once, and stay connected. A stream that a follower hands on may be older than the certificate
 * that it shows now. */
static enum status note_caller(const struct rpc_call *call, void *userdata, struct error *err)
{
	struct server *server = userdata;

	issuers_note(server->issuers, server->config.cluster, rpc_call_peer(call));
	return STATUS_OK;
}

static int on_soon(sd_event_source *source, void *userdata)
{
	struct server *server = userdata;

	ca_change_load(server);
	if (server->ca_change->looks_at_calls && is_changing(stored_ca(server)))
		rpc_server_review(server->rpc, note_caller);
	else if (server->ca_change->looks_at_calls)
		revocations_end(server);
	server->ca_change->looks_at_calls = false;
	return 0;
}

/* In the next turn, or else by the next look. */
static void apply_soon(struct server *server)
{
	struct ca_change *change = server->ca_change;

	if (change->soon)
		(void)sd_event_source_set_enabled(change->soon, SD_EVENT_ONESHOT);
	else
		(void)sd_event_add_defer(server->event, &change->soon, on_soon, server);
}

static enum status use_stored(struct server *server, struct error *err)
{
	const Stored *stored = stored_ca(server);
	int64_t changed_ms = stored ? stored->changed_at_ms : 0;
	const struct pki_ca *ca;

	if (server->ca_change->is_applied && server->ca_change->applied_ms == changed_ms)
		return STATUS_OK;
	TRY(write_file(server, stored, err));
	if (server->tls && (stored || !str_eq(server->in_use.ca, server->config.ca))) {
		/* else they are opened when it begins to listen */
		TRY(authority_open(server, err));
		TRY(certificate_use(server, err));
	}
	ca = authority_ca(server);
	issuers_begin(server->issuers, is_changing(stored) && ca ? pki_ca_key_id(ca) : "");
	(void)str_copy(server->issuers->only, sizeof(server->issuers->only),
		       stored && !is_changing(stored) && ca ? pki_ca_key_id(ca) : "");
	if (stored && server->rpc) {
		server->ca_change->looks_at_calls = true;
		apply_soon(server);
	}
	server->ca_change->is_applied = server->tls != NULL;
	server->ca_change->applied_ms = changed_ms;
	if (stored && server->tls)
		log_line(LOG_NOTICE, "the CA of the store is in use%s",
			 is_changing(stored) ? ", and the former one is trusted too"
					     : "; the former one is not trusted");
	return STATUS_OK;
}

/* Callers are noted for a CA that is in use. */
static enum status apply(struct server *server, struct error *err)
{
	enum status status = use_stored(server, err);

	(void)str_copy(server->ca_change->failure, sizeof(server->ca_change->failure),
		       status == STATUS_OK ? "" : err->msg);
	if (status != STATUS_OK)
		issuers_begin(server->issuers, "");
	return status;
}

/* Until then this server trusts and issues by the former record, and has noted no caller for the new one. */
static enum status check_applied(struct server *server, struct error *err)
{
	struct error why;

	if (apply(server, &why) == STATUS_OK)
		return STATUS_OK;
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "this server does not use the CA of the store yet, and trusts as before its change: "
			 "%.300s; correct the cause, then look: holdfast operator ca status",
			 why.msg);
}

bool ca_change_warning(struct server *server, char ret[static CA_CHANGE_WARNING_SIZE])
{
	if (server->ca_change->failure[0] == '\0')
		return false;
	(void)str_format(
		ret, CA_CHANGE_WARNING_SIZE,
		"the CA of the store is not in use at this server, which trusts as before its change: "
		"%s; the server tries again every few seconds, also at: holdfast operator ca status",
		server->ca_change->failure);
	return true;
}

void ca_change_load(struct server *server)
{
	struct error err;

	if (apply(server, &err) != STATUS_OK)
		log_ctx(LOG_ERR, &(struct log_ctx){.op = "certificate", .err = &err},
			"the CA of the store is not in use yet; the next try follows");
}

void ca_change_look(struct server *server)
{
	issuers_expire(server->issuers, clock_realtime_ms());
	if (server->is_serving || (server->lead && lead_has_copy(server->lead)))
		ca_change_load(server);
}

void ca_change_note_followed(struct server *server, const struct kv_item *item)
{
	if (str_eq(item->key, KEY_CA))
		apply_soon(server);
}

void ca_change_release(struct ca_change *change)
{
	change->soon = sd_event_source_disable_unref(change->soon);
}

/* --- who has a certificate of the former CA --- */

/* "operator/ann" of "holdfast://CLUSTER/operator/ann". */
static const char *short_name(const struct server *server, const char *uri)
{
	char begin[RPC_URI_SIZE];

	return str_format(begin, sizeof(begin), "holdfast://%s/", server->config.cluster) >= 0 &&
			       str_starts_with(uri, begin)
		       ? uri + strlen(begin)
		       : uri;
}

static void find_holders(struct server *server, struct waits *ret)
{
	const struct node_entry *node = NULL;

	ret->n = ret->n_named = 0;
	if (!is_changing(stored_ca(server)))
		return;
	if (authority_is_new(server))
		waits_add(ret, short_name(server, server->own.uri), "", " (this server)");
	while ((node = authority_old_holder(server, node)))
		waits_add(ret, "node/", node->id, node_is_connected(node) ? "" : " (not connected)");
	issuers_expire(server->issuers, clock_realtime_ms());
	for (size_t i = 0; i < server->issuers->n; i++)
		waits_add(ret, short_name(server, server->issuers->callers[i].uri), "", "");
}

/* --- the methods --- */

static void fill(struct server *server, struct waits *holders, Holdfast__V1__CaResponse *response)
{
	const struct pki_ca *ca = authority_ca(server);
	const Stored *stored = stored_ca(server);

	response->key_id = (char *)(uintptr_t)(ca ? pki_ca_key_id(ca) : "");
	response->expires_at_ms = ca ? pki_ca_expires_ms(ca) : 0;
	response->changing = is_changing(stored);
	response->changed_at_ms = stored ? stored->changed_at_ms : 0;
	response->who = stored ? stored->who : response->who;
	find_holders(server, holders);
	response->holding = holders->n;
	response->holders = holders->named;
	response->n_holders = holders->n_named;
}

static enum status handle_get(struct server *server, struct rpc_call *call, const ProtobufCMessage *request,
			      struct error *err)
{
	Holdfast__V1__CaResponse response = HOLDFAST__V1__CA_RESPONSE__INIT;
	cleanup_free struct waits *holders = malloc(sizeof(*holders));

	if (!holders)
		return error_no_memory(err, "an answer");
	TRY(check_applied(server, err));
	fill(server, holders, &response);
	answer_durable(server, call, message_copy(&response.base));
	return STATUS_OK;
}

static const struct read_method get_method = {.handle = handle_get};
DEFINE_READ_METHOD(ca_change_handle_get, get_method)

/* The server issues by it before it answers. */
static void on_changed(struct server *server, void *userdata)
{
	cleanup_free struct answer_waiting *waiting = userdata;
	Holdfast__V1__CaResponse response = HOLDFAST__V1__CA_RESPONSE__INIT;
	cleanup_free struct waits *holders = malloc(sizeof(*holders));
	struct error err;

	if (check_applied(server, &err) != STATUS_OK) {
		(void)error_prefix(&err, "the change of the CA is stored");
		answer_error(waiting->call, err.status, err.msg);
		return;
	}
	if (!holders) {
		answer_error(waiting->call, STATUS_RESOURCE_EXHAUSTED, "an answer: out of memory");
		return;
	}
	fill(server, holders, &response);
	rpc_call_reply(waiting->call, &response.base);
}

static enum status stage(struct server *server, struct change *change, const struct rpc_call *call,
			 const Stored *stored, const char *key_id, const char *why, struct error *err)
{
	char object[AUDIT_OBJECT_SIZE];

	change_put_record(change, KEY_CA, &stored->base);
	(void)str_format(object, sizeof(object), "CA %s", key_id);
	audit_write(server, change, call, WHAT, object, why);
	return change->status == STATUS_OK ? STATUS_OK : error_no_memory(err, "the CA");
}

/* --- to begin --- */

DEFINE_CLEANUP(struct pki_ca, pki_ca_free)

static void free_key(char **key)
{
	pki_key_free(*key);
}

static enum status check_given(const struct server *server, const struct pki_ca *given, struct error *err)
{
	const struct pki_ca *issuing = authority_ca(server);

	if (!issuing)
		return error_set(
			err, STATUS_INVALID_ARGUMENT, 0,
			"certificate: the CA's key in the store cannot be decrypted, so a given CA "
			"cannot be compared with it. Next: holdfast operator ca begin, without files");
	if (pki_ca_key_id(given)[0] == '\0')
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "certificate: it has no subjectKeyIdentifier, by which servers know whose "
				 "certificates are of which CA");
	if (str_eq(pki_ca_key_id(given), pki_ca_key_id(issuing)))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "certificate: it is the CA that issues already");
	if (!pki_ca_has_same_name(given, issuing))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "certificate: its subject differs from that of the CA that issues; make one "
				 "with: holdfast operator cert ca %s",
				 server->config.cluster);
	return STATUS_OK;
}

/* A root that links nothing, or is missing, is found before certificates depend on it, and so is a data_dir
 * that takes no file. */
static enum status check_signs(const struct server *server, const struct pki_ca *ca, const char *trusted,
			       struct error *err)
{
	cleanup(free_key) char *key = NULL;
	cleanup_free char *csr = NULL;
	cleanup_free char *pem = NULL;
	struct pki_facts facts;
	char path[PATH_MAX];
	int r;
	const struct pki_cert_request request = {
		.uri = server->own.uri, .common_name = "test", .life_s = 3600};

	(void)str_format(path, sizeof(path), "%s/" CERTIFICATE_CA ".new", server->config.data_dir);
	TRY(pki_make_request(&key, &csr, err));
	TRY(pki_ca_sign(ca, &request, csr, &pem, &facts, err));
	r = file_write_atomic(path, 0644, trusted, strlen(trusted));
	(void)unlink(path);
	return r < 0 ? error_set(err, status_from_errno(r), r, "write %s", path)
		     : pki_check_pair(pem, key, facts.uri, trusted, err);
}

static enum status begin(struct server *server, struct change *change, const struct rpc_call *call,
			 const Holdfast__V1__ChangeCaRequest *request, struct error *err)
{
	const Stored *before = stored_ca(server);
	Stored stored = HOLDFAST__V1__STORED_CA__INIT;
	cleanup(pki_ca_freep) struct pki_ca *ca = NULL;
	cleanup(free_key) char *made_key = NULL;
	cleanup_free char *made = NULL;
	cleanup_free char *link = NULL;
	cleanup_free char *former = NULL;
	cleanup_free uint8_t *wrapped = NULL;
	const char *key = request->key;
	char who[ACCESS_WHO_SIZE];

	if ((request->certificate[0] == '\0') != (request->key[0] == '\0'))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "certificate, key: both or neither are wanted");
	stored.certificate = request->certificate;
	if (request->key[0] == '\0') {
		TRY(pki_make_ca_pem(server->config.cluster, &made_key, &made, err));
		key = made_key;
		stored.certificate = made;
	}
	assert(key && stored.certificate);
	TRY(pki_ca_read(key, stored.certificate, &ca, err));
	if (!made)
		TRY(check_given(server, ca, err));
	TRY(check_signs(server, ca, stored.certificate, err));
	if (authority_ca(server)) {
		TRY(pki_ca_cross(authority_ca(server), ca, &link, err));
		stored.link = link;
	}
	TRY(authority_read_ca(server, &former, err));
	if (strlen(former) + strlen(stored.certificate) > PKI_PEM_MAX / 2)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "certificate: with the CAs that are trusted now it is longer than %d bytes",
				 PKI_PEM_MAX / 2);
	wrapped = malloc(strlen(key) + TICKET_WRAP_OVERHEAD);
	if (!wrapped)
		return error_no_memory(err, "the key of the CA");
	TRY(ticket_issuer_wrap(server->issuer, key, strlen(key), wrapped, err));
	stored.wrapped_key =
		(ProtobufCBinaryData){.len = strlen(key) + TICKET_WRAP_OVERHEAD, .data = wrapped};
	stored.former = former;
	if (before) /* a change whose key is lost ends: its CA may have leaked, too */
		stored.finished = before->finished + is_changing(before);
	stored.changed_at_ms = clock_realtime_ms();
	stored.who = access_who(server, call, who);
	return stage(server, change, call, &stored, pki_ca_key_id(ca), "begun", err);
}

/* --- to finish --- */

static enum status check_holders(struct server *server, struct error *err)
{
	cleanup_free struct waits *holders = malloc(sizeof(*holders));
	char names[1024];
	size_t at = 0;

	if (!holders)
		return error_no_memory(err, "a list");
	find_holders(server, holders);
	for (size_t i = 0; i < holders->n_named && at < sizeof(names) - 1; i++)
		at += (size_t)snprintf(names + at, sizeof(names) - at, "%s%s", i > 0 ? ", " : "",
				       holders->texts[i]);
	return holders->n == 0
		       ? STATUS_OK
		       : error_set(
				 err, STATUS_FAILED_PRECONDITION, 0,
				 "%zu still have a certificate of the former CA: %s; wait for their renewal, "
				 "or enrol them again; to refuse them from now on: holdfast operator ca "
				 "finish "
				 "--now",
				 holders->n, names);
}

static enum status finish(struct server *server, struct change *change, const struct rpc_call *call, bool now,
			  struct error *err)
{
	const Stored *before = stored_ca(server);
	char who[ACCESS_WHO_SIZE], why[AUDIT_WHY_SIZE];
	char nothing[] = "";
	Stored stored;

	if (!is_changing(before))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "no change of the CA is under way; begin one: holdfast operator ca begin");
	if (!now)
		TRY(check_holders(server, err));
	stored = *before;
	stored.former = nothing;
	stored.finished++;
	stored.changed_at_ms = clock_realtime_ms();
	stored.who = access_who(server, call, who);
	(void)str_format(why, sizeof(why), "finished%s; unused enrolment lines that end: %zu",
			 now ? ", although some may have certificates of the former CA" : "",
			 enrollments_ending(server));
	return stage(server, change, call, &stored, pki_ca_key_id(authority_ca(server)), why, err);
}

static enum status stage_request(struct server *server, struct change *change, const struct rpc_call *call,
				 const Holdfast__V1__ChangeCaRequest *request, struct error *err)
{
	const Stored *stored = stored_ca(server);
	bool is_lost;

	TRY(check_applied(server, err));
	is_lost = authority_key_is_lost(server);
	if (request->finish || !is_lost)
		TRY(authority_check(server, err));
	if (request->finish)
		return finish(server, change, call, request->now, err);
	if (is_lost || !is_changing(stored))
		return begin(server, change, call, request, err);
	if (request->key[0] != '\0')
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"a change of the CA is under way since %s began it; finish it first: holdfast "
			"operator ca finish",
			stored->who);
	return STATUS_OK;
}

static enum status handle(struct server *server, struct rpc_call *call,
			  const Holdfast__V1__ChangeCaRequest *request, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	enum status status = stage_request(server, &change, call, request, err);

	explicit_bzero(request->key, strlen(request->key)); /* also of a refused request */
	TRY(status);
	return change_commit_taking(server, &change, on_changed, answer_waiting_new(call, ""), err);
}

DEFINE_WRITE_METHOD(ca_change_handle, Holdfast__V1__ChangeCaRequest, WHAT, handle)
