/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A node reports what the server does not know: by a lie, or as its store was restored. */

#include "cluster.h"

#include <ticket.h>

#define UNKNOWN "0189dead-0000-7000-8000-00000000000f"
#define DETACH HOLDFAST__V1__PLUGIN_CALL__REQUEST_DETACH
#define INVENTED "0189dead-0000-7000-8000-000000000001"
#define MODE "{\"accessMode\":\"SINGLE_NODE_WRITER\",\"attachmentMode\":\"FILE_SYSTEM\"}"

void provoke_report(struct fixture *f, struct fake_node *node);
void make_another_key(struct fixture *f);
bool is_freed(struct fixture *f, const char *claim_id);
void deregister(struct fixture *f, const char *id);
/** The tenant that works together with the node. */
enum status tenant_asks(struct fixture *f, const char *secret, const char *method, const char *request,
			struct error *err);
/** n1 connects, and reports what it has. */
void report_n1(struct fixture *f, const struct alloc *alloc, const struct claim *held,
	       const struct ticket *ticket);
/** n2 does, and has no work. */
void report_nothing(struct fixture *f);
/** Both. n1 really has the volume, which was registered after the backup. */
void report_forgotten(struct fixture *f, const struct alloc *alloc, const struct claim *held,
		      const struct ticket *ticket);
/** For the next time that the nodes connect. */
void run_csi(struct fixture *f);
/** n1 has db, which was registered after the backup: see register_csi(). */
void forget_csi(struct fixture *f, struct alloc *alloc, struct claim *held, struct ticket *ticket);
/** The same, and the nodes report; no ticket proves anything, as the server has another key. */
void believe_csi(struct fixture *f, struct alloc *alloc, struct claim *held);
enum status register_other(struct fixture *f, const char *external_id, struct error *err);
void store_volume(struct fixture *f, const struct volume *volume);
void store_claim(struct fixture *f, const struct claim *claim);
/** db, with another storage than that of register_csi(). */
void store_old_db(struct fixture *f);
/** n1 was attested, and n2 got db, with the storage that it has in the backup. */
void grant_since(struct fixture *f);
/** A share of the provider's vol-db, which register_csi() has as zone z1; or all of it, as its provider made
 * it. */
void store_zone(struct fixture *f, const char *id, const char *zone, bool is_made);
enum status register_zone(struct fixture *f, const char *id, const char *external_id, const char *zone,
			  struct error *err);
enum status ask_csi(struct fixture *f, const char *method, const char *id, const char *external_id,
		    struct error *err);
void report_freed(struct fixture *f, struct claim *freed);
