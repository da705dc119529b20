/* SPDX-License-Identifier: Apache-2.0 */
/* The operator's commands for certificates, policies and the audit: files that are made, requests that are
 * sent, broken chains that are found. The server is a model behind the client's interface. */

#include "folder.h"

#include "../unit.h"
#include "base/clock.h"
#include "base/fd.h"
#include "command/command.h"
#include "rpc/client.h"
#include "rpc/pki.h"

#include <fcntl.h>
#include <holdfast/v1/operator.pb-c.h>
#include <limits.h>
#include <openssl/sha.h>
#include <sys/stat.h>

enum { RECORDS = 7, PER_PAGE = 3, WORDS_MAX = 24 };

typedef Holdfast__V1__AuditRecord Record;

/* --- the model --- */

static struct {
	Record *records[RECORDS];
	size_t n;
	Holdfast__V1__AuditHead head;
	uint8_t head_sha256[SHA256_DIGEST_LENGTH];
	Holdfast__V1__AccessPolicy *policy;
	Holdfast__V1__Token *token; /* put last */
	Holdfast__V1__RevokeCertificateRequest *revoked;
} model;

WRAPPED(enum status, rpc_client_new, sd_event *event, const struct rpc_endpoint *endpoint,
	struct rpc_client **ret, struct error *err)
{
	*ret = NULL;
	return STATUS_OK;
}

ProtobufCMessage *__wrap_rpc_client_details(const struct rpc_client *client,
					    const ProtobufCMessageDescriptor *descriptor);
ProtobufCMessage *__wrap_rpc_client_details(const struct rpc_client *client,
					    const ProtobufCMessageDescriptor *descriptor)
{
	return NULL;
}

WRAPPED(bool, rpc_client_may_have_begun, const struct rpc_client *client)
{
	return true;
}

WRAPPED(const char *, rpc_client_message, const struct rpc_client *client)
{
	return "";
}

WRAPPED(void, rpc_client_free, struct rpc_client *client)
{
}

WRAPPED(enum status, rpc_tls_new, const struct rpc_tls_files *files, struct rpc_tls **ret, struct error *err)
{
	*ret = NULL;
	return STATUS_OK;
}

WRAPPED(void, rpc_tls_free, struct rpc_tls *tls)
{
}

static ProtobufCMessage *copy_of(const ProtobufCMessage *message)
{
	uint8_t bytes[8192];
	size_t n = protobuf_c_message_get_packed_size(message);

	assert_in_range(n, 0, sizeof(bytes));
	(void)protobuf_c_message_pack(message, bytes);
	return protobuf_c_message_unpack(message->descriptor, NULL, n, bytes);
}

static ProtobufCMessage *list_audit(const Holdfast__V1__ListAuditRequest *request)
{
	Record *page[PER_PAGE];
	Holdfast__V1__ListAuditResponse response =
		V1(list_audit_response, .records = page, .head = &model.head);

	for (size_t i = 0; i < model.n; i++) {
		if (model.records[i]->sequence <= request->after)
			continue;
		if (response.n_records == PER_PAGE) {
			response.next_after = page[PER_PAGE - 1]->sequence;
			break;
		}
		page[response.n_records++] = model.records[i];
	}
	return copy_of(&response.base);
}

static ProtobufCMessage *put_policy(const Holdfast__V1__PutPolicyRequest *request)
{
	Holdfast__V1__PutPolicyResponse response = HOLDFAST__V1__PUT_POLICY_RESPONSE__INIT;

	if (model.policy)
		holdfast__v1__access_policy__free_unpacked(model.policy, NULL);
	model.policy = (Holdfast__V1__AccessPolicy *)copy_of(&request->policy->base);
	response.policy = request->policy;
	return copy_of(&response.base);
}

static ProtobufCMessage *create_token(const Holdfast__V1__CreateTokenRequest *request)
{
	Holdfast__V1__CreateTokenResponse response = HOLDFAST__V1__CREATE_TOKEN_RESPONSE__INIT;

	if (model.token)
		holdfast__v1__token__free_unpacked(model.token, NULL);
	model.token = (Holdfast__V1__Token *)copy_of(&request->token->base);
	response.token = request->token;
	return copy_of(&response.base);
}

static ProtobufCMessage *revoke_certificate(const Holdfast__V1__RevokeCertificateRequest *request)
{
	Holdfast__V1__Revocation revocation = V1(revocation, .serial = request->serial);
	Holdfast__V1__RevokeCertificateResponse response =
		V1(revoke_certificate_response, .revocation = &revocation);

	if (model.revoked)
		holdfast__v1__revoke_certificate_request__free_unpacked(model.revoked, NULL);
	model.revoked = (Holdfast__V1__RevokeCertificateRequest *)copy_of(&request->base);
	return copy_of(&response.base);
}

WRAPPED(enum status, rpc_client_call_sync, struct rpc_client *client,
	const ProtobufCServiceDescriptor *service, const char *method, const ProtobufCMessage *request,
	uint64_t timeout_us, ProtobufCMessage **ret, struct error *err)
{
	assert_string_equal(service->short_name, "Operator");
	if (str_eq(method, "ListAudit"))
		*ret = list_audit((const Holdfast__V1__ListAuditRequest *)request);
	else if (str_eq(method, "PutPolicy"))
		*ret = put_policy((const Holdfast__V1__PutPolicyRequest *)request);
	else if (str_eq(method, "CreateToken"))
		*ret = create_token((const Holdfast__V1__CreateTokenRequest *)request);
	else if (str_eq(method, "RevokeCertificate"))
		*ret = revoke_certificate((const Holdfast__V1__RevokeCertificateRequest *)request);
	else
		fail_msg("%s is not expected", method);
	return STATUS_OK;
}

static void hash(const Record *record, uint8_t ret[static SHA256_DIGEST_LENGTH])
{
	uint8_t bytes[1024];

	(void)SHA256(bytes, protobuf_c_message_pack(&record->base, bytes), ret);
}

static char *text(const char *s)
{
	return TEXT(s);
}

/* Records @first and the following ones, with their head. */
static void fill_chain(uint64_t first)
{
	uint8_t previous[SHA256_DIGEST_LENGTH] = {1};

	for (size_t i = 0; i < RECORDS; i++) {
		Record record = V1(audit_record, .sequence = first + i, .who = text("operator/ann"),
				   .what = text("Volumes.Register"));

		if (record.sequence > 1)
			record.previous_sha256 =
				(ProtobufCBinaryData){.len = sizeof(previous), .data = previous};
		model.records[i] = (Record *)copy_of(&record.base);
		hash(&record, previous);
	}
	model.n = RECORDS;
	model.head = (Holdfast__V1__AuditHead)HOLDFAST__V1__AUDIT_HEAD__INIT;
	model.head.first = first;
	model.head.sequence = first + RECORDS - 1;
	memcpy(model.head_sha256, previous, sizeof(previous));
	model.head.sha256 =
		(ProtobufCBinaryData){.len = sizeof(model.head_sha256), .data = model.head_sha256};
}

static void empty_model(void)
{
	for (size_t i = 0; i < model.n; i++)
		holdfast__v1__audit_record__free_unpacked(model.records[i], NULL);
	model.n = 0;
}

/* --- command lines --- */

struct ending {
	enum status status;
	bool is_usage_error;
	struct error err;
};

static void run_words(int argc, char **argv, struct ending *ending)
{
	int saved = dup(STDOUT_FILENO);
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	struct invocation inv;

	*ending = (struct ending){.status = STATUS_OK};
	ending->status = command_parse(argc, argv, &inv, &ending->err);
	if (ending->status != STATUS_OK)
		return;
	(void)fflush(stdout);
	assert_true(dup2(null, STDOUT_FILENO) >= 0);
	ending->status = command_run(&inv, &ending->err);
	ending->is_usage_error = inv.is_usage_error;
	(void)fflush(stdout);
	assert_true(dup2(saved, STDOUT_FILENO) >= 0);
	(void)close(saved);
	(void)close(null);
}

/* Split at blanks, with the server's address given. */
static struct ending run(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static struct ending run(const char *fmt, ...)
{
	static char line[2 * PATH_MAX];
	char *words[WORDS_MAX + 1] = {text("holdfast"), text("--address=h:1"), text("--ca=/ca")};
	char *rest = line;
	struct ending ending;
	va_list ap;
	int n = 3;

	va_start(ap, fmt);
	assert_true(vsnprintf(line, sizeof(line), fmt, ap) < (int)sizeof(line));
	va_end(ap);
	while (n < WORDS_MAX && (words[n] = strsep(&rest, " ")))
		n++;
	run_words(n, words, &ending);
	return ending;
}

struct folder {
	char dir[64];
};

UNIT_SETUP(setup, struct folder, folder)
{
	(void)str_copy(folder->dir, sizeof(folder->dir), "/tmp/holdfast-operator-XXXXXX");
	assert_non_null(mkdtemp(folder->dir));
	model.head = (Holdfast__V1__AuditHead)HOLDFAST__V1__AUDIT_HEAD__INIT;
	model.head.first = 1;
}

UNIT_TEARDOWN(teardown, struct folder, folder)
{
	empty_model();
	if (model.policy)
		holdfast__v1__access_policy__free_unpacked(model.policy, NULL);
	model.policy = NULL;
	if (model.token)
		holdfast__v1__token__free_unpacked(model.token, NULL);
	model.token = NULL;
	if (model.revoked)
		holdfast__v1__revoke_certificate_request__free_unpacked(model.revoked, NULL);
	model.revoked = NULL;
	folder_remove(folder->dir);
}

static mode_t mode_of(const struct folder *folder, const char *name)
{
	char path[PATH_MAX];
	struct stat st;

	(void)str_format(path, sizeof(path), "%s/%s", folder->dir, name);
	assert_int_equal(stat(path, &st), 0);
	return st.st_mode & 07777;
}

/* --- tests --- */

#define CASE(name) TEST_ON(name, struct folder, folder, setup, teardown)

CASE(init_makes_all_files_of_a_first_server_and_changes_nothing_the_second_time)
{
	static const struct {
		const char *path;
		mode_t mode;
	} made[] = {
		{"etc/holdfast/tls/ca.pem", 0644},
		{"etc/holdfast/tls/server.pem", 0644},
		{"etc/credstore/holdfast.ca.key", 0600},
		{"etc/credstore/holdfast.server.key", 0600},
		{"etc/credstore/holdfast.ticket.key", 0600},
		{"etc/holdfast/server.hcl", 0644},
		{"etc/credstore", 0700},
	};
	char path[PATH_MAX];

	assert_ok(run("operator init prod --host a,192.0.2.1 --out %s", folder->dir).status);
	for (size_t i = 0; i < ARRAY_SIZE(made); i++)
		assert_int_equal(mode_of(folder, made[i].path), made[i].mode);
	(void)str_format(path, sizeof(path), "%s/etc/holdfast/server.hcl", folder->dir);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(run("operator init prod --host a --out %s", folder->dir).status,
			 STATUS_ALREADY_EXISTS);
	assert_int_equal(access(path, F_OK), -1);
}

/* The server revokes all certificates of a node, of its own cluster only. */
CASE(a_file_is_revoked_by_serial_number_and_uri)
{
	struct pki_facts facts;
	char path[PATH_MAX];

	assert_ok(run("operator cert ca prod --out %s", folder->dir).status);
	assert_ok(run("operator cert node n1 --out %s", folder->dir).status);
	(void)str_format(path, sizeof(path), "%s/node-n1.pem", folder->dir);
	assert_ok(pki_read_facts(path, &facts, NULL));
	assert_ok(run("operator cert revoke %s --reason stolen --yes", path).status);
	assert_string_equal(model.revoked->serial, facts.serial);
	assert_string_equal(model.revoked->identity, "holdfast://prod/node/n1");
	assert_true(model.revoked->ends_at_ms == facts.expires_ms);
	assert_ok(run("operator cert revoke node/n1 --reason stolen --yes").status);
	assert_string_equal(model.revoked->serial, "");
	assert_string_equal(model.revoked->identity, "node/n1");
	assert_ok(run("operator cert revoke %s --reason stolen --yes", facts.serial).status);
	assert_string_equal(model.revoked->serial, facts.serial);
	assert_string_equal(model.revoked->identity, "");
}

CASE(certificates_are_made_from_the_ca_of_the_folder)
{
	static const char *const files[] = {"ca", "server", "server-s2", "node-n1", "operator-ann"};
	char path[PATH_MAX], name[64];
	int64_t at_ms = 0;

	assert_int_equal(run("operator cert ca prod --out %s", folder->dir).status, STATUS_OK);
	assert_ok(run("operator cert server --out %s --host s,10.0.0.1,::1", folder->dir).status);
	assert_int_equal(run("operator cert server s2 --out %s --host s2", folder->dir).status, STATUS_OK);
	assert_int_equal(run("operator cert node n1 --out %s --json", folder->dir).status, STATUS_OK);
	assert_int_equal(run("operator cert operator ann --out %s --days 2", folder->dir).status, STATUS_OK);
	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		(void)str_format(name, sizeof(name), "%s.key", files[i]);
		assert_int_equal(mode_of(folder, name), 0600);
		(void)str_format(name, sizeof(name), "%s.pem", files[i]);
		assert_int_equal(mode_of(folder, name), 0644);
	}
	(void)str_format(path, sizeof(path), "%s/operator-ann.pem", folder->dir);
	assert_int_equal(pki_expiry(path, &at_ms, NULL), STATUS_OK);
	assert_in_range(at_ms - clock_realtime_ms(), 86400000, 2 * 86400000);
}

CASE(nothing_is_overwritten)
{
	assert_int_equal(run("operator cert ca prod --out %s", folder->dir).status, STATUS_OK);
	assert_int_equal(run("operator cert ca prod --out %s", folder->dir).status, STATUS_ALREADY_EXISTS);
	assert_int_equal(run("operator cert node n1 --out %s", folder->dir).status, STATUS_OK);
	assert_int_equal(run("operator cert node n1 --out %s", folder->dir).status, STATUS_ALREADY_EXISTS);
}

CASE(mistakes_are_reported_before_anything_is_made)
{
	static const char *const lines[] = {
		"operator cert ca pr.od --out %s",
		"operator cert ca 12345678901234567890123456789012345678901234567890123456789012 --out %s",
		"operator cert ca prod --days 0 --out %s",
		"operator cert ca prod --days 36501 --out %s",
		"operator cert ca prod --days x --out %s",
		"operator cert server --out %s",
		"operator cert node ../n1 --out %s",
		"operator cert node a/b --out %s",
		"operator cert server --host a,,b --out %s",
		"operator init pr.od --host a --out %s",
		"operator init prod --out %s",
		"operator init prod --host a,,b --out %s",
	};
	struct ending ending;
	char path[PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
		char line[PATH_MAX];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		(void)str_format(line, sizeof(line), lines[i], folder->dir);
#pragma GCC diagnostic pop
		ending = run("%s", line);
		assert_int_equal(ending.status, STATUS_INVALID_ARGUMENT);
		assert_true(ending.is_usage_error);
	}
	ending = run("operator cert node n1 --out %s", folder->dir);
	assert_error(ending.status, STATUS_NOT_FOUND, ending.err, "operator cert ca");
	(void)str_format(path, sizeof(path), "%s/ca.key", folder->dir);
	assert_int_not_equal(access(path, F_OK), 0);
}

static struct ending put(struct folder *folder, const char *policy)
{
	char path[PATH_MAX];

	(void)str_format(path, sizeof(path), "%s/policy.hcl", folder->dir);
	assert_int_equal(file_write_atomic(path, 0644, policy, strlen(policy)), 0);
	return run("operator policy put deploy %s", path);
}

CASE(a_policy_file_is_read_as_nomad_writes_it)
{
	const Holdfast__V1__AccessPolicy *p;

	assert_ok(put(folder, "description = \"d\"\n"
			      "namespace \"team-*\" {\n  policy = \"read\"\n"
			      "  capabilities = [\"submit-job\", \"csi-mount-volume\"]\n}\n"
			      "namespace \"default\" {\n  policy = \"deny\"\n}\n"
			      "plugin {\n  policy = \"list\"\n}\nnode {\n  policy = \"read\"\n}\n"
			      "operator {\n  policy = \"write\"\n}\n")
			  .status);
	p = model.policy;
	assert_string_equal(p->name, "deploy");
	assert_string_equal(p->description, "d");
	assert_int_equal(p->n_namespaces, 2);
	assert_string_equal(p->namespaces[0]->namespace_, "team-*");
	assert_string_equal(p->namespaces[0]->policy, "read");
	assert_int_equal(p->namespaces[0]->n_capabilities, 2);
	assert_string_equal(p->namespaces[0]->capabilities[1], "csi-mount-volume");
	assert_string_equal(p->namespaces[1]->policy, "deny");
	assert_string_equal(p->plugin, "list");
	assert_string_equal(p->node, "read");
	assert_string_equal(p->operator_, "write");
}

CASE(mistakes_in_a_policy_file_are_reported)
{
	static const char *const bad[] = {
		"namespce \"a\" {\n}\n", "namespace \"a\" {\n  polcy = \"read\"\n}\n",
		"namespace = \"a\"\n",	 "namespace \"a\" {\n  capabilities = [3]\n}\n",
		"plugin = \"read\"\n",	 "plugin {\n  capabilities = []\n}\n",
		"name = \"other\"\n",	 "namespace {\n  policy = \"read\"\n}\n",
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct ending ending = put(folder, bad[i]);

		assert_msg(ending.status == STATUS_INVALID_ARGUMENT, "%s: %s", bad[i],
			   status_name(ending.status));
		assert_non_null(strstr(ending.err.msg, "policy.hcl"));
	}
}

CASE(a_token_is_bound_to_the_node_that_is_named)
{
	assert_int_equal(run("operator token create w units --node n1 --days 1").status, STATUS_OK);
	assert_string_equal(model.token->node, "n1");
	assert_true(model.token->expires_at_ms > 0);
	assert_int_equal(run("operator token create w units").status, STATUS_OK);
	assert_string_equal(model.token->node, "");
	assert_true(run("operator token create w --management --node n1").is_usage_error);
	assert_true(run("operator token create w units --node=").is_usage_error); /* not: bound to none */
}

CASE(a_whole_chain_is_whole_from_its_first_record_on)
{
	static const uint64_t firsts[] = {1, 2, 1000};

	assert_int_equal(run("operator audit verify").status, STATUS_OK); /* an empty one */
	for (size_t i = 0; i < ARRAY_SIZE(firsts); i++) {
		fill_chain(firsts[i]);
		assert_int_equal(run("operator audit verify").status, STATUS_OK);
		assert_int_equal(run("operator audit --json").status, STATUS_OK);
		assert_int_equal(run("operator audit").status, STATUS_OK);
		empty_model();
	}
}

static void assert_broken_at(uint64_t sequence)
{
	struct ending ending = run("operator audit verify");
	char want[64];

	assert_int_equal(ending.status, STATUS_DATA_LOSS);
	(void)str_format(want, sizeof(want), "record %llu is the first", (unsigned long long)sequence);
	assert_msg(strstr(ending.err.msg, want), "%s instead of %s", ending.err.msg, want);
	empty_model();
}

static void drop_record(size_t at)
{
	holdfast__v1__audit_record__free_unpacked(model.records[at], NULL);
	for (size_t i = at; i + 1 < model.n; i++)
		model.records[i] = model.records[i + 1];
	model.n--;
}

CASE(the_first_broken_record_is_named)
{
	for (size_t i = 0; i < RECORDS; i++) { /* removed */
		fill_chain(10);
		drop_record(i);
		assert_broken_at(10 + i);
	}
	for (size_t i = 0; i < RECORDS; i++) { /* changed */
		fill_chain(10);
		model.records[i]->code = 7;
		assert_broken_at(10 + i);
	}
	fill_chain(10); /* the head */
	model.head_sha256[0] ^= 1;
	assert_broken_at(10 + RECORDS - 1);
	fill_chain(10);
	empty_model();
	assert_broken_at(10);
}

CASE(times_of_since_are_durations_or_utc)
{
	static const struct {
		const char *text;
		enum status status;
	} cases[] = {
		{"2h", STATUS_OK},
		{"2025-01-31", STATUS_OK},
		{"2025-01-31T12:00", STATUS_OK},
		{"2025-01-31T12:00:00Z", STATUS_OK},
		{"yesterday", STATUS_INVALID_ARGUMENT},
		{"2025-13-31", STATUS_INVALID_ARGUMENT},
		{"2025-01-31T", STATUS_INVALID_ARGUMENT},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(run("operator audit --since %s", cases[i].text).status, cases[i].status);
}
