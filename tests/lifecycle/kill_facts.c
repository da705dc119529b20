/* SPDX-License-Identifier: Apache-2.0 */
#include "kill.h"

#include "base/str.h"

#include <holdfast/v1/operator.pb-c.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

void kill_doubt(struct kill *k, const char *about)
{
	for (size_t i = 0; i < KILL_FACTS; i++)
		if (str_eq(k->facts[i].about, about))
			k->facts[i].about[0] = '\0';
}

void kill_know(struct kill *k, const struct kill_fact *fact)
{
	kill_doubt(k, fact->about);
	for (size_t i = 0; i < KILL_FACTS; i++) {
		if (k->facts[i].about[0] != '\0')
			continue;
		k->facts[i] = *fact;
		return;
	}
	sim_fail(&k->sim, "too many facts");
}

void kill_forget_facts(struct kill *k)
{
	memset(k->facts, 0, sizeof(k->facts));
	memset(k->methods, 0, sizeof(k->methods));
}

void kill_check_facts(struct kill *k)
{
	for (size_t i = 0; i < KILL_FACTS; i++) {
		const struct kill_fact *fact = &k->facts[i];

		if (fact->about[0] == '\0')
			continue;
		if (!kill_try(k, fact->method, fact->request))
			sim_fail(&k->sim, "the server has died though nobody killed it");
		if (k->status != fact->status)
			sim_fail(&k->sim, "acknowledged, but not true any more: %s: %s %s: %s %s",
				 fact->about, fact->method, fact->request, status_name(k->status),
				 k->message);
		if (fact->part[0] != '\0' && !strstr(k->text, fact->part))
			sim_fail(&k->sim, "acknowledged, but not true any more: %s: no %s in %s", fact->about,
				 fact->part, k->text);
		if (fact->not_there[0] != '\0' && strstr(k->text, fact->not_there))
			sim_fail(&k->sim, "acknowledged, but not true any more: %s: %s in %s", fact->about,
				 fact->not_there, k->text);
	}
}

void kill_count(struct kill *k, const char *what)
{
	for (size_t i = 0; i < KILL_METHODS; i++) {
		if (k->methods[i].name && !str_eq(k->methods[i].name, what))
			continue;
		k->methods[i].name = what;
		k->methods[i].n++;
		return;
	}
	sim_fail(&k->sim, "too many methods");
}

static Holdfast__V1__ListAuditResponse *list_audit(struct kill *k, uint64_t after)
{
	Holdfast__V1__ListAuditRequest request = HOLDFAST__V1__LIST_AUDIT_REQUEST__INIT;
	ProtobufCMessage *response = NULL;
	struct error err;

	request.after = after;
	if (sim_call(&k->sim, &holdfast__v1__operator__descriptor, "ListAudit", &request.base, &response,
		     &err) != STATUS_OK)
		sim_fail(&k->sim, "Operator.ListAudit: %s", err.msg);
	return (Holdfast__V1__ListAuditResponse *)response;
}

struct chain {
	uint64_t sequence; /* of the last record */
	uint8_t sha256[SHA256_DIGEST_LENGTH];
	uint64_t n[KILL_METHODS];
};

static void follow(struct kill *k, struct chain *chain, const Holdfast__V1__AuditRecord *record)
{
	size_t len = protobuf_c_message_get_packed_size(&record->base);
	uint8_t *bytes = malloc(len + 1);
	bool is_first = chain->sequence == 0;

	if (record->sequence != chain->sequence + 1)
		sim_fail(&k->sim, "the audit goes from record %llu to %llu",
			 (unsigned long long)chain->sequence, (unsigned long long)record->sequence);
	if (!bytes || record->previous_sha256.len != (is_first ? 0 : sizeof(chain->sha256)) ||
	    (!is_first && memcmp(record->previous_sha256.data, chain->sha256, sizeof(chain->sha256)) != 0))
		sim_fail(&k->sim, "record %llu of the audit does not follow the one before",
			 (unsigned long long)record->sequence);
	(void)SHA256(bytes, protobuf_c_message_pack(&record->base, bytes), chain->sha256);
	free(bytes);
	chain->sequence = record->sequence;
	for (size_t i = 0; i < KILL_METHODS && k->methods[i].name; i++)
		chain->n[i] += record->code == 0 && str_eq(record->what, k->methods[i].name);
}

static void check_head(struct kill *k, const struct chain *chain, const Holdfast__V1__AuditHead *head)
{
	if (head->sequence != chain->sequence || head->sha256.len != sizeof(chain->sha256) ||
	    memcmp(head->sha256.data, chain->sha256, sizeof(chain->sha256)) != 0)
		sim_fail(&k->sim, "the audit's head names record %llu, its last one is %llu",
			 (unsigned long long)head->sequence, (unsigned long long)chain->sequence);
}

void kill_check_audit(struct kill *k)
{
	struct chain chain = {.sequence = 0};
	uint64_t after = 0;

	do {
		Holdfast__V1__ListAuditResponse *page = list_audit(k, after);

		for (size_t i = 0; i < page->n_records; i++)
			follow(k, &chain, page->records[i]);
		after = page->next_after;
		if (after == 0 && chain.sequence > 0)
			check_head(k, &chain, page->head);
		holdfast__v1__list_audit_response__free_unpacked(page, NULL);
	} while (after != 0);
	for (size_t i = 0; i < KILL_METHODS && k->methods[i].name; i++)
		if (chain.n[i] < k->methods[i].n)
			sim_fail(&k->sim, "%llu times %s was acknowledged, and the audit has %llu of them",
				 (unsigned long long)k->methods[i].n, k->methods[i].name,
				 (unsigned long long)chain.n[i]);
}
