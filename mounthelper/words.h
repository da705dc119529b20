/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The vocabulary of proto/mounthelper_words.h, as text. */

#include "mounthelper_wire.h"
#include "mounthelper_words.h"

/** Return the text in the trail; "invalid" for a value outside the enum. */
const char *step_word(enum step step);
const char *reason_word(enum reason reason);
const char *op_word(uint16_t op);
const char *status_word(enum mh_status status);
const char *propagation_word(uint8_t propagation);
