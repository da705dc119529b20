/* SPDX-License-Identifier: Apache-2.0 */
#define OPENSSL_SUPPRESS_DEPRECATED /* digest_of() */
#include "model/volume.h"

#include "base/cleanup.h"
#include "base/id.h"
#include "base/join.h"
#include "base/str.h"

#include <inttypes.h>
#include <openssl/sha.h>
#include <string.h>

const char *namespace_or_default(const char *namespace)
{
	return namespace[0] != '\0' ? namespace : NAMESPACE_DEFAULT;
}

const char *namespace_if_other(const char *namespace)
{
	return str_eq(namespace, NAMESPACE_DEFAULT) ? "" : namespace;
}

void volume_default(struct volume *volume)
{
	if (volume->namespace[0] == '\0')
		(void)str_copy(volume->namespace, sizeof(volume->namespace), NAMESPACE_DEFAULT);
	if (volume->name[0] == '\0')
		(void)str_copy(volume->name, sizeof(volume->name), volume->id);
	if (volume->external_id[0] == '\0')
		(void)str_copy(volume->external_id, sizeof(volume->external_id), volume->id);
	if (volume->type == VOLUME_NATIVE && volume->plugin_id[0] == '\0')
		(void)str_copy(volume->plugin_id, sizeof(volume->plugin_id), PLUGIN_NATIVE);
	/* a host volume is its own profile */
	if (volume->source.class == SOURCE_BIND && volume->profile[0] == '\0')
		(void)str_copy(volume->profile, sizeof(volume->profile), volume->source.host_volume);
	source_default(&volume->source);
}

static enum status validate_native(const struct volume *volume, struct error *err)
{
	if (!str_eq(volume->plugin_id, PLUGIN_NATIVE))
		return error_invalid(err, "plugin_id",
				     "a native volume has plugin_id \"" PLUGIN_NATIVE
				     "\" or missing, not '%.64s'",
				     volume->plugin_id);
	if (!id_is_label(volume->profile))
		return error_invalid(err, "profile",
				     "a native volume needs the name of a profile of the helpers' policies "
				     "(a-z 0-9 and -, up to 63), not '%.64s'",
				     volume->profile);
	if (volume->source.class == SOURCE_BIND && !str_eq(volume->profile, volume->source.host_volume))
		return error_invalid(
			err, "profile",
			"a bind volume has its host volume '%s' as profile, or no profile, not '%s'",
			volume->source.host_volume, volume->profile);
	return source_validate(&volume->source, err);
}

static enum status validate_csi(const struct volume *volume, struct error *err)
{
	static const struct source none;

	if (!id_is_plugin(volume->plugin_id) || str_eq(volume->plugin_id, PLUGIN_NATIVE))
		return error_invalid(
			err, "plugin_id",
			"a csi volume needs the id of its plugin (1 to %d of a-z 0-9 - and, inside, dots, "
			"not "
			"\"" PLUGIN_NATIVE "\"), not '%.64s': it is the name of the plugin's folder and of "
			"its profile in the mount helpers' policies too; holdfast plugin status lists them",
			PLUGIN_ID_MAX, volume->plugin_id);
	if (volume->profile[0] != '\0')
		return error_invalid(err, "profile",
				     "is for native volumes; a csi volume is mounted by its plugin");
	if (!source_eq(&volume->source, &none))
		return error_invalid(err, "source",
				     "is for native volumes; a csi volume is named by its external_id");
	return STATUS_OK;
}

static enum status validate_texts(const struct volume *volume, struct error *err)
{
	if (!str_is_text(volume->name))
		return error_invalid(err, "name", "not text (UTF-8 without control characters)");
	if (!str_is_text(volume->external_id))
		return error_invalid(err, "external_id", "not text (UTF-8 without control characters)");
	return STATUS_OK;
}

static enum status validate_capability(enum volume_type type, const struct capability *c, uint32_t i,
				       struct error *err)
{
	char field[ERROR_FIELD_SIZE];
	bool has_mode = c->access_mode != ACCESS_MODE_UNSPECIFIED;

	(void)str_format(field, sizeof(field), "capability[%" PRIu32 "].%s", i,
			 has_mode ? "attachment_mode" : "access_mode");
	if (!has_mode || c->attachment_mode == ATTACHMENT_MODE_UNSPECIFIED)
		return error_invalid(err, field, "it is missing");
	if (type == VOLUME_NATIVE && c->attachment_mode != ATTACHMENT_FILE_SYSTEM)
		return error_invalid(err, field, "a native volume is attached as \"file-system\" only");
	return STATUS_OK;
}

static enum status validate_capabilities(const struct volume *volume, struct error *err)
{
	enum status status = STATUS_OK;

	if (volume->n_capabilities == 0)
		return error_invalid(err, "capability",
				     "at least one block with access_mode and attachment_mode is needed");
	for (uint32_t i = 0; i < volume->n_capabilities; i++) {
		const struct capability *c = &volume->capabilities[i];
		struct error one;

		status = error_collect(status, validate_capability(volume->type, c, i, &one), &one, err);
	}
	return status;
}

bool volume_id_is_valid(const char *id)
{
	const char *bracket = strchr(id, '[');
	size_t n = bracket ? strspn(bracket + 1, "0123456789") : 0;
	char name[VOLUME_ID_MAX + 1];

	if (!bracket)
		return id_is_name(id, VOLUME_ID_MAX);
	if (n == 0 || !str_eq(bracket + 1 + n, "]") || (n > 1 && bracket[1] == '0') ||
	    str_format(name, sizeof(name), "%.*s", (int)(bracket - id), id) < 0)
		return false;
	return id_is_name(name, VOLUME_ID_MAX);
}

static enum status validate_id(const struct volume *volume, struct error *err)
{
	if (volume_id_is_valid(volume->id))
		return STATUS_OK;
	return error_invalid(err, "id",
			     "'%.64s' is not a volume id (A-Z a-z 0-9 _ and -, up to %d, beginning with a "
			     "letter or digit; of one member of a job with its index behind: db[0])",
			     volume->id, VOLUME_ID_MAX);
}

static enum status validate_namespace(const struct volume *volume, struct error *err)
{
	if (id_is_name(volume->namespace, NAMESPACE_MAX))
		return STATUS_OK;
	return error_invalid(err, "namespace", "'%.64s' is not a namespace (A-Z a-z 0-9 _ and -, up to %d)",
			     volume->namespace, NAMESPACE_MAX);
}

static enum status validate_type(const struct volume *volume, struct error *err)
{
	switch (volume->type) {
	case VOLUME_NATIVE:
		return validate_native(volume, err);
	case VOLUME_CSI:
		return validate_csi(volume, err);
	case VOLUME_TYPE_UNSPECIFIED:
	case VOLUME_TYPE_N:
		break;
	}
	return error_invalid(err, "type", "use \"native\" or \"csi\"");
}

enum status volume_validate(const struct volume *volume, struct error *err)
{
	static enum status (*const checks[])(const struct volume *volume, struct error *err) = {
		validate_id, validate_namespace, validate_type, validate_texts, validate_capabilities,
	};
	enum status status = STATUS_OK;
	struct error all = {.msg = ""};

	for (size_t i = 0; i < ARRAY_SIZE(checks); i++) {
		struct error one;

		status = error_collect(status, checks[i](volume, &one), &one, &all);
	}
	if (status != STATUS_OK && err)
		*err = all;
	return status;
}

static bool capability_eq(const struct capability *a, const struct capability *b)
{
	return a->access_mode == b->access_mode && a->attachment_mode == b->attachment_mode;
}

bool volume_has_capability(const struct volume *volume, enum access_mode access,
			   enum attachment_mode attachment)
{
	const struct capability wanted = {.access_mode = access, .attachment_mode = attachment};

	for (uint32_t i = 0; i < volume->n_capabilities; i++)
		if (capability_eq(&volume->capabilities[i], &wanted))
			return true;
	return false;
}

bool volume_has_attachment(const struct volume *volume, enum attachment_mode attachment)
{
	for (uint32_t i = 0; i < volume->n_capabilities; i++)
		if (volume->capabilities[i].attachment_mode == attachment)
			return true;
	return false;
}

bool volume_is_placeholder(const struct volume *volume)
{
	return volume->n_capabilities == 0;
}

/* SHA256() looks the algorithm up each time, which takes several times as long as this digest. */
static void digest_of(const void *bytes, size_t n, unsigned char digest[static SHA256_DIGEST_LENGTH])
{
	SHA256_CTX ctx;

	(void)SHA256_Init(&ctx); /* these calls cannot fail */
	(void)SHA256_Update(&ctx, bytes, n);
	(void)SHA256_Final(digest, &ctx);
}

void volume_csi_to_wire(const char *external_id, const char *context_digest, struct mh_source *ret)
{
	bool has_context = context_digest[0] != '\0';
	SHA256_CTX ctx;

	*ret = (struct mh_source){.class = MH_CLASS_CSI};
	(void)SHA256_Init(&ctx);
	(void)SHA256_Update(&ctx, external_id, strlen(external_id) + has_context); /* with its end */
	(void)SHA256_Update(&ctx, context_digest, strlen(context_digest));
	(void)SHA256_Final(ret->u.csi.volume, &ctx);
}

enum status volume_source_digest(const struct volume *volume, uint8_t ret[static TICKET_DIGEST_SIZE],
				 struct error *err)
{
	struct mh_source source;

	if (volume->type == VOLUME_CSI)
		volume_csi_to_wire(volume->external_id, volume->context_digest, &source);
	else
		TRY(source_to_wire(&volume->source, &source, err));
	digest_of(&source, sizeof(source), ret);
	ticket_mark_digest(ret, volume->type == VOLUME_CSI);
	return STATUS_OK;
}

void volume_source_hex(const struct volume *volume, char ret[static VOLUME_SOURCE_HEX_SIZE])
{
	uint8_t digest[TICKET_DIGEST_SIZE];

	ret[0] = '\0';
	if (volume_source_digest(volume, digest, NULL) == STATUS_OK)
		hex_encode(ret, digest, sizeof(digest));
}

const char *volume_difference_to_claims(const struct volume *placeholder, const struct volume *b)
{
	const struct volume *a = placeholder;
	char source[VOLUME_SOURCE_HEX_SIZE];

	if (a->type != b->type)
		return "type";
	if (!str_eq(a->plugin_id, b->plugin_id))
		return "plugin_id";
	if (a->profile[0] != '\0' && !str_eq(a->profile, b->profile))
		return "profile";
	if (a->external_id[0] == '\0')
		return NULL;
	if (a->type == VOLUME_CSI)
		return str_eq(a->external_id, b->external_id) ? NULL : "external_id";
	volume_source_hex(b, source);
	return str_eq(a->external_id, source) ? NULL : "source";
}

static void fill_placeholder(struct volume *volume, const struct volume *from)
{
	memcpy(volume->name, from->name, sizeof(volume->name));
	memcpy(volume->external_id, from->external_id, sizeof(volume->external_id));
	memcpy(volume->profile, from->profile, sizeof(volume->profile));
	volume->source = from->source;
	volume->newer_from = 0; /* it is registered now, at its present generation */
}

/* The first immutable field in which the two differ, or NULL. */
static const char *immutable_difference(const struct volume *a, const struct volume *b)
{
	if (volume_is_placeholder(a))
		return volume_difference_to_claims(a, b);
	if (a->type != b->type)
		return "type";
	if (!str_eq(a->plugin_id, b->plugin_id))
		return "plugin_id";
	if (!str_eq(a->profile, b->profile))
		return "profile";
	if (!str_eq(a->name, b->name))
		return "name";
	if (!str_eq(a->external_id, b->external_id))
		return "external_id";
	if (!source_eq(&a->source, &b->source))
		return "source";
	return NULL;
}

static bool same_capabilities(const struct volume *a, const struct volume *b)
{
	if (a->n_capabilities != b->n_capabilities)
		return false;
	for (uint32_t i = 0; i < a->n_capabilities; i++)
		if (!capability_eq(&a->capabilities[i], &b->capabilities[i]))
			return false;
	return true;
}

enum status volume_merge(struct volume *current, const struct volume *update, const struct capability *in_use,
			 size_t n_in_use, bool *ret_changed, struct error *err)
{
	const char *field = immutable_difference(current, update);

	if (field)
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "%s: volume %s is registered with another one, which cannot be changed; "
				 "deregister it "
				 "first: holdfast volume deregister %s%s%s",
				 field, current->id, current->id, NAMESPACE_OPTION(current->namespace));
	for (size_t i = 0; i < n_in_use; i++)
		if (!volume_has_capability(update, in_use[i].access_mode, in_use[i].attachment_mode))
			return error_set(err, STATUS_FAILED_PRECONDITION, 0,
					 "capability: volume %s is in use as %s/%s, which cannot be taken "
					 "away before its "
					 "claims are released (holdfast volume status --why %s%s%s)",
					 current->id, access_mode_name(in_use[i].access_mode),
					 attachment_mode_name(in_use[i].attachment_mode), current->id,
					 NAMESPACE_OPTION(current->namespace));
	*ret_changed = !same_capabilities(current, update);
	if (volume_is_placeholder(current))
		fill_placeholder(current, update);
	memcpy(current->capabilities, update->capabilities, sizeof(current->capabilities));
	current->n_capabilities = update->n_capabilities;
	return STATUS_OK;
}

void volume_wire_name(const char *namespace, const char *id, char ret[static WIRE_VOLUME_SIZE])
{
	enum { READABLE_MAX = 40, HASH_BYTES = 8 };
	char text[NAMESPACE_MAX + VOLUME_ID_MAX + 2];
	unsigned char digest[SHA256_DIGEST_LENGTH];
	char hash[2 * HASH_BYTES + 1];
	char readable[READABLE_MAX + 1];
	size_t n = 0;
	int len = str_join(text, sizeof(text), namespace, "/", id);

	digest_of(text, len < 0 ? 0 : (size_t)len, digest);
	hex_encode(hash, digest, HASH_BYTES);
	for (const char *p = id; *p != '\0' && n < READABLE_MAX; p++) {
		if ((*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9'))
			readable[n++] = *p;
		else if (*p >= 'A' && *p <= 'Z')
			readable[n++] = (char)(*p - 'A' + 'a');
		else if (n > 0)
			readable[n++] = '-';
	}
	readable[n] = '\0';
	(void)str_join(ret, WIRE_VOLUME_SIZE, readable, n > 0 ? "-" : "", hash);
}
