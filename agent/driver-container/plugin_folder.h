/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The folder of a CSI plugin's socket, PLUGIN_DIR/ID, for a task that is the plugin. */

#include "base/error.h"

/** Make the folder unless it is there, and take away a socket called @socket on which nobody listens.
 * STATUS_FAILED_PRECONDITION when a process does. */
enum status plugin_folder_make(const char *plugin_dir, const char *id, const char *socket, struct error *err);

/** Take away @socket, unless a process listens on it; the folder stays. What is not there is no error. */
enum status plugin_folder_clear(const char *plugin_dir, const char *id, const char *socket,
				struct error *err);
