/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* grpc's interoperability service on our server: what interop.proto says, each method as grpc's test
 * descriptions want it. */

#include "rpc/server.h"

extern const struct rpc_service test_service;
