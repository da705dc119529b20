/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Orders as bytes: read, digested, signed, verified. Pure; the driver keeps the used ones. */

#include "base/error.h"

#include <order.h>
#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Read an order in its one form: size, magic, version, a known kind, texts padded with zeroes, names that
 * are names. Its signature is not looked at. STATUS_INVALID_ARGUMENT names the field. */
enum status order_read(const void *bytes, size_t n, struct order *ret, struct error *err);

/** SHA-256 of the @n bytes that are ordered. */
void order_digest(const void *bytes, size_t n, uint8_t ret[static ORDER_DIGEST_SIZE]);

/** Are these bytes what packing @message, read from them, gives, is there no field in them that it does not
 * know, and is every text in them UTF-8? */
bool order_is_canonical(const ProtobufCMessage *message, const void *bytes, size_t n);

/** Sign with the private key of 32 bytes (RFC 8032: the seed). */
enum status order_sign(struct order *order, const uint8_t seed[static ORDER_KEY_SIZE], struct error *err);

/** Is @signature that of @key for these bytes? */
bool order_bytes_are_signed(const void *bytes, size_t n, const uint8_t signature[static ORDER_SIGNATURE_SIZE],
			    const uint8_t key[static ORDER_KEY_SIZE]);

/** Is the signature that of @key? */
bool order_is_signed(const struct order *order, const uint8_t key[static ORDER_KEY_SIZE]);

/** "start", "exec", "network"; "unknown". */
const char *order_kind_name(unsigned int kind);
