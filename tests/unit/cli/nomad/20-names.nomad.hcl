job "Media_Server.v2" {
  datacenters = ["dc1"]
  name        = "Media Server"

  group "Media Group" {
    stop_after_client_disconnect = "5m"

    disconnect {
      lost_after = "6h"
    }

    task "jelly_fin" {
      driver       = "docker"
      kill_timeout = "20s"
      kind         = "media"

      config {
        image = "jellyfin/jellyfin:10.9"
        tty   = true
        network_mode = "host"
      }

      action "scan" {
        command = "/bin/scan"
      }

      resources {
        cpu    = 4000
        memory = 4096
        network {
          mbits = 10
        }
      }
    }
  }
}
