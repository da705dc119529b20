job "static-site" {
  datacenters = ["dc1"]

  group "nginx" {
    count = 2

    volume "site" {
      type            = "csi"
      source          = "site"
      access_mode     = "multi-node-reader-only"
      attachment_mode = "file-system"
    }

    task "nginx" {
      driver = "docker"

      config {
        image = "nginx:1.27"
        volumes = ["/etc/ssl/certs:/etc/ssl/certs:ro"]
      }

      volume_mount {
        volume      = "site"
        destination = "/usr/share/nginx/html"
        read_only   = true
      }

      resources {
        cpu    = 50
        memory = 64
      }
    }

    reschedule {
      unlimited = true
    }
  }
}
