/* SPDX-License-Identifier: Apache-2.0 */
/* Visits each mount of the table. A file of its own, because the mount helper does not use it. */
#include "base/mountinfo.h"

int mountinfo_each(struct mountinfo *mi, mount_visit_fn *visit, void *userdata)
{
	struct mount_entry entry;
	int r;

	mountinfo_rewind(mi);
	while ((r = mountinfo_next(mi, &entry)) > 0) {
		r = visit(&entry, userdata);
		if (r != 0)
			return r;
	}
	return r;
}
