/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A temporary directory of a test. */

enum { TEMP_DIR_SIZE = 64, TEMP_PATH_SIZE = 384 };

/** Make an empty directory and write its path into @dir; a failure fails the test. */
void temp_dir_make(char dir[static TEMP_DIR_SIZE]);

/** Remove @dir with the files and empty directories in it. */
void temp_dir_remove(const char *dir);

/** Write "<dir>/<name>" into @path; returns @path. */
char *temp_dir_path(char path[static TEMP_PATH_SIZE], const char *dir, const char *name);
