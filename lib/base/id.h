/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Grammars of names that become directory entries or record fields. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** `[a-z0-9][a-z0-9-]{0,62}`: no dots, so "." and ".." do not exist; no upper case, no escapes. */
bool id_is_label(const char *s);

/** A label whose characters but the first and the last may be dots too, each between two of `[a-z0-9]`: the
 * id of a CSI plugin, "csi.hetzner.cloud". So no directory entry is hidden, "." or "..". Every label is one.
 */
bool id_is_plugin(const char *s);

/** `[A-Za-z0-9][A-Za-z0-9_-]{0,max-1}`: what operators may call a volume, node or namespace. */
bool id_is_name(const char *s, size_t max);

enum { ID_UNIT_MAX = 255 }; /* systemd's UNIT_NAME_MAX - 1 */

/** The name of a service of systemd that can be started: "postgresql@15-main.service". Letters, digits and
 * `:-_.\`, with at most one part behind `@`, which is not empty: a template is no service. systemd.unit(5) */
bool id_is_service_unit(const char *s);

/** A lower-case UUID of 36 characters in the 8-4-4-4-12 form. */
bool id_is_uuid(const char *s);

enum { ID_UUID_BYTES = 16 };

/** Writes the bytes of such a UUID. False, and @ret untouched, for another text. RFC 9562, section 4 */
bool id_uuid_bytes(const char *s, uint8_t ret[static ID_UUID_BYTES]);
