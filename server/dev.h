/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* --dev: a claim server on loopback that makes its own CA, certificates and keys in its state folder. */

#include "config.h"

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>

struct dev_options {
	const char *dir;	  /* absolute; made when missing, 0755 */
	const char *cluster;	  /* NULL: "dev" */
	const char *const *nodes; /* a certificate is made for each: tls/node-NAME.pem and .key */
	size_t n_nodes;
	uint32_t port;	  /* 0: chosen by the kernel */
	bool makes_store; /* a store, together with a new ticket key; never if there is one already */
};

/** Makes missing files and fills @config. Idempotent: existing files are kept.
 *
 * DIR/tls/{ca,server,operator,node-NAME}.{pem,key}, DIR/ticket.key, DIR/ticket.pub (64 hex digits for the
 * helpers' policies), DIR/holdfast.db, DIR/holdfast.mark, DIR/address. Keys are 0600. */
enum status dev_prepare(const struct dev_options *options, struct config *config, struct error *err);
