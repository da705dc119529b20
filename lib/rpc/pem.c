/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/pem.h"

#include "base/cleanup.h"
#include "base/credential.h"
#include "base/fd.h"
#include "rpc/tls_session.h"

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PEM_FILE_MAX = 1024 * 1024, TLS_TEXT_SIZE = 256 };

DEFINE_CLEANUP(BIO, BIO_free)

/* OpenSSL would ask on the terminal. */
static int no_pass_phrase(char *buffer, int size, int writing, void *userdata)
{
	return -1;
}

static enum status check_private(int fd, const char *path, struct error *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return error_set(err, STATUS_INTERNAL, errno, "look at the key file %s", path);
	if (!S_ISREG(st.st_mode))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "the key file %s is not a regular file",
				 path);
	if (!credential_is_private(path, &st))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "the key file %s is open to others than its owner (mode %04o): chmod 600 %s",
				 path, st.st_mode & 07777U, path);
	return STATUS_OK;
}

static enum status read_file(int fd, const char *what, const char *path, char **ret, size_t *ret_len,
			     struct error *err)
{
	int r = fd < 0 ? -errno : fd_read_all(fd, PEM_FILE_MAX, ret, ret_len);

	if (r == -ENOENT)
		return error_set(
			err, status_from_errno(r), 0,
			"there is no %s file %s: copy it there; holdfast operator cert lists the files", what,
			path);
	if (r == -EACCES)
		return error_set(
			err, status_from_errno(r), r,
			"the %s file %s is not for uid %u to read: give it to that account, or keep a "
			"daemon's key in /etc/credstore, see CREDENTIALS in its manual",
			what, path, geteuid());
	return r < 0 ? error_set(err, status_from_errno(r), r, "read the %s file %s", what, path) : STATUS_OK;
}

enum status pem_read_key(const char *path, EVP_PKEY **ret, struct error *err)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	cleanup(BIO_freep) BIO *bio = NULL;
	char text[TLS_TEXT_SIZE];
	char *pem = NULL;
	size_t len = 0;
	EVP_PKEY *key;

	if (fd >= 0)
		TRY(check_private(fd, path, err));
	TRY(read_file(fd, "key", path, &pem, &len, err));
	ERR_clear_error();
	bio = BIO_new_mem_buf(pem, (int)len);
	key = bio ? PEM_read_bio_PrivateKey(bio, NULL, no_pass_phrase, NULL) : NULL;
	OPENSSL_cleanse(pem, len);
	free(pem);
	if (!key)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "the key file %s holds no readable private key without a pass phrase: %s",
				 path, tls_error_text(text, sizeof(text)));
	*ret = key;
	return STATUS_OK;
}

static void free_certs(STACK_OF(X509) * certs)
{
	sk_X509_pop_free(certs, X509_free);
}

/* Move every certificate of @bio to @certs; false at the first that is broken. */
static bool collect(BIO *bio, STACK_OF(X509) * certs)
{
	for (;;) {
		X509 *cert = PEM_read_bio_X509(bio, NULL, no_pass_phrase, NULL);

		if (!cert)
			break;
		if (sk_X509_push(certs, cert) == 0) {
			X509_free(cert);
			return false;
		}
	}
	return ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
}

bool pem_parse_certs(const char *pem, size_t len, STACK_OF(X509) * *ret)
{
	cleanup(BIO_freep) BIO *bio = BIO_new_mem_buf(pem, (int)len);
	STACK_OF(X509) *certs = sk_X509_new_null();

	ERR_clear_error();
	if (!bio || !certs || !collect(bio, certs) || sk_X509_num(certs) == 0) {
		free_certs(certs);
		return false;
	}
	ERR_clear_error();
	*ret = certs;
	return true;
}

enum status pem_read_certs(const char *path, STACK_OF(X509) * *ret, struct error *err)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	cleanup_free char *pem = NULL;
	char text[TLS_TEXT_SIZE];
	size_t len = 0;

	TRY(read_file(fd, "certificate", path, &pem, &len, err));
	if (pem_parse_certs(pem, len, ret))
		return STATUS_OK;
	return error_set(err, STATUS_INVALID_ARGUMENT, 0, "the file %s holds no readable certificate: %s",
			 path, tls_error_text(text, sizeof(text)));
}
