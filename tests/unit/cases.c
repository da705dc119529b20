/* SPDX-License-Identifier: Apache-2.0 */
/* Reads cases from a text file, and registers each as a case of its own. */

#include "cases.h"

enum { LINE_SIZE = 1 << 16, STEPS_MAX = 64, LETS_MAX = 16 };

static struct let {
	char *name, *text;
} lets[LETS_MAX];
static size_t n_lets;

static void write_many(FILE *out, unsigned long n, const char *text, size_t len, bool commas)
{
	for (unsigned long i = 0; i < n; i++) {
		if (commas && i > 0)
			(void)fputc(',', out);
		for (size_t j = 0; j < len; j++)
			if (text[j] == '#')
				(void)fprintf(out, "%lu", i);
			else
				(void)fputc(text[j], out);
	}
}

/* Write what stands between two '%'. */
static void write_defined(FILE *out, const char *text, size_t len)
{
	char *rest;
	unsigned long n = strtoul(text, &rest, 10);

	if (rest > text) {
		write_many(out, n, rest + 1, len - (size_t)(rest + 1 - text), *rest == ',');
		return;
	}
	for (size_t i = 0; i < n_lets; i++)
		if (strlen(lets[i].name) == len && strncmp(lets[i].name, text, len) == 0) {
			(void)fputs(lets[i].text, out);
			return;
		}
	abort();
}

static char *expand(const char *text)
{
	char *expanded = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&expanded, &size);
	const char *end;

	if (!out)
		abort();
	for (; *text != '\0'; text++) {
		if (*text != '%') {
			(void)fputc(*text, out);
			continue;
		}
		end = strchr(text + 1, '%');
		if (!end)
			abort();
		write_defined(out, text + 1, (size_t)(end - text - 1));
		text = end;
	}
	if (fclose(out) != 0)
		abort();
	return expanded;
}

static void run_case(void **state)
{
	const struct case_text *text = *state;
	size_t n = 0;

	for (size_t i = 0; i < text->n; i++)
		n += text->run(&text->steps[i]);
	if (n > 0)
		fail_msg("%zu mistakes", n);
}

static struct case_text *new_case(const char *name, int line, size_t (*run)(const struct case_step *step))
{
	struct case_text *text = calloc(1, sizeof(*text));

	if (!text)
		abort();
	*text = (struct case_text){
		.name = strdup(name), .steps = calloc(STEPS_MAX, sizeof(*text->steps)), .run = run};
	unit_add(&(const struct CMUnitTest){text->name, run_case, NULL, NULL, text}, line);
	return text;
}

/* Take a whole line: the heading of a case, a step of @text, or a definition. */
static struct case_text *take_line(char *line, int number, struct case_text *text,
				   size_t (*run)(const struct case_step *step))
{
	char *rest = line;
	const char *key = strsep(&rest, " ");

	if (str_eq(key, "=="))
		return new_case(rest, number, run);
	if (str_eq(key, "let")) {
		key = strsep(&rest, " ");
		lets[n_lets++] = (struct let){.name = strdup(key), .text = expand(rest)};
		return text;
	}
	if (!text || text->n == STEPS_MAX)
		abort();
	text->steps[text->n++] =
		(struct case_step){.line = number, .key = strdup(key), .text = expand(rest ? rest : "")};
	return text;
}

void cases_add(const char *path, size_t (*run)(const struct case_step *step))
{
	static char whole[LINE_SIZE], line[LINE_SIZE];
	FILE *f = fopen(path, "re");
	struct case_text *text = NULL;
	int number = 0, first = 0;

	if (!f)
		abort();
	while (fgets(line, sizeof(line), f)) {
		number++;
		line[strcspn(line, "\n")] = '\0';
		if (line[0] == '\t') {
			if (strlen(whole) + strlen(line) >= sizeof(whole))
				abort();
			(void)strcat(whole, line + 1);
			continue;
		}
		if (whole[0] != '\0')
			text = take_line(whole, first, text, run);
		whole[0] = '\0';
		if (line[0] != '#')
			(void)strcpy(whole, line);
		first = number;
	}
	if (whole[0] != '\0')
		(void)take_line(whole, first, text, run);
	(void)fclose(f);
}
