/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/tls_bio.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

static bool must_retry(ssize_t r)
{
	return r < 0 && (errno == EAGAIN || errno == EINTR);
}

static int socket_fd(BIO *bio)
{
	return (int)(intptr_t)BIO_get_data(bio);
}

static int bio_write(BIO *bio, const char *bytes, int n)
{
	ssize_t r = send(socket_fd(bio), bytes, (size_t)n, MSG_NOSIGNAL | MSG_DONTWAIT);

	BIO_clear_retry_flags(bio);
	if (must_retry(r))
		BIO_set_retry_write(bio);
	return (int)r;
}

static int bio_read(BIO *bio, char *bytes, int n)
{
	ssize_t r = recv(socket_fd(bio), bytes, (size_t)n, MSG_DONTWAIT);

	BIO_clear_retry_flags(bio);
	if (must_retry(r))
		BIO_set_retry_read(bio);
	if (r == 0)
		BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
	return (int)r;
}

static long bio_ctrl(BIO *bio, int command, long number, void *pointer)
{
	(void)number;
	(void)pointer;
	switch (command) {
	case BIO_CTRL_FLUSH:
		return 1;
	case BIO_CTRL_EOF:
		return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
	default:
		return 0;
	}
}

BIO_METHOD *tls_bio_method_new(void)
{
	BIO_METHOD *method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "holdfast socket");

	if (!method)
		return NULL;
	BIO_meth_set_write(method, bio_write);
	BIO_meth_set_read(method, bio_read);
	BIO_meth_set_ctrl(method, bio_ctrl);
	return method;
}

BIO *tls_bio_new(const BIO_METHOD *method, int fd)
{
	BIO *bio = BIO_new(method);

	if (!bio)
		return NULL;
	BIO_set_data(bio, (void *)(intptr_t)fd);
	BIO_set_init(bio, 1);
	return bio;
}
