#pragma once
/* Open what the serving phase needs, while this is still root: nothing can be opened afterwards. */

#include "helper.h"
#include "view.h"

#include "base/error.h"

/** Trees, /dev, /sys/fs and the mount table, as seen from the settled namespace. */
enum status setup_trees(struct helper *h, struct error *err);

/** Log, state file and an instance's place, below the root of PID 1's mount namespace. @ret_instance 0 to 7.
 */
enum status setup_trail(struct helper *h, int host_root_fd, uint32_t *ret_instance, struct error *err);

/** Ask the kernel for every file system type of the policy: the only moment when a module may be loaded. */
void setup_types(struct helper *h);
