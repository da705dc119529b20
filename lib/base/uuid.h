/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Time-ordered identifiers. */

enum { UUID_SIZE = 37 };

/** Write a new UUIDv7 as lower-case text with its NUL. Returns 0 or a negative errno of getrandom(2).
 * Source: RFC 9562 section 5.7. */
int uuid_new(char ret[static UUID_SIZE]);
