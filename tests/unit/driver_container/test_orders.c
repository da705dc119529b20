/* SPDX-License-Identifier: Apache-2.0 */
/* Which orders the driver takes, and that it remembers them. */
#include "driver.h"
#include "folder.h"
#include "nonces.h"
#include "order_admit.h"
#include "order_check.h"
#include "trail.h"
#include "unit.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/strbuf.h"
#include "model/order.h"

#include <fcntl.h>
#include <holdfast/driver/v1/driver.pb-c.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define ALLOC "0190a6f2-0000-7000-8000-000000000001"
#define BOOT "11111111-2222-4333-8444-555555555555"
#define OTHER_BOOT "21111111-2222-4333-8444-555555555555"

static const uint8_t seed[ORDER_KEY_SIZE] = "this is the seed of a test's key";
static struct settings settings;

struct fixture {
	char folder[FOLDER_SIZE], path[FOLDER_SIZE + 16];
	struct nonces *nonces;
	struct order_place place;
	uint8_t body[256];
	size_t n_body;
	struct order order;
};

static size_t pack_task(uint8_t *body, const char *alloc, const char *task, const char *driver)
{
	Holdfast__Driver__V1__TaskConfig config =
		PB(holdfast__driver__v1__task_config, .alloc_id = TEXT(alloc), .task = TEXT(task),
		   .driver = TEXT(driver));

	return holdfast__driver__v1__task_config__pack(&config, body);
}

static int begin(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, sizeof(seed));
	size_t n = ORDER_KEY_SIZE;

	assert_int_equal(EVP_PKEY_get_raw_public_key(key, settings.keys[0], &n), 1);
	EVP_PKEY_free(key);
	settings.n_keys = 1;
	(void)str_copy(settings.cluster, sizeof(settings.cluster), "prod");
	(void)str_copy(settings.node_id, sizeof(settings.node_id), "node-1");
	folder_make(f->folder);
	(void)snprintf(f->path, sizeof(f->path), "%s/orders", f->folder);
	assert_int_equal(nonces_open(f->path, BOOT, &f->nonces, NULL), STATUS_OK);
	f->place = (struct order_place){.settings = &settings, .nonces = f->nonces, .now_ms = 500};
	assert_true(id_uuid_bytes(BOOT, f->place.boot_id));
	f->n_body = pack_task(f->body, ALLOC, "web", "container");
	f->order = (struct order){.magic = ORDER_MAGIC,
				  .version = ORDER_VERSION,
				  .kind = ORDER_START,
				  .cluster = "prod",
				  .node = "node-1",
				  .driver = "container",
				  .task = "web",
				  .who = "operator alice",
				  .nonce = {1},
				  .not_after_ms = 1000};
	memcpy(f->order.boot_id, f->place.boot_id, sizeof(f->order.boot_id));
	assert_true(id_uuid_bytes(ALLOC, f->order.alloc));
	order_digest(f->body, f->n_body, f->order.digest);
	*state = f;
	return 0;
}

UNIT_TEARDOWN(end, struct fixture, f)
{
	nonces_free(f->nonces);
	(void)unlink(f->path);
	(void)rmdir(f->folder);
}

static enum status check_as_is(struct fixture *f, enum order_kind kind, char reason[static 16])
{
	const ProtobufCBinaryData order = {sizeof(f->order), (uint8_t *)&f->order};
	const ProtobufCBinaryData body = {f->n_body, f->body};
	cleanup(taken_release) struct taken taken;
	struct error err;
	enum status status = order_check(&f->place, kind, &order, &body, &taken, &err);

	(void)snprintf(reason, 16, "%s", taken.reason);
	return status;
}

static void expect(struct fixture *f, enum status status, const char *reason)
{
	char said[16];

	assert_int_equal(order_sign(&f->order, seed, NULL), STATUS_OK);
	assert_int_equal(check_as_is(f, ORDER_START, said), status);
	assert_string_equal(said, reason);
}

TEST_FIXTURE(a_valid_order_is_accepted, begin, end)
{
	expect(*state, STATUS_OK, "");
}

#define CASE(name) TEST_ON(name, struct fixture, f, begin, end)

CASE(each_field_of_an_order_has_to_be_right)
{
	static const struct {
		size_t at;
		uint8_t value;
		const char *reason;
	} wrong[] = {
		{offsetof(struct order, magic), 0, "form"},
		{offsetof(struct order, version), 9, "form"},
		{offsetof(struct order, kind), ORDER_EXEC, "kind"},
		{offsetof(struct order, reserved), 1, "form"},
		{offsetof(struct order, cluster), 'x', "cluster"},
		{offsetof(struct order, node), 'x', "node"},
		{offsetof(struct order, driver), 'x', "driver"},
		{offsetof(struct order, task), 'x', "task"},
		{offsetof(struct order, boot_id), 0, "boot"},
		{offsetof(struct order, alloc), 0xff, "alloc"},
		{offsetof(struct order, digest), 0, "digest"},
		{offsetof(struct order, not_after_ms) + 1, 0, "expired"}, /* 0x3e8 */
	};
	struct order good = f->order;

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		f->order = good;
		((uint8_t *)&f->order)[wrong[i].at] = wrong[i].value;
		expect(f,
		       str_eq(wrong[i].reason, "form") ? STATUS_INVALID_ARGUMENT : STATUS_PERMISSION_DENIED,
		       wrong[i].reason);
	}
}

CASE(a_flipped_bit_is_no_order)
{
	char reason[16];

	assert_int_equal(order_sign(&f->order, seed, NULL), STATUS_OK);
	for (size_t i = 0; i < sizeof(f->order) * 8; i += 3) {
		((uint8_t *)&f->order)[i / 8] ^= (uint8_t)(1 << i % 8);
		assert_int_not_equal(check_as_is(f, ORDER_START, reason), STATUS_OK);
		((uint8_t *)&f->order)[i / 8] ^= (uint8_t)(1 << i % 8);
	}
	assert_int_equal(check_as_is(f, ORDER_START, reason), STATUS_OK);
}

CASE(the_fields_of_a_task_match_its_order)
{
	f->n_body = pack_task(f->body, "0190a6f2-0000-7000-8000-000000000002", "web", "container");
	order_digest(f->body, f->n_body, f->order.digest);
	expect(f, STATUS_PERMISSION_DENIED, "alloc");
	f->n_body = pack_task(f->body, ALLOC, "db", "container");
	order_digest(f->body, f->n_body, f->order.digest);
	expect(f, STATUS_PERMISSION_DENIED, "task");
	f->n_body = pack_task(f->body, ALLOC, "web", "other");
	order_digest(f->body, f->n_body, f->order.digest);
	expect(f, STATUS_PERMISSION_DENIED, "driver");
	f->n_body = pack_task(f->body, ALLOC, "web", "container");
	memcpy(f->body + f->n_body, "\xf8\x07\x01", 3); /* a field of a later version */
	f->n_body += 3;
	order_digest(f->body, f->n_body, f->order.digest);
	expect(f, STATUS_INVALID_ARGUMENT, "form");
}

/* By the order that started it, however long ago, and by no other one. */
CASE(a_restart_needs_the_used_order_of_this_boot)
{
	f->place.is_restart = true;
	expect(f, STATUS_FAILED_PRECONDITION, "unused");
	assert_int_equal(nonces_begin(f->nonces, &f->order, 500, NULL), STATUS_OK);
	expect(f, STATUS_OK, "");
	f->place.now_ms = 5000; /* it has expired */
	expect(f, STATUS_OK, "");
	f->order.nonce[0] ^= 1;
	expect(f, STATUS_FAILED_PRECONDITION, "unused");
	f->order.nonce[0] ^= 1;
	f->place.boot_id[0] ^= 1;
	expect(f, STATUS_PERMISSION_DENIED, "boot");
	f->place.boot_id[0] ^= 1;
	f->place.is_restart = false;
	expect(f, STATUS_PERMISSION_DENIED, "expired");
}

/* Its end is no proof that the order has started it. */
CASE(a_task_that_has_ended_is_not_restarted)
{
	f->place.is_restart = true;
	assert_ok(nonces_finish_task(f->nonces, ALLOC, "db", 500, NULL));
	assert_int_equal(nonces_begin(f->nonces, &f->order, 500, NULL), STATUS_OK);
	expect(f, STATUS_OK, "");
	assert_ok(nonces_finish_task(f->nonces, ALLOC, "web", 500, NULL));
	expect(f, STATUS_FAILED_PRECONDITION, "ended");
	f->order.nonce[0] ^= 1;
	expect(f, STATUS_FAILED_PRECONDITION, "ended");
}

CASE(an_order_is_remembered_by_the_disk)
{
	assert_int_equal(nonces_look(f->nonces, &f->order), NONCE_NEW);
	assert_int_equal(nonces_begin(f->nonces, &f->order, 500, NULL), STATUS_OK);
	assert_int_equal(nonces_look(f->nonces, &f->order), NONCE_BEGUN);
	nonces_free(f->nonces);
	assert_int_equal(nonces_open(f->path, BOOT, &f->nonces, NULL), STATUS_OK);
	assert_int_equal(nonces_look(f->nonces, &f->order), NONCE_BEGUN);
	assert_int_equal(nonces_finish(f->nonces, f->order.nonce, NULL), STATUS_OK);
	nonces_free(f->nonces);
	assert_int_equal(nonces_open(f->path, BOOT, &f->nonces, NULL), STATUS_OK);
	assert_int_equal(nonces_look(f->nonces, &f->order), NONCE_DONE);
	nonces_free(f->nonces); /* those of another boot are refused for that */
	assert_int_equal(nonces_open(f->path, OTHER_BOOT, &f->nonces, NULL), STATUS_OK);
	assert_int_equal(nonces_look(f->nonces, &f->order), NONCE_NEW);
}

CASE(a_torn_line_was_never_acted_upon_and_a_wrong_one_stops_the_driver)
{
	static const char torn[] = BOOT "\nforgotten - - 0\nbegun 0100000000000000000000000000";
	static const char wrong[] = BOOT "\nforgotten - - 0\nbegun zz 00 12\n";
	static const char other[] =
		BOOT "\nforgotten - - 0\nbegun 01000000000000000000000000000000 "
		     "03000000000000000000000000000000 12\ndone 01000000000000000000000000000000 "
		     "02000000000000000000000000000000 12\n";
	struct error err;

	nonces_free(f->nonces);
	f->nonces = NULL;
	assert_int_equal(file_write_atomic(f->path, 0600, torn, strlen(torn)), 0);
	assert_int_equal(nonces_open(f->path, BOOT, &f->nonces, NULL), STATUS_OK);
	assert_int_equal(nonces_look(f->nonces, &f->order), NONCE_NEW);
	assert_int_equal(nonces_begin(f->nonces, &f->order, 500, NULL), STATUS_OK);
	nonces_free(f->nonces);
	assert_int_equal(nonces_open(f->path, BOOT, &f->nonces, NULL), STATUS_OK);
	assert_int_equal(nonces_look(f->nonces, &f->order), NONCE_BEGUN);
	nonces_free(f->nonces);
	f->nonces = NULL;
	assert_int_equal(file_write_atomic(f->path, 0600, wrong, strlen(wrong)), 0);
	assert_error(nonces_open(f->path, BOOT, &f->nonces, &err), STATUS_DATA_LOSS, err, "orders:3:");
	assert_int_equal(file_write_atomic(f->path, 0600, other, strlen(other)), 0);
	assert_error(nonces_open(f->path, BOOT, &f->nonces, &err), STATUS_DATA_LOSS, err, "orders:4:");
}

static bool is_disk_full, cannot_cut, cannot_sync;
static size_t n_cuts, n_syncs;
static off_t reserved; /* the end of what was kept last */
static ino_t reserved_for;

int fallocate(int fd, int mode, off_t offset, off_t n)
{
	struct stat st;

	assert_int_equal(mode, FALLOC_FL_KEEP_SIZE);
	assert_int_equal(fstat(fd, &st), 0);
	errno = ENOSPC;
	if (is_disk_full)
		return -1;
	reserved = offset + n;
	reserved_for = st.st_ino;
	return 0;
}

int ftruncate(int fd, off_t n)
{
	n_cuts++;
	errno = EIO;
	return cannot_cut ? -1 : (int)syscall(SYS_ftruncate, fd, n);
}

int fdatasync(int fd)
{
	(void)fd;
	n_syncs++;
	errno = EIO;
	return cannot_sync ? -1 : 0;
}

static bool is_regular(int fd, struct stat *ret)
{
	return fstat(fd, ret) == 0 && S_ISREG(ret->st_mode);
}

/* A full disk takes what fits. */
ssize_t write(int fd, const void *bytes, size_t n)
{
	struct stat st;
	off_t room;

	if (!is_disk_full || !is_regular(fd, &st))
		return syscall(SYS_write, fd, bytes, n);
	room = st.st_ino == reserved_for ? reserved - st.st_size : 0;
	if (room > 0)
		return syscall(SYS_write, fd, bytes, (off_t)n < room ? n : (size_t)room);
	errno = ENOSPC;
	return -1;
}

/* Half a line may be left by a disk that fails, too: no line may follow it. */
CASE(an_order_that_could_not_be_noted_leaves_the_list_whole)
{
	struct rlimit limit, small;
	struct error err;

	assert_int_equal(nonces_begin(f->nonces, &f->order, 500, NULL), STATUS_OK);
	(void)signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	small = (struct rlimit){.rlim_cur = 150, .rlim_max = limit.rlim_max};
	f->order.nonce[0] = 2;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	cannot_cut = true;
	for (int i = 0; i < 2; i++) /* by a line, then by the list anew */
		assert_int_not_equal(nonces_begin(f->nonces, &f->order, 500, &err), STATUS_OK);
	small.rlim_cur = 100; /* less than the list */
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	assert_int_not_equal(nonces_begin(f->nonces, &f->order, 500, &err), STATUS_OK);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	cannot_cut = false;
	assert_int_equal(nonces_look(f->nonces, &f->order), NONCE_NEW);
	assert_succeeds(nonces_begin(f->nonces, &f->order, 500, &err), err);
	nonces_free(f->nonces);
	assert_int_equal(nonces_open(f->path, BOOT, &f->nonces, NULL), STATUS_OK);
	assert_int_equal(nonces_look(f->nonces, &f->order), NONCE_BEGUN);
	f->order.nonce[0] = 1;
	assert_int_equal(nonces_look(f->nonces, &f->order), NONCE_BEGUN);
}

static struct stat stat_list(const struct fixture *f)
{
	struct stat st;

	assert_int_equal(stat(f->path, &st), 0);
	return st;
}

static void open_again(struct fixture *f)
{
	struct error err;

	nonces_free(f->nonces);
	f->nonces = NULL;
	assert_succeeds(nonces_open(f->path, BOOT, &f->nonces, &err), err);
}

static void add_text(const struct fixture *f, const char *text)
{
	int fd = open(f->path, O_WRONLY | O_APPEND | O_CLOEXEC);

	assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
	assert_int_equal(close(fd), 0);
}

/* Of one task. */
static void begin_orders(struct fixture *f, uint16_t n)
{
	for (uint16_t i = 0; i < n; i++) {
		memcpy(f->order.nonce + 1, &i, sizeof(i));
		assert_ok(nonces_begin(f->nonces, &f->order, 500, NULL));
	}
}

static size_t count_done(struct fixture *f, uint16_t n)
{
	size_t n_done = 0;

	for (uint16_t i = 0; i < n; i++) {
		memcpy(f->order.nonce + 1, &i, sizeof(i));
		n_done += nonces_look(f->nonces, &f->order) == NONCE_DONE;
	}
	return n_done;
}

enum { COMMANDS = 20000, ENDS = 8192 };

/* Another task filled it. The orders of exec do not use the room up either. */
CASE(tasks_are_destroyed_on_a_full_disk_but_not_begun)
{
	char task[16];
	struct error err;

	is_disk_full = true;
	assert_succeeds(nonces_finish_task(f->nonces, BOOT, "first", 500, &err), err);
	is_disk_full = false;
	begin_orders(f, COMMANDS);
	is_disk_full = true;
	for (int i = 1; i < ENDS; i++) {
		(void)snprintf(task, sizeof(task), "t%d", i);
		assert_succeeds(nonces_finish_task(f->nonces, BOOT, task, 500, &err), err);
	}
	f->order.nonce[3] = 2;
	assert_error(nonces_begin(f->nonces, &f->order, 500, &err), STATUS_RESOURCE_EXHAUSTED, err,
		     "for the ends of tasks");
	open_again(f); /* a driver that begins again does not need a free block */
	assert_succeeds(nonces_finish_task(f->nonces, ALLOC, "web", 500, &err), err);
	assert_int_equal(nonces_look(f->nonces, &f->order), NONCE_DONE);
	is_disk_full = false;
	assert_int_equal(nonces_finish_task(f->nonces, BOOT, "last", 500, &err), STATUS_OK);
}

CASE(the_end_of_a_task_costs_one_line_whatever_commands_it_had)
{
	struct stat before, after;

	begin_orders(f, COMMANDS);
	before = stat_list(f);
	n_syncs = 0;
	is_disk_full = true;
	assert_ok(nonces_finish_task(f->nonces, ALLOC, "web", 500, NULL));
	is_disk_full = false;
	after = stat_list(f);
	assert_in_range(after.st_size - before.st_size, 1, 100);
	assert_int_equal(n_syncs, 1);
	assert_int_equal(count_done(f, COMMANDS), COMMANDS);
	open_again(f);
	assert_int_equal(count_done(f, COMMANDS), COMMANDS);
	add_text(f, "begun 01"); /* the list is rewritten */
	for (int i = 0; i < 2; i++) {
		open_again(f);
		assert_int_not_equal(stat_list(f).st_ino, before.st_ino);
		assert_int_equal(count_done(f, COMMANDS), COMMANDS);
	}
}

CASE(the_end_of_a_network_costs_one_line_and_another_one_may_be_made)
{
	struct stat before, after;

	f->order.task[0] = '\0';
	begin_orders(f, 100);
	before = stat_list(f);
	for (int i = 0; i < 2; i++) {
		assert_ok(nonces_finish_task(f->nonces, ALLOC, "", 500, NULL));
		after = stat_list(f);
		assert_in_range(after.st_size - before.st_size, 1, 100);
	}
	f->order.nonce[3] = 1;
	begin_orders(f, 1);
	for (int i = 0; i < 2; i++) {
		f->order.nonce[3] = 0;
		assert_int_equal(count_done(f, 100), 100);
		f->order.nonce[3] = 1;
		assert_int_equal(count_done(f, 1), 0);
		open_again(f);
	}
}

/* As a driver reads it that had forgotten the end when the order was begun. */
CASE(an_order_that_was_begun_after_the_end_of_its_task_is_done_at_the_next_one)
{
	cleanup_free char *text = NULL;
	char line[128];
	size_t n;

	assert_ok(nonces_finish_task(f->nonces, ALLOC, "web", 500, NULL));
	assert_int_equal(file_read(f->path, 4096, &text, &n), 0);
	(void)snprintf(line, sizeof(line), "begun 01%030d %.32s 1000\n", 0, strstr(text, "ended ") + 6);
	add_text(f, line);
	open_again(f);
	assert_int_equal(nonces_look(f->nonces, &f->order), NONCE_BEGUN);
	assert_ok(nonces_finish_task(f->nonces, ALLOC, "web", 600, NULL));
	assert_int_equal(nonces_look(f->nonces, &f->order), NONCE_DONE);
	open_again(f);
	assert_int_equal(nonces_look(f->nonces, &f->order), NONCE_DONE);
}

CASE(a_full_list_goes_on_as_soon_as_there_is_room)
{
	struct stat before;

	assert_ok(nonces_begin(f->nonces, &f->order, 500, NULL));
	before = stat_list(f);
	is_disk_full = true;
	n_cuts = 0;
	for (int i = 0; i < 2; i++) {
		reserved = before.st_size + 40 * i; /* without a byte of the line, and with half of it */
		assert_int_equal(nonces_finish_task(f->nonces, ALLOC, "web", 500, NULL),
				 STATUS_RESOURCE_EXHAUSTED);
		assert_int_equal(n_cuts, i); /* ext4 takes the room with the end of the file */
		assert_int_equal(stat_list(f).st_size, before.st_size);
		assert_int_equal(nonces_look(f->nonces, &f->order), NONCE_BEGUN);
	}
	open_again(f);
	assert_int_not_equal(nonces_finish_task(f->nonces, ALLOC, "web", 500, NULL), STATUS_OK);
	reserved = before.st_size + 200; /* not enough for a new list */
	assert_ok(nonces_finish_task(f->nonces, ALLOC, "web", 500, NULL));
	is_disk_full = false;
	assert_int_equal(stat_list(f).st_ino, before.st_ino);
	open_again(f);
	assert_int_equal(nonces_look(f->nonces, &f->order), NONCE_DONE);
}

CASE(a_list_whose_disk_fails_is_rewritten)
{
	struct stat before = stat_list(f);

	cannot_sync = true;
	assert_int_not_equal(nonces_begin(f->nonces, &f->order, 500, NULL), STATUS_OK);
	cannot_sync = false;
	assert_ok(nonces_begin(f->nonces, &f->order, 500, NULL));
	assert_int_not_equal(stat_list(f).st_ino, before.st_ino);
}

CASE(orders_of_a_destroyed_task_are_done_though_it_has_no_container)
{
	assert_int_equal(nonces_begin(f->nonces, &f->order, 500, NULL), STATUS_OK);
	assert_int_equal(nonces_finish_task(f->nonces, ALLOC, "db", 1, NULL), STATUS_OK);
	assert_int_equal(nonces_finish_task(f->nonces, BOOT, "web", 1, NULL), STATUS_OK);
	assert_int_equal(nonces_look(f->nonces, &f->order), NONCE_BEGUN);
	nonces_free(f->nonces);
	assert_int_equal(nonces_open(f->path, BOOT, &f->nonces, NULL), STATUS_OK);
	assert_int_equal(nonces_finish_task(f->nonces, ALLOC, "web", 1, NULL), STATUS_OK);
	assert_int_equal(nonces_look(f->nonces, &f->order), NONCE_DONE);
	nonces_free(f->nonces);
	assert_int_equal(nonces_open(f->path, BOOT, &f->nonces, NULL), STATUS_OK);
	assert_int_equal(nonces_look(f->nonces, &f->order), NONCE_DONE);
}

/* One that an agent kept back until the task was destroyed is as old as the others. The server's clock may be
 * before or behind this machine's by any time. */
CASE(an_order_that_is_first_shown_after_the_task_was_destroyed_is_done)
{
	static const int64_t clocks_differ_ms[] = {0, -1, 1, -3600000, 3600000};
	const uint64_t now_ms = 7200000;

	f->order.not_after_ms = now_ms + ORDER_VALID_MS;
	assert_int_equal(nonces_finish_task(f->nonces, ALLOC, "db", (int64_t)now_ms, NULL), STATUS_OK);
	assert_int_equal(nonces_look(f->nonces, &f->order), NONCE_NEW);
	assert_int_equal(nonces_finish_task(f->nonces, ALLOC, "web", (int64_t)now_ms, NULL), STATUS_OK);
	for (size_t i = 0; i < 2 * ARRAY_SIZE(clocks_differ_ms); i++) {
		f->order.not_after_ms = now_ms + ORDER_VALID_MS + (uint64_t)clocks_differ_ms[i / 2];
		assert_int_equal(nonces_look(f->nonces, &f->order), NONCE_DONE);
		nonces_free(f->nonces); /* a driver that begins again knows it */
		assert_int_equal(nonces_open(f->path, BOOT, &f->nonces, NULL), STATUS_OK);
	}
}

/* The order of another allocation is new, whatever the server's clock says, however often a task is
 * destroyed. */
CASE(a_destroyed_task_costs_another_allocation_no_order)
{
	for (int64_t i = 0; i < 100; i++)
		assert_int_equal(nonces_finish_task(f->nonces, BOOT, "web", 600000 + i, NULL), STATUS_OK);
	f->order.not_after_ms = 1;
	assert_int_equal(nonces_look(f->nonces, &f->order), NONCE_NEW);
}

CASE(a_task_that_is_destroyed_without_end_does_not_fill_the_disk)
{
	struct stat before, after;

	assert_int_equal(nonces_finish_task(f->nonces, ALLOC, "web", 600000, NULL), STATUS_OK);
	assert_int_equal(stat(f->path, &before), 0);
	for (int64_t i = 0; i < 1000; i++)
		assert_ok(nonces_finish_task(f->nonces, ALLOC, "web", 600000 + i * 60000, NULL));
	assert_int_equal(stat(f->path, &after), 0);
	assert_int_equal(before.st_size, after.st_size);
}

CASE(an_order_that_is_shown_without_end_does_not_fill_the_disk)
{
	enum { FLOOD = 2000 };
	struct driver driver = {.settings = &settings, .nonces = f->nonces};
	const struct taken taken = {.order = f->order, .use = NONCE_BEGUN};
	uint64_t begun_us = clock_monotonic_us();
	char path[FOLDER_SIZE + 16];
	uint64_t seconds;
	struct error err;
	uint64_t n = 0;

	assert_int_equal(trail_open(f->folder, "prod", "node-1", &driver.trail, NULL), STATUS_OK);
	for (size_t i = 0; i < FLOOD; i++) {
		enum status status = driver_use_order(&driver, &taken, false, &err);

		n += status == STATUS_OK;
		if (status != STATUS_OK)
			assert_int_equal(status, STATUS_RESOURCE_EXHAUSTED);
	}
	seconds = (clock_monotonic_us() - begun_us) / USEC_PER_SEC;
	assert_in_range(n, 200, 202 + seconds);
	trail_free(driver.trail);
	for (size_t i = 0; i < 2; i++) {
		(void)snprintf(path, sizeof(path), "%s/trail.%s", f->folder, i == 0 ? "log" : "lock");
		(void)unlink(path);
	}
}

/* Counts the records of the trail that have @text, and removes the trail. */
static size_t end_trail(struct trail *trail, const char *folder, const char *text)
{
	char path[FOLDER_SIZE + 16], line[2048];
	size_t n = 0;
	FILE *file;

	trail_free(trail);
	(void)snprintf(path, sizeof(path), "%s/trail.log", folder);
	file = NON_NULL(fopen(path, "re"));
	while (fgets(line, sizeof(line), file))
		n += strstr(line, text) != NULL;
	(void)fclose(file);
	(void)unlink(path);
	(void)snprintf(path, sizeof(path), "%s/trail.lock", folder);
	(void)unlink(path);
	return n;
}

CASE(an_allocation_that_restarts_without_end_delays_no_other)
{
	enum { ALLOCS = 3, FLOOD = 250 };
	struct driver driver = {.settings = &settings, .nonces = f->nonces};
	struct taken taken = {.order = f->order, .use = NONCE_BEGUN};
	uint64_t skipped;

	assert_ok(trail_open(f->folder, "prod", "node-1", &driver.trail, NULL));
	for (int alloc = 0; alloc < ALLOCS; alloc++) {
		taken.order.alloc[0] = (uint8_t)alloc;
		for (size_t i = 0; i < FLOOD; i++)
			(void)driver_use_order(&driver, &taken, true, NULL);
		assert_int_equal(driver_use_order(&driver, &taken, true, NULL), STATUS_RESOURCE_EXHAUSTED);
	}
	taken.order.alloc[0] = ALLOCS;
	assert_ok(driver_use_order(&driver, &taken, true, NULL));
	assert_true(trail_has_room(driver.trail, clock_monotonic_us(), &skipped));
	assert_int_equal(end_trail(driver.trail, f->folder, "restart=1"), ALLOCS * 200 + 1);
}

CASE(an_allocation_may_restart_again_after_a_while)
{
	const uint8_t alloc[ORDER_UUID_SIZE] = {1};
	uint64_t now_us = clock_monotonic_us();
	struct trail *trail = NULL;

	assert_ok(trail_open(f->folder, "prod", "node-1", &trail, NULL));
	for (size_t i = 0; i < 200; i++)
		assert_true(trail_has_room_again(trail, alloc, now_us));
	assert_false(trail_has_room_again(trail, alloc, now_us + 9 * USEC_PER_SEC));
	assert_true(trail_has_room_again(trail, alloc, now_us + 10 * USEC_PER_SEC));
	assert_false(trail_has_room_again(trail, alloc, now_us + 10 * USEC_PER_SEC));
	(void)end_trail(trail, f->folder, "");
}

CASE(a_container_that_differs_is_recorded_among_refusals_without_end)
{
	struct driver driver = {.settings = &settings, .nonces = f->nonces};
	const struct readback_fault fault = {.field = "user"};
	const struct taken taken = {.order = f->order};
	struct error err;

	assert_ok(trail_open(f->folder, "prod", "node-1", &driver.trail, NULL));
	(void)error_set(&err, STATUS_PERMISSION_DENIED, 0, "refused");
	for (size_t i = 0; i < 1000; i++)
		(void)driver_refuse(&driver, &taken, "images", &err);
	(void)driver_refuse_made(&driver, &taken, &fault, false, &err);
	assert_int_equal(end_trail(driver.trail, f->folder, "reason=made"), 1);
}

static void write_record(struct trail *trail, const char *word)
{
	struct keyline record = KEYLINE_INIT;

	keyline_words(&record, "res", word);
	assert_ok(trail_write(trail, &record, NULL));
}

CASE(the_trail_continues_in_the_file_that_logrotate_makes)
{
	char path[FOLDER_SIZE + 16], moved[FOLDER_SIZE + 16], line[1024] = "";
	struct trail *trail = NULL;
	FILE *file;

	(void)snprintf(path, sizeof(path), "%s/trail.log", f->folder);
	(void)snprintf(moved, sizeof(moved), "%s/trail.log.1", f->folder);
	assert_ok(trail_open(f->folder, "prod", "node-1", &trail, NULL));
	write_record(trail, "first");
	assert_int_equal(rename(path, moved), 0);
	write_record(trail, "moved"); /* the new file is not there yet */
	assert_int_equal(close(creat(path, 0640)), 0);
	write_record(trail, "third");
	write_record(trail, "fourth");
	file = NON_NULL(fopen(path, "re"));
	assert_non_null(fgets(line, sizeof(line), file));
	assert_contains(line, " rec=3 ");
	assert_contains(line, " res=third head=rotated ");
	assert_non_null(fgets(line, sizeof(line), file));
	assert_contains(line, " rec=4 ");
	assert_null(strstr(line, "head="));
	(void)fclose(file);
	assert_int_equal(unlink(moved), 0);
	(void)end_trail(trail, f->folder, "");
}

CASE(a_driver_that_starts_after_a_rotation_continues_the_chain)
{
	char path[FOLDER_SIZE + 16], moved[FOLDER_SIZE + 16];
	struct trail *trail = NULL;

	(void)snprintf(path, sizeof(path), "%s/trail.log", f->folder);
	(void)snprintf(moved, sizeof(moved), "%s/trail.log.1", f->folder);
	assert_ok(trail_open(f->folder, "prod", "node-1", &trail, NULL));
	for (size_t i = 0; i < 100; i++)
		write_record(trail, "before");
	trail_free(trail);
	assert_int_equal(rename(path, moved), 0);
	assert_ok(trail_open(f->folder, "prod", "node-1", &trail, NULL));
	write_record(trail, "after");
	assert_int_equal(unlink(moved), 0);
	assert_int_equal(end_trail(trail, f->folder,
				   " rec=101 cluster=prod node=node-1 driver=container "
				   "res=after head=rotated prev="),
			 1);
}

CASE(a_driver_that_cannot_read_the_end_of_its_trail_does_not_start)
{
	char path[FOLDER_SIZE + 16], moved[FOLDER_SIZE + 16];
	struct trail *trail = NULL;
	struct error err;

	(void)snprintf(path, sizeof(path), "%s/trail.log", f->folder);
	(void)snprintf(moved, sizeof(moved), "%s/trail.log.1", f->folder);
	assert_int_equal(mkdir(moved, 0700), 0);
	assert_int_not_equal(trail_open(f->folder, "prod", "node-1", &trail, &err), STATUS_OK);
	assert_contains(err.msg, "trail.log.1");
	assert_null(trail);
	assert_int_equal(rmdir(moved), 0);
	assert_int_equal(symlink("/dev/null", moved), 0);
	assert_int_not_equal(trail_open(f->folder, "prod", "node-1", &trail, NULL), STATUS_OK);
	assert_int_equal(unlink(moved), 0);
	assert_int_equal(file_write_atomic(moved, 0640, "junk\n", 5), 0);
	assert_int_not_equal(trail_open(f->folder, "prod", "node-1", &trail, NULL), STATUS_OK);
	assert_int_equal(close(creat(moved, 0640)), 0); /* empty: without a record, as if it were missing */
	assert_ok(trail_open(f->folder, "prod", "node-1", &trail, NULL));
	assert_int_equal(unlink(moved), 0);
	write_record(trail, "first");
	assert_int_equal(end_trail(trail, f->folder, " rec=1 "), 1);
}

CASE(a_trail_that_was_deleted_takes_no_record)
{
	struct keyline record = KEYLINE_INIT;
	char path[FOLDER_SIZE + 16];
	struct trail *trail = NULL;

	assert_ok(trail_open(f->folder, "prod", "node-1", &trail, NULL));
	write_record(trail, "first");
	(void)snprintf(path, sizeof(path), "%s/trail.log", f->folder);
	assert_int_equal(unlink(path), 0);
	keyline_words(&record, "res", "second");
	assert_int_not_equal(trail_write(trail, &record, NULL), STATUS_OK);
	trail_free(trail);
	(void)snprintf(path, sizeof(path), "%s/trail.lock", f->folder);
	assert_int_equal(unlink(path), 0);
}

CASE(refusals_without_end_do_not_fill_the_disk)
{
	enum { FLOOD = 1000, MOST = 200 };
	uint64_t now_us = clock_monotonic_us();
	char path[FOLDER_SIZE + 16];
	struct trail *trail = NULL;
	uint64_t skipped = 0;
	size_t n = 0;

	assert_int_equal(trail_open(f->folder, "prod", "node-1", &trail, NULL), STATUS_OK);
	now_us += USEC_PER_SEC;
	for (size_t i = 0; i < FLOOD; i++)
		n += trail_has_room(trail, now_us, &skipped);
	assert_in_range(n, MOST, MOST + 1);
	assert_int_equal(skipped, 0);
	assert_true(trail_has_room(trail, now_us + 2 * USEC_PER_SEC, &skipped));
	assert_int_equal(skipped, FLOOD - n);
	trail_free(trail);
	for (size_t i = 0; i < 2; i++) {
		(void)snprintf(path, sizeof(path), "%s/trail.%s", f->folder, i == 0 ? "log" : "lock");
		(void)unlink(path);
	}
}

CASE(a_forgotten_order_counts_as_used)
{
	static const char text[] = BOOT "\nforgotten - - 1000\n";

	nonces_free(f->nonces);
	assert_int_equal(file_write_atomic(f->path, 0600, text, strlen(text)), 0);
	assert_int_equal(nonces_open(f->path, BOOT, &f->nonces, NULL), STATUS_OK);
	assert_int_equal(nonces_look(f->nonces, &f->order), NONCE_DONE);
	f->order.not_after_ms = 1001;
	assert_int_equal(nonces_look(f->nonces, &f->order), NONCE_NEW);
}

/* --- a list without room --- */

enum { ENDED, BEGUN, DONE };

/* Writes a list of @n lines behind @head. @ms of the first, and of each after it: when the task ended, or the
 * order was made */
static void write_list_behind(struct fixture *f, const char *head, int kind, size_t n, uint64_t ms,
			      uint64_t step_ms)
{
	static const char *const words[] = {"ended", "begun", "done"};
	uint64_t kept_ms = kind == ENDED ? 3600000 : 0;
	cleanup_strbuf struct strbuf text = STRBUF_INIT(16 << 20);

	nonces_free(f->nonces);
	f->nonces = NULL;
	strbuf_puts(&text, head);
	for (size_t i = 0; i < n; i++) { /* the keys are spread as chance is */
		uint32_t key = (uint32_t)(i % NONCES_MAX * 2654435761U);

		strbuf_printf(&text, "%s %08x%024x %08x%024x %" PRIu64 "\n",
			      words[kind == DONE && i < NONCES_MAX / 2 ? BEGUN : kind], key, 1, key,
			      kind == ENDED ? 1 : 2, ms + i * step_ms + ORDER_VALID_MS + kept_ms);
	}
	assert_int_equal(file_write_atomic(f->path, 0600, text.data, text.len), 0);
	assert_ok(nonces_open(f->path, BOOT, &f->nonces, NULL));
}

static void write_list(struct fixture *f, int kind, size_t n, uint64_t ms, uint64_t step_ms)
{
	write_list_behind(f, BOOT "\nforgotten - - 0\n", kind, n, ms, step_ms);
}

/* The order of another allocation. */
static struct order other_order(const struct fixture *f, uint8_t nonce, uint64_t made_ms)
{
	struct order order = f->order;

	order.alloc[0] ^= 1;
	order.nonce[1] = nonce;
	order.not_after_ms = made_ms + ORDER_VALID_MS;
	return order;
}

static enum nonce_use look(struct fixture *f, uint8_t nonce, uint64_t made_ms)
{
	const struct order order = other_order(f, nonce, made_ms);

	return nonces_look(f->nonces, &order);
}

static enum status begin_order(struct fixture *f, uint8_t nonce, uint64_t made_ms, uint64_t now_ms)
{
	const struct order order = other_order(f, nonce, made_ms);

	return nonces_begin(f->nonces, &order, (int64_t)now_ms, NULL);
}

enum { NOW = 100 * 3600000, MINUTE = 60000 };

/* A new order with the nonce of line @i, which is known by it as long as the line is. */
static enum nonce_use look_at_line(struct fixture *f, size_t i)
{
	struct order order = other_order(f, 0, NOW + 60 * MINUTE);
	uint32_t key = (uint32_t)(i * 2654435761U);

	memset(order.nonce, 0, sizeof(order.nonce));
	for (size_t k = 0; k < sizeof(key); k++)
		order.nonce[k] = (uint8_t)(key >> (24 - 8 * k));
	order.nonce[ORDER_NONCE_SIZE - 1] = 1;
	return nonces_look(f->nonces, &order);
}

CASE(the_end_of_a_task_forgets_the_oldest_ends_instead_of_waiting)
{
	write_list(f, ENDED, NONCES_MAX, NOW - 20 * MINUTE, 10);
	f->order.not_after_ms = NOW + ORDER_VALID_MS;
	for (int i = 0; i < 10; i++)
		assert_ok(nonces_finish_task(f->nonces, ALLOC, "web", NOW, NULL));
	assert_int_equal(nonces_look(f->nonces, &f->order), NONCE_DONE);
	assert_int_equal(look_at_line(f, 4095), NONCE_NEW);
	assert_int_equal(look_at_line(f, 4096), NONCE_DONE);
	assert_int_equal(look(f, 1, NOW), NONCE_NEW);
	assert_int_equal(look(f, 1, NOW - 20 * MINUTE), NONCE_DONE);
	assert_ok(begin_order(f, 1, NOW, NOW));
	nonces_free(f->nonces); /* the file still has the lines of the forgotten ones */
	f->nonces = NULL;
	assert_ok(nonces_open(f->path, BOOT, &f->nonces, NULL));
	assert_int_equal(nonces_look(f->nonces, &f->order), NONCE_DONE);
	assert_int_equal(look(f, 1, NOW), NONCE_BEGUN);
}

CASE(an_order_needs_no_place_that_the_oldest_ends_can_give)
{
	write_list(f, ENDED, NONCES_MAX, NOW - 20 * MINUTE, 10);
	assert_ok(begin_order(f, 1, NOW, NOW));
	assert_int_equal(look(f, 2, NOW), NONCE_NEW);
}

/* An agent kept it back until the end of its task was forgotten. */
CASE(an_order_of_a_forgotten_end_counts_as_used_as_the_clock_of_the_server_has_it)
{
	enum { AHEAD = 30 * MINUTE };

	for (int is_ahead = 0; is_ahead < 2; is_ahead++) {
		uint64_t ahead_ms = is_ahead ? AHEAD : 0;

		write_list(f, ENDED, NONCES_MAX - 2, NOW - 20 * MINUTE, 10);
		assert_ok(begin_order(f, 1, NOW + ahead_ms, NOW));
		assert_ok(begin_order(f, 3, NOW, NOW)); /* of a server whose clock is right */
		assert_ok(nonces_finish_task(f->nonces, ALLOC, "web", NOW, NULL));
		assert_int_equal(look(f, 2, NOW - 20 * MINUTE + ahead_ms), NONCE_DONE);
		assert_int_equal(look(f, 2, NOW - 15 * MINUTE + ahead_ms), NONCE_DONE);
		assert_int_equal(look(f, 2, NOW + ahead_ms), NONCE_NEW);
	}
}

CASE(an_order_of_another_century_costs_orders_of_an_hour)
{
	write_list(f, ENDED, NONCES_MAX - 1, NOW, 0);
	assert_ok(begin_order(f, 1, 2 * (uint64_t)NOW, NOW));
	assert_ok(nonces_finish_task(f->nonces, ALLOC, "web", NOW, NULL));
	assert_int_equal(look(f, 2, NOW + 60 * MINUTE), NONCE_DONE);
	assert_int_equal(look(f, 2, NOW + 60 * MINUTE + 1), NONCE_NEW);
}

CASE(an_order_stays_used_when_the_end_of_its_task_gives_way)
{
	cleanup_free char *text = NULL;
	size_t n;

	f->order.not_after_ms = NOW + ORDER_VALID_MS;
	assert_ok(nonces_begin(f->nonces, &f->order, NOW, NULL));
	assert_ok(nonces_finish_task(f->nonces, ALLOC, "web", NOW - 20 * MINUTE, NULL));
	assert_int_equal(file_read(f->path, 4096, &text, &n), 0);
	write_list_behind(f, text, ENDED, NONCES_MAX - 2, NOW - 20 * MINUTE, 10);
	assert_ok(nonces_finish_task(f->nonces, ALLOC, "db", NOW, NULL));
	assert_int_equal(nonces_look(f->nonces, &f->order), NONCE_DONE);
	f->order.nonce[0] = 2;
	assert_int_equal(nonces_look(f->nonces, &f->order), NONCE_NEW);
}

CASE(expired_ends_give_way_before_new_ones)
{
	char task[16];

	write_list(f, ENDED, NONCES_MAX - 100, NOW - 71 * MINUTE, 0);
	for (int i = 0; i <= 100; i++) {
		(void)snprintf(task, sizeof(task), "t%d", i);
		assert_ok(nonces_finish_task(f->nonces, ALLOC, task, NOW, NULL));
	}
	assert_int_equal(look(f, 1, NOW), NONCE_NEW);
}

CASE(ends_without_end_in_seconds_cost_orders_but_no_end)
{
	struct stat before, after;

	write_list(f, ENDED, NONCES_MAX, NOW, 0);
	assert_int_equal(begin_order(f, 1, NOW, NOW), STATUS_RESOURCE_EXHAUSTED);
	assert_ok(nonces_finish_task(f->nonces, ALLOC, "web", NOW, NULL));
	f->order.not_after_ms = NOW + ORDER_VALID_MS;
	assert_int_equal(nonces_look(f->nonces, &f->order), NONCE_DONE);
	assert_int_equal(look(f, 1, NOW), NONCE_DONE);
	assert_int_equal(look(f, 1, NOW + 5 * MINUTE), NONCE_DONE);
	assert_int_equal(look(f, 1, NOW + 5 * MINUTE + 1), NONCE_NEW);
	/* each order counts as used: an end would add nothing */
	assert_int_equal(stat(f->path, &before), 0);
	assert_ok(nonces_finish_task(f->nonces, ALLOC, "db", NOW, NULL));
	assert_int_equal(stat(f->path, &after), 0);
	assert_int_equal(before.st_size, after.st_size);
	assert_ok(nonces_finish_task(f->nonces, ALLOC, "db", NOW + 1, NULL));
	assert_int_equal(stat(f->path, &after), 0);
	assert_true(before.st_size < after.st_size);
}

CASE(orders_without_end_leave_places_to_ends_and_are_never_forgotten)
{
	enum { MOST = NONCES_MAX - 8192, FLOOD = 8300 };
	struct stat before, after;
	char task[16];
	size_t n;

	write_list(f, BEGUN, MOST - 1, NOW, 0);
	assert_ok(begin_order(f, 1, NOW, NOW));
	assert_int_equal(stat(f->path, &before), 0);
	n = nonces_n_compared(f->nonces);
	for (uint8_t i = 0; i < 100; i++)
		assert_int_equal(begin_order(f, 2, NOW, NOW + i), STATUS_RESOURCE_EXHAUSTED);
	assert_in_range(nonces_n_compared(f->nonces) - n, 1, NONCES_MAX + 1000);
	assert_int_equal(stat(f->path, &after), 0);
	assert_int_equal(before.st_ino, after.st_ino);
	assert_int_equal(before.st_size, after.st_size);
	for (int i = 0; i < FLOOD; i++) {
		(void)snprintf(task, sizeof(task), "t%d", i);
		assert_ok(nonces_finish_task(f->nonces, BOOT, task, NOW + 2000, NULL));
	}
	assert_int_equal(look_at_line(f, 0), NONCE_BEGUN);
	assert_int_equal(look(f, 1, NOW), NONCE_BEGUN);
	/* later they have expired */
	assert_ok(begin_order(f, 3, NOW + 20 * MINUTE, NOW + 20 * MINUTE));
	assert_int_equal(look_at_line(f, 0), NONCE_NEW);
}

CASE(a_look_does_not_walk_over_the_list)
{
	size_t n;

	write_list(f, ENDED, NONCES_MAX, NOW, 0);
	assert_in_range(nonces_n_compared(f->nonces), 0, NONCES_MAX);
	n = nonces_n_compared(f->nonces);
	assert_int_equal(look(f, 1, NOW), NONCE_NEW);
	assert_ok(
		nonces_finish_task(f->nonces, ALLOC, "web", NOW + 71 * MINUTE, NULL)); /* all have expired */
	assert_in_range(nonces_n_compared(f->nonces) - n, NONCES_MAX, NONCES_MAX + 100);
	n = nonces_n_compared(f->nonces);
	assert_ok(begin_order(f, 1, NOW + 71 * MINUTE, NOW + 71 * MINUTE));
	assert_ok(nonces_finish_task(f->nonces, ALLOC, "web", NOW + 71 * MINUTE, NULL));
	assert_in_range(nonces_n_compared(f->nonces) - n, 0, 100);
}

CASE(an_end_that_was_forgotten_and_came_again_counts_by_its_last_line)
{
	write_list(f, ENDED, NONCES_MAX + 1, NOW - 80 * MINUTE, 73); /* the last key is the first one */
	assert_ok(nonces_finish_task(f->nonces, ALLOC, "web", NOW, NULL));
	assert_int_equal(look_at_line(f, 1), NONCE_NEW);
	assert_int_equal(look_at_line(f, 0), NONCE_DONE);
}

CASE(a_list_of_many_lines_is_rewritten_unless_the_disk_is_full)
{
	enum { MANY = 120000 };
	struct stat before, after;
	struct error err;

	write_list(f, DONE, MANY, NOW, 0);
	assert_int_equal(stat(f->path, &before), 0);
	is_disk_full = true;
	assert_succeeds(nonces_finish_task(f->nonces, ALLOC, "web", NOW + 71 * MINUTE, &err), err);
	assert_int_not_equal(begin_order(f, 1, NOW + 71 * MINUTE, NOW + 71 * MINUTE), STATUS_OK);
	is_disk_full = false;
	assert_int_equal(stat(f->path, &after), 0);
	assert_int_equal(before.st_ino, after.st_ino);
	assert_ok(begin_order(f, 1, NOW + 71 * MINUTE, NOW + 71 * MINUTE));
	assert_int_equal(stat(f->path, &after), 0);
	assert_true(after.st_size < 1000);
	f->order.not_after_ms = NOW + 71 * MINUTE + ORDER_VALID_MS;
	assert_int_equal(nonces_look(f->nonces, &f->order), NONCE_DONE);
}

CASE(a_command_is_entered_once)
{
	Holdfast__Driver__V1__ExecCommand command = PB(holdfast__driver__v1__exec_command, .alloc_id = ALLOC,
						       .task = "web", .driver = "container");
	char reason[16];

	f->n_body = holdfast__driver__v1__exec_command__pack(&command, f->body);
	order_digest(f->body, f->n_body, f->order.digest);
	f->order.kind = ORDER_EXEC;
	assert_int_equal(order_sign(&f->order, seed, NULL), STATUS_OK);
	assert_int_equal(check_as_is(f, ORDER_EXEC, reason), STATUS_OK);
	assert_int_equal(nonces_begin(f->nonces, &f->order, 500, NULL), STATUS_OK);
	assert_int_equal(check_as_is(f, ORDER_EXEC, reason), STATUS_FAILED_PRECONDITION);
	assert_string_equal(reason, "used");
}

/* Who can reach the agent, the driver or the engine, or write where volumes are mounted. */
CASE(no_task_has_an_account_of_the_agent_the_driver_or_the_owner_of_a_folder)
{
	enum { AGENT = 101, PUBLISH, STAGE, ENGINE, OTHER };
	struct driver driver = {.settings = &settings, .agent_uid = AGENT, .agent_gid = AGENT};
	const struct {
		char *path;
		size_t size;
		const char *name;
		uid_t owner;
	} paths[] = {ROW(settings.publish_dir, sizeof(settings.publish_dir), "publish", PUBLISH),
		     ROW(settings.stage_dir, sizeof(settings.stage_dir), "stage", STAGE),
		     ROW(settings.engine_socket, sizeof(settings.engine_socket), "socket", ENGINE)};
	struct readback_users users;

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		assert_true(str_format(paths[i].path, paths[i].size, "%s/%s", f->folder, paths[i].name) > 0);
		assert_int_equal(mkdir(paths[i].path, 0700), 0);
		assert_int_equal(chown(paths[i].path, paths[i].owner, paths[i].owner), 0);
	}
	users = driver_users(&driver);
	for (uid_t uid = AGENT; uid <= OTHER; uid++) {
		const char *reason = "";
		char user[16];
		struct error err;
		bool is_never = false;

		for (int is_group = 0; is_group < 2; is_group++) {
			(void)str_format(user, sizeof(user), is_group ? "1:%u" : "%u:1", (unsigned int)uid);
			reason = "";
			assert_int_equal(driver_check_user(&driver, user, &reason, &err),
					 uid == OTHER ? STATUS_OK : STATUS_PERMISSION_DENIED);
			assert_string_equal(reason, uid == OTHER ? "" : "users");
		}
		for (size_t i = 0; i < users.n_groups; i++)
			is_never |= users.never_groups[i] == uid;
		assert_int_equal(is_never, uid != OTHER);
	}
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		assert_int_equal(rmdir(paths[i].path), 0);
}

/* podman-docker makes /run/docker.sock a link to podman's socket. */
CASE(no_task_has_the_group_of_the_engines_socket_behind_a_link)
{
	enum { ENGINE = 104 };
	struct driver driver = {.settings = &settings, .agent_uid = 101, .agent_gid = 101};
	char real[FOLDER_SIZE + 8];
	const char *reason = "";
	struct error err;

	assert_true(str_format(real, sizeof(real), "%s/real", f->folder) > 0);
	assert_true(str_format(settings.engine_socket, sizeof(settings.engine_socket), "%s/link", f->folder) >
		    0);
	assert_int_equal(mkdir(real, 0700), 0);
	assert_int_equal(chown(real, ENGINE, ENGINE), 0);
	assert_int_equal(symlink(real, settings.engine_socket), 0);
	assert_int_equal(driver_check_user(&driver, "1:104", &reason, &err), STATUS_PERMISSION_DENIED);
	assert_int_equal(driver_check_user(&driver, "104:1", &reason, &err), STATUS_PERMISSION_DENIED);
	assert_int_equal(unlink(settings.engine_socket), 0);
	assert_int_equal(rmdir(real), 0);
}
