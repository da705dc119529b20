/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Tickets for the mount helper: made, and signed by a thread while their claims are on their way to the disk,
 * one signature for a batch of them (docs/adr/14). */

#include "base/error.h"
#include "model/claim.h"
#include "model/volume.h"

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <ticket.h>

struct ticket_issuer;

/** Makes a new Ed25519 key: @key_path (PEM, 0600). An existing file is STATUS_ALREADY_EXISTS. */
enum status ticket_key_make(const char *key_path, struct error *err);

/** Loads the key. Refused when others than its owner can read it. @ret owned by the caller. */
enum status ticket_issuer_new(const char *key_path, const char *cluster, struct ticket_issuer **ret,
			      struct error *err);
void ticket_issuer_free(struct ticket_issuer *issuer);

/** The public key that helpers' policies must name: of the key in use. */
void ticket_issuer_public_key(const struct ticket_issuer *issuer, uint8_t ret[static TICKET_KEY_SIZE]);

/** That of the key's file, which is the one in use until another one was made. */
void ticket_issuer_file_key(const struct ticket_issuer *issuer, uint8_t ret[static TICKET_KEY_SIZE]);

/* Further keys, made here and stored encrypted ("wrapped") with a key that is derived from the file's. */

enum { TICKET_WRAPPED_SIZE = 72, TICKET_WRAP_OVERHEAD = 40 };

/** Makes and remembers a key. Nothing is signed with it before ticket_issuer_use(). */
enum status ticket_issuer_make_key(struct ticket_issuer *issuer, uint8_t ret_public[static TICKET_KEY_SIZE],
				   uint8_t ret_wrapped[static TICKET_WRAPPED_SIZE], struct error *err);

/** Remembers a key that was stored. STATUS_FAILED_PRECONDITION: it was wrapped with another file's key. */
enum status ticket_issuer_add_key(struct ticket_issuer *issuer, const uint8_t *wrapped, size_t n,
				  struct error *err);

/** Encrypts @len bytes into @len + TICKET_WRAP_OVERHEAD at @ret, with the key that is derived from the
 * file's.
 */
enum status ticket_issuer_wrap(const struct ticket_issuer *issuer, const void *data, size_t len, uint8_t *ret,
			       struct error *err);

/** Decrypts it into @n - TICKET_WRAP_OVERHEAD bytes. False: it was encrypted with another key, or changed. */
bool ticket_issuer_unwrap(const struct ticket_issuer *issuer, const uint8_t *wrapped, size_t n, void *ret);

/** Is it the file's key, or a further one that was made or added here? */
bool ticket_issuer_has(const struct ticket_issuer *issuer, const uint8_t public_key[static TICKET_KEY_SIZE]);

/** Signs with this key from now on; false: it is not known. */
bool ticket_issuer_use(struct ticket_issuer *issuer, const uint8_t public_key[static TICKET_KEY_SIZE]);

enum { TICKET_KEY_HEX_SIZE = 2 * TICKET_KEY_SIZE + 1 };

/** ticket_issuer_file_key() as a text. */
void ticket_issuer_hex(const struct ticket_issuer *issuer, char ret[static TICKET_KEY_HEX_SIZE]);

/** ticket_issue() without the signature. */
enum status ticket_make(const struct ticket_issuer *issuer, const struct claim *claim,
			const struct volume *volume, int64_t not_after_ms, struct ticket *ret,
			struct error *err);

/** Signs @tickets, 1 to TICKET_BATCH_MAX of them, with one signature; from any thread. */
void ticket_sign_all(const struct ticket_issuer *issuer, struct ticket *const *tickets, size_t n);

/** The same for one. */
void ticket_sign(const struct ticket_issuer *issuer, struct ticket *ticket);

enum { TICKET_MAC_SIZE = 32 };

/** A code of @data, which begins with what it is for, that only this key makes. */
void ticket_issuer_mac(const struct ticket_issuer *issuer, const void *data, size_t len,
		       uint8_t ret[static TICKET_MAC_SIZE]);

/** Signs @data, which begins with a magic of its own, with the key of tickets (RFC 8032). */
void ticket_issuer_sign(const struct ticket_issuer *issuer, const void *data, size_t len,
			uint8_t ret[static TICKET_SIGNATURE_SIZE]);

/** Was @ticket made with one of these keys, for this cluster? A ticket does not name its key, so each is
 * tried, the last one that fitted first: a node's tickets have few different ones. */
bool ticket_is_ours(struct ticket_issuer *issuer, const struct ticket *ticket);

/** Does it know the key, in use or not, whose public half begins with these bytes? */
bool ticket_issuer_knows_key(const struct ticket_issuer *issuer, const uint8_t id[static TICKET_KEY_ID_SIZE]);

/** Makes a ticket with the rights that @claim, which must be held, gives its node on @volume until
 * @not_after_ms. It has the volume's present generation: the newest among claims that hold it together. */
enum status ticket_issue(const struct ticket_issuer *issuer, const struct claim *claim,
			 const struct volume *volume, int64_t not_after_ms, struct ticket *ret,
			 struct error *err);

/* Tickets that are signed while their claims are on their way to the disk, with one signature for as many as
 * one may be for: signing costs as much as the rest of a grant. A signature that is made leaves the server
 * only with the answer, so when that is sent is not decided here. */

struct ticket_signer; /* a thread */
struct ticket_ahead;  /* one ticket; of the event loop's thread */

/** @issuer borrowed, must outlive it. @ret owned by the caller. */
enum status ticket_signer_new(const struct ticket_issuer *issuer, struct ticket_signer **ret,
			      struct error *err);

/** NULL is allowed. Every ticket must have been freed. */
void ticket_signer_free(struct ticket_signer *signer);

/** Lets @ticket be signed, which is copied. Owned by the caller; NULL when memory is short: then it is signed
 * when it is needed. */
struct ticket_ahead *ticket_ahead_new(struct ticket_signer *signer, const struct ticket *ticket);

/** NULL is allowed. */
void ticket_ahead_free(struct ticket_ahead *ahead);

/** Returns the ticket, signed, if it is of @generation. NULL is allowed. Signs it here if the signer's
 * thread still waits for a full batch. @ret untouched when false. */
bool ticket_ahead_take(struct ticket_ahead *ahead, uint64_t generation, struct ticket *ret);

/* The Merkle tree of a batch, as proto/ticket.h has it. Pure; for the tests that compare it with the mount
 * helper's. */

/** Makes @tickets, 1 to TICKET_BATCH_MAX of them whose bodies are complete, the leaves of a tree: sets
 * their place and path. Returns the root to sign. */
struct ticket_root ticket_tree_make(const EVP_MD *sha256, struct ticket *const *tickets, size_t n);

/** Computes the root of the tree from @ticket's leaf, place and path. False if they are not in canonical
 * form; @ret is undefined then. */
bool ticket_tree_root(const EVP_MD *sha256, const struct ticket *ticket, struct ticket_root *ret);
