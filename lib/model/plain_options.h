/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Plugins hand file system types and mount flags to mount(8) and to other programs, as root. A caller who may
 * choose any of them reaches more than its volume: upperdir= of overlay is any folder of the plugin,
 * fuse.NAME runs a program, prefix= of an object store is another part of the storage. Plain ones name no
 * such thing. The right to submit work, or to make a volume, is enough to give them. */

#include <holdfast/v1/types.pb-c.h>
#include <stdbool.h>

/** Is it a file system of a disk or of a network, or empty (the plugin's choice)? */
bool fs_type_is_plain(const char *fs_type);

/** Has each part of @flag, which commas separate, a name of the table, and at most a number or a name as its
 * value? */
bool mount_flag_is_plain(const char *flag);

/** Are type and all flags plain? NULL: no options, which are plain. */
bool mount_options_are_plain(const Holdfast__V1__MountOptions *options);
