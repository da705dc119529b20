#include "outcome.h"

#include <sys/statvfs.h>

struct outcome outcome_kernel(enum step step, int r)
{
	return (struct outcome){.status = MH_KERNEL, .step = step, .sys_errno = r};
}

struct outcome outcome_stop(enum mh_status status, enum step step, enum reason reason)
{
	return (struct outcome){.status = status, .step = step, .reason = reason};
}

uint16_t outcome_state(uint16_t state, int64_t f_flags)
{
	unsigned int bits = state;

	bits |= (f_flags & ST_RDONLY) != 0 ? MH_STATE_READ_ONLY : 0U;
	bits |= (f_flags & ST_NOEXEC) == 0 ? MH_STATE_EXEC : 0U;
	return (uint16_t)bits;
}
