/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Converts between Holdfast's nouns and CSI's messages. Pure.
 *
 * The result of borrow_* points into its source and is never freed as a message; the caller owns the storage
 * that it needs. */

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

/** Fills @ret, which must stay where it is, for a volume of these modes.
 * @options borrowed; NULL: no options. Only for ATTACHMENT_FILE_SYSTEM */
void csi_borrow_capability(enum access_mode access_mode, enum attachment_mode attachment_mode,
			   const Holdfast__V1__MountOptions *options, struct csi_capability *ret);

/** Replaces the single-node modes with a writer by SINGLE_NODE_WRITER, the only one known to a service that
 * does not announce SINGLE_NODE_MULTI_WRITER. The claims decide which allocations share the volume. */
void csi_capability_coarsen(struct csi_capability *capability);

/* Capabilities in one answer, and flags in one capability, that are compared. */
enum { CSI_CONFIRMED_MAX = 128 };

/** Returns whether @confirmed includes @wanted: same access mode and type, its file system type, all its
 * flags, of which it has at most CSI_CONFIRMED_MAX. A missing field counts as confirmed. Source: nomad-facts
 * 6 "Validation compare". */
bool csi_capability_confirms(const Csi__V1__VolumeCapability *confirmed,
			     const Csi__V1__VolumeCapability *wanted);

/** false: a segment is too long, or there are too many; @ret untouched. NULL as @pb is valid: no topology. */
bool csi_topology_from(const Csi__V1__Topology *pb, struct topology *ret);
