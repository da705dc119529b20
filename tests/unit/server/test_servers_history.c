/* SPDX-License-Identifier: Apache-2.0 */
/* Histories: clients do what a seed has them do, at three servers as processes on three members of etcd,
 * while faults of the same seed come and go, and all that is answered is held against what was answered
 * before.
 *
 * Nothing is asked of a server about itself. A node holds a volume from the answer with a ticket whose
 * signature is right until it sends the receipt of its release, and
 *  - no two claims of a volume that one may write are held at once, and a new one has a higher generation;
 *  - what was acknowledged is there: volumes, allocations, claims;
 *  - who reads sees the last value that was acknowledged before, or a later one, or one whose fate was not
 * known;
 *  - the index does not go back.
 * In one case proxies stand between servers and members, which drop and hold what passes; in another, as
 * root, each server and member is on a host of its own, and what one sends to another is lost. In the third
 * one etcd is put back to a snapshot, servers lose all that is on their disks, and nodes that hold volumes
 * are away: then acknowledged changes are lost, and only the first promise is left. Before stands for: the
 * answer was here when the call was made, whoever made it, at whatever server.
 *
 *   HISTORY_SEED    of operations and faults; printed, so that it can be run again
 *   HISTORY_FAULTS  until it ends
 *   HISTORY_ONLY    this one of enum fault_kind alone
 *   HISTORY_CASE    "proxies", "hosts" or "snapshots": this one of the cases alone
 *   HISTORY_SERVER  another program in the server's place
 *   HISTORY_LOUD    set: print what happens; the end of it is printed when a promise is broken */

#include "dev.h"
#include "folder.h"
#include "port.h"
#include "unit.h"

#include "../etcd/etcd_world.h"
#include "../etcd/proxy.h"
#include "base/clock.h"
#include "base/exit_code.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/parse.h"
#include "base/str.h"
#include "model/message.h"
#include "model/volume.h"
#include "rpc/client.h"
#include "ticket/ticket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ftw.h>
#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <holdfast/v1/operator.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	SERVERS = 3,
	MEMBERS = 3,
	NODES = 3,
	CLIENTS = 12,
	VOLUMES = 6, /* each is written by the client of its number */
	ALLOCS_MAX = 65536,
	VALUES_MAX = 65536, /* of one volume */
	FAULTS = 24,
	PER_FAULT = 100, /* operations that are answered between two faults */
	SERVER_LEASE_S = 2,
	MISSES = 3,
	STEP_S = 3600,
	LATE_MS = 100, /* for requests that were held to arrive */
	THINK_MS = 10, /* between two operations of a client */
	PAUSE_MS = 40, /* after a call that nobody answered */
	NOTES = 80,
	NOTE_SIZE = 160,
	BOOT_SIZE = UUID_TEXT_SIZE,
};

static const uint64_t CALL_US = 1500 * USEC_PER_MSEC;
/* A call of which nobody knows may still be carried out for so long: it waits at a server that is stopped. */
static const uint64_t LATE_US = 20 * USEC_PER_SEC;
static const uint64_t PATIENCE_US = 90 * USEC_PER_SEC;
static const char BOOT[] = "b0010000-0000-4000-8000-000000000001";

/* What became of a value, or of an allocation. */
enum fate { FATE_NONE, FATE_UNKNOWN, FATE_ACKNOWLEDGED };

struct world;

struct server_process {
	pid_t pid; /* 0: not running */
	uint16_t port;
	bool is_stopped;
	uint64_t start_at_us; /* when it is not running */
	off_t log_read;
	struct proxy *proxies[MEMBERS]; /* between it and each member; NULL: it is on a host */
	_Atomic(int64_t) *clock_step;	/* in seconds, of its time of day */
};

struct held {
	char claim[UUID_TEXT_SIZE]; /* "": nobody holds it */
	size_t node;
	uint64_t generation;
	uint32_t number; /* of this hold: an operation sees whether it is the same one */
};

struct volume_model {
	char id[16];
	int acknowledged; /* the highest value that was; -1: not registered yet */
	int last;	  /* that was tried */
	uint8_t fates[VALUES_MAX];
	uint64_t sent_us[VALUES_MAX];
	struct held held;
	uint64_t generation; /* the highest that was granted */
	uint32_t n_grants;
};

struct alloc_model {
	char id[UUID_TEXT_SIZE];
	size_t volume;
	enum fate fate;
	int misses;   /* stops that did not find it: it may still come */
	bool is_over; /* refused, stopped, or it does not come any more */
};

/* One allocation on a node. */
struct task {
	struct node_model *node;
	char alloc[UUID_TEXT_SIZE], volume[16];
	struct rpc_pending *pending; /* its claim; NULL: none is in flight */
	uint64_t claim_at_us;	     /* 0: not again */
	char claim[UUID_TEXT_SIZE];  /* "": none was granted */
	uint64_t generation;
	Holdfast__V1__ClientStatus status;
	bool is_used;
	/* For a report of what the node holds; owned. NULL: nothing is held. */
	Holdfast__V1__Allocation *run;
	Holdfast__V1__Claim *held;
	struct ticket ticket;
};

/* A claim that a node has released it: a ticket of it that comes late is not used. */
struct released {
	char claim[UUID_TEXT_SIZE];
	uint64_t freed_us; /* when it was acknowledged; 0: not yet */
};

enum { TASKS_MAX = 64, RELEASED_MAX = 32768 };

struct node_model {
	struct world *w;
	size_t number;
	char id[8];
	struct rpc_tls *tls;
	struct rpc_client *clients[SERVERS];
	struct rpc_stream *stream; /* NULL: none */
	bool is_welcome;
	bool is_away;	   /* with all that it holds */
	uint64_t since_us; /* when it was opened, or is to be */
	uint32_t random;
	struct task tasks[TASKS_MAX];
	struct released released[RELEASED_MAX];
	size_t n_released;
	uint64_t epoch; /* that it was asked to report for; 0: none yet */
};

enum operation { OP_WRITE, OP_READ, OP_STATUS, OP_RUN, OP_STOP };

struct client_model {
	struct world *w;
	size_t number;
	struct rpc_client *clients[SERVERS];
	uint32_t random;
	bool is_busy;
	bool has_read_own; /* since its last write: what was acknowledged is looked for before it is
			      overwritten */
	uint64_t idle_until_us;
	/* the operation in flight */
	enum operation op;
	uint64_t since_us;
	size_t volume, alloc;
	int value;	/* write: it; read: the highest that was acknowledged before; stop: the fate before */
	uint32_t grant; /* read: of the hold before; 0: none */
	uint64_t index; /* status: the highest that was seen before */
};

enum fault_kind {
	FAULT_KILL_LEADER,
	FAULT_END_LEADER,
	FAULT_STOP_LEADER,
	FAULT_CUT_LEADER,
	FAULT_LOSE_ANSWERS,
	FAULT_HOLD_REQUESTS,
	FAULT_KILL_FOLLOWER,
	FAULT_STOP_FOLLOWER,
	FAULT_CUT_PAIR,
	FAULT_KILL_MEMBER,
	FAULT_KILL_QUORUM,
	FAULT_COMPACT,
	FAULT_DEFRAGMENT,
	FAULT_STEP_CLOCK,
	FAULT_STEP_LEADERS_CLOCK,
	FAULT_LOSE_TO_MEMBERS,
	FAULT_LOSE_FROM_MEMBERS,
	FAULT_LOSE_PAIR,
	FAULT_LOSE_MEMBERS_PAIR,
	FAULT_LOSE_SERVERS_PAIR,
	FAULT_SNAPSHOT,
	FAULT_PUT_BACK,
	FAULT_MAKE_ANEW,
	FAULT_HOLDER_AWAY,
	FAULT_N
};

enum target { LEADER, FOLLOWER, ANY_SERVER };
enum { BY_PROXIES = 1, ON_HOSTS = 2, BOTH = 3, WITH_SNAPSHOTS = 4, EVERYWHERE = 7 };

/* LONG_MS: until another one has led for a while. */
enum { SHORT_MS = 300, LONG_MS = 3000 };

static const struct kind {
	const char *name;
	int where;
	enum target server;
	bool has_member; /* it is about one member, else about all of them or none */
	uint32_t min_ms;
} kinds[FAULT_N] = {
	[FAULT_KILL_LEADER] = {"kill -9 of the leader", EVERYWHERE, LEADER, false, SHORT_MS},
	[FAULT_END_LEADER] = {"SIGTERM of the leader", EVERYWHERE, LEADER, false, SHORT_MS},
	[FAULT_STOP_LEADER] = {"SIGSTOP of the leader", BOTH, LEADER, false, LONG_MS},
	[FAULT_CUT_LEADER] = {"leader cut from etcd", BY_PROXIES, LEADER, false, LONG_MS},
	[FAULT_LOSE_ANSWERS] = {"etcd's answers to the leader dropped", BY_PROXIES, LEADER, false, SHORT_MS},
	[FAULT_HOLD_REQUESTS] = {"leader's requests come late, and it is killed", BY_PROXIES, LEADER, false,
				 SHORT_MS},
	[FAULT_KILL_FOLLOWER] = {"kill -9 of a follower", EVERYWHERE, FOLLOWER, false, SHORT_MS},
	[FAULT_STOP_FOLLOWER] = {"SIGSTOP of a follower", BOTH, FOLLOWER, false, SHORT_MS},
	[FAULT_CUT_PAIR] = {"a server cut from a member", BY_PROXIES, ANY_SERVER, true, SHORT_MS},
	[FAULT_KILL_MEMBER] = {"kill -9 of a member", BOTH, ANY_SERVER, true, SHORT_MS},
	[FAULT_KILL_QUORUM] = {"kill -9 of two members", BOTH, ANY_SERVER, true, SHORT_MS},
	[FAULT_COMPACT] = {"compaction", BOTH, ANY_SERVER, true, SHORT_MS},
	[FAULT_DEFRAGMENT] = {"defragmentation of a member", BOTH, ANY_SERVER, true, SHORT_MS},
	[FAULT_STEP_CLOCK] = {"a server's clock steps by an hour", BOTH, ANY_SERVER, false, SHORT_MS},
	[FAULT_STEP_LEADERS_CLOCK] = {"the leader's clock steps by an hour", BOTH, LEADER, false, LONG_MS},
	[FAULT_LOSE_TO_MEMBERS] = {"what the leader sends to etcd is lost", ON_HOSTS, LEADER, false, LONG_MS},
	[FAULT_LOSE_FROM_MEMBERS] = {"what etcd sends to the leader is lost", ON_HOSTS, LEADER, false,
				     LONG_MS},
	[FAULT_LOSE_PAIR] = {"what a server sends to a member is lost, or the reverse", ON_HOSTS, ANY_SERVER,
			     true, SHORT_MS},
	[FAULT_LOSE_MEMBERS_PAIR] = {"what a member sends to another one is lost", ON_HOSTS, ANY_SERVER, true,
				     LONG_MS},
	[FAULT_LOSE_SERVERS_PAIR] = {"what a server sends to another one is lost", ON_HOSTS, ANY_SERVER,
				     false, SHORT_MS},
	[FAULT_SNAPSHOT] = {"a snapshot of etcd", WITH_SNAPSHOTS, ANY_SERVER, false, SHORT_MS},
	[FAULT_PUT_BACK] = {"etcd is put back, a server loses its disk, a holder is away", WITH_SNAPSHOTS,
			    ANY_SERVER, false, LONG_MS},
	[FAULT_MAKE_ANEW] = {"a server loses its disk", WITH_SNAPSHOTS, ANY_SERVER, false, SHORT_MS},
	[FAULT_HOLDER_AWAY] = {"a holder is away", WITH_SNAPSHOTS, ANY_SERVER, false, LONG_MS},
};

struct fault {
	enum fault_kind kind;
	int server, member;
	uint64_t until_us;
	bool is_on;
};

struct world {
	sd_event *event;
	char dir[FOLDER_SIZE];
	bool has_hosts; /* of the servers, then of the members */
	bool forgets;	/* etcd is put back: what was acknowledged may be lost */
	bool has_snapshot;
	struct hosts hosts;
	struct etcd_world *etcd;
	struct server_process servers[SERVERS];
	struct ticket_issuer *issuer;
	struct rpc_tls *tls;
	struct node_model nodes[NODES];
	struct client_model clients[CLIENTS];
	struct volume_model volumes[VOLUMES];
	struct alloc_model allocs[ALLOCS_MAX];
	size_t n_allocs;
	uint64_t index; /* the highest that was seen */
	int leader;	/* who said so last */
	int changes;	/* of leader */
	uint32_t seed, random, only;
	struct fault fault;
	int n_faults, n_operations, n_unknown, n_grants, quiet; /* operations answered since the last fault */
	uint64_t answered_us;
	bool is_ending, is_loud;
	char notes[NOTES][NOTE_SIZE];
	size_t n_notes;
};

/* --- what happened --- */

__attribute__((format(printf, 2, 3))) static void note(struct world *w, const char *format, ...)
{
	char *line = w->notes[w->n_notes++ % NOTES];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(line, NOTE_SIZE, format, args);
	va_end(args);
	if (w->is_loud)
		print_message("  %s\n", line);
}

__attribute__((format(printf, 2, 3))) static void broken(struct world *w, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	for (size_t i = w->n_notes > NOTES ? w->n_notes - NOTES : 0; i < w->n_notes; i++)
		print_message("  %s\n", w->notes[i % NOTES]);
	fail_msg("HISTORY_SEED=%" PRIu32 ", operation %d, fault %d, folder %s: %s", w->seed, w->n_operations,
		 w->n_faults, w->dir, text);
}

/* xorshift: each client, each node and the faults have a row of their own, which nothing else disturbs. */
static uint32_t draw(uint32_t *random, uint32_t below)
{
	*random ^= *random << 13;
	*random ^= *random >> 17;
	*random ^= *random << 5;
	return *random % below;
}

/* --- processes --- */

static const char *in_folder(const struct world *w, size_t i, const char *rest, char ret[static PATH_MAX])
{
	(void)str_format(ret, PATH_MAX, "%s/s%zu%s", w->dir, i, rest);
	return ret;
}

static const char *host_of(const struct world *w, size_t i)
{
	return w->has_hosts ? w->hosts.addresses[i] : "127.0.0.1";
}

static void name_members(const struct world *w, size_t i, char *ret, size_t size)
{
	const char *const *at = (const char *[]){w->hosts.addresses[SERVERS], w->hosts.addresses[SERVERS + 1],
						 w->hosts.addresses[SERVERS + 2]};

	if (w->has_hosts)
		(void)str_format(ret, size,
				 "endpoints = [\"https://%s:2379\", \"https://%s:2379\", "
				 "\"https://%s:2379\"]\n  ca = \"%s/ca.crt\"\n  certificate = "
				 "\"%s/client.crt\"\n  key = \"%s/client.key\"\n",
				 at[0], at[1], at[2], w->etcd->folder, w->etcd->folder, w->etcd->folder);
	else
		(void)str_format(ret, size,
				 "endpoints = [\"unix:%s/s%zu-0\", \"unix:%s/s%zu-1\", "
				 "\"unix:%s/s%zu-2\"]\n",
				 w->dir, i, w->dir, i, w->dir, i);
}

static void write_config(struct world *w, size_t i)
{
	char path[PATH_MAX], members[1024], text[4096];
	int n;

	name_members(w, i, members, sizeof(members));
	n = str_format(text, sizeof(text),
		       "cluster = \"c1\"\ndata_dir = \"%s/s%zu\"\nticket_key = \"%s/ticket.key\"\n"
		       "heartbeat = \"300s\"\nacl = false\n"
		       "listen {\n  host = \"%s\"\n  port = %u\n}\n"
		       "tls {\n  ca = \"%s/tls/ca.pem\"\n  cert = \"%s/tls/server.pem\"\n  key = "
		       "\"%s/tls/server.key\"\n}\n"
		       "store \"etcd\" {\n  %s  name = \"s%zu\"\n  advertise = \"%s:%u\"\n  lease = "
		       "\"%ds\"\n}\n",
		       w->dir, i, w->dir, host_of(w, i), (unsigned int)w->servers[i].port, w->dir, w->dir,
		       w->dir, members, i, host_of(w, i), (unsigned int)w->servers[i].port, SERVER_LEASE_S);
	assert_true(n > 0);
	assert_int_equal(mkdir(in_folder(w, i, "", path), 0700), 0);
	assert_int_equal(file_write_atomic(in_folder(w, i, ".hcl", path), 0600, text, (size_t)n), 0);
}

/* What its time of day is ahead by. */
static void map_clock(struct world *w, size_t i)
{
	const int64_t zero = 0;
	char path[PATH_MAX];
	int fd;

	assert_int_equal(file_write_atomic(in_folder(w, i, ".clock", path), 0600, &zero, sizeof(zero)), 0);
	fd = open(path, O_RDWR | O_CLOEXEC);
	w->servers[i].clock_step = mmap(NULL, sizeof(zero), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(w->servers[i].clock_step != MAP_FAILED);
	(void)close(fd);
}

static pid_t spawn(struct world *w, size_t i, const char *option)
{
	char config[PATH_MAX], log[PATH_MAX];
	pid_t pid = fork();
	int fd;

	assert_true(pid >= 0);
	if (pid > 0)
		return pid;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (w->has_hosts)
		hosts_enter(&w->hosts, i);
	(void)setenv("CLOCK_STEP_FILE", in_folder(w, i, ".clock", log), 1);
	(void)setenv("LD_PRELOAD", CLOCK_STEP, 1);
	fd = open(in_folder(w, i, ".log", log), O_WRONLY | O_CREAT | O_APPEND, 0600);
	(void)dup2(fd, STDOUT_FILENO);
	(void)dup2(fd, STDERR_FILENO);
	(void)execl(getenv("HISTORY_SERVER") ? getenv("HISTORY_SERVER") : SERVER_PROGRAM, "holdfast-server",
		    "--config", in_folder(w, i, ".hcl", config), option, NULL);
	_exit(127);
}

/* As its unit does: whoever ends is started again, but nobody ends in a way of its own. */
static void look_after(struct world *w, size_t i)
{
	struct server_process *s = &w->servers[i];
	int status;

	if (s->pid == 0 && clock_monotonic_us() >= s->start_at_us)
		s->pid = spawn(w, i, NULL);
	if (s->pid == 0 || waitpid(s->pid, &status, WNOHANG) != s->pid)
		return;
	note(w, "s%zu ended: %#x", i, (unsigned int)status);
	if (WIFSIGNALED(status) ? WTERMSIG(status) != SIGKILL
				: WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != EXIT_CODE_FAILED)
		broken(w, "server %zu ended with status %#x", i, (unsigned int)status);
	s->pid = 0;
	s->is_stopped = false;
	if (s->start_at_us < clock_monotonic_us())
		s->start_at_us = clock_monotonic_us() + 100 * USEC_PER_MSEC;
}

/* Only for where to do harm: each says once when it leads. */
static void look_at_log(struct world *w, size_t i)
{
	char path[PATH_MAX], text[1 << 14], leads[16];
	int fd = open(in_folder(w, i, ".log", path), O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : pread(fd, text, sizeof(text) - 1, w->servers[i].log_read);

	(void)close(fd);
	if (n <= 0)
		return;
	text[n] = '\0';
	if (strrchr(text, '\n'))
		strrchr(text, '\n')[1] = '\0'; /* the rest of a line comes later */
	else if (n < (ssize_t)sizeof(text) - 1)
		return;
	w->servers[i].log_read += (off_t)strlen(text);
	(void)str_format(leads, sizeof(leads), "s%zu leads", i);
	for (const char *at = strstr(text, leads); at; at = strstr(at + 1, leads)) {
		w->leader = (int)i;
		w->changes++;
		note(w, "s%zu leads", i);
	}
}

/* --- tickets and holds --- */

static struct volume_model *volume_of(struct world *w, const char *id)
{
	for (size_t i = 0; i < VOLUMES; i++)
		if (str_eq(w->volumes[i].id, id))
			return &w->volumes[i];
	fail_msg("there is no volume %s", id);
	return NULL;
}

static struct released *find_released(struct node_model *node, const char *claim)
{
	for (size_t i = node->n_released; i-- > 0;)
		if (str_eq(node->released[i].claim, claim))
			return &node->released[i];
	return NULL;
}

static void check_ticket(struct node_model *node, const Holdfast__V1__ClaimVolumeResponse *response,
			 struct ticket *ret)
{
	struct world *w = node->w;

	if (!ticket_is_current(response->ticket.data, response->ticket.len))
		broken(w, "claim %s comes without a ticket", response->claim->id);
	memcpy(ret, response->ticket.data, sizeof(*ret));
	if (!ticket_is_ours(w->issuer, ret) || !str_eq(ret->node, node->id))
		broken(w, "the ticket of claim %s is not signed for node %s", response->claim->id, node->id);
}

/* Node @task->node may mount from here on. */
static void hold(struct task *task, const Holdfast__V1__ClaimVolumeResponse *response)
{
	struct world *w = task->node->w;
	struct volume_model *volume = volume_of(w, task->volume);
	struct held *held = &volume->held;
	struct ticket ticket;

	check_ticket(task->node, response, &ticket);
	note(w, "%s gets %s: claim %s, generation %" PRIu64, task->node->id, task->volume,
	     response->claim->id, ticket.generation);
	if (str_eq(held->claim, response->claim->id) && w->forgets) {
		held->generation = ticket.generation; /* which a new epoch raises */
		return;
	}
	if (str_eq(held->claim, response->claim->id)) {
		if (ticket.generation != held->generation || held->node != task->node->number)
			broken(w, "claim %s was of generation %" PRIu64 " and is of %" PRIu64, held->claim,
			       held->generation, ticket.generation);
		return;
	}
	if (held->claim[0] != '\0')
		broken(w, "two hold %s: %s by claim %s of generation %" PRIu64 ", %s by claim %s of %" PRIu64,
		       volume->id, w->nodes[held->node].id, held->claim, held->generation, task->node->id,
		       response->claim->id, ticket.generation);
	if (ticket.generation <= volume->generation)
		broken(w, "claim %s of %s is of generation %" PRIu64 ", one before it was of %" PRIu64,
		       response->claim->id, volume->id, ticket.generation, volume->generation);
	*held = (struct held){
		.node = task->node->number, .generation = ticket.generation, .number = ++volume->n_grants};
	(void)str_copy(held->claim, sizeof(held->claim), response->claim->id);
	volume->generation = ticket.generation;
	w->n_grants++;
}

static void release_claim(struct node_model *node, const char *claim)
{
	struct world *w = node->w;

	for (size_t i = 0; i < VOLUMES; i++)
		if (str_eq(w->volumes[i].held.claim, claim))
			w->volumes[i].held = (struct held){.number = 0};
	if (find_released(node, claim))
		return;
	assert_true(node->n_released < RELEASED_MAX);
	(void)str_copy(node->released[node->n_released++].claim, UUID_TEXT_SIZE, claim);
}

static void note_freed(struct node_model *node, const char *claim)
{
	struct released *released = find_released(node, claim);

	if (released && released->freed_us == 0)
		released->freed_us = clock_monotonic_us();
}

/* --- nodes --- */

static void send_up(struct node_model *node, const Holdfast__V1__SessionUp *up)
{
	if (node->stream)
		(void)rpc_stream_send(node->stream, &up->base, NULL); /* lost: said in the next hello */
}

static void send_status(struct task *task)
{
	Holdfast__V1__AllocStatus alloc =
		V1(alloc_status, .alloc_id = task->alloc, .client_status = task->status);
	Holdfast__V1__SessionUp up =
		V1(session_up, .message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_ALLOC, .alloc = &alloc);

	if (task->node->is_welcome)
		send_up(task->node, &up);
}

static void send_receipt(struct node_model *node, const char *claim, uint64_t generation, bool is_release)
{
	Holdfast__V1__SessionUp up = HOLDFAST__V1__SESSION_UP__INIT;
	char boot[sizeof(BOOT)];
	Holdfast__V1__ClaimReceipt receipt =
		V1(claim_receipt, .claim_id = TEXT(claim), .boot_id = boot, .generation = generation,
		   .what_case = is_release ? HOLDFAST__V1__CLAIM_RECEIPT__WHAT_RELEASED
					   : HOLDFAST__V1__CLAIM_RECEIPT__WHAT_MOUNTED);

	memcpy(boot, BOOT, sizeof(BOOT));
	if (is_release)
		receipt.released = true;
	else
		receipt.mounted = true;
	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_RECEIPT;
	up.receipt = &receipt;
	send_up(node, &up);
}

static struct task *task_of(struct node_model *node, const char *alloc)
{
	for (size_t i = 0; i < TASKS_MAX; i++)
		if (node->tasks[i].is_used && str_eq(node->tasks[i].alloc, alloc))
			return &node->tasks[i];
	return NULL;
}

static void forget_claim(struct task *task)
{
	if (task->pending)
		rpc_pending_cancel(task->pending);
	task->pending = NULL;
}

static void end_task(struct task *task, Holdfast__V1__ClientStatus status)
{
	forget_claim(task);
	task->claim_at_us = 0;
	if (task->status != HOLDFAST__V1__CLIENT_STATUS__FAILED)
		task->status = status;
	send_status(task);
}

static bool is_unanswered(enum status status)
{
	return status == STATUS_UNAVAILABLE || status == STATUS_UNKNOWN ||
	       status == STATUS_DEADLINE_EXCEEDED || status == STATUS_CANCELLED || status == STATUS_ABORTED;
}

static void drop_claim(struct task *task)
{
	holdfast__v1__claim__free_unpacked(task->held, NULL);
	task->held = NULL;
	task->claim[0] = '\0';
}

static void keep_claim(struct task *task, const Holdfast__V1__ClaimVolumeResponse *response)
{
	drop_claim(task);
	task->held = (Holdfast__V1__Claim *)message_convert(response->claim->base.descriptor,
							    &response->claim->base);
	memcpy(&task->ticket, response->ticket.data, sizeof(task->ticket));
}

/* For good: the slot is free. */
static void drop_task(struct task *task)
{
	drop_claim(task);
	holdfast__v1__allocation__free_unpacked(task->run, NULL);
	task->run = NULL;
	task->is_used = false;
}

static void on_claimed(enum status status, const ProtobufCMessage *response, const struct error *err,
		       void *userdata)
{
	const Holdfast__V1__ClaimVolumeResponse *claimed =
		(const Holdfast__V1__ClaimVolumeResponse *)response;
	struct task *task = userdata;

	task->pending = NULL;
	if (status != STATUS_OK && is_unanswered(status)) {
		task->claim_at_us = clock_monotonic_us() + 2 * PAUSE_MS * USEC_PER_MSEC;
	} else if (status != STATUS_OK) {
		note(task->node->w, "%s does not get %s: %.90s", task->node->id, task->volume, err->msg);
		end_task(task, HOLDFAST__V1__CLIENT_STATUS__FAILED);
	} else if (!find_released(task->node, claimed->claim->id)) {
		hold(task, claimed);
		keep_claim(task, claimed);
		(void)str_copy(task->claim, sizeof(task->claim), claimed->claim->id);
		task->generation = claimed->claim->generation;
		task->status = HOLDFAST__V1__CLIENT_STATUS__RUNNING;
		send_receipt(task->node, task->claim, task->generation, false);
		send_status(task);
	}
}

static void claim(struct task *task)
{
	struct node_model *node = task->node;
	Holdfast__V1__ClaimVolumeRequest request = V1(claim_volume_request, .volume_id = task->volume,
						      .allocation_id = task->alloc, .volume_name = "data");

	task->claim_at_us = 0;
	if (rpc_client_call(node->clients[draw(&node->random, SERVERS)], &holdfast__v1__volumes__descriptor,
			    "Claim", &request.base, CALL_US, on_claimed, task, &task->pending,
			    NULL) != STATUS_OK)
		task->claim_at_us = clock_monotonic_us() + PAUSE_MS * USEC_PER_MSEC;
}

static void take_run(struct node_model *node, const Holdfast__V1__Allocation *alloc)
{
	if (task_of(node, alloc->id))
		return;
	for (size_t i = 0; i < TASKS_MAX; i++) {
		struct task *task = &node->tasks[i];

		if (task->is_used)
			continue;
		*task = (struct task)ROW(.node = node,
					 .run = (Holdfast__V1__Allocation *)message_convert(
						 alloc->base.descriptor, &alloc->base),
					 .status = HOLDFAST__V1__CLIENT_STATUS__PENDING, .claim_at_us = 1,
					 .is_used = true);
		(void)str_copy(task->alloc, sizeof(task->alloc), alloc->id);
		(void)str_copy(task->volume, sizeof(task->volume), alloc->volumes[0]->source);
		return;
	}
	broken(node->w, "%s has more than %d allocations", node->id, TASKS_MAX);
}

static void take_release(struct node_model *node, const Holdfast__V1__Claim *claim)
{
	struct task *task = task_of(node, claim->allocation_id);

	note(node->w, "%s lets %s go: claim %s", node->id, claim->volume_id, claim->id);
	if (task) /* no answer to it is waited for any more */
		end_task(task, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
	if (task)
		drop_claim(task);
	release_claim(node, claim->id);
	send_receipt(node, claim->id, claim->generation, true);
}

static void take_report(struct node_model *node, uint64_t epoch)
{
	Holdfast__V1__SessionUp up = HOLDFAST__V1__SESSION_UP__INIT;
	Holdfast__V1__NodeReport report = HOLDFAST__V1__NODE_REPORT__INIT;
	Holdfast__V1__Allocation *allocs[TASKS_MAX];
	Holdfast__V1__Claim *claims[TASKS_MAX];
	ProtobufCBinaryData tickets[TASKS_MAX];

	/* a leader that is lost before it has the report leaves the question to the next one */
	if (node->n_released > 0 && epoch != node->epoch && !node->w->forgets)
		broken(node->w, "a new epoch, %" PRIu64 ", has begun, and nothing was put back", epoch);
	node->epoch = epoch;
	note(node->w, "%s reports for epoch %" PRIu64, node->id, epoch);
	report.epoch = epoch;
	report.allocations = allocs;
	report.claims = claims;
	report.tickets = tickets;
	for (size_t i = 0; i < TASKS_MAX; i++) {
		struct task *task = &node->tasks[i];

		if (!task->is_used || !task->held)
			continue;
		task->run->desired_status = task->status == HOLDFAST__V1__CLIENT_STATUS__RUNNING
						    ? HOLDFAST__V1__DESIRED_STATUS__RUN
						    : HOLDFAST__V1__DESIRED_STATUS__STOP;
		task->held->state = HOLDFAST__V1__CLAIM_STATE__TAKEN;
		allocs[report.n_allocations++] = task->run;
		claims[report.n_claims++] = task->held;
		tickets[report.n_tickets++] =
			(ProtobufCBinaryData){.len = sizeof(task->ticket), .data = (uint8_t *)&task->ticket};
	}
	up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_REPORT;
	up.report = &report;
	send_up(node, &up);
}

static void on_down(struct rpc_stream *stream, const ProtobufCMessage *message, void *userdata)
{
	const Holdfast__V1__SessionDown *down = (const Holdfast__V1__SessionDown *)message;
	struct node_model *node = userdata;
	struct task *task;

	switch ((int)down->message_case) {
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_WELCOME:
		node->is_welcome = true;
		break;
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_RUN:
		take_run(node, down->run->alloc);
		break;
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_STOP:
		task = task_of(node, down->stop->alloc_id);
		if (task)
			end_task(task, HOLDFAST__V1__CLIENT_STATUS__COMPLETE);
		break;
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_FORGET:
		task = task_of(node, down->forget->alloc_id);
		if (task && task->claim[0] == '\0') {
			forget_claim(task);
			drop_task(task);
		}
		break;
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_RELEASE:
		take_release(node, down->release->claim);
		break;
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_RECEIPT_ACK:
		if (down->receipt_ack->released)
			note_freed(node, down->receipt_ack->claim_id);
		break;
	case HOLDFAST__V1__SESSION_DOWN__MESSAGE_REPORT:
		take_report(node, down->report->epoch);
		break;
	default: /* marks */
		break;
	}
}

static void on_closed(struct rpc_stream *stream, enum status status, const struct error *err, void *userdata)
{
	struct node_model *node = userdata;

	node->stream = NULL;
	node->is_welcome = false;
	node->since_us = clock_monotonic_us() + PAUSE_MS * USEC_PER_MSEC;
}

static const struct rpc_stream_events stream_events = {.on_message = on_down, .on_closed = on_closed};

/* All that it has, with the memory of its parts. */
struct hello {
	Holdfast__V1__SessionUp up;
	Holdfast__V1__SessionHello hello;
	Holdfast__V1__Fingerprint fingerprint;
	Holdfast__V1__NodePlugin plugin, *plugins[1];
	Holdfast__V1__AllocStatus allocs[TASKS_MAX], *all_allocs[TASKS_MAX];
	Holdfast__V1__MountedClaim mounted[TASKS_MAX], *all_mounted[TASKS_MAX];
	char native[8], profile[8], boot[sizeof(BOOT)];
};

static void add_task(struct hello *h, struct task *task)
{
	size_t n = h->hello.n_allocs++, m = h->hello.n_mounted;

	h->allocs[n] = (Holdfast__V1__AllocStatus)HOLDFAST__V1__ALLOC_STATUS__INIT;
	h->allocs[n].alloc_id = task->alloc;
	h->allocs[n].client_status = task->status;
	h->all_allocs[n] = &h->allocs[n];
	if (task->claim[0] == '\0')
		return;
	h->mounted[m] = (Holdfast__V1__MountedClaim)HOLDFAST__V1__MOUNTED_CLAIM__INIT;
	h->mounted[m].claim_id = task->claim;
	h->mounted[m].generation = task->generation;
	h->all_mounted[m] = &h->mounted[m];
	h->hello.n_mounted++;
}

static void send_hello(struct node_model *node)
{
	static struct hello h;

	h = (struct hello)ROW(.up = HOLDFAST__V1__SESSION_UP__INIT,
			      .hello = HOLDFAST__V1__SESSION_HELLO__INIT,
			      .fingerprint = HOLDFAST__V1__FINGERPRINT__INIT,
			      .plugin = HOLDFAST__V1__NODE_PLUGIN__INIT, .native = "native",
			      .profile = "disk");
	memcpy(h.boot, BOOT, sizeof(BOOT));
	h.plugin.plugin_id = h.native;
	h.plugin.profile = h.profile;
	h.plugin.healthy = true;
	h.plugins[0] = &h.plugin;
	for (size_t i = 0; i < TASKS_MAX; i++)
		if (node->tasks[i].is_used)
			add_task(&h, &node->tasks[i]);
	h.hello.node_id = node->id;
	h.hello.boot_id = h.boot;
	h.hello.clock_ms = clock_realtime_ms();
	h.fingerprint.plugins = h.plugins;
	h.fingerprint.n_plugins = 1;
	h.hello.fingerprint = &h.fingerprint;
	h.hello.allocs = h.all_allocs;
	h.hello.mounted = h.all_mounted;
	h.hello.adoption_complete = true;
	h.up.message_case = HOLDFAST__V1__SESSION_UP__MESSAGE_HELLO;
	h.up.hello = &h.hello;
	send_up(node, &h.up);
}

/* A claim in flight may be granted behind this hello, which does not name it: its answer is not taken. */
static void open_session(struct node_model *node)
{
	for (size_t i = 0; i < TASKS_MAX; i++) {
		struct task *task = &node->tasks[i];

		if (!task->is_used || !task->pending)
			continue;
		forget_claim(task);
		task->claim_at_us = 1;
	}
	node->since_us = clock_monotonic_us();
	if (rpc_stream_open(node->clients[draw(&node->random, SERVERS)], &holdfast__v1__nodes__descriptor,
			    "Session", CALL_US, &stream_events, node, &node->stream, NULL) != STATUS_OK)
		node->since_us += PAUSE_MS * USEC_PER_MSEC;
	else
		send_hello(node);
}

static void step_node(struct node_model *node)
{
	uint64_t now_us = clock_monotonic_us();

	if (node->is_away && node->stream) {
		rpc_stream_cancel(node->stream);
		node->stream = NULL;
		node->is_welcome = false;
	}
	if (node->is_away)
		return;
	if (node->stream && !node->is_welcome && now_us > node->since_us + CALL_US) {
		rpc_stream_cancel(node->stream); /* elsewhere, then */
		node->stream = NULL;
	}
	if (!node->stream && now_us >= node->since_us)
		open_session(node);
	for (size_t i = 0; i < TASKS_MAX && node->is_welcome; i++)
		if (node->tasks[i].is_used && node->tasks[i].claim_at_us > 0 &&
		    now_us >= node->tasks[i].claim_at_us)
			claim(&node->tasks[i]);
}

/* --- clients --- */

static void on_written(struct client_model *c, enum status status, const ProtobufCMessage *response)
{
	const Holdfast__V1__RegisterVolumeResponse *written =
		(const Holdfast__V1__RegisterVolumeResponse *)response;
	struct volume_model *volume = &c->w->volumes[c->volume];

	if (status != STATUS_OK)
		return;
	volume->fates[c->value] = FATE_ACKNOWLEDGED;
	if (c->value > volume->acknowledged)
		volume->acknowledged = c->value;
	if (written->volume->modify_index > c->w->index)
		c->w->index = written->volume->modify_index;
}

static bool has_claim(const Holdfast__V1__Volume *volume, const char *id)
{
	for (size_t i = 0; i < volume->n_claims; i++)
		if (str_eq(volume->claims[i]->id, id))
			return volume->claims[i]->state != HOLDFAST__V1__CLAIM_STATE__FREED;
	return false;
}

/* What was freed before the read is not there again. */
static void check_freed(struct client_model *c, const Holdfast__V1__Volume *volume)
{
	for (size_t i = 0; i < volume->n_claims; i++)
		for (size_t n = 0; n < NODES; n++) {
			const struct released *released =
				find_released(&c->w->nodes[n], volume->claims[i]->id);

			if (released && released->freed_us > 0 && released->freed_us < c->since_us &&
			    volume->claims[i]->state != HOLDFAST__V1__CLAIM_STATE__FREED)
				broken(c->w, "claim %s of %s was freed, and is there again", released->claim,
				       volume->id);
		}
}

static void on_read(struct client_model *c, enum status status, const ProtobufCMessage *response)
{
	const Holdfast__V1__GetVolumeResponse *read = (const Holdfast__V1__GetVolumeResponse *)response;
	struct volume_model *volume = &c->w->volumes[c->volume];
	uint32_t value = 0;

	if (c->w->forgets) {
		c->has_read_own |= c->volume == c->number;
		return;
	}
	if (status == STATUS_NOT_FOUND && c->value >= 0)
		broken(c->w, "%s is not found, and value %d of it was acknowledged", volume->id, c->value);
	if (status != STATUS_OK)
		return;
	if (parse_u32(read->volume->description, 0, VALUES_MAX - 1, &value) < 0 ||
	    (volume->fates[value] == FATE_NONE && (int)value > volume->last))
		broken(c->w, "%s has '%s', which nobody wrote", volume->id, read->volume->description);
	if ((int)value < c->value &&
	    (volume->fates[value] != FATE_UNKNOWN || c->since_us > volume->sent_us[value] + LATE_US))
		broken(c->w, "client %zu reads %u of %s, and %d was acknowledged before", c->number, value,
		       volume->id, c->value);
	if (c->grant > 0 && volume->held.number == c->grant && !has_claim(read->volume, volume->held.claim))
		broken(c->w, "claim %s of %s was granted, and is not there", volume->held.claim, volume->id);
	check_freed(c, read->volume);
	c->has_read_own |= c->volume == c->number;
	if ((int)value > volume->acknowledged)
		volume->acknowledged = (int)value; /* whoever reads later sees it as well */
}

static void on_status(struct client_model *c, enum status status, const ProtobufCMessage *response)
{
	const Holdfast__V1__GetStatusResponse *told = (const Holdfast__V1__GetStatusResponse *)response;

	if (status != STATUS_OK || c->w->forgets)
		return;
	if (told->index < c->index)
		broken(c->w, "client %zu is told index %" PRIu64 ", and %" PRIu64 " was seen before",
		       c->number, told->index, c->index);
	if (told->index > c->w->index)
		c->w->index = told->index;
}

static void on_run(struct client_model *c, enum status status, const ProtobufCMessage *response)
{
	struct alloc_model *alloc = &c->w->allocs[c->alloc];

	if (status == STATUS_OK)
		alloc->fate = FATE_ACKNOWLEDGED;
	else if (!is_unanswered(status))
		alloc->is_over = true; /* it was refused */
}

static void on_stop(struct client_model *c, enum status status, const ProtobufCMessage *response)
{
	struct alloc_model *alloc = &c->w->allocs[c->alloc];

	if (status == STATUS_NOT_FOUND && c->value == FATE_ACKNOWLEDGED && !c->w->forgets)
		broken(c->w, "allocation %s was acknowledged, and is not found", alloc->id);
	if (status == STATUS_OK || (status == STATUS_NOT_FOUND && ++alloc->misses == MISSES))
		alloc->is_over = true;
}

static void on_done(enum status status, const ProtobufCMessage *response, const struct error *err,
		    void *userdata)
{
	static void (*const take[])(struct client_model *, enum status, const ProtobufCMessage *) =
		ROW([OP_WRITE] = on_written, [OP_READ] = on_read, [OP_STATUS] = on_status, [OP_RUN] = on_run,
		    [OP_STOP] = on_stop);
	struct client_model *c = userdata;
	struct world *w = c->w;

	c->is_busy = false;
	if (status != STATUS_OK)
		note(w, "client %zu, operation %d: %.110s", c->number, (int)c->op, err->msg);
	if (status == STATUS_INTERNAL || status == STATUS_DATA_LOSS)
		broken(w, "client %zu, operation %d: %s", c->number, (int)c->op, err->msg);
	take[c->op](c, status, response);
	if (is_unanswered(status)) {
		w->n_unknown++;
		c->idle_until_us = clock_monotonic_us() + PAUSE_MS * USEC_PER_MSEC;
		return;
	}
	c->idle_until_us = clock_monotonic_us() + THINK_MS * USEC_PER_MSEC;
	w->n_operations++;
	w->quiet++;
	w->answered_us = clock_monotonic_us();
}

static void start(struct client_model *c, const ProtobufCServiceDescriptor *service, const char *method,
		  const ProtobufCMessage *request)
{
	struct rpc_client *client = c->clients[draw(&c->random, SERVERS)];

	c->since_us = clock_monotonic_us();
	if (rpc_client_call(client, service, method, request, CALL_US, on_done, c, NULL, NULL) == STATUS_OK)
		c->is_busy = true;
	else
		c->idle_until_us = clock_monotonic_us() + PAUSE_MS * USEC_PER_MSEC;
}

static void start_write(struct client_model *c)
{
	struct volume_model *volume = &c->w->volumes[c->number];
	Holdfast__V1__Volume pb = HOLDFAST__V1__VOLUME__INIT;
	Holdfast__V1__RegisterVolumeRequest request = V1(register_volume_request, .volume = &pb);
	Holdfast__V1__Capability capability =
		V1(capability, .access_mode = HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_WRITER,
		   .attachment_mode = HOLDFAST__V1__ATTACHMENT_MODE__FILE_SYSTEM);
	char disk[32], value[16];
	Holdfast__V1__Source source = V1(source, .class_ = HOLDFAST__V1__SOURCE_CLASS__BLOCK, .by_id = disk);

	c->op = OP_WRITE;
	c->volume = c->number;
	c->value = ++volume->last;
	assert_true(c->value < VALUES_MAX);
	volume->fates[c->value] = FATE_UNKNOWN; /* until it is answered */
	volume->sent_us[c->value] = clock_monotonic_us();
	c->has_read_own = false;
	(void)str_format(value, sizeof(value), "%d", c->value);
	(void)str_format(disk, sizeof(disk), "wwn-0x%zu", c->number + 1);
	pb.id = volume->id;
	pb.type = HOLDFAST__V1__VOLUME_TYPE__NATIVE;
	pb.profile = "disk";
	pb.source = &source;
	pb.description = value;
	pb.requested_capabilities = (Holdfast__V1__Capability *[]){&capability};
	pb.n_requested_capabilities = 1;
	start(c, &holdfast__v1__volumes__descriptor, "Register", &request.base);
}

static void start_read(struct client_model *c, size_t number)
{
	struct volume_model *volume = &c->w->volumes[number];
	Holdfast__V1__GetVolumeRequest request = HOLDFAST__V1__GET_VOLUME_REQUEST__INIT;

	c->op = OP_READ;
	c->volume = number;
	c->value = volume->acknowledged;
	c->grant = volume->held.number;
	request.id = volume->id;
	start(c, &holdfast__v1__volumes__descriptor, "Get", &request.base);
}

static void start_status(struct client_model *c)
{
	Holdfast__V1__GetStatusRequest request = HOLDFAST__V1__GET_STATUS_REQUEST__INIT;

	c->op = OP_STATUS;
	c->index = c->w->index;
	start(c, &holdfast__v1__operator__descriptor, "Status", &request.base);
}

static void start_run(struct client_model *c, size_t volume, size_t node)
{
	struct world *w = c->w;
	struct alloc_model *model = &w->allocs[w->n_allocs];
	Holdfast__V1__RunAllocationRequest request = HOLDFAST__V1__RUN_ALLOCATION_REQUEST__INIT;
	Holdfast__V1__Allocation alloc = HOLDFAST__V1__ALLOCATION__INIT;
	Holdfast__V1__VolumeRequest wanted = HOLDFAST__V1__VOLUME_REQUEST__INIT;

	*model = (struct alloc_model){.volume = volume, .fate = FATE_UNKNOWN};
	(void)str_format(model->id, sizeof(model->id), "018%05zx-0000-7000-837a-8eec1ce19687",
			 w->n_allocs + 1);
	c->op = OP_RUN;
	c->alloc = w->n_allocs++;
	wanted.name = "data";
	wanted.source = w->volumes[volume].id;
	wanted.access_mode = HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_WRITER;
	alloc.id = model->id;
	alloc.name = "data";
	alloc.node_id = w->nodes[node].id;
	alloc.volumes = (Holdfast__V1__VolumeRequest *[]){&wanted};
	alloc.n_volumes = 1;
	request.allocation = &alloc;
	start(c, &holdfast__v1__allocations__descriptor, "Run", &request.base);
}

/* One of @volume and @fate that may run. False: there is none. */
static bool choose_alloc(struct client_model *c, size_t volume, enum fate fate)
{
	const struct world *w = c->w;
	uint32_t n = 0;

	for (size_t i = 0; i < w->n_allocs; i++)
		if (w->allocs[i].volume == volume && w->allocs[i].fate == fate && !w->allocs[i].is_over &&
		    draw(&c->random, ++n) == 0) /* each is as likely */
			c->alloc = i;
	return n > 0;
}

static bool start_stop(struct client_model *c, size_t volume)
{
	Holdfast__V1__StopAllocationRequest request = HOLDFAST__V1__STOP_ALLOCATION_REQUEST__INIT;

	if (!choose_alloc(c, volume, FATE_ACKNOWLEDGED) && !choose_alloc(c, volume, FATE_UNKNOWN))
		return false;
	c->op = OP_STOP;
	c->value = (int)c->w->allocs[c->alloc].fate;
	request.id = c->w->allocs[c->alloc].id;
	start(c, &holdfast__v1__allocations__descriptor, "Stop", &request.base);
	return true;
}

static void step_client(struct client_model *c)
{
	uint32_t kind, volume, node;

	if (c->is_busy || clock_monotonic_us() < c->idle_until_us)
		return;
	kind = draw(&c->random, 100);
	volume = draw(&c->random, VOLUMES);
	node = draw(&c->random, NODES);
	if (c->number < VOLUMES &&
	    (c->w->volumes[c->number].acknowledged < 0 || (kind < 40 && c->has_read_own)))
		start_write(c);
	else if (c->number < VOLUMES && kind < 40)
		start_read(c, c->number);
	else if (kind >= 60 && kind < 80 && c->w->n_allocs < ALLOCS_MAX)
		start_run(c, volume, node);
	else if (kind < 80 || !start_stop(c, volume)) {
		if (kind % 3 == 0)
			start_status(c);
		else
			start_read(c, volume);
	}
}

/* --- faults --- */

static void do_to_proxies(struct world *w, const struct fault *fault, enum proxy_fault what)
{
	for (int m = 0; m < MEMBERS; m++)
		if (fault->member < 0 || m == fault->member)
			proxy_do(w->servers[fault->server].proxies[m], what);
}

static void signal_server(struct world *w, int i, int number)
{
	struct server_process *s = &w->servers[i];

	if (s->pid > 0)
		(void)kill(s->pid, number);
	s->is_stopped = number == SIGSTOP;
	s->start_at_us = number == SIGKILL ? w->fault.until_us : s->start_at_us;
}

static void kill_member(struct world *w, int member)
{
	if (w->etcd->pids[member] > 0)
		etcd_world_kill(w->etcd, (size_t)member);
}

/* Hosts of members come behind those of servers. */
static void lose_all_of(struct world *w, size_t server, bool is_to_members)
{
	for (size_t m = SERVERS; m < SERVERS + MEMBERS; m++)
		hosts_cut(&w->hosts, is_to_members ? server : m, is_to_members ? m : server);
}

static void lose_pair(struct world *w, size_t one, size_t other)
{
	bool is_reverse = draw(&w->random, 2) == 0;

	hosts_cut(&w->hosts, is_reverse ? other : one, is_reverse ? one : other);
}

/* --- time --- */

static void run_shell(struct world *w, const char *command)
{
	if (system(command) != 0) /* NOLINT(cert-env33-c): of names made here */
		broken(w, "failed: %s", command);
}

/* All members at once, to one past or into it. */
static void copy_members(struct world *w, const char *from, const char *to)
{
	char command[PATH_MAX];

	for (int m = 0; m < MEMBERS; m++)
		kill_member(w, m);
	for (int m = 0; m < MEMBERS; m++) {
		(void)str_format(command, sizeof(command), "cd %s && rm -rf %s%d && cp -a %s%d %s%d",
				 w->etcd->folder, to, m, from, m, to, m);
		run_shell(w, command);
	}
	for (size_t m = 0; m < MEMBERS; m++)
		etcd_world_start(w->etcd, m);
}

/* As when its machine is installed again, with the settings alone. */
static void lose_disk(struct world *w, int i)
{
	struct server_process *s = &w->servers[i];
	char path[PATH_MAX], command[2 * PATH_MAX];

	if (s->pid > 0) {
		(void)kill(s->pid, SIGKILL);
		(void)waitpid(s->pid, NULL, 0);
	}
	s->pid = 0;
	s->start_at_us = 0;
	(void)str_format(command, sizeof(command), "rm -rf %s/*", in_folder(w, (size_t)i, "", path));
	run_shell(w, command);
}

static void send_holder_away(struct world *w)
{
	size_t volume = draw(&w->random, VOLUMES);

	for (size_t i = 0; i < VOLUMES; i++) {
		const struct held *held = &w->volumes[(volume + i) % VOLUMES].held;

		if (held->claim[0] == '\0')
			continue;
		w->nodes[held->node].is_away = true;
		note(w, "%s is away", w->nodes[held->node].id);
		return;
	}
}

static void put_back(struct world *w, int server)
{
	uint32_t n = 1 + draw(&w->random, SERVERS); /* lose what they remember */

	if (draw(&w->random, 3) > 0)
		send_holder_away(w);
	copy_members(w, "early", "d");
	for (uint32_t i = 0; i < n; i++)
		lose_disk(w, (server + (int)i) % SERVERS);
}

static void begin_fault(struct world *w)
{
	struct fault *f = &w->fault;
	size_t server = (size_t)f->server;
	size_t member = (size_t)(f->member < 0 ? 0 : f->member);

	note(w, "fault %d: %s, s%d, member %d", w->n_faults, kinds[f->kind].name, f->server, f->member);
	switch (f->kind) {
	case FAULT_KILL_LEADER:
	case FAULT_KILL_FOLLOWER:
		signal_server(w, f->server, SIGKILL);
		break;
	case FAULT_END_LEADER:
		signal_server(w, f->server, SIGTERM);
		break;
	case FAULT_STOP_LEADER:
	case FAULT_STOP_FOLLOWER:
		signal_server(w, f->server, SIGSTOP);
		break;
	case FAULT_CUT_LEADER:
	case FAULT_CUT_PAIR:
		do_to_proxies(w, f, PROXY_REFUSE);
		break;
	case FAULT_LOSE_ANSWERS:
		do_to_proxies(w, f, PROXY_DROP_ANSWERS);
		break;
	case FAULT_HOLD_REQUESTS:
		do_to_proxies(w, f, PROXY_HOLD_REQUESTS);
		break;
	case FAULT_KILL_QUORUM:
		kill_member(w, (f->member + 1) % MEMBERS);
		kill_member(w, f->member);
		break;
	case FAULT_KILL_MEMBER:
		kill_member(w, f->member);
		break;
	case FAULT_COMPACT:
		etcd_world_compact(w->etcd->urls[member]);
		break;
	case FAULT_DEFRAGMENT:
		etcd_world_defragment(w->etcd->urls[member]);
		break;
	case FAULT_STEP_CLOCK:
	case FAULT_STEP_LEADERS_CLOCK:
		atomic_store(w->servers[server].clock_step, draw(&w->random, 2) == 0 ? STEP_S : -STEP_S);
		break;
	case FAULT_LOSE_TO_MEMBERS:
	case FAULT_LOSE_FROM_MEMBERS:
		lose_all_of(w, server, f->kind == FAULT_LOSE_TO_MEMBERS);
		break;
	case FAULT_LOSE_PAIR:
		lose_pair(w, server, SERVERS + member);
		break;
	case FAULT_LOSE_MEMBERS_PAIR:
		lose_pair(w, SERVERS + member, SERVERS + (member + 1) % MEMBERS);
		break;
	case FAULT_LOSE_SERVERS_PAIR:
		lose_pair(w, server, (server + 1) % SERVERS);
		break;
	case FAULT_PUT_BACK:
		if (w->has_snapshot)
			put_back(w, f->server);
		else
			copy_members(w, "d", "early");
		w->has_snapshot = !w->has_snapshot;
		break;
	case FAULT_SNAPSHOT:
		copy_members(w, "d", "early");
		w->has_snapshot = true;
		break;
	case FAULT_MAKE_ANEW:
		lose_disk(w, f->server);
		break;
	case FAULT_HOLDER_AWAY:
		send_holder_away(w);
		break;
	case FAULT_N:
		break;
	}
}

static void end_fault(struct world *w)
{
	struct fault *f = &w->fault;

	f->is_on = false;
	w->quiet = 0;
	note(w, "fault %d ends", w->n_faults);
	for (size_t i = 0; i < NODES; i++)
		w->nodes[i].is_away = false;
	if (f->kind == FAULT_STOP_LEADER || f->kind == FAULT_STOP_FOLLOWER)
		signal_server(w, f->server, SIGCONT);
	if (f->kind == FAULT_LOSE_ANSWERS)
		do_to_proxies(w, f, PROXY_CUT);
	if (f->kind == FAULT_HOLD_REQUESTS) {
		do_to_proxies(w, f, PROXY_RELEASE);
		(void)usleep(LATE_MS * 1000);
		signal_server(w, f->server, SIGKILL); /* what is in etcd is what the next one knows */
	}
	if (f->kind == FAULT_CUT_LEADER || f->kind == FAULT_CUT_PAIR)
		do_to_proxies(w, f, PROXY_ACCEPT);
	atomic_store(w->servers[f->server].clock_step, 0);
	for (size_t i = 0; f->kind >= FAULT_LOSE_TO_MEMBERS && i < w->hosts.n; i++)
		hosts_heal(&w->hosts, i);
	for (size_t m = 0; m < MEMBERS; m++)
		if (w->etcd->pids[m] == 0)
			etcd_world_start(w->etcd, m);
}

/* Each of them once, at first. */
static enum fault_kind choose_fault(struct world *w)
{
	enum fault_kind here[FAULT_N];
	uint32_t n = 0;

	if (w->only < FAULT_N)
		return (enum fault_kind)w->only;
	for (int i = 0; i < FAULT_N; i++)
		if (kinds[i].where & (w->forgets ? WITH_SNAPSHOTS : w->has_hosts ? ON_HOSTS : BY_PROXIES))
			here[n++] = (enum fault_kind)i;
	return here[(uint32_t)w->n_faults < n ? ((uint32_t)w->n_faults + w->seed) % n : draw(&w->random, n)];
}

static int choose_server(struct world *w, enum target target)
{
	switch (target) {
	case FOLLOWER:
		return (w->leader + 1 + (int)draw(&w->random, SERVERS - 1)) % SERVERS;
	case ANY_SERVER:
		return (int)draw(&w->random, SERVERS);
	case LEADER:
		break;
	}
	return w->leader;
}

static void step_faults(struct world *w)
{
	struct fault *f = &w->fault;
	const struct kind *kind;

	if (f->is_on && clock_monotonic_us() >= f->until_us)
		end_fault(w);
	if (f->is_on || w->quiet < PER_FAULT || w->leader < 0 || w->is_ending)
		return;
	*f = (struct fault){.kind = choose_fault(w), .member = -1, .is_on = true};
	kind = &kinds[f->kind];
	f->server = choose_server(w, kind->server);
	if (kind->has_member)
		f->member = (int)draw(&w->random, MEMBERS);
	/* some shorter than the lease, some longer */
	f->until_us = clock_monotonic_us() +
		      (kind->min_ms + draw(&w->random, SERVER_LEASE_S * 1500)) * USEC_PER_MSEC;
	w->n_faults++;
	begin_fault(w);
}

/* --- all of it --- */

static void step(struct world *w)
{
	assert_true(sd_event_run(w->event, 5 * USEC_PER_MSEC) >= 0);
	for (size_t i = 0; i < SERVERS; i++) {
		look_after(w, i);
		look_at_log(w, i);
	}
	for (size_t i = 0; i < NODES; i++)
		step_node(&w->nodes[i]);
	step_faults(w);
	if (clock_monotonic_us() > w->answered_us + PATIENCE_US)
		broken(w, "nothing was answered for %d s", (int)(PATIENCE_US / USEC_PER_SEC));
}

static struct rpc_tls *load_tls(const struct world *w, const char *cert)
{
	char path[3][PATH_MAX];
	const struct rpc_tls_files files = {.ca = path[0], .cert = path[1], .key = path[2]};
	struct rpc_tls *tls;

	(void)str_format(path[0], PATH_MAX, "%s/tls/ca.pem", w->dir);
	(void)str_format(path[1], PATH_MAX, "%s/tls/%s.pem", w->dir, cert);
	(void)str_format(path[2], PATH_MAX, "%s/tls/%s.key", w->dir, cert);
	assert_int_equal(rpc_tls_new(&files, &tls, NULL), STATUS_OK);
	return tls;
}

static void make_clients(struct world *w, struct rpc_tls *tls, struct rpc_client **ret)
{
	for (size_t i = 0; i < SERVERS; i++) {
		const struct rpc_endpoint endpoint = {
			.host = host_of(w, i), .port = w->servers[i].port, .tls = tls};

		assert_int_equal(rpc_client_new(w->event, &endpoint, &ret[i], NULL), STATUS_OK);
	}
}

static void make_proxies(struct world *w, size_t i)
{
	char path[PATH_MAX];

	for (size_t m = 0; m < MEMBERS; m++) {
		(void)str_format(path, PATH_MAX, "%s/s%zu-%zu", w->dir, i, m);
		w->servers[i].proxies[m] = proxy_new(path, etcd_world_socket(w->etcd, m));
	}
}

static void make_servers(struct world *w)
{
	int status;

	if (w->has_hosts)
		hosts_new(&w->hosts, SERVERS + MEMBERS);
	w->etcd = w->has_hosts ? etcd_world_new_hosts(&w->hosts, SERVERS) : etcd_world_new(MEMBERS);
	for (size_t i = 0; i < SERVERS; i++) {
		w->servers[i].port = free_port();
		if (!w->has_hosts)
			make_proxies(w, i);
		write_config(w, i);
		map_clock(w, i);
	}
	assert_true(waitpid(spawn(w, 0, "--new-cluster"), &status, 0) > 0);
	assert_int_equal(status, 0);
}

static uint32_t number_of(const char *name, uint32_t otherwise)
{
	uint32_t number = otherwise;

	if (getenv(name) && parse_u32(getenv(name), 0, INT_MAX, &number) < 0)
		fail_msg("%s=%s is no number", name, getenv(name));
	return number;
}

static void make_models(struct world *w)
{
	static const char *const names[NODES] = {"node-n0", "node-n1", "node-n2"};

	w->tls = load_tls(w, "operator");
	w->random = w->seed;
	for (size_t i = 0; i < VOLUMES; i++) {
		w->volumes[i].acknowledged = w->volumes[i].last = -1;
		(void)str_format(w->volumes[i].id, sizeof(w->volumes[i].id), "db%zu", i);
	}
	for (size_t i = 0; i < NODES; i++) {
		struct node_model *node = &w->nodes[i];

		node->w = w;
		node->number = i;
		node->random = w->seed * 31 + 7 * (uint32_t)i + 1;
		(void)str_format(node->id, sizeof(node->id), "n%zu", i);
		node->tls = load_tls(w, names[i]);
		make_clients(w, node->tls, node->clients);
	}
	for (size_t i = 0; i < CLIENTS; i++) {
		w->clients[i].w = w;
		w->clients[i].number = i;
		w->clients[i].random = w->seed * 101 + 13 * (uint32_t)i + 1;
		make_clients(w, w->tls, w->clients[i].clients);
	}
}

/* NULL in @state: not here. */
static int setup_world(void **state, const char *name)
{
	const bool has_hosts = str_eq(name, "hosts");
	static const char *const nodes[NODES] = {"n0", "n1", "n2"};
	struct world *w = calloc(1, sizeof(*w));
	const struct dev_options options = {.dir = w->dir, .cluster = "c1", .nodes = nodes, .n_nodes = NODES};
	const char *only = getenv("HISTORY_CASE");
	struct config config;

	*state = NULL;
	if ((only && !str_eq(only, name)) || (has_hosts && geteuid() != 0)) {
		free(w);
		return 0;
	}
	assert_non_null(w);
	w->has_hosts = has_hosts;
	w->forgets = str_eq(name, "snapshots");
	w->leader = -1;
	w->is_loud = getenv("HISTORY_LOUD");
	w->seed = number_of("HISTORY_SEED", 1);
	w->only = number_of("HISTORY_ONLY", FAULT_N);
	folder_make(w->dir);
	assert_int_equal(sd_event_new(&w->event), 0);
	assert_int_equal(dev_prepare(&options, &config, NULL), STATUS_OK);
	assert_int_equal(ticket_issuer_new(config.ticket_key, "c1", &w->issuer, NULL), STATUS_OK);
	make_servers(w);
	make_models(w);
	*state = w;
	return 0;
}

static int setup_proxies(void **state)
{
	return setup_world(state, "proxies");
}

static int setup_hosts(void **state)
{
	return setup_world(state, "hosts");
}

static int setup_snapshots(void **state)
{
	return setup_world(state, "snapshots");
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	return remove(path);
}

static void end_slot(struct task *task)
{
	forget_claim(task);
	drop_task(task);
}

static void free_models(struct world *w)
{
	for (size_t i = 0; i < NODES; i++) {
		for (size_t t = 0; t < TASKS_MAX; t++)
			end_slot(&w->nodes[i].tasks[t]);
		rpc_stream_cancel(w->nodes[i].stream);
		for (size_t s = 0; s < SERVERS; s++)
			rpc_client_free(w->nodes[i].clients[s]);
		rpc_tls_free(w->nodes[i].tls);
	}
	for (size_t i = 0; i < CLIENTS; i++)
		for (size_t s = 0; s < SERVERS; s++)
			rpc_client_free(w->clients[i].clients[s]);
	rpc_tls_free(w->tls);
}

static int teardown_world(void **state)
{
	struct world *w = *state;

	if (!w)
		return 0;
	free_models(w);
	for (size_t i = 0; i < SERVERS; i++) {
		if (w->servers[i].pid > 0) {
			(void)kill(w->servers[i].pid, SIGKILL);
			(void)waitpid(w->servers[i].pid, NULL, 0);
		}
		for (size_t m = 0; m < MEMBERS && !w->has_hosts; m++)
			proxy_free(w->servers[i].proxies[m]);
		(void)munmap(w->servers[i].clock_step, sizeof(*w->servers[i].clock_step));
	}
	etcd_world_free(w->etcd);
	hosts_free(&w->hosts);
	ticket_issuer_free(w->issuer);
	sd_event_unref(w->event);
	if (!getenv("HISTORY_KEEP"))
		(void)nftw(w->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	free(w);
	return 0;
}

static void await_idle(struct world *w)
{
	bool is_busy = true;

	while (is_busy) {
		step(w);
		is_busy = w->fault.is_on;
		for (size_t i = 0; i < CLIENTS; i++)
			is_busy |= w->clients[i].is_busy;
		for (size_t i = 0; i < NODES; i++)
			is_busy |= !w->nodes[i].is_welcome;
	}
}

/* Until it is answered. */
static void read_now(struct client_model *c, size_t volume)
{
	int before = c->w->n_operations;

	while (c->w->n_operations == before) {
		if (!c->is_busy && clock_monotonic_us() >= c->idle_until_us)
			start_read(c, volume);
		step(c->w);
	}
}

static void get_alloc(struct world *w, struct alloc_model *alloc)
{
	Holdfast__V1__GetAllocationRequest request = V1(get_allocation_request, .id = alloc->id);
	cleanup_pb ProtobufCMessage *response = NULL;
	enum status status = STATUS_UNAVAILABLE;
	struct error err = {.msg = ""};

	for (int i = 0; i < 100 && is_unanswered(status); i++)
		status = rpc_client_call_sync(w->clients[0].clients[i % SERVERS],
					      &holdfast__v1__allocations__descriptor, "Get", &request.base,
					      CALL_US, &response, &err);
	if (status != STATUS_OK)
		broken(w, "allocation %s was acknowledged, and is not there: %s", alloc->id, err.msg);
}

static void check_end(struct world *w)
{
	w->is_ending = true;
	await_idle(w);
	for (size_t i = 0; i < VOLUMES; i++)
		read_now(&w->clients[0], i);
	for (size_t i = 0; i < w->n_allocs; i++)
		if (w->allocs[i].fate == FATE_ACKNOWLEDGED && !w->forgets)
			get_alloc(w, &w->allocs[i]);
}

static void run_history(struct world *w)
{
	const int faults = (int)number_of("HISTORY_FAULTS", FAULTS);
	uint64_t begin_us = clock_monotonic_us();

	print_message("HISTORY_SEED=%" PRIu32 "\n", w->seed);
	w->answered_us = begin_us;
	while (w->n_faults < faults || w->fault.is_on) {
		for (size_t i = 0; i < CLIENTS; i++)
			step_client(&w->clients[i]);
		step(w);
	}
	check_end(w);
	print_message(
		"%d operations answered, %d not; %d claims granted; %d faults, %d changes of leader; %d s\n",
		w->n_operations, w->n_unknown, w->n_grants, w->n_faults, w->changes,
		(int)((clock_monotonic_us() - begin_us) / USEC_PER_SEC));
	assert_true(w->n_grants > 0);
}

TEST_FIXTURE(no_history_breaks_a_promise, setup_proxies, teardown_world)
{
	if (!*state)
		skip();
	run_history(*state);
}

TEST_FIXTURE(no_history_on_hosts_breaks_a_promise, setup_hosts, teardown_world)
{
	if (!*state)
		skip();
	run_history(*state);
}

TEST_FIXTURE(no_history_with_snapshots_has_two_writers, setup_snapshots, teardown_world)
{
	if (!*state)
		skip();
	run_history(*state);
}
