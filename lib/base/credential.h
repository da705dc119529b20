/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Credentials of a service: files that the service manager hands only to this unit. Source: systemd.exec(5),
 * LoadCredential=. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

/** Path of the credential @name, if this process was given it. Returns 0; -ENOENT when it was not, or when
 * it has no credentials at all; -ENAMETOOLONG. @ret untouched on failure. */
int credential_path(const char *name, char *ret, size_t size);

/** Returns the path of a secret: @path, if that is not empty; else the credential @name, if this process
 * was given it; else @fallback, which fits @path. True: it is the fallback. */
bool credential_choose(const char *name, const char *fallback, char *path, size_t size);

/** Is @path one of this process's credentials? They are those of its start for as long as it runs. */
bool credential_is_one(const char *path);

/** Can the file of a secret at @path be read only by its owner? A credential of this process may also be
 * root's with an access list, which the service manager makes where it can. */
bool credential_is_private(const char *path, const struct stat *st);
