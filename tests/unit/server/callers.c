/* SPDX-License-Identifier: Apache-2.0 */
#include "callers.h"

#include "unit_loop.h"

#include "identity/authority.h"
#include "rpc/pbjson.h"
#include "rpc/pki.h"

#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/fences.pb-c.h>
#include <holdfast/v1/jobs.pb-c.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <holdfast/v1/operator.pb-c.h>
#include <holdfast/v1/plugins.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>
#include <limits.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

static const ProtobufCServiceDescriptor *const descriptors[] = {
	&holdfast__v1__volumes__descriptor, &holdfast__v1__plugins__descriptor,
	&holdfast__v1__nodes__descriptor,   &holdfast__v1__allocations__descriptor,
	&holdfast__v1__jobs__descriptor,    &holdfast__v1__operator__descriptor,
	&holdfast__v1__fences__descriptor,
};

int64_t callers_after_ms;

static unsigned int n_certificates;

static void issue(struct fixture *f, const char *uri, char *cert, char *key)
{
	char ca[PATH_MAX], ca_key[PATH_MAX];
	const struct pki_cert_request request = {
		.uri = uri, .common_name = "caller", .days = 1, .after_ms = callers_after_ms};

	n_certificates++;
	(void)str_format(ca, sizeof(ca), "%s/tls/ca.pem", f->dir);
	(void)str_format(ca_key, sizeof(ca_key), "%s/tls/ca.key", f->dir);
	(void)str_format(cert, PATH_MAX, "%s/tls/caller-%u.pem", f->dir, n_certificates);
	(void)str_format(key, PATH_MAX, "%s/tls/caller-%u.key", f->dir, n_certificates);
	assert_int_equal(pki_issue(ca_key, ca, &request, key, cert, NULL), STATUS_OK);
}

static void connect_with(struct caller_client *caller, struct fixture *f, const struct rpc_tls_files *files,
			 const char *token)
{
	struct rpc_endpoint endpoint = {.host = "127.0.0.1", .port = f->port, .token = token};

	caller->event = f->event;
	assert_int_equal(rpc_tls_new(files, &caller->tls, NULL), STATUS_OK);
	endpoint.tls = caller->tls;
	assert_int_equal(rpc_client_new(f->event, &endpoint, &caller->client, NULL), STATUS_OK);
}

void caller_init(struct caller_client *caller, struct fixture *f, const char *uri, const char *token)
{
	char ca[PATH_MAX], cert[PATH_MAX], key[PATH_MAX];
	struct rpc_tls_files files = {.ca = f->server ? f->server->in_use.ca : ca};

	(void)str_format(ca, sizeof(ca), "%s/tls/ca.pem", f->dir);
	if (uri) {
		issue(f, uri, cert, key);
		files.cert = cert;
		files.key = key;
	}
	connect_with(caller, f, &files, token);
}

static void spoil(X509 *cert, enum certificate_fault fault)
{
	int at = X509_get_ext_by_NID(cert, NID_ext_key_usage, -1);
	X509_EXTENSION *purpose;

	if (fault == CERTIFICATE_EXPIRED) {
		assert_non_null(X509_gmtime_adj(X509_getm_notAfter(cert), -60));
	} else if (fault == CERTIFICATE_FOR_SERVERS) {
		purpose = NON_NULL(X509V3_EXT_conf_nid(NULL, NULL, NID_ext_key_usage, "serverAuth"));
		assert_true(at >= 0);
		X509_EXTENSION_free(X509_delete_ext(cert, at));
		assert_int_equal(X509_add_ext(cert, purpose, -1), 1);
		X509_EXTENSION_free(purpose);
	} else if (fault == CERTIFICATE_WITHOUT_ISSUER) {
		at = X509_get_ext_by_NID(cert, NID_authority_key_identifier, -1);
		assert_true(at >= 0);
		X509_EXTENSION_free(X509_delete_ext(cert, at));
	}
}

void caller_init_faulty(struct caller_client *caller, struct fixture *f, const char *uri,
			enum certificate_fault fault)
{
	char ca[PATH_MAX], cert_path[PATH_MAX], key_path[PATH_MAX];
	const struct rpc_tls_files files = {.ca = ca, .cert = cert_path, .key = key_path};
	EVP_PKEY *signer;
	X509 *cert;
	FILE *file;

	issue(f, uri, cert_path, key_path);
	(void)str_format(ca, sizeof(ca), "%s/tls/ca.key", f->dir);
	file = NON_NULL(fopen(ca, "re"));
	signer = NON_NULL(fault == CERTIFICATE_OF_OTHER_CA ? EVP_EC_gen("P-256")
							   : PEM_read_PrivateKey(file, NULL, NULL, NULL));
	(void)fclose(file);
	file = NON_NULL(fopen(cert_path, "r+e"));
	cert = NON_NULL(PEM_read_X509(file, NULL, NULL, NULL));
	spoil(cert, fault);
	assert_true(X509_sign(cert, signer, EVP_sha256()) > 0);
	assert_int_equal(ftruncate(fileno(file), 0), 0);
	rewind(file);
	assert_int_equal(PEM_write_X509(file, cert), 1);
	assert_int_equal(fclose(file), 0);
	X509_free(cert);
	EVP_PKEY_free(signer);
	(void)str_format(ca, sizeof(ca), "%s/tls/ca.pem", f->dir);
	connect_with(caller, f, &files, NULL);
}

void caller_release(struct caller_client *caller)
{
	rpc_client_free(caller->client);
	rpc_tls_free(caller->tls);
}

static const ProtobufCMethodDescriptor *find_method(const char *name,
						    const ProtobufCServiceDescriptor **ret_service)
{
	const char *method = strchr(name, '.') + 1;
	size_t n = (size_t)(method - name - 1);

	for (size_t i = 0; i < ARRAY_SIZE(descriptors); i++) {
		const char *service = descriptors[i]->short_name;

		*ret_service = descriptors[i];
		if (strlen(service) == n && strncmp(service, name, n) == 0)
			return protobuf_c_service_descriptor_get_method_by_name(descriptors[i], method);
	}
	return NULL;
}

static json_t *take_answer(ProtobufCMessage *response)
{
	json_t *json = NULL;

	assert_ok(pbjson_encode(response, PBJSON_PROTO_NAMES | PBJSON_DEFAULTS, &json, NULL));
	return json;
}

static ProtobufCMessage *read_request(const ProtobufCMethodDescriptor *method, const char *text)
{
	ProtobufCMessage *message = NULL;
	struct error err;
	cleanup(json_decrefp) json_t *json = NON_NULL(json_loads(text, 0, NULL));

	assert_msg(pbjson_decode(method->input, json, 0, &message, &err) == STATUS_OK, "%s: %s: %s",
		   method->name, text, err.msg);
	return message;
}

enum status caller_call(struct caller_client *caller, const char *method, const char *request,
			json_t **ret_json, struct error *err)
{
	const ProtobufCServiceDescriptor *service = NULL;
	const ProtobufCMethodDescriptor *descriptor = NON_NULL(find_method(method, &service));
	ProtobufCMessage *response = NULL;
	cleanup_pb ProtobufCMessage *message = NULL;
	enum status status;

	message = read_request(descriptor, request);
	status = rpc_client_call_sync(caller->client, service, descriptor->name, message, TIMEOUT_US,
				      &response, err);
	if (response)
		expect_no_machine(response);
	if (response && ret_json)
		*ret_json = take_answer(response);
	if (response)
		protobuf_c_message_free_unpacked(response, NULL);
	return status;
}

struct ending {
	bool is_open, is_closed;
	enum status status;
};

static void on_open(struct rpc_stream *stream, void *userdata)
{
	((struct ending *)userdata)->is_open = true;
}

static void on_message(struct rpc_stream *stream, const ProtobufCMessage *message, void *userdata)
{
}

static void on_closed(struct rpc_stream *stream, enum status status, const struct error *err, void *userdata)
{
	struct ending *ending = userdata;

	ending->is_closed = true;
	ending->status = status;
}

enum status caller_stream(struct caller_client *caller, const char *method, const char *request)
{
	static const struct rpc_stream_events events = {
		.on_open = on_open, .on_message = on_message, .on_closed = on_closed};
	const ProtobufCServiceDescriptor *service = NULL;
	const ProtobufCMethodDescriptor *descriptor = NON_NULL(find_method(method, &service));
	struct ending ending = {.is_open = false};
	struct rpc_stream *stream = NULL;
	cleanup_pb ProtobufCMessage *message = NULL;

	message = read_request(descriptor, request);
	assert_ok(rpc_stream_open(caller->client, service, descriptor->name, TIMEOUT_US, &events, &ending,
				  &stream, NULL));
	assert_int_equal(rpc_stream_send(stream, message, NULL), STATUS_OK);
	RUN_UNTIL(caller->event, ending.is_open || ending.is_closed);
	run_idle(caller->event);
	if (ending.is_closed)
		return ending.status;
	rpc_stream_cancel(stream);
	return STATUS_OK;
}

void operator_does(struct fixture *f, const char *method, const char *request)
{
	cleanup(caller_release) struct caller_client caller;
	struct error err;
	enum status status;

	caller_init(&caller, f, "holdfast://c1/operator/ann", NULL);
	status = caller_call(&caller, method, request, NULL, &err);
	assert_msg(status == STATUS_OK, "%s %s: %s", method, request, err.msg);
}

char *make_token(struct fixture *f, const char *fields)
{
	struct caller_client caller;
	cleanup(json_decrefp) json_t *answer = NULL;
	char request[4096];
	struct error err;
	char *secret;

	(void)str_format(request, sizeof(request), "{\"token\": %s}", fields);
	caller_init(&caller, f, "holdfast://c1/operator/ann", NULL);
	assert_msg(caller_call(&caller, "Operator.CreateToken", request, &answer, &err) == STATUS_OK,
		   "%s: %s", fields, err.msg);
	caller_release(&caller);
	secret = strdup(json_string_value(json_object_get(json_object_get(answer, "token"), "secret")));
	return secret;
}

void open_authority(struct fixture *f)
{
	struct config *config = &f->server->config;

	(void)str_format(config->authority.certificate, sizeof(config->authority.certificate),
			 "%s/tls/ca.pem", f->dir);
	(void)str_format(config->authority.key, sizeof(config->authority.key), "%s/tls/ca.key", f->dir);
	assert_int_equal(authority_open(f->server, NULL), STATUS_OK);
}

int setup_authority(void **state)
{
	int r = setup_acl(state);

	open_authority(*state);
	return r;
}
