/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Reports the plugins and task drivers of this node to the server: the mount helper's own profiles, the CSI
 * plugins. Sent in the hello of each session, and again in it after each change. */

#include "driver/drivers.h"
#include "helper/client.h"
#include "helper/mount_snapshot.h"
#include "model/node.h"
#include "plugins/plugins.h"

#include <holdfast/v1/nodes.pb-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fingerprint_facts {
	const char *agent_version;
	const struct helper_info *helper;
	const struct mount_snapshot *observed; /* NULL: not read yet */
	const struct plugins *plugins;
	const struct drivers *drivers; /* of tasks */
	enum node_disk disk;	       /* trouble of the journal's */
	const char *disk_path;
	const char *certificate_issuer; /* of the certificate in use; "": not known */
};

/** At most NODE_PLUGINS_MAX entries; CSI plugins come first, since policies may have more profiles than that.
 * Returns what protobuf_c_message_free_unpacked() frees; NULL when memory is short. */
Holdfast__V1__Fingerprint *fingerprint_make(const struct fingerprint_facts *facts);

/* The last fingerprint sent to the server. */
struct fingerprint_sent {
	uint8_t *bytes; /* owned */
	size_t n;
	bool is_sent;
};

/** Has it changed? */
bool fingerprint_has_changed(const struct fingerprint_sent *sent,
			     const Holdfast__V1__Fingerprint *fingerprint);

/** It is sent. When memory is short it is a change again. */
void fingerprint_note(struct fingerprint_sent *sent, const Holdfast__V1__Fingerprint *fingerprint);

void fingerprint_release(struct fingerprint_sent *sent);
