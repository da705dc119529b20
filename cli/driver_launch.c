/* SPDX-License-Identifier: Apache-2.0 */
/* For authors of task drivers: start one in a folder of its own, set it as an agent does, and make its calls
 * by hand, with orders that a key of this session signs. */

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/str.h"
#include "base/uuid.h"
#include "command/commands.h"
#include "command/request.h"
#include "conf/conf.h"
#include "model/order.h"
#include "rpc/client.h"
#include "show/output.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <holdfast/driver/v1/driver.pb-c.h>
#include <limits.h>
#include <openssl/evp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define SERVICE (&holdfast__driver__v1__driver__descriptor)
#define BOOT_ID_PATH "/proc/sys/kernel/random/boot_id"
#define PLACE "launch" /* cluster and node of the session's orders */

/* in the session's folder */
#define OWN "driver"
#define SETTINGS "settings.hcl"
#define SOCKET "driver.sock" /* below OWN */
#define FOLDER_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

static const uint64_t ANSWER_US = 660 * USEC_PER_SEC; /* WaitTask answers within ten minutes */
static const uint64_t START_US = 10 * USEC_PER_SEC;

enum {
	BOOT_ID_FILE_MAX = 64,
	TEMPLATE_MAX = 256 << 10,
	KEY_TEXT_SIZE = 2 * ORDER_KEY_SIZE + 1,
	POLL_US = 20000,
	END_POLLS = 500,
};

struct launch {
	struct invocation *inv;
	char folder[64];
	char own[80];	       /* the driver's, below it: socket and state */
	int folder_fd, own_fd; /* or negative */
	char socket[100];
	char settings[80];
	char key_text[KEY_TEXT_SIZE];
	uint8_t seed[ORDER_KEY_SIZE];
	uint8_t boot_id[ORDER_UUID_SIZE];
	char alloc_id[UUID_SIZE];
	char driver[ORDER_LABEL_SIZE]; /* what it calls itself */
	uid_t uid;
	gid_t gid;
	pid_t pid; /* 0: it was not started */
	sd_event *event;
	struct rpc_client *client;
};

static volatile sig_atomic_t is_interrupted;
static volatile sig_atomic_t driver_pid; /* also its session and group; 0: no driver to end */

static void on_interrupt(int number)
{
	is_interrupted = 1;
	if (driver_pid > 0) /* a call that waits for it ends with it */
		(void)kill(-driver_pid, SIGTERM);
}

/* ---- the session's key, and the contents of orders ---- */

static enum status make_key(struct launch *l, struct error *err)
{
	uint8_t key[ORDER_KEY_SIZE];
	size_t n = sizeof(key);
	EVP_PKEY *pair = NULL;
	bool is_made = false;

	if (getrandom(l->seed, sizeof(l->seed), 0) == sizeof(l->seed))
		pair = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, l->seed, sizeof(l->seed));
	is_made = pair && EVP_PKEY_get_raw_public_key(pair, key, &n) == 1;
	EVP_PKEY_free(pair);
	if (!is_made)
		return error_set(err, STATUS_INTERNAL, 0, "cannot make the key of the session");
	hex_encode(l->key_text, key, sizeof(key));
	return STATUS_OK;
}

static enum status read_boot_id(struct launch *l, struct error *err)
{
	cleanup_free char *line = NULL;
	int r = file_read(BOOT_ID_PATH, BOOT_ID_FILE_MAX, &line, NULL);

	if (r < 0)
		return error_set(err, status_from_errno(r), r, "cannot read " BOOT_ID_PATH);
	line[strcspn(line, "\n")] = '\0';
	return id_uuid_bytes(line, l->boot_id)
		       ? STATUS_OK
		       : error_set(err, STATUS_INTERNAL, 0, BOOT_ID_PATH " holds no UUID");
}

/* ---- its folder ---- */

static enum status find_user(struct launch *l, struct error *err)
{
	const char *name = l->inv->options[OPT_USER];
	const struct passwd *user = name ? getpwnam(name) : NULL;

	l->uid = user ? user->pw_uid : geteuid();
	l->gid = user ? user->pw_gid : getegid();
	if (name && !user)
		return usage_error(l->inv, err, "--user: there is no user %s on this machine", name);
	return STATUS_OK;
}

static enum status make_folder(struct launch *l, struct error *err)
{
	(void)str_copy(l->folder, sizeof(l->folder),
		       geteuid() == 0 ? "/run/holdfast-launch-XXXXXX" : "/tmp/holdfast-launch-XXXXXX");
	if (!mkdtemp(l->folder)) {
		int e = errno;

		l->folder[0] = '\0';
		return error_set(err, status_from_errno(e), e, "cannot make a folder for the driver");
	}
	(void)str_format(l->own, sizeof(l->own), "%s/" OWN, l->folder);
	(void)str_format(l->socket, sizeof(l->socket), "%s/" SOCKET, l->own);
	(void)str_format(l->settings, sizeof(l->settings), "%s/" SETTINGS, l->folder);
	/* the driver's account has to find its own below it */
	l->folder_fd = open(l->folder, FOLDER_FLAGS);
	if (l->folder_fd < 0 || fchmod(l->folder_fd, 0711) < 0 || mkdirat(l->folder_fd, OWN, 0700) < 0 ||
	    (l->own_fd = openat(l->folder_fd, OWN, FOLDER_FLAGS)) < 0 ||
	    fchown(l->own_fd, l->uid, l->gid) < 0)
		return error_set(err, status_from_errno(errno), errno, "cannot make %s", l->own);
	return STATUS_OK;
}

/* Removes what this program made and the socket, and never what else the driver has put into its folder:
 * that belongs to another account. */
static void remove_folder(const struct launch *l)
{
	const char *user = l->inv->options[OPT_USER];

	if (l->folder[0] == '\0')
		return;
	(void)unlinkat(l->folder_fd, SETTINGS, 0);
	(void)unlinkat(l->own_fd, SOCKET, 0);
	if ((unlinkat(l->folder_fd, OWN, AT_REMOVEDIR) == 0 || errno == ENOENT) && rmdir(l->folder) == 0)
		return;
	(void)fprintf(
		stderr,
		"holdfast: the driver has left files in %s, which is kept. Next, to remove it: (cd %s && "
		"%s%s%sfind . -xdev -mindepth 1 -delete) && rmdir %s %s\n",
		l->own, l->own, user ? "runuser -u " : "", user ? user : "", user ? " -- " : "", l->own,
		l->folder);
}

/* Replaces the names in braces in @text. @ret owned by the caller */
static enum status fill_in(const struct launch *l, const char *text, char **ret, struct error *err)
{
	const struct {
		const char *word, *value;
	} words[] = {{"{socket}", l->socket}, {"{folder}", l->own}, {"{settings}", l->settings},
		     {"{key}", l->key_text},  {"{cluster}", PLACE}, {"{node}", PLACE}};
	size_t n = 0;
	FILE *out = open_memstream(ret, &n);

	if (!out)
		return error_no_memory(err, "the driver's settings");
	while (*text != '\0') {
		size_t i = 0;

		while (i < ARRAY_SIZE(words) && !str_starts_with(text, words[i].word))
			i++;
		if (i < ARRAY_SIZE(words)) {
			(void)fputs(words[i].value, out);
			text += strlen(words[i].word);
		} else {
			(void)fputc(*text++, out);
		}
	}
	return fclose(out) == 0 ? STATUS_OK : error_no_memory(err, "the driver's settings");
}

/* Writes root's file of the driver, with the key that it must trust. */
static enum status write_settings(struct launch *l, struct error *err)
{
	const char *path = l->inv->options[OPT_TEMPLATE];
	cleanup_free char *text = NULL;
	cleanup_free char *filled = NULL;
	cleanup_close int fd = -EBADF;
	int r;

	if (!path)
		return STATUS_OK;
	r = file_read(path, TEMPLATE_MAX, &text, NULL);
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "cannot read %s", path);
	TRY(fill_in(l, text, &filled, err));
	fd = openat(l->folder_fd, SETTINGS, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0 || fchmod(fd, 0644) < 0 || write(fd, filled, strlen(filled)) != (ssize_t)strlen(filled))
		return error_set(err, STATUS_INTERNAL, errno, "cannot write %s", l->settings);
	return STATUS_OK;
}

/* ---- the program ---- */

static int replace(int fd, const char *path, int flags)
{
	cleanup_close int fresh = open(path, flags | O_NOCTTY | O_CLOEXEC);

	return fresh < 0 ? fresh : dup2(fresh, fd);
}

/* The program may be another account's: it gets no terminal into which it could type, as TIOCSTI does, and
 * reads neither a terminal nor the calls. */
static bool leave_terminal(void)
{
	if (setsid() < 0 || replace(STDIN_FILENO, "/dev/null", O_RDONLY) < 0)
		return false;
	if (isatty(STDOUT_FILENO) && replace(STDOUT_FILENO, "/proc/self/fd/1", O_WRONLY) < 0)
		return false;
	return !isatty(STDERR_FILENO) || replace(STDERR_FILENO, "/proc/self/fd/2", O_WRONLY) >= 0;
}

_Noreturn static void become(const struct launch *l, char **argv)
{
	const char *name = l->inv->options[OPT_USER];

	assert(argv[0]);
	(void)prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (leave_terminal() &&
	    (!name || (initgroups(name, l->gid) == 0 && setgid(l->gid) == 0 && setuid(l->uid) == 0))) {
		if (name)
			(void)prctl(PR_SET_PDEATHSIG, SIGTERM); /* forgotten with the change of uid */
		(void)execvp(argv[0], argv);
	}
	(void)fprintf(stderr, "holdfast: driver launch: %s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

/* It is not reaped before its group has ended, whose number would be free for another one. */
static bool has_ended(const struct launch *l)
{
	siginfo_t info = {0};

	return l->pid == 0 || (waitid(P_PID, (id_t)l->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
			       info.si_pid == l->pid);
}

static enum status launch_start(struct launch *l, struct error *err)
{
	int n = l->inv->n_behind;
	cleanup_free char **argv = calloc((size_t)n + 1, sizeof(*argv));
	enum status status = argv ? STATUS_OK : error_no_memory(err, "start the driver");

	for (int i = 0; status == STATUS_OK && i < n; i++)
		status = fill_in(l, l->inv->args[l->inv->n_args - n + i], &argv[i], err);
	(void)fflush(stdout);
	if (status == STATUS_OK) {
		l->pid = fork();
		if (l->pid == 0)
			become(l, argv);
		while (l->pid > 0 && getsid(l->pid) != l->pid && !has_ended(l))
			(void)usleep(POLL_US); /* the group exists before it is ended */
		driver_pid = l->pid > 0 ? l->pid : 0;
	}
	for (int i = 0; argv && i < n; i++)
		free(argv[i]);
	if (l->pid < 0) {
		l->pid = 0;
		return error_set(err, STATUS_INTERNAL, errno, "cannot start the driver");
	}
	return status;
}

static void end_driver(struct launch *l)
{
	if (l->pid == 0)
		return;
	(void)kill(-l->pid, SIGTERM);
	for (int i = 0; i < END_POLLS && !has_ended(l); i++)
		(void)usleep(POLL_US);
	(void)kill(-l->pid, SIGKILL);
	driver_pid = 0;
	(void)waitpid(l->pid, NULL, 0);
}

static void launch_end(struct launch *l)
{
	end_driver(l);
	rpc_client_free(l->client);
	(void)sd_event_unref(l->event);
	remove_folder(l);
	close_fdp(&l->own_fd);
	close_fdp(&l->folder_fd);
	explicit_bzero(l->seed, sizeof(l->seed));
}

static bool is_listening(const char *path)
{
	cleanup_close int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	return fd >= 0 && str_copy(address.sun_path, sizeof(address.sun_path), path) >= 0 &&
	       connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;
}

static enum status wait_socket(struct launch *l, struct error *err)
{
	uint64_t deadline_us = clock_monotonic_us() + START_US;

	while (!is_listening(l->socket)) {
		if (has_ended(l))
			return error_set(err, STATUS_FAILED_PRECONDITION, 0,
					 "the driver ended before it listened at %s", l->socket);
		if (is_interrupted || clock_monotonic_us() > deadline_us)
			return error_set(err, STATUS_DEADLINE_EXCEEDED, 0,
					 "the driver does not listen at %s. Next: put {socket} into its "
					 "arguments or --template",
					 l->socket);
		(void)usleep(POLL_US);
	}
	return STATUS_OK;
}

static enum status call(struct launch *l, const char *method, const void *request, void *ret,
			struct error *err)
{
	return rpc_client_call_sync(l->client, SERVICE, method, request, ANSWER_US, ret, err);
}

/* ---- SetConfig, as an agent does: what ConfigSchema names ---- */

static const char *member_of(Holdfast__Driver__V1__ConfigType type)
{
	static const char *const members[] = {"", "text", "number", "flag", "list", "map"};

	return (size_t)type < ARRAY_SIZE(members) ? members[type] : "";
}

static json_t *pairs_of(json_t *object)
{
	json_t *pairs = json_array();
	const char *key;
	json_t *one;

	json_object_foreach (object, key, one)
		(void)json_array_append_new(pairs, json_pack("{ss sO}", "key", key, "value", one));
	return pairs;
}

static enum status map_config(const struct conf *conf,
			      const Holdfast__Driver__V1__ConfigSchemaResponse *schema, json_t *list,
			      struct error *err)
{
	json_t *root = conf_root(conf);
	const char *key;
	json_t *one;

	json_object_foreach (root, key, one) {
		size_t i = 0;
		const char *member;

		while (i < schema->n_driver && !str_eq(schema->driver[i]->key, key))
			i++;
		if (i == schema->n_driver)
			return conf_error(conf, root, key, err,
					  "%s: ConfigSchema of the driver has no such key", key);
		member = member_of(schema->driver[i]->type);
		(void)json_array_append_new(
			list, json_is_object(one) ? json_pack("{ss so}", "key", key, member, pairs_of(one))
						  : json_pack("{ss sO}", "key", key, member, one));
	}
	for (size_t i = 0; i < schema->n_driver; i++)
		if (schema->driver[i]->required && !json_object_get(root, schema->driver[i]->key))
			return conf_error(conf, root, NULL, err, "%s is missing, which ConfigSchema requires",
					  schema->driver[i]->key);
	return STATUS_OK;
}

static enum status make_config(struct launch *l, const Holdfast__Driver__V1__ConfigSchemaResponse *schema,
			       ProtobufCMessage **ret, struct error *err)
{
	struct conf *conf = NULL;
	json_t *list = json_array();
	enum status status = STATUS_OK;

	if (l->inv->options[OPT_CONFIG])
		status = conf_load(l->inv->options[OPT_CONFIG], &conf, err);
	if (status == STATUS_OK && conf)
		status = map_config(conf, schema, list, err);
	conf_free(conf);
	if (status != STATUS_OK) {
		json_decref(list);
		return status;
	}
	return request_make(&holdfast__driver__v1__set_config_request__descriptor,
			    json_pack("{so}", "config", list), ret, err);
}

static enum status set_up(struct launch *l, struct error *err)
{
	static const Holdfast__Driver__V1__CapabilitiesRequest who =
		HOLDFAST__DRIVER__V1__CAPABILITIES_REQUEST__INIT;
	static const Holdfast__Driver__V1__ConfigSchemaRequest what =
		HOLDFAST__DRIVER__V1__CONFIG_SCHEMA_REQUEST__INIT;
	const struct rpc_endpoint endpoint = {.unix_path = l->socket};
	Holdfast__Driver__V1__CapabilitiesResponse *capabilities = NULL;
	Holdfast__Driver__V1__ConfigSchemaResponse *schema = NULL;
	ProtobufCMessage *config = NULL;
	ProtobufCMessage *answer = NULL;
	enum status status = sd_event_new(&l->event) < 0 ? error_no_memory(err, "an event loop") : STATUS_OK;

	if (status == STATUS_OK)
		status = rpc_client_new(l->event, &endpoint, &l->client, err);
	if (status == STATUS_OK)
		status = call(l, "Capabilities", &who, &capabilities, err);
	if (status == STATUS_OK && str_copy(l->driver, sizeof(l->driver), capabilities->name) < 0)
		status = error_set(err, STATUS_INVALID_ARGUMENT, 0, "the name of the driver is too long");
	if (status == STATUS_OK)
		status = call(l, "ConfigSchema", &what, &schema, err);
	if (status == STATUS_OK)
		status = make_config(l, schema, &config, err);
	if (status == STATUS_OK)
		status = call(l, "SetConfig", config, &answer, err);
	protobuf_c_message_free_unpacked((void *)capabilities, NULL);
	protobuf_c_message_free_unpacked((void *)schema, NULL);
	protobuf_c_message_free_unpacked(config, NULL);
	protobuf_c_message_free_unpacked(answer, NULL);
	return status;
}

/* ---- one call ---- */

/* Calls that carry an order: the typed request is the order's body. */
static const struct ordered {
	const char *method, *field;
	const ProtobufCMessageDescriptor *body;
	enum order_kind kind;
} ordered[] = {
	{"StartTask", "task", &holdfast__driver__v1__task_config__descriptor, ORDER_START},
	{"ExecTask", "command", &holdfast__driver__v1__exec_command__descriptor, ORDER_EXEC},
	{"ExecTaskStreaming", "command", &holdfast__driver__v1__exec_command__descriptor, ORDER_EXEC},
	{"CreateNetwork", "network", &holdfast__driver__v1__network_config__descriptor, ORDER_NETWORK},
};

static void set_default(json_t *object, const ProtobufCMessageDescriptor *of, const char *key,
			const char *value)
{
	if (protobuf_c_message_descriptor_get_field_by_name(of, key) && !json_object_get(object, key))
		(void)json_object_set_new(object, key, json_string(value));
}

static void set_defaults(const struct launch *l, json_t *object, const ProtobufCMessageDescriptor *of)
{
	set_default(object, of, "alloc_id", l->alloc_id);
	set_default(object, of, "driver", l->driver);
	set_default(object, of, "task", "main");
}

static enum status sign(const struct launch *l, const struct ordered *kind, const ProtobufCMessage *body,
			const ProtobufCBinaryData *packed, struct order *ret, struct error *err)
{
	/* alloc_id and task are the first fields of each body; a network has no task */
	const Holdfast__Driver__V1__ExecCommand *named = (const void *)body;

	*ret = (struct order){.magic = ORDER_MAGIC,
			      .version = ORDER_VERSION,
			      .kind = (uint8_t)kind->kind,
			      .cluster = PLACE,
			      .node = PLACE,
			      .who = "holdfast driver launch",
			      .not_after_ms = (uint64_t)clock_realtime_ms() + ORDER_VALID_MS};
	(void)str_copy(ret->driver, sizeof(ret->driver), l->driver);
	memcpy(ret->boot_id, l->boot_id, sizeof(ret->boot_id));
	if (kind->kind != ORDER_NETWORK && str_copy(ret->task, sizeof(ret->task), named->task) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "the name of the task is too long");
	if (!id_uuid_bytes(named->alloc_id, ret->alloc))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "alloc_id is no UUID");
	if (getrandom(ret->nonce, sizeof(ret->nonce), 0) != sizeof(ret->nonce))
		return error_set(err, STATUS_INTERNAL, errno, "cannot make a nonce");
	order_digest(packed->data, packed->len, ret->digest);
	return order_sign(ret, l->seed, err);
}

static void set_bytes(ProtobufCMessage *message, const char *field, const void *bytes, size_t n)
{
	const ProtobufCFieldDescriptor *of =
		protobuf_c_message_descriptor_get_field_by_name(message->descriptor, field);
	ProtobufCBinaryData *at = (ProtobufCBinaryData *)(void *)((char *)message + of->offset);

	at->data = malloc(n);
	at->len = at->data ? n : 0;
	if (at->data)
		memcpy(at->data, bytes, n);
}

/* Makes the request of @kind around the order's body. */
static enum status make_ordered(const struct launch *l, const struct ordered *kind,
				const ProtobufCMessageDescriptor *input, json_t *json, ProtobufCMessage **ret,
				struct error *err)
{
	ProtobufCMessage *body = NULL;
	ProtobufCBinaryData packed = {0};
	struct order order;
	enum status status;

	set_defaults(l, json, kind->body);
	TRY(request_make(kind->body, json, &body, err));
	packed.len = protobuf_c_message_get_packed_size(body);
	packed.data = malloc(packed.len);
	status = packed.data ? STATUS_OK : error_no_memory(err, "an order");
	if (status == STATUS_OK) {
		(void)protobuf_c_message_pack(body, packed.data);
		status = sign(l, kind, body, &packed, &order, err);
	}
	if (status == STATUS_OK)
		status = request_make(input, json_object(), ret, err);
	if (status == STATUS_OK) {
		set_bytes(*ret, "order", &order, sizeof(order));
		set_bytes(*ret, kind->field, packed.data, packed.len);
	}
	free(packed.data);
	protobuf_c_message_free_unpacked(body, NULL);
	return status;
}

static enum status show(const struct launch *l, const ProtobufCMessage *answer, struct error *err)
{
	enum status status =
		l->inv->options[OPT_JSON] ? print_answer_line(answer, err) : print_answer(answer, err);

	(void)fflush(stdout);
	return status;
}

static enum status make_request(const struct launch *l, const char *method,
				const ProtobufCMessageDescriptor *of, json_t *json, ProtobufCMessage **ret,
				struct error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(ordered); i++)
		if (str_eq(ordered[i].method, method))
			return make_ordered(l, &ordered[i], of, json, ret, err);
	set_defaults(l, json, of);
	return request_make(of, json, ret, err);
}

/* Messages to send on a stream, in this order. */
struct stream_input {
	const ProtobufCMessage *messages[3];
	size_t n;
};

/* A stream: its first message, of logs and a command all of them. */
struct listening {
	const struct launch *l;
	struct rpc_stream *stream;
	bool is_all, is_done;
	enum status status;
	struct error err;
};

static void on_message(struct rpc_stream *stream, const ProtobufCMessage *message, void *userdata)
{
	struct listening *at = userdata;

	if (at->is_done)
		return;
	at->status = show(at->l, message, &at->err);
	at->is_done = !at->is_all || at->status != STATUS_OK;
}

static void on_closed(struct rpc_stream *stream, enum status status, const struct error *err, void *userdata)
{
	struct listening *at = userdata;

	at->stream = NULL;
	if (!at->is_done && status != STATUS_OK) {
		at->status = status;
		at->err = *err;
	}
	at->is_done = true;
}

static enum status listen_to(struct launch *l, const char *method, const struct stream_input *sent,
			     struct error *err)
{
	static const struct rpc_stream_events events = {.on_message = on_message, .on_closed = on_closed};
	struct listening at = {.l = l,
			       .is_all = str_eq(method, "TaskLogs") || str_eq(method, "ExecTaskStreaming")};
	enum status status =
		rpc_stream_open(l->client, SERVICE, method, START_US, &events, &at, &at.stream, err);

	for (size_t i = 0; i < sent->n && status == STATUS_OK; i++)
		status = rpc_stream_send(at.stream, sent->messages[i], err);
	if (status == STATUS_OK)
		rpc_stream_half_close(at.stream);
	while (status == STATUS_OK && !at.is_done && !is_interrupted)
		(void)sd_event_run(l->event, POLL_US);
	rpc_stream_cancel(at.stream);
	if (status == STATUS_OK && at.status != STATUS_OK)
		*err = at.err;
	return status != STATUS_OK ? status : at.status;
}

/* Runs a command with its terminal's size and its whole input, which are typed in addition to the order.
 * @setup is an ExecSetup. */
static enum status exec_in_task(struct launch *l, ProtobufCMessage *setup, json_t *size, const char *input,
				struct error *err)
{
	typedef Holdfast__Driver__V1__ExecTaskStreamingRequest request_t;
	request_t first = HOLDFAST__DRIVER__V1__EXEC_TASK_STREAMING_REQUEST__INIT;
	request_t resized = HOLDFAST__DRIVER__V1__EXEC_TASK_STREAMING_REQUEST__INIT;
	request_t last = HOLDFAST__DRIVER__V1__EXEC_TASK_STREAMING_REQUEST__INIT;
	Holdfast__Driver__V1__ExecData data = HOLDFAST__DRIVER__V1__EXEC_DATA__INIT;
	ProtobufCMessage *tty_size = NULL;
	struct stream_input sent = {.messages = {&first.base}, .n = 1};
	enum status status = STATUS_OK;

	first.setup = (void *)setup;
	data.value = (ProtobufCBinaryData){strlen(input), (uint8_t *)(uintptr_t)input};
	data.close = true;
	last.stdin = &data;
	if (size)
		status = request_make(&holdfast__driver__v1__tty_size__descriptor, size, &tty_size, err);
	if (status != STATUS_OK)
		return status;
	resized.tty_size = (void *)tty_size;
	if (tty_size)
		sent.messages[sent.n++] = &resized.base;
	sent.messages[sent.n++] = &last.base;
	status = listen_to(l, "ExecTaskStreaming", &sent, err);
	protobuf_c_message_free_unpacked(tty_size, NULL);
	return status;
}

/* Steals @json. */
static enum status do_exec_streaming(struct launch *l, json_t *json, struct error *err)
{
	json_t *size = json_incref(json_object_get(json, "tty_size"));
	json_t *input = json_incref(json_object_get(json, "stdin"));
	ProtobufCMessage *setup = NULL;
	enum status status = STATUS_OK;

	(void)json_object_del(json, "tty_size");
	(void)json_object_del(json, "stdin");
	if (input && !json_is_string(input)) {
		status = error_set(err, STATUS_INVALID_ARGUMENT, 0, "stdin must be a string");
		json_decref(json);
	} else {
		status = make_request(l, "ExecTaskStreaming", &holdfast__driver__v1__exec_setup__descriptor,
				      json, &setup, err);
	}
	if (status == STATUS_OK)
		status =
			exec_in_task(l, setup, json_incref(size), input ? json_string_value(input) : "", err);
	protobuf_c_message_free_unpacked(setup, NULL);
	json_decref(size);
	json_decref(input);
	return status;
}

/* "METHOD {...}" */
static enum status do_line(struct launch *l, char *line, struct error *err)
{
	char *text = line + strcspn(line, " \t");
	const ProtobufCMethodDescriptor *method;
	ProtobufCMessage *request = NULL;
	ProtobufCMessage *answer = NULL;
	enum status status = STATUS_OK;
	json_t *json;

	if (*text != '\0')
		*text++ = '\0';
	method = protobuf_c_service_descriptor_get_method_by_name(SERVICE, line);
	if (!method)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "unknown call %.64s. Next, for a list: help", line);
	json = text[strspn(text, " \t")] == '\0' ? json_object() : json_loads(text, 0, NULL);
	if (!json_is_object(json)) {
		json_decref(json);
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s: its request is no object of JSON",
				 line);
	}
	if (str_eq(line, "ExecTaskStreaming"))
		return do_exec_streaming(l, json, err);
	TRY(make_request(l, line, method->input, json, &request, err));
	if (str_eq(line, "Fingerprint") || str_eq(line, "TaskStats") || str_eq(line, "TaskLogs"))
		status = listen_to(l, line, &(struct stream_input){.messages = {request}, .n = 1}, err);
	else
		status = call(l, line, request, &answer, err);
	if (status == STATUS_OK && answer)
		status = show(l, answer, err);
	protobuf_c_message_free_unpacked(request, NULL);
	protobuf_c_message_free_unpacked(answer, NULL);
	return status;
}

static void list_calls(void)
{
	for (unsigned int i = 0; i < SERVICE->n_methods; i++)
		print_line("%s", SERVICE->methods[i].name);
	(void)fflush(stdout);
}

/* Is there a line, or the end? A signal comes while this waits, and at no other time since the last look. */
static bool wait_line(void)
{
	struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
	sigset_t ends;
	sigset_t before;
	int r = 0;

	(void)sigemptyset(&ends);
	(void)sigaddset(&ends, SIGINT);
	(void)sigaddset(&ends, SIGTERM);
	(void)sigprocmask(SIG_BLOCK, &ends, &before);
	if (!is_interrupted)
		r = ppoll(&input, 1, NULL, &before);
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	return r > 0;
}

/* Handles line by line until the end of the input, ctrl-c or the driver's own end. Reports a refused call,
 * and continues with the next one. */
static enum status handle_calls(struct launch *l, struct error *err)
{
	cleanup_free char *line = NULL;
	size_t size = 0;

	(void)setvbuf(stdin, NULL, _IONBF, 0); /* wait_line() would not see lines in a buffer */
	while (wait_line() && getline(&line, &size, stdin) > 0) {
		struct error refused;

		line[strcspn(line, "\n")] = '\0';
		if (line[0] == '\0' || line[0] == '#')
			continue;
		if (str_eq(line, "help")) {
			list_calls();
		} else if (do_line(l, line, &refused) != STATUS_OK) {
			l->inv->exit_code = EXIT_FAILURE;
			if (l->inv->options[OPT_JSON])
				print_error_json(&refused, NULL);
			else
				print_reasons(stderr, refused.msg, 0);
		}
		if (!is_interrupted && has_ended(l))
			return error_set(err, STATUS_UNAVAILABLE, 0, "the driver has ended");
	}
	return l->inv->exit_code == 0 ? STATUS_OK
				      : error_set(err, STATUS_FAILED_PRECONDITION, 0, "a call was refused");
}

static enum status cmd_driver_launch(struct invocation *inv, struct error *err)
{
	const struct sigaction action = {.sa_handler = on_interrupt};
	struct launch l = {.inv = inv, .folder_fd = -EBADF, .own_fd = -EBADF};
	enum status status;

	if (inv->n_behind < 1 || inv->n_behind != inv->n_args)
		return usage_error(inv, err, "the driver's program is wanted behind --: -- PROGRAM ...");
	(void)sigaction(SIGINT, &action, NULL); /* not restarted: reads must see it */
	(void)sigaction(SIGTERM, &action, NULL);
	status = find_user(&l, err);
	if (status == STATUS_OK && uuid_new(l.alloc_id) < 0)
		status = error_set(err, STATUS_INTERNAL, 0, "cannot make the id of an allocation");
	if (status == STATUS_OK)
		status = make_key(&l, err);
	if (status == STATUS_OK)
		status = read_boot_id(&l, err);
	if (status == STATUS_OK)
		status = make_folder(&l, err);
	if (status == STATUS_OK)
		status = write_settings(&l, err);
	if (status == STATUS_OK)
		status = launch_start(&l, err);
	if (status == STATUS_OK)
		status = wait_socket(&l, err);
	if (status == STATUS_OK)
		status = set_up(&l, err);
	if (status == STATUS_OK) {
		(void)fprintf(stderr,
			      "driver %s listens at %s; orders are of cluster and node " PLACE
			      ", signed by key %s\n",
			      l.driver, l.socket, l.key_text);
		status = handle_calls(&l, err);
	}
	launch_end(&l);
	return status;
}

static const struct command commands[] = {
	{.path = "driver launch",
	 .args = "-- PROGRAM...",
	 .help = "Start a task driver and make its calls, for authors",
	 .example = "--template driver.hcl --user holdfast-driver -- ./driver --config {settings}",
	 .options = OPTION_BIT(OPT_CONFIG) | OPTION_BIT(OPT_TEMPLATE) | OPTION_BIT(OPT_USER),
	 .min_args = 1,
	 .max_args = ANY_ARGS,
	 .arg_kinds = {WORD_FILE},
	 .run = cmd_driver_launch},
};

const struct command_table driver_launch_commands = {commands, ARRAY_SIZE(commands)};
