/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* cmocka with the headers it needs, in the order it needs them. */

/* clang-format off */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

#include "base/cleanup.h"
