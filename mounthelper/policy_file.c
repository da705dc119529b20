#include "policy_file.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/path.h"

#include <fcntl.h>
#include <sodium.h>

enum status policy_file_load(int root_fd, const char *path, struct policy *ret,
			     uint8_t ret_digest[static TICKET_DIGEST_SIZE], unsigned int *ret_line,
			     struct error *err)
{
	cleanup_close int fd = path_open_trusted_file(root_fd, path, 0, O_RDONLY, 0);
	cleanup_free char *text = NULL;
	size_t n;
	int r = fd < 0 ? fd : fd_read_all(fd, POLICY_TEXT_MAX, &text, &n);

	if (r < 0)
		return error_set(err, status_from_errno(r), r, "policy %s", path);
	(void)crypto_hash_sha256(ret_digest, (const unsigned char *)text, n);
	return policy_parse(path, text, n, ret, ret_line, err);
}
