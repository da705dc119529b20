# /etc/holdfast/holdfast-driver-container.hcl: root's word on what tasks may do here, see holdfast-driver-container.hcl(5).
cluster     = "prod"
node_id     = "worker-1"
ticket_keys = ["8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c"] # ticket.pub of the claim server

engine = "/run/holdfast-driver/podman.sock" # for Docker: /run/docker.sock

old_runc = "refuse" # with Debian's Docker no task starts, see holdfast-driver-container.hcl(5)

# What is not listed is refused.
images   = ["registry.example.org/web/*", "localhost/tools:1"]
users    = ["1000"] # "image": whom the image says; uid 0 only as "0" or "root"
networks = ["none", "isolated"]

# An isolated network is held by a container that does nothing.
infra {
  image   = "localhost/tools:1"
  command = ["/bin/sleep", "2147483647"]
}

# A CSI plugin that a task may be, see CSI drivers in the documentation. Most run as uid 0: users has to name "0" and "image".
csi_plugin "hostpath" {
  images     = ["registry.example.org/csi/hostpath:1.12.1"]
  privileged = true
}
