/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates from the server's CA: lines for nodes, people and programs, their use, and certificates for
 * people. */

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "call/connect.h"
#include "command/commands.h"
#include "command/settings.h"
#include "command/values.h"
#include "enroll/enroll_call.h"
#include "rpc/pki.h"
#include "show/output.h"

#include <errno.h>
#include <holdfast/v1/operator.pb-c.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPERATOR &holdfast__v1__operator__descriptor
#define TTL_MAX_MS (UINT64_C(365) * 24 * 3600 * 1000)

enum { FOLDER_MODE = 0700, HOSTS_MAX = 16 };

/* --- a node --- */

static bool is_any(const char *host)
{
	return str_eq(host, "0.0.0.0") || str_eq(host, "::");
}

/* Does another machine reach itself by it? */
static bool is_only_here(const char *host)
{
	return str_starts_with(host, "127.") || str_eq(host, "::1") || str_eq(host, "localhost") ||
	       is_any(host);
}

static void add_server(struct enroll_line *line, const struct rpc_address *address)
{
	for (size_t i = 0; i < line->n_servers; i++)
		if (str_eq(line->servers[i].host, address->host) && line->servers[i].port == address->port)
			return;
	if (line->n_servers < RPC_SERVERS_MAX)
		line->servers[line->n_servers++] = *address;
}

/* The address of a listed server. One that listens on all addresses is reached by its machine's name. */
static bool read_address(const Holdfast__V1__ServerMember *server, struct rpc_address *ret)
{
	if (rpc_address_parse(server->address, ret) != 0)
		return false;
	return !is_any(ret->host) ||
	       (server->name[0] != '\0' && str_copy(ret->host, sizeof(ret->host), server->name) == 0);
}

/* Adds the listed servers: of a single one, only if the line has no address yet. */
static void add_listed(struct enroll_line *line, const Holdfast__V1__ListMembersResponse *listed,
		       bool with_loopback)
{
	struct rpc_address address;

	for (size_t i = 0; listed && i < listed->n_servers; i++)
		if (read_address(listed->servers[i], &address) &&
		    (with_loopback || !is_only_here(address.host)) &&
		    (line->n_servers == 0 || listed->n_servers > 1))
			add_server(line, &address);
}

/* The addresses of this command, then those of the list of members. Loopback addresses are the last resort: a
 * server that listens on one is reached by no other. */
static void find_servers(const struct server_settings *settings, struct connection *connection,
			 struct enroll_line *line)
{
	Holdfast__V1__ListMembersRequest request = HOLDFAST__V1__LIST_MEMBERS_REQUEST__INIT;
	cleanup_message Holdfast__V1__ListMembersResponse *answer = NULL;

	for (size_t i = 0; i < settings->n_servers; i++)
		if (!is_only_here(settings->servers[i].host))
			add_server(line, &settings->servers[i]);
	(void)connection_call(connection, OPERATOR, "ListMembers", &request.base, CALL_TIMEOUT_US, &answer,
			      NULL);
	add_listed(line, answer, false);
	for (size_t i = 0; line->n_servers == 0 && i < settings->n_servers; i++)
		add_server(line, &settings->servers[i]);
	if (line->n_servers == 0)
		add_listed(line, answer, true);
}

static enum status print_line_of(struct invocation *inv, const char *text,
				 const Holdfast__V1__CreateEnrollmentResponse *answer, struct error *err)
{
	char at[CLOCK_TEXT_SIZE];

	if (inv->options[OPT_JSON])
		return print_json(json_pack("{ss ss ss sI}", "line", text, "node", answer->node, "cluster",
					    answer->cluster, "expires_at_ms",
					    (json_int_t)answer->expires_at_ms),
				  err);
	print_line("%s", text);
	if (str_eq(answer->role, ENROLL_ROLE_NODE))
		(void)fprintf(
			stderr,
			"On %s, as root, until %s, once: holdfast-agent --enroll -, then enter this line\n",
			answer->node, clock_format(answer->expires_at_ms, at));
	else
		(void)fprintf(
			stderr,
			"Where %s %s is used, until %s, once: holdfast enroll -, then enter this line\n",
			answer->role, answer->node, clock_format(answer->expires_at_ms, at));
	return STATUS_OK;
}

/* The names and addresses of --host; @text is cut into them. */
static enum status read_hosts(struct invocation *inv, char *text, size_t size, char **ret, size_t *ret_n,
			      struct error *err)
{
	char *rest = text;
	char *host;

	*ret_n = 0;
	if (str_copy(text, size, option_text(inv, OPT_HOST)) < 0)
		return usage_error(inv, err, "--host: too long");
	while (text[0] != '\0' && (host = strsep(&rest, ","))) {
		if (*ret_n == HOSTS_MAX || host[0] == '\0')
			return usage_error(inv, err, "--host: 1 to %d names or addresses with commas between",
					   HOSTS_MAX);
		ret[(*ret_n)++] = host;
	}
	return STATUS_OK;
}

static enum status make_line(struct invocation *inv, Holdfast__V1__CreateEnrollmentRequest *request,
			     struct error *err)
{
	cleanup_message Holdfast__V1__CreateEnrollmentResponse *answer = NULL;
	cleanup_connection struct connection *connection = NULL;
	struct enroll_line line = {.n_servers = 0};
	char text[ENROLL_LINE_SIZE];
	struct server_settings settings;

	TRY(server_settings_resolve(inv, &settings, err));
	TRY(value_duration(inv, OPT_TTL, 0, TTL_MAX_MS, &request->ttl_ms, err));
	TRY(connect_server(inv, &connection, err));
	TRY(connection_call(connection, OPERATOR, "CreateEnrollment", &request->base, CALL_TIMEOUT_US,
			    &answer, err));
	(void)str_copy(line.cluster, sizeof(line.cluster), answer->cluster);
	(void)str_copy(line.role, sizeof(line.role), answer->role);
	(void)str_copy(line.name, sizeof(line.name), answer->node);
	(void)str_copy(line.token, sizeof(line.token), answer->token);
	if (answer->ca_sha256.len == sizeof(line.ca_sha256))
		memcpy(line.ca_sha256, answer->ca_sha256.data, sizeof(line.ca_sha256));
	find_servers(&settings, connection, &line);
	TRY(enroll_line_format(&line, text, err));
	return print_line_of(inv, text, answer, err);
}

static enum status cmd_operator_node_enroll(struct invocation *inv, struct error *err)
{
	Holdfast__V1__CreateEnrollmentRequest request = HOLDFAST__V1__CREATE_ENROLLMENT_REQUEST__INIT;
	char node[ENROLL_NAME_SIZE];

	if (str_copy(node, sizeof(node), inv->args[0]) < 0)
		return usage_error(inv, err, "'%.64s' is not a node's name", inv->args[0]);
	request.node = node;
	return make_line(inv, &request, err);
}

static enum status cmd_operator_cert_enroll(struct invocation *inv, struct error *err)
{
	Holdfast__V1__CreateEnrollmentRequest request = HOLDFAST__V1__CREATE_ENROLLMENT_REQUEST__INIT;
	char identity[ENROLL_IDENTITY_SIZE];
	char text[1024];
	char *hosts[HOSTS_MAX];

	if (str_copy(identity, sizeof(identity), inv->args[0]) < 0 || !strchr(identity, '/'))
		return usage_error(inv, err, "'%.64s' is not ROLE/NAME, as in operator/ann", inv->args[0]);
	TRY(read_hosts(inv, text, sizeof(text), hosts, &request.n_hosts, err));
	request.hosts = hosts;
	request.identity = identity;
	return make_line(inv, &request, err);
}

/* --- a certificate --- */

struct paths {
	char cert[PATH_MAX];
	char key[PATH_MAX];
	char ca[PATH_MAX];
	char begun[PATH_MAX]; /* of an enrolment: key and request, until the certificate is written */
};

static enum status find_paths(struct invocation *inv, const char *identity, struct paths *ret,
			      struct error *err)
{
	const char *folder = inv->options[OPT_OUT] ? inv->options[OPT_OUT] : ".";
	char name[128];
	char *slash;

	if (str_copy(name, sizeof(name), identity) < 0 || !(slash = strchr(name, '/')) || slash[1] == '\0' ||
	    strchr(slash + 1, '/'))
		return usage_error(inv, err, "'%.64s' is not ROLE/NAME, as in operator/ann", identity);
	*slash = '-';
	if (str_format(ret->cert, sizeof(ret->cert), "%s/%s.pem", folder, name) < 0 ||
	    str_format(ret->key, sizeof(ret->key), "%s/%s.key", folder, name) < 0 ||
	    str_format(ret->begun, sizeof(ret->begun), "%s/%s.enroll", folder, name) < 0 ||
	    str_format(ret->ca, sizeof(ret->ca), "%s/ca.pem", folder) < 0)
		return usage_error(inv, err, "the path of --out is too long");
	if (mkdir(folder, FOLDER_MODE) < 0 && errno != EEXIST)
		return error_set(err, status_from_errno(errno), errno, "cannot make the folder %s", folder);
	if (access(ret->cert, F_OK) == 0 || access(ret->key, F_OK) == 0)
		return error_set(err, STATUS_ALREADY_EXISTS, 0,
				 "%s or %s exists already and is kept; to renew it, move both away first",
				 ret->cert, ret->key);
	return STATUS_OK;
}

static enum status write_file(const char *path, mode_t mode, const char *text, struct error *err)
{
	int r = file_write_atomic(path, mode, text, strlen(text));

	return r < 0 ? error_set(err, status_from_errno(r), r, "cannot write %s", path) : STATUS_OK;
}

static void free_key(char **key)
{
	pki_key_free(*key);
}

/* The server that gave it is trusted, by the CA of before or the digest of a line. A folder with the key of a
 * CA keeps the certificate of that CA. */
static enum status write_ca(const struct paths *paths, const char *ca, struct error *err)
{
	cleanup_free char *before = NULL;
	char key[PATH_MAX];
	size_t n = strlen(paths->ca) - strlen(".pem");

	(void)str_format(key, sizeof(key), "%.*s.key", (int)n, paths->ca);
	if (access(key, F_OK) == 0 && access(paths->ca, F_OK) == 0)
		return STATUS_OK;
	if (file_read(paths->ca, PKI_PEM_MAX, &before, NULL) >= 0 && str_eq(before, ca))
		return STATUS_OK;
	return write_file(paths->ca, 0644, ca, err);
}

static enum status write_all(const struct paths *paths, const char *key, const char *certificate,
			     const char *ca, struct error *err)
{
	enum status status;

	if (key)
		TRY(write_file(paths->key, 0600, key, err));
	status = write_ca(paths, ca, err);
	if (status == STATUS_OK)
		status = write_file(paths->cert, 0644, certificate, err);
	if (status != STATUS_OK && key)
		(void)unlink(paths->key); /* worthless without its certificate */
	return status;
}

static enum status cmd_operator_cert_issue(struct invocation *inv, struct error *err)
{
	Holdfast__V1__IssueCertificateRequest request = HOLDFAST__V1__ISSUE_CERTIFICATE_REQUEST__INIT;
	cleanup_message Holdfast__V1__IssueCertificateResponse *answer = NULL;
	cleanup_connection struct connection *connection = NULL;
	cleanup(free_key) char *key = NULL;
	cleanup_free char *csr = NULL;
	char identity[128];
	char at[CLOCK_TEXT_SIZE];
	struct paths paths;
	int r;

	TRY(value_duration(inv, OPT_TTL, 0, TTL_MAX_MS, &request.ttl_ms, err));
	TRY(find_paths(inv, inv->args[0], &paths, err));
	if (inv->n_args > 1) {
		r = file_read(inv->args[1], PKI_CSR_MAX, &csr, NULL);
		if (r < 0)
			return error_set(err, status_from_errno(r), r, "cannot read the request %s",
					 inv->args[1]);
	} else {
		TRY(pki_make_request(&key, &csr, err));
	}
	(void)str_copy(identity, sizeof(identity), inv->args[0]); /* find_paths() has checked it */
	request.identity = identity;
	request.csr = csr;
	TRY(connect_server(inv, &connection, err));
	TRY(connection_call(connection, OPERATOR, "IssueCertificate", &request.base, CALL_TIMEOUT_US, &answer,
			    err));
	TRY(write_all(&paths, key, answer->certificate, answer->ca, err));
	if (inv->options[OPT_JSON])
		return print_json(json_pack("{ss ss ss ss sI}", "certificate", paths.cert, "key",
					    key ? paths.key : "", "identity", answer->identity, "serial",
					    answer->serial, "expires_at_ms",
					    (json_int_t)answer->expires_at_ms),
				  err);
	print_field("certificate", paths.cert);
	if (key)
		print_field("key", paths.key);
	print_field("identity", answer->identity);
	print_field("expires", clock_format(answer->expires_at_ms, at));
	return STATUS_OK;
}

/* --- a line that another operator has made --- */

static enum status read_line(struct invocation *inv, char ret[static ENROLL_LINE_SIZE], struct error *err)
{
	ssize_t n = 0;

	if (!str_eq(inv->args[0], "-"))
		return str_copy(ret, ENROLL_LINE_SIZE, inv->args[0]) < 0
			       ? usage_error(inv, err, "the enrolment line is too long")
			       : STATUS_OK;
	if (!fgets(ret, ENROLL_LINE_SIZE, stdin))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "standard input has no enrolment line");
	n = (ssize_t)strcspn(ret, "\r\n");
	ret[n] = '\0';
	return STATUS_OK;
}

static void release_event(sd_event **event)
{
	(void)sd_event_unref(*event);
}

/* For a shell. */
static void print_path(const char *before, const char *path)
{
	char text[4 * PATH_MAX];

	str_copy_argument(text, sizeof(text), path);
	(void)printf("%s%s", before, text);
}

static void show_variables(const struct enroll_line *line, const struct paths *paths)
{
	char address[RPC_SERVER_NAME_SIZE];

	if (!str_eq(line->role, "operator"))
		return;
	(void)fputs("Variables for commands:\nexport HOLDFAST_ADDR=", stdout);
	for (size_t i = 0; i < line->n_servers; i++)
		(void)printf("%s%s", i > 0 ? "," : "", rpc_address_text(&line->servers[i], address));
	print_path("\nexport HOLDFAST_CACERT=", paths->ca);
	print_path(" HOLDFAST_CLIENT_CERT=", paths->cert);
	print_path(" HOLDFAST_CLIENT_KEY=", paths->key);
	(void)putchar('\n');
}

static enum status show_enrolled(const struct invocation *inv, const struct enroll_line *line,
				 const struct paths *paths, const Holdfast__V1__EnrollResponse *answer,
				 struct error *err)
{
	char at[CLOCK_TEXT_SIZE];

	if (inv->options[OPT_JSON])
		return print_json(json_pack("{ss ss ss ss ss sI}", "certificate", paths->cert, "key",
					    paths->key, "ca", paths->ca, "identity", answer->identity,
					    "serial", answer->serial, "expires_at_ms",
					    (json_int_t)answer->expires_at_ms),
				  err);
	print_field("certificate", paths->cert);
	print_field("key", paths->key);
	print_field("CA", paths->ca);
	print_field("identity", answer->identity);
	print_field("expires", clock_format(answer->expires_at_ms, at));
	show_variables(line, paths);
	return STATUS_OK;
}

static enum status cmd_enroll(struct invocation *inv, struct error *err)
{
	cleanup_message Holdfast__V1__EnrollResponse *answer = NULL;
	cleanup(release_event) sd_event *event = NULL;
	cleanup(free_key) char *key = NULL;
	char identity[ENROLL_IDENTITY_SIZE];
	char text[ENROLL_LINE_SIZE];
	struct enroll_line line;
	struct paths paths;
	int r = sd_event_new(&event);

	if (r < 0)
		return error_set(err, STATUS_INTERNAL, r, "cannot make an event loop");
	TRY(read_line(inv, text, err));
	TRY(enroll_line_parse(text, &line, err));
	if (str_eq(line.role, ENROLL_ROLE_NODE))
		return error_set(
			err, STATUS_INVALID_ARGUMENT, 0,
			"the enrolment line is for node %s; on that machine: holdfast-agent --enroll -",
			line.name);
	TRY(find_paths(inv, enroll_line_identity(&line, identity), &paths, err));
	TRY(enroll_call(event, &line, paths.begun, &key, &answer, err));
	TRY(write_all(&paths, key, answer->certificate, answer->ca, err));
	(void)unlink(paths.begun);
	return show_enrolled(inv, &line, &paths, answer, err);
}

static const struct command commands[] = {
	{.path = "operator node enroll",
	 .args = "NAME",
	 .help = "Print the line with which a new node joins, once",
	 .example = "worker-3 --ttl 10m",
	 .options = OPTION_BIT(OPT_TTL),
	 .min_args = 1,
	 .max_args = 1,
	 .run = cmd_operator_node_enroll},
	{.path = "operator cert enroll",
	 .args = "ROLE/NAME",
	 .help = "Print the line with which a person or program gets a certificate, once",
	 .example = "operator/ann --ttl 10m",
	 .options = OPTION_BIT(OPT_TTL) | OPTION_BIT(OPT_HOST),
	 .min_args = 1,
	 .max_args = 1,
	 .run = cmd_operator_cert_enroll},
	{.path = "operator cert issue",
	 .args = "ROLE/NAME [CSR]",
	 .help = "Get a certificate from the server's CA",
	 .example = "operator/ann --ttl 12h",
	 .options = OPTION_BIT(OPT_OUT) | OPTION_BIT(OPT_TTL),
	 .min_args = 1,
	 .max_args = 2,
	 .run = cmd_operator_cert_issue},
};

const struct command_table enroll_commands = {commands, ARRAY_SIZE(commands)};

static const struct command line_commands[] = {
	{.path = "enroll",
	 .args = "LINE|-",
	 .help = "Get a certificate with the line of an operator",
	 .example = "- --out pki",
	 .options = OPTION_BIT(OPT_OUT),
	 .min_args = 1,
	 .max_args = 1,
	 .run = cmd_enroll},
};

const struct command_table enroll_line_commands = {line_commands, ARRAY_SIZE(line_commands)};
