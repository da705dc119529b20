/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon.h"

#include "ca_change.h"
#include "certificate.h"
#include "events.h"
#include "gc.h"
#include "key_rotation.h"
#include "load.h"
#include "reload.h"
#include "routes.h"
#include "server.h"
#include "services.h"
#include "status_text.h"
#include "warnings.h"

#include "access/access.h"
#include "access/audit.h"
#include "access/issuers.h"
#include "access/refused_peers.h"
#include "access/revocations.h"
#include "alloc/allocs.h"
#include "api/watch.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/exit_code.h"
#include "base/fd.h"
#include "base/rates.h"
#include "base/str.h"
#include "claim/held_twice.h"
#include "claim/release.h"
#include "fence/fencers.h"
#include "fence/fences.h"
#include "fence/loss.h"
#include "forward/forward.h"
#include "identity/authority.h"
#include "job/job_work.h"
#include "lead/lead.h"
#include "log/log.h"
#include "log/service.h"
#include "node/down.h"
#include "node/drain.h"
#include "node/lookup.h"
#include "node/session.h"
#include "plugin/controller.h"
#include "recovery/backup.h"
#include "recovery/epoch.h"
#include "recovery/marks.h"
#include "recovery/new_cluster.h"
#include "recovery/new_epoch.h"
#include "recovery/restore.h"
#include "recovery/restore_proof.h"
#include "recovery/store_swap.h"
#include "state/change.h"
#include "state/disk.h"
#include "state/freed.h"
#include "state/keys.h"
#include "state/records.h"
#include "state/schema.h"
#include "state/stall.h"
#include "state/text.h"
#include "state/usage.h"
#include "volume/schedules.h"
#include "volume/work.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define LOAD_MAX_US (1800 * USEC_PER_SEC)

enum {
	MESSAGE_SIZE = 96,
	DRAIN_TURN_US = 100000,
	DRAIN_MAX_US = 10000000,
	CONNECTIONS_MAX = 16384, /* 10 000 nodes, and other callers */
};

/* A server, and those of its parts that it has from its first moment to its last one. */
struct daemon {
	struct server server; /* first: server_free() frees the whole struct by it */
	struct audit_limits audit;
	struct certificate certificate;
	struct ca_change ca_change;
	struct issuers issuers;
	struct disk disk;
	struct refused_peers refused_peers;
};
static_assert(offsetof(struct daemon, server) == 0, "server_free() frees all of it");

/* Once a second, from the disk's timer. */
static void watch_store(struct server *server)
{
	marks_watch(server);
	stall_watch(server);
	session_store_ends(server);
}

static enum status open_sqlite(struct server *server, bool *ret_restored, struct error *err)
{
	char path[PATH_MAX];

	(void)str_format(path, sizeof(path), "%s/" SERVER_STORE, server->config.data_dir);
	TRY(disk_start(server, watch_store, err));
	TRY(store_swap_finish(server->config.data_dir, ret_restored, err));
	if (server->config.needs_store)
		TRY(new_cluster_check_store(path, err));
	return kv_open_sqlite(server->event, path, &server->kv, err);
}

static enum status open_etcd(struct server *server, struct error *err)
{
	enum status status = disk_start(server, watch_store, err); /* marks, and copies on their way */

	if (status == STATUS_OK)
		status = lead_open_store(server->lead, &server->kv, err);
	if (status == STATUS_OK && server->config.needs_store)
		status = new_cluster_check_etcd(server->kv, server->config.etcd.prefix, err);
	return status;
}

static void init_state(struct server *server)
{
	state_init(&server->state);
	server->state.namespaces.max = &server->config.namespace_memory;
	server->state.server = server;
}

static void empty_state(struct server *server)
{
	state_release(&server->state);
	init_state(server);
}

static void log_state(const struct server *server, const char *how, uint64_t begin_us)
{
	log_ctx(LOG_INFO, &(struct log_ctx){.op = "lead"},
		"%s, in %" PRIu64 " ms: %zu volumes, %zu claims, %zu nodes", how,
		(clock_monotonic_us() - begin_us) / USEC_PER_MSEC, server->state.n_volumes,
		server->state.n_claims, server->state.n_nodes);
}

/* Records of an earlier one were still to be brought up when they were copied. */
static bool is_of_this_schema(struct server *server)
{
	const Holdfast__V1__Schema *schema = records_get(&server->state.records, KEY_SCHEMA);

	return schema && schema->version == SCHEMA_VERSION;
}

/* Loads the state. A server that has followed may have all of it. */
static enum status fill_state(struct server *server, struct error *err)
{
	const uint64_t begin_us = clock_monotonic_us();

	if (server->lead && lead_finish_copy(server->lead) && is_of_this_schema(server)) {
		log_state(server, "the state is that of the copy", begin_us);
		return STATUS_OK;
	}
	empty_state(server);
	TRY(load_state(server->kv, &server->state, err));
	if (server->lead)
		log_state(server, "the state is read from the store", begin_us);
	return STATUS_OK;
}

static enum status open_store(struct server *server, struct error *err)
{
	bool is_restored = false;
	enum status status = server->lead ? open_etcd(server, err) : open_sqlite(server, &is_restored, err);

	if (status == STATUS_OK)
		status = text_define_views(server->kv, err);
	if (status == STATUS_OK)
		status = schema_bring_up(server->kv, server->config.cluster, err);
	if (status == STATUS_OK)
		status = new_epoch_begin_decided(server->kv, server->config.data_dir, server->config.cluster,
						 err);
	if (status == STATUS_OK &&
	    !is_restored) /* else the marks are of the store that it took the place of */
		status = marks_check(&server->config, server->kv, err);
	if (status == STATUS_OK)
		status = restore_proof_note_key(server->kv, server->issuer, err);
	if (status == STATUS_OK)
		status = fill_state(server, err);
	if (status == STATUS_OK)
		key_rotation_load(server);
	if (status == STATUS_OK)
		ca_change_load(server);
	if (status == STATUS_OK)
		status = marks_keep(server, err);
	if (status != STATUS_OK)
		return status;
	server->start_index = kv_revision(server->kv);
	for (size_t i = 0; i < WATCH_TABLES; i++)
		server->watch_indexes[i] = server->start_index;
	return events_new(server, server->start_index, &server->events, err);
}

static enum status write_address(const struct server *server, uint16_t port, struct error *err)
{
	char text[CONFIG_HOST_SIZE + 16];
	int n = str_format(text, sizeof(text), "%s:%u\n", server->config.host, (unsigned int)port);
	int r;

	if (server->config.address_file[0] == '\0')
		return STATUS_OK;
	r = file_write_atomic(server->config.address_file, 0644, text, (size_t)n);
	return r < 0 ? error_set(err, status_from_errno(r), r, "write %s", server->config.address_file)
		     : STATUS_OK;
}

/* Each node is a descriptor; systemd starts services with 1024, and lets them take more. */
static void raise_file_limit(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur >= files.rlim_max)
		return;
	files.rlim_cur = files.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &files) < 0)
		log_ctx(LOG_WARNING, NULL, "cannot raise the limit of open files, ignoring");
}

/* Explains where to put a key that is missing and that no setting names. */
static enum status explain_key(const struct server *server, const char *what, const char *credential,
			       const char *setting, struct error *err)
{
	return error_set(
		err, STATUS_NOT_FOUND, 0,
		"there is no %s: put it at /etc/credstore/%s (root, mode 0600), from where the unit's "
		"LoadCredential= hands it over, or name another file by %s in %s; then: systemctl restart "
		"holdfast-server",
		what, credential, setting, server->config.path);
}

static enum status open_ticket_key(struct server *server, struct error *err)
{
	const struct config *config = &server->config;
	enum status status = ticket_issuer_new(config->ticket_key, config->cluster, &server->issuer, err);

	if (status == STATUS_NOT_FOUND && config->ticket_key_is_default)
		return explain_key(server, "key to sign tickets with (openssl genpkey -algorithm ed25519)",
				   CONFIG_TICKET_CREDENTIAL, "ticket_key =", err);
	return status;
}

static enum status open_tls(struct server *server, struct error *err)
{
	const struct config *config = &server->config;
	const struct rpc_tls_files files = {
		.ca = server->in_use.ca, .cert = server->in_use.cert, .key = server->in_use.key};
	enum status status = rpc_tls_new(&files, &server->tls, err);

	if (status == STATUS_NOT_FOUND && config->key_is_default && access(config->key, F_OK) < 0)
		return explain_key(server, "key of the server's certificate", CONFIG_KEY_CREDENTIAL,
				   "tls { key = }", err);
	if (status != STATUS_OK && err && config->path[0] != '\0')
		return error_prefix(err, "tls in %s", config->path);
	return status;
}

static enum status hand_on_what_another_leads(struct server *server, struct error *err)
{
	TRY(forward_new(server->event, server->rpc, server->tls, server->config.cluster, access_is_write,
			authority_note_renewed, &server->forward, err));
	rpc_server_set_relay(server->rpc, forward_relay, server->forward);
	return STATUS_OK;
}

static enum status name_peer(struct rpc_peer *peer, void *userdata, struct error *err)
{
	const struct server *server = userdata;

	return local_operators_name(&server->local_operators, server->config.cluster, peer, err);
}

static enum status listen_to_operators(struct server *server, struct error *err)
{
	const struct config *config = &server->config;

	TRY(local_operators_find(config->operators, &server->local_operators, err));
	if (server->local_operators.n == 0)
		return STATUS_OK;
	rpc_server_set_name(server->rpc, name_peer);
	return rpc_server_listen_unix(server->rpc, config->socket,
				      local_operators_mode(&server->local_operators), err);
}

/* The connection of a node may be its own: a thief of its certificate has opened as many as it may have. */
static void on_refused(const struct rpc_peer *peer, const struct error *why, void *userdata)
{
	struct server *server = userdata;
	struct identity who;

	refused_peers_log(peer, why, server);
	if (access_node(peer, server->config.cluster, &who, NULL) == STATUS_OK)
		nodes_note_kept_out(server, who.name);
}

static enum status start_listening(struct server *server, struct error *err)
{
	static const struct rpc_server_limits limits = {.connections = CONNECTIONS_MAX};
	uint16_t port = 0;
	enum status status = authority_open(server, err);

	raise_file_limit();
	certificate_choose(server);
	if (status == STATUS_OK)
		status = open_tls(server, err);
	if (status == STATUS_OK)
		status = rpc_server_new(server->event, services, n_services, &limits, server, &server->rpc,
					err);
	if (status == STATUS_OK) {
		rpc_server_set_routes(server->rpc, routes, n_routes);
		rpc_server_set_gate(server->rpc, access_gate);
		rpc_server_set_vouching(server->rpc, access_vouching);
		refused_peers_init(server->refused_peers, clock_monotonic_us());
		rpc_server_on_refused(server->rpc, on_refused);
		rpc_server_on_late(server->rpc, stall_explain_late, STALL_LATE_S * USEC_PER_SEC);
	}
	if (status == STATUS_OK && config_is_on_etcd(&server->config))
		status = hand_on_what_another_leads(server, err);
	if (status == STATUS_OK)
		status = listen_to_operators(server, err);
	if (status == STATUS_OK)
		status = rpc_server_listen_tls(server->rpc, server->config.host,
					       (uint16_t)server->config.port, server->tls, &port, err);
	if (status == STATUS_OK)
		status = write_address(server, port, err);
	if (status != STATUS_OK)
		return status;
	TRY(server_reload_watch(server, err));
	server->port = port;
	certificate_watch(server);
	certificate_renew_due(server);
	log_ctx(LOG_NOTICE, &(struct log_ctx){.op = "start", .event = LOG_EVENT_SERVER_LISTENING},
		"listening on %s:%u, cluster %s%s", server->config.host, (unsigned int)port,
		server->config.cluster, server->config.dev ? ", development mode: no access control" : "");
	return STATUS_OK;
}

static int on_hangup(sd_event_source *source, const struct signalfd_siginfo *si, void *userdata)
{
	struct server *server = userdata;

	(void)service_send("RELOADING=1\n");
	server_reload(server);
	service_status_notify(server->service, "READY=1\n");
	return 0;
}

static enum status add_signals(sd_event *event, struct server *server, struct error *err)
{
	sigset_t set;
	int r;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGHUP);
	/* before the store starts its thread, so that no thread has them unblocked */
	if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
		return error_set(err, STATUS_INTERNAL, errno, "block signals");
	r = sd_event_add_signal(event, NULL, SIGTERM, NULL, NULL); /* no handler: the loop ends with 0 */
	if (r >= 0)
		r = sd_event_add_signal(event, NULL, SIGINT, NULL, NULL);
	if (r >= 0)
		r = sd_event_add_signal(event, NULL, SIGHUP, on_hangup, server);
	if (r < 0)
		return error_set(err, STATUS_INTERNAL, r, "set up the event loop");
	return service_watchdog_new(event, &server->watchdog, err);
}

/* OpenSSL looks for it for longer than a record's digest takes. */
static enum status fetch_digest(struct server *server, struct error *err)
{
	server->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
	return server->sha256 ? STATUS_OK : error_set(err, STATUS_INTERNAL, 0, "OpenSSL has no SHA-256");
}

/* A large store is read for long, without a turn of the loop: at a start, and after a restore. */
static enum status read_store(struct server *server, struct error *err)
{
	char message[MESSAGE_SIZE];
	enum status status;

	(void)str_format(message, sizeof(message),
			 "EXTEND_TIMEOUT_USEC=%" PRIu64 "\nSTATUS=reading the store\n", LOAD_MAX_US);
	(void)service_send(message);
	service_watchdog_pause(server->watchdog, LOAD_MAX_US);
	status = open_store(server, err);
	service_watchdog_resume(server->watchdog);
	return status;
}

/* The store, and what works on it. */
static enum status start_work(struct server *server, struct error *err)
{
	enum status status = read_store(server, err);

	if (status == STATUS_OK && server->lead)
		status = revocation_check_own(server, err);
	if (status == STATUS_OK)
		status = controllers_new(server, &server->controllers, err);
	if (status == STATUS_OK)
		status = releases_new(server, &server->releases, err);
	if (status == STATUS_OK)
		status = node_down_start(server, err);
	if (status == STATUS_OK)
		status = session_silence_start(server, err);
	if (status == STATUS_OK)
		status = gc_new(server, &server->gc, err);
	if (status == STATUS_OK)
		status = fences_new(server, &server->fences, err);
	if (status == STATUS_OK)
		status = losses_new(server, &server->losses, err);
	if (status == STATUS_OK)
		status = schedules_new(server, &server->schedules, err);
	if (status == STATUS_OK)
		status = epoch_record_restore(server, err);
	if (status == STATUS_OK)
		status = warnings_new(server, &server->warnings, err);
	server->is_serving = status == STATUS_OK;
	if (server->is_serving)
		held_twice_pair_all(server);
	if (server->is_serving)
		kv_bound_reads(server->kv);
	return status;
}

/* --- with others --- */

static void fail_for(struct server *server, const struct error *err, int exit_code)
{
	server->failure = *err;
	server->exit_code = exit_code;
	server->failed = true;
	(void)sd_event_exit(server->event, EXIT_CODE_FAILED);
}

/* Nodes are missed from here on: their sessions were another server's. */
static void on_leading(void *userdata)
{
	struct server *server = userdata;
	struct error err;

	lead_set_behind(server->lead, NULL);
	marks_follow_end(server);
	server->started_ms = clock_realtime_ms();
	server->leads_since_us = clock_monotonic_us();
	if (start_work(server, &err) != STATUS_OK) {
		log_ctx(LOG_ERR, &(struct log_ctx){.op = "lead", .err = &err},
			"this server cannot lead; ending");
		fail_for(server, &err,
			 lead_is_own(server->lead) ? exit_code_of_start(&err) : EXIT_CODE_FAILED);
		return;
	}
	volume_work_resume_all(server);
	job_work_resume_all(server);
	pending_resume(server);
	service_status_notify(server->service, "");
}

static void on_progress(const struct etcd_progress *progress, void *userdata)
{
	marks_follow(userdata, progress);
}

static void on_copy(void *userdata)
{
	empty_state(userdata);
}

static bool on_record(const struct kv_item *item, void *userdata)
{
	struct server *server = userdata;
	struct error err;

	if (load_record(&server->state, item, &err) == STATUS_OK) {
		revocations_note_followed(server, item);
		ca_change_note_followed(server, item);
		return true;
	}
	log_ctx(LOG_INFO, &(struct log_ctx){.op = "lead", .err = &err},
		"the copy of the store must be read again");
	return false;
}

static void on_lost(const struct error *why, void *userdata)
{
	struct server *server = userdata;

	if (server->failed)
		return;
	log_ctx(LOG_ERR, &(struct log_ctx){.op = "lead", .err = why},
		"this server no longer leads; it ends, and starts again as a follower");
	fail_for(server, why, EXIT_CODE_FAILED);
}

static void name_address(const struct server *server, char ret[static LEAD_ADDRESS_SIZE])
{
	const char *host = server->config.host;

	(void)str_format(ret, LEAD_ADDRESS_SIZE, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host,
			 (unsigned int)server->port);
}

static enum status start_serving(struct server *server, struct error *err)
{
	static const struct lead_events events = {.on_leading = on_leading,
						  .on_lost = on_lost,
						  .on_progress = on_progress,
						  .copied = load_prefix,
						  .on_copy = on_copy,
						  .on_record = on_record};
	char address[LEAD_ADDRESS_SIZE];
	enum status status;

	if (config_is_on_etcd(&server->config)) {
		ticket_issuer_hex(server->issuer, server->config.etcd.ticket_key);
		status = start_listening(server, err);
		name_address(server, address);
		if (status == STATUS_OK)
			status = lead_new(server->event, &server->config.etcd, server->config.cluster,
					  address, &events, server, &server->lead, err);
		if (status == STATUS_OK)
			status = lead_join(server->lead, server->event, &server->config.etcd, err);
		if (status == STATUS_OK)
			forward_follow(server->forward, server->lead);
		return status;
	}
	status = start_work(server, err);
	if (status == STATUS_OK)
		status = start_listening(server, err);
	if (status == STATUS_OK) {
		volume_work_resume_all(server);
		job_work_resume_all(server);
		pending_resume(server);
	}
	return status;
}

static enum status build(struct server *server, struct error *err)
{
	int r = sd_event_new(&server->event);

	if (r < 0)
		return error_set(err, STATUS_INTERNAL, r, "make an event loop");
	TRY(add_signals(server->event, server, err));
	TRY(open_ticket_key(server, err));
	TRY(ticket_signer_new(server->issuer, &server->signer, err));
	TRY(fetch_digest(server, err));
	TRY(service_status_new(server->event, server_status_text, server, &server->service, err));
	return start_serving(server, err);
}

/* The order of observers: waiting readers are answered first, then work begins. */
static const struct change_observer observers[] = {
	{.check = disk_check},
	{.seal = audit_seal},
	{.durable = watch_note_durable},
	{.durable = revocations_note_durable},
	{.durable = events_note_durable},
	{.durable = drain_note_durable},
	{.durable = fences_note_durable},
	{.durable = losses_note_durable},
	{.durable = schedules_note_durable},
	{.durable = release_note_durable},
	{.durable = volume_work_note_durable},
	{.durable = held_twice_note_durable},
	{.durable = pending_note_durable},
	{.durable = job_work_note_durable},
	{.submitted = usage_note_submitted},
	{.submitted = gc_note_submitted},
	{.submitted = freed_note_submitted, .finished = freed_note_durable},
};

static const struct session_events session_events = {
	.drive_claim = release_drive,
	.node_back = release_node_back,
};

enum status server_new(const struct config *config, struct server **ret, struct error *err)
{
	struct daemon *daemon = calloc(1, sizeof(*daemon));
	struct server *server;
	enum status status;

	if (!daemon)
		return error_no_memory(err, "the server");
	server = &daemon->server;
	server->audit = &daemon->audit;
	server->certificate = &daemon->certificate;
	server->ca_change = &daemon->ca_change;
	server->issuers = &daemon->issuers;
	server->disk = &daemon->disk;
	server->refused_peers = &daemon->refused_peers;
	server->config = *config;
	server->started_ms = clock_realtime_ms();
	server->leads_since_us = clock_monotonic_us();
	init_state(server);
	server->observers = observers;
	server->session_events = &session_events;
	server->check_open = access_check_open;
	server->n_observers = sizeof(observers) / sizeof(observers[0]);
	RB_INIT(&server->volume_works);
	LIST_INIT(&server->snapshottings);
	TAILQ_INIT(&server->silence.sessions);
	TAILQ_INIT(&server->greeting);
	server->execs = rates_new();
	server->histories = rates_new();
	status = server->execs && server->histories ? build(server, err) : error_no_memory(err, "the server");
	if (status != STATUS_OK) {
		server_free(server);
		return status;
	}
	*ret = server;
	return STATUS_OK;
}

/* Lets changes that are in flight give their answers and return their memory, also when the loop has ended.
 */
static void drain(struct server *server)
{
	uint64_t limit = clock_monotonic_us() + DRAIN_MAX_US;

	while (server->kv && kv_stats(server->kv).pending > 0 && clock_monotonic_us() < limit)
		if (sd_event_run(server->event, DRAIN_TURN_US) < 0)
			kv_wait(server->kv, DRAIN_TURN_US / USEC_PER_MSEC);
}

void server_free(struct server *server)
{
	if (!server)
		return;
	/* Calls to plugins end first, so that their callers get an answer. Sessions end with the RPC
	 * server, calls that wait by hand. After that no module submits changes, and then no module reads
	 * the state. */
	server->is_ending = true;
	controllers_stop(server->controllers);
	losses_free(server->losses);
	server->losses = NULL;
	warnings_free(server->warnings);
	server->warnings = NULL;
	schedules_free(server->schedules);
	server->schedules = NULL;
	fences_free(server->fences);
	server->fences = NULL;
	rpc_server_free(server->rpc);
	fencers_free(server->fencers);
	server->fencers = NULL;
	forward_free(server->forward);
	watch_cancel_all(server);
	gc_free(server->gc);
	server->gc = NULL;
	backup_free(server->backup);
	restore_free(server->restore);
	drain(server);
	controllers_free(server->controllers);
	job_work_release_all(server);
	pending_release(server);
	volume_work_release_all(server);
	kv_close(server->kv);
	lead_free(server->lead);
	marks_follow_end(server);
	events_free(server->events);
	state_release(&server->state);
	releases_free(server->releases);
	ticket_signer_free(server->signer);
	ticket_issuer_free(server->issuer);
	rates_free(server->execs);
	rates_free(server->histories);
	EVP_MD_free(server->sha256);
	service_status_free(server->service);
	service_watchdog_free(server->watchdog);
	rpc_tls_free(server->tls);
	authority_free(server->authority);
	disk_release(server->disk);
	audit_release(server->audit);
	certificate_release(server->certificate);
	ca_change_release(server->ca_change);
	(void)sd_event_source_disable_unref(server->reload);
	(void)sd_event_source_disable_unref(server->review);
	(void)sd_event_source_disable_unref(server->node_down_timer);
	(void)sd_event_source_disable_unref(server->step_down_timer);
	(void)sd_event_source_disable_unref(server->silence.timer);
	(void)sd_event_unref(server->event);
	free((struct daemon *)server);
}

enum status server_run(struct server *server, struct error *err)
{
	int r;

	service_status_notify(server->service, "READY=1\n");
	r = sd_event_loop(server->event);
	if (!server->restarting)
		(void)service_send("STOPPING=1\nSTATUS=ending\n");
	if (server->failed && server->failure.status != STATUS_OK) {
		*err = server->failure;
		return err->status;
	}
	if (server->failed)
		return error_set(err, STATUS_DATA_LOSS, 0, "the store failed");
	return r < 0 ? error_set(err, STATUS_INTERNAL, r, "the event loop failed") : STATUS_OK;
}
