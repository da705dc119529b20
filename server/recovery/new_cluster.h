/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The store of a new cluster, made with holdfast-server --new-cluster while no server runs.
 *
 * A server with an empty store could grant volumes that nodes still hold. So a server does not start
 * without a store that an operator has made. The new store begins in an epoch above every earlier one, waits
 * for the nodes that the marks of the last one count, and takes its place in one step: an interruption leaves
 * no store, or one that starts. */

#include "config.h"

#include "recovery/new_epoch.h"

/** Make it. STATUS_FAILED_PRECONDITION when there is a store, or the log of one, and when the server is
 * running; nothing is changed then. */
enum status new_cluster_make(const struct config *config, struct new_epoch_result *ret, struct error *err);

/** Check that @store or its log exists; the open reports faults of an existing store.
 * STATUS_FAILED_PRECONDITION, with the next command. */
enum status new_cluster_check_store(const char *store, struct error *err);

struct kv;
/** The same of the store in etcd below @prefix, which is open. */
enum status new_cluster_check_etcd(struct kv *kv, const char *prefix, struct error *err);
