/* SPDX-License-Identifier: Apache-2.0 */
/* Runs fence agents. */

#include "fencer/agent.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/credential.h"
#include "base/fd.h"
#include "base/path.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "rpc/wakeup.h"

#include <assert.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { SECRET_MAX = FENCER_VALUE_SIZE - 1, INPUT_MAX = 32 << 10, READ_SIZE = 4096 };

static const char *const action_names[AGENT_ACTION_N] = {
	[AGENT_METADATA] = "metadata",
	[AGENT_MONITOR] = "monitor",
	[AGENT_STATUS] = "status",
	[AGENT_OFF] = "off",
};

struct agent_run {
	sd_event *event; /* borrowed */
	const struct fencer_node *node;
	enum agent_action action;
	agent_done_fn *done;
	void *userdata;
	pid_t pid;
	int output_fd;
	sd_event_source *child, *output_source, *timer; /* owned */
	struct strbuf output;
	struct strbuf secrets; /* each with its NUL; to be kept out of what the agent prints */
	bool is_overdue, is_too_long;
};

static void run_free(struct agent_run *run)
{
	if (!run)
		return;
	(void)sd_event_source_disable_unref(run->child);
	(void)sd_event_source_disable_unref(run->output_source);
	wakeup_disarm(&run->timer);
	close_fdp(&run->output_fd);
	strbuf_release(&run->output);
	strbuf_release(&run->secrets);
	free(run);
}
DEFINE_CLEANUP(struct agent_run, run_free)

/* --- input --- */

static enum status read_secret(const char *name, struct strbuf *to, struct error *err)
{
	char path[PATH_MAX];
	char *text = NULL;
	size_t n = 0;
	int r = credential_path(name, path, sizeof(path));

	if (r == 0)
		r = file_read(path, SECRET_MAX + 1, &text, &n);
	if (r < 0)
		return error_set(
			err, status_from_errno(r), r,
			"read credential %s (LoadCredential= in a drop-in of holdfast-fencer.service)", name);
	if (n > 0 && text[n - 1] == '\n')
		text[--n] = '\0';
	for (size_t i = 0; i < n; i++)
		if (text[i] < ' ' || text[i] > '~')
			n = 0; /* and is refused */
	if (n > 0)
		strbuf_put(to, text, n + 1);
	assert(text);
	explicit_bzero(text, strlen(text));
	free(text);
	return n > 0 ? STATUS_OK
		     : error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "credential %s: expected one line of printable characters", name);
}

static enum status add_line(const struct fencer_option *option, struct agent_run *run, struct strbuf *input,
			    struct error *err)
{
	size_t at = run->secrets.len;
	const char *value = option->value;

	if (option->is_secret) {
		TRY(read_secret(option->value, &run->secrets, err));
		value = run->secrets.data + at;
	}
	strbuf_printf(input, "%s=%s\n", option->name, value);
	return STATUS_OK;
}

/* The input is a file in memory, so that an agent that reads nothing does not block the fencer. */
static enum status make_input(struct agent_run *run, int *ret_fd, struct error *err)
{
	struct strbuf input = STRBUF_INIT(INPUT_MAX);
	enum status status = STATUS_OK;
	int fd = memfd_create("fence-options", MFD_CLOEXEC);
	int r = fd < 0 ? -errno : 0;

	input.wipes = true;
	if (run->action != AGENT_METADATA)
		for (size_t i = 0; i < run->node->n_options && status == STATUS_OK; i++)
			status = add_line(&run->node->options[i], run, &input, err);
	strbuf_printf(&input, "action=%s\n", action_names[run->action]);
	if (r == 0)
		r = input.error != 0 ? input.error : fd_write_all(fd, input.data, input.len);
	if (r >= 0 && lseek(fd, 0, SEEK_SET) < 0)
		r = -errno;
	strbuf_release(&input);
	if (status == STATUS_OK && r < 0)
		status = error_set(err, status_from_errno(r), r, "cannot make the agent's input");
	if (status == STATUS_OK)
		*ret_fd = fd;
	else
		close_fdp(&fd);
	return status;
}

/* --- the process --- */

static int spawn(const char *path, int input, int output, pid_t *ret)
{
	char *const argv[] = {strdupa(path), NULL};
	static char *const no_environment[] = {NULL};
	const short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP;
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int r;

	(void)sigemptyset(&none);
	(void)sigfillset(&all);
	r = posix_spawn_file_actions_init(&actions);
	if (r != 0)
		return -r;
	r = posix_spawnattr_init(&attr);
	if (r != 0) {
		(void)posix_spawn_file_actions_destroy(&actions);
		return -r;
	}
	if ((r = posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO)) == 0 &&
	    (r = posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO)) == 0 &&
	    (r = posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO)) == 0 &&
	    (r = posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1)) == 0 &&
	    (r = posix_spawn_file_actions_addchdir_np(&actions, "/")) == 0 &&
	    (r = posix_spawnattr_setsigmask(&attr, &none)) == 0 &&
	    (r = posix_spawnattr_setsigdefault(&attr, &all)) == 0 &&
	    (r = posix_spawnattr_setpgroup(&attr, 0)) == 0 &&
	    (r = posix_spawnattr_setflags(&attr, flags)) == 0)
		r = posix_spawn(ret, path, &actions, &attr, argv, no_environment);
	(void)posix_spawnattr_destroy(&attr);
	(void)posix_spawn_file_actions_destroy(&actions);
	return -r;
}

/* The agent may have left its process group. */
static void kill_all(const struct agent_run *run)
{
	if (run->pid <= 0)
		return;
	(void)kill(-run->pid, SIGKILL);
	(void)kill(run->pid, SIGKILL);
}

static int on_overdue(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct agent_run *run = userdata;

	run->is_overdue = true;
	kill_all(run); /* its end is reported */
	return 0;
}

static bool read_some(struct agent_run *run)
{
	char bytes[READ_SIZE];
	ssize_t n = read(run->output_fd, bytes, sizeof(bytes));

	if (n <= 0)
		return false;
	strbuf_put(&run->output, bytes, (size_t)n);
	explicit_bzero(bytes, sizeof(bytes));
	if (run->output.error == 0)
		return true;
	run->is_too_long = true;
	kill_all(run);
	return false;
}

static int on_output(sd_event_source *source, int fd, uint32_t revents, void *userdata)
{
	struct agent_run *run = userdata;

	if (!read_some(run))
		(void)sd_event_source_set_enabled(source, SD_EVENT_OFF);
	return 0;
}

enum fence_outcome agent_outcome(enum agent_action action, bool is_exit, int code)
{
	assert(action < AGENT_ACTION_N);
	if (!is_exit)
		return FENCE_OUTCOME_FAILED;
	if (action == AGENT_STATUS)
		return code == 0   ? FENCE_OUTCOME_IS_ON
		       : code == 2 ? FENCE_OUTCOME_IS_OFF
				   : FENCE_OUTCOME_FAILED;
	return code == 0 ? FENCE_OUTCOME_DONE : FENCE_OUTCOME_FAILED;
}

/* Each is looked for in the text as it was printed: secrets may overlap, and be of stars. */
static void hide_secrets(struct agent_run *run)
{
	char *output = run->output.data;
	cleanup_free char *shown = output ? strdup(output) : NULL;

	for (size_t at = 0; shown && at < run->secrets.len; at += strlen(run->secrets.data + at) + 1) {
		const char *secret = run->secrets.data + at;

		for (const char *from = output; (from = strstr(from, secret)); from++)
			memset(shown + (from - output), '*', strlen(secret));
	}
	if (output)
		memcpy(output, shown ? shown : "", shown ? strlen(shown) + 1 : 1);
}

/* The last line that is not empty. */
static void describe_failure(const struct agent_run *run, const siginfo_t *info, char *ret, size_t size)
{
	const char *text = run->output.data ? run->output.data : "";
	char duration[CLOCK_TEXT_SIZE];
	size_t end = strlen(text), begin;

	while (end > 0 && (text[end - 1] == '\n' || text[end - 1] == ' '))
		end--;
	begin = end;
	while (begin > 0 && text[begin - 1] != '\n')
		begin--;
	if (run->is_overdue)
		(void)str_format(ret, size, "%s did not end within %s", action_names[run->action],
				 clock_format_duration(run->node->timeout_us, duration));
	else if (run->is_too_long)
		(void)str_format(ret, size, "%s printed more than %d bytes", action_names[run->action],
				 AGENT_OUTPUT_MAX);
	else if (info->si_code != CLD_EXITED)
		(void)str_format(ret, size, "%s was ended by signal %d", action_names[run->action],
				 info->si_status);
	else
		(void)str_format(ret, size, "%s failed with exit code %d%s%.*s", action_names[run->action],
				 info->si_status, end > begin ? ": " : "",
				 (int)(end - begin > 150 ? 150 : end - begin), text + begin);
}

static int on_exit_of_child(sd_event_source *source, const siginfo_t *info, void *userdata)
{
	struct agent_run *run = userdata;
	struct agent_result result = {.output = ""};
	char text[AGENT_ERROR_SIZE];
	bool is_exit;

	if (!run) { /* see leave_to_loop(); the loop drops its reference */
		(void)sd_event_source_set_floating(source, false);
		return 0;
	}
	is_exit = info->si_code == CLD_EXITED && !run->is_overdue;
	kill_all(run); /* what it has left behind; its own process is not reaped yet */
	run->pid = 0;
	while (!run->is_too_long && read_some(run))
		;
	hide_secrets(run);
	result.outcome = agent_outcome(run->action, is_exit && !run->is_too_long, info->si_status);
	if (result.outcome == FENCE_OUTCOME_FAILED) {
		describe_failure(run, info, text, sizeof(text));
		str_copy_text(result.error, sizeof(result.error), text);
	}
	if (run->output.data)
		result.output = run->output.data;
	run->done(&result, run->userdata);
	run_free(run);
	return 0;
}

static enum status watch(struct agent_run *run, struct error *err)
{
	int r = sd_event_add_child(run->event, &run->child, run->pid, WEXITED, on_exit_of_child, run);

	if (r >= 0)
		r = sd_event_add_io(run->event, &run->output_source, run->output_fd, EPOLLIN, on_output, run);
	if (r < 0)
		return error_set(err, STATUS_INTERNAL, r, "cannot watch a fence agent");
	return wakeup_arm(run->event, &run->timer, run->node->timeout_us, on_overdue, run, err);
}

/* The file of @path, which may be a link to another one: a name in its folder, or a path. */
static int open_program(const char *path)
{
	cleanup_close int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd = path_open_trusted_file(root_fd, path, 0, O_RDONLY | O_NOFOLLOW, 0);
	char text[PATH_MAX], target[PATH_MAX];
	ssize_t n;

	if (fd != -ELOOP)
		return fd;
	n = readlink(path, text, sizeof(text) - 1);
	if (n < 0)
		return fd;
	text[n] = '\0';
	if (str_format(target, sizeof(target), "%.*s%s",
		       text[0] == '/' ? 0 : (int)(strrchr(path, '/') + 1 - path), path, text) < 0)
		return fd;
	return path_open_trusted_file(root_fd, target, 0, O_RDONLY | O_NOFOLLOW, 0);
}

/* The program gets the secret of the switch: only root may change it. A link is run by its own name, which an
 * agent may look at. */
static enum status check_program(const char *path, struct error *err)
{
	cleanup_close int fd = open_program(path);

	if (fd == -ENOENT)
		return error_set(err, STATUS_NOT_FOUND, 0,
				 "there is no %s: install the fence agent (apt install fence-agents)", path);
	if (fd < 0)
		return error_set(
			err, status_from_errno(fd), fd,
			"%s is not run: it must be a file that only root can change, or a link to one", path);
	return STATUS_OK;
}

static enum status start_child(struct agent_run *run, const char *path, struct error *err)
{
	cleanup_close int input = -EBADF, output = -EBADF;
	int pipes[2];
	int r;

	TRY(make_input(run, &input, err));
	if (pipe2(pipes, O_CLOEXEC) < 0)
		return error_set(err, STATUS_INTERNAL, errno, "cannot make a pipe for a fence agent");
	run->output_fd = pipes[0];
	output = pipes[1];
	if (fcntl(run->output_fd, F_SETFL, O_NONBLOCK) < 0)
		return error_set(err, STATUS_INTERNAL, errno, "cannot make a pipe for a fence agent");
	r = spawn(path, input, output, &run->pid);
	if (r < 0)
		return error_set(err, STATUS_UNAVAILABLE, r, "cannot run %s", path);
	return watch(run, err);
}

enum status agent_start(sd_event *event, const char *agent_dir, const struct fencer_node *node,
			enum agent_action action, agent_done_fn *done, void *userdata, struct agent_run **ret,
			struct error *err)
{
	cleanup(run_freep) struct agent_run *run = calloc(1, sizeof(*run));
	char path[PATH_MAX];
	enum status status;

	if (!run)
		return error_no_memory(err, "a fence agent");
	*run = (struct agent_run){.event = event,
				  .node = node,
				  .action = action,
				  .done = done,
				  .userdata = userdata,
				  .output_fd = -EBADF,
				  .output = STRBUF_INIT(AGENT_OUTPUT_MAX),
				  .secrets = STRBUF_INIT((size_t)FENCER_OPTIONS_MAX * FENCER_VALUE_SIZE)};
	run->secrets.wipes = run->output.wipes = true;
	if (str_format(path, sizeof(path), "%s/%s", agent_dir, node->agent) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "the path of agent %s is too long",
				 node->agent);
	TRY(check_program(path, err));
	status = start_child(run, path, err);
	if (status != STATUS_OK) {
		agent_cancel(TAKE_PTR(run));
		return status;
	}
	*ret = TAKE_PTR(run);
	return STATUS_OK;
}

/* A process that waits for a device may die late: the event loop reaps it then. */
static void leave_to_loop(struct agent_run *run)
{
	sd_event_source *child = TAKE_PTR(run->child);

	if (!child)
		return;
	(void)sd_event_source_set_userdata(child, NULL);
	(void)sd_event_source_set_floating(child, true);
	(void)sd_event_source_unref(child);
}

void agent_cancel(struct agent_run *run)
{
	if (!run)
		return;
	kill_all(run);
	if (run->pid > 0 && waitpid(run->pid, NULL, WNOHANG) == 0)
		leave_to_loop(run);
	run_free(run);
}

/* An agent whose `on` is for the node itself after its boot: its `off` closes a port or a path. */
static bool is_fabric(const char *metadata)
{
	const char *on = strstr(metadata, "<action name=\"on\"");
	const char *automatic = on ? strstr(on, "automatic=\"1\"") : NULL;

	return automatic && automatic < on + strcspn(on, ">");
}

enum status agent_check_metadata(const char *metadata, const struct fencer_node *node, struct error *err)
{
	char text[FENCER_OPTION_SIZE + 32];

	if (!strstr(metadata, "<resource-agent"))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "its metadata is not that of a fence agent");
	if (is_fabric(metadata))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "%s switches no power: its off closes a path of the node, which runs on",
				 node->agent);
	for (size_t i = 0; i < node->n_options; i++) {
		(void)str_format(text, sizeof(text), "<parameter name=\"%s\"", node->options[i].name);
		if (!strstr(metadata, text))
			return error_set(err, STATUS_FAILED_PRECONDITION, 0, "%s has no option '%s'",
					 node->agent, node->options[i].name);
	}
	return STATUS_OK;
}
