/* SPDX-License-Identifier: Apache-2.0 */
/* Linked into the programs of UNIT_REAL_TIME: unit_clock.c leaves the clock alone. */
#include "unit_clock.h"

const bool unit_is_real_time = true;
