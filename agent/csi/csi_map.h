/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Between Holdfast's nouns and CSI's messages. Pure.
 *
 * What is called borrow_* points into what it is made of and is never to be freed as a message; the storage
 * it needs is the caller's. */

#include "base/error.h"
#include "model/modes.h"
#include "model/node.h"

#include <csi/v1/csi.pb-c.h>
#include <holdfast/v1/types.pb-c.h>
#include <stdbool.h>

/** CSI's number of a mode, UNKNOWN for ACCESS_MODE_UNSPECIFIED. */
Csi__V1__VolumeCapability__AccessMode__Mode csi_access_mode(enum access_mode mode);

/* One VolumeCapability with all that it consists of. */
struct csi_capability {
	Csi__V1__VolumeCapability pb;
	Csi__V1__VolumeCapability__AccessMode access_mode;
	Csi__V1__VolumeCapability__BlockVolume block;
	Csi__V1__VolumeCapability__MountVolume mount;
};

/** Fill @ret, which must stay where it is, for a volume of these modes.
 * @options borrowed; NULL: none. Only for ATTACHMENT_FILE_SYSTEM */
void csi_borrow_capability(enum access_mode access_mode, enum attachment_mode attachment_mode,
			   const Holdfast__V1__MountOptions *options, struct csi_capability *ret);

/** For a service that does not announce SINGLE_NODE_MULTI_WRITER: of the single-node modes with a writer it
 * knows SINGLE_NODE_WRITER alone. Who may share the volume is decided by its claims. */
void csi_capability_coarsen(struct csi_capability *capability);

/** Does @confirmed include @wanted: same access mode and type, its file system type, all its flags? What the
 * plugin does not say counts as confirmed. Source: nomad-facts 6 "Validation compare". */
bool csi_capability_confirms(const Csi__V1__VolumeCapability *confirmed,
			     const Csi__V1__VolumeCapability *wanted);

/** false: a segment is too long, or there are too many; @ret untouched. @pb NULL: none, which is right. */
bool csi_topology_from(const Csi__V1__Topology *pb, struct topology *ret);
