/* SPDX-License-Identifier: Apache-2.0 */
#include "recovery/new_cluster.h"

#include "server.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "recovery/copy_file.h"
#include "recovery/etcd_copy.h"
#include "recovery/marks.h"
#include "recovery/restore.h"
#include "recovery/store_swap.h"
#include "state/schema.h"
#include "store/kv.h"

#include <errno.h>
#include <limits.h>
#include <sys/stat.h>

/* True also for a path that cannot be examined: the later open fails with the cause. */
static bool is_there(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 || errno != ENOENT;
}

/* An empty one holds nothing. */
static bool has_log(const char *store)
{
	char log[PATH_MAX];
	struct stat st;

	if (str_format(log, sizeof(log), "%s-wal", store) < 0)
		return true;
	return lstat(log, &st) == 0 ? st.st_size > 0 : errno != ENOENT;
}

enum status new_cluster_check_store(const char *store, struct error *err)
{
	if (is_there(store) || has_log(store))
		return STATUS_OK;
	return error_set(err, STATUS_FAILED_PRECONDITION, 0,
			 "there is no store: it was expected at %s. Put a copy in its place: holdfast-server "
			 "--restore FILE. For a first start only: holdfast-server --new-cluster starts with "
			 "no node, volume or claim known, and grants what nodes may hold from before",
			 store);
}

enum status new_cluster_check_etcd(struct kv *kv, const char *prefix, struct error *err)
{
	struct schema schema;

	TRY(schema_read(kv, &schema, err));
	if (schema.store_id[0] != '\0')
		return STATUS_OK;
	return error_set(
		err, STATUS_FAILED_PRECONDITION, 0,
		"there is no store in etcd: it was expected at %s. Put a copy in its place: "
		"holdfast-server --restore FILE; one that is in sqlite: holdfast-server --migrate to-etcd. "
		"For a first start only: holdfast-server --new-cluster starts with no node, volume or "
		"claim known, and grants what nodes may hold from before",
		prefix);
}

static enum status refuse_present(const char *store, struct error *err)
{
	if (is_there(store))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "there is a store, %s: nothing was changed. A new cluster needs a folder "
				 "without a store: name another one in data_dir",
				 store);
	if (has_log(store))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "there is a store, or a rest of it, the log %s-wal: nothing was changed. "
				 "Put a copy in its place: holdfast-server --restore FILE",
				 store);
	return STATUS_OK;
}

/* The mark before the store: one that starts without would be taken for an earlier copy of itself. */
static enum status build(const struct config *config, const char *staged, const char *store,
			 struct new_epoch_result *ret, struct error *err)
{
	struct new_epoch wanted = {
		.path = staged,
		.cluster = config->cluster,
		.known_epoch = EPOCH_UNKNOWN,
		.now_ms = clock_realtime_ms(),
		.restored_from = "with holdfast-server --new-cluster",
	};
	struct etcd_copy_result copied;
	enum status status;

	marks_raise(config, &wanted);
	new_epoch_look_at_decision(config->data_dir, &wanted);
	status = new_epoch_begin(&wanted, ret, err);
	if (status == STATUS_OK)
		status = marks_note_restore(config, ret->epoch, err);
	if (status == STATUS_OK && config_is_on_etcd(config))
		status = etcd_copy_in(&config->etcd, config->cluster, staged, false, NULL, &copied, err);
	else if (status == STATUS_OK)
		status = copy_move(staged, store, err);
	if (status != STATUS_OK || config_is_on_etcd(config))
		copy_remove(staged);
	return status == STATUS_OK ? new_epoch_forget_decision(config->data_dir, err) : status;
}

enum status new_cluster_make(const struct config *config, struct new_epoch_result *ret, struct error *err)
{
	cleanup_close int lock_fd = -EBADF;
	char store[PATH_MAX];
	char folder[PATH_MAX];
	char staged[PATH_MAX];
	bool is_done;

	(void)str_format(store, sizeof(store), "%s/" SERVER_STORE, config->data_dir);
	(void)str_format(folder, sizeof(folder), "%s/restore", config->data_dir);
	(void)str_format(staged, sizeof(staged), "%s/new-cluster.db", folder);
	TRY(restore_check_user(config->data_dir, "--new-cluster", err));
	TRY(store_swap_finish(config->data_dir, &is_done, err)); /* an earlier restore goes first */
	TRY(kv_lock_sqlite(store, &lock_fd, err));
	if (!config_is_on_etcd(config))
		TRY(refuse_present(store, err));
	TRY(copy_folder_make(folder, err));
	return build(config, staged, store, ret, err);
}
