/* SPDX-License-Identifier: Apache-2.0 */
#include "model/reference.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <stddef.h>

static const char *const names[] = {
	"NOMAD_ALLOC_ID",  "NOMAD_ALLOC_INDEX", "NOMAD_ALLOC_NAME", "NOMAD_GROUP_NAME",
	"NOMAD_JOB_ID",	   "NOMAD_JOB_NAME",	"NOMAD_NAMESPACE",  "NOMAD_SHORT_ALLOC_ID",
	"NOMAD_TASK_NAME", "node.unique.id",	"node.unique.name",
};

bool reference_is_known(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (str_eq(names[i], name))
			return true;
	return false;
}
