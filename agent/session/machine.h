/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Identifies this machine, so that the server can detect a clone, by digests that only this cluster uses. */

#include "model/node.h"

/** From /etc/machine-id and, where it can be read, the hardware's or hypervisor's UUID: the one that systemd
 * hands over as a credential, since only root reads the firmware's. Empty: there is no machine-id. */
void machine_read(const char *cluster, char ret[static NODE_MACHINE_MAX + 1]);
