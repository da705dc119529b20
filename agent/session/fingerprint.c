/* SPDX-License-Identifier: Apache-2.0 */
#include "session/fingerprint.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "model/message.h"
#include "model/pb.h"

#include <stdlib.h>
#include <string.h>

enum { HELPER_FAILURES_UNHEALTHY = 3 }; /* starts of the helper that fail in a row */

/* CSI profiles name what a plugin may do through the helper; the plugins themselves are fingerprinted apart.
 */
static bool is_native(const struct mount_snapshot_profile *profile)
{
	return profile->class != MH_CLASS_CSI;
}

static struct node_plugin native_of(const struct mount_snapshot_profile *profile,
				    const struct fingerprint_facts *facts)
{
	const struct helper_info *helper = facts->helper;
	bool is_down = !helper->is_running && helper->failures >= HELPER_FAILURES_UNHEALTHY;
	struct node_plugin plugin = {
		.plugin_id = PLUGIN_NATIVE,
		.class = (enum source_class)profile->class,
		.healthy = profile->is_available && !is_down,
		.provider = "holdfast-mounthelper",
	};

	(void)str_copy(plugin.profile, sizeof(plugin.profile), profile->name);
	(void)str_copy(plugin.provider_version, sizeof(plugin.provider_version), facts->agent_version);
	if (is_down)
		(void)str_copy(plugin.health_description, sizeof(plugin.health_description),
			       "the mount helper does not start; see: holdfast agent status");
	else if (!profile->is_available)
		(void)str_copy(plugin.health_description, sizeof(plugin.health_description),
			       "the kernel does not know the file system type, and found no module for it "
			       "when the mount helper started: install the module, then systemctl restart "
			       "holdfast-agent");
	return plugin;
}

static bool add(Holdfast__V1__Fingerprint *fingerprint, const struct node_plugin *plugin)
{
	Holdfast__V1__NodePlugin *pb = node_plugin_to_pb(plugin);

	if (pb)
		fingerprint->plugins[fingerprint->n_plugins++] = pb;
	return pb != NULL;
}

static bool add_csi(Holdfast__V1__Fingerprint *fingerprint, const struct plugins *plugins)
{
	cleanup_free struct node_plugin *list = calloc(PLUGINS_MAX, sizeof(*list));
	size_t n;

	_Static_assert((int)PLUGINS_MAX < (int)NODE_PLUGINS_MAX, "there is room for profiles");
	if (!list)
		return false;
	n = plugins_fingerprint(plugins, list, PLUGINS_MAX);
	for (size_t i = 0; i < n; i++) {
		if (!add(fingerprint, &list[i]))
			return false;
	}
	return true;
}

static bool add_native(Holdfast__V1__Fingerprint *fingerprint, const struct fingerprint_facts *facts)
{
	const struct mount_snapshot *observed = facts->observed;

	for (size_t i = 0; observed && i < observed->n_profiles && fingerprint->n_plugins < NODE_PLUGINS_MAX;
	     i++) {
		struct node_plugin plugin = native_of(&observed->profiles[i], facts);

		if (is_native(&observed->profiles[i]) && !add(fingerprint, &plugin))
			return false;
	}
	return true;
}

static void *copy_of(const ProtobufCMessage *message)
{
	return message ? message_convert(message->descriptor, message) : NULL;
}

/* Adds a driver, with its own report unchanged. */
static bool add_driver(Holdfast__V1__Fingerprint *fingerprint, const struct driver_info *info)
{
	Holdfast__V1__NodeDriver reported = HOLDFAST__V1__NODE_DRIVER__INIT;
	Holdfast__V1__NodeDriver *driver;

	reported.name = (char *)(uintptr_t)info->name;
	reported.healthy = info->is_healthy;
	reported.health_description = (char *)(uintptr_t)info->reason;
	reported.capabilities = (void *)(uintptr_t)info->capabilities;
	reported.fingerprint = (void *)(uintptr_t)info->fingerprint;
	reported.schema = (void *)(uintptr_t)info->schema;
	driver = copy_of(&reported.base);
	if (driver)
		fingerprint->drivers[fingerprint->n_drivers++] = driver;
	return driver != NULL;
}

static bool add_drivers(Holdfast__V1__Fingerprint *fingerprint, const struct drivers *drivers)
{
	struct driver_info list[DRIVERS_MAX];
	size_t n = drivers ? drivers_list(drivers, list, DRIVERS_MAX) : 0;

	fingerprint->drivers = calloc(DRIVERS_MAX, sizeof(void *));
	if (!fingerprint->drivers)
		return false;
	for (size_t i = 0; i < n; i++)
		if (!add_driver(fingerprint, &list[i]))
			return false;
	return true;
}

/* Whose tickets the helper takes. */
static bool add_keys(Holdfast__V1__Fingerprint *fingerprint, const struct helper_info *helper)
{
	static const uint8_t none[TICKET_KEY_ID_SIZE];
	ProtobufCBinaryData *keys = &fingerprint->ticket_keys;

	if (helper->ticket_optional)
		return true;
	keys->data = malloc(sizeof(helper->ticket_keys));
	for (size_t i = 0; keys->data && i < MH_KEYS_MAX; i++) {
		if (memcmp(helper->ticket_keys[i], none, sizeof(none)) == 0)
			continue;
		memcpy(keys->data + keys->len, helper->ticket_keys[i], sizeof(none));
		keys->len += sizeof(none);
	}
	return keys->data != NULL;
}

/* Without a path while there is room. */
static bool add_disk(Holdfast__V1__Fingerprint *fingerprint, const struct fingerprint_facts *facts)
{
	if (facts->disk == NODE_DISK_ROOM)
		return true;
	fingerprint->disk_trouble = strdup(node_disk_word(facts->disk));
	fingerprint->disk_path = strdup(facts->disk_path);
	return fingerprint->disk_trouble && fingerprint->disk_path;
}

static bool add_issuer(Holdfast__V1__Fingerprint *fingerprint, const struct fingerprint_facts *facts)
{
	if (facts->certificate_issuer[0] == '\0')
		return true;
	fingerprint->certificate_issuer = strdup(facts->certificate_issuer);
	return fingerprint->certificate_issuer != NULL;
}

Holdfast__V1__Fingerprint *fingerprint_make(const struct fingerprint_facts *facts)
{
	Holdfast__V1__Fingerprint *fingerprint = malloc(sizeof(*fingerprint));

	if (!fingerprint)
		return NULL;
	holdfast__v1__fingerprint__init(fingerprint);
	fingerprint->plugins = calloc(NODE_PLUGINS_MAX, sizeof(void *));
	if (fingerprint->plugins && add_csi(fingerprint, facts->plugins) && add_native(fingerprint, facts) &&
	    add_keys(fingerprint, facts->helper) && add_drivers(fingerprint, facts->drivers) &&
	    add_disk(fingerprint, facts) && add_issuer(fingerprint, facts))
		return fingerprint;
	protobuf_c_message_free_unpacked(&fingerprint->base, NULL);
	return NULL;
}

static uint8_t *pack(const Holdfast__V1__Fingerprint *fingerprint, size_t *ret_n)
{
	uint8_t *bytes = malloc(holdfast__v1__fingerprint__get_packed_size(fingerprint) + 1);

	if (bytes)
		*ret_n = holdfast__v1__fingerprint__pack(fingerprint, bytes);
	return bytes;
}

bool fingerprint_has_changed(const struct fingerprint_sent *sent,
			     const Holdfast__V1__Fingerprint *fingerprint)
{
	size_t n = 0;
	cleanup_free uint8_t *bytes = pack(fingerprint, &n);

	return !sent->is_sent || !bytes || n != sent->n || memcmp(bytes, sent->bytes, n) != 0;
}

void fingerprint_note(struct fingerprint_sent *sent, const Holdfast__V1__Fingerprint *fingerprint)
{
	free(sent->bytes);
	sent->bytes = pack(fingerprint, &sent->n);
	sent->is_sent = sent->bytes != NULL;
}

void fingerprint_release(struct fingerprint_sent *sent)
{
	free(sent->bytes);
	*sent = (struct fingerprint_sent){0};
}
