/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Whether "${" and "%{" in a text are kept as they are written; then "$${" and "%%{" are kept too. */
enum conf_templates {
	CONF_NO_TEMPLATES, /* a mistake; "$${" is "${" */
	CONF_REFERENCES, /* "${NAME}" is kept, with a name of letters, digits and . _ -; all else is a mistake
			  */
	CONF_EXPRESSIONS, /* all are kept, and an expression that is no text is the text "${EXPRESSION}" */
};
