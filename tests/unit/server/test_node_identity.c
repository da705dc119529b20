/* SPDX-License-Identifier: Apache-2.0 */
/* A node's own side of its certificate, against a real server: enrolment into a folder, renewal, replaced
 * files.
 */

#include "ca_change.h"
#include "callers.h"
#include "certificate.h"
#include "reload.h"
#include "unit.h"

#include "access/issuers.h"
#include "access/revocations.h"
#include "base/fd.h"
#include "identity/authority.h"
#include "identity/enroll.h"
#include "identity/enrollments.h"
#include "identity/renewal.h"
#include "plugin/fingerprint.h"
#include "rpc/pki.h"
#include "state/keys.h"

#include <fcntl.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <holdfast/v1/operator.pb-c.h>
#include <limits.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#define OPERATOR "holdfast://c1/operator/ann"
#define URI "holdfast://c1/node/n9"

#define CASE(name) TEST_ON(name, struct fixture, f, setup_authority, teardown)

static const char *in(const struct fixture *f, const char *name, char ret[static PATH_MAX])
{
	(void)str_format(ret, PATH_MAX, "%s/%s", f->dir, name);
	return ret;
}

static void make_line_by(struct fixture *f, struct caller_client *caller, const char *node,
			 char ret[static ENROLL_LINE_SIZE])
{
	struct enroll_line line = {.cluster = "c1", .n_servers = 1};
	char request[128];
	cleanup(json_decrefp) json_t *answer = NULL;

	(void)str_format(request, sizeof(request), "{\"node\": \"%s\"}", node);
	assert_int_equal(caller_call(caller, "Operator.CreateEnrollment", request, &answer, NULL), STATUS_OK);
	(void)str_copy(line.role, sizeof(line.role), ENROLL_ROLE_NODE);
	(void)str_copy(line.name, sizeof(line.name), node);
	(void)str_copy(line.token, sizeof(line.token), json_string_value(json_object_get(answer, "token")));
	assert_true(rpc_tls_anchor(f->server->tls, line.ca_sha256));
	line.servers[0].port = f->port;
	(void)str_copy(line.servers[0].host, sizeof(line.servers[0].host), "127.0.0.1");
	assert_int_equal(enroll_line_format(&line, ret, NULL), STATUS_OK);
}

static void make_line(struct fixture *f, const char *node, char ret[static ENROLL_LINE_SIZE])
{
	cleanup(caller_release) struct caller_client caller;

	caller_init(&caller, f, OPERATOR, NULL);
	make_line_by(f, &caller, node, ret);
}

static void enroll_n9(struct fixture *f, struct enrolled *ret)
{
	char line[ENROLL_LINE_SIZE], into[PATH_MAX];
	struct error err;

	make_line(f, "n9", line);
	assert_succeeds(enroll(f->event, line, in(f, "etc", into), ret, &err), err);
}

static bool exists(const struct fixture *f, const char *name)
{
	char path[PATH_MAX];

	return access(in(f, name, path), F_OK) == 0;
}

CASE(a_node_enrols_into_a_folder)
{
	struct enrolled enrolled;
	struct pki_facts facts;
	struct stat st;
	cleanup_free char *config = NULL;
	char path[PATH_MAX];

	enroll_n9(f, &enrolled);
	assert_int_equal(pki_read_facts(in(f, "etc/tls/node.key", path), &facts, NULL), STATUS_OK);
	assert_string_equal(facts.uri, URI);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_true(enrolled.wrote_config);
	assert_int_equal(strlen(enrolled.ticket_key), 64);
	assert_int_equal(file_read(in(f, "etc/agent.hcl", path), 8192, &config, NULL), 0);
	assert_non_null(strstr(config, "node_id = \"n9\"\nservers = [\"127.0.0.1:"));
	assert_false(exists(f, "etc/tls/enroll.probe"));
	assert_true(exists(f, "etc/tls/ticket.pub"));
	assert_true(exists(f, "etc/cli.env"));
}

/* Returns the printed lines; the caller frees them. */
static char *printed(const struct fixture *f, const struct enrolled *enrolled)
{
	int saved = dup(STDOUT_FILENO), fd;
	char path[PATH_MAX], *text = NULL;

	(void)fflush(stdout);
	fd = open(in(f, "printed", path), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
	assert_true(saved >= 0 && fd >= 0 && dup2(fd, STDOUT_FILENO) >= 0);
	enroll_print(enrolled);
	(void)fflush(stdout);
	assert_true(dup2(saved, STDOUT_FILENO) >= 0);
	(void)close(saved);
	(void)close(fd);
	assert_int_equal(file_read(path, 8192, &text, NULL), 0);
	return text;
}

CASE(a_node_that_enrols_again_keeps_its_policy)
{
	cleanup_free char *first = NULL, *again = NULL;
	char path[PATH_MAX], kept[2 * PATH_MAX];
	struct enrolled enrolled;

	enroll_n9(f, &enrolled);
	/* it is that of the helper, wherever the certificate is */
	assert_null(strstr(enrolled.policy, in(f, "etc", path)));
	enrolled.policy = in(f, "mounthelper.policy", path);
	first = printed(f, &enrolled);
	(void)str_format(kept, sizeof(kept),
			 "a new policy: holdfast policy init >%s && holdfast policy apply\n", path);
	assert_non_null(strstr(first, kept));
	assert_int_equal(file_write_atomic(path, 0644, "", 0), 0);
	enroll_n9(f, &enrolled);
	enrolled.policy = path;
	again = printed(f, &enrolled);
	(void)str_format(kept, sizeof(kept),
			 "%s exists and is kept; it needs: ticket_key = %s; then: holdfast "
			 "policy apply\n",
			 path, enrolled.ticket_key);
	assert_non_null(strstr(again, kept));
	assert_null(strstr(again, "policy init"));
}

/* Whoever is between has another CA: the token does not reach them. */
CASE(a_server_of_another_ca_gets_neither_token_nor_request)
{
	const Holdfast__V1__StoredEnrollment *stored;
	struct enrolled enrolled;
	char line[ENROLL_LINE_SIZE], into[PATH_MAX];
	struct error err;
	char *digest;

	make_line(f, "n9", line);
	digest = strrchr(line, '/') - 1; /* its last digit */
	*digest = *digest == '0' ? '1' : '0';
	assert_int_not_equal(enroll(f->event, line, in(f, "etc", into), &enrolled, &err), STATUS_OK);
	assert_non_null(strstr(err.msg, "does not show the CA with the expected digest"));
	stored = records_get(&f->server->state.records, PREFIX_ENROLLMENT "n9");
	assert_true(stored->used_at_ms == 0);
	assert_false(exists(f, "etc/tls/node.key"));
	assert_false(exists(f, "etc/tls/ca.pem"));
}

/* The clock of the server is an hour ahead, or that of the node behind. */
CASE(a_node_whose_clock_is_an_hour_behind_writes_nothing_and_names_the_clock)
{
	char key[] = PREFIX_REVOCATION "id/node/n9";
	Holdfast__V1__Revocation revocation = V1(revocation, .who = "operator/ann");
	const struct record record = {.key = key, .message = &revocation.base};
	char line[ENROLL_LINE_SIZE], into[PATH_MAX];
	struct enrolled enrolled;
	struct error err;

	revocation.revoked_at_ms = clock_realtime_ms() + 3600000; /* certificates count as issued after it */
	assert_int_equal(records_put(&f->server->state.records, &record, NULL), STATUS_OK);
	make_line(f, "n9", line);
	assert_error(enroll(f->event, line, in(f, "etc", into), &enrolled, &err), STATUS_FAILED_PRECONDITION,
		     err, "and this clock: certificate is not yet valid");
	assert_false(exists(f, "etc/tls/node.key"));
	assert_false(exists(f, "etc/tls/ca.pem"));
	assert_false(exists(f, "etc/agent.hcl"));
	unit_clock_advance(UINT64_C(3601) * USEC_PER_SEC); /* it is set right */
	enroll_n9(f, &enrolled);
	assert_true(exists(f, "etc/tls/node.key"));
}

CASE(a_folder_that_cannot_be_written_uses_no_token_up)
{
	const Holdfast__V1__StoredEnrollment *stored;
	struct enrolled enrolled;
	char line[ENROLL_LINE_SIZE], path[PATH_MAX];
	struct error err;

	make_line(f, "n9", line);
	assert_int_equal(file_write_atomic(in(f, "etc", path), 0600, "", 0), 0); /* no folder */
	assert_int_not_equal(enroll(f->event, line, path, &enrolled, &err), STATUS_OK);
	stored = records_get(&f->server->state.records, PREFIX_ENROLLMENT "n9");
	assert_true(stored->used_at_ms == 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(enroll(f->event, line, path, &enrolled, &err), STATUS_OK);
}

/* The agent ends after the server has answered, or the answer does not arrive. */
CASE(an_attempt_that_is_repeated_with_its_kept_key_gets_the_certificate)
{
	struct enrolled enrolled;
	char line[ENROLL_LINE_SIZE], path[PATH_MAX], into[PATH_MAX];
	struct pki_facts facts;

	make_line(f, "n9", line);
	(void)in(f, "etc", into);
	assert_int_equal(mkdir(into, 0700), 0);
	assert_int_equal(mkdir(in(f, "etc/tls", path), 0700), 0);
	assert_int_equal(mkdir(in(f, "etc/tls/node.key", path), 0700), 0); /* it cannot be written */
	assert_int_not_equal(enroll(f->event, line, into, &enrolled, NULL), STATUS_OK);
	assert_true(exists(f, "etc/tls/enroll.key"));
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(enroll(f->event, line, into, &enrolled, NULL), STATUS_OK);
	assert_int_equal(pki_read_facts(path, &facts, NULL), STATUS_OK);
	assert_string_equal(facts.uri, URI);
	assert_false(exists(f, "etc/tls/enroll.key"));
}

/* Whoever can write into the folder would have the key of the certificate. */
CASE(a_key_that_others_may_have_put_there_is_not_enrolled)
{
	static const char *const kinds[] = {"a link", "a second name", "open to others",
					    "of another account"};
	char line[ENROLL_LINE_SIZE], into[PATH_MAX], path[PATH_MAX], planted[PATH_MAX];
	cleanup_free char *csr = NULL, *both = NULL;
	const Holdfast__V1__StoredEnrollment *stored;
	struct enrolled enrolled;
	struct error err;
	char *key = NULL;

	assert_ok(pki_make_request(&key, &csr, NULL));
	assert_true(asprintf(&both, "%s%s", key, csr) > 0);
	make_line(f, "n9", line);
	assert_int_equal(mkdir(in(f, "etc", into), 0700), 0);
	assert_int_equal(mkdir(in(f, "etc/tls", path), 0700), 0);
	(void)in(f, "planted", planted);
	(void)in(f, "etc/tls/enroll.key", path);
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		assert_int_equal(
			file_write_atomic(i > 1 ? path : planted, i == 2 ? 0640 : 0600, both, strlen(both)),
			0);
		if (i < 2)
			assert_int_equal(i == 0 ? symlink(planted, path) : link(planted, path), 0);
		if (i == 3 && chown(path, 1, 1) < 0)
			break; /* not root */
		assert_int_not_equal(enroll(f->event, line, into, &enrolled, &err), STATUS_OK);
		assert_msg(strstr(err.msg, "/tls/enroll.key is not a key that this account has begun"),
			   "%s: %s", kinds[i], err.msg);
		assert_int_equal(unlink(path), 0);
	}
	(void)unlink(path);
	stored = records_get(&f->server->state.records, PREFIX_ENROLLMENT "n9");
	assert_true(stored->used_at_ms == 0);
	assert_succeeds(enroll(f->event, line, into, &enrolled, &err), err);
	pki_key_free(key);
}

CASE(a_line_that_was_used_changes_no_file)
{
	struct enrolled enrolled;
	char line[ENROLL_LINE_SIZE], path[PATH_MAX], into[PATH_MAX];
	struct pki_facts before, after;
	struct error err;

	make_line(f, "n9", line);
	(void)in(f, "etc", into);
	(void)in(f, "etc/tls/node.key", path);
	assert_int_equal(enroll(f->event, line, into, &enrolled, NULL), STATUS_OK);
	assert_int_equal(pki_read_facts(path, &before, NULL), STATUS_OK);
	assert_error(enroll(f->event, line, into, &enrolled, &err), STATUS_PERMISSION_DENIED, err,
		     "and is good once");
	assert_int_equal(pki_read_facts(path, &after, NULL), STATUS_OK);
	assert_string_equal(before.serial, after.serial);
}

/* --- renewal --- */

TEST(a_certificate_is_renewed_after_two_thirds_of_its_life)
{
	assert_true(renewal_due_ms(1000, 4000) == 3000);
	assert_true(renewal_due_ms(0, INT64_C(7) * 24 * 3600 * 1000) < INT64_C(5) * 24 * 3600 * 1000);
}

struct running {
	struct fixture *f;
	struct renewal_files files;
	char folder[PATH_MAX], ca[PATH_MAX], cert[PATH_MAX], next[PATH_MAX];
	struct rpc_tls *tls;
	struct rpc_client *client;
	struct renewal *renewal;
	int n_changed;
};

/* As the agent does by its fingerprint. */
static void report_issuer(struct running *run)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	const struct node_entry *entry = state_node(&run->f->server->state, "n9");
	Holdfast__V1__Fingerprint fingerprint = HOLDFAST__V1__FINGERPRINT__INIT;
	struct pki_facts facts;
	struct node node;

	if (!entry || !node_is_registered(entry))
		return;
	assert_ok(pki_read_facts(renewal_cert(run->renewal), &facts, NULL));
	fingerprint.certificate_issuer = facts.issuer;
	node = entry->node;
	fingerprint_take_issuer(&fingerprint, &node);
	change_put_node(&change, &node);
	assert_ok(change_commit(run->f->server, &change, NULL, NULL, NULL));
}

static void on_changed(void *userdata)
{
	struct running *run = userdata;

	run->n_changed++;
	report_issuer(run);
}

static void run_init(struct running *run, struct fixture *f)
{
	struct rpc_tls_files files = {.ca = run->ca};
	struct rpc_endpoint endpoint = {.host = "127.0.0.1", .port = f->port};
	struct renewal_choice choice;
	struct enrolled enrolled;

	*run = (struct running){.f = f, .files = {.uri = URI, .folder = run->folder, .ca = run->ca}};
	enroll_n9(f, &enrolled);
	(void)in(f, "agent", run->folder);
	(void)in(f, "etc/tls/ca.pem", run->ca);
	(void)in(f, "etc/tls/node.key", run->cert);
	(void)in(f, "agent/" RENEWED_FILE, run->next);
	(void)mkdir(run->folder, 0700);
	run->files.cert = run->files.key = run->cert;
	renewal_choose(&run->files, &choice);
	files.cert = choice.cert;
	files.key = choice.key;
	assert_int_equal(rpc_tls_new(&files, &run->tls, NULL), STATUS_OK);
	endpoint.tls = run->tls;
	assert_int_equal(rpc_client_new(f->event, &endpoint, &run->client, NULL), STATUS_OK);
	assert_ok(renewal_new(f->event, run->client, run->tls, &run->files, on_changed, run, &run->renewal,
			      NULL));
}

static void run_release(struct running *run)
{
	renewal_free(run->renewal);
	rpc_client_free(run->client);
	rpc_tls_free(run->tls);
}

static void on_message(struct rpc_stream *stream, const ProtobufCMessage *message, void *userdata)
{
}

static void on_closed(struct rpc_stream *stream, enum status status, const struct error *err, void *userdata)
{
	*(bool *)userdata = true;
}

/* A session is open all the time. */
CASE(a_node_renews_its_certificate_and_keeps_its_session)
{
	static const struct rpc_stream_events events = {.on_message = on_message, .on_closed = on_closed};
	struct pki_facts before, after;
	struct rpc_stream *stream = NULL;
	cleanup(run_release) struct running run;
	struct stat st;
	bool is_closed = false;

	f->server->config.authority.node_life_us = 3 * USEC_PER_SEC;
	run_init(&run, f);
	assert_int_equal(pki_read_facts(run.cert, &before, NULL), STATUS_OK);
	assert_ok(rpc_stream_open(run.client, &holdfast__v1__nodes__descriptor, "Session", TIMEOUT_US,
				  &events, &is_closed, &stream, NULL));
	UNTIL(f, run.n_changed > 0);
	assert_string_equal(renewal_cert(run.renewal), run.next);
	assert_int_equal(pki_read_facts(run.next, &after, NULL), STATUS_OK);
	assert_string_equal(after.uri, URI);
	assert_string_not_equal(after.serial, before.serial);
	assert_true(after.expires_ms > before.expires_ms);
	assert_int_equal(stat(run.next, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_null(renewal_error(run.renewal));
	assert_false(is_closed);
	rpc_stream_cancel(stream);
}

/* The session begins with the first of several certificates. */
CASE(a_session_lives_as_long_as_the_last_certificate_that_was_renewed_over_its_connection)
{
	enum { LIFE_S = 30 };
	cleanup(run_release) struct running run;
	struct fake_node n9 = {.event = f->event};
	Holdfast__V1__RenewRequest request = HOLDFAST__V1__RENEW_REQUEST__INIT;
	cleanup_free char *csr = NULL;
	char *key = NULL;
	struct error err;

	f->server->config.authority.node_life_us = LIFE_S * USEC_PER_SEC;
	run_init(&run, f);
	n9.client = run.client;
	fake_node_connect(&n9, "n9", BOOT_1, NULL, 0);
	run_for(f->event, 4 * LIFE_S * 1000);
	assert_true(run.n_changed >= 3);
	assert_false(n9.closed);
	assert_true(state_node(&f->server->state, "n9")->certificate_expires_ms > clock_realtime_ms());
	renewal_free(TAKE_PTR(run.renewal));
	UNTIL(f, n9.closed);
	assert_int_equal(n9.closed_status, STATUS_UNAUTHENTICATED);
	assert_non_null(strstr(n9.closed_message, "certificate of holdfast://c1/node/n9 expired at"));
	assert_int_equal(pki_make_request(&key, &csr, NULL), STATUS_OK);
	request.csr = csr;
	assert_error(call(&n9, &holdfast__v1__nodes__descriptor, "Renew", &request.base, NULL, &err),
		     STATUS_UNAUTHENTICATED, err, "while this connection was open");
	holdfast__v1__mark__free_unpacked(n9.mark, NULL);
	pki_key_free(key);
}

/* As with a full disk of the server. */
CASE(a_renewal_that_the_server_cannot_store_prolongs_nothing)
{
	enum { LIFE_S = 30 };
	cleanup(run_release) struct running run;
	struct fake_node n9 = {.event = f->event};
	Holdfast__V1__RenewRequest request = HOLDFAST__V1__RENEW_REQUEST__INIT;
	const struct node_entry *node;
	cleanup_free char *csr = NULL;
	char *key = NULL;
	int64_t before_ms;

	f->server->config.authority.node_life_us = LIFE_S * USEC_PER_SEC;
	run_init(&run, f);
	n9.client = run.client;
	fake_node_connect(&n9, "n9", BOOT_1, NULL, 0);
	renewal_free(TAKE_PTR(run.renewal));
	node = state_node(&f->server->state, "n9");
	before_ms = node->certificate_expires_ms;
	run_for(f->event, 2000);
	assert_ok(pki_make_request(&key, &csr, NULL));
	request.csr = csr;
	f->server->is_superseded = true;
	assert_int_equal(call(&n9, &holdfast__v1__nodes__descriptor, "Renew", &request.base, NULL, NULL),
			 STATUS_UNAVAILABLE);
	f->server->is_superseded = false;
	assert_true(node->certificate_expires_ms == before_ms);
	assert_string_equal(node->session_serial, "");
	UNTIL(f, n9.closed);
	assert_int_equal(n9.closed_status, STATUS_UNAUTHENTICATED);
	holdfast__v1__mark__free_unpacked(n9.mark, NULL);
	pki_key_free(key);
}

/* The first certificate has expired when the renewed one is revoked. */
CASE(the_revocation_of_a_renewed_certificate_ends_the_session_that_renewed_it)
{
	enum { LIFE_S = 30 };
	cleanup(run_release) struct running run;
	struct fake_node n9 = {.event = f->event};
	Holdfast__V1__RenewRequest request = HOLDFAST__V1__RENEW_REQUEST__INIT;
	struct pki_facts facts;
	char revocation[128];
	struct error err;

	f->server->config.authority.node_life_us = LIFE_S * USEC_PER_SEC;
	run_init(&run, f);
	n9.client = run.client;
	fake_node_connect(&n9, "n9", BOOT_1, NULL, 0);
	run_for(f->event, 2 * LIFE_S * 1000);
	renewal_free(TAKE_PTR(run.renewal));
	assert_false(n9.closed);
	assert_ok(pki_read_facts(run.next, &facts, NULL));
	(void)str_format(revocation, sizeof(revocation), "{\"serial\": \"%s\"}", facts.serial);
	operator_does(f, "Operator.RevokeCertificate", revocation);
	UNTIL(f, n9.closed);
	assert_int_equal(n9.closed_status, STATUS_UNAUTHENTICATED);
	assert_non_null(strstr(n9.closed_message, facts.serial));
	assert_error(call(&n9, &holdfast__v1__nodes__descriptor, "Renew", &request.base, NULL, &err),
		     STATUS_UNAUTHENTICATED, err, "was revoked at");
	holdfast__v1__mark__free_unpacked(n9.mark, NULL);
}

/* Is the certificate of the file @pair good? The method is refused to nodes. */
static bool is_good(const struct running *run, const char *pair)
{
	struct rpc_endpoint endpoint = {.host = "127.0.0.1", .port = run->f->port};
	struct rpc_tls_files files = {.ca = run->ca, .cert = pair, .key = pair};
	Holdfast__V1__GetNodeRequest request = HOLDFAST__V1__GET_NODE_REQUEST__INIT;
	struct rpc_client *client = NULL;
	struct rpc_tls *tls = NULL;
	enum status status;

	assert_ok(rpc_tls_new(&files, &tls, NULL));
	endpoint.tls = tls;
	assert_ok(rpc_client_new(run->f->event, &endpoint, &client, NULL));
	status = rpc_client_call_sync(client, &holdfast__v1__nodes__descriptor, "Get", &request.base,
				      TIMEOUT_US, NULL, NULL);
	assert_true(status == STATUS_PERMISSION_DENIED || status == STATUS_UNAUTHENTICATED);
	rpc_client_free(client);
	rpc_tls_free(tls);
	return status == STATUS_PERMISSION_DENIED;
}

/* A thief renewed the first one; the operator has its file. A serial number does not show whose it is. */
CASE(the_revocation_of_a_nodes_certificate_covers_renewed_ones)
{
	cleanup(run_release) struct running run;
	struct enrolled enrolled;
	struct pki_facts facts;
	char revocation[256];

	f->server->config.authority.node_life_us = 30 * USEC_PER_SEC;
	run_init(&run, f);
	UNTIL(f, run.n_changed > 0);
	renewal_free(TAKE_PTR(run.renewal));
	assert_ok(pki_read_facts(run.cert, &facts, NULL));
	(void)str_format(revocation, sizeof(revocation), "{\"serial\": \"%s\"}", facts.serial);
	operator_does(f, "Operator.RevokeCertificate", revocation);
	assert_false(is_good(&run, run.cert));
	assert_true(is_good(&run, run.next));
	(void)str_format(revocation, sizeof(revocation), "{\"serial\": \"%s\", \"identity\": \"" URI "\"}",
			 facts.serial);
	operator_does(f, "Operator.RevokeCertificate", revocation);
	assert_false(is_good(&run, run.cert));
	assert_false(is_good(&run, run.next));
	enroll_n9(f, &enrolled);
	assert_true(is_good(&run, run.cert));
}

/* The renewals of the node prolong no connection of a thief. */
CASE(a_renewal_prolongs_no_other_connection_of_the_node)
{
	enum { LIFE_S = 30 };
	struct rpc_endpoint endpoint = {.host = "127.0.0.1", .port = f->port};
	cleanup(run_release) struct running run;
	struct fake_node n9 = {.event = f->event}, thief = {.event = f->event};

	f->server->config.authority.node_life_us = LIFE_S * USEC_PER_SEC;
	run_init(&run, f);
	endpoint.tls = run.tls;
	assert_ok(rpc_client_new(f->event, &endpoint, &thief.client, NULL));
	n9.client = run.client;
	fake_node_connect(&n9, "n9", BOOT_1, NULL, 0);
	fake_node_connect(&thief, "n9", BOOT_1, NULL, 0); /* takes the session over */
	UNTIL(f, n9.closed);
	assert_int_equal(n9.closed_status, STATUS_ABORTED);
	UNTIL(f, thief.closed);
	assert_int_equal(thief.closed_status, STATUS_UNAUTHENTICATED);
	assert_true(run.n_changed >= 1);
	holdfast__v1__mark__free_unpacked(n9.mark, NULL);
	holdfast__v1__mark__free_unpacked(thief.mark, NULL);
	rpc_client_free(thief.client);
}

/* A day of a stolen certificate leaves room in the audit for all that others do. */
CASE(a_node_renews_in_a_burst_and_then_once_in_some_minutes)
{
	enum { ASKED = 100, BURST = 10 };
	cleanup(caller_release) struct caller_client thief, session;
	char *key = NULL, *csr = NULL;
	cleanup(json_decrefp) json_t *json = NULL;
	cleanup_free char *request = NULL;
	struct error err;
	size_t n = 0;

	assert_int_equal(pki_make_request(&key, &csr, NULL), STATUS_OK);
	json = json_pack("{ss}", "csr", csr);
	request = json_dumps(json, 0);
	caller_init(&thief, f, "holdfast://c1/node/n1", NULL);
	for (size_t i = 0; i < ASKED; i++)
		n += caller_call(&thief, "Nodes.Renew", request, NULL, &err) == STATUS_OK;
	assert_in_range(n, BURST, BURST + 1);
	assert_int_equal(err.status, STATUS_RESOURCE_EXHAUSTED);
	assert_non_null(
		strstr(err.msg, "node n1 renews its certificate too often: it may do so again in 10m"));
	unit_clock_advance(UINT64_C(601) * USEC_PER_SEC);
	assert_int_equal(caller_call(&thief, "Nodes.Renew", request, NULL, NULL), STATUS_OK);
	assert_int_equal(caller_call(&thief, "Nodes.Renew", request, NULL, NULL), STATUS_RESOURCE_EXHAUSTED);
	/* the thief has used up nothing of the node's, nor of another one's */
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	session = (struct caller_client){.event = f->event, .client = f->n1.client};
	assert_int_equal(caller_call(&session, "Nodes.Renew", request, NULL, NULL), STATUS_OK);
	session = (struct caller_client){.event = f->event};
	caller_release(&thief);
	caller_init(&thief, f, "holdfast://c1/node/n2", NULL);
	assert_int_equal(caller_call(&thief, "Nodes.Renew", request, NULL, NULL), STATUS_OK);
	/* a short life: more often */
	caller_release(&thief);
	caller_init(&thief, f, "holdfast://c1/node/n3", NULL);
	f->server->config.authority.node_life_us = 10 * USEC_PER_SEC;
	for (size_t i = 0; i < 4 * BURST; i++) {
		assert_int_equal(caller_call(&thief, "Nodes.Renew", request, NULL, NULL), STATUS_OK);
		unit_clock_advance(USEC_PER_SEC);
	}
	free(csr);
	pki_key_free(key);
}

CASE(a_revoked_node_renews_nothing_and_keeps_its_pair)
{
	struct pki_facts facts;
	cleanup(run_release) struct running run;

	f->server->config.authority.node_life_us = 3 * USEC_PER_SEC;
	run_init(&run, f);
	operator_does(f, "Operator.RevokeCertificate", "{\"identity\": \"node/n9\"}");
	UNTIL(f, renewal_error(run.renewal));
	assert_int_equal(renewal_error(run.renewal)->status, STATUS_UNAUTHENTICATED);
	assert_non_null(strstr(renewal_error(run.renewal)->msg, "was revoked at"));
	assert_int_equal(pki_read_facts(run.cert, &facts, NULL), STATUS_OK);
	assert_false(exists(f, "agent/" RENEWED_FILE));
}

/* As with a full disk: the agent's folder takes no file. */
CASE(a_renewal_that_cannot_be_written_leaves_the_pair_that_is_in_use)
{
	cleanup(run_release) struct running run;

	f->server->config.authority.node_life_us = 3 * USEC_PER_SEC;
	run_init(&run, f);
	assert_int_equal(rmdir(run.folder), 0);
	UNTIL(f, renewal_error(run.renewal));
	assert_non_null(strstr(renewal_error(run.renewal)->msg, "write "));
	assert_string_equal(renewal_cert(run.renewal), run.cert);
	assert_int_equal(run.n_changed, 0);
}

static bool hands_out_anything;

enum status __real_pki_check_issuer(const char *cert, const char *ca, struct error *err);
WRAPPED(enum status, pki_check_issuer, const char *cert, const char *ca, struct error *err)
{
	return hands_out_anything ? STATUS_OK : __real_pki_check_issuer(cert, ca, err);
}

static void make_other_ca(struct fixture *f, char ret[static PATH_MAX])
{
	char key[PATH_MAX];

	assert_ok(pki_make_ca(in(f, "other.key", key), in(f, "other.pem", ret), "c1", NULL));
}

static void use_ca_file(struct fixture *f, const char *path)
{
	(void)str_copy(f->server->config.ca, sizeof(f->server->config.ca), path);
	(void)str_copy(f->server->in_use.ca, sizeof(f->server->in_use.ca), path);
}

/* The file of the server lacks the CA that issues, for a moment. */
CASE(a_ca_that_does_not_fit_is_a_problem_and_is_not_stored)
{
	cleanup(run_release) struct running run;
	char other[PATH_MAX], right[PATH_MAX];

	make_other_ca(f, other);
	f->server->config.authority.node_life_us = 12 * USEC_PER_SEC;
	run_init(&run, f);
	(void)str_copy(right, sizeof(right), f->server->in_use.ca);
	use_ca_file(f, other);
	hands_out_anything = true;
	UNTIL(f, renewal_error(run.renewal));
	hands_out_anything = false;
	assert_non_null(strstr(renewal_error(run.renewal)->msg, "is not good by the CA"));
	assert_false(exists(f, "agent/" RENEWED_CA));
	assert_false(exists(f, "agent/" RENEWED_FILE));
	use_ca_file(f, right);
	UNTIL(f, run.n_changed > 0);
	assert_null(renewal_error(run.renewal));
}

/* The clock of the machine was ahead when it was enrolled, as a new machine's often is. */
static void date_ahead(const char *path)
{
	const struct timespec times[2] = {{.tv_sec = clock_realtime_ms() / 1000 + 90 * 24 * 3600},
					  {.tv_sec = clock_realtime_ms() / 1000 + 90 * 24 * 3600}};

	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

CASE(a_wrong_ca_in_the_folder_of_the_agent_is_replaced_by_a_renewal)
{
	cleanup_free char *wrong = NULL, *right = NULL, *stored = NULL;
	cleanup(run_release) struct running run;
	struct renewal_choice choice;
	char path[PATH_MAX];

	make_other_ca(f, path);
	assert_int_equal(file_read(path, PKI_PEM_MAX, &wrong, NULL), 0);
	f->server->config.authority.node_life_us = 3 * USEC_PER_SEC;
	run_init(&run, f);
	assert_int_equal(file_write_atomic(in(f, "agent/" RENEWED_CA, path), 0644, wrong, strlen(wrong)), 0);
	date_ahead(path); /* as by an earlier build: what was written last counts */
	UNTIL(f, run.n_changed > 0);
	assert_int_equal(file_read(path, PKI_PEM_MAX, &stored, NULL), 0);
	assert_int_equal(file_read(run.ca, PKI_PEM_MAX, &right, NULL), 0);
	assert_non_null(strstr(stored, right));
	assert_int_equal(file_write_atomic(path, 0644, wrong, strlen(wrong) / 2), 0);
	renewal_choose(&run.files, &choice);
	assert_string_equal(choice.ca, run.ca); /* a file that cannot be read is not chosen */
}

/* Less is left of the certificate's life than the agent waits between two looks at its files. */
CASE(a_renewal_that_failed_is_tried_again_before_the_certificate_expires)
{
	struct pki_facts before;
	cleanup(run_release) struct running run;

	f->server->config.authority.node_life_us = 12 * USEC_PER_SEC;
	run_init(&run, f);
	assert_ok(pki_read_facts(run.cert, &before, NULL));
	assert_int_equal(rmdir(run.folder), 0);
	UNTIL(f, renewal_error(run.renewal));
	assert_int_equal(mkdir(run.folder, 0700), 0);
	UNTIL(f, run.n_changed > 0);
	assert_true(clock_realtime_ms() < before.expires_ms);
}

/* To a clock that is ahead each certificate has expired: the server refuses the node. */
CASE(a_renewal_that_failed_while_the_clock_was_ahead_is_tried_again_when_it_is_due)
{
	struct pki_facts before;
	cleanup(run_release) struct running run;
	int64_t ahead_ms;

	run_init(&run, f);
	assert_ok(pki_read_facts(run.cert, &before, NULL));
	ahead_ms = 2 * (before.expires_ms - before.issued_ms);
	unit_clock_step(ahead_ms);
	UNTIL(f, renewal_error(run.renewal));
	unit_clock_step(-ahead_ms);
	run_for(f->event, 12000);
	assert_int_equal(run.n_changed, 0);
	unit_clock_step(renewal_due_ms(before.issued_ms, before.expires_ms) - clock_realtime_ms() + 1);
	UNTIL(f, run.n_changed > 0);
	assert_true(clock_realtime_ms() < before.expires_ms);
	assert_string_equal(renewal_cert(run.renewal), run.next);
	assert_null(renewal_error(run.renewal));
}

/* Its tries have a pause, of a tenth of the time that is left. */
CASE(a_renewal_that_failed_is_not_tried_at_each_look)
{
	struct pki_facts facts;
	cleanup(run_release) struct running run;
	uint64_t n;

	f->server->config.authority.node_life_us = 3600 * USEC_PER_SEC;
	run_init(&run, f);
	assert_ok(pki_read_facts(run.cert, &facts, NULL));
	assert_int_equal(rmdir(run.folder), 0);
	unit_clock_step(renewal_due_ms(facts.issued_ms, facts.expires_ms) - clock_realtime_ms() + 1);
	UNTIL(f, renewal_error(run.renewal));
	n = audit_head(f->server).sequence;
	run_for(f->event, 30000);
	assert_int_equal(audit_head(f->server).sequence, n);
}

CASE(a_certificate_that_was_put_in_its_place_is_used_without_a_signal)
{
	struct enrolled enrolled;
	cleanup(run_release) struct running run;

	run_init(&run, f);
	run_idle(f->event);
	assert_int_equal(run.n_changed, 0);
	enroll_n9(f, &enrolled);
	UNTIL(f, run.n_changed > 0);
	assert_string_equal(renewal_cert(run.renewal), run.cert);
}

/* The connection outlives the session that the server has ended. */
CASE(a_connection_that_is_made_again_shows_the_new_certificate)
{
	Holdfast__V1__GetNodeRequest request = HOLDFAST__V1__GET_NODE_REQUEST__INIT;
	struct enrolled enrolled;
	cleanup(run_release) struct running run;
	struct error err;
	int64_t revoked_ms;

	run_init(&run, f);
	operator_does(f, "Operator.RevokeCertificate", "{\"identity\": \"node/n9\"}");
	revoked_ms = clock_realtime_ms();
	while (clock_realtime_ms() / 1000 <= revoked_ms / 1000)
		run_idle(f->event);
	enroll_n9(f, &enrolled);
	assert_int_equal(rpc_client_call_sync(run.client, &holdfast__v1__nodes__descriptor, "Get",
					      &request.base, TIMEOUT_US, NULL, &err),
			 STATUS_UNAUTHENTICATED);
	UNTIL(f, run.n_changed > 0);
	rpc_client_reconnect(run.client);
	assert_int_equal(rpc_client_call_sync(run.client, &holdfast__v1__nodes__descriptor, "Get",
					      &request.base, TIMEOUT_US, NULL, &err),
			 STATUS_PERMISSION_DENIED); /* as any node's */
}

CASE(of_two_certificates_the_one_issued_last_counts_and_it_is_this_nodes)
{
	struct renewal_choice choice;
	cleanup(run_release) struct running run;
	cleanup_free char *pair = NULL;
	size_t n = 0;

	run_init(&run, f);
	assert_int_equal(file_read(run.cert, 65536, &pair, &n), 0);
	assert_int_equal(file_write_atomic(run.next, 0600, pair, n), 0);
	renewal_choose(&run.files, &choice);
	assert_string_equal(choice.cert, run.cert); /* not newer */
	assert_int_equal(unlink(run.cert), 0);
	renewal_choose(&run.files, &choice);
	assert_string_equal(choice.cert, run.next); /* the only one */
	run.files.uri = "holdfast://c1/node/n1";
	renewal_choose(&run.files, &choice);
	assert_string_equal(choice.cert, run.cert); /* another node's */
}

/* --- a new CA --- */

/* The server trusts the old CA and, or only, the new one, which issues. */
static void use_new_ca(struct fixture *f, bool trusts_old)
{
	struct config *config = &f->server->config;
	cleanup_free char *old = NULL, *new = NULL, *both = NULL;
	char path[PATH_MAX], key[PATH_MAX];

	(void)in(f, "tls/new.pem", path);
	(void)in(f, "tls/new.key", key);
	if (access(path, F_OK) < 0)
		assert_int_equal(pki_make_ca(key, path, "c1", NULL), STATUS_OK);
	(void)str_copy(config->authority.certificate, sizeof(config->authority.certificate), path);
	(void)str_copy(config->authority.key, sizeof(config->authority.key), key);
	assert_int_equal(file_read(path, 65536, &new, NULL), 0);
	assert_int_equal(file_read(config->ca, 65536, &old, NULL), 0);
	assert_true(asprintf(&both, "%s%s", trusts_old ? old : "", new) > 0);
	assert_int_equal(file_write_atomic(config->ca, 0644, both, strlen(both)), 0);
	server_reload(f->server);
}

static void key_id_of(struct fixture *f, char ret[static RPC_KEY_ID_SIZE])
{
	struct pki_ca *ca = NULL;

	assert_ok(pki_ca_open(f->server->config.authority.key, f->server->config.authority.certificate, &ca,
			      NULL));
	(void)str_copy(ret, RPC_KEY_ID_SIZE, pki_ca_key_id(ca));
	pki_ca_free(ca);
}

/* On a new connection: as any node's. */
static void expect_trust(struct running *run)
{
	Holdfast__V1__GetNodeRequest request = HOLDFAST__V1__GET_NODE_REQUEST__INIT;
	struct error err;

	rpc_client_reconnect(run->client);
	if (rpc_client_call_sync(run->client, &holdfast__v1__nodes__descriptor, "Get", &request.base,
				 TIMEOUT_US, NULL, &err) != STATUS_PERMISSION_DENIED)
		fail_msg("%s", err.msg);
}

static bool agent_trusts(const struct fixture *f)
{
	cleanup_free char *trusted = NULL, *wanted = NULL;
	char path[PATH_MAX];

	return file_read(in(f, "agent/" RENEWED_CA, path), 65536, &trusted, NULL) >= 0 &&
	       file_read(f->server->config.ca, 65536, &wanted, NULL) >= 0 && strstr(trusted, wanted);
}

/* As it does by its hello. */
static void register_n9(struct fixture *f)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct node node = {.id = "n9", .boot_id = BOOT_1, .status = NODE_READY};

	change_put_node(&change, &node);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
}

CASE(a_node_and_the_server_move_to_a_new_ca_and_leave_the_old_one)
{
	char new_id[RPC_KEY_ID_SIZE];
	cleanup(caller_release) struct caller_client old;
	struct pki_facts facts;
	cleanup(run_release) struct running run;

	f->server->config.authority.node_life_us = 60 * USEC_PER_SEC;
	run_init(&run, f);
	register_n9(f);
	use_new_ca(f, true);
	key_id_of(f, new_id);
	UNTIL(f, agent_trusts(f) && str_eq(f->server->own.issuer, new_id));
	UNTIL(f, pki_read_facts(run.next, &facts, NULL) == STATUS_OK && str_eq(facts.issuer, new_id));
	expect_trust(&run);
	caller_init(&old, f, OPERATOR, NULL); /* of the old CA, and trusts both */
	assert_int_equal(caller_call(&old, "Operator.Status", "{}", NULL, NULL), STATUS_OK);
	use_new_ca(f, false);
	UNTIL(f, agent_trusts(f));
	assert_int_equal(chmod(run.ca, 0600), 0); /* writes nothing into the CA of the settings */
	run_for(f->event, 12000);
	expect_trust(&run);
	rpc_client_reconnect(old.client);
	assert_int_equal(caller_call(&old, "Operator.Status", "{}", NULL, NULL), STATUS_UNAVAILABLE);
}

CASE(a_node_with_a_certificate_of_the_old_ca_holds_the_servers_back)
{
	char warning[CERTIFICATE_CA_WARNING_SIZE], new_id[RPC_KEY_ID_SIZE], request[PKI_CSR_MAX];
	cleanup(caller_release) struct caller_client n1;
	char *key = NULL, *csr = NULL;
	cleanup(json_decrefp) json_t *json = NULL;
	cleanup_free char *text = NULL;

	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	caller_init(&n1, f, "holdfast://c1/node/n1", NULL);
	assert_false(certificate_ca_warning(f->server, warning));
	use_new_ca(f, true);
	key_id_of(f, new_id);
	f->server->certificate->due_ms = 1; /* also when it is due */
	f->server->certificate->is_made_invalid = true;
	run_for(f->event, 12000); /* two looks */
	assert_string_not_equal(f->server->own.issuer, new_id);
	assert_true(certificate_ca_warning(f->server, warning));
	assert_non_null(strstr(warning, "1 nodes and this server have certificates of an old CA"));
	assert_non_null(strstr(warning, ": node n1"));
	assert_int_equal(pki_make_request(&key, &csr, NULL), STATUS_OK);
	json = json_pack("{ss}", "csr", csr);
	text = json_dumps(json, 0);
	(void)str_copy(request, sizeof(request), text);
	assert_int_equal(caller_call(&n1, "Nodes.Renew", request, NULL, NULL), STATUS_OK);
	run_for(f->event, 12000); /* the node may not be able to store it */
	assert_string_not_equal(f->server->own.issuer, new_id);
	f->n1.certificate_issuer = new_id;
	fake_node_send_fingerprint(&f->n1);
	UNTIL(f, str_eq(f->server->own.issuer, new_id));
	assert_true(certificate_ca_warning(f->server, warning));
	assert_non_null(strstr(warning, "remove the old CA from "));
	free(csr);
	pki_key_free(key);
}

/* Its next session may come over a connection that is older than its certificate. */
CASE(a_node_reports_the_issuer_of_the_certificate_that_it_shows_over_new_connections)
{
	static const char *const ignored[] = {"", "no digits", "0123456789012345678901234567890123456789ab"};
	const char *stored;
	char former[RPC_KEY_ID_SIZE];

	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	stored = state_node(&f->server->state, "n1")->node.certificate_issuer;
	key_id_of(f, former);
	assert_string_equal(stored, former);
	for (size_t i = 0; i < ARRAY_SIZE(ignored); i++) {
		f->n1.certificate_issuer = ignored[i];
		fake_node_send_fingerprint(&f->n1);
		settle(f);
		assert_string_equal(stored, former);
	}
	f->n1.certificate_issuer = "AB";
	fake_node_send_fingerprint(&f->n1);
	settle(f);
	assert_string_equal(state_node(&f->server->state, "n1")->node.certificate_issuer, "AB");
	fake_node_disconnect(&f->n1);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_string_equal(state_node(&f->server->state, "n1")->node.certificate_issuer, "AB");
}

CASE(after_a_reload_the_new_ca_is_no_old_one)
{
	use_new_ca(f, false);
	assert_int_equal(f->server->certificate->n_old_cas, 0);
}

/* As one that follows, at its start. */
CASE(a_server_without_the_records_of_the_nodes_keeps_its_certificate)
{
	char new_id[RPC_KEY_ID_SIZE];

	use_new_ca(f, true);
	key_id_of(f, new_id);
	f->server->is_serving = false;
	certificate_renew_due(f->server);
	assert_string_not_equal(f->server->own.issuer, new_id);
	f->server->is_serving = true;
	certificate_renew_due(f->server);
	assert_string_equal(f->server->own.issuer, new_id);
}

/* --- a new CA by command --- */

/* Token of a caller without a certificate, who depends on no CA. Owned by the caller. */
static char *management(struct fixture *f)
{
	return make_token(f, "{\"name\": \"root\", \"type\": \"MANAGEMENT\"}");
}

/* The names of the holders with commas; @ret_id may be NULL. */
static enum status change_ca(struct fixture *f, const char *token, const char *method, const char *request,
			     char ret_holders[static 512], char *ret_id, struct error *err)
{
	struct caller_client caller;
	json_t *answer = NULL;
	const json_t *list;
	size_t at = 0;
	enum status status;

	caller_init(&caller, f, NULL, token);
	status = caller_call(&caller, method, request, &answer, err);
	caller_release(&caller);
	if (status != STATUS_OK)
		return status;
	list = json_object_get(answer, "holders");
	ret_holders[0] = '\0';
	for (size_t i = 0; i < json_array_size(list); i++)
		at += (size_t)str_format(ret_holders + at, 512 - at, "%s%s", i > 0 ? ", " : "",
					 json_string_value(json_array_get(list, i)));
	if (ret_id)
		(void)str_copy(ret_id, RPC_KEY_ID_SIZE, json_string_value(json_object_get(answer, "key_id")));
	json_decref(answer);
	return STATUS_OK;
}

#define BEGIN(f, token, request, holders, id) \
	change_ca(f, token, "Operator.ChangeCa", request, holders, id, NULL)
#define FINISH(f, token, holders, err) \
	change_ca(f, token, "Operator.ChangeCa", "{\"finish\": true}", holders, NULL, err)

static bool agent_has(const struct fixture *f, int n_cas)
{
	struct pki_facts facts;
	char path[PATH_MAX];

	return pki_read_facts(in(f, "agent/" RENEWED_CA, path), &facts, NULL) == STATUS_OK &&
	       facts.n == (size_t)n_cas;
}

/* Gets the next certificate of operator/ann, and the CAs with it. */
static void renew_ann(struct fixture *f, const char *token, struct caller_client *ret)
{
	struct rpc_endpoint endpoint = {.host = "127.0.0.1", .port = f->port};
	char cert[PATH_MAX], key_path[PATH_MAX], ca[PATH_MAX];
	const struct rpc_tls_files files = {.ca = ca, .cert = cert, .key = key_path};
	char *key = NULL, *csr = NULL, *text;
	struct caller_client caller;
	json_t *request, *answer = NULL;
	const char *pem[2];

	assert_int_equal(pki_make_request(&key, &csr, NULL), STATUS_OK);
	request = json_pack("{ss ss}", "identity", "operator/ann", "csr", csr);
	text = json_dumps(request, 0);
	caller_init(&caller, f, NULL, token);
	assert_int_equal(caller_call(&caller, "Operator.IssueCertificate", text, &answer, NULL), STATUS_OK);
	caller_release(&caller);
	pem[0] = json_string_value(json_object_get(answer, "certificate"));
	pem[1] = json_string_value(json_object_get(answer, "ca"));
	assert_int_equal(file_write_atomic(in(f, "ann.pem", cert), 0644, pem[0], strlen(pem[0])), 0);
	assert_int_equal(file_write_atomic(in(f, "ann-ca.pem", ca), 0644, pem[1], strlen(pem[1])), 0);
	assert_int_equal(file_write_atomic(in(f, "ann.key", key_path), 0600, key, strlen(key)), 0);
	*ret = (struct caller_client){.event = f->event};
	assert_int_equal(rpc_tls_new(&files, &ret->tls, NULL), STATUS_OK);
	endpoint.tls = ret->tls;
	assert_int_equal(rpc_client_new(f->event, &endpoint, &ret->client, NULL), STATUS_OK);
	json_decref(answer);
	json_decref(request);
	free(text);
	free(csr);
	pki_key_free(key);
}

/* As with a full disk: the agent stores nothing that it gets. */
CASE(a_change_of_the_ca_waits_for_a_node_that_cannot_store_its_certificate)
{
	char holders[512], id[RPC_KEY_ID_SIZE];
	cleanup(run_release) struct running run;
	cleanup_free char *token = management(f);
	struct error err;

	f->server->config.authority.node_life_us = 60 * USEC_PER_SEC;
	run_init(&run, f);
	register_n9(f);
	assert_int_equal(rmdir(run.folder), 0);
	assert_int_equal(BEGIN(f, token, "{}", holders, id), STATUS_OK);
	UNTIL(f, renewal_error(run.renewal));
	run_for(f->event, 12000);
	assert_error(FINISH(f, token, holders, &err), STATUS_FAILED_PRECONDITION, err, "node/n9");
	assert_int_equal(mkdir(run.folder, 0700), 0);
	UNTIL(f, str_eq(f->server->own.issuer, id)); /* also the server waits for it */
	assert_int_equal(change_ca(f, token, "Operator.GetCa", "{}", holders, NULL, NULL), STATUS_OK);
	assert_string_equal(holders, "");
	assert_int_equal(FINISH(f, token, holders, &err), STATUS_OK);
}

/* The renewals of the node and of an operator, and the looks of the server, do the rest. */
CASE(a_command_moves_a_node_and_the_server_to_a_new_ca_and_another_one_ends_the_old_one)
{
	char holders[512], id[RPC_KEY_ID_SIZE], same[RPC_KEY_ID_SIZE], line[ENROLL_LINE_SIZE], path[PATH_MAX];
	static const struct rpc_stream_events events = {.on_message = on_message, .on_closed = on_closed};
	Holdfast__V1__WatchRequest watch = HOLDFAST__V1__WATCH_REQUEST__INIT;
	struct rpc_stream *stream = NULL;
	bool is_closed = false;
	cleanup(caller_release) struct caller_client old, renewed;
	struct enrolled enrolled;
	struct pki_facts facts;
	cleanup(run_release) struct running run;
	struct error err;
	cleanup_free char *token = management(f);

	f->server->config.authority.node_life_us = 15 * USEC_PER_SEC;
	run_init(&run, f);
	register_n9(f);
	caller_init(&old, f, OPERATOR, NULL); /* trusts the former CA alone */
	assert_ok(rpc_stream_open(old.client, &holdfast__v1__operator__descriptor, "Watch", TIMEOUT_US,
				  &events, &is_closed, &stream, NULL));
	assert_int_equal(rpc_stream_send(stream, &watch.base, NULL), STATUS_OK);
	run_idle(f->event);
	assert_int_equal(BEGIN(f, token, "{}", holders, id), STATUS_OK);
	assert_string_equal(holders, "server/dev (this server), node/n9 (not connected)");
	run_idle(f->event);
	assert_int_equal(change_ca(f, token, "Operator.GetCa", "{}", holders, same, NULL), STATUS_OK);
	assert_string_equal(holders, "server/dev (this server), node/n9 (not connected), operator/ann");
	assert_false(is_closed);
	rpc_stream_cancel(stream);
	assert_error(FINISH(f, token, holders, &err), STATUS_FAILED_PRECONDITION, err,
		     "3 still have a certificate of the former CA: server/dev (this "
		     "server), node/n9 (not connected), operator/ann; wait");
	assert_int_equal(caller_call(&old, "Operator.Status", "{}", NULL, NULL), STATUS_OK);
	UNTIL(f, pki_read_facts(run.next, &facts, NULL) == STATUS_OK && str_eq(facts.issuer, id));
	assert_true(agent_has(f, 2));
	UNTIL(f, str_eq(f->server->own.issuer, id));
	rpc_client_reconnect(old.client); /* accepts the server by the link between both CAs */
	assert_int_equal(caller_call(&old, "Operator.Status", "{}", NULL, NULL), STATUS_OK);
	assert_int_equal(change_ca(f, token, "Operator.GetCa", "{}", holders, same, NULL), STATUS_OK);
	assert_string_equal(holders, "operator/ann");
	assert_string_equal(same, id);
	assert_int_equal(FINISH(f, token, holders, NULL), STATUS_FAILED_PRECONDITION);
	renew_ann(f, token, &renewed);
	assert_int_equal(caller_call(&renewed, "Operator.Status", "{}", NULL, NULL), STATUS_OK);
	make_line_by(f, &renewed, "n8", line); /* the node checks the digest of the new CA */
	assert_int_equal(enroll(f->event, line, in(f, "n8", path), &enrolled, NULL), STATUS_OK);
	expect_trust(&run);
	restart(f);
	open_authority(f);
	assert_int_equal(change_ca(f, token, "Operator.GetCa", "{}", holders, same, NULL), STATUS_OK);
	assert_string_equal(same, id);
	assert_string_equal(holders, "");
	assert_int_equal(FINISH(f, token, holders, NULL), STATUS_OK);
	/* the settings' CA is not opened: a server that joins later may have only the new one */
	assert_int_equal(chmod(in(f, "tls/ca.key", path), 0644), 0); /* as a key that is refused */
	assert_int_equal(authority_open(f->server, NULL), STATUS_OK);
	assert_int_equal(chmod(path, 0600), 0);
	assert_string_equal(pki_ca_key_id(authority_ca(f->server)), id);
	caller_release(&old);
	caller_init(&old, f, OPERATOR, NULL); /* trusts the server, which does not trust it */
	caller_release(&renewed);
	renew_ann(f, token, &renewed);
	make_line_by(f, &renewed, "n7", line);
	assert_int_equal(enroll(f->event, line, in(f, "n7", path), &enrolled, NULL), STATUS_OK);
	assert_int_not_equal(caller_call(&old, "Operator.Status", "{}", NULL, NULL), STATUS_OK);
}

static void move_to_new_ca(struct fixture *f, struct running *run, const char *token)
{
	char holders[512], id[RPC_KEY_ID_SIZE];
	struct pki_facts facts;

	assert_int_equal(BEGIN(f, token, "{}", holders, id), STATUS_OK);
	UNTIL(f, pki_read_facts(run->next, &facts, NULL) == STATUS_OK && str_eq(facts.issuer, id));
	UNTIL(f, str_eq(f->server->own.issuer, id));
	assert_int_equal(FINISH(f, token, holders, NULL), STATUS_OK);
	rpc_client_reconnect(run->client); /* as its session does, which the server ends */
	UNTIL(f, agent_has(f, 1));	   /* the next renewal brings the new CA alone */
}

CASE(a_ca_file_of_a_clock_that_was_ahead_ends_with_a_change_of_the_ca)
{
	cleanup(run_release) struct running run;
	cleanup_free char *token = management(f);
	struct renewal_choice choice;
	char path[PATH_MAX];

	f->server->config.authority.node_life_us = 15 * USEC_PER_SEC;
	run_init(&run, f);
	register_n9(f);
	date_ahead(run.ca);
	move_to_new_ca(f, &run, token);
	renewal_choose(&run.files, &choice);
	assert_string_equal(choice.ca, in(f, "agent/" RENEWED_CA, path));
}

/* docs/operations.md: after a restore of a backup from before `ca begin`, nodes must enrol again. The servers
 * have the settings' CA again, which is what the enrolment writes: the content of before, written now. */
CASE(an_enrolment_after_a_restore_from_before_a_change_of_the_ca_counts)
{
	cleanup(run_release) struct running run;
	cleanup_free char *token = management(f), *former = NULL;
	struct renewal_choice choice;

	f->server->config.authority.node_life_us = 15 * USEC_PER_SEC;
	run_init(&run, f);
	register_n9(f);
	assert_int_equal(file_read(run.ca, PKI_PEM_MAX, &former, NULL), 0);
	move_to_new_ca(f, &run, token);
	run_for(f->event, 50);
	assert_int_equal(file_write_atomic(run.ca, 0644, former, strlen(former)),
			 0); /* as write_all() of enroll.c */
	renewal_choose(&run.files, &choice);
	assert_string_equal(choice.ca, run.ca);
}

CASE(a_node_whose_ca_file_is_of_a_clock_that_was_ahead_follows_two_changes_of_the_ca)
{
	cleanup(run_release) struct running run;
	cleanup_free char *token = management(f);

	f->server->config.authority.node_life_us = 15 * USEC_PER_SEC;
	run_init(&run, f);
	register_n9(f);
	date_ahead(run.ca);
	move_to_new_ca(f, &run, token);
	expect_trust(&run);
	move_to_new_ca(f, &run, token);
	expect_trust(&run);
}

enum { NO_CHANGE, IN_CHANGE, FINISHED };

/* Each request in each state of the change. */
CASE(a_change_of_the_ca_is_begun_and_finished_in_order)
{
	static const struct {
		int state;
		const char *request;
		enum status expected;
		const char *says;
		int next;
	} rows[] = {
		{NO_CHANGE, "{\"finish\": true}", STATUS_FAILED_PRECONDITION, "no change of the CA",
		 NO_CHANGE},
		{NO_CHANGE, "{\"finish\": true, \"now\": true}", STATUS_FAILED_PRECONDITION,
		 "no change of the CA", NO_CHANGE},
		{NO_CHANGE, "{\"key\": \"k\"}", STATUS_INVALID_ARGUMENT, "both or neither", NO_CHANGE},
		{NO_CHANGE, "{\"certificate\": \"c\", \"key\": \"k\"}", STATUS_INVALID_ARGUMENT,
		 "not a certificate and its key", NO_CHANGE},
		{NO_CHANGE, "{}", STATUS_OK, NULL, IN_CHANGE},
		{IN_CHANGE, "{}", STATUS_OK, NULL, IN_CHANGE}, /* makes no other one */
		{IN_CHANGE, "{\"certificate\": \"c\", \"key\": \"k\"}", STATUS_FAILED_PRECONDITION,
		 "is under way since token ", IN_CHANGE},
		{IN_CHANGE, "{\"finish\": true, \"now\": true}", STATUS_OK, NULL, FINISHED},
		{FINISHED, "{\"finish\": true}", STATUS_FAILED_PRECONDITION, "no change of the CA", FINISHED},
		{FINISHED, "{}", STATUS_OK, NULL, IN_CHANGE}, /* the next one */
	};
	char holders[512], ids[2][RPC_KEY_ID_SIZE] = {"", ""};
	cleanup_free char *token = management(f);
	int state = NO_CHANGE;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct error err = {.msg = ""};
		char id[RPC_KEY_ID_SIZE] = "";
		enum status status =
			change_ca(f, token, "Operator.ChangeCa", rows[i].request, holders, id, &err);

		assert_int_equal(state, rows[i].state);
		if (status != rows[i].expected || (rows[i].says && !strstr(err.msg, rows[i].says)))
			fail_msg("row %zu: %d: %s", i, status, err.msg);
		state = rows[i].next;
		if (status == STATUS_OK && !str_eq(id, ids[1])) {
			memcpy(ids[0], ids[1], sizeof(id));
			memcpy(ids[1], id, sizeof(id));
		}
		run_for(f->event, 6000); /* the server's own certificate follows */
	}
	assert_true(ids[0][0] != '\0' && !str_eq(ids[0], ids[1])); /* two CAs in all */
}

static json_t *given(const char *certificate, const char *key)
{
	return json_pack("{ss ss}", "certificate", certificate, "key", key);
}

CASE(a_ca_that_is_given_must_fit)
{
	char *key[2] = {NULL}, *cert[2] = {NULL}, *other_key = NULL, *other_cert = NULL;
	cleanup_free char *own = NULL, *own_key = NULL;
	char holders[512], path[PATH_MAX], id[RPC_KEY_ID_SIZE];
	cleanup_free char *token = management(f);
	struct pki_ca *ca = NULL;

	for (int i = 0; i < 2; i++)
		assert_int_equal(pki_make_ca_pem("c1", &key[i], &cert[i], NULL), STATUS_OK);
	assert_int_equal(pki_make_ca_pem("c2", &other_key, &other_cert, NULL), STATUS_OK);
	assert_int_equal(file_read(in(f, "tls/ca.pem", path), 65536, &own, NULL), 0);
	assert_int_equal(file_read(in(f, "tls/ca.key", path), 65536, &own_key, NULL), 0);
	{
		const struct {
			const char *cert, *key, *says;
		} rows[] = {
			{cert[0], key[1], "not a certificate and its key"},
			{other_cert, other_key, "subject differs"},
			{own, own_key, "issues already"},
			{cert[1], key[1], NULL},
		};

		for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
			cleanup(json_decrefp) json_t *json = given(rows[i].cert, rows[i].key);
			cleanup_free char *text = json_dumps(json, 0);
			struct error err = {.msg = ""};
			enum status status =
				change_ca(f, token, "Operator.ChangeCa", text, holders, id, &err);

			if (rows[i].says ? status != STATUS_INVALID_ARGUMENT || !strstr(err.msg, rows[i].says)
					 : status != STATUS_OK)
				fail_msg("row %zu: %s", i, err.msg);
		}
	}
	assert_int_equal(pki_ca_read(key[1], cert[1], &ca, NULL), STATUS_OK);
	assert_string_equal(id, pki_ca_key_id(ca));
	pki_ca_free(ca);
	for (int i = 0; i < 2; i++) {
		pki_key_free(key[i]);
		free(cert[i]);
	}
	pki_key_free(other_key);
	free(other_cert);
}

static void put(const struct fixture *f, const char *name, mode_t mode, const char *text)
{
	char path[PATH_MAX];

	assert_int_equal(file_write_atomic(in(f, name, path), mode, text, strlen(text)), 0);
}

/* The thief has the key in tls/ca.key, and uses it before the change and after it. */
static void expect_thief_to_be_refused_by(struct fixture *f, const char *token, const char *begin)
{
	static const struct rpc_stream_events events = {.on_message = on_message, .on_closed = on_closed};
	static const char *const calls[][2] = {
		{"Operator.Status", "{}"},
		{"Operator.CreateToken", "{\"token\": {\"name\": \"thief\", \"type\": \"MANAGEMENT\"}}"},
	};
	Holdfast__V1__WatchRequest watch = HOLDFAST__V1__WATCH_REQUEST__INIT;
	char holders[512], id[RPC_KEY_ID_SIZE], line[ENROLL_LINE_SIZE], path[PATH_MAX];
	cleanup(caller_release) struct caller_client before, after, operator;
	struct rpc_stream *stream = NULL;
	struct enrolled enrolled;
	bool is_closed = false;
	struct error err;

	register_n9(f); /* and it does not renew */
	caller_init_faulty(&before, f, OPERATOR, CERTIFICATE_WITHOUT_ISSUER);
	assert_ok(rpc_stream_open(before.client, &holdfast__v1__operator__descriptor, "Watch", TIMEOUT_US,
				  &events, &is_closed, &stream, NULL));
	assert_int_equal(rpc_stream_send(stream, &watch.base, NULL), STATUS_OK);
	run_idle(f->event);
	assert_false(is_closed);
	assert_int_equal(BEGIN(f, token, begin, holders, id), STATUS_OK);
	assert_int_equal(BEGIN(f, token, "{\"finish\": true, \"now\": true}", holders, id), STATUS_OK);
	UNTIL(f, is_closed);
	/* over the connection that is open */
	for (size_t i = 0; i < ARRAY_SIZE(calls); i++)
		assert_error(caller_call(&before, calls[i][0], calls[i][1], NULL, &err),
			     STATUS_UNAUTHENTICATED, err, "a former CA");
	rpc_client_reconnect(before.client);
	assert_int_not_equal(caller_call(&before, "Operator.Status", "{}", NULL, NULL), STATUS_OK);
	caller_init(&after, f, OPERATOR, NULL);
	assert_int_not_equal(caller_call(&after, "Operator.Status", "{}", NULL, NULL), STATUS_OK);
	UNTIL(f, str_eq(f->server->own.issuer, id)); /* does not wait for n9 */
	caller_init(&operator, f, NULL, token);
	make_line_by(f, &operator, "n8", line);
	(void)in(f, id, path);
	assert_int_equal(enroll(f->event, line, path, &enrolled, NULL), STATUS_OK);
}

CASE(a_leaked_key_of_the_ca_signs_nothing_that_is_accepted_after_a_change_that_is_finished_now)
{
	cleanup_free char *token = management(f);
	char *key = NULL, *cert = NULL;
	cleanup(json_decrefp) json_t *json = NULL;
	cleanup_free char *begin = NULL;

	assert_int_equal(pki_make_ca_pem("c1", &key, &cert, NULL), STATUS_OK);
	json = given(cert, key);
	begin = json_dumps(json, 0);
	expect_thief_to_be_refused_by(f, token, begin); /* of the settings' CA */
	put(f, "tls/ca.pem", 0644, cert);
	put(f, "tls/ca.key", 0600, key);
	expect_thief_to_be_refused_by(f, token, "{}"); /* of the store's CA */
	pki_key_free(key);
	free(cert);
}

/* The node has renewed over the connection of its session, the thief has an older one. */
CASE(an_open_connection_of_a_thief_is_refused_though_the_node_has_renewed)
{
	char former[RPC_KEY_ID_SIZE];
	char *issuer;
	cleanup(caller_release) struct caller_client thief;
	struct error err;

	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_true(f->n1.welcomed);
	caller_init(&thief, f, "holdfast://c1/node/n1", NULL);
	assert_int_equal(caller_call(&thief, "Nodes.Renew", "{}", NULL, NULL), STATUS_INVALID_ARGUMENT);
	/* as after a change */
	issuer = state_node(&f->server->state, "n1")->session_issuer;
	key_id_of(f, former);
	assert_string_equal(issuer, former);
	(void)str_copy(issuer, RPC_KEY_ID_SIZE, "0123");
	(void)str_copy(f->server->issuers->only, RPC_KEY_ID_SIZE, issuer);
	revocations_end(f->server);
	settle(f);
	assert_false(f->n1.closed);
	assert_error(caller_call(&thief, "Nodes.Renew", "{}", NULL, &err), STATUS_UNAUTHENTICATED, err,
		     "a former CA");
}

static void make_secret(struct caller_client *caller, const char *node, char ret[static 128])
{
	cleanup(json_decrefp) json_t *answer = NULL;
	char request[128];

	(void)str_format(request, sizeof(request), "{\"node\": \"%s\"}", node);
	assert_ok(caller_call(caller, "Operator.CreateEnrollment", request, &answer, NULL));
	(void)str_copy(ret, 128, json_string_value(json_object_get(answer, "token")));
}

/* As a thief does, who compares no digest. */
static enum status use_secret(struct fixture *f, const char *node, const char *secret, struct error *err)
{
	cleanup(caller_release) struct caller_client thief;
	cleanup(json_decrefp) json_t *json = NULL;
	cleanup_free char *request = NULL;
	char *key = NULL, *csr = NULL;
	enum status status;

	assert_ok(pki_make_request(&key, &csr, NULL));
	json = json_pack("{ss ss ss}", "node", node, "token", secret, "csr", csr);
	request = json_dumps(json, 0);
	caller_init(&thief, f, NULL, NULL);
	run_for(f->event, 2000); /* the rate of an address */
	status = caller_call(&thief, "Nodes.Enroll", request, NULL, err);
	free(csr);
	pki_key_free(key);
	return status;
}

/* --- a CA of the thief's own, below the leaked key --- */

static void add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
	X509_EXTENSION *one;
	X509V3_CTX ctx;

	X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
	one = NON_NULL(X509V3_EXT_conf_nid(NULL, &ctx, nid, value));
	assert_int_equal(X509_add_ext(cert, one, -1), 1);
	X509_EXTENSION_free(one);
}

static X509 *begin_cert(const X509_NAME *subject, const X509_NAME *issuer, EVP_PKEY *key, long serial)
{
	X509 *cert = NON_NULL(X509_new());

	assert_int_equal(X509_set_version(cert, X509_VERSION_3), 1);
	assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(cert), serial), 1);
	assert_int_equal(X509_set_subject_name(cert, subject), 1);
	assert_int_equal(X509_set_issuer_name(cert, issuer), 1);
	assert_int_equal(X509_set_pubkey(cert, key), 1);
	assert_non_null(X509_gmtime_adj(X509_getm_notBefore(cert), -400));
	assert_non_null(X509_gmtime_adj(X509_getm_notAfter(cert), 80000));
	return cert;
}

/* It is self-issued, which a path length of 0 allows. @key_id what it calls its key. */
static X509 *begin_own_ca(X509 *ca, EVP_PKEY *ca_key, EVP_PKEY *own_key, const char *key_id)
{
	X509 *own = begin_cert(X509_get_subject_name(ca), X509_get_subject_name(ca), own_key, 4711);

	add_extension(own, ca, NID_basic_constraints, "critical,CA:TRUE");
	add_extension(own, ca, NID_key_usage, "critical,keyCertSign");
	add_extension(own, ca, NID_subject_key_identifier, key_id);
	add_extension(own, ca, NID_authority_key_identifier, "keyid");
	assert_true(X509_sign(own, ca_key, EVP_sha256()) > 0);
	return own;
}

/* By its serial number it is of @own, not of a CA that is trusted. */
static X509 *issue_below(X509 *own, EVP_PKEY *own_key, EVP_PKEY *key)
{
	X509_NAME *name = NON_NULL(X509_NAME_new());
	X509 *leaf;

	assert_int_equal(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"thief",
						    -1, -1, 0),
			 1);
	leaf = begin_cert(name, X509_get_subject_name(own), key, 4712);
	X509_NAME_free(name);
	add_extension(leaf, own, NID_basic_constraints, "critical,CA:FALSE");
	add_extension(leaf, own, NID_ext_key_usage, "clientAuth");
	add_extension(leaf, own, NID_subject_alt_name, "URI:" OPERATOR);
	add_extension(leaf, own, NID_authority_key_identifier, "keyid:always,issuer:always");
	assert_true(X509_sign(leaf, own_key, EVP_sha256()) > 0);
	return leaf;
}

static FILE *open_in(struct fixture *f, const char *name, const char *mode, char path[static PATH_MAX])
{
	return NON_NULL(fopen(in(f, name, path), mode));
}

/* The thief has the key in tls/ca.key. */
static void connect_below(struct caller_client *thief, struct fixture *f, const char *key_id)
{
	char ca_path[PATH_MAX], cert_path[PATH_MAX], key_path[PATH_MAX];
	const struct rpc_tls_files files = {.ca = ca_path, .cert = cert_path, .key = key_path};
	EVP_PKEY *own_key = NON_NULL(EVP_EC_gen("P-256")), *key = NON_NULL(EVP_EC_gen("P-256"));
	struct rpc_endpoint endpoint = {.host = "127.0.0.1", .port = f->port};
	FILE *file = open_in(f, "tls/ca.key", "re", key_path);
	EVP_PKEY *ca_key = NON_NULL(PEM_read_PrivateKey(file, NULL, NULL, NULL));
	X509 *ca, *own, *leaf;

	(void)fclose(file);
	file = open_in(f, "tls/ca.pem", "re", ca_path);
	ca = NON_NULL(PEM_read_X509(file, NULL, NULL, NULL));
	(void)fclose(file);
	own = begin_own_ca(ca, ca_key, own_key, key_id);
	leaf = issue_below(own, own_key, key);
	file = open_in(f, "tls/thief.pem", "we", cert_path);
	assert_int_equal(PEM_write_X509(file, leaf), 1);
	assert_int_equal(PEM_write_X509(file, own), 1);
	assert_int_equal(fclose(file), 0);
	file = open_in(f, "tls/thief.key", "we", key_path);
	assert_int_equal(fchmod(fileno(file), 0600), 0);
	assert_int_equal(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
	assert_int_equal(fclose(file), 0);
	X509_free(leaf);
	X509_free(own);
	X509_free(ca);
	EVP_PKEY_free(ca_key);
	EVP_PKEY_free(own_key);
	EVP_PKEY_free(key);
	*thief = (struct caller_client){.event = f->event};
	assert_int_equal(rpc_tls_new(&files, &thief->tls, NULL), STATUS_OK);
	endpoint.tls = thief->tls;
	assert_int_equal(rpc_client_new(f->event, &endpoint, &thief->client, NULL), STATUS_OK);
}

/* It calls its key by the identifier of the new CA's. */
CASE(a_ca_below_the_leaked_key_ends_with_the_change_whatever_it_calls_its_key)
{
	static const struct rpc_stream_events events = {.on_message = on_message, .on_closed = on_closed};
	Holdfast__V1__WatchRequest watch = HOLDFAST__V1__WATCH_REQUEST__INIT;
	char holders[512], id[RPC_KEY_ID_SIZE], secret[128];
	cleanup_free char *token = management(f);
	cleanup(caller_release) struct caller_client thief;
	struct rpc_stream *stream = NULL;
	bool is_closed = false;
	struct error err;

	register_n9(f); /* and it does not renew */
	assert_int_equal(BEGIN(f, token, "{}", holders, id), STATUS_OK);
	connect_below(&thief, f, id);
	assert_ok(rpc_stream_open(thief.client, &holdfast__v1__operator__descriptor, "Watch", TIMEOUT_US,
				  &events, &is_closed, &stream, NULL));
	assert_int_equal(rpc_stream_send(stream, &watch.base, NULL), STATUS_OK);
	run_idle(f->event);
	assert_false(is_closed);
	make_secret(&thief, "later", secret);
	assert_int_equal(enrollments_ending(f->server), 1);
	assert_int_equal(change_ca(f, token, "Operator.GetCa", "{}", holders, NULL, NULL), STATUS_OK);
	assert_contains(holders, "operator/ann");
	assert_int_equal(BEGIN(f, token, "{\"finish\": true, \"now\": true}", holders, id), STATUS_OK);
	run_for(f->event, 20000);
	assert_true(is_closed);
	assert_error(caller_call(&thief, "Operator.CreateToken",
				 "{\"token\": {\"name\": \"thief\", \"type\": \"MANAGEMENT\"}}", NULL, &err),
		     STATUS_UNAUTHENTICATED, err, "former CA");
	restart(f);
	open_authority(f);
	assert_error(use_secret(f, "later", secret, &err), STATUS_PERMISSION_DENIED, err, "finished");
}

static void replace_ticket_key(struct fixture *f)
{
	char path[PATH_MAX];

	assert_int_equal(unlink(in(f, "ticket.key", path)), 0);
	assert_int_equal(ticket_key_make(path, NULL), STATUS_OK);
}

/* The CA of the store is lost with the file; the one of the settings is not trusted any longer. */
CASE(after_a_replaced_ticket_key_the_server_names_the_cause_and_begins_a_new_ca)
{
	static const struct {
		const char *method, *request;
		enum status expected;
		const char *says;
	} rows[] = {
		{"Operator.CreateEnrollment", "{\"node\": \"n9\"}", STATUS_FAILED_PRECONDITION,
		 "issues no certificates: the store has the CA's key, encrypted with another ticket_key"},
		{"Operator.ChangeCa", "{\"finish\": true, \"now\": true}", STATUS_FAILED_PRECONDITION,
		 "holdfast operator ca begin"},
		{"Operator.GetCa", "{}", STATUS_OK, NULL},
	};
	char holders[512], id[RPC_KEY_ID_SIZE], new_id[RPC_KEY_ID_SIZE];
	cleanup_free char *token = management(f);
	char *key = NULL, *cert = NULL;
	cleanup(json_decrefp) json_t *json = NULL;
	cleanup_free char *begin = NULL;
	struct caller_client root;
	char secret[128];
	struct error err;

	assert_int_equal(BEGIN(f, token, "{}", holders, id), STATUS_OK);
	caller_init(&root, f, NULL, token);
	make_secret(&root, "n8", secret);
	caller_release(&root);
	restart_with(f, replace_ticket_key);
	open_authority(f);
	assert_null(f->server->authority);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		cleanup(caller_release) struct caller_client caller;

		caller_init(&caller, f, NULL, token);
		err = (struct error){.msg = ""};
		assert_int_equal(caller_call(&caller, rows[i].method, rows[i].request, NULL, &err),
				 rows[i].expected);
		if (rows[i].says && !strstr(err.msg, rows[i].says))
			fail_msg("row %zu: %s", i, err.msg);
	}
	assert_int_equal(pki_make_ca_pem("c2", &key, &cert, NULL), STATUS_OK);
	json = given(cert, key);
	begin = json_dumps(json, 0);
	assert_error(change_ca(f, token, "Operator.ChangeCa", begin, holders, NULL, &err),
		     STATUS_INVALID_ARGUMENT, err, "without files");
	assert_int_equal(BEGIN(f, token, "{}", holders, new_id), STATUS_OK);
	assert_string_not_equal(new_id, id);
	assert_int_equal(BEGIN(f, token, "{\"finish\": true, \"now\": true}", holders, id), STATUS_OK);
	assert_string_equal(new_id, id);
	UNTIL(f, str_eq(f->server->own.issuer, id));
	assert_error(use_secret(f, "n8", secret, &err), STATUS_PERMISSION_DENIED, err,
		     "before a change of the CA was finished"); /* its CA may have leaked */
	pki_key_free(key);
	free(cert);
}

/* Neither the file that is trusted nor the CA that issues changes without the other. */
CASE(a_change_of_the_ca_that_cannot_be_written_is_taken_later)
{
	char before[RPC_KEY_ID_SIZE], holders[512], id[RPC_KEY_ID_SIZE], dir[PATH_MAX], path[PATH_MAX];
	cleanup_free char *token = management(f);

	(void)str_copy(before, sizeof(before), pki_ca_key_id(authority_ca(f->server)));
	(void)in(f, "elsewhere", path);
	(void)str_copy(dir, sizeof(dir), f->server->config.data_dir);
	(void)str_copy(f->server->config.data_dir, sizeof(f->server->config.data_dir), path);
	assert_int_not_equal(BEGIN(f, token, "{}", holders, id), STATUS_OK); /* nothing is stored */
	assert_null(records_get(&f->server->state.records, KEY_CA));
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(BEGIN(f, token, "{}", holders, id), STATUS_OK);
	assert_string_not_equal(id, before);
	assert_int_equal(pki_read_facts(f->server->in_use.ca, &(struct pki_facts){0}, NULL), STATUS_OK);
	(void)str_copy(f->server->config.data_dir, sizeof(f->server->config.data_dir), dir);
}

static void use_data_dir(struct fixture *f, const char *path, char ret_before[static PATH_MAX])
{
	(void)str_copy(ret_before, PATH_MAX, f->server->config.data_dir);
	(void)str_copy(f->server->config.data_dir, sizeof(f->server->config.data_dir), path);
}

/* The file cannot be replaced by this server, whose record of the change is stored. */
CASE(a_server_that_cannot_use_the_ca_of_the_store_answers_nothing_about_it)
{
	static const char *const requests[][2] = {
		{"Operator.GetCa", "{}"},
		{"Operator.ChangeCa", "{}"},
		{"Operator.ChangeCa", "{\"finish\": true}"},
		{"Operator.ChangeCa", "{\"finish\": true, \"now\": true}"},
	};
	char before[RPC_KEY_ID_SIZE], holders[512], id[RPC_KEY_ID_SIZE], dir[PATH_MAX], path[PATH_MAX];
	char warning[CA_CHANGE_WARNING_SIZE];
	cleanup_free char *token = management(f);
	const Holdfast__V1__StoredCa *stored;
	struct error err;

	register_n9(f);
	(void)str_copy(before, sizeof(before), pki_ca_key_id(authority_ca(f->server)));
	assert_ok(change_ca(f, token, "Operator.GetCa", "{}", holders, NULL, NULL));
	use_data_dir(f, in(f, "elsewhere", path), dir);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(mkdir(in(f, "elsewhere/" CERTIFICATE_CA, path), 0700), 0);
	assert_error(change_ca(f, token, "Operator.ChangeCa", "{}", holders, NULL, &err),
		     STATUS_FAILED_PRECONDITION, err, "does not use the CA of the store yet");
	stored = records_get(&f->server->state.records, KEY_CA);
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		assert_error(change_ca(f, token, requests[i][0], requests[i][1], holders, NULL, &err),
			     STATUS_FAILED_PRECONDITION, err, path);
		assert_contains(err.msg, "holdfast operator ca status");
	}
	assert_ptr_equal(records_get(&f->server->state.records, KEY_CA), stored);
	assert_string_not_equal(stored->former, "");
	assert_string_equal(pki_ca_key_id(authority_ca(f->server)), before);
	assert_true(ca_change_warning(f->server, warning));
	assert_contains(warning, path);
	assert_int_equal(rmdir(path), 0);
	assert_ok(change_ca(f, token, "Operator.GetCa", "{}", holders, id, NULL));
	assert_string_not_equal(id, before);
	assert_string_equal(holders, "server/dev (this server), node/n9 (not connected)");
	assert_false(ca_change_warning(f->server, warning));
	use_data_dir(f, dir, path);
}

CASE(a_change_of_the_ca_is_not_reported_as_finished_while_the_former_one_is_trusted)
{
	char holders[512], id[RPC_KEY_ID_SIZE], dir[PATH_MAX], path[PATH_MAX];
	char warning[CA_CHANGE_WARNING_SIZE];
	cleanup_free char *token = management(f);
	const Holdfast__V1__StoredCa *stored;
	struct error err;

	assert_int_equal(BEGIN(f, token, "{}", holders, id), STATUS_OK);
	use_data_dir(f, in(f, "elsewhere", path), dir); /* it does not exist */
	assert_error(change_ca(f, token, "Operator.ChangeCa", "{\"finish\": true, \"now\": true}", holders,
			       NULL, &err),
		     STATUS_FAILED_PRECONDITION, err, path);
	stored = records_get(&f->server->state.records, KEY_CA);
	assert_string_equal(stored->former, "");
	assert_true(ca_change_warning(f->server, warning));
	use_data_dir(f, dir, path);
	run_for(f->event, 6000); /* the server tries again */
	assert_false(ca_change_warning(f->server, warning));
	assert_string_equal(f->server->issuers->only, id);
}

/* Also at the next change, and after a restart. */
CASE(a_finished_change_of_the_ca_ends_lines_of_before_it_and_of_certificates_of_the_former_one)
{
	static const struct {
		const char *node;
		bool is_good;
	} rows[] = {{"early", false}, {"early2", false}, {"former", false}, {"token", true}, {"new", true}};
	char holders[512], id[RPC_KEY_ID_SIZE], secrets[ARRAY_SIZE(rows)][128];
	cleanup_free char *token = management(f);
	cleanup(caller_release) struct caller_client ann, root, renewed;
	struct error err;

	caller_init_faulty(&ann, f, OPERATOR, CERTIFICATE_WITHOUT_ISSUER);
	caller_init(&root, f, NULL, token);
	make_secret(&ann, rows[0].node, secrets[0]);
	make_secret(&root, rows[1].node, secrets[1]);
	assert_int_equal(BEGIN(f, token, "{}", holders, id), STATUS_OK);
	make_secret(&ann, rows[2].node, secrets[2]);
	make_secret(&root, rows[3].node, secrets[3]);
	renew_ann(f, token, &renewed);
	make_secret(&renewed, rows[4].node, secrets[4]);
	assert_int_equal(enrollments_ending(f->server), 3);
	assert_int_equal(BEGIN(f, token, "{\"finish\": true, \"now\": true}", holders, id), STATUS_OK);
	UNTIL(f, str_eq(f->server->own.issuer, id));
	assert_int_equal(use_secret(f, rows[0].node, secrets[0], &err), STATUS_PERMISSION_DENIED);
	assert_contains(err.msg, "before a change of the CA was finished; an operator makes a new line: "
				 "holdfast operator node enroll early");
	restart(f);
	open_authority(f);
	assert_int_equal(BEGIN(f, token, "{}", holders, id), STATUS_OK);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (use_secret(f, rows[i].node, secrets[i], &err) !=
		    (rows[i].is_good ? STATUS_OK : STATUS_PERMISSION_DENIED))
			fail_msg("%s: %s", rows[i].node, err.msg);
}
