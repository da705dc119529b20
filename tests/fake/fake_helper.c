/* SPDX-License-Identifier: Apache-2.0 */
/* The program of fake_helper.h. */

#include "fake_helper.h"

#include "mounthelper_words.h"

#include "base/ofd_lock.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SOCKET = 3 };

static struct fake_state *state;
static uint64_t seq;
static uint8_t own_policy; /* of the start */
static int state_fd;

/* Instances share the model. Their end, in whatever way, gives it free. */
static void lock_state(void)
{
	while (flock(state_fd, LOCK_EX) < 0)
		;
}

static void unlock_state(void)
{
	(void)flock(state_fd, LOCK_UN);
}

/* As the real one's: another instance that works on the volume has it. */
static bool lock_volume(const char *volume)
{
	return ofd_lock(state_fd, 1 + (int64_t)(str_hash(0, volume) & INT32_MAX), 1, false) == 0;
}

static void unlock_volume(void)
{
	ofd_unlock(state_fd, 1, 0);
}

static void violate(const char *what)
{
	if (!state->violation[0])
		(void)snprintf(state->violation, sizeof(state->violation), "%s", what);
	_exit(99);
}

static void die(void)
{
	(void)kill(getpid(), SIGKILL);
}

static void hang(void)
{
	for (;;)
		(void)pause();
}

/* False: the agent has gone meanwhile. */
static bool await_go(enum fake_fault fault)
{
	struct pollfd socket = {.fd = SOCKET, .events = POLLIN};

	while (__atomic_load_n(&state->go, __ATOMIC_SEQ_CST) == 0) {
		if (poll(&socket, fault == FAKE_WAIT ? 1 : 0, 1) != 0)
			return false;
	}
	return true;
}

static void map_state(const char *program)
{
	char path[4096], folder[4096];
	int fd;

	(void)snprintf(folder, sizeof(folder), "%s", program);
	(void)snprintf(path, sizeof(path), "%s/" FAKE_STATE_NAME, dirname(folder));
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		_exit(98);
	state_fd = fd;
	state = mmap(NULL, sizeof(*state), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (state == MAP_FAILED)
		_exit(98);
}

static struct fake_mount *find(const char *volume, const char *alloc, uint8_t slot)
{
	for (size_t i = 0; i < FAKE_MOUNTS_MAX; i++) {
		struct fake_mount *mount = &state->mounts[i];

		if (!mount->is_used || strcmp(mount->alloc, alloc) != 0)
			continue;
		if (alloc[0] ? mount->slot == slot : strcmp(mount->volume, volume) == 0)
			return mount;
	}
	return NULL;
}

static struct fake_folder *folder_find(const char *volume)
{
	for (size_t i = 0; i < FAKE_FOLDERS_MAX; i++) {
		if (state->folders[i].is_used && strcmp(state->folders[i].volume, volume) == 0)
			return &state->folders[i];
	}
	return NULL;
}

static struct fake_folder *folder_make(const char *volume)
{
	struct fake_folder *folder = folder_find(volume);

	for (size_t i = 0; !folder && i < FAKE_FOLDERS_MAX; i++) {
		if (state->folders[i].is_used)
			continue;
		folder = &state->folders[i];
		memset(folder, 0, sizeof(*folder));
		folder->is_used = true;
		(void)snprintf(folder->volume, sizeof(folder->volume), "%s", volume);
	}
	if (!folder)
		violate("the model is full of folders");
	return folder;
}

static bool is_published(const char *volume)
{
	for (size_t i = 0; i < FAKE_MOUNTS_MAX; i++) {
		if (state->mounts[i].is_used && state->mounts[i].alloc[0] &&
		    strcmp(state->mounts[i].volume, volume) == 0)
			return true;
	}
	return false;
}

static struct fake_mount *add(const char *volume, const char *alloc)
{
	for (size_t i = 0; i < FAKE_MOUNTS_MAX; i++) {
		struct fake_mount *mount = &state->mounts[i];

		if (mount->is_used)
			continue;
		memset(mount, 0, sizeof(*mount));
		mount->is_used = true;
		(void)snprintf(mount->volume, sizeof(mount->volume), "%s", volume);
		(void)snprintf(mount->alloc, sizeof(mount->alloc), "%s", alloc);
		return mount;
	}
	violate("the model is full");
	return NULL;
}

static bool take(uint32_t *counter)
{
	if (*counter == 0)
		return false;
	--*counter;
	return true;
}

static uint16_t mount_bits(const struct fake_mount *mount)
{
	unsigned int bits = mount->alloc[0] ? MH_STATE_PUBLISHED : MH_STATE_STAGED;

	if (mount->read_only)
		bits |= MH_STATE_READ_ONLY;
	if (mount->exec)
		bits |= MH_STATE_EXEC;
	if (mount->propagation == TICKET_PROPAGATION_BIDIRECTIONAL)
		bits |= MH_STATE_SHARED;
	if (mount->propagation == TICKET_PROPAGATION_HOST_TO_TASK)
		bits |= MH_STATE_SLAVE;
	return (uint16_t)bits;
}

static void describe(struct mh_reply *reply, const struct fake_mount *mount)
{
	reply->state = mount_bits(mount);
	reply->dev_major = mount->major;
	reply->dev_minor = mount->minor;
}

static bool is_plugin(const char *profile)
{
	return strcmp(profile, FAKE_PLUGIN) == 0 || strcmp(profile, FAKE_OTHER_PLUGIN) == 0;
}

/* The helper makes the folders, and says whether the plugin has mounted at its target of this use, or bound a
 * device. */
static enum mh_status stage_csi(const struct mh_stage *request, struct mh_reply *reply)
{
	struct fake_folder *folder = folder_make(request->volume);
	const struct fake_place *target = &folder->targets[request->read_only];

	if (!is_plugin(request->profile) || state->refuses_csi)
		return MH_REFUSED;
	if (folder->source.class == 0)
		folder->source = request->source;
	/* NOLINTNEXTLINE(bugprone-*,cert-*): both are zero where no field is */
	if (memcmp(&folder->source, &request->source, sizeof(folder->source)) != 0) {
		reply->reason = REASON_TICKET_SOURCE;
		return MH_CONFLICT;
	}
	reply->state = MH_STATE_PREPARED;
	if (!target->is_mounted)
		return MH_OK;
	reply->state = target->is_device ? MH_STATE_PREPARED | MH_STATE_DEVICE : MH_STATE_STAGED;
	reply->dev_major = target->major;
	reply->dev_minor = target->minor;
	return target->is_device ? MH_OK : MH_ALREADY;
}

static enum mh_status do_stage(const void *bytes, struct mh_reply *reply)
{
	const struct mh_stage *request = bytes;
	struct fake_mount *mount = find(request->volume, "", 0);

	if (take(&state->not_mounted)) {
		reply->reason = REASON_NOT_MOUNTED;
		reply->policy_line = 12;
		return MH_REFUSED;
	}
	if (take(&state->refuse_stage)) {
		reply->reason = REASON_READ_ONLY;
		reply->policy_line = 12;
		return MH_REFUSED;
	}
	if (request->source.class == MH_CLASS_CSI)
		return stage_csi(request, reply);
	if (mount) {
		describe(reply, mount);
		return MH_ALREADY;
	}
	mount = add(request->volume, "");
	mount->read_only = request->read_only;
	if (request->source.class == MH_CLASS_BLOCK) {
		mount->major = request->source.u.block.major;
		mount->minor = request->source.u.block.minor;
	} else {
		mount->minor = 100 + state->next_minor++;
	}
	describe(reply, mount);
	return MH_OK;
}

static enum mh_status do_publish(const void *bytes, struct mh_reply *reply)
{
	const struct mh_publish *request = bytes;
	const struct fake_folder *folder = folder_find(request->volume);
	const struct fake_mount *staged = find(request->volume, "", 0);
	struct fake_mount *mount = find(request->volume, request->alloc, request->slot);
	struct fake_mount target = {0};

	if (take(&state->refuse_publish))
		return MH_REFUSED;
	if (folder && folder->targets[request->read_only].is_mounted) {
		target.major = folder->targets[request->read_only].major;
		target.minor = folder->targets[request->read_only].minor;
		staged = &target;
	}
	if (!staged)
		return MH_NOT_FOUND;
	if (mount) {
		describe(reply, mount);
		return strcmp(mount->volume, request->volume) == 0 ? MH_ALREADY : MH_CONFLICT;
	}
	mount = add(request->volume, request->alloc);
	mount->slot = request->slot;
	mount->read_only = state->weak_publish ? 0 : request->read_only;
	mount->exec = state->weak_publish ? 1 : request->exec;
	mount->propagation = state->deaf_to_propagation ? 0 : request->propagation;
	mount->major = staged->major;
	mount->minor = staged->minor;
	describe(reply, mount);
	return MH_OK;
}

static enum mh_status do_unpublish(const void *bytes, struct mh_reply *reply)
{
	const struct mh_unpublish *request = bytes;
	struct fake_mount *mount = find(request->volume, request->alloc, request->slot);

	if (!mount)
		return MH_OK;
	if (strcmp(mount->volume, request->volume) != 0)
		return MH_CONFLICT;
	if (take(&state->busy_unpublish))
		return MH_BUSY;
	mount->is_used = false;
	return MH_OK;
}

/* What the plugin left goes with the folders, but a device, which is nothing that the helper takes away. */
static enum mh_status unstage_csi(struct fake_folder *folder, struct mh_reply *reply)
{
	const struct fake_place *places[] = {&folder->staging, &folder->targets[0], &folder->targets[1]};

	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
		if (places[i]->is_mounted && places[i]->is_device) {
			reply->sys_errno = ENOTDIR;
			return MH_BUSY;
		}
		state->plugin_left += places[i]->is_mounted;
	}
	folder->is_used = false;
	if (state->sb_alive)
		reply->state = MH_STATE_SB_ALIVE;
	return MH_OK;
}

static enum mh_status do_unstage(const void *bytes, struct mh_reply *reply)
{
	const struct mh_unstage *request = bytes;
	struct fake_mount *mount = find(request->volume, "", 0);
	struct fake_folder *folder = folder_find(request->volume);

	if ((folder || mount) && (folder ? !is_plugin(request->profile) : request->profile[0] != '\0'))
		return MH_CONFLICT;
	if (folder && (is_published(request->volume) || take(&state->busy_unstage)))
		return MH_BUSY;
	if (folder)
		return unstage_csi(folder, reply);
	if (!mount)
		return MH_NOT_FOUND;
	if (is_published(request->volume) || take(&state->busy_unstage))
		return MH_BUSY;
	mount->is_used = false;
	if (state->sb_alive)
		reply->state = MH_STATE_SB_ALIVE;
	return MH_OK;
}

static enum mh_status do_look(const void *bytes, struct mh_reply *reply)
{
	const struct mh_list *request = bytes;
	const bool is_native = request->profile[0] == '\0';
	const struct fake_folder *folder = is_native ? NULL : folder_find(request->volume);
	const struct fake_mount *mount = is_native ? find(request->volume, "", 0) : NULL;

	if (take(&state->fail_look))
		return MH_KERNEL;
	if (!is_native && !is_plugin(request->profile))
		return MH_NOT_FOUND;
	if (mount)
		describe(reply, mount);
	else if (folder)
		reply->state = folder->targets[0].is_mounted || folder->targets[1].is_mounted
				       ? MH_STATE_STAGED
				       : MH_STATE_PREPARED;
	return mount || folder ? MH_OK : MH_NOT_FOUND;
}

/* A staged volume of class csi: one of its targets, after all others. */
static bool target_at(size_t i, struct mh_list_entry *ret)
{
	const struct fake_folder *folder = &state->folders[i / 2];
	const struct fake_place *target = &folder->targets[i % 2];

	memset(ret, 0, sizeof(*ret));
	if (!folder->is_used || !target->is_mounted)
		return false;
	memcpy(ret->volume, folder->volume, sizeof(ret->volume));
	ret->dev_major = target->major;
	ret->dev_minor = target->minor;
	ret->state = MH_STATE_STAGED;
	return true;
}

static bool entry_at(enum mh_list_kind kind, size_t i, struct mh_list_entry *ret)
{
	const struct fake_mount *mount = &state->mounts[i < FAKE_MOUNTS_MAX ? i : 0];

	memset(ret, 0, sizeof(*ret));
	if (i >= FAKE_MOUNTS_MAX)
		return kind == MH_LIST_STAGED && target_at(i - FAKE_MOUNTS_MAX, ret);
	if (kind == MH_LIST_PROFILES) {
		if (i >= state->n_profiles)
			return false;
		memcpy(ret->volume, state->profiles[i].name, sizeof(ret->volume));
		ret->class = state->profiles[i].class;
		ret->state = state->profiles[i].is_available ? MH_STATE_AVAILABLE : 0;
		return true;
	}
	if (!mount->is_used || (mount->alloc[0] != '\0') != (kind == MH_LIST_PUBLISHED))
		return false;
	memcpy(kind == MH_LIST_STAGED ? ret->volume : ret->alloc,
	       kind == MH_LIST_STAGED ? mount->volume : mount->alloc,
	       kind == MH_LIST_STAGED ? sizeof(ret->volume) : sizeof(ret->alloc));
	ret->slot = mount->slot;
	ret->dev_major = mount->major;
	ret->dev_minor = mount->minor;
	ret->state = mount_bits(mount);
	return true;
}

static uint32_t list_cursor; /* as the helper has it: of the page that may come next */

/* Pages of two, so that every test reads several. */
static void do_list(const struct mh_list *request)
{
	struct mh_list_reply reply = {.header = request->header};
	bool is_lost = request->cursor != 0 && (request->cursor != list_cursor || take(&state->pages_lost));

	reply.header.length = sizeof(reply);
	if (is_lost)
		reply.status = MH_CONFLICT;
	for (size_t i = request->cursor; !is_lost && i < FAKE_MOUNTS_MAX + 2 * FAKE_FOLDERS_MAX; i++) {
		if (!entry_at(request->kind, i, &reply.entries[reply.count]))
			continue;
		if (++reply.count < 2)
			continue;
		reply.cursor = (uint32_t)i + 1;
		break;
	}
	list_cursor = reply.cursor;
	(void)send(SOCKET, &reply, sizeof(reply), MSG_NOSIGNAL);
}

static const struct {
	size_t size;
	enum mh_status (*run)(const void *bytes, struct mh_reply *reply);
} ops[MH_OP_N] = {
	[MH_OP_STAGE] = {sizeof(struct mh_stage), do_stage},
	[MH_OP_PUBLISH] = {sizeof(struct mh_publish), do_publish},
	[MH_OP_UNPUBLISH] = {sizeof(struct mh_unpublish), do_unpublish},
	[MH_OP_UNSTAGE] = {sizeof(struct mh_unstage), do_unstage},
	[MH_OP_LIST] = {sizeof(struct mh_list), do_look},
};

/* First in every request but LIST. */
static const char *volume_of(const void *bytes)
{
	const struct mh_list *list = bytes;

	return list->header.op == MH_OP_LIST ? list->volume : ((const struct mh_publish *)bytes)->volume;
}

static void record(uint16_t op, const void *bytes, uint16_t status)
{
	struct fake_log *log = &state->log[state->n_log % FAKE_LOG_MAX];
	const struct mh_unpublish *unpublish = bytes;
	const struct mh_publish *publish = bytes;

	memset(log, 0, sizeof(*log));
	log->op = op;
	log->status = status;
	log->pid = getpid();
	memcpy(log->volume, volume_of(bytes), sizeof(log->volume));
	if (op == MH_OP_STAGE)
		log->class = ((const struct mh_stage *)bytes)->source.class;
	if (op == MH_OP_PUBLISH) {
		memcpy(log->alloc, publish->alloc, sizeof(log->alloc));
		log->slot = publish->slot;
	} else if (op == MH_OP_UNPUBLISH) {
		memcpy(log->alloc, unpublish->alloc, sizeof(log->alloc));
		log->slot = unpublish->slot;
	}
	state->n_log++;
}

static enum fake_fault next_fault(const void *bytes)
{
	uint32_t call;

	if (strncmp(state->fault_volume, volume_of(bytes), strlen(state->fault_volume)) != 0)
		return FAKE_FAULT_NONE;
	call = ++state->calls;
	if (state->fault_call == 0 || call < state->fault_call ||
	    call >= state->fault_call + state->fault_calls)
		return FAKE_FAULT_NONE;
	return state->fault;
}

/* The answer to a list of one volume. */
static void answer_look(const void *bytes, const struct mh_reply *said)
{
	struct mh_list_reply reply = {.header = said->header,
				      .status = said->status == MH_NOT_FOUND ? (uint16_t)MH_OK : said->status,
				      .sys_errno = said->sys_errno,
				      .count = said->status == MH_OK,
				      .entries[0] = {.dev_major = said->dev_major,
						     .dev_minor = said->dev_minor,
						     .state = said->state}};

	if (reply.count > 0)
		memcpy(reply.entries[0].volume, volume_of(bytes), sizeof(reply.entries[0].volume));
	reply.header.length = sizeof(reply);
	(void)send(SOCKET, &reply, sizeof(reply), MSG_NOSIGNAL);
}

static void answer(struct mh_reply *reply, enum fake_fault fault)
{
	uint8_t big[MH_MESSAGE_MAX + 8] = {0};
	size_t n = sizeof(*reply);

	if (fault == FAKE_WRONG_SEQ)
		reply->header.seq++;
	if (fault == FAKE_OVERSIZE)
		n = sizeof(big);
	if (fault == FAKE_SHORT)
		n = sizeof(*reply) - 1;
	memcpy(big, reply, sizeof(*reply));
	(void)send(SOCKET, big, n, MSG_NOSIGNAL);
	if (fault == FAKE_TWICE)
		(void)send(SOCKET, big, n, MSG_NOSIGNAL);
}

/* What else is BUSY has a step at which it was. */
static void run(const void *bytes, bool has_volume, struct mh_reply *reply)
{
	uint16_t op = reply->header.op;

	reply->header.length = sizeof(*reply);
	if (has_volume && op != MH_OP_LIST && take(&state->no_trail)) {
		reply->status = MH_UNAVAILABLE;
		reply->step = STEP_TRAIL;
		return;
	}
	reply->record = has_volume ? state->calls - state->records_lost : 0;
	memset(reply->head, (int)reply->record, sizeof(reply->head));
	reply->status = (uint16_t)(has_volume ? ops[op].run(bytes, reply) : MH_BUSY);
	if (has_volume && reply->status == MH_BUSY)
		reply->step = STEP_UNMOUNT;
	record(op, bytes, reply->status);
}

static bool is_over_rate(void)
{
	return state->rate.cost_us > 0 && !rate_take(&state->rate, state->now_us);
}

static void reply_over_rate(struct mh_reply *reply)
{
	state->over_rate++;
	reply->header.length = sizeof(*reply);
	reply->status = MH_LIMIT;
	reply->reason = REASON_RATE;
}

static void refuse_list(const void *bytes)
{
	struct mh_list_reply reply = {.header = *(const struct mh_header *)bytes, .status = MH_LIMIT};

	state->over_rate++;
	reply.header.length = sizeof(reply);
	(void)send(SOCKET, &reply, sizeof(reply), MSG_NOSIGNAL);
}

static void refuse_last(const struct mh_header *header)
{
	uint8_t bytes[sizeof(struct mh_list_reply)] = {0};
	struct mh_reply reply = {.header = *header, .status = MH_REPLACED};

	state->replaced++;
	reply.header.length =
		header->op == MH_OP_LIST ? sizeof(struct mh_list_reply) : sizeof(struct mh_reply);
	memcpy(bytes, &reply, offsetof(struct mh_reply, sys_errno));
	(void)send(SOCKET, bytes, reply.header.length, MSG_NOSIGNAL);
	_exit(0);
}

static void serve(const void *bytes, size_t n)
{
	const struct mh_header *header = bytes;
	struct mh_reply reply = {.header = *header};
	enum fake_fault fault;
	bool has_volume;

	if (n < sizeof(*header) || header->length != n || header->seq != ++seq)
		violate("header");
	if (header->op == MH_OP_ACK) {
		if (seq != 1)
			violate("ACK out of order");
		return;
	}
	if (seq == 1)
		violate("request before ACK");
	if (state->policy != own_policy || state->policy_never_stays)
		refuse_last(header);
	if (header->op == MH_OP_LIST && volume_of(bytes)[0] == '\0') {
		lock_state();
		state->lists++;
		state->lists_beside += state->in_flight > 0;
		state->list_pid = getpid();
		if (take(&state->lists_over_rate))
			refuse_list(bytes);
		else
			do_list(bytes);
		unlock_state();
		return;
	}
	list_cursor = 0;
	if (header->op >= MH_OP_N || !ops[header->op].run || ops[header->op].size != n)
		violate("operation");
	lock_state();
	fault = next_fault(bytes);
	if (fault == FAKE_DIE_BEFORE)
		die();
	if (++state->in_flight > state->in_flight_max)
		state->in_flight_max = state->in_flight;
	unlock_state();
	if (fault == FAKE_HANG)
		hang();
	has_volume = header->op == MH_OP_LIST || (!take(&state->locked) && lock_volume(volume_of(bytes)));
	if ((fault == FAKE_WAIT || fault == FAKE_LATE) && !await_go(fault))
		fault = FAKE_DIE_BEFORE;
	lock_state();
	state->in_flight--;
	if (fault == FAKE_DIE_BEFORE)
		_exit(0);
	if (header->op != MH_OP_LIST && is_over_rate())
		reply_over_rate(&reply);
	else
		run(bytes, has_volume, &reply);
	if (fault == FAKE_DIE_AFTER)
		die();
	unlock_volume();
	unlock_state();
	if (header->op == MH_OP_LIST)
		answer_look(bytes, &reply);
	else
		answer(&reply, fault);
}

static void fail_to_start(void)
{
	struct mh_failure failure = {
		.header = {.magic = MH_MAGIC,
			   .version = MH_VERSION,
			   .op = MH_OP_FAILURE,
			   .length = sizeof(failure)},
		.word = state->start_word,
		.sys_errno = EPERM,
		.number = 1024,
		.detail = "nofile",
	};

	(void)send(SOCKET, &failure, sizeof(failure), MSG_NOSIGNAL);
	_exit(state->start_code);
}

static void start(void)
{
	struct mh_hello hello = {
		.header = {.magic = MH_MAGIC,
			   .version = MH_VERSION,
			   .op = MH_OP_HELLO,
			   .length = sizeof(hello)},
		.cluster = "test",
		.node = "n1",
		.publish_base = FAKE_PUBLISH_BASE,
		.stage_base = FAKE_STAGE_BASE,
		.helper_pid = (uint32_t)getpid(),
		.policy_digest = {state->policy},
		.launch_mode = state->launch_mode ? state->launch_mode : 1,
		.ticket_optional = state->ticket_optional,
		.trail = state->hello_trail,
	};
	enum fake_start how;

	own_policy = hello.policy_digest[0];
	lock_state();
	how = state->start_times > 0 ? state->start : FAKE_START_OK;
	state->pids[state->starts++ % FAKE_PIDS_MAX] = getpid();
	if (state->start_times > 0)
		state->start_times--;
	unlock_state();
	if (how == FAKE_START_FAILURE)
		fail_to_start();
	if (how == FAKE_START_EXIT) {
		if (!state->start_silently)
			(void)dprintf(STDERR_FILENO, "refused to start\nsecond line\n");
		_exit(state->start_code);
	}
	if (how == FAKE_START_MUTE)
		hang();
	if (how == FAKE_START_VERSION)
		hello.header.version++;
	(void)send(SOCKET, &hello, sizeof(hello), MSG_NOSIGNAL);
}

int main(int argc, char **argv)
{
	uint8_t bytes[MH_MESSAGE_MAX] __attribute__((aligned(8)));
	ssize_t n;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	(void)prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); /* a test traces it */
	if (argc != 1)
		return 97;
	map_state(argv[0]);
	start();
	while ((n = recv(SOCKET, bytes, sizeof(bytes), 0)) > 0)
		serve(bytes, (size_t)n);
	return 0;
}
