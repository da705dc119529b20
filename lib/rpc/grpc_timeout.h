/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The grpc-timeout header: one to eight digits and a unit. Pure. Source: grpc/doc/PROTOCOL-HTTP2.md. */

#include <stddef.h>
#include <stdint.h>

enum { GRPC_TIMEOUT_SIZE = 12 };

/** Read @n characters. Returns 0, or -EINVAL and @ret_us untouched; less than a microsecond is rounded up. */
int grpc_timeout_parse(const char *text, size_t n, uint64_t *ret_us);

/** Write @timeout_us, rounded up to eight digits and cut to 99999999 hours; returns @text. */
char *grpc_timeout_format(uint64_t timeout_us, char text[static GRPC_TIMEOUT_SIZE]);
