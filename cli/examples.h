/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Examples of volume files for a person to change; each is a valid specification as it is. */

extern const char example_csi[];
extern const char example_native[];
