/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A small certificate authority: EC P-256 keys, URI identities in subjectAltName. */

#include "base/error.h"
#include "rpc/peer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	PKI_DAYS_MAX = 36500,
	PKI_CLUSTER_SIZE = 62, /* with " CA" it is a common name */
	PKI_HOST_SIZE = 256,
	PKI_SKEW_S = 300, /* clocks of machines differ: certificates are dated back by this */
	/* So one of an issuer whose clock is ahead may be valid, and counts as issued up to so much later.
	 * The second that is missing lets the next one, which counts as issued after that, be valid at once.
	 */
	PKI_AHEAD_MS = (PKI_SKEW_S - 1) * 1000,
};

struct pki_cert_request {
	const char *uri;	      /* "holdfast://CLUSTER/node/NAME" */
	const char *common_name;      /* for people */
	const char *const *dns_names; /* may be empty */
	size_t n_dns_names;
	const char *const *ip_addresses;
	size_t n_ip_addresses;
	unsigned int days; /* validity from now */
	uint64_t life_s;   /* the same in seconds, cut at the end of the CA; 0: days */
	int64_t after_ms;  /* it counts as issued after this; 0: now */
	const char *like;  /* file of a certificate of the same URI, whose other names it gets too; or NULL */
};

/** Make a CA: writes @key_path (0600) and @cert_path (0644), both atomically. Existing files are kept and
 * STATUS_ALREADY_EXISTS is returned. */
enum status pki_make_ca(const char *key_path, const char *cert_path, const char *cluster, struct error *err);

/** The same for a CA that is valid for @days, at most PKI_DAYS_MAX. */
enum status pki_make_ca_for(const char *key_path, const char *cert_path, const char *cluster,
			    unsigned int days, struct error *err);

/** Make an Ed25519 key: writes @path (0600), atomically. An existing file is kept and STATUS_ALREADY_EXISTS
 * is returned. */
enum status pki_make_signing_key(const char *path, struct error *err);

/** Issue a certificate from the CA; same rules for the files it writes. One that would outlive the CA is
 * STATUS_INVALID_ARGUMENT. */
enum status pki_issue(const char *ca_key_path, const char *ca_cert_path,
		      const struct pki_cert_request *request, const char *key_path, const char *cert_path,
		      struct error *err);

/* Facts about a file of certificates. */
struct pki_facts {
	char uri[RPC_URI_SIZE];	      /* identity of the first one; empty without one */
	char host[PKI_HOST_SIZE];     /* first name or address of a machine in it; empty without one */
	char serial[RPC_SERIAL_SIZE]; /* of the first one */
	char issuer[RPC_KEY_ID_SIZE]; /* identifier of the key that signed the first one; may be empty */
	size_t n;		      /* certificates */
	int64_t issued_ms;	      /* the first one */
	int64_t expires_ms;	      /* the first one */
	int64_t last_expires_ms;      /* the one that expires last; 0: not known */
};

enum status pki_read_facts(const char *cert_path, struct pki_facts *ret, struct error *err);

/** The same of the first certificate of a text in PEM. */
enum status pki_pem_facts(const char *pem, struct pki_facts *ret, struct error *err);

/** When the end of the first certificate becomes a problem: 30 days before, or in the last quarter of a
 * shorter life, so that one that is renewed in time is never named. Pure. 0: its end is not known. */
int64_t pki_warns_at_ms(const struct pki_facts *facts);

/* A CA that is held open, to sign what others ask for. */
struct pki_ca;

/** @cert_path: the first certificate is the CA's, further ones link it to the root.
 * @ret owned by the caller, pki_ca_free() */
enum status pki_ca_open(const char *key_path, const char *cert_path, struct pki_ca **ret, struct error *err);
void pki_ca_free(struct pki_ca *ca);

/** The same of texts in PEM; @cert may have links to the root after the CA's certificate. */
enum status pki_ca_read(const char *key, const char *cert, struct pki_ca **ret, struct error *err);

/** Make a CA like that of pki_make_ca(), as texts in PEM. On success and on failure both are owned by the
 * caller: @ret_key by pki_key_free(), @ret_cert by free(); NULL before. */
enum status pki_make_ca_pem(const char *cluster, char **ret_key, char **ret_cert, struct error *err);

/** Identifier of the CA's key, which its certificates name as that of their issuer; may be empty. */
const char *pki_ca_key_id(const struct pki_ca *ca);

/** Link @ca to @former, for peers that trust only @former: a certificate of the key of @ca that @former
 * signs, and what links @former to its root. Both have the same subject, so no path length counts it.
 * @ret_pem owned by the caller, free() */
enum status pki_ca_cross(const struct pki_ca *former, const struct pki_ca *ca, char **ret_pem,
			 struct error *err);

/** Have their certificates the same subject? Only then one renews what the other has issued. */
bool pki_ca_has_same_name(const struct pki_ca *a, const struct pki_ca *b);

/** How many certificates of the file are of other CAs: neither @ca, nor one of those that it depends on. 0
 * too when the file cannot be read. */
size_t pki_ca_count_others(const struct pki_ca *ca, const char *path);

/** 0: not known */
int64_t pki_ca_expires_ms(const struct pki_ca *ca);

enum { PKI_CSR_MAX = 8192, PKI_PEM_MAX = 65536 };

/** Sign the key of @csr (PEM), which must prove that it has it, for @request only: the rest of
 * the CSR is ignored. STATUS_INVALID_ARGUMENT for a key that is not EC P-256, P-384 or Ed25519.
 * @ret_pem the certificate and those that link it to the root; owned by the caller, free() */
enum status pki_ca_sign(const struct pki_ca *ca, const struct pki_cert_request *request, const char *csr,
			char **ret_pem, struct pki_facts *ret_facts, struct error *err);

enum { PKI_KEY_DIGEST_SIZE = 32 };

/** SHA-256 of the key of @csr, with the checks of pki_ca_sign(). */
enum status pki_request_digest(const char *csr, uint8_t ret[static PKI_KEY_DIGEST_SIZE], struct error *err);

/** Make a key, and the request for its certificate; both PEM, owned by the caller: @ret_key by
 * pki_key_free().
 */
enum status pki_make_request(char **ret_key, char **ret_csr, struct error *err);

/** Wipes it. NULL is allowed. */
void pki_key_free(char *key);

/** Does @cert (PEM, with its chain) belong to @key (PEM), name @uri, and do the CAs @ca (PEM) trust it now?
 * STATUS_FAILED_PRECONDITION names the reason. */
enum status pki_check_pair(const char *cert, const char *key, const char *uri, const char *ca,
			   struct error *err);

/** Only the last of these questions, at any time. */
enum status pki_check_issuer(const char *cert, const char *ca, struct error *err);

/** When the first certificate of the file expires.
 * @ret_realtime_ms since the epoch */
enum status pki_expiry(const char *cert_path, int64_t *ret_realtime_ms, struct error *err);

/** The cluster that pki_make_ca() was given; STATUS_INVALID_ARGUMENT for a CA made by others. */
enum status pki_ca_cluster(const char *cert_path, char ret[static PKI_CLUSTER_SIZE], struct error *err);
