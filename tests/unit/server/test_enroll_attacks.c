/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of attacks on enrolment and renewal: a node that enrols as another, a thief of a node's disk, and a
 * man in the middle between node and server. None gets a certificate, a right or a token, and each is on
 * record: those that reach the server in its audit, those that the node refuses in its error.
 * tests/docs/check_thief.py counts the rows.
 */

#include "callers.h"
#include "unit.h"

#include "access/audit.h"
#include "base/clock.h"
#include "base/fd.h"
#include "identity/authority.h"
#include "identity/enroll.h"
#include "rpc/pki.h"
#include "state/keys.h"

#include <holdfast/v1/nodes.pb-c.h>
#include <holdfast/v1/operator.pb-c.h>
#include <limits.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#define OPERATOR "holdfast://c1/operator/ann"
#define N1 "holdfast://c1/node/n1"

#define CASE(name) TEST_ON(name, struct fixture, f, setup_authority, teardown)

/* --- the attempts that reach the server --- */

struct attempt {
	const char *what;
	const char *uri; /* of the certificate that is shown; NULL: none */
	const char *method;
	const char *json; /* with $NAMES, see names[] */
	enum status status;
	const char *says; /* part of the error; NULL: any */
};

#define ENROLL(fields) "Nodes.Enroll", "{" fields ", 'csr': '$CSR'}"
#define STOLEN N1, "Nodes.Renew", "{'csr': '$CSR'}"
#define RIGHT_OF_OPERATOR STATUS_PERMISSION_DENIED, "is not an operator"

static const struct attempt attempts[] = {
	/* a node that enrols as another */
	{"the line of n9 as n1", NULL, ENROLL("'node': 'n1', 'token': '$N9'"), STATUS_PERMISSION_DENIED,
	 "is for node n9, not for n1"},
	{"the line of n9 as an operator", NULL, ENROLL("'identity': 'operator/ann', 'token': '$N9'"),
	 STATUS_PERMISSION_DENIED, "is for node n9, not for operator/ann"},
	{"the line of n9 as a server", NULL, ENROLL("'identity': 'server/s1', 'token': '$N9'"),
	 STATUS_PERMISSION_DENIED, "not for server/s1"},
	{"the line of n9 as a fencer", NULL, ENROLL("'identity': 'fencer/f1', 'token': '$N9'"),
	 STATUS_PERMISSION_DENIED, "not for fencer/f1"},
	{"the line of n9 as a driver", NULL, ENROLL("'identity': 'driver/d1', 'token': '$N9'"),
	 STATUS_PERMISSION_DENIED, "not for driver/d1"},
	{"as a node and an operator at once", NULL,
	 ENROLL("'node': 'n9', 'identity': 'operator/ann', 'token': '$N9'"), STATUS_INVALID_ARGUMENT, NULL},
	{"as a node, spelled as an identity", NULL, ENROLL("'identity': 'node/n1', 'token': '$N9'"),
	 STATUS_INVALID_ARGUMENT, NULL},
	{"as a role that does not exist", NULL, ENROLL("'identity': 'root/n9', 'token': '$N9'"),
	 STATUS_PERMISSION_DENIED, NULL},
	{"a path behind the name", NULL, ENROLL("'node': 'n9/../n1', 'token': '$N9'"),
	 STATUS_INVALID_ARGUMENT, NULL},
	{"another case of the name", NULL, ENROLL("'node': 'N9', 'token': '$N9'"), STATUS_PERMISSION_DENIED,
	 NULL},
	{"a blank behind the name", NULL, ENROLL("'node': 'n9 ', 'token': '$N9'"), STATUS_INVALID_ARGUMENT,
	 NULL},
	{"advice for a name", NULL, ENROLL("'node': 'x; y. Next: z', 'token': '$N9'"),
	 STATUS_INVALID_ARGUMENT, "'x, y. next: z'"},
	{"advice for a role", NULL, ENROLL("'identity': 'x; y. Next: z/n9', 'token': '$GUESS'"),
	 STATUS_UNAUTHENTICATED, "x, y. next: z n9"},
	{"no name", NULL, ENROLL("'node': '', 'token': '$N9'"), STATUS_INVALID_ARGUMENT, NULL},
	{"the line of an operator as a node", NULL, ENROLL("'node': 'x', 'token': '$OPERATOR'"),
	 STATUS_PERMISSION_DENIED, "is for operator x"},
	{"the line of a fencer as an operator", NULL, ENROLL("'identity': 'operator/f1', 'token': '$FENCER'"),
	 STATUS_PERMISSION_DENIED, "is for fencer f1"},
	{"the line of a server as another server", NULL,
	 ENROLL("'identity': 'server/s1', 'token': '$SERVER'"), STATUS_PERMISSION_DENIED, "is for server s2"},
	{"a guessed token", NULL, ENROLL("'node': 'n9', 'token': '$GUESS'"), STATUS_UNAUTHENTICATED, NULL},
	{"no token", NULL, ENROLL("'node': 'n9', 'token': ''"), STATUS_UNAUTHENTICATED, NULL},
	{"the begin of a token", NULL, ENROLL("'node': 'n9', 'token': '$CUT'"), STATUS_UNAUTHENTICATED, NULL},
	/* a line that is over */
	{"a line that was used, with another key", NULL, ENROLL("'node': 'n5', 'token': '$USED'"),
	 STATUS_PERMISSION_DENIED, "holdfast operator cert revoke node/n5"},
	{"a line that came too late", NULL, ENROLL("'node': 'n6', 'token': '$LATE'"),
	 STATUS_PERMISSION_DENIED, "expired at"},
	{"a line that a newer one replaced", NULL, ENROLL("'node': 'n7', 'token': '$REPLACED'"),
	 STATUS_UNAUTHENTICATED, "a newer line for node n7"},
	{"a line of a node that was revoked", NULL, ENROLL("'node': 'n8', 'token': '$REVOKED'"),
	 STATUS_PERMISSION_DENIED, "before the node's certificates were revoked"},
	{"a line of an operator who was revoked", NULL, ENROLL("'node': 'n4', 'token': '$OF_BOB'"),
	 STATUS_PERMISSION_DENIED, "the certificate of the operator who made it was"},
	/* keys that prove nothing */
	{"the key of another one", NULL, "Nodes.Enroll", "{'node': 'n9', 'token': '$N9', 'csr': '$UNPROVEN'}",
	 STATUS_INVALID_ARGUMENT, "its own key has signed"},
	{"a weak key", NULL, "Nodes.Enroll", "{'node': 'n9', 'token': '$N9', 'csr': '$WEAK'}",
	 STATUS_INVALID_ARGUMENT, "the key must be EC"},
	/* a thief of a node's disk, before the loss is noticed */
	{"a line for a node", N1, "Operator.CreateEnrollment", "{'node': 'n9'}", RIGHT_OF_OPERATOR},
	{"a line for an operator", N1, "Operator.CreateEnrollment", "{'identity': 'operator/x'}",
	 RIGHT_OF_OPERATOR},
	{"a certificate of another node", N1, "Operator.IssueCertificate",
	 "{'identity': 'node/n2', 'csr': '$CSR'}", RIGHT_OF_OPERATOR},
	{"a certificate of an operator", N1, "Operator.IssueCertificate",
	 "{'identity': 'operator/x', 'csr': '$CSR'}", RIGHT_OF_OPERATOR},
	{"a token", N1, "Operator.CreateToken", "{'token': {'name': 'x', 'type': 'MANAGEMENT'}}",
	 RIGHT_OF_OPERATOR},
	{"the first token", N1, "Operator.BootstrapToken", "{}", RIGHT_OF_OPERATOR},
	{"a CA of its own", N1, "Operator.ChangeCa", "{'certificate': 'c', 'key': 'k'}", RIGHT_OF_OPERATOR},
	{"the end of the former CA", N1, "Operator.ChangeCa", "{'finish': true, 'now': true}",
	 RIGHT_OF_OPERATOR},
	{"another ticket key", N1, "Operator.RotateKey", "{'use_now': true}", RIGHT_OF_OPERATOR},
	{"the revocation of another node", N1, "Operator.RevokeCertificate", "{'identity': 'node/n2'}",
	 RIGHT_OF_OPERATOR},
	{"the removal of another node", N1, "Nodes.Purge", "{'id': 'n2', 'reason': 'r'}", RIGHT_OF_OPERATOR},
	{"another policy", N1, "Operator.PutPolicy", "{'policy': {'name': 'x', 'operator': 'write'}}",
	 RIGHT_OF_OPERATOR},
	{"a backup", N1, "Operator.BeginBackup", "{}", RIGHT_OF_OPERATOR},
	{"a renewal with an unproven key", N1, "Nodes.Renew", "{'csr': '$UNPROVEN'}", STATUS_INVALID_ARGUMENT,
	 NULL},
	{"a renewal without a certificate", NULL, "Nodes.Renew", "{'csr': '$CSR'}", STATUS_UNAUTHENTICATED,
	 NULL},
	{"a renewal as a server", "holdfast://c1/server/s1", "Nodes.Renew", "{'csr': '$CSR'}",
	 STATUS_PERMISSION_DENIED, NULL},
	{"a renewal in another cluster", "holdfast://c2/node/n1", "Nodes.Renew", "{'csr': '$CSR'}",
	 STATUS_UNAUTHENTICATED, NULL},
};

/* The same thief, once the node is revoked: each method that a node has. */
static const struct attempt late_attempts[] = {
	{"a renewal", STOLEN, STATUS_UNAUTHENTICATED, "was revoked at"},
	{"a claim", N1, "Volumes.Claim",
	 "{'volume_id': 'db', 'namespace': 'default', 'allocation_id': '" ALLOC_1 "', 'volume_name': 'data'}",
	 STATUS_UNAUTHENTICATED, "was revoked at"},
	{"an order of a task", N1, "Allocations.OrderTask", "{'id': '" ALLOC_1 "', 'task': 'web'}",
	 STATUS_UNAUTHENTICATED, "was revoked at"},
	{"a line that was made before", NULL, ENROLL("'node': 'n1', 'token': '$N1'"),
	 STATUS_PERMISSION_DENIED, "before the node's certificates were revoked"},
};

struct name {
	const char *name;
	char *value; /* owned */
};

enum { NAMES_MAX = 24 };

struct world {
	struct fixture *f;
	struct name names[NAMES_MAX];
	size_t n;
};

static void set_name(struct world *w, const char *name, char *value)
{
	assert_true(w->n < NAMES_MAX);
	w->names[w->n++] = (struct name){name, value};
}

static const char *value_of(const struct world *w, const char *name, size_t n)
{
	for (size_t i = 0; i < w->n; i++)
		if (strlen(w->names[i].name) == n && strncmp(w->names[i].name, name, n) == 0)
			return w->names[i].value;
	fail_msg("there is no $%.*s", (int)n, name);
	return NULL;
}

/* JSON of a template: ' is ", and line ends are escaped. Owned by the caller. */
static char *expand(const struct world *w, const char *json)
{
	char *text = NON_NULL(calloc(1, 65536));
	size_t at = 0;

	for (const char *c = json; *c != '\0'; c++) {
		size_t n = strspn(c + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");

		if (*c != '$') {
			text[at++] = *c;
			if (*c == '\'')
				text[at - 1] = '"';
			continue;
		}
		for (const char *v = value_of(w, c + 1, n); *v != '\0'; v++) {
			if (*v == '\n')
				text[at++] = '\\';
			text[at++] = *v;
			if (*v == '\n')
				text[at - 1] = 'n';
		}
		c += n;
	}
	return text;
}

/* Each attempt is the first one of its address. */
static void forget_rates(struct fixture *f)
{
	memset(authority_enrolling(f->server), 0, sizeof(struct caller_rates));
}

static char *make_line(struct fixture *f, const char *uri, const char *request)
{
	struct caller_client caller;
	cleanup(json_decrefp) json_t *answer = NULL;
	char *token;

	caller_init(&caller, f, uri, NULL);
	assert_ok(caller_call(&caller, "Operator.CreateEnrollment", request, &answer, NULL));
	caller_release(&caller);
	token = strdup(json_string_value(json_object_get(answer, "token")));
	return token;
}

static char *request_of(EVP_PKEY *key)
{
	X509_REQ *request = X509_REQ_new();
	BIO *bio = BIO_new(BIO_s_mem());
	char *bytes = NULL, *text;
	long n;

	assert_int_equal(X509_REQ_set_pubkey(request, key), 1);
	assert_true(X509_REQ_sign(request, key, EVP_sha256()) > 0);
	assert_int_equal(PEM_write_bio_X509_REQ(bio, request), 1);
	n = BIO_get_mem_data(bio, &bytes);
	text = strndup(bytes, (size_t)n);
	BIO_free(bio);
	X509_REQ_free(request);
	EVP_PKEY_free(key);
	return text;
}

static char *new_request(void)
{
	return request_of(EVP_EC_gen("P-256"));
}

static Holdfast__V1__StoredEnrollment *stored_of(struct fixture *f, const char *key)
{
	return (void *)(uintptr_t)records_get(&f->server->state.records, key);
}

static void use_line(struct world *w)
{
	cleanup(caller_release) struct caller_client caller;
	cleanup_free char *text = expand(w, "{'node': 'n5', 'token': '$USED', 'csr': '$CSR_OF_N5'}");

	caller_init(&caller, w->f, NULL, NULL);
	assert_int_equal(caller_call(&caller, "Nodes.Enroll", text, NULL, NULL), STATUS_OK);
}

static void make_world(struct world *w, struct fixture *f)
{
	char *unproven = new_request();
	char *cut = strstr(unproven, "\n-----END") - 12; /* of the signature */
	char *token;

	*w = (struct world){.f = f};
	*cut = *cut == 'A' ? 'B' : 'A';
	set_name(w, "CSR", new_request());
	set_name(w, "CSR_OF_N5", new_request());
	set_name(w, "UNPROVEN", unproven);
	set_name(w, "WEAK", request_of(EVP_RSA_gen(1024)));
	set_name(w, "N9", make_line(f, OPERATOR, "{\"node\": \"n9\"}"));
	set_name(w, "N1", make_line(f, OPERATOR, "{\"node\": \"n1\"}"));
	set_name(w, "OPERATOR", make_line(f, OPERATOR, "{\"identity\": \"operator/x\"}"));
	set_name(w, "FENCER", make_line(f, OPERATOR, "{\"identity\": \"fencer/f1\"}"));
	set_name(w, "SERVER", make_line(f, OPERATOR, "{\"identity\": \"server/s2\", \"hosts\": [\"s2\"]}"));
	set_name(w, "GUESS", strdup("00000000000000000000000000000000"));
	token = strdup(value_of(w, "N9", 2));
	token[strlen(token) - 1] = '\0';
	set_name(w, "CUT", token);
	set_name(w, "USED", make_line(f, OPERATOR, "{\"node\": \"n5\"}"));
	use_line(w);
	set_name(w, "LATE", make_line(f, OPERATOR, "{\"node\": \"n6\"}"));
	set_name(w, "REPLACED", make_line(f, OPERATOR, "{\"node\": \"n7\"}"));
	free(make_line(f, OPERATOR, "{\"node\": \"n7\"}"));
	set_name(w, "REVOKED", make_line(f, OPERATOR, "{\"node\": \"n8\"}"));
	operator_does(f, "Operator.RevokeCertificate", "{\"identity\": \"node/n8\"}");
	set_name(w, "OF_BOB", make_line(f, "holdfast://c1/operator/bob", "{\"node\": \"n4\"}"));
	operator_does(f, "Operator.RevokeCertificate", "{\"identity\": \"operator/bob\"}");
}

static void release_world(struct world *w)
{
	for (size_t i = 0; i < w->n; i++)
		free(w->names[i].value);
}

/* The refusals that are counted instead of recorded begin again, as after a while. */
static void pass_time(struct world *w)
{
	restart(w->f);
	open_authority(w->f);
	stored_of(w->f, PREFIX_ENROLLMENT "n6")->expires_at_ms = 1000;
}

static void try_by(struct world *w, struct caller_client *caller, const struct attempt *attempt)
{
	uint64_t before = audit_head(w->f->server).sequence;
	cleanup_free char *text = expand(w, attempt->json);
	struct error err = {.msg = ""};
	cleanup(json_decrefp) json_t *answer = NULL;
	enum status status;

	forget_rates(w->f);
	status = caller_call(caller, attempt->method, text, &answer, &err);
	assert_msg(status == attempt->status && !(attempt->says && !strstr(err.msg, attempt->says)),
		   "%s: %d: %s", attempt->what, status, err.msg);
	assert_msg(audit_head(w->f->server).sequence == before + 1, "%s is not on record: %s", attempt->what,
		   err.msg);
}

static void try_one(struct world *w, const struct attempt *attempt)
{
	cleanup(caller_release) struct caller_client caller;

	caller_init(&caller, w->f, attempt->uri, NULL);
	try_by(w, &caller, attempt);
}

enum { RECORDED_AT_ONCE = 15 }; /* refusals of one caller */

CASE(no_attempt_gets_a_certificate_and_each_is_recorded)
{
	struct world w;
	struct caller_client caller;
	cleanup_free char *text = NULL;

	make_world(&w, f);
	for (size_t i = 0; i < ARRAY_SIZE(attempts); i++) {
		if (i % RECORDED_AT_ONCE == 0)
			pass_time(&w);
		try_one(&w, &attempts[i]);
	}
	/* none of them has used up the line of n9, whose node enrols now */
	forget_rates(f);
	text = expand(&w, "{'node': 'n9', 'token': '$N9', 'csr': '$CSR'}");
	caller_init(&caller, f, NULL, NULL);
	assert_int_equal(caller_call(&caller, "Nodes.Enroll", text, NULL, NULL), STATUS_OK);
	caller_release(&caller);
	release_world(&w);
}

CASE(the_thief_of_a_revoked_nodes_disk_gets_nothing)
{
	struct caller_client thief;
	struct world w;

	make_world(&w, f);
	caller_init(&thief, f, N1, NULL); /* with a certificate that was issued before */
	operator_does(f, "Operator.RevokeCertificate", "{\"identity\": \"node/n1\"}");
	for (size_t i = 0; i < ARRAY_SIZE(late_attempts); i++)
		if (late_attempts[i].uri)
			try_by(&w, &thief, &late_attempts[i]);
		else
			try_one(&w, &late_attempts[i]);
	caller_release(&thief);
	release_world(&w);
}

/* --- the man in the middle --- */

/* What stands between node and server, and answers as it likes. */
struct middle {
	struct fixture *f;
	struct rpc_server *server;
	struct rpc_tls *tls;
	uint16_t port;
	unsigned int n_tokens;	      /* that it has seen */
	const char *certificate, *ca; /* of its answer */
	char dir[PATH_MAX];
};

static void on_enroll(struct rpc_call *call, const ProtobufCMessage *request, void *userdata)
{
	Holdfast__V1__EnrollResponse response = HOLDFAST__V1__ENROLL_RESPONSE__INIT;
	struct middle *middle = userdata;

	middle->n_tokens++;
	response.certificate = TEXT(middle->certificate);
	response.ca = TEXT(middle->ca);
	rpc_call_reply(call, &response.base);
}

static enum status gate(struct rpc_call *call, const char *service, const struct rpc_method *method,
			const ProtobufCMessage *request, void *userdata, struct error *err)
{
	return STATUS_OK;
}

static const struct rpc_method middle_methods[] = {{.name = "Enroll", .unary = on_enroll}};
static const struct rpc_service middle_services[] = {
	{&holdfast__v1__nodes__descriptor, middle_methods, ARRAY_SIZE(middle_methods)}};

static const char *path_in(const struct middle *middle, const char *name, char ret[static PATH_MAX])
{
	(void)str_format(ret, PATH_MAX, "%s/%s", middle->dir, name);
	return ret;
}

/* With a certificate of @uri: of the cluster's CA, as a thief may have, or of @own_ca. */
static void listen_as(struct middle *middle, struct fixture *f, const char *uri, bool own_ca)
{
	char ca[PATH_MAX], ca_key[PATH_MAX], cert[PATH_MAX], key[PATH_MAX];
	const char *const addresses[] = {"127.0.0.1"};
	const struct pki_cert_request request = {
		.uri = uri, .common_name = "s", .days = 1, .ip_addresses = addresses, .n_ip_addresses = 1};
	const struct rpc_tls_files files = {.ca = ca, .cert = cert, .key = key};

	*middle = (struct middle){.f = f};
	(void)str_format(middle->dir, sizeof(middle->dir), "%s/middle", f->dir);
	(void)mkdir(middle->dir, 0700);
	(void)path_in(middle, "server.pem", cert);
	(void)path_in(middle, "server.key", key);
	(void)unlink(cert);
	(void)unlink(key);
	(void)str_format(ca, sizeof(ca), "%s/%s/ca.pem", f->dir, own_ca ? "middle" : "tls");
	(void)str_format(ca_key, sizeof(ca_key), "%s/%s/ca.key", f->dir, own_ca ? "middle" : "tls");
	if (own_ca && access(ca, F_OK) < 0)
		assert_int_equal(pki_make_ca(ca_key, ca, "c1", NULL), STATUS_OK); /* of the same name */
	assert_int_equal(pki_issue(ca_key, ca, &request, key, cert, NULL), STATUS_OK);
	assert_int_equal(rpc_tls_new(&files, &middle->tls, NULL), STATUS_OK);
	assert_ok(rpc_server_new(f->event, middle_services, ARRAY_SIZE(middle_services), NULL, middle,
				 &middle->server, NULL));
	rpc_server_set_gate(middle->server, gate);
	assert_ok(rpc_server_listen_tls(middle->server, "127.0.0.1", 0, middle->tls, &middle->port, NULL));
}

static void middle_release(struct middle *middle)
{
	rpc_server_free(middle->server);
	rpc_tls_free(middle->tls);
}

/* A line of the true server, whose way leads to the one in the middle. Into a folder of a node that has
 * enrolled before. */
static enum status enrol_at(struct middle *middle, struct error *err)
{
	struct enroll_line line = {.cluster = "c1", .n_servers = 1};
	cleanup_free char *token = make_line(middle->f, OPERATOR, "{\"node\": \"n9\"}");
	char text[ENROLL_LINE_SIZE], into[PATH_MAX], path[PATH_MAX];
	struct enrolled enrolled;
	enum status status;

	(void)str_copy(line.role, sizeof(line.role), ENROLL_ROLE_NODE);
	(void)str_copy(line.name, sizeof(line.name), "n9");
	(void)str_copy(line.token, sizeof(line.token), token);
	assert_true(rpc_tls_anchor(middle->f->server->tls, line.ca_sha256));
	line.servers[0].port = middle->port;
	(void)str_copy(line.servers[0].host, sizeof(line.servers[0].host), "127.0.0.1");
	assert_int_equal(enroll_line_format(&line, text, NULL), STATUS_OK);
	(void)mkdir(path_in(middle, "etc", into), 0700);
	(void)mkdir(path_in(middle, "etc/tls", path), 0700);
	assert_int_equal(file_write_atomic(path_in(middle, "etc/tls/ca.pem", path), 0644, "CA", 2), 0);
	assert_int_equal(file_write_atomic(path_in(middle, "etc/tls/node.key", path), 0600, "KEY", 3), 0);
	status = enroll(middle->f->event, text, into, &enrolled, err);
	return status;
}

static void expect_content(const struct middle *middle, const char *name, const char *wanted)
{
	cleanup_free char *content = NULL;
	char path[PATH_MAX];

	assert_int_equal(file_read(path_in(middle, name, path), 65536, &content, NULL), 0);
	assert_string_equal(content, wanted);
}

/* The files of before are as they were. */
static void expect_unchanged(const struct middle *middle)
{
	expect_content(middle, "etc/tls/ca.pem", "CA");
	expect_content(middle, "etc/tls/node.key", "KEY");
}

CASE(a_man_in_the_middle_sees_no_token)
{
	static const struct {
		const char *what, *uri;
		bool own_ca;
	} rows[] = {
		{"a CA of its own", "holdfast://c1/server/s1", true},
		{"a CA of its own, as the server itself", "holdfast://c1/server/dev", true},
		{"the certificate of a node", "holdfast://c1/node/n1", false},
		{"the certificate of an operator", "holdfast://c1/operator/ann", false},
		{"the certificate of a fencer", "holdfast://c1/fencer/f1", false},
		{"the certificate of a driver", "holdfast://c1/driver/d1", false},
		{"a server of another cluster", "holdfast://c2/server/s1", false},
		{"a cluster whose name begins alike", "holdfast://c11/server/s1", false},
		{"a role that begins alike", "holdfast://c1/server-of-mine/s1", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct error err = {.msg = ""};
		cleanup(middle_release) struct middle middle;

		listen_as(&middle, f, rows[i].uri, rows[i].own_ca);
		assert_msg(enrol_at(&middle, &err) != STATUS_OK && middle.n_tokens <= 0, "%s: %u tokens",
			   rows[i].what, middle.n_tokens);
		assert_msg(strstr(err.msg, "127.0.0.1:"), "%s: %s", rows[i].what, err.msg);
		expect_unchanged(&middle);
	}
}

/* With the key of a server: it sees the token, and its answer still changes nothing on the node. */
CASE(a_stolen_server_hands_out_nothing_that_a_node_takes)
{
	cleanup_free char *ca = NULL, *own_ca = NULL, *own_key = NULL;
	char *other = NULL, *foreign = NULL, *key = NULL, *csr = NULL;
	const struct pki_cert_request request = {
		.uri = "holdfast://c1/node/n9", .common_name = "n9", .life_s = 60};
	char path[PATH_MAX], ca_key[PATH_MAX];
	struct pki_facts facts;
	struct pki_ca *signer = NULL;

	(void)str_format(path, sizeof(path), "%s/tls/ca.pem", f->dir);
	(void)str_format(ca_key, sizeof(ca_key), "%s/tls/ca.key", f->dir);
	assert_int_equal(file_read(path, 65536, &ca, NULL), 0);
	assert_int_equal(pki_make_request(&key, &csr, NULL), STATUS_OK);
	assert_int_equal(pki_ca_open(ca_key, path, &signer, NULL), STATUS_OK);
	assert_int_equal(pki_ca_sign(signer, &request, csr, &other, &facts, NULL), STATUS_OK);
	pki_ca_free(signer);
	assert_int_equal(pki_make_ca_pem("c1", &own_key, &own_ca, NULL), STATUS_OK);
	assert_int_equal(pki_ca_read(own_key, own_ca, &signer, NULL), STATUS_OK);
	assert_int_equal(pki_ca_sign(signer, &request, csr, &foreign, &facts, NULL), STATUS_OK);
	pki_ca_free(signer);
	{
		const struct {
			const char *what, *certificate, *ca;
		} rows[] = {
			{"a certificate of another key", other, ca},
			{"a certificate of another key and CA", foreign, own_ca},
			{"a certificate of a CA that it does not show", foreign, ca},
			{"no certificate", "", ca},
			{"no CA", other, ""},
			{"no text of either kind", "x", "x"},
		};

		for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
			struct error err = {.msg = ""};
			cleanup(middle_release) struct middle middle;

			listen_as(&middle, f, "holdfast://c1/server/s1", false);
			middle.certificate = rows[i].certificate;
			middle.ca = rows[i].ca;
			assert_msg(enrol_at(&middle, &err) != STATUS_OK && err.msg[0] != '\0', "%s",
				   rows[i].what);
			assert_int_equal(middle.n_tokens, 1);
			expect_unchanged(&middle);
		}
	}
	free(other);
	free(foreign);
	free(csr);
	pki_key_free(key);
}
