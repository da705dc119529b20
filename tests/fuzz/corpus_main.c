/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a fuzz target once on each file of a folder, without libFuzzer. Each file is a case and printed as
 * cmocka prints cases. A file that fails ends the program: the case that began last names it. */

#include <dirent.h>
#include <err.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerInitialize(int *argc, char ***argv) __attribute__((weak));

static int is_file(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

/* Gives the target the file in memory of exactly its size, so that a read past the end is reported. */
static void run(const char *folder, const char *name)
{
	char path[4096];
	uint8_t *data;
	FILE *file;
	long n;

	(void)snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "re");
	if (!file || fseek(file, 0, SEEK_END) < 0 || (n = ftell(file)) < 0)
		err(1, "%s", path);
	rewind(file);
	data = malloc((size_t)n);
	if ((!data && n > 0) || fread(data, 1, (size_t)n, file) != (size_t)n)
		err(1, "%s", path);
	(void)fclose(file);
	printf("[ RUN      ] %s\n", name);
	(void)fflush(stdout); /* before the target may abort */
	(void)LLVMFuzzerTestOneInput(data, (size_t)n);
	printf("[       OK ] %s\n", name);
	free(data);
}

int main(int argc, char **argv)
{
	struct dirent **entries;
	int n;

	if (argc != 2)
		errx(2, "usage: %s FOLDER", argv[0]);
	if (LLVMFuzzerInitialize)
		(void)LLVMFuzzerInitialize(&argc, &argv);
	n = scandir(argv[1], &entries, is_file, alphasort);
	if (n < 0)
		err(1, "%s", argv[1]);
	if (n == 0)
		errx(1, "%s has no files", argv[1]);
	for (int i = 0; i < n; i++) {
		run(argv[1], entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	return 0;
}
