/* SPDX-License-Identifier: Apache-2.0 */
#include "model_server.h"

#include "temp_dir.h"
#include "unit.h"

#include "base/clock.h"
#include "base/uuid.h"
#include "model/pb.h"
#include "rpc/pki.h"

#include <holdfast/v1/nodes.pb-c.h>
#include <holdfast/v1/volumes.pb-c.h>

typedef Holdfast__V1__SessionUp session_up;
typedef Holdfast__V1__SessionDown session_down;

static void violate(struct model_server *model, const char *what, const char *id)
{
	if (!model->violation[0])
		(void)str_format(model->violation, sizeof(model->violation), "%s: %s", what, id);
}

static void issue(const char *dir, const char *name, const char *uri)
{
	static const char *const addresses[] = {"127.0.0.1"};
	char ca_key[TEMP_PATH_SIZE], ca[TEMP_PATH_SIZE], key[TEMP_PATH_SIZE], cert[TEMP_PATH_SIZE];
	const struct pki_cert_request request = {
		.uri = uri, .common_name = name, .ip_addresses = addresses, .n_ip_addresses = 1, .days = 2};
	char file[64];
	struct error err;

	(void)snprintf(file, sizeof(file), "%s.key", name);
	(void)temp_dir_path(key, dir, file);
	(void)snprintf(file, sizeof(file), "%s.pem", name);
	(void)temp_dir_path(cert, dir, file);
	if (pki_issue(temp_dir_path(ca_key, dir, "ca.key"), temp_dir_path(ca, dir, "ca.pem"), &request, key,
		      cert, &err) != STATUS_OK)
		fail_msg("%s", err.msg);
}

void model_server_make_pki(const char *dir)
{
	char key[TEMP_PATH_SIZE], cert[TEMP_PATH_SIZE];
	struct error err;

	if (pki_make_ca(temp_dir_path(key, dir, "ca.key"), temp_dir_path(cert, dir, "ca.pem"), MODEL_CLUSTER,
			&err) != STATUS_OK)
		fail_msg("%s", err.msg);
	issue(dir, "server", MODEL_SERVER_URI);
	issue(dir, "node", "holdfast://" MODEL_CLUSTER "/node/n1");
}

struct model_alloc *model_server_alloc(struct model_server *model, const char *alloc_id)
{
	for (unsigned int i = 0; i < model->n_allocs; i++) {
		if (str_eq(model->allocs[i].alloc.id, alloc_id))
			return &model->allocs[i];
	}
	return NULL;
}

struct model_claim *model_server_claim(struct model_server *model, const char *alloc_id, const char *name)
{
	for (unsigned int i = model->n_claims; i-- > 0;) {
		if (str_eq(model->claims[i].claim.allocation_id, alloc_id) &&
		    str_eq(model->claims[i].name, name))
			return &model->claims[i];
	}
	return NULL;
}

static struct model_claim *find_claim(struct model_server *model, const char *id)
{
	for (unsigned int i = 0; i < model->n_claims; i++) {
		if (str_eq(model->claims[i].claim.id, id))
			return &model->claims[i];
	}
	return NULL;
}

unsigned int model_server_unreleased(const struct model_server *model)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < model->n_claims; i++)
		n += !model->claims[i].is_released;
	return n;
}

static void send_down(struct model_server *model, const session_down *down)
{
	struct error err;

	if (model->session && rpc_call_send(model->session, &down->base, &err) != STATUS_OK)
		fail_msg("%s", err.msg);
}

void model_server_call_plugin(struct model_server *model, const char *plugin_id, uint64_t call_id)
{
	Holdfast__V1__ControllerDetachRequest detach = HOLDFAST__V1__CONTROLLER_DETACH_REQUEST__INIT;
	Holdfast__V1__PluginCall call = HOLDFAST__V1__PLUGIN_CALL__INIT;
	session_down down = HOLDFAST__V1__SESSION_DOWN__INIT;

	call.call_id = call_id;
	call.plugin_id = (char *)(uintptr_t)plugin_id;
	call.timeout_ms = 60000;
	call.request_case = HOLDFAST__V1__PLUGIN_CALL__REQUEST_DETACH;
	call.detach = &detach;
	detach.external_id = (char *)(uintptr_t) "vol";
	detach.external_node_id = (char *)(uintptr_t) "node";
	down.message_case = HOLDFAST__V1__SESSION_DOWN__MESSAGE_CALL;
	down.call = &call;
	send_down(model, &down);
}

static void send_run(struct model_server *model, const struct alloc *alloc)
{
	Holdfast__V1__RunAlloc run = HOLDFAST__V1__RUN_ALLOC__INIT;
	session_down down = HOLDFAST__V1__SESSION_DOWN__INIT;

	run.alloc = alloc_to_pb(alloc);
	assert_non_null(run.alloc);
	down.message_case = HOLDFAST__V1__SESSION_DOWN__MESSAGE_RUN;
	down.run = &run;
	send_down(model, &down);
	protobuf_c_message_free_unpacked(&run.alloc->base, NULL);
}

static void send_stop(struct model_server *model, char *id)
{
	Holdfast__V1__StopAlloc stop = HOLDFAST__V1__STOP_ALLOC__INIT;
	session_down down = HOLDFAST__V1__SESSION_DOWN__INIT;

	stop.alloc_id = id;
	stop.namespace_ = (char *)(uintptr_t)(model->namespace ? model->namespace : "default");
	down.message_case = HOLDFAST__V1__SESSION_DOWN__MESSAGE_STOP;
	down.stop = &stop;
	send_down(model, &down);
}

static void send_forget(struct model_server *model, char *id)
{
	Holdfast__V1__ForgetAlloc forget = HOLDFAST__V1__FORGET_ALLOC__INIT;
	session_down down = HOLDFAST__V1__SESSION_DOWN__INIT;

	forget.alloc_id = id;
	forget.namespace_ = (char *)(uintptr_t) "default";
	down.message_case = HOLDFAST__V1__SESSION_DOWN__MESSAGE_FORGET;
	down.forget = &forget;
	if (!model->hold_forget)
		send_down(model, &down);
}

void model_server_release(struct model_server *model, const struct model_claim *claim)
{
	Holdfast__V1__ReleaseClaim release = HOLDFAST__V1__RELEASE_CLAIM__INIT;
	session_down down = HOLDFAST__V1__SESSION_DOWN__INIT;
	uint8_t ticket[2 * sizeof(struct ticket)] = {0};
	char wire[WIRE_VOLUME_SIZE];

	volume_wire_name(claim->claim.namespace, claim->claim.volume_id, wire);
	release.claim = claim_to_pb(&claim->claim);
	release.wire_volume = wire;
	release.ticket = (ProtobufCBinaryData){.len = model->foreign_ticket_size, .data = ticket};
	down.message_case = HOLDFAST__V1__SESSION_DOWN__MESSAGE_RELEASE;
	down.release = &release;
	send_down(model, &down);
	protobuf_c_message_free_unpacked(&release.claim->base, NULL);
}

static void send_ack(struct model_server *model, char *claim_id, bool is_released)
{
	Holdfast__V1__ReceiptAck ack = HOLDFAST__V1__RECEIPT_ACK__INIT;
	session_down down = HOLDFAST__V1__SESSION_DOWN__INIT;

	ack.claim_id = claim_id;
	ack.released = is_released;
	down.message_case = HOLDFAST__V1__SESSION_DOWN__MESSAGE_RECEIPT_ACK;
	down.receipt_ack = &ack;
	if (!model->hold_acks)
		send_down(model, &down);
}

/* The work of an allocation has ended: what the node has not released is asked for. */
static void release_rest(struct model_server *model, const char *alloc_id)
{
	for (unsigned int i = 0; i < model->n_claims; i++) {
		if (!model->claims[i].is_released && str_eq(model->claims[i].claim.allocation_id, alloc_id))
			model_server_release(model, &model->claims[i]);
	}
}

static void take_status(struct model_server *model, const Holdfast__V1__AllocStatus *status)
{
	struct model_alloc *entry = model_server_alloc(model, status->alloc_id);
	struct alloc *alloc;

	if (!str_eq(status->namespace_, "default")) {
		model->foreign_statuses++;
		model->foreign_status = (enum client_status)status->client_status;
		str_copy_text(model->foreign_namespace, sizeof(model->foreign_namespace), status->namespace_);
		model->foreign_code = status->code;
		return;
	}
	if (!entry) {
		send_forget(model, status->alloc_id);
		return;
	}
	alloc = &entry->alloc;
	entry->statuses++;
	entry->clock = model->clock;
	if (alloc_is_client_terminal(alloc)) {
		if ((int)alloc->client_status != (int)status->client_status)
			violate(model, "status changed after the end", alloc->id);
		send_forget(model, alloc->id);
		return;
	}
	alloc->client_status = (enum client_status)status->client_status;
	entry->runs = alloc->client_status == CLIENT_RUNNING;
	alloc->client_code = status->code;
	(void)snprintf(entry->description, sizeof(entry->description), "%s", status->description);
	alloc->n_published = 0;
	for (size_t i = 0; i < status->n_published; i++)
		assert_int_equal(alloc_volume_from_pb(status->published[i],
						      &alloc->published[alloc->n_published++], NULL),
				 STATUS_OK);
	if (alloc->client_status == CLIENT_RUNNING && alloc->desired_status == DESIRED_RUN &&
	    alloc->client_code == 0 && alloc->n_published != alloc->n_volumes)
		violate(model, "runs without all volumes", alloc->id);
	if (!alloc_is_client_terminal(alloc))
		return;
	release_rest(model, alloc->id);
	send_forget(model, alloc->id);
}

static bool is_device(const struct fake_place *place)
{
	return place->is_mounted && place->is_device;
}

static bool is_published(const struct model_server *model, const struct model_claim *claim)
{
	const struct fake_folder *folder;
	char wire[WIRE_VOLUME_SIZE];

	volume_wire_name(claim->claim.namespace, claim->claim.volume_id, wire);
	folder = fake_helper_folder(model->fake, wire);
	if (folder && (is_device(&folder->targets[0]) || is_device(&folder->targets[1])))
		return true;
	for (unsigned int slot = 0; slot <= MH_SLOT_MAX; slot++) {
		const struct fake_mount *mount =
			fake_helper_mount(model->fake, "", claim->claim.allocation_id, slot);

		if (mount && str_eq(mount->volume, wire))
			return true;
	}
	return false;
}

static void take_receipt(struct model_server *model, const Holdfast__V1__ClaimReceipt *receipt)
{
	struct model_claim *claim = find_claim(model, receipt->claim_id);
	const struct model_alloc *alloc;
	bool is_released = receipt->what_case == HOLDFAST__V1__CLAIM_RECEIPT__WHAT_RELEASED;

	if (!claim || !str_eq(claim->claim.boot_id, receipt->boot_id) ||
	    claim->claim.generation != receipt->generation) {
		violate(model, "receipt for what was never granted", receipt->claim_id);
		return;
	}
	if (receipt->error[0] != '\0') {
		claim->errors++;
		(void)snprintf(claim->last_error, sizeof(claim->last_error), "%s", receipt->error);
		claim->last_error_code = receipt->error_code;
		return;
	}
	claim->receipts++;
	if (is_released && is_published(model, claim))
		violate(model, "released while published", receipt->claim_id);
	alloc = model_server_alloc(model, claim->claim.allocation_id);
	if (!is_released && alloc && alloc->alloc.desired_status == DESIRED_RUN &&
	    !is_published(model, claim))
		violate(model, "mounted receipt without a mount", receipt->claim_id);
	if (is_released && !claim->is_released)
		claim->released_clock = model->clock;
	claim->is_released |= is_released;
	claim->is_without_plugin |= receipt->without_plugin;
	str_copy_text(claim->kernel, sizeof(claim->kernel), receipt->kernel);
	claim->is_mounted |= !is_released;
	if (!is_released && claim->mark > model->mark_kept)
		model->mark_kept = claim->mark;
	send_ack(model, receipt->claim_id, is_released);
}

static void take_drivers(struct model_server *model, Holdfast__V1__NodeDriver *const *drivers, size_t n)
{
	model->n_drivers = n;
	model->driver_is_healthy = n > 0 && drivers[0]->healthy;
	if (n > 0 && drivers[0]->capabilities)
		(void)str_copy(model->driver_version, sizeof(model->driver_version),
			       drivers[0]->capabilities->version);
}

static void take_plugins(struct model_server *model, Holdfast__V1__NodePlugin *const *plugins, size_t n)
{
	struct error err;

	model->n_plugins = 0;
	if (n > NODE_PLUGINS_MAX) {
		violate(model, "too many plugins", "");
		return;
	}
	for (size_t i = 0; i < n; i++) {
		if (node_plugin_from_pb(plugins[i], &model->plugins[model->n_plugins++], &err) != STATUS_OK)
			violate(model, "bad plugin", err.msg);
	}
}

static void make_mark(struct model_server *model, Holdfast__V1__Mark *mark)
{
	static char store_id[] = "01890000-0000-7000-8000-0000000000aa";

	holdfast__v1__mark__init(mark);
	mark->store_id = store_id;
	mark->epoch = 1;
	mark->index = ++model->mark;
}

/* What was mounted was so after its grant's mark had become durable. */
static void check_mark(struct model_server *model, const Holdfast__V1__SessionHello *hello)
{
	if ((hello->mark ? hello->mark->index : 0) < model->mark_kept)
		violate(model, "hello without the mark of what is mounted", hello->node_id);
}

static void send_welcome(struct model_server *model)
{
	Holdfast__V1__SessionWelcome welcome = HOLDFAST__V1__SESSION_WELCOME__INIT;
	session_down down = HOLDFAST__V1__SESSION_DOWN__INIT;
	Holdfast__V1__Mark mark;
	char cluster[16];

	(void)snprintf(cluster, sizeof(cluster), "%s", model->other_cluster ? "other" : MODEL_CLUSTER);
	welcome.cluster = cluster;
	welcome.heartbeat_ms = model->heartbeat_ms ? model->heartbeat_ms : SESSION_HEARTBEAT_FAST_MS;
	welcome.clock_ms = clock_realtime_ms() + model->clock_ms;
	down.message_case = HOLDFAST__V1__SESSION_DOWN__MESSAGE_WELCOME;
	down.welcome = &welcome;
	if (model->shows_marks) {
		make_mark(model, &mark);
		welcome.mark = &mark;
	}
	send_down(model, &down);
}

/* As the server, it sends no order to run what the hello reports to run. */
static void send_orders(struct model_server *model)
{
	for (unsigned int i = 0; i < model->n_allocs; i++) {
		struct alloc *alloc = &model->allocs[i].alloc;

		if (alloc_is_client_terminal(alloc))
			release_rest(model, alloc->id);
		else if (alloc->desired_status == DESIRED_STOP)
			send_stop(model, alloc->id);
		else if (!model->allocs[i].runs)
			send_run(model, alloc);
	}
}

static void take_hello(struct model_server *model, const Holdfast__V1__SessionHello *hello)
{
	check_mark(model, hello);
	model->hellos++;
	model->adoption_complete = hello->adoption_complete;
	model->hello_allocs = (unsigned int)hello->n_allocs;
	model->hello_plugins = (unsigned int)hello->fingerprint->n_plugins;
	model->hello_mounted = (unsigned int)hello->n_mounted;
	if (hello->n_mounted > 0) {
		model->hello_generation = hello->mounted[0]->generation;
		(void)snprintf(model->hello_claim, sizeof(model->hello_claim), "%s",
			       hello->mounted[0]->claim_id);
	}
	take_plugins(model, hello->fingerprint->plugins, hello->fingerprint->n_plugins);
	take_drivers(model, hello->fingerprint->drivers, hello->fingerprint->n_drivers);
	model->hello_clock_ms = hello->clock_ms;
	(void)snprintf(model->hello_machine, sizeof(model->hello_machine), "%s", hello->machine);
	for (unsigned int i = 0; i < model->n_allocs; i++)
		model->allocs[i].runs = false;
	if (!model->holds_welcome)
		send_welcome(model);
	for (size_t i = 0; i < hello->n_allocs; i++)
		take_status(model, hello->allocs[i]);
	if (!model->holds_welcome)
		send_orders(model);
}

void model_server_welcome(struct model_server *model)
{
	model->holds_welcome = false;
	send_welcome(model);
	send_orders(model);
}

static void forget_report(struct model_server *model)
{
	for (unsigned int i = 0; i < model->n_reported_allocs; i++)
		alloc_release(&model->reported_allocs[i]);
}

void model_server_want_report(struct model_server *model, uint64_t epoch)
{
	Holdfast__V1__ReportRequest report = HOLDFAST__V1__REPORT_REQUEST__INIT;
	session_down down = HOLDFAST__V1__SESSION_DOWN__INIT;

	forget_report(model);
	model->report_parts = model->n_reported_allocs = model->n_reported = 0;
	model->report_complete = false;
	model->report_epoch = report.epoch = epoch;
	report.reverted = model->is_reverted;
	down.message_case = HOLDFAST__V1__SESSION_DOWN__MESSAGE_REPORT;
	down.report = &report;
	send_down(model, &down);
}

static void take_report(struct model_server *model, const Holdfast__V1__NodeReport *report)
{
	if (model->report_complete || report->epoch != model->report_epoch)
		violate(model, "a report that was not asked for", "");
	assert_true(model->n_reported_allocs + report->n_allocations <= MODEL_ALLOCS_MAX);
	assert_true(model->n_reported + report->n_claims <= MODEL_CLAIMS_MAX);
	for (size_t i = 0; i < report->n_allocations; i++)
		assert_int_equal(alloc_from_pb(report->allocations[i],
					       &model->reported_allocs[model->n_reported_allocs++], NULL),
				 STATUS_OK);
	for (size_t i = 0; i < report->n_claims; i++)
		assert_int_equal(
			claim_from_pb(report->claims[i], &model->reported[model->n_reported++], NULL),
			STATUS_OK);
	model->report_parts++;
	model->report_complete = !report->more;
}

static void take_usage(struct model_server *model, const Holdfast__V1__VolumeUsageReport *report)
{
	for (size_t i = 0; i < report->n_volumes; i++) {
		const Holdfast__V1__VolumeUsage *said = report->volumes[i];
		struct model_usage *usage = NULL;

		for (unsigned int k = 0; k < model->n_usages && !usage; k++)
			if (str_eq(model->usages[k].claim_id, said->claim_id))
				usage = &model->usages[k];
		if (!usage) {
			assert_true(model->n_usages < MODEL_CLAIMS_MAX);
			usage = &model->usages[model->n_usages++];
			(void)str_copy(usage->claim_id, sizeof(usage->claim_id), said->claim_id);
		}
		usage->reports++;
		usage->used_bytes = said->used_bytes;
		usage->total_bytes = said->total_bytes;
		usage->read_only = said->read_only;
		usage->is_unknown = said->unknown_since_ms != 0;
		str_copy_text(usage->condition, sizeof(usage->condition), said->condition);
	}
}

static void on_open(struct rpc_call *call, void *userdata)
{
	struct model_server *model = userdata;

	model->session = call;
}

static void on_message(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	const session_up *up = (const session_up *)(const void *)message;
	struct model_server *model = userdata;

	if (call != model->session)
		return;
	model->clock++;
	switch (up->message_case) {
	case HOLDFAST__V1__SESSION_UP__MESSAGE_HELLO:
		take_hello(model, up->hello);
		return;
	case HOLDFAST__V1__SESSION_UP__MESSAGE_HEARTBEAT:
		model->heartbeats++;
		model->heartbeat_us = clock_monotonic_us();
		return;
	case HOLDFAST__V1__SESSION_UP__MESSAGE_ALLOC:
		model->status_us = clock_monotonic_us();
		take_status(model, up->alloc);
		return;
	case HOLDFAST__V1__SESSION_UP__MESSAGE_RECEIPT:
		take_receipt(model, up->receipt);
		return;
	case HOLDFAST__V1__SESSION_UP__MESSAGE_REPLY:
		if (!up->reply->not_here || up->reply->response_case != 0)
			violate(model, "a plugin call was answered", "");
		model->not_here++;
		model->answered_call = up->reply->call_id;
		return;
	case HOLDFAST__V1__SESSION_UP__MESSAGE_REPORT:
		take_report(model, up->report);
		return;
	case HOLDFAST__V1__SESSION_UP__MESSAGE_FINGERPRINT:
		model->fingerprints++;
		take_plugins(model, up->fingerprint->plugins, up->fingerprint->n_plugins);
		take_drivers(model, up->fingerprint->drivers, up->fingerprint->n_drivers);
		return;
	case HOLDFAST__V1__SESSION_UP__MESSAGE_USAGE:
		take_usage(model, up->usage);
		return;
	case HOLDFAST__V1__SESSION_UP__MESSAGE__NOT_SET:
	case _HOLDFAST__V1__SESSION_UP__MESSAGE__CASE_IS_INT_SIZE:
		violate(model, "unknown message", "");
		return;
	}
}

static void on_closed(struct rpc_call *call, void *userdata)
{
	struct model_server *model = userdata;

	if (call == model->session)
		model->session = NULL;
}

struct model_claim *model_server_add_claim(struct model_server *model, const char *alloc_id,
					   const char *volume, const char *boot_id)
{
	struct model_claim *claim = &model->claims[model->n_claims++];

	assert_true(model->n_claims <= MODEL_CLAIMS_MAX);
	*claim = (struct model_claim){.claim = {.mode = CLAIM_WRITE,
						.access_mode = SINGLE_NODE_MULTI_WRITER,
						.attachment_mode = ATTACHMENT_FILE_SYSTEM,
						.generation = 100 + model->n_claims,
						.state = CLAIM_RESERVED}};
	assert_int_equal(uuid_new(claim->claim.id), 0);
	(void)str_copy(claim->claim.volume_id, sizeof(claim->claim.volume_id), volume);
	(void)str_copy(claim->claim.namespace, sizeof(claim->claim.namespace), "default");
	(void)str_copy(claim->claim.allocation_id, sizeof(claim->claim.allocation_id), alloc_id);
	(void)str_copy(claim->claim.node_id, sizeof(claim->claim.node_id), "n1");
	(void)str_copy(claim->claim.boot_id, sizeof(claim->claim.boot_id), boot_id);
	return claim;
}

/* A volume of a plugin, with what only the plugin on the node is to know. */
static void send_csi(struct rpc_call *call, const char *share, Holdfast__V1__ClaimVolumeResponse *response)
{
	Holdfast__V1__Volume__ContextEntry context = HOLDFAST__V1__VOLUME__CONTEXT_ENTRY__INIT;
	Holdfast__V1__Volume__ContextEntry *contexts[] = {&context};
	Holdfast__V1__ClaimVolumeResponse__PublishContextEntry publish =
		HOLDFAST__V1__CLAIM_VOLUME_RESPONSE__PUBLISH_CONTEXT_ENTRY__INIT;
	Holdfast__V1__ClaimVolumeResponse__PublishContextEntry *publishes[] = {&publish};
	Holdfast__V1__Volume__SecretsEntry secret = HOLDFAST__V1__VOLUME__SECRETS_ENTRY__INIT;
	Holdfast__V1__Volume__SecretsEntry *secrets[] = {&secret};
	char key[] = "key", value[] = MODEL_SECRET, path[] = "/dev/model";

	secret.key = key;
	secret.value = value;
	publish.key = key;
	publish.value = path;
	response->publish_context = publishes;
	response->n_publish_context = 1;
	response->volume->secrets = secrets;
	response->volume->n_secrets = 1;
	context.key = key;
	context.value = (char *)(uintptr_t)share;
	response->volume->context = contexts;
	response->volume->n_context = share != NULL;
	rpc_call_reply(call, &response->base);
	response->publish_context = NULL;
	response->n_publish_context = 0;
	response->volume->secrets = NULL;
	response->volume->n_secrets = 0;
	response->volume->context = NULL;
	response->volume->n_context = 0;
}

static void be_csi(struct claim *claim, struct volume *volume)
{
	volume->type = VOLUME_CSI;
	volume->source = (struct source){0};
	volume->profile[0] = '\0';
	(void)str_copy(volume->plugin_id, sizeof(volume->plugin_id), MODEL_PLUGIN);
	(void)str_format(volume->external_id, sizeof(volume->external_id), "ext/%s", claim->volume_id);
	(void)str_copy(claim->plugin_id, sizeof(claim->plugin_id), MODEL_PLUGIN);
	(void)str_copy(claim->external_id, sizeof(claim->external_id), volume->external_id);
}

static void reply_claim(struct model_server *model, struct rpc_call *call, const struct claim *granted)
{
	Holdfast__V1__ClaimVolumeResponse response = HOLDFAST__V1__CLAIM_VOLUME_RESPONSE__INIT;
	struct claim copy = *granted, *claim = &copy;
	struct ticket ticket[2] = {
		{.magic = TICKET_MAGIC,
		 .version = model->foreign_ticket_size == 0 ? TICKET_VERSION : TICKET_VERSION + 1,
		 .generation = claim->generation,
		 .not_after_ms = (uint64_t)(clock_realtime_ms() + model->ticket_ttl_ms)}};
	struct volume volume = {
		.type = VOLUME_NATIVE, .profile = "scratch", .source = {.class = model->class}};
	char wire[WIRE_VOLUME_SIZE];
	struct model_claim *known = find_claim(model, granted->id);
	Holdfast__V1__Mark mark;

	make_mark(model, &mark);
	response.mark = &mark;
	if (known && known->mark == 0)
		known->mark = mark.index;
	if (model->class == SOURCE_TMPFS)
		volume.source = (struct source){.class = SOURCE_TMPFS, .size_bytes = 4096, .inodes = 8};
	if (model->class == SOURCE_BLOCK)
		(void)str_format(volume.source.by_id, sizeof(volume.source.by_id), "disk-%s",
				 claim->volume_id);
	if (model->class == SOURCE_NFS4)
		volume.source =
			(struct source){.class = SOURCE_NFS4, .server = "192.0.2.7", .export = "/exports/a"};
	if (model->class == SOURCE_BIND)
		volume.source = (struct source){.class = SOURCE_BIND, .host_volume = "scratch"};
	(void)str_copy(volume.id, sizeof(volume.id), claim->volume_id);
	(void)str_copy(volume.namespace, sizeof(volume.namespace), claim->namespace);
	volume_wire_name(claim->namespace, claim->volume_id, wire);
	if (model->is_csi)
		be_csi(claim, &volume);
	if (model->tamper)
		model->tamper(claim, &volume);
	response.claim = claim_to_pb(claim);
	response.volume = volume_to_pb(&volume);
	response.wire_volume = wire;
	response.ticket.data = (uint8_t *)ticket;
	response.ticket.len = model->foreign_ticket_size != 0 ? model->foreign_ticket_size : sizeof(*ticket);
	if (model->is_csi)
		send_csi(call, model->share, &response);
	else
		rpc_call_reply(call, &response.base);
	protobuf_c_message_free_unpacked(&response.claim->base, NULL);
	protobuf_c_message_free_unpacked(&response.volume->base, NULL);
}

static void read_boot_id(char ret[static UUID_TEXT_SIZE])
{
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

	assert_non_null(f);
	assert_non_null(fgets(ret, UUID_TEXT_SIZE, f));
	(void)fclose(f);
}

static enum claim_mode mode_of(struct model_server *model, const Holdfast__V1__ClaimVolumeRequest *request)
{
	const struct model_alloc *alloc = model_server_alloc(model, request->allocation_id);
	const struct volume_request *wanted =
		alloc ? alloc_find_volume(&alloc->alloc, request->volume_name) : NULL;

	return wanted ? volume_request_mode(wanted) : CLAIM_WRITE;
}

static void on_claim(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	const Holdfast__V1__ClaimVolumeRequest *request =
		(const Holdfast__V1__ClaimVolumeRequest *)(const void *)message;
	struct model_server *model = userdata;
	struct model_claim *claim;
	char boot_id[UUID_TEXT_SIZE];
	struct error err;

	model->claim_calls++;
	if (model->fail_claims > 0) {
		model->fail_claims--;
		(void)error_set(&err, model->fail_status, 0, "volume %s: the model says no",
				request->volume_id);
		rpc_call_fail(call, &err);
		return;
	}
	claim = model_server_claim(model, request->allocation_id, request->volume_name);
	if (!claim || claim->is_released) {
		read_boot_id(boot_id);
		if (model->other_boot)
			boot_id[0] = boot_id[0] == '0' ? '1' : '0';
		claim = model_server_add_claim(model, request->allocation_id, request->volume_id, boot_id);
		if (model->is_csi)
			claim->claim.mode = mode_of(model, request);
		(void)str_copy(claim->name, sizeof(claim->name), request->volume_name);
	}
	if (!model->hold_claims) {
		reply_claim(model, call, &claim->claim);
		return;
	}
	assert_true(model->n_held < MODEL_HELD_MAX);
	model->held[model->n_held] = call;
	model->held_for[model->n_held++] = claim->claim;
}

void model_server_answer(struct model_server *model)
{
	for (unsigned int i = 0; i < model->n_held; i++)
		reply_claim(model, model->held[i], &model->held_for[i]);
	model->n_held = 0;
	model->hold_claims = false;
}

static const struct rpc_stream_handlers session_handlers = {
	.on_open = on_open, .on_message = on_message, .on_closed = on_closed};

static void on_task_stream(struct rpc_call *call, const ProtobufCMessage *message, void *userdata)
{
	const Holdfast__V1__TaskStreamUp *up = (const void *)message;
	struct model_server *model = userdata;

	if (up->message_case != HOLDFAST__V1__TASK_STREAM_UP__MESSAGE_END)
		return;
	model->streams++;
	model->stream_code = up->end->code;
	str_copy_text(model->stream_message, sizeof(model->stream_message), up->end->message);
	rpc_call_finish(call);
}

static void on_task_stream_closed(struct rpc_call *call, void *userdata)
{
}

void model_server_want_logs(struct model_server *model, const char *alloc_id, const char *task)
{
	Holdfast__V1__OpenTaskStream wanted = HOLDFAST__V1__OPEN_TASK_STREAM__INIT;
	Holdfast__Driver__V1__TaskLogsRequest logs = HOLDFAST__DRIVER__V1__TASK_LOGS_REQUEST__INIT;
	session_down down = HOLDFAST__V1__SESSION_DOWN__INIT;

	wanted.id = 1;
	wanted.alloc_id = logs.alloc_id = (char *)(uintptr_t)alloc_id;
	wanted.task = logs.task = (char *)(uintptr_t)task;
	wanted.namespace_ = logs.namespace_ =
		(char *)(uintptr_t)(model->namespace ? model->namespace : "default");
	wanted.driver = (char *)(uintptr_t) "container";
	wanted.first_case = HOLDFAST__V1__OPEN_TASK_STREAM__FIRST_LOGS;
	wanted.logs = &logs;
	down.message_case = HOLDFAST__V1__SESSION_DOWN__MESSAGE_STREAM;
	down.stream = &wanted;
	send_down(model, &down);
}

static const struct rpc_stream_handlers task_stream_handlers = {.on_message = on_task_stream,
								.on_closed = on_task_stream_closed,
								.on_half_close = on_task_stream_closed};
static const struct rpc_method node_methods[] = {{.name = "Session", .stream = &session_handlers},
						 {.name = "TaskStream", .stream = &task_stream_handlers}};
static const struct rpc_method volume_methods[] = {{.name = "Claim", .unary = on_claim}};
static const struct rpc_service services[] = {
	{.descriptor = &holdfast__v1__nodes__descriptor,
	 .methods = node_methods,
	 .n_methods = ARRAY_SIZE(node_methods)},
	{.descriptor = &holdfast__v1__volumes__descriptor, .methods = volume_methods, .n_methods = 1},
};

void model_server_start(struct model_server *model, const char *pki_dir, uint16_t port)
{
	char ca[TEMP_PATH_SIZE], cert[TEMP_PATH_SIZE], key[TEMP_PATH_SIZE];
	const struct rpc_tls_files files = {.ca = temp_dir_path(ca, pki_dir, "ca.pem"),
					    .cert = temp_dir_path(cert, pki_dir, "server.pem"),
					    .key = temp_dir_path(key, pki_dir, "server.key")};
	struct error err;

	if (rpc_tls_new(&files, &model->tls, &err) != STATUS_OK ||
	    rpc_server_new(model->event, services, ARRAY_SIZE(services), NULL, model, &model->rpc, &err) !=
		    STATUS_OK ||
	    rpc_server_listen_tls(model->rpc, "127.0.0.1", port, model->tls, &model->port, &err) != STATUS_OK)
		fail_msg("%s", err.msg);
}

void model_server_stop(struct model_server *model)
{
	forget_report(model);
	if (model->n_held > 0)
		model_server_answer(model);
	rpc_server_free(model->rpc);
	rpc_tls_free(model->tls);
	model->rpc = NULL;
	model->tls = NULL;
	model->session = NULL;
}

void model_server_run(struct model_server *model, const struct alloc *alloc)
{
	struct model_alloc *entry = &model->allocs[model->n_allocs++];

	assert_true(model->n_allocs <= MODEL_ALLOCS_MAX);
	*entry = (struct model_alloc){.alloc = *alloc};
	memcpy(entry->volumes, alloc->volumes, alloc->n_volumes * sizeof(entry->volumes[0]));
	entry->alloc.volumes = entry->volumes;
	entry->alloc.published = entry->published;
	entry->alloc.n_published = 0;
	entry->alloc.client_description = entry->description;
	send_run(model, alloc);
}

void model_server_run_again(struct model_server *model, const char *alloc_id)
{
	send_run(model, &model_server_alloc(model, alloc_id)->alloc);
}

void model_server_want_stop(struct model_server *model, const char *alloc_id)
{
	struct model_alloc *entry = model_server_alloc(model, alloc_id);
	char id[UUID_TEXT_SIZE];

	if (entry && !model->namespace)
		entry->alloc.desired_status = DESIRED_STOP;
	(void)str_copy(id, sizeof(id), alloc_id);
	send_stop(model, id);
}

void model_server_hang_up(struct model_server *model)
{
	struct error err;

	assert_non_null(model->session);
	(void)error_set(&err, STATUS_UNAVAILABLE, 0, "the model hangs up");
	rpc_call_fail(TAKE_PTR(model->session), &err);
}
