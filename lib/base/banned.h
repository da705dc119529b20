/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Calls that cannot be used safely fail to compile (as git's banned.h does). Include last. */

#pragma GCC poison strcpy strcat strncpy strncat strtok sprintf vsprintf gets atoi atol atoll system popen \
	alloca
