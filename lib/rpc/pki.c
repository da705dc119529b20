/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/pki.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "rpc/pem.h"
#include "rpc/tls_session.h"

#include <arpa/inet.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

enum {
	SERIAL_BITS = 128,
	CA_DAYS = 3650,
	NAME_MAX_LEN = 64, /* ub-common-name of RFC 5280 */
	TLS_TEXT_SIZE = 256,
	CHAIN_MAX = 16,
};

#define CA_SUFFIX " CA"
#define SCHEME "holdfast://"
#define DAY_S (INT64_C(24) * 3600)
#define WARN_MS (30 * DAY_S * 1000)

DEFINE_CLEANUP(X509, X509_free)
DEFINE_CLEANUP(EVP_PKEY, EVP_PKEY_free)
DEFINE_CLEANUP(BIO, BIO_free)
DEFINE_CLEANUP(BIGNUM, BN_free)

static void free_certsp(STACK_OF(X509) * *certs)
{
	sk_X509_pop_free(*certs, X509_free);
}

/* A terminal is never asked. */
static int no_pass_phrase(char *buffer, int size, int writing, void *userdata)
{
	return -1;
}

static enum status openssl_error(const char *doing, const char *what, struct error *err)
{
	char text[TLS_TEXT_SIZE];

	return error_set(err, STATUS_INTERNAL, 0, "%s %s: %s", doing, what,
			 tls_error_text(text, sizeof(text)));
}

/* Text that reads the same everywhere: ASCII, no spaces, not empty. */
static bool is_printable(const char *text)
{
	for (const char *c = text; *c; c++)
		if (*c <= 0x20 || *c >= 0x7f)
			return false;
	return text[0] != '\0';
}

static bool set_serial(X509 *cert)
{
	cleanup(BN_freep) BIGNUM *serial = BN_new();

	return serial && BN_rand(serial, SERIAL_BITS - 1, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1 &&
	       BN_set_bit(serial, 0) == 1 && BN_to_ASN1_INTEGER(serial, X509_get_serialNumber(cert)) != NULL;
}

static bool set_name(X509_NAME *name, const char *common_name)
{
	return X509_NAME_add_entry_by_txt(name, "O", MBSTRING_UTF8, (const unsigned char *)"Holdfast", -1, -1,
					  0) == 1 &&
	       X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)common_name, -1,
					  -1, 0) == 1;
}

static X509 *cert_new(EVP_PKEY *key, const char *common_name, int64_t begins_s, int64_t ends_s)
{
	cleanup(X509_freep) X509 *cert = X509_new();

	if (!cert || X509_set_version(cert, X509_VERSION_3) != 1 || !set_serial(cert) ||
	    !ASN1_TIME_set(X509_getm_notBefore(cert), (time_t)begins_s) ||
	    !ASN1_TIME_set(X509_getm_notAfter(cert), (time_t)ends_s) || X509_set_pubkey(cert, key) != 1 ||
	    !set_name(X509_get_subject_name(cert), common_name))
		return NULL;
	return TAKE_PTR(cert);
}

static bool add_extension(X509 *cert, X509V3_CTX *ctx, int nid, const char *value)
{
	X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, ctx, nid, value);
	bool ok = extension && X509_add_ext(cert, extension, -1) == 1;

	X509_EXTENSION_free(extension);
	return ok;
}

/* Add one name to @names; the text is data, never parsed as OpenSSL's configuration syntax. */
static enum status add_name(GENERAL_NAMES *names, int type, const char *text, struct error *err)
{
	GENERAL_NAME *name = is_printable(text) ? a2i_GENERAL_NAME(NULL, NULL, NULL, type, text, 0) : NULL;

	ERR_clear_error();
	if (!name)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "\"%s\" is no %s for a certificate", text,
				 type == GEN_IPADD ? "IP address" : "name");
	if (sk_GENERAL_NAME_push(names, name) == 0) {
		GENERAL_NAME_free(name);
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "make a certificate");
	}
	return STATUS_OK;
}

static void free_namesp(GENERAL_NAMES **names)
{
	GENERAL_NAMES_free(*names);
}

static enum status add_alt_names(X509 *cert, const struct pki_cert_request *request, struct error *err)
{
	cleanup(free_namesp) GENERAL_NAMES *names = GENERAL_NAMES_new();
	enum status status;

	if (!names)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "make a certificate");
	status = add_name(names, GEN_URI, request->uri, err);
	for (size_t i = 0; status == STATUS_OK && i < request->n_dns_names; i++)
		status = add_name(names, GEN_DNS, request->dns_names[i], err);
	for (size_t i = 0; status == STATUS_OK && i < request->n_ip_addresses; i++)
		status = add_name(names, GEN_IPADD, request->ip_addresses[i], err);
	if (status == STATUS_OK &&
	    X509_add1_ext_i2d(cert, NID_subject_alt_name, names, 0, X509V3_ADD_DEFAULT) != 1)
		status = openssl_error("name", request->uri, err);
	return status;
}

/* All names of the certificate in the file. */
static enum status copy_alt_names(X509 *cert, const X509 *ca, const struct pki_cert_request *request,
				  struct error *err)
{
	cleanup(free_certsp) STACK_OF(X509) *certs = NULL;
	cleanup(free_namesp) GENERAL_NAMES *names = NULL;
	char uri[RPC_URI_SIZE];
	const X509 *like;

	TRY(pem_read_certs(request->like, &certs, err));
	like = sk_X509_value(certs, 0);
	if (!tls_cert_uri(like, uri) || !str_eq(uri, request->uri))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s is of \"%s\", not of %s", request->like,
				 uri, request->uri);
	if (X509_NAME_cmp(X509_get_issuer_name(like), X509_get_subject_name(ca)) != 0)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "%s was issued by a CA of another name: renew it there", request->like);
	names = X509_get_ext_d2i(like, NID_subject_alt_name, NULL, NULL);
	if (!names || X509_add1_ext_i2d(cert, NID_subject_alt_name, names, 0, X509V3_ADD_DEFAULT) != 1)
		return openssl_error("copy the names of", request->like, err);
	return STATUS_OK;
}

/* Key identifiers and what the certificate is for, then the signature. */
static bool finish_ca(X509 *cert, EVP_PKEY *key)
{
	X509V3_CTX ctx;

	X509V3_set_ctx(&ctx, cert, cert, NULL, NULL, 0);
	return X509_set_issuer_name(cert, X509_get_subject_name(cert)) == 1 &&
	       add_extension(cert, &ctx, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
	       add_extension(cert, &ctx, NID_key_usage, "critical,keyCertSign,cRLSign") &&
	       add_extension(cert, &ctx, NID_subject_key_identifier, "hash") &&
	       X509_sign(cert, key, EVP_sha256()) > 0;
}

/* Clients connect only to servers. Other URIs are for both. */
static const char *purpose_of(const char *uri)
{
	static const char *const clients[] = {"node", "operator", "fencer", "driver"};
	const char *role = str_starts_with(uri, SCHEME) ? strchr(uri + strlen(SCHEME), '/') : NULL;

	for (size_t i = 0; role && i < ARRAY_SIZE(clients); i++)
		if (str_starts_with(role + 1, clients[i]) && role[1 + strlen(clients[i])] == '/')
			return "clientAuth";
	return "serverAuth,clientAuth";
}

static bool finish_leaf(X509 *cert, const char *uri, X509 *ca_cert, EVP_PKEY *ca_key)
{
	X509V3_CTX ctx;

	X509V3_set_ctx(&ctx, ca_cert, cert, NULL, NULL, 0);
	return X509_set_issuer_name(cert, X509_get_subject_name(ca_cert)) == 1 &&
	       add_extension(cert, &ctx, NID_basic_constraints, "critical,CA:FALSE") &&
	       add_extension(cert, &ctx, NID_key_usage, "critical,digitalSignature") &&
	       add_extension(cert, &ctx, NID_ext_key_usage, purpose_of(uri)) &&
	       add_extension(cert, &ctx, NID_subject_key_identifier, "hash") &&
	       add_extension(cert, &ctx, NID_authority_key_identifier, "keyid") &&
	       X509_sign(cert, ca_key, EVP_sha256()) > 0;
}

static enum status write_bio(BIO *bio, const char *path, mode_t mode, struct error *err)
{
	char *bytes = NULL;
	long n = BIO_get_mem_data(bio, &bytes);
	int r = file_write_atomic(path, mode, bytes, (size_t)n);

	return r < 0 ? error_set(err, status_from_errno(r), r, "write %s", path) : STATUS_OK;
}

static enum status write_key(EVP_PKEY *key, const char *path, struct error *err)
{
	cleanup(BIO_freep) BIO *bio = BIO_new(BIO_s_secmem());

	if (!bio || PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) != 1)
		return openssl_error("print the key", path, err);
	return write_bio(bio, path, 0600, err);
}

static enum status write_cert(X509 *cert, const char *path, struct error *err)
{
	cleanup(BIO_freep) BIO *bio = BIO_new(BIO_s_mem());

	if (!bio || PEM_write_bio_X509(bio, cert) != 1)
		return openssl_error("print the certificate", path, err);
	return write_bio(bio, path, 0644, err);
}

/* The key first: a certificate without its key is worthless. If the other half fails, the written one is
 * removed. */
static enum status write_pair(EVP_PKEY *key, const char *key_path, X509 *cert, const char *cert_path,
			      struct error *err)
{
	TRY(write_key(key, key_path, err));
	enum status status = write_cert(cert, cert_path, err);
	if (status != STATUS_OK)
		(void)unlink(key_path); /* we made it a moment ago; the error that counts is the other one */
	return status;
}

static enum status look_for(const char *path, bool *ret_exists, struct error *err)
{
	if (access(path, F_OK) == 0) {
		*ret_exists = true;
		return STATUS_OK;
	}
	*ret_exists = false;
	return errno == ENOENT ? STATUS_OK
			       : error_set(err, status_from_errno(errno), errno, "look for %s", path);
}

static enum status check_absent(const char *key_path, const char *cert_path, struct error *err)
{
	bool key = false;
	bool cert = false;
	enum status status = look_for(key_path, &key, err);

	if (status == STATUS_OK)
		status = look_for(cert_path, &cert, err);
	if (status != STATUS_OK || (!key && !cert))
		return status;
	if (key && cert)
		return error_set(
			err, STATUS_ALREADY_EXISTS, 0,
			"%s and %s exist already and stay as they are; to renew them, move them away first",
			key_path, cert_path);
	return error_set(err, STATUS_ALREADY_EXISTS, 0,
			 "%s exists but %s does not: bring back the missing half, or move the other one away "
			 "to make a new pair",
			 key ? key_path : cert_path, key ? cert_path : key_path);
}

static enum status check_name(const char *what, const char *name, struct error *err)
{
	size_t n = strlen(name);

	return n > 0 && n <= NAME_MAX_LEN
		       ? STATUS_OK
		       : error_set(err, STATUS_INVALID_ARGUMENT, 0, "the %s \"%s\" must have 1 to %d bytes",
				   what, name, NAME_MAX_LEN);
}

/* 0 for a time that cannot be read. */
static enum status check_days(unsigned int days, struct error *err)
{
	return days > 0 && days <= PKI_DAYS_MAX
		       ? STATUS_OK
		       : error_set(err, STATUS_INVALID_ARGUMENT, 0,
				   "a certificate is valid for 1 to %d days, not %u", PKI_DAYS_MAX, days);
}

static enum status make_ca(const char *cluster, unsigned int days, EVP_PKEY **ret_key, X509 **ret_cert,
			   struct error *err)
{
	char name[NAME_MAX_LEN + sizeof(CA_SUFFIX)];
	int64_t now_s = clock_realtime_ms() / 1000;

	(void)str_format(name, sizeof(name), "%.*s" CA_SUFFIX, (int)(NAME_MAX_LEN - strlen(CA_SUFFIX)),
			 cluster);
	ERR_clear_error();
	*ret_key = EVP_EC_gen("P-256");
	*ret_cert = *ret_key ? cert_new(*ret_key, name, now_s - PKI_SKEW_S, now_s + days * DAY_S) : NULL;
	return *ret_cert && finish_ca(*ret_cert, *ret_key) ? STATUS_OK
							   : openssl_error("make a CA for", cluster, err);
}

enum status pki_make_ca_for(const char *key_path, const char *cert_path, const char *cluster,
			    unsigned int days, struct error *err)
{
	cleanup(EVP_PKEY_freep) EVP_PKEY *key = NULL;
	cleanup(X509_freep) X509 *cert = NULL;

	TRY(check_name("cluster's name", cluster, err));
	TRY(check_days(days, err));
	TRY(check_absent(key_path, cert_path, err));
	TRY(make_ca(cluster, days, &key, &cert, err));
	return write_pair(key, key_path, cert, cert_path, err);
}

enum status pki_make_ca(const char *key_path, const char *cert_path, const char *cluster, struct error *err)
{
	return pki_make_ca_for(key_path, cert_path, cluster, CA_DAYS, err);
}

enum status pki_make_signing_key(const char *path, struct error *err)
{
	cleanup(EVP_PKEY_freep) EVP_PKEY *key = NULL;
	bool exists = false;

	TRY(look_for(path, &exists, err));
	if (exists)
		return error_set(err, STATUS_ALREADY_EXISTS, 0, "%s exists already and is kept", path);
	key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	return key ? write_key(key, path, err) : openssl_error("make the key", path, err);
}

static enum status check_request(const struct pki_cert_request *request, struct error *err)
{
	if (!request->uri || strlen(request->uri) >= RPC_URI_SIZE || !strstr(request->uri, "://"))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "the identity \"%s\" is no URI of less than %d bytes, like "
				 "holdfast://CLUSTER/node/NAME",
				 request->uri ? request->uri : "", RPC_URI_SIZE);
	if (request->life_s == 0)
		TRY(check_days(request->days, err));
	return check_name("common name", request->common_name, err);
}

static enum status load_ca(const char *key_path, const char *cert_path, EVP_PKEY **ret_key,
			   STACK_OF(X509) * *ret_certs, struct error *err)
{
	TRY(pem_read_key(key_path, ret_key, err));
	TRY(pem_read_certs(cert_path, ret_certs, err));
	if (X509_check_private_key(sk_X509_value(*ret_certs, 0), *ret_key) != 1) {
		ERR_clear_error();
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "the key %s does not belong to the CA certificate %s", key_path, cert_path);
	}
	return STATUS_OK;
}

/* This would stay unnoticed until the CA expires, on all machines at once. */
static enum status check_outlived(const X509 *cert, const X509 *ca, const char *ca_path, struct error *err)
{
	char text[CLOCK_TEXT_SIZE];

	if (ASN1_TIME_compare(X509_get0_notAfter(cert), X509_get0_notAfter(ca)) <= 0)
		return STATUS_OK;
	return error_set(
		err, STATUS_INVALID_ARGUMENT, 0,
		"the CA %s expires at %s, before the certificate would: give fewer days, or make a new CA",
		ca_path, clock_format(tls_cert_expires_ms(ca), text));
}

/* The one way by which a certificate is issued: certifies @key for @request.
 * @ret owned by the caller, X509_free() */
static enum status issue(X509 *ca_cert, EVP_PKEY *ca_key, const char *ca_path,
			 const struct pki_cert_request *request, EVP_PKEY *key, X509 **ret, struct error *err)
{
	int64_t issued_s = clock_realtime_ms() / 1000;
	int64_t after_s = request->after_ms / 1000;
	int64_t life_s = request->life_s > 0 ? (int64_t)request->life_s : request->days * DAY_S;
	int64_t ca_ends_s = tls_cert_expires_ms(ca_cert) / 1000;
	cleanup(X509_freep) X509 *cert = NULL;

	TRY(check_request(request, err));
	if (issued_s <= after_s)
		issued_s = after_s + 1;
	if (request->life_s > 0 && issued_s + life_s > ca_ends_s)
		life_s = ca_ends_s - issued_s;
	if (life_s <= 0)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "the CA %s has expired: it can sign nothing; make a new CA", ca_path);
	ERR_clear_error();
	cert = cert_new(key, request->common_name, issued_s - PKI_SKEW_S, issued_s + life_s);
	if (!cert)
		return openssl_error("make a certificate for", request->uri, err);
	TRY(check_outlived(cert, ca_cert, ca_path, err));
	TRY(request->like ? copy_alt_names(cert, ca_cert, request, err) : add_alt_names(cert, request, err));
	if (!finish_leaf(cert, request->uri, ca_cert, ca_key))
		return openssl_error("make a certificate for", request->uri, err);
	*ret = TAKE_PTR(cert);
	return STATUS_OK;
}

enum status pki_issue(const char *ca_key_path, const char *ca_cert_path,
		      const struct pki_cert_request *request, const char *key_path, const char *cert_path,
		      struct error *err)
{
	cleanup(EVP_PKEY_freep) EVP_PKEY *ca_key = NULL;
	cleanup(free_certsp) STACK_OF(X509) *ca_certs = NULL;
	cleanup(EVP_PKEY_freep) EVP_PKEY *key = NULL;
	cleanup(X509_freep) X509 *cert = NULL;

	TRY(check_request(request, err));
	TRY(check_absent(key_path, cert_path, err));
	TRY(load_ca(ca_key_path, ca_cert_path, &ca_key, &ca_certs, err));
	ERR_clear_error();
	key = EVP_EC_gen("P-256");
	if (!key)
		return openssl_error("make a key for", request->uri, err);
	TRY(issue(sk_X509_value(ca_certs, 0), ca_key, ca_cert_path, request, key, &cert, err));
	return write_pair(key, key_path, cert, cert_path, err);
}

/* --- for others --- */

struct pki_ca {
	EVP_PKEY *key;
	STACK_OF(X509) * certs;
	char *path; /* of the certificate, for messages */
	char key_id[RPC_KEY_ID_SIZE];
};

void pki_ca_free(struct pki_ca *ca)
{
	if (!ca)
		return;
	EVP_PKEY_free(ca->key);
	sk_X509_pop_free(ca->certs, X509_free);
	free(ca->path);
	free(ca);
}

DEFINE_CLEANUP(struct pki_ca, pki_ca_free)

static enum status ca_new(const char *path, struct pki_ca **ret, struct error *err)
{
	*ret = calloc(1, sizeof(**ret));
	if (*ret && ((*ret)->path = strdup(path)))
		return STATUS_OK;
	return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "open the CA %s", path);
}

static enum status check_ca(struct pki_ca *ca, struct error *err)
{
	if (X509_check_ca(sk_X509_value(ca->certs, 0)) != 1)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "%s is not the certificate of a CA (basicConstraints CA:TRUE)", ca->path);
	tls_cert_key_id(sk_X509_value(ca->certs, 0), ca->key_id);
	return STATUS_OK;
}

enum status pki_ca_open(const char *key_path, const char *cert_path, struct pki_ca **ret, struct error *err)
{
	cleanup(pki_ca_freep) struct pki_ca *ca = NULL;

	TRY(ca_new(cert_path, &ca, err));
	TRY(load_ca(key_path, cert_path, &ca->key, &ca->certs, err));
	TRY(check_ca(ca, err));
	*ret = TAKE_PTR(ca);
	return STATUS_OK;
}

/* The text of @bio; owned by the caller. */
static char *take_text(BIO *bio)
{
	char *bytes = NULL;
	long n = BIO_get_mem_data(bio, &bytes);

	return n > 0 ? strndup(bytes, (size_t)n) : NULL;
}

/* Like the certificate of @ca, with the identifier of its key, for peers that trust only @former. */
static bool finish_cross(X509 *cert, X509 *ca, X509 *former, EVP_PKEY *former_key)
{
	int at = X509_get_ext_by_NID(ca, NID_subject_key_identifier, -1);
	X509V3_CTX ctx;

	X509V3_set_ctx(&ctx, former, cert, NULL, NULL, 0);
	return at >= 0 && X509_set_subject_name(cert, X509_get_subject_name(ca)) == 1 &&
	       X509_set_issuer_name(cert, X509_get_subject_name(former)) == 1 &&
	       add_extension(cert, &ctx, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
	       add_extension(cert, &ctx, NID_key_usage, "critical,keyCertSign,cRLSign") &&
	       X509_add_ext(cert, X509_get_ext(ca, at), -1) == 1 &&
	       add_extension(cert, &ctx, NID_authority_key_identifier, "keyid") &&
	       X509_sign(cert, former_key, EVP_sha256()) > 0;
}

static bool is_self_issued(const X509 *cert)
{
	return X509_NAME_cmp(X509_get_subject_name(cert), X509_get_issuer_name(cert)) == 0;
}

enum status pki_ca_cross(const struct pki_ca *former, const struct pki_ca *ca, char **ret_pem,
			 struct error *err)
{
	X509 *trusted = sk_X509_value(former->certs, 0);
	X509 *subject = sk_X509_value(ca->certs, 0);
	int64_t now_s = clock_realtime_ms() / 1000;
	int64_t ends_s = tls_cert_expires_ms(trusted) / 1000;
	cleanup(BIO_freep) BIO *bio = BIO_new(BIO_s_mem());
	cleanup(X509_freep) X509 *cert = NULL;
	bool ok;

	if (tls_cert_expires_ms(subject) / 1000 < ends_s)
		ends_s = tls_cert_expires_ms(subject) / 1000;
	ERR_clear_error();
	cert = cert_new(ca->key, "CA", now_s - PKI_SKEW_S, ends_s);
	ok = bio && cert && finish_cross(cert, subject, trusted, former->key) &&
	     PEM_write_bio_X509(bio, cert) == 1;
	for (int i = 0; ok && i < sk_X509_num(former->certs); i++)
		if (!is_self_issued(sk_X509_value(former->certs, i)))
			ok = PEM_write_bio_X509(bio, sk_X509_value(former->certs, i)) == 1;
	if (!ok || !(*ret_pem = take_text(bio)))
		return openssl_error("link a CA to", former->path, err);
	return STATUS_OK;
}

bool pki_ca_has_same_name(const struct pki_ca *a, const struct pki_ca *b)
{
	return X509_NAME_cmp(X509_get_subject_name(sk_X509_value(a->certs, 0)),
			     X509_get_subject_name(sk_X509_value(b->certs, 0))) == 0;
}

/* NULL: its issuer is not in @certs, or is its own key. Names prove nothing: an old CA may have the same one.
 */
static X509 *issuer_of(X509 *cert, const STACK_OF(X509) * certs)
{
	for (int i = 0; i < sk_X509_num(certs); i++) {
		EVP_PKEY *key = X509_get0_pubkey(sk_X509_value(certs, i));

		if (X509_verify(cert, key) == 1 && EVP_PKEY_eq(key, X509_get0_pubkey(cert)) != 1)
			return sk_X509_value(certs, i);
	}
	return NULL;
}

size_t pki_ca_count_others(const struct pki_ca *ca, const char *path)
{
	cleanup(free_certsp) STACK_OF(X509) *certs = NULL;
	X509 *above[CHAIN_MAX];
	size_t n_above = 0, n = 0, at;

	if (pem_read_certs(path, &certs, NULL) != STATUS_OK)
		return 0;
	for (X509 *cert = sk_X509_value(ca->certs, 0); cert && n_above < CHAIN_MAX;) {
		X509 *issuer = issuer_of(cert, certs);

		above[n_above++] = cert;
		cert = issuer ? issuer : issuer_of(cert, ca->certs);
	}
	for (int i = 0; i < sk_X509_num(certs); i++) {
		EVP_PKEY *key = X509_get0_pubkey(sk_X509_value(certs, i));

		for (at = 0; at < n_above && EVP_PKEY_eq(key, X509_get0_pubkey(above[at])) != 1;)
			at++;
		n += at == n_above;
	}
	ERR_clear_error();
	return n;
}

int64_t pki_ca_expires_ms(const struct pki_ca *ca)
{
	return tls_cert_expires_ms(sk_X509_value(ca->certs, 0));
}

const char *pki_ca_key_id(const struct pki_ca *ca)
{
	return ca->key_id;
}

DEFINE_CLEANUP(X509_REQ, X509_REQ_free)

static bool is_good_key(const EVP_PKEY *key)
{
	char group[32] = "";
	int is_explicit = 0;

	if (EVP_PKEY_is_a(key, "ED25519"))
		return true;
	(void)EVP_PKEY_get_int_param(key, OSSL_PKEY_PARAM_EC_DECODED_FROM_EXPLICIT_PARAMS, &is_explicit);
	return !is_explicit && EVP_PKEY_is_a(key, "EC") &&
	       EVP_PKEY_get_group_name(key, group, sizeof(group), NULL) == 1 &&
	       (str_eq(group, "prime256v1") || str_eq(group, "P-256") || str_eq(group, "secp384r1") ||
		str_eq(group, "P-384"));
}

/* The key that @csr is about, once it was proven that its owner made it. @ret borrowed from @ret_request. */
static enum status read_request(const char *csr, X509_REQ **ret_request, EVP_PKEY **ret, struct error *err)
{
	cleanup(BIO_freep) BIO *bio = NULL;
	size_t len = strnlen(csr, PKI_CSR_MAX + 1);

	if (len == 0 || len > PKI_CSR_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "csr: 1 to %d bytes of PEM are wanted",
				 PKI_CSR_MAX);
	ERR_clear_error();
	bio = BIO_new_mem_buf(csr, (int)len);
	*ret_request = bio ? PEM_read_bio_X509_REQ(bio, NULL, no_pass_phrase, NULL) : NULL;
	*ret = *ret_request ? X509_REQ_get0_pubkey(*ret_request) : NULL;
	if (!*ret || X509_REQ_verify(*ret_request, *ret) != 1) {
		ERR_clear_error();
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "csr: it is no certificate request that its own key has signed");
	}
	if (!is_good_key(*ret))
		return error_set(
			err, STATUS_INVALID_ARGUMENT, 0,
			"csr: the key must be EC P-256, EC P-384 (by name, without parameters of its "
			"own) or Ed25519");
	return STATUS_OK;
}

enum status pki_request_digest(const char *csr, uint8_t ret[static PKI_KEY_DIGEST_SIZE], struct error *err)
{
	cleanup(X509_REQ_freep) X509_REQ *request = NULL;
	EVP_PKEY *key = NULL;
	unsigned char *der = NULL;
	int n;

	TRY(read_request(csr, &request, &key, err));
	n = i2d_PUBKEY(key, &der);
	if (n <= 0 || EVP_Digest(der, (size_t)n, ret, NULL, EVP_sha256(), NULL) != 1) {
		OPENSSL_free(der);
		return openssl_error("digest", "the key of a request", err);
	}
	OPENSSL_free(der);
	return STATUS_OK;
}

/* Empty if it is no text of printable ASCII: nothing else names a machine. */
static void read_host(const X509 *cert, char ret[static PKI_HOST_SIZE])
{
	cleanup(free_namesp) GENERAL_NAMES *names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);

	ret[0] = '\0';
	for (int i = 0; ret[0] == '\0' && i < sk_GENERAL_NAME_num(names); i++) {
		int type = GEN_URI, n;
		const ASN1_STRING *value = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &type);

		if (type != GEN_DNS && type != GEN_IPADD)
			continue;
		n = ASN1_STRING_length(value);
		if (type == GEN_DNS)
			(void)str_format(ret, PKI_HOST_SIZE, "%.*s", n,
					 (const char *)ASN1_STRING_get0_data(value));
		else if (n == 4 || n == 16)
			(void)inet_ntop(n == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(value), ret,
					PKI_HOST_SIZE);
		if (!is_printable(ret))
			ret[0] = '\0';
	}
}

static void read_facts(X509 *cert, struct pki_facts *ret)
{
	*ret = (struct pki_facts){.issued_ms = tls_cert_issued_ms(cert),
				  .expires_ms = tls_cert_expires_ms(cert)};
	ret->last_expires_ms = ret->expires_ms;
	(void)tls_cert_uri(cert, ret->uri);
	read_host(cert, ret->host);
	tls_cert_serial(cert, ret->serial);
	tls_cert_issuer(cert, ret->issuer);
	ret->n = 1;
}

/* A root is left out: peers that trust it have it. */
static bool print_chain(BIO *bio, X509 *cert, STACK_OF(X509) * ca_certs)
{
	bool ok = PEM_write_bio_X509(bio, cert) == 1;

	for (int i = 0; ok && i < sk_X509_num(ca_certs); i++) {
		X509 *link = sk_X509_value(ca_certs, i);

		if (X509_self_signed(link, 0) != 1)
			ok = PEM_write_bio_X509(bio, link) == 1;
	}
	ERR_clear_error();
	return ok;
}

enum status pki_ca_sign(const struct pki_ca *ca, const struct pki_cert_request *request, const char *csr,
			char **ret_pem, struct pki_facts *ret_facts, struct error *err)
{
	cleanup(X509_REQ_freep) X509_REQ *wanted = NULL;
	cleanup(X509_freep) X509 *cert = NULL;
	cleanup(BIO_freep) BIO *bio = BIO_new(BIO_s_mem());
	EVP_PKEY *key = NULL;

	TRY(read_request(csr, &wanted, &key, err));
	TRY(issue(sk_X509_value(ca->certs, 0), ca->key, ca->path, request, key, &cert, err));
	if (!bio || !print_chain(bio, cert, ca->certs) || !(*ret_pem = take_text(bio)))
		return openssl_error("print the certificate of", request->uri, err);
	read_facts(cert, ret_facts);
	return STATUS_OK;
}

void pki_key_free(char *key)
{
	if (key)
		OPENSSL_cleanse(key, strlen(key));
	free(key);
}

enum status pki_make_request(char **ret_key, char **ret_csr, struct error *err)
{
	cleanup(EVP_PKEY_freep) EVP_PKEY *key = EVP_EC_gen("P-256");
	cleanup(X509_REQ_freep) X509_REQ *request = X509_REQ_new();
	cleanup(BIO_freep) BIO *key_bio = BIO_new(BIO_s_secmem());
	cleanup(BIO_freep) BIO *csr_bio = BIO_new(BIO_s_mem());

	if (!key || !request || !key_bio || !csr_bio ||
	    X509_REQ_set_version(request, X509_REQ_VERSION_1) != 1 ||
	    X509_REQ_set_pubkey(request, key) != 1 || X509_REQ_sign(request, key, EVP_sha256()) <= 0 ||
	    PEM_write_bio_PrivateKey(key_bio, key, NULL, NULL, 0, NULL, NULL) != 1 ||
	    PEM_write_bio_X509_REQ(csr_bio, request) != 1)
		return openssl_error("make", "a key", err);
	*ret_key = take_text(key_bio);
	*ret_csr = take_text(csr_bio);
	if (*ret_key && *ret_csr)
		return STATUS_OK;
	pki_key_free(*ret_key);
	free(*ret_csr);
	return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "make a key");
}

DEFINE_CLEANUP(X509_STORE, X509_STORE_free)
DEFINE_CLEANUP(X509_STORE_CTX, X509_STORE_CTX_free)

static enum status check_trusted(const char *cert, const char *ca, unsigned long flags, struct error *err)
{
	cleanup(free_certsp) STACK_OF(X509) *certs = NULL;
	cleanup(free_certsp) STACK_OF(X509) *trusted = NULL;
	cleanup(X509_STORE_freep) X509_STORE *store = X509_STORE_new();
	cleanup(X509_STORE_CTX_freep) X509_STORE_CTX *ctx = X509_STORE_CTX_new();
	bool ok = store && ctx;

	if (!pem_parse_certs(cert, strlen(cert), &certs) || !pem_parse_certs(ca, strlen(ca), &trusted)) {
		ERR_clear_error();
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "the new certificate or the CA is not readable PEM");
	}
	for (int i = 0; ok && i < sk_X509_num(trusted); i++)
		ok = X509_STORE_add_cert(store, sk_X509_value(trusted, i)) == 1;
	if (!ok || X509_STORE_CTX_init(ctx, store, sk_X509_value(certs, 0), certs) != 1)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "check a certificate");
	X509_STORE_CTX_set_flags(ctx, flags);
	if (X509_verify_cert(ctx) == 1)
		return STATUS_OK;
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "the new certificate is not good by the CA and this clock: %s",
			 X509_verify_cert_error_string(X509_STORE_CTX_get_error(ctx)));
}

/* @ret_first borrowed from @ret_certs. False: one of them cannot be read, or they do not belong together. */
static bool read_pair(const char *cert, const char *key, STACK_OF(X509) * *ret_certs, EVP_PKEY **ret_key,
		      X509 **ret_first)
{
	cleanup(BIO_freep) BIO *cert_bio = BIO_new_mem_buf(cert, -1);
	cleanup(BIO_freep) BIO *key_bio = BIO_new_mem_buf(key, -1);
	X509 *link;
	bool ok;

	*ret_certs = sk_X509_new_null();
	while (*ret_certs && cert_bio && (link = PEM_read_bio_X509(cert_bio, NULL, no_pass_phrase, NULL)))
		if (sk_X509_push(*ret_certs, link) == 0)
			X509_free(link);
	*ret_key = key_bio ? PEM_read_bio_PrivateKey(key_bio, NULL, no_pass_phrase, NULL) : NULL;
	*ret_first = sk_X509_value(*ret_certs, 0);
	ok = *ret_first && *ret_key && X509_check_private_key(*ret_first, *ret_key) == 1;
	ERR_clear_error();
	return ok;
}

enum status pki_ca_read(const char *key, const char *cert, struct pki_ca **ret, struct error *err)
{
	cleanup(pki_ca_freep) struct pki_ca *ca = NULL;
	X509 *first;

	TRY(ca_new("that is given", &ca, err));
	if (!read_pair(cert, key, &ca->certs, &ca->key, &first))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "certificate, key: not a certificate and its key, in PEM and without a pass "
				 "phrase");
	TRY(check_ca(ca, err));
	*ret = TAKE_PTR(ca);
	return STATUS_OK;
}

enum status pki_make_ca_pem(const char *cluster, char **ret_key, char **ret_cert, struct error *err)
{
	cleanup(EVP_PKEY_freep) EVP_PKEY *key = NULL;
	cleanup(X509_freep) X509 *cert = NULL;
	cleanup(BIO_freep) BIO *key_bio = BIO_new(BIO_s_secmem());
	cleanup(BIO_freep) BIO *cert_bio = BIO_new(BIO_s_mem());

	TRY(make_ca(cluster, CA_DAYS, &key, &cert, err));
	if (!key_bio || !cert_bio || PEM_write_bio_PrivateKey(key_bio, key, NULL, NULL, 0, NULL, NULL) != 1 ||
	    PEM_write_bio_X509(cert_bio, cert) != 1)
		return openssl_error("print a CA of", cluster, err);
	*ret_key = take_text(key_bio);
	*ret_cert = take_text(cert_bio);
	return *ret_key && *ret_cert ? STATUS_OK : error_no_memory(err, "a CA");
}

enum status pki_check_pair(const char *cert, const char *key, const char *uri, const char *ca,
			   struct error *err)
{
	cleanup(free_certsp) STACK_OF(X509) *certs = NULL;
	cleanup(EVP_PKEY_freep) EVP_PKEY *pkey = NULL;
	char found[RPC_URI_SIZE];
	X509 *first;

	if (!read_pair(cert, key, &certs, &pkey, &first))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "the new certificate does not belong to the key that was made for it");
	if (!tls_cert_uri(first, found) || !str_eq(found, uri))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "the new certificate is of \"%s\", not of %s", found, uri);
	return check_trusted(cert, ca, 0, err);
}

enum status pki_check_issuer(const char *cert, const char *ca, struct error *err)
{
	return check_trusted(cert, ca, X509_V_FLAG_NO_CHECK_TIME, err);
}

int64_t pki_warns_at_ms(const struct pki_facts *facts)
{
	int64_t quarter_ms = (facts->expires_ms - facts->issued_ms) / 4;

	if (facts->expires_ms == 0)
		return 0;
	return facts->expires_ms - (quarter_ms < WARN_MS ? quarter_ms : WARN_MS);
}

enum status pki_expiry(const char *cert_path, int64_t *ret_realtime_ms, struct error *err)
{
	cleanup(free_certsp) STACK_OF(X509) *certs = NULL;
	enum status status = pem_read_certs(cert_path, &certs, err);
	int64_t at_ms;

	if (status != STATUS_OK)
		return status;
	at_ms = tls_cert_expires_ms(sk_X509_value(certs, 0));
	if (at_ms == 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s: the time of expiry cannot be read",
				 cert_path);
	*ret_realtime_ms = at_ms;
	return STATUS_OK;
}

enum status pki_read_facts(const char *cert_path, struct pki_facts *ret, struct error *err)
{
	cleanup(free_certsp) STACK_OF(X509) *certs = NULL;

	TRY(pem_read_certs(cert_path, &certs, err));
	read_facts(sk_X509_value(certs, 0), ret);
	ret->n = (size_t)sk_X509_num(certs);
	for (int i = 1; i < sk_X509_num(certs); i++) {
		int64_t expires_ms = tls_cert_expires_ms(sk_X509_value(certs, i));

		if (expires_ms > ret->last_expires_ms)
			ret->last_expires_ms = expires_ms;
	}
	return STATUS_OK;
}

enum status pki_pem_facts(const char *pem, struct pki_facts *ret, struct error *err)
{
	cleanup(BIO_freep) BIO *bio = BIO_new_mem_buf(pem, -1);
	cleanup(X509_freep) X509 *cert = bio ? PEM_read_bio_X509(bio, NULL, no_pass_phrase, NULL) : NULL;

	if (!cert)
		return openssl_error("read", "a certificate", err);
	read_facts(cert, ret);
	return STATUS_OK;
}

enum status pki_ca_cluster(const char *cert_path, char ret[static PKI_CLUSTER_SIZE], struct error *err)
{
	cleanup(free_certsp) STACK_OF(X509) *certs = NULL;
	char name[NAME_MAX_LEN + 1];
	enum status status = pem_read_certs(cert_path, &certs, err);
	int n;

	if (status != STATUS_OK)
		return status;
	n = X509_NAME_get_text_by_NID(X509_get_subject_name(sk_X509_value(certs, 0)), NID_commonName, name,
				      sizeof(name));
	if (n <= (int)strlen(CA_SUFFIX) || !str_eq(name + n - (int)strlen(CA_SUFFIX), CA_SUFFIX))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "%s: the common name does not name the CA's cluster: it was not made by "
				 "holdfast operator cert ca",
				 cert_path);
	name[n - (int)strlen(CA_SUFFIX)] = '\0';
	(void)str_copy(ret, PKI_CLUSTER_SIZE, name); /* fits: NAME_MAX_LEN without the suffix */
	return STATUS_OK;
}
