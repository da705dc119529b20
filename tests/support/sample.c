/* SPDX-License-Identifier: Apache-2.0 */
/* Which places of a sweep this run visits. */
#include "sample.h"

#include "base/parse.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { PARTS_MAX = 1000 };

int sample_parse(const char *text, struct sample *ret)
{
	uint64_t part;
	uint32_t parts;
	int r = parse_digits(&text, &part);

	if (r == 0)
		r = *text == '/' ? parse_u32(text + 1, 1, PARTS_MAX, &parts) : -EINVAL;
	if (r == 0)
		*ret = (struct sample){.part = (uint32_t)(part % parts), .parts = parts};
	return r;
}

struct sample sample_of_environment(void)
{
	const char *text = getenv("HOLDFAST_SAMPLE");
	struct sample sample = {.part = 0, .parts = 1};

	if (text && sample_parse(text, &sample) < 0) {
		(void)fprintf(stderr, "cannot read HOLDFAST_SAMPLE=%s: it must be K/N, for example 2/4\n",
			      text);
		exit(2);
	}
	(void)printf("sample %u/%u of the places (HOLDFAST_SAMPLE)\n", sample.part, sample.parts);
	return sample;
}

bool sample_has(const struct sample *sample, uint64_t place)
{
	return place % sample->parts == sample->part;
}
