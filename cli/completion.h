/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What the table of commands says to bash and to the manual. */

#include "command/command.h"

#include <stdio.h>

void completion_bash(FILE *out);

/** The COMMANDS and OPTIONS of holdfast.1, in scdoc. */
void completion_man(FILE *out);

/** Print the ids of a kind ("volume") that begin with a prefix: `completion ids KIND PREFIX`. */
enum status completion_ids(struct invocation *inv, struct error *err);

/** Print the contexts that begin with a prefix. */
enum status completion_contexts(const char *prefix, struct error *err);

/** "volume" for WORD_VOLUME; "" for WORD_NONE. */
const char *completion_kind(enum word_kind kind);
