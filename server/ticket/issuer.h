/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Makes and signs tickets for the mount helper. */

#include "base/error.h"
#include "model/claim.h"
#include "model/volume.h"

#include <stdbool.h>
#include <stdint.h>
#include <ticket.h>

struct ticket_issuer;

/** Make a new Ed25519 key: @key_path (PEM, 0600). An existing file is STATUS_ALREADY_EXISTS. */
enum status ticket_key_make(const char *key_path, struct error *err);

/** Load the key. Refused when others than its owner can read it. @ret owned by the caller. */
enum status ticket_issuer_new(const char *key_path, const char *cluster, struct ticket_issuer **ret,
			      struct error *err);
void ticket_issuer_free(struct ticket_issuer *issuer);

/** The public key that helpers' policies must name. */
void ticket_issuer_public_key(const struct ticket_issuer *issuer, uint8_t ret[static TICKET_KEY_SIZE]);

/** ticket_issue() without the signature. */
enum status ticket_make(const struct ticket_issuer *issuer, const struct claim *claim,
			const struct volume *volume, int64_t not_after_ms, struct ticket *ret,
			struct error *err);

/** Sign what @tickets say, 1 to TICKET_BATCH_MAX of them, with one signature; from any thread. */
void ticket_sign_all(const struct ticket_issuer *issuer, struct ticket *const *tickets, size_t n);

/** The same for one. */
void ticket_sign(const struct ticket_issuer *issuer, struct ticket *ticket);

enum { TICKET_MAC_SIZE = 32 };

/** A code of @data, which begins with what it is for, that only this key makes. */
void ticket_issuer_mac(const struct ticket_issuer *issuer, const void *data, size_t len,
		       uint8_t ret[static TICKET_MAC_SIZE]);

/** Was @ticket made with this key, for this cluster? */
bool ticket_is_ours(const struct ticket_issuer *issuer, const struct ticket *ticket);

/** What @claim, which must be held, allows its node to do with @volume until @not_after_ms. It is of the
 * volume's generation now: the newest among those who hold it together. */
enum status ticket_issue(const struct ticket_issuer *issuer, const struct claim *claim,
			 const struct volume *volume, int64_t not_after_ms, struct ticket *ret,
			 struct error *err);
