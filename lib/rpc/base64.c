/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/base64.h"

#include "base/cleanup.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

void base64_encode(char *text, const void *bytes, size_t n)
{
	assert(n <= INT_MAX / 2);
	text[0] = '\0';
	if (n > 0)
		(void)EVP_EncodeBlock((unsigned char *)text, bytes, (int)n);
}

static bool is_alphabet(char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' ||
	       c == '/';
}

/* Characters of @text before its padding, or -EINVAL. OpenSSL's decoder skips blanks and takes '=' for a zero
 * anywhere, so the text is looked at first. */
static ssize_t body_length(const char *text, size_t length, bool unpadded_too)
{
	size_t body = 0;
	size_t padding;

	while (body < length && is_alphabet(text[body]))
		body++;
	padding = length - body;
	for (size_t i = body; i < length; i++)
		if (text[i] != '=')
			return -EINVAL;
	if (padding == 0 && unpadded_too)
		return body % 4 == 1 ? -EINVAL : (ssize_t)body;
	return padding > 2 || length % 4 != 0 ? -EINVAL : (ssize_t)body;
}

int base64_decode(const char *text, size_t length, bool unpadded_too, uint8_t **ret, size_t *ret_n)
{
	cleanup_free uint8_t *data = NULL;
	cleanup_free char *padded = NULL;
	ssize_t body = length > INT_MAX - 4 ? -EINVAL : body_length(text, length, unpadded_too);
	size_t whole;
	int n;

	if (body < 0)
		return -EINVAL;
	if (body == 0) {
		*ret = NULL;
		*ret_n = 0;
		return 0;
	}
	whole = ((size_t)body + 3) / 4 * 4;
	padded = malloc(whole + 1);
	data = malloc(whole / 4 * 3);
	if (!padded || !data)
		return -ENOMEM;
	memset(padded, '=', whole);
	memcpy(padded, text, (size_t)body);
	n = EVP_DecodeBlock(data, (const unsigned char *)padded, (int)whole);
	if (n < 0)
		return -EINVAL;
	*ret_n = (size_t)n - (whole - (size_t)body);
	*ret = TAKE_PTR(data);
	return 0;
}
