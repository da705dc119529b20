/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast operator init: make the files of a cluster's first server, on its machine. */

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/str.h"
#include "call/call.h"
#include "command/commands.h"
#include "operator/hosts.h"
#include "rpc/pki.h"
#include "show/output.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CA_DAYS = 3650, SERVER_DAYS = 365 };

enum target {
	TARGET_CA,
	TARGET_CERT,
	TARGET_CA_KEY,
	TARGET_KEY,
	TARGET_TICKET_KEY,
	TARGET_SETTINGS,
	TARGET_N,
};

static const struct {
	const char *what;
	const char *path;
} targets[] = {
	[TARGET_CA] = {"CA", "/etc/holdfast/tls/ca.pem"},
	[TARGET_CERT] = {"certificate", "/etc/holdfast/tls/server.pem"},
	[TARGET_CA_KEY] = {"key of the CA", "/etc/credstore/holdfast.ca.key"},
	[TARGET_KEY] = {"key", "/etc/credstore/holdfast.server.key"},
	[TARGET_TICKET_KEY] = {"ticket key", "/etc/credstore/holdfast.ticket.key"},
	[TARGET_SETTINGS] = {"settings", "/etc/holdfast/server.hcl"},
};

_Static_assert(ARRAY_SIZE(targets) == TARGET_N, "each target has a path");

static const struct {
	const char *path;
	mode_t mode;
} folders[] = {
	{"/etc", 0755}, {"/etc/holdfast", 0755}, {"/etc/holdfast/tls", 0755}, {"/etc/credstore", 0700}};

typedef char all_paths[TARGET_N][PATH_MAX];

/* Nothing is written unless all of it can be. */
static enum status find_paths(struct invocation *inv, all_paths ret, struct error *err)
{
	const char *root = option_text(inv, OPT_OUT);

	for (int i = 0; i < TARGET_N; i++) {
		if (str_format(ret[i], PATH_MAX, "%s%s", root, targets[i].path) < 0)
			return usage_error(inv, err, "the path of --out is too long");
		if (access(ret[i], F_OK) == 0)
			return error_set(
				err, STATUS_ALREADY_EXISTS, 0,
				"%s exists, so this machine may be set up already; nothing was changed. "
				"Next: holdfast-server --check-config; to begin with new keys, move it "
				"away first",
				ret[i]);
	}
	return STATUS_OK;
}

static enum status make_folders(struct invocation *inv, struct error *err)
{
	char path[PATH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		(void)str_format(path, sizeof(path), "%s%s", option_text(inv, OPT_OUT), folders[i].path);
		if (mkdir(path, folders[i].mode) < 0 && errno != EEXIST)
			return error_set(err, status_from_errno(errno), errno, "cannot make the folder %s",
					 path);
	}
	return STATUS_OK;
}

static enum status write_settings(const char *path, const char *cluster, const char *address,
				  struct error *err)
{
	char text[1024];
	int r;

	(void)str_format(text, sizeof(text),
			 "cluster = \"%s\"\n"
			 "listen {\n"
			 "  host      = \"%s\"\n"
			 "  operators = [\"root\"]\n"
			 "}\n"
			 "ca {\n"
			 "  certificate = \"%s\"\n"
			 "}\n",
			 cluster, address, targets[TARGET_CA].path);
	r = file_write_atomic(path, 0644, text, strlen(text));
	return r < 0 ? error_set(err, status_from_errno(r), r, "cannot write %s", path) : STATUS_OK;
}

/* The settings come last: without them the server does not start. */
static enum status make_all(const char *cluster, const struct hosts *hosts, all_paths paths,
			    struct error *err)
{
	char uri[192];
	const struct pki_cert_request request = {
		.uri = uri,
		.common_name = "server",
		.dns_names = hosts->names,
		.n_dns_names = hosts->n_names,
		.ip_addresses = hosts->addresses,
		.n_ip_addresses = hosts->n_addresses,
		.days = SERVER_DAYS,
	};

	(void)str_format(uri, sizeof(uri), "holdfast://%s/server/server", cluster);
	TRY(pki_make_ca_for(paths[TARGET_CA_KEY], paths[TARGET_CA], cluster, CA_DAYS, err));
	TRY(pki_issue(paths[TARGET_CA_KEY], paths[TARGET_CA], &request, paths[TARGET_KEY], paths[TARGET_CERT],
		      err));
	TRY(pki_make_signing_key(paths[TARGET_TICKET_KEY], err));
	return write_settings(paths[TARGET_SETTINGS], cluster,
			      hosts->n_addresses > 0 ? hosts->addresses[0] : "0.0.0.0", err);
}

static enum status cmd_operator_init(struct invocation *inv, struct error *err)
{
	const char *cluster = inv->args[0];
	struct hosts hosts = {.n_names = 0};
	all_paths paths;

	if (!id_is_name(cluster, PKI_CLUSTER_SIZE - 1))
		return usage_error(inv, err,
				   "'%.64s' is not a cluster's name (A-Z a-z 0-9 _ and -, up to %d)", cluster,
				   PKI_CLUSTER_SIZE - 1);
	if (!inv->options[OPT_HOST])
		return usage_error(
			inv, err,
			"--host is missing: the names and addresses by which the server is reached");
	TRY(hosts_read(inv, &hosts, err));
	TRY(find_paths(inv, paths, err));
	TRY(make_folders(inv, err));
	TRY(make_all(cluster, &hosts, paths, err));
	for (int i = 0; i < TARGET_N; i++)
		print_field(targets[i].what, paths[i]);
	print_line("The key of the CA makes the certificate of any node or operator of cluster %s. Next: "
		   "make the "
		   "store with holdfast-server --new-cluster, see holdfast-server(8); then: systemctl enable "
		   "--now "
		   "holdfast-server",
		   cluster);
	return STATUS_OK;
}

static const struct command commands[] = {
	{.path = "operator init",
	 .args = "CLUSTER",
	 .help = "Make the keys, certificates and settings of a cluster's first server",
	 .example = "prod --host claims.example,192.0.2.10",
	 .options = OPTION_BIT(OPT_HOST) | OPTION_BIT(OPT_OUT),
	 .min_args = 1,
	 .max_args = 1,
	 .run = cmd_operator_init},
};

const struct command_table init_commands = {commands, ARRAY_SIZE(commands)};
