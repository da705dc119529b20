/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Networks that a token is bound to, as IPv4 and IPv6 prefixes. Pure. */

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

enum { NETWORKS_MAX = 16 };

/** STATUS_INVALID_ARGUMENT names the text that is no prefix. */
enum status networks_check(char *const *cidrs, size_t n, struct error *err);

/** Is @address of struct rpc_peer in one of them? An IPv4 address that is mapped into IPv6 counts as IPv4. A
 * socket of this machine is in no network. */
bool networks_have(char *const *cidrs, size_t n, const char *address);
