/* SPDX-License-Identifier: Apache-2.0 */
/* Filter expressions of lists: parsed, and asked of an empty message and of one that the input's tail makes.
 */

#include "model/filter.h"

#include <holdfast/v1/types.pb-c.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The expression ends at the first NUL; behind it stands a packed Volume. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = memchr(data, '\0', size);
	size_t len = end ? (size_t)(end - data) : size;
	Holdfast__V1__Volume none = HOLDFAST__V1__VOLUME__INIT;
	Holdfast__V1__Volume *volume = NULL;
	struct filter *filter = NULL;
	char *text = malloc(len + 1); /* so that reading past it is seen */

	if (!text)
		return 0;
	if (len > 0)
		memcpy(text, data, len);
	text[len] = '\0';
	if (filter_new(text, &holdfast__v1__volume__descriptor, &filter, NULL) == STATUS_OK) {
		(void)filter_matches(filter, &none.base);
		if (end)
			volume = holdfast__v1__volume__unpack(NULL, size - len - 1, end + 1);
		if (volume)
			(void)filter_matches(filter, &volume->base);
	}
	if (volume)
		holdfast__v1__volume__free_unpacked(volume, NULL);
	filter_free(filter);
	free(text);
	return 0;
}
