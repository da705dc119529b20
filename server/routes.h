/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Addresses that people and their tools type, "GET /v1/volume/csi/{id}", and what they lead to. Names and
 * methods are Nomad's where it has them. */

#include "rpc/route.h"

#include <stddef.h>

extern const struct rpc_route routes[];
extern const size_t n_routes;
