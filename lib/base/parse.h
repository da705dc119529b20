/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Strict parsing of untrusted text: the whole string or nothing, no white space, no sign tricks.
 *
 * All return 0, -EINVAL for malformed text or -ERANGE for a value outside [min, max]; outputs untouched then.
 */

#include <stdbool.h>
#include <stdint.h>

/** Decimal digits at the start of *@s, at least one: any number of 64 bits. *@s is moved behind them. */
int parse_digits(const char **s, uint64_t *ret);

/** Decimal digits only. */
int parse_u64(const char *s, uint64_t min, uint64_t max, uint64_t *ret);

/** Same, for what fits 32 bits. */
int parse_u32(const char *s, uint32_t min, uint32_t max, uint32_t *ret);

/** "yes"/"no" and "true"/"false". */
int parse_bool(const char *s, bool *ret);

/** Size in bytes with an optional unit as Nomad's volume files have it: "10GiB" (powers of 1024), "1G" or
 * "1GB" (powers of 1000), one optional space before the unit, no fractions. */
int parse_size(const char *s, uint64_t *ret_bytes);

/** Duration in microseconds: digits and one of us, ms, s, m, h, d ("90s", "5m"). A bare number is refused. */
int parse_duration(const char *s, uint64_t *ret_us);

/** "ADDRESS" or "ADDRESS/BITS" of IPv4 or IPv6, without address bits beyond BITS.
 * @ret_family 4 or 6
 * @ret_addr   network order, 4 or 16 bytes, zero to the end */
int parse_network(const char *s, uint8_t *ret_family, uint8_t ret_addr[static 16], uint8_t *ret_bits);

/** Is @addr in the network of the first @bits (0 to 128) of @net? Both of the same family, as
 * parse_network() gives them. */
bool network_contains(const uint8_t net[static 16], unsigned int bits, const uint8_t addr[static 16]);
