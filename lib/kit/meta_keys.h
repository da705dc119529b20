/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Keys of the server's store by which a copy of it is described without a server; the others are in
 * server/state/keys.h. */

#define PREFIX_VOLUME "volume/" /* NAMESPACE/ID: Volume */
#define PREFIX_NODE "node/"	/* ID: Node */
#define PREFIX_CLAIM "claim/"	/* ID: Claim, not freed */
#define PREFIX_AUDIT "audit/"	/* SEQUENCE, 16 hex digits: AuditRecord; not kept in memory */
#define PREFIX_META "meta/"
#define KEY_SCHEMA PREFIX_META "schema"		/* Schema */
#define KEY_EPOCH PREFIX_META "epoch"		/* Epoch */
#define KEY_NODE_COUNT PREFIX_META "node-count" /* NodeCount */
