/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The disk under sqlite, for a test: counts what waits for it, holds it up, or lets it fail. sqlite's calls
 * of fdatasync(2) come here, as do the program's own. */

#include <stdbool.h>

/** Only of files whose path ends so are waits held, failed and counted; NULL: of none. */
void disk_sync_watch(const char *suffix);
/** From here on a wait lasts until disk_sync_release(). */
void disk_sync_hold(void);
void disk_sync_release(void);
/** From here on each wait takes so long, at least. */
void disk_sync_delay(unsigned int ms);
/** Each wait ends with this errno; 0: it succeeds. */
void disk_sync_fail(int error);
/** Waits that have begun since disk_sync_watch(). */
unsigned int disk_sync_waits(void);
