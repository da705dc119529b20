/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The gRPC services of the claim server: which function answers which method. */

#include "rpc/server.h"

extern const struct rpc_service services[];
extern const size_t n_services;
