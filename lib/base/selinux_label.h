/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* In which SELinux domain does this process run, and should it be another one? Without libselinux. */

#include "base/error.h"

enum { SELINUX_LABEL_MAX = 255 };

/** Reads the kernel's mode from @enforce_path, which is missing without SELinux, and this process's context
 * from @current_path, as the kernel writes them.
 *
 * Returns 1 when SELinux is enforcing and the type of the context is not @type, with the context in @ret;
 * 0 when all is well or nothing is enforced; a negative errno when the kernel's files cannot be read. */
int selinux_label_is_wrong(const char *enforce_path, const char *current_path, const char *type,
			   char ret[static SELINUX_LABEL_MAX + 1]);

/** The same with the kernel's own files. */
int selinux_label_is_wrong_here(const char *type, char ret[static SELINUX_LABEL_MAX + 1]);

/** Explains to an operator that @program runs as @context instead of in the domain @type, and the command
 * against it. Returns STATUS_FAILED_PRECONDITION. */
enum status selinux_label_error(const char *program, const char *type, const char *context,
				struct error *err);

/** selinux_label_error() when SELinux is enforcing and this process is not in the domain @type, else
 * STATUS_OK. */
enum status selinux_label_check(const char *type, struct error *err);
