/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* PEM files of keys and certificates, read whole and checked. Messages name the file. */

#include "base/error.h"

#include <openssl/evp.h>
#include <openssl/x509.h>
#include <stdbool.h>
#include <stddef.h>

/** @ret owned by the caller, EVP_PKEY_free(). A file that its group or others may read is
 * STATUS_FAILED_PRECONDITION; an encrypted key is refused without asking for a pass phrase. */
enum status pem_read_key(const char *path, EVP_PKEY **ret, struct error *err);

/** All certificates of the file in their order, at least one.
 * @ret owned by the caller, sk_X509_pop_free(ret, X509_free) */
enum status pem_read_certs(const char *path, STACK_OF(X509) * *ret, struct error *err);

/** The same of a text. False: it has no certificate, or a broken one. */
bool pem_parse_certs(const char *pem, size_t len, STACK_OF(X509) * *ret);
