#pragma once
/* What the table of commands says to bash and to the manual. */

#include <stdio.h>

void completion_bash(FILE *out);

/** The COMMANDS and OPTIONS of holdfast.1, in scdoc. */
void completion_man(FILE *out);
