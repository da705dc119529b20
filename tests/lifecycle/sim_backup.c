/* SPDX-License-Identifier: Apache-2.0 */
#include "sim.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

#include <fcntl.h>
#include <holdfast/v1/operator.pb-c.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHUNK = 512 * 1024 };

#define OPERATOR (&holdfast__v1__operator__descriptor)

static ProtobufCMessage *must_call(struct sim *sim, const char *method, const ProtobufCMessage *request)
{
	ProtobufCMessage *response = NULL;
	struct error err;

	if (sim_call(sim, OPERATOR, method, request, &response, &err) != STATUS_OK)
		sim_fail(sim, "Operator.%s: %s", method, err.msg);
	return response;
}

static void read_all(struct sim *sim, char *id)
{
	Holdfast__V1__ReadBackupRequest request = HOLDFAST__V1__READ_BACKUP_REQUEST__INIT;
	size_t at = 0;

	request.id = id;
	while (at < sim->backup.size) {
		Holdfast__V1__ReadBackupResponse *part;

		request.offset = at;
		part = (Holdfast__V1__ReadBackupResponse *)must_call(sim, "ReadBackup", &request.base);
		if (part->data.len == 0 || part->data.len > sim->backup.size - at)
			sim_fail(sim, "the backup has another size than was said");
		memcpy(sim->backup.data + at, part->data.data, part->data.len);
		at += part->data.len;
		holdfast__v1__read_backup_response__free_unpacked(part, NULL);
	}
}

void sim_backup(struct sim *sim)
{
	Holdfast__V1__BeginBackupRequest request = HOLDFAST__V1__BEGIN_BACKUP_REQUEST__INIT;
	Holdfast__V1__BeginBackupResponse *begun;
	ProtobufCMessage *response = NULL;
	struct error err;
	enum status status = sim_call(sim, OPERATOR, "BeginBackup", &request.base, &response, &err);

	if (status == STATUS_DATA_LOSS) /* history that was damaged: the earlier copy is kept */
		return;
	if (status != STATUS_OK)
		sim_fail(sim, "Operator.BeginBackup: %s", err.msg);
	begun = (Holdfast__V1__BeginBackupResponse *)response;
	free(sim->backup.data);
	sim->backup.size = begun->size_bytes;
	sim->backup.data = malloc(sim->backup.size + 1);
	if (!sim->backup.data || begun->sha256.len != sizeof(sim->backup.sha256))
		sim_fail(sim, "the backup cannot be kept");
	memcpy(sim->backup.sha256, begun->sha256.data, sizeof(sim->backup.sha256));
	read_all(sim, begun->id);
	holdfast__v1__begin_backup_response__free_unpacked(begun, NULL);
}

static enum status call(struct sim *sim, const char *method, const ProtobufCMessage *request,
			ProtobufCMessage **ret, struct error *err)
{
	return sim_call(sim, OPERATOR, method, request, ret, err);
}

static enum status write_all(struct sim *sim, char *id, struct error *err)
{
	Holdfast__V1__WriteRestoreRequest request = HOLDFAST__V1__WRITE_RESTORE_REQUEST__INIT;

	request.id = id;
	for (size_t at = 0; at < sim->backup.size; at += request.data.len) {
		request.offset = at;
		request.data.data = sim->backup.data + at;
		request.data.len = sim->backup.size - at < CHUNK ? sim->backup.size - at : CHUNK;
		if (call(sim, "WriteRestore", &request.base, NULL, err) != STATUS_OK)
			return err->status;
	}
	return STATUS_OK;
}

static enum status apply(struct sim *sim, char *id, struct error *err)
{
	Holdfast__V1__ApplyRestoreRequest request = HOLDFAST__V1__APPLY_RESTORE_REQUEST__INIT;
	Holdfast__V1__ApplyRestoreResponse *applied;
	ProtobufCMessage *response = NULL;
	char reason[] = "the model wants it";

	request.id = id;
	request.reason = reason;
	if (call(sim, "ApplyRestore", &request.base, &response, err) != STATUS_OK)
		return err->status;
	applied = (Holdfast__V1__ApplyRestoreResponse *)response;
	if (applied->epoch <= sim->epoch)
		sim_fail(sim, "a restore begins no new epoch");
	sim->epoch = applied->epoch;
	holdfast__v1__apply_restore_response__free_unpacked(applied, NULL);
	return STATUS_OK;
}

enum status sim_restore(struct sim *sim, struct error *err)
{
	Holdfast__V1__BeginRestoreRequest begin = HOLDFAST__V1__BEGIN_RESTORE_REQUEST__INIT;
	Holdfast__V1__BeginRestoreResponse *begun;
	ProtobufCMessage *response = NULL;
	enum status status;

	begin.size_bytes = sim->backup.size;
	begin.sha256.data = sim->backup.sha256;
	begin.sha256.len = sizeof(sim->backup.sha256);
	TRY(call(sim, "BeginRestore", &begin.base, &response, err));
	begun = (Holdfast__V1__BeginRestoreResponse *)response;
	status = write_all(sim, begun->id, err);
	if (status == STATUS_OK)
		status = apply(sim, begun->id, err);
	holdfast__v1__begin_restore_response__free_unpacked(begun, NULL);
	if (status != STATUS_OK)
		return status;
	oracle_forget_server(sim);
	sim->index = 0;
	sim->counts[COUNT_RESTORES]++;
	return STATUS_OK;
}

_Noreturn static void exec_once(const struct sim *sim, const char *option, const char *from)
{
	const char *argv[] = {sim->server_binary, "--dev", sim->dir, "--cluster", "c1", option, from, NULL};
	char path[PATH_MAX];
	int fd;

	(void)str_format(path, sizeof(path), "%s/server.log", sim->dir);
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd >= 0 && dup2(fd, STDERR_FILENO) >= 0)
		(void)dup2(fd, STDOUT_FILENO);
	(void)execv(sim->server_binary, (char **)(uintptr_t)argv);
	_exit(127);
}

/* @from NULL: the option takes nothing. */
static void run_once(struct sim *sim, const char *option, const char *from)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		exec_once(sim, option, from);
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
		sim_fail(sim, "holdfast-server %s fails; see %s/server.log", option, sim->dir);
}

void sim_restore_offline(struct sim *sim)
{
	char from[PATH_MAX];

	(void)str_format(from, sizeof(from), "%s/operators-copy.db", sim->dir);
	if (file_write_atomic(from, 0600, (const char *)sim->backup.data, sim->backup.size) < 0)
		sim_fail(sim, "the backup cannot be written to %s", from);
	run_once(sim, "--restore", from);
	sim->counts[COUNT_OFFLINE_RESTORES]++;
}

void sim_new_cluster(struct sim *sim)
{
	run_once(sim, "--new-cluster", NULL);
	sim->counts[COUNT_NEW_CLUSTERS]++;
}
