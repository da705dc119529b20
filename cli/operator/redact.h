/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Removes secrets from text that leaves the machine: JSON, settings, logs, mount tables. */

#include <stddef.h>

/** Returns a copy of @text, zero-terminated, in which "[redacted]" replaces
 *  - the value of each key whose name speaks of a secret, in JSON, HCL, NAME=VALUE and NAME: VALUE; a block
 * or list as a whole,
 *  - tokens of Holdfast (hf_...), bearer tokens, and private keys in PEM.
 * Owned by the caller, free(); NULL when memory is short. */
char *redact(const char *text, size_t n);
