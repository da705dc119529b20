# The node of the quick start in README.md. Its certificates are those that `holdfast-server --dev` has made.
cluster = "dev"
node_id = "quickstart"
server {
  host       = "127.0.0.1"
  server_uri = "holdfast://dev/server/dev"
}
tls {
  ca   = "/run/holdfast-quickstart/tls/ca.pem"
  cert = "/run/holdfast-quickstart/tls/node-quickstart.pem"
}
helper {
  socket = "/run/holdfast-mount/mounthelper.sock"
}
