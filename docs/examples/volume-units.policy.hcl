# What the token of a node's volume units needs, and no more: holdfast operator policy put volume-units FILE
# Bind the token to its node: holdfast operator token create NAME volume-units --node NODE --days 365
description = "units that hold volumes"

namespace "default" {
  capabilities = ["submit-job", "csi-mount-volume", "read-job"]
}
