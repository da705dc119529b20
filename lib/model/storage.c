/* SPDX-License-Identifier: Apache-2.0 */
/* The identity of storage. */
#define OPENSSL_SUPPRESS_DEPRECATED /* as in volume.c: SHA256() looks the algorithm up each time */
#include "model/storage.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "model/volume_detail.h"

#include <openssl/sha.h>
#include <string.h>

_Static_assert((int)STORAGE_DIGEST_SIZE == SHA256_DIGEST_LENGTH, "a digest fits");

/* The end of each text is part of the digest, so that no two lists of texts have the same one. These calls
 * cannot fail. */
static void add(SHA256_CTX *ctx, const char *text)
{
	(void)SHA256_Update(ctx, text, strlen(text) + 1);
}

static void digest_texts(uint8_t ret[static STORAGE_DIGEST_SIZE], const char *const *texts, size_t n)
{
	SHA256_CTX ctx;

	(void)SHA256_Init(&ctx);
	for (size_t i = 0; i < n; i++)
		add(&ctx, texts[i]);
	(void)SHA256_Final(ret, &ctx);
}

/* A map has no order: the digests of its entries are sorted before they are added up. */
static void digest_context(struct message_text_entry *const *context, size_t n_context,
			   uint8_t ret[static STORAGE_DIGEST_SIZE])
{
	uint8_t sorted[VOLUME_MAP_ENTRIES_MAX][STORAGE_DIGEST_SIZE];
	size_t n = n_context < VOLUME_MAP_ENTRIES_MAX ? n_context : VOLUME_MAP_ENTRIES_MAX;

	for (size_t i = 0; i < n; i++) {
		const char *const entry[] = {context[i]->key, context[i]->value};
		uint8_t one[STORAGE_DIGEST_SIZE];
		size_t at = i;

		digest_texts(one, entry, ARRAY_SIZE(entry));
		for (; at > 0 && memcmp(sorted[at - 1], one, sizeof(one)) > 0; at--)
			memcpy(sorted[at], sorted[at - 1], sizeof(one));
		memcpy(sorted[at], one, sizeof(one));
	}
	(void)SHA256(sorted[0], n * STORAGE_DIGEST_SIZE, ret);
}

void storage_context_digest(struct message_text_entry *const *context, size_t n,
			    char ret[static CONTEXT_DIGEST_SIZE])
{
	uint8_t digest[STORAGE_DIGEST_SIZE];

	ret[0] = '\0';
	if (n == 0)
		return;
	digest_context(context, n, digest);
	hex_encode(ret, digest, sizeof(digest));
}

static void identify_native(const struct source *source, struct storage_id *ret)
{
	const char *texts[] = {"", "", ""};

	*ret = (struct storage_id){.is_known = true};
	switch (source->class) {
	case SOURCE_BLOCK:
		texts[0] = "block";
		texts[1] = source->by_id;
		break;
	case SOURCE_NFS4:
		texts[0] = "nfs4";
		texts[1] = source->server;
		texts[2] = source->export;
		break;
	case SOURCE_BIND:
		texts[0] = "bind";
		texts[1] = source->host_volume;
		break;
	case SOURCE_TMPFS:
	case SOURCE_UNSPECIFIED:
	case SOURCE_CLASS_N:
		ret->is_known = false;
		return;
	}
	digest_texts(ret->provider, texts, ARRAY_SIZE(texts));
}

void storage_identify_external(const char *plugin_id, const char *external_id, struct storage_id *ret)
{
	const char *const texts[] = {"csi", plugin_id, external_id};

	*ret = (struct storage_id){.is_known = external_id[0] != '\0'};
	if (ret->is_known)
		digest_texts(ret->provider, texts, ARRAY_SIZE(texts));
}

void storage_identify(const struct volume *volume, const Holdfast__V1__VolumeDetail *detail,
		      struct storage_id *ret)
{
	if (volume->type != VOLUME_CSI) {
		identify_native(&volume->source, ret);
		return;
	}
	storage_identify_external(volume->plugin_id, volume->external_id, ret);
	if (ret->is_known && detail && detail->n_context > 0 && !detail->made_by_provider &&
	    !volume_is_placeholder(volume))
		digest_context(VOLUME_MAP(detail->context), detail->n_context, ret->context);
}

struct storage_id storage_of_provider(const struct storage_id *id)
{
	struct storage_id ret = *id;

	memset(ret.context, 0, sizeof(ret.context));
	return ret;
}

static bool has_context(const struct storage_id *id)
{
	static const uint8_t none[STORAGE_DIGEST_SIZE];

	return memcmp(id->context, none, sizeof(none)) != 0;
}

bool storage_id_eq(const struct storage_id *a, const struct storage_id *b)
{
	return a->is_known == b->is_known && storage_compare(a, b) == 0;
}

bool storage_is_same(const struct storage_id *a, const struct storage_id *b)
{
	if (!a->is_known || !b->is_known || memcmp(a->provider, b->provider, sizeof(a->provider)) != 0)
		return false;
	return !has_context(a) || !has_context(b) || memcmp(a->context, b->context, sizeof(a->context)) == 0;
}

int storage_compare(const struct storage_id *a, const struct storage_id *b)
{
	int c = memcmp(a->provider, b->provider, sizeof(a->provider));

	return c != 0 ? c : memcmp(a->context, b->context, sizeof(a->context));
}
