/* SPDX-License-Identifier: Apache-2.0 */
/* One publish and one unpublish: through the socket to the mount helper, as raw system calls of one process,
 * as the same system calls of a process behind a socket, and as mount --bind and umount commands. And whole
 * lives of volumes: stage, publish, unpublish, unstage. Prints nanoseconds per pair or life; ./dev bench
 * makes ratios of them.
 *
 *   bench_publish helper HELPER TICKET_KEY CLUSTER NODE PAIRS     as the agent's uid; a ticket for each pair
 *   bench_publish helper-one-ticket HELPER ... PAIRS              likewise; one for all, verified once
 *   bench_publish helper-lives HELPER ... LIVES                   likewise; a volume and a ticket for each
 *   bench_publish raw FOLDER PAIRS                                as root, FOLDER on a file system of its own
 *   bench_publish socket FOLDER PAIRS                             as root
 *   bench_publish socket-lives FOLDER LIVES                       as root
 *   bench_publish commands FOLDER PAIRS                           as root
 *
 * And what belongs to it:
 *
 *   bench_publish start HELPER STARTS    as the agent's uid: median nanoseconds from exec to HELLO
 *   bench_publish memory HELPER 1        as the agent's uid: bytes of resident memory after the lock-down
 *   bench_publish foreign FOLDER MOUNTS  as root: makes so many mounts below FOLDER, prints how many
 */

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/str.h"
#include "base/sys.h"
#include "ticket/ticket.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <mounthelper_wire.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* Where the raw calls mount. */
#define RAW_ALLOC "01890000-0000-7000-8000-00000000be01"
#define RAW_STAGE "staged"
#define HOUR_MS (INT64_C(3600) * 1000)

extern char **environ;

static _Noreturn void die(const char *what, int r)
{
	(void)fprintf(stderr, "bench_publish: %s: %s\n", what, strerror(r < 0 ? -r : r));
	exit(1);
}

static int must(const char *what, int r)
{
	if (r < 0)
		die(what, r);
	return r;
}

/* Nanoseconds; main() lets no zero through. */
static uint64_t per_pair(uint64_t us, uint32_t pairs)
{
	return us * 1000 / (pairs > 0 ? pairs : 1);
}

/* --- through the helper
 * ----------------------------------------------------------------------------------------- */

struct helper {
	int fd;
	uint64_t seq;
};

static int spawn_helper(const char *path)
{
	char *argv[] = {strdup(path), NULL};
	int pair[2];
	pid_t pid;

	if (!argv[0] || socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) < 0)
		die("socketpair", errno);
	pid = fork();
	if (pid < 0)
		die("fork", errno);
	if (pid == 0) {
		(void)close(pair[0]);
		if (pair[1] != 3 && dup2(pair[1], 3) < 0)
			_exit(1);
		(void)execv(path, argv);
		_exit(1);
	}
	free(argv[0]);
	(void)close(pair[1]);
	return pair[0];
}

static void exchange(struct helper *h, struct mh_header *request, uint16_t op, size_t size,
		     struct mh_reply *reply)
{
	*request = (struct mh_header){.magic = MH_MAGIC,
				      .version = MH_VERSION,
				      .op = op,
				      .length = (uint32_t)size,
				      .seq = ++h->seq};
	if (send(h->fd, request, size, MSG_NOSIGNAL) != (ssize_t)size)
		die("send", errno);
	if (!reply)
		return;
	if (recv(h->fd, reply, sizeof(*reply), 0) != (ssize_t)sizeof(*reply))
		die("the helper ended", errno);
	if (reply->status != MH_OK && reply->status != MH_ALREADY) {
		(void)fprintf(stderr, "bench_publish: op %u: status %u errno %u step %u\n", (unsigned int)op,
			      (unsigned int)reply->status, (unsigned int)reply->sys_errno,
			      (unsigned int)reply->step);
		exit(1);
	}
}

static void read_boot_id(char boot_id[static UUID_TEXT_SIZE])
{
	cleanup_free char *text = NULL;

	must("read the boot id", file_read("/proc/sys/kernel/random/boot_id", 64, &text, NULL));
	text[strcspn(text, "\n")] = '\0';
	must("boot id", str_copy(boot_id, UUID_TEXT_SIZE, text));
}

/* A ticket and the allocation that it is for, as text. */
struct grant {
	struct ticket ticket;
	char alloc[MH_UUID_SIZE];
};

/* @n grants, each signed apart: of one volume, or each of its own. Owned by the caller, free(). */
static struct grant *make_grants(char **argv, uint32_t n, bool one_volume)
{
	struct grant *grants = calloc(n, sizeof(*grants));
	struct ticket_issuer *issuer;
	struct claim claim = {.mode = CLAIM_WRITE, .generation = 1};
	struct volume volume = {
		.namespace = "default",
		.profile = "scratch",
		.source = {.class = SOURCE_TMPFS, .size_bytes = 1 << 20, .inodes = 100},
	};
	struct error err;

	if (!grants)
		die("memory", ENOMEM);
	read_boot_id(claim.boot_id);
	must("node", str_copy(claim.node_id, sizeof(claim.node_id), argv[3]));
	if (ticket_issuer_new(argv[1], argv[2], &issuer, &err) != STATUS_OK)
		die(err.msg, err.sys_errno);
	for (uint32_t i = 0; i < n; i++) {
		(void)str_format(volume.id, sizeof(volume.id), "bench-%u", one_volume ? 0 : i);
		(void)str_format(grants[i].alloc, UUID_TEXT_SIZE, "01890000-0000-7000-8000-%012x", i);
		memcpy(claim.allocation_id, grants[i].alloc, UUID_TEXT_SIZE);
		if (ticket_issue(issuer, &claim, &volume, clock_realtime_ms() + HOUR_MS, &grants[i].ticket,
				 &err) != STATUS_OK)
			die(err.msg, err.sys_errno);
	}
	ticket_issuer_free(issuer);
	return grants;
}

static void stage(struct helper *h, const struct grant *grant)
{
	struct mh_stage request = {.ticket = grant->ticket};
	struct mh_reply reply;

	memcpy(request.volume, grant->ticket.volume, sizeof(request.volume));
	memcpy(request.profile, grant->ticket.profile, sizeof(request.profile));
	memcpy(request.alloc, grant->alloc, sizeof(request.alloc));
	request.source.class = MH_CLASS_TMPFS;
	request.source.u.tmpfs.size_bytes = 1 << 20;
	request.source.u.tmpfs.inodes = 100;
	exchange(h, &request.header, MH_OP_STAGE, sizeof(request), &reply);
}

static void publish_pair(struct helper *h, const struct grant *grant)
{
	struct mh_publish publish = {.ticket = grant->ticket};
	struct mh_unpublish unpublish = {0};
	struct mh_reply reply;

	memcpy(publish.volume, grant->ticket.volume, sizeof(publish.volume));
	memcpy(publish.profile, grant->ticket.profile, sizeof(publish.profile));
	memcpy(publish.alloc, grant->alloc, sizeof(publish.alloc));
	exchange(h, &publish.header, MH_OP_PUBLISH, sizeof(publish), &reply);
	memcpy(unpublish.volume, grant->ticket.volume, sizeof(unpublish.volume));
	memcpy(unpublish.alloc, grant->alloc, sizeof(unpublish.alloc));
	exchange(h, &unpublish.header, MH_OP_UNPUBLISH, sizeof(unpublish), &reply);
}

static void unstage(struct helper *h, const struct grant *grant)
{
	struct mh_unstage request = {0};
	struct mh_reply reply;

	memcpy(request.volume, grant->ticket.volume, sizeof(request.volume));
	exchange(h, &request.header, MH_OP_UNSTAGE, sizeof(request), &reply);
}

static struct helper start_helper(const char *path, struct mh_hello *hello)
{
	struct helper h = {.fd = spawn_helper(path)};

	if (recv(h.fd, hello, sizeof(*hello), 0) != (ssize_t)sizeof(*hello) ||
	    hello->header.op != MH_OP_HELLO)
		die("no HELLO from the helper", errno);
	return h;
}

static void stop_helper(struct helper *h)
{
	(void)close(h->fd);
	(void)wait(NULL);
}

/* Microseconds for @n pairs; @one_ticket: all of them under the first grant. */
static uint64_t time_pairs(struct helper *h, const struct grant *grants, uint32_t n, bool one_ticket)
{
	uint64_t start = clock_monotonic_us();

	for (uint32_t i = 0; i < n; i++)
		publish_pair(h, &grants[one_ticket ? 0 : i]);
	return clock_monotonic_us() - start;
}

static uint64_t time_lives(struct helper *h, const struct grant *grants, uint32_t n)
{
	uint64_t start = clock_monotonic_us();

	for (uint32_t i = 0; i < n; i++) {
		stage(h, &grants[i]);
		publish_pair(h, &grants[i]);
		unstage(h, &grants[i]);
	}
	return clock_monotonic_us() - start;
}

static struct helper begin_helper(char **argv)
{
	struct mh_hello hello;
	struct helper h = start_helper(argv[0], &hello);
	struct mh_ack ack;

	exchange(&h, &ack.header, MH_OP_ACK, sizeof(ack), NULL);
	return h;
}

static uint64_t measure_pairs(char **argv, uint32_t pairs, bool one_ticket)
{
	struct grant *grants = make_grants(argv, one_ticket ? 1 : pairs, true);
	struct helper h = begin_helper(argv);
	uint64_t us;

	stage(&h, &grants[0]);
	us = time_pairs(&h, grants, pairs, one_ticket);
	unstage(&h, &grants[0]);
	stop_helper(&h);
	free(grants);
	return per_pair(us, pairs);
}

static uint64_t measure_helper(char **argv, uint32_t pairs)
{
	return measure_pairs(argv, pairs, false);
}

static uint64_t measure_helper_one_ticket(char **argv, uint32_t pairs)
{
	return measure_pairs(argv, pairs, true);
}

static uint64_t measure_helper_lives(char **argv, uint32_t lives)
{
	struct grant *grants = make_grants(argv, lives, false);
	struct helper h = begin_helper(argv);
	uint64_t us = time_lives(&h, grants, lives);

	stop_helper(&h);
	free(grants);
	return per_pair(us, lives);
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static uint64_t measure_start(char **argv, uint32_t starts)
{
	uint64_t *us = calloc(starts, sizeof(*us));
	uint64_t median;

	if (!us)
		die("memory", ENOMEM);
	for (uint32_t i = 0; i < starts; i++) {
		uint64_t start = clock_monotonic_us();
		struct mh_hello hello;
		struct helper h = start_helper(argv[0], &hello);

		us[i] = clock_monotonic_us() - start;
		stop_helper(&h);
	}
	qsort(us, starts, sizeof(*us), by_size);
	median = us[starts / 2];
	free(us);
	return median * 1000;
}

static uint64_t measure_memory(char **argv, uint32_t unused)
{
	struct mh_hello hello;
	struct helper h = start_helper(argv[0], &hello);
	cleanup_free char *text = NULL;
	char path[64];
	const char *at;
	unsigned long kib = 0;

	(void)str_format(path, sizeof(path), "/proc/%u/status", hello.helper_pid);
	must("read its status", file_read(path, 1 << 16, &text, NULL));
	at = strstr(text, "\nVmRSS:");
	if (at)
		kib = strtoul(at + strlen("\nVmRSS:"), NULL, 10);
	stop_helper(&h);
	return (uint64_t)kib * 1024;
}

/* --- raw system calls
 * ------------------------------------------------------------------------------------------- */

enum { DIRECTORY = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

static int raw_tmpfs(void)
{
	cleanup_close int fs = must("fsopen", sys_fsopen("tmpfs", SYS_FSOPEN_CLOEXEC));

	must("size", sys_fsconfig(fs, SYS_FSCONFIG_SET_STRING, "size", "1048576", 0));
	must("create", sys_fsconfig(fs, SYS_FSCONFIG_CMD_CREATE, NULL, NULL, 0));
	return must("fsmount",
		    sys_fsmount(fs, SYS_FSMOUNT_CLOEXEC, SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV));
}

/* The calls of the helper that make the mount, without its checks and its trail. */
static void raw_publish(int base, int staged)
{
	const struct sys_mount_attr restricted = {.attr_set = SYS_MOUNT_ATTR_NOSUID | SYS_MOUNT_ATTR_NODEV |
							      SYS_MOUNT_ATTR_NOEXEC,
						  .propagation = MS_PRIVATE};
	const struct sys_mount_attr private = {.propagation = MS_PRIVATE};
	int alloc;
	int slot;
	int clone;

	must("mkdir", sys_mkdirat(base, RAW_ALLOC, 0755));
	alloc = must("open", sys_openat(base, RAW_ALLOC, DIRECTORY));
	must("mkdir", sys_mkdirat(alloc, "0", 0755));
	slot = must("open", sys_openat(alloc, "0", DIRECTORY));
	clone = must("open_tree", sys_open_tree(staged, "", SYS_OPEN_TREE_CLONE | O_CLOEXEC | AT_EMPTY_PATH));
	must("mount_setattr", sys_mount_setattr(clone, "", AT_EMPTY_PATH, &restricted));
	must("move_mount",
	     sys_move_mount(clone, "", slot, "", SYS_MOVE_MOUNT_F_EMPTY_PATH | SYS_MOVE_MOUNT_T_EMPTY_PATH));
	must("mount_setattr", sys_mount_setattr(clone, "", AT_EMPTY_PATH, &private));
	(void)close(clone);
	(void)close(slot);
	(void)close(alloc);
}

/* And those that remove it. */
static void raw_unpublish(int base)
{
	int alloc = must("open", sys_openat(base, RAW_ALLOC, DIRECTORY));

	must("fchdir", sys_fchdir(alloc));
	must("umount2", sys_umount2("0", SYS_UMOUNT_NOFOLLOW));
	must("rmdir", sys_rmdirat(alloc, "0"));
	must("fchdir", sys_fchdir(base));
	(void)close(alloc);
	must("rmdir", sys_rmdirat(base, RAW_ALLOC));
}

/* Returns a descriptor of the stage, which stands at its name. */
static int raw_stage(int base)
{
	const struct sys_mount_attr private = {.propagation = MS_PRIVATE};
	int staged = raw_tmpfs();
	int folder;

	must("mkdir", sys_mkdirat(base, RAW_STAGE, 0755));
	folder = must("open", sys_openat(base, RAW_STAGE, DIRECTORY));
	must("move_mount", sys_move_mount(staged, "", folder, "",
					  SYS_MOVE_MOUNT_F_EMPTY_PATH | SYS_MOVE_MOUNT_T_EMPTY_PATH));
	must("mount_setattr", sys_mount_setattr(staged, "", AT_EMPTY_PATH, &private));
	(void)close(folder);
	return staged;
}

static void raw_unstage(int base, int staged)
{
	(void)close(staged);
	must("fchdir", sys_fchdir(base));
	must("umount2", sys_umount2(RAW_STAGE, SYS_UMOUNT_NOFOLLOW));
	must("rmdir", sys_rmdirat(base, RAW_STAGE));
}

static uint64_t measure_raw(char **argv, uint32_t pairs)
{
	int base = must("open", sys_openat(AT_FDCWD, argv[0], O_PATH | O_DIRECTORY | O_CLOEXEC));
	int staged = raw_tmpfs();
	uint64_t start = clock_monotonic_us();

	for (uint32_t i = 0; i < pairs; i++) {
		raw_publish(base, staged);
		raw_unpublish(base);
	}
	return per_pair(clock_monotonic_us() - start, pairs);
}

/* A request of the same size goes in, the calls are made, a reply of the same size comes back. */
static void serve_request(uint16_t op, int base, int *staged)
{
	switch (op) {
	case MH_OP_STAGE:
		*staged = raw_stage(base);
		break;
	case MH_OP_PUBLISH:
		raw_publish(base, *staged);
		break;
	case MH_OP_UNPUBLISH:
		raw_unpublish(base);
		break;
	default:
		raw_unstage(base, *staged);
		break;
	}
}

static _Noreturn void serve_raw(int socket, int base)
{
	int staged = -EBADF;

	for (;;) {
		union {
			struct mh_header header;
			uint8_t bytes[MH_MESSAGE_MAX];
		} request;
		struct mh_reply reply = {.status = MH_OK};

		if (recv(socket, &request, sizeof(request), 0) <= 0)
			_exit(0);
		serve_request(request.header.op, base, &staged);
		if (send(socket, &reply, sizeof(reply), MSG_NOSIGNAL) < 0)
			_exit(0);
	}
}

static struct helper start_raw(const char *folder)
{
	int base = must("open", sys_openat(AT_FDCWD, folder, O_PATH | O_DIRECTORY | O_CLOEXEC));
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) < 0)
		die("socketpair", errno);
	pid = fork();
	if (pid < 0)
		die("fork", errno);
	if (pid == 0) {
		(void)close(pair[0]);
		serve_raw(pair[1], base);
	}
	(void)close(pair[1]);
	(void)close(base);
	return (struct helper){.fd = pair[0]};
}

static uint64_t measure_socket(char **argv, uint32_t pairs)
{
	struct helper h = start_raw(argv[0]);
	const struct grant grant = {.alloc = ""};
	uint64_t us;

	stage(&h, &grant);
	us = time_pairs(&h, &grant, pairs, true);
	unstage(&h, &grant);
	stop_helper(&h);
	return per_pair(us, pairs);
}

static uint64_t measure_socket_lives(char **argv, uint32_t lives)
{
	struct helper h = start_raw(argv[0]);
	struct grant *grants = calloc(lives, sizeof(*grants));
	uint64_t us;

	if (!grants)
		die("memory", ENOMEM);
	us = time_lives(&h, grants, lives);
	stop_helper(&h);
	free(grants);
	return per_pair(us, lives);
}

/* Mounts that are nobody's business, below a private mount. */
static uint64_t make_foreign(char **argv, uint32_t mounts)
{
	int tmpfs = raw_tmpfs();
	int base;

	must("attach", sys_move_mount(tmpfs, "", AT_FDCWD, argv[0], SYS_MOVE_MOUNT_F_EMPTY_PATH));
	must("private", mount(NULL, argv[0], NULL, MS_PRIVATE, NULL) < 0 ? -errno : 0);
	base = must("open", sys_openat(AT_FDCWD, argv[0], O_PATH | O_DIRECTORY | O_CLOEXEC));
	for (uint32_t i = 0; i < mounts; i++) {
		int clone = must("open_tree",
				 sys_open_tree(tmpfs, "", SYS_OPEN_TREE_CLONE | O_CLOEXEC | AT_EMPTY_PATH));
		char name[16];

		(void)str_format(name, sizeof(name), "%u", i);
		must("mkdir", sys_mkdirat(base, name, 0755));
		must("attach", sys_move_mount(clone, "", base, name, SYS_MOVE_MOUNT_F_EMPTY_PATH));
		(void)close(clone);
	}
	return mounts;
}

/* --- commands
 * --------------------------------------------------------------------------------------------------- */

static void command(char *const argv[])
{
	pid_t pid;
	int status;
	int r = posix_spawnp(&pid, argv[0], NULL, NULL, argv, environ);

	if (r != 0 || waitpid(pid, &status, 0) != pid || status != 0)
		die(argv[0], r ? r : EIO);
}

static uint64_t measure_commands(char **argv, uint32_t pairs)
{
	char from[512];
	char to[512];
	char mount_word[] = "mount";
	char bind_word[] = "--bind";
	char umount_word[] = "umount";
	char *const mount_argv[] = {mount_word, bind_word, from, to, NULL};
	char *const umount_argv[] = {umount_word, to, NULL};
	uint64_t start;

	must("path", str_format(from, sizeof(from), "%s/from", argv[0]));
	must("path", str_format(to, sizeof(to), "%s/to", argv[0]));
	must("mkdir", sys_mkdirat(AT_FDCWD, from, 0755));
	must("mkdir", sys_mkdirat(AT_FDCWD, to, 0755));
	start = clock_monotonic_us();
	for (uint32_t i = 0; i < pairs; i++) {
		command(mount_argv);
		command(umount_argv);
	}
	start = clock_monotonic_us() - start;
	must("rmdir", sys_rmdirat(AT_FDCWD, from));
	must("rmdir", sys_rmdirat(AT_FDCWD, to));
	return per_pair(start, pairs);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int args;
		uint64_t (*measure)(char **argv, uint32_t pairs);
	} ways[] = {
		{"helper", 4, measure_helper},
		{"helper-one-ticket", 4, measure_helper_one_ticket},
		{"helper-lives", 4, measure_helper_lives},
		{"raw", 1, measure_raw},
		{"socket", 1, measure_socket},
		{"socket-lives", 1, measure_socket_lives},
		{"commands", 1, measure_commands},
		{"start", 1, measure_start},
		{"memory", 1, measure_memory},
		{"foreign", 1, make_foreign},
	};

	for (size_t i = 0; argc > 2 && i < ARRAY_SIZE(ways); i++) {
		uint32_t pairs;

		if (!str_eq(argv[1], ways[i].name) || argc != ways[i].args + 3 ||
		    parse_u32(argv[argc - 1], 1, 10000000, &pairs) < 0)
			continue;
		(void)printf("%" PRIu64 "\n", ways[i].measure(argv + 2, pairs));
		return 0;
	}
	(void)fputs("usage: bench_publish helper|helper-one-ticket|helper-lives HELPER TICKET_KEY CLUSTER "
		    "NODE N\n"
		    "       bench_publish raw|socket|socket-lives|commands FOLDER N\n"
		    "       bench_publish start HELPER STARTS\n"
		    "       bench_publish memory HELPER 1\n"
		    "       bench_publish foreign FOLDER MOUNTS\n",
		    stderr);
	return 2;
}
