/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The line that an operator gives to a new node, or to the holder of another identity:
 * "holdfast-enroll/1/CLUSTER/WHO/TOKEN/SHA256/HOST:PORT[,HOST:PORT...]". WHO is the name of a node, or
 * ROLE:NAME. SHA256 is that of the cluster's CA in DER; the token is a secret. No blank, no quote. Pure. */

#include "base/error.h"
#include "rpc/address.h"
#include "rpc/tls.h"

enum {
	ENROLL_NAME_SIZE = 64,
	ENROLL_ROLE_SIZE = 16,
	ENROLL_IDENTITY_SIZE = ENROLL_ROLE_SIZE + ENROLL_NAME_SIZE,
	ENROLL_TOKEN_SIZE = 2 * 32 + 1, /* hex digits */
	ENROLL_LINE_SIZE = 512 + RPC_SERVERS_MAX * RPC_SERVER_NAME_SIZE,
};

#define ENROLL_ROLE_NODE "node"

struct enroll_line {
	char cluster[ENROLL_NAME_SIZE];
	char role[ENROLL_ROLE_SIZE]; /* ENROLL_ROLE_NODE, "operator", ... */
	char name[ENROLL_NAME_SIZE];
	char token[ENROLL_TOKEN_SIZE];
	uint8_t ca_sha256[RPC_TLS_SHA256_SIZE];
	struct rpc_address servers[RPC_SERVERS_MAX];
	size_t n_servers;
};

/** "operator/ann" */
char *enroll_line_identity(const struct enroll_line *line, char ret[static ENROLL_IDENTITY_SIZE]);

/** STATUS_INVALID_ARGUMENT for what enroll_line_parse() would not read. */
enum status enroll_line_format(const struct enroll_line *line, char ret[static ENROLL_LINE_SIZE],
			       struct error *err);

/** STATUS_INVALID_ARGUMENT names the part that is wrong, never the token. */
enum status enroll_line_parse(const char *text, struct enroll_line *ret, struct error *err);
