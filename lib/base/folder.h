/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Entries of a folder. */

#include <dirent.h>

/** As readdir(3), but a failure is not the end of the folder. Skips "." and "..".
 *
 * @ret valid until the next call; NULL unless 1 is returned
 * Returns 1, 0 at the end, or a negative errno. */
int folder_next(DIR *folder, const struct dirent **ret);
