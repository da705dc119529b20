/* SPDX-License-Identifier: Apache-2.0 */
#include "dev.h"

#include "server.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/path.h"
#include "base/str.h"
#include "model/claim.h"
#include "recovery/new_cluster.h"
#include "rpc/pki.h"
#include "ticket/ticket.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CERT_DAYS = 365, DISK_RESERVE = 16 << 20 };

static enum status make_folder(const char *path, struct error *err)
{
	if (mkdir(path, 0755) == 0 || errno == EEXIST)
		return STATUS_OK;
	return error_set(err, status_from_errno(errno), errno, "make the folder %s", path);
}

static enum status allow_existing(enum status status)
{
	return status == STATUS_ALREADY_EXISTS ? STATUS_OK : status;
}

struct tls_paths {
	char cert[PATH_MAX];
	char key[PATH_MAX];
};

static void tls_paths(const char *dir, const char *name, struct tls_paths *ret)
{
	(void)str_format(ret->cert, sizeof(ret->cert), "%s/tls/%s.pem", dir, name);
	(void)str_format(ret->key, sizeof(ret->key), "%s/tls/%s.key", dir, name);
}

struct issue {
	const char *dir;
	const char *cluster;
	const char *file; /* "server" */
	const char *role; /* in the identity */
	const char *name;
};

static enum status issue(const struct tls_paths *ca, const struct issue *issue, struct error *err)
{
	static const char *const dns[] = {"localhost"};
	static const char *const ip[] = {"127.0.0.1", "::1"};
	char uri[256];
	struct tls_paths paths;
	const struct pki_cert_request request = {
		.uri = uri,
		.common_name = issue->name,
		.dns_names = dns,
		.n_dns_names = ARRAY_SIZE(dns),
		.ip_addresses = ip,
		.n_ip_addresses = ARRAY_SIZE(ip),
		.days = CERT_DAYS,
	};

	tls_paths(issue->dir, issue->file, &paths);
	(void)str_format(uri, sizeof(uri), "holdfast://%s/%s/%s", issue->cluster, issue->role, issue->name);
	return allow_existing(pki_issue(ca->key, ca->cert, &request, paths.key, paths.cert, err));
}

static enum status issue_nodes(const struct dev_options *options, const struct tls_paths *ca,
			       const char *cluster, struct error *err)
{
	for (size_t i = 0; i < options->n_nodes; i++) {
		char file[NODE_ID_MAX + 8];

		if (!id_is_name(options->nodes[i], NODE_ID_MAX))
			return error_set(err, STATUS_INVALID_ARGUMENT, 0,
					 "--node: '%.64s' is not a node id (A-Z a-z 0-9 _ and -, up to %d)",
					 options->nodes[i], NODE_ID_MAX);
		(void)str_format(file, sizeof(file), "node-%s", options->nodes[i]);
		TRY(issue(ca,
			  &(struct issue){.dir = options->dir,
					  .cluster = cluster,
					  .file = file,
					  .role = "node",
					  .name = options->nodes[i]},
			  err));
	}
	return STATUS_OK;
}

static enum status make_identities(const struct dev_options *options, const char *cluster, struct error *err)
{
	struct tls_paths ca;

	tls_paths(options->dir, "ca", &ca);
	TRY(allow_existing(pki_make_ca(ca.key, ca.cert, cluster, err)));
	TRY(issue(&ca,
		  &(struct issue){.dir = options->dir,
				  .cluster = cluster,
				  .file = "server",
				  .role = "server",
				  .name = "dev"},
		  err));
	TRY(issue(&ca,
		  &(struct issue){.dir = options->dir,
				  .cluster = cluster,
				  .file = "operator",
				  .role = "operator",
				  .name = "dev"},
		  err));
	return issue_nodes(options, &ca, cluster, err);
}

/* The public half in the form in which policies name it. */
static enum status write_public_key(const struct config *config, const char *dir, struct error *err)
{
	struct ticket_issuer *issuer;
	uint8_t key[TICKET_KEY_SIZE];
	char text[2 * TICKET_KEY_SIZE + 2];
	char path[PATH_MAX];
	enum status status = ticket_issuer_new(config->ticket_key, config->cluster, &issuer, err);
	int r;

	if (status != STATUS_OK)
		return status;
	ticket_issuer_public_key(issuer, key);
	ticket_issuer_free(issuer);
	hex_encode(text, key, sizeof(key));
	text[sizeof(text) - 2] = '\n';
	(void)str_format(path, sizeof(path), "%s/ticket.pub", dir);
	r = file_write_atomic(path, 0644, text, sizeof(text) - 1);
	return r < 0 ? error_set(err, status_from_errno(r), r, "write %s", path) : STATUS_OK;
}

static void fill_config(const struct dev_options *options, const char *cluster, struct config *config)
{
	const char *dir = options->dir;

	config_init(config);
	config->dev = true;
	config->acl = false;
	config->disk_reserve = DISK_RESERVE;
	config->port = options->port;
	(void)str_copy(config->cluster, sizeof(config->cluster), cluster);
	(void)str_copy(config->data_dir, sizeof(config->data_dir), dir);
	(void)str_format(config->ca, sizeof(config->ca), "%s/tls/ca.pem", dir);
	(void)str_format(config->cert, sizeof(config->cert), "%s/tls/server.pem", dir);
	(void)str_format(config->key, sizeof(config->key), "%s/tls/server.key", dir);
	(void)str_format(config->ticket_key, sizeof(config->ticket_key), "%s/ticket.key", dir);
	(void)str_format(config->address_file, sizeof(config->address_file), "%s/address", dir);
}

/* Nothing that was granted with another key is good with a new one: so a store may begin with it. */
static enum status make_store(const struct config *config, struct error *err)
{
	struct new_epoch_result result;
	char store[PATH_MAX];

	(void)str_format(store, sizeof(store), "%s/" SERVER_STORE, config->data_dir);
	if (access(config->ticket_key, F_OK) == 0 || new_cluster_check_store(store, NULL) == STATUS_OK)
		return STATUS_OK;
	return new_cluster_make(config, &result, err);
}

enum status dev_prepare(const struct dev_options *options, struct config *config, struct error *err)
{
	const char *cluster = options->cluster ? options->cluster : "dev";
	char tls[PATH_MAX];
	enum status status;

	if (!path_is_normal(options->dir) || strlen(options->dir) >= sizeof(config->data_dir))
		return error_set(
			err, STATUS_INVALID_ARGUMENT, 0,
			"--dev: not an absolute path without . and .. parts of at most %zu bytes: %s",
			sizeof(config->data_dir) - 1, options->dir);
	if (!id_is_name(cluster, CONFIG_CLUSTER_SIZE - 1))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "--cluster: '%s' is not a cluster's name",
				 cluster);
	fill_config(options, cluster, config);
	(void)str_format(tls, sizeof(tls), "%s/tls", options->dir);
	status = make_folder(options->dir, err);
	if (status == STATUS_OK)
		status = make_folder(tls, err);
	if (status == STATUS_OK)
		status = make_identities(options, cluster, err);
	if (status == STATUS_OK && options->makes_store) /* first: an interrupted run begins here again */
		status = make_store(config, err);
	if (status == STATUS_OK)
		status = allow_existing(ticket_key_make(config->ticket_key, err));
	if (status == STATUS_OK)
		status = write_public_key(config, options->dir, err);
	return status;
}
