/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* cmocka.h with the headers that it expects before itself. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

/* keep: cmocka.h comes last */
#include <cmocka.h>
