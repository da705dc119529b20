/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* TLS sessions of a struct rpc_tls, and the content of their peers' certificates. */

#include "base/error.h"
#include "rpc/peer.h"

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rpc_tls;

/** Has @tls a certificate to serve with? STATUS_FAILED_PRECONDITION otherwise. */
enum status tls_session_check_server(const struct rpc_tls *tls, struct error *err);

/** A session on a non-blocking socket; writing never raises SIGPIPE. @ret owned by the caller, SSL_free();
 * @fd stays the caller's and must outlive it. To accept takes tls_session_check_server(). */
enum status tls_session_accept(struct rpc_tls *tls, int fd, SSL **ret, struct error *err);
enum status tls_session_connect(struct rpc_tls *tls, int fd, SSL **ret, struct error *err);

/** Call it before each call of OpenSSL that may read. That call then reads few records, and one message after
 * the handshake. If it wants to read although the session has unread bytes, make it again. */
void tls_session_begin(SSL *ssl);
bool tls_session_has_unread(const SSL *ssl);

/** The URI identity of the verified peer, empty when it showed no certificate or one without exactly one
 * usable URI. */
void tls_session_peer_uri(const SSL *ssl, char uri[static RPC_URI_SIZE]);

/** When the certificate of the verified peer expires, in milliseconds since the epoch; 0 without a
 * certificate. */
int64_t tls_session_peer_expires_ms(const SSL *ssl);

/** Serial number and beginning of the verified peer's certificate; @ret is not touched without one. */
void tls_session_peer_issue(const SSL *ssl, struct rpc_peer *ret);

/** When @cert expires; 0 when that cannot be read. */
int64_t tls_cert_expires_ms(const X509 *cert);

/** When @cert was issued: PKI_SKEW_S after it begins, as those of pki.h are dated back by that; one of
 * another CA counts as issued that much later than it was. 0 when that cannot be read. */
int64_t tls_cert_issued_ms(const X509 *cert);

/** Identifiers of the key that signed the certificate, and of its own key; "" without one. */
void tls_cert_issuer(X509 *cert, char ret[static RPC_KEY_ID_SIZE]);
void tls_cert_key_id(X509 *cert, char ret[static RPC_KEY_ID_SIZE]);

/** The serial number in upper-case hex digits; empty if it is negative or longer than RFC 5280 allows. */
void tls_cert_serial(const X509 *cert, char serial[static RPC_SERIAL_SIZE]);

/** The one URI of @cert's subjectAltName; false and an empty text if there is no URI or more than one, or if
 * it is too long or has bytes that are not printable ASCII. */
bool tls_cert_uri(const X509 *cert, char uri[static RPC_URI_SIZE]);

/** OpenSSL's last error of this thread, as text for people; empties its queue. Returns @text. */
char *tls_error_text(char *text, size_t size);
