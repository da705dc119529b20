/* SPDX-License-Identifier: Apache-2.0 */
#include "outcome.h"

#include "privileged/place.h"

#include <assert.h>

struct outcome outcome_kernel(enum step step, int r)
{
	assert(r < 0);
	return (struct outcome){.status = MH_KERNEL, .step = step, .sys_errno = r};
}

struct outcome outcome_stop(enum mh_status status, enum step step, enum reason reason)
{
	assert(status != MH_KERNEL);
	return (struct outcome){.status = status, .step = step, .reason = reason};
}

struct outcome outcome_mounted(enum mh_status status, const struct place *place,
			       const struct mount_facts *facts, unsigned int state)
{
	assert(place->is_mount_root);
	state |= (facts->attributes & SYS_MOUNT_ATTR_RDONLY) != 0 ? MH_STATE_READ_ONLY : 0U;
	state |= (facts->attributes & SYS_MOUNT_ATTR_NOEXEC) == 0 ? MH_STATE_EXEC : 0U;
	return (struct outcome){.status = status,
				.state = (uint16_t)state,
				.dev_major = place->dev_major,
				.dev_minor = place->dev_minor};
}
