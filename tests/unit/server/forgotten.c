/* SPDX-License-Identifier: Apache-2.0 */
#include "forgotten.h"

#include "asks.h"
#include "callers.h"
#include "restored.h"
#include "unit.h"

#include "state/keys.h"
#include "ticket/ticket.h"

#include <limits.h>

void provoke_report(struct fixture *f, struct fake_node *node)
{
	Holdfast__V1__AllocStatus unknown = V1(alloc_status, .alloc_id = TEXT(UNKNOWN),
					       .client_status = HOLDFAST__V1__CLIENT_STATUS__RUNNING);
	Holdfast__V1__AllocStatus *list[] = {&unknown};
	char id[NODE_ID_MAX + 1];

	(void)str_copy(id, sizeof(id), node->id);
	if (node->stream)
		fake_node_disconnect(node);
	fake_node_connect(node, id, BOOT_1, list, 1);
	UNTIL(f, node->reports_wanted == 1);
}

void make_another_key(struct fixture *f)
{
	char path[PATH_MAX];

	(void)str_format(path, sizeof(path), "%s/ticket.key", f->dir);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(ticket_key_make(path, NULL), STATUS_OK);
}

bool is_freed(struct fixture *f, const char *claim_id)
{
	const struct claim_entry *entry = state_claim(&f->server->state, claim_id);

	return !entry || !claim_is_live(&entry->claim);
}

void deregister(struct fixture *f, const char *id)
{
	const Holdfast__V1__DeregisterVolumeRequest request = V1(deregister_volume_request, .id = TEXT(id));

	assert_ok(call(&f->operator, & holdfast__v1__volumes__descriptor, "Deregister", &request.base, NULL,
		       NULL));
}

enum status tenant_asks(struct fixture *f, const char *secret, const char *method, const char *request,
			struct error *err)
{
	cleanup(caller_release) struct caller_client tenant;

	caller_init(&tenant, f, NULL, secret);
	return caller_call(&tenant, method, request, NULL, err);
}

void report_n1(struct fixture *f, const struct alloc *alloc, const struct claim *held,
	       const struct ticket *ticket)
{
	connect_node(&f->n1, "n1");
	report_with(&f->n1, state_epoch(&f->server->state), alloc, held, ticket, false);
	UNTIL(f, has_reported(f, "n1"));
}

void report_nothing(struct fixture *f)
{
	connect_node(&f->n2, "n2");
	report(f, &f->n2, state_epoch(&f->server->state), NULL, NULL, false);
	UNTIL(f, has_reported(f, "n2"));
}

void report_forgotten(struct fixture *f, const struct alloc *alloc, const struct claim *held,
		      const struct ticket *ticket)
{
	report_n1(f, alloc, held, ticket);
	report_nothing(f);
	assert_non_null(state_claim(&f->server->state, held->id));
}

void run_csi(struct fixture *f)
{
	f->n1.plugin = f->n2.plugin = &f->plugin;
	f->n1.csi = (struct fake_csi){.has_node = true};
	f->n2.csi = (struct fake_csi){.has_node = true, .has_controller = true};
}

void forget_csi(struct fixture *f, struct alloc *alloc, struct claim *held, struct ticket *ticket)
{
	struct backup backup = {0};
	struct volume_entry *former;

	connect_csi(f);
	take_backup(f, &backup);
	connect_csi(f);
	former = state_volume(&f->server->state, "default", "db");
	if (former && former->volume.type == VOLUME_NATIVE)
		assert_ok(deregister_volume(f, NULL));
	register_csi(f, "db");
	take_claim(f, &f->n1, "db", ALLOC_1);
	*alloc = alloc_of(f, ALLOC_1);
	*held = claim_of(f, ALLOC_1);
	*ticket = ticket_of(f, held);
	restore(f, &backup, 1);
	run_csi(f);
}

void believe_csi(struct fixture *f, struct alloc *alloc, struct claim *held)
{
	struct ticket ticket;

	forget_csi(f, alloc, held, &ticket);
	restart_with(f, make_another_key);
	run_csi(f);
	report_forgotten(f, alloc, held, &ticket);
}

static enum status ask(struct fixture *f, const char *method, const char *namespace, const char *id,
		       const char *external_id, const char *zone, struct error *err)
{
	cleanup(caller_release) struct caller_client caller;
	char request[512];

	caller_init(&caller, f, "holdfast://c1/operator/ann", NULL);
	(void)str_format(request, sizeof(request),
			 "{\"volume\":{\"id\":\"%s\",\"namespace\":\"%s\",\"type\":\"CSI\",\"pluginId\":"
			 "\"" CSI_PLUGIN "\",\"externalId\":\"%s\",%s%s%s"
			 "\"requestedCapabilities\":[" MODE "]}}",
			 id, namespace, external_id, zone ? "\"context\":{\"zone\":\"" : "", zone ? zone : "",
			 zone ? "\"}," : "");
	return caller_call(&caller, method, request, NULL, err);
}

enum status ask_csi(struct fixture *f, const char *method, const char *id, const char *external_id,
		    struct error *err)
{
	return ask(f, method, "default", id, external_id, NULL, err);
}

enum status register_zone(struct fixture *f, const char *id, const char *external_id, const char *zone,
			  struct error *err)
{
	return ask(f, "Volumes.Register", "default", id, external_id, zone, err);
}

enum status register_other(struct fixture *f, const char *external_id, struct error *err)
{
	return ask(f, "Volumes.Register", "blue", "other", external_id, NULL, err);
}

void store_volume(struct fixture *f, const struct volume *volume)
{
	cleanup(change_release) struct change change = CHANGE_INIT;

	change_put_volume(&change, volume);
	assert_ok(change_commit(f->server, &change, NULL, NULL, NULL));
}

void store_claim(struct fixture *f, const struct claim *claim)
{
	cleanup(change_release) struct change change = CHANGE_INIT;

	change_put_claim(&change, claim);
	assert_ok(change_commit(f->server, &change, NULL, NULL, NULL));
}

void store_old_db(struct fixture *f)
{
	const struct volume old =
		ROW(.namespace = "default", .id = "db", .type = VOLUME_CSI, .plugin_id = CSI_PLUGIN,
		    .external_id = "vol-old", .capabilities = {{SINGLE_NODE_WRITER, ATTACHMENT_FILE_SYSTEM}},
		    .n_capabilities = 1, .create_time_ms = 1, .modify_time_ms = 1);

	store_volume(f, &old);
}

void grant_since(struct fixture *f)
{
	report_nothing(f);
	assert_ok(attest(f, "n1", NULL, "it is off", 0, false, NULL, NULL));
	take_claim(f, &f->n2, "db", ALLOC_2);
}

void store_zone(struct fixture *f, const char *id, const char *zone, bool is_made)
{
	Holdfast__V1__VolumeDetail__ContextEntry context = HOLDFAST__V1__VOLUME_DETAIL__CONTEXT_ENTRY__INIT;
	Holdfast__V1__VolumeDetail__ContextEntry *contexts[] = {&context};
	const Holdfast__V1__VolumeDetail detail =
		V1(volume_detail, .context = contexts, .n_context = 1, .made_by_provider = is_made);
	cleanup(change_release) struct change change = CHANGE_INIT;
	char key[OBJECT_KEY_SIZE];
	struct volume volume;

	store_old_db(f);
	volume = state_volume(&f->server->state, "default", "db")->volume;
	(void)str_copy(volume.id, sizeof(volume.id), id);
	(void)str_copy(volume.external_id, sizeof(volume.external_id), "vol-db");
	context.key = TEXT("zone");
	context.value = TEXT(zone);
	(void)str_format(key, sizeof(key), PREFIX_VOLUME_DETAIL "default/%s", id);
	change_put_record(&change, key, &detail.base);
	change_put_volume(&change, &volume);
	assert_ok(change_commit(f->server, &change, NULL, NULL, NULL));
}

void report_freed(struct fixture *f, struct claim *freed)
{
	fake_node_disconnect(&f->n1);
	UNTIL(f, !state_node(&f->server->state, "n1")->session);
	f->n1.has = freed;
	f->n1.releases = 0;
	connect_node(&f->n1, "n1");
	UNTIL(f, f->n1.releases > 0);
}
