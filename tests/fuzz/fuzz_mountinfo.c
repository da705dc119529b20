/* SPDX-License-Identifier: Apache-2.0 */
/* A line of the mount table: names in it come from whoever could mount. */

#include "base/mountinfo.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *line = malloc(size + 1);
	struct mount_entry entry;

	if (!line)
		return 0;
	memcpy(line, data, size);
	line[size] = '\0';
	if (mountinfo_parse(line, &entry) == 0) {
		const char *const strings[] = {entry.root, entry.point,	 entry.options,
					       entry.type, entry.source, entry.super_options};

		for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++)
			assert(strings[i] >= line && strings[i] + strlen(strings[i]) <= line + size);
		(void)mount_option_is_set(entry.options, "ro");
	}
	free(line);
	return 0;
}
