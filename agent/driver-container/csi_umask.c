/* SPDX-License-Identifier: Apache-2.0 */
/* First program of a container that is a CSI plugin: lets groups write, and becomes the plugin.
 *
 * The socket that the plugin binds is the agent's by the default ACL of its folder, and bind(2) heeds the
 * umask in spite of it: engines start programs with 0022, with which the agent could not connect. The driver
 * mounts this program into the container, so it is linked statically and needs nothing of the image. */

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NOT_FOUND = 127 };

int main(int argc, char **argv)
{
	if (argc < 2) {
		(void)fputs("csi-umask: neither the image nor the task names a program\n", stderr);
		return NOT_FOUND;
	}
	(void)umask(S_IWOTH);
	(void)execvp(argv[1], argv + 1);
	(void)fprintf(stderr, "csi-umask: cannot start %s: ", argv[1]);
	perror(NULL);
	return NOT_FOUND;
}
