/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The pause of a task between a step that failed in passing and the same step once more; nothing else of the
 * volume comes between. */

#include "base/error.h"

#include <stdbool.h>

struct volume_task;

/** May a mount still make a step again? Its patience counts from the first time that this is asked. */
bool volume_task_has_patience(struct volume_task *task);

/** Let the step be made again after a pause. */
void volume_task_pause(struct volume_task *task);

/** Is nothing under way for it but such a pause? */
bool volume_task_is_pausing(const struct volume_task *task);

/** Another instance of the helper works on the volume, which an agent before this one has asked, or which
 * hangs. A mount waits for its end, and finds what it did; an unmount begins anew, and looks at that, of
 * which the picture knows nothing. */
void volume_task_sent_away(struct volume_task *task, const struct error *why);
