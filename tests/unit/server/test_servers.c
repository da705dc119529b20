/* SPDX-License-Identifier: Apache-2.0 */
/* Three servers, as processes, on one etcd: who leads decides, and what one has granted holds for the next.
 */

#include "callers.h"
#include "cluster.h"
#include "dev.h"
#include "fake_fencer.h"
#include "http.h"
#include "port.h"
#include "unit.h"

#include "../etcd/etcd_world.h"
#include "base/backoff.h"
#include "base/exit_code.h"
#include "base/fd.h"
#include "recovery/migrate.h"
#include "state/schema.h"
#include "store/mark.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ftw.h>
#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/operator.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum {
	SERVERS = 3,
	ALONE = SERVERS, /* a server with a store of its own, in sqlite */
	SERVER_LEASE_S = 2,
	LONG_LEASE_S = 20,
	PATIENCE_S = 90,
	PATIENCE_OF_CLI_S = 10, /* at least */
	CALL_US = 2000000,
	LOG_MAX = 1 << 20,
	HIGH_INDEX = 1000000
};

struct servers {
	struct fixture f;   /* its clients: of the server that leads */
	struct hosts hosts; /* of the servers, then of the members; n 0: all are on this one */
	struct etcd_world *etcd;
	bool acl;
	pid_t pids[SERVERS + 1]; /* 0: not running */
	uint16_t ports[SERVERS + 1];
	int lease_s;
	int leader; /* whose clients are made; -1: nobody's */
	struct claim held;
	bool is_next[SERVERS + 1]; /* to be run: the next version, whose schema is one ahead */
};

/* A child of this program stops, and has stopped: its threads do until one of them takes the signal. */
static void stop_process(pid_t pid)
{
	siginfo_t info;

	assert_int_equal(kill(pid, SIGSTOP), 0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WSTOPPED), 0);
}

static const char *const node_names[] = {"n1", "n2"};

/* --- processes --- */

static const char *in_folder(const struct servers *s, int i, const char *rest, char ret[static PATH_MAX])
{
	(void)str_format(ret, PATH_MAX, "%s/s%d%s", s->f.dir, i, rest);
	return ret;
}

static const char *host_of(const struct servers *s, int i)
{
	return s->hosts.n > 0 && i < SERVERS ? s->hosts.addresses[i] : "127.0.0.1";
}

/* The lines of store "etcd" that say how to get to it. */
static void name_members(const struct servers *s, char *ret, size_t size)
{
	const char *folder = s->etcd->folder;
	size_t at = (size_t)str_format(ret, size, "endpoints = [");

	for (size_t m = 0; m < s->etcd->n; m++)
		at += (size_t)(s->hosts.n > 0 ? str_format(ret + at, size - at, "%s\"https://%s:2379\"",
							   m > 0 ? ", " : "", s->hosts.addresses[SERVERS + m])
					      : str_format(ret + at, size - at, "%s\"%s\"", m > 0 ? ", " : "",
							   s->etcd->urls[m]));
	at += (size_t)str_format(ret + at, size - at, "]");
	if (s->hosts.n > 0)
		(void)str_format(ret + at, size - at,
				 "\n  ca = \"%s/ca.crt\"\n  certificate = \"%s/client.crt\"\n  key = "
				 "\"%s/client.key\"",
				 folder, folder, folder);
}

static void write_config(struct servers *s, int i)
{
	char path[PATH_MAX], text[4096], members[1024];
	int n;

	name_members(s, members, sizeof(members));
	n = str_format(text, sizeof(text),
		       "cluster = \"c1\"\ndata_dir = \"%s/s%d\"\nticket_key = \"%s/ticket.key\"\nheartbeat = "
		       "\"300s\"\nacl = %s\n"
		       "listen {\n  host = \"%s\"\n  port = %u\n}\n"
		       "tls {\n  ca = \"%s/tls/ca.pem\"\n  cert = \"%s/tls/server.pem\"\n  key = "
		       "\"%s/tls/server.key\"\n}\n"
		       "store \"etcd\" {\n  %s\n  name = \"s%d\"\n  lease = \"%ds\"\n}\n",
		       s->f.dir, i, s->f.dir, s->acl ? "true" : "false", host_of(s, i),
		       (unsigned int)s->ports[i], s->f.dir, s->f.dir, s->f.dir, members, i, s->lease_s);
	assert_true(n > 0);
	if (i == ALONE)
		n = (int)(strstr(text, "store \"etcd\"") - text);
	assert_int_equal(mkdir(in_folder(s, i, "", path), 0700), 0);
	assert_int_equal(file_write_atomic(in_folder(s, i, ".hcl", path), 0600, text, (size_t)n), 0);
}

static pid_t spawn(struct servers *s, int i, const char *option)
{
	char config[PATH_MAX], log[PATH_MAX];
	pid_t pid = fork();
	int fd;

	assert_true(pid >= 0);
	if (pid > 0)
		return pid;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (s->hosts.n > 0)
		hosts_enter(&s->hosts, (size_t)i);
	fd = open(in_folder(s, i, ".log", log), O_WRONLY | O_CREAT | O_APPEND, 0600);
	(void)dup2(fd, STDOUT_FILENO);
	(void)dup2(fd, STDERR_FILENO);
	(void)execl(s->is_next[i] ? NEXT_SERVER_PROGRAM : SERVER_PROGRAM, "holdfast-server", "--config",
		    in_folder(s, i, ".hcl", config), option, NULL);
	_exit(127);
}

static int run_shell(const char *command)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		(void)execl("/bin/sh", "sh", "-c", command, NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void start(struct servers *s, int i)
{
	s->pids[i] = spawn(s, i, NULL);
}

/* Wait for its end; returns what wait() says. */
static int await_end(struct servers *s, int i)
{
	int status;

	WAIT_UNTIL(waitpid(s->pids[i], &status, WNOHANG) != 0);
	s->pids[i] = 0;
	return status;
}

static int run_option(struct servers *s, int i, const char *option)
{
	int status;
	pid_t pid = spawn(s, i, option);

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void end(struct servers *s, int i, int number)
{
	if (s->pids[i] == 0)
		return;
	(void)kill(s->pids[i], number);
	(void)await_end(s, i);
}

static bool has_said(struct servers *s, int i, const char *text)
{
	cleanup_free char *log = NULL;
	char path[PATH_MAX];

	return file_read(in_folder(s, i, ".log", path), LOG_MAX, &log, NULL) == 0 && strstr(log, text);
}

/* What was waited for until @limit did not come: print what each server has said last, and fail. */
static void check_patience(struct servers *s, uint64_t limit)
{
	enum { LAST = 6000 };

	if (clock_monotonic_us() < limit)
		return;
	for (int i = 0; i <= ALONE; i++) {
		cleanup_free char *log = NULL;
		char path[PATH_MAX];
		size_t n =
			file_read(in_folder(s, i, ".log", path), LOG_MAX, &log, NULL) == 0 ? strlen(log) : 0;

		/* print_message() prints 1 KiB at most */
		(void)printf("server %d, %s:\n%s\n", i,
			     s->pids[i] > 0 && waitpid(s->pids[i], NULL, WNOHANG) == 0 ? "which runs"
										       : "which does not run",
			     n > 0 ? log + (n > LAST ? n - LAST : 0) : "");
	}
	fail_msg("it did not come within %d s", PATIENCE_S);
}

static void await_log(struct servers *s, int i, const char *text)
{
	WAIT_UNTIL(has_said(s, i, text));
}

/* --- clients --- */

static struct rpc_address address_of(const struct servers *s, int i)
{
	struct rpc_address address = {.port = s->ports[i]};

	(void)str_copy(address.host, sizeof(address.host), host_of(s, i));
	return address;
}

static void drop_clients(struct servers *s)
{
	if (s->leader < 0)
		return;
	fake_node_release(&s->f.operator);
	fake_node_release(&s->f.n1);
	fake_node_release(&s->f.n2);
	s->leader = -1;
}

static void make_clients(struct servers *s, int i)
{
	const struct rpc_address address = address_of(s, i);

	drop_clients(s);
	s->leader = i;
	fake_node_init_at(&s->f.operator, s->f.event, s->f.dir, "operator", &address, 1);
	fake_node_init_at(&s->f.n1, s->f.event, s->f.dir, "node-n1", &address, 1);
	fake_node_init_at(&s->f.n2, s->f.event, s->f.dir, "node-n2", &address, 1);
}

static enum status ask(struct servers *s, int i, Holdfast__V1__GetStatusResponse **ret, struct error *err)
{
	Holdfast__V1__GetStatusRequest request = HOLDFAST__V1__GET_STATUS_REQUEST__INIT;
	ProtobufCMessage *response = NULL;
	struct fake_node asker;
	struct rpc_address address = address_of(s, i);
	enum status status;

	fake_node_init_at(&asker, s->f.event, s->f.dir, "operator", &address, 1);
	status = rpc_client_call_sync(asker.client, &holdfast__v1__operator__descriptor, "Status",
				      &request.base, CALL_US, &response, err);
	fake_node_release(&asker);
	if (ret)
		*ret = (Holdfast__V1__GetStatusResponse *)response;
	else if (response)
		protobuf_c_message_free_unpacked(response, NULL);
	return status;
}

/* Have http_send() reach server @i. */
static void name_server(struct servers *s, int i)
{
	char path[PATH_MAX], address[32];
	int n;

	(void)str_format(path, sizeof(path), "%s/address", s->f.dir);
	n = str_format(address, sizeof(address), "%s:%u\n", host_of(s, i), (unsigned int)s->ports[i]);
	assert_int_equal(file_write_atomic(path, 0600, address, (size_t)n), 0);
}

static const char *get_text(struct servers *s, int i, const char *target)
{
	const struct http_request request = {.cert = "operator", .method = "GET", .target = target};

	name_server(s, i);
	return http_send(&s->f, &request);
}

/* By itself, or as the only one. */
static bool decides(struct servers *s, int i)
{
	const char *answer;

	if (ask(s, i, NULL, NULL) != STATUS_OK)
		return false;
	answer = get_text(s, i, "/readyz");
	return strstr(answer, "\nleads\n") || strstr(answer, "\nready\n");
}

/* Wait until one of those that run answers, but not @except. */
static int find_leader(struct servers *s, int except)
{
	const uint64_t limit = clock_monotonic_us() + PATIENCE_S * USEC_PER_SEC;

	for (;;) {
		for (int i = 0; i < SERVERS; i++)
			if (s->pids[i] > 0 && i != except && decides(s, i))
				return i;
		check_patience(s, limit);
		(void)usleep(50000);
	}
}

/* The same; its clients are made. */
static int await_leader(struct servers *s, int except)
{
	int leader = find_leader(s, except);

	make_clients(s, leader);
	return leader;
}

static int another(const struct servers *s, int i)
{
	for (int other = 0; other < SERVERS; other++)
		if (other != i && s->pids[other] > 0)
			return other;
	return -1;
}

/* --- cases --- */

static int setup_at(void **state, size_t members, bool acl, int lease_s, bool has_hosts)
{
	struct servers *s = calloc(1, sizeof(*s));
	const struct dev_options options = {
		.dir = s->f.dir, .cluster = "c1", .nodes = node_names, .n_nodes = ARRAY_SIZE(node_names)};
	struct config config;

	assert_non_null(s);
	s->leader = -1;
	s->acl = acl;
	s->lease_s = lease_s;
	s->hosts.n = has_hosts;
	s->f.access_mode = HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_WRITER;
	s->f.source = "db";
	folder_make(s->f.dir);
	assert_int_equal(sd_event_new(&s->f.event), 0);
	assert_int_equal(dev_prepare(&options, &config, NULL), STATUS_OK);
	if (s->hosts.n > 0) {
		hosts_new(&s->hosts, SERVERS + WORLD_MEMBERS_MAX);
		s->etcd = etcd_world_new_hosts(&s->hosts, SERVERS);
	} else {
		s->etcd = etcd_world_new(members);
	}
	for (int i = 0; i <= ALONE; i++) {
		s->ports[i] = free_port();
		write_config(s, i);
	}
	*state = s;
	return 0;
}

static int setup_leased(void **state, size_t members, bool acl, int lease_s)
{
	return setup_at(state, members, acl, lease_s, false);
}

static int setup_with(void **state, size_t members, bool acl)
{
	return setup_leased(state, members, acl, SERVER_LEASE_S);
}

static int setup_of(void **state, size_t members)
{
	return setup_with(state, members, false);
}

static void start_all(struct servers *s)
{
	for (int i = 0; i < SERVERS; i++)
		start(s, i);
}

static int setup_one(void **state)
{
	return setup_of(state, 1);
}

static int setup_servers(void **state)
{
	struct servers *s;

	assert_int_equal(setup_of(state, 1), 0);
	s = *state;
	assert_int_equal(run_option(s, 0, "--new-cluster"), 0);
	start_all(s);
	return 0;
}

static int setup_members(void **state)
{
	struct servers *s;

	assert_int_equal(setup_of(state, 3), 0);
	s = *state;
	assert_int_equal(run_option(s, 0, "--new-cluster"), 0);
	start_all(s);
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

UNIT_TEARDOWN(teardown_servers, struct servers, s)
{
	drop_clients(s);
	for (int i = 0; i <= ALONE; i++)
		end(s, i, SIGKILL);
	etcd_world_free(s->etcd);
	hosts_free(&s->hosts);
	sd_event_unref(s->f.event);
	assert_int_equal(nftw(s->f.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* A new cluster begins with an epoch, in which each node reports once. */
static void join(struct servers *s, struct fake_node *node, const char *id)
{
	Holdfast__V1__NodeReport nothing = HOLDFAST__V1__NODE_REPORT__INIT;

	fake_node_connect(node, id, BOOT_1, NULL, 0);
	assert_true(node->welcomed);
	UNTIL(&s->f, node->reports_wanted == 1);
	nothing.epoch = node->report_epoch;
	fake_node_send_report(node, &nothing);
}

static void claim_db(struct servers *s, Holdfast__V1__ClaimVolumeResponse **ret)
{
	const uint64_t limit = clock_monotonic_us() + PATIENCE_S * USEC_PER_SEC;
	struct error err = {0};

	while (fake_node_claim(&s->f.n1, "db", ALLOC_1, ret, &err) != STATUS_OK) {
		assert_msg(err.status == STATUS_UNAVAILABLE && clock_monotonic_us() <= limit, "%s", err.msg);
		assert_true(sd_event_run(s->f.event, 10000) >= 0); /* the reports are on their way */
	}
}

static void await_mark(struct servers *s, int i, uint64_t revision)
{
	const uint64_t limit = clock_monotonic_us() + PATIENCE_S * USEC_PER_SEC;
	struct mark mark = {.revision = 0};
	char path[PATH_MAX];

	for (; mark.revision < revision; (void)usleep(10000)) {
		check_patience(s, limit);
		(void)mark_read(in_folder(s, i, "/holdfast.mark", path), &mark, NULL);
	}
}

static uint64_t index_at(struct servers *s, int i)
{
	cleanup_pb Holdfast__V1__GetStatusResponse *status = NULL;
	uint64_t index;

	assert_int_equal(ask(s, i, &status, NULL), STATUS_OK);
	index = status->index;
	return index;
}

/* Each server has one: those that follow begin it when the leader writes. */
static void begin_marks(struct servers *s)
{
	for (int i = 0, n = 0; i < SERVERS; n++) {
		struct mark mark;
		char path[PATH_MAX], name[16];

		if (mark_read(in_folder(s, i, "/holdfast.mark", path), &mark, NULL) == STATUS_OK) {
			i++;
			continue;
		}
		(void)str_format(name, sizeof(name), "m%d", n);
		assert_int_equal(register_disk(&s->f, &s->f.operator, name, name, NULL), STATUS_OK);
		(void)usleep(100000);
	}
}

static void await_marks(struct servers *s, int leader)
{
	uint64_t index;

	begin_marks(s);
	index = index_at(s, leader);
	for (int i = 0; i < SERVERS; i++)
		await_mark(s, i, index);
}

/* Node n1 holds volume db for ALLOC_1, and says so in its hellos from here on. */
static void take_db(struct servers *s)
{
	cleanup_pb Holdfast__V1__ClaimVolumeResponse *response = NULL;
	struct fixture *f = &s->f;
	struct error err = {0};

	assert_succeeds(register_volume(f, &f->operator, & err), err);
	join(s, &f->n1, "n1");
	join(s, &f->n2, "n2");
	assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_OK);
	claim_db(s, &response);
	(void)str_copy(s->held.id, sizeof(s->held.id), response->claim->id);
	s->held.generation = response->claim->generation;
	begin_marks(s); /* a server without one would begin an epoch when it leads */
}

/* The claim is the one that was granted, and nobody else gets the volume. */
static void expect_held(struct servers *s)
{
	cleanup_pb Holdfast__V1__ClaimVolumeResponse *response = NULL;
	struct fixture *f = &s->f;
	struct error err = {0};

	f->n1.has = &s->held;
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_true(f->n1.welcomed);
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	assert_succeeds(fake_node_claim(&f->n1, "db", ALLOC_1, &response, &err), err);
	assert_string_equal(response->claim->id, s->held.id);
	assert_int_equal(response->claim->generation, s->held.generation);
	assert_int_not_equal(run_alloc(f, ALLOC_2, "n2", &err), STATUS_OK);
	assert_non_null(strstr(err.msg, "n1"));
}

static void expect_text(struct servers *s, int i, const char *target, const char *status, const char *text)
{
	const char *answer = get_text(s, i, target);

	assert_msg(strstr(answer, status) && strstr(answer, text), "server %d, %s: %s", i, target, answer);
}

TEST_ON(a_follower_takes_over_when_the_leader_is_killed, struct servers, s, setup_members, teardown_servers)
{
	int leader = await_leader(s, -1);
	int follower;
	char address[32];

	take_db(s);
	(void)str_format(address, sizeof(address), "127.0.0.1:%u", (unsigned int)s->ports[leader]);
	follower = another(s, leader);
	await_log(s, follower, "this server follows");
	assert_int_equal(ask(s, follower, NULL, NULL), STATUS_OK);
	expect_text(s, follower, "/readyz", " 200 ", "\nfollows s");
	expect_text(s, follower, "/readyz", " 200 ", address);
	expect_text(s, follower, "/healthz", " 200 ", "ok\n");
	expect_text(s, follower, "/metrics", " 200 ", "\nholdfast_leads 0\n");
	expect_text(s, leader, "/readyz", " 200 ", "leads\n");
	expect_text(s, leader, "/metrics", " 200 ", "\nholdfast_leads 1\n");
	etcd_world_kill(s->etcd, 2);  /* two of three are enough */
	for (int n = 0; n < 2; n++) { /* and again, to the last one */
		end(s, leader, SIGKILL);
		leader = await_leader(s, -1);
		expect_held(s);
	}
}

/* --- fences --- */

/* @plugin_id "": of the power fence. */
static Holdfast__V1__FenceState fence_state_at(struct servers *s, const char *plugin_id)
{
	cleanup_pb ProtobufCMessage *response = NULL;
	Holdfast__V1__FenceState found = HOLDFAST__V1__FENCE_STATE__FENCE_STATE_ASKED;
	Holdfast__V1__GetFenceRequest request =
		V1(get_fence_request, .id = "n1", .plugin_id = TEXT(plugin_id));

	if (call(&s->f.operator, FENCES, "Get", &request.base, &response, NULL) == STATUS_OK)
		found = ((Holdfast__V1__GetFenceResponse *)(void *)response)->fence->state;
	return found;
}

/* The server has to miss the node first. */
static void fence_n1(struct servers *s, const char *plugin_id)
{
	const uint64_t limit = clock_monotonic_us() + PATIENCE_S * USEC_PER_SEC;
	cleanup_pb ProtobufCMessage *response = NULL;
	Holdfast__V1__FenceNodeRequest request =
		V1(fence_node_request, .id = "n1", .plugin_id = TEXT(plugin_id), .reason = "it is gone");
	struct error err;

	while (call(&s->f.operator, FENCES, "Fence", &request.base, &response, &err) != STATUS_OK)
		assert_msg(err.status == STATUS_FAILED_PRECONDITION && clock_monotonic_us() <= limit, "%s",
			   err.msg);
}

/* A follower ends the session until it knows a leader. */
static void connect_fencer(struct servers *s, struct fake_fencer *fencer)
{
	const uint64_t limit = clock_monotonic_us() + PATIENCE_S * USEC_PER_SEC;

	do {
		fake_fencer_dial(fencer);
		fake_fencer_hello(fencer, "");
		UNTIL(&s->f, fencer->is_welcome || !fencer->stream);
	} while (!fencer->is_welcome && clock_monotonic_us() < limit);
	assert_true(fencer->is_welcome);
}

TEST_ON(the_next_leader_continues_a_fence_with_a_fencer_that_is_connected_to_a_follower, struct servers, s,
	setup_members, teardown_servers)
{
	int leader = await_leader(s, -1), follower = another(s, leader);
	struct fake_fencer fencer = {.n = 0};
	struct error err;

	take_db(s);
	await_log(s, follower, "this server follows");
	s->f.port = s->ports[follower];
	caller_init(&fencer.caller, &s->f, "holdfast://c1/fencer/f1", NULL);
	connect_fencer(s, &fencer);
	fake_node_disconnect(&s->f.n1);
	fence_n1(s, "");
	UNTIL(&s->f, fencer.n == 1);
	end(s, leader, SIGKILL);
	(void)await_leader(s, -1);
	if (fencer.stream)
		rpc_stream_cancel(fencer.stream);
	connect_fencer(s, &fencer);
	UNTIL(&s->f, fencer.n == 2); /* the same order, by the next leader */
	assert_memory_equal(&fencer.orders[1], &fencer.orders[0], sizeof(fencer.orders[0]));
	fake_fencer_prove(&fencer, &fencer.orders[1]);
	UNTIL(&s->f, fence_state_at(s, "") == HOLDFAST__V1__FENCE_STATE__FENCE_STATE_RECORDED);
	fake_node_connect(&s->f.n2, "n2", BOOT_1, NULL, 0);
	assert_true(s->f.n2.welcomed);
	assert_msg(run_alloc(&s->f, ALLOC_2, "n2", &err) == STATUS_OK &&
			   fake_node_claim(&s->f.n2, "db", ALLOC_2, NULL, &err) == STATUS_OK,
		   "%s", err.msg);
	caller_release(&fencer.caller);
}

TEST_ON(the_next_leader_continues_a_network_fence, struct servers, s, setup_members, teardown_servers)
{
	const struct fake_csi with_controller = {
		.has_node = true, .has_controller = true, .can_fence = true, .clients = {"192.0.2.2/32"}};
	struct fixture *f = &s->f;
	int leader = await_leader(s, -1);

	f->n1.plugin = f->n2.plugin = &f->plugin;
	f->n1.csi = (struct fake_csi){.has_node = true, .clients = {"192.0.2.1/32"}};
	f->n2.csi = with_controller;
	take_db(s);
	await_log(s, another(s, leader), "this server follows");
	model_plugin_order(&f->plugin, HOLDFAST__V1__PLUGIN_CALL__REQUEST_FENCE_NETWORK, MODEL_HOLD_DONE, 1,
			   STATUS_OK);
	fake_node_disconnect(&f->n1);
	fence_n1(s, CSI_PLUGIN);
	UNTIL(f, f->n2.n_held == 1);
	end(s, leader, SIGKILL); /* the storage refuses the node, and no server knows */
	(void)await_leader(s, -1);
	f->n2.plugin = &f->plugin;
	f->n2.csi = with_controller;
	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	assert_true(f->n2.welcomed);
	UNTIL(f, fence_state_at(s, CSI_PLUGIN) == HOLDFAST__V1__FENCE_STATE__FENCE_STATE_RECORDED);
	assert_true(model_plugin_is_fenced(&f->plugin, "192.0.2.1/32"));
}

static void on_late(enum status status, const ProtobufCMessage *response, const struct error *err,
		    void *userdata)
{
	*(int *)userdata = (int)status;
}

#define CASE(name) TEST_ON(name, struct servers, s, setup_servers, teardown_servers)

static uint64_t index_of(struct servers *s, int i)
{
	cleanup_pb Holdfast__V1__GetStatusResponse *status = NULL;
	uint64_t index;

	assert_int_equal(ask(s, i, &status, NULL), STATUS_OK);
	index = status->index;
	return index;
}

/* A refusal is answered before its record is durable. */
static uint64_t index_at_rest(struct servers *s, int i)
{
	uint64_t index, before;

	index = index_of(s, i);
	do {
		before = index;
		run_for(s->f.event, 300);
		index = index_of(s, i);
	} while (index != before);
	return index;
}

CASE(a_server_stopped_past_its_lease_writes_nothing_and_ends)
{
	int leader = await_leader(s, -1);
	pid_t stopped = s->pids[leader];
	uint64_t index;
	Holdfast__V1__GetStatusRequest request = HOLDFAST__V1__GET_STATUS_REQUEST__INIT;
	struct fake_node late;
	int answered = -1; /* a status */
	int next, ended;

	take_db(s);
	fake_node_init(&late, s->f.event, s->f.dir, "operator", s->ports[leader]);
	assert_ok(call(&late, &holdfast__v1__operator__descriptor, "Status", &request.base, NULL, NULL));
	stop_process(stopped);
	drop_clients(s);
	next = await_leader(s, leader);
	assert_ok(rpc_client_call(late.client, &holdfast__v1__operator__descriptor, "Status", &request.base,
				  TIMEOUT_US, on_late, &answered, NULL, NULL));
	assert_int_not_equal(next, leader);
	expect_held(s);
	index = index_at_rest(s, next);
	assert_int_equal(kill(stopped, SIGCONT), 0);
	ended = await_end(s, leader);
	assert_true(WIFEXITED(ended));
	assert_int_equal(WEXITSTATUS(ended), EXIT_CODE_FAILED);
	UNTIL(&s->f, answered >= 0);
	assert_int_not_equal(answered, STATUS_OK); /* it could say what is not true any more */
	fake_node_release(&late);
	assert_int_equal(index_at_rest(s, next), index);
	start(s, leader); /* as its unit does: a follower */
	expect_held(s);
	await_log(s, leader, "this server follows");
}

CASE(a_leader_that_is_stopped_hands_over_at_once)
{
	int leader = await_leader(s, -1);
	int ended;

	take_db(s);
	drop_clients(s);
	(void)kill(s->pids[leader], SIGTERM);
	ended = await_end(s, leader);
	assert_true(WIFEXITED(ended));
	assert_int_equal(WEXITSTATUS(ended), 0);
	(void)await_leader(s, -1);
	expect_held(s);
}

TEST_ON(no_server_starts_without_a_requested_store, struct servers, s, setup_one, teardown_servers)
{
	int ended;

	start(s, 0);
	ended = await_end(s, 0);
	assert_true(WIFEXITED(ended));
	assert_int_equal(WEXITSTATUS(ended), EXIT_CODE_SETTINGS);
	assert_true(has_said(s, 0, "there is no store in etcd"));
	assert_int_equal(run_option(s, 0, "--new-cluster"), 0);
	assert_int_equal(run_option(s, 1, "--new-cluster"), 1);
	assert_true(has_said(s, 1, "there is a store in etcd"));
	start_all(s);
	(void)await_leader(s, -1);
	assert_int_equal(run_option(s, s->leader, "--new-cluster"), 1);
	assert_true(has_said(s, s->leader, "stop holdfast-server on every machine"));
}

/* --- handing on --- */

/* All that node n1 and an operator do, at a server that follows. */
CASE(a_follower_hands_on_calls_and_sessions)
{
	int leader = await_leader(s, -1);
	int follower = another(s, leader);
	cleanup_pb Holdfast__V1__GetStatusResponse *status = NULL;
	struct error err;

	await_log(s, follower, "this server follows");
	make_clients(s, follower);
	take_db(s);
	expect_held(s);
	assert_int_equal(ask(s, leader, &status, NULL), STATUS_OK);
	assert_int_equal(status->nodes_ready, 2);
	expect_text(s, follower, "/v1/node/n1", " 200 ", "\"status\":\"READY\"");
	expect_text(s, follower, "/v1/volume/csi/none", " 404 ", "none");
	/* an error and its details are the leader's */
	assert_error(fake_node_claim(&s->f.n1, "none", ALLOC_1, NULL, &err), STATUS_PERMISSION_DENIED, err,
		     "none");
	/* whoever shows no node's certificate is none, here and there */
	assert_int_equal(fake_node_claim(&s->f.operator, "db", ALLOC_1, NULL, &err),
			 STATUS_PERMISSION_DENIED);
}

static int setup_patient(void **state)
{
	struct servers *s;

	assert_int_equal(setup_leased(state, 1, false, LONG_LEASE_S), 0);
	s = *state;
	assert_int_equal(run_option(s, 0, "--new-cluster"), 0);
	start_all(s);
	return 0;
}

/* etcd stops for longer than it may take to answer, a part of the lease: the leader has it still. */
TEST_ON(a_follower_keeps_a_leader_that_answers_while_etcd_does_not, struct servers, s, setup_patient,
	teardown_servers)
{
	int leader = await_leader(s, -1);
	int follower = another(s, leader);

	await_log(s, follower, "this server follows");
	make_clients(s, follower);
	take_db(s);
	stop_process(s->etcd->pids[0]);
	await_log(s, follower, "etcd does not report the leader");
	assert_int_equal(ask(s, follower, NULL, NULL), STATUS_OK);
	expect_text(s, follower, "/readyz", " 200 ", "\nfollows s");
	assert_int_equal(kill(s->etcd->pids[0], SIGCONT), 0);
	await_log(s, follower, "leads still");
	expect_text(s, follower, "/readyz", " 200 ", "\nfollows s");
	assert_false(s->f.n1.closed);
	assert_false(s->f.n2.closed);

	etcd_world_kill(s->etcd, 0);
	end(s, leader, SIGKILL);
	await_log(s, follower, "does not answer as the leader either");
	expect_text(s, follower, "/readyz", " 503 ", "no_answer: etcd does not answer");
}

/* Calls are not handed on to the server itself, and sessions wait until it leads again. */
TEST_ON(a_restarted_server_waits_for_its_own_lease, struct servers, s, setup_one, teardown_servers)
{
	assert_int_equal(run_option(s, 0, "--new-cluster"), 0);
	start(s, 0);
	(void)await_leader(s, -1);
	drop_clients(s);
	end(s, 0, SIGKILL);
	start(s, 0);
	await_log(s, 0, "the lease of this server, s0, is not over");
	make_clients(s, 0);
	join(s, &s->f.n1, "n1");
}

static uint32_t schema_of_store(struct servers *s, int i)
{
	cleanup_pb Holdfast__V1__GetStatusResponse *status = NULL;
	uint32_t schema;

	assert_int_equal(ask(s, i, &status, NULL), STATUS_OK);
	schema = status->schema;
	return schema;
}

/* By itself or by the one that leads. */
static void await_answer(struct servers *s, int i)
{
	WAIT_UNTIL(ask(s, i, NULL, NULL) == STATUS_OK);
}

static void upgrade(struct servers *s, int i)
{
	end(s, i, SIGTERM);
	s->is_next[i] = true;
	start(s, i);
}

/* One server after the other, as docs/operations.md has it: the store stays what the earlier version reads
 * until somebody says that it need not. */
CASE(an_upgrade_one_by_one_raises_the_schema_on_request)
{
	int leader = await_leader(s, -1);
	int next = another(s, leader);
	int last = 3 - leader - next;
	struct error err;

	take_db(s);
	upgrade(s, next);
	await_answer(s, next);
	make_clients(s, next);
	expect_held(s); /* the new one hands on to the old one */
	drop_clients(s);
	upgrade(s, last);
	await_answer(s, last);
	end(s, leader, SIGKILL); /* too early: nobody is left that may write */
	await_log(s, next, "and only follows. Next:");
	await_log(s, last, "and only follows. Next:");
	assert_error(ask(s, next, NULL, &err), STATUS_UNAVAILABLE, err, "holdfast-server --raise-schema");
	start(s, leader);
	assert_int_equal(await_leader(s, -1), leader);
	assert_int_equal(schema_of_store(s, leader), SCHEMA_VERSION);
	expect_held(s);

	assert_int_equal(run_option(s, next, "--raise-schema"), 0);
	assert_int_equal(schema_of_store(s, leader), SCHEMA_VERSION);
	drop_clients(s);
	upgrade(s, leader);
	leader = await_leader(s, -1);
	assert_int_equal(schema_of_store(s, leader), SCHEMA_VERSION + 1);
	expect_held(s);
	assert_int_equal(run_option(s, next, "--raise-schema"), 0); /* nothing to do */

	drop_clients(s);
	for (int i = 0; i < SERVERS; i++)
		end(s, i, SIGKILL);
	s->is_next[0] = false;
	start(s, 0);
	await_log(s, 0, "install the newer version here");
}

CASE(sessions_at_a_follower_end_with_the_leader_and_begin_anew)
{
	int leader = await_leader(s, -1);
	int follower = another(s, leader);
	int next;

	await_log(s, follower, "this server follows");
	make_clients(s, follower);
	take_db(s);
	end(s, leader, SIGKILL);
	UNTIL(&s->f, s->f.n1.closed);
	assert_int_equal(s->f.n1.closed_status, STATUS_UNAVAILABLE);
	next = await_leader(s, -1);
	expect_held(s);
	assert_int_not_equal(next, leader);
}

/* The command, given all servers, with the first one dead; returns its exit code. */
static int run_cli(struct servers *s, int dead, const char *arguments)
{
	char command[2 * PATH_MAX];
	int at = str_format(command, sizeof(command),
			    "HOLDFAST_CACERT=%s/tls/ca.pem HOLDFAST_CLIENT_CERT=%s/tls/operator.pem "
			    "HOLDFAST_CLIENT_KEY=%s/tls/operator.key HOLDFAST_ADDR=127.0.0.1:%u",
			    s->f.dir, s->f.dir, s->f.dir, (unsigned int)s->ports[dead]);

	for (int i = 0; i < SERVERS; i++)
		if (i != dead)
			at += str_format(command + at, sizeof(command) - (size_t)at, ",127.0.0.1:%u",
					 (unsigned int)s->ports[i]);
	(void)str_format(command + at, sizeof(command) - (size_t)at, " %s %s >%s/cli.log 2>&1", CLI_PROGRAM,
			 arguments, s->f.dir);
	return run_shell(command);
}

static bool cli_printed(struct servers *s, const char *text)
{
	cleanup_free char *log = NULL;
	char path[PATH_MAX];

	(void)str_format(path, sizeof(path), "%s/cli.log", s->f.dir);
	return file_read(path, LOG_MAX, &log, NULL) == 0 && strstr(log, text);
}

/* It succeeds; on a machine where nobody leads for longer than it has patience, not before that is over. */
static void expect_patience(struct servers *s, int dead, const char *arguments)
{
	const uint64_t limit = clock_monotonic_us() + PATIENCE_S * USEC_PER_SEC;
	uint64_t start_us = clock_monotonic_us();

	while (run_cli(s, dead, arguments) != 0) {
		assert_true(clock_monotonic_us() - start_us > PATIENCE_OF_CLI_S * USEC_PER_SEC);
		check_patience(s, limit);
		start_us = clock_monotonic_us();
	}
}

/* As soon as the leader is killed: the command goes round until one answers that another leads. */
CASE(a_command_that_knows_all_servers_outlives_one)
{
	int leader = await_leader(s, -1);

	assert_int_equal(register_volume(&s->f, &s->f.operator, NULL), STATUS_OK);
	await_log(s, another(s, leader), "this server follows");
	drop_clients(s);
	end(s, leader, SIGKILL);
	expect_patience(s, leader, "volume status db");
	assert_true(cli_printed(s, "db"));
	for (int i = 0; i < SERVERS; i++)
		end(s, i, SIGKILL);
	assert_int_not_equal(run_cli(s, leader, "volume status db"), 0);
	for (int i = 0; i < SERVERS; i++) {
		char text[64];

		(void)str_format(text, sizeof(text), "127.0.0.1:%u: connect: Connection refused",
				 (unsigned int)s->ports[i]);
		assert_true(cli_printed(s, text));
	}
}

/* --- who there is, and who no longer leads --- */

/* NULL: the server cannot say it now. */
static Holdfast__V1__ListMembersResponse *try_list_members(struct servers *s, int i)
{
	Holdfast__V1__ListMembersRequest request = HOLDFAST__V1__LIST_MEMBERS_REQUEST__INIT;
	ProtobufCMessage *response = NULL;
	cleanup(fake_node_release) struct fake_node asker;
	struct error err;
	enum status status;

	fake_node_init(&asker, s->f.event, s->f.dir, "operator", s->ports[i]);
	status = call(&asker, &holdfast__v1__operator__descriptor, "ListMembers", &request.base, &response,
		      &err);
	if (status != STATUS_OK && status != STATUS_UNAVAILABLE)
		fail_msg("%s", err.msg);
	return (Holdfast__V1__ListMembersResponse *)response;
}

static Holdfast__V1__ListMembersResponse *list_members(struct servers *s, int i)
{
	Holdfast__V1__ListMembersResponse *response = NON_NULL(try_list_members(s, i));

	return response;
}

/* Start a server that ended because etcd did not extend its lease in time, as systemd does. */
static void restart_ended(struct servers *s)
{
	for (int i = 0; i < SERVERS; i++)
		if (s->pids[i] > 0 && waitpid(s->pids[i], NULL, WNOHANG) == s->pids[i])
			start(s, i);
}

/* Wait until as many servers are in the list. While etcd elects a leader of its own, or a server looks for
 * another member of it, no server can answer. */
static Holdfast__V1__ListMembersResponse *await_members(struct servers *s, int i, size_t n)
{
	const uint64_t limit = clock_monotonic_us() + PATIENCE_S * USEC_PER_SEC;

	for (;;) {
		Holdfast__V1__ListMembersResponse *response = try_list_members(s, i);

		if (response && response->n_servers == n)
			return response;
		if (response)
			holdfast__v1__list_members_response__free_unpacked(response, NULL);
		check_patience(s, limit);
		restart_ended(s);
		(void)usleep(50000);
	}
}

static void expect_member(struct servers *s, const Holdfast__V1__ServerMember *member, bool leads)
{
	char address[32];

	assert_int_equal(member->leads, leads);
	assert_string_equal(member->version, HOLDFAST_VERSION);
	assert_true(member->since_ms > 0);
	assert_int_equal(member->name[0], 's');
	(void)str_format(address, sizeof(address), "127.0.0.1:%u",
			 (unsigned int)s->ports[member->name[1] - '0']);
	assert_string_equal(member->address, address);
}

TEST_ON(the_members_are_servers_that_live_and_etcds_that_answer_or_do_not, struct servers, s, setup_members,
	teardown_servers)
{
	int leader = await_leader(s, -1);
	int follower = another(s, leader);
	Holdfast__V1__ListMembersResponse *members = await_members(s, follower, SERVERS);

	for (size_t i = 0; i < SERVERS; i++)
		expect_member(s, members->servers[i], i == 0);
	assert_int_equal(members->servers[0]->name[1] - '0', leader);
	assert_true(members->index > 0);
	assert_int_equal(members->n_etcd, 3);
	assert_int_equal(members->etcd[0]->leads + members->etcd[1]->leads + members->etcd[2]->leads, 1);
	for (size_t i = 0; i < 3; i++) {
		assert_true(members->etcd[i]->reachable);
		assert_string_equal(members->etcd[i]->endpoint, s->etcd->urls[i]);
		assert_string_equal(members->etcd[i]->alarms, "");
		assert_int_equal(members->etcd[i]->version[0], '3');
	}
	holdfast__v1__list_members_response__free_unpacked(members, NULL);
	etcd_world_kill(s->etcd, 2);
	end(s, follower, SIGKILL);
	leader = await_leader(s, -1); /* another one, if etcd's own leader was killed and that took long */
	members = await_members(s, leader, SERVERS - 1); /* within the lease */
	assert_false(members->etcd[2]->reachable);
	assert_string_not_equal(members->etcd[2]->error, "");
	assert_true(members->etcd[0]->reachable && members->etcd[1]->reachable);
	holdfast__v1__list_members_response__free_unpacked(members, NULL);
	assert_int_equal(run_cli(s, follower, "operator members"), 0);
	assert_true(cli_printed(s, "follows") && cli_printed(s, "unreachable") && cli_printed(s, "index "));
}

CASE(an_alarm_of_etcd_is_shown)
{
	int leader = await_leader(s, -1);
	cleanup_pb Holdfast__V1__ListMembersResponse *members = NULL;

	etcd_world_alarm(s->etcd->urls[0], true);
	members = list_members(s, leader);
	assert_string_equal(members->etcd[0]->alarms, "NOSPACE");
}

/* Asked at a server that follows; the process continues, and is not the one that leads next. */
CASE(a_leader_that_steps_down_hands_over_and_follows)
{
	int leader = await_leader(s, -1);
	int follower = another(s, leader);
	pid_t pid = s->pids[leader];
	int next;

	take_db(s);
	await_log(s, follower, "this server follows");
	drop_clients(s);
	assert_int_equal(run_cli(s, leader, "operator step-down"), 0);
	await_log(s, leader, "handing over");
	await_log(s, leader, "this server follows");
	next = await_leader(s, leader);
	assert_int_not_equal(next, leader);
	expect_held(s);
	assert_int_equal(kill(pid, 0), 0);
	assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
	expect_text(s, leader, "/readyz", " 200 ", "\nfollows s");
	assert_int_equal(run_cli(s, leader, "operator audit"), 0);
	assert_true(cli_printed(s, "Operator.StepDown"));
}

/* The command is waiting for a change when the leader is killed, and asks the next one. */
CASE(a_command_that_waits_outlives_the_leader)
{
	int leader = await_leader(s, -1);
	int status;
	pid_t waiting;

	take_db(s);
	await_log(s, another(s, leader), "this server follows");
	waiting = fork();
	assert_true(waiting >= 0);
	if (waiting == 0)
		_exit(run_cli(s, another(s, leader), "alloc stop " ALLOC_1));
	UNTIL(&s->f, s->f.n1.stops == 1);
	UNTIL(&s->f, strstr(get_text(s, leader, "/metrics"), "\nholdfast_watches 1\n"));
	end(s, leader, SIGKILL);
	(void)await_leader(s, -1);
	s->f.n1.has = &s->held;
	fake_node_connect(&s->f.n1, "n1", BOOT_1, NULL, 0);
	UNTIL(&s->f, s->f.n1.stops == 1);
	fake_node_send_alloc(&s->f.n1, ALLOC_1, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	while (waitpid(waiting, &status, WNOHANG) == 0)
		assert_true(sd_event_run(s->f.event, 10000) >= 0);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* Bytes that have come for @port of the loopback and that nobody has read. */
static unsigned long unread_at(uint16_t port)
{
	FILE *table = NON_NULL(fopen("/proc/net/tcp", "re"));
	unsigned long all = 0;
	char line[256];

	while (fgets(line, sizeof(line), table)) {
		unsigned int local, state;
		unsigned long unread;

		/* "0: 0100007F:A0B1 0100007F:C0D1 01 TX_QUEUE:RX_QUEUE" */
		// NOLINTNEXTLINE(cert-err34-c): the kernel's own numbers
		if (sscanf(line, " %*d: %*x:%x %*x:%*x %x %*x:%lx", &local, &state, &unread) == 3 &&
		    local == port && state == 1)
			all += unread;
	}
	(void)fclose(table);
	return all;
}

enum { LATE_BYTES = 8192 };

static void begin_to_register(struct servers *s, struct fake_node *by, int *answered)
{
	Holdfast__V1__Volume volume = HOLDFAST__V1__VOLUME__INIT;
	Holdfast__V1__RegisterVolumeRequest request = V1(register_volume_request, .volume = &volume);
	char text[LATE_BYTES + 1];

	memset(text, 'x', LATE_BYTES); /* more than what other connections say meanwhile */
	text[LATE_BYTES] = '\0';
	volume.id = "late";
	volume.description = text;
	assert_ok(rpc_client_call(by->client, &holdfast__v1__volumes__descriptor, "Register", &request.base,
				  TIMEOUT_US, on_late, answered, NULL, NULL));
	UNTIL(&s->f, *answered >= 0 || unread_at(s->ports[s->leader]) > LATE_BYTES);
}

CASE(it_is_not_known_whether_a_lost_leader_carried_a_change_out)
{
	Holdfast__V1__GetStatusRequest read = HOLDFAST__V1__GET_STATUS_REQUEST__INIT;
	int leader = await_leader(s, -1);
	int follower = another(s, leader);
	cleanup(fake_node_release) struct fake_node caller;
	int changed = -1, seen = -1;

	await_log(s, follower, "this server follows");
	assert_int_equal(ask(s, follower, NULL, NULL), STATUS_OK); /* it is connected with the leader */
	fake_node_init(&caller, s->f.event, s->f.dir, "operator", s->ports[follower]);
	stop_process(s->pids[leader]);
	begin_to_register(s, &caller, &changed);
	assert_int_equal(changed, -1);
	assert_ok(rpc_client_call(caller.client, &holdfast__v1__operator__descriptor, "Status", &read.base,
				  TIMEOUT_US, on_late, &seen, NULL, NULL));
	end(s, leader, SIGKILL);
	UNTIL(&s->f, changed >= 0 && seen >= 0);
	assert_int_equal(changed, STATUS_UNKNOWN);
	assert_int_equal(seen, STATUS_UNAVAILABLE);
}

static enum status deregister(struct servers *s)
{
	Holdfast__V1__DeregisterVolumeRequest request = V1(deregister_volume_request, .id = "db");

	return call(&s->f.operator, & holdfast__v1__volumes__descriptor, "Deregister", &request.base, NULL,
		    NULL);
}

/* The newest record of @what. */
static Holdfast__V1__AuditRecord *find_record(const Holdfast__V1__ListAuditResponse *audit, const char *what)
{
	for (size_t i = audit->n_records; i > 0; i--)
		if (str_eq(audit->records[i - 1]->what, what))
			return audit->records[i - 1];
	fail_msg("there is no record of %s", what);
	return NULL;
}

CASE(the_record_of_a_call_that_was_handed_on_names_the_server_that_did)
{
	Holdfast__V1__ListAuditRequest request = HOLDFAST__V1__LIST_AUDIT_REQUEST__INIT;
	cleanup_pb Holdfast__V1__ListAuditResponse *audit = NULL;
	Holdfast__V1__AuditRecord *record;
	ProtobufCMessage *response = NULL;
	int leader = await_leader(s, -1);
	int follower = another(s, leader);

	await_log(s, follower, "this server follows");
	make_clients(s, follower);
	assert_int_equal(register_volume(&s->f, &s->f.operator, NULL), STATUS_OK); /* through it */
	assert_int_not_equal(fake_node_claim(&s->f.n1, "db", ALLOC_1, NULL, NULL), STATUS_OK);
	make_clients(s, leader);
	assert_int_equal(deregister(s), STATUS_OK); /* by itself */
	assert_ok(call(&s->f.operator, & holdfast__v1__operator__descriptor, "ListAudit", &request.base,
		       &response, NULL));
	audit = (Holdfast__V1__ListAuditResponse *)response;
	record = find_record(audit, "Volumes.Register");
	assert_string_equal(record->who, "operator/dev");
	assert_true(str_starts_with(record->vouched_by, "server/dev at 127.0.0.1:"));
	record = find_record(audit, "Volumes.Claim"); /* refused */
	assert_string_equal(record->who, "node/n1");
	assert_true(str_starts_with(record->vouched_by, "server/dev at 127.0.0.1:"));
	assert_string_not_equal(record->vouched_by + strlen("server/dev at "), record->address);
	assert_string_equal(find_record(audit, "Volumes.Deregister")->vouched_by, "");
	assert_int_equal(run_cli(s, follower, "operator audit"), 0);
	assert_true(cli_printed(s, "operator/dev (server/dev)"));
	assert_int_equal(run_cli(s, follower, "operator audit verify"), 0);
}

/* A certificate of a node, or of nobody, cannot speak for another. */
CASE(only_a_server_makes_calls_for_others)
{
	static const char *const certs[] = {"node-n2", "operator"};
	int leader = await_leader(s, -1);
	const struct rpc_peer n1 = {
		.kind = RPC_PEER_TLS, .uri = "holdfast://c1/node/n1", .address = "127.0.0.1:1"};
	const struct rpc_behalf behalf = {.peer = &n1};
	Holdfast__V1__GetStatusRequest request = HOLDFAST__V1__GET_STATUS_REQUEST__INIT;

	for (size_t i = 0; i < ARRAY_SIZE(certs); i++) {
		cleanup(fake_node_release) struct fake_node liar;
		int answered = -1;

		fake_node_init(&liar, s->f.event, s->f.dir, certs[i], s->ports[leader]);
		assert_ok(rpc_client_call_for(liar.client, &behalf, &holdfast__v1__operator__descriptor,
					      "Status", &request.base, TIMEOUT_US, on_late, &answered, NULL,
					      NULL));
		UNTIL(&s->f, answered >= 0);
		assert_int_equal(answered, STATUS_PERMISSION_DENIED);
	}
	await_log(s, leader, "may not make calls for others: it is not a server");
}

/* --- who may call: alike at every server --- */

enum who {
	WHO_OPERATOR, /* by certificate, as the next one */
	WHO_NODE,
	WHO_MANAGEMENT, /* by token, as those that follow */
	WHO_READER,
	WHO_UNIT, /* bound to node n1 */
	WHO_NO_POLICY,
	WHO_EXPIRED,
	WHO_UNKNOWN,
	WHO_NOBODY,
	WHO_N,
};

enum class {
	CLASS_READ, /* by gRPC, as the next two */
	CLASS_WRITE,
	CLASS_STREAM,
	CLASS_JSON,
	CLASS_ADDRESS,
	CLASS_METRICS,
	CLASS_HEALTH,
	CLASS_READY,
	CLASS_N,
};

static const struct {
	const char *method; /* of a call or stream; else what is requested */
	const char *request;
} classes[CLASS_N] = {
	[CLASS_READ] = {"Volumes.List", "{\"namespace\": \"default\"}"},
	[CLASS_WRITE] = {"Operator.PutPolicy", "{\"policy\": {\"name\": \"made\"}}"},
	[CLASS_STREAM] = {"Operator.Watch", "{\"topics\": [\"volume\"], \"namespace\": \"default\"}"},
	[CLASS_JSON] = {"/holdfast.v1.Volumes/List", "{\"namespace\": \"default\"}"},
	[CLASS_ADDRESS] = {"/v1/volumes", NULL},
	[CLASS_METRICS] = {"/metrics", NULL},
	[CLASS_HEALTH] = {"/healthz", NULL},
	[CLASS_READY] = {"/readyz", NULL},
};

#define DENIED STATUS_PERMISSION_DENIED
#define BAD_TOKEN STATUS_UNAUTHENTICATED

/* Wherever it is known who leads. */
static const struct {
	const char *name;
	const char *uri;   /* NULL: no certificate */
	const char *cert;  /* the same in a file */
	const char *token; /* fields of it; NULL: none */
	enum status expected[CLASS_N];
} identities[WHO_N] = {
	[WHO_OPERATOR] = {"operator", "holdfast://c1/operator/ann", "operator", NULL, {STATUS_OK}},
	[WHO_NODE] = {"node",
		      "holdfast://c1/node/n1",
		      "node-n1",
		      NULL,
		      {DENIED, DENIED, DENIED, DENIED, DENIED, DENIED, STATUS_OK, STATUS_OK}},
	[WHO_MANAGEMENT] = {"management token", NULL, NULL, "\"type\": \"MANAGEMENT\"", {STATUS_OK}},
	[WHO_READER] = {"reader's token",
			NULL,
			NULL,
			"\"type\": \"CLIENT\", \"policies\": [\"reader\"]",
			{STATUS_OK, DENIED, STATUS_OK, STATUS_OK, STATUS_OK, STATUS_OK, STATUS_OK,
			 STATUS_OK}},
	[WHO_UNIT] = {"unit's token",
		      NULL,
		      NULL,
		      "\"type\": \"CLIENT\", \"policies\": [\"unit\"], \"node\": \"n1\"",
		      {DENIED, DENIED, DENIED, DENIED, DENIED, DENIED, STATUS_OK, STATUS_OK}},
	[WHO_NO_POLICY] = {"token without policy",
			   NULL,
			   NULL,
			   "\"type\": \"CLIENT\"",
			   {DENIED, DENIED, DENIED, DENIED, DENIED, DENIED, STATUS_OK, STATUS_OK}},
	[WHO_EXPIRED] = {"expired token",
			 NULL,
			 NULL,
			 "\"type\": \"MANAGEMENT\"",
			 {BAD_TOKEN, BAD_TOKEN, BAD_TOKEN, BAD_TOKEN, BAD_TOKEN, BAD_TOKEN, STATUS_OK,
			  STATUS_OK}},
	[WHO_UNKNOWN] = {"unknown token",
			 NULL,
			 NULL,
			 "",
			 {BAD_TOKEN, BAD_TOKEN, BAD_TOKEN, BAD_TOKEN, BAD_TOKEN, BAD_TOKEN, STATUS_OK,
			  STATUS_OK}},
	[WHO_NOBODY] = {"nobody",
			NULL,
			NULL,
			NULL,
			{BAD_TOKEN, BAD_TOKEN, BAD_TOKEN, BAD_TOKEN, BAD_TOKEN, BAD_TOKEN, STATUS_OK,
			 STATUS_OK}},
};

enum { TOKEN_LIFE_MS = 1000, MATRIX_SIZE = 16384 };

struct secrets {
	char *of[WHO_N]; /* NULL: no token */
};

/* At the server @i, which leads. */
static void make_secrets(struct servers *s, int i, struct secrets *ret)
{
	int64_t end_ms = 0;

	s->f.port = s->ports[i];
	operator_does(&s->f, "Operator.PutPolicy",
		      "{\"policy\": {\"name\": \"reader\", \"operator\": \"read\", \"namespaces\": "
		      "[{\"namespace\": \"default\", \"policy\": \"read\"}]}}");
	operator_does(&s->f, "Operator.PutPolicy",
		      "{\"policy\": {\"name\": \"unit\", \"namespaces\": [{\"namespace\": \"default\", "
		      "\"capabilities\": [\"submit-job\", \"csi-mount-volume\", \"read-job\"]}]}}");
	*ret = (struct secrets){{NULL}};
	for (int who = 0; who < WHO_N; who++) {
		char token[512], end[64] = "";

		if (!identities[who].token)
			continue;
		if (who == WHO_UNKNOWN) {
			ret->of[who] = strdup("01890000-0000-4000-8000-0000000000ff");
			continue;
		}
		if (who == WHO_EXPIRED)
			end_ms = clock_realtime_ms() + TOKEN_LIFE_MS;
		if (who == WHO_EXPIRED)
			(void)str_format(end, sizeof(end), ", \"expires_at_ms\": \"%" PRId64 "\"", end_ms);
		(void)str_format(token, sizeof(token), "{\"name\": \"t%d\", %s%s}", who,
				 identities[who].token, end);
		ret->of[who] = make_token(&s->f, token);
	}
	while (clock_realtime_ms() <= end_ms)
		assert_true(sd_event_run(s->f.event, 10000) >= 0);
}

static void free_secrets(struct secrets *secrets)
{
	for (int who = 0; who < WHO_N; who++)
		free(secrets->of[who]);
}

static enum status status_of_http(const char *answer)
{
	static const struct {
		const char *begin;
		enum status status;
	} rows[] = {{"HTTP/1.1 200 ", STATUS_OK},
		    {"HTTP/1.1 401 ", STATUS_UNAUTHENTICATED},
		    {"HTTP/1.1 403 ", STATUS_PERMISSION_DENIED},
		    {"HTTP/1.1 503 ", STATUS_UNAVAILABLE}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		if (str_starts_with(answer, rows[i].begin))
			return rows[i].status;
	return STATUS_UNKNOWN;
}

static enum status send_as(struct servers *s, int i, const struct secrets *secrets, enum who who,
			   enum class class)
{
	struct http_request request =
		ROW(.cert = identities[who].cert, .method = classes[class].request ? "POST" : "GET",
		    .target = classes[class].method, .body = classes[class].request,
		    .token = secrets->of[who]);

	name_server(s, i);
	return status_of_http(http_send(&s->f, &request));
}

static enum status call_as(struct servers *s, int i, const struct secrets *secrets, enum who who,
			   enum class class)
{
	struct caller_client caller;
	enum status status;

	if (class >= CLASS_JSON)
		return send_as(s, i, secrets, who, class);
	s->f.port = s->ports[i];
	caller_init(&caller, &s->f, identities[who].uri, secrets->of[who]);
	status = class == CLASS_STREAM
			 ? caller_stream(&caller, classes[class].method, classes[class].request)
			 : caller_call(&caller, classes[class].method, classes[class].request, NULL, NULL);
	caller_release(&caller);
	return status;
}

static enum status expected_of(enum who who, enum class class, bool is_leaderless)
{
	if (!is_leaderless || class == CLASS_HEALTH || class == CLASS_METRICS)
		return identities[who].expected[class];
	return STATUS_UNAVAILABLE;
}

/* Each cell that is not as expected is a line of the message. */
static void expect_matrix(struct servers *s, int i, const struct secrets *secrets, const char *server,
			  bool is_leaderless)
{
	char text[MATRIX_SIZE] = "";
	int n = 0;

	for (enum who who = 0; who < WHO_N; who++)
		for (enum class class = 0; class < CLASS_N; class ++) {
			enum status expected = expected_of(who, class, is_leaderless);
			enum status status;

			if (is_leaderless && class == CLASS_STREAM)
				continue; /* it waits for a leader */
			status = call_as(s, i, secrets, who, class);
			if (status != expected)
				n += str_format(text + n, sizeof(text) - (size_t)n,
						"%s: %s, %s: %s, not %s\n", server, identities[who].name,
						classes[class].method, status_name(status),
						status_name(expected));
		}
	assert_msg(n <= 0, "%s", text);
}

static int setup_identities(void **state)
{
	struct servers *s;

	assert_int_equal(setup_with(state, 1, true), 0);
	s = *state;
	assert_int_equal(run_option(s, 0, "--new-cluster"), 0);
	assert_int_equal(run_option(s, ALONE, "--new-cluster"), 0);
	start_all(s);
	start(s, ALONE);
	return 0;
}

TEST_ON(every_identity_is_answered_alike_by_every_server, struct servers, s, setup_identities,
	teardown_servers)
{
	struct secrets secrets;
	int leader = await_leader(s, -1);
	int follower = another(s, leader);
	int other = SERVERS - leader - follower;
	uint64_t limit;

	await_answer(s, ALONE);
	make_secrets(s, ALONE, &secrets);
	expect_matrix(s, ALONE, &secrets, "sqlite", false);
	free_secrets(&secrets);

	await_log(s, follower, "this server follows");
	make_secrets(s, leader, &secrets);
	expect_matrix(s, leader, &secrets, "leader", false);
	expect_matrix(s, follower, &secrets, "follower", false);

	drop_clients(s);
	end(s, other, SIGKILL);
	etcd_world_kill(s->etcd, 0);
	(void)await_end(s, leader); /* its lease is over */
	limit = clock_monotonic_us() + PATIENCE_S * USEC_PER_SEC;
	while (!strstr(get_text(s, follower, "/readyz"), " 503 ")) { /* and the follower has asked it */
		check_patience(s, limit);
		(void)usleep(10000);
	}
	expect_matrix(s, follower, &secrets, "follower without leader", true);
	etcd_world_start(s->etcd, 0);
	assert_int_equal(await_leader(s, -1), follower);
	expect_matrix(s, follower, &secrets, "the next leader", false);
	free_secrets(&secrets);
}

/* The session is at one server that follows, the revocation comes through the other one. */
TEST_ON(a_revocation_ends_sessions_at_every_server, struct servers, s, setup_identities, teardown_servers)
{
	const struct http_request metrics = {.cert = "node-n1", .method = "GET", .target = "/metrics"};
	int leader = await_leader(s, -1);
	int follower = another(s, leader);
	int other = SERVERS - leader - follower;
	struct caller_client person;
	struct error err;

	await_log(s, follower, "this server follows");
	await_log(s, other, "this server follows");
	make_clients(s, follower);
	join(s, &s->f.n1, "n1");
	join(s, &s->f.n2, "n2");
	s->f.port = s->ports[other];
	caller_init(&person, &s->f, "holdfast://c1/operator/ann", NULL);
	assert_succeeds(
		caller_call(&person, "Operator.RevokeCertificate", "{\"identity\": \"node/n1\"}", NULL, &err),
		err);
	caller_release(&person);
	UNTIL(&s->f, s->f.n1.closed);
	assert_int_equal(s->f.n1.closed_status, STATUS_UNAUTHENTICATED);
	assert_non_null(strstr(s->f.n1.closed_message, " of node/n1 was revoked at 2"));
	assert_false(s->f.n2.closed);
	for (int i = 0; i < SERVERS; i++) {
		make_clients(s, i);
		fake_node_open(&s->f.n1, "n1", BOOT_1);
		UNTIL(&s->f, s->f.n1.closed);
		assert_int_equal(s->f.n1.closed_status, STATUS_UNAUTHENTICATED);
		name_server(s, i); /* by what it knows itself */
		WAIT_UNTIL(strstr(http_send(&s->f, &metrics), " of node/n1 was revoked at 2"));
	}
}

/* A stream or a call in progress, and how it ended. */
struct progress {
	bool is_open, is_over;
	enum status status;
};

static void on_stream_message(struct rpc_stream *stream, const ProtobufCMessage *message, void *userdata)
{
	((struct progress *)userdata)->is_open = true;
}

static void on_stream_closed(struct rpc_stream *stream, enum status status, const struct error *err,
			     void *userdata)
{
	struct progress *progress = userdata;

	progress->is_over = true;
	progress->status = status;
}

static void on_call_over(enum status status, const ProtobufCMessage *response, const struct error *err,
			 void *userdata)
{
	on_stream_closed(NULL, status, err, userdata);
}

/* A session, a stream and a call that waits, of one node and one person, at server @i. */
struct revoked {
	struct fake_node node;
	struct caller_client person;
	struct progress stream, call;
	char name[32];
};

static void open_calls(struct servers *s, struct revoked *by)
{
	static const struct rpc_stream_events events = {.on_message = on_stream_message,
							.on_closed = on_stream_closed};
	Holdfast__V1__WatchRequest watch = HOLDFAST__V1__WATCH_REQUEST__INIT;
	Holdfast__V1__ListVolumesRequest list = HOLDFAST__V1__LIST_VOLUMES_REQUEST__INIT;
	struct rpc_stream *stream = NULL;

	assert_ok(rpc_stream_open(by->person.client, &holdfast__v1__operator__descriptor, "Watch", TIMEOUT_US,
				  &events, &by->stream, &stream, NULL));
	assert_int_equal(rpc_stream_send(stream, &watch.base, NULL), STATUS_OK);
	list.index = HIGH_INDEX;
	list.wait_ms = 60000;
	assert_ok(rpc_client_call(by->person.client, &holdfast__v1__volumes__descriptor, "List", &list.base,
				  TIMEOUT_US, on_call_over, &by->call, NULL, NULL));
	UNTIL(&s->f, by->stream.is_open);
	run_idle(s->f.event);
	assert_false(by->call.is_over);
}

static void open_all(struct servers *s, int i, unsigned int round, struct revoked *ret)
{
	const struct rpc_address address = address_of(s, i);
	char uri[RPC_URI_SIZE], cert[PATH_MAX], key[PATH_MAX], ca[2][PATH_MAX], file[64];
	const struct pki_cert_request request = {.uri = uri, .common_name = "n", .days = 1};

	*ret = (struct revoked){.name = ""};
	(void)str_format(ret->name, sizeof(ret->name), "r%u-%d", round, i);
	(void)str_format(file, sizeof(file), "node-%s", ret->name);
	(void)str_format(uri, sizeof(uri), "holdfast://c1/node/%s", ret->name);
	(void)str_format(ca[0], PATH_MAX, "%s/tls/ca.pem", s->f.dir);
	(void)str_format(ca[1], PATH_MAX, "%s/tls/ca.key", s->f.dir);
	(void)str_format(cert, sizeof(cert), "%s/tls/%s.pem", s->f.dir, file);
	(void)str_format(key, sizeof(key), "%s/tls/%s.key", s->f.dir, file);
	assert_int_equal(pki_issue(ca[1], ca[0], &request, key, cert, NULL), STATUS_OK);
	fake_node_init_at(&ret->node, s->f.event, s->f.dir, file, &address, 1);
	join(s, &ret->node, ret->name);
	(void)str_format(uri, sizeof(uri), "holdfast://c1/operator/%s", ret->name);
	s->f.port = s->ports[i];
	caller_init(&ret->person, &s->f, uri, NULL);
	open_calls(s, ret);
}

/* @by another server. Returns how long after the answer the last of them ended. */
static uint64_t revoke_all(struct servers *s, int by, struct revoked *revoked)
{
	static const char *const roles[] = {"node", "operator"};
	struct caller_client admin;
	char request[128];
	uint64_t begin_us;

	s->f.port = s->ports[by];
	caller_init(&admin, &s->f, "holdfast://c1/operator/ann", NULL);
	begin_us = clock_monotonic_us();
	for (size_t i = 0; i < ARRAY_SIZE(roles); i++) {
		(void)str_format(request, sizeof(request), "{\"identity\": \"%s/%s\"}", roles[i],
				 revoked->name);
		assert_ok(caller_call(&admin, "Operator.RevokeCertificate", request, NULL, NULL));
	}
	UNTIL(&s->f, revoked->node.closed && revoked->stream.is_over && revoked->call.is_over);
	begin_us = clock_monotonic_us() - begin_us;
	caller_release(&admin);
	assert_int_equal(revoked->node.closed_status, STATUS_UNAUTHENTICATED);
	assert_int_equal(revoked->stream.status, STATUS_UNAUTHENTICATED);
	assert_int_equal(revoked->call.status, STATUS_UNAUTHENTICATED);
	return begin_us;
}

/* HOLDFAST_ROUNDS: how often; each time at each server, by another one. */
TEST_ON(a_revocation_ends_session_stream_and_call_at_each_server, struct servers, s, setup_identities,
	teardown_servers)
{
	const char *given = getenv("HOLDFAST_ROUNDS");
	unsigned int rounds = given ? (unsigned int)atoi(given) : 1;
	int leader = await_leader(s, -1);
	uint64_t longest[SERVERS] = {0};

	for (int i = 0; i < SERVERS; i++)
		if (i != leader)
			await_log(s, i, "this server follows");
	for (unsigned int round = 0; round < rounds; round++)
		for (int i = 0; i < SERVERS; i++) {
			struct revoked revoked;
			uint64_t took_us;

			open_all(s, i, round, &revoked);
			took_us = revoke_all(s, (i + 1) % SERVERS, &revoked);
			longest[i] = took_us > longest[i] ? took_us : longest[i];
			fake_node_release(&revoked.node);
			caller_release(&revoked.person);
		}
	for (int i = 0; i < SERVERS; i++)
		print_message("# server %d, which %s: %u rounds, all ended after %.1f ms at most\n", i,
			      i == leader ? "leads" : "follows", rounds, (double)longest[i] / 1000);
}

/* The leader ends calls that a follower handed on. Each policy is put at another server. */
TEST_ON(a_policy_ends_stream_and_call_at_each_server, struct servers, s, setup_identities, teardown_servers)
{
	int leader = await_leader(s, -1);

	for (int i = 0; i < SERVERS; i++)
		if (i != leader)
			await_log(s, i, "this server follows");
	for (int i = 0; i < SERVERS; i++) {
		struct revoked revoked = {.name = ""};
		struct secrets secrets;

		make_secrets(s, leader, &secrets);
		s->f.port = s->ports[i];
		caller_init(&revoked.person, &s->f, NULL, secrets.of[WHO_READER]);
		open_calls(s, &revoked);
		s->f.port = s->ports[(i + 1) % SERVERS];
		operator_does(&s->f, "Operator.PutPolicy", "{\"policy\": {\"name\": \"reader\"}}");
		UNTIL(&s->f, revoked.stream.is_over && revoked.call.is_over);
		assert_int_equal(revoked.stream.status, STATUS_PERMISSION_DENIED);
		assert_int_equal(revoked.call.status, STATUS_PERMISSION_DENIED);
		caller_release(&revoked.person);
		free_secrets(&secrets);
	}
}

/* As `volume hold` of a unit, whose token is bound to its node. */
static void do_as_unit(struct servers *s, int i, const char *secret, const char *method, const char *request)
{
	cleanup(caller_release) struct caller_client unit;
	struct error err;

	s->f.port = s->ports[i];
	caller_init(&unit, &s->f, NULL, secret);
	assert_msg(caller_call(&unit, method, request, NULL, &err) == STATUS_OK, "%s at server %d: %s",
		   method, i, err.msg);
}

#define UNIT_ALLOC(id, volume)                                                         \
	"{\"allocation\": {\"id\": \"" id "\", \"name\": \"u\", \"node_id\": \"n1\", " \
	"\"volumes\": [{\"name\": \"data\", \"source\": \"" volume "\", "              \
	"\"access_mode\": \"SINGLE_NODE_WRITER\"}]}}"

/* Each through the server that does not lead. */
TEST_ON(a_unit_starts_and_stops_through_a_follower_after_a_step_down, struct servers, s, setup_identities,
	teardown_servers)
{
	cleanup_pb Holdfast__V1__ClaimVolumeResponse *response = NULL;
	struct secrets secrets;
	int leader = await_leader(s, -1);
	int follower = another(s, leader);

	make_secrets(s, leader, &secrets);
	assert_int_equal(register_disk(&s->f, &s->f.operator, "db", "disk-1", NULL), STATUS_OK);
	assert_int_equal(register_disk(&s->f, &s->f.operator, "logs", "disk-2", NULL), STATUS_OK);
	await_log(s, follower, "this server follows");
	make_clients(s, follower);
	join(s, &s->f.n1, "n1");
	join(s, &s->f.n2, "n2");
	do_as_unit(s, follower, secrets.of[WHO_UNIT], "Allocations.Run", UNIT_ALLOC(ALLOC_1, "db"));
	claim_db(s, &response);
	drop_clients(s);
	assert_int_equal(run_cli(s, leader, "operator step-down"), 0);
	await_log(s, leader, "handing over");
	await_log(s, leader, "this server follows");
	assert_int_not_equal(await_leader(s, leader), leader);
	do_as_unit(s, leader, secrets.of[WHO_UNIT], "Allocations.Get", "{\"id\": \"" ALLOC_1 "\"}");
	do_as_unit(s, leader, secrets.of[WHO_UNIT], "Allocations.Stop", "{\"id\": \"" ALLOC_1 "\"}");
	do_as_unit(s, leader, secrets.of[WHO_UNIT], "Allocations.Run", UNIT_ALLOC(ALLOC_3, "logs"));
	make_clients(s, leader);
	fake_node_connect(&s->f.n1, "n1", BOOT_1, NULL, 0);
	UNTIL(&s->f, s->f.n1.runs == 1 && s->f.n1.stops == 1);
	assert_string_equal(s->f.n1.last_stop, ALLOC_1);
	assert_string_equal(s->f.n1.last_run, ALLOC_3);
	free_secrets(&secrets);
}

/* --- an etcd that forgot --- */

static void copy_etcd(struct servers *s, const char *from, const char *to)
{
	char command[PATH_MAX];

	(void)str_format(command, sizeof(command), "cd %s && rm -rf %s && cp -a %s %s", s->etcd->folder, to,
			 from, to);
	assert_int_equal(run_shell(command), 0);
}

static void stop_all(struct servers *s)
{
	drop_clients(s);
	for (int i = 0; i < SERVERS; i++)
		end(s, i, SIGKILL);
	etcd_world_kill(s->etcd, 0);
}

static void expect_nothing_granted(struct servers *s)
{
	struct fixture *f = &s->f;
	struct error err = {0};

	fake_node_connect(&f->n2, "n2", BOOT_1, NULL, 0);
	assert_true(f->n2.welcomed);
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", &err), STATUS_OK);
	assert_int_equal(fake_node_claim(&f->n2, "db", ALLOC_2, NULL, &err), STATUS_UNAVAILABLE);
}

CASE(an_etcd_that_was_put_back_begins_an_epoch_and_grants_nothing)
{
	struct fixture *f = &s->f;
	cleanup_pb Holdfast__V1__ClaimVolumeResponse *response = NULL;
	Holdfast__V1__GetStatusResponse *status = NULL;
	uint64_t epoch, index;
	int leader = await_leader(s, -1);

	assert_int_equal(register_volume(f, &f->operator, NULL), STATUS_OK);
	join(s, &f->n1, "n1");
	join(s, &f->n2, "n2");
	while (ask(s, leader, &status, NULL) == STATUS_OK && status->nodes_to_report > 0)
		holdfast__v1__get_status_response__free_unpacked(status, NULL);
	holdfast__v1__get_status_response__free_unpacked(status, NULL);
	stop_all(s);
	copy_etcd(s, "d0", "early");
	etcd_world_start(s->etcd, 0);
	start(s, leader);
	assert_int_equal(await_leader(s, -1), leader);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_OK);
	claim_db(s, &response);
	assert_int_equal(ask(s, leader, &status, NULL), STATUS_OK);
	epoch = status->epoch;
	index = status->index;
	holdfast__v1__get_status_response__free_unpacked(status, NULL);
	stop_all(s);
	copy_etcd(s, "early", "d0");
	etcd_world_start(s->etcd, 0);
	start(s, leader);
	assert_int_equal(await_leader(s, -1), leader);
	assert_true(has_said(s, leader, "holdfast.mark is of a later revision"));
	assert_int_equal(ask(s, leader, &status, NULL), STATUS_OK);
	assert_int_equal(status->epoch, epoch + 1);
	assert_true(status->index > index); /* above everything that anybody was told */
	holdfast__v1__get_status_response__free_unpacked(status, NULL);
	expect_nothing_granted(s);
}

CASE(a_follower_notices_a_restored_etcd)
{
	cleanup_pb Holdfast__V1__ClaimVolumeResponse *response = NULL;
	Holdfast__V1__GetStatusResponse *status = NULL;
	struct mark mark = {.revision = 0};
	char path[PATH_MAX];
	uint64_t epoch;
	int leader = await_leader(s, -1);
	int follower;

	assert_int_equal(register_volume(&s->f, &s->f.operator, NULL), STATUS_OK);
	join(s, &s->f.n1, "n1");
	join(s, &s->f.n2, "n2");
	while (ask(s, leader, &status, NULL) == STATUS_OK && status->nodes_to_report > 0)
		holdfast__v1__get_status_response__free_unpacked(status, NULL);
	epoch = status->epoch;
	holdfast__v1__get_status_response__free_unpacked(status, NULL);
	begin_marks(s);
	stop_all(s);
	copy_etcd(s, "d0", "early");
	etcd_world_start(s->etcd, 0);
	start_all(s);
	leader = await_leader(s, -1);
	follower = another(s, leader);
	fake_node_connect(&s->f.n1, "n1", BOOT_1, NULL, 0);
	assert_int_equal(run_alloc(&s->f, ALLOC_1, "n1", NULL), STATUS_OK);
	claim_db(s, &response);
	assert_int_equal(ask(s, leader, &status, NULL), STATUS_OK);
	WAIT_UNTIL((mark_read(in_folder(s, follower, "/holdfast.mark", path), &mark, NULL), mark.revision) >=
		   status->index);
	assert_int_equal(mark.epoch, epoch);
	assert_int_equal(mark.nodes, 2);
	assert_string_not_equal(mark.store_id, "");
	holdfast__v1__get_status_response__free_unpacked(status, NULL);
	stop_all(s);
	copy_etcd(s, "early", "d0");
	etcd_world_start(s->etcd, 0);
	start(s, follower); /* it has never led */
	assert_int_equal(await_leader(s, -1), follower);
	assert_true(has_said(s, follower, "holdfast.mark is of a later revision"));
	assert_int_equal(ask(s, follower, &status, NULL), STATUS_OK);
	assert_int_equal(status->epoch, epoch + 1);
	assert_true(status->index > mark.revision);
	holdfast__v1__get_status_response__free_unpacked(status, NULL);
	/* they are known by name, and the mark means them */
	expect_text(s, follower, "/metrics", " 200 ", "\nholdfast_nodes_missing 0\n");
	expect_nothing_granted(s);
}

static uint64_t epoch_at(struct servers *s, int i)
{
	cleanup_pb Holdfast__V1__GetStatusResponse *status = NULL;
	uint64_t epoch;

	assert_int_equal(ask(s, i, &status, NULL), STATUS_OK);
	epoch = status->epoch;
	return epoch;
}

static void await_reports(struct servers *s, int i)
{
	Holdfast__V1__GetStatusResponse *status = NULL;

	while (ask(s, i, &status, NULL) == STATUS_OK && status->nodes_to_report > 0)
		holdfast__v1__get_status_response__free_unpacked(status, NULL);
	holdfast__v1__get_status_response__free_unpacked(status, NULL);
}

/* For the time when etcd is put back to what it is now. */
static void save_marks(struct servers *s)
{
	char command[2 * PATH_MAX];

	(void)str_format(command, sizeof(command),
			 "for i in 0 1 2; do cp %s/s$i/holdfast.mark %s/s$i/early.mark; done", s->f.dir,
			 s->f.dir);
	assert_int_equal(run_shell(command), 0);
}

/* Volume db is n1's, in a time that etcd does not know any more: server @keeper alone has a mark of then, and
 * one has put back (@has_early_mark) or lost its own. */
static int forget_a_grant(struct servers *s, int *ret_keeper, bool has_early_mark)
{
	cleanup_pb Holdfast__V1__ClaimVolumeResponse *response = NULL;
	char command[2 * PATH_MAX], path[PATH_MAX];
	int leader = await_leader(s, -1);
	int other;
	uint64_t index;

	assert_int_equal(register_volume(&s->f, &s->f.operator, NULL), STATUS_OK);
	join(s, &s->f.n1, "n1");
	join(s, &s->f.n2, "n2");
	await_reports(s, leader);
	await_marks(s, leader);
	stop_all(s);
	copy_etcd(s, "d0", "early");
	save_marks(s);
	etcd_world_start(s->etcd, 0);
	start_all(s);
	leader = await_leader(s, -1);
	other = another(s, leader);
	fake_node_connect(&s->f.n1, "n1", BOOT_1, NULL, 0);
	assert_int_equal(run_alloc(&s->f, ALLOC_1, "n1", NULL), STATUS_OK);
	claim_db(s, &response);
	*ret_keeper = SERVERS - leader - other;
	index = index_at(s, leader);
	await_mark(s, *ret_keeper, index);
	stop_all(s);
	copy_etcd(s, "early", "d0");
	(void)str_format(command, sizeof(command), "cd %s && %s early.mark holdfast.mark",
			 in_folder(s, other, "", path), has_early_mark ? "mv" : "rm");
	assert_int_equal(run_shell(command), 0);
	etcd_world_start(s->etcd, 0);
	start(s, other);
	assert_int_equal(await_leader(s, -1), other);
	return other;
}

/* A machine that was put back as etcd was sees nothing; one that follows it does, and ends its lead before it
 * grants anything. */
CASE(a_follower_that_finds_etcd_behind_ends_the_lead_and_an_epoch_begins)
{
	const uint64_t limit = clock_monotonic_us() + PATIENCE_S * USEC_PER_SEC;
	int keeper;
	int leader = forget_a_grant(s, &keeper, true);
	uint64_t epoch = epoch_at(s, leader);

	assert_false(has_said(s, leader, "holdfast.mark is of a later revision"));
	start(s, keeper);
	await_log(s, keeper, "etcd is behind what this server has seen");
	for (int i = 0; !has_said(s, leader, "no longer leads"); i++) { /* it grants until it writes */
		char name[16];

		check_patience(s, limit);
		(void)str_format(name, sizeof(name), "v%d", i);
		(void)register_disk(&s->f, &s->f.operator, name, name, NULL);
	}
	(void)await_end(s, leader);
	leader = await_leader(s, -1);
	assert_int_equal(epoch_at(s, leader), epoch + 1);
	assert_true(has_said(s, leader, "the store has lost history"));
	expect_nothing_granted(s);
}

CASE(a_server_without_a_mark_begins_an_epoch_and_grants_nothing)
{
	int keeper;
	int leader = forget_a_grant(s, &keeper, false);

	assert_true(has_said(s, leader, "holdfast.mark is missing or damaged"));
	assert_true(has_said(s, leader, "the store has lost history"));
	expect_nothing_granted(s);
}

/* Nobody changes anything in a new cluster, whose leader is lost: nothing was lost with it. */
CASE(a_follower_begins_a_mark_while_nothing_is_changed)
{
	cleanup_pb Holdfast__V1__GetStatusResponse *before = NULL;
	cleanup_pb Holdfast__V1__GetStatusResponse *after = NULL;
	int leader = await_leader(s, -1);

	for (int i = 0; i < SERVERS; i++)
		await_mark(s, i, 1);
	assert_int_equal(ask(s, leader, &before, NULL), STATUS_OK);
	end(s, leader, SIGKILL);
	assert_int_equal(ask(s, await_leader(s, -1), &after, NULL), STATUS_OK);
	assert_int_equal(after->epoch, before->epoch);
}

CASE(an_etcd_that_was_wiped_grants_nothing)
{
	int leader = await_leader(s, -1);
	char command[PATH_MAX];
	int ended;

	take_db(s);
	stop_all(s);
	(void)str_format(command, sizeof(command), "rm -rf %s/d0", s->etcd->folder);
	assert_int_equal(run_shell(command), 0);
	etcd_world_start(s->etcd, 0);
	start(s, leader);
	ended = await_end(s, leader);
	assert_int_equal(WEXITSTATUS(ended), EXIT_CODE_SETTINGS);
	assert_true(has_said(s, leader, "there is no store in etcd"));
	assert_int_equal(run_option(s, leader, "--new-cluster"), 0);
	assert_true(has_said(s, leader, "nodes are missing"));
	start(s, leader);
	assert_int_equal(await_leader(s, -1), leader);
	assert_int_equal(register_volume(&s->f, &s->f.operator, NULL), STATUS_OK);
	expect_nothing_granted(s);
}

/* What only a node remembers: the machines of the servers were put back as etcd was. */
static void put_back_marks(struct servers *s)
{
	char command[2 * PATH_MAX];

	(void)str_format(command, sizeof(command),
			 "for i in 0 1 2; do mv %s/s$i/early.mark %s/s$i/holdfast.mark; done", s->f.dir,
			 s->f.dir);
	assert_int_equal(run_shell(command), 0);
}

CASE(a_nodes_mark_binds_the_next_leader)
{
	struct fixture *f = &s->f;
	Holdfast__V1__GetStatusResponse *status = NULL;
	cleanup_pb Holdfast__V1__Mark *mark = NULL;
	uint64_t epoch;
	int leader;

	leader = await_leader(s, -1);
	await_marks(s, leader);
	stop_all(s);
	copy_etcd(s, "d0", "early");
	save_marks(s);
	etcd_world_start(s->etcd, 0);
	start_all(s);
	leader = await_leader(s, -1);
	take_db(s);
	fake_node_disconnect(&f->n1);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0); /* its welcome has the newest mark */
	mark = mark_copy(f->n1.mark);
	assert_int_equal(ask(s, leader, &status, NULL), STATUS_OK);
	epoch = status->epoch;
	holdfast__v1__get_status_response__free_unpacked(status, NULL);
	stop_all(s);
	put_back_marks(s);
	copy_etcd(s, "early", "d0");
	etcd_world_start(s->etcd, 0);
	start_all(s);
	leader = await_leader(s, -1);
	f->n1.shows = mark;
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_false(f->n1.welcomed);
	assert_true(has_said(s, leader, "starting a new epoch"));
	await_log(s, leader, "the new epoch is decided");
	end(s, leader, SIGKILL);
	leader = await_leader(s, leader);
	assert_int_equal(ask(s, leader, &status, NULL), STATUS_OK);
	assert_true(status->epoch > epoch);
	holdfast__v1__get_status_response__free_unpacked(status, NULL);
}

/* --- moving the store --- */

static void remove_block(struct servers *s, int i)
{
	cleanup_free char *text = NULL;
	char path[PATH_MAX];

	assert_int_equal(file_read(in_folder(s, i, ".hcl", path), LOG_MAX, &text, NULL), 0);
	*strstr(text, "store \"etcd\"") = '\0';
	assert_int_equal(file_write_atomic(path, 0600, text, strlen(text)), 0);
}

static enum status advance(struct kv_rewrite *rewrite, void *userdata, struct error *err)
{
	kv_rewrite_advance(rewrite, *(uint64_t *)userdata);
	return STATUS_OK;
}

/* As if much more had been written to its database. */
static void raise_index(struct servers *s, int i, uint64_t index)
{
	cleanup(sd_event_unrefp) sd_event *event = NULL;
	struct kv *kv = NULL;
	char path[PATH_MAX];

	assert_int_equal(sd_event_new(&event), 0);
	assert_ok(kv_open_sqlite(event, in_folder(s, i, "/" SERVER_STORE, path), &kv, NULL));
	assert_int_equal(kv_rewrite(kv, advance, &index, NULL), STATUS_OK);
	kv_close(kv);
}

/* With @option and its value; returns the exit code. */
static int run_with(struct servers *s, int i, const char *option, const char *value)
{
	char config[PATH_MAX], log[PATH_MAX], command[4 * PATH_MAX];

	(void)str_format(command, sizeof(command), "%s --config %s %s %s >>%s 2>&1", SERVER_PROGRAM,
			 in_folder(s, i, ".hcl", config), option, value, in_folder(s, i, ".log", log));
	return run_shell(command);
}

static int run_migration(struct servers *s, int i, const char *where)
{
	return run_with(s, i, "--migrate", where);
}

/* A server that boots later would grant beside the one in whose sqlite the store is now. */
static void expect_retired(struct servers *s, int mover)
{
	int other = mover == 0 ? 1 : 0;
	char text[64];
	int ended;

	start(s, other);
	ended = await_end(s, other);
	assert_true(WIFEXITED(ended));
	assert_int_equal(WEXITSTATUS(ended), EXIT_CODE_SETTINGS);
	(void)str_format(text, sizeof(text), "was moved to the sqlite of server s%d", mover);
	assert_true(has_said(s, other, text));
	assert_true(has_said(s, other, "systemctl disable --now holdfast-server"));
	assert_int_equal(run_migration(s, other, "to-sqlite"), 1); /* it would be of then */
	assert_true(has_said(s, other, "the data in etcd is of that time"));
}

/* To the prefix from which it came: what is there was moved away. */
CASE(a_store_that_was_moved_to_sqlite_moves_back_to_its_prefix)
{
	int leader = await_leader(s, -1);

	take_db(s);
	drop_clients(s);
	for (int i = 0; i < SERVERS; i++)
		end(s, i, SIGTERM);
	assert_int_equal(run_migration(s, leader, "to-sqlite"), 0);
	assert_int_equal(run_migration(s, leader, "to-etcd"), 0);
	start_all(s);
	(void)await_leader(s, -1);
	expect_held(s);
}

CASE(a_store_moves_to_sqlite_and_back_with_all_that_is_in_it)
{
	Holdfast__V1__GetStatusResponse *before = NULL;
	cleanup_pb Holdfast__V1__GetStatusResponse *after = NULL;
	char path[PATH_MAX], command[2 * PATH_MAX];
	int leader = await_leader(s, -1);

	take_db(s);
	assert_int_equal(ask(s, leader, &before, NULL), STATUS_OK);
	assert_int_equal(run_migration(s, leader, "to-sqlite"), 1); /* they run */
	assert_true(has_said(s, leader, "stop holdfast-server on every machine"));
	drop_clients(s);
	for (int i = 0; i < SERVERS; i++)
		end(s, i, SIGTERM);
	assert_int_equal(run_migration(s, leader, "to-etcd"), 1); /* there is none */
	assert_int_equal(run_migration(s, leader, "to-sqlite"), 0);
	assert_true(has_said(s, leader, "read again there"));
	assert_int_equal(run_migration(s, leader, "to-sqlite"), 1);
	expect_retired(s, leader);
	(void)str_format(command, sizeof(command), "cp %s %s.kept", in_folder(s, leader, ".hcl", path), path);
	assert_int_equal(run_shell(command), 0);
	remove_block(s, leader);
	start(s, leader);
	assert_int_equal(await_leader(s, -1), leader);
	expect_held(s);
	assert_int_equal(ask(s, leader, &after, NULL), STATUS_OK);
	assert_int_equal(after->epoch, before->epoch);
	assert_true(after->index >= before->index);
	holdfast__v1__get_status_response__free_unpacked(before, NULL);
	before = after;
	drop_clients(s);
	end(s, leader, SIGKILL); /* with a log beside the database */
	raise_index(s, leader, HIGH_INDEX);
	(void)str_format(command, sizeof(command), "mv %s.kept %s", path, path);
	assert_int_equal(run_shell(command), 0);
	(void)str_format(command, sizeof(command),
			 "sed -i 's|name = |prefix = \"/another\"\\n  name = |' %s/s?.hcl", s->f.dir);
	assert_int_equal(run_shell(command), 0);
	assert_int_equal(run_migration(s, leader, "to-etcd"), 0);
	start_all(s);
	leader = await_leader(s, -1);
	expect_held(s);
	assert_int_equal(ask(s, leader, &after, NULL), STATUS_OK);
	assert_int_equal(after->epoch, before->epoch);
	assert_true(after->index > HIGH_INDEX); /* far above what this etcd counts */
	holdfast__v1__get_status_response__free_unpacked(before, NULL);
}

/* @from in the settings of server @i becomes @to. */
static void edit_config(struct servers *s, int i, const char *from, const char *to)
{
	char command[3 * PATH_MAX], path[PATH_MAX];

	(void)str_format(command, sizeof(command), "sed -i 's|%s|%s|' %s", from, to,
			 in_folder(s, i, ".hcl", path));
	assert_int_equal(run_shell(command), 0);
}

/* Ends all, and moves the store to the sqlite of one that led. */
static int move_to_sqlite(struct servers *s)
{
	char path[PATH_MAX], command[2 * PATH_MAX];
	int mover = await_leader(s, -1);

	drop_clients(s);
	for (int i = 0; i < SERVERS; i++)
		end(s, i, SIGTERM);
	assert_int_equal(run_migration(s, mover, "to-sqlite"), 0);
	(void)str_format(command, sizeof(command), "cp %s %s.kept", in_folder(s, mover, ".hcl", path), path);
	assert_int_equal(run_shell(command), 0);
	return mover;
}

static void start_on_sqlite(struct servers *s, int i)
{
	remove_block(s, i);
	start(s, i);
}

static void return_block(struct servers *s, int i)
{
	char path[PATH_MAX], command[2 * PATH_MAX];

	(void)str_format(command, sizeof(command), "cp %s.kept %s", in_folder(s, i, ".hcl", path), path);
	assert_int_equal(run_shell(command), 0);
}

/* Runs @command in the folder of server @i. */
static void run_in_folder(struct servers *s, int i, const char *command)
{
	char path[PATH_MAX], text[2 * PATH_MAX];

	(void)str_format(text, sizeof(text), "cd %s && %s", in_folder(s, i, "", path), command);
	assert_int_equal(run_shell(text), 0);
}

CASE(a_move_to_etcd_of_an_earlier_database_begins_an_epoch)
{
	cleanup_pb Holdfast__V1__ClaimVolumeResponse *response = NULL;
	Holdfast__V1__GetStatusResponse *status = NULL;
	struct fixture *f = &s->f;
	struct error err = {0};
	uint64_t epoch;
	int mover;

	(void)await_leader(s, -1);
	assert_succeeds(register_volume(f, &f->operator, & err), err);
	join(s, &f->n1, "n1");
	join(s, &f->n2, "n2");
	begin_marks(s);
	mover = move_to_sqlite(s);
	run_in_folder(s, mover, "cp holdfast.db early.db");
	start_on_sqlite(s, mover);
	(void)await_leader(s, -1);
	fake_node_connect(&f->n1, "n1", BOOT_1, NULL, 0);
	assert_int_equal(run_alloc(f, ALLOC_1, "n1", NULL), STATUS_OK);
	claim_db(s, &response);
	assert_int_equal(ask(s, mover, &status, NULL), STATUS_OK);
	epoch = status->epoch;
	holdfast__v1__get_status_response__free_unpacked(status, NULL);
	drop_clients(s);
	end(s, mover, SIGTERM);
	run_in_folder(s, mover, "mv early.db holdfast.db");
	return_block(s, mover);
	assert_int_equal(run_migration(s, mover, "to-etcd"), 0);
	start(s, mover);
	(void)await_leader(s, -1);
	assert_int_equal(ask(s, mover, &status, NULL), STATUS_OK);
	assert_int_equal(status->epoch, epoch + 1);
	holdfast__v1__get_status_response__free_unpacked(status, NULL);
	join(s, &f->n2, "n2"); /* n1 writes, and does not report */
	assert_int_equal(run_alloc(f, ALLOC_2, "n2", NULL), STATUS_OK);
	assert_error(fake_node_claim(&f->n2, "db", ALLOC_2, NULL, &err), STATUS_UNAVAILABLE, err, "n1");
}

CASE(an_interrupted_move_to_etcd_keeps_the_database_closed_until_it_ends)
{
	int mover, other, ended;

	(void)await_leader(s, -1);
	take_db(s);
	mover = move_to_sqlite(s);
	other = mover == 0 ? 1 : 0;
	run_in_folder(s, mover, "mkdir holdfast.db.migrated"); /* it ends before its last step */
	assert_int_equal(run_migration(s, mover, "to-etcd"), 1);
	start_on_sqlite(s, mover);
	ended = await_end(s, mover);
	assert_true(WIFEXITED(ended));
	assert_int_equal(WEXITSTATUS(ended), EXIT_CODE_SETTINGS);
	assert_true(has_said(s, mover, "may be in etcd already"));
	return_block(s, mover);
	assert_int_equal(run_migration(s, mover, "to-sqlite"), 1);
	start(s, other);
	assert_int_equal(await_leader(s, -1), other);
	assert_int_equal(register_disk(&s->f, &s->f.operator, "later", "later", NULL), STATUS_OK);
	drop_clients(s);
	end(s, other, SIGTERM);
	run_in_folder(s, mover, "rmdir holdfast.db.migrated");
	assert_int_equal(run_migration(s, mover, "to-etcd"), 0);
	run_in_folder(s, mover, "test -e holdfast.db.migrated -a ! -e holdfast.db -a ! -e restore.pending");
	start_all(s);
	(void)await_leader(s, -1);
	expect_held(s);
	assert_int_not_equal(register_disk(&s->f, &s->f.operator, "later", "another", NULL), STATUS_OK);
}

/* Before or after the two steps between which the copy and the database are both there. */
CASE(a_move_to_etcd_ends_where_it_was_interrupted)
{
	int mover;

	(void)await_leader(s, -1);
	take_db(s);
	mover = move_to_sqlite(s);
	run_in_folder(s, mover, "echo to-etcd /holdfast/c1 >restore.pending");
	assert_int_equal(run_migration(s, mover, "to-etcd"), 0);
	run_in_folder(s, mover, "test ! -e restore.pending && echo to-etcd /holdfast/c1 >restore.pending");
	assert_int_equal(run_migration(s, mover, "to-sqlite"), 0);
	run_in_folder(s, mover, "test ! -e restore.pending");
	assert_int_equal(run_migration(s, mover, "to-etcd"), 0);
	start_all(s);
	(void)await_leader(s, -1);
	expect_held(s);
}

CASE(an_interrupted_move_ends_in_no_other_store)
{
	int mover = move_to_sqlite(s);

	run_in_folder(s, mover, "echo to-etcd /holdfast/c1 >restore.pending");
	edit_config(s, mover, "name = ", "prefix = \"/another\"\\n  name = ");
	assert_int_equal(run_migration(s, mover, "to-etcd"), 1);
	assert_true(has_said(s, mover, "with the settings of the move"));
	run_in_folder(s, mover, "mv holdfast.db kept.db");
	assert_int_equal(run_option(s, mover, "--new-cluster"), 0);
	run_in_folder(s, mover, "mv kept.db holdfast.db && echo to-etcd /another >restore.pending");
	assert_int_equal(run_migration(s, mover, "to-etcd"), 1);
	assert_true(has_said(s, mover, "there is a store in etcd"));
	run_in_folder(s, mover, "test -e holdfast.db");
}

CASE(only_the_server_that_has_the_store_moves_it_back)
{
	int mover, other;
	char command[2 * PATH_MAX];

	(void)await_leader(s, -1);
	begin_marks(s);
	mover = move_to_sqlite(s);
	other = mover == 0 ? 1 : 0;
	(void)str_format(command, sizeof(command), "cp holdfast.db ../s%d", other);
	run_in_folder(s, mover, command);
	assert_int_equal(run_migration(s, other, "to-etcd"), 1);
	(void)str_format(command, sizeof(command), "was moved to the sqlite of server s%d", mover);
	assert_true(has_said(s, other, command));
}

/* --- moves that take longer than the lease --- */

static struct {
	unsigned int seal_s; /* each sleeps for so long */
	unsigned int check_s;
	unsigned int n_puts;	   /* each of 700 ms */
	struct servers *meanwhile; /* runs a server that writes before the copy is sealed */
} slow;

static void write_meanwhile(struct servers *s)
{
	start(s, 1);
	assert_int_equal(await_leader(s, -1), 1);
	assert_int_equal(register_disk(&s->f, &s->f.operator, "later", "later", NULL), STATUS_OK);
	drop_clients(s);
	end(s, 1, SIGTERM);
}

enum status __real_kv_seal_copy(const char *path, struct error *err);
enum status __wrap_kv_seal_copy(const char *path, struct error *err);
enum status __wrap_kv_seal_copy(const char *path, struct error *err)
{
	(void)sleep(slow.seal_s);
	if (slow.meanwhile)
		write_meanwhile(slow.meanwhile);
	return __real_kv_seal_copy(path, err);
}

enum status __real_kv_sqlite_check_whole(struct sqlite3 *db, const char *path, struct error *err);
enum status __wrap_kv_sqlite_check_whole(struct sqlite3 *db, const char *path, struct error *err);
enum status __wrap_kv_sqlite_check_whole(struct sqlite3 *db, const char *path, struct error *err)
{
	(void)sleep(slow.check_s);
	return __real_kv_sqlite_check_whole(db, path, err);
}

enum status __real_kv_rewrite_put(struct kv_rewrite *rewrite, const struct kv_op *op, struct error *err);
enum status __wrap_kv_rewrite_put(struct kv_rewrite *rewrite, const struct kv_op *op, struct error *err);
enum status __wrap_kv_rewrite_put(struct kv_rewrite *rewrite, const struct kv_op *op, struct error *err)
{
	if (op->value && slow.n_puts > 0) {
		slow.n_puts--;
		(void)usleep(700000);
	}
	return __real_kv_rewrite_put(rewrite, op, err);
}

/* In this process. */
static enum status migrate_here(struct servers *s, int i, bool to_etcd, struct error *err)
{
	struct etcd_copy_result result;
	static struct config config;
	char path[PATH_MAX];
	enum status status;

	assert_int_equal(config_load(in_folder(s, i, ".hcl", path), &config, NULL), STATUS_OK);
	status = to_etcd ? migrate_to_etcd(&config, &result, err) : migrate_to_sqlite(&config, &result, err);
	memset(&slow, 0, sizeof(slow));
	return status;
}

CASE(moves_outlast_the_lease)
{
	struct error err = {0};
	int leader = await_leader(s, -1);

	take_db(s);
	drop_clients(s);
	for (int i = 0; i < SERVERS; i++)
		end(s, i, SIGTERM);
	slow.seal_s = 2 * SERVER_LEASE_S;
	assert_succeeds(migrate_here(s, leader, false, &err), err);
	slow.check_s = 2 * SERVER_LEASE_S;
	slow.n_puts = 4 * SERVER_LEASE_S;
	assert_succeeds(migrate_here(s, leader, true, &err), err);
	start_all(s);
	(void)await_leader(s, -1);
	expect_held(s);
}

CASE(a_store_that_is_written_while_it_is_copied_is_not_moved)
{
	struct error err = {0};

	(void)await_leader(s, -1);
	drop_clients(s);
	for (int i = 0; i < SERVERS; i++)
		end(s, i, SIGTERM);
	slow.meanwhile = s;
	assert_error(migrate_here(s, 0, false, &err), STATUS_FAILED_PRECONDITION, err,
		     "a server wrote to the store in etcd");
	start_all(s);
	(void)await_leader(s, -1);
}

enum { UNKNOWN_CLAIMS = 20000 };

/* Each would be a read of etcd: seconds, in which the leader answers nothing. */
CASE(a_hello_with_thousands_of_unknown_claims_costs_few_reads)
{
	static char ids[UNKNOWN_CLAIMS][UUID_TEXT_SIZE];
	static Holdfast__V1__MountedClaim claims[UNKNOWN_CLAIMS], *list[UNKNOWN_CLAIMS];
	struct fixture *f = &s->f;
	Holdfast__V1__SessionHello hello =
		V1(session_hello, .node_id = "n1", .mounted = list, .n_mounted = UNKNOWN_CLAIMS);
	Holdfast__V1__SessionUp up = V1(session_up, .hello = &hello);

	(void)await_leader(s, -1);
	join(s, &f->n1, "n1");
	fake_node_disconnect(&f->n1);
	for (int i = 0; i < UNKNOWN_CLAIMS; i++) {
		(void)str_format(ids[i], UUID_TEXT_SIZE, "018%05d-0003-7000-" ID_MARK, i);
		holdfast__v1__mounted_claim__init(&claims[i]);
		claims[i].claim_id = ids[i];
		list[i] = &claims[i];
	}
	fake_node_open(&f->n1, "n1", BOOT_1);
	hello.boot_id = f->n1.boot_id;
	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_HELLO;
	fake_node_send(&f->n1, &up);
	UNTIL(f, f->n1.welcomed || f->n1.closed);
	run_for(f->event, 500);
	assert_false(f->n1.closed); /* its searches would have cost more than a second */
}

/* n1's claim is freed though it may have the volume mounted. */
static void give_up_n1(struct servers *s)
{
	Holdfast__V1__VolumeRef volume = V1(volume_ref, .id = "db");
	Holdfast__V1__VolumeRef *volumes[] = {&volume};
	Holdfast__V1__AttestNodeRequest request = V1(attest_node_request, .id = "n1", .reason = "it is off",
						     .volumes = volumes, .n_volumes = 1);
	struct error err = {0};

	fake_node_disconnect(&s->f.n1);
	assert_succeeds(stop_alloc(&s->f, ALLOC_1, &err), err);
	assert_succeeds(
		call(&s->f.operator, & holdfast__v1__nodes__descriptor, "Attest", &request.base, NULL, &err),
		err);
}

/* Returns the index of db. */
static uint64_t expect_freed_claim_shown(struct servers *s)
{
	Holdfast__V1__GetVolumeRequest request = V1(get_volume_request, .id = "db");
	cleanup_pb ProtobufCMessage *response = NULL;
	Holdfast__V1__Volume *db;

	assert_ok(call(&s->f.operator, & holdfast__v1__volumes__descriptor, "Get", &request.base, &response,
		       NULL));
	db = ((Holdfast__V1__GetVolumeResponse *)response)->volume;
	assert_int_equal(db->n_claims, 1);
	assert_string_equal(db->claims[0]->id, s->held.id);
	return db->modify_index;
}

CASE(a_move_to_sqlite_raises_every_index_and_keeps_the_history_of_claims)
{
	int leader = await_leader(s, -1);

	take_db(s);
	give_up_n1(s);
	drop_clients(s);
	for (int i = 0; i < SERVERS; i++)
		end(s, i, SIGTERM);
	assert_int_equal(run_migration(s, leader, "to-sqlite"), 0);
	raise_index(s, leader, HIGH_INDEX);
	assert_int_equal(run_migration(s, leader, "to-etcd"), 0);
	assert_int_equal(run_migration(s, leader, "to-sqlite"), 0);
	remove_block(s, leader);
	start(s, leader);
	assert_int_equal(await_leader(s, -1), leader);
	assert_true(expect_freed_claim_shown(s) > HIGH_INDEX);
	s->f.n1.has = &s->held;
	fake_node_connect(&s->f.n1, "n1", BOOT_1, NULL, 0);
	await_log(s, leader, "held twice: node n1 has volume db mounted");
}

static void back_up(struct servers *s, int leader, char ret[static PATH_MAX])
{
	Holdfast__V1__BeginBackupRequest request = HOLDFAST__V1__BEGIN_BACKUP_REQUEST__INIT;
	Holdfast__V1__BeginBackupResponse *backup;
	cleanup_pb ProtobufCMessage *response = NULL;
	char command[3 * PATH_MAX], file[PATH_MAX];
	struct error err = {0};

	assert_succeeds(call(&s->f.operator, & holdfast__v1__operator__descriptor, "BeginBackup",
			     &request.base, &response, &err),
			err);
	backup = (Holdfast__V1__BeginBackupResponse *)response;
	(void)str_format(file, sizeof(file), "/backup/%s.db", backup->id);
	(void)str_format(ret, PATH_MAX, "%s/copy.db", s->f.dir);
	(void)str_format(command, sizeof(command), "cp %s/s%d%s %s", s->f.dir, leader, file, ret);
	assert_int_equal(run_shell(command), 0);
}

/* Through a server that follows. */
static void expect_kit(struct servers *s, int follower)
{
	static const char passphrase[] = "correct horse battery staple";
	char path[PATH_MAX], command[2 * PATH_MAX];

	(void)str_format(path, sizeof(path), "%s/passphrase", s->f.dir);
	assert_int_equal(file_write_atomic(path, 0600, passphrase, strlen(passphrase)), 0);
	(void)str_format(command, sizeof(command), "operator backup --kit --passphrase-file %s %s/kit", path,
			 s->f.dir);
	assert_int_equal(run_cli(s, follower, command), 0);
	(void)str_format(command, sizeof(command), "operator backup verify --passphrase-file %s %s/kit", path,
			 s->f.dir);
	assert_int_equal(run_cli(s, follower, command), 0);
	assert_true(cli_printed(s, "every record is unchanged"));
}

CASE(backups_are_made_online_and_restored_offline)
{
	Holdfast__V1__BeginRestoreRequest online = V1(begin_restore_request, .size_bytes = 1 << 20);
	cleanup_pb Holdfast__V1__GetStatusResponse *before = NULL;
	cleanup_pb Holdfast__V1__GetStatusResponse *after = NULL;
	int leader = await_leader(s, -1);
	uint8_t digest[32] = {0};
	char copy[PATH_MAX];
	struct error err;

	assert_int_equal(register_volume(&s->f, &s->f.operator, NULL), STATUS_OK);
	back_up(s, leader, copy);
	expect_kit(s, another(s, leader));
	assert_int_equal(ask(s, leader, &before, NULL), STATUS_OK);
	online.sha256 = (ProtobufCBinaryData){.len = sizeof(digest), .data = digest};
	assert_error(call(&s->f.operator, & holdfast__v1__operator__descriptor, "BeginRestore", &online.base,
			  NULL, &err),
		     STATUS_FAILED_PRECONDITION, err, "the store is in etcd");
	assert_int_equal(run_with(s, leader, "--restore", copy), 1);
	drop_clients(s);
	for (int i = 0; i < SERVERS; i++)
		end(s, i, SIGTERM);
	assert_int_equal(run_with(s, leader, "--restore", copy), 0);
	start_all(s);
	leader = await_leader(s, -1);
	assert_int_equal(ask(s, leader, &after, NULL), STATUS_OK);
	assert_int_equal(after->epoch, before->epoch + 1);
	assert_int_equal(after->volumes, 1);
	assert_true(after->index > before->index);
}

/* --- troubles --- */

static void give_other_key(struct servers *s, int i)
{
	char path[PATH_MAX];

	(void)str_format(path, sizeof(path), "%s/other.key", s->f.dir);
	assert_int_equal(ticket_key_make(path, NULL), STATUS_OK);
	edit_config(s, i, "/ticket.key", "/other.key");
}

static void await_text(struct servers *s, int i, const char *target, const char *text)
{
	WAIT_UNTIL(strstr(get_text(s, i, target), text));
}

TEST_ON(a_server_with_another_ticket_key_follows_says_so_and_never_leads, struct servers, s, setup_one,
	teardown_servers)
{
	struct error err;

	give_other_key(s, 1);
	assert_int_equal(run_option(s, 0, "--new-cluster"), 0);
	start(s, 0);
	assert_int_equal(await_leader(s, -1), 0);
	start(s, 1);
	await_log(s, 1, "other_key: this server, s1, has another ticket key than the cluster");
	expect_text(s, 1, "/readyz", " 200 ", "\nfollows s0");
	expect_text(s, 1, "/readyz", " 200 ", "\nother_key: this server, s1,");
	expect_text(s, 1, "/metrics", " 200 ", "\nholdfast_store_trouble{kind=\"other_key\"} 1\n");
	drop_clients(s);
	end(s, 0, SIGKILL);
	await_text(s, 1, "/readyz", "other_key: ");
	await_text(s, 1, "/readyz", " 503 ");
	assert_error(ask(s, 1, NULL, &err), STATUS_UNAVAILABLE, err, "holdfast-server --replace-ticket-key");
	assert_int_equal(run_option(s, 1, "--replace-ticket-key"), 0);
	assert_int_equal(await_leader(s, -1), 1);
	start(s, 0);
	await_log(s, 0, "other_key: this server, s0,");
}

static enum status register_within(struct servers *s, const char *name, uint64_t us, struct error *err)
{
	Holdfast__V1__Volume volume = HOLDFAST__V1__VOLUME__INIT;
	Holdfast__V1__RegisterVolumeRequest request = V1(register_volume_request, .volume = &volume);
	Holdfast__V1__Capability capability = HOLDFAST__V1__CAPABILITY__INIT;
	Holdfast__V1__Capability *capabilities[] = {&capability};
	ProtobufCMessage *response = NULL;
	enum status status;
	char id[32];
	Holdfast__V1__Source source = V1(source, .class_ = HOLDFAST__V1__SOURCE_CLASS__BLOCK, .by_id = id);

	(void)str_copy(id, sizeof(id), name);
	capability.access_mode = s->f.access_mode;
	capability.attachment_mode = HOLDFAST__V1__ATTACHMENT_MODE__FILE_SYSTEM;
	volume.id = id;
	volume.type = HOLDFAST__V1__VOLUME_TYPE__NATIVE;
	volume.profile = "disk";
	volume.source = &source;
	volume.requested_capabilities = capabilities;
	volume.n_requested_capabilities = 1;
	status = rpc_client_call_sync(s->f.operator.client, &holdfast__v1__volumes__descriptor, "Register",
				      &request.base, us, &response, err);
	if (response)
		protobuf_c_message_free_unpacked(response, NULL);
	return status;
}

/* As a full disk of sqlite's: reads go on at every server, the lead stays, and nothing that waits is lost. */
CASE(a_full_etcd_refuses_changes_and_answers_reads)
{
	int leader = await_leader(s, -1);
	int follower = another(s, leader);
	struct error err;

	await_log(s, follower, "this server follows");
	assert_int_equal(register_within(s, "before", TIMEOUT_US, NULL), STATUS_OK);
	etcd_world_alarm(s->etcd->urls[0], true);
	assert_error(register_within(s, "waits", 3 * USEC_PER_SEC, &err), STATUS_DEADLINE_EXCEEDED, err,
		     "etcd is full (its alarm NOSPACE is on)");
	assert_error(register_within(s, "refused", 3 * USEC_PER_SEC, &err), STATUS_UNAVAILABLE, err,
		     "etcdctl alarm disarm");
	expect_text(s, leader, "/readyz", " 503 ", "no_space: etcd is full");
	expect_text(s, leader, "/metrics", " 200 ", "\nholdfast_store_trouble{kind=\"no_space\"} 1\n");
	expect_text(s, leader, "/v1/volume/csi/before", " 200 ", "before");
	expect_text(s, follower, "/v1/volume/csi/before", " 200 ", "before");
	(void)sleep(3 * SERVER_LEASE_S);
	expect_text(s, leader, "/metrics", " 200 ", "\nholdfast_leads 1\n");
	etcd_world_alarm(s->etcd->urls[0], false);
	await_text(s, leader, "/readyz", "\nleads\n");
	expect_text(s, follower, "/v1/volume/csi/waits", " 200 ", "waits");
	expect_text(s, follower, "/v1/volume/csi/refused", " 404 ", "refused");
	assert_int_equal(register_within(s, "refused", TIMEOUT_US, NULL), STATUS_OK);
}

/* Who has no leader says why, and what it knows of the others. */
TEST_ON(members_and_the_trouble_are_shown_without_a_leader, struct servers, s, setup_members,
	teardown_servers)
{
	int leader = await_leader(s, -1);
	int follower = another(s, leader);
	Holdfast__V1__ListMembersResponse *members;

	await_log(s, follower, "this server follows");
	drop_clients(s);
	etcd_world_kill(s->etcd, 1);
	etcd_world_kill(s->etcd, 2);
	end(s, leader, SIGKILL);
	await_text(s, follower, "/readyz", "no_quorum: etcd has no quorum");
	expect_text(s, follower, "/metrics", " 200 ", "\nholdfast_store_trouble{kind=\"no_quorum\"} 1\n");
	assert_true(has_said(s, follower, "no_quorum: "));
	members = list_members(s, follower);
	assert_int_equal(members->n_etcd, 3);
	assert_true(members->etcd[0]->reachable);
	assert_false(members->etcd[1]->reachable);
	assert_true(str_starts_with(members->trouble, "no_quorum: "));
	holdfast__v1__list_members_response__free_unpacked(members, NULL);
	etcd_world_kill(s->etcd, 0);
	await_text(s, follower, "/readyz", "no_answer: etcd does not answer");
	for (size_t i = 0; i < 3; i++)
		etcd_world_start(s->etcd, i);
	(void)await_leader(s, -1);
	members = list_members(s, s->leader);
	assert_string_equal(members->trouble, "");
	holdfast__v1__list_members_response__free_unpacked(members, NULL);
}

/* Streams of commands, too, go on to the next server when one answers that it cannot serve. */
static void expect_watch_moves_on(struct servers *s, int first)
{
	pid_t pid = fork();
	int n = 0;

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(run_cli(s, first, "operator watch --timeout 45s"));
	make_clients(s, 0);
	for (; !cli_printed(s, "volume"); n++) {
		char name[16];

		assert_true(n < PATIENCE_S);
		assert_int_equal(waitpid(pid, NULL, WNOHANG), 0);
		(void)str_format(name, sizeof(name), "m%d", n);
		assert_int_equal(register_within(s, name, TIMEOUT_US, NULL), STATUS_OK);
		run_for(s->f.event, 1000);
	}
	(void)kill(pid, SIGKILL);
	(void)waitpid(pid, NULL, 0);
}

static int setup_tls(void **state)
{
	struct servers *s;

	assert_int_equal(setup_of(state, 1), 0);
	s = *state;
	etcd_world_free(s->etcd);
	s->etcd = etcd_world_new_tls();
	return 0;
}

/* Its certificate is of a CA that etcd does not know. */
TEST_ON(a_certificate_that_etcd_refuses_is_a_trouble_of_its_own, struct servers, s, setup_tls,
	teardown_servers)
{
	char block[512];

	(void)str_format(
		block, sizeof(block),
		"endpoints = [\"%s\"]\\n  ca = \"%s/ca.crt\"\\n  certificate = \"%s/other.crt\"\\n  key = "
		"\"%s/other.key\"",
		s->etcd->urls[0], s->etcd->folder, s->etcd->folder, s->etcd->folder);
	edit_config(s, 0, "endpoints = .*", block);
	start(s, 0);
	await_log(s, 0, "certificate: TLS between this server and etcd fails");
	expect_text(s, 0, "/readyz", " 503 ", "certificate: TLS between this server and etcd fails");
	expect_text(s, 0, "/metrics", " 200 ", "\nholdfast_store_trouble{kind=\"certificate\"} 1\n");
}

/* A copy of a machine that is started by mistake: it takes the other one for its own past. */
TEST_ON(a_copy_of_a_server_says_that_another_has_its_name_and_address, struct servers, s, setup_one,
	teardown_servers)
{
	char advertise[128];
	struct error err;

	assert_int_equal(run_option(s, 0, "--new-cluster"), 0);
	start(s, 0);
	assert_int_equal(await_leader(s, -1), 0);
	(void)str_format(advertise, sizeof(advertise), "name = \"s0\"\\n  advertise = \"127.0.0.1:%u\"",
			 (unsigned int)s->ports[0]);
	edit_config(s, 1, "name = \"s1\"", advertise);
	start(s, 1);
	await_log(s, 1, "same_name: another server with the name and the address of this one, s0, leads");
	assert_error(ask(s, 1, NULL, &err), STATUS_UNAVAILABLE, err, "stop one of the two");
	assert_int_equal(ask(s, 0, NULL, NULL), STATUS_OK);
	expect_watch_moves_on(s, 1);
}

/* An old etcd may extend a lease that it has ended elsewhere: a grant that is repeated is confirmed by it. */
TEST_ON(a_repeated_grant_waits_for_etcd_to_confirm_the_lead, struct servers, s, setup_patient,
	teardown_servers)
{
	int answered = -1;

	(void)await_leader(s, -1);
	take_db(s);
	stop_process(s->etcd->pids[0]);
	fake_node_start_claim(&s->f.n1, "db", ALLOC_1, on_late, &answered);
	run_for(s->f.event, 1500);
	assert_int_equal(answered, -1);
	assert_int_equal(kill(s->etcd->pids[0], SIGCONT), 0);
	UNTIL(&s->f, answered >= 0);
	assert_int_equal(answered, STATUS_OK);
}

enum { READS_MAX = 20 };

/* Allocations.Get always answers with the live claim. Good until the next one. */
static const char *history_error(struct fake_node *operator)
{
	Holdfast__V1__GetAllocationRequest request = V1(get_allocation_request, .id = ALLOC_1);
	const Holdfast__V1__GetAllocationResponse *response;
	cleanup_pb ProtobufCMessage *message = NULL;
	static char text[512];

	assert_ok(call(operator, & holdfast__v1__allocations__descriptor, "Get", &request.base, &message,
		       NULL));
	response = (const Holdfast__V1__GetAllocationResponse *)message;
	assert_int_equal(response->n_claims, 1);
	(void)str_format(text, sizeof(text), "%s", response->history_error);
	return text;
}

/* History is read from etcd, and nothing else is done meanwhile. */
TEST_ON(a_caller_cannot_keep_the_server_from_others_while_etcd_is_silent, struct servers, s, setup_patient,
	teardown_servers)
{
	Holdfast__V1__GetVolumeRequest of_volume = V1(get_volume_request, .id = "db");
	const Holdfast__V1__Volume *volume = NULL;
	cleanup_pb ProtobufCMessage *message = NULL;
	struct fake_node *operator= & s->f.operator;

	(void)await_leader(s, -1);
	take_db(s);
	assert_string_equal(history_error(operator), "");
	stop_process(s->etcd->pids[0]);
	assert_contains(history_error(operator), "etcd does not answer in time");
	for (int i = 0; i < READS_MAX && !strstr(history_error(operator), "ask again in a second"); i++)
		assert_true(i < READS_MAX - 1);
	for (int i = 0; i < READS_MAX && !volume; i++) { /* that second may be over */
		assert_ok(call(operator, & holdfast__v1__volumes__descriptor, "Get", &of_volume.base,
			       &message, NULL));
		volume = ((Holdfast__V1__GetVolumeResponse *)message)->volume;
		assert_int_equal(volume->n_claims, 1);
		if (strstr(volume->history_error, "ask again in a second"))
			break;
		volume = NULL;
		protobuf_c_message_free_unpacked(message, NULL);
		message = NULL;
	}
	assert_non_null(volume);
	assert_int_equal(kill(s->etcd->pids[0], SIGCONT), 0);
}

/* A node in another boot is looked for in history. */
TEST_ON(a_read_that_etcd_does_not_answer_is_given_up_by_the_server, struct servers, s, setup_patient,
	teardown_servers)
{
	Holdfast__V1__ListAuditRequest request = HOLDFAST__V1__LIST_AUDIT_REQUEST__INIT;
	cleanup_pb ProtobufCMessage *message = NULL;
	struct fake_node *n2 = &s->f.n2;
	struct error err = {0};

	(void)await_leader(s, -1);
	take_db(s);
	fake_node_disconnect(n2);
	stop_process(s->etcd->pids[0]);
	fake_node_connect(n2, "n2", BOOT_2, NULL, 0);
	assert_int_equal(n2->closed_status, STATUS_UNAVAILABLE);
	assert_contains(n2->closed_message, "etcd does not answer in time");
	assert_error(call(&s->f.operator, & holdfast__v1__operator__descriptor, "ListAudit", &request.base,
			  &message, &err),
		     STATUS_UNAVAILABLE, err, "etcd does not answer in time");
	assert_int_equal(kill(s->etcd->pids[0], SIGCONT), 0);
	WAIT_UNTIL((fake_node_connect(n2, "n2", BOOT_2, NULL, 0), n2->welcomed));
}

static int setup_one_with_tokens(void **state)
{
	return setup_leased(state, 1, true, LONG_LEASE_S);
}

/* A follower keeps a copy of the tokens, which it reads at once. It cannot refuse one before it has the whole
 * copy. */
TEST_ON(a_server_that_has_not_read_the_tokens_yet_refuses_no_token, struct servers, s, setup_one_with_tokens,
	teardown_servers)
{
	const struct http_request request = {
		.method = "GET", .target = "/metrics", .token = "01890000-0000-4000-8000-0000000000ff"};
	struct http_request known = request;
	struct secrets secrets;
	const char *answer;

	assert_int_equal(run_option(s, 0, "--new-cluster"), 0);
	start(s, 0);
	assert_int_equal(await_leader(s, -1), 0);
	make_secrets(s, 0, &secrets);
	known.token = secrets.of[WHO_READER];
	start(s, 1);
	name_server(s, 1);
	await_log(s, 1, "listening on");
	while (strstr(answer = http_send(&s->f, &known), " 503 "))
		run_for(s->f.event, 1);
	assert_msg(strstr(answer, " 200 "), "%s", answer);
	answer = http_send(&s->f, &request);
	assert_msg(strstr(answer, " 503 ") && strstr(answer, "does not know any token yet"), "%s", answer);
	WAIT_UNTIL(strstr(http_send(&s->f, &request), " 401 "));
	free_secrets(&secrets);
}

/* --- hiccups --- */

enum party { ETCD_0, ETCD_1, ETCD_2, LEADER, FOLLOWER, ETCD, AGENTS, NOBODY };

/* What stops: a process, or all that one party sends to another. */
static const struct stop {
	const char *name;
	enum party from, to; /* to NOBODY: the process */
} stops[] = {
	{"etcd-0", ETCD_0, NOBODY},
	{"etcd-1", ETCD_1, NOBODY},
	{"etcd-2", ETCD_2, NOBODY},
	{"leader", LEADER, NOBODY},
	{"follower", FOLLOWER, NOBODY},
	{"leader to etcd", LEADER, ETCD},
	{"etcd to leader", ETCD, LEADER},
	{"follower to etcd", FOLLOWER, ETCD},
	{"etcd to follower", ETCD, FOLLOWER},
	{"follower to leader", FOLLOWER, LEADER},
	{"leader to follower", LEADER, FOLLOWER},
	{"agents to leader", AGENTS, LEADER},
	{"leader to agents", LEADER, AGENTS},
	{"agents to follower", AGENTS, FOLLOWER},
	{"follower to agents", FOLLOWER, AGENTS},
};

enum {
	STOPS = ARRAY_SIZE(stops),
	PROCESSES = 5,		       /* the first ones, which need no hosts */
	HICCUPS = STOPS * (STOPS - 1), /* every two, in both orders */
	HICCUP_LEASE_S = 3,
	HICCUP_DEFAULT = 6,
	HICCUP_SPARE_S = 2,  /* beyond the lease, of a machine that has nothing else to do */
	HICCUP_GRACE_S = 60, /* of a busy one: it ends */
	HEARTBEAT_MS = 1000,
	CONNECT_S = 10, /* as an agent's */
};

static const unsigned int tenths_of_lease[] = {2, 5, 10, 20, 30};

/* The first of a pair stops, then the second one. */
struct hiccup {
	const struct stop *stop[2];
	unsigned int tenths[2]; /* of a lease */
	char name[96];
};

static struct hiccup hiccup_of(int number, int n_stops)
{
	const int pair = number % (n_stops * (n_stops - 1));
	const int second = pair % (n_stops - 1);
	struct hiccup h = {.stop = {&stops[pair / (n_stops - 1)]}};

	h.stop[1] = &stops[second + (second >= pair / (n_stops - 1))];
	h.tenths[0] = tenths_of_lease[number % (int)ARRAY_SIZE(tenths_of_lease)];
	h.tenths[1] = tenths_of_lease[(number / (int)ARRAY_SIZE(tenths_of_lease) + 2 * number + 1) %
				      (int)ARRAY_SIZE(tenths_of_lease)];
	(void)str_format(h.name, sizeof(h.name), "%s for %u.%u leases, then %s for %u.%u", h.stop[0]->name,
			 h.tenths[0] / 10, h.tenths[0] % 10, h.stop[1]->name, h.tenths[1] / 10,
			 h.tenths[1] % 10);
	return h;
}

/* A node's session, which goes on to the next server as an agent's does. */
struct keeper {
	struct fake_node *node;
	const char *id;
	struct backoff backoff;
	uint64_t opened_us;
	uint64_t retry_us; /* 0: no retry is due */
	uint64_t beat_us;
	uint64_t down_us; /* 0: it is up */
	unsigned int n_lost;
};

struct hiccups {
	struct servers *s;
	struct keeper keepers[2];
	int leader;
	uint64_t healed_us;  /* 0: not yet */
	uint64_t session_us; /* the longest that a session was lost after that */
	int answered;	     /* the status of a repeated claim; -1: no answer yet */
};

static void begin_session(struct keeper *k)
{
	k->retry_us = 0;
	k->opened_us = k->beat_us = clock_monotonic_us();
	fake_node_greet(k->node, k->id, BOOT_1, NULL, 0);
}

static void lose_session(struct keeper *k, bool was_up)
{
	if (k->down_us == 0) {
		k->down_us = clock_monotonic_us();
		k->n_lost++;
	}
	if (!was_up)
		rpc_client_move_on(k->node->client);
	k->retry_us = clock_monotonic_us() + backoff_next(&k->backoff, backoff_random());
}

static void end_gap(struct hiccups *h, struct keeper *k)
{
	const uint64_t now_us = clock_monotonic_us();
	const uint64_t from_us = k->down_us > h->healed_us ? k->down_us : h->healed_us;

	if (k->down_us > 0 && h->healed_us > 0 && now_us - from_us > h->session_us)
		h->session_us = now_us - from_us;
	k->down_us = 0;
}

static void step_keeper(struct hiccups *h, struct keeper *k)
{
	const uint64_t now_us = clock_monotonic_us();
	struct fake_node *node = k->node;
	const bool is_up = node->stream && node->welcomed;

	if (is_up) {
		end_gap(h, k);
		if (now_us - k->beat_us >= HEARTBEAT_MS * USEC_PER_MSEC) {
			k->beat_us = now_us;
			fake_node_send_heartbeat(node);
		}
		if (now_us - k->opened_us > CONNECT_S * USEC_PER_SEC)
			backoff_reset(&k->backoff);
	} else if (node->stream && now_us - k->opened_us > CONNECT_S * USEC_PER_SEC) {
		fake_node_disconnect(node);
		lose_session(k, false);
	} else if (!node->stream && k->retry_us == 0) {
		lose_session(k, node->welcomed);
	} else if (!node->stream && now_us >= k->retry_us) {
		begin_session(k);
	}
	assert_int_equal(node->releases, 0);
}

static void step_hiccups(struct hiccups *h)
{
	restart_ended(h->s);
	run_for(h->s->f.event, 20);
	for (size_t i = 0; i < ARRAY_SIZE(h->keepers); i++)
		step_keeper(h, &h->keepers[i]);
}

/* --- stops --- */

static size_t hosts_of(const struct hiccups *h, enum party party, size_t ret[static WORLD_MEMBERS_MAX])
{
	if (party == LEADER)
		ret[0] = (size_t)h->leader;
	else if (party == FOLLOWER)
		ret[0] = (size_t)(h->leader + 1) % SERVERS;
	else if (party == AGENTS)
		ret[0] = h->s->hosts.n;
	for (size_t i = 0; party == ETCD && i < WORLD_MEMBERS_MAX; i++)
		ret[i] = SERVERS + i;
	return party == ETCD ? WORLD_MEMBERS_MAX : 1;
}

static void cut(const struct hiccups *h, const struct stop *stop)
{
	size_t from[WORLD_MEMBERS_MAX] = {0}, to[WORLD_MEMBERS_MAX] = {0};
	size_t n_from = hosts_of(h, stop->from, from), n_to = hosts_of(h, stop->to, to);

	for (size_t i = 0; i < n_from; i++)
		for (size_t n = 0; n < n_to; n++)
			hosts_cut(&h->s->hosts, from[i], to[n]);
}

static void heal(const struct hiccups *h, const struct stop *stop)
{
	size_t from[WORLD_MEMBERS_MAX] = {0};
	size_t n = hosts_of(h, stop->from, from);

	for (size_t i = 0; i < n; i++)
		hosts_heal(&h->s->hosts, from[i]);
}

static pid_t pid_of(const struct hiccups *h, enum party party)
{
	size_t host[WORLD_MEMBERS_MAX] = {0};

	if (party <= ETCD_2)
		return h->s->etcd->pids[party];
	(void)hosts_of(h, party, host);
	return h->s->pids[host[0]];
}

static void stop_for(struct hiccups *h, const struct stop *stop, unsigned int tenths)
{
	const uint64_t end_us = clock_monotonic_us() + tenths * HICCUP_LEASE_S * USEC_PER_SEC / 10;
	const pid_t pid = stop->to == NOBODY ? pid_of(h, stop->from) : 0;

	if (stop->to == NOBODY)
		stop_process(pid);
	else
		cut(h, stop);
	while (clock_monotonic_us() < end_us)
		step_hiccups(h);
	if (stop->to == NOBODY)
		assert_int_equal(kill(pid, SIGCONT), 0);
	else
		heal(h, stop);
}

/* --- promises --- */

/* On a machine that may be busy: by name alone it is held to the lease. */
static uint64_t limit_us(const struct hiccups *h)
{
	const int spare_s = getenv("HOLDFAST_HICCUPS") ? HICCUP_SPARE_S : HICCUP_GRACE_S;

	return h->healed_us + (uint64_t)(HICCUP_LEASE_S + spare_s) * USEC_PER_SEC;
}

/* Every server knows the leader and hands on to it, sessions are there. Returns how long that took. */
static uint64_t await_all_ready(struct hiccups *h, const char *name)
{
	for (;;) {
		int n_ready = 0;
		bool is_late;

		step_hiccups(h);
		for (int i = 0; i < SERVERS; i++)
			n_ready += ask(h->s, i, NULL, NULL) == STATUS_OK &&
				   strstr(get_text(h->s, i, "/readyz"), " 200 ");
		is_late = clock_monotonic_us() > limit_us(h);
		if (n_ready == SERVERS && h->keepers[0].down_us == 0 && h->keepers[1].down_us == 0 &&
		    h->healed_us + h->session_us <= limit_us(h))
			return clock_monotonic_us() - h->healed_us;
		if (is_late && n_ready < SERVERS)
			fail_msg("%s: %d of %d servers know a leader that leads", name, n_ready, SERVERS);
		assert_msg(!is_late, "%s: a session was lost for longer than the lease", name);
	}
}

static void on_answer(enum status status, const ProtobufCMessage *response, const struct error *err,
		      void *userdata)
{
	const Holdfast__V1__ClaimVolumeResponse *claimed =
		(const Holdfast__V1__ClaimVolumeResponse *)response;
	struct hiccups *h = userdata;

	h->answered = (int)status;
	if (status != STATUS_OK)
		return;
	assert_string_equal(claimed->claim->id, h->s->held.id);
	assert_int_equal(claimed->claim->generation, h->s->held.generation);
}

static bool is_asked_again(int status)
{
	return status == STATUS_UNAVAILABLE || status == STATUS_UNKNOWN ||
	       status == STATUS_DEADLINE_EXCEEDED || status == STATUS_ABORTED;
}

/* A claim on the connection of the session: the first node gets its own again, the second one has no such
 * allocation. Returns how long that took. */
static uint64_t await_claim(struct hiccups *h, size_t i, const char *name)
{
	static const struct {
		const char *alloc;
		int status;
	} expected[] = {{ALLOC_1, STATUS_OK}, {ALLOC_2, STATUS_NOT_FOUND}};

	for (;;) {
		h->answered = -1;
		fake_node_start_claim(h->keepers[i].node, "db", expected[i].alloc, on_answer, h);
		while (h->answered < 0)
			step_hiccups(h);
		if (h->answered == expected[i].status)
			return clock_monotonic_us() - h->healed_us;
		assert_msg(is_asked_again(h->answered) && clock_monotonic_us() <= limit_us(h),
			   "%s: the claim of %s is answered with %s", name, h->keepers[i].id,
			   status_name((enum status)h->answered));
	}
}

static void run_hiccup(struct hiccups *h, int number, int n_stops)
{
	const struct hiccup hiccup = hiccup_of(number, n_stops);
	struct fixture *f = &h->s->f;
	uint64_t ready_us, claim_us[2];
	bool is_elsewhere = true; /* only one server that follows is hit */
	struct error err = {0};

	h->leader = find_leader(h->s, -1);
	h->healed_us = h->session_us = 0;
	for (size_t i = 0; i < ARRAY_SIZE(h->keepers); i++)
		h->keepers[i].n_lost = 0;
	for (int i = 0; i < 2; i++) {
		const struct stop *stop = hiccup.stop[i];

		is_elsewhere &= stop->from == FOLLOWER || stop->to == FOLLOWER;
		stop_for(h, stop, hiccup.tenths[i]);
	}
	h->healed_us = clock_monotonic_us();
	for (size_t i = 0; i < ARRAY_SIZE(h->keepers); i++)
		claim_us[i] = await_claim(h, i, hiccup.name);
	ready_us = await_all_ready(h, hiccup.name);
	print_message("hiccup %d, %s: answers after %" PRIu64 " and %" PRIu64 " ms, all ready after %" PRIu64
		      " ms, sessions lost %u and %u, the longest for %" PRIu64 " ms\n",
		      number, hiccup.name, claim_us[0] / USEC_PER_MSEC, claim_us[1] / USEC_PER_MSEC,
		      ready_us / USEC_PER_MSEC, h->keepers[0].n_lost, h->keepers[1].n_lost,
		      h->session_us / USEC_PER_MSEC);
	if (is_elsewhere && find_leader(h->s, -1) != h->leader)
		fail_msg("%s: another server leads", hiccup.name);
	assert_int_not_equal(run_alloc(f, ALLOC_2, "n2", &err), STATUS_OK);
	if (!strstr(err.msg, "n1")) /* which holds it */
		fail_msg("%s: %s", hiccup.name, err.msg);
}

/* Clients of all three: the first node's session begins at the leader, the second one's at a follower. */
static void begin_keepers(struct hiccups *h)
{
	static const char *const certs[] = {"node-n1", "node-n2"};
	struct servers *s = h->s;
	struct rpc_address servers[SERVERS];

	drop_clients(s);
	for (int n = 0; n < SERVERS; n++) {
		for (int i = 0; i < SERVERS; i++)
			servers[i] = address_of(s, (h->leader + n + i) % SERVERS);
		if (n < (int)ARRAY_SIZE(h->keepers))
			fake_node_init_at(h->keepers[n].node, s->f.event, s->f.dir, certs[n], servers,
					  SERVERS);
		else
			fake_node_init_at(&s->f.operator, s->f.event, s->f.dir, "operator", servers, SERVERS);
	}
	s->leader = h->leader;
	s->f.n1.has = &s->held;
	for (size_t i = 0; i < ARRAY_SIZE(h->keepers); i++)
		begin_session(&h->keepers[i]);
}

/* As root, with each server and each member on a host of its own. */
static int setup_hiccups(void **state)
{
	struct servers *s;

	(void)signal(SIGPIPE, SIG_IGN); /* of a server that ends while it is asked */
	assert_int_equal(setup_at(state, WORLD_MEMBERS_MAX, false, HICCUP_LEASE_S, geteuid() == 0), 0);
	s = *state;
	assert_int_equal(run_option(s, 0, "--new-cluster"), 0);
	start_all(s);
	return 0;
}

/* A few by default; HOLDFAST_HICCUPS=FROM-TO for others, 0-209 for all. */
TEST_ON(hiccups_leave_no_server_without_the_leader_and_no_session_lost, struct servers, s, setup_hiccups,
	teardown_servers)
{
	struct hiccups h = {.s = s,
			    .keepers = {{.node = &s->f.n1, .id = "n1"}, {.node = &s->f.n2, .id = "n2"}}};
	const char *wanted = getenv("HOLDFAST_HICCUPS");
	const int n_stops = s->hosts.n > 0 ? STOPS : PROCESSES;
	int from = 0, to = HICCUPS - 1, step = HICCUPS / HICCUP_DEFAULT;
	char *end;

	if (wanted) {
		from = (int)strtol(wanted, &end, 10);
		assert_int_equal(*end, '-');
		to = (int)strtol(end + 1, NULL, 10);
		step = 1;
	}
	for (size_t i = 0; i < ARRAY_SIZE(h.keepers); i++)
		h.keepers[i].backoff = (struct backoff)BACKOFF_INIT(200 * USEC_PER_MSEC, 15 * USEC_PER_SEC);
	h.leader = await_leader(s, -1);
	take_db(s);
	begin_keepers(&h);
	for (int i = from; i <= to && i < HICCUPS; i += step)
		run_hiccup(&h, i, n_stops);
}
