/* SPDX-License-Identifier: Apache-2.0 */
/* Which volumes are the same storage. */
#include "unit.h"

#include "base/str.h"
#include "model/claim.h"
#include "model/storage.h"
#include "model/volume_detail.h"

typedef Holdfast__V1__VolumeDetail__ContextEntry context_entry;

static struct volume csi(const char *external_id)
{
	struct volume volume = {.id = "v",
				.namespace = "default",
				.type = VOLUME_CSI,
				.plugin_id = "nfs",
				.capabilities = {{SINGLE_NODE_WRITER, ATTACHMENT_FILE_SYSTEM}},
				.n_capabilities = 1};

	(void)str_copy(volume.external_id, sizeof(volume.external_id), external_id);
	return volume;
}

/* With "key=value" texts as context. @volume gets its digest. */
static struct storage_id identify(struct volume *volume, const char *a, const char *b, bool is_made)
{
	Holdfast__V1__VolumeDetail detail = HOLDFAST__V1__VOLUME_DETAIL__INIT;
	context_entry entries[2], *list[2];
	const char *texts[] = {a, b};
	char keys[2][64];
	struct storage_id id;

	for (size_t i = 0; i < ARRAY_SIZE(texts) && texts[i]; i++) {
		holdfast__v1__volume_detail__context_entry__init(&entries[i]);
		assert_int_equal(str_copy(keys[i], sizeof(keys[i]), texts[i]), 0);
		keys[i][strcspn(keys[i], "=")] = '\0';
		entries[i].key = keys[i];
		entries[i].value = keys[i] + strlen(keys[i]) + 1;
		list[detail.n_context++] = &entries[i];
	}
	detail.context = list;
	detail.made_by_provider = is_made;
	storage_identify(volume, &detail, &id);
	storage_context_digest(VOLUME_MAP(list), detail.n_context, volume->context_digest);
	return id;
}

static struct storage_id with_context(const char *external_id, const char *a, const char *b, bool is_made)
{
	struct volume volume = csi(external_id);

	return identify(&volume, a, b, is_made);
}

static struct volume share(const char *external_id, const char *a, const char *b)
{
	struct volume volume = csi(external_id);

	(void)identify(&volume, a, b, true);
	return volume;
}

static bool is_one_source(struct volume a, struct volume b)
{
	char of_a[VOLUME_SOURCE_HEX_SIZE], of_b[VOLUME_SOURCE_HEX_SIZE];
	struct claim claim = {.plugin_id = "nfs"};

	volume_source_hex(&a, of_a);
	volume_source_hex(&b, of_b);
	claim_set_storage(&claim, &a);
	assert_int_equal(claim_is_on_storage(&claim, &b), str_eq(of_a, of_b));
	return str_eq(of_a, of_b);
}

static struct storage_id native(const struct source *source)
{
	const struct volume volume = {.type = VOLUME_NATIVE, .plugin_id = "native", .source = *source};
	struct storage_id id;

	storage_identify(&volume, NULL, &id);
	return id;
}

static bool same(struct storage_id a, struct storage_id b)
{
	assert_int_equal(storage_is_same(&a, &b), storage_is_same(&b, &a));
	return storage_is_same(&a, &b);
}

TEST(volumes_of_one_external_id_are_told_apart_by_their_contexts)
{
	assert_true(
		same(with_context("x", "share=/a", NULL, false), with_context("x", "share=/a", NULL, false)));
	assert_false(
		same(with_context("x", "share=/a", NULL, false), with_context("x", "share=/b", NULL, false)));
	assert_false(
		same(with_context("x", "share=/a", NULL, false), with_context("y", "share=/a", NULL, false)));
	assert_true(same(with_context("x", "s=1", "t=2", false), with_context("x", "t=2", "s=1", false)));
	assert_false(same(with_context("x", "s=1", "t=2", false), with_context("x", "s=1", NULL, false)));
	assert_false(same(with_context("x", "s=1", "t=2", false), with_context("x", "s=2", "t=1", false)));
	assert_false(same(with_context("x", "ab=c", NULL, false), with_context("x", "a=bc", NULL, false)));
}

TEST(a_volume_without_context_or_made_by_its_provider_is_all_that_its_id_names)
{
	assert_true(same(with_context("x", NULL, NULL, false), with_context("x", "junk=1", NULL, false)));
	assert_true(same(with_context("x", "made=1", NULL, true), with_context("x", "junk=1", NULL, false)));
	assert_false(same(with_context("x", "made=1", NULL, true), with_context("y", "made=1", NULL, true)));
}

TEST(a_ticket_names_external_id_and_context)
{
	const struct volume two = share("x", "s=1", "t=2");
	struct claim claim = {.plugin_id = "nfs"};
	struct volume placeholder = csi("x");

	assert_true(is_one_source(share("x", NULL, NULL), csi("x")));
	assert_true(is_one_source(two, share("x", "t=2", "s=1")));
	assert_false(is_one_source(two, share("x", "s=1", NULL)));
	assert_false(is_one_source(two, share("x", "s=2", "t=1")));
	assert_false(is_one_source(two, share("y", "s=1", "t=2")));
	assert_false(is_one_source(two, csi("x")));
	assert_false(is_one_source(csi("x"), two));
	claim_set_storage(&claim, &two);
	placeholder.n_capabilities = 0; /* its context is not known */
	assert_true(claim_is_on_storage(&claim, &placeholder));
}

TEST(a_volume_without_external_id_is_not_known_yet)
{
	assert_false(with_context("", NULL, NULL, false).is_known);
	assert_false(same(with_context("", NULL, NULL, false), with_context("", NULL, NULL, false)));
}

TEST(another_plugin_is_another_provider)
{
	struct storage_id a, b;

	storage_identify_external("nfs", "x", &a);
	storage_identify_external("ebs", "x", &b);
	assert_false(same(a, b));
	assert_true(same(a, with_context("x", "share=/a", NULL, false)));
}

TEST(native_volumes_are_identified_by_source)
{
	const struct source sources[] = {
		{.class = SOURCE_BLOCK, .by_id = "wwn-0x1"},
		{.class = SOURCE_BLOCK, .by_id = "wwn-0x2"},
		{.class = SOURCE_NFS4, .server = "192.0.2.7", .export = "/a"},
		{.class = SOURCE_NFS4, .server = "192.0.2.7", .export = "/b"},
		{.class = SOURCE_NFS4, .server = "192.0.2.8", .export = "/a"},
		{.class = SOURCE_BIND, .host_volume = "data"},
		{.class = SOURCE_BIND, .host_volume = "wwn-0x1"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(sources); i++)
		for (size_t k = 0; k < ARRAY_SIZE(sources); k++)
			assert_int_equal(same(native(&sources[i]), native(&sources[k])), i == k);
}

TEST(no_tmpfs_is_the_same_as_another)
{
	const struct source tmpfs = {.class = SOURCE_TMPFS, .size_bytes = 1, .inodes = 1};

	assert_false(native(&tmpfs).is_known);
	assert_false(same(native(&tmpfs), native(&tmpfs)));
}

TEST(ids_of_one_provider_id_are_neighbours_those_without_context_first)
{
	const struct storage_id none = with_context("x", NULL, NULL, false);
	const struct storage_id a = with_context("x", "a=1", NULL, false);
	const struct storage_id b = with_context("x", "b=1", NULL, false);
	const struct storage_id all = storage_of_provider(&a);

	assert_true(storage_compare(&none, &a) < 0 && storage_compare(&none, &b) < 0);
	assert_true((storage_compare(&a, &b) < 0) != (storage_compare(&b, &a) < 0));
	assert_true(storage_id_eq(&all, &none));
	assert_false(storage_id_eq(&a, &b));
}
