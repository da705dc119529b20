/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What programs that measure have in common: they end when something fails. */

#include "base/error.h"
#include "rpc/client.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <systemd/sd-event.h>

/** Say it with the program's name, and end it. */
_Noreturn void die(const char *what, const char *why);
void must(const char *what, enum status status, const struct error *err);
void *checked(void *p); /* what was allocated */

/** @begin_us: monotonic */
double seconds_since(uint64_t begin_us);

/** Sorts @values. @q: 0.5 is the median */
double quantile(double *values, size_t n, double q);

/** Memory in bytes that is the process's own. */
double private_bytes(pid_t pid);

/** A client with certificate @cert of those in @dir/tls. @addresses: as in HOLDFAST_ADDR */
struct rpc_client *connect_as(sd_event *event, const char *dir, const char *cert, const char *addresses);
