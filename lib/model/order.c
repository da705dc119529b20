/* SPDX-License-Identifier: Apache-2.0 */
#include "model/order.h"

#include "base/cleanup.h"
#include "base/id.h"
#include "base/str.h"
#include "base/utf8.h"
#include "pb/reflect.h"

#include <assert.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <string.h>

static void free_pkey(EVP_PKEY **key)
{
	EVP_PKEY_free(*key);
}

static void free_md_ctx(EVP_MD_CTX **ctx)
{
	EVP_MD_CTX_free(*ctx);
}

/* Texts that are padded with zeroes, and may not be empty. */
#define TEXT(field)                                                                       \
	{                                                                                 \
#field, offsetof(struct order, field), sizeof(((struct order *)0)->field) \
	}
static const struct {
	const char *name;
	size_t at;
	size_t size;
} texts[] = {TEXT(cluster), TEXT(node), TEXT(driver), TEXT(who)};

static enum status check_texts(const struct order *order, struct error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		const char *text = (const char *)order + texts[i].at;

		if (!str_is_padded(text, texts[i].size) || text[0] == '\0' || !str_is_text(text))
			return error_set(err, STATUS_INVALID_ARGUMENT, 0,
					 "order: %s is no text that ends in zeroes", texts[i].name);
	}
	return STATUS_OK;
}

static bool is_task_right(const struct order *order)
{
	if (!str_is_padded(order->task, sizeof(order->task)))
		return false;
	return order->kind == ORDER_NETWORK ? order->task[0] == '\0' : id_is_label(order->task);
}

enum status order_read(const void *bytes, size_t n, struct order *ret, struct error *err)
{
	struct order order;

	assert(ret && (bytes || n == 0));
	if (n != sizeof(order))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "order: %zu bytes, an order of version %d has %zu", n, ORDER_VERSION,
				 sizeof(order));
	memcpy(&order, bytes, sizeof(order));
	if (order.magic != ORDER_MAGIC || order.version != ORDER_VERSION || order.reserved != 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "order: not one of version %d",
				 ORDER_VERSION);
	if (order.kind == 0 || order.kind >= ORDER_KIND_N)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "order: of unknown kind %u", order.kind);
	TRY(check_texts(&order, err));
	if (!is_task_right(&order))
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "order: task is no name of a task");
	*ret = order;
	return STATUS_OK;
}

void order_digest(const void *bytes, size_t n, uint8_t ret[static ORDER_DIGEST_SIZE])
{
	_Static_assert(ORDER_DIGEST_SIZE == SHA256_DIGEST_LENGTH, "SHA-256");
	assert(bytes || n == 0);
	(void)SHA256(bytes ? bytes : (const void *)"", n, ret);
}

static bool is_known(const ProtobufCMessage *message);

static bool is_utf8(const char *text)
{
	return utf8_is_valid(text, strlen(text));
}

/* No type holds itself, so this goes no deeper than the types do. */
static bool is_known(const ProtobufCMessage *message)
{
	const ProtobufCMessageDescriptor *type = message->descriptor;

	if (message->n_unknown_fields > 0)
		return false;
	for (unsigned int i = 0; i < type->n_fields; i++) {
		const struct reflect_values values = reflect_values(message, &type->fields[i]);

		for (size_t k = 0; k < values.n; k++) {
			const char *at = reflect_value(&values, k);

			if ((values.field->type == PROTOBUF_C_TYPE_MESSAGE &&
			     !is_known(reflect_message(at))) ||
			    (values.field->type == PROTOBUF_C_TYPE_STRING && !is_utf8(reflect_text(at))))
				return false;
		}
	}
	return true;
}

bool order_is_canonical(const ProtobufCMessage *message, const void *bytes, size_t n)
{
	size_t size = protobuf_c_message_get_packed_size(message);
	cleanup_free uint8_t *again = NULL;

	if (size != n || !is_known(message))
		return false;
	again = malloc(size + 1);
	return again && protobuf_c_message_pack(message, again) == n && memcmp(again, bytes, n) == 0;
}

enum status order_sign(struct order *order, const uint8_t seed[static ORDER_KEY_SIZE], struct error *err)
{
	cleanup(free_pkey) EVP_PKEY *key =
		EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, seed, ORDER_KEY_SIZE);
	cleanup(free_md_ctx) EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	size_t n = sizeof(order->signature);

	if (!key || !ctx || EVP_DigestSignInit(ctx, NULL, NULL, NULL, key) != 1 ||
	    EVP_DigestSign(ctx, order->signature, &n, (const uint8_t *)order, ORDER_SIGNED_SIZE) != 1)
		return error_set(err, STATUS_INTERNAL, 0, "OpenSSL does not sign an order");
	return STATUS_OK;
}

bool order_bytes_are_signed(const void *bytes, size_t n, const uint8_t signature[static ORDER_SIGNATURE_SIZE],
			    const uint8_t key[static ORDER_KEY_SIZE])
{
	cleanup(free_pkey) EVP_PKEY *pkey =
		EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, key, ORDER_KEY_SIZE);
	cleanup(free_md_ctx) EVP_MD_CTX *ctx = EVP_MD_CTX_new();

	return pkey && ctx && EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, pkey) == 1 &&
	       EVP_DigestVerify(ctx, signature, ORDER_SIGNATURE_SIZE, bytes, n) == 1;
}

bool order_is_signed(const struct order *order, const uint8_t key[static ORDER_KEY_SIZE])
{
	return order_bytes_are_signed(order, ORDER_SIGNED_SIZE, order->signature, key);
}

const char *order_kind_name(unsigned int kind)
{
	static const char *const names[ORDER_KIND_N] = {
		[ORDER_START] = "start", [ORDER_EXEC] = "exec", [ORDER_NETWORK] = "network"};

	return kind < ORDER_KIND_N && names[kind] ? names[kind] : "unknown";
}
