/* SPDX-License-Identifier: Apache-2.0 */
#include "recovery/backup.h"

#include "server.h"

#include "access/access.h"
#include "access/answer.h"
#include "access/audit.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "base/uuid.h"
#include "log/log.h"
#include "recovery/copy_file.h"
#include "recovery/etcd_copy.h"
#include "recovery/kit_files.h"
#include "recovery/worker.h"
#include "state/keys.h"
#include "state/records.h"

#include <errno.h>
#include <fcntl.h>
#include <holdfast/v1/operator.pb-c.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { AHEAD_MS = 5 * 60 * 1000 }; /* the clocks of several servers differ a little */

static const char what_begin[] = "Operator.BeginBackup";

struct backup {
	struct server *server;
	char id[UUID_SIZE];
	char store[PATH_MAX];
	char path[PATH_MAX];
	struct worker *worker; /* while it is made; then the call must be answered */
	struct rpc_call *call;
	sd_event_source *expiry; /* owned */
	int fd;
	int64_t begun_ms;
	/* the worker's until it has ended */
	bool is_kit;
	struct kit kit; /* without the store; owned */
	char passphrase[KIT_PASSPHRASE_SIZE];
	char certificate[PATH_MAX]; /* to which it is encrypted when there is no passphrase */
	char kit_path[PATH_MAX];
	uint64_t index;
	uint64_t size;
	uint8_t sha256[COPY_SHA256_SIZE];
};

void backup_free(struct backup *backup)
{
	static const struct error ending = {.status = STATUS_UNAVAILABLE, .msg = "the server is ending"};

	if (!backup)
		return;
	worker_free(backup->worker);
	if (backup->call)
		rpc_call_fail(backup->call, &ending);
	(void)sd_event_source_disable_unref(backup->expiry);
	close_fdp(&backup->fd);
	copy_remove(backup->path);
	if (backup->is_kit)
		(void)unlink(backup->kit_path);
	kit_release(&backup->kit);
	explicit_bzero(backup->passphrase, sizeof(backup->passphrase));
	free(backup);
}
DEFINE_CLEANUP(struct backup, backup_free)

static void forget(struct server *server)
{
	backup_free(server->backup);
	server->backup = NULL;
}

static int on_expiry(sd_event_source *source, uint64_t usec, void *userdata)
{
	forget(userdata);
	return 0;
}

static const char *path_of(const struct backup *backup)
{
	return backup->is_kit ? backup->kit_path : backup->path;
}

/* The keys leave this process encrypted or not at all; the copy, which is not, is needed no longer. */
static enum status encrypt(struct backup *backup, struct error *err)
{
	const struct kit_key key = {.passphrase = backup->passphrase[0] != '\0' ? backup->passphrase : NULL,
				    .path = backup->passphrase[0] != '\0' ? NULL : backup->certificate};
	enum status status = kit_write(&backup->kit, backup->path, &key, backup->kit_path, err);

	copy_remove(backup->path);
	kit_release(&backup->kit);
	explicit_bzero(backup->passphrase, sizeof(backup->passphrase));
	return status;
}

static enum status copy_store(struct backup *backup, struct error *err)
{
	const struct config *config = &backup->server->config; /* what it reads does not change */
	struct etcd_copy_result copied;

	if (!config_is_on_etcd(config))
		return kv_copy_sqlite(backup->store, backup->path, &backup->index, err);
	TRY(etcd_copy_out(&config->etcd, config->cluster, backup->path, ETCD_COPY_BESIDE, &copied, err));
	backup->index = copied.index;
	return STATUS_OK;
}

static enum status make(void *userdata, struct error *err)
{
	struct backup *backup = userdata;

	TRY(copy_store(backup, err));
	/* what cannot be restored is no backup: an earlier one is not to be thrown away for it */
	TRY(kv_check_copy(backup->path, err));
	if (backup->is_kit)
		TRY(encrypt(backup, err));
	return copy_digest(path_of(backup), backup->sha256, &backup->size, err);
}

static enum status offer(struct backup *backup, struct error *err)
{
	int r;

	backup->fd = open(path_of(backup), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (backup->fd < 0)
		return error_set(err, status_from_errno(errno), errno, "open %s", path_of(backup));
	r = sd_event_add_time_relative(backup->server->event, &backup->expiry, CLOCK_MONOTONIC,
				       BACKUP_KEEP_S * USEC_PER_SEC, USEC_PER_SEC, on_expiry, backup->server);
	return r < 0 ? error_set(err, status_from_errno(r), r, "set a timer") : STATUS_OK;
}

static void on_made(const struct error *error, void *userdata)
{
	Holdfast__V1__BeginBackupResponse response = HOLDFAST__V1__BEGIN_BACKUP_RESPONSE__INIT;
	struct backup *backup = userdata;
	struct server *server = backup->server;
	struct rpc_call *call = backup->call;
	struct error err = {.status = STATUS_OK};

	backup->worker = NULL;
	backup->call = NULL;
	if (error)
		err = *error;
	if (err.status != STATUS_OK || offer(backup, &err) != STATUS_OK) {
		answer_refused(server, call, what_begin, &err);
		forget(server);
		return;
	}
	response.id = backup->id;
	response.size_bytes = backup->size;
	response.sha256 = (ProtobufCBinaryData){.len = sizeof(backup->sha256), .data = backup->sha256};
	response.index = backup->index;
	answer_durable(server, call, message_copy(&response.base)); /* with the audit record */
}

static enum status new_backup(struct server *server, struct backup **ret, struct error *err)
{
	cleanup(backup_freep) struct backup *backup = calloc(1, sizeof(*backup));
	const char *dir = server->config.data_dir;
	char folder[PATH_MAX];

	if (!backup)
		return error_no_memory(err, "the backup");
	backup->server = server;
	backup->fd = -EBADF;
	backup->begun_ms = clock_realtime_ms();
	if (uuid_new(backup->id) < 0)
		return error_set(err, STATUS_INTERNAL, 0, "make an id for the backup");
	(void)str_format(folder, sizeof(folder), "%s/backup", dir);
	(void)str_format(backup->store, sizeof(backup->store), "%s/" SERVER_STORE, dir);
	(void)str_format(backup->path, sizeof(backup->path), "%s/%s.db", folder, backup->id);
	(void)str_format(backup->kit_path, sizeof(backup->kit_path), "%s/%s.kit", folder, backup->id);
	TRY(copy_folder_make(folder, err));
	*ret = TAKE_PTR(backup);
	return STATUS_OK;
}

static enum status prepare_kit(struct backup *backup, const Holdfast__V1__BeginBackupRequest *request,
			       struct error *err)
{
	const struct config *config = &backup->server->config;
	size_t n = strlen(request->passphrase);

	if (n > 0 && (n < KIT_PASSPHRASE_MIN || n >= KIT_PASSPHRASE_SIZE))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "passphrase: %d to %d bytes are wanted",
				 KIT_PASSPHRASE_MIN, KIT_PASSPHRASE_SIZE - 1);
	if (n == 0 && config->kit_certificate[0] == '\0')
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"a kit is encrypted: give a passphrase (--passphrase-file), or name a certificate "
			"in the server's settings (kit_certificate)");
	backup->is_kit = true;
	memcpy(backup->passphrase, request->passphrase, n + 1);
	(void)str_copy(backup->certificate, sizeof(backup->certificate), config->kit_certificate);
	return kit_collect(backup->server, &backup->kit, err);
}

/* Records the backup in the audit: its reader gets the whole store. */
static enum status record(struct server *server, const struct rpc_call *call, bool is_kit, struct error *err)
{
	cleanup(change_release) struct change change = CHANGE_INIT;

	audit_write(server, &change, call, what_begin, is_kit ? "kit" : "store", NULL);
	return change_commit(server, &change, NULL, NULL, err);
}

/* A kit needs a higher right: a caller that chooses its passphrase can open it, and has the keys. */
static enum access_right right_to(const Holdfast__V1__BeginBackupRequest *request)
{
	if (!request->kit)
		return ACCESS_BACKUP_COPY;
	return request->passphrase[0] != '\0' ? ACCESS_MANAGEMENT : ACCESS_BACKUP_KIT;
}

static enum status backup_begin(struct server *server, struct rpc_call *call,
				const Holdfast__V1__BeginBackupRequest *request, struct error *err)
{
	cleanup(backup_freep) struct backup *backup = NULL;

	TRY(access_check(server, call, right_to(request), NULL, err));
	if (server->backup && server->backup->worker)
		return error_set(err, STATUS_ABORTED, 0,
				 "a backup is being made already; try again in some seconds");
	forget(server);
	TRY(new_backup(server, &backup, err));
	if (request->kit)
		TRY(prepare_kit(backup, request, err));
	TRY(record(server, call, request->kit, err));
	TRY(worker_start(server->event, make, on_made, backup, &backup->worker, err));
	backup->call = call;
	server->backup = TAKE_PTR(backup);
	return STATUS_OK;
}

DEFINE_WRITE_METHOD(backup_handle_begin, Holdfast__V1__BeginBackupRequest, what_begin, backup_begin)

static enum status read_chunk(const struct backup *backup, uint64_t offset, uint8_t *chunk, size_t *ret_n,
			      struct error *err)
{
	ssize_t n;

	if (offset > backup->size)
		return error_set(err, STATUS_OUT_OF_RANGE, 0,
				 "backup %s has %" PRIu64 " bytes; offset %" PRIu64 " is behind its end",
				 backup->id, backup->size, offset);
	n = pread(backup->fd, chunk, BACKUP_CHUNK, (off_t)offset);
	if (n < 0)
		return error_set(err, STATUS_INTERNAL, errno, "read %s", path_of(backup));
	*ret_n = (size_t)n;
	return STATUS_OK;
}

/* A backup of the future would count as new until then, however long ago it was made. */
static int64_t unless_ahead(int64_t begun_ms)
{
	return begun_ms > clock_realtime_ms() + AHEAD_MS ? 0 : begun_ms;
}

int64_t backup_last_ms(struct server *server)
{
	const Holdfast__V1__LastBackup *last = records_get(&server->state.records, KEY_LAST_BACKUP);

	return last ? unless_ahead(last->begun_at_ms) : 0;
}

int64_t backup_last_kit_ms(struct server *server)
{
	const Holdfast__V1__LastBackup *last = records_get(&server->state.records, KEY_LAST_BACKUP);

	return last ? unless_ahead(last->kit_begun_at_ms) : 0;
}

/* Notes a backup that was read to its end. The call does not wait for it: a full disk must not fail a backup
 * that the caller has already. */
static void note_read(struct server *server, const struct backup *backup)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	const Holdfast__V1__LastBackup *before = records_get(&server->state.records, KEY_LAST_BACKUP);
	Holdfast__V1__LastBackup last = HOLDFAST__V1__LAST_BACKUP__INIT;
	struct error err;

	last.begun_at_ms = backup->begun_ms;
	last.kit_begun_at_ms = backup->is_kit ? backup->begun_ms : before ? before->kit_begun_at_ms : 0;
	change_put_record(&change, KEY_LAST_BACKUP, &last.base);
	if (change_commit(server, &change, NULL, NULL, &err) != STATUS_OK)
		log_ctx(LOG_WARNING, &(struct log_ctx){.op = "backup", .err = &err},
			"cannot note that a backup was read, ignoring");
}

static enum status read_part(struct server *server, struct rpc_call *call,
			     const Holdfast__V1__ReadBackupRequest *request, struct error *err)
{
	Holdfast__V1__ReadBackupResponse response = HOLDFAST__V1__READ_BACKUP_RESPONSE__INIT;
	const struct backup *backup = server->backup;
	cleanup_free uint8_t *chunk = NULL;
	bool is_there = backup && !backup->worker && str_eq(backup->id, request->id);
	size_t n = 0;

	TRY(access_check(server, call, is_there && !backup->is_kit ? ACCESS_BACKUP_COPY : ACCESS_BACKUP_KIT,
			 NULL, err));
	if (!is_there)
		return error_set(
			err, STATUS_NOT_FOUND, 0,
			"there is no backup '%.64s': it was read to its end, replaced by a later one, "
			"or an hour has passed; begin again",
			request->id);
	chunk = malloc(BACKUP_CHUNK);
	if (!chunk)
		return error_no_memory(err, "the backup");
	TRY(read_chunk(backup, request->offset, chunk, &n, err));
	response.data = (ProtobufCBinaryData){.len = n, .data = chunk};
	rpc_call_reply(call, &response.base);
	if (n == 0) {
		note_read(server, backup);
		forget(server);
	}
	return STATUS_OK;
}

void backup_handle_read(struct rpc_call *call, const ProtobufCMessage *request, void *server)
{
	struct error err;

	if (read_part(server, call, (const Holdfast__V1__ReadBackupRequest *)request, &err) != STATUS_OK)
		rpc_call_fail(call, &err);
}
