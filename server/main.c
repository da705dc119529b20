/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast-server: argv, then server_run(). */

#include "daemon.h"
#include "dev.h"
#include "server.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/exit_code.h"
#include "base/parse.h"
#include "base/selinux_label.h"
#include "base/str.h"
#include "kit/copy_look.h"
#include "lead/lead.h"
#include "log/log.h"
#include "log/service.h"
#include "recovery/kit_files.h"
#include "recovery/migrate.h"
#include "recovery/new_cluster.h"
#include "recovery/restore.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXIT_OK = 0, EXIT_FAIL = 1, EXIT_USAGE = 2, NODES_MAX = 64 };

static const char usage_text[] =
	"usage: holdfast-server [--config FILE] [--check-config]\n"
	"       holdfast-server [--config FILE] --new-cluster\n"
	"       holdfast-server [--config FILE] --migrate to-etcd|to-sqlite\n"
	"       holdfast-server [--config FILE] --raise-schema\n"
	"       holdfast-server [--config FILE] --replace-ticket-key\n"
	"       holdfast-server [--config FILE] --restore FILE [--passphrase-file FILE | --key-file FILE]\n"
	"                       [--other-cluster] [--dry-run]\n"
	"       holdfast-server --dev DIR [--cluster NAME] [--node NAME]... [--port PORT]\n"
	"\n"
	"The claim server: decides who may use a volume.\n"
	"\n"
	"  -c, --config FILE   settings (default " HOLDFAST_SERVER_CONFIG ")\n"
	"      --check-config  check the settings, and end\n"
	"      --new-cluster   make a new store, and end: for a first start, because it\n"
	"                      knows no node, volume or claim\n"
	"      --migrate WHERE to-etcd or to-sqlite: move the store of servers that are not running, and "
	"end\n"
	"      --replace-ticket-key  of several servers: from now on those with the ticket key of this one "
	"lead;\n"
	"                      end\n"
	"      --raise-schema  of several servers: from now on those of this version lead; end\n"
	"      --restore FILE  put this copy (holdfast operator backup) in the place of the store of a "
	"server\n"
	"                      that is not running, and end; the old store is kept under another name\n"
	"      --other-cluster with --restore: the copy may be of a cluster of another name\n"
	"      --dev DIR       development on loopback: make a CA, keys and certificates in DIR; no access "
	"control\n"
	"      --cluster NAME  with --dev: name of the cluster (default dev)\n"
	"      --node NAME     with --dev: make a certificate for this node; may be repeated\n"
	"      --port PORT     with --dev: listen here (default: a free port, written to DIR/address)\n"
	"  -v, --verbose       log more\n"
	"  -V, --version       print the version\n"
	"  -h, --help          print this text\n";

struct arguments {
	const char *config_path;
	bool check_config;
	bool new_cluster;
	const char *migrate_where;
	bool raise_schema;
	bool replace_ticket_key;
	const char *restore_path;
	bool other_cluster;
	bool dry_run;
	const char *passphrase_file;
	const char *key_file;
	int log_level;
	struct dev_options dev;
	const char *nodes[NODES_MAX];
};

enum long_option {
	OPT_CHECK = 256,
	OPT_DEV,
	OPT_CLUSTER,
	OPT_NODE,
	OPT_PORT,
	OPT_NEW_CLUSTER,
	OPT_MIGRATE,
	OPT_RAISE_SCHEMA,
	OPT_REPLACE_TICKET_KEY,
	OPT_RESTORE,
	OPT_OTHER,
	OPT_DRY_RUN,
	OPT_PASSPHRASE_FILE,
	OPT_KEY_FILE,
};

static const struct option long_options[] = {
	{"config", required_argument, NULL, 'c'},
	{"check-config", no_argument, NULL, OPT_CHECK},
	{"dev", required_argument, NULL, OPT_DEV},
	{"cluster", required_argument, NULL, OPT_CLUSTER},
	{"node", required_argument, NULL, OPT_NODE},
	{"port", required_argument, NULL, OPT_PORT},
	{"new-cluster", no_argument, NULL, OPT_NEW_CLUSTER},
	{"migrate", required_argument, NULL, OPT_MIGRATE},
	{"raise-schema", no_argument, NULL, OPT_RAISE_SCHEMA},
	{"replace-ticket-key", no_argument, NULL, OPT_REPLACE_TICKET_KEY},
	{"restore", required_argument, NULL, OPT_RESTORE},
	{"other-cluster", no_argument, NULL, OPT_OTHER},
	{"dry-run", no_argument, NULL, OPT_DRY_RUN},
	{"passphrase-file", required_argument, NULL, OPT_PASSPHRASE_FILE},
	{"key-file", required_argument, NULL, OPT_KEY_FILE},
	{"verbose", no_argument, NULL, 'v'},
	{"version", no_argument, NULL, 'V'},
	{"help", no_argument, NULL, 'h'},
	{0},
};

static const char try_help[] = "Try: holdfast-server --help\n";

static int usage_error(const char *message)
{
	(void)fprintf(stderr, "holdfast-server: %s\n%s", message, try_help);
	return EXIT_USAGE;
}

/* Returns -1 to continue, else the exit status. */
static int apply_option(int opt, struct arguments *args)
{
	switch (opt) {
	case 'c':
		args->config_path = optarg;
		return -1;
	case OPT_CHECK:
		args->check_config = true;
		return -1;
	case OPT_DEV:
		args->dev.dir = optarg;
		return -1;
	case OPT_CLUSTER:
		args->dev.cluster = optarg;
		return -1;
	case OPT_NODE:
		if (args->dev.n_nodes == NODES_MAX)
			return usage_error("too many --node");
		args->nodes[args->dev.n_nodes++] = optarg;
		return -1;
	case OPT_PORT:
		if (parse_u32(optarg, 1, 65535, &args->dev.port) < 0)
			return usage_error("--port: a number from 1 to 65535 is wanted");
		return -1;
	case OPT_NEW_CLUSTER:
		args->new_cluster = true;
		return -1;
	case OPT_MIGRATE:
		if (!str_eq(optarg, "to-etcd") && !str_eq(optarg, "to-sqlite"))
			return usage_error("--migrate: to-etcd or to-sqlite is wanted");
		args->migrate_where = optarg;
		return -1;
	case OPT_REPLACE_TICKET_KEY:
		args->replace_ticket_key = true;
		return -1;
	case OPT_RAISE_SCHEMA:
		args->raise_schema = true;
		return -1;
	case OPT_RESTORE:
		args->restore_path = optarg;
		return -1;
	case OPT_OTHER:
		args->other_cluster = true;
		return -1;
	case OPT_DRY_RUN:
		args->dry_run = true;
		return -1;
	case OPT_PASSPHRASE_FILE:
		args->passphrase_file = optarg;
		return -1;
	case OPT_KEY_FILE:
		args->key_file = optarg;
		return -1;
	case 'v':
		args->log_level = LOG_DEBUG;
		return -1;
	case 'V':
		(void)puts("holdfast-server " HOLDFAST_VERSION);
		return EXIT_OK;
	case 'h':
		(void)fputs(usage_text, stdout);
		return EXIT_OK;
	default: /* getopt has printed the error */
		(void)fputs(try_help, stderr);
		return EXIT_USAGE;
	}
}

static bool is_to_serve(const struct arguments *args)
{
	return !args->check_config && !args->restore_path && !args->new_cluster && !args->migrate_where &&
	       !args->raise_schema && !args->replace_ticket_key;
}

static int parse_arguments(int argc, char **argv, struct arguments *args)
{
	int opt;

	*args = (struct arguments){.config_path = HOLDFAST_SERVER_CONFIG, .log_level = LOG_INFO};
	args->dev.nodes = args->nodes;
	while ((opt = getopt_long(argc, argv, "c:vVh", long_options, NULL)) != -1) {
		int r = apply_option(opt, args);

		if (r >= 0)
			return r;
	}
	if (optind != argc)
		return usage_error("unexpected argument");
	if (args->migrate_where &&
	    (args->new_cluster || args->restore_path || args->check_config || args->dev.dir))
		return usage_error("--migrate cannot be combined with another action or with --dev");
	if (args->replace_ticket_key && (args->migrate_where || args->new_cluster || args->restore_path ||
					 args->raise_schema || args->check_config || args->dev.dir))
		return usage_error(
			"--replace-ticket-key cannot be combined with another action or with --dev");
	if (args->raise_schema && (args->migrate_where || args->new_cluster || args->restore_path ||
				   args->check_config || args->dev.dir))
		return usage_error("--raise-schema cannot be combined with another action or with --dev");
	if (args->new_cluster && (args->restore_path || args->check_config))
		return usage_error("--new-cluster cannot be combined with --restore or --check-config");
	if ((args->other_cluster || args->dry_run || args->passphrase_file || args->key_file) &&
	    !args->restore_path)
		return usage_error(
			"--other-cluster, --dry-run, --passphrase-file and --key-file go with --restore");
	if (args->passphrase_file && args->key_file)
		return usage_error("--passphrase-file or --key-file, not both");
	if (!args->dev.dir && (args->dev.cluster || args->dev.n_nodes > 0 || args->dev.port != 0))
		return usage_error("--cluster, --node and --port go with --dev");
	args->dev.makes_store = is_to_serve(args);
	return -1;
}

static int fail(const struct error *err)
{
	log_last("holdfast-server", err);
	return EXIT_FAIL;
}

/* Reports the failure to the service manager; the exit code decides whether it tries again. */
static int fail_to_start(const struct error *err)
{
	service_failed(err);
	(void)fail(err);
	return exit_code_of_start(err);
}

static int serve(struct config *config)
{
	bool is_restarting = true;
	struct error err;
	int exit_code;

	while (is_restarting) { /* after a restore, on another store; or to follow */
		struct server *server;
		enum status status = server_new(config, &server, &err);

		if (status != STATUS_OK)
			return fail_to_start(&err);
		status = server_run(server, &err);
		is_restarting = status == STATUS_OK && server->restarting;
		config->etcd.yields = server->has_stepped_down;
		exit_code = server->exit_code;
		server_free(server);
		if (status != STATUS_OK) {
			(void)fail(&err);
			return exit_code;
		}
	}
	return EXIT_OK;
}

/* Prints the nodes of the last store that are missing in the new one. */
static void print_missing(const struct new_epoch_result *result)
{
	if (result->missing_nodes > 0)
		(void)printf("%" PRIu64 " node%s missing that the last store knew and this one does not: no "
			     "volume is granted before each has reported, or an operator attests "
			     "that all of them are gone (holdfast node purge --unknown)\n",
			     result->missing_nodes, result->missing_nodes == 1 ? " is" : "s are");
}

static int make_new_cluster(const struct config *config)
{
	struct new_epoch_result result;
	struct error err;

	if (restore_become_owner(config, false, &err) != STATUS_OK ||
	    new_cluster_make(config, &result, &err) != STATUS_OK)
		return fail(&err);
	(void)printf("cluster %s: made store %s, epoch %" PRIu64 "; it knows no node, volume or claim\n",
		     config->cluster, result.store_id, result.epoch);
	print_missing(&result);
	return EXIT_OK;
}

static int migrate(const struct config *config, const char *where)
{
	struct etcd_copy_result result;
	char digest[2 * COPY_SHA256_SIZE + 1];
	struct error err;
	enum status status = restore_become_owner(config, false, &err);

	if (status == STATUS_OK)
		status = str_eq(where, "to-etcd") ? migrate_to_etcd(config, &result, &err)
						  : migrate_to_sqlite(config, &result, &err);
	if (status != STATUS_OK)
		return fail(&err);
	hex_encode(digest, result.sha256, sizeof(result.sha256));
	(void)printf("cluster %s: moved %s: %" PRIu64 " records, index %" PRIu64
		     ", SHA-256 %s, read again there\n",
		     config->cluster, where, result.n, result.index, digest);
	return EXIT_OK;
}

static int raise_schema(const struct config *config)
{
	struct error err;
	uint32_t before = 0;
	enum status status =
		lead_settings_are_given(&config->etcd)
			? restore_become_owner(config, false, &err)
			: error_set(&err, STATUS_FAILED_PRECONDITION, 0,
				    "--raise-schema is for several servers: the settings have no "
				    "store \"etcd\"; a "
				    "server on sqlite raises its store when it starts");

	if (status == STATUS_OK)
		status = lead_raise_schema(&config->etcd, config->cluster, &before, &err);
	if (status != STATUS_OK)
		return fail(&err);
	if (before == config->etcd.schema)
		(void)printf("cluster %s: is at schema %" PRIu32 " already\n", config->cluster, before);
	else
		(void)printf("cluster %s: from schema %" PRIu32 " to %" PRIu32
			     ": servers of the earlier version no longer lead once they end\n",
			     config->cluster, before, config->etcd.schema);
	return EXIT_OK;
}

static int replace_ticket_key(struct config *config)
{
	struct ticket_issuer *issuer = NULL;
	struct error err;
	enum status status =
		lead_settings_are_given(&config->etcd)
			? restore_become_owner(config, false, &err)
			: error_set(&err, STATUS_FAILED_PRECONDITION, 0,
				    "--replace-ticket-key is for several servers: the settings have no "
				    "store \"etcd\"; a server on sqlite signs with the key that it has");

	if (status == STATUS_OK)
		status = ticket_issuer_new(config->ticket_key, config->cluster, &issuer, &err);
	if (status == STATUS_OK) {
		ticket_issuer_hex(issuer, config->etcd.ticket_key);
		status = lead_replace_ticket_key(&config->etcd, config->cluster, &err);
	}
	ticket_issuer_free(issuer);
	if (status != STATUS_OK)
		return fail(&err);
	(void)printf("cluster %s: servers with the ticket key %s lead from now on; restart those that have "
		     "it, and "
		     "then the one that leads\n",
		     config->cluster, config->etcd.ticket_key);
	return EXIT_OK;
}

/* --- --restore --- */

static void print_plan(const struct kit_plan *plan, bool dry_run)
{
	static const char *const words[] = {[KIT_MISSING] = "wrote",
					    [KIT_SAME] = "is there: ",
					    [KIT_OTHER] = "kept, though another one: "};

	for (size_t i = 0; i < plan->n; i++) {
		const struct kit_place *place = &plan->places[i];

		(void)printf("%s %s\n",
			     dry_run && place->there == KIT_MISSING ? "would write" : words[place->there],
			     place->path);
	}
}

static void print_copy(const struct restore_source *source)
{
	const struct kit_file *store = kit_find(&source->kit, KIT_STORE);
	const struct kv_copy copy = {
		.path = source->path, .image = store ? store->data : NULL, .len = store ? store->len : 0};
	char when[CLOCK_TEXT_SIZE];
	struct copy_facts facts;

	if (copy_look(&copy, &facts, NULL) == STATUS_OK) /* else the restore reports why */
		(void)printf("%s: a %s of cluster %s, epoch %" PRIu64 ", index %" PRIu64 ", last write %s\n",
			     source->path, store ? "kit" : "backup", facts.cluster, facts.epoch, facts.index,
			     facts.newest_ms > 0 ? clock_format(facts.newest_ms, when) : "unknown");
}

static enum status prepare_kit(const struct arguments *args, const struct restore_source *source,
			       struct config *config, struct error *err)
{
	struct kit_plan *plan = calloc(1, sizeof(*plan)); /* too large for the stack */
	struct restore_owner owner = {0};
	enum status status;

	if (!plan)
		return error_no_memory(err, "the server");
	status = kit_plan_make(&source->kit, args->config_path, config, plan, err);
	if (status == STATUS_OK)
		status = restore_find_owner(config, &owner, err);
	if (status == STATUS_OK && !args->dry_run)
		status = kit_plan_do(plan, owner.uid, owner.gid, err);
	if (status == STATUS_OK)
		print_plan(plan, args->dry_run);
	free(plan);
	return status;
}

static enum status open_source(const struct arguments *args, struct restore_source *ret, struct error *err)
{
	char passphrase[KIT_PASSPHRASE_SIZE];
	struct kit_key key = {.path = args->key_file};
	enum status status = STATUS_OK;

	if (args->passphrase_file) {
		status = kit_passphrase_read(args->passphrase_file, passphrase, err);
		key.passphrase = passphrase;
	}
	if (status == STATUS_OK)
		status = restore_source_open(args->restore_path, key.passphrase || key.path ? &key : NULL,
					     ret, err);
	explicit_bzero(passphrase, sizeof(passphrase));
	return status;
}

static void print_result(const struct arguments *args, const struct config *config,
			 const struct new_epoch_result *result)
{
	if (args->dry_run)
		(void)printf("would restore index %" PRIu64 " into %s; epoch %" PRIu64
			     " would begin, and %" PRIu32 " node%s report then. Nothing was changed\n",
			     result->index, config->data_dir, result->epoch, result->nodes,
			     result->nodes == 1 ? " would have to" : "s would have to");
	else
		(void)printf("restored index %" PRIu64 "; epoch %" PRIu64
			     " begins when holdfast-server is started, and "
			     "%" PRIu32 " node%s to report then\n",
			     result->index, result->epoch, result->nodes,
			     result->nodes == 1 ? " has" : "s have");
	print_missing(result);
}

/* Restores. Files that only root may access are handled before the process becomes the server's account. */
static int restore(const struct arguments *args, struct config *config)
{
	struct restore_source source;
	struct new_epoch_result result;
	struct error err;
	enum status status = open_source(args, &source, &err);

	if (status != STATUS_OK)
		return fail(&err);
	if (source.kit.n > 0 && !args->dev.dir)
		status = prepare_kit(args, &source, config, &err);
	else if (!args->dev.dir)
		status = config_load(args->config_path, config, &err);
	if (status == STATUS_OK)
		status = restore_become_owner(config, args->dry_run, &err);
	if (status == STATUS_OK && args->dry_run)
		print_copy(&source);
	if (status == STATUS_OK)
		status = restore_offline(config, &source, args->other_cluster, args->dry_run, &result, &err);
	restore_source_close(&source);
	if (status != STATUS_OK)
		return fail(&err);
	print_result(args, config, &result);
	return EXIT_OK;
}

/* Without its label it works as well: a host may have no policy for it. */
static void warn_unlabelled(void)
{
	struct error err;

	if (selinux_label_check("holdfast_server_t", &err) != STATUS_OK)
		log_line(LOG_WARNING, "%s", err.msg);
}

int main(int argc, char **argv)
{
	struct arguments args;
	struct config config;
	struct error err;
	enum status status;
	int r = parse_arguments(argc, argv, &args);

	if (r >= 0)
		return r;
	service_hide_memory();
	log_init("holdfast-server", args.log_level);
	config_init(&config);
	if (args.restore_path && !args.dev.dir) /* a kit brings the settings along */
		return restore(&args, &config);
	status = args.dev.dir ? dev_prepare(&args.dev, &config, &err)
			      : config_load(args.config_path, &config, &err);
	if (status != STATUS_OK)
		return is_to_serve(&args) ? fail_to_start(&err) : fail(&err);
	if (args.check_config)
		return EXIT_OK;
	if (!args.dev.dir)
		warn_unlabelled();
	if (args.new_cluster)
		return make_new_cluster(&config);
	if (args.replace_ticket_key)
		return replace_ticket_key(&config);
	if (args.raise_schema)
		return raise_schema(&config);
	if (args.migrate_where)
		return migrate(&config, args.migrate_where);
	if (args.restore_path)
		return restore(&args, &config);
	config.needs_store = true;
	return serve(&config);
}
