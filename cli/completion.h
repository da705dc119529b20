/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Scripts for shells and lists for the manual, made from the table of commands. */

#include "command/command.h"

#include <stdio.h>

/** A script that completes command lines in bash. */
void completion_bash(FILE *out);

/** The COMMANDS and OPTIONS of holdfast.1, in scdoc. */
void completion_man(FILE *out);

/** Print the ids of a kind ("volume") that begin with a prefix: `completion ids KIND PREFIX`. */
enum status completion_ids(struct invocation *inv, struct error *err);

/** Print the contexts that begin with a prefix. */
enum status completion_contexts(const char *prefix, struct error *err);
