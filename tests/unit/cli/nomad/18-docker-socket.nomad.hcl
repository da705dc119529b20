job "watchdog" {
  datacenters = ["dc1"]
  type        = "system"

  group "watchdog" {
    task "watchdog" {
      driver = "docker"

      config {
        image = "example/watchdog:2"
        volumes = [
          "/var/run/docker.sock:/var/run/docker.sock",
          "/proc:/host/proc:ro",
        ]
        pid_mode = "host"
      }

      resources {
        cpu    = 50
        memory = 50
      }
    }
  }
}
