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
	SECRETS_MAX = 256,   /* different ones of a request, of which ours have 128 at most */
	SIMILAR_MAX = 4096,  /* places of a text with the beginning of a secret, counted for each one */
	SHIFTS = 3,
};

struct needle {
	const char *secret;
	bool is_long;		       /* found anywhere, also in base64, which begins with: */
	char encoded[SHIFTS][CUT_MIN]; /* by the bytes before it */
};

/* The secrets of a request. */
struct needles {
	struct needle list[SECRETS_MAX];
	size_t n;
	size_t left; /* of SIMILAR_MAX; 0: the rest of the text is cut */
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

/* Letter of the base64 of @shift bytes and a secret that belongs only to the secret. */
static const size_t first_letter[SHIFTS] = {0, 2, 3};

static void encode(const char *secret, size_t n, size_t shift,
		   char ret[static BASE64_SIZE(ENCODED_MAX + SHIFTS - 1)])
{
	char bytes[ENCODED_MAX + SHIFTS - 1];

	memset(bytes, 0, shift);
	memcpy(bytes + shift, secret, n);
	base64_encode(ret, bytes, shift + n);
}

static void needles_add(struct needles *needles, const char *secret)
{
	char encoded[BASE64_SIZE(ENCODED_MAX + SHIFTS - 1)];
	struct needle *needle = &needles->list[needles->n];

	if (secret[0] == '\0')
		return;
	for (size_t i = 0; i < needles->n; i++)
		if (str_eq(needles->list[i].secret, secret))
			return;
	if (needles->n == SECRETS_MAX) {
		needles->left = 0;
		return;
	}
	*needle = (struct needle){.secret = secret, .is_long = strnlen(secret, ANYWHERE_MIN) == ANYWHERE_MIN};
	for (size_t shift = 0; needle->is_long && shift < SHIFTS; shift++) {
		encode(secret, CUT_MIN, shift, encoded);
		memcpy(needle->encoded[shift], encoded + first_letter[shift], CUT_MIN);
	}
	needles->n++;
}

/* A flag, and what it is set to. */
static void needles_add_flag(struct needles *needles, const char *flag)
{
	const char *value = strchr(flag, '=');

	needles_add(needles, flag);
	if (value)
		needles_add(needles, value + 1);
}

static void needles_take(struct needles *needles, const ProtobufCMessage *message)
{
	for (unsigned int i = 0; i < message->descriptor->n_fields; i++) {
		const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
		bool is_secret = csi_is_secret(message->descriptor, field);
		struct reflect_values values = reflect_values(message, field);

		for (size_t k = 0; k < values.n; k++) {
			const char *value = reflect_value(&values, k);

			if (field->type == PROTOBUF_C_TYPE_MESSAGE && is_secret)
				needles_add(needles, reflect_entry_value(reflect_message(value)));
			else if (field->type == PROTOBUF_C_TYPE_MESSAGE)
				needles_take(needles, reflect_message(value));
			else if (is_secret)
				needles_add_flag(needles, reflect_text(value));
		}
	}
}

/* @n bytes of it were compared; 256 cost as much as a place. */
static void count_similar(struct needles *needles, size_t n)
{
	size_t cost = 1 + n / 256;

	needles->left -= needles->left > cost ? cost : needles->left;
}

/* Bytes of the base64 of a secret at @text, or 0. It is in base64 behind @shift bytes of something else, as
 * in "USER:PASSWORD"; a letter at each end belongs to both. */
static size_t match_shifted(struct needles *needles, const struct needle *needle, size_t shift,
			    const char *text)
{
	char encoded[BASE64_SIZE(ENCODED_MAX + SHIFTS - 1)];
	size_t at = 0, n, end;

	while (at < CUT_MIN && usual(text[at]) == needle->encoded[shift][at])
		at++;
	if (at < CUT_MIN) /* nearly everywhere */
		return 0;
	count_similar(needles, 0);
	n = strnlen(needle->secret, ENCODED_MAX);
	end = (shift + n) * 8 / 6 - first_letter[shift];
	encode(needle->secret, n, shift, encoded);
	while (at < end && usual(text[at]) == encoded[first_letter[shift] + at])
		at++;
	if (at < end && (text[at] != '\0' || at < ANYWHERE_MIN))
		return 0;
	while (at < READ_MAX && (is_word(text[at]) || (text[at] != '\0' && strchr("+/-_=", text[at]))))
		at++; /* to its end */
	return at;
}

static size_t match_base64(struct needles *needles, const struct needle *needle, const char *text)
{
	size_t n = 0;

	for (size_t shift = 0; shift < SHIFTS && needle->is_long && n == 0; shift++)
		n = match_shifted(needles, needle, shift, text);
	return n;
}

/* Returns the number of bytes of @secret found at @at in @text, or 0. Never reads to the end of @text, which
 * may have megabytes, for each place and secret. */
static size_t match(struct needles *needles, const char *secret, const char *text, size_t at)
{
	const char *here = text + at;
	size_t n = 0;

	while (secret[n] != '\0' && here[n] == secret[n])
		n++;
	if (n >= CUT_MIN)
		count_similar(needles, n);
	if (secret[n] != '\0') /* the end may have been cut off */
		return here[n] == '\0' && n >= CUT_MIN ? n : 0;
	if (n >= ANYWHERE_MIN)
		return n;
	if ((at > 0 && is_word(text[at - 1])) || is_word(here[n]))
		return 0;
	return n;
}

static size_t longest(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* Returns the length of the longest secret found at @at in @text, or 0. All base64 ends at the same place. */
static size_t match_any(struct needles *needles, const char *text, size_t at)
{
	size_t encoded = 0, plain = 0;

	for (size_t i = 0; i < needles->n; i++) {
		const struct needle *needle = &needles->list[i];

		if (encoded == 0)
			encoded = match_base64(needles, needle, text + at);
		plain = longest(plain, match(needles, needle->secret, text, at));
	}
	return longest(encoded, plain);
}

void csi_redact(const ProtobufCMessage *request, const char *text, char *ret, size_t size)
{
	struct needles needles = {.left = SIMILAR_MAX};
	size_t len = 0;
	size_t at = 0;

	needles_take(&needles, request);
	while (at < READ_MAX && text[at] != '\0' && needles.left > 0) {
		size_t secret = match_any(&needles, text, at);
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
