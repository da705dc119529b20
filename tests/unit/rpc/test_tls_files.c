/* SPDX-License-Identifier: Apache-2.0 */
#include "tls_world.h"

#include "base/fd.h"
#include "rpc/pem.h"
#include "rpc/tls_session.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

static enum status load(struct tls_world *tw, const char *ca, const char *cert, const char *key,
			struct error *err)
{
	const struct rpc_tls_files files = {
		.ca = world_path(tw->world, ca),
		.cert = cert ? world_path(tw->world, cert) : NULL,
		.key = key ? world_path(tw->world, key) : NULL,
	};
	struct rpc_tls *tls = NULL;
	enum status status = rpc_tls_new(&files, &tls, err);

	assert_int_equal(status == STATUS_OK, tls != NULL);
	rpc_tls_free(tls);
	return status;
}

TLS_TEST(a_key_that_others_can_touch_is_refused_with_the_command_that_helps)
{
	static const mode_t open_modes[] = {0640, 0604, 0620, 0602, 0610, 0601, 0660, 0644, 0777};
	const char *key = world_path(tw->world, "node.key");
	char command[256];
	struct error err;

	(void)str_format(command, sizeof(command), "chmod 600 %s", key);
	for (size_t i = 0; i < ARRAY_SIZE(open_modes); i++) {
		assert_int_equal(chmod(key, open_modes[i]), 0);
		assert_error(load(tw, "ca.crt", "node.crt", "node.key", &err), STATUS_FAILED_PRECONDITION,
			     err, command);
	}
	assert_int_equal(chmod(key, 0400), 0);
	assert_int_equal(load(tw, "ca.crt", "node.crt", "node.key", &err), STATUS_OK);
	assert_int_equal(chmod(key, 0600), 0);
	assert_int_equal(load(tw, "ca.crt", "node.crt", "node.key", &err), STATUS_OK);
}

TLS_TEST(files_that_are_missing_wrong_or_do_not_match_are_named)
{
	static const struct row {
		const char *ca, *cert, *key;
		enum status status;
		const char *named;
	} rows[] = {
		{"gone.crt", "node.crt", "node.key", STATUS_NOT_FOUND, "gone.crt"},
		{"ca.crt", "gone.crt", "node.key", STATUS_NOT_FOUND, "gone.crt"},
		{"ca.crt", "node.crt", "gone.key", STATUS_NOT_FOUND, "gone.key"},
		{"ca.crt", "node.crt", "server.key", STATUS_INVALID_ARGUMENT, "server.key"},
		{"ca.key", "node.crt", "node.key", STATUS_INVALID_ARGUMENT, "ca.key"},
		{"ca.crt", "node.key", "node.key", STATUS_INVALID_ARGUMENT, "node.key"},
		{"ca.crt", "rubbish", "node.key", STATUS_INVALID_ARGUMENT, "rubbish"},
		{"ca.crt", "node.crt", "rubbish", STATUS_INVALID_ARGUMENT, "rubbish"},
		{"ca.crt", "node.crt", "empty", STATUS_INVALID_ARGUMENT, "empty"},
		{"empty", "node.crt", "node.key", STATUS_INVALID_ARGUMENT, "empty"},
		{"half", "node.crt", "node.key", STATUS_INVALID_ARGUMENT, "half"},
		{"ca.crt", "node.crt", ".", STATUS_INVALID_ARGUMENT, "/."},
		{"ca.crt", NULL, "node.key", STATUS_INVALID_ARGUMENT, "node.key"},
		{"ca.crt", "node.crt", NULL, STATUS_INVALID_ARGUMENT, "node.crt"},
	};
	cleanup_free char *ca = NULL;
	size_t len = 0;
	struct error err;

	assert_int_equal(file_read(world_path(tw->world, "ca.crt"), 10000, &ca, &len), 0);
	assert_int_equal(file_write_atomic(world_path(tw->world, "half"), 0600, ca, len / 2), 0);
	assert_int_equal(file_write_atomic(world_path(tw->world, "rubbish"), 0600, "rubbish", 7), 0);
	assert_int_equal(file_write_atomic(world_path(tw->world, "empty"), 0600, "", 0), 0);
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		err = (struct error){0};
		assert_int_equal(load(tw, rows[i].ca, rows[i].cert, rows[i].key, &err), rows[i].status);
		assert_msg(strstr(err.msg, rows[i].named), "row %zu: %s", i, err.msg);
	}
}

TLS_TEST(a_chain_that_breaks_off_in_its_second_certificate_is_refused)
{
	cleanup_free char *ca = NULL;
	cleanup_free char *both = NULL;
	size_t len = 0;
	struct error err;

	assert_int_equal(file_read(world_path(tw->world, "ca.crt"), 10000, &ca, &len), 0);
	both = NON_NULL(malloc(2 * len));
	memcpy(both, ca, len);
	memcpy(both + len, ca, len);
	assert_int_equal(file_write_atomic(world_path(tw->world, "two"), 0600, both, 2 * len), 0);
	assert_int_equal(load(tw, "two", NULL, NULL, &err), STATUS_OK);
	assert_int_equal(file_write_atomic(world_path(tw->world, "two"), 0600, both, 2 * len - 60), 0);
	assert_int_equal(load(tw, "two", NULL, NULL, &err), STATUS_INVALID_ARGUMENT);
}

TLS_TEST(an_encrypted_key_is_refused_without_a_prompt)
{
	EVP_PKEY *key = NULL;
	struct error err;
	FILE *f;

	assert_int_equal(pem_read_key(world_path(tw->world, "node.key"), &key, &err), STATUS_OK);
	f = NON_NULL(fopen(world_path(tw->world, "locked.key"), "we"));
	assert_int_equal(PEM_write_PrivateKey(f, key, EVP_aes_128_cbc(), (const unsigned char *)"secret", 6,
					      NULL, NULL),
			 1);
	assert_int_equal(fclose(f), 0);
	EVP_PKEY_free(key);
	assert_int_equal(chmod(world_path(tw->world, "locked.key"), 0600), 0);
	assert_error(load(tw, "ca.crt", "node.crt", "locked.key", &err), STATUS_INVALID_ARGUMENT, err,
		     "pass phrase");
}

/* A certificate that is nothing but its subjectAltName. */
static X509 *cert_with(const char *const *uris, const size_t *lengths, size_t n)
{
	GENERAL_NAMES *names = GENERAL_NAMES_new();
	X509 *cert = X509_new();

	for (size_t i = 0; i < n; i++) {
		GENERAL_NAME *name = GENERAL_NAME_new();
		ASN1_IA5STRING *value = ASN1_IA5STRING_new();

		assert_int_equal(ASN1_STRING_set(value, uris[i], (int)lengths[i]), 1);
		GENERAL_NAME_set0_value(name, GEN_URI, value);
		assert_true(sk_GENERAL_NAME_push(names, name) > 0);
	}
	assert_int_equal(X509_add1_ext_i2d(cert, NID_subject_alt_name, names, 0, X509V3_ADD_DEFAULT), 1);
	GENERAL_NAMES_free(names);
	return cert;
}

static void check_uri(const char *uri, size_t n, const char *expected)
{
	char text[RPC_URI_SIZE];
	X509 *cert = cert_with(&uri, &n, 1);

	memset(text, 'x', sizeof(text));
	assert_int_equal(tls_cert_uri(cert, text), expected[0] != '\0');
	assert_string_equal(text, expected);
	X509_free(cert);
}

TEST(an_identity_is_one_printable_uri_and_nothing_else)
{
	static const char nul[] = NODE_URI "\0.evil";
	const char *two[] = {NODE_URI, "holdfast://lab/operator/root"};
	const size_t two_lengths[] = {strlen(two[0]), strlen(two[1])};
	char longest[RPC_URI_SIZE + 1], text[RPC_URI_SIZE] = "x";
	X509 *cert;

	check_uri(NODE_URI, strlen(NODE_URI), NODE_URI);
	check_uri(nul, sizeof(nul) - 1, "");
	check_uri(nul, strlen(nul) + 1, "");
	check_uri("", 0, "");
	check_uri("holdfast://lab/node/n 1", 23, "");
	check_uri("holdfast://lab/node/n\x7f", 22, "");
	check_uri("holdfast://lab/node/\xc3\xa9", 22, "");
	memset(longest, 'u', sizeof(longest));
	longest[RPC_URI_SIZE] = '\0';
	check_uri(longest, RPC_URI_SIZE, "");
	longest[RPC_URI_SIZE - 1] = '\0';
	check_uri(longest, RPC_URI_SIZE - 1, longest);
	cert = cert_with(two, two_lengths, 2);
	assert_false(tls_cert_uri(cert, text));
	assert_string_equal(text, "");
	X509_free(cert);
	cert = cert_with(NULL, NULL, 0);
	assert_false(tls_cert_uri(cert, text));
	X509_free(cert);
	cert = X509_new();
	assert_false(tls_cert_uri(cert, text));
	X509_free(cert);
}
