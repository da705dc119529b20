/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Removes secrets from text that leaves the machine: JSON, settings, logs, mount tables. */

#include <stddef.h>

/** Returns a copy of @text, zero-terminated, in which "[redacted]" replaces
 *  - the value of each key whose name suggests a secret, in JSON (also in a string), HCL, YAML, NAME=VALUE,
 *    NAME: VALUE and --NAME VALUE: a string, block, list or heredoc as a whole, else the rest of the line,
 *  - tokens of Holdfast (hf_...), enrolment lines, bearer tokens, users and passwords in addresses, and
 * private keys in PEM.
 * "?" replaces zero bytes. Owned by the caller, free(); NULL when memory is short. */
char *redact(const char *text, size_t n);
