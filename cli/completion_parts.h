/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Parts that the scripts for all shells share: beginnings of commands, options and kinds of arguments. */

#include "command/command.h"

#include <stdio.h>

enum { COMPLETION_WORDS_MAX = 64, COMPLETION_LEVELS = 3 };

/** A script that completes command lines, as completion_bash() of bash. */
void completion_zsh(FILE *out);
void completion_fish(FILE *out);

/** "volume" for WORD_VOLUME; "" for WORD_NONE. */
const char *completion_kind(enum word_kind kind);

/** Writes the first @n words of command @i; 0 words are "". Returns false when it has fewer, or when an
 * earlier command begins with them and has @more words behind. */
bool completion_first_words(size_t i, int n, int more, char ret[static COMPLETION_WORDS_MAX]);

/** Options for the connection to the server, those with an argument, and those whose argument is of @kind. */
extern const option_set completion_connecting;
option_set completion_with_argument(void);
option_set completion_with_kind(enum word_kind kind);

/** Writes "--output|-o|--socket" with @between instead of "|". */
void completion_put_names(FILE *out, option_set set, const char *between);

/** As completion_kind(), of argument @k of @command; "other" for WORD_NONE. */
const char *completion_argument(const struct command *command, size_t k);
