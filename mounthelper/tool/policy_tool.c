/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast-policy: checks a policy of the mount helper, compiles it for the helper, and explains what it
 * allows. The decisions are the helper's own. `holdfast policy` runs it; only root can apply. */

#include "explain.h"
#include "policy_parse.h"
#include "words.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/parse.h"
#include "base/path.h"
#include "base/str.h"
#include "privileged/kernel_audit.h"

#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <grp.h>
#include <jansson.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { EXIT_USAGE = 2 };

struct arguments {
	bool is_json;
	const char *file;
	const char *uid; /* NULL: the only agent's */
	uint32_t given;	 /* bits of the options */
	struct question question;
};

static struct policy_file compiled; /* from args.file */
static const struct policy *const policy = &compiled.policy;

__attribute__((format(printf, 1, 2))) static int usage(const char *fmt, ...)
{
	va_list args;

	(void)fputs("holdfast policy: ", stderr);
	va_start(args, fmt);
	(void)vfprintf(stderr, fmt, args);
	va_end(args);
	(void)fputs("\nholdfast policy check --help, apply --help and explain --help show the usage\n",
		    stderr);
	return EXIT_USAGE;
}

/* Options: each returns whether its argument is valid. */

typedef bool parse_fn(struct arguments *args, const char *text);

static bool parse_json(struct arguments *args, const char *text)
{
	args->is_json = true;
	return true;
}

static bool parse_uid(struct arguments *args, const char *text)
{
	args->uid = text;
	return true;
}

static bool parse_profile(struct arguments *args, const char *text)
{
	args->question.profile = text;
	return id_is_plugin(text);
}

static bool parse_read_only(struct arguments *args, const char *text)
{
	args->question.read_only = true;
	return true;
}

static bool parse_exec(struct arguments *args, const char *text)
{
	args->question.exec = true;
	return true;
}

static bool parse_detach(struct arguments *args, const char *text)
{
	args->question.detach = true;
	return true;
}

static bool parse_propagation(struct arguments *args, const char *text)
{
	for (unsigned int i = 0; i < TICKET_PROPAGATION_N; i++) {
		if (!str_eq(text, propagation_word((uint8_t)i)))
			continue;
		args->question.propagation = (uint8_t)i;
		return true;
	}
	return false;
}

static bool parse_slot(struct arguments *args, const char *text)
{
	uint32_t slot;

	if (parse_u32(text, 0, MH_SLOT_MAX, &slot) < 0)
		return false;
	args->question.slot = (uint8_t)slot;
	return true;
}

/* Options of different classes do not go together. */
static bool is_of_class(struct arguments *args, enum mh_class class)
{
	struct mh_source *source = &args->question.source;
	bool fits = source->class == 0 || source->class == (uint8_t) class;

	source->class = (uint8_t) class;
	return fits;
}

static bool parse_by_id(struct arguments *args, const char *text)
{
	return is_of_class(args, MH_CLASS_BLOCK) && by_id_is_valid(text) &&
	       str_copy(args->question.source.u.block.by_id, MH_BY_ID_SIZE, text) == 0;
}

static bool parse_tmpfs_size(struct arguments *args, const char *text)
{
	uint64_t *size = &args->question.source.u.tmpfs.size_bytes; /* 0: not given */

	return is_of_class(args, MH_CLASS_TMPFS) && parse_size(text, size) == 0 && *size > 0;
}

static bool parse_inodes(struct arguments *args, const char *text)
{
	return is_of_class(args, MH_CLASS_TMPFS) &&
	       parse_u64(text, 1, UINT64_MAX, &args->question.source.u.tmpfs.inodes) == 0;
}

static bool parse_server(struct arguments *args, const char *text)
{
	struct mh_source *source = &args->question.source;
	uint8_t bits;

	return is_of_class(args, MH_CLASS_NFS4) && !strchr(text, '/') &&
	       parse_network(text, &source->u.nfs4.family, source->u.nfs4.addr, &bits) == 0;
}

static bool parse_export(struct arguments *args, const char *text)
{
	return is_of_class(args, MH_CLASS_NFS4) && export_is_valid(text) &&
	       str_copy(args->question.source.u.nfs4.export, MH_EXPORT_SIZE, text) == 0;
}

static bool parse_hostvol(struct arguments *args, const char *text)
{
	return is_of_class(args, MH_CLASS_BIND) && id_is_label(text) &&
	       str_copy(args->question.source.u.bind.name, MH_LABEL_SIZE, text) == 0;
}

static const struct option options[] = {
	{"json", no_argument, NULL, 0},
	{"uid", required_argument, NULL, 0},
	{"profile", required_argument, NULL, 0},
	{"read-only", no_argument, NULL, 0},
	{"exec", no_argument, NULL, 0},
	{"detach", no_argument, NULL, 0},
	{"propagation", required_argument, NULL, 0},
	{"slot", required_argument, NULL, 0},
	{"by-id", required_argument, NULL, 0},
	{"tmpfs-size", required_argument, NULL, 0},
	{"inodes", required_argument, NULL, 0},
	{"server", required_argument, NULL, 0},
	{"export", required_argument, NULL, 0},
	{"hostvol", required_argument, NULL, 0},
	{NULL, 0, NULL, 0},
};

enum {
	STAGE = 1 << MH_OP_STAGE,
	PUBLISH = 1 << MH_OP_PUBLISH,
	REMOVE = 1 << MH_OP_UNPUBLISH | 1 << MH_OP_UNSTAGE,
};

/* In the order of the options. */
static const struct taker {
	parse_fn *parse;
	unsigned int operations; /* that have it */
} takers[] = {
	{parse_json, STAGE | PUBLISH | REMOVE},
	{parse_uid, STAGE | PUBLISH | REMOVE},
	{parse_profile, STAGE | PUBLISH},
	{parse_read_only, STAGE | PUBLISH},
	{parse_exec, PUBLISH},
	{parse_detach, REMOVE},
	{parse_propagation, PUBLISH},
	{parse_slot, PUBLISH},
	{parse_by_id, STAGE},
	{parse_tmpfs_size, STAGE},
	{parse_inodes, STAGE},
	{parse_server, STAGE},
	{parse_export, STAGE},
	{parse_hostvol, STAGE | PUBLISH},
};

_Static_assert(ARRAY_SIZE(takers) + 1 == ARRAY_SIZE(options), "one for each");

/* Returns 0 or EXIT_USAGE. */
static int parse_options(int argc, char **argv, struct arguments *args)
{
	int index = 0;
	int id;

	while ((id = getopt_long(argc, argv, "", options, &index)) != -1) {
		if (id == '?')
			return usage("wrong option");
		if (!takers[index].parse(args, optarg))
			return usage("--%s %s: malformed, or of another class than an option before it",
				     options[index].name, optarg ? optarg : "");
		args->given |= 1U << index;
	}
	return 0;
}

static int parse_operation(const char *word, struct arguments *args)
{
	struct question *q = &args->question;

	for (unsigned int op = MH_OP_STAGE; op <= MH_OP_UNSTAGE; op++)
		if (str_eq(word, op_word((uint16_t)op)))
			q->op = (uint16_t)op;
	if (q->op == 0)
		return usage("'%s' is not one of stage, publish, unpublish, unstage", word);
	for (size_t i = 0; i < ARRAY_SIZE(takers); i++)
		if ((args->given & 1U << i) != 0 && (takers[i].operations & 1U << q->op) == 0)
			return usage("%s takes no --%s", word, options[i].name);
	if (q->op != MH_OP_STAGE && q->op != MH_OP_PUBLISH)
		return 0;
	if (q->op == MH_OP_PUBLISH && q->profile && q->source.class == MH_CLASS_BIND)
		return usage("publish takes --profile or --hostvol, not both");
	if (!q->profile && q->source.class == MH_CLASS_BIND)
		q->profile = q->source.u.bind.name;
	if (!q->profile)
		return usage("%s needs --profile or --hostvol", word);
	return 0;
}

/* Output */

static int print_json(json_t *json)
{
	bool is_printed = json && json_dumpf(json, stdout, JSON_INDENT(2)) == 0 && putchar('\n') == '\n';

	json_decref(json);
	return is_printed ? 0 : -1;
}

static int refuse_file(const struct arguments *args, unsigned int line, const char *message)
{
	if (args->is_json)
		(void)print_json(json_pack("{sb ss sI ss}", "ok", 0, "file", args->file, "line",
					   (json_int_t)line, "message", message));
	else
		(void)fprintf(stderr, "%s\n", message);
	return EXIT_FAILURE;
}

/* Is it the file that the mount helper's policy is compiled from? */
static bool is_helpers_file(const char *path)
{
	cleanup_free char *given = realpath(path, NULL), *used = realpath(HOLDFAST_POLICY_PATH, NULL);

	return given && used && str_eq(given, used);
}

static struct policy_file applied; /* the file of it next to args.file */

static bool read_applied(const struct arguments *args)
{
	char path[PATH_MAX];
	cleanup_free char *bytes = NULL;
	size_t n;

	if (str_format(path, sizeof(path), "%s" POLICY_APPLIED, args->file) < 0 ||
	    file_read(path, sizeof(applied), &bytes, &n) < 0 || n != sizeof(applied))
		return false;
	memcpy(&applied, bytes, n);
	return policy_file_check(&applied, n);
}

/* Reads back whether the compiled policy is of this text. */
static bool is_compiled(const struct arguments *args)
{
	return read_applied(args) &&
	       memcmp(applied.text_digest, compiled.text_digest, sizeof(applied.text_digest)) == 0;
}

/* For holdfast-in-use: the trees of the applied policy, whose text may have changed or gone. */
static int print_trees(const struct arguments *args)
{
	if (!read_applied(args))
		return EXIT_FAILURE;
	for (uint32_t i = 0; i < applied.policy.n_agents; i++)
		(void)printf("%s\n%s\n", applied.policy.agents[i].stage_base,
			     applied.policy.agents[i].publish_base);
	return EXIT_SUCCESS;
}

static int print_counts(const struct arguments *args, const char *word)
{
	bool is_whole = is_compiled(args), is_helpers = is_helpers_file(args->file);

	if (args->is_json)
		return print_json(json_pack("{sb ss sI sI sb sb}", "ok", 1, "file", args->file, "agents",
					    (json_int_t)policy->n_agents, "profiles",
					    (json_int_t)policy->n_profiles, "compiled", is_whole, "applied",
					    is_whole && is_helpers)) < 0;
	if (printf("%s: %u agents, %u profiles\n", word, policy->n_agents, policy->n_profiles) < 0)
		return EXIT_FAILURE;
	if (is_whole && is_helpers)
		return EXIT_SUCCESS;
	if (is_helpers)
		return puts("not applied: the mount helper reads what 'holdfast policy apply' writes") < 0;
	return printf("not applied: the mount helper uses " HOLDFAST_POLICY_PATH
		      ". Move %s there, then: holdfast policy apply\n",
		      args->file) < 0;
}

static int arguments_check(const struct arguments *args)
{
	return print_counts(args, "ok");
}

/* The label of SELinux that @from has, where there is one: the helper may read nothing else here. */
static void copy_label(const char *from, const char *to)
{
	static const char name[] = "security.selinux";
	char label[256];
	ssize_t n = lgetxattr(from, name, label, sizeof(label));

	if (n > 0)
		(void)lsetxattr(to, name, label, (size_t)n, 0);
}

/* Writes the compiled policy to @path with its suffix. Returns 0 or a negative errno. */
static int write_applied(const char *path)
{
	char target[PATH_MAX];
	char fresh[PATH_MAX];
	int r;

	if (str_format(target, sizeof(target), "%s" POLICY_APPLIED, path) < 0 ||
	    str_format(fresh, sizeof(fresh), "%s.new", target) < 0)
		return -ENAMETOOLONG;
	policy_file_seal(&compiled);
	r = file_write_atomic(fresh, 0644, &compiled, sizeof(compiled));
	if (r < 0)
		return r;
	/* the text may have been moved here, with the label of what it was before */
	copy_label(access(target, F_OK) == 0 ? target : path, fresh);
	/* in launch mode socket the helper begins as its own account: it must read this under any umask */
	if (chmod(fresh, 0644) == 0 && rename(fresh, target) == 0)
		return file_sync_folder(target);
	r = -errno;
	(void)unlink(fresh);
	return r;
}

/* A helper that may not mount for want of auditing is better known now than with the first volume. */
static void warn_of_audit(const struct arguments *args)
{
	const struct agent_policy *agent = policy->agents;
	cleanup_close int fd = kernel_audit_open();
	int r = kernel_audit_send(fd, KERNEL_AUDIT_TRUSTED_APP, 1, "op=policy-apply res=success");

	while (agent < policy->agents + policy->n_agents && agent->audit_optional)
		agent++;
	if (r < 0 && agent < policy->agents + policy->n_agents)
		(void)fprintf(stderr,
			      "%s:%u: warning: audit = required, and %s (%s): nothing can be mounted, only "
			      "unmounted, until %s, or audit = optional is set there\n",
			      args->file, agent->line,
			      r == -ENODATA ? "the kernel's auditing is off"
					    : "the kernel's audit takes no records",
			      strerrorname_np(-r),
			      r == -ENODATA ? "'auditctl -e 1' has switched it on" : "it does");
}

/* As a helper looks whether root has replaced the policy. A look that was not made counts as allowed. */
static bool can_look(const char *path, const struct agent_policy *agent)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if (setgroups(0, NULL) != 0 ||
		    setresgid(agent->helper_gid, agent->helper_gid, agent->helper_gid) != 0 ||
		    setresuid(agent->helper_uid, agent->helper_uid, agent->helper_uid) != 0)
			_exit(EXIT_SUCCESS);
		_exit(access(path, F_OK) != 0 && errno == EACCES);
	}
	return pid < 0 || waitpid(pid, &status, 0) != pid || status == 0;
}

static void warn_of_folders(const struct arguments *args)
{
	for (const struct agent_policy *agent = policy->agents; agent < policy->agents + policy->n_agents;
	     agent++)
		if (!can_look(args->file, agent))
			(void)fprintf(
				stderr,
				"%s:%u: warning: helper_uid %u cannot search the directories of this "
				"file, so no helper of this agent starts. Next: chmod o+x for each of them\n",
				args->file, agent->line, agent->helper_uid);
}

static int apply(const struct arguments *args)
{
	struct error err = {.msg = ""};
	int r = write_applied(args->file);

	if (r == 0 && !is_compiled(args))
		r = -EIO;
	if (r < 0) {
		(void)error_set(&err, status_from_errno(r), r, "write %s%s", args->file, POLICY_APPLIED);
		return refuse_file(args, 0, err.msg);
	}
	warn_of_audit(args);
	if (!is_helpers_file(args->file))
		return print_counts(args, "compiled");
	warn_of_folders(args);
	if (print_counts(args, "applied") != 0 || args->is_json)
		return EXIT_SUCCESS;
	return puts("The next mount helper that starts uses it. One that runs ends at its next request; now: "
		    "systemctl reload holdfast-agent") < 0;
}

/* Reads the text that root applies. Only root may be able to write it or a directory above, up to "/". */
static int read_roots(const char *path, char **ret, size_t *ret_n, struct error *err)
{
	cleanup_close int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	cleanup_close int fd = path_open_trusted_file(root_fd, path, 0, O_RDONLY, 0);
	int r = fd < 0 ? fd : fd_read_all(fd, POLICY_TEXT_MAX, ret, ret_n);

	if (r < 0)
		(void)error_set(err, status_from_errno(r), r,
				"%s: the policy must be a regular file that only root can write, at an "
				"absolute path below directories of root without links",
				path);
	return r;
}

static int read_text(const struct arguments *args, bool is_apply, char **ret, size_t *ret_n,
		     struct error *err)
{
	int r;

	if (is_apply)
		return read_roots(args->file, ret, ret_n, err);
	r = file_read(args->file, POLICY_TEXT_MAX, ret, ret_n);
	if (r < 0)
		(void)error_set(err, status_from_errno(r), r, "%s", args->file);
	return r;
}

static int print_answer(const struct arguments *args, const struct agent_policy *agent,
			const struct answer *a)
{
	bool is_allowed = a->reason == REASON_NONE;
	json_t *lines = args->is_json ? json_array() : NULL;

	if (!args->is_json)
		(void)printf("%s%s\n",
			     is_allowed ? "allowed" : "refused: ", is_allowed ? "" : reason_word(a->reason));
	for (uint32_t i = 0; i < a->n_lines; i++) {
		if (!args->is_json)
			(void)printf("%s:%u: %s\n", args->file, a->lines[i].line, a->lines[i].text);
		else
			(void)json_array_append_new(lines,
						    json_pack("{sI ss}", "line", (json_int_t)a->lines[i].line,
							      "text", a->lines[i].text));
	}
	if (args->is_json)
		(void)print_json(json_pack("{sb ss ss sI sb so}", "allowed", is_allowed, "reason",
					   reason_word(a->reason), "file", args->file, "uid",
					   (json_int_t)agent->uid, "needs_ticket", a->needs_ticket, "lines",
					   lines));
	else if (a->needs_ticket)
		(void)puts("A ticket of the claim server is needed too (ticket = required).");
	return is_allowed ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int answer(struct arguments *args, const char *text, size_t n)
{
	const struct agent_policy *agent = &policy->agents[0];
	struct mh_source *source = &args->question.source;
	const struct profile *profile;
	struct answer answer;
	uint32_t uid;

	if (!args->uid && policy->n_agents > 1)
		return usage("%s has several agents: select one with --uid", args->file);
	if (args->uid) {
		if (parse_u32(args->uid, 0, UINT32_MAX, &uid) < 0)
			return usage("--uid %s: must be a number", args->uid);
		agent = policy_agent(policy, uid);
		if (!agent)
			return refuse_file(args, 0, "refused: the policy has no block for that uid");
	}
	profile = args->question.profile ? policy_profile(agent, args->question.profile) : NULL;
	if (profile && args->question.op == MH_OP_STAGE && source->class == 0 &&
	    profile->class == MH_CLASS_BLOCK)
		return usage("profile %s needs --by-id", profile->name);
	if (profile && args->question.op == MH_OP_STAGE && profile->class == MH_CLASS_NFS4 &&
	    (source->class == 0 || source->u.nfs4.family == 0 || source->u.nfs4.export[0] == '\0'))
		return usage("profile %s needs --server and --export", profile->name);
	if (profile && source->class == MH_CLASS_TMPFS && source->u.tmpfs.size_bytes == 0)
		source->u.tmpfs.size_bytes = profile->max_size;
	if (profile && source->class == MH_CLASS_TMPFS && source->u.tmpfs.inodes == 0)
		source->u.tmpfs.inodes = profile->max_inodes;
	explain(text, n, agent, &args->question, &answer);
	return print_answer(args, agent, &answer);
}

enum command { CHECK, APPLY, EXPLAIN, TREES, COMMAND_N };

/* Which command, and is there a file for it? Or COMMAND_N. */
static enum command parse_command(int argc, char **argv)
{
	static const char *const names[COMMAND_N] = {"check", "apply", "explain", "trees"};
	enum command command = CHECK;

	if (argc == 0)
		return COMMAND_N;
	while (command < COMMAND_N && !str_eq(argv[0], names[command]))
		command++;
	return argc == (command == EXPLAIN ? 3 : 2) ? command : COMMAND_N;
}

int main(int argc, char **argv)
{
	struct arguments args = {.is_json = false};
	cleanup_free char *text = NULL;
	struct error err = {.msg = ""};
	unsigned int line = 0;
	enum command command;
	size_t n;
	int r = parse_options(argc, argv, &args);

	if (r != 0)
		return r;
	command = parse_command(argc - optind, argv + optind);
	if (command == COMMAND_N)
		return usage("check FILE, apply FILE or explain OPERATION FILE is expected");
	args.file = argv[argc - 1];
	if (command == EXPLAIN)
		r = parse_operation(argv[optind + 1], &args);
	if (r != 0)
		return r;
	if (command == TREES)
		return print_trees(&args);
	if (read_text(&args, command == APPLY, &text, &n, &err) < 0 ||
	    policy_compile(args.file, text, n, &compiled, &line, &err) != STATUS_OK)
		return refuse_file(&args, line, err.msg);
	if (!policy_file_check(&compiled, sizeof(compiled)))
		return refuse_file(&args, 0, "internal: the helper would refuse the compiled policy");
	r = command == EXPLAIN ? answer(&args, text, n)
	    : command == APPLY ? apply(&args)
			       : arguments_check(&args);
	return fflush(stdout) == 0 && !ferror(stdout) ? r : EXIT_FAILURE;
}
