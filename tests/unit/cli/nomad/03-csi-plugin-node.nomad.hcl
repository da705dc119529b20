job "plugin-nfs-nodes" {
  datacenters = ["*"]
  type        = "system"

  group "nodes" {
    count = 1

    task "plugin" {
      driver = "docker"

      config {
        image      = "registry.k8s.io/sig-storage/nfsplugin:v4.9.0"
        privileged = true
        args = [
          "--endpoint=unix://csi/csi.sock",
          "--nodeid=${attr.unique.hostname}",
          "--v=5",
        ]
      }

      csi_plugin {
        id                     = "nfs"
        type                   = "node"
        mount_dir              = "/csi"
        stage_publish_base_dir = "/local/csi"
        health_timeout         = "30s"
      }

      resources {
        cpu    = 100
        memory = 64
      }
    }
  }
}
