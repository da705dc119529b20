job "shop" {
  datacenters = ["dc1"]

  group "shop" {
    network {
      mode = "bridge"
      port "http" {
        to = 8080
      }
    }

    service {
      name = "shop"
      port = "http"
      connect {
        sidecar_service {}
      }
    }

    task "migrate" {
      driver = "docker"
      lifecycle {
        hook    = "prestart"
        sidecar = false
      }
      config {
        image = "example/shop:5"
        args  = ["migrate"]
      }
    }

    task "Shop_Server" {
      driver = "docker"
      leader = true
      config {
        image           = "example/shop:5"
        readonly_rootfs = true
        init            = true
        cap_drop        = ["all"]
        cap_add         = ["net_bind_service"]
        labels {
          app = "shop"
        }
        logging {
          type = "journald"
        }
      }
      env {
        LISTEN = ":${NOMAD_PORT_http}"
      }
      logs {
        max_files     = 3
        max_file_size = 10
      }
    }

    task "log-shipper" {
      driver = "docker"
      lifecycle {
        hook    = "poststart"
        sidecar = true
      }
      config {
        image = "example/vector:0.40"
      }
      logs {
        disabled = true
      }
    }
  }
}
