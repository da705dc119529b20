/* SPDX-License-Identifier: Apache-2.0 */
/* Writes one file for a report: answers of the server and of this machine's agent, logs, mounts,
 * settings and trails that the caller may read, without secrets. */

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/folder.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "call/connect.h"
#include "command/commands.h"
#include "conf/conf.h"
#include "operator/program.h"
#include "operator/redact.h"
#include "operator/unfinished.h"
#include "rpc/pbjson.h"
#include "rpc/scrape.h"
#include "show/output.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <holdfast/v1/agent.pb-c.h>
#include <holdfast/v1/allocations.pb-c.h>
#include <holdfast/v1/jobs.pb-c.h>
#include <holdfast/v1/nodes.pb-c.h>
#include <holdfast/v1/operator.pb-c.h>
#include <holdfast/v1/plugins.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	BLOCK = 512,
	PART_MAX = 8 << 20,
	TAIL_MAX = 1 << 20, /* of a trail */
	FILES_MAX = 64,	    /* of one folder */
	PER_PAGE = 1000,
	PART_NAME_MAX = 70,		       /* with folder and number it fits a header of ustar */
	PROGRAM_TIMEOUT_US = 10 * 1000 * 1000, /* df waits for ever for a mount that hangs */
};

struct bundle {
	struct invocation *inv;
	const char *path;
	char top[64]; /* folder in the archive */
	int fd;
	pid_t gzip;		/* 0: the archive is not compressed */
	struct strbuf manifest; /* each part, and why one is missing */
	size_t n;
	enum status status;
	struct error *err; /* of writing: it ends the bundle */
};

/* --- the archive: ustar --- */

struct header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100], magic[6],
		version[2], user[32], group[32], major[8], minor[8], prefix[155], pad[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a header of ustar is one block");

static void number(char *field, size_t size, uint64_t value)
{
	char digits[32];

	(void)snprintf(digits, sizeof(digits), "%0*lo", (int)size - 1, (unsigned long)value);
	memcpy(field, digits, size);
}

static void put_bytes(struct bundle *bundle, const void *bytes, size_t n)
{
	int r = bundle->status == STATUS_OK ? fd_write_all(bundle->fd, bytes, n) : 0;

	if (r < 0)
		bundle->status =
			error_set(bundle->err, status_from_errno(r), r, "cannot write %s", bundle->path);
}

static void put_file(struct bundle *bundle, const char *name, const char *text, size_t n)
{
	static const char zeroes[BLOCK];
	struct header header = {.type = '0', .magic = "ustar", .version = {'0', '0'}};
	unsigned int sum = 0;

	(void)str_copy(header.prefix, sizeof(header.prefix), bundle->top); /* tar puts a slash between them */
	(void)str_copy(header.name, sizeof(header.name), name);
	number(header.mode, sizeof(header.mode), 0600);
	number(header.uid, sizeof(header.uid), 0);
	number(header.gid, sizeof(header.gid), 0);
	number(header.size, sizeof(header.size), n);
	number(header.mtime, sizeof(header.mtime), (uint64_t)clock_realtime_ms() / 1000);
	memset(header.sum, ' ', sizeof(header.sum));
	for (size_t i = 0; i < sizeof(header); i++)
		sum += ((const unsigned char *)&header)[i];
	number(header.sum, sizeof(header.sum) - 1, sum);
	put_bytes(bundle, &header, sizeof(header));
	put_bytes(bundle, text, n);
	put_bytes(bundle, zeroes, (BLOCK - n % BLOCK) % BLOCK);
	bundle->n++;
}

static void note_missing(struct bundle *bundle, const char *name, const char *why)
{
	char line[512];

	str_copy_text(line, sizeof(line), why);
	strbuf_printf(&bundle->manifest, "missing  %s: %s\n", name, line);
}

/* Everything goes through here but the manifest, so nothing leaves as it is. */
static void put_part(struct bundle *bundle, const char *name, const char *text, size_t n)
{
	cleanup_free char *clean = redact(text, n);

	if (!clean) {
		note_missing(bundle, name, "out of memory");
		return;
	}
	put_file(bundle, name, clean, strlen(clean));
	strbuf_printf(&bundle->manifest, "%8zu %s\n", strlen(clean), name);
}

/* --- answers --- */

static void put_answer(struct bundle *bundle, const char *name, const ProtobufCMessage *answer)
{
	cleanup_strbuf struct strbuf text = STRBUF_INIT(PBJSON_TEXT_MAX);
	struct error err;

	if (pbjson_print(answer, PBJSON_PROTO_NAMES | PBJSON_LINES, 0, &text, &err) == STATUS_OK)
		put_part(bundle, name, text.data, text.len);
	else
		note_missing(bundle, name, err.msg);
}

static void ask(struct bundle *bundle, struct connection *connection, const char *name,
		const ProtobufCServiceDescriptor *service, const char *method,
		const ProtobufCMessage *request)
{
	cleanup_message ProtobufCMessage *answer = NULL;
	struct error err;

	if (connection_call(connection, service, method, request, CALL_TIMEOUT_US, &answer, &err) ==
	    STATUS_OK)
		put_answer(bundle, name, answer);
	else
		note_missing(bundle, name, err.msg);
}

static void put_metrics(struct bundle *bundle, struct connection *connection)
{
	static const char name[] = "server/metrics";
	Holdfast__V1__GetMetricsRequest request = HOLDFAST__V1__GET_METRICS_REQUEST__INIT;
	cleanup_message Holdfast__V1__GetMetricsResponse *answer = NULL;
	struct error err;

	if (connection_call(connection, &holdfast__v1__operator__descriptor, "Metrics", &request.base,
			    CALL_TIMEOUT_US, &answer, &err) == STATUS_OK)
		put_part(bundle, name, answer->text, strlen(answer->text));
	else
		note_missing(bundle, name, err.msg);
}

static void put_server(struct bundle *bundle)
{
	static char all[] = "*";
	cleanup_connection struct connection *connection = NULL;
	Holdfast__V1__GetStatusRequest status = HOLDFAST__V1__GET_STATUS_REQUEST__INIT;
	Holdfast__V1__ListMembersRequest members = HOLDFAST__V1__LIST_MEMBERS_REQUEST__INIT;
	Holdfast__V1__ListNodesRequest nodes = HOLDFAST__V1__LIST_NODES_REQUEST__INIT;
	Holdfast__V1__ListVolumesRequest volumes = HOLDFAST__V1__LIST_VOLUMES_REQUEST__INIT;
	Holdfast__V1__ListPluginsRequest plugins = HOLDFAST__V1__LIST_PLUGINS_REQUEST__INIT;
	Holdfast__V1__ListAllocationsRequest allocs = HOLDFAST__V1__LIST_ALLOCATIONS_REQUEST__INIT;
	Holdfast__V1__ListJobsRequest jobs = HOLDFAST__V1__LIST_JOBS_REQUEST__INIT;
	Holdfast__V1__ListTrailsRequest trails = HOLDFAST__V1__LIST_TRAILS_REQUEST__INIT;
	Holdfast__V1__ListAuditRequest audit = HOLDFAST__V1__LIST_AUDIT_REQUEST__INIT;
	struct error err;

	nodes.per_page = volumes.per_page = plugins.per_page = allocs.per_page = jobs.per_page = PER_PAGE;
	volumes.namespace_ = allocs.namespace_ = jobs.namespace_ = all;
	audit.newest = true;
	if (connect_server(bundle->inv, &connection, &err) != STATUS_OK) {
		note_missing(bundle, "server", err.msg);
		return;
	}
	ask(bundle, connection, "server/status.json", &holdfast__v1__operator__descriptor, "Status",
	    &status.base);
	put_metrics(bundle, connection);
	ask(bundle, connection, "server/members.json", &holdfast__v1__operator__descriptor, "ListMembers",
	    &members.base);
	ask(bundle, connection, "server/nodes.json", &holdfast__v1__nodes__descriptor, "List", &nodes.base);
	ask(bundle, connection, "server/volumes.json", &holdfast__v1__volumes__descriptor, "List",
	    &volumes.base);
	ask(bundle, connection, "server/plugins.json", &holdfast__v1__plugins__descriptor, "List",
	    &plugins.base);
	ask(bundle, connection, "server/allocations.json", &holdfast__v1__allocations__descriptor, "List",
	    &allocs.base);
	ask(bundle, connection, "server/jobs.json", &holdfast__v1__jobs__descriptor, "List", &jobs.base);
	ask(bundle, connection, "server/trails.json", &holdfast__v1__operator__descriptor, "ListTrails",
	    &trails.base);
	ask(bundle, connection, "server/events.json", &holdfast__v1__operator__descriptor, "ListAudit",
	    &audit.base);
}

/* --- this machine --- */

static void put_path(struct bundle *bundle, const char *name, const char *path, size_t max)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	cleanup_free char *text = malloc(max);
	off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : -1; /* 0 in /proc */
	const char *cut;
	size_t n = 0;
	ssize_t got = fd < 0 ? -1 : 0;

	if (fd >= 0)
		(void)lseek(fd, size > (off_t)max ? size - (off_t)max : 0, SEEK_SET);
	while (text && fd >= 0 && n < max && (got = read(fd, text + n, max - n)) > 0)
		n += (size_t)got;
	if (!text || got < 0)
		note_missing(bundle, name, text ? strerror(errno) : "out of memory");
	else if (size > (off_t)max && (cut = memchr(text, '\n', n))) /* half a line may be half a secret */
		put_part(bundle, name, cut + 1, (size_t)(text + n - cut - 1));
	else
		put_part(bundle, name, text, n);
}

/* Names a part after @file. A name that has other bytes than names of our files, or is long, is replaced in
 * part and gets the number @n. */
static void part_name(char *ret, size_t size, const char *to, const char *file, int n)
{
	char clean[PART_NAME_MAX + 1];
	bool is_same = str_copy(clean, sizeof(clean), file) >= 0;

	(void)str_format(clean, sizeof(clean), "%.*s", PART_NAME_MAX, file);
	for (char *c = clean; *c != '\0'; c++)
		if (!isalnum((unsigned char)*c) && !strchr("._-@+", *c)) {
			*c = '_';
			is_same = false;
		}
	(void)(is_same ? str_format(ret, size, "%s/%s", to, clean)
		       : str_format(ret, size, "%s/%s~%d", to, clean, n));
}

/* The files of @folder that end with @suffix; as many as belong to a sane installation. */
static void put_folder(struct bundle *bundle, const char *to, const char *folder, const char *suffix)
{
	cleanup_closedir DIR *dir = opendir(folder);
	int r = dir ? 0 : -errno;
	int n = 0;

	for (const struct dirent *entry; dir && n < FILES_MAX && (r = folder_next(dir, &entry)) > 0;) {
		size_t length = strlen(entry->d_name);
		char name[100], path[PATH_MAX];

		if (length < strlen(suffix) || !str_eq(entry->d_name + length - strlen(suffix), suffix))
			continue;
		n++;
		part_name(name, sizeof(name), to, entry->d_name, n);
		if (str_format(path, sizeof(path), "%s/%s", folder, entry->d_name) >= 0)
			put_path(bundle, name, path, TAIL_MAX);
	}
	if (r < 0)
		note_missing(bundle, folder, strerror(-r));
}

static void put_output(struct bundle *bundle, const char *name, const char *const *argv)
{
	cleanup_free char *text = malloc(PART_MAX);
	size_t n = 0;
	int r = text ? program_read(argv, PROGRAM_TIMEOUT_US, text, PART_MAX, &n) : -ENOMEM;

	if (r == -ETIMEDOUT)
		note_missing(bundle, name, "timed out");
	else if (r < 0 && n == 0)
		note_missing(bundle, name,
			     r == -EPIPE ? "the program failed or is not installed" : strerror(-r));
	else
		put_part(bundle, name, text, n);
}

static void release_conf(struct conf **conf)
{
	conf_free(*conf);
}

/* Asks the address that `metrics` of the settings at @path names. The status of the agent has the same
 * counts. */
static void put_scraped(struct bundle *bundle, const char *name, const char *path)
{
	cleanup(release_conf) struct conf *conf = NULL;
	char dropins[PATH_MAX], url[PATH_MAX];
	const char *address;
	struct error err;

	if (conf_dropin_dir(path, dropins, &err) != STATUS_OK ||
	    conf_load_merged(path, dropins, &conf, &err) != STATUS_OK) {
		note_missing(bundle, name, err.msg);
		return;
	}
	address = json_string_value(json_object_get(conf_root(conf), "metrics"));
	if (!address || !scrape_address_is_valid(address)) {
		note_missing(bundle, name, "metrics is not set");
		return;
	}
	(void)str_format(url, sizeof(url), "http://%s/metrics", address[0] == '/' ? "localhost" : address);
	put_output(bundle, name,
		   address[0] == '/' ? (const char *const[]){"curl", "--silent", "--fail", "--unix-socket",
							     address, url, NULL}
				     : (const char *const[]){"curl", "--silent", "--fail", "--noproxy", "*",
							     url, NULL});
}

static void put_agent(struct bundle *bundle)
{
	Holdfast__V1__GetAgentStatusRequest request = HOLDFAST__V1__GET_AGENT_STATUS_REQUEST__INIT;
	cleanup_connection struct connection *connection = NULL;
	struct error err;

	if (connect_agent(bundle->inv, &connection, &err) != STATUS_OK) {
		note_missing(bundle, "node/agent-status.json", err.msg);
		return;
	}
	ask(bundle, connection, "node/agent-status.json", &holdfast__v1__agent__descriptor, "Status",
	    &request.base);
}

static void put_node(struct bundle *bundle)
{
	static const char *const journal[] = {"journalctl", "--unit=holdfast*",		  "--lines=5000",
					      "--no-pager", "--output=short-iso-precise", NULL};
	static const char *const units[] = {"systemctl",  "list-units", "--all",
					    "--no-pager", "holdfast*",	NULL};
	static const char *const disks[] = {"df", "-h", NULL};
	static const char *const inodes[] = {"df", "-i", NULL};

	put_agent(bundle);
	put_scraped(bundle, "node/agent-metrics", "/etc/holdfast/agent.hcl");
	put_scraped(bundle, "node/driver-metrics", "/etc/holdfast/holdfast-driver-container.hcl");
	put_path(bundle, "node/os-release", "/usr/lib/os-release", TAIL_MAX);
	put_path(bundle, "node/kernel", "/proc/version", TAIL_MAX);
	put_path(bundle, "node/mountinfo", "/proc/self/mountinfo", PART_MAX);
	put_path(bundle, "node/mountinfo-of-pid-1", "/proc/1/mountinfo", PART_MAX);
	put_output(bundle, "node/df", disks);
	put_output(bundle, "node/df-inodes", inodes);
	put_output(bundle, "node/units", units);
	put_output(bundle, "node/journal", journal);
	put_folder(bundle, "node/settings", "/etc/holdfast", ".hcl");
	put_folder(bundle, "node/settings", "/etc/holdfast", ".policy");
	put_folder(bundle, "node/trails", "/var/log/holdfast", ".trail");
	put_folder(bundle, "node/trails", "/var/log/holdfast", ".log");
}

/* --- the file --- */

static enum status open_file(struct bundle *bundle)
{
	static const char *const gzip[] = {"gzip", "--stdout", NULL};
	size_t n = strlen(bundle->path);
	cleanup_close int file = -EBADF;
	int ends[2];

	file = open(bundle->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (file < 0)
		return error_set(bundle->err, status_from_errno(errno), errno,
				 "cannot make %s; name a file that does not exist", bundle->path);
	unfinished_remove_at_signal(bundle->path);
	if (n < 3 || !str_eq(bundle->path + n - 3, ".gz")) {
		bundle->fd = TAKE_FD(file);
		return STATUS_OK;
	}
	if (pipe2(ends, O_CLOEXEC) < 0)
		return error_set(bundle->err, status_from_errno(errno), errno, "cannot make a pipe");
	(void)signal(SIGPIPE, SIG_IGN);
	bundle->gzip = program_start(gzip, ends[0], file, STDERR_FILENO);
	(void)close(ends[0]);
	bundle->fd = ends[1];
	return bundle->gzip > 0 ? STATUS_OK
				: error_set(bundle->err, STATUS_INTERNAL, -bundle->gzip, "cannot run gzip");
}

static enum status close_file(struct bundle *bundle)
{
	static const char zeroes[2 * BLOCK];
	int r;

	put_bytes(bundle, zeroes, sizeof(zeroes));
	if (close(bundle->fd) < 0 && bundle->status == STATUS_OK)
		bundle->status = error_set(bundle->err, status_from_errno(errno), errno, "cannot write %s",
					   bundle->path);
	r = bundle->gzip > 0 ? program_wait(bundle->gzip) : 0;
	if (r < 0 && bundle->status == STATUS_OK)
		bundle->status =
			error_set(bundle->err, STATUS_INTERNAL, r,
				  "gzip failed to write %s; name a file that ends with .tar", bundle->path);
	return bundle->status;
}

static enum status cmd_operator_debug(struct invocation *inv, struct error *err)
{
	struct bundle bundle = {.inv = inv,
				.path = inv->args[0],
				.fd = -EBADF,
				.manifest = STRBUF_INIT(PART_MAX),
				.err = err};
	enum status status;

	(void)str_format(bundle.top, sizeof(bundle.top), "holdfast-debug-%lld",
			 (long long)(clock_realtime_ms() / 1000));
	TRY(open_file(&bundle));
	strbuf_printf(&bundle.manifest, "holdfast " HOLDFAST_VERSION "\n");
	put_server(&bundle);
	put_node(&bundle);
	if (bundle.manifest.data)
		put_part(&bundle, "MANIFEST", bundle.manifest.data, strlen(bundle.manifest.data));
	strbuf_release(&bundle.manifest);
	status = close_file(&bundle);
	if (status != STATUS_OK) {
		(void)unlink(bundle.path);
		return status;
	}
	print_line(
		"%s has %zu parts; secrets are redacted, names, addresses and paths are not. MANIFEST in it "
		"lists what could not be read",
		bundle.path, bundle.n);
	return STATUS_OK;
}

static const struct command commands[] = {
	{.path = "operator debug",
	 .args = "FILE",
	 .help = "Write status, events, logs and mounts without secrets into one file",
	 .example = "debug.tar.gz",
	 .min_args = 1,
	 .max_args = 1,
	 .arg_kinds = {WORD_FILE},
	 .run = cmd_operator_debug},
};

const struct command_table debug_commands = {commands, ARRAY_SIZE(commands)};
