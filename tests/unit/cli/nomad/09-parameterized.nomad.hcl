job "encode" {
  datacenters = ["dc1"]
  type        = "batch"

  parameterized {
    payload       = "required"
    meta_required = ["input"]
  }

  group "encode" {
    task "ffmpeg" {
      driver = "docker"

      dispatch_payload {
        file = "config.json"
      }

      config {
        image = "example/ffmpeg:7"
        args  = ["-i", "${NOMAD_META_input}"]
      }
    }
  }
}
