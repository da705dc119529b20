job "traefik" {
  datacenters = ["dc1"]
  type        = "service"

  constraint {
    attribute = "${attr.kernel.name}"
    value     = "linux"
  }

  group "traefik" {
    count = 1

    network {
      mode = "bridge"
      port "http" {
        static = 80
      }
      port "api" {
        static = 8081
      }
    }

    service {
      name     = "traefik"
      provider = "nomad"
      port     = "http"
    }

    task "traefik" {
      driver = "docker"

      config {
        image        = "traefik:v3.1"
        network_mode = "host"
        volumes = [
          "local/traefik.toml:/etc/traefik/traefik.toml",
        ]
      }

      template {
        data = <<EOF
[entryPoints]
  [entryPoints.http]
  address = ":80"
EOF
        destination = "local/traefik.toml"
      }

      resources {
        cpu    = 100
        memory = 128
      }
    }
  }
}
