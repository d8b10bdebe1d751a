# An image whose machines only write a file and start: agent, runner program and unit are in it. See README.md.
packer {
  required_version = ">= 1.9.0"
  required_plugins {
    amazon = {
      source  = "github.com/hashicorp/amazon"
      version = ">= 1.3.0"
    }
  }
}

variable "region" {
  type = string
}

variable "subnet_id" {
  type        = string
  default     = null
  description = "Where the image is built; without it, the default network."
}

variable "architecture" {
  type        = string
  default     = "x86_64"
  description = "x86_64 or arm64: of the image, the agent and the runner program alike."
  validation {
    condition     = contains(["x86_64", "arm64"], var.architecture)
    error_message = "The architecture must be x86_64 or arm64."
  }
}

variable "agent_url" {
  type = string
}

variable "agent_sha256" {
  type = string
}

variable "runner_url" {
  type        = string
  description = "GitHub's actions-runner as .tar.gz, or GitLab's gitlab-runner binary."
}

variable "runner_sha256" {
  type = string
}

variable "jobs_sudo" {
  type        = bool
  default     = false
  description = "Every job is root on its machine, and can read the metadata service. Only with clean = \"replace\"."
}

locals {
  debian_architecture = { x86_64 = "amd64", arm64 = "arm64" }[var.architecture]
}

source "amazon-ebs" "runner" {
  region        = var.region
  subnet_id     = var.subnet_id
  instance_type = { x86_64 = "m6i.large", arm64 = "m7g.large" }[var.architecture]
  ssh_username  = "ubuntu"
  ami_name      = "motorpool-${var.architecture}-${formatdate("YYYYMMDDhhmmss", timestamp())}"

  source_ami_filter {
    most_recent = true
    owners      = ["099720109477"] # Canonical
    filters = {
      name                = "ubuntu/images/hvm-ssd*/ubuntu-noble-24.04-${local.debian_architecture}-server-*"
      architecture        = var.architecture
      root-device-type    = "ebs"
      virtualization-type = "hvm"
    }
  }

  launch_block_device_mappings {
    device_name           = "/dev/sda1"
    volume_size           = 12
    volume_type           = "gp3"
    iops                  = 3000
    throughput            = 125
    encrypted             = true
    delete_on_termination = true
  }

  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }
  # Machines from this image refuse IMDSv1, whoever launches them.
  imds_support = "v2.0"

  # A build that hangs does not leave a machine behind.
  shutdown_behavior = "terminate"
  run_tags = {
    Name = "motorpool image build"
  }
  tags = {
    Name            = "motorpool ${var.architecture}"
    "runner-sha256" = var.runner_sha256
    "agent-sha256"  = var.agent_sha256
  }
}

build {
  sources = ["source.amazon-ebs.runner"]

  provisioner "shell" {
    inline = ["mkdir -p /tmp/motorpool/infra"]
  }
  provisioner "file" {
    sources     = ["${path.root}/../runner", "${path.root}/../systemd", "${path.root}/../packer"]
    destination = "/tmp/motorpool/infra"
  }
  provisioner "shell" {
    inline = ["sudo --preserve-env sh /tmp/motorpool/infra/packer/install.sh"]
    environment_vars = [
      "AGENT_URL=${var.agent_url}",
      "AGENT_SHA256=${var.agent_sha256}",
      "RUNNER_URL=${var.runner_url}",
      "RUNNER_SHA256=${var.runner_sha256}",
      "JOBS_SUDO=${var.jobs_sudo ? "yes" : ""}",
    ]
  }
}
