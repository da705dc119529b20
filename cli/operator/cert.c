/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/parse.h"
#include "base/str.h"
#include "call/call.h"
#include "command/commands.h"
#include "operator/hosts.h"
#include "rpc/pki.h"
#include "show/output.h"
#include "show/rows.h"

#include <errno.h>
#include <holdfast/v1/operator.pb-c.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	CA_DAYS = 3650,
	SERVER_DAYS = 365,
	NODE_DAYS = 365,
	OPERATOR_DAYS = 90, /* people change */
	NAME_MAX_BYTES = 63,
	FOLDER_MODE = 0700,
};

/* The files to make, and their identity. */
struct pair {
	char ca_cert[PATH_MAX];
	char ca_key[PATH_MAX];
	char cert[PATH_MAX];
	char key[PATH_MAX];
	char uri[192];
};

/* One kind of certificate. */
struct role {
	const char *name; /* in the identity */
	const char *file; /* begin of the names of its files */
	unsigned int days;
	const char *place;	/* where its program looks for the certificate */
	const char *credential; /* of its key, in /etc/credstore */
	const char *setting;	/* and where else the key can be named */
	const char *then;	/* what makes the program use it */
};

static const struct role server_role = {"server",
					"server",
					SERVER_DAYS,
					"/etc/holdfast/tls/server.pem",
					"holdfast.server.key",
					"server.hcl",
					"systemctl restart holdfast-server"};
static const struct role node_role = {"node",
				      "node",
				      NODE_DAYS,
				      "/etc/holdfast/tls/node.pem",
				      "holdfast.node.key",
				      "agent.hcl",
				      "systemctl restart holdfast-agent"};
static const struct role fencer_role = {"fencer",
					"fencer",
					NODE_DAYS,
					"/etc/holdfast/tls/fencer.pem",
					"holdfast.fencer.key",
					"fencer.hcl",
					"systemctl restart holdfast-fencer"};
static const struct role operator_role = {"operator", "operator", OPERATOR_DAYS, NULL, NULL, NULL, NULL};

static const char *folder_of(const struct invocation *inv)
{
	return inv->options[OPT_OUT] ? inv->options[OPT_OUT] : ".";
}

static enum status path_in(struct invocation *inv, char ret[static PATH_MAX], const char *file,
			   const char *suffix, struct error *err)
{
	if (str_format(ret, PATH_MAX, "%s/%s%s", folder_of(inv), file, suffix) < 0)
		return usage_error(inv, err, "the path of --out is too long");
	return STATUS_OK;
}

static enum status days_of(struct invocation *inv, unsigned int absent, unsigned int *ret, struct error *err)
{
	*ret = absent;
	if (inv->options[OPT_DAYS] && parse_u32(inv->options[OPT_DAYS], 1, PKI_DAYS_MAX, ret) < 0)
		return usage_error(inv, err, "--days: a number from 1 to %d is wanted", PKI_DAYS_MAX);
	return STATUS_OK;
}

static enum status make_folder(const char *path, struct error *err)
{
	if (mkdir(path, FOLDER_MODE) == 0 || errno == EEXIST)
		return STATUS_OK;
	return error_set(err, status_from_errno(errno), errno, "cannot make the folder %s", path);
}

static enum status show_json(const struct pair *pair, int64_t expires_ms, struct error *err)
{
	char expires[CLOCK_TEXT_SIZE];

	return print_json(json_pack("{ss ss ss ss ss sI}", "certificate", pair->cert, "key", pair->key, "ca",
				    pair->ca_cert, "identity", pair->uri, "expires",
				    clock_format(expires_ms, expires), "expires_at_ms",
				    (json_int_t)expires_ms),
			  err);
}

static enum status show_pair(const struct invocation *inv, const struct pair *pair, int64_t expires_ms,
			     struct error *err)
{
	char expires[CLOCK_TEXT_SIZE];

	if (inv->options[OPT_JSON])
		return show_json(pair, expires_ms, err);
	print_field("certificate", pair->cert);
	print_field("key", pair->key);
	if (pair->uri[0] != '\0')
		print_field("identity", pair->uri);
	print_field("expires", clock_format(expires_ms, expires));
	return STATUS_OK;
}

/* --- the CA --- */

static enum status cmd_operator_cert_ca(struct invocation *inv, struct error *err)
{
	const char *cluster = inv->args[0];
	struct pair pair = {.uri = ""};
	unsigned int days = 0;
	int64_t expires_ms = 0;

	TRY(days_of(inv, CA_DAYS, &days, err));
	if (!id_is_name(cluster, PKI_CLUSTER_SIZE - 1))
		return usage_error(inv, err,
				   "'%.64s' is not a cluster's name (A-Z a-z 0-9 _ and -, up to %d)", cluster,
				   PKI_CLUSTER_SIZE - 1);
	TRY(path_in(inv, pair.cert, "ca", ".pem", err));
	TRY(path_in(inv, pair.key, "ca", ".key", err));
	TRY(make_folder(folder_of(inv), err));
	TRY(pki_make_ca_for(pair.key, pair.cert, cluster, days, err));
	TRY(pki_expiry(pair.cert, &expires_ms, err));
	(void)str_copy(pair.ca_cert, sizeof(pair.ca_cert), pair.cert); /* same size */
	enum status status = show_pair(inv, &pair, expires_ms, err);
	if (status != STATUS_OK || inv->options[OPT_JSON])
		return status;
	print_line("Copy %s to /etc/holdfast/tls/ca.pem of every machine.", pair.cert);
	print_line("%s makes any identity of cluster %s: keep it off line, on no server and no node.",
		   pair.key, cluster);
	return STATUS_OK;
}

/* --- what it signs --- */

static enum status find_paths(struct invocation *inv, const struct role *role, const char *name,
			      struct pair *ret, struct error *err)
{
	char cluster[PKI_CLUSTER_SIZE];
	char file[128];
	enum status status;

	if (name && !id_is_name(name, NAME_MAX_BYTES))
		return usage_error(inv, err, "'%.64s' is not a name (A-Z a-z 0-9 _ and -, up to %d)", name,
				   NAME_MAX_BYTES);
	if (name)
		(void)str_format(file, sizeof(file), "%s-%s", role->file, name);
	else
		(void)str_copy(file, sizeof(file), role->file);
	status = path_in(inv, ret->ca_cert, "ca", ".pem", err);
	if (status == STATUS_OK)
		status = path_in(inv, ret->ca_key, "ca", ".key", err);
	if (status == STATUS_OK)
		status = path_in(inv, ret->cert, file, ".pem", err);
	if (status == STATUS_OK)
		status = path_in(inv, ret->key, file, ".key", err);
	if (status == STATUS_OK)
		status = pki_ca_cluster(ret->ca_cert, cluster, err);
	if (status != STATUS_OK && !inv->is_usage_error && err)
		return error_prefix(err, "there is no CA to sign with (holdfast operator cert ca CLUSTER)");
	if (status == STATUS_OK)
		(void)str_format(ret->uri, sizeof(ret->uri), "holdfast://%s/%s/%s", cluster, role->name,
				 name ? name : role->name);
	return status;
}

static void show_next(const struct role *role, const struct pair *pair)
{
	if (role->place) {
		print_line(
			"Copy %s to %s and %s to /etc/holdfast/tls/ca.pem there, and the key %s to "
			"/etc/credstore/%s, mode 0600 and owned by root, from where its unit hands it over "
			"(or name it by tls { key = } in /etc/holdfast/%s); then: %s.",
			pair->cert, role->place, pair->ca_cert, pair->key, role->credential, role->setting,
			role->then);
		return;
	}
	print_line("Give both and %s to the operator, who names them with --cert, --key and --ca, or with "
		   "HOLDFAST_CLIENT_CERT, HOLDFAST_CLIENT_KEY and HOLDFAST_CACERT.",
		   pair->ca_cert);
}

static enum status issue(struct invocation *inv, const struct role *role, const char *name, struct error *err)
{
	struct hosts hosts = {.n_names = 0};
	struct pair pair = {.uri = ""};
	struct pki_cert_request request = {.uri = pair.uri, .common_name = name ? name : role->name};
	int64_t expires_ms = 0;
	enum status status = days_of(inv, role->days, &request.days, err);

	if (status == STATUS_OK)
		status = hosts_read(inv, &hosts, err);
	if (status == STATUS_OK)
		status = find_paths(inv, role, name, &pair, err);
	request.dns_names = hosts.names;
	request.n_dns_names = hosts.n_names;
	request.ip_addresses = hosts.addresses;
	request.n_ip_addresses = hosts.n_addresses;
	if (status == STATUS_OK)
		status = pki_issue(pair.ca_key, pair.ca_cert, &request, pair.key, pair.cert, err);
	if (status == STATUS_OK)
		status = pki_expiry(pair.cert, &expires_ms, err);
	if (status == STATUS_OK)
		status = show_pair(inv, &pair, expires_ms, err);
	if (status == STATUS_OK && !inv->options[OPT_JSON])
		show_next(role, &pair);
	return status;
}

static enum status cmd_operator_cert_server(struct invocation *inv, struct error *err)
{
	if (!inv->options[OPT_HOST])
		return usage_error(
			inv, err,
			"--host is missing: the names and addresses by which the server is reached");
	return issue(inv, &server_role, inv->n_args > 0 ? inv->args[0] : NULL, err);
}

static enum status cmd_operator_cert_node(struct invocation *inv, struct error *err)
{
	return issue(inv, &node_role, inv->args[0], err);
}

static enum status cmd_operator_cert_fencer(struct invocation *inv, struct error *err)
{
	return issue(inv, &fencer_role, inv->args[0], err);
}

static enum status cmd_operator_cert_operator(struct invocation *inv, struct error *err)
{
	return issue(inv, &operator_role, inv->args[0], err);
}

/* --- revocation, at the server --- */

static DEFINE_ROWS(revocation_page, holdfast__v1__revocation, NULL, COL_SET("serial", "{serial}"),
		   COL_SET("identity", "{identity}"), COL("revoked", "{revoked_at_ms:time}"),
		   COL("by", "{who}"), COL_SET("reason", "{reason}"),
		   COL("ends", "{ends_at_ms?{ends_at_ms:time}|never}"));
static DEFINE_ROWS(revocation_table, holdfast__v1__revocation, NULL, COL("IDENTITY", "{identity}"),
		   COL("SERIAL", "{serial?{serial}|all}"), COL("AGE", "{revoked_at_ms:age}"),
		   COL("BY", "{who}"), COL("REASON", "{reason}"));
static DEFINE_ROWS(
	revoke_page, holdfast__v1__revoke_certificate_response, NULL, PART("revocation", &revocation_page),
	LINE("{revocation.serial}",
	     "Certificates that were renewed from this one, or issued with it, stay good. To revoke "
	     "all of its identity: holdfast operator cert revoke "
	     "{revocation.identity?{revocation.identity}|ROLE/NAME} --reason TEXT"),
	LINE("{revocation.serial?|y}",
	     "All certificates of {revocation.identity} that are valid now are revoked. For a new "
	     "one: holdfast operator node enroll NAME or, if it is no node's: holdfast operator "
	     "cert enroll ROLE/NAME"));

/* A file of a certificate: its serial, until when it would be good, and its identity: the server revokes all
 * of a node's. */
static enum status read_certificate(struct call *call, Holdfast__V1__RevokeCertificateRequest *request,
				    struct error *err)
{
	struct pki_facts facts;

	TRY(pki_read_facts(call->inv->args[0], &facts, err));
	if (facts.serial[0] == '\0')
		return error_set(
			err, STATUS_INVALID_ARGUMENT, 0,
			"%s: its serial number is no positive number of at most 20 bytes; revoke all "
			"of its identity: holdfast operator cert revoke ROLE/NAME",
			call->inv->args[0]);
	call_set(call, &request->serial, facts.serial);
	call_set(call, &request->identity, facts.uri);
	request->ends_at_ms = facts.expires_ms;
	return STATUS_OK;
}

static enum status cert_revoke_load(struct call *call, void *message, struct error *err)
{
	static const char *const roles[] = {"node/", "operator/", "server/", "fencer/", "driver/"};
	Holdfast__V1__RevokeCertificateRequest *request = message;
	const char *given = call->inv->args[0];

	TRY(call_reason(call, OPT_REASON, &request->reason, err));
	for (size_t i = 0; i < ARRAY_SIZE(roles); i++)
		if (str_starts_with(given, roles[i])) {
			call_set(call, &request->identity, given);
			return STATUS_OK;
		}
	if (access(given, F_OK) == 0)
		return read_certificate(call, request, err);
	if (strchr(given, '/') || strchr(given, '.'))
		return error_set(
			err, STATUS_NOT_FOUND, 0,
			"there is no file %s; give node/NAME, operator/NAME, server/NAME, fencer/NAME or "
			"driver/NAME, the serial number, or the file of the certificate",
			given);
	call_set(call, &request->serial, given);
	return STATUS_OK;
}

/* --- the key of tickets --- */

static DEFINE_ROWS(
	key_page, holdfast__v1__rotate_key_response, NULL, COL("in use", "{in_use}"),
	COL_SET("next", "{next}"), COL_SET("waits for", "{waiting?{waiting}: {waits_for}}"),
	LINE("{next}",
	     "Add a line ticket_key = NEXT to mounthelper.policy on every node (then: holdfast "
	     "policy apply), and NEXT to ticket_keys of drivers and fencers. The server uses it "
	     "once all nodes and drivers have it; if there are fencers: holdfast operator key use."),
	LINE("{next?|y}", "There is no next key. Ten minutes after a change, remove the former key "
			  "from policies and files. Then another change can begin."));

static enum status key_use_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__RotateKeyRequest *request = message;

	request->use_now = true;
	return STATUS_OK;
}

static const struct command commands[] = {
	{.path = "operator cert ca",
	 .args = "CLUSTER",
	 .help = "Make a small CA for a cluster",
	 .example = "prod --out /etc/holdfast/ca",
	 .options = OPTION_BIT(OPT_OUT) | OPTION_BIT(OPT_DAYS),
	 .min_args = 1,
	 .max_args = 1,
	 .run = cmd_operator_cert_ca},
	{.path = "operator cert server",
	 .args = "[NAME]",
	 .help = "Make a server's key and certificate",
	 .example = "s1 --host server.example,192.0.2.7",
	 .options = OPTION_BIT(OPT_OUT) | OPTION_BIT(OPT_DAYS) | OPTION_BIT(OPT_HOST),
	 .max_args = 1,
	 .run = cmd_operator_cert_server},
	{.path = "operator cert node",
	 .args = "NAME",
	 .help = "Make a node's key and certificate",
	 .example = "worker-1",
	 .options = OPTION_BIT(OPT_OUT) | OPTION_BIT(OPT_DAYS),
	 .min_args = 1,
	 .max_args = 1,
	 .run = cmd_operator_cert_node},
	{.path = "operator cert fencer",
	 .args = "NAME",
	 .help = "Make a fencer's key and certificate",
	 .example = "f1",
	 .options = OPTION_BIT(OPT_OUT) | OPTION_BIT(OPT_DAYS),
	 .min_args = 1,
	 .max_args = 1,
	 .run = cmd_operator_cert_fencer},
	{.path = "operator cert operator",
	 .args = "NAME",
	 .help = "Make an operator's key and certificate",
	 .example = "ann --days 90",
	 .options = OPTION_BIT(OPT_OUT) | OPTION_BIT(OPT_DAYS),
	 .min_args = 1,
	 .max_args = 1,
	 .run = cmd_operator_cert_operator},
	{.path = "operator cert revoke",
	 .args = "ROLE/NAME|SERIAL|FILE",
	 .help = "Revoke certificates and end their sessions, at once",
	 .example = "node/worker-3 --reason 'stolen'",
	 .options = OPTION_BIT(OPT_REASON) | OPTION_BIT(OPT_YES),
	 .min_args = 1,
	 .max_args = 1,
	 .call = {.service = &holdfast__v1__operator__descriptor,
		  .method = "RevokeCertificate",
		  .load = cert_revoke_load,
		  .question = "Its sessions and calls end now, and it needs a new certificate. Mounts and "
			      "claims of a node are kept. Do it?",
		  .rows = &revoke_page}},
	{.path = "operator key rotate",
	 .args = "",
	 .help = "Make the next ticket key, or show what it waits for",
	 .example = "",
	 .call = {.service = &holdfast__v1__operator__descriptor, .method = "RotateKey", .rows = &key_page}},
	{.path = "operator key use",
	 .args = "",
	 .help = "Sign with the next ticket key now, although nodes lack it",
	 .example = "--yes",
	 .options = OPTION_BIT(OPT_YES),
	 .call = {.service = &holdfast__v1__operator__descriptor,
		  .method = "RotateKey",
		  .load = key_use_load,
		  .question = "Nodes, drivers and fencers that lack the next key refuse mounts, tasks and "
			      "orders from then on. Do it?",
		  .rows = &key_page}},
	{.path = "operator cert revoked",
	 .args = "",
	 .help = "List revoked certificates",
	 .example = "",
	 .call = {.service = &holdfast__v1__operator__descriptor,
		  .method = "ListRevocations",
		  .rows = &revocation_table,
		  .pages = PAGES_LIST}},
};

const struct command_table cert_commands = {commands, ARRAY_SIZE(commands)};
