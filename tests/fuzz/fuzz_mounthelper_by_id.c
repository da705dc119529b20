/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a link in /dev/disk/by-id. Its device is opened below /dev, so it must be one plain name. */

#include "source.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *target = malloc(size + 1); /* exactly as long: a read beyond is seen */
	char name[DEVICE_NAME_SIZE];

	if (!target)
		return 0;
	memcpy(target, data, size);
	target[size] = '\0';
	if (by_id_target(target, name) == 0) {
		assert(strnlen(name, sizeof(name)) < sizeof(name) && name[0] != '\0');
		assert(strncmp(target, "../../", strlen("../../")) == 0);
		assert(strcmp(name, target + strlen("../../")) == 0);
		assert(strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == strlen(name));
	}
	free(target);
	return 0;
}
