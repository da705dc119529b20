# The volume of the quick start in README.md: 16 MiB of memory, for one writer at a time.
id      = "notes"
type    = "native"
profile = "scratch"
source {
  class  = "tmpfs"
  size   = "16MiB"
  inodes = 1024
}
capability {
  access_mode     = "single-node-writer"
  attachment_mode = "file-system"
}
