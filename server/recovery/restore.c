/* SPDX-License-Identifier: Apache-2.0 */
#include "recovery/restore.h"

#include "server.h"

#include "access/access.h"
#include "access/answer.h"
#include "access/audit.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/uuid.h"
#include "recovery/copy_file.h"
#include "recovery/history.h"
#include "recovery/store_swap.h"
#include "recovery/worker.h"
#include "state/keys.h"
#include "state/records.h"

#include <errno.h>
#include <fcntl.h>
#include <holdfast/v1/operator.pb-c.h>
#include <holdfast/v1/types.pb-c.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

static const char what_begin[] = "Operator.BeginRestore";
static const char what_write[] = "Operator.WriteRestore";
static const char what_apply[] = "Operator.ApplyRestore";

enum {
	DIGEST_TEXT = 2 * COPY_SHA256_SIZE + 1,
	FROM_SIZE = 256,
	FLUSH_US = 250000, /* for the answer to leave before every connection is dropped */
};

struct restore {
	struct server *server;
	char id[UUID_SIZE];
	char path[PATH_MAX];
	int fd;
	uint64_t size; /* announced */
	uint64_t received;
	uint8_t sha256[COPY_SHA256_SIZE];
	sd_event_source *timer; /* owned: expiry, then the end of the loop */
	struct worker *worker;	/* while it is applied; then the call must be answered */
	struct rpc_call *call;
	bool is_decided;
	/* the worker's until it has ended */
	char from[FROM_SIZE];
	char cluster[CONFIG_CLUSTER_SIZE];
	struct new_epoch wanted;
	struct new_epoch_result result;
};

void restore_free(struct restore *restore)
{
	static const struct error ending = {.status = STATUS_UNAVAILABLE, .msg = "the server is ending"};

	if (!restore)
		return;
	worker_free(restore->worker);
	if (restore->call)
		rpc_call_fail(restore->call, &ending);
	(void)sd_event_source_disable_unref(restore->timer);
	close_fdp(&restore->fd);
	if (!restore->is_decided)
		copy_remove(restore->path);
	free(restore);
}
DEFINE_CLEANUP(struct restore, restore_free)

static void forget(struct server *server)
{
	restore_free(server->restore);
	server->restore = NULL;
}

static int on_expiry(sd_event_source *source, uint64_t usec, void *userdata)
{
	forget(userdata);
	return 0;
}

/* --- the copy arrives --- */

static enum status check_space(const char *dir, uint64_t size, struct error *err)
{
	struct statvfs fs;
	uint64_t free_bytes;

	if (statvfs(dir, &fs) < 0)
		return error_set(err, status_from_errno(errno), errno, "look at %s", dir);
	free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (size <= free_bytes)
		return STATUS_OK;
	return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
			 "the copy has %" PRIu64 " bytes, %s has %" PRIu64 " free; free some space first",
			 size, dir, free_bytes);
}

static enum status check_announced(const Holdfast__V1__BeginRestoreRequest *request, struct error *err)
{
	if (request->size_bytes == 0 || request->size_bytes > RESTORE_SIZE_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "size_bytes: %" PRIu64 " is not the size of a copy (1 to %" PRIu64 ")",
				 request->size_bytes, RESTORE_SIZE_MAX);
	if (request->sha256.len != COPY_SHA256_SIZE)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "sha256: %zu bytes instead of %d",
				 request->sha256.len, COPY_SHA256_SIZE);
	return STATUS_OK;
}

static enum status new_restore(struct server *server, const Holdfast__V1__BeginRestoreRequest *request,
			       struct restore **ret, struct error *err)
{
	cleanup(restore_freep) struct restore *restore = NULL;
	char folder[PATH_MAX];

	if (server->lead)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "the store is in etcd: stop holdfast-server on every machine, then on one "
				 "holdfast-server --restore FILE");
	restore = calloc(1, sizeof(*restore));

	if (!restore)
		return error_no_memory(err, "the restore");
	restore->server = server;
	restore->fd = -EBADF;
	restore->size = request->size_bytes;
	memcpy(restore->sha256, request->sha256.data, sizeof(restore->sha256));
	if (uuid_new(restore->id) < 0)
		return error_set(err, STATUS_INTERNAL, 0, "make an id for the copy");
	(void)str_format(folder, sizeof(folder), "%s/restore", server->config.data_dir);
	(void)str_format(restore->path, sizeof(restore->path), "%s/%s.db", folder, restore->id);
	TRY(copy_folder_make(folder, err));
	TRY(check_space(folder, restore->size, err));
	restore->fd = open(restore->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (restore->fd < 0)
		return error_set(err, status_from_errno(errno), errno, "create %s", restore->path);
	*ret = TAKE_PTR(restore);
	return STATUS_OK;
}

static enum status restart_expiry(struct restore *restore, struct error *err)
{
	int r;

	restore->timer = sd_event_source_disable_unref(restore->timer);
	r = sd_event_add_time_relative(restore->server->event, &restore->timer, CLOCK_MONOTONIC,
				       RESTORE_KEEP_S * USEC_PER_SEC, USEC_PER_SEC, on_expiry,
				       restore->server);
	return r < 0 ? error_set(err, status_from_errno(r), r, "set a timer") : STATUS_OK;
}

static enum status check_idle(const struct server *server, struct error *err)
{
	if (server->restore && (server->restore->call || server->restore->is_decided))
		return error_set(err, STATUS_ABORTED, 0,
				 "a copy is being applied; the server starts again when that is done");
	return STATUS_OK;
}

static enum status restore_begin(struct server *server, struct rpc_call *call,
				 const Holdfast__V1__BeginRestoreRequest *request, struct error *err)
{
	Holdfast__V1__BeginRestoreResponse response = HOLDFAST__V1__BEGIN_RESTORE_RESPONSE__INIT;
	cleanup(restore_freep) struct restore *restore = NULL;

	TRY(check_announced(request, err));
	TRY(check_idle(server, err));
	forget(server);
	TRY(new_restore(server, request, &restore, err));
	TRY(restart_expiry(restore, err));
	response.id = restore->id;
	rpc_call_reply(call, &response.base);
	server->restore = TAKE_PTR(restore);
	return STATUS_OK;
}

DEFINE_WRITE_METHOD(restore_handle_begin, Holdfast__V1__BeginRestoreRequest, what_begin, restore_begin)

static enum status find(struct server *server, const char *id, struct restore **ret, struct error *err)
{
	TRY(check_idle(server, err));
	if (!server->restore || !str_eq(server->restore->id, id))
		return error_set(
			err, STATUS_NOT_FOUND, 0,
			"there is no copy '%.64s': another was begun, it was refused, or an hour has "
			"passed; begin again",
			id);
	*ret = server->restore;
	return STATUS_OK;
}

static enum status check_part(const struct restore *restore, const Holdfast__V1__WriteRestoreRequest *request,
			      struct error *err)
{
	if (request->data.len == 0 || request->data.len > RESTORE_CHUNK_MAX)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "data: %zu bytes; 1 to %d are taken at once", request->data.len,
				 RESTORE_CHUNK_MAX);
	if (request->offset != restore->received)
		return error_set(err, STATUS_OUT_OF_RANGE, 0,
				 "offset %" PRIu64 ": the next part begins at %" PRIu64, request->offset,
				 restore->received);
	if (request->data.len > restore->size - restore->received)
		return error_set(err, STATUS_OUT_OF_RANGE, 0,
				 "the copy was announced with %" PRIu64 " bytes, and %" PRIu64
				 " would be there",
				 restore->size, restore->received + request->data.len);
	return STATUS_OK;
}

static enum status write_part(struct restore *restore, const ProtobufCBinaryData *data, struct error *err)
{
	size_t done = 0;

	while (done < data->len) {
		ssize_t n = pwrite(restore->fd, data->data + done, data->len - done,
				   (off_t)(restore->received + done));

		if (n < 0 && errno != EINTR)
			return error_set(err, status_from_errno(errno), errno, "write %s", restore->path);
		done += n > 0 ? (size_t)n : 0;
	}
	restore->received += done;
	return STATUS_OK;
}

static enum status handle_part(struct server *server, struct rpc_call *call,
			       const Holdfast__V1__WriteRestoreRequest *request, struct error *err)
{
	Holdfast__V1__WriteRestoreResponse response = HOLDFAST__V1__WRITE_RESTORE_RESPONSE__INIT;
	struct restore *restore = NULL;

	TRY(find(server, request->id, &restore, err));
	TRY(check_part(restore, request, err));
	TRY(write_part(restore, &request->data, err));
	TRY(restart_expiry(restore, err));
	response.size_bytes = restore->received;
	rpc_call_reply(call, &response.base);
	return STATUS_OK;
}

DEFINE_WRITE_METHOD(restore_handle_write, Holdfast__V1__WriteRestoreRequest, what_write, handle_part)

/* --- and is applied --- */

static enum status prepare(void *userdata, struct error *err)
{
	struct restore *restore = userdata;
	uint8_t sha256[COPY_SHA256_SIZE];
	uint64_t size = 0;

	TRY(copy_digest(restore->path, sha256, &size, err));
	if (size != restore->size || memcmp(sha256, restore->sha256, sizeof(sha256)) != 0)
		return error_set(err, STATUS_DATA_LOSS, 0,
				 "the copy arrived damaged: its digest differs; send it again");
	return new_epoch_begin(&restore->wanted, &restore->result, err);
}

static int on_flushed(sd_event_source *source, uint64_t usec, void *userdata)
{
	server_restart(userdata);
	return 0;
}

static enum status decide(struct restore *restore, struct error *err)
{
	struct server *server = restore->server;
	int r;

	TRY(store_swap_decide(server->config.data_dir, restore->path, restore->wanted.now_ms, err));
	restore->is_decided = true;
	restore->timer = sd_event_source_disable_unref(restore->timer);
	r = sd_event_add_time_relative(server->event, &restore->timer, CLOCK_MONOTONIC, FLUSH_US, 0,
				       on_flushed, server);
	if (r < 0)
		server_restart(server);
	return STATUS_OK;
}

static void refuse(struct restore *restore, const struct error *err)
{
	struct server *server = restore->server;
	struct rpc_call *call = TAKE_PTR(restore->call);

	server->is_superseded = false;
	answer_refused(server, call, what_apply, err);
	forget(server);
}

static void look_at_own(struct server *server, struct new_epoch *wanted)
{
	const Holdfast__V1__Schema *schema = records_get(&server->state.records, KEY_SCHEMA);

	wanted->known_epoch = state_epoch(&server->state);
	wanted->known_index = kv_revision(server->kv);
	wanted->known.n = history_nodes(server);
	known_nodes_add_store(&wanted->known, schema->store_id);
	for (size_t i = 0; i < schema->n_former_store_ids; i++)
		known_nodes_add_store(&wanted->known, schema->former_store_ids[i]);
}

static void on_prepared(const struct error *error, void *userdata)
{
	Holdfast__V1__ApplyRestoreResponse response = HOLDFAST__V1__APPLY_RESTORE_RESPONSE__INIT;
	struct restore *restore = userdata;
	struct error err;

	restore->worker = NULL;
	if (error) {
		refuse(restore, error);
		return;
	}
	if (decide(restore, &err) != STATUS_OK) {
		refuse(restore, &err);
		return;
	}
	response.epoch = restore->result.epoch;
	response.index = restore->result.index;
	response.nodes_to_report = restore->result.nodes;
	rpc_call_reply(TAKE_PTR(restore->call), &response.base);
}

/* Every submitted change is answered, including the audit record of the restore, and nothing else is: the new
 * epoch knows each node and each index that was ever acknowledged. */
static void on_settled(uint64_t revision, const struct error *error, void *userdata)
{
	struct server *server = userdata;
	struct restore *restore = server->restore;
	struct error err = {.status = STATUS_OK};

	if (!restore) /* the server ends */
		return;
	look_at_own(server, &restore->wanted);
	if (error)
		err = *error;
	if (err.status != STATUS_OK ||
	    worker_start(server->event, prepare, on_prepared, restore, &restore->worker, &err) != STATUS_OK)
		refuse(restore, &err);
}

static void describe(struct server *server, struct rpc_call *call, struct restore *restore,
		     const Holdfast__V1__ApplyRestoreRequest *request)
{
	char who[ACCESS_WHO_SIZE];

	(void)str_copy(restore->cluster, sizeof(restore->cluster), server->config.cluster);
	if (str_format(restore->from, sizeof(restore->from), "by %s: %.80s", access_who(server, call, who),
		       request->reason) < 0)
		(void)str_copy(restore->from, sizeof(restore->from), "by an operator");
	restore->wanted = (struct new_epoch){
		.path = restore->path,
		.cluster = restore->cluster,
		.other_cluster = request->other_cluster,
		.now_ms = clock_realtime_ms(),
		.restored_from = restore->from,
	};
}

static enum status record(struct server *server, const struct rpc_call *call, const char *reason,
			  struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;

	audit_write(server, &change, call, what_apply, "store", reason);
	return change_commit(server, &change, NULL, NULL, err);
}

static enum status apply(struct server *server, struct rpc_call *call,
			 const Holdfast__V1__ApplyRestoreRequest *request, struct error *err)
{
	struct restore *restore = NULL;

	TRY(find(server, request->id, &restore, err));
	if (request->reason[0] == '\0')
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "reason: missing; everything since the copy was made is forgotten");
	if (restore->received != restore->size)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "%" PRIu64 " of %" PRIu64 " bytes have arrived; send the rest first",
				 restore->received, restore->size);
	TRY(record(server, call, request->reason, err));
	describe(server, call, restore, request);
	close_fdp(&restore->fd);
	restore->fd = -EBADF;
	restore->timer = sd_event_source_disable_unref(restore->timer);
	enum status status = kv_barrier(server->kv, on_settled, server, err);
	if (status == STATUS_OK) {
		restore->call = call;
		server->is_superseded = true;
	} else {
		forget(server);
	}
	return status;
}

DEFINE_WRITE_METHOD(restore_handle_apply, Holdfast__V1__ApplyRestoreRequest, what_apply, apply)
