/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates that the server issues: to a node that enrols with its token, to one that renews its own, to
 * operators; and what thieves and strangers are refused. */

#include "callers.h"
#include "restored.h"
#include "unit.h"

#include "access/revocations.h"
#include "base/fd.h"
#include "identity/authority.h"
#include "identity/enrollments.h"
#include "rpc/pki.h"
#include "state/keys.h"

#include <holdfast/v1/nodes.pb-c.h>
#include <limits.h>

#define OPERATOR "holdfast://c1/operator/ann"

#define CASE(name) TEST_ON(name, struct fixture, f, setup_authority, teardown)

struct line {
	char node[64], token[128];
	char *key; /* of its own, as its CSR */
	char *csr;
};

static void line_init(struct line *line)
{
	*line = (struct line){.key = NULL};
	assert_int_equal(pki_make_request(&line->key, &line->csr, NULL), STATUS_OK);
}

static void line_release(struct line *line)
{
	pki_key_free(line->key);
	free(line->csr);
}

/* By @uri or with @token; the other one may be NULL. */
static void make_line_as(struct fixture *f, const char *uri, const char *token, const char *node,
			 uint64_t ttl_ms, struct line *line)
{
	struct caller_client caller;
	char request[128];
	cleanup(json_decrefp) json_t *answer = NULL;

	line_init(line);
	(void)str_format(request, sizeof(request), "{\"node\": \"%s\", \"ttl_ms\": \"%llu\"}", node,
			 (unsigned long long)ttl_ms);
	caller_init(&caller, f, uri, token);
	assert_ok(caller_call(&caller, "Operator.CreateEnrollment", request, &answer, NULL));
	caller_release(&caller);
	(void)str_copy(line->node, sizeof(line->node), node);
	(void)str_copy(line->token, sizeof(line->token), json_string_value(json_object_get(answer, "token")));
}

static void make_line(struct fixture *f, const char *node, uint64_t ttl_ms, struct line *line)
{
	make_line_as(f, OPERATOR, NULL, node, ttl_ms, line);
}

/* As @uri (NULL: no certificate); @ret may be NULL. */
static enum status ask(struct fixture *f, const char *uri, const char *method, json_t *request, json_t **ret,
		       struct error *err)
{
	struct caller_client caller;
	cleanup_free char *text = json_dumps(request, 0);
	enum status status;

	caller_init(&caller, f, uri, NULL);
	status = caller_call(&caller, method, text, ret, err);
	caller_release(&caller);
	json_decref(request);
	return status;
}

static enum status enroll(struct fixture *f, const struct line *line, json_t **ret, struct error *err)
{
	return ask(f, NULL, "Nodes.Enroll",
		   json_pack("{ss ss ss}", "node", line->node, "token", line->token, "csr", line->csr), ret,
		   err);
}

static const char *text(const json_t *answer, const char *name)
{
	return json_string_value(json_object_get(answer, name));
}

static enum status check(const json_t *answer, const struct line *line, const char *uri)
{
	return pki_check_pair(text(answer, "certificate"), line->key, uri, text(answer, "ca"), NULL);
}

CASE(a_new_node_gets_a_certificate_for_its_token)
{
	const Holdfast__V1__StoredEnrollment *stored;
	cleanup(line_release) struct line line;
	cleanup(json_decrefp) json_t *answer = NULL;

	make_line(f, "n9", 0, &line);
	assert_int_equal(enroll(f, &line, &answer, NULL), STATUS_OK);
	assert_int_equal(check(answer, &line, "holdfast://c1/node/n9"), STATUS_OK);
	assert_int_not_equal(check(answer, &line, "holdfast://c1/node/n1"), STATUS_OK);
	assert_string_equal(text(answer, "identity"), "holdfast://c1/node/n9");
	assert_int_equal(json_array_size(json_object_get(answer, "ticket_keys")), 1);
	stored = records_get(&f->server->state.records, PREFIX_ENROLLMENT "n9");
	assert_true(stored->used_at_ms > 0);
	assert_string_equal(stored->used_from, "127.0.0.1");
	assert_null(memmem(stored->token_sha256.data, stored->token_sha256.len, line.token, 8));
}

static enum status create(struct fixture *f, const char *uri, const char *request, json_t **ret)
{
	return ask(f, uri, "Operator.CreateEnrollment", json_loads(request, 0, NULL), ret, NULL);
}

static enum status enroll_as(struct fixture *f, const char *identity, const char *token, const char *csr,
			     json_t **ret, struct error *err)
{
	return ask(f, NULL, "Nodes.Enroll",
		   json_pack("{ss ss ss}", "identity", identity, "token", token, "csr", csr), ret, err);
}

CASE(each_role_gets_its_certificate_by_a_line_of_its_own)
{
	static const struct {
		const char *role, *request;
		int64_t life_ms;
	} rows[] = {
		{"operator", "{\"identity\": \"operator/x\"}", INT64_C(12) * 3600 * 1000},
		{"fencer", "{\"identity\": \"fencer/x\"}", INT64_C(90) * 86400 * 1000},
		{"driver", "{\"identity\": \"driver/x\"}", INT64_C(90) * 86400 * 1000},
		{"server", "{\"identity\": \"server/x\", \"hosts\": [\"s.example\", \"192.0.2.7\"]}",
		 INT64_C(120) * 86400 * 1000},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		char identity[64], uri[64], token[128];
		json_t *made = NULL, *answer = NULL;
		struct pki_facts facts;
		cleanup(line_release) struct line line;
		struct error err;

		(void)str_format(identity, sizeof(identity), "%s/x", rows[i].role);
		(void)str_format(uri, sizeof(uri), "holdfast://c1/%s", identity);
		line_init(&line);
		assert_int_equal(create(f, OPERATOR, rows[i].request, &made), STATUS_OK);
		assert_string_equal(text(made, "role"), rows[i].role);
		(void)str_copy(token, sizeof(token), text(made, "token"));
		(void)str_copy(line.token, sizeof(line.token), token);
		(void)str_copy(line.node, sizeof(line.node), "x");
		assert_int_equal(i % 2 == 0 ? enroll(f, &line, NULL, &err) /* as node x */
					    : enroll_as(f, "operator/y", token, line.csr, NULL, NULL),
				 STATUS_PERMISSION_DENIED); /* one address has ten calls */
		if (enroll_as(f, identity, token, line.csr, &answer, &err) != STATUS_OK)
			fail_msg("%s: %s", identity, err.msg);
		assert_int_equal(check(answer, &line, uri), STATUS_OK);
		assert_int_equal(pki_pem_facts(text(answer, "certificate"), &facts, NULL), STATUS_OK);
		assert_in_range(facts.expires_ms - clock_realtime_ms(), rows[i].life_ms - 60000,
				rows[i].life_ms);
		json_decref(made);
		json_decref(answer);
	}
}

CASE(lines_that_no_role_has_are_refused)
{
	static const char *const requests[] = {
		"{}",
		"{\"identity\": \"node/x\"}",
		"{\"identity\": \"operator/x\", \"node\": \"x\"}",
		"{\"identity\": \"king/x\"}",
		"{\"identity\": \"operator/\"}",
		"{\"identity\": \"operator/a/b\"}",
		"{\"identity\": \"server/x\"}",
		"{\"identity\": \"server/x\", \"hosts\": [\"a b\"]}",
		"{\"identity\": \"operator/x\", \"hosts\": [\"a\"]}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(requests); i++)
		if (create(f, OPERATOR, requests[i], NULL) != STATUS_INVALID_ARGUMENT)
			fail_msg("%s", requests[i]);
	assert_int_equal(create(f, "holdfast://c1/fencer/f1", "{\"identity\": \"fencer/f2\"}", NULL),
			 STATUS_PERMISSION_DENIED);
	assert_int_equal(create(f, "holdfast://c1/node/n1", "{\"identity\": \"operator/x\"}", NULL),
			 STATUS_PERMISSION_DENIED);
}

CASE(a_revoked_identity_ends_its_line)
{
	cleanup(line_release) struct line line;
	struct error err;
	cleanup(json_decrefp) json_t *made = NULL;

	line_init(&line);
	assert_int_equal(create(f, OPERATOR, "{\"identity\": \"operator/x\"}", &made), STATUS_OK);
	operator_does(f, "Operator.RevokeCertificate", "{\"identity\": \"operator/x\"}");
	assert_error(enroll_as(f, "operator/x", text(made, "token"), line.csr, NULL, &err),
		     STATUS_PERMISSION_DENIED, err, "of operator x was made at 2");
	assert_non_null(strstr(err.msg, "holdfast operator cert enroll operator/x"));
}

/* The token stays. */
static void another_key(struct line *line)
{
	line_release(line);
	assert_int_equal(pki_make_request(&line->key, &line->csr, NULL), STATUS_OK);
}

CASE(a_repeat_with_the_same_key_gets_the_same_certificate_in_time)
{
	cleanup(line_release) struct line line;
	json_t *first = NULL, *again = NULL;

	make_line(f, "n9", 0, &line);
	assert_int_equal(enroll(f, &line, &first, NULL), STATUS_OK);
	assert_int_equal(enroll(f, &line, &again, NULL), STATUS_OK);
	assert_string_equal(text(first, "certificate"), text(again, "certificate"));
	assert_string_equal(text(first, "serial"), text(again, "serial"));
	assert_true(json_equal(first, again));
	((Holdfast__V1__StoredEnrollment *)(uintptr_t)records_get(&f->server->state.records,
								  PREFIX_ENROLLMENT "n9"))
		->expires_at_ms = 1000;
	assert_int_equal(enroll(f, &line, NULL, NULL), STATUS_PERMISSION_DENIED); /* late */
	json_decref(first);
	json_decref(again);
}

CASE(a_token_is_good_once_in_time_and_for_its_name_alone)
{
	cleanup(line_release) struct line line, late, other;
	Holdfast__V1__StoredEnrollment *stored;
	struct error err;

	make_line(f, "n9", 0, &line);
	(void)str_copy(line.node, sizeof(line.node), "n1"); /* stolen: as another node */
	assert_error(enroll(f, &line, NULL, &err), STATUS_PERMISSION_DENIED, err,
		     "is for node n9, not for n1; an operator makes a new line");
	(void)str_copy(line.node, sizeof(line.node), "n9");
	assert_int_equal(enroll(f, &line, NULL, NULL), STATUS_OK); /* the attempt has not used it up */
	another_key(&line);
	assert_error(enroll(f, &line, NULL, &err), STATUS_PERMISSION_DENIED, err, "of node n9 was used at 2");
	assert_non_null(strstr(err.msg, "from 127.0.0.1, and is good once"));
	assert_non_null(strstr(err.msg, "holdfast operator cert revoke node/n9"));
	restart(f); /* what was used stays so */
	open_authority(f);
	assert_int_equal(enroll(f, &line, NULL, &err), STATUS_PERMISSION_DENIED);
	make_line(f, "n8", 10000, &late);
	stored = (void *)(uintptr_t)records_get(&f->server->state.records, PREFIX_ENROLLMENT "n8");
	stored->expires_at_ms = 1000;
	assert_error(enroll(f, &late, NULL, &err), STATUS_PERMISSION_DENIED, err,
		     "of node n8 expired at 1970-01-01");
	make_line(f, "n8", 0, &other); /* replaces it */
	assert_error(enroll(f, &late, NULL, &err), STATUS_UNAUTHENTICATED, err,
		     "is unknown to cluster c1, or a newer line for node n8 or a restore has ended it");
	assert_int_equal(enroll(f, &other, NULL, NULL), STATUS_OK);
}

/* The older store does not know that the line was used. */
CASE(a_restore_ends_each_line)
{
	struct backup backup = {.bytes = NULL};
	cleanup(line_release) struct line line;
	struct error err;

	make_line(f, "n9", 0, &line);
	take_backup(f, &backup);
	open_authority(f);
	assert_int_equal(enroll(f, &line, NULL, NULL), STATUS_OK);
	restore(f, &backup, 1);
	open_authority(f);
	another_key(&line);
	assert_error(enroll(f, &line, NULL, &err), STATUS_UNAUTHENTICATED, err, "a restore has ended it");
}

static void assert_refused(struct fixture *f, struct line *line, const char *why)
{
	struct error err = {.msg = ""};

	assert_int_equal(enroll(f, line, NULL, &err), STATUS_PERMISSION_DENIED);
	assert_msg(strstr(err.msg, why) && strstr(err.msg, "revoked; an operator makes a new line"), "%s",
		   err.msg);
	line_release(line);
}

static Holdfast__V1__StoredEnrollment *stored_of(struct fixture *f, const char *key)
{
	return (void *)(uintptr_t)records_get(&f->server->state.records, key);
}

CASE(a_revocation_ends_lines_that_were_made_before_it)
{
	struct line line, other, new_one;
	int64_t cutoff_ms;

	make_line(f, "n9", 0, &line);
	make_line(f, "n8", 0, &other);
	operator_does(f, "Operator.RevokeCertificate", "{\"identity\": \"node/n9\"}");
	cutoff_ms = revocation_cutoff_ms(f->server, "node/n9");
	assert_refused(f, &line, "of node n9 was made at 2");
	assert_int_equal(enroll(f, &other, NULL, NULL), STATUS_OK); /* another node's */
	make_line(f, "n9", 0, &new_one);
	assert_true(stored_of(f, PREFIX_ENROLLMENT "n9")->made_at_ms > cutoff_ms);
	stored_of(f, PREFIX_ENROLLMENT "n9")->made_at_ms = cutoff_ms; /* at the moment itself */
	assert_int_equal(enroll(f, &new_one, NULL, NULL), STATUS_PERMISSION_DENIED);
	stored_of(f, PREFIX_ENROLLMENT "n9")->made_at_ms = cutoff_ms + 1;
	assert_int_equal(enroll(f, &new_one, NULL, NULL), STATUS_OK);
	line_release(&other);
	line_release(&new_one);
}

CASE(the_removal_of_a_node_ends_its_line)
{
	struct line line;

	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	fake_node_disconnect(&f->n1);
	run_idle(f->event);
	make_line(f, "n1", 0, &line);
	operator_does(f, "Nodes.Purge", "{\"id\": \"n1\", \"reason\": \"it burned\"}");
	assert_refused(f, &line, "before the node's certificates were revoked");
}

CASE(a_revoked_operator_leaves_no_good_line_behind)
{
	static const char bob[] = "holdfast://c1/operator/bob";
	char request[128];
	struct line line;

	make_line_as(f, bob, NULL, "nb", 0, &line);
	operator_does(f, "Operator.RevokeCertificate", "{\"identity\": \"operator/bob\"}");
	assert_refused(f, &line, "the certificate of the operator who made it was");
	callers_after_ms = revocation_cutoff_ms(f->server, "operator/bob");
	make_line_as(f, bob, NULL, "nb", 0, &line); /* with a new certificate */
	callers_after_ms = 0;
	assert_int_equal(enroll(f, &line, NULL, NULL), STATUS_OK);
	line_release(&line);
	make_line(f, "nb", 0, &line); /* of another operator */
	assert_int_equal(enroll(f, &line, NULL, NULL), STATUS_OK);
	line_release(&line);
	make_line_as(f, "holdfast://c1/operator/eve", NULL, "ne", 0, &line);
	(void)str_format(request, sizeof(request), "{\"serial\": \"%s\"}",
			 stored_of(f, PREFIX_ENROLLMENT "ne")->maker_serial);
	operator_does(f, "Operator.RevokeCertificate", request);
	assert_refused(f, &line, "the certificate of the operator who made it was");
}

CASE(a_revoked_token_leaves_no_good_line_behind)
{
	const int64_t ends_ms = clock_realtime_ms() + 60000;
	char request[128], *secret;
	struct line line;

	(void)str_format(request, sizeof(request),
			 "{\"name\": \"ci\", \"type\": \"MANAGEMENT\", \"expires_at_ms\": \"%lld\"}",
			 (long long)ends_ms);
	secret = make_token(f, request);
	make_line_as(f, NULL, secret, "nt", 0, &line);
	assert_int_equal(stored_of(f, PREFIX_ENROLLMENT "nt")->expires_at_ms, ends_ms); /* not after it */
	(void)str_format(request, sizeof(request), "{\"accessor\": \"%s\"}",
			 stored_of(f, PREFIX_ENROLLMENT "nt")->maker_token);
	operator_does(f, "Operator.RevokeToken", request);
	assert_refused(f, &line, "the token with which it was made was");
	free(secret);
}

CASE(requests_that_are_no_requests_get_nothing_and_use_no_token_up)
{
	static const char *const requests[] = {
		"", "x", "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"};
	cleanup(line_release) struct line line, thief;
	char *long_one = malloc(PKI_CSR_MAX + 2);
	char *cut;
	struct error err;
	cleanup(json_decrefp) json_t *answer = NULL;

	make_line(f, "n9", 0, &line);
	line_init(&thief);
	(void)str_copy(thief.node, sizeof(thief.node), "n9");
	(void)str_copy(thief.token, sizeof(thief.token), line.token);
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		free(thief.csr);
		thief.csr = strdup(requests[i]);
		assert_int_equal(enroll(f, &thief, NULL, &err), STATUS_INVALID_ARGUMENT);
	}
	memset(long_one, 'A', PKI_CSR_MAX + 1);
	long_one[PKI_CSR_MAX + 1] = '\0';
	free(thief.csr);
	thief.csr = long_one;
	assert_int_equal(enroll(f, &thief, NULL, &err), STATUS_INVALID_ARGUMENT);
	free(thief.csr);
	thief.csr = strdup(line.csr);		    /* a key that the caller does not have */
	cut = strstr(thief.csr, "\n-----END") - 12; /* of the signature */
	*cut = *cut == 'A' ? 'B' : 'A';
	assert_int_equal(enroll(f, &thief, NULL, &err), STATUS_INVALID_ARGUMENT);
	assert_int_equal(enroll(f, &line, &answer, NULL), STATUS_OK);
}

CASE(an_address_that_guesses_tokens_is_refused_for_a_while)
{
	const uint64_t later_us =
		clock_monotonic_us() + 3600 * USEC_PER_SEC; /* whatever the time of the calls is */
	cleanup(line_release) struct line line;
	struct error err;
	size_t slot, n = 0;

	make_line(f, "n9", 0, &line);
	while (caller_rates_take(authority_enrolling(f->server), "127.0.0.1", later_us, &slot, NULL) ==
	       STATUS_OK)
		n++;
	assert_int_equal(n, 10);
	assert_error(enroll(f, &line, NULL, &err), STATUS_RESOURCE_EXHAUSTED, err,
		     "127.0.0.1 asks for certificates too often");
}

CASE(a_server_without_a_ca_issues_nothing)
{
	cleanup(line_release) struct line line;
	struct error err;

	make_line(f, "n9", 0, &line);
	f->server->config.authority.certificate[0] = '\0';
	assert_int_equal(authority_open(f->server, NULL), STATUS_OK);
	assert_error(enroll(f, &line, NULL, &err), STATUS_FAILED_PRECONDITION, err, "no block ca { }");
}

/* --- renewal --- */

static enum status renew(struct fixture *f, const char *uri, const struct line *line, json_t **ret,
			 struct error *err)
{
	return ask(f, uri, "Nodes.Renew", json_pack("{ss}", "csr", line->csr), ret, err);
}

CASE(a_node_renews_only_its_own_certificate)
{
	static const char *const others[] = {NULL, OPERATOR, "holdfast://c1/server/s1",
					     "holdfast://c2/node/n1"};
	cleanup(line_release) struct line line;
	cleanup(json_decrefp) json_t *answer = NULL;
	struct error err;

	line_init(&line);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_int_equal(renew(f, "holdfast://c1/node/n1", &line, &answer, NULL), STATUS_OK);
	assert_int_equal(check(answer, &line, "holdfast://c1/node/n1"), STATUS_OK);
	/* what the status lists is that of the connection of the session */
	assert_true(state_node(&f->server->state, "n1")->certificate_expires_ms !=
		    strtoll(text(answer, "expires_at_ms"), NULL, 10));
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		assert_int_not_equal(renew(f, others[i], &line, NULL, &err), STATUS_OK);
	operator_does(f, "Operator.RevokeCertificate", "{\"identity\": \"node/n1\"}");
	assert_int_equal(renew(f, "holdfast://c1/node/n1", &line, NULL, &err), STATUS_UNAUTHENTICATED);
}

/* The administrator edits the file: it is half-written, or the CA that issues is gone for a moment. */
CASE(no_certificate_goes_out_with_a_ca_that_does_not_trust_it)
{
	static const char *const callers[][2] = {{NULL, "Nodes.Enroll"},
						 {"holdfast://c1/node/n1", "Nodes.Renew"},
						 {OPERATOR, "Operator.IssueCertificate"}};
	char other[PATH_MAX], key[PATH_MAX], torn[PATH_MAX], right[PATH_MAX];
	const char *const files[] = {other, torn, right};
	struct caller_client clients[ARRAY_SIZE(callers)];
	json_t *requests[ARRAY_SIZE(callers)];
	cleanup(line_release) struct line line;

	(void)str_copy(right, sizeof(right), f->server->in_use.ca);
	(void)str_format(other, sizeof(other), "%s/other.pem", f->dir);
	(void)str_format(key, sizeof(key), "%s/other.key", f->dir);
	(void)str_format(torn, sizeof(torn), "%s/torn.pem", f->dir);
	assert_ok(pki_make_ca(key, other, "c1", NULL));
	assert_int_equal(file_write_atomic(torn, 0644, "-----BEGIN CERTIFICATE-----\nMI", 30), 0);
	make_line(f, "n9", 0, &line);
	requests[0] = json_pack("{ss ss ss}", "node", line.node, "token", line.token, "csr", line.csr);
	requests[1] = json_pack("{ss}", "csr", line.csr);
	requests[2] = json_pack("{ss ss}", "identity", "operator/x", "csr", line.csr);
	for (size_t i = 0; i < ARRAY_SIZE(callers); i++)
		caller_init(&clients[i], f, callers[i][0], NULL);
	for (size_t i = 0; i < ARRAY_SIZE(files) * ARRAY_SIZE(callers); i++) {
		const char *file = files[i / ARRAY_SIZE(callers)];
		size_t at = i % ARRAY_SIZE(callers);
		cleanup_free char *request = json_dumps(requests[at], 0);
		struct error err = {.msg = ""};
		enum status status;

		(void)str_copy(f->server->in_use.ca, sizeof(f->server->in_use.ca), file);
		status = caller_call(&clients[at], callers[at][1], request, NULL, &err);
		if (file == right) /* the line was not used up */
			assert_msg(status == STATUS_OK, "%s: %s", callers[at][1], err.msg);
		else
			assert_msg(status == STATUS_INTERNAL && strstr(err.msg, file) &&
					   strstr(err.msg, "put the CA that issues there"),
				   "%s: %s", callers[at][1], err.msg);
	}
	for (size_t i = 0; i < ARRAY_SIZE(callers); i++) {
		caller_release(&clients[i]);
		json_decref(requests[i]);
	}
}

/* Though both are made in one second. */
CASE(a_certificate_that_is_issued_after_a_revocation_is_good)
{
	cleanup(line_release) struct line line;
	cleanup(json_decrefp) json_t *answer = NULL;
	struct rpc_peer peer = {.kind = RPC_PEER_TLS, .uri = "holdfast://c1/node/n9"};
	char path[PATH_MAX];
	struct pki_facts facts;
	FILE *file;

	operator_does(f, "Operator.RevokeCertificate", "{\"identity\": \"node/n9\"}");
	make_line(f, "n9", 0, &line);
	assert_int_equal(enroll(f, &line, &answer, NULL), STATUS_OK);
	(void)str_format(path, sizeof(path), "%s/n9.pem", f->dir);
	file = NON_NULL(fopen(path, "we"));
	(void)fputs(text(answer, "certificate"), file);
	(void)fclose(file);
	assert_int_equal(pki_read_facts(path, &facts, NULL), STATUS_OK);
	peer.issued_ms = facts.issued_ms;
	assert_int_equal(revocation_check(f->server, &peer, NULL), STATUS_OK);
	(void)unlink(path);
}

/* --- operators and others --- */

static enum status issue(struct fixture *f, const char *uri, const char *identity, const char *ttl_ms,
			 const struct line *line, json_t **ret, struct error *err)
{
	return ask(f, uri, "Operator.IssueCertificate",
		   json_pack("{ss ss ss}", "identity", identity, "csr", line->csr, "ttl_ms", ttl_ms), ret,
		   err);
}

CASE(an_operator_issues_certificates_of_this_cluster_alone_for_hours)
{
	static const char *const bad[] = {"ann",      "/ann",	      "operator/",     "server/s1",
					  "root/ann", "operator/a/b", "operator/../x", "operator/a b"};
	cleanup(line_release) struct line line;
	cleanup(json_decrefp) json_t *answer = NULL;
	struct error err;
	int64_t left_ms;

	line_init(&line);
	assert_int_equal(issue(f, OPERATOR, "operator/bob", "0", &line, &answer, NULL), STATUS_OK);
	assert_int_equal(check(answer, &line, "holdfast://c1/operator/bob"), STATUS_OK);
	left_ms = strtoll(text(answer, "expires_at_ms"), NULL, 10) - clock_realtime_ms();
	assert_true(left_ms > 11 * 3600 * INT64_C(1000) && left_ms <= 12 * 3600 * INT64_C(1000));
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(issue(f, OPERATOR, bad[i], "0", &line, NULL, &err), STATUS_INVALID_ARGUMENT);
	assert_int_equal(issue(f, OPERATOR, "operator/bob", "99999999999999", &line, NULL, &err),
			 STATUS_INVALID_ARGUMENT);
	assert_int_equal(issue(f, OPERATOR, "operator/bob", "999", &line, NULL, &err),
			 STATUS_INVALID_ARGUMENT);
	assert_string_equal(err.msg, "ttl_ms: 1000 (1 second) to 365 days; 0 is the default");
	assert_int_equal(issue(f, OPERATOR, "operator/bob", "1000", &line, NULL, NULL), STATUS_OK);
	assert_int_equal(issue(f, "holdfast://c1/node/n1", "node/n2", "0", &line, NULL, &err),
			 STATUS_PERMISSION_DENIED);
}

CASE(each_role_that_gets_certificates_can_be_revoked)
{
	static const char *const identities[] = {"node/x", "operator/x", "fencer/x", "driver/x"};
	cleanup(line_release) struct line line;
	char request[64];

	line_init(&line);
	for (size_t i = 0; i < ARRAY_SIZE(identities); i++) {
		assert_int_equal(issue(f, OPERATOR, identities[i], "0", &line, NULL, NULL), STATUS_OK);
		(void)str_format(request, sizeof(request), "{\"identity\": \"%s\"}", identities[i]);
		operator_does(f, "Operator.RevokeCertificate", request);
		assert_true(revocation_cutoff_ms(f->server, identities[i]) > 0);
	}
	assert_int_equal(ask(f, OPERATOR, "Operator.RevokeCertificate",
			     json_pack("{ss}", "identity", "driver/a/b"), NULL, NULL),
			 STATUS_INVALID_ARGUMENT);
}

CASE(a_server_that_listens_on_all_addresses_answers_the_host_of_its_certificate)
{
	static const struct {
		const char *listens, *named, *expected;
	} rows[] = {
		{"0.0.0.0", "claims.example", "claims.example:"},
		{"::", "192.0.2.1", "192.0.2.1:"},
		{"0.0.0.0", "", "0.0.0.0:"},
		{"127.0.0.1", "claims.example", "127.0.0.1:"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		cleanup(json_decrefp) json_t *answer = NULL;

		(void)str_copy(f->server->config.host, sizeof(f->server->config.host), rows[i].listens);
		(void)str_copy(f->server->own.host, sizeof(f->server->own.host), rows[i].named);
		assert_int_equal(ask(f, OPERATOR, "Operator.ListMembers", json_object(), &answer, NULL),
				 STATUS_OK);
		assert_contains(text(json_array_get(json_object_get(answer, "servers"), 0), "address"),
				rows[i].expected);
	}
}

CASE(each_issue_is_on_record)
{
	cleanup(caller_release) struct caller_client caller;
	cleanup(json_decrefp) json_t *answer = NULL;
	cleanup(json_decrefp) json_t *list = NULL;
	cleanup(line_release) struct line line;

	line_init(&line);
	assert_int_equal(issue(f, OPERATOR, "operator/bob", "0", &line, &answer, NULL), STATUS_OK);
	caller_init(&caller, f, OPERATOR, NULL);
	assert_int_equal(caller_call(&caller, "Operator.ListAudit", "{}", &list, NULL), STATUS_OK);
	assert_contains(text(json_array_get(json_object_get(list, "records"), 0), "object"),
			text(answer, "serial"));
}
