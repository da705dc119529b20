/* SPDX-License-Identifier: Apache-2.0 */
#include "sim.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LOG_END_SIZE = 8192 };

/* The folder may go with the machine of the test. */
static void print_end_of_log(const struct sim *sim)
{
	char path[PATH_MAX], text[LOG_END_SIZE];
	cleanup_close int fd = -EBADF;
	ssize_t n = 0;

	(void)str_format(path, sizeof(path), "%s/server.log", sim->dir);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	(void)lseek(fd, -(off_t)sizeof(text), SEEK_END); /* of a shorter one all is read */
	while ((n = read(fd, text, sizeof(text))) > 0)
		(void)fwrite(text, 1, (size_t)n, stderr);
	(void)fputc('\n', stderr);
}

_Noreturn void sim_fail(const struct sim *sim, const char *format, ...)
{
	va_list ap;

	print_end_of_log(sim);
	sim->print_where(sim);
	va_start(ap, format);
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): it is started in the line before */
	(void)vfprintf(stderr, format, ap);
	va_end(ap);
	(void)fputc('\n', stderr);
	sim->print_rerun(sim);
	(void)fprintf(stderr, "left for you: %s\n", sim->dir);
	if (sim->server_pid > 0)
		(void)kill(sim->server_pid, SIGKILL);
	_exit(EXIT_FAILURE);
}

/* splitmix64 */
uint64_t sim_random(struct sim *sim, uint64_t n)
{
	uint64_t z = sim->rng += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return (z ^ (z >> 31)) % n;
}

void sim_make_uuid(struct sim *sim, char ret[static UUID_TEXT_SIZE])
{
	uint64_t a = sim_random(sim, UINT64_MAX);
	uint64_t b = sim_random(sim, UINT64_MAX);

	(void)str_format(ret, UUID_TEXT_SIZE, "%08x-%04x-4%03x-8%03x-%012llx", (unsigned int)(a >> 32),
			 (unsigned int)(a >> 16) & 0xffff, (unsigned int)a & 0xfff,
			 (unsigned int)(b >> 48) & 0xfff, (unsigned long long)b & 0xffffffffffffULL);
}

int sim_volume_of(const struct sim *sim, const char *id)
{
	for (int i = 0; i < sim->n_volumes; i++)
		if (str_eq(sim->volumes[i].id, id))
			return i;
	sim_fail(sim, "nobody knows volume '%s'", id);
}
