/* SPDX-License-Identifier: Apache-2.0 */
/* A user-space file system with nothing in it, to be killed: fuse_server FOLDER UID
 *
 * Mounts itself at FOLDER, whose root then belongs to UID, prints "ready" and serves until it is killed or
 * unmounted. Speaks to /dev/fuse itself, so that no library tidies up after its death. */

#include "base/parse.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { REQUEST_MAX = FUSE_MIN_READ_BUFFER + (1 << 17), MINOR = 31, BLOCK = 4096 };

static _Noreturn void die(const char *what)
{
	perror(what);
	exit(1);
}

static void reply(int fd, const struct fuse_in_header *request, int error, const void *body, size_t n)
{
	struct fuse_out_header header = {
		.len = (uint32_t)(sizeof(header) + n), .error = -error, .unique = request->unique};
	struct iovec parts[] = {{&header, sizeof(header)}, {(void *)(uintptr_t)body, n}};

	/* ENOENT: who asked has gone meanwhile */
	if (writev(fd, parts, n > 0 ? 2 : 1) < 0 && errno != ENOENT)
		die("reply");
}

static void serve(int fd, const struct fuse_in_header *request, uint32_t uid)
{
	const struct fuse_attr_out root = {
		.attr_valid = 0,
		.attr = {.ino = FUSE_ROOT_ID,
			 .mode = S_IFDIR | 0755,
			 .nlink = 2,
			 .uid = uid,
			 .blksize = BLOCK},
	};
	const struct fuse_init_out init = {.major = FUSE_KERNEL_VERSION, .minor = MINOR, .max_write = BLOCK};
	const struct fuse_statfs_out statfs = {.st = {.bsize = BLOCK, .frsize = BLOCK, .namelen = 255}};
	const struct fuse_open_out opened = {.fh = 1};

	switch (request->opcode) {
	case FUSE_INIT:
		reply(fd, request, 0, &init, sizeof(init));
		return;
	case FUSE_GETATTR:
		reply(fd, request, 0, &root, sizeof(root));
		return;
	case FUSE_STATFS:
		reply(fd, request, 0, &statfs, sizeof(statfs));
		return;
	case FUSE_OPENDIR:
		reply(fd, request, 0, &opened, sizeof(opened));
		return;
	case FUSE_READDIR:
	case FUSE_RELEASEDIR:
	case FUSE_DESTROY:
		reply(fd, request, 0, NULL, 0);
		return;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		return; /* are not answered */
	case FUSE_LOOKUP:
		reply(fd, request, ENOENT, NULL, 0);
		return;
	default:
		reply(fd, request, ENOSYS, NULL, 0);
		return;
	}
}

int main(int argc, char **argv)
{
	static union {
		struct fuse_in_header header;
		char bytes[REQUEST_MAX];
	} request;
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	char options[96];
	uint32_t uid;

	if (argc != 3 || parse_u32(argv[2], 0, UINT32_MAX, &uid) < 0) {
		(void)fprintf(stderr, "usage: fuse_server FOLDER UID\n");
		return 2;
	}
	if (fd < 0)
		die("/dev/fuse");
	(void)str_format(options, sizeof(options), "fd=%d,rootmode=40755,user_id=0,group_id=0,allow_other",
			 fd);
	if (mount("fuse_server", argv[1], "fuse", MS_NOSUID | MS_NODEV, options) < 0)
		die(argv[1]);
	if (puts("ready") < 0 || fflush(stdout) < 0)
		die("ready");
	for (;;) {
		ssize_t n = read(fd, request.bytes, sizeof(request.bytes));

		if (n >= (ssize_t)sizeof(request.header))
			serve(fd, &request.header, uid);
		else if (n >= 0 || errno == ENODEV)
			return 0; /* unmounted */
		else if (errno != EINTR && errno != ENOENT && errno != EAGAIN)
			die("request");
	}
}
