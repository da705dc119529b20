#include "csi/csi_map.h"
