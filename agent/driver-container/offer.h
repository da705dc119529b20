/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The offer of the driver: what it can do, without what root's file forbids. */

#include "settings.h"

#include <holdfast/driver/v1/driver.pb-c.h>

enum {
	OFFER_BYTES_MAX = 48 << 10, /* above it, the limits are left out */
	OFFER_LIMITS = 6,
	OFFER_PLUGIN_LIMITS = 3,
	OFFER_LISTED_MAX = 3 * SETTINGS_LIST_MAX + SETTINGS_CAPABILITIES_MAX + 8,
	OFFER_PLUGIN_LISTED_MAX = SETTINGS_PLUGIN_IMAGES_MAX + 2 * SETTINGS_CAPABILITIES_MAX + 1,
	OFFER_TEXTS_MAX = OFFER_LISTED_MAX + SETTINGS_PLUGINS_MAX * OFFER_PLUGIN_LISTED_MAX,
};

/* An answer with its parts. It borrows from the settings. */
struct offer {
	Holdfast__Driver__V1__CapabilitiesResponse response;
	Holdfast__Driver__V1__NetworkMode modes[3];
	Holdfast__Driver__V1__FieldLimit limits[OFFER_LIMITS + SETTINGS_PLUGINS_MAX * OFFER_PLUGIN_LIMITS];
	Holdfast__Driver__V1__FieldLimit
		*limit_list[OFFER_LIMITS + SETTINGS_PLUGINS_MAX * OFFER_PLUGIN_LIMITS];
	Holdfast__Driver__V1__PluginLimits plugins[SETTINGS_PLUGINS_MAX];
	Holdfast__Driver__V1__PluginLimits *plugin_list[SETTINGS_PLUGINS_MAX];
	char *texts[OFFER_TEXTS_MAX];
	size_t n_limits;
	size_t n_texts;
};

void offer_fill(struct offer *offer, const struct settings *settings);
