/* SPDX-License-Identifier: Apache-2.0 */
/* Enrols this node: one call to a server, and the files that the agent needs. */

#include "identity/enroll.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "enroll/enroll_call.h"
#include "rpc/pki.h"

#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define AGENT_ACCOUNT "holdfast"

enum { ROOM_BYTES = 256 << 10 /* more than all files that are written */ };

static void free_key(char **key)
{
	pki_key_free(*key);
}

static void free_answer(Holdfast__V1__EnrollResponse **answer)
{
	if (*answer)
		holdfast__v1__enroll_response__free_unpacked(*answer, NULL);
}

/* As root the file becomes the agent's, which has no privilege. */
static enum status write_file(const char *path, mode_t mode, const char *text, struct error *err)
{
	const struct passwd *account = geteuid() == 0 ? getpwnam(AGENT_ACCOUNT) : NULL;
	int r = file_write_atomic(path, mode, text, strlen(text));

	/* no link is followed, which the owner of the folder could put there */
	if (r >= 0 && account && mode == 0600 && lchown(path, account->pw_uid, account->pw_gid) < 0)
		r = -errno;
	return r < 0 ? error_set(err, status_from_errno(r), r, "write %s", path) : STATUS_OK;
}

/* A token is good once: the folder is tried before it is used. */
static enum status prepare_folder(const char *into, struct enrolled *ret, struct error *err)
{
	cleanup_free char *zeros = calloc(1, ROOM_BYTES);
	char folder[PATH_MAX];
	char probe[PATH_MAX];
	int r;

	if (str_format(folder, sizeof(folder), "%s/tls", into) < 0 ||
	    str_format(probe, sizeof(probe), "%s/enroll.probe", folder) < 0 ||
	    str_format(ret->ca, sizeof(ret->ca), "%s/ca.pem", folder) < 0 ||
	    str_format(ret->certificate, sizeof(ret->certificate), "%s/node.key", folder) < 0 ||
	    str_format(ret->begun, sizeof(ret->begun), "%s/enroll.key", folder) < 0 ||
	    str_format(ret->ticket, sizeof(ret->ticket), "%s/ticket.pub", folder) < 0 ||
	    str_format(ret->cli, sizeof(ret->cli), "%s/cli.env", into) < 0 ||
	    str_format(ret->config, sizeof(ret->config), "%s/agent.hcl", into) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "--into: the path is too long");
	if (!zeros)
		return error_no_memory(err, "the enrolment");
	if ((mkdir(into, 0755) < 0 && errno != EEXIST) || (mkdir(folder, 0755) < 0 && errno != EEXIST))
		return error_set(err, status_from_errno(errno), errno, "make the folder %s", folder);
	r = file_write_atomic(probe, 0600, zeros, ROOM_BYTES);
	(void)unlink(probe);
	return r < 0 ? error_set(err, status_from_errno(r), r,
				 "write into %s (the enrolment token was not used: it is still good)", folder)
		     : STATUS_OK;
}

/* For commands and units of this machine. */
static enum status write_cli(const struct enrolled *enrolled, struct error *err)
{
	const struct enroll_line *line = &enrolled->line;
	char text[RPC_SERVERS_MAX * (RPC_SERVER_NAME_SIZE + 1) + PATH_MAX + 64] = "HOLDFAST_ADDR=";
	char address[RPC_SERVER_NAME_SIZE];
	size_t n = strlen(text);

	for (size_t i = 0; i < line->n_servers; i++)
		n += (size_t)str_format(text + n, sizeof(text) - n, "%s%s", i > 0 ? "," : "",
					rpc_address_text(&line->servers[i], address));
	(void)str_format(text + n, sizeof(text) - n, "\nHOLDFAST_CACERT=%s\n", enrolled->ca);
	return write_file(enrolled->cli, 0644, text, err);
}

static enum status write_config(const struct enrolled *enrolled, struct error *err)
{
	const struct enroll_line *line = &enrolled->line;
	char servers[RPC_SERVERS_MAX * (RPC_SERVER_NAME_SIZE + 4)] = "";
	char address[RPC_SERVER_NAME_SIZE];
	char text[sizeof(servers) + 3UL * PATH_MAX];
	size_t n = 0;

	for (size_t i = 0; i < line->n_servers; i++)
		n += (size_t)str_format(servers + n, sizeof(servers) - n, "%s\"%s\"", i > 0 ? ", " : "",
					rpc_address_text(&line->servers[i], address));
	(void)str_format(
		text, sizeof(text),
		"cluster = \"%s\"\nnode_id = \"%s\"\nservers = [%s]\ntls {\n  ca   = \"%s\"\n  cert = "
		"\"%s\"\n  key  = \"%s\"\n}\nhelper {\n  socket = "
		"\"/run/holdfast-mount/mounthelper.sock\"\n}\n",
		line->cluster, line->name, servers, enrolled->ca, enrolled->certificate,
		enrolled->certificate);
	return write_file(enrolled->config, 0644, text, err);
}

static enum status write_all(struct enrolled *enrolled, const char *key,
			     const Holdfast__V1__EnrollResponse *answer, struct error *err)
{
	cleanup(free_key) char *pair = NULL;
	char ticket[ENROLL_TICKET_KEY_SIZE + 1];

	if (asprintf(&pair, "%s%s", answer->certificate, key) < 0) {
		pair = NULL;
		return error_no_memory(err, "the certificate");
	}
	TRY(write_file(enrolled->ca, 0644, answer->ca, err));
	(void)str_format(ticket, sizeof(ticket), "%s\n", enrolled->ticket_key);
	TRY(write_file(enrolled->ticket, 0644, ticket, err));
	TRY(write_file(enrolled->certificate, 0600, pair, err));
	if (access(enrolled->cli, F_OK) < 0)
		TRY(write_cli(enrolled, err));
	enrolled->wrote_config = access(enrolled->config, F_OK) < 0;
	return enrolled->wrote_config ? write_config(enrolled, err) : STATUS_OK;
}

enum status enroll(sd_event *event, const char *line, const char *into, struct enrolled *ret,
		   struct error *err)
{
	cleanup(free_answer) Holdfast__V1__EnrollResponse *answer = NULL;
	cleanup(free_key) char *key = NULL;

	TRY(enroll_line_parse(line, &ret->line, err));
	if (!str_eq(ret->line.role, ENROLL_ROLE_NODE))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "the enrolment line is for %s %s, not for a node; there: holdfast enroll -",
				 ret->line.role, ret->line.name);
	TRY(prepare_folder(into, ret, err));
	ret->policy = HOLDFAST_POLICY_PATH; /* the helper reads no other one, and so does policy apply */
	TRY(enroll_call(event, &ret->line, ret->begun, &key, &answer, err));
	ret->expires_ms = answer->expires_at_ms;
	if (answer->n_ticket_keys > 0 && answer->ticket_keys[0].len == (ENROLL_TICKET_KEY_SIZE - 1) / 2)
		hex_encode(ret->ticket_key, answer->ticket_keys[0].data, answer->ticket_keys[0].len);
	TRY(write_all(ret, key, answer, err));
	(void)unlink(ret->begun);
	return STATUS_OK;
}

void enroll_print(const struct enrolled *enrolled)
{
	const struct enroll_line *line = &enrolled->line;
	char at[CLOCK_TEXT_SIZE];

	(void)printf(
		"node %s of cluster %s is enrolled until %s; the agent renews the certificate by itself\n",
		line->name, line->cluster, clock_format(enrolled->expires_ms, at));
	(void)printf("written: %s, %s%s%s\n", enrolled->certificate, enrolled->ca,
		     enrolled->wrote_config ? ", " : "", enrolled->wrote_config ? enrolled->config : "");
	if (!enrolled->wrote_config)
		(void)printf(
			"%s exists and is kept; it needs: tls { ca = \"%s\" cert = \"%s\" key = \"%s\" }\n",
			enrolled->config, enrolled->ca, enrolled->certificate, enrolled->certificate);
	if (access(enrolled->policy, F_OK) == 0) {
		(void)printf(
			"%s exists and is kept; it needs: ticket_key = %s; then: holdfast policy apply\n",
			enrolled->policy, enrolled->ticket_key);
		return;
	}
	(void)printf("for the mount helper's policy: ticket_key = %s\n", enrolled->ticket_key);
	(void)printf("a new policy: holdfast policy init >%s && holdfast policy apply\n", enrolled->policy);
}
