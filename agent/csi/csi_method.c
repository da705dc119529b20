#include "csi/csi_method.h"
