/* SPDX-License-Identifier: Apache-2.0 */
#include "base/exit_code.h"

#include <errno.h>

int exit_code_of_start(const struct error *err)
{
	switch (err->status) {
	case STATUS_INVALID_ARGUMENT:
	case STATUS_NOT_FOUND:
	case STATUS_PERMISSION_DENIED:
	case STATUS_FAILED_PRECONDITION:
		/* another process may release the address or the store, or the network may bring it yet */
		if (err->sys_errno == EADDRINUSE || err->sys_errno == EADDRNOTAVAIL ||
		    err->sys_errno == EBUSY)
			return EXIT_CODE_FAILED;
		return EXIT_CODE_SETTINGS;
	case STATUS_OK:
	case STATUS_CANCELLED:
	case STATUS_UNKNOWN:
	case STATUS_DEADLINE_EXCEEDED:
	case STATUS_ALREADY_EXISTS:
	case STATUS_RESOURCE_EXHAUSTED:
	case STATUS_ABORTED:
	case STATUS_OUT_OF_RANGE:
	case STATUS_UNIMPLEMENTED:
	case STATUS_INTERNAL:
	case STATUS_UNAVAILABLE:
	case STATUS_DATA_LOSS:
	case STATUS_UNAUTHENTICATED:
	case STATUS_N:
		break;
	}
	return EXIT_CODE_FAILED;
}
