/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/mount_changes.h"

#include "base/clock.h"

#include <stdio.h>

char *mount_changes_text(const struct volume_op_info *info, bool is_release, const char *volume,
			 char dst[static ALLOC_DESCRIPTION_MAX + 1])
{
	const char *error = info->last_error[0] != '\0' ? info->last_error : NULL;
	char since[CLOCK_TEXT_SIZE], until[CLOCK_TEXT_SIZE], what[256];

	(void)clock_format(info->step_since_ms, since);
	if (info->call)
		(void)snprintf(what, sizeof(what), "plugin %s: %s, since %s, attempt %u%s", info->plugin_id,
			       info->call, since, info->attempts,
			       info->is_calling ? ", has not answered yet" : "");
	else if (info->plugin_id)
		(void)snprintf(what, sizeof(what), "waiting for plugin %s since %s", info->plugin_id, since);
	else
		(void)snprintf(what, sizeof(what), "at step '%s' since %s", info->step, since);
	/* cut at the end */
	(void)snprintf(dst, ALLOC_DESCRIPTION_MAX + 1, "%s %s: %s%s%s%s%s",
		       is_release ? "releasing volume" : "mounting volume", volume, what,
		       info->gives_up_ms ? "; given up at " : "",
		       info->gives_up_ms ? clock_format(info->gives_up_ms, until) : "",
		       error ? "; last error: " : "", error ? error : "");
	return dst;
}
