/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A file that is worth nothing before it is complete, and may hold secrets. */

/** At SIGHUP, SIGINT and SIGTERM, which end the command as before, the file at @path is removed. A signal
 * that is ignored stays so. @path borrowed until the command ends */
void unfinished_remove_at_signal(const char *path);
