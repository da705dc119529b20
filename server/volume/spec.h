/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What a registration or creation comes to, against what is stored now. */

#include "model/volume_detail.h"
#include "state/state.h"

#include <stdbool.h>

struct server;

struct volume_spec {
	struct volume_parts parts; /* as they are to be stored */
	bool is_new;
	bool changed; /* differs from what is stored */
	bool resized; /* asks for another size than before */
};

#define VOLUME_SPEC_INIT                    \
	{                                   \
		.parts = VOLUME_PARTS_INIT, \
	}

void volume_spec_release(struct volume_spec *spec);

/** Check what a caller gave, as volume_parts_from_pb() made it, and merge it with what is stored under its
 * id.
 * @is_creation its provider is to make it: then it has no external id yet. @ret to be released. */
enum status volume_spec_prepare(struct server *server, const struct volume_parts *given, bool is_creation,
				struct volume_spec *ret, struct error *err);
