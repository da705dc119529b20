/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/tls.h"

#include "base/cleanup.h"
#include "rpc/pem.h"
#include "rpc/tls_session.h"

#include <assert.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

static bool must_retry(ssize_t r)
{
	return r < 0 && (errno == EAGAIN || errno == EINTR);
}

/* OpenSSL reads until it has data, a whole message or the whole handshake: a peer that sends tiny records
 * would hold it for as long as it sends. A record takes two reads. */
enum { READS_MAX = 32 };

struct tls_socket {
	int fd;
	int reads_left; /* in this call of OpenSSL; negative: the socket is empty */
};

static int bio_write(BIO *bio, const char *bytes, int n)
{
	const struct tls_socket *sock = BIO_get_data(bio);
	ssize_t r = send(sock->fd, bytes, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);

	BIO_clear_retry_flags(bio);
	if (must_retry(r))
		BIO_set_retry_write(bio);
	return (int)r;
}

static int bio_read(BIO *bio, char *bytes, int n)
{
	struct tls_socket *sock = BIO_get_data(bio);
	ssize_t r;

	BIO_clear_retry_flags(bio);
	if (sock->reads_left <= 0) {
		BIO_set_retry_read(bio);
		return -1;
	}
	r = recv(sock->fd, bytes, (size_t)n, MSG_DONTWAIT);
	sock->reads_left = must_retry(r) ? -1 : sock->reads_left - 1;
	if (must_retry(r))
		BIO_set_retry_read(bio);
	if (r == 0)
		BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
	return (int)r;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
	switch (command) {
	case BIO_CTRL_FLUSH:
		return 1;
	case BIO_CTRL_EOF:
		return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
	default:
		return 0;
	}
}

static int bio_destroy(BIO *bio)
{
	free(BIO_get_data(bio));
	return 1;
}

/* For BIOs that never raise SIGPIPE: OpenSSL's own use write(2). BIO_meth_free() after the last of them. */
static BIO_METHOD *tls_bio_method_new(void)
{
	BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "holdfast socket");

	if (!method)
		return NULL;
	BIO_meth_set_write(method, bio_write);
	BIO_meth_set_read(method, bio_read);
	BIO_meth_set_ctrl(method, bio_ctrl);
	BIO_meth_set_destroy(method, bio_destroy);
	return method;
}

/* A BIO on @fd, which it does not own; NULL when memory is short. */
static BIO *tls_bio_new(const BIO_METHOD *method, int fd)
{
	BIO *bio = BIO_new(method);
	struct tls_socket *sock = bio ? malloc(sizeof(*sock)) : NULL;

	if (!sock) {
		BIO_free(bio);
		return NULL;
	}
	*sock = (struct tls_socket){.fd = fd};
	BIO_set_data(bio, sock);
	BIO_set_init(bio, 1);
	return bio;
}

enum { TLS_TEXT_SIZE = 256 };

/* Changes when a file is replaced. */
struct version {
	dev_t dev;
	ino_t ino;
	off_t size;
	struct timespec changed;
};

enum { FILES_N = 3 };

struct rpc_tls {
	char *ca;   /* NULL: pinned */
	char *cert; /* NULL: no identity */
	char *key;
	bool is_pinned;
	uint8_t pin[RPC_TLS_SHA256_SIZE];
	bool has_anchor;
	uint8_t anchor[RPC_TLS_SHA256_SIZE];
	struct version versions[FILES_N]; /* of ca, cert and key, before they were read last */
	SSL_CTX *server;		  /* NULL without identity */
	SSL_CTX *client;
	BIO_METHOD *bio_method;
};

/* The content of the files. */
struct material {
	STACK_OF(X509) * ca;
	STACK_OF(X509) * chain; /* NULL: no identity */
	EVP_PKEY *key;
};

static void material_release(struct material *m)
{
	sk_X509_pop_free(m->ca, X509_free);
	sk_X509_pop_free(m->chain, X509_free);
	EVP_PKEY_free(m->key);
}

DEFINE_CLEANUP(SSL_CTX, SSL_CTX_free)

static enum status material_load(const struct rpc_tls *tls, struct material *m, struct error *err)
{
	enum status status = tls->ca ? pem_read_certs(tls->ca, &m->ca, err) : STATUS_OK;

	if (status != STATUS_OK || !tls->cert)
		return status;
	TRY(pem_read_certs(tls->cert, &m->chain, err));
	TRY(pem_read_key(tls->key, &m->key, err));
	if (X509_check_private_key(sk_X509_value(m->chain, 0), m->key) != 1) {
		ERR_clear_error();
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "the key %s does not belong to the certificate %s", tls->key, tls->cert);
	}
	return STATUS_OK;
}

static X509 *issuer_of(const struct material *m, X509 *cert)
{
	for (int i = 0; i < sk_X509_num(m->ca); i++) {
		X509 *ca = sk_X509_value(m->ca, i);

		if (X509_check_issued(ca, cert) == X509_V_OK && X509_cmp(ca, cert) != 0)
			return ca;
	}
	return NULL;
}

/* The CA of the file where the chain ends for peers that trust the same file: further links are for others.
 * NULL if the file lacks it, or the chain has it. */
static X509 *anchor_of(const struct material *m)
{
	X509 *ca = NULL;

	for (int i = 0; m->chain && i < sk_X509_num(m->chain) && !ca; i++)
		ca = issuer_of(m, sk_X509_value(m->chain, i));
	return ca;
}

static bool use_material(SSL_CTX *ctx, const struct material *m)
{
	X509_STORE *store = SSL_CTX_get_cert_store(ctx);

	for (int i = 0; i < sk_X509_num(m->ca); i++)
		if (X509_STORE_add_cert(store, sk_X509_value(m->ca, i)) != 1)
			return false;
	if (!m->chain)
		return true;
	if (SSL_CTX_use_certificate(ctx, sk_X509_value(m->chain, 0)) != 1 ||
	    SSL_CTX_use_PrivateKey(ctx, m->key) != 1)
		return false;
	for (int i = 1; i < sk_X509_num(m->chain); i++)
		if (SSL_CTX_add1_chain_cert(ctx, sk_X509_value(m->chain, i)) != 1)
			return false;
	return true;
}

static int on_select_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
			  const unsigned char *offered, unsigned int n, void *userdata)
{
	static const unsigned char spoken[] = "\x02h2\x08http/1.1";
	unsigned char *chosen = NULL;

	if (SSL_select_next_proto(&chosen, out_len, spoken, sizeof(spoken) - 1, offered, n) !=
	    OPENSSL_NPN_NEGOTIATED)
		return SSL_TLSEXT_ERR_ALERT_FATAL;
	*out = chosen;
	return SSL_TLSEXT_ERR_OK;
}

/* Both roles: only TLS 1.3, peers verified, no resumption (a session would outlive the check of a
 * certificate). */
static SSL_CTX *context_new(const SSL_METHOD *method, const struct material *m)
{
	cleanup(SSL_CTX_freep) SSL_CTX *ctx = SSL_CTX_new(method);

	if (!ctx || SSL_CTX_set_min_proto_version(ctx, TLS1_3_VERSION) != 1 || !use_material(ctx, m))
		return NULL;
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	(void)SSL_CTX_set_options(ctx, SSL_OP_CLEANSE_PLAINTEXT);
	(void)SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
					    SSL_MODE_RELEASE_BUFFERS);
	(void)SSL_CTX_clear_mode(ctx, SSL_MODE_AUTO_RETRY); /* one message a call */
	return TAKE_PTR(ctx);
}

static SSL_CTX *server_context_new(const struct material *m)
{
	cleanup(SSL_CTX_freep) SSL_CTX *ctx = context_new(TLS_server_method(), m);
	static const unsigned char id[] = "holdfast";
	X509 *anchor = anchor_of(m);

	/* a node that enrols knows only the digest of the CA */
	if (!ctx || (anchor && SSL_CTX_add1_chain_cert(ctx, anchor) != 1) ||
	    SSL_CTX_set_num_tickets(ctx, 0) != 1 ||
	    SSL_CTX_set_session_id_context(ctx, id, sizeof(id) - 1) != 1)
		return NULL;
	/* clients with several certificates choose by these names */
	for (int i = 0; i < sk_X509_num(m->ca); i++)
		if (SSL_CTX_add_client_CA(ctx, sk_X509_value(m->ca, i)) != 1)
			return NULL;
	SSL_CTX_set_alpn_select_cb(ctx, on_select_alpn, NULL);
	return TAKE_PTR(ctx);
}

static bool digest_of(const X509 *cert, uint8_t ret[static RPC_TLS_SHA256_SIZE])
{
	unsigned int n = 0;

	return X509_digest(cert, EVP_sha256(), ret, &n) == 1 && n == RPC_TLS_SHA256_SIZE;
}

/* The peer's chain must lead to a CA with the digest, which it shows itself. */
static int verify_pinned(X509_STORE_CTX *store, void *userdata)
{
	const struct rpc_tls *tls = userdata;
	STACK_OF(X509) *shown = X509_STORE_CTX_get0_untrusted(store);
	STACK_OF(X509) *trusted = sk_X509_new_null();
	uint8_t digest[RPC_TLS_SHA256_SIZE];
	int ok = 0;

	for (int i = 0; trusted && i < sk_X509_num(shown); i++)
		if (digest_of(sk_X509_value(shown, i), digest) &&
		    CRYPTO_memcmp(digest, tls->pin, sizeof(digest)) == 0)
			(void)sk_X509_push(trusted, sk_X509_value(shown, i));
	if (sk_X509_num(trusted) > 0) {
		X509_STORE_CTX_set0_trusted_stack(store, trusted);
		ok = X509_verify_cert(store) == 1;
	} else {
		X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
	}
	sk_X509_free(trusted);
	return ok;
}

static SSL_CTX *client_context_new(struct rpc_tls *tls, const struct material *m)
{
	cleanup(SSL_CTX_freep) SSL_CTX *ctx = context_new(TLS_client_method(), m);
	static const unsigned char h2[] = "\x02h2";

	if (ctx && tls->is_pinned)
		SSL_CTX_set_cert_verify_callback(ctx, verify_pinned, tls);
	if (!ctx || SSL_CTX_set_alpn_protos(ctx, h2, sizeof(h2) - 1) != 0)
		return NULL;
	return TAKE_PTR(ctx);
}

static void look_at_files(const struct rpc_tls *tls, struct version ret[static FILES_N])
{
	const char *paths[FILES_N] = {tls->ca, tls->cert, tls->key};
	struct stat st;

	memset(ret, 0, FILES_N * sizeof(*ret));
	for (int i = 0; i < FILES_N; i++)
		if (paths[i] && stat(paths[i], &st) == 0) {
			ret[i].dev = st.st_dev;
			ret[i].ino = st.st_ino;
			ret[i].size = st.st_size;
			ret[i].changed = st.st_ctim;
		}
}

bool rpc_tls_has_changed(const struct rpc_tls *tls)
{
	struct version now[FILES_N];

	look_at_files(tls, now);
	return memcmp(now, tls->versions, sizeof(now)) != 0;
}

bool rpc_tls_anchor(const struct rpc_tls *tls, uint8_t ret[static RPC_TLS_SHA256_SIZE])
{
	if (tls->has_anchor)
		memcpy(ret, tls->anchor, RPC_TLS_SHA256_SIZE);
	return tls->has_anchor;
}

enum status rpc_tls_reload(struct rpc_tls *tls, struct error *err)
{
	cleanup(material_release) struct material m = {0};
	cleanup(SSL_CTX_freep) SSL_CTX *server = NULL;
	cleanup(SSL_CTX_freep) SSL_CTX *client = NULL;
	char text[TLS_TEXT_SIZE];
	const X509 *anchor;

	look_at_files(tls, tls->versions); /* before they are read: what comes later is a change */
	TRY(material_load(tls, &m, err));
	ERR_clear_error();
	client = client_context_new(tls, &m);
	if (m.chain)
		server = server_context_new(&m);
	if (!client || (m.chain && !server))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "TLS with CA %s and certificate %s: %s",
				 tls->ca ? tls->ca : "(pinned)", tls->cert ? tls->cert : "(none)",
				 tls_error_text(text, sizeof(text)));
	anchor = anchor_of(&m);
	tls->has_anchor = anchor && digest_of(anchor, tls->anchor);
	/* sessions hold a reference to the context they came from */
	SSL_CTX_free(tls->server);
	SSL_CTX_free(tls->client);
	tls->server = TAKE_PTR(server);
	tls->client = TAKE_PTR(client);
	return STATUS_OK;
}

DEFINE_CLEANUP(struct rpc_tls, rpc_tls_free)

static char *copy(const char *text)
{
	return text ? strdup(text) : NULL;
}

static enum status set_files(struct rpc_tls *tls, const struct rpc_tls_files *files, struct error *err)
{
	assert(files->ca || files->ca_sha256);

	if (!files->cert != !files->key)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "TLS %s %s lacks its %s",
				 files->cert ? "certificate" : "key", files->cert ? files->cert : files->key,
				 files->cert ? "key" : "certificate");
	tls->ca = copy(files->ca);
	tls->cert = copy(files->cert);
	tls->key = copy(files->key);
	tls->is_pinned = !files->ca;
	if (tls->is_pinned)
		memcpy(tls->pin, files->ca_sha256, sizeof(tls->pin));
	if (!tls->ca != !files->ca || !tls->cert != !files->cert || !tls->key != !files->key)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "load TLS files");
	return STATUS_OK;
}

enum status rpc_tls_new(const struct rpc_tls_files *files, struct rpc_tls **ret, struct error *err)
{
	cleanup(rpc_tls_freep) struct rpc_tls *tls = calloc(1, sizeof(*tls));

	if (!tls || !(tls->bio_method = tls_bio_method_new()))
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "load TLS files");
	TRY(set_files(tls, files, err));
	TRY(rpc_tls_reload(tls, err));
	*ret = TAKE_PTR(tls);
	return STATUS_OK;
}

enum status rpc_tls_use(struct rpc_tls *tls, const struct rpc_tls_files *files, struct error *err)
{
	cleanup(rpc_tls_freep) struct rpc_tls *other = NULL;
	struct rpc_tls before = *tls;

	assert(files->ca && !tls->is_pinned);
	TRY(rpc_tls_new(files, &other, err));
	*tls = *other; /* each has what the other had, but for the method of the open connections */
	tls->bio_method = before.bio_method;
	before.bio_method = other->bio_method;
	*other = before;
	return STATUS_OK;
}

void rpc_tls_free(struct rpc_tls *tls)
{
	if (!tls)
		return;
	SSL_CTX_free(tls->server);
	SSL_CTX_free(tls->client);
	BIO_meth_free(tls->bio_method);
	free(tls->ca);
	free(tls->cert);
	free(tls->key);
	free(tls);
}

static enum status session_new(const struct rpc_tls *tls, SSL_CTX *ctx, int fd, SSL **ret, struct error *err)
{
	SSL *ssl = SSL_new(ctx);
	BIO *bio = ssl ? tls_bio_new(tls->bio_method, fd) : NULL;

	if (!bio) {
		SSL_free(ssl);
		ERR_clear_error();
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "start a TLS session");
	}
	SSL_set_bio(ssl, bio, bio);
	*ret = ssl;
	return STATUS_OK;
}

enum status tls_session_check_server(const struct rpc_tls *tls, struct error *err)
{
	return tls->server ? STATUS_OK
			   : error_set(err, STATUS_FAILED_PRECONDITION, 0,
				       "TLS with the CA %s has no certificate to serve with", tls->ca);
}

enum status tls_session_accept(struct rpc_tls *tls, int fd, SSL **ret, struct error *err)
{
	TRY(tls_session_check_server(tls, err));
	TRY(session_new(tls, tls->server, fd, ret, err));
	SSL_set_accept_state(*ret);
	return STATUS_OK;
}

enum status tls_session_connect(struct rpc_tls *tls, int fd, SSL **ret, struct error *err)
{
	TRY(session_new(tls, tls->client, fd, ret, err));
	SSL_set_connect_state(*ret);
	return STATUS_OK;
}

static struct tls_socket *socket_of(const SSL *ssl)
{
	return BIO_get_data(SSL_get_rbio(ssl));
}

void tls_session_begin(SSL *ssl)
{
	ERR_clear_error();
	errno = 0;
	socket_of(ssl)->reads_left = READS_MAX;
}

bool tls_session_has_unread(const SSL *ssl)
{
	return socket_of(ssl)->reads_left >= 0;
}
