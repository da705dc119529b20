/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/csi_secret.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "pb/reflect.h"
#include "rpc/base64.h"

#include <ctype.h>
#include <string.h>

static const struct secret {
	const char *message;
	const char *field;
} secrets[] = {
#include "csi_secrets.inc"
	/* "The CO MUST treat mount_flags as sensitive": csi.proto has this only in a comment */
	{"csi.v1.VolumeCapability.MountVolume", "mount_flags"},
	/* of our own request, for a plugin's text that is no error */
	{"holdfast.v1.ControllerValidateRequest", "secrets"},
	{"holdfast.v1.MountOptions", "mount_flags"},
	/* may repeat one of the request; csi_text() does not know that */
	{"csi.v1.ValidateVolumeCapabilitiesResponse", "message"},
	/* of csi-addons, whose option for secrets our copy of its messages lacks */
	{"fence.FenceClusterNetworkRequest", "secrets"},
	{"fence.UnfenceClusterNetworkRequest", "secrets"},
	{"fence.ListClusterFenceRequest", "secrets"},
	{"fence.GetFenceClientsRequest", "secrets"},
};

bool csi_is_secret(const ProtobufCMessageDescriptor *message, const ProtobufCFieldDescriptor *field)
{
	for (size_t i = 0; i < ARRAY_SIZE(secrets); i++)
		if (str_eq(secrets[i].field, field->name) && str_eq(secrets[i].message, message->name))
			return true;
	return false;
}

static const char redacted[] = "[redacted]";

enum {
	ANYWHERE_MIN = 8,    /* bytes of a secret that is found inside a word; a shorter one must be a word */
	CUT_MIN = 4,	     /* of its beginning, where the text was cut */
	ENCODED_MAX = 512,   /* bytes of a secret's beginning that are looked for in base64 */
	READ_MAX = 32 << 10, /* bytes of a text, and of base64 in it: more than that of any secret has */
};

static bool is_word(char c)
{
	return isalnum((unsigned char)c);
}

/* The letter of the usual alphabet; URLs have two others. */
static char usual(char c)
{
	if (c == '-')
		return '+';
	if (c == '_')
		return '/';
	return c;
}

/* Bytes of the base64 of @secret at @text, or 0. It is in base64 behind @shift bytes of something else, as in
 * "USER:PASSWORD"; a letter at each end belongs to both. */
static size_t match_shifted(const char *text, const char *secret, size_t shift)
{
	static const size_t first[] = {0, 2, 3}; /* letter that belongs only to the secret */
	char bytes[ENCODED_MAX + 2], encoded[BASE64_SIZE(sizeof(bytes))];
	size_t at = 0, n, end;

	memset(bytes, 0, shift);
	memcpy(bytes + shift, secret, CUT_MIN);
	base64_encode(encoded, bytes, shift + CUT_MIN);
	if (usual(text[0]) != encoded[first[shift]]) /* nearly everywhere */
		return 0;
	n = strnlen(secret, ENCODED_MAX);
	end = (shift + n) * 8 / 6 - first[shift];
	memcpy(bytes + shift, secret, n);
	base64_encode(encoded, bytes, shift + n);
	while (at < end && usual(text[at]) == encoded[first[shift] + at])
		at++;
	if (at < end && (text[at] != '\0' || at < ANYWHERE_MIN))
		return 0;
	while (at < READ_MAX && (is_word(text[at]) || (text[at] != '\0' && strchr("+/-_=", text[at]))))
		at++; /* to its end */
	return at;
}

static size_t match_base64(const char *text, const char *secret)
{
	size_t n = 0;

	if (strnlen(secret, ANYWHERE_MIN) < ANYWHERE_MIN)
		return 0;
	for (size_t shift = 0; shift < 3 && n == 0; shift++)
		n = match_shifted(text, secret, shift);
	return n;
}

/* Returns the number of bytes of @secret found at @at in @text, or 0. Never reads to the end of @text, which
 * may have megabytes, for each place and secret. */
static size_t match(const char *text, size_t at, const char *secret)
{
	const char *here = text + at;
	size_t n = match_base64(here, secret);

	if (n > 0)
		return n;
	while (secret[n] != '\0' && here[n] == secret[n])
		n++;
	if (secret[n] != '\0') /* the end may have been cut off */
		return here[n] == '\0' && n >= CUT_MIN ? n : 0;
	if (n >= ANYWHERE_MIN)
		return n;
	if ((at > 0 && is_word(text[at - 1])) || is_word(here[n]))
		return 0;
	return n;
}

/* A flag, or what it is set to. */
static size_t match_flag(const char *text, size_t at, const char *flag)
{
	const char *value = strchr(flag, '=');
	size_t n = match(text, at, flag);

	return n == 0 && value ? match(text, at, value + 1) : n;
}

static size_t longest(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* Returns the length of the longest secret of @message found at @at in @text, or 0. */
static size_t match_any(const ProtobufCMessage *message, const char *text, size_t at)
{
	size_t n = 0;

	for (unsigned int i = 0; i < message->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
		bool is_secret = csi_is_secret(message->descriptor, field);
		struct reflect_values values = reflect_values(message, field);

		for (size_t k = 0; k < values.n; k++) {
			if (field->type == PROTOBUF_C_TYPE_MESSAGE && is_secret)
				n = longest(n, match(text, at,
						     reflect_entry_value(
							     reflect_message(reflect_value(&values, k)))));
			else if (field->type == PROTOBUF_C_TYPE_MESSAGE)
				n = longest(n,
					    match_any(reflect_message(reflect_value(&values, k)), text, at));
			else if (is_secret)
				n = longest(n, match_flag(text, at, reflect_text(reflect_value(&values, k))));
		}
	}
	return n;
}

void csi_redact(const ProtobufCMessage *request, const char *text, char *ret, size_t size)
{
	size_t len = 0;
	size_t at = 0;

	while (text[at] != '\0' && at < READ_MAX) {
		size_t secret = match_any(request, text, at);
		const char *piece = secret > 0 ? redacted : text + at;
		size_t n = secret > 0 ? sizeof(redacted) - 1 : 1;

		if (n >= size - len)
			break;
		memcpy(ret + len, piece, n);
		len += n;
		at += secret > 0 ? secret : 1;
	}
	ret[len] = '\0';
}
