/* SPDX-License-Identifier: Apache-2.0 */
#include "base/str.h"
#include "rpc/pki.h"
#include "rpc/tls_session.h"

#include <openssl/bn.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <time.h>

/* A URI of printable ASCII without spaces: what could read differently to two programs is no identity. */
static bool copy_uri(char uri[static RPC_URI_SIZE], const ASN1_IA5STRING *value)
{
	const unsigned char *bytes = ASN1_STRING_get0_data(value);
	int n = ASN1_STRING_length(value);

	if (n <= 0 || n >= RPC_URI_SIZE)
		return false;
	for (int i = 0; i < n; i++)
		if (bytes[i] <= 0x20 || bytes[i] >= 0x7f)
			return false;
	memcpy(uri, bytes, (size_t)n);
	uri[n] = '\0';
	return true;
}

bool tls_cert_uri(const X509 *cert, char uri[static RPC_URI_SIZE])
{
	GENERAL_NAMES *names;
	int found = 0;
	bool usable = false;

	uri[0] = '\0';
	/* NULL too when the extension occurs twice or cannot be parsed */
	names = X509_get_ext_d2i(cert, NID_subject_alt_name, NULL, NULL);
	for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
		const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);

		if (name->type != GEN_URI)
			continue;
		found++;
		usable = copy_uri(uri, name->d.uniformResourceIdentifier);
	}
	GENERAL_NAMES_free(names);
	if (found != 1 || !usable)
		uri[0] = '\0';
	return uri[0] != '\0';
}

void tls_session_peer_uri(const SSL *ssl, char uri[static RPC_URI_SIZE])
{
	const X509 *cert = SSL_get0_peer_certificate(ssl);

	uri[0] = '\0';
	if (cert && SSL_get_verify_result(ssl) == X509_V_OK)
		(void)tls_cert_uri(cert, uri);
}

static int64_t time_ms(const ASN1_TIME *time)
{
	struct tm tm;

	return ASN1_TIME_to_tm(time, &tm) == 1 ? (int64_t)timegm(&tm) * 1000 : 0;
}

int64_t tls_cert_expires_ms(const X509 *cert)
{
	return time_ms(X509_get0_notAfter(cert));
}

int64_t tls_cert_issued_ms(const X509 *cert)
{
	int64_t valid_ms = time_ms(X509_get0_notBefore(cert));

	return valid_ms > 0 ? valid_ms + (int64_t)PKI_SKEW_S * 1000 : 0;
}

void tls_cert_serial(const X509 *cert, char serial[static RPC_SERIAL_SIZE])
{
	BIGNUM *number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(cert), NULL);
	char *digits = number && !BN_is_negative(number) ? BN_bn2hex(number) : NULL;

	serial[0] = '\0';
	if (digits && strlen(digits) < RPC_SERIAL_SIZE)
		memcpy(serial, digits, strlen(digits) + 1);
	OPENSSL_free(digits);
	BN_free(number);
}

static void put_key_id(const ASN1_OCTET_STRING *id, char ret[static RPC_KEY_ID_SIZE])
{
	ret[0] = '\0';
	if (id && ASN1_STRING_length(id) * 2 < RPC_KEY_ID_SIZE)
		hex_encode(ret, ASN1_STRING_get0_data(id), (size_t)ASN1_STRING_length(id));
}

void tls_cert_issuer(X509 *cert, char ret[static RPC_KEY_ID_SIZE])
{
	put_key_id(X509_get0_authority_key_id(cert), ret);
}

void tls_cert_key_id(X509 *cert, char ret[static RPC_KEY_ID_SIZE])
{
	put_key_id(X509_get0_subject_key_id(cert), ret);
}

static bool is_named_by_key(const X509 *cert)
{
	const ASN1_OCTET_STRING *id = X509_get0_subject_key_id((X509 *)(uintptr_t)cert); /* only read */
	unsigned char digest[EVP_MAX_MD_SIZE];
	unsigned int n = 0;

	return id && X509_pubkey_digest(cert, EVP_sha1(), digest, &n) == 1 &&
	       ASN1_STRING_length(id) == (int)n && memcmp(ASN1_STRING_get0_data(id), digest, n) == 0;
}

void tls_session_peer_issue(const SSL *ssl, struct rpc_peer *ret)
{
	X509 *cert = SSL_get0_peer_certificate(ssl);
	const STACK_OF(X509) *chain = SSL_get0_verified_chain(ssl);

	if (!cert || SSL_get_verify_result(ssl) != X509_V_OK)
		return;
	/* of the key that did sign it: a certificate need not name its issuer, and a CA below a trusted one
	 * may call its key by the identifier of another one */
	if (sk_X509_num(chain) > 1 && (sk_X509_num(chain) == 2 || is_named_by_key(sk_X509_value(chain, 1))))
		tls_cert_key_id(sk_X509_value(chain, 1), ret->issuer);
	else if (sk_X509_num(chain) > 1)
		tls_cert_key_id(sk_X509_value(chain, sk_X509_num(chain) - 1), ret->issuer);
	else
		tls_cert_issuer(cert, ret->issuer);
	ret->issued_ms = tls_cert_issued_ms(cert);
	tls_cert_serial(cert, ret->serial);
}

int64_t tls_session_peer_expires_ms(const SSL *ssl)
{
	const X509 *cert = SSL_get0_peer_certificate(ssl);

	return cert && SSL_get_verify_result(ssl) == X509_V_OK ? tls_cert_expires_ms(cert) : 0;
}
