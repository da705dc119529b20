/* SPDX-License-Identifier: Apache-2.0 */
#include "records.h"

#include "unit.h"

#include "alloc/claim_details.h"

struct alloc records_alloc(const char *id, uint32_t n)
{
	enum { ALIVE = 8 };
	static struct volume_request lists[ALIVE][ALLOC_VOLUMES_MAX];
	static unsigned int next;
	struct alloc alloc = {
		.volumes = lists[next++ % ALIVE], .n_volumes = n, .desired_status = DESIRED_RUN};

	assert_int_equal(str_copy(alloc.id, sizeof(alloc.id), id), 0);
	(void)str_copy(alloc.name, sizeof(alloc.name), "app");
	(void)str_copy(alloc.node_id, sizeof(alloc.node_id), "n1");
	alloc_default(&alloc);
	for (uint32_t i = 0; i < n; i++) {
		struct volume_request *request = &alloc.volumes[i];

		*request = (struct volume_request){0};
		(void)str_format(request->name, sizeof(request->name), "v%u", i);
		(void)str_format(request->source, sizeof(request->source), "vol%u", i);
		request->access_mode = SINGLE_NODE_MULTI_WRITER;
		request->attachment_mode = ATTACHMENT_FILE_SYSTEM;
	}
	return alloc;
}

struct alloc_record *records_make(uint32_t n)
{
	struct alloc alloc = records_alloc(ALLOC_ID, n);
	struct alloc_record *record;
	struct error err;

	assert_int_equal(alloc_record_new(&alloc, BOOT_ID, &record, &err), STATUS_OK);
	return record;
}

struct claim_grant records_grant(const struct alloc_record *record, uint32_t i)
{
	const struct volume_request *request = &record->alloc.volumes[i];
	struct claim_grant grant = {
		.claim = {.mode = CLAIM_WRITE, .generation = 40 + i},
		.volume = {.type = VOLUME_NATIVE,
			   .source = ROW(.class = SOURCE_TMPFS, .size_bytes = 4096, .inodes = 9,
					 .server = "192.0.2.7", .export = "/a", .host_volume = "data")},
		.has_ticket = true,
		.ticket = ROW(.magic = TICKET_MAGIC, .version = TICKET_VERSION, .not_after_ms = 1000000,
			      .generation = 40 + i),
	};

	(void)str_format(grant.claim.id, sizeof(grant.claim.id), "0190a5a0-0000-7000-8000-00000000c1%02u", i);
	(void)str_copy(grant.claim.allocation_id, sizeof(grant.claim.allocation_id), record->alloc.id);
	(void)str_copy(grant.claim.boot_id, sizeof(grant.claim.boot_id), record->boot_id);
	(void)str_copy(grant.volume.id, sizeof(grant.volume.id), request->source);
	(void)str_copy(grant.volume.namespace, sizeof(grant.volume.namespace), "default");
	(void)str_copy(grant.volume.profile, sizeof(grant.volume.profile), "scratch");
	(void)str_format(grant.wire_volume, sizeof(grant.wire_volume), "%s-0123456789abcdef",
			 request->source);
	return grant;
}

struct claim_grant records_csi_grant(const struct alloc_record *record, uint32_t i)
{
	struct claim_grant grant = records_grant(record, i);
	Holdfast__V1__Volume volume = HOLDFAST__V1__VOLUME__INIT;
	Holdfast__V1__ClaimVolumeResponse response = V1(claim_volume_response, .volume = &volume);
	Holdfast__V1__Volume__SecretsEntry secret = HOLDFAST__V1__VOLUME__SECRETS_ENTRY__INIT;
	Holdfast__V1__Volume__SecretsEntry *secrets[] = {&secret};
	char key[] = "key", value[] = "records-secret";

	grant.volume.type = VOLUME_CSI;
	grant.volume.source = (struct source){0};
	grant.volume.profile[0] = '\0';
	(void)str_copy(grant.volume.plugin_id, sizeof(grant.volume.plugin_id), "csi.plug");
	(void)str_format(grant.volume.external_id, sizeof(grant.volume.external_id), "share#vol/%u", i);
	(void)str_format(grant.volume.context_digest, sizeof(grant.volume.context_digest), "ab%u", i);
	grant.claim.access_mode = SINGLE_NODE_MULTI_WRITER;
	grant.claim.attachment_mode = ATTACHMENT_FILE_SYSTEM;
	secret.key = key;
	secret.value = value;
	volume.secrets = secrets;
	volume.n_secrets = 1;
	assert_int_equal(claim_details_new(&response, &grant.details, NULL), STATUS_OK);
	return grant;
}

struct volume_mounted records_mounted(uint32_t i)
{
	struct volume_mounted mounted = {.dev_major = 0, .dev_minor = 100 + i};

	(void)str_format(mounted.path, sizeof(mounted.path), "/publish/" ALLOC_ID "/%u", i);
	return mounted;
}

static void step(struct alloc_record *record, struct alloc_event event)
{
	assert_true(alloc_step(record, &event));
}

void records_drive(struct alloc_record *record, enum alloc_phase phase, uint32_t volumes_published,
		   uint32_t volumes_claimed)
{
	const struct error failure = {.status = STATUS_INTERNAL, .msg = "it broke"};

	for (uint32_t i = 0; i < volumes_claimed; i++) {
		struct claim_grant grant = records_grant(record, i);
		struct volume_mounted mounted = records_mounted(i);

		step(record, (struct alloc_event){.type = ALLOC_EVENT_CLAIM});
		step(record, (struct alloc_event){.type = ALLOC_EVENT_CLAIMED, .volume = i, .grant = &grant});
		if (i < volumes_published)
			step(record, (struct alloc_event){
					     .type = ALLOC_EVENT_MOUNTED, .volume = i, .mounted = &mounted});
	}
	switch (phase) {
	case ALLOC_CLAIMING:
		step(record, (struct alloc_event){.type = ALLOC_EVENT_CLAIM});
		break;
	case ALLOC_RUNNING:
		step(record, (struct alloc_event){.type = ALLOC_EVENT_RUN});
		break;
	case ALLOC_STOPPING:
		step(record, (struct alloc_event){.type = ALLOC_EVENT_FAIL, .err = &failure});
		break;
	case ALLOC_STOPPED:
		step(record, (struct alloc_event){.type = ALLOC_EVENT_STOP});
		for (uint32_t i = volumes_claimed; i-- > 0;)
			step(record, (struct alloc_event){.type = ALLOC_EVENT_RELEASED, .volume = i});
		step(record, (struct alloc_event){.type = ALLOC_EVENT_FINISH});
		break;
	case ALLOC_NEW:
	case ALLOC_MOUNTING:
	case ALLOC_PHASE_N:
		break;
	}
	assert_int_equal(record->phase, phase);
}
