/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/str.h"
#include "rpc/pbjson_word.h"
#include "show/output.h"
#include "show/show.h"

#include <inttypes.h>

static const char *word(const ProtobufCEnumDescriptor *descriptor, int value,
			char text[static PBJSON_WORD_SIZE])
{
	return value == 0 ? "" : pbjson_word_text(descriptor, value, text);
}

enum status show_claims(Holdfast__V1__Claim *const *claims, size_t n, const char *title, bool verbose,
			struct error *err)
{
	static const struct column columns[] = {
		{.name = "VOLUME"},
		{.name = "ALLOCATION"},
		{.name = "NODE"},
		{.name = "STATE", .is_state = true},
		{.name = "MODE"},
		{.name = "EVIDENCE"},
		{.name = "AGE"},
		{.name = "TRIES", .is_number = true},
		{.name = "LAST ERROR", .is_wide = true},
	};
	cleanup(table_freep) struct table *table = NULL;
	int64_t now_ms = clock_realtime_ms();

	if (n == 0)
		return STATUS_OK;
	table = table_new(columns, ARRAY_SIZE(columns));
	table_show_whole(table, verbose);
	for (size_t i = 0; i < n; i++) {
		const Holdfast__V1__Claim *c = claims[i];
		char state[PBJSON_WORD_SIZE], mode[PBJSON_WORD_SIZE], evidence[PBJSON_WORD_SIZE];
		char age[AGE_SIZE], tries[16];

		(void)str_format(tries, sizeof(tries), "%" PRIu32, c->attempts);
		table_add(table,
			  (const char *const[]){
				  c->volume_id, c->allocation_id, c->node_id,
				  word(&holdfast__v1__claim_state__descriptor, (int)c->state, state),
				  word(&holdfast__v1__access_mode__descriptor, (int)c->access_mode, mode),
				  word(&holdfast__v1__evidence__descriptor, (int)c->evidence, evidence),
				  age_text(c->create_time_ms, now_ms, age), tries, c->last_error});
	}
	return table_print(table, title, err);
}

void show_claim_errors(Holdfast__V1__Claim *const *claims, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (claims[i]->last_error[0])
			print_line("volume %s on node %s: %s", claims[i]->volume_id, claims[i]->node_id,
				   claims[i]->last_error);
}

/* The evidence that would let a claim in this state go without anybody's word. */
static const char *missing_evidence(const Holdfast__V1__Claim *claim)
{
	switch (claim->state) {
	case HOLDFAST__V1__CLAIM_STATE__RESERVED:
	case HOLDFAST__V1__CLAIM_STATE__TAKEN:
	case HOLDFAST__V1__CLAIM_STATE__UNPUBLISHING:
		return "the node's receipt, a new boot of the node, or a detach confirmed at the provider";
	case HOLDFAST__V1__CLAIM_STATE__NODE_DETACHED:
		return "the provider's confirmation of the detach";
	case HOLDFAST__V1__CLAIM_STATE__CLAIM_STATE_UNSPECIFIED:
	case HOLDFAST__V1__CLAIM_STATE__CONTROLLER_DETACHED:
	case HOLDFAST__V1__CLAIM_STATE__FREED:
	case _HOLDFAST__V1__CLAIM_STATE_IS_INT_SIZE:
		break;
	}
	return "none";
}

enum status show_bypassed(Holdfast__V1__Claim *const *claims, size_t n, struct error *err)
{
	static const struct column columns[] = {
		{.name = "VOLUME"},
		{.name = "ALLOCATION"},
		{.name = "NODE"},
		{.name = "BYPASSED EVIDENCE"},
	};
	cleanup(table_freep) struct table *table = NULL;

	if (n == 0)
		return STATUS_OK;
	table = table_new(columns, ARRAY_SIZE(columns));
	for (size_t i = 0; i < n; i++)
		table_add(table, (const char *const[]){claims[i]->volume_id, claims[i]->allocation_id,
						       claims[i]->node_id, missing_evidence(claims[i])});
	return table_print(table, "an operator's word would stand in for evidence", err);
}
