#include "csi/csi_text.h"
