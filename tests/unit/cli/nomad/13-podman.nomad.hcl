job "grafana" {
  datacenters = ["home"]

  group "grafana" {
    volume "grafana" {
      type      = "host"
      source    = "grafana"
      read_only = false
    }

    network {
      port "ui" {
        static = 3000
      }
    }

    task "grafana" {
      driver = "podman"

      config {
        image = "docker.io/grafana/grafana:11.2.0"
        ports = ["ui"]
        extra_hosts = [
          "prometheus:${NOMAD_HOST_IP_ui}",
        ]
      }

      volume_mount {
        volume      = "grafana"
        destination = "/var/lib/grafana"
        read_only   = false
      }

      env = {
        GF_SERVER_HTTP_PORT = "${NOMAD_PORT_ui}"
        GF_SECURITY_ADMIN_PASSWORD = "admin"
      }
    }
  }
}
