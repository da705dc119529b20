/* SPDX-License-Identifier: Apache-2.0 */
#include "hosts.h"

#include "unit.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* iproute2 and util-linux know how. */
__attribute__((format(printf, 1, 2))) static void run(const char *format, ...)
{
	char command[256];
	va_list args;

	va_start(args, format);
	/* NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): it is started in the line before */
	(void)vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	if (system(command) != 0) /* NOLINT(cert-env33-c): of constants and numbers */
		fail_msg("failed: %s", command);
}

static pid_t keep_namespace(void)
{
	int ends[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (unshare(CLONE_NEWNET) < 0 || write(ends[1], "r", 1) != 1)
			_exit(1);
		for (;;)
			(void)pause();
	}
	(void)close(ends[1]);
	assert_int_equal(read(ends[0], &byte, 1), 1);
	(void)close(ends[0]);
	return pid;
}

void hosts_new(struct hosts *hosts, size_t n)
{
	assert_true(n <= HOSTS_MAX);
	assert_int_equal(unshare(CLONE_NEWNET), 0);
	*hosts = (struct hosts){.n = n};
	hosts->keepers[n] = getpid();
	(void)str_format(hosts->addresses[n], HOST_ADDRESS_SIZE, "10.99.0.1");
	run("ip link set lo up && ip link add br0 type bridge && ip address add %s/24 dev br0 && "
	    "ip link set br0 up",
	    hosts->addresses[n]);
	for (size_t i = 0; i < n; i++) {
		int pid = hosts->keepers[i] = keep_namespace();

		(void)str_format(hosts->addresses[i], HOST_ADDRESS_SIZE, "10.99.0.%zu", 10 + i);
		run("ip link add v%zu type veth peer name eth0 netns %d && ip link set v%zu master br0 up", i,
		    pid, i);
		run("nsenter -t %d -n sh -c 'ip link set lo up && ip address add %s/24 dev eth0 && "
		    "ip link set eth0 up'",
		    pid, hosts->addresses[i]);
	}
}

void hosts_free(struct hosts *hosts)
{
	for (size_t i = 0; i < hosts->n; i++) {
		(void)kill(hosts->keepers[i], SIGKILL);
		(void)waitpid(hosts->keepers[i], NULL, 0);
	}
	hosts->n = 0;
}

void hosts_enter(const struct hosts *hosts, size_t i)
{
	char path[64];
	int fd;

	(void)str_format(path, sizeof(path), "/proc/%d/ns/net", (int)hosts->keepers[i]);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET) < 0)
		_exit(126);
	(void)close(fd);
}

static const char *device_of(const struct hosts *hosts, size_t i)
{
	return i == hosts->n ? "br0" : "eth0";
}

/* To an address of the link that nobody has. */
void hosts_cut(const struct hosts *hosts, size_t from, size_t to)
{
	run("nsenter -t %d -n ip neighbour replace %s lladdr 02:00:00:00:00:01 nud permanent dev %s",
	    (int)hosts->keepers[from], hosts->addresses[to], device_of(hosts, from));
}

void hosts_heal(const struct hosts *hosts, size_t i)
{
	run("nsenter -t %d -n ip neighbour flush dev %s nud permanent", (int)hosts->keepers[i],
	    device_of(hosts, i));
}
