/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Socket input and output for OpenSSL that never raises SIGPIPE (its own uses write(2)). */

#include <openssl/bio.h>

/** Owned by the caller, BIO_meth_free(), after the last BIO made from it; NULL when memory is short. */
BIO_METHOD *tls_bio_method_new(void);

/** A BIO on @fd, which it does not own; NULL when memory is short. */
BIO *tls_bio_new(const BIO_METHOD *method, int fd);
