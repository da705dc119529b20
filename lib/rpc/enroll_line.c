/* SPDX-License-Identifier: Apache-2.0 */
/* The line of an enrolment: format and parser. */

#include "rpc/enroll_line.h"

#include "base/cleanup.h"
#include "base/id.h"
#include "base/join.h"
#include "base/str.h"

#include <string.h>

#define BEGIN "holdfast-enroll/1/"

static bool is_node(const struct enroll_line *line)
{
	return str_eq(line->role, ENROLL_ROLE_NODE);
}

char *enroll_line_identity(const struct enroll_line *line, char ret[static ENROLL_IDENTITY_SIZE])
{
	(void)str_join(ret, ENROLL_IDENTITY_SIZE, line->role, "/", line->name); /* fits */
	return ret;
}

enum status enroll_line_format(const struct enroll_line *line, char ret[static ENROLL_LINE_SIZE],
			       struct error *err)
{
	char digest[2 * RPC_TLS_SHA256_SIZE + 1];
	char address[RPC_SERVER_NAME_SIZE];
	struct enroll_line read;
	int n;

	hex_encode(digest, line->ca_sha256, sizeof(line->ca_sha256));
	n = str_format(ret, ENROLL_LINE_SIZE, BEGIN "%s/%s%s%s/%s/%s/", line->cluster,
		       is_node(line) ? "" : line->role, is_node(line) ? "" : ":", line->name, line->token,
		       digest);
	for (size_t i = 0; n >= 0 && i < line->n_servers; i++) {
		int more = str_format(ret + n, (size_t)(ENROLL_LINE_SIZE - n), "%s%s", i > 0 ? "," : "",
				      rpc_address_text(&line->servers[i], address));

		n = more < 0 ? more : n + more;
	}
	if (n < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "the enrolment line is too long");
	return enroll_line_parse(ret, &read, err);
}

static enum status wrong(struct error *err, const char *part)
{
	return error_set(err, STATUS_INVALID_ARGUMENT, 0,
			 "invalid enrolment line: %s; expected " BEGIN
			 "CLUSTER/NAME/TOKEN/SHA256/HOST:PORT, the whole line that holdfast operator node "
			 "enroll or cert enroll has printed",
			 part);
}

/* The next part, up to a slash, into @ret. */
static bool take(const char **text, char *ret, size_t size)
{
	size_t n = strcspn(*text, "/");

	if ((*text)[n] != '/' || n == 0 || n >= size)
		return false;
	memcpy(ret, *text, n);
	ret[n] = '\0';
	*text += n + 1;
	return true;
}

static bool is_role(const char *role)
{
	static const char *const roles[] = {"operator", "fencer", "driver", "server"};

	for (size_t i = 0; i < ARRAY_SIZE(roles); i++)
		if (str_eq(roles[i], role))
			return true;
	return false;
}

static bool take_who(const char **text, struct enroll_line *ret)
{
	char who[ENROLL_IDENTITY_SIZE];
	char *colon;

	if (!take(text, who, sizeof(who)))
		return false;
	colon = strchr(who, ':');
	if (colon)
		*colon = '\0';
	return str_copy(ret->role, sizeof(ret->role), colon ? who : ENROLL_ROLE_NODE) >= 0 &&
	       (!colon || is_role(who)) &&
	       str_copy(ret->name, sizeof(ret->name), colon ? colon + 1 : who) >= 0 &&
	       id_is_name(ret->name, ENROLL_NAME_SIZE - 1);
}

static bool is_hex(const char *text, size_t n)
{
	return strlen(text) == n && strspn(text, "0123456789abcdef") == n;
}

enum status enroll_line_parse(const char *text, struct enroll_line *ret, struct error *err)
{
	char digest[2 * RPC_TLS_SHA256_SIZE + 1];
	ssize_t n;

	*ret = (struct enroll_line){.n_servers = 0};
	if (!str_starts_with(text, BEGIN))
		return wrong(err, "it begins otherwise");
	text += strlen(BEGIN);
	if (!take(&text, ret->cluster, sizeof(ret->cluster)) ||
	    !id_is_name(ret->cluster, ENROLL_NAME_SIZE - 1))
		return wrong(err, "the name of the cluster");
	if (!take_who(&text, ret))
		return wrong(err, "the name of the node, or ROLE:NAME");
	if (!take(&text, ret->token, sizeof(ret->token)) || !is_hex(ret->token, ENROLL_TOKEN_SIZE - 1))
		return wrong(err, "the token");
	if (!take(&text, digest, sizeof(digest)) || !is_hex(digest, sizeof(digest) - 1) ||
	    hex_decode(ret->ca_sha256, sizeof(ret->ca_sha256), digest) < 0)
		return wrong(err, "the digest of the CA");
	n = rpc_addresses_parse(text, ret->servers);
	if (n < 0)
		return wrong(err, "the addresses of the servers");
	ret->n_servers = (size_t)n;
	return STATUS_OK;
}
