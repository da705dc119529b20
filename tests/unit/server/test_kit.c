/* SPDX-License-Identifier: Apache-2.0 */
/* The server's machine is lost: what a kit of it makes of a fresh one. */

#include "cluster.h"
#include "unit.h"

#include "base/fd.h"
#include "command/command.h"
#include "kit/copy_look.h"
#include "recovery/kit_files.h"
#include "recovery/restore.h"
#include "rpc/pki.h"

#include <fcntl.h>
#include <ftw.h>
#include <holdfast/v1/operator.pb-c.h>
#include <limits.h>
#include <openssl/pem.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { ACCOUNT_UID = 64901, ACCOUNT_GID = 64902, TEXT_MAX = 4096 };

#define PASSPHRASE "a passphrase of some length"

/* A machine that has nothing but, perhaps, the account of the server. */
struct fresh {
	char dir[FOLDER_SIZE], config[PATH_MAX], data_dir[PATH_MAX], ticket_key[PATH_MAX];
	char kit[PATH_MAX];
	char key[PATH_MAX], certificate[PATH_MAX]; /* a passphrase costs a second */
	char settings[TEXT_MAX];
};

static struct fresh fresh;
static struct kit_plan plan;
static bool has_account;

WRAPPED(struct passwd *, getpwnam, const char *name)
{
	static struct passwd account = {.pw_uid = ACCOUNT_UID, .pw_gid = ACCOUNT_GID};

	assert_string_equal(name, HOLDFAST_SERVER_USER);
	return has_account ? &account : NULL;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void make_fresh(void)
{
	folder_make(fresh.dir);
	assert_int_equal(chmod(fresh.dir, 0755), 0);
	(void)str_format(fresh.config, sizeof(fresh.config), "%s/etc/server.hcl", fresh.dir);
	(void)str_format(fresh.data_dir, sizeof(fresh.data_dir), "%s/var/lib/server", fresh.dir);
	(void)str_format(fresh.ticket_key, sizeof(fresh.ticket_key), "%s/etc/ticket.key", fresh.dir);
	(void)str_format(fresh.key, sizeof(fresh.key), "%s/kit.key", fresh.dir);
	(void)str_format(fresh.certificate, sizeof(fresh.certificate), "%s/kit.pem", fresh.dir);
	assert_int_equal(pki_make_ca(fresh.key, fresh.certificate, "kit", NULL), STATUS_OK);
	(void)str_format(fresh.kit, sizeof(fresh.kit), "%s/kit", fresh.dir);
	(void)str_format(
		fresh.settings, sizeof(fresh.settings),
		"cluster = \"c1\"\ndata_dir = \"%s\"\nticket_key = \"%s\"\nmark_file = \"%s/srv/mark\"\n"
		"tls {\n ca = \"%s/etc/tls/ca.pem\"\n cert = \"%s/etc/tls/server.pem\"\n"
		" key = \"%s/etc/tls/server.key\"\n}\n",
		fresh.data_dir, fresh.ticket_key, fresh.dir, fresh.dir, fresh.dir, fresh.dir);
	assert_int_equal(
		mkdir(str_format(fresh.config, PATH_MAX, "%s/etc", fresh.dir) > 0 ? fresh.config : "", 0755),
		0);
	(void)str_format(fresh.config, sizeof(fresh.config), "%s/etc/server.hcl", fresh.dir);
	has_account = true;
}

static int setup_fresh(void **state)
{
	make_fresh();
	return setup(state);
}

static int teardown_fresh(void **state)
{
	(void)nftw(fresh.dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	return teardown(state);
}

/* What a server whose settings are @settings would give; --dev has no file of them. */
static void take_kit(struct fixture *f, const char *settings)
{
	const struct kit_key key = {.path = fresh.certificate};
	cleanup(kit_release) struct kit kit = {.n = 0};
	char store[PATH_MAX], copy[PATH_MAX];
	uint64_t index;

	assert_int_equal(kit_collect(f->server, &kit, NULL), STATUS_OK);
	assert_int_equal(file_write_atomic(fresh.config, 0600, settings, strlen(settings)), 0);
	assert_int_equal(kit_add(&kit, KIT_SETTINGS, fresh.config, NULL), STATUS_OK);
	assert_int_equal(unlink(fresh.config), 0);
	(void)str_format(store, sizeof(store), "%s/" SERVER_STORE, f->dir);
	(void)str_format(copy, sizeof(copy), "%s/copy.db", f->dir);
	assert_int_equal(kv_copy_sqlite(store, copy, &index, NULL), STATUS_OK);
	assert_int_equal(kit_write(&kit, copy, &key, fresh.kit, NULL), STATUS_OK);
	assert_int_equal(unlink(copy), 0);
}

static void open_kit(struct restore_source *ret)
{
	const struct kit_key key = {.path = fresh.key};

	assert_int_equal(restore_source_open(fresh.kit, &key, ret, NULL), STATUS_OK);
}

/* What holdfast-server --restore does, in a process of its own: it becomes another user. */
static enum status restore_fresh(bool dry_run)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		struct new_epoch_result result;
		struct restore_source source;
		struct restore_owner owner;
		struct config config;
		struct error err;
		enum status st;

		config_init(&config);
		open_kit(&source);
		st = kit_plan_make(&source.kit, fresh.config, &config, &plan, &err);
		if (st == STATUS_OK)
			st = restore_find_owner(&config, &owner, &err);
		if (st == STATUS_OK && !dry_run)
			st = kit_plan_do(&plan, owner.uid, owner.gid, &err);
		if (st == STATUS_OK)
			st = restore_become_owner(&config, dry_run, &err);
		if (st == STATUS_OK)
			st = restore_offline(&config, &source, false, dry_run, &result, &err);
		if (st != STATUS_OK)
			(void)fprintf(stderr, "%s\n", err.msg);
		_exit((int)st);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return (enum status)WEXITSTATUS(status);
}

static int n_seen;
static ino_t seen;

static int sum_up(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	n_seen++;
	seen += st->st_ino ^ (ino_t)st->st_mtim.tv_nsec ^ (ino_t)st->st_size ^ (ino_t)st->st_uid;
	return 0;
}

static ino_t look_at(const char *dir)
{
	seen = 0;
	n_seen = 0;
	assert_int_equal(nftw(dir, sum_up, 8, FTW_PHYS), 0);
	return seen;
}

static int expect_owner(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	if (geteuid() == 0 && (st->st_uid != ACCOUNT_UID || st->st_gid != ACCOUNT_GID))
		print_error("%s belongs to %u:%u\n", path, st->st_uid, st->st_gid);
	if (geteuid() == 0)
		assert_true(st->st_uid == ACCOUNT_UID && st->st_gid == ACCOUNT_GID);
	assert_int_equal(st->st_mode & 0777, type == FTW_D ? 0700 : 0600);
	return 0;
}

static void expect_file(const char *name, mode_t mode, uid_t uid)
{
	char path[PATH_MAX];
	struct stat st;

	(void)str_format(path, sizeof(path), "%s/%s", fresh.dir, name);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, mode);
	if (geteuid() == 0)
		assert_int_equal(st.st_uid, uid);
}

#define CASE(name) TEST_ON(name, struct fixture, f, setup_fresh, teardown_fresh)

CASE(a_fresh_machine_gets_all_from_a_kit_that_only_root_can_read)
{
	char path[PATH_MAX];

	take_kit(f, fresh.settings);
	assert_int_equal(chmod(fresh.kit, 0600), 0);
	assert_int_equal(restore_fresh(false), STATUS_OK);
	assert_int_equal(nftw(fresh.data_dir, expect_owner, 8, FTW_PHYS), 0);
	(void)str_format(path, sizeof(path), "%s/srv", fresh.dir); /* of the second mark */
	assert_int_equal(nftw(path, expect_owner, 8, FTW_PHYS), 0);
	expect_file("etc/server.hcl", 0644, 0);
	expect_file("etc/tls/ca.pem", 0644, 0);
	expect_file("etc/tls/server.pem", 0644, 0);
	expect_file("etc/tls/server.key", 0600, ACCOUNT_UID);
	expect_file("etc/ticket.key", 0600, ACCOUNT_UID);
	expect_file("var/lib/server/" SERVER_STORE, 0600, ACCOUNT_UID);
	assert_int_equal(restore_fresh(false), STATUS_OK); /* a second time nothing is in the way */
}

CASE(a_machine_without_the_account_is_left_as_it_is)
{
	ino_t before;

	if (geteuid() != 0)
		skip();
	take_kit(f, fresh.settings);
	before = look_at(fresh.dir);
	has_account = false;
	assert_int_equal(restore_fresh(false), STATUS_FAILED_PRECONDITION);
	assert_int_equal(look_at(fresh.dir), before);
}

CASE(a_dry_run_changes_nothing_before_or_after_the_restore)
{
	ino_t before;

	take_kit(f, fresh.settings);
	before = look_at(fresh.dir);
	assert_int_equal(restore_fresh(true), STATUS_OK);
	assert_int_equal(look_at(fresh.dir), before);
	assert_int_equal(restore_fresh(false), STATUS_OK);
	before = look_at(fresh.dir);
	assert_true(n_seen > 8);
	assert_int_equal(restore_fresh(true), STATUS_OK);
	assert_int_equal(look_at(fresh.dir), before);
}

CASE(another_ticket_key_is_never_replaced_and_nothing_else_is_done)
{
	cleanup_free char *left = NULL;
	ino_t before;

	take_kit(f, fresh.settings);
	assert_int_equal(file_write_atomic(fresh.ticket_key, 0600, "another", 7), 0);
	before = look_at(fresh.dir);
	assert_int_equal(restore_fresh(false), STATUS_FAILED_PRECONDITION);
	assert_int_equal(look_at(fresh.dir), before);
	assert_int_equal(file_read(fresh.ticket_key, 100, &left, NULL), 0);
	assert_string_equal(left, "another");
}

CASE(the_settings_of_the_machine_count_and_stay)
{
	static const char of_kit[] = "cluster = \"c1\"\ndata_dir = \"/nowhere\"\n";
	cleanup_free char *left = NULL;

	take_kit(f, of_kit);
	assert_int_equal(file_write_atomic(fresh.config, 0644, fresh.settings, strlen(fresh.settings)), 0);
	assert_int_equal(restore_fresh(false), STATUS_OK);
	assert_int_equal(file_read(fresh.config, TEXT_MAX, &left, NULL), 0);
	assert_string_equal(left, fresh.settings);
	assert_int_equal(access(fresh.data_dir, F_OK), 0);
}

CASE(a_kit_has_the_certificate_that_the_next_one_needs)
{
	char settings[TEXT_MAX], path[PATH_MAX];

	(void)str_format(path, sizeof(path), "%s/etc/kit.pem", fresh.dir);
	(void)str_format(settings, sizeof(settings), "kit_certificate = \"%s\"\n%s", path, fresh.settings);
	(void)str_copy(f->server->config.kit_certificate, PATH_MAX, fresh.certificate);
	take_kit(f, settings);
	assert_int_equal(restore_fresh(false), STATUS_OK);
	expect_file("etc/kit.pem", 0644, 0);
}

/* Whoever can encrypt to a certificate can write a kit. */
CASE(a_kit_writes_nowhere_but_beside_the_settings)
{
	char settings[TEXT_MAX], victim[PATH_MAX];

	(void)str_format(victim, sizeof(victim), "%s/cron.d/job", fresh.dir);
	(void)str_format(settings, sizeof(settings),
			 "cluster = \"c1\"\ndata_dir = \"%s\"\nticket_key = \"%s\"\ntls {\n ca = \"%s\"\n}\n",
			 fresh.data_dir, fresh.ticket_key, victim);
	take_kit(f, settings);
	assert_int_equal(restore_fresh(false), STATUS_FAILED_PRECONDITION);
	assert_int_equal(access(victim, F_OK), -1);
	assert_int_equal(access(fresh.config, F_OK), -1);
	assert_int_equal(access(fresh.data_dir, F_OK), -1);
}

CASE(a_ticket_key_that_waits_for_the_next_start_gives_no_kit)
{
	cleanup(kit_release) struct kit kit = {.n = 0};
	char path[PATH_MAX];

	(void)str_copy(path, sizeof(path), f->server->config.ticket_key);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(ticket_key_make(path, NULL), STATUS_OK);
	assert_int_equal(kit_collect(f->server, &kit, NULL), STATUS_FAILED_PRECONDITION);
}

/* --- by a call --- */

static Holdfast__V1__BeginBackupResponse *begin(struct fixture *f, const char *passphrase,
						enum status expected)
{
	Holdfast__V1__BeginBackupRequest request =
		V1(begin_backup_request, .kit = true, .passphrase = TEXT(passphrase));
	ProtobufCMessage *response = NULL;

	assert_int_equal(call(&f->operator, & holdfast__v1__operator__descriptor, "BeginBackup",
			      &request.base, &response, NULL),
			 expected);
	return (Holdfast__V1__BeginBackupResponse *)response;
}

static void read_kit(struct fixture *f, char *id)
{
	Holdfast__V1__ReadBackupRequest request = V1(read_backup_request, .id = id);
	cleanup_close int fd = open(fresh.kit, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	bool is_end = false;

	while (!is_end) {
		cleanup_pb ProtobufCMessage *response = NULL;
		const Holdfast__V1__ReadBackupResponse *part;

		assert_ok(call(&f->operator, & holdfast__v1__operator__descriptor, "ReadBackup",
			       &request.base, &response, NULL));
		part = (const Holdfast__V1__ReadBackupResponse *)response;
		is_end = part->data.len == 0;
		request.offset += part->data.len;
		assert_int_equal(fd_write_all(fd, part->data.data, part->data.len), 0);
	}
}

CASE(a_kit_is_whole_and_leaves_nothing_on_the_server)
{
	const struct kit_key passphrase = {.passphrase = PASSPHRASE};
	cleanup_pb Holdfast__V1__BeginBackupResponse *begun = NULL;
	cleanup_free char *ticket_key = NULL;
	const struct kit_file *file;
	struct restore_source source;
	struct copy_facts facts;
	char folder[PATH_MAX];
	size_t n;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	begun = begin(f, PASSPHRASE, STATUS_OK);
	read_kit(f, begun->id);
	assert_int_equal(restore_source_open(fresh.kit, &passphrase, &source, NULL), STATUS_OK);
	file = kit_find(&source.kit, KIT_TICKET_KEY);
	assert_int_equal(file_read(f->server->config.ticket_key, TEXT_MAX, &ticket_key, &n), 0);
	assert_int_equal(file->len, n);
	assert_memory_equal(file->data, ticket_key, n);
	file = kit_find(&source.kit, KIT_STORE);
	assert_ok(copy_look(&(struct kv_copy){.path = "kit", .image = file->data, .len = file->len}, &facts,
			    NULL));
	assert_int_equal(facts.index, begun->index);
	assert_int_equal(facts.volumes, 1);
	assert_string_equal(facts.cluster, "c1");
	assert_true(facts.newest_ms > 0);
	restore_source_close(&source);
	(void)str_format(folder, sizeof(folder), "%s/backup", f->dir);
	(void)look_at(folder);
	assert_int_equal(n_seen, 1); /* itself */
}

CASE(a_kit_counts_as_made_once_it_was_read_to_its_end)
{
	cleanup_pb Holdfast__V1__BeginBackupResponse *begun = NULL;

	(void)str_copy(f->server->config.kit_certificate, PATH_MAX, fresh.certificate);
	assert_int_equal(metric_of(f, "backup_kit_timestamp_seconds"), 0);
	expect_warning_events(f, "kit", 1, 0);
	begun = begin(f, "", STATUS_OK);
	assert_int_equal(metric_of(f, "backup_kit_timestamp_seconds"), 0);
	read_kit(f, begun->id);
	UNTIL(f, metric_of(f, "backup_kit_timestamp_seconds") > 0);
	assert_int_equal(metric_of(f, "backup_kit_timestamp_seconds"),
			 metric_of(f, "backup_timestamp_seconds"));
	expect_warning_events(f, "kit", 1, 1);
}

CASE(a_kit_is_never_made_unencrypted)
{
	assert_null(begin(f, "", STATUS_FAILED_PRECONDITION));
	assert_null(begin(f, "too short", STATUS_INVALID_ARGUMENT));
	expect_warning_events(f, "kit-certificate", 0, 0);
	(void)str_copy(f->server->config.kit_certificate, PATH_MAX, "/nowhere/kit.pem");
	expect_warning_events(f, "kit-certificate", 1, 0);
	assert_null(begin(f, "", STATUS_NOT_FOUND));
	assert_null(f->server->backup);
}

/* --- certificate and key --- */

/* The server has @text for its certificate and its key from now on. */
static void use_file(struct fixture *f, const char *text)
{
	struct server_files *in_use = &f->server->in_use;

	(void)str_format(in_use->cert, sizeof(in_use->cert), "%s/both.pem", f->dir);
	(void)str_copy(in_use->key, sizeof(in_use->key), in_use->cert);
	assert_int_equal(file_write_atomic(in_use->cert, 0600, text, strlen(text)), 0);
}

/* The settings of the fresh machine, with one file for both. */
static const char *settings_of_one_file(void)
{
	static char settings[TEXT_MAX];

	(void)str_copy(settings, sizeof(settings), fresh.settings);
	memcpy(NON_NULL(strstr(settings, "server.key")), "server.pem", strlen("server.pem"));
	return settings;
}

/* The form that OpenSSL wrote before PKCS#8: "BEGIN EC PRIVATE KEY". */
static char *read_traditional_key(struct fixture *f)
{
	BIO *in = BIO_new_file(f->server->config.key, "r"), *out = BIO_new(BIO_s_mem());
	EVP_PKEY *key = PEM_read_bio_PrivateKey(in, NULL, NULL, NULL);
	char *text;

	assert_int_equal(PEM_write_bio_PrivateKey_traditional(out, key, NULL, NULL, 0, NULL, NULL), 1);
	assert_int_equal(BIO_write(out, "", 1), 1);
	(void)BIO_get_mem_data(out, &text);
	text = strdup(text);
	EVP_PKEY_free(key);
	(void)BIO_free(in);
	(void)BIO_free(out);
	assert_non_null(strstr(text, "BEGIN EC PRIVATE KEY"));
	return text;
}

/* Key first, its chain behind it: both restored files hold all of it, and nobody else may read them. */
CASE(a_file_of_certificate_and_key_is_restored_whole_and_private)
{
	cleanup_free char *cert = NULL, *ca = NULL, *key = read_traditional_key(f), *both = NULL,
			  *left = NULL;
	const char *settings = settings_of_one_file();
	char path[PATH_MAX];

	assert_int_equal(file_read(f->server->config.cert, TEXT_MAX, &cert, NULL), 0);
	assert_int_equal(file_read(f->server->config.ca, TEXT_MAX, &ca, NULL), 0);
	assert_true(asprintf(&both, "%s%s%s", key, cert, ca) > 0);
	use_file(f, both);
	take_kit(f, fresh.settings);
	assert_int_equal(restore_fresh(false), STATUS_OK);
	expect_file("etc/tls/server.pem", 0600, ACCOUNT_UID);
	expect_file("etc/tls/server.key", 0600, ACCOUNT_UID);
	(void)str_format(path, sizeof(path), "%s/etc/tls/server.pem", fresh.dir);
	assert_int_equal(file_read(path, TEXT_MAX, &left, NULL), 0);
	assert_string_equal(left, both);

	/* and where the settings name one file for both */
	assert_int_equal(unlink(path), 0);
	assert_int_equal(file_write_atomic(fresh.config, 0644, settings, strlen(settings)), 0);
	assert_int_equal(restore_fresh(false), STATUS_OK);
	expect_file("etc/tls/server.pem", 0600, ACCOUNT_UID);
}

CASE(two_files_for_one_place_are_refused_before_anything_is_written)
{
	ino_t before;

	take_kit(f, settings_of_one_file());
	before = look_at(fresh.dir);
	assert_int_equal(restore_fresh(false), STATUS_FAILED_PRECONDITION);
	assert_int_equal(look_at(fresh.dir), before);
}

/* A kit like those that were made of any file. */
static void take_kit_without_certificate(struct fixture *f)
{
	const struct kit_key key = {.path = fresh.certificate};
	cleanup(kit_release) struct kit kit = {.n = 0};
	char store[PATH_MAX], copy[PATH_MAX];
	uint64_t index;

	(void)str_format(store, sizeof(store), "%s/" SERVER_STORE, f->dir);
	(void)str_format(copy, sizeof(copy), "%s/copy.db", f->dir);
	assert_int_equal(kv_copy_sqlite(store, copy, &index, NULL), STATUS_OK);
	assert_int_equal(kit_add(&kit, KIT_KEY, f->server->config.key, NULL), STATUS_OK);
	assert_int_equal(kit_add(&kit, KIT_CERT, f->server->in_use.cert, NULL), STATUS_OK);
	assert_int_equal(kit_add(&kit, KIT_CA, f->server->config.ca, NULL), STATUS_OK);
	assert_int_equal(kit_write(&kit, copy, &key, fresh.kit, NULL), STATUS_OK);
}

static enum status verify(struct error *err)
{
	char *argv[] = {TEXT("holdfast"), TEXT("operator"),   TEXT("backup"), TEXT("verify"),
			fresh.kit,	  TEXT("--key-file"), fresh.key,      NULL};
	struct invocation inv;

	assert_int_equal(command_parse(ARRAY_SIZE(argv) - 1, argv, &inv, err), STATUS_OK);
	return command_run(&inv, err);
}

CASE(a_kit_with_which_no_server_starts_is_neither_made_nor_called_unchanged)
{
	struct error err;

	take_kit(f, fresh.settings);
	assert_succeeds(verify(&err), err);
	assert_int_equal(unlink(fresh.kit), 0);
	use_file(f, "");
	assert_null(begin(f, PASSPHRASE, STATUS_FAILED_PRECONDITION));
	take_kit_without_certificate(f);
	assert_error(verify(&err), STATUS_FAILED_PRECONDITION, err, "no server starts with these");
}

TEST_FIXTURE(a_backup_has_to_be_a_file, setup_fresh, teardown_fresh)
{
	static const struct {
		const char *path, *words;
	} rows[] = {{"/", "no regular file"},
		    {"/dev/zero", "no regular file"},
		    {"pipe", "no regular file"},
		    {"empty", "is empty"},
		    {"none", "No such file"}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct restore_source source;
		char path[PATH_MAX];
		struct error err;

		(void)str_format(path, sizeof(path), "%s%s%s", rows[i].path[0] == '/' ? "" : fresh.dir,
				 rows[i].path[0] == '/' ? "" : "/", rows[i].path);
		if (str_eq(rows[i].path, "pipe"))
			assert_int_equal(mkfifo(path, 0600), 0);
		if (str_eq(rows[i].path, "empty"))
			assert_int_equal(file_write_atomic(path, 0600, "", 0), 0);
		assert_int_not_equal(restore_source_open(path, NULL, &source, &err), STATUS_OK);
		assert_non_null(strstr(err.msg, rows[i].words));
	}
}

CASE(a_copy_with_a_flipped_bit_is_not_whole)
{
	char store[PATH_MAX], copy[PATH_MAX];
	cleanup_free char *bytes = NULL;
	struct copy_facts facts;
	struct kv_copy image = {.path = "copy"};
	uint64_t index;
	size_t at;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	(void)str_format(store, sizeof(store), "%s/" SERVER_STORE, f->dir);
	(void)str_format(copy, sizeof(copy), "%s/copy", fresh.dir);
	assert_int_equal(kv_copy_sqlite(store, copy, &index, NULL), STATUS_OK);
	assert_int_equal(copy_look(&(struct kv_copy){.path = copy}, &facts, NULL), STATUS_OK);
	assert_int_equal(file_read(copy, 1 << 24, &bytes, &image.len), 0);
	image.image = bytes;
	at = (size_t)((char *)memmem(bytes, image.len, "volume/default/db", 17) - bytes);
	bytes[at + 20] ^= 1; /* of its value */
	assert_int_equal(copy_look(&image, &facts, NULL), STATUS_DATA_LOSS);
}

/* In whatever record: not all are read for the epoch that begins. */
CASE(a_copy_with_a_flipped_bit_takes_no_stores_place)
{
	char store[PATH_MAX], copy[PATH_MAX];
	cleanup_free char *bytes = NULL;
	struct new_epoch_result result;
	struct restore_source source;
	struct config config;
	struct error err;
	uint64_t index;
	char *at;
	size_t n;

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	(void)str_format(store, sizeof(store), "%s/" SERVER_STORE, f->dir);
	(void)str_format(copy, sizeof(copy), "%s/copy", fresh.dir);
	assert_int_equal(kv_copy_sqlite(store, copy, &index, NULL), STATUS_OK);
	assert_int_equal(file_read(copy, 1 << 24, &bytes, &n), 0);
	config_init(&config);
	(void)str_copy(config.cluster, sizeof(config.cluster), f->server->config.cluster);
	(void)str_format(config.data_dir, sizeof(config.data_dir), "%s/data", fresh.dir);
	assert_int_equal(mkdir(config.data_dir, 0700), 0);
	at = memmem(bytes, n, "Volumes.Register", 16); /* of a record of the audit */
	assert_non_null(at);
	*at ^= 1;
	assert_int_equal(file_write_atomic(copy, 0600, bytes, n), 0);
	assert_int_equal(restore_source_open(copy, NULL, &source, NULL), STATUS_OK);
	for (int dry_run = 0; dry_run < 2; dry_run++) {
		assert_error(restore_offline(&config, &source, false, dry_run, &result, &err),
			     STATUS_DATA_LOSS, err, "is not as written");
	}
	restore_source_close(&source);
	(void)str_format(store, sizeof(store), "%s/" SERVER_STORE, config.data_dir);
	assert_int_equal(access(store, F_OK), -1);
}
