/* SPDX-License-Identifier: Apache-2.0 */
#include "base/folder.h"

#include "base/str.h"

#include <errno.h>

int folder_next(DIR *folder, const struct dirent **ret)
{
	do {
		errno = 0;
		*ret = readdir(folder); // NOLINT(concurrency-mt-unsafe): a stream of one thread
	} while (*ret && (str_eq((*ret)->d_name, ".") || str_eq((*ret)->d_name, "..")));
	return *ret ? 1 : -errno;
}
