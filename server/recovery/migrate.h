/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* holdfast-server --migrate: the store from sqlite to etcd or back, while no server runs. Its id and epoch
 * stay, indexes continue above, and every record is compared. */

#include "config.h"

#include "recovery/etcd_copy.h"

/** Afterwards the database is in the same folder as holdfast.db.migrated. */
enum status migrate_to_etcd(const struct config *config, struct etcd_copy_result *ret, struct error *err);

/** The records in etcd stay there. STATUS_FAILED_PRECONDITION when there is a database. */
enum status migrate_to_sqlite(const struct config *config, struct etcd_copy_result *ret, struct error *err);
