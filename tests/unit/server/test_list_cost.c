/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of lists of a node: looks are counted, not timed. */

#include "asks.h"
#include "cluster.h"
#include "unit.h"

#include "base/str.h"

#include <holdfast/v1/volumes.pb-c.h>

enum { MANY = 1000, OWN = 200 };

static size_t looks; /* at claims */

bool __real_claim_is_live(const struct claim *claim);
bool __wrap_claim_is_live(const struct claim *claim);
bool __wrap_claim_is_live(const struct claim *claim)
{
	looks++;
	return __real_claim_is_live(claim);
}

/* Node n1 has a claim on a volume, in namespace default for the first @n_own of them. */
static void put_claims(struct fixture *f, unsigned int n_own)
{
	for (unsigned int i = MANY; i-- > 0;) {
		struct volume volume = ROW(.type = VOLUME_NATIVE, .plugin_id = "native", .name = "v",
					   .profile = "scratch", .n_capabilities = 1);
		struct claim claim = ROW(.state = CLAIM_TAKEN, .mode = CLAIM_WRITE, .node_id = "n1",
					 .access_mode = SINGLE_NODE_WRITER, .plugin_id = "native",
					 .attachment_mode = ATTACHMENT_FILE_SYSTEM, .allocation_id = ALLOC_1);
		const char *namespace = i < n_own ? "default" : "other";

		volume.capabilities[0] = (struct capability){SINGLE_NODE_WRITER, ATTACHMENT_FILE_SYSTEM};
		(void)str_copy(volume.namespace, sizeof(volume.namespace), namespace);
		(void)str_format(volume.id, sizeof(volume.id), "v%05u", i);
		assert_int_equal(state_put_volume(&f->server->state, &volume, NULL), STATUS_OK);
		(void)str_copy(claim.namespace, sizeof(claim.namespace), namespace);
		(void)str_copy(claim.volume_id, sizeof(claim.volume_id), volume.id);
		(void)str_format(claim.id, sizeof(claim.id), "01890000-0000-7000-9000-%012u", i);
		assert_int_equal(state_put_claim(&f->server->state, &claim, NULL), STATUS_OK);
	}
}

CLUSTER_TEST(a_page_of_a_nodes_volumes_walks_its_claims_once)
{
	Holdfast__V1__ListVolumesRequest request = V1(list_volumes_request, .node_id = TEXT("n1"));
	cleanup_pb ProtobufCMessage *answer = NULL;
	const Holdfast__V1__ListVolumesResponse *page;

	put_claims(f, OWN);
	looks = 0;
	assert_int_equal(
		call(&f->operator, & holdfast__v1__volumes__descriptor, "List", &request.base, &answer, NULL),
		STATUS_OK);
	page = (const void *)answer;
	assert_int_equal(page->n_volumes, OWN);
	for (size_t i = 0; i < OWN; i++) {
		char id[VOLUME_ID_MAX + 1];

		(void)str_format(id, sizeof(id), "v%05zu", i);
		assert_string_equal(page->volumes[i]->id, id);
	}
	assert_in_range(looks, MANY, 4 * MANY); /* each volume looks at its own claims, too */
}
