/* SPDX-License-Identifier: Apache-2.0 */
/* The trail's reader and verifier: any bytes are judged, and a line that parses prints as JSON. */

#include "audit/trail.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
	struct trail_check check = TRAIL_CHECK_INIT(n % 2 == 0, NULL);
	char line[TRAIL_LINE_MAX + 1];
	struct trail_record record;
	bool is_complete;
	size_t length;
	FILE *file;

	if (n == 0)
		return 0;
	file = fmemopen((void *)(uintptr_t)data, n, "r");
	assert(file);
	while (trail_read_line(file, line, &length, &is_complete)) {
		trail_check_line(&check, line, length, is_complete);
		if (length <= TRAIL_LINE_MAX && trail_parse(line, &record))
			json_decref(trail_to_json(&record));
	}
	trail_check_end(&check);
	assert(check.records + check.torn <= check.lines);
	(void)fclose(file);
	return 0;
}
