job "ghost" {
  datacenters = ["dc1"]
  type        = "service"

  vault {}

  group "ghost" {
    volume "content" {
      type            = "csi"
      source          = "ghost"
      access_mode     = "single-node-writer"
      attachment_mode = "file-system"
    }

    restart {
      attempts = 10
      interval = "5m"
      delay    = "25s"
      mode     = "delay"
    }

    task "ghost" {
      driver = "docker"

      config {
        image   = "ghost:5"
        dns_servers = ["192.0.2.1"]
      }

      template {
        destination = "secrets/env"
        env         = true
        data        = <<-EOT
          {{ with nomadVar "nomad/jobs/ghost" }}
          database__connection__password={{ .password }}
          {{ end }}
        EOT
      }

      template {
        destination = "local/config.json"
        data        = "{}"
        change_mode = "restart"
      }

      env {
        url      = "https://blog.example.org"
        NODE_ENV = "production"
        ALLOC    = "${NOMAD_ALLOC_ID}"
      }

      volume_mount {
        volume      = "content"
        destination = "/var/lib/ghost/content"
      }

      resources {
        cpu    = 500
        memory = 512
      }
    }
  }
}
