# What the token of a node's volume units needs, and no more: holdfast operator policy put volume-units FILE
description = "units that hold volumes"

namespace "default" {
  capabilities = ["submit-job", "csi-mount-volume", "read-job"]
}
