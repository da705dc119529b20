/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"

#include "ticket_check.h"

#include "base/clock.h"
#include "base/id.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sodium.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

enum command {
	CMD_SEND = 'S',
	CMD_SEND_SILENT = 'N',
	CMD_SEND_FD = 'F',
	CMD_SEND_CHILD = 'C',
	CMD_END = 'E'
};

enum { HELPER_SOCKET = 3, REPLY_TIMEOUT_S = 600 };

static void become_user(uid_t uid)
{
	if (setgroups(0, NULL) < 0 || setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0)
		_exit(125);
}

/* As systemd does for User=, AmbientCapabilities=, CapabilityBoundingSet= and NoNewPrivileges=yes. */
static void become_service(const struct service *service)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	const uint32_t low = (uint32_t)service->ambient;
	const uint32_t high = (uint32_t)(service->ambient >> 32);
	const struct __user_cap_data_struct data[2] = {
		{.effective = low, .permitted = low, .inheritable = low},
		{.effective = high, .permitted = high, .inheritable = high}};
	const uid_t uid = service->uid != 0 ? service->uid : HELPER_UID;
	const gid_t group = service->supplementary_group;

	for (unsigned long cap = 0; cap < 64; cap++)
		if ((service->bounding >> cap & 1) == 0)
			(void)prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
	if (prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) < 0 || setgroups(group != 0, &group) < 0 ||
	    setresgid(uid, uid, uid) < 0 || setresuid(uid, uid, uid) < 0 ||
	    syscall(SYS_capset, &header, data) < 0)
		_exit(123);
	for (unsigned long cap = 0; cap < 64; cap++)
		if ((service->ambient >> cap & 1) != 0 &&
		    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, cap, 0, 0) < 0)
			_exit(122);
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

/* In the process that becomes the helper, still as root. */
static _Noreturn void become_helper(const struct agent_start *how, int socket, int message_fd)
{
	static const char *const alone[] = {"holdfast-mounthelper", NULL};
	static const char *const environment[] = {"LD_PRELOAD=/nonexistent.so", "GCONV_PATH=.",
						  "TZ=/etc/passwd", NULL};

	(void)dup2(message_fd, STDERR_FILENO);
	if (how->no_socket)
		socket = message_fd;
	if (socket != HELPER_SOCKET)
		(void)dup2(socket, HELPER_SOCKET);
	(void)fcntl(HELPER_SOCKET, F_SETFD, 0);
	if (how->service)
		become_service(how->service);
	else if (!how->by_root)
		become_user(how->uid != 0 ? how->uid : AGENT_UID);
	if (how->before_exec)
		how->before_exec();
	/* execve(2) changes nothing it is given */
	(void)execve(TEST_PREFIX "/helper", (char *const *)(uintptr_t)(how->argv ? how->argv : alone),
		     (char *const *)(uintptr_t)environment);
	_exit(126);
}

static ssize_t send_with_fd(int socket, const void *bytes, size_t n)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {.bytes = {0}};
	struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = n};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
	const int fd = STDIN_FILENO;

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	return sendmsg(socket, &msg, MSG_NOSIGNAL);
}

static ssize_t send_from_child(int socket, const void *bytes, size_t n)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(send(socket, bytes, n, MSG_NOSIGNAL) < 0);
	return waitpid(pid, NULL, 0);
}

static ssize_t pass_on(enum command command, int socket, const void *bytes, size_t n)
{
	if (command == CMD_SEND_FD)
		return send_with_fd(socket, bytes, n);
	if (command == CMD_SEND_CHILD)
		return send_from_child(socket, bytes, n);
	return send(socket, bytes, n, MSG_NOSIGNAL);
}

/* The agent process: carries messages until it is ordered to end. */
static void carry(int control, int helper_socket, pid_t helper)
{
	uint8_t buf[2048];

	for (;;) {
		ssize_t n = recv(control, buf, sizeof(buf), 0);
		int status = -1;

		if (n <= 0)
			_exit(0);
		if (buf[0] == CMD_END) {
			(void)close(helper_socket);
			(void)waitpid(helper, &status, 0);
			(void)send(control, &status, sizeof(status), 0);
			_exit(0);
		}
		if (pass_on(buf[0], helper_socket, buf + 1, (size_t)n - 1) < 0) {
			/* not sent, so no answer will come */
			(void)send(control, "", 1, 0);
			continue;
		}
		if (buf[0] == CMD_SEND_SILENT) {
			(void)send(control, "k", 1, 0);
			continue;
		}
		n = recv(helper_socket, buf + 1, sizeof(buf) - 1, 0);
		buf[0] = n > 0;
		(void)send(control, buf, n > 0 ? (size_t)n + 1 : 1, 0);
	}
}

static const struct sockaddr_un service_address = {.sun_family = AF_UNIX,
						   .sun_path = TEST_PREFIX "/helper.sock"};

/* As the socket unit: listening in ret[1], for a connection that is still to be made. */
static void listen_as_service(int ret[2])
{
	(void)unlink(service_address.sun_path);
	ret[0] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	ret[1] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (ret[0] < 0 ||
	    bind(ret[1], (const struct sockaddr *)&service_address, sizeof(service_address)) < 0 ||
	    chmod(service_address.sun_path, 0666) < 0 || listen(ret[1], 1) < 0)
		_exit(121);
}

/* A socket pair of the agent, though the process is root still. */
static void make_pair(const struct agent_start *how, uid_t uid, int ret[2])
{
	const int type = how->stream_socket ? SOCK_STREAM : SOCK_SEQPACKET;

	if (seteuid(how->peer_uid != 0 ? how->peer_uid : uid) < 0 ||
	    socketpair(AF_UNIX, type | SOCK_CLOEXEC, 0, ret) < 0 || seteuid(0) < 0)
		_exit(125);
}

static _Noreturn void be_agent(const struct agent_start *how, int control, int message_fd)
{
	const uid_t uid = how->uid != 0 ? how->uid : AGENT_UID;
	const struct timeval timeout = {.tv_sec = REPLY_TIMEOUT_S};
	uint8_t hello[1 + sizeof(struct mh_hello)];
	struct mh_header first = {.op = 0};
	siginfo_t info;
	int pair[2];
	ssize_t n;
	pid_t helper;

	if (how->as_root)
		how->as_root();
	if (how->service)
		listen_as_service(pair);
	else
		make_pair(how, uid, pair);
	helper = fork();
	if (helper == 0)
		become_helper(how, how->service ? accept(pair[1], NULL, NULL) : pair[1], message_fd);
	become_user(uid);
	if (how->service &&
	    connect(pair[0], (const struct sockaddr *)&service_address, sizeof(service_address)) < 0)
		_exit(120);
	(void)close(pair[1]);
	(void)setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	n = recv(pair[0], hello + 1, sizeof(hello) - 1, 0);
	if (n >= (ssize_t)sizeof(first))
		memcpy(&first, hello + 1, sizeof(first));
	hello[0] = first.op == MH_OP_HELLO;
	if (hello[0] == 0) /* until it has said why */
		(void)waitid(P_PID, (id_t)helper, &info, WEXITED | WNOWAIT);
	(void)send(control, hello, n > 0 ? (size_t)n + 1 : 1, 0);
	carry(control, pair[0], helper);
	_exit(0);
}

static size_t exchange(struct agent *agent, enum command command, const void *bytes, size_t n, void *answer)
{
	uint8_t buf[2048];
	ssize_t got;

	buf[0] = (uint8_t)command;
	memcpy(buf + 1, bytes, n);
	assert_int_equal(send(agent->control, buf, n + 1, 0), (ssize_t)n + 1);
	got = recv(agent->control, buf, sizeof(buf), 0);
	assert_true(got >= 1);
	if (command == CMD_SEND_SILENT || buf[0] == 0)
		return 0;
	memcpy(answer, buf + 1, (size_t)got - 1);
	return (size_t)got - 1;
}

void agent_launch(struct agent *agent, const struct agent_start *how)
{
	int control[2];
	int message[2];

	assert_int_equal(pipe2(message, O_CLOEXEC), 0);
	assert_int_equal(fcntl(message[0], F_SETFL, O_NONBLOCK), 0);
	*agent = (struct agent){.message_fd = message[0]};
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control), 0);
	agent->pid = fork();
	if (agent->pid == 0) {
		(void)close(control[0]);
		be_agent(how, control[1], message[1]);
	}
	(void)close(control[1]);
	(void)close(message[1]);
	agent->control = control[0];
}

bool agent_start(struct agent *agent, const struct agent_start *how)
{
	struct mh_ack ack = {.header = {.magic = MH_MAGIC,
					.version = MH_VERSION,
					.op = MH_OP_ACK,
					.length = sizeof(ack),
					.seq = 1}};
	uint8_t buf[1 + sizeof(struct mh_hello)];
	ssize_t n;

	agent_launch(agent, how);
	n = recv(agent->control, buf, sizeof(buf), 0);
	assert_true(n >= 1);
	if (buf[0] == 0) {
		assert_true(n == 1 || n == 1 + (ssize_t)sizeof(agent->failure));
		memcpy(&agent->failure, buf + 1, (size_t)n - 1);
		return false;
	}
	assert_int_equal(n, sizeof(buf));
	memcpy(&agent->hello, buf + 1, sizeof(agent->hello));
	agent->helper = (pid_t)agent->hello.helper_pid;
	agent->seq = 1;
	(void)exchange(agent, CMD_SEND_SILENT, &ack, sizeof(ack), NULL);
	return true;
}

void agent_up(struct agent *agent)
{
	if (!agent_start(agent, &(struct agent_start){.uid = 0}))
		fail_msg("the helper did not start: %s", agent_message(agent));
}

int agent_stop(struct agent *agent)
{
	const uint8_t end = CMD_END;
	uint8_t buf[1 + sizeof(struct mh_hello)];
	int status = -1;
	ssize_t n;

	assert_int_equal(send(agent->control, &end, 1, 0), 1);
	do /* what agent_launch() did not wait for comes first */
		n = recv(agent->control, buf, sizeof(buf), 0);
	while (n > 0 && n != sizeof(status));
	assert_int_equal(n, sizeof(status));
	memcpy(&status, buf, sizeof(status));
	(void)close(agent->control);
	(void)close(agent->message_fd);
	(void)waitpid(agent->pid, NULL, 0);
	return status;
}

int agent_stop_code(struct agent *agent)
{
	int status = agent_stop(agent);

	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

const char *agent_message(struct agent *agent)
{
	size_t n = strlen(agent->message);
	ssize_t more = read(agent->message_fd, agent->message + n, sizeof(agent->message) - 1 - n);

	agent->message[n + (more > 0 ? (size_t)more : 0)] = '\0';
	return agent->message;
}

size_t agent_raw(struct agent *agent, const void *bytes, size_t n, void *answer)
{
	return exchange(agent, CMD_SEND, bytes, n, answer);
}

size_t agent_raw_with_fd(struct agent *agent, const void *bytes, size_t n, void *answer)
{
	return exchange(agent, CMD_SEND_FD, bytes, n, answer);
}

size_t agent_raw_from_child(struct agent *agent, const void *bytes, size_t n, void *answer)
{
	return exchange(agent, CMD_SEND_CHILD, bytes, n, answer);
}

bool agent_call(struct agent *agent, void *request, size_t n, struct mh_reply *ret)
{
	struct mh_header *header = request;
	uint8_t answer[2048];
	size_t got;

	header->seq = ++agent->seq;
	got = agent_raw(agent, request, n, answer);
	if (got == 0)
		return false;
	assert_int_equal(got, sizeof(*ret));
	memcpy(ret, answer, sizeof(*ret));
	assert_int_equal(ret->header.seq, agent->seq);
	assert_int_equal(ret->header.op, header->op);
	return true;
}

static bool list(struct agent *agent, enum mh_list_kind kind, const char *volume, const char *plugin,
		 struct mh_list_reply *ret)
{
	struct mh_list req = {.header = {.magic = MH_MAGIC,
					 .version = MH_VERSION,
					 .op = MH_OP_LIST,
					 .length = sizeof(req),
					 .seq = ++agent->seq},
			      .kind = (uint8_t)kind};
	uint8_t answer[2048];

	(void)str_copy(req.volume, sizeof(req.volume), volume);
	(void)str_copy(req.profile, sizeof(req.profile), plugin);
	if (agent_raw(agent, &req, sizeof(req), answer) != sizeof(*ret))
		return false;
	memcpy(ret, answer, sizeof(*ret));
	return true;
}

bool agent_list(struct agent *agent, enum mh_list_kind kind, struct mh_list_reply *ret)
{
	return list(agent, kind, "", "", ret);
}

bool agent_look(struct agent *agent, const char *volume, const char *plugin, struct mh_reply *ret)
{
	struct mh_list_reply page;

	if (!list(agent, MH_LIST_STAGED, volume, plugin, &page))
		return false;
	*ret = (struct mh_reply){.status = page.status == MH_OK && page.count == 0 ? (uint16_t)MH_NOT_FOUND
										   : page.status,
				 .state = page.entries[0].state};
	return true;
}

/* Tickets */

static uint8_t public_key[crypto_sign_PUBLICKEYBYTES];
static uint8_t secret_key[crypto_sign_SECRETKEYBYTES];

static void make_keys(void)
{
	static bool made;
	uint8_t seed[crypto_sign_SEEDBYTES];

	memset(seed, 42, sizeof(seed));
	if (!made)
		(void)crypto_sign_seed_keypair(public_key, secret_key, seed);
	made = true;
}

const char *ticket_key_hex(void)
{
	static char hex[2 * sizeof(public_key) + 1];

	make_keys();
	hex_encode(hex, public_key, sizeof(public_key));
	return hex;
}

void sign_ticket(struct ticket *ticket)
{
	struct ticket_root root = {.magic = TICKET_ROOT_MAGIC, .version = TICKET_VERSION};
	struct ticket_leaf leaf = {.prefix = 0};

	make_keys();
	ticket->place = 1;
	memcpy(leaf.body, ticket, sizeof(leaf.body));
	(void)crypto_hash_sha256(root.hash, (const unsigned char *)&leaf, sizeof(leaf));
	(void)crypto_sign_detached(ticket->signature, NULL, (const unsigned char *)&root, sizeof(root),
				   secret_key);
}

static struct ticket make_ticket(const char *volume, const char *profile, const struct mh_source *source)
{
	struct ticket ticket = {.magic = TICKET_MAGIC,
				.version = TICKET_VERSION,
				.cluster = "demo",
				.node = "node-1",
				.generation = 1,
				.not_after_ms = (uint64_t)clock_realtime_ms() + 600000};
	char boot_id[37] = "";
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

	assert_int_equal(read(fd, boot_id, 36), 36);
	(void)close(fd);
	assert_true(id_uuid_bytes(boot_id, ticket.boot_id));
	assert_true(id_uuid_bytes(ALLOC, ticket.alloc));
	(void)str_copy(ticket.volume, sizeof(ticket.volume), volume);
	(void)str_copy(ticket.profile, sizeof(ticket.profile), profile);
	ticket_source_digest(source, ticket.source_digest);
	sign_ticket(&ticket);
	return ticket;
}

static struct mh_header header(uint16_t op, size_t n)
{
	return (struct mh_header){.magic = MH_MAGIC, .version = MH_VERSION, .op = op, .length = (uint32_t)n};
}

struct mh_stage stage_disk(void)
{
	struct mh_stage req = {
		.header = header(MH_OP_STAGE, sizeof(req)),
		.volume = "vol-1",
		.profile = "disk",
		.alloc = ALLOC,
		.source = {.class = MH_CLASS_BLOCK,
			   .u.block = {.by_id = BY_ID, .major = world_major(), .minor = world_minor()}}};

	req.ticket = make_ticket(req.volume, req.profile, &req.source);
	return req;
}

struct mh_stage stage_tmpfs(void)
{
	struct mh_stage req = {
		.header = header(MH_OP_STAGE, sizeof(req)),
		.volume = "mem-1",
		.profile = "mem",
		.alloc = ALLOC,
		.source = {.class = MH_CLASS_TMPFS, .u.tmpfs = {.size_bytes = 1 << 20, .inodes = 100}}};

	req.ticket = make_ticket(req.volume, req.profile, &req.source);
	return req;
}

struct mh_publish publish_disk(void)
{
	const struct mh_stage stage = stage_disk();
	struct mh_publish req = {.header = header(MH_OP_PUBLISH, sizeof(req)),
				 .volume = "vol-1",
				 .profile = "disk",
				 .alloc = ALLOC,
				 .source = stage.source};

	req.ticket = make_ticket(req.volume, req.profile, &stage.source);
	return req;
}

struct mh_publish publish_tmpfs(void)
{
	const struct mh_stage stage = stage_tmpfs();
	struct mh_publish req = {.header = header(MH_OP_PUBLISH, sizeof(req)),
				 .volume = "mem-1",
				 .profile = "mem",
				 .alloc = ALLOC,
				 .slot = 7,
				 .source = stage.source};

	req.ticket = make_ticket(req.volume, req.profile, &stage.source);
	req.ticket.slot = req.slot;
	sign_ticket(&req.ticket);
	return req;
}

struct mh_unpublish unpublish(const char *volume)
{
	struct mh_unpublish req = {.header = header(MH_OP_UNPUBLISH, sizeof(req)), .alloc = ALLOC};

	(void)str_copy(req.volume, sizeof(req.volume), volume);
	req.slot = str_eq(volume, "mem-1") ? 7 : 0;
	return req;
}

struct mh_unstage unstage(const char *volume)
{
	struct mh_unstage req = {.header = header(MH_OP_UNSTAGE, sizeof(req))};

	(void)str_copy(req.volume, sizeof(req.volume), volume);
	return req;
}

struct mh_unstage unstage_plugins(const char *volume)
{
	struct mh_unstage req = unstage(volume);

	(void)str_copy(req.profile, sizeof(req.profile), "plugin");
	return req;
}

static struct mh_reply expect(struct agent *agent, void *req, size_t n, enum mh_status want)
{
	struct mh_reply reply = {.status = MH_STATUS_N};

	if (!agent_call(agent, req, n, &reply))
		fail_msg("the helper is gone; wanted status %d", (int)want);
	if (reply.status != want) {
		char *log = world_log();

		print_error("%s", log);
		free(log);
		fail_msg("status %u step %u errno %u, wanted %d", reply.status, reply.step, reply.sys_errno,
			 (int)want);
	}
	return reply;
}

struct mh_reply expect_stage(struct agent *agent, struct mh_stage req, enum mh_status want)
{
	return expect(agent, &req, sizeof(req), want);
}

struct mh_reply expect_publish(struct agent *agent, struct mh_publish req, enum mh_status want)
{
	return expect(agent, &req, sizeof(req), want);
}

struct mh_reply expect_unpublish(struct agent *agent, struct mh_unpublish req, enum mh_status want)
{
	return expect(agent, &req, sizeof(req), want);
}

struct mh_reply expect_unstage(struct agent *agent, struct mh_unstage req, enum mh_status want)
{
	return expect(agent, &req, sizeof(req), want);
}
