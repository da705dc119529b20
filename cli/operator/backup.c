/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of the server's state, in parts. They hold secrets and tokens' hashes: only the caller can read the
 * files. */

#include "base/backoff.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "call/connect.h"
#include "command/commands.h"
#include "command/values.h"
#include "kit/copy_look.h"
#include "kit/kit.h"
#include "operator/unfinished.h"
#include "rpc/client.h"
#include "show/output.h"
#include "show/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <holdfast/v1/operator.pb-c.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NUMBER_SIZE = 24 };

static enum status read_kit(struct invocation *inv, int fd, struct kit *ret, struct error *err)
{
	char passphrase[KIT_PASSPHRASE_SIZE] = "";
	struct kit_key key = {.path = inv->options[OPT_KEY_FILE]};
	enum status status = STATUS_OK;

	if (!inv->options[OPT_PASSPHRASE_FILE] == !key.path)
		return usage_error(inv, err,
				   "%s is a kit: what opens it is needed, --passphrase-file or --key-file",
				   inv->args[0]);
	if (!key.path) {
		status = kit_passphrase_read(inv->options[OPT_PASSPHRASE_FILE], passphrase, err);
		key.passphrase = passphrase;
	}
	if (status == STATUS_OK)
		status = kit_read(fd, inv->args[0], &key, ret, err);
	explicit_bzero(passphrase, sizeof(passphrase));
	return status;
}

static enum status print_facts_json(const struct kit *kit, const struct copy_facts *facts, struct error *err)
{
	json_t *files = json_array();

	for (size_t i = 0; i < kit->n; i++)
		(void)json_array_append_new(files, json_string(kit->files[i].name));
	return print_json(json_pack("{sb ss ss sI sI sI sI sI sI sI sI so}", "kit", kit->n > 0, "cluster",
				    facts->cluster, "store_id", facts->store_id, "schema",
				    (json_int_t)facts->schema, "epoch", (json_int_t)facts->epoch, "index",
				    (json_int_t)facts->index, "last_write_ms", (json_int_t)facts->newest_ms,
				    "nodes", (json_int_t)facts->nodes, "nodes_missing",
				    (json_int_t)facts->missing, "volumes", (json_int_t)facts->volumes,
				    "claims", (json_int_t)facts->claims, "files", files),
			  err);
}

static void print_number(const char *name, uint64_t number)
{
	char text[NUMBER_SIZE];

	(void)str_format(text, sizeof(text), "%" PRIu64, number);
	print_field(name, text);
}

static void print_facts(const struct kit *kit, const struct copy_facts *facts)
{
	char when[CLOCK_TEXT_SIZE];

	print_field("kind", kit->n > 0 ? "kit: the store and the files below" : "backup: only the store");
	print_field("cluster", facts->cluster);
	print_field("store", facts->store_id);
	print_number("schema", facts->schema);
	print_number("epoch", facts->epoch);
	print_number("index", facts->index);
	print_field("last write", facts->newest_ms > 0 ? clock_format(facts->newest_ms, when) : "");
	print_number("nodes", facts->nodes);
	if (facts->missing > 0)
		print_number("nodes missing", facts->missing);
	print_number("volumes", facts->volumes);
	print_number("claims", facts->claims);
	for (size_t i = 0; i < kit->n; i++)
		if (!str_eq(kit->files[i].name, KIT_STORE))
			print_field("file", kit->files[i].name);
	print_line("every record is unchanged");
}

static enum status cmd_operator_backup_verify(struct invocation *inv, struct error *err)
{
	cleanup(kit_release) struct kit kit = {.n = 0};
	cleanup_close int fd = -EBADF;
	struct kv_copy copy = {.path = inv->args[0]};
	const struct kit_file *store;
	struct copy_facts facts;
	enum status status = copy_open(inv->args[0], &fd, err);

	if (status == STATUS_OK && kit_is_one(fd))
		status = read_kit(inv, fd, &kit, err);
	store = kit_find(&kit, KIT_STORE);
	if (store) {
		copy.image = store->data;
		copy.len = store->len;
	}
	if (status == STATUS_OK)
		status = copy_look(&copy, &facts, err);
	if (status == STATUS_OK && store)
		status = kit_check(&kit, err);
	if (status != STATUS_OK)
		return status;
	if (inv->options[OPT_JSON])
		return print_facts_json(&kit, &facts, err);
	print_facts(&kit, &facts);
	return STATUS_OK;
}

enum {
	DIGEST_SIZE = 32,      /* SHA-256 */
	PART_SIZE = 256 << 10, /* of a copy on its way; requests may have 1 MiB */
	BACKUP_TRIES = 4,
	TEMPORARY_SIZE = PATH_MAX,
};

#define TRANSFER_TIMEOUT_US (UINT64_C(3600) * USEC_PER_SEC)

static const ProtobufCServiceDescriptor *const operator_service = &holdfast__v1__operator__descriptor;

/* A copy that is read or written, with its digest so far. */
struct transfer {
	struct connection *connection;
	const char *path;
	int fd;
	EVP_MD_CTX *digest;
	uint64_t offset;
	uint64_t size;
	uint64_t deadline_us;
};

static void transfer_release(struct transfer *transfer)
{
	close_fdp(&transfer->fd);
	EVP_MD_CTX_free(transfer->digest);
}

#define cleanup_transfer cleanup(transfer_release)

static enum status begin_digest(struct transfer *transfer, struct error *err)
{
	EVP_MD_CTX_free(transfer->digest);
	transfer->digest = EVP_MD_CTX_new();
	if (!transfer->digest || EVP_DigestInit_ex(transfer->digest, EVP_sha256(), NULL) != 1)
		return error_set(err, STATUS_INTERNAL, 0, "SHA-256 is not available");
	return STATUS_OK;
}

static enum status add_digest(struct transfer *transfer, const void *bytes, size_t n, struct error *err)
{
	if (EVP_DigestUpdate(transfer->digest, bytes, n) != 1)
		return error_set(err, STATUS_INTERNAL, 0, "SHA-256 failed");
	return STATUS_OK;
}

static enum status end_digest(struct transfer *transfer, uint8_t ret[static DIGEST_SIZE], struct error *err)
{
	unsigned int n = 0;

	if (EVP_DigestFinal_ex(transfer->digest, ret, &n) != 1 || n != DIGEST_SIZE)
		return error_set(err, STATUS_INTERNAL, 0, "SHA-256 failed");
	return STATUS_OK;
}

static void show_transfer(const struct transfer *transfer, const char *doing)
{
	char done[SIZE_TEXT_SIZE], size[SIZE_TEXT_SIZE];

	progress_show("%s: %s of %s", doing, size_text(transfer->offset, done),
		      size_text(transfer->size, size));
}

/* 1 behind the deadline: 0 is no limit. */
static uint64_t time_left_us(const struct transfer *transfer)
{
	uint64_t now_us = clock_monotonic_us();

	return now_us < transfer->deadline_us ? transfer->deadline_us - now_us : 1;
}

static enum status check_time(const struct transfer *transfer, struct error *err)
{
	if (clock_monotonic_us() < transfer->deadline_us)
		return STATUS_OK;
	return error_set(err, STATUS_DEADLINE_EXCEEDED, 0,
			 "%s: only %" PRIu64 " of %" PRIu64
			 " bytes in time. Next: the same with a longer --timeout",
			 transfer->path, transfer->offset, transfer->size);
}

static enum status handle_part(struct transfer *transfer, const ProtobufCBinaryData *data, struct error *err)
{
	enum status status;
	int r;

	if (data->len == 0 || data->len > transfer->size - transfer->offset)
		return error_set(err, STATUS_DATA_LOSS, 0,
				 "the server gave %zu bytes at %" PRIu64 " of a backup of %" PRIu64 " bytes",
				 data->len, transfer->offset, transfer->size);
	r = fd_write_all(transfer->fd, data->data, data->len);
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "cannot write %s", transfer->path);
	status = add_digest(transfer, data->data, data->len, err);
	transfer->offset += data->len;
	return status;
}

static enum status read_parts(struct transfer *transfer, char *id, struct error *err)
{
	enum status status = STATUS_OK;

	while (status == STATUS_OK && transfer->offset < transfer->size) {
		Holdfast__V1__ReadBackupRequest request = HOLDFAST__V1__READ_BACKUP_REQUEST__INIT;
		cleanup_message Holdfast__V1__ReadBackupResponse *answer = NULL;

		request.id = id;
		request.offset = transfer->offset;
		show_transfer(transfer, "backup");
		status = check_time(transfer, err);
		if (status == STATUS_OK)
			status = connection_call(transfer->connection, operator_service, "ReadBackup",
						 &request.base, CALL_TIMEOUT_US, &answer, err);
		if (status == STATUS_OK)
			status = handle_part(transfer, &answer->data, err);
	}
	progress_end();
	return status;
}

/* Everything is there: is it what the server meant, and does it stay? */
static enum status check_backup(struct transfer *transfer, const Holdfast__V1__BeginBackupResponse *begun,
				struct error *err)
{
	uint8_t digest[DIGEST_SIZE];

	TRY(end_digest(transfer, digest, err));
	if (begun->sha256.len != DIGEST_SIZE || memcmp(begun->sha256.data, digest, DIGEST_SIZE) != 0)
		return error_set(
			err, STATUS_DATA_LOSS, 0,
			"the backup arrived with another SHA-256 than the server computed. Next: try again");
	if (fsync(transfer->fd) < 0)
		return error_set(err, status_from_errno(errno), errno, "cannot write %s", transfer->path);
	return STATUS_OK;
}

static enum status fetch_backup(struct transfer *transfer, const Holdfast__V1__BeginBackupRequest *request,
				Holdfast__V1__BeginBackupResponse **ret, struct error *err)
{
	cleanup_message Holdfast__V1__BeginBackupResponse *begun = NULL;
	enum status status = begin_digest(transfer, err);

	progress_show("backup: the server makes a copy ...");
	if (status == STATUS_OK)
		status = connection_call(transfer->connection, operator_service, "BeginBackup",
					 &request->base, time_left_us(transfer), &begun, err);
	progress_end();
	if (status != STATUS_OK)
		return status;
	transfer->size = begun->size_bytes;
	status = read_parts(transfer, begun->id, err);
	if (status == STATUS_OK)
		status = check_backup(transfer, begun, err);
	if (status == STATUS_OK)
		*ret = TAKE_PTR(begun);
	return status;
}

/* The server that made the copy is lost, or another copy is being made. A call that was never begun has been
 * repeated already. */
static bool is_worth_another_try(const struct transfer *transfer, enum status status)
{
	if (status == STATUS_UNAVAILABLE)
		return rpc_client_may_have_begun(connection_client(transfer->connection));
	return status == STATUS_UNKNOWN || status == STATUS_ABORTED || status == STATUS_NOT_FOUND;
}

/* A backup changes nothing: the server that leads next makes another one. */
static enum status insist_on_backup(struct transfer *transfer,
				    const Holdfast__V1__BeginBackupRequest *request,
				    Holdfast__V1__BeginBackupResponse **ret, struct error *err)
{
	struct backoff backoff = BACKOFF_INIT(USEC_PER_SEC, 8 * USEC_PER_SEC);

	for (int n = 1;; n++) {
		enum status status = fetch_backup(transfer, request, ret, err);
		uint64_t pause_us = backoff_next(&backoff, backoff_random());

		if (n == BACKUP_TRIES || !is_worth_another_try(transfer, status) ||
		    pause_us >= time_left_us(transfer))
			return status;
		if (ftruncate(transfer->fd, 0) < 0 || lseek(transfer->fd, 0, SEEK_SET) < 0)
			return error_set(err, status_from_errno(errno), errno, "cannot write %s",
					 transfer->path);
		transfer->offset = 0;
		(void)usleep((useconds_t)pause_us);
		rpc_client_move_on(connection_client(transfer->connection));
	}
}

static enum status open_temporary(struct transfer *transfer, const char *path,
				  char temporary[static TEMPORARY_SIZE], struct error *err)
{
	if (access(path, F_OK) == 0)
		return error_set(err, STATUS_ALREADY_EXISTS, 0,
				 "%s exists and is not overwritten. Next: give another name, or remove it",
				 path);
	if (str_format(temporary, TEMPORARY_SIZE, "%s.part-XXXXXX", path) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, ENAMETOOLONG, "%s", path);
	unfinished_remove_at_signal(temporary);
	/* a new file of mode 0600: another account may write in the folder, and another run use the name */
	transfer->fd = mkostemp(temporary, O_CLOEXEC);
	if (transfer->fd < 0)
		return error_set(err, status_from_errno(errno), errno, "cannot make %s", temporary);
	return STATUS_OK;
}

/* Give the whole copy its name, unless a file has it. FAT has no hard links, and NFS no such rename. */
static enum status keep(const char *temporary, const char *path, struct error *err)
{
	int r = link(temporary, path);

	if (r == 0)
		(void)unlink(temporary);
	else if (errno != EEXIST)
		r = renameat2(AT_FDCWD, temporary, AT_FDCWD, path, RENAME_NOREPLACE);
	if (r < 0)
		return error_set(err, status_from_errno(errno), errno,
				 "the whole backup is in %s: cannot name it %s", temporary, path);
	r = file_sync_folder(path);
	return r < 0 ? error_set(err, status_from_errno(r), r, "sync the folder of %s", path) : STATUS_OK;
}

static enum status print_backup(struct invocation *inv, const Holdfast__V1__BeginBackupResponse *begun,
				struct error *err)
{
	char digest[2 * DIGEST_SIZE + 1] = "";
	char size[SIZE_TEXT_SIZE];

	if (inv->options[OPT_JSON])
		return print_answer(&begun->base, err);
	hex_encode(digest, begun->sha256.data, DIGEST_SIZE); /* of this size: it was compared */
	print_line("%s holds the state of index %" PRIu64 ", %s; it contains secrets%s", inv->args[0],
		   begun->index, size_text(begun->size_bytes, size),
		   inv->options[OPT_KIT] ? ", encrypted. Next: holdfast operator backup verify" : "");
	print_line("SHA-256 %s", digest);
	return STATUS_OK;
}

/* A kit that only the key of the server's certificate opens needs nothing else. */
static enum status apply_kit(struct invocation *inv, Holdfast__V1__BeginBackupRequest *request,
			     char passphrase[static KIT_PASSPHRASE_SIZE], struct error *err)
{
	const char *path = inv->options[OPT_PASSPHRASE_FILE];

	request->kit = inv->options[OPT_KIT] != NULL;
	if (path && !request->kit)
		return usage_error(inv, err, "--passphrase-file goes with --kit");
	if (!path)
		return STATUS_OK;
	request->passphrase = passphrase;
	return kit_passphrase_read(path, passphrase, err);
}

/* Confirms to the server that all has arrived, by a read behind the end. The server then counts the backup as
 * made, and removes its copy. The local file stays even if the server does not receive it. */
static void confirm(struct transfer *transfer, char *id)
{
	Holdfast__V1__ReadBackupRequest request = HOLDFAST__V1__READ_BACKUP_REQUEST__INIT;
	cleanup_message Holdfast__V1__ReadBackupResponse *answer = NULL;
	struct error err;

	request.id = id;
	request.offset = transfer->size;
	(void)connection_call(transfer->connection, operator_service, "ReadBackup", &request.base,
			      CALL_TIMEOUT_US, &answer, &err);
}

static enum status cmd_operator_backup(struct invocation *inv, struct error *err)
{
	Holdfast__V1__BeginBackupRequest request = HOLDFAST__V1__BEGIN_BACKUP_REQUEST__INIT;
	char passphrase[KIT_PASSPHRASE_SIZE];
	cleanup_transfer struct transfer transfer = {.path = inv->args[0], .fd = -EBADF};
	cleanup_message Holdfast__V1__BeginBackupResponse *begun = NULL;
	cleanup_connection struct connection *connection = NULL;
	static char temporary[TEMPORARY_SIZE]; /* a signal removes it */
	uint64_t timeout_us;

	TRY(value_timeout(inv, TRANSFER_TIMEOUT_US, &timeout_us, err));
	TRY(apply_kit(inv, &request, passphrase, err));
	TRY(connect_server(inv, &connection, err));
	TRY(open_temporary(&transfer, inv->args[0], temporary, err));
	transfer.connection = connection;
	transfer.deadline_us = clock_monotonic_us() + timeout_us;
	enum status status = insist_on_backup(&transfer, &request, &begun, err);
	explicit_bzero(passphrase, sizeof(passphrase));
	if (status != STATUS_OK) {
		(void)unlink(temporary);
		return status;
	}
	TRY(keep(temporary, inv->args[0], err));
	confirm(&transfer, begun->id);
	return print_backup(inv, begun, err);
}

/* Read the next part of the file. @ret_n 0 at its end */
static enum status read_file_part(struct transfer *transfer, uint8_t part[static PART_SIZE], size_t *ret_n,
				  struct error *err)
{
	ssize_t n;

	do
		n = pread(transfer->fd, part, PART_SIZE, (off_t)transfer->offset);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return error_set(err, status_from_errno(errno), errno, "cannot read %s", transfer->path);
	*ret_n = (size_t)n;
	return STATUS_OK;
}

/* Size and digest of the whole file. */
static enum status measure(struct transfer *transfer, uint8_t *part, uint8_t ret_digest[static DIGEST_SIZE],
			   struct error *err)
{
	enum status status = begin_digest(transfer, err);
	size_t n = 1;

	while (status == STATUS_OK && n > 0) {
		status = read_file_part(transfer, part, &n, err);
		if (status == STATUS_OK)
			status = add_digest(transfer, part, n, err);
		transfer->offset += status == STATUS_OK ? n : 0;
	}
	transfer->size = transfer->offset;
	transfer->offset = 0;
	if (status == STATUS_OK && transfer->size == 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s is empty: it is no backup",
				 transfer->path);
	return status == STATUS_OK ? end_digest(transfer, ret_digest, err) : status;
}

static enum status write_parts(struct transfer *transfer, uint8_t *part, char *id, struct error *err)
{
	enum status status = STATUS_OK;

	while (status == STATUS_OK && transfer->offset < transfer->size) {
		Holdfast__V1__WriteRestoreRequest request = HOLDFAST__V1__WRITE_RESTORE_REQUEST__INIT;
		cleanup_message Holdfast__V1__WriteRestoreResponse *answer = NULL;
		size_t n = 0;

		show_transfer(transfer, "restore");
		status = check_time(transfer, err);
		if (status == STATUS_OK)
			status = read_file_part(transfer, part, &n, err);
		if (status == STATUS_OK && n == 0)
			status = error_set(err, STATUS_ABORTED, 0, "%s became shorter meanwhile",
					   transfer->path);
		request.id = id;
		request.offset = transfer->offset;
		request.data = (ProtobufCBinaryData){.len = n, .data = part};
		if (status == STATUS_OK)
			status = connection_call(transfer->connection, operator_service, "WriteRestore",
						 &request.base, CALL_TIMEOUT_US, &answer, err);
		transfer->offset += n;
	}
	progress_end();
	return status;
}

/* Everything up to the moment of no return. @ret_id the copy's, at the server; owned by the caller */
static enum status send_copy(struct transfer *transfer, char **ret_id, struct error *err)
{
	Holdfast__V1__BeginRestoreRequest request = HOLDFAST__V1__BEGIN_RESTORE_REQUEST__INIT;
	cleanup_message Holdfast__V1__BeginRestoreResponse *begun = NULL;
	cleanup_free uint8_t *part = malloc(PART_SIZE);
	uint8_t digest[DIGEST_SIZE];

	if (!part)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot read %s", transfer->path);
	TRY(measure(transfer, part, digest, err));
	request.size_bytes = transfer->size;
	request.sha256 = (ProtobufCBinaryData){.len = sizeof(digest), .data = digest};
	TRY(connection_call(transfer->connection, operator_service, "BeginRestore", &request.base,
			    CALL_TIMEOUT_US, &begun, err));
	TRY(write_parts(transfer, part, begun->id, err));
	*ret_id = strdup(begun->id);
	return *ret_id ? STATUS_OK : error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "restore");
}

static enum status apply(struct invocation *inv, const struct transfer *transfer, char *id, char *reason,
			 struct error *err)
{
	Holdfast__V1__ApplyRestoreRequest request = HOLDFAST__V1__APPLY_RESTORE_REQUEST__INIT;
	cleanup_message Holdfast__V1__ApplyRestoreResponse *answer = NULL;

	request.id = id;
	request.reason = reason;
	request.other_cluster = inv->options[OPT_OTHER_CLUSTER] != NULL;
	TRY(connection_call_long(transfer->connection, inv, operator_service, "ApplyRestore", &request.base,
				 TRANSFER_TIMEOUT_US, "restoring", &answer, err));
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	print_line("restored to index %" PRIu64 ", epoch %" PRIu64 "; %" PRIu32
		   " nodes have to report before their volumes are granted. Next: holdfast operator status",
		   answer->index, answer->epoch, answer->nodes_to_report);
	return STATUS_OK;
}

static enum status cmd_operator_restore(struct invocation *inv, struct error *err)
{
	cleanup_transfer struct transfer transfer = {.path = inv->args[0], .fd = -EBADF};
	cleanup_connection struct connection *connection = NULL;
	cleanup_free char *id = NULL;
	char *reason = NULL;
	uint64_t timeout_us;

	TRY(value_reason(inv, OPT_REASON, &reason, err));
	TRY(value_timeout(inv, TRANSFER_TIMEOUT_US, &timeout_us, err));
	transfer.fd = open(inv->args[0], O_RDONLY | O_CLOEXEC);
	if (transfer.fd < 0)
		return error_set(err, status_from_errno(errno), errno, "cannot open %s", inv->args[0]);
	if (kit_is_one(transfer.fd))
		return error_set(
			err, STATUS_INVALID_ARGUMENT, 0,
			"%s is a kit, which is for a server that is not running. Next, on its machine: "
			"holdfast-server --restore %s --dry-run",
			inv->args[0], inv->args[0]);
	enum status status = connect_server(inv, &connection, err);
	if (status == STATUS_OK)
		status = value_confirm(inv,
				       "Replace the whole state of the server by this backup? What was "
				       "written since is lost.",
				       err);
	transfer.connection = connection;
	transfer.deadline_us = clock_monotonic_us() + timeout_us;
	if (status == STATUS_OK)
		status = send_copy(&transfer, &id, err);
	return status == STATUS_OK ? apply(inv, &transfer, id, reason, err) : status;
}

static const struct command commands[] = {
	{.path = "operator backup",
	 .args = "FILE",
	 .help = "Write a copy of the server's state to a file",
	 .example = "holdfast.backup",
	 .options = OPTION_BIT(OPT_TIMEOUT) | OPTION_BIT(OPT_KIT) | OPTION_BIT(OPT_PASSPHRASE_FILE),
	 .min_args = 1,
	 .max_args = 1,
	 .arg_kinds = {WORD_FILE},
	 .run = cmd_operator_backup},
	{.path = "operator backup verify",
	 .args = "FILE",
	 .help = "Show what a backup or a kit contains, and whether it is whole",
	 .example = "holdfast.backup",
	 .options = OPTION_BIT(OPT_PASSPHRASE_FILE) | OPTION_BIT(OPT_KEY_FILE),
	 .min_args = 1,
	 .max_args = 1,
	 .arg_kinds = {WORD_FILE},
	 .run = cmd_operator_backup_verify},
	{.path = "operator restore",
	 .args = "FILE",
	 .help = "Replace the server's state by that of a backup",
	 .example = "holdfast.backup --reason 'disk lost'",
	 .options = OPTION_BIT(OPT_REASON) | OPTION_BIT(OPT_OTHER_CLUSTER) | OPTION_BIT(OPT_YES) |
		    OPTION_BIT(OPT_TIMEOUT),
	 .min_args = 1,
	 .max_args = 1,
	 .arg_kinds = {WORD_FILE},
	 .run = cmd_operator_restore},
};

const struct command_table backup_commands = {commands, ARRAY_SIZE(commands)};
