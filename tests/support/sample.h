/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Sweeps visit every place by default, which takes minutes. HOLDFAST_SAMPLE=K/N makes them visit the places
 * of one of N parts: place % N == K % N. ./dev sets N to 4 and K to the number of commits, so four commits
 * visit every place. Unset or 1/1: every place. sample.py is the same for Python. */

#include <stdbool.h>
#include <stdint.h>

struct sample {
	uint32_t part; /* below parts */
	uint32_t parts;
};

/** Parse "K/N": N from 1 to 1000. Returns 0 or a negative errno. */
int sample_parse(const char *text, struct sample *ret);

/** The sample of the environment, printed to standard output. Exits with a message if it is invalid. */
struct sample sample_of_environment(void);

bool sample_has(const struct sample *sample, uint64_t place);
