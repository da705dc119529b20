/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Commands of Nomad, kubectl and systemctl for those of Holdfast: "get volumes", "volume ls", "logs". */

/** Returns the path of the command that an alias at the beginning of @args names, or NULL. No alias destroys
 * data.
 * @ret_used length of the alias */
const char *alias_find(char *const *args, int n, int *ret_used);

/** Returns a hint for @args, or NULL. A hint is printed, not run. */
const char *alias_hint(char *const *args, int n);
