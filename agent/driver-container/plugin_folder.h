/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The folder of a CSI plugin's socket, PLUGIN_DIR/ID, for a task that is the plugin. */

#include "base/error.h"

/** Makes the folder unless it exists, and removes the socket @socket if no process listens on it.
 * STATUS_FAILED_PRECONDITION when a process does. */
enum status plugin_folder_make(const char *plugin_dir, const char *id, const char *socket, struct error *err);

/** Is @path, the program that a plugin's container begins with, there? Engines make a folder at the path of a
 * bind mount that is missing, and then report of the container only that permission is denied. */
enum status plugin_program_check(const char *path, struct error *err);

/** Removes @socket, unless a process listens on it; the folder stays. A missing socket is no error. */
enum status plugin_folder_clear(const char *plugin_dir, const char *id, const char *socket,
				struct error *err);
