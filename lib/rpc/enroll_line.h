/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The line that an operator gives to a new node:
 * "holdfast-enroll/1/CLUSTER/NODE/TOKEN/SHA256/HOST:PORT[,HOST:PORT...]". SHA256 is that of the cluster's CA
 * in DER; the token is a secret. No blank, no quote. Pure. */

#include "base/error.h"
#include "rpc/address.h"
#include "rpc/tls.h"

enum {
	ENROLL_NAME_SIZE = 64,
	ENROLL_TOKEN_SIZE = 2 * 32 + 1, /* hex digits */
	ENROLL_LINE_SIZE = 512 + RPC_SERVERS_MAX * RPC_SERVER_NAME_SIZE,
};

struct enroll_line {
	char cluster[ENROLL_NAME_SIZE];
	char node[ENROLL_NAME_SIZE];
	char token[ENROLL_TOKEN_SIZE];
	uint8_t ca_sha256[RPC_TLS_SHA256_SIZE];
	struct rpc_address servers[RPC_SERVERS_MAX];
	size_t n_servers;
};

/** STATUS_INVALID_ARGUMENT for what enroll_line_parse() would not read. */
enum status enroll_line_format(const struct enroll_line *line, char ret[static ENROLL_LINE_SIZE],
			       struct error *err);

/** STATUS_INVALID_ARGUMENT names the part that is wrong, never the token. */
enum status enroll_line_parse(const char *text, struct enroll_line *ret, struct error *err);
