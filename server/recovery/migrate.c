/* SPDX-License-Identifier: Apache-2.0 */
#include "recovery/migrate.h"

#include "server.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "recovery/copy_file.h"
#include "recovery/marks.h"
#include "recovery/new_cluster.h"
#include "recovery/new_epoch.h"
#include "recovery/restore.h"
#include "recovery/store_swap.h"
#include "state/schema.h"

#include <string.h>

struct places {
	char store[PATH_MAX];
	char aside[PATH_MAX];
	char folder[PATH_MAX];
	char staged[PATH_MAX];
	bool is_restored; /* just now */
};

static enum status prepare(const struct config *config, bool is_begun, struct places *ret, struct error *err)
{
	ret->is_restored = false;
	(void)str_format(ret->store, sizeof(ret->store), "%s/" SERVER_STORE, config->data_dir);
	(void)str_format(ret->aside, sizeof(ret->aside), "%s.migrated", ret->store);
	(void)str_format(ret->folder, sizeof(ret->folder), "%s/restore", config->data_dir);
	(void)str_format(ret->staged, sizeof(ret->staged), "%s/migrated.db", ret->folder);
	if (!config_is_on_etcd(config))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "%s has no store \"etcd\" { }: write it first, see holdfast-server.hcl(5)",
				 config->path);
	TRY(restore_check_user(config->data_dir, "--migrate", err));
	return is_begun ? STATUS_OK : store_swap_finish(config->data_dir, &ret->is_restored, err);
}

/* Starts the store as its server would. */
static enum status settle(const struct config *config, const struct places *places,
			  char ret_id[static UUID_SIZE], struct error *err)
{
	cleanup(store_file_closep) struct store_file file = {NULL, NULL};
	struct schema schema;

	TRY(new_cluster_check_store(places->store, err));
	TRY(store_file_open(places->store, &file, err));
	TRY(schema_bring_up(file.kv, config->cluster, err));
	TRY(new_epoch_begin_decided(file.kv, config->data_dir, config->cluster, err));
	if (!places->is_restored) /* else the marks are of the store before */
		TRY(marks_check(config, file.kv, err));
	TRY(schema_read(file.kv, &schema, err));
	memcpy(ret_id, schema.store_id, UUID_SIZE);
	return STATUS_OK;
}

/* The store in etcd may have been moved away before. */
static struct lead_settings settings_of(const struct config *config)
{
	struct lead_settings settings = config->etcd;

	settings.may_be_retired = true;
	return settings;
}

enum status migrate_to_etcd(const struct config *config, struct etcd_copy_result *ret, struct error *err)
{
	const struct lead_settings settings = settings_of(config);
	struct etcd_copy_move move = {.data_dir = config->data_dir,
				      .is_begun =
					      store_swap_is_leaving(config->data_dir, config->etcd.prefix)};
	struct places places;

	TRY(prepare(config, move.is_begun, &places, err));
	TRY(settle(config, &places, move.store_id, err));
	TRY(etcd_copy_in(&settings, config->cluster, places.store, false, &move, ret, err));
	TRY(copy_move(places.store, places.aside, err));
	return store_swap_finish(config->data_dir, &places.is_restored, err);
}

enum status migrate_to_sqlite(const struct config *config, struct etcd_copy_result *ret, struct error *err)
{
	const struct lead_settings settings = settings_of(config);
	struct places places;

	TRY(prepare(config, false, &places, err));
	if (new_cluster_check_store(places.store, NULL) == STATUS_OK)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "there is a store, %s: nothing was changed; move it away first",
				 places.store);
	TRY(copy_folder_make(places.folder, err));
	TRY(etcd_copy_out(&settings, config->cluster, places.staged, ETCD_COPY_AND_RETIRE, ret, err));
	TRY(marks_note_restore(config, 0, err)); /* a present mark knows more, and stays */
	return copy_move(places.staged, places.store, err);
}
